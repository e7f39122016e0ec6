"""The latent factor model: its objective, what it recovers, where it stops, and what it samples."""

from itertools import combinations

import numpy as np
import pytest
from internals import quasi_normal
from laws import ALARM, CERTAIN, chi_squared, has_law
from scipy import stats

from skdpsynth.models import BlockTables, LatentFactors

pytestmark = pytest.mark.all_fits

SIZES = [2, 3, 5, 4]
PAIRS = list(combinations(range(4), 2))


def a_model(seed=0, strength=1.0, sizes=SIZES, n_factors=2, shape=(1, 1)):
    """A model of `shape`: fits and classes."""
    rng = np.random.default_rng(seed)
    intercepts, loadings = rng.normal(0, 0.7, (*shape, sum(sizes))), strength * rng.normal(size=(*shape, sum(sizes), n_factors))
    return LatentFactors(np.array(sizes), quasi_normal(256, n_factors), intercepts, loadings)


def blocks(model, label=0):
    """P(code | node) of each column."""
    return np.split(model.probabilities(label), np.cumsum(model.sizes)[:-1])


def margins(model, label=0):
    return [block.mean(axis=1) for block in blocks(model, label)]


def tables(model, pairs=PAIRS, label=0):
    P = blocks(model, label)
    return {(i, j): P[i] @ P[j].T / P[i].shape[1] for i, j in pairs}


def refit(one_way, two_way, n=10_000.0, deviations=(0.0, 0.0), n_factors=4):
    counts = [n * p[None] for p in one_way], {pair: n * p[None] for pair, p in two_way.items()}
    return LatentFactors.of(BlockTables(*counts, [n], deviations), n_factors)


def distance(first, second):
    """The largest total variation between tables."""
    return max(np.abs(first[key] - second[key]).sum() / 2 for key in first)


@pytest.mark.parametrize(("n", "n_fits"), [(10, 1), (2000, 1), (2001, 2), (5725, 3), (1e9, 10)])
def test_fits_are_mixed_as_far_as_each_has_its_rows(n, n_fits):
    model = a_model()
    assert len(refit(margins(model), tables(model), n, (30.0, 30.0)).loadings) == n_fits


def test_probabilities_are_a_softmax_of_the_factors():
    model = a_model(shape=(2, 3))
    z, rows = model.nodes[17], slice(2, 5)  # of the second column
    odds = np.exp(model.intercepts[1, 2, rows] + model.loadings[1, 2, rows] @ z)
    np.testing.assert_allclose(model.probabilities(2)[rows, 256 + 17], odds / odds.sum())
    for block in blocks(a_model(strength=40.0, shape=(3, 2)), 1):
        assert block.shape[1] == 3 * 256
        assert block.min() >= 0
        np.testing.assert_allclose(block.sum(axis=0), 1, atol=1e-12)


def test_nodes_stand_for_normal_factors_and_are_public():
    nodes = quasi_normal(256, 3)
    np.testing.assert_array_equal(nodes, quasi_normal(256, 3))
    for z in nodes.T:
        assert stats.kstest(z, "norm").statistic < 2 / 256  # a point in each of 256 parts
    assert np.abs(np.corrcoef(nodes.T) - np.eye(3)).max() < 0.05


def test_a_model_is_recovered_from_its_exact_tables():
    truth = a_model(0, strength=1.5)
    model = refit(margins(truth), tables(truth))
    assert distance(tables(model), tables(truth)) < 0.015
    independent = {(i, j): np.outer(margins(truth)[i], margins(truth)[j]) for i, j in PAIRS}
    assert distance(independent, tables(truth)) > 0.1


def test_of_columns_without_pairs_the_frequencies_are_kept_exactly():
    one_way = [np.array([0.0, 1.0]), np.array([0.2, 0.0, 0.8])]
    model = refit(one_way, {})
    for got, wanted in zip(margins(model), one_way, strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-7)
    P = model.probabilities()
    np.testing.assert_allclose(P, np.repeat(P[:, :1], P.shape[1], axis=1))


def test_a_pair_that_was_not_counted_does_not_pull():
    """The first two columns are equal, and so are the last two; nothing is said of the others."""
    equal = np.eye(3) / 3
    model = refit([np.full(3, 1 / 3)] * 4, {(0, 1): equal, (2, 3): equal})
    got = tables(model)
    assert distance({0: got[0, 1], 1: got[2, 3]}, {0: equal, 1: equal}) < 0.05


def test_frequencies_of_pairs_are_those_of_the_model():
    """40,000 rows; half as strong factors fail."""
    model, n = a_model(strength=1.5, shape=(2, 2)), 40_000
    codes = model.sample(n, np.random.default_rng(1), label=1)
    weaker = LatentFactors(model.sizes, model.nodes, model.intercepts, model.loadings / 2)
    for (i, j), wanted in tables(model, label=1).items():
        observed = np.histogram2d(codes[i], codes[j], [np.arange(SIZES[i] + 1), np.arange(SIZES[j] + 1)])[0]
        assert chi_squared(observed, wanted) > ALARM
        assert chi_squared(observed, tables(weaker, label=1)[i, j]) < CERTAIN


@pytest.mark.parametrize("n", [1, 3])
def test_the_first_row_of_a_small_sample_has_the_law_of_the_model(n):
    """Independent columns fail."""
    model, rng = a_model(strength=2.0, sizes=[2, 3]), np.random.default_rng(5)

    def first_rows(n_rows):
        first = np.array([model.sample(n, rng)[:, 0] for _ in range(n_rows)])
        return np.bincount(3 * first[:, 0] + first[:, 1], minlength=6)

    observed = first_rows(1000)
    assert has_law(
        lambda n_rows: observed if n_rows == 1000 else first_rows(n_rows), lambda o: chi_squared(o, tables(model, [(0, 1)])[0, 1]), 1000
    )
    assert chi_squared(observed, np.outer(*margins(model))) < CERTAIN


def test_less_noise_loses_no_dependence():
    codes = np.arange(24)
    band = np.exp(-np.abs(codes[:, None] - codes) / 2)
    band /= band.sum()
    one_way = [band.sum(axis=0)] * 4
    two_way = {pair: band if pair in ((0, 1), (2, 3)) else np.outer(one_way[0], one_way[0]) for pair in PAIRS}
    noisy, exact = (refit(one_way, two_way, 2000.0, deviations, 32) for deviations in ((1.0, 1.0), (0.0, 0.08)))
    assert distance(tables(exact), two_way) < 1.2 * distance(tables(noisy), two_way)
