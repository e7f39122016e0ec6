"""Plain partitions: lattices of a box, and the cells of the points nearest to given ones."""

from fractions import Fraction

import numpy as np
import pytest
from internals import _partition
from laws import ALARM, CERTAIN, kolmogorov
from scipy.spatial.distance import cdist

from skdpsynth.domain import Box
from skdpsynth.measures import Lattice, NearestCells

SHAPES = [(1,), (7,), (1000,), (1, 1), (3, 5), (16, 1), (4, 1, 6), (2, 3, 2, 3)]
each_shape = pytest.mark.parametrize("shape", SHAPES)
each_metric = pytest.mark.parametrize("metric", ["chebyshev", "cityblock", "euclidean"])


def lattice_of(shape, **kwargs):
    rng = np.random.default_rng(len(shape))
    low = rng.uniform(-2, 1, len(shape))
    return Lattice(Box(low, low + rng.uniform(0.5, 3, len(shape))), shape, **kwargs)


def rows_around(box, n_samples, seed=0):
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


def some_cells(lattice, n_samples, seed=0):
    return np.random.default_rng(seed).integers(0, lattice.n_cells, n_samples)


# Where a row is


@each_shape
def test_cell_is_found_as_by_exact_floor_arithmetic(shape):
    lattice = lattice_of(shape)
    X = rows_around(lattice.box, 300)
    assert lattice.locate(X).tolist() == located_by_fractions(lattice, X)


@each_shape
def test_row_is_located_alone_as_in_a_batch_of_any_layout(shape, monkeypatch):
    lattice = lattice_of(shape, keep=np.arange(np.prod(shape)) % 3 != 1)
    X = rows_around(lattice.box, 200)
    alone = np.concatenate([lattice.locate(row[None]) for row in X])
    monkeypatch.setattr(_partition, "_ROWS_OF_CELLS", 64)
    copy = X.copy()
    for layout in (X, np.asfortranarray(X), np.repeat(X, 2, axis=0)[::2], X[::-1][::-1], X.astype(np.longdouble)):
        np.testing.assert_array_equal(lattice.locate(layout), alone)
    np.testing.assert_array_equal(X, copy)


def test_face_between_two_cells_belongs_to_the_upper_one_and_the_top_face_to_the_last():
    lattice = Lattice(Box([-1.0, 0.0], [1.0, 1.0]), (8, 4))  # whose faces are exact floats
    for axis, parts in enumerate(lattice.shape):
        faces = lattice.box.low[axis] + lattice.sides[axis] * np.arange(parts + 1)
        X = np.tile(lattice.box.midpoint, (parts + 1, 1))
        X[:, axis] = faces
        assert lattice.coordinates[lattice.locate(X)][:, axis].tolist() == [*range(parts), parts - 1]


# Some of the cells


@pytest.mark.parametrize("seed", range(3))
@each_shape
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


# Points in cells


@pytest.mark.parametrize("kept", [False, True])
@each_shape
def test_points_of_a_cell_are_located_in_it(shape, kept):
    lattice = lattice_of(shape, keep=np.arange(np.prod(shape)) % 2 == 0 if kept else None)
    cells = some_cells(lattice, 2000)
    X = lattice.sample(cells, 0, np.random.default_rng(3))
    assert X.shape == (2000, len(shape))
    np.testing.assert_array_equal(lattice.locate(X), cells)
    np.testing.assert_array_equal(lattice.box.clip(X), X)


def test_points_of_one_cell_are_spread_evenly_wherever_they_stand_in_the_list():
    # 16 steps of the golden rotation leave no gap of a quarter; 16 independent points leave a quarter empty with probability 4%.
    lattice = Lattice(Box([0.0], [3.0]), (3,))
    for seed in range(20):
        cells = np.random.default_rng(seed).permutation(np.repeat([0, 1, 2], 16))
        X = lattice.sample(cells, 0, np.random.default_rng(seed))[:, 0]
        for cell in range(3):
            assert set(np.floor(4 * (X[cells == cell] - cell))) == {0, 1, 2, 3}


@pytest.mark.parametrize("n_points", [1, 3])
def test_each_of_several_points_is_uniform_in_its_cell(n_points):
    # 1000 last points, each under a shift of its own; middles of cells fail.
    lattice, rng = lattice_of((3, 5)), np.random.default_rng(4)
    X = np.concatenate([lattice.sample(np.full(n_points, 7), 0, rng)[-1:] for _ in range(1000)])
    inside = (X - lattice.box.low) / lattice.sides - lattice.coordinates[7]
    for axis in range(2):
        assert kolmogorov(inside[:, axis], "uniform") > ALARM
        assert kolmogorov(0.25 + inside[:, axis] / 2, "uniform") < CERTAIN


# Whole numbers

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


# Refusals


def test_shapes_and_cells_that_do_not_fit_the_box_are_refused():
    box, shape, keep = (
        Box([0, 0], [1, 1]),
        r"^shape must hold a positive integer for each of 2 features, got [^\n]*\.$",
        "^keep must hold 2 booleans",
    )
    for given in ((3,), (3, 5, 1), (3, 0), (3, -1), (3, 2.0), (3, True), (3, None), 3, "35", [[3, 5]]):
        with pytest.raises(ValueError, match=shape):
            Lattice(box, given)
    with pytest.raises(ValueError, match=r"^shape must make at most 2\*\*24 cells, got [^\n]*\.$"):  # before they are made
        Lattice(Box([0] * 9, [1] * 9), (2**24,) * 9)
    for given in ([True], [[True, False]], [False, False], []):
        with pytest.raises(ValueError, match=keep):
            Lattice(Box([0], [1]), (2,), keep=given)


# Nearest points


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
