"""A second round of strategy "marginals", where noise is small: the tables of three columns farthest from the model of pairs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from skdpsynth.fitting import Budget
from skdpsynth.frames import Rows
from skdpsynth.models import (
    DifferenceLaw,
    MarginalModel,
    NoisyTables,
    candidate_triples,
    most_dependent_triples,
    shares_of,
    triple_frequencies,
)
from skdpsynth.privacy import mechanism
from skdpsynth.statistics import Marginals, distances, total
from skdpsynth.synthesis._latent_planning import MarginalsPlan, answer_query

PAIRS, DISTANCES, TRIPLES = "counts of pairs", "distances of triples", "counts of triples"
_SHARES = {PAIRS: 0.75, DISTANCES: 0.02, TRIPLES: 0.23}  # of what pairs would have alone
_MOST, _CONSIDERED = 20, 60  # triples
_MOST_CELLS = 4096  # of a triple, in all classes
_CLEAR = 3000  # times the noise of a count: so many rows pay for a second round

Triple = tuple[int, ...]


def plan_triples(plan: MarginalsPlan, sizes: Sequence[int], n_rows: float, relation: str, near: Sequence[DifferenceLaw]) -> MarginalsPlan:
    """Share what pairs have with a second round where it pays, by public numbers and the noisy number of rows."""
    if plan.block is not None or not plan.counts_all_pairs:
        return plan
    share = plan.shares[PAIRS]
    n_triples = min(len(_candidate_triples(plan, sizes, near)), _CONSIDERED)
    if not n_triples or share.rho is None or share.is_infinite:
        return plan
    weights = {name: weight for name, weight in _SHARES.items() if name != DISTANCES or n_triples > _MOST}
    parts = dict(zip(weights, share.split(list(weights.values())), strict=True))
    noise = mechanism(Marginals.sensitivity(relation, min(n_triples, _MOST)), parts[TRIPLES], ("gaussian",)).deviation
    return replace(plan, shares={**plan.shares, **parts}) if n_rows >= _CLEAR * noise else plan


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
