"""Columns in order: the least and the largest values that inequalities leave, and the nearest rows that keep them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpsynth.domain._axes import Axis
from skdpsynth.persistence import savable

Columns = Mapping[Any, np.ndarray]


@savable
@dataclass(frozen=True, eq=False)
class Orders:
    """Inequalities between columns, and at most one sum of them within bounds. Cells that are missing bind nothing.

    Attributes
    ----------
    columns : tuple
        Each after those that are at most as large.
    edges : tuple of (low, high, strict)
    axes : dict of column to Axis
        All values here are those of the axes.
    total : tuple of (columns, low, high) or None
        What the columns must sum to.

    Notes
    -----
    Every step is a monotone map of the values before it, so the least solution is found from the front and the largest from the back.
    Solutions lie between both, and there are some if no least value is above the largest that its column can have. The sums of solutions
    fill the interval between those of the least and the largest one, as far as the steps of the columns allow: going from the largest to
    the least, one column after the other in their order, stays among solutions.
    """

    columns: tuple
    edges: tuple
    axes: Mapping[Any, Axis]
    total: Any = None

    def among(self, names: Sequence[Any]) -> "Orders":
        """Return what is said of some of the columns."""
        known = set(names)
        edges = tuple(edge for edge in self.edges if edge[0] in known and edge[1] in known)
        total = self.total if self.total and set(self.total[0]) <= known else None
        return Orders(tuple(name for name in self.columns if name in known), edges, self.axes, total)

    def lowest(self, least: Columns, missing: Columns) -> dict[Any, np.ndarray]:
        """Return the least solution, given the least value of each cell."""
        low = dict(least)
        for name in self.columns:
            low[name] = self._above(name, low, low[name], missing)
        return low

    def highest(self, most: Columns, missing: Columns) -> dict[Any, np.ndarray]:
        """Return the largest solution, given the largest value of each cell."""
        high = dict(most)
        for name in reversed(self.columns):
            for first, second, strict in self.edges:
                if first == name:
                    bound = self.axes[name].floor(high[second] - 1 if strict else high[second])
                    high[name] = np.where(missing[second], high[name], np.minimum(high[name], bound))
        return high

    def _above(self, name: Any, x: Columns, at_least: np.ndarray, missing: Columns) -> np.ndarray:
        for first, second, strict in self.edges:
            if second == name:
                bound = self.axes[name].ceil(x[first] + 1 if strict else x[first])
                at_least = np.where(missing[first], at_least, np.maximum(at_least, bound))
        return at_least

    def can_hold(self, least: Columns, most: Columns, missing: Columns) -> np.ndarray:
        """Return whether values between the least and the most of each cell can keep all of it."""
        low = self.lowest(least, missing)
        holds = np.ones(np.shape(next(iter(least.values()))), dtype=bool)
        for name in self.columns:
            holds &= (low[name] <= most[name]) | missing[name]
        if self.total is not None:
            names, bottom, top = self.total
            high, gone = self.highest(most, missing), np.any([missing[name] for name in names], axis=0)
            holds &= gone | ((_sum(low, names) <= top) & (_sum(high, names) >= bottom))
        return holds

    def holds(self, x: Columns, missing: Columns) -> np.ndarray:
        """Return whether each row keeps all of it."""
        kept = np.ones(len(next(iter(x.values()))), dtype=bool)
        for first, second, strict in self.edges:
            kept &= missing[first] | missing[second] | (x[first] < x[second] if strict else x[first] <= x[second])
        if self.total is not None:
            names, bottom, top = self.total
            whole, gone = _sum(x, names), np.any([missing[name] for name in names], axis=0)
            kept &= gone | ((whole >= bottom) & (whole <= top))
        return kept

    def repaired(self, x: Columns, least: Columns, most: Columns, missing: Columns) -> dict[Any, np.ndarray]:
        """Return rows near to these that keep all of it, between the least and the most of each cell, where that can be."""
        low, high, x = self.lowest(least, missing), self.highest(most, missing), dict(x)
        for name in self.columns:
            x[name] = np.minimum(np.maximum(self._above(name, x, low[name], missing), x[name]), high[name])
        if self.total is not None:
            self._move_sum(x, low, high, missing)
        return x

    def solved(self, least: Columns, most: Columns, missing: Columns, rng: np.random.Generator) -> dict[Any, np.ndarray]:
        """Return rows that keep all of it, where that can be: each number uniform in what those before it leave."""
        low, high, x = self.lowest(least, missing), self.highest(most, missing), dict(least)
        for name in self.columns:
            start = self._above(name, x, low[name], missing)
            drawn = start + (high[name] - start) * rng.random(len(start))
            drawn = drawn if not self.axes[name].is_whole else np.rint(drawn)
            x[name] = np.minimum(np.maximum(self.axes[name].floor(drawn), start), np.maximum(high[name], start))
        if self.total is not None:
            self._move_sum(x, low, high, missing)
        return x

    def _move_sum(self, x: dict[Any, np.ndarray], low: Columns, high: Columns, missing: Columns) -> None:
        names, bottom, top = self.total
        gone = np.any([missing[name] for name in names], axis=0)
        for name in self.columns:
            excess = np.where(gone, 0.0, np.maximum(_sum(x, names) - top, 0.0))
            floor = self._above(name, x, low[name], missing)
            if name in names:
                x[name] = np.where(excess > 0, np.maximum(self.axes[name].floor(x[name] - excess), floor), x[name])
            elif self._reaches(name, names):  # it must make room for those that are at least as large
                x[name] = np.where(excess > 0, floor, x[name])
        for name in reversed(self.columns):
            lack = np.where(gone, 0.0, np.maximum(bottom - _sum(x, names), 0.0))
            ceiling = self._below(name, x, high[name], missing)
            if name in names:
                x[name] = np.where(lack > 0, np.minimum(self.axes[name].ceil(x[name] + lack), ceiling), x[name])
            elif any(self._reaches(each, (name,)) for each in names):
                x[name] = np.where(lack > 0, ceiling, x[name])

    def _reaches(self, name: Any, goals: Sequence[Any]) -> bool:
        """Whether a column is at most one of others, by some inequalities."""
        return any(first == name and (second in goals or self._reaches(second, goals)) for first, second, _ in self.edges)

    def _below(self, name: Any, x: Columns, at_most: np.ndarray, missing: Columns) -> np.ndarray:
        for first, second, strict in self.edges:
            if first == name:
                bound = self.axes[name].floor(x[second] - 1 if strict else x[second])
                at_most = np.where(missing[second], at_most, np.minimum(at_most, bound))
        return at_most


def _sum(x: Columns, names: Sequence[Any]) -> np.ndarray:
    return np.sum([x[name] for name in names], axis=0)


def in_order(columns: Sequence[Any], edges: Sequence[tuple]) -> tuple:
    """Return columns, each after those that are at most as large; fewer, if inequalities go round in a circle."""
    ordered: list[Any] = []
    while True:
        free = [name for name in columns if name not in ordered and all(first in ordered for first, second, _ in edges if second == name)]
        if not free:
            return tuple(ordered)
        ordered += free
