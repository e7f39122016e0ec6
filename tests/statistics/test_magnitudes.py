"""Exact counts of magnitudes and of even cells."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from internals import _column_counts
from scipy.sparse import csr_matrix

from skdpsynth.statistics import MAGNITUDES, EvenCells, Magnitudes

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


def test_numbers_about_an_edge_are_counted_on_their_side():
    for exponent in (-1074, -1023, -1022, -127, -126, -125, -1, 0, 1, 52, 127, 128, 1023):
        power = math.ldexp(1.0, exponent)
        for x in (power, math.nextafter(power, 0), math.nextafter(power, math.inf)):
            assert all(described(cell_of(y))(Fraction(y)) for y in (x, -x))


def test_zeros_infinities_and_missing_numbers_have_their_places():
    cells = [cell_of(x) for x in (0.0, -0.0, 5e-324, -5e-324, math.inf, -math.inf, math.nan, -math.nan)]
    assert cells == [N_CELLS // 2] * 4 + [N_CELLS - 1, 0, None, None]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint64", "int64", "bool"])
def test_columns_of_every_dtype_are_counted_as_floats(dtype):
    column = np.array([0, 1, 1, 0, 1]).astype(dtype) * np.array(3).astype(dtype)
    expected = Magnitudes.over([0]).of([column.astype(float)]).counts
    for chunk in ([column], column[:, None], np.repeat(column, 2)[::2][:, None]):
        np.testing.assert_array_equal(Magnitudes.over([0]).of(chunk).counts, expected)


def test_sparse_rows_are_counted_as_dense_ones():
    X = np.random.default_rng(0).normal(size=(50, 3)) * (np.random.default_rng(1).random((50, 3)) < 0.3)
    for rule in (Magnitudes.over([0, 2]), EvenCells.over([0, 2], [-1, -1], [1, 1], 8)):
        np.testing.assert_array_equal(rule.of(csr_matrix(X)).counts, rule.of(X).counts)


RULES = [Magnitudes.over([1, 0]), EvenCells.over([1, 0], [-2.0, 0.0], [2.0, 0.5], 16)]


@pytest.mark.parametrize("rule", RULES)
@given(cuts=st.lists(st.integers(0, 60), max_size=4))
def test_counts_of_parts_add_up_to_those_of_the_whole(rule, cuts):
    X = np.random.default_rng(0).normal(size=(60, 2))
    parts = [rule.of(part) for part in np.split(X, sorted(cuts))]
    np.testing.assert_array_equal(sum(parts[1:], start=parts[0]).counts, rule.of(X).counts)
    np.testing.assert_array_equal(rule.of(list(X.T)).counts, rule.of(X).counts)


def test_long_columns_are_counted_a_part_at_a_time(monkeypatch):
    X = np.random.default_rng(0).normal(size=(1000, 2))
    whole = [rule.of(X).counts for rule in RULES]
    monkeypatch.setattr(_column_counts, "_ROWS", 64)
    for rule, counts in zip(RULES, whole, strict=True):
        np.testing.assert_array_equal(rule.of(X).counts, counts)


def test_even_cells_are_those_of_the_bounds_and_hold_what_lies_beyond():
    column = np.array([0.0, 0.24, 0.25, 0.74, 1.0, -5.0, 9.0, -math.inf, math.inf, math.nan])
    assert EvenCells.over([0], [0.0], [1.0], 4).of([column]).counts.tolist() == [[4, 1, 1, 3]]


def test_no_warning_tells_of_a_value():
    with np.errstate(all="raise"):
        for rule in RULES:
            rule.of(np.array([[math.nan, math.inf], [1e308, -1e308], [5e-324, -0.0]]))


def test_no_repr_shows_a_count():
    assert all("7" not in repr(rule.of(np.zeros((7, 2)))).split(" at ")[0] for rule in RULES)
