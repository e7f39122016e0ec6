"""Training of latent factors: its objective, its priors, how noise is split, and when it ends."""

from itertools import combinations

import numpy as np
import pytest
from internals import Smoothness, Targets, choose_variance, nearest_probabilities, quasi_normal, softmax, train_factors
from internals import _latent_factors as latent_factors
from internals import _training as training
from scipy.optimize import brentq

from skdpsynth.models import BlockTables, LatentFactors

pytestmark = pytest.mark.all_fits

SIZES = np.array([2, 3, 4])
PAIRS = list(combinations(range(3), 2))


def some_targets(seed, n_classes=1, n=1000.0, deviations=(20.0, 30.0), pairs=PAIRS, precisions=None):
    """Noise alone: tables that no model has."""
    rng, targets = np.random.default_rng(seed), []
    for _ in range(n_classes):
        one_way = [n / size + rng.normal(0, deviations[0], size) for size in SIZES]
        two_way = {(i, j): n / SIZES[i] / SIZES[j] + rng.normal(0, deviations[1], (SIZES[i], SIZES[j])) for i, j in pairs}
        targets.append(Targets.of(one_way, two_way, n, deviations, precisions=precisions))
    return targets


def objective(targets, nodes, fit, variance):
    """The documented one, in doubles."""
    total = 0.0
    for target, a, B in zip(targets, fit.intercepts, fit.loadings, strict=True):
        P = softmax(a[:, None] + B @ nodes.T, target.to_columns)
        error = (P @ P.T / P.shape[1] - target.two_way) * target.mask
        error *= 1.0 if target.precision is None else target.precision**0.5
        total += target.n**2 * ((error**2).sum() / 2 + target.weight * ((P.mean(axis=1) - target.one_way) ** 2).sum()) / 2
    shared = fit.loadings.mean(axis=0)  # what classes share is best where their own parts add up to nothing, if it costs less
    own = ((fit.loadings - shared) ** 2).sum() / training.CLASS_SHARE if len(targets) > 1 else 0.0
    return total + targets[0].deviation ** 2 * ((shared**2).sum() + own) / (2 * variance)


@pytest.mark.parametrize(("pairs", "precisions"), [(PAIRS, None), (PAIRS[:1], None), (PAIRS, {(0, 1): 2.0, (1, 2): 0.25})])
def test_the_fit_is_a_stationary_point_of_the_objective(pairs, precisions, monkeypatch):
    """By central differences in doubles: slopes are below a hundredth of those after one step."""
    monkeypatch.setattr(training, "PLATEAU_TOLERANCE", 0.0)
    targets, nodes = some_targets(0, pairs=pairs, precisions=precisions), quasi_normal(256, 2)

    def slopes(fit):
        flat = np.concatenate([fit.intercepts.ravel(), fit.loadings.ravel()])
        n_intercepts = fit.intercepts.size

        def at(x):
            moved = training.FactorFit(x[:n_intercepts].reshape(fit.intercepts.shape), x[n_intercepts:].reshape(fit.loadings.shape), 0)
            return objective(targets, nodes, moved, 0.5)

        return np.array([(at(flat + step) - at(flat - step)) / 2e-4 for step in 1e-4 * np.eye(len(flat))])

    end, start = (slopes(*train_factors(targets, nodes, 0.5, [0], n_steps)) for n_steps in (3000, 1))
    assert np.abs(end).max() < 1e-2 * np.abs(start).max()


@pytest.mark.parametrize("n_classes", [1, 3])
def test_no_loadings_near_those_found_are_more_likely(n_classes, monkeypatch):
    monkeypatch.setattr(training, "PLATEAU_TOLERANCE", 0.0)
    targets, nodes, rng = some_targets(1, n_classes), quasi_normal(256, 2), np.random.default_rng(0)
    (fit,) = train_factors(targets, nodes, 0.5, [0], 3000)
    best = objective(targets, nodes, fit, 0.5)
    for _ in range(50):
        moved = training.FactorFit(fit.intercepts, fit.loadings + rng.normal(0, 0.05, fit.loadings.shape), 0)
        assert objective(targets, nodes, moved, 0.5) > best


@pytest.mark.parametrize("precision", [1.0, 0.25])
def test_split_tables_have_the_table_between_them_and_twice_the_variance(precision):
    """Of 60,000 cells: the mean and the variance of the difference, within 6.5 standard errors, and no correlation."""
    sizes, deviation, n = np.array([200, 300]), 30.0, 1000.0
    tables = {(0, 1): np.full((200, 300), n / 60_000)}
    target = Targets.of([np.full(size, n / size) for size in sizes], tables, n, (20.0, deviation), precisions={(0, 1): precision})
    deviation /= precision**0.5
    noise, rng = np.random.default_rng(1).normal(0, deviation / n, (200, 300)), np.random.default_rng(0)
    target.two_way[:200, 200:] += noise
    target.two_way[200:, :200] += noise.T
    first, second = (part.two_way[:200, 200:] - 1 / 60_000 for part in target.split(rng))
    np.testing.assert_allclose((first + second) / 2, noise, atol=1e-6)
    for part in (first, second):
        assert abs(part.var() / (2 * (deviation / n) ** 2) - 1) < 6.5 * (2 / 60_000) ** 0.5
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 6.5 / 60_000**0.5


def test_splitting_leaves_what_was_not_counted_and_stays_symmetric():
    target = some_targets(3, pairs=PAIRS[:1])[0]
    for part in target.split(np.random.default_rng(0)):
        np.testing.assert_array_equal(part.two_way, part.two_way.T)
        assert not (part.two_way * (1 - target.mask)).any()
        assert part.deviation == target.deviation * 2**0.5


def noisy_model(strength, deviation, seed=0):
    """Tables of 12 columns with normal noise, and the exact ones."""
    sizes, n, rng = np.full(12, 5), 20_000.0, np.random.default_rng(seed)
    truth = LatentFactors(sizes, quasi_normal(256, 2), rng.normal(0, 0.7, (1, 1, 60)), strength * rng.normal(size=(1, 1, 60, 2)))
    pairs = list(combinations(range(12), 2))
    exact = tables_of(truth, pairs)
    two_way = {pair: n * table + rng.normal(0, deviation, table.shape) for pair, table in exact.items()}
    one_way = [n * block.mean(axis=1) + rng.normal(0, deviation, 5) for block in np.split(truth.probabilities(), 12)]
    return one_way, two_way, n, exact, pairs


def tables_of(model, pairs):
    P = np.split(model.probabilities(), np.cumsum(model.sizes)[:-1])
    return {(i, j): P[i] @ P[j].T / P[i].shape[1] for i, j in pairs}


def square_error(model, exact, pairs):
    return sum(((got - exact[pair]) ** 2).sum() for pair, got in tables_of(model, pairs).items())


@pytest.mark.parametrize(("strength", "variances"), [(0.0, {0.05}), (1.5, {0.2, 0.4, 1.0})])
def test_the_noise_tells_how_strong_factors_may_be(strength, variances):
    """Independent columns get the narrowest prior, strongly dependent ones a wide one."""
    one_way, two_way, n, _, _ = noisy_model(strength, 60.0)
    variance, work = choose_variance([Targets.of(one_way, two_way, n, (60.0, 60.0))], quasi_normal(256, 8), 1e9)
    assert variance in variances
    assert work > 0


def test_without_noise_or_time_nothing_is_split():
    one_way, two_way, n, _, _ = noisy_model(1.0, 0.0)
    nodes = quasi_normal(256, 8)
    assert choose_variance([Targets.of(one_way, two_way, n, (0.0, 0.0))], nodes, 1e9) == (training._USUAL, 0.0)
    assert choose_variance([Targets.of(one_way, two_way, n, (60.0, 60.0))], nodes, 1.0) == (training._USUAL, 0.0)


@pytest.mark.parametrize("deviation", [100.0, *(pytest.param(each, marks=pytest.mark.nightly) for each in (30.0, 300.0))])
def test_the_chosen_prior_comes_closer_to_the_truth_than_none_and_fits_together_than_each(deviation, monkeypatch):
    """Squared errors of all pairs."""
    one_way, two_way, n, exact, pairs = noisy_model(1.0, deviation)
    counts = [t[None] for t in one_way], {pair: t[None] for pair, t in two_way.items()}
    model = LatentFactors.of(BlockTables(*counts, [n], (deviation, deviation)), 16)
    single = [LatentFactors(model.sizes, model.nodes, a[None], B[None]) for a, B in zip(model.intercepts, model.loadings, strict=True)]
    monkeypatch.setattr(latent_factors, "choose_variance", lambda *_: (1e9, 0.0))
    free = LatentFactors.of(BlockTables(*counts, [n], (deviation, deviation)), 16)
    assert square_error(model, exact, pairs) < square_error(free, exact, pairs)
    assert square_error(model, exact, pairs) < np.mean([square_error(of, exact, pairs) for of in single])


def test_work_is_bounded_for_many_codes(monkeypatch):
    """One fit of the fewest steps, and no choice of a prior, whatever the tables."""
    monkeypatch.setattr(latent_factors, "_WORK", 1.0)
    one_way, two_way, n, _, _ = noisy_model(1.0, 10.0)
    seen = []
    monkeypatch.setattr(latent_factors, "train_factors", lambda *arguments: seen.append(arguments[-1]) or train_factors(*arguments))
    model = LatentFactors.of(BlockTables([t[None] for t in one_way], {pair: t[None] for pair, t in two_way.items()}, [n], (10.0, 10.0)), 4)
    assert len(model.loadings) == 1
    assert seen == [latent_factors._LEAST_STEPS]


def test_the_projection_is_the_nearest_point_of_the_simplex():
    """It is max(v - t, 0) for the t at which that sums to 1, by bisection."""
    rng = np.random.default_rng(0)
    for size in (1, 2, 5, 40):
        v = rng.normal(0, 2, size)
        t = brentq(lambda t, v=v: np.maximum(v - t, 0).sum() - 1, v.min() - 2, v.max(), xtol=1e-14)
        np.testing.assert_allclose(nearest_probabilities(v), np.maximum(v - t, 0), atol=1e-10)


def test_trends_are_likely_before_and_jumps_are_not():
    smoothness = Smoothness.of([0, 12], [12, 0])
    rng, trend = np.random.default_rng(0), np.linspace(-1, 1, 12)
    trend /= np.linalg.norm(trend)
    jumps = np.where(np.arange(12) % 2, 1.0, -1.0) / np.sqrt(12)
    cost = [float(each @ smoothness.times(np.append(each, np.zeros(3)).astype(np.float32)[:, None])[:12, 0]) for each in (trend, jumps)]
    assert cost[0] < 0.3 < 2 < cost[1]
    loadings = rng.normal(size=(15, 4)).astype(np.float32)
    np.testing.assert_array_equal(smoothness.times(loadings)[12:], loadings[12:])


def test_in_the_mean_over_codes_loadings_vary_as_independent_ones_do():
    """All frequencies but the constant, which no probability depends on, have variance 1 in the mean."""
    ((rows, precision),) = Smoothness.of([3], [9]).parts
    assert rows == slice(3, 12)
    np.testing.assert_allclose(precision, precision.T, atol=1e-5)
    ends = np.linalg.eigvalsh(np.linalg.inv(precision.astype(float)))
    constant = float(np.ones(9) @ np.linalg.solve(precision.astype(float), np.ones(9))) / 9
    assert (ends.sum() - constant) / 8 == pytest.approx(1, rel=1e-4)
    assert ends.min() > 0


def correlation_of_fit(n_ordered, seed):
    """Fit two columns of 16 codes with correlation .5, with noise as large as the counts of most cells."""
    rng, n = np.random.default_rng(seed), 5000
    x = rng.normal(size=(2, n))
    codes = np.digitize(np.array([x[0], 0.5 * x[0] + 0.75**0.5 * x[1]]), np.quantile(x[0], np.arange(1, 16) / 16))
    table = np.zeros((16, 16))
    np.add.at(table, tuple(codes), 1)
    noise = rng.normal(0, 20, table.shape)
    noise = noise - noise.mean(axis=0) - (noise - noise.mean(axis=0)).mean(axis=1, keepdims=True)
    targets = Targets.of([table.sum(axis=1), table.sum(axis=0)], {(0, 1): table + noise}, n, (5.0, 20.0), n_ordered=n_ordered)
    (fit,), nodes = train_factors([targets], quasi_normal(256, 4), 0.1, [0], 300), quasi_normal(256, 4)
    logits = fit.intercepts[0][:, None] + fit.loadings[0] @ nodes.T
    P = [np.exp(part) / np.exp(part).sum(axis=0) for part in np.split(logits, 2)]
    joint, places = P[0] @ P[1].T / 256, np.arange(16)
    means = [places @ joint.sum(axis=1 - axis) for axis in (0, 1)]
    deviations = [np.sqrt((places - mean) ** 2 @ joint.sum(axis=1 - axis)) for axis, mean in enumerate(means)]
    found = (places - means[0]) @ joint @ (places - means[1]) / np.prod(deviations)
    return float(found)


def test_a_trend_is_kept_beside_noise_where_codes_have_an_order():
    for seed in range(3):
        ordered, free = (correlation_of_fit(n_ordered, seed) for n_ordered in ((16, 16), (0, 0)))
        assert ordered > 0.15 > 0.05 > free
