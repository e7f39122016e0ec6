"""Distances of tables from what was expected: by how much one row moves them, by brute force."""

from itertools import combinations, product

import numpy as np
import pytest
from internals import distances, sensitivity_of_distances

from skdpsynth.statistics import Marginals

SIZES = (2, 3, 2)
PLACES = list(combinations(range(3), 2))


def found(rows, expected, relation):
    codes = list(np.array(rows, dtype=np.int64).reshape(-1, 3).T)
    return distances(Marginals.of(codes, SIZES, PLACES), expected, relation).values


@pytest.mark.must
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_no_neighbor_moves_distances_by_more_than_the_change_and_some_by_all_of_it(relation):
    """All neighbors of twenty tables of three rows (seed 0), far from and near to what was expected."""
    rng, cells, largest = np.random.default_rng(0), list(product(*map(range, SIZES))), np.zeros(3)
    for trial in range(20):
        rows = [cells[i] for i in rng.integers(len(cells), size=3)]
        expected = [rng.integers(0, 2 + 3 * (trial % 2), [SIZES[i] for i in place]) for place in PLACES]
        if trial == 0:  # the row is where there are too few, and goes where there are too many
            rows, expected = [(0, 0, 0), (1, 2, 1), (1, 2, 1)], [np.zeros([SIZES[i] for i in place], dtype=np.int64) for place in PLACES]
            for table in expected:
                table[0, 0] = 5
        others = [[row, *rows[1:]] for row in cells] if relation == "replace_one" else [rows[1:], *([*rows, row] for row in cells)]
        for other in others:
            moved = np.abs(found(rows, expected, relation) - found(other, expected, relation))
            largest = np.maximum(largest, [moved.sum(), (moved**2).sum(), moved.max()])
    told = sensitivity_of_distances(relation, len(PLACES))
    assert largest.tolist() == [told.l1, told.l2_squared, told.sup]


def test_a_distance_is_the_sum_of_absolute_differences():
    expected = [np.zeros((2, 3), dtype=np.int64), np.ones((2, 2), dtype=np.int64), np.ones((3, 2), dtype=np.int64)]
    assert found([(0, 0, 0), (1, 2, 1)], expected, "replace_one").tolist() == [2, 2, 4]
