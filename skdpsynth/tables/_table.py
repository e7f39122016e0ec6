"""Tables under a schema: how rows go back to the caller's kind of table.

Read and written alike, a column is an array: floats with NaN for a missing cell (`Continuous`; of `Date` and `DateTime`, units since the
lower bound), or the numbers of its levels, where the number after the last stands for a missing cell (`Nominal`, `Ordinal`). Columns that
mechanisms do not see are not read.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdpsynth._validation import short_repr
from skdpsynth.domain import (
    BITS,
    PER_UNIT,
    Boolean,
    Box,
    Constant,
    Continuous,
    Date,
    Derived,
    Identifier,
    Kind,
    Nominal,
    Ordinal,
    Schema,
    Text,
    Times,
    UnknownBounds,
    compute_columns,
    keys_of,
    list_names,
    name_repr,
    times_given,
    written_kind,
)
from skdpsynth.frames import (
    INFERRED,
    TableKind,
    cast,
    decimal_of,
    dtype_advice,
    family_of,
    frame_of,
    holds_some,
    number_dtype,
    numpy_dtype,
    pandas_dtype,
    pandas_numbers,
    range_of,
    time_of,
    values_of,
    without_categories,
)
from skdpsynth.persistence import savable
from skdpsynth.tables._cells import is_word, kind_out
from skdpsynth.tables._read_times import holds_times
from skdpsynth.tables._write import array_out, column_out, dtype_of_labels, holds_whole, moment_of


@savable
@dataclass(frozen=True)
class TableFormat:
    """Kind and schema of a table, never what it held: rows go back in it."""

    kind: TableKind
    schema: Any = None  # in the order of the columns; None: rows are floats of shape (n_samples, n_features)

    @property
    def library(self) -> str:
        """In which rows come back."""
        return self.kind.output_library

    @property
    def columns(self) -> tuple:
        """Names of the columns, or their numbers in an array."""
        return self.kind.columns

    @property
    def dtypes(self) -> tuple:
        """Names of dtypes, of each column."""
        return self.kind.dtypes

    def match(self, schema: Schema, buys: bool = False, are_inferred: bool = False) -> "TableFormat":
        """Return this with the schema in the order of the columns, or raise about names and dtypes.

        `buys`: whether private facts may be bought; `are_inferred`: as in `check_dtypes`.
        """
        if self.kind.names is None and any(isinstance(name, str) for name in schema):
            raise ValueError(
                "schema names columns, but X is an array without names; pass a data frame, or make the keys of schema column numbers."
            )
        schema = schema.ordered(self.columns)
        check_stated(schema, buys)
        check_dtypes(schema, self.dtypes, are_inferred)
        back = self._with_dtypes(map(without_categories, self.dtypes)).with_schema(schema)
        # By the dtypes that come back: those of pandas may follow from cells.
        return replace(back, schema=_with_dtype_facts(schema, back.dtypes))

    def with_schema(self, schema: Schema) -> "TableFormat":
        """Return this with a schema of its columns, in their order, and the dtypes in which they come back."""
        own = self if self.library != "pandas" else self._with_dtypes(map(dtype_back, schema.values(), self.dtypes))
        return replace(own, schema=schema)

    def _with_dtypes(self, dtypes: Any) -> "TableFormat":
        return replace(self, kind=replace(self.kind, dtypes=tuple(dtypes)))

    def fill(self, values: Any, start: int = 0, n_samples: int | None = None) -> Any:
        """Return rows, floats or with a schema columns as `read` gives them, in the caller's kind of table.

        `start` is the number of rows that came in batches before, after which labels of identifiers go on, and `n_samples` that of all
        batches; None: of this one.
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
                dtype = dtype_of_labels(dtype, n_samples or stop) if isinstance(kind, Identifier) else dtype
                back.append((name, np.arange(start + 1, stop + 1), kind, dtype))
        if self.library == "numpy":
            return array_out([column for _, column, _, _ in back], [kind for _, _, kind, _ in back], np.dtype(self.dtypes[0]))
        columns = [column_out(column, kind, self.library, dtype) for _, column, kind, dtype in back]
        return frame_of(columns, tuple(name for name, *_ in back), self.library)

    def specimen(self, n_features: int, n_samples: int) -> Any:
        """Return a table with all levels of all columns, and missing cells where there may be some: what `fill` gives has its dtypes."""
        if self.schema is None:
            return self._fill_numbers(np.zeros((1, n_features)))
        kinds = list(self.schema.coded.values())  # of what is computed, two rows show the dtype
        n_rows = max(2, *(getattr(kind, "n_codes", 0) for kind in kinds))
        return self.fill([_specimen(kind, n_rows) for kind in kinds], 0, n_samples)

    # Tables of numbers

    @property
    def _numbers(self) -> list[np.dtype]:
        """The numpy dtype of each column; of columns that are no numbers, float64."""
        return [np.dtype(float) if dtype is None else dtype for dtype in map(number_dtype, self.dtypes)]

    def box(self, bounds: Any, bits: int = BITS) -> Box:
        """Return the box of `bounds` for a table of numbers, or refuse them where a dtype can hold no number within them."""
        whole = [dtype.kind in "iub" for dtype in self._numbers]
        box = Box.from_bounds(bounds, len(self.columns), self.kind.names, bits, whole)
        for feature, (dtype, low, high) in enumerate(zip(self._numbers, box.low.tolist(), box.high.tolist(), strict=True)):
            if not holds_some(dtype, low, high):
                name = feature if self.kind.names is None else short_repr(self.columns[feature])
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
            never = np.zeros(len(rows), dtype=bool)
            targets = (np.dtype(float) if number_dtype(name) is None else pandas_dtype(values_of(name)) for name in self.dtypes)
            columns = [pandas_numbers(cells, never, False, target) for cells, target in zip(columns, targets, strict=True)]
        return frame_of(columns, self.columns, self.library)


def _specimen(kind: Any, n_rows: int) -> np.ndarray:
    if isinstance(kind, Continuous):
        column = np.full(n_rows, float(kind.low))
        column[-1] = np.nan if kind.nullable else kind.high
        return column
    return np.minimum(np.arange(n_rows), kind.n_codes - 1)


@contextmanager
def called(name: str) -> Iterator[None]:
    """Say in errors, which say X, which table does not fit."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise type(error)(str(error) if name == "X" else f"with {name} as X: {error}") from None


def check_stated(schema: Schema, buys: bool = False) -> None:
    """Refuse bounds and levels that are not stated; but for numbers and nominal levels that are private, if those are bought."""
    open_columns = [name for name, kind in schema.items() if kind.unstated == "open"]
    if len(open_columns) > 1:
        raise ValueError(
            f"schema of columns {list_names(open_columns, len(open_columns))} has open bounds or levels, which are still to be written; "
            "give (low, high) or a list to each: public facts, never learned from rows."
        )
    for name, kind in schema.items():
        if kind.unstated is None or (buys and kind.unstated == "private" and isinstance(kind, Continuous | Nominal)):
            continue
        fact, example = ("levels", "a list") if hasattr(kind, "levels") else ("bounds", "(low, high)")
        if getattr(kind, "format", None) == "open":
            fact, example = "format", "one such as 'dd/mm/yyyy'"
        way = f"which is not supported here; give {example} that are public."
        if kind.unstated == "open":
            way = f"which are still to be written; give {example}: public facts, never learned from rows."
        raise ValueError(f"schema of column {name_repr(name)} has {kind.unstated} {fact}, {way}")


def check_synthesized(schema: Schema) -> None:
    """Refuse columns that can only be left out, where nobody has said so."""
    for name, kind in schema.items():
        if isinstance(kind, Text):
            raise ValueError(
                f"schema of column {name_repr(name)} is Text, which is not synthesized; drop the column from X and from schema, or say "
                "Identifier() to leave it out of samples."
            )


def _with_dtype_facts(schema: Schema, dtypes: Sequence[str]) -> Schema:
    """Return a schema with what dtypes say of numbers: that those whose bounds are to be bought are whole, and decimals."""
    more: dict[Any, Any] = {}
    for (name, kind), dtype in zip(schema.items(), dtypes, strict=True):
        plain, decimal = number_dtype(dtype), decimal_of(dtype)
        if plain is None or not isinstance(kind, Continuous) or kind.integer or kind.unit is not None:
            continue
        if kind.unstated and plain.kind in "iub":
            more[name] = replace(kind, integer=True)
        elif decimal is not None:
            more[name] = replace(kind, decimals=decimal[1])
    return schema.with_kinds({**schema, **more}) if more else schema


def check_room(table: TableFormat) -> None:
    """Refuse a column of numbers whose dtype, in which it comes back, can hold none within its bounds; of a key, not all."""
    keys = {name for names in keys_of(table.schema.rules, table.schema) for name in names} if table.schema.rules else ()
    for (name, kind), dtype in zip(table.schema.items(), table.dtypes, strict=True):
        plain, time = number_dtype(dtype), time_of(dtype)
        if name in keys and (room := _lacks_room(kind, dtype)):
            raise TypeError(
                f"column {name_repr(name)} is in a Unique of schema, but its dtype, {room[0]}, cannot hold all values that it "
                f"may have, so that some would be equal; convert it to {room[1]}, or narrow what schema says of it."
            )
        if isinstance(kind, Times) and time is not None and not holds_times(kind, time[0]):
            what = f"dtype {dtype}, which can hold no time within its bounds in schema"
        elif isinstance(kind, Continuous) and not kind.unstated and plain is not None and not holds_some(plain, kind.low, kind.high):
            ends = f"({short_repr(kind.low)}, {short_repr(kind.high)})"
            what = f"dtype {plain.name}, which can hold no number within its bounds in schema, {ends}"
        else:
            continue
        raise TypeError(f"column {name_repr(name)} has {what}; convert the column, or correct the bounds.")


def _lacks_room(kind: Any, dtype: str) -> tuple[str, str] | None:
    """Return a dtype in which two values of a column may come back as one, and a better one; None if it holds all apart."""
    time, plain = time_of(dtype), number_dtype(dtype)
    if isinstance(kind, Times):
        if time is not None:
            return (dtype, "datetime64[us]") if PER_UNIT.get(time[0], 1) > kind.microseconds else None
        return (f"that of text in the form {kind.format}", "days") if kind.months else None
    is_number = isinstance(kind, Continuous)
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
            if isinstance(kind, Identifier | Constant) or (dtype in ("float64", "<f8") and _holds_no_floats(kind)):
                continue
        check_dtype(name, kind, dtype)


def _holds_no_floats(kind: Kind) -> bool:
    """Whether a column has times, or words as its levels."""
    return isinstance(kind, Times) or (isinstance(kind, Nominal | Ordinal) and kind.unstated is None and all(map(is_word, kind.levels)))


def check_dtype(name: Any, kind: Kind, dtype: str) -> None:
    """Refuse a dtype in which nothing of a kind would be found."""
    if misfit := _misfit(kind, dtype, family_of(dtype)):
        raise TypeError(f"column {name_repr(name)} {misfit}.")


def _misfit(kind: Kind, dtype: str, family: str) -> str | None:
    """Return what is wrong with a dtype, and the way out; None if the kind would be found in it."""
    if isinstance(kind, Identifier) and isinstance(kind.labels, str) and family not in ("text", "any"):
        labels = f"{kind.labels + '1'!r} and so on of schema"
        return f"has dtype {dtype}, which cannot hold the labels {labels}; say Identifier(labels=True) for plain numbers"
    if isinstance(kind, Derived):
        if kind.gives is not None:
            return _misfit_of_times(times_given(kind, has_zone=_zone_of(dtype) is not None), dtype, family)
        is_number = family in ("number", "any") or dtype == "str"
        way = "convert it, or leave it out of the table"
        return None if is_number else f"is Derived and comes back as numbers, got dtype {dtype}; {way}"
    if isinstance(kind, Constant):
        if family in ("other", "time of day", "duration") or (family == "time" and moment_of(kind.value) is None):
            return f"has dtype {dtype}, which cannot hold its Constant of schema; correct the value"
        return None if family == "time" else _misfit_of_levels(kind_out(kind, dtype), dtype, family)
    if kind.coded is None:
        return None
    if family == "other":
        way = dtype_advice(dtype) or "convert it"
        return f"must hold numbers, strings, booleans or times, got dtype {dtype}; {way}, or say Identifier()"
    if isinstance(kind, Times) or family in _TIME_KINDS:
        return _misfit_of_times(kind, dtype, family)
    return None if isinstance(kind, Continuous | Boolean) or kind.unstated is not None else _misfit_of_levels(kind, dtype, family)


_TIME_KINDS = {"time": "Date(low, high) or DateTime(low, high)", "time of day": "TimeOfDay()", "duration": "Duration(low, high)"}


def _zone_of(dtype: str) -> str | None:
    return (time_of(dtype) or ("", None))[1]


def _misfit_of_times(kind: Any, dtype: str, family: str) -> str | None:
    if family in _TIME_KINDS and family != getattr(kind, "family", ""):
        return f"has dtype {dtype}, but is {kind.to_keys()['kind']} in schema; say {_TIME_KINDS[family]}, or convert it"
    if family == "number":
        width = kind.form.width if kind.form is not None else 0
        if width and holds_whole(numpy_dtype(dtype), 10.0**width - 1):
            return None
        way = "whole numbers of more bits" if width else "times, or say in format how whole numbers hold them, or give numbers as bounds"
        return f"is {type(kind).__name__} in schema, but has dtype {dtype}; convert it to {way}"
    zone = _zone_of(dtype)
    if family != "time" or (isinstance(kind, Date) and zone is None):
        return None
    if zone is not None and dtype.startswith("datetime64") and not _is_dtype(dtype):
        return f"has dtype {dtype}, whose time zone has no name by which it could come back; convert it by .dt.tz_convert('UTC')"
    if isinstance(kind, Date):
        way = "say DateTime with bounds that have an offset, such as '2020-01-31T00:00+00:00', or convert the column to dates"
        return f"has dtype {dtype}, in which a day depends on the time zone, but is Date in schema; {way}"
    if (zone is None) == (kind.zone is None):
        return None
    has, way = ("no time zone", "without an offset") if zone is None else ("a time zone", "with one, such as '2020-01-31T00:00+00:00'")
    return f"has dtype {dtype}, which has {has}, unlike its bounds in schema; write the bounds {way}, or convert the column"


def _is_dtype(name: str) -> bool:
    try:
        return pandas_dtype(name) is not None
    except Exception:  # each version of pandas says it in its own way
        return False


def _misfit_of_levels(kind: Any, dtype: str, family: str) -> str | None:
    is_text = family == "text"
    if family == "any" or dtype == "str" or all(is_word(level) == is_text for level in kind.levels):
        return None
    way = "write them as they stand in the table, or read the column as text, as codes such as 01067 need (value labels: labels in read)"
    what, way = ("strings", "write all in quotes") if is_text else ("numbers", way)
    return f"has dtype {dtype}, but its levels in schema are not all {what}, so they would not be found; {way}"


def dtype_back(kind: Any, dtype: str) -> str:
    """Return the dtype in which a column comes back to pandas.

    There int64, uint64, float64, bool, object and str follow from the cells, so in their place the schema alone says what comes back
    (objects, of levels that are still to be bought). All others are the caller's choice, and stay, but that text under `Continuous`
    becomes numbers.
    """
    if isinstance(kind, Continuous) and family_of(dtype) == "text" and not dtype.startswith("category"):
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
    """Return the dtype that pandas takes for words."""
    import pandas as pd

    return str(pd.Series(["a"]).dtype)
