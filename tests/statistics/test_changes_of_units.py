"""By how much the rows of one unit move each statistic: every pair of units of two or three rows, among all tiny tables."""

from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from test_changes_of_tables import columns

from skdpsynth.domain import Ball, Box, Rows
from skdpsynth.statistics import Change, Gram, Histogram, Marginals, Moments, Packing, RowCount, Thresholds, Trees, total

RELATIONS = ["replace_one", "add_or_remove_one"]


def largest_change(values_of, rows, relation, k, square=None):
    """What the values of two tables that differ in the k rows of a unit differ by at most, in all norms: other rows cancel in sums."""
    values = np.array([values_of(list(unit)) for unit in combinations_with_replacement(rows, k)])
    others = values if relation == "replace_one" else values_of([])[None]
    worst, nuclear = np.zeros(3, dtype=np.int64), 0.0
    for other in others:
        signed = values - other
        moved = np.abs(signed)
        worst = np.maximum(worst, [moved.sum(axis=1).max(), (moved**2).sum(axis=1).max(), moved.max(initial=0)])
        if square:
            nuclear = max(nuclear, np.abs(np.linalg.eigvalsh(signed.reshape(-1, square, square))).sum(axis=1).max())
    return Change(relation, *map(int, worst)), nuclear


def is_within(found, stated):
    return found.l1 <= stated.l1 and found.l2_squared <= stated.l2_squared and found.sup <= stated.sup


@pytest.mark.must
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("k", [2, 3])
def test_change_of_marginals_times_k_is_the_largest_of_all_units(relation, k):
    sizes, attributes = [2, 2], [(0,), (1,), (0, 1)]

    def counts_of(table):
        return Marginals.of(columns(table, 2), sizes, attributes).counts

    found, _ = largest_change(counts_of, list(product(range(2), range(2))), relation, k)
    assert found == Marginals.change(relation, 3).times(k)


@pytest.mark.must
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("k", [2, 3])
def test_change_of_trees_times_k_is_the_largest_of_all_units(relation, k):
    def counts_of(table):
        return Trees.of(columns(table, 1), (3,)).counts

    found, _ = largest_change(counts_of, [(cell,) for cell in range(-1, 8)], relation, k)
    assert found == Trees.change(relation, (3,)).times(k)


@pytest.mark.must
@pytest.mark.parametrize("k", [2, 3])
def test_change_of_thresholds_times_k_is_the_largest_of_all_units(k):
    relation = "replace_one"  # they need a public number of rows

    def counts_of(table):
        return Thresholds.of(columns(table, 1), [4]).counts

    found, _ = largest_change(counts_of, [(level,) for level in range(4)], relation, k)
    assert is_within(found, Thresholds.change(relation, [4]).times(k))


@pytest.mark.must
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("k", [2, 3])
def test_change_of_a_histogram_times_k_is_the_largest_of_all_units(relation, k):
    def counts_of(table):
        return np.bincount(np.array(table, dtype=np.int64), minlength=4)

    found, _ = largest_change(counts_of, range(4), relation, k)
    assert found == Histogram.change(relation).times(k)


@pytest.mark.must
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("k", [2, 3])
def test_change_of_the_number_of_rows_times_k_is_the_largest_of_all_units(relation, k):
    found, _ = largest_change(lambda table: np.array([len(table)]), range(2), relation, k)
    assert found == RowCount.change(relation).times(k)


@pytest.mark.must
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("layout", ["packing", "gram", "gram without mean"])
def test_change_of_moments_times_k_holds_for_all_units_on_a_grid(relation, k, layout):
    ball = Ball.of(Box(np.zeros(2), np.ones(2)), 2, False)
    cells = list(product(np.linspace(0, 1, 3), repeat=2))
    if layout == "packing":
        form = Packing.of(2, int(ball.largest.max()), True)
    else:
        form = Gram(2, ball.reach, 0 if "without" in layout else 2)

    def values_of(table):
        rows = Rows.held(np.array(table, dtype=float).reshape(-1, 2))
        return total(rows, Moments.over(ball)).query(relation, form).values

    square = None if layout == "packing" else int(np.sqrt(form.n_values))
    found, nuclear = largest_change(values_of, cells, relation, k, square)
    stated = form.change(relation).times(k)
    assert is_within(found, stated)
    if square:
        assert nuclear <= float(stated.nuclear) * (1 + 1e-9)


def test_a_change_times_one_is_itself():
    change = Change("replace_one", 6, 12, 3, 4)
    assert change.times(1) == change
    assert change.times(3) == Change("replace_one", 18, 108, 9, 12)
