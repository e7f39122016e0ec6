"""The symmetric matrix of second moments: how far one row moves it, by brute force over rows of small balls."""

import math
from itertools import product

import numpy as np
import pytest

from skdpsynth.domain import Ball, Box
from skdpsynth.privacy import DiscreteGaussian, DiscreteMatrixLaplace, PrivacyLoss, check_rng, mechanism
from skdpsynth.statistics import Gram, Moments

RELATIONS = ("replace_one", "add_or_remove_one")


def rows_within(d, squared_radius):
    """All rows of whole numbers in a ball, more than a grid has."""
    reach = range(-math.isqrt(squared_radius), math.isqrt(squared_radius) + 1)
    return np.array([w for w in product(reach, repeat=d) if sum(x * x for x in w) <= squared_radius], dtype=np.int64)


def of_row(w):
    return Moments(1, w, np.outer(w, w))


def moves(gram, relation):
    """Changes of the matrix for all pairs of neighbours, shape (n_pairs, m, m)."""
    each = np.array([gram.packed(of_row(w)) for w in rows_within(gram.n_features, gram.squared_radius)])
    if relation == "add_or_remove_one":
        return each
    return (each[:, None] - each).reshape(-1, gram.n_rows, gram.n_rows)


def worst(gram, relation):
    """The largest l1, squared l2, sup and nuclear norm of a change."""
    moved = moves(gram, relation)
    nuclear = np.abs(np.linalg.eigvalsh(moved.astype(float))).sum(axis=1).max()
    return np.abs(moved).sum(axis=(1, 2)).max(), (moved**2).sum(axis=(1, 2)).max(), np.abs(moved).max(), nuclear


# d, r**2, c
SIZES = [(1, 1, 0), (1, 16, 0), (1, 16, 1), (1, 16, 4), (1, 9, 7), (2, 2, 0), (2, 25, 0), (2, 25, 3), (2, 25, 5), (2, 10, 1), (2, 9, 8)]
SIZES += [(3, 1, 0), (3, 9, 0), (3, 9, 1), (3, 9, 3), (3, 6, 2), (3, 5, 5)]
each_size = pytest.mark.parametrize(("d", "squared_radius", "coordinate"), SIZES)
each_relation = pytest.mark.parametrize("relation", RELATIONS)


@each_size
@each_relation
def test_the_change_tells_the_public_numbers_that_it_follows_from(d, squared_radius, coordinate, relation):
    told = dict(Gram(d, squared_radius, coordinate).change(relation).statistic)
    assert told == {"kind": "gram", "features": d, "squared_radius": squared_radius, "coordinate": coordinate}


@pytest.mark.must
@each_size
@each_relation
def test_no_row_of_the_ball_moves_the_matrix_by_more_than_the_change(d, squared_radius, coordinate, relation):
    gram = Gram(d, squared_radius, coordinate)
    change = gram.change(relation)
    l1, l2_squared, sup, nuclear = worst(gram, relation)
    assert l1 <= change.l1
    assert l2_squared <= change.l2_squared
    assert sup <= change.sup
    assert nuclear <= change.nuclear * (1 + 1e-12)


@each_size
def test_an_added_row_of_full_length_attains_both_norms(d, squared_radius, coordinate):
    """Where a row of whole numbers has that length: r = 4, (3, 4), (1, 1), (1, 2, 2), (2, 1, 1), ..."""
    gram = Gram(d, squared_radius, coordinate)
    change = gram.change("add_or_remove_one")
    _, l2_squared, _, nuclear = worst(gram, "add_or_remove_one")
    assert l2_squared == change.l2_squared == gram.largest_term**2
    assert nuclear == pytest.approx(float(change.nuclear), rel=1e-12)


ORTHOGONAL = [
    (2, 25, 0),  # (3, 4) and (4, -3)
    (3, 9, 0),
    (1, 16, 4),  # (4, 4) and (-4, 4)
    (2, 25, 5),
    (3, 9, 3),
]


@pytest.mark.parametrize(("d", "squared_radius", "coordinate"), ORTHOGONAL)
def test_replacing_by_an_orthogonal_row_of_full_length_attains_both_norms(d, squared_radius, coordinate):
    gram = Gram(d, squared_radius, coordinate)
    change = gram.change("replace_one")
    _, l2_squared, _, nuclear = worst(gram, "replace_one")
    assert l2_squared == change.l2_squared == 2 * gram.largest_term**2
    assert nuclear == pytest.approx(float(change.nuclear), rel=1e-12)


def test_one_feature_without_a_border_moves_within_an_interval():
    change = Gram(1, 16).change("replace_one")
    assert (change.l1, change.l2_squared, change.sup, change.nuclear) == (16, 256, 16, 16)


@each_size
@each_relation
def test_the_l1_norm_is_that_of_as_many_entries_with_the_same_squares(d, squared_radius, coordinate, relation):
    """Of m^2 numbers it is at most m times their l2 norm, here the next whole number; and at most the squares of whole numbers."""
    gram = Gram(d, squared_radius, coordinate)
    change = gram.change(relation)
    rounded = next(n for n in range(int(change.l2_squared) + 2) if n * n > change.l2_squared)
    assert change.l1 == (gram.largest_term if gram.n_rows == 1 else min(change.l2_squared, gram.n_rows * rounded))


# The matrix


@pytest.mark.parametrize("coordinate", [0, 1, 12_345])
@pytest.mark.parametrize("d", [1, 3, 9])
def test_what_is_packed_is_unpacked(d, coordinate):
    ball = Ball.of(Box(np.zeros(d), np.ones(d)), 16, True).within(2**31)
    moments, gram = Moments.of(np.random.default_rng(d).random((50, d)), ball), Gram(d, ball.reach, coordinate)
    query = moments.query("replace_one", gram)
    total, second = gram.unpacked(query.values)
    assert query.values.shape == (gram.n_rows, gram.n_rows)
    assert query.values.size == gram.n_values
    assert query.values.dtype == np.int64
    assert query.change == gram.change("replace_one")
    np.testing.assert_array_equal(query.values, query.values.T)
    np.testing.assert_allclose(second, moments.second, rtol=1e-12)
    if coordinate:
        np.testing.assert_allclose(total, moments.total, rtol=1e-12)
    else:
        assert total is None


def test_the_matrix_is_the_sum_of_rows_times_themselves():
    ball = Ball.of(Box(np.zeros(2), np.ones(2)), 4, True).within(60)
    X = np.random.default_rng(0).random((20, 2))
    whole = np.vstack([rows.copy() for _, rows in ball.chunks(X)]).astype(np.int64)
    z = np.column_stack([whole, np.full(20, 3)])
    np.testing.assert_array_equal(Gram(2, 60, 3).packed(Moments.of(X, ball)), z.T @ z)


def test_noise_that_is_not_symmetric_is_averaged_with_its_mirror():
    total, second = Gram(2, 10, 2).unpacked(np.array([[1, 2, 4], [6, 3, 8], [10, 20, 99]]))
    assert second.tolist() == [[1, 4], [4, 3]]
    assert total.tolist() == [3.5, 7]


@pytest.mark.parametrize("kind", ["gaussian", "matrix_laplace"])
def test_noise_of_unpacked_moments_has_the_variances_that_are_stated(kind):
    """Off the diagonal half of that on it. 1000 draws of 8 rows: standard errors of 5 % and 2.5 % at most; seven of them."""
    gram = Gram(8, 10**6)
    share = PrivacyLoss(1, 1e-6) if kind == "gaussian" else PrivacyLoss(1)
    made = mechanism(gram.change("replace_one"), share, (kind,), gram.n_values)
    assert isinstance(made.noise, DiscreteGaussian if kind == "gaussian" else DiscreteMatrixLaplace)
    rng = check_rng(1)
    draws = np.array([gram.unpacked(made.noise.sample((8, 8), rng))[1] for _ in range(1000)])
    assert np.array_equal(draws, draws.transpose(0, 2, 1))
    off, on = draws[:, *np.triu_indices(8, 1)], draws[:, *np.diag_indices(8)]
    variance = made.variance if kind == "gaussian" else 2 * made.variance  # on the diagonal
    assert np.mean(on**2) / variance == pytest.approx(1, abs=0.35)
    assert np.mean(off**2) / (variance / 2) == pytest.approx(1, abs=0.175)
