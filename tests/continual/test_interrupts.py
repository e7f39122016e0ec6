"""An update that does not come to its end has counted nothing, so that it may be repeated."""

import itertools
import math
import os
import sys

import numpy as np
import pytest

import skdpsynth
from skdpsynth.continual import (
    BinaryCounter,
    HonakerCounter,
    InhomogeneousCounter,
    KaryCounter,
    SparseCounter,
    SquareRootCounter,
    UnboundedCounter,
)
from skdpsynth.exceptions import BudgetExceededError
from skdpsynth.privacy import PrivacyAccountant, SeededBits

HERE = os.path.dirname(skdpsynth.__file__) + os.sep


def interrupted(call, line):
    """Call, with a KeyboardInterrupt where line number `line` of this package begins; return whether it came so far."""
    n_lines = 0

    def watch(frame, event, argument):
        nonlocal n_lines
        if not frame.f_code.co_filename.startswith(HERE):
            return None
        if event == "line":
            n_lines += 1
            if n_lines == line:
                raise KeyboardInterrupt
        return watch

    before = sys.gettrace()
    sys.settrace(watch)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def levels_of(kind):
    def make(epsilon, rng):
        counter = InhomogeneousCounter(kind, n_counters=3)
        counter.start_level(20_000, epsilon, PrivacyAccountant(epsilon), rng)
        return counter

    return make


def plain(kind, horizon=20_000, **own):
    return lambda epsilon, rng: kind(horizon, epsilon=epsilon, n_counters=3, random_state=rng, **own)


MAKERS = {
    "kary": plain(KaryCounter),
    "binary": plain(BinaryCounter),
    "honaker": plain(HonakerCounter),
    "sparse": plain(SparseCounter),
    "sparse, every 3": plain(SparseCounter, every=3),
    "square root": lambda rho, rng: SquareRootCounter(3000, rho=rho, n_counters=3, random_state=rng),
    "unbounded": lambda rho, rng: UnboundedCounter(rho=rho, n_counters=3, random_state=rng),
    "levels of kary": levels_of("kary"),
    "levels of binary": levels_of("binary"),
    "levels of sparse": levels_of("sparse"),
}
WAYS = {
    "step": lambda counter: counter.update([1, 0, 2]),
    "cell": lambda counter: counter.update_cells([2]),
    "cells": lambda counter: counter.update_cells([2, 0, 1, 1]),
}


def ways():
    """Each counter in each way. In every lane each is met in one, so that each line of a way is met by some counter."""
    turns = dict(zip(MAKERS, itertools.cycle(WAYS), strict=False))
    for kind, way in itertools.product(MAKERS, WAYS):
        yield pytest.param(MAKERS[kind], WAYS[way], id=f"{kind}-{way}", marks=pytest.mark.must if turns[kind] == way else ())


@pytest.mark.parametrize(("make", "way"), ways())
def test_an_update_that_is_interrupted_at_any_line_and_repeated_counts_once(make, way):
    """With a seed, the values are those of a counter that was never interrupted, at every time."""
    disturbed, calm = make(0.5, SeededBits(3)), make(0.5, SeededBits(3))
    n_interrupts, line, rounds = 0, 1, 0
    while rounds < 2 and n_interrupts < 400:  # lines differ with the time: blocks that end, comparisons
        if interrupted(lambda: way(disturbed), line):
            n_interrupts, line = n_interrupts + 1, line + 1
            way(disturbed)
        else:
            line, rounds = 1, rounds + 1
        way(calm)
        np.testing.assert_array_equal(disturbed.value, calm.value)
    assert n_interrupts > 30


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("kind", [KaryCounter, BinaryCounter, HonakerCounter, SparseCounter])
def test_an_update_that_is_refused_by_a_closed_accountant_counts_nothing(kind, way):
    accountant = PrivacyAccountant(math.inf)
    counter = kind(100, epsilon=math.inf, n_counters=3, accountant=accountant)
    way(counter)
    expected, steps = counter.value, counter.n_steps
    accountant.close()
    with pytest.raises(BudgetExceededError, match="closed record"):
        way(counter)
    assert counter.n_steps == steps
    counter.resume()
    np.testing.assert_array_equal(counter.value, expected)


@pytest.mark.parametrize("kind", ["kary", "binary", "sparse"])
def test_a_level_that_is_interrupted_at_any_line_of_its_end_ends_once(kind):
    line = 1
    while True:
        counter = InhomogeneousCounter(kind, n_counters=2)
        counter.start_level(9, math.inf, PrivacyAccountant(math.inf))
        counter.update_cells([0, 1, 1])
        came_so_far = interrupted(counter.end_level, line)
        counter.end_level()
        np.testing.assert_array_equal(counter.value, [1, 2])
        if not came_so_far:
            break
        line += 1
    assert line > 5


def test_reading_that_is_interrupted_at_any_line_draws_no_noise_again():
    line, counter, other = 1, KaryCounter(500, n_counters=3, random_state=1), KaryCounter(500, n_counters=3, random_state=1)
    for line in range(1, 60):
        for each_one in (counter, other):
            each_one.update(1)
        interrupted(lambda: counter.value, line)
        np.testing.assert_array_equal(counter.value, other.value)
