"""Links between numbers and codes: the noisy distribution of one column, cut into bins."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from skdpsynth.measures import least_squares, mass_from_root
from skdpsynth.persistence import savable


@savable
@dataclass(frozen=True, eq=False)
class Link:
    """A probability measure on the cells of a line, and bins of about equal mass.

    A cell with more than the mass of a bin is a bin of its own, which keeps atoms.

    Attributes
    ----------
    mass : ndarray of shape (n_cells,)
        Sums to 1.
    edges : ndarray of shape (n_bins + 1,), int64
        Bin b holds the cells from ``edges[b]`` up to, not with, ``edges[b + 1]``.
    """

    mass: np.ndarray
    edges: np.ndarray

    @classmethod
    def of(cls, levels: Sequence[np.ndarray | None], variance: float, n_cells: int, n_bins: int) -> "Link":
        """Make noisy counts of a tree consistent, and cut.

        Parameters
        ----------
        levels : list of ndarray
            Noisy counts of the levels 1, ..., depth: 2**j numbers at level j; None where a level was not released.
        variance : float
            Of every count.
        n_cells : int
            How many leaves can hold rows.
        n_bins : int
            Wanted; there may be fewer, or up to twice as many with atoms.
        """
        estimates, _ = least_squares([None, *levels], [np.inf, *[variance or 1.0] * len(levels)])
        root = np.maximum(estimates[0], 0.0)[0]
        mass = mass_from_root(estimates[1:], np.array(root))[:n_cells]
        total = mass.sum()
        mass = mass / total if total > 0 else np.full(n_cells, 1 / n_cells)
        upto = np.concatenate([[0.0], np.cumsum(mass)])
        heavy = np.flatnonzero(mass > 1 / n_bins)
        inner = np.searchsorted(upto, np.arange(1, n_bins) / n_bins)
        edges = np.unique(np.concatenate([[0], inner, heavy, heavy + 1, [n_cells]]))
        return cls(mass, edges[(edges >= 0) & (edges <= n_cells)])

    @property
    def n_bins(self) -> int:
        """Number of bins."""
        return len(self.edges) - 1

    def bins_of(self, cells: np.ndarray) -> np.ndarray:
        """Return the bins of cells; -1 stays -1."""
        return np.searchsorted(self.edges, cells, side="right") - 1

    def cells_of(self, bins: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw a cell in each bin, by mass; uniformly where a bin has none."""
        first, last = self.edges[bins], self.edges[bins + 1] - 1
        upto = np.concatenate([[0.0], np.cumsum(self.mass)])
        u = rng.random(len(bins))
        mass = upto[last + 1] - upto[first]
        cells = np.searchsorted(upto, upto[first] + u * mass, side="right") - 1
        uniform = first + np.floor(u * (last + 1 - first)).astype(np.int64)
        return np.clip(np.where(mass > 0, cells, uniform), first, last)
