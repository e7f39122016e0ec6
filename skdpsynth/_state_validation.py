"""Checks of the state of a loaded object: its types are those that the class declares, and the class could have made it.

Annotations declare the attributes and their types: all fields of a dataclass, and the body of any other class. Conditions between
attributes are checked by ``__post_init__``, by an ``__init__`` whose parameters are just the state, or by a method ``_check_loaded``.
"""

import importlib.util
import inspect
import math
import sys
import types
import warnings
from collections.abc import Hashable, Mapping
from dataclasses import fields, is_dataclass
from fractions import Fraction
from functools import cache
from numbers import Integral, Real
from typing import Any, ClassVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from sklearn.base import BaseEstimator

_BACKENDS = ("numpy", "pandas", "polars", "pyarrow", "modin", "cudf")
_LARGEST = Fraction(sys.float_info.max)


class InvalidState(Exception):
    """A fault of a state, in words that follow the name of its class."""


class MissingDependency(Exception):
    """A library that is not installed, in words that follow the name of the file."""


def check_installed(backend: Any) -> None:
    require(isinstance(backend, str) and backend in _BACKENDS)
    if backend != "numpy" and importlib.util.find_spec(backend) is None:
        raise MissingDependency(f"was fitted to a table of {backend}, which is not installed; install it with `pip install {backend}`.")


def check_columns(estimator: Any, columns: Any) -> None:
    """Raise unless the columns of an estimator agree with its fitted attributes; None: they had no names."""
    names = vars(estimator).get("feature_names_in_")
    n_features = estimator.n_features_in_
    require(is_of_type(n_features, int) and n_features >= 1 and (columns is None or len(columns) == n_features))
    if names is not None:
        require(is_array(names, "O", n_features) and all(isinstance(name, str) for name in names))
        require(columns is not None and list(names) == list(columns))


def check_state(cls: type, state: dict[str, Any]) -> None:
    """Raise `InvalidState` unless a state has the attributes that its class declares, each of its type."""
    forms = _declared_types(cls)
    if not issubclass(cls, BaseEstimator):
        if lacking := forms.keys() - state.keys():
            raise InvalidState(f"without {', '.join(sorted(lacking))}")
        if forms and is_dataclass(cls) and (more := state.keys() - forms.keys()):
            raise InvalidState(f"with {len(more)} attributes more than it has")
    for name, value in state.items():
        if name in forms and not is_of_type(value, forms[name]):
            raise InvalidState(f"whose {name} is none that save writes")


def check_consistent(thing: Any, state: dict[str, Any]) -> None:
    """Raise the error of the class unless the attributes of an object go together."""
    cls: Any = type(thing)
    if hasattr(cls, "__post_init__"):
        thing.__post_init__()
    elif not is_dataclass(cls) and not issubclass(cls, BaseEstimator) and _init_parameters(cls) == state.keys() != set():
        cls(**state)
    if hasattr(cls, "_check_loaded"):
        thing._check_loaded()


def try_out(thing: Any) -> None:
    """Try a whole object where its class has ``_try_loaded``, which changes nothing and costs no privacy."""
    if hasattr(type(thing), "_try_loaded"):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            thing._try_loaded()


def require(truth: Any, why: str = "parts do not fit each other") -> None:
    if not truth:
        raise InvalidState(f"whose {why}")


def is_array(value: Any, dtype: Any, *shape: int) -> bool:
    """Whether a value is a finite array of some kinds (letters of numpy) and of this shape; -1 stands for any length."""
    return (
        isinstance(value, np.ndarray)
        and value.dtype.kind in dtype
        and value.ndim == len(shape)
        and all(wanted in (-1, side) for wanted, side in zip(shape, value.shape, strict=True))
        and (value.dtype.kind != "f" or bool(np.isfinite(value).all()))
    )


@cache
def _init_parameters(cls: type) -> set[str]:
    return set(inspect.signature(cls).parameters) if cls.__init__ is not object.__init__ else set()  # type: ignore[misc]


@cache
def _declared_types(cls: type) -> dict[str, Any]:
    if is_dataclass(cls):
        hints = get_type_hints(cls)
        return {field.name: hints[field.name] for field in fields(cls)}
    hints = {}
    for base in reversed(cls.__mro__):
        if base.__module__.split(".")[0] == __name__.split(".")[0] and "__annotations__" in vars(base):
            own = get_type_hints(base)
            hints.update({name: own[name] for name in vars(base)["__annotations__"]})
    return {name: form for name, form in hints.items() if get_origin(form) is not ClassVar and not hasattr(cls, name)}


def is_of_type(value: Any, form: Any) -> bool:
    """Whether a value is of a declared type; no number may be NaN, and arrays are finite."""
    origin, parts = get_origin(form), get_args(form)
    if form is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(is_of_type(value, part) for part in parts)
    if origin is not None:
        return _is_of_container_type(value, origin, parts)
    if form is float:
        if isinstance(value, bool) or not isinstance(value, Real):
            return False
        return bool(-_LARGEST <= value <= _LARGEST) if isinstance(value, Fraction | int) else not math.isnan(value)
    if form is int:
        return isinstance(value, Integral) and not isinstance(value, bool)
    if form is bool:
        return isinstance(value, bool | np.bool_)
    if form is None:
        return value is None
    if form is Hashable:
        return isinstance(value, str | Integral | float | None) or is_of_type(value, tuple[Hashable, ...])
    if form is np.ndarray:
        return isinstance(value, np.ndarray) and (value.dtype.kind != "f" or bool(np.isfinite(value).all()))
    return isinstance(value, form) if isinstance(form, type) else True


def _is_of_container_type(value: Any, origin: Any, parts: tuple) -> bool:
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if len(parts) == 2 and parts[1] is ...:
            return all(is_of_type(each, parts[0]) for each in value)
        return len(value) == len(parts) and all(map(is_of_type, value, parts))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return isinstance(value, Mapping) and all(is_of_type(key, parts[0]) and is_of_type(each, parts[1]) for key, each in value.items())
    if origin is list:
        return isinstance(value, list) and all(is_of_type(each, parts[0]) for each in value)
    return isinstance(value, origin) if isinstance(origin, type) else True
