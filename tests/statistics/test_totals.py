"""Sums of rows: the same however the rows are cut, whoever adds them up, and packed in few bytes without a loss."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from internals import Packed, _source, add_parts, open_source
from internals import dask_Part as Part
from joblib import parallel_config

from skdpsynth.domain import Ball, Box
from skdpsynth.frames import Rows
from skdpsynth.measures import BinaryPartition
from skdpsynth.statistics import CountLengths, EvenCells, Histogram, Magnitudes, Marginals, Moments, Occurrences, RowCount, Trees, total

BOX = Box(np.zeros(3), np.ones(3))
BALL = Ball.of(BOX, 12, True)
PARTITION = BinaryPartition(BOX, 9)
X = np.random.default_rng(0).uniform(-0.1, 1.1, (1000, 3))


def codes(chunk):
    return [(np.clip(column, 0, 0.99) * 4).astype(np.int32) for column in chunk.T]


# name: (map of rows, rule, the numbers of its statistic)
SUMS = {
    "rows": (None, RowCount.over(), lambda s: [s.n_samples]),
    "cells": (None, Histogram.over(PARTITION), lambda s: [s.counts]),
    "ancestors": (None, Histogram.over(PARTITION, 4), lambda s: [s.counts]),
    "cell numbers": (PARTITION.locate, Histogram.over_cells(1 << 6, 3), lambda s: [s.counts]),
    "refined cells": (PARTITION.locate, Histogram.over_refined(7, np.array([2, 0, 1, 3])), lambda s: [s.counts]),
    "moments": (None, Moments.over(BALL.within(10**6)), lambda s: [s.n_samples, s.total, s.second]),
    "lengths": (None, CountLengths(BALL, np.array([1e7, 1e6, 1e5])), lambda s: [s.counts]),
    "shrinkage": (None, Moments.moved_by_shrinking(BALL.within(10**6)), lambda s: [s.total, s.second]),
    "tables": (codes, Marginals.over([4, 4, 4], [(0,), (0, 2), (1, 2)]), lambda s: [s.counts]),
    "magnitudes": (None, Magnitudes.over([2, 0]), lambda s: [s.counts]),
    "even cells": (None, EvenCells.over([2, 0], [0.0, 0.2], [1.0, 0.9], 8), lambda s: [s.counts]),
    "trees": (codes, Trees.over([2, 2], [2, 0]), lambda s: [s.counts]),
}


def summed(name, rows):
    change, rule, numbers = SUMS[name]
    return [np.asarray(number).tolist() for number in numbers(total(rows if change is None else rows.map(change), rule))]


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("cuts", [[], [1], [0, 500, 500, 999]])
def test_a_sum_does_not_depend_on_how_rows_are_cut(name, cuts):
    assert summed(name, Rows(open_source(np.split(X, cuts)), 3)) == summed(name, Rows.of(X))


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("n_jobs", [2, 5])
def test_a_sum_does_not_depend_on_the_number_of_threads(name, n_jobs, monkeypatch):
    monkeypatch.setattr(_source, "_LEAST_ROWS", 64)
    one = summed(name, Rows.of(X))
    assert summed(name, Rows.of(X, n_jobs=n_jobs)) == one
    assert summed(name, Rows(open_source(np.split(X, 11 * np.arange(1, 90))), 3, n_jobs=n_jobs)) == one
    with parallel_config(backend="threading", n_jobs=n_jobs):
        assert summed(name, Rows.of(X)) == one


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_what_goes_wrong_in_a_chunk_comes_out(n_jobs):
    def fail(chunk):
        raise ValueError("this chunk cannot be read")

    with pytest.raises(ValueError, match="cannot be read"):
        total(Rows.of(X, n_jobs=n_jobs).map(fail), RowCount.over())


# As vectors: there and back, and added modulo 2**64
EACH = pytest.mark.parametrize("name", SUMS)


def halves(name):
    """The rule, and the statistics of two parts of the rows."""
    change, rule, _ = SUMS[name]
    return rule, *(rule.of(part if change is None else change(part)) for part in (X[:300], X[300:]))


@EACH
def test_a_vector_becomes_the_statistic_that_it_was(name):
    rule, one, _ = halves(name)
    again = rule.from_flat(one.flat)
    assert type(again) is type(one)
    assert (one.flat.dtype, len(one.flat)) == (np.int64, rule.n_values)
    assert np.array_equal(again.flat, one.flat)
    assert [np.asarray(n).tolist() for n in SUMS[name][2](again)] == [np.asarray(n).tolist() for n in SUMS[name][2](one)]
    for wrong in (one.flat[1:], one.flat.astype(float), one.flat.view(np.uint64), one.flat[None]):
        with pytest.raises(ValueError, match="values must be a vector of"):
            rule.from_flat(wrong)
    assert not any(shown in repr(one).partition(" at 0x")[0] for shown in ("array", "300"))


@EACH
def test_vectors_add_up_as_statistics_do_also_in_shares_modulo_two_to_the_64(name):
    rule, one, other = halves(name)
    change = SUMS[name][0]
    whole = pickle.loads(pickle.dumps(rule)).of(X if change is None else change(X))  # our own bytes: rules travel
    assert np.array_equal((one + other).flat, whole.flat)
    assert np.array_equal(one.flat + other.flat, whole.flat)
    mask = np.random.default_rng(0).integers(0, 2**64, rule.n_values, dtype=np.uint64)
    shares = one.flat.view(np.uint64) + mask, other.flat.view(np.uint64) - mask
    assert np.array_equal(rule.from_flat(sum(shares).view(np.int64)).flat, whole.flat)


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
        np.testing.assert_array_equal(whole.unpack(), vectors.sum(axis=0))
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
    assert add_parts(parts).unpack().tables == ({"a": 3, "b": 3}, {"b": 6, "c": 3})
    assert parts[0].unpack().tables == rule.of(columns).tables


def test_no_repr_shows_sums():
    packed = Packed.of(np.array([421_337]))
    assert "421337" not in repr(packed) + str(packed) + repr(Part(packed, 421_337)) + repr(RowCount(421_337))
