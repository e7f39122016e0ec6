"""The checked rows of one fit, in chunks that can be read again."""

import contextvars
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain
from operator import itemgetter
from typing import Any, TypeVar

import numpy as np
from scipy.sparse import issparse

from skdpsynth._parallel import effective_n_threads, one_blas_thread
from skdpsynth.frames._source import Source

_SLICES = 4  # of rows in memory, for each thread
_LEAST_ROWS = 1 << 17  # in a slice: less is not worth a thread, and of more the maps would fill memory
_MOST_KEPT = 1 << 30  # bytes

State = TypeVar("State")
Chunk = Any
"""Rows: an array or sparse rows of shape (n_rows, n_features), cell numbers of shape (n_rows,), or a list of columns."""


class InMemory(Source):
    """A table in memory, or the rows that were read of one: an array, sparse rows or a list of columns."""

    in_memory = True

    def __init__(self, table: Any) -> None:
        self.head = self.table = table

    @property
    def n_samples(self) -> int:  # type: ignore[override]
        """Number of rows."""
        return n_rows_of(self.table)

    def chunks(self, n_rows: int | None = None) -> Iterator[Chunk]:
        """Yield slices of `n_rows` rows, without a copy; None: all at once."""
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
    def held(cls, table: Any, n_jobs: Any = None) -> "Rows":
        """Return rows that are in memory."""
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

    def mapped(self, chunk: Chunk) -> Chunk:
        """Return what becomes of a chunk of the source."""
        return reduce(lambda rows, change: change(rows), self.maps, chunk)

    def chunks(self, n_rows: int | None = None) -> Iterator[Chunk]:
        """Yield all rows once, a chunk at a time: of rows in memory at most `n_rows`, or all at once."""
        return map(self.mapped, self.source.chunks(n_rows))

    def only(self, kept: np.ndarray) -> "Rows":
        """Return some of these rows, which are in memory, by booleans of shape (n_samples,)."""
        if kept.all():
            return self
        return replace(self, source=InMemory(take_rows(self.table, np.flatnonzero(kept))), n_samples=int(kept.sum()))

    def kept(self) -> "Rows":
        """Return these rows with the maps done, where they are in memory anyway; else they are made anew at every reading."""
        if not (self.source.in_memory and self.maps):
            return self
        if effective_n_threads(self.n_jobs) == 1:
            return replace(self, source=InMemory(self.mapped(self.table)), maps=())
        parts = chain.from_iterable(self.folded(list, lambda done, start, chunk: [*done, (start, chunk)]))
        chunks = [chunk for _, chunk in sorted(parts, key=itemgetter(0))]
        return replace(self, source=InMemory(concatenate(chunks, self.n_features)), maps=()) if chunks else self

    def may_be_kept(self, row_bytes: int) -> bool:
        """Whether these rows can be read here, and would take little memory at so many bytes a row."""
        return self.n_samples is not None and self.n_samples * row_bytes <= _MOST_KEPT and not self.source.stays_apart

    def folded_into(
        self, kept: np.ndarray, begin: Callable[[], State], step: Callable[[State, Chunk, np.ndarray], State]
    ) -> tuple[list[State], "Rows"]:
        """Fold the rows, as `folded` does, while they are written in another form to `kept`, and return them in that form: one reading.

        A step goes from a state, a chunk and the rows of `kept` that it must fill to the next state.
        """

        def write(state: State, start: int, chunk: Chunk) -> State:
            places = kept[start : start + n_rows_of(chunk)]
            if len(places) < n_rows_of(chunk):
                raise ValueError("X must give the same rows whenever it is read, but gave another number of them; copy it first.")
            return step(state, chunk, places)

        return self.folded(begin, write), replace(self, source=InMemory(kept), maps=())

    def counted(self, n_samples: int) -> "Rows":
        """Return these rows, of which there are so many."""
        return replace(self, n_samples=n_samples)

    def collected(self) -> Chunk:
        """Return all rows in memory, as one chunk."""
        if self.source.in_memory:
            return self.mapped(self.table)
        return concatenate(list(self.chunks()), self.n_features)

    def taken(self, positions: np.ndarray) -> Chunk:
        """Return the rows at some positions, in that order: the others are passed over."""
        order = np.argsort(positions)
        taken, start, wanted = [], 0, np.asarray(positions)[order]
        for chunk in self.chunks():
            stop = start + n_rows_of(chunk)
            first, last = np.searchsorted(wanted, (start, stop))
            taken.append(take_rows(chunk, wanted[first:last] - start))
            start = stop
        return take_rows(concatenate(taken, self.n_features), np.argsort(order))

    def folded(self, begin: Callable[[], State], step: Callable[[State, int, Chunk], State]) -> list[State]:
        """Read all rows once, and return the state of each thread.

        Each takes the next chunk, maps it and makes a step: from its state, the number of rows before the chunk and the chunk to a state.
        """
        n_jobs, taken, lock = effective_n_threads(self.n_jobs), 0, threading.Lock()
        chunks = iter(self.source.chunks(self._rows_at_once(n_jobs)))

        def fold() -> State:
            nonlocal taken
            state = begin()
            while True:
                with lock:
                    chunk, start = next(chunks, None), taken
                    taken += 0 if chunk is None else n_rows_of(chunk)
                if chunk is None:
                    return state
                state = step(state, start, self.mapped(chunk))

        if n_jobs == 1:
            return [fold()]
        # BLAS has threads of its own. What numpy does about floating-point errors is known to a context, not to threads.
        with one_blas_thread(), ThreadPoolExecutor(n_jobs) as pool:
            working = [pool.submit(contextvars.copy_context().run, fold) for _ in range(n_jobs)]
            return [each.result() for each in working]

    def _rows_at_once(self, n_jobs: int) -> int | None:
        """How many rows that are in memory make a chunk; None: all."""
        if n_jobs > 1 and self.n_samples is not None:
            return max(_LEAST_ROWS, -(-self.n_samples // (_SLICES * n_jobs)))
        return _LEAST_ROWS if self.maps else None


def n_rows_of(chunk: Chunk) -> int:
    """Return the number of rows of a chunk."""
    if isinstance(chunk, list):
        return len(chunk[0]) if chunk else 0
    return chunk.shape[0] if hasattr(chunk, "shape") else len(chunk)


def take_rows(chunk: Chunk, rows: Any) -> Chunk:
    """Return some rows of a chunk."""
    return [column[rows] for column in chunk] if isinstance(chunk, list) else chunk[rows]


def concatenate(chunks: list[Chunk], n_features: int) -> Chunk:
    """Return chunks as one."""
    if not chunks:
        return np.empty((0, n_features))
    if isinstance(chunks[0], list):
        return [np.concatenate(columns) for columns in zip(*chunks, strict=True)]
    if issparse(chunks[0]):
        from scipy.sparse import vstack

        return vstack(chunks, format="csr")
    return np.concatenate(chunks)


def concatenate_batches(parts: Iterable[Any]) -> Any:
    """Return batches of rows as one."""
    parts = list(parts)
    return parts[0] if len(parts) == 1 else concatenate(parts, 0)


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
                yield concatenate_batches(waiting)
                waiting, n_waiting = [], 0
    if waiting:
        yield concatenate_batches(waiting)
