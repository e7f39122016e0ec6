"""Rows as whole numbers in a ball: each by itself, exactly, and never longer than the radius."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from internals import _squared_lengths
from scipy.sparse import csr_array

from skdpsynth.domain import Ball, Box

UNLIKE = Box([0.0, -5.0, 2.0], [1.0, 5.0, 2.5])  # widths 1, 10 and 1/2
UNIT = Box(np.zeros(3), np.ones(3))


def images(X, ball):
    """All rows as whole numbers, as Python integers."""
    return [[int(w) for w in row] for _, whole in ball.chunks(X) for row in whole.tolist()]


def lengths_of(X, ball):
    """Squared lengths of all rows, as Python integers."""
    return [int(length) for _, q in ball.steps(X) for length in ball.squared_lengths(q)]


def grid_of(box, bits, equal_units):
    """The grid, written down from the definition: with equal units, a cube about the midpoint."""
    if not equal_units:
        return Box(box.low, box.high, bits)
    half = (box.high - box.low).max() / 2
    return Box(box.midpoint - half, box.midpoint + half, bits)


def map_by_hand(row, box, bits, equal_units, center, squared_radius):
    """One row, in Python integers alone, once its place on the grid is known."""
    grid = grid_of(box, bits, equal_units)
    (place,) = grid.quantize(np.clip(row, box.low, box.high)[None]).tolist()
    w = [2 * q - (2**bits - 1) - int(c) for q, c in zip(place, center, strict=True)]
    square = sum(x * x for x in w)
    if squared_radius is None or square <= squared_radius:
        return w
    least = math.isqrt(square)
    length = least + (least**2 < square)
    shrunk = [abs(x) * math.isqrt(squared_radius) // length for x in w]
    return [s if x > 0 else -s for s, x in zip(shrunk, w, strict=True)]


# Each row against Python integers


@pytest.mark.parametrize("bits", [1, 2, 5, 16])
@pytest.mark.parametrize("equal_units", [True, False])
@pytest.mark.parametrize("squared_radius", [None, 1, 2, 50, 10**6, 3 * 2**31])
@pytest.mark.parametrize("has_center", [True, False])
def test_rows_are_mapped_as_by_hand_in_python_integers(bits, equal_units, squared_radius, has_center):
    X = np.random.default_rng(bits).uniform([-1, -6, 1.9], [2, 6, 2.6], (60, 3))
    ball = Ball.of(UNLIKE, bits, equal_units)
    if has_center:
        ball = ball.about(np.array([2**bits // 3, -(2**bits) // 5, 1]))
    if squared_radius is not None:
        ball = ball.within(squared_radius)
    assert np.allclose(ball.unit, (10 if equal_units else UNLIKE.width) / 2 ** (bits + 1))  # of the widest side on all axes, or of each
    assert images(X, ball) == [map_by_hand(row, UNLIKE, bits, equal_units, ball.center, squared_radius) for row in X]


MOST, floats = np.finfo(float).max, st.floats(allow_nan=False, allow_infinity=False)


@given(
    row=st.lists(floats, min_size=1, max_size=4),
    bits=st.integers(1, 16),
    equal_units=st.booleans(),
    squared_radius=st.one_of(st.integers(1, 4), st.integers(1, 2**36)),
    center=st.integers(-(2**20), 2**20),
)
@example(row=[MOST, -MOST, 5e-324], bits=16, equal_units=True, squared_radius=1, center=0)
@example(row=[MOST, -MOST, -5e-324], bits=16, equal_units=True, squared_radius=2**32 - 1, center=2**20)
@example(row=[1e308, -1e308, 5e-324], bits=16, equal_units=False, squared_radius=2**40, center=-100)
@settings(max_examples=100, deadline=None)
def test_no_row_is_longer_than_the_radius_and_what_lies_out_of_the_box_is_clipped(row, bits, equal_units, squared_radius, center):
    box = Box(np.zeros(len(row)), np.logspace(0, 3, len(row)))
    ball = Ball.of(box, bits, equal_units).about(np.full(len(row), center)).within(squared_radius)
    (w,) = images(np.array([row]), ball)
    assert w == images(np.clip([row], box.low, box.high), ball)[0]
    assert sum(x * x for x in w) <= ball.reach <= squared_radius
    assert all(abs(x) <= side for x, side in zip(w, ball.largest.tolist(), strict=True))


# A row's image depends on that row alone


@pytest.fixture(scope="module")
def table():
    return np.random.default_rng(0).normal(0.5, 1, (5000, 30))


BALL = Ball.of(Box(np.zeros(30), np.ones(30)), 16, True).about(np.arange(-15, 15) * 1000).within(10**11)


def test_a_row_alone_is_mapped_as_among_many_near_or_far(table):
    """Chunks of 4352 rows here: the first, the last of one, the first of the next, and the last of all."""
    whole, near, far = images(table, BALL), table.copy(), table.copy()
    near[1:], far[1:] = 0.5, 1e300  # far ones are shrunk, and where no row is far the code takes another way
    assert images(near, BALL)[0] == images(far, BALL)[0] == whole[0]
    assert BALL.box.chunk_rows < len(table)
    for i in (0, 63, 64, BALL.box.chunk_rows - 1, BALL.box.chunk_rows, len(table) - 1):
        assert images(table[i : i + 1], BALL) == [whole[i]]


@pytest.mark.parametrize("layout", [np.asfortranarray, csr_array, lambda X: np.asfortranarray(np.repeat(X, 2, axis=0))[::2]])
def test_layout_of_rows_does_not_matter(table, layout):
    table = np.where(table < 0.5, 0, table)
    assert images(layout(table), BALL) == images(table, BALL)


# What it says of all rows


@pytest.mark.parametrize("bits", [1, 2, 3])
@pytest.mark.parametrize("equal_units", [True, False])
@pytest.mark.parametrize("center", [(0, 0), (1, -2), (100, -100)])
def test_largest_and_reach_are_attained_and_never_exceeded(bits, equal_units, center):
    box = Box([0.0, -1.0], [1.0, 2.0])
    ball = Ball.of(box, bits, equal_units).about(np.array(center))
    sides = np.linspace(-0.2, 1.2, 60)
    X = np.array([[x, -1 + 3 * y] for x in sides for y in sides])
    w = np.array(images(X, ball))
    assert np.abs(w).max(axis=0).tolist() == ball.largest.tolist()
    assert (w**2).sum(axis=1).max() == ball.reach
    for squared_radius in (3, 1, 0, -5):  # a radius is at least one unit
        assert ball.within(squared_radius).reach == min(max(squared_radius, 1), ball.reach)


@given(center=st.lists(st.integers(-(2**40), 2**40), min_size=3, max_size=3), equal_units=st.booleans(), bits=st.integers(1, 16))
@settings(max_examples=100, deadline=None)
def test_a_center_stays_within_bounds(center, equal_units, bits):
    """So moving it never makes a coordinate larger than the side of the box, in steps, times two."""
    ball = Ball.of(UNLIKE, bits, equal_units)
    moved = ball.about(np.array(center, dtype=float))
    assert (moved.largest <= 2 * (ball.most - ball.least)).all()
    assert moved.center.dtype == np.int64
    assert moved.about(np.array([1, 0, -1])).center.tolist() == ball.about(np.array([1, 0, -1])).center.tolist()  # from the midpoint
    place = ball.box.midpoint + ball.unit * moved.center
    slack = ball.box.step
    assert ((place >= UNLIKE.low - slack) & (place <= UNLIKE.high + slack)).all()


# Floats that hold whole numbers


def test_squared_lengths_are_exact_at_the_largest_sizes():
    """4000 features, 16 bits, about a corner: the largest sum of squares that there is, 4000 (2**17 - 2)**2 < 2**46."""
    box = Box(np.zeros(4000), np.ones(4000))
    ball = Ball.of(box, 16, True).about(np.full(4000, 10**9))
    X = np.zeros((70, 4000))
    X[1::2, ::2] = 1
    corner, half = 4000 * (2**17 - 2) ** 2, 2000 * (2**17 - 2) ** 2
    assert ball.reach == corner < 2**50
    assert lengths_of(X, ball) == [corner, half] * 35


@pytest.mark.parametrize("center", [(0, 0, 0), (3, -4, 500), (-1023, 1023, 7)])
def test_lengths_are_those_before_rows_are_shrunk(center):
    X = np.random.default_rng(0).uniform(-1, 2, (500, 3))
    ball = Ball.of(UNIT, 10, True).about(np.array(center))
    assert lengths_of(X, ball.within(9)) == [sum(x * x for x in row) for row in images(X, ball)]


def test_roots_and_quotients_are_rounded_exactly_next_to_whole_numbers():
    """All m up to 2**12, and a hundred thousand between there and 2**25: m**2 - 1, m**2, m**2 + 1. Then k b < 2**50 and k b - 1 over b."""
    rng = np.random.default_rng(0)
    m = np.concatenate([np.arange(1, 2**12), rng.integers(2**12, 2**25, 100_000), [2**24 - 1, 2**24, 2**25 - 1]])
    for step in (-1, 0, 1):
        assert np.array_equal(np.ceil(np.sqrt(m.astype(float) ** 2 + step))[1:], m[1:] + (step > 0))
    b, k = rng.integers(1, 2**25, (2, 100_000))
    assert np.array_equal(np.trunc((k * b).astype(float) / b), k)
    assert np.array_equal(np.trunc((k * b - 1).astype(float) / b), k - 1)


def test_rows_just_beyond_a_radius_come_within_it():
    """Radii next to the squared length of a row at a corner, where rounding would show first."""
    for n_features in (1, 7, 4000):
        ball = Ball.of(Box(np.zeros(n_features), np.ones(n_features)), 16, True)
        for squared_radius in (ball.reach - 1, math.isqrt(ball.reach) ** 2, math.isqrt(ball.reach - 1) ** 2 - 1, ball.reach // 2, 2, 1):
            (w,) = images(np.ones((1, n_features)), ball.within(squared_radius))
            assert sum(x * x for x in w) <= squared_radius


def test_sums_of_squares_do_not_depend_on_how_floats_add_them():
    whole = np.random.default_rng(0).integers(-(2**18), 2**18, (50, 3999)).astype(float)
    assert _squared_lengths(whole).tolist() == [sum(int(x) ** 2 for x in row) for row in whole]


@pytest.mark.parametrize("equal_units", [True, False])
def test_grid_coordinates_become_the_whole_numbers_that_rows_do(equal_units):
    box = Box([0.0, -1.0], [1.0, 3.0])
    X = np.random.default_rng(0).uniform(-2, 4, (300, 2))
    ball = Ball.of(box, 16, equal_units).about(np.array([300, -500])).within(10**8)
    Q = np.concatenate([q.copy() for _, q in ball.steps(X)]).astype(np.uint16)
    assert Q.dtype == np.uint16
    for (rows, ours), (again, theirs) in zip(ball.of_coordinates().chunks(Q), ball.chunks(X), strict=True):
        assert rows == again
        np.testing.assert_array_equal(ours, theirs)
