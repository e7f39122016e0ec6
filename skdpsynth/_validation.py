"""Checks of parameters and arrays, and their values in messages."""

import math
import numbers
import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from fractions import Fraction
from itertools import repeat
from re import Pattern
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import DTypeLike

_LONGEST = 80  # characters of a value that a message shows
_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_TESTING = os.path.join(_HERE, "testing") + os.sep  # which call from outside, as a user does
_TRANSPARENT_PACKAGES = ("sklearn", "joblib", "contextlib", "functools")  # what may stand between a caller and us
_WARNED: dict[tuple[str, type, str, int], object] = {}  # the first to say it, for each text and place
_COLLECTED: ContextVar[dict[tuple[str, type[Warning]], None] | None] = ContextVar("_COLLECTED", default=None)
_ONCE_ACTIONS = ("default", "module", "once")  # actions that do not repeat themselves
_PLAIN = (str, bytes, bool, int, float, complex, type(None))


def short_repr(value: Any) -> str:
    """Return how a message shows the value of a parameter.

    Numbers and words are shown, cut where they are long. For anything else only the type is shown: a table given in place of a parameter
    must not be printed.
    """
    kind, text, shape = type(value), None, getattr(value, "shape", None)
    if kind is int and abs(value) >= 10**_LONGEST:  # Python refuses to print the longest
        return f"a whole number of more than {_LONGEST} digits"
    if kind in _PLAIN:
        text = repr(value)
    elif isinstance(value, numbers.Number):
        with suppress(ValueError):  # Python refuses to print fractions of the longest numbers, too
            text = repr(value.item()) if hasattr(value, "item") else str(value)
    if text is not None:
        return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
    if isinstance(shape, tuple) and all(isinstance(side, int) for side in shape):
        return f"a {kind.__name__} of shape {shape}"
    if kind not in (tuple, list, set, dict):
        return f"a{'n' * (kind.__name__[0] in 'AEIO')} {kind.__name__}"
    return f"a {kind.__name__} of {len(value)}" if value else f"an empty {kind.__name__}"


def is_real(value: object) -> TypeGuard[float]:
    """Whether `value` is a real number; True, False and spans of time are not."""
    if type(value) in (int, float, Fraction):
        return True
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and getattr(getattr(value, "dtype", None), "kind", "i") != "m"


def is_integer(value: object, low: float, high: float = math.inf) -> TypeGuard[int]:
    """Whether `value` is an integer (no bool, no span of time) in [low, high]."""
    if type(value) is int:  # of most, and asking an abstract class is slow
        return low <= value <= high
    return isinstance(value, numbers.Integral) and is_real(value) and low <= int(value) <= high


@dataclass(frozen=True)
class Whole:
    """The integers that a parameter may be, both ends included."""

    low: int
    high: float = math.inf

    def __contains__(self, value: object) -> bool:
        return is_integer(value, self.low, self.high)

    def __str__(self) -> str:
        return f"an integer from {self.low} to {self.high}" if self.high < math.inf else "a positive integer"


@dataclass(frozen=True)
class Between:
    """The real numbers that a parameter may be, both ends excluded."""

    low: float
    high: float = math.inf

    def __contains__(self, value: object) -> bool:
        with suppress(OverflowError):  # of a fraction that no float can hold
            return is_real(value) and self.low < float(value) < self.high
        return False

    def __str__(self) -> str:
        return f"a number in ({self.low}, {self.high})" if self.high < math.inf else f"a number greater than {self.low}"


def check_parameters(owner: object, table: Mapping[str, Sequence[Any]]) -> None:
    """Refuse parameters of an estimator by a table: words, None, True or False, `Whole` and `Between`, and last the way out."""
    for name, (*allowed, way_out) in table.items():
        value = getattr(owner, name)
        value = bool(value) if isinstance(value, np.bool_) else value
        fits = (value in each if isinstance(each, Whole | Between) else isinstance(value, type(each)) and value == each for each in allowed)
        if not any(fits):
            *first, last = [str(each) if isinstance(each, Whole | Between) else repr(each) for each in allowed]
            rule = (f"{', '.join(first)} or {last}" if way_out else f"one of {', '.join([*first, last])}") if first else last
            raise ValueError(f"{name} must be {rule}, got {short_repr(value)}{f'; {way_out}' if way_out else ''}.")


def check_choice(name: str, value: object, choices: Iterable[str], others: str = "") -> str:
    """Return one of the strings `choices`, or raise ValueError; `others` says what else the parameter takes."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}{others}, got {short_repr(value)}.")
    return value


def check_integer(name: str, value: object, low: float = 0, high: float = math.inf, more: str = "") -> int:
    """Return an integer in [low, high] as one of Python, or raise ValueError; `more` says the way out."""
    if not is_integer(value, low, high):
        rule = f"from {low} to {high}" if high < math.inf else f"of at least {low}"
        raise ValueError(f"{name} must be an integer {rule}, got {short_repr(value)}{f'; {more}' if more else ''}.")
    return int(value)


def check_real(name: str, value: object, low: float, high: float = math.inf, more: str = "") -> float:
    """Return a finite real number in [low, high] as a float, or raise ValueError; `more` says the way out."""
    # Compared, for of a whole number beyond floats none is made.
    if not is_real(value) or not low <= value <= min(high, sys.float_info.max):
        rule = f"from {low:g} to {high:g}" if high < math.inf else f"of at least {low:g}"
        raise ValueError(f"{name} must be a finite number {rule}, got {short_repr(value)}{f'; {more}' if more else ''}.")
    return float(value)


def check_type(name: str, value: object, kinds: type | tuple[type, ...], what: str) -> None:
    """Raise TypeError unless `value` is of one of some types; `what` describes them, and how one is made."""
    if not isinstance(value, kinds):
        raise TypeError(f"{name} must be {what}, got {short_repr(value)}.")


def check_attributes(name: str, value: object, attributes: tuple[str, ...], what: str) -> None:
    """Raise TypeError unless `value` is an object, and no class, with some attributes; `what` describes it."""
    if isinstance(value, type) or not all(hasattr(value, attribute) for attribute in attributes):
        raise TypeError(f"{name} must be {what}, got {short_repr(value)}.")


def list_or_none(value: Any) -> list | None:
    """Return the elements of an iterable; None for a text, and for anything that is not iterable."""
    if not isinstance(value, str | bytes):
        with suppress(TypeError):
            return list(value)
    return None


def check_string(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, got {short_repr(value)}.")
    return value


def check_memory(name: str, value: object, n_bytes: int) -> None:
    """Refuse an amount that this machine's memory cannot hold, rather than fill it."""
    if n_bytes > available_memory():
        raise ValueError(
            f"{name} must be less, got {short_repr(value)}, which takes {min(n_bytes, 2**100) / 2**30:.3g} GiB, "
            "more than this machine's memory."
        )


def check_bool(name: str, value: object) -> bool:
    if not isinstance(value, bool) and not (type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_")):
        raise TypeError(f"{name} must be True or False, got {short_repr(value)}.")
    return bool(value)


def available_memory() -> float:
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):  # not on Windows
        return math.inf


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn in the name of the caller of the package: the first frame outside of it, and of scikit-learn.

    A place in the caller's code gets the same warning once a process, unless filters say "always". Python means to do so too, but forgets
    it whenever filters change, and scikit-learn changes them for each fit of a search.
    """
    if (collected := _COLLECTED.get()) is not None:
        collected[message, category] = None
        return
    frame: Any = sys._getframe(1)
    while frame.f_back is not None:
        package, code = frame.f_globals.get("__name__", "").split(".")[0], frame.f_code
        if package not in _TRANSPARENT_PACKAGES and (not code.co_filename.startswith(_HERE) or code.co_filename.startswith(_TESTING)):
            break
        frame = frame.f_back
    file, line, module = frame.f_code.co_filename, frame.f_lineno, frame.f_globals.get("__name__") or "<unknown>"
    action = getattr(warnings, "defaultaction", "default")
    for first, text, kind, name, at in getattr(warnings, "_get_filters", lambda: warnings.filters)():  # of this context, from Python 3.14
        if issubclass(category, kind) and at in (0, line) and _matches(text, message) and _matches(name, module):
            action = first
            break
    mine = object()
    if action in _ONCE_ACTIONS and _WARNED.setdefault((message, category, file, line), mine) is not mine:
        return
    warnings.warn_explicit(message, category, file, line, module=module, registry=frame.f_globals.setdefault("__warningregistry__", {}))


@contextmanager
def collect_warnings() -> Iterator[dict[tuple[str, type[Warning]], None]]:
    """Keep what `warn` says in this thread, each once, for the caller to use or to leave.

    `warnings.catch_warnings` would hide those of all other threads too.
    """
    collected = dict[tuple[str, type[Warning]], None]()
    token = _COLLECTED.set(collected)
    try:
        yield collected
    finally:
        _COLLECTED.reset(token)


def _matches(pattern: str | Pattern[str] | None, text: str) -> bool:
    return pattern is None or (pattern == text if isinstance(pattern, str) else pattern.match(text) is not None)


def as_array(values: object, dtype: DTypeLike | None = None) -> np.ndarray:
    """Return an array-like as an array, or an array of one object where numpy cannot read it.

    Callers refuse such a dtype in a sentence of their own: numpy's errors quote cells.
    """
    if type(values) is np.ndarray and dtype is None:
        return values
    if not isinstance(values, str | bytes | np.ma.MaskedArray):
        with suppress(Exception):
            return np.asarray(values, dtype=dtype)
    return np.array(None, dtype=object)


def as_numeric_array(values: object, name: str, ndim: int | None = 1, *, whole: bool = False) -> np.ndarray:
    """Return an array-like of numbers as an array with `ndim` axes (None: any); `whole` numbers come back as int64."""
    array = as_array(values)
    if array.dtype.kind == "O":
        with suppress(Exception):
            array = array.astype(np.int64 if whole and all(map(is_integer, array.flat, repeat(-(2**63)))) else float)
    if whole and array.dtype.kind == "f":
        with np.errstate(all="ignore"):  # 2**53 is infinite in half precision
            if np.all(np.abs(array) < 2**53) and np.all(array == np.trunc(array)):
                array = array.astype(np.int64)
    if array.dtype.kind not in ("iu" if whole else "iufb"):
        raise TypeError(f"{name} must hold {'whole ' if whole else ''}numbers only, got {short_repr(values)}; give an array of them.")
    if ndim is not None and array.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} {'axis' if ndim == 1 else 'axes'}, got shape {array.shape}.")
    if whole and array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        raise ValueError(f"{name} must hold whole numbers below 2**63, but one is larger.")
    return array.astype(np.int64, copy=False) if whole else array


def check_generator(rng: object) -> None:
    check_type("rng", rng, np.random.Generator, "a generator of numpy, such as np.random.default_rng()")
