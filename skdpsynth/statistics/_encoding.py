"""Public maps of rows, each row by itself, before they are counted."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpsynth.domain import Grid
from skdpsynth.frames import Chunk
from skdpsynth.measures import BinaryPartition
from skdpsynth.persistence import savable

Origins = tuple[int | None, ...]


class ColumnMap(ABC):
    """A map of lists of columns in which each column depends on one alone, or on none: so a database can do it too."""

    @abstractmethod
    def __call__(self, chunk: Chunk) -> Chunk:
        """Return the columns that a chunk becomes."""

    def origins(self, of: Origins) -> Origins:
        """Return from where each column comes, if those that it is made of come from `of`; None: from none."""
        return of


@savable
@dataclass(frozen=True, eq=False)
class LeavesOf:
    """Rows of finite numbers become the cells of a partition that hold them."""

    partition: Any

    def __call__(self, chunk: Chunk) -> Chunk:
        # Rows of a fit are finite; a caller's partition need not know that one may say so.
        return self.partition.locate(chunk, **({"finite": True} if isinstance(self.partition, BinaryPartition) else {}))


@savable
@dataclass(frozen=True, eq=False)
class CellsOf(ColumnMap):
    """Numbers become the cells of their grids, -1 where they are missing; columns of levels stay as they are."""

    grids: Mapping[int, Grid]  # by the place of the column

    def __call__(self, chunk: Chunk) -> Chunk:
        return [self.grids[i].locate(column) if i in self.grids else column for i, column in enumerate(chunk)]


@savable
@dataclass(frozen=True, eq=False)
class Coding(ColumnMap):
    """Cells become the bins that hold them; columns may be left out, or come in another order."""

    columns: tuple[Any, ...]  # the place of each column to come; None: one that is 0 throughout
    bins: Mapping[int, np.ndarray]  # by the place of a column of cells: the bin of each cell, and last that of a missing number

    def __call__(self, chunk: Chunk) -> Chunk:
        columns = []
        for place in self.columns:
            if place is None:
                columns.append(np.zeros(len(chunk[0]), dtype=np.int32))
            else:  # -1 stands for the last bin
                columns.append(self.bins[place][chunk[place]] if place in self.bins else chunk[place])
        return columns

    def origins(self, of: Origins) -> Origins:
        """Return from where each column comes."""
        return tuple(None if place is None else of[place] for place in self.columns)


@savable
@dataclass(frozen=True, eq=False)
class Merging(ColumnMap):
    """Codes become the groups that hold them."""

    groups: tuple[np.ndarray, ...]  # of each column, shape (n_codes,)

    def __call__(self, chunk: Chunk) -> Chunk:
        return [group[column] for group, column in zip(self.groups, chunk, strict=True)]


@savable
@dataclass(frozen=True, eq=False)
class DifferencesOf:
    """Rows of numbers become the cells of differences between two columns, a column of cells for each pair.

    A map of one row: one row moves counts of its cells as it moves counts of any others.
    """

    pairs: tuple[tuple[int, int], ...]  # places of two columns: the difference is the second less the first
    edges: tuple[np.ndarray, ...]  # of the cells of each pair; numbers beyond the ends lie in the outermost cells, shape (n_cells + 1,)
    missing: tuple[int, ...]  # of each pair the cell of rows in which one of the two is missing

    @classmethod
    def over(cls, pairs: Sequence[tuple[int, int]], edges: Sequence[np.ndarray], counts_missing: bool) -> "DifferencesOf":
        """Return the map; rows without a difference have a cell after the last if they are counted, else -1, which trees count nowhere."""
        finite = tuple(np.nan_to_num(own, posinf=np.finfo(float).max, neginf=np.finfo(float).min) for own in edges)  # as files hold arrays
        return cls(tuple(pairs), finite, tuple(len(own) - 1 if counts_missing else -1 for own in edges))

    def __call__(self, chunk: Chunk) -> Chunk:
        columns = []
        for (first, second), edges, missing in zip(self.pairs, self.edges, self.missing, strict=True):
            difference = np.asarray(chunk[second], dtype=float) - np.asarray(chunk[first], dtype=float)
            cells = np.searchsorted(edges[1:-1], difference, side="right")
            columns.append(np.where(np.isnan(difference), missing, cells).astype(np.int32))
        return columns
