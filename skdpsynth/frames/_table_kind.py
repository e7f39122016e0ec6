"""Tables in memory: their library, columns and dtypes, all of which are public, their rows in parts, and tables of numbers.

No message quotes a cell.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from scipy.sparse import issparse

from skdpsynth._serialization import require
from skdpsynth._validation import as_array, short_repr
from skdpsynth.frames._dtypes import (
    Column,
    Table,
    frame_of,
    is_inferred,
    is_pandas_column,
    pandas_dtype_name,
    parse_dtype,
    plain_name,
    without_categories,
)
from skdpsynth.persistence import savable

_WORDS = {"pandas": "data frame of pandas", "polars": "data frame of polars", "pyarrow": "Table of pyarrow"}
_WORDS |= {"numpy": "2-D array", "sparse": "sparse matrix"}
_DUPLICATES = "{} must have distinct column names, but one occurs twice; rename the columns."
_DEFAULT_ADVICE = "give LatentFactorSynthesizer a schema, with which it takes mixed tables as they are"
_OBJECTS = "{name} must hold numbers only: it holds objects that are not numbers (an argument must be a number, or a string that reads as "
_OBJECTS += "a number); drop their columns, or {instead}."  # of one kind, whatever kind of table it is
# Advice for a column whose dtype has no numbers and no words: the beginning of its name, whatever its case, and the way out.
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


def without_cells_in_errors(read: Callable[[], Any], sentence: str, kind: type[Exception] | None = None) -> Any:
    """Call `read`; any error becomes our sentence alone, of a `kind`, or its own where that is common; ``{error}`` in it is its class."""
    try:
        with np.errstate(all="ignore"):
            return read()
    except MemoryError:
        raise
    except Exception as error:
        kind = kind or next((each for each in (OSError, TypeError, ImportError, ValueError) if isinstance(error, each)), ValueError)
        message = sentence.replace("{error}", type(error).__name__)  # not format: a file's name may hold braces
    # Raised here, so that it has no context, which would quote what the library said.
    raise kind(message)


def is_pandas(X: Table) -> bool:
    return any(base.__module__.split(".")[0] == "pandas" and base.__name__ == "DataFrame" for base in type(X).__mro__)


def library_of(X: Table) -> str:
    return str(type(X).__module__).partition(".")[0]


def is_arrow(X: Table) -> bool:
    return type(X).__name__ == "Table" and library_of(X) == "pyarrow"


def to_native(X: Table) -> Any:
    """Return the table that an eager frame of narwhals wraps, and a RecordBatch as a Table, without a copy; all else as it is."""
    if type(X).__name__ == "DataFrame" and library_of(X) == "narwhals":
        return X.to_native()
    if type(X).__name__ == "RecordBatch" and library_of(X) == "pyarrow":
        import pyarrow as pa

        return pa.Table.from_batches([X])
    return X


def make_frame(columns: dict[Any, list[Any]], what: str) -> Any:
    library = next((each for each in ("pandas", "polars", "pyarrow") if find_spec(each) is not None), None)
    if library is None:
        raise ImportError(f"{what}: pip install pandas; or number the columns.")
    return frame_of(list(columns.values()), tuple(columns), library)


def check_table(X: Table, name: str = "X") -> None:
    """Refuse what is no table in memory, and tables whose cells hide values; messages call it `name`."""
    if X is None or type(X) is dict or isinstance(X, str | bytes | PathLike):
        got = "None; give the rows" if X is None else f"a {type(X).__name__}; read it from its file first, or make a data frame of it"
        raise TypeError(f"{name} must be a table in memory, an array or a data frame, got {got}.")
    if (hasattr(X, "collect") and not hasattr(X, "to_numpy")) or hasattr(X, "__dask_graph__"):
        how = ".compute()" if hasattr(X, "__dask_graph__") else ".collect()"
        raise TypeError(f"{name} must be a table in memory, got a lazy {type(X).__name__}; call {how} first.")
    rows = X if isinstance(X, list | tuple) else ()
    if isinstance(X, np.ma.MaskedArray) or any(isinstance(row, np.ma.MaskedArray) for row in rows):
        raise TypeError(f"{name} must not be a masked array, whose hidden values would be read; fill it first, X.filled(...), or give NaN.")


def column_names(X: Table, name: str = "X") -> list[Any] | None:
    """Return the column names of a data frame, which must be distinct; None of what is no frame."""
    X = to_native(X)
    if isinstance(X, np.ndarray) or not (is_arrow(X) or (hasattr(X, "columns") and hasattr(X, "to_numpy"))):
        return None
    names = list(X.column_names if is_arrow(X) else X.columns)
    if len(set(names)) < len(names):
        raise ValueError(_DUPLICATES.format(name))
    return names


def eager_frame(X: Table, name: str = "X") -> Any:
    """Return a data frame as one of narwhals, or None for what is no frame."""
    import narwhals.stable.v2 as nw
    from narwhals.exceptions import DuplicateError

    X = to_native(X)
    try:
        frame = nw.from_native(X, eager_only=True, pass_through=True)
        return frame if isinstance(frame, nw.DataFrame) and frame.schema is not None else None
    except DuplicateError:
        raise ValueError(_DUPLICATES.format(name)) from None


@savable
@dataclass(frozen=True)
class TableKind:
    """Library, columns and dtypes of a table."""

    library: Any  # "numpy", "sparse", or the data-frame library
    columns: tuple  # names, or numbers in an array
    dtypes: tuple  # of each column, as its library calls it; a categorical one of pandas with the dtype of its categories

    def _check_loaded(self) -> None:
        require(self.library in (*_WORDS, "modin", "cudf") and len(self.dtypes) == len(self.columns) == len(set(self.columns)) > 0)
        require(all(isinstance(each, str) for each in self.dtypes))

    @classmethod
    def of(cls, table: Table, name: str = "X") -> "TableKind":
        """Describe an array, sparse matrix or eager data frame."""
        is_array = issparse(table) or (isinstance(table, np.ndarray) and table.ndim == 2)
        table = table if is_array else to_native(table)
        if not is_array and is_pandas(table):
            # `frame.dtypes` changes the warning filters of the process for a moment, and tables may be read in threads.
            dtypes = (pandas_dtype_name(table.iloc[:, place].dtype) for place in range(table.shape[1]))
            return cls("pandas", tuple(column_names(table, name) or ()), tuple(dtypes))
        if not is_array and (frame := eager_frame(table, name)) is not None:
            return cls(frame.implementation.value, tuple(frame.columns), tuple(map(plain_name, frame.schema.values())))
        array = table if is_array else as_cells(table)
        # The length of the longest string is that of a cell.
        dtype = f"<{array.dtype.kind}" if array.dtype.kind in "US" else array.dtype.str
        return cls("sparse" if issparse(array) else "numpy", tuple(range(array.shape[1])), (dtype,) * array.shape[1])

    @property
    def width(self) -> int:
        return len(self.columns)

    @property
    def names(self) -> tuple | None:
        """Names of the columns; None of an array."""
        return None if self.library in ("numpy", "sparse") else self.columns

    @property
    def output_library(self) -> str:
        return "numpy" if self.library == "sparse" else self.library

    def check(self, chunk: Table, which: str, name: str) -> None:
        """Refuse a chunk (or a file: `which`) of another kind, in one sentence about the first thing in which it differs."""
        if (other := TableKind.of(chunk, f"{which} of {name}")) == self:
            return
        if other.library != self.library:
            kinds = (_WORDS.get(kind.library, f"data frame of {kind.library}") for kind in (other, self))
            raise TypeError("{} must have chunks of one kind, but {} is a {}, and the first a {}.".format(name, which, *kinds))
        widths = [f"{each.width} column{'s' * (each.width > 1)}" for each in (other, self)]
        for here, there in [widths, *(map(short_repr, map(str, pair)) for pair in zip(other.columns, self.columns, strict=False))]:
            if here != there:
                raise ValueError(
                    f"{name} must have the same columns in the same order throughout, but {which} has {here} where the first has {there}; "
                    "rename, reorder or select them."
                )
        for column, *dtypes in zip(self.columns, other.dtypes, self.dtypes, strict=True):
            # Without the order of their bytes, and without categories, which stem from rows.
            here, there = (np.dtype(each).newbyteorder("=").str if each[:1] in "<>|=" else without_categories(each) for each in dtypes)
            # pandas takes these dtypes from cells: a missing one, or a word, makes another of the whole column.
            if here != there and not (self.library == "pandas" and is_inferred(here) and is_inferred(there)):
                where = which if self.names is None else f"column {short_repr(str(column))} of {which}"
                words = {"U": "strings", "S": "bytes", "O": "objects"}  # what an array holds
                here, there = (words.get(each[1:2], np.dtype(each).name) if each[:1] in "<>|=" else each for each in (here, there))
                raise TypeError(f"{name} must have the same dtypes throughout, but {where} has {here}, and the first {there}; convert one.")

    def parts(self, table: Table, n_rows: int) -> Iterator[Any]:
        """Yield a table in parts of at most `n_rows` rows, without a copy of its cells."""
        for start in range(0, table.shape[0], n_rows):
            yield table if table.shape[0] <= n_rows else slice_rows(table, start, n_rows)


def split_columns(X: Table, is_text: bool = False) -> tuple[TableKind, list[Any]]:
    """Return the kind of an array or eager data frame, and its columns: arrays, series of pandas, or series of narwhals.

    `is_text`: whether it is of a file of text, whose reader has left out what is no UTF-8.
    """
    X = to_native(X)
    check_table(X)
    if is_pandas(X):
        return TableKind.of(X), [without_odd_text(X.iloc[:, place]) for place in range(X.shape[1])]
    X = X if is_text else without_odd_text(X)
    if is_arrow(X):  # narwhals takes every dictionary for one of words: those of numbers and times are written out
        import pyarrow as pa

        for place, field in enumerate(X.schema):
            values = getattr(field.type, "value_type", None) if pa.types.is_dictionary(field.type) else None
            if values is not None and not str(values).endswith(("string", "string_view")):
                X = X.set_column(place, field.name, pa.chunked_array([part.dictionary_decode() for part in X.column(place).chunks], values))
    if (frame := eager_frame(X)) is not None:
        return TableKind.of(X), [frame[name] for name in frame.columns]
    array = as_cells(X)
    return TableKind.of(array), list(array.T)


def without_odd_text(X: Table) -> Any:
    """Return a Table or column of Arrow, or a series of pandas, with missing cells for texts that are no UTF-8; all else as it is."""
    if is_arrow(X):
        for place, field in enumerate(X.schema):
            column = X.column(place)
            if (mended := _mend_texts(column)) is not column:
                X = X.set_column(place, field, mended)
        return X
    if library_of(X) == "pyarrow":
        return _mend_texts(X)
    dtype: Any = getattr(X, "dtype", None)
    if not is_pandas_column(X) or getattr(dtype, "storage", "pyarrow" if "[pyarrow]" in str(dtype) else "") != "pyarrow":
        return X
    cells = X.array.__arrow_array__()
    return X if (mended := _mend_texts(cells)) is cells else type(X)(dtype.__from_arrow__(mended), X.index, name=X.name)


def _mend_texts(cells: Column) -> Any:
    """Return cells of Arrow without texts that are no UTF-8: each that is none is missing; where all are, the same object."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind, is_dictionary = cells.type, pa.types.is_dictionary(cells.type)
    if str(kind.value_type if is_dictionary else kind) not in ("string", "large_string", "string_view"):
        return cells
    with suppress(pa.ArrowInvalid):
        cells.validate(full=True)
        return cells
    if isinstance(cells, pa.ChunkedArray):
        return pa.chunked_array(list(map(_mend_texts, cells.chunks)), kind)
    if not is_dictionary:
        texts = cells.cast(pa.large_binary()).to_pylist()
        return pa.array((None if text is None or not can_decode(text) else text.decode() for text in texts), kind)
    texts = _mend_texts(cells.dictionary)
    return pa.DictionaryArray.from_arrays(pc.if_else(texts.is_null().take(cells.indices), None, cells.indices), texts, ordered=kind.ordered)


def can_decode(text: bytes, encoding: str = "utf-8") -> bool:
    try:
        return text.isascii() or text.decode(encoding) is not None
    except UnicodeDecodeError:
        return False


def as_cells(X: Table) -> np.ndarray:
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


def as_chunk(chunk: Table, which: str, name: str) -> Any:
    """Return a chunk that the caller's own code gave as a table of a known library; refuse anything else."""
    chunk = to_native(chunk)
    if isinstance(chunk, np.ndarray):
        check_table(chunk, f"{which} of {name}")
    library = chunk_library(chunk)
    if library == "" or len(chunk.shape) != 2:
        what = f"a {type(chunk).__name__}" + (f" of shape {chunk.shape}" if library else "")  # a word or number would be a cell
        raise TypeError(
            f"{name} must be made of chunks of rows, 2-D arrays or data frames of pandas, polars or pyarrow, but {which} is {what}; "
            "give such chunks."
        )
    return chunk.tocsr() if library == "sparse" else chunk


def is_chunk(X: Table) -> bool:
    """Whether an item of a list makes the list one of chunks: a frame, a sparse matrix, or an array that is no single row."""
    return bool(chunk_library(to_native(X))) and len(getattr(X, "shape", (0, 0))) == 2


def chunk_library(chunk: Table) -> str:
    """Return the library of a chunk, or "" of what is none."""
    if isinstance(chunk, np.ndarray):
        return "numpy"
    if issparse(chunk):
        return "sparse"
    if is_pandas(chunk):
        return "pandas"
    library = library_of(chunk)
    return library if (library, type(chunk).__name__) in {("polars", "DataFrame"), ("pyarrow", "Table")} else ""


def without_rows(chunk: Table) -> Any:
    library = chunk_library(chunk)
    if library == "pyarrow":
        return chunk.schema.remove_metadata().empty_table()
    return np.empty((0, chunk.shape[1]), dtype=chunk.dtype) if library == "numpy" else slice_rows(chunk, 0, 0)


def slice_rows(table: Table, start: int, n_rows: int) -> Any:
    library = chunk_library(table)
    if library == "pandas":
        return table.iloc[start : start + n_rows]
    return table[start : start + n_rows] if library in ("numpy", "sparse") else table.slice(start, n_rows)


def size_of(chunk: Table) -> int:
    if issparse(chunk):
        return chunk.data.nbytes + chunk.indices.nbytes + chunk.indptr.nbytes
    frame = None if isinstance(chunk, np.ndarray) else eager_frame(chunk)
    return chunk.nbytes if frame is None else int(frame.estimated_size())


def copy_chunk(chunk: Table) -> Any:
    """Return a chunk whose numbers nobody else can change.

    A frame may show an array of the caller's without a copy. Copies of frames of Arrow and polars show it too, but not what is written out
    and read again, or gathered by numbers of rows.
    """
    library = chunk_library(chunk)
    if library == "pyarrow":
        import pyarrow as pa

        written = pa.BufferOutputStream()
        with pa.ipc.new_stream(written, chunk.schema) as stream:
            stream.write_table(chunk)
        return pa.ipc.open_stream(written.getvalue()).read_all()
    return chunk[np.arange(chunk.shape[0])] if library == "polars" else chunk.copy()


# Tables of numbers


def as_numbers(X: Table, name: str = "X", instead: str = _DEFAULT_ADVICE) -> Any:
    """Return a table of numbers as it is, a frame or an array; of objects that are numbers, as floats.

    What holds something else is refused: the message names columns and dtypes, which are public, `instead`, and never a cell.
    """
    X = to_native(X)
    check_table(X, name)
    fails = _OBJECTS.replace("{name}", name).replace("{instead}", instead)
    if (names := column_names(X, name)) is None:
        # A list goes through objects: among numbers of 32 bits one string would turn all into text and back, which moves other rows.
        dtype = object if isinstance(X, list | tuple) else None
        array = without_cells_in_errors(lambda: np.asarray(X, dtype=dtype), fails, TypeError)
        if array.dtype.kind in "OUS":
            array = without_cells_in_errors(partial(array.astype, float), fails, TypeError)
        if array.dtype.kind == "c":
            raise ValueError(f"Complex data not supported: {name} must hold real numbers; give real and imaginary parts as columns.")
        if array.dtype.kind not in "iufb":
            way = _conversion_advice(array.dtype.str, instead)
            raise TypeError(f"{name} must hold numbers only, got dtype {array.dtype.name}; {way}.")
        return array
    if not names:
        raise ValueError(f"{name} must have columns: found array with 0 feature(s) while a minimum of 1 is required.")
    dtypes = X.schema.types if is_arrow(X) else list(X.dtypes)
    objects = [place for place, dtype in enumerate(dtypes) if is_pandas(X) and dtype == np.dtype(object)]  # which are tried
    for place, (column, dtype) in enumerate(zip(names, dtypes, strict=True)):
        facts = parse_dtype(f"{dtype}[pyarrow]" if is_arrow(X) else plain_name(dtype))
        if place not in objects and (facts.number is None or facts.decimal is not None or str(dtype).startswith("dictionary")):
            told = re.split(r"[(\[<]", str(dtype))[0]  # in brackets may stand values: categories, what fills a sparse column
            way = _conversion_advice(told, instead)
            raise TypeError(f"{name} must hold numbers only, but column {short_repr(str(column))} has dtype {told}; {way}.")
    if not is_arrow(X):
        return without_cells_in_errors(lambda: X.astype(float), fails, TypeError) if objects else X
    arrays = [cells.to_numpy() for cells in X.columns]
    # Column by column, as Arrow holds them; objects are booleans, of which some are missing.
    return np.array([array.astype(float) if array.dtype == object else array for array in arrays]).T


def table_of_numbers(X: Table) -> Any:
    """Return a table of numbers for the checks of scikit-learn, whose messages would print the values of what is no table."""
    is_plain = issparse(X) or (type(X) is np.ndarray and X.dtype.kind in "iufb")
    X = X if is_plain else as_numbers(X)
    if hasattr(X, "ndim") and X.ndim < 2:
        raise ValueError(
            f"Expected 2D array, got {'1D' if X.ndim else 'scalar'} array instead. Reshape your data: X.reshape(-1, 1) if it has "
            "a single feature, X.reshape(1, -1) if it is a single row."
        )
    return X


def as_rows(X: Table, n_features: int, name: str = "X") -> np.ndarray:
    """Return rows for a public box: an array of numbers with one column for each feature, of whatever is a table of numbers."""
    rows = X if type(X) is np.ndarray and X.dtype.kind in "iufb" else as_float_matrix(X, name, "give an array of numbers")
    if rows.ndim != 2 or rows.shape[1] != n_features:
        raise ValueError(f"{name} must have shape (n_samples, {n_features}), one column a feature, got {rows.shape}.")
    return rows


def dense_chunks(X: Table, n_rows: int) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield ``(rows, chunk)`` over a table: a slice of `n_rows` rows and these rows as an array, however the table holds them.

    Sparse rows are written out a chunk at a time, never all.
    """
    for start in range(0, X.shape[0], n_rows):
        rows = slice(start, min(start + n_rows, X.shape[0]))
        yield rows, X[rows].toarray() if issparse(X) else X[rows]


def as_float_matrix(X: Table, name: str, instead: str) -> np.ndarray:
    """Return an array-like or a frame of numbers as an array of floats, NaN where a frame has none."""
    if hasattr(X, "toarray"):
        raise TypeError(f"{name} must be dense, got a {type(X).__name__}; call .toarray() first.")
    numbers = as_numbers(X, name, instead)
    if is_pandas(numbers):
        return numbers.to_numpy(dtype=float, na_value=np.nan)
    with np.errstate(all="ignore"):  # a floating-point warning would tell of values
        return np.asarray(numbers if isinstance(numbers, np.ndarray) else numbers.to_numpy(), dtype=float)


def dtype_advice(dtype: str) -> str | None:
    """Return what to do with a column of this dtype, in which there are no numbers, no words and no dates; None if it has some."""
    return next((way for pattern, way in _DTYPE_ADVICE if re.match(pattern, dtype, re.IGNORECASE)), None)


def _conversion_advice(dtype: str, instead: str) -> str:
    if re.match(r"[Dd]ate|[Tt]imestamp|[<>|=]?M8", dtype):
        return f"turn it into numbers first, such as days since a public date, or {instead} (Date, DateTime)"
    return dtype_advice(dtype) or f"drop it, or {instead}"


class NamedArray:
    def __init__(self, values: np.ndarray, names: list[Any]) -> None:
        self._values, self._names = values, [str(name) for name in names]
        self.shape, self.dtype = values.shape, getattr(values, "dtype", None)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self._values, dtype=dtype)

    def __len__(self) -> int:
        return len(self._values)

    def __dataframe__(self, *args: Any, **kwargs: Any) -> "NamedArray":
        return self

    def column_names(self) -> list[str]:
        return self._names
