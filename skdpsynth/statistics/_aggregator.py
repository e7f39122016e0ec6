"""Public maps of rows, rules of what is then summed over them, and the question that asks for the sums."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, ClassVar, Self

import numpy as np

from skdpsynth._validation import as_array, short_repr
from skdpsynth.domain import Grid
from skdpsynth.duckdb import Database
from skdpsynth.frames import Chunk, Rows, TableKind, as_chunk, is_pandas, pack
from skdpsynth.measures import BinaryPartition
from skdpsynth.persistence import savable
from skdpsynth.tables import ReadValues, check_dtypes


class Aggregator(ABC):
    """The rule of a sum: it makes an empty statistic, and adds the rows of a chunk to one.

    It holds public facts alone and can be pickled and saved, so it goes to where the rows are. Sums of whole numbers are associative, so a
    table may be cut into chunks anywhere, and chunks added in any order: the statistic is the same to the last bit.

    See Also
    --------
    skdpsynth.statistics.total : Adds up all rows by such a rule.
    """

    @abstractmethod
    def zero(self) -> Any:
        """Return the statistic of no rows."""

    @abstractmethod
    def add(self, statistic: Any, chunk: Chunk) -> Any:
        """Return the statistic with the rows of a chunk added; `statistic` may be changed in place."""

    @property
    def n_values(self) -> int:
        """Number of values of the statistic; a rule that may come in a message says so without making them."""
        return len(self.zero().flat)

    def of(self, chunk: Chunk) -> Any:
        """Return the statistic of a chunk."""
        return self.add(self.zero(), chunk)

    def count_in(self, database: Database, rows: Rows) -> Any:
        """Return the statistic of rows that lie in a database, counted there; None if they must be read for it."""
        return None

    def pack_sums(self, chunks: Iterable[Chunk]) -> Any:
        """Return the sums over chunks of rows in few bytes, to travel."""
        statistic = self.zero()
        for chunk in chunks:
            statistic = self.add(statistic, chunk)
        return pack(statistic)

    def from_flat(self, values: np.ndarray) -> Any:
        """Return the statistic whose numbers, laid out as its ``flat``, are these."""
        return self.zero().with_sums(values)

    def __str__(self) -> str:
        return f"{self.n_values} sums by {type(self).__name__}"


class Statistic:
    """Exact sums over rows, in attributes of a frozen dataclass; all else that it holds is public.

    Laid out as one vector a statistic can be kept, sent, and added to others, also modulo 2**64: of whole numbers whose sum fits into 64
    bits, the sum modulo 2**64 is the sum.
    """

    _summed: ClassVar[tuple[str, ...]] = ("counts",)  # attributes: int64 arrays, or ints

    @property
    def flat(self) -> np.ndarray:
        """All sums as one int64 vector; the rule that made them reads it back by `Aggregator.from_flat`."""
        parts = [np.ravel(np.asarray(getattr(self, name), dtype=np.int64)) for name in self._summed]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def with_sums(self, values: np.ndarray) -> Self:
        """Return a statistic with these sums, as `flat` gives them, in place of its own."""
        own = {name: getattr(self, name) for name in self._summed}
        stops, vector = np.cumsum([np.size(sums) for sums in own.values()]), as_array(values)
        if vector.shape != (stops[-1],) or vector.dtype != np.int64:
            raise ValueError(f"values must be a vector of {stops[-1]} int64 numbers, got {short_repr(values)}; give what flat gave.")
        parts = zip(own.items(), np.split(vector, stops[:-1]), strict=True)
        changed = {name: part.reshape(sums.shape) if isinstance(sums, np.ndarray) else int(part[0]) for (name, sums), part in parts}
        return replace(self, **changed)  # type: ignore[type-var]

    def __add__(self, other: Self) -> Self:
        return self.with_sums(self.flat + other.flat)


def total(rows: Rows, aggregator: Aggregator) -> Any:
    """Return the statistic of all rows: the same whatever their source, how they are cut into chunks, and who adds them up.

    See Also
    --------
    Aggregator : The rule of a sum.
    """
    return rows.aggregate(aggregator)


def total_and_kept(rows: Rows, aggregator: Any, kept: np.ndarray) -> tuple[Any, Rows]:
    """Return the statistic of rows that can be read here, and what its `add` wrote of each row to `kept`, in one reading."""
    states, found = rows.fold_into(kept, aggregator.zero, aggregator.add)
    return reduce(add, states), found


@savable
@dataclass(frozen=True, eq=False, repr=False)
class Question:
    """Sums that are asked of a table: maps of its rows, and the rule by which these are then summed.

    It holds public facts alone, and what was released before: no row, and nothing that was summed. It can be pickled and saved.

    Attributes
    ----------
    columns : tuple
        Names of the columns of the table; numbers in an array.
    maps : tuple of callable
        Maps of a chunk of rows, in order. The first one reads it.
    rule : Aggregator

    See Also
    --------
    RemoteRows : Passes it on.
    """

    columns: tuple
    maps: tuple
    rule: Aggregator

    def __repr__(self) -> str:
        return f"Question({self.rule}, of a table of {len(self.columns)} columns)"

    def of(self, chunk: Chunk) -> Any:
        """Return the sums over the rows of a chunk, an array or data frame with the columns of the table in their order.

        Sums of several chunks add up with ``+``; their ``flat`` is a vector of int64 numbers, which ``rule.from_flat`` reads back.
        """
        return self.add(self.rule.zero(), chunk)

    def add(self, statistic: Any, chunk: Chunk) -> Any:
        """Return a statistic with the rows of a chunk added; it may be changed in place."""
        return self.rule.add(statistic, self.apply_maps(chunk))

    def apply_maps(self, chunk: Chunk) -> Chunk:
        """Map a chunk as its rows are before they are summed; refuse all that can be wrong with it."""
        chunk = as_chunk(chunk, "one of them", "X")
        self.check_columns(TableKind.of(chunk).columns)
        for change in self.maps:
            if isinstance(change, ReadValues):
                check_dtypes(change.schema, TableKind.of(chunk).dtypes, is_pandas(chunk))
            chunk = change(chunk)
        return chunk

    def check_columns(self, columns: tuple) -> None:
        """Refuse a table with other columns, or with these in another order."""
        if columns != self.columns:
            here = next((name for name, asked in zip(columns, self.columns, strict=False) if name != asked), None)
            raise ValueError(
                f"X must have the {len(self.columns)} columns that are asked for, in their order, got {len(columns)}"
                + (f", among them {short_repr(here)} in another place" if here is not None else "")
                + "; select them, or give arrays everywhere or frames everywhere."
            )


# Maps

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
