"""Rows, and the public box, in a released subspace, and noisy ranges of its axes."""

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.special import ndtri

from skdpsynth._parallel import cached_property
from skdpsynth.decomposition import PrivatePCA
from skdpsynth.domain import Box
from skdpsynth.fitting import Budget, Facts
from skdpsynth.frames import Rows
from skdpsynth.measures import Lattice
from skdpsynth.persistence import savable
from skdpsynth.privacy import Amount, Mechanism, mechanism
from skdpsynth.statistics import Marginals, total

_USUAL = 3.0  # noisy deviations that an axis keeps where counts tell nothing
_NARROWEST = 300  # an axis reaches so many times its deviation at most
_STEPS = np.sqrt(2.0) ** np.arange(-5, 2 * math.ceil(math.log2(_NARROWEST)))  # of the grid, in usual half-widths
_FALSE_ALARMS = 0.05  # chance that noise alone widens any axis
_LEAST = 0.01  # of the rows that counting must show to be worth its cost; and that are cut off an end at most
_CUT = 5  # deviations of noise: fewer rows beyond an end are not told from none
_SURE = 2  # deviations by which what is cut off may be larger than it seems

_ROWS = 1 << 14  # that are lifted at a time
_TINY = 1e-300
_PRODUCTS = 1 << 22  # held at a time
_MOST_NORMALS = 500  # that are tried to show that a cell misses the image of the box
_MOST_COORDINATES = 1 << 24  # of the cubes that are tried: an eighth of a gigabyte
_MOST_SPANNED = 1 << 20  # coordinates of the segments that span the normals: beyond 45 directions fewer normals are tried
_FIXED_POINT = 2.0**20  # directions are rounded to this many parts before rows are projected
_FINEST = 2.0**26  # lengths are measured in so many parts of the longest: their squares add up to less than 2**53
_LEAST_WIDTH, _MOST_WIDTH = 1e-30, 1e30

Bounds = tuple[np.ndarray, np.ndarray]


@savable
@dataclass(frozen=True, eq=False)
class Projection:
    """Coordinates of rows on released axes: a fixed map of one row.

    All values that machines could round differently are in its attributes, so a row goes to the same place on each of them.
    """

    box: Box  # public bounds, to which rows are clipped
    directions: np.ndarray  # (d, k), whole numbers of at most 2**20, for each step y = 2 q - K on the grid of the box
    unit: float  # the length of 1 in a sum of these
    shift: np.ndarray  # (k,), coordinates of the midpoint of the box
    reach: Bounds  # ends of each axis, to which coordinates are clipped
    center: np.ndarray  # (d,), the midpoint of the box about the subspace
    longest: float | None  # no row is farther from the point about which the axes turn; None: the distance from the subspace is no axis

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Return the coordinates of each clipped row, within their reach.

        Sums of whole numbers make them independent of how rows are grouped: |directions| <= 2**20 and |y| < 2**16, so sums over features
        stay below 2**53.
        """
        box, k, width = self.box, len(self.shift), self.reach[1] - self.reach[0]
        K = 2**box.bits - 1
        # 32-bit floats resolve more than any cells do in half of the memory; unless they cannot hold the reach.
        dtype = np.float32 if width.min() > _LEAST_WIDTH and width.max() < _MOST_WIDTH else np.float64
        T = np.empty((len(X), len(width)), dtype=dtype)
        for rows, q in box.chunks(X):
            q *= 2
            q -= K
            along = (q @ self.directions) * self.unit + self.shift
            T[rows, :k] = along
            if self.longest is not None:  # the distance, by Pythagoras
                unit = self.longest / _FINEST
                q *= box.step / 2
                q += self.center
                q /= unit
                squares = np.square(np.rint(q, out=q), out=q).sum(axis=1) * unit**2
                for t in along.T:
                    squares -= t * t
                T[rows, k] = np.sqrt(np.maximum(squares, 0))
        return np.clip(T, *self.reach, out=T)


class Subspace:
    """Released directions of a fitted `PrivatePCA` within a public box; the last axis may be the distance of a row from them."""

    def __init__(self, reducer: PrivatePCA, box: Box, has_distance: bool = False) -> None:
        self.reducer, self.box, self.has_distance = reducer, box, has_distance
        self.axes, self.mean = reducer.components_.astype(float), reducer.mean_.astype(float)
        self.n_axes = len(self.axes) + has_distance
        # The largest distance of a row of the box from the mean, and the image of the box on each axis.
        self.longest = float(np.linalg.norm(np.maximum(np.abs(box.low - self.mean), np.abs(box.high - self.mean))))
        ends = self.axes * (box.low - self.mean), self.axes * (box.high - self.mean)
        low, high = np.minimum(*ends).sum(axis=1), np.maximum(*ends).sum(axis=1)
        self.reach: Bounds = (np.append(low, 0.0), np.append(high, self.longest)) if has_distance else (low, high)
        # Noisy mean squares of the distance from the subspace, and of each axis.
        self.beside = max(0.0, float(np.trace(reducer.covariance_) - reducer.explained_variance_.sum()))
        along = reducer.explained_variance_.astype(float)
        self.variances = np.append(along, self.beside) if has_distance else along

    @property
    def project(self) -> Projection:
        V = self.axes * (self.box.step / 2)  # per unit of y
        unit = float(np.abs(V).max() / _FIXED_POINT)
        center, longest = self.box.midpoint - self.mean, self.longest if self.has_distance else None
        return Projection(self.box, np.rint(V / unit).T, unit, self.axes @ center, self.reach, center, longest)

    def lift(self, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return rows of the box with these coordinates; at a distance from the subspace they lie in a direction drawn at random."""
        k, X = len(self.axes), rows[:, : len(self.axes)] @ self.axes
        X += self.mean  # the private mean vector
        if self.has_distance:
            deviations, others = self._beside
            for start in range(0, len(rows), _ROWS):
                block = slice(start, start + _ROWS)
                drawn = ndtri(np.maximum(rng.random((len(X[block]), len(others))), _TINY)) * deviations
                drawn *= rows[block, k:] / np.maximum(np.linalg.norm(drawn, axis=1, keepdims=True), _TINY)
                X[block] += drawn @ others
        return self.box.clip(X)  # metric projection

    @cached_property
    def _beside(self) -> tuple[np.ndarray, np.ndarray]:
        """Relative deviations, and unit vectors, of the directions orthogonal to the subspace.

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

        The image is a zonotope: the sum of the images of the sides of the box. A cube that misses it lies beyond one of its facets. With
        many columns not every facet is tried, which keeps a few cubes more; a row that was clipped into a cube that is not kept counts in
        the nearest one. Distances from the subspace are not limited by it.
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
    """Return unit normals (n_normals, k) of hyperplanes spanned by segments: all facets of their sum, or some of them."""
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


def range_noise(facts: Facts, epsilon: Amount) -> Mechanism | None:
    """Return the noise for the counts of all axes at a cost of `epsilon`; None if they could not show a hundredth of the rows."""
    noise = mechanism(Marginals.sensitivity(facts.neighboring, facts.n_features), facts.pure(epsilon), ("laplace",))
    return noise if noise.deviation < _LEAST * (facts.n_samples or 1) else None


def axis_scales(reach: Bounds, variances: np.ndarray) -> np.ndarray:
    """Return the deviation of each axis: the noisy one, or a small part of the reach, so that no interval is empty."""
    low, high = reach
    return np.maximum(np.sqrt(variances.astype(float)), (high - low) / _NARROWEST)


def default_ranges(reach: Bounds, scales: np.ndarray) -> Bounds:
    """Return the interval of each axis where counts show nothing: three deviations on either side, within the reach."""
    low, high = reach
    middle = np.clip(0.0, low, high)
    return np.maximum(low, middle - _USUAL * scales), np.minimum(high, middle + _USUAL * scales)


def release_ranges(rows: Rows, reach: Bounds, scales: np.ndarray, noise: Mechanism, budget: Budget, n_samples: int) -> Bounds:
    """Release the counts of a grid along each axis, and return the interval of each in which rows show.

    The `reach` that limits the rows is public, or released; `n_samples` is public, or noisy.
    """
    grids = [range_edges(*ends) for ends in zip(*reach, scales, strict=True)]
    counts = count_axis_cells(rows, grids)
    noisy = counts.tables(budget.answer(counts.query(budget.relation), noise, "ranges"))
    usual = default_ranges(reach, scales)
    n_beyond = sum(len(edges) - 1 - np.sum((edges[1:] > low) & (edges[:-1] < high)) for edges, low, high in zip(grids, *usual, strict=True))
    # Laplace noise is above t deviations with probability exp(-sqrt(2) t) / 2.
    alarm = noise.deviation * math.log(max(n_beyond / _FALSE_ALARMS, 2) / 2) / math.sqrt(2)
    limits = [
        choose_interval(*axis, alarm, noise.deviation, n_samples) for axis in zip(noisy, grids, zip(*usual, strict=True), strict=True)
    ]
    low, high = np.array(limits).T
    return low, high


def range_edges(low: float, high: float, scale: float) -> np.ndarray:
    """Return edges from `low` to `high`: the point nearest to 0, and three deviations times powers of sqrt(2) on either side."""
    steps, middle = _USUAL * scale * _STEPS, np.clip(0.0, low, high)
    inner = np.concatenate([middle - steps[::-1], [middle], middle + steps])
    return np.concatenate([[low], inner[(inner > low) & (inner < high)], [high]])


@savable
@dataclass(frozen=True, eq=False)
class _AxisCells:
    """A map of rows to the numbers of their cells, axis by axis."""

    grids: tuple[np.ndarray, ...]

    def __call__(self, chunk: np.ndarray) -> list[np.ndarray]:
        return [np.searchsorted(edges[1:-1], t, side="right") for edges, t in zip(self.grids, chunk.T, strict=True)]


def count_axis_cells(rows: Rows, grids: list[np.ndarray]) -> Marginals:
    sizes, tables = [len(edges) - 1 for edges in grids], [(axis,) for axis in range(len(grids))]
    return total(rows.map(_AxisCells(tuple(grids))), Marginals.over(sizes, tables))


def choose_interval(
    counts: np.ndarray, edges: np.ndarray, usual: tuple[float, float], alarm: float, deviation: float, n_samples: int
) -> tuple[float, float]:
    """Choose the interval of an axis from noisy counts: post-processing.

    The usual one, between two edges, grows to the last cells whose counts exceed `alarm`, the largest that noise makes, and shrinks past
    cells that surely hold few rows. Clipping is costly (a row moves by its distance), room to spare is cheap (cells are refined where rows
    are); so in doubt it stays.
    """
    seen = np.flatnonzero(counts > alarm)
    start, stop = np.searchsorted(edges, usual)
    if len(seen):
        start, stop = min(start, seen[0]), max(stop, seen[-1] + 1)
    allowed = min(_CUT * deviation, _LEAST * n_samples)
    doubt = _SURE * deviation * np.sqrt(1 + np.arange(stop - start))
    inside = counts[start:stop]
    cut = [int(np.argmin(np.append(np.cumsum(side) + doubt <= allowed, False))) for side in (inside, inside[::-1])]
    if sum(cut) >= len(inside):
        return usual
    return float(edges[start + cut[0]]), float(edges[stop - cut[1]])
