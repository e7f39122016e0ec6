"""Which tables strategy "marginals" counts: few pairs, where noise would drown most of all, and triples, where noise is small.

The triples are those whose tables are farthest from the model of pairs: a second round.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations

import numpy as np

from skdpsynth.domain import Nominal
from skdpsynth.fitting import Budget
from skdpsynth.frames import Rows
from skdpsynth.models import (
    DifferenceLaw,
    Link,
    MarginalModel,
    NoisyTables,
    candidate_triples,
    most_dependent_triples,
    shares_of,
    triple_frequencies,
)
from skdpsynth.privacy import PrivacyLoss, mechanism, selection_loss
from skdpsynth.statistics import Marginals, dependences, distances, sensitivity_of_dependences, total
from skdpsynth.synthesis._latent_planning import MarginalsPlan, answer_query

Triple = tuple[int, ...]

PAIRS, LOOK, CHOICE = "counts of pairs", "spread of dependence", "choice of pairs"
_SHARES = {LOOK: 0.05, CHOICE: 0.57, PAIRS: 0.38}  # of what pairs would have alone
_LARGER = 16  # times the share of a pair, that of one that is chosen, pays for choosing it
_STRONG = Fraction(1, 2)  # of the rows: the distance of a pair whose columns have a correlation of about .75
_SURE = 1.5  # scales of a choice by which such a pair stands out, beyond the logarithm of the number of pairs
_DROWNED = 3  # times the noise of all pairs: of fewer rows they say nothing
_SEEN = 20  # times the noise of a look: so many rows pay for one
_WIDE = 0.1  # of the rows: a distance of the upper quartile beyond which dependence is in most pairs, and all are counted
_CLEAR = 4  # times the noise of a pair: so many rows of a cell of two columns of numbers pay for their bins
_LEAST_BINS, _MOST_BINS = 3, 16
_SPLITS = 7  # of a column, at most

Pair = tuple[int, int]

DISTANCES, TRIPLES = "distances of triples", "counts of triples"
_SHARES_OF_TRIPLES = {PAIRS: 0.75, DISTANCES: 0.02, TRIPLES: 0.23}  # of what pairs would have alone
_MOST, _CONSIDERED = 20, 60  # triples
_MOST_CELLS = 4096  # of a triple, in all classes
_CLEAR_OF_TRIPLES = 3000  # times the noise of a count: so many rows pay for a second round


@dataclass(frozen=True, eq=False)
class PairSelection:
    """The number of pairs to choose, and their shares of the budget."""

    n_pairs: int
    shares: Mapping[str, PrivacyLoss]  # of a look at the spread of dependence, where that is worth it, of the choices, and of the counts
    n_rows: int  # public or estimated
    n_bins: int  # of a column of numbers

    @classmethod
    def of(cls, plan: MarginalsPlan, relation: str, n_rows: float) -> "PairSelection | None":
        """Return the selection that pays better than counting all pairs, by public numbers and the noisy number of rows; None if none does.

        A choice costs more, the more pairs there are and the weaker the dependences it looks for. One choice for each of the t pairs of
        strong dependence that the share pays for would be many for tables of many rows, with noise on all their counts: so there are the
        root of t, which finds weaker pairs, too. They pay where each is counted at `_LARGER` times the share of each of all pairs: with
        Gaussian noise, the noise is smaller by the root of that.
        """
        if not plan.counts_all_pairs or plan.block is not None or plan.stratum is not None:
            return None
        share, n_columns, n_rows = plan.shares[PAIRS], len(plan.schema), max(1, round(n_rows))
        if share.is_infinite or n_columns < 3:
            return None
        n_all, of_all = math.comb(n_columns, 2), mechanism(Marginals.sensitivity(relation, math.comb(n_columns, 2)), share).deviation
        shares = _split_share(share, _SHARES)
        look = mechanism(sensitivity_of_dependences(relation, n_all, _quartile_rank(n_all)), shares[LOOK]).deviation
        if n_rows < _DROWNED * of_all or n_rows < _SEEN * look:
            shares = _split_share(share, {name: weight for name, weight in _SHARES.items() if name != LOOK})
        scale = _STRONG * n_rows / Fraction(round(64 * (math.log(n_all) + _SURE)), 64)
        sup = sensitivity_of_dependences(relation, n_all).times(share.rows).sup
        n_affordable = _loss_ratio(shares[CHOICE], selection_loss(sup, scale, share))
        if n_affordable < 1:
            return None
        n_pairs = min(math.ceil(math.sqrt(n_affordable)), n_columns - 1)
        if n_all * _loss_ratio(shares[PAIRS], share) < _LARGER * n_pairs:
            return None
        of_few = mechanism(Marginals.sensitivity(relation, n_pairs), shares[PAIRS]).deviation
        n_bins = int(np.clip(round(math.sqrt(n_rows / (_CLEAR * of_few))), _LEAST_BINS, _MOST_BINS))
        return cls(n_pairs, shares, n_rows, n_bins)

    def choose(
        self, rows: Rows, sizes: Sequence[int], splits: Sequence[np.ndarray], plan: MarginalsPlan, budget: Budget
    ) -> tuple[list[Pair], MarginalsPlan]:
        """Return the pairs to count, and the plan with the share that is left for them.

        They are all pairs if a look shows that most depend on each other. Else they are chosen one after the other, and none closes a
        circle of earlier ones: most of its information would follow from them. `rows` are codes, and `splits` those of `dependences`.
        """
        pairs = list(combinations(range(len(sizes)), 2))
        exact = total(rows, Marginals.over(list(sizes), pairs))
        if LOOK in self.shares and self._is_wide(exact, pairs, splits, budget):
            return pairs, _with_pair_share(plan, self.shares[CHOICE] + self.shares[PAIRS])
        query, part = dependences(exact, pairs, splits, self.n_rows, budget.relation), list(range(len(sizes)))
        left, chosen = list(range(len(pairs))), list[Pair]()
        for number, share in enumerate(self.shares[CHOICE].split([1] * self.n_pairs), start=1):
            some = sensitivity_of_dependences(budget.relation, len(left))
            place = budget.choose(replace(query, values=query.values[left], sensitivity=some), share, f"{CHOICE} {number}")
            i, j = pairs[left[place]]
            chosen.append((i, j))
            part = [part[i] if each == part[j] else each for each in part]
            left = [each for each in left if part[pairs[each][0]] != part[pairs[each][1]]]
        return sorted(chosen), _with_pair_share(plan, self.shares[PAIRS])

    def _is_wide(self, exact: Marginals, pairs: Sequence[Pair], splits: Sequence[np.ndarray], budget: Budget) -> bool:
        query = dependences(exact, pairs, splits, self.n_rows, budget.relation, _quartile_rank(len(pairs)))
        return bool(budget.answer(query, mechanism(query.sensitivity, self.shares[LOOK]), LOOK)[0] > _WIDE * self.n_rows)


def _split_share(share: PrivacyLoss, weights: Mapping[str, float]) -> dict[str, PrivacyLoss]:
    return dict(zip(weights, share.split(list(weights.values())), strict=True))


def _loss_ratio(loss: PrivacyLoss, other: PrivacyLoss) -> float:
    """Return how many losses like another one, of the same kind, add up to this one."""
    return float(loss.epsilon / other.epsilon if loss.rho is None else loss.rho / other.rho)


def _quartile_rank(n_pairs: int) -> int:
    return n_pairs // 4 + 1


def _with_pair_share(plan: MarginalsPlan, share: PrivacyLoss) -> MarginalsPlan:
    return replace(plan, shares={**plan.shares, PAIRS: share})


def refine_links(links: Mapping[Hashable, object]) -> dict[Hashable, Link]:
    """Return links of numbers in more bins than are counted, whose edges are splits: choices are of distances alone."""
    return {name: link.recut(_SPLITS + 1) for name, link in links.items() if isinstance(link, Link)}


def column_splits(shares: np.ndarray, kind: object) -> np.ndarray:
    """Return splits of a column by its noisy counts or masses: edges between codes, or one code and all others."""
    mass, n_splits = np.maximum(shares, 0.0), min(_SPLITS, len(shares) - 1)
    codes = np.arange(len(mass))
    if isinstance(kind, Nominal):
        return codes == np.argsort(-mass, kind="stable")[: n_splits if n_splits < 2 else n_splits + (len(mass) <= _SPLITS), None]
    if n_splits < _SPLITS:
        return codes < codes[1:, None]
    upto = np.cumsum(mass) / max(mass.sum(), 1e-9)
    edges = np.unique(np.clip(np.searchsorted(upto, np.arange(1, n_splits + 1) / (n_splits + 1)) + 1, 1, len(mass) - 1))
    return codes < edges[:, None]


def plan_triples(plan: MarginalsPlan, sizes: Sequence[int], n_rows: float, relation: str, near: Sequence[DifferenceLaw]) -> MarginalsPlan:
    """Share what pairs have with a second round where it pays, by public numbers and the noisy number of rows."""
    if plan.block is not None or not plan.counts_all_pairs:
        return plan
    share = plan.shares[PAIRS]
    n_triples = min(len(_candidate_triples(plan, sizes, near)), _CONSIDERED)
    if not n_triples or share.rho is None or share.is_infinite:
        return plan
    weights = {name: weight for name, weight in _SHARES_OF_TRIPLES.items() if name != DISTANCES or n_triples > _MOST}
    parts = dict(zip(weights, share.split(list(weights.values())), strict=True))
    noise = mechanism(Marginals.sensitivity(relation, min(n_triples, _MOST)), parts[TRIPLES], ("gaussian",)).deviation
    return replace(plan, shares={**plan.shares, **parts}) if n_rows >= _CLEAR_OF_TRIPLES * noise else plan


def _candidate_triples(plan: MarginalsPlan, sizes: Sequence[int], near: Sequence[DifferenceLaw]) -> list[Triple]:
    """Return the triples of columns that are drawn by themselves, and whose tables are not too large."""
    tied = {name for tie in plan.ties for name in tie.columns} | {name for each in near for name in (each.first, each.second)}
    places = [place for place, name in enumerate(plan.names) if name in tied]
    return candidate_triples(sizes[:-1], places, _MOST_CELLS // sizes[-1])


def has_triples(plan: MarginalsPlan) -> bool:
    return TRIPLES in plan.shares


@dataclass(frozen=True, eq=False)
class TripleRound:
    """The second round of a fit."""

    rows: Rows  # codes of columns, and last of the class: private
    sizes: Sequence[int]  # number of codes of each
    plan: MarginalsPlan
    budget: Budget
    near: Sequence[DifferenceLaw]

    def released(self, model: MarginalModel, totals: np.ndarray) -> NoisyTables:
        """Choose the triples farthest from a model of pairs, with class totals, and release them."""
        classes = [model.probabilities(label) for label in range(len(totals))]
        chosen = most_dependent_triples(_candidate_triples(self.plan, self.sizes, self.near), classes, shares_of(totals), _CONSIDERED)
        if len(chosen) > _MOST:
            chosen = self._worst(chosen, classes, totals)
        exact = self._counted(chosen)
        noisy, noise = answer_query(exact.query(self.budget.relation), self.plan.shares[TRIPLES], self.budget, TRIPLES, ("gaussian",))
        return NoisyTables(dict(zip(chosen, exact.tables(noisy), strict=True)), noise.variance)

    def _worst(self, triples: Sequence[Triple], classes: Sequence[Sequence[np.ndarray]], totals: np.ndarray) -> list[Triple]:
        """Return the triples whose tables are farthest from the model, by noisy distances."""
        expected = [
            np.rint([n * triple_frequencies(P, triple) for n, P in zip(totals, classes, strict=True)]).astype(np.int64)
            for triple in triples
        ]
        query = distances(self._counted(triples), expected, self.budget.relation)
        noisy, _ = answer_query(query, self.plan.shares[DISTANCES], self.budget, DISTANCES, ("gaussian",))
        return sorted(triples[place] for place in np.argsort(-noisy, kind="stable")[:_MOST].tolist())

    def _counted(self, triples: Sequence[Triple]) -> Marginals:
        return total(self.rows, Marginals.over(self.sizes, [(len(self.sizes) - 1, *triple) for triple in triples]))
