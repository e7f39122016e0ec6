"""Checks that rules fit the columns of a schema and each other, by public facts alone."""

from collections.abc import Mapping, Sequence
from typing import Any

from skdpsynth.domain._allowed_cells import Cells
from skdpsynth.domain._constraints import Columns, MissingTogether, Rule
from skdpsynth.domain._derived import Derived
from skdpsynth.domain._functional_dependencies import Determines, Sum, inputs_of, sources_of
from skdpsynth.domain._kinds import Constant, Identifier, Text, first_duplicate, list_names, name_repr
from skdpsynth.domain._order_constraints import in_order
from skdpsynth.domain._structural_zeros import Tie, binds, cuts_of, keys_of, leaves_of, pieces_of, ties_of

_MOST_TUPLES = 1 << 14  # that columns tied by rules may have


def check_rules(columns: Columns, rules: Sequence[Rule]) -> dict[Any, Any]:
    """Return what computes columns, or refuse rules that contradict the columns or each other, or that make a circle."""
    for rule in rules:
        _check_names(rule.columns_named, type(rule).__name__, columns)
    for target, kind in columns.items():
        if isinstance(kind, Derived):
            _check_inputs(target, inputs_of(kind, columns), columns)
    sources = _checked_sources(columns, rules)
    for rule in rules:
        _check_computed(rule, sources, columns)
        rule._check(columns, sources)
    if not rules:
        return sources
    ties = ties_of(columns, rules)
    _check_totals(columns, rules, sources, ties)
    _check_keys(columns, rules, ties)
    if all(kind.coded is None or name in sources for name, kind in columns.items()):
        raise ValueError("rules must leave a column that is not computed, but all follow from others; leave a rule out.")
    cuts = cuts_of(columns, rules)
    for tie in ties:
        _check_tuples(tie, pieces_of(tie, columns, cuts))
    return sources


def _check_names(names: Sequence[Any], subject: str, columns: Columns) -> None:
    for name in names:
        if name not in columns:
            raise ValueError(f"{subject} names column {name_repr(name)}, which schema has not; correct the name.")
        kind = columns[name]
        if isinstance(kind, Text | Constant) or (isinstance(kind, Identifier) and subject != "Unique"):
            raise ValueError(f"{subject} names column {name_repr(name)}, which is {type(kind).__name__} and not synthesized; leave it out.")
        if kind.unstated is not None:
            raise ValueError(f"{subject} names column {name_repr(name)}, whose facts are {kind.unstated}; rules need bounds and levels.")


def _check_inputs(target: Any, inputs: Sequence[Any], columns: Columns) -> None:
    """Refuse a `Derived` of columns that are not there, or no numbers."""
    _check_names(inputs, f"Derived column {name_repr(target)}", columns)
    for name in inputs:
        if any(isinstance(level, str) for level in getattr(columns[name], "levels", ())):
            raise ValueError(f"Derived column {name_repr(target)} takes column {name_repr(name)}, whose levels are no numbers.")


def _checked_sources(columns: Columns, rules: Sequence[Rule]) -> dict[Any, Any]:
    """Return by column what computes it, or refuse two rules for one, and circles."""
    targets = [rule.columns_named[-1] for rule in rules if isinstance(rule, Determines | Sum)]
    targets += [name for name, kind in columns.items() if isinstance(kind, Derived)]
    sources = sources_of(columns, tuple(rules))
    if circle := [name for name in targets if name not in sources]:
        raise ValueError(f"rules must not go round in a circle, but each of {list_names(circle)} follows from others; leave one out.")
    if len(sources) < len(targets):
        raise ValueError(f"rules must compute {name_repr(first_duplicate(targets))} once, but it follows from two; leave one out.")
    return sources


def _check_computed(rule: Rule, sources: Columns, columns: Columns) -> None:
    """Refuse rules about computed columns, but for those by which they are computed and that follow anyway."""
    if isinstance(rule, Determines | Sum):
        return
    for name in (each for each in rule.columns_named if each in sources):
        inputs = inputs_of(sources[name], columns)
        if isinstance(rule, MissingTogether) and set(inputs) <= set(rule.columns_named) and not isinstance(sources[name], Determines):
            continue
        raise ValueError(f"{type(rule).__name__} names column {name_repr(name)}, which is computed from {list_names(inputs)}; name these.")


def _check_totals(columns: Columns, rules: Sequence[Rule], sources: Columns, ties: Sequence[Tie]) -> None:
    """Refuse two totals that bind one column, and one that no sample could keep exactly."""
    seen: set = set()
    for rule in (each for each in rules if isinstance(each, Sum) and binds(each, columns, sources)):
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


def _check_keys(columns: Columns, rules: Sequence[Rule], ties: Sequence[Tie]) -> None:
    keys = [name for names in keys_of(rules, columns) for name in names]
    for name in keys:
        if keys.count(name) > 1 or any(name in tie.columns for tie in ties):
            raise ValueError(f"Unique names column {name_repr(name)}, which another rule names; a key must be free to differ.")


def _check_tuples(tie: Tie, cells: Mapping[Any, Cells]) -> None:
    """Refuse inequalities in a circle, and columns of which too much or nothing can occur."""
    if len(in_order(tie.orders.columns, tie.orders.edges)) < len({name for edge in tie.orders.edges for name in edge[:2]}):
        raise ValueError(f"rules must not go round in a circle, but each of {list_names(tie.columns)} is at most the next; leave one out.")
    _, tuples = tie.tuples(cells, _MOST_TUPLES)
    if tuples is None:
        raise ValueError(
            f"rules must tie columns of few levels and ranges, but {list_names(tie.columns)} are tied by rules to more than {_MOST_TUPLES} "
            "combinations; merge levels, or leave a rule out."
        )
    if not len(tuples):
        raise ValueError(f"rules must leave something possible, but nothing that columns {list_names(tie.columns)} can hold does.")
