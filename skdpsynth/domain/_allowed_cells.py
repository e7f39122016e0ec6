"""Cells of one column: the codes that mechanisms see, and those that a condition or a constraint allows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpsynth._validation import is_real, short_repr
from skdpsynth.domain._axes import Axis
from skdpsynth.domain._dates import Times
from skdpsynth.domain._kinds import Boolean, name_repr
from skdpsynth.persistence import savable


@dataclass(frozen=True, eq=False)
class AllowedCells:
    """The cells of a column that a condition allows, in the numbers and codes that mechanisms see."""

    low: float = 0.0  # the ends of a range of numbers, which belong to it; unused where `among` is given
    high: float = 0.0
    among: np.ndarray | None = None  # numbers of levels, or single whole numbers, in order; None: the range counts
    missing: bool = False  # whether a cell may be missing

    @property
    def chosen(self) -> np.ndarray:
        """Return `among`, empty where it is not given."""
        return np.empty(0) if self.among is None else self.among

    @property
    def is_missing(self) -> bool:
        """Whether a cell must be missing."""
        return self.missing and self.among is not None and not len(self.among)

    def of(self, values: np.ndarray) -> np.ndarray:
        """Return which numbers of a column meet it; NaN is a missing cell."""
        met = np.isin(values, self.among) if self.among is not None else (values >= self.low) & (values <= self.high)
        return np.where(np.isnan(values), self.missing, met)


@savable
@dataclass(frozen=True, eq=False)
class Cells:
    """Meaning of the codes of a column."""

    n_levels: int  # 0 for numbers
    least: np.ndarray  # of each bin of numbers, on the axis; empty for levels
    most: np.ndarray
    nullable: bool  # whether a last code stands for a missing cell

    @property
    def size(self) -> int:
        return self.n_levels + len(self.least) + self.nullable

    @property
    def missing(self) -> np.ndarray:
        """Whether each code stands for a missing cell."""
        return np.arange(self.size) >= self.n_levels + len(self.least)


def ends_of(cells: Cells, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and the most of each cell; a missing one has those of the last bin."""
    bins = np.minimum(codes, len(cells.least) - 1)
    return cells.least[bins], cells.most[bins]


def cells_of_numbers(axis: Axis, first: np.ndarray, last: np.ndarray, nullable: bool) -> Cells:
    """Return cells of bins of numbers, from the first and the last value of each, as `read` gives them."""
    return Cells(0, axis.shown(np.asarray(first, dtype=float)), axis.shown(np.asarray(last, dtype=float)), nullable)


def cells_of_levels(n_levels: int, nullable: bool) -> Cells:
    return Cells(n_levels, np.zeros(0), np.zeros(0), nullable)


@savable
@dataclass(frozen=True, eq=False)
class Condition:
    """The cells of a column that an `Impossible` names."""

    levels: tuple  # codes
    ranges: tuple  # of (low, high) on the axis, both ends included
    missing: bool

    def of(self, cells: Cells) -> np.ndarray:
        """Return whether each code meets it; a bin of numbers, if all of it does."""
        met = cells.missing & self.missing
        if cells.n_levels:
            met[list(self.levels)] = True
        for low, high in self.ranges:
            met[: len(cells.least)] |= (cells.least >= low) & (cells.most <= high)
        return met

    def of_values(self, shown: np.ndarray, missing: np.ndarray) -> np.ndarray:
        """Return whether each cell meets it: codes of levels, or numbers on the axis."""
        met = np.isin(shown, self.levels)
        for low, high in self.ranges:
            met |= (shown >= low) & (shown <= high)
        return np.where(missing, self.missing, met)


def condition_of(name: Any, kind: Any, items: Sequence[Any]) -> Condition:
    """Return the cells that an `Impossible` names of a column, or refuse what the kind does not know."""
    missing = None in items
    if missing and not kind.nullable:
        raise ValueError(f"rules say of column {name_repr(name)} that it is missing, but it is not nullable; leave None out.")
    stated = [_level_of(kind, item) for item in items if item is not None]
    if not hasattr(kind, "levels"):
        return Condition((), tuple(_range(name, kind, item if isinstance(item, tuple) else (item, item)) for item in stated), missing)
    if unknown := [item for item in stated if isinstance(item, tuple) or item not in kind.levels]:
        raise ValueError(f"rules must name levels of {name_repr(name)} as in schema (several in a list), got {short_repr(unknown[0])}.")
    return Condition(tuple(kind.levels.index(item) for item in stated), (), missing)


def _level_of(kind: Any, item: Any) -> Any:
    """Return the truth value that a word stands for; anything else as it is."""
    words = (getattr(kind, "words", None) or ()) if isinstance(kind, Boolean) else ()
    if not isinstance(item, bool) and item in words:
        return kind.levels[words.index(item)]
    return item == "true" if isinstance(kind, Boolean) and item in ("true", "false") else item


def _range(name: Any, kind: Any, ends: tuple) -> tuple:
    """Return a range on the axis of a column, with its bounds in place of None."""
    is_time = isinstance(kind, Times)
    takes_numbers = not is_time or kind.family == "duration"
    if not all(end is None or (takes_numbers and is_real(end)) or (is_time and isinstance(end, str)) for end in ends):
        what = "dates or times" if is_time else "numbers"
        raise ValueError(f"rules must give {what} for column {name_repr(name)}, or (low, high) of them, got {short_repr(ends)}.")
    unit = kind.microseconds if is_time else 1
    low, high = (end if end is None else kind.units_of(end) * unit if is_time else float(end) for end in ends)
    first, last = (kind.first * unit, (kind.first + kind.coded.high) * unit) if is_time else (float(kind.low), float(kind.high))
    low, high = first if low is None else low, last if high is None else high
    if low > high or high < first or low > last:
        raise ValueError(f"rules must give low <= high within the bounds of column {name_repr(name)}, got {short_repr(ends)}.")
    return low, high
