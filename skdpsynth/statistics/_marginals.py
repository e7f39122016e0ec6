"""Exact counts of marginal tables, and of columns in trees of cells."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from skdpsynth._sensitivity import Query, Sensitivity, count_sensitivity, statistic_facts
from skdpsynth._validation import as_numeric_array, check_integer, is_integer, short_repr
from skdpsynth.duckdb import Database
from skdpsynth.frames import Rows
from skdpsynth.persistence import savable
from skdpsynth.statistics._aggregator import Aggregator, Statistic
from skdpsynth.statistics._pushdown import counts_by_column, counts_of_tables

_FINE = 6  # a level beyond which a node has eight nodes on the next counted one, and four up to it: few rows are seen there alone
_LEAVES = 1 << 17  # rows of leaves at a time
_DEEPEST = 62  # of cells that are numbered by int64
_ROWS = 1 << 15  # rows at a time: codes stay in the cache


@dataclass(frozen=True, eq=False, repr=False)  # its counts are private: no repr shows them
class Marginals(Statistic):
    """Counts of combinations of codes, in tables over some of the columns.

    Attributes
    ----------
    shapes : tuple of tuple of int
        Shape of each table.
    counts : ndarray of shape (n_cells,), int64
        All tables, one after the other.

    See Also
    --------
    Histogram : Counts of cells.
    skdpsynth.statistics.total : Adds up all rows.
    """

    shapes: tuple[tuple[int, ...], ...]
    counts: np.ndarray

    @classmethod
    def of(cls, codes: Sequence[np.ndarray], sizes: Sequence[int], attributes: Sequence[tuple[int, ...]]) -> "Marginals":
        """Count the rows of columns of codes, a list of int arrays of shape (n_samples,); the rest is as for `over`."""
        rule = cls.over(sizes, attributes)
        if not isinstance(codes, list | tuple) or len(codes) != len(rule.sizes):
            raise TypeError(f"codes must be a list of {len(rule.sizes)} arrays of codes, one a column, got {short_repr(codes)}.")
        columns = [as_numeric_array(column, "codes", whole=True) for column in codes]
        n_rows = {len(column) for column in columns}
        if len(n_rows) > 1 or any(((column < 0) | (column >= size)).any() for column, size in zip(columns, rule.sizes, strict=True)):
            raise ValueError("codes must be arrays of one length that lie in [0, size) of their columns, but are not.")
        return rule.of(columns)

    @staticmethod
    def over(sizes: Sequence[int], attributes: Sequence[tuple[int, ...]], weight: int | None = None) -> "CountCombinations":
        """Return the rule that counts the combinations of codes in some tables; `attributes` are the columns of each, as tuples.

        The codes of a column lie in ``[0, size)``. `weight` is the place of a column of whole numbers below 2**38, each of which counts its
        row so often; None: each counts once.
        """
        if not isinstance(sizes, list | tuple) or not all(is_integer(size, 0) for size in sizes):
            raise TypeError(f"sizes must be a list of non-negative integers, one a column, got {short_repr(sizes)}.")
        listed = attributes if isinstance(attributes, list | tuple) else [None]
        n = len(sizes)  # a plain int is quick to check, of half a million pairs
        if not all(
            isinstance(table, list | tuple) and table and all(0 <= j < n if type(j) is int else is_integer(j, 0, n - 1) for j in table)
            for table in listed
        ):
            raise TypeError(f"attributes must be a list of tuples of columns from 0 to {len(sizes) - 1}, got {short_repr(attributes)}.")
        return CountCombinations(tuple(sizes), tuple(map(tuple, listed)), None if weight is None else check_integer("weight", weight))

    @staticmethod
    def sensitivity(relation: str, n_tables: int) -> Sensitivity:
        """Return how far one row moves the counts of `n_tables` tables: a public fact.

        A row has one combination of codes in each table, and is counted there; what `count_sensitivity` says holds. A table over more
        columns, such as one with a column of classes, is still one table. It is attained by a row that differs in all columns.
        """
        return count_sensitivity(relation, n_tables)

    def query(self, relation: str) -> Query:
        """Return the counts with their sensitivity."""
        return Query(self.counts, self.sensitivity(relation, len(self.shapes)))

    def of_one_class(self) -> "Marginals":
        """Return these tables led by an axis of classes, of which there is one."""
        return Marginals(tuple((1, *shape) for shape in self.shapes), self.counts)

    def tables(self, values: np.ndarray | None = None) -> list[np.ndarray]:
        """Return the counts, or others in their place, as one array a table."""
        values = self.counts if values is None else as_numeric_array(values, "values")
        if len(values) != len(self.counts):
            raise ValueError(f"values must be {len(self.counts)} numbers, one for each count, got {len(values)}.")
        stops = np.cumsum([math.prod(shape) for shape in self.shapes], dtype=np.int64)
        return [part.reshape(shape) for part, shape in zip(np.split(values, stops)[:-1], self.shapes, strict=True)]


@savable
@dataclass(frozen=True)
class CountCombinations(Aggregator):
    """Counts the combinations of codes in tables over some columns."""

    sizes: tuple[int, ...]  # number of codes of each column
    attributes: tuple[tuple[int, ...], ...]  # columns of each table
    weight: int | None = None  # place of the column of weights

    def __str__(self) -> str:
        return f"counts of {self.n_values} combinations of codes in {len(self.attributes)} tables"

    @property
    def n_values(self) -> int:
        return sum(map(math.prod, self.shapes))

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(self.sizes[column] for column in columns) for columns in self.attributes)

    def zero(self) -> Marginals:
        """Return the tables of no rows."""
        return Marginals(self.shapes, np.zeros(self.n_values, dtype=np.int64))

    def count_in(self, database: Database, rows: Rows) -> Marginals | None:
        if self.weight is not None:
            return None
        counts = counts_of_tables(database, rows, self.sizes, self.attributes)
        return None if counts is None else Marginals(self.shapes, np.concatenate([np.zeros(0, dtype=np.int64), *counts]))

    def add(self, statistic: Marginals, chunk: Sequence[np.ndarray]) -> Marginals:
        """Count the rows of a chunk, in place."""
        shapes = statistic.shapes
        stops = np.cumsum([math.prod(shape) for shape in shapes], dtype=np.int64).tolist()
        tables = [statistic.counts[start:stop] for start, stop in pairwise([0, *stops])]
        for start in range(0, len(chunk[0]) if chunk else 0, _ROWS):
            block = [column[start : start + _ROWS] for column in chunk]
            block = [column.astype(np.int64) if column.dtype == np.uint64 else column for column in block]  # sums of both are floats
            weights = None if self.weight is None else block[self.weight].astype(float)  # whole, and so many sum to less than 2**53
            before: tuple[tuple[int, ...], int] = ((), 0)  # tables that differ in their last column follow each other
            for columns, shape, counts in zip(self.attributes, shapes, tables, strict=True):
                if before != (columns[:-1], shape[-1]):
                    before, cell = (columns[:-1], shape[-1]), np.zeros(1, dtype=np.int64)
                    for column, size in zip(columns[:-1], shape[1:], strict=True):
                        cell = (cell + block[column]) * size
                counts += np.bincount(cell + block[columns[-1]], weights, minlength=len(counts)).astype(np.int64, copy=False)
        return statistic


@dataclass(frozen=True, eq=False, repr=False)  # its counts are private: no repr shows them
class Trees(Statistic):
    """Counts of rows in the nodes of some levels of a tree of cells, a tree for each column."""

    depths: tuple[int, ...]  # halvings from the whole range of each column to its cells
    counts: np.ndarray  # tree after tree, and in each the coarsest level first; the last one is that of the cells, shape (n_counts,)

    @classmethod
    def of(cls, cells: Sequence[np.ndarray], depths: Sequence[int]) -> "Trees":
        """Count the rows of columns of cells."""
        return cls.over(depths).of(list(cells))

    @staticmethod
    def over(depths: Sequence[int], columns: Sequence[int] | None = None, weight: int | None = None) -> "CountNodes":
        """Return the rule that counts cells in ``[0, 2**depth)``, and the nodes above them; -1, a missing number, is counted nowhere.

        `columns` says where the cells of each tree stand in a chunk; None: in order. `weight` is as for `Marginals.over`.
        """
        return CountNodes(tuple(depths), tuple(range(len(depths)) if columns is None else columns), weight)

    @staticmethod
    def sensitivity(relation: str, depths: Sequence[int]) -> Sensitivity:
        """Return how far one row moves the counts: a public fact.

        The nodes of a level are disjoint, so a level counts a row once, or not at all if the number is missing. So it is a table among
        as many tables as there are levels in all trees, and what `count_sensitivity` says of those holds: one count of each changes by 1 if
        a row comes or goes, and two if it is replaced. It is attained where no number is missing and every level tells the rows apart.
        """
        facts = statistic_facts("trees", depths=tuple(sorted(Counter(map(int, depths)).items())))
        return count_sensitivity(relation, sum(len(levels_of(depth)) for depth in depths), facts)

    def query(self, relation: str) -> Query:
        """Return the counts with their sensitivity."""
        return Query(self.counts, self.sensitivity(relation, self.depths))

    def levels(self, values: np.ndarray | None = None) -> list[dict[int, np.ndarray]]:
        """Return the counts, or others in their place, by level: a dict for each tree, the coarsest level first."""
        levels = []
        for tree, depth in zip(self.columns(values), self.depths, strict=True):
            stops = np.cumsum(1 << np.array(levels_of(depth), dtype=np.int64))[:-1]
            levels.append(dict(zip(levels_of(depth), np.split(tree, stops), strict=True)))
        return levels

    def columns(self, values: np.ndarray | None = None) -> list[np.ndarray]:
        """Return the counts, or others in their place, as one array a tree."""
        values = self.counts if values is None else values
        stops = np.cumsum(list(map(n_counted_nodes, self.depths)), dtype=np.int64)
        return np.split(values, stops[:-1]) if self.depths else []


def levels_of(depth: int) -> list[int]:
    """Return the levels of a tree that are counted: cells, above them each third one, from the sixth on each second."""
    levels = []
    while depth > 0:
        levels.append(depth)
        depth -= 3 if depth > _FINE else 2
    return levels[::-1]


def n_counted_nodes(depth: int) -> int:
    return sum(1 << level for level in levels_of(depth))


@savable
@dataclass(frozen=True)
class CountNodes(Aggregator):
    """Counts the cells of columns, and the nodes of some levels above them."""

    depths: tuple[int, ...]  # of each tree
    columns: tuple[int, ...]  # where its cells stand in a chunk
    weight: int | None = None  # where the weights do

    def __str__(self) -> str:
        return f"counts of {self.n_values} nodes in {len(self.depths)} trees of cells"

    @property
    def n_values(self) -> int:
        if max(self.depths, default=0) > _DEEPEST:
            raise ValueError(f"depths must be at most {_DEEPEST}, got {short_repr(max(self.depths))}.")
        return sum(map(n_counted_nodes, self.depths))

    def zero(self) -> Trees:
        return Trees(self.depths, np.zeros(self.n_values, dtype=np.int64))

    def count_in(self, database: Database, rows: Rows) -> Trees | None:
        """Return the counts of rows in a database: nodes follow from their cells."""
        if self.weight is not None:
            return None
        cells = counts_by_column(database, rows, self.columns, [1 << depth for depth in self.depths])
        if cells is None:
            return None
        nodes = [nodes_of(counts, depth) for counts, depth in zip(cells, self.depths, strict=True)]
        return Trees(self.depths, np.concatenate([np.zeros(0, dtype=np.int64), *nodes]))

    def add(self, statistic: Trees, chunk: Sequence[np.ndarray]) -> Trees:
        """Count the rows of a chunk, in place."""
        for tree, depth, column in zip(statistic.columns(), self.depths, self.columns, strict=True):
            leaves = np.zeros((1 << depth) + 1, dtype=np.int64)  # the first is for what is missing
            rows = max(_LEAVES, len(leaves))
            for start in range(0, len(chunk[column]) if self.weight is None else 0, rows):
                leaves += np.bincount(chunk[column][start : start + rows] + 1, minlength=len(leaves))
            if self.weight is not None:
                np.add.at(leaves, chunk[column] + 1, chunk[self.weight])
            tree += nodes_of(leaves[1:], depth)
        return statistic


def nodes_of(cells: np.ndarray, depth: int) -> np.ndarray:
    """Return the counts of the nodes of a tree, the coarsest level first, from those of its cells."""
    return np.concatenate([cells.reshape(1 << level, -1).sum(axis=1) for level in levels_of(depth)])
