"""Schemas as text: JSON, YAML that people edit, and rules such as "admission <= discharge"."""

import ast
import json
import math
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, fields
from difflib import get_close_matches
from functools import partial
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any

from skdpsynth._validation import short_repr
from skdpsynth.domain._constraints import Impossible, Inequality, MissingTogether, Rule, Unique, check_name, in_file
from skdpsynth.domain._functional_dependencies import LONGEST, Derived, Determines, Sum, without_backticks
from skdpsynth.domain._kinds import (
    UNSTATED,
    Boolean,
    Bounded,
    Constant,
    Continuous,
    Identifier,
    Kind,
    Nominal,
    Ordinal,
    Text,
    first_duplicate,
    is_name,
    list_names,
    name_column_in_errors,
    name_repr,
)
from skdpsynth.domain._times import Date, DateTime, Duration, TimeOfDay

_Columns = Mapping[Any, Any]
_Read = tuple[dict[Any, Any], tuple[Rule | str, ...], Any]  # columns, rules, and how files are read
_INT = "tag:yaml.org,2002:int"
_ALL_KINDS = (Continuous, Ordinal, Nominal, Boolean, Date, DateTime, TimeOfDay, Duration, Constant, Identifier, Text, Derived)
_KINDS: dict[str, Any] = {kind.__name__.lower().removesuffix("ofday"): kind for kind in _ALL_KINDS}
_FACTS = {word: [each for each in fields(kind) if each.init and each.name not in ("low", "high")] for word, kind in _KINDS.items()}
_KEYS = ["name", "kind", *dict.fromkeys(each.name for facts in _FACTS.values() for each in facts)]
RULES = (Impossible, Determines, Inequality, Sum, MissingTogether, Unique)


def facts_of(columns: _Columns, rules: Sequence[Rule], read: Mapping[str, Any]) -> dict[str, Any]:
    facts: dict[str, Any] = {"columns": [{"name": in_file(name), **kind.to_keys()} for name, kind in columns.items()]}
    facts |= {"rules": [rule.to_keys() for rule in rules]} if rules else {}
    return facts | ({"read": dict(read)} if read else {})


def json_of(facts: Mapping[str, Any]) -> str:
    return json.dumps(facts, indent=1, ensure_ascii=False, default=str)  # waves of a grid may be dates


def read_json(source: object) -> Any:
    if isinstance(source, os.PathLike) or (isinstance(source, str) and not source.lstrip().startswith("{")):
        source = _text_of(source)
    try:
        return json.loads(source) if isinstance(source, str) else source
    except (ValueError, RecursionError) as error:
        where = f" in line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise ValueError(f"source must be JSON, but cannot be read{where}; mend it there.") from None


def _text_of(path: str | PathLike[str]) -> str:
    is_file = False
    with suppress(OSError, ValueError):  # a name that no file can have
        is_file = Path(path).is_file()
    if not is_file:
        raise FileNotFoundError(f"schema must be a file or its text, but there is no file {short_repr(str(path))}; correct the path.")
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"source must be text in UTF-8, but the file {short_repr(str(path))} is not; save it as such.") from None


def read_file(path: str | PathLike[str]) -> Any:
    """Return what a file of a schema, or of linked ones, parses to."""
    file = Path(os.fsdecode(path)).expanduser()
    read = {".yaml": read_yaml, ".yml": read_yaml, ".json": read_json}.get(file.suffix.lower())
    if read is None:
        raise ValueError(f"schema must be a dict, a Schema, or a file that ends in .yaml, .yml or .json, got {short_repr(str(path))}.")
    return read(file)


def read_yaml(source: object) -> Any:
    if not isinstance(source, str | os.PathLike):
        raise ValueError(f"source must be a file of YAML or its text, got {short_repr(source)}; Schema.from_json takes what it parses to.")
    if isinstance(source, os.PathLike) or "\n" not in source:
        source = _text_of(source)
    return parse_yaml(source)


def parse_yaml(text: str) -> Any:
    yaml = _yaml()
    safe: Any = yaml.SafeLoader

    class Loader(safe):
        """The safe loader, but for numbers that begin with 0 and times such as 12:30: codes of people, not octal, and text."""

    resolvers = safe.yaml_implicit_resolvers.items()
    Loader.yaml_implicit_resolvers = {first: [each for each in some if each[0] != _INT] for first, some in resolvers}
    Loader.add_implicit_resolver(_INT, re.compile(r"[-+]?(0|[1-9][0-9_]*)$"), list("-+0123456789"))
    try:
        return yaml.load(text, Loader)
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a date that is none
        line = getattr(getattr(error, "problem_mark", None), "line", None)
        where = "" if line is None else f", in line {line + 1} or before"
        raise ValueError(f"source must be YAML, but cannot be read{where}; mend it there.") from None


def _yaml() -> Any:
    try:
        import yaml
    except ImportError:
        raise ImportError("YAML needs the package PyYAML; run pip install 'skdpsynth[yaml]', or use to_json and from_json.") from None
    return yaml


def columns_of(parsed: Any) -> _Read:
    columns = parsed.get("columns") if isinstance(parsed, Mapping) else None
    if isinstance(parsed, Mapping) and "tables" in parsed:
        raise ValueError("source must state one table, but it has tables, which hang on each other; read them by LinkedSchema.of(path).")
    if not isinstance(columns, list) or not all(isinstance(column, Mapping) and "name" in column for column in columns):
        got = list_names(list(parsed)) if isinstance(parsed, Mapping) else short_repr(parsed)
        raise ValueError(f'source must hold {{"columns": [{{"name": ..., "kind": ...}}, ...]}}, got {got}; write the columns so.')
    check_keys(parsed, ("columns", "rules", "read"))
    names = [tuple_of(column["name"]) for column in columns]
    if strange := [name for name in names if not is_name(name)]:
        raise ValueError(f"source must name columns by words or numbers, got {short_repr(strange[0])}.")
    if len(set(names)) < len(names):
        raise ValueError(f"source must name each column once, but {name_repr(first_duplicate(names))} occurs twice.")
    kinds = {name: name_column_in_errors(name, partial(_from_keys, column)) for name, column in zip(names, columns, strict=True)}
    return kinds, read_rules(parsed.get("rules"), RULES, '"a <= b", {"rule": "inequality", "low": "a", "high": "b"}'), parsed.get("read")


def read_rules(stated: Any, known: Sequence[Any], such: str) -> tuple:
    """Return the rules of a list in a file: those of some classes and, where `such` has one, text."""
    rules, kinds = stated or [], Mapping | str if such.startswith('"') else Mapping
    wrong = [each for each in rules if not isinstance(each, kinds)] if isinstance(rules, list) else [rules]
    if wrong:
        raise ValueError(f"rules must be a list such as [{such}], got {short_repr(wrong[0])}.")
    return tuple(each if isinstance(each, str) else _rule_of(each, known) for each in rules)


def check_keys(facts: Mapping[str, Any], known: Collection[str], takes_others: bool = True) -> None:
    """Leave other keys aside, but refuse slips, which would be lost in silence: with nulable, missing cells would become numbers."""
    for key in set(facts) - set(known):
        if meant := get_close_matches(str(key), known, n=1, cutoff=0.8 if takes_others else 0.6):
            raise ValueError(f"keys must be spelt as they are, but {short_repr(key)} looks like {meant[0]!r}; correct or rename it.")
        if not takes_others and key != "note":
            raise ValueError(f"keys must be among {', '.join(known)} or note, got {short_repr(key)}; leave it out.")


def tuple_of(value: object) -> Any:
    """Return a list as a tuple: a name of several parts, a range."""
    return tuple(value) if isinstance(value, list) else value


def _list_of(value: object) -> list:
    return list(map(tuple_of, value)) if isinstance(value, list) else [value]


def _from_keys(column: Mapping[str, Any]) -> Kind:
    kind = column.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ValueError(f"kind must be one of {', '.join(map(repr, _KINDS))}, got {short_repr(kind)}.")
    check_keys(column, _KEYS)
    made = _KINDS[kind]
    facts = {each.name: column.get(each.name) for each in _FACTS[kind] if each.name in column or each.default is MISSING}
    levels = facts.get("levels")
    if isinstance(levels, list) and any(isinstance(level, str) and level.isdecimal() and level[0] == "0" for level in levels):
        facts["levels"] = [str(level) if type(level) is int else level for level in levels]  # codes, such as 01067 and 10115 of YAML
    if not issubclass(made, Bounded):
        return made(**facts)
    bounds = facts.pop("bounds", None)
    if isinstance(bounds, str) and bounds in UNSTATED:
        return made(bounds=bounds, **facts)
    if bounds is None and made is TimeOfDay:
        return TimeOfDay(**facts)
    if isinstance(bounds, list | tuple) and len(bounds) == 2:
        return made(*bounds, **facts)
    pair = "two numbers" if made is Continuous else "two dates or times"
    raise ValueError(
        f"bounds must be {pair} [low, high], 'open' or 'private', got {short_repr(bounds)}; they are public facts, never learned from rows."
    )


def _rule_of(keys: Mapping[str, Any], known: Sequence[Any]) -> Any:
    if "rule" not in keys and "kind" in keys:  # as of a column
        keys = {"rule" if key == "kind" else key: value for key, value in keys.items()}
    made = next((rule for rule in known if rule._word == keys.get("rule")), None)
    if made is None:
        raise ValueError(f"rule must be one of {', '.join(repr(rule._word) for rule in known)}, got {short_repr(keys.get('rule'))}.")
    given = {key: value for key, value in keys.items() if key != "rule"}
    needed = [each.name for each in fields(made) if each.default is MISSING]
    if not set(needed) <= set(given) <= {each.name for each in fields(made)}:
        raise ValueError(f"a rule {keys['rule']!r} must have the keys {', '.join(needed)}, got {list_names(list(given))}; correct it.")
    readers = {"cells": _cells_of, "mapping": _mapping_of, "given": _list_of, "columns": _list_of} if issubclass(made, Rule) else {}
    try:
        return made(**{key: readers.get(key, tuple_of)(value) for key, value in given.items()})
    except TypeError as error:  # to readers of a file its words are all values
        raise ValueError(str(error)) from None


def _cells_of(keys: object) -> dict:
    if not keys or not isinstance(keys, list) or not all(isinstance(cell, Mapping) and set(cell) == {"column", "is"} for cell in keys):
        raise ValueError(f'cells must be a list such as [{{"column": "sex", "is": ["m"]}}, ...], got {short_repr(keys)}.')
    cells = {}
    for cell in keys:
        check_name("cells", name := tuple_of(cell["column"]))
        cells[name] = _list_of(cell["is"])
    return cells


def _mapping_of(keys: object) -> dict:
    pairs = list(keys.items()) if isinstance(keys, Mapping) else keys
    if not isinstance(pairs, list) or not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
        raise ValueError(f"mapping must be a dict, or a list of pairs [level, value], got {short_repr(keys)}.")
    with suppress(TypeError):  # of levels that are dicts, or lists within lists
        return {tuple_of(key): value for key, value in pairs}
    raise ValueError("mapping must have levels, or lists of them, as the first of each pair, got other things; correct it.")


_HEAD = """\
# The public facts about the columns of a table; nothing here may be taken from its rows.
# kind: continuous, date, datetime, time, duration (bounds: [low, high]);
#       nominal, ordinal (levels: a list, or 1..9, ordinal ones from the lowest; other: a level for the rest);
#       boolean (yes and no, 1 and 0); constant (value: the same in every row);
#       identifier (left out of samples; labels: true makes new ones); text (drop it from the table);
#       derived (expression: arithmetic over other columns; gives: date, datetime, time or duration).
# nullable: true where cells may be missing; missing: [-99, "?"], what stands for such a cell.
# format: of dates and times that are not ISO, such as dd/mm/yyyy, yyyymmdd or "%H:%M".
# decimals: 2, or step: 25, of continuous: how finely numbers are written.
"""
_TABLES_HEAD = """\
# A table that hangs on another has of: the other; key: the columns that are equal in both, and stand nowhere else (where names differ,
# [[own, other's], ...]); most: how many rows of one row of the other count; least: how many each has; order: the column by which they
# are a history; head: cells that exactly one of them has, such as {relation: householder}.
"""
_PROPOSED = {
    "of": "the table that it hangs on",
    "key": "keep the names that say whose row it is; state the other columns as well",
    "most": "how many rows of one parent count, such as 8",
}
_OPEN = (
    "# Replace each word open by a public fact. A fact that nobody knows may be private: it is bought with epsilon.\n"
    "# Check names and kinds: those of files without dtypes were guessed from first rows, so they are for your eyes only until then.\n"
)
_EXAMPLES = {
    "continuous": "[low, high], such as [0, 120]",
    "date": "[low, high], such as [2015-01-01, 2024-12-31]",
    "datetime": "[low, high], such as [2015-01-01T00:00:00, 2024-12-31T23:59:59]",
    "time": '[low, high], such as ["00:00", "23:59:59"]',
    "duration": "[low, high], such as [0 min, 30 days]",
    "decimal": '"." or ",", as numbers in the file have it',
    "format": "such as dd/mm/yyyy, mm/dd/yyyy or dd.mm.yyyy: tells nothing but the form",
}
_WIDEST = 100  # characters of a list in one line


def yaml_of(facts: Mapping[str, Any], are_proposed: bool = False) -> str:
    """Return the facts of a table or of linked ones as YAML with comments; `are_proposed`: links between tables are to be confirmed."""
    yaml = _yaml()
    base: Any = yaml.SafeDumper

    class Dumper(base):
        def ignore_aliases(self, data: object) -> bool:
            return True

        def represent_list(self, items: list[Any]) -> Any:
            is_short = len(str(items)) <= _WIDEST and not any(isinstance(item, dict) for item in items)
            return self.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=is_short)

        def represent_text(self, text: str) -> Any:
            # Characters that cannot be printed are escaped: YAML takes some of them as the end of a line.
            return self.represent_scalar("tag:yaml.org,2002:str", text, None if text.isprintable() else '"')

    Dumper.add_representer(list, Dumper.represent_list)
    Dumper.add_representer(str, Dumper.represent_text)
    for keys in (keys for table in facts.get("tables", [facts]) for keys in table["columns"]):
        if keys.get("nullable") is False and "missing" not in keys:  # it would contradict a `missing` that is added later
            del keys["nullable"]
    lines, word = [], ""
    for line in yaml.dump(facts, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=math.inf).splitlines():
        key, _, value = line.strip().removeprefix("- ").partition(": ")
        word = value if key == "kind" else word
        if key == "bounds" and word in ("date", "datetime"):  # in ISO format, which YAML reads as times
            line = line.replace("'", "")
        if (key, value) == ("kind", "identifier"):
            line += "  # never read, and left out of samples; labels: true makes new ones"
        elif are_proposed and key in _PROPOSED:
            line += f"  # TODO: {_PROPOSED[key]}"
        elif value == "open" and key in ("bounds", "levels", "format", "decimal"):
            line += f"  # TODO: {_EXAMPLES.get(key) or _EXAMPLES.get(word, 'all that can occur, [a, b, ...]; or another kind')}"
        lines.append(line)
    text = "\n".join(lines) + "\n"
    return _HEAD + (_TABLES_HEAD if "tables" in facts else "") + (_OPEN if "  # TODO: " in text else "") + text


_FORMS = "'start <= end', 'total = a + b' or \"age >= 18 if smokes == 'yes'\""
_ORDERS = {ast.LtE: (1, False), ast.Lt: (1, True), ast.GtE: (-1, False), ast.Gt: (-1, True)}  # direction, strict


def rules_of_text(text: str, columns: Iterable[Any], place: int) -> list[Rule]:
    """Parse a rule about columns, number `place` in the list of rules; a chain gives several."""
    what = f"rule {place} must be a text such as {_FORMS}, got {short_repr(text)}"
    try:
        if len(text) > LONGEST:
            raise SyntaxError
        words, quoted = without_backticks(text)
        names = {str(name): name for name in columns} | {f"x{name}": name for name in columns if isinstance(name, int)}
        parser = _Parser(names, quoted)
        for whole in (words, f"{words} else None"):  # a condition, which Python wants complete
            with suppress(SyntaxError, ValueError):
                (statement,) = ast.parse(whole).body
                break
        else:
            raise SyntaxError
        return parser.rules(statement)
    except _Unsaid as error:
        raise ValueError(f"{what}; {error}.") from None
    except (SyntaxError, RecursionError, MemoryError):
        raise ValueError(f"{what}; names with spaces, and words such as from, stand in backticks, and levels in quotes.") from None
    except ValueError as error:
        raise ValueError(f"rule {place}, {short_repr(text)}: {error}") from None


class _Unsaid(Exception):
    """A text that no rule says, with the way out."""


class _Parser:
    def __init__(self, names: dict[str, Any], quoted: dict[str, str]) -> None:
        self._names, self._quoted = names, quoted

    def rules(self, statement: object) -> list[Rule]:
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
        if not all(type(operator) in _ORDERS for operator in node.ops):
            raise SyntaxError
        ways = [_ORDERS[type(operator)] for operator in node.ops]
        pairs = [pair[::way] for (way, _), pair in zip(ways, pairwise(map(self._name, sides)), strict=True)]
        return [Inequality(low, high, strict) for (low, high), (_, strict) in zip(pairs, ways, strict=True)]

    def _name(self, node: ast.AST) -> Any:
        if not isinstance(node, ast.Name):
            raise SyntaxError
        word = self._quoted.get(node.id, node.id)
        return self._names.get(word, word)

    def _sum(self, *sides: Any) -> Rule:
        total, value = sides if isinstance(sides[0], ast.Name) else sides[::-1]
        name, parts = self._name(total), _summands(value)
        if len(parts) < 2 or not all(isinstance(each, ast.Name) for each in parts):
            text = ast.unparse(value)
            for word, quoted in self._quoted.items():
                text = text.replace(word, f"`{quoted}`")
            raise _Unsaid(f"only sums of columns are rules: make {short_repr(name)} a column that is computed, Derived({text!r})")
        return Sum([self._name(each) for each in parts], name)

    def _impossible(self, holds: ast.AST, condition: ast.AST) -> Rule:
        tests = condition.values if isinstance(condition, ast.BoolOp) and isinstance(condition.op, ast.And) else [condition]
        cells = [self._cells(each) for each in tests]
        with suppress(SyntaxError):
            cells.append(self._cells(holds, negated=True))
        if len(dict(cells)) <= len(tests):
            raise _Unsaid("what holds on a condition is a column and a number, each column once: else write Impossible({...})")
        return Impossible(dict(cells))

    def _cells(self, node: ast.AST, negated: bool = False) -> tuple[Any, list]:
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
        way, is_strict = _ORDERS[type(operator)]  # up to a bound (1), or from it on; without itself, if strict
        way, is_strict = (-way, not is_strict) if negated else (way, is_strict)
        end = math.nextafter(value, -way * math.inf) if is_strict else value
        return name, [(None, end) if way > 0 else (end, None)]


def _summands(node: ast.AST) -> Sequence[Any]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [*_summands(node.left), *_summands(node.right)]
    return [node]
