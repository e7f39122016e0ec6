"""Synthetic tables, written to a file a batch at a time."""

import gzip
import os
from collections.abc import Collection, Iterable
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from skdpsynth._atomic_write import atomic_write, output_path
from skdpsynth._validation import short_repr
from skdpsynth.frames._table_kind import is_pandas

_SUFFIXES = (".parquet", ".csv", ".tsv", ".csv.gz", ".tsv.gz")
_WANTED = f"None or a path that ends in {', '.join(_SUFFIXES[:-1])} or {_SUFFIXES[-1]}"


def check_output_path(path: Any, name: str = "out") -> Path:
    """Return where a table shall be written, or refuse it, before anything is drawn; messages call it `name`."""
    place = output_path(path, name, _WANTED)
    if output_suffix(path) not in _SUFFIXES:
        raise ValueError(f"{name} must be {_WANTED}, got {short_repr(os.fspath(path))}.")
    if find_spec("pyarrow") is None:
        raise ImportError(f"{name} needs pyarrow, which writes files; install it: pip install pyarrow.")
    return place


def output_suffix(path: Any) -> str:
    """Return the suffix that tells how a table is written, in small letters, with that of its packing."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes[-2:]]
    return "".join(suffixes if suffixes[-1:] == [".gz"] else suffixes[-1:])


def write_table(path: Path, specimen: Any, tables: Iterable[Any], suffix: str, dates: Collection[str] = ()) -> None:
    """Write tables of one kind below each other; the file is complete, or as it was before.

    Dtypes in the file follow from `specimen`, a table of the kind of the others with all levels that they may hold. `dates` are columns
    whose times are written as dates in text.
    """
    whole = _arrow(specimen).schema
    with atomic_write(path) as file:
        if suffix == ".parquet":
            from pyarrow.parquet import ParquetWriter

            with ParquetWriter(file, whole) as writer:
                for table in tables:
                    rows = _arrow(table, whole)
                    writer.write_table(rows, row_group_size=max(1, rows.num_rows))
            return
        from pyarrow.csv import CSVWriter, WriteOptions

        schema, options = _decoded_schema(whole, dates), WriteOptions(delimiter="\t" if suffix.startswith(".tsv") else ",")
        # Without a name and a time, so that equal samples give equal files.
        packed: Any = gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=file, mtime=0) if suffix.endswith(".gz") else None
        with packed or nullcontext(file) as place, CSVWriter(place, schema, write_options=options) as writer:
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
