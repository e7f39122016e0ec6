"""Columns of numbers near each other: found by noisy counts of coarse differences, and told by noisy trees of fine ones."""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from skdpsynth._checks import shown
from skdpsynth.domain import (
    Grid,
    Inequality,
    Rows,
    Schema,
    Times,
    comparable,
    edges_of_differences,
    grids_of,
    keys_of,
    ordered_pairs,
)
from skdpsynth.fitting import Budget
from skdpsynth.measures import least_squares
from skdpsynth.models import Codes, Link, Near, directed
from skdpsynth.privacy import PrivacyLoss, mechanism
from skdpsynth.statistics import DifferencesOf, Marginals, Trees, total
from skdpsynth.synthesis._latent_planning import MarginalsPlan

_TO_LOOK, _TO_TELL = 0.01, 0.05  # of what pairs have: for the coarse differences, and for the fine ones
_MOST = 8  # pairs whose fine differences are counted
_CELLS = 32  # of coarse differences
_POINTS = 128  # of each column, to tell the differences of independent columns
_HELD, _WITHIN = 0.8, 0.35  # so much of the rows, in cells that would hold so much of them if the columns were independent
_NOISE = 0.05  # of the rows: more noise on what is held could not tell
_SURE = 2  # deviations of that noise
_CLEAR = 3  # deviations of the noise of fine differences

Pair = tuple[Hashable, Hashable]


def near_columns(rows: Rows, codes: Codes, plan: MarginalsPlan, budget: Budget, n_rows: float) -> tuple[tuple[Near, ...], MarginalsPlan]:
    """Return which columns are near each other, with the laws of their differences, and the plan with what that leaves for pairs.

    Parameters
    ----------
    rows : Rows
        Numbers, as they are read.
    codes : Codes
        With the links of the columns.
    plan : MarginalsPlan
    budget : Budget
    n_rows : float
        As far as is known.
    """
    assert plan.schema is not None
    assert plan.shares is not None
    schema = plan.schema
    pairs = _told_apart(plan, budget.relation, n_rows)
    if not pairs:
        return (), plan
    to_look, rest = plan.shares["counts of pairs"].split([_TO_LOOK, 1 - _TO_LOOK])
    found = _found(rows, pairs, codes.links, schema, to_look, budget, n_rows)
    near: tuple[Near, ...] = ()
    if found:
        to_tell, rest = rest.split([_TO_TELL, 1 - _TO_TELL])
        near = _told(rows, found, codes.links, plan, to_tell, budget)
    return near, replace(plan, shares={**plan.shares, "counts of pairs": rest})


def candidates(plan: MarginalsPlan) -> list[Pair]:
    """Return the pairs of columns that may be near each other, by public facts.

    On one scale, and named by no rule; or ordered by one `Inequality`, and named by no other: first the smaller one.
    """
    assert plan.schema is not None
    schema = plan.schema
    if plan.shares is None or "counts of pairs" not in plan.shares or "counts of pairs, merged" in plan.shares:
        return []
    ruled = {name for tie in plan.ties for name in tie.columns} | {name for names in keys_of(schema.rules, schema.whole) for name in names}
    return [*comparable(schema, ruled), *ordered_pairs(schema, plan.ties)]


def words_of_loose_times(schema: Schema, near: Sequence[Near]) -> str | None:
    """Return what a caller should know of dates or times on one scale that nothing keeps in order, by public facts and what was released.

    Parameters
    ----------
    schema : Schema
        Of the caller's columns.
    near : sequence of Near
        Columns whose differences were released.
    """
    told = {frozenset((each.first, each.second)) for each in near}
    orders = {frozenset((rule.low, rule.high)) for rule in schema.rules if isinstance(rule, Inequality)}
    ruled = {name for rule in schema.rules for name in rule.columns_named}
    for pair in comparable(schema.coded, {name for name, kind in schema.items() if not isinstance(kind, Times)}):
        is_ordered = frozenset(pair) in orders
        if frozenset(pair) in told or (ruled & set(pair) and not is_ordered):
            continue
        first, second = (shown(name) for name in pair)
        harm = "a rule keeps them in order, but synthetic ones lie too far apart" if is_ordered else "nothing keeps synthetic ones in order"
        way_out = "put how long it took in place of one" + ("" if is_ordered else ", or state an Inequality in the schema")
        return (
            f"Columns {first} and {second} hold dates or times on one scale, and {harm}: their differences were not released, as noise is "
            f"too large for these rows or they are not near each other; if one comes after the other, {way_out}."
        )
    return None


def _told_apart(plan: MarginalsPlan, relation: str, n_rows: float) -> list[Pair]:
    """Return the candidates, or those that rules order alone, or none: as many as the noise lets differences tell of."""
    assert plan.schema is not None
    assert plan.shares is not None
    pairs, least = candidates(plan), ordered_pairs(plan.schema, plan.ties)
    for some in (pairs, [pair for pair in pairs if pair in least]):
        if some and can_tell(len(some), plan.shares["counts of pairs"], relation, n_rows):
            return some
    return []


def can_tell(n_pairs: int, share: PrivacyLoss, relation: str, n_rows: float) -> bool:
    """Whether the noise lets differences tell of columns that are near, by public numbers (or noisy ones, where none is public)."""
    to_look, rest = share.split([_TO_LOOK, 1 - _TO_LOOK])
    to_tell = rest.split([_TO_TELL, 1 - _TO_TELL])[0]
    window = mechanism(Marginals.change(relation, n_pairs), to_look).deviation * math.sqrt(_CELLS * _WITHIN)
    half = mechanism(Trees.change(relation, [13]), to_tell).deviation
    return max(window, half) <= _NOISE * n_rows


def _found(
    rows: Rows, pairs: Sequence[Pair], links: Mapping, schema: Schema, share: PrivacyLoss, budget: Budget, n_rows: float
) -> list[Pair]:
    """Count coarse differences, between quantiles of what independent columns have; return the pairs with most of them in few cells."""
    places, grids = {name: place for place, name in enumerate(schema)}, grids_of(schema)
    apart = [_apart(*((links[name], grids[name]) for name in pair)) for pair in pairs]
    edges = [_quantiles(each) for each in apart]
    cells = rows.map(DifferencesOf.over([(places[a], places[b]) for a, b in pairs], edges, counts_missing=True))
    exact = total(cells, Marginals.over([len(own) for own in edges], [(i,) for i in range(len(pairs))]))
    query = exact.query(budget.relation)
    noise = mechanism(query.change, share, n_values=len(query.values))
    tables = exact.tables(budget.answer(query, noise, "counts of differences, coarse"))
    spreads = {}
    for pair, table, own, independent in zip(pairs, tables, edges, apart, strict=True):
        expected = np.histogram(independent, own)[0] / len(independent)
        if (spread := spread_of(table[:-1], expected, noise.deviation)) <= _WITHIN:
            spreads[pair] = spread
    return _matched(sorted(spreads, key=lambda pair: spreads[pair]))


def spread_of(noisy: np.ndarray, expected: np.ndarray, deviation: float) -> float:
    """Return the least share that independent columns would have in neighbouring cells which hold most rows, beyond their noise.

    Parameters
    ----------
    noisy : ndarray of shape (n_cells,)
        Noisy counts.
    expected : ndarray of shape (n_cells,)
        The share of each cell if the columns were independent.
    deviation : float
        Of the noise of a count.
    """
    upto, share = (np.concatenate([[0.0], np.cumsum(each)]) for each in (noisy, expected))
    first, last = np.array(list(combinations(range(len(upto)), 2))).T
    held = upto[last] - upto[first] - _SURE * deviation * np.sqrt(last - first)
    enough = held >= _HELD * max(upto[-1], 1.0)
    return float((share[last] - share[first])[enough].min()) if enough.any() else 1.0


def _apart(first: tuple[Link, Grid], second: tuple[Link, Grid]) -> np.ndarray:
    """Return differences that stand for those of independent columns."""
    own, other = (_points(*each) for each in (first, second))
    return np.sort((other[:, None] - own).ravel())


def _points(link: Link, grid: Grid) -> np.ndarray:
    """Return numbers that are equally far apart in probability."""
    upto = np.concatenate([[0.0], np.cumsum(link.mass)])
    points = np.interp((np.arange(_POINTS) + 0.5) / _POINTS * upto[-1], upto, grid.edges)
    return np.floor(points) if grid.kind.integer else points


def _quantiles(apart: np.ndarray) -> np.ndarray:
    """Return the edges of cells that differences of independent columns share evenly."""
    inner = np.unique(np.quantile(apart, np.arange(1, _CELLS) / _CELLS))
    return np.concatenate([[-np.inf], inner, [np.inf]])


def _matched(pairs: Sequence[Pair]) -> list[Pair]:
    """Return pairs without a column in common, the nearest first."""
    taken: set[Hashable] = set()
    out: list[Pair] = []
    for pair in pairs:
        if not taken & set(pair) and len(out) < _MOST:
            taken |= set(pair)
            out.append(pair)
    return out


def _told(rows: Rows, pairs: Sequence[Pair], links: Mapping, plan: MarginalsPlan, share: PrivacyLoss, budget: Budget) -> tuple[Near, ...]:
    """Count fine differences, in a tree for each pair; return their laws. Where a rule says which is the least, there are none below."""
    assert plan.schema is not None
    schema, least = plan.schema, ordered_pairs(plan.schema, plan.ties)
    places = {name: place for place, name in enumerate(schema)}
    edges = [edges_of_differences(schema[a], schema[b], least.get((a, b))) for a, b in pairs]
    depths = [(len(own) - 1).bit_length() - 1 for own in edges]
    cells = rows.map(DifferencesOf.over([(places[a], places[b]) for a, b in pairs], edges, counts_missing=False))
    exact = total(cells, Trees.over(depths))
    query = exact.query(budget.relation)
    noise = mechanism(query.change, share, n_values=len(query.values))
    noisy = budget.answer(query, noise, "counts of differences")
    grids, out = grids_of(schema), []
    for (a, b), own, depth, of_tree in zip(pairs, edges, depths, exact.levels(noisy), strict=True):
        levels = [of_tree.get(level) for level in range(1, depth + 1)]
        n_cells = reach(levels, noise.variance) if (a, b) in least else 1 << depth
        law = Link.of(levels, noise.variance, n_cells, 1)
        out.append(directed(Near(a, b, own[: n_cells + 1], law.mass, schema[a].integer), links, grids))
    return tuple(out)


def reach(levels: Sequence[np.ndarray | None], variance: float) -> int:
    """Return up to which cell noisy counts of differences from the least one on are more than noise: a power of two.

    Of the second half, the second quarter, the second eighth and so on of the cells, those are empty that come before the first of which
    the count is clear of its noise. What noise alone would put there is far from all else: few rows of it would be most of the mean.

    Parameters
    ----------
    levels : list of ndarray or None
        Noisy counts of the levels 1, ..., depth of a tree.
    variance : float
        Of every count.
    """
    estimates, errors = least_squares([None, *levels], [np.inf, *[variance or 1.0] * len(levels)])
    for level in range(1, len(estimates)):
        if estimates[level][1] > _CLEAR * math.sqrt(errors[level]) * (variance > 0):
            return 1 << (len(levels) - level + 1)
    return 1
