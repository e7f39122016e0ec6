"""What a fit of private PCA releases: how much it loses, what the steps are, and what they find."""

import itertools
import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from internals import NoiseLoss, is_covered, pair_loss, watch_releases
from laws import clopper_pearson, refuses
from sklearn.base import clone

from skdpsynth import PrivacyAccountant, PrivatePCA
from skdpsynth.domain import Box
from skdpsynth.exceptions import SmallSampleWarning
from skdpsynth.fitting import Facts
from skdpsynth.metrics import captured_variance_ratio
from skdpsynth.privacy import PrivacyLoss, check_delta, check_epsilon, rho_of_epsilon

pytestmark = pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.SmallSampleWarning", "ignore::skdpsynth.exceptions.BudgetWarning")

INF = float("inf")
KINDS = {"matrix_laplace": 0, "gaussian": 1e-6, "laplace": 0}  # and a delta
RELATIONS = ("replace_one", "add_or_remove_one")
UNITS = 2.0**-17  # half a step of the finest grid of the unit cube
each_relation = pytest.mark.parametrize("neighboring", RELATIONS)


def low_rank(n, d, seed=0, spread=0.01):
    rng = np.random.default_rng(seed)
    frame = np.linalg.qr(rng.normal(size=(d, 2)))[0]
    return np.clip(0.5 + 0.3 * rng.uniform(-1, 1, (n, 2)) * [1, 0.6] @ frame.T + spread * rng.normal(size=(n, d)), 0, 1)


def captured(X, n_fits=3, of=None, **parameters):
    """Mean share of the variance of `of` that two components of seeded fits to X capture, over the best share."""
    fits = [PrivatePCA(2, random_state=seed, **parameters).fit(X) for seed in range(n_fits)]
    return np.mean([captured_variance_ratio(X if of is None else of, pca.components_) for pca in fits])


def plan_of(pca, n_samples, n_features):
    """What a fit would release, decided by public numbers alone."""
    box = Box(np.zeros(n_features), np.ones(n_features))
    return pca._plan(Facts(check_epsilon(pca.epsilon), check_delta(pca.delta), pca.neighboring, n_samples, n_features, box))


def names_of(pca):
    return [entry.name for entry in pca.accountant_.ledger]


def told(pca, X, category):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pca.fit(X)
    return [str(warning.message) for warning in caught if issubclass(warning.category, category)]


def replayed(pca, X, other):
    """Fit to X, and to its neighbor with the same answers: what each answer lost, and its charge."""
    with watch_releases() as door:
        clone(pca).fit(X)
        answers = door.take()
        door.replay(answers)
        clone(pca).fit(other)
    return {draw.name: (pair_loss(draw, again), draw.loss) for draw, again in zip(answers, door.draws, strict=True)}


def parts_of(losses):
    """What each answer lost, as a share of its charge."""
    return {
        name: float(lost.gaussian / charged.rho if charged.rho is not None else lost.epsilon / charged.epsilon)
        for name, (lost, charged) in losses.items()
    }


def corner_neighbors(neighboring, n):
    """Rows about the middle, one of them far out: neighbors have it elsewhere far out, at a right angle, or not at all."""
    X = 0.49 + 0.02 * np.random.default_rng(0).random((n, 2))
    X[0] = [1, 1]
    if neighboring == "replace_one":
        return X, [np.vstack([[row], X[1:]]) for row in ([1, 0], [0, 0], [0.7, 0.3], [0.9, 0.12], X[1])]
    return X, [X[1:], np.vstack([X, [0, 0]]), np.vstack([X, X[1:2]])]


@pytest.mark.must
@pytest.mark.parametrize(("noise", "max_norm"), [*((noise, None) for noise in KINDS), ("matrix_laplace", 0.3), ("gaussian", 0.3)])
@each_relation
@pytest.mark.parametrize("center", ["private", "public", (0.4, 0.55)], ids=["private", "public", "point"])
@pytest.mark.parametrize("n", [20, 3000])
def test_neighbors_lose_at_most_what_each_answer_and_the_fit_are_charged(noise, neighboring, center, max_norm, n):
    pca = PrivatePCA(noise=noise, delta=KINDS[noise], center=center, max_norm=max_norm, neighboring=neighboring)
    X, neighbors = corner_neighbors(neighboring, n)
    for other in neighbors:
        losses = replayed(pca, X, other)
        for lost, charged in losses.values():
            assert is_covered(lost, charged)
        assert is_covered(sum((lost for lost, _ in losses.values()), NoiseLoss()), PrivacyLoss(1, KINDS[noise]))


@pytest.mark.must
@pytest.mark.parametrize("noise", ["matrix_laplace", "gaussian"])
@each_relation
def test_some_neighbors_lose_nearly_all_that_is_charged(noise, neighboring):
    """About the midpoint: a far row goes, or another of half its length takes its place, at a right angle. Seeded: noisy counts
    now and then leave a radius that the nearer row does not reach. And of the center, who moves from corner to corner."""
    pca = PrivatePCA(noise=noise, delta=KINDS[noise], center="public", neighboring=neighboring, random_state=0)
    X, neighbors = corner_neighbors(neighboring, 3000)
    losses = replayed(pca, X, neighbors[2 if neighboring == "replace_one" else 0])
    shares = parts_of(losses)
    assert [*shares][-2:] == ["radius", "moments"]
    assert min(shares.values()) > 0.98
    if neighboring == "replace_one":
        losses = replayed(PrivatePCA(noise=noise, delta=KINDS[noise]), X, neighbors[1])
        assert parts_of(losses)["center"] > 0.999


@pytest.mark.parametrize("center", ["private", "public"])
@pytest.mark.parametrize("bounds", [(0, 1), (-5, 100), (np.array([0, -1, 5]), np.array([1, 9, 5.5]))])
def test_laplace_noise_is_that_of_the_worst_neighbors(center, bounds):
    """u = K (1, 1, 1) and v = -k u with k = 1/4 for a private mean, 0 for none, attain the supremum up to the grid."""
    low, high = (np.broadcast_to(np.asarray(b, dtype=float), 3) for b in bounds)
    X = low + (high - low) * np.random.default_rng(0).random((20, 3))
    worst = X.copy()
    X[0], worst[0] = high, low + (high - low) * (0.375 if center == "private" else 0.5)
    losses = replayed(PrivatePCA(center=center, noise="laplace", bounds=(low, high), epsilon=0.5), X, worst)
    assert losses["moments"][0].epsilon <= Fraction(1, 2)
    assert float(losses["moments"][0].epsilon) == pytest.approx(0.5, rel=1e-3)


def test_the_ledger_names_the_steps_that_the_rows_can_pay_for():
    X = low_rank(3000, 3)
    for parameters, names in (
        ({}, ["center", "radius", "moments"]),
        ({"center": "public"}, ["radius", "moments"]),
        ({"center": [0.5, 0.5, 0.4]}, ["radius", "moments"]),
        ({"noise": "laplace"}, ["moments"]),
        ({"neighboring": "add_or_remove_one"}, ["number of rows", "center", "radius", "moments"]),
        ({"epsilon": 1e-3}, ["moments"]),
        ({"max_norm": 0.5, "center": "public"}, ["moments"]),
        ({"max_norm": 0.5, "center": (0.5, 0.4, 0.5)}, ["moments"]),
        ({"max_norm": 0.5}, ["center", "moments"]),
    ):
        pca = PrivatePCA(**parameters).fit(X)
        assert names_of(pca) == names
        assert sum(entry.loss.epsilon for entry in pca.accountant_.ledger) == pca.accountant_.epsilon
    assert names_of(PrivatePCA().fit(low_rank(20, 3))) == ["moments"]
    for n in range(5000, 26_000, 1371):  # also where 500 / n is no round number
        plan = plan_of(PrivatePCA(), n, 2)
        assert plan.center_noise.loss.epsilon + plan.radius_noise.loss.epsilon + plan.moments_share.epsilon == 1


def test_a_public_radius_about_a_center_that_rows_cannot_pay_for_is_not_used():
    """Nobody knows where such a ball would lie, so the box stands in for it."""
    facts = {"n_samples": 20, "n_features": 3}
    ball = plan_of(PrivatePCA(max_norm=0.1), **facts).ball
    assert ball.reach == plan_of(PrivatePCA(), **facts).ball.reach > plan_of(PrivatePCA(max_norm=0.1, center="public"), **facts).ball.reach


def test_the_kind_of_noise_follows_from_public_numbers():
    def kind(n_features, **parameters):
        return plan_of(PrivatePCA(**parameters), 10_000, n_features).kind

    assert kind(2) == kind(30) == "matrix_laplace"
    assert kind(2, delta=1e-6) == "matrix_laplace"
    assert kind(30, delta=1e-6) == "gaussian"
    assert kind(30, delta=1e-6, noise="laplace") == "laplace"


@pytest.mark.parametrize("noise", ["matrix_laplace", "laplace", "gaussian", "auto"])
def test_the_grid_is_coarsened_when_noise_would_pass_62_bits(noise):
    pca = PrivatePCA(1, epsilon=1e-7, delta=1e-6 if noise in ("gaussian", "auto") else 0, noise=noise)
    assert plan_of(clone(pca).set_params(epsilon=1), 10, 200).ball.box.bits == 16
    assert plan_of(clone(pca).set_params(epsilon=1e-9, delta=1e-9 if pca.delta else 0), 10, 200).ball.box.bits < 16
    assert np.isfinite(pca.fit(np.random.default_rng(0).random((10, 200))).covariance_).all()


def test_the_edge_of_a_plan_is_the_spectral_norm_of_its_noise():
    """Gaussian: 2 sqrt(d / 2) deviations. Matrix Laplace: 1.6651 d scales, 2 (r**2 + c**2) / epsilon each. And some d**(-2/3) more."""
    plan = plan_of(PrivatePCA(noise="matrix_laplace", max_norm=0.5), 100, 30)
    radius, border = plan.ball.reach, math.isqrt(plan.ball.reach // 10)
    edge = plan.moment_noise(plan.ball).edge
    assert edge == pytest.approx(1.6651 * 30 * 2 * (radius + border**2) * (1 + 1.9 * 30 ** (-2 / 3)), rel=1e-4)
    plan = plan_of(PrivatePCA(noise="gaussian", delta=1e-6, max_norm=0.5, center="public"), 100, 30)
    mu = math.sqrt(2 * rho_of_epsilon(1, 1e-6, gaussian=True))
    assert plan.moment_noise(plan.ball).edge == pytest.approx(
        2 * math.sqrt(15) * math.sqrt(2) * plan.ball.reach / mu * (1 + 1.01 * 30 ** (-2 / 3)), rel=1e-4
    )


def released_exactly(pca, X):
    with watch_releases() as door:
        door.answer = lambda name, values, drawn: values
        return pca.fit(X)


@pytest.mark.parametrize(("noise", "max_norm"), [("laplace", None), *itertools.product(("matrix_laplace", "gaussian"), (0.4, 10))])
@pytest.mark.parametrize("center", ["private", "public", (0.3, 0.6, 0.5, 0.5)], ids=["private", "public", "point"])
def test_what_is_released_are_the_moments_of_the_shrunk_rows(noise, max_norm, center):
    """Whatever the weights; at so large an epsilon nobody takes the mean for noise, and shrinks it. Laplace noise knows no radius."""
    X = np.random.default_rng(0).random((500, 4)) * [1, 0.8, 0.6, 0.4]
    own = isinstance(center, str) and center == "private"
    # About a private center the radius is measured from that, which is the mean without draws.
    middle = X.mean(axis=0) if own else np.full(4, 0.5) if isinstance(center, str) else np.array(center)
    length = np.linalg.norm(X - middle, axis=1, keepdims=True)
    shrunk = middle + (X - middle) * np.minimum(1, (max_norm or INF) / length)
    assert 0 < np.mean(length > 0.4) < 1
    fitted = released_exactly(PrivatePCA(noise=noise, center=center, delta=KINDS[noise], max_norm=max_norm, epsilon=1e6), X)
    expected = np.cov(shrunk.T) if own else (shrunk - middle).T @ (shrunk - middle) / 500
    assert np.allclose(fitted.covariance_, expected, atol=1e-4)
    assert np.allclose(fitted.mean_, shrunk.mean(axis=0) if own else middle, atol=1e-4 if own else 2 * UNITS)


def test_a_private_center_and_radius_do_not_move_the_covariance_of_rows_within():
    """Without draws: all rows but one lie within 0.1 of a point off the midpoint."""
    X = np.array([0.8, 0.3, 0.6]) + 0.1 * np.random.default_rng(0).uniform(-1, 1, (20_000, 3)) / math.sqrt(3)
    fitted = released_exactly(PrivatePCA(), np.vstack([X, [[1, 1, 0]]]))
    assert np.allclose(fitted.covariance_, np.cov(X.T), rtol=0.2, atol=2e-5)
    assert np.allclose(fitted.mean_, X.mean(axis=0), atol=1e-3)


@pytest.mark.parametrize("noise", ["matrix_laplace", "gaussian"])
@pytest.mark.parametrize("d", [30, pytest.param(60, marks=pytest.mark.nightly)])
def test_the_noise_edge_is_what_noise_alone_shows(noise, d):
    """All rows at the public center, so 0: the largest eigenvalues of 30 fits. One in a hundred passes the edge; most pass an
    edge that is too small. All are near it: the mean lies 0.3 to 2.4 m^(-2/3) below."""
    X = np.full((300, d), 0.5)
    fits = [PrivatePCA(noise=noise, delta=KINDS[noise], center=np.full(d, 0.5 + UNITS), max_norm=0.3).fit(X) for _ in range(30)]
    ratios = np.array([np.linalg.eigvalsh(pca.covariance_)[-1] / pca.noise_edge_ for pca in fits])
    assert clopper_pearson(np.sum(ratios > 1), 30)[0] <= 0.01
    assert 1 - 3 * d ** (-2 / 3) < np.mean(ratios) < 1


@pytest.mark.parametrize(("noise", "delta"), [("auto", 0), ("gaussian", 1e-6)])
def test_without_noise_a_public_radius_is_about_the_mean_of_the_rows(noise, delta):
    """All rows lie beyond it from the midpoint, and half of them from the mean; the steps are those of a finite epsilon."""
    X = np.array([0.8, 0.3, 0.9]) + 0.1 * np.random.default_rng(0).uniform(-1, 1, (500, 3))
    away = X - X.mean(axis=0)
    length = np.linalg.norm(away, axis=1, keepdims=True)
    radius = float(np.median(length))
    assert np.linalg.norm(X - 0.5, axis=1).min() > radius
    pca = PrivatePCA(max_norm=radius, noise=noise, epsilon=INF, delta=delta).fit(X)
    assert names_of(pca) == ["center", "moments"]
    shrunk = X.mean(axis=0) + away * np.minimum(1, radius / length)
    assert np.allclose(pca.mean_, shrunk.mean(axis=0), atol=1e-4)
    assert np.allclose(pca.covariance_, np.cov(shrunk.T), atol=1e-5)


# Accuracy: means of 3 seeded fits on planar data


def test_planar_rows_are_found_wherever_they_lie_in_bounds_of_whatever_width():
    """5000 rows of 20 features at epsilon 1, where Laplace noise hides them. Off the midpoint with more rows, or less well."""
    X, off = low_rank(5000, 20), 0.75 + 0.2 * low_rank(5000, 20)
    far = np.vstack([X, np.full(20, 1e300), np.full(20, -1e300)])
    for rows, least, parameters in (
        *((X, 0.97, {"delta": delta, "neighboring": neighboring}) for delta in (0, 1e-6) for neighboring in RELATIONS),
        (off, 0.85, {}),
        (off, 0.97, {"delta": 1e-6}),
        (far, 0.95, {"of": X, "bounds": (-49.5, 50.5)}),  # far rows do not matter
        (X, 0.97, {"bounds": (-99.5, 100.5)}),
        (low_rank(50_000, 20), 0.97, {"bounds": (-10, 10)}),
    ):
        assert captured(rows, **parameters) > least
    assert captured(X, noise="laplace") < 0.4


def test_auto_finds_the_dimension_of_planar_data_and_never_more_than_ten():
    planar = low_rank(20_000, 10, spread=1e-3)
    assert np.median([PrivatePCA("auto", random_state=seed).fit(planar).n_components_ for seed in range(5)]) == 2
    X = np.random.default_rng(0).random((50_000, 12))
    assert PrivatePCA("auto", epsilon=100).fit(X).n_components_ == 10
    assert PrivatePCA("auto", epsilon=1e-3, random_state=0).fit(X[:100]).n_components_ in (1, 2)


def test_parameters_that_are_none_are_refused_before_the_charge():
    center = r"^center must be 'private', 'public' or a point of shape \(3,\) within bounds, got "
    points = [[0.5, 0.5], [0.5] * 4, 0.5, [[0.5] * 3], [0.5, 0.5, 1.5], [-0.1, 0.5, 0.5], [math.nan, 0.5, 0.5], [INF, 0.5, 0.5], [], {}]
    points += [["a", "b", "c"], [None, 0.5, 0.5], ["0.5"] * 3, [True, False, True], [0.5j, 0.5, 0.5], [[0.5], [0.5, 0.5], 0.5]]
    radii, least = (
        (0, -1, INF, -INF, math.nan, "1", [1], True, 1j),
        r"at least 0\.0976562, a thousandth of the widest column, got 0\.09; narrow",
    )
    refused = [
        *((center, {"center": point}) for point in points),
        *(("^max_norm must be None or a positive finite number, got ", {"max_norm": radius}) for radius in radii),
        (r'^max_norm does not serve noise="laplace"', {"max_norm": 1, "noise": "laplace"}),
        (f"^max_norm must be {least}", {"max_norm": 0.09, "bounds": ([0, 0, 0], [1, 100, 1])}),
        *(("bounds must span widths from 1e-150 to 1e140", {"bounds": bounds}) for bounds in ((-1e140, 1e140), (0, 1e-151))),
        *(("center must be one of", {"center": value}) for value in ("mean", None)),
        *(("noise must be one of", {"noise": value}) for value in ("normal", "sup_norm")),
        ("needs delta > 0", {"noise": "gaussian"}),
    ]
    for words, parameters in refused:
        shared = PrivacyAccountant(1)
        refuses(ValueError, words, PrivatePCA(**parameters, accountant=shared).fit, low_rank(10, 3))
        assert shared.spent == 0
    with pytest.raises(ValueError, match=r"epsilon is too small for 4000 features, got 1e-09; use a larger"):
        plan_of(PrivatePCA(noise="laplace", epsilon=1e-9), 10, 4000)


def test_hopeless_sizes_warn_by_public_numbers_only():
    X = np.random.default_rng(0).random((569, 30))

    def sizes(pca, rows):
        return [message for message in told(pca, rows, SmallSampleWarning) if message.startswith("n_samples=")]

    (message,) = sizes(PrivatePCA(epsilon=0.1), X)
    assert message.startswith("n_samples=569 and epsilon=0.1 are too small for 30 features")
    assert sizes(PrivatePCA(epsilon=0.1), np.zeros((569, 30))) == [message]
    assert sizes(PrivatePCA(epsilon=5), X) == sizes(PrivatePCA(epsilon=0.2, delta=1e-6), X) == []


def test_components_below_the_noise_are_told_of_by_released_numbers():
    rng = np.random.default_rng(0)
    (message,) = told(PrivatePCA(2, random_state=0), rng.random((300, 12)), SmallSampleWarning)
    assert message.startswith("None of the components stands above noise_edge_=")
    assert told(PrivatePCA(2), low_rank(20_000, 12), SmallSampleWarning) == []


@pytest.mark.parametrize("bounds", [(-1e-148, 1e-148), (-4.9e139, 4.9e139), (1e6, 1e6 + 1e-3), ([0, 0, -1e139], [1e-140, 1, 0])])
def test_bounds_of_any_size_serve(bounds):
    """What is squared, also times the most noise there is."""
    low, high = (np.broadcast_to(np.asarray(side, dtype=float), 3) for side in bounds)
    for noise, epsilon in itertools.product(KINDS, (1, 1e-9)):
        pca = PrivatePCA(noise=noise, delta=KINDS[noise] and 1e-9, epsilon=epsilon, bounds=(low, high))
        pca.fit(low + (high - low) * low_rank(500, 3))
        for shown in (pca.covariance_, pca.components_, pca.explained_variance_, pca.noise_edge_):
            assert np.isfinite(shown).all()
