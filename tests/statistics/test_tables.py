"""Counts of tables, trees and thresholds: what is counted, put together and taken apart."""

import numpy as np
import pytest

from skdpsynth.statistics import Marginals, Thresholds, Trees

RELATIONS = ["replace_one", "add_or_remove_one"]


@pytest.mark.parametrize("relation", RELATIONS)
def test_queries_hold_the_counts_and_their_change(relation):
    codes, sizes = [np.array([0, 1, 1]), np.array([2, 0, 2])], [2, 3]
    for statistic, sensitivity in [
        (Marginals.of(codes, sizes, [(0,), (0, 1)]), Marginals.sensitivity(relation, 2)),
        (Trees.of(codes, (1, 3)), Trees.sensitivity(relation, (1, 3))),
        (Thresholds.of(codes, sizes, relation), Thresholds.sensitivity(relation, sizes)),
    ]:
        query = statistic.query(relation)
        assert query.sensitivity == sensitivity
        assert query.values is statistic.counts
        assert query.values.dtype == np.int64
    # What thresholds leave out where the number of rows is public would be missed where it is not.
    (other,) = {*RELATIONS} - {relation}
    with pytest.raises(ValueError, match=f"relation must be '{relation}'"):
        Thresholds.of(codes, sizes, relation).query(other)


def test_trees_count_every_second_level_of_each_column():
    rng = np.random.default_rng(0)
    depths = (1, 2, 5, 6)
    cells = [rng.integers(-1, 1 << depth, 500) for depth in depths]
    trees = Trees.of(cells, depths)
    for column, depth, levels in zip(cells, depths, trees.levels(), strict=True):
        assert list(levels) == [level for level in range(1, depth + 1) if (depth - level) % 2 == 0]
        for level, counts in levels.items():
            expected = np.bincount(column[column >= 0] >> (depth - level), minlength=1 << level)
            np.testing.assert_array_equal(counts, expected)


def test_thresholds_count_levels_and_of_two_the_first():
    rng = np.random.default_rng(0)
    codes = [rng.integers(0, size, 300) for size in (2, 5, 3)]
    parts = Thresholds.of(codes, (2, 5, 3)).columns()
    np.testing.assert_array_equal(parts[0], [(codes[0] == 0).sum()])
    np.testing.assert_array_equal(parts[1], np.bincount(codes[1], minlength=5))
    np.testing.assert_array_equal(parts[2], np.bincount(codes[2], minlength=3))


def test_answers_are_taken_apart_as_the_counts_were_put_together():
    cells = [np.array([0, 1, -1]), np.array([3, 3, 0])]
    trees, thresholds = Trees.of(cells, (1, 2)), Thresholds.of(cells[1:] * 2, (4, 4))
    for statistic in (trees, thresholds):
        answers = np.arange(len(statistic.counts))
        np.testing.assert_array_equal(np.concatenate(statistic.columns(answers)), answers)
        np.testing.assert_array_equal(np.concatenate(statistic.columns()), statistic.counts)
    assert [list(levels) for levels in trees.levels()] == [[1], [2]]
    assert Trees.of([], ()).levels() == Trees.of([], ()).columns() == Thresholds.of([], ()).columns() == []


@pytest.mark.parametrize("n", [0, 1, 1 << 17, (1 << 17) + 1])
def test_trees_and_thresholds_of_parts_of_the_rows_sum_to_those_of_all(n):
    rng = np.random.default_rng(n)
    cells, cut = [rng.integers(0, 1 << depth, n) for depth in (2, 5)], n // 3
    for whole, parts in [
        (Trees.of(cells, (2, 5)), [Trees.of([column[part] for column in cells], (2, 5)) for part in (slice(cut), slice(cut, None))]),
        (Thresholds.of(cells, (4, 32)), [Thresholds.of([c[part] for c in cells], (4, 32)) for part in (slice(cut), slice(cut, None))]),
    ]:
        np.testing.assert_array_equal((parts[0] + parts[1]).counts, whole.counts)
        assert whole.counts.dtype == np.int64
