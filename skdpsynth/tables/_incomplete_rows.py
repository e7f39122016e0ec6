"""Rows whose missing cells are filled: read by the schema of a fit, and written back in the caller's kind of table."""

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
    """A table, some of whose cells are missing."""

    X: Any
    table: MixedTable  # of the fit
    given: MixedTable  # of X
    raw: list[Any]
    values: dict[Any, np.ndarray]  # of the columns that are synthesized or computed, in the order of the fit, as `read` gives them
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
                kind = as_nullable(kind)  # computed values are compared with it as it stands
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
        """The dtypes in which cells are written: those of X, but for columns without any cell those of the fit."""
        given = dict(zip(self.given.columns, self.given.dtypes, strict=True))
        return {name: self._dtype_of_fit(name) if gone.all() else given[name] for name, gone in self.missing.items()}

    def with_cells(self, values: Mapping[Any, np.ndarray]) -> Any:
        """Return the table in the caller's kind, with missing cells from these columns; all other cells are as they were."""
        columns = dict(zip(self.given.columns, self.raw, strict=True))
        changed = {
            name: (columns.get(name), values[name], np.flatnonzero(gone))
            for name, gone in self.missing.items()
            if gone.any() or name not in columns
        }
        if self.given.backend == "numpy":
            rows = np.array(self.X) if isinstance(self.X, np.ndarray) else np.column_stack([*self.raw]).astype(object)
            for place, (_, new, gone) in changed.items():
                rows[gone, place] = array_out([new[gone]], [_kind(self.table, place)], rows.dtype)[:, 0]
            return rows
        made = {name: self._column(name, *parts) for name, parts in changed.items()}
        return _pandas_with(self.X, made) if self.given.library == "pandas" else _frame_with(self.X, made)

    def _column(self, name: Any, column: Any, new: np.ndarray, gone: np.ndarray) -> Any:
        """Return a column with the cells that were missing."""
        kind, backend = _kind(self.table, name), self.given.library
        if column is None or len(gone) == len(new):
            return column_out(new, kind, backend, self._dtype_of_fit(name))
        made = column_out(new[gone], kind, backend, without_categories(self.given.dtypes[self.given.columns.index(name)]))
        return (_pandas_column if backend == "pandas" else _other_column)(column, made, gone)

    def _dtype_of_fit(self, name: Any) -> str:
        """Return the dtype that a column had in the fit; where that was a table of another library, a dtype that holds anything."""
        if self.given.backend == self.table.backend:
            return self.table.dtypes[list(self.table.schema).index(name)]
        return "object" if self.given.library == "pandas" else "Unknown"


def _kind(table: TableFormat, name: Any) -> Any:
    """Return the kind by which a column is read and written."""
    return written_kind(name, table.schema.sources.get(name), table.schema)


def _check_columns(given: MixedTable, table: MixedTable) -> None:
    """Refuse a table whose columns are not those of the fit; a frame may lack some."""
    if given.backend == "numpy" and (table.backend != "numpy" or len(given.columns) != len(table.columns)):
        got = f"an array of {len(given.columns)} columns"
        wanted = f"an array of {len(table.columns)} columns" if table.library == "numpy" else "a data frame"
        raise ValueError(f"X must be {wanted}, as that of fit was, got {got}; for cells that are not known give missing ones.")
    if not given.columns:
        raise ValueError("X must have one or more columns of the table that fit got, got a table without any; give those that are known.")
    if extra := [name for name in given.columns if name not in table.schema]:
        raise ValueError(f"X must have columns of the table that fit got, but {list_names(extra)} is none of them; drop it.")


def _pandas_column(column: Any, made: Any, rows: np.ndarray) -> Any:
    import pandas as pd

    column = column.copy()
    cells = np.asarray(made, dtype=object)
    if isinstance(column.dtype, pd.CategoricalDtype):
        # Levels that the column lacks need a category each.
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

    made = {
        name: column if hasattr(column, "to_native") else nw.from_native(column, series_only=True, allow_series=True)
        for name, column in columns.items()
    }
    return eager_frame(X).with_columns(*(series.alias(name) for name, series in made.items())).to_native()
