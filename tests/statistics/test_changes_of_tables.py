"""By how much one row moves the counts of tables, trees and thresholds: every pair of neighbours among all tiny tables."""

from itertools import product

import numpy as np
import pytest

from skdpsynth.statistics import Change, DifferencesOf, Marginals, Thresholds, Trees

RELATIONS = ["replace_one", "add_or_remove_one"]


def pairs_of_neighbours(rows, relation, most=2):
    """All unordered tables of at most `most` rows out of `rows`, with a row replaced or added."""
    for n in range(most):
        for kept in product(rows, repeat=n):
            if relation == "add_or_remove_one":
                yield from ((list(kept), [*kept, row]) for row in rows)
            else:
                yield from (([*kept, old], [*kept, new]) for old, new in product(rows, repeat=2))


def columns(table, n_columns):
    return list(np.array(table, dtype=np.int64).reshape(-1, n_columns).T)


def largest_change(counts_of, rows, relation):
    """What the counts of any pair of neighbours differ by at most, in three norms."""
    worst = np.zeros(3, dtype=np.int64)
    for first, second in pairs_of_neighbours(rows, relation):
        moved = np.abs(counts_of(first) - counts_of(second))
        worst = np.maximum(worst, [moved.sum(), (moved**2).sum(), moved.max(initial=0)])
    return Change(relation, *map(int, worst))


@pytest.mark.must
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("attributes", [[], [(0,)], [(0,), (1,), (2,)], [(0, 1), (1, 2), (0, 2)], [(2, 0), (2, 1), (2, 0, 1), (2,)]])
def test_change_of_marginals_is_the_largest_of_all_neighbours(relation, attributes):
    sizes = [2, 3, 2]
    rows = list(product(*map(range, sizes)))

    def counts_of(table):
        return Marginals.of(columns(table, 3), sizes, attributes).counts

    assert largest_change(counts_of, rows, relation) == Marginals.change(relation, len(attributes))


@pytest.mark.must
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("depths", [(1,), (2,), (3,), (1, 3), (3, 2), (4, 1)])
def test_change_of_trees_is_the_largest_of_all_neighbours(relation, depths):
    rows = list(product(*(range(-1, 1 << depth) for depth in depths)))  # -1: missing

    def counts_of(table):
        return Trees.of(columns(table, len(depths)), depths).counts

    most = 2 if len(rows) < 12 else 1
    worst = np.zeros(3, dtype=np.int64)
    for first, second in pairs_of_neighbours(rows, relation, most):
        moved = np.abs(counts_of(first) - counts_of(second))
        worst = np.maximum(worst, [moved.sum(), (moved**2).sum(), moved.max()])
    assert Change(relation, *map(int, worst)) == Trees.change(relation, depths)


@pytest.mark.must
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("sizes", [(2,), (3,), (2, 2), (4, 2), (3, 2, 3)])
def test_change_of_thresholds_is_the_largest_of_all_neighbours(relation, sizes):
    rows = list(product(*map(range, sizes)))

    def counts_of(table):
        return Thresholds.of(columns(table, len(sizes)), sizes, relation).counts

    assert largest_change(counts_of, rows, relation) == Thresholds.change(relation, sizes)


def test_no_columns_change_by_nothing():
    for relation in RELATIONS:
        assert Trees.change(relation, []) == Marginals.change(relation, 0) == Thresholds.change(relation, []) == Change(relation, 0, 0, 0)


@pytest.mark.parametrize(("relation", "other"), [RELATIONS, RELATIONS[::-1]])
def test_thresholds_answer_under_the_relation_that_they_were_counted_for(relation, other):
    """What is left out where the number of rows is public would be missed where it is not."""
    with pytest.raises(ValueError, match=f"relation must be '{relation}'"):
        Thresholds.of([np.array([0, 1])], [2], relation).query(other)


@pytest.mark.parametrize("relation", RELATIONS)
def test_queries_hold_the_counts_and_their_change(relation):
    codes, sizes = [np.array([0, 1, 1]), np.array([2, 0, 2])], [2, 3]
    marginals, trees, thresholds = (
        Marginals.of(codes, sizes, [(0,), (0, 1)]),
        Trees.of(codes, (1, 3)),
        Thresholds.of(codes, sizes, relation),
    )
    queries = [(marginals, marginals.query(relation), Marginals.change(relation, 2))]
    queries += [(trees, trees.query(relation), Trees.change(relation, (1, 3)))]
    queries += [(thresholds, thresholds.query(relation), Thresholds.change(relation, sizes))]
    for statistic, query, change in queries:
        assert query.change == change
        assert query.values is statistic.counts
        assert query.values.dtype == np.int64


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


def test_thresholds_count_both_of_two_levels_where_the_number_of_rows_is_private():
    codes = [np.array([0, 1, 1]), np.array([2, 0, 2])]
    parts = Thresholds.of(codes, (2, 3), "add_or_remove_one").columns()
    assert [part.tolist() for part in parts] == [[1, 2], [1, 0, 2]]


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


@pytest.mark.must
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("counts_missing", [True, False])
def test_change_of_differences_is_the_largest_of_all_neighbours(relation, counts_missing):
    """Of coarse counts and of trees: a pair of columns counts a row once in a table, and once in each level of a tree."""
    rows = list(product([0.0, 1.0, 3.0], [0.0, 2.0, np.nan], [0.0, 3.0]))
    edges = [np.arange(-4.0, 5.0), np.arange(-4.0, 5.0)]
    differences = DifferencesOf.over([(0, 1), (0, 2)], edges, counts_missing)
    if counts_missing:
        rule, change = Marginals.over([9, 9], [(0,), (1,)]), Marginals.change(relation, 2)
    else:
        rule, change = Trees.over([3, 3]), Trees.change(relation, [3, 3])

    def counts_of(table):
        return rule.of(differences(list(np.array(table, dtype=float).reshape(-1, 3).T))).counts

    assert largest_change(counts_of, rows, relation) == change
