"""The prior of loadings along codes that have an order."""

import numpy as np
import pytest
from internals import Smoothness, Targets, quasi_normal, train_factors


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
