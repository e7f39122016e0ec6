"""From a record to public integers and back, and rows as whole numbers in a ball: each by itself, exactly."""

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from internals import _box

from skdpsynth.domain import Ball, Box

LOW, HIGH = np.array([-1.5, 0.0, 10.0]), np.array([2.5, 1.0, 10.75])


def rows_around(box, n_samples, seed=0):
    """Rows in and around the box, some of them on its faces, at its midpoint, infinite or missing."""
    rng = np.random.default_rng(seed)
    X = box.low + box.width * rng.uniform(-0.2, 1.2, (n_samples, box.n_features))
    special = np.stack([box.low, box.high, box.midpoint, *(np.full_like(box.low, v) for v in (np.nan, np.inf, -np.inf))])
    choice = rng.integers(0, 3 * len(special), X.shape)
    return np.where(choice < len(special), special[choice % len(special), np.arange(box.n_features)], X)


finite = st.floats(-1e9, 1e9)


@given(low=finite, width=st.floats(1e-3, 1e9), bits=st.integers(1, 30), values=st.lists(finite, min_size=1, max_size=20))
@settings(max_examples=100, deadline=None)
def test_quantize_is_the_formula_up_to_ties_at_the_edges_of_a_step(low, width, bits, values):
    high = low + width
    values = [*values, low, high, low + 0.3 * width, low + 0.999 * width]
    got = Box([low], [high], bits=bits).quantize(np.array(values)[:, None])[:, 0]
    for value, q in zip(values, got.tolist(), strict=True):
        exact = (Fraction(value) - Fraction(low)) / (Fraction(high) - Fraction(low)) * 2**bits
        slack = abs(exact) / 2**50  # four correctly rounded operations
        assert min(max(exact - slack, 0) // 1, 2**bits - 1) <= q <= min(max(exact + slack, 0) // 1, 2**bits - 1)


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-1.0, 1.0), (0.1, 0.7), (-273.15, 1e4), (1e6, 1e6 + 3)])
def test_quantize_after_restore_is_the_identity_on_the_whole_grid(low, high):
    box = Box([low], [high])
    Q = np.arange(2**box.bits)[:, None]
    np.testing.assert_array_equal(box.quantize(box.restore(Q)), Q)


LAYOUTS = {
    "C": lambda X: X,
    "F": np.asfortranarray,
    "strided": lambda X: np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)[::2, ::2],
    "reversed": lambda X: X[::-1, ::-1],
    "float32": lambda X: X.astype(np.float32),
    "float16": lambda X: X.astype(np.float16),
    "longdouble": lambda X: X.astype(np.longdouble),
    "int64": lambda X: np.nan_to_num(X, posinf=99, neginf=-99).astype(np.int64),
    "uint8": lambda X: np.abs(np.nan_to_num(X, posinf=99, neginf=99)).astype(np.uint8),
    "bool": lambda X: X > 1,
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("n_samples", [1, 63, 64, 65, 128, 700])
def test_record_is_quantized_alone_as_in_a_batch(layout, n_samples, monkeypatch):
    monkeypatch.setattr(_box, "_VALUES", 1024)  # several chunks
    for box in (Box(LOW, HIGH), Box([0.0, 0.0, 0.0], [1.0, 1.0, 1.0], bits=30)):
        X = LAYOUTS[layout](rows_around(box, n_samples))
        np.testing.assert_array_equal(box.quantize(X), np.vstack([box.quantize(X[i : i + 1]) for i in range(n_samples)]))


def test_float_that_is_wider_than_double_is_rounded_to_double_first_alone_and_in_a_batch():
    # 1 + 2**-20 - 2**-60 rounds to the edge 1 + 2**-20; subtracting 1 before rounding would put it below the edge.
    X = np.full((64, 1), np.longdouble(1) + np.longdouble(2) ** -20 - np.longdouble(2) ** -60)
    box = Box([1.0], [2.0], bits=20)
    np.testing.assert_array_equal(box.quantize(X), np.ones((64, 1)))
    np.testing.assert_array_equal(box.quantize(X[:1]), [[1]])


@pytest.mark.parametrize(("low", "high"), [(LOW, HIGH), (np.zeros(3), np.full(3, 2.0**-990)), (np.zeros(3), np.full(3, 2.0**990))])
@given(depths=st.lists(st.integers(0, 30), min_size=3, max_size=3), seed=st.integers(0, 2**32))
@settings(max_examples=50, deadline=None)
def test_fewer_bits_are_the_leading_bits(low, high, depths, seed):
    box = Box(low, high, bits=30)
    X = rows_around(box, 70, seed)
    bits = np.array(depths)
    steps = next(box.chunks(X, bits))[1]
    np.testing.assert_array_equal(steps, box.quantize(X) >> (30 - bits))


@pytest.mark.parametrize("bits", [1, 16, 30])
def test_nan_goes_to_the_midpoint_and_what_lies_on_or_beyond_a_face_to_the_step_beside_it(bits):
    box = Box(LOW, HIGH, bits=bits)
    X = np.array([[np.nan, np.inf, -np.inf], [-np.inf, np.nan, np.inf], [np.nan] * 3, LOW, HIGH, np.nextafter(HIGH, np.inf), box.midpoint])
    half, last = 2 ** (bits - 1), 2**bits - 1
    np.testing.assert_array_equal(
        box.quantize(X), [[half, last, 0], [0, half, last], [half] * 3, [0] * 3, [last] * 3, [last] * 3, [half] * 3]
    )


def test_no_value_raises_or_warns():
    values = [0.0, -0.0, 1e308, -1e308, np.finfo(float).max, 5e-324, np.nan, np.inf, -np.inf]
    for width in (2.0**-990, 1.0, 2.0**990):
        with warnings.catch_warnings(), np.errstate(over="warn", invalid="warn", divide="warn"):
            warnings.simplefilter("error")
            Q = Box([-width / 2], [width / 2]).quantize(np.array(values * 30)[:, None])
        assert 0 <= Q.min() <= Q.max() < 2**16


def test_box_keeps_its_own_read_only_bounds():
    low = LOW.copy()
    box = Box(low, HIGH)
    low[0] = 7
    assert box.low[0] == LOW[0]
    with pytest.raises(ValueError, match="read-only"):
        box.low[0] = 7


def test_bounds_may_be_scalars_arrays_or_both_or_in_a_dict_by_column():
    for bounds in [(0, 2), ([0, 0], 2), (np.zeros(2), np.full(2, 2.0)), np.array([[0, 0], [2, 2]])]:
        box = Box.from_bounds(bounds, 2)
        np.testing.assert_array_equal([box.low, box.high], [[0, 0], [2, 2]])
    box = Box.from_bounds({"b": (0, 1), "a": (-5, 5)}, 2, ["a", "b"])
    np.testing.assert_array_equal([box.low, box.high], [[-5, 0], [5, 1]])


WRONG = {
    "order": [(1.0, 1.0), (2.0, 1.0), ([0.0, 1.0], [1.0, 1.0]), {"a": (0, 1), "b": (1, 0)}],
    "not finite": [(np.nan, 1.0), (0.0, np.inf), (-np.inf, 0.0), (-1e308, 1e308), (0, 10**400), (-(10**400), 0)],
    "width": [(0.0, 1e300), (0.0, 1e-300)],
    "shape": [([0.0, 0.0, 0.0], 1.0), ([[0.0, 0.0]], 1.0), (0.0, 1.0, 2.0), 0.0, {"a": (0, 1), "b": 1}, {"a": (0, 1), "b": (0, 1, 2)}],
    "numbers": [("a", "b"), (0.0, 1j), (None, 1.0), (0.0, np.array([1j, 1j])), (np.timedelta64(0), np.timedelta64(1))],
    "names": [{"a": (0, 1)}, {"a": (0, 1), "b": (0, 1), "c": (0, 1)}],
    "texts": ["05", b"05", ("0", "1"), (0, ["1", "2"]), (np.array(["0", "0"], dtype=object), 1), {"a": "05", "b": (0, 1)}],
    "sets": [{0, 1}, frozenset((0, 1)), {"a": {0, 1}, "b": (0, 1)}],
    "masked": [np.ma.array([0.0, 1.0], mask=[True, False]), (np.ma.array([0.0, 0.0], mask=[True, False]), 1.0)],
    "rows": [np.full((50, 50), 0.5)],
}


@pytest.mark.parametrize("some", WRONG.values(), ids=WRONG)
def test_bad_bounds_are_refused_in_one_sentence_that_names_them(some):
    for bounds in some:
        with pytest.raises(ValueError, match=r"^bounds [^\n]*[^.\n]\.$") as caught:
            Box.from_bounds(bounds, 2, ["a", "b"])
        assert len(str(caught.value)) < 250
    with pytest.raises(ValueError, match=r"^bounds is a dict .* no column names"):
        Box.from_bounds({"a": (0, 1)}, 1)


UNLIKE = Box([0.0, -5.0, 2.0], [1.0, 5.0, 2.5])  # widths 1, 10 and 1/2


def images(X, ball):
    """All rows as whole numbers, as Python integers."""
    return [[int(w) for w in row] for _, whole in ball.chunks(X) for row in whole.tolist()]


def lengths_of(X, ball):
    """Squared lengths of all rows, as Python integers."""
    return [int(length) for _, q in ball.steps(X) for length in ball.squared_lengths(q)]


def grid_by_definition(box, bits, equal_units):
    """The grid, written down from the definition: with equal units, a cube about the midpoint."""
    if not equal_units:
        return Box(box.low, box.high, bits)
    half = (box.high - box.low).max() / 2
    return Box(box.midpoint - half, box.midpoint + half, bits)


def map_by_hand(row, box, bits, equal_units, center, squared_radius):
    """One row, in Python integers alone, once its place on the grid is known."""
    grid = grid_by_definition(box, bits, equal_units)
    (place,) = grid.quantize(np.clip(row, box.low, box.high)[None]).tolist()
    w = [2 * q - (2**bits - 1) - int(c) for q, c in zip(place, center, strict=True)]
    square = sum(x * x for x in w)
    if squared_radius is None or square <= squared_radius:
        return w
    least = math.isqrt(square)
    length = least + (least**2 < square)
    shrunk = [abs(x) * math.isqrt(squared_radius) // length for x in w]
    return [s if x > 0 else -s for s, x in zip(shrunk, w, strict=True)]


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


def test_squared_lengths_are_exact_at_the_largest_sizes():
    """4000 features, 16 bits, about a corner: the largest sum of squares that there is, 4000 (2**17 - 2)**2 < 2**46."""
    box = Box(np.zeros(4000), np.ones(4000))
    ball = Ball.of(box, 16, True).about(np.full(4000, 10**9))
    X = np.zeros((70, 4000))
    X[1::2, ::2] = 1
    corner, half = 4000 * (2**17 - 2) ** 2, 2000 * (2**17 - 2) ** 2
    assert ball.reach == corner < 2**50
    assert lengths_of(X, ball) == [corner, half] * 35


def test_rows_just_beyond_a_radius_come_within_it():
    """Radii next to the squared length of a row at a corner, where rounding would show first."""
    for n_features in (1, 7, 4000):
        ball = Ball.of(Box(np.zeros(n_features), np.ones(n_features)), 16, True)
        for squared_radius in (ball.reach - 1, math.isqrt(ball.reach) ** 2, math.isqrt(ball.reach - 1) ** 2 - 1, ball.reach // 2, 2, 1):
            (w,) = images(np.ones((1, n_features)), ball.within(squared_radius))
            assert sum(x * x for x in w) <= squared_radius


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
