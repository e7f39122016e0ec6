"""Rules: what is publicly known to hold between the columns of a row, stated by the user and never read from rows."""

import datetime
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from skdpsynth._validation import short_repr
from skdpsynth.domain._kinds import is_name
from skdpsynth.persistence import savable


def check_name(parameter: str, name: Any) -> None:
    """Raise ValueError unless a parameter names a column."""
    if not is_name(name):
        raise ValueError(f"{parameter} must name columns by words or numbers, got {short_repr(name)}; say their names.")


class Rule(ABC):
    """What a schema says of several columns of a row."""

    @property
    @abstractmethod
    def columns_named(self) -> tuple:
        """All columns that it is about, each once."""

    def to_keys(self) -> dict[str, Any]:
        """Return what a file holds of it."""
        return {"rule": _NAMES[type(self)], **{each.name: _in_file(getattr(self, each.name)) for each in fields(self)}}  # type: ignore[arg-type]


@savable
@dataclass(frozen=True)
class Impossible(Rule):
    """Values that never occur together in a row: structural zeros of a table.

    Parameters
    ----------
    cells : dict
        Of each column what it holds in such a row: a level, a number, a tuple ``(low, high)`` (both ends belong to it; None: no end; of
        dates and times also as text in ISO format), None for a missing cell, or a list of these. A row that meets all of them is
        impossible.

    Raises
    ------
    ValueError
        If `cells` is no such dict.

    See Also
    --------
    Determines : A column that follows from others.
    Schema : Takes rules.

    Examples
    --------
    >>> from skdpsynth.domain import Impossible, Schema
    >>> schema = Schema(
    ...     {"age": (0, 99), "job": ["none", "nurse", "pilot"]}, rules=[Impossible({"age": (0, 15), "job": ["nurse", "pilot"]})]
    ... )
    >>> schema.rules[0].columns_named
    ('age', 'job')
    """

    cells: Mapping[Any, Any]

    def __post_init__(self) -> None:
        if not isinstance(self.cells, Mapping) or not self.cells:
            raise ValueError(f"cells must be a dict of column: what it holds in an impossible row, got {short_repr(self.cells)}.")
        object.__setattr__(self, "cells", {name: _items(name, told) for name, told in self.cells.items()})

    @property
    def columns_named(self) -> tuple:
        """All columns that it is about, each once."""
        return tuple(self.cells)

    def to_keys(self) -> dict[str, Any]:
        """Return what a file holds of it."""
        cells = [{"column": _in_file(name), "is": [_in_file(item) for item in items]} for name, items in self.cells.items()]
        return {"rule": "impossible", "cells": cells}


@savable
@dataclass(frozen=True)
class Determines(Rule):
    """A column that follows from others by a public table, such as the number of a school degree from its name.

    It is not counted, so no budget is spent on it, and computed when rows are written.

    Parameters
    ----------
    given : column, or list of columns
        With levels.
    column : column
        That follows: of levels, or of numbers.
    mapping : dict
        From each level of `given` (of several columns, each tuple of levels) to the value of `column`. None stands for a missing cell, on
        both sides; where it is not among the keys, a missing cell gives a missing one. Of several columns, tuples that are left out are
        impossible.

    Raises
    ------
    ValueError
        If these are no such columns and mapping.

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

    def __post_init__(self) -> None:
        given = tuple(self.given) if isinstance(self.given, list | tuple) else (self.given,)
        object.__setattr__(self, "given", given)
        for name in given:
            check_name("given", name)
        if not is_name(self.column):
            raise ValueError(f"column must be one column, which follows from given, got {short_repr(self.column)}; say its name.")
        if not given or len(set(given)) < len(given) or self.column in given:
            raise ValueError(
                f"given must be one or several columns, each once and another than {short_repr(self.column)}, got {short_repr(list(given))}."
            )
        if not isinstance(self.mapping, Mapping) or not self.mapping:
            raise ValueError(f"mapping must be a dict from levels of given to values of column, got {short_repr(self.mapping)}.")
        wrong = [key for key in self.mapping if len(given) > 1 and not (isinstance(key, tuple) and len(key) == len(given))]
        if wrong:
            raise ValueError(f"mapping must have tuples of {len(given)} levels as keys, one for each of given, got {short_repr(wrong[0])}.")
        object.__setattr__(self, "mapping", {_plain(key): _plain(value) for key, value in self.mapping.items()})

    @property
    def columns_named(self) -> tuple:
        """All columns that it is about, each once."""
        return (*self.given, self.column)

    def to_keys(self) -> dict[str, Any]:
        """Return what a file holds of it."""
        pairs = [[_in_file(key), _in_file(value)] for key, value in self.mapping.items()]
        return {"rule": "determines", "given": _in_file(self.given), "column": _in_file(self.column), "mapping": pairs}


@savable
@dataclass(frozen=True)
class Inequality(Rule):
    """A column that is at most another, such as the start and the end of a stay. It holds where one of the two is missing.

    For a chain state several: ``Inequality("born", "married"), Inequality("married", "died")``. Times are compared with dates as
    the midnight at their beginning.

    `LatentFactorSynthesizer` models the larger column by its span, how far it lies above the smaller one: a column of its own, fine near
    0, which depends on all others. So spans keep their size however wide the bounds are. That needs two columns of one scale (times of
    one resolution, and real numbers above whole ones but not below), of which no other rule says more than orders, sums and
    `MissingTogether`. Else the two columns are drawn together in their own bins, and the order alone is kept.

    Parameters
    ----------
    low, high : column
        Two columns of numbers, or of dates and times.
    strict : bool, default=False
        Whether they must differ: of whole numbers, dates and times alone.

    Raises
    ------
    ValueError
        If both are one column, or `strict` is no truth value.

    See Also
    --------
    Sum : Columns that add up.
    Schema : Takes rules.

    Examples
    --------
    >>> from skdpsynth.domain import Inequality, Schema
    >>> days = ("2024-01-01", "2024-12-31")
    >>> Schema({"start": days, "end": days}, rules=[Inequality("start", "end")]).rules
    (Inequality(low='start', high='end', strict=False),)
    """

    low: Any
    high: Any
    strict: bool = False

    def __post_init__(self) -> None:
        check_name("low", self.low)
        check_name("high", self.high)
        if self.low == self.high:
            raise ValueError(f"low and high must be two columns, got {short_repr(self.low)} twice.")
        if not isinstance(self.strict, bool | np.bool_):
            raise ValueError(f"strict must be True or False, got {short_repr(self.strict)}.")
        object.__setattr__(self, "strict", bool(self.strict))

    @property
    def columns_named(self) -> tuple:
        """All columns that it is about, each once."""
        return self.low, self.high


@dataclass(frozen=True)
class _OfColumns(Rule):
    columns: Any

    def __post_init__(self) -> None:
        columns = tuple(self.columns) if isinstance(self.columns, list | tuple) else (self.columns,)
        for name in columns:
            check_name("columns", name)
        least = 1 if isinstance(self, Unique) else 2
        if len(columns) < least or len(set(columns)) < len(columns):
            raise ValueError(f"columns must be a list of at least {least}, each once, got {short_repr(self.columns)}.")
        object.__setattr__(self, "columns", columns)

    @property
    def columns_named(self) -> tuple:
        """All columns that it is about, each once."""
        return self.columns


@savable
@dataclass(frozen=True)
class Sum(_OfColumns):
    """Columns of numbers that add up to another, which is not counted but computed when rows are written.

    It is missing where one of them is. Rows whose sum would be beyond the bounds of the total are impossible.

    Parameters
    ----------
    columns : list of columns
        The parts.
    total : column

    Raises
    ------
    ValueError
        If there are fewer than two parts, or the total is one of them.

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

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name("total", self.total)
        if self.total in self.columns:
            raise ValueError(f"total must be another column than its parts, got {short_repr(self.total)}.")

    @property
    def columns_named(self) -> tuple:
        """All columns that it is about, each once."""
        return (*self.columns, self.total)


@savable
@dataclass(frozen=True)
class MissingTogether(_OfColumns):
    """Columns whose cells are missing all together in a row, or none of them.

    Parameters
    ----------
    columns : list of columns
        At least two, all nullable.

    Raises
    ------
    ValueError
        If there are fewer than two.

    See Also
    --------
    Impossible : Can say of single levels what MissingTogether says of missing cells.
    Schema : Takes rules.

    Examples
    --------
    >>> from skdpsynth.domain import MissingTogether
    >>> MissingTogether(["systolic", "diastolic"]).columns_named
    ('systolic', 'diastolic')
    """


@savable
@dataclass(frozen=True)
class Unique(_OfColumns):
    """A key: no two rows of a sample have the same values in these columns.

    Parameters
    ----------
    columns : column, or list of columns
        Of levels, whole numbers, dates or times, none nullable and none in another rule; or an `Identifier`, whose labels are unique
        anyway.

    Raises
    ------
    ValueError
        If there is no column.

    See Also
    --------
    Identifier : Labels made anew.
    Schema : Takes rules.

    Examples
    --------
    >>> from skdpsynth.domain import Unique
    >>> Unique(["ward", "bed"]).columns_named
    ('ward', 'bed')
    """


RULES = (Impossible, Determines, Inequality, Sum, MissingTogether, Unique)
_NAMES: dict[type, str] = {
    **{Impossible: "impossible", Determines: "determines", Inequality: "inequality"},
    **{Sum: "sum", MissingTogether: "missing together", Unique: "unique"},
}


def check_rule_list(rules: Any) -> tuple[Rule, ...]:
    """Return rules as a tuple, or refuse what is none."""
    if isinstance(rules, Rule):
        rules = [rules]
    if not isinstance(rules, Sequence) or isinstance(rules, str) or not all(isinstance(rule, Rule) for rule in rules):
        wrong = next((rule for rule in rules if not isinstance(rule, Rule)), rules) if isinstance(rules, list | tuple) else rules
        raise ValueError(f"rules must be a list of {', '.join(each.__name__ for each in RULES)}, got {short_repr(wrong)}.")
    return tuple(rules)


def rules_of_keys(told: Any) -> tuple[Rule, ...]:
    """Return the rules that a file holds, as what it parses to."""
    wrong = [each for each in told if not isinstance(each, Mapping)] if isinstance(told, list) else [told]
    if wrong:
        raise ValueError(f'rules must be a list such as [{{"rule": "inequality", "low": "a", "high": "b"}}], got {short_repr(wrong[0])}.')
    return tuple(_of_keys(each) for each in told)


def _of_keys(told: Mapping[str, Any]) -> Rule:
    made = next((rule for rule, name in _NAMES.items() if name == told.get("rule")), None)
    if made is None:
        raise ValueError(f"rule must be one of {', '.join(map(repr, _NAMES.values()))}, got {short_repr(told.get('rule'))}.")
    keys = {each.name for each in fields(made)}
    given = {key: value for key, value in told.items() if key != "rule"}
    missing = sorted(keys - {"strict"} - set(given))
    if wrong := [f"without {short_repr(key)}" for key in missing] + [f"with {short_repr(key)}" for key in given if key not in keys]:
        raise ValueError(
            f"a rule {told['rule']!r} must have the keys {', '.join(sorted(keys - {'strict'}))}, got one {wrong[0]}; correct it."
        )
    if made is Impossible:
        return Impossible(_cells_of_keys(given["cells"]))
    if made is Determines:
        return Determines(_names_of_keys(given["given"]), _name(given["column"]), _mapping_of_keys(given["mapping"]))
    return made(**{key: _names_of_keys(value) if key == "columns" else _name(value) for key, value in given.items()})


def _cells_of_keys(told: Any) -> dict:
    """Return the cells of an impossible row; what one holds may be a list, or one of these."""
    if not told or not isinstance(told, list) or not all(isinstance(cell, Mapping) and set(cell) == {"column", "is"} for cell in told):
        raise ValueError(f'cells must be a list such as [{{"column": "sex", "is": ["m"]}}, ...], got {short_repr(told)}.')
    cells = {}
    for cell in told:
        check_name("cells", name := _name(cell["column"]))
        cells[name] = [_name(item) for item in cell["is"]] if isinstance(cell["is"], list) else [cell["is"]]
    return cells


def _mapping_of_keys(told: Any) -> dict:
    """Return what follows from which levels; pairs in a list, or a dict."""
    pairs = list(told.items()) if isinstance(told, Mapping) else told
    if not isinstance(pairs, list) or not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
        raise ValueError(f"mapping must be a dict, or a list of pairs [level, value], got {short_repr(told)}.")
    with suppress(TypeError):  # of levels that are dicts, or lists within lists
        return {_name(key): value for key, value in pairs}
    raise ValueError("mapping must have levels, or lists of them, as the first of each pair, got other things; correct it.")


def _names_of_keys(told: Any) -> list:
    return [_name(each) for each in told] if isinstance(told, list) else [told]


def _name(told: Any) -> Any:
    """Return what a file holds as a list as a tuple: a name of several parts, a range."""
    return tuple(told) if isinstance(told, list) else told


def _in_file(value: Any) -> Any:
    return [_in_file(item) for item in value] if isinstance(value, tuple | list) else value


def _items(name: Any, told: Any) -> list:
    """Return what a cell may be as a list of levels, numbers, pairs of ends, and None."""
    items = told if isinstance(told, list) else [told]
    if not items or any(isinstance(item, tuple) and len(item) != 2 for item in items):
        raise ValueError(
            f"cells of column {short_repr(name)} must be a level, a number, (low, high), None, or a list of these, got {short_repr(told)}."
        )
    return [_plain(item) for item in items]


def _plain(value: Any) -> Any:
    """Return a value as a file holds it: numbers of Python, dates and times as text in ISO format."""
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if isinstance(value, np.generic):
        return value.item()
    return value.isoformat() if isinstance(value, datetime.date) else value
