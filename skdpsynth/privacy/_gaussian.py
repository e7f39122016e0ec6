"""Exact discrete Gaussian noise, and Gaussian differential privacy (GDP) [1]_: its loss, and that converted to (epsilon, delta).

**A discrete Gaussian is a rounding of a continuous one.** Let x be a whole number, scale^2 = s^2 + t, t = 5/3, scale >= 3. Draw X from
N(x, s^2), then y in Z with probability exp(-(y - X)^2 / 2t) / C(X), where C(X) is the sum of the numerators over Z. Poisson summation
gives C(X) = sqrt(2 pi t) (1 + g(X)), g(X) = 2 sum_{k >= 1} exp(-2 pi^2 t k^2) cos(2 pi k X), so |g| <= h = g(0) < 1.1e-14. The product
of the density of X and that of N(y, t) at X is the density of N(x, scale^2) at y, p(y), times that of N(m, v) at X, with some m and with
v = t s^2 / scale^2. So the law P' of y is p(y) E[1 / (1 + g)] = p(y) (1 - E g + E[g^2 / (1 + g)]) under N(m, v), where cosines average
to E cos(2 pi k X) = exp(-2 pi^2 v k^2) cos(2 pi k m): |E g| <= h' = 2 sum_k exp(-2 pi^2 (t + v) k^2) < 2.4e-26, and the last term is
between 0 and h^2 / (1 - h) < 1.3e-28. The law P = N_Z(x, scale^2) is p(y) over its sum, which is 1 up to 1e-76 by the same summation.
Hence exp(-eta) <= P(y) / P'(y) <= exp(eta) for every y, with eta < 3e-26.

**So it has nearly the loss of a continuous Gaussian.** Whole numbers that one row moves by D in L2 norm, with independent noise
N_Z(0, scale^2) each, are within exp(+-n eta), n the number of values, of a post-processing of X, and X is mu-GDP with
mu = D / sqrt(scale^2 - t) [1]_. The least of several scales counts. GDP composes by the sum of mu^2, also where later
mechanisms and their mu follow from earlier outputs, as long as the sum keeps a limit set in advance [2]_ [3]_; and the factors multiply,
each being true for every history. With P' and Q' for two neighbors, and n values drawn in all,
P(S) <= e^(n eta) P'(S) <= e^(n eta) (e^epsilon Q'(S) + delta) <= e^(epsilon + 2 n eta) Q(S) + e^(n eta) delta.
Up to n = 2^41 values n eta < 1e-13, so 2e-13 of epsilon and 1e-13 of each delta pay for the rounding, once for the whole account.

**The unit of account is rho = mu^2 / 2.** GDP of that mu implies zCDP with that rho, and the noise itself has the zCDP loss
D^2 / (2 scale^2), which is less. So the flag "gaussian" of a loss only ever adds what is known of it.

**A pure loss is Gaussian, too.** The trade-off curve of a mechanism of which the logarithm of P / Q lies in an interval [t - b, t]
(its range is b) is convex from (0, 1) to (1, 0), with slopes from -e^t to -e^(t - b). So it lies above both chords that meet at (q, 1 - p),
p = e^t q and 1 - p = e^(t - b) (1 - q); and a convex curve lies below them if it passes below that point, as that of mu-GDP does from
mu = h(x + b) - h(x) on, where x is the logit of q, x + b that of p, and h(x) is the normal quantile of 1 / (1 + e^-x) [1]_ [5]_. Here
h' = D / phi(h), with D = Phi Q at h, is even. It falls on both sides of 0: at z = h > 0 the sign of its slope is that of -W, where
W = phi (Phi - Q) - z Phi Q is 0 at 0 and at infinity and has the slope 2 phi^2 - Phi Q, which is positive first and changes its sign once:
with m = phi / Q, which is convex and has a slope below 1, the logarithm of phi^2 / (Phi Q) has the slope
m(z) - m(-z) - 2 z <= (m'(0) - 1) z, and m'(0) = 2 / pi. So the integral of h' over a length b is largest about 0, whatever t is:
**a range of b is mu-GDP with mu = 2 h(b / 2)**. A pure epsilon, in [-epsilon, epsilon], has t = epsilon and b = 2 epsilon, but also
q = 1 / (1 + e^epsilon) = 1 - p: mu = 2 h(epsilon) by either. h is concave from 0 on, with the slope sqrt(pi / 8) there, so
rho = mu^2 / 2 <= pi epsilon^2 / 4; and Q(x) <= e^(-x^2 / 2) / 2 makes it at most 4 epsilon.

**Conversion.** mu-GDP is (epsilon, delta)-differential privacy for delta = Q(a) - e^epsilon Q(a + mu), epsilon = a mu + mu^2 / 2, and for
no smaller one [4]_; Q is the upper tail of N(0, 1). With the density phi and Mills' ratio R = Q / phi this is
delta = phi(a) (R(a) - R(a + mu)), which falls in a and grows with mu. Floats find a; what is returned is certified in Decimal.

**Pure losses beside Gaussian ones.** Let the sums of both, e and rho, be fixed in advance, while questions and turns follow from earlier
outputs. All pure steps together are an e-differentially private mechanism that is asked again and again, and so post-processing of one
bit, which is true with probability p = e^e / (1 + e^e) under the one table and 1 - p under the other [6]_ [7]_. All Gaussian steps are
post-processing of X ~ N(0, 1) or N(mu, 1): a Brownian motion up to the time mu^2, with drift 0 or 1, follows from its end by bridges
that know no drift, its end is mu X, and a step of mu_i, whatever it asks, is the increment over the time mu_i^2, over mu_i, along the
line by which that answer moves, and noise of variance 1 across. Bit and X are independent, so all steps together, concurrently, are
post-processing of the two, at worst with losses +-e and that of X. Hence **delta = p delta'(epsilon - e) + (1 - p) delta'(epsilon + e)**,
where delta' is that of X; the bit alone is why it is less than delta'(epsilon - e), that of basic composition.

References
----------
.. [1] Dong, Roth, Su (2022), "Gaussian differential privacy".
.. [2] Smith, Thakurta (2022), "Fully adaptive composition for Gaussian differential privacy".
.. [3] Koskela, Tobaben, Honkela (2023), "Individual privacy accounting with Gaussian differential privacy".
.. [4] Balle, Wang (2018), "Improving the Gaussian mechanism for differential privacy", Theorem 8.
.. [5] Dong, Durfee, Rogers (2020), "Optimal differential privacy composition for exponential mechanisms".
.. [6] Kairouz, Oh, Viswanath (2015), "The composition theorem for differential privacy".
.. [7] Vadhan, Wang (2021), "Concurrent composition of differential privacy".
"""

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfcx, ndtri_exp

from skdpsynth.privacy._losses import Amount, PrivacyLoss, check_epsilon, to_fraction
from skdpsynth.privacy._noise import MAX_CACHED_TABLES, SMALLEST, Noise, Size
from skdpsynth.privacy._random import Bounds, RandomBits, SurvivalTable, accept_exactly, exp_minus, multiply_bounds, sample_by_rejection

_MAX_TABLE_SCALE = 256  # largest scale that a single table serves: beyond it, building one takes longer than rejection
_MAX_BLOCK_SCALE = 64  # of the table that proposes blocks: it is quick to build, and blocks are so flat that few are rejected
_FIRST_BITS = 9  # of the uniform that accepts a proposal: they decide nearly all

ROUNDING_VARIANCE = Fraction(5, 3)  # of the variance of discrete Gaussian noise: t above
LEAST_SCALE = 3
SLACK = Fraction(2, 10**13)  # of epsilon, for the rounding
_MOST = 1 - Fraction(1, 10**9)  # of delta: floats cannot find the way beyond, and less of it is true as well

# Both round every operation: sums of a thousand of them are wrong by less than 1e-75 of their largest term.
_UP, _DOWN = Context(prec=80, rounding=ROUND_CEILING), Context(prec=80, rounding=ROUND_FLOOR)
_SHORT = Context(prec=28, rounding=ROUND_FLOOR)
_LOOSE = Decimal("1e-70")
_ROOT = Decimal("2.50662827463100050241576528481104525300698674060993831662992357634229365460784197")  # sqrt(2 pi)
_QUANTUM = Decimal("1e-20")
_LARGE = Decimal("1e40")  # beyond, 80 digits hold no 20 decimals
_GRID = 10**15  # of an epsilon that is returned: its 15 decimals are those of the conversion of zCDP
_SERIES = 5  # up to which Mills' ratio is a series
_QUARTER_PI = Fraction(785398163397448310, 10**18)  # pi / 4, rounded up
_LEAST_PURE, _LARGEST_PURE = Fraction(1, 10**4), 100  # between them floats find the way; below, rho is pi / 4 of the square to 1e-9
_FARTHEST = 39.0  # the least delta, 5e-324, is Q(38.5)


@dataclass(frozen=True)
class DiscreteGaussian(Noise):
    """Noise N_Z(0, scale**2): ``P(z)`` proportional to ``exp(-z**2 / (2 * scale**2))`` on the integers.

    Added to integers of L2 sensitivity D it satisfies rho-zCDP with ``rho = D**2 / (2 * scale**2)`` [1]_, and, because it is a
    rounding of continuous Gaussian noise of variance ``scale**2 - 5/3``, from scale 3 on it has a Gaussian loss of
    ``rho = D**2 / (2 * (scale**2 - 5/3))``, which converts to a smaller epsilon where the scale is above some 3.5 (proof in
    ``privacy/_gaussian.py``). Draws are exact.

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

    norm = "l2_squared"

    def sample(self, size: Size, rng: RandomBits) -> np.ndarray:
        """Draw an int64 array of shape `size` with the bits of `rng`."""
        return self._sample_by_scale(size, rng, _sample, _sample_by_rejection)

    @classmethod
    def _finite_losses(cls, moved: Fraction, scale: Fraction) -> tuple[PrivacyLoss, ...]:
        rho = moved / (2 * (scale * scale - ROUNDING_VARIANCE)) if scale >= LEAST_SCALE else math.inf
        # zCDP by Canonne, Kamath, Steinke (2020), Theorem 4.
        return PrivacyLoss(rho=moved / (2 * scale * scale)), PrivacyLoss(rho=rho, gaussian=True)

    def variance(self, n_values: int = 1) -> Any:
        """Return an upper bound on the variance, ``scale**2``, as a float (an array if `scale` is one)."""
        return np.vectorize(lambda scale: float(scale) ** 2, otypes=[float])(self.scale)[()]


def _sample(scale: Fraction, size: int, rng: RandomBits) -> np.ndarray:
    return _survival_table(scale).sample(size, rng) if scale <= _MAX_TABLE_SCALE else _sample_by_rejection(scale, size, rng)


def _sample_by_rejection(scale: Fraction, size: int, rng: RandomBits) -> np.ndarray:
    """Draw a block of 2**m magnitudes, then one of these and a sign, and accept or reject it.

    With t = ceil(scale / 2**m), block k >= 0 has a chance proportional to exp(-k**2 / (2 t**2)), and r is uniform in it: r >= k 2**m.
    Accepted with probability exp(-g), g = r**2 / (2 scale**2) - k**2 / (2 t**2), r has a chance proportional to
    exp(-r**2 / (2 scale**2)); and g >= 0, because scale <= t 2**m. Minus zero is rejected, so that 0 is not counted twice.
    """
    m = (math.ceil(scale / _MAX_BLOCK_SCALE) - 1).bit_length()
    t = math.ceil(scale / 2**m)
    table, certain = _survival_table(Fraction(t), False), _certain_words(scale, t, m)

    def propose(n: int) -> tuple[np.ndarray, np.ndarray]:
        # A word holds the sign, the first bits of the uniform that decides, and, as scale <= 2**58, at most 53 bits of a place in a block.
        block, words = table.sample(n, rng), np.frombuffer(rng.bytes(8 * n), dtype=np.int64)
        low, first = words & (1 << m) - 1, words >> 63 - _FIRST_BITS & (1 << _FIRST_BITS) - 1
        accepted = first < np.take(certain, block, mode="clip")
        unsure = np.flatnonzero(~accepted)
        k, place = block[unsure], low[unsure]
        uniform = first[unsure].astype(np.uint64) << np.uint64(64 - _FIRST_BITS)
        uniform |= np.frombuffer(rng.bytes(8 * len(unsure)), dtype=np.uint64) >> np.uint64(_FIRST_BITS)
        # With r <= 61 scales five roundings of each square leave an absolute error of the exponent below 61**2 * 5 * 2**-53 < 2**-38.
        exponents = 0.5 * (((k + place * 2.0**-m) * float(2**m / scale)) ** 2 - (k / t) ** 2)
        accepted[unsure] = accept_exactly(
            exponents, lambda i: (((int(k[i]) << m) + int(place[i])) ** 2 / scale**2 - Fraction(int(k[i]), t) ** 2) / 2, rng, uniform
        )
        accepted &= (words >= 0) | (block != 0) | (low != 0)
        magnitude = (block << m) + low  # wraps modulo 2**64: post-processing
        return np.where(words < 0, -magnitude, magnitude), accepted

    return sample_by_rejection(size, propose)


def _certain_words(scale: Fraction, t: int, m: int) -> np.ndarray:
    """Return, of each block k, first bits of a uniform below which all its magnitudes are accepted; 0 for those beyond the list."""
    k = np.arange(8 * t)
    largest = 0.5 * (((k + 1 - 2.0**-m) * float(2**m / scale)) ** 2 - (k / t) ** 2)  # of the exponents, at the end of the block
    return np.append((np.exp(-largest) * (1 << _FIRST_BITS) - 1e-6).astype(np.int64), 0)  # less than with any rounding


@lru_cache(maxsize=2 * MAX_CACHED_TABLES)
def _survival_table(scale: Fraction, signed: bool = True) -> SurvivalTable:
    """Table of |Z|, S(k) = 2 sum_{j >= k} w_j / (1 + 2 sum_{j >= 1} w_j), w_j = exp(-j**2 / (2 scale**2)); not signed, of one side."""
    sides = 1 + signed

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
        total_lo, total_hi = (1 << work) + sides * tails[0][0], (1 << work) + sides * tails[0][1]
        out = []
        for lo, hi in tails:
            out.append(((sides * lo << bits) // total_hi, -((-sides * hi << bits) // total_lo)))
            if out[-1][1] <= 1:
                break
        return out

    return SurvivalTable(survival, signed)


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


# The loss of the noise, converted


def epsilon_of_gaussian(rho: Fraction, delta: Fraction) -> Fraction:
    """Return an upper bound on the epsilon of Gaussian losses that sum to `rho`, tight but for the slack of 2e-13."""
    return Fraction(math.ceil((SLACK + _epsilon_above(rho, _delta_after_rounding(delta))) * _GRID), _GRID)


def is_mixture_within(pure: Fraction, rho: Fraction, epsilon: Fraction, delta: Fraction) -> bool:
    """Whether pure losses and Gaussian ones, of sums that are fixed in advance, keep (epsilon, delta)."""
    left, mu = epsilon - pure - SLACK, _mu_above(rho)
    if left < 0:
        return False
    # A larger mu, a smaller a and a larger p make a larger delta.
    points = [_DOWN.divide(_quotient(each, _DOWN), mu) for each in (left, left + 2 * pure)]
    near, far = (delta_above(_DOWN.subtract(point, _UP.divide(mu, Decimal(2))), mu) for point in points)
    p = _UP.divide(1, _DOWN.add(1, _DOWN.next_minus(_DOWN.exp(_quotient(-pure, _DOWN)))))
    most = _UP.add(_UP.multiply(p, near), _UP.multiply(_UP.subtract(1, p), far))
    return Fraction(most) <= _delta_after_rounding(delta)


def _mu_above(rho: Fraction) -> Decimal:
    return _UP.next_plus(_UP.sqrt(_UP.multiply(2, _quotient(rho, _UP))))


def pure_of_gaussian(rho: Fraction) -> Fraction:
    """Return the largest epsilon, rounded down, of which every pure loss is that of Gaussian noise of `rho`: ln(1 / Q(mu / 2) - 1)."""
    # A smaller mu and a larger tail make a smaller epsilon.
    x = _DOWN.next_minus(_DOWN.sqrt(_quotient(rho / 2, _DOWN)))
    tail = _delta(x, mills_ratio_bounds(x)[1])
    odds = _DOWN.divide(_DOWN.subtract(1, tail), tail)
    return max(Fraction(0), Fraction(_SHORT.plus(_DOWN.next_minus(_DOWN.ln(odds)))))


@lru_cache(maxsize=1 << 10)
def gaussian_of_pure(epsilon: Fraction) -> Fraction:
    """Return the least rho of Gaussian noise whose loss covers a pure epsilon (rounded up, by less than 1e-9 of it)."""
    if epsilon > _LARGEST_PURE:
        return 4 * epsilon
    rho = _QUARTER_PI * epsilon**2
    if epsilon > _LEAST_PURE:
        rho = min(rho, to_fraction(2 * float(ndtri_exp(-math.log1p(math.exp(epsilon)))) ** 2))
    more = Fraction(1, 10**13)
    while pure_of_gaussian(rho) < epsilon:
        rho, more = rho + rho * more, 2 * more
    return rho


def _delta_after_rounding(delta: Fraction) -> Fraction:
    return min(delta, _MOST) * (1 - Fraction(1, 10**13))  # for the rounding


def _epsilon_above(rho: Fraction, delta: Fraction) -> Fraction:
    """Return the exact conversion of continuous Gaussian noise, rounded up to a multiple of 1e-20."""
    # A larger mu and a smaller delta make a larger epsilon: any a with delta(a, mu) <= delta gives a valid one.
    mu = _mu_above(rho)
    most = _quotient(delta, _DOWN)
    a = _least_a(mu, most)
    epsilon = _UP.multiply(mu, _UP.add(a, _UP.divide(mu, Decimal(2))))
    if epsilon < _LARGE:
        epsilon = epsilon.quantize(_QUANTUM, rounding=ROUND_CEILING, context=_UP)
    return max(Fraction(0), Fraction(epsilon))


def _least_a(mu: Decimal, most: Decimal) -> Decimal:
    """Return an a with delta(a, mu) <= most, hardly above the least."""
    a = Decimal(_float_a(float(mu), _float_ln(most)))
    target = _UP.ln(most)
    for _ in range(2):  # steps of Newton on ln(delta), whose derivative is -mu R(a + mu) / (R(a) - R(a + mu))
        here, there = mills_ratio_bounds(a)[1], mills_ratio_bounds(_UP.add(a, mu))[0]
        fall = _UP.subtract(here, there)
        too_much = _UP.subtract(_UP.ln(_delta(a, fall)), target)
        a = _UP.add(a, _UP.divide(_UP.multiply(too_much, fall), _UP.multiply(mu, there)))
    more = Decimal("1e-25")
    while delta_above(a, mu) > most:
        a, more = _UP.add(a, more), 8 * more
    return a


def delta_above(a: Decimal, mu: Decimal) -> Decimal:
    """Return an upper bound on the delta of mu-GDP at epsilon = a mu + mu^2 / 2."""
    return _delta(a, _UP.subtract(mills_ratio_bounds(a)[1], mills_ratio_bounds(_UP.add(a, mu))[0]))


def _delta(a: Decimal, fall: Decimal) -> Decimal:
    # Decimal's exp is correctly rounded, to half a unit of the 80th digit.
    density = _UP.divide(_UP.exp(_half_square(a, _DOWN).copy_negate()), _ROOT)
    return _UP.multiply(_UP.multiply(density, fall), _UP.add(1, _LOOSE))


def mills_ratio_bounds(x: Decimal) -> tuple[Decimal, Decimal]:
    """Return bounds below and above Q(x) / phi(x)."""
    if x > _SERIES:
        # By R(x) = 1/(x + 1/(x + 2/(x + 3/(x + ...)))): with positive terms one convergent is below, the next above.
        depth = 36 + int((114 / float(x)) ** 2)  # they close like exp(-x sqrt(2 depth)), or as depth! / x^(2 depth)
        bounds = _convergent(x, depth), _convergent(x, depth + 1)
    elif x >= 0:
        bounds = _series(x)
    else:  # Q(x) = 1 - Q(-x)
        low, high = mills_ratio_bounds(x.copy_negate())
        whole = _UP.multiply(_ROOT, _UP.exp(_half_square(x, _UP)))
        bounds = _UP.subtract(whole, high), _UP.subtract(whole, low)
    return _DOWN.multiply(min(bounds), _DOWN.subtract(1, _LOOSE)), _UP.multiply(max(bounds), _UP.add(1, _LOOSE))


def _series(x: Decimal) -> tuple[Decimal, Decimal]:
    """Bounds by R(x) = sqrt(pi/2) exp(x^2 / 2) - sum_k x^(2k + 1) / (2k + 1)!!."""
    square, term, total, odd = _UP.multiply(x, x), x, Decimal(0), 1
    while term > Decimal("1e-79") or odd < 2 * square:
        total = _UP.add(total, term)
        odd += 2
        term = _UP.divide(_UP.multiply(term, square), Decimal(odd))
    # Terms at least halve from here. Those before are below 3e5, so that rounding is below 1e-70 in all.
    ratio = _UP.subtract(_UP.multiply(_UP.divide(_ROOT, Decimal(2)), _UP.exp(_half_square(x, _UP))), total)
    return _UP.subtract(ratio, _LOOSE), _UP.add(ratio, _LOOSE)


def _convergent(x: Decimal, depth: int) -> Decimal:
    value = x
    for k in range(depth, 0, -1):
        value = _UP.add(x, _UP.divide(Decimal(k), value))
    return _UP.divide(Decimal(1), value)


def _half_square(x: Decimal, context: Context) -> Decimal:
    return context.divide(context.multiply(x, x), Decimal(2))


def _quotient(x: Fraction, context: Context) -> Decimal:
    return context.divide(Decimal(x.numerator), Decimal(x.denominator))


# The rest only finds where to look.


def rho_of_gaussian(epsilon: Fraction, delta: Fraction, least: Fraction) -> Fraction:
    """Return the largest rho with ``epsilon_of_gaussian(rho, delta) <= epsilon``, rounded down by less than 1e-9 of it.

    `least` is a rho that converts to no more by zCDP; it is returned where the slack leaves nothing to gain.
    """
    goal, kept = Fraction(math.floor(epsilon * _GRID), _GRID) - SLACK - Fraction(1, 10**19), _delta_after_rounding(delta)
    target, log_delta, low = float(goal), _float_ln(_quotient(kept, _DOWN)), math.log(2 * float(least)) / 2
    if target <= 0 or _float_epsilon(low, log_delta) >= target:
        return least
    high = low + 1
    while _float_epsilon(high, log_delta) < target:
        high += 1
    mu = math.exp(brentq(lambda log_mu: _float_epsilon(log_mu, log_delta) - target, low, high, xtol=1e-14))
    rho = to_fraction(mu * mu / 2)
    # Move rho to where epsilon is the goal, further than floats can tell. At a fixed delta the derivative of epsilon in mu is
    # 1 / R(a + mu), as d(delta) = phi(a) d(mu) - phi(a) R(a + mu) d(epsilon).
    slope = mu * _float_mills(mu + _float_a(mu, log_delta))
    moved = rho + (goal - _epsilon_above(rho, kept)) * to_fraction(slope)
    rho = Fraction(_quotient(moved, _SHORT)) if abs(moved - rho) < rho / 10**6 else rho
    less = Fraction(1, 10**12)
    while epsilon_of_gaussian(rho, delta) > epsilon:
        rho, less = rho - rho * less, less + less
    return max(rho, least)


def _float_epsilon(log_mu: float, log_delta: float) -> float:
    mu = math.exp(log_mu)
    return max(0.0, mu * (_float_a(mu, log_delta) + mu / 2))


def _float_a(mu: float, log_delta: float) -> float:
    """Return the a of a delta, or where epsilon is 0 if that is farther."""
    low, high = max(-mu / 2, 1 - _FARTHEST), min(_FARTHEST, 1e-3 - float(ndtri_exp(min(log_delta, -1e-16))))
    if low >= high or _log_delta(low, mu) <= log_delta:
        return low
    if _log_delta(high, mu) >= log_delta:
        return high
    return float(brentq(lambda a: _log_delta(a, mu) - log_delta, low, high, xtol=1e-15))


def _log_delta(a: float, mu: float) -> float:
    if mu < 1e-4:  # a tangent in the middle, where the difference would cancel
        fall = mu * (1 - (a + mu / 2) * _float_mills(a + mu / 2))
    else:
        fall = _float_mills(a) - _float_mills(a + mu)
    return math.log(fall) - a * a / 2 - math.log(2 * math.pi) / 2


def _float_mills(x: float) -> float:
    return float(erfcx(x / math.sqrt(2))) * math.sqrt(math.pi / 2)


def _float_ln(x: Decimal) -> float:
    return float(x.ln(_UP))
