"""Captured variance against scikit-learn's principal components."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA
from sources import cut

from skdpsynth.metrics import captured_variance_ratio

X = np.random.default_rng(0).normal(size=(200, 6)) @ np.diag([3.0, 2.0, 1.5, 1.0, 0.5, 0.1]) + 100


@pytest.mark.parametrize("k", range(1, 7))
def test_components_of_pca_capture_all_that_can_be_captured(k):
    assert captured_variance_ratio(X, PCA(k).fit(X).components_) == pytest.approx(1)


@pytest.mark.parametrize("k", range(1, 6))
def test_ratio_is_the_explained_variance_over_that_of_pca(k):
    components = np.random.default_rng(k).normal(size=(k, 6))
    basis = np.linalg.svd(components, full_matrices=False)[2]
    expected = np.var(X @ basis.T, axis=0).sum() / np.var(PCA(k).fit_transform(X), axis=0).sum()
    assert captured_variance_ratio(X, components) == pytest.approx(expected)


@given(seed=st.integers(0, 2**32), k=st.integers(1, 6))
@settings(max_examples=50, deadline=None)
def test_ratio_depends_on_the_span_only_and_lies_in_the_unit_interval(seed, k):
    rng = np.random.default_rng(seed)
    components = rng.normal(size=(k, 6))
    change = np.linalg.qr(rng.normal(size=(k, k)))[0] * rng.uniform(0.5, 2, k)
    ratio = captured_variance_ratio(X, components)
    assert 0 <= ratio <= 1
    assert captured_variance_ratio(X, change @ components) == pytest.approx(ratio)


def test_the_whole_space_captures_everything_a_constant_has_nothing_left_and_scales_do_not_matter():
    assert captured_variance_ratio(X, np.eye(6)) == pytest.approx(1)
    assert captured_variance_ratio(X, PCA(6).fit(X).components_[-1]) < 0.01
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


def test_bad_tables_are_refused():
    for rows, components, message in [
        (np.zeros((3, 2)), np.zeros((1, 3)), "columns of a non-empty X"),
        (np.zeros(3), np.zeros((1, 3)), "rows and columns"),
        (np.zeros((0, 2)), np.eye(2), "columns of a non-empty X"),
        (np.array([[np.nan, 1.0], [0.0, 1.0]]), np.eye(2), "must be finite"),
        (np.eye(2), np.array([[np.inf, 1.0]]), "must be finite"),
    ]:
        with pytest.raises(ValueError, match=message):
            captured_variance_ratio(rows, components)
