"""How many rows have which length."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpsynth.domain import Ball
from skdpsynth.persistence import savable
from skdpsynth.statistics._aggregator import Aggregator
from skdpsynth.statistics._histogram import Histogram


@savable
@dataclass(frozen=True, eq=False)
class CountLengths(Aggregator):
    """Counts rows by their distance from the center of a ball, before they are shrunk.

    Cell j holds those up to the radius j, but beyond the next; a row is in one cell, so the change is that of any histogram.

    Attributes
    ----------
    ball : Ball
    radii : ndarray of shape (n_radii,)
        Squared, falling; the first is no less than the reach of the ball without a radius.
    """

    ball: Ball
    radii: np.ndarray

    def __str__(self) -> str:
        return f"counts of {len(self.radii)} lengths"

    @property
    def n_values(self) -> int:
        """Number of radii."""
        return len(self.radii)

    def zero(self) -> Histogram:
        """Return the counts of no rows."""
        return Histogram.over_cells(len(self.radii)).zero()

    def add(self, statistic: Histogram, chunk: Any, kept: Any = None) -> Histogram:
        """Count the rows of a chunk, in place; the cells of the rows are written to `james_stein_factor`, if there is such an array."""
        counting, rising = Histogram.over_cells(len(self.radii)), self.radii[::-1]
        for rows, q in self.ball.steps(chunk):
            cells = len(rising) - 1 - np.searchsorted(rising, self.ball.squared_lengths(q))
            counting.add(statistic, cells)
            if kept is not None:
                kept[rows] = cells
        return statistic
