"""Dependence of three to five columns beyond all pairs, found privately without a named target, and put into the model."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from skdpsynth.fitting import Budget
from skdpsynth.frames import Rows
from skdpsynth.models import DifferenceLaw, Measurements, TableModel, shares_of
from skdpsynth.privacy import PrivacyLoss, mechanism, selection_loss
from skdpsynth.statistics import Parities, SumParities, total
from skdpsynth.synthesis._latent_planning import MANY_CLASSES, MarginalsPlan, answer_query, columns_drawn_together, loss_ratio

_ORDERS = (3, 4, 5)  # columns of a set; the last is left out where classes are one more
_MOST_SETS, _MOST_WORK = 1 << 16, 1 << 35  # the work is sets times rows: about a second
# The least share of what pairs would have alone that finds sets by so many of the rows.
_SHARES = ((0.006, 0.1), (0.012, 0.1), (0.021, 0.5))
_ROUNDS = ((3, 0.1), (3, 0.2), (1, 0.5))  # as many as find sets by so many of the rows
_CLEAR = 4  # deviations, of noise and of sampling
_OF_PAIRS = 3  # deviations of a product of signs in noisy tables of pairs: parities follow from pairs, too, and tell of their errors
_LEAST_GAP = 0.1  # of the rows: to put smaller ones in costs pairs as much as it brings
_SIDE = 0.2  # least share of rows with either sign: parities of uneven columns follow from their pairs, and tell of the errors of these


@dataclass(frozen=True, eq=False)
class ParitySearch:
    """Rounds: in each, one set of columns is chosen by how far its parity is from what the model expects, and its parity is released."""

    columns: tuple[int, ...]
    orders: tuple[int, ...]
    n_classes: int
    share: PrivacyLoss  # of all rounds

    @classmethod
    def reserve(
        cls, plan: MarginalsPlan, sizes: Sequence[int], n_rows: float, relation: str, near: Sequence[DifferenceLaw]
    ) -> "tuple[ParitySearch | None, MarginalsPlan]":
        """Return the search, and the plan with what it leaves for pairs, by public numbers and the noisy number of rows.

        There is none where noise would hide even a parity that is off by half of the rows. Columns that rules or differences join are left
        out, as they are drawn together in another way.
        """
        joined = columns_drawn_together(plan, near)
        columns = tuple(place for place, size in enumerate(sizes[:-1]) if size > 1 and place not in joined)
        orders: tuple[int, ...] = _ORDERS if plan.stratum is None else _ORDERS[:-1]
        while orders and _n_sets(len(columns), orders) > min(_MOST_SETS, _MOST_WORK / n_rows):
            orders = orders[:-1]
        if plan.is_block or plan.in_database or not plan.counts_all_pairs or not _n_sets(len(columns), orders):
            return None, plan
        if plan.n_classes > MANY_CLASSES:
            return None, plan
        for part, least in _SHARES:
            share, rest = plan.shares[plan.pair_step].split([part, 1 - part])
            search = cls(columns, orders, plan.n_classes, share)
            if search.rounds(n_rows, relation)[1] <= least:
                return search, replace(plan, shares={**plan.shares, plan.pair_step: rest})
        return None, plan

    def rounds(self, n_rows: float, relation: str) -> tuple[list[tuple[PrivacyLoss, PrivacyLoss]], float]:
        """Return shares of the choice and the parity of each round, and the part of the rows by which they find sets.

        If a set is off by so much, its choice is no chance, and its parity is clear of noise and of sampling. Infinite: a blind round.
        """
        n_sets = _n_sets(len(self.columns), self.orders)
        sup, noisy = Parities.sensitivity_of_gaps(relation, 1).times(self.share.rows).sup, Parities.sensitivity(relation, self.n_classes)
        for n_rounds, least in _ROUNDS:
            choice, parity = self.share.split([2] * n_rounds + [1] * n_rounds)[n_rounds - 1 : n_rounds + 1]
            scale = Fraction(round(64 * least * n_rows), round(64 * max(math.log(n_sets), 1)))
            gap = _clear_gap(mechanism(noisy, parity, n_values=self.n_classes).deviation, self.n_classes, n_rows)
            if scale and gap <= least * n_rows and loss_ratio(choice, selection_loss(sup, scale, choice)) >= 1:
                return [(choice, parity)] * n_rounds, least
        return [(choice, parity)], math.inf

    def apply(self, rows: Rows, counted: Measurements, model: TableModel, budget: Budget) -> dict[str, Any]:
        """Do the rounds on rows of codes, of which the last is the class; return attributes: the model, and what was found."""
        totals, masses = counted.totals, [np.maximum(table.sum(axis=0), 0.0) for table in counted.one_way.tables.values()]
        signs = {column: split_in_half(masses[column]) for column in self.columns}
        even = {column: sign for column, sign in signs.items() if abs(shares_of(masses[column])[sign].sum() - 0.5) <= 0.5 - _SIDE}
        signs = even if len(even) >= self.orders[0] else signs
        rule, columns = SumParities(tuple(signs), tuple(signs.values()), self.orders, len(totals)), list(signs)
        exact, sets, left = total(rows, rule), [members for each in rule.sets for members in each.tolist()], list(range(rule.n_sets))
        found = dict[tuple[int, ...], np.ndarray]()
        of_pairs = _OF_PAIRS * len(totals) * counted.two_way.deviation * float(np.mean([len(mass) for mass in masses]))
        for number, (choice, parity) in enumerate(self.rounds(float(totals.sum()), budget.relation)[0], start=1):
            expected = np.rint(model.parity_means(signs, rule.sets) * totals[:, None]).astype(np.int64)
            place = left.pop(budget.choose(exact.gaps(expected, left, budget.relation), choice, f"choice of a parity {number}"))
            noisy, noise = answer_query(exact.query(place, budget.relation), parity, budget, f"parity {number}")
            left, chosen = left or list(range(rule.n_sets)), tuple(columns[member] for member in sets[place])
            gap, means = np.abs(noisy - expected[:, place]), noisy / np.maximum(totals, 1.0)
            # In a class that is not clear by itself, the parity stays.
            known = np.where(gap >= _CLEAR / 2 * np.sqrt(noise.variance + totals), means, np.nan)
            tilted = model.with_parity({column: signs[column] for column in chosen}, known)
            if tilted is not None and gap.sum() >= max(_clear_gap(noise.deviation, len(totals), float(totals.sum())), of_pairs):
                model, found[chosen] = tilted, np.clip(means, -1, 1)
        names = [name for name in counted.schema if name != counted.stratum]
        parities = {tuple(names[i] for i in chosen): float(m[0]) if counted.stratum is None else m for chosen, m in found.items()}
        splits = {names[i]: int(np.argmax(signs[i])) for i in sorted({i for chosen in found for i in chosen})}
        return {"_model": model, "parities_": parities, "parity_splits_": splits}


def _n_sets(n_columns: int, orders: Sequence[int]) -> int:
    return sum(math.comb(n_columns, order) for order in orders)


def _clear_gap(deviation: float, n_classes: int, n_rows: float) -> float:
    """Return the least gap that is more than noise and sampling: absolute values of noise in several classes add up."""
    noise = math.sqrt(n_classes * deviation**2 + n_rows)
    return max(_CLEAR * noise + (n_classes - 1) * deviation, _LEAST_GAP * n_rows)


def split_in_half(masses: np.ndarray) -> np.ndarray:
    """Return which codes are in the second part, where their order is cut nearest to half of the counts."""
    upto = np.cumsum(masses)
    return np.arange(len(masses)) > int(np.argmin(np.abs(upto[:-1] - upto[-1] / 2)))
