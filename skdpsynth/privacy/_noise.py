"""The base of all noises, and their scales: rational numbers, or arrays of them."""

import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from skdpsynth._sensitivity import Sensitivity
from skdpsynth._validation import as_array, check_integer, check_memory, check_type, is_integer, is_real, short_repr
from skdpsynth.privacy._losses import PrivacyLoss, to_fraction
from skdpsynth.privacy._random import RandomBits, check_stream

LARGEST = 2**58
SMALLEST = Fraction(1, 100)
MOST_VALUES = 1 << 60  # of one release: more than any memory holds
MAX_CACHED_TABLES = 64  # tables of one kind
_FEW = 2000  # values of each scale: more take longer by rejection than by a table that is made for them

Size = int | Sequence[int]
Sampler = Callable[[Fraction, int, RandomBits], np.ndarray]


@dataclass(frozen=True)
class Noise(ABC):
    """Noise that is independent of the data and exact, with one scale or one for each value.

    A new noise is one file that defines `sample`, `variance`, the `norm` that it covers, and its loss.
    """

    scale: Any
    norm: ClassVar[str]  # of a sensitivity, which this noise covers; without a default, since a wrong one would understate its loss
    _serves_scales: ClassVar[bool] = True

    def __post_init__(self) -> None:
        scale = check_scale(self.scale)
        if isinstance(scale, np.ndarray) and not self._serves_scales:
            raise ValueError("scale must be one number for all values, got an array; weight the values instead.")
        object.__setattr__(self, "scale", scale)

    @abstractmethod
    def sample(self, size: Size, rng: RandomBits) -> np.ndarray:
        """Draw an int64 array of shape `size` with the bits of `rng`."""

    @abstractmethod
    def variance(self, n_values: int = 1) -> Any:
        """Return the variance of a draw, where `n_values` are drawn together."""

    @classmethod
    def moved_by(cls, sensitivity: Sensitivity) -> Fraction:
        """Return the norm of a sensitivity that this noise covers, or raise ValueError if it has none."""
        check_type("sensitivity", sensitivity, Sensitivity, "a Sensitivity, as a statistic tells it")
        moved: Fraction | None = getattr(sensitivity, cls.norm)
        if moved is None:
            raise ValueError(
                "sensitivity must state its nuclear norm for matrix Laplace noise, got none; list a whole one, or use Laplace."
            )
        return moved

    @classmethod
    def _finite_losses(cls, moved: Fraction, scale: Fraction) -> tuple[PrivacyLoss, ...]:
        """Return the losses of values that move by a norm, at a positive scale: here the log density moves by that over the scale."""
        return (PrivacyLoss(epsilon=moved / scale),)

    @property
    def scales(self) -> tuple[Fraction, ...]:
        """The different scales, the least first."""
        return (self.scale,) if isinstance(self.scale, Fraction) else tuple(sorted(set(np.ravel(self.scale).tolist())))

    def losses(self, sensitivity: Sensitivity) -> tuple[PrivacyLoss, ...]:
        """Return every loss that covering a sensitivity can be charged as, each true by itself; none where nothing moves.

        With several scales every value may be the one with the least.
        """
        check_type("sensitivity", sensitivity, Sensitivity, "a Sensitivity, as a statistic tells it")
        least = self.scales[:1]
        if not sensitivity.sup or not least:  # no scales: an array of none, for no values
            return ()
        return self._finite_losses(self.moved_by(sensitivity), least[0]) if least[0] else (PrivacyLoss(epsilon=math.inf),)

    def check_size(self, n_values: int) -> None:
        """Raise ValueError if so many values are too many; most noises serve any number."""
        check_integer("n_values", n_values)

    def check_shape(self, shape: tuple[int, ...], in_stack: bool = False) -> None:
        """Raise ValueError unless there is one scale, or scales that broadcast to values of this shape.

        `in_stack` says that a sensitivity is stated for all of several matrices, for noise that would else serve one.
        """
        shape = shape_of(shape, "shape")
        if isinstance(self.scale, np.ndarray) and not is_broadcastable(self.scale, shape):
            raise ValueError(
                f"noise must have one scale, or scales that broadcast to the values of shape {shape}, "
                f"got scales of shape {np.shape(self.scale)}; reshape one of them."
            )
        self.check_size(math.prod(shape))

    def describe(self) -> str:
        """Return kind and scale in words."""
        return describe_noise(type(self).__name__, self.scales)

    def _sample_by_scale(self, size: Size, rng: RandomBits, sample_one: Sampler, by_rejection: Sampler) -> np.ndarray:
        """Draw an array of shape `size`, by an exact sampler for each distinct scale.

        Where there are more scales than cached tables and each has few values, rejection is quicker: its proposals have whole scales, which
        return.
        """
        check_stream(rng)
        shape, scale = shape_of(size), self.scale
        count = math.prod(shape)
        if isinstance(scale, Fraction):
            draws = sample_one(scale, count, rng) if scale else np.zeros(count, dtype=np.int64)
            return draws.reshape(shape)
        if not is_broadcastable(scale, shape):
            raise ValueError(f"size must be a shape that scales of shape {np.shape(scale)} broadcast to, got {shape}.")
        values = self.scales
        number_of = {value: number for number, value in enumerate(values)}
        numbered = np.array([number_of[value] for value in np.ravel(scale).tolist()], dtype=np.int64).reshape(np.shape(scale))
        of_each = np.broadcast_to(numbered, shape).ravel()
        order, ends = np.argsort(of_each, kind="stable"), np.cumsum(np.bincount(of_each, minlength=len(values))).tolist()
        sample = by_rejection if len(values) > MAX_CACHED_TABLES and count < _FEW * len(values) else sample_one
        out = np.zeros(count, dtype=np.int64)
        for value, start, end in zip(values, [0, *ends], ends, strict=False):
            if value:
                out[order[start:end]] = sample(value, end - start, rng)
        return out.reshape(shape)


def check_int64(values: object) -> np.ndarray:
    values = as_array(values)
    if values.dtype != np.int64:
        raise TypeError(f"values must be int64, so that their sensitivity is exact, got {values.dtype}; quantize them first.")
    return values


def check_scale(scale: object) -> Any:
    """Return `scale` as a Fraction, or as a read-only object array of Fractions."""

    def check_one(value: object) -> Fraction:
        with suppress(ValueError, OverflowError):  # nan, infinities, more than floats hold
            fraction = to_fraction(value) if is_real(value) else None
            if fraction is not None and (fraction == 0 or SMALLEST <= fraction <= LARGEST):
                return fraction
        raise ValueError(
            f"scale must be 0 or between 1/100 and 2**58, got {short_repr(value)}; "
            "rescale the integers that are released, or give this release another share of the budget."
        )

    if isinstance(scale, numbers.Real):
        return check_one(scale)
    array = as_array(scale, object)
    if array.ndim == 0:
        return check_one(array[()] if isinstance(scale, np.ndarray) else scale)
    listed = array.ravel().tolist()
    if not all(map(is_real, listed)):
        check_one(scale)
    unique = {value: check_one(value) for value in set(listed)}
    out = np.empty(array.shape, dtype=object)
    out.ravel()[:] = [unique[value] for value in listed]
    out.setflags(write=False)
    return out


def shape_of(size: Size, name: str = "size") -> tuple[int, ...]:
    """Return the shape of as many values as memory holds, or raise ValueError."""
    shape = (size,) if is_integer(size, 0) else tuple(size) if isinstance(size, tuple | list) else (None,)
    if not all(is_integer(side, 0) for side in shape):
        raise ValueError(f"{name} must be a whole number or a tuple of them, got {short_repr(size)}.")
    shape = tuple(map(int, shape))
    check_memory(name, size, 8 * math.prod(shape))
    return shape


def describe_noise(kind: str, scales: tuple[Fraction, ...]) -> str:
    return f"{kind}(scale={', '.join(f'{float(scale):.6g}' for scale in scales)})"


def is_broadcastable(scale: ArrayLike, shape: tuple[int, ...]) -> bool:
    """Whether scales broadcast to values of a shape, and leave it as it is."""
    try:
        return np.broadcast_shapes(np.shape(scale), shape) == shape
    except ValueError:
        return False
