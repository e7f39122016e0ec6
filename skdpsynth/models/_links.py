"""Links between numbers and codes: the noisy distribution of one column, cut into bins."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from skdpsynth.measures import least_squares, mass_from_root
from skdpsynth.models._systematic import points_below
from skdpsynth.persistence import savable


@savable
@dataclass(frozen=True, eq=False, repr=False)
class Link:
    """A probability measure on the cells of a line, and bins of about equal mass.

    A cell with more than the mass of a bin is a bin of its own, which keeps atoms.

    Attributes
    ----------
    mass : ndarray of shape (n_cells,)
        Sums to 1.
    edges : ndarray of shape (n_bins + 1,), int64
        Bin b holds the cells from ``edges[b]`` up to, not with, ``edges[b + 1]``.

    See Also
    --------
    LatentFactors : Predicts the bins.
    LatentFactorSynthesizer : Learns both.
    """

    mass: np.ndarray
    edges: np.ndarray

    def __repr__(self) -> str:
        return f"Link(n_cells={len(self.mass)}, n_bins={len(self.edges) - 1})"

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

    @property
    def codes(self) -> np.ndarray:
        """The bin of each cell, shape (n_cells,)."""
        return self.bins_of(np.arange(len(self.mass)))

    def bins_of(self, cells: np.ndarray) -> np.ndarray:
        """Return the bins of cells; -1 stays -1."""
        return np.searchsorted(self.edges, cells, side="right") - 1


@dataclass(frozen=True, eq=False)
class InBins:
    """Cells drawn within the bins of a `Link`.

    Attributes
    ----------
    bins : ndarray of shape (n_cells,), int64
        The bin of each cell.
    upto : ndarray of shape (n_cells,)
        The share of its bin's mass up to the end of each cell; cells count alike where a bin has no mass.
    """

    bins: np.ndarray
    upto: np.ndarray

    @classmethod
    def of(cls, link: Link) -> "InBins":
        """Prepare the bins of a link."""
        widths = np.diff(link.edges)
        bins = np.repeat(np.arange(link.n_bins), widths)
        whole = np.add.reduceat(link.mass, link.edges[:-1])[bins]
        # In parts of the bin first: in a sum over all bins, one of very little mass would be nothing.
        part = np.where(whole > 0, link.mass, 1.0) / np.where(whole > 0, whole, widths[bins])
        upto = np.cumsum(part)
        upto -= np.concatenate([[0.0], upto[link.edges[1:-1] - 1]])[bins]
        # A cell without mass adds nothing to the sum, so behind the last one with mass it is 1 exactly.
        return cls(bins, upto / upto[link.edges[1:] - 1][bins])

    def cells(self, counts: np.ndarray, shifts: np.ndarray) -> np.ndarray:
        """Return so many cells of each bin by systematic sampling, bin after bin, in order.

        Parameters
        ----------
        counts : ndarray of shape (n_bins,), int64
        shifts : ndarray of shape (n_bins,)
            In [0, 1).
        """
        upto = points_below(self.upto, counts[self.bins], shifts[self.bins]).astype(np.int64)
        upto += (np.cumsum(counts) - counts)[self.bins]
        return np.repeat(np.arange(len(upto)), np.diff(upto, prepend=0))
