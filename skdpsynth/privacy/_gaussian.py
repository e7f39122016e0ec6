"""Exact discrete Gaussian noise: P(z) proportional to exp(-z**2 / (2 scale**2))."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from skdpsynth._sensitivity import Sensitivity
from skdpsynth.privacy._gaussian_dp import LEAST_SCALE, ROUNDING_VARIANCE
from skdpsynth.privacy._laplace import draw_parts, join_parts
from skdpsynth.privacy._losses import Amount, PrivacyLoss, check_epsilon, to_fraction
from skdpsynth.privacy._noise import MAX_CACHED_TABLES, SMALLEST, Noise, Size
from skdpsynth.privacy._random import Bounds, RandomBits, SurvivalTable, accept_exactly, exp_minus, multiply_bounds, sample_by_rejection

_MAX_TABLE_SCALE = 256  # largest scale that a single table serves: beyond it, building one takes longer than rejection


@dataclass(frozen=True)
class DiscreteGaussian(Noise):
    """Noise N_Z(0, scale**2): ``P(z)`` proportional to ``exp(-z**2 / (2 * scale**2))`` on the integers.

    Added to integers of L2 sensitivity D it satisfies rho-zCDP with ``rho = D**2 / (2 * scale**2)`` [1]_, and, because it is a
    rounding of continuous Gaussian noise of variance ``scale**2 - 5/3``, from scale 3 on it has a Gaussian loss of
    ``rho = D**2 / (2 * (scale**2 - 5/3))``, which converts to a smaller epsilon where the scale is above some 3.5 (proof in
    ``privacy/_gaussian_dp.py``). Draws are exact.

    Parameters
    ----------
    scale : number or array-like of numbers
        Non-negative and rational: an int, a Fraction, or a float, which stands for the decimal it prints. 0 means no
        noise. An array broadcasts over the values. Between 1/100 and 2**58 every draw is exact modulo 2**64.

    See Also
    --------
    DiscreteLaplace : Noise of a pure loss.
    skdpsynth.privacy.mechanism : Noise and cost from a sensitivity.
    skdpsynth.privacy.epsilon_of_rho : Convert its rho to an epsilon.

    References
    ----------
    .. [1] Canonne, Kamath, Steinke (2020), "The Discrete Gaussian for Differential Privacy", Theorem 4.

    Examples
    --------
    >>> from skdpsynth.privacy import DiscreteGaussian
    >>> from skdpsynth.privacy import check_rng
    >>> DiscreteGaussian(10).sample((3, 2), check_rng(None)).shape
    (3, 2)
    """

    def sample(self, size: Size, rng: RandomBits) -> np.ndarray:
        """Draw an int64 array of shape `size` with the bits of `rng`."""
        return self._sample_by_scale(size, rng, _sample, _sample_by_rejection)

    def _finite_losses(self, sensitivity: Sensitivity, scale: Fraction) -> tuple[PrivacyLoss, ...]:
        rho = sensitivity.l2_squared / (2 * (scale * scale - ROUNDING_VARIANCE)) if scale >= LEAST_SCALE else math.inf
        # zCDP by Canonne, Kamath, Steinke (2020), Theorem 4.
        return PrivacyLoss(rho=sensitivity.l2_squared / (2 * scale * scale)), PrivacyLoss(rho=rho, gaussian=True)

    def variance(self, n_values: int = 1) -> Any:
        """Return an upper bound on the variance, ``scale**2``, as a float (an array if `scale` is one)."""
        return np.vectorize(lambda scale: float(scale) ** 2, otypes=[float])(self.scale)[()]


def _sample(scale: Fraction, size: int, rng: RandomBits) -> np.ndarray:
    return _survival_table(scale).sample(size, rng) if scale <= _MAX_TABLE_SCALE else _sample_by_rejection(scale, size, rng)


def _sample_by_rejection(scale: Fraction, size: int, rng: RandomBits) -> np.ndarray:
    """Draw by rejection from the discrete Laplace law (Canonne, Kamath, Steinke, Algorithm 3).

    Accept z with probability exp(-g), g = (|z| - v/t)**2 / (2 v), v = scale**2, t = floor(scale) + 1.
    """
    t = int(scale) + 1
    variance = scale * scale

    def propose(n: int) -> tuple[np.ndarray, np.ndarray]:
        negative, low, high, shift = draw_parts(Fraction(t), n, rng)
        # With |z| <= 61 scales the exponent has an absolute error below 61**2 * 6 * 2**-53 < 2**-38.
        distance = (low + high * 2.0**shift - float(variance / t)) / float(scale)
        return join_parts(negative, low, high, shift), accept_exactly(
            0.5 * distance * distance, lambda i: (int(low[i]) + (int(high[i]) << shift) - variance / t) ** 2 / (2 * variance), rng
        )

    return sample_by_rejection(size, propose)


@lru_cache(maxsize=MAX_CACHED_TABLES)
def _survival_table(scale: Fraction) -> SurvivalTable:
    """Table of |Z|: S(k) = 2 sum_{j >= k} w_j / (1 + 2 sum_{j >= 1} w_j), w_j = exp(-j**2 / (2 scale**2))."""

    def survival(bits: int) -> list[Bounds]:
        work = bits + 96
        step = exp_minus(1 / (scale * scale), work)
        ratio = exp_minus(1 / (2 * scale * scale), work)  # w_{j+1} / w_j = ratio * step**j
        weights = [(1 << work, 1 << work)]
        while weights[-1][1] > 1:
            weights.append(multiply_bounds(weights[-1], ratio, work))
            ratio = multiply_bounds(ratio, step, work)
        # From here w_j <= 2**-work and falling faster than a geometric of ratio exp(-1/(2 scale**2)) <= 1 - 1/(4 s**2)
        # (or <= 1/2 for small scales), so the rest is below 4 s**2 + 2 units; of s**2 up to 1 is cut off here.
        rest = 4 * int(scale * scale) + 6
        tail_lo, tail_hi, tails = 0, rest, []
        for lo, hi in reversed(weights[1:]):
            tail_lo, tail_hi = tail_lo + lo, tail_hi + hi
            tails.append((tail_lo, tail_hi))
        tails.reverse()
        total_lo, total_hi = (1 << work) + 2 * tails[0][0], (1 << work) + 2 * tails[0][1]
        out = []
        for lo, hi in tails:
            out.append(((lo << bits + 1) // total_hi, -((-hi << bits + 1) // total_lo)))
            if out[-1][1] <= 1:
                break
        return out

    return SurvivalTable(survival, signed=True)


def gaussian_scale(squared_sensitivity: Amount, rho: Amount, *, gaussian: bool = False) -> Fraction:
    """Return sqrt(squared_sensitivity / (2 rho)), rounded up to a multiple of 2**-20; 0 for an infinite rho.

    Where rho is a Gaussian loss the square is greater by 5/3, and the scale at least 3: see `DiscreteGaussian`.
    """
    rho = check_epsilon(rho, "rho")
    if rho == math.inf:
        return Fraction(0)
    # isqrt(m - 1) + 1 is the least whole number whose square is at least m >= 1.
    variance = to_fraction(squared_sensitivity) / (2 * Fraction(rho))
    if gaussian and variance:
        variance = max(variance + ROUNDING_VARIANCE, Fraction(LEAST_SCALE**2))
    square = math.ceil(variance * 4**20)
    return max(SMALLEST, Fraction(math.isqrt(square - 1) + 1 if square else 0, 2**20))
