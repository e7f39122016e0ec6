"""Tables in a noisy Gram matrix: as exact as the matrix, with the variances that are stated, as least squares would find them."""

import numpy as np
import pytest

from skdpsynth.models import Estimates, NoisyGram, expected_error, gram_variances
from skdpsynth.statistics import CodedGram, Marginals

SIZES = [2, 3, 1, 5]


def exact_gram(n_classes=2, n=5000, weights=(1.0, 1.3, 1.0, 0.8)):
    rng = np.random.default_rng(4)
    codes = [rng.choice(size, size=n, p=rng.dirichlet(np.ones(size))) for size in [*SIZES, n_classes]]
    codes[1] = np.where(rng.random(n) < 0.5, codes[0], codes[1])
    over = CodedGram.over(SIZES, weights, 1.4, n_classes)
    last = len(SIZES)
    tables = Marginals.of(codes, [*SIZES, n_classes], [(last, *pair) for pair in over.pairs])
    exact = dict(zip(over.pairs, tables.tables(), strict=True))
    return over, over.query(tables, "replace_one").values, exact


def symmetric_noise(rng, shape, variance):
    Z = rng.standard_normal(shape) * np.sqrt(2 * variance)
    return (Z + Z.swapaxes(-1, -2)) / 2


def noisy(over, values, variance=0.0):
    return NoisyGram(values, over.codes, over.coordinate, variance)


def test_without_noise_the_estimates_are_the_counts():
    over, values, exact = exact_gram()
    estimates = Estimates.of([noisy(over, values)], over.pairs)
    for pair, table in exact.items():
        np.testing.assert_allclose(estimates.tables[pair], table, atol=1e-6)
    assert not any(estimates.variances.values())


@pytest.mark.parametrize("n_is_public", [True, False])
def test_the_errors_of_estimates_have_the_stated_variances(n_is_public):
    over, values, exact = exact_gram()
    rng, variance, errors = np.random.default_rng(7), 1e12, {}
    for _ in range(2000):
        drawn = noisy(over, values + symmetric_noise(rng, values.shape, variance), variance)
        estimates = Estimates.of([drawn], over.pairs, 5000 if n_is_public else None)
        for pair, table in exact.items():
            errors.setdefault(pair, []).append(((estimates.tables[pair] - table) ** 2).mean())
    for pair, squares in errors.items():
        np.testing.assert_allclose(np.mean(squares), estimates.variances[pair], rtol=0.05)


def test_parts_are_least_squares_estimates_and_their_errors_uncorrelated():
    """Brute force: the nearest matrix, in the distance of the noise, that counts of all combinations could make."""
    sizes, variance = [2, 3], 1e10
    over = CodedGram.over(sizes, [1.0, 1.0], 1.4)
    cells = [(a, b) for a in range(2) for b in range(3)]
    units = []
    for a, b in cells:
        v = np.concatenate([[over.coordinate], over.codes[0][:, a], over.codes[1][:, b]])
        units.append(np.outer(v, v)[np.triu_indices(len(v))])
    weigh = np.where(np.equal(*np.triu_indices(over.n_rows)), 0.5, 1.0)
    A, drawn = np.array(units, dtype=float).T, symmetric_noise(np.random.default_rng(1), (over.n_rows, over.n_rows), variance)
    y = A @ np.arange(10.0, 70.0, 10.0) + drawn[np.triu_indices(over.n_rows)]
    precision = A.T @ (weigh[:, None] * A)
    expected = np.linalg.solve(precision, A.T @ (weigh * y))
    matrix = np.zeros((1, over.n_rows, over.n_rows))
    matrix[0][np.triu_indices(over.n_rows)] = y
    matrix[0] += np.triu(matrix[0], 1).T
    estimates = Estimates.of([noisy(over, matrix, variance)], [(0, 1)])
    scale = np.sqrt(variance * np.diag(np.linalg.inv(precision)))
    np.testing.assert_allclose(estimates.tables[0, 1].ravel(), expected, atol=0.01 * scale.max())
    np.testing.assert_allclose(np.sqrt(estimates.variances[0, 1]), np.sqrt((scale**2).mean()), rtol=0.01)


def test_pairs_weigh_in_a_fit_by_their_own_precision():
    over, values, _ = exact_gram()
    two_way = Estimates.of([noisy(over, values, 1e9)], over.pairs).two_way
    variances = {part: variance for part, variance in gram_variances(over.codes, over.coordinate, 1e9) if len(part) == 2}
    assert two_way.precisions == pytest.approx({pair: two_way.variance / variance for pair, variance in variances.items()})
    assert max(two_way.precisions.values()) > 1.5 * min(two_way.precisions.values())


def test_the_expected_error_of_a_gram_matrix_is_that_of_its_estimates():
    over, values, _ = exact_gram(n_classes=1)
    estimates = Estimates.of([noisy(over, values, 1e9)], over.pairs)
    sums = {place: table[0].size * np.sqrt(estimates.variances[place]) for place, table in estimates.tables.items()}
    means = [np.mean([each for place, each in sums.items() if len(place) == n]) for n in (1, 2)]
    expected = expected_error(SIZES, over.pairs, gram_variances(over.codes, over.coordinate, 1e9))
    assert expected == pytest.approx(means[1] * means[0] ** 0.25)
