"""Exact counts along the trees of continuous columns."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from skdpsynth._change import Change, Query, units

_FAN_OUT = 2  # halvings from one counted level to the next
_ROWS = 1 << 17  # rows at a time


@dataclass(frozen=True, eq=False, repr=False)  # its counts are private: no repr shows them
class Trees:
    """How many rows lie in each node of every second level of a tree of cells, a tree for each column.

    Attributes
    ----------
    depths : tuple of int
        Halvings from the whole range of each column to its cells.
    counts : ndarray of shape (n_counts,), int64
        Tree after tree, and in each the coarsest level first; the last one is that of the cells.
    """

    depths: tuple[int, ...]
    counts: np.ndarray

    @classmethod
    def of(cls, cells: Sequence[np.ndarray], depths: Sequence[int]) -> "Trees":
        """Count rows.

        Parameters
        ----------
        cells : list of int arrays of shape (n_samples,)
            Of each column, in ``[0, 2**depth)``; -1 for a missing number, which is counted nowhere.
        depths : sequence of int
        """
        parts = [_levels_of_tree(column, depth) for column, depth in zip(cells, depths, strict=True)]
        return cls(tuple(depths), np.concatenate([np.zeros(0, dtype=np.int64), *parts]))

    @staticmethod
    def change(relation: str, depths: Sequence[int]) -> Change:
        """Return by how much one row moves the counts: a public fact.

        The nodes of a level are disjoint, so a level counts a row once, or not at all if the number is missing. So it is a table among
        as many tables as there are levels in all trees, and what `units` says of those holds: one count of each changes by 1 if a row
        comes or goes, and two if it is replaced. It is attained where no number is missing and every level tells the rows apart.
        """
        return units(relation, sum(len(levels_of(depth)) for depth in depths))

    def query(self, relation: str) -> Query:
        """Return the counts with their change."""
        return Query(self.counts, self.change(relation, self.depths))

    def levels(self, values: np.ndarray | None = None) -> list[dict[int, np.ndarray]]:
        """Return the counts, or others in their place, by level: a dict for each tree, the coarsest level first."""
        levels = []
        for tree, depth in zip(self.columns(values), self.depths, strict=True):
            stops = np.cumsum([1 << level for level in levels_of(depth)])[:-1]
            levels.append(dict(zip(levels_of(depth), np.split(tree, stops), strict=True)))
        return levels

    def columns(self, values: np.ndarray | None = None) -> list[np.ndarray]:
        """Return the counts, or others in their place, as one array a tree."""
        values = self.counts if values is None else values
        stops = np.cumsum([sum(1 << level for level in levels_of(depth)) for depth in self.depths], dtype=np.int64)
        return np.split(values, stops[:-1]) if self.depths else []

    def __add__(self, other: "Trees") -> "Trees":
        return Trees(self.depths, self.counts + other.counts)


def levels_of(depth: int) -> list[int]:
    """Return the levels of a tree that are counted: the cells, and every second one above them, but never the root."""
    return sorted(range(depth, 0, -_FAN_OUT))


def _levels_of_tree(cells: np.ndarray, depth: int) -> np.ndarray:
    leaves = np.zeros((1 << depth) + 1, dtype=np.int64)  # the first is for what is missing
    rows = max(_ROWS, len(leaves))
    for start in range(0, len(cells), rows):
        leaves += np.bincount(cells[start : start + rows] + 1, minlength=len(leaves))
    return np.concatenate([leaves[1:].reshape(1 << level, -1).sum(axis=1) for level in levels_of(depth)])
