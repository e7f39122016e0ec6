"""Exact counts along the trees of continuous columns."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpsynth._sensitivity import Query, Sensitivity, count_sensitivity, statistic_facts
from skdpsynth._validation import short_repr
from skdpsynth.persistence import savable
from skdpsynth.statistics._aggregator import Aggregator, Statistic
from skdpsynth.statistics._pushdown import counts_by_column

_FINE = 6  # a level beyond which a node has eight nodes on the next counted one, and four up to it: few rows are seen there alone
_ROWS = 1 << 17  # rows at a time
_DEEPEST = 62  # of cells that are numbered by int64


@dataclass(frozen=True, eq=False, repr=False)  # its counts are private: no repr shows them
class Trees(Statistic):
    """Counts of rows in the nodes of some levels of a tree of cells, a tree for each column.

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
        """Count the rows of columns of cells."""
        return cls.over(depths).of(list(cells))

    @staticmethod
    def over(depths: Sequence[int], columns: Sequence[int] | None = None) -> "CountNodes":
        """Return the rule that counts cells, and the nodes above them.

        Parameters
        ----------
        depths : sequence of int
            Of each tree: cells lie in ``[0, 2**depth)``; -1 for a missing number, which is counted nowhere.
        columns : sequence of int, default=None
            Where the cells of each tree stand in a chunk; None: in order.
        """
        return CountNodes(tuple(depths), tuple(range(len(depths)) if columns is None else columns))

    @staticmethod
    def sensitivity(relation: str, depths: Sequence[int]) -> Sensitivity:
        """Return by how much one row moves the counts: a public fact.

        The nodes of a level are disjoint, so a level counts a row once, or not at all if the number is missing. So it is a table among
        as many tables as there are levels in all trees, and what `count_sensitivity` says of those holds: one count of each changes by 1 if
        a row comes or goes, and two if it is replaced. It is attained where no number is missing and every level tells the rows apart.
        """
        told = statistic_facts("trees", depths=tuple(sorted(Counter(map(int, depths)).items())))
        return count_sensitivity(relation, sum(len(levels_of(depth)) for depth in depths), told)

    def query(self, relation: str) -> Query:
        """Return the counts with their change."""
        return Query(self.counts, self.sensitivity(relation, self.depths))

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


def levels_of(depth: int) -> list[int]:
    """Return the levels of a tree that are counted: cells, above them each third one, from the sixth on each second."""
    levels = []
    while depth > 0:
        levels.append(depth)
        depth -= 3 if depth > _FINE else 2
    return levels[::-1]


@savable
@dataclass(frozen=True)
class CountNodes(Aggregator):
    """Counts the cells of columns, and the nodes of some levels above them.

    Attributes
    ----------
    depths : tuple of int
        Of each tree.
    columns : tuple of int
        Where its cells stand in a chunk.
    """

    depths: tuple[int, ...]
    columns: tuple[int, ...]

    def __str__(self) -> str:
        return f"counts of {self.n_values} nodes in {len(self.depths)} trees of cells"

    @property
    def n_values(self) -> int:
        """Number of nodes."""
        if max(self.depths, default=0) > _DEEPEST:
            raise ValueError(f"depths must be at most {_DEEPEST}, got {short_repr(max(self.depths))}.")
        return sum(1 << level for depth in self.depths for level in levels_of(depth))

    def zero(self) -> Trees:
        """Return the counts of no rows."""
        return Trees(self.depths, np.zeros(self.n_values, dtype=np.int64))

    def count_in(self, database: Any, rows: Any) -> Trees | None:
        """Return the counts of rows in a database: nodes follow from their cells."""
        cells = counts_by_column(database, rows, self.columns, [1 << depth for depth in self.depths])
        if cells is None:
            return None
        nodes = [nodes_of(counts, depth) for counts, depth in zip(cells, self.depths, strict=True)]
        return Trees(self.depths, np.concatenate([np.zeros(0, dtype=np.int64), *nodes]))

    def add(self, statistic: Trees, chunk: Sequence[np.ndarray]) -> Trees:
        """Count the rows of a chunk, in place."""
        for tree, depth, column in zip(statistic.columns(), self.depths, self.columns, strict=True):
            counts = _levels_of_tree(chunk[column], depth)
            tree += counts
        return statistic


def _levels_of_tree(cells: np.ndarray, depth: int) -> np.ndarray:
    leaves = np.zeros((1 << depth) + 1, dtype=np.int64)  # the first is for what is missing
    rows = max(_ROWS, len(leaves))
    for start in range(0, len(cells), rows):
        leaves += np.bincount(cells[start : start + rows] + 1, minlength=len(leaves))
    return nodes_of(leaves[1:], depth)


def nodes_of(cells: np.ndarray, depth: int) -> np.ndarray:
    """Return the counts of the nodes of a tree, the coarsest level first, from those of its cells."""
    return np.concatenate([cells.reshape(1 << level, -1).sum(axis=1) for level in levels_of(depth)])
