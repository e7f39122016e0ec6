"""Chunks that somebody's own code gives: lists, iterables, functions that return iterators, and iterators that run only once."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from itertools import chain
from typing import Any, cast
from weakref import WeakValueDictionary

import numpy as np

from skdpsynth.frames._source import FILES, ChunkedSource, Source, each_without_cells_in_errors, without_cells_in_errors
from skdpsynth.frames._table_kind import TableKind, as_chunk, copy_chunk, is_chunk, size_of, without_rows

MOST_KEPT = 2**28  # bytes of a one-shot iterator: 256 MiB
_OVER = "which was read already and can be read only once"
_AGAIN = f"give a function that returns the iterator anew, a list of chunks, or {FILES}"

_iterators_in_use: "WeakValueDictionary[int, Any]" = WeakValueDictionary()  # iterators that somebody asked for rows, by their id


def open_chunks(X: Any, name: str) -> Source | None:
    """Open a collection of chunks; None of what is no such thing."""
    what = f"a {type(X).__name__}"
    if isinstance(X, list | tuple):
        if not (X and is_chunk(X[0])):
            return None
        _check_distinct(X, name)
        return Chunks(name, lambda: X, what, is_kept=True)
    is_array_like = any(hasattr(X, each) for each in ("__array__", "__array_interface__", "__dataframe__", "shape", "columns", "dtype"))
    if is_array_like or isinstance(X, str | bytes | dict | set | frozenset | type):
        return None
    if callable(getattr(X, "__next__", None)):
        return Spooled(name, first_pass_only(X, _checked_chunks(X, name, what), name, what), what)
    if hasattr(X, "__iter__"):
        is_sequence = hasattr(X, "__len__") and hasattr(X, "__getitem__")  # may be rows, which numpy reads
        return None if is_sequence and not is_chunk(next(iter(X), None)) else Chunks(name, lambda: X, what)
    if hasattr(X, "__arrow_c_stream__"):
        import pyarrow as pa

        return Chunks(name, lambda: pa.RecordBatchReader.from_stream(X), what)
    return Chunks(name, X, "a function") if callable(X) else None


def _check_distinct(chunks: Sequence[Any], name: str) -> None:
    """Refuse one chunk twice, as files are: each of its rows would count twice, and what one row moves would double.

    Most often a loader has filled one array anew for each chunk, and the rows before the last are gone.
    """
    known: dict[Any, int] = {}
    for number, chunk in enumerate(chunks, start=1):
        place = (chunk.ctypes.data, chunk.shape, chunk.strides) if isinstance(chunk, np.ndarray) and chunk.size else id(chunk)
        first = known.setdefault(place, number)
        if first < number:
            raise ValueError(
                f"{name} must hold each chunk once, but chunk {number} is chunk {first} again, the same object or memory; leave one out, "
                "or copy what a loader fills anew."
            )


class Chunks(ChunkedSource):
    """Chunks from an iterable that starts anew at each iteration; `is_kept`: all exist at once, so that none is overwritten by the next."""

    def __init__(self, name: str, start: Callable[[], Any], what: str, *, is_kept: bool = False) -> None:
        self.name, self._start, self._what, self._is_kept = name, start, what, is_kept
        with closing(cast(Any, self._read())) as tables:
            first = _first(tables, name, what)
        super().__init__(name, without_rows(first), TableKind.of(first, f"chunk 1 of {name}"))

    def _read(self) -> Iterator[Any]:
        chunks = without_cells_in_errors(
            self._start,
            f"{self.name} is {self._what}, which must return an iterator of chunks without being given anything, "
            "but calling it failed ({error}); correct it.",
        )
        yield from _checked_chunks(chunks, self.name, self._what, is_kept=self._is_kept)


class Spooled(ChunkedSource):
    """Chunks of an iterator that runs only once: kept while they are few, so that they can be read again."""

    def __init__(self, name: str, tables: Iterator[Any], what: str, head: Any = None) -> None:
        self._rest, self._kept, self._what, self._is_gone = tables, list[Any](), what, False
        if head is None:
            first = _first(tables, name, what)
            self._rest, head = chain([first], tables), without_rows(first)
        super().__init__(name, head, TableKind.of(head, name))

    def _read(self) -> Iterator[Any]:
        if self._is_gone:
            raise ValueError(f"{self.name} is {self._what}, {_OVER}; {_AGAIN}.")
        yield from self._kept.copy()
        size = sum(map(size_of, self._kept))
        while (table := self._next()) is not None:
            size += size_of(table)
            if size > MOST_KEPT:
                self._is_gone = True
                self._kept.clear()
                raise ValueError(
                    f"{self.name} is {self._what}, which can be read only once, and holds more than the {MOST_KEPT >> 20} MiB that are "
                    f"kept to read it again; {_AGAIN}."
                )
            self._kept.append(table)
            yield table

    def _next(self) -> Any:
        try:
            return next(self._rest, None)
        except BaseException:  # what comes after an error is not the whole
            self._is_gone = True
            raise


def first_pass_only(X: Any, tables: Iterator[Any], name: str, what: str) -> Iterator[Any]:
    """Yield the tables of an iterator from its start alone: another fit would take what the one before left of it for the whole."""
    if _iterators_in_use.get(id(X)) is X:
        raise ValueError(f"{name} is {what}, {_OVER}; {_AGAIN}.")
    with suppress(TypeError):  # of some, such as zip, Python keeps no note
        _iterators_in_use[id(X)] = X
    yield from tables


def _checked_chunks(chunks: Any, name: str, what: str, *, is_kept: bool = False) -> Iterator[Any]:
    """Yield chunks of the caller's own code as tables."""
    if is_chunk(chunks):
        raise TypeError(
            f"{name} is {what}, which must give an iterator of chunks of rows, but gave a {type(chunks).__name__}, which is one; yield it."
        )
    if not hasattr(chunks, "__iter__") and not hasattr(chunks, "__next__"):
        raise TypeError(f"{name} is {what}, which must give an iterator of chunks of rows, but gave a {type(chunks).__name__}; return one.")
    failed = f"{name} is {what} of chunks, whose iteration failed with an error of its own ({{error}}); iterate over it alone to see why."
    for number, chunk in enumerate(each_without_cells_in_errors(chunks, failed), start=1):
        table = as_chunk(chunk, f"chunk {number}", name)
        # A loader may fill one array again and again, bare or in frames, while an earlier chunk is kept or still summed up: the rows that
        # come last would then count several times, and one row would move sums by more than what is charged.
        yield table if is_kept else copy_chunk(table)


def _first(tables: Iterator[Any], name: str, what: str) -> Any:
    """Return the first table, whose columns and dtypes all others must have."""
    first = next(tables, None)
    if first is None:
        raise ValueError(
            f"{name} is {what}, which must give chunks of rows, but gave none; give one that has some and was not read before."
        )
    return first
