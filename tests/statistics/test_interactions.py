"""Interactions of pairs of columns, and distances of tables: by how much one row moves them, by brute force, and what they tell."""

from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from internals import _interactions, dependences, distances, sensitivity_of_dependences, sensitivity_of_distances

from skdpsynth.statistics import Interactions, Marginals

RELATIONS = ["replace_one", "add_or_remove_one"]
COMPLETE = [([2, 2], None, 1), ([2, 3], None, 1), ([3, 4], None, 2), ([2, 2, 2], None, 1), ([2, 3, 5], None, 1), ([4, 2, 3], None, 2)]
COMPLETE += [([2, 2, 2, 2], None, 1), ([1, 3, 2], None, 1), ([2, 2, 3, 3], None, 1), ([3, 2, 2], [(0, 1), (1, 2)], 1)]
COMPLETE += [([2, 2, 2, 2], [(0, 1), (1, 2), (2, 3), (0, 3)], 1), ([2, 3, 2, 4], [(0, 1), (2, 3)], 1), ([2, 3, 2, 2], [(0, 1), (2, 3)], 2)]
each_setting = pytest.mark.parametrize(("sizes", "pairs", "n_classes"), COMPLETE, ids=str)


def all_pairs(sizes):
    return list(combinations(range(len(sizes)), 2))


def of_rows(rows, over):
    """The interactions of rows of codes, led by the class in the last column."""
    codes = list(np.array(rows, dtype=np.int64).reshape(-1, len(over.sizes) + 1).T)
    tables = Marginals.of(codes, [*over.sizes, over.n_classes], [(len(over.sizes), *pair) for pair in over.pairs])
    return over.query(tables, "replace_one").values


def largest_moves(over, relation):
    """The most that any row, or any pair of rows, moves the interactions, in l1, squared l2 and sup: they are sums over rows."""
    rows = list(product(*map(range, over.sizes), range(over.n_classes)))
    single = np.array([of_rows([row], over) for row in rows])
    if relation == "add_or_remove_one":
        moves = single
    else:
        moves = (single[:, None] - single).reshape(-1, single.shape[1])
    return [max(part) for part in (np.abs(moves).sum(axis=1), (moves.astype(object) ** 2).sum(axis=1), np.abs(moves).max(axis=1))]


@pytest.mark.must
@pytest.mark.parametrize("relation", RELATIONS)
@each_setting
def test_the_change_is_the_largest_of_all_neighbors_and_in_l1_a_bound(sizes, pairs, n_classes, relation):
    over = Interactions.over(sizes, pairs or all_pairs(sizes), n_classes)
    sensitivity, (l1, l2_squared, sup) = over.sensitivity(relation), largest_moves(over, relation)
    assert (l2_squared, sup) == (sensitivity.l2_squared, sensitivity.sup)
    assert l1 <= sensitivity.l1
    assert relation == "replace_one" or l1 == sensitivity.l1


@pytest.mark.must
@pytest.mark.parametrize("n_classes", [1, 2])
@pytest.mark.parametrize("sizes", [[2, 2], [2, 3], [3, 2], [2, 6], [6, 2], [3, 4], [5, 5], [6, 5]])
def test_the_l1_change_of_one_table_is_the_largest_of_all_neighbors(sizes, n_classes):
    over = Interactions.over(sizes, [(0, 1)], n_classes)
    assert over.sensitivity("replace_one").l1 == largest_moves(over, "replace_one")[0]


@pytest.mark.parametrize("n_classes", [1, 2])
@pytest.mark.parametrize("sizes", [[2, 3, 5], [2, 2, 2], [4, 2, 3, 6]])
def test_the_l1_change_of_several_tables_is_the_sum_of_theirs(sizes, n_classes):
    over = Interactions.over(sizes, all_pairs(sizes), n_classes)
    alone = [Interactions(over.sizes, (pair,), n_classes, (k,)) for pair, k in zip(over.pairs, over.multipliers, strict=True)]
    assert over.sensitivity("replace_one").l1 == sum(each.sensitivity("replace_one").l1 for each in alone)


@pytest.mark.parametrize("sizes", [[2, 3, 5, 2], [3, 3, 2], [2] * 6, [4, 7, 2, 2]])
@pytest.mark.parametrize("subset", [False, True])
def test_the_bound_where_not_all_sets_are_tried_holds_and_is_hardly_larger(sizes, subset, monkeypatch):
    pairs = all_pairs(sizes)[: -1 if subset else None]
    over = Interactions.over(sizes, pairs)
    monkeypatch.setattr(_interactions, "_SUBSETS", 0)
    _interactions._compute_sensitivity.cache_clear()
    bound = over.sensitivity("replace_one").l2_squared
    _interactions._compute_sensitivity.cache_clear()
    exact = largest_moves(over, "replace_one")[1]
    assert exact <= bound
    assert bound <= exact * Fraction(13, 10) if subset else bound <= exact * Fraction(1002, 1000)


def test_the_closed_form_for_equal_scales_is_the_largest_over_all_sets_of_columns():
    rng = np.random.default_rng(0)
    for _ in range(15):
        sizes = sorted(rng.integers(2, 9, rng.integers(2, 8)).tolist())
        a = [1 - Fraction(1, m) for m in sizes]
        most = max(
            sum(2 * (a[i] * a[j] - (a[i] - s[i]) * (a[j] - s[j])) for i, j in all_pairs(sizes)) for s in product([0, 1], repeat=len(sizes))
        )
        assert _interactions._most_of_equal(sizes) == most


def test_the_largest_value_of_a_quadratic_function_is_found_among_all_and_not_the_largest_of_one_nearly_the_same():
    rng = np.random.default_rng(0)
    numbers = np.array(list(product(range(40), repeat=2)))
    for _ in range(50):
        linear, crossing = rng.integers(10**6, 10**8, 2).astype(object), -rng.integers(10**5, 10**6, (2, 2)).astype(object)
        values = [linear @ x + x @ crossing @ x for x in numbers.astype(object)]
        assert _interactions._largest(numbers, linear.tolist(), crossing.tolist()) == max(values)


@pytest.mark.parametrize("sizes", [[2, 2], [16, 32, 9, 32, 16, 7, 15, 6, 5, 2, 32, 32, 32, 42, 2], [2, 65], [3000, 2, 3], [33] * 40])
def test_scales_are_the_same_to_one_part_in_a_thousand(sizes):
    over = Interactions.over(sizes, all_pairs(sizes))
    assert max(over.scales) - min(over.scales) <= min(over.scales) / 2**9


@pytest.mark.parametrize("n_samples", [1000, 10**9, 2**40])
@pytest.mark.parametrize("sizes", [[2, 3], [65, 65, 2], [5000, 5000]])
def test_whole_numbers_fit_where_the_number_of_rows_is_public(sizes, n_samples):
    over = Interactions.over(sizes, all_pairs(sizes), n_samples=n_samples)
    if over is not None:
        assert max(over.scales) * n_samples <= 2**62
    else:
        assert max(sizes) ** 2 * n_samples > 2**62


def test_there_are_no_interactions_of_columns_of_one_code():
    assert Interactions.over([1, 5], [(0, 1)]) is None
    assert Interactions.over([1, 5, 2], all_pairs([1, 5, 2])).pairs == ((1, 2),)


@pytest.mark.parametrize("n_classes", [1, 3])
def test_interactions_are_the_doubly_centered_tables_times_their_scale(n_classes):
    rng = np.random.default_rng(0)
    sizes, pairs = [3, 4, 2], all_pairs([3, 4, 2])
    over = Interactions.over(sizes, pairs, n_classes)
    exact = Marginals.of([rng.integers(0, m, 500) for m in [*sizes, n_classes]], [*sizes, n_classes], [(3, *pair) for pair in pairs])
    tables = over.tables(over.query(exact, "replace_one").values)
    for (pair, table), c, counts in zip(tables.items(), over.scales, exact.tables(), strict=True):
        centered = counts - counts.mean(axis=1, keepdims=True)
        centered -= centered.mean(axis=2, keepdims=True)
        assert pair in pairs
        assert table.dtype == np.int64
        np.testing.assert_allclose(table / c, centered, atol=1e-9)


def test_a_billion_rows_in_one_cell_do_not_pass_64_bits():
    over = Interactions.over([65, 65], [(0, 1)], n_samples=10**9)
    counts = np.zeros((1, 65, 65), dtype=np.int64)
    counts[0, 3, 5] = 10**9
    (table,) = over.tables(over.query(Marginals(((1, 65, 65),), counts.ravel()), "replace_one").values).values()
    exact = over.multipliers[0] * 10**9 * np.outer(65 * (np.arange(65) == 3) - 1, 65 * (np.arange(65) == 5) - 1).astype(object)
    assert (table[0] == exact).all()


SIZES, PAIRS = (2, 3, 2), all_pairs((2, 3, 2))
CELLS = list(product(*map(range, SIZES)))
SPLITS = [np.array([[True, False]]), np.array([[True, False, False], [True, True, False]]), np.array([[True, False]])]


def tables_of(rows):
    return Marginals.of(list(np.array(rows, dtype=np.int64).reshape(-1, 3).T), SIZES, PAIRS)


def largest_moves_of(values_of, tables, relation):
    """The most that the values of these tables differ from those of any of their neighbors, in l1, squared l2 and sup."""
    largest = np.zeros(3)
    for rows in tables:
        for other in [[row, *rows[1:]] for row in CELLS] if relation == "replace_one" else [rows[1:], *([*rows, row] for row in CELLS)]:
            moved = np.abs(values_of(rows) - values_of(other))
            largest = np.maximum(largest, [moved.sum(), (moved**2).sum(), moved.max()])
    return largest


@pytest.mark.must
@pytest.mark.parametrize("rank", [0, 1, 2])
@pytest.mark.parametrize("relation", RELATIONS)
def test_no_neighbor_moves_distances_from_independence_by_more_than_the_change_and_some_by_all_of_it(relation, rank):
    """All neighbors of thirty tables of four rows (seed 0), of which half hold one row again and again."""
    rng = np.random.default_rng(0)
    drawn = [[CELLS[i] for i in rng.integers(len(CELLS), size=4)] for _ in range(15)]
    tables = drawn + [[CELLS[trial % 12]] * 3 + [(0, 0, 0)] for trial in range(1, 30, 2)]
    told, largest = sensitivity_of_dependences(relation, len(PAIRS), rank), np.zeros(3)
    for n_rows in (4, 7):
        values_of = lambda rows, n=n_rows: dependences(tables_of(rows), PAIRS, SPLITS, n, relation, rank).values  # noqa: E731
        largest = np.maximum(largest, largest_moves_of(values_of, tables, relation))
    assert largest[2] == told.sup
    assert (largest <= [told.l1, told.l2_squared, told.sup]).all()


@pytest.mark.must
@pytest.mark.parametrize("relation", RELATIONS)
def test_no_neighbor_moves_distances_from_expectations_by_more_than_the_change_and_some_by_all_of_it(relation):
    """All neighbors of twenty tables of three rows (seed 0), far from and near to what was expected."""
    rng, largest = np.random.default_rng(0), np.zeros(3)
    for trial in range(20):
        rows = [CELLS[i] for i in rng.integers(len(CELLS), size=3)]
        expected = [rng.integers(0, 2 + 3 * (trial % 2), [SIZES[i] for i in pair]) for pair in PAIRS]
        if trial == 0:  # the row is where there are too few, and goes where there are too many
            rows, expected = [(0, 0, 0), (1, 2, 1), (1, 2, 1)], [np.zeros([SIZES[i] for i in pair], dtype=np.int64) for pair in PAIRS]
            for table in expected:
                table[0, 0] = 5
        values_of = lambda some, expected=expected: distances(tables_of(some), expected, relation).values  # noqa: E731
        largest = np.maximum(largest, largest_moves_of(values_of, [rows], relation))
    told = sensitivity_of_distances(relation, len(PAIRS))
    assert largest.tolist() == [told.l1, told.l2_squared, told.sup]


def test_a_distance_is_the_sum_of_absolute_differences():
    expected = [np.zeros((2, 3), dtype=np.int64), np.ones((2, 2), dtype=np.int64), np.ones((3, 2), dtype=np.int64)]
    assert distances(tables_of([(0, 0, 0), (1, 2, 1)]), expected, "replace_one").values.tolist() == [2, 2, 4]


def test_uneven_columns_are_not_far_from_independent_ones_and_dependent_ones_are():
    """Of 400 rows; the expected number of rows is rounded to a twenty-fourth on each side."""
    rng = np.random.default_rng(0)
    rare, common = (rng.random((2, 400)) < [[0.06], [0.9]]).astype(np.int64)
    exact = Marginals.of([rare, common, common], (2, 2, 2), PAIRS)
    values = dependences(exact, PAIRS, [SPLITS[0]] * 3, 400, "replace_one").values
    assert values[0] < 40 < 60 < values[2]


def test_the_distance_of_a_rank_is_one_of_all():
    rows = tables_of(np.random.default_rng(0).integers(0, 2, (50, 3)))
    of_rank = [dependences(rows, PAIRS, SPLITS, 50, "replace_one", rank).values for rank in range(4)]
    assert [values[0] for values in of_rank[1:]] == sorted(of_rank[0], reverse=True)
