"""Jobs in threads, locks of objects that live on between calls, and a limit on the threads of BLAS.

Each job brings its own random bits, so that the result is the same in any number of threads.
"""

import functools
import math
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from joblib import effective_n_jobs
from threadpoolctl import threadpool_limits

from skdpsynth._progress import bind_context
from skdpsynth._validation import is_integer, short_repr

_locks: "WeakKeyDictionary[Any, threading.RLock]" = WeakKeyDictionary()
_creation_lock = threading.Lock()
_MOST_THREADS = 256  # more would only wait, and systems refuse them at some number


def effective_n_threads(n_jobs: Any) -> int:
    """Return the number of threads that `n_jobs` means, as everywhere in scikit-learn."""
    check_n_jobs(n_jobs)
    return min(effective_n_jobs(None if n_jobs is None else int(n_jobs)), _MOST_THREADS)


def check_n_jobs(n_jobs: Any) -> None:
    if n_jobs is not None and (not is_integer(n_jobs, -math.inf) or n_jobs == 0):
        raise ValueError(f"n_jobs must be None or an integer that is not 0, got {short_repr(n_jobs)}; -1 takes all processors.")


def effective_n_processes(n_jobs: Any) -> int:
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
                waiting.append(pool.submit(_run_quietly, bind_context(job)))
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


def lock_of(owner: Any) -> Any:
    """Return the lock of an object; the thread that holds it may take it again.

    It is no attribute, so pickles and copies of the object get locks of their own; and after a fork the child starts with free locks,
    whatever other threads of the parent held.
    """
    lock = _locks.get(owner)
    if lock is None:
        with _creation_lock:
            lock = _locks.setdefault(owner, threading.RLock())
    return lock


def _reset_after_fork() -> None:
    global _locks, _creation_lock
    _locks, _creation_lock = WeakKeyDictionary(), threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)


class cached_property(functools.cached_property):
    """A property that is computed once. Python 3.11 holds a lock of the class meanwhile, which a forked child would wait for in vain."""

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        return vars(instance).setdefault(self.attrname, self.func(instance))


class _Limit:
    """The limit, which is one of the whole process: one thread at a time holds it, and that thread ends it.

    If each of two overlapping uses set a limit of its own, the later would find the earlier one's and restore it for good. The last one
    cannot restore for all either: threadpoolctl lets only the thread that set a limit end it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder: int | None = None
        self._limits: threadpool_limits | None = None

    def take(self) -> bool:
        """Set the limit, unless another thread holds it; return whether it was set."""
        with self._lock:
            if self._holder is None:
                self._holder = threading.get_ident()
                self._limits = threadpool_limits(1, user_api="blas").__enter__()
                return True
            return False

    def end(self) -> None:
        with self._lock:
            limits, self._limits, self._holder = self._limits, None, None
            if limits is not None:
                limits.__exit__(None, None, None)

    def reset_after_fork(self) -> None:
        """Free the limit of other threads, which are gone after a fork."""
        self._lock = threading.Lock()
        if self._holder != threading.get_ident():
            self.end()


_limit = _Limit()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_limit.reset_after_fork)


@contextmanager
def one_blas_thread(wanted: bool = True) -> Iterator[None]:
    """Let BLAS use one thread within the block, if `wanted`.

    The first of overlapping uses holds the limit for all, until its own block ends; so keep them short.
    """
    is_ours = wanted and _limit.take()
    try:
        yield
    finally:
        if is_ours:
            _limit.end()
