"""The risk of an attack: losses as rates of false and right alarms."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from skdpsynth._text import percent_at_most
from skdpsynth._validation import is_real, short_repr
from skdpsynth.persistence import savable
from skdpsynth.privacy._composition import Group, Sums
from skdpsynth.privacy._ledger import LedgerEntry
from skdpsynth.privacy._losses import PrivacyLoss
from skdpsynth.privacy._optimal_composition import tradeoff_curve

_ROUND_UP = 1 + 1e-12  # for the rounding of floats, and of discrete Gaussian noise


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
        """How often a guess is right, at most, if both tables are equally likely before; a coin is right half the time."""
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


def losses_of(entries: Iterable[LedgerEntry]) -> list[PrivacyLoss]:
    """Return the losses of lines of one account; of a group, those of its largest member, as a row is in one of them alone."""
    groups: dict[str, Group] = {}
    losses = []
    for entry in entries:
        if entry.group is None:
            losses.append(entry.loss)
        else:
            group = groups.setdefault(entry.group, Group())
            group.members[entry.name], group.largest = group.with_member(entry.name, entry.loss)
    return losses + [loss for group in groups.values() for loss in group.largest.losses()]


def risk_of(sums: Sums, losses: Sequence[PrivacyLoss], fpr: Any, neighboring: str, unit: str | None = None) -> AttackRisk:
    """Return the gain of the best attack on losses that are fixed in advance, with these sums.

    An attack with false alarms a and right ones b has b <= e^epsilon a + delta and 1 - a <= e^epsilon (1 - b) + delta, for every (epsilon,
    delta) that holds [1]_: so b <= 1 - e^-epsilon (1 - delta - a), and b - a <= delta + (1 - delta) tanh(epsilon / 2). For one pure epsilon
    randomized response attains all three, and for Gaussian noise with mu = sqrt(2 rho) b is at most Phi(Phi^-1(a) + mu), attained [2]_.
    For several losses in epsilon `tradeoff_curve` has all attacks on their randomized responses: for an (epsilon, delta) that response
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
    """Return the right alarms at false ones, and the advantage, of the best attack on several losses in epsilon."""
    attacks = tradeoff_curve([Fraction(loss.epsilon) for loss in losses if loss.epsilon])
    if attacks is None:
        return 1.0, 1.0
    wrong, right = attacks
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
