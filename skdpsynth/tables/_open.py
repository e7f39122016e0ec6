"""How the table that a caller gives becomes the rows of an estimator, with what is public about them."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import issparse

from skdpsynth._sklearn import check_finite, remember_columns, validate_rows
from skdpsynth.domain._box import Box
from skdpsynth.domain._kinds import Continuous
from skdpsynth.domain._private_bounds import with_placeholder_bounds
from skdpsynth.domain._schema import Schema
from skdpsynth.frames import Chunk, Rows, concatenate, open_source, table_of_numbers
from skdpsynth.persistence import savable
from skdpsynth.tables._check_dtypes import check_dtypes
from skdpsynth.tables._container import Container
from skdpsynth.tables._private_facts import with_whole
from skdpsynth.tables._read import read
from skdpsynth.tables._table import MixedTable, check_room, check_synthesized, columns_of, read_and_match, read_table

_MOST_VALUES = 1 << 29  # that are gathered: 4 GiB


@savable
@dataclass(frozen=True)
class ReadNumbers:
    """Chunks of a table of numbers as arrays: those of rows that a fit takes.

    Attributes
    ----------
    n_features : int
    allow_nan : bool
        Whether NaN and infinity may stand in cells; else they are refused.
    """

    n_features: int
    allow_nan: bool = False

    def __call__(self, chunk: Any) -> Chunk:
        table = table_of_numbers(chunk)
        numbers: Any = table.tocsr() if issparse(table) else np.asarray(table if isinstance(table, np.ndarray) else table.to_numpy())
        _check_width(numbers.shape[1], self.n_features)
        if not self.allow_nan:
            check_finite(numbers.data if issparse(numbers) else numbers)
        return numbers


@savable
@dataclass(frozen=True)
class ClipToBounds:
    """Rows of finite numbers, from text: the midpoint of a column where there is no number, a bound in place of an infinity.

    Attributes
    ----------
    low, high : tuple of float
        Bounds; infinite for columns whose bounds are still to be bought, which stay as they are.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]

    @classmethod
    def within(cls, box: Box, unknown: tuple[int, ...] = ()) -> "ClipToBounds":
        """Return what makes rows finite within a box, but for unknown columns."""
        ends = [(-np.inf, np.inf) if place in unknown else ends for place, ends in enumerate(zip(box.low, box.high, strict=True))]
        return cls(tuple(float(low) for low, _ in ends), tuple(float(high) for _, high in ends))

    @np.errstate(all="ignore")
    def __call__(self, chunk: Any) -> Chunk:
        low, high = np.array(self.low), np.array(self.high)
        filled = np.where(np.isnan(chunk), low / 2 + high / 2, chunk)
        return np.where(np.isinf(filled), np.clip(filled, low, high), filled)


@savable
@dataclass(frozen=True)
class ReadValues:
    """Chunks of a mixed table as lists of columns of floats and codes.

    Attributes
    ----------
    schema : Schema
        In the order of the columns.
    """

    schema: Schema

    def __call__(self, chunk: Any) -> Chunk:
        table, raw = read_table(chunk)
        _check_width(len(raw), len(self.schema))
        return read(raw, self.schema, table.dtypes)


@savable
@dataclass(frozen=True)
class ReorderColumns:
    """Lists of columns in another order.

    Attributes
    ----------
    places : tuple of int
        The place of each column to come.
    """

    places: tuple[int, ...]

    def __call__(self, chunk: Chunk) -> Chunk:
        return [chunk[place] for place in self.places]


@savable
@dataclass(frozen=True)
class NumbersAsValues:
    """Arrays of numbers as lists of columns, clipped to the bounds of a schema."""

    schema: Schema

    def __call__(self, chunk: Any) -> Chunk:
        return read(list(chunk.T), self.schema, (chunk.dtype.str,) * len(self.schema))


def open_numbers(estimator: Any, X: Any, ensure_min_samples: int = 1) -> tuple[Container, Rows]:
    """Check a table of numbers in ``fit``, and let the estimator remember its columns.

    A table in memory is checked whole. Of any other only columns and dtypes are looked at here: its cells are checked as they are read.

    Parameters
    ----------
    estimator : estimator
    X : array-like, data frame or any table that `open_source` knows
    ensure_min_samples : int, default=1
        Of a table in memory; who counts others must check it.

    Returns
    -------
    container : Container
    rows : Rows
    """
    source, n_jobs = open_source(X, **reading_options(estimator)), getattr(estimator, "n_jobs", None)
    if source is None:
        container = Container.of(X)
        return container, Rows.held(validate_rows(estimator, X, reset=True, ensure_min_samples=ensure_min_samples), n_jobs=n_jobs)
    container = Container.of(source.head)
    dtype = validate_rows(estimator, source.head, reset=True, ensure_min_samples=0).dtype
    n_features = estimator.n_features_in_
    return container, Rows(source, n_features, source.n_samples, (ReadNumbers(n_features, source.is_text),), n_jobs, dtype)


def reading_options(estimator: Any) -> dict[str, Any]:
    """Return what `open_source` must know of an estimator: its schema and its relation."""
    schema = getattr(estimator, "schema", None)
    return {
        "schema": None if schema is None else Schema.of(schema),
        "neighboring": getattr(estimator, "neighboring", "replace_one"),
    }


def continue_numbers(estimator: Any, X: Any, ensure_min_samples: int = 1) -> Rows:
    """Check a table of numbers after ``fit``, whose columns must be those of the fit; of one in memory, that it has enough rows."""
    source, n_features = open_source(X, **reading_options(estimator)), estimator.n_features_in_
    if source is None:
        return Rows.held(validate_rows(estimator, X, reset=False, ensure_min_samples=ensure_min_samples))
    validate_rows(estimator, source.head, reset=False, ensure_min_samples=0)
    rows = Rows(source, n_features, source.n_samples, (ReadNumbers(n_features, source.is_text),))
    if not source.is_text:
        return rows
    bounds = vars(estimator).get("bounds_", estimator.bounds)
    return rows.map(ClipToBounds.within(estimator._container.box(bounds, n_features)))


def start_table(estimator: Any, X: Any, ensure_min_samples: int = 1) -> tuple[MixedTable, Rows]:
    """Open a table in ``fit``, and let the estimator remember its columns.

    Parameters
    ----------
    estimator : estimator with ``schema`` and ``bounds``
        NaN may stand in numbers without a schema where its tag ``allow_nan`` says so.
    X : array-like, data frame or any table that `open_source` knows
    ensure_min_samples : int, default=1
        Of a table in memory; who counts others must check it.

    Returns
    -------
    table : MixedTable
        With its schema, in the order of the columns.
    rows : Rows
        Chunks are lists of columns, as `read` gives them.
    """
    reading, n_jobs = reading_options(estimator), getattr(estimator, "n_jobs", None)
    source, schema = open_source(X, **reading), reading["schema"]
    head = X if source is None else source.head
    if schema is None:
        return _start_numbers(estimator, head, source, ensure_min_samples, n_jobs)
    given, raw = read_table(head)
    buys = getattr(estimator, "_buys_facts", False)
    table = given.match(schema, buys, floats_are_missing=source is not None)
    table = replace(table, schema=with_whole(table.schema, table.dtypes))
    check_synthesized(table.schema)
    check_room(table)
    # They have no use beside a schema, but nonsense would pass unnoticed.
    Box.from_bounds(estimator.bounds, len(table.columns), None if table.backend == "numpy" else table.columns)
    remember_columns(estimator, head, reset=True)
    _check_rows(raw, ensure_min_samples if source is None else 0)
    return table, _rows_of(source, raw, table.schema, given.dtypes, n_jobs)


def continue_table(estimator: Any, X: Any, ensure_min_samples: int = 1, floats_are_missing: bool = False) -> Rows:
    """Open a table after ``fit``, whose columns are known by their place; chunks are lists of columns, as `read` gives them.

    `floats_are_missing`: whether columns of words and times may come as floats; see `check_dtypes`.
    """
    schema = estimator.schema_
    source = open_source(X, **reading_options(estimator) | ({} if estimator.schema is None else {"schema": schema}))
    head = X if source is None else source.head
    if estimator.schema is None:
        allow_nan = _takes_nan(estimator)
        least = ensure_min_samples if source is None else 0
        numbers = validate_rows(estimator, head, reset=False, allow_nan=allow_nan, ensure_min_samples=least)
        return _rows_of_numbers(source, numbers, schema, allow_nan, None)
    table, raw = read_table(head)
    kept = {name: kind for name, kind in schema.items() if kind.coded is not None or name in schema.sources}
    if len(kept) < len(schema) and len(table.columns) == len(kept) and (table.backend == "numpy" or list(table.columns) == list(kept)):
        schema = schema.ordered(kept)  # identifiers are never read: a sample, which is without them, will do
    else:
        remember_columns(estimator, head, reset=False)
    if table.backend != "numpy" and table.columns != tuple(schema) and not any(isinstance(name, str) for name in table.columns):
        # Names that are strings scikit-learn has compared.
        raise ValueError("X must have the columns that fit got, in their order; select them by X[list(schema_)].")
    check_dtypes(schema, table.dtypes, floats_are_missing)
    _check_rows(raw, ensure_min_samples if source is None else 0)
    return _rows_of(source, raw, schema, table.dtypes, None)


def open_columns(X: Any, schema: Schema, name: str = "X", buys: bool = False) -> Rows:
    """Open a table by its schema alone; chunks are lists of columns, as `read` gives them, in the order of the schema.

    Parameters
    ----------
    X : array-like, data frame or any table that `open_source` knows
        At least one row, which of a table that is not in memory the caller must check.
    schema : Schema
        Of all columns of `X`.
    name : str, default="X"
        What the caller calls the table, for messages.
    buys : bool, default=False
        Whether bounds and levels of the schema may be private, which are still to be bought.
    """
    source = open_source(X, name, schema=schema)
    if source is None:
        return Rows.held(list(columns_of(X, schema, name, buys).values()))
    table, _ = read_and_match(source.head, schema, name, buys)
    columns = list(table.schema.coded)
    places = tuple(columns.index(column) for column in schema if column in columns)
    return Rows(source, len(places), source.n_samples, (ReadValues(table.schema), ReorderColumns(places)))


def collect_arrays(rows: Rows) -> Any:
    """Return the arrays that maps make of rows as one; a table that is not in memory and makes more than memory may hold is refused."""
    if rows.are_held:
        return rows.collected()
    parts, n_values = [], 0
    for part in rows.chunks():
        parts.append(part)
        n_values += part.size
        if n_values > _MOST_VALUES:
            raise ValueError(f"X makes more than {_MOST_VALUES} numbers, which would fill the memory; give it a chunk at a time.")
    check_enough(n_values, 1)
    return concatenate(parts, rows.n_features)


def _rows_of(source: Any, raw: list[Any], schema: Schema, dtypes: tuple, n_jobs: Any) -> Rows:
    if source is None:
        return Rows.held(read(raw, schema, dtypes), n_jobs=n_jobs)
    return Rows(source, len(schema.coded), source.n_samples, (ReadValues(schema),), n_jobs)


def _start_numbers(estimator: Any, head: Any, source: Any, least: int, n_jobs: Any) -> tuple[MixedTable, Rows]:
    """Do what `start_table` does for a table whose columns are all numbers within the bounds of the estimator."""
    allow_nan, buys = _takes_nan(estimator), getattr(estimator, "_buys_facts", False)
    numbers = validate_rows(estimator, head, reset=True, ensure_min_samples=least if source is None else 0, allow_nan=allow_nan)
    container, n_features = Container.of(head), numbers.shape[1]
    bounds, columns = with_placeholder_bounds(estimator.bounds, n_features, container.columns) if buys else (estimator.bounds, ())
    box = container.box(bounds, n_features)
    if container.backend == "numpy":
        table = MixedTable("numpy", tuple(range(n_features)), (container.dtypes[0].str,) * n_features)
    else:
        table, _ = read_table(head)
    kinds = dict(schema_of_box(box, table.columns))
    for column in columns:
        kinds[table.columns[column]] = Continuous(bounds="private", integer=bool(box.whole[column]))
    table = table.match(Schema(kinds), buys)
    return table, _rows_of_numbers(source, numbers, table.schema, allow_nan, n_jobs, table.dtypes)


def _rows_of_numbers(source: Any, numbers: np.ndarray, schema: Schema, allow_nan: bool, n_jobs: Any, dtypes: Any = None) -> Rows:
    if source is None:
        return Rows.held(read(list(numbers.T), schema, dtypes or (numbers.dtype.str,) * numbers.shape[1]), n_jobs=n_jobs)
    read_numbers = ReadNumbers(len(schema), allow_nan or source.is_text)
    return Rows(source, len(schema.coded), source.n_samples, (read_numbers, NumbersAsValues(schema)), n_jobs)


def _takes_nan(estimator: Any) -> bool:
    return estimator.__sklearn_tags__().input_tags.allow_nan


def _check_rows(raw: list[Any], least: int) -> None:
    """Refuse a table of no columns, or of too few rows."""
    check_enough(len(raw[0]) if raw else 0, least)


def check_enough(n_samples: int, least: int) -> None:
    """Refuse a table of too few rows."""
    if n_samples < least:
        raise ValueError(f"Found array with {n_samples} sample(s) while a minimum of {least} is required.")


def _check_width(n_columns: int, wanted: int) -> None:
    if n_columns != wanted:
        raise ValueError(f"X must have {wanted} columns in every chunk, got one of {n_columns}; read the same columns everywhere.")


def schema_of_box(box: Box, names: Any) -> Schema:
    """Return the schema of numbers in a box; names of None are column numbers."""
    kinds = {}
    names = range(box.n_features) if names is None else names
    for name, low, high, whole in zip(names, box.low.tolist(), box.high.tolist(), box.whole.tolist(), strict=True):
        whole = whole and low.is_integer() and high.is_integer() and max(abs(low), abs(high)) <= 2**53
        kinds[name] = Continuous(low, high, integer=whole)
    return Schema(kinds)
