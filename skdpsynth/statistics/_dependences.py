"""Distances of pairs of columns from independence."""

from collections.abc import Sequence

import numpy as np

from skdpsynth._sensitivity import Query, Sensitivity, statistic_facts
from skdpsynth.statistics._marginals import Marginals

_STEPS = 24  # of the share of rows on one side of a split
_MOST = 1 << 22  # numbers at a time


def dependences(
    exact: Marginals, pairs: Sequence[tuple[int, int]], splits: Sequence[np.ndarray], n_rows: int, relation: str, rank: int = 0
) -> Query:
    """Return the distance of each pair of columns from the nearest independent ones, or, with a rank, the distance of that rank.

    Splits cut the codes of a column in two, so a table of two columns becomes one of four cells, of each split of one with each of the
    other. Its distance is the least sum of absolute differences from a list of tables of `n_rows` rows whose columns are independent,
    rounded to whole numbers; that of a pair is the largest over its splits. So no margins need be known, and how rows lie within a column
    is no dependence.

    Parameters
    ----------
    exact : Marginals
        A table of each pair.
    pairs : sequence of (int, int)
    splits : sequence of bool ndarray of shape (n_splits, size)
        Of each column; public.
    n_rows : int
        As far as is known: public.
    relation : str
    rank : int, default=0
        1: the largest distance alone, and so on. 0: all, in the order of pairs.
    """
    found = np.array(
        [_distance(table, splits[i], splits[j], n_rows) for table, (i, j) in zip(exact.tables(), pairs, strict=True)], dtype=np.int64
    )
    if rank:
        found = np.sort(found)[len(found) - rank : len(found) - rank + 1]
    return Query(found, sensitivity_of_dependences(relation, len(pairs), rank))


def sensitivity_of_dependences(relation: str, n_pairs: int, rank: int = 0) -> Sensitivity:
    """Return by how much one row moves the distances of so many pairs, or the one of a rank: a public fact.

    A row that comes or goes moves one cell of four by 1, and a row that is replaced at most two: so the sum of absolute differences from
    any table that is fixed moves by 1, or by 2. The least of such sums over a fixed list of tables moves by no more, nor does the largest
    over splits, nor the distance of a rank. All pairs may do so at once.
    """
    most, n_values = 2 if relation == "replace_one" else 1, 1 if rank else n_pairs
    told = statistic_facts("dependences", pairs=n_pairs, **({"rank": rank} if rank else {}))
    return Sensitivity(relation, most * n_values, most**2 * n_values, most, statistic=told)


def _distance(table: np.ndarray, first: np.ndarray, second: np.ndarray, n_rows: int) -> int:
    if not (len(first) and len(second)):
        return 0
    both = first.astype(np.int64) @ table @ second.T.astype(np.int64)
    upper, left = (first @ table.sum(axis=1))[:, None], (second @ table.sum(axis=0))[None]
    cells = np.stack([both, upper - both, left - both, table.sum() - upper - left + both]).reshape(4, -1)
    independent = _independent(n_rows)
    size = max(1, _MOST // (4 * independent.shape[1]))
    parts = [cells[:, start : start + size, None] for start in range(0, cells.shape[1], size)]
    return max(int(np.abs(part - independent[:, None]).sum(axis=0).min(axis=1).max()) for part in parts)


def _independent(n_rows: int) -> np.ndarray:
    """Return tables of four cells, in whole numbers, shape (4, n_tables)."""
    up = np.arange(_STEPS + 1)
    sides = np.stack([up, _STEPS - up])
    products = sides[:, None, :, None] * sides[None, :, None, :] * n_rows
    return ((2 * products + _STEPS**2) // (2 * _STEPS**2)).reshape(4, -1)


def distances(exact: Marginals, expected: Sequence[np.ndarray], relation: str) -> Query:
    """Return the sum of absolute differences of each table from what was expected, with their change.

    Parameters
    ----------
    exact : Marginals
    expected : sequence of ndarray of int64
        Of the shapes of its tables, made of what was released before: a neighbor has the same.
    relation : str
    """
    pairs = zip(exact.tables(), expected, strict=True)
    return Query(
        np.array([np.abs(table - guess).sum() for table, guess in pairs], dtype=np.int64), sensitivity_of_distances(relation, len(expected))
    )


def sensitivity_of_distances(relation: str, n_tables: int) -> Sensitivity:
    """Return by how much one row moves the distances of so many tables: a public fact.

    By the triangle inequality a distance moves by no more than its table does, in the sum of absolute changes. Adding or removing a row
    moves one count of each table by 1. Replacing it moves two: a distance moves by 2, as where a row leaves a cell that has too few for
    one that has too many. All tables may do so at once.
    """
    most = 2 if relation == "replace_one" else 1
    told = statistic_facts("distances", tables=n_tables)
    return Sensitivity(relation, most * n_tables, most**2 * n_tables, min(most, most * n_tables), statistic=told)
