"""Rules as text, such as "admission <= discharge", parsed by the grammar of derived columns."""

import ast
import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

from skdpsynth._validation import short_repr
from skdpsynth.domain._constraints import Impossible, Inequality, Rule
from skdpsynth.domain._derived import LONGEST, without_backticks
from skdpsynth.domain._functional_dependencies import Sum

_FORMS = "'start <= end', 'total = a + b' or \"age >= 18 if smokes == 'yes'\""
_ORDERS = {ast.LtE: (1, False), ast.Lt: (1, True), ast.GtE: (-1, False), ast.Gt: (-1, True)}  # direction, strict


def rules_of_text(text: str, columns: Iterable[Any], place: int) -> list[Rule]:
    """Return the rules that a text states about columns; `place` is its number in the list of rules."""
    what = f"rule {place} must be a text such as {_FORMS}, got {short_repr(text)}"
    try:
        if len(text) > LONGEST:
            raise SyntaxError
        words, quoted = without_backticks(text)
        parser = _Parser(
            {**{str(name): name for name in columns}, **{f"x{name}": name for name in columns if isinstance(name, int)}}, quoted
        )
        return parser.rules(_parsed(words))
    except _Unsaid as error:
        raise ValueError(f"{what}; {error}.") from None
    except (SyntaxError, RecursionError, MemoryError):
        raise ValueError(f"{what}; names with spaces, and words such as from, stand in backticks, and levels in quotes.") from None
    except ValueError as error:
        raise ValueError(f"rule {place}, {short_repr(text)}: {error}") from None


class _Unsaid(Exception):
    """A text that no rule says, with the way out."""


def _parsed(words: str) -> Any:
    for whole in (words, f"{words} else None"):  # a condition, which Python wants complete
        with suppress(SyntaxError, ValueError):
            (statement,) = ast.parse(whole).body
            return statement
    raise SyntaxError


class _Parser:
    def __init__(self, names: dict[str, Any], quoted: dict[str, str]) -> None:
        self._names, self._quoted = names, quoted

    def rules(self, statement: Any) -> list[Rule]:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            return [self._sum(statement.targets[0], statement.value)]
        node = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(node, ast.IfExp) and isinstance(node.orelse, ast.Constant) and node.orelse.value is None:
            return [self._impossible(node.body, node.test)]
        if not isinstance(node, ast.Compare):
            raise SyntaxError
        sides = [node.left, *node.comparators]
        if len(sides) == 2 and isinstance(node.ops[0], ast.Eq):
            return [self._sum(*sides)]
        if not all(isinstance(side, ast.Name) for side in sides):
            raise _Unsaid(
                "an order is between columns: state bounds of the column for a number, and a column that is computed, Derived(...), for "
                "arithmetic"
            )
        return [self._order(operator, *pair) for operator, pair in zip(node.ops, pairwise(sides), strict=True)]

    def _name(self, node: Any) -> Any:
        if not isinstance(node, ast.Name):
            raise SyntaxError
        word = self._quoted.get(node.id, node.id)
        return self._names.get(word, word)

    def _order(self, operator: Any, first: Any, second: Any) -> Rule:
        if type(operator) not in _ORDERS:
            raise SyntaxError
        way, strict = _ORDERS[type(operator)]
        low, high = (self._name(each) for each in (first, second)[::way])
        return Inequality(low, high, strict)

    def _sum(self, *sides: Any) -> Rule:
        total, value = sides if isinstance(sides[0], ast.Name) else sides[::-1]
        name, parts = self._name(total), _summands(value)
        if len(parts) < 2 or not all(isinstance(each, ast.Name) for each in parts):
            text = ast.unparse(value)
            for word, quoted in self._quoted.items():
                text = text.replace(word, f"`{quoted}`")
            raise _Unsaid(f"only sums of columns are rules: make {short_repr(name)} a column that is computed, Derived({text!r})")
        return Sum([self._name(each) for each in parts], name)

    def _impossible(self, holds: Any, condition: Any) -> Rule:
        tests = condition.values if isinstance(condition, ast.BoolOp) and isinstance(condition.op, ast.And) else [condition]
        cells = [self._cells(each) for each in tests]
        with suppress(SyntaxError):
            cells.append(self._cells(holds, negated=True))
        if len(dict(cells)) <= len(tests):
            raise _Unsaid("what holds on a condition is a column and a number, each column once: else write Impossible({...})")
        return Impossible(dict(cells))

    def _cells(self, node: Any, negated: bool = False) -> tuple[Any, list]:
        """Return a column, and the cells of it that meet a condition, or do not."""
        if not isinstance(node, ast.Compare) or len(node.ops) != 1:
            raise SyntaxError
        name, operator = self._name(node.left), node.ops[0]
        try:
            value = ast.literal_eval(node.comparators[0])
            if isinstance(operator, ast.Eq | ast.In) and not negated:
                return name, list(value) if isinstance(operator, ast.In) else [value]
        except (ValueError, TypeError):
            raise SyntaxError from None
        if type(operator) not in _ORDERS or type(value) not in (int, float):
            raise SyntaxError
        way, strict = _ORDERS[type(operator)]
        return name, [_range(-way, value, not strict) if negated else _range(way, value, strict)]


def _range(way: int, bound: float, is_strict: bool) -> tuple:
    """Return the numbers up to a bound (`way` 1), or from it on; without itself, if strict."""
    end = math.nextafter(bound, -way * math.inf) if is_strict else bound
    return (None, end) if way > 0 else (end, None)


def _summands(node: Any) -> Sequence[Any]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [*_summands(node.left), *_summands(node.right)]
    return [node]
