"""Binary partitions: numbers whose leading bits name the ancestors, and points inside cells."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from internals import _box
from laws import ALARM, kolmogorov
from scipy.stats import qmc

from skdpsynth.domain import Box
from skdpsynth.measures import MAX_DEPTH, BinaryPartition

# (n_features, depth, bits)
SHAPES = [
    (1, 0, 16),
    (1, 17, 30),
    (1, 30, 30),
    (2, 9, 16),
    (2, 32, 16),
    (2, 60, 30),
    (3, 14, 16),
    (3, 47, 16),
    (4, 62, 16),
    (5, 62, 16),
    (9, 20, 16),
    (62, 62, 1),
    (70, 62, 16),
]
each_shape = pytest.mark.parametrize(("d", "depth", "bits"), SHAPES)


def partition_of(d, depth, bits=16, **kwargs):
    rng = np.random.default_rng(d)
    low = rng.uniform(-2, 1, d)
    return BinaryPartition(Box(low, low + rng.uniform(0.5, 3, d), bits=bits), depth, **kwargs)


def rows_around(box, n_samples, seed=0):
    rng = np.random.default_rng(seed)
    X = box.low + box.width * rng.uniform(-0.1, 1.1, (n_samples, box.n_features))
    X[: n_samples // 4] = box.restore(box.quantize(X[: n_samples // 4]))
    X[::7], X[1::11], X[2::13], X[3::17, 0] = box.low, box.high, box.midpoint, np.nan
    return X


def located_bit_by_bit(partition, X):
    """Halve the axes in turn, in Python integers."""
    box = partition.box
    cells = []
    for q in box.quantize(X).tolist():
        cell = 0
        for level in range(partition.depth):
            cut, axis = divmod(level, box.n_features)
            cell = 2 * cell + (q[axis] >> (box.bits - 1 - cut) & 1)
        cells.append(cell)
    return cells


def boxes_of(partition, cells, level):
    """Lower and upper faces of cells, each (n_cells, n_features)."""
    sides = partition.box.width / 2.0 ** partition.cuts(level)
    low = partition.box.low + np.stack(partition.corners(cells, level), axis=1) * sides
    return low, low + sides


def some_cells(level, n=200, seed=0):
    return np.random.default_rng(seed).integers(0, 1 << level, n, dtype=np.int64)


# Where a row is


@each_shape
def test_cell_is_found_as_by_halving_bit_by_bit(d, depth, bits):
    partition = partition_of(d, depth, bits)
    X = rows_around(partition.box, 150)
    assert partition.locate(X).tolist() == located_bit_by_bit(partition, X)
    for level in {0, depth // 2, depth}:  # corners are the grid coordinates of located rows
        corners = np.stack(partition.corners(partition.locate(X) >> (depth - level), level), axis=1)
        np.testing.assert_array_equal(corners, partition.box.quantize(X) >> (bits - partition.cuts(level)))


@each_shape
def test_row_is_located_alone_as_in_a_batch(d, depth, bits, monkeypatch):
    partition = partition_of(d, depth, bits)
    X = rows_around(partition.box, 200)
    alone = np.concatenate([partition.locate(X[i : i + 1]) for i in range(len(X))])
    monkeypatch.setattr(_box, "_VALUES", 64 * d)  # chunks of 64 rows
    for layout in (X, np.asfortranarray(X), np.repeat(X, 2, axis=0)[::2]):
        np.testing.assert_array_equal(partition.locate(layout), alone)


@given(d=st.integers(1, 12), depth=st.integers(0, 62), bits=st.integers(1, 30), level=st.integers(0, 62), seed=st.integers(0, 2**32))
@settings(max_examples=100, deadline=None)
def test_leading_bits_name_the_ancestors(d, depth, bits, level, seed):
    depth = min(depth, d * bits)
    level = min(level, depth)
    partition = partition_of(d, depth, bits)
    X = rows_around(partition.box, 40, seed)
    np.testing.assert_array_equal(partition.locate(X) >> (depth - level), partition_of(d, level, bits).locate(X))


# What a cell is


# Points in cells


@pytest.mark.parametrize("spread", [True, False])
@each_shape
def test_points_lie_in_their_cells_and_in_the_box(d, depth, bits, spread):
    partition = partition_of(d, depth, bits, spread=spread)
    for level in sorted({0, depth // 2, depth}):
        cells = some_cells(level, 100)
        X = partition.sample(cells, level, np.random.default_rng(1))
        low, high = boxes_of(partition, cells, level)
        rounding = 4 * np.spacing(np.maximum(np.abs(low), np.abs(high)))
        assert X.shape == (100, d)
        assert np.all(np.abs(X - (low + high) / 2) <= (high - low) / 2 + rounding)
        np.testing.assert_array_equal(X, partition.box.clip(X))
        np.testing.assert_allclose(np.max(high - low, axis=1), partition.diameters(level), rtol=1e-12, atol=1e-14)
    if bits == 16 and depth <= 20:
        np.testing.assert_array_equal(partition.locate(X), cells)


@pytest.mark.parametrize(("spread", "n_points"), [(False, 1), (True, 2), (True, 5)])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_each_of_several_points_is_uniform_in_its_cell(d, spread, n_points):
    # 1000 last points, each under a shift of its own.
    partition, rng = partition_of(d, 0, spread=spread), np.random.default_rng(3)
    X = np.concatenate([partition.sample(np.zeros(n_points, dtype=np.int64), 0, rng)[-1:] for _ in range(1000)])
    for axis in range(d):
        assert kolmogorov((X[:, axis] - partition.box.low[axis]) / partition.box.width[axis], "uniform") > ALARM


@pytest.mark.parametrize(("d", "most"), [(1, 0.3), (2, 0.35), (3, 0.45), (5, 0.52)])
def test_spread_points_are_more_even_than_independent_ones(d, most):
    # Mean centered L2 discrepancy of 20 samples of 256 points. Over 30 seeds of this test the ratios are .12, .19, .30 and .38,
    # with standard deviations below .02: seven of them.
    box, rng = Box(np.zeros(d), np.ones(d)), np.random.default_rng(4)
    cells = np.zeros(256, dtype=np.int64)
    even, independent = (
        np.mean([qmc.discrepancy(BinaryPartition(box, 0, spread=spread).sample(cells, 0, rng), method="CD") ** 0.5 for _ in range(20)])
        for spread in (True, False)
    )
    assert even < most * independent


def test_depths_levels_and_cells_that_there_are_not_are_refused_in_one_sentence():
    for d, bits, depth in ((1, 16, 17), (2, 3, 7), (9, 30, MAX_DEPTH + 1), (2, 16, -1), (2, 16, 3.0), (2, 16, None)):
        with pytest.raises(ValueError, match=r"^depth must be an integer from 0 to \d+, got .*\.$"):
            partition_of(d, depth, bits)
    for level, cell, words in (
        *((level, 0, r"level must be an integer from 0 to 6, ") for level in (10**7, -1, 7, 1.0, None, True)),
        *((4, cell, "cells must be cell numbers of level 4, integers from 0 to 15, ") for cell in (-1, 16)),
    ):
        with pytest.raises(ValueError, match=rf"^{words}[^\n]*\.$"):
            partition_of(2, 6).sample(np.array([3, cell]), level, np.random.default_rng(0))
