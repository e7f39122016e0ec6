"""A bound of W1 between rows on a line and a measure made of noisy counts of its cells.

On a line W1 is the area between two distribution functions, and noise that adds up over cells counts by its root of squares, not by the
sum over nodes that transport along a tree needs.

Let H share the rows by unbiased estimates alone, without clipping: a signed measure. Between the rows and H stands noise of known
variance at each boundary of cells; between H and the released measure a distance that is seen; sampling moves less than a row over any
boundary. Within a cell, between boundaries with differences D and D', distribution functions differ by at most max(abs(D), abs(D')) and
the mass of the cell.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from skdpsynth.measures._partition import BinaryPartition, Partition


def is_line(partition: Partition) -> bool:
    return isinstance(partition, BinaryPartition) and partition.box.n_features == 1


class BoundaryNoise(NamedTuple):
    """Second moments of the noise of the rows up to each end of some cells, side by side from left to right."""

    left: np.ndarray
    right: np.ndarray
    product: np.ndarray  # of both ends of a cell

    @classmethod
    def of_tree(cls, errors: Sequence[float]) -> "BoundaryNoise":
        """Return those of estimates by least squares, with the variances `errors` of a count of each level, shared from a known root.

        A node's left child gets half of its mass and half the difference of the estimates of both children, whose noise has no correlation
        with that of any estimate further up.
        """
        left, right, product = np.zeros(1), np.zeros(1), np.zeros(1)
        for error in errors[1:]:
            middle = (left + right + 2 * product + 2 * error) / 4
            left, right = _alternate(left, middle), _alternate(middle, right)
            product = _alternate((left[::2] + product) / 2, (product + right[1::2]) / 2)
        return cls(left, right, product)

    @classmethod
    def of_parts(cls, numbers: np.ndarray, variance: float) -> "BoundaryNoise":
        """Return those of cells that were counted by so many parts each, if the sum of all parts is known."""
        upto = np.cumsum(numbers)
        before, rest = upto - numbers, upto[-1] - upto
        factor = variance / upto[-1]
        return cls(factor * before * (rest + numbers), factor * upto * rest, factor * before * rest)

    def take(self, cells: np.ndarray) -> "BoundaryNoise":
        return BoundaryNoise(*(moments[cells] for moments in self))


def moved_on_a_line(unclipped: np.ndarray, shared: np.ndarray, gaps: np.ndarray, noise: BoundaryNoise, variance: float) -> float:
    """Return a bound on the rows that lie beyond the boundaries of each part, added up over the parts of some cells.

    Parameters
    ----------
    unclipped, shared : ndarray of shape (n_cells, n_parts)
        Rows of each part by H and by the released measure.
    gaps : ndarray of shape (n_cells,)
        By how much the sums of both differ up to the left end of each cell.
    noise : BoundaryNoise
        Of H at the ends of the cells.
    variance : float
        Of the noise of a part, given that of the cells; 0 without parts or noise.
    """
    n_parts = unclipped.shape[1]
    at = np.arange(n_parts + 1) / n_parts
    left, right, product = (moments[:, None] for moments in noise)
    apart = np.sqrt(np.maximum((1 - at) ** 2 * left + at**2 * right + 2 * at * (1 - at) * product, 0))
    apart += np.sqrt(variance * n_parts * at * (1 - at))
    step = np.sqrt(np.maximum(left + right - 2 * product, 0)) / n_parts + np.sqrt(variance * (1 - 1 / n_parts))
    seen = np.abs(gaps[:, None] + np.cumsum(unclipped - shared, axis=1))
    most_seen = np.maximum(seen, np.concatenate([np.abs(gaps)[:, None], seen[:, :-1]], axis=1))
    # The larger of two is at most half their sum and half their difference.
    return float(((apart[:, :-1] + apart[:, 1:] + step) / 2 + most_seen).sum()) + unclipped.size


def _alternate(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.stack([first, second], axis=1).ravel()
