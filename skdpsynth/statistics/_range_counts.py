"""Exact counts of how large the numbers of each column are: what tells its bounds, where nobody knows them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from skdpsynth._sensitivity import Query, Sensitivity, count_sensitivity
from skdpsynth.persistence import savable
from skdpsynth.statistics._aggregator import Aggregator, Statistic

LEAST, MOST = -126, 128  # exponents of two, those of floats of 32 bits: what is nearer to 0 counts as 0, what is farther as the last cell
_POWERS = 2.0 ** np.arange(LEAST, MOST + 1)
EDGES = np.concatenate([-_POWERS[::-1], _POWERS])
N_CELLS = len(EDGES) - 1
_HEADS = 1 << 12  # values of the first bits of a float: its sign and its exponent
_BEYOND = _HEADS // 2 - 1  # the exponent of infinity and of NaN
_ROWS = 1 << 16  # at a time: a column of them stays in the cache


def _cells_of_heads() -> np.ndarray:
    """Return the cell of every sign and exponent. A float with exponent field e lies in [2**(e - 1023), 2**(e - 1022))."""
    middle = N_CELLS // 2
    above = np.clip(np.arange(_HEADS // 2) - 1023 - LEAST + 1, 0, middle)  # the cells above that of 0
    return np.concatenate([middle + above, middle - above])


_CELLS = _cells_of_heads()


@dataclass(frozen=True, eq=False, repr=False)  # its counts are private: no repr shows them
class Magnitudes(Statistic):
    """How many numbers of each column lie between one power of two and the next, of either sign.

    The cells are public: `EDGES` are -2**128, ..., -2**-126, 2**-126, ..., 2**128. The middle one holds 0 and all that is nearer to it
    than 2**-126; the outer ones hold what lies beyond them, infinities too. A cell includes its edge that is nearer to 0.
    """

    counts: np.ndarray  # shape (n_columns, n_cells)

    @staticmethod
    def over(columns: Sequence[int]) -> "CountMagnitudes":
        """Return the rule that counts some columns."""
        return CountMagnitudes(tuple(columns))

    @staticmethod
    def sensitivity(relation: str, n_columns: int) -> Sensitivity:
        """Return by how much one row moves the counts: a public fact.

        A number has one sign and one exponent, which its first twelve bits spell out, so a row is in one cell of each column; in none
        where the number is missing (NaN). So a column is a table, and what `count_sensitivity` says of tables holds. It is attained
        by rows that differ in the cells of all columns.
        """
        return count_sensitivity(relation, n_columns)

    def query(self, relation: str) -> Query:
        """Return the counts, column after column, with their change."""
        return Query(self.counts.ravel(), self.sensitivity(relation, len(self.counts)))


@savable
@dataclass(frozen=True)
class CountMagnitudes(Aggregator):
    """Counts the magnitudes of some columns."""

    columns: tuple[int, ...]  # where they stand in a chunk

    @property
    def n_values(self) -> int:
        """Number of cells of all columns."""
        return len(self.columns) * N_CELLS

    def zero(self) -> Magnitudes:
        return Magnitudes(np.zeros((len(self.columns), N_CELLS), dtype=np.int64))

    def add(self, statistic: Magnitudes, chunk: Any) -> Magnitudes:
        """Count the rows of a chunk, in place."""
        chunk = as_columns(chunk)
        for counts, column in zip(statistic.counts, self.columns, strict=True):
            for part in iterate_column(chunk, column):
                heads = _heads_of(part)
                # Sums of whole numbers below 2**53 are exact in floats.
                counts += np.bincount(_CELLS, np.bincount(heads, minlength=_HEADS), N_CELLS).astype(np.int64)
        return statistic


def _heads_of(numbers: np.ndarray) -> np.ndarray:
    """Return the sign and exponent of numbers, as the first twelve bits of floats; of those that are not missing."""
    heads = (np.ascontiguousarray(numbers).view(np.uint64) >> np.uint64(52)).view(np.int64)
    if (np.bitwise_and(heads, _BEYOND) == _BEYOND).any():
        heads = heads[~np.isnan(numbers)]
    return heads


@dataclass(frozen=True, eq=False, repr=False)  # its counts are private: no repr shows them
class EvenCells(Statistic):
    """How many numbers of each column lie in each of equally wide cells between public bounds."""

    counts: np.ndarray  # shape (n_columns, n_cells)

    @staticmethod
    def over(columns: Sequence[int], low: np.ndarray, high: np.ndarray, n_cells: int) -> "CountEvenCells":
        """Return the rule that counts `n_cells` cells in each of some columns; numbers beyond the bounds are in the outer cells."""
        return CountEvenCells(tuple(columns), tuple(map(float, low)), tuple(map(float, high)), n_cells)

    @staticmethod
    def sensitivity(relation: str, n_columns: int) -> Sensitivity:
        """Return by how much one row moves the counts.

        A number is in one cell, a fixed function of it alone, or in none where it is missing: `count_sensitivity` holds.
        """
        return count_sensitivity(relation, n_columns)

    def query(self, relation: str) -> Query:
        """Return the counts, column after column, with their change."""
        return Query(self.counts.ravel(), self.sensitivity(relation, len(self.counts)))


@savable
@dataclass(frozen=True)
class CountEvenCells(Aggregator):
    """Counts numbers in equally wide cells."""

    columns: tuple[int, ...]  # where they stand in a chunk
    low: tuple[float, ...]
    high: tuple[float, ...]
    n_cells: int

    @property
    def n_values(self) -> int:
        return len(self.columns) * self.n_cells

    def zero(self) -> EvenCells:
        return EvenCells(np.zeros((len(self.columns), self.n_cells), dtype=np.int64))

    @np.errstate(all="ignore")  # a warning would tell of a value
    def add(self, statistic: EvenCells, chunk: Any) -> EvenCells:
        """Count the rows of a chunk, in place."""
        chunk = as_columns(chunk)
        for counts, column, low, high in zip(statistic.counts, self.columns, self.low, self.high, strict=True):
            for part in iterate_column(chunk, column):
                # Each operation is rounded a value at a time, so the cell of a number depends on that number alone.
                steps = np.clip(part, low, high)
                steps -= low
                steps *= self.n_cells / (high - low)
                missing = np.isnan(steps)
                if missing.any():
                    steps = steps[~missing]
                np.minimum(steps, self.n_cells - 1, out=steps)
                counts += np.bincount(steps.astype(np.int64), minlength=self.n_cells)
        return statistic


def as_columns(chunk: Any) -> Any:
    """Return a chunk of which columns are quick to take."""
    return chunk.tocsc() if issparse(chunk) else chunk


def iterate_column(chunk: Any, column: int) -> Any:
    """Yield the numbers of a column of a chunk as floats of 64 bits, a part at a time."""
    if isinstance(chunk, list):
        numbers = chunk[column]
    elif issparse(chunk):
        numbers = chunk[:, [column]].toarray().ravel()
    else:
        numbers = chunk[:, column]
    for start in range(0, len(numbers), _ROWS):
        yield numbers[start : start + _ROWS].astype(float)
