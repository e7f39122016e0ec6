"""Open the table that a caller gives as the rows of an estimator, with what is public about them, or is bought."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator

from skdpsynth._sklearn import check_finite, remember_columns, validate_rows
from skdpsynth.domain import (
    PLACEHOLDER,
    Boolean,
    Box,
    ColumnKind,
    Constant,
    Continuous,
    Derived,
    Nominal,
    Ordinal,
    Schema,
    SchemaLike,
    Text,
    Times,
    UnknownBounds,
    name_repr,
    with_placeholder_bounds,
)
from skdpsynth.frames import (
    MISSING_WORDS,
    Chunk,
    ChunkedSource,
    Column,
    Rows,
    Source,
    Table,
    TableKind,
    Unit,
    column_names,
    concatenate,
    frame_of,
    is_pandas,
    open_source,
    parse_dtype,
    range_of,
    split_columns,
    table_of_numbers,
)
from skdpsynth.persistence import savable
from skdpsynth.tables._cells import cells_of, has_numbers, is_sentinel, level_cells, missing_forms, numbers_of, read_levels, with_points
from skdpsynth.tables._read_times import read_times
from skdpsynth.tables._table import TableFormat, check_dtypes, check_room, inferred_of_text, name_table_in_errors

_MOST_VALUES = 1 << 29  # that are gathered: 4 GiB

OTHER = "other"  # the level of a text that is not shown, where none may be missing
_MOST_WHOLE = 2.0**53  # whole numbers beyond it are not all floats


@savable
@dataclass(frozen=True)
class ReadNumbers:
    n_features: int
    allow_nan: bool = False  # whether NaN and infinity may stand in cells; else they are refused
    is_text: bool = False  # whether cells are text; what reads as no number is NaN
    decimal: str = "."  # marks in text, as `with_points` takes them

    def __call__(self, chunk: Table) -> Chunk:
        if self.is_text:
            _, raw = split_columns(chunk, self.is_text)
            _check_width(len(raw), self.n_features)
            return np.column_stack([numbers_of(each, self.decimal) for each in raw])
        table = table_of_numbers(chunk)
        numbers: Any = table.tocsr() if issparse(table) else np.asarray(table if isinstance(table, np.ndarray) else table.to_numpy())
        _check_width(numbers.shape[1], self.n_features)
        if not self.allow_nan:
            check_finite(numbers.data if issparse(numbers) else numbers)
        return numbers


@savable
@dataclass(frozen=True)
class ClipToBounds:
    """Make rows finite that were read from text: the midpoint of a column in place of NaN, a bound in place of an infinity."""

    low: tuple[float, ...]  # infinite for columns whose bounds are still to be bought, which stay as they are
    high: tuple[float, ...]

    @classmethod
    def within(cls, box: Box, unknown: tuple[int, ...] = ()) -> "ClipToBounds":
        """Return what makes rows finite within a box, but for unknown columns."""
        low, high = box.low.astype(float), box.high.astype(float)  # copies
        low[list(unknown)], high[list(unknown)] = -np.inf, np.inf
        return cls(tuple(low.tolist()), tuple(high.tolist()))

    @np.errstate(all="ignore")
    def __call__(self, chunk: Table) -> Chunk:
        low, high = np.array(self.low), np.array(self.high)
        filled = np.where(np.isnan(chunk), low / 2 + high / 2, chunk)
        return np.where(np.isinf(filled), np.clip(filled, low, high), filled)


@savable
@dataclass(frozen=True)
class ReadValues:
    """Read chunks of a mixed table as lists of columns of floats and codes, by a schema in the order of its columns."""

    schema: Schema
    is_text: bool = False
    decimal: str = "."  # marks in text, as `with_points` takes them

    def __call__(self, chunk: Table) -> Chunk:
        kind, raw = split_columns(chunk, self.is_text)
        _check_width(len(raw), len(self.schema))
        return read_columns(raw, self.schema, kind.dtypes, self.is_text, self.decimal)


@savable
@dataclass(frozen=True)
class ReorderColumns:
    places: tuple[int, ...]

    def __call__(self, chunk: Chunk) -> Chunk:
        return [chunk[place] for place in self.places]


def _open_numbers(estimator: BaseEstimator, X: Table, least: int, *, reset: bool, allow_nan: bool = False) -> tuple[TableKind, Rows]:
    """Return the columns and dtypes of a table of numbers, and its rows: in memory checked whole, of any other table as they are read."""
    source = open_source(X, **reading_options(estimator))
    head, n_jobs = _head_of_numbers(source) if source.is_text else source.head, getattr(estimator, "n_jobs", None)
    least = least if source.in_memory else 0
    numbers = validate_rows(estimator, head, reset=reset, ensure_min_samples=least, allow_nan=allow_nan)
    has_dtypes = hasattr(head, "dtype") or column_names(head) is not None
    kind = TableKind.of(head if has_dtypes else numbers[:0].astype(float))
    if source.in_memory:
        return kind, Rows.of(numbers, n_jobs=n_jobs)
    as_arrays = ReadNumbers(numbers.shape[1], allow_nan, source.is_text, source.decimal)
    return kind, Rows(source, numbers.shape[1], source.n_samples, (as_arrays,), n_jobs, numbers.dtype)


def _head_of_numbers(source: ChunkedSource) -> Any:
    """Return the columns of text for scikit-learn, as floats where nothing else is stated."""
    names = source.kind.columns
    return frame_of([np.empty(0, dtype=source.number_dtypes.get(name, float)) for name in names], names, source.library)


def open_numbers(estimator: BaseEstimator, X: Table, ensure_min_samples: int = 1) -> tuple[TableFormat, Rows]:
    """Check a table of numbers in ``fit``, and let the estimator remember its columns."""
    kind, rows = _open_numbers(estimator, X, ensure_min_samples, reset=True)
    return TableFormat(kind), rows


def continue_numbers(estimator: BaseEstimator, X: Table, ensure_min_samples: int = 1) -> Rows:
    """Check a table of numbers after ``fit``, whose columns must be those of the fit; of one in memory, that it has enough rows."""
    _, rows = _open_numbers(estimator, X, ensure_min_samples, reset=False)
    if not rows.source.is_text:
        return rows
    return rows.map(ClipToBounds.within(estimator._container.box(vars(estimator).get("bounds_", estimator.bounds))))


def reading_options(estimator: BaseEstimator, unit: Unit = None) -> dict[str, Any]:
    """Return what `open_source` must know of an estimator: how files are read, which columns, and whether the number of rows is private."""
    schema, bounds = getattr(estimator, "schema", None), getattr(estimator, "bounds", None)
    schema = None if schema is None else Schema.of(schema)
    wanted = bounds if schema is None and isinstance(bounds, Mapping) else schema
    return {
        "read": schema and schema.read,
        "skips_damaged": getattr(estimator, "neighboring", "replace_one") != "replace_one",
        "wanted": None if wanted is None else [*wanted, *getattr(estimator, "_unstated", ()), *[unit] * isinstance(unit, str)],
    }


def split_under(source: Any, schema: Schema) -> tuple[TableKind, list[Any]]:
    """Return the kind of a table and, of one in memory, its columns; text has the dtypes that the schema says, since it has none."""
    if not source.is_text:
        return split_columns(source.head)
    anything, text = ("object", inferred_of_text()) if source.library == "pandas" else ("Unknown", "String")
    holds_all = Boolean | Constant | Continuous | Derived | Nominal | Ordinal
    kinds = (schema.get(name) for name in source.columns)
    dtypes = (anything if isinstance(kind, holds_all) and not getattr(kind, "gives", None) else text for kind in kinds)
    return TableKind(source.library, source.columns, tuple(dtypes)), []


def check_no_text(schema: Schema) -> None:
    for name, each in schema.items():
        if isinstance(each, Text):
            raise ValueError(
                f"schema of column {name_repr(name)} is Text, which is not synthesized; drop the column from X and from schema, or say "
                "Identifier() to leave it out of samples."
            )


def infers_dtypes(source: Source) -> bool:
    """Whether dtypes follow from cells, as those of pandas and of chunks of arrays, and no file or database declares them."""
    library = getattr(source, "kind", TableKind.of(source.head)).library if not source.in_memory or is_pandas(source.head) else ""
    return library in ("pandas", "numpy")


def start_table(estimator: BaseEstimator, X: Table, ensure_min_samples: int = 1) -> tuple[TableFormat, Rows]:
    """Open a table in ``fit``, and let the estimator remember its columns; chunks are lists of columns, as `read_columns` gives them.

    Without a schema NaN may stand in numbers where the tag ``allow_nan`` of the estimator says so. Only a table in memory is checked for
    having enough rows.
    """
    buys = getattr(estimator, "_buys_facts", False)
    if estimator.schema is None:
        # All columns are numbers within the bounds of the estimator.
        allow_nan = estimator.__sklearn_tags__().input_tags.allow_nan
        kind, rows = _open_numbers(estimator, X, ensure_min_samples, reset=True, allow_nan=allow_nan)
        table = TableFormat(kind)
        bounds, columns = with_placeholder_bounds(estimator.bounds, rows.n_features, kind.names) if buys else (estimator.bounds, ())
        box = table.box(bounds)
        kinds = dict(schema_of_box(box, table.columns))
        for column in columns:
            kinds[table.columns[column]] = Continuous(bounds="private", integer=bool(box.whole[column]))
        table = table.match(Schema(kinds), buys)
        return table, rows.map(ReadValues(table.schema), len(kinds)).materialize()
    source, schema = open_source(X, **reading_options(estimator)), Schema.of(estimator.schema)
    kind, raw = split_under(source, schema)
    table = TableFormat(kind).match(schema, buys, infers_dtypes(source))
    check_no_text(table.schema)
    check_room(table)
    # They have no use beside a schema, but nonsense would pass unnoticed.
    if estimator.bounds is not None:
        Box.from_bounds(estimator.bounds, len(table.columns), kind.names)
    remember_columns(estimator, _head_of_numbers(source) if source.is_text else source.head, reset=True)
    return table, _rows_of(source, raw, table.schema, kind.dtypes, getattr(estimator, "n_jobs", None), ensure_min_samples)


def continue_table(estimator: BaseEstimator, X: Table, ensure_min_samples: int = 1, are_inferred: bool = False) -> Rows:
    """Open a table after ``fit``, whose columns are known by their place; chunks are lists of columns, as `read_columns` gives them.

    `are_inferred`: see `check_dtypes`.
    """
    schema = estimator.schema_
    if estimator.schema is None:
        _, rows = _open_numbers(estimator, X, ensure_min_samples, reset=False, allow_nan=estimator.__sklearn_tags__().input_tags.allow_nan)
        return rows.map(ReadValues(schema), len(schema.coded))
    source = open_source(X, **reading_options(estimator))
    kind, raw = split_under(source, schema)
    kept = {name: each for name, each in schema.items() if each.coded is not None or name in schema.sources}
    if len(kept) < len(schema) and kind.width == len(kept) and (kind.names is None or list(kind.columns) == list(kept)):
        schema = schema.arrange(kept)  # identifiers are never read: a sample, which is without them, will do
    else:
        remember_columns(estimator, _head_of_numbers(source) if source.is_text else source.head, reset=False)
    if kind.names is not None and kind.columns != tuple(schema) and not any(isinstance(name, str) for name in kind.columns):
        # Names that are strings scikit-learn has compared.
        raise ValueError("X must have the columns that fit got, in their order; select them by X[list(schema_)].")
    check_dtypes(schema, kind.dtypes, are_inferred or infers_dtypes(source))
    return _rows_of(source, raw, schema, kind.dtypes, None, ensure_min_samples)


def _rows_of(source: Source, raw: list[Any], schema: Schema, dtypes: tuple, n_jobs: int | None, least: int) -> Rows:
    if not source.in_memory:
        return Rows(source, len(schema.coded), source.n_samples, (ReadValues(schema, source.is_text, source.decimal),), n_jobs)
    check_enough(len(raw[0]) if raw else 0, least)
    return Rows.of(read_columns(raw, schema, dtypes), n_jobs=n_jobs)


def open_columns(X: Table, schema: Schema, name: str = "X", buys: bool = False) -> Rows:
    """Open a table by its schema alone; chunks are lists of columns, as `read_columns` gives them, in the order of the schema.

    `buys`: whether bounds and levels of the schema may be private, which are still to be bought. Whether a table that is not in memory has
    rows the caller must check.
    """
    source = open_source(X, name, read=schema.read)
    with name_table_in_errors(name):
        kind, raw = split_under(source, schema)
        own = TableFormat(kind).match(schema, buys).schema
    columns = list(own.coded)
    places = tuple(columns.index(column) for column in schema if column in columns)
    if source.in_memory:
        if not len(raw[0]):
            raise ValueError(f"{name} must have at least one row, got none; pass a table with rows.")
        values = read_columns(raw, own, kind.dtypes)
        return Rows.of([values[place] for place in places])
    maps = ReadValues(own, source.is_text, source.decimal), ReorderColumns(places)
    return Rows(source, len(places), source.n_samples, maps)


def columns_of(X: Table, schema: SchemaLike, name: str = "X") -> dict[Any, np.ndarray]:
    schema = Schema.of(schema)
    return dict(zip(schema.coded, open_columns(X, schema, name).collect(), strict=True))


@np.errstate(all="ignore")  # a warning would tell of values
def read_columns(
    raw: Sequence[Any], schema: Schema, dtypes: Sequence[str], is_text: bool = False, decimal_mark: str = "."
) -> list[np.ndarray]:
    """Return the columns that mechanisms see of raw ones, in the order of the schema, as floats and codes.

    Numbers are clipped (whole ones rounded first), what is no number and unknown levels are missing. Where nothing may be missing, a
    missing number becomes the midpoint and a missing level the first. No message depends on a cell, and nothing of the process is
    changed meanwhile: tables may be read in threads. Where bounds or levels are to be bought, numbers are not clipped, and levels stand as
    they are: `ApplyPrivateFacts` does the rest. In cells of a text file (`is_text`) some words stand for missing cells.
    """
    columns = zip(schema.items(), raw, dtypes, strict=True)
    return [read_column(column, kind, dtype, is_text, decimal_mark) for (name, kind), column, dtype in columns if schema.is_coded(name)]


def read_column(column: Column, kind: ColumnKind, dtype: str, is_text: bool = False, decimal_mark: str = ".") -> np.ndarray:
    if isinstance(kind, Continuous):
        x = numbers_of(column, decimal_mark)
        if kind.missing:
            x[is_sentinel(x, kind, dtype)] = np.nan
        if kind.integer:
            np.rint(x, out=x)
        if kind.stand_in is None:
            np.clip(x, kind.low, kind.high, out=x)
            if not kind.nullable:
                x[np.isnan(x)] = kind.midpoint
        return x
    if kind.stand_in is not None:
        found, words = level_cells(cells_of(column)), {*(MISSING_WORDS if is_text else ()), *missing_forms(kind.missing)}
        if words:
            found[:] = [None if level in words else level for level in found.tolist()]
        return found
    if isinstance(kind, Times):
        x = read_times(column, kind, dtype)
        if not kind.nullable:
            x[np.isnan(x)] = kind.coded.midpoint
        return x
    return read_levels(with_points(column, decimal_mark) if has_numbers(kind) else column, kind, dtype, is_text)


def collect_arrays(rows: Rows) -> Any:
    """Return the arrays that maps make of rows as one; a table that is not in memory and makes more than memory may hold is refused."""
    if rows.source.in_memory:
        return rows.collect()
    parts, n_values = [], 0
    for part in rows.chunks():
        parts.append(part)
        n_values += part.size
        if n_values > _MOST_VALUES:
            raise ValueError(f"X makes more than {_MOST_VALUES} numbers, which would fill the memory; give it a chunk at a time.")
    check_enough(n_values, 1)
    return concatenate(parts, rows.n_features)


def check_enough(n_samples: int, least: int) -> None:
    if n_samples < least:
        raise ValueError(f"Found array with {n_samples} sample(s) while a minimum of {least} is required.")


def _check_width(n_columns: int, wanted: int) -> None:
    if n_columns != wanted:
        raise ValueError(f"X must have {wanted} columns in every chunk, got one of {n_columns}; read the same columns everywhere.")


def schema_of_box(box: Box, names: Sequence[Hashable] | None) -> Schema:
    """Return the schema of numbers in a box; names of None are column numbers."""
    kinds = {}
    names = range(box.n_features) if names is None else names
    for name, low, high, whole in zip(names, box.low.tolist(), box.high.tolist(), box.whole.tolist(), strict=True):
        whole = whole and low.is_integer() and high.is_integer() and max(abs(low), abs(high)) <= 2**53
        kinds[name] = Continuous(low, high, integer=whole)
    return Schema(kinds)


def columns_without_bounds(schema: Schema, dtypes: Sequence[str]) -> UnknownBounds | None:
    """Return what is public about the columns of numbers whose bounds are to be bought, of a schema of coded kinds; None without any."""
    columns = {place: kind for place, kind in enumerate(schema.values()) if isinstance(kind, Continuous) and kind.stand_in}
    if not columns:
        return None
    numbers = [parse_dtype(dtypes[i]).number for i in columns]
    ranges = [(-np.inf, np.inf) if number is None else range_of(number) for number in numbers]
    whole = np.array([bool(kind.integer) for kind in columns.values()])
    least, most = np.array(ranges).T
    least, most = np.where(whole, np.maximum(least, -_MOST_WHOLE), least), np.where(whole, np.minimum(most, _MOST_WHOLE), most)
    return UnknownBounds(tuple(columns), least, most, whole)


def with_placeholder_kinds(schema: Schema, n_levels: int) -> Schema:
    """Return a schema with (-1, 1) for bounds that are to be bought, and as many levels for levels."""
    kinds = dict(schema)
    for name, kind in schema.items():
        if kind.stand_in and isinstance(kind, Continuous):
            kinds[name] = with_bounds(kind, *PLACEHOLDER)
        elif kind.stand_in:
            kinds[name] = Nominal(range(n_levels), nullable=kind.nullable)
    return schema.with_kinds(kinds)


def close_schema(schema: Schema, dtypes: Sequence[str], bought: Mapping[int, Any]) -> "tuple[Schema, ApplyPrivateFacts]":
    """Return a schema with bounds and levels that were bought, by the places of its coded columns, and the map that reads rows so."""
    names, dtype_of, kinds = list(schema.coded), dict(zip(schema, dtypes, strict=True)), {}
    for place, fact in bought.items():
        kind, dtype = schema.coded[names[place]], dtype_of[names[place]]
        kinds[place] = with_bounds(kind, *fact) if isinstance(kind, Continuous) else with_levels(kind, fact, dtype)
    return schema.with_kinds({**schema, **{names[place]: kind for place, kind in kinds.items()}}), ApplyPrivateFacts(kinds)


def with_bounds(kind: Continuous, low: float, high: float) -> Continuous:
    low, high = (int(low), int(high)) if kind.integer else (float(low), float(high))
    try:
        return replace(kind, low=low, high=high, bounds=None)
    except ValueError:  # no multiple of its step lies within them
        return replace(kind, low=low, high=high, bounds=None, decimals=None, step=None)


def with_levels(kind: Nominal, found: Sequence[Any], dtype: str) -> Nominal:
    """Return a kind with some levels; what is not among them counts as missing, or as the first.

    A column of texts in which none may be missing has "other" for that, as its first level, whether or not there is any. Where fewer than
    two levels are left, made-up ones complete them.
    """
    # Where a dtype tells nothing of its cells, what was bought does.
    family = parse_dtype(dtype).family
    is_number = family == "number" or (family == "any" and found and not any(isinstance(each, str) for each in found))
    levels = list(found) if is_number or kind.nullable else [OTHER, *(level for level in found if level != OTHER)]
    for more in (0, 1) if is_number else (OTHER, "none"):
        if len(levels) < 2 and more not in levels:
            levels.append(more)
    groups = kind.groups if all(isinstance(level, str) for level in levels) else None
    return Nominal(levels, nullable=kind.nullable, groups=groups, missing=[each for each in kind.missing if each not in levels])


@savable
@dataclass(frozen=True, eq=False)
class ApplyPrivateFacts:
    """Columns that were read without bounds or levels, as `read_columns` gives them by the kinds that were bought."""

    kinds: Mapping[int, Any]  # by the place of the column

    @np.errstate(all="ignore")  # a warning would tell of a value
    def __call__(self, chunk: Chunk) -> Chunk:
        chunk = list(chunk)
        for i, kind in self.kinds.items():
            if isinstance(kind, Continuous):
                x = np.clip(chunk[i], kind.low, kind.high)
                chunk[i] = x if kind.nullable else np.where(np.isnan(x), kind.midpoint, x)
            else:
                codes, fallback = {level: code for code, level in enumerate(kind.levels)}, len(kind.levels) if kind.nullable else 0
                chunk[i] = np.array([codes.get(level, fallback) for level in chunk[i].tolist()], dtype=np.int32)
        return chunk
