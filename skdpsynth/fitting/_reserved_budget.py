"""A part of a budget for public facts that are bought before a plan can be made."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from skdpsynth.fitting._facts import Facts
from skdpsynth.privacy import PrivacyLoss, epsilon_of_rho, rho_of_epsilon, split_exactly

_MIN_REMAINING_SHARE = Fraction(1, 4)


@dataclass(frozen=True)
class ReservedBudget:
    """A part of a budget, and what it leaves.

    Attributes
    ----------
    loss : PrivacyLoss
        What the part may cost.
    epsilon : Fraction or inf
        What is left, at the same delta.
    rho : {None, "gaussian", "zcdp"}
        What all of the rest must be charged in, because the part is.
    """

    loss: PrivacyLoss
    epsilon: Any
    rho: str | None = None

    def remaining_facts(self, facts: Facts) -> Facts:
        """Return facts of the rest."""
        return replace(facts, epsilon=self.epsilon, rho=self.rho)


def reserve_budget(facts: Facts, part: Fraction, rho: str | None) -> ReservedBudget:
    """Set a part of the budget aside for noise that is charged as pure, or, of a budget in rho, as Gaussian.

    Of a budget that is spent in rho the part is one of rho, which is more than that of epsilon. Gaussian noise of a rho is zCDP of that rho
    too, so with a rest of either kind it adds up in rho. Of which kind the rest is must not follow from what was bought: whoever could
    choose between two kinds, each of which fits, by what the first noise was, would lose up to twice delta.

    Parameters
    ----------
    facts : Facts
    part : Fraction
    rho : {None, "gaussian", "zcdp"}
        What all of the rest is charged in, as `Plan` says.
    """
    first, rest = split_exactly(facts.epsilon, [part, 1 - part])
    pure = ReservedBudget(facts.pure(first), rest)
    if rho is None or facts.epsilon == math.inf:
        return pure
    is_gaussian = rho == "gaussian"
    whole = rho_of_epsilon(facts.epsilon, facts.delta, gaussian=is_gaussian)
    rest = epsilon_of_rho((1 - part) * whole, facts.delta, gaussian=is_gaussian)
    if rest < _MIN_REMAINING_SHARE * facts.epsilon:
        return pure  # a delta that is large beside epsilon pays for rho alone, so that no epsilon tells what is left
    # What the rest will take of it, to the last digit, and what that leaves.
    bought = whole - rho_of_epsilon(rest, facts.delta, gaussian=is_gaussian)
    return ReservedBudget(PrivacyLoss(rho=bought, gaussian=True, rows=facts.rows_per_unit), rest, rho)


def loss_kind_of_fit(facts: Facts, parts: Sequence[Fraction], rho: str | None) -> str | None:
    """Return what all of a fit is charged in, if that is rho: what follows from the plan, and the parts set aside before, in turn.

    Parameters
    ----------
    facts : Facts
        Of the whole budget.
    parts : sequence of Fraction
        The shares of the public facts that are bought, each of what the one before leaves.
    rho : {None, "gaussian", "zcdp"}
        What all of the rest is charged in, as `Plan` says.
    """
    for part in parts:
        aside = reserve_budget(facts, part, rho)
        facts, rho = aside.remaining_facts(facts), aside.rho
    return None if facts.unlisted else rho
