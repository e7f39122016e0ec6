"""Noisy counts of disjoint rows as counts of all of them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpsynth._state_validation import is_array, require
from skdpsynth.persistence import savable

_EXACT = 1e-30  # variance of a frequency that is exact as far as a float goes
Table = tuple[np.ndarray, float]  # noisy counts, and the variance of each


@savable
@dataclass(frozen=True, eq=False)
class Pool:
    """Noisy counts of one column, from all rows that were counted in these codes."""

    counts: np.ndarray
    variance: float  # of each count
    n_rows: float  # as far as is known

    def _check_loaded(self) -> None:
        require(is_array(self.counts, "if", -1) and len(self.counts) and 0 <= self.variance < math.inf and 0 <= self.n_rows < math.inf)

    def joined(self, other: "Pool | None") -> "Pool":
        """Return the counts of these and of other rows."""
        if other is None:
            return self
        rows = [other.n_rows, self.n_rows]
        return Pool(*pool_tables([(other.counts, other.variance), (self.counts, self.variance)], rows, rows), sum(rows))


def pool_tables(found: Sequence[Table | None], counts: Sequence[float], numbers: Sequence[float]) -> Table:
    """Estimate a table of the union of disjoint parts, and the variance of each count of it.

    The plain sum of the parts' tables is unbiased, but has the noise of all of them, and that of a small part is as large as that of a
    large one. If all parts had one law, the mean of their frequencies with weights of one over their variance would have the least noise:
    little more than that of the largest part alone. Between the two each part is drawn towards this mean as far as its distance from it is
    explained by its noise (James and Stein, positive part): with k counts its error is the least where ``1 - (k - 2) E / D`` of the
    distance is kept, for the squared distance D and noise of mean square E on each count. So parts that differ keep their own values, parts
    that are all noise stand for their number of rows only, and without noise this is the sum.

    A part that was not counted so (None) has the mean of the others. Each part has `counts` rows, and stands for `numbers` of them.
    """
    known = [place for place, entry in enumerate(found) if entry is not None]
    rows, wanted = (np.array([values[place] for place in known], dtype=float) for values in (counts, numbers))
    shares = np.array([entry[0] for entry in found if entry is not None], dtype=float)
    shares /= rows.reshape(-1, *[1] * (shares.ndim - 1))
    variances = np.array([entry[1] for entry in found if entry is not None]) / rows**2
    variances[variances < _EXACT] = 0.0
    others = float(sum(numbers)) - wanted.sum()
    if not variances.all():  # without noise
        mean = np.tensordot(rows / rows.sum(), shares, 1)
        return np.tensordot(wanted, shares, 1) + others * mean, 0.0
    weights = 1 / variances
    weights /= weights.sum()
    mean = np.tensordot(weights, shares, 1)
    kept = _shrinkage_factors(shares - mean, variances - 1 / np.sum(1 / variances))
    factors = wanted * kept + (others + wanted @ (1 - kept)) * weights
    return np.tensordot(factors, shares, 1), float(factors**2 @ variances)


def _shrinkage_factors(distances: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Return how much of its distance from the mean each part keeps; `noise` is the variance of each of its counts by noise alone."""
    if len(distances) == 1:
        return np.ones(1)
    return james_stein_factor((distances.reshape(len(distances), -1) ** 2).sum(axis=1), distances[0].size, noise)


def james_stein_factor(squares: Any, n_counts: float, noise: Any) -> Any:
    """Return how much of their distance from a point `n_counts` counts keep, by the rule of James and Stein (positive part).

    Of a centered table, the counts are those that are free; `noise` is the variance of each.
    """
    # Tables of so few counts that k - 2 would keep all noise are drawn half of the way at least. (Of 3, which is less than the 2 (k - 2)
    # up to which nothing is lost.)
    by_noise = max(n_counts - 2, n_counts / 2) * noise
    return np.maximum(1 - by_noise / np.maximum(squares, 1e-300), 0.0)
