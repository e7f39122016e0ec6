"""Copies of a counter that go on: what they share is what was released, and nothing of what is to come."""

import copy
import itertools
import math
import pickle

import numpy as np
import pytest
from laws import refuses
from test_counters import COUNTERS, LEVELS, make

from skdpsynth import load
from skdpsynth.continual import InhomogeneousCounter, KaryCounter, SparseCounter
from skdpsynth.persistence import save
from skdpsynth.privacy import PrivacyAccountant, SeededBits, check_rng

N_CELLS = 12


@pytest.fixture(params=[*COUNTERS, *LEVELS])
def counting(request):
    """A counter of much noise, and what lets a copy of it go on."""
    accountant = PrivacyAccountant(9, 1e-6)
    counter = make(request.param, 1000, 0.01, accountant=accountant, n_counters=N_CELLS)
    present = counter._level[1] if isinstance(counter, InhomogeneousCounter) else counter
    if isinstance(present, SparseCounter):
        present.threshold = -10.0
    if present is counter:
        return counter, lambda again: again.resume()
    return counter, lambda again: again.resume(accountant.record().reopen(), check_rng(None))


WAYS = {
    "pickle": lambda counter, path: pickle.loads(pickle.dumps(counter)),
    "copy": lambda counter, path: copy.copy(counter),
    "deepcopy": lambda counter, path: copy.deepcopy(counter),
    "file": lambda counter, path: save(counter, path) or load(path),
}


def tells(difference, counts):
    """Whether a difference of values is an exact difference of counts in some cell, more often than noise of scale 100 would be."""
    return np.count_nonzero(np.round(difference, 6) == counts) > N_CELLS / 2


def test_copies_that_go_on_with_different_events_do_not_subtract_to_them_nor_does_the_original(counting, tmp_path):
    """Copies of each way in turn, at times of all remainders by 2, 3 and 4."""
    counter, resume = counting
    ways = itertools.cycle(WAYS.values())
    for t in range(1, 41):
        counter.update(1)
        if t % 3 and t > 12:
            continue
        way, before = next(ways), counter.value
        one, two = (way(counter, tmp_path / "counter.zip") for _ in range(2))
        for each_one in (one, two):
            resume(each_one)
        one.update(7)
        two.update(0)
        assert not tells(one.value - two.value, 7)
        assert np.array_equal(before, one.value) or not tells(one.value - before, 7)  # a sparse value may not have moved
        one.update(1)
        two.update(0)
        assert not tells(one.value - two.value, 8)


def test_a_tree_that_resumed_scales_its_noise_to_the_tree_that_is_left():
    counter = KaryCounter(1000, epsilon=1)
    for _ in range(990):
        counter.update(1)
    counter.resume(PrivacyAccountant(1))
    assert (counter.base, counter.n_levels) == KaryCounter(10)._shape(10)
    assert counter._door.noise.scale == counter.n_levels == counter._noise().scale


def test_seeded_noise_of_a_tree_is_not_repeated_by_the_tree_that_follows():
    names = []

    class Recorder(SeededBits):
        def child(self, name):
            names.append(name)
            return super().child(name)

    counter = KaryCounter(40, random_state=Recorder(5))
    for t in range(40):
        counter.update(1)
        _ = counter.value
        if t % 9 == 0:
            counter.resume(None, Recorder(5))
    assert len(names) == len(set(names)) > 30


def test_a_horizon_that_is_over_can_be_read_after_loading():
    counter = KaryCounter(5, epsilon=math.inf)
    counter.update_cells([0] * 5)
    again = pickle.loads(pickle.dumps(counter))
    again.resume()
    assert again.value == 5
    refuses(ValueError, "horizon is 5 steps", again.update, 1)
