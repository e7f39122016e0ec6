"""Tables as sources: what is public about them, passes over their rows, and sums of rows.

A source that cannot be read is refused in one sentence, which names files, columns and dtypes and never quotes a cell: messages of other
libraries about a failed reading are not passed on, because they often quote one.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from functools import reduce
from importlib.util import find_spec
from operator import add
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from skdpsynth._progress import bar
from skdpsynth._validation import short_repr
from skdpsynth.frames._table_kind import TableKind

MOST_ROWS = 2**17  # of a chunk
_MOST_CELLS = 2**21  # of a chunk: 16 MiB of floats
FILES = "a path, or a list of paths, of Parquet or CSV files"


class Source(ABC):
    """A table, from which rows or sums of rows can be had."""

    in_memory = False
    is_text = False  # cells are text that nobody has promised to be numbers
    decimal = "."  # mark of decimals in such text, and after it that between groups of digits, if there is one
    has_order = True  # the order of rows is a fact, as of a file; the order of a query's answer may follow from any row of its tables
    is_readable = True  # rows can be had, and not sums alone
    stays_apart = False  # rows lie with others, and are better summed there than collected
    n_samples: int | None = None  # where it is known without reading
    head: Any  # a table without rows: columns and dtypes, which are public; of a table in memory, the table

    @abstractmethod
    def chunks(self, n_rows: int | None = None) -> Iterator[Any]:
        """Yield the rows from the start; of rows in memory `n_rows` at a time."""

    def aggregate(self, rows: Any, rule: Any) -> Any:
        """Return the statistic of all rows: here by folding their chunks.

        Sources whose rows lie elsewhere (workers, a database, other sites) have them summed there. The result is the same to the last bit.
        """
        return reduce(add, rows.folded(rule.zero, lambda statistic, _, chunk: rule.add(statistic, chunk)))

    def session(self) -> AbstractContextManager[Any]:
        """Return a context for the sums of one fit; a database keeps what it made for one sum until the last."""
        return nullcontext()


class ChunkedSource(Source):
    """A table that is not in memory, read in chunks of one kind; samples come back in `library`, or that of the chunks."""

    number_dtypes: Mapping[str, Any] = MappingProxyType({})  # of columns of text, by name, where they are stated; else floats

    def __init__(self, name: str, head: Any, kind: TableKind, *, library: str | None = None, n_samples: int | None = None) -> None:
        self.head, self.n_samples, self.kind = head, n_samples, kind
        self.library = kind.output_library if library is None else library
        self.name = name
        self._at_once = rows_at_once(kind.width)
        self._seen: int | None = None  # how many rows the pass before gave

    @property
    def columns(self) -> tuple:
        """Names of the columns, or their numbers in an array."""
        return self.kind.columns

    @abstractmethod
    def _read(self) -> Iterator[Any]:
        """Yield the rows from the start, in tables of the kind of this source."""

    def check_unchanged(self) -> None:
        """Raise OSError if what is read is known to differ from when it was opened."""

    def chunks(self, n_rows: int | None = None) -> Generator[Any, None, None]:
        """Yield the rows from the start, in tables of at most 2^17 rows that all have the columns and dtypes of the head.

        Rows that cannot be read, chunks of another kind, and more or fewer rows than before are refused in one sentence.
        """
        self.check_unchanged()
        n_rows, tables = 0, cast(Any, self._read())
        with closing(tables), bar(f"reading {self.name}") as progress:
            for number, table in enumerate(tables, start=1):
                self.kind.check(table, f"chunk {number}", self.name)
                for chunk in self.kind.parts(table, self._at_once):
                    n_rows += chunk.shape[0]
                    self.check_length(n_rows, is_over=False)
                    yield chunk
                    progress.step()
        self.check_unchanged()
        self.check_length(n_rows)

    def check_length(self, n_rows: int, *, is_over: bool = True) -> None:
        """Refuse rows that came or went between passes: sums over different rows do not belong together, and n was taken as a fact."""
        known = self.n_samples if self._seen is None else self._seen
        if known is not None and (n_rows > known or (is_over and n_rows < known)):
            raise ValueError(
                f"{self.name} must give the same rows whenever it is read, but gave another number of them than before; "
                "give what can be read again from the start, a list of chunks or files that nobody writes to."
            )
        if is_over:
            self._seen = n_rows


def rows_at_once(n_columns: int) -> int:
    """Return how many rows a chunk may have: 2^17, and fewer of more than 16 columns."""
    return max(1, min(MOST_ROWS, _MOST_CELLS // max(1, n_columns)))


def require_package(package: str, name: str, what: str) -> None:
    """Refuse what needs a package that is not installed, by its name."""
    if find_spec(package) is None:
        raise ImportError(f"{name} is {what}, which needs {package} to be read; install it: pip install {package}.")


def without_cells_in_errors(read: Any, sentence: str) -> Any:
    """Call `read`; any error becomes our sentence alone, of the same type where that is common; in it ``{error}`` is the error's class."""
    try:
        with np.errstate(all="ignore"):
            return read()
    except MemoryError:
        raise
    except Exception as error:
        kind = next(kind for kind in (OSError, TypeError, ImportError, ValueError, Exception) if isinstance(error, kind))
        message = sentence.replace("{error}", type(error).__name__)  # not format: a file's name may hold braces
    # Raised here, so that it has no context, which would quote what the library said.
    raise (ValueError if kind is Exception else kind)(message)


def each_without_cells_in_errors(tables: Iterable[Any], sentence: str) -> Iterator[Any]:
    """Yield from what another library, or the caller's code, iterates; any error there becomes our sentence alone."""
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
        path = os.path.realpath(file)
        marks: set[Any] = {path}
        with suppress(OSError, ValueError):  # gone, or elsewhere
            status = os.stat(path)
            marks |= {(status.st_dev, status.st_ino)} if status.st_ino else set()  # which all names of one file share
        if marks & seen:
            raise ValueError(f"{name} must name each file once, but {short_path(file)} is there twice; leave one out.")
        seen |= marks


def rebatch_tables(batches: Iterable[Any], n_columns: int, failed: str, n_rows: int | None = None) -> Iterator[Any]:
    """Yield record batches in tables of about `n_rows` rows, or of as many as a chunk may have: no size of batches costs time or memory."""
    import pyarrow as pa

    most = rows_at_once(n_columns) if n_rows is None else n_rows
    waiting: list[Any] = []
    n_waiting = 0
    for batch in each_without_cells_in_errors(batches, failed):
        waiting.append(batch.replace_schema_metadata())  # which may differ from file to file
        n_waiting += batch.num_rows
        if 2 * n_waiting > most:
            yield pa.Table.from_batches(waiting)
            waiting, n_waiting = [], 0
    if n_waiting:
        yield pa.Table.from_batches(waiting)
