"""Exact counts of all levels of a partition."""

from itertools import product

import numpy as np
import pytest

from skdpsynth.domain import Box
from skdpsynth.measures import BinaryPartition
from skdpsynth.statistics import Histogram, LevelCounts

PARTITION = BinaryPartition(Box(np.zeros(2), np.ones(2)), 5)


def rows(n, seed=0):
    return np.random.default_rng(seed).uniform(-0.1, 1.1, (n, 2))


@pytest.mark.parametrize("depth", [0, 1, 3, 5])
@pytest.mark.parametrize("n", [0, 1, 200])
def test_each_level_is_the_histogram_of_its_cells(n, depth):
    X = rows(n)
    counts = LevelCounts.of(X, PARTITION, depth)
    assert len(counts.levels) == depth + 1
    for level, counted in enumerate(counts.levels):
        cells = PARTITION.locate(X) >> (5 - level)
        np.testing.assert_array_equal(counted, Histogram.over_cells(2**level).of(cells).counts)
        assert counted.dtype == np.int64


def test_chunks_merged_with_plus_give_the_counts_of_the_whole():
    X = rows(60)
    merged = LevelCounts.of(X[:13], PARTITION, 4) + LevelCounts.of(X[13:], PARTITION, 4)
    for mine, whole in zip(merged.levels, LevelCounts.of(X, PARTITION, 4).levels, strict=True):
        np.testing.assert_array_equal(mine, whole)


@pytest.mark.must
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_the_change_of_a_level_is_the_largest_move_of_all_neighbours(relation):
    """All tables of two rows over eight cells; the root stays where it is if a row is replaced."""
    partition = BinaryPartition(Box(np.zeros(1), np.ones(1)), 3)
    change = LevelCounts.change(relation)

    def counts(cells):
        query = LevelCounts.of((np.array(cells, dtype=float)[:, None] + 0.5) / 8, partition, 3)
        assert query.query(relation, 2).change == change
        return [query.query(relation, level).values for level in range(4)]

    if relation == "replace_one":
        pairs = (((a, b), (c, b)) for a, b, c in product(range(8), repeat=3))
    else:
        pairs = (((a, b), (b,)) for a, b in product(range(8), repeat=2))
    moves = [[first - second for first, second in zip(counts(one), counts(other), strict=True)] for one, other in pairs]
    for level in range(4):
        moved = [move[level] for move in moves]
        worst = max(np.abs(m).sum() for m in moved), max((m**2).sum() for m in moved), max(np.abs(m).max() for m in moved)
        expected = (0, 0, 0) if level == 0 and relation == "replace_one" else (change.l1, change.l2_squared, change.sup)
        assert worst == expected
