"""What the values of a schema stand for: kinds, and their short forms."""

import datetime
from collections.abc import Mapping
from typing import Any

import numpy as np

from skdpsynth._validation import is_real, short_repr
from skdpsynth.domain._dates import Date, DateTime
from skdpsynth.domain._kinds import Continuous, Kind, Nominal, bounds_repr, name_column_in_errors, name_repr

_DAY = len("2020-01-31")


def kind_of(name: Any, value: Any) -> Any:
    """Return the kind that a value of a schema stands for."""
    if isinstance(value, Kind):
        return value
    if isinstance(value, type) and issubclass(value, Kind):
        raise ValueError(f"schema of column {name_repr(name)} must be a kind with its facts, got the class; call {value.__name__}(...).")
    if isinstance(value, tuple) and len(value) == 2:
        return name_column_in_errors(name, lambda: _of_bounds(*value))
    if not isinstance(value, list):
        raise ValueError(
            f"schema must give a tuple (low, high), a list of levels, or a kind such as Continuous, Ordinal, Nominal, Date, DateTime or "
            f"Identifier for column {name_repr(name)}, got {short_repr(value)}; bounds and levels are public facts, never learned from rows."
            + _hint(name, value)
        )
    if value and all(isinstance(item, Mapping) for item in value):
        raise ValueError(f"schema of column {name_repr(name)} is a list of dicts, and levels are words or numbers.{_hint(name, value)}")
    if len(value) == 2 and all(map(is_real, value)) and value[1] - value[0] != 1:
        raise ValueError(
            f"schema of column {name_repr(name)} is a list of two numbers: write a tuple for bounds, {bounds_repr(*value)}, or "
            f"Nominal([{short_repr(value[0])}, {short_repr(value[1])}]) for two levels."
        )
    return name_column_in_errors(name, lambda: Nominal(value))


def _hint(name: Any, value: Any) -> str:
    """What to say to someone who gives metadata of SDV, or what a file of a schema parses to."""
    if name == "columns" and isinstance(value, list):
        return " If this is what a file of a schema holds, read it by Schema.from_json or Schema.from_yaml."
    if name in ("columns", "tables") and isinstance(value, Mapping):
        return " If this is metadata of SDV, read it by Schema.from_sdv."
    return ""


def _of_bounds(low: Any, high: Any) -> Any:
    if not (_is_time(low) or _is_time(high)):
        return Continuous(low, high)
    return Date(low, high) if _is_day(low) and _is_day(high) else DateTime(low, high)


def _is_time(bound: Any) -> bool:
    return isinstance(bound, datetime.date | np.datetime64 | str)


def _is_day(bound: Any) -> bool:
    """Whether a bound is a day by its type, or as it is written: midnight is none."""
    if isinstance(bound, str):
        return len(bound) == _DAY
    if isinstance(bound, np.datetime64):
        return np.datetime_data(bound.dtype)[0] in ("Y", "M", "W", "D")
    return isinstance(bound, datetime.date) and not isinstance(bound, datetime.datetime)
