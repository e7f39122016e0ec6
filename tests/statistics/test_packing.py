"""The vector of second moments in a box: how far one row moves it, by brute force over all pairs of rows of small grids."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from skdpsynth.domain import Ball, Box
from skdpsynth.privacy import PrivacyLoss, mechanism
from skdpsynth.statistics import Moments, Packing


def packing_of(d, bits, private_mean):
    return Packing.of(d, 2**bits - 1, private_mean)


def odd_grid(packing):
    """The coordinates that rows have about the midpoint: never 0."""
    return range(-packing.largest, packing.largest + 1, 2)


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
MEANS = pytest.mark.parametrize("private_mean", [True, False])


@GRIDS
@MEANS
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_the_change_tells_the_public_numbers_that_it_follows_from(d, bits, private_mean, relation):
    packing = packing_of(d, bits, private_mean)
    told = dict(packing.change(relation).statistic)
    assert told == {"kind": "packed_moments", "features": d, "largest": packing.largest, "mean_weight": packing.mean_weight}


@pytest.mark.must
@GRIDS
@MEANS
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_no_row_of_the_grid_moves_the_packed_moments_by_more_than_the_change(d, bits, private_mean, relation):
    packing = packing_of(d, bits, private_mean)
    change = packing.change(relation)
    l1, l2_squared, sup = largest_moves(packing, odd_grid(packing), relation)
    assert l1 <= change.l1
    assert l2_squared <= change.l2_squared
    assert sup <= change.sup


@GRIDS
@MEANS
def test_the_change_of_an_added_row_is_attained_in_all_norms_at_once(d, bits, private_mean):
    packing = packing_of(d, bits, private_mean)
    change = packing.change("add_or_remove_one")
    assert largest_moves(packing, odd_grid(packing), "add_or_remove_one") == (change.l1, change.l2_squared, change.sup)
    assert change.sup == packing.largest_term


@GRIDS
@MEANS
def test_the_l1_change_of_a_replaced_row_is_attained_but_for_what_the_odd_grid_lacks(d, bits, private_mean):
    """The best Q / d need not be even, so Q is off by at most d, and c d^2 = d (d + 1) / 2 is what that costs."""
    packing = packing_of(d, bits, private_mean)
    assert largest_moves(packing, odd_grid(packing), "replace_one")[0] >= packing.change("replace_one").l1 - Fraction(d * (d + 1), 2)


@MEANS
@pytest.mark.parametrize(("d", "K"), [(1, 4), (1, 20), (2, 4), (2, 8), (3, 4)])
def test_the_l1_change_of_a_replaced_row_is_exact_on_all_whole_numbers(d, K, private_mean):
    """At y = (K, ..., K) and y' = (-K/4, ..., -K/4), or 0 without the mean: whole numbers here."""
    packing = Packing(d, K, K * (d + 1) // 4 * private_mean)
    assert largest_moves(packing, range(-K, K + 1), "replace_one")[0] == packing.change("replace_one").l1


@pytest.mark.parametrize(("weight", "most"), [(399, Fraction(3 * 799**2, 8)), (400, 240_000), (401, 240_600)])
def test_the_l1_change_is_that_of_the_sum_from_where_the_mean_weighs_enough(weight, most):
    """Of 3 features in [-100, 100] the best Q is 600, all there is, from a weight of K (d + 1) = 400 on."""
    assert Packing(3, 100, weight).change("replace_one").l1 == most


def test_an_added_row_moves_one_product_for_each_pair_of_many_columns():
    assert Packing(250, 1).change("add_or_remove_one").l1 == 250 * 251 // 2


@pytest.mark.parametrize("weight", [1, 3, 7, 12, 13, 40, 80])
def test_the_l1_change_holds_for_every_weight_of_the_mean(weight):
    """With heavy means the largest move is from corner to corner, beyond the top of the parabola."""
    d, K = 2, 4
    packing = Packing(d, K, weight)
    worst, change = largest_moves(packing, range(-K, K + 1), "replace_one")[0], packing.change("replace_one").l1
    assert change - Fraction(d * (d + 1), 2) <= worst <= change
    if weight >= K * (d + 1):  # a >= 2 K d c
        assert worst == change == 2 * K * d * weight


@pytest.mark.parametrize("d", [5, 10, 50])
def test_the_l1_change_is_attained_in_many_dimensions(d):
    K = 4
    packing = Packing(d, K, d + 1)
    y, other = np.full(d, K), np.full(d, -1)
    move = packing.packed(Moments(1, y, np.outer(y, y))) - packing.packed(Moments(1, other, np.outer(other, other)))
    assert np.abs(move).sum() == packing.change("replace_one").l1


@GRIDS
def test_the_squared_l2_change_of_second_moments_is_attained_at_balanced_vertices(d, bits):
    packing = packing_of(d, bits, False)
    K = packing.largest
    worst, change = largest_moves(packing, odd_grid(packing), "replace_one")[1], packing.change("replace_one").l2_squared
    assert change == K**4 * d**2
    # An odd number of signs has no balance; one column moves from a corner to +-1, the grid's nearest to 0.
    assert worst == (change if d % 2 == 0 else K**4 * (d**2 - 1) if d > 1 else (K**2 - 1) ** 2)


@GRIDS
def test_the_squared_l2_change_of_the_sum_alone_is_attained(d, bits):
    packing = packing_of(d, bits, True)
    K, w = packing.largest, packing.mean_weight
    corner = np.full(d, K)
    move = packing.packed(Moments(1, corner, np.outer(corner, corner))) - packing.packed(Moments(1, -corner, np.outer(corner, corner)))
    assert (move**2).sum() == 4 * K**2 * d * w**2 == packing.change("replace_one").l2_squared - (K**2 * d) ** 2


@GRIDS
@MEANS
def test_the_sup_change_of_packed_moments_is_attained_but_in_one_column(d, bits, private_mean):
    """Twice K times the weight of the sum; 2 K^2 off the diagonal; K^2 on it, but for the square of 1, as 0 is not on the grid."""
    packing = packing_of(d, bits, private_mean)
    worst, change = largest_moves(packing, odd_grid(packing), "replace_one")[2], packing.change("replace_one").sup
    assert change >= worst >= change - (d == 1)


# Noise: the formulas of the specification, as ratios


@pytest.mark.parametrize("d", [1, 2, 5, 30, 200])
def test_laplace_noise_of_moments_is_that_of_the_specification(d):
    """s = 25 K^2 d (d + 1) / (32 epsilon) and s_mu = 25 K d / (8 epsilon) with a mean, s = K^2 d (d + 1) / (2 epsilon) without."""
    K, epsilon = 2**16 - 1, Fraction(7, 10)
    joint, alone = (packing_of(d, 16, mean) for mean in (True, False))
    scale, scale_alone = (mechanism(p.change("replace_one"), PrivacyLoss(epsilon), ("laplace",)).noise.scale for p in (joint, alone))
    assert scale_alone == K**2 * d * (d + 1) / (2 * epsilon)
    assert scale / (25 * K**2 * d * (d + 1) / (32 * epsilon)) == pytest.approx(1, abs=1e-4)  # the weight of the mean is rounded
    assert scale / joint.mean_weight / (25 * K * d / (8 * epsilon)) == pytest.approx(1, abs=1e-4)


# The vector


@MEANS
@pytest.mark.parametrize("d", [1, 3, 9])
def test_what_is_packed_is_unpacked(d, private_mean):
    ball = Ball.of(Box(np.zeros(d), np.ones(d)), 16, equal_units=False)
    moments, packing = Moments.of(np.random.default_rng(d).random((50, d)), ball), packing_of(d, 16, private_mean)
    query = moments.query("replace_one", packing)
    total, second = packing.unpacked(query.values)
    assert query.values.shape == (packing.n_values,)
    assert query.values.dtype == np.int64
    assert query.change == packing.change("replace_one")
    np.testing.assert_array_equal(second, second.T)
    np.testing.assert_allclose(second, moments.second, rtol=1e-12)
    if private_mean:
        np.testing.assert_allclose(total, moments.total, rtol=1e-12)
    else:
        assert total is None
