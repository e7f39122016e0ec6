"""Numbers of a row that rules compare: drawn within their bins so that the rules hold for what is written."""

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from skdpsynth.domain import ends_of
from skdpsynth.models._structural_zeros import ConstrainedColumns, restrict_axes

_TRIES = 16  # draws of rows that break a rule, after which they are moved


class BinConstraintSampler:
    """The columns of numbers of one tie.

    The codes of a row are such that some numbers within its bins keep all rules. Numbers are drawn within each bin by itself first, and
    rows that break a rule draw again: what is left has the law of all that keep it. After some tries, the rest moves to the nearest
    numbers that do.

    Parameters
    ----------
    tied : TiedColumns
    linked : dict of column to LinkedColumn
        Maybe on conditions, which then hold too.
    """

    def __init__(self, tied: ConstrainedColumns, linked: Mapping[Hashable, Any]) -> None:
        self.names = [name for name in tied.tie.columns if name in tied.tie.axes]
        self.tie, self.orders = tied.tie, restrict_axes(tied.tie.orders, linked)
        self.linked = {name: linked[name] for name in self.names}
        self.ends = {name: linked[name].ends() for name in self.names}
        self.cells = {name: tied.conditional_cells(name, linked) for name in self.names}

    def settle(self, values: Mapping[Hashable, np.ndarray], codes: Mapping[Hashable, np.ndarray], rng: np.random.Generator) -> None:
        """Change numbers within their bins, in place, until the rules hold.

        Parameters
        ----------
        values : dict of column to ndarray
        codes : dict of column to ndarray
        rng : numpy.random.Generator
        """
        codes = {name: np.asarray(codes[name], dtype=np.int64) for name in self.names}
        missing = {name: self.cells[name].missing[codes[name]] for name in self.names}
        shown = {name: self._shown(name, values[name], codes[name]) for name in self.names}
        orders = self.orders
        if orders.columns:
            self._order(shown, codes, missing, rng)
        for name in self.names:
            first, last = (ends[np.minimum(codes[name], len(ends) - 1)] for ends in self.ends[name])
            settled = np.clip(self.tie.axes[name].value(shown[name]), first, last)
            np.copyto(values[name], settled, where=~missing[name])

    def _shown(self, name: Hashable, values: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Return numbers as they are written, within what their bins leave."""
        first = self.ends[name][0]
        known = np.where(np.isnan(values), first[0], values)
        return np.clip(self.tie.axes[name].shown(known), *ends_of(self.cells[name], codes))

    def _order(self, shown: dict, codes: Mapping, missing: Mapping, rng: np.random.Generator) -> None:
        """Draw rows again that break an inequality or a sum, then move them."""
        orders = self.orders
        broken = np.flatnonzero(~orders.holds(shown, missing))
        for _ in range(_TRIES):
            if not len(broken):
                return
            of_rows = {name: missing[name][broken] for name in orders.columns}
            drawn = {name: self._drawn(name, codes[name][broken], rng) for name in orders.columns}
            holds = orders.holds(drawn, of_rows)
            for name in orders.columns:
                shown[name][broken[holds]] = drawn[name][holds]
            broken = broken[~holds]
        ends = {name: ends_of(self.cells[name], codes[name][broken]) for name in orders.columns}
        moved = orders.repaired(
            {name: shown[name][broken] for name in orders.columns},
            {name: least for name, (least, _) in ends.items()},
            {name: most for name, (_, most) in ends.items()},
            {name: missing[name][broken] for name in orders.columns},
        )
        for name in orders.columns:
            shown[name][broken] = moved[name]

    def _drawn(self, name: Hashable, codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return new numbers within bins; of missing cells, some number."""
        bins = np.minimum(codes, len(self.ends[name][0]) - 1)
        return self._shown(name, self.linked[name].place(self.linked[name].inside.sample_cells(bins, rng), rng), codes)
