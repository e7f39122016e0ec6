"""Columns that are computed from others by arithmetic, written as text that Python's grammar parses and no code of which runs."""

import ast
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from skdpsynth._validation import as_numeric_array, short_repr
from skdpsynth.domain._dates import MICROSECONDS, Date, DateTime, Duration, TimeOfDay, Times
from skdpsynth.domain._kinds import Unseen, checked_bounds
from skdpsynth.persistence import savable

LONGEST = 1000  # characters
_GIVES = {"date": Date, "datetime": DateTime, "time": TimeOfDay, "duration": Duration}
_DEEPEST = 50
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
        self._text = text
        words, self._quoted = without_backticks(text)
        used = dict[str, None]()
        try:
            self._tree = ast.parse(words, mode="eval").body
        except (SyntaxError, RecursionError, MemoryError, ValueError):
            raise ValueError(f"expression must be arithmetic such as 'weight / height ** 2', got {short_repr(text)}.") from None
        self._check(self._tree, used, 0)
        if not used:
            raise ValueError(f"expression must name a column, got {short_repr(text)}.")
        self.names = tuple(used)

    def _check(self, node: ast.AST, used: dict[str, None], depth: int) -> None:
        """Refuse all that is not on the list: no attributes, no subscripts, no calls but of the functions here."""
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            float(node.value)  # type: ignore[arg-type]
            return
        if isinstance(node, ast.Name):
            used[self._quoted.get(node.id, node.id)] = None
            return
        children = _operands(node)
        if not children or depth > _DEEPEST:
            raise ValueError(
                f"expression may have columns, numbers, + - * / // % **, and {', '.join(_FUNCTIONS)}, got {short_repr(self._text)}; a "
                "column whose name is no word stands in backticks."
            )
        for child in children:
            self._check(child, used, depth + 1)

    @property
    def is_partial(self) -> bool:
        """Whether it may have no finite value where its columns have one: it divides, takes roots, powers or logarithms."""
        return any(_function_of(node) in _PARTIAL for node in ast.walk(self._tree))

    @np.errstate(all="ignore")
    def value(self, columns: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the value in each row, NaN where there is none that is finite."""
        values = np.array(np.broadcast_to(self._of(self._tree, columns), next(iter(columns.values())).shape), dtype=float)
        values[~np.isfinite(values)] = np.nan
        return values

    def _of(self, node: Any, columns: Mapping[str, np.ndarray]) -> Any:
        if isinstance(node, ast.Constant):
            return float(node.value)  # type: ignore[arg-type]
        if isinstance(node, ast.Name):
            return columns[self._quoted.get(node.id, node.id)]
        function = _function_of(node)
        apply = _FUNCTIONS[function] if isinstance(function, str) else _OPERATORS[function]
        return apply(*(self._of(each, columns) for each in _operands(node)))


def _function_of(node: Any) -> Any:
    """Return the type of an operator, or the name of a function; None for another node."""
    if isinstance(node, ast.BinOp | ast.UnaryOp):
        return type(node.op)
    return node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else None


def _operands(node: Any) -> list[ast.AST]:
    """Return the operands of an operator, or the arguments of a function; none if it is not on the list, or takes others."""
    if isinstance(node, ast.BinOp | ast.UnaryOp):
        operands: list[ast.AST] = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.operand]
        return operands if type(node.op) in _OPERATORS else []
    name = _function_of(node)
    if name not in _FUNCTIONS or node.keywords or len(node.args) not in _N_ARGUMENTS.get(name, (1,)):
        return []
    has_digits = name == "round" and len(node.args) == 2
    return node.args if not has_digits or (isinstance(node.args[1], ast.Constant) and type(node.args[1].value) is int) else []


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
                checked_bounds(self.bounds, None)
            checked = checked_bounds(*self.bounds) if self.gives is None else times_given(self).bounds_in_files()
            vars(self).update(bounds=tuple(checked))
        if self.gives is not None:
            times_given(self)

    @property
    def parsed(self) -> Expression:
        """The expression, ready to be computed."""
        return expression_of(self.expression)

    def clipped(self, values: np.ndarray) -> np.ndarray:
        """Return values within the bounds."""
        values = as_numeric_array(values, "values", None)
        return values if self.bounds is None else np.clip(values, *self.bounds)


def times_given(derived: Derived, nullable: bool = False, has_zone: bool = False) -> Times:
    """Return the kind of a result that is a time; without bounds, of all times."""
    year, offset = 31_622_400, "+00:00" if has_zone else ""
    all_of: dict[str, tuple] = {
        "date": ("0001-01-01", "9999-12-31"),
        "datetime": (f"0001-01-01T00:00:00{offset}", f"9999-12-31T23:59:59{offset}"),
    }
    all_of |= {"time": ("00:00", "23:59:59"), "duration": (-9998 * year, 9998 * year)}
    return _GIVES[derived.gives](*(derived.bounds or all_of[derived.gives]), nullable=nullable, format=derived.format)


def unit_of(kind: Times, beside: Iterable[Any]) -> int:
    """Return the microseconds in which a time counts in an expression over columns of these kinds."""
    kinds = {type(each) for each in beside if isinstance(each, Times)} - {Duration} if isinstance(kind, Duration) else {type(kind)}
    return MICROSECONDS["day" if kinds == {Date} else "second"]
