"""Sums in few bytes: nothing is lost, and what is small or zero takes little."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from internals import Packed, add_parts
from internals import dask_Part as Part

from skdpsynth.domain import Box
from skdpsynth.measures import BinaryPartition
from skdpsynth.statistics import Histogram, Occurrences, RowCount

INT64 = st.integers(-(2**63), 2**63 - 1)
MANY = 1 << 21


@given(st.lists(INT64 | st.integers(0, 300) | st.just(0)))
def test_nothing_is_lost(values):
    values = np.array(values, dtype=np.int64)
    np.testing.assert_array_equal(Packed.of(values).unpack(), values)


@given(st.lists(st.integers(0, 5000)))
def test_cells_are_counted_as_numpy_counts_them(cells):
    cells = np.array(cells, dtype=np.int64)
    np.testing.assert_array_equal(Packed.of_cells(cells, 5001).unpack(), np.bincount(cells, minlength=5001))


@given(st.lists(st.lists(INT64, min_size=3, max_size=3), min_size=1, max_size=9))
def test_packed_sums_add_up_and_stay_as_they_are(vectors):
    vectors = np.array(vectors, dtype=np.int64)
    parts = [Part(Packed.of(vector), 2) for vector in vectors]
    for _ in range(2):  # a task may run again
        whole = add_parts(parts)
        np.testing.assert_array_equal(whole.sums.unpack(), vectors.sum(axis=0))
        assert whole.n_rows == 2 * len(vectors)


@pytest.mark.parametrize(("n_rows", "most"), [(1000, 6_000), (100_000, 400_000), (1_000_000, 2_200_000)])
def test_counts_of_many_cells_take_the_bytes_of_their_rows(n_rows, most):
    """Of uniform rows, the worst: two bytes each or six, of 16 MiB that all counts would take."""
    cells = np.random.default_rng(0).integers(0, MANY, n_rows)
    counts = np.bincount(cells, minlength=MANY)
    assert Packed.of_cells(cells, MANY).n_bytes <= most
    assert Packed.of(counts).n_bytes <= most


@pytest.mark.parametrize("n_rows", [0, 1, 1000, 400_000])
@pytest.mark.parametrize("cuts", [1, 3])
def test_rows_in_many_cells_are_counted_alike_whether_few_or_many(n_rows, cuts):
    rule = Histogram.over(BinaryPartition(Box(np.zeros(2), np.ones(2)), 21))
    X = np.random.default_rng(1).random((n_rows, 2))
    np.testing.assert_array_equal(rule.pack_sums(np.array_split(X, cuts)).unpack(), rule.of(X).counts)


def test_a_statistic_that_is_no_vector_travels_too():
    columns = [np.array(["a", "b", None], dtype=object), np.array(["b", "b", "c"], dtype=object)]
    rule = Occurrences.over([0, 1])
    parts = [Part(rule.pack_sums([columns]), 3)] * 3
    assert add_parts(parts).sums.unpack().tables == ({"a": 3, "b": 3}, {"b": 6, "c": 3})
    assert parts[0].sums.unpack().tables == rule.of(columns).tables


def test_no_repr_shows_sums():
    packed = Packed.of(np.array([421_337]))
    assert "421337" not in repr(packed) + str(packed) + repr(Part(packed, 421_337)) + repr(RowCount(421_337))
