"""The checked rows of one fit, in chunks that can be read again."""

import contextvars
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from scipy.sparse import issparse

from skdpsynth._blas import one_blas_thread
from skdpsynth._parallel import effective_n_threads
from skdpsynth.frames._remote import RemoteTable

_SLICES = 4  # of rows in memory, for each thread
_LEAST_ROWS = 1 << 17  # in a slice: less is not worth a thread, and of more the maps would fill memory
_MOST_KEPT = 1 << 30  # bytes

State = TypeVar("State")
Chunk = Any
"""Rows: an array or sparse rows of shape (n_rows, n_features), cell numbers of shape (n_rows,), or a list of columns."""


@dataclass(frozen=True, eq=False, repr=False)  # no repr shows rows, or how many there are
class Held:
    """Rows in memory.

    Attributes
    ----------
    table : array, sparse rows or list of columns
    """

    table: Any

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return n_rows_of(self.table)

    def chunks(self, n_rows: int | None = None) -> Iterator[Chunk]:
        """Yield slices of `n_rows` rows, without a copy; None: all at once."""
        n_samples = self.n_samples
        for start in range(0, n_samples, n_rows or max(n_samples, 1)):
            yield take_rows(self.table, slice(start, start + n_rows if n_rows else None))


@dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """Rows of one fit: chunks that can be read again, and what becomes of each.

    Nothing below a fit asks for all rows at once, so a table may be in memory, in files, in a database or spread over workers. How it is
    cut into chunks, and in which order they come, has no bearing on a sum of whole numbers.

    Attributes
    ----------
    origin : Held, Source or RemoteTable
        Where the chunks come from.
    n_features : int
        Public.
    n_samples : int or None
        The exact number of rows, **private** under "add_or_remove_one"; None until they are counted.
    maps : tuple of callable
        What happens to every chunk, in order. Each treats a row by itself, always in the same way, and can be pickled.
    n_jobs : int or None
        Threads that add up, as everywhere in scikit-learn.
    dtype : dtype
        Of rows of numbers: that in which the caller has them, and floats once they were mapped.
    """

    origin: Any
    n_features: int
    n_samples: int | None = None
    maps: tuple[Callable[[Chunk], Chunk], ...] = ()
    n_jobs: Any = None
    dtype: np.dtype = np.dtype(float)  # noqa: RUF009  it cannot change

    @classmethod
    def held(cls, table: Any, n_features: int | None = None, n_jobs: Any = None) -> "Rows":
        """Return rows that are in memory."""
        width = n_features or (len(table) if isinstance(table, list) else table.shape[1])
        return cls(Held(table), width, n_rows_of(table), (), n_jobs, getattr(table, "dtype", np.dtype(float)))

    def __repr__(self) -> str:
        return f"Rows(n_features={self.n_features})"

    @property
    def are_held(self) -> bool:
        """Whether the rows are in memory."""
        return isinstance(self.origin, Held)

    @property
    def are_remote(self) -> bool:
        """Whether the rows can be summed, but not read."""
        return isinstance(self.origin, RemoteTable)

    @property
    def are_text(self) -> bool:
        """Whether cells were text, so that NaN stands where one reads as no number."""
        return not self.are_held and self.origin.is_text

    @property
    def lazy(self) -> Any:
        """The query whose answer the rows are, where they are in a database; else None."""
        return getattr(self.origin, "lazy", None)

    @property
    def has_order(self) -> bool:
        """Whether the order of the rows is a fact: see `Source`."""
        return getattr(self.origin, "has_order", True)

    @property
    def are_spread(self) -> bool:
        """Whether the rows lie with workers of Dask, where they stay."""
        return not self.are_held and getattr(self.origin, "partitions", None) is not None

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are in memory as a sparse matrix."""
        return self.are_held and issparse(self.origin.table)

    def map(self, change: Callable[[Chunk], Chunk], n_features: int | None = None) -> "Rows":
        """Return these rows after a fixed map of one row each."""
        return replace(self, maps=(*self.maps, change), n_features=n_features or self.n_features, dtype=np.dtype(float))

    def mapped(self, chunk: Chunk) -> Chunk:
        """Return what becomes of a chunk of the origin."""
        for change in self.maps:
            chunk = change(chunk)
        return chunk

    def chunks(self, n_rows: int | None = None) -> Iterator[Chunk]:
        """Yield all rows once, a chunk at a time.

        Parameters
        ----------
        n_rows : int, default=None
            The most in a chunk of rows that are in memory; None: all at once.
        """
        return map(self.mapped, self.raw_chunks(n_rows))

    def raw_chunks(self, n_rows: int | None = None) -> Iterator[Chunk]:
        """Yield the chunks of the origin, before the maps."""
        return self.origin.chunks(n_rows) if self.are_held else self.origin.chunks()

    def only(self, kept: np.ndarray) -> "Rows":
        """Return some of these rows, which are in memory, by booleans of shape (n_samples,)."""
        if kept.all():
            return self
        return replace(self, origin=Held(take_rows(self.origin.table, np.flatnonzero(kept))), n_samples=int(kept.sum()))

    def kept(self) -> "Rows":
        """Return these rows with the maps done, where they are in memory anyway; else they are made anew at every reading."""
        if not (self.are_held and self.maps):
            return self
        if effective_n_threads(self.n_jobs) == 1:
            return replace(self, origin=Held(self.mapped(self.origin.table)), maps=())
        return self._filled()

    def may_be_kept(self, row_bytes: int) -> bool:
        """Whether these rows can be read here, and would take little memory at so many bytes a row."""
        return self.n_samples is not None and self.n_samples * row_bytes <= _MOST_KEPT and not (self.are_remote or self.are_spread)

    def folded_into(
        self, kept: np.ndarray, begin: Callable[[], State], step: Callable[[State, Chunk, np.ndarray], State]
    ) -> tuple[list[State], "Rows"]:
        """Fold the rows, as `folded` does, while they are written in another form, and return them in that form too: one reading.

        Parameters
        ----------
        kept : ndarray of shape (n_samples, n_features)
            Where they are written.
        begin : callable
        step : callable
            From a state, a chunk and the rows of `james_stein_factor` that it must fill, to the next state.
        """

        def write(state: State, start: int, chunk: Chunk) -> State:
            return step(state, chunk, _places_in(kept, start, n_rows_of(chunk)))

        return self.folded(begin, write), replace(self, origin=Held(kept), maps=())

    def _filled(self) -> "Rows":
        """Return these rows with the maps done, in memory, written there chunk by chunk."""
        columns: list[np.ndarray] = []
        lock = threading.Lock()

        def put(state: object, start: int, chunk: Chunk) -> object:
            parts = chunk if isinstance(chunk, list) else [chunk]
            with lock:
                if not columns:
                    columns.extend(np.empty((self.n_samples or 0, *part.shape[1:]), dtype=part.dtype) for part in parts)
            for column, part in zip(columns, parts, strict=True):
                _places_in(column, start, len(part))[...] = part
            return isinstance(chunk, list)

        is_list = any(self.folded(lambda: False, put))
        return replace(self, origin=Held(columns if is_list else columns[0]), maps=()) if columns else self

    def counted(self, n_samples: int) -> "Rows":
        """Return these rows, of which there are so many."""
        return replace(self, n_samples=n_samples)

    def collected(self) -> Chunk:
        """Return all rows in memory, as one chunk."""
        if self.are_held:
            return self.mapped(self.origin.table)
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
        """Read all rows once; each thread takes the next chunk, maps it and makes a step with it.

        Parameters
        ----------
        begin : callable
            It makes the state of a thread.
        step : callable
            From a state, the number of rows before a chunk and the chunk, to the next state.

        Returns
        -------
        states : list
            Of each thread.
        """
        n_jobs, taken, lock = effective_n_threads(self.n_jobs), 0, threading.Lock()
        chunks = iter(self.raw_chunks(self._rows_at_once(n_jobs)))

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
            states = [fold()]
        else:
            # BLAS has threads of its own. What numpy does about floating-point errors is known to a context, not to threads.
            with one_blas_thread(), ThreadPoolExecutor(n_jobs) as pool:
                working = [pool.submit(contextvars.copy_context().run, fold) for _ in range(n_jobs)]
                states = [each.result() for each in working]
        return states

    def _rows_at_once(self, n_jobs: int) -> int | None:
        """How many rows that are in memory make a chunk; None: all."""
        if n_jobs > 1 and self.n_samples is not None:
            return max(_LEAST_ROWS, -(-self.n_samples // (_SLICES * n_jobs)))
        return _LEAST_ROWS if self.maps else None


def _places_in(kept: np.ndarray, start: int, n_rows: int) -> np.ndarray:
    """Return where so many rows go; raise if there are more than were counted."""
    if start + n_rows > len(kept):
        raise ValueError("X must give the same rows whenever it is read, but gave another number of them; copy it first.")
    return kept[start : start + n_rows]


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
