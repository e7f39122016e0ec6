"""Structural zeros: the ties of a schema as groups of codes, with the bins that noisy counts gave."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdpsynth.domain import Cells, Grid, Orders, Schema, Tie, cells_of_bins, cells_of_levels, cells_of_numbers, cuts_of, ends_of, grids_of
from skdpsynth.models._constrained_softmax import ConstrainedGroup
from skdpsynth.models._quantile_bins import LevelGroups, Link
from skdpsynth.persistence import savable

MAX_TUPLES = 1 << 14  # of columns tied by rules, by public facts alone
_USUAL_TUPLES = 1 << 10  # more make a fit slow, so bins are joined
_BINS = (12, 9, 7, 5, 4, 3, 2)  # of a column that is compared with others, where there would be more tuples
Links = Mapping[Hashable, Link | LevelGroups]


@savable
@dataclass(frozen=True, eq=False)
class ConstrainedColumns:
    """A tie of a schema, with the cells that the codes of its columns stand for."""

    tie: Tie
    cells: Mapping[Hashable, Cells]
    classes: Mapping[Hashable, np.ndarray]
    tuples: np.ndarray  # of classes, in the order of `tie.columns`, shape (n_tuples, n_columns)

    def conditional_cells(self, name: Hashable, linked: Mapping[Hashable, Any]) -> Cells:
        """Return the cells of a column of numbers, of which conditions may have left a part."""
        first, last = linked[name].ends()
        return self.tie.trim(name, cells_of_numbers(self.tie.axes[name], first, last, self.cells[name].nullable))

    def can_hold(self, codes: Mapping[Hashable, np.ndarray], linked: Mapping[Hashable, Any]) -> np.ndarray:
        """Return which tuples of codes of the columns that are compared have numbers that keep the rules, on conditions."""
        cells = {name: self.conditional_cells(name, linked) for name in codes}
        missing = {name: cells[name].missing[codes[name]] for name in codes}
        least, most = ({name: ends_of(cells[name], own)[side] for name, own in codes.items()} for side in (0, 1))
        return restrict_axes(self.tie.orders, linked).can_hold(least, most, missing)


@dataclass(frozen=True, eq=False)
class RestrictedAxis:
    """An axis on which a condition leaves only some numbers."""

    axis: Any
    numbers: np.ndarray  # on the axis, in order

    def ceil(self, t: np.ndarray) -> np.ndarray:
        """Return the least number at or above t; above all of them, t."""
        places = np.searchsorted(self.numbers, t)
        return np.where(places < len(self.numbers), self.numbers[np.minimum(places, len(self.numbers) - 1)], t)

    def floor(self, t: np.ndarray) -> np.ndarray:
        """Return the largest number at or below t; below all of them, t."""
        places = np.searchsorted(self.numbers, t, side="right") - 1
        return np.where(places >= 0, self.numbers[np.maximum(places, 0)], t)


def restrict_axes(orders: Orders, linked: Mapping[Hashable, Any]) -> Orders:
    """Restrict inequalities between columns to the numbers that conditions leave."""
    numbers = {name: linked[name].numbers for name in orders.axes if len(getattr(linked[name], "numbers", ()))}
    restricted = {name: RestrictedAxis(orders.axes[name], np.unique(orders.axes[name].show(own))) for name, own in numbers.items()}
    return replace(orders, axes={**orders.axes, **restricted})  # type: ignore[dict-item]  # it rounds as the axis does


def constraint_cuts(schema: Schema, grids: Mapping[Hashable, Grid]) -> dict[Hashable, np.ndarray]:
    """Return, for each column, the cells at which rules need a bin to begin."""
    return {name: np.searchsorted(grids[name].edges, cuts) for name, cuts in cuts_of(schema.whole, schema.rules).items() if name in grids}


def constrain_columns(
    ties: Sequence[Tie], schema: Schema, links: Links
) -> tuple[list[ConstrainedColumns], dict[Hashable, Link | LevelGroups]]:
    """Return ties with their codes, and the links, with fewer bins where there would be too many tuples."""
    links, grids, out = dict(links), grids_of(schema), []
    cuts = constraint_cuts(schema, grids)
    for tie in ties:
        for n_bins in (None, *_BINS):
            if n_bins is not None:
                own = [name for name in tie.columns if name in tie.ordered_columns]
                links |= {name: links[name].recut(n_bins, cuts.get(name, ())) for name in own}  # type: ignore[union-attr]
            is_last = n_bins == _BINS[-1] or not tie.ordered_columns
            cells = {}
            for name in tie.columns:
                kind, link = schema[name], links.get(name)
                if isinstance(link, Link):
                    cells[name] = cells_of_bins(tie.axes[name], grids[name].edges[link.edges], kind)
                else:
                    cells[name] = cells_of_levels(len(kind.levels) if link is None else link.n_bins, kind.nullable)
            classes, tuples = tie.tuples(cells, MAX_TUPLES if is_last else _USUAL_TUPLES)
            if tuples is not None:
                break
        assert tuples is not None
        trimmed = {name: tie.trim(name, own) for name, own in cells.items()}
        out.append(ConstrainedColumns(tie, trimmed, classes, tuples))
    return out, links


def max_tuples(tie: Tie, schema: Schema, cuts: Mapping[Hashable, np.ndarray]) -> int:
    """Return how many tuples of classes there are at most, with the fewest bins, by public facts alone."""
    product = 1
    for name in tie.columns:
        kind: Any = schema[name]
        if name in tie.ordered_columns:
            product *= 2 * _BINS[-1] + len(cuts.get(name, ())) + kind.nullable
        elif name in tie.axes:
            product *= len(cuts.get(name, ())) + 1 + kind.nullable
        else:
            product *= int(tie.classes(name, cells_of_levels(len(kind.levels), kind.nullable)).max()) + 1
    return product


def possible_strata(tied: Sequence[ConstrainedColumns], stratum: Hashable, n_strata: int) -> np.ndarray:
    """Return which classes of rows can occur at all."""
    possible = np.ones(n_strata, dtype=bool)
    for each in tied:
        if stratum in each.tie.columns:
            possible &= np.isin(each.classes[stratum], each.tuples[:, each.tie.columns.index(stratum)])
    return possible


def block_groups(
    tied: Sequence[ConstrainedColumns], names: Sequence[Hashable], block: Sequence[int], stratum: Hashable, n_strata: int
) -> tuple:
    """Return the groups of a block of columns, whose places are those in `names`, which are without the stratum."""
    places = {names[place]: number for number, place in enumerate(block)}
    groups = []
    for each in tied:
        own = [name for name in each.tie.columns if name != stratum]
        if not own or own[0] not in places:
            continue
        tuples, inverse = np.unique(each.tuples[:, [each.tie.columns.index(name) for name in own]], axis=0, return_inverse=True)
        allowed = np.ones((n_strata, len(tuples)), dtype=bool)
        if stratum in each.tie.columns:
            of_strata = each.tuples[:, each.tie.columns.index(stratum)]
            for label, own_class in enumerate(each.classes[stratum]):
                allowed[label] = np.isin(np.arange(len(tuples)), inverse.ravel()[of_strata == own_class])
        allowed[~allowed.any(axis=1)] = True  # a class that cannot occur is never drawn
        groups.append(ConstrainedGroup(tuple(places[name] for name in own), tuple(each.classes[name] for name in own), tuples, allowed))
    return tuple(groups)
