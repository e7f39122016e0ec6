"""Counters in threads, forks and interrupts: whoever reads or writes one holds its lock, and an update that breaks off counts nothing."""

import itertools
import math
import os
import threading
import time
from functools import partial

import numpy as np
import pytest
from laws import in_child, in_threads, interrupted, refuses
from test_counters import COUNTERS, LEVELS, make

import skdpsynth
from skdpsynth.continual import BinaryCounter, KaryCounter, SparseCounter, SquareRootCounter, UnboundedCounter
from skdpsynth.exceptions import BudgetExceededError
from skdpsynth.privacy import PrivacyAccountant, SeededBits

N_CELLS = 20
STEPS = {KaryCounter: 400, BinaryCounter: 300, SparseCounter: 300, SquareRootCounter: 100, UnboundedCounter: 200}
STEPS |= {"kary": 300, "binary": 300, "sparse": 300}


def shared(kind, epsilon):
    return make(kind, STEPS[kind], epsilon, n_counters=N_CELLS, sensitivity=2, random_state=7)


def while_writing(write, act, least):
    """Act as long as another thread writes, and some times at least."""
    done, n_acts = threading.Event(), 0

    def writes():
        try:
            write()
        finally:
            done.set()

    def acts():
        nonlocal n_acts
        while not done.is_set() or n_acts < least:
            act()
            n_acts += 1

    in_threads(writes, acts)


@pytest.mark.parametrize("kind", STEPS)
def test_a_value_that_is_read_while_another_thread_counts_is_that_of_one_time(kind, restless):
    """Else two reads share the noise of one time and not the counts, and their difference is an event.

    With a seed, the values of all times are known from another run: each read must be one of them.
    """
    cells = np.random.default_rng(0).integers(0, N_CELLS, STEPS[kind])
    alone, both, reads = shared(kind, 0.1), shared(kind, 0.1), []
    known = {alone.value.tobytes()}
    for cell in cells:
        alone.update_cells([cell])
        known.add(alone.value.tobytes())
    while_writing(lambda: [both.update_cells([cell]) for cell in cells], lambda: reads.append(both.value), 10)
    assert [value for value in reads if value.tobytes() not in known] == []
    assert np.array_equal(both.value, alone.value)


@pytest.mark.parametrize("kind", STEPS)
def test_no_event_is_lost_where_two_threads_count(kind, restless):
    counter, n = shared(kind, math.inf), STEPS[kind] // 2

    def count(cell):
        for i in range(n):
            if i % 2:
                counter.update_cells([cell])
            else:
                counter.update(np.arange(N_CELLS) == cell)

    in_threads(lambda: count(3), lambda: count(11))
    np.testing.assert_allclose(counter.value, n * np.isin(np.arange(N_CELLS), (3, 11)), atol=1e-6)


def test_a_pickle_made_while_another_thread_counts_is_of_one_time(restless):
    counter, states = KaryCounter(20_000, n_counters=N_CELLS, sensitivity=2), []
    while_writing(
        lambda: [counter.update_cells([i % N_CELLS]) for i in range(3_000)],
        lambda: states.append(counter.__getstate__()) or time.sleep(1e-4),
        4,
    )
    assert all(state["_state"][0][:-1].sum() == state["_state"][0][-1] for state in states)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forks beside threads: that is what is tried
def test_a_fork_while_another_thread_reads_does_not_hang_the_counters_of_the_child(restless):
    """There the counter of the parent refuses, and one of its own counts."""
    counter, stop = KaryCounter(10_000, n_counters=20_000), threading.Event()
    counter.update(1)

    def read():
        while not stop.is_set():
            counter.update(1)
            _ = counter.value

    def count():
        with pytest.raises(RuntimeError):
            _ = counter.value
        own = KaryCounter(5, epsilon=math.inf)
        own.update(3)
        return int(own.value[0])

    thread = threading.Thread(target=read)
    thread.start()
    try:
        for _ in range(8):
            time.sleep(0.01)
            assert in_child(count, 10) == 3
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("in_a_file", [False, True])
def test_a_counter_does_not_go_on_in_a_fork(in_a_file, tmp_path):
    """Also where the child could charge: it would have the noise that is drawn already, and subtract to the events of its parent."""

    def refuses(counter, attempt):
        n_steps = counter.n_steps
        with pytest.raises(RuntimeError):
            attempt(counter)
        return counter.n_steps == n_steps

    for kind in COUNTERS:
        accountant = PrivacyAccountant(9, 1e-6, ledger=tmp_path / f"{kind.__name__}.db" if in_a_file else None)
        counter = make(kind, 10, accountant=accountant)
        counter.update(1)
        attempts = [lambda counter: counter.update(1)]
        if kind in (KaryCounter, BinaryCounter):  # they draw the noise of a time when it is read
            attempts.append(lambda counter: counter.value)
        if kind is KaryCounter:
            attempts.append(lambda counter: KaryCounter(10).resume(counter._door))
        assert all(in_child(partial(refuses, counter, attempt), 10) for attempt in attempts)


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
