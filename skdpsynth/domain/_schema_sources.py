"""Schemas from other sources: short forms, dtypes, code books, metadata of SDV, CSVW and DDI, and tables whose facts stay open."""

import datetime
import json
import os
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set, Sized
from contextlib import closing, suppress
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from skdpsynth._validation import is_real, short_repr
from skdpsynth.domain._box import BoundsLike
from skdpsynth.domain._kinds import (
    Boolean,
    Continuous,
    Identifier,
    Kind,
    Nominal,
    Ordinal,
    Text,
    as_nullable,
    bounds_repr,
    is_name,
    list_names,
    name_column_in_errors,
    name_repr,
)
from skdpsynth.domain._schema_files import parse_yaml
from skdpsynth.domain._times import DAY, Date, DateTime, Duration, TimeOfDay, read_clock
from skdpsynth.frames import (
    MISSING_WORDS,
    ReadOptions,
    Table,
    TableKind,
    declared_columns,
    default_separator,
    detect_options,
    files_at,
    kind_of_file,
    open_source,
    pandas_dtype_name,
    parse_dtype,
    plain_name,
    require_package,
    schema_of_parquet,
    suffix_of,
)

_Skeleton = tuple[dict[Any, Any], dict[str, Any]]  # kinds by column, and how the file is read
_HAS_TIME = re.compile(r"%[HIMSfpcXsTR]")  # in a format of times
_KEY_NAME = re.compile(r"(?i:(.*[_ .-])?id)|.*[a-z](Id|ID)")
_WHOLE = re.compile(r"[-+]?(0|[1-9]\d*)")
_INTEGERS = re.compile(r"(unsigned|non(Negative|Positive)|positive|negative)?(integer|int|long|short|byte)", re.IGNORECASE)
_NUMBERS = ("number", "decimal", "double", "float")
_TIMES = {"date": Date, "datetime": DateTime, "dateTime": DateTime, "dateTimeStamp": DateTime}
_LIST = re.compile(r"[\w .-]+(\|[\w .-]+)+")  # a pattern that lists words
_DAY_LENGTH = len("2020-01-31")
_LOOKED_AT = 1000  # rows of a file whose columns have no dtypes
_FEWEST, _MOST = 5, 0.8  # different cells that tell a kind beside others, and their share
_FLAGS = {tuple(map(case, pair)) for pair in ("01", "ny", "ft", ("no", "yes")) for case in (str.lower, str.title, str.upper)}
_SLASHES = re.compile(r"\d{1,2}([-/.])\d{1,2}\1(?:\d{4}|\d\d)( \d{1,2}:\d\d(?::\d\d)?)?")
_MISSING = {*MISSING_WORDS, "None", "?"}


def kind_of(name: Hashable, value: object) -> Any:
    column = f"schema of column {name_repr(name)}"
    if isinstance(value, Kind):
        return value
    if isinstance(value, type) and issubclass(value, Kind):
        raise ValueError(f"{column} must be a kind with its facts, got the class; call {value.__name__}(...).")
    if isinstance(value, tuple) and len(value) == 2:
        has_times = any(isinstance(bound, datetime.date | np.datetime64 | str) for bound in value)
        made = Continuous if not has_times else Date if all(map(_is_day, value)) else DateTime
        return name_column_in_errors(name, lambda: made(*value))
    if not isinstance(value, list):
        raise ValueError(
            f"schema must give a tuple (low, high), a list of levels, or a kind, such as Continuous, Nominal, Date or Identifier, for "
            f"column {name_repr(name)}, got {short_repr(value)}; bounds and levels are public facts, never learned from rows."
        )
    if len(value) == 2 and all(map(is_real, value)) and value[1] - value[0] != 1:
        raise ValueError(
            f"{column} is a list of two numbers: write a tuple for bounds, {bounds_repr(*value)}, or "
            f"Nominal([{short_repr(value[0])}, {short_repr(value[1])}]) for two levels."
        )
    return name_column_in_errors(name, lambda: Nominal(value))


def _is_day(bound: object) -> bool:
    """Whether a bound is a day by its type, or as it is written: midnight is none."""
    if isinstance(bound, np.datetime64):
        return np.datetime_data(bound.dtype)[0] in ("Y", "M", "W", "D")
    is_date = isinstance(bound, datetime.date) and not isinstance(bound, datetime.datetime)
    return len(bound) == _DAY_LENGTH if isinstance(bound, str) else is_date


def schema_of_dtypes(dtypes: Any, public: bool, bounds: BoundsLike, nullable: Iterable[Any]) -> dict[Any, Any]:
    """Return the kinds that dtypes declare, unless a domain is given; a range in a column of floats is one of real numbers."""
    if hasattr(dtypes, "columns") or not hasattr(dtypes, "keys"):
        raise ValueError(f"dtypes must be frame.dtypes of pandas, frame.schema of polars, or such a dict, got {type(dtypes).__name__}.")
    if public is not True:
        raise ValueError(f"public must be True, got {short_repr(public)}: levels of astype('category') are from the rows, and private.")
    unused, columns = _by_column("bounds", bounds), {}
    for name, dtype in dict(dtypes).items():
        given = columns[name] = unused.pop(name, None)
        if given is None:
            columns[name] = name_column_in_errors(name, partial(kind_of_dtype, dtype))
        elif isinstance(given, tuple) and len(given) == 2 and str(dtype).lower().startswith("float"):
            columns[name] = name_column_in_errors(name, partial(Continuous, *given, integer=False))
    return _complete(columns, unused, nullable, "bounds")


def kind_of_dtype(dtype: object) -> Any:
    categories = getattr(dtype, "categories", None)
    # Those of a Categorical of polars are a pool that all its columns share, and declare nothing.
    if categories is not None and not callable(categories) and not str(dtype).startswith("Categorical"):
        return (Ordinal if getattr(dtype, "ordered", False) else Nominal)(list(categories))
    return Nominal([False, True]) if str(dtype) in ("bool", "boolean", "Boolean") else None


def schema_of_sdv(metadata: object, domains: object, nullable: Iterable[Any]) -> dict[Any, Any]:
    """Read the kinds of columns from metadata of SDV; bounds and levels from `domains`."""
    leave_open = isinstance(domains, str) and domains == "open"
    unused = _by_column("domains", None if leave_open else domains)
    facts = metadata.to_dict() if hasattr(metadata, "to_dict") else metadata
    if not isinstance(facts, Mapping):
        raise ValueError(f"metadata must be SDV metadata or the dict of it, got {type(facts).__name__}.")
    tables = list(facts["tables"].values()) if "tables" in facts else [facts]
    if len(tables) != 1 or "columns" not in tables[0]:
        raise ValueError(f"metadata must describe the columns of one table, got {len(tables)} tables; give that of one.")
    keys = {tables[0].get("primary_key"), *tables[0].get("alternate_keys", ())}
    columns = {
        name: name_column_in_errors(name, partial(_kind_of_sdv, each, unused.pop(name, None), name in keys, leave_open))
        for name, each in tables[0]["columns"].items()
    }
    return _complete(columns, unused, nullable, "domains")


def _kind_of_sdv(facts: Mapping[str, Any], domain: object, is_key: bool, leave_open: bool) -> Any:
    """Return the domain of a column; None if there is none."""
    sdtype, whole = facts.get("sdtype"), "int" in str(facts.get("computer_representation")).lower()
    times = Date if (form := facts.get("datetime_format")) is not None and not _HAS_TIME.search(form) else DateTime
    if domain is None:
        kinds = {"numerical": Continuous(bounds="open", integer=whole), "categorical": Nominal("open"), "datetime": times(bounds="open")}
        kinds |= {"boolean": Nominal([False, True]), "id": Identifier(labels=is_key)}
        if sdtype not in kinds:
            raise ValueError(f"sdtype {short_repr(sdtype)} is not synthesized; give the domain Identifier(), or leave the column out.")
        return kinds[sdtype] if leave_open or not kinds[sdtype].stand_in else None
    if isinstance(domain, tuple) and len(domain) == 2:
        if sdtype == "numerical" and "computer_representation" in facts:
            return Continuous(*domain, integer=whole and all(is_real(end) and float(end).is_integer() for end in domain))
        if sdtype == "datetime":
            return times(*domain)
    return domain


def _by_column(parameter: str, facts: object) -> dict[Any, Any]:
    if facts is not None and not isinstance(facts, Mapping):
        raise ValueError(f"{parameter} must be a dict by column, got {short_repr(facts)}; it states public facts, never learned from rows.")
    return dict(facts or {})


def _complete(columns: dict[Any, Any], unused: dict[Any, Any], nullable: Iterable[Any], parameter: str) -> dict[Any, Any]:
    """Return kinds, those of `nullable` made so, or refuse columns without facts and facts without columns."""
    if lacking := [name for name, kind in columns.items() if kind is None]:
        raise ValueError(f"{parameter} must give (low, high) or levels for {list_names(lacking)}, public facts never learned from rows.")
    if isinstance(nullable, str) or not isinstance(nullable, Sequence | Set) or not all(map(is_name, nullable)):
        raise ValueError(f"nullable must be a list of columns, got {short_repr(nullable)}; list their names.")
    nullable = set(nullable)
    if unknown := [*unused, *(nullable - set(columns))]:
        raise ValueError(f"{parameter} and nullable must name columns of the table, got {list_names(unknown)}.")
    kinds = {name: kind_of(name, kind) for name, kind in columns.items()}
    return {name: as_nullable(kind) if name in nullable else kind for name, kind in kinds.items()}


def columns_of_code_book(path: str | PathLike[str], labels: bool) -> list[dict[str, Any]]:
    """Return the keys of each column of a schema from a table of variables, as `Schema.from_codebook` says."""
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"path must be that of a code book, got {short_repr(path)}; name a file of CSV, YAML or JSON.")
    columns: dict[Any, dict[str, Any]] = {}
    for row in _rows_of(files_at(path, "path")[0]):
        facts = {str(key).strip().lower(): cell for key, cell in row.items() if not (cell is None or (isinstance(cell, str) and not cell))}
        if (name := facts.pop("variable", facts.pop("name", None))) is None or not is_name(name):
            raise ValueError(f"code book {os.path.basename(path)!r} must name a variable in each row; add the column variable.")
        keys = columns.setdefault(name, {"name": name, "levels": []})
        values = facts.pop("values", [facts["value"]] if "value" in facts else [])
        if not isinstance(values, list | Mapping):
            raise ValueError(f"values of {name!r} in a code book must be a list, or codes with their labels, got {short_repr(values)}.")
        words = list(values.values()) if isinstance(values, Mapping) else [facts.get("label")] * len(values)
        pairs = zip(values, words, strict=True)
        keys["levels"] = keys["levels"] + [word if labels and word is not None else _scalar(value) for value, word in pairs]
        for key, cell in facts.items():
            if key in ("levels", "missing") and isinstance(cell, str) and ".." not in cell:
                keys[key] = list(map(_scalar, cell.split(";")))
            elif key not in ("value", "label"):
                keys[key] = cell if key in ("levels", "missing") else _scalar(cell)
    return list(map(_add_kind, columns.values()))


def _rows_of(path: Path) -> Iterable[Mapping[str, Any]]:
    if path.suffix.lower() not in (".yaml", ".yml", ".json"):
        read = detect_options(path, {"decimal": "."}) if kind_of_file(path, "code book") == "CSV" else None
        return [row for chunk in open_source(path, "code book", read=read).chunks() for row in chunk.to_pylist()]
    rows = None
    with suppress(ValueError):
        rows = json.loads(path.read_text("utf-8")) if path.suffix.lower() == ".json" else parse_yaml(path.read_text("utf-8"))
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise ValueError(f"code book must be a list of variables, got {short_repr(path.name)}; begin each with '- variable: its name'.")
    return rows


def _scalar(value: object) -> Any:
    """Return the number that a text is, if it is one: what begins with 0 is a code."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    if _WHOLE.fullmatch(text):
        return int(text)
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    with suppress(ValueError):
        return text if re.match(r"[-+]?0\d", text) else float(text)
    return text


def _add_kind(keys: dict[str, Any]) -> dict[str, Any]:
    levels, ends = keys.pop("levels"), [keys.pop("low", None), keys.pop("high", None)]
    if isinstance(levels, list) and all(map(is_name, levels)):
        levels = list(dict.fromkeys(map(str, levels) if any(isinstance(level, str) for level in levels) else levels))
    if ends[0] is None:
        guessed = "nominal" if levels or not _is_key_name(keys["name"]) else "identifier"
    else:
        guessed = "continuous" if not isinstance(ends[0], str) else "datetime" if len(ends[0]) > _DAY_LENGTH else "date"
    kind = str(keys.get("kind", guessed)).lower()
    facts = {"levels": levels or "open"} if kind in ("nominal", "ordinal") else {}
    if kind in ("continuous", "date", "datetime") or ends[0] is not None:
        facts = {"bounds": "open" if None in ends else ends}
    return keys | {"kind": kind} | facts


def skeleton_of(source: Table, public: bool = False, read: Mapping[str, Any] | None = None) -> _Skeleton:
    """Return a kind for each column of a table, a file or a schema of dtypes, with bounds and levels left open, and how the file is read.

    `public`: whether value labels, categories, and bounds in metadata are public facts, which are then stated. Text files, sheets and
    SQLite have no dtypes, so their kinds are guessed from the first 1000 rows: facts about rows, for the holder alone until they are
    stated as public.
    """
    read = ReadOptions.of(read).to_dict()
    is_path = isinstance(source, str | os.PathLike)
    columns, read = _of_file(files_at(source, "source")[0], public, read) if is_path else (_of_table(source, public), read)
    named_as_keys = {
        name: Identifier()
        for name, kind in columns.items()
        if kind.stand_in == "open" and isinstance(kind, Nominal | Continuous) and _is_key_name(name)
    }
    return {name: kind for name, kind in (columns | named_as_keys).items() if name in read.get("columns", columns)}, read


def _is_key_name(name: object) -> bool:
    """Whether a column is called as identifiers are: id, patient_id, PatientID."""
    return isinstance(name, str) and _KEY_NAME.fullmatch(name) is not None


def _of_table(source: Table, public: bool) -> dict[Any, Any]:
    if isinstance(source, Mapping):
        dtypes, kinds = source, {name: _kind_of(_name_of(dtype)) for name, dtype in source.items()}
    else:
        head = open_source(source.empty_table() if hasattr(source, "empty_table") else source, "source").head
        table = TableKind.of(head, "source")
        kinds = dict(zip(table.columns, map(_kind_of, table.dtypes), strict=True))
        if hasattr(head, "column_names"):  # of a table of Arrow an array for each, which knows its dictionary
            dtypes = {name: next(iter(getattr(head[name], "chunks", [head[name]])), None) for name in table.names or ()}
        else:
            dtypes = {name: head[name].dtype for name in table.names or ()}
    for name, dtype in dtypes.items() if public else ():
        is_coded = hasattr(dtype, "dictionary")
        levels: Any = dtype.dictionary.to_pylist() if is_coded else getattr(dtype, "categories", None)
        if hasattr(levels, "__len__") and len(levels) >= 2:
            kinds[name] = Nominal(levels) if is_coded else kind_of_dtype(dtype) or kinds[name]
    return kinds


def _name_of(dtype: Any) -> str:
    if isinstance(dtype, np.dtype):
        return dtype.str if dtype.kind in "mMSU" else str(dtype)
    if isinstance(dtype, type) and dtype in (int, float, bool, str, object):
        return dtype.__name__
    if type(dtype).__module__.startswith("pandas"):
        return pandas_dtype_name(dtype)
    if "polars" in type(dtype).__module__:
        import narwhals.stable.v2 as nw

        return plain_name(nw.Schema.from_polars({"": dtype})[""])
    return plain_name(dtype)


def _kind_of(dtype: str) -> Any:
    facts = parse_dtype(dtype)
    family = facts.family
    if family in ("time of day", "duration"):
        return TimeOfDay() if family == "time of day" else Duration(bounds="open")
    if family == "time":
        return Date(bounds="open") if (facts.time or "?")[0] == "D" else DateTime(bounds="open")
    if family in ("text", "any") or dtype.startswith("category"):
        return Nominal("open")
    if facts.number is None:
        return Nominal("open") if dtype.startswith("dictionary") else Text()
    if decimal := facts.decimal:
        return Continuous(bounds="open", integer=not decimal[1], decimals=decimal[1] or None)
    return Nominal([False, True]) if facts.number.kind == "b" else Continuous(bounds="open", integer=facts.number.kind in "iu")


def _columns_of_labels(path: Path, public: bool, read: dict[str, Any]) -> _Skeleton:
    """Return what a file of Stata or SPSS declares of its columns."""
    kinds, labeled = dict[str, Any](), []
    for name, each in declared_columns(path, "source").items():
        words = list(dict.fromkeys(each.labels.values())) if public else []
        if len(words) > 1:
            labeled.append(name)
            kinds[name] = Nominal(words)
        elif each.unit is not None:
            kinds[name] = (Date if each.unit in "DM" else DateTime)(bounds="open")
        else:
            is_words = each.dtype is None or each.labels
            kinds[name] = Nominal("open") if is_words else Continuous(bounds="open", integer=each.is_whole)
    return kinds, read | ({"labels": labeled} if labeled else {})


def _of_file(path: Path, public: bool, read: dict[str, Any]) -> _Skeleton:
    if path.suffix.lower() == ".xml":
        return _columns_of_ddi(path, public), read
    kind = kind_of_file(path, "source")
    if kind in ("Stata", "SPSS"):
        return _columns_of_labels(path, public, read)
    require_package("pyarrow", "source", f"a {kind} file")
    if kind == "Parquet":
        return _of_table(schema_of_parquet(path, "source").empty_table(), public), read
    metadata = _csvw_beside(path) if kind == "CSV" else None
    if kind == "CSV":
        read = detect_options(path, (metadata or {}).get("read", {}) | read)
    source = open_source(path, "source", read={name: value for name, value in read.items() if (name, value) != ("decimal", "open")})
    if kind == "Excel" and "skip" not in read and (n_titles := source.rows_before_names()):
        read = {**read, "skip": n_titles}
        source = open_source(path, "source", read=read)
    if metadata is not None and len(metadata["columns"]) == len(source.columns):
        return {name: _kind_of_csvw(column, public) for name, column in zip(source.columns, metadata["columns"], strict=True)}, read
    with closing(source.chunks()) as chunks:
        rows = next(chunks, source.head)[:_LOOKED_AT]
    cells = {name: {each.strip() for each in rows[name].to_pylist() if each} - _MISSING if len(rows) else set() for name in source.columns}
    kinds = {name: _kind_of_cells(some, read.get("decimal", ".")) for name, some in cells.items()}
    if kind != "CSV" or "decimal" in read or read.get("separator", default_separator(suffix_of(path))) == ",":
        return kinds, read
    # Where no comma stands between cells, numbers with one leave the decimal mark open.
    other = {name: _kind_of_cells(some, ",") for name, some in cells.items()}
    return (kinds, read) if kinds == other else (other, read | {"decimal": "open"})


def _kind_of_cells(cells: set[str], decimal: str) -> Any:
    if not cells:
        return Nominal("open")
    if {cell.lower() for cell in cells} <= {"true", "false"}:
        return Nominal([False, True])
    flags = tuple(sorted(cells, key=str.lower))
    if flags in _FLAGS:
        return Boolean(words=[int(flag) if flag.isdecimal() else flag for flag in flags])
    if any(len(cell) > 1 and cell.isdecimal() and cell[0] == "0" for cell in cells):  # codes, such as the postcode 01067
        return Nominal("open")
    numbers = _values(float, cells if decimal == "." else [cell.replace(",", ".") for cell in cells])
    if _are_most(numbers, cells):
        return Continuous(bounds="open", integer=len(numbers) == len(_values(int, cells)))
    for kind, read in ((Date, datetime.date.fromisoformat), (DateTime, datetime.datetime.fromisoformat)):
        if _are_most(_values(read, cells), cells):
            return kind(bounds="open")
    times = _values(read_clock, cells)
    if _are_most(times, cells):
        return TimeOfDay(bounds="open" if max(times) >= DAY else None)
    for pattern, form in ((r"\d{4}Q[1-4]", "yyyyQq"), (r"\d{4}-(0[1-9]|1[0-2])", "yyyy-mm")):
        if len(_values(re.compile(pattern).fullmatch, cells)) == len(cells):
            return Date(bounds="open", format=form)
    # Days before months or after them: the form is asked for, never guessed.
    found = _values(_SLASHES.fullmatch, cells)
    if not _are_most(found, cells):
        return Nominal("open")
    return (DateTime if any(each[2] for each in found) else Date)(bounds="open", format="open")


def _are_most(some: Sized, cells: Sized) -> bool:
    """Whether all different cells of a column are some, but for few words, as stand for missing cells."""
    return len(some) == len(cells) or (len(some) >= _FEWEST and len(some) >= _MOST * len(cells))


def _values(read: Callable[[str], Any], cells: Iterable[str]) -> list[Any]:
    found = []
    for cell in cells:
        with suppress(ValueError):
            found.append(read(cell))
    return [each for each in found if each is not None]


def _csvw_beside(path: Path) -> dict[str, Any] | None:
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


def _kind_of_csvw(column: Mapping[str, Any], public: bool) -> Any:
    told = column.get("datatype", "string")
    told = told if isinstance(told, Mapping) else {"base": told}
    base, words = str(told.get("base", "string")), str(told.get("format", ""))
    ends = [told.get("minimum", told.get("minInclusive")), told.get("maximum", told.get("maxInclusive"))]
    ends = list(map(str, ends)) if public and None not in ends else []
    if base == "boolean":
        kind: Any = Nominal(words.split("|") if words else [False, True])
    elif base in _TIMES:
        kind = _make_bounded(_TIMES[base], ends)
    elif base in _NUMBERS or _INTEGERS.fullmatch(base):
        kind = _make_bounded(Continuous, list(map(_scalar, ends)), integer=base not in _NUMBERS)
    else:
        kind = Nominal(words.split("|") if public and _LIST.fullmatch(words) else "open")
    return as_nullable(kind) if column.get("required") is False else kind


def _make_bounded(made: Callable[..., Any], ends: Sequence[Any], **facts: Any) -> Any:
    return made(*ends, **facts) if ends else made(bounds="open", **facts)


def _columns_of_ddi(path: Path, public: bool) -> dict[str, Any]:
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


def _local(element: ElementTree.Element) -> str:
    return str(element.tag).rpartition("}")[2]


def _kind_of_ddi(variable: ElementTree.Element, public: bool) -> Any:
    inside: dict[str, list[Any]] = {}
    for element in variable.iter():
        inside.setdefault(_local(element), []).append(element)
    form, categories, ranges = next(iter(inside.get("varFormat", [])), dict[str, str]()), inside.get("catgry", []), inside.get("range", [])
    gone = [each for each in categories if each.get("missing") in ("Y", "y")]
    levels = [_scalar(cell.text or "") for each in categories if each not in gone for cell in each if _local(cell) == "catValu"]
    ends = [_scalar(ranges[0].get(end) or "") for end in ("min", "max")] if public and ranges else [""]
    if len(levels) > 1 and variable.get("intrvl") != "contin":
        kind: Any = Nominal(list(dict.fromkeys(levels)) if public else "open")
    elif form.get("category") in ("date", "time"):
        kind = Date(bounds="open") if form.get("category") == "date" else Text()
    elif form.get("type") == "character":
        kind = Nominal("open")
    else:
        kind = _make_bounded(Continuous, [] if "" in ends else ends, integer=variable.get("dcml") == "0")
    return as_nullable(kind) if gone else kind
