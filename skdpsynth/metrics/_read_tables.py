"""Tables that metrics read: in memory if they are small, else in chunks."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdpsynth._text import join_words
from skdpsynth._validation import check_integer, is_integer, short_repr
from skdpsynth.domain import Continuous, Schema, SchemaLike, as_nullable
from skdpsynth.frames import Chunk, Rows, Table, as_float_matrix, column_names, n_rows_of, open_source
from skdpsynth.statistics import RowCount, total
from skdpsynth.tables import ReadNumbers, open_columns, with_bounds, with_levels

NUMBERS = "use marginal_total_variation, which takes mixed tables, with a schema"
_SCHEMA_INSTEAD = "give a schema, which says what its columns hold"
MOST_READ = 1 << 25  # cells of a table that is read into memory, 256 MiB; larger ones are read repeatedly in chunks


@dataclass(frozen=True)
class AsMatrix:
    name: str
    instead: str = NUMBERS

    def __call__(self, chunk: Chunk) -> Chunk:
        rows = as_float_matrix(chunk, self.name, self.instead)
        if not np.isfinite(rows).all():
            raise ValueError(f"{self.name} must be finite; impute or drop missing values first.")
        return rows


def open_numbers(X: Table, name: str, instead: str = NUMBERS) -> Rows:
    """Open a table of finite numbers and count its rows; `instead` is the advice in errors about other tables."""
    source, read = open_source(X, name), AsMatrix(name, instead)
    if not source.in_memory:
        width = len(source.columns)
        maps = (ReadNumbers(width, is_text=True, decimal=source.decimal), read) if source.is_text else (read,)
        return count_rows(Rows(source, width, source.n_samples, maps))
    rows = read(X)
    if rows.ndim != 2:
        raise ValueError(f"{name} must have rows and columns, got shape {rows.shape}; of one column, give {name}.reshape(-1, 1).")
    return Rows.of(rows)


def columns_in(X: Table, schema: Schema, name: str) -> Rows:
    """Open a non-empty table with a schema, as lists of columns, and count its rows; a small one is read into memory."""
    rows = count_rows(open_columns(X, schema, name))
    if not rows.n_samples:
        raise ValueError(f"{name} must have at least one row, got none; pass a table with rows.")
    is_small = rows.n_samples * rows.n_features <= MOST_READ
    return Rows.of(rows.collect()) if is_small else rows


def schema_of_ranges(tables: dict[str, Any]) -> Schema:
    """Return a schema of numbers by the range of each column in all tables; the keys are their names in errors."""
    ends = [ends_of(open_numbers(table, name, _SCHEMA_INSTEAD)) for name, table in tables.items()]
    names, widths = join_words(list(tables), "and"), [each.shape[1] for each in ends]
    if len(set(widths)) > 1:
        raise ValueError(f"{names} must have the same columns, got {join_words(list(map(str, widths)), 'and')}.")
    low, high = np.min([each[0] for each in ends], axis=0), np.max([each[1] for each in ends], axis=0)
    if not np.isfinite(ends).all():
        raise ValueError(f"{names} must have at least one row each, got a table of none; pass tables with rows.")
    columns = column_names(open_source(next(iter(tables.values()))).head) or range(len(low))
    high = np.where(high > low, high, low + np.maximum(1.0, np.abs(low)))
    return Schema(dict(zip(columns, map(Continuous, low.tolist(), high.tolist()), strict=True)))


def with_facts_of_rows(schema: Schema, tables: dict[str, Any]) -> Schema:
    """Return a schema with the range or the levels in all tables where they are private: as unprotected as what is made of it."""
    found: dict[Any, set] = {name: set() for name, kind in schema.items() if kind.stand_in == "private"}
    if not found:
        return schema
    names = [name for name in schema if schema.is_coded(name)]
    for called, table in tables.items():
        for chunk in open_columns(table, schema, called, buys=True).chunks():
            for name, column in zip(names, chunk, strict=True):
                if name in found and isinstance(schema[name], Continuous):
                    finite = column[np.isfinite(column)]
                    found[name] |= {finite.min(), finite.max()} if len(finite) else set()
                elif name in found:
                    found[name] |= {cell for cell in column.tolist() if cell is not None}
    stated: dict[Any, Any] = dict(schema)
    for name, cells in found.items():
        if isinstance(schema[name], Continuous):
            low, high = (min(cells), max(cells)) if cells else (0, 1)
            stated[name] = with_bounds(schema[name], low, high if high > low else low + max(1.0, abs(low)))
        else:
            levels = sorted(cells, key=str)
            stated[name] = with_levels(schema[name], levels, "Unknown" if any(isinstance(level, str) for level in levels) else "int64")
    return schema.with_kinds(stated)


def ends_of(rows: Rows) -> np.ndarray:
    """Return the minimum and maximum of each column, which are as private as all results of a metric."""
    ends = np.array([np.full(rows.n_features, np.inf), np.full(rows.n_features, -np.inf)])
    for chunk in rows.chunks():
        if n_rows_of(chunk):
            ends = np.array([np.minimum(ends[0], chunk.min(axis=0)), np.maximum(ends[1], chunk.max(axis=0))])
    return ends


def read_both(X: Table, Y: Table, schema: SchemaLike, names: tuple[str, str] = ("X", "Y")) -> tuple[Schema, list[Rows]]:
    """Open both tables with a nullable schema, so that a missing cell is neither a midpoint nor a first level."""
    schema = with_facts_of_rows(Schema.of(schema), dict(zip(names, (X, Y), strict=True)))
    schema = Schema({name: as_nullable(kind) for name, kind in schema.items()}, read=schema.read)
    return schema.coded, [columns_in(table, schema, name) for table, name in zip((X, Y), names, strict=True)]


def count_rows(rows: Rows) -> Rows:
    return rows if rows.n_samples is not None else replace(rows, n_samples=total(rows, RowCount.over()).n_samples)


def sample_rows(rows: Rows, max_samples: int, seed: int | None) -> np.ndarray:
    """Return all rows of a table in memory, or at most `max_samples` of others, drawn without replacement."""
    if rows.source.in_memory or rows.n_samples is None or rows.n_samples <= max_samples:
        return rows.collect()
    return rows.take(np.sort(np.random.default_rng(seed).choice(rows.n_samples, max_samples, replace=False)))


def check_subsample(max_samples: object, random_state: object) -> None:
    check_integer("max_samples", max_samples, 1, more="it bounds how many rows are compared")
    check_random_state(random_state)


def check_random_state(random_state: object) -> None:
    if random_state is not None and not is_integer(random_state, 0):
        raise ValueError(f"random_state must be a non-negative integer or None, got {short_repr(random_state)}.")
