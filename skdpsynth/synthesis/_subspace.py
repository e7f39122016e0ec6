"""Rows, and the public box, in a released subspace."""

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from scipy.special import ndtri

from skdpsynth.domain import Box
from skdpsynth.measures import Lattice
from skdpsynth.synthesis._projection import Bounds, Projection

_ROWS = 1 << 14  # that are lifted at a time
_TINY = 1e-300
_PRODUCTS = 1 << 22  # held at a time
_MOST_NORMALS = 500  # that are tried to show that a cell misses the image of the box
_MOST_COORDINATES = 1 << 24  # of the cubes that are tried: an eighth of a gigabyte
_MOST_SPANNED = 1 << 20  # coordinates of the segments that span the normals: beyond 45 directions fewer normals are tried


@dataclass(frozen=True, eq=False)
class Subspace:
    """Released directions within a public box: what rows become there, and what they come back as.

    Attributes
    ----------
    reducer : PrivatePCA
        Fitted.
    box : Box
    has_distance : bool
        Whether the last axis is the distance of a row from the subspace.
    """

    reducer: Any
    box: Box
    has_distance: bool = False

    @cached_property
    def axes(self) -> np.ndarray:
        """Directions, shape (n_components, n_features)."""
        return self.reducer.components_.astype(float)

    @cached_property
    def mean(self) -> np.ndarray:
        """Where the subspace passes."""
        return self.reducer.mean_.astype(float)

    @property
    def n_axes(self) -> int:
        """Number of coordinates of a row."""
        return len(self.axes) + self.has_distance

    @property
    def longest(self) -> float:
        """No row of the box is farther from the subspace."""
        return float(np.linalg.norm(np.maximum(np.abs(self.box.low - self.mean), np.abs(self.box.high - self.mean))))

    @property
    def reach(self) -> Bounds:
        """Public interval of each axis: what the box reaches."""
        ends = self.axes * (self.box.low - self.mean), self.axes * (self.box.high - self.mean)
        low, high = np.minimum(*ends).sum(axis=1), np.maximum(*ends).sum(axis=1)
        return (np.append(low, 0.0), np.append(high, self.longest)) if self.has_distance else (low, high)

    @property
    def variances(self) -> np.ndarray:
        """Noisy mean square of each axis."""
        along = self.reducer.explained_variance_.astype(float)
        return np.append(along, self.beside) if self.has_distance else along

    @property
    def beside(self) -> float:
        """Noisy mean square of the distance from the subspace."""
        return max(0.0, float(np.trace(self.reducer.covariance_) - self.reducer.explained_variance_.sum()))

    @property
    def project(self) -> Projection:
        """The map to coordinates on the axes: given the released directions, a fixed map of one row."""
        return Projection.of(self.box, self.axes, self.mean, self.reach, self.longest if self.has_distance else None)

    def lift(self, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return rows of the box with these coordinates; at a distance from the subspace they lie in a direction drawn at random."""
        k, X = len(self.axes), rows[:, : len(self.axes)] @ self.axes
        X += self.mean
        if self.has_distance:
            deviations, others = self._beside
            for start in range(0, len(rows), _ROWS):
                block = slice(start, start + _ROWS)
                drawn = ndtri(np.maximum(rng.random((len(X[block]), len(others))), _TINY)) * deviations
                drawn *= rows[block, k:] / np.maximum(np.linalg.norm(drawn, axis=1, keepdims=True), _TINY)
                X[block] += drawn @ others
        return self.box.clip(X)

    @cached_property
    def _beside(self) -> tuple[np.ndarray, np.ndarray]:
        """Relative deviations, and unit vectors, of what is orthogonal to the subspace.

        Eigenvalues that noise alone could show are replaced by their mean, because they differ by noise.
        """
        values, vectors = np.linalg.eigh(self.reducer.covariance_)
        n_others = len(values) - len(self.axes)
        values, vectors = values[:n_others], vectors.T[:n_others]  # eigenvalues rise
        hidden = values <= self.reducer.noise_edge_
        values[hidden] = max(float(np.mean(values, where=hidden)), 0.0) if hidden.any() else 0.0
        largest = float(values.max())
        return np.sqrt(values / largest) if largest > 0 else np.ones(n_others), vectors

    def lattice(self, bounds: Bounds, n_cells: int) -> Lattice:
        """Cut `bounds` into cubes, of which at most `n_cells` meet the image of the box, and keep those.

        The image is a zonotope: the sum of the segments that the sides of the box become. A cube that misses it lies beyond one of its
        facets. With many columns not every facet is tried, which keeps a few cubes more; a row that was clipped into a cube
        that is not kept counts in the nearest that is. Distances from the subspace are not limited by it.
        """
        low, high = (np.asarray(bound, dtype=float) for bound in bounds)
        segments, k = self.axes * (self.box.width / 2), len(self.axes)  # (k, d)
        center = self.axes @ (self.box.midpoint - self.mean)
        normals = _facet_normals(np.hstack([segments, np.eye(k)]))
        reach = np.abs(normals @ segments).sum(axis=1)
        target = Box(low, high)

        def cubes(side: float) -> tuple[Lattice, np.ndarray]:
            lattice = Lattice(target, np.maximum(np.rint((high - low) / side), 1).astype(int).tolist())
            limits = (reach + np.abs(normals) @ (lattice.sides[:k] / 2)) * (1 + 1e-9)
            rows = max(1, _PRODUCTS // len(normals))
            parts = np.array_split(lattice.positions[:, :k] - center, -(-lattice.n_cells // rows))
            return lattice, np.concatenate([(np.abs(part @ normals.T) <= limits).all(axis=1) for part in parts])

        # The finest of a geometric row of sides that stays within n_cells: cubes of the whole box cannot be fewer than those that are kept.
        widest = float((high - low).max())
        best = cubes(widest)
        side = widest * (float(np.prod((high - low) / widest)) / n_cells) ** (1 / len(low)) * 1.3
        for _ in range(30):
            parts = np.maximum(np.rint((high - low) / side), 1)
            if parts.prod() > min(16 * n_cells, _MOST_COORDINATES // len(low)):
                break
            lattice, keep = cubes(side)
            if keep.sum() > n_cells:
                break
            best = lattice, keep
            side /= 1.03
        lattice, keep = best
        return Lattice(target, lattice.shape, keep=keep)


def _facet_normals(segments: np.ndarray) -> np.ndarray:
    """Unit normals of hyperplanes that are spanned by segments, shape (n_normals, k): the facets of their sum, or some of them."""
    k, n = segments.shape
    if k == 1:
        return np.ones((1, 1))
    most = max(1, min(_MOST_NORMALS, _MOST_SPANNED // k**2))
    if math.comb(n, k - 1) <= most:
        chosen = np.array(list(combinations(range(n), k - 1)))
    else:
        rng = np.random.default_rng(0)  # public: any subset is right
        chosen = np.array([rng.choice(n, k - 1, replace=False) for _ in range(most)])
    return np.linalg.svd(segments.T[chosen])[2][:, -1]
