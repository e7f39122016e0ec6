"""Probability measures on the cells of a partition, and samples of them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpsynth.measures._placement import numbered_points
from skdpsynth.persistence import savable


@savable
@dataclass(frozen=True, eq=False, repr=False)
class DiscreteMeasure:
    """Weights on disjoint cells of a partition, which may lie on several levels.

    Cells are listed by level, and those of one level along the curve.

    Attributes
    ----------
    partition : object with the partition protocol
    cells : ndarray of shape (n_cells,), int64
        Cell numbers, each within its level.
    levels : ndarray of shape (n_cells,), int8
    weights : ndarray of shape (n_cells,)
        Probabilities; they sum to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsynth.domain import Box
    >>> from skdpsynth.measures import BinaryPartition, DiscreteMeasure
    >>> partition = BinaryPartition(Box([0], [1]), depth=2)
    >>> measure = DiscreteMeasure.from_mass(partition, np.array([0, 3]), np.array([2, 2]), np.array([30.0, 10.0]))
    >>> measure.weights
    array([0.75, 0.25])
    >>> measure.sample(8, np.random.default_rng(0)).shape
    (8, 1)
    """

    partition: Any
    cells: np.ndarray
    levels: np.ndarray
    weights: np.ndarray

    def __repr__(self) -> str:
        return (
            f"DiscreteMeasure(partition={type(self.partition).__name__}, n_cells={self.n_cells}, depth={int(self.levels.max(initial=0))})"
        )

    @classmethod
    def from_mass(cls, partition: Any, cells: Any, levels: Any, mass: Any) -> "DiscreteMeasure":
        """Normalise non-negative mass to a probability measure (no mass at all: uniform on the whole space).

        Parameters
        ----------
        partition : object with the partition protocol
        cells, levels : array-like of shape (n_cells,), int
            Disjoint cells, in the order of the class.
        mass : array-like of shape (n_cells,)
        """
        mass = np.asarray(mass, dtype=float)
        keep = np.flatnonzero(mass > 0)
        if not len(keep):
            return cls(partition, np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int8), np.ones(1))
        cells, levels, mass = np.asarray(cells)[keep], np.asarray(levels)[keep], mass[keep]
        return cls(partition, cells.astype(np.int64, copy=False), levels.astype(np.int8, copy=False), mass / mass.sum())

    @property
    def n_cells(self) -> int:
        """Number of cells that have weight."""
        return len(self.cells)

    def counts(self, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        """Round the weights to whole points, `n_samples` in all, by systematic sampling along the curve.

        Every run of cells along the curve, so every ancestor too, gets its weight times `n_samples` up to less than one point.
        """
        depth = int(self.levels.max(initial=0))
        order = np.argsort(self.cells << (depth - self.levels.astype(np.int64)), kind="stable")
        edges = np.cumsum(self.weights[order])
        edges *= n_samples / edges[-1]
        edges -= rng.random()
        # Points sit at the whole numbers 0, ..., n_samples - 1 after a common random shift.
        upto = np.clip(np.floor(edges).astype(np.int64) + 1, 0, n_samples)
        upto[-1] = n_samples
        counts = np.empty(len(upto), dtype=np.int64)
        counts[order] = np.diff(upto, prepend=0)
        return counts

    def sample(self, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        """Draw exactly `n_samples` rows, in random order.

        Parameters
        ----------
        n_samples : int
        rng : numpy.random.Generator
            Public randomness: sampling a released measure costs no privacy.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
        """
        counts = self.counts(n_samples, rng)
        if hasattr(self.partition, "place"):
            some = np.flatnonzero(counts)
            points = numbered_points(counts[some])
            rng.shuffle(points)
            return self.partition.place(self.cells[some], self.levels[some], points, rng)
        blocks = []
        for level in np.unique(self.levels[counts > 0]).tolist():
            here = self.levels == level
            blocks.append(self.partition.sample(np.repeat(self.cells[here], counts[here]), level, rng))
        return np.take(np.concatenate(blocks), rng.permutation(n_samples), axis=0)
