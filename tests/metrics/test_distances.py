"""Wasserstein-1 distances against closed forms and each other, and captured variance against principal components."""

import sys
import types
import warnings
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist
from sklearn.decomposition import PCA
from sources import cut

from skdpsynth.metrics import captured_variance_ratio, sliced_wasserstein_distance, wasserstein_distance

METRICS = ("chebyshev", "cityblock", "euclidean")
each_metric = pytest.mark.parametrize("metric", METRICS)


@pytest.fixture(params=["POT", "scipy"])
def solver(request, monkeypatch):
    """Both ways to solve the program; None in sys.modules makes the import of POT fail."""
    if request.param == "scipy":
        monkeypatch.setitem(sys.modules, "ot", None)
    else:
        pytest.importorskip("ot")
    return request.param


def norm_of(vector, metric):
    return cdist(np.zeros((1, len(vector))), np.atleast_2d(vector), metric)[0, 0]


@each_metric
def test_distance_of_a_translated_sample_is_the_length_of_the_translation(metric, solver):
    X, shift = np.random.default_rng(0).normal(size=(40, 3)), np.array([0.5, -2.0, 1.0])
    assert wasserstein_distance(X, (X + shift)[::-1], metric) == pytest.approx(norm_of(shift, metric))


@each_metric
def test_distance_of_small_samples_is_the_best_of_all_matchings(metric, solver):
    rng = np.random.default_rng(1)
    X, Y = rng.random((6, 2)), rng.random((6, 2))
    cost = cdist(X, Y, metric)
    best = min(cost[np.arange(6), list(order)].mean() for order in permutations(range(6)))
    assert wasserstein_distance(X, Y, metric) == pytest.approx(best, rel=1e-12)


def haversine(x, y):
    """The formula, in kilometers between two points in degrees."""
    (lat, long), (other_lat, other_long) = np.radians(x), np.radians(y)
    squares = np.sin((lat - other_lat) / 2) ** 2 + np.cos(lat) * np.cos(other_lat) * np.sin((long - other_long) / 2) ** 2
    return 2 * 6371.0088 * np.arcsin(np.sqrt(min(squares, 1)))


def test_haversine_distance_of_points_on_the_earth_is_the_best_of_all_matchings(solver):
    rng = np.random.default_rng(2)
    X, Y = (np.column_stack([rng.uniform(-90, 90, 6), rng.uniform(-180, 180, 6)]) for _ in range(2))
    cost = np.array([[haversine(x, y) for y in Y] for x in X])
    best = min(cost[np.arange(6), list(order)].mean() for order in permutations(range(6)))
    assert wasserstein_distance(X, Y, "haversine") == pytest.approx(best, rel=1e-9)


def test_haversine_distance_of_two_points_is_that_along_the_surface(solver):
    degree = 6371.0088 * np.pi / 180
    for x, y, degrees in [
        ((0, 0), (0, 1), 1),
        ((0, 0), (1, 0), 1),
        ((0, 179.5), (0, -179.5), 1),
        ((0, -180), (0, 180), 0),
        ((90, 0), (90, 123), 0),
        ((90, 0), (0, 77), 90),
        ((60, 10), (60, 190), 60),  # over the pole
        ((0, 0), (1e-7, 0), 1e-7),
    ]:
        assert wasserstein_distance([x], [y], "haversine") == pytest.approx(degree * degrees, rel=1e-7, abs=1e-8)
    # Antipodes: rounding makes the chords of some of them longer than a diameter.
    for lat, long in [(0, 0), (-19.994143683761322, -107.70737228921183), (32.50126975852767, -39.566982241652994)]:
        assert wasserstein_distance([[lat, long]], [[-lat, long + 180]], "haversine") == pytest.approx(180 * degree, abs=1e-3)


def test_haversine_distance_refuses_what_are_no_degrees():
    two = np.zeros((2, 2))
    for X in (np.zeros((2, 1)), np.zeros((2, 3)), [[91, 0]], [[0, 361]], [[0, 2.0**1001]]):
        with pytest.raises(ValueError, match=r"^X and Y must have [^\n]*\.$"):
            wasserstein_distance(X, X, "haversine")
        with pytest.raises(ValueError, match=r"^X and Y must [^\n]*\.$"):
            wasserstein_distance(two, X, "haversine")


values = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=30)


@given(x=values, y=values)
@settings(max_examples=60, deadline=None)
def test_distance_in_one_dimension_is_the_quantile_formula(x, y):
    expected = scipy.stats.wasserstein_distance(x, y)
    for metric in METRICS:
        assert wasserstein_distance(np.array(x)[:, None], np.array(y)[:, None], metric) == pytest.approx(expected, abs=1e-9)


def test_samples_of_different_sizes_are_weighed_equally_by_pot_which_is_named_where_it_is_missing(monkeypatch):
    pytest.importorskip("ot")
    rng = np.random.default_rng(3)
    X, Y = rng.random((30, 2)), rng.random((20, 2))
    repeated = wasserstein_distance(np.repeat(X, 2, axis=0), np.repeat(Y, 3, axis=0))
    assert wasserstein_distance(X, Y) == pytest.approx(repeated, rel=1e-9)
    monkeypatch.setitem(sys.modules, "ot", None)
    with pytest.raises(ImportError, match=r"pip install 'skdpsynth\[transport\]'"):
        wasserstein_distance(X, Y)


@pytest.mark.parametrize("distance", [wasserstein_distance, sliced_wasserstein_distance])
def test_distance_is_zero_between_a_sample_and_its_reordering_and_symmetric(distance):
    rng = np.random.default_rng(4)
    X, Y = rng.random((50, 3)), rng.random((50, 3))
    assert distance(X, rng.permutation(X)) == pytest.approx(0, abs=1e-12)
    assert distance(X, Y) == pytest.approx(distance(Y, X))
    assert distance(X, Y) > 0.01


def test_chebyshev_is_the_default_metric():
    assert wasserstein_distance([[0.0, 0.0]], [[3.0, 4.0]]) == 4.0


def test_bad_samples_are_refused():
    two = np.zeros((2, 2))
    for shapes in [((6001, 2), (5, 2)), ((5, 2), (6001, 2))]:
        with pytest.raises(ValueError, match=r"at most 6000 rows[^\n]*sliced_wasserstein_distance"):
            wasserstein_distance(*map(np.zeros, shapes))
    for X, Y, message in [
        (two, np.zeros((2, 3)), "same columns|columns of a non-empty X"),
        (np.zeros(2), two, "rows and columns"),
        (np.zeros((0, 2)), two, "non-empty"),
        (np.array([[np.nan, 0.0]]), two, "must be finite"),
        (two, pd.DataFrame({"a": pd.array([0, None], dtype="Int8"), "b": 0.5}), "must be finite"),
        (two, np.array([[np.inf, 0.0]]), "must be finite"),
        (np.array([["secret"]]), two, "numbers"),
        (two, pd.DataFrame({"a": ["secret"]}), "numbers"),
        (csr_array(np.eye(2)), two, "dense"),
        (np.ma.array(two, mask=np.eye(2)), two, "masked"),
    ]:
        for measure in (wasserstein_distance, sliced_wasserstein_distance, captured_variance_ratio):
            with pytest.raises((TypeError, ValueError), match=rf"^[^\n]*({message})[^\n]*\.$") as caught:
                measure(X, Y)
            assert "secret" not in str(caught.value)


def fake_pot(warning):
    """A POT that warns of a deprecation, and logs what its solver said."""

    def emd2(a, b, cost, *, numItermax, log):
        warnings.warn("renamed", DeprecationWarning, stacklevel=2)
        return 0.25, {"warning": warning}

    return types.SimpleNamespace(emd2=emd2)


@pytest.mark.filterwarnings("ignore:renamed")
def test_program_that_does_not_reach_its_optimum_raises_and_no_other_warning_matters(monkeypatch):
    monkeypatch.setitem(sys.modules, "ot", fake_pot("numItermax reached before optimality."))
    with pytest.raises(RuntimeError, match="2 x 2 rows did not reach its optimum"):
        wasserstein_distance(np.zeros((2, 2)), np.zeros((2, 2)))
    monkeypatch.setitem(sys.modules, "ot", fake_pot(None))
    assert wasserstein_distance(np.zeros((2, 2)), np.zeros((2, 2))) == 0.25


def test_distances_leave_the_warning_filters_of_the_process_alone(solver, monkeypatch):
    X = np.random.default_rng(0).random((5, 2))
    wasserstein_distance(X, X)  # imports
    with monkeypatch.context() as patch:
        patch.setattr(warnings, "catch_warnings", None)  # it is not safe in threads
        assert wasserstein_distance(X, X) == 0


def test_cells_at_the_end_of_floating_point_overflow_in_no_sum(solver):
    most = np.finfo(float).max
    X, Y = np.array([[most, most, most], [-most, -most, -most]]), np.array([[-most, -most, -most], [most, most, most]])
    assert wasserstein_distance(X, Y) == sliced_wasserstein_distance(X, Y) == 0
    assert wasserstein_distance(X, X / 2, "cityblock") == np.inf  # as it is: 1.5 times the largest float
    assert wasserstein_distance(X, X / 2) == most / 2


def test_parameters_of_another_kind_are_refused_in_one_short_sentence():
    for distance, name, values, words in [
        (wasserstein_distance, "metric", ["cosine", np.full((3, 3), 31415), ["chebyshev"], None, "31415" * 100], "one of 'chebyshev'"),
        (sliced_wasserstein_distance, "n_projections", [0, 2.5, True, "9", None, 10**9, np.ones((2, 2))], "an integer from 1 to 1000000"),
        (sliced_wasserstein_distance, "random_state", [-1, 2.5, "seed", [[1]]], "a non-negative integer or None, got"),
    ]:
        for value in values:
            with pytest.raises(ValueError, match=rf"^{name} must be {words}[^\n]*\.$") as caught:
                distance([[0.0]], [[1.0]], **{name: value})
            assert len(str(caught.value)) < 200
    X = np.zeros((10**6, 2))  # whose directions would take minutes
    with pytest.raises(ValueError, match=r"^n_projections must be at most 134 for 1000000 and 1000000 rows, got 135; [^\n]*\.$"):
        sliced_wasserstein_distance(X, X, 135)


def test_sliced_distance_of_a_translation_is_the_mean_length_of_its_projections():
    # The mean of |cos| over the circle is 2 / pi; 4000 directions have standard deviation .005: seven of them.
    X = np.random.default_rng(7).random((5, 2))
    assert sliced_wasserstein_distance(X, X + np.array([3.0, 4.0]), n_projections=4000) == pytest.approx(5 * 2 / np.pi, abs=5 * 0.035)


ROWS = np.random.default_rng(0).normal(size=(200, 6)) @ np.diag([3.0, 2.0, 1.5, 1.0, 0.5, 0.1]) + 100


@pytest.mark.parametrize("k", range(1, 6))
def test_ratio_is_the_explained_variance_over_that_of_pca(k):
    components = np.random.default_rng(k).normal(size=(k, 6))
    basis = np.linalg.svd(components, full_matrices=False)[2]
    expected = np.var(ROWS @ basis.T, axis=0).sum() / np.var(PCA(k).fit_transform(ROWS), axis=0).sum()
    assert captured_variance_ratio(ROWS, components) == pytest.approx(expected)


@given(seed=st.integers(0, 2**32), k=st.integers(1, 6))
@settings(max_examples=50, deadline=None)
def test_ratio_depends_on_the_span_only_and_lies_in_the_unit_interval(seed, k):
    rng = np.random.default_rng(seed)
    components = rng.normal(size=(k, 6))
    change = np.linalg.qr(rng.normal(size=(k, k)))[0] * rng.uniform(0.5, 2, k)
    ratio = captured_variance_ratio(ROWS, components)
    assert 0 <= ratio <= 1
    assert captured_variance_ratio(ROWS, change @ components) == pytest.approx(ratio)


def test_the_whole_space_captures_everything_a_constant_has_nothing_left_and_scales_do_not_matter():
    assert captured_variance_ratio(ROWS, np.eye(6)) == pytest.approx(1)
    assert captured_variance_ratio(ROWS, PCA(6).fit(ROWS).components_[-1]) < 0.01
    assert captured_variance_ratio([[1.0, 2.0]], [[1.0, 0.0]]) == captured_variance_ratio([[1.0], [2.0]], [[-1.0]]) == 1
    for value in (0.0, 0.1, 1e9 / 7):  # nothing is left to capture
        for table in (np.full((300, 2), value), cut(np.full((300, 2), value), 7)):
            assert captured_variance_ratio(table, [[1.0, 0.0]]) == 1
    rows = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0]])
    for scale in (1.7e308, 1e200, 1e-200, 5e-324):
        for table in (rows * scale, cut(rows * scale, 1, 2)):  # in memory, and in chunks
            assert captured_variance_ratio(table, [[1.0, 0.0]]) == 1
            assert captured_variance_ratio(table, [[0.0, scale]]) == 0
            assert captured_variance_ratio(table, [[scale, scale]]) == pytest.approx(0.5)
