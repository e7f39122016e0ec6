"""Roots of linked tables, with all that hangs on them, that laws are asked of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.base import BaseEstimator

from skdpsynth._validation import short_repr
from skdpsynth.domain import Continuous
from skdpsynth.frames import Table
from skdpsynth.tables import Forest, LinkedFormat, most_of, open_forest

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
        forest, linked = open_forest(estimator.schemas, estimator.links, X)
        return cls(_join(_extreme_roots(linked), forest), linked)

    def take(self, places: Sequence[int] | np.ndarray) -> dict[str, Table]:
        """Return roots by their places as tables, with keys that are made anew."""
        chosen = self.forest[np.asarray(places)]
        return self.linked.write(chosen.tables, chosen.owners)

    def rows(self, n_samples: int, seed: int, order: int | None) -> dict[str, Table]:
        places = np.random.default_rng(seed).integers(len(self.forest), size=n_samples)
        return self.take(places if order is None else np.random.default_rng(order).permutation(places))

    def neighbors(self, relation: str, n_samples: int) -> tuple[dict[str, Table], list[dict[str, Table]]]:
        """Return tables and their neighbors: the first root has as many rows as count, all at one end, and is replaced, or disappears."""
        rest = np.random.default_rng(0).integers(len(self.forest), size=n_samples - 1)
        first, *others = np.arange(N_EXTREMES)[::-1]
        table = self.take([first, *rest])
        if relation == "replace_one":
            return table, [self.take([other, *rest]) for other in [*others, len(self.forest) - 1]]
        return table, [self.take(rest), *(self.take([first, *rest, other]) for other in others)]


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
