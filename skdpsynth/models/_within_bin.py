"""Numbers within bins: columns whose codes are bins of cells, and pairs of columns whose difference has a law."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdpsynth._parallel import cached_property
from skdpsynth.domain import AllowedCells, Grid, Schema, grids_of
from skdpsynth.models._quantile_bins import CellsInBins, LevelGroups, Link
from skdpsynth.models._structural_zeros import ConstrainedColumns, WeightedPair
from skdpsynth.persistence import savable

_FLOOR = 1e-4  # of the weight of a pair of bins, where 1 is that of independent columns: no pair is excluded
_NARROW = 1e-6  # width of the range that stands for a single real number
MIN_LEAD = 1e-6  # of the numbers of a bin's mass that differences place in the other bin: below it they tell nothing


@dataclass(frozen=True, eq=False)
class LinkedColumn(ABC):
    """Cells in bins, and a value in each; the code after the last bin is a missing cell."""

    inside: CellsInBins
    n_bins: int
    missing: float  # the value of a missing cell: NaN, or the number after the last level

    @abstractmethod
    def place(self, cells: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return a value in each of some cells."""

    @abstractmethod
    def codes_of(self, values: np.ndarray) -> np.ndarray:
        """Return the codes of values."""

    @abstractmethod
    def condition(self, wanted: AllowedCells) -> tuple["LinkedColumn", np.ndarray]:
        """Return (the column on a condition, the probability of the condition in each bin), exactly."""

    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the first and the last number of each bin that a condition leaves; those of the column, where none is left."""
        first, last = self._ends_of_cells()
        low, high = _ends_of_bins(self, first, last, first <= last)
        held = low <= high
        return (np.where(held, low, low.min()), np.where(held, high, high.max())) if held.any() else (np.zeros(self.n_bins),) * 2

    @abstractmethod
    def _ends_of_cells(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the first and the last number of each cell."""


@dataclass(frozen=True, eq=False)
class NumberColumn(LinkedColumn):
    """Numbers of a continuous column, uniform within each cell."""

    grid: Grid
    nearest: np.ndarray  # of each bin, the nearest one with mass

    @classmethod
    def of(cls, link: Link, grid: Grid) -> "NumberColumn":
        bins, some = np.arange(link.n_bins), np.flatnonzero(link.masses)
        return cls(CellsInBins.of(link), link.n_bins, np.nan, grid, some[np.abs(bins[:, None] - some).argmin(axis=1)])

    def codes_of(self, values: np.ndarray) -> np.ndarray:
        return np.append(self.nearest, self.n_bins)[np.append(self.inside.bins, self.n_bins)[self.grid.locate(values)]]

    def place(self, cells: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return self.grid.place(cells, rng)

    def _ends_of_cells(self) -> tuple[np.ndarray, np.ndarray]:
        edges = self.grid.edges
        last = edges[1:] - 1 if self.grid.kind.integer else np.nextafter(edges[1:], -np.inf)
        return edges[:-1], np.minimum(last, self.grid.kind.high)

    def condition(self, wanted: AllowedCells) -> tuple[LinkedColumn, np.ndarray]:
        """Condition on a range, of whose first and last cell a part may be left, or on some whole numbers."""
        if wanted.among is None:
            part, widths = self.grid.within(wanted.low, wanted.high), self.grid.widths
            left = np.divide(part.widths, widths, out=np.zeros(len(widths)), where=widths > 0)  # 0: a condition before has taken all of it
            inside, shares = self.inside.condition(left, self.n_bins)
            return replace(self, inside=inside, grid=part), shares
        # Each number becomes a cell, with its share of the one that it was in.
        numbers = wanted.among[(wanted.among >= self.grid.edges[0]) & (wanted.among < self.grid.edges[-1])]
        cells = self.grid.locate(numbers)
        inside, shares = self.inside.select(cells).condition(1 / self.grid.widths[cells], self.n_bins)
        return ListedColumn(inside, self.n_bins, np.nan, numbers), shares


@dataclass(frozen=True, eq=False)
class ListedColumn(LinkedColumn):
    """Values that are cells: some numbers of a continuous column, or the levels of a column of very many, whose codes are groups."""

    numbers: np.ndarray  # values, or numbers of levels

    def codes_of(self, values: np.ndarray) -> np.ndarray:
        order = np.argsort(self.numbers)  # a missing cell sorts to the end
        return np.append(self.inside.bins[order], self.n_bins)[np.searchsorted(self.numbers, values, sorter=order)]

    def place(self, cells: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return self.numbers[cells]

    def _ends_of_cells(self) -> tuple[np.ndarray, np.ndarray]:
        return self.numbers, self.numbers

    def condition(self, wanted: AllowedCells) -> tuple[LinkedColumn, np.ndarray]:
        inside, shares = self.inside.condition(wanted.of(self.numbers).astype(float), self.n_bins)
        return replace(self, inside=inside), shares


def link_column(link: Link | LevelGroups, grid: Grid | None) -> LinkedColumn:
    if isinstance(link, LevelGroups):
        return ListedColumn(CellsInBins.of(link.link), link.n_bins, len(link.order), link.order)
    assert grid is not None
    return NumberColumn.of(link, grid)


@savable
@dataclass(frozen=True, eq=False, repr=False)
class DifferenceLaw:
    """The law of the difference of two columns of numbers, the second less the first, from noisy counts."""

    first: Hashable
    second: Hashable
    edges: np.ndarray  # of cells of differences, within which they are uniform
    mass: np.ndarray  # of the cells
    whole: bool  # whether the numbers are whole

    def __repr__(self) -> str:
        return f"DifferenceLaw(first={self.first!r}, second={self.second!r})"

    @property
    def upto(self) -> np.ndarray:
        """P(difference < edge), shape (n_cells + 1,)."""
        upto = np.concatenate([[0.0], np.cumsum(self.mass)])
        return upto / upto[-1]

    def below(self, differences: np.ndarray) -> np.ndarray:
        """Return P(difference < each of these)."""
        return np.interp(differences, self.edges, self.upto)

    def between(self, low: np.ndarray, high: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return differences drawn within ranges; where a range has no mass, its lower end."""
        least, most = self.below(low), self.below(high)
        targets = least + rng.random(len(low)) * (most - least)
        cells = np.clip(np.searchsorted(self.upto, targets, side="right") - 1, 0, len(self.mass) - 1)
        share = self.upto[cells + 1] - self.upto[cells]
        inside = np.divide(targets - self.upto[cells], share, out=np.zeros(len(low)), where=share > 0)
        found = self.edges[cells] + inside * (self.edges[cells + 1] - self.edges[cells])
        return np.where(most > least, np.clip(found, low, high), low)

    def swap_columns(self) -> "DifferenceLaw":
        # Cells begin with a whole number that they hold, and end with one that they do not: k, ..., k + w - 1 becomes 1 - k - w, ..., -k.
        return DifferenceLaw(self.second, self.first, self.whole - self.edges[::-1], self.mass[::-1].copy(), self.whole)


@dataclass(frozen=True, eq=False)
class DifferenceSampler:
    """The law of two numbers given their bins.

    A cell of the first is drawn, in proportion to its own mass in the bin times P(difference leads from its middle to the bin of the
    second), and a uniform number in it; the second is this number plus a difference that leads to its bin. Where hardly any difference
    does, the two are independent.
    """

    near: DifferenceLaw
    first: NumberColumn | ListedColumn  # maybe on a condition
    second: NumberColumn | ListedColumn
    free: np.ndarray  # pairs of bins in which the two are independent, shape (n_bins, n_bins)

    @classmethod
    def of(cls, near: DifferenceLaw, linked: Mapping[Hashable, Any]) -> "DifferenceSampler":
        found = cls(near, linked[near.first], linked[near.second], np.zeros((1, 1), dtype=bool))
        return replace(found, free=found.shares < MIN_LEAD)

    @classmethod
    def of_links(cls, near: DifferenceLaw, links: Mapping[Hashable, Any], grids: Mapping[Hashable, Grid]) -> "DifferenceSampler":
        return cls.of(near, {name: NumberColumn.of(links[name], grids[name]) for name in (near.first, near.second)})

    @property
    def names(self) -> tuple[Hashable, Hashable]:
        return self.near.first, self.near.second

    def on(self, linked: Mapping[Hashable, Any]) -> "DifferenceSampler":
        return replace(self, first=linked[self.near.first], second=linked[self.near.second])

    @cached_property
    def _cells(self) -> np.ndarray:
        """P(difference leads to the remaining numbers of each bin of the second | cell of the first), shape (n_cells, n_bins)."""
        low, high, bins = self._pieces
        if isinstance(self.first, ListedColumn):
            middle = self.first.numbers
        else:
            edges = self.first.grid.edges
            middle = np.floor((edges[:-1] + edges[1:] - 1) / 2) if self.first.grid.kind.integer else (edges[:-1] + edges[1:]) / 2
        lead = self._lead(middle[:, None], low[None], high[None])
        if not isinstance(self.second, ListedColumn):
            return lead
        return np.stack([lead[:, bins == code].sum(axis=1) for code in range(self.second.n_bins)], axis=1)

    def _lead(self, x: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Return P(difference leads from x to a piece of the second); for single real numbers, its density."""
        lead = self.near.below(high - x) - self.near.below(low - x)
        return lead / _NARROW if isinstance(self.second, ListedColumn) and not self.near.whole else lead

    @cached_property
    def _pieces(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Where pieces of the second begin and end, and their bins: one a bin, or one for each number that a condition leaves."""
        if isinstance(self.second, ListedColumn):
            numbers, half = self.second.numbers, 0 if self.near.whole else _NARROW / 2
            return numbers - half, numbers + (half or 1), self.second.inside.bins
        return *remaining_bin_ends(self.second), np.arange(self.second.n_bins)

    @cached_property
    def shares(self) -> np.ndarray:
        """P(difference leads to the remaining numbers of bin j | remaining numbers of bin i), shape (n_bins, n_bins)."""
        inside = self.first.inside
        lead = inside.part[:, None] * self._cells
        first = np.searchsorted(inside.bins, np.arange(self.first.n_bins + 1))
        upto = np.concatenate([np.zeros((1, lead.shape[1])), np.cumsum(lead, axis=0)])
        return upto[first[1:]] - upto[first[:-1]]

    def weights(self, of_first: np.ndarray) -> np.ndarray:
        """Return the probabilities of pairs of bins over those of independent columns, given those of the bins of the first."""
        reached = of_first @ self.shares
        return np.maximum(self.shares / np.maximum(reached, 1e-12), _FLOOR)

    def correction(self, before: "DifferenceSampler", of_second: np.ndarray | None) -> np.ndarray:
        """Return P(condition | pair of bins) over its value if numbers are independent given their bins, shape (n_bins, n_bins).

        `before` is this law without the condition; `of_second` the share of each code of the second that the condition leaves. None: all.
        """
        of_bins = 1.0 if of_second is None else of_second[: self.second.n_bins]
        with np.errstate(divide="ignore", invalid="ignore"):
            found = self.shares / (before.shares * of_bins)
        return np.where(self.free | ~np.isfinite(found), 1.0, found)

    def place(self, values: Mapping[Hashable, np.ndarray], codes: Mapping[Hashable, np.ndarray], rng: np.random.Generator) -> None:
        """Change the numbers of rows within their bins, in place."""
        first, second = self.names
        i, j = (np.asarray(codes[name], dtype=np.int64) for name in self.names)
        known = np.flatnonzero((i < self.first.n_bins) & (j < self.second.n_bins))
        rows = known[~self.free[i[known], j[known]] & (self.shares[i[known], j[known]] > 0)]
        if len(rows):
            inside, cells = self.first.inside, np.empty(len(rows), dtype=np.int64)
            starts = np.searchsorted(inside.bins, np.arange(self.first.n_bins + 1))
            for code in np.unique(j[rows]):
                some = np.flatnonzero(j[rows] == code)
                upto = np.concatenate([[0.0], np.cumsum(inside.part * self._cells[:, code])])
                start, stop = starts[i[rows[some]]], starts[i[rows[some]] + 1]
                drawn = np.searchsorted(upto, upto[start] + rng.random(len(some)) * (upto[stop] - upto[start]), side="right") - 1
                cells[some] = np.clip(drawn, start, stop - 1)
            x = self.first.place(cells, rng)
            values[first][rows] = x
            values[second][rows] = self.beside(x, j[rows], rng)

    def beside(self, x: np.ndarray, j: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return the second number of each row: the first plus a difference that leads to its bin."""
        low, high, bins = self._pieces
        if isinstance(self.second, ListedColumn):
            out = np.empty(len(x))
            for code in np.unique(j):
                rows, own = np.flatnonzero(j == code), np.flatnonzero(bins == code)
                upto = np.cumsum(self._lead(x[rows, None], low[own], high[own]) + 1e-300, axis=1)
                chosen = (upto < rng.random((len(rows), 1)) * upto[:, -1:]).sum(axis=1)
                out[rows] = self.second.numbers[own[chosen]]
            return out
        y = x + self.near.between(low[j] - x, high[j] - x, rng)
        if self.near.whole:
            y = np.floor(y)
        least, most = self.second.ends()
        return np.clip(y, least[j], most[j])


def remaining_bin_ends(column: NumberColumn) -> tuple[np.ndarray, np.ndarray]:
    """Return where the remaining numbers of each bin begin and end; twice 0, where there are none."""
    starts, stops = column.grid.edges[:-1], column.grid.edges[1:]
    low, high = _ends_of_bins(column, starts, stops, stops > starts)
    return np.where(low > high, 0.0, low), np.where(low > high, 0.0, high)


def _ends_of_bins(column: LinkedColumn, first: np.ndarray, last: np.ndarray, left: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and the largest end in each bin of the cells that are left; infinite ones where there is none."""
    low, high = np.full(column.n_bins, np.inf), np.full(column.n_bins, -np.inf)
    np.minimum.at(low, column.inside.bins[left], first[left])
    np.maximum.at(high, column.inside.bins[left], last[left])
    return low, high


def joint_columns(tied: Sequence[ConstrainedColumns], near: Sequence[DifferenceLaw]) -> set[Hashable]:
    """Return the columns that are drawn together with others, by rules or by a difference."""
    return {name for each in tied for name in each.tie.columns} | {name for each in near for name in (each.first, each.second)}


def orient_difference(near: DifferenceLaw, links: Mapping[Hashable, Link], grids: Mapping[Hashable, Grid]) -> DifferenceLaw:
    """Choose as the second column the one that the first plus an independent difference explains better."""

    def miss(each: DifferenceLaw) -> float:
        own, other = (links[name].masses for name in (each.first, each.second))
        return float(np.abs(own @ DifferenceSampler.of_links(each, links, grids).shares - other).sum())

    return min(near, near.swap_columns(), key=miss)


def difference_pairs(
    near: Sequence[DifferenceLaw], schema: Schema, links: Mapping[Hashable, Any], names: Sequence[Hashable], block: Sequence[int]
) -> tuple[WeightedPair, ...]:
    """Return the pairs of a block of columns with the weights of their codes; a missing cell says nothing of the other column."""
    places, grids = {names[place]: number for number, place in enumerate(block)}, grids_of(schema) if near else {}
    out = []
    for each in near:
        pair = (each.first, each.second)
        if not set(pair) <= set(places):
            continue
        weights = DifferenceSampler.of_links(each, links, grids).weights(links[each.first].masses)
        weights = np.pad(weights, [(0, int(schema[name].nullable)) for name in pair], constant_values=1.0)
        out.append(WeightedPair((places[each.first], places[each.second]), weights))
    return tuple(out)
