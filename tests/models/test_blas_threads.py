"""The limit on threads of BLAS: of the process while somebody wants it, and gone with the last."""

import os
import threading

import numpy as np
import pytest
from internals import one_blas_thread
from laws import in_threads
from threadpoolctl import threadpool_info, threadpool_limits

np.zeros((2, 2)) @ np.zeros((2, 2))  # BLAS is loaded


def limits():
    return {pool["filepath"]: pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def set_limit(n_threads):
    """In a thread that ends: only one that lives may change what it has set."""
    thread = threading.Thread(target=threadpool_limits, args=(n_threads, "blas"))
    thread.start()
    thread.join()


@pytest.fixture(autouse=True)
def two_threads():
    """More than one, so that a limit shows, and what was there before afterwards."""
    before = max(limits().values(), default=0)
    set_limit(2)
    if set(limits().values()) != {2}:
        pytest.skip("needs a BLAS whose threads can be set")
    yield
    set_limit(before)


def test_overlapping_uses_leave_the_limit_as_it_was():
    """The second begins within the first and ends after it: what it found is not what it may leave."""
    before, seen = limits(), []
    first_is_in, second_is_in, first_is_out, done = (threading.Event() for _ in range(4))

    def first():
        with one_blas_thread():
            first_is_in.set()
            second_is_in.wait(10)
        first_is_out.set()
        done.wait(10)

    def second():
        first_is_in.wait(10)
        with one_blas_thread():
            seen.append(limits())
            second_is_in.set()
            first_is_out.wait(10)
        seen.append(limits())
        done.set()

    in_threads(first, second)
    assert set(seen[0].values()) == {1}
    assert seen[1] == before


def test_a_limit_within_a_limit_ends_with_the_outer_one_even_if_it_raises():
    before = limits()
    with one_blas_thread(False):  # who wants no limit has none
        assert set(limits().values()) == {2}
    try:
        with one_blas_thread():
            with one_blas_thread():
                pass
            assert set(limits().values()) == {1}
            raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    assert limits() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_forked_while_a_thread_is_in_has_no_limit():
    inside, over = threading.Event(), threading.Event()

    def stay():
        with one_blas_thread():
            inside.set()
            over.wait(30)

    thread = threading.Thread(target=stay)
    thread.start()
    inside.wait(10)
    pid = os.fork()
    if not pid:
        fine = set(limits().values()) == {2}
        with one_blas_thread():
            fine = fine and set(limits().values()) == {1}
        os._exit(0 if fine and set(limits().values()) == {2} else 1)
    _, status = os.waitpid(pid, 0)
    over.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 0
