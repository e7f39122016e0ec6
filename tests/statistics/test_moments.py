"""Exact second moments, and how far one row can move them."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdpsynth.domain import Box
from skdpsynth.privacy import PrivacyLoss, gaussian_scale, mechanism
from skdpsynth.statistics import Moments, Packing


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


# Sensitivity: all rows, and all pairs of them, by brute force


def odd_grid(bits):
    """The coordinates that rows have: never 0."""
    K = 2**bits - 1
    return range(-K, K + 1, 2)


def largest_moves(packing, values, relation):
    """Largest l1, squared l2 and sup norm that one row moves the packed moments by, over all rows of a grid."""
    rows = np.array(list(product(values, repeat=packing.n_features)), dtype=np.int64)
    packed = np.array([packing.packed(Moments(1, y, np.outer(y, y))) for y in rows])
    if relation == "add_or_remove_one":
        moves = packed
    else:
        moves = (packed[:, None] - packed).reshape(len(rows) ** 2, packing.n_values)
    return np.abs(moves).sum(axis=1).max(), (moves**2).sum(axis=1).max(), np.abs(moves).max()


GRIDS = pytest.mark.parametrize(("d", "bits"), [(1, 1), (1, 2), (1, 5), (2, 1), (2, 3), (3, 1), (3, 2), (4, 1)])
NORMS = pytest.mark.parametrize("norm", ["l1", "l2", "sup"])
MEANS = pytest.mark.parametrize("private_mean", [True, False])


@GRIDS
@NORMS
@MEANS
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_no_row_of_the_grid_moves_the_packed_moments_by_more_than_the_change(d, bits, norm, private_mean, relation):
    packing = Packing.of(d, bits, norm, private_mean)
    change = packing.change(relation)
    l1, l2_squared, sup = largest_moves(packing, odd_grid(bits), relation)
    assert l1 <= change.l1
    assert l2_squared <= change.l2_squared
    assert sup <= change.sup


@GRIDS
@NORMS
@MEANS
def test_the_change_of_an_added_row_is_attained_in_all_norms_at_once(d, bits, norm, private_mean):
    packing = Packing.of(d, bits, norm, private_mean)
    change = packing.change("add_or_remove_one")
    assert largest_moves(packing, odd_grid(bits), "add_or_remove_one") == (change.l1, change.l2_squared, change.sup)
    assert change.sup == packing.largest_term


@GRIDS
@MEANS
def test_the_l1_change_of_a_replaced_row_is_attained_but_for_what_the_odd_grid_lacks(d, bits, private_mean):
    """The best Q / d need not be even, so Q is off by at most d, and c d^2 = d (d + 1) / 2 is what that costs."""
    packing = Packing.of(d, bits, "l1", private_mean)
    assert largest_moves(packing, odd_grid(bits), "replace_one")[0] >= packing.change("replace_one").l1 - Fraction(d * (d + 1), 2)


@MEANS
@pytest.mark.parametrize(("d", "K"), [(1, 4), (1, 20), (2, 4), (2, 8), (3, 4)])
def test_the_l1_change_of_a_replaced_row_is_exact_on_all_whole_numbers(d, K, private_mean):
    """At y = (K, ..., K) and y' = (-K/4, ..., -K/4), or 0 without the mean: whole numbers here."""
    packing = Packing(d, K, K * (d + 1) // 4, int(private_mean))
    assert largest_moves(packing, range(-K, K + 1), "replace_one")[0] == packing.change("replace_one").l1


@pytest.mark.parametrize("weight", [1, 3, 7, 12, 13, 40])
@pytest.mark.parametrize("copies", [1, 2])
def test_the_l1_change_holds_for_every_weight_of_the_mean(weight, copies):
    """With heavy means the largest move is from corner to corner, beyond the top of the parabola."""
    d, K = 2, 4
    packing = Packing(d, K, weight, copies)
    worst, change = largest_moves(packing, range(-K, K + 1), "replace_one")[0], packing.change("replace_one").l1
    assert change - Fraction(d * (d + 1), 2) <= worst <= change
    if weight * copies >= K * (d + 1):  # a >= 2 K d c
        assert worst == change == 2 * K * d * weight * copies


@pytest.mark.parametrize("d", [5, 10, 50])
def test_the_l1_change_is_attained_in_many_dimensions(d):
    K = 4
    packing = Packing(d, K, d + 1, 1)
    y, other = np.full(d, K), np.full(d, -1)
    move = packing.packed(Moments(1, y, np.outer(y, y))) - packing.packed(Moments(1, other, np.outer(other, other)))
    assert np.abs(move).sum() == packing.change("replace_one").l1


@GRIDS
def test_the_squared_l2_change_of_second_moments_is_attained_at_balanced_vertices(d, bits):
    K = 2**bits - 1
    packing = Packing.of(d, bits, "l2", False)
    worst, change = largest_moves(packing, odd_grid(bits), "replace_one")[1], packing.change("replace_one").l2_squared
    assert change == K**4 * d**2
    # An odd number of signs has no balance; one column moves from a corner to +-1, the grid's nearest to 0.
    assert worst == (change if d % 2 == 0 else K**4 * (d**2 - 1) if d > 1 else (K**2 - 1) ** 2)


@GRIDS
def test_the_squared_l2_change_of_the_sum_alone_is_attained(d, bits):
    packing = Packing.of(d, bits, "l2", True)
    K, w = packing.largest, packing.mean_weight
    corner = np.full(d, K)
    move = packing.packed(Moments(1, corner, np.outer(corner, corner))) - packing.packed(Moments(1, -corner, np.outer(corner, corner)))
    assert (move**2).sum() == 4 * K**2 * d * w**2 == packing.change("replace_one").l2_squared - (K**2 * d) ** 2


@GRIDS
@MEANS
def test_the_sup_change_of_weighted_moments_is_twice_K_squared_and_attained(d, bits, private_mean):
    packing = Packing.of(d, bits, "sup", private_mean)
    K = packing.largest
    worst, change = largest_moves(packing, odd_grid(bits), "replace_one")[2], packing.change("replace_one").sup
    assert change == 2 * K**2
    assert worst == (change if d > 1 or private_mean else change - 2)  # 0 is not on the grid


# Noise: the formulas of the specification, as ratios


@pytest.mark.parametrize("d", [1, 2, 5, 30, 200])
def test_laplace_noise_of_moments_is_that_of_the_specification(d):
    """s = 25 K^2 d (d + 1) / (32 epsilon) and s_mu = 25 K d / (8 epsilon) with a mean, s = K^2 d (d + 1) / (2 epsilon) without."""
    K, epsilon = 2**16 - 1, Fraction(7, 10)
    joint, alone = (Packing.of(d, 16, "l1", mean) for mean in (True, False))
    scale, scale_alone = (mechanism(p.change("replace_one"), PrivacyLoss(epsilon), ("laplace",)).noise.scale for p in (joint, alone))
    assert scale_alone == K**2 * d * (d + 1) / (2 * epsilon)
    assert scale / (25 * K**2 * d * (d + 1) / (32 * epsilon)) == pytest.approx(1, abs=1e-4)  # the weight of the mean is rounded
    assert scale / joint.mean_weight / (25 * K * d / (8 * epsilon)) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("d", [1, 2, 5, 30, 200])
def test_gaussian_noise_of_moments_spends_a_fifth_of_rho_on_the_mean(d):
    """rho_S = K^4 d^2 / (2 s^2) and rho_mu = 2 K^2 d / s_mu^2."""
    K, rho = 2**16 - 1, Fraction(1, 57)
    packing = Packing.of(d, 16, "l2", True)
    scale = mechanism(packing.change("replace_one"), PrivacyLoss(rho=rho), ("gaussian",)).noise.scale
    second, mean = Fraction(K**4 * d**2) / (2 * scale**2), 2 * K**2 * d / (scale / packing.mean_weight) ** 2
    assert 1 - 1e-9 < (second + mean) / rho <= 1
    assert float(mean / rho) == pytest.approx(0.2, abs=1e-4)
    alone = Packing.of(d, 16, "l2", False)
    assert mechanism(alone.change("replace_one"), PrivacyLoss(rho=rho), ("gaussian",)).noise.scale == gaussian_scale(K**4 * d**2, rho)


@MEANS
@pytest.mark.parametrize("d", [1, 2, 30])
def test_sup_norm_noise_of_moments_is_twice_K_squared_over_epsilon(d, private_mean):
    packing = Packing.of(d, 16, "sup", private_mean)
    noise = mechanism(packing.change("replace_one"), PrivacyLoss(0.5), ("sup_norm",), packing.n_values).noise
    assert (packing.copies, packing.diagonal_weight) == (-(-d // 8) * private_mean, 2)
    assert noise.scale == 2 * (2**16 - 1) ** 2 / Fraction(1, 2)


def test_the_papers_noise_is_24_times_larger():
    """Off-diagonal: 3 d^2 / (epsilon n) in the paper's units against d (d + 1) / (8 epsilon n) here, d large."""
    d, K = 1000, 2**16 - 1
    scale = mechanism(Packing.of(d, 16, "l1", False).change("replace_one"), PrivacyLoss(1), ("laplace",)).noise.scale
    assert 3 * d**2 * (2 * K) ** 2 / scale == pytest.approx(24, rel=2e-3)  # a side of the box is 2 K


@NORMS
@MEANS
@pytest.mark.parametrize("d", [1, 3, 9])
def test_what_is_packed_is_unpacked(d, norm, private_mean):
    moments, packing = Moments.of(np.random.default_rng(d).random((50, d)), unit_box(d)), Packing.of(d, 16, norm, private_mean)
    query = moments.query("replace_one", packing)
    total, second = packing.unpacked(query.values)
    assert query.values.shape == (packing.n_values,)
    assert query.values.dtype == np.int64
    assert query.change == packing.change("replace_one")
    np.testing.assert_allclose(second, moments.second, rtol=1e-12)
    if private_mean:
        np.testing.assert_allclose(total, moments.total, rtol=1e-12)
    else:
        assert total is None


def test_replacing_one_row_moves_the_moments_by_the_difference_of_the_two_rows():
    X = np.random.default_rng(0).random((30, 3))
    neighbour = X.copy()
    neighbour[17] = [1.0, 0.0, 0.3]
    box = unit_box(3, bits=4)
    a, b = Moments.of(X, box), Moments.of(neighbour, box)
    y, z = (2 * box.quantize(rows[17:18]) - 15 for rows in (X, neighbour))
    np.testing.assert_array_equal(b.total - a.total, (z - y)[0])
    np.testing.assert_array_equal(b.second - a.second, z.T @ z - y.T @ y)
