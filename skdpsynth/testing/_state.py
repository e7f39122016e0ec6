"""State of a fitted estimator as comparable numbers and words."""

import enum
import pickle
import re
import tempfile
import types
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from skdpsynth.privacy import PrivacyAccountant
from skdpsynth.testing._check import require

_PLAIN = (bool, int, float, complex, str, bytes, type(None), Fraction, np.generic, np.dtype, enum.Enum)
_TIME = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00|ledger-[0-9a-f]{32}")  # in a ledger, which has a random id
_PROBES = 50  # rows that are drawn or transformed to compare two estimators


def released_state(fitted: Any) -> dict[str, Any]:
    """Return all public results: fitted attributes, a seeded sample, transformed points.

    The accountant is left out, because two fits that release the same may be charged at different times.
    """
    shown = {path: leaf for name, value in fitted_attributes(fitted).items() for path, leaf in leaves(value, name)}
    if hasattr(fitted, "sample"):
        shown.update(leaves(as_rows(fitted.sample(_PROBES, random_state=0)), f"sample({_PROBES})"))
    if hasattr(fitted, "transform"):
        points = np.random.default_rng(9).random((_PROBES, fitted.n_features_in_))
        shown.update(leaves(as_rows(fitted.transform(points)), "transform(points)"))
    return shown


def fitted_attributes(fitted: Any) -> dict[str, Any]:
    public = {name: value for name, value in vars(fitted).items() if name.endswith("_") and not name.startswith("_")}
    return {name: value for name, value in public.items() if name != "accountant_"}


def full_state(fitted: Any) -> dict[str, Any]:
    """Return the whole state, private attributes and ledger lines included."""
    return dict(leaves(dict(vars(fitted)), type(fitted).__name__))


def serialized_bytes(fitted: Any) -> dict[str, Any]:
    """Return the bytes of a pickle, and of each member of a saved file, without times of charges and random ids of ledgers."""
    data = {"pickle": pickle.dumps(fitted)}
    if hasattr(fitted, "save"):
        with tempfile.TemporaryDirectory() as folder, suppress(TypeError):  # it is not savable
            path = Path(folder) / "fitted.zip"
            fitted.save(path)
            with zipfile.ZipFile(path) as file:
                data |= {f"{name} in the file of save": file.read(name) for name in file.namelist()}
    return {name: _TIME.sub(b"", content) for name, content in data.items()}


def difference(first: dict[str, Any], second: dict[str, Any]) -> str | None:
    """Return the first difference of two states in words, or None."""
    missing = sorted(first.keys() ^ second.keys())
    if missing:
        return f"only one of the two has {missing[0]}"
    return next((f"{path} differs" for path, leaf in first.items() if leaf != second[path]), None)


def require_equal(first: dict[str, Any], second: dict[str, Any], where: str) -> None:
    found = difference(first, second)
    require(found is None, f"{found} {where}")


def as_rows(table: Any) -> np.ndarray:
    return np.asarray(table.to_numpy() if hasattr(table, "to_numpy") else table)


def leaves(thing: Any, path: str, above: tuple[int, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield (path, number or word) for everything in an object."""
    if isinstance(thing, _PLAIN):
        yield path, (type(thing).__name__, repr(thing))
    elif isinstance(thing, np.ndarray) and thing.dtype.kind != "O":
        yield path, (str(thing.dtype), thing.shape, thing.tobytes())
    elif isinstance(thing, type | types.FunctionType | types.BuiltinFunctionType | types.MethodType):
        yield path, thing.__qualname__
    elif isinstance(thing, PrivacyAccountant):
        yield path, [ledger_line(entry) for entry in thing.ledger]
    elif id(thing) in above:
        yield path, "itself"
    else:
        yield path, type(thing).__name__
        for name, part in _parts(thing):
            yield from leaves(part, f"{path}{name}", (*above, id(thing)))


def ledger_line(entry: Any) -> tuple[str, ...]:
    """Return the facts of a ledger line, without its time and its number."""
    said = ("name", "loss", "noise", "scale", "sensitivity", "n_values", "randomness", "group")
    return (*(str(getattr(entry, name, None)) for name in said), str(getattr(getattr(entry, "sensitivity", None), "statistic", None)))


def _parts(thing: Any) -> list[tuple[str, Any]]:
    """Return (name, part) for the parts of an object."""
    if isinstance(thing, np.ndarray):
        thing = thing.tolist()
    if isinstance(thing, Mapping):
        return [(f"[{key!r}]", value) for key, value in thing.items()]
    if isinstance(thing, set | frozenset):
        thing = sorted(thing, key=repr)
    if isinstance(thing, list | tuple):
        return [(f"[{i}]", value) for i, value in enumerate(thing)]
    if type(thing).__module__.split(".")[0] == "numpy":
        return []  # a generator: where it stands is no result
    # The state for a pickle, which has no room that an object keeps for later rows.
    state = vars(thing) if isinstance(thing, BaseEstimator) else thing.__getstate__()
    states = state if isinstance(state, tuple) else (state,)
    return [(f".{name}", value) for part in states if isinstance(part, Mapping) for name, value in part.items()]
