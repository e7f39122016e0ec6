"""Contingency tables, and total variation distances of marginals."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby
from typing import Any

import numpy as np

from skdpsynth._validation import is_integer, short_repr, warn
from skdpsynth.domain import Continuous, Schema, as_nullable
from skdpsynth.frames import Chunk, Rows
from skdpsynth.metrics._quantiles import columns_in, quantile_bins, with_facts_of_rows
from skdpsynth.statistics import Aggregator, Marginals, total

_MOST_CELLS = 1 << 24  # of the tables that are counted in one reading: 128 MiB
_MOST_CODED = 2**63  # cells that have numbers

Sets = Sequence[tuple[int, ...]]
_MOST_SETS = 100_000  # of columns: the standard error of their mean is .2 % of their deviation
_PARTS = 12  # of a column of numbers: as in the measurements of the documentation


def marginal_total_variation(X: Any, Y: Any, schema: Any, order: int = 2) -> float:
    """Return the mean total variation distance between the marginals of two tables, over all sets of `order` columns.

    A column of numbers is cut into at most 12 parts of equally many rows of `X`; a value so frequent that two cuts meet in it is a part of
    its own. A column of levels is taken as it is. A missing cell is a level more, also where `schema` knows none there; so is a level that
    `schema` does not know.

    Parameters
    ----------
    X, Y : array-like, data frame or other table that `fit` takes, of shape (n_samples, n_features) and (m_samples, n_features)
        The real and the synthetic table, with the columns of `schema`. Both are read unprotected, without noise: the distance to private
        data is not private.
    schema : dict, Schema or path of a file
        ``{column: (low, high), [levels] or a kind}``, see `skdpsynth.domain.Schema`. Numbers are clipped to their bounds.
    order : {1, 2, 3}, default=2
        Number of columns of a marginal. If there are more than 100,000 sets of columns, as for 86 columns at order 3, only 100,000 count,
        always the same ones, drawn evenly; a warning says so.

    Returns
    -------
    distance : float
        In [0, 1]: the mean over the marginals of the largest difference between the shares of rows that any event has in them. It does not
        fall as `order` grows (where all sets count), and is symmetric for columns of levels; those of numbers are cut by `X`.

    Raises
    ------
    ValueError
        If the columns are not those of `schema`, a table has no rows, or `order` is not 1, 2, 3 or is more than the number of columns.
    TypeError
        If a dtype cannot hold what `schema` says.

    See Also
    --------
    skdpsynth.metrics.correlation_error : Compares associations instead.
    skdpsynth.metrics.train_synthetic_test_real : Compares what can be learned.

    Notes
    -----
    The time is that of a pass over the rows of both tables for each of the (n_features choose `order`) sets: of 30 columns 30, 435 and
    4060 sets, with 50,000 rows on each side about 0.5, 0.5 and 2 seconds.

    Files, lazy frames and all else that is not in memory are counted in chunks, and the distance is the same to the last bit. Those of more
    than 2^25 cells are read once for the counts of 2^24 combinations of levels and parts, and `X` four times more for the exact cuts of its
    numbers; about 6 MB are held for each such column. Smaller ones are read into memory.

    A finite sample is at some distance from its own distribution. So compare with the distance between two halves of the real rows.

    Examples
    --------
    >>> from skdpsynth.metrics import marginal_total_variation
    >>> X = [["a", "no"], ["a", "no"], ["b", "yes"], ["b", "yes"]]
    >>> Y = [["a", "no"], ["a", "yes"], ["b", "no"], ["b", "yes"]]
    >>> schema = {0: ["a", "b"], 1: ["no", "yes"]}
    >>> marginal_total_variation(X, Y, schema, order=1), marginal_total_variation(X, Y, schema, order=2)
    (0.0, 0.5)
    """
    if not is_integer(order, 1, 3):
        raise ValueError(f"order must be 1, 2 or 3, got {short_repr(order)}.")
    schema, tables = read_both(X, Y, schema)
    if order > len(schema):
        raise ValueError(f"order must be at most the number of columns, {len(schema)}, got {order}.")
    return float(np.mean(distances_of(tables, schema, _sets(len(schema), order))))


def _sets(n_columns: int, order: int) -> list[tuple[int, ...]]:
    """Return all sets of `order` columns, or some drawn without replacement."""
    n_sets = math.comb(n_columns, order)
    if n_sets <= _MOST_SETS:
        return list(combinations(range(n_columns), order))
    warn(f"{_MOST_SETS} of the {n_sets} sets of {order} columns are compared, drawn evenly; give fewer columns to compare all.")
    left, chosen = np.random.default_rng(0).choice(n_sets, _MOST_SETS, replace=False, shuffle=False), []
    # Every number below n_sets is C(a, 3) + C(b, 2) + c in one way with a > b > c (the combinatorial number system).
    for size in range(order, 0, -1):
        below = np.array([math.comb(column, size) for column in range(n_columns)])
        chosen.append(np.searchsorted(below, left, side="right") - 1)
        left = left - below[chosen[-1]]
    return list(map(tuple, np.stack(chosen[::-1], axis=1).tolist()))


def distances_of(tables: Sequence[Rows], schema: Schema, sets: Sequence[tuple[int, ...]]) -> list[float]:
    """Return the total variation distance of two tables from `read_both` on each set of columns; the first decides where to cut."""
    parts = quantile_bins(tables[0], [place for place, kind in enumerate(schema.values()) if isinstance(kind, Continuous)], _PARTS)
    sizes = [parts.size(place) if place in parts.cuts else kind.n_codes for place, kind in enumerate(schema.values())]
    coded, (n, m) = [rows.map(parts).kept() for rows in tables], [rows.n_samples or 0 for rows in tables]
    # Whole numbers, so that 0 and 1 are exact.
    return [float(np.abs(m * x - n * y).sum() / (2 * n * m)) for x, y in contingency_tables(coded, sizes, sets)]


def read_both(X: Any, Y: Any, schema: Any, names: tuple[str, str] = ("X", "Y")) -> tuple[Schema, list[Rows]]:
    """Open both tables with a nullable schema, so that a missing cell is neither a midpoint nor a first level."""
    schema = with_facts_of_rows(Schema.of(schema), dict(zip(names, (X, Y), strict=True)))
    schema = Schema({name: as_nullable(kind) for name, kind in schema.items()}, read=schema.read)
    return schema.coded, [columns_in(table, schema, name) for table, name in zip((X, Y), names, strict=True)]


def contingency_tables(tables: Sequence[Rows], sizes: Sequence[int], sets: Sets) -> Iterator[list[np.ndarray]]:
    """Yield, for each set of columns, the counts of each table, on the same combinations for all of them.

    `sizes` are numbers of codes. All combinations that occur in any table are among them.
    """
    n_rows = sum(rows.n_samples or 0 for rows in tables)
    for group, is_dense in _groups(sizes, sets, min(_MOST_CELLS, 4 * n_rows)):
        if is_dense:
            counted = [total(rows, Marginals.over(sizes, group)).tables() for rows in tables]
            yield from ([table.ravel() for table in found] for found in zip(*counted, strict=True))
        else:
            yield _align([total(rows, CountCombinations(tuple(sizes), group[0])) for rows in tables])


def combination_counts(rows: Rows, sizes: Sequence[int], sets: Sets) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield, for each set of columns, the occurring combinations as numbers in mixed radix, and their counts."""
    for group, is_dense in _groups(sizes, sets, min(_MOST_CELLS, 4 * (rows.n_samples or 0))):
        if is_dense:
            for table in total(rows, Marginals.over(sizes, group)).tables():
                cells = np.flatnonzero(table)
                yield cells, table.ravel()[cells]
        else:
            yield total(rows, CountCombinations(tuple(sizes), group[0])).whole


def _groups(sizes: Sequence[int], sets: Sets, most: int) -> Iterator[tuple[list[tuple[int, ...]], bool]]:
    """Yield sets in their order, those of one reading together, and whether their tables are held whole."""
    waiting: list[tuple[int, ...]] = []
    n_cells = 0
    for is_dense, group in groupby(sets, lambda columns: math.prod(sizes[column] for column in columns) <= most):
        for columns in group:
            size = math.prod(sizes[column] for column in columns)
            if waiting and (not is_dense or n_cells + size > _MOST_CELLS):
                yield waiting, True
                waiting, n_cells = [], 0
            if is_dense:
                waiting.append(columns)
                n_cells += size
            else:
                yield [columns], False
    if waiting:
        yield waiting, True


@dataclass(frozen=True, eq=False, repr=False)  # its counts are private: no repr shows them
class CombinationCounts:
    """Counts of the combinations that occur."""

    parts: list[tuple[np.ndarray, np.ndarray]]  # (sorted cells, counts), each less than half as long as the one before

    def __add__(self, other: "CombinationCounts") -> "CombinationCounts":
        return CombinationCounts([_merge([*self.parts, *other.parts])])

    @property
    def whole(self) -> tuple[np.ndarray, np.ndarray]:
        return _merge(self.parts)


@dataclass(frozen=True)
class CountCombinations(Aggregator):
    """Counts the combinations of codes of some columns that occur."""

    sizes: tuple[int, ...]  # numbers of codes of all columns
    columns: tuple[int, ...]

    def zero(self) -> CombinationCounts:
        n_cells = math.prod(self.sizes[column] for column in self.columns)
        if n_cells > _MOST_CODED:
            raise ValueError(f"schema makes {n_cells:.1e} combinations of {len(self.columns)} columns, too many to count; lower `order`.")
        return CombinationCounts([])

    def add(self, statistic: CombinationCounts, chunk: Chunk) -> CombinationCounts:
        """Count the rows of a chunk, in place."""
        cell = chunk[self.columns[0]].astype(np.int64)
        for column in self.columns[1:]:
            cell = cell * self.sizes[column] + chunk[column]
        parts = statistic.parts
        parts.append(np.unique(cell, return_counts=True))
        while len(parts) > 1 and 2 * len(parts[-1][0]) >= len(parts[-2][0]):
            parts[-2:] = [_merge(parts[-2:])]
        return statistic


def _merge(parts: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    if len(parts) < 2:
        return parts[0] if parts else (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    cells, place = np.unique(np.concatenate([part for part, _ in parts]), return_inverse=True)
    counts = np.zeros(len(cells), dtype=np.int64)
    np.add.at(counts, place, np.concatenate([counts for _, counts in parts]))
    return cells, counts


def _align(found: list[CombinationCounts]) -> list[np.ndarray]:
    """Return the counts of all tables on the union of their combinations."""
    cells = np.unique(np.concatenate([each.whole[0] for each in found]))
    aligned = np.zeros((len(found), len(cells)), dtype=np.int64)
    for counts, each in zip(aligned, found, strict=True):
        counts[np.searchsorted(cells, each.whole[0])] = each.whole[1]
    return list(aligned)
