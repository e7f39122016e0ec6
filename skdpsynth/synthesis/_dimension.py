"""How many directions are worth their cost, and whether the distance from them is, by what was released: post-processing."""

import math

import numpy as np

from skdpsynth.synthesis._noisy_ranges import axis_scales, default_ranges
from skdpsynth.synthesis._subspace import Subspace

_MEASURE = 0.3  # error of a measure on k axes, in widths of the widest over the k-th root of rows times epsilon
_MARGIN = 2.3  # times by which distances must save more than they cost: measured on thin and on thick data


def n_directions(subspace: Subspace, size: float) -> int:
    """Return how many of the directions give the least expected error: what is left out, and what the measure errs on those that stay.

    Parameters
    ----------
    subspace : Subspace
    size : float
        Rows times epsilon of the measure.
    """
    total, widths = np.trace(subspace.reducer.covariance_), _axis_widths(subspace)
    left = total - np.cumsum(subspace.variances)
    errors = [
        _expected_displacement(rest, subspace.box.n_features) + _expected_measure_error(widths[:k], size)
        for k, rest in enumerate(left, start=1)
    ]
    return int(np.argmin(errors)) + 1


def needs_distance(subspace: Subspace, size: float) -> bool:
    """Whether rows lie so far from the subspace that their distances are worth a further axis of the measure.

    What noise could show of the mean square distance does not count.
    """
    others = subspace.box.n_features - subspace.n_axes
    beside = subspace.beside - subspace.reducer.noise_edge_
    if others <= 0 or beside <= 0:
        return False
    widths = _axis_widths(Subspace(subspace.reducer, subspace.box, has_distance=True))
    dearer = _expected_measure_error(widths, size) - _expected_measure_error(widths[:-1], size)
    return _expected_displacement(beside, subspace.box.n_features) > _MARGIN * dearer


def _axis_widths(subspace: Subspace) -> np.ndarray:
    reach = subspace.reach
    low, high = default_ranges(reach, axis_scales(reach, subspace.variances))
    return high - low


def _expected_displacement(mean_square: float, n_features: int) -> float:
    """Return the largest coordinate, as expected, of a vector of this mean square in random direction: how far rows are moved."""
    return math.sqrt(max(mean_square, 0.0) * 2 * math.log(max(n_features, 2)) / n_features)


def _expected_measure_error(widths: np.ndarray, size: float) -> float:
    """Expected error of a measure on axes of these widths, which are cut equally often: the widest stays the widest."""
    return _MEASURE * float(widths.max()) * max(size, 1.0) ** (-1 / len(widths))
