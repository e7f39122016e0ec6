"""Spans: where an `Inequality` orders two columns, the second is modeled by how far it lies above the first.

Totals are kept in the same place: parts are modeled freely, and rows whose parts pass the bounds of their total are moved within them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpsynth.domain._constraints import AllowedCells, Impossible, Inequality, MissingTogether, Rule, Unique
from skdpsynth.domain._functional_dependencies import Sum, binds, leaves_of
from skdpsynth.domain._kinds import Span
from skdpsynth.domain._order_constraints import Axis, NumberAxis, Orders, TimeAxis, axes_of
from skdpsynth.domain._schema import Schema
from skdpsynth.domain._structural_zeros import join_sets, ties_of
from skdpsynth.frames import Chunk
from skdpsynth.persistence import savable

Columns = Mapping[Any, np.ndarray]


@savable
@dataclass(frozen=True)
class SpanEdge:
    """An `Inequality` whose larger column is a span."""

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
    rules = _kept_by_spans(schema, possible)
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


def _kept_by_spans(schema: Schema, possible: Mapping[Inequality, SpanEdge]) -> list[Rule]:
    """Return the inequalities and totals of whose columns no other rule needs the numbers, and at most one the larger column."""
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
    return [rule for place, rule in enumerate(schema.rules) if place in kept]


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
