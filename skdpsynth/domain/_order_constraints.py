"""Order constraints: the axes on which columns are compared, and the rows that keep inequalities and sums between them.

A rule must hold for values as they stand in the caller's table: a date counts from its own lower bound, and a column of 32 bits rounds.
An axis holds these values. All its maps are monotone.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdpsynth.domain._kinds import Continuous, ceil_to_step, round_to_step
from skdpsynth.domain._times import HALF, Times
from skdpsynth.frames import cast, parse_dtype
from skdpsynth.persistence import savable

PER_UNIT = {"D": 86_400_000_000, "h": 3_600_000_000, "m": 60_000_000, "s": 1_000_000, "ms": 1000, "us": 1, "ns": 1}  # microseconds
Columns = Mapping[Any, np.ndarray]


@savable
@dataclass(frozen=True)
class NumberAxis:
    kind: Continuous
    dtype: str  # of numpy: that of the column in the caller's table

    @property
    def is_whole(self) -> bool:
        return bool(self.kind.integer) or np.dtype(self.dtype).kind in "iub"

    def show(self, x: np.ndarray) -> np.ndarray:
        """Return values of `read` as they stand in the table; NaN stays."""
        whole = round_to_step(np.rint(x) if self.kind.integer else np.asarray(x, dtype=float), self.kind)
        in_table = cast(whole, np.dtype(self.dtype), self.kind.low, self.kind.high).astype(float)
        return np.where(np.isnan(x), np.nan, in_table)

    def ceil(self, t: np.ndarray) -> np.ndarray:
        """Return the least value at or above t that the table can hold."""
        t = np.ceil(t) if self.is_whole else np.asarray(t, dtype=float)
        t = t if self.kind.unit is None else ceil_to_step(t, self.kind.unit)
        if np.dtype(self.dtype).kind != "f" or np.dtype(self.dtype).itemsize >= 8:
            return t
        near = t.astype(self.dtype)
        return np.where(near.astype(float) < t, np.nextafter(near, np.dtype(self.dtype).type(np.inf)), near).astype(float)

    def floor(self, t: np.ndarray) -> np.ndarray:
        """Return the largest value at or below t that the table can hold."""
        return -self.ceil(-np.asarray(t, dtype=float))

    def value(self, t: np.ndarray) -> np.ndarray:
        return t


@savable
@dataclass(frozen=True)
class TimeAxis:
    """Dates, times of day and durations as whole microseconds; missing ones stand at 0."""

    first: int  # the lower bound, in units of the resolution
    unit: int  # microseconds of the resolution
    step: int  # microseconds that the column of the table can tell apart
    months: int = 0  # that it takes as one, if it tells no days

    is_whole = True

    def show(self, x: np.ndarray) -> np.ndarray:
        units = np.where(np.isnan(x), 0, x).astype(np.int64) + self.first
        return self.floor(units * self.unit + HALF.get(self.months, 0))

    def floor(self, t: np.ndarray) -> np.ndarray:
        return self._begin(t, 0) if self.months else np.asarray(t) // self.step * self.step

    def ceil(self, t: np.ndarray) -> np.ndarray:
        return self._begin(np.asarray(t) - 1, 1) if self.months else -(-np.asarray(t) // self.step) * self.step

    def _begin(self, t: np.ndarray, later: int) -> np.ndarray:
        months = np.asarray(t, dtype=np.int64).view("datetime64[us]").astype("datetime64[M]").astype(np.int64)
        return ((months // self.months + later) * self.months).view("datetime64[M]").astype("datetime64[us]").view(np.int64)

    def value(self, t: np.ndarray) -> np.ndarray:
        return (t // self.unit - self.first).astype(float)


Axis = NumberAxis | TimeAxis


def axis_of(kind: Continuous | Times, dtype: str | None = None) -> Axis:
    """Return the axis of a column of numbers or times; without a dtype, as if the table could hold every value."""
    if isinstance(kind, Times):
        time = None if dtype is None else parse_dtype(dtype).time
        step = max(kind.microseconds, PER_UNIT.get(time[0], 1) if time else 1)
        return TimeAxis(kind.first, kind.microseconds, step, 0 if time else kind.months)
    number = None if dtype is None else parse_dtype(dtype).number
    return NumberAxis(kind, "<f8" if number is None else number.str)


def axes_of(columns: Mapping[Any, Any], dtypes: Mapping[Any, str] | None = None) -> dict[Any, Axis]:
    stated = {name: kind for name, kind in columns.items() if isinstance(kind, Continuous | Times) and kind.bounds is None}
    return {name: axis_of(kind, (dtypes or {}).get(name)) for name, kind in stated.items()}


@savable
@dataclass(frozen=True, eq=False)
class Orders:
    """Inequalities between columns, and at most one sum of them within bounds. Missing cells bind nothing. Values are those of the axes.

    Every step is a monotone map of the values before it, so the least solution is found from the front and the largest from the back.
    Solutions lie between both, and there are some if no least value is above the largest that its column can have. The sums of solutions
    fill the interval between those of the least and the largest one, as far as the steps of the columns allow: going from the largest to
    the least, one column after the other in their order, stays among solutions.
    """

    columns: tuple  # each after those that are at most as large
    edges: tuple  # of (low, high, strict)
    axes: Mapping[Any, Axis]
    total: Any = None  # (columns, low, high): what the columns must sum to

    def only(self, are_chosen: Callable[[set], bool]) -> "Orders":
        edges = tuple(edge for edge in self.edges if are_chosen({*edge[:2]}))
        total = self.total if self.total and are_chosen({*self.total[0]}) else None
        compared = {name for edge in edges for name in edge[:2]} | {*(total[0] if total else ())}
        return replace(self, columns=tuple(name for name in self.columns if name in compared), edges=edges, total=total)

    def _solution(self, ends: Columns, missing: Columns, way: int) -> dict[Any, np.ndarray]:
        """Return the least solution from the least value of each cell (`way` 1), or the largest from the largest (-1)."""
        solution = dict(ends)
        for name in self.columns[::way]:
            solution[name] = self._end(name, solution, solution[name], missing, way)
        return solution

    def _end(self, name: Hashable, x: Columns, end: np.ndarray, missing: Columns, way: int) -> np.ndarray:
        """Return the least value that smaller columns leave (`way` 1), or the largest that larger ones do (-1)."""
        reach, farther = (self.axes[name].ceil, np.maximum) if way > 0 else (self.axes[name].floor, np.minimum)
        for low, high, strict in self.edges:
            here, other = (high, low)[::way]
            if here == name:
                end = np.where(missing[other], end, farther(end, reach(x[other] + way if strict else x[other])))
        return end

    def can_hold(self, least: Columns, most: Columns, missing: Columns) -> np.ndarray:
        """Return whether values between the least and the most of each cell can keep all of it."""
        low = self._solution(least, missing, 1)
        holds = np.ones(np.shape(next(iter(least.values()))), dtype=bool)
        for name in self.columns:
            holds &= (low[name] <= most[name]) | missing[name]
        if self.total is not None:
            _, bottom, top = self.total
            high = self._solution(most, missing, -1)
            holds &= self._lacks_part(missing) | ((self._sum(low) <= top) & (self._sum(high) >= bottom))
        return holds

    def holds(self, x: Columns, missing: Columns) -> np.ndarray:
        kept = np.ones(len(next(iter(x.values()))), dtype=bool)
        for first, second, strict in self.edges:
            kept &= missing[first] | missing[second] | (x[first] < x[second] if strict else x[first] <= x[second])
        if self.total is not None:
            _, bottom, top = self.total
            kept &= self._lacks_part(missing) | ((self._sum(x) >= bottom) & (self._sum(x) <= top))
        return kept

    def repair(self, x: Columns, least: Columns, most: Columns, missing: Columns) -> dict[Any, np.ndarray]:
        """Move rows to near ones that keep all of it, between the least and the most of each cell, where that can be."""
        low, high, x = self._solution(least, missing, 1), self._solution(most, missing, -1), dict(x)
        for name in self.columns:
            x[name] = np.minimum(np.maximum(self._end(name, x, low[name], missing, 1), x[name]), high[name])
        return self._with_sum(x, low, high, missing)

    def solve(self, least: Columns, most: Columns, missing: Columns, rng: np.random.Generator) -> dict[Any, np.ndarray]:
        """Draw rows that keep all of it, where that can be: each number uniform in what those before it leave."""
        low, high, x = self._solution(least, missing, 1), self._solution(most, missing, -1), dict(least)
        for name in self.columns:
            start = self._end(name, x, low[name], missing, 1)
            drawn = start + (high[name] - start) * rng.random(len(start))
            drawn = np.rint(drawn) if self.axes[name].is_whole else drawn
            x[name] = np.minimum(np.maximum(self.axes[name].floor(drawn), start), np.maximum(high[name], start))
        return self._with_sum(x, low, high, missing)

    def _with_sum(self, x: dict[Any, np.ndarray], low: Columns, high: Columns, missing: Columns) -> dict[Any, np.ndarray]:
        """Move the sum within its bounds, one column after the other."""
        if self.total is None:
            return x
        names, bottom, top = self.total
        gone = self._lacks_part(missing)
        for way, bound, ends in ((1, top, low), (-1, bottom, high)):  # down, then up
            for name in self.columns[::way]:
                excess = np.where(gone, 0.0, np.maximum(way * (self._sum(x) - bound), 0.0))
                end, axis = self._end(name, x, ends[name], missing, way), self.axes[name]
                if name in names:
                    moved = np.maximum(axis.floor(x[name] - excess), end) if way > 0 else np.minimum(axis.ceil(x[name] + excess), end)
                    x[name] = np.where(excess > 0, moved, x[name])
                elif self._reaches(name, names) if way > 0 else any(self._reaches(each, (name,)) for each in names):
                    x[name] = np.where(excess > 0, end, x[name])  # it must make room
        return x

    def _reaches(self, name: Hashable, goals: Sequence[Any]) -> bool:
        return any(first == name and (second in goals or self._reaches(second, goals)) for first, second, _ in self.edges)

    def _sum(self, x: Columns) -> np.ndarray:
        return np.sum([x[name] for name in self.total[0]], axis=0)

    def _lacks_part(self, missing: Columns) -> np.ndarray:
        return np.any([missing[name] for name in self.total[0]], axis=0)


def in_order(columns: Sequence[Any], edges: Sequence[tuple]) -> tuple:
    """Return columns, each after those that are at most as large; fewer, if inequalities go round in a circle."""
    ordered: list[Any] = []
    while True:
        free = [name for name in columns if name not in ordered and all(first in ordered for first, second, _ in edges if second == name)]
        if not free:
            return tuple(ordered)
        ordered += free
