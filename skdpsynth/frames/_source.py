"""Tables that are not in memory: read in chunks, from the start as often as asked.

What may be known of such a table without its rows, its columns, dtypes and maybe how many rows there are, is public. A source that
cannot be read is refused in one sentence, which names files, columns and dtypes, and never quotes a cell: what other libraries say
of a reading that failed is not handed on, since it often quotes one.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from importlib.util import find_spec
from os import PathLike
from typing import Any, final

import numpy as np
from scipy.sparse import issparse

from skdpsynth._progress import reading_task
from skdpsynth._validation import short_repr
from skdpsynth.frames._form import Form
from skdpsynth.frames._remote import RemoteTable
from skdpsynth.frames._tables import is_pandas, library_of

MOST_ROWS = 2**17  # of a chunk
_MOST_CELLS = 2**21  # of a chunk: 16 MiB of floats
FILES = "a path, or a list of paths, of Parquet or CSV files"


class Source(ABC):
    """A table that is not in memory.

    Attributes
    ----------
    backend : {"pandas", "polars", "pyarrow", "numpy"}
        Kind of table in which samples come back.
    head : data frame or array
        A table of that kind without rows: columns and dtypes, which are public. Of sparse chunks, compressed sparse rows.
    n_samples : int or None
        The number of rows, where it is known without reading them.
    is_text : bool
        Whether cells were text that nobody has promised to be numbers: what reads as none is NaN.
    lazy : narwhals LazyFrame or None
        The same table as a query, for sums that are made where the rows are.
    partitions : list of dask.delayed or None
        Of Dask, the parts of the table.
    pieces : callable
        Of Dask, what a worker does first with a part, computed, and its number: it yields checked chunks. It can be pickled.
    has_order : bool
        Whether the order in which rows come is a fact of the table, as it is of a file. A query states none: in which order its answer
        comes may follow from any row of the tables below.
    is_one_shot : bool
        Whether the rows can be had only once, so that to read them again they are kept.
    tables : object or None
        What a database holds of the rows while sums of one fit are made there.
    """

    lazy: Any = None
    partitions: Any = None
    tables: Any = None
    pieces: Any = None
    has_order = True
    is_one_shot = False
    is_text = False

    def __init__(self, name: str, head: Any, form: Form, *, backend: str | None = None, n_samples: int | None = None) -> None:
        self.head, self.n_samples = head, n_samples
        self.backend = form.backend if backend is None else backend
        self._name, self._form = name, form
        self._at_once = rows_at_once(form.width)
        self._seen: int | None = None  # how many rows the pass before gave

    @abstractmethod
    def _read(self) -> Iterator[Any]:
        """Yield the rows from the start, in tables of the form of this source."""

    def check_unchanged(self) -> None:  # noqa: B027  only files can tell
        """Raise OSError if what is read is known to differ from when it was opened."""

    @final
    def chunks(self) -> Generator[Any, None, None]:
        """Yield the rows from the start, in tables that all have the columns and dtypes of the head.

        Yields
        ------
        chunk : pyarrow Table, data frame of pandas or polars, ndarray or compressed sparse rows
            At most 2^17 rows, and fewer of wide tables.

        Raises
        ------
        TypeError, ValueError, OSError
            In one sentence, where the rows cannot be read, a chunk has another form, or there are not as many rows as before.
        """
        yield from self._checked(self._read())

    @final
    def stream(self) -> Generator[Any, None, None]:
        """Yield the rows as `chunks` does, for who needs them only once: of a source that is one-shot, nothing is kept."""
        yield from self._checked(self._read_once())

    def _read_once(self) -> Iterator[Any]:
        return self._read()

    def _checked(self, tables: Any) -> Generator[Any, None, None]:
        self.check_unchanged()
        n_rows = 0
        with closing(tables), reading_task(f"reading {self._name}") as progress:
            for number, table in enumerate(tables, start=1):
                self._form.check(table, f"chunk {number}", self._name)
                for chunk in self._form.parts(table, self._at_once):
                    n_rows += chunk.shape[0]
                    self._check_length(n_rows, is_over=False)
                    yield chunk
                    progress.step()
        self.check_unchanged()
        self.check_length(n_rows)

    def check_length(self, n_rows: int) -> None:
        """Refuse a reading that is over if it gave another number of rows than the one before."""
        self._check_length(n_rows, is_over=True)
        self._seen = n_rows

    def _check_length(self, n_rows: int, *, is_over: bool) -> None:
        """Refuse rows that came or went between passes: sums over different rows do not belong together, and n was taken as a fact."""
        known = self.n_samples if self._seen is None else self._seen
        if known is not None and (n_rows > known or (is_over and n_rows < known)):
            raise ValueError(
                f"{self._name} must give the same rows whenever it is read, but gave another number of them than before; "
                "give what can be read again from the start, a list of chunks or files that nobody writes to."
            )


def rows_at_once(n_columns: int) -> int:
    """Return how many rows a chunk may have: 2^17, and fewer of more than 16 columns."""
    return max(1, min(MOST_ROWS, _MOST_CELLS // max(1, n_columns)))


def open_source(
    X: Any,
    name: str = "X",
    *,
    schema: Any = None,
    unit: Any = None,
    neighboring: str = "replace_one",
    for_numbers: bool = False,
) -> Any:
    """Open a table that is not in memory.

    Parameters
    ----------
    X : object
        A path, glob, folder or list of paths of Parquet or CSV files; a Dataset, Scanner, RecordBatchReader or ParquetFile of pyarrow;
        a lazy frame of polars, DuckDB or Ibis, also in narwhals; an array or data frame of Dask; a list of chunks, an iterable of
        chunks that starts anew at each iteration, a function without arguments that returns an iterator of chunks, or an iterator
        of chunks. A chunk is a 2-D array, sparse matrix or data frame. Or a `RemoteTable`.
    name : str, default="X"
        What the caller calls the table, for messages.
    schema : Schema, default=None
        What the columns of CSV files hold, which have no dtypes. None: numbers.
    unit : str, default=None
        The column of CSV files that holds labels of units.
    neighboring : {"replace_one", "add_or_remove_one"}, default="replace_one"
        Whether the number of rows is public, so that a damaged line of a CSV file is a row of missing cells; else it is left out.
    for_numbers : bool, default=False
        Whether the schema serves an estimator that takes none: then whole numbers of CSV files have the dtype of whole numbers.

    Returns
    -------
    source : Source, RemoteTable or None
        None of a table in memory, an array-like or an eager data frame.

    Raises
    ------
    TypeError, ValueError, OSError, ImportError
        In one sentence, if it cannot be opened.
    """
    if isinstance(X, np.ndarray) or issparse(X) or is_pandas(X):
        return None
    if isinstance(X, RemoteTable | Source):
        return X
    if X is None:
        raise TypeError(f"{name} must be a table, got None; pass an array, a data frame, or {FILES}.")
    if isinstance(X, str | bytes | PathLike):
        X = [X]
    if isinstance(X, list | tuple) and X and all(isinstance(item, str | PathLike | bytes) for item in X):
        from skdpsynth.frames._files import open_files

        skips = neighboring != "replace_one"
        return open_files(X, name, schema=schema, unit=unit, skips_damaged=skips, for_numbers=for_numbers)
    if library_of(X) == "narwhals" and hasattr(X, "to_native"):
        X = X.to_native()
    return _open_of_library(X, name)


def _open_of_library(X: Any, name: str) -> Source | None:
    """Open by the package that a table comes from, which is imported already; none is imported to look."""
    library = library_of(X)
    if library == "pyarrow":
        from skdpsynth.frames._arrow import open_arrow

        return open_arrow(X, name)
    if library == "dask":
        from skdpsynth.frames._dask import open_dask

        return open_dask(X, name)
    if library in ("polars", "duckdb", "_duckdb", "ibis", "pyspark"):
        from skdpsynth.frames._lazy import open_lazy

        return open_lazy(X, name)
    from skdpsynth.frames._chunks import open_chunks

    return open_chunks(X, name)


def require_package(package: str, name: str, what: str) -> None:
    """Refuse what needs a package that is not installed, by its name."""
    if find_spec(package) is None:
        raise ImportError(f"{name} is {what}, which needs {package} to be read; install it: pip install {package}.")


def without_cells_in_errors(reading: Any, sentence: str) -> Any:
    """Call `reading_task`; whatever goes wrong in it is said in our sentence alone, of the same kind where its kind is a common one.

    Parameters
    ----------
    reading : callable
        Without arguments.
    sentence : str
        With ``{error}`` where the class of the error may be told.
    """
    try:
        with np.errstate(all="ignore"):
            return reading()
    except MemoryError:
        raise
    except Exception as error:
        kind = next(kind for kind in (OSError, TypeError, ImportError, ValueError, Exception) if isinstance(error, kind))
        told = sentence.replace("{error}", type(error).__name__)  # not format: a file's name may hold braces
    # Raised here, so that it has no context, which would quote what the library said.
    raise (ValueError if kind is Exception else kind)(told)


def each_without_cells_in_errors(tables: Iterable[Any], sentence: str) -> Iterator[Any]:
    """Yield from what another library, or the caller's code, iterates; whatever goes wrong there is said in our sentence alone."""
    iterator, end = without_cells_in_errors(lambda: iter(tables), sentence), object()
    try:
        while (table := without_cells_in_errors(lambda: next(iterator, end), sentence)) is not end:
            yield table
    finally:
        close = getattr(iterator, "close", None)
        if callable(close):
            without_cells_in_errors(close, sentence)


def short_path(value: Any) -> str:
    """Return how messages show a path: whole where it is short, else its end."""
    text = str(value)
    return short_repr(text if len(text) <= 76 else f"...{text[-70:]}")


def check_distinct(files: Iterable[Any], name: str) -> None:
    """Refuse a file that is there twice, by whatever names: every row of it would count twice, and what one row moves would double."""
    seen: set[Any] = set()
    for file in files:
        for known in _identities_of_file(file):
            if known in seen:
                raise ValueError(f"{name} must name each file once, but {short_path(file)} is there twice; leave one out.")
        seen.update(_identities_of_file(file))


def _identities_of_file(file: Any) -> list[Any]:
    """Return what tells a file from others: its path without links, and where it lies on its disk, which the names of one file share."""
    path = os.path.realpath(file)
    try:
        status = os.stat(path)
    except (OSError, ValueError):  # gone, or elsewhere
        return [path]
    return [path, (status.st_dev, status.st_ino)] if status.st_ino else [path]
