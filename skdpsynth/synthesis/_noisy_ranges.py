"""Private ranges of rows along the axes of a subspace, from noisy counts over a public grid."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpsynth.fitting import Budget, Facts
from skdpsynth.frames import Rows
from skdpsynth.persistence import savable
from skdpsynth.privacy import Mechanism, mechanism
from skdpsynth.statistics import Marginals, total

_USUAL = 3.0  # noisy deviations that an axis keeps where counts tell nothing
_NARROWEST = 300  # an axis reaches so many times its deviation at most
_STEPS = np.sqrt(2.0) ** np.arange(-5, 2 * math.ceil(math.log2(_NARROWEST)))  # of the grid, in usual half-widths
_FALSE_ALARMS = 0.05  # chance that noise alone widens any axis
_LEAST = 0.01  # of the rows that counting must show to be worth its cost; and that are cut off an end at most
_CUT = 5  # deviations of noise: fewer rows beyond an end are not told from none
_SURE = 2  # deviations by which what is cut off may be larger than it seems

Bounds = tuple[np.ndarray, np.ndarray]


def range_noise(facts: Facts, epsilon: Any) -> Mechanism | None:
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
    """Count the rows in the cells of each axis: a row is in one cell of each."""
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
