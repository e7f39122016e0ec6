"""Arithmetic over columns, written as text: parsed by Python's grammar, and computed here without running any code of it."""

import ast
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from skdpsynth._validation import short_repr

_LONGEST = 1000  # characters
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


class Expression:
    """A parsed expression.

    Attributes
    ----------
    names : tuple of str
        The columns that it takes, in the order in which they come.
    """

    def __init__(self, text: str) -> None:
        if not isinstance(text, str) or not text.strip() or len(text) > _LONGEST:
            raise ValueError(f"expression must be a text such as 'weight / height ** 2', got {short_repr(text)}.")
        self._text, quoted = text, list(_QUOTED.findall(text))
        self._quoted = {f"_quoted_{number}_": name for number, name in enumerate(quoted)}
        names = iter(self._quoted)
        try:
            self._tree = ast.parse(_QUOTED.sub(lambda match: next(names), text).strip(), mode="eval").body
            used: dict[str, None] = {}
            self._check(self._tree, used, 0)
        except (SyntaxError, RecursionError, MemoryError, ValueError) as error:
            if isinstance(error, ValueError) and str(error).startswith("expression"):
                raise
            raise ValueError(
                f"expression must be arithmetic over columns, such as 'weight / height ** 2', got {short_repr(text)}."
            ) from None
        if not used:
            raise ValueError(f"expression must name a column, got {short_repr(text)}.")
        self.names = tuple(used)

    def _check(self, node: ast.AST, used: dict[str, None], depth: int) -> None:
        """Refuse all that is not on the list: no attributes, no subscripts, no calls but of the functions here."""
        children: list[ast.AST]
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            children = [node.left, node.right]
        elif isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATORS:
            children = [node.operand]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and self._takes(node):
            children = list(node.args)
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
            float(node.value)  # type: ignore[arg-type]
            return
        elif isinstance(node, ast.Name):
            used[self._quoted.get(node.id, node.id)] = None
            return
        else:
            children = []
        if not children or depth > _DEEPEST:
            raise ValueError(
                f"expression may have columns, numbers, + - * / // % **, and {', '.join(_FUNCTIONS)}, got {short_repr(self._text)}; a column "
                "whose name is no word stands in backticks."
            )
        for child in children:
            self._check(child, used, depth + 1)

    def _takes(self, node: ast.Call) -> bool:
        name = node.func.id  # type: ignore[attr-defined]
        if name not in _FUNCTIONS or node.keywords or len(node.args) not in _N_ARGUMENTS.get(name, (1,)):
            return False
        return len(node.args) < 2 or name != "round" or (isinstance(node.args[1], ast.Constant) and type(node.args[1].value) is int)

    @property
    def is_partial(self) -> bool:
        """Whether it may have no finite value where its columns have one: it divides, takes roots, powers or logarithms."""
        some = {ast.Div, ast.FloorDiv, ast.Mod, ast.Pow}
        calls = {"sqrt", "log", "exp"}
        return any(
            (isinstance(node, ast.BinOp) and type(node.op) in some) or (isinstance(node, ast.Call) and node.func.id in calls)  # type: ignore[attr-defined]
            for node in ast.walk(self._tree)
        )

    @np.errstate(all="ignore")
    def value(self, columns: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the value in each row, NaN where there is none that is finite.

        Parameters
        ----------
        columns : dict of str to ndarray of float
        """
        values = np.array(np.broadcast_to(self._of(self._tree, columns), next(iter(columns.values())).shape), dtype=float)
        values[~np.isfinite(values)] = np.nan
        return values

    def _of(self, node: Any, columns: Mapping[str, np.ndarray]) -> Any:
        if isinstance(node, ast.BinOp):
            return _OPERATORS[type(node.op)](self._of(node.left, columns), self._of(node.right, columns))
        if isinstance(node, ast.UnaryOp):
            return _OPERATORS[type(node.op)](self._of(node.operand, columns))
        if isinstance(node, ast.Call):
            return _FUNCTIONS[node.func.id](*(self._of(each, columns) for each in node.args))  # type: ignore[attr-defined]
        if isinstance(node, ast.Constant):
            return float(node.value)  # type: ignore[arg-type]
        return columns[self._quoted.get(node.id, node.id)]
