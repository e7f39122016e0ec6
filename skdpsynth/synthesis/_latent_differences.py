"""Columns of numbers near each other: found by noisy counts of coarse differences, and modeled by noisy trees of fine ones."""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from skdpsynth._validation import short_repr
from skdpsynth.domain import Grid, Inequality, Schema, Spans, Times, comparable, edges_of_differences, keys_of
from skdpsynth.fitting import Budget
from skdpsynth.frames import Rows
from skdpsynth.models import Codes, DifferenceLaw, Link, orient_difference, threshold_link
from skdpsynth.privacy import PrivacyLoss, mechanism
from skdpsynth.statistics import DifferencesOf, Marginals, Trees, total
from skdpsynth.synthesis._latent_planning import MarginalsPlan, answer_query

_SEARCH_SHARES = (0.01, 0.02, 0.04)  # of the share of pairs, for coarse differences: the least that can detect them
_RELEASE_SHARE = 0.05  # of the share of pairs, for fine differences
_MOST = 8  # pairs whose fine differences are counted
_CELLS = 32  # of coarse differences
_BINS = 16  # of fine differences, which are told from noise bin by bin
_POINTS = 128  # of each column, to tell the differences of independent columns
_HELD, _WITHIN = 0.8, 0.35  # so much of the rows, in cells that would hold so much of them if the columns were independent
_NOISE = 0.05  # of the rows: more noise on what is held could not tell
_SURE = 2  # deviations of that noise

Pair = tuple[Hashable, Hashable]


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
    found = _find_near_pairs(rows, pairs, codes.links, plan, to_look, budget)
    near: tuple[DifferenceLaw, ...] = ()
    if found:
        to_tell, rest = rest.split([_RELEASE_SHARE, 1 - _RELEASE_SHARE])
        near = _release_differences(rows, found, codes.links, plan, to_tell, budget, n_rows)
    return near, replace(plan, shares={**plan.shares, "counts of pairs": rest})


def candidate_pairs(plan: MarginalsPlan) -> list[Pair]:
    """Return the pairs of columns that may be near each other, by public facts: on one scale, and named by no rule."""
    schema = plan.schema
    if not plan.counts_all_pairs:
        return []
    ruled = {name for tie in plan.ties for name in tie.columns} | {name for names in keys_of(schema.rules, schema.whole) for name in names}
    return comparable(schema, ruled)


def describe_unordered_times(schema: Schema, near: Sequence[DifferenceLaw]) -> str | None:
    """Return a warning about dates or times on one scale that no rule or released difference keeps in order, or None."""
    told = {frozenset((each.first, each.second)) for each in near}
    ruled = {name for rule in schema.rules for name in rule.columns_named}
    for pair in comparable(schema.coded, {name for name, kind in schema.items() if not isinstance(kind, Times)}):
        if frozenset(pair) not in told and not ruled & set(pair):
            first, second = (short_repr(name) for name in pair)
            return (
                f"Columns {first} and {second} hold dates or times on one scale, and nothing keeps synthetic ones in order: their "
                "differences were not released, as noise is too large for these rows or they are not near each other; if one comes after "
                "the other, state an Inequality in the schema."
            )
    return None


def describe_loose_orders(schema: Schema, spans: Spans) -> str | None:
    """Return a warning about an `Inequality` that is kept, but not as start and span, by public facts; or None."""
    for rule in schema.rules:
        if isinstance(rule, Inequality) and rule not in spans.rules:
            low, high = (short_repr(name) for name in (rule.low, rule.high))
            return (
                f"Columns {low} and {high} are kept in order by a rule, but may come out far too wide apart: a span between them needs two "
                "columns of one scale (times of one resolution; no real number below a whole one) of which no other rule says more than "
                "orders and sums, and one smaller column for each larger one; state the two alike, or leave the other rule out."
            )
    return None


def can_detect_near_columns(n_pairs: int, look: float, share: PrivacyLoss, relation: str, n_rows: float) -> bool:
    """Whether noise lets differences show columns near each other, by public or noisy numbers."""
    to_look, rest = share.split([look, 1 - look])
    to_tell = rest.split([_RELEASE_SHARE, 1 - _RELEASE_SHARE])[0]
    window = mechanism(Marginals.sensitivity(relation, n_pairs), to_look).deviation * math.sqrt(_CELLS * _WITHIN)
    half = mechanism(Trees.sensitivity(relation, [13]), to_tell).deviation
    return max(window, half) <= _NOISE * n_rows


def _find_near_pairs(
    rows: Rows, pairs: Sequence[Pair], links: Mapping, plan: MarginalsPlan, share: PrivacyLoss, budget: Budget
) -> list[Pair]:
    """Count coarse differences, between quantiles of independent columns; return the pairs with most of them in few cells."""
    places, grids = plan.places, plan.grids
    points = {name: _quantile_points(links[name], grids[name]) for pair in pairs for name in pair}
    apart = [np.sort((points[b][:, None] - points[a]).ravel()) for a, b in pairs]  # stand for differences of independent columns
    edges = [_quantile_edges(each) for each in apart]
    cells = rows.map(DifferencesOf.over([(places[a], places[b]) for a, b in pairs], edges, counts_missing=True))
    exact = total(cells, Marginals.over([len(own) for own in edges], [(i,) for i in range(len(pairs))]))
    noisy, noise = answer_query(exact.query(budget.relation), share, budget, "counts of differences, coarse")
    spreads = {}
    for pair, table, own, independent in zip(pairs, exact.tables(noisy), edges, apart, strict=True):
        expected = np.histogram(independent, own)[0] / len(independent)
        if (spread := independent_share(table[:-1], expected, noise.deviation)) <= _WITHIN:
            spreads[pair] = spread
    return _disjoint_pairs(sorted(spreads, key=lambda pair: spreads[pair]))


def independent_share(noisy: np.ndarray, expected: np.ndarray, deviation: float) -> float:
    """Return the least share that independent columns would have in neighboring cells which hold most rows, beyond their noise.

    `expected` holds the share of each cell if the columns were independent; `deviation` is that of the noise of a count.
    """
    upto, share = (np.concatenate([[0.0], np.cumsum(each)]) for each in (noisy, expected))
    first, last = np.array(list(combinations(range(len(upto)), 2))).T
    held = upto[last] - upto[first] - _SURE * deviation * np.sqrt(last - first)
    enough = held >= _HELD * max(upto[-1], 1.0)
    return float((share[last] - share[first])[enough].min()) if enough.any() else 1.0


def _quantile_points(link: Link, grid: Grid) -> np.ndarray:
    """Return numbers that are equally far apart in probability."""
    upto = np.concatenate([[0.0], np.cumsum(link.mass)])
    points = np.interp((np.arange(_POINTS) + 0.5) / _POINTS * upto[-1], upto, grid.edges)
    return np.floor(points) if grid.kind.integer else points


def _quantile_edges(apart: np.ndarray) -> np.ndarray:
    """Return the edges of cells that differences of independent columns share evenly."""
    inner = np.unique(np.quantile(apart, np.arange(1, _CELLS) / _CELLS))
    return np.concatenate([[-np.inf], inner, [np.inf]])


def _disjoint_pairs(pairs: Sequence[Pair]) -> list[Pair]:
    """Return pairs without a column in common, the first ones first."""
    taken: set[Hashable] = set()
    out: list[Pair] = []
    for pair in pairs:
        if not taken & set(pair) and len(out) < _MOST:
            taken |= set(pair)
            out.append(pair)
    return out


def _release_differences(
    rows: Rows, pairs: Sequence[Pair], links: Mapping, plan: MarginalsPlan, share: PrivacyLoss, budget: Budget, n_rows: float
) -> tuple[DifferenceLaw, ...]:
    """Release fine differences, in a tree for each pair; return their laws."""
    schema, places = plan.schema, plan.places
    edges = [edges_of_differences(schema[a], schema[b]) for a, b in pairs]
    depths = [(len(own) - 1).bit_length() - 1 for own in edges]
    cells = rows.map(DifferencesOf.over([(places[a], places[b]) for a, b in pairs], edges, counts_missing=False))
    exact = total(cells, Trees.over(depths))
    noisy, noise = answer_query(exact.query(budget.relation), share, budget, "counts of differences")
    out = []
    for (a, b), own, depth, of_tree in zip(pairs, edges, depths, exact.levels(noisy), strict=True):
        law = threshold_link(
            Link.of([of_tree.get(level) for level in range(1, depth + 1)], noise.variance, 1 << depth, _BINS), n_rows, noise.deviation
        )
        out.append(orient_difference(DifferenceLaw(a, b, own, law.mass, schema[a].integer), links, plan.grids))
    return tuple(out)
