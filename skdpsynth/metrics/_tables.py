"""Tables as metrics read them: in memory or in chunks."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdpsynth._validation import is_integer, short_repr
from skdpsynth.domain import Continuous, Schema
from skdpsynth.frames import Chunk, Rows, as_float_matrix, column_names, n_rows_of, open_source
from skdpsynth.statistics import RowCount, total
from skdpsynth.tables import ReadNumbers, open_columns

NUMBERS = "use marginal_total_variation, which takes mixed tables, with a schema"
_SCHEMA_INSTEAD = "give a schema, which says what its columns hold"
MOST_READ = 1 << 25  # cells of a table that is read into memory, 256 MiB; larger ones are read repeatedly in chunks


@dataclass(frozen=True)
class AsMatrix:
    """Turns chunks of a table into arrays of finite floats."""

    name: str
    instead: str = NUMBERS

    def __call__(self, chunk: Any) -> Chunk:
        rows = as_float_matrix(chunk, self.name, self.instead)
        if not np.isfinite(rows).all():
            raise ValueError(f"{self.name} must be finite; impute or drop missing values first.")
        return rows


def open_numbers(X: Any, name: str, instead: str = NUMBERS) -> Rows:
    """Open a table of finite numbers and count its rows; `instead` is the advice in errors about other tables."""
    source, read = open_source(X, name), AsMatrix(name, instead)
    if not source.in_memory:
        width = len(source.columns)
        maps = (ReadNumbers(width, is_text=True), read) if source.is_text else (read,)
        return _count_rows(Rows(source, width, source.n_samples, maps))
    rows = read(X)
    if rows.ndim != 2:
        raise ValueError(f"{name} must have rows and columns, got shape {rows.shape}; of one column, give {name}.reshape(-1, 1).")
    return Rows.held(rows)


def columns_in(X: Any, schema: Schema, name: str) -> Rows:
    """Open a non-empty table with a schema, as lists of columns, and count its rows; a small one is read into memory."""
    rows = _count_rows(open_columns(X, schema, name))
    if not rows.n_samples:
        raise ValueError(f"{name} must have at least one row, got none; pass a table with rows.")
    is_small = rows.n_samples * rows.n_features <= MOST_READ
    return Rows.held(rows.collected()) if is_small else rows


def schema_of_ranges(tables: dict[str, Any]) -> Schema:
    """Return a schema of numbers by the range of each column in all tables; the keys are their names in errors."""
    ends = [ends_of(open_numbers(table, name, _SCHEMA_INSTEAD)) for name, table in tables.items()]
    names, widths = _enumerated(tables), {each.shape[1] for each in ends}
    if len(widths) > 1:
        raise ValueError(f"{names} must have the same columns, got {_enumerated([each.shape[1] for each in ends])}.")
    low, high = np.min([each[0] for each in ends], axis=0), np.max([each[1] for each in ends], axis=0)
    if not np.isfinite(ends).all():
        raise ValueError(f"{names} must have at least one row each, got a table of none; pass tables with rows.")
    first = next(iter(tables.values()))
    source = open_source(first)
    columns = column_names(source.head) or range(len(low))
    ranges = zip(columns, low.tolist(), np.where(high > low, high, low + np.maximum(1.0, np.abs(low))).tolist(), strict=True)
    return Schema({column: Continuous(bottom, top) for column, bottom, top in ranges})


def ends_of(rows: Rows) -> np.ndarray:
    """Return the minimum and maximum of each column, which are as private as all results of a metric."""
    ends = np.array([np.full(rows.n_features, np.inf), np.full(rows.n_features, -np.inf)])
    for chunk in rows.chunks():
        if n_rows_of(chunk):
            ends = np.array([np.minimum(ends[0], chunk.min(axis=0)), np.maximum(ends[1], chunk.max(axis=0))])
    return ends


def _enumerated(things: Any) -> str:
    *most, last = map(str, things)
    return f"{', '.join(most)} and {last}" if most else last


def _count_rows(rows: Rows) -> Rows:
    return rows if rows.n_samples is not None else replace(rows, n_samples=total(rows, RowCount.over()).n_samples)


def sample_rows(rows: Rows, max_samples: int, seed: Any) -> np.ndarray:
    """Return all rows of a table in memory, or at most `max_samples` of others, drawn without replacement."""
    if rows.source.in_memory or rows.n_samples is None or rows.n_samples <= max_samples:
        return rows.collected()
    return rows.taken(np.sort(np.random.default_rng(seed).choice(rows.n_samples, max_samples, replace=False)))


def check_subsample(max_samples: Any, random_state: Any) -> None:
    if not is_integer(max_samples, 1):
        raise ValueError(f"max_samples must be a positive integer, got {short_repr(max_samples)}; it bounds how many rows are compared.")
    if random_state is not None and not is_integer(random_state, 0):
        raise ValueError(f"random_state must be a non-negative integer or None, got {short_repr(random_state)}.")
