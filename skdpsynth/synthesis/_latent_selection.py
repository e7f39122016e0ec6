"""Tables that strategy "marginals" counts in a second round, chosen by private counts: few pairs, triples, and columns near each other.

Few pairs are counted where noise would drown most of all, triples where noise is small: a second round, of those whose tables are farthest
from the model of pairs. Columns near each other are found by noisy counts of coarse differences, and modeled by noisy trees of fine ones.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations

import numpy as np

from skdpsynth._validation import short_repr
from skdpsynth.domain import Grid, Inequality, Nominal, Schema, Spans, Times, comparable, edges_of_differences, keys_of
from skdpsynth.fitting import Budget
from skdpsynth.frames import Rows
from skdpsynth.models import (
    Codes,
    DifferenceLaw,
    Link,
    NoisyTables,
    TableModel,
    candidate_triples,
    most_dependent_triples,
    orient_difference,
    shares_of,
    threshold_link,
    triple_frequencies,
)
from skdpsynth.privacy import PrivacyLoss, mechanism, selection_loss
from skdpsynth.statistics import DifferencesOf, Marginals, Trees, dependences, distances, sensitivity_of_dependences, total
from skdpsynth.synthesis._latent_planning import MarginalsPlan, answer_query, split_share

Triple = tuple[int, ...]
Pair = tuple[int, int]

PAIRS, LOOK, CHOICE = "counts of pairs", "spread of dependence", "choice of pairs"
_SHARES = {LOOK: 0.05, CHOICE: 0.57, PAIRS: 0.38}  # of what pairs would have alone
_LARGER = 16  # times the share of a pair, that of one that is chosen, pays for choosing it
_STRONG = Fraction(1, 2)  # of the rows: the distance of a pair whose columns have a correlation of about .75
_CHOICE_MARGIN = 1.5  # scales of a choice by which such a pair stands out, beyond the logarithm of the number of pairs
_DROWNED = 3  # times the noise of all pairs: of fewer rows they say nothing
_SEEN = 20  # times the noise of a look: so many rows pay for one
_WIDE = 0.1  # of the rows: a distance of the upper quartile beyond which dependence is in most pairs, and all are counted
_CLEAR = 4  # times the noise of a pair: so many rows of a cell of two columns of numbers pay for their bins
_LEAST_BINS, _MOST_BINS = 3, 16
SPLITS = 7  # of a column, at most

DISTANCES, TRIPLES = "distances of triples", "counts of triples"
_SHARES_OF_TRIPLES = {PAIRS: 0.75, DISTANCES: 0.02, TRIPLES: 0.23}  # of what pairs would have alone
_MOST, _CONSIDERED = 20, 60  # triples
_MOST_CELLS = 4096  # of a triple, in all classes
_CLEAR_OF_TRIPLES = 3000  # times the noise of a count: so many rows pay for a second round

_SEARCH_SHARES = (0.01, 0.02, 0.04)  # of the share of pairs, for coarse differences: the least that can detect them
_RELEASE_SHARE = 0.05  # of the share of pairs, for fine differences
_MOST_NEAR = 8  # pairs whose fine differences are counted
_CELLS = 32  # of coarse differences
_FINE_BINS = 16  # of fine differences, which are told from noise bin by bin
_POINTS = 128  # of each column, to tell the differences of independent columns
_HELD, _WITHIN = 0.8, 0.35  # so much of the rows, in cells that would hold so much of them if the columns were independent
_NOISE = 0.05  # of the rows: more noise on what is held could not tell
_DEVIATIONS = 2  # of that noise

NamePair = tuple[Hashable, Hashable]


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
        if not plan.counts_all_pairs or plan.is_block or plan.stratum is not None:
            return None
        share, n_columns, n_rows = plan.shares[PAIRS], len(plan.schema), max(1, round(n_rows))
        if share.is_infinite or n_columns < 3:
            return None
        n_all, of_all = math.comb(n_columns, 2), mechanism(Marginals.sensitivity(relation, math.comb(n_columns, 2)), share).deviation
        shares = split_share(share, _SHARES)
        look = mechanism(sensitivity_of_dependences(relation, n_all, n_all // 4 + 1), shares[LOOK]).deviation
        if n_rows < _DROWNED * of_all or n_rows < _SEEN * look:
            shares = split_share(share, {name: weight for name, weight in _SHARES.items() if name != LOOK})
        scale = _STRONG * n_rows / Fraction(round(64 * (math.log(n_all) + _CHOICE_MARGIN)), 64)
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
        if LOOK in self.shares:
            query = dependences(exact, pairs, splits, self.n_rows, budget.relation, len(pairs) // 4 + 1)
            if budget.answer(query, mechanism(query.sensitivity, self.shares[LOOK]), LOOK)[0] > _WIDE * self.n_rows:
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


def _loss_ratio(loss: PrivacyLoss, other: PrivacyLoss) -> float:
    """Return how many losses like another one, of the same kind, add up to this one."""
    return float(loss.epsilon / other.epsilon if loss.rho is None else loss.rho / other.rho)


def _with_pair_share(plan: MarginalsPlan, share: PrivacyLoss) -> MarginalsPlan:
    return replace(plan, shares={**plan.shares, PAIRS: share})


def column_splits(shares: np.ndarray, kind: object) -> np.ndarray:
    """Return splits of a column by its noisy counts or masses: edges between codes, or one code and all others."""
    mass, n_splits = np.maximum(shares, 0.0), min(SPLITS, len(shares) - 1)
    codes = np.arange(len(mass))
    if isinstance(kind, Nominal):
        return codes == np.argsort(-mass, kind="stable")[: n_splits if n_splits < 2 else n_splits + (len(mass) <= SPLITS), None]
    if n_splits < SPLITS:
        return codes < codes[1:, None]
    upto = np.cumsum(mass) / max(mass.sum(), 1e-9)
    edges = np.unique(np.clip(np.searchsorted(upto, np.arange(1, n_splits + 1) / (n_splits + 1)) + 1, 1, len(mass) - 1))
    return codes < edges[:, None]


def plan_triples(plan: MarginalsPlan, sizes: Sequence[int], n_rows: float, relation: str, near: Sequence[DifferenceLaw]) -> MarginalsPlan:
    """Share what pairs have with a second round where it pays, by public numbers and the noisy number of rows."""
    if plan.is_block or not plan.counts_all_pairs:
        return plan
    share = plan.shares[PAIRS]
    n_triples = min(len(_candidate_triples(plan, sizes, near)), _CONSIDERED)
    if not n_triples or share.rho is None or share.is_infinite:
        return plan
    weights = {name: weight for name, weight in _SHARES_OF_TRIPLES.items() if name != DISTANCES or n_triples > _MOST}
    parts = split_share(share, weights)
    noise = mechanism(Marginals.sensitivity(relation, min(n_triples, _MOST)), parts[TRIPLES], ("gaussian",)).deviation
    return replace(plan, shares={**plan.shares, **parts}) if n_rows >= _CLEAR_OF_TRIPLES * noise else plan


def _candidate_triples(plan: MarginalsPlan, sizes: Sequence[int], near: Sequence[DifferenceLaw]) -> list[Triple]:
    tied = {name for tie in plan.ties for name in tie.columns} | {name for each in near for name in (each.first, each.second)}
    places = [place for place, name in enumerate(plan.names) if name in tied]
    return candidate_triples(sizes[:-1], places, _MOST_CELLS // sizes[-1])


def release_triples(
    rows: Rows,
    sizes: Sequence[int],
    plan: MarginalsPlan,
    budget: Budget,
    near: Sequence[DifferenceLaw],
    model: TableModel,
    totals: np.ndarray,
) -> NoisyTables:
    """Choose the triples farthest from a model of pairs, with class totals, and release them.

    `rows` are private codes of columns, and last of the class; `sizes` are the numbers of codes of each.
    """
    classes = [model.probabilities(label) for label in range(len(totals))]
    chosen = most_dependent_triples(_candidate_triples(plan, sizes, near), classes, shares_of(totals), _CONSIDERED)
    if len(chosen) > _MOST:
        expected = [
            np.rint([n * triple_frequencies(P, triple) for n, P in zip(totals, classes, strict=True)]).astype(np.int64) for triple in chosen
        ]
        query = distances(_count_triples(rows, sizes, chosen), expected, budget.relation)
        noisy, _ = answer_query(query, plan.shares[DISTANCES], budget, DISTANCES, ("gaussian",))
        chosen = sorted(chosen[place] for place in np.argsort(-noisy, kind="stable")[:_MOST].tolist())
    exact = _count_triples(rows, sizes, chosen)
    noisy, noise = answer_query(exact.query(budget.relation), plan.shares[TRIPLES], budget, TRIPLES, ("gaussian",))
    return NoisyTables(dict(zip(chosen, exact.tables(noisy), strict=True)), noise.variance)


def _count_triples(rows: Rows, sizes: Sequence[int], triples: Sequence[Triple]) -> Marginals:
    return total(rows, Marginals.over(sizes, [(len(sizes) - 1, *triple) for triple in triples]))


def find_near_columns(
    rows: Rows, codes: Codes, plan: MarginalsPlan, budget: Budget, n_rows: float
) -> tuple[tuple[DifferenceLaw, ...], MarginalsPlan]:
    """Return the laws of differences of columns near each other, and the plan with the rest of the share of pairs."""
    pairs = candidate_pairs(plan)
    if not pairs:
        return (), plan
    share = plan.shares["counts of pairs"]
    looks = [part for part in _SEARCH_SHARES if can_detect_near_columns(len(pairs), part, share, budget.relation, n_rows)]
    if not looks:
        return (), plan
    to_look, rest = share.split([looks[0], 1 - looks[0]])
    links = {name: link for name, link in codes.links.items() if isinstance(link, Link)}
    found = _find_near_pairs(rows, pairs, links, plan, to_look, budget)
    near: tuple[DifferenceLaw, ...] = ()
    if found:
        to_tell, rest = rest.split([_RELEASE_SHARE, 1 - _RELEASE_SHARE])
        near = _release_differences(rows, found, links, plan, to_tell, budget, n_rows)
    return near, replace(plan, shares={**plan.shares, "counts of pairs": rest})


def candidate_pairs(plan: MarginalsPlan) -> list[NamePair]:
    """Return the pairs of columns that may be near each other, by public facts: on one scale, and named by no rule."""
    schema = plan.schema
    if not plan.counts_all_pairs:
        return []
    ruled = {name for tie in plan.ties for name in tie.columns} | {name for names in keys_of(schema.rules, schema.whole) for name in names}
    return comparable(schema, ruled)


def warn_of_order(schema: Schema, spans: Spans, near: Sequence[DifferenceLaw], budget: Budget) -> None:
    """Warn of times that no rule or released difference keeps in order, and of an `Inequality` that is not kept as start and span."""
    told = {frozenset((each.first, each.second)) for each in near}
    ruled = {name for rule in schema.rules for name in rule.columns_named}
    for pair in comparable(schema.coded, {name for name, kind in schema.items() if not isinstance(kind, Times)}):
        if frozenset(pair) not in told and not ruled & set(pair):
            first, second = (short_repr(name) for name in pair)
            budget.warn(
                f"Columns {first} and {second} hold dates or times on one scale, and nothing keeps synthetic ones in order: their "
                "differences were not released, as noise is too large for these rows or they are not near each other; if one comes after "
                "the other, state an Inequality in the schema."
            )
            break
    for rule in schema.rules:
        if isinstance(rule, Inequality) and rule not in spans.rules:
            low, high = (short_repr(name) for name in (rule.low, rule.high))
            budget.warn(
                f"Columns {low} and {high} are kept in order by a rule, but may come out far too wide apart: a span between them needs two "
                "columns of one scale (times of one resolution; no real number below a whole one) of which no other rule says more than "
                "orders and sums, and one smaller column for each larger one; state the two alike, or leave the other rule out."
            )
            break


def can_detect_near_columns(n_pairs: int, look: float, share: PrivacyLoss, relation: str, n_rows: float) -> bool:
    """Whether noise lets differences show columns near each other, by public or noisy numbers."""
    to_look, rest = share.split([look, 1 - look])
    to_tell = rest.split([_RELEASE_SHARE, 1 - _RELEASE_SHARE])[0]
    window = mechanism(Marginals.sensitivity(relation, n_pairs), to_look).deviation * math.sqrt(_CELLS * _WITHIN)
    half = mechanism(Trees.sensitivity(relation, [13]), to_tell).deviation
    return max(window, half) <= _NOISE * n_rows


def _find_near_pairs(
    rows: Rows, pairs: Sequence[NamePair], links: Mapping[Hashable, Link], plan: MarginalsPlan, share: PrivacyLoss, budget: Budget
) -> list[NamePair]:
    """Count coarse differences, between quantiles of independent columns; return the pairs with most of them in few cells.

    The nearest pairs come first, at most 8, and none has a column in common with another.
    """
    places, points = plan.places, {name: _quantile_points(links[name], plan.grids[name]) for pair in pairs for name in pair}
    apart = [np.sort((points[b][:, None] - points[a]).ravel()) for a, b in pairs]  # stand for differences of independent columns
    inner = np.arange(1, _CELLS) / _CELLS
    edges = [np.concatenate([[-np.inf], np.unique(np.quantile(each, inner)), [np.inf]]) for each in apart]
    cells = rows.map(DifferencesOf.over([(places[a], places[b]) for a, b in pairs], edges, counts_missing=True))
    exact = total(cells, Marginals.over([len(own) for own in edges], [(i,) for i in range(len(pairs))]))
    noisy, noise = answer_query(exact.query(budget.relation), share, budget, "counts of differences, coarse")
    spreads = {}
    for pair, table, own, independent in zip(pairs, exact.tables(noisy), edges, apart, strict=True):
        expected = np.histogram(independent, own)[0] / len(independent)
        if (spread := independent_share(table[:-1], expected, noise.deviation)) <= _WITHIN:
            spreads[pair] = spread
    chosen: list[NamePair] = []
    for pair in sorted(spreads, key=lambda pair: spreads[pair]):
        if len(chosen) < _MOST_NEAR and not any(name in each for each in chosen for name in pair):
            chosen.append(pair)
    return chosen


def independent_share(noisy: np.ndarray, expected: np.ndarray, deviation: float) -> float:
    """Return the least share that independent columns would have in neighboring cells which hold most rows, beyond their noise.

    `expected` holds the share of each cell if the columns were independent; `deviation` is that of the noise of a count.
    """
    upto, share = (np.concatenate([[0.0], np.cumsum(each)]) for each in (noisy, expected))
    first, last = np.array(list(combinations(range(len(upto)), 2))).T
    held = upto[last] - upto[first] - _DEVIATIONS * deviation * np.sqrt(last - first)
    enough = held >= _HELD * max(upto[-1], 1.0)
    return float((share[last] - share[first])[enough].min()) if enough.any() else 1.0


def _quantile_points(link: Link, grid: Grid) -> np.ndarray:
    """Return numbers that are equally far apart in probability."""
    upto = np.concatenate([[0.0], np.cumsum(link.mass)])
    points = np.interp((np.arange(_POINTS) + 0.5) / _POINTS * upto[-1], upto, grid.edges)
    return np.floor(points) if grid.kind.integer else points


def _release_differences(
    rows: Rows,
    pairs: Sequence[NamePair],
    links: Mapping[Hashable, Link],
    plan: MarginalsPlan,
    share: PrivacyLoss,
    budget: Budget,
    n_rows: float,
) -> tuple[DifferenceLaw, ...]:
    schema, places = plan.schema, plan.places
    edges = [edges_of_differences(schema[a], schema[b]) for a, b in pairs]
    depths = [(len(own) - 1).bit_length() - 1 for own in edges]
    cells = rows.map(DifferencesOf.over([(places[a], places[b]) for a, b in pairs], edges, counts_missing=False))
    exact = total(cells, Trees.over(depths))
    noisy, noise = answer_query(exact.query(budget.relation), share, budget, "counts of differences")
    laws = []
    for (a, b), own, depth, of_tree in zip(pairs, edges, depths, exact.levels(noisy), strict=True):
        link = Link.of([of_tree.get(level) for level in range(1, depth + 1)], noise.variance, 1 << depth, _FINE_BINS)
        law = threshold_link(link, n_rows, noise.deviation)
        laws.append(orient_difference(DifferenceLaw(a, b, own, law.mass, schema[a].integer), links, plan.grids))
    return tuple(laws)
