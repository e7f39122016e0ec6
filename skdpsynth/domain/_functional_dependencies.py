"""Functional dependencies: columns that follow from others by public rules, computed where rows are written and never counted."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from skdpsynth._validation import short_repr
from skdpsynth.domain._axes import axis_of
from skdpsynth.domain._constraints import Columns, ListRule, Rule, check_name, in_file
from skdpsynth.domain._dates import Times
from skdpsynth.domain._derived import Derived, times_given, unit_of
from skdpsynth.domain._kinds import Continuous, list_names, name_repr, plain_value
from skdpsynth.domain._order_constraints import in_order
from skdpsynth.persistence import savable

_HUGE = 8e307  # bounds of a number that has none: their difference is a float


@savable
@dataclass(frozen=True)
class Determines(Rule):
    """A column that follows from others by a public table, such as the number of a school degree from its name.

    It is not counted, so no budget is spent on it, and computed when rows are written.

    Parameters
    ----------
    given : column, or list of columns
        One or more columns with levels.
    column : column
        The column that follows from them: of levels, or of numbers.
    mapping : dict
        From each level of `given` (of several columns, each tuple of levels) to the value of `column`. None stands for a missing cell, on
        both sides; where it is not among the keys, a missing cell gives a missing one. Of several columns, tuples that are left out are
        impossible.

    See Also
    --------
    Derived : A number that is computed from others.
    Impossible : Values that never occur together.

    Examples
    --------
    >>> from skdpsynth.domain import Determines
    >>> Determines("degree", "years", {"school": 10, "college": 13}).columns_named
    ('degree', 'years')
    """

    given: Any
    column: Any
    mapping: Mapping[Any, Any]
    _word = "determines"

    def __post_init__(self) -> None:
        given = tuple(self.given) if isinstance(self.given, list | tuple) else (self.given,)
        vars(self).update(given=given)
        for name in given:
            check_name("given", name)
        check_name("column", self.column)
        if not given or len(set(given)) < len(given) or self.column in given:
            raise ValueError(f"given must be columns, each once and another than {short_repr(self.column)}, got {short_repr(list(given))}.")
        if not isinstance(self.mapping, Mapping) or not self.mapping:
            raise ValueError(f"mapping must be a dict from levels of given to values of column, got {short_repr(self.mapping)}.")
        wrong = [key for key in self.mapping if len(given) > 1 and not (isinstance(key, tuple) and len(key) == len(given))]
        if wrong:
            raise ValueError(f"mapping must have tuples of {len(given)} levels as keys, one for each of given, got {short_repr(wrong[0])}.")
        vars(self).update(mapping={plain_value(key): plain_value(value) for key, value in self.mapping.items()})

    @property
    def columns_named(self) -> tuple:
        return (*self.given, self.column)

    def to_keys(self) -> dict[str, Any]:
        return {**super().to_keys(), "mapping": [[in_file(key), in_file(value)] for key, value in self.mapping.items()]}

    def _check(self, columns: Columns, sources: Columns) -> None:
        for name in self.given:
            if not hasattr(columns[name], "levels"):
                raise ValueError(f"Determines needs levels to start from, but column {name_repr(name)} is {type(columns[name]).__name__}.")
            if name in sources and len(self.given) > 1:
                raise ValueError(f"Determines may not start from several columns if one is computed, as {name_repr(name)} is.")
        kind, keys = columns[self.column], [key if len(self.given) > 1 else (key,) for key in self.mapping]
        for name, level in ((name, level) for key in keys for name, level in zip(self.given, key, strict=True)):
            if level is not None and level not in columns[name].levels:
                raise ValueError(f"Determines maps from {short_repr(level)}, which is no level of column {name_repr(name)}; correct it.")
        first = self.given[0]
        left = [level for level in columns[first].levels if (level,) not in keys] if len(self.given) == 1 else []
        if left:
            raise ValueError(f"Determines must map every level of column {name_repr(first)}, but has none for {short_repr(left[0])}.")
        for value in self.mapping.values():
            if not _can_hold(kind, value):
                raise ValueError(f"Determines maps to {short_repr(value)}, which column {name_repr(self.column)} cannot hold; correct it.")
        nulls = any(columns[name].nullable for name in self.given)
        if nulls and not kind.nullable and target_of(self, (None,) * len(self.given))[1] is None:
            raise ValueError(f"Determines leaves {name_repr(self.column)} missing where {list_names(self.given)} are: make it nullable.")


def _can_hold(kind: Any, value: Any) -> bool:
    """Whether a column of this kind can hold a value."""
    if value is None:
        return kind.nullable
    try:
        code = value_in(kind, value)
        return hasattr(kind, "levels") or (kind.coded.low <= code <= kind.coded.high and (not kind.coded.integer or code == int(code)))
    except (ValueError, TypeError):
        return False


@savable
@dataclass(frozen=True)
class Sum(ListRule):
    """Columns of numbers that add up to another, which is not counted but computed when rows are written.

    It is missing where one of them is. Rows whose sum would be beyond the bounds of the total are impossible.

    Parameters
    ----------
    columns : list of columns
        The parts.
    total : column

    See Also
    --------
    Derived : Any other arithmetic.
    Inequality : A column that is at most another.

    Examples
    --------
    >>> from skdpsynth.domain import Schema, Sum
    >>> schema = Schema({"wages": (0, 99), "rent": (0, 50), "income": (0, 149)}, rules=[Sum(["wages", "rent"], "income")])
    >>> list(schema.coded)
    ['wages', 'rent']
    """

    total: Any = field()
    _word = "sum"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name("total", self.total)
        if self.total in self.columns:
            raise ValueError(f"total must be another column than its parts, got {short_repr(self.total)}.")

    @property
    def columns_named(self) -> tuple:
        return (*self.columns, self.total)

    def _check(self, columns: Columns, sources: Columns) -> None:
        for name in self.columns_named:
            if not isinstance(columns[name], Continuous):
                raise ValueError(f"Sum must be of columns of numbers, but {name_repr(name)} is {type(columns[name]).__name__}.")
            if name != self.total and name in sources and not isinstance(sources[name], Sum):
                raise ValueError(f"Sum takes column {name_repr(name)}, which is computed, and not as a Sum; state it by its inputs.")
        total, parts = columns[self.total], [columns[name] for name in self.columns]
        if total.integer and not all(kind.integer for kind in parts):
            raise ValueError(f"Sum of numbers that are not whole must have a total that is not, but {name_repr(self.total)} is whole.")
        if not total.nullable and any(kind.nullable for kind in parts):
            raise ValueError(f"Sum leaves {name_repr(self.total)} missing where a part is, but it is not nullable; set nullable=True.")
        low, high = math.fsum(kind.low for kind in parts), math.fsum(kind.high for kind in parts)
        if high < total.low or low > total.high:
            raise ValueError(f"Sum of parts from {low:g} to {high:g} can never be within the bounds of column {name_repr(self.total)}.")


def inputs_of(source: Any, columns: Columns) -> tuple:
    """Return the columns from which one is computed by a rule or by its kind; in an expression x0, x1, ... may be those of an array."""
    if isinstance(source, Determines):
        return source.given
    if isinstance(source, Sum):
        return source.columns
    is_place = {name: name not in columns and name[:1] == "x" and name[1:].isdecimal() for name in source.parsed.names}
    return tuple(int(name[1:]) if place and int(name[1:]) in columns else name for name, place in is_place.items())


def sources_of(columns: Columns, rules: tuple[Rule, ...]) -> dict[Any, Any]:
    """Return by column the rule or the kind by which it is computed, in an order in which that can be done: inputs come first."""
    sources = {name: kind for name, kind in columns.items() if isinstance(kind, Derived)}
    sources |= {rule.columns_named[-1]: rule for rule in rules if isinstance(rule, Determines | Sum)}
    edges = [(each, name, False) for name, source in sources.items() for each in inputs_of(source, columns) if each in sources]
    return {name: sources[name] for name in in_order(list(sources), edges)}  # fewer in a circle, which the checks of the schema refuse


def written_kind(name: Any, source: Any, columns: Columns) -> Any:
    """Return the kind by which a column is written: its own, unless it is a `Derived` source."""
    if not isinstance(source, Derived):
        return columns[name]
    kinds = [written_kind(each, columns[each], columns) for each in inputs_of(source, columns)]
    nullable = source.parsed.is_partial or any(kind.nullable for kind in kinds)
    if source.gives is not None:
        return times_given(source, nullable, any(getattr(kind, "zone", None) is not None for kind in kinds))
    low, high = source.bounds or (-_HUGE, _HUGE)
    return Continuous(float(low), float(high), integer=False, nullable=nullable)


def compute_columns(
    columns: Columns, sources: Columns, values: Mapping[Any, np.ndarray], dtypes: Mapping[Any, str]
) -> dict[Any, np.ndarray]:
    """Return values of columns, as `read` gives them, with those that `sources` compute; inputs are rounded to their dtypes first."""
    out = dict(values)
    for name, source in sources.items():
        if isinstance(source, Determines):
            place = np.zeros(len(out[source.given[0]]), dtype=np.int64)
            for given in source.given:
                place = place * (len(columns[given].levels) + 1) + out[given]
            out[name] = table_of(source, columns)[place]
            continue
        inputs = inputs_of(source, columns)
        kinds = [written_kind(each, columns[each], columns) for each in inputs]
        in_table = [None if isinstance(columns[each], Derived) else dtypes.get(each) for each in inputs]
        numbers = [_number(kind, out[each], dtype, kinds) for each, kind, dtype in zip(inputs, kinds, in_table, strict=True)]
        if isinstance(source, Sum):
            out[name] = np.clip(np.sum(numbers, axis=0), columns[name].low, columns[name].high)
            continue
        result = source.parsed.value(dict(zip(source.parsed.names, numbers, strict=True)))
        if source.gives is None:
            out[name] = source.clipped(result)
        else:
            kind = written_kind(name, source, columns)
            with np.errstate(invalid="ignore"):  # NaN stays
                units = np.rint(result * unit_of(kind, kinds)) // kind.microseconds
            if kind.months:
                units = np.where(
                    np.isnan(units), np.nan, axis_of(kind).floor(np.nan_to_num(units) * kind.microseconds) // kind.microseconds
                )
            out[name] = np.clip(units - kind.first, 0, kind.coded.high)
    return out


def _number(kind: Any, values: np.ndarray, dtype: str | None, kinds: list[Any]) -> np.ndarray:
    """Return a column as the numbers that stand in the table, times in the unit in which they count beside others; NaN where missing."""
    if isinstance(kind, Times):
        return np.where(np.isnan(values), np.nan, axis_of(kind, dtype).shown(values) / unit_of(kind, kinds))
    if isinstance(kind, Continuous):
        return axis_of(kind, dtype).shown(values)
    return np.array([*map(float, kind.levels), np.nan])[values]


def table_of(rule: Determines, columns: Columns) -> np.ndarray:
    """Return the value of the target for each tuple of codes, with that of missing cells after those of levels."""
    return np.array([value_in(columns[rule.column], value) for _, value in targets_of(rule, columns)])


def targets_of(rule: Determines, columns: Columns) -> list[tuple[bool, Any]]:
    """Return `target_of` each tuple of codes."""
    return [target_of(rule, levels) for levels in itertools.product(*([*columns[name].levels, None] for name in rule.given))]


def target_of(rule: Determines, levels: tuple) -> tuple[bool, Any]:
    """Return (whether the mapping has a value for levels, that value); where one is missing and nothing is said, it is missing."""
    key = levels if len(rule.given) > 1 else levels[0]
    return (True, rule.mapping[key]) if key in rule.mapping else (None in levels, None)


def value_in(kind: Any, value: Any) -> Any:
    """Return a value as `read` gives it; where it may not be missing and is, as `read` says."""
    if hasattr(kind, "levels"):
        return kind.levels.index(value) if value is not None else len(kind.levels) if kind.nullable else 0
    if value is None:
        return np.nan if kind.nullable else kind.coded.midpoint
    return float(kind.units_of(value) - kind.first) if isinstance(kind, Times) else float(value)
