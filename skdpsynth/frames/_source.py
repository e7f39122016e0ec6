"""Tables as sources: what is public about them, passes over their rows, sums of rows, and the checked rows of one fit.

A source that cannot be read is refused in one sentence, which names files, columns and dtypes and never quotes a cell: messages of other
libraries about a failed reading are not passed on, because they often quote one.
"""

import contextvars
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import reduce
from importlib.util import find_spec
from itertools import chain
from operator import add, itemgetter
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from scipy.sparse import issparse

from skdpsynth._parallel import effective_n_threads, one_blas_thread
from skdpsynth._progress import bar
from skdpsynth._validation import short_repr
from skdpsynth.frames._dtypes import Table
from skdpsynth.frames._table_kind import TableKind, without_cells_in_errors

MOST_ROWS = 2**17  # of a chunk
_MOST_CELLS = 2**21  # of a chunk: 16 MiB of floats
FILES = "a path, or a list of paths, of Parquet or CSV files"
_SLICES = 4  # of rows in memory, for each thread
_LEAST_ROWS = 1 << 17  # in a slice: less is not worth a thread, and of more the maps would fill memory
_MOST_KEPT = 1 << 30  # bytes

State = TypeVar("State")
Chunk = Any  # rows: an array or sparse rows of shape (n_rows, n_features), cell numbers of shape (n_rows,), or a list of columns
SumRule: TypeAlias = Any  # a statistic, whose classes stand above this room: how chunks are summed
_Read: TypeAlias = Callable[[int], Iterator[Any]] | None  # of tables of about so many rows


class Source(ABC):
    """A table, from which rows or sums of rows can be had."""

    in_memory = False
    is_text = False  # cells are text that nobody has promised to be numbers
    decimal = "."  # mark of decimals in such text, and after it that between groups of digits, if there is one
    has_order = True  # the order of rows is a fact, as of a file; the order of a query's answer may follow from any row of its tables
    is_readable = True  # rows can be had, and not sums alone
    in_database = False  # rows lie where sums are written in SQL, and are better not read
    stays_apart = False  # rows lie with others, and are better summed there than collected
    n_samples: int | None = None  # where it is known without reading
    head: Any  # a table without rows: columns and dtypes, which are public; of a table in memory, the table

    @abstractmethod
    def chunks(self, n_rows: int | None = None) -> Iterator[Any]:
        """Yield the rows from the start; of rows in memory `n_rows` at a time."""

    def aggregate(self, rows: "Rows", rule: SumRule) -> Any:
        """Return the statistic of all rows: here by folding their chunks.

        Sources whose rows lie elsewhere (workers, a database, other sites) have them summed there. The result is the same to the last bit.
        """
        return reduce(add, rows.fold(rule.zero, lambda statistic, _, chunk: rule.add(statistic, chunk)))

    def session(self) -> AbstractContextManager[Any]:
        """Return a context for the sums of one fit; a database keeps what it made for one sum until the last."""
        return nullcontext()


class ChunkedSource(Source):
    """A table that is not in memory, read in chunks of one kind; samples come back in `library`, or that of the chunks."""

    number_dtypes: Mapping[str, Any] = MappingProxyType({})  # of columns of text, by name, where they are stated; else floats

    def __init__(
        self, name: str, head: Table, read: _Read = None, *, kind: TableKind | None = None, library: str = "", n_samples: int | None = None
    ) -> None:
        self.name, self.head, self.n_samples, self.kind = name, head, n_samples, kind or TableKind.of(head, name)
        self.library = library or self.kind.output_library
        self._read, self._at_once = read, rows_at_once(self.kind.width)
        self._seen: int | None = None  # how many rows the pass before gave

    @property
    def columns(self) -> tuple:
        """Names of the columns, or their numbers in an array."""
        return self.kind.columns

    def _read_tables(self) -> Iterator[Any]:
        """Yield the rows from the start, in tables of the kind of this source."""
        return self._read(self._at_once)  # type: ignore[misc]

    def check_unchanged(self) -> None:
        """Raise OSError if what is read is known to differ from when it was opened."""

    def chunks(self, n_rows: int | None = None) -> Generator[Any, None, None]:
        """Yield the rows from the start, in tables of at most 2^17 rows that all have the columns and dtypes of the head.

        Rows that cannot be read, chunks of another kind, and more or fewer rows than before are refused in one sentence.
        """
        self.check_unchanged()
        n_rows, tables = 0, cast(Any, self._read_tables())
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
    if find_spec(package) is None:
        raise ImportError(f"{name} is {what}, which needs {package} to be read; install it: pip install {package}.")


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


def short_path(value: object) -> str:
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


# The rows of one fit


class InMemory(Source):
    """A table in memory, or the rows that were read of one: an array, sparse rows or a list of columns."""

    in_memory = True

    def __init__(self, table: Table) -> None:
        self.head = self.table = table

    @property
    def n_samples(self) -> int:  # type: ignore[override]
        return n_rows_of(self.table)

    def chunks(self, n_rows: int | None = None) -> Iterator[Chunk]:
        if n_rows is None:
            yield self.table
            return
        yield from (take_rows(self.table, slice(start, start + n_rows)) for start in range(0, self.n_samples, n_rows))


@dataclass(frozen=True, eq=False, repr=False)  # no repr shows rows, or how many there are
class Rows:
    """Rows of one fit: chunks that can be read again, and what becomes of each.

    Nothing below a fit asks for all rows at once, so a table may be in memory, in files, in a database or spread over workers. How it is
    cut into chunks, and in which order they come, has no bearing on a sum of whole numbers.
    """

    source: Source
    n_features: int
    n_samples: int | None = None  # **private** under "add_or_remove_one"; None until they are counted
    maps: tuple[Callable[[Chunk], Chunk], ...] = ()  # each treats a row by itself, always in the same way, and can be pickled
    n_jobs: Any = None  # threads that add up, as everywhere in scikit-learn
    dtype: np.dtype = np.dtype(float)  # noqa: RUF009  of rows of numbers: the caller's, and floats once they were mapped

    @classmethod
    def of(cls, table: Table, n_jobs: int | None = None) -> "Rows":
        width = len(table) if isinstance(table, list) else table.shape[1]
        return cls(InMemory(table), width, n_rows_of(table), (), n_jobs, getattr(table, "dtype", np.dtype(float)))

    def __repr__(self) -> str:
        return f"Rows(n_features={self.n_features})"

    @property
    def table(self) -> Any:
        """The rows before the maps, where they are in memory; else None."""
        return self.source.table if isinstance(self.source, InMemory) else None

    def map(self, change: Callable[[Chunk], Chunk], n_features: int | None = None) -> "Rows":
        """Return these rows after a fixed map of one row each."""
        return replace(self, maps=(*self.maps, change), n_features=n_features or self.n_features, dtype=np.dtype(float))

    def apply_maps(self, chunk: Chunk) -> Chunk:
        for change in self.maps:
            chunk = change(chunk)
        return chunk

    def chunks(self, n_rows: int | None = None) -> Iterator[Chunk]:
        return map(self.apply_maps, self.source.chunks(n_rows))

    def only(self, kept: np.ndarray) -> "Rows":
        if kept.all():
            return self
        return replace(self, source=InMemory(take_rows(self.table, np.flatnonzero(kept))), n_samples=int(kept.sum()))

    def materialize(self) -> "Rows":
        """Return these rows with the maps done, where they are in memory anyway; else they are made anew at every reading."""
        if not (self.source.in_memory and self.maps):
            return self
        if effective_n_threads(self.n_jobs) == 1:
            return replace(self, source=InMemory(self.apply_maps(self.table)), maps=())
        parts = chain.from_iterable(self.fold(list, lambda done, start, chunk: [*done, (start, chunk)]))
        chunks = [chunk for _, chunk in sorted(parts, key=itemgetter(0))]
        return replace(self, source=InMemory(concatenate(chunks, self.n_features)), maps=()) if chunks else self

    def aggregate(self, rule: SumRule) -> Any:
        """Return the statistic of all rows, summed where they are."""
        return self.source.aggregate(self, rule)

    def may_be_kept(self, row_bytes: int) -> bool:
        """Whether these rows can be read here, and would take little memory at so many bytes a row."""
        return self.n_samples is not None and self.n_samples * row_bytes <= _MOST_KEPT and not self.source.stays_apart

    def fold_into(
        self, kept: np.ndarray, begin: Callable[[], State], step: Callable[[State, Chunk, np.ndarray], State]
    ) -> tuple[list[State], "Rows"]:
        """Fold the rows, as `fold` does, while they are written in another form to `kept`, and return them in that form: one reading.

        A step goes from a state, a chunk and the rows of `kept` that it must fill to the next state.
        """

        def write(state: State, start: int, chunk: Chunk) -> State:
            places = kept[start : start + n_rows_of(chunk)]
            if len(places) < n_rows_of(chunk):
                raise ValueError("X must give the same rows whenever it is read, but gave another number of them; copy it first.")
            return step(state, chunk, places)

        return self.fold(begin, write), replace(self, source=InMemory(kept), maps=())

    def collect(self) -> Chunk:
        if self.source.in_memory:
            return self.apply_maps(self.table)
        return concatenate(self.chunks(), self.n_features)

    def take(self, positions: np.ndarray) -> Chunk:
        """Return the rows at some positions, in that order: the others are passed over."""
        order = np.argsort(positions)
        taken, start, wanted = [], 0, np.asarray(positions)[order]
        for chunk in self.chunks():
            stop = start + n_rows_of(chunk)
            first, last = np.searchsorted(wanted, (start, stop))
            taken.append(take_rows(chunk, wanted[first:last] - start))
            start = stop
        return take_rows(concatenate(taken, self.n_features), np.argsort(order))

    def fold(self, begin: Callable[[], State], step: Callable[[State, int, Chunk], State]) -> list[State]:
        """Read all rows once, and return the state of each thread.

        Each takes the next chunk, maps it and makes a step: from its state, the number of rows before the chunk and the chunk to a state.
        """
        n_jobs, taken, lock = effective_n_threads(self.n_jobs), 0, threading.Lock()
        n_rows = _LEAST_ROWS if self.maps else None  # that are in memory, in a chunk; None: all
        if n_jobs > 1 and self.n_samples is not None:
            n_rows = max(_LEAST_ROWS, -(-self.n_samples // (_SLICES * n_jobs)))
        chunks = iter(self.source.chunks(n_rows))

        def fold() -> State:
            nonlocal taken
            state = begin()
            while True:
                with lock:
                    chunk, start = next(chunks, None), taken
                    taken += 0 if chunk is None else n_rows_of(chunk)
                if chunk is None:
                    return state
                state = step(state, start, self.apply_maps(chunk))

        if n_jobs == 1:
            return [fold()]
        # BLAS has threads of its own. The handling of floating-point errors by numpy belongs to a context, not to threads.
        with one_blas_thread(), ThreadPoolExecutor(n_jobs) as pool:
            working = [pool.submit(contextvars.copy_context().run, fold) for _ in range(n_jobs)]
            return [each.result() for each in working]


def n_rows_of(chunk: Chunk) -> int:
    if isinstance(chunk, list):
        return len(chunk[0]) if chunk else 0
    return chunk.shape[0] if hasattr(chunk, "shape") else len(chunk)


def take_rows(chunk: Chunk, rows: np.ndarray | slice) -> Chunk:
    return [column[rows] for column in chunk] if isinstance(chunk, list) else chunk[rows]


def concatenate(chunks: Iterable[Chunk], n_features: int = 0) -> Any:
    """Return chunks as one; a single one as it is, and none as no rows of so many features."""
    chunks = list(chunks)
    if len(chunks) < 2:
        return chunks[0] if chunks else np.empty((0, n_features))
    if isinstance(chunks[0], list):
        return [np.concatenate(columns) for columns in zip(*chunks, strict=True)]
    if issparse(chunks[0]):
        from scipy.sparse import vstack

        return vstack(chunks, format="csr")
    return np.concatenate(chunks)


def rebatch(parts: Iterable[Any], size: int) -> Iterator[Any]:
    """Yield the same rows in batches of `size`, the last of the rest; each a copy, so that to keep a few rows keeps no more."""
    waiting: list[Any] = []
    n_waiting = 0
    for part in parts:
        start, n_rows = 0, n_rows_of(part)
        while start < n_rows:
            stop = min(n_rows, start + size - n_waiting)
            rows = take_rows(part, slice(start, stop))
            waiting.append(part if stop - start == n_rows else [each.copy() for each in rows] if isinstance(rows, list) else rows.copy())
            n_waiting += stop - start
            start = stop
            if n_waiting == size:
                yield concatenate(waiting)
                waiting, n_waiting = [], 0
    if waiting:
        yield concatenate(waiting)
