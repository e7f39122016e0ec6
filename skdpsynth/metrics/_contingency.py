"""Counts of combinations of codes, of which there may be far more than rows."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from skdpsynth.frames import Chunk, Rows
from skdpsynth.statistics import Aggregator, Marginals, total

_MOST_CELLS = 1 << 24  # of the tables that are counted in one reading: 128 MiB
_MOST_CODED = 2**63  # cells that have numbers

Sets = Sequence[tuple[int, ...]]


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
