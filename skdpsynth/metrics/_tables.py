"""Tables as the metrics read them: in memory, or in chunks."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdpsynth._checks import is_whole, shown
from skdpsynth._input import matrix
from skdpsynth.domain import Chunk, Rows, Schema, open_columns, open_source
from skdpsynth.statistics import RowCount, total

NUMBERS = "use marginal_total_variation, which takes mixed tables, with a schema"
MOST_READ = 1 << 25  # cells of a table that is read into memory, 256 MiB; of more, chunks are read again and again


@dataclass(frozen=True)
class AsMatrix:
    """Chunks of a table of numbers as arrays of finite floats."""

    name: str
    instead: str = NUMBERS

    def __call__(self, chunk: Any) -> Chunk:
        rows = matrix(chunk, self.name, self.instead)
        if not np.isfinite(rows).all():
            raise ValueError(f"{self.name} must be finite; impute or drop missing values first.")
        return rows


def numbers_of(X: Any, name: str, instead: str = NUMBERS) -> Rows:
    """Open a table of finite numbers, whose rows are counted; `instead` is what an error says of other tables."""
    source, read = open_source(X, name), AsMatrix(name, instead)
    if source is not None:
        return _counted(Rows(source, source.head.shape[1], source.n_samples, (read,)))
    rows = read(X)
    if rows.ndim != 2:
        raise ValueError(f"{name} must have rows and columns, got shape {rows.shape}; of one column, give {name}.reshape(-1, 1).")
    return Rows.held(rows)


def columns_in(X: Any, schema: Schema, name: str) -> Rows:
    """Open a table with a schema, whose rows are counted, at least one: lists of columns in the order of the schema.

    A small table that is not in memory is read into it, so that it is read once.
    """
    rows = _counted(open_columns(X, schema, name))
    if not rows.n_samples:
        raise ValueError(f"{name} must have at least one row, got none; pass a table with rows.")
    is_small = rows.n_samples * rows.n_features <= MOST_READ
    return Rows.held(rows.collected()) if is_small else rows


def _counted(rows: Rows) -> Rows:
    return rows if rows.n_samples is not None else replace(rows, n_samples=total(rows, RowCount.over()).n_samples)


def some_of(rows: Rows, max_samples: int, seed: Any) -> np.ndarray:
    """Return rows as an array: all that are in memory, or so many of others, drawn without replacement."""
    if rows.are_held or rows.n_samples is None or rows.n_samples <= max_samples:
        return rows.collected()
    return rows.taken(np.sort(np.random.default_rng(seed).choice(rows.n_samples, max_samples, replace=False)))


def check_subsample(max_samples: Any, random_state: Any) -> None:
    """Refuse what is no number of rows, and what is no seed."""
    if not is_whole(max_samples, 1):
        raise ValueError(f"max_samples must be a positive integer, got {shown(max_samples)}; it bounds how many rows are compared.")
    if random_state is not None and not is_whole(random_state, 0):
        raise ValueError(f"random_state must be a non-negative integer or None, got {shown(random_state)}.")
