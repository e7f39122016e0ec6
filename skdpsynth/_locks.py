"""One lock for each object that lives on between calls, held while it is read or written."""

import os
import threading
from typing import Any
from weakref import WeakKeyDictionary

_locks: "WeakKeyDictionary[Any, threading.RLock]" = WeakKeyDictionary()
_creation_lock = threading.Lock()


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
