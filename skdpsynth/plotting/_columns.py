"""Columns of tables as shares of their rows: what pictures of samples draw."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpsynth.domain import MICROSECONDS, Continuous, Nominal, Schema, Times, as_nullable
from skdpsynth.tables import open_columns

BINS = 24
_MOST_VALUES = 32  # whole numbers that are drawn one by one
_MOST_LEVELS = 12
_OTHER = "(other)"


@dataclass(frozen=True, eq=False)
class Column:
    """One column of one or two tables, as shares of all rows.

    Attributes
    ----------
    name : Any
    kind : Kind
        What the schema says, or what the synthetic rows showed.
    edges : ndarray of shape (n_parts + 1,) or None
        Where numbers or times are cut; times as datetime64.
    levels : tuple
        Of a column of levels, in the order in which they are drawn; else empty.
    shares : ndarray of shape (n_tables, n_parts)
        Of the rows of each table; with `missing` they sum to 1.
    missing : ndarray of shape (n_tables,)
    """

    name: Any
    kind: Any
    edges: Any
    levels: tuple
    shares: np.ndarray
    missing: np.ndarray


@dataclass(frozen=True, eq=False)
class EncodedColumn:
    """A column of each table as numbers of parts, -1 where missing."""

    column: Column
    codes: list[np.ndarray]

    def joint(self, other: "EncodedColumn") -> np.ndarray:
        """Return the shares of pairs of parts, shape (n_tables, n_parts, n_parts of the other), of the rows that have both."""
        shape = self.column.shares.shape[1], other.column.shares.shape[1]
        out = np.zeros((len(self.codes), *shape))
        for table, (a, b) in enumerate(zip(self.codes, other.codes, strict=True)):
            known = (a >= 0) & (b >= 0)
            counts = np.bincount(a[known] * shape[1] + b[known], minlength=shape[0] * shape[1]).reshape(shape)
            out[table] = counts / max(counts.sum(), 1)
        return out


def read_columns(tables: list[tuple[str, Any]], schema: Schema) -> list[list[np.ndarray]]:
    """Return the columns of tables by the schema; every cell may be missing, so that a missing one is no midpoint and no first level."""
    schema = Schema({name: as_nullable(kind) for name, kind in schema.items()})
    read = [open_columns(X, schema, name).collected() for name, X in tables]
    for (name, _), columns in zip(tables, read, strict=True):
        if not len(columns[0]):
            raise ValueError(f"{name} must have at least one row, got none; give a table with rows.")
    return read


def coded(name: Any, kind: Any, values: list[np.ndarray]) -> EncodedColumn:
    """Return a column of some tables with the parts that it is drawn in, by their common range within the bounds of the schema."""
    if isinstance(kind.coded, Continuous):
        return _encode_numbers(name, kind, values)
    return _encode_levels(name, kind, values)


def _encode_numbers(name: Any, kind: Any, values: list[np.ndarray]) -> EncodedColumn:
    known = np.concatenate([column[~np.isnan(column)] for column in values])
    low, high = (known.min(), known.max()) if len(known) else (kind.coded.low, kind.coded.high)
    edges = _edges(float(low), float(high), kind.coded.integer)
    codes = []
    for column in values:
        places = np.clip(np.searchsorted(edges, column, side="right") - 1, 0, len(edges) - 2)
        codes.append(np.where(np.isnan(column), -1, places))
    return _make_column(name, kind, _as_times(edges, kind), (), codes, len(edges) - 1)


def _edges(low: float, high: float, whole: bool) -> np.ndarray:
    """Return where to cut a range: between whole numbers, if all are whole."""
    if not whole:
        return np.linspace(low, high, BINS + 1) if high > low else np.array([low - 0.5, low + 0.5])
    step = 1 if high - low < _MOST_VALUES else int(np.ceil((high - low + 1) / BINS))
    return low - 0.5 + step * np.arange(int((high - low) // step) + 2)


def _as_times(edges: np.ndarray, kind: Any) -> np.ndarray:
    """Return edges in units since the lower bound as datetime64, where the column is one of times."""
    if not isinstance(kind, Times):
        return edges
    unit = MICROSECONDS[kind.resolution]
    return np.rint((kind.first + edges) * unit).astype(np.int64).astype("datetime64[us]")


def _encode_levels(name: Any, kind: Any, values: list[np.ndarray]) -> EncodedColumn:
    n_levels = len(kind.levels)
    codes = [np.where(column < n_levels, column, -1).astype(np.int64) for column in values]
    levels = tuple(map(str, kind.levels))
    if n_levels > _MOST_LEVELS:
        # By the first table alone, which is synthetic: what stands in a picture shall not be chosen by the other.
        counts = np.bincount(codes[0][codes[0] >= 0], minlength=n_levels)
        kept = np.argsort(-counts, kind="stable")[: _MOST_LEVELS - 1]
        kept = kept if isinstance(kind, Nominal) else np.sort(kept)
        place = np.full(n_levels + 1, _MOST_LEVELS - 1)
        place[kept], place[-1] = np.arange(len(kept)), -1
        codes, levels = [place[column] for column in codes], (*(levels[i] for i in kept), _OTHER)
    return _make_column(name, kind, None, levels, codes, len(levels))


def _make_column(name: Any, kind: Any, edges: Any, levels: tuple, codes: list[np.ndarray], n_parts: int) -> EncodedColumn:
    shares = np.array([np.bincount(column[column >= 0], minlength=n_parts) / len(column) for column in codes])
    missing = np.array([np.mean(column < 0) for column in codes])
    return EncodedColumn(Column(name, kind, edges, levels, shares, missing), codes)
