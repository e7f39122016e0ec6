"""Rows, and the public box, in a released subspace."""

import math
from itertools import combinations
from typing import Any

import numpy as np

from skdpsynth.domain import Box
from skdpsynth.measures import Lattice

_SPREAD = 3.0  # noisy standard deviations that an axis keeps on either side
_FIXED_POINT = 2.0**20  # directions are rounded to this many parts before rows are projected
_PRODUCTS = 1 << 22  # held at a time
_MOST_NORMALS = 500  # that are tried to show that a cell misses the image of the box
_MOST_COORDINATES = 1 << 24  # of the cubes that are tried: an eighth of a gigabyte
_MOST_SPANNED = 1 << 20  # coordinates of the segments that span the normals: beyond 45 directions fewer normals are tried

Bounds = tuple[np.ndarray, np.ndarray]


def image(reducer: Any, box: Box) -> Bounds:
    """Public interval of each direction: what the box reaches, within 3 noisy standard deviations of the centre."""
    V, mean = reducer.components_, reducer.mean_
    ends = V * (box.low - mean), V * (box.high - mean)
    low, high = np.minimum(*ends).sum(axis=1), np.maximum(*ends).sum(axis=1)
    # A direction without noisy variance keeps a hundredth of its length, so that the interval is never empty.
    reach = np.maximum(_SPREAD * np.sqrt(reducer.explained_variance_), (high - low) / 100)
    return np.maximum(low, -reach), np.minimum(high, reach)


def project(X: np.ndarray, reducer: Any, box: Box, bounds: Bounds) -> np.ndarray:
    """Coordinates of each clipped row, computed in whole numbers, then clipped to `bounds`.

    Given the released directions this is a fixed map of one row: integers make it independent of how BLAS groups the rows.
    """
    V = reducer.components_ * (box.step / 2)  # per unit of y = 2 q - K
    unit = np.abs(V).max() / _FIXED_POINT
    whole = np.rint(V / unit).T  # |entries| <= 2**20, |y| < 2**16: sums over features stay below 2**53
    shift = reducer.components_ @ (box.midpoint - reducer.mean_)
    low, high = bounds
    K = 2**box.bits - 1
    T = np.empty((len(X), len(whole.T)))
    for rows, q in box.chunks(X):
        q *= 2
        q -= K
        T[rows] = q @ whole
        T[rows] *= unit
        T[rows] += shift
    return np.clip(T, low, high, out=T)


def lattice_of_image(reducer: Any, box: Box, bounds: Bounds, n_cells: int) -> Lattice:
    """Cut `bounds` into cubes, of which at most `n_cells` meet the image of the box, and keep those.

    The image is a zonotope: the sum of the segments that the sides of the box become. A cube that misses it lies beyond one of its
    facets. With many columns not every facet is tried, which keeps a few cubes more; a row that was clipped into a cube
    that is not kept counts in the nearest that is.
    """
    low, high = (np.asarray(bound, dtype=float) for bound in bounds)
    segments = reducer.components_ * (box.width / 2)  # (k, d)
    centre = reducer.components_ @ (box.midpoint - reducer.mean_)
    normals = _normals(np.hstack([segments, np.eye(len(segments))]))
    reach = np.abs(normals @ segments).sum(axis=1)
    target = Box(low, high)

    def cubes(side: float) -> tuple[Lattice, np.ndarray]:
        lattice = Lattice(target, np.maximum(np.rint((high - low) / side), 1).astype(int).tolist())
        limits = (reach + np.abs(normals) @ (lattice.sides / 2)) * (1 + 1e-9)
        rows = max(1, _PRODUCTS // len(normals))
        parts = np.array_split(lattice.positions - centre, -(-lattice.n_cells // rows))
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


def _normals(segments: np.ndarray) -> np.ndarray:
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
