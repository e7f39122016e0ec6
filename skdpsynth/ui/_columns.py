"""Columns of a schema as the fields of a form, and back."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

KINDS = {
    "whole": "a whole number",
    "number": "a number with decimals",
    "nominal": "a category",
    "ordinal": "a category with an order",
    "boolean": "yes or no",
    "date": "a date",
    "datetime": "a date with a time",
    "time": "a time of day",
    "duration": "a length of time",
    "constant": "the same value in every row",
    "identifier": "leave out: an id, a name, free text",
}
KEPT = "kept"  # a kind that the form has no fields for: its facts stay as the file states them
FIELDS = ("kind", "low", "high", "value", "words", "levels", "missing", "decimals", "step", "format")
_WITH_BOUNDS = {"whole", "number", "date", "datetime", "time", "duration"}
_WITH_LEVELS = {"nominal", "ordinal"}
_OF_FIELDS = {"name", "kind", "bounds", "integer", "levels", "nullable", "missing"} | {
    "decimals",
    "step",
    "format",
    "words",
    "value",
    "labels",
}
_FIELDS = {"bounds": "low", "low": "low", "levels": "levels", "format": "format", "missing": "missing", "decimals": "decimals"}
_FIELDS |= {"words": "words", "value": "value", "step": "step"}
_PUBLIC = "a public fact, not what the rows hold."
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)

Facts = dict[str, Any]
Typed = dict[str, str]


def fields_of(columns: list[Facts]) -> Typed:
    """Return what stands in the fields of all columns, with what is open left empty."""
    typed: Typed = {}
    for i, column in enumerate(columns):
        for name, text in _fields_of_column(column).items():
            typed[f"{name}.{i}"] = text
    return typed


def _fields_of_column(column: Facts) -> Typed:
    kind, bounds, levels = column["kind"], column.get("bounds", "open"), column.get("levels", "open")
    kind = {"continuous": "whole" if column.get("integer") else "number", "text": "identifier"}.get(kind, kind)
    if kind not in KINDS or "private" in (bounds, levels) or column.get("labels") not in (None, False):
        return {"kind": KEPT}
    low, high = ("", "") if bounds == "open" else map(str, bounds)
    return {
        **{"kind": kind, "low": low, "high": high},
        **{"levels": "" if levels == "open" else levels if isinstance(levels, str) else "\n".join(map(str, levels))},
        **{name: ", ".join(map(str, column.get(name, ()))) for name in ("missing", "words")},
        **{name: str(column.get(name, "")) for name in ("decimals", "step", "format", "value")},
        **({"nullable": "yes"} if column.get("nullable") or column.get("missing") else {}),
    }


def columns_of(typed: Typed, columns: list[Facts], words: Callable[[str], str]) -> tuple[list[Facts], Typed]:
    """Return the facts that stand in the fields, and for each field that holds a fault a sentence."""
    found, faults = [], dict[str, str]()
    for i, column in enumerate(columns):
        mine = {name.rpartition(".")[0]: text.strip() for name, text in typed.items() if name.endswith(f".{i}")}
        facts, wrong = _column_of(mine, column)
        if not wrong and mine["kind"] != KEPT:
            wrong = _faults_of_schema({"columns": [facts]}, words)
        found.append(facts)
        faults |= {f"{name}.{i}": sentence for name, sentence in wrong.items()}
    return found, faults


def _column_of(mine: Typed, column: Facts) -> tuple[Facts, Typed]:
    kind = mine["kind"]
    if kind == KEPT:
        return column, {}
    is_same = _fields_of_column(column)["kind"] == kind
    facts = {"name": column["name"], "kind": "continuous" if kind in ("whole", "number") else kind}
    facts |= {name: value for name, value in column.items() if is_same and name not in _OF_FIELDS}
    if kind == "identifier":
        return facts, {}
    wrong = dict[str, str]()
    if kind in ("whole", "number"):
        facts["integer"] = kind == "whole"
    if kind in _WITH_BOUNDS:
        facts["bounds"] = [_end(mine, name, kind, wrong) for name in ("low", "high")]
    if kind in _WITH_LEVELS:
        facts["levels"] = _levels_of(mine.get("levels", ""))
        if not facts["levels"]:
            wrong["levels"] = f"Write all that can occur, one a line: {_PUBLIC}"
    if kind == "constant":
        facts["value"] = _value_of(mine.get("value", ""))
        if not mine.get("value"):
            wrong["value"] = "Write the value that stands in every row."
    else:
        facts["nullable"] = "nullable" in mine
    for name in ("missing", "words") if kind == "boolean" else ("missing",) if kind != "constant" else ():
        if mine.get(name):
            facts[name] = [_value_of(each.strip()) if name == "missing" else each.strip() for each in mine[name].split(",")]
    for name in {"whole": ("step",), "number": ("step", "decimals")}.get(kind, ()):
        if mine.get(name):
            facts[name] = _value_of(mine[name])
    if kind in ("date", "datetime", "time") and mine.get("format"):
        facts["format"] = mine["format"]
    return facts, wrong


def _end(mine: Typed, name: str, kind: str, wrong: Typed) -> object:
    text, which = mine.get(name, ""), {"low": "lowest", "high": "highest"}[name]
    if not text:
        wrong[name] = f"Write the {which} that can occur: {_PUBLIC}"
    elif kind in ("whole", "number") and not _NUMBER.fullmatch(text):
        wrong[name] = f"The {which} must be a number such as 120 or 0.5, got {text!r}."
    return text if kind not in ("whole", "number") or wrong else _value_of(text)


def _levels_of(text: str) -> object:
    """Return levels, one a line, or with commas between them in one line; as numbers, if all are whole."""
    parts = [part.strip() for part in text.split("\n" if "\n" in text else ",") if part.strip()]
    if len(parts) == 1 and ".." in parts[0]:
        return parts[0]
    numbers = [_value_of(part) for part in parts]
    return numbers if all(isinstance(number, int) for number in numbers) else parts


def _value_of(text: str) -> object:
    """Return a number if it is written as numbers are: 01067 is a word."""
    if re.fullmatch(r"-?(0|[1-9]\d*)", text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) and not re.match(r"[+-]?0\d", text) else text


def rules_of(text: str) -> list[object]:
    """Return the rules, one a line: text, or the keys of a schema file as JSON."""
    lines = filter(None, map(str.strip, text.splitlines()))
    return [json.loads(line) if line.startswith("{") else line for line in lines]


def _faults_of_schema(facts: Mapping[str, Any], words: Callable[[str], str]) -> Typed:
    from skdpsynth.domain import Schema

    try:
        Schema.from_json(json.dumps(facts))
    except (ValueError, TypeError) as error:
        sentence = re.sub(r"^schema of column .*?: (?=\w)", "", str(error))
        return {next((name for word, name in _FIELDS.items() if sentence.startswith(word)), "kind"): words(sentence)}
    return {}


def schema_of(columns: list[Facts], rules: str, read: Facts, words: Callable[[str], str]) -> tuple[str, Typed]:
    """Return a schema as YAML, and faults of its rules."""
    from skdpsynth.domain import Schema

    try:
        facts = {"columns": columns} | ({"rules": stated} if (stated := rules_of(rules)) else {}) | ({"read": read} if read else {})
        return str(Schema.from_json(json.dumps(facts)).to_yaml()), {}
    except (ValueError, TypeError) as error:
        return "", {"rules": words(str(error))}
