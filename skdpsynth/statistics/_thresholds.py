"""Exact counts of the levels of ordinal columns, from which thresholds follow."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from skdpsynth._sensitivity import Query, Sensitivity, statistic_facts
from skdpsynth.statistics._aggregator import Statistic


@dataclass(frozen=True, eq=False, repr=False)  # its counts are private: no repr shows them
class Thresholds(Statistic):
    """How many rows have each level of each column.

    Where the number of rows is public, as under replace-one, of two levels only the first is counted: the other is what remains.
    """

    sizes: tuple[int, ...]  # number of levels of each column
    counts: np.ndarray  # column after column
    relation: str = "replace_one"

    @classmethod
    def of(cls, codes: Sequence[np.ndarray], sizes: Sequence[int], relation: str = "replace_one") -> "Thresholds":
        """Count the rows of columns of codes in ``[0, size)``."""
        parts = [np.bincount(column, minlength=size)[: _n_counted(size, relation)] for column, size in zip(codes, sizes, strict=True)]
        return cls(tuple(sizes), np.concatenate([np.zeros(0, dtype=np.int64), *parts]).astype(np.int64), relation)

    @staticmethod
    def sensitivity(relation: str, sizes: Sequence[int]) -> Sensitivity:
        """Return by how much one row moves the counts: a public fact.

        Replacing a row takes 1 from the count of its old level and gives 1 to that of the new one, in each column: two counts change by 1.
        Of two levels one count is there, so one count changes. A row that is added or removed moves the count of one level of each column,
        whose other counts stay, by 1. Every change is 1, so the sum and the sum of squares are both the number of counts that change; a
        row that differs in all columns attains it, and so does any row that is added.
        """
        changed = Fraction(sum(min(2, _n_counted(size, relation)) if relation == "replace_one" else 1 for size in sizes))
        told = statistic_facts("thresholds", sizes=tuple(sorted(Counter(map(int, sizes)).items())))
        return Sensitivity(relation, changed, changed, min(Fraction(1), changed), statistic=told)

    def query(self, relation: str) -> Query:
        """Return the counts with their change, under the relation that they were counted for."""
        if relation != self.relation:
            raise ValueError(f"relation must be {self.relation!r}, which the levels were counted for, got {relation!r}; count them again.")
        return Query(self.counts, self.sensitivity(relation, self.sizes))

    def columns(self, values: np.ndarray | None = None) -> list[np.ndarray]:
        """Return the counts, or others in their place, as one array a column."""
        values = self.counts if values is None else values
        return np.split(values, np.cumsum([_n_counted(size, self.relation) for size in self.sizes])[:-1]) if self.sizes else []


def _n_counted(size: int, relation: str) -> int:
    """How many of the levels of a column are counted."""
    return 1 if size == 2 and relation == "replace_one" else size
