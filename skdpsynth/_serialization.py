"""Objects as JSON and arrays, and back: only of classes marked as savable, and without running code."""

import inspect
import math
import re
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator

from skdpsynth._lazy_imports import import_all_modules
from skdpsynth._state_validation import InvalidState, MissingDependency, check_consistent, check_state, try_out
from skdpsynth._validation import short_repr

DTYPES = "biuf"
_LONGEST = 4000  # characters of a fraction

_CLASSES: dict[str, type] = {}  # name in a file -> class that says that it may be saved
_Class = TypeVar("_Class", bound=type)
_NOT_SAVED = {"_sklearn_version", "_skl_callbacks"}


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
    skdpsynth.load : Read it.

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
    return cls.__qualname__ if cls.__module__.split(".")[0] == __name__.split(".")[0] else f"{cls.__module__}.{cls.__qualname__}"


def is_savable(cls: type) -> bool:
    return _CLASSES.get(_name_of(cls)) is cls


def _class_of(name: Any) -> type:
    """Return the marked class of this name; nothing that the file names is imported to find it."""
    if isinstance(name, str) and "." not in name and name not in _CLASSES:
        import_all_modules()  # it may be one of ours: all rooms are imported, whichever it is, and none by a name in the file
    cls = _CLASSES.get(name) if isinstance(name, str) else None
    if cls is not None:
        return cls
    if "." in str(name)[:_LONGEST]:
        raise InvalidFile(
            f"holds {short_repr(name)}, a class that no imported module marks as savable; import the module that defines it first."
        )
    raise InvalidFile(
        f"holds {short_repr(name)}, which is no class that this version of skdpsynth saves; load it with the one that saved it."
    )


def _parameters(cls: type) -> set[str]:
    parameters = inspect.signature(cls).parameters.values() if issubclass(cls, BaseEstimator) else ()
    return {p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}


def _shadowed_names(cls: type, state: Iterable[str]) -> list[str]:
    """Return names of a state that would hide a method, a property, a constant or a name of Python's own."""
    return [
        name for name in state if name.startswith("__") or (any(name in vars(base) for base in cls.__mro__) and not _is_settable(cls, name))
    ]


def _is_settable(cls: type, name: str) -> bool:
    """Whether a class defines a name only as the default of an attribute that it declares."""
    default = next(vars(base)[name] for base in cls.__mro__ if name in vars(base))
    declared = (vars(base).get("__annotations__", {}).get(name) for base in cls.__mro__)
    return not hasattr(default, "__get__") and any(form is not None and "ClassVar" not in str(form) for form in declared)


# Objects to JSON. A writer gets the object, the arrays that go aside, and where the object stands, for messages.


def encode(thing: Any, arrays: dict[str, np.ndarray], where: str) -> Any:
    """Return JSON for `thing`; arrays go aside, under the name of their place."""
    return next(_WRITERS[base] for base in type(thing).__mro__ if base in _WRITERS)(thing, arrays, where)


def _write_float(thing: float, arrays: dict, where: str) -> Any:
    return float(thing) if math.isfinite(thing) else {"float": repr(float(thing))}


def _write_scalar(thing: np.generic, arrays: dict, where: str) -> Any:
    if thing.dtype.kind not in DTYPES or isinstance(thing.item(), np.generic):  # a longdouble, which nothing else can hold
        raise _unsavable_error(thing, where)
    return {"scalar": str(thing.dtype), "value": encode(thing.item(), arrays, where)}


def _write_array(thing: np.ndarray, arrays: dict, where: str) -> Any:
    if thing.dtype.kind == "O":
        if not all(isinstance(name, str) for name in thing.ravel()):
            raise TypeError(f"{where} holds objects that cannot be saved; only numbers and names can.")
        return {"names": thing.tolist()}
    if thing.dtype.kind not in DTYPES:
        raise TypeError(f"{where} is an array of {thing.dtype}, which cannot be saved; only numbers and names can.")
    name = f"{len(arrays)}.npy"
    arrays[name] = thing
    return {"array": name, "frozen": not thing.flags.writeable}


def _write_list(thing: list | tuple, arrays: dict, where: str) -> Any:
    return [encode(item, arrays, f"{where}[{i}]") for i, item in enumerate(thing)]


def _write_dict(thing: dict, arrays: dict, where: str) -> Any:
    return {"dict": [[encode(key, arrays, where), encode(value, arrays, f"{where}[{key!r}]")] for key, value in thing.items()]}


def _write_object(thing: Any, arrays: dict, where: str) -> Any:
    cls = type(thing)
    if cls.__module__.startswith("pandas") and hasattr(thing, "numpy_dtype"):
        return {"pandas_dtype": str(thing)}
    if not is_savable(cls):
        raise _unsavable_error(thing, where)
    state = _state_of(thing, where)
    return {"class": _name_of(cls), "state": {key: encode(value, arrays, f"{where}.{key}") for key, value in state.items()}}


def _unsavable_error(thing: Any, where: str) -> TypeError:
    return TypeError(
        f"{where} is a {type(thing).__name__}, which cannot be saved; only numbers, names, arrays and objects of classes marked with "
        "skdpsynth.persistence.savable can."
    )


def _state_of(thing: Any, where: str) -> dict[str, Any]:
    state = thing.__getstate__()
    if not isinstance(state, dict | None) or not all(isinstance(key, str) for key in state or ()):
        raise TypeError(f"{where} has a state that cannot be saved; __getstate__ must return a dict of attributes by name.")
    state = {key: value for key, value in (state or {}).items() if key not in _NOT_SAVED}
    hidden = _shadowed_names(type(thing), state)
    if hidden:
        raise TypeError(f"{where}.{hidden[0]} cannot be saved, because {type(thing).__name__} defines that name; use another.")
    if "random_state" in state:
        state["random_state"] = None  # anyone who finds a seed can undo the noise
    if "prior" in state and isinstance(thing, BaseEstimator):
        state["prior"] = None  # a table, or where one lies: it is no part of a model
    return state


_WRITERS: dict[type, Callable[[Any, dict, str], Any]] = {
    **dict.fromkeys((type(None), str, int), lambda thing, arrays, where: thing),  # bool is an int
    float: _write_float,
    np.float64: _write_float,
    np.generic: _write_scalar,
    np.dtype: lambda thing, arrays, where: {"dtype": thing.str},
    np.ndarray: _write_array,
    Fraction: lambda thing, arrays, where: {"fraction": str(thing)},
    list: _write_list,
    tuple: lambda thing, arrays, where: {"tuple": _write_list(thing, arrays, where)},
    dict: _write_dict,
    object: _write_object,
}


# JSON to objects. A reader gets the JSON, and a function that reads an array.


def decode(data: Any, array_of: Callable[[str], np.ndarray]) -> Any:
    if isinstance(data, list):
        return [decode(item, array_of) for item in data]
    return _READERS[next(iter(data), "")](data, array_of) if isinstance(data, dict) else data


def _read_object(data: dict, array_of: Callable) -> Any:
    cls, state = _class_of(data["class"]), data["state"]
    lacking = _parameters(cls) - state.keys()
    if lacking:
        raise InvalidFile(f"holds a {cls.__name__} without {', '.join(sorted(lacking))}; it was not written by save.")
    if _shadowed_names(cls, state):
        raise InvalidFile(f"holds a {cls.__name__} that hides what its class defines; it was not written by save.")
    if state.get("random_state") is not None:
        raise InvalidFile(f"holds a {cls.__name__} with a seed, by which its noise would be known; it was not written by save.")
    return _make_object(cls, {key: decode(value, array_of) for key, value in state.items()})


def _make_object(cls: type, state: dict[str, Any]) -> Any:
    """Return an object of this class and state, which its class must be able to have."""
    thing: Any = object.__new__(cls)
    try:
        if hasattr(thing, "__setstate__"):
            thing.__setstate__(state)
        else:
            vars(thing).update(state)
        check_state(cls, vars(thing))
        check_consistent(thing, state)
    except InvalidState as error:
        raise InvalidFile(f"holds a {cls.__name__} {error}; it was not written by save.") from None
    except (MemoryError, InvalidFile, MissingDependency):
        raise
    except Exception as error:
        why = f"holds a {cls.__name__} whose parts do not fit each other ({type(error).__name__}); it was not written by save."
        raise InvalidFile(why) from None
    return thing


def check_usable(thing: Any) -> Any:
    """Return a whole object that was read, after trying it where its class knows how."""
    try:
        try_out(thing)
    except (MemoryError, InvalidFile, MissingDependency):
        raise
    except Exception as error:
        raise InvalidFile(
            f"holds a {type(thing).__name__} that does not work ({type(error).__name__}); it was not written by save."
        ) from None
    return thing


def _read_array(data: dict, array_of: Callable) -> np.ndarray:
    array = array_of(data["array"])
    array.setflags(write=not data["frozen"])
    return array


def _read_fraction(data: dict, array_of: Callable) -> Fraction:
    if len(data["fraction"]) > _LONGEST or not re.fullmatch(r"-?\d+(/\d+)?", data["fraction"]):
        raise InvalidFile("holds a fraction that save does not write.")
    return Fraction(data["fraction"])


def _read_pandas_dtype(data: dict, array_of: Callable) -> Any:
    import pandas as pd

    return pd.api.types.pandas_dtype(str(data["pandas_dtype"]))


_READERS: dict[str, Callable[[dict, Callable], Any]] = {
    "class": _read_object,
    "array": _read_array,
    "tuple": lambda data, array_of: tuple(decode(data["tuple"], array_of)),
    "dict": lambda data, array_of: {decode(key, array_of): decode(value, array_of) for key, value in data["dict"]},
    "fraction": _read_fraction,
    "float": lambda data, array_of: float(data["float"]),
    "scalar": lambda data, array_of: _dtype(data["scalar"]).type(decode(data["value"], array_of)),
    "dtype": lambda data, array_of: _dtype(data["dtype"]),
    "names": lambda data, array_of: np.array(decode(data["names"], array_of), dtype=object),
    "pandas_dtype": _read_pandas_dtype,
}


def _dtype(name: Any) -> np.dtype:
    dtype = np.dtype(str(name))
    if dtype.kind not in DTYPES:
        raise TypeError(name)
    return dtype
