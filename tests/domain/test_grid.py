"""The public cells of a continuous column."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from laws import ALARM, CERTAIN, chi_squared

from skdpsynth.domain import Continuous, Grid

MOST = 2**53
whole = st.tuples(st.integers(-MOST, MOST), st.integers(-MOST, MOST)).filter(lambda bounds: bounds[0] < bounds[1])
narrow = st.tuples(st.integers(-MOST, MOST - 20_000), st.integers(1, 20_000)).map(lambda told: (told[0], told[0] + told[1]))
real = st.tuples(st.floats(-1e6, 1e6), st.floats(1e-3, 1e9)).map(lambda told: (told[0], told[0] + told[1]))
slivers = st.tuples(st.floats(1, 1e6), st.integers(1, 5000)).map(lambda told: (told[0], told[0] + told[1] * math.ulp(told[0])))
any_bounds = st.one_of(whole, narrow, real, slivers)
TINY = [(0.0, 5e-324), (-5e-324, 5e-324), (0.0, 1e-320), (1.0, math.nextafter(1, 2)), (1e6, 1e6 + 1e-9), (-7.25, -7.0)]
HUGE = [(-8e307, 8e307), (0.0, 1.7e308), (-1.7e308, 0.0), (-1e-300, 1e300), (-MOST, MOST)]
EDGES = [*TINY, *HUGE, (0, 1), (0, 2**17), (-(2**17), 2**17), (MOST - 1, MOST), (-MOST, 1 - MOST)]


def grid_of(bounds):
    return Grid.of(Continuous(*bounds))


class Ends:
    """A generator of the smallest and largest uniform numbers."""

    def __init__(self, u):
        self.u = u

    def random(self, size):
        return np.full(size, self.u)


def check_cells(bounds):
    grid = grid_of(bounds)
    assert (np.diff(grid.edges) > 0).all()
    assert grid.edges[0] == bounds[0]
    assert grid.edges[-1] >= bounds[1]
    assert grid.edges[-2] <= bounds[1]
    assert grid.locate(np.array(bounds, dtype=float)).tolist() == [0, grid.n_cells - 1]
    assert 2 ** (grid.depth - 1) < grid.n_cells <= 2**grid.depth
    assert grid.depth <= (18 if grid.kind.integer else 12)


@given(any_bounds)
@settings(max_examples=30, deadline=None)
def test_cells_cover_the_bounds_and_none_is_empty(bounds):
    check_cells(bounds)


@pytest.mark.parametrize("bounds", EDGES, ids=str)
def test_cells_of_tiny_and_huge_ranges_cover_the_bounds_and_numbers_are_placed_in_them_without_a_warning(bounds):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_cells(bounds)
        for u in (0.0, 0.7, 1 - 2**-53):
            check_places(bounds, Ends(u))


@given(real)
@settings(max_examples=30, deadline=None)
def test_cells_of_real_numbers_are_of_about_equal_width(bounds):
    widths = np.diff(grid_of(bounds).edges)
    assert widths.max() <= 1.01 * (bounds[1] - bounds[0]) / 1000


@given(st.integers(-MOST, MOST - 2**17 - 1), st.integers(1, 2**17 - 1))
@settings(max_examples=20, deadline=None)
def test_few_whole_numbers_have_a_cell_each(low, more):
    numbers = np.arange(low, low + more + 1).astype(float)
    np.testing.assert_array_equal(grid_of((low, low + more)).locate(numbers), np.arange(more + 1))


@pytest.mark.parametrize(
    "bounds", [(0, 10), (0.0, 1.0), (-3.5, 1e6), (-(10**6), 10**6), (-1e-3, 1e-9), (5, 10**9), (-8e307, 8e307)], ids=str
)
def test_bounds_and_zero_have_cells_of_their_own(bounds):
    grid = grid_of(bounds)
    for atom in {*bounds, *([0] if bounds[0] < 0 < bounds[1] else [])}:
        if grid.kind.integer:
            near = np.array([atom - 1, atom, atom + 1], dtype=float)
        else:
            near = np.array([np.nextafter(atom, -np.inf), atom, np.nextafter(atom, np.inf)])
        cells = grid.locate(near[(near >= bounds[0]) & (near <= bounds[1])])
        assert len(set(cells.tolist())) == len(cells)
        own = grid.locate(np.array([atom], dtype=float))
        assert grid.place(np.repeat(own, 100), np.random.default_rng(0)).tolist() == [atom] * 100


@given(any_bounds)
@settings(max_examples=30, deadline=None)
@example((0, MOST))
@example((-MOST, MOST))
@example((1, MOST))
def test_first_and_last_number_of_each_cell_are_located_there(bounds):
    grid = grid_of(bounds)
    last = grid.edges[1:] - 1 if grid.kind.integer else np.nextafter(grid.edges[1:], -np.inf)
    for numbers in (grid.edges[:-1], last.clip(grid.kind.low, grid.kind.high)):
        np.testing.assert_array_equal(grid.locate(numbers), np.arange(grid.n_cells))


def check_places(bounds, rng):
    grid = grid_of(bounds)
    cells = np.arange(grid.n_cells)
    x = grid.place(cells, rng)
    np.testing.assert_array_equal(grid.locate(x), cells)
    assert bounds[0] <= x.min() <= x.max() <= bounds[1]
    assert not grid.kind.integer or (x == np.rint(x)).all()


@given(any_bounds, st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
@example((-MOST, MOST), 0)
@example((0, MOST), 0)
def test_numbers_are_placed_in_their_cells(bounds, seed):
    for rng in (np.random.default_rng(seed), Ends(0.0), Ends(0.5), Ends(1 - 2**-53)):
        check_places(bounds, rng)


@pytest.mark.parametrize("n_columns", [1, 32, 33, 1000, 10**6])
def test_grids_of_many_columns_share_the_memory(n_columns):
    grid = Grid.of(Continuous(0, 2**30), n_columns)
    assert grid.n_cells <= max(2**12, min(2**17, 2**22 // n_columns)) + 3
    assert grid.n_cells >= 2**10 / 2
    np.testing.assert_array_equal(grid.locate(np.array([0, 1, 2**30 - 1, 2**30])), [0, 1, grid.n_cells - 2, grid.n_cells - 1])


def test_places_are_uniform_in_a_cell_of_whole_numbers():
    """16 numbers, 80,000 draws; a cell one number wider or narrower fails."""
    grid = grid_of((0, 2**21 - 1))
    cell = grid.locate(np.array([1000.0]))[0]
    left, right = grid.edges[cell], grid.edges[cell + 1]
    x = grid.place(np.full(80_000, cell), np.random.default_rng(0)) - left
    assert right - left == 16
    observed = np.bincount(x.astype(int), minlength=17)
    assert chi_squared(observed[:16], np.ones(16)) > ALARM
    assert max(chi_squared(observed, np.ones(17)), chi_squared(observed[:16], np.arange(16) < 15)) < CERTAIN


@given(any_bounds)
@settings(max_examples=30, deadline=None)
@example((-MOST, MOST))
@example((-MOST, 1 - MOST))
def test_as_many_cuts_as_the_number_of_its_cell_are_at_most_as_large_as_a_raw_number(bounds):
    grid = grid_of(bounds)
    x = np.concatenate([grid.cuts, np.nextafter(grid.cuts, -np.inf), np.nextafter(grid.cuts, np.inf), grid.edges, [-np.inf, np.inf]])
    read = np.rint(x) if grid.kind.integer else x
    cells = grid.locate(read.clip(grid.kind.low, grid.kind.high))
    assert np.array_equal(cells, np.searchsorted(grid.cuts, x, side="right"))
