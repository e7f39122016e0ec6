"""Exact counts of marginal tables."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from skdpsynth._change import Change, Query, units

_ROWS = 1 << 15  # rows at a time: codes stay in the cache


@dataclass(frozen=True, eq=False, repr=False)  # its counts are private: no repr shows them
class Marginals:
    """How many rows have each combination of codes, in tables over some of the columns.

    Attributes
    ----------
    shapes : tuple of tuple of int
        Of each table.
    counts : ndarray of shape (n_cells,), int64
        All tables, one after the other.
    """

    shapes: tuple[tuple[int, ...], ...]
    counts: np.ndarray

    @classmethod
    def of(cls, codes: Sequence[np.ndarray], sizes: Sequence[int], attributes: Sequence[tuple[int, ...]]) -> "Marginals":
        """Count rows.

        Parameters
        ----------
        codes : list of int arrays of shape (n_samples,)
            A column each, in ``[0, size)``.
        sizes : sequence of int
            Number of codes of each column.
        attributes : list of tuple of int
            Columns of each table.
        """
        shapes = tuple(tuple(sizes[column] for column in columns) for columns in attributes)
        cells = np.array([math.prod(shape) for shape in shapes], dtype=np.int64)
        stops = np.cumsum(cells)
        counts = np.zeros(int(stops[-1]) if len(stops) else 0, dtype=np.int64)
        for start in range(0, len(codes[0]) if codes else 0, _ROWS):
            block = [column[start : start + _ROWS] for column in codes]
            for columns, shape, stop, n_cells in zip(attributes, shapes, stops.tolist(), cells.tolist(), strict=True):
                cell = block[columns[0]]
                for column, size in zip(columns[1:], shape[1:], strict=True):
                    cell = cell * size + block[column]
                counts[stop - n_cells : stop] += np.bincount(cell, minlength=n_cells)
        return cls(shapes, counts)

    @staticmethod
    def change(relation: str, n_tables: int) -> Change:
        """Return by how much one row moves the counts of `n_tables` tables: a public fact.

        A row has one combination of codes in each table, and is counted there; what `units` says holds. A table over more columns, such
        as one with a column of classes, is still one table. It is attained by a row that differs in all columns.
        """
        return units(relation, n_tables)

    def query(self, relation: str) -> Query:
        """Return the counts with their change."""
        return Query(self.counts, self.change(relation, len(self.shapes)))

    def tables(self, values: np.ndarray | None = None) -> list[np.ndarray]:
        """Return the counts, or others in their place, as one array a table."""
        values = self.counts if values is None else values
        stops = np.cumsum([math.prod(shape) for shape in self.shapes])[:-1]
        return [part.reshape(shape) for part, shape in zip(np.split(values, stops), self.shapes, strict=True)]

    def __add__(self, other: "Marginals") -> "Marginals":
        return Marginals(self.shapes, self.counts + other.counts)
