"""Exact counts: of cells, lengths, tables, trees, thresholds, magnitudes and levels that nobody has listed."""

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from internals import _counts
from scipy.sparse import csr_matrix

from skdpsynth.domain import Ball, Box
from skdpsynth.measures import BinaryPartition
from skdpsynth.statistics import MAGNITUDES, CountLengths, EvenCells, Histogram, Magnitudes, Marginals, Occurrences, Thresholds, Trees

RELATIONS = ["replace_one", "add_or_remove_one"]


def partition_of(d, depth):
    return BinaryPartition(Box(np.zeros(d), np.ones(d)), depth)


def rows(n, d, seed=0):
    return np.random.default_rng(seed).uniform(-0.1, 1.1, (n, d))


@pytest.mark.parametrize(("d", "depth"), [(1, 0), (1, 6), (2, 5), (3, 7)])
@pytest.mark.parametrize("n", [0, 1, 500])
def test_histogram_counts_each_cell_and_each_level_those_above(n, d, depth, monkeypatch):
    monkeypatch.setattr(_counts, "_ROWS", 64)
    X, partition = rows(n, d), partition_of(d, depth)
    cells = [int(partition.locate(X[i : i + 1])[0]) for i in range(n)]
    for shift in {0, depth // 2, depth}:
        levels = Histogram.over(partition, shift).of(X).levels()
        assert len(levels) == depth - shift + 1
        for level, histogram in enumerate(levels):
            counted = Counter(cell >> (depth - level) for cell in cells)
            assert histogram.counts.tolist() == [counted[cell] for cell in range(2**level)]
            assert histogram.counts.dtype == np.int64


def refined_slowly(cells, coarse_shift, refinement):
    """The order of the docstring, word for word."""
    order = sorted(range(len(refinement)), key=lambda coarse: (refinement[coarse], coarse))
    parts = [(refinement[coarse], coarse, part) for coarse in order for part in range(2 ** refinement[coarse])]
    counted = Counter()
    for cell in cells:
        coarse = cell >> coarse_shift
        k = refinement[coarse]
        counted[k, coarse, (cell >> (coarse_shift - k)) - (coarse << k)] += 1
    return [counted[part] for part in parts]


@given(
    refinement=st.integers(0, 3).flatmap(lambda b: st.lists(st.integers(0, 5), min_size=2**b, max_size=2**b)),
    extra=st.integers(0, 40),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=60, deadline=None)
def test_refined_histogram_counts_each_part_in_the_stated_order(refinement, extra, seed):
    coarse_shift = max(refinement) + extra
    cells = np.random.default_rng(seed).integers(0, len(refinement) << coarse_shift, 100)
    expected = refined_slowly(cells.tolist(), coarse_shift, refinement)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_counts, "_ROWS", 64)
        assert Histogram.over_refined(coarse_shift, np.array(refinement)).of(cells).counts.tolist() == expected


def test_the_first_of_two_cells_tells_both_where_the_number_of_rows_is_public():
    histogram = Histogram.over_cells(2).of(np.array([0, 1, 1, 0, 1]))
    query = histogram.query_of_first("replace_one")
    assert [query.values[0], 5 - query.values[0]] == histogram.counts.tolist()
    assert query.sensitivity.l1 < histogram.query("replace_one").sensitivity.l1  # half the noise


def test_a_length_counts_between_the_radii_that_it_lies_between_however_rows_are_shrunk():
    ball, radii = Ball.of(Box([0.0, -1.0], [1.0, 3.0]), 10, True), np.array([2.0**22, 2.0**20, 2.0**18, 2.0**10])
    X = np.random.default_rng(0).uniform(-1, 4, (100, 2))
    squares = np.array([int(row @ row) for _, whole in ball.chunks(X) for row in whole.copy()])
    cells = np.array([max(j for j in range(4) if square <= radii[j]) for square in squares])
    for each in (ball, ball.within(10)):
        rule, kept = CountLengths(each, radii), np.empty(100, dtype=np.uint8)
        assert rule.of(X).counts.tolist() == rule.add(rule.zero(), X, kept).counts.tolist() == np.bincount(cells, minlength=4).tolist()
        assert kept.tolist() == cells.tolist()


SIZES, ATTRIBUTES, CHUNK = [2, 5, 1, 3], [(0,), (3,), (1, 3), (3, 1), (2, 0), (0, 1, 2, 3), (3, 3)], 1 << 15


@pytest.mark.parametrize("n", [0, 1, 50, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK])
@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint32, np.uint64])
def test_tables_are_numpys_histograms_of_codes_of_any_integer_dtype(n, dtype):
    rng = np.random.default_rng(0)
    codes = [rng.integers(0, size, n) for size in SIZES]
    given = [codes[0].astype(dtype), codes[1].astype(np.int16), codes[2], codes[3].astype(dtype)]
    for attribute, table in zip(ATTRIBUTES, Marginals.of(given, SIZES, ATTRIBUTES).tables(), strict=True):
        edges = [np.arange(SIZES[column] + 1) - 0.5 for column in attribute]
        np.testing.assert_array_equal(table, np.histogramdd([codes[column] for column in attribute], edges)[0])
        assert table.dtype == np.int64


def test_trees_count_every_second_level_of_each_column_and_thresholds_levels_of_two_the_first():
    rng, depths, sizes, n = np.random.default_rng(0), (1, 2, 5, 6), (2, 5, 3), (1 << 17) + 1
    cells = [rng.integers(-1, 1 << depth, n) for depth in depths]
    trees = Trees.of([column[:500] for column in cells], depths) + Trees.of([column[500:] for column in cells], depths)
    for column, depth, levels in zip(cells, depths, trees.levels(), strict=True):
        assert list(levels) == [level for level in range(1, depth + 1) if (depth - level) % 2 == 0]
        for level, counts in levels.items():
            expected = np.bincount(column[column >= 0] >> (depth - level), minlength=1 << level)
            np.testing.assert_array_equal(counts, expected)
    codes = [rng.integers(0, size, 300) for size in sizes]
    parts = (Thresholds.of([each[:9] for each in codes], sizes) + Thresholds.of([each[9:] for each in codes], sizes)).columns()
    for code, size, part in zip(codes, sizes, parts, strict=True):
        np.testing.assert_array_equal(part, np.bincount(code, minlength=size)[: 1 if size == 2 else size])


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


N_CELLS = len(MAGNITUDES) - 1


def cell_of(x):
    """The place of the one cell in which a number is counted; None if it is counted nowhere."""
    counts = Magnitudes.over([0]).of([np.array([x])]).counts[0]
    (cells,) = np.nonzero(counts)
    assert counts.sum() == len(cells) <= 1
    return int(cells[0]) if len(cells) else None


def described(cell):
    """Whether a number belongs into a cell, from the words of the docstring: exact."""
    low, high = (Fraction(float(edge)) for edge in MAGNITUDES[cell : cell + 2])
    if cell == N_CELLS // 2:
        return lambda x: low < x < high
    if high < 0:
        return lambda x: (low < x or cell == 0) and x <= high
    return lambda x: low <= x and (x < high or cell == N_CELLS - 1)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_float_is_counted_in_the_cell_whose_edges_hold_it(x):
    assert described(cell_of(x))(Fraction(x))


def test_numbers_about_an_edge_are_counted_on_their_side_and_zeros_infinities_and_missing_ones_in_their_places():
    for exponent in (-1074, -1023, -1022, -127, -126, -125, -1, 0, 1, 52, 127, 128, 1023):
        power = math.ldexp(1.0, exponent)
        for x in (power, math.nextafter(power, 0), math.nextafter(power, math.inf)):
            assert all(described(cell_of(y))(Fraction(y)) for y in (x, -x))
    cells = [cell_of(x) for x in (0.0, -0.0, 5e-324, -5e-324, math.inf, -math.inf, math.nan, -math.nan)]
    assert cells == [N_CELLS // 2] * 4 + [N_CELLS - 1, 0, None, None]


def test_even_cells_are_those_of_the_bounds_and_hold_what_lies_beyond():
    column = np.array([0.0, 0.24, 0.25, 0.74, 1.0, -5.0, 9.0, -math.inf, math.inf, math.nan])
    assert EvenCells.over([0], [0.0], [1.0], 4).of([column]).counts.tolist() == [[4, 1, 1, 3]]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint64", "int64", "bool"])
@pytest.mark.parametrize("rule", [Magnitudes.over([2, 0]), EvenCells.over([2, 0], [-2.0, 0.0], [2.0, 0.5], 16)], ids=["magnitudes", "even"])
def test_numbers_are_counted_alike_whatever_holds_them_and_without_a_warning(rule, dtype, monkeypatch):
    X = (np.random.default_rng(0).normal(size=(200, 3)) * (np.random.default_rng(1).random((200, 3)) < 0.3)).astype(dtype)
    expected = rule.of(list(X.astype(float).T)).counts
    monkeypatch.setattr(_counts, "_COLUMN_ROWS", 64)
    for chunk in (X, list(X.T), np.repeat(X, 2, axis=0)[::2], np.asfortranarray(X), csr_matrix(X.astype(float))):
        np.testing.assert_array_equal(rule.of(chunk).counts, expected)
    with np.errstate(all="raise"):  # a warning would tell of a value
        rule.of(np.array([[math.nan, 0, math.inf], [1e308, 0, -1e308], [5e-324, 0, -0.0]]))


def test_levels_are_counted_and_missing_cells_are_not():
    columns = [np.array(cells, dtype=object) for cells in ([1, 2, 3, 4], ["secret", None, "a", "secret"])]
    rule = Occurrences.over([1])
    assert rule.of(columns).tables == (Counter(secret=2, a=1),)
    parts = [rule.of([column[part] for column in columns]) for part in (slice(2), slice(2, None))]
    assert (parts[0] + parts[1]).tables == rule.of(columns).tables
    assert "secret" not in repr(rule.of(columns))
