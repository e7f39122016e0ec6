"""Public cells of continuous columns, and of differences between two of them."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from skdpsynth.domain._kinds import Continuous, Span
from skdpsynth.domain._schema import Schema
from skdpsynth.domain._structural_zeros import cuts_of
from skdpsynth.persistence import savable

_CELLS = 1 << 12  # of a range of real numbers, atoms included
_CELLS_OF_WHOLE = 1 << 17  # whole numbers up to so many have a cell each
_IN_OCTAVE = 1 << 7  # cells between a span and its double
_OCTAVES = 24  # of real spans: below the last, 1/16,000,000 of the largest one, cells are of one width
_CELLS_OF_ALL = 1 << 22  # of all columns of whole numbers together, where those have more than _CELLS each
_ATOM = 1e-15  # of the largest span: narrower cells are one number
_COMMON = 0.5  # share of the joint range of two columns that lies in the range of each
_DEPTH = 13  # halvings of the range of differences
_MOST_PAIRS = 45  # more would have too much noise, and say little: that many bounds are alike by chance


@savable
@dataclass(frozen=True, eq=False)
class Grid:
    """Cells of about equal width over a `Continuous` column; the bounds, where clipped values pile up, and 0 have cells of their own."""

    edges: np.ndarray  # cell k holds the numbers from edges[k] up to, not with, edges[k + 1]
    kind: Continuous

    @classmethod
    def of(cls, kind: Continuous, n_columns: int = 1, cuts: Sequence[float] | np.ndarray = ()) -> "Grid":
        """Lay the grid of one of so many columns, which share the memory, with further edges within the bounds."""
        if isinstance(kind, Span):
            # Cells are as wide as spans are long: 0 has one of its own, and so have whole numbers up to twice 128.
            least = 1.0 if kind.integer else kind.high * 2.0**-_OCTAVES
            octaves = least * 2.0 ** np.arange(max(0, int(np.ceil(np.log2(kind.high / least)))) + 1)
            inner = (octaves[:, None] * (1 + np.arange(_IN_OCTAVE) / _IN_OCTAVE)).ravel()
            inner = np.unique(np.ceil(inner)) if kind.integer else np.concatenate([np.linspace(0, least, _IN_OCTAVE)[1:-1], inner])
            first, end = (1.0, kind.high + 1) if kind.integer else (np.nextafter(0, 1), np.nextafter(kind.high, np.inf))
            return cls(np.unique(np.concatenate([[kind.low, 0.0, first], inner[inner < kind.high], [end]])), kind)
        low, high = float(kind.low), float(kind.high)
        atoms = np.unique([low, high, *([0.0] if low < 0 < high else [])])
        if kind.integer:
            count = int(high) - int(low) + 1
            beyond = np.maximum(atoms + 1, np.nextafter(atoms, np.inf))  # 2**53 + 1 is no float
            width = max(1, -(-count // max(_CELLS, min(_CELLS_OF_WHOLE, _CELLS_OF_ALL // n_columns))))
            return cls(np.unique(np.concatenate([np.arange(low, high + 1, width), atoms, beyond, cuts])), kind)
        # An atom adds at most two cells, a cut one.
        steps = np.linspace(0, 1, max(_CELLS - 2 * len(atoms) - len(cuts), 1) + 1)
        even = low + (high - low) * steps
        return cls(np.unique(np.concatenate([even[1:-1], atoms, np.nextafter(atoms, np.inf), cuts])), kind)

    @property
    def n_cells(self) -> int:
        return len(self.edges) - 1

    @property
    def widths(self) -> np.ndarray:
        """Width of each cell, which for whole numbers is their count."""
        return np.diff(self.edges)

    def within(self, low: float, high: float) -> "Grid":
        """Return the cells within a range of numbers, both ends included: those outside it have no width."""
        beyond = max(high + 1, np.nextafter(high, np.inf)) if self.kind.integer else np.nextafter(high, np.inf)
        return Grid(np.clip(self.edges, low, beyond), self.kind)

    @property
    def depth(self) -> int:
        """Levels of halving: ``n_cells <= 2**depth``."""
        return (self.n_cells - 1).bit_length()

    @property
    def cuts(self) -> np.ndarray:
        """The least number of the cells 1, 2, ... as a table may hold it, shape (n_cells - 1,): before it is rounded and clipped.

        Reading a number never changes the order of two, so a raw number lies in the cell ``k`` if exactly k of the cuts are at most as
        large. A whole number e is reached from e - 1/2 on, where a tie goes to an even e, else from the next float.
        """
        edges = self.edges[1:-1]
        if not self.kind.integer:
            return edges
        halves = np.ceil(edges) - 0.5
        return np.where(np.rint(halves) >= edges, halves, np.nextafter(halves, np.inf))

    def locate(self, x: np.ndarray) -> np.ndarray:
        """Return the cells of numbers within the bounds, and -1 for NaN: comparisons, exact for every number."""
        cells = np.searchsorted(self.edges, x, side="right") - 1
        return np.where(np.isnan(x), -1, np.minimum(cells, self.n_cells - 1)).astype(np.int32)

    def place(self, cells: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        left, right = self.edges[cells], self.edges[cells + 1]
        x = rng.random(len(cells))
        x *= right - left
        if self.kind.integer:
            np.floor(x, out=x)
            x += left
        else:
            # Rounding must not reach the next cell; that of an atom is one step of floating point wide.
            x += left
            np.minimum(x, np.nextafter(self.edges[1:], -np.inf)[cells], out=x)
        return np.clip(x, self.kind.low, self.kind.high, out=x)


def grids_of(schema: Schema) -> dict[Any, Grid]:
    """Return the grid of each continuous column of a schema; where ranges of rules begin and end, there are edges."""
    kinds = {name: kind for name, kind in schema.items() if isinstance(kind, Continuous)}
    cuts = cuts_of(schema.whole, schema.rules)
    return {name: Grid.of(kind, len(kinds), cuts.get(name, ())) for name, kind in kinds.items()}


def edges_of_spans(schema: Schema) -> dict[Any, np.ndarray]:
    """Return the edges of the cells of spans, which are as wide as they lie far out; that of 0 is as wide as the narrowest."""
    found = {}
    for name, kind in ((name, kind) for name, kind in schema.items() if isinstance(kind, Span)):
        widths = Grid.of(kind).widths
        is_atom = widths < kind.high * _ATOM
        found[name] = np.append(0.0, np.cumsum(np.where(is_atom, widths[~is_atom].min(), widths)))
    return found


def comparable(schema: Schema, but: frozenset[Hashable] | set[Hashable] = frozenset()) -> list[tuple[Hashable, Hashable]]:
    """Return the pairs of columns of numbers on one scale: both whole or both real, with bounds that have half of their range in common.

    None, if there are more than 45: bounds that so many columns have do not tell which of them are alike.
    """
    # All of a span is said by another column.
    kinds = {name: kind for name, kind in schema.items() if isinstance(kind, Continuous) and not isinstance(kind, Span) and name not in but}
    pairs: list[tuple[Hashable, Hashable]] = []
    for (a, first), (b, second) in combinations(kinds.items(), 2):
        low, high = (first.low, second.low), (first.high, second.high)
        if first.integer == second.integer and min(high) - max(low) >= _COMMON * (max(high) - min(low)):
            pairs.append((a, b))
    return pairs if len(pairs) <= _MOST_PAIRS else []


def edges_of_differences(first: Continuous, second: Continuous) -> np.ndarray:
    """Return the edges of ``2**depth`` cells of differences, of equal width, half of them below 0; for real numbers 0 has its own."""
    largest = max(abs(second.high - first.low), abs(second.low - first.high))
    if first.integer:
        depth = min(_DEPTH, int(largest).bit_length() + 1)
        half = 1 << (depth - 1)
        return np.arange(-half, half + 1.0) * -(-(int(largest) + 1) // half)
    half = 1 << (_DEPTH - 1)
    below, above = np.linspace(-largest, 0, half + 1), np.linspace(0, largest, half)
    return np.concatenate([below[:-1], [0.0, np.nextafter(0, 1)], above[1:-1], [np.nextafter(largest, np.inf)]])
