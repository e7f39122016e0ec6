"""Numbers near others, filled beside those that are there."""

from collections.abc import Hashable, Mapping
from dataclasses import replace

import numpy as np

from skdpsynth.models._differences import MIN_LEAD, DifferenceSampler, remaining_bin_ends
from skdpsynth.models._within_bin import MemberColumn

Columns = Mapping[Hashable, np.ndarray]


class DifferenceImputer:
    """Two columns near each other, of which some cells are given.

    Parameters
    ----------
    draw : NearDraw
    """

    def __init__(self, draw: DifferenceSampler) -> None:
        self.draw = draw
        back = replace(draw, near=draw.near.swap_columns(), first=draw.second, second=draw.first, free=draw.free.T)
        # Of the first beside the second numbers count alike within their bin.
        low, high = np.zeros(1), np.ones(1)
        if not isinstance(draw.first, MemberColumn):
            low, high = remaining_bin_ends(draw.first)
        spread = draw.shares.T * np.maximum(high - low, 1e-300)
        self.ways = (
            () if isinstance(draw.first, MemberColumn) or isinstance(draw.second, MemberColumn) else ((draw, draw.shares), (back, spread))
        )

    def alone(self, to_fill: Columns) -> np.ndarray:
        """Return which rows lack one of the two."""
        return to_fill[self.draw.near.first] != to_fill[self.draw.near.second]

    def evidence(self, values: Columns, to_fill: Columns) -> np.ndarray:
        """Return how much more likely the given number of a row is than by the bins of both: P(it leads to the other's bin), over the mean.

        Where both are given, or none, or differences tell nothing, 1.

        Parameters
        ----------
        values : dict of column to ndarray
            Of all rows, filled.
        to_fill : dict of column to ndarray of bool
        """
        out = np.ones(len(to_fill[self.draw.near.first]))
        for way, shares in self.ways:
            rows, codes, other = self._rows(way, values, to_fill)
            out[rows] = self._lead(way, values[way.near.first][rows], other) / shares[codes, other]
        return out

    def complete(self, values: Columns, to_fill: Columns, rng: np.random.Generator) -> None:
        """Change numbers that were filled within their bins, in place.

        Parameters
        ----------
        values : dict of column to ndarray
        to_fill : dict of column to ndarray of bool
        rng : numpy.random.Generator
        """
        rows = np.flatnonzero(np.all([to_fill[name] for name in self.draw.names], axis=0))
        own = {name: values[name][rows] for name in self.draw.names}
        columns = dict(zip(self.draw.names, (self.draw.first, self.draw.second), strict=True))
        self.draw.place(own, {name: columns[name].codes_of(own[name]) for name in own}, rng)
        for way, _ in self.ways:
            beside, _, other = self._rows(way, values, to_fill)
            x = values[way.near.first][beside]
            leads = self._lead(way, x, other) > MIN_LEAD
            values[way.near.second][beside[leads]] = way.beside(x[leads], other[leads], rng)
        for name, column in own.items():
            values[name][rows] = column

    def _rows(self, way: DifferenceSampler, values: Columns, to_fill: Columns) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the rows in which the second is to be filled beside a given first, and the codes of both there."""
        first, second = way.names
        rows = np.flatnonzero(to_fill[second] & ~to_fill[first])
        i, j = way.first.codes_of(values[first][rows]), way.second.codes_of(values[second][rows])
        known = np.flatnonzero((i < way.first.n_bins) & (j < way.second.n_bins))
        known = known[~way.free[i[known], j[known]]]
        return rows[known], i[known], j[known]

    @staticmethod
    def _lead(way: DifferenceSampler, x: np.ndarray, codes: np.ndarray) -> np.ndarray:
        low, high = remaining_bin_ends(way.second)
        return way.near.below(high[codes] - x) - way.near.below(low[codes] - x)
