"""Counters in threads and forks: whoever reads or writes one holds its lock."""

import math
import os
import signal
import threading
import time

import numpy as np
import pytest
from laws import in_threads
from test_counters import COUNTERS, make

from skdpsynth.continual import BinaryCounter, KaryCounter, SparseCounter, SquareRootCounter, UnboundedCounter
from skdpsynth.privacy import PrivacyAccountant

N_CELLS = 20
STEPS = {KaryCounter: 400, BinaryCounter: 300, SparseCounter: 300, SquareRootCounter: 100, UnboundedCounter: 200}
STEPS |= {"kary": 300, "binary": 300, "sparse": 300}


def shared(kind, epsilon):
    return make(kind, STEPS[kind], epsilon, n_counters=N_CELLS, sensitivity=2, random_state=7)


@pytest.mark.parametrize("kind", STEPS)
def test_a_value_that_is_read_while_another_thread_counts_is_that_of_one_time(kind, restless):
    """Else two reads share the noise of one time and not the counts, and their difference is an event.

    With a seed, the values of all times are known from another run: each read must be one of them.
    """
    cells = np.random.default_rng(0).integers(0, N_CELLS, STEPS[kind])
    alone, both = shared(kind, 0.1), shared(kind, 0.1)
    known = {alone.value.tobytes()}
    for cell in cells:
        alone.update_cells([cell])
        known.add(alone.value.tobytes())
    reads, writing = [], threading.Event()
    writing.set()

    def write():
        try:
            for cell in cells:
                both.update_cells([cell])
        finally:
            writing.clear()

    def read():
        while writing.is_set() or len(reads) < 10:
            reads.append(both.value)

    in_threads(write, read)
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
    counter, writing, states = KaryCounter(20_000, n_counters=N_CELLS, sensitivity=2), threading.Event(), []
    writing.set()

    def write():
        try:
            for i in range(3_000):
                counter.update_cells([i % N_CELLS])
        finally:
            writing.clear()

    def save():
        while writing.is_set() or len(states) < 4:
            states.append(counter.__getstate__())
            time.sleep(1e-4)

    in_threads(write, save)
    assert all(state["_state"][0][:-1].sum() == state["_state"][0][-1] for state in states)


def ends_within(pid, seconds):
    """Whether a child process ends in time, and well."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return False


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forks beside threads: that is what is tried
def test_a_fork_while_another_thread_reads_does_not_hang_the_counters_of_the_child(restless):
    counter, reading = KaryCounter(10_000, n_counters=20_000), threading.Event()
    counter.update(1)
    reading.set()

    def read():
        while reading.is_set():
            counter.update(1)
            _ = counter.value

    thread = threading.Thread(target=read)
    thread.start()
    try:
        for _ in range(8):
            time.sleep(0.01)
            pid = os.fork()
            if not pid:  # the child: the counter of the parent refuses, and one of its own counts
                try:
                    try:
                        _ = counter.value
                    except RuntimeError:
                        own = KaryCounter(5, epsilon=math.inf)
                        own.update(3)
                        os._exit(0 if own.value == 3 else 1)
                finally:
                    os._exit(1)
            assert ends_within(pid, 10)
    finally:
        reading.clear()
        thread.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("in_a_file", [False, True])
def test_a_counter_does_not_go_on_in_a_fork(in_a_file, tmp_path):
    """Also where the child could charge: it would have the noise that is drawn already, and subtract to the events of its parent."""
    attempts = []
    for kind in COUNTERS:
        accountant = PrivacyAccountant(9, 1e-6, ledger=tmp_path / f"{kind.__name__}.db" if in_a_file else None)
        counter = make(kind, 10, accountant=accountant)
        if kind is KaryCounter:
            attempts.append((counter, lambda counter=counter: KaryCounter(10).resume(counter._door)))
        counter.update(1)
        attempts.append((counter, lambda counter=counter: counter.update(1)))
        if kind in (KaryCounter, BinaryCounter):  # they draw the noise of a time when it is read
            attempts.append((counter, lambda counter=counter: counter.value))
    for counter, attempt in attempts:
        n_steps = counter.n_steps
        pid = os.fork()
        if not pid:
            try:
                attempt()
            except RuntimeError:
                os._exit(0 if counter.n_steps == n_steps else 1)
            finally:
                os._exit(2)
        assert ends_within(pid, 10)
