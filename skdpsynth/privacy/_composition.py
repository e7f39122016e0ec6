"""Composition of losses, their sums in one account, and tight conversions between rho and (epsilon, delta).

Those of zCDP are here, those of Gaussian noise in `_gaussian_dp`.

Every figure is rounded towards more privacy lost: totals up, calibrated rho down.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache, reduce

from scipy.optimize import brentq, minimize_scalar

from skdpsynth._validation import check_bool
from skdpsynth.privacy._gaussian_dp import SLACK, epsilon_of_gaussian, gaussian_of_pure, rho_of_gaussian
from skdpsynth.privacy._losses import Amount, PrivacyLoss, check_delta, check_epsilon, to_fraction

# Decimal's ln is correctly rounded; 40 digits leave an error far below the slack of 1e-30. Every operation names this
# context: operators such as + would follow the caller's.
_CONTEXT, _FLOOR = Context(prec=40, rounding=ROUND_CEILING), Context(prec=40, rounding=ROUND_FLOOR)
_SLACK = Decimal("1e-30")
_LARGE = Decimal("1e20")  # beyond, 40 digits hold no 15 decimals


def epsilon_of_rho(rho: Amount, delta: Amount, *, gaussian: bool = False) -> Amount:
    """Return an upper bound on the epsilon of rho-zCDP, or of Gaussian noise of that rho, at `delta`, tight to about 1e-12.

    For zCDP it is the infimum over alpha > 1 of ``rho * alpha + ln(1 / (alpha * delta)) / (alpha - 1) + ln(1 - 1 / alpha)``; every alpha
    gives a valid bound, so the search may be in floating point and only its value must be rounded up.

    Parameters
    ----------
    rho : number
        Total loss, positive.
    delta : number
        In (0, 1).
    gaussian : bool, default=False
        Whether all of the loss is that of Gaussian noise, which is then converted exactly and to less: see `PrivacyLoss`.

    Returns
    -------
    epsilon : Fraction
        Rounded up (``math.inf`` for an infinite rho).

    See Also
    --------
    skdpsynth.privacy.rho_of_epsilon : The way back.
    PrivacyLoss : A cost in epsilon or in rho.

    References
    ----------
    Canonne, Kamath, Steinke (2020), "The Discrete Gaussian for Differential Privacy", Corollary 13. Balle, Wang (2018), "Improving the
    Gaussian mechanism for differential privacy", Theorem 8.
    """
    rho, delta = check_epsilon(rho, "rho"), _check_positive_delta(delta)
    return math.inf if rho == math.inf else _epsilon_above(Fraction(rho), delta, check_bool("gaussian", gaussian))


@lru_cache(maxsize=1 << 12)
def _epsilon_above(rho: Fraction, delta: Fraction, gaussian: bool) -> Fraction:
    by_zcdp = _zcdp_above(rho, delta)
    # Gaussian noise of some rho keeps zCDP of that rho too; only where epsilon is hardly more than the slack does it convert to less.
    return min(by_zcdp, epsilon_of_gaussian(rho, delta)) if gaussian and by_zcdp > SLACK else by_zcdp


def _zcdp_above(rho: Fraction, delta: Fraction) -> Fraction:
    log_delta, rate = _log(delta), max(float(rho), 1e-300)  # it only steers the search

    def bound(log_excess: float) -> float:
        excess = math.exp(log_excess)  # alpha - 1
        alpha = 1 + excess
        return rate * alpha - (math.log(alpha) + log_delta) / excess + math.log(excess / alpha)

    start = math.log(max(math.sqrt(-log_delta / rate), 1e-6))
    found = minimize_scalar(bound, bounds=(start - 12, start + 12), method="bounded", options={"xatol": 1e-9})
    excess = to_fraction(round(math.exp(found.x), 12) or 1e-12)
    alpha = 1 + excess
    first = _ceil_decimal(rho * alpha)
    second = _CONTEXT.divide(
        _CONTEXT.add(_ln(1 / (alpha * delta)), _SLACK), _FLOOR.divide(Decimal(excess.numerator), Decimal(excess.denominator))
    )
    third = _CONTEXT.add(_ln(excess / alpha), _SLACK)
    total = _CONTEXT.add(_CONTEXT.add(first, second), third)
    if total < _LARGE:
        total = total.quantize(Decimal("1e-15"), rounding=ROUND_CEILING, context=_CONTEXT)
    return max(Fraction(0), Fraction(total))


def _ln(x: Fraction) -> Decimal:
    """Return the natural logarithm of a Fraction, within 1e-30."""
    return _CONTEXT.subtract(_CONTEXT.ln(Decimal(x.numerator)), _CONTEXT.ln(Decimal(x.denominator)))


def _ceil_decimal(x: Fraction) -> Decimal:
    return _CONTEXT.divide(Decimal(x.numerator), Decimal(x.denominator))


def _log(x: Fraction) -> float:
    return math.log(x.numerator) - math.log(x.denominator)


def _check_positive_delta(delta: Amount) -> Fraction:
    delta = check_delta(delta)
    if not delta:
        raise ValueError("delta must be greater than 0 to convert zCDP, got 0; use Laplace noise for pure differential privacy.")
    return delta


def rho_of_epsilon(epsilon: Amount, delta: Amount, *, gaussian: bool = False) -> Amount:
    """Return the largest rho (rounded down, short by less than 1e-9 of it) with ``epsilon_of_rho(rho, delta, ...) <= epsilon``.

    Parameters
    ----------
    epsilon : number
        Positive.
    delta : number
        In (0, 1).
    gaussian : bool, default=False
        As in `epsilon_of_rho`.

    Returns
    -------
    rho : Fraction
        ``math.inf`` for an infinite epsilon.

    See Also
    --------
    skdpsynth.privacy.epsilon_of_rho : The way back.
    PrivacyLoss : A cost in epsilon or in rho.
    """
    epsilon, delta, gaussian = check_epsilon(epsilon), _check_positive_delta(delta), check_bool("gaussian", gaussian)
    return math.inf if epsilon == math.inf else _rho_below(Fraction(epsilon), delta, gaussian)


@lru_cache(maxsize=1 << 10)
def _rho_below(epsilon: Fraction, delta: Fraction, gaussian: bool) -> Fraction:
    if gaussian:
        return rho_of_gaussian(epsilon, delta, least=_rho_below(epsilon, delta, False))
    target = float(epsilon)
    # epsilon <= rho + 2 sqrt(rho ln(1/delta)) gives a rho that is small enough: the root of the quadratic, without cancellation.
    root = math.sqrt(-_log(delta))
    low = (target / (math.sqrt(root * root + target) + root)) ** 2
    if not low:
        raise ValueError(f"epsilon must be at least 1e-150 to be converted to rho, got {target:g}; use Laplace noise for so small a loss.")
    high = 2 * low
    while _zcdp_above(to_fraction(high), delta) <= epsilon:
        high *= 2

    def excess(log_rho: float) -> float:
        return float(_zcdp_above(to_fraction(math.exp(log_rho)), delta)) - target

    log_rho = brentq(excess, math.log(low) - 1e-9, math.log(high), xtol=1e-13)
    rho = to_fraction(math.exp(log_rho))
    while _zcdp_above(rho, delta) > epsilon:
        rho *= Fraction(10**10 - 1, 10**10)
    return rho


def rho_of_pure(epsilon: Amount, gaussian: bool = False) -> Amount:
    """Return the least rho that covers every loss of a pure epsilon, rounded up.

    By `_gaussian_dp` for Gaussian losses; for zCDP it is ``epsilon * tanh(epsilon / 2)``. Every epsilon-differentially private mechanism
    is post-processing of randomized response of that epsilon [1]_, whose Renyi divergence at alpha = 1 + t is g(t) / t with
    g(t) = ln(cosh((2 t + 1) x) / cosh(x)), x = epsilon / 2. Here g(0) = 0 and g'(t) = epsilon tanh((2 t + 1) x), at most
    epsilon (2 t + 1) tanh(x), as tanh is concave from 0 on and 0 there. So g(t) <= t (t + 1) epsilon tanh(x), and the divergence is at
    most alpha rho. At alpha -> 1 it is rho itself, so no smaller rho will do.

    .. [1] Kairouz, Oh, Viswanath (2015), "The composition theorem for differential privacy".
    """
    if gaussian:
        return epsilon if epsilon == math.inf or not epsilon else gaussian_of_pure(Fraction(epsilon))
    return epsilon if epsilon > _LARGEST_PURE else _rho_of_pure(Fraction(epsilon))  # tanh is at most 1


@lru_cache(maxsize=1 << 12)
def _rho_of_pure(epsilon: Fraction) -> Fraction:
    grown = _CONTEXT.next_plus(_CONTEXT.exp(_ceil_decimal(epsilon)))
    tanh = _CONTEXT.subtract(1, _FLOOR.divide(2, _CONTEXT.next_plus(_CONTEXT.add(grown, 1))))
    return Fraction(math.ceil(min(epsilon * Fraction(tanh), epsilon**2 / 2) * _PURE_GRID), _PURE_GRID)


_LARGEST_PURE = 60
_PURE_GRID = 10**24


def covers(loss: PrivacyLoss, other: PrivacyLoss) -> bool:
    """Whether a charge of `loss` pays for `other`, of one release."""
    if loss.is_infinite or other.is_infinite:
        return loss.is_infinite
    if loss.rho is not None:
        if other.rho is None:
            return bool(loss.rho >= rho_of_pure(other.epsilon, loss.gaussian)) and not other.delta
        return bool(loss.rho >= other.rho and (other.gaussian or not loss.gaussian))
    if other.rho is None:
        return loss.epsilon >= other.epsilon and loss.delta >= other.delta
    return bool(loss.delta) and loss.epsilon >= epsilon_of_rho(other.rho, loss.delta, gaussian=other.gaussian)


@dataclass(frozen=True)
class Sums:
    """Sums of the losses of one account; a group counts as its largest member."""

    epsilon: Amount = Fraction(0)
    rho: Amount = Fraction(0)
    delta: Fraction = Fraction(0)
    gaussian: bool = True  # every loss in rho is
    pure: Amount = Fraction(0)  # the zCDP that the losses in epsilon are, but for their deltas
    pure_gaussian: Amount = Fraction(0)  # ... and the Gaussian loss
    most: Amount = math.inf  # of rho: what was charged for the account, where that was a loss in rho
    only_gaussian: bool = False  # ... and that of Gaussian noise

    @classmethod
    def of(cls, *losses: PrivacyLoss) -> "Sums":
        return reduce(cls.plus, losses, cls())

    def plus(self, loss: PrivacyLoss) -> "Sums":
        if loss.rho is not None:
            return replace(self, rho=self.rho + loss.rho, gaussian=self.gaussian and loss.gaussian)
        pure, as_gaussian = self.pure + rho_of_pure(loss.epsilon), self.pure_gaussian + rho_of_pure(loss.epsilon, gaussian=True)
        more_epsilon, more_delta = self.epsilon + loss.epsilon, self.delta + loss.delta
        return replace(self, epsilon=more_epsilon, delta=more_delta, pure=pure, pure_gaussian=as_gaussian)

    def admits(self, loss: PrivacyLoss) -> bool:
        """Whether a loss may follow, even if it was chosen after seeing earlier outputs.

        Let h be all outputs before the first loss in rho: by basic composition its probability moves by exp(epsilon(h)) at most, but
        for a chance of delta(h). From there on all losses are of one kind, Gaussian or zCDP, whose sum has a limit that h fixes: what rho
        converts to within epsilon - epsilon(h), at delta - delta(h). Given h that is a filter, so P(S | h) is at most
        exp(epsilon - epsilon(h)) Q(S | h) + delta - delta(h), and the two multiply to the promise. If a loss in epsilon could come later,
        its turn could follow from noise that was seen, and every turn would have a delta of its own: for many small Gaussian losses and
        one pure loss at the worst moment the true delta is ten times as large, and more.

        An account that was charged for in rho counts everything in rho: one limit, in any order.
        """
        if self.most != math.inf or not self.rho or loss.is_infinite:
            return True
        return loss.rho is not None and (loss.gaussian or not self.gaussian)

    def total(self, delta: Fraction) -> tuple[Amount, Fraction]:
        """Return an upper bound on the (epsilon, delta) of all losses, at the `delta` of a budget.

        Pure and approximate losses add (basic composition); rho adds, and is converted once, at what the approximate losses leave of
        `delta`. That holds in any order for losses whose shares are fixed in advance: if pure and Gaussian losses alternate, the privacy
        loss L is at most epsilon + L', where L' is that of the experiment in which only values with Gaussian noise move to the neighbor:
        E max(0, 1 - exp(epsilon + x - L)) <= E max(0, 1 - exp(x - L')) = delta(x). For losses that are chosen adaptively `admits` states
        which order is valid. The exact curve of an epsilon and Gaussian noise together would save some hundredths of epsilon at most, and
        has no proven filter, so it is not used.
        """
        epsilon, rho, gaussian = self.epsilon, self.rho, self.gaussian
        if self.most != math.inf and epsilon:
            epsilon, rho, gaussian = Fraction(0), self.total_rho, gaussian and self.only_gaussian
        if not rho:
            return epsilon, self.delta
        if math.inf in (rho, epsilon) or delta <= self.delta:
            return math.inf, self.delta
        return epsilon + _epsilon_above(Fraction(rho), delta - self.delta, gaussian), delta

    @property
    def exceeds_charge(self) -> bool:
        """Whether the losses are more, or of another kind, than the rho that the account was charged for in."""
        if self.most == math.inf:
            return False
        return bool(self.delta) or (self.only_gaussian and not self.gaussian) or self.total_rho > self.most

    @property
    def total_rho(self) -> Amount:
        """All losses in rho, of an account that was charged for in rho."""
        return self.rho + (self.pure_gaussian if self.only_gaussian else self.pure)

    def with_group(self, before: "Sums", after: "Sums") -> "Sums":
        grown = {name: getattr(self, name) + added_amount(getattr(before, name), getattr(after, name)) for name in _SUMMED_FIELDS}
        return replace(self, **grown, gaussian=self.gaussian and after.gaussian)

    def is_at_least(self, other: "Sums") -> bool:
        """Whether each amount, and each flag, is that of other sums or covers it."""
        pairs = [(getattr(other, field.name), getattr(self, field.name)) for field in fields(self)]
        return all(a == b if isinstance(a, bool) else a <= b for a, b in pairs)

    def losses(self) -> list[PrivacyLoss]:
        in_epsilon = [PrivacyLoss(self.epsilon, self.delta)] if self.epsilon else []
        return in_epsilon + ([PrivacyLoss(rho=self.rho, gaussian=self.gaussian)] if self.rho else [])


_SUMMED_FIELDS = ("epsilon", "rho", "delta", "pure", "pure_gaussian")


def largest(sums: Iterable[Sums]) -> Sums:
    """Return the largest sums of the members of a group: a row is in one of them, so the group loses what one of its members does.

    That is at most the largest epsilon, delta and rho of any. Where some are charged in epsilon and others in rho, the sum of the two is
    more than the group loses.
    """
    listed = list(sums)
    return Sums(
        **{name: max(getattr(each, name) for each in listed) for name in _SUMMED_FIELDS}, gaussian=all(each.gaussian for each in listed)
    )


def added_amount(before: Amount, after: Amount) -> Amount:
    """Return the difference; 0 between infinite sums, as inf - inf is no number."""
    return Fraction(0) if before == after else after - before
