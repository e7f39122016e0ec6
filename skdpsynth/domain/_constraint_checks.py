"""Whether rules fit the columns of a schema and each other: by public facts alone, when the schema is made."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from skdpsynth._validation import short_repr
from skdpsynth.domain._allowed_combinations import binds, condition_of, cuts_of, keys_of, leaves_of, pieces_of, ties_of
from skdpsynth.domain._axes import axis_of
from skdpsynth.domain._constraints import Determines, Impossible, Inequality, MissingTogether, Rule, Sum, Unique
from skdpsynth.domain._dates import Times
from skdpsynth.domain._derived import Derived
from skdpsynth.domain._functional_dependencies import inputs_of, sources_of, target_of, value_in
from skdpsynth.domain._identifiers import Identifier, Text
from skdpsynth.domain._kinds import Continuous, list_names, name_repr
from skdpsynth.domain._order_constraints import in_order

_MOST_TUPLES = 1 << 14  # that columns tied by rules may have
_MOST_KEYS = 1 << 62
Columns = Mapping[Any, Any]


def check_rules(columns: Columns, rules: Sequence[Rule]) -> None:
    """Refuse rules that name what is not there, that contradict the columns or each other, or that make a circle."""
    derived = {name: kind for name, kind in columns.items() if isinstance(kind, Derived)}
    for rule in rules:
        _check_names(rule.columns_named, type(rule).__name__, columns)
    for name, kind in derived.items():
        _check_names(inputs_of(name, kind, columns), f"Derived column {name_repr(name)}", columns)
        for each in inputs_of(name, kind, columns):
            _check_number(each, columns[each], name)
    sources = _checked_sources(columns, rules)
    for rule in rules:
        _check_computed(rule, sources, columns)
        _CHECKS[type(rule)](rule, columns, sources)
    if not rules:
        return
    _check_totals(columns, rules, sources)
    if any(name not in columns for name in sources) or all(kind.coded is None or name in sources for name, kind in columns.items()):
        raise ValueError("rules must leave a column that is not computed, but all follow from others; leave a rule out.")
    cuts = cuts_of(columns, rules)
    for tie in ties_of(columns, rules):
        if len(in_order(tie.orders.columns, tie.orders.edges)) < len({name for edge in tie.orders.edges for name in edge[:2]}):
            raise ValueError(
                f"rules must not go round in a circle, but each of {list_names(tie.columns)} is at most the next; leave one out."
            )
        _, tuples = tie.tuples(pieces_of(tie, columns, cuts), _MOST_TUPLES)
        if tuples is None:
            raise ValueError(
                f"rules must tie columns of few levels and ranges, but {list_names(tie.columns)} are tied by rules to more than {_MOST_TUPLES} "
                "combinations; merge levels, or leave a rule out."
            )
        if not len(tuples):
            raise ValueError(
                f"rules must leave something possible, but nothing that columns {list_names(tie.columns)} can hold meets all of them."
            )


def _check_names(names: Sequence[Any], what: str, columns: Columns) -> None:
    for name in names:
        if name not in columns:
            raise ValueError(f"{what} names column {name_repr(name)}, which schema has not; correct the name.")
        kind = columns[name]
        if isinstance(kind, Text) or (isinstance(kind, Identifier) and what != "Unique"):
            raise ValueError(f"{what} names column {name_repr(name)}, which is {type(kind).__name__} and has no values; leave it out.")
        if kind.unstated is not None:
            raise ValueError(f"{what} names column {name_repr(name)}, whose facts are {kind.unstated}; rules need bounds and levels.")


def _check_number(name: Any, kind: Any, target: Any) -> None:
    if hasattr(kind, "levels") and any(isinstance(level, str) for level in kind.levels):
        raise ValueError(f"Derived column {name_repr(target)} takes column {name_repr(name)}, whose levels are no numbers; leave it out.")


def _checked_sources(columns: Columns, rules: Sequence[Rule]) -> dict[Any, Any]:
    """Return what each computed column is computed by, or refuse two rules for one, and circles."""
    targets = [rule.column if isinstance(rule, Determines) else rule.total for rule in rules if isinstance(rule, Determines | Sum)]
    targets += [name for name, kind in columns.items() if isinstance(kind, Derived)]
    if len(set(targets)) < len(targets):
        twice = next(name for name in targets if targets.count(name) > 1)
        raise ValueError(f"rules must compute a column once, but {name_repr(twice)} follows from two; leave one out.")
    sources = sources_of(columns, tuple(rules))
    if len(sources) < len(targets):
        circle = [name for name in targets if name not in sources]
        raise ValueError(
            f"rules must not go round in a circle, but each of {list_names(circle)} follows from others of them; leave one out."
        )
    return sources


def _check_computed(rule: Rule, sources: Columns, columns: Columns) -> None:
    """Refuse rules about computed columns, but for those by which they are computed and that follow anyway."""
    if isinstance(rule, Determines | Sum):
        return
    for name in (each for each in rule.columns_named if each in sources):
        inputs = inputs_of(name, sources[name], columns)
        if isinstance(rule, MissingTogether) and set(inputs) <= set(rule.columns_named) and not isinstance(sources[name], Determines):
            continue
        raise ValueError(
            f"{type(rule).__name__} names column {name_repr(name)}, which is computed from {list_names(inputs)}; state the rule by these."
        )


def _check_impossible(rule: Any, columns: Columns, sources: Columns) -> None:
    for name, items in rule.cells.items():
        kind = columns[name]
        condition_of(name, kind, items, axis_of(kind) if isinstance(kind, Continuous | Times) else None)


def _check_determines(rule: Any, columns: Columns, sources: Columns) -> None:
    for name in rule.given:
        if not hasattr(columns[name], "levels"):
            raise ValueError(f"Determines needs levels to start from, but column {name_repr(name)} is {type(columns[name]).__name__}.")
        if name in sources and len(rule.given) > 1:
            raise ValueError(f"Determines may not start from several columns if one is computed, as {name_repr(name)} is.")
    kind, keys = columns[rule.column], [key if len(rule.given) > 1 else (key,) for key in rule.mapping]
    for key in keys:
        for name, level in zip(rule.given, key, strict=True):
            if level is not None and level not in columns[name].levels:
                raise ValueError(f"Determines maps from {short_repr(level)}, which is no level of column {name_repr(name)}; correct it.")
    if len(rule.given) == 1:
        left = [level for level in columns[rule.given[0]].levels if (level,) not in keys]
        if left:
            raise ValueError(
                f"Determines must map every level of column {name_repr(rule.given[0])}, but has none for {short_repr(left[0])}."
            )
    for value in rule.mapping.values():
        _check_target(rule.column, kind, value)
    nulls = any(columns[name].nullable for name in rule.given)
    if nulls and not kind.nullable and target_of(rule, (None,) * len(rule.given))[1] is None:
        raise ValueError(
            f"Determines leaves column {name_repr(rule.column)} missing where {list_names(rule.given)} are, but it is not nullable; map None."
        )


def _check_target(name: Any, kind: Any, value: Any) -> None:
    fits = value is None and kind.nullable
    if value is not None:
        try:
            told = value_in(kind, value)
            fits = hasattr(kind, "levels") or (kind.coded.low <= told <= kind.coded.high and (not kind.coded.integer or told == int(told)))
        except (ValueError, TypeError):
            fits = False
    if not fits:
        raise ValueError(
            f"Determines maps to {short_repr(value)}, which column {name_repr(name)} cannot hold by schema; correct one of them."
        )


def _check_inequality(rule: Any, columns: Columns, sources: Columns) -> None:
    kinds = [columns[name] for name in (rule.low, rule.high)]
    is_time = [isinstance(kind, Times) for kind in kinds]
    if not all(is_time) and not all(isinstance(kind, Continuous) for kind in kinds):
        raise ValueError(
            f"Inequality must be between two columns of numbers, or two of dates and times, got {type(kinds[0]).__name__} and "
            f"{type(kinds[1]).__name__}."
        )
    if all(is_time) and (kinds[0].zone is None) != (kinds[1].zone is None):
        raise ValueError(f"Inequality must be between times that both have a zone or neither, got {list_names(rule.columns_named)}.")
    if rule.strict and not all(is_time) and not all(kind.integer for kind in kinds):
        raise ValueError(
            f"strict must be False for numbers that are not whole, got True for {list_names(rule.columns_named)}; say strict=False, or "
            "integer=True of both."
        )


def _check_sum(rule: Any, columns: Columns, sources: Columns) -> None:
    total = columns[rule.total]
    for name in rule.columns_named:
        if not isinstance(columns[name], Continuous):
            raise ValueError(f"Sum must be of columns of numbers, but {name_repr(name)} is {type(columns[name]).__name__}.")
        if name != rule.total and name in sources and not isinstance(sources[name], Sum):
            raise ValueError(f"Sum takes column {name_repr(name)}, which is computed, and not as a Sum; state it by its inputs.")
    parts = [columns[name] for name in rule.columns]
    if total.integer and not all(kind.integer for kind in parts):
        raise ValueError(f"Sum of numbers that are not whole must have a total that is not, but {name_repr(rule.total)} is whole.")
    if not total.nullable and any(kind.nullable for kind in parts):
        raise ValueError(f"Sum leaves column {name_repr(rule.total)} missing where a part is, but it is not nullable; set nullable=True.")
    low, high = math.fsum(kind.low for kind in parts), math.fsum(kind.high for kind in parts)
    if high < total.low or low > total.high:
        raise ValueError(
            f"Sum of parts from {low:g} to {high:g} can never be within the bounds of column {name_repr(rule.total)}; correct the bounds."
        )


def _check_together(rule: Any, columns: Columns, sources: Columns) -> None:
    for name in (each for each in rule.columns if each not in sources):
        if not columns[name].nullable:
            raise ValueError(f"MissingTogether names column {name_repr(name)}, which is not nullable; set nullable=True, or leave it out.")


def _check_unique(rule: Any, columns: Columns, sources: Columns) -> None:
    for name in rule.columns:
        kind = columns[name]
        if isinstance(kind, Identifier):
            continue
        if kind.nullable or (isinstance(kind, Continuous) and not kind.integer):
            raise ValueError(
                f"Unique must be of whole numbers, dates, times, levels or identifiers that are not nullable, but {name_repr(name)} is "
                f"{'nullable' if kind.nullable else 'of real numbers'}."
            )
    if n_keys(rule.columns, columns) > _MOST_KEYS:
        raise ValueError(f"Unique must have at most 2**62 possible keys, got more in {list_names(rule.columns)}; leave a column out.")


_CHECKS: dict[type, Callable[[Any, Columns, Columns], None]] = {
    **{Impossible: _check_impossible, Determines: _check_determines, Inequality: _check_inequality},
    **{Sum: _check_sum, MissingTogether: _check_together, Unique: _check_unique},
}


def n_keys(names: Sequence[Any], columns: Columns) -> int:
    """Return how many different keys there are."""
    kinds = (columns[name].coded for name in names if columns[name].coded is not None)
    return math.prod(kind.high - kind.low + 1 if isinstance(kind, Continuous) else len(kind.levels) for kind in kinds)


def _check_totals(columns: Columns, rules: Sequence[Rule], sources: Columns) -> None:
    """Refuse what no sample could keep exactly: two totals that bind one column, keys that other rules bind."""
    seen: set = set()
    tied = [set(tie.columns) for tie in ties_of(columns, rules)]
    for rule in (each for each in rules if isinstance(each, Sum) and binds(each, columns, sources)):
        leaves = leaves_of(rule, sources)
        near = set().union(*(tie for tie in tied if tie & set(leaves)))
        if near & seen or len(set(leaves)) < len(leaves):
            raise ValueError(
                f"rules must have one total at most whose bounds parts could pass, of columns that are tied, but {name_repr(rule.total)} "
                "is another; widen its bounds to those of the sum."
            )
        wholes = [bool(columns[name].integer) for name in leaves]
        if any(wholes) and columns[rule.total].high - columns[rule.total].low < 1:
            raise ValueError(f"Sum of whole numbers must have a total whose bounds are at least 1 apart, got {name_repr(rule.total)}.")
        seen |= near
    keys = [name for names in keys_of(rules, columns) for name in names]
    for name in keys:
        if keys.count(name) > 1 or any(name in tie for tie in tied):
            raise ValueError(f"Unique names column {name_repr(name)}, which another rule names; a key must be free to differ.")
