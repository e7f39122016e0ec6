"""Weights on cells as densities on one or two axes."""

from typing import Any

import numpy as np

from skdpsynth.measures import BinaryPartition, Lattice

GRID = 128
_AT_ONCE = 1 << 14  # cells


def cell_corners(partition: Any, cells: np.ndarray, levels: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Return lower and upper corners of cells that are boxes, each of shape (n_cells, n_features); None for cells that are points."""
    partition = getattr(partition, "partition", partition)  # a caller's own is guarded
    if isinstance(partition, Lattice):
        low = partition.box.low + partition.coordinates[cells] * partition.sides
        return low, low + partition.sides
    if not isinstance(partition, BinaryPartition):
        return None
    n_features = partition.box.n_features
    low, high = np.empty((len(cells), n_features)), np.empty((len(cells), n_features))
    for level in np.unique(levels):
        these = np.flatnonzero(levels == level)
        sides = partition.box.width / 2.0 ** partition.cuts(int(level))
        low[these] = partition.box.low + np.column_stack(partition.corners(cells[these], int(level))) * sides
        high[these] = low[these] + sides
    return low, high


def density_steps(low: np.ndarray, high: np.ndarray, weights: np.ndarray, ends: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    """Return (edges, densities between them) on one axis, of intervals that may overlap: those of a marginal do."""
    edges = np.unique(np.concatenate([low, high, ends]))
    density = weights / (high - low)
    rise = np.zeros(len(edges))
    np.add.at(rise, np.searchsorted(edges, low), density)
    np.add.at(rise, np.searchsorted(edges, high), -density)
    return edges, np.cumsum(rise)[:-1]


def probability_steps(low: np.ndarray, high: np.ndarray, weights: np.ndarray, ends: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    """Return (edges, probabilities of the whole numbers between them), as samples have them.

    A cell gives its whole numbers equal parts, and one without any gives all to the nearest of its middle.
    """
    bottom, top = np.ceil(ends[0]), np.floor(ends[1])
    first = np.clip(np.ceil(low), bottom, top)
    stop = np.where(high >= ends[1], top + 1, np.minimum(np.ceil(high), top + 1))
    nearest = np.clip(np.rint((low + high) / 2), bottom, top)
    first, count = np.where(stop > first, first, nearest), np.maximum(stop - first, 1)
    rise = np.zeros(int(top - bottom) + 2)
    np.add.at(rise, (first - bottom).astype(np.int64), weights / count)
    np.add.at(rise, (first + count - bottom).astype(np.int64), -weights / count)
    return np.arange(bottom, top + 2) - 0.5, np.cumsum(rise)[:-1]


def mass_grid(low: np.ndarray, high: np.ndarray, weights: np.ndarray, ends: np.ndarray, size: int = GRID) -> np.ndarray:
    """Return the mass in each cell of an even grid on two axes, shape (size, size): each box gives it by the share of its overlap.

    Parameters
    ----------
    low, high : ndarray of shape (n_cells, 2)
    weights : ndarray of shape (n_cells,)
    ends : ndarray of shape (2, 2)
        Low and high of each axis.
    size : int, default=128
    """
    mass = np.zeros((size, size))
    for start in range(0, len(weights), _AT_ONCE):
        some = slice(start, start + _AT_ONCE)
        across, up = (_overlaps(low[some, axis], high[some, axis], ends[axis], size) for axis in (0, 1))
        mass += (across * weights[some, None]).T @ up
    return mass


def _overlaps(low: np.ndarray, high: np.ndarray, ends: np.ndarray, size: int) -> np.ndarray:
    edges = np.linspace(ends[0], ends[1], size + 1)
    length = np.minimum(high[:, None], edges[1:]) - np.maximum(low[:, None], edges[:-1])
    return np.maximum(length, 0) / (high - low)[:, None]
