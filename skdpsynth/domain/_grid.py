"""Grids: public cells of continuous columns, of differences between two, and of spans.

Where an `Inequality` orders two columns, the second is modeled by its span, how far it lies above the first. Totals are kept in the same
place: parts are modeled freely, and rows whose parts pass the bounds of their total are moved within them.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from skdpsynth.domain._constraints import AllowedCells, Impossible, Inequality, MissingTogether, Rule, Unique
from skdpsynth.domain._functional_dependencies import Sum, binds, leaves_of
from skdpsynth.domain._kinds import Continuous, Span
from skdpsynth.domain._order_constraints import Axis, NumberAxis, Orders, TimeAxis, axes_of
from skdpsynth.domain._schema import Schema
from skdpsynth.domain._structural_zeros import cuts_of, join_sets, ties_of
from skdpsynth.frames import Chunk
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

Columns = Mapping[Any, np.ndarray]


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


@savable
@dataclass(frozen=True)
class SpanEdge:
    low: Any
    high: Any
    apart: float  # the difference of `read` between equal values: a date counts from its own lower bound
    ends: tuple[float, float]  # bounds of the smaller column
    most: float  # the largest span
    may_miss: bool  # whether cells of the smaller column may be missing
    is_nullable: bool  # and of the larger one
    may_pass: bool  # whether the smaller column may be beyond all that the larger one can be


@savable
@dataclass(frozen=True, eq=False)
class Spans:
    """Rows with spans in the place of the columns that are at least as large as another one; a map of one row each, and its inverse.

    A row that breaks the rule counts as one with the least span. Where the smaller column is missing and a larger one is not, the smaller
    one is put where the larger one is, and the span is -1: so where a row lies in time is known, and how long it took is not made up.
    """

    names: tuple  # all columns that mechanisms see
    edges: tuple[SpanEdge, ...]  # each after that of its smaller column
    orders: tuple[Orders, ...]  # must hold for rows as they are written, of columns that have nothing in common
    ends: Mapping[Any, tuple]  # bounds of the columns of `orders`, on their axes
    rules: tuple[Rule, ...]  # that hold by all this

    def __bool__(self) -> bool:
        return bool(self.rules)

    @property
    def linked_columns(self) -> frozenset:
        """The columns of which a cell depends on several columns with spans."""
        smaller = {edge.low for edge in self.edges if edge.may_miss or edge.may_pass}
        parts = {name for orders in self.orders if orders.total for name in orders.columns}
        return frozenset(smaller | parts | {edge.high for edge in self.edges})

    def __call__(self, chunk: Chunk) -> Chunk:
        """Return columns, as `read` gives them, with spans."""
        columns = dict(zip(self.names, chunk, strict=True))
        gone = {edge.low: np.isnan(columns[edge.low]) for edge in self.edges if edge.may_miss}
        places = {}
        for edge in reversed(self.edges):
            place = places[edge] = np.clip(columns[edge.high] - edge.apart, *edge.ends)
            if edge.may_miss:
                columns[edge.low] = np.where(gone[edge.low], np.fmin(columns[edge.low], place), columns[edge.low])
        spans = {edge.high: np.clip(columns[edge.high] - edge.apart - columns[edge.low], 0.0, edge.most) for edge in self.edges}
        for edge in self.edges:
            if edge.may_miss:
                spans[edge.high] = np.where(gone[edge.low] & (columns[edge.low] == places[edge]), -1.0, spans[edge.high])
        return [*{**columns, **spans}.values()]

    def decode(self, chunk: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return columns whose spans are numbers again, such that all rules of `edges` hold for the rows as they are written."""
        return [*self.decode_known(chunk, {}, {}).values()] if self else [*chunk]

    def encode_known(self, values: Columns, known: Columns) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return rows of which some cells are known with spans, and which cells of those are known."""
        of_spans = {edge.high: known[edge.low] & known[edge.high] for edge in self.edges}
        return self([values[name] for name in self.names]), [{**known, **of_spans}[name] for name in self.names]

    def decode_known(self, chunk: Sequence[np.ndarray], given: Columns, known: Columns) -> dict[Any, np.ndarray]:
        """Return columns whose spans are numbers again; cells of `given` that are known stay, and smaller columns lie below them."""
        columns = dict(zip(self.names, chunk, strict=True))
        spans, stands, nothing = {edge.high: columns[edge.high] for edge in self.edges}, {}, np.zeros(len(chunk[0]), dtype=bool)
        for name in self.ends:
            stands[name] = known.get(name, nothing)
            columns[name] = np.where(stands[name], given[name], columns[name]) if name in given else columns[name]
        fixed, gone = dict(stands), dict.fromkeys(self.ends, nothing)
        for edge in reversed(self.edges):
            below = stands[edge.high] & ~stands[edge.low]
            columns[edge.low] = np.where(below, columns[edge.high] - edge.apart - np.fmax(spans[edge.high], 0.0), columns[edge.low])
            stands[edge.low] = stands[edge.low] | (below & ~np.isnan(columns[edge.low]))
        for edge in self.edges:
            above = columns[edge.low] + edge.apart + np.maximum(spans[edge.high], 0.0)
            columns[edge.high] = np.where(stands[edge.high], columns[edge.high], above)
            gone[edge.low] = gone[edge.low] | (~stands[edge.low] & (spans[edge.high] < 0))
        for name in self.ends:
            columns[name] = np.where(gone[name], np.nan, columns[name])
        for orders in self.orders:
            columns |= self._in_order(orders, columns, fixed)
        return columns

    def _in_order(self, orders: Orders, columns: Columns, fixed: Columns) -> dict[Any, np.ndarray]:
        """Return columns that keep the rules as they are written, wherever cells that may not change allow it."""
        axes, missing = orders.axes, {name: np.isnan(columns[name]) for name in orders.columns}
        shown, least, most = {}, {}, {}
        for name in orders.columns:
            low, high = self.ends[name]
            x = np.where(missing[name], axes[name].value(low), columns[name])
            shown[name] = np.clip(axes[name].show(x), low, high)
            least[name], most[name] = (np.where(fixed[name], shown[name], end) for end in (low, high))
        kept = orders.repair(shown, least, most, missing)
        moved = {name: np.where(missing[name], np.nan, axes[name].value(kept[name])) for name in kept}
        return {name: np.where(fixed[name], columns[name], moved[name]) for name in moved}

    def meets(self, chunk: Sequence[np.ndarray], wanted: Mapping[Any, AllowedCells]) -> np.ndarray:
        columns = dict(zip(self.names, self.decode(chunk), strict=True))
        return np.all([wanted[name].of(columns[name]) for name in wanted], axis=0)

    def hull(self, wanted: Mapping[Any, AllowedCells]) -> dict[Any, AllowedCells]:
        """Return conditions on columns with spans that all rows meet which meet `wanted`, but for a few that a bound has moved."""
        spans = {edge.high for edge in self.edges}
        found = {name: want for name, want in wanted.items() if name not in spans}
        for edge in self.edges:
            if edge.high in wanted and wanted[edge.high].is_missing:
                found[edge.high] = wanted[edge.high]
            elif edge.high in wanted and not wanted[edge.high].missing:
                found[edge.high] = AllowedCells(-1.0 if edge.may_miss else 0.0, edge.most)
            if edge.may_miss and edge.low not in spans and edge.low in wanted and wanted[edge.low].missing:
                found.pop(edge.low)
        return found

    def starts_present(self) -> dict[Any, AllowedCells]:
        """Return the condition that the smaller column of each span is there."""
        return {edge.high: AllowedCells(0.0, edge.most, missing=edge.is_nullable) for edge in self.edges if edge.may_miss}


def spans_of(schema: Schema, dtypes: Mapping[Any, str] | None = None) -> Spans:
    """Return the spans of a schema, as far as public facts allow them.

    The two columns are both of numbers or of times of one resolution, and the larger one has no other that is at most as large. Columns
    that are ordered or added up may be in several rules that say so, and missing together, but in no other rule. `dtypes` are those of
    the table that samples are written to.
    """
    if not schema.rules:
        return Spans((), (), (), {}, ())
    axes = axes_of(schema, dtypes)
    possible = {rule: edge for rule in schema.rules if isinstance(rule, Inequality) and (edge := _edge(rule, schema, axes))}
    # The inequalities and totals of whose columns no other rule needs the numbers, and at most one the larger column.
    named: dict[int, set] = {}
    for place, rule in enumerate(schema.rules):
        if isinstance(rule, Inequality | Impossible | Unique):
            named[place] = set(rule.columns_named)
        elif isinstance(rule, Sum) and binds(rule, schema, schema.sources):
            named[place] = set(leaves_of(rule, schema.sources))
    highs = [rule.high for rule in schema.rules if isinstance(rule, Inequality)]
    single = {rule for rule in possible if highs.count(rule.high) == 1}
    left = {place for place in named if isinstance(rule := schema.rules[place], Sum) or (isinstance(rule, Inequality) and rule in single)}
    kept: set[int] = set()
    while left != kept:
        kept = left
        left = {place for place in kept if all(other in kept for other, names in named.items() if names & named[place])}
    rules = [rule for place, rule in enumerate(schema.rules) if place in kept]
    orders = tuple(tie.orders for tie in ties_of(schema, rules, dtypes))
    columns = [name for each in orders for name in each.columns]
    edges = [possible[rule] for rule in rules if isinstance(rule, Inequality)]
    edges.sort(key=lambda edge: columns.index(edge.high))
    ends = {name: tuple(axes[name].show(np.array([kind.low, kind.high], dtype=float))) for name in columns if (kind := schema[name].coded)}
    return Spans(tuple(schema.coded) if rules else (), tuple(edges), orders, ends, tuple(rules))


def with_spans(schema: Schema, spans: Spans) -> Schema:
    """Return the schema of columns as mechanisms see them, with spans in it and without the rules that these keep."""
    if not spans:
        return schema
    kinds = {}
    for edge in spans.edges:
        low, high = schema[edge.low], schema[edge.high]
        is_whole = bool(low.integer and high.integer)
        kinds[edge.high] = Span(-1 if edge.may_miss else 0, edge.most, integer=is_whole, nullable=high.nullable)
    return schema._coded_as({**schema, **kinds}, tuple(rule for rule in schema.rules if rule not in spans.rules))


def _edge(rule: Inequality, schema: Schema, axes: Mapping[Any, Axis]) -> SpanEdge | None:
    """Return the span of an inequality of two columns on one scale; None where no span is possible."""
    low, high, first, second = schema[rule.low].coded, schema[rule.high].coded, axes[rule.low], axes[rule.high]
    apart = 0.0
    if isinstance(first, TimeAxis) and isinstance(second, TimeAxis):
        apart = float(first.first - second.first)
        if (first.unit, first.step) != (second.unit, second.step):  # each is rounded in its way
            return None
    elif not (isinstance(first, NumberAxis) and isinstance(second, NumberAxis)) or (second.is_whole and not first.is_whole):
        return None
    if not (most := float(high.high) - float(low.low) - apart) > max(rule.strict - 1e-9, 0.0):
        return None
    # A missing smaller cell beside a larger one is told by the span, and not by its own code, on which `MissingTogether` would look.
    names = {rule.low, rule.high}
    together = join_sets(set(each.columns) - schema.sources.keys() for each in schema.rules if isinstance(each, MissingTogether))
    if low.nullable and any(names & group and not names <= group for group in together):
        return None
    may_miss = bool(low.nullable) and not any(names <= group for group in together)
    may_pass = float(low.high) + apart + rule.strict > float(high.high)
    ends = float(low.low), float(low.high)
    return SpanEdge(rule.low, rule.high, apart, ends, most, may_miss, bool(high.nullable), may_pass)
