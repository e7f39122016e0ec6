"""Exact first and second moments of rows in a ball."""

from collections import Counter
from itertools import product

import numpy as np
import pytest

from skdpsynth.domain import Ball, Box
from skdpsynth.statistics import CountLengths, Moments


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


# About another center, and in a ball with a radius, from the moments without


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
