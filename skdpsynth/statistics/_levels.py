"""Exact counts of the cells of every level of a binary partition."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpsynth._sensitivity import Query, Sensitivity, count_sensitivity
from skdpsynth.measures import pair_sums
from skdpsynth.statistics._histogram import Histogram


@dataclass(frozen=True, eq=False, repr=False)  # its counts are private: no repr shows them
class LevelCounts:
    """Number of rows in each cell of the levels 0 (all) to ``depth`` (the finest).

    Attributes
    ----------
    levels : tuple of int64 ndarray
        2**j counts at level j.
    """

    levels: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, X: np.ndarray, partition: Any, depth: int) -> "LevelCounts":
        """Count the rows of an array in the cells of level `depth` and above."""
        return cls.above(Histogram.over(partition, partition.depth - depth).of(X))

    @classmethod
    def above(cls, leaves: Histogram) -> "LevelCounts":
        """Sum the counts of the cells of one level up to the root, neighbors along the curve."""
        levels = [leaves.counts]
        while len(levels[-1]) > 1:
            levels.append(pair_sums(levels[-1]))
        return cls(tuple(levels[::-1]))

    @staticmethod
    def sensitivity(relation: str) -> Sensitivity:
        """Return how far one row moves the counts of one level, because it is in one cell of it.

        The root does not move where a row is replaced, so for it this is an upper bound.
        """
        return count_sensitivity(relation)

    def query(self, relation: str, level: int) -> Query:
        """Return the counts of a level, and how far one row moves them."""
        return Query(self.levels[level], self.sensitivity(relation))

    def __add__(self, other: "LevelCounts") -> "LevelCounts":
        return LevelCounts(tuple(a + b for a, b in zip(self.levels, other.levels, strict=True)))
