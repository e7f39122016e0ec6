"""Mixed tables: their columns, dtypes and schema.

Read and written alike, a column is an array: floats with NaN for a missing cell (`Continuous`; of `Date` and `DateTime`, units since the
lower bound), or the numbers of its levels, where the number after the last stands for a missing cell (`Nominal`, `Ordinal`). Columns that
mechanisms do not see are not read.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdpsynth._arrays import as_array
from skdpsynth._state_validation import check_installed, is_of_type, require
from skdpsynth._validation import short_repr
from skdpsynth.domain._allowed_combinations import keys_of
from skdpsynth.domain._axes import PER_UNIT
from skdpsynth.domain._dates import MICROSECONDS, Times
from skdpsynth.domain._functional_dependencies import compute_columns, written_kind
from skdpsynth.domain._identifiers import Identifier, Text
from skdpsynth.domain._kinds import Continuous, Nominal, name_repr
from skdpsynth.domain._schema import Schema
from skdpsynth.frames import (
    check_table,
    column_names,
    eager_frame,
    family_of,
    frame_of,
    holds_some,
    is_arrow,
    is_pandas,
    numpy_dtype,
    pandas_dtype_name,
    plain_name,
    time_of,
    to_native,
    without_categories,
)
from skdpsynth.persistence import savable
from skdpsynth.tables._check_dtypes import check_dtypes
from skdpsynth.tables._read import read
from skdpsynth.tables._read_times import holds_times
from skdpsynth.tables._write import array_out, column_out, dtype_back, dtype_of_labels


@savable
@dataclass(frozen=True)
class MixedTable:
    """Kind, columns and dtypes of a mixed table: never what it held.

    Attributes
    ----------
    backend : str
        "numpy", or the data-frame library.
    columns : tuple
        Names, or numbers in an array.
    dtypes : tuple of str
        Of each column.
    schema : Schema or None
        In the order of the columns, once it was matched.
    """

    backend: Any
    columns: tuple
    dtypes: tuple
    schema: Any = None

    def _check_loaded(self) -> None:
        check_installed(self.backend)
        require(is_of_type(self.dtypes, tuple[str, ...]) and len(self.dtypes) == len(self.columns) == len(set(self.columns)) > 0)
        for dtype in self.dtypes:
            if family_of(dtype) == "number" and not dtype.startswith("category"):
                numpy_dtype(dtype)  # refuses what is none
        if self.schema is not None:
            require(isinstance(self.schema, Schema) and list(self.schema) == list(self.columns))
            self.specimen(len(self.columns), 2)

    def match(self, schema: Schema, buys: bool = False, floats_are_missing: bool = False) -> "MixedTable":
        """Return this with the schema in the order of the columns, or raise about names and dtypes.

        Parameters
        ----------
        schema : Schema
        buys : bool, default=False
            Whether private facts may be bought.
        floats_are_missing : bool, default=False
            As in `check_dtypes`.
        """
        if self.backend == "numpy" and any(isinstance(name, str) for name in schema):
            raise ValueError(
                "schema names columns, but X is an array without names; pass a data frame, or make the keys of schema column numbers."
            )
        schema = schema.ordered(self.columns)
        check_stated(schema, buys)
        check_dtypes(schema, self.dtypes, floats_are_missing)
        return replace(self, dtypes=tuple(map(without_categories, self.dtypes))).with_schema(schema)

    def with_schema(self, schema: Schema) -> "MixedTable":
        """Return this with a schema of its columns, in their order, and the dtypes in which they come back."""
        if self.backend != "pandas":
            return replace(self, schema=schema)
        return replace(self, schema=schema, dtypes=tuple(map(dtype_back, schema.values(), self.dtypes)))

    def fill(self, values: Sequence[np.ndarray], start: int = 0, n_samples: int | None = None) -> Any:
        """Return arrays of columns, as `read` gives them, in the caller's kind of table; labels of identifiers are made anew.

        Parameters
        ----------
        values : list of ndarray
        start : int, default=0
            Number of rows of the sample that came in batches before.
        n_samples : int, default=None
            Of all batches. None: these.
        """
        given, stop = iter(values), start + len(values[0])
        known = {name: next(given) for name in self.schema if self.schema.is_coded(name)}
        sources, dtypes, back = self.schema.sources, dict(zip(self.columns, self.dtypes, strict=True)), []
        known = compute_columns(self.schema, sources, known, dtypes)
        for (name, kind), dtype in zip(self.schema.items(), self.dtypes, strict=True):
            if name in known:
                back.append((name, known[name], written_kind(name, sources.get(name, kind), self.schema), dtype))
            elif isinstance(kind, Identifier) and kind.comes_back:
                back.append((name, np.arange(start + 1, stop + 1), kind, dtype_of_labels(dtype, n_samples or stop)))
        if self.backend == "numpy":
            return array_out([column for _, column, _, _ in back], [kind for _, _, kind, _ in back], np.dtype(self.dtypes[0]))
        columns = [column_out(column, kind, self.backend, dtype) for _, column, kind, dtype in back]
        return frame_of(columns, tuple(name for name, *_ in back), self.backend)

    def specimen(self, n_features: int, n_samples: int) -> Any:
        """Return a table with all levels of all columns, and missing cells where there may be some: what `fill` gives has its dtypes."""
        kinds = list(self.schema.coded.values())  # of what is computed, two rows show the dtype
        n_rows = max(2, *(getattr(kind, "n_codes", 0) for kind in kinds))
        return self.fill([_specimen(kind, n_rows) for kind in kinds], 0, n_samples)


def _specimen(kind: Any, n_rows: int) -> np.ndarray:
    if isinstance(kind, Continuous):
        column = np.full(n_rows, float(kind.low))
        column[-1] = np.nan if kind.nullable else kind.high
        return column
    return np.minimum(np.arange(n_rows), kind.n_codes - 1)


def read_table(X: Any) -> tuple[MixedTable, list[Any]]:
    """Describe an array or an eager data frame; return two things: the description, and the list of its raw columns.

    Parameters
    ----------
    X : array-like or data frame of shape (n_samples, n_features)

    Returns
    -------
    table : MixedTable
    raw : list of columns
        As they are, for `read`.
    """
    X = to_native(X)
    check_table(X)
    if is_pandas(X):
        names = column_names(X) or ()
        raw = [X.iloc[:, i] for i in range(X.shape[1])]
        return MixedTable("pandas", tuple(names), tuple(pandas_dtype_name(column.dtype) for column in raw)), raw
    frame = eager_frame(_decode_dictionaries(X) if is_arrow(X) else X)
    if frame is not None:
        raw = [frame[name] for name in frame.columns]
        return MixedTable(frame.implementation.value, tuple(frame.columns), tuple(plain_name(column.dtype) for column in raw)), raw
    X = _as_array(X)
    dtype = f"<{X.dtype.kind}" if X.dtype.kind in "US" else X.dtype.str  # the longest string is a cell
    return MixedTable("numpy", tuple(range(X.shape[1])), (dtype,) * X.shape[1]), list(X.T)


def _decode_dictionaries(X: Any) -> Any:
    """Return a Table of pyarrow with dictionaries of numbers and times written out: narwhals takes every dictionary for one of words."""
    import pyarrow as pa

    for place, field in enumerate(X.schema):
        values = getattr(field.type, "value_type", None) if pa.types.is_dictionary(field.type) else None
        if values is not None and not str(values).endswith(("string", "string_view")):
            parts = [part.dictionary_decode() for part in X.column(place).chunks]
            X = X.set_column(place, field.name, pa.chunked_array(parts, values))
    return X


def _as_array(X: Any) -> np.ndarray:
    """Return an array-like of rows as an array of numbers, strings or objects."""
    if hasattr(X, "toarray"):
        raise TypeError(f"X must be dense, got {type(X).__name__}; call .toarray() first.")
    if isinstance(X, list | tuple) and X and all(isinstance(row, list | tuple) and len(row) == len(X[0]) for row in X):
        # Cell by cell: numpy would ask objects for their lengths and arrays, and some raise.
        cells = np.fromiter((cell for row in X for cell in row), dtype=object, count=len(X) * len(X[0]))
        return cells.reshape(len(X), len(X[0]))
    array = np.asarray(X) if isinstance(X, np.ndarray) else as_array(X, object)
    if array.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {array.ndim}D array instead; give rows of equally many columns (of a Series, .to_frame())."
        )
    return array


def columns_of(X: Any, schema: Any, name: str = "X", buys: bool = False) -> dict[Any, np.ndarray]:
    """Return the columns of a table by their names, as `read` gives them, in the order of the schema.

    Parameters
    ----------
    X : array-like or data frame of shape (n_samples, n_features)
        At least one row.
    schema : dict, Schema or path of a file
        Of all columns of `X`.
    name : str, default="X"
        What the caller calls the table, for messages.
    buys : bool, default=False
        Whether bounds and levels of the schema may be private.

    Returns
    -------
    values : dict of column to ndarray
        Of the columns that mechanisms see.
    """
    schema = Schema.of(schema)
    table, raw = read_and_match(X, schema, name, buys)
    if not len(raw[0]):
        raise ValueError(f"{name} must have at least one row, got none; pass a table with rows.")
    values = dict(zip(table.schema.coded, read(raw, table.schema, read_table(X)[0].dtypes), strict=True))
    return {column: values[column] for column in schema if column in values}


def read_and_match(X: Any, schema: Schema, name: str, buys: bool = False) -> tuple[MixedTable, list[Any]]:
    """Return what `read_table` does, with the schema in the order of the columns; messages say which table does not fit."""
    try:
        table, raw = read_table(X)
        return table.match(schema, buys), raw
    except (TypeError, ValueError) as error:
        # The messages say X; whoever gave two tables needs to know which.
        raise type(error)(str(error) if name == "X" else f"with {name} as X: {error}") from None


def check_stated(schema: Schema, buys: bool = False) -> None:
    """Refuse bounds and levels that are not stated; but for numbers and nominal levels that are private, if those are bought."""
    for name, kind in schema.items():
        if kind.unstated is not None and not (buys and kind.unstated == "private" and isinstance(kind, Continuous | Nominal)):
            fact, example = ("levels", "a list") if hasattr(kind, "levels") else ("bounds", "(low, high)")
            raise ValueError(
                f"schema of column {name_repr(name)} has {kind.unstated} {fact}, "
                + (
                    f"which are still to be written; give {example}: public facts, never learned from rows."
                    if kind.unstated == "open"
                    else f"which is not supported here; give {example} that are public."
                )
            )


def check_synthesized(schema: Schema) -> None:
    """Refuse columns that can only be left out, where nobody has said so."""
    for name, kind in schema.items():
        if isinstance(kind, Text):
            raise ValueError(
                f"schema of column {name_repr(name)} is Text, which is not synthesized; drop the column from X and from schema, or say "
                "Identifier() to leave it out of samples."
            )


def check_room(table: MixedTable) -> None:
    """Refuse a column of numbers whose dtype, in which it comes back, can hold none within its bounds; of a key, not all."""
    for name, dtype, whole in _keys_without_room(table):
        raise TypeError(
            f"column {name_repr(name)} is in a Unique of schema, but its dtype, {dtype}, cannot hold all values that it may have, so that "
            f"some would be equal; convert it to {whole}, or narrow what schema says of it."
        )
    for (name, kind), dtype in zip(table.schema.items(), table.dtypes, strict=True):
        time = time_of(dtype)
        if isinstance(kind, Times) and time is not None and not holds_times(kind, time[0]):
            raise TypeError(
                f"column {name_repr(name)} has dtype {dtype}, which can hold no time within its bounds in schema; convert the column, or "
                "correct the bounds."
            )
        if not isinstance(kind, Continuous) or kind.unstated or dtype.startswith("category") or family_of(dtype) != "number":
            continue
        if not holds_some(numpy_dtype(dtype), kind.low, kind.high):
            raise TypeError(
                f"column {name_repr(name)} has dtype {numpy_dtype(dtype).name}, which can hold no number within its bounds in schema, "
                f"({short_repr(kind.low)}, {short_repr(kind.high)}); convert the column, or correct the bounds."
            )


def _keys_without_room(table: MixedTable) -> Iterator[tuple[Any, str, str]]:
    """Yield columns of keys that come back in a dtype in which two of their values may be one, with that dtype and a better one."""
    names = {name for names in keys_of(table.schema.rules, table.schema) for name in names}
    for (name, kind), dtype in zip(table.schema.items(), table.dtypes, strict=True):
        if name not in names:
            continue
        time = time_of(dtype)
        if isinstance(kind, Times) and time is not None:
            if PER_UNIT.get(time[0], 1) > MICROSECONDS[kind.resolution]:
                yield name, dtype, "datetime64[us]"
        elif family_of(dtype) == "number" and not dtype.startswith("category") and not isinstance(kind, Times):
            plain, is_number = numpy_dtype(dtype), isinstance(kind, Continuous)
            ends = (kind.low, kind.high) if is_number else kind.levels
            # Levels that whole numbers of a dtype cannot be come back in another one.
            if plain.kind != "b" and (is_number or plain.kind == "f") and not all(_holds_whole(plain, end) for end in ends):
                yield name, plain.name, "int64"


def _holds_whole(dtype: np.dtype, number: float) -> bool:
    """Whether a dtype can hold this whole number, and all between it and 0."""
    if dtype.kind == "f":
        return abs(number) <= 2.0 ** (np.finfo(dtype).nmant + 1)
    return np.iinfo(dtype).min <= number <= np.iinfo(dtype).max
