"""Which numbers of a column come back within a range, where the dtype that they come back in rounds them."""

from typing import Any

import numpy as np

from skdpsynth.domain import Continuous
from skdpsynth.frames import split_columns
from skdpsynth.tables._read import read_column
from skdpsynth.tables._table import TableFormat

_POINTS = 64  # between two numbers that are looked at in a step
_SIGN = np.int64(np.iinfo(np.int64).min)


class Written:
    """The way of a number of a column of numbers or dates to the caller's table and back, which never changes the order of two.

    Parameters
    ----------
    table : TableFormat
    name : column
    """

    def __init__(self, table: TableFormat, name: Any) -> None:
        self.table, self.name, self.kind = table, name, table.schema[name]

    @property
    def dtype(self) -> str:
        """The dtype of the column, as it is called."""
        return self.table.dtypes[list(self.table.schema).index(self.name)]

    @np.errstate(all="ignore")
    def values(self, numbers: np.ndarray) -> np.ndarray:
        """Return numbers as they come back."""
        others = {True: np.zeros(len(numbers)), False: np.zeros(len(numbers), dtype=np.int64)}
        columns = [
            numbers.astype(float) if name == self.name else others[isinstance(kind, Continuous)] + getattr(kind, "low", 0)
            for name, kind in self.table.schema.coded.items()
        ]
        back, raw = split_columns(self.table.fill(columns))
        place = back.columns.index(self.name) if self.table.library != "numpy" else self._place_in_array()
        return read_column(raw[place], self.kind, back.dtypes[place])

    def _place_in_array(self) -> int:
        """Return the place of the column in an array, from which some that do not come back are left out."""
        back = [
            name
            for name, kind in self.table.schema.items()
            if kind.coded or name in self.table.schema.sources or getattr(kind, "comes_back", False)
        ]
        return back.index(self.name)

    @np.errstate(all="ignore")
    def as_it_comes_back(self, number: float) -> float:
        """Return a number as a column of short floats holds it; else itself."""
        back = float(self.values(np.array([number]))[0])
        return back if back in (float(np.float32(number)), float(np.float16(number))) else number

    def range_of(self, low: float, high: float) -> tuple[float, float]:
        """Return the ends of the numbers that come back within a range; in the wrong order if none do."""
        coded = self.kind.coded
        before, after = (max(coded.low, self._next(low, -1)), min(coded.high, self._next(high, 1)))
        back = self.values(np.array([before, low, high, after]))
        # The way keeps the order: if both ends stay and what is next to them stays outside, so does all else.
        if back[1] == low and back[2] == high and (before == low or back[0] < low) and (after == high or back[3] > high):
            return low, high
        return self._first(lambda values: values >= low), self._last(lambda values: values <= high)

    def _next(self, number: float, step: int) -> float:
        return number + step if self.kind.coded.integer else float(np.nextafter(number, step * np.inf))

    def _first(self, holds: Any) -> float:
        """Return the least number for which a rule holds that holds from some number on; beyond the bounds if there is none."""
        coded = self.kind.coded
        first, last = (int(number) for number in self._keys(np.array([coded.low, coded.high], dtype=float)))
        if not holds(self.values(np.array([coded.high]))).all():
            return float("inf")
        while first < last:
            # In Python's whole numbers: between the floats -1e6 and 1e6 there are more floats than an int64 can count.
            keys = [first + (last - first) * point // (_POINTS - 1) for point in range(_POINTS)]
            found = holds(self.values(self._numbers(np.array(keys))))
            k = int(np.argmax(found))  # at the last it holds
            first, last = (keys[k - 1] + 1 if k else first), keys[k]
        return float(self._numbers(np.array([first]))[0])

    def _last(self, holds: Any) -> float:
        """Return the largest number for which a rule holds that holds up to some number; below the bounds if there is none."""
        coded = self.kind.coded
        if holds(self.values(np.array([coded.high]))).all():
            return float(coded.high)
        beyond = self._first(lambda values: ~holds(values))
        return self._next(beyond, -1) if beyond > coded.low else float("-inf")

    def _keys(self, numbers: np.ndarray) -> np.ndarray:
        """Return whole numbers in the order of numbers, one after the other: of floats, by their bits."""
        if self.kind.coded.integer:
            return numbers.astype(np.int64)
        bits = (numbers + 0.0).view(np.int64)
        return np.where(bits >= 0, bits, _SIGN - bits)

    def _numbers(self, keys: np.ndarray) -> np.ndarray:
        if self.kind.coded.integer:
            return keys.astype(float)
        return np.where(keys >= 0, keys, _SIGN - keys).view(float)
