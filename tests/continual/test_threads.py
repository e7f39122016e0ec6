"""Counters in threads and forks: whoever reads or writes one holds its lock."""

import math
import os
import signal
import sys
import threading
import time

import numpy as np
import pytest

from skdpsynth.continual import (
    BinaryCounter,
    HonakerCounter,
    InhomogeneousCounter,
    KaryCounter,
    SparseCounter,
    SquareRootCounter,
    UnboundedCounter,
)
from skdpsynth.privacy import PrivacyAccountant

N_CELLS = 20
SEED = 7


def levels_of(kind):
    def make(horizon, epsilon):
        counter = InhomogeneousCounter(kind, n_counters=N_CELLS, sensitivity=2)
        counter.start_level(horizon, epsilon, PrivacyAccountant(epsilon), SEED)
        return counter

    return make


def plain(kind, **own):
    return lambda horizon, epsilon: kind(horizon, epsilon=epsilon, n_counters=N_CELLS, sensitivity=2, random_state=SEED, **own)


COUNTERS = {
    "kary": (plain(KaryCounter), 3_000),
    "binary": (plain(BinaryCounter), 3_000),
    "honaker": (plain(HonakerCounter), 1_000),
    "sparse": (plain(SparseCounter), 1_000),
    "square root": (lambda T, rho: SquareRootCounter(T, rho=rho, n_counters=N_CELLS, sensitivity=2, random_state=SEED), 200),
    "unbounded": (lambda T, rho: UnboundedCounter(rho=rho, n_counters=N_CELLS, sensitivity=2, random_state=SEED), 400),
    "levels of kary": (levels_of("kary"), 1_500),
    "levels of binary": (levels_of("binary"), 1_000),
    "levels of sparse": (levels_of("sparse"), 1_000),
}
each = pytest.mark.parametrize(("make", "n_steps"), COUNTERS.values(), ids=COUNTERS)


@pytest.fixture
def restless():
    """Threads that take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(*tasks):
    """Run tasks at once; raise what one of them raised."""
    failures = []

    def run(task):
        try:
            task()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


@each
def test_a_value_that_is_read_while_another_thread_counts_is_that_of_one_time(make, n_steps, restless):
    """Else two reads share the noise of one time and not the counts, and their difference is an event.

    With a seed, the values of all times are known from another run: each read must be one of them.
    """
    cells = np.random.default_rng(0).integers(0, N_CELLS, n_steps)
    alone, shared = make(n_steps, 0.1), make(n_steps, 0.1)
    known = {alone.value.tobytes()}
    for cell in cells:
        alone.update_cells([cell])
        known.add(alone.value.tobytes())
    reads, writing = [], threading.Event()
    writing.set()

    def write():
        try:
            for cell in cells:
                shared.update_cells([cell])
        finally:
            writing.clear()

    def read():
        while writing.is_set() or len(reads) < 10:
            reads.append(shared.value)

    in_threads(write, read)
    assert [value for value in reads if value.tobytes() not in known] == []
    assert np.array_equal(shared.value, alone.value)


@each
def test_no_event_is_lost_where_two_threads_count(make, n_steps, restless):
    counter, n = make(n_steps, math.inf), n_steps // 2

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
            for i in range(5_000):
                counter.update_cells([i % N_CELLS])
        finally:
            writing.clear()

    def save():
        while writing.is_set() or len(states) < 4:
            states.append(counter.__getstate__())
            time.sleep(1e-4)

    in_threads(write, save)
    assert all(state["_state"][:-1].sum() == state["_state"][-1] for state in states)


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
@pytest.mark.parametrize("kind", [KaryCounter, BinaryCounter, HonakerCounter, SparseCounter, SquareRootCounter, UnboundedCounter])
def test_a_counter_does_not_go_on_in_a_fork(kind, in_a_file, tmp_path):
    """Also where the child could charge: it would have the noise that is drawn already, and subtract to the events of its parent."""
    accountant = PrivacyAccountant(9, 1e-6, ledger=tmp_path / "budget.db") if in_a_file else None
    counter = kind(accountant=accountant) if kind is UnboundedCounter else kind(10, accountant=accountant)
    counter.update(1)
    pid = os.fork()
    if not pid:
        try:
            counter.update(1)
        except RuntimeError:
            os._exit(0 if counter.n_steps == 1 else 1)
        finally:
            os._exit(2)
    assert ends_within(pid, 10)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("kind", [KaryCounter, BinaryCounter])
def test_noise_of_a_time_is_not_drawn_a_second_time_in_a_fork(kind, tmp_path):
    counter = kind(10, accountant=PrivacyAccountant(9, ledger=tmp_path / "budget.db"))
    counter.update(1)
    pid = os.fork()
    if not pid:
        try:
            _ = counter.value
        except RuntimeError:
            os._exit(0)
        finally:
            os._exit(2)
    assert ends_within(pid, 10)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_part_of_what_was_charged_is_not_handed_out_in_a_fork(tmp_path):
    accountant = PrivacyAccountant(9, ledger=tmp_path / "budget.db")
    counter = KaryCounter(10, accountant=accountant)
    pid = os.fork()
    if not pid:
        try:
            KaryCounter(10).resume(counter._door)
        except RuntimeError:
            os._exit(0)
        finally:
            os._exit(2)
    assert ends_within(pid, 10)
