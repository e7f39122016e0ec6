"""Optimal composition of losses that are fixed in advance: the least epsilon, and the risk of the best attack; both rounded up.

Every e-differentially private mechanism is post-processing of randomized response: one bit, true with probability
p = e^e / (1 + e^e) [1]_, even if it is asked again and again [3]_. So k of them are post-processing of k such bits, in whatever order
they are used, and randomized response itself attains it. The privacy loss of the bits is the sum of independent +-e_i, each + with
probability p_i under the first table and with 1 - p_i under the second. With its law P, and Q(s) = P(-s) under the second,

    delta(epsilon) = sum over s > epsilon of P(s) - e^epsilon P(-s),

and the least epsilon at a delta is where that is delta [1]_ [2]_. A chance of delta_i to lose all leaves 1 - delta_i for the rest:
delta becomes 1 - (1 - delta) prod (1 - delta_i).

**Least epsilon.** The sum over s > epsilon is the largest of all sums P(s > t) - e^epsilon Q(s > t). So delta(epsilon) <= delta holds from
the largest of all ln((P(s > t) - delta) / Q(s > t)) on.

**Rounding.** The e_i are rounded up to multiples of a step (a promise of e implies every larger one): the largest that divides
all of them, or, where that makes too many, their sum over the most steps. After that only floats round, and they hold
products and sums of positive numbers: n of those in a row are wrong by a factor 1 +- n 2^-52, and by 1e-150 where numbers vanish.
The result has P larger and Q smaller by that.

References
----------
.. [1] Kairouz, Oh, Viswanath (2015), "The composition theorem for differential privacy", theorems 3.3 and 3.4.
.. [2] Murtagh, Vadhan (2016), "The complexity of computing the optimal composition of differential privacy".
.. [3] Vadhan, Wang (2021), "Concurrent composition of differential privacy"; with deltas, Vadhan, Zhang (2023), "Concurrent composition
   theorems for differential privacy".
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.special import ndtr, ndtri

from skdpsynth._text import percent_at_most
from skdpsynth._validation import check_choice, is_real, short_repr
from skdpsynth.persistence import savable
from skdpsynth.privacy._composition import Sums, rho_of_epsilon
from skdpsynth.privacy._losses import Amount, PrivacyLoss, to_fraction

_MOST_STEPS = 1 << 17  # of the grid, from 0 to the sum of all
_MOST_LOSSES = 1 << 16
_MOST_DISTINCT = 1 << 12  # whose attacks are found in seconds, where not all are equal
_GRID = 10**15
_VANISHED = 1e-150
_SLACK = Fraction(1, 10**9)
_ROUND_UP = 1 + 1e-12  # for the rounding of floats, and of discrete Gaussian noise


def losses_of_child(whole: PrivacyLoss, rho: str | None, parents: Fraction) -> list[PrivacyLoss]:
    """Return how a child of a budget of delta `parents` may be charged, the least first: in rho if all of it is, and (epsilon, delta)."""
    if rho is not None:
        check_choice("rho", rho, ("gaussian", "zcdp"), " or None")
    if rho is None or not whole.delta or not parents or whole.is_infinite:
        return [whole]
    gaussian = rho == "gaussian"
    return [PrivacyLoss(rho=rho_of_epsilon(whole.epsilon, whole.delta, gaussian=gaussian), gaussian=gaussian), whole]


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
    return optimal_epsilon([loss.epsilon for loss in losses], delta) <= charge.epsilon * (1 + _SLACK)


def optimal_epsilon(epsilons: Sequence[Fraction], delta: Fraction) -> Amount:
    """Return the least epsilon at `delta` > 0 of pure losses that are fixed in advance, rounded up; infinite where floats fail.

    Where the losses have a common step, at most 2^17 of which are their sum, it exceeds the least by less than 1e-9 of it. Otherwise each
    loss is rounded up by less than 2^-17 of the sum of all.
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


# The best attack


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
        tpr = _minimize_over_delta(sums, lambda epsilon, delta: _tpr_bound(epsilon, delta, a))
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


def _tpr_bound(epsilon: float, delta: float, a: float) -> float:
    by_false = math.exp(epsilon) * a + delta if epsilon < 700 else 1.0
    return min(by_false, 1 - math.exp(-epsilon) * max(0.0, 1 - delta - a))


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
