"""Jobs in threads. Each brings its own random bits, so that the result is the same in any number of threads."""

import math
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import Any

import numpy as np
from joblib import effective_n_jobs

from skdpsynth._progress import bind_context
from skdpsynth._validation import is_integer, short_repr

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
