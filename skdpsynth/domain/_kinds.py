"""Kinds of columns: numbers within bounds, and levels with or without an order, as users state them."""

import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from skdpsynth._checks import is_real, shown
from skdpsynth.persistence import savable

_Made = TypeVar("_Made")
_MOST_WHOLE = 2.0**53  # whole numbers beyond it are not all floats


@savable
@dataclass(frozen=True)
class Continuous:
    """A column of numbers within public bounds.

    Parameters
    ----------
    low, high : float
        Public bounds, ``low < high``. Values outside are clipped.
    integer : bool, default=None
        Whether the numbers are whole. None: yes, if both bounds are ints.
    nullable : bool, default=False
        Whether cells may be missing. If not, a missing one counts as the midpoint.

    Raises
    ------
    ValueError
        If the bounds are not two finite numbers in order, or not whole where `integer` is true.

    Examples
    --------
    >>> from skdpsynth.domain import Continuous
    >>> Continuous(1, 99, nullable=True)
    Continuous(low=1, high=99, integer=True, nullable=True)
    """

    low: Any
    high: Any
    integer: Any = field(default=None, kw_only=True)
    nullable: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        low, high = _checked_bounds(self.low, self.high)
        if self.integer is not None and not _is_flag(self.integer):
            raise ValueError(f"integer must be None, True or False, got {shown(self.integer)}.")
        integer = isinstance(low, int) and isinstance(high, int) if self.integer is None else bool(self.integer)
        if integer and not (low == int(low) and high == int(high) and max(abs(low), abs(high)) <= _MOST_WHOLE):
            raise ValueError(f"bounds of whole numbers must be whole and at most 2**53, got {_pair(low, high)}; or set integer=False.")
        low, high = (int(low), int(high)) if integer else (float(low), float(high))
        for name, value in (("low", low), ("high", high), ("integer", integer), ("nullable", _flag(self.nullable))):
            object.__setattr__(self, name, value)

    @property
    def midpoint(self) -> float:
        """Where a missing cell goes that may not be missing (whole, if the column is)."""
        middle = self.low / 2 + self.high / 2
        return float(math.floor(middle)) if self.integer else middle


def _checked_bounds(low: Any, high: Any) -> tuple[Any, Any]:
    """Return bounds as plain numbers, finite and in order."""
    if not (is_real(low) and is_real(high)):
        raise ValueError(f"bounds must be two numbers (low, high), got {_pair(low, high)}; they are public facts, never learned from rows.")
    low, high = (bound.item() if hasattr(bound, "item") else bound for bound in (low, high))
    ends = _as_float(low), _as_float(high)
    if not (-math.inf < ends[0] < ends[1] < math.inf and ends[1] - ends[0] < math.inf):
        raise ValueError(f"bounds must be finite with low < high, got {_pair(low, high)}; swap or correct them.")
    return low, high


def _pair(low: Any, high: Any) -> str:
    return f"({shown(low)}, {shown(high)})"


@dataclass(frozen=True)
class _Levels:
    levels: Any
    nullable: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        if isinstance(self.levels, str | bytes | Set | Mapping) or not hasattr(self.levels, "__iter__"):
            raise ValueError(f"levels must be a list, got {shown(self.levels)}; they are public facts, never learned from rows.")
        levels = tuple(level.item() if isinstance(level, np.generic) else level for level in self.levels)
        if strange := [level for level in levels if not _is_level(level)]:
            raise ValueError(
                f"levels must be strings, finite numbers (whole ones of 64 bits) or booleans, got {shown(strange[0])}; for missing cells "
                "set nullable=True."
            )
        if len(levels) < 2:
            raise ValueError(f"levels must be at least 2, got {len(levels)}; leave a constant column out.")
        if len(set(levels)) < len(levels):
            raise ValueError(f"levels must be distinct, but {shown(first_twice(levels))} occurs twice (1, 1.0 and True are equal).")
        object.__setattr__(self, "levels", levels)
        object.__setattr__(self, "nullable", _flag(self.nullable))

    @property
    def n_codes(self) -> int:
        """Number of levels, with that of a missing cell."""
        return len(self.levels) + self.nullable


@savable
class Nominal(_Levels):
    """A column of categories without an order.

    Parameters
    ----------
    levels : list of str, int, float or bool
        All that can occur, at least two: public. A value that is not among them counts as missing, or as the first if not `nullable`.
    nullable : bool, default=False
        Whether cells may be missing.

    Raises
    ------
    ValueError
        If there are fewer than two levels, or equal ones.

    Examples
    --------
    >>> from skdpsynth.domain import Nominal
    >>> Nominal(["red", "green"], nullable=True).n_codes
    3
    """


@savable
class Ordinal(_Levels):
    """A column of categories in order; in pandas and polars it comes back as ordered categories.

    Parameters
    ----------
    levels : list of str, int, float or bool
        All that can occur, from the lowest to the highest, at least two: public. A value that is not among them counts as missing, or as
        the first if not `nullable`.
    nullable : bool, default=False
        Whether cells may be missing.

    Raises
    ------
    ValueError
        If there are fewer than two levels, or equal ones.

    Examples
    --------
    >>> from skdpsynth.domain import Ordinal
    >>> Ordinal(["low", "middle", "high"]).levels
    ('low', 'middle', 'high')
    """


def kind_of(name: Any, value: Any) -> Any:
    """Return the kind that a value of a schema stands for."""
    if isinstance(value, Continuous | Nominal | Ordinal):
        return value
    if isinstance(value, tuple) and len(value) == 2:
        return about(name, lambda: Continuous(*value))
    if not isinstance(value, list):
        raise ValueError(
            f"schema must give a tuple (low, high), a list of levels, Continuous, Ordinal or Nominal for column {shown_name(name)}, got "
            f"{shown(value)}; bounds and levels are public facts, never learned from rows."
        )
    if len(value) == 2 and all(map(is_real, value)) and value[1] - value[0] != 1:
        raise ValueError(
            f"schema of column {shown_name(name)} is a list of two numbers: write a tuple for bounds, {_pair(*value)}, or "
            f"Nominal([{shown(value[0])}, {shown(value[1])}]) for two levels."
        )
    return about(name, lambda: Nominal(value))


def about(name: Any, make: Callable[[], _Made]) -> _Made:
    """Call `make`; say which column an error is about."""
    try:
        return make()
    except ValueError as error:
        raise ValueError(f"schema of column {shown_name(name)}: {error}") from None


def as_nullable(kind: Any) -> Any:
    """Return a kind whose cells may be missing."""
    return replace(kind, nullable=True)


def first_twice(values: Sequence[Any]) -> Any:
    """Return the first value that occurs a second time, which must be there."""
    seen = set()
    for value in values:
        if value in seen:
            break
        seen.add(value)
    return value


def shown_name(name: Any) -> str:
    """Return how a message shows the name of a column, which is public."""
    return f"({', '.join(map(shown_name, name))})" if isinstance(name, tuple) else shown(name)


def listed(names: Sequence[Any], most: int = 5) -> str:
    """Return how a message shows names of columns."""
    return ", ".join(map(shown_name, names[:most])) + (f" and {len(names) - most} more" if len(names) > most else "")


def _is_level(level: Any) -> bool:
    return (
        isinstance(level, str)
        or (isinstance(level, int) and -(2**63) <= level < 2**64)
        or (isinstance(level, float) and math.isfinite(level))
    )


def _as_float(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool | np.bool_ | int | float) and value in (True, False)


def _flag(value: Any) -> bool:
    if not _is_flag(value):
        raise ValueError(f"nullable must be True or False, got {shown(value)}.")
    return bool(value)
