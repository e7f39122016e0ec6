"""The discrete Laplace law: enumerated bit by bit, tested by chi-square, and compared with another implementation."""

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from internals import _laplace as laplace
from laws import ALARM, CERTAIN, symmetric
from sampler_trees import scaled_exp_minus

from skdpsynth.privacy import DiscreteLaplace, SeededBits, laplace_scale

SMALL = [Fraction(1, 100), Fraction(1, 3), Fraction(1), Fraction(5, 2), Fraction(10), Fraction(40)]


def survival(scale):
    """Return k -> P(|Z| >= k)."""
    return lambda k: 2 * math.exp(-k / scale) / (1 + math.exp(-1 / scale)) if k else 1.0


@pytest.mark.parametrize(
    ("make", "law", "scale"),
    [
        (partial(laplace._power_table, signed=True), "laplace", Fraction(1, 3)),
        (partial(laplace._power_table, signed=True), "laplace", Fraction(10)),
        (laplace._digit_table, "digit", Fraction(257)),
        (laplace._digit_table, "digit", Fraction(2**58)),
        (partial(laplace._power_table, signed=False), "geometric", Fraction(4)),
    ],
)
def test_every_16_bit_word_gives_the_exact_draw(make, law, scale, exact_law, check_every_word):
    check_every_word(make(scale), exact_law(law, scale), signed=law == "laplace")


class Constant:
    """A table whose every draw is one value."""

    def __init__(self, value):
        self._value = value

    def sample(self, size, rng):
        return np.full(size, self._value, dtype=np.int64)


def test_digits_are_put_together_in_base_256(monkeypatch, scripted):
    asked = []
    monkeypatch.setattr(laplace, "_digit_table", lambda scale: asked.append(scale) or Constant(len(asked)))
    monkeypatch.setattr(laplace, "_power_table", lambda scale, signed: asked.append(scale) or Constant(200))
    draws = DiscreteLaplace(2**30).sample(2, scripted(bytes([0b01000000])))
    assert asked == [2**30, 2**22, 2**14, 2**6]
    expected = 1 + 2 * 256 + 3 * 256**2 + 200 * 256**3
    np.testing.assert_array_equal(draws, [expected, -expected])


def test_minus_zero_is_drawn_again(monkeypatch):
    parts = [(np.zeros(2, dtype=np.int64), np.zeros(2, dtype=np.int64), 8), (np.array([7]), np.array([0]), 8)]
    monkeypatch.setattr(laplace, "draw_geometric", lambda scale, size, rng: parts.pop(0))
    # The signs are +, -; the second is drawn again and gets a sign of its own, again minus.
    rng = type("Signs", (), {"seeded": True, "bytes": lambda self, size: bytes([0b01000000] if len(parts) else [0b10000000])})()
    np.testing.assert_array_equal(DiscreteLaplace(1000).sample(2, rng), [0, -7])
    assert not parts


def test_a_magnitude_that_wraps_to_0_is_not_taken_for_minus_zero(monkeypatch, scripted):
    drawn = []
    monkeypatch.setattr(laplace, "_digit_table", lambda scale: Constant(0))
    monkeypatch.setattr(laplace, "_power_table", lambda scale, signed: drawn.append(scale) or Constant(256))  # 256 * 2**56 = 2**64
    assert DiscreteLaplace(2**58).sample(1, scripted(then=255)) == 0
    assert len(drawn) == 1


@pytest.mark.parametrize("scale", [1.0, 3.7, 40.0, 1000.0, 2.0**40])
def test_the_scale_is_the_claimed_one(scale):
    draws = DiscreteLaplace(scale).sample(20_000, SeededBits(20, ("laplace", str(scale))))
    assert symmetric(draws, survival(scale)) > ALARM
    assert symmetric(draws, survival(scale * 2 / 3)) < CERTAIN
    assert symmetric(draws, survival(scale * 3 / 2)) < CERTAIN


@pytest.mark.parametrize("scale", SMALL[1:])
def test_moments_are_those_of_the_law(scale, exact_law):
    tails = [float(s) for s in exact_law("laplace", scale).survival[1:]]
    noise = DiscreteLaplace(scale)
    assert noise.mean_absolute() == pytest.approx(math.fsum(tails), rel=1e-12)  # E M = sum P(M >= k)
    assert noise.variance() == pytest.approx(math.fsum((2 * k + 1) * s for k, s in enumerate(tails)), rel=1e-12)


def test_moments_have_the_shape_of_the_scale_and_vanish_without_noise():
    noise = DiscreteLaplace([[0, Fraction(1, 100), 5]])
    for moment in (noise.variance(), noise.mean_absolute()):
        assert moment.shape == (1, 3)
        assert moment[0, 0] == 0
        assert 0 <= moment[0, 1] < 1e-40
        assert moment[0, 2] > 1
    assert DiscreteLaplace(0).variance() == 0


def test_laplace_scale_is_sensitivity_over_epsilon_exactly_in_the_range_that_can_be_drawn():
    assert laplace_scale(2, Fraction(1, 10)) == laplace_scale(2, 0.1) == 20  # a float is the decimal it prints
    assert (laplace_scale(1, 3), laplace_scale(1, 1000), laplace_scale(1, math.inf)) == (Fraction(1, 3), Fraction(1, 100), 0)
    for epsilon in (0, -1, math.nan):
        with pytest.raises(ValueError, match="epsilon must be a number greater than 0"):
            laplace_scale(1, epsilon)


@pytest.mark.parametrize("scale", [*SMALL, Fraction(257), Fraction(12345678, 1000), Fraction(2**40)])
@pytest.mark.parametrize("distance", [0.5, 1, 1.7, 3, 6.5])
def test_where_scales_are_many_a_proposal_is_accepted_with_the_exact_probability(monkeypatch, scripted, scale, distance):
    """Of a whole scale t > scale, with probability exp(-z / scale) / exp(-z / t), to 2**-64 and around the margin of the float filter."""
    shift = 8
    magnitude, asked = math.ceil(scale * Fraction(distance)), []
    parts = np.array([False]), np.array([magnitude & 255]), np.array([magnitude >> shift]), shift
    monkeypatch.setattr(laplace, "draw_parts", lambda t, size, rng: asked.append(t) or parts)
    monkeypatch.setattr(laplace, "sample_by_rejection", lambda size, propose: propose(size))

    def accepts(uniform, then=0):
        (proposal,), (is_accepted,) = laplace._sample_by_rejection(scale, 1, scripted(np.uint64(uniform).tobytes(), then=then))
        assert proposal == magnitude
        return is_accepted

    accepts(0)
    (t,) = asked
    assert t.denominator == 1
    assert t > scale
    threshold = int(scaled_exp_minus(magnitude * (1 / scale - 1 / t)))
    for step in (1, 2, 2**11, 2**31, 2**32 - 2**12, 2**32, 2**32 + 2**12, 2**40):
        if step <= threshold:
            assert accepts(threshold - step, then=255)
        if threshold + step < 2**64:
            assert not accepts(threshold + step)
