"""Jobs in threads, locks of objects that live on between calls, and a limit on the threads of BLAS.

Each job brings its own random bits, so that the result is the same in any number of threads.
"""

import contextvars
import functools
import math
import os
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from joblib import effective_n_jobs
from threadpoolctl import threadpool_limits

from skdpsynth._validation import is_integer, short_repr

_locks: "WeakKeyDictionary[Any, threading.RLock]" = WeakKeyDictionary()
_creation_lock = threading.Lock()
_blas: tuple[int, threadpool_limits] | None = None  # the thread that holds the limit on BLAS
_MOST_THREADS = 256  # more would only wait, and systems refuse them at some number


def effective_n_threads(n_jobs: int | None) -> int:
    """Return the number of threads that `n_jobs` means, as everywhere in scikit-learn."""
    check_n_jobs(n_jobs)
    return min(effective_n_jobs(None if n_jobs is None else int(n_jobs)), _MOST_THREADS)


def check_n_jobs(n_jobs: object) -> None:
    if n_jobs is not None and (not is_integer(n_jobs, -math.inf) or n_jobs == 0):
        raise ValueError(f"n_jobs must be None or an integer that is not 0, got {short_repr(n_jobs)}; -1 takes all processors.")


def effective_n_processes(n_jobs: int | None) -> int:
    """Return a number of processes, at most the workers of the backend of joblib, each of which takes memory."""
    return min(effective_n_threads(n_jobs), max(1, effective_n_jobs(-1)))


def run_all(jobs: Iterable[Callable[[], Any]], n_jobs: int | None = None) -> None:
    """Call all jobs, `n_jobs` at a time in threads; few of them are taken from the iterable before they are needed."""
    jobs, n_threads = iter(jobs), effective_n_threads(n_jobs)
    begun = list(islice(jobs, 2))
    if len(begun) < 2 or n_threads < 2:
        for job in chain(begun, jobs):
            job()
        return
    waiting: deque[Future] = deque()
    with ThreadPoolExecutor(n_threads) as pool:
        try:
            for job in chain(begun, jobs):
                waiting.append(pool.submit(contextvars.copy_context().run, _run_quietly, job))
                if len(waiting) > 2 * n_threads:
                    waiting.popleft().result()
            while waiting:
                waiting.popleft().result()
        finally:
            for future in waiting:  # after an error or an interrupt
                future.cancel()


def _run_quietly(job: Callable[[], Any]) -> None:
    with np.errstate(all="ignore"):  # a new thread does not know what its maker asked for
        job()


def lock_of(owner: Hashable) -> Any:
    """Return the lock of an object; the thread that holds it may take it again.

    It is no attribute, so pickles and copies of the object get locks of their own; and after a fork the child starts with free locks,
    whatever other threads of the parent held.
    """
    lock = _locks.get(owner)
    if lock is None:
        with _creation_lock:
            lock = _locks.setdefault(owner, threading.RLock())
    return lock


class cached_property(functools.cached_property):
    """A property that is computed once. Python 3.11 holds a lock of the class meanwhile, which a forked child would wait for in vain."""

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        return vars(instance).setdefault(self.attrname, self.func(instance))


@contextmanager
def one_blas_thread(wanted: bool = True) -> Iterator[None]:
    """Let BLAS use one thread within the block, if `wanted`.

    The limit is one of the whole process, so the first of overlapping uses holds it for all, until its own block ends: if each set a limit
    of its own, the later would find the earlier one's and restore it for good. So keep blocks short.
    """
    global _blas
    is_ours = False
    if wanted:
        with _creation_lock:
            if is_ours := _blas is None:
                _blas = threading.get_ident(), threadpool_limits(1, user_api="blas")
    try:
        yield
    finally:
        if is_ours:
            _end_blas_limit()


def _end_blas_limit() -> None:
    global _blas
    if _blas is not None:
        limits, _blas = _blas[1], None
        limits.restore_original_limits()


def _reset_after_fork() -> None:
    """Free the locks, and the limit, of other threads, which are gone after a fork."""
    global _locks, _creation_lock
    _locks, _creation_lock = WeakKeyDictionary(), threading.Lock()
    if _blas is not None and _blas[0] != threading.get_ident():
        _end_blas_limit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
