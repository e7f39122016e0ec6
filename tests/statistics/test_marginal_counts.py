"""Counts of marginal tables: against numpy and pandas, in chunks, and of one row."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from skdpsynth.statistics import Marginals

SIZES = [2, 5, 1, 3]
ATTRIBUTES = [(0,), (3,), (1, 3), (3, 1), (2, 0), (0, 1, 2, 3)]
CHUNK = 1 << 15  # rows that are counted at a time


def codes(n, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.integers(0, size, n) for size in SIZES]


@pytest.mark.parametrize("n", [1, 50, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK])
def test_tables_are_numpys_histograms(n):
    columns = codes(n)
    for attribute, table in zip(ATTRIBUTES, Marginals.of(columns, SIZES, ATTRIBUTES).tables(), strict=True):
        edges = [np.arange(SIZES[column] + 1) - 0.5 for column in attribute]
        np.testing.assert_array_equal(table, np.histogramdd([columns[column] for column in attribute], edges)[0])
        assert table.dtype == np.int64


def test_tables_of_pairs_are_the_crosstabs_of_pandas():
    columns = codes(400)
    pairs = list(combinations(range(4), 2))
    for (i, j), table in zip(pairs, Marginals.of(columns, SIZES, pairs).tables(), strict=True):
        expected = pd.crosstab(columns[i], columns[j]).reindex(index=range(SIZES[i]), columns=range(SIZES[j]), fill_value=0)
        np.testing.assert_array_equal(table, expected)


def test_the_sum_over_chunks_of_rows_is_the_whole():
    columns = codes(1000)
    parts = [Marginals.of([column[a:b] for column in columns], SIZES, ATTRIBUTES) for a, b in [(0, 0), (0, 1), (1, 700), (700, 1000)]]
    whole = Marginals.of(columns, SIZES, ATTRIBUTES)
    together = parts[0] + parts[1] + parts[2] + parts[3]
    np.testing.assert_array_equal(together.counts, whole.counts)
    assert together.shapes == whole.shapes


def test_the_order_of_rows_does_not_matter():
    columns, order = codes(300), np.random.default_rng(1).permutation(300)
    shuffled = Marginals.of([column[order] for column in columns], SIZES, ATTRIBUTES)
    np.testing.assert_array_equal(shuffled.counts, Marginals.of(columns, SIZES, ATTRIBUTES).counts)


def test_a_row_counts_once_in_each_table():
    """This is the sensitivity: one a table if a row comes, and if it is replaced two a table at most, attained if all columns change."""
    counts = Marginals.of(codes(20), SIZES, ATTRIBUTES).counts
    for seed in range(20):
        row = Marginals.of([column[:1] for column in codes(20, seed)], SIZES, ATTRIBUTES)
        assert [table.sum() for table in row.tables()] == [1] * len(ATTRIBUTES)
        assert row.counts.max() == 1
    first, last = ([np.array([code]) for code in row] for row in ([0, 0, 0, 0], [1, 4, 0, 2]))
    moved = Marginals.of(last, SIZES, ATTRIBUTES).counts - Marginals.of(first, SIZES, ATTRIBUTES).counts
    assert np.abs(moved).sum() == (moved**2).sum() == 2 * len(ATTRIBUTES)
    assert len(moved) == len(counts)


def test_other_values_take_the_places_of_the_counts():
    marginals = Marginals.of(codes(9), SIZES, ATTRIBUTES)
    others = np.arange(len(marginals.counts))
    tables = marginals.tables(others)
    assert [table.shape for table in tables] == list(marginals.shapes) == [(2,), (3,), (5, 3), (3, 5), (1, 2), (2, 5, 1, 3)]
    np.testing.assert_array_equal(np.concatenate([table.ravel() for table in tables]), others)


def test_no_rows_count_nothing():
    marginals = Marginals.of(codes(0), SIZES, ATTRIBUTES)
    assert not marginals.counts.any()
    assert len(marginals.counts) == 2 + 3 + 15 + 15 + 2 + 30


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
