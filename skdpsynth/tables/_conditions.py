"""Conditions on the cells of a table, as a caller states them: checked, and in the numbers and codes that mechanisms see."""

import datetime
import math
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any

import numpy as np

from skdpsynth._validation import is_real, short_repr
from skdpsynth.domain import AllowedCells, Determines, Ordinal, Times, inputs_of, list_names, name_repr, read_moment, table_of
from skdpsynth.tables._output_range import Written
from skdpsynth.tables._table import TableFormat

_EXAMPLE = "such as {'age': (18, 30), 'sex': 'F', 'income': None}"
_WAYS = "a value, a list of values, a tuple (low, high), or None for missing cells"


def allowed_cells(conditions: Any, table: TableFormat) -> dict[Any, AllowedCells]:
    """Return what conditions want of each column; refuse, in one sentence, what no cell can be.

    Parameters
    ----------
    conditions : dict of column to value, list, tuple or None
    table : TableFormat
        With a schema. A range holds on the cells as they come back: in a column of short floats or of whole numbers, those are rounded.

    Returns
    -------
    wanted : dict of column to Wanted
    """
    if not isinstance(conditions, Mapping):
        way = "; rows of which some cells are given are completed by impute(frame)" if hasattr(conditions, "columns") else ""
        raise ValueError(f"conditions must be a dict of column: what it may be, {_EXAMPLE}, got {short_repr(conditions)}{way}.")
    unknown = [name for name in conditions if name not in table.schema]
    if unknown:
        raise ValueError(
            f"conditions must be on columns of the table, got {list_names(unknown)}; there are {list_names(list(table.schema))}."
        )
    wanted: dict[Any, AllowedCells] = {}
    for name, condition in conditions.items():
        for given, want in _of_inputs(name, condition, table).items():
            wanted[given] = want if given not in wanted else _intersect(given, wanted[given], want)
    return wanted


def _of_inputs(name: Any, condition: Any, table: TableFormat) -> dict[Any, AllowedCells]:
    """Return what a condition wants of the columns that mechanisms see: of a column that others determine, what it wants of these."""
    kind, source = table.schema[name], table.schema.sources.get(name)
    if isinstance(source, Determines):
        return _through(name, source, _TargetReader(name, table).wanted(condition), table)
    if source is not None:
        inputs = list_names(inputs_of(name, source, table.schema))
        raise ValueError(f"conditions must be on columns that are not computed, but {name_repr(name)} follows from {inputs}; name these.")
    if kind.coded is None:
        raise ValueError(
            f"conditions must be on columns that are synthesized, but {name_repr(name)} is {type(kind).__name__} in schema, which no "
            "model knows; leave it out."
        )
    return {name: _Reader(name, table).wanted(condition)}


def _through(name: Any, rule: Determines, wanted: AllowedCells, table: TableFormat) -> dict[Any, AllowedCells]:
    """Return what the columns that determine another must be for it to be what is wanted."""
    schema = table.schema
    targets = table_of(rule, schema).reshape([len(schema[each].levels) + 1 for each in rule.given])
    targets = targets[tuple(slice(len(schema[each].levels) + schema[each].nullable) for each in rule.given)]
    if hasattr(schema[name], "levels"):
        met = np.isin(targets, wanted.chosen) | (wanted.missing & (targets >= len(schema[name].levels)))
    else:
        held = (targets >= wanted.low) & (targets <= wanted.high) if wanted.among is None else np.isin(targets, wanted.among)
        met = np.where(np.isnan(targets), wanted.missing, held)
    met = np.asarray(met)
    sides = [np.atleast_1d(met.any(axis=tuple(each for each in range(met.ndim) if each != place))) for place in range(met.ndim)]
    if not met.any():
        raise ValueError(f"conditions on column {name_repr(name)} must be values that Determines maps to, got none of them; correct it.")
    if not (met == reduce(np.logical_and.outer, sides)).all():
        raise ValueError(
            f"conditions must be on columns that are not computed, but {name_repr(name)} follows from {list_names(rule.given)}; name these."
        )
    out: dict[Any, AllowedCells] = {}
    for given, side in zip(rule.given, sides, strict=True):
        n_levels = len(schema[given].levels)
        want = AllowedCells(among=np.flatnonzero(side[:n_levels]), missing=bool(side[n_levels:].any()))
        source = schema.sources.get(given)
        out |= {given: want} if source is None else _through(given, source, want, table)
    return out


def _intersect(name: Any, first: AllowedCells, second: AllowedCells) -> AllowedCells:
    """Return what two conditions want of a column of levels, one of them by what it determines."""
    both = AllowedCells(among=np.intersect1d(first.chosen, second.chosen), missing=first.missing and second.missing)
    if not len(both.chosen) and not both.missing:
        raise ValueError(f"conditions on column {name_repr(name)} and on what it determines leave nothing; widen one of them.")
    return both


class _Reader:
    """Reads the condition on one column."""

    def __init__(self, name: Any, table: TableFormat) -> None:
        self.name, self.table, self.kind = name, table, table.schema[name]

    def wanted(self, condition: Any) -> AllowedCells:
        if is_missing(condition):
            self._check_nullable()
            return AllowedCells(among=np.empty(0), missing=True)
        if isinstance(condition, tuple):
            return self._range(condition)
        if isinstance(condition, Mapping) or (isinstance(condition, Iterable) and not isinstance(condition, str | bytes)):
            return self._list(condition)
        return self._list([condition], is_single=True)

    def _refuse(self, rule: str, got: str, way: str) -> ValueError:
        return ValueError(f"conditions on column {name_repr(self.name)} must be {rule}, got {got}; {way}.")

    def _check_nullable(self) -> None:
        if not self.kind.nullable:
            raise self._refuse("something that occurs", "missing", "schema says that no cell of it may be missing (nullable=False)")

    def _list(self, condition: Any, is_single: bool = False) -> AllowedCells:
        if isinstance(condition, Mapping) or getattr(condition, "ndim", 1) != 1:
            raise self._refuse(_WAYS, short_repr(condition), "write it so")
        cells = list(condition)
        if not cells:
            raise self._refuse(_WAYS, short_repr(condition), "an empty list allows nothing")
        values = [cell for cell in cells if not is_missing(cell)]
        if len(values) < len(cells):
            self._check_nullable()
        if hasattr(self.kind, "levels"):
            among = np.unique([self._level(value) for value in values]) if values else np.empty(0)
            return AllowedCells(among=among, missing=len(values) < len(cells))
        if is_single:
            return self._single(self._number(values[0], None))
        if not self.kind.coded.integer:
            raise self._refuse("a value or a range (low, high)", short_repr(condition), "a list of values is for levels and whole numbers")
        numbers = np.unique([self._number(value, None) for value in values]).astype(float)
        self._check_kept(numbers)
        return AllowedCells(among=numbers, missing=len(values) < len(cells))

    def _range(self, condition: tuple) -> AllowedCells:
        if len(condition) != 2:
            raise self._refuse("a tuple (low, high) for a range", short_repr(condition), "for several values give a list")
        if hasattr(self.kind, "levels"):
            return self._levels_between(*condition)
        coded = self.kind.coded
        low = coded.low if condition[0] is None else self._number(condition[0], math.ceil)
        high = coded.high if condition[1] is None else self._number(condition[1], math.floor)
        if low > high and None not in condition:
            raise self._refuse("a range (low, high) that holds something", self._told(condition), "swap or widen its ends")
        if low > coded.high or high < coded.low:
            raise self._refuse(self._bounds, self._told(condition), "correct the range")
        return self._span(max(low, coded.low), min(high, coded.high))

    @property
    def _bounds(self) -> str:
        return f"within its bounds {self._told((self.kind.low, self.kind.high))}"

    def _single(self, number: float) -> AllowedCells:
        if not self.kind.coded.low <= number <= self.kind.coded.high:
            raise self._refuse(self._bounds, "a value outside", "correct it")
        number = Written(self.table, self.name).as_it_comes_back(number)
        return self._span(number, number)

    def _span(self, low: float, high: float) -> AllowedCells:
        """Return a range of numbers so that the cells that come back, which their dtype may round, lie in it."""
        written = Written(self.table, self.name)
        low, high = written.range_of(low, high)
        if low > high:
            raise self._refuse("what its dtype can hold", "what lies between two of its numbers", f"{written.dtype} rounds; widen it")
        return AllowedCells(float(low), float(high))

    def _check_kept(self, numbers: np.ndarray) -> None:
        coded = self.kind.coded
        if not len(numbers):
            return
        if numbers[0] < coded.low or numbers[-1] > coded.high:
            raise self._refuse(self._bounds, "a value outside", "correct the list")
        if (Written(self.table, self.name).values(numbers) != numbers).any():
            raise self._refuse("values that its dtype can hold", "others", "correct the list")

    def _told(self, ends: tuple) -> str:
        return "({}, {})".format(*(short_repr(end.isoformat() if isinstance(end, datetime.date) else end) for end in ends))

    def _level(self, value: Any) -> int:
        """Return the number of a level."""
        places = {level: place for place, level in enumerate(self.kind.levels)}
        value = value.item() if isinstance(value, np.generic) else value
        try:
            place = places.get(value)
        except TypeError:
            place = None
        if place is None:
            few = len(self.kind.levels) <= 12
            levels = ", ".join(map(short_repr, self.kind.levels)) if few else f"one of its {len(self.kind.levels)} levels in schema_"
            raise self._refuse("levels of schema", short_repr(value), f"it has {levels}")
        return place

    def _levels_between(self, low: Any, high: Any) -> AllowedCells:
        if not isinstance(self.kind, Ordinal):
            raise self._refuse("a value or a list, as its levels have no order", f"a tuple {self._told((low, high))}", "write a list")
        first = 0 if low is None else self._level(low)
        last = len(self.kind.levels) - 1 if high is None else self._level(high)
        if first > last:
            raise self._refuse("a range (low, high) in the order of its levels", self._told((low, high)), "swap its ends")
        return AllowedCells(among=np.arange(first, last + 1))

    def _number(self, value: Any, toward: Callable[[float], int] | None) -> float:
        """Return a value in the numbers that mechanisms see.

        Parameters
        ----------
        value : number, or date, time or text of one
        toward : callable or None
            How the end of a range becomes whole. None: it must be whole.
        """
        if isinstance(self.kind, Times):
            return self._units(value, toward)
        value = value.item() if isinstance(value, np.generic) else value
        if not is_real(value) or not math.isfinite(value):
            raise self._refuse("numbers", short_repr(value), f"write {_WAYS}")
        if not self.kind.integer:
            return float(value)
        if toward is None and value != int(value):
            raise self._refuse("whole numbers", short_repr(value), "the column is of whole numbers")
        return int(value) if toward is None else toward(value)

    def _units(self, value: Any, toward: Callable[[float], int] | None) -> int:
        try:
            moment = read_moment(value)
        except (ValueError, OverflowError, TypeError):
            moment = None
        if moment is None:
            raise self._refuse("dates or times, such as '2020-01-31'", short_repr(value), "write text in ISO format")
        if (moment.tzinfo is None) != (self.kind.zone is None):
            way = "write the offset, such as +00:00" if moment.tzinfo is None else "leave the offset out"
            raise self._refuse("times with a zone as its bounds in schema have one or none", short_repr(str(value)), way)
        moment = moment if moment.tzinfo is None else moment.astimezone(datetime.UTC)
        begin = self.kind.begin_of_unit(moment)
        if toward is None and begin != moment:
            raise self._refuse(f"whole {self.kind.resolution}s", short_repr(str(value)), "give a range")
        return self.kind.units_since_1970(moment) + (toward is math.ceil and begin != moment) - self.kind.first


class _TargetReader(_Reader):
    """Reads the condition on a column that others determine: its values are those of a public table."""

    def _single(self, number: float) -> AllowedCells:
        return AllowedCells(number, number)

    def _span(self, low: float, high: float) -> AllowedCells:
        return AllowedCells(float(low), float(high))

    def _check_kept(self, numbers: np.ndarray) -> None:
        pass


def is_missing(value: Any) -> bool:
    """Whether this is one of the words for a missing cell: None, NaN, NaT or NA."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, np.datetime64):
        return bool(np.isnat(value))
    return isinstance(value, float | np.floating) and bool(np.isnan(value))
