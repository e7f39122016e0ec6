"""Laws of side effects of a fit: warnings, floating-point errors, threads."""

import enum
import pickle
import re
import sys
import tempfile
import threading
import types
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from threadpoolctl import threadpool_info

from skdpsynth.privacy import PrivacyAccountant
from skdpsynth.testing._check import clone_with, clone_with_seed, is_stream, law, record_warnings, require, rows

_PLAIN = (bool, int, float, complex, str, bytes, type(None), Fraction, np.generic, np.dtype, enum.Enum)
_TIME = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00|ledger-[0-9a-f]{32}")  # in a ledger, which has a random id
_PROBES = 50  # rows that are drawn or transformed to compare two estimators


def _call(function: Callable[..., Any], *given: Any) -> Any:
    return function(*given)


_LINE = _call.__code__.co_firstlineno + 1  # of the call above, whose file is this one


@law()
def check_warnings_name_the_file_and_line_of_the_caller(estimator: Any) -> None:
    """Every warning names the file and the line that called into the package."""
    for n, parameters in ((3, {"random_state": 0}), (60, {"epsilon": 50.0}), (60, {"epsilon": 0.01}), (60, {"delta": 0.1})):
        with record_warnings() as caught:
            fitted = _call(clone_with(estimator, **parameters).fit, rows(n))
            for name in ("partial_fit", "transform", "score"):
                if hasattr(fitted, name):
                    _call(getattr(fitted, name), rows(n))
            if hasattr(fitted, "sample"):
                _call(fitted.sample)
        for warning in caught:
            place = (warning.filename, warning.lineno)
            require(
                place == (__file__, _LINE),
                f"{str(warning.message)[:60]!r} names line {warning.lineno} of {warning.filename.rpartition('/')[2]}",
            )


@law()
def check_warnings_as_errors_lose_no_money(estimator: Any) -> None:
    """If a warning is an error, then nothing was spent, or the estimator is fitted."""
    for n, parameters in ((1, {}), (5, {"epsilon": 0.1}), (60, {"epsilon": 50.0}), (60, {"delta": 0.1}), (5, {"random_state": 0})):
        shared = PrivacyAccountant(100, 0.5, neighboring=estimator.neighboring)
        unfitted = clone_with(estimator, accountant=shared, **parameters)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                unfitted.fit(rows(n))
            except Exception as error:
                kept = shared.spent == 0 or hasattr(unfitted, "accountant_")
                require(kept, f"{float(shared.spent):g} was spent and nothing is fitted, by {type(error).__name__}: {error}")
        if hasattr(unfitted, "accountant_"):
            released_state(unfitted)


@law()
def check_floating_point_errors_change_nothing(estimator: Any) -> None:
    """With all floating-point errors raised, a fit releases and samples the same."""
    expected = released_state(clone_with_seed(estimator).fit(rows()))
    with np.errstate(all="raise"):
        require_equal(expected, released_state(clone_with_seed(estimator).fit(rows())), "under np.seterr(all='raise')")


@law()
def check_fits_in_threads_leave_the_process_as_it_was(estimator: Any) -> None:
    """Fits in four threads leave the warning filters and the limits of BLAS as they were."""
    filters, limits = list(warnings.filters), _limits()
    try:
        _in_threads([partial(_fit_twice, estimator)] * 4)
        after = list(warnings.filters)
    finally:
        warnings.filters[:] = filters  # type: ignore[index]
    require(after == filters, f"warnings.filters begins with {after[:1]}, and began with {filters[:1]}")
    require(all(_limits().get(path) == n for path, n in limits.items()), f"threads of BLAS were {limits}, and are {_limits()}")


def _fit_twice(estimator: Any) -> None:
    for _ in range(2):
        clone_with(estimator).fit(rows(40))


@law(needs=is_stream)
def check_threads_feed_a_stream_as_one_would(estimator: Any) -> None:
    """Threads that feed a stream and sample from it lose no row (or tick), and no part of it is released twice."""
    fitted = clone_with(estimator).fit(rows(20))
    _in_threads([partial(_feed, fitted)] * 3 + [partial(_draw, fitted)])
    in_ticks = hasattr(fitted, "n_ticks_seen_")  # where the number of rows is private: each call is one
    seen, came = (fitted.n_ticks_seen_, 1 + 3 * 40) if in_ticks else (fitted.n_samples_seen_, 20 + 3 * 40)
    require(seen == came, f"{seen} {'ticks' if in_ticks else 'rows'} have come of {came}")
    names = [entry.name for entry in fitted.accountant_.ledger]
    twice = [name for name in names if names.count(name) > 1]
    require(not twice, f"{twice[:1]} was charged {len(twice)} times")


def _feed(stream: Any) -> None:
    for row in rows(40):
        stream.partial_fit(row[None])


def _draw(stream: Any) -> None:
    for _ in range(20):
        stream.sample(10)


def _in_threads(works: Sequence[Callable[[], None]]) -> None:
    """Run all at once with frequent switches between threads, and raise an error of any of them."""
    failures: list[Exception] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    pause = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(pause)
    if failures:
        raise failures[0]


def _limits() -> dict[str, int]:
    return {pool["filepath"].rpartition("/")[2]: pool["num_threads"] for pool in threadpool_info()}


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
