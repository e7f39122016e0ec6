"""Exact counts of marginal tables."""

import math
from dataclasses import dataclass

import numpy as np

_ROWS = 1 << 15  # rows at a time: codes stay in the cache


@dataclass(frozen=True, eq=False)
class Marginals:
    """How many rows have each combination of codes, in tables over some of the columns.

    Attributes
    ----------
    shapes : tuple of tuple of int
        Of each table.
    counts : ndarray of shape (n_cells,), int64
        All tables, one after the other.
    """

    shapes: tuple
    counts: np.ndarray

    @classmethod
    def of(cls, codes, sizes, attributes):
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

    def tables(self, values=None):
        """Return the counts, or others in their place, as one array a table."""
        values = self.counts if values is None else values
        stops = np.cumsum([math.prod(shape) for shape in self.shapes])[:-1]
        return [part.reshape(shape) for part, shape in zip(np.split(values, stops), self.shapes, strict=True)]

    def __add__(self, other):
        return Marginals(self.shapes, self.counts + other.counts)
