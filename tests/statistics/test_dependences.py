"""Distances of pairs from independent ones: by how much one row moves them, by brute force, and what they tell."""

from itertools import product

import numpy as np
import pytest
from internals import dependences, sensitivity_of_dependences

from skdpsynth.statistics import Marginals

SIZES, PAIRS = (2, 3, 2), [(0, 1), (0, 2), (1, 2)]
SPLITS = [np.array([[True, False]]), np.array([[True, False, False], [True, True, False]]), np.array([[True, False]])]


def found(rows, n_rows, relation, rank=0):
    codes = list(np.array(rows, dtype=np.int64).reshape(-1, 3).T)
    return dependences(Marginals.of(codes, SIZES, PAIRS), PAIRS, SPLITS, n_rows, relation, rank).values


@pytest.mark.must
@pytest.mark.parametrize("rank", [0, 1, 2])
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_no_neighbor_moves_distances_by_more_than_the_change_and_some_by_all_of_it(relation, rank):
    """All neighbors of thirty tables of four rows (seed 0), of which half hold one row again and again."""
    rng, cells, largest = np.random.default_rng(0), list(product(*map(range, SIZES))), np.zeros(3)
    for trial in range(30):
        rows = [cells[i] for i in rng.integers(len(cells), size=4)] if trial % 2 else [cells[trial % 12]] * 3 + [(0, 0, 0)]
        others = [[row, *rows[1:]] for row in cells] if relation == "replace_one" else [rows[1:], *([*rows, row] for row in cells)]
        for n_rows, other in product((4, 7), others):
            moved = np.abs(found(rows, n_rows, relation, rank) - found(other, n_rows, relation, rank))
            largest = np.maximum(largest, [moved.sum(), (moved**2).sum(), moved.max()])
    told = sensitivity_of_dependences(relation, len(PAIRS), rank)
    assert largest[2] == told.sup
    assert (largest <= [told.l1, told.l2_squared, told.sup]).all()


def test_uneven_columns_are_not_far_from_independent_ones_and_dependent_ones_are():
    """Of 400 rows; the expected number of rows is rounded to a twenty-fourth on each side."""
    rng = np.random.default_rng(0)
    rare, common = (rng.random((2, 400)) < [[0.06], [0.9]]).astype(np.int64)
    exact = Marginals.of([rare, common, common], (2, 2, 2), PAIRS)
    distances = dependences(exact, PAIRS, [SPLITS[0]] * 3, 400, "replace_one").values
    assert distances[0] < 40 < 60 < distances[2]


def test_the_distance_of_a_rank_is_one_of_all():
    rows = np.random.default_rng(0).integers(0, 2, (50, 3))
    assert [found(rows, 50, "replace_one", rank)[0] for rank in (1, 2, 3)] == sorted(found(rows, 50, "replace_one"), reverse=True)
