"""Exact counts of the cells of a partition."""

from dataclasses import dataclass

import numpy as np

_ROWS = 1 << 17  # rows at a time


@dataclass(frozen=True, eq=False)
class Histogram:
    """Number of rows in each cell.

    Attributes
    ----------
    counts : ndarray of shape (n_cells,), int64
    """

    counts: np.ndarray

    @classmethod
    def of(cls, X, partition):
        """Count the leaves of a binary partition, or the cells of a plain one, a chunk of rows at a time."""
        n_cells = 1 << partition.depth if hasattr(partition, "depth") else partition.n_cells
        counts = np.zeros(n_cells, dtype=np.int64)
        rows = max(_ROWS, len(counts))
        for start in range(0, len(X), rows):
            counts += np.bincount(partition.locate(X[start : start + rows]), minlength=len(counts))
        return cls(counts)

    @classmethod
    def of_cells(cls, cells, n_cells):
        """Count cell numbers."""
        return cls(np.bincount(cells, minlength=n_cells).astype(np.int64, copy=False))

    @classmethod
    def of_refined(cls, cells, coarse_shift, refinement):
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

    def coarsen(self, levels):
        """Return the counts `levels` levels up: sums of 2**levels neighbours along the curve."""
        return Histogram(self.counts.reshape(-1, 1 << levels).sum(axis=1)) if levels else self

    def __add__(self, other):
        return Histogram(self.counts + other.counts)
