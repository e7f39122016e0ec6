"""Structural zeros: sets of columns that rules tie together, and which tuples of their codes can occur."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdpsynth.domain._allowed_cells import Cells, cells_of_levels, cells_of_numbers, condition_of, ends_of
from skdpsynth.domain._axes import Axis, axis_of
from skdpsynth.domain._constraints import Columns, Impossible, Inequality, MissingTogether, Rule, Unique
from skdpsynth.domain._dates import Times
from skdpsynth.domain._functional_dependencies import Determines, Sum, sources_of, targets_of
from skdpsynth.domain._kinds import Continuous
from skdpsynth.domain._order_constraints import Orders, in_order
from skdpsynth.persistence import savable

_SLACK = 8  # tuples of some of the columns may be so many times more than those of all


@savable
@dataclass(frozen=True, eq=False)
class Tie:
    """Columns about which rules say something together; other columns have no part in it."""

    columns: tuple
    axes: Mapping[Any, Axis]  # of those that are numbers or times
    impossible: tuple  # of dicts of column to Condition
    together: tuple  # of tuples of columns, which are missing all or none
    tables: tuple  # of (columns, array of bool): which tuples of codes occur, with a missing cell after the levels of each
    orders: Orders

    @property
    def ordered(self) -> frozenset:
        """The columns of numbers that are compared or added up, whose bins all differ."""
        return frozenset(self.orders.columns)

    def trimmed(self, name: Any, cells: Cells) -> Cells:
        """Return bins without the ends that rounding puts into a range of an `Impossible` that the rest of the bin is not in.

        The ends of ranges are edges of bins, but a number just beyond one may be written as the end itself, in a column of 32 bits.
        """
        if not len(cells.least):
            return cells
        axis, least, most = self.axes[name], cells.least.copy(), cells.most.copy()
        for low, high in (ends for conditions in self.impossible if name in conditions for ends in conditions[name].ranges):
            partly = ~((least >= low) & (most <= high))
            least = np.where(partly & (least >= low) & (least <= high), axis.after(np.full_like(least, high)), least)
            most = np.where(partly & (most >= low) & (most <= high), axis.before(np.full_like(most, low)), most)
        return Cells(0, least, most, cells.nullable)

    def classes(self, name: Any, cells: Cells) -> np.ndarray:
        """Return the class of each code: codes that no rule tells apart are one class."""
        features = [conditions[name].of(cells).astype(np.int64) for conditions in self.impossible if name in conditions]
        features.append(cells.missing.astype(np.int64))
        if len(cells.least):  # bins that rounding leaves empty
            features.append(np.append(cells.least > cells.most, [False] * cells.nullable).astype(np.int64))
        if name in self.ordered or any(name in columns for columns, _ in self.tables):
            features.append(np.arange(cells.size))
        return np.unique(np.array(features), axis=1, return_inverse=True)[1].ravel().astype(np.int64)

    def tuples(self, cells: Mapping[Any, Cells], most: int) -> tuple[dict[Any, np.ndarray], np.ndarray | None]:
        """Return (the class of each code of each column, the tuples of classes that can occur); None in place of more than `most`."""
        cells = {name: self.trimmed(name, cells[name]) for name in self.columns}
        classes = {name: self.classes(name, cells[name]) for name in self.columns}
        first = {name: np.unique(classes[name], return_index=True)[1] for name in self.columns}  # a code of each class
        found, names = np.zeros((1, 0), dtype=np.int64), []
        for name in self._near_each_other():
            n_classes = len(first[name])
            if len(found) * n_classes > most * _SLACK * 8:
                return classes, None
            names.append(name)
            found = np.column_stack([np.repeat(found, n_classes, axis=0), np.tile(np.arange(n_classes), len(found))])
            codes = {each: first[each][found[:, place]] for place, each in enumerate(names)}
            found = found[self.can_occur(names, codes, cells)]
            if len(found) > most * _SLACK:
                return classes, None
        tuples = found[:, [names.index(name) for name in self.columns]]
        return classes, tuples if len(tuples) <= most else None

    def _near_each_other(self) -> list[Any]:
        """Return the columns, each after one that a rule ties it to."""
        sets = [set(each) for each in (*self.impossible, *self.together, *(names for names, _ in self.tables))]
        sets += [{first, second} for first, second, _ in self.orders.edges]
        names: list[Any] = []
        while len(names) < len(self.columns):
            left = [name for name in self.columns if name not in names]
            names.append(max(left, key=lambda name: sum(name in each and bool(each & set(names)) for each in sets)))
        return names

    def about(self, names: Sequence[Any]) -> "Tie":
        """Return what is said about any of some columns; what is said about the others alone is left out."""
        chosen, orders = set(names), self.orders
        edges = tuple(edge for edge in orders.edges if chosen & set(edge[:2]))
        total = orders.total if orders.total and chosen & set(orders.total[0]) else None
        compared = {name for edge in edges for name in edge[:2]} | set(total[0] if total else ())
        return replace(
            self,
            impossible=tuple(conditions for conditions in self.impossible if chosen & set(conditions)),
            together=tuple(columns for columns in self.together if chosen & set(columns)),
            tables=tuple(table for table in self.tables if chosen & set(table[0])),
            orders=Orders(tuple(name for name in orders.columns if name in compared), edges, orders.axes, total),
        )

    def holds(self, shown: Mapping[Any, np.ndarray], missing: Mapping[Any, np.ndarray]) -> np.ndarray:
        """Return which rows keep all of it, given numbers as they stand on the axes and numbers of levels."""
        codes = {name: shown[name].astype(np.int64) for names, _ in self.tables for name in names}
        kept = self._allows(self.columns, lambda name, condition: condition.of_values(shown[name], missing[name]), missing, codes)
        return kept & self.orders.holds(shown, missing) if self.orders.columns else kept

    def can_occur(self, names: Sequence[Any], codes: Mapping[Any, np.ndarray], cells: Mapping[Any, Cells]) -> np.ndarray:
        """Return which tuples of codes of some columns break no rule on these alone."""
        missing = {name: cells[name].missing[codes[name]] for name in names}
        can = self._allows(names, lambda name, condition: condition.of(cells[name])[codes[name]], missing, codes)
        orders, least, most = self.orders.among(names), {}, {}
        for name in names:
            if len(cells[name].least):
                least[name], most[name] = ends_of(cells[name], codes[name])
                can &= missing[name] | (least[name] <= most[name])
        if orders.columns:
            can &= orders.can_hold({n: least[n] for n in orders.columns}, {n: most[n] for n in orders.columns}, missing)
        return can

    def _allows(self, names: Sequence[Any], meets: Any, missing: Mapping[Any, np.ndarray], codes: Mapping[Any, np.ndarray]) -> np.ndarray:
        """Return which rows keep what is said of some columns but orders; `meets` tells which meet a condition on a column."""
        kept = np.ones(len(missing[names[0]]), dtype=bool)
        for conditions in self.impossible:
            if set(conditions) <= set(names):
                kept &= ~np.all([meets(name, condition) for name, condition in conditions.items()], axis=0)
        for together in self.together:
            if gone := [missing[name] for name in together if name in names]:
                kept &= np.all(gone, axis=0) == np.any(gone, axis=0)
        for columns, allowed in self.tables:
            if set(columns) <= set(names):
                kept &= allowed[tuple(codes[name] for name in columns)]
        return kept


def ties_of(columns: Columns, rules: Sequence[Rule], dtypes: Mapping[Any, str] | None = None) -> tuple[Tie, ...]:
    """Return the sets of columns that rules tie together, by the kinds of a whole schema; values are rounded to `dtypes`."""
    # A schema knows all its rules, of which these may be a part.
    sources = getattr(columns, "sources", None) or sources_of(columns, tuple(rules))
    axes = axes_of(columns, dtypes)
    parts = [part for rule in rules if (part := _part(rule, columns, sources))]
    groups = _joined([part[0] for part in parts], list(columns))
    return tuple(_tie(names, [part for part in parts if set(part[0]) <= set(names)], axes) for names in groups)


def axes_of(columns: Columns, dtypes: Mapping[Any, str] | None = None) -> dict[Any, Axis]:
    return {name: axis_of(kind, (dtypes or {}).get(name)) for name, kind in columns.items() if isinstance(kind, Continuous | Times)}


def _part(rule: Rule, columns: Columns, sources: Columns) -> tuple[Sequence[Any], type, Any] | None:
    """Return (columns that a rule ties together, its class, what it says); None if it ties nothing."""
    names: tuple = rule.columns_named
    if isinstance(rule, Impossible):
        return names, Impossible, {name: condition_of(name, columns[name], items) for name, items in rule.cells.items()}
    if isinstance(rule, Inequality):
        return names, Inequality, (rule.low, rule.high, rule.strict)
    if isinstance(rule, MissingTogether):
        names = tuple(name for name in names if name not in sources)
        return (names, MissingTogether, names) if len(names) > 1 else None
    if isinstance(rule, Determines) and not set(rule.given) & set(sources):
        known = [is_known for is_known, _ in targets_of(rule, columns)]
        allowed = np.array(known).reshape([len(columns[name].levels) + 1 for name in rule.given])
        return None if allowed.all() else (rule.given, Determines, (rule.given, allowed))
    if isinstance(rule, Sum) and binds(rule, columns, sources):
        names, total = leaves_of(rule, sources), columns[rule.total]
        return names, Sum, (names, float(total.low), float(total.high))
    return None


def leaves_of(rule: Sum, sources: Columns) -> tuple:
    """Return the columns that a total is made of, with those of totals among its parts."""
    parts = [leaves_of(sources[name], sources) if isinstance(sources.get(name), Sum) else (name,) for name in rule.columns]
    return tuple(itertools.chain.from_iterable(parts))


def binds(rule: Sum, columns: Columns, sources: Columns) -> bool:
    """Whether the bounds of a total leave out some sums of its parts."""
    leaves, total = [columns[name] for name in leaves_of(rule, sources)], columns[rule.total]
    return math.fsum(kind.low for kind in leaves) < total.low or math.fsum(kind.high for kind in leaves) > total.high


def _joined(sets: Sequence[Sequence[Any]], order: Sequence[Any]) -> list[tuple]:
    """Join sets of columns that meet; each in the order of the schema."""
    groups: list[set] = []
    for each in map(set, sets):
        meeting = [group for group in groups if group & each]
        groups = [group for group in groups if not group & each] + [each.union(*meeting)]
    places = {name: place for place, name in enumerate(order)}
    return sorted((tuple(sorted(group, key=places.__getitem__)) for group in groups), key=lambda group: places[group[0]])


def _tie(names: tuple, parts: Sequence[tuple], axes: Mapping[Any, Axis]) -> Tie:
    impossible, edges, together, tables, totals = (
        tuple(said for _, rule, said in parts if rule is each) for each in (Impossible, Inequality, MissingTogether, Determines, Sum)
    )
    edges = tuple(dict.fromkeys(edges))
    compared = {name for edge in edges for name in edge[:2]} | {name for total in totals for name in total[0]}
    ordered = [name for name in names if name in compared]
    orders = Orders(in_order(ordered, edges), edges, {name: axes[name] for name in ordered}, totals[0] if totals else None)
    return Tie(names, {name: axes[name] for name in names if name in axes}, impossible, together, tables, orders)


def cuts_of(columns: Columns, rules: Sequence[Rule]) -> dict[Any, np.ndarray]:
    """Return by column the numbers, as `read` gives them, at which a range of an `Impossible` begins, and from which it is over."""
    cuts: dict[Any, set] = {}
    for name, items in (cell for rule in rules if isinstance(rule, Impossible) for cell in rule.cells.items()):
        kind = columns[name]
        unit, first = (kind.microseconds, kind.first) if isinstance(kind, Times) else (1, 0)
        for low, high in condition_of(name, kind, items).ranges:
            if kind.coded.integer:
                ends = -(-low // unit) - first, high // unit + 1 - first
            else:
                ends = low, math.nextafter(high, math.inf)
            cuts.setdefault(name, set()).update(map(float, ends))
    coded = {name: columns[name].coded for name in cuts}
    return {name: np.array(sorted(end for end in ends if coded[name].low < end <= coded[name].high)) for name, ends in cuts.items()}


def pieces_of(tie: Tie, columns: Columns, cuts: Mapping[Any, np.ndarray]) -> dict[Any, Cells]:
    """Return the cells of the columns of a tie as public facts give them: numbers in pieces between cuts."""
    cells = {}
    for name in tie.columns:
        kind = columns[name].coded
        if isinstance(kind, Continuous):
            edges = np.concatenate([[kind.low], cuts.get(name, []), [math.nextafter(kind.high, math.inf)]])
            last = np.minimum(np.ceil(edges[1:]) - 1 if kind.integer else np.nextafter(edges[1:], -np.inf), kind.high)
            last[-1] = kind.high
            cells[name] = cells_of_numbers(tie.axes[name], edges[:-1], last, kind.nullable)
        else:
            cells[name] = cells_of_levels(len(kind.levels), kind.nullable)
    return cells


def keys_of(rules: Sequence[Rule], columns: Columns) -> tuple[tuple, ...]:
    """Return the columns of each `Unique` that samples must keep: labels of identifiers are unique anyway."""
    keys = (rule.columns for rule in rules if isinstance(rule, Unique))
    return tuple(names for names in keys if all(name in columns and columns[name].coded is not None for name in names))
