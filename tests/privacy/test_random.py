"""Streams of bits, certified bounds, and lazily refined draws."""

import operator
import os
import pickle
import random
import secrets
import warnings
from bisect import bisect_left
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from internals import (
    SurvivalTable,
    _digit_table,
    _matrix_laplace,
    _power_table,
    _survival_table,
    bernoulli_exp_minus,
    exp_minus,
    multiply_bounds,
)
from laws import in_child
from sampler_trees import decimal, scaled_exp_minus, survival_of_law

from skdpsynth.exceptions import InsecureRandomnessWarning
from skdpsynth.privacy import DiscreteGaussian, DiscreteLaplace, SecureBits, SeededBits, check_rng

SEED = 918273645


@pytest.mark.real_noise
@pytest.mark.parametrize("noise", [DiscreteLaplace(10), DiscreteLaplace(10**6), DiscreteGaussian(10), DiscreteGaussian(10**6)])
def test_a_forked_child_never_repeats_the_secure_noise_of_its_parent(noise):
    rng = check_rng(None)
    noise.sample(100, rng)  # tables are built, and any buffer there might be is filled, before the fork
    drawn_there = in_child(lambda: noise.sample(100, rng))
    assert drawn_there.shape == (100,)
    # Independent draws of scale 10 coincide with probability below 0.06 each: all 100 with less than 1e-120.
    assert not np.array_equal(drawn_there, noise.sample(100, rng))


@pytest.mark.real_noise
def test_secure_bits_are_those_that_the_operating_system_gave(monkeypatch):
    given, state = [], np.random.get_state()[1].copy()  # noqa: NPY002
    monkeypatch.setattr(os, "urandom", lambda size: given.append(secrets.token_bytes(size)) or given[-1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rng = check_rng(None)
    assert isinstance(rng, SecureBits)
    assert not rng.seeded
    assert not rng.child("a").seeded
    assert rng.random_state() is None
    drawn = [rng.bytes(7), rng.child("a").bytes(32), rng.bytes(0)]
    assert drawn == given
    DiscreteLaplace(100).sample(50, rng)
    assert sum(map(len, given[3:])) >= 100  # 16 bits a value
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002


@pytest.mark.parametrize("random_state", [0, SEED, np.int64(7), np.random.RandomState(3)])
def test_a_seed_warns_that_the_result_is_not_private(random_state):
    with pytest.warns(InsecureRandomnessWarning, match="not private; leave random_state=None"):
        rng = check_rng(random_state)
    assert rng.seeded


def test_one_seed_gives_one_stream_and_another_seed_another():
    def draw(seed):
        return DiscreteLaplace(100).sample(50, check_rng(seed)).tolist()

    assert draw(SEED) == draw(SEED) == draw(np.int64(SEED))
    assert draw(SEED) != draw(SEED + 1)
    assert draw(0) != draw(2**32) != draw(2**64)  # no bit of a long seed is dropped
    first, second, other = (SeededBits(seed).random_state().bytes(16) for seed in (SEED, SEED, SEED + 1))  # of an inner estimator
    assert first == second != other


def test_a_random_state_object_moves_on_so_that_two_fits_differ():
    shared = np.random.RandomState(SEED)
    first, second = (check_rng(shared).bytes(32) for _ in range(2))
    again = np.random.RandomState(SEED)
    assert first != second
    assert [first, second] == [check_rng(again).bytes(32) for _ in range(2)]


def test_streams_of_different_names_differ():
    root = SeededBits(SEED)
    streams = [root, *(root.child(name) for name in ("a", "b", "ab", "a/b", "a', 'b", ""))]
    streams += [root.child(first).child(second) for first, second in ("ab", "ba", "aa")]
    assert len({stream.bytes(16) for stream in streams}) == len(streams)


def test_a_childs_stream_does_not_depend_on_its_siblings_or_on_what_was_drawn():
    alone = SeededBits(SEED).child("b").bytes(32)
    root = SeededBits(SEED)
    root.bytes(100)
    root.child("a").bytes(7)
    root.child("c")
    assert root.child("b").bytes(32) == alone


def test_the_seed_is_never_shown():
    rng = SeededBits(SEED).child("a")
    for shown in (repr(rng), str(rng), f"{rng}", repr([rng])):
        assert str(SEED) not in shown
    with pytest.warns(InsecureRandomnessWarning) as caught:
        check_rng(SEED)
    assert str(SEED) not in str(caught[0].message)


@pytest.mark.parametrize("random_state", [np.random.default_rng(0), "0", 1.0, -1, True, np.random.SeedSequence(0), [1]])
def test_other_random_states_are_refused_in_one_sentence(random_state):
    with pytest.raises(ValueError, match=r"random_state must be None .*, a non-negative int or a numpy RandomState, got .*; leave it None"):
        check_rng(random_state)


def test_a_seeded_stream_goes_on_after_pickling_where_it_was():
    rng = SeededBits(SEED)
    rng.bytes(10)
    copy = pickle.loads(pickle.dumps(rng))
    assert copy.bytes(32) == rng.bytes(32)


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


MASK = (1 << 64) - 1
TABLES = [
    ("laplace", partial(_power_table, signed=True), Fraction(1, 100)),  # its thresholds are all below 2**-64
    ("laplace", partial(_power_table, signed=True), Fraction(1, 3)),
    ("laplace", partial(_power_table, signed=True), Fraction(5, 2)),
    ("laplace", partial(_power_table, signed=True), Fraction(20)),
    ("geometric", partial(_power_table, signed=False), Fraction(4)),
    ("digit", _digit_table, Fraction(1000)),
    ("digit", _digit_table, Fraction(2**58)),
    ("gaussian", _survival_table, Fraction(1)),
    ("gaussian", _survival_table, Fraction(40)),
    ("half_gaussian", partial(_survival_table, signed=False), Fraction(33)),
    ("half_gaussian", lambda _: _matrix_laplace._whole_part_table(), Fraction(1)),
]


def inverse(law, V):
    """Return max{k : V / 2**192 < P(M >= k)}."""
    return bisect_left(law, -decimal(Fraction(V, 1 << 192)), key=operator.neg) - 1


def sample_uniform(table, V, scripted):
    """Draw once with V = V_1 / 2**192 for the uniform, sign positive, and return the draw and the requests for bits.

    The table reads 15 bits, then 49, then 64 at a time.
    """
    prefix = V >> 128
    word = np.uint16(prefix >> 49 << 1).tobytes()
    more = np.uint64((prefix << 15) & MASK).tobytes()
    rng = scripted(word, more, (V >> 64 & MASK).to_bytes(8), (V & MASK).to_bytes(8))
    return int(table.sample(1, rng)[0]), rng.requests


@pytest.mark.parametrize(("name", "make", "scale"), TABLES)
def test_a_uniform_one_unit_from_a_threshold_is_decided_exactly(name, make, scale, scripted):
    law, table = survival_of_law(name, scale), make(scale)
    thresholds = [floor for floor in (int(chance * (1 << 192)) for chance in law[1:]) if floor]
    chosen = np.unique(np.geomspace(1, sum(t > 1 for t in thresholds), 7).astype(int))
    for k in chosen:
        threshold = thresholds[k - 1]
        # 2**-64 away, the 64-bit prefix decides (unless another threshold shares it).
        for V in (max(threshold - (1 << 128), 1), threshold + (1 << 128)):
            assert sample_uniform(table, V, scripted)[0] == inverse(law, V)
        # 2**-128 and 2**-192 away, the prefix ties, and further words decide.
        for step in (min(1 << 64, threshold - 1), 1):
            below, requests = sample_uniform(table, threshold - step, scripted)
            assert below == inverse(law, threshold - step) >= k
            assert requests >= 3
            above, requests = sample_uniform(table, threshold + step, scripted)
            assert above == inverse(law, threshold + step) < k
            assert requests >= 3


@pytest.mark.parametrize(("name", "make", "scale"), TABLES)
def test_a_uniform_below_every_listed_threshold_is_refined_until_it_is_not(name, make, scale, scripted):
    law = survival_of_law(name, scale)
    V = 3 << 64  # the first 64 bits, which the table holds, are all zero
    assert sample_uniform(make(scale), V, scripted)[0] == inverse(law, V)


@pytest.mark.parametrize("offset", [-1, 0, 1])
def test_a_threshold_inside_the_outermost_unit_of_a_bucket_is_not_overlooked(offset, scripted):
    # The buckets of the look-up table end at multiples of 2**49; S(1) lies half a unit above offset + the middle one.
    def survival(bits):
        return [((2**64 + 2 * offset + 1) << bits - 65,) * 2]

    table = SurvivalTable(survival, signed=False)
    for V in range(2**63 - 3, 2**63 + 3):  # in units of 2**-64; a later bit decides within the unit of the threshold
        for half in (0, 1):
            draw, _ = sample_uniform(table, (2 * V + half) << 127, scripted)
            assert draw == (2 * V + half < 2**64 + 2 * offset + 1)


def test_draws_beyond_one_block_are_all_filled():
    table = _power_table(Fraction(3), True)
    draws = table.sample((1 << 17) + 1000, SeededBits(5))
    # An unfilled int64 buffer would show: 1000 draws, each 0 with probability 0.16; P(at most 50) < 1e-20.
    assert np.count_nonzero(draws[1 << 17 :] == 0) > 50
    assert np.abs(draws).max() < 3 * 60
