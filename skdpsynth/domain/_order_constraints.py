"""Order constraints: the least and the largest values that inequalities leave, and the nearest rows that keep them."""

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
    """Inequalities between columns, and at most one sum of them within bounds. Missing cells bind nothing. Values are those of the axes.

    Every step is a monotone map of the values before it, so the least solution is found from the front and the largest from the back.
    Solutions lie between both, and there are some if no least value is above the largest that its column can have. The sums of solutions
    fill the interval between those of the least and the largest one, as far as the steps of the columns allow: going from the largest to
    the least, one column after the other in their order, stays among solutions.
    """

    columns: tuple  # each after those that are at most as large
    edges: tuple  # of (low, high, strict)
    axes: Mapping[Any, Axis]
    total: Any = None  # (columns, low, high): what the columns must sum to

    def among(self, names: Sequence[Any]) -> "Orders":
        """Return what is said of some of the columns."""
        known = set(names)
        edges = tuple(edge for edge in self.edges if edge[0] in known and edge[1] in known)
        total = self.total if self.total and set(self.total[0]) <= known else None
        return Orders(tuple(name for name in self.columns if name in known), edges, self.axes, total)

    def _solution(self, ends: Columns, missing: Columns, way: int) -> dict[Any, np.ndarray]:
        """Return the least solution (`way` 1), given the least value of each cell, or the largest one (-1), given the largest."""
        solution = dict(ends)
        for name in self.columns[::way]:
            solution[name] = self._end(name, solution, solution[name], missing, way)
        return solution

    def _end(self, name: Any, x: Columns, end: np.ndarray, missing: Columns, way: int) -> np.ndarray:
        """Return the least value that smaller columns leave (`way` 1), or the largest that larger ones do (-1)."""
        reach, farther = (self.axes[name].ceil, np.maximum) if way > 0 else (self.axes[name].floor, np.minimum)
        for low, high, strict in self.edges:
            here, other = (high, low)[::way]
            if here == name:
                end = np.where(missing[other], end, farther(end, reach(x[other] + way if strict else x[other])))
        return end

    def can_hold(self, least: Columns, most: Columns, missing: Columns) -> np.ndarray:
        """Return whether values between the least and the most of each cell can keep all of it."""
        low = self._solution(least, missing, 1)
        holds = np.ones(np.shape(next(iter(least.values()))), dtype=bool)
        for name in self.columns:
            holds &= (low[name] <= most[name]) | missing[name]
        if self.total is not None:
            _, bottom, top = self.total
            high = self._solution(most, missing, -1)
            holds &= self._lacks_part(missing) | ((self._sum(low) <= top) & (self._sum(high) >= bottom))
        return holds

    def holds(self, x: Columns, missing: Columns) -> np.ndarray:
        """Return whether each row keeps all of it."""
        kept = np.ones(len(next(iter(x.values()))), dtype=bool)
        for first, second, strict in self.edges:
            kept &= missing[first] | missing[second] | (x[first] < x[second] if strict else x[first] <= x[second])
        if self.total is not None:
            _, bottom, top = self.total
            kept &= self._lacks_part(missing) | ((self._sum(x) >= bottom) & (self._sum(x) <= top))
        return kept

    def repaired(self, x: Columns, least: Columns, most: Columns, missing: Columns) -> dict[Any, np.ndarray]:
        """Return rows near to these that keep all of it, between the least and the most of each cell, where that can be."""
        low, high, x = self._solution(least, missing, 1), self._solution(most, missing, -1), dict(x)
        for name in self.columns:
            x[name] = np.minimum(np.maximum(self._end(name, x, low[name], missing, 1), x[name]), high[name])
        return self._with_sum(x, low, high, missing)

    def solved(self, least: Columns, most: Columns, missing: Columns, rng: np.random.Generator) -> dict[Any, np.ndarray]:
        """Return rows that keep all of it, where that can be: each number uniform in what those before it leave."""
        low, high, x = self._solution(least, missing, 1), self._solution(most, missing, -1), dict(least)
        for name in self.columns:
            start = self._end(name, x, low[name], missing, 1)
            drawn = start + (high[name] - start) * rng.random(len(start))
            drawn = drawn if not self.axes[name].is_whole else np.rint(drawn)
            x[name] = np.minimum(np.maximum(self.axes[name].floor(drawn), start), np.maximum(high[name], start))
        return self._with_sum(x, low, high, missing)

    def _with_sum(self, x: dict[Any, np.ndarray], low: Columns, high: Columns, missing: Columns) -> dict[Any, np.ndarray]:
        """Move the sum within its bounds, one column after the other."""
        if self.total is None:
            return x
        names, bottom, top = self.total
        gone = self._lacks_part(missing)
        for name in self.columns:
            excess = np.where(gone, 0.0, np.maximum(self._sum(x) - top, 0.0))
            floor = self._end(name, x, low[name], missing, 1)
            if name in names:
                x[name] = np.where(excess > 0, np.maximum(self.axes[name].floor(x[name] - excess), floor), x[name])
            elif self._reaches(name, names):  # it must make room for those that are at least as large
                x[name] = np.where(excess > 0, floor, x[name])
        for name in reversed(self.columns):
            lack = np.where(gone, 0.0, np.maximum(bottom - self._sum(x), 0.0))
            ceiling = self._end(name, x, high[name], missing, -1)
            if name in names:
                x[name] = np.where(lack > 0, np.minimum(self.axes[name].ceil(x[name] + lack), ceiling), x[name])
            elif any(self._reaches(each, (name,)) for each in names):
                x[name] = np.where(lack > 0, ceiling, x[name])
        return x

    def _reaches(self, name: Any, goals: Sequence[Any]) -> bool:
        """Whether a column is at most one of others, by some inequalities."""
        return any(first == name and (second in goals or self._reaches(second, goals)) for first, second, _ in self.edges)

    def _sum(self, x: Columns) -> np.ndarray:
        return np.sum([x[name] for name in self.total[0]], axis=0)

    def _lacks_part(self, missing: Columns) -> np.ndarray:
        return np.any([missing[name] for name in self.total[0]], axis=0)


def in_order(columns: Sequence[Any], edges: Sequence[tuple]) -> tuple:
    """Return columns, each after those that are at most as large; fewer, if inequalities go round in a circle."""
    ordered: list[Any] = []
    while True:
        free = [name for name in columns if name not in ordered and all(first in ordered for first, second, _ in edges if second == name)]
        if not free:
            return tuple(ordered)
        ordered += free
