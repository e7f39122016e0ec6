"""The map from a record to public integers and back."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from internals import _box

from skdpsynth.domain import Box

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


@given(low=st.floats(-1e3, 1e3), width=st.floats(1.0, 1e3), bits=st.integers(1, 24), seed=st.integers(0, 2**32))
@settings(max_examples=50, deadline=None)
def test_restore_after_quantize_is_within_half_a_step(low, width, bits, seed):
    box = Box([low], [low + width], bits=bits)
    X = box.clip(low + width * np.random.default_rng(seed).random((50, 1)))
    assert np.all(np.abs(box.restore(box.quantize(X)) - X) <= box.step / 2 * (1 + 1e-12) + 1e-12)


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


# Bounds


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


def test_box_with_other_bits_is_the_same_box_on_another_grid():
    box = Box(LOW, HIGH, whole=[True, False, False])
    fine = box.with_bits(30)
    assert (fine.bits, box.bits) == (30, 16)
    for name in ("low", "high", "whole"):
        np.testing.assert_array_equal(getattr(fine, name), getattr(box, name))
    for bits in (0, 31, -1, 1.5, "16", None):
        for make in (box.with_bits, lambda bits: Box([0], [1], bits=bits)):
            with pytest.raises(ValueError, match=r"^bits must be an integer from 1 to 30"):
                make(bits)
