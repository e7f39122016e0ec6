"""Strategy "marginals" of mixed tables: noisy counts of cells, columns and pairs, and what asks for them."""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from skdpsynth._checks import shown
from skdpsynth.domain import Continuous, Grid, Nominal, Rows, Schema, grids_of
from skdpsynth.fitting import Budget, Facts, Plan
from skdpsynth.models import (
    LevelGroups,
    Link,
    MarginalModel,
    NoisyTables,
    blocks_of,
    merged_groups,
    most_counts_of_pairs,
    pairs_within,
    totals_of,
)
from skdpsynth.privacy import PrivacyLoss, losses_of_kind, mechanism
from skdpsynth.statistics import CellsOf, Coding, Marginals, Merging, Trees, total

# Of the budget, in proportion for the steps that there are. Up to _ONE_BLOCK columns, others do about as well.
_SHARES = {"counts of cells": 0.1, "counts of levels": 0.1, "counts of columns": 0.1, "counts of pairs": 0.8}
_SHARES_OF_BLOCKS = {
    **{"counts of cells": 0.2, "counts of levels": 0.2, "counts of columns": 0.3, "counts of pairs, merged": 0.2, "counts of pairs": 0.3},
}
_ONE_BLOCK = 40  # columns up to which every pair is counted
_BINS = 16  # of a continuous column
MOST_CODES = 64  # of a nominal column: more levels are merged
_MOST_COUNTS = 1 << 25  # of pairs of codes, in all classes: a model of so many takes about a minute


@dataclass(frozen=True)
class MarginalsPlan(Plan):
    """What is counted, and at which shares of the budget.

    Attributes
    ----------
    schema : Schema
    stratum : column or None
    n_factors : int
    n_samples : int or None
        Where it is public.
    shares : dict of str to PrivacyLoss
        Of each step, in their order, by the name of its release.
    """

    schema: Schema | None = None
    stratum: Hashable = None
    n_factors: int = 1
    n_samples: int | None = None
    shares: Mapping[str, PrivacyLoss] | None = None


@dataclass(frozen=True, eq=False)
class _Coded:
    """The rows as codes of columns without the stratum, and at last that of the stratum: private."""

    rows: Rows
    sizes: list[int]


def plan(facts: Facts, schema: Schema, stratum: Hashable, n_factors: int) -> MarginalsPlan:
    """Share the budget among the steps that this schema needs; refuse what would take too long."""
    _check_size(schema, stratum)
    n_columns = len(schema) - (stratum is not None)
    has_blocks = n_columns > _ONE_BLOCK
    has_step = {
        "counts of cells": any(isinstance(kind, Continuous) for kind in schema.values()),
        "counts of levels": bool(_of_many_levels(schema)),
        "counts of columns": True,
        "counts of pairs, merged": has_blocks,
        "counts of pairs": n_columns > 1,
    }
    weights = {name: weight for name, weight in (_SHARES_OF_BLOCKS if has_blocks else _SHARES).items() if has_step[name]}
    options = [
        MarginalsPlan(
            budget.rho is not None,
            schema,
            stratum,
            n_factors,
            facts.n_samples,
            dict(zip(weights, budget.split(list(weights.values())), strict=True)),
            rho=None if budget.rho is None else "gaussian" if budget.gaussian else "zcdp",
        )
        for budget in _budgets(facts)
    ]
    made = min(options, key=lambda option: sum(map(math.log, _deviations(option, facts.neighboring)))) if len(options) > 1 else options[0]
    if facts.n_samples is not None and (message := _noise_is_all(made, facts.neighboring, facts.n_samples)):
        facts.warn(message)
    if not facts.delta and facts.epsilon != math.inf:
        with_delta = plan(facts.part(delta=facts.usual_delta), schema, stratum, n_factors)
        facts.warn_if_delta_helps(*(_widest_deviation(each, facts.neighboring) for each in (made, with_delta)))
    return made


def fitted_attributes(rows: Rows, plan: MarginalsPlan, budget: Budget) -> dict[str, object]:
    """Release the tree counts of continuous columns, the counts of columns and of pairs; return the fitted attributes."""
    schema, stratum = plan.schema, plan.stratum
    assert schema is not None
    grids, names = grids_of(schema), [name for name in schema if name != stratum]
    places = {name: place for place, name in enumerate(schema)}
    located = rows.map(CellsOf({places[name]: grid for name, grid in grids.items()})).kept() if grids else rows
    links, noisy_cells = _links(located, places, grids, plan, budget)
    groups, noisy_levels = _level_groups(located, places, schema, plan, budget)
    links |= groups
    coded = _coded(located, places, schema, stratum, links)
    one_way = _tables(coded, [(i,) for i in range(len(names))], "counts of columns", plan, budget)
    blocks = _blocks(coded, one_way, [isinstance(schema[name], Nominal) for name in names], plan, budget)
    pairs = pairs_within(blocks)
    two_way = _tables(coded, pairs, "counts of pairs", plan, budget) if pairs else NoisyTables({}, one_way.variance)

    totals = totals_of([one_way, two_way], plan.n_samples)
    n_samples = plan.n_samples or max(1, round(float(totals.sum())))
    if plan.n_samples is None and (message := _noise_is_all(plan, budget.relation, totals.sum())):
        budget.warn(message)
    model = MarginalModel.of(schema, stratum, links, blocks, one_way, two_way, totals, plan.n_factors)
    return {
        "marginals_": _by_columns({**one_way.tables, **two_way.tables}, names, stratum),
        "cells_": noisy_cells | noisy_levels,
        "bins_": model.bins(),
        "factors_": model.factors,
        "n_samples_": n_samples,
        "_size_error": 0.0 if plan.n_samples is not None else _deviation_of_total([one_way, two_way]),
        "_model": model,
    }


def _budgets(facts: Facts) -> list[PrivacyLoss]:
    """All of the budget, as what the noise of every step may cost: rho of either kind if there is a delta, else epsilon."""
    if not facts.delta or facts.share.is_infinite:
        return [facts.share.pure]
    try:
        return [loss for loss in losses_of_kind("gaussian", facts.share) if facts.rho in (None, "gaussian" if loss.gaussian else "zcdp")]
    except (ArithmeticError, ValueError):
        raise ValueError(
            f"epsilon is too large to go with delta={float(facts.delta):g}, got {shown(facts.epsilon)}; use delta=0."
        ) from None


def _links(
    located: Rows, places: Mapping[Hashable, int], grids: Mapping[Hashable, Grid], plan: MarginalsPlan, budget: Budget
) -> tuple[dict[Hashable, Link | LevelGroups], dict[Hashable, np.ndarray]]:
    """Release the trees of all continuous columns at once; return (links, counts by column)."""
    if not grids or plan.shares is None:
        return {}, {}
    trees = total(located, Trees.over([grid.depth for grid in grids.values()], [places[name] for name in grids]))
    query = trees.query(budget.relation)
    noise = mechanism(query.change, plan.shares["counts of cells"], n_values=len(query.values))
    noisy = budget.answer(query, noise, "counts of cells")
    links: dict[Hashable, Link | LevelGroups] = {}
    for (name, grid), levels in zip(grids.items(), trees.levels(noisy), strict=True):
        links[name] = Link.of([levels.get(j) for j in range(1, grid.depth + 1)], noise.variance, grid.n_cells, _BINS)
    return links, dict(zip(grids, trees.columns(noisy), strict=True))


def _of_many_levels(schema: Schema) -> list[Hashable]:
    """Return the nominal columns whose levels are merged for the tables of pairs."""
    return [name for name, kind in schema.items() if isinstance(kind, Nominal) and len(kind.levels) > MOST_CODES]


def _level_groups(
    rows: Rows, places: Mapping[Hashable, int], schema: Schema, plan: MarginalsPlan, budget: Budget
) -> tuple[dict[Hashable, Link | LevelGroups], dict[Hashable, np.ndarray]]:
    """Release the counts of all levels of the columns of very many, a table each; return (their codes, counts by column)."""
    names = _of_many_levels(schema)
    if not names or plan.shares is None:
        return {}, {}
    sizes = [0 if isinstance(kind, Continuous) else kind.n_codes for kind in schema.values()]
    exact = total(rows, Marginals.over(sizes, [(places[name],) for name in names]))
    query = exact.query(budget.relation)
    noise = mechanism(query.change, plan.shares["counts of levels"], n_values=len(query.values))
    noisy = dict(zip(names, exact.tables(budget.answer(query, noise, "counts of levels")), strict=True))
    groups: dict[Hashable, Link | LevelGroups] = {
        name: LevelGroups.of(counts[: len(schema[name].levels)], noise.deviation, schema[name].group_numbers, MOST_CODES)
        for name, counts in noisy.items()
    }
    return groups, noisy


def _tables(coded: _Coded, places: Sequence[tuple[int, ...]], name: str, plan: MarginalsPlan, budget: Budget) -> NoisyTables:
    """Release a table for each tuple of columns, in each class."""
    assert plan.shares is not None
    exact = total(coded.rows, Marginals.over(coded.sizes, [(len(coded.sizes) - 1, *place) for place in places]))
    query = exact.query(budget.relation)
    noise = mechanism(query.change, plan.shares[name], n_values=len(query.values))
    noisy = budget.answer(query, noise, name)
    return NoisyTables(dict(zip(places, exact.tables(noisy), strict=True)), noise.variance)


def _blocks(coded: _Coded, one_way: NoisyTables, is_nominal: Sequence[bool], plan: MarginalsPlan, budget: Budget) -> list[tuple[int, ...]]:
    """Return the blocks of columns: all in one, or of many columns by noisy tables of all pairs with merged codes."""
    n_columns = len(is_nominal)
    if n_columns <= _ONE_BLOCK:
        return [tuple(range(n_columns))]
    groups = merged_groups(one_way, is_nominal)
    whole = np.zeros(coded.sizes[-1], dtype=np.int64)  # all classes are one
    merged = _Coded(coded.rows.map(Merging((*groups, whole))).kept(), [*(int(group.max()) + 1 for group in groups), 1])
    tables = _tables(merged, list(combinations(range(n_columns), 2)), "counts of pairs, merged", plan, budget)
    return blocks_of(one_way, tables, groups)


def _coded(
    located: Rows, places: Mapping[Hashable, int], schema: Schema, stratum: Hashable, links: Mapping[Hashable, Link | LevelGroups]
) -> _Coded:
    names = [name for name in schema if name != stratum]
    bins = {places[name]: np.append(link.codes, link.n_bins).astype(np.int32) for name, link in links.items()}
    sizes = [links[name].n_bins + schema[name].nullable if name in links else schema[name].n_codes for name in names]
    coding = Coding((*(places[name] for name in names), None if stratum is None else places[stratum]), bins)
    return _Coded(located.map(coding).kept(), [*sizes, 1 if stratum is None else schema[stratum].n_codes])


def _deviation_of_total(steps: Sequence[NoisyTables]) -> float:
    """Standard deviation of the number of rows that is joined of the totals of all tables by inverse variance."""
    precision = sum(1 / (table.size * step.variance) for step in steps if step.variance for table in step.tables.values())
    return 1 / math.sqrt(precision) if precision else 0.0


def _by_columns(
    tables: Mapping[tuple[int, ...], np.ndarray], names: Sequence[Hashable], stratum: Hashable
) -> dict[tuple[Hashable, ...], np.ndarray]:
    """Return tables by the names of their columns, led by the stratum."""
    if stratum is None:
        return {tuple(names[i] for i in place): table[0] for place, table in tables.items()}
    return {(stratum, *(names[i] for i in place)): table for place, table in tables.items()}


def _widest_deviation(plan: MarginalsPlan, relation: str) -> float:
    """Deviation of the noise on the tables that have the most, as far as their number is public."""
    return max(_deviations(plan, relation))


def _deviations(plan: MarginalsPlan, relation: str) -> list[float]:
    """Deviations of the noise on the steps whose number of tables is public."""
    assert plan.schema is not None
    assert plan.shares is not None
    n_columns = len(plan.schema) - (plan.stratum is not None)
    n_pairs = math.comb(n_columns, 2)
    has_blocks = "counts of pairs, merged" in plan.shares
    n_tables = {"counts of columns": n_columns, "counts of pairs, merged" if has_blocks else "counts of pairs": n_pairs}
    changes = {name: Marginals.change(relation, tables) for name, tables in n_tables.items() if name in plan.shares}
    return [mechanism(change, plan.shares[name]).deviation for name, change in changes.items()]


def _noise_is_all(plan: MarginalsPlan, relation: str, n: float) -> str | None:
    """What to warn of, from public or noisy numbers, if the count of a level can hardly be told from its noise."""
    assert plan.schema is not None
    assert plan.shares is not None
    n_columns = len(plan.schema) - (plan.stratum is not None)
    n_tables = {"counts of columns": n_columns, "counts of pairs, merged": math.comb(n_columns, 2)}
    changes = {name: Marginals.change(relation, tables) for name, tables in n_tables.items() if name in plan.shares}
    deviation = max(mechanism(change, plan.shares[name]).deviation for name, change in changes.items())
    if deviation <= n / 10:
        return None
    return (
        f"the noise of each count has a standard deviation of {deviation:.3g}, more than a tenth of the rows, so synthetic rows "
        "may tell little; use more rows, a larger epsilon, delta > 0 or fewer columns."
    )


def _most_codes(kind: Any) -> int:
    """The most codes that a column may have in tables of pairs."""
    if isinstance(kind, Continuous):
        return 2 * _BINS + kind.nullable
    return min(kind.n_codes, MOST_CODES + kind.nullable) if isinstance(kind, Nominal) else kind.n_codes


def _check_size(schema: Schema, stratum: Hashable) -> None:
    """Refuse what would take too long or too much memory, by public numbers."""
    sizes = [_most_codes(kind) for name, kind in schema.items() if name != stratum]
    strata = 1 if stratum is None else schema[stratum].n_codes
    if most_counts_of_pairs(sizes, len(sizes) > _ONE_BLOCK) * strata > _MOST_COUNTS:
        raise ValueError(
            f"schema has {sum(sizes)} levels and bins in all (in {strata} classes of stratify), whose pairs are more than {_MOST_COUNTS} "
            "counts and would take minutes; merge levels, or leave columns out."
        )
