"""Conditions on the cells of a table: checked, and translated to the numbers and codes that mechanisms see."""

import datetime
import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from functools import reduce
from typing import Any

import numpy as np

from skdpsynth._validation import is_real, short_repr
from skdpsynth.domain import (
    AllowedCells,
    Calendar,
    Continuous,
    Determines,
    Ordinal,
    Times,
    axis_of,
    inputs_of,
    list_names,
    name_repr,
    read_moment,
    table_of,
)
from skdpsynth.frames import Cell
from skdpsynth.tables._cells import Codes, is_missing
from skdpsynth.tables._table import TableFormat

_EXAMPLE = "such as {'age': (18, 30), 'sex': 'F', 'income': None}"
_WAYS = "a value, a list of values, a tuple (low, high), or None for missing cells"
_POINTS = 64  # between two numbers that are looked at in a step


def allowed_cells(conditions: object, table: TableFormat) -> dict[Any, AllowedCells]:
    """Return the cells of each column that conditions allow, or refuse, in one sentence, conditions that no cell can meet.

    A range holds on the cells as they come back: in a column of short floats or of whole numbers, those are rounded.
    """
    if not isinstance(conditions, Mapping):
        way = "; rows of which some cells are given are completed by impute(frame)" if hasattr(conditions, "columns") else ""
        raise ValueError(f"conditions must be a dict of column: what it may be, {_EXAMPLE}, got {short_repr(conditions)}{way}.")
    if unknown := [name for name in conditions if name not in table.schema]:
        raise ValueError(
            f"conditions must be on columns of the table, got {list_names(unknown)}; there are {list_names(list(table.schema))}."
        )
    wanted: dict[Any, AllowedCells] = {}
    for name, condition in conditions.items():
        kind, source = table.schema[name], table.schema.sources.get(name)
        if isinstance(source, Determines):
            of_inputs = _through(name, source, _Reader(name, table, is_determined=True).interpret(condition), table)
        elif source is not None:
            raise _computed_error(name, inputs_of(source, table.schema))
        elif kind.coded is None:
            raise ValueError(
                f"conditions must be on columns that are synthesized, but {name_repr(name)} is {type(kind).__name__} in schema, which no "
                "model knows; leave it out."
            )
        else:
            of_inputs = {name: _Reader(name, table).interpret(condition)}
        for given, want in of_inputs.items():
            first = wanted.setdefault(given, want)
            if first is want:
                continue
            # A column of levels may have two conditions, one of them through the column that it determines.
            both = AllowedCells(among=np.intersect1d(first.chosen, want.chosen), missing=first.missing and want.missing)
            if not len(both.chosen) and not both.missing:
                raise ValueError(f"conditions on column {name_repr(given)} and on what it determines leave nothing; widen one of them.")
            wanted[given] = both
    return wanted


def _computed_error(name: Hashable, inputs: tuple) -> ValueError:
    return ValueError(
        f"conditions must be on columns that are not computed, but {name_repr(name)} follows from {list_names(inputs)}; name these."
    )


def _through(name: Hashable, rule: Determines, wanted: AllowedCells, table: TableFormat) -> dict[Any, AllowedCells]:
    """Return the cells of the columns that determine another with which it is one of the wanted."""
    schema = table.schema
    n_levels = [len(schema[each].levels) for each in rule.given]
    targets = table_of(rule, schema).reshape([size + 1 for size in n_levels])
    targets = targets[tuple(slice(size + schema[each].nullable) for size, each in zip(n_levels, rule.given, strict=True))]
    if hasattr(schema[name], "levels"):
        met = np.isin(targets, wanted.chosen) | (wanted.missing & (targets >= len(schema[name].levels)))
    else:
        met = wanted.of(targets)
    met = np.asarray(met)
    sides = [np.atleast_1d(met.any(axis=tuple(each for each in range(met.ndim) if each != place))) for place in range(met.ndim)]
    if not met.any():
        raise ValueError(f"conditions on column {name_repr(name)} must be values that Determines maps to, got none of them; correct it.")
    if not (met == reduce(np.logical_and.outer, sides)).all():
        raise _computed_error(name, rule.given)
    out: dict[Any, AllowedCells] = {}
    for given, size, side in zip(rule.given, n_levels, sides, strict=True):
        want, source = AllowedCells(among=np.flatnonzero(side[:size]), missing=bool(side[size:].any())), schema.sources.get(given)
        out |= {given: want} if source is None else _through(given, source, want, table)
    return out


class _Reader:
    """Reads the condition on one column; the values of one that others determine are those of a public table, within bounds or not."""

    def __init__(self, name: Hashable, table: TableFormat, is_determined: bool = False) -> None:
        self.name, self.kind, self.is_determined = name, table.schema[name], is_determined
        self.coded, self.dtype = self.kind.coded, table.dtypes[list(table.schema).index(name)]
        self.axis: Any = axis_of(self.kind, self.dtype) if isinstance(self.coded, Continuous) else None

    def interpret(self, condition: Cell) -> AllowedCells:
        if isinstance(condition, tuple):
            return self._range(condition)
        is_list = isinstance(condition, Mapping) or (isinstance(condition, Iterable) and not isinstance(condition, str | bytes))
        given: Any = condition if is_list else [condition]
        if isinstance(given, Mapping) or getattr(given, "ndim", 1) != 1:
            raise self._error(_WAYS, short_repr(condition), "write it so")
        cells = list(given)
        if not cells:
            raise self._error(_WAYS, short_repr(condition), "an empty list allows nothing")
        values = [cell for cell in cells if not is_missing(cell)]
        missing = len(values) < len(cells)
        if missing and not self.kind.nullable:
            raise self._error("something that occurs", "missing", "schema says that no cell of it may be missing (nullable=False)")
        if hasattr(self.kind, "levels") or not (values or is_list):
            return AllowedCells(among=np.unique([self._level(value) for value in values]) if values else np.empty(0), missing=missing)
        if not is_list:
            number = self._number(values[0], None)
            if not self.is_determined:
                self._check_within(number, number)
                back = float(self._as_written(np.array([number], dtype=float))[0])
                number = back if back in (float(np.float32(number)), float(np.float16(number))) else number  # as short floats hold it
            return self._span(number, number)
        if not self.coded.integer:
            raise self._error("a value or a range (low, high)", short_repr(condition), "a list of values is for levels and whole numbers")
        numbers = np.unique([self._number(value, None) for value in values]).astype(float)
        if len(numbers) and not self.is_determined:
            self._check_within(numbers[0], numbers[-1])
            if (self._as_written(numbers) != numbers).any():
                raise self._error("values that its dtype can hold", "others", "correct the list")
        return AllowedCells(among=numbers, missing=missing)

    def _error(self, rule: str, got: str, way: str) -> ValueError:
        return ValueError(f"conditions on column {name_repr(self.name)} must be {rule}, got {got}; {way}.")

    def _range(self, condition: tuple) -> AllowedCells:
        if len(condition) != 2:
            raise self._error("a tuple (low, high) for a range", short_repr(condition), "for several values give a list")
        low, high = condition
        if hasattr(self.kind, "levels"):
            if not isinstance(self.kind, Ordinal):
                raise self._error("a value or a list, as its levels have no order", f"a tuple {_range_repr(condition)}", "write a list")
            first = 0 if low is None else self._level(low)
            last = len(self.kind.levels) - 1 if high is None else self._level(high)
            if first > last:
                raise self._error("a range (low, high) in the order of its levels", _range_repr(condition), "swap its ends")
            return AllowedCells(among=np.arange(first, last + 1))
        coded = self.coded
        low = coded.low if low is None else self._number(low, math.ceil)
        high = coded.high if high is None else self._number(high, math.floor)
        if low > high and None not in condition:
            raise self._error("a range (low, high) that holds something", _range_repr(condition), "swap or widen its ends")
        if low > coded.high or high < coded.low:
            raise self._error(self._bounds, _range_repr(condition), "correct the range")
        return self._span(max(low, coded.low), min(high, coded.high))

    @property
    def _bounds(self) -> str:
        return f"within its bounds {_range_repr((self.kind.low, self.kind.high))}"

    def _span(self, low: float, high: float) -> AllowedCells:
        """Return a range of numbers so that the cells that come back, which their dtype may round, lie in it."""
        low, high = (low, high) if self.is_determined else self._range_written(low, high)
        if low > high:
            raise self._error("what its dtype can hold", "what lies between two of its numbers", f"{self.dtype} rounds; widen it")
        return AllowedCells(float(low), float(high))

    def _check_within(self, least: float, most: float) -> None:
        if not self.coded.low <= least <= most <= self.coded.high:
            raise self._error(self._bounds, "a value outside", "correct it")

    def _level(self, value: Cell) -> int:
        levels, codes = self.kind.levels, Codes(self.kind)
        value = value.item() if isinstance(value, np.generic) else value
        with suppress(KeyError, ValueError, TypeError):
            return codes.words[str(value).strip().lower()] if codes.words else levels.index(value)
        few = ", ".join(map(short_repr, levels)) if len(levels) <= 12 else f"one of its {len(levels)} levels in schema_"
        raise self._error("levels of schema", short_repr(value), f"it has {few}")

    def _number(self, value: Cell, toward: Callable[[float], int] | None) -> float:
        """Return a value in the numbers that mechanisms see; the end of a range is made whole by `toward`, a single value must be whole."""
        if isinstance(self.kind, Times):
            return self._units(value, toward)
        value = value.item() if isinstance(value, np.generic) else value
        if not is_real(value) or not math.isfinite(value):
            raise self._error("numbers", short_repr(value), f"write {_WAYS}")
        if not self.kind.integer:
            return float(value)
        if toward is None and value != int(value):
            raise self._error("whole numbers", short_repr(value), "the column is of whole numbers")
        return int(value) if toward is None else toward(value)

    def _units(self, value: Cell, toward: Callable[[float], int] | None) -> int:
        is_calendar, moment, found = isinstance(self.kind, Calendar), None, None
        with suppress(Exception):  # also of the caller's own objects
            moment = read_moment(value, self.kind.form) if is_calendar else None
            found = self.kind.microseconds_of(value)
        if moment is not None and (moment.tzinfo is None) != (self.kind.zone is None):
            way = "write the offset, such as +00:00" if moment.tzinfo is None else "leave the offset out"
            raise self._error("times with a zone as its bounds in schema have one or none", short_repr(str(value)), way)
        if found is None:
            raise self._error(self.kind.example, short_repr(value), "write text in ISO format" if is_calendar else "write such text")
        units, rest = divmod(found, self.kind.microseconds)
        if toward is None and rest:
            raise self._error(f"whole {self.kind.resolution}s", short_repr(str(value)), "give a range")
        return units + (toward is math.ceil and rest > 0) - self.kind.first

    @np.errstate(all="ignore")
    def _as_written(self, numbers: np.ndarray) -> np.ndarray:
        """Return numbers as they come back, where the dtype rounds them: it keeps the order of any two."""
        return np.clip(self.axis.value(self.axis.show(numbers)), self.coded.low, self.coded.high)

    def _range_written(self, low: float, high: float) -> tuple[float, float]:
        """Return the ends of the numbers that come back within a range; in the wrong order if none do."""
        before, after = max(self.coded.low, self._next(low, -1)), min(self.coded.high, self._next(high, 1))
        back = self._as_written(np.array([before, low, high, after], dtype=float))
        # The way keeps the order: if both ends stay and what is next to them stays outside, so does all else.
        if back[1] == low and back[2] == high and (before == low or back[0] < low) and (after == high or back[3] > high):
            return low, high
        beyond = self._first(lambda values: ~(values <= high))
        last = self.coded.high if beyond == np.inf else self._next(beyond, -1) if beyond > self.coded.low else -np.inf
        return self._first(lambda values: values >= low), float(last)

    def _next(self, number: float, step: int) -> float:
        return number + step if self.coded.integer else float(np.nextafter(number, step * np.inf))

    def _first(self, holds: Callable[[np.ndarray], np.ndarray]) -> float:
        """Return the least number for which a rule holds that holds from some number on; infinity if there is none."""
        low, high = float(self.coded.low), float(self.coded.high)
        at_low, at_high = holds(self._as_written(np.array([low, high])))
        if at_low or not at_high:
            return low if at_low else math.inf
        while self._next(low, 1) < high:  # it holds at the high end, and not at the low one
            points = np.linspace(low, high, _POINTS)
            points = np.rint(points) if self.coded.integer else points
            k = int(np.argmax(holds(self._as_written(points))))
            low, high = points[k - 1], points[k]
        return float(high)


def _range_repr(ends: tuple) -> str:
    return "({}, {})".format(*(short_repr(end.isoformat() if isinstance(end, datetime.date) else end) for end in ends))
