"""By how much one row, or the rows of one unit, move each statistic: every pair of neighbors among all tiny tables."""

from itertools import chain, combinations_with_replacement, product

import numpy as np
import pytest

from skdpsynth.domain import Ball, Box
from skdpsynth.frames import Rows
from skdpsynth.measures import BinaryPartition
from skdpsynth.statistics import (
    DifferencesOf,
    EvenCells,
    Gram,
    Histogram,
    Magnitudes,
    Marginals,
    Moments,
    Occurrences,
    Packing,
    RowCount,
    Sensitivity,
    Thresholds,
    Trees,
    total,
)

RELATIONS = ["replace_one", "add_or_remove_one"]
NAN = np.nan


def columns(table, n_columns, dtype=np.int64):
    return list(np.array(table, dtype=dtype).reshape(-1, n_columns).T)


def largest_change(values_of, rows, relation, most=2):
    """What the values of any pair of neighbors differ by at most, in three norms, among all tables of fewer than `most` other rows."""
    worst, rows = np.zeros(3, dtype=np.int64), list(rows)
    for kept in chain.from_iterable(product(rows, repeat=n) for n in range(most)):
        values = [values_of([*kept, row]) for row in rows]
        for value, other in product(values, values if relation == "replace_one" else [values_of(list(kept))]):
            moved = np.abs(value - other)
            worst = np.maximum(worst, [moved.sum(), (moved**2).sum(), moved.max(initial=0)])
    return Sensitivity(relation, *map(int, worst))


def of_marginals(sizes, attributes):
    rows = list(product(*map(range, sizes)))
    return rows, lambda table: Marginals.of(columns(table, len(sizes)), sizes, attributes).counts


def of_trees(*depths):
    rows = list(product(*(range(-1, 1 << depth) for depth in depths)))  # -1: missing
    return rows, lambda table: Trees.of(columns(table, len(depths)), depths).counts


def of_thresholds(sizes, relation):
    rows = list(product(*map(range, sizes)))
    return rows, lambda table: Thresholds.of(columns(table, len(sizes)), sizes, relation).counts


def of_differences(counts_missing):
    """Coarse counts, or trees: a pair of columns counts a row once in a table, and once in each level of a tree."""
    rows = list(product([0.0, 1.0, 3.0], [0.0, 2.0, NAN], [0.0, 3.0]))
    differences = DifferencesOf.over([(0, 1), (0, 2)], [np.arange(-4.0, 5.0)] * 2, counts_missing)
    rule = Marginals.over([9, 9], [(0,), (1,)]) if counts_missing else Trees.over([3, 3])
    return rows, lambda table: rule.of(differences(columns(table, 3, float))).counts


def of_numbers(rule, relation, cells, n_columns):
    rows = list(product(cells, repeat=n_columns))
    return rows, lambda table: rule.of(np.array(table, dtype=float).reshape(-1, n_columns)).query(relation).values


def of_levels(relation, level):
    """The root stays where it is if a row is replaced."""
    partition = BinaryPartition(Box(np.zeros(1), np.ones(1)), 3)
    made = lambda table: Histogram.of((np.array(table, dtype=float).reshape(-1, 1) + 0.5) / 8, partition).levels()  # noqa: E731
    return range(8), lambda table: made(table)[level].query(relation).values


def of_occurrences(n_columns):
    """Levels that nobody has listed, as counts of those that there are here."""

    def counts_of(table):
        cells = np.empty((len(table), n_columns), dtype=object)
        for place, row in enumerate(table):
            cells[place] = row
        tables = Occurrences.over(range(n_columns)).of(list(cells.T)).tables
        return np.array([counted[level] for counted in tables for level in "ab"])

    return list(product(["a", "b", None], repeat=n_columns)), counts_of


def of_cells(make, relation):
    return range(8), lambda table: make(np.array(table, dtype=np.int64)).query(relation).values


def of_first(n_cells, relation):
    return range(n_cells), lambda table: Histogram.over_cells(n_cells).of(np.array(table, dtype=np.int64)).query_of_first(relation).values


UNIT = BinaryPartition(Box(np.zeros(1), np.ones(1)), 3)
TABLES = [[], [(0,)], [(0,), (1,), (2,)], [(0, 1), (1, 2), (0, 2)], [(2, 0), (2, 1), (2, 0, 1), (2,)]]
HISTOGRAMS = {
    "cells": Histogram.over_cells(8).of,
    "points": lambda cells: Histogram.of((cells[:, None] + 0.5) / 8, UNIT),
    "refined cells": Histogram.over_refined(2, np.array([2, 1])).of,
}
# Of each statistic: all rows that there are with the values of a table of some, and the change that it states.
CASES = {
    **{f"marginals {i}": lambda r, a=a: (of_marginals([2, 3, 2], a), Marginals.sensitivity(r, len(a))) for i, a in enumerate(TABLES)},
    **{
        f"trees {depths}": lambda r, depths=depths: (of_trees(*depths), Trees.sensitivity(r, depths))
        for depths in [(1,), (2,), (3,), (1, 3), (3, 2), (4, 1)]
    },
    **{
        f"thresholds {sizes}": lambda r, sizes=sizes: (of_thresholds(sizes, r), Thresholds.sensitivity(r, sizes))
        for sizes in [(2,), (3,), (2, 2), (4, 2), (3, 2, 3)]
    },
    "differences": lambda r: (of_differences(True), Marginals.sensitivity(r, 2)),
    "trees of differences": lambda r: (of_differences(False), Trees.sensitivity(r, [3, 3])),
    "magnitudes": lambda r: magnitudes(Magnitudes.over([0]), r, [-3.0, 0.0, 0.6, np.inf, NAN], 1),
    "magnitudes of two": lambda r: magnitudes(Magnitudes.over([0, 1]), r, [-3.0, 0.6, NAN], 2),
    "even cells": lambda r: magnitudes(EvenCells.over([0], [-1.0], [1.0], 4), r, [-3.0, 0.0, 0.6, np.inf, NAN], 1),
    "even cells of two": lambda r: magnitudes(EvenCells.over([0, 1], [-1.0] * 2, [1.0] * 2, 4), r, [-3.0, 0.6, NAN], 2),
    **{f"level {level}": lambda r, level=level: (of_levels(r, level), Histogram.sensitivity(r)) for level in (1, 2, 3)},
    "occurrences": lambda r: (of_occurrences(1), Occurrences.sensitivity(r, 1)),
    "occurrences of two": lambda r: (of_occurrences(2), Occurrences.sensitivity(r, 2)),
    **{name: lambda r, make=make: (of_cells(make, r), Histogram.sensitivity(r)) for name, make in HISTOGRAMS.items()},
    "first of two cells": lambda r: (of_first(2, r), Histogram.sensitivity_of_first(r)),
    "first of eight cells": lambda r: (of_first(8, r), Histogram.sensitivity_of_first(r)),
    "rows": lambda r: ((range(2), lambda table: RowCount(len(table)).query(r).values), RowCount.sensitivity(r)),
}


def magnitudes(rule, relation, cells, n_columns):
    return of_numbers(rule, relation, cells, n_columns), rule.of(np.zeros((0, n_columns))).query(relation).sensitivity


@pytest.mark.must
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", CASES)
def test_the_change_is_the_largest_of_all_neighbors(name, relation):
    (rows, values_of), sensitivity = CASES[name](relation)
    assert largest_change(values_of, rows, relation, 2 if len(rows) < 14 else 1) == sensitivity
    assert sensitivity.relation == relation


def test_the_root_of_levels_and_no_columns_change_by_nothing():
    rows, values_of = of_levels("replace_one", 0)
    assert largest_change(values_of, rows, "replace_one") == Sensitivity("replace_one", 0, 0, 0)
    for relation in RELATIONS:
        assert (
            Trees.sensitivity(relation, [])
            == Marginals.sensitivity(relation, 0)
            == Thresholds.sensitivity(relation, [])
            == Sensitivity(relation, 0, 0, 0)
        )


def change_of_units(values_of, rows, relation, k, square=None):
    """What the values of two tables that differ in the k rows of a unit differ by at most, in all norms."""
    values = np.array([values_of(list(unit)) for unit in combinations_with_replacement(rows, k)])
    worst, nuclear = np.zeros(3, dtype=np.int64), 0.0
    for other in values if relation == "replace_one" else values_of([])[None]:
        signed = values - other
        moved = np.abs(signed)
        worst = np.maximum(worst, [moved.sum(axis=1).max(), (moved**2).sum(axis=1).max(), moved.max(initial=0)])
        if square:
            nuclear = max(nuclear, np.abs(np.linalg.eigvalsh(signed.reshape(-1, square, square))).sum(axis=1).max())
    return Sensitivity(relation, *map(int, worst)), nuclear


def is_within(found, stated):
    return found.l1 <= stated.l1 and found.l2_squared <= stated.l2_squared and found.sup <= stated.sup


OF_UNITS = {
    "marginals": lambda r: (of_marginals([2, 2], [(0,), (1,), (0, 1)]), Marginals.sensitivity(r, 3)),
    "trees": lambda r: (of_trees(3), Trees.sensitivity(r, (3,))),
    "cells": lambda r: (of_cells(Histogram.over_cells(8).of, r), Histogram.sensitivity(r)),
    "rows": CASES["rows"],
}


@pytest.mark.must
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("name", OF_UNITS)
def test_the_change_times_k_is_the_largest_of_all_units(name, k, relation):
    (rows, values_of), sensitivity = OF_UNITS[name](relation)
    assert change_of_units(values_of, rows, relation, k)[0] == sensitivity.times(k)


@pytest.mark.must
@pytest.mark.parametrize("k", [2, 3])
def test_the_change_of_thresholds_times_k_holds_for_all_units(k):
    rows, values_of = of_thresholds((4,), "replace_one")
    assert is_within(change_of_units(values_of, rows, "replace_one", k)[0], Thresholds.sensitivity("replace_one", [4]).times(k))


@pytest.mark.must
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("layout", ["packing", "gram", "gram without mean"])
def test_the_change_of_moments_times_k_holds_for_all_units_on_a_grid(relation, k, layout):
    ball = Ball.of(Box(np.zeros(2), np.ones(2)), 2, False)
    if layout == "packing":
        form = Packing.of(2, int(ball.largest.max()), True)
    else:
        form = Gram(2, ball.reach, 0 if "without" in layout else 2)

    def values_of(table):
        rows = Rows.of(np.array(table, dtype=float).reshape(-1, 2))
        return total(rows, Moments.over(ball)).query(relation, form).values

    square = None if layout == "packing" else int(np.sqrt(form.n_values))
    found, nuclear = change_of_units(values_of, product(np.linspace(0, 1, 3), repeat=2), relation, k, square)
    stated = form.sensitivity(relation).times(k)
    assert is_within(found, stated)
    if square:
        assert nuclear <= float(stated.nuclear) * (1 + 1e-9)


def test_a_change_times_one_is_itself():
    sensitivity = Sensitivity("replace_one", 6, 12, 3, 4)
    assert sensitivity.times(1) == sensitivity
    assert sensitivity.times(3) == Sensitivity("replace_one", 18, 108, 9, 12)
