"""Exact quantiles, and cuts of columns of numbers into parts of equal shares."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdpsynth._validation import is_integer, short_repr
from skdpsynth.domain import Continuous, Schema
from skdpsynth.frames import Chunk, Rows, as_float_matrix, column_names, n_rows_of, open_source
from skdpsynth.statistics import Aggregator, RowCount, total
from skdpsynth.tables import ReadNumbers, open_columns, with_bounds, with_levels

NUMBERS = "use marginal_total_variation, which takes mixed tables, with a schema"
_SCHEMA_INSTEAD = "give a schema, which says what its columns hold"
MOST_READ = 1 << 25  # cells of a table that is read into memory, 256 MiB; larger ones are read repeatedly in chunks
_DIGIT = 16  # bits that one reading of the rows settles
_CODES = 1 << _DIGIT


@dataclass(frozen=True, eq=False)
class QuantileBins:
    """Turns columns of numbers into numbers of their parts, the last for missing cells; leaves columns of levels as they are."""

    cuts: Mapping[int, np.ndarray]  # by the place of a column; an upper end belongs to its part

    def __call__(self, chunk: Chunk) -> Chunk:
        return [_part(column, self.cuts[place]) if place in self.cuts else column for place, column in enumerate(chunk)]

    def size(self, place: int) -> int:
        """Return the number of codes of a column."""
        return len(self.cuts[place]) + 2


def _part(x: np.ndarray, cuts: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(x), len(cuts) + 1, np.searchsorted(cuts, x, side="left"))


def quantile_bins(rows: Rows, places: Sequence[int], n_parts: int) -> QuantileBins:
    """Cut columns of numbers into at most `n_parts` parts of equal shares of the known cells.

    A column in memory is sorted; rows elsewhere are read four times.
    """
    if rows.source.in_memory:
        return QuantileBins({place: bin_edges(rows.table[place], n_parts) for place in places})
    return QuantileBins({place: _cuts(quantiles) for place, quantiles in _select_quantiles(rows, places, n_parts).items()})


def bin_edges(x: np.ndarray, n_parts: int) -> np.ndarray:
    x = x[~np.isnan(x)]
    return _cuts(np.sort(x)[_ranks(len(x), n_parts)] if len(x) else x)


def _ranks(n: int, n_parts: int) -> np.ndarray:
    """Return which of n sorted values end a part."""
    return (np.arange(1, n_parts) * n + n_parts - 1) // n_parts - 1


def _cuts(quantiles: np.ndarray) -> np.ndarray:
    cuts, times = np.unique(quantiles, return_counts=True)
    # A value that is two quantiles, hence about a part of the rows or more, gets a cut below, too: the number of cuts does not grow.
    return np.sort(np.concatenate([cuts, np.nextafter(cuts[times > 1], -np.inf)]))


def _select_quantiles(rows: Rows, places: Sequence[int], n_parts: int) -> dict[int, np.ndarray]:
    """Return the values that end the parts of each column, digit by digit from the highest on, one at each reading."""
    prefixes = {place: np.zeros(1, dtype=np.uint64) for place in places}
    wanted: dict[int, np.ndarray] = {}
    for shift in range(64 - _DIGIT, -1, -_DIGIT):
        counted = total(rows, CountDigits(prefixes, shift)).counts
        for place, counts in counted.items():
            if place not in wanted:
                n = int(counts.sum())
                wanted[place] = _ranks(n, n_parts) if n else np.zeros(0, dtype=np.int64)
                prefixes[place] = np.zeros(len(wanted[place]), dtype=np.uint64)
            prefixes[place], wanted[place] = _next_digit(counts, prefixes[place], wanted[place])
    return {place: _values(prefix) for place, prefix in prefixes.items()}


def _next_digit(counts: np.ndarray, prefixes: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Append a digit to the prefixes of the wanted values, and return the rank of each among values with its prefix."""
    upto = counts.cumsum(axis=1)[np.unique(prefixes, return_inverse=True)[1]]
    digit = (upto <= wanted[:, None]).sum(axis=1)
    before = np.where(digit > 0, np.take_along_axis(upto, np.maximum(digit - 1, 0)[:, None], axis=1)[:, 0], 0)
    return (prefixes << np.uint64(_DIGIT)) | digit.astype(np.uint64), wanted - before


def _keys(x: np.ndarray) -> np.ndarray:
    """Map floats to whole numbers in the same order: flip the sign bit, and all bits of negative ones."""
    bits = (x + 0.0).view(np.uint64)  # of two zeros one
    return np.where(bits >> np.uint64(63), ~bits, bits | np.uint64(1 << 63))


def _values(keys: np.ndarray) -> np.ndarray:
    return np.where(keys >> np.uint64(63), keys & np.uint64((1 << 63) - 1), ~keys).view(float)


@dataclass(frozen=True, eq=False, repr=False)  # its counts are private: no repr shows them
class Digits:
    """Counts of the next digit after each prefix."""

    counts: dict[int, np.ndarray]  # by the place of a column: (n_prefixes, 65536), for sorted prefixes

    def __add__(self, other: "Digits") -> "Digits":
        return Digits({place: counts + other.counts[place] for place, counts in self.counts.items()})


@dataclass(frozen=True, eq=False)
class CountDigits(Aggregator):
    """Counts the next binary digits of the numbers that begin with given prefixes."""

    prefixes: Mapping[int, np.ndarray]  # by the place of a column, uint64
    shift: int  # number of bits after those digits

    def zero(self) -> Digits:
        sizes = {place: len(np.unique(prefixes)) for place, prefixes in self.prefixes.items()}
        return Digits({place: np.zeros((size, _CODES), dtype=np.int64) for place, size in sizes.items()})

    def add(self, statistic: Digits, chunk: Chunk) -> Digits:
        """Count the rows of a chunk, in place."""
        for place, counts in statistic.counts.items():
            column, known = chunk[place], np.unique(self.prefixes[place])
            if not len(known):
                continue
            keys = _keys(column[~np.isnan(column)]) >> np.uint64(self.shift)
            digit, prefix = (keys & np.uint64(_CODES - 1)).astype(np.int64), keys >> np.uint64(_DIGIT)
            row = np.minimum(np.searchsorted(known, prefix), len(known) - 1)
            follows = known[row] == prefix
            counts += np.bincount(row[follows] * _CODES + digit[follows], minlength=counts.size).reshape(counts.shape)
        return statistic


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
        maps = (ReadNumbers(width, is_text=True, decimal=source.decimal), read) if source.is_text else (read,)
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


def with_facts_of_rows(schema: Schema, tables: dict[str, Any]) -> Schema:
    """Return a schema with the range or the levels in all tables where they are private: as unprotected as what is made of it."""
    found: dict[Any, set] = {name: set() for name, kind in schema.items() if kind.unstated == "private"}
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
    return schema.with_kinds({**schema, **{name: _stated(schema[name], cells) for name, cells in found.items()}})


def _stated(kind: Any, cells: set) -> Any:
    if not isinstance(kind, Continuous):
        levels = sorted(cells, key=str)
        return with_levels(kind, levels, "Unknown" if any(isinstance(level, str) for level in levels) else "int64")
    low, high = (min(cells), max(cells)) if cells else (0, 1)
    return with_bounds(kind, low, high if high > low else low + max(1.0, abs(low)))


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
