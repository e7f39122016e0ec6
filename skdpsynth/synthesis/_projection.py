"""What rows become in a subspace."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpsynth.domain import Box
from skdpsynth.persistence import savable

_FIXED_POINT = 2.0**20  # directions are rounded to this many parts before rows are projected
_FINEST = 2.0**26  # lengths are measured in so many parts of the longest: their squares add up to less than 2**53
_NARROWEST, _WIDEST = 1e-30, 1e30

Bounds = tuple[np.ndarray, np.ndarray]


@savable
@dataclass(frozen=True, eq=False)
class Projection:
    """Coordinates of rows on released axes: a fixed map of one row.

    All that machines could round in ways of their own is in its attributes, so a row goes to the same place on each of them.

    Attributes
    ----------
    box : Box
        Public bounds, to which rows are clipped.
    directions : ndarray of shape (n_features, n_components)
        Whole numbers of at most 2**20, for each step y = 2 q - K on the grid of the box.
    unit : float
        What 1 stands for in a sum of these.
    shift : ndarray of shape (n_components,)
        Coordinates of the midpoint of the box.
    reach : (low, high)
        Ends of each axis, to which coordinates are clipped.
    center : ndarray of shape (n_features,)
        The midpoint of the box about the subspace.
    longest : float or None
        No row is farther from the point about which the axes turn. None: the distance from the subspace is no axis.
    """

    box: Box
    directions: np.ndarray
    unit: float
    shift: np.ndarray
    reach: Bounds
    center: np.ndarray
    longest: float | None

    @classmethod
    def of(cls, box: Box, axes: np.ndarray, mean: np.ndarray, reach: Bounds, longest: float | None) -> "Projection":
        """Return the map for axes through a point.

        Parameters
        ----------
        box : Box
        axes : ndarray of shape (n_components, n_features)
        mean : ndarray of shape (n_features,)
        reach : (low, high)
        longest : float or None
        """
        V = axes * (box.step / 2)  # per unit of y
        unit = float(np.abs(V).max() / _FIXED_POINT)
        center = box.midpoint - mean
        return cls(box, np.rint(V / unit).T, unit, axes @ center, reach, center, longest)

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Return the coordinates of each clipped row, within their reach.

        Sums of whole numbers make them independent of how rows are grouped: |directions| <= 2**20 and |y| < 2**16, so sums over features
        stay below 2**53.
        """
        box, k = self.box, len(self.shift)
        K = 2**box.bits - 1
        T = np.empty((len(X), len(self.reach[0])), dtype=self._dtype)
        for rows, q in box.chunks(X):
            q *= 2
            q -= K
            along = (q @ self.directions) * self.unit + self.shift
            T[rows, :k] = along
            if self.longest is not None:
                T[rows, k] = self._distances(q, along)
        return np.clip(T, *self.reach, out=T)

    @property
    def _dtype(self) -> Any:
        """Floats of 32 bits, which tell apart more than any cells do, and take half of the memory; unless they cannot hold the reach."""
        low, high = self.reach
        width = high - low
        return np.float32 if width.min() > _NARROWEST and width.max() < _WIDEST else np.float64

    def _distances(self, y: np.ndarray, along: np.ndarray) -> np.ndarray:
        """Distances from the subspace, by Pythagoras; `y` is overwritten."""
        assert self.longest is not None
        unit = self.longest / _FINEST
        y *= self.box.step / 2
        y += self.center
        y /= unit
        squares = np.square(np.rint(y, out=y), out=y).sum(axis=1) * unit**2
        for t in along.T:
            squares -= t * t
        return np.sqrt(np.maximum(squares, 0))
