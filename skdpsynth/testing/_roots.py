"""Roots of linked tables, with all that hangs on them, that laws are asked of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from skdpsynth._validation import short_repr
from skdpsynth.domain import Continuous, Nominal
from skdpsynth.frames import Table
from skdpsynth.tables import Forest, LinkedFormat, most_of, read_forest

N_EXTREMES = 6  # of extreme roots: cells all at the one end or the other, and no row, one, or as many as count below each


@dataclass(frozen=True, eq=False, repr=False)
class Roots:
    """Extreme roots, and then those of a caller's tables, with all that hangs on them."""

    forest: Forest
    linked: LinkedFormat

    @classmethod
    def of(cls, estimator: BaseEstimator, X: Table) -> "Roots":
        """Open a caller's tables; those of no other than linked tables are refused."""
        if not isinstance(X, Mapping):
            raise TypeError(
                f"X must be a dict of tables for {type(estimator).__name__}, got {short_repr(X)}; its roots are what is fitted."
            )
        forest, linked = read_forest(estimator.schemas, estimator.links, X, buys=True)
        cells = zip(linked.side_by_side().schema.values(), forest.one_row_of_each(), strict=True)
        linked, changes = linked.close({place: _facts_of(*each) for place, each in enumerate(cells) if each[0].stand_in})
        return cls(_join(_extreme_roots(linked), linked.encode(forest.map_tables(changes))), linked)

    def take(self, places: Sequence[int] | np.ndarray) -> dict[str, Table]:
        """Return roots by their places as tables, with keys that are made anew."""
        chosen = self.forest[np.asarray(places)]
        return self.linked.write(chosen.tables, chosen.owners)

    def rows(self, n_samples: int, seed: int, order: int | None) -> dict[str, Table]:
        places = np.random.default_rng(seed).integers(len(self.forest), size=n_samples)
        return self.take(places if order is None else np.random.default_rng(order).permutation(places))

    def neighbors(self, relation: str, n_samples: int) -> tuple[dict[str, Table], list[dict[str, Table]]]:
        """Return tables and their neighbors: the last root has as many rows as count, all at one end, and is replaced, or disappears."""
        rest = np.random.default_rng(0).integers(len(self.forest), size=n_samples - 1)
        first, *others = np.arange(N_EXTREMES)[::-1]
        table = self.take([*rest, first])  # so that the keys of the rest stay
        if relation == "replace_one":
            return table, [self.take([*rest, other]) for other in [*others, len(self.forest) - 1]]
        return table, [self.take(rest), *(self.take([*rest, first, other]) for other in others)]


def _facts_of(kind: Continuous | Nominal, column: np.ndarray) -> Any:
    """Return bounds or levels of the rows, for tests of a schema that lacks them."""
    if isinstance(kind, Nominal):
        return sorted({cell for cell in column.tolist() if cell is not None}, key=str)
    return np.nanmin(column), np.nanmax(column) + 1


def _extreme_roots(linked: LinkedFormat) -> Forest:
    ends, sizes = {linked.root: np.arange(N_EXTREMES) % 2 == 1}, {linked.root: np.arange(N_EXTREMES) // 2}
    owners, tables = dict[str, np.ndarray](), dict[str, list[np.ndarray]]()
    for name in [linked.root, *linked.below()]:
        if link := linked.below().get(name):
            numbers = np.where(sizes[link.of] < 2, sizes[link.of], most_of(link))
            numbers = np.clip(numbers, link.least - (link.head is not None), most_of(link))
            owners[name] = np.repeat(np.arange(len(numbers)), numbers)
            ends[name], sizes[name] = ends[link.of][owners[name]], sizes[link.of][owners[name]]
        kinds = linked.schemas[name].values()
        limits = [(kind.low, kind.high) if isinstance(kind, Continuous) else (0, kind.n_codes - 1) for kind in kinds]
        types = [np.float64 if isinstance(kind, Continuous) else np.int32 for kind in kinds]
        tables[name] = [np.where(ends[name], high, low).astype(dtype) for (low, high), dtype in zip(limits, types, strict=True)]
    return Forest(linked.root, tables, owners, {link.table: link.of for link in linked.links})


def _join(first: Forest, second: Forest) -> Forest:
    pairs = {name: zip(first.tables[name], columns, strict=True) for name, columns in second.tables.items()}
    tables = {name: [np.concatenate(pair) for pair in of_table] for name, of_table in pairs.items()}
    owners = {
        child: np.append(first.owners[child], second.owners[child] + len(first.tables[parent][0]))
        for child, parent in first.parents.items()
    }
    return Forest(first.root, tables, owners, first.parents)
