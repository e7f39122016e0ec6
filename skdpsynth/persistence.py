"""Saving and loading of estimators without code execution: one zip of JSON and arrays.

A class says itself that it may be saved (`savable`). A file names classes, and only those that imported modules have marked are made: what
a file names is never imported. Arrays are read without pickle. So a file from anywhere can be opened safely, though what it says need not
be true.
"""

import inspect
import io
import json
import math
import os
import re
import tempfile
import zipfile
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator

from skdpsynth._checks import shown

__all__ = ["from_bytes", "load", "savable", "save", "to_bytes"]

_FORMAT = 2
_DTYPES = "biuf"
_LONGEST = 4000  # characters of a fraction
_MOST_TEXT = 1 << 25  # bytes of JSON: arrays lie apart, so there is little of it
_MOST_PARTS = 1 << 21  # lists and objects of JSON, each of which takes a hundred bytes of memory and more
_DENSEST = 256  # bytes that one byte of a file may stand for; what save writes, at level 1, reaches 230
_DATE = (1980, 1, 1, 0, 0, 0)  # of all members: a file depends on nothing but the object
_TEXT = "object.json"

_CLASSES: dict[str, type] = {}  # name in a file -> class that says that it may be saved
_Class = TypeVar("_Class", bound=type)


def savable(cls: _Class) -> _Class:
    """Mark a class whose objects may be saved, and made again from a file; for use as the outermost decorator.

    The marked class itself is meant: a subclass is marked anew, because whether a file may make it is for its author to say. What is
    saved is what a pickle would hold: ``__getstate__`` (a dict) or all attributes. They may be numbers, strings, arrays of numbers,
    tuples, lists, dicts, and objects of marked classes. An attribute ``random_state`` is saved as None: a seed must not travel.

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


def save(thing: Any, path: str | os.PathLike[str]) -> None:
    """Write an estimator, or a counter, to a file.

    The file is complete or not there: it is written beside its place and moved. It holds what a pickle would, but no seed: an
    estimator of public results may be published, a stream in progress (`OnlineSynthesizer`, counters) is as private as the data.
    Files of equal objects are equal byte for byte.

    Parameters
    ----------
    thing : estimator or counter
        Of this package, or of a class of your own that is marked with `savable`.
    path : str or path-like

    Raises
    ------
    TypeError
        If its class, or that of a parameter such as a partition of the caller's own, is not marked with `savable`.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"path must lie in a folder that exists, got {shown(str(path.parent))}; make it first.")
    _write_beside(path, _members_of(thing))


def to_bytes(thing: Any) -> bytes:
    """Return what `save` would write to a file, to be sent or kept elsewhere; equal objects give equal bytes.

    Parameters
    ----------
    thing : object
        Of a class that is marked with `savable`.

    Returns
    -------
    data : bytes
    """
    file = io.BytesIO()
    _write(file, _members_of(thing))
    return file.getvalue()


def _members_of(thing: Any) -> list[tuple[str, Callable[[], Any]]]:
    """Return the names of the members of a file, and what makes them."""
    kind = type(thing).__name__
    if not _is_savable(type(thing)):
        raise TypeError(f"A {kind} cannot be saved; mark the class itself, even if its base is marked, with skdpsynth.persistence.savable.")
    arrays: dict[str, np.ndarray] = {}
    text = json.dumps({"format": _FORMAT, "object": _encode(thing, arrays, kind)}, allow_nan=False).encode()
    if _is_too_long(text):
        raise ValueError(f"A {kind} of so many parts cannot be saved, {len(text) >> 20} MB of text; keep fewer of them.")
    return [(_TEXT, lambda: text), *((name, lambda array=array: _npy(array)) for name, array in arrays.items())]


def load(path: str | os.PathLike[str]) -> Any:
    """Read what `save` wrote: a fitted estimator that samples, transforms and, where it is a stream, goes on.

    No code of the file runs and no module that it names is imported: import the module of a class of your own first. Seeds are not in
    it: set ``random_state`` again where you had one. Going on twice from one file is two releases.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    thing : estimator or counter

    Raises
    ------
    ValueError
        If the file was not written by `save`, or by another version of it, or holds a class that no imported module has marked.
    MemoryError
        If what it holds does not fit into memory.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> import skdpsynth
    >>> model = skdpsynth.PrivateMeasureMechanism().fit(np.random.default_rng(0).random((500, 1)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(pathlib.Path(folder) / "model.zip")
    ...     again = skdpsynth.load(pathlib.Path(folder) / "model.zip")
    >>> again.sample(3).shape
    (3, 1)
    """
    with open(path, "rb") as file:
        return _read_file(file, os.fstat(file.fileno()).st_size, str(path), "save")


def from_bytes(data: bytes, name: str = "data") -> Any:
    """Read what `to_bytes` returned: no code in it runs, and no module that it names is imported.

    Parameters
    ----------
    data : bytes
    name : str, default="data"
        What the caller calls it, for messages.

    Returns
    -------
    thing : object

    Raises
    ------
    ValueError
        If these are no such bytes, or hold a class that no imported module has marked.
    """
    return _read_file(io.BytesIO(data), len(data), name, "to_bytes")


def _read_file(file: Any, size: int, name: str, writer: str) -> Any:
    try:
        with zipfile.ZipFile(file) as archive:
            return _read(archive, size)
    except _Refused as error:
        raise ValueError(f"{name} {error}") from None
    except MemoryError:
        raise MemoryError(f"{name} holds more than there is memory for; load it where there is more.") from None
    except Exception as error:  # whatever a damaged file makes a parser say
        raise ValueError(f"{name} was not written by {writer}, or is damaged ({type(error).__name__}); write it again.") from None


class _Refused(Exception):
    """What is wrong with a file, after its name."""


# Classes


def _name_of(cls: type) -> str:
    """Return the name of a class in files: bare if it is of this package, and never bare otherwise."""
    return cls.__qualname__ if cls.__module__.split(".")[0] == __name__.split(".")[0] else f"{cls.__module__}.{cls.__qualname__}"


def _is_savable(cls: type) -> bool:
    return _CLASSES.get(_name_of(cls)) is cls


def _class_of(name: Any) -> type:
    """Return the marked class of this name; nothing is imported to find it."""
    cls = _CLASSES.get(name) if isinstance(name, str) else None
    if cls is not None:
        return cls
    if "." in str(name)[:_LONGEST]:
        raise _Refused(f"holds {shown(name)}, a class that no imported module marks as savable; import the module that defines it first.")
    raise _Refused(f"holds {shown(name)}, which is no class that this version of skdpsynth saves; load it with the one that saved it.")


def _parameters(cls: type) -> set[str]:
    """Names of the parameters that every object of an estimator class has."""
    parameters = inspect.signature(cls).parameters.values() if issubclass(cls, BaseEstimator) else ()
    return {p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}


def _shadows(cls: type, state: Iterable[str]) -> list[str]:
    """Return names of a state that would hide a method, a property or what Python itself keeps in an object."""
    return [name for name in state if name.startswith("__") or hasattr(_defined(cls, name), "__get__")]


def _defined(cls: type, name: str) -> Any:
    return next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)


# Files


def _write_beside(path: Path, members: Iterable[tuple[str, Callable[[], Any]]]) -> None:
    """Write members to a file beside its place, and move it there when it is complete."""
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            _write(file, members)
        os.replace(beside, path)
    except BaseException:
        Path(beside).unlink(missing_ok=True)  # gone, if an interrupt came right after the move
        raise


def _write(file: Any, members: Iterable[tuple[str, Callable[[], Any]]]) -> None:
    archive = zipfile.ZipFile(file, "w")
    try:
        for name, data in members:
            entry = zipfile.ZipInfo(name, _DATE)
            entry.external_attr = 0o600 << 16
            archive.writestr(entry, data(), zipfile.ZIP_DEFLATED, compresslevel=1)
        archive.close()
    except BaseException:
        archive.fp = None  # closing would complain of the open member, in place of what went wrong: an interrupt even
        raise


def _npy(array: np.ndarray) -> memoryview:
    member = io.BytesIO()
    np.save(member, array, allow_pickle=False)
    return member.getbuffer()


def _read(archive: zipfile.ZipFile, size: int) -> Any:
    """Return the object of an open archive whose file has `size` bytes."""
    if archive.getinfo(_TEXT).file_size > _MOST_TEXT or sum(member.file_size for member in archive.infolist()) > _DENSEST * size:
        raise _Refused("holds more than save writes into a file of its size; it was not written by save.")
    text = archive.read(_TEXT)
    if _is_too_long(text):
        raise _Refused("holds more parts than save writes; it was not written by save.")
    told = json.loads(text)
    _check_format(told["format"])
    if "class" not in told["object"]:
        raise _Refused("holds no estimator or counter; it was not written by save.")
    return _decode(told["object"], cache(lambda name: _array(archive, name)))  # each is read once, however often named


def _is_too_long(text: bytes) -> bool:
    return len(text) > _MOST_TEXT or text.count(b"[") + text.count(b"{") > _MOST_PARTS


def _check_format(number: Any) -> None:
    if type(number) is not int:
        raise _Refused("has no number of a format; it was not written by save.")
    if number > _FORMAT:
        raise _Refused(f"has format {shown(number)}, and this version of skdpsynth reads {_FORMAT}; load it with a newer one.")
    if number < _FORMAT:
        raise _Refused(f"has format {shown(number)}, and this version of skdpsynth reads {_FORMAT}; load it with the one that saved it.")


def _array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    """Read one array, whose header must tell the truth about its size."""
    data = archive.read(name)
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    shape, _, dtype = (np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0)(stream)
    if dtype.kind not in _DTYPES or math.prod(shape) * dtype.itemsize != len(data) - stream.tell():
        raise _Refused(f"holds {name}, which is no array as save writes it.")
    return np.load(io.BytesIO(data), allow_pickle=False)


# Objects to JSON. A writer gets the object, the arrays that go aside, and where the object stands, for messages.


def _encode(thing: Any, arrays: dict[str, np.ndarray], where: str) -> Any:
    """Return JSON for `thing`; arrays go aside, under the name of their place."""
    return next(_WRITERS[base] for base in type(thing).__mro__ if base in _WRITERS)(thing, arrays, where)


def _write_itself(thing: Any, arrays: dict, where: str) -> Any:
    return thing


def _write_float(thing: float, arrays: dict, where: str) -> Any:
    return float(thing) if math.isfinite(thing) else {"float": repr(float(thing))}


def _write_scalar(thing: np.generic, arrays: dict, where: str) -> Any:
    if isinstance(thing.item(), np.generic):  # a longdouble, which nothing else can hold
        raise _unsavable(thing, where)
    return {"scalar": str(thing.dtype), "value": _encode(thing.item(), arrays, where)}


def _write_fraction(thing: Fraction, arrays: dict, where: str) -> Any:
    return {"fraction": str(thing)}


def _write_dtype(thing: np.dtype, arrays: dict, where: str) -> Any:
    return {"dtype": thing.str}


def _write_array(thing: np.ndarray, arrays: dict, where: str) -> Any:
    if thing.dtype.kind == "O":
        if not all(isinstance(name, str) for name in thing.ravel()):
            raise TypeError(f"{where} holds objects that cannot be saved; only numbers and names can.")
        return {"names": thing.tolist()}
    if thing.dtype.kind not in _DTYPES:
        raise TypeError(f"{where} is an array of {thing.dtype}, which cannot be saved; only numbers and names can.")
    name = f"{len(arrays)}.npy"
    arrays[name] = thing
    return {"array": name, "frozen": not thing.flags.writeable}


def _write_list(thing: list | tuple, arrays: dict, where: str) -> Any:
    return [_encode(item, arrays, f"{where}[{i}]") for i, item in enumerate(thing)]


def _write_tuple(thing: tuple, arrays: dict, where: str) -> Any:
    return {"tuple": _write_list(thing, arrays, where)}


def _write_dict(thing: dict, arrays: dict, where: str) -> Any:
    return {"dict": [[_encode(key, arrays, where), _encode(value, arrays, f"{where}[{key!r}]")] for key, value in thing.items()]}


def _write_object(thing: Any, arrays: dict, where: str) -> Any:
    """Write an object of a marked class, or refuse."""
    cls = type(thing)
    if cls.__module__.startswith("pandas") and hasattr(thing, "numpy_dtype"):
        return {"pandas_dtype": str(thing)}
    if not _is_savable(cls):
        raise _unsavable(thing, where)
    state = _state_of(thing, where)
    return {"class": _name_of(cls), "state": {key: _encode(value, arrays, f"{where}.{key}") for key, value in state.items()}}


def _unsavable(thing: Any, where: str) -> TypeError:
    return TypeError(
        f"{where} is a {type(thing).__name__}, which cannot be saved; only numbers, names, arrays and objects of classes marked with "
        "skdpsynth.persistence.savable can."
    )


def _state_of(thing: Any, where: str) -> dict[str, Any]:
    state = thing.__getstate__()
    if not isinstance(state, dict | None) or not all(isinstance(key, str) for key in state or ()):
        raise TypeError(f"{where} has a state that cannot be saved; __getstate__ must return a dict of attributes by name.")
    state = {key: value for key, value in (state or {}).items() if key != "_sklearn_version"}
    hidden = _shadows(type(thing), state)
    if hidden:
        raise TypeError(f"{where}.{hidden[0]} cannot be saved, because {type(thing).__name__} defines that name; use another.")
    if "random_state" in state:
        state["random_state"] = None  # a seed voids the promise of whoever finds it
    return state


_WRITERS: dict[type, Callable[[Any, dict, str], Any]] = {
    type(None): _write_itself,
    str: _write_itself,
    int: _write_itself,  # bool too
    float: _write_float,
    np.float64: _write_float,
    np.generic: _write_scalar,
    np.dtype: _write_dtype,
    np.ndarray: _write_array,
    Fraction: _write_fraction,
    list: _write_list,
    tuple: _write_tuple,
    dict: _write_dict,
    object: _write_object,
}


# JSON to objects. A reader gets what was told, and how to read an array.


def _decode(told: Any, array_of: Callable[[str], np.ndarray]) -> Any:
    """Return what `_encode` was given."""
    if isinstance(told, list):
        return [_decode(item, array_of) for item in told]
    return _READERS[next(iter(told), "")](told, array_of) if isinstance(told, dict) else told


def _read_object(told: dict, array_of: Callable) -> Any:
    """Return an object of a marked class, with this state."""
    cls, state = _class_of(told["class"]), told["state"]
    lacking = _parameters(cls) - set(state)
    if lacking:
        raise _Refused(f"holds a {cls.__name__} without {', '.join(sorted(lacking))}; it was not written by save.")
    if _shadows(cls, state):
        raise _Refused(f"holds a {cls.__name__} that hides what its class defines; it was not written by save.")
    thing: Any = object.__new__(cls)
    state = {key: _decode(value, array_of) for key, value in state.items()}
    if hasattr(thing, "__setstate__"):
        thing.__setstate__(state)
    else:
        vars(thing).update(state)
    return thing


def _read_array(told: dict, array_of: Callable) -> np.ndarray:
    array = array_of(told["array"])
    array.setflags(write=not told["frozen"])
    return array


def _read_tuple(told: dict, array_of: Callable) -> tuple:
    return tuple(_decode(told["tuple"], array_of))


def _read_dict(told: dict, array_of: Callable) -> dict:
    return {_decode(key, array_of): _decode(value, array_of) for key, value in told["dict"]}


def _read_fraction(told: dict, array_of: Callable) -> Fraction:
    if len(told["fraction"]) > _LONGEST or not re.fullmatch(r"-?\d+(/\d+)?", told["fraction"]):
        raise _Refused("holds a fraction that save does not write.")
    return Fraction(told["fraction"])


def _read_float(told: dict, array_of: Callable) -> float:
    return float(told["float"])


def _read_scalar(told: dict, array_of: Callable) -> Any:
    return _dtype(told["scalar"]).type(_decode(told["value"], array_of))


def _read_dtype(told: dict, array_of: Callable) -> np.dtype:
    return _dtype(told["dtype"])


def _read_names(told: dict, array_of: Callable) -> np.ndarray:
    return np.array(_decode(told["names"], array_of), dtype=object)


def _read_pandas_dtype(told: dict, array_of: Callable) -> Any:
    import pandas as pd

    return pd.api.types.pandas_dtype(str(told["pandas_dtype"]))


_READERS: dict[str, Callable[[dict, Callable], Any]] = {
    "class": _read_object,
    "array": _read_array,
    "tuple": _read_tuple,
    "dict": _read_dict,
    "fraction": _read_fraction,
    "float": _read_float,
    "scalar": _read_scalar,
    "dtype": _read_dtype,
    "names": _read_names,
    "pandas_dtype": _read_pandas_dtype,
}


def _dtype(name: Any) -> np.dtype:
    dtype = np.dtype(str(name))
    if dtype.kind not in _DTYPES:
        raise TypeError(name)
    return dtype
