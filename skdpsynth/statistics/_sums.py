"""Exact sums of rows."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from skdpsynth._change import Change, Query
from skdpsynth.domain import Ball
from skdpsynth.persistence import savable
from skdpsynth.statistics._aggregator import Aggregator
from skdpsynth.statistics._histogram import Histogram
from skdpsynth.statistics._statistic import Statistic


@dataclass(frozen=True, eq=False, repr=False)  # private: no repr shows it
class Sums(Statistic):
    """Sum of rows of whole numbers, however long they are, and how many have which length.

    Attributes
    ----------
    total : ndarray of shape (n_features,), int64
    lengths : Histogram
        Of the squared lengths of the rows, exact, which come with the same reading of them: those up to each radius, but beyond the next.
    """

    total: np.ndarray
    lengths: Histogram

    _summed: ClassVar[tuple[str, ...]] = ("total", "lengths")

    @classmethod
    def of(cls, X: Any, ball: Ball, radii: Any = ()) -> "Sums":
        """Sum over the rows of an array about the centre of a ball."""
        return cls.over(ball, np.asarray(radii, dtype=float)).of(X)

    @staticmethod
    def over(ball: Ball, radii: np.ndarray) -> "SumRows":
        """Return the rule that sums rows about the centre of a ball, and counts their lengths between squared radii, which fall."""
        return SumRows(ball, radii)

    @staticmethod
    def change(relation: str, ball: Ball) -> Change:
        """Return how far one row moves the sum.

        A row w adds at most ``largest`` to each coordinate. Replaced, it moves coordinate i within the bounds: by 2 (most - least) at most,
        wherever the centre. Both are attained at corners, all coordinates together.
        """
        sides = [2 * int(side) for side in ball.most - ball.least] if relation == "replace_one" else [int(side) for side in ball.largest]
        return Change(relation, sum(sides), sum(side**2 for side in sides), max(sides))

    def query(self, relation: str, ball: Ball) -> Query:
        """Return the sum, and how far one row moves it."""
        return Query(self.total, self.change(relation, ball))


@savable
@dataclass(frozen=True, eq=False)
class SumRows(Aggregator):
    """Sums rows about the centre of a ball, and counts their lengths.

    Attributes
    ----------
    ball : Ball
    radii : ndarray of shape (n_radii,)
        Squared, falling; may be none.
    """

    ball: Ball
    radii: np.ndarray

    def __str__(self) -> str:
        return f"sums of {self.ball.box.n_features} columns, and counts of {len(self.radii)} lengths"

    @property
    def n_values(self) -> int:
        """Sums, and lengths that are counted."""
        return self.ball.box.n_features + len(self.radii)

    def zero(self) -> Sums:
        """Return the sum of no rows."""
        return Sums(np.zeros(self.ball.box.n_features, dtype=np.int64), Histogram(np.zeros(len(self.radii), dtype=np.int64)))

    def add(self, statistic: Sums, chunk: Any) -> Sums:
        """Add the rows of a chunk."""
        total, lengths = self.ball.surveyed(chunk)
        if not len(self.radii):
            return Sums(statistic.total + total.astype(np.int64), statistic.lengths)
        cells = len(self.radii) - 1 - np.searchsorted(self.radii[::-1], lengths)
        return Sums(statistic.total + total.astype(np.int64), Histogram.over_cells(len(self.radii)).add(statistic.lengths, cells))
