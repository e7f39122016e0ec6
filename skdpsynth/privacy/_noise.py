"""The base of all noises."""

import math
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Any

import numpy as np

from skdpsynth._arrays import as_array
from skdpsynth._sensitivity import Sensitivity
from skdpsynth._validation import check_integer, check_type
from skdpsynth.privacy._losses import PrivacyLoss
from skdpsynth.privacy._random import RandomBits
from skdpsynth.privacy._scales import describe_noise, distinct_scales, is_broadcastable, shape_of


class Noise(ABC):
    """Noise that is independent of the data and exact, with one scale or one for each value.

    A new noise is one file that defines `sample`, `variance` and its loss.
    """

    scale: Any

    @abstractmethod
    def sample(self, size: Any, rng: RandomBits) -> np.ndarray:
        """Draw an int64 array of shape `size` with the bits of `rng`."""

    @abstractmethod
    def variance(self, n_values: int = 1) -> Any:
        """Return the variance of a draw, where `n_values` are drawn together."""

    @abstractmethod
    def _finite_loss(self, sensitivity: Sensitivity, scale: Fraction) -> PrivacyLoss:
        """Return the cost of covering a sensitivity with a positive scale."""

    def _finite_losses(self, sensitivity: Sensitivity, scale: Fraction) -> tuple[PrivacyLoss, ...]:
        """Return every loss that a noise can be charged as: each is true by itself."""
        return (self._finite_loss(sensitivity, scale),)

    @property
    def scales(self) -> tuple[Fraction, ...]:
        """The different scales, the least first."""
        return distinct_scales(self.scale)

    def loss(self, sensitivity: Sensitivity) -> PrivacyLoss | None:
        """Return the cost of covering a sensitivity with this noise; None where nothing moves.

        With several scales every value may be the one with the least.
        """
        return next(iter(self.losses(sensitivity)), None)

    def losses(self, sensitivity: Sensitivity) -> tuple[PrivacyLoss, ...]:
        """Return `loss`, and the same in other terms: Gaussian noise has its own loss beside zCDP."""
        check_type("sensitivity", sensitivity, Sensitivity, "a Sensitivity, as a statistic tells it")
        if not sensitivity.sup or not self.scales:  # no scales: an array of none, for no values
            return ()
        least = self.scales[0]
        return self._finite_losses(sensitivity, least) if least else (PrivacyLoss(epsilon=float("inf")),)

    def check_size(self, n_values: int) -> None:
        """Raise ValueError if so many values are too many; most noises serve any number."""
        check_integer("n_values", n_values)

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """Raise ValueError unless there is one scale, or scales that broadcast to values of this shape."""
        shape = shape_of(shape, "shape")
        if not is_broadcastable(self.scale, shape):
            raise ValueError(
                f"noise must have one scale, or scales that broadcast to the values of shape {shape}, "
                f"got scales of shape {np.shape(self.scale)}; reshape one of them."
            )
        self.check_size(math.prod(shape))

    def describe(self) -> str:
        """Return kind and scale in words."""
        return describe_noise(type(self).__name__, self.scales)


def check_int64(values: Any) -> np.ndarray:
    values = as_array(values)
    if values.dtype != np.int64:
        raise TypeError(f"values must be int64, so that their sensitivity is exact, got {values.dtype}; quantize them first.")
    return values
