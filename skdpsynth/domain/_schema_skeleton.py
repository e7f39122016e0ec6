"""Skeletons of schemas: names and kinds of columns, by dtypes alone.

Text files, sheets and SQLite have no dtypes, so their kinds are guessed from the first 1000 rows: facts about rows, for the holder alone
until they are stated as public.
"""

import datetime
import os
import re
from collections.abc import Iterable, Mapping, Sized
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np

from skdpsynth.domain._dates import Date, DateTime, Duration, TimeOfDay
from skdpsynth.domain._kinds import Boolean, Continuous, Identifier, Nominal, Text
from skdpsynth.domain._schema_importers import columns_of_ddi, csvw_beside, is_key_name, kind_of_csvw, kind_of_dtype
from skdpsynth.domain._time_formats import DAY, read_clock
from skdpsynth.frames import (
    MISSING_WORDS,
    ReadOptions,
    TableKind,
    decimal_of,
    declared_columns,
    default_separator,
    detect_options,
    family_of,
    files_at,
    kind_of_file,
    numpy_dtype,
    open_source,
    pandas_dtype_name,
    plain_name,
    require_package,
    schema_of_parquet,
    suffix_of,
    time_of,
)

_Skeleton = tuple[dict[Any, Any], dict[str, Any]]  # kinds by column, and how the file is read
_LOOKED_AT = 1000  # rows of a file whose columns have no dtypes
_FEWEST, _MOST = 5, 0.8  # different cells that tell a kind beside others, and their share
_FLAGS = {tuple(map(case, pair)) for pair in ("01", "ny", "ft", ("no", "yes")) for case in (str.lower, str.title, str.upper)}
_SLASHES = re.compile(r"\d{1,2}([-/.])\d{1,2}\1(?:\d{4}|\d\d)( \d{1,2}:\d\d(?::\d\d)?)?")
_MISSING = {*MISSING_WORDS, "None", "?"}


def skeleton_of(source: Any, public: bool = False, read: Any = None) -> _Skeleton:
    """Return a kind for each column of a table, a file or a schema of dtypes, with bounds and levels left open, and how the file is read.

    `public`: whether value labels, categories, and bounds in metadata are public facts, which are then stated.
    """
    read = ReadOptions.of(read).stated()
    is_path = isinstance(source, str | os.PathLike)
    columns, read = _of_file(files_at(source, "source")[0], public, read) if is_path else (_of_table(source, public), read)
    return {name: _as_identifier(name, kind) for name, kind in columns.items() if name in read.get("columns", columns)}, read


def _as_identifier(name: Any, kind: Any) -> Any:
    """Return an identifier in place of words or numbers in a column that is called so."""
    return Identifier() if kind.unstated == "open" and isinstance(kind, Nominal | Continuous) and is_key_name(name) else kind


def _of_table(source: Any, public: bool) -> dict[Any, Any]:
    if isinstance(source, Mapping):
        dtypes: Mapping[Any, Any] = source
        kinds = {name: _kind_of(_name_of(dtype)) for name, dtype in source.items()}
    else:
        head = open_source(source.empty_table() if hasattr(source, "empty_table") else source, "source").head
        table = TableKind.of(head, "source")
        kinds = dict(zip(table.columns, map(_kind_of, table.dtypes), strict=True))
        dtypes = _dtypes_of(head, table.names or ())
    declared = {name: _declared_levels(dtype) for name, dtype in dtypes.items()} if public else {}
    return kinds | {name: kind for name, kind in declared.items() if kind is not None}


def _dtypes_of(head: Any, names: Iterable[Any]) -> dict[Any, Any]:
    """Return the dtypes of a data frame, as its library has them; of a table of Arrow an array for each, which knows its dictionary."""
    if hasattr(head, "column_names"):
        return {name: next(iter(getattr(head[name], "chunks", [head[name]])), None) for name in names}
    return {name: head[name].dtype for name in names}


def _declared_levels(dtype: Any) -> Any:
    """Return the kind that declared categories make, None of other dtypes."""
    levels: Any = dtype.dictionary.to_pylist() if hasattr(dtype, "dictionary") else getattr(dtype, "categories", None)
    if not hasattr(levels, "__len__") or len(levels) < 2:
        return None
    return Nominal(levels) if hasattr(dtype, "dictionary") else kind_of_dtype(dtype)


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
    """Return the kind that a dtype suggests, with its facts left open."""
    family = family_of(dtype)
    if family in ("time of day", "duration"):
        return TimeOfDay() if family == "time of day" else Duration(bounds="open")
    if family == "time":
        return Date(bounds="open") if (time_of(dtype) or "?")[0] == "D" else DateTime(bounds="open")
    if family == "number":
        if dtype.startswith("category"):
            return Nominal("open")
        if decimal := decimal_of(dtype):
            return Continuous(bounds="open", integer=not decimal[1], decimals=decimal[1] or None)
        plain = numpy_dtype(dtype)
        return Nominal([False, True]) if plain.kind == "b" else Continuous(bounds="open", integer=plain.kind in "iu")
    if family in ("text", "any") or dtype.startswith(("dictionary", "category")):
        return Nominal("open")
    return Text()


def _of_file(path: Path, public: bool, read: dict[str, Any]) -> _Skeleton:
    if path.suffix.lower() == ".xml":
        return columns_of_ddi(path, public), read
    kind = kind_of_file(path, "source")
    if kind in ("Stata", "SPSS"):
        declared = declared_columns(path, "source")
        labels = {name: list(dict.fromkeys(each.labels.values())) for name, each in declared.items() if public}
        levels = {name: Nominal(words) for name, words in labels.items() if len(words) > 1}
        kinds = {name: levels.get(name) or _kind_of_declared(each) for name, each in declared.items()}
        return kinds, read | ({"labels": list(levels)} if levels else {})
    require_package("pyarrow", "source", f"a {kind} file")
    if kind == "Parquet":
        return _of_table(schema_of_parquet(path, "source").empty_table(), public), read
    metadata = csvw_beside(path) if kind == "CSV" else None
    if kind == "CSV":
        read = detect_options(path, (metadata or {}).get("read", {}) | read)
    source = open_source(path, "source", read={name: value for name, value in read.items() if (name, value) != ("decimal", "open")})
    if kind == "Excel" and "skip" not in read and (n_titles := source.rows_before_names()):
        read = {**read, "skip": n_titles}
        source = open_source(path, "source", read=read)
    if metadata is not None and len(metadata["columns"]) == len(source.columns):
        return {name: kind_of_csvw(column, public) for name, column in zip(source.columns, metadata["columns"], strict=True)}, read
    with closing(source.chunks()) as chunks:
        rows = next(chunks, source.head)[:_LOOKED_AT]
    cells = {name: {each.strip() for each in rows[name].to_pylist() if each} - _MISSING if len(rows) else set() for name in source.columns}
    kinds = {name: _kind_of_cells(some, read.get("decimal", ".")) for name, some in cells.items()}
    if kind != "CSV" or "decimal" in read or read.get("separator", default_separator(suffix_of(path))) == ",":
        return kinds, read
    # Where no comma stands between cells, numbers with one leave the decimal mark open.
    other = {name: _kind_of_cells(some, ",") for name, some in cells.items()}
    return (kinds, read) if kinds == other else (other, read | {"decimal": "open"})


def _kind_of_declared(declared: Any) -> Any:
    if declared.unit is not None:
        return Date(bounds="open") if declared.unit in "DM" else DateTime(bounds="open")
    return Nominal("open") if declared.dtype is None or declared.labels else Continuous(bounds="open", integer=declared.is_whole)


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


def _values(read: Any, cells: Iterable[str]) -> list[Any]:
    """Return what can be read of cells."""
    found = []
    for cell in cells:
        with suppress(ValueError):
            found.append(read(cell))
    return [each for each in found if each is not None]
