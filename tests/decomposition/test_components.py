"""What users do with the fitted components: it follows from what was released, stays finite, and has signs by a public rule."""

import itertools
import math

import numpy as np
import pytest
from internals import _pca_api, fix_signs
from laws import refuses
from scipy.stats import multivariate_normal
from sklearn.base import clone
from test_release import low_rank

from skdpsynth import PrivatePCA

pytestmark = pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.SmallSampleWarning")


X = low_rank(5000, 6)
# Enough noise that some of the eigenvalues are negative.
VARIANTS = {
    "all": PrivatePCA(),
    "two": PrivatePCA(2),
    "auto": PrivatePCA("auto"),
    "share": PrivatePCA(0.9),
    "public": PrivatePCA(2, center="public"),
    "noise": PrivatePCA(epsilon=1e-3),
    "no noise": PrivatePCA(3, epsilon=math.inf),
    "whitened": PrivatePCA(whiten=True, epsilon=1e-2),
}
each_variant = pytest.mark.parametrize("pca", VARIANTS.values(), ids=VARIANTS)


@each_variant
def test_attributes_follow_from_the_released_covariance(pca):
    pca = clone(pca).fit(X)
    values, k = np.linalg.eigvalsh(pca.covariance_)[::-1], pca.n_components_
    assert np.allclose(pca.explained_variance_, np.maximum(values[:k], 0))
    whole = max(values.sum(), np.maximum(values[:k], 0).sum())
    assert np.allclose(pca.explained_variance_ratio_, np.maximum(values[:k], 0) / whole)
    assert np.allclose(pca.singular_values_, np.sqrt(4999 * pca.explained_variance_))
    assert pca.noise_variance_ == pytest.approx(max(values[k:].mean(), 0) if k < 6 else 0)
    assert np.allclose(pca.components_ @ pca.components_.T, np.eye(k))
    assert pca.noise_edge_ >= 0
    if pca.get_params()["n_components"] == "auto":
        assert k == max(np.sum(values > pca.noise_edge_), 1)


@each_variant
def test_likelihood_is_that_of_the_normal_distribution_of_the_model(pca):
    pca = clone(pca).fit(X)
    covariance = pca.get_covariance()
    assert np.linalg.eigvalsh(covariance).min() > 0
    assert np.allclose(covariance, covariance.T)
    assert np.allclose(covariance @ pca.get_precision(), np.eye(6), atol=1e-6)
    expected = multivariate_normal(pca.mean_, covariance).logpdf(X)
    assert np.allclose(pca.score_samples(X), expected, rtol=1e-6)
    assert pca.score(X) == pytest.approx(expected.mean())


@pytest.mark.parametrize("n_components", [None, 1])
@pytest.mark.parametrize("epsilon", [1e-4, math.inf])
@pytest.mark.parametrize("rows", [np.full((50, 4), 0.5), np.eye(50, 4), np.full((1, 4), 0.2), np.full((2, 1), 1.0)])
def test_all_stays_finite_where_variances_are_zero(rows, epsilon, n_components):
    for whiten in (False, True):
        pca = PrivatePCA(min(n_components or 9, rows.shape[1]), epsilon=epsilon, whiten=whiten).fit(rows)
        results = (pca.get_covariance(), pca.get_precision(), pca.score(rows), pca.score_samples(rows + 1), pca.transform(rows))
        assert all(np.isfinite(result).all() for result in results)
        assert np.isfinite(pca.inverse_transform(pca.transform(rows))).all()


@pytest.mark.parametrize(
    ("width", "dtype"),  # floats of 32 bits end before 1e39
    [*itertools.product([1e-149, 1e-20, 1e20], [np.float32, np.float64]), (1e139, np.float64)],
)
def test_all_stays_finite_at_bounds_of_any_width(width, dtype):
    rows = (X * width).astype(dtype)
    pca = PrivatePCA(2, bounds=(0, width), whiten=True).fit(rows)
    assert all(np.isfinite(result).all() for result in (pca.get_covariance(), pca.get_precision(), pca.score_samples(rows)))
    assert np.isfinite(pca.transform(rows)).all()
    assert np.linalg.norm(pca.components_, axis=1) == pytest.approx(1)


def test_without_noise_the_floor_is_the_variance_of_a_step_of_the_grid():
    pca = PrivatePCA(epsilon=math.inf, bounds=(0, 3)).fit(np.full((50, 2), 0.5))
    assert np.allclose(pca.get_covariance(), np.eye(2) * (3 / 2**16) ** 2 / 12)


def test_likelihood_is_of_use_where_noise_leaves_eigenvalues_of_zero():
    """Without a floor from the noise, rows at right angles to a clipped direction would score minus 10**6 and less."""
    pca = PrivatePCA(epsilon=0.3, random_state=1).fit(X)
    assert (pca.explained_variance_ == 0).any()
    assert pca.score(X) > 0
    assert pca.score(X) > pca.score(X[:, ::-1])


@pytest.mark.parametrize("n_samples", [1, 3, 200])
def test_scores_are_those_of_each_row_by_itself(n_samples, monkeypatch):
    monkeypatch.setattr(_pca_api, "_VALUES", 100)
    pca = PrivatePCA(2, random_state=0).fit(X)
    assert np.allclose(pca.score_samples(X[:n_samples]), [pca.score_samples(row[None])[0] for row in X[:n_samples]])


@each_variant
def test_inverse_transform_undoes_transform_within_the_components(pca):
    pca = clone(pca).set_params(whiten=False).fit(X)
    coordinates, plain = np.random.default_rng(1).normal(size=(20, pca.n_components_)), pca.transform(X)
    assert np.allclose(pca.transform(pca.inverse_transform(coordinates)), coordinates)
    pca.set_params(whiten=True)
    assert np.allclose(pca.transform(pca.inverse_transform(coordinates)), coordinates)
    least = pca.noise_edge_ / (2 * math.sqrt(X.shape[1]))  # that stands out of noise
    assert np.allclose(pca.transform(X), plain / np.sqrt(np.maximum(pca.explained_variance_, least)))
    refuses(ValueError, "whiten must be True or False", pca.set_params(whiten=None).fit, X)


@pytest.mark.parametrize("whiten", [False, True])
def test_floats_of_32_bits_stay_where_squares_of_the_bounds_are_some(whiten):
    rows = X.astype(np.float32)
    wide, pca = (PrivatePCA(2, whiten=whiten, random_state=0).fit(rows.astype(dtype)) for dtype in (float, np.float32))
    for name in ("components_", "mean_", "explained_variance_", "explained_variance_ratio_", "singular_values_"):
        assert getattr(pca, name).dtype == np.float32
        assert np.array_equal(getattr(pca, name), getattr(wide, name).astype(np.float32))  # rounded once, at the end
    assert np.array_equal(pca.covariance_, wide.covariance_)
    projected = pca.transform(rows)
    assert projected.dtype == pca.inverse_transform(projected).dtype == pca.get_precision().dtype == np.float32
    assert np.allclose(projected, wide.transform(X), atol=1e-3)
    for bounds, dtype in (((0, 1e15), np.float32), ((0, 1e20), np.float64), ((0, 1e-13), np.float64)):
        assert PrivatePCA(2, bounds=bounds).fit(rows).explained_variance_.dtype == dtype


def test_signs_are_those_of_the_first_large_entry():
    vectors = np.array([[0.1, -0.3, 0.5], [-0.3, 0.1, 0.5], [0.0, 0.0, -1.0]])
    assert np.array_equal(fix_signs(vectors), vectors * [[-1], [-1], [-1]])
    assert np.array_equal(fix_signs(-vectors), fix_signs(vectors))
