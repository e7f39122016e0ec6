"""Exact counts of cells."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from internals import _histogram

from skdpsynth.domain import Box
from skdpsynth.measures import BinaryPartition
from skdpsynth.statistics import Histogram


def partition_of(d, depth):
    return BinaryPartition(Box(np.zeros(d), np.ones(d)), depth)


def rows(n, d, seed=0):
    return np.random.default_rng(seed).uniform(-0.1, 1.1, (n, d))


@pytest.mark.parametrize(("d", "depth"), [(1, 0), (1, 6), (2, 5), (3, 7)])
@pytest.mark.parametrize("n", [0, 1, 500])
def test_histogram_counts_each_cell(n, d, depth, monkeypatch):
    monkeypatch.setattr(_histogram, "_ROWS", 64)
    X, partition = rows(n, d), partition_of(d, depth)
    counted = Counter(int(partition.locate(X[i : i + 1])[0]) for i in range(n))
    histogram = Histogram.of(X, partition)
    assert histogram.counts.tolist() == [counted[cell] for cell in range(2**depth)]
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
    assert Histogram.over_refined(coarse_shift, np.array(refinement)).of(cells).counts.tolist() == expected


def test_the_first_of_two_cells_tells_both_where_the_number_of_rows_is_public():
    histogram = Histogram.over_cells(2).of(np.array([0, 1, 1, 0, 1]))
    query = histogram.query_of_first("replace_one")
    assert [query.values[0], 5 - query.values[0]] == histogram.counts.tolist()
    assert query.sensitivity.l1 < histogram.query("replace_one").sensitivity.l1  # half the noise


def test_histograms_of_several_blocks_are_those_of_one_and_ancestors_sum_their_leaves(monkeypatch):
    cells, refinement = np.random.default_rng(0).integers(0, 4 << 10, 1000), np.array([3, 0, 1, 1])
    whole = Histogram.over_refined(10, refinement).of(cells.copy()).counts
    monkeypatch.setattr(_histogram, "_ROWS", 64)
    np.testing.assert_array_equal(Histogram.over_refined(10, refinement).of(cells.copy()).counts, whole)
    expected = np.bincount(cells, minlength=4 << 10).reshape(8, 512).sum(axis=1)
    np.testing.assert_array_equal(Histogram.over_cells(8, shift=9).of(cells).counts, expected)
