"""Mass shared downwards in a tree whose counts are noisy."""

import numpy as np
import pytest
from internals import _smooth_shares, split_mass

from skdpsynth.measures import least_squares, mass_from_root


def noisy_tree(leaves, deviation, rng):
    """Least squares of noisy counts of all levels, and their variances."""
    depth = int(np.log2(len(leaves)))
    levels = [leaves.reshape(2**j, -1).sum(axis=1) + deviation * rng.normal(size=2**j) for j in range(1, depth + 1)]
    return least_squares([None, *levels], [np.inf, *[deviation**2] * depth])


def test_where_noise_is_little_estimates_are_taken_as_they_are():
    rng = np.random.default_rng(1)
    estimates, errors = noisy_tree(rng.integers(1000, 2000, 16).astype(float), 1.0, rng)
    found = split_mass(estimates[1:], errors[1:], estimates[0][0], 16)
    np.testing.assert_allclose(found, mass_from_root(estimates[1:], np.array(estimates[0][0])))


def test_a_share_is_its_posterior_mean():
    """Of one split, against a fine quadrature of the arcsine law."""
    mass, difference, variance = 10.0, 4.0, 8.0
    angles = (np.arange(100_000) + 0.5) / 100_000 * np.pi
    weights = np.exp(-((difference - mass * np.cos(angles)) ** 2) / (2 * variance))
    exact = (weights * (1 + np.cos(angles)) / 2).sum() / weights.sum()
    found = split_mass([np.array([7.0, 3.0])], [variance / 2], mass, 2)[0] / mass
    assert found == pytest.approx(exact, abs=1e-3)


@pytest.mark.parametrize("n_cells", [1, 37, 64])
def test_noise_alone_makes_the_uniform_law_of_the_cells_that_there_are(n_cells):
    estimates = [np.zeros(2**j) for j in range(1, 7)]
    mass = split_mass(estimates, [1e12] * 6, 1.0, n_cells)
    assert mass.sum() == pytest.approx(1)
    np.testing.assert_allclose(mass, 1 / n_cells, rtol=0.15)


def test_of_few_rows_it_is_closer_than_cut_estimates():
    """Mean Kolmogorov distance of 40 tables of 150 rows, with noise of 40: about half; a false alarm is out of reach."""
    rng, distances = np.random.default_rng(2), np.zeros(2)
    for _ in range(40):
        leaves = np.bincount(np.clip(rng.normal(20, 10, 150).astype(int), 0, 63), minlength=64)
        estimates, errors = noisy_tree(leaves, 40.0, rng)
        laws = split_mass(estimates[1:], errors[1:], 150.0, 64), mass_from_root(estimates[1:], np.array(150.0))
        assert all((law >= 0).all() and law.sum() == pytest.approx(150) for law in laws)
        distances += [np.abs(np.cumsum(law / 150 - leaves / 150)).max() for law in laws]
    assert distances[0] < 0.8 * distances[1]


def test_an_atom_stays():
    """Nine rows in ten are in one cell, 30 deviations of the noise: the law keeps it within a twentieth."""
    rng = np.random.default_rng(3)
    leaves = np.full(64, 1)
    leaves[0] = 600
    estimates, errors = noisy_tree(leaves, 20.0, rng)
    assert split_mass(estimates[1:], errors[1:], 663.0, 64)[0] / 663 == pytest.approx(600 / 663, abs=0.05)


def test_means_follow_the_parabola_of_the_masses_beside_a_node():
    """Halves of the integrals of 2 + x - x^2 / 8 over six nodes: exact but for the parts in which shares are counted."""
    upto = np.polynomial.Polynomial([2, 1, -1 / 8]).integ()(np.linspace(0, 6, 13))
    halves = np.diff(upto).reshape(6, 2)
    found = _smooth_shares(halves.sum(axis=1), np.full(6, 4), np.full(6, 4))
    np.testing.assert_allclose(found[1:-1], (halves[:, 0] / halves.sum(axis=1))[1:-1], atol=1 / 128)


def test_ends_that_noise_hides_are_not_spread_out():
    """Variance of 30 noisy laws of 5,000 numbers in the lowest part of their bounds: within a tenth; with even splits a sixth too large."""
    rng, found = np.random.default_rng(4), []
    for _ in range(30):
        leaves = np.bincount(np.clip(rng.gamma(4, 10, 5000).astype(int), 0, 255), minlength=256)
        estimates, errors = noisy_tree(leaves, 60.0, rng)
        mass = split_mass(estimates[1:], errors[1:], 5000.0, 256)
        found.append([np.average((np.arange(256) - np.average(np.arange(256), weights=law)) ** 2, weights=law) for law in (mass, leaves)])
    ratio = np.divide(*np.sum(found, axis=0))
    assert ratio == pytest.approx(1, abs=0.1)
