"""Skeletons of schemas: names and kinds of columns, by dtypes alone.

A CSV file has no dtypes, so its kinds are guessed from the first 1000 rows: facts about rows, for the holder alone until they are stated as
public.
"""

import csv
import datetime
import io
import os
from collections.abc import Iterable, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from skdpsynth._validation import short_repr
from skdpsynth.domain._dates import Date, DateTime
from skdpsynth.domain._kinds import Continuous, Nominal, Text
from skdpsynth.frames import (
    column_names,
    decimal_of,
    family_of,
    files_at,
    is_pandas,
    numpy_dtype,
    open_source,
    pandas_dtype_name,
    plain_name,
    require_package,
    schema_of_parquet,
    suffix_of,
    time_of,
)

_LOOKED_AT = 1000  # rows of a CSV file
_PARQUET = (".parquet", ".pq", ".parq")
_CSV = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
_ARROW = "[pyarrow]"
_MISSING = {"", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?"}


def skeleton_of(source: Any) -> dict[Any, Any]:
    """Return a kind for each column of a table, a file or a schema of dtypes, with bounds and levels left open."""
    if isinstance(source, str | os.PathLike):
        return _of_file(files_at(source, "source")[0])
    if hasattr(source, "projected_schema"):  # a Scanner of pyarrow, whose columns may be fewer than those of its data set
        return skeleton_of(source.projected_schema)
    if type(source).__module__.split(".")[0] == "pyarrow" and not hasattr(source, "names"):
        source = getattr(source, "schema", source)
    if type(source).__module__.split(".")[0] == "pyarrow":
        # Of a schema; a table and a batch have names as well, and a schema.
        schema = getattr(source, "schema", source)
        return {field.name: _kind_of(f"{field.type}{_ARROW}") for field in _distinct(schema)}
    return {name: _kind_of(dtype) for name, dtype in _dtypes_of(source)}


def _distinct(schema: Any) -> Any:
    if not hasattr(schema, "names"):
        raise TypeError(f"source must be a path, a data frame, a schema of dtypes or an array, got {short_repr(schema)}.")
    if len(set(schema.names)) < len(schema.names):
        raise ValueError("source must have distinct column names, but one occurs twice; rename the columns.")
    return schema


def _dtypes_of(source: Any) -> Iterable[tuple[Any, str]]:
    if isinstance(source, np.ndarray):
        if source.ndim != 2:
            raise ValueError(f"source must be a table of rows and columns, got an array of {source.ndim} dimensions.")
        return [(i, source.dtype.str) for i in range(source.shape[1])]
    if is_pandas(source) or hasattr(source, "__dask_graph__"):
        column_names(source, "source")
        return [(name, _name_of(dtype)) for name, dtype in source.dtypes.items()]
    if isinstance(source, Mapping):
        return [(name, _name_of(dtype)) for name, dtype in source.items()]
    import narwhals.stable.v2 as nw

    frame = nw.from_native(source, pass_through=True)
    if isinstance(frame, nw.DataFrame | nw.LazyFrame):
        return [(name, plain_name(dtype)) for name, dtype in frame.collect_schema().items()]
    opened = None if source is None else open_source(source, "source")
    if opened is None or opened.in_memory:
        raise TypeError(f"source must be a path, a data frame, a schema of dtypes or an array, got {short_repr(source)}.")
    return _dtypes_of(opened.head)


def _name_of(dtype: Any) -> str:
    if isinstance(dtype, np.dtype):
        return dtype.str if dtype.kind in "mMSU" else str(dtype)
    if isinstance(dtype, type) and dtype in (int, float, bool, str, object):
        return dtype.__name__
    if isinstance(dtype, str):
        return dtype
    if type(dtype).__module__.startswith("pandas"):
        return pandas_dtype_name(dtype)
    import narwhals.stable.v2 as nw

    try:
        return plain_name(nw.Schema.from_polars({"": dtype})[""]) if "polars" in type(dtype).__module__ else plain_name(dtype)
    except Exception:
        return plain_name(dtype)


def _kind_of(dtype: str) -> Any:
    """Return the kind that a dtype suggests, with its facts left open."""
    family = family_of(dtype)
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


def _of_file(path: Path) -> dict[Any, Any]:
    suffix = suffix_of(path)
    if suffix in _PARQUET:
        require_package("pyarrow", "source", "a Parquet file")
        return skeleton_of(schema_of_parquet(path, "source"))
    if suffix not in _CSV:
        raise ValueError(f"source must be a file of Parquet or CSV, got {short_repr(path.name)}; read it into a data frame, and give that.")
    return _of_csv(path, _CSV[suffix])


def _open_text(path: Path) -> Any:
    """Open a CSV file as text, a packed one too."""
    if suffix_of(path) == path.suffix.lower():
        return path.open(encoding="utf-8-sig", newline="")
    require_package("pyarrow", "source", "a packed file")
    import pyarrow as pa

    return io.TextIOWrapper(pa.input_stream(str(path)), encoding="utf-8-sig", newline="")


def _of_csv(path: Path, separator: str) -> dict[Any, Any]:
    """Read the header, and guess from the first rows whether a column has numbers, times or words; no cell is kept."""
    try:
        with _open_text(path) as file:
            first = file.readline()
            if separator not in first:
                separator = max(",;\t|", key=first.count)
            rows = csv.reader(chain([first], file), delimiter=separator)
            names = next(rows, [])
            looked_at = [row for row in islice(rows, _LOOKED_AT) if len(row) == len(names)]
    except (UnicodeDecodeError, csv.Error):
        raise ValueError(f"source must be a CSV file in UTF-8, but {short_repr(path.name)} is none; save it again as one.") from None
    if not names or len(set(names)) < len(names):
        raise ValueError(f"source must begin with a line of distinct column names, but that of {short_repr(path.name)} is none; write it.")
    cells = ({row[i].strip() for row in looked_at} - _MISSING for i in range(len(names)))
    return {name: _kind_of_cells(some) for name, some in zip(names, cells, strict=True)}


def _kind_of_cells(cells: set[str]) -> Any:
    if not cells:
        return Nominal("open")
    if {cell.lower() for cell in cells} <= {"true", "false"}:
        return Nominal([False, True])
    if any(len(cell) > 1 and cell.isdecimal() and cell[0] == "0" for cell in cells):  # codes, such as the postcode 01067
        return Nominal("open")
    if all(_reads(int, cell) for cell in cells):
        return Continuous(bounds="open", integer=True)
    if all(_reads(float, cell) for cell in cells):
        return Continuous(bounds="open")
    if all(_reads(datetime.date.fromisoformat, cell) for cell in cells):
        return Date(bounds="open")
    return DateTime(bounds="open") if all(_reads(datetime.datetime.fromisoformat, cell) for cell in cells) else Nominal("open")


def _reads(read: Any, cell: str) -> bool:
    try:
        read(cell)
    except ValueError:
        return False
    return True
