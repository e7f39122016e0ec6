"""Axes: the values that numbers and times have in the caller's table, in which rules compare columns.

A rule must hold for what the caller gets: a date counts from its own lower bound, and a column of 32 bits rounds. All maps are monotone.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpsynth.domain._dates import Times
from skdpsynth.domain._kinds import Continuous
from skdpsynth.domain._steps import ceil_to_step, round_to_step
from skdpsynth.frames import cast, family_of, numpy_dtype, time_of
from skdpsynth.persistence import savable

PER_UNIT = {"D": 86_400_000_000, "h": 3_600_000_000, "m": 60_000_000, "s": 1_000_000, "ms": 1000, "us": 1, "ns": 1}  # microseconds


class _Monotone:
    """What lies beside a value, by maps to the next one that the table can hold."""

    ceil: Any
    floor: Any
    is_whole: Any

    def after(self, t: np.ndarray) -> np.ndarray:
        """Return the least value above t."""
        return self.ceil(t + 1 if self.is_whole else np.nextafter(t, np.inf))

    def before(self, t: np.ndarray) -> np.ndarray:
        """Return the largest value below t."""
        return self.floor(t - 1 if self.is_whole else np.nextafter(t, -np.inf))


@savable
@dataclass(frozen=True)
class NumberAxis(_Monotone):
    """Numbers as floats."""

    kind: Continuous
    dtype: str  # of numpy: that of the column in the caller's table

    @property
    def is_whole(self) -> bool:
        """Whether values are whole numbers in the table."""
        return bool(self.kind.integer) or np.dtype(self.dtype).kind in "iub"

    def shown(self, x: np.ndarray) -> np.ndarray:
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
        """Return values as `read` gives them."""
        return t


@savable
@dataclass(frozen=True)
class TimeAxis(_Monotone):
    """Dates, times of day and durations as whole microseconds; missing ones stand at 0."""

    first: int  # the lower bound, in units of the resolution
    unit: int  # microseconds of the resolution
    step: int  # microseconds that the column of the table can tell apart
    months: int = 0  # that it takes as one, if it tells no days
    half: int = 0  # microseconds after which it goes to the next of them

    is_whole = True

    def shown(self, x: np.ndarray) -> np.ndarray:
        units = np.where(np.isnan(x), 0, x).astype(np.int64) + self.first
        return self.floor(units * self.unit + self.half)

    def floor(self, t: np.ndarray) -> np.ndarray:
        return self._begin(t, 0) if self.months else np.asarray(t) // self.step * self.step

    def ceil(self, t: np.ndarray) -> np.ndarray:
        return self._begin(np.asarray(t) - 1, 1) if self.months else -(-np.asarray(t) // self.step) * self.step

    def _begin(self, t: np.ndarray, later: int) -> np.ndarray:
        """Return when the months that times are in begin, or the ones after them."""
        months = np.asarray(t, dtype=np.int64).view("datetime64[us]").astype("datetime64[M]").astype(np.int64)
        return ((months // self.months + later) * self.months).view("datetime64[M]").astype("datetime64[us]").view(np.int64)

    def value(self, t: np.ndarray) -> np.ndarray:
        return (t // self.unit - self.first).astype(float)


Axis = NumberAxis | TimeAxis


def axis_of(kind: Any, dtype: str | None = None) -> Axis:
    """Return the axis of a column of numbers or times; without a dtype, as if the table could hold every value."""
    if isinstance(kind, Times):
        time = None if dtype is None else time_of(dtype)
        step = max(kind.microseconds, PER_UNIT.get(time[0], 1) if time else 1)
        return TimeAxis(kind.first, kind.microseconds, step, *((0, 0) if time else (kind.months, kind.half)))
    is_number = dtype is not None and not dtype.startswith("category") and family_of(dtype) == "number"
    return NumberAxis(kind, numpy_dtype(dtype).str if is_number else "<f8")  # type: ignore[arg-type]
