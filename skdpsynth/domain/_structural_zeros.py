"""Structural zeros: the sets of columns that the rules of a schema constrain together, and which tuples of their codes can occur."""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdpsynth.domain._constraints import (
    AllowedCodes,
    Cells,
    Columns,
    Impossible,
    Inequality,
    MissingTogether,
    Rule,
    Unique,
    cells_of_bins,
    cells_of_levels,
    ends_of,
)
from skdpsynth.domain._functional_dependencies import Derived, Determines, Sum, binds, inputs_of, leaves_of, sources_of
from skdpsynth.domain._kinds import Constant, Continuous, Identifier, Text, first_duplicate, list_names, name_repr
from skdpsynth.domain._order_constraints import Axis, Orders, axes_of, in_order
from skdpsynth.domain._times import Times
from skdpsynth.persistence import savable

_SLACK = 8  # tuples of some of the columns may be so many times more than those of all
_MOST_TUPLES = 1 << 14  # that columns tied by rules may have


@savable
@dataclass(frozen=True, eq=False)
class Tie:
    """All that rules say about a set of columns together; no rule joins these to other columns."""

    columns: tuple
    axes: Mapping[Any, Axis]  # of those that are numbers or times
    allowed: tuple[AllowedCodes, ...]
    orders: Orders

    @property
    def ordered_columns(self) -> frozenset:
        """The columns of numbers that are compared or added up, whose bins all differ."""
        return frozenset(self.orders.columns)

    def trim(self, name: Hashable, cells: Cells) -> Cells:
        """Return bins without the ends that rounding puts into a range of an `Impossible` that the rest of the bin is not in.

        The ends of ranges are edges of bins, but a number just beyond one may be written as the end itself, in a column of 32 bits.
        """
        if not len(cells.least):
            return cells
        axis, least, most = self.axes[name], cells.least.copy(), cells.most.copy()
        for low, high in (ends for each in self.allowed if name in each.scores for ends in each.scores[name].ranges):
            partly = ~((least >= low) & (most <= high))
            above, below = (high + 1, low - 1) if axis.is_whole else (np.nextafter(high, np.inf), np.nextafter(low, -np.inf))
            least = np.where(partly & (least >= low) & (least <= high), axis.ceil(np.full_like(least, above)), least)
            most = np.where(partly & (most >= low) & (most <= high), axis.floor(np.full_like(most, below)), most)
        return Cells(0, least, most, cells.nullable)

    def classes(self, name: Hashable, cells: Cells) -> np.ndarray:
        """Return the class of each code: codes that no rule tells apart are one class."""
        features = [each.scores[name].of_codes(cells) for each in self.allowed if name in each.scores] + [cells.missing]
        if len(cells.least):  # bins that rounding leaves empty
            features.append(np.append(cells.least > cells.most, [False] * cells.nullable))
        if name in self.ordered_columns:
            features.append(np.arange(cells.size))
        return np.unique(np.array(features, dtype=np.int64), axis=1, return_inverse=True)[1].ravel().astype(np.int64)

    def tuples(self, cells: Mapping[Any, Cells], most: int) -> tuple[dict[Any, np.ndarray], np.ndarray | None]:
        """Return (the class of each code of each column, the tuples of classes that can occur); None in place of more than `most`."""
        cells = {name: self.trim(name, cells[name]) for name in self.columns}
        classes = {name: self.classes(name, cells[name]) for name in self.columns}
        first = {name: np.unique(classes[name], return_index=True)[1] for name in self.columns}  # a code of each class
        sets = [set(each.scores) for each in self.allowed] + [{*edge[:2]} for edge in self.orders.edges]
        found, names = np.zeros((1, 0), dtype=np.int64), list[Any]()
        while left := [name for name in self.columns if name not in names]:  # next the one that most rules tie to those before
            name = max(left, key=lambda name: sum(name in each and bool(each & set(names)) for each in sets))
            n_classes = len(first[name])
            if len(found) * n_classes > most * _SLACK * 8:
                return classes, None
            names.append(name)
            found = np.column_stack([np.repeat(found, n_classes, axis=0), np.tile(np.arange(n_classes), len(found))])
            found = found[self.can_occur({each: first[each][found[:, place]] for place, each in enumerate(names)}, cells)]
            if len(found) > most * _SLACK:
                return classes, None
        return classes, found[:, [names.index(name) for name in self.columns]] if len(found) <= most else None

    def about(self, names: Sequence[Any]) -> "Tie":
        """Return the constraints on any of some columns, without those on the others alone."""
        allowed = tuple(each for each in self.allowed if set(names) & each.scores.keys())
        return replace(self, allowed=allowed, orders=self.orders.only(lambda compared: bool(compared & set(names))))

    def holds(self, shown: Mapping[Any, np.ndarray], missing: Mapping[Any, np.ndarray]) -> np.ndarray:
        """Return which rows keep all of it, given numbers on the axes and codes of levels."""
        kept = self.orders.holds(shown, missing)
        for each in self.allowed:
            kept &= each.holds(shown, missing)
        return kept

    def can_occur(self, codes: Mapping[Any, np.ndarray], cells: Mapping[Any, Cells]) -> np.ndarray:
        """Return which tuples of codes of some columns can occur, each rule by itself, beside some codes of the others."""
        missing = {name: cells[name].missing[codes[name]] for name in codes}
        ends = {name: ends_of(cells[name], codes[name]) for name in codes if len(cells[name].least)}
        least, most = ({name: each[side] for name, each in ends.items()} for side in (0, 1))
        can = np.ones(len(next(iter(codes.values()))), dtype=bool)
        for name in ends:
            can &= missing[name] | (least[name] <= most[name])
        for each in self.allowed:
            can &= each.can_occur(codes, cells)
        orders = self.orders.only(set(codes).issuperset)
        return can & orders.can_hold(least, most, missing) if orders.columns else can


def join_sets(sets: Iterable[set]) -> list[set]:
    """Return the unions of sets that meet."""
    groups: list[set] = []
    for each in sets:
        groups = [group for group in groups if not group & each] + [each.union(*(group for group in groups if group & each))]
    return groups


def ties_of(columns: Columns, rules: Sequence[Rule], dtypes: Mapping[Any, str] | None = None) -> tuple[Tie, ...]:
    """Return the sets of columns that rules tie together, by the kinds of a whole schema; values are rounded to `dtypes`."""
    if not rules:
        return ()
    # A schema knows all its rules, of which these may be a part.
    sources = getattr(columns, "sources", None) or sources_of(columns, tuple(rules))
    by_class = [rule for cls in (Impossible, MissingTogether, Determines) for rule in rules if isinstance(rule, cls)]  # orders the classes
    allowed = [each for rule in by_class if (each := rule.allowed_codes(columns, sources)) is not None]
    edges = list(dict.fromkeys((rule.low, rule.high, rule.strict) for rule in rules if isinstance(rule, Inequality)))
    binding = [rule for rule in rules if isinstance(rule, Sum) and binds(rule, columns, sources)]
    totals = [(leaves_of(rule, sources), float(columns[rule.total].low), float(columns[rule.total].high)) for rule in binding]
    axes, ties = axes_of(columns, dtypes), []
    for group in join_sets([set(each.scores) for each in allowed] + [{*edge[:2]} for edge in edges] + [{*total[0]} for total in totals]):
        own = [edge for edge in edges if edge[0] in group]
        total = next((total for total in totals if total[0][0] in group), None)
        compared = {name for edge in own for name in edge[:2]} | {*(total[0] if total else ())}
        ordered = [name for name in columns if name in compared]
        orders = Orders(in_order(ordered, own), tuple(own), {name: axes[name] for name in ordered}, total)
        said = tuple(each for each in allowed if group & each.scores.keys())
        names = tuple(name for name in columns if name in group)
        ties.append(Tie(names, {name: axes[name] for name in names if name in axes}, said, orders))
    return tuple(sorted(ties, key=lambda tie: list(columns).index(tie.columns[0])))


def cuts_of(columns: Columns, rules: Sequence[Rule]) -> dict[Any, np.ndarray]:
    """Return for each column the numbers, as `read` gives them, at which a range of an `Impossible` begins or is over."""
    if not rules:
        return {}
    cuts: dict[Any, set] = {}
    scores = [rule.allowed_codes(columns, {}).scores for rule in rules if isinstance(rule, Impossible)]
    for name, low, high in ((name, *ends) for each in scores for name, score in each.items() for ends in score.ranges):
        kind = columns[name]
        unit, first = (kind.microseconds, kind.first) if isinstance(kind, Times) else (1, 0)
        whole_ends = -(-low // unit) - first, high // unit + 1 - first
        cuts.setdefault(name, set()).update(map(float, whole_ends if kind.coded.integer else (low, math.nextafter(high, math.inf))))
    coded = {name: columns[name].coded for name in cuts}
    return {name: np.array(sorted(end for end in ends if coded[name].low < end <= coded[name].high)) for name, ends in cuts.items()}


def keys_of(rules: Sequence[Rule], columns: Columns) -> tuple[tuple, ...]:
    """Return the columns of each `Unique` that samples must keep: labels of identifiers are unique anyway."""
    keys = (rule.columns for rule in rules if isinstance(rule, Unique))
    return tuple(names for names in keys if all(name in columns and columns[name].coded is not None for name in names))


def check_rules(columns: Columns, rules: Sequence[Rule]) -> dict[Any, Any]:
    """Return the source of each computed column, or refuse rules that contradict the columns or each other, or make a circle."""
    for rule in rules:
        _check_names(rule.columns_named, type(rule).__name__, columns)
    for target, kind in columns.items():
        if isinstance(kind, Derived):
            subject, inputs = f"Derived column {name_repr(target)}", inputs_of(kind, columns)
            _check_names(inputs, subject, columns)
            for name in inputs:
                if any(isinstance(level, str) for level in getattr(columns[name], "levels", ())):
                    raise ValueError(f"{subject} takes column {name_repr(name)}, whose levels are no numbers.")
    sources = _check_sources(columns, rules)
    if not rules:
        return sources
    for rule in rules:
        rule._check(columns, sources)
    ties = ties_of(columns, rules)
    _check_totals(columns, [rule for rule in rules if isinstance(rule, Sum)], sources, ties)
    keys = [name for names in keys_of(rules, columns) for name in names]
    for name in keys:
        if keys.count(name) > 1 or any(name in tie.columns for tie in ties):
            raise ValueError(f"Unique names column {name_repr(name)}, which another rule names; a key must be free to differ.")
    if all(kind.coded is None or name in sources for name, kind in columns.items()):
        raise ValueError("rules must leave a column that is not computed, but all follow from others; leave a rule out.")
    _check_ties(ties, columns, cuts_of(columns, rules))
    return sources


def _check_names(names: Sequence[Any], subject: str, columns: Columns) -> None:
    for name in names:
        if name not in columns:
            raise ValueError(f"{subject} names column {name_repr(name)}, which schema has not; correct the name.")
        kind = columns[name]
        if isinstance(kind, Text | Constant) or (isinstance(kind, Identifier) and subject != "Unique"):
            raise ValueError(f"{subject} names column {name_repr(name)}, which is {type(kind).__name__} and not synthesized; leave it out.")
        if kind.stand_in is not None:
            raise ValueError(f"{subject} names column {name_repr(name)}, whose facts are {kind.stand_in}; rules need bounds and levels.")


def _check_sources(columns: Columns, rules: Sequence[Rule]) -> dict[Any, Any]:
    """Return the source of each computed column, or refuse circles, two sources for one column, and other rules about it."""
    targets = [rule.columns_named[-1] for rule in rules if isinstance(rule, Determines | Sum)]
    targets += [name for name, kind in columns.items() if isinstance(kind, Derived)]
    sources = sources_of(columns, tuple(rules))
    if circle := [name for name in targets if name not in sources]:
        raise ValueError(f"rules must not go round in a circle, but each of {list_names(circle)} follows from others; leave one out.")
    if len(sources) < len(targets):
        raise ValueError(f"rules must compute {name_repr(first_duplicate(targets))} once, but it follows from two; leave one out.")
    for rule in (each for each in rules if not isinstance(each, Determines | Sum)):
        for name in (each for each in rule.columns_named if each in sources):
            inputs, source = inputs_of(sources[name], columns), sources[name]
            if not (isinstance(rule, MissingTogether) and not isinstance(source, Determines) and set(inputs) <= set(rule.columns)):
                cls = type(rule).__name__
                raise ValueError(f"{cls} names column {name_repr(name)}, which is computed from {list_names(inputs)}; name these.")
    return sources


def _check_totals(columns: Columns, sums: Sequence[Sum], sources: Columns, ties: Sequence[Tie]) -> None:
    """Refuse two totals that bind one column, and a total that no sample could keep exactly."""
    seen: set = set()
    for rule in (each for each in sums if binds(each, columns, sources)):
        leaves = leaves_of(rule, sources)
        near = {name for tie in ties if set(tie.columns) & set(leaves) for name in tie.columns}
        if near & seen or len(set(leaves)) < len(leaves):
            raise ValueError(
                f"rules must have one total at most whose bounds parts could pass, of columns that are tied, but {name_repr(rule.total)} "
                "is another; widen its bounds to those of the sum."
            )
        if any(columns[name].integer for name in leaves) and columns[rule.total].high - columns[rule.total].low < 1:
            raise ValueError(f"Sum of whole numbers must have a total whose bounds are at least 1 apart, got {name_repr(rule.total)}.")
        seen |= near


def _check_ties(ties: Sequence[Tie], columns: Columns, cuts: Mapping[Any, np.ndarray]) -> None:
    """Refuse inequalities in a circle, and columns with too many possible tuples or none; numbers count in pieces between cuts."""
    for tie in ties:
        names, cells = list_names(tie.columns), {}
        if {name for edge in tie.orders.edges for name in edge[:2]} - {*tie.orders.columns}:
            raise ValueError(f"rules must not go round in a circle, but each of {names} is at most the next; leave one out.")
        for name in tie.columns:
            kind = columns[name].coded
            if isinstance(kind, Continuous):
                edges = np.concatenate([[kind.low], cuts.get(name, []), [math.nextafter(kind.high, math.inf)]])
                cells[name] = cells_of_bins(tie.axes[name], edges, kind)
            else:
                cells[name] = cells_of_levels(len(kind.levels), kind.nullable)
        tuples = tie.tuples(cells, _MOST_TUPLES)[1]
        if tuples is None:
            raise ValueError(
                f"rules must tie columns of few levels and ranges, but {names} are tied by rules to more than {_MOST_TUPLES} combinations; "
                "merge levels, or leave a rule out."
            )
        if not len(tuples):
            raise ValueError(f"rules must leave something possible, but nothing that columns {names} can hold does.")
