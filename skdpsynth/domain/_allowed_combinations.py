"""From the rules of a schema to ties: what mechanisms must know of them, in numbers and codes."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from skdpsynth._validation import is_real, short_repr
from skdpsynth.domain._axes import Axis, axis_of
from skdpsynth.domain._constraints import Determines, Impossible, Inequality, MissingTogether, Rule, Sum, Unique
from skdpsynth.domain._dates import MICROSECONDS, Times, units_of_moment
from skdpsynth.domain._functional_dependencies import sources_of, target_of
from skdpsynth.domain._kinds import Continuous, name_repr
from skdpsynth.domain._order_constraints import Orders, in_order
from skdpsynth.domain._structural_zeros import Cells, Condition, Tie, cells_of_levels, cells_of_numbers

Columns = Mapping[Any, Any]


def ties_of(columns: Columns, rules: Sequence[Rule], dtypes: Mapping[Any, str] | None = None) -> tuple[Tie, ...]:
    """Return the sets of columns that rules tie, by the kinds of a whole schema.

    Parameters
    ----------
    columns : dict or Schema
        Kinds.
    rules : sequence of Rule
        All, or those of the schema that are of interest.
    dtypes : dict of column to str, default=None
        Of the caller's table, to which values are rounded. None: they are not.
    """
    sources = sources_in(columns, rules)
    axes = axes_of(columns, dtypes)
    parts = [part for rule in rules if (part := _part(rule, columns, rules, sources, axes)) is not None]
    ties = []
    for names in _joined([part[0] for part in parts], list(columns)):
        own = [part for part in parts if set(part[0]) <= set(names)]
        ties.append(_tie(names, own, axes))
    return tuple(ties)


def sources_in(columns: Columns, rules: Sequence[Rule]) -> Columns:
    """Return by what columns are computed: as a schema knows it, of which `rules` may be a part; of a mere dict, by these rules."""
    return getattr(columns, "sources", None) or sources_of(columns, tuple(rules))


def axes_of(columns: Columns, dtypes: Mapping[Any, str] | None = None) -> dict[Any, Axis]:
    """Return the axes of columns of numbers and times."""
    return {name: axis_of(kind, (dtypes or {}).get(name)) for name, kind in columns.items() if isinstance(kind, Continuous | Times)}


def _part(rule: Rule, columns: Columns, rules: Sequence[Rule], sources: Columns, axes: Mapping[Any, Axis]) -> tuple | None:
    """Return (columns that are tied, what kind of tie it is, what it says) of a rule; None of one that ties nothing."""
    if isinstance(rule, Impossible):
        conditions = {name: condition_of(name, columns[name], items, axes.get(name)) for name, items in rule.cells.items()}
        return tuple(conditions), "impossible", conditions
    if isinstance(rule, Inequality):
        return (rule.low, rule.high), "order", (rule.low, rule.high, rule.strict)
    if isinstance(rule, MissingTogether):
        names = tuple(name for name in rule.columns if name not in sources)
        return (names, "together", names) if len(names) > 1 else None
    if isinstance(rule, Determines):
        allowed = _allowed(rule, columns)
        return (rule.given, "table", (rule.given, allowed)) if not allowed.all() and not set(rule.given) & set(sources) else None
    if isinstance(rule, Sum):
        names, kind = leaves_of(rule, sources), columns[rule.total]
        return (names, "total", (names, float(kind.low), float(kind.high))) if binds(rule, columns, sources) else None
    return None


def leaves_of(rule: Sum, sources: Columns) -> tuple:
    """Return the columns that a total is made of, with those of totals among its parts."""
    parts = [leaves_of(sources[name], sources) if isinstance(sources.get(name), Sum) else (name,) for name in rule.columns]
    return tuple(itertools.chain.from_iterable(parts))


def binds(rule: Sum, columns: Columns, sources: Columns) -> bool:
    """Whether the bounds of a total leave out some sums of its parts."""
    leaves, total = [columns[name] for name in leaves_of(rule, sources)], columns[rule.total]
    return math.fsum(kind.low for kind in leaves) < total.low or math.fsum(kind.high for kind in leaves) > total.high


def _allowed(rule: Determines, columns: Columns) -> np.ndarray:
    """Return which tuples of codes the mapping knows, with a place for missing after the levels of each column."""
    cells = [[*columns[name].levels, None] for name in rule.given]
    known = [target_of(rule, key)[0] for key in itertools.product(*cells)]
    return np.array(known, dtype=bool).reshape([len(each) for each in cells])


def _joined(sets: Sequence[Sequence[Any]], order: Sequence[Any]) -> list[tuple]:
    """Join sets of columns that meet; each in the order of the schema."""
    groups: list[set] = []
    for each in map(set, sets):
        meeting = [group for group in groups if group & each]
        groups = [group for group in groups if not group & each] + [each.union(*meeting)]
    places = {name: place for place, name in enumerate(order)}
    return sorted((tuple(sorted(group, key=places.__getitem__)) for group in groups), key=lambda group: places[group[0]])


def _tie(names: tuple, parts: Sequence[tuple], axes: Mapping[Any, Axis]) -> Tie:
    told: dict[str, list] = {kind: [what for _, each, what in parts if each == kind] for kind in _PARTS}
    totals = told["total"]
    compared = {name for edge in told["order"] for name in edge[:2]} | {name for total in totals for name in total[0]}
    edges = tuple(dict.fromkeys(told["order"]))
    orders = Orders(
        in_order([name for name in names if name in compared], edges),
        edges,
        {name: axes[name] for name in names if name in compared},
        totals[0] if totals else None,
    )
    own = {name: axes[name] for name in names if name in axes}
    return Tie(names, own, tuple(told["impossible"]), tuple(told["together"]), tuple(told["table"]), orders)


_PARTS = ("impossible", "order", "together", "table", "total")


def condition_of(name: Any, kind: Any, items: Sequence[Any], axis: Axis | None) -> Condition:
    """Return what an `Impossible` says of a column, in codes or numbers; refuse what the kind does not know."""
    missing = None in items
    if missing and not kind.nullable:
        raise ValueError(f"rules say of column {name_repr(name)} that it is missing, but it is not nullable; leave None out.")
    told = [item for item in items if item is not None]
    if axis is None:
        unknown = [item for item in told if isinstance(item, tuple) or item not in kind.levels]
        if unknown:
            raise ValueError(
                f"rules must name levels of column {name_repr(name)} as schema has them (several in a list), got {short_repr(unknown[0])}."
            )
        return Condition(tuple(kind.levels.index(item) for item in told), (), missing)
    return Condition((), tuple(_range(name, kind, item if isinstance(item, tuple) else (item, item)) for item in told), missing)


def _range(name: Any, kind: Any, ends: tuple) -> tuple:
    is_time = isinstance(kind, Times)
    if not all(end is None or (isinstance(end, str) if is_time else is_real(end)) for end in ends):
        what = "dates or times" if is_time else "numbers"
        raise ValueError(f"rules must give {what} for column {name_repr(name)}, or (low, high) of them, got {short_repr(ends)}.")
    low, high = (None if end is None else _on_axis(end, kind) for end in ends)
    first, last = ends_of_kind(kind)
    low, high = first if low is None else low, last if high is None else high
    if low > high or high < first or low > last:
        raise ValueError(
            f"rules must give a range with low <= high within the bounds of column {name_repr(name)}, got {short_repr(ends)}; it says nothing."
        )
    return low, high


def _on_axis(end: Any, kind: Any) -> Any:
    if not isinstance(kind, Times):
        return float(end)
    return units_of_moment(end, kind) * MICROSECONDS[kind.resolution]


def ends_of_kind(kind: Any) -> tuple:
    """Return the bounds of a column on its axis."""
    if not isinstance(kind, Times):
        return float(kind.low), float(kind.high)
    return kind.first * MICROSECONDS[kind.resolution], (kind.first + kind.coded.high) * MICROSECONDS[kind.resolution]


def cuts_of(columns: Columns, rules: Sequence[Rule]) -> dict[Any, np.ndarray]:
    """Return by column the numbers, as `read` gives them, at which a range of an `Impossible` begins, and from which it is over."""
    cuts: dict[Any, set] = {}
    for rule in rules:
        for name, items in rule.cells.items() if isinstance(rule, Impossible) else ():
            kind = columns[name]
            if not isinstance(kind, Continuous | Times):
                continue
            unit, first = (MICROSECONDS[kind.resolution], kind.first) if isinstance(kind, Times) else (1, 0)
            for low, high in condition_of(name, kind, items, axis_of(kind)).ranges:
                if kind.coded.integer:
                    ends = (math.ceil(low / unit) if unit == 1 else -(-low // unit)) - first, math.floor(high / unit) + 1 - first
                else:
                    ends = low, math.nextafter(high, math.inf)
                cuts.setdefault(name, set()).update(map(float, ends))
    return {
        name: np.array(sorted(end for end in ends if columns[name].coded.low < end <= columns[name].coded.high))
        for name, ends in cuts.items()
    }


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
    """Return the columns of each `Unique` that samples must be told of: labels of identifiers are unique anyway."""
    keys = (rule.columns for rule in rules if isinstance(rule, Unique))
    return tuple(names for names in keys if all(columns[name].coded is not None for name in names))
