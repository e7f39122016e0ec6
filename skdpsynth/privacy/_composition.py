"""Composition of losses: their sums in one account, tight conversions between rho and (epsilon, delta), and the best attack on them.

Conversions of zCDP are here, those of Gaussian noise in `_gaussian`. Every figure is rounded towards more privacy lost: totals up,
calibrated rho down.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache, reduce

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import ndtr, ndtri

from skdpsynth._text import percent_at_most
from skdpsynth._validation import check_bool, is_real, short_repr
from skdpsynth.persistence import savable
from skdpsynth.privacy._gaussian import SLACK, epsilon_of_gaussian, gaussian_of_pure, is_mixture_within, rho_of_gaussian
from skdpsynth.privacy._losses import Amount, PrivacyLoss, check_delta, check_epsilon, to_fraction

# Decimal's ln is correctly rounded; 40 digits leave an error far below the slack of 1e-30. Every operation names this
# context: operators such as + would follow the caller's.
_CONTEXT, _FLOOR = Context(prec=40, rounding=ROUND_CEILING), Context(prec=40, rounding=ROUND_FLOOR)
_SLACK = Decimal("1e-30")
_LARGE = Decimal("1e20")  # beyond, 40 digits hold no 15 decimals
_LARGEST_PURE, _PURE_GRID = 60, 10**24
_MOST_STEPS = 1 << 17  # of the grid of privacy losses, from 0 to the sum of all
_MOST_LOSSES = 1 << 16
_MOST_DISTINCT = 1 << 12  # whose attacks are found in seconds, where not all are equal
_GRID = 10**15
_VANISHED = 1e-150
_TOLERANCE = Fraction(1, 10**9)
_ROUND_UP = 1 + 1e-12  # for the rounding of floats, and of discrete Gaussian noise


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

    References
    ----------
    Canonne, Kamath, Steinke (2020), "The Discrete Gaussian for Differential Privacy", Corollary 13. Balle, Wang (2018), "Improving the
    Gaussian mechanism for differential privacy", Theorem 8.

    Examples
    --------
    >>> from skdpsynth.privacy import epsilon_of_rho
    >>> print(f"{float(epsilon_of_rho(0.05, 1e-6)):.3f} {float(epsilon_of_rho(0.05, 1e-6, gaussian=True)):.3f}")
    1.472 1.368
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
    below = _FLOOR.divide(Decimal(excess.numerator), Decimal(excess.denominator))
    second = _CONTEXT.divide(_CONTEXT.add(_ln(1 / (alpha * delta)), _SLACK), below)
    third = _CONTEXT.add(_ln(excess / alpha), _SLACK)
    total = _CONTEXT.add(_CONTEXT.add(_ceil_decimal(rho * alpha), second), third)
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
        The total, positive.
    delta : number
        In (0, 1).
    gaussian : bool, default=False
        As of `epsilon_of_rho`.

    Returns
    -------
    rho : Fraction
        Or ``math.inf`` for an infinite epsilon.

    See Also
    --------
    skdpsynth.privacy.epsilon_of_rho : The way back.

    Examples
    --------
    >>> from skdpsynth.privacy import epsilon_of_rho, rho_of_epsilon
    >>> rho = rho_of_epsilon(1.0, 1e-6)
    >>> print(f"{float(rho):.5f} {float(epsilon_of_rho(rho, 1e-6)):.6f}")
    0.02436 1.000000
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
    rho, less = to_fraction(math.exp(log_rho)), Fraction(1, 10**10)
    while _zcdp_above(rho, delta) > epsilon:
        rho, less = rho * (1 - less), 2 * less
    return rho


@lru_cache(maxsize=1 << 10)
def epsilon_beside(pure: Amount, epsilon: Amount, delta: Fraction) -> Amount:
    """Return the most that the Gaussian noise of a plan may convert to at `delta`, where pure losses beside it sum to `pure`.

    It is more than ``epsilon - pure``: both keep (epsilon, delta) together, as `_gaussian` proves (short of the most by less than 1e-8 of
    it).
    """
    if epsilon == math.inf:
        return epsilon
    pure, epsilon = Fraction(pure), Fraction(epsilon)
    least = epsilon - pure
    # The pure losses are one bit, which takes at most half of delta away.
    low, high = (_rho_below(least, each, True) for each in (delta, min(2 * delta, (1 + delta) / 2)))
    while high - low > low * _TOLERANCE:
        middle = Fraction(float((low + high) / 2))
        low, high = (middle, high) if is_mixture_within(pure, middle, epsilon, delta) else (low, middle)
    found = _epsilon_above(low * (1 - _TOLERANCE), delta, True)
    return max(found, least) if is_mixture_within(pure, _rho_below(found, delta, True), epsilon, delta) else least


@lru_cache(maxsize=1 << 12)
def rho_of_pure(epsilon: Amount, gaussian: bool = False) -> Amount:
    """Return the least rho that covers every loss of a pure epsilon, rounded up.

    By `_gaussian` for Gaussian losses; for zCDP it is ``epsilon * tanh(epsilon / 2)``. Every epsilon-differentially private mechanism
    is post-processing of randomized response of that epsilon [1]_, whose Renyi divergence at alpha = 1 + t is g(t) / t with
    g(t) = ln(cosh((2 t + 1) x) / cosh(x)), x = epsilon / 2. Here g(0) = 0 and g'(t) = epsilon tanh((2 t + 1) x), at most
    epsilon (2 t + 1) tanh(x), as tanh is concave from 0 on and 0 there. So g(t) <= t (t + 1) epsilon tanh(x), and the divergence is at
    most alpha rho. At alpha -> 1 it is rho itself, so no smaller rho will do.

    .. [1] Kairouz, Oh, Viswanath (2015), "The composition theorem for differential privacy".
    """
    if epsilon == math.inf or not epsilon:
        return epsilon
    epsilon = Fraction(epsilon)
    if gaussian:
        return gaussian_of_pure(epsilon)
    if epsilon > _LARGEST_PURE:  # tanh is at most 1
        return epsilon
    grown = _CONTEXT.next_plus(_CONTEXT.exp(_ceil_decimal(epsilon)))
    tanh = _CONTEXT.subtract(1, _FLOOR.divide(2, _CONTEXT.next_plus(_CONTEXT.add(grown, 1))))
    return Fraction(math.ceil(min(epsilon * Fraction(tanh), epsilon**2 / 2) * _PURE_GRID), _PURE_GRID)


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
        which order is valid. The exact curve of an epsilon and Gaussian noise together has no proven filter, so only `keeps` uses it.
        """
        epsilon, rho, gaussian = self.epsilon, self.rho, self.gaussian
        if self.most != math.inf and epsilon:
            epsilon, rho, gaussian = Fraction(0), self.total_rho, gaussian and self.only_gaussian
        if not rho:
            return epsilon, self.delta
        if math.inf in (rho, epsilon) or delta <= self.delta:
            return math.inf, self.delta
        return epsilon + _epsilon_above(Fraction(rho), delta - self.delta, gaussian), delta

    def keeps(self, epsilon: Amount, delta: Fraction) -> bool:
        """Whether losses of which all sums were fixed in advance keep (epsilon, delta): pure and Gaussian ones by their joint curve."""
        if not self.gaussian or not self.rho or self.most != math.inf or math.inf in (self.rho, self.epsilon) or delta <= self.delta:
            return False
        pure, rho = Fraction(self.epsilon), Fraction(self.rho)
        return epsilon == math.inf or is_mixture_within(pure, rho, Fraction(epsilon), delta - self.delta)

    def total_within(self, epsilon: Amount, delta: Fraction) -> tuple[Amount, Fraction]:
        """Return the total of losses of an account of (epsilon, delta): at most that, where `keeps` says why."""
        total = self.total(delta)
        return (epsilon if total[0] > epsilon and self.keeps(epsilon, delta) else total[0]), total[1]

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


def optimal_loss(losses: Sequence[PrivacyLoss], delta: Fraction) -> PrivacyLoss:
    """Return the joint cost of losses that are fixed in advance, at `delta` more than their own deltas."""
    if not losses or len(losses) > _MOST_LOSSES or any(loss.rho is not None for loss in losses):
        bad = next((loss for loss in losses if loss.rho is not None), f"{len(losses)} losses")
        raise ValueError(
            f"losses must be 1 to {_MOST_LOSSES} losses in epsilon, got {short_repr(str(bad))}; losses in rho add up by themselves."
        )
    kept = math.prod((1 - loss.delta for loss in losses), start=Fraction(1))
    basic = sum(loss.epsilon for loss in losses)
    epsilon = basic if not delta or basic == math.inf else min(basic, optimal_epsilon([loss.epsilon for loss in losses], delta))
    return PrivacyLoss(epsilon, 1 - kept * (1 - (delta if epsilon < basic else 0)))


def covers_composition(losses: Sequence[PrivacyLoss], charge: PrivacyLoss) -> bool:
    """Whether a charge in epsilon pays for losses that were fixed in advance, up to the last digits of another processor."""
    kept = math.prod((1 - loss.delta for loss in losses), start=Fraction(1))
    delta = 1 - (1 - charge.delta) / kept
    if not 0 < delta < 1 or len(losses) > _MOST_LOSSES or any(loss.rho is not None or loss.is_infinite for loss in losses):
        return False
    return optimal_epsilon([loss.epsilon for loss in losses], delta) <= charge.epsilon * (1 + _TOLERANCE)


def optimal_epsilon(epsilons: Sequence[Fraction], delta: Fraction) -> Amount:
    """Return the least epsilon at `delta` > 0 of pure losses that are fixed in advance, rounded up; infinite where floats fail.

    Where the losses have a common step, at most 2^17 of which are their sum, it exceeds the least by less than 1e-9 of it. Otherwise each
    loss is rounded up by less than 2^-17 of the sum of all.

    Every e-differentially private mechanism is post-processing of randomized response: one bit, true with probability
    p = e^e / (1 + e^e) [1]_, even if it is asked again and again [3]_. So k of them are post-processing of k such bits, in whatever order
    they are used, and randomized response itself attains it. The privacy loss of the bits is the sum of independent +-e_i, each + with
    probability p_i under the first table and with 1 - p_i under the second. With its law P, and Q(s) = P(-s) under the second,

        delta(epsilon) = sum over s > epsilon of P(s) - e^epsilon P(-s),

    and the least epsilon at a delta is where that is delta [1]_ [2]_. A chance of delta_i to lose all leaves 1 - delta_i for the rest:
    delta becomes 1 - (1 - delta) prod (1 - delta_i).

    **Least epsilon.** The sum over s > epsilon is the largest of all sums P(s > t) - e^epsilon Q(s > t). So delta(epsilon) <= delta holds
    from the largest of all ln((P(s > t) - delta) / Q(s > t)) on.

    **Rounding.** The e_i are rounded up to multiples of a step (a promise of e implies every larger one): the largest that divides
    all of them, or, where that makes too many, their sum over the most steps. After that only floats round, and they hold
    products and sums of positive numbers: n of those in a row are wrong by a factor 1 +- n 2^-52, and by 1e-150 where numbers vanish.
    The result has P larger and Q smaller by that.

    .. [1] Kairouz, Oh, Viswanath (2015), "The composition theorem for differential privacy", theorems 3.3 and 3.4.
    .. [2] Murtagh, Vadhan (2016), "The complexity of computing the optimal composition of differential privacy".
    .. [3] Vadhan, Wang (2021), "Concurrent composition of differential privacy"; with deltas, Vadhan, Zhang (2023), "Concurrent composition
       theorems for differential privacy".
    """
    law, error = _compose(epsilons)
    return _least_epsilon(law, float(delta), error)


def _compose(epsilons: Sequence[Fraction]) -> tuple[np.ndarray, float]:
    """Return the law of the privacy loss, from -S to S steps, and a bound on the relative error of its sums."""
    whole, one = sum(epsilons), math.lcm(*(epsilon.denominator for epsilon in epsilons))
    common = Fraction(math.gcd(*(int(epsilon * one) for epsilon in epsilons)), one)  # the largest step that divides all of them
    step = Fraction(max(common, whole / _MOST_STEPS))
    law, n_rounded = np.ones(1), 64.0
    for steps, count in sorted(Counter(math.ceil(epsilon / step) for epsilon in epsilons).items()):
        # Probabilities that 0, 1, ... of `count` equal bits are false: binomial, by ratios, which fall, from the largest on.
        false = np.arange(1, count + 1)
        ratios = (count - false + 1) / false * math.exp(-float(step * steps))
        top = int(np.count_nonzero(ratios > 1))
        bits = np.concatenate([np.cumprod(1 / ratios[:top][::-1])[::-1], [1.0], np.cumprod(ratios[top:])])
        joined = np.zeros(len(law) + 2 * steps * count)
        for n_false, probability in enumerate((bits / bits.sum())[::-1]):  # from the least loss, of which all are false
            if probability > _VANISHED**2:
                joined[2 * steps * n_false :][: len(law)] += probability * law
        law, n_rounded = joined, n_rounded + count * (8 + float(step * steps))
    return law, (n_rounded + len(law)) * 2.0**-52


def _least_epsilon(law: np.ndarray, delta: float, error: float) -> Amount:
    above, below = np.cumsum(law[::-1]), np.cumsum(law)  # of the largest losses, first the largest alone: under the one table, the other
    excess = above * (1 + error) + _VANISHED - delta * (1 - 2.0**-52)
    least = below * (1 - error) - _VANISHED
    if np.any((excess > 0) & (least <= 0)):
        return math.inf
    needed = float(np.max(np.log(excess[excess > 0] / least[excess > 0]), initial=0.0))
    return Fraction(math.ceil(to_fraction(needed * (1 + 1e-12) + 1e-12) * _GRID), _GRID)


@savable
@dataclass(frozen=True)
class AttackRisk:
    """The gain of the best attack on one row, or on all rows of one unit, by an attacker who knows all others.

    The attacker sees all releases, and must tell which of two neighboring tables they came from.

    Attributes
    ----------
    fpr : float
        How often the attack may raise a false alarm.
    tpr : float
        An upper bound on how often its alarm is right. Without any release it would be `fpr`.
    advantage : float
        The most by which right alarms can exceed false ones, at any `fpr`: 0 means that nothing is learned, 1 that all is.
    neighboring : {"replace_one", "add_or_remove_one"}
        The neighboring tables that the attacker must tell apart.
    unit : str or None
        The target: "patient_id, at most 5 rows", or "row that is the only one of its unit". None: one row.

    See Also
    --------
    PrivacyAccountant.risk : Returns it for the charges so far.
    """

    fpr: float
    tpr: float
    advantage: float
    neighboring: str = "replace_one"
    unit: str | None = None

    @property
    def accuracy(self) -> float:
        """Largest probability of a right guess where both tables are equally likely before; a coin has one half."""
        return (1 + self.advantage) / 2

    def posterior(self, prior: float) -> float:
        """Return an upper bound on the probability that an alarm at this `fpr` is right, by the probability `prior` in (0, 1) before."""
        if not (is_real(prior) and 0 < prior < 1):
            raise ValueError(f"prior must be a number in (0, 1), got {short_repr(prior)}; 0.5 means that both tables are as likely.")
        right, false = float(prior) * self.tpr, (1 - float(prior)) * self.fpr
        return right / (right + false) if right + false else 1.0

    def __str__(self) -> str:
        asked = "was in the table" if self.neighboring == "add_or_remove_one" else "was this one or another"
        target = "one row" if self.unit is None else f"one {self.unit}" + "," * ("," in self.unit)
        return (
            f"Somebody who knows all other rows, and sees all that was released, tries to tell whether {target} {asked}. "
            f"Guessing, they are right at most {percent_at_most(self.accuracy)} of the time; a coin is right 50 %. "
            f"If they allow themselves {percent_at_most(self.fpr)} of false alarms, at most {percent_at_most(self.tpr)} of their targets "
            f"are found; without the releases it would be {percent_at_most(self.fpr)}."
        )


def risk_of(sums: Sums, losses: Sequence[PrivacyLoss], fpr: float, neighboring: str, unit: str | None = None) -> AttackRisk:
    """Return the gain of the best attack on losses that are fixed in advance, with these sums.

    An attack with false alarms a and right ones b has b <= e^epsilon a + delta and 1 - a <= e^epsilon (1 - b) + delta, for every (epsilon,
    delta) that holds [1]_: so b <= 1 - e^-epsilon (1 - delta - a), and b - a <= delta + (1 - delta) tanh(epsilon / 2). For one pure epsilon
    randomized response attains all three, and for Gaussian noise with mu = sqrt(2 rho) b is at most Phi(Phi^-1(a) + mu), attained [2]_.
    For several losses in epsilon `_optimal_rates` has all attacks on their randomized responses: for an (epsilon, delta) that response
    gives all away with chance delta. With chance D = 1 - prod(1 - delta_i) one of them does; otherwise the attack is one on pure losses,
    whose false alarms at a / (1 - D) are a of all. For mixtures with rho the least over many delta is a bound.

    .. [1] Kairouz, Oh, Viswanath (2015), "The composition theorem for differential privacy".
    .. [2] Dong, Roth, Su (2022), "Gaussian differential privacy".
    """
    if not (is_real(fpr) and 0 <= fpr <= 1):
        raise ValueError(f"fpr must be a number in [0, 1], got {short_repr(fpr)}; 0.01 is one false alarm in a hundred.")
    a = float(fpr)
    if sums.rho and sums.gaussian and not sums.epsilon and sums.rho != math.inf:
        mu = math.sqrt(2 * float(sums.rho)) * _ROUND_UP
        tpr, advantage = float(ndtr(ndtri(a) + mu)), 2 * float(ndtr(mu / 2)) - 1
    else:

        def tpr_bound(epsilon: float, delta: float) -> float:
            by_false = math.exp(epsilon) * a + delta if epsilon < 700 else 1.0
            return min(by_false, 1 - math.exp(-epsilon) * max(0.0, 1 - delta - a))

        tpr = _minimize_over_delta(sums, tpr_bound)
        advantage = _minimize_over_delta(sums, lambda epsilon, delta: delta + (1 - delta) * math.tanh(epsilon / 2))
        if len(losses) > 1 and not sums.rho and sums.epsilon != math.inf and sums.most == math.inf:
            tpr, advantage = np.minimum((tpr, advantage), _optimal_rates(losses, a))
    return AttackRisk(a, max(a, min(1.0, tpr * _ROUND_UP)), min(1.0, advantage * _ROUND_UP), neighboring, unit)


def _optimal_rates(losses: Sequence[PrivacyLoss], a: float) -> tuple[float, float]:
    """Return the right alarms at false ones, and the advantage, of the best attack on several losses in epsilon.

    By Neyman and Pearson the best attack on the bits of all pure losses gives the alarm where their privacy loss is more than some t, so it
    is right with P(s > t), and wrong with P(s < -t): these are the corners of the trade-off curve, which is straight between them.
    Rounded as above; 1 where so many losses would take long.
    """
    epsilons = [Fraction(loss.epsilon) for loss in losses if loss.epsilon]
    if not 0 < len(epsilons) <= _MOST_LOSSES or (len(epsilons) > _MOST_DISTINCT and len(set(epsilons)) > 1):
        return 1.0, 1.0
    law, error = _compose(epsilons)
    wrong = np.append(0.0, np.maximum(np.cumsum(law) * (1 - error) - _VANISHED, 0))
    right = np.append(0.0, np.minimum(np.cumsum(law[::-1]) * (1 + error) + _VANISHED, 1))
    kept = float(math.prod((1 - loss.delta for loss in losses), start=Fraction(1)))
    found = float(np.interp(a / kept, wrong, right)) if kept else 1.0
    return 1 - kept + kept * found, 1 - kept + kept * float(np.max(right - wrong))


def _minimize_over_delta(sums: Sums, bound: Callable[[float, float], float]) -> float:
    """Return the least bound over deltas: one alone where all is pure, otherwise those of a grid, refined around the best."""

    def at(log_delta: float) -> float:
        delta = min(max(Fraction(math.exp(log_delta)), sums.delta), Fraction(999, 1000))
        return bound(float(sums.total(delta)[0]), float(delta))

    pure = bound(math.inf if sums.rho else float(sums.epsilon), float(sums.delta))
    if not sums.rho and sums.most == math.inf:
        return pure
    grid = np.log(max(float(sums.delta), 1e-15)) + np.linspace(0, 1, 49) * -math.log(max(float(sums.delta), 1e-15) / 0.5)
    values = [at(log_delta) for log_delta in grid]
    best = int(np.argmin(values))
    between = np.linspace(grid[max(best - 1, 0)], grid[min(best + 1, 48)], 17)
    return min(pure, *values, *(at(log_delta) for log_delta in between))
