"""Code books: kinds of columns from tables of variables, metadata of CSVW, and DDI."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from skdpsynth._validation import short_repr
from skdpsynth.domain._dates import Date, DateTime
from skdpsynth.domain._kinds import Continuous, Nominal, Text, as_nullable
from skdpsynth.domain._schema_files import parsed_yaml
from skdpsynth.frames import detect_options, kind_of_file, open_source

_KEY_NAME = re.compile(r"(?i:(.*[_ .-])?id)|.*[a-z](Id|ID)")
_WHOLE = re.compile(r"[-+]?(0|[1-9]\d*)")
_INTEGERS = re.compile(r"(unsigned|non(Negative|Positive)|positive|negative)?(integer|int|long|short|byte)", re.IGNORECASE)
_NUMBERS = ("number", "decimal", "double", "float")
_TIMES = {"date": Date, "datetime": DateTime, "dateTime": DateTime, "dateTimeStamp": DateTime}
_LIST = re.compile(r"[\w .-]+(\|[\w .-]+)+")  # a pattern that lists words


def is_key_name(name: Any) -> bool:
    """Whether a column is called as identifiers are: id, patient_id, PatientID."""
    return isinstance(name, str) and _KEY_NAME.fullmatch(name) is not None


def columns_of_code_book(path: Any, labels: bool) -> list[dict[str, Any]]:
    """Return the keys of each column of a schema from a table of variables, as `Schema.from_codebook` says."""
    columns: dict[Any, dict[str, Any]] = {}
    for row in _rows_of(Path(path).expanduser()):
        facts = {str(key).strip().lower(): cell for key, cell in row.items() if cell not in ("", None)}
        if (name := facts.pop("variable", facts.pop("name", None))) is None:
            raise ValueError(f"code book {Path(path).name!r} must name a variable in each row; add the column variable.")
        keys = columns.setdefault(name, {"name": name})
        values = facts.pop("values", [facts["value"]] if "value" in facts else [])
        words = list(values.values()) if isinstance(values, Mapping) else [facts.get("label")] * len(values)
        keys["levels"] = keys.get("levels", []) + [
            word if labels and word is not None else _scalar(value) for value, word in zip(values, words, strict=True)
        ]
        keys |= {key: _listed(facts.pop(key)) for key in ("levels", "missing") if key in facts}
        keys |= {key: _scalar(cell) for key, cell in facts.items() if key not in ("value", "label")}
    return list(map(_finished, columns.values()))


def _rows_of(path: Path) -> Iterable[Mapping[str, Any]]:
    if path.suffix.lower() not in (".yaml", ".yml", ".json"):
        read = detect_options(path, {"decimal": "."}) if kind_of_file(path, "code book") == "CSV" else None
        return [row for chunk in open_source(path, "code book", read=read).chunks() for row in chunk.to_pylist()]
    rows = None
    with suppress(ValueError):
        rows = json.loads(path.read_text("utf-8")) if path.suffix.lower() == ".json" else parsed_yaml(path.read_text("utf-8"))
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise ValueError(f"code book must be a list of variables, got {short_repr(path.name)}; begin each with '- variable: its name'.")
    return rows


def _listed(cell: Any) -> Any:
    """Return the list that a text with semicolons is; a short form, such as 1..5, as it stands."""
    return list(map(_scalar, cell.split(";"))) if isinstance(cell, str) and ".." not in cell else cell


def _scalar(value: Any) -> Any:
    """Return the number that a text is, if it is one: what begins with 0 is a code."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    if _WHOLE.fullmatch(text):
        return int(text)
    try:
        return text if re.match(r"[-+]?0\d", text) else {"true": True, "false": False}.get(text.lower(), float(text))
    except ValueError:
        return {"true": True, "false": False}.get(text.lower(), text)


def _finished(keys: dict[str, Any]) -> dict[str, Any]:
    """Return keys of a column with its kind, by the facts that a code book has of it."""
    levels, ends = keys.pop("levels"), [keys.pop("low", None), keys.pop("high", None)]
    if isinstance(levels, list):
        levels = list(dict.fromkeys(map(str, levels) if any(isinstance(level, str) for level in levels) else levels))
    is_time = isinstance(ends[0], str)
    guessed = ("datetime" if len(ends[0]) > len("2020-01-31") else "date") if is_time else "continuous"
    if ends[0] is None:
        guessed = "nominal" if levels or not is_key_name(keys["name"]) else "identifier"
    kind = str(keys.get("kind", guessed)).lower()
    facts = {"levels": levels or "open"} if kind in ("nominal", "ordinal") else {}
    if kind in ("continuous", "date", "datetime") or ends[0] is not None:
        facts = {"bounds": "open" if None in ends else ends}
    return keys | {"kind": kind} | facts


def csvw_beside(path: Path) -> dict[str, Any] | None:
    """Return the columns and the dialect that metadata of CSVW beside a text file state; None where there are none."""
    for place in (Path(f"{path}-metadata.json"), path.parent / "csv-metadata.json"):
        if not place.is_file():
            continue
        try:
            told = json.loads(place.read_text(encoding="utf-8-sig"))
            table = next(each for each in told.get("tables", [told]) if Path(str(each.get("url", path.name))).name == path.name)
            columns, dialect = table["tableSchema"]["columns"], {**told.get("dialect", {}), **table.get("dialect", {})}
            columns = [each for each in columns if not each.get("virtual")]
        except (ValueError, LookupError, AttributeError, TypeError, StopIteration):
            continue
        keys = {"separator": "delimiter", "encoding": "encoding", "comment": "commentPrefix", "skip": "skipRows"}
        return {"columns": columns, "read": {key: dialect[word] for key, word in keys.items() if dialect.get(word)}}
    return None


def kinds_of_csvw(columns: Sequence[Mapping[str, Any]], names: Sequence[str], public: bool) -> dict[str, Any]:
    """Return the kind of each column by its datatype in CSVW, with its bounds or list of words where they are public."""
    return {name: _kind_of_csvw(column, public) for name, column in zip(names, columns, strict=True)}


def _kind_of_csvw(column: Mapping[str, Any], public: bool) -> Any:
    told = column.get("datatype", "string")
    told = told if isinstance(told, Mapping) else {"base": told}
    base, ends = (
        str(told.get("base", "string")),
        [told.get("minimum", told.get("minInclusive")), told.get("maximum", told.get("maxInclusive"))],
    )
    ends = ends if public and None not in ends else []
    open_bounds: dict[str, Any] = {} if ends else {"bounds": "open"}
    if base == "boolean":
        kind: Any = Nominal(str(told["format"]).split("|")) if "format" in told else Nominal([False, True])
    elif base in _TIMES:
        kind = _TIMES[base](*map(str, ends), **open_bounds)
    elif base in _NUMBERS or _INTEGERS.fullmatch(base):
        kind = Continuous(*map(_scalar, map(str, ends)), integer=base not in _NUMBERS, **open_bounds)
    else:
        words = str(told.get("format", ""))
        kind = Nominal(words.split("|") if public and _LIST.fullmatch(words) else "open")
    return as_nullable(kind) if column.get("required") is False else kind


def columns_of_ddi(path: Path, public: bool) -> dict[str, Any]:
    """Return the kinds of the variables of a DDI code book (2.x); nothing is fetched, and entities are refused."""
    data = path.read_bytes()
    try:
        if b"<!ENTITY" in data.replace(b"\0", b""):
            raise ValueError
        variables = [each for each in ElementTree.fromstring(data).iter() if _local(each) == "var" and each.get("name")]
    except (ElementTree.ParseError, ValueError):
        raise ValueError(f"source must be a DDI code book without entities, but {path.name!r} is none; correct it.") from None
    if not variables:
        raise ValueError(f"source must be a DDI code book with elements var, but {path.name!r} has none; give that of version 2.")
    return {str(each.get("name")): _kind_of_ddi(each, public) for each in variables}


def _local(element: Any) -> str:
    return str(element.tag).rpartition("}")[2]


def _kind_of_ddi(variable: Any, public: bool) -> Any:
    inside: dict[str, list[Any]] = {}
    for element in variable.iter():
        inside.setdefault(_local(element), []).append(element)
    form: Any = next(iter(inside.get("varFormat", [])), {})
    ranges = inside.get("range", [])
    gone = [each for each in inside.get("catgry", []) if each.get("missing") in ("Y", "y")]
    values = [
        _scalar(value.text or "") for each in inside.get("catgry", []) if each not in gone for value in each if _local(value) == "catValu"
    ]
    ends = [_scalar(ranges[0].get(end) or "") for end in ("min", "max")] if public and ranges else [""]
    if len(values) > 1 and variable.get("intrvl") != "contin":
        kind: Any = Nominal(list(dict.fromkeys(values)) if public else "open")
    elif form.get("category") in ("date", "time"):
        kind = Date(bounds="open") if form.get("category") == "date" else Text()
    elif form.get("type") == "character":
        kind = Nominal("open")
    else:
        whole = variable.get("dcml") == "0"
        kind = Continuous(bounds="open", integer=whole) if "" in ends else Continuous(*ends, integer=whole)
    return as_nullable(kind) if gone else kind
