"""Certified bounds: the arithmetic that decides draws, against 100-digit decimals."""

import random
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from internals import bernoulli_exp_minus, exp_minus, multiply_bounds
from sampler_trees import scaled_exp_minus

rationals = st.fractions(min_value=0, max_value=300, max_denominator=2**70)


@given(x=rationals, bits=st.integers(1, 256))
@settings(max_examples=200, deadline=None)
def test_bounds_hold_the_exponential_and_are_a_few_units_apart(x, bits):
    lo, hi = exp_minus(x, bits)
    assert lo <= scaled_exp_minus(x, bits) <= hi
    assert 0 <= lo <= hi <= 1 << bits
    assert hi - lo <= 3


def test_bounds_hold_for_exponents_whose_roundings_matter_most():
    # Below 1/2 the series itself gives the bounds: 2,000 exponents of 60 random bits, as one in 600 shows a lost unit.
    rng = random.Random(0)
    for _ in range(2000):
        x, bits = Fraction(rng.randrange(2**60), 2**61), rng.choice([16, 64, 128, 256])
        lo, hi = exp_minus(x, bits)
        assert lo <= scaled_exp_minus(x, bits) <= hi


@given(x=st.integers(300, 10**6), bits=st.integers(1, 256))
@settings(max_examples=50, deadline=None)
def test_bounds_of_a_tiny_exponential_stay_apart_so_that_0_is_never_claimed(x, bits):
    lo, hi = exp_minus(Fraction(x), bits)
    assert (lo, hi) == (0, 1)


@given(bits=st.integers(1, 80), data=st.data())
@settings(max_examples=100, deadline=None)
def test_product_bounds_hold_every_product_of_what_their_factors_hold(bits, data):
    unit = st.integers(0, 1 << bits)
    a, b = (sorted(data.draw(st.tuples(unit, unit))) for _ in range(2))
    lo, hi = multiply_bounds(a, b, bits)
    assert lo <= Fraction(a[0] * b[0], 1 << bits)
    assert hi >= Fraction(a[1] * b[1], 1 << bits)
    assert hi - lo <= Fraction(a[1] * b[1] - a[0] * b[0], 1 << bits) + 2


@pytest.mark.parametrize("x", [Fraction(1, 10**9), Fraction(1, 7), Fraction(1), Fraction(22, 7), Fraction(40)])
@pytest.mark.parametrize("bits", [1, 8, 64])
def test_a_bernoulli_draw_is_the_comparison_of_all_its_bits(x, bits, scripted):
    # V starts with the first `bits` bits of exp(-x): the decision is left to the next 64, then to the 64 after them.
    threshold = int(scaled_exp_minus(x, bits + 128))
    prefix, first, second = threshold >> 128, threshold >> 64 & (1 << 64) - 1, threshold & (1 << 64) - 1
    below, above = (first - 1).to_bytes(8), (first + 1).to_bytes(8)
    assert bernoulli_exp_minus(x, scripted(below), prefix, bits)
    assert not bernoulli_exp_minus(x, scripted(above), prefix, bits)
    assert bernoulli_exp_minus(x, scripted(first.to_bytes(8), (second - 5).to_bytes(8)), prefix, bits)
    assert not bernoulli_exp_minus(x, scripted(first.to_bytes(8), (second + 5).to_bytes(8)), prefix, bits)


def test_a_certain_bernoulli_draw_asks_for_no_bits(scripted):
    rng = scripted()
    assert bernoulli_exp_minus(Fraction(1), rng, 0, 64)
    assert not bernoulli_exp_minus(Fraction(1), rng, (1 << 64) - 1, 64)
    assert rng.requests == 0
