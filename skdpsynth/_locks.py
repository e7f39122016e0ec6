"""One lock for each object that lives on between calls: held by whoever reads or writes it."""

import os
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload
from weakref import WeakKeyDictionary

_T = TypeVar("_T")

_locks: "WeakKeyDictionary[Any, threading.RLock]" = WeakKeyDictionary()
_making = threading.Lock()


def lock_of(owner: Any) -> Any:
    """Return the lock of an object; the thread that holds it may take it again.

    It is no attribute, so it is in no pickle and no copy of the object, which get locks of their own; and after a fork the child starts
    with free locks, whatever other threads of the parent held.
    """
    lock = _locks.get(owner)
    if lock is None:
        with _making:
            lock = _locks.setdefault(owner, threading.RLock())
    return lock


def _start_anew() -> None:
    global _locks, _making
    _locks, _making = WeakKeyDictionary(), threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)


class cached_property(Generic[_T]):
    """A value that is computed when it is first asked for, without a lock: two threads may both compute it, and either will do.

    That of functools has one lock for all objects before Python 3.12. A child that is forked while another thread holds it waits for ever.
    """

    def __init__(self, compute: Callable[[Any], _T]) -> None:
        self.compute, self.__doc__ = compute, compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> "cached_property[_T]": ...

    @overload
    def __get__(self, instance: object, owner: type) -> _T: ...

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        return instance.__dict__.setdefault(self.name, self.compute(instance))
