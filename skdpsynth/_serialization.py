"""Objects as JSON and arrays, and back: only of classes marked as savable, and without running code.

Annotations declare the attributes of a class and their types: all fields of a dataclass, and the body of any other class. An object that is
read has these, and passes the ``__post_init__`` of its class, or its ``__init__`` where the parameters of that are just its state. A class
whose state decides about noise to come, or about what was charged, has a method ``_check_loaded`` on top, which asks for more by `require`.
"""

import inspect
import math
import re
import types
import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from fractions import Fraction
from functools import cache
from numbers import Integral, Real
from pathlib import PurePath
from typing import Any, ClassVar, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from sklearn.base import BaseEstimator

from skdpsynth._validation import short_repr

DTYPES = "biuf"
_LONGEST = 4000  # characters of a fraction
_NOT_SAVED = {"_sklearn_version", "_skl_callbacks"}
_PACKAGE = __name__.split(".")[0]

_CLASSES: dict[str, type] = {}  # name in a file -> class that says that it may be saved
_Class = TypeVar("_Class", bound=type)


def savable(cls: _Class) -> _Class:
    """Mark a class whose objects may be saved, and made again from a file; for use as the outermost decorator.

    The mark is not inherited: a subclass is marked anew, because its author decides whether a file may make it. The saved state is that
    of a pickle: ``__getstate__`` (a dict) or all attributes. They may be numbers, strings, arrays of numbers,
    tuples, lists, dicts, and objects of marked classes. An attribute ``random_state`` is saved as None: a seed must not travel.

    `load` checks its objects: for a dataclass that all fields are there and of their types, and ``__post_init__`` again; for other classes
    the attributes that are annotated in the body. A method ``_check_loaded`` may check further conditions, and raises where they fail.

    In a file a class outside the package has the name of its module and its own. `load` imports nothing, so that module must have been
    imported before.

    Parameters
    ----------
    cls : type
        A class that makes its objects by the ``__new__`` of ``object``, as most do.

    Returns
    -------
    cls : type
        The same class.

    Raises
    ------
    TypeError
        If `cls` is no such class, or another of the same name in this package is marked.

    See Also
    --------
    skdpsynth.persistence.save : Write an object to a file.

    Examples
    --------
    >>> from sklearn.base import BaseEstimator
    >>> from skdpsynth.persistence import savable
    >>> @savable
    ... class Rounded(BaseEstimator):
    ...     def __init__(self, decimals=2):
    ...         self.decimals = decimals
    >>> import tempfile, pathlib
    >>> from skdpsynth.persistence import load, save
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(Rounded(3), pathlib.Path(folder) / "rounded.zip")
    ...     load(pathlib.Path(folder) / "rounded.zip")
    Rounded(decimals=3)
    """
    if not isinstance(cls, type) or cls.__new__ is not object.__new__:
        raise TypeError("savable marks classes that make their objects by object.__new__; hold another kind of object in one of them.")
    name = _name_of(cls)
    known = _CLASSES.get(name)
    if known is not None and "." not in name and known.__module__ != cls.__module__:
        raise TypeError(f"Two classes {name} would have one name in files; rename one.")
    _CLASSES[name] = cls  # a notebook cell that runs again defines its class again
    return cls


class InvalidFile(Exception):
    """A fault of a file, in words that follow its name."""


def _name_of(cls: type) -> str:
    """Return the name of a class in files: bare if it is of this package, and never bare otherwise."""
    return cls.__qualname__ if cls.__module__.split(".")[0] == _PACKAGE else f"{cls.__module__}.{cls.__qualname__}"


def is_savable(cls: type) -> bool:
    return _CLASSES.get(_name_of(cls)) is cls


def _class_of(name: object) -> type:
    """Return the marked class of this name; nothing that the file names is imported to find it."""
    if isinstance(name, str) and "." not in name and name not in _CLASSES:
        # It may be one of ours: all rooms are imported, whichever it is, and none by a name in the file.
        import skdpsynth.decomposition
        import skdpsynth.federated
        import skdpsynth.model_selection
        import skdpsynth.synthesis  # noqa: F401
    cls = _CLASSES.get(name) if isinstance(name, str) else None
    if cls is not None:
        return cls
    if "." in str(name)[:_LONGEST]:
        raise InvalidFile(f"holds {short_repr(name)}, a class that no imported module marks as savable; import its module first.")
    raise InvalidFile(f"holds {short_repr(name)}, which this skdpsynth does not save; load it with the one that saved it.")


def _shadowed_names(cls: type, state: Iterable[str]) -> list[str]:
    """Return names of a state that would hide a method, a property, a constant or a name of Python's own."""
    hidden = []
    for name in state:
        defined = [vars(base)[name] for base in cls.__mro__ if name in vars(base)]
        declared = [vars(base).get("__annotations__", {}).get(name) for base in cls.__mro__]
        is_default = any(form is not None and "ClassVar" not in str(form) for form in declared)  # of an attribute that is declared
        if name.startswith("__") or (defined and (hasattr(defined[0], "__get__") or not is_default)):
            hidden.append(name)
    return hidden


def encode(thing: object, arrays: dict[str, np.ndarray], where: str) -> Any:
    """Return JSON for `thing`, which messages call `where`; arrays go aside, under the name of their place."""
    match thing:
        case None | str() | int():  # bool is an int
            return thing
        case float():
            return float(thing) if math.isfinite(thing) else {"float": repr(float(thing))}
        case Fraction():
            return {"fraction": str(thing)}
        case PurePath():  # a schema in a file, which may also be given as text
            return str(thing)
        case list() | tuple():
            items = [encode(item, arrays, f"{where}[{i}]") for i, item in enumerate(thing)]
            return items if isinstance(thing, list) else {"tuple": items}
        case dict():
            return {"dict": [[encode(key, arrays, where), encode(value, arrays, f"{where}[{key!r}]")] for key, value in thing.items()]}
        case np.dtype():
            return {"dtype": thing.str}
        case np.generic() if thing.dtype.kind in DTYPES and not isinstance(thing.item(), np.generic):  # a longdouble nothing else can hold
            return {"scalar": str(thing.dtype), "value": encode(thing.item(), arrays, where)}
        case np.ndarray():
            return _encode_array(thing, arrays, where)
    cls = type(thing)
    if cls.__module__.startswith("pandas") and hasattr(thing, "numpy_dtype"):
        return {"pandas_dtype": str(thing)}
    if not is_savable(cls):
        raise TypeError(
            f"{where} is a {cls.__name__}, which cannot be saved; only numbers, names, arrays and objects of classes marked with "
            "skdpsynth.persistence.savable can."
        )
    state = _state_of(thing, where)
    return {"class": _name_of(cls), "state": {key: encode(value, arrays, f"{where}.{key}") for key, value in state.items()}}


def _encode_array(array: np.ndarray, arrays: dict[str, np.ndarray], where: str) -> Any:
    if array.dtype.kind == "O":
        if not all(isinstance(name, str) for name in array.ravel()):
            raise TypeError(f"{where} holds objects that cannot be saved; only numbers and names can.")
        return {"names": array.tolist()}
    if array.dtype.kind not in DTYPES:
        raise TypeError(f"{where} is an array of {array.dtype}, which cannot be saved; only numbers and names can.")
    name = f"{len(arrays)}.npy"
    arrays[name] = array
    return {"array": name, "frozen": not array.flags.writeable}


def _state_of(thing: object, where: str) -> dict[str, Any]:
    state = thing.__getstate__()
    if not isinstance(state, dict | None) or not all(isinstance(key, str) for key in state or ()):
        raise TypeError(f"{where} has a state that cannot be saved; __getstate__ must return a dict of attributes by name.")
    state = {key: value for key, value in (state or {}).items() if key not in _NOT_SAVED}
    if hidden := _shadowed_names(type(thing), state):
        raise TypeError(f"{where}.{hidden[0]} cannot be saved, because {type(thing).__name__} defines that name; use another.")
    if "random_state" in state:
        state["random_state"] = None  # anyone who finds a seed can undo the noise
    if "prior" in state and isinstance(thing, BaseEstimator):
        state["prior"] = None  # a table, or where one lies: it is no part of a model
    return state


def decode(data: object, array_of: Callable[[str], np.ndarray]) -> Any:
    """Return the object of some JSON; ``array_of(name)`` reads an array."""
    if isinstance(data, list):
        return [decode(item, array_of) for item in data]
    match data:
        case {"class": name, "state": state}:
            return _make_object(_class_of(name), state, array_of)
        case {"array": name, "frozen": is_frozen}:
            array = array_of(name)
            array.setflags(write=not is_frozen)
            return array
        case {"tuple": items}:
            return tuple(decode(items, array_of))
        case {"dict": items}:
            return {decode(key, array_of): decode(value, array_of) for key, value in items}
        case {"fraction": text}:
            if len(text) > _LONGEST or not re.fullmatch(r"-?\d+(/\d+)?", text):
                raise InvalidFile("holds a fraction that save does not write.")
            return Fraction(text)
        case {"float": text}:
            return float(text)
        case {"scalar": dtype, "value": value}:
            return _numeric_dtype(dtype).type(decode(value, array_of))
        case {"dtype": name}:
            return _numeric_dtype(name)
        case {"names": names}:
            return np.array(decode(names, array_of), dtype=object)
        case {"pandas_dtype": name}:
            import pandas as pd

            return pd.api.types.pandas_dtype(str(name))
        case dict():
            raise InvalidFile("holds a part that save does not write.")
    return data


def _numeric_dtype(name: object) -> np.dtype:
    dtype = np.dtype(str(name))
    if dtype.kind not in DTYPES:
        raise TypeError(name)
    return dtype


def _make_object(cls: type, data: dict[str, Any], array_of: Callable[[str], np.ndarray]) -> Any:
    """Return an object of this class and state, which its class must be able to have."""

    def refuse(why: str) -> InvalidFile:
        return InvalidFile(f"holds a {cls.__name__} {why}; it was not written by save.")

    if _shadowed_names(cls, data):
        raise refuse("that hides what its class defines")
    if data.get("random_state") is not None:
        raise refuse("with a seed, by which its noise would be known")
    thing: Any = object.__new__(cls)
    state = {key: decode(value, array_of) for key, value in data.items()}
    try:
        getattr(thing, "__setstate__", vars(thing).update)(state)
        declared, held = _declared_types(cls), vars(thing)
        if lacking := (_init_parameters(cls) if issubclass(cls, BaseEstimator) else declared.keys()) - held.keys():
            raise refuse(f"without {', '.join(sorted(lacking))}")
        if is_dataclass(cls) and (more := held.keys() - declared.keys()):
            raise refuse(f"with {len(more)} attributes more than it has")
        for name in declared.keys() & held.keys():
            if not is_of_type(held[name], declared[name]):
                raise refuse(f"whose {name} is none that save writes")
        if hasattr(thing, "__post_init__"):
            thing.__post_init__()
        elif not is_dataclass(cls) and not issubclass(cls, BaseEstimator) and _init_parameters(cls) == state.keys() != set():
            cls(**state)
        if hasattr(thing, "_check_loaded"):
            thing._check_loaded()
    except (MemoryError, ImportError, InvalidFile):
        raise
    except Exception as error:
        raise refuse(f"whose parts do not fit each other ({type(error).__name__})") from None
    return thing


def check_usable(thing: Any) -> Any:
    """Return a whole object that was read, after trying it where its class has ``_try_loaded``, which changes nothing and costs nothing."""
    try:
        if hasattr(type(thing), "_try_loaded"):
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                thing._try_loaded()
    except (MemoryError, ImportError, InvalidFile):
        raise
    except Exception as error:
        raise InvalidFile(
            f"holds a {type(thing).__name__} that does not work ({type(error).__name__}); it was not written by save."
        ) from None
    return thing


def require(truth: object) -> None:
    """Refuse a state in a `_check_loaded`."""
    if not truth:
        raise ValueError("The parts of the state do not fit each other.")


def is_array(value: object, dtype: str, *shape: int) -> bool:
    """Whether a value is a finite array of some kinds (letters of numpy) and of this shape; -1 stands for any length."""
    return (
        isinstance(value, np.ndarray)
        and is_of_type(value, np.ndarray)
        and value.dtype.kind in dtype
        and value.ndim == len(shape)
        and all(wanted in (-1, side) for wanted, side in zip(shape, value.shape, strict=True))
    )


@cache
def _init_parameters(cls: type) -> set[str]:
    parameters = inspect.signature(cls).parameters.values() if cls.__init__ is not object.__init__ else ()  # type: ignore[misc]
    return {p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}


@cache
def _declared_types(cls: type) -> dict[str, Any]:
    if is_dataclass(cls):
        hints = get_type_hints(cls)
        return {field.name: hints[field.name] for field in fields(cls)}
    hints = {}
    for base in reversed(cls.__mro__):
        if base.__module__.split(".")[0] == _PACKAGE and "__annotations__" in vars(base):
            own = get_type_hints(base)
            hints.update({name: own[name] for name in vars(base)["__annotations__"]})
    return {name: form for name, form in hints.items() if get_origin(form) is not ClassVar and not hasattr(cls, name)}


def is_of_type(value: object, form: Any) -> bool:
    """Whether a value is of a declared type; no number may be NaN, and arrays are finite."""
    origin, parts = get_origin(form), get_args(form)
    if origin in (Union, types.UnionType):
        return any(is_of_type(value, part) for part in parts)
    if origin is tuple and parts[1:] != (...,):
        return isinstance(value, tuple) and len(value) == len(parts) and all(map(is_of_type, value, parts))
    if origin in (tuple, list):
        return isinstance(value, origin) and all(is_of_type(each, parts[0]) for each in value)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return isinstance(value, Mapping) and all(is_of_type(key, parts[0]) and is_of_type(each, parts[1]) for key, each in value.items())
    if form in (float, int):
        return isinstance(value, Real if form is float else Integral) and not isinstance(value, bool) and value == value
    if form is Hashable:
        return isinstance(value, str | Integral | float | None) or is_of_type(value, tuple[Hashable, ...])
    if form is np.ndarray:
        return isinstance(value, np.ndarray) and (value.dtype.kind != "f" or bool(np.isfinite(value).all()))
    if form in (bool, None):
        return isinstance(value, bool | np.bool_) if form is bool else value is None
    form = origin or form
    is_class = isinstance(form, type) and form is not Any and not getattr(form, "_is_protocol", False)
    return isinstance(value, form) if is_class else True
