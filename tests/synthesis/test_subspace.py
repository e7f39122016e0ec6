"""Rows in a released subspace, and back: a fixed map of each row, its reach, its cells."""

import numpy as np
import pytest
from internals import Subspace, n_directions, needs_distance

from skdpsynth import PrivatePCA
from skdpsynth.domain import Box

pytestmark = [
    pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.SmallSampleWarning"),
    pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.BudgetWarning"),  # epsilon is large where noise is no matter
]


def unit_box(d):
    return Box(np.zeros(d), np.ones(d))


def subspace_of(X, k, has_distance=False, **parameters):
    return Subspace(PrivatePCA(k, **{"epsilon": 100, **parameters}).fit(X), unit_box(X.shape[1]), has_distance)


@pytest.mark.parametrize("has_distance", [False, True])
def test_projection_is_the_same_row_by_row_and_in_any_batch(has_distance):
    """A fixed map of one row: whole numbers leave BLAS no room to round."""
    X = np.random.default_rng(0).random((700, 37))
    subspace = subspace_of(X, 3, has_distance)
    whole = subspace.project(X)
    rows = np.vstack([subspace.project(X[i : i + 1]) for i in range(len(X))])
    backwards = subspace.project(X[::-1])[::-1]
    assert np.array_equal(whole, rows)
    assert np.array_equal(whole, backwards)


def test_coordinates_are_those_of_transform_and_the_distance_of_what_it_leaves():
    X = np.random.default_rng(0).random((300, 6))
    subspace = subspace_of(X, 2, has_distance=True)
    T = subspace.project(X)
    expected = subspace.reducer.transform(X)
    assert np.allclose(T[:, :2], expected, atol=1e-4)
    assert np.allclose(T[:, 2], np.linalg.norm(X - subspace.reducer.inverse_transform(expected), axis=1), atol=1e-4)


def test_corners_of_the_box_attain_the_reach_of_each_direction():
    subspace = subspace_of(np.random.default_rng(0).random((50, 5)), 2, has_distance=True, epsilon=1)
    corners = np.array(np.meshgrid(*[[0, 1]] * 5)).reshape(5, -1).T.astype(float)
    low, high = subspace.reach
    T = subspace.project(corners)
    assert np.allclose(T[:, :2].min(axis=0), low[:2], atol=1e-3)
    assert np.allclose(T[:, :2].max(axis=0), high[:2], atol=1e-3)
    assert T[:, 2].max() <= high[2] <= 1.5 * T[:, 2].max()


@pytest.mark.parametrize("has_distance", [False, True])
def test_what_is_lifted_has_its_coordinates(has_distance):
    rng = np.random.default_rng(0)
    subspace = subspace_of(0.5 + 0.1 * (rng.random((300, 6)) - 0.5), 2, has_distance)
    T = np.column_stack([rng.uniform(-0.1, 0.1, (400, 2)), *([rng.uniform(0, 0.2, 400)] if has_distance else [])])
    X = subspace.lift(T, rng)
    assert np.allclose(subspace.project(X), T, atol=1e-4)


def test_distances_are_lifted_along_directions_of_the_released_covariance():
    """Beside one line, one of four directions has 25 times the variance of the others: a normal vector of that law, at unit length."""
    rng = np.random.default_rng(0)
    deviations = np.array([0.15, 0.05, 0.01, 0.01, 0.01])
    subspace = subspace_of(np.clip(0.5 + rng.normal(size=(20_000, 5)) * deviations, 0, 1), 1, has_distance=True, epsilon=float("inf"))
    X = subspace.lift(np.column_stack([np.zeros(5000), np.full(5000, 0.1)]), rng)
    drawn = rng.normal(size=(50_000, 4)) * deviations[1:]
    expected = ((drawn / np.linalg.norm(drawn, axis=1, keepdims=True)) ** 2).mean(axis=0)
    assert ((X - subspace.mean) ** 2).mean(axis=0) / 0.01 == pytest.approx(np.append(0, expected), abs=0.02)


def test_eigenvalues_that_noise_could_show_are_levelled():
    """Pure noise beside the subspace gives no direction more than another."""
    rng = np.random.default_rng(0)
    subspace = subspace_of(np.clip(0.5 + 0.2 * rng.normal(size=(100, 5)), 0, 1), 1, has_distance=True, epsilon=0.01)
    subspace.reducer.noise_edge_ = float("inf")
    deviations, others = subspace._beside
    assert np.ptp(deviations) == 0
    assert np.allclose(others @ subspace.axes.T, 0)


@pytest.mark.parametrize("width", [1e-40, 1.0, 1e40])
def test_any_width_of_bounds_serves(width):
    X = np.random.default_rng(0).random((200, 4)) * width
    reducer = PrivatePCA(2, epsilon=100, bounds=(0, width)).fit(X)
    subspace = Subspace(reducer, Box(np.zeros(4), np.full(4, width)), has_distance=True)
    T = subspace.project(X)
    assert np.isfinite(T).all()
    assert np.allclose(T[:, :2] / width, reducer.transform(X) / width, atol=1e-4)


def test_constant_rows_have_a_subspace_like_others():
    X = np.full((100, 4), 0.5)
    subspace = subspace_of(X, 2, has_distance=True, epsilon=float("inf"), center="public")
    assert np.isfinite(subspace.lift(subspace.project(X), np.random.default_rng(0))).all()


@pytest.mark.parametrize(("d", "k"), [(3, 1), (4, 2), (6, 3), (30, 3), (12, 5)])
def test_cells_that_meet_the_image_of_the_box_are_all_kept(d, k):
    """Images of corners and of random rows lie in kept cells; of the others, some are dropped when the image leaves room."""
    rng = np.random.default_rng(0)
    subspace = subspace_of(rng.random((50, d)), k, epsilon=1)
    bounds = subspace.reach
    lattice = subspace.lattice(bounds, 500)
    assert 200 <= lattice.n_cells <= 500 or k == 5
    X = np.vstack([rng.random((2000, d)), rng.integers(0, 2, (2000, d))])
    T = np.clip(subspace.reducer.transform(X), *bounds)
    # A row in a kept cell is within half a side of its centre; in another it is not.
    apart = np.abs(T - lattice.positions[lattice.locate(T)]) / lattice.sides
    assert apart.max() <= 0.5 + 1e-6
    assert np.ptp(lattice.sides) < 0.5 * lattice.sides.max()  # nearly cubes


def test_cells_outside_the_image_of_the_box_are_dropped():
    """The image of the unit square under a turn by 45 degrees fills half of its bounding box."""
    turn = np.array([[1, 1], [1, -1]]) / np.sqrt(2)
    subspace = subspace_of(np.random.default_rng(0).random((50, 2)), 2, center="public")
    subspace.reducer.components_ = turn
    lattice = subspace.lattice(subspace.reach, 1000)
    assert 0.5 < lattice.n_cells / np.prod(lattice.shape) < 0.57


def test_distances_are_cut_into_cells_whatever_the_image():
    subspace = subspace_of(np.random.default_rng(0).random((50, 2)), 1, has_distance=True, center="public")
    lattice = subspace.lattice((np.array([-0.5, 0.0]), np.array([0.5, 0.5])), 200)
    assert lattice.n_cells == np.prod(lattice.shape)


# How many axes

SPECTRUM = np.array([0.2, 0.15, 0.1, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01])  # deviations


def of_spectrum(k, noise_edge=0.0):
    rng = np.random.default_rng(0)
    subspace = subspace_of(np.clip(0.5 + rng.normal(size=(2000, 10)) * SPECTRUM, 0, 1), k, epsilon=float("inf"))
    subspace.reducer.noise_edge_ = noise_edge
    return subspace


def test_directions_are_worth_their_cost_once_there_are_rows():
    subspace = of_spectrum(6)
    assert [n_directions(subspace, size) for size in (10, 1000, 1e6)] == [1, 3, 3]


def test_distances_are_worth_an_axis_where_they_are_wide_against_the_cells():
    assert needs_distance(of_spectrum(1), 1e4)
    assert not needs_distance(of_spectrum(1), 10)
    assert not needs_distance(of_spectrum(3), 1e4)


def test_distances_that_may_be_noise_get_no_axis():
    assert not needs_distance(of_spectrum(1, noise_edge=1.0), 1e4)


def test_all_directions_leave_no_distance():
    assert not needs_distance(of_spectrum(10), 1e6)
