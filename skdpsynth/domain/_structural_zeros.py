"""Columns that rules tie: which tuples of their codes can occur."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdpsynth._state_validation import is_array, require
from skdpsynth.domain._axes import Axis
from skdpsynth.domain._order_constraints import Orders
from skdpsynth.persistence import savable

_SLACK = 8  # tuples of some of the columns may be so many times more than those of all


@savable
@dataclass(frozen=True, eq=False)
class Cells:
    """What the codes of a column stand for.

    Attributes
    ----------
    n_levels : int
        Of a column of levels; 0 for numbers.
    least, most : ndarray of shape (n_bins,)
        Of numbers, on the axis; of levels empty.
    nullable : bool
        Whether a last code stands for a missing cell.
    """

    n_levels: int
    least: np.ndarray
    most: np.ndarray
    nullable: bool

    def _check_loaded(self) -> None:
        require(self.n_levels >= 0 and is_array(self.least, "if", -1) and is_array(self.most, "if", len(self.least)) and self.size > 0)

    @property
    def size(self) -> int:
        """Number of codes."""
        return self.n_levels + len(self.least) + self.nullable

    @property
    def missing(self) -> np.ndarray:
        """Whether each code stands for a missing cell."""
        return np.arange(self.size) >= self.n_levels + len(self.least)


@savable
@dataclass(frozen=True, eq=False)
class Condition:
    """What a cell of a column may be, as an `Impossible` says it.

    Attributes
    ----------
    levels : tuple of int
        Codes.
    ranges : tuple of (low, high)
        On the axis, both ends included.
    missing : bool
    """

    levels: tuple
    ranges: tuple
    missing: bool

    def of(self, cells: Cells) -> np.ndarray:
        """Return whether each code meets it; a bin of numbers, if all of it does."""
        met = cells.missing & self.missing
        if cells.n_levels:
            met[list(self.levels)] = True
        for low, high in self.ranges:
            met[: len(cells.least)] |= (cells.least >= low) & (cells.most <= high)
        return met

    def of_values(self, shown: np.ndarray, missing: np.ndarray) -> np.ndarray:
        """Return whether each cell meets it: codes of levels, or numbers on the axis."""
        met = np.zeros(len(shown), dtype=bool)
        if self.levels:
            met |= np.isin(shown, self.levels)
        for low, high in self.ranges:
            met |= (shown >= low) & (shown <= high)
        return np.where(missing, self.missing, met)


@savable
@dataclass(frozen=True, eq=False)
class Tie:
    """A set of columns of which rules say something together; other columns have no part in it.

    Attributes
    ----------
    columns : tuple
    axes : dict of column to Axis
        Of those that are numbers or times.
    impossible : tuple of dict of column to Condition
    together : tuple of tuple of columns
        Missing all or none.
    tables : tuple of (columns, ndarray of bool)
        Which tuples of codes occur, with a place for a missing cell after the levels of each.
    orders : Orders
    """

    columns: tuple
    axes: Mapping[Any, Axis]
    impossible: tuple
    together: tuple
    tables: tuple
    orders: Orders

    @property
    def ordered(self) -> frozenset:
        """The columns of numbers that are compared or added up, whose bins all differ."""
        return frozenset(self.orders.columns)

    def trimmed(self, name: Any, cells: Cells) -> Cells:
        """Return bins without the ends that rounding puts into a range of an `Impossible` that the rest of the bin is not in.

        The ends of ranges are edges of bins, but a number just beyond one may be written as the end itself, in a column of 32 bits.
        """
        if not len(cells.least):
            return cells
        axis, least, most = self.axes[name], cells.least.copy(), cells.most.copy()
        for low, high in self.ranges(name):
            partly = ~((least >= low) & (most <= high))
            least = np.where(partly & (least >= low) & (least <= high), axis.after(np.full_like(least, high)), least)
            most = np.where(partly & (most >= low) & (most <= high), axis.before(np.full_like(most, low)), most)
        return Cells(0, least, most, cells.nullable)

    def ranges(self, name: Any) -> list[tuple]:
        """Return all ranges of an `Impossible` on a column."""
        return [each for conditions in self.impossible if name in conditions for each in conditions[name].ranges]

    def classes(self, name: Any, cells: Cells) -> np.ndarray:
        """Return the class of each code: codes that no rule tells apart are one class."""
        told = [conditions[name].of(cells).astype(np.int64) for conditions in self.impossible if name in conditions]
        told.append(cells.missing.astype(np.int64))
        if len(cells.least):  # bins that rounding leaves empty
            told.append(np.append(cells.least > cells.most, [False] * cells.nullable).astype(np.int64))
        if name in self.ordered or any(name in columns for columns, _ in self.tables):
            told.append(np.arange(cells.size))
        return np.unique(np.array(told), axis=1, return_inverse=True)[1].ravel().astype(np.int64)

    def tuples(self, cells: Mapping[Any, Cells], most: int) -> tuple[dict[Any, np.ndarray], np.ndarray | None]:
        """Return (the class of each code of each column, the tuples of classes that can occur).

        Parameters
        ----------
        cells : dict of column to Cells
        most : int
            Of more tuples, None is returned in their place.

        Returns
        -------
        classes : dict of column to ndarray
        tuples : ndarray of shape (n_tuples, n_columns), int64, or None
            In the order of `columns`.
        """
        cells = {name: self.trimmed(name, cells[name]) for name in self.columns}
        classes = {name: self.classes(name, cells[name]) for name in self.columns}
        first = {name: np.unique(classes[name], return_index=True)[1] for name in self.columns}  # a code of each class
        found, names = np.zeros((1, 0), dtype=np.int64), []
        for name in self._near_each_other():
            n_classes = len(first[name])
            if len(found) * n_classes > most * _SLACK * 8:
                return classes, None
            names.append(name)
            found = np.column_stack([np.repeat(found, n_classes, axis=0), np.tile(np.arange(n_classes), len(found))])
            codes = {each: first[each][found[:, place]] for place, each in enumerate(names)}
            found = found[self.can_occur(names, codes, cells)]
            if len(found) > most * _SLACK:
                return classes, None
        tuples = found[:, [names.index(name) for name in self.columns]]
        return classes, tuples if len(tuples) <= most else None

    def _near_each_other(self) -> list[Any]:
        """Return the columns, each after one that a rule ties it to."""
        sets = [set(conditions) for conditions in self.impossible] + [set(names) for names in self.together]
        sets += [set(names) for names, _ in self.tables] + [{first, second} for first, second, _ in self.orders.edges]
        names: list[Any] = []
        while len(names) < len(self.columns):
            left = [name for name in self.columns if name not in names]
            names.append(max(left, key=lambda name: sum(name in each and bool(each & set(names)) for each in sets)))
        return names

    def about(self, names: Sequence[Any]) -> "Tie":
        """Return what is said of any of some columns; what is said of the others alone is left out."""
        told = set(names)
        edges = tuple(edge for edge in self.orders.edges if told & set(edge[:2]))
        total = self.orders.total if self.orders.total and told & set(self.orders.total[0]) else None
        compared = {name for edge in edges for name in edge[:2]} | set(total[0] if total else ())
        orders = Orders(tuple(name for name in self.orders.columns if name in compared), edges, self.orders.axes, total)
        impossible = tuple(conditions for conditions in self.impossible if told & set(conditions))
        together = tuple(columns for columns in self.together if told & set(columns))
        return replace(
            self, impossible=impossible, together=together, tables=tuple(t for t in self.tables if told & set(t[0])), orders=orders
        )

    def holds(self, shown: Mapping[Any, np.ndarray], missing: Mapping[Any, np.ndarray]) -> np.ndarray:
        """Return which rows keep all of it: of numbers as they stand on the axes, and numbers of levels."""
        kept = np.ones(len(shown[self.columns[0]]), dtype=bool)
        for conditions in self.impossible:
            kept &= ~np.all([condition.of_values(shown[name], missing[name]) for name, condition in conditions.items()], axis=0)
        for together in self.together:
            gone = [missing[name] for name in together]
            kept &= np.all(gone, axis=0) == np.any(gone, axis=0)
        for columns, allowed in self.tables:
            kept &= allowed[tuple(shown[name].astype(np.int64) for name in columns)]
        return kept & self.orders.holds(shown, missing) if self.orders.columns else kept

    def can_occur(self, names: Sequence[Any], codes: Mapping[Any, np.ndarray], cells: Mapping[Any, Cells]) -> np.ndarray:
        """Return which tuples of codes of some columns break no rule on these alone."""
        missing = {name: cells[name].missing[codes[name]] for name in names}
        can = np.ones(len(codes[names[0]]), dtype=bool)
        for conditions in self.impossible:
            if set(conditions) <= set(names):
                can &= ~np.all([condition.of(cells[name])[codes[name]] for name, condition in conditions.items()], axis=0)
        for together in self.together:
            gone = [missing[name] for name in together if name in names]
            if gone:
                can &= np.all(gone, axis=0) == np.any(gone, axis=0)
        for columns, allowed in self.tables:
            if set(columns) <= set(names):
                can &= allowed[tuple(codes[name] for name in columns)]
        orders = self.orders.among(names)
        least, most = {}, {}
        for name in names:
            if len(cells[name].least):
                least[name], most[name] = ends_of(cells[name], codes[name])
                can &= missing[name] | (least[name] <= most[name])
        if orders.columns:
            can &= orders.can_hold({n: least[n] for n in orders.columns}, {n: most[n] for n in orders.columns}, missing)
        return can


def ends_of(cells: Cells, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and the most of each cell; of a missing one, those of the last bin."""
    bins = np.minimum(codes, len(cells.least) - 1)
    return cells.least[bins], cells.most[bins]


def cells_of_numbers(axis: Axis, first: np.ndarray, last: np.ndarray, nullable: bool) -> Cells:
    """Return cells of bins of numbers, from the first and the last value of each, as `read` gives them."""
    return Cells(0, axis.shown(np.asarray(first, dtype=float)), axis.shown(np.asarray(last, dtype=float)), nullable)


def cells_of_levels(n_levels: int, nullable: bool) -> Cells:
    """Return cells of a column of levels."""
    return Cells(n_levels, np.zeros(0), np.zeros(0), nullable)
