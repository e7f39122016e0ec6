"""Exact counts of rows, and of what single columns hold."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import issparse

from skdpsynth._sensitivity import Query, Sensitivity, count_sensitivity, statistic_facts
from skdpsynth.duckdb import Database
from skdpsynth.frames import Chunk, Rows, n_rows_of
from skdpsynth.persistence import savable
from skdpsynth.statistics._aggregator import Aggregator, Statistic
from skdpsynth.statistics._pushdown import can_be_pushed_down

_LEAST, _MOST = -126, 128  # exponents of two, those of floats of 32 bits: what is nearer to 0 counts as 0, what is farther as the last cell
_POWERS = 2.0 ** np.arange(_LEAST, _MOST + 1)
MAGNITUDES = np.concatenate([-_POWERS[::-1], _POWERS])
_MIDDLE = (len(MAGNITUDES) - 1) // 2
_HEADS = 1 << 12  # values of the first bits of a float: its sign and its exponent
_BEYOND = _HEADS // 2 - 1  # the exponent of infinity and of NaN
# The cell of every sign and exponent. A float with exponent field e lies in [2**(e - 1023), 2**(e - 1022)).
_ABOVE_ZERO = np.clip(np.arange(_HEADS // 2) - 1023 - _LEAST + 1, 0, _MIDDLE)
_CELLS = np.concatenate([_MIDDLE + _ABOVE_ZERO, _MIDDLE - _ABOVE_ZERO])
_ROWS = 1 << 16  # at a time: a column of them stays in the cache


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
            for start in range(0, len(numbers), _ROWS):
                counts += self.counts_of(numbers[start : start + _ROWS].astype(float), place)
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
