"""Constraints, called rules: public facts that hold between the columns of a row, stated by the user and never read from rows."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from skdpsynth._validation import short_repr
from skdpsynth.domain._allowed_cells import condition_of
from skdpsynth.domain._dates import Times
from skdpsynth.domain._kinds import Continuous, Identifier, is_name, list_names, name_repr, plain_value
from skdpsynth.persistence import savable

_MOST_KEYS = 1 << 62
Columns = Mapping[Any, Any]  # kinds


class Rule(ABC):
    """A fact about several columns of a row."""

    _word: ClassVar[str]  # in files

    @property
    @abstractmethod
    def columns_named(self) -> tuple:
        """All columns that it is about, each once."""

    def to_keys(self) -> dict[str, Any]:
        """Return what a file holds of it."""
        return {"rule": self._word, **{each.name: in_file(getattr(self, each.name)) for each in fields(self)}}  # type: ignore[arg-type]

    @abstractmethod
    def _check(self, columns: Columns, sources: Columns) -> None:
        """Refuse a rule that does not fit the kinds of its columns."""


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
        vars(self).update(cells={name: _items(name, stated) for name, stated in self.cells.items()})

    @property
    def columns_named(self) -> tuple:
        return tuple(self.cells)

    def to_keys(self) -> dict[str, Any]:
        return {"rule": self._word, "cells": [{"column": in_file(name), "is": in_file(items)} for name, items in self.cells.items()]}

    def _check(self, columns: Columns, sources: Columns) -> None:
        for name, items in self.cells.items():
            condition_of(name, columns[name], items)


@savable
@dataclass(frozen=True)
class Inequality(Rule):
    """A column that is at most another, such as the start and the end of a stay. It holds where one of the two is missing.

    For a chain state several: ``Inequality("born", "married"), Inequality("married", "died")``. Times are compared with dates as
    the midnight at their beginning.

    `LatentFactorSynthesizer` models the larger column by its span, how far it lies above the smaller one, so spans keep their size however
    wide the bounds are. That needs two columns of one scale, about which the only other rules are orders, sums and `MissingTogether`;
    else the two are drawn in their own bins, and the order alone is kept.

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
    """A rule about a list of columns."""

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
        if n_keys(self.columns, columns) > _MOST_KEYS:
            raise ValueError(f"Unique must have at most 2**62 possible keys, got more in {list_names(self.columns)}; leave a column out.")


def n_keys(names: Sequence[Any], columns: Columns) -> int:
    kinds = (columns[name].coded for name in names if columns[name].coded is not None)
    return math.prod(kind.high - kind.low + 1 if isinstance(kind, Continuous) else len(kind.levels) for kind in kinds)


def check_name(parameter: str, name: Any) -> None:
    if not is_name(name):
        raise ValueError(f"{parameter} must name columns by words or numbers, got {short_repr(name)}; say their names.")


def in_file(value: Any) -> Any:
    """Return a value as files hold it: tuples as lists."""
    return [in_file(item) for item in value] if isinstance(value, tuple | list) else value


def _items(name: Any, stated: Any) -> list:
    """Return the possible values of a cell as a list of levels, numbers, pairs of ends, and None."""
    items = stated if isinstance(stated, list) else [stated]
    if not items or any(isinstance(item, tuple) and len(item) != 2 for item in items):
        raise ValueError(f"cells of column {short_repr(name)} must be levels, numbers, (low, high) or None, got {short_repr(stated)}.")
    return [plain_value(item) for item in items]
