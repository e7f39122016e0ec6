"""Classes of raw cells that get one code each: between cuts, or equal to a value."""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Clock:
    """How a column of dates or times becomes numbers: whole units since the lower bound.

    Attributes
    ----------
    first, last : int
        The bounds, in units since 1970.
    microseconds : int
        Of a unit.
    is_date : bool
        Whether the column holds dates, not times to the microsecond.
    """

    first: int
    last: int
    microseconds: int
    is_date: bool


@dataclass(frozen=True, eq=False)
class Cuts:
    """Classes of a column of numbers: first all that is missing, then the numbers that are at least as large as 0, 1, ... of some cuts.

    Attributes
    ----------
    cuts : ndarray of shape (n_classes - 2,)
        Floats in ascending order.
    low, high : float
        Bounds, between which most cuts may lie evenly.
    clock : Clock or None
        Of dates and times.
    is_whole : bool
        Whether the column can hold no other than whole numbers, none of which is NaN.
    """

    cuts: np.ndarray
    low: float
    high: float
    clock: Clock | None = None
    is_whole: bool = False

    @property
    def cells(self) -> np.ndarray:
        """A cell of each class."""
        if self.clock is None:
            return np.concatenate([[np.nan, -np.inf], self.cuts])
        units = np.concatenate([[-1], np.ceil(self.cuts).astype(np.int64)]) + self.clock.first
        return np.append(np.datetime64("NaT", "us"), (units * self.clock.microseconds).view("datetime64[us]"))


@dataclass(frozen=True, eq=False)
class Values:
    """Classes of any column: first all that is none of some values, then each of those.

    Attributes
    ----------
    values : tuple of str, of int, of bool or of float
        Distinct, of the type of the column.
    """

    values: tuple[Any, ...]

    @property
    def cells(self) -> np.ndarray:
        """A cell of each class."""
        cells = np.empty(len(self.values) + 1, dtype=object)
        cells[:] = [None, *self.values]
        return cells


Classes = Cuts | Values
