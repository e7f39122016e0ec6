"""Histories: how the times of the rows of a parent are modeled, and how sampled ones come back in order."""

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from skdpsynth._validation import short_repr
from skdpsynth.domain._functional_dependencies import value_in
from skdpsynth.domain._kinds import Continuous, Kind, Ordinal, Span, as_nullable, ends_of_cells, list_names, name_repr
from skdpsynth.domain._links import Children
from skdpsynth.domain._order_constraints import axis_of
from skdpsynth.domain._times import Times

Columns: TypeAlias = dict[Any, np.ndarray]


def ranks_within(owner: np.ndarray) -> np.ndarray:
    """Return how many rows of the same owner stand before each row; those of one owner stand together, owners in order."""
    return np.arange(len(owner)) - np.searchsorted(owner, owner)


class NoHistory:
    """Columns that are modeled as they are, of rows in any order."""

    def kinds(self, stated: Mapping[Any, Any]) -> dict[Any, Any]:
        """Return the kinds of what is modeled, in the order of the columns."""
        return dict(stated)

    def encode(self, columns: Columns, owner: np.ndarray) -> Columns:
        """Return what is modeled of rows that stand in order, those of one owner together."""
        return columns

    def decode(self, columns: Columns, owner: np.ndarray) -> Columns:
        """Return columns as they are written, in order, of what is modeled and of what else is known of each row."""
        return columns


@dataclass(frozen=True)
class Sorted(NoHistory):
    """Times that are modeled as they are."""

    order: Any

    def decode(self, columns: Columns, owner: np.ndarray) -> Columns:
        order = np.lexsort((columns[self.order], owner))
        return {name: cells[order] for name, cells in columns.items()}


@dataclass(frozen=True)
class Waves(NoHistory):
    """Times that are public, and not modeled."""

    order: Any
    cells: np.ndarray  # as they are read

    def kinds(self, stated: Mapping[Any, Any]) -> dict[Any, Any]:
        return {name: kind for name, kind in stated.items() if name != self.order}

    def encode(self, columns: Columns, owner: np.ndarray) -> Columns:
        return self.kinds(columns)

    def decode(self, columns: Columns, owner: np.ndarray) -> Columns:
        return columns | {self.order: self.cells[ranks_within(owner)]}


@dataclass(frozen=True)
class Gaps(NoHistory):
    """Times as the gap since the end of the row before, and ends as lengths, so that no two rows of one parent overlap.

    The first gap counts from the lower bound of the times. Real rows that overlap count as if one began where the other ends. Where a cell
    is missing, the row before it counts in its place.
    """

    columns: tuple[Any, Any]
    spans: tuple[Span, Span]  # the kinds of gaps and of lengths
    low: float  # the first time at which a row begins, as times of rows are read
    high: float  # the last one
    least: float  # the first time at which a row ends
    last: float  # the last one
    apart: float  # the difference of equal times as they are read, as ends count from another bound

    def kinds(self, stated: Mapping[Any, Any]) -> dict[Any, Any]:
        return {**stated, **dict(zip(self.columns, self.spans, strict=True))}

    def encode(self, columns: Columns, owner: np.ndarray) -> Columns:
        begin, end = columns[self.columns[0]], columns[self.columns[1]] + self.apart
        reached = np.append(self.low, np.fmax(np.fmax(end, begin), self.low)[:-1])[: len(owner)]
        reached = np.where(ranks_within(owner) == 0, self.low, reached)
        lengths = begin - reached, end - np.where(np.isnan(begin), reached, begin)
        return columns | {name: np.clip(each, 0, span.high) for name, each, span in zip(self.columns, lengths, self.spans, strict=True)}

    def decode(self, columns: Columns, owner: np.ndarray) -> Columns:
        gaps, lengths = (columns[name] for name in self.columns)
        begin, end, reached = np.empty(len(owner)), np.empty(len(owner)), np.full(owner.max(initial=-1) + 1, self.low)
        is_last, ranks = np.append(owner[1:] != owner[:-1], True)[: len(owner)], ranks_within(owner)
        most = np.where(is_last, self.last, self.high)  # where others follow, they must have room
        for turn in range(int(ranks.max(initial=-1)) + 1):
            rows = np.flatnonzero(ranks == turn)
            begin[rows] = np.minimum(reached[owner[rows]] + np.nan_to_num(gaps[rows]), self.high)
            end[rows] = np.maximum(np.minimum(begin[rows] + lengths[rows], most[rows]), self.least)
            reached[owner[rows]] = np.fmax(begin[rows], end[rows])
        return columns | dict(zip(self.columns, (np.where(np.isnan(gaps), np.nan, begin), end - self.apart), strict=True))


def history_of(link: Children | None, columns: Mapping[Any, Any], dtypes: Mapping[Any, str]) -> NoHistory:
    """Return the history of a table by its link, kinds and dtypes, or refuse columns that cannot have one."""
    if link is None or link.order is None:
        return NoHistory()
    kind = columns.get(link.order)
    if not isinstance(kind, Continuous | Times | Ordinal):
        raise ValueError(
            f"order must be a column of {short_repr(link.table)} that its schema says is of numbers, times or ordinal levels, got "
            f"{name_repr(link.order)}; correct it, or leave it out."
        )
    if link.grid is not None:
        return Waves(link.order, _read_grid(link, kind))
    return Sorted(link.order) if link.until is None else _gaps_of(link, kind, columns.get(link.until), dtypes)


def _read_grid(link: Children, kind: Kind) -> np.ndarray:
    with suppress(TypeError, ValueError):  # of what is no cell of the column
        found, (low, high) = np.array([value_in(as_nullable(kind), value) for value in link.grid]), ends_of_cells(kind)
        if (np.diff(found) > 0).all() and low <= found[0] and found[-1] <= high:
            return found
    told = f"grid must have cells of column {name_repr(link.order)}, ascending and as its schema allows"
    raise ValueError(f"{told}, got {short_repr(link.grid)}; correct it.")


def _gaps_of(link: Children, order: Kind, until: Kind | None, dtypes: Mapping[Any, str]) -> Gaps:
    names = link.order, link.until
    if not isinstance(until, Continuous | Times) or _scale(order, dtypes.get(names[0])) != _scale(until, dtypes.get(names[1])):
        raise ValueError(
            f"order and until must be two columns of numbers, or of times, in one unit and dtype, got {list_names(names)}; convert one."
        )
    apart = float(until.first - order.first) if isinstance(order, Times) else 0.0
    low, least, last = float(order.coded.low), until.coded.low + apart, float(until.coded.high + apart)
    high, whole = min(float(order.coded.high), last), order.coded.integer
    if not max(low, least) <= high or low == high:
        told = "order and until must have bounds between which rows can begin and end"
        raise ValueError(f"{told}, got {list_names(names)}; correct the bounds.")
    longest = last - low if link.longest is None else min(last - low, link.longest)
    longest = max(math.floor(longest), 1) if whole else longest
    spans = (Span(0, most, integer=whole, nullable=kind.nullable) for most, kind in ((high - low, order), (longest, until)))
    return Gaps(names, tuple(spans), low, high, least, last, apart)  # type: ignore[arg-type]


def _scale(kind: Kind, dtype: str | None) -> tuple:
    """Return what two columns must share whose differences are exact in the table."""
    if isinstance(kind, Times):
        axis: Any = axis_of(kind, dtype)
        return kind.family, kind.zone, axis.unit, axis.step, axis.months
    if isinstance(kind, Continuous):
        axis = axis_of(kind, dtype)
        return kind.unit, kind.integer, axis.is_whole or np.dtype(axis.dtype)
    return ()
