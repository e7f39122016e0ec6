"""Constraints, called rules: public facts that hold between the columns of a row, stated by the user and never read from rows."""

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from skdpsynth._validation import is_real, short_repr
from skdpsynth.domain._kinds import Boolean, ColumnKind, Continuous, Identifier, is_name, list_names, name_repr, plain_value
from skdpsynth.domain._order_constraints import Axis
from skdpsynth.domain._times import Times
from skdpsynth.persistence import savable

_MOST_KEYS = 1 << 62
Columns = Mapping[Any, Any]  # kinds


@dataclass(frozen=True, eq=False)
class AllowedCells:
    """The cells of a column that a condition allows, in the numbers and codes that mechanisms see."""

    low: float = 0.0  # the ends of a range of numbers, which belong to it; unused where `among` is given
    high: float = 0.0
    among: np.ndarray | None = None  # numbers of levels, or single whole numbers, in order; None: the range counts
    missing: bool = False  # whether a cell may be missing

    @property
    def chosen(self) -> np.ndarray:
        return np.empty(0) if self.among is None else self.among

    @property
    def is_missing(self) -> bool:
        return self.missing and self.among is not None and not len(self.among)

    def of(self, values: np.ndarray) -> np.ndarray:
        """Return which numbers of a column are allowed; NaN is a missing cell."""
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
        return np.arange(self.size) >= self.n_levels + len(self.least)


def ends_of(cells: Cells, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and the largest number of each cell; a missing cell gets those of the last bin."""
    bins = np.minimum(codes, len(cells.least) - 1)
    return cells.least[bins], cells.most[bins]


def cells_of_numbers(axis: Axis, first: np.ndarray, last: np.ndarray, nullable: bool) -> Cells:
    """Return cells of bins of numbers, from the first and the last value of each, as `read` gives them."""
    return Cells(0, axis.show(np.asarray(first, dtype=float)), axis.show(np.asarray(last, dtype=float)), nullable)


def cells_of_bins(axis: Axis, edges: np.ndarray, kind: Continuous) -> Cells:
    """Return cells of bins of numbers, each from its edge up to, not with, the next."""
    last = np.ceil(edges[1:]) - 1 if kind.integer else np.nextafter(edges[1:], -np.inf)
    return cells_of_numbers(axis, edges[:-1], np.minimum(last, kind.high), kind.nullable)


def cells_of_levels(n_levels: int, nullable: bool) -> Cells:
    return Cells(n_levels, np.zeros(0), np.zeros(0), nullable)


@savable
@dataclass(frozen=True, eq=False)
class Score:
    """A whole number for each cell of a column."""

    levels: np.ndarray  # that of each level; empty: 0 for all, or numbers
    ranges: tuple = ()  # of (low, high) on the axis, both ends included: 1 within them, else 0
    missing: int = 0  # that of a missing cell

    def of_codes(self, cells: Cells) -> np.ndarray:
        """Return the number of each code; a bin is in a range if all of it is."""
        scores = cells.missing * self.missing
        if len(self.levels):
            scores[: cells.n_levels] = self.levels
        for low, high in self.ranges:
            scores[: len(cells.least)] |= (cells.least >= low) & (cells.most <= high)
        return scores

    def of_cells(self, shown: np.ndarray, missing: np.ndarray) -> np.ndarray:
        """Return the number of each cell: codes of levels, or numbers on the axis."""
        if len(self.levels):
            scores = self.levels.take(shown.astype(np.int64, copy=False), mode="clip")
        elif not self.ranges:
            return missing * self.missing
        else:
            scores = np.any([(shown >= low) & (shown <= high) for low, high in self.ranges], axis=0)
        return np.where(missing, self.missing, scores)


@savable
@dataclass(frozen=True, eq=False)
class AllowedCodes:
    """The tuples of codes of some columns that a rule allows: cells have scores, and the sum of a tuple tells whether it can occur.

    For `Impossible` a cell that it names scores 1, and no sum may be the number of columns. For `MissingTogether` a missing cell scores 1,
    and the sum is 0 or the number of columns. For `Determines` the sum is the place of a tuple of levels in the list of all.
    """

    scores: Mapping[Any, Score]
    sums: np.ndarray  # of bool: whether a tuple with this sum can occur

    def can_occur(self, codes: Mapping[Any, np.ndarray], cells: Mapping[Any, Cells]) -> np.ndarray:
        """Return which tuples of codes of some of the columns are allowed beside some codes of the others."""
        allowed, total = self.sums, np.int64(0)
        for name, score in self.scores.items():
            scores = score.of_codes(cells[name])
            if name in codes:
                total = total + scores[codes[name]]
            else:
                completed = np.zeros(len(allowed), dtype=bool)
                for each in np.unique(scores):
                    completed[: len(allowed) - each] |= allowed[each:]
                allowed = completed
        return allowed[total]

    def holds(self, shown: Mapping[Any, np.ndarray], missing: Mapping[Any, np.ndarray]) -> np.ndarray:
        return self.sums[sum(score.of_cells(shown[name], missing[name]) for name, score in self.scores.items())]


class StatedRule:
    """A public fact that a list of rules states."""

    _word: ClassVar[str]  # in files

    def to_keys(self) -> dict[str, Any]:
        """Return what a file holds of it."""
        facts = {each.name: in_file(getattr(self, each.name)) for each in fields(self)}  # type: ignore[arg-type]
        return {"rule": self._word, **{name: fact for name, fact in facts.items() if fact is not None}}


class Rule(StatedRule, ABC):
    """A fact about several columns of a row."""

    @property
    @abstractmethod
    def columns_named(self) -> tuple:
        """All columns that it is about, each once."""

    @abstractmethod
    def _check(self, columns: Columns, sources: Columns) -> None:
        """Refuse a rule that does not fit the kinds of its columns."""

    def allowed_codes(self, columns: Columns, sources: Columns) -> AllowedCodes | None:
        """Return the tuples that the rule allows by itself, given the kinds of columns; None: all. `sources` are the computed columns."""
        return None


@savable
@dataclass(frozen=True)
class Impossible(Rule):
    """Values that never occur together in a row: structural zeros of a table.

    Parameters
    ----------
    cells : dict
        For each column the values that such a row has in it: a level, a number, a tuple ``(low, high)`` (both ends belong to it; None: no
        end; of dates and times also as text in ISO format), None for a missing cell, or a list of these. A row that meets all of them is
        impossible.

    See Also
    --------
    Determines : A column that follows from others.

    Examples
    --------
    >>> from skdpsynth.domain import Impossible, Schema
    >>> schema = Schema(
    ...     {"age": (0, 99), "job": ["none", "nurse", "pilot"]}, rules=[Impossible({"age": (0, 15), "job": ["nurse", "pilot"]})]
    ... )
    >>> schema.rules[0].columns_named
    ('age', 'job')
    """

    cells: Mapping[Any, Any]
    _word = "impossible"

    def __post_init__(self) -> None:
        if not isinstance(self.cells, Mapping) or not self.cells:
            raise ValueError(f"cells must be a dict of column: what it holds in an impossible row, got {short_repr(self.cells)}.")
        cells = {name: stated if isinstance(stated, list) else [stated] for name, stated in self.cells.items()}
        for name, items in cells.items():
            if not items or any(isinstance(item, tuple) and len(item) != 2 for item in items):
                raise ValueError(
                    f"cells of column {short_repr(name)} must be levels, numbers, (low, high) or None, got {short_repr(self.cells[name])}."
                )
        vars(self).update(cells={name: list(map(plain_value, items)) for name, items in cells.items()})

    @property
    def columns_named(self) -> tuple:
        return tuple(self.cells)

    def to_keys(self) -> dict[str, Any]:
        return {"rule": self._word, "cells": [{"column": in_file(name), "is": in_file(items)} for name, items in self.cells.items()]}

    def _check(self, columns: Columns, sources: Columns) -> None:
        self.allowed_codes(columns, sources)

    def allowed_codes(self, columns: Columns, sources: Columns) -> AllowedCodes:
        scores = {name: _score_of_items(name, columns[name], items) for name, items in self.cells.items()}
        return AllowedCodes(scores, np.arange(len(scores) + 1) < len(scores))


def _score_of_items(name: Hashable, kind: ColumnKind, items: Sequence[Any]) -> Score:
    """Score 1 for the cells of a column that an `Impossible` names, or refuse what the kind does not know."""
    missing = None in items
    if missing and not kind.nullable:
        raise ValueError(f"rules say of column {name_repr(name)} that it is missing, but it is not nullable; leave None out.")
    stated = [level_of(kind, item) for item in items if item is not None]
    if not hasattr(kind, "levels"):
        ranges = tuple(_range(name, kind, item if isinstance(item, tuple) else (item, item)) for item in stated)
        return Score(np.zeros(0, dtype=np.int64), ranges, int(missing))
    if unknown := [item for item in stated if isinstance(item, tuple) or item not in kind.levels]:
        raise ValueError(f"rules must name levels of {name_repr(name)} as in schema (several in a list), got {short_repr(unknown[0])}.")
    return Score(np.array([level in stated for level in kind.levels if stated], dtype=np.int64), (), int(missing))


def level_of(kind: ColumnKind, item: object) -> Any:
    words = (getattr(kind, "words", None) or ()) if isinstance(kind, Boolean) else ()
    if not isinstance(item, bool) and item in words:
        return kind.levels[words.index(item)]
    return item == "true" if isinstance(kind, Boolean) and item in ("true", "false") else item


def _range(name: Hashable, kind: ColumnKind, ends: tuple) -> tuple:
    """Return a range on the axis of a column, with the bounds of the column in place of None."""
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


@savable
@dataclass(frozen=True)
class Inequality(Rule):
    """A column that is at most another, such as the start and the end of a stay. It holds where one of the two is missing.

    For a chain state several: ``Inequality("born", "married"), Inequality("married", "died")``. Times are compared with dates as
    the midnight at their beginning.

    `LatentFactorSynthesizer` models the larger column by its span, how far it lies above the smaller one, so spans keep their size however
    wide the bounds are. That needs two columns of one scale, about which the only other rules are orders, sums and `MissingTogether` (of
    both, if the smaller one is nullable); else the two are drawn in their own bins, and the order alone is kept.

    Parameters
    ----------
    low, high : column
        Two columns of numbers, or of dates and times.
    strict : bool, default=False
        Whether they must differ: of whole numbers, dates and times alone.

    See Also
    --------
    Sum : Columns that add up.

    Examples
    --------
    >>> from skdpsynth.domain import Inequality, Schema
    >>> days = ("2024-01-01", "2024-12-31")
    >>> Schema({"start": days, "end": days}, rules=[Inequality("start", "end")]).rules
    (Inequality(low='start', high='end', strict=False),)
    """

    low: Any
    high: Any
    strict: bool = False
    _word = "inequality"

    def __post_init__(self) -> None:
        check_name("low", self.low)
        check_name("high", self.high)
        if self.low == self.high:
            raise ValueError(f"low and high must be two columns, got {short_repr(self.low)} twice.")
        if not isinstance(self.strict, bool | np.bool_):
            raise ValueError(f"strict must be True or False, got {short_repr(self.strict)}.")
        vars(self).update(strict=bool(self.strict))

    @property
    def columns_named(self) -> tuple:
        return self.low, self.high

    def _check(self, columns: Columns, sources: Columns) -> None:
        low, high = columns[self.low], columns[self.high]
        are_times = isinstance(low, Times) and isinstance(high, Times) and low.family == high.family
        if not are_times and not (isinstance(low, Continuous) and isinstance(high, Continuous)):
            raise ValueError(
                f"Inequality must be between two columns of numbers, or two of dates, of times of day or of durations, got "
                f"{type(low).__name__} and {type(high).__name__}."
            )
        if are_times and (low.zone is None) != (high.zone is None):
            raise ValueError(f"Inequality must be between times that both have a zone or neither, got {list_names(self.columns_named)}.")
        if self.strict and not are_times and not (low.integer and high.integer):
            raise ValueError(
                f"strict must be False for numbers that are not whole, got True for {list_names(self.columns_named)}; say strict=False "
                "(in text <=), or integer=True of both."
            )


@dataclass(frozen=True)
class ListRule(Rule):
    columns: Any
    _least: ClassVar[int] = 2  # columns

    def __post_init__(self) -> None:
        columns = tuple(self.columns) if isinstance(self.columns, list | tuple) else (self.columns,)
        for name in columns:
            check_name("columns", name)
        if len(columns) < self._least or len(set(columns)) < len(columns):
            raise ValueError(f"columns must be a list of at least {self._least}, each once, got {short_repr(self.columns)}.")
        vars(self).update(columns=columns)

    @property
    def columns_named(self) -> tuple:
        return self.columns


@savable
@dataclass(frozen=True)
class MissingTogether(ListRule):
    """Columns whose cells are missing all together in a row, or none of them.

    Parameters
    ----------
    columns : list of columns
        At least two, all nullable.

    See Also
    --------
    Impossible : States about single levels what MissingTogether states about missing cells.

    Examples
    --------
    >>> from skdpsynth.domain import MissingTogether
    >>> MissingTogether(["systolic", "diastolic"]).columns_named
    ('systolic', 'diastolic')
    """

    _word = "missing together"

    def _check(self, columns: Columns, sources: Columns) -> None:
        for name in self.columns:
            if name not in sources and not columns[name].nullable:
                raise ValueError(f"MissingTogether names column {name_repr(name)}, which is not nullable; set nullable=True.")

    def allowed_codes(self, columns: Columns, sources: Columns) -> AllowedCodes | None:
        names = [name for name in self.columns if name not in sources]
        scores = {name: Score(np.zeros(0, dtype=np.int64), missing=1) for name in names}
        return AllowedCodes(scores, np.isin(np.arange(len(names) + 1), (0, len(names)))) if len(names) > 1 else None


@savable
@dataclass(frozen=True)
class Unique(ListRule):
    """A key: no two rows of a sample have the same values in these columns.

    Parameters
    ----------
    columns : column, or list of columns
        Columns of levels, whole numbers, dates or times, none nullable and none in another rule; or an `Identifier`, whose labels are
        unique anyway.

    See Also
    --------
    Identifier : Labels made anew.

    Examples
    --------
    >>> from skdpsynth.domain import Unique
    >>> Unique(["ward", "bed"]).columns_named
    ('ward', 'bed')
    """

    _word, _least = "unique", 1

    def _check(self, columns: Columns, sources: Columns) -> None:
        for name in self.columns:
            kind = columns[name]
            if not isinstance(kind, Identifier) and (
                kind.nullable or (isinstance(kind, Continuous) and not (kind.integer and kind.unit in (None, 1)))
            ):
                raise ValueError(
                    f"Unique must be of whole numbers, dates, times, levels or identifiers that are not nullable, but {name_repr(name)} is "
                    f"{'nullable' if kind.nullable else 'of real numbers, or of multiples'}."
                )
        coded = [columns[name].coded for name in self.columns if columns[name].coded is not None]
        if math.prod(kind.high - kind.low + 1 if isinstance(kind, Continuous) else len(kind.levels) for kind in coded) > _MOST_KEYS:
            raise ValueError(f"Unique must have at most 2**62 possible keys, got more in {list_names(self.columns)}; leave a column out.")


def check_name(parameter: str, name: object) -> None:
    if not is_name(name):
        raise ValueError(f"{parameter} must name columns by words or numbers, got {short_repr(name)}; say their names.")


def in_file(value: object) -> Any:
    return [in_file(item) for item in value] if isinstance(value, tuple | list) else value
