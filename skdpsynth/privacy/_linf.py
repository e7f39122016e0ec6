"""Exact noise for sup-norm sensitivity: P(z) proportional to exp(-max|z_i| / scale)."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from skdpsynth._sensitivity import Sensitivity
from skdpsynth._validation import check_integer, short_repr
from skdpsynth.privacy._laplace import draw_geometric
from skdpsynth.privacy._losses import PrivacyLoss
from skdpsynth.privacy._noise import MOST_VALUES, Noise, check_scale, shape_of
from skdpsynth.privacy._random import RandomBits, check_stream


@dataclass(frozen=True)
class DiscreteSupNorm(Noise):
    """Noise on Z^D with ``P(z)`` proportional to ``exp(-max(abs(z)) / scale)``: the K-norm mechanism of the sup norm.

    Added to integers that all move by at most D_inf together it is (D_inf / scale)-differentially private: the exponent
    changes by at most that. Where every entry moves at once, as in a second moment, it is less noise than Laplace's. Draws are exact.

    Parameters
    ----------
    scale : number
        Non-negative and rational: an int, a Fraction, or a float, which stands for the decimal it prints. 0 means no noise.
        One number for all values.

    Raises
    ------
    ValueError
        If the scale is negative, not finite, or outside [1/100, 2**58] and not 0; or if it is an array.

    See Also
    --------
    DiscreteLaplace : For values of which one row moves few.
    skdpsynth.privacy.mechanism : Noise and cost from a sensitivity.

    Notes
    -----
    A radius R with ``P(R)`` proportional to ``exp(-R / scale) (2 R + 1)**D``, then a uniform point of ``[-R, R]^D``: summed over
    R the law is the one above. R is a sum of D + 1 geometrics, accepted with probability ``prod_{i <= D} (2 R + 1) / (2 R + 2 i)``,
    in whole numbers.

    References
    ----------
    Hardt, Talwar (2010), "On the geometry of differential privacy": the K-norm mechanism.

    Examples
    --------
    >>> from skdpsynth.privacy import DiscreteSupNorm, check_rng
    >>> DiscreteSupNorm(10).sample((3, 2), check_rng(None)).shape
    (3, 2)
    """

    scale: Any

    def __post_init__(self) -> None:
        scale = check_scale(self.scale)
        if isinstance(scale, np.ndarray):
            raise ValueError("scale must be one number for all values, got an array; weight the values instead.")
        object.__setattr__(self, "scale", scale)

    def sample(self, size: Any, rng: RandomBits) -> np.ndarray:
        """Draw an int64 array of shape `size`, one point of Z^D with D its number of entries, with the bits of `rng`."""
        check_stream(rng)
        shape = shape_of(size)
        count = math.prod(shape)
        self.check_size(count)
        if not self.scale or not count:
            return np.zeros(shape, dtype=np.int64)
        return _draw_cube(_draw_radius(self.scale, count, rng), count, rng).reshape(shape)

    def _finite_loss(self, sensitivity: Sensitivity, scale: Fraction) -> PrivacyLoss:
        # The exponent max|z_i| / scale changes by at most the largest change.
        return PrivacyLoss(epsilon=sensitivity.sup / scale)

    def check_size(self, n_values: int) -> None:
        """Raise ValueError if so many values are too many for this scale: the sampler would wait too long."""
        super().check_size(n_values)
        # A radius is about n_values * scale, and accepted with probability about exp(-n_values / (2 scale)).
        if self.scale and n_values > 8 * self.scale + 8:
            given = f"{float(self.scale):g} for {short_repr(n_values)}"
            raise ValueError(f"scale must be at least an eighth of the number of values, got {given}; use Laplace noise.")

    def variance(self, n_values: int = 1) -> float:
        """Return, to a relative error of about 1 / scale, the variance of one of `n_values` entries as a float."""
        n_values = check_integer("n_values", n_values, 0, MOST_VALUES)
        # E R (R + 1) / 3, and R is about a gamma variable of shape D + 1.
        return float(self.scale) ** 2 * (n_values + 1) * (n_values + 2) / 3


def _draw_radius(scale: Fraction, count: int, rng: RandomBits) -> int:
    """Draw R, a Python integer: a negative binomial, thinned to its law."""
    while True:
        low, high, shift = draw_geometric(scale, count + 1, rng)
        radius = sum(low.tolist()) + (sum(high.tolist()) << shift)
        # Each factor (2 R + 1) / (2 R + 2 i) is a coin of its own.
        if all(_uniform_below(2 * radius + 2 * i, rng) < 2 * radius + 1 for i in range(1, count + 1)):
            return radius


def _uniform_below(bound: int, rng: RandomBits) -> int:
    """Draw a uniform Python integer in [0, bound)."""
    bits = (bound - 1).bit_length()
    while True:
        draw = int.from_bytes(rng.bytes(-(-bits // 8))) & ((1 << bits) - 1)
        if draw < bound:
            return draw


def _draw_cube(radius: int, count: int, rng: RandomBits) -> np.ndarray:
    """Draw `count` uniform integers in [-radius, radius] as int64 (modulo 2**64, should the radius ever exceed it)."""
    width = 2 * radius + 1
    if width >= 2**63:
        wrapped = [(_uniform_below(width, rng) - radius) % 2**64 for _ in range(count)]
        return np.array(wrapped, dtype=np.uint64).astype(np.int64)
    shift = np.uint64(64 - max(1, (width - 1).bit_length()))
    out, missing = np.empty(count, dtype=np.int64), np.arange(count)
    while len(missing):
        draws = np.frombuffer(rng.bytes(8 * len(missing)), dtype=np.uint64) >> shift
        accepted = draws < width
        out[missing[accepted]] = draws[accepted].astype(np.int64) - radius
        missing = missing[~accepted]
    return out
