"""Exact counts of the levels of ordinal columns, from which thresholds follow."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from skdpsynth._change import Change, Query
from skdpsynth.statistics._statistic import Statistic


@dataclass(frozen=True, eq=False, repr=False)  # its counts are private: no repr shows them
class Thresholds(Statistic):
    """How many rows have each level of each column, where the number of rows is public.

    Attributes
    ----------
    sizes : tuple of int
        Number of levels of each column.
    counts : ndarray of shape (n_counts,), int64
        Column after column. Of two levels only the first is counted: the other is what remains of the public number of rows.
    """

    sizes: tuple[int, ...]
    counts: np.ndarray

    @classmethod
    def of(cls, codes: Sequence[np.ndarray], sizes: Sequence[int]) -> "Thresholds":
        """Count rows.

        Parameters
        ----------
        codes : list of int arrays of shape (n_samples,)
            A column each, in ``[0, size)``.
        sizes : sequence of int
        """
        parts = [np.bincount(column, minlength=size)[: _kept(size)] for column, size in zip(codes, sizes, strict=True)]
        return cls(tuple(sizes), np.concatenate([np.zeros(0, dtype=np.int64), *parts]).astype(np.int64))

    @staticmethod
    def change(relation: str, sizes: Sequence[int]) -> Change:
        """Return by how much one row moves the counts: a public fact.

        Replacing a row takes 1 from the count of its old level and gives 1 to that of the new one, in each column: two counts change by 1.
        Of two levels one count is there, so one count changes. Every change is 1, so the sum and the sum of squares are both the number
        of counts that change; a row that differs in all columns attains it.

        Raises
        ------
        ValueError
            Under another relation than "replace_one", where the number of rows is not public.
        """
        if relation != "replace_one":
            raise ValueError("Counts of levels need a public number of rows, which neighboring='replace_one' has alone.")
        changed = Fraction(sum(min(2, _kept(size)) for size in sizes))
        return Change(relation, changed, changed, min(Fraction(1), changed))

    def query(self, relation: str) -> Query:
        """Return the counts with their change."""
        return Query(self.counts, self.change(relation, self.sizes))

    def columns(self, values: np.ndarray | None = None) -> list[np.ndarray]:
        """Return the counts, or others in their place, as one array a column."""
        values = self.counts if values is None else values
        return np.split(values, np.cumsum([_kept(size) for size in self.sizes])[:-1]) if self.sizes else []


def _kept(size: int) -> int:
    """How many of the levels of a column are counted."""
    return 1 if size == 2 else size
