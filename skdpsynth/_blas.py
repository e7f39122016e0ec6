"""A limit on the threads of BLAS that ends with its block."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits


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
