"""Exact counts of the cells of a partition."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpsynth._sensitivity import Query, Sensitivity, count_sensitivity, statistic_facts
from skdpsynth._validation import as_numeric_array, check_integer, short_repr
from skdpsynth.domain import Ball
from skdpsynth.frames import Chunk, Packed
from skdpsynth.measures import Lattice, Partition, pair_sums
from skdpsynth.persistence import savable
from skdpsynth.statistics._aggregator import Aggregator, Statistic

_ROWS = 1 << 17  # rows at a time
_MANY_CELLS = 1 << 20  # whose counts are made by sorting cell numbers while rows are few
_CELLS_A_ROW = 8  # or more: rows are few


@dataclass(frozen=True, eq=False, repr=False)  # its counts are private: no repr shows them
class Histogram(Statistic):
    """Number of rows in each cell.

    Attributes
    ----------
    counts : ndarray of shape (n_cells,), int64

    See Also
    --------
    Marginals : Counts of tables over columns.
    Moments : Sums of rows and their products.
    skdpsynth.statistics.total : Adds up all rows.
    """

    counts: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, partition: Partition | Lattice) -> "Histogram":
        """Count the rows of an array in the leaves of a binary partition, or the cells of a plain one."""
        rule = cls.over(partition)
        return rule.of(as_numeric_array(X, "X", 2))

    @staticmethod
    def over(partition: Any, shift: int = 0) -> "CountCells":
        """Return the rule that counts rows in the cells of a partition, or in their ancestors `shift` levels up."""
        if not callable(getattr(partition, "locate", None)) or not (hasattr(partition, "depth") or hasattr(partition, "n_cells")):
            raise TypeError(
                f"partition must have the partition protocol, got {short_repr(partition)}; BinaryPartition and Lattice have it."
            )
        check_integer("shift", shift, 0, getattr(partition, "depth", 0))
        n_cells = 1 << partition.depth if hasattr(partition, "depth") else partition.n_cells
        return CountCells(n_cells >> shift, shift, partition)

    @staticmethod
    def over_cells(n_cells: int, shift: int = 0) -> "CountCells":
        """Return the rule that counts cell numbers, or those of their ancestors `shift` levels up, of which there are `n_cells`."""
        return CountCells(check_integer("n_cells", n_cells, 1), check_integer("shift", shift, 0, 62))

    @staticmethod
    def over_refined(coarse_shift: int, refinement: np.ndarray) -> "CountCells":
        """Return the rule that counts the cells of an irregular partition: coarse cell c is split into ``2**refinement[c]`` parts.

        Parameters
        ----------
        coarse_shift : int
            ``cells >> coarse_shift`` are the coarse cells; at least ``refinement.max()``.
        refinement : ndarray of shape (n_coarse,), int

        Returns
        -------
        rule : CountCells
            It counts the parts of the coarse cells of refinement 0 first, then of refinement 1, ...; in each group by coarse cell, then
            along the curve.
        """
        coarse_shift = check_integer("coarse_shift", coarse_shift, 0, 62)
        refinement = as_numeric_array(refinement, "refinement", whole=True)
        sizes = np.int64(1) << refinement
        order = np.argsort(refinement, kind="stable")
        first = np.empty_like(sizes)
        first[order] = np.cumsum(sizes[order]) - sizes[order]
        offset = first - (np.arange(len(sizes)) << refinement)  # part number = offset + (leaf >> shift)
        return CountCells(int(sizes.sum()), coarse_shift - refinement, None, coarse_shift, offset)

    @staticmethod
    def sensitivity(relation: str) -> Sensitivity:
        """Return how far one row moves the counts, because it is in one cell.

        Replacing it takes 1 from a cell and gives 1 to another; adding or removing it changes one count by 1.
        """
        return count_sensitivity(relation)

    def query(self, relation: str) -> Query:
        """Return the counts with their sensitivity."""
        return Query(self.counts, self.sensitivity(relation))

    @staticmethod
    def sensitivity_of_first(relation: str) -> Sensitivity:
        """Return how far one row moves the count of the first cell alone: by 1, in or out, under both relations."""
        return Sensitivity(relation, 1, 1, 1, statistic=statistic_facts("first_cell"))

    def query_of_first(self, relation: str) -> Query:
        """Return the count of the first cell: of two cells it tells both, where the number of rows is public."""
        return Query(self.counts[:1], self.sensitivity_of_first(relation))

    def levels(self) -> list["Histogram"]:
        """Return the histograms of the levels 0, 1, ... of a tree, from that of its finest cells.

        A row is in one cell of each level. The root does not move where a row is replaced, so for it the sensitivity is an upper bound.
        """
        levels = [self.counts]
        while len(levels[-1]) > 1:
            levels.append(pair_sums(levels[-1]))
        return [Histogram(counts) for counts in reversed(levels)]


@savable
@dataclass(frozen=True, eq=False)
class CountCells(Aggregator):
    """Counts the cells of a partition that hold the rows, or rows that are cell numbers already, some at a time that stay in the cache.

    Leaf c is counted in its ancestor ``c >> shift``; or, where coarse cells are split unevenly, in part ``offset[k] + (c >> shift[k])`` of
    its coarse cell ``k = c >> coarse_shift``.
    """

    n_cells: int
    shift: Any = 0
    partition: Any = None
    coarse_shift: int = 0
    offset: Any = None

    def __str__(self) -> str:
        return f"counts of {self.n_cells} cells"

    @property
    def n_values(self) -> int:
        return self.n_cells

    def zero(self) -> Histogram:
        return Histogram(np.zeros(self.n_cells, dtype=np.int64))

    def add(self, statistic: Histogram, chunk: np.ndarray) -> Histogram:
        """Count the rows of a chunk, in place."""
        for start in range(0, len(chunk), _ROWS):
            np.add.at(statistic.counts, self.cells_of(chunk[start : start + _ROWS]), 1)
        return statistic

    def pack_sums(self, chunks: Iterable[np.ndarray]) -> Any:
        """Count rows, and pack the counts. Few rows in many cells are sorted and counted: most counts would be zero."""
        if self.n_cells < _MANY_CELLS:
            return super().pack_sums(chunks)
        cells: list[np.ndarray] = []
        counts = None
        for chunk in chunks:
            cells += [self.cells_of(chunk[start : start + _ROWS]) for start in range(0, len(chunk), _ROWS)]
            if counts is not None or sum(map(len, cells)) * _CELLS_A_ROW > self.n_cells:
                counts = self.zero().counts if counts is None else counts
                while cells:
                    np.add.at(counts, cells.pop(), 1)
        if counts is None:
            return Packed.of_cells(np.concatenate([np.zeros(0, dtype=np.int64), *cells]), self.n_cells)
        return Packed.of(counts)

    def cells_of(self, rows: np.ndarray) -> np.ndarray:
        cells = rows if self.partition is None else self.partition.locate(rows)
        if self.offset is None:
            return cells >> self.shift if self.shift else cells
        coarse = cells >> self.coarse_shift
        parts = cells >> np.take(self.shift, coarse, mode="wrap")
        parts += np.take(self.offset, coarse, mode="wrap")
        return parts


@savable
@dataclass(frozen=True, eq=False)
class CountLengths(Aggregator):
    """Counts rows by their distance from the center of a ball, before they are shrunk.

    Cell j holds those up to the radius j, but beyond the next; a row is in one cell, so the sensitivity is that of any histogram.
    """

    ball: Ball
    radii: np.ndarray  # squared, falling; the first is no less than the reach of the ball without a radius, shape (n_radii,)

    def __str__(self) -> str:
        return f"counts of {len(self.radii)} lengths"

    @property
    def n_values(self) -> int:
        return len(self.radii)

    def zero(self) -> Histogram:
        return Histogram.over_cells(len(self.radii)).zero()

    def add(self, statistic: Histogram, chunk: Chunk, kept: np.ndarray | None = None) -> Histogram:
        """Count the rows of a chunk, in place; the cells of the rows are written to `kept`, if there is such an array."""
        counting, rising = Histogram.over_cells(len(self.radii)), self.radii[::-1]
        for rows, q in self.ball.steps(chunk):
            cells = len(rising) - 1 - np.searchsorted(rising, self.ball.squared_lengths(q))
            counting.add(statistic, cells)
            if kept is not None:
                kept[rows] = cells
        return statistic
