"""Synthetic tables, written to a file a batch at a time."""

import datetime
import gzip
import os
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from skdpsynth._atomic_write import atomic_write, output_path
from skdpsynth._validation import short_repr
from skdpsynth.frames._table_kind import is_pandas

_Writer = Callable[[Any, Any, Iterable[Any], Collection[str]], None]
_SUFFIXES = ".parquet, .csv, .tsv, .csv.gz or .tsv.gz"


def check_output_path(path: Any, name: str = "out") -> Path:
    """Return where a table shall be written, or refuse it, before anything is drawn.

    Parameters
    ----------
    path : str or path-like
    name : str, default="out"
        Of the parameter, for messages.
    """
    place = output_path(path, name, f"None or a path that ends in {_SUFFIXES}")
    suffix = output_suffix(path)
    if suffix not in _WRITERS:
        raise ValueError(f"{name} must be None or a path that ends in {_SUFFIXES}, got {short_repr(os.fspath(path))}.")
    if suffix == ".parquet" and not _has_arrow():
        raise ImportError(f"{name} needs pyarrow for a .parquet file; install it (pip install pyarrow), or write a .csv file.")
    return place


def output_suffix(path: Any) -> str:
    """Return the suffix that tells how a table is written, in small letters, with that of its packing."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes[-2:]]
    return "".join(suffixes if suffixes[-1:] == [".gz"] else suffixes[-1:])


def write_table(path: Path, specimen: Any, tables: Iterable[Any], suffix: str, dates: Collection[str] = ()) -> None:
    """Write tables of one kind below each other; the file is complete, or as it was before.

    Parameters
    ----------
    path : Path
        From `check_output_path`.
    specimen : table
        Of the kind of the others, with all levels that they may hold: dtypes in the file follow from it.
    tables : iterable of tables
    suffix : str
        From `output_suffix`.
    dates : collection of str, default=()
        Names of columns whose times are written as dates in text.
    """
    with atomic_write(path) as file:
        _WRITERS[suffix](file, specimen, tables, dates)


def _has_arrow() -> bool:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return False
    return True


def _write_parquet(file: Any, specimen: Any, tables: Iterable[Any], dates: Collection[str]) -> None:
    import pyarrow.parquet as pq

    schema = _arrow(specimen).schema
    with pq.ParquetWriter(file, schema) as writer:
        for table in tables:
            rows = _arrow(table, schema)
            writer.write_table(rows, row_group_size=max(1, rows.num_rows))


def _write_csv(file: Any, specimen: Any, tables: Iterable[Any], dates: Collection[str], between: str = ",") -> None:
    (_write_csv_by_arrow if _has_arrow() else _write_csv_by_rows)(file, specimen, tables, dates, between)


def _write_tsv(file: Any, specimen: Any, tables: Iterable[Any], dates: Collection[str]) -> None:
    _write_csv(file, specimen, tables, dates, "\t")


def _gzipped(write: _Writer) -> _Writer:
    def write_packed(file: Any, specimen: Any, tables: Iterable[Any], dates: Collection[str]) -> None:
        # Without a name and a time, so that equal samples give equal files.
        with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=file, mtime=0) as packed:
            write(packed, specimen, tables, dates)

    return write_packed


def _write_csv_by_arrow(file: Any, specimen: Any, tables: Iterable[Any], dates: Collection[str], between: str) -> None:
    from pyarrow import csv as arrow_csv

    whole = _arrow(specimen).schema
    schema = _decoded_schema(whole, dates)
    with arrow_csv.CSVWriter(file, schema, write_options=arrow_csv.WriteOptions(delimiter=between)) as writer:
        for table in tables:
            writer.write_table(_arrow(table, whole).cast(schema))


def _decoded_schema(schema: Any, dates: Collection[str]) -> Any:
    """Return the types of a table as a CSV file has them: categories as their values, half floats as floats, dates without a time."""
    import pyarrow as pa

    for i, field in enumerate(schema):
        if pa.types.is_dictionary(field.type):
            schema = schema.set(i, field.with_type(field.type.value_type))
        elif pa.types.is_float16(field.type):
            schema = schema.set(i, field.with_type(pa.float32()))
        elif field.name in dates and pa.types.is_timestamp(field.type):
            schema = schema.set(i, field.with_type(pa.date32()))
    return schema


def _write_csv_by_rows(file: Any, specimen: Any, tables: Iterable[Any], dates: Collection[str], between: str) -> None:
    """Write what pyarrow would, cell by cell: slow, but it needs nothing."""
    file.write(f"{between.join(_cell(name) for name, _ in _columns(specimen))}\n".encode())
    for table in tables:
        rows = zip(*(map(_day if name in dates else _cell, column) for name, column in _columns(table)), strict=True)
        file.write("".join(f"{between.join(row)}\n" for row in rows).encode())


def _day(cell: Any) -> str:
    return _cell(cell.date() if isinstance(cell, datetime.datetime) and cell == cell else cell)


def _cell(cell: Any) -> str:
    """Return a cell as it stands in a CSV file."""
    if isinstance(cell, str):
        return '"' + cell.replace('"', '""') + '"'
    if isinstance(cell, bool | np.bool_):
        return "true" if cell else "false"
    is_missing = cell is None or str(cell) in ("nan", "NaT", "<NA>")
    return "" if is_missing else str(cell)


def _columns(table: Any) -> list[tuple[str, list]]:
    """Return the columns of a table with their names, cells as Python has them."""
    if isinstance(table, np.ndarray):
        return [(f"x{j}", column.tolist()) for j, column in enumerate(table.T)]
    if is_pandas(table):
        return [(str(name), table.iloc[:, j].astype(object).tolist()) for j, name in enumerate(table.columns)]
    import narwhals.stable.v2 as nw

    frame = nw.from_native(table, eager_only=True)
    return [(name, frame[name].to_list()) for name in frame.columns]


def _arrow(table: Any, schema: Any = None) -> Any:
    """Return a table as one of Arrow, with the types of `schema`."""
    import pyarrow as pa

    if isinstance(table, np.ndarray):
        types = [None] * table.shape[1] if schema is None else schema.types
        columns = [pa.array(np.ascontiguousarray(column), kind, from_pandas=True) for column, kind in zip(table.T, types, strict=True)]
        return pa.table(columns, names=[f"x{j}" for j in range(len(columns))])
    if is_pandas(table):
        found = pa.Table.from_pandas(table, schema=schema, preserve_index=False)
    else:
        import narwhals.stable.v2 as nw

        found = nw.from_native(table, eager_only=True).to_arrow()
    return found if schema is None or found.schema.equals(schema) else found.cast(schema)


_WRITERS: dict[str, _Writer] = {
    ".parquet": _write_parquet,
    ".csv": _write_csv,
    ".tsv": _write_tsv,
    ".csv.gz": _gzipped(_write_csv),
    ".tsv.gz": _gzipped(_write_tsv),
}
