"""Sums of rows: the same however the rows are cut, and whoever adds them up."""

import pickle

import numpy as np
import pytest
from internals import _source, open_source
from joblib import parallel_config

from skdpsynth.domain import Ball, Box
from skdpsynth.frames import Rows
from skdpsynth.measures import BinaryPartition
from skdpsynth.statistics import CountLengths, Histogram, Marginals, Moments, RowCount, Trees, total

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
