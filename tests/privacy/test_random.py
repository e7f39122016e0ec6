"""Streams of bits: secure by default, seeded only with a warning, never repeated by accident."""

import os
import pickle
import secrets
import warnings

import numpy as np
import pytest

from skdpsynth.exceptions import InsecureRandomnessWarning
from skdpsynth.privacy import DiscreteGaussian, DiscreteLaplace, SecureBits, SeededBits, check_rng

pytestmark = pytest.mark.real_noise
SEED = 918273645


@pytest.mark.parametrize("noise", [DiscreteLaplace(10), DiscreteLaplace(10**6), DiscreteGaussian(10), DiscreteGaussian(10**6)])
def test_a_forked_child_never_repeats_the_secure_noise_of_its_parent(noise, in_child_process):
    rng = check_rng(None)
    noise.sample(100, rng)  # tables are built, and any buffer there might be is filled, before the fork
    drawn_there = in_child_process(lambda: noise.sample(100, rng))
    assert drawn_there.shape == (100,)
    # Independent draws of scale 10 coincide with probability below 0.06 each: all 100 with less than 1e-120.
    assert not np.array_equal(drawn_there, noise.sample(100, rng))


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
