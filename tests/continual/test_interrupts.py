"""An update that does not come to its end has counted nothing, so that it may be repeated."""

import itertools
import math
import os

import numpy as np
import pytest
from laws import interrupted, refuses
from test_counters import COUNTERS, LEVELS, make

import skdpsynth
from skdpsynth.continual import KaryCounter, SparseCounter
from skdpsynth.exceptions import BudgetExceededError
from skdpsynth.privacy import PrivacyAccountant, SeededBits

HERE = os.path.dirname(skdpsynth.__file__) + os.sep


WAYS = {
    "step": lambda counter: counter.update([1, 0, 2]),
    "cell": lambda counter: counter.update_cells([2]),
    "cells": lambda counter: counter.update_cells([2, 0, 1, 1]),
}


def ways():
    """Each counter in each way. In every lane each is met in one, so that each line of a way is met by some counter."""
    kinds = [*((kind, {}) for kind in COUNTERS), (SparseCounter, {"every": 3}), *((kind, {}) for kind in LEVELS)]
    for (i, (kind, options)), (j, way) in itertools.product(enumerate(kinds), enumerate(WAYS)):
        lane = pytest.mark.must if (i + 1) % 3 == j else pytest.mark.nightly
        yield pytest.param(kind, options, WAYS[way], id=f"{getattr(kind, '__name__', kind)}-{len(options)}-{way}", marks=lane)


@pytest.mark.parametrize(("kind", "options", "way"), list(ways()))
def test_an_update_that_is_interrupted_at_any_line_and_repeated_counts_once(kind, options, way):
    """With a seed, the values are those of a counter that was never interrupted, at every time."""
    disturbed, calm = (make(kind, 3000, 0.5, n_counters=3, random_state=SeededBits(3), **options) for _ in range(2))
    n_interrupts, line, rounds = 0, 1, 0
    while rounds < 2 and n_interrupts < 400:  # lines differ with the time: blocks that end, comparisons
        if interrupted(lambda: way(disturbed), line, HERE):
            n_interrupts, line = n_interrupts + 1, line + 1
            way(disturbed)
        else:
            line, rounds = 1, rounds + 1
        way(calm)
        np.testing.assert_array_equal(disturbed.value, calm.value)
    assert n_interrupts > 30


@pytest.mark.parametrize("kind", COUNTERS)
def test_an_update_that_is_refused_by_a_closed_accountant_counts_nothing(kind):
    for way in WAYS.values():
        accountant = PrivacyAccountant(math.inf, 1e-6)
        counter = make(kind, 100, math.inf, n_counters=3, accountant=accountant)
        way(counter)
        expected, steps = counter.value, counter.n_steps
        accountant.close()
        refuses(BudgetExceededError, "closed record", way, counter)
        assert counter.n_steps == steps
        counter.resume()
        np.testing.assert_array_equal(counter.value, expected)


@pytest.mark.parametrize("kind", LEVELS)
def test_a_level_that_is_interrupted_at_any_line_of_its_end_ends_once(kind):
    for line in itertools.count(1):
        counter = make(kind, 9, math.inf, n_counters=2)
        counter.update_cells([0, 1, 1])
        came_so_far = interrupted(counter.end_level, line, HERE)
        counter.end_level()
        np.testing.assert_array_equal(counter.value, [1, 2])
        if not came_so_far:
            break
    assert line > 5


def test_reading_that_is_interrupted_at_any_line_draws_no_noise_again():
    counter, other = (KaryCounter(500, n_counters=3, random_state=1) for _ in range(2))
    for line in range(1, 60):
        for each_one in (counter, other):
            each_one.update(1)
        interrupted(lambda: counter.value, line, HERE)
        np.testing.assert_array_equal(counter.value, other.value)
