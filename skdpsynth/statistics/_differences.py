"""Rows become the cells of differences of their columns."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from skdpsynth.frames import Chunk
from skdpsynth.persistence import savable


@savable
@dataclass(frozen=True, eq=False)
class DifferencesOf:
    """Rows of numbers become the cells of differences between two columns, a column of cells for each pair.

    A map of one row: one row moves counts of its cells as it moves counts of any others.

    Attributes
    ----------
    pairs : tuple of (int, int)
        Places of two columns: the difference is the second less the first.
    edges : tuple of ndarray of shape (n_cells + 1,)
        Of the cells of each pair; numbers beyond the ends lie in the outermost cells.
    missing : tuple of int
        Of each pair the cell of rows in which one of the two is missing.
    """

    pairs: tuple[tuple[int, int], ...]
    edges: tuple[np.ndarray, ...]
    missing: tuple[int, ...]

    @classmethod
    def over(cls, pairs: Sequence[tuple[int, int]], edges: Sequence[np.ndarray], counts_missing: bool) -> "DifferencesOf":
        """Return the map.

        Parameters
        ----------
        pairs : sequence of (int, int)
        edges : sequence of ndarray
        counts_missing : bool
            Whether rows without a difference have a cell after the last. Else their cell is -1, which trees count nowhere.
        """
        return cls(tuple(pairs), tuple(edges), tuple(len(own) - 1 if counts_missing else -1 for own in edges))

    def __call__(self, chunk: Chunk) -> Chunk:
        return [self._cells(chunk, *of_pair) for of_pair in zip(self.pairs, self.edges, self.missing, strict=True)]

    @staticmethod
    def _cells(chunk: Chunk, pair: tuple[int, int], edges: np.ndarray, missing: int) -> np.ndarray:
        difference = np.asarray(chunk[pair[1]], dtype=float) - np.asarray(chunk[pair[0]], dtype=float)
        cells = np.searchsorted(edges[1:-1], difference, side="right")
        return np.where(np.isnan(difference), missing, cells).astype(np.int32)
