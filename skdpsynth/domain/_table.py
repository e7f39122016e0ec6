"""Mixed tables: how columns are read into numbers and codes, and written back in the caller's kind of table.

Read and written alike, a column is an array: floats with NaN for a missing cell (`Continuous`), or the numbers of its levels, where the
number after the last stands for a missing cell (`Nominal`, `Ordinal`).
"""

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdpsynth.domain._schema import Continuous, Ordinal, Schema

_TEXT = ("str", "string", "String", "large_string")


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

    @classmethod
    def of(cls, X):
        """Describe an array or an eager data frame; return (description, list of raw columns)."""
        if hasattr(X, "collect") and not hasattr(X, "to_numpy"):
            raise TypeError(f"X must be a table in memory, got a lazy {type(X).__name__}; call .collect() first.")
        if _is_pandas(X):
            if not X.columns.is_unique:
                raise ValueError("X must have distinct column names, but one occurs twice; rename the columns.")
            raw = [X.iloc[:, i] for i in range(X.shape[1])]
            return cls("pandas", tuple(X.columns), tuple(_pandas_dtype(column.dtype) for column in raw)), raw
        import narwhals.stable.v2 as nw

        frame = nw.from_native(X, eager_only=True, pass_through=True)
        if isinstance(frame, nw.DataFrame):
            raw = [frame[name] for name in frame.columns]
            return cls(frame.implementation.value, tuple(frame.columns), tuple(_plainly(column.dtype) for column in raw)), raw
        X = _as_array(X)
        dtype = "<U" if X.dtype.kind == "U" else X.dtype.str  # the longest string is a cell
        return cls("numpy", tuple(range(X.shape[1])), (dtype,) * X.shape[1]), list(X.T)

    def match(self, schema):
        """Return this with the schema in the order of the columns, or raise about names and dtypes."""
        if self.backend == "numpy" and any(isinstance(name, str) for name in schema):
            raise ValueError(
                "schema names columns, but X is an array without names; pass a data frame, or make the keys of schema column numbers."
            )
        schema = schema.ordered(self.columns)
        check_dtypes(schema, self.dtypes)
        # The type of a dtype's categories tells whether there are any.
        return replace(self, schema=schema, dtypes=tuple("category" if d.startswith("category") else d for d in self.dtypes))

    def fill(self, values):
        """Return arrays of columns, as `read` gives them, in the caller's kind of table."""
        if self.backend == "numpy":
            return _array_out(values, list(self.schema.values()), np.dtype(self.dtypes[0]))
        columns = [
            (_numbers_out if isinstance(kind, Continuous) else _levels_out)(column, kind, self.backend, dtype)
            for column, kind, dtype in zip(values, self.schema.values(), self.dtypes, strict=True)
        ]
        if self.backend == "pandas":
            import pandas as pd

            frame = pd.DataFrame(dict(enumerate(columns)), copy=False)
            frame.columns = pd.Index(self.columns, tupleize_cols=False)
            return frame
        import narwhals.stable.v2 as nw

        natives = (column.to_native() for column in columns)
        return nw.from_dict(dict(zip(self.columns, natives, strict=True)), backend=self.backend).to_native()


def read(raw, schema, dtypes):
    """Return the columns of a table as floats and codes; what is out of the domain goes to its documented place.

    Numbers are clipped (whole ones rounded first), what is no number and unknown levels are missing. Where nothing may be missing, a
    missing number becomes the midpoint and a missing level the first. No message depends on a cell.

    Parameters
    ----------
    raw : list of columns
        From `MixedTable.of`.
    schema : Schema
        In the order of the columns.
    dtypes : tuple of str

    Returns
    -------
    values : list of ndarray
    """
    columns = zip(schema.items(), raw, dtypes, strict=True)
    with np.errstate(all="ignore"), warnings.catch_warnings():  # a warning would tell of values
        warnings.simplefilter("ignore")
        return [
            (_read_numbers if isinstance(kind, Continuous) else _read_levels)(column, kind, name, dtype)
            for (name, kind), column, dtype in columns
        ]


def columns_of(X, schema, name="X"):
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
        table, raw = MixedTable.of(X)
        table = table.match(schema)
    except (TypeError, ValueError) as error:
        # The messages say X; whoever gave two tables needs to know which.
        raise type(error)(str(error) if name == "X" else f"with {name} as X: {error}") from None
    if not len(raw[0]):
        raise ValueError(f"{name} must have at least one row, got none; pass a table with rows.")
    values = dict(zip(table.columns, read(raw, table.schema, table.dtypes), strict=True))
    return {column: values[column] for column in schema}


def check_dtypes(schema, dtypes):
    """Refuse dtypes, which are public, that cannot hold what the schema says."""
    for (name, kind), dtype in zip(schema.items(), dtypes, strict=True):
        family = _family(dtype)
        if family == "other":
            raise TypeError(
                f"column {name!r} must hold numbers, strings or booleans, got dtype {dtype}; convert it, dates to numbers for example."
            )
        if isinstance(kind, Continuous):
            if family == "text":
                raise TypeError(
                    f"column {name!r} is continuous in schema, but has dtype {dtype}; convert it to numbers, or give its levels."
                )
        elif family != "any" and any(isinstance(level, str) != (family == "text") for level in kind.levels):
            found = "strings" if family == "text" else "numbers"
            raise TypeError(
                f"column {name!r} has dtype {dtype}, but its levels in schema are not all {found}, so they would not be found; write "
                "them as they stand in the table."
            )


def _family(dtype):
    """What a dtype can hold: "number", "text", "any" or "other"; of categories, what those are."""
    dtype = dtype.removeprefix("category:")
    if dtype in _TEXT or dtype.startswith(("string", "<U", ">U", "Enum", "Categorical")):
        return "text"
    if dtype in ("object", "|O", "Object", "Null", "Unknown"):
        return "any"
    try:
        return "number" if np.dtype(dtype.lower().replace("boolean", "bool")).kind in "iufb" else "other"
    except TypeError:
        return "other"


def _is_pandas(X):
    """Whether this is a data frame of pandas, or of a subclass."""
    return any(base.__module__.split(".")[0] == "pandas" and base.__name__ == "DataFrame" for base in type(X).__mro__)


def _pandas_dtype(dtype):
    return f"category:{dtype.categories.dtype}" if str(dtype) == "category" else _plainly(dtype)


def _plainly(dtype):
    """Name a dtype without what may stem from rows: the categories of one of polars, what fills a sparse one of pandas."""
    name = str(dtype).split("(")[0]
    return "Sparse" if name.startswith("Sparse") else name


def _as_array(X):
    """Return an array-like of rows as an array of numbers, strings or objects."""
    if hasattr(X, "toarray"):
        raise TypeError(f"X must be dense, got {type(X).__name__}; call .toarray() first.")
    if isinstance(X, np.ma.MaskedArray):
        X = np.ma.filled(X.astype(object), None)
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


def _native(column):
    """Return a raw column as a numpy array; of dtypes that numpy has not, floats with NaN or objects with None where cells are missing."""
    if isinstance(column, np.ndarray):
        return column
    if _is_pandas_column(column):
        if isinstance(column.dtype, np.dtype):
            return column.to_numpy()
        numbers = getattr(column.dtype, "numpy_dtype", np.dtype(object)).kind in "iufb"
        return column.to_numpy(dtype=float, na_value=np.nan) if numbers else column.to_numpy(dtype=object)
    return column.to_numpy()


def _is_pandas_column(column):
    return type(column).__module__.split(".")[0] == "pandas"


def _read_numbers(column, kind, name, dtype):
    array = _native(column)
    if array.dtype.kind not in "iufb":
        array = _coerced(array)
    x = array.astype(float)  # a copy
    if kind.integer:
        np.rint(x, out=x)
    np.clip(x, kind.low, kind.high, out=x)
    if not kind.nullable:
        x[np.isnan(x)] = kind.midpoint
    return x


def _coerced(array):
    """Floats of objects, a cell at a time: what is no number is missing."""

    def number(cell):
        try:
            return float(cell)
        except OverflowError:
            return _beyond(cell)
        except Exception:  # also of the caller's own objects
            return np.nan

    return np.fromiter(map(number, array.tolist()), dtype=float, count=len(array))


def _beyond(cell):
    """The infinity of a number that is larger than all floats."""
    try:
        return np.inf if cell > 0 else -np.inf
    except Exception:
        return np.nan


def _read_levels(column, kind, name, dtype):
    fallback = len(kind.levels) if kind.nullable else 0
    number_of = {level: code for code, level in enumerate(kind.levels)}
    is_category = _is_pandas_column(column) and str(column.dtype) == "category"
    dtype = str(column.cat.categories.dtype if is_category else dtype).lower()
    if dtype.removeprefix("<").removeprefix(">") in ("float32", "float16", "f4", "f2"):
        # 0.1 stands in such a column as the nearest that it can hold.
        short = np.dtype(dtype).type
        number_of |= {short(level).item(): code for level, code in number_of.items() if not isinstance(level, str)}
    if is_category:
        # Its codes say which category; -1, the last here, is a missing cell.
        lookup = np.array(
            [*(_code(number_of, category, fallback) for category in column.cat.categories.tolist()), fallback], dtype=np.int32
        )
        return lookup[column.cat.codes.to_numpy()]
    cells = column.to_list() if hasattr(column, "to_list") else column.tolist()
    try:
        codes = [number_of.get(cell, fallback) for cell in cells]
    except Exception:  # a cell that cannot be looked up, such as a list
        codes = [_code(number_of, cell, fallback) for cell in cells]
    return np.array(codes, dtype=np.int32)


def _code(number_of, cell, fallback):
    try:
        return number_of.get(cell, fallback)
    except Exception:
        return fallback


def _numbers_out(x, kind, backend, dtype):
    """A column of numbers, NaN where missing, in its dtype."""
    missing = np.isnan(x)
    if backend == "pandas":
        import pandas as pd

        if dtype in ("object", "category"):
            dtype = "int64" if kind.integer else "float64"
        target = pd.api.types.pandas_dtype(dtype)
        plain = getattr(target, "numpy_dtype", target)
        return _pandas_column(_cast(x, kind, plain), missing, kind.nullable, target)
    plain = _numpy_dtype(dtype) if _family(dtype) == "number" else np.dtype(np.int64 if kind.integer else float)
    return _other_column(_cast(x, kind, plain), missing, plain, backend)


def _cast(x, kind, dtype):
    """Numbers of a `Continuous` column as a numpy dtype, to the nearest within the bounds that it can hold."""
    if dtype.kind == "f":
        most = np.finfo(dtype).max
        return np.clip(x, -most, most).astype(dtype)
    x = np.where(np.isnan(x), kind.low, x)
    if dtype.kind == "b":
        return x >= 0.5
    low, high = math.ceil(kind.low), math.floor(kind.high)
    x = np.clip(np.rint(x), low, high) if low <= high else np.rint(x)
    end = np.iinfo(dtype).max + 1.0
    return np.clip(x, np.iinfo(dtype).min, np.nextafter(end, 0)).astype(dtype)


def _numpy_dtype(dtype):
    """The numpy dtype of a numeric dtype of pandas or polars."""
    return np.dtype(dtype.lower().replace("boolean", "bool"))


def _pandas_column(cells, missing, nullable, target):
    """An array of numbers as a column of pandas."""
    import pandas as pd

    plain = isinstance(target, np.dtype)
    if plain and target.kind == "f":
        cells[missing] = np.nan
    if plain and (target.kind == "f" or not nullable):
        return cells
    # Missing cells need a dtype that holds them: a public rule, whether or not there are any.
    names = {"b": "boolean", "i": f"Int{8 * cells.itemsize}", "u": f"UInt{8 * cells.itemsize}"}
    column = pd.array(cells, dtype=names[target.kind] if plain else target)
    column[missing] = pd.NA
    return column


def _other_column(cells, missing, dtype, backend):
    """An array of numbers as a column of a library that is not pandas."""
    import narwhals.stable.v2 as nw

    name = str(dtype).replace("uint", "UInt").replace("bool", "boolean")
    cells = [None if gone else cell for cell, gone in zip(cells.tolist(), missing.tolist(), strict=True)] if missing.any() else cells
    return nw.new_series("", cells, getattr(nw, name[0].upper() + name[1:])(), backend=backend)


def _held(kind, dtype):
    """Return levels that are numbers as an array of a numpy dtype, or of another if that cannot hold them; the first once more."""
    levels = [*kind.levels, kind.levels[0]]
    try:
        with np.errstate(invalid="ignore"):
            held = np.array(levels, dtype=dtype)
        if dtype.kind == "f" or held.tolist() == levels:
            return held
    except OverflowError:
        pass
    return np.array(levels)


def _levels_out(codes, kind, backend, dtype):
    """A column of levels; ordinal ones as ordered categories, where the library has them."""
    missing = codes >= len(kind.levels)
    if backend == "pandas":
        import pandas as pd

        if isinstance(kind, Ordinal) or dtype == "category":
            return pd.Categorical.from_codes(np.where(missing, -1, codes), categories=list(kind.levels), ordered=isinstance(kind, Ordinal))
        target = pd.api.types.pandas_dtype(dtype)
        if _family(dtype) == "number":
            plain = getattr(target, "numpy_dtype", target)
            held = _held(kind, plain)
            return _pandas_column(held[codes], missing, kind.nullable, target if held.dtype == plain else held.dtype)
        cells = _level_cells(kind, codes)
        return pd.Series(cells, dtype=object) if target == np.dtype(object) else pd.array(cells, dtype=target)
    import narwhals.stable.v2 as nw

    if any(isinstance(level, str) for level in kind.levels):
        cells = [None if cell is None else str(cell) for cell in _level_cells(kind, codes)]
        ordered = (isinstance(kind, Ordinal) or dtype.startswith("Enum")) and backend == "polars"
        target = nw.Enum([str(level) for level in kind.levels]) if ordered else nw.Categorical() if dtype == "Categorical" else nw.String()
        return nw.new_series("", cells, nw.String(), backend=backend).cast(target)
    held = _held(kind, _numpy_dtype(dtype) if _family(dtype) == "number" else np.array(kind.levels).dtype)
    return _other_column(held[codes], missing, held.dtype, backend)


def _level_cells(kind, codes):
    """Levels as objects, None where missing."""
    cells = np.empty(len(kind.levels) + 1, dtype=object)
    cells[:] = [*kind.levels, None]
    return cells[codes]


def _array_out(values, kinds, dtype):
    """One array of all columns: of the dtype that came in, if it can hold them; objects of numbers alone become numbers."""
    shape = (len(values[0]), len(kinds))
    continuous = [isinstance(kind, Continuous) for kind in kinds]
    texts = any(isinstance(level, str) for kind, is_number in zip(kinds, continuous, strict=True) if not is_number for level in kind.levels)
    nullable = any(kind.nullable for kind in kinds)
    if dtype.kind in "iufb" or all(continuous):
        held = [np.empty(0, dtype) if is_number else _held(kind, dtype) for kind, is_number in zip(kinds, continuous, strict=True)]
        fits = dtype.kind == "f" or (dtype.kind in "iub" and not nullable and all(levels.dtype == dtype for levels in held))
        rows = np.empty(shape, dtype if fits else float)
        for j, (column, kind) in enumerate(zip(values, kinds, strict=True)):
            rows[:, j] = _cast(column, kind, rows.dtype) if continuous[j] else held[j][column]
            if not continuous[j] and kind.nullable:
                rows[column >= len(kind.levels), j] = np.nan
        return rows
    rows = np.empty(shape, dtype=object)
    for j, (column, kind) in enumerate(zip(values, kinds, strict=True)):
        whole = continuous[j] and kind.integer and not kind.nullable
        rows[:, j] = (column.astype(np.int64) if whole else column) if continuous[j] else _level_cells(kind, column)
    return rows.astype(str) if dtype.kind == "U" and texts and not nullable else rows
