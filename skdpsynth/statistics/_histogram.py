"""Exact counts of the cells of a partition."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpsynth._change import Change, Query, units

_ROWS = 1 << 17  # rows at a time


@dataclass(frozen=True, eq=False, repr=False)  # its counts are private: no repr shows them
class Histogram:
    """Number of rows in each cell.

    Attributes
    ----------
    counts : ndarray of shape (n_cells,), int64
    """

    counts: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, partition: Any) -> "Histogram":
        """Count the leaves of a binary partition, or the cells of a plain one, a chunk of rows at a time."""
        n_cells = 1 << partition.depth if hasattr(partition, "depth") else partition.n_cells
        counts = np.zeros(n_cells, dtype=np.int64)
        rows = max(_ROWS, len(counts))
        for start in range(0, len(X), rows):
            counts += np.bincount(partition.locate(X[start : start + rows]), minlength=len(counts))
        return cls(counts)

    @classmethod
    def of_cells(cls, cells: np.ndarray, n_cells: int, shift: int = 0) -> "Histogram":
        """Count cell numbers, or those of their ancestors.

        Parameters
        ----------
        cells : int64 ndarray
            Cell numbers of the rows.
        n_cells : int
            How many cells there are, or ancestors.
        shift : int, default=0
            How many levels up the ancestors are.

        Returns
        -------
        histogram : Histogram
        """
        counts = np.zeros(n_cells, dtype=np.int64)
        rows = max(_ROWS, n_cells)
        for start in range(0, len(cells), rows):
            block = cells[start : start + rows]
            counts += np.bincount(block >> shift if shift else block, minlength=n_cells)
        return cls(counts)

    @classmethod
    def of_refined(cls, cells: np.ndarray, coarse_shift: int, refinement: np.ndarray) -> "Histogram":
        """Count the cells of an irregular partition: coarse cell c is split into ``2**refinement[c]`` parts.

        Parameters
        ----------
        cells : int64 ndarray
            Leaf numbers of the rows. **Overwritten**: this is scratch, so that a second copy is not needed.
        coarse_shift : int
            ``cells >> coarse_shift`` are the coarse cells; at least ``refinement.max()``.
        refinement : ndarray of shape (n_coarse,), int

        Returns
        -------
        histogram : Histogram
            Parts of the coarse cells of refinement 0 first, then of refinement 1, ...; in each group by coarse cell, then
            along the curve.
        """
        refinement = np.asarray(refinement, dtype=np.int64)
        sizes = np.int64(1) << refinement
        order = np.argsort(refinement, kind="stable")
        first = np.empty_like(sizes)
        first[order] = np.cumsum(sizes[order]) - sizes[order]
        shift = coarse_shift - refinement
        offset = first - (np.arange(len(sizes)) << refinement)  # part number = offset + (leaf >> shift)
        for start in range(0, len(cells), _ROWS):
            block = cells[start : start + _ROWS]
            coarse = block >> coarse_shift
            block >>= np.take(shift, coarse, mode="wrap")
            block += np.take(offset, coarse, mode="wrap")
        return cls.of_cells(cells, int(sizes.sum()))

    def coarsen(self, levels: int) -> "Histogram":
        """Return the counts `levels` levels up: sums of 2**levels neighbours along the curve."""
        return Histogram(self.counts.reshape(-1, 1 << levels).sum(axis=1)) if levels else self

    @staticmethod
    def change(relation: str) -> Change:
        """Return how far one row moves the counts, because it is in one cell.

        Replacing it takes 1 from a cell and gives 1 to another; adding or removing it changes one count by 1.
        """
        return units(relation)

    def query(self, relation: str) -> Query:
        """Return the counts, and how far one row moves them."""
        return Query(self.counts, self.change(relation))

    @staticmethod
    def change_of_first(relation: str) -> Change:
        """Return how far one row moves the count of the first cell alone: by 1, in or out, under both relations."""
        return Change(relation, 1, 1, 1)

    def query_of_first(self, relation: str) -> Query:
        """Return the count of the first cell: of two cells it tells both, where the number of rows is public."""
        return Query(self.counts[:1], self.change_of_first(relation))

    def __add__(self, other: "Histogram") -> "Histogram":
        return Histogram(self.counts + other.counts)
