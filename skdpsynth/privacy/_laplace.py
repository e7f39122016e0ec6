"""Exact discrete Laplace noise: P(z) proportional to exp(-|z| / scale) on the integers, or in the sup norm of many."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from skdpsynth._validation import check_integer, short_repr
from skdpsynth.privacy._losses import Amount, check_epsilon, to_fraction
from skdpsynth.privacy._noise import MAX_CACHED_TABLES, MOST_VALUES, SMALLEST, Noise, Size, shape_of
from skdpsynth.privacy._random import (
    Bounds,
    RandomBits,
    SurvivalTable,
    accept_exactly,
    check_stream,
    exp_minus,
    multiply_bounds,
    sample_by_rejection,
)

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

    norm = "l1"  # the log ratio of two densities at z is at most |change_i| / scale, summed over the values

    def sample(self, size: Size, rng: RandomBits) -> np.ndarray:
        """Draw an int64 array of shape `size` with the bits of `rng`."""
        return self._sample_by_scale(size, rng, _sample, _sample_by_rejection)

    def variance(self, n_values: int = 1) -> Any:
        """Return the exact variance, ``2 q / (1 - q)**2``, as a float (an array if `scale` is one)."""
        return np.vectorize(lambda scale: 0.5 / math.sinh(float(1 / scale) / 2) ** 2 if scale else 0.0, otypes=[float])(self.scale)[()]

    def mean_absolute(self) -> Any:
        """Return ``E|Z| = 1 / sinh(1 / scale)`` as a float (an array if `scale` is one)."""
        return np.vectorize(lambda scale: 1 / math.sinh(float(1 / scale)) if scale else 0.0, otypes=[float])(self.scale)[()]


def _sample(scale: Fraction, size: int, rng: RandomBits) -> np.ndarray:
    if scale <= _MAX_TABLE_SCALE:
        return _power_table(scale, True).sample(size, rng)
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
        accepted = accept_exactly(exponents, lambda i: (int(low[i]) + (int(high[i]) << shift)) * steeper, rng)
        return join_parts(negative, low, high, shift), accepted

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
    return low, _power_table(scale, False).sample(size, rng), shift


@lru_cache(maxsize=2 * MAX_CACHED_TABLES)
def _power_table(scale: Fraction, signed: bool) -> SurvivalTable:
    """Table of a geometric, S(k) = q**k, or signed, of |Z|: S(k) = 2 q**k / (1 + q)."""

    def survival(bits: int) -> list[Bounds]:
        work = bits + 64
        one, (q_low, q_high) = 1 << work, exp_minus(1 / scale, work)
        low, high = ((one << work + 1) // (one + q_high), -((-one << work + 1) // (one + q_low))) if signed else (one, one)
        out: list[Bounds] = []
        while not out or out[-1][1] > 1:
            low, high = low * q_low >> work, -(-high * q_high >> work)  # `multiply_bounds`, thousands of times
            out.append((low >> 64, -(-high >> 64)))
        return out

    return SurvivalTable(survival, signed)


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


def laplace_scale(sensitivity: Amount, epsilon: Amount) -> Fraction:
    """Return sensitivity / epsilon exactly, but at least 1/100 (more noise than needed); 0 for an infinite epsilon."""
    exact = check_epsilon(epsilon)
    return Fraction(0) if exact == math.inf else max(SMALLEST, to_fraction(sensitivity) / Fraction(exact))


@dataclass(frozen=True)
class DiscreteSupNorm(Noise):
    """Noise on Z^D with ``P(z)`` proportional to ``exp(-max(abs(z)) / scale)``: the K-norm mechanism of the sup norm.

    Added to integers that all move by at most D_inf together it is (D_inf / scale)-differentially private: the exponent
    changes by at most that. Where every entry moves at once, as in a second moment, it is less noise than Laplace's. Draws are exact.

    Parameters
    ----------
    scale : number
        Rational: an int, a Fraction, or a float, which stands for the decimal it prints. One number for all values: 0, which means no
        noise, or between 1/100 and 2**58.

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

    norm, _serves_scales = "sup", False  # the exponent max|z_i| / scale changes by at most the largest change

    def sample(self, size: Size, rng: RandomBits) -> np.ndarray:
        """Draw an int64 array of shape `size`, one point of Z^D with D its number of entries, with the bits of `rng`."""
        check_stream(rng)
        shape = shape_of(size)
        count = math.prod(shape)
        self.check_size(count)
        if not self.scale or not count:
            return np.zeros(shape, dtype=np.int64)
        return _draw_cube(_draw_radius(self.scale, count, rng), count, rng).reshape(shape)

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

    def propose(n: int) -> tuple[np.ndarray, np.ndarray]:
        draws = np.frombuffer(rng.bytes(8 * n), dtype=np.uint64) >> shift
        return draws.astype(np.int64) - radius, draws < width

    return sample_by_rejection(count, propose)
