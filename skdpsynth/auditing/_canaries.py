"""Canaries: rows that a coin puts into a table or leaves out."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpsynth._validation import as_array, is_integer, short_repr
from skdpsynth.auditing._neighbors import FRAMES_NEED, Corners
from skdpsynth.fitting import PrivateEstimator
from skdpsynth.frames import column_names, make_frame

_MOST = 10**6
_GRID = 16  # places of a column of numbers beside columns of levels
_PATIENCE = 50  # tries for each row


@dataclass(frozen=True, eq=False)
class CanarySlots:
    """Fixed rows, and slots that each hold a canary or else another row, or none."""

    rest: list[tuple]
    canaries: list[tuple]
    others: list[tuple] | None
    names: Any  # of the columns, if the tables are data frames
    dtype: Any  # of the tables, if they are arrays

    @classmethod
    def of(cls, X: Any, canaries: Any, others: Any, relation: Any) -> "CanarySlots":
        """Build the slots, or raise if the tables do not fit together or do not fit the relation."""
        if canaries is None:
            raise ValueError("canaries must be a table of at least 2 rows, got None; see isolated_canaries.")
        if relation == "replace_one" and others is None:
            raise ValueError("others must be given under neighboring='replace_one': rows that take the place of canaries, got None.")
        if relation == "add_or_remove_one" and others is not None:
            raise ValueError("others must be None under neighboring='add_or_remove_one': a canary that is out has no row in its place.")
        names = column_names(canaries)
        tables = [_rows_of(table, name) for table, name in ((X, "X"), (canaries, "canaries"), (others, "others")) if table is not None]
        if len({len(row) for rows in tables for row in rows}) > 1 or (others is not None and len(tables[-1]) != len(tables[-2])):
            raise ValueError(
                "X, canaries and others must have the same columns, and others as many rows as canaries; see isolated_canaries."
            )
        rest = [] if X is None else tables.pop(0)
        if len(tables[0]) < 2:
            raise ValueError(f"canaries must be at least 2 rows, got {len(tables[0])}; some hundreds show something.")
        dtype = None if names is not None else _dtype_of(*(table for table in (X, canaries, others) if table is not None))
        return cls(rest, tables[0], tables[1] if others is not None else None, names, dtype)

    @property
    def n(self) -> int:
        return len(self.canaries)

    def table(self, bits: np.ndarray) -> Any:
        """Return the table that holds the canaries whose bit is set."""
        if self.others is None:
            rows = [row for row, bit in zip(self.canaries, bits.tolist(), strict=True) if bit]
        else:
            rows = [row if bit else other for row, other, bit in zip(self.canaries, self.others, bits.tolist(), strict=True)]
        rows = [*self.rest, *rows]
        if self.names is None:
            return np.array(rows, dtype=self.dtype).reshape(len(rows), len(self.canaries[0]))
        columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in self.names]
        return make_frame(dict(zip(self.names, columns, strict=True)), FRAMES_NEED)


def isolated_canaries(estimator: Any, n: int, *, n_features: int | None = None) -> tuple[Any, Any]:
    """Return rows for `audit_one_run` that share no cell, so that each moves counts that no other one moves.

    In a box they lie in the middle of cells of a fine binary grid; the row that takes the place of a canary is in the cell beside it. In a
    schema no two of them share a cell in any pair of columns, where there are enough levels; columns of numbers have 16 places.

    Parameters
    ----------
    estimator : private estimator
        An estimator of this package, or derived from its bases, with public bounds and levels.
    n : int
        Number of canaries, from 2 to 1,000,000; more of them can show more. Several canaries move the counts of cells that are wider
        than those of the grid, which then show nothing: take at most half as many as the cells that the estimator counts.
    n_features : int, default=None
        As in `worst_case_neighbors`.

    Returns
    -------
    canaries : ndarray of shape (n, n_features), or a data frame
    others : ndarray of shape (n, n_features), a data frame or None
        Rows that take their place; None under "add_or_remove_one".

    Raises
    ------
    TypeError, ValueError
        If the estimator is none, keeps its bounds private, or has too few levels for so many.

    See Also
    --------
    audit_one_run : Puts them into a table, or not.

    Examples
    --------
    >>> from skdpsynth import SignedMeasureMechanism
    >>> from skdpsynth.auditing import isolated_canaries
    >>> canaries, others = isolated_canaries(SignedMeasureMechanism(8), 4)
    >>> canaries.ravel(), others.ravel()
    (array([0.0625, 0.3125, 0.5625, 0.8125]), array([0.1875, 0.4375, 0.6875, 0.9375]))
    """
    if isinstance(estimator, type) or not isinstance(estimator, PrivateEstimator):
        raise TypeError(f"estimator must be a private estimator of this package, got {short_repr(estimator)}; make such rows by hand.")
    if not is_integer(n, 2, _MOST):
        raise ValueError(f"n must be an integer of at least 2 and at most {_MOST}, got {short_repr(n)}; some hundreds show something.")
    domain, drops = Corners(estimator, n_features), estimator.neighboring == "add_or_remove_one"
    n_rows = int(n) if drops else 2 * int(n)  # numpy's small integers overflow
    if domain.is_mixed:
        rows = domain.spread(_separated_rows(domain.sizes(_GRID), n_rows), _GRID)
    else:
        rows = [domain.row(place) for place in _grid(domain.n_features, n_rows)]
    # Side by side: a canary and its replacement are as near as possible, so coarse counts do not tell them apart.
    return (domain.table(rows), None) if drops else (domain.table(rows[::2]), domain.table(rows[1::2]))


def _grid(d: int, n: int) -> np.ndarray:
    """Return midpoints, in [0, 1], of the first `n` cells of a binary grid whose levels halve the columns in turn."""
    depth = (n - 1).bit_length()
    numbers, places = np.arange(n), np.zeros((n, d))
    for level in range(depth):
        places[:, level % d] += (numbers >> (depth - 1 - level) & 1) * 0.5 ** (level // d + 1)
    return places + 0.5 ** (np.array([len(range(column, depth, d)) for column in range(d)]) + 1)


def _separated_rows(sizes: list[int], n: int) -> np.ndarray:
    """Try random level numbers from a fixed seed until no two rows agree in two columns; shape (n, n_columns)."""
    rng, rows = np.random.default_rng(0), []
    pairs = [(i, j) for j in range(len(sizes)) for i in range(j) if sizes[i] * sizes[j] >= n] or [(0, 0)]
    taken: list[set] = [set() for _ in pairs]
    for row in rng.integers(0, sizes, size=(_PATIENCE * n, len(sizes))).tolist():
        cells = [(row[i], row[j]) for i, j in pairs]
        if any(cell in seen for cell, seen in zip(cells, taken, strict=True)):
            continue
        rows.append(row)
        for cell, seen in zip(cells, taken, strict=True):
            seen.add(cell)
        if len(rows) == n:
            return np.array(rows)
    raise ValueError(f"n must be at most {len(rows) // 2} for this schema, got more; take fewer canaries, or give columns more levels.")


def _dtype_of(*tables: Any) -> np.dtype:
    try:
        return np.result_type(*map(as_array, tables))
    except TypeError:  # such as dates among numbers
        return np.dtype(object)


def _rows_of(table: Any, name: str) -> list[tuple]:
    names = column_names(table)
    if names is not None:
        columns = [table[each] for each in names]
        return list(zip(*(column.to_pylist() if hasattr(column, "to_pylist") else column.to_list() for column in columns), strict=True))
    rows = as_array(table, object)
    if rows.ndim != 2:
        raise ValueError(f"{name} must be a table in memory, got {short_repr(table)}; give an array or a data frame.")
    return [tuple(row) for row in rows.tolist()]
