"""Values that are computed once, when they are first asked for."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

_T = TypeVar("_T")


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
