"""Rows that wait in the open block of a stream, and rows drawn from its blocks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpsynth._serialization import is_array, require
from skdpsynth.domain import Box, Continuous
from skdpsynth.fitting import random_state_from
from skdpsynth.frames import Rows, concatenate_batches, n_rows_of, rebatch, take_rows
from skdpsynth.persistence import savable
from skdpsynth.synthesis._base import iter_batches

_CAPACITY = 1024  # rows that the open block has room for at first


@savable
@dataclass(frozen=True, eq=False)
class NumericRows:
    """Rows of numbers, on the grid of a box, with the container of the first rows."""

    box: Box
    container: Any

    @classmethod
    def of(cls, box: Box, container: Any) -> "NumericRows":
        """Return the rows of a box, with a finer grid for a single column, which is cut finer than many."""
        return cls(box.with_bits(30) if box.n_features == 1 else box, container)

    @property
    def n_features(self) -> int:
        return self.box.n_features

    @property
    def public_box(self) -> Box:
        """The bounds that a block is fitted within."""
        return Box(self.box.low, self.box.high)

    def room(self, rows: int) -> list[np.ndarray]:
        """Return space for some rows."""
        return [np.empty((max(rows, _CAPACITY), self.n_features), dtype=np.uint16 if self.box.bits <= 16 else np.uint32)]

    def put(self, buffer: list[np.ndarray], place: int, X: np.ndarray) -> None:
        """Write rows from a place on."""
        if len(X) == 1:
            buffer[0][place] = self._quantize_row(X[0])
            return
        for rows, steps in self.box.chunks(X):
            buffer[0][place + rows.start : place + rows.stop] = steps

    @np.errstate(all="ignore")  # a warning would tell of a value
    def _quantize_row(self, row: np.ndarray) -> np.ndarray:
        """Quantize as `Box.quantize` does, without its preparations for many rows."""
        steps = (row - self.box.low) * (2.0**self.box.bits / self.box.width)
        return np.floor(np.clip(steps, 0, 2.0**self.box.bits - 1))

    def given(self, buffer: list[np.ndarray], n_rows: int) -> Any:
        """Return the rows as a synthesizer gets them."""
        return self.container.fill(self.box.restore(buffer[0][:n_rows]))

    def sorted_rows(self, buffer: list[np.ndarray], n_rows: int) -> list[np.ndarray]:
        """Return the rows sorted: a histogram of the grid, as the synthesizers count it."""
        rows = buffer[0][:n_rows]
        return [rows[np.lexsort(rows.T)]]

    def check_waiting(self, buffer: Any, n_rows: int) -> None:
        """Refuse a file with other waiting rows than its number."""
        require(isinstance(buffer, list) and len(buffer) == 1 and is_array(buffer[0], "u", n_rows, self.n_features))
        require(buffer[0].dtype == self.room(1)[0].dtype and buffer[0].max(initial=0) < 2**self.box.bits)

    def uniform(self, n_rows: int, rng: np.random.Generator) -> np.ndarray:
        return self.box.low + self.box.width * rng.random((n_rows, self.n_features))

    def of_columns(self, rows: Any) -> Any:
        """Return drawn rows, which may be a list of columns, as an array."""
        return np.column_stack(rows) if isinstance(rows, list) else rows


@savable
@dataclass(frozen=True, eq=False)
class MixedRows:
    """Rows of a mixed table; the reader, an unfitted synthesizer, knows the columns, dtypes and schema of the first rows."""

    reader: Any

    public_box = None

    @property
    def kinds(self) -> list[Any]:
        return list(self.reader.schema_.coded.values())

    @property
    def n_features(self) -> int:
        return len(self.kinds)

    def room(self, rows: int) -> list[np.ndarray]:
        dtypes = [float if isinstance(kind, Continuous) else np.min_scalar_type(kind.n_codes) for kind in self.kinds]
        return [np.empty(max(rows, _CAPACITY), dtype=dtype) for dtype in dtypes]

    def put(self, buffer: list[np.ndarray], place: int, X: Sequence[np.ndarray]) -> None:
        for kept, column in zip(buffer, X, strict=True):
            kept[place : place + len(column)] = column

    def given(self, buffer: list[np.ndarray], n_rows: int) -> Rows:
        columns = [column[:n_rows] if column.dtype.kind == "f" else column[:n_rows].astype(np.int64) for column in buffer]
        return Rows.held(columns, n_jobs=getattr(self.reader, "n_jobs", None))

    def sorted_rows(self, buffer: list[np.ndarray], n_rows: int) -> list[np.ndarray]:
        rows = [column[:n_rows] for column in buffer]
        order = np.lexsort(rows)
        return [column[order] for column in rows]

    def check_waiting(self, buffer: Any, n_rows: int) -> None:
        require(isinstance(buffer, list) and len(buffer) == self.n_features)
        for column, empty, kind in zip(buffer, self.room(1), self.kinds, strict=True):
            require(isinstance(column, np.ndarray) and column.shape == (n_rows,) and column.dtype == empty.dtype)
            if isinstance(kind, Continuous):
                missing = np.isnan(column)
                require((kind.nullable or not missing.any()) and np.all(missing | ((kind.low <= column) & (column <= kind.high))))
            else:
                require(column.max(initial=0) < kind.n_codes)

    def uniform(self, n_rows: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Return rows of uniform numbers and levels; a missing level counts as one of them, and no number is missing."""
        return [_uniform(kind, n_rows, rng) for kind in self.kinds]

    def of_columns(self, rows: Any) -> Any:
        return rows


def _uniform(kind: Any, n_rows: int, rng: np.random.Generator) -> np.ndarray:
    if not isinstance(kind, Continuous):
        return rng.integers(kind.n_codes, size=n_rows)
    x = kind.low + (kind.high - kind.low) * rng.random(n_rows)
    return np.clip(np.rint(x), kind.low, kind.high) if kind.integer else x


def buffer_capacity(buffer: list[np.ndarray]) -> int:
    return n_rows_of(buffer)


@dataclass(frozen=True, eq=False)
class ConditionalRows:
    """Rows on conditions, drawn from a fitted synthesizer as those of `Blocks` are."""

    kept: Any
    model: Any

    def sample(self, n_samples: int, first: int, rng: np.random.Generator) -> Any:
        return concatenate_batches(self.sample_blocks(n_samples, first, rng))

    def sample_blocks(self, n_samples: int, first: int, rng: np.random.Generator) -> Iterator[Any]:
        return map(self.kept.of_columns, self.model._sample_blocks(n_samples, rng))


class BlockShare:
    """The rows that a block of the stream gives to a sample, in about equal parts."""

    def __init__(self, model: Any, count: int, n_parts: int, rng: np.random.Generator) -> None:
        self.count, self.n_parts, self.shift = count, n_parts, rng.random()
        size = -(-count // n_parts)
        if hasattr(model, "schema_"):
            self.batches: Any = rebatch(model._sample_blocks(count, rng), size)
        else:
            self.batches = iter_batches(model, count, size, lambda: random_state_from(rng))
        self.left: Any = None

    def rows(self, part: int) -> Any:
        """Return those of a part; parts are asked for one after the other."""
        wanted = self._upto(part + 1) - self._upto(part)
        held = [] if self.left is None else [self.left]
        n_held = sum(map(n_rows_of, held))
        while not held or n_held < wanted:
            batch = next(self.batches)
            held.append(batch if isinstance(batch, list) else np.asarray(batch, dtype=float))
            n_held += n_rows_of(held[-1])
        rows = concatenate_batches(held)
        left = take_rows(rows, slice(wanted, None))
        self.left = [column.copy() for column in left] if isinstance(left, list) else left.copy()
        return take_rows(rows, slice(wanted))

    def _upto(self, part: int) -> int:
        return self.count if part == self.n_parts else int(part * self.count / self.n_parts + self.shift)
