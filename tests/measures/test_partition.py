"""Partitions: where a row is, points in cells, lattices, and the cells of the points nearest to given ones."""

from fractions import Fraction

import numpy as np
import pytest
from internals import _box, _partition
from laws import ALARM, CERTAIN, kolmogorov, refuses
from scipy.spatial.distance import cdist
from scipy.stats import qmc

from skdpsynth.domain import Box
from skdpsynth.measures import MAX_DEPTH, BinaryPartition, Lattice, NearestCells

# (n_features, depth, bits)
SHAPES = [(1, 0, 16), (1, 30, 30), (2, 9, 16), (3, 47, 16), (5, 62, 16), (62, 62, 1), (70, 62, 16)]
each_shape = pytest.mark.parametrize(("d", "depth", "bits"), SHAPES)


def partition_of(d, depth, bits=16, **kwargs):
    rng = np.random.default_rng(d)
    low = rng.uniform(-2, 1, d)
    return BinaryPartition(Box(low, low + rng.uniform(0.5, 3, d), bits=bits), depth, **kwargs)


def lattice_of(shape, **kwargs):
    rng = np.random.default_rng(len(shape))
    low = rng.uniform(-2, 1, len(shape))
    return Lattice(Box(low, low + rng.uniform(0.5, 3, len(shape))), shape, **kwargs)


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


@pytest.mark.parametrize("spread", [True, False])
@each_shape
def test_points_lie_in_their_cells_and_in_the_box(d, depth, bits, spread):
    partition = partition_of(d, depth, bits, spread=spread)
    for level in sorted({0, depth // 2, depth}):
        cells = np.random.default_rng(0).integers(0, 1 << level, 100, dtype=np.int64)
        X = partition.sample(cells, level, np.random.default_rng(1))
        sides = partition.box.width / 2.0 ** partition.cuts(level)
        low = partition.box.low + np.stack(partition.corners(cells, level), axis=1) * sides
        high = low + sides
        rounding = 4 * np.spacing(np.maximum(np.abs(low), np.abs(high)))
        assert X.shape == (100, d)
        assert np.all(np.abs(X - (low + high) / 2) <= (high - low) / 2 + rounding)
        np.testing.assert_array_equal(X, partition.box.clip(X))
        np.testing.assert_allclose(np.max(high - low, axis=1), partition.diameters(level), rtol=1e-12, atol=1e-14)
    if bits == 16 and depth <= 20:
        np.testing.assert_array_equal(partition.locate(X), cells)


LINES = [(partition_of(d, 0, spread=spread), 0, n) for d in (1, 2, 3) for spread, n in ((False, 1), (True, 2), (True, 5))]


@pytest.mark.parametrize(("partition", "cell", "n_points"), [*LINES, *((lattice_of((3, 5)), 7, n) for n in (1, 3))])
def test_each_of_several_points_is_uniform_in_its_cell(partition, cell, n_points):
    # 1000 last points, each under a shift of its own; middles of cells fail.
    rng, is_lattice = np.random.default_rng(3), isinstance(partition, Lattice)
    X = np.concatenate([partition.sample(np.full(n_points, cell), 0, rng)[-1:] for _ in range(1000)])
    sides, corner = (partition.sides, partition.coordinates[cell]) if is_lattice else (partition.box.width, 0)
    for inside in ((X - partition.box.low) / sides - corner).T:
        assert kolmogorov(inside, "uniform") > ALARM
        assert kolmogorov(0.25 + inside / 2, "uniform") < CERTAIN


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
        refuses(ValueError, r"^depth must be an integer from 0 to \d+, got .*\.$", partition_of, d, depth, bits)
    for level, cell, words in (
        *((level, 0, r"level must be an integer from 0 to 6, ") for level in (10**7, -1, 7, 1.0, None, True)),
        *((4, cell, "cells must be cell numbers of level 4, integers from 0 to 15, ") for cell in (-1, 16)),
    ):
        refuses(ValueError, rf"^{words}[^\n]*\.$", partition_of(2, 6).sample, np.array([3, cell]), level, np.random.default_rng(0))


LATTICES = [(1,), (7,), (1000,), (1, 1), (3, 5), (16, 1), (4, 1, 6), (2, 3, 2, 3)]
each_lattice = pytest.mark.parametrize("shape", LATTICES)
each_metric = pytest.mark.parametrize("metric", ["chebyshev", "cityblock", "euclidean"])


def rows_beyond(box, n_samples, seed=0):
    X = box.low + box.width * np.random.default_rng(seed).uniform(-0.1, 1.1, (n_samples, box.n_features))
    X[::7], X[1::11], X[3::17, 0] = box.low, box.high, np.nan
    X[2::19, -1], X[5::23, 0] = np.inf, -np.inf
    return X


def located_by_fractions(lattice, X):
    """Floor arithmetic in exact numbers, a value at a time."""
    box, cells = lattice.box, []
    for row in X.tolist():
        cell = 0
        for value, low, high, parts in zip(row, box.low.tolist(), box.high.tolist(), lattice.shape, strict=True):
            if np.isnan(value):
                step = parts // 2
            else:
                value, low, high = Fraction(min(max(value, low), high)), Fraction(low), Fraction(high)
                step = min(int((value - low) * parts / (high - low)), parts - 1)
            cell = cell * parts + step
        cells.append(cell)
    return cells


@each_lattice
def test_cell_is_found_as_by_exact_floor_arithmetic(shape):
    lattice = lattice_of(shape)
    X = rows_beyond(lattice.box, 300)
    assert lattice.locate(X).tolist() == located_by_fractions(lattice, X)


@each_lattice
def test_row_is_located_alone_as_in_a_batch_of_any_layout(shape, monkeypatch):
    lattice = lattice_of(shape, keep=np.arange(np.prod(shape)) % 3 != 1)
    X = rows_beyond(lattice.box, 200)
    alone = np.concatenate([lattice.locate(row[None]) for row in X])
    monkeypatch.setattr(_partition, "_ROWS_OF_CELLS", 64)
    copy = X.copy()
    for layout in (X, np.asfortranarray(X), np.repeat(X, 2, axis=0)[::2], X[::-1][::-1], X.astype(np.longdouble)):
        np.testing.assert_array_equal(lattice.locate(layout), alone)
    np.testing.assert_array_equal(X, copy)


@pytest.mark.parametrize("seed", range(3))
@each_lattice
def test_rows_of_dropped_cells_go_to_the_nearest_kept_one_and_those_of_kept_cells_stay(shape, seed):
    everything = lattice_of(shape)
    keep = np.random.default_rng(seed).random(everything.n_cells) < 0.3
    keep[seed % len(keep)] = True
    some = lattice_of(shape, keep=keep)
    assert some.n_cells == keep.sum()
    np.testing.assert_array_equal(some.positions, everything.positions[keep])
    np.testing.assert_array_equal(some.locate(everything.positions[keep]), np.arange(some.n_cells))
    distances = cdist(everything.positions, some.positions)
    got = distances[np.arange(everything.n_cells), some.locate(everything.positions)]
    np.testing.assert_allclose(got, distances.min(axis=1), rtol=1e-9)


def test_points_of_one_cell_are_spread_evenly_wherever_they_stand_in_the_list():
    # 16 steps of the golden rotation leave no gap of a quarter; 16 independent points leave a quarter empty with probability 4%.
    lattice = Lattice(Box([0.0], [3.0]), (3,))
    for seed in range(20):
        cells = np.random.default_rng(seed).permutation(np.repeat([0, 1, 2], 16))
        X = lattice.sample(cells, 0, np.random.default_rng(seed))[:, 0]
        for cell in range(3):
            assert set(np.floor(4 * (X[cells == cell] - cell))) == {0, 1, 2, 3}


WHOLE = [
    (0, 1, 1),
    (0, 1, 2),
    (0, 9, 3),
    (-4.5, 7.2, 5),
    (0.1, 20, 19),
    (-3, 4, 40),  # more cells than numbers
    (0, 15, 11),
    (1, 101, 25),
    (0, 36, 28),
]


@pytest.mark.parametrize(("low", "high", "parts"), WHOLE)
def test_every_whole_number_within_the_bounds_is_reached_and_nothing_else(low, high, parts):
    lattice = Lattice(Box([low, 0.0], [high, 1.0], whole=[True, False]), (parts, 2))  # beside a feature of any numbers
    X = lattice.sample(np.repeat(np.arange(lattice.n_cells), 100), 0, np.random.default_rng(5))
    assert set(X[:, 0].tolist()) == set(range(int(np.ceil(low)), int(np.floor(high)) + 1))
    assert not np.array_equal(X[:, 1], np.rint(X[:, 1]))
    if parts <= (high - low) / 1.2:  # each part holds a whole number, which is located in it
        np.testing.assert_array_equal(lattice.locate(X), np.repeat(np.arange(lattice.n_cells), 100))
    quarters = Lattice(Box([0], [3], whole=[True]), (12,))  # 0, 1 and 2 start one, 3 ends the last; others give the nearest to their middle
    assert quarters.sample(np.arange(12), 0, np.random.default_rng(7))[:, 0].tolist() == [0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3]


def test_shapes_and_cells_that_do_not_fit_the_box_are_refused():
    box, shape, keep = (
        Box([0, 0], [1, 1]),
        r"^shape must hold a positive integer for each of 2 features, got [^\n]*\.$",
        "^keep must hold 2 booleans",
    )
    for wrong in ((3,), (3, 5, 1), (3, 0), (3, -1), (3, 2.0), (3, True), (3, None), 3, "35", [[3, 5]]):
        refuses(ValueError, shape, Lattice, box, wrong)
    with pytest.raises(ValueError, match=r"^shape must make at most 2\*\*24 cells, got [^\n]*\.$"):  # before they are made
        Lattice(Box([0] * 9, [1] * 9), (2**24,) * 9)
    for wrong in ([True], [[True, False]], [False, False], []):
        refuses(ValueError, keep, Lattice, Box([0], [1]), (2,), keep=wrong)


def first_nearest(cells, X):
    """The first of the nearest, by all distances; those that differ by rounding are equal."""
    distances = cdist(np.clip(X, cells.box.low, cells.box.high), cells.positions, cells.metric)
    return np.argmax(distances <= distances.min(axis=1, keepdims=True) * (1 + 1e-12), axis=1)


def nearest_of(metric, seed, d=2, on_lattice=True):
    """Cells round the centers of a lattice, or round any points, in random order and some of them twice."""
    rng = np.random.default_rng(seed)
    box = Box(np.full(d, -1.0), np.full(d, 1.0))
    positions = Lattice(box, (8,) * d).positions if on_lattice else rng.uniform(-1, 1, (60, d))
    return NearestCells(box, positions[rng.integers(0, len(positions), 40)], metric)


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("on_lattice", [True, False])
@each_metric
def test_nearest_point_is_that_of_all_distances_and_the_first_of_equals_alone_as_in_a_batch(metric, on_lattice, d, monkeypatch):
    monkeypatch.setattr(_partition, "_ROWS_OF_CELLS", 64)
    for seed in range(3):
        cells, rng = nearest_of(metric, seed, d, on_lattice), np.random.default_rng(seed)
        pairs = cells.positions[rng.integers(0, 40, (200, 2))]
        X = np.vstack([rng.uniform(-1.2, 1.2, (200, d)), pairs.mean(axis=1), cells.positions, rng.integers(-8, 9, (200, d)) / 8])
        distances = np.sort(cdist(X, cells.positions, metric), axis=1)
        assert np.any(distances[:, 0] == distances[:, 1])  # there are ties
        np.testing.assert_array_equal(cells.locate(X), first_nearest(cells, X))
        np.testing.assert_array_equal(cells.locate(X), np.concatenate([cells.locate(row[None]) for row in X]))
