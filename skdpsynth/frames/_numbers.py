"""Tables of numbers, and what else to do with other cells. No message quotes a cell."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.sparse import issparse

from skdpsynth._validation import short_repr
from skdpsynth.frames._table_kind import check_table, column_names, is_arrow, is_pandas, to_native

_DEFAULT_ADVICE = "give LatentFactorSynthesizer a schema, with which it takes mixed tables as they are"
_ARROW_NUMBERS = re.compile(r"u?int\d+|halffloat|float|double|bool")
# What to do with a column whose dtype has no numbers and no words: the beginning of its name, whatever its case, and the way out.
_DTYPE_ADVICE = [
    (r"[<>|=]?m8|timedelta|duration", "turn it into numbers, such as its total seconds"),
    (r"period", "turn it into times first, by .dt.to_timestamp()"),
    (r"time(?!stamp)", "turn it into numbers, such as seconds since midnight"),
    (r"interval", "give its two ends as columns"),
    (r"sparse", "make it dense first, by .sparse.to_dense()"),
    (r"decimal|u?int", "cast it to a number of 64 bits"),
    (r"complex|[<>|=]?c\d", "give its real and its imaginary part as columns"),
    (r"list|struct|array|map|fixed_size_list|large_list", "give the parts that you need as columns of their own"),
    (r"binary|large_binary|[<>|=]s\b", "decode it to text"),
    (r"category:(datetime|date|timestamp)", "turn its categories into a column of times, by .astype(...)"),
]
_TIMES = re.compile(r"date|timestamp|[<>|=]?M8")


def as_numbers(X: Any, name: str = "X", instead: str = _DEFAULT_ADVICE) -> Any:
    """Return a table of numbers as it is, a frame or an array; of objects that are numbers, as floats.

    What holds something else is refused: the message names columns and dtypes, which are public, `instead`, and never a cell.
    """
    X = to_native(X)
    check_table(X, name)
    if is_arrow(X):
        return _numeric_arrow(X, name, instead)
    return (_numeric_array if column_names(X, name) is None else _numeric_frame)(X, name, instead)


def table_of_numbers(X: Any, *, tell_names: bool = False) -> Any:
    """Return a table of numbers for the checks of scikit-learn, whose messages would print the values of what is no table.

    `tell_names`: whether frames that are not pandas' must tell their columns by an old protocol.
    """
    X = X if issparse(X) else as_numbers(X)
    if hasattr(X, "ndim") and X.ndim < 2:  # scikit-learn's message would print the values
        raise ValueError(
            f"Expected 2D array, got {'1D' if X.ndim else 'scalar'} array instead. Reshape your data: X.reshape(-1, 1) if it has "
            "a single feature, X.reshape(1, -1) if it is a single row."
        )
    is_frame = tell_names and not (isinstance(X, np.ndarray) or issparse(X) or is_pandas(X))
    return NamedArray(np.asarray(X.to_numpy()), column_names(X) or []) if is_frame else X


def as_rows(X: Any, n_features: int, name: str = "X") -> np.ndarray:
    """Return rows for a public box: an array of numbers with one column for each feature, of whatever is a table of numbers."""
    rows = X if type(X) is np.ndarray and X.dtype.kind in "iufb" else as_float_matrix(X, name, "give an array of numbers")
    if rows.ndim != 2 or rows.shape[1] != n_features:
        raise ValueError(f"{name} must have shape (n_samples, {n_features}), one column a feature, got {rows.shape}.")
    return rows


def dense_chunks(X: Any, n_rows: int) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield ``(rows, chunk)`` over a table: a slice of `n_rows` rows and these rows as an array, however the table holds them.

    Sparse rows are written out a chunk at a time, never all.
    """
    for start in range(0, X.shape[0], n_rows):
        rows = slice(start, min(start + n_rows, X.shape[0]))
        yield rows, X[rows].toarray() if issparse(X) else X[rows]


def as_float_matrix(X: Any, name: str, instead: str) -> np.ndarray:
    """Return an array-like or a frame of numbers as an array of floats, NaN where a frame has none."""
    if hasattr(X, "toarray"):
        raise TypeError(f"{name} must be dense, got a {type(X).__name__}; call .toarray() first.")
    numbers = as_numbers(X, name, instead)
    if is_pandas(numbers):
        return numbers.to_numpy(dtype=float, na_value=np.nan)
    with np.errstate(all="ignore"):  # a floating-point warning would tell of values
        return np.asarray(numbers if isinstance(numbers, np.ndarray) else numbers.to_numpy(), dtype=float)


def _numeric_frame(X: Any, name: str, instead: str) -> Any:
    if not len(X.columns):
        raise ValueError(f"{name} must have columns: found array with 0 feature(s) while a minimum of 1 is required.")
    for column, dtype in zip(X.columns, X.dtypes, strict=True):
        if not _is_numeric_column(X, column, dtype):
            raise _not_numeric_error(name, column, dtype, instead)
    return _convert_without_quoting(lambda: X.astype(float), name, instead) if is_pandas(X) and np.dtype(object) in list(X.dtypes) else X


def _not_numeric_error(name: str, column: Any, dtype: Any, instead: str) -> TypeError:
    told = re.split(r"[(\[<]", str(dtype))[0]  # in brackets may stand values: categories, what fills a sparse column
    return TypeError(
        f"{name} must hold numbers only, but column {short_repr(str(column))} has dtype {told}; {_conversion_advice(told, instead)}."
    )


def _numeric_arrow(X: Any, name: str, instead: str) -> np.ndarray:
    """Return a Table as an array; what is missing is NaN."""
    if not X.column_names:
        raise ValueError(f"{name} must have columns: found array with 0 feature(s) while a minimum of 1 is required.")
    names, columns = column_names(X, name) or [], []
    for column, field, cells in zip(names, X.schema, X.columns, strict=True):
        if not _ARROW_NUMBERS.fullmatch(str(field.type)):
            raise _not_numeric_error(name, column, field.type, instead)
        array = cells.to_numpy()
        columns.append(array.astype(float) if array.dtype == object else array)  # booleans, of which some are missing
    # Column by column, as Arrow holds them.
    rows = np.empty((X.num_rows, len(columns)), dtype=np.result_type(*columns), order="F")
    for j, array in enumerate(columns):
        rows[:, j] = array
    return rows


def _is_numeric_column(X: Any, column: Any, dtype: Any) -> bool:
    """Whether numpy reads a column as numbers, or it has objects, which are tried."""
    # The oldest polars panics on whole numbers of 128 bits; of numbers within a cell numpy makes more columns.
    if str(dtype).startswith(("Sparse", "Int128", "UInt128", "Struct", "Array", "List")):
        return False
    if is_pandas(X):
        return dtype == np.dtype(object) or getattr(dtype, "kind", "O") in "iufb"
    try:
        return X[column].head(0).to_numpy().dtype.kind in "iufb"
    except Exception:  # a dtype that numpy has not
        return False


def _numeric_array(X: Any, name: str, instead: str) -> np.ndarray:
    # A list goes through objects: among numbers of 32 bits one string would turn all into text and back, which moves other rows.
    array = _convert_without_quoting(lambda: np.asarray(X, dtype=object if isinstance(X, list | tuple) else None), name, instead)
    if array.dtype.kind in "OUS":
        array = _convert_without_quoting(lambda: array.astype(float), name, instead)
    if array.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} must hold real numbers; give real and imaginary parts as columns.")
    if array.dtype.kind not in "iufb":
        raise TypeError(f"{name} must hold numbers only, got dtype {array.dtype.name}; {_conversion_advice(array.dtype.str, instead)}.")
    return array


def dtype_advice(dtype: str) -> str | None:
    """Return what to do with a column of this dtype, in which there are no numbers, no words and no dates; None if it has some."""
    return next((way for pattern, way in _DTYPE_ADVICE if re.match(pattern, dtype, re.IGNORECASE)), None)


def _conversion_advice(dtype: str, instead: str) -> str:
    if re.match(_TIMES, dtype) or dtype.startswith(("Date", "Timestamp")):
        return f"turn it into numbers first, such as days since a public date, or {instead} (Date, DateTime)"
    return dtype_advice(dtype) or f"drop it, or {instead}"


def _convert_without_quoting(convert: Callable[[], Any], name: str, instead: str) -> Any:
    """Call `convert`; what goes wrong is said without the cell it went wrong on, which numpy's own error quotes."""
    try:
        with np.errstate(all="ignore"):
            return convert()
    except MemoryError:
        raise
    except Exception:
        pass
    # Raised here, so that it has no context; of one type, whatever kind of table it is.
    raise TypeError(
        f"{name} must hold numbers only: it has objects that are none (an argument must be a number, or a string that reads as a number); "
        f"drop their columns, or {instead}."
    )


class NamedArray:
    """An array with column names, told by the interchange protocol and by ``columns`` alike."""

    def __init__(self, values: Any, names: list[Any]) -> None:
        self._values, self._names = values, [str(name) for name in names]
        self.shape, self.dtype = values.shape, getattr(values, "dtype", None)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(self._values, dtype=dtype)

    def __len__(self) -> int:
        return len(self._values)

    def __dataframe__(self, *args: Any, **kwargs: Any) -> "NamedArray":
        return self

    def column_names(self) -> list[str]:
        return self._names
