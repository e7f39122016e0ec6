"""Strategy "marginals" of mixed tables: what is released, in what order, and the model that is fitted to it."""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from skdpsynth._validation import short_repr
from skdpsynth.domain import (
    Continuous,
    Inequality,
    Nominal,
    Schema,
    Spans,
    Times,
    comparable,
    edges_of_differences,
    keys_of,
    spans_of,
    ties_of,
    with_spans,
)
from skdpsynth.fitting import Budget, Facts
from skdpsynth.frames import Rows
from skdpsynth.models import (
    CoarsePairs,
    Codes,
    DifferenceLaw,
    Estimates,
    LevelGroups,
    Link,
    Measurements,
    NoisyGram,
    NoisyInteractions,
    NoisyTables,
    Pool,
    PublicPrior,
    Released,
    TableModel,
    bins_of,
    constrain_columns,
    constraint_cuts,
    grade_bins,
    joint_columns,
    learn_common_factors,
    merge_codes,
    orient_difference,
    threshold_link,
)
from skdpsynth.privacy import PrivacyLoss, mechanism
from skdpsynth.statistics import CellsOf, Coding, DifferencesOf, Marginals, Merging, Trees, total
from skdpsynth.synthesis._latent_high import ParitySearch
from skdpsynth.synthesis._latent_planning import (
    GRAM,
    MAX_CODES,
    ONE_BLOCK,
    SPLITS,
    TRIPLES,
    USUAL_ROWS_OF_SEARCHES,
    MarginalsPlan,
    PairSelection,
    answer_query,
    bin_growth,
    choose_n_bins,
    column_splits,
    many_level_columns,
    plan_steps,
    plan_triples,
    release_triples,
    warn_of_noise,
)
from skdpsynth.synthesis._latent_releases import GramRelease, PairRelease

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
class _CodedRows:
    """The rows as codes of columns without the stratum, and last that of the stratum: private."""

    rows: Rows
    sizes: list[int]


class MarginalsStrategy:
    """Noisy counts of cells, of columns and of pairs, and a model of latent factors that is fitted to them.

    1. Codes: bins of numbers from noisy trees of their cells, groups of many levels from noisy counts of these. Columns near each other are
       found by noisy counts of coarse differences, and modeled by noisy trees of fine ones.
    2. Noisy counts of the codes of each column.
    3. Noisy counts of pairs of columns: of all, of those in one block, or of a private choice.
    4. All counts joined by least squares, and a model fitted to them; where noise is small, noisy counts of the triples of columns farthest
       from the model, and the model fitted again.
    """

    n_factors = 32  # usual

    def check_parameters(self, synthesizer: BaseEstimator, schema: Schema) -> None:
        if synthesizer.synthesizer is not None:
            raise ValueError(
                f"synthesizer must be None for strategy='marginals', got {short_repr(synthesizer.synthesizer)}; it serves "
                "strategy='scores'."
            )

    def plan(self, synthesizer: BaseEstimator, facts: Facts, schema: Schema) -> MarginalsPlan:
        spans = synthesizer._spans if "_container" in vars(synthesizer) else spans_of(schema.whole)
        of_stream, coded = synthesizer._block, with_spans(schema, spans)
        codes = of_stream.past[-1]._counted.codes if of_stream is not None and of_stream.past else None
        if codes is not None and not codes.fits(coded):
            raise ValueError(
                "codes of the earlier blocks of the stream must fit its schema, got an edited file; load the one that was saved."
            )
        bare = MarginalsPlan(
            schema=coded,
            stratum=synthesizer.stratify,
            within=synthesizer.within,
            n_factors=synthesizer._n_factors,
            n_samples=facts.n_samples,
            ties=ties_of(coded.whole, coded.rules),
            is_block=of_stream is not None,
            codes=codes,
            chooses=codes is None or not codes.can_count(of_stream.n_expected),
        )
        return plan_steps(facts, bare)

    def release_model(self, synthesizer: BaseEstimator, rows: Rows, plan: MarginalsPlan, budget: Budget) -> dict[str, Any]:
        schema, spans, prior = synthesizer.schema_, synthesizer._spans, synthesizer._prior
        # Rules compare the cells that the caller gets, in the dtypes of the table.
        dtypes = dict(zip(schema, synthesizer._container.dtypes, strict=True))
        prior = prior.map(spans) if prior is not None and spans else prior
        plan = replace(plan, prior=prior, ties=ties_of(schema, plan.schema.rules, dtypes), in_database=rows.source.in_database)
        attributes = _release_tables(rows.map(spans) if spans else rows, plan, budget)
        near = attributes["_counted"].codes.near if "_counted" in attributes else attributes["_model"].near
        warn_of_order(schema, spans, near, budget)
        return attributes


def _release_tables(rows: Rows, plan: MarginalsPlan, budget: Budget) -> dict[str, Any]:
    """Do the four steps; return the fitted attributes."""
    schema, stratum, names = plan.schema, plan.stratum, plan.names
    located = _locate_cells(rows, plan)  # step 1
    codes, plan = _choose_codes(rows, located, plan, budget)
    coded = _encode_rows(located, plan, codes.links)
    if GRAM in plan.shares:  # steps 2 and 3 in one
        released, codes, pairs, search = _release_gram(coded, codes, plan, budget)
    else:
        released, codes, pairs, plan, search = _release_columns_and_pairs(located, coded, codes, plan, budget)
    estimates = Estimates.of(released, pairs, plan.n_samples)  # step 4
    totals = estimates.rows(plan.n_samples)
    n_samples = plan.n_samples or max(1, round(float(totals.sum())))
    if plan.n_samples is None:
        warn_of_noise(budget, plan, budget.relation, totals.sum())
    codes = replace(codes, n_rows=n_samples) if plan.chooses else codes.after(n_samples)
    prior = None if plan.prior is None else _count_prior(_locate_cells(plan.prior, plan), pairs, plan, codes)
    counted = Measurements(schema, stratum, codes, estimates.one_way, estimates.two_way, plan.n_samples, prior)
    attributes, triples = _fit_model(counted, coded, plan, budget)
    attributes |= {"parities_": {}, "parity_splits_": {}}
    if search is not None:
        attributes |= search.apply(coded.rows, counted, attributes["_model"], budget)
    return {
        **_table_attributes([*released, *triples], estimates, names, stratum),
        "cells_": codes.cells,
        "bins_": bins_of(schema, codes.links),
        "n_samples_": n_samples,
        "_size_error": math.sqrt(estimates.variance_of_total),
        **attributes,
    }


def _release_gram(
    coded: _CodedRows, codes: Codes, plan: MarginalsPlan, budget: Budget
) -> tuple[list[Released], Codes, list[tuple[int, int]], ParitySearch | None]:
    """Return what is released, codes with one block, all pairs, and the search for what no pair shows.

    Where the private number of rows, which only the matrix tells, makes a search blind, its share buys counts of classes.
    """
    n_rows = plan.n_samples or (_pooled_n_rows(codes.pools) if codes.pools else USUAL_ROWS_OF_SEARCHES)
    search, plan = ParitySearch.reserve(plan, coded.sizes, n_rows, budget.relation, codes.near)
    release = GramRelease.choose(coded.sizes, plan.shares[GRAM], budget.relation, plan.n_samples)
    blocks = codes.blocks or (tuple(range(len(plan.names))),)
    released: list[Released] = [release.ask(coded.rows, budget, GRAM)]
    if search is not None and plan.n_samples is None:
        n_rows = float(Estimates.of(released, release.over.pairs).rows().sum())
    if search is not None and search.rounds(n_rows, budget.relation)[1] == math.inf:
        classes = total(coded.rows, Marginals.over(coded.sizes, [(len(plan.names),)]))
        noisy, noise = answer_query(classes.query(budget.relation), search.share, budget, "counts of classes")
        released.append(NoisyTables({(): noisy}, noise.variance))
        search = None
    return released, replace(codes, blocks=blocks), release.over.pairs, search


def _release_columns_and_pairs(
    located: Rows, coded: _CodedRows, codes: Codes, plan: MarginalsPlan, budget: Budget
) -> tuple[list[Released], Codes, list[tuple[int, int]], MarginalsPlan, ParitySearch | None]:
    """Return what is released, codes with blocks of dependent columns, the pairs that are counted, the plan with shares of what follows."""
    n_columns = len(plan.names)
    exact = total(coded.rows, Marginals.over(coded.sizes, [(n_columns, i) for i in range(n_columns)]))
    noisy, noise = answer_query(exact.query(budget.relation), plan.shares["counts of columns"], budget, "counts of columns")
    one_way = NoisyTables({(i,): table for i, table in enumerate(exact.tables(noisy))}, noise.variance)
    if not codes.blocks:
        codes = replace(codes, **_release_blocks(coded, one_way, plan, budget))
    plan = plan_triples(plan, coded.sizes, _estimate_n_rows(one_way, plan), budget.relation, codes.near)
    pairs, search = [pair for block in codes.blocks for pair in combinations(block, 2)], None
    if (selection := PairSelection.of(plan, budget.relation, _estimate_n_rows(one_way, plan))) is not None:
        pairs, plan = selection.choose(*_rows_for_pair_selection(located, codes.links, one_way, plan), plan, budget)
    else:
        search, plan = ParitySearch.reserve(plan, coded.sizes, _estimate_n_rows(one_way, plan), budget.relation, codes.near)
    return [one_way, _release_pairs(coded, pairs, one_way, plan, budget)], codes, pairs, plan, search


def _choose_codes(rows: Rows, located: Rows, plan: MarginalsPlan, budget: Budget) -> tuple[Codes, MarginalsPlan]:
    """Return the codes of columns, earlier or new ones, and the plan with the rest of the budget."""
    known = plan.codes
    if known is not None and not plan.chooses:
        return known, plan
    cells, pools, links = _release_cells(located, plan, budget, {} if known is None else known.pools)
    tied, links = constrain_columns(plan.ties, plan.schema, links)
    codes = Codes(links, cells, pools, (), 0, tied=tuple(tied))
    near, plan = find_near_columns(rows, codes, plan, budget, plan.n_samples or _pooled_n_rows(pools, known))
    growth = bin_growth(plan, budget.relation, _pooled_n_rows(pools))
    if growth is None:
        return replace(codes, near=near), plan
    # Outer bins become narrow enough to show where rows end; but columns near each other, and those that rules compare, whose bins may not
    # become more, stay as they are.
    fixed = joint_columns((), near) | {name for tie in plan.ties for name in tie.ordered_columns}
    links = {name: grade_bins(link, growth) if isinstance(link, Link) and name not in fixed else link for name, link in links.items()}
    tied, links = constrain_columns(plan.ties, plan.schema, links)
    return replace(codes, near=near, links=links, tied=tuple(tied)), plan


def _locate_cells(rows: Rows, plan: MarginalsPlan) -> Rows:
    return rows.map(CellsOf({plan.places[name]: grid for name, grid in plan.grids.items()})).materialize() if plan.grids else rows


def _release_cells(
    located: Rows, plan: MarginalsPlan, budget: Budget, known: Mapping[Hashable, Pool]
) -> tuple[dict[Hashable, np.ndarray], dict[Hashable, Pool], dict[Hashable, Link | LevelGroups]]:
    """Release the trees of continuous columns, and the levels of columns of many; return counts, those pooled with `known` ones, links."""
    cells: dict[Hashable, np.ndarray] = {}
    pools: dict[Hashable, Pool] = {}
    links: dict[Hashable, Link | LevelGroups] = {}
    if plan.grids:
        trees = _count_cells(located, plan)
        noisy, noise = answer_query(trees.query(budget.relation), plan.shares["counts of cells"], budget, "counts of cells")
        for name, counts, levels in zip(plan.grids, trees.columns(noisy), trees.levels(noisy), strict=True):
            n_rows = max(1.0, float(next(iter(levels.values())).sum()))
            cells[name], pools[name] = counts, Pool(counts, noise.variance, n_rows).merge(known.get(name))
        cuts, n_rows = constraint_cuts(plan.schema, plan.grids), _pooled_n_rows(pools)
        few = PairSelection.of(plan, budget.relation, plan.n_samples or n_rows)
        n_bins = choose_n_bins(plan, budget.relation, n_rows) if few is None else few.n_bins
        pooled = trees.levels(np.concatenate([pool.counts for pool in pools.values()]))
        for (name, grid), levels in zip(plan.grids.items(), pooled, strict=True):
            tree = list(map(levels.get, range(1, grid.depth + 1)))
            links[name] = Link.of(tree, pools[name].variance, grid.n_cells, n_bins, cuts.get(name, ()))
    if many := many_level_columns(plan.schema):
        exact = _count_levels(located, many, plan)
        noisy, noise = answer_query(exact.query(budget.relation), plan.shares["counts of levels"], budget, "counts of levels")
        for name, counts in zip(many, exact.tables(noisy), strict=True):
            cells[name], kind = counts, plan.schema[name]
            pools[name] = pool = Pool(counts, noise.variance, max(1.0, float(counts.sum()))).merge(known.get(name))
            links[name] = LevelGroups.of(pool.counts[: len(kind.levels)], math.sqrt(pool.variance), kind.group_numbers, MAX_CODES)
    return cells, pools, links


def _count_cells(located: Rows, plan: MarginalsPlan) -> Trees:
    return total(located, Trees.over([grid.depth for grid in plan.grids.values()], [plan.places[name] for name in plan.grids]))


def _count_levels(located: Rows, names: Sequence[Hashable], plan: MarginalsPlan) -> Marginals:
    sizes = [0 if isinstance(kind, Continuous) else kind.n_codes for kind in plan.schema.values()]
    return total(located, Marginals.over(sizes, [(plan.places[name],) for name in names]))


def _pooled_n_rows(pools: Mapping[Hashable, Pool], before: Codes | None = None) -> float:
    """Return the estimated number of rows counted for codes; with the codes before, of this block alone."""
    rows = [pool.n_rows - (before.pools[name].n_rows if before and name in before.pools else 0.0) for name, pool in pools.items()]
    return max(1.0, float(np.mean(rows))) if rows else 1.0


def find_near_columns(
    rows: Rows, codes: Codes, plan: MarginalsPlan, budget: Budget, n_rows: float
) -> tuple[tuple[DifferenceLaw, ...], MarginalsPlan]:
    """Return the laws of differences of columns near each other, and the plan with the rest of the share of pairs."""
    pairs = candidate_pairs(plan)
    if not pairs:
        return (), plan
    share = plan.shares[plan.pair_step]
    looks = [part for part in _SEARCH_SHARES if can_detect_near_columns(len(pairs), part, share, budget.relation, n_rows)]
    if not looks:
        return (), plan
    to_look, rest = share.split([looks[0], 1 - looks[0]])
    links = {name: link for name, link in codes.links.items() if isinstance(link, Link)}
    found = _find_near_pairs(rows, pairs, links, plan, to_look, budget)
    near: tuple[DifferenceLaw, ...] = ()
    if found:
        to_tell, rest = rest.split([_RELEASE_SHARE, 1 - _RELEASE_SHARE])
        schema, places, laws = plan.schema, plan.places, []
        edges = [edges_of_differences(schema[a], schema[b]) for a, b in found]
        depths = [(len(own) - 1).bit_length() - 1 for own in edges]
        cells = rows.map(DifferencesOf.over([(places[a], places[b]) for a, b in found], edges, counts_missing=False))
        exact = total(cells, Trees.over(depths))
        noisy, noise = answer_query(exact.query(budget.relation), to_tell, budget, "counts of differences")
        for (a, b), own, depth, of_tree in zip(found, edges, depths, exact.levels(noisy), strict=True):
            link = Link.of(list(map(of_tree.get, range(1, depth + 1))), noise.variance, 1 << depth, _FINE_BINS)
            law = threshold_link(link, n_rows, noise.deviation)
            laws.append(orient_difference(DifferenceLaw(a, b, own, law.mass, schema[a].integer), links, plan.grids))
        near = tuple(laws)
    return near, replace(plan, shares={**plan.shares, plan.pair_step: rest})


def candidate_pairs(plan: MarginalsPlan) -> list[NamePair]:
    """Return the pairs of columns that may be near each other, by public facts: on one scale, and named by no rule."""
    schema = plan.schema
    if not plan.counts_all_pairs:
        return []
    ruled = {name for tie in plan.ties for name in tie.columns} | {name for names in keys_of(schema.rules, schema.whole) for name in names}
    return comparable(schema, ruled)


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
    places, points = plan.places, {}  # numbers of each column that are equally far apart in probability
    for name in {name for pair in pairs for name in pair}:
        grid, upto = plan.grids[name], np.concatenate([[0.0], np.cumsum(links[name].mass)])
        points[name] = np.interp((np.arange(_POINTS) + 0.5) / _POINTS * upto[-1], upto, grid.edges)
        points[name] = np.floor(points[name]) if grid.kind.integer else points[name]
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


def _encode_rows(located: Rows, plan: MarginalsPlan, links: Mapping[Hashable, Link | LevelGroups]) -> _CodedRows:
    schema, places, names = plan.schema, plan.places, plan.names
    bins = {places[name]: np.append(link.codes, link.n_bins).astype(np.int32) for name, link in links.items()}
    sizes = [links[name].n_bins + schema[name].nullable if name in links else schema[name].n_codes for name in names]
    coding = Coding((*(places[name] for name in names), None if plan.stratum is None else places[plan.stratum]), bins)
    return _CodedRows(located.map(coding).materialize(), [*sizes, plan.n_classes])


def _release_blocks(coded: _CodedRows, one_way: NoisyTables, plan: MarginalsPlan, budget: Budget) -> dict[str, Any]:
    """Return the blocks of columns: all in one; or, of many columns, the common factors, and blocks that depend on each other beyond them.

    These follow from noisy tables of all pairs with merged codes.
    """
    names, n_columns = plan.names, len(plan.names)
    if n_columns <= ONE_BLOCK:
        return {"blocks": (tuple(range(n_columns)),)}
    groups = merge_codes(one_way, [isinstance(kind, Nominal) for kind in plan.kinds])
    whole = np.zeros(coded.sizes[-1], dtype=np.int64)  # all classes are one
    merged = _CodedRows(coded.rows.map(Merging((*groups, whole))).materialize(), [*(int(group.max()) + 1 for group in groups), 1])
    released = _release_pairs(merged, list(combinations(range(n_columns), 2)), one_way, plan, budget, ", merged")
    n = _estimate_n_rows(one_way, plan)
    tied = [[names.index(name) for name in tie.columns if name != plan.stratum] for tie in plan.ties]
    one = [table.sum(axis=0) for table in one_way.tables.values()]
    common, blocks = learn_common_factors(CoarsePairs.of(released, groups, n), one, n, plan.n_factors, tied)
    return {"blocks": tuple(blocks), "common": common}


def _estimate_n_rows(one_way: NoisyTables, plan: MarginalsPlan) -> float:
    return plan.n_samples or max(1.0, float(np.mean([table.sum() for table in one_way.tables.values()])))


def _rows_for_pair_selection(
    located: Rows, links: Mapping[Hashable, Link | LevelGroups], one_way: NoisyTables, plan: MarginalsPlan
) -> tuple[Rows, list[int], list[np.ndarray]]:
    """Return the rows as codes in which pairs are chosen, the number of these codes, and the splits of each column."""
    schema = plan.schema
    # In more bins than are counted, whose edges are splits: choices are of distances alone.
    finer = {name: link.recut(SPLITS + 1) for name, link in links.items() if isinstance(link, Link)}
    coded = _encode_rows(located, plan, {**links, **finer})  # there is no stratum
    masses = [finer[name].masses if name in finer else one_way.tables[i,].sum(axis=0) for i, name in enumerate(schema)]
    shares = [np.append(mass, [0.0] * (size - len(mass))) for mass, size in zip(masses, coded.sizes, strict=False)]
    return coded.rows, coded.sizes[:-1], [column_splits(share, kind) for share, kind in zip(shares, schema.values(), strict=True)]


def _release_pairs(
    coded: _CodedRows, pairs: Sequence[tuple[int, int]], one_way: NoisyTables, plan: MarginalsPlan, budget: Budget, kind: str = ""
) -> NoisyTables | NoisyInteractions:
    if not pairs:
        return NoisyTables({}, one_way.variance)
    share = plan.shares[f"counts of pairs{kind}"]
    chosen = PairRelease.choose(coded.sizes, pairs, one_way.variance, share, budget.relation, plan.n_samples)
    return chosen.ask(coded.rows, budget, f"{'counts' if chosen.over is None else 'interactions'} of pairs{kind}")


def _count_prior(located: Rows, pairs: Sequence[tuple[int, int]], plan: MarginalsPlan, codes: Codes) -> PublicPrior:
    """Count a public table in the released codes: exactly, as nothing private is in it."""
    coded = _encode_rows(located, plan, codes.links)
    columns = [(i,) for i in range(len(coded.sizes) - 1)]
    exact = total(coded.rows, Marginals.over(coded.sizes, [(len(columns), *place) for place in [*columns, *pairs]]))
    tables = dict(zip([*columns, *pairs], exact.tables(exact.counts), strict=True))
    cells: dict[Hashable, Any] = dict(zip(plan.grids, _count_cells(located, plan).levels(), strict=True)) if plan.grids else {}
    if many := [name for name in many_level_columns(plan.schema) if name in codes.links]:
        levels = _count_levels(located, many, plan)
        cells |= zip(many, levels.tables(levels.counts), strict=True)
    return PublicPrior({i: tables[i] for i in columns}, {pair: tables[pair] for pair in pairs}, cells)


def _fit_model(counted: Measurements, coded: _CodedRows, plan: MarginalsPlan, budget: Budget) -> tuple[dict[str, Any], list[NoisyTables]]:
    """Return the attributes that hold the model, and the tables of three columns if there is a second round."""
    if plan.is_block:
        return {"_counted": counted}, []
    fitted, triples = model_attributes(counted.model(plan.n_factors)), []
    if TRIPLES in plan.shares:
        triples = [release_triples(coded.rows, coded.sizes, plan, budget, counted.codes.near, fitted["_model"], counted.totals)]
        fitted = model_attributes(counted.model_with_triples(triples[0], fitted["_model"], plan.place_within))
    return {**fitted, **({} if counted.prior is None else {"_without_prior": replace(counted, prior=None)})}, triples


def model_attributes(model: TableModel) -> dict[str, Any]:
    return {"factors_": model.factors, "_model": model}


def _table_attributes(
    released: Sequence[Released], estimates: Estimates, names: Sequence[Hashable], stratum: Hashable
) -> dict[str, object]:
    noisy = [each.tables for each in released if isinstance(each, NoisyTables)]
    counts = {place: table for tables in noisy for place, table in tables.items() if place or stratum is not None}
    tables = {place: np.rint(table).astype(np.int64) for place, table in estimates.tables.items()} | counts
    interactions: dict[tuple[int, ...], np.ndarray] = {}
    scales: dict[tuple[int, ...], int] = {}
    gram: np.ndarray | None = None
    codes: dict[tuple[Hashable, ...], np.ndarray] = {}
    for each in released:
        if isinstance(each, NoisyGram):
            gram = each.matrices if stratum is not None else each.matrices[0]
            codes = {(): np.array([each.coordinate]), **{(name,): V for name, V in zip(names, each.codes, strict=True)}}
        if isinstance(each, NoisyInteractions):
            interactions |= each.tables
            scales |= each.scales
    return {
        "marginals_": _by_columns(tables, names, stratum),
        "interactions_": _by_columns(interactions, names, stratum),
        "interaction_scales_": _by_columns(scales, names, stratum),
        "gram_": gram,
        "gram_codes_": codes,
        "marginals_consistent_": _by_columns(estimates.tables, names, stratum),
        "marginals_errors_": _by_columns({place: math.sqrt(of_cell) for place, of_cell in estimates.variances.items()}, names, stratum),
    }


def _by_columns(tables: Mapping[tuple[int, ...], Any], names: Sequence[Hashable], stratum: Hashable) -> dict[tuple[Hashable, ...], Any]:
    """Return tables, or numbers of them, by the names of their columns, led by the stratum."""
    lead = () if stratum is None else (stratum,)
    return {
        (*lead, *(names[i] for i in place)): table[0] if stratum is None and isinstance(table, np.ndarray) else table
        for place, table in tables.items()
    }


def warn_of_order(schema: Schema, spans: Spans, near: Sequence[DifferenceLaw], budget: Budget) -> None:
    """Warn of times that no rule or released difference keeps in order, and of an `Inequality` that is not kept as start and span."""
    modeled = {frozenset((each.first, each.second)) for each in near}
    ruled = {name for rule in schema.rules for name in rule.columns_named}
    for pair in comparable(schema.coded, {name for name, kind in schema.items() if not isinstance(kind, Times)}):
        if frozenset(pair) not in modeled and not ruled & set(pair):
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
