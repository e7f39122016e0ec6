"""Rows in parts: arrays, or lists of columns, as the containers take them."""

from collections.abc import Iterable, Iterator
from typing import Any

from skdpsynth.frames import _rows
from skdpsynth.frames._rows import n_rows_of, take_rows


def concatenate_batches(parts: Iterable[Any]) -> Any:
    """Return parts of rows as one."""
    parts = list(parts)
    return parts[0] if len(parts) == 1 else _rows.concatenate(parts, 0)


def rebatch(parts: Iterable[Any], size: int) -> Iterator[Any]:
    """Yield the same rows in parts of `size`, the last of what is left.

    What is yielded is a copy, so that whoever keeps a few rows does not keep the part they were in.
    """
    held: list[Any] = []
    n_held = 0
    for part in parts:
        start, stop, n_rows = 0, 0, n_rows_of(part)
        while start < n_rows:
            stop = min(n_rows, start + size - n_held)
            held.append(_cut(part, start, stop))
            n_held += stop - start
            start = stop
            if n_held == size:
                yield concatenate_batches(held)
                held, n_held = [], 0
    if held:
        yield concatenate_batches(held)


def _cut(part: Any, start: int, stop: int) -> Any:
    if stop - start == n_rows_of(part):
        return part
    cut = take_rows(part, slice(start, stop))
    return [column.copy() for column in cut] if isinstance(cut, list) else cut.copy()
