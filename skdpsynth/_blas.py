"""A limit on the threads of BLAS that does not outlive who wanted it."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits


class _Limit:
    """One thread at a time holds the limit, which is one of the whole process, and takes it back itself.

    If each of two overlapping uses set a limit of its own, the later would find the earlier one's and bring it back for good. That the last
    one out restores for all is no way either: threadpoolctl lets only the thread that set a limit end it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder: int | None = None
        self._limits: threadpool_limits | None = None

    def take(self) -> bool:
        """Set the limit, unless somebody holds it; return whether it was set."""
        with self._lock:
            if self._holder is None:
                self._holder = threading.get_ident()
                self._limits = threadpool_limits(1, user_api="blas").__enter__()
                return True
            return False

    def end(self) -> None:
        """Set BLAS free again."""
        with self._lock:
            limits, self._limits, self._holder = self._limits, None, None
            if limits is not None:
                limits.__exit__(None, None, None)

    def reset_after_fork(self) -> None:
        """After a fork other threads are gone, and would hold the limit for ever."""
        self._lock = threading.Lock()
        if self._holder != threading.get_ident():
            self.end()


_limit = _Limit()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_limit.reset_after_fork)


@contextmanager
def one_blas_thread(wanted: bool = True) -> Iterator[None]:
    """Let BLAS use one thread meanwhile, if `wanted`.

    Of overlapping uses the first holds the limit for all, and as long as it is in; so keep them short.
    """
    is_ours = wanted and _limit.take()
    try:
        yield
    finally:
        if is_ours:
            _limit.end()
