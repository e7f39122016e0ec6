"""The form of chunks: of what kind they are, their columns and dtypes, all of which are public."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from skdpsynth._validation import short_repr
from skdpsynth.frames._tables import check_table, column_names, is_pandas, library_of, to_native

_WORDS = {"pandas": "data frame of pandas", "polars": "data frame of polars", "pyarrow": "Table of pyarrow"}
_ARRAYS = {"U": "strings", "S": "bytes", "O": "objects"}  # the longest string is a cell
_WORDS |= {"numpy": "2-D array", "sparse": "sparse matrix"}


@dataclass(frozen=True)
class Form:
    """Kind, columns and dtypes of a chunk.

    Attributes
    ----------
    kind : {"pandas", "polars", "pyarrow", "numpy", "sparse"}
    columns : tuple
        Names, or numbers in an array.
    dtypes : tuple of str
        Of each column; of an array or sparse matrix one for all. Without categories, which stem from rows.
    """

    kind: str
    columns: tuple
    dtypes: tuple

    @classmethod
    def of(cls, chunk: Any, name: str = "X") -> "Form":
        """Describe a chunk, which `as_chunk` returned."""
        kind = _kind_of(chunk)
        if kind == "pyarrow":
            return cls.of_schema(chunk.schema, name)
        if kind == "pandas":
            return cls(kind, tuple(column_names(chunk, name) or ()), tuple(map(_plain_dtype, chunk.dtypes)))
        if kind == "polars":
            return cls(kind, tuple(chunk.columns), tuple(map(_plain_dtype, chunk.dtypes)))
        dtype = chunk.dtype
        return cls(kind, tuple(range(chunk.shape[1])), (_ARRAYS.get(dtype.kind, dtype.newbyteorder("=").name),))

    @classmethod
    def of_schema(cls, schema: Any, name: str = "X") -> "Form":
        """Describe the tables of a schema of pyarrow."""
        if len(set(schema.names)) < len(schema.names):
            raise ValueError(f"{name} must have distinct column names, but one occurs twice; rename the columns.")
        return cls("pyarrow", tuple(schema.names), tuple(map(_arrow_name, schema.types)))

    @property
    def backend(self) -> str:
        """Kind of table in which samples come back."""
        return "numpy" if self.kind == "sparse" else self.kind

    @property
    def width(self) -> int:
        """How many columns there are."""
        return len(self.columns)

    def check(self, chunk: Any, which: str, name: str) -> None:
        """Refuse a chunk of another form.

        Parameters
        ----------
        chunk : table
        which : str
            What to call it in the message: chunk 3, or a file.
        name : str
            What the caller calls the whole.
        """
        self.match(Form.of(chunk, f"{which} of {name}"), which, name)

    def match(self, other: "Form", which: str, name: str) -> None:
        """Refuse another form, in one sentence about the first thing in which it differs."""
        if other == self:
            return
        if other.kind != self.kind:
            raise TypeError(
                f"{name} must have chunks of one kind, but {which} is a {_WORDS[other.kind]}, and the first a {_WORDS[self.kind]}."
            )
        if other.width != self.width:
            raise ValueError(
                f"{name} must have the same columns throughout, but {which} has {other.width} of them, and the first {self.width}; "
                "select the same columns everywhere."
            )
        for here, there in zip(other.columns, self.columns, strict=True):
            if here != there:
                raise ValueError(
                    f"{name} must have the same columns in the same order throughout, but {which} has {short_repr(str(here))} where the first "
                    f"has {short_repr(str(there))}; rename or reorder them."
                )
        for column, here, there in zip(self.columns, other.dtypes, self.dtypes, strict=False):  # an array has one dtype for all
            if here != there and not (self.kind == "pandas" and _is_inferred(here) and _is_inferred(there)):
                where = which if self.kind in ("numpy", "sparse") else f"column {short_repr(str(column))} of {which}"
                raise TypeError(f"{name} must have the same dtypes throughout, but {where} has {here}, and the first {there}; convert one.")

    def parts(self, table: Any, n_rows: int) -> Iterator[Any]:
        """Yield a table in parts of at most `n_rows` rows, without a copy of its cells."""
        if table.shape[0] <= n_rows:
            if table.shape[0]:
                yield table
            return
        for start in range(0, table.shape[0], n_rows):
            yield rows_of(table, start, n_rows)


def as_chunk(chunk: Any, which: str, name: str) -> Any:
    """Return a chunk that somebody's own code gave as a table that `Form` knows; refuse anything else.

    Parameters
    ----------
    chunk : object
        A 2-D array, a sparse matrix, or a data frame of pandas, polars, pyarrow or narwhals.
    which, name : str
        As in `Form.check`.
    """
    chunk = to_native(chunk)
    if isinstance(chunk, np.ndarray):
        check_table(chunk, f"{which} of {name}")
    kind = _kind_of(chunk)
    if kind == "" or len(chunk.shape) != 2:
        what = f"a {type(chunk).__name__}" + (f" of shape {chunk.shape}" if kind else "")  # a word or number would be a cell
        raise TypeError(
            f"{name} must be made of chunks of rows, 2-D arrays or data frames of pandas, polars or pyarrow, but {which} is {what}; "
            "give such chunks."
        )
    return chunk.tocsr() if kind == "sparse" else chunk


def is_chunk(X: Any) -> bool:
    """Whether an item of a list makes the list one of chunks: a frame, a sparse matrix, or an array that is no single row."""
    kind = _kind_of(to_native(X))
    return bool(kind) and len(getattr(X, "shape", (0, 0))) == 2


def without_rows(chunk: Any) -> Any:
    """Return a table with the columns and dtypes of another, and no rows."""
    if _kind_of(chunk) == "pyarrow":
        return chunk.schema.remove_metadata().empty_table()
    if _kind_of(chunk) == "numpy":
        return np.empty((0, chunk.shape[1]), dtype=chunk.dtype)
    return rows_of(chunk, 0, 0)


def rows_of(table: Any, start: int, n_rows: int) -> Any:
    """Return rows of a table from a place on, as a table of its kind."""
    kind = _kind_of(table)
    if kind == "pandas":
        return table.iloc[start : start + n_rows]
    return table[start : start + n_rows] if kind in ("numpy", "sparse") else table.slice(start, n_rows)


def size_of(chunk: Any) -> int:
    """Return how many bytes a chunk takes."""
    kind = _kind_of(chunk)
    if kind == "sparse":
        return chunk.data.nbytes + chunk.indices.nbytes + chunk.indptr.nbytes
    if kind == "pandas":
        return int(chunk.memory_usage(index=True, deep=True).sum())
    return chunk.estimated_size() if kind == "polars" else chunk.nbytes


def copy_chunk(chunk: Any) -> Any:
    """Return a chunk whose numbers nobody else can change.

    A frame may show an array of the caller's without a copy. Copies of frames of Arrow and polars show it too, but not what is written out
    and read again, or gathered by numbers of rows.
    """
    kind = _kind_of(chunk)
    if kind == "pyarrow":
        import pyarrow as pa

        written = pa.BufferOutputStream()
        with pa.ipc.new_stream(written, chunk.schema) as stream:
            stream.write_table(chunk)
        return pa.ipc.open_stream(written.getvalue()).read_all()
    return chunk[np.arange(chunk.shape[0])] if kind == "polars" else chunk.copy()


def _kind_of(chunk: Any) -> str:
    """Return the kind of a chunk, or "" of what is none."""
    if isinstance(chunk, np.ndarray):
        return "numpy"
    if issparse(chunk):
        return "sparse"
    if is_pandas(chunk):
        return "pandas"
    library = library_of(chunk)
    return library if (library, type(chunk).__name__) in {("polars", "DataFrame"), ("pyarrow", "Table")} else ""


def _is_inferred(dtype: str) -> bool:
    """Whether pandas takes this dtype from cells: a missing one, or a word, makes another of the whole column."""
    return dtype in ("int64", "float64", "bool", "object", "str") or re.fullmatch(r"datetime64\[\w+\]", dtype) is not None


def _plain_dtype(dtype: Any) -> str:
    """Name a dtype of pandas or polars without what may stem from rows: categories, what fills a sparse column."""
    name = str(dtype)
    return re.split(r"[(\[]", name)[0] if name.startswith(("Enum", "Categorical", "Sparse")) else name


def _arrow_name(dtype: Any) -> str:
    """Name a type of pyarrow; a dictionary by what it holds, since its codes may be of any width."""
    text = str(dtype)
    return f"dictionary of {dtype.value_type}" if text.startswith("dictionary") else text
