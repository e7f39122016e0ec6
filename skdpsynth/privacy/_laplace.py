"""Exact discrete Laplace noise: P(z) proportional to exp(-|z| / scale) on the integers."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from skdpsynth._sensitivity import Sensitivity
from skdpsynth.privacy._losses import PrivacyLoss, check_epsilon, to_fraction
from skdpsynth.privacy._noise import MAX_CACHED_TABLES, SMALLEST, Noise, check_scale, sample_by_scale
from skdpsynth.privacy._random import Bounds, RandomBits, SurvivalTable, accept_exactly, exp_minus, multiply_bounds, sample_by_rejection

_DIGIT = 8  # bits of a magnitude that one table draws: small tables are quick to build
_MAX_TABLE_SCALE = 1 << _DIGIT  # largest scale that a single table serves


@dataclass(frozen=True)
class DiscreteLaplace(Noise):
    """Noise Lap_Z(scale): ``P(z) = (1 - q) / (1 + q) * q**abs(z)`` with ``q = exp(-1 / scale)``.

    Added to integers of L1 sensitivity D it is (D / scale)-differentially private. Draws are exact (no floating-point
    number decides one), so that holds with no error term.

    Parameters
    ----------
    scale : number or array-like of numbers
        Non-negative and rational: an int, a Fraction, or a float, which stands for the decimal it prints. 0 means no
        noise. An array broadcasts over the values. Between 1/100 and 2**58 every draw is exact modulo 2**64.

    Raises
    ------
    ValueError
        If a scale is negative, not finite, or outside the range above.

    See Also
    --------
    DiscreteGaussian : Less noise for many values at once, for a small delta.
    DiscreteSupNorm : For values that all move at once.
    skdpsynth.privacy.mechanism : Noise and cost from a sensitivity.

    Examples
    --------
    >>> from skdpsynth.privacy import DiscreteLaplace
    >>> from skdpsynth.privacy import check_rng
    >>> DiscreteLaplace(10).sample(1000, check_rng(None)).shape
    (1000,)
    """

    scale: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", check_scale(self.scale))

    def sample(self, size: Any, rng: RandomBits) -> np.ndarray:
        """Draw an int64 array of shape `size` with the bits of `rng`."""
        return sample_by_scale(self.scale, size, rng, _sample, _sample_by_rejection)

    def _finite_loss(self, sensitivity: Sensitivity, scale: Fraction) -> PrivacyLoss:
        # The log ratio of two densities at z is at most |change_i| / scale, summed over the values.
        return PrivacyLoss(epsilon=sensitivity.l1 / scale)

    def variance(self, n_values: int = 1) -> Any:
        """Return the exact variance, ``2 q / (1 - q)**2``, as a float (an array if `scale` is one)."""
        return np.vectorize(lambda scale: 0.5 / math.sinh(float(1 / scale) / 2) ** 2 if scale else 0.0, otypes=[float])(self.scale)[()]

    def mean_absolute(self) -> Any:
        """Return ``E|Z| = 1 / sinh(1 / scale)`` as a float (an array if `scale` is one)."""
        return np.vectorize(lambda scale: 1 / math.sinh(float(1 / scale)) if scale else 0.0, otypes=[float])(self.scale)[()]


def _sample(scale: Fraction, size: int, rng: RandomBits) -> np.ndarray:
    if scale <= _MAX_TABLE_SCALE:
        return _two_sided_table(scale).sample(size, rng)
    return join_parts(*draw_parts(scale, size, rng))


def _sample_by_rejection(scale: Fraction, size: int, rng: RandomBits) -> np.ndarray:
    """Draw by rejection from a whole scale t beyond this one.

    Accept z with probability exp(-g), g = abs(z) * (1 / scale - 1 / t): the product with exp(-abs(z) / t) is the law.
    """
    t = int(scale) + 1
    steeper = 1 / scale - Fraction(1, t)

    def propose(n: int) -> tuple[np.ndarray, np.ndarray]:
        negative, low, high, shift = draw_parts(Fraction(t), n, rng)
        # Four roundings: up to an exponent of 1800 their error is below 1800 * 4 * 2**-53 < 2**-38.
        exponents = (low + high * 2.0**shift) * float(steeper)
        return join_parts(negative, low, high, shift), accept_exactly(
            exponents, lambda i: (int(low[i]) + (int(high[i]) << shift)) * steeper, rng
        )

    return sample_by_rejection(size, propose)


def draw_parts(scale: Fraction, size: int, rng: RandomBits) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Draw Z of a scale beyond the table as (negative, low, high, shift): its magnitude is low + high * 2**shift.

    A signed geometric, redrawn when it is "minus zero" so that 0 is not counted twice. The parts cannot overflow, so
    nothing is decided on a magnitude that has wrapped.
    """
    low, high, shift = draw_geometric(scale, size, rng)
    negative = np.unpackbits(np.frombuffer(rng.bytes(-(-size // 8)), dtype=np.uint8), count=size).astype(bool)
    again = np.flatnonzero(negative & (low == 0) & (high == 0))
    if len(again):
        negative[again], low[again], high[again], _ = draw_parts(scale, len(again), rng)
    return negative, low, high, shift


def join_parts(negative: np.ndarray, low: np.ndarray, high: np.ndarray, shift: int) -> np.ndarray:
    """Return the integers of these parts as int64, which wraps modulo 2**64: post-processing."""
    magnitude = low + (high << shift)
    return np.where(negative, -magnitude, magnitude)


def draw_geometric(scale: Fraction, size: int, rng: RandomBits) -> tuple[np.ndarray, np.ndarray, int]:
    """Draw G with P(G >= k) = exp(-k / scale): its digits in base 2**8 are independent, each with a table.

    exp(-(a + b) / s) factors, so the low digit is a truncated geometric and the rest, G >> 8, is a geometric of scale
    s / 2**8. Returns (low, high, shift), G = low + high * 2**shift.
    """
    low = np.zeros(size, dtype=np.int64)
    shift = 0
    while scale > _MAX_TABLE_SCALE:
        low += _digit_table(scale).sample(size, rng) << shift  # at most 7 digits of 8 bits for scales up to 2**58
        scale /= _MAX_TABLE_SCALE
        shift += _DIGIT
    return low, _one_sided_table(scale).sample(size, rng), shift


@lru_cache(maxsize=MAX_CACHED_TABLES)
def _two_sided_table(scale: Fraction) -> SurvivalTable:
    """Table of |Z|: S(k) = 2 q**k / (1 + q)."""

    def survival(bits: int) -> list[Bounds]:
        work = bits + 64
        q = exp_minus(1 / scale, work)
        one = 1 << work
        factor = (one << work + 1) // (one + q[1]), -((-one << work + 1) // (one + q[0]))  # 2 / (1 + q)
        return _power_bounds(q, factor, work, bits)

    return SurvivalTable(survival, signed=True)


@lru_cache(maxsize=MAX_CACHED_TABLES)
def _one_sided_table(scale: Fraction) -> SurvivalTable:
    """Table of a geometric: S(k) = q**k."""

    def survival(bits: int) -> list[Bounds]:
        work = bits + 64
        return _power_bounds(exp_minus(1 / scale, work), (1 << work, 1 << work), work, bits)

    return SurvivalTable(survival, signed=False)


def _power_bounds(q: Bounds, factor: Bounds, work: int, bits: int) -> list[Bounds]:
    """Return bounds on factor * q**k, k = 1, 2, ..., until below 2**-bits."""
    shift, out = work - bits, []
    (q_low, q_high), (low, high) = q, factor
    while True:
        low, high = low * q_low >> work, -(-high * q_high >> work)  # `multiply_bounds`, thousands of times
        out.append((low >> shift, -(-high >> shift)))
        if out[-1][1] <= 1:
            return out


@lru_cache(maxsize=256)
def _digit_table(scale: Fraction) -> SurvivalTable:
    """Table of G mod 2**8: S(k) = (q**k - q**m) / (1 - q**m), m = 2**8."""

    def survival(bits: int) -> list[Bounds]:
        # 1 - q**m is about m / scale: that many more bits keep the quotient's bounds tight.
        work = bits + 64 + math.ceil(scale).bit_length()
        q = exp_minus(1 / scale, work)
        powers = [(1 << work, 1 << work)]
        for _ in range(_MAX_TABLE_SCALE):
            powers.append(multiply_bounds(powers[-1], q, work))
        low, high = powers[-1]
        one = 1 << work
        return [(max(p[0] - high, 0) * (1 << bits) // (one - low), -((low - p[1]) * (1 << bits) // (one - high))) for p in powers[1:-1]]

    return SurvivalTable(survival, signed=False)


def laplace_scale(sensitivity: Any, epsilon: Any) -> Fraction:
    """Return sensitivity / epsilon exactly, but at least 1/100 (more noise than needed); 0 for an infinite epsilon."""
    epsilon = check_epsilon(epsilon)
    return Fraction(0) if epsilon == math.inf else max(SMALLEST, to_fraction(sensitivity) / epsilon)
