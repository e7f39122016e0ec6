"""Rules of rows in which some cells are given: whether they hold, and the nearest cells that keep them."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpsynth.domain import Cells, Schema, Tie, cells_of_levels, ends_of
from skdpsynth.models._mixture import Mixture, Part
from skdpsynth.models._structural_zeros import ConstrainedColumns

Columns = Mapping[Hashable, np.ndarray]


@dataclass(frozen=True, eq=False)
class ConstraintImputer:
    """The columns of one tie, of rows some of whose cells are given.

    A rule about given cells alone binds nothing here: if they break it, they stay, and all other rules still hold.
    """

    tied: ConstrainedColumns
    tie: Tie  # the same rules, on the axes of the table whose rows are filled
    schema: Schema
    linked: Mapping[Hashable, Any]

    @property
    def names(self) -> tuple:
        return self.tie.columns

    def holds(self, values: Columns, to_fill: Columns) -> np.ndarray:
        """Return which rows keep all rules about a cell that is filled, shape (n_rows,)."""
        kept = np.ones(len(values[self.names[0]]), dtype=bool)
        for rows, free in _fill_patterns(self.names, to_fill):
            if free:
                own = {name: values[name][rows] for name in self.names}
                shown, missing = self.shown(own), {name: self.missing(name, own[name]) for name in self.names}
                kept[rows] = self.tie.about(free).holds(shown, missing)
        return kept

    def shown(self, values: Columns) -> dict[Hashable, np.ndarray]:
        """Return values as the rules compare them; any number in place of a missing one."""
        out = {}
        for name in self.names:
            axis = self.tie.axes.get(name)
            known = values[name] if axis is None else np.where(np.isnan(values[name]), self.linked[name].ends()[0][0], values[name])
            out[name] = known if axis is None else axis.shown(known)
        return out

    def missing(self, name: Hashable, values: np.ndarray) -> np.ndarray:
        return np.isnan(values) if name in self.tie.axes else values >= len(self.schema[name].levels)

    def settled(self, values: Columns, to_fill: Columns, rng: np.random.Generator) -> dict[Hashable, np.ndarray]:
        """Return numbers moved within their bins so that inequalities and sums hold, where that can be; given ones stay."""
        out = {name: values[name].copy() for name in self.names}
        for rows, free in _fill_patterns(self.names, to_fill):
            orders = self.tie.about(free).orders
            if not orders.columns or not free:
                continue
            own = {name: values[name][rows] for name in self.names}
            shown, missing = self.shown(own), {name: self.missing(name, own[name]) for name in self.names}
            ends = {name: self._ends(name, own[name], shown[name], name in free) for name in orders.columns}
            least, most = {name: each[0] for name, each in ends.items()}, {name: each[1] for name, each in ends.items()}
            moved, can = orders.solved(least, most, missing, rng), orders.can_hold(least, most, missing)
            for name in orders.columns:
                if name in free:
                    changed = can & ~missing[name]
                    out[name][rows[changed]] = self.tie.axes[name].value(moved[name][changed])
        return out

    def _ends(self, name: Hashable, values: np.ndarray, shown: np.ndarray, is_free: bool) -> tuple[np.ndarray, np.ndarray]:
        if not is_free:
            return shown, shown
        bins = np.minimum(self.linked[name].codes_of(values), self.linked[name].n_bins - 1)
        return ends_of(self.tied.conditional_cells(name, self.linked), bins)

    def repaired(
        self, mixture: Mixture, places: Mapping[Hashable, int], row: Columns, free: Sequence, rng: np.random.Generator
    ) -> dict | None:
        """Return cells of one row from a tuple of codes that agrees with the given ones; None, if there is none.

        The mixture is that of the block and stratum of the row; `places` are those of all columns of the tie but the stratum in the block;
        `row` has the stratum that is tried, and `free` are the columns to fill, perhaps with the stratum.
        """
        drawn = [name for name in free if name in places]
        if not drawn:
            return {} if self.holds(row, {name: np.array([name in free]) for name in self.names})[0] else None
        part = next(part for part in mixture.parts if places[drawn[0]] in part.columns)
        columns = [part.columns.index(places[name]) for name in drawn]
        tuples, inverse = np.unique(part.codes[:, columns], axis=0, return_inverse=True)
        weights = np.bincount(inverse.ravel(), weights=part.probabilities @ mixture.weights)
        codes, cells = self._candidates(part, places, tuples, drawn, row)
        can = self.tie.about(free).can_occur(self.names, codes, cells) & (weights > 0)
        for name in drawn:  # a value, where there is one
            fuller = can & ~cells[name].missing[codes[name]]
            can = fuller if fuller.any() else can
        if not can.any():
            return None
        chosen = int(rng.choice(len(can), p=np.where(can, weights, 0) / weights[can].sum()))
        return {name: self._value(name, part, places[name], int(tuples[chosen, place]), mixture, rng) for place, name in enumerate(drawn)}

    def _candidates(
        self, part: Part, places: Mapping, tuples: np.ndarray, free: Sequence, row: Columns
    ) -> tuple[dict[Hashable, np.ndarray], dict[Hashable, Cells]]:
        """Return (a code of each tuple in each column, the cells of codes): a given number is a bin of its own."""
        codes, cells, shown = {}, {}, self.shown(row)
        for name in self.names:
            if name in free:
                within = part.within.get(places[name])
                own = tuples[:, list(free).index(name)]
                codes[name] = own if within is None else np.unique(within.classes, return_index=True)[1][own]
                cells[name] = self.tied.cells[name]
                continue
            gone = bool(self.missing(name, row[name])[0])
            if name in self.tie.axes:
                cells[name] = Cells(0, shown[name], shown[name], True)
                codes[name] = np.full(len(tuples), int(gone))
            else:
                is_linked = name in self.linked
                cells[name] = cells_of_levels(self.linked[name].n_bins if is_linked else len(self.schema[name].levels), True)
                codes[name] = np.full(len(tuples), int(self.linked[name].codes_of(row[name])[0] if is_linked else row[name][0]))
        return codes, cells

    def _value(self, name: Hashable, part: Part, place: int, code: int, mixture: Mixture, rng: np.random.Generator) -> Any:
        within = part.within.get(place)
        if within is not None:  # a code of the class
            weights = np.where(within.classes == code, within.probabilities @ mixture.weights, 0)
            code = int(rng.choice(len(weights), p=weights / weights.sum()))
        if name not in self.linked:
            return code
        column = self.linked[name]
        return column.missing if code >= column.n_bins else column.place(column.inside.sample_cells(np.array([code]), rng), rng)[0]


def _fill_patterns(names: Sequence[Hashable], to_fill: Columns) -> list[tuple[np.ndarray, list]]:
    """Return, for each set of columns that are filled together, the rows and the columns."""
    flags = np.column_stack([to_fill[name] for name in names])
    different, inverse = np.unique(flags, axis=0, return_inverse=True)
    return [
        (np.flatnonzero(inverse.ravel() == number), [n for n, is_free in zip(names, free, strict=True) if is_free])
        for number, free in enumerate(different)
    ]
