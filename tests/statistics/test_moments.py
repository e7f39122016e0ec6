"""Exact second moments, and how far one row can move them."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdpsynth.decomposition import _gaussian_scales, _laplace_scales
from skdpsynth.domain import Box
from skdpsynth.statistics import Moments


def brute_force(X, box):
    """n, total and second moment in Python integers."""
    K = 2**box.bits - 1
    rows = [[2 * int(q) - K for q in row] for row in box.quantize(X)]
    d = box.n_features
    total = [sum(y[i] for y in rows) for i in range(d)]
    second = [[sum(y[i] * y[j] for y in rows) for j in range(d)] for i in range(d)]
    return len(rows), total, second


def assert_same(a, b):
    assert a.n_samples == b.n_samples
    np.testing.assert_array_equal(a.total, b.total)
    np.testing.assert_array_equal(a.second, b.second)


def unit_box(d, bits=16):
    return Box(np.zeros(d), np.ones(d), bits=bits)


@pytest.mark.parametrize("bits", [1, 8, 16])
@pytest.mark.parametrize(("n_samples", "d"), [(0, 2), (1, 1), (1, 5), (50, 3), (200, 70)])
def test_moments_equal_brute_force_in_python_integers(n_samples, d, bits):
    box = Box(np.linspace(-2, 0, d), np.linspace(1, 3, d), bits=bits)
    X = np.random.default_rng(d).uniform(-3, 4, (n_samples, d))
    moments = Moments.of(X, box)
    n, total, second = brute_force(X, box)
    assert moments.n_samples == n
    assert moments.total.tolist() == total
    assert moments.second.tolist() == second
    assert moments.total.dtype == moments.second.dtype == np.int64


def test_moments_of_many_rows_at_the_corners_are_exact():
    # The largest sums that floats have to hold: all rows at one corner, several chunks.
    box, n = unit_box(2), 200_000
    moments = Moments.of(np.tile([1.0, 0.0], (n, 1)), box)
    K = 2**16 - 1
    assert moments.total.tolist() == [n * K, -n * K]
    assert moments.second.tolist() == [[n * K * K, -n * K * K], [-n * K * K, n * K * K]]


@given(cuts=st.lists(st.integers(0, 60), max_size=5), seed=st.integers(0, 2**32))
@settings(max_examples=50, deadline=None)
def test_chunks_merged_with_plus_give_the_moments_of_the_whole(cuts, seed):
    X = np.random.default_rng(seed).uniform(-0.5, 1.5, (60, 3))
    box = unit_box(3)
    parts = [Moments.of(part, box) for part in np.split(X, sorted(cuts))]
    assert_same(sum(parts[1:], start=parts[0]), Moments.of(X, box))


@given(order=st.permutations(range(20)))
@settings(max_examples=20, deadline=None)
def test_order_of_rows_does_not_matter(order):
    X = np.random.default_rng(0).random((20, 4))
    assert_same(Moments.of(X[order], unit_box(4)), Moments.of(X, unit_box(4)))


def test_too_fine_a_grid_is_refused():
    with pytest.raises(ValueError, match=r"^bits=30 is too fine"):
        Moments.of(np.zeros((1, 1)), unit_box(1, bits=30))


# Sensitivity: all pairs of neighbours, by brute force


def pairs_of_rows(values, d):
    """Every y as (total, upper second moment), and the L1-ready differences of all pairs."""
    Y = np.array(list(product(values, repeat=d)), dtype=np.int64)
    i, j = np.triu_indices(d)
    P = Y[:, i] * Y[:, j]
    return Y[:, None] - Y, P[:, None] - P


def odd_grid(bits):
    K = 2**bits - 1
    return range(-K, K + 1, 2), K


def largest_laplace_loss(values, d, K, epsilon, private_mean):
    """Supremum over all pairs, an exact Fraction."""
    t, s = _laplace_scales(d, K, epsilon, private_mean)
    dS, dP = (np.abs(difference).sum(axis=2) for difference in pairs_of_rows(values, d))
    # Only the largest |dP| for each |dS| can attain the supremum.
    return max((Fraction(int(a)) / t if private_mean else 0) + Fraction(int(dP[dS == a].max())) / s for a in np.unique(dS))


@pytest.mark.parametrize("private_mean", [True, False])
@pytest.mark.parametrize(("d", "bits"), [(1, 1), (1, 6), (2, 1), (2, 3), (3, 1), (3, 2)])
def test_joint_laplace_loss_of_one_row_is_at_most_epsilon_on_the_grid_and_close_to_it(d, bits, private_mean):
    epsilon = Fraction(7, 10)
    values, K = odd_grid(bits)
    loss = largest_laplace_loss(values, d, K, epsilon, private_mean)
    assert epsilon * (1 - Fraction(1, K)) <= loss <= epsilon  # short by O(1/K): zero is not on the grid


@pytest.mark.parametrize("private_mean", [True, False])
@pytest.mark.parametrize(("d", "K"), [(1, 4), (1, 20), (2, 4), (2, 8), (3, 4)])
def test_joint_laplace_loss_of_one_row_is_exactly_epsilon_on_all_whole_numbers(d, K, private_mean):
    # The supremum is at y = (K, ..., K) and y' = (-K/4, ..., -K/4), or 0 without the mean.
    epsilon = Fraction(3, 10)
    assert largest_laplace_loss(range(-K, K + 1), d, K, epsilon, private_mean) == epsilon


@pytest.mark.parametrize("d", [5, 10, 50])
def test_joint_laplace_loss_is_attained_in_many_dimensions(d):
    K, epsilon = 4, Fraction(1)
    t, s = _laplace_scales(d, K, epsilon, True)
    upper = d * (d + 1) // 2
    assert d * (K + 1) / t + upper * (K * K - 1) / s == epsilon


@pytest.mark.parametrize(("d", "values"), [(1, 15), (2, 9), (3, 5), (4, 3)])
def test_squared_move_of_the_moments_in_l2_is_within_the_bounds_of_the_gaussian_scales(d, values):
    K = 8
    grid = np.unique(np.linspace(-K, K, values).astype(int))
    dS, dP = (np.sum(difference**2, axis=2) for difference in pairs_of_rows(grid, d))
    assert dS.max() == 4 * K * K * d
    assert dP.max() <= K**4 * d * d
    if d % 2 == 0:
        assert dP.max() == K**4 * d * d  # attained at balanced vertices


@pytest.mark.parametrize("rho", [Fraction(1, 57), Fraction(2)])
@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_gaussian_scales_cost_at_most_rho_for_all_pairs_of_vertices(d, rho):
    K = 15
    t, s = _gaussian_scales(d, K, rho, True)
    dS, dP = (np.sum(difference**2, axis=2) for difference in pairs_of_rows([-K, -1, 1, K], d))
    assert np.max(dS / (2 * float(t) ** 2) + dP / (2 * float(s) ** 2)) <= float(rho)
    # and the budget is used: the two bounds add up to rho, but for rounding up to whole numbers
    bound = Fraction(4 * K * K * d) / (2 * t**2) + Fraction(K**4 * d * d) / (2 * s**2)
    assert rho * (1 - Fraction(1, 10)) <= bound <= rho
    assert _gaussian_scales(d, K, rho, False)[1] == math.ceil(K * K * d / math.sqrt(2 * rho))


def test_replacing_one_row_moves_the_moments_by_the_difference_of_the_two_rows():
    X = np.random.default_rng(0).random((30, 3))
    neighbour = X.copy()
    neighbour[17] = [1.0, 0.0, 0.3]
    box = unit_box(3, bits=4)
    a, b = Moments.of(X, box), Moments.of(neighbour, box)
    y, z = (2 * box.quantize(rows[17:18]) - 15 for rows in (X, neighbour))
    np.testing.assert_array_equal(b.total - a.total, (z - y)[0])
    np.testing.assert_array_equal(b.second - a.second, z.T @ z - y.T @ y)
