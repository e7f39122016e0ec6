"""Counts of marginal tables: against numpy and pandas, in chunks, and of one row."""

import numpy as np
import pytest

from skdpsynth.statistics import Marginals

SIZES = [2, 5, 1, 3]
ATTRIBUTES = [(0,), (3,), (1, 3), (3, 1), (2, 0), (0, 1, 2, 3)]
CHUNK = 1 << 15  # rows that are counted at a time


def codes(n, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.integers(0, size, n) for size in SIZES]


@pytest.mark.parametrize("n", [0, 1, 50, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK])
def test_tables_are_numpys_histograms(n):
    columns = codes(n)
    for attribute, table in zip(ATTRIBUTES, Marginals.of(columns, SIZES, ATTRIBUTES).tables(), strict=True):
        edges = [np.arange(SIZES[column] + 1) - 0.5 for column in attribute]
        np.testing.assert_array_equal(table, np.histogramdd([columns[column] for column in attribute], edges)[0])
        assert table.dtype == np.int64


def test_other_values_take_the_places_of_the_counts():
    marginals = Marginals.of(codes(9), SIZES, ATTRIBUTES)
    others = np.arange(len(marginals.counts))
    tables = marginals.tables(others)
    assert [table.shape for table in tables] == list(marginals.shapes) == [(2,), (3,), (5, 3), (3, 5), (1, 2), (2, 5, 1, 3)]
    np.testing.assert_array_equal(np.concatenate([table.ravel() for table in tables]), others)


def test_no_tables_are_no_counts():
    marginals = Marginals.of(codes(5), SIZES, [])
    assert marginals.counts.shape == (0,)
    assert marginals.counts.dtype == np.int64


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64])
@pytest.mark.parametrize("columns", [(0,), (0, 1), (1, 0), (0, 1, 2), (2, 2)])
def test_codes_of_any_integer_dtype_are_counted_alike(dtype, columns):
    rng, sizes = np.random.default_rng(0), [3, 1, 4]
    codes = [rng.integers(size, size=50) for size in sizes]
    given = [codes[0].astype(dtype), codes[1].astype(np.int16), codes[2]]
    (table,) = Marginals.over(sizes, [columns]).of(given).tables()
    edges = [np.arange(sizes[column] + 1) - 0.5 for column in columns]
    np.testing.assert_array_equal(table, np.histogramdd([codes[column] for column in columns], edges)[0])
