"""Mixed tables: their columns, dtypes and schema.

Read and written alike, a column is an array: floats with NaN for a missing cell (`Continuous`), or the numbers of its levels, where the
number after the last stands for a missing cell (`Nominal`, `Ordinal`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdpsynth._checks import shown
from skdpsynth._input import check_table, column_names, eager_frame, is_pandas
from skdpsynth.domain._columns import family_of, frame_of, holds_some, numpy_dtype, pandas_dtype_name, plain_name, without_categories
from skdpsynth.domain._kinds import Continuous, shown_name
from skdpsynth.domain._reading import read
from skdpsynth.domain._schema import Schema
from skdpsynth.domain._writing import array_out, column_out
from skdpsynth.persistence import savable


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

    def match(self, schema: Schema) -> "MixedTable":
        """Return this with the schema in the order of the columns, or raise about names and dtypes."""
        if self.backend == "numpy" and any(isinstance(name, str) for name in schema):
            raise ValueError(
                "schema names columns, but X is an array without names; pass a data frame, or make the keys of schema column numbers."
            )
        schema = schema.ordered(self.columns)
        check_dtypes(schema, self.dtypes)
        return replace(self, schema=schema, dtypes=tuple(map(without_categories, self.dtypes)))

    def fill(self, values: Sequence[np.ndarray]) -> Any:
        """Return arrays of columns, as `read` gives them, in the caller's kind of table."""
        if self.backend == "numpy":
            return array_out(values, list(self.schema.values()), np.dtype(self.dtypes[0]))
        columns = [
            column_out(column, kind, self.backend, dtype)
            for column, kind, dtype in zip(values, self.schema.values(), self.dtypes, strict=True)
        ]
        return frame_of(columns, self.columns, self.backend)


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
    check_table(X)
    if is_pandas(X):
        names = column_names(X) or ()
        raw = [X.iloc[:, i] for i in range(X.shape[1])]
        return MixedTable("pandas", tuple(names), tuple(pandas_dtype_name(column.dtype) for column in raw)), raw
    frame = eager_frame(X)
    if frame is not None:
        raw = [frame[name] for name in frame.columns]
        return MixedTable(frame.implementation.value, tuple(frame.columns), tuple(plain_name(column.dtype) for column in raw)), raw
    X = _as_array(X)
    dtype = "<U" if X.dtype.kind == "U" else X.dtype.str  # the longest string is a cell
    return MixedTable("numpy", tuple(range(X.shape[1])), (dtype,) * X.shape[1]), list(X.T)


def _as_array(X: Any) -> np.ndarray:
    """Return an array-like of rows as an array of numbers, strings or objects."""
    if hasattr(X, "toarray"):
        raise TypeError(f"X must be dense, got {type(X).__name__}; call .toarray() first.")
    if isinstance(X, list | tuple) and X and all(isinstance(row, list | tuple) and len(row) == len(X[0]) for row in X):
        # Cell by cell: numpy would ask objects for their lengths and arrays, and some raise.
        cells = np.fromiter((cell for row in X for cell in row), dtype=object, count=len(X) * len(X[0]))
        return cells.reshape(len(X), len(X[0]))
    array = np.asarray(X) if isinstance(X, np.ndarray) else np.asarray(X, dtype=object)
    if array.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {array.ndim}D array instead; give rows of equally many columns (of a Series, .to_frame())."
        )
    return array


def columns_of(X: Any, schema: Any, name: str = "X") -> dict[Any, np.ndarray]:
    """Return the columns of a table by their names, as `read` gives them, in the order of the schema.

    Parameters
    ----------
    X : array-like or data frame of shape (n_samples, n_features)
        At least one row.
    schema : dict or Schema
        Of all columns of `X`.
    name : str, default="X"
        What the caller calls the table, for messages.

    Returns
    -------
    values : dict of column to ndarray
    """
    schema = schema if isinstance(schema, Schema) else Schema(schema)
    try:
        table, raw = read_table(X)
        table = table.match(schema)
    except (TypeError, ValueError) as error:
        # The messages say X; whoever gave two tables needs to know which.
        raise type(error)(str(error) if name == "X" else f"with {name} as X: {error}") from None
    if not len(raw[0]):
        raise ValueError(f"{name} must have at least one row, got none; pass a table with rows.")
    values = dict(zip(table.columns, read(raw, table.schema, table.dtypes), strict=True))
    return {column: values[column] for column in schema}


def check_dtypes(schema: Schema, dtypes: Sequence[str]) -> None:
    """Refuse dtypes, which are public, in which nothing of what the schema says would be found."""
    for (name, kind), dtype in zip(schema.items(), dtypes, strict=True):
        family = family_of(dtype)
        if family == "other":
            raise TypeError(
                f"column {shown_name(name)} must hold numbers, strings or booleans, got dtype {dtype}; convert it, dates to numbers for "
                "example."
            )
        (_check_numbers if isinstance(kind, Continuous) else _check_levels)(name, kind, dtype, family)


def _check_numbers(name: Any, kind: Continuous, dtype: str, family: str) -> None:
    if family == "text":
        raise TypeError(
            f"column {shown_name(name)} is continuous in schema, but has dtype {dtype}; convert it to numbers, or give its levels."
        )


def _check_levels(name: Any, kind: Any, dtype: str, family: str) -> None:
    if family != "any" and any(isinstance(level, str) != (family == "text") for level in kind.levels):
        raise TypeError(
            f"column {shown_name(name)} has dtype {dtype}, but its levels in schema are not all "
            f"{'strings' if family == 'text' else 'numbers'}, so they would not be found; write them as they stand in the table."
        )


def check_room(table: MixedTable) -> None:
    """Refuse a column of numbers whose dtype, in which it comes back, can hold none within its bounds."""
    for (name, kind), dtype in zip(table.schema.items(), table.dtypes, strict=True):
        if not isinstance(kind, Continuous) or dtype.startswith("category") or family_of(dtype) != "number":
            continue
        if not holds_some(numpy_dtype(dtype), kind.low, kind.high):
            raise TypeError(
                f"column {shown_name(name)} has dtype {numpy_dtype(dtype).name}, which can hold no number within its bounds in schema, "
                f"({shown(kind.low)}, {shown(kind.high)}); convert the column, or correct the bounds."
            )
