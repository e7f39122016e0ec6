"""Private PCA: the scale of its noise, its agreement with PCA, and what it says of its choices."""

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA

from skdpsynth import PrivatePCA
from skdpsynth.domain import Box
from skdpsynth.exceptions import SmallSampleWarning
from skdpsynth.fitting import Facts
from skdpsynth.metrics import captured_variance_ratio
from skdpsynth.privacy import DiscreteGaussian, DiscreteLaplace, DiscreteSupNorm, check_delta, check_epsilon, check_rng, rho_of_epsilon

pytestmark = pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.SmallSampleWarning")


def low_rank(n, d, seed=0):
    rng = np.random.default_rng(seed)
    frame = np.linalg.qr(rng.normal(size=(d, 2)))[0]
    return np.clip(0.5 + 0.3 * rng.uniform(-1, 1, (n, 2)) * [1, 0.6] @ frame.T + 0.01 * rng.normal(size=(n, d)), 0, 1)


def plan_of(pca, n_samples, n_features):
    """What a fit would release, decided by public numbers alone."""
    box = Box(np.zeros(n_features), np.ones(n_features))
    return pca._plan(Facts(check_epsilon(pca.epsilon), check_delta(pca.delta), pca.neighboring, n_samples, n_features, box))


# The scale of the noise (what it must cover is tested in statistics/test_moments.py)


@pytest.mark.parametrize("noise", ["laplace", "sup_norm"])
@pytest.mark.parametrize("center", ["private", "public"])
@pytest.mark.parametrize("bounds", [(0, 1), (-5, 100), (np.array([0, -1, 5]), np.array([1, 9, 5.5]))])
def test_what_fit_releases_moves_by_the_claimed_sensitivity(noise, center, bounds, monkeypatch):
    """End to end: the values handed to `release` for worst-case neighbours, over the scales handed with them, lose epsilon."""
    from skdpsynth.privacy import PrivacyAccountant

    seen = []
    release = PrivacyAccountant.release

    def spy(self, values, drawn, rng, **keywords):
        seen.append((values.copy(), drawn, keywords["loss"]))
        return release(self, values, drawn, rng, **keywords)

    monkeypatch.setattr(PrivacyAccountant, "release", spy)
    low, high = (np.broadcast_to(np.asarray(b, dtype=float), 3) for b in bounds)
    X = low + (high - low) * np.random.default_rng(0).random((20, 3))
    # Laplace: u = K (1, 1, 1) and v = -k u with k = 1/4 for a private mean, 0 for none, attain the supremum up to the grid.
    # Sup norm: u = K (1, 1, 1) and v = K (1, 1, -1) do.
    worst = X.copy()
    X[0], worst[0] = high, low + (high - low) * (0.375 if center == "private" else 0.5)
    if noise == "sup_norm":
        worst[0] = low + (high - low) * [1, 1, 0]
    for data in (X, worst):
        PrivatePCA(center=center, noise=noise, bounds=(low, high), epsilon=0.5).fit(data)
    (first, noise, cost), (second, _, _) = seen
    total = noise_loss(noise, first - second)
    assert total <= float(cost.epsilon) == 0.5
    assert total == pytest.approx(0.5, rel=1e-3)


def noise_loss(noise, difference):
    if isinstance(noise, DiscreteSupNorm):
        return float(np.abs(difference).max() / noise.scale)
    return float(np.abs(difference).sum() / noise.scale)


def test_the_smallest_noise_is_chosen():
    X = np.random.default_rng(0).random((100, 30))

    def noise(**parameters):
        columns = parameters.pop("columns")
        return PrivatePCA(**parameters).fit(X[:, :columns]).accountant_.ledger[0].noise

    assert noise(columns=2) == "DiscreteLaplace"
    assert noise(columns=2, delta=1e-6) == "DiscreteLaplace"
    assert noise(columns=5) == "DiscreteSupNorm"
    assert noise(columns=30) == "DiscreteSupNorm"
    assert noise(columns=30, delta=1e-6) == "DiscreteGaussian"
    assert noise(columns=30, delta=1e-6, noise="laplace") == "DiscreteLaplace"


@pytest.mark.parametrize("noise", ["laplace", "sup_norm", "gaussian"])
@pytest.mark.parametrize("center", ["private", "public"])
def test_noise_has_the_deviation_that_the_plan_claims(noise, center):
    """Off-diagonal second moments of 500 fits, 3 entries each: the variance is within 25 % of the claim (5 standard errors)."""
    delta = 1e-6 if noise == "gaussian" else 0
    pca = PrivatePCA(noise=noise, center=center, epsilon=2, delta=delta)
    plan = plan_of(pca, 50, 3)
    off = np.flatnonzero(np.triu_indices(3)[0] != np.triu_indices(3)[1])
    seen = [plan.noise.noise.sample(plan.packing.n_values, check_rng(None))[-6:][off] for _ in range(500)]
    assert np.mean(np.square(np.array(seen, dtype=float))) / plan.noise.deviation**2 == pytest.approx(1, abs=0.25)


@pytest.mark.parametrize("noise", ["laplace", "sup_norm", "gaussian"])
@pytest.mark.parametrize("center", ["private", "public"])
def test_released_moments_are_unbiased(noise, center, monkeypatch):
    """With the draw replaced by zeros, what is unpacked is the exact covariance, whatever the weights."""
    X = np.random.default_rng(0).random((500, 4)) * [1, 0.8, 0.6, 0.4]
    delta = 1e-6 if noise == "gaussian" else 0
    for kind in (DiscreteLaplace, DiscreteGaussian, DiscreteSupNorm):
        monkeypatch.setattr(kind, "sample", lambda self, size, rng: np.zeros(size, dtype=np.int64))
    fitted = PrivatePCA(noise=noise, center=center, delta=delta).fit(X)
    expected = np.cov(X.T) if center == "private" else (X - 0.5).T @ (X - 0.5) / 500
    assert np.allclose(fitted.covariance_, expected, atol=1e-4)
    assert np.allclose(fitted.mean_, X.mean(axis=0) if center == "private" else 0.5, atol=1e-4)


@pytest.mark.parametrize("noise", ["laplace", "sup_norm", "gaussian", "auto"])
def test_the_grid_is_coarsened_when_noise_would_pass_62_bits(noise):
    X = np.random.default_rng(0).random((10, 200))
    delta = 1e-6 if noise in ("gaussian", "auto") else 0
    assert np.isfinite(PrivatePCA(1, epsilon=1e-7, delta=delta, noise=noise).fit(X).covariance_).all()


def test_noises_on_grids_of_unlike_fineness_are_compared_in_units_of_the_box():
    """Pure noise needs a coarser grid here: in steps of its own grid its deviation is the smallest, in units of the box the largest."""
    parameters = {"epsilon": 1e-6, "delta": 1e-6}
    plans = {kind: plan_of(PrivatePCA(noise=kind, **parameters), 10, 50) for kind in ("laplace", "sup_norm", "gaussian")}
    assert plans["sup_norm"].noise.deviation < plans["gaussian"].noise.deviation
    assert plans["sup_norm"].noise.deviation / plans["sup_norm"].packing.largest ** 2 > plans["gaussian"].noise.deviation / 2**32
    chosen = plan_of(PrivatePCA(**parameters), 10, 50)
    assert (chosen.noise, chosen.packing) == (plans["gaussian"].noise, plans["gaussian"].packing)


def test_a_budget_too_small_for_the_coarsest_grid_is_refused_in_one_sentence():
    with pytest.raises(ValueError, match=r"epsilon is too small for 5000 features, got 1e-09; use a larger"):
        plan_of(PrivatePCA(noise="laplace", epsilon=1e-9), 10, 5000)


# Agreement with PCA


@pytest.mark.parametrize("n", [2, 500])
def test_without_noise_it_is_scikit_learns_pca(n):
    """Data that fill the box, separated eigenvalues, signs aligned; n - 1 included."""
    X = np.random.default_rng(0).random((n, 4)) * [1.0, 0.8, 0.55, 0.3]
    ours, theirs = PrivatePCA(epsilon=float("inf")).fit(X), PCA().fit(X)
    k = min(n - 1, 4)
    assert np.allclose(ours.mean_, theirs.mean_, atol=1e-4)
    assert np.allclose(ours.covariance_, np.cov(X.T), atol=1e-4)
    assert np.allclose(ours.explained_variance_[:k], theirs.explained_variance_[:k], atol=1e-3)
    assert np.allclose(ours.explained_variance_ratio_[:k], theirs.explained_variance_ratio_[:k], atol=1e-3)
    signs = np.sign(np.sum(ours.components_[:k] * theirs.components_[:k], axis=1))
    assert np.allclose(ours.components_[:k], signs[:, None] * theirs.components_[:k], atol=1e-3)
    if n > 2:
        assert np.allclose(ours.transform(X), theirs.transform(X) * signs, atol=1e-3)


def test_columns_of_different_units_keep_their_variances():
    X = np.random.default_rng(0).random((2000, 3)) * [1.0, 1000.0, 1e-3] + [0, -500, 7]
    bounds = ([0, -500, 7], [1, 500, 7.001])
    ours, theirs = PrivatePCA(epsilon=float("inf"), bounds=bounds).fit(X), PCA().fit(X)
    assert np.allclose(ours.explained_variance_ / theirs.explained_variance_, 1, atol=1e-3)


def test_components_are_orthonormal_and_transform_inverts():
    X = low_rank(5000, 6)
    pca = PrivatePCA().fit(X)
    assert np.allclose(pca.components_ @ pca.components_.T, np.eye(6))
    assert np.allclose(pca.inverse_transform(pca.transform(X)), X)
    assert (np.diff(pca.explained_variance_) <= 0).all()


def test_captured_variance_rises_with_epsilon():
    """Means of 10 fits at epsilon 0.02 and 2 on near-planar data; 0.5 against 0.99."""
    X = low_rank(5000, 8)
    weak, strong = (
        np.mean([captured_variance_ratio(X, PrivatePCA(2, epsilon=e).fit(X).components_) for _ in range(10)]) for e in (0.02, 2)
    )
    assert weak < strong > 0.9


def test_public_centre_is_the_midpoint_of_the_box():
    pca = PrivatePCA(center="public", bounds=(-1, 3)).fit(low_rank(100, 3))
    assert np.array_equal(pca.mean_, np.ones(3))


# Choice of the number of components


def test_auto_finds_the_dimension_of_near_planar_data_and_never_more_than_five():
    planar = low_rank(100_000, 10)  # one fit in a hundred finds a third
    assert np.median([PrivatePCA("auto").fit(planar).n_components_ for _ in range(5)]) == 2
    X = np.random.default_rng(0).random((50_000, 12))
    assert PrivatePCA("auto", epsilon=100).fit(X).n_components_ == 5
    assert PrivatePCA("auto", epsilon=1e-3).fit(X[:100]).n_components_ in (1, 2)


def test_float_takes_the_smallest_number_with_that_share_of_variance():
    X = low_rank(5000, 6)
    full = PrivatePCA(epsilon=float("inf")).fit(X)
    cumulative = np.cumsum(full.explained_variance_ratio_)
    for share in (0.5, 0.9, 0.999):
        k = PrivatePCA(share, epsilon=float("inf")).fit(X).n_components_
        assert cumulative[k - 1] >= share
        assert k == 1 or cumulative[k - 2] < share


def test_names_of_the_output_follow_scikit_learn():
    pca = PrivatePCA(2).fit(low_rank(100, 4))
    assert pca.get_feature_names_out().tolist() == ["privatepca0", "privatepca1"]


def test_add_or_remove_one_is_refused_in_one_sentence():
    with pytest.raises(ValueError, match='supports neighboring="replace_one" only'):
        PrivatePCA(neighboring="add_or_remove_one").fit(low_rank(10, 3))


@pytest.mark.parametrize(("parameter", "value"), [("center", "mean"), ("noise", "normal"), ("center", None)])
def test_bad_choices_are_named(parameter, value):
    with pytest.raises(ValueError, match=f"{parameter} must be one of"):
        PrivatePCA(**{parameter: value}).fit(low_rank(10, 3))


def test_gaussian_noise_needs_delta():
    with pytest.raises(ValueError, match="needs delta > 0"):
        PrivatePCA(noise="gaussian").fit(low_rank(10, 3))


def test_a_seed_gives_different_noise_to_different_fits_of_one_random_state():
    X = low_rank(100, 3)
    state = np.random.RandomState(0)
    first, second = (clone(PrivatePCA()).set_params(random_state=state).fit(X).covariance_ for _ in range(2))
    assert not np.array_equal(first, second)


def test_rho_of_the_ledger_is_the_tight_one():
    pca = PrivatePCA(delta=1e-6, noise="gaussian").fit(low_rank(100, 3))
    assert pca.accountant_.ledger[0].loss.rho == rho_of_epsilon(Fraction(1), Fraction(1, 10**6))
    assert math.isclose(float(pca.accountant_.ledger[0].loss.rho), 0.02435, rel_tol=1e-3)
    assert check_rng(None).seeded is False


def test_hopeless_sizes_warn_by_public_numbers_only():
    X = np.random.default_rng(0).random((569, 30))
    with pytest.warns(SmallSampleWarning, match="n_samples=569 and epsilon=0.2 are too small for 30 features"):
        PrivatePCA(epsilon=0.2).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error", SmallSampleWarning)
        PrivatePCA(epsilon=5).fit(X)
        PrivatePCA(epsilon=0.2, delta=1e-6).fit(X)
