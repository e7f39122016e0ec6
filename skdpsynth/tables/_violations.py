"""Counts of rows that break rules, read unprotected."""

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np

from skdpsynth.domain import (
    Derived,
    Determines,
    Impossible,
    Inequality,
    MissingTogether,
    Rule,
    Schema,
    Sum,
    Unique,
    as_nullable,
    axis_of,
    compute_columns,
    inputs_of,
    written_kind,
)
from skdpsynth.frames import number_dtype, open_source, split_columns
from skdpsynth.tables._cells import cells_of, numbers_of
from skdpsynth.tables._open import read_column

_TOLERANCE = 1e-6  # relative, of numbers that were computed: those of 32 bits are rounded


class Violations(NamedTuple):
    """Number of rows that break a rule.

    Attributes
    ----------
    rows : int
    share : float
        Share of all rows; 0 for a table without rows.
    """

    rows: int
    share: float


def count_violations(schema: Schema, X: Any, name: str = "X") -> tuple[list[tuple[Any, Violations]], int]:
    """Return (pairs of a rule or (column, `Derived`) and how many rows break it, the number of rows), of any table, chunk by chunk."""
    rules: list[Any] = [*schema.rules, *((each, kind) for each, kind in schema.items() if isinstance(kind, Derived))]
    source = open_source(X, name, read=schema.read)
    counts, n_samples = [0] * len(rules), 0
    seen: list[set] = [set() for _ in rules]
    for chunk in source.chunks():
        rows, n_rows = _rows_of(chunk, schema, {each for rule in rules for each in _columns_of(rule)}, name, source.decimal)
        n_samples += n_rows
        for place, rule in enumerate(rules):
            counts[place] += _count(rule, rows, seen[place]) if set(_columns_of(rule)) <= rows.raw.keys() else 0
    return [(rule, Violations(count, count / max(n_samples, 1))) for rule, count in zip(rules, counts, strict=True)], n_samples


def _columns_of(rule: Any) -> tuple:
    return rule.columns_named if isinstance(rule, Rule) else (rule[0],)


class _Rows(NamedTuple):
    """A chunk, with every cell that may be missing."""

    kinds: Mapping[Any, Any]
    values: Mapping[Any, np.ndarray]
    raw: Mapping[Any, Any]
    dtypes: Mapping[Any, str]
    computed: Mapping[Any, np.ndarray]
    decimal: str

    def missing(self, name: Any) -> np.ndarray:
        values, kind = self.values[name], self.kinds[name]
        return values >= len(kind.levels) if hasattr(kind, "levels") else np.isnan(values)

    def shown(self, name: Any) -> np.ndarray:
        kind = self.kinds[name]
        return self.values[name] if hasattr(kind, "levels") else axis_of(kind).shown(self.values[name])


def _rows_of(chunk: Any, schema: Schema, wanted: set, name: str, decimal: str) -> tuple[_Rows, int]:
    table, raw = split_columns(chunk)
    columns = dict(zip(table.columns, raw, strict=True))
    dtypes = dict(zip(table.columns, table.dtypes, strict=True))
    wanted = wanted | {each for source in schema.sources.values() for each in inputs_of(source, schema)}
    absent = [each for each in wanted if each not in columns and schema[each].coded is not None]
    if absent:
        raise ValueError(f"{name} must have the columns that rules of schema name, but lacks {absent[0]!r}; pass the whole table.")
    kinds = {each: as_nullable(kind) for each, kind in schema.items()}
    read = [each for each in wanted if each in columns and kinds[each].coded is not None]
    values = {each: read_column(columns[each], kinds[each], dtypes[each], decimal_mark=decimal) for each in read}
    # Inputs that are derived themselves are not read but computed first; all others count as they stand, computed or not.
    derived = [(each, source) for each, source in schema.sources.items() if isinstance(source, Derived)]
    for each, source in derived:
        values[each] = compute_columns(kinds, {each: source}, values, dtypes)[each]
    computed = {each: compute_columns(kinds, {each: source}, values, dtypes)[each] for each, source in schema.sources.items()}
    return _Rows(kinds, values, columns, dtypes, computed, decimal), len(raw[0]) if raw else 0


def _count(rule: Any, rows: _Rows, seen: set) -> int:
    if isinstance(rule, Unique):
        return _count_repeated_keys(rule, rows, seen)
    if isinstance(rule, Impossible):
        broken = ~_is_allowed(rule, rows)
    elif isinstance(rule, Inequality):
        low, high = rows.shown(rule.low), rows.shown(rule.high)
        broken = ~(rows.missing(rule.low) | rows.missing(rule.high) | (low < high if rule.strict else low <= high))
    elif isinstance(rule, MissingTogether):
        gone = [rows.missing(name) for name in rule.columns]
        broken = np.any(gone, axis=0) & ~np.all(gone, axis=0)
    elif isinstance(rule, Determines):
        broken = ~(_agrees(rule.column, rows) & _is_allowed(rule, rows))
    else:
        broken = ~_agrees(rule.total if isinstance(rule, Sum) else rule[0], rows)
    return int(broken.sum())


def _is_allowed(rule: Impossible | Determines, rows: _Rows) -> np.ndarray | np.bool_:
    """Return which rows have a tuple of cells that a rule allows."""
    allowed = rule.allowed_codes(rows.kinds, {})
    if allowed is None:
        return np.True_
    return allowed.holds({name: rows.shown(name) for name in allowed.scores}, {name: rows.missing(name) for name in allowed.scores})


def _agrees(name: Any, rows: _Rows) -> np.ndarray:
    """Return where a column has its computed value: numbers up to rounding."""
    computed, kind, dtype = rows.computed[name], rows.kinds[name], rows.dtypes[name]
    if hasattr(kind, "levels"):
        return rows.values[name] == computed
    if isinstance(kind, Derived) and kind.gives is not None:
        found = read_column(rows.raw[name], written_kind(name, kind, rows.kinds), dtype)
    else:
        found = numbers_of(rows.raw[name], rows.decimal) if isinstance(kind, Derived) else rows.values[name]
    gone = np.isnan(found) & np.isnan(computed)
    plain = number_dtype(dtype)
    if plain is not None and plain.kind in "iub":
        computed = np.rint(computed)
    with np.errstate(invalid="ignore"):
        return gone | (np.abs(found - computed) <= _TOLERANCE * (1 + np.maximum(np.abs(found), np.abs(computed))))


def _count_repeated_keys(rule: Unique, rows: _Rows, seen: set) -> int:
    """Return how many rows have a key that one before them has."""
    cells: list[list[Hashable]] = []
    for name in rule.columns:
        column = rows.values[name] if name in rows.values else rows.raw[name]
        cells.append(cells_of(column))
    before, n_rows = len(seen), len(cells[0])
    seen.update(zip(*cells, strict=True))
    return n_rows - (len(seen) - before)
