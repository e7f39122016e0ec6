"""Exact counts of rows, of the cells of a partition, and of what single columns hold."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import issparse

from skdpsynth._sensitivity import Query, Sensitivity, count_sensitivity, statistic_facts
from skdpsynth._validation import as_numeric_array, check_integer, short_repr
from skdpsynth.domain import Ball
from skdpsynth.duckdb import Database
from skdpsynth.frames import Chunk, Packed, Rows, n_rows_of
from skdpsynth.measures import Lattice, Partition, pair_sums
from skdpsynth.persistence import savable
from skdpsynth.statistics._aggregator import Aggregator, Statistic
from skdpsynth.statistics._pushdown import can_be_pushed_down

_ROWS = 1 << 17  # rows at a time
_MANY_CELLS = 1 << 20  # whose counts are made by sorting cell numbers while rows are few
_CELLS_A_ROW = 8  # or more: rows are few
_LEAST, _MOST = -126, 128  # exponents of two, those of floats of 32 bits: what is nearer to 0 counts as 0, what is farther as the last cell
_POWERS = 2.0 ** np.arange(_LEAST, _MOST + 1)
MAGNITUDES = np.concatenate([-_POWERS[::-1], _POWERS])
_MIDDLE = (len(MAGNITUDES) - 1) // 2
_HEADS = 1 << 12  # values of the first bits of a float: its sign and its exponent
_BEYOND = _HEADS // 2 - 1  # the exponent of infinity and of NaN
# The cell of every sign and exponent. A float with exponent field e lies in [2**(e - 1023), 2**(e - 1022)).
_ABOVE_ZERO = np.clip(np.arange(_HEADS // 2) - 1023 - _LEAST + 1, 0, _MIDDLE)
_CELLS = np.concatenate([_MIDDLE + _ABOVE_ZERO, _MIDDLE - _ABOVE_ZERO])
_COLUMN_ROWS = 1 << 16  # at a time: a column of them stays in the cache


@dataclass(frozen=True, eq=False, repr=False)  # its counts are private: no repr shows them
class Histogram(Statistic):
    """Number of rows in each cell.

    Attributes
    ----------
    counts : ndarray of shape (n_cells,), int64

    See Also
    --------
    Marginals : Counts of tables over columns.
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
            raise TypeError(f"partition must have the partition protocol, got {short_repr(partition)}; BinaryPartition has it.")
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

        Coarse cells are ``cells >> coarse_shift``, where the shift is at least ``refinement.max()``. The rule counts the parts of those of
        refinement 0 first, then of refinement 1, ...; in each group by coarse cell, then along the curve.
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
        return list(map(Histogram, reversed(levels)))


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
        for rows, q in self.ball.steps(chunk):
            cells = self.count(statistic, q)
            if kept is not None:
                kept[rows] = cells
        return statistic

    def count(self, statistic: Histogram, q: np.ndarray) -> np.ndarray:
        """Count rows given by their grid coordinates, in place, and return their cells."""
        cells: np.ndarray = len(self.radii) - 1 - np.searchsorted(self.radii[::-1], self.ball.squared_lengths(q))
        np.add.at(statistic.counts, cells, 1)
        return cells


@dataclass(frozen=True, repr=False)  # its counts are private: no repr shows them
class RowCount(Statistic):
    """Number of rows: public under "replace_one", private under "add_or_remove_one"."""

    n_samples: int

    _summed: ClassVar[tuple[str, ...]] = ("n_samples",)

    @staticmethod
    def over() -> "CountRows":
        return CountRows()

    @staticmethod
    def sensitivity(relation: str) -> Sensitivity:
        """Return how far one row moves the number: by 1 if it is added or removed, not at all if it is replaced."""
        moved = int(relation == "add_or_remove_one")
        return Sensitivity(relation, moved, moved, moved, statistic=statistic_facts("row_count"))

    def query(self, relation: str) -> Query:
        return Query(np.array([self.n_samples], dtype=np.int64), self.sensitivity(relation))


@savable
@dataclass(frozen=True)
class CountRows(Aggregator):
    """Counts rows."""

    def __str__(self) -> str:
        return "the number of rows"

    @property
    def n_values(self) -> int:
        return 1

    def zero(self) -> RowCount:
        return RowCount(0)

    def count_in(self, database: Database, rows: Rows) -> RowCount | None:
        return RowCount(database.n_rows()) if can_be_pushed_down(rows) else None

    def add(self, statistic: RowCount, chunk: Chunk) -> RowCount:
        return RowCount(statistic.n_samples + n_rows_of(chunk))


@dataclass(frozen=True, eq=False, repr=False)  # its counts are private: no repr shows them
class ColumnCells(Statistic):
    """Numbers of each column counted in cells of a line."""

    counts: np.ndarray  # shape (n_columns, n_cells)

    def query(self, relation: str) -> Query:
        """Return the counts, column after column, with their sensitivity."""
        return Query(self.counts.ravel(), _CountColumnCells.sensitivity(relation, len(self.counts)))


class _CountColumnCells(Aggregator):
    """Counts the numbers of some columns in public cells."""

    columns: tuple[int, ...]  # where they stand in a chunk
    n_cells: Any

    @staticmethod
    def sensitivity(relation: str, n_columns: int) -> Sensitivity:
        """Return how far one row moves the counts: a public fact.

        A number is in one cell, a fixed function of it alone, or in none where it is missing (NaN): so a column is a table, and
        `count_sensitivity` holds. It is attained by rows that differ in the cells of all columns.
        """
        return count_sensitivity(relation, n_columns)

    @property
    def n_values(self) -> int:
        return len(self.columns) * int(self.n_cells)

    def zero(self) -> ColumnCells:
        return ColumnCells(np.zeros((len(self.columns), self.n_cells), dtype=np.int64))

    @np.errstate(all="ignore")  # a warning would tell of a value
    def add(self, statistic: ColumnCells, chunk: Chunk) -> ColumnCells:
        """Count the rows of a chunk, in place."""
        if issparse(chunk):
            chunk = chunk.tocsc()  # of which columns are quick to take
        for place, (counts, column) in enumerate(zip(statistic.counts, self.columns, strict=True)):
            if isinstance(chunk, list):
                numbers = chunk[column]
            else:
                numbers = chunk[:, [column]].toarray().ravel() if issparse(chunk) else chunk[:, column]
            for start in range(0, len(numbers), _COLUMN_ROWS):
                counts += self.counts_of(numbers[start : start + _COLUMN_ROWS].astype(float), place)
        return statistic

    @abstractmethod
    def counts_of(self, numbers: np.ndarray, place: int) -> np.ndarray:
        """Count numbers of the column at a place."""


@savable
@dataclass(frozen=True)
class Magnitudes(_CountColumnCells):
    """Counts numbers between one power of two and the next, of either sign: what tells their bounds, where nobody knows them.

    The cells are public: `MAGNITUDES` are -2**128, ..., -2**-126, 2**-126, ..., 2**128. The middle one holds 0 and all that is nearer to it
    than 2**-126; the outer ones hold what lies beyond them, infinities too. A cell includes its edge that is nearer to 0. A number has one
    sign and one exponent, which its first twelve bits spell out.
    """

    columns: tuple[int, ...]
    n_cells: ClassVar[int] = len(MAGNITUDES) - 1  # type: ignore[misc]

    @classmethod
    def over(cls, columns: Sequence[int]) -> "Magnitudes":
        return cls(tuple(columns))

    def counts_of(self, numbers: np.ndarray, place: int) -> np.ndarray:
        heads = (np.ascontiguousarray(numbers).view(np.uint64) >> np.uint64(52)).view(np.int64)
        if (np.bitwise_and(heads, _BEYOND) == _BEYOND).any():
            heads = heads[~np.isnan(numbers)]
        # Sums of whole numbers below 2**53 are exact in floats.
        return np.bincount(_CELLS, np.bincount(heads, minlength=_HEADS), self.n_cells).astype(np.int64)


@savable
@dataclass(frozen=True)
class EvenCells(_CountColumnCells):
    """Counts numbers in equally wide cells between public bounds; those beyond are in the outer cells."""

    columns: tuple[int, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    n_cells: int

    @classmethod
    def over(cls, columns: Sequence[int], low: np.ndarray, high: np.ndarray, n_cells: int) -> "EvenCells":
        return cls(tuple(columns), tuple(map(float, low)), tuple(map(float, high)), n_cells)

    def counts_of(self, numbers: np.ndarray, place: int) -> np.ndarray:
        # Each operation is rounded a value at a time, so the cell of a number depends on that number alone.
        steps = np.clip(numbers, self.low[place], self.high[place])
        steps -= self.low[place]
        steps *= self.n_cells / (self.high[place] - self.low[place])
        missing = np.isnan(steps)
        if missing.any():
            steps = steps[~missing]
        np.minimum(steps, self.n_cells - 1, out=steps)
        return np.bincount(steps.astype(np.int64), minlength=self.n_cells)


@dataclass(frozen=True, eq=False, repr=False)  # its counts are private, and so are its levels: no repr shows them
class Occurrences:
    """Counts of the levels that occur in some columns. Even which levels there are is private."""

    tables: tuple[Counter, ...]  # of each column; missing cells are in none

    @staticmethod
    def over(columns: Sequence[int]) -> "CountLevels":
        return CountLevels(tuple(columns))

    @staticmethod
    def sensitivity(relation: str, n_columns: int) -> Sensitivity:
        """Return how far one row moves the counts, of levels that do not occur (0) among them: a public fact.

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


@dataclass(frozen=True, eq=False, repr=False)  # its counts are private: no repr shows them
class Thresholds(Statistic):
    """Counts of the levels of ordinal columns, from which thresholds follow.

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
        """Return how far one row moves the counts: a public fact.

        Replacing a row takes 1 from the count of its old level and gives 1 to that of the new one, in each column: two counts change by 1.
        With two levels there is one count, so one changes. A row that is added or removed moves the count of one level of each column,
        whose other counts stay, by 1. Every change is 1, so the sum and the sum of squares are both the number of counts that change; a
        row that differs in all columns attains it, and so does any row that is added.
        """
        changed = Fraction(sum(min(2, _n_counted(size, relation)) if relation == "replace_one" else 1 for size in sizes))
        facts = statistic_facts("thresholds", sizes=tuple(sorted(Counter(map(int, sizes)).items())))
        return Sensitivity(relation, changed, changed, min(Fraction(1), changed), statistic=facts)

    def query(self, relation: str) -> Query:
        """Return the counts with their sensitivity, under the relation that they were counted for."""
        if relation != self.relation:
            raise ValueError(f"relation must be {self.relation!r}, which the levels were counted for, got {relation!r}; count them again.")
        return Query(self.counts, self.sensitivity(relation, self.sizes))

    def columns(self, values: np.ndarray | None = None) -> list[np.ndarray]:
        """Return the counts, or others in their place, as one array a column."""
        values = self.counts if values is None else values
        return np.split(values, np.cumsum([_n_counted(size, self.relation) for size in self.sizes])[:-1]) if self.sizes else []


def _n_counted(size: int, relation: str) -> int:
    return 1 if size == 2 and relation == "replace_one" else size
