"""Rows of a caller's own of which cells are missing: read by what a fit knows, and written back with those filled."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpsynth.domain import Continuous, as_nullable, list_names, written_kind
from skdpsynth.frames import TableKind, eager_frame, split_columns, without_categories
from skdpsynth.tables._findings import missing_cells
from skdpsynth.tables._read import read_column
from skdpsynth.tables._table import TableFormat, check_dtype
from skdpsynth.tables._write import array_out, column_out


@dataclass(frozen=True, eq=False)
class IncompleteRows:
    """A table, some of whose cells are missing.

    Attributes
    ----------
    X : array-like or data frame
    table : TableFormat
        What a fit knows.
    given : TableKind
        What is known of this one.
    raw : list of columns
    values : dict of column to ndarray of shape (n_rows,)
        Of the columns that are synthesized or computed, in the order of the fit, as `read` gives them.
    missing : dict of column to ndarray of bool, shape (n_rows,)
    """

    X: Any
    table: TableFormat
    given: TableKind
    raw: list[Any]
    values: dict[Any, np.ndarray]
    missing: dict[Any, np.ndarray]

    @classmethod
    def of(cls, X: Any, table: TableFormat) -> "IncompleteRows":
        """Read a table; columns that a frame lacks are missing throughout."""
        given, raw = split_columns(X)
        _check_columns(given, table)
        n_rows = len(raw[0])
        values: dict[Any, np.ndarray] = {}
        missing: dict[Any, np.ndarray] = {}
        for name, stated in table.schema.items():
            kind = _kind(table, name)
            if kind.coded is None:
                continue
            if name in table.schema.sources and stated is kind:
                kind = as_nullable(kind)  # what is computed is compared with it as it stands
            place = given.columns.index(name) if name in given.columns else None
            gone = np.ones(n_rows, dtype=bool) if place is None else missing_cells(raw[place])
            if place is None or gone.all():
                values[name] = np.zeros(n_rows, dtype=float if isinstance(kind.coded, Continuous) else np.int64)
            else:
                check_dtype(name, kind, given.dtypes[place])
                values[name] = read_column(raw[place], kind, given.dtypes[place])
            missing[name] = gone
        return cls(X, table, given, raw, values, missing)

    @property
    def dtypes(self) -> dict[Any, str]:
        """The dtypes in which cells are written, which numbers are rounded to: those given, but of columns without any cell."""
        given = dict(zip(self.given.columns, self.given.dtypes, strict=True))
        return {name: self._dtype_of_fit(name) if gone.all() else given[name] for name, gone in self.missing.items()}

    def with_cells(self, values: Mapping[Any, np.ndarray]) -> Any:
        """Return the table in the caller's kind, with missing cells taken from these columns; all other cells are as they were."""
        columns = dict(zip(self.given.columns, self.raw, strict=True))
        changed = {
            name: (columns.get(name), values[name], np.flatnonzero(gone))
            for name, gone in self.missing.items()
            if gone.any() or name not in columns
        }
        if self.given.library == "numpy":
            return self._array(changed)
        made = {name: self._column(name, *parts) for name, parts in changed.items()}
        return _pandas_with(self.X, made) if self.given.library == "pandas" else _frame_with(self.X, made)

    def _array(self, changed: Mapping[Any, tuple[Any, np.ndarray, np.ndarray]]) -> np.ndarray:
        rows = np.array(self.X) if isinstance(self.X, np.ndarray) else np.column_stack([*self.raw]).astype(object)
        for place, (_, new, gone) in changed.items():
            rows[gone, place] = array_out([new[gone]], [_kind(self.table, place)], rows.dtype)[:, 0]
        return rows

    def _column(self, name: Any, column: Any, new: np.ndarray, gone: np.ndarray) -> Any:
        """Return a column with the cells that were missing."""
        kind, backend = _kind(self.table, name), self.given.library
        if column is None or len(gone) == len(new):
            return column_out(new, kind, backend, self._dtype_of_fit(name))
        made = column_out(new[gone], kind, backend, without_categories(self.given.dtypes[self.given.columns.index(name)]))
        return (_pandas_column if backend == "pandas" else _other_column)(column, made, gone)

    def _dtype_of_fit(self, name: Any) -> str:
        """Return the dtype that a column had in the fit; what any library takes, where that was another one."""
        if self.given.library == self.table.library:
            return self.table.dtypes[list(self.table.schema).index(name)]
        return "object" if self.given.library == "pandas" else "Unknown"


def _kind(table: TableFormat, name: Any) -> Any:
    """Return the kind by which a column is read and written."""
    source = table.schema.sources.get(name)
    return table.schema[name] if source is None else written_kind(name, source, table.schema)


def _check_columns(given: TableKind, table: TableFormat) -> None:
    """Refuse a table whose columns are not those of the fit, but that a frame may lack some."""
    if given.library == "numpy" and (table.library != "numpy" or len(given.columns) != len(table.columns)):
        got = f"an array of {len(given.columns)} columns"
        wanted = f"an array of {len(table.columns)} columns" if table.library == "numpy" else "a data frame"
        raise ValueError(f"X must be {wanted}, as that of fit was, got {got}; for cells that are not known give missing ones.")
    if not given.columns:
        raise ValueError("X must have one or more columns of the table that fit got, got a table without any; give those that are known.")
    extra = [name for name in given.columns if name not in table.schema]
    if extra:
        raise ValueError(f"X must have columns of the table that fit got, but {list_names(extra)} is none of them; drop it.")


def _pandas_column(column: Any, made: Any, rows: np.ndarray) -> Any:
    import pandas as pd

    column = column.copy()
    cells = np.asarray(made, dtype=object)
    if isinstance(column.dtype, pd.CategoricalDtype):
        # Levels that the rows have not: a category for each, or they could not stand there.
        lacking = [level for level in pd.unique(cells) if level not in column.cat.categories]
        column = column.cat.add_categories(lacking) if lacking else column
        column.iloc[rows] = cells
    else:
        column.iloc[rows] = pd.Series(cells).astype(column.dtype).array
    return column.array


def _other_column(column: Any, made: Any, rows: np.ndarray) -> Any:
    import narwhals.stable.v2 as nw

    if not hasattr(made, "to_native"):
        made = nw.new_series("", np.asarray(made).tolist(), backend=column.implementation)
    if "Enum" in str(made.dtype) or "Enum" in str(column.dtype):
        made = made.cast(nw.String())
    return column.scatter(rows.tolist(), made.cast(column.dtype))


def _pandas_with(X: Any, columns: Mapping[Any, Any]) -> Any:
    """Return a copy of a frame of pandas with some columns replaced, or added at the end."""
    import pandas as pd

    out, names = X.copy(), list(X.columns)
    for name, column in columns.items():
        series = pd.Series(getattr(column, "array", column), index=X.index)
        if name in names:
            out.isetitem(names.index(name), series)
        else:
            out[name] = series
    return out


def _frame_with(X: Any, columns: Mapping[Any, Any]) -> Any:
    """Return a frame of another library with some columns replaced, or added at the end."""
    import narwhals.stable.v2 as nw

    frame = eager_frame(X)
    made = []
    for name, column in columns.items():
        series = column if hasattr(column, "to_native") else nw.from_native(column, series_only=True, allow_series=True)
        made.append(series.alias(name))
    return frame.with_columns(*made).to_native()
