"""Exact counts of levels that nobody has listed."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from skdpsynth._sensitivity import Sensitivity, count_sensitivity
from skdpsynth.statistics._aggregator import Aggregator


@dataclass(frozen=True, eq=False, repr=False)  # its counts are private, and so are its levels: no repr shows them
class Occurrences:
    """How many rows have each level that occurs, in some columns. Even which levels there are is private."""

    tables: tuple[Counter, ...]  # of each column. What is missing is in none

    @staticmethod
    def over(columns: Sequence[int]) -> "CountLevels":
        """Return the rule that counts the levels of some columns."""
        return CountLevels(tuple(columns))

    @staticmethod
    def sensitivity(relation: str, n_columns: int) -> Sensitivity:
        """Return by how much one row moves the counts, of levels that do not occur (0) among them: a public fact.

        A row has one level in each column, or none where it is missing: what `count_sensitivity` says of tables holds. The
        sensitivity alone does not tell what showing levels costs, because a level that occurs in one of two neighbors only can be shown
        of one only; see `skdpsynth.privacy.discovery`.
        """
        return count_sensitivity(relation, n_columns)

    def __add__(self, other: "Occurrences") -> "Occurrences":
        return Occurrences(tuple(a + b for a, b in zip(self.tables, other.tables, strict=True)))


@dataclass(frozen=True)
class CountLevels(Aggregator):
    """Counts the levels of some columns. Its memory grows with the number of different levels."""

    columns: tuple[int, ...]  # where they stand in a chunk: arrays of objects, strings or whole numbers, None where a cell is missing

    def zero(self) -> Occurrences:
        return Occurrences(tuple(Counter() for _ in self.columns))

    def add(self, statistic: Occurrences, chunk: Sequence[np.ndarray]) -> Occurrences:
        """Count the rows of a chunk, in place."""
        for counts, column in zip(statistic.tables, self.columns, strict=True):
            counts.update(chunk[column].tolist())
            counts.pop(None, None)
        return statistic
