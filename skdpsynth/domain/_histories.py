"""Histories: the time of each row as the gap since the end of the row before, and its end as a length, so that no two rows overlap."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpsynth._validation import short_repr
from skdpsynth.domain._functional_dependencies import value_in
from skdpsynth.domain._kinds import Continuous, Ordinal, Span, as_nullable, list_names, name_repr
from skdpsynth.domain._links import Children
from skdpsynth.domain._order_constraints import NumberAxis, axis_of
from skdpsynth.domain._times import Times


@dataclass(frozen=True)
class Gaps:
    """The map of times and ends of rows to gaps and lengths, which looks at the rows of one parent alone, and its inverse.

    The first gap counts from the lower bound of the times, others from the end of the row before.
    Real rows that overlap count as if one began where the other ends. Where a cell is missing, the row before it counts in its place.
    """

    order: Any  # kinds
    until: Any

    @property
    def apart(self) -> float:
        """The difference of equal times as they are read, as ends count from another bound."""
        return float(self.until.first - self.order.first) if isinstance(self.order, Times) else 0.0

    @property
    def ends(self) -> tuple[float, float, float]:
        """The first and the last time at which rows begin, and the last at which one ends, as times are read."""
        last = float(self.until.coded.high + self.apart)
        return float(self.order.coded.low), min(float(self.order.coded.high), last), last

    @property
    def kinds(self) -> list[Any]:
        """Kinds of gaps and lengths."""
        low, high, last = self.ends
        wholes = {"integer": self.order.coded.integer}
        return [Span(0, high - low, nullable=self.order.nullable, **wholes), Span(0, last - low, nullable=self.until.nullable, **wholes)]

    def encode(self, columns: list[np.ndarray], owner: np.ndarray) -> list[np.ndarray]:
        """Return gaps and lengths of rows that stand in order, those of one parent together."""
        low, high, last = self.ends
        begin, is_first = columns[0], np.arange(len(owner)) == np.searchsorted(owner, owner)
        end = np.fmax(columns[1] + self.apart, begin)
        before = np.where(is_first, low, np.append(low, np.fmax(end, low)[:-1]))
        return [np.clip(begin - before, 0, high - low), np.clip(columns[1] + self.apart - begin, 0, last - low)]

    def decode(self, columns: list[np.ndarray], owner: np.ndarray) -> list[np.ndarray]:
        """Return times and ends: no row begins before the one before it has ended, and all are within their bounds."""
        low, high, last = self.ends
        gaps, lengths = columns
        least, ranks = self.until.coded.low + self.apart, np.arange(len(owner)) - np.searchsorted(owner, owner)
        begin, end, reached = np.empty(len(owner)), np.empty(len(owner)), np.full(owner.max(initial=-1) + 1, low)
        most = np.where(np.append(owner[1:] != owner[:-1], True)[: len(owner)], last, high)  # where others follow, they must have room
        for turn in range(int(ranks.max(initial=-1)) + 1):
            rows = np.flatnonzero(ranks == turn)
            begin[rows] = np.minimum(reached[owner[rows]] + np.nan_to_num(gaps[rows]), high)
            end[rows] = np.maximum(np.minimum(begin[rows] + lengths[rows], most[rows]), least)
            reached[owner[rows]] = np.fmax(begin[rows], end[rows])
        return [np.where(np.isnan(gaps), np.nan, begin), end - self.apart]


def check_order(link: Children, columns: Any) -> None:
    """Refuse an order that its column cannot have."""
    if not isinstance(columns.get(link.order), Continuous | Times | Ordinal):
        raise ValueError(
            f"order must be a column of {short_repr(link.table)} that its schema says is of numbers, times or ordinal levels, got "
            f"{name_repr(link.order)}; correct it, or leave it out."
        )


def gaps_of(link: Children, columns: Any, dtypes: dict[Hashable, str]) -> Gaps:
    """Return the gaps of a link whose rows have ends, by the kinds and dtypes of its table, or refuse columns that cannot have any."""
    order, until = columns.get(link.order), columns.get(link.until)
    named = list_names([link.order, link.until])
    are_numbers = isinstance(order, Continuous) and isinstance(until, Continuous)
    are_times = isinstance(order, Times) and isinstance(until, Times) and (order.family, order.zone) == (until.family, until.zone)
    first, second = (axis_of(columns[name], dtypes.get(name)) for name in (link.order, link.until)) if are_numbers or are_times else (0, 1)
    if isinstance(first, NumberAxis) and isinstance(second, NumberAxis):
        is_one = (first.kind.unit, first.kind.integer) == (second.kind.unit, second.kind.integer)
        is_one &= np.dtype(first.dtype) == np.dtype(second.dtype) or (first.is_whole and second.is_whole)
    else:
        is_one = are_times and all(getattr(first, name) == getattr(second, name) for name in ("unit", "step", "months"))
    if not is_one:
        raise ValueError(f"order and until must be two columns of numbers, or of times, in one unit and dtype, got {named}; convert one.")
    gaps = Gaps(order, until)
    low, high, _ = gaps.ends
    if not max(low, until.coded.low + gaps.apart) <= high or low == high:
        raise ValueError(f"order and until must have bounds between which rows can begin and end, got {named}; correct the bounds.")
    return gaps


def waves_of(link: Children, kind: Any) -> np.ndarray:
    """Return the cells of a grid as they are read, or refuse it."""
    try:
        found = np.array([value_in(as_nullable(kind), value) for value in link.grid])
        low, high = (0, len(kind.levels) - 1) if hasattr(kind, "levels") else (kind.coded.low, kind.coded.high)
        fits = (np.diff(found) > 0).all() and low <= found[0] and found[-1] <= high
    except (TypeError, ValueError):
        fits = False
    if not fits:
        raise ValueError(
            f"grid must have cells of column {name_repr(link.order)}, ascending and as its schema allows, got {short_repr(link.grid)}; "
            "correct it."
        )
    return found
