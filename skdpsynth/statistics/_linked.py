"""Virtual rows of linked tables, weighed by whole numbers, and how far a root with all that hangs on it moves counts of them.

A root gives virtual rows: itself, itself with each of its children, pairs of its children, and the same of its grandchildren. Their mean
has the mass of one row, which the weights share out: a child of a parent with k children has a k-th of the mass of its parent, and each
pair of siblings an equal part. Times a public number, the total, weights are whole. So a root is that many rows of an ordinary table, or
less, and `Weights.sensitivity` says how far it moves any statistic of them, however many children it has.

Any other weights of children would give some root less mass, or another one more: a k-th is the most that each can have at this noise.
Where there is little noise, children without siblings have less, as if they had some: then a sum is closer to one where all weigh the same.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from skdpsynth._sensitivity import Query, Sensitivity
from skdpsynth.domain import Children
from skdpsynth.persistence import savable
from skdpsynth.statistics._marginals import Marginals
from skdpsynth.tables import Forest, most_of

_MOST_OF_A_LINK = 1 << 20  # by which a link multiplies the total, up to 16 children so that all weights are whole
_MOST = 1 << 37  # of a weight, so that floats hold the sums of a block of rows exactly
_SIBLINGS = 15  # with which a child is paired, at equal distances in the order of its siblings
_UNKNOWN_ROOTS = 1 << 31  # of tables whose number of roots is private


@dataclass(frozen=True)
class Weights:
    """Whole-number weights of the rows of a chunk, where those of one unit sum to a public number, or to less.

    Attributes
    ----------
    place : int or None
        Where the column of weights stands in a chunk; None: every row is a unit.
    total : int
        The most that the weights of a unit sum to.
    """

    place: int | None = None
    total: int = 1

    def sensitivity(self, of_row: Callable[[str], Sensitivity], relation: str) -> Sensitivity:
        """Return how far a unit moves a statistic that a row moves by what `of_row` says under a relation: a public fact.

        A row of weight w is w equal rows, so a unit is as many rows as its weights sum to, and if that is less than the total, the others
        are missing. Put those of a unit and of its neighbor side by side: each becomes another one, comes, or goes. So by the triangle
        inequality they move all norms by the total times the larger of the two relations; where units come or go, so do their rows.

        It is reached where all rows of a unit are alike, as those of children and of siblings that are alike.
        """
        moved = of_row(relation)
        if self.place is None:
            return moved
        if relation == "replace_one":
            coming, norms = of_row("add_or_remove_one"), ["l1", "l2_squared", "sup", *(["nuclear"] if moved.nuclear is not None else [])]
            moved = replace(moved, **{norm: max(getattr(moved, norm), getattr(coming, norm)) for norm in norms})
        return replace(moved.times(self.total), statistic=(*(moved.statistic or ()), ("weight", self.total)))

    def query(self, of_rows: Query, of_row: Callable[[str], Sensitivity], relation: str) -> Query:
        """Return the query of a statistic of weighted rows with the sensitivity to one unit."""
        return Query(of_rows.values, self.sensitivity(of_row, relation))

    def n_rows(self, n_units: int | None) -> int | None:
        """Return for how many rows of weight 1 whole numbers must have room; None: as for any table whose number of rows is private."""
        return n_units if self.place is None else self.total * (_UNKNOWN_ROOTS if n_units is None else max(n_units, 1))


ONE_ROW = Weights()


def total_weights(links: Sequence[Children]) -> dict[str, int]:
    """Return the total of the weights of each table, by its name: a public number. Parents come before their children in `links`.

    Weights are whole where the total of the parent is multiplied by the least common multiple of 1, ..., K of at most K children. So are
    those of pairs of siblings, as k and k - 1 have no common factor. Beyond 16 children weights are rounded down.
    """
    found = {link.of: 1 for link in links[:1]}
    for link in links:
        least = math.lcm(*range(1, most_of(link) + 1))
        found[link.table] = found[link.of] * min(least, _MOST_OF_A_LINK, _MOST // found[link.of])
    return found


@savable
@dataclass(frozen=True, eq=False)
class TableRows:
    """Linked tables become the rows of one of them, and last their weights."""

    table: str
    totals: Mapping[str, int]  # of each table, from `total_weights`
    fewest: int = 1  # rows of a parent with fewer weigh no more than if there were so many

    def __call__(self, forest: Forest) -> list[np.ndarray]:
        return [*forest.tables[self.table], _weights_of(forest, self.table, self.totals, self.fewest)]


@savable
@dataclass(frozen=True, eq=False)
class ChildRows:
    """Linked tables become the rows of one of them, each behind that of its parent, and last their weights.

    With `sizes`, the numbers of codes of the columns, parents without rows come too: the code after the last says that there is no row.
    """

    table: str
    totals: Mapping[str, int]
    sizes: tuple[int, ...] | None = None
    fewest: int = 1  # as in `TableRows`

    def __call__(self, forest: Forest) -> list[np.ndarray]:
        owner, columns = forest.owners[self.table], forest.tables[self.table]
        weights = _weights_of(forest, self.table, self.totals, self.fewest)
        if self.sizes is not None:
            empty = np.flatnonzero(forest.counts(self.table) == 0)
            owner, weights = (
                np.concatenate(each) for each in ((owner, empty), (weights, _shared_mass(forest, self.table, self.totals)[empty]))
            )
            columns = [np.append(column, np.full(len(empty), size)) for column, size in zip(columns, self.sizes, strict=True)]
        return [*(column[owner] for column in forest.tables[forest.parents[self.table]]), *columns, weights]


@savable
@dataclass(frozen=True, eq=False)
class SiblingRows:
    """Linked tables become pairs of rows of one of them that have one parent, and last their weights.

    All ordered pairs; beyond 16 siblings, each with 15 others at equal distances.
    """

    table: str
    totals: Mapping[str, int]

    def __call__(self, forest: Forest) -> list[np.ndarray]:
        owner = forest.owners[self.table]
        first, second, n_pairs = _siblings(owner, forest.counts(self.table))
        weights = _shared_mass(forest, self.table, self.totals)[owner[first]] // n_pairs
        columns = forest.tables[self.table]
        return [*(column[first] for column in columns), *(column[second] for column in columns), weights]


@savable
@dataclass(frozen=True, eq=False)
class HistoryRows:
    """Linked tables become rows of a history with the next ones, behind the row of their parent, and last their weights.

    A row that is alone stands before one that is not there, and where a parent has no row, neither is there: the code after the last one
    of each column says so. So a parent has all of its mass, whatever its history.
    """

    table: str
    totals: Mapping[str, int]
    sizes: tuple[int, ...]  # number of codes of each column

    def __call__(self, forest: Forest) -> list[np.ndarray]:
        owner, counts = forest.owners[self.table], forest.counts(self.table)
        before, alone, empty = (np.flatnonzero(each) for each in (owner[1:] == owner[:-1], counts[owner] == 1, counts == 0))
        parents, gone = np.concatenate([owner[before], owner[alone], empty]), len(owner)
        first = np.concatenate([before, alone, np.full(len(empty), gone)])
        second = np.concatenate([before + 1, np.full(len(alone) + len(empty), gone)])
        weights = _shared_mass(forest, self.table, self.totals)[parents] // np.maximum(counts[parents] - 1, 1)
        of_parents = [column[parents] for column in forest.tables[forest.parents[self.table]]]
        columns = [np.append(column, size) for column, size in zip(forest.tables[self.table], self.sizes, strict=True)]
        return [*of_parents, *(column[first] for column in columns), *(column[second] for column in columns), weights]


def _weights_of(forest: Forest, table: str, totals: Mapping[str, int], fewest: int = 1) -> np.ndarray:
    """Return the weight of each row of a table: as its parent's, but shared with its siblings, as if there were `fewest` at least."""
    if table == forest.root:
        return np.ones(len(forest), dtype=np.int64)
    owner = forest.owners[table]
    return (_shared_mass(forest, table, totals) // np.maximum(forest.counts(table), fewest))[owner]


def _shared_mass(forest: Forest, table: str, totals: Mapping[str, int]) -> np.ndarray:
    """Return what the children of each parent share, in units of their own total."""
    parent = forest.parents[table]
    return _weights_of(forest, parent, totals) * (totals[table] // totals[parent])


def _siblings(owner: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the places of ordered pairs of siblings, and how many such pairs their parent has."""
    k = counts[owner]
    start = (np.cumsum(counts) - counts)[owner]
    n_others = np.minimum(k - 1, _SIBLINGS)
    first = np.repeat(np.arange(len(owner)), n_others)
    number = np.arange(len(first)) - np.repeat(np.cumsum(n_others) - n_others, n_others)
    distance = (2 * number + 1) * (k - 1)[first] // (2 * n_others[first]) + 1
    second = start[first] + (first - start[first] + distance) % k[first]
    return first, second, (k * n_others)[first]


# The table of a column of one row with the same column of its sibling: both orders of a pair are rows, so it is symmetric.


def fold_symmetric(table: np.ndarray) -> np.ndarray:
    """Return the counts of unordered cells of tables of shape (..., m, m), of each m (m + 1) / 2.

    A row is in one such cell, so they are a table like any other.
    """
    first, second = np.triu_indices(table.shape[-1])
    return table[..., first, second] + np.where(first == second, 0, table[..., second, first])


def fold_tables(exact: Marginals, places: Collection[int]) -> Marginals:
    """Return exact tables, of which those at some places have unordered cells."""
    tables = [fold_symmetric(table) if place in places else table for place, table in enumerate(exact.tables())]
    return Marginals(tuple(table.shape for table in tables), np.concatenate([np.zeros(0, dtype=np.int64), *map(np.ravel, tables)]))


def unfold_symmetric(counts: np.ndarray, size: int) -> np.ndarray:
    """Return counts of unordered cells, shape (..., size (size + 1) / 2), as symmetric tables; both orders have half of a count.

    So noise of variance v on a count leaves v on the diagonal and v / 4 beside it, where each number stands twice: in a sum of squares over
    all cells it counts as v / 2. Noise on ordered cells, averaged over both orders, would count as v.
    """
    first, second = np.triu_indices(size)
    table = np.zeros((*counts.shape[:-1], size, size))
    table[..., first, second] = table[..., second, first] = counts * np.where(first == second, 1.0, 0.5)
    return table


def symmetric_precision(size: int) -> float:
    """Return how much less variance a cell of `unfold_symmetric` counts for, as a mean over cells: 1 on the diagonal, 2 beside it."""
    return 2 - 1 / size
