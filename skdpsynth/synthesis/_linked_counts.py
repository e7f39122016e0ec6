"""Releases of linked tables, and the estimates that follow: each table's own pairs, those with its parent, and those of two of its rows."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, combinations_with_replacement, product
from typing import Any

import numpy as np

from skdpsynth.domain import Children, Continuous, Nominal
from skdpsynth.fitting import Budget
from skdpsynth.frames import Rows
from skdpsynth.models import BlockTables, Estimates, LevelGroups, Link, LinkTables, NoisyTables, Released, constraint_cuts
from skdpsynth.privacy import mechanism
from skdpsynth.statistics import CellsOf, Marginals, Trees, Weights, total
from skdpsynth.synthesis._latent_planning import MAX_CODES, answer_query, many_level_columns
from skdpsynth.synthesis._latent_releases import GramRelease, Pair, PairRelease
from skdpsynth.synthesis._linked_planning import Family, LinkedPlan

Block = tuple[int, ...]
_LEAST_BINS, _BINS = 4, 16  # of a column of numbers
_CLEAR = 8  # times the noise of a cell of a pair: so many roots pay for it


@dataclass(frozen=True, eq=False)
class LinkedCounts:
    """Estimates of counts in roots: a root has the mass 1 in all of its rows together."""

    plan: LinkedPlan
    sizes: Mapping[str, Sequence[int]]
    own: dict[str, Estimates]  # of columns and pairs of each table
    cross: dict[str, Estimates]  # of each child's columns with those of its parent, which come first
    siblings: dict[str, Estimates]  # of the columns of two children, one after the other
    histories: dict[str, Estimates]  # of the columns of the parent, of a row and of the next one, one after the other

    @classmethod
    def of(cls, coded: Rows, sizes: Mapping[str, Sequence[int]], plan: LinkedPlan, budget: Budget) -> "LinkedCounts":
        """Release the columns and pairs of rows of codes, and join them."""
        counted = cls(plan, sizes, {}, {}, {}, {})
        if plan.takes_gram:
            counted._join_grams(coded, budget)
            return counted
        one_way = {table: _release_columns(coded, table, sizes, plan, budget) for table in plan.tables}
        released: dict[tuple[str, str], list[Released]] = {}
        for family in plan.families(sizes):
            noisy = _release_pairs(coded, family, one_way[family.table].variance, plan, budget)
            released.setdefault((family.kind, family.table), []).append(noisy)
        for table in (name for name in plan.tables if name not in plan.histories):
            pairs = list(combinations(range(len(sizes[table])), 2))
            counted.own[table] = Estimates.of([one_way[table], *released.get(("own", table), ())], pairs, plan.public_mass(table))
        for link in plan.links:
            if link.table in plan.histories:
                counted._join_history(link, one_way, released["history", link.table])
            else:
                counted._join_cross(link, released.get(("cross", link.table), ()))
                counted._join_siblings(link, released.get(("siblings", link.table), ()))
        return counted

    def _join_grams(self, coded: Rows, budget: Budget) -> None:
        """Take a Gram matrix of each link, in which rows of the parent stand with one of its rows, or none."""
        plan = self.plan
        families = {(family.kind, family.table): family for family in plan.families(self.sizes)}
        for link in plan.links:
            of_gram, child, p = plan.gram_of(link, self.sizes), link.table, len(self.sizes[link.of])
            facts = (plan.shares[of_gram.name], budget.relation, plan.n_samples, of_gram.weights)
            noisy = GramRelease.choose((*of_gram.sizes, 1), *facts).ask(coded.map(of_gram.rows), budget, of_gram.name)
            parts: list[Released] = [noisy]
            if link.of not in self.own and (of_own := families.get(("own", link.of))) is not None:
                parts.append(_release_pairs(coded, of_own, math.inf, plan, budget))
            joint = Estimates.of(parts, of_gram.pairs, plan.public_mass(link.of))
            of_parent, of_child = range(p), range(p, len(of_gram.sizes))
            self.own.setdefault(link.of, _part_of(joint, of_parent, combinations(of_parent, 2), p))
            if child in plan.histories:
                self.histories[child] = joint
                continue
            self.own[child] = _part_of(joint, of_child, combinations(of_child, 2), p)
            self.cross[child] = _part_of(joint, range(len(of_gram.sizes)), product(of_parent, of_child), p)
            variance = float(np.mean([joint.variances[j,] for j in of_child]))
            of_siblings = [family for key, family in families.items() if key == ("siblings", child)]
            self._join_siblings(link, [_release_pairs(coded, family, variance, plan, budget) for family in of_siblings])

    def _join_cross(self, link: Children, released: Sequence[Released]) -> None:
        child, p, q = link.table, len(self.sizes[link.of]), len(self.sizes[link.table])
        of_parents = _present(self.own[link.of], self.plan.count_place(link), self.plan.least_of(link), self._masses(link))
        parts, pairs = [of_parents, _shift_columns(self.own[child].one_way, p), *released], [(i, p + j) for i in range(p) for j in range(q)]
        self.cross[child] = Estimates.of(parts, pairs, self.plan.public_mass(child))

    def _join_siblings(self, link: Children, released: Sequence[Released]) -> None:
        child, p, q = link.table, len(self.sizes[link.of]), len(self.sizes[link.table])
        of_two = _of_two(self.cross[child], self.plan.count_place(link), p, self._masses(link))
        pairs = combinations_with_replacement(range(q), 2)
        self.siblings[child] = Estimates.of([of_two, _shift_columns(of_two, q), *released], [(i, q + j) for i, j in pairs if released])

    def _join_history(self, link: Children, one_way: Mapping[str, NoisyTables], released: Sequence[Released]) -> None:
        child, p, n_columns = link.table, len(self.sizes[link.of]), len(self.sizes[link.of]) + 2 * len(self.sizes[link.table])
        parts = [self.own[link.of].one_way, self.own[link.of].two_way, _shift_columns(one_way[child], p), *released]
        self.histories[child] = Estimates.of(parts, list(combinations(range(n_columns), 2)), self.plan.public_mass(link.of))

    def rows_per_count(self, link: Children) -> np.ndarray:
        """Return for how many children of a parent a count of 1 stands, by their number."""
        counts = np.arange(self.sizes[link.of][self.plan.count_place(link)])
        return np.where(counts > 0, np.maximum(counts, self.plan.fewest.get(link.table, 1)), 0)

    def _masses(self, link: Children) -> np.ndarray:
        """Return what all children of a parent weigh, by their number."""
        found = self.rows_per_count(link)
        return np.arange(len(found)) / np.maximum(found, 1)

    def mass(self, table: str) -> float:
        return max(1.0, float(self.own[table].rows(self.plan.public_mass(table)).sum()))

    def of_link(self, link: Children) -> LinkTables:
        """Return the frequencies of a link, as shares of the mass of the parent's table."""
        n, parent, child, masses = self.mass(link.of), self.own[link.of], self.own[link.table], self._masses(link)
        p, q = len(self.sizes[link.of]), len(self.sizes[link.table])
        cross, siblings = self.cross[link.table], self.siblings[link.table]
        families = {"parent": (parent, 0), "cross": (cross, p), "child": (child, 0), "siblings": (siblings, q)}
        found = {name: _shares_of_pairs(estimates, n, by) for name, (estimates, by) in families.items()}
        return LinkTables(
            parent=([table[0] / n for table in parent.one_way.tables.values()], found["parent"][0]),
            cross=found["cross"][0],
            child=([table[0] / n for table in child.one_way.tables.values()], found["child"][0]),
            siblings=found["siblings"][0],
            count=self.plan.count_place(link),
            n=n,
            deviations={"columns": parent.one_way.deviation, **{name: each.two_way.deviation for name, (each, _) in families.items()}},
            precisions={(name, pair): precision for name, (_, own) in found.items() for pair, precision in own.items()},
            masses=(masses, (np.arange(len(masses)) > 1).astype(float)),
            n_ordered=(self.n_ordered(link.of), self.n_ordered(link.table)),
        )

    def attributes(self) -> tuple[dict[tuple[str, ...], dict], dict[tuple[str, ...], dict]]:
        """Return the estimates of counts by tables and columns, and the deviations of their noise."""
        names = {table: list(schema) for table, schema in self.plan.tables.items()}
        found: dict[tuple[str, ...], tuple[Estimates, list[Any], int]] = {}
        for table, own in self.own.items():
            found[table,] = own, names[table], 0
        for link in self.plan.links:
            of, child = link.of, link.table
            if link.order is None:
                found[of, child] = self.cross[child], [*names[of], *names[child]], 2
                found[child, child] = self.siblings[child], [*names[child], *names[child]], 2
            else:
                labels = [*names[of], *((child, name) for name in names[child]), *(("next", name) for name in names[child])]
                found[of, child] = self.histories[child], labels, 0
        tables, errors = {}, {}
        for key, (estimates, labels, n_columns) in found.items():
            places = {place: tuple(labels[i] for i in place) for place in estimates.tables if len(place) == n_columns or not n_columns}
            if not places:  # siblings where there is none
                continue
            tables[key] = {columns: estimates.tables[place][0] for place, columns in places.items()}
            errors[key] = {columns: math.sqrt(estimates.variances[place]) for place, columns in places.items()}
        return tables, errors

    def of_history(self, link: Children) -> BlockTables:
        """Return the tables of a parent, of a row and of the next one as those of one table."""
        joint, own = self.histories[link.table], self.n_ordered(link.table)
        block, n_ordered = tuple(range(len(joint.one_way.tables))), (*self.n_ordered(link.of), *own, *own)
        return BlockTables.of(block, joint.one_way, joint.two_way, joint.rows(self.plan.public_mass(link.of)), (), n_ordered)

    def n_ordered(self, table: str) -> tuple[int, ...]:
        """Return how many codes of each column have an order."""
        kinds = zip(self.plan.tables[table].values(), self.sizes[table], strict=True)
        return tuple(0 if isinstance(kind, Nominal) else size - int(kind.nullable) for kind, size in kinds)


def _shares_of_pairs(estimates: Estimates, n: float, by: int) -> tuple[dict[Pair, np.ndarray], dict[Pair, float]]:
    """Return pairs as shares of n roots, and their precisions, with the second column that stands `by` places further in estimates."""
    # A column of one code says nothing beside others but what they say by themselves.
    pairs = {(i, j - by): table[0] / n for (i, j), table in estimates.two_way.tables.items() if min(map(len, (table[0], table[0].T))) > 1}
    return pairs, {(i, j - by): precision for (i, j), precision in estimates.two_way.precisions.items()}


def _part_of(joint: Estimates, columns: Sequence[int], pairs: Iterable[Pair], p: int) -> Estimates:
    """Return the estimates of some columns, numbered from 0, and of pairs of them; columns from place p on lose their last code."""
    kept: list[dict[Block, np.ndarray]] = []
    steps, start = [], columns[0]
    for step, places in ((joint.one_way, [(i,) for i in columns]), (joint.two_way, pairs)):
        tables, names = dict[Block, np.ndarray](), {place: tuple(i - start for i in place) for place in places if place in step.tables}
        for place, name in names.items():
            tables[name] = step.tables[place][(slice(None), *(slice(None, -1 if i >= p else None) for i in place))]
        precisions = {name: step.precisions[place] for place, name in names.items() if place in step.precisions}
        steps.append(NoisyTables(tables, step.variance, precisions))
        kept.append(tables)
    variances = {name: joint.variances[tuple(i + start for i in name)] for tables in kept for name in tables}
    totals = joint.totals if columns[-1] < p else kept[0][columns[-1] - start,].sum(axis=1)
    return Estimates(totals, kept[0] | kept[1], variances, steps[0], steps[1], joint.variance_of_total)


def _shift_columns(columns: NoisyTables, by: int) -> NoisyTables:
    tables: dict[Block, np.ndarray] = {(i + by,): table for (i,), table in columns.tables.items()}
    return NoisyTables(tables, columns.variance)


def _present(parent: Estimates, count: int, least: int, masses: np.ndarray) -> NoisyTables:
    """Return the columns of parents by what their children weigh, from their pairs with the number of children."""
    if (masses[least:] == 1).all():
        return parent.one_way
    tables, variances = dict[Block, np.ndarray](), []
    for (i,), table in parent.one_way.tables.items():
        if i == count:
            tables[i,], variance = table * masses, parent.one_way.variance
        else:
            pair = (min(i, count), max(i, count))
            both = np.moveaxis(parent.tables[pair], 1 + pair.index(count), 2)
            tables[i,], variance = both @ masses, parent.variances[pair] * (masses**2).sum()
        variances.append(variance)
    return NoisyTables(tables, float(np.mean(variances)))


def _of_two(cross: Estimates, count: int, p: int, masses: np.ndarray) -> NoisyTables:
    """Return the columns of children that have siblings, as parents count once, from their pairs with the number of children."""
    weights = np.where(np.arange(len(masses)) > 1, 1 / np.maximum(masses, 0.1), 0)
    pairs = {j - p: (i, j) for i, j in cross.two_way.tables if i == count}
    tables: dict[Block, np.ndarray] = {(j,): weights @ cross.tables[pair] for j, pair in pairs.items()}
    return NoisyTables(tables, float(np.mean([cross.variances[pair] for pair in pairs.values()]) * (weights**2).sum()))


def release_levels(rows: Rows, table: str, plan: LinkedPlan, budget: Budget) -> dict[Any, LevelGroups]:
    """Return groups of the levels of the columns of a table that have very many, from noisy counts of these."""
    if not (many := many_level_columns(schema := plan.tables[table])):
        return {}
    names, sizes = list(schema), [0 if isinstance(kind, Continuous) else kind.n_codes for kind in schema.values()]
    rows = rows.map(plan.rows_of(table))
    noisy = _release_one_way(rows, sizes, list(map(names.index, many)), plan.weights(table, len(sizes)), f"levels of {table}", plan, budget)
    links = {}
    for name, (counts,) in zip(many, noisy.tables.values(), strict=True):
        kind: Any = schema[name]
        links[name] = LevelGroups.of(counts[: len(kind.levels)], noisy.deviation, kind.group_numbers, MAX_CODES)
    return links


def release_bins(rows: Rows, table: str, plan: LinkedPlan, budget: Budget) -> dict[Any, Link]:
    """Return the bins of the columns of numbers of a table, from noisy trees of their cells."""
    if not (grids := plan.grids(table)):
        return {}
    names, depths = list(plan.tables[table]), [grid.depth for grid in grids.values()]
    located = rows.map(plan.rows_of(table)).map(CellsOf(grids))
    weights = plan.weights(table, len(names))
    exact = total(located, Trees.over(depths, list(grids), weights.place))
    query = weights.query(exact.query(budget.relation), lambda relation: Trees.sensitivity(relation, depths), budget.relation)
    name = f"cells of {table}"
    noisy, noise = answer_query(query, plan.shares[name], budget, f"counts of {name}")
    cuts, links = constraint_cuts(plan.tables[table], {names[place]: grid for place, grid in grids.items()}), {}
    for (place, grid), levels in zip(grids.items(), exact.levels(noisy), strict=True):
        tree = [levels[level] / weights.total if level in levels else None for level in range(1, grid.depth + 1)]
        n_bins = _choose_n_bins(table, plan, budget.relation, plan.n_samples or float(sum(next(iter(levels.values())))) / weights.total)
        links[names[place]] = Link.of(tree, noise.variance / weights.total**2, grid.n_cells, n_bins, cuts.get(names[place], ()))
    return links


def _choose_n_bins(table: str, plan: LinkedPlan, relation: str, n: float) -> int:
    """Return how many bins leave the cells of pairs of two columns of numbers clear of their noise, by public and noisy numbers."""
    deviations = []
    for family in plan.families({name: plan.sizes(name, {}) for name in plan.tables}):
        if table in (family.table, plan.parent_of(family.table)):
            deviations.append(mechanism(Marginals.sensitivity(relation, len(family.pairs)), plan.shares[family.name]).deviation)
    noise = float(np.mean(deviations)) if deviations else 0.0
    return int(np.clip(np.sqrt(max(n, 1.0) / (_CLEAR * noise)), _LEAST_BINS, _BINS)) if noise else _BINS


def _release_columns(coded: Rows, table: str, sizes: Mapping[str, Sequence[int]], plan: LinkedPlan, budget: Budget) -> NoisyTables:
    """Release the columns of a table; of a history those of a row and of the next one."""
    own, start = list(sizes[table]), 0
    rows: Any = plan.rows_of(table)
    for link in plan.links:
        if link.table == table and link.order is not None:
            start, rows = len(sizes[link.of]), plan.history_rows(link, own)
            own = [size + 1 for size in (*own, *own)]
    weights, places = plan.weights(table, start + len(own)), range(start, start + len(own))
    return _release_one_way(coded.map(rows), [1] * start + own, places, weights, f"columns of {table}", plan, budget)


def _release_one_way(
    rows: Rows, sizes: Sequence[int], places: Sequence[int], weights: Weights, name: str, plan: LinkedPlan, budget: Budget
) -> NoisyTables:
    """Release some columns of rows that are weighed, as tables that are numbered from 0."""
    exact = total(rows, Marginals.over(sizes, [(place,) for place in places], weights.place))
    query = weights.query(exact.query(budget.relation), lambda relation: Marginals.sensitivity(relation, len(places)), budget.relation)
    noisy, noise = answer_query(query, plan.shares[name], budget, f"counts of {name}")
    tables: dict[Block, np.ndarray] = {(j,): counts[None] / weights.total for j, counts in enumerate(exact.tables(noisy))}
    return NoisyTables(tables, noise.variance / weights.total**2)


def _release_pairs(coded: Rows, family: Family, column_variance: float, plan: LinkedPlan, budget: Budget) -> Released:
    half, share = len(family.sizes) // 2, plan.shares[family.name]
    symmetric = [(i, j) for i, j in family.pairs if family.kind == "siblings" and j == i + half]
    facts = (column_variance, share, budget.relation, plan.n_samples, family.weights, symmetric)
    return PairRelease.choose((*family.sizes, 1), family.pairs, *facts).ask(coded.map(family.rows), budget, family.name)
