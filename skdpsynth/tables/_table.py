"""Tables under a schema: which dtypes fit it, and how rows go back to the caller's kind of table.

Read and written alike, a column is an array: floats with NaN for a missing cell (`Continuous`; of `Date` and `DateTime`, units since the
lower bound), or the numbers of its levels, where the number after the last stands for a missing cell (`Nominal`, `Ordinal`). Columns that
mechanisms do not see are not read.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from skdpsynth._serialization import require
from skdpsynth._validation import short_repr
from skdpsynth.domain import (
    BITS,
    PER_UNIT,
    Boolean,
    BoundsLike,
    Box,
    ColumnKind,
    Constant,
    Continuous,
    Date,
    DateTime,
    Derived,
    Identifier,
    Nominal,
    Ordinal,
    Schema,
    Times,
    UnknownBounds,
    compute_columns,
    keys_of,
    list_names,
    name_repr,
    read_moment,
    round_to_step,
    times_given,
    written_kind,
)
from skdpsynth.frames import (
    INFERRED,
    Backend,
    Cell,
    Table,
    TableKind,
    cast,
    decimals_out,
    dtype_advice,
    frame_of,
    holds_some,
    narwhals_dtype,
    pandas_dtype,
    pandas_numbers,
    parse_dtype,
    range_of,
    whole_dtype,
    without_categories,
)
from skdpsynth.persistence import savable
from skdpsynth.tables._cells import is_word, kind_out
from skdpsynth.tables._read_times import as_numbers, holds_times, time_cells, times_out

NO_LABELS: Mapping[Hashable, np.ndarray] = MappingProxyType({})


@savable
@dataclass(frozen=True)
class TableFormat:
    """Kind and schema of a table, never what it held: rows go back in it."""

    kind: TableKind
    schema: Any = None  # in the order of the columns; None: rows are floats of shape (n_samples, n_features)

    def _check_loaded(self) -> None:
        require(self.schema is None or (isinstance(self.schema, Schema) and list(self.schema) == list(self.columns)))

    @property
    def library(self) -> str:
        return self.kind.output_library

    @property
    def columns(self) -> tuple:
        return self.kind.columns

    @property
    def dtypes(self) -> tuple:
        return self.kind.dtypes

    def match(self, schema: Schema, buys: bool = False, are_inferred: bool = False) -> "TableFormat":
        """Return this with the schema in the order of the columns, or raise about names and dtypes.

        `buys`: whether private facts may be bought; `are_inferred`: as in `check_dtypes`.
        """
        if self.kind.names is None and any(isinstance(name, str) for name in schema):
            raise ValueError(
                "schema names columns, but X is an array without names; pass a data frame, or make the keys of schema column numbers."
            )
        schema = schema.arrange(self.columns)
        check_stated(schema, buys)
        check_dtypes(schema, self.dtypes, are_inferred)
        # Facts that dtypes state about numbers: by those that come back, because those of pandas may follow from cells.
        back, more = self.with_schema(schema), dict[Any, Any]()
        for (name, kind), facts in zip(schema.items(), map(parse_dtype, back.dtypes), strict=True):
            if facts.number is not None and isinstance(kind, Continuous) and not kind.integer and kind.unit is None:
                if kind.stand_in and facts.number.kind in "iub":
                    more[name] = replace(kind, integer=True)
                elif facts.decimal is not None:
                    more[name] = replace(kind, decimals=facts.decimal[1])
        return replace(back, schema=schema.with_kinds({**schema, **more}) if more else schema)

    def with_schema(self, schema: Schema) -> "TableFormat":
        dtypes = tuple(map(without_categories, self.dtypes))
        dtypes = tuple(map(dtype_back, schema.values(), dtypes)) if self.library == "pandas" else dtypes
        return replace(self, kind=replace(self.kind, dtypes=dtypes), schema=schema)

    def fill(self, values: Table, start: int = 0, n_samples: int | None = None, labels: Mapping[Hashable, np.ndarray] = NO_LABELS) -> Any:
        """Return rows, floats or with a schema columns as `read_columns` gives them, in the caller's kind of table.

        `start` is the number of rows that came in batches before, after which labels of identifiers go on, and `n_samples` that of all
        batches; None: of this one. `labels`: the numbers of labels of some identifiers, in place of these.
        """
        if self.schema is None:
            return self._fill_numbers(values)
        given, stop = iter(values), start + len(values[0])
        known = {name: next(given) for name in self.schema if self.schema.is_coded(name)}
        sources, dtypes, back = self.schema.sources, dict(zip(self.columns, self.dtypes, strict=True)), []
        known = compute_columns(self.schema, sources, known, dtypes)
        for (name, kind), dtype in zip(self.schema.items(), self.dtypes, strict=True):
            if name in known:
                back.append((name, known[name], written_kind(name, sources.get(name, kind), self.schema), dtype))
            elif getattr(kind, "comes_back", False):
                number, numbers = parse_dtype(dtype).number, labels[name] if name in labels else np.arange(start + 1, stop + 1)
                if isinstance(kind, Identifier) and number is not None and not holds_whole(number, numbers.max(initial=n_samples or 0)):
                    dtype = "int64"  # which holds the labels of all batches
                back.append((name, numbers, kind, dtype))
        if self.library == "numpy":
            return array_out([column for _, column, _, _ in back], [kind for _, _, kind, _ in back], np.dtype(self.dtypes[0]))
        library: Any = self.library
        columns = [column_out(column, kind, library, dtype) for _, column, kind, dtype in back]
        return frame_of(columns, tuple(name for name, *_ in back), library)

    def specimen(self, n_features: int, n_samples: int) -> Any:
        """Return a table with all levels of all columns, and missing cells where there may be some: what `fill` gives has its dtypes."""
        if self.schema is None:
            return self._fill_numbers(np.zeros((1, n_features)))
        kinds = list(self.schema.coded.values())  # of what is computed, two rows show the dtype
        n_rows, columns = max(2, *(getattr(kind, "n_codes", 0) for kind in kinds)), []
        for kind in kinds:
            if isinstance(kind, Continuous):
                columns.append(np.full(n_rows, float(kind.low)))
                columns[-1][-1] = np.nan if kind.nullable else kind.high
            else:
                columns.append(np.minimum(np.arange(n_rows), kind.n_codes - 1))
        return self.fill(columns, 0, n_samples)

    # Tables of numbers

    @property
    def _numbers(self) -> list[np.dtype]:
        """The numpy dtype of each column; of columns that are no numbers, float64."""
        return [np.dtype(float) if (number := parse_dtype(dtype).number) is None else number for dtype in self.kind.dtypes]

    def box(self, bounds: BoundsLike, bits: int = BITS) -> Box:
        """Return the box of `bounds` for a table of numbers, or refuse them where a dtype can hold no number within them."""
        dtypes, names = self._numbers, self.kind.names
        box = Box.from_bounds(bounds, len(dtypes), names, bits, [dtype.kind in "iub" for dtype in dtypes])
        for feature, (dtype, low, high) in enumerate(zip(dtypes, box.low.tolist(), box.high.tolist(), strict=True)):
            if not holds_some(dtype, low, high):
                name = feature if names is None else short_repr(names[feature])
                raise ValueError(
                    f"bounds of column {name} must hold a number that its dtype, {dtype.name}, can hold, got ({low:g}, {high:g}); give "
                    "other bounds, or convert the column."
                )
        return box

    def unknown(self, columns: Sequence[int]) -> UnknownBounds | None:
        """Return what is public about columns of numbers whose bounds are to be bought; None if there are none."""
        if not columns:
            return None
        dtypes = [self._numbers[column] for column in columns]
        least, most = np.array(list(map(range_of, dtypes))).T
        return UnknownBounds(tuple(columns), least, most, np.array([dtype.kind in "iub" for dtype in dtypes]))

    def _fill_numbers(self, rows: np.ndarray) -> Any:
        """Return floats of shape (n_samples, n_features), each as the nearest number that its dtype can hold."""
        if self.library == "numpy":
            return cast(rows, self._numbers[0])
        columns = [np.ascontiguousarray(cast(rows[:, i], dtype)) for i, dtype in enumerate(self._numbers)]
        if self.library == "pandas":
            never, facts = np.zeros(len(rows), dtype=bool), map(parse_dtype, self.dtypes)
            targets = (np.dtype(float) if each.number is None else pandas_dtype(each.values) for each in facts)
            columns = [pandas_numbers(cells, never, False, target) for cells, target in zip(columns, targets, strict=True)]
        return frame_of(columns, self.columns, self.library)


@contextmanager
def name_table_in_errors(name: str, of: str = "X") -> Iterator[None]:
    """Say in errors, which say X (or what else `of` is), which one does not fit."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise type(error)(str(error) if name == of else f"with {name} as {of}: {error}") from None


def check_stated(schema: Schema, buys: bool = False) -> None:
    """Refuse bounds and levels that are not stated; but for numbers and nominal levels that are private, if those are bought."""
    open_columns = [name for name, kind in schema.items() if kind.stand_in == "open"]
    if len(open_columns) > 1:
        raise ValueError(
            f"schema of columns {list_names(open_columns, len(open_columns))} has open bounds or levels, which are still to be written; "
            "give (low, high) or a list to each: public facts, never learned from rows."
        )
    for name, kind in schema.items():
        if kind.stand_in is None or (buys and kind.stand_in == "private" and isinstance(kind, Continuous | Nominal)):
            continue
        fact, example = ("levels", "a list") if hasattr(kind, "levels") else ("bounds", "(low, high)")
        if getattr(kind, "format", None) == "open":
            fact, example = "format", "one such as 'dd/mm/yyyy'"
        way = f"which is not supported here; give {example} that are public."
        if kind.stand_in == "open":
            way = f"which are still to be written; give {example}: public facts, never learned from rows."
        raise ValueError(f"schema of column {name_repr(name)} has {kind.stand_in} {fact}, {way}")


def check_room(table: TableFormat) -> None:
    """Refuse a column of numbers whose dtype, in which it comes back, can hold none within its bounds; of a key, not all."""
    keys = {name for names in keys_of(table.schema.rules, table.schema) for name in names} if table.schema.rules else ()
    for (name, kind), dtype in zip(table.schema.items(), table.dtypes, strict=True):
        facts = parse_dtype(dtype)
        if name in keys and (room := _lacks_room(kind, dtype)):
            raise TypeError(
                f"column {name_repr(name)} is in a Unique of schema, but its dtype, {room[0]}, cannot hold all values that it "
                f"may have, so that some would be equal; convert it to {room[1]}, or narrow what schema says of it."
            )
        if isinstance(kind, Times) and facts.time is not None and not holds_times(kind, facts.time[0]):
            what = f"dtype {dtype}, which can hold no time within its bounds in schema"
        elif isinstance(kind, Continuous) and not (kind.stand_in or facts.number is None or holds_some(facts.number, kind.low, kind.high)):
            ends = f"({short_repr(kind.low)}, {short_repr(kind.high)})"
            what = f"dtype {facts.number.name}, which can hold no number within its bounds in schema, {ends}"
        else:
            continue
        raise TypeError(f"column {name_repr(name)} has {what}; convert the column, or correct the bounds.")


def _lacks_room(kind: ColumnKind, dtype: str) -> tuple[str, str] | None:
    """Return a dtype in which two values of a column may come back as one, and a better one; None if it holds all apart."""
    facts, is_number = parse_dtype(dtype), isinstance(kind, Continuous)
    plain = facts.number
    if isinstance(kind, Times):
        if facts.time is not None:
            return (dtype, "datetime64[us]") if PER_UNIT.get(facts.time[0], 1) > kind.microseconds else None
        return (f"that of text in the form {kind.format}", "days") if kind.months else None
    # Levels that whole numbers of a dtype cannot be come back in another one.
    if plain is None or plain.kind == "b" or not (is_number or plain.kind == "f"):
        return None
    ends = (kind.low, kind.high) if is_number else kind.levels
    return None if all(holds_whole(plain, end) for end in ends) else (plain.name, "int64")


def check_dtypes(schema: Schema, dtypes: Sequence[str], are_inferred: bool = False) -> None:
    """Refuse dtypes, which are public, in which what the schema says would not be found.

    `are_inferred`: whether pandas or numpy took them from cells, as "object" of numbers with one word and floats of words or times without
    any cell: then an error would tell of cells. Each is read by itself, and what is never read has any dtype.
    """
    for (name, kind), dtype in zip(schema.items(), dtypes, strict=True):
        if are_inferred and dtype in (*INFERRED, "<f8"):
            if any(isinstance(level, int) and abs(level) > 2**53 for level in getattr(kind, "levels", ())):
                told = "has a dtype that pandas infers, in which a missing cell would change levels beyond 2**53; convert it to Int64"
                raise TypeError(f"column {name_repr(name)} {told}.")
            are_words = isinstance(kind, Nominal | Ordinal) and kind.stand_in is None and all(map(is_word, kind.levels))
            if isinstance(kind, Identifier | Constant) or (dtype in ("float64", "<f8") and (are_words or isinstance(kind, Times))):
                continue
        check_dtype(name, kind, dtype)


def check_dtype(name: Hashable, kind: ColumnKind, dtype: str) -> None:
    if misfit := _misfit(kind, dtype):
        raise TypeError(f"column {name_repr(name)} {misfit}.")


def _misfit(kind: ColumnKind, dtype: str) -> str | None:
    """Return what is wrong with a dtype, and the way out; None if the kind would be found in it."""
    family = parse_dtype(dtype).family
    if isinstance(kind, Identifier) and isinstance(kind.labels, str) and family not in ("text", "any"):
        labels = f"{kind.labels + '1'!r} and so on of schema"
        return f"has dtype {dtype}, which cannot hold the labels {labels}; say Identifier(labels=True) for plain numbers"
    if isinstance(kind, Derived):
        if kind.gives is not None:
            zone = (parse_dtype(dtype).time or ("", None))[1]
            return _misfit_of_times(times_given(kind, has_zone=zone is not None), dtype)
        is_number = family in ("number", "any") or dtype == "str"
        way = "convert it, or leave it out of the table"
        return None if is_number else f"is Derived and comes back as numbers, got dtype {dtype}; {way}"
    if isinstance(kind, Constant):
        if family in ("other", "time of day", "duration") or (family == "time" and moment_of(kind.value) is None):
            return f"has dtype {dtype}, which cannot hold its Constant of schema; correct the value"
        return None if family == "time" else _misfit_of_levels(kind_out(kind, dtype), dtype)
    if kind.coded is None:
        return None
    if family == "other":
        way = dtype_advice(dtype) or "convert it"
        return f"must hold numbers, strings, booleans or times, got dtype {dtype}; {way}, or say Identifier()"
    if isinstance(kind, Times) or family in _TIME_KINDS:
        return _misfit_of_times(kind, dtype)
    return None if isinstance(kind, Continuous | Boolean) or kind.stand_in is not None else _misfit_of_levels(kind, dtype)


_TIME_KINDS = {"time": "Date(low, high) or DateTime(low, high)", "time of day": "TimeOfDay()", "duration": "Duration(low, high)"}


def _misfit_of_times(kind: ColumnKind, dtype: str) -> str | None:
    facts = parse_dtype(dtype)
    family, (_, zone) = facts.family, facts.time or ("", None)
    if family in _TIME_KINDS and family != getattr(kind, "family", ""):
        return f"has dtype {dtype}, but is {kind.to_keys()['kind']} in schema; say {_TIME_KINDS[family]}, or convert it"
    if family == "number":
        width = kind.form.width if kind.form is not None else 0
        if width and facts.number is not None and holds_whole(facts.number, 10.0**width - 1):
            return None
        way = "whole numbers of more bits" if width else "times, or say in format how whole numbers hold them, or give numbers as bounds"
        return f"is {type(kind).__name__} in schema, but has dtype {dtype}; convert it to {way}"
    if family != "time" or (isinstance(kind, Date) and zone is None):
        return None
    if zone is not None and dtype.startswith("datetime64"):
        try:
            pandas_dtype(dtype)
        except Exception:  # each version of pandas says it in its own way
            return f"has dtype {dtype}, whose time zone has no name by which it could come back; convert it by .dt.tz_convert('UTC')"
    if isinstance(kind, Date):
        way = "say DateTime with bounds that have an offset, such as '2020-01-31T00:00+00:00', or convert the column to dates"
        return f"has dtype {dtype}, in which a day depends on the time zone, but is Date in schema; {way}"
    if (zone is None) == (kind.zone is None):
        return None
    has, way = ("no time zone", "without an offset") if zone is None else ("a time zone", "with one, such as '2020-01-31T00:00+00:00'")
    return f"has dtype {dtype}, which has {has}, unlike its bounds in schema; write the bounds {way}, or convert the column"


def _misfit_of_levels(kind: ColumnKind, dtype: str) -> str | None:
    family = parse_dtype(dtype).family
    is_text = family == "text"
    if family == "any" or dtype == "str" or all(is_word(level) == is_text for level in kind.levels):
        return None
    way = "write them as they stand in the table, or read the column as text, as codes such as 01067 need (value labels: labels in read)"
    what, way = ("strings", "write all in quotes") if is_text else ("numbers", way)
    return f"has dtype {dtype}, but its levels in schema are not all {what}, so they would not be found; {way}"


def dtype_back(kind: ColumnKind, dtype: str) -> str:
    """Return the dtype in which a column comes back to pandas.

    There int64, uint64, float64, bool, object and str follow from the cells, so in their place the schema alone says what comes back
    (objects, of levels that are still to be bought). All others are the caller's choice, and stay, but that text under `Continuous`
    becomes numbers.
    """
    if isinstance(kind, Continuous) and parse_dtype(dtype).family == "text" and not dtype.startswith("category"):
        dtype = "str"
    if dtype not in INFERRED:
        return dtype
    if isinstance(kind, Identifier):
        made = {True: "int64", False: "object"}  # without labels, it does not come back
        return made.get(kind.labels) or inferred_of_text()
    if isinstance(kind, Derived) and kind.gives is not None:
        kind = times_given(kind)
    if isinstance(kind, Times) and kind.form is not None:
        return _WHOLE[kind.nullable] if kind.form.width else inferred_of_text()
    if isinstance(kind, Continuous | Derived):
        return _WHOLE[bool(getattr(kind, "nullable", False))] if getattr(kind, "integer", False) else "float64"
    kind = kind_out(kind, "object")
    if not hasattr(kind, "levels"):
        return dtype
    if isinstance(kind.levels, str) or any(map(is_word, kind.levels)):
        return "object" if isinstance(kind.levels, str) or not all(map(is_word, kind.levels)) else inferred_of_text()
    names = {"b": ("bool", "boolean"), "i": _WHOLE, "u": ("uint64", "UInt64"), "f": ("float64", "float64")}
    return names[np.array(kind.levels).dtype.kind][kind.nullable]


_WHOLE = ("int64", "Int64")  # the latter where cells may be missing


def inferred_of_text() -> str:
    import pandas as pd

    return str(pd.Series(["a"]).dtype)


# Columns, written in the caller's library and dtypes


def moment_of(value: Cell) -> Any:
    """Return the time that a text in ISO format is; None of anything else."""
    with suppress(ValueError, TypeError):
        return read_moment(value)
    return None


def column_out(values: np.ndarray, kind: ColumnKind, backend: Backend, dtype: str) -> Any:
    """Return the values of a column, as `read_columns` gives them, as a column of a data-frame library; of unseen ones, numbers of rows."""
    facts = parse_dtype(dtype)
    if isinstance(kind, Constant):
        if facts.time is not None and (moment := moment_of(kind.value)) is not None:
            always = DateTime(moment.replace(year=2), moment)
            return times_out(np.full(len(values), float(always.coded.high)), always, backend, dtype)
        values = np.zeros(len(values), dtype=np.int64)
    if isinstance(kind, Times) and kind.form is not None and facts.family == "number":
        values, kind = as_numbers(values, kind)
    kind, values = kind_out(kind, dtype), round_to_step(values, kind)
    if isinstance(kind, Times):
        return times_out(values, kind, backend, dtype)
    if isinstance(kind, Continuous):
        return _numbers_out(values, kind, backend, dtype)
    if not isinstance(kind, Identifier):
        return _pandas_levels_out(values, kind, dtype) if backend == "pandas" else _other_levels_out(values, kind, backend, dtype)
    labels, is_text = kind.make_labels(values), facts.family == "text"
    if labels.dtype != object and not is_text:
        return _numbers_out(labels.astype(float), Continuous(0, 2**53, integer=True), backend, dtype)
    cells = labels.astype(str).astype(object)
    if backend == "pandas":
        import pandas as pd

        return pd.Series(cells, dtype=pandas_dtype(dtype if is_text else "object"))
    import narwhals.stable.v2 as nw

    return nw.new_series("", cells.tolist(), nw.String(), backend=backend)


def array_out(values: Sequence[np.ndarray], kinds: Sequence[Any], dtype: np.dtype) -> np.ndarray:
    """Return one array of all columns: of the dtype that came in, if it can hold them; objects of numbers alone become numbers."""
    if dtype.kind in "mM":
        return np.column_stack([time_cells(column, kind, dtype) for column, kind in zip(values, kinds, strict=True)])
    pairs = zip(values, kinds, strict=True)
    values = [column * 0 if isinstance(kind, Constant) else round_to_step(column, kind) for column, kind in pairs]
    kinds = [kind_out(kind, dtype.str) for kind in kinds]
    may_miss = any(getattr(kind, "nullable", False) for kind in kinds)
    if dtype.kind in "iufb" or all(isinstance(kind, Continuous) for kind in kinds):
        return _array_of_numbers(values, kinds, dtype, may_miss)
    rows = np.empty((len(values[0]), len(kinds)), dtype=object)
    for j, (column, kind) in enumerate(zip(values, kinds, strict=True)):
        if isinstance(kind, Times):
            rows[:, j] = time_cells(column, kind, dtype)
        elif isinstance(kind, Identifier):
            rows[:, j] = kind.make_labels(column)
        elif isinstance(kind, Continuous):
            rows[:, j] = column.astype(np.int64) if kind.integer and not kind.nullable else column
        else:
            rows[:, j] = _level_cells(kind)[column]
    has_texts = any(isinstance(kind, Times | Identifier) or any(map(is_word, getattr(kind, "levels", ()))) for kind in kinds)
    return rows.astype(str) if dtype.kind == "U" and has_texts and not may_miss else rows


def _array_of_numbers(values: Sequence[np.ndarray], kinds: Sequence[Any], dtype: np.dtype, may_miss: bool) -> np.ndarray:
    is_whole = dtype.kind in "iub" and not may_miss
    for kind in kinds if is_whole else ():
        if isinstance(kind, Identifier):  # labels may be more than a short dtype has numbers
            is_whole &= dtype.kind != "b" and dtype.itemsize == 8
        elif not isinstance(kind, Continuous | Times):
            is_whole &= _levels_in_dtype(kind, dtype).dtype == dtype
    dtype = dtype if is_whole or dtype.kind == "f" else np.dtype(float)
    rows = np.empty((len(values[0]), len(kinds)), dtype)
    for j, (column, kind) in enumerate(zip(values, kinds, strict=True)):
        if isinstance(kind, Times):
            column, kind = as_numbers(column, kind)
        if isinstance(kind, Continuous):
            rows[:, j] = cast(column, dtype, kind.low, kind.high)
        elif isinstance(kind, Identifier):
            rows[:, j] = kind.make_labels(column)
        else:
            rows[:, j] = _levels_in_dtype(kind, dtype)[column]
            if kind.nullable:
                rows[column >= len(kind.levels), j] = np.nan
    return rows


def holds_whole(dtype: np.dtype, number: float) -> bool:
    """Whether a dtype can hold this whole number, and all between it and 0."""
    if dtype.kind == "b":
        return False
    return abs(number) <= 2.0 ** (np.finfo(dtype).nmant + 1) if dtype.kind == "f" else np.iinfo(dtype).min <= number <= np.iinfo(dtype).max


def _numbers_out(x: np.ndarray, kind: Continuous, backend: Backend, dtype: str) -> Any:
    if parse_dtype(dtype).decimal is not None:
        return decimals_out(x, dtype, backend)
    facts = parse_dtype(whole_dtype(dtype) if backend == "pandas" and kind.integer and kind.nullable else dtype)
    if facts.number is None:
        facts = parse_dtype("int64" if kind.integer else "float64")
    plain = facts.number or np.dtype(float)
    cells, missing = cast(x, plain, kind.low, kind.high), np.isnan(x)
    if backend == "pandas":
        return pandas_numbers(cells, missing, kind.nullable, pandas_dtype(facts.values))
    import narwhals.stable.v2 as nw

    column = nw.new_series("", cells, narwhals_dtype(plain), backend=backend)
    if not missing.any():
        return column
    has_cell = nw.new_series("has_cell", ~missing, nw.Boolean(), backend=backend)
    return column.to_frame().select(nw.when(has_cell).then(nw.col("")))[""]


def _pandas_levels_out(codes: np.ndarray, kind: ColumnKind, dtype: str) -> Any:
    import pandas as pd

    missing = codes >= len(kind.levels)
    if dtype == "category" or (isinstance(kind, Ordinal) and any(map(is_word, kind.levels))):
        return pd.Categorical.from_codes(np.where(missing, -1, codes), categories=list(kind.levels), ordered=isinstance(kind, Ordinal))
    if kind.nullable and all(type(level) is int for level in kind.levels) and _levels_in_dtype(kind, np.dtype(np.int64)).dtype == np.int64:
        dtype = whole_dtype(dtype)
    target = pandas_dtype(dtype)
    if parse_dtype(dtype).family == "number" and not dtype.startswith("dictionary"):
        plain = getattr(target, "numpy_dtype", target)
        held = _levels_in_dtype(kind, plain)
        return pandas_numbers(held[codes], missing, kind.nullable, target if held.dtype == plain else held.dtype)
    if target == np.dtype(object):
        return pd.Series(_level_cells(kind)[codes], dtype=object)
    return pd.array(_level_cells(kind), dtype=target).take(codes)


def _other_levels_out(codes: np.ndarray, kind: ColumnKind, backend: Backend, dtype: str) -> Any:
    """Return a column of levels; ordinal texts as ordered categories where the library has them."""
    import narwhals.stable.v2 as nw

    if not any(map(is_word, kind.levels)):
        facts = parse_dtype(dtype)
        if facts.decimal is not None:
            return decimals_out(np.array([*map(float, kind.levels), np.nan])[codes], dtype, backend)
        held = _levels_in_dtype(kind, np.array(kind.levels).dtype if facts.number is None else facts.number)
        return nw.new_series("", [*held[:-1].tolist(), None], narwhals_dtype(held.dtype), backend=backend)[codes]
    cells = [None if cell is None else str(cell) for cell in _level_cells(kind)]
    target: Any = nw.Categorical() if dtype == "Categorical" else nw.String()
    if backend == "polars" and (isinstance(kind, Ordinal) or dtype.startswith("Enum")):
        target = nw.Enum([str(level) for level in kind.levels])
    return nw.new_series("", cells, nw.String(), backend=backend).cast(target)[codes]


def _levels_in_dtype(kind: ColumnKind, dtype: np.dtype) -> np.ndarray:
    """Return levels that are numbers as an array of a numpy dtype, or of another if that cannot hold them; the first once more."""
    levels = [*kind.levels, kind.levels[0]]
    with suppress(OverflowError), np.errstate(invalid="ignore"):
        held = np.array(levels, dtype=dtype)
        if dtype.kind == "f" or held.tolist() == levels:
            return held
    return np.array(levels)


def _level_cells(kind: ColumnKind) -> np.ndarray:
    """Levels as objects, and None at the end, for a missing cell."""
    cells = np.empty(len(kind.levels) + 1, dtype=object)
    cells[:] = [*kind.levels, None]
    return cells
