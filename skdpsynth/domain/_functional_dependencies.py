"""Columns that follow from others by public rules: computed where rows are written, never counted."""

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from skdpsynth.domain._axes import axis_of, in_days_or_seconds
from skdpsynth.domain._constraints import Determines, Rule, Sum
from skdpsynth.domain._dates import Times, units_of_moment
from skdpsynth.domain._derived import Derived
from skdpsynth.domain._kinds import Continuous

_HUGE = 8e307  # bounds of a number that has none: their difference is a float
Columns = Mapping[Any, Any]


def inputs_of(name: Any, source: Any, columns: Columns) -> tuple:
    """Return the columns from which one is computed by a rule or by its kind."""
    if isinstance(source, Determines):
        return source.given
    return source.columns if isinstance(source, Sum) else tuple(resolved(each, columns) for each in source.parsed.names)


def resolved(name: str, columns: Columns) -> Any:
    """Return the column that a name in an expression means: its own, or x0, x1, ... of an array."""
    if name in columns or not (name[:1] == "x" and name[1:].isdecimal()):
        return name
    return int(name[1:]) if int(name[1:]) in columns else name


def sources_of(columns: Columns, rules: tuple[Rule, ...]) -> dict[Any, Any]:
    """Return by column the rule or the kind by which it is computed, in an order in which that can be done: inputs come first."""
    sources = {name: kind for name, kind in columns.items() if isinstance(kind, Derived)}
    sources |= {rule.column if isinstance(rule, Determines) else rule.total: rule for rule in rules if isinstance(rule, Determines | Sum)}
    ordered: dict[Any, Any] = {}
    while len(ordered) < len(sources):
        free = [
            name
            for name, source in sources.items()
            if name not in ordered and all(each in ordered or each not in sources for each in inputs_of(name, source, columns))
        ]
        if not free:
            break  # a circle, which the checks of the schema refuse
        ordered |= {name: sources[name] for name in free}
    return ordered


def written_kind(name: Any, source: Any, columns: Columns) -> Any:
    """Return the kind by which a computed column is written."""
    if not isinstance(source, Derived):
        return columns[name]
    low, high = source.bounds or (-_HUGE, _HUGE)
    nullable = source.parsed.is_partial or any(_may_miss(each, columns) for each in inputs_of(name, source, columns))
    return Continuous(float(low), float(high), integer=False, nullable=nullable)


def _may_miss(name: Any, columns: Columns) -> bool:
    kind = columns[name]
    return written_kind(name, kind, columns).nullable if isinstance(kind, Derived) else kind.nullable


def compute_columns(
    columns: Columns, sources: Columns, values: Mapping[Any, np.ndarray], dtypes: Mapping[Any, str]
) -> dict[Any, np.ndarray]:
    """Return values of columns with those that are computed from them.

    Parameters
    ----------
    columns : dict
        Kinds of all columns.
    sources : dict
        From `sources_of`.
    values : dict of column to ndarray
        As `read` gives them, of all that are not computed.
    dtypes : dict of column to str
        What a column rounds to, from which others are computed.
    """
    out = dict(values)
    for name, source in sources.items():
        inputs = inputs_of(name, source, columns)
        if isinstance(source, Determines):
            out[name] = _determined(source, columns, out)
            continue
        numbers = [_number(columns[each], sources.get(each), out[each], dtypes.get(each)) for each in inputs]
        if isinstance(source, Sum):
            kind = columns[name]
            out[name] = np.clip(np.sum(numbers, axis=0), kind.low, kind.high)
        else:
            out[name] = source.clipped(source.parsed.value(dict(zip(source.parsed.names, numbers, strict=True))))
    return out


def _number(kind: Any, source: Any, values: np.ndarray, dtype: str | None) -> np.ndarray:
    """Return a column as the numbers that stand in the table, NaN where missing."""
    if isinstance(kind, Times):
        return np.where(np.isnan(values), np.nan, in_days_or_seconds(kind, axis_of(kind, dtype).shown(values)))
    if isinstance(kind, Derived):
        return values
    if isinstance(kind, Continuous):
        return axis_of(kind, dtype).shown(values)
    return np.array([*map(float, kind.levels), np.nan])[values]


def _determined(rule: Determines, columns: Columns, values: Mapping[Any, np.ndarray]) -> np.ndarray:
    sizes = [len(columns[name].levels) + 1 for name in rule.given]
    place = np.zeros(len(values[rule.given[0]]), dtype=np.int64)
    for name, size in zip(rule.given, sizes, strict=True):
        place = place * size + values[name]
    return table_of(rule, columns)[place]


def table_of(rule: Determines, columns: Columns) -> np.ndarray:
    """Return the value of the target for each tuple of codes, that of missing cells after those of levels."""
    kind = columns[rule.column]
    cells = [[*columns[name].levels, None] for name in rule.given]
    return np.array([value_in(kind, target_of(rule, key)[1]) for key in itertools.product(*cells)])


def target_of(rule: Determines, key: tuple) -> tuple[bool, Any]:
    """Return (whether the mapping has a value for levels, that value); where one is missing and nothing is said, it is missing."""
    told: Any = key if len(rule.given) > 1 else key[0]
    return (True, rule.mapping[told]) if told in rule.mapping else (None in key, None)


def value_in(kind: Any, value: Any) -> Any:
    """Return a value as `read` gives it; where it may not be missing and is, as `read` says."""
    if hasattr(kind, "levels"):
        return kind.levels.index(value) if value is not None else len(kind.levels) if kind.nullable else 0
    if value is None:
        return np.nan if kind.nullable else kind.coded.midpoint
    return float(units_of_moment(value, kind) - kind.first) if isinstance(kind, Times) else float(value)
