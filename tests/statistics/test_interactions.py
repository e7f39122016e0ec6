"""Interactions of pairs of columns: by how much one row moves them, by brute force, and what they tell."""

from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from internals import _interactions

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


def test_a_replaced_row_moves_binary_columns_half_as_far_as_their_tables():
    """All pairs of p binary columns: p**2 / 4 against p (p - 1) in squared l2, where half of the columns differ."""
    over = Interactions.over([2] * 16, all_pairs([2] * 16))
    (scale,) = set(over.scales)
    assert over.sensitivity("replace_one").l2_squared == 64 * scale**2
    assert over.sensitivity("add_or_remove_one").l2_squared == 30 * scale**2


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


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_change_of_forty_columns_of_many_sizes_is_stated(relation):
    rng = np.random.default_rng(0)
    sizes = rng.integers(2, 40, 40).tolist()
    sensitivity = Interactions.over(sizes, all_pairs(sizes), 2, 10**6).sensitivity(relation)
    assert sensitivity.sup <= sensitivity.l1 <= sensitivity.l2_squared
