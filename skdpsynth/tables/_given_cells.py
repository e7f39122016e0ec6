"""Cells that are given: conditions on samples, and rows of which some cells are missing."""

import datetime
import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from skdpsynth._validation import is_real, short_repr
from skdpsynth.domain import (
    AllowedCells,
    Calendar,
    ColumnKind,
    Continuous,
    Derived,
    Determines,
    Ordinal,
    Schema,
    Sum,
    Times,
    as_nullable,
    axis_of,
    compute_columns,
    inputs_of,
    list_names,
    name_repr,
    read_moment,
    table_of,
    written_kind,
)
from skdpsynth.frames import Cell, Column, Table, TableKind, eager_frame, split_columns, without_categories
from skdpsynth.tables._cells import Codes, is_missing, missing_cells
from skdpsynth.tables._open import read_column
from skdpsynth.tables._table import TableFormat, array_out, check_dtype, column_out

_EXAMPLE = "such as {'age': (18, 30), 'sex': 'F', 'income': None}"
_WAYS = "a value, a list of values, a tuple (low, high), or None for missing cells"
_POINTS = 64  # between two numbers that are looked at in a step

_NEAR = 1e-6  # relative: numbers of 32 bits are rounded
Columns = Mapping[Any, np.ndarray]


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


class Evidence:
    """Known cells of all columns that are synthesized or computed, as `read_columns` gives them, and those that follow from them.

    A computed column follows from its inputs, a part from its total and all other parts, and a level by `Determines`, where no other
    level of it has the value that is there. `dtypes` are those in which the cells are written.
    """

    def __init__(self, schema: Schema, values: Columns, known: Columns, dtypes: Mapping[Any, str]) -> None:
        self.schema, self.dtypes, self.sources = schema, dtypes, dict(schema.sources)
        self.kinds = {name: written_kind(name, self.sources.get(name, kind), schema) for name, kind in schema.items() if name in values}
        self.values = {name: column.copy() for name, column in values.items()}
        self.known = {name: column.copy() for name, column in known.items()}
        self.n_rows = len(next(iter(known.values())))
        for _ in range(2 * len(self.sources)):
            before = sum(int(each.sum()) for each in self.known.values())
            self._deduce()
            if sum(int(each.sum()) for each in self.known.values()) == before:
                break

    def take(self, rows: np.ndarray) -> "Evidence":
        taken = copy(self)
        taken.values, taken.known = ({name: column[rows] for name, column in each.items()} for each in (self.values, self.known))
        taken.n_rows = len(rows)
        return taken

    def _deduce(self) -> None:
        for name, source in self.sources.items():
            rows = np.flatnonzero(~self.known[name] & self._are_known(inputs_of(source, self.schema)))
            self._set(name, rows, self.compute(name, rows))
        for name, source in reversed(self.sources.items()):
            for place, given in enumerate(source.given if isinstance(source, Determines) else ()):
                others = self._are_known((*source.given[:place], *source.given[place + 1 :]))
                rows = np.flatnonzero(self.known[name] & ~self.known[given] & others)
                agrees = self._agreeing_levels(name, source, place, rows)
                agrees[:, -1] &= bool(self.schema[given].nullable) & ~agrees[:, :-1].any(axis=1)
                single = agrees.sum(axis=1) == 1
                self._set(given, rows[single], agrees[single].argmax(axis=1))
            if isinstance(source, Sum):  # all parts but a missing one are subtracted from the total
                unknown = np.sum([~self.known[each] for each in source.columns], axis=0)
                for part in source.columns:
                    rows = np.flatnonzero(self.known[name] & (unknown == 1) & ~self.known[part])
                    rest = self.values[name][rows] - np.sum([self.values[each][rows] for each in source.columns if each != part], axis=0)
                    kind = self.schema[part]
                    rest = np.rint(rest) if kind.integer else rest
                    slack = 0 if kind.integer else _NEAR * (1 + np.abs(self.values[name][rows]))
                    fits = (rest >= kind.low - slack) & (rest <= kind.high + slack)  # not so where one is missing
                    self._set(part, rows[fits], np.clip(rest[fits], kind.low, kind.high))

    def _are_known(self, names: tuple) -> np.ndarray:
        return np.all([self.known[each] for each in names], axis=0) if names else np.ones(self.n_rows, dtype=bool)

    def _set(self, name: Hashable, rows: np.ndarray, values: np.ndarray) -> None:
        self.values[name][rows] = values
        self.known[name][rows] = True

    def compute(self, name: Hashable, rows: np.ndarray) -> np.ndarray:
        source = self.sources[name]
        own = {each: self.values[each][rows] for each in inputs_of(source, self.schema)}
        kinds = {**self.schema, **{each: self.kinds[each] for each in own if isinstance(self.schema[each], Derived)}}
        return compute_columns(kinds, {name: source}, own, self.dtypes)[name]

    def _agreeing_levels(
        self, name: Hashable, rule: Determines, place: int, rows: np.ndarray, allowed: np.ndarray | None = None
    ) -> np.ndarray:
        """Return which levels of one of the given columns, the last a missing cell, agree with what is known of each row.

        The target must have its value, or where that is missing one of those `allowed` in each row. Rows alike are looked at once.
        """
        known, target = self.known[name][rows], np.nan_to_num(self.values[name][rows].astype(float), nan=np.inf)
        codes = np.column_stack([np.where(self.known[each], self.values[each], -1)[rows] for each in rule.given])
        among = np.zeros((len(rows), 0)) if allowed is None else np.where(known[:, None], False, allowed[rows])
        alike = np.column_stack([known, np.where(known, target, 0), codes, among])
        _, firsts, groups = np.unique(alike.view(f"V{8 * alike.shape[1]}"), return_index=True, return_inverse=True)
        table = table_of(rule, self.schema).reshape([len(self.schema[each].levels) + 1 for each in rule.given])  # values of the target
        found = np.ones((len(firsts), table.shape[place]), dtype=bool)
        for group, first in enumerate(firsts.tolist()):
            own = [slice(None, -1) if code < 0 else slice(code, code + 1) for code in codes[first].astype(int).tolist()]
            own[place] = slice(None)
            left = table[tuple(own)]
            if known[first]:
                same = self._same(name, left.reshape(1, -1), rows[first : first + 1]).reshape(left.shape)
            else:
                same = np.append(among[first].astype(bool), False)[left]
            found[group] = same.any(axis=tuple(each for each in range(left.ndim) if each != place))
        return found[groups.ravel()]

    def _same(self, name: Hashable, targets: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return which of some targets are the value of each row, or among those that it may have."""
        found = self.values[name][rows][:, None]
        if hasattr(self.schema[name], "levels"):
            return np.asarray(targets == found)
        with np.errstate(invalid="ignore"):
            near = np.abs(targets - found) <= _NEAR * (1 + np.abs(found))
        return near | (np.isnan(targets) & np.isnan(found))

    def allowed_levels(self) -> list[tuple[np.ndarray, dict[Any, AllowedCells]]]:
        """Return rows, and the levels that rules allow for their missing cells, given the known ones."""
        masks: dict[Any, np.ndarray] = {}
        for name, source in reversed(self.sources.items()):
            for place, given in enumerate(source.given if isinstance(source, Determines) else ()):
                mask = masks.setdefault(given, np.ones((self.n_rows, len(self.schema[given].levels)), dtype=bool))
                # Levels are left out with which the target has another value, whatever other missing cells are.
                of_target = masks.get(name)
                rows = np.flatnonzero(~self.known[given] & (self.known[name] | (of_target is not None)))
                left = mask[rows] & self._agreeing_levels(name, source, place, rows, of_target)[:, :-1]
                has_any = left.any(axis=1)
                mask[rows[has_any]] = left[has_any]
        masks = {name: mask for name, mask in masks.items() if name not in self.sources and not mask.all()}
        if not masks:
            return [(np.arange(self.n_rows), {})]
        packed = np.packbits(np.column_stack(list(masks.values())), axis=1)
        different, inverse = np.unique(packed, axis=0, return_inverse=True)
        groups = [np.flatnonzero(inverse.ravel() == number) for number in range(len(different))]
        return [
            (rows, {name: AllowedCells(among=np.flatnonzero(mask[rows[0]])) for name, mask in masks.items() if not mask[rows[0]].all()})
            for rows in groups
        ]

    def disagreement(self, values: Columns, are_sums: bool) -> np.ndarray:
        """Return how far known computed columns are from their values by the cells that are now filled, shape (n_rows,)."""
        far = np.zeros(self.n_rows)
        whole = with_all(self, values, self.known)
        for name, source in self.sources.items():
            if isinstance(source, Sum if are_sums else Determines):
                rows = np.flatnonzero(self.known[name] & ~self._are_known(source.columns_named))
                made = whole.compute(name, rows)
                if are_sums:
                    far[rows] += np.nan_to_num(np.abs(made - self.values[name][rows]))
                else:
                    far[rows] += ~whole._same(name, made[:, None], rows)[:, 0]
        return far


def with_all(evidence: Evidence, values: Columns, present: Columns) -> Evidence:
    """Return all columns, with computed ones; cells that are present stay, even where their inputs give another value."""
    whole = copy(evidence)
    whole.values = {**evidence.values, **values}
    for name in evidence.sources:
        whole.values[name] = np.where(present[name], evidence.values[name], whole.compute(name, np.arange(evidence.n_rows)))
    return whole


@dataclass(frozen=True, eq=False)
class IncompleteRows:
    X: Any
    table: TableFormat  # of the fit
    given: TableKind  # of X
    raw: list[Any]
    values: dict[Any, np.ndarray]  # of the columns that are synthesized or computed, in the order of the fit, as `read_columns` gives them
    missing: dict[Any, np.ndarray]

    @classmethod
    def of(cls, X: Table, table: TableFormat) -> "IncompleteRows":
        """Read a table; columns that a frame lacks are missing throughout."""
        given, raw = split_columns(X)
        if given.library == "numpy" and (table.library != "numpy" or len(given.columns) != len(table.columns)):
            wanted = f"an array of {len(table.columns)} columns" if table.library == "numpy" else "a data frame"
            got = f"an array of {len(given.columns)} columns; for cells that are not known give missing ones"
            raise ValueError(f"X must be {wanted}, as that of fit was, got {got}.")
        if not given.columns:
            raise ValueError(
                "X must have one or more columns of the table that fit got, got a table without any; give those that are known."
            )
        if extra := [name for name in given.columns if name not in table.schema]:
            raise ValueError(f"X must have columns of the table that fit got, but {list_names(extra)} is none of them; drop it.")
        n_rows = len(raw[0])
        values: dict[Any, np.ndarray] = {}
        missing: dict[Any, np.ndarray] = {}
        for name, stated in table.schema.items():
            kind = _kind(table, name)
            if kind.coded is None:
                continue
            if name in table.schema.sources and stated is kind:
                kind = as_nullable(kind)  # computed values are compared with it as it stands
            place = given.columns.index(name) if name in given.columns else None
            gone = np.ones(n_rows, dtype=bool) if place is None else missing_cells(raw[place])
            if place is None or gone.all():
                values[name] = np.zeros(n_rows, dtype=float if isinstance(kind.coded, Continuous) else np.int64)
            else:
                check_dtype(name, kind, given.dtypes[place])
                values[name] = read_column(raw[place], kind, given.dtypes[place])
                if kind.missing:
                    own = as_nullable(kind)
                    gone = gone | _is_missing(read_column(raw[place], own, given.dtypes[place]), own)
            missing[name] = gone
        return cls(X, table, given, raw, values, missing)

    @property
    def dtypes(self) -> dict[Any, str]:
        """The dtypes in which cells are written: those of X, but for columns without any cell those of the fit."""
        given = dict(zip(self.given.columns, self.given.dtypes, strict=True))
        return {name: self._dtype_of_fit(name) if gone.all() else given[name] for name, gone in self.missing.items()}

    def with_cells(self, values: Mapping[Any, np.ndarray]) -> Any:
        """Return the table in the caller's kind, with missing cells from these columns; all other cells are as they were."""
        columns = dict(zip(self.given.columns, self.raw, strict=True))
        changed = {name: np.flatnonzero(gone) for name, gone in self.missing.items() if gone.any() or name not in columns}
        if self.given.library == "numpy":
            rows = np.array(self.X) if isinstance(self.X, np.ndarray) else np.column_stack([*self.raw]).astype(object)
            for place, gone in changed.items():
                rows[gone, place] = array_out([values[place][gone]], [_kind(self.table, place)], rows.dtype)[:, 0]
            return rows
        made = {name: self._column(name, columns.get(name), values[name], gone) for name, gone in changed.items()}
        if self.given.library == "pandas":
            import pandas as pd

            out = self.X.copy()
            for name, column in made.items():
                out[name] = pd.Series(getattr(column, "array", column), index=out.index)
            return out
        import narwhals.stable.v2 as nw

        for name, column in made.items():
            series = column if hasattr(column, "to_native") else nw.from_native(column, series_only=True, allow_series=True)
            made[name] = series.alias(name)
        return eager_frame(self.X).with_columns(*made.values()).to_native()

    def _column(self, name: Hashable, column: Column, new: np.ndarray, gone: np.ndarray) -> Any:
        kind, backend = _kind(self.table, name), self.given.library
        if column is None or len(gone) == len(new):
            return column_out(new, kind, backend, self._dtype_of_fit(name))
        gone = gone[~_is_missing(new[gone], kind)]  # rules left others no value
        made = column_out(new[gone], kind, backend, without_categories(self.given.dtypes[self.given.columns.index(name)]))
        if backend != "pandas":
            import narwhals.stable.v2 as nw

            if not hasattr(made, "to_native"):
                made = nw.new_series("", np.asarray(made).tolist(), backend=column.implementation)
            made = made.cast(nw.String()) if "Enum" in f"{made.dtype} {column.dtype}" else made
            return column.scatter(gone.tolist(), made.cast(column.dtype))
        import pandas as pd

        column, cells = column.copy(), np.asarray(made, dtype=object)
        if isinstance(column.dtype, pd.CategoricalDtype):
            # Levels that the column lacks need a category each.
            lacking = [level for level in pd.unique(cells) if level not in column.cat.categories]
            column = column.cat.add_categories(lacking) if lacking else column
            column.iloc[gone] = cells
        else:
            column.iloc[gone] = pd.Series(cells).astype(column.dtype).array
        return column.array

    def _dtype_of_fit(self, name: Hashable) -> str:
        """Return the dtype that a column had in the fit; where that was a table of another library, a dtype that holds anything."""
        if self.given.library == self.table.library:
            return self.table.dtypes[list(self.table.schema).index(name)]
        return "object" if self.given.library == "pandas" else "Unknown"


def _is_missing(values: np.ndarray, kind: ColumnKind) -> np.ndarray:
    return np.isnan(values) if isinstance(kind.coded, Continuous) else values >= len(kind.levels)


def _kind(table: TableFormat, name: Hashable) -> Any:
    return written_kind(name, table.schema.sources.get(name), table.schema)
