"""Levels that nobody has listed, bought with a part of the budget."""

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from skdpsynth.domain import list_names
from skdpsynth.fitting._budget import Budget
from skdpsynth.fitting._facts import Facts
from skdpsynth.privacy import PrivacyLoss, discovery, split_exactly
from skdpsynth.statistics import Occurrences

LEVELS_SHARE = Fraction(1, 10)  # of epsilon and of delta, for the levels of columns where they are private


def without_levels_share(facts: Facts) -> Facts:
    """Return facts of what the purchase of levels leaves."""
    return replace(facts, epsilon=facts.epsilon * (1 - LEVELS_SHARE), delta=facts.delta * (1 - LEVELS_SHARE))


def buy_levels(total: Any, columns: Sequence[int], facts: Facts, budget: Budget) -> list[list[Any]]:
    """Release which levels enough rows have, of columns of cells as levels.

    Parameters
    ----------
    total : callable
        Returns the statistic of all rows by a rule.
    columns : sequence of int
    facts : Facts
        Of the whole budget.
    budget : Budget
    """
    epsilon, _ = split_exactly(facts.epsilon, [LEVELS_SHARE, 1 - LEVELS_SHARE])
    share = PrivacyLoss(epsilon, 0 if epsilon == math.inf else facts.delta * LEVELS_SHARE, rows=facts.rows_per_unit)
    return budget.discover(total(Occurrences.over(columns)).tables, discovery(budget.relation, len(columns), share), "levels")


def warn_of_few_levels(names: Sequence[Any], found: Sequence[Sequence[Any]], budget: Budget) -> None:
    """Warn of columns of which fewer than two levels were shown."""
    if few := [name for name, levels in zip(names, found, strict=True) if len(levels) < 2]:
        budget.warn(
            f"Fewer than two levels of {list_names(few)} have enough rows to be shown, so made-up ones stand there; list the levels, use more "
            "rows, a larger epsilon or delta."
        )
