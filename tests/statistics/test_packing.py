"""Exact moments, as a vector or as a symmetric matrix: how far one row moves them, by brute force over rows of small grids and balls."""

import math
from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from skdpsynth.domain import Ball, Box
from skdpsynth.privacy import DiscreteGaussian, DiscreteMatrixLaplace, PrivacyLoss, check_rng, mechanism
from skdpsynth.statistics import CountLengths, Gram, KeptLengths, Moments, Packing

ADD, REPLACE = "add_or_remove_one", "replace_one"
# d, r**2, c
BALLS = [(1, 1, 0), (1, 16, 0), (1, 16, 1), (1, 16, 4), (1, 9, 7), (2, 2, 0), (2, 25, 0), (2, 25, 3), (2, 25, 5), (2, 10, 1), (2, 9, 8)]
BALLS += [(3, 1, 0), (3, 9, 0), (3, 9, 1), (3, 9, 3), (3, 6, 2), (3, 5, 5)]
GRAMS = [Gram(*size) for size in BALLS]
PACKINGS = [
    Packing.of(d, 2**bits - 1, mean)
    for d, bits in [(1, 1), (1, 2), (1, 5), (2, 1), (2, 3), (3, 1), (3, 2), (4, 1)]
    for mean in (True, False)
]
each_gram = pytest.mark.parametrize("gram", GRAMS, ids=str)
each_packing = pytest.mark.parametrize("packing", PACKINGS, ids=str)
means = pytest.mark.parametrize("private_mean", [True, False])


def rows_of(form):
    """All rows of whole numbers in a ball, more than a grid has; or all of the grid, whose coordinates about the midpoint are odd."""
    if isinstance(form, Packing):
        return list(product(range(-form.largest, form.largest + 1, 2), repeat=form.n_features))
    reach = range(-math.isqrt(form.squared_radius), math.isqrt(form.squared_radius) + 1)
    return [w for w in product(reach, repeat=form.n_features) if sum(x * x for x in w) <= form.squared_radius]


def worst(form, relation, rows=None):
    """The largest l1, squared l2, sup and, of a matrix, nuclear norm that one row moves the moments by."""
    rows = np.array(rows_of(form) if rows is None else list(rows), dtype=np.int64)
    each = np.array([form.pack(Moments(1, y, np.outer(y, y))) for y in rows])
    moves = (each if relation == ADD else each[:, None] - each).reshape(-1, *each.shape[1:])
    norms = [np.linalg.norm(np.linalg.eigvalsh(moves.astype(float)), 1, axis=1).max()] if moves.ndim == 3 else []
    moves = np.abs(moves.reshape(len(moves), -1))
    return moves.sum(axis=1).max(), (moves**2).sum(axis=1).max(), moves.max(), *norms


@pytest.mark.must
@pytest.mark.parametrize("form", GRAMS + PACKINGS, ids=str)
@pytest.mark.parametrize("relation", [REPLACE, ADD])
def test_no_row_moves_the_moments_by_more_than_the_change_whose_public_numbers_are_told(form, relation):
    sensitivity = form.sensitivity(relation)
    l1, l2_squared, sup, *nuclear = worst(form, relation)
    assert l1 <= sensitivity.l1
    assert l2_squared <= sensitivity.l2_squared
    assert sup <= sensitivity.sup
    assert all(norm <= sensitivity.nuclear * (1 + 1e-12) for norm in nuclear)
    told = {"squared_radius", "coordinate"} if nuclear else {"largest", "mean_weight"}
    kind = {"kind": "gram" if nuclear else "packed_moments", "features": form.n_features}
    assert dict(sensitivity.statistic) == kind | {name: getattr(form, name) for name in told}


@each_gram
def test_an_added_row_of_full_length_attains_both_norms(gram):
    """Where a row of whole numbers has that length: r = 4, (3, 4), (1, 1), (1, 2, 2), (2, 1, 1), ..."""
    sensitivity, (_, l2_squared, _, nuclear) = gram.sensitivity(ADD), worst(gram, ADD)
    assert l2_squared == sensitivity.l2_squared == gram.largest_term**2
    assert nuclear == pytest.approx(float(sensitivity.nuclear), rel=1e-12)


@pytest.mark.parametrize("size", [(2, 25, 0), (3, 9, 0), (1, 16, 4), (2, 25, 5), (3, 9, 3)])
def test_replacing_by_an_orthogonal_row_of_full_length_attains_both_norms(size):
    """(3, 4) by (4, -3), and with a border (4, 4) by (-4, 4)."""
    gram = Gram(*size)
    sensitivity, (_, l2_squared, _, nuclear) = gram.sensitivity(REPLACE), worst(gram, REPLACE)
    assert l2_squared == sensitivity.l2_squared == 2 * gram.largest_term**2
    assert nuclear == pytest.approx(float(sensitivity.nuclear), rel=1e-12)


def test_one_feature_without_a_border_moves_within_an_interval():
    sensitivity = Gram(1, 16).sensitivity(REPLACE)
    assert (sensitivity.l1, sensitivity.l2_squared, sensitivity.sup, sensitivity.nuclear) == (16, 256, 16, 16)


@each_gram
@pytest.mark.parametrize("relation", [REPLACE, ADD])
def test_the_l1_norm_is_that_of_as_many_entries_with_the_same_squares(gram, relation):
    """Of m^2 numbers it is at most m times their l2 norm, here the next whole number; and at most the squares of whole numbers."""
    sensitivity = gram.sensitivity(relation)
    rounded = next(n for n in range(int(sensitivity.l2_squared) + 2) if n * n > sensitivity.l2_squared)
    assert sensitivity.l1 == (gram.largest_term if gram.n_rows == 1 else min(sensitivity.l2_squared, gram.n_rows * rounded))


def test_the_matrix_is_the_sum_of_rows_times_themselves():
    ball = Ball.of(Box(np.zeros(2), np.ones(2)), 4, True).within(60)
    X = np.random.default_rng(0).random((20, 2))
    whole = np.vstack([rows.copy() for _, rows in ball.chunks(X)]).astype(np.int64)
    z = np.column_stack([whole, np.full(20, 3)])
    np.testing.assert_array_equal(Gram(2, 60, 3).pack(Moments.of(X, ball)), z.T @ z)


def test_noise_that_is_not_symmetric_is_averaged_with_its_mirror():
    total, second = Gram(2, 10, 2).unpack(np.array([[1, 2, 4], [6, 3, 8], [10, 20, 99]]))
    assert (second.tolist(), total.tolist()) == ([[1, 4], [4, 3]], [3.5, 7])


@pytest.mark.parametrize("kind", ["gaussian", "matrix_laplace"])
def test_noise_of_unpacked_moments_has_the_variances_that_are_stated(kind):
    """Off the diagonal half of that on it. 1000 draws of 8 rows: standard errors of 5 % and 2.5 % at most; seven of them."""
    gram = Gram(8, 10**6)
    share = PrivacyLoss(1, 1e-6) if kind == "gaussian" else PrivacyLoss(1)
    made = mechanism(gram.sensitivity(REPLACE), share, (kind,), gram.n_values)
    assert isinstance(made.noise, DiscreteGaussian if kind == "gaussian" else DiscreteMatrixLaplace)
    rng = check_rng(1)
    draws = np.array([gram.unpack(made.noise.sample((8, 8), rng))[1] for _ in range(1000)])
    assert np.array_equal(draws, draws.transpose(0, 2, 1))
    off, on = draws[:, *np.triu_indices(8, 1)], draws[:, *np.diag_indices(8)]
    variance = made.variance if kind == "gaussian" else 2 * made.variance  # on the diagonal
    assert np.mean(on**2) / variance == pytest.approx(1, abs=0.35)
    assert np.mean(off**2) / (variance / 2) == pytest.approx(1, abs=0.175)


@each_packing
def test_the_change_of_an_added_row_is_attained_in_all_norms_at_once(packing):
    sensitivity = packing.sensitivity(ADD)
    assert worst(packing, ADD) == (sensitivity.l1, sensitivity.l2_squared, sensitivity.sup)
    assert sensitivity.sup == packing.largest_term


@each_packing
def test_the_change_of_a_replaced_row_is_attained_but_for_what_the_odd_grid_lacks(packing):
    """In the l1 norm the best Q / d need not be even, so Q is off by at most d, and c d^2 = d (d + 1) / 2 is what that costs.

    The squared l2 norm of second moments alone is largest at balanced vertices; an odd number of signs has no balance, and one column moves
    from a corner to +-1, the grid's nearest to 0. With the sum, it is that of the corners plus what second moments can add. The sup norm is
    twice K times the weight of the sum; 2 K^2 off the diagonal; K^2 on it, but for the square of 1, as 0 is not on the grid.
    """
    sensitivity, (l1, l2_squared, sup) = packing.sensitivity(REPLACE), worst(packing, REPLACE)
    d, K, w = packing.n_features, packing.largest, packing.mean_weight
    assert l1 >= sensitivity.l1 - Fraction(d * (d + 1), 2)
    assert sensitivity.sup >= sup >= sensitivity.sup - (d == 1)
    if w:
        corners = worst(packing, REPLACE, [np.full(d, K), np.full(d, -K)])
        assert corners[1] == 4 * K**2 * d * w**2 == sensitivity.l2_squared - (K**2 * d) ** 2
    else:
        assert sensitivity.l2_squared == K**4 * d**2
        assert l2_squared == (sensitivity.l2_squared if d % 2 == 0 else K**4 * (d**2 - 1) if d > 1 else (K**2 - 1) ** 2)


@means
@pytest.mark.parametrize(("d", "K"), [(1, 4), (1, 20), (2, 4), (2, 8), (3, 4)])
def test_the_l1_change_of_a_replaced_row_is_exact_on_all_whole_numbers(d, K, private_mean):
    """At y = (K, ..., K) and y' = (-K/4, ..., -K/4), or 0 without the mean: whole numbers here."""
    packing = Packing(d, K, K * (d + 1) // 4 * private_mean)
    assert worst(packing, REPLACE, product(range(-K, K + 1), repeat=d))[0] == packing.sensitivity(REPLACE).l1


@pytest.mark.parametrize("weight", [1, 3, 7, 12, 13, 40, 80])
def test_the_l1_change_holds_for_every_weight_of_the_mean(weight):
    """With heavy means the largest move is from corner to corner, beyond the top of the parabola."""
    d, K = 2, 4
    packing = Packing(d, K, weight)
    most, sensitivity = worst(packing, REPLACE, product(range(-K, K + 1), repeat=d))[0], packing.sensitivity(REPLACE).l1
    assert sensitivity - Fraction(d * (d + 1), 2) <= most <= sensitivity
    if weight >= K * (d + 1):  # a >= 2 K d c
        assert most == sensitivity == 2 * K * d * weight


def test_the_l1_change_is_attained_in_many_dimensions():
    for d in (5, 10, 50):
        packing = Packing(d, 4, d + 1)
        assert worst(packing, REPLACE, [np.full(d, 4), np.full(d, -1)])[0] == packing.sensitivity(REPLACE).l1
    assert Packing(250, 1).sensitivity(ADD).l1 == 250 * 251 // 2
    # Of 3 features in [-100, 100] the best Q is 600, all there is, from a weight of K (d + 1) = 400 on.
    for weight, most in [(399, Fraction(3 * 799**2, 8)), (400, 240_000), (401, 240_600)]:
        assert Packing(3, 100, weight).sensitivity(REPLACE).l1 == most


@pytest.mark.parametrize("d", [1, 2, 5, 30, 200])
def test_laplace_noise_of_moments_is_that_of_the_specification(d):
    """s = 25 K^2 d (d + 1) / (32 epsilon) and s_mu = 25 K d / (8 epsilon) with a mean, s = K^2 d (d + 1) / (2 epsilon) without."""
    K, epsilon = 2**16 - 1, Fraction(7, 10)
    joint, alone = (Packing.of(d, K, mean) for mean in (True, False))
    scale, scale_alone = (mechanism(p.sensitivity(REPLACE), PrivacyLoss(epsilon), ("laplace",)).noise.scale for p in (joint, alone))
    assert scale_alone == K**2 * d * (d + 1) / (2 * epsilon)
    assert scale / (25 * K**2 * d * (d + 1) / (32 * epsilon)) == pytest.approx(1, abs=1e-4)  # the weight of the mean is rounded
    assert scale / joint.mean_weight / (25 * K * d / (8 * epsilon)) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("kind", [0, 1, 12_345, True, False], ids=repr)
@pytest.mark.parametrize("d", [1, 3, 9])
def test_what_is_packed_is_unpacked(d, kind):
    is_vector, box = isinstance(kind, bool), Box(np.zeros(d), np.ones(d))
    ball = Ball.of(box, 16, equal_units=False) if is_vector else Ball.of(box, 16, True).within(2**31)
    form = Packing.of(d, 2**16 - 1, kind) if is_vector else Gram(d, ball.reach, kind)
    moments = Moments.of(np.random.default_rng(d).random((50, d)), ball)
    query = moments.query(REPLACE, form)
    total, second = form.unpack(query.values)
    assert query.values.shape == ((form.n_values,) if is_vector else (form.n_rows, form.n_rows))
    assert query.values.size == form.n_values
    assert query.values.dtype == np.int64
    assert query.sensitivity == form.sensitivity(REPLACE)
    np.testing.assert_array_equal(query.values, query.values.T)
    np.testing.assert_array_equal(second, second.T)
    np.testing.assert_allclose(second, moments.second, rtol=1e-12)
    assert total is None if not kind else np.allclose(total, moments.total, rtol=1e-12)


def brute_force(X, ball):
    """n, total and second moment in Python integers."""
    rows = [[int(w) for w in row] for _, whole in ball.chunks(X) for row in whole.tolist()]
    d = ball.box.n_features
    total = [sum(y[i] for y in rows) for i in range(d)]
    second = [[sum(y[i] * y[j] for y in rows) for j in range(d)] for i in range(d)]
    return len(rows), total, second


def assert_same(a, b):
    assert a.n_samples == b.n_samples
    np.testing.assert_array_equal(a.total, b.total)
    np.testing.assert_array_equal(a.second, b.second)


def unit_ball(d, bits=16):
    return Ball.of(Box(np.zeros(d), np.ones(d)), bits, equal_units=True)


@pytest.mark.parametrize("bits", [1, 8, 16])
@pytest.mark.parametrize("squared_radius", [None, 2**20])
@pytest.mark.parametrize(("n_samples", "d"), [(0, 2), (1, 1), (1, 5), (50, 3), (200, 70)])
def test_moments_equal_brute_force_in_python_integers(n_samples, d, bits, squared_radius):
    ball = Ball.of(Box(np.linspace(-2, 0, d), np.linspace(1, 3, d)), bits, equal_units=False)
    ball = ball if squared_radius is None else ball.within(squared_radius)
    X = np.random.default_rng(d).uniform(-3, 4, (n_samples, d))
    moments = Moments.of(X, ball)
    n, total, second = brute_force(X, ball)
    assert moments.n_samples == n
    assert moments.total.tolist() == total
    assert moments.second.tolist() == second
    assert moments.total.dtype == moments.second.dtype == np.int64


def test_moments_of_many_rows_at_the_corners_are_exact():
    # The largest sums that floats have to hold: all rows at one corner, several chunks.
    n = 200_000
    moments = Moments.of(np.tile([1.0, 0.0], (n, 1)), unit_ball(2))
    K = 2**16 - 1
    assert moments.total.tolist() == [n * K, -n * K]
    assert moments.second.tolist() == [[n * K * K, -n * K * K], [-n * K * K, n * K * K]]


def test_too_fine_a_grid_is_refused():
    with pytest.raises(ValueError, match=r"^bits=30 is too fine"):
        Moments.of(np.zeros((1, 1)), unit_ball(1, bits=30))


@pytest.mark.parametrize("center", [(0, 0, 0), (3, -4, 500), (-1023, 1023, 7)])
def test_moments_about_a_center_are_those_of_rows_taken_about_it(center):
    X, ball = np.random.default_rng(0).uniform(-1, 2, (500, 3)), unit_ball(3, bits=10)
    assert_same(Moments.of(X, ball).about(np.array(center)), Moments.of(X, ball.about(np.array(center))))


@pytest.mark.parametrize("squared_radius", [1, 10**4, 10**6, 2**40])
@pytest.mark.parametrize("kept", [False, True])
def test_what_shrinking_moves_completes_the_moments(squared_radius, kept):
    """Whether rows are measured anew, or those beyond the radius are known from their cells."""
    X, ball = np.random.default_rng(0).uniform(-1, 2, (500, 3)), unit_ball(3, bits=10).about(np.array([3, -4, 500]))
    radii = np.array([float(ball.reach), *[r for r in (10**6, 10**4, 1) if r < ball.reach]])
    shrunk, free = ball.within(squared_radius), Moments.of(X, ball)
    if kept:
        Q, cells = np.empty((500, 3), dtype=np.uint16), np.empty(500, dtype=np.uint8)
        free = Moments.over(ball).add(Moments.over(ball).zero(), X, Q)
        CountLengths(ball, radii).add(CountLengths(ball, radii).zero(), X, cells)
        place = int(np.argmax(radii <= squared_radius))
        moved = Moments.moved_by_shrinking(shrunk.of_coordinates(), place).of([Q, cells])
    else:
        moved = Moments.moved_by_shrinking(shrunk).of(X)
    assert_same(free + moved, Moments.of(X, shrunk))
    assert (moved.second.any() or moved.total.any()) == (squared_radius < 2**40)


def test_moments_and_lengths_of_one_reading_are_those_of_two():
    X, ball = np.random.default_rng(0).uniform(-1, 2, (10**5, 3)), unit_ball(3, bits=10).about(np.array([3, -4, 500]))
    sums, rule = Moments.over(ball), CountLengths(ball, np.array([float(ball.reach), 10**6, 10**5, 10**4]))
    cells, together, counted = np.empty(10**5, dtype=np.uint8), np.empty(10**5, dtype=np.uint8), rule.zero()
    assert_same(sums.add(sums.zero(), X, KeptLengths(rule, counted, together)), sums.of(X))
    assert counted.counts.tolist() == rule.add(rule.zero(), X, cells).counts.tolist()
    assert len(np.unique(together)) > 1
    np.testing.assert_array_equal(together, cells)


@pytest.mark.must
@pytest.mark.parametrize("equal_units", [True, False])
@pytest.mark.parametrize("bits", [1, 2, 4])
@pytest.mark.parametrize("center", [(0, 0), (3, -2), (2, 2), (-100, 100)])
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_the_change_of_the_sum_is_the_largest_over_all_rows_of_the_grid_whose_ranges_are_told(equal_units, bits, center, relation):
    ball = Ball.of(Box([0.0, -1.0], [1.0, 3.0]), bits, equal_units).about(np.array(center))
    places = np.array(list(product(*(range(low, high + 1) for low, high in zip(ball.least, ball.most, strict=True)))), dtype=float)
    X = ball.box.restore(places)
    whole = np.vstack([rows.copy() for _, rows in ball.chunks(X)])
    moved = whole if relation == "add_or_remove_one" else (whole[:, None] - whole).reshape(-1, 2)
    query = Moments.of(X, ball).query_of_sum(relation, ball)
    ranges = Counter(zip(whole.min(axis=0).tolist(), whole.max(axis=0).tolist(), strict=True))
    assert dict(query.sensitivity.statistic) == {"kind": "sum", "ranges": tuple(sorted((*ends, count) for ends, count in ranges.items()))}
    seen = np.abs(moved).sum(axis=1).max(), (moved**2).sum(axis=1).max(), np.abs(moved).max()
    assert seen == (query.sensitivity.l1, query.sensitivity.l2_squared, query.sensitivity.sup)
    assert query.values.tolist() == whole.sum(axis=0).tolist()


def test_no_repr_shows_the_moments():
    assert "array" not in repr(Moments.of(np.ones((3, 2)), unit_ball(2)))


@pytest.mark.parametrize("relation", [ADD, REPLACE])
def test_a_row_moves_a_sum_on_the_finest_grid_by_exact_squares(relation):
    side = (2 if relation == REPLACE else 1) * (2**30 - 1)
    ball = Ball.of(Box(np.zeros(20), np.ones(20)), 30, False)
    found = Moments.sensitivity_of_sum(relation, ball)
    assert (found.l1, found.l2_squared, found.sup) == (20 * side, 20 * side**2, side)
    assert ball.reach == 20 * (2**30 - 1) ** 2
