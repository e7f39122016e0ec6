"""How losses add up, and the tight conversion between zCDP and (epsilon, delta).

Every figure that leaves this file is rounded towards more privacy lost: totals up, calibrated rho down.
"""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from skdpsynth.privacy._losses import check_delta, check_epsilon
from skdpsynth.privacy._scales import is_real, to_fraction

# Decimal's ln is correctly rounded; 40 digits leave an error far below the slack of 1e-30. Every operation names this
# context: operators such as + would follow the caller's.
_CONTEXT = Context(prec=40, rounding=ROUND_CEILING)
_SLACK = Decimal("1e-30")


def epsilon_of_rho(rho, delta):
    """Return an upper bound on the epsilon of rho-zCDP at `delta`, tight to about 1e-12.

    The infimum over alpha > 1 of ``rho * alpha + ln(1 / (alpha * delta)) / (alpha - 1) + ln(1 - 1 / alpha)``; every alpha
    gives a valid bound, so the search may be in floating point and only its value must be rounded up.

    Parameters
    ----------
    rho : number
        Total zCDP loss, positive.
    delta : number
        In (0, 1).

    Returns
    -------
    epsilon : Fraction
        Rounded up (``math.inf`` for an infinite rho).

    References
    ----------
    Canonne, Kamath, Steinke (2020), "The Discrete Gaussian for Differential Privacy", Corollary 13.
    """
    rho, delta = check_epsilon(rho, "rho"), _check_positive(delta)
    if rho == math.inf:
        return math.inf
    log_delta = _log(delta)

    def bound(log_excess):
        excess = math.exp(log_excess)  # alpha - 1
        alpha = 1 + excess
        return float(rho) * alpha - (math.log(alpha) + log_delta) / excess + math.log(excess / alpha)

    start = math.log(max(math.sqrt(-log_delta / float(rho)), 1e-3))
    found = minimize_scalar(bound, bounds=(start - 12, start + 12), method="bounded", options={"xatol": 1e-9})
    excess = to_fraction(round(math.exp(found.x), 12) or 1e-12)
    return max(Fraction(0), _bound_above(rho, delta, excess))


def _bound_above(rho, delta, excess):
    """Evaluate the bound at alpha = 1 + excess with every step rounded up."""
    alpha = 1 + excess
    first = _up(rho * alpha)
    second = _CONTEXT.divide(_CONTEXT.add(_ln(1 / (alpha * delta)), _SLACK), _floor(excess))
    third = _CONTEXT.add(_ln(excess / alpha), _SLACK)
    total = _CONTEXT.add(_CONTEXT.add(first, second), third)
    return Fraction(total.quantize(Decimal("1e-15"), rounding=ROUND_CEILING, context=_CONTEXT))


def _ln(x):
    """Natural logarithm of a Fraction, within 1e-30."""
    return _CONTEXT.subtract(_CONTEXT.ln(Decimal(x.numerator)), _CONTEXT.ln(Decimal(x.denominator)))


def _up(x):
    return _CONTEXT.divide(Decimal(x.numerator), Decimal(x.denominator))


def _floor(x):
    return Context(prec=40, rounding=ROUND_FLOOR).divide(Decimal(x.numerator), Decimal(x.denominator))


def _log(x):
    return math.log(x.numerator) - math.log(x.denominator)


def _check_positive(delta):
    delta = check_delta(delta)
    if not delta:
        raise ValueError("delta must be greater than 0 to convert zCDP, got 0; use Laplace noise for pure differential privacy.")
    return delta


def rho_of_epsilon(epsilon, delta):
    """Return the largest rho (rounded down, short by less than 1e-9 of it) with ``epsilon_of_rho(rho, delta) <= epsilon``."""
    epsilon, delta = check_epsilon(epsilon), _check_positive(delta)
    if epsilon == math.inf:
        return math.inf
    target = float(epsilon)
    # epsilon <= rho + 2 sqrt(rho ln(1/delta)) gives a rho that is small enough: the root of the quadratic, without cancellation.
    root = math.sqrt(-_log(delta))
    low = (target / (math.sqrt(root * root + target) + root)) ** 2
    high = 2 * low
    while epsilon_of_rho(to_fraction(high), delta) <= epsilon:
        high *= 2

    def excess(log_rho):
        return float(epsilon_of_rho(to_fraction(math.exp(log_rho)), delta)) - target

    log_rho = brentq(excess, math.log(low) - 1e-9, math.log(high), xtol=1e-13)
    rho = to_fraction(math.exp(log_rho))
    while epsilon_of_rho(rho, delta) > epsilon:
        rho *= Fraction(10**10 - 1, 10**10)
    return rho


def total(losses, delta):
    """Return (epsilon, delta spent) of a sequence of losses, an upper bound.

    Pure and approximate losses add (basic composition); rho adds, and is converted once, at the delta that the
    approximate losses leave.
    """
    losses = list(losses)
    epsilon = sum((loss.epsilon for loss in losses if loss.rho is None), Fraction(0))
    rho = sum((loss.rho for loss in losses if loss.rho is not None), Fraction(0))
    spent = sum((loss.delta for loss in losses), Fraction(0))
    if not rho:
        return epsilon, spent
    if math.inf in (rho, epsilon) or delta <= spent:
        return math.inf, spent
    return epsilon + epsilon_of_rho(rho, delta - spent), delta


def split_exactly(amount, weights):
    """Return Fractions in the proportion of `weights` that sum to `amount` exactly (or infinities)."""
    listed = np.atleast_1d(weights).tolist()
    shares = [to_fraction(weight) for weight in listed if is_real(weight) and math.isfinite(weight)]
    if not shares or len(shares) < len(listed) or min(shares) <= 0:
        raise ValueError(f"weights must be positive finite numbers, got {weights!r}; leave out the steps that get nothing.")
    if amount == math.inf:
        return [math.inf] * len(shares)
    whole = sum(shares)
    return [amount * share / whole for share in shares]
