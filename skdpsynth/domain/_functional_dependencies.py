"""Functional dependencies: columns that follow from others by public rules, computed where rows are written and never counted.

Expressions are text that Python's grammar parses and no code of which runs.
"""

import ast
import itertools
import math
import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from skdpsynth._validation import short_repr
from skdpsynth.domain._constraints import AllowedCodes, Columns, ListRule, Rule, Score, check_name, in_file
from skdpsynth.domain._kinds import ColumnKind, Continuous, Unseen, check_bounds, list_names, name_repr, plain_value
from skdpsynth.domain._order_constraints import axis_of, in_order
from skdpsynth.domain._times import MICROSECONDS, Date, DateTime, Duration, TimeOfDay, Times
from skdpsynth.frames import Cell
from skdpsynth.persistence import savable

LONGEST = 1000  # characters
_GIVES = {"date": Date, "datetime": DateTime, "time": TimeOfDay, "duration": Duration}
_DEEPEST = 50
_HUGE = 8e307  # bounds of a number that has none: their difference is a float
_QUOTED = re.compile(r"`([^`]+)`")  # names that are no words of Python stand in backticks, as in pandas
_OPERATORS: dict[type, Callable[..., Any]] = {
    **{ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: np.divide, ast.FloorDiv: np.floor_divide},
    **{ast.Mod: np.mod, ast.Pow: np.power, ast.USub: np.negative, ast.UAdd: np.positive},
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{"abs": np.abs, "sqrt": np.sqrt, "log": np.log, "exp": np.exp, "floor": np.floor, "ceil": np.ceil},
    **{"min": np.minimum, "max": np.maximum, "round": lambda x, digits=0: np.round(x, int(digits))},
}
_N_ARGUMENTS = {"min": (2,), "max": (2,), "round": (1, 2)}
_PARTIAL = {ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, "sqrt", "log", "exp"}  # may have no finite value


def without_backticks(text: str) -> tuple[str, dict[str, str]]:
    """Return a text with words of Python in place of names in backticks, and the names by word."""
    quoted = {f"_quoted_{number}_": name for number, name in enumerate(_QUOTED.findall(text))}
    names = iter(quoted)
    return _QUOTED.sub(lambda match: next(names), text).strip(), quoted


class Expression:
    """A parsed expression; `names` are the columns that it takes, in the order in which they come."""

    def __init__(self, text: str) -> None:
        if not isinstance(text, str) or not text.strip() or len(text) > LONGEST:
            raise ValueError(f"expression must be a text such as 'weight / height ** 2', got {short_repr(text)}.")
        words, self._quoted = without_backticks(text)
        try:
            tree = ast.parse(words, mode="eval").body
        except (SyntaxError, RecursionError, MemoryError, ValueError):
            raise ValueError(f"expression must be arithmetic such as 'weight / height ** 2', got {short_repr(text)}.") from None
        self._names, self._functions = dict[str, None](), set[Any]()
        self._value = self._compile(tree, short_repr(text))
        if not self._names:
            raise ValueError(f"expression must name a column, got {short_repr(text)}.")
        self.names = tuple(self._names)
        self.is_partial = bool(self._functions & _PARTIAL)  # it may have no finite value where its columns have one

    def _compile(self, node: ast.AST, text: str, depth: int = 0) -> Callable[[Mapping[str, np.ndarray]], Any]:
        """Return the function of columns that a node is, or refuse what is not on the list: attributes, subscripts, other calls."""
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            number = float(node.value)  # type: ignore[arg-type]
            return lambda columns: number
        if isinstance(node, ast.Name):
            name = self._quoted.get(node.id, node.id)
            self._names[name] = None
            return lambda columns: columns[name]
        function, operands = _parts_of(node)
        if not operands or depth > _DEEPEST:
            raise ValueError(
                f"expression may have columns, numbers, + - * / // % **, and {', '.join(_FUNCTIONS)}, got {text}; a column whose name is "
                "no word stands in backticks."
            )
        self._functions.add(function)
        apply = _FUNCTIONS[function] if isinstance(function, str) else _OPERATORS[function]
        of_operands = [self._compile(each, text, depth + 1) for each in operands]
        return lambda columns: apply(*(value(columns) for value in of_operands))

    @np.errstate(all="ignore")
    def value(self, columns: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the value in each row, NaN where there is none that is finite."""
        values = np.array(np.broadcast_to(self._value(columns), next(iter(columns.values())).shape), dtype=float)
        values[~np.isfinite(values)] = np.nan
        return values


def _parts_of(node: Any) -> tuple[Any, list[ast.AST]]:
    """Return (the type of an operator or the name of a function, its operands); no operands, if it is not on the list, or takes others."""
    if isinstance(node, ast.BinOp | ast.UnaryOp) and type(node.op) in _OPERATORS:
        return type(node.op), [node.left, node.right] if isinstance(node, ast.BinOp) else [node.operand]
    name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else None
    if name not in _FUNCTIONS or node.keywords or len(node.args) not in _N_ARGUMENTS.get(name, (1,)):
        return None, []
    has_digits = name == "round" and len(node.args) == 2
    is_plain = not has_digits or (isinstance(node.args[1], ast.Constant) and type(node.args[1].value) is int)
    return name, node.args if is_plain else []


expression_of = lru_cache(maxsize=256)(Expression)


@savable
@dataclass(frozen=True)
class Derived(Unseen):
    """A column that is computed from others in each row: it is never synthesized and never counted, and costs nothing.

    Real cells of it are not read. Synthetic rows have the value of the expression, so it always agrees with the other columns.

    Parameters
    ----------
    expression : str
        Arithmetic over columns: their names, numbers, ``+ - * / // % **``, and abs, sqrt, log, exp, floor, ceil, min and max of two,
        ``round(x)`` and ``round(x, digits)``. A name that is no word of Python stands in backticks; columns of an array are x0, x1 and so
        on. Dates count as days since 1970, times as seconds (times of day since midnight), durations as seconds (beside dates alone as
        days), and levels as their numbers.
    bounds : (low, high), default=None
        To which the result is clipped: numbers, or bounds of the kind that `gives` names. None: it is not.
    gives : {None, "date", "datetime", "time", "duration"}, default=None
        What the result is, which counts in the same units as columns of such a kind. None: a number.
    format : str, default=None
        The form in which text holds a result that is a time; see `Date`.

    See Also
    --------
    Sum : A column that is the sum of others.
    Determines : A column that follows from levels of others.

    Notes
    -----
    Nothing in the text runs as code, so a schema from anywhere may be opened. Where a column is missing, or there is no finite result (a
    division by 0), the cell is missing. A column of whole numbers gets the nearest one.

    Examples
    --------
    >>> from skdpsynth.domain import Derived, Schema
    >>> schema = Schema({"kg": (30.0, 200.0), "cm": (120.0, 220.0), "bmi": Derived("kg / (cm / 100) ** 2")})
    >>> list(schema.coded)
    ['kg', 'cm']
    >>> Derived("start + minutes * 60", gives="datetime").gives
    'datetime'
    """

    expression: str
    bounds: Any = field(default=None)
    gives: Any = field(default=None, kw_only=True)
    format: Any = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        expression_of(self.expression) if isinstance(self.expression, str) else Expression(self.expression)
        if not (isinstance(self.gives, str) and self.gives in _GIVES) and (self.gives is not None or self.format is not None):
            raise ValueError(f"gives must be None, 'date', 'datetime', 'time' or 'duration', got {short_repr(self.gives)}.")
        if self.bounds is not None:
            if not isinstance(self.bounds, tuple | list) or len(self.bounds) != 2:
                check_bounds(self.bounds, None)
            checked = check_bounds(*self.bounds) if self.gives is None else times_given(self).bounds_in_files()
            vars(self).update(bounds=tuple(checked))
        if self.gives is not None:
            times_given(self)

    @property
    def formula(self) -> Expression:
        """The expression, ready to be computed."""
        return expression_of(self.expression)


def times_given(derived: Derived, nullable: bool = False, has_zone: bool = False) -> Times:
    offset = "+00:00" if has_zone else ""
    all_of: dict[str, tuple] = {
        "date": ("0001-01-01", "9999-12-31"),
        "datetime": (f"0001-01-01T00:00:00{offset}", f"9999-12-31T23:59:59{offset}"),
        **{"time": ("00:00", "23:59:59"), "duration": (-9998 * 31_622_400, 9998 * 31_622_400)},  # leap years of seconds
    }
    return _GIVES[derived.gives](*(derived.bounds or all_of[derived.gives]), nullable=nullable, format=derived.format)


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
        both sides; where it is not among the keys, a missing cell gives a missing one. If `given` has several columns, tuples that are
        left out are impossible.

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
        if nulls and not kind.nullable and targets_of(self, columns)[-1][1] is None:
            raise ValueError(f"Determines leaves {name_repr(self.column)} missing where {list_names(self.given)} are: make it nullable.")

    def allowed_codes(self, columns: Columns, sources: Columns) -> AllowedCodes | None:
        known = np.array([is_known for is_known, _ in targets_of(self, columns)]) if not set(self.given) & set(sources) else np.ones(1)
        if known.all():
            return None
        scores, step = {}, len(known)
        for name in self.given:
            step //= len(columns[name].levels) + 1
            scores[name] = Score(np.arange(len(columns[name].levels)) * step, (), len(columns[name].levels) * step)
        return AllowedCodes(scores, known)


def _can_hold(kind: ColumnKind, value: object) -> bool:
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


def leaves_of(rule: Sum, sources: Columns) -> tuple:
    """Return the parts of a total, where parts that are totals are replaced by their own parts."""
    parts = [leaves_of(sources[name], sources) if isinstance(sources.get(name), Sum) else (name,) for name in rule.columns]
    return tuple(itertools.chain.from_iterable(parts))


def binds(rule: Sum, columns: Columns, sources: Columns) -> bool:
    """Whether some sums of the parts lie outside the bounds of the total."""
    leaves, total = [columns[name] for name in leaves_of(rule, sources)], columns[rule.total]
    return math.fsum(kind.low for kind in leaves) < total.low or math.fsum(kind.high for kind in leaves) > total.high


def inputs_of(source: Any, columns: Columns) -> tuple:
    """Return the columns from which a rule or an expression computes another; x0, x1, ... name the columns of an array."""
    if not isinstance(source, Derived):
        return source.columns_named[:-1]
    is_place = {name: name not in columns and name[:1] == "x" and name[1:].isdecimal() for name in source.formula.names}
    return tuple(int(name[1:]) if place and int(name[1:]) in columns else name for name, place in is_place.items())


def sources_of(columns: Columns, rules: tuple[Rule, ...]) -> dict[Any, Any]:
    """Return the rule or kind that computes each computed column, inputs before what they give."""
    sources = {name: kind for name, kind in columns.items() if isinstance(kind, Derived)}
    sources |= {rule.columns_named[-1]: rule for rule in rules if isinstance(rule, Determines | Sum)}
    edges = [(each, name, False) for name, source in sources.items() for each in inputs_of(source, columns) if each in sources]
    return {name: sources[name] for name in in_order(list(sources), edges)}  # fewer in a circle, which the checks of the schema refuse


def written_kind(name: Hashable, source: object, columns: Columns) -> Any:
    """Return the kind by which a column is written: its own, unless it is a `Derived` source."""
    if not isinstance(source, Derived):
        return columns[name]
    kinds = [written_kind(each, columns[each], columns) for each in inputs_of(source, columns)]
    nullable = source.formula.is_partial or any(kind.nullable for kind in kinds)
    if source.gives is not None:
        return times_given(source, nullable, any(getattr(kind, "zone", None) is not None for kind in kinds))
    low, high = source.bounds or (-_HUGE, _HUGE)
    return Continuous(float(low), float(high), integer=False, nullable=nullable)


def compute_columns(
    columns: Columns, sources: Columns, values: Mapping[Any, np.ndarray], dtypes: Mapping[Any, str]
) -> dict[Any, np.ndarray]:
    """Add the columns that `sources` compute to the values of columns, as `read` gives them; inputs are rounded to their dtypes first."""
    out = dict(values)
    for name, source in sources.items():
        inputs = inputs_of(source, columns)
        if isinstance(source, Determines):
            place = np.zeros(len(out[inputs[0]]), dtype=np.int64)
            for given in inputs:
                place = place * (len(columns[given].levels) + 1) + out[given]
            out[name] = table_of(source, columns)[place]
            continue
        kinds = [written_kind(each, columns[each], columns) for each in inputs]
        in_table = [None if isinstance(columns[each], Derived) else dtypes.get(each) for each in inputs]
        numbers = [_number(kind, out[each], dtype, kinds) for each, kind, dtype in zip(inputs, kinds, in_table, strict=True)]
        if isinstance(source, Sum):
            out[name] = np.clip(np.sum(numbers, axis=0), columns[name].low, columns[name].high)
            continue
        result = source.formula.value(dict(zip(source.formula.names, numbers, strict=True)))
        if source.gives is None:
            out[name] = result if source.bounds is None else np.clip(result, *source.bounds)
            continue
        kind = written_kind(name, source, columns)
        with np.errstate(invalid="ignore"):  # NaN stays
            units = np.rint(result * _unit_of(kind, kinds)) // kind.microseconds
        if kind.months:
            begun = axis_of(kind).floor(np.nan_to_num(units) * kind.microseconds) // kind.microseconds
            units = np.where(np.isnan(units), np.nan, begun)
        out[name] = np.clip(units - kind.first, 0, kind.coded.high)
    return out


def _number(kind: ColumnKind, values: np.ndarray, dtype: str | None, kinds: list[Any]) -> np.ndarray:
    """Return a column as the numbers of the table, NaN where missing; times in the unit of the expression."""
    if isinstance(kind, Times):
        return np.where(np.isnan(values), np.nan, axis_of(kind, dtype).show(values) / _unit_of(kind, kinds))
    if isinstance(kind, Continuous):
        return axis_of(kind, dtype).show(values)
    return np.array([*map(float, kind.levels), np.nan])[values]


def _unit_of(kind: Times, beside: list[Any]) -> int:
    kinds = {type(each) for each in beside if isinstance(each, Times)} - {Duration} if isinstance(kind, Duration) else {type(kind)}
    return MICROSECONDS["day" if kinds == {Date} else "second"]


def table_of(rule: Determines, columns: Columns) -> np.ndarray:
    """Return the value of the target for each tuple of codes, where a missing cell is the last code."""
    return np.array([value_in(columns[rule.column], value) for _, value in targets_of(rule, columns)])


def targets_of(rule: Determines, columns: Columns) -> list[tuple[bool, Any]]:
    """Return (whether the mapping covers it, its value) for each tuple of levels; one with a missing cell is missing by default."""
    tuples = itertools.product(*([*columns[name].levels, None] for name in rule.given))
    keys = ((levels, levels if len(rule.given) > 1 else levels[0]) for levels in tuples)
    return [(True, rule.mapping[key]) if key in rule.mapping else (None in levels, None) for levels, key in keys]


def value_in(kind: ColumnKind, value: Cell) -> Any:
    """Return a value as `read` gives it, with its default for a missing one."""
    if hasattr(kind, "levels"):
        return kind.levels.index(value) if value is not None else len(kind.levels) if kind.nullable else 0
    if value is None:
        return np.nan if kind.nullable else kind.coded.midpoint
    return float(kind.units_of(value) - kind.first) if isinstance(kind, Times) else float(value)
