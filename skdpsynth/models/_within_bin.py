"""Columns whose codes are bins of cells: values drawn within a bin, and conditions on the cells."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from skdpsynth.domain import AllowedCells, Continuous, Grid
from skdpsynth.models._quantile_bins import CellsInBins, Link
from skdpsynth.models._rare_levels import LevelGroups


@dataclass(frozen=True, eq=False)
class LinkedColumn(ABC):
    """Cells in bins, and a value in each; the code after the last bin is a missing cell."""

    inside: CellsInBins
    n_bins: int

    @property
    @abstractmethod
    def missing(self) -> Any:
        """The value of a missing cell."""

    @abstractmethod
    def place(self, cells: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return a value in each of some cells."""

    @abstractmethod
    def _cells(self, values: np.ndarray) -> np.ndarray:
        """Return the cells of values; -1 of a missing one."""

    def codes_of(self, values: np.ndarray) -> np.ndarray:
        return np.append(self.inside.bins, self.n_bins)[self._cells(values)]

    @abstractmethod
    def given(self, wanted: AllowedCells) -> tuple["LinkedColumn", np.ndarray]:
        """Return (the column on a condition, the probability of the condition in each bin), exactly."""


@dataclass(frozen=True, eq=False)
class OrderedColumn(LinkedColumn):
    """A column of numbers, whose bins have ends."""

    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the first and the last value of each bin that a condition leaves; those of the column, where none is left."""
        first, last = self._ends_of_cells()
        left = first <= last
        if not left.any():
            return np.zeros(self.n_bins), np.zeros(self.n_bins)
        bins, low, high = self.inside.bins[left], np.full(self.n_bins, np.inf), np.full(self.n_bins, -np.inf)
        np.minimum.at(low, bins, first[left])
        np.maximum.at(high, bins, last[left])
        return np.where(low <= high, low, low.min()), np.where(low <= high, high, high.max())

    @abstractmethod
    def _ends_of_cells(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the first and the last value of each cell."""


@dataclass(frozen=True, eq=False)
class NumberColumn(OrderedColumn):
    """Numbers of a continuous column, uniform within each cell."""

    grid: Grid
    nearest: np.ndarray  # of each bin, the nearest one with mass
    missing: ClassVar[float] = np.nan

    @classmethod
    def of(cls, link: Link, grid: Grid) -> "NumberColumn":
        bins, some = np.arange(link.n_bins), np.flatnonzero(link.masses)
        return cls(CellsInBins.of(link), link.n_bins, grid, some[np.abs(bins[:, None] - some).argmin(axis=1)])

    def codes_of(self, values: np.ndarray) -> np.ndarray:
        return np.append(self.nearest, self.n_bins)[super().codes_of(values)]

    def place(self, cells: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return self.grid.place(cells, rng)

    def _ends_of_cells(self) -> tuple[np.ndarray, np.ndarray]:
        edges = self.grid.edges
        last = edges[1:] - 1 if self.grid.kind.integer else np.nextafter(edges[1:], -np.inf)
        return edges[:-1], np.minimum(last, self.grid.kind.high)

    def _cells(self, values: np.ndarray) -> np.ndarray:
        return self.grid.locate(values)

    def given(self, wanted: AllowedCells) -> tuple[LinkedColumn, np.ndarray]:
        """Condition on a range, of whose first and last cell a part may be left, or on some whole numbers."""
        if wanted.among is None:
            part, widths = self.grid.within(wanted.low, wanted.high), self.grid.widths
            left = np.divide(part.widths, widths, out=np.zeros(len(widths)), where=widths > 0)  # 0: a condition before has taken all of it
            inside, shares = self.inside.given(left, self.n_bins)
            return replace(self, inside=inside, grid=part), shares
        # Each number becomes a cell, with its share of the one that it was in.
        numbers = wanted.among[(wanted.among >= self.grid.edges[0]) & (wanted.among < self.grid.edges[-1])]
        cells = self.grid.locate(numbers)
        inside, shares = self.inside.taken(cells).given(1 / self.grid.widths[cells], self.n_bins)
        return MemberColumn(inside, self.n_bins, numbers), shares


@dataclass(frozen=True, eq=False)
class MemberColumn(OrderedColumn):
    """Some numbers of a continuous column, each of which is a cell."""

    numbers: np.ndarray
    missing: ClassVar[float] = np.nan

    def place(self, cells: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return self.numbers[cells]

    def _ends_of_cells(self) -> tuple[np.ndarray, np.ndarray]:
        return self.numbers, self.numbers

    def _cells(self, values: np.ndarray) -> np.ndarray:
        return np.where(np.isnan(values), -1, np.searchsorted(self.numbers, values))

    def given(self, wanted: AllowedCells) -> tuple[LinkedColumn, np.ndarray]:
        if wanted.among is None:
            kept = (self.numbers >= wanted.low) & (self.numbers <= wanted.high)
        else:
            kept = np.isin(self.numbers, wanted.among)
        inside, shares = self.inside.given(kept.astype(float), self.n_bins)
        return replace(self, inside=inside), shares


@dataclass(frozen=True, eq=False)
class LevelColumn(LinkedColumn):
    """Levels of a column of very many, whose codes are groups of them."""

    order: np.ndarray

    @classmethod
    def of(cls, groups: LevelGroups) -> "LevelColumn":
        return cls(CellsInBins.of(groups.link), groups.n_bins, groups.order)

    @property
    def missing(self) -> int:
        return len(self.order)

    def place(self, cells: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return self.order[cells]

    def _cells(self, values: np.ndarray) -> np.ndarray:
        cells = np.full(len(self.order) + 1, -1)
        cells[self.order] = np.arange(len(self.order))
        return cells[values]

    def given(self, wanted: AllowedCells) -> tuple[LinkedColumn, np.ndarray]:
        inside, shares = self.inside.given(np.isin(self.order, wanted.chosen).astype(float), self.n_bins)
        return replace(self, inside=inside), shares


def link_column(link: Link | LevelGroups, kind: Any, grid: Grid | None) -> LinkedColumn:
    if isinstance(link, LevelGroups):
        return LevelColumn.of(link)
    assert isinstance(kind, Continuous)
    assert grid is not None
    return NumberColumn.of(link, grid)
