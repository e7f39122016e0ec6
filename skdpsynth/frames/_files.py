"""Files, by path, glob, folder or list of paths, read and written in memory that does not grow with them."""

import codecs
import glob
import gzip
import os
import re
import string
from abc import abstractmethod
from collections.abc import Collection, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from contextvars import copy_context
from dataclasses import dataclass, fields
from functools import partial
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from skdpsynth._atomic_write import atomic_write, output_path
from skdpsynth._validation import short_repr
from skdpsynth.frames._dtypes import ArrowSchema, Table, pandas_head
from skdpsynth.frames._source import ChunkedSource, rebatch_tables, short_path
from skdpsynth.frames._table_kind import TableKind, is_pandas, without_cells_in_errors

_OF_FOLDERS = {".parquet": "Parquet", ".pq": "Parquet", ".parq": "Parquet", ".csv": "CSV", ".tsv": "CSV"}  # others may lie there as well
_SUFFIXES = _OF_FOLDERS | dict.fromkeys((".tab", ".txt", ".dat", ".zip"), "CSV") | dict.fromkeys((".sqlite", ".sqlite3", ".db"), "SQLite")
_SUFFIXES |= {".xlsx": "Excel", ".dta": "Stata", ".sav": "SPSS", ".zsav": "SPSS"}
_PACKED = (".gz", ".bz2", ".zst", ".zip")  # of text files
_SEPARATORS = {*string.punctuation, " ", "\t"} - {'"'}
# Encodings in which no cell reaches into the next: of some others a few bytes change how all that follow are read, or hold a line end.
_ENCODINGS = re.compile(
    r"utf-8|ascii|utf-(16|32)(-[lb]e)?|iso8859-\d+|cp\d+|koi8-\w|mac-?\w+|gbk|gb2312|gb18030|big5(hkscs)?|shift_jis|euc_\w+|tis-620"
)
PARQUET_BUFFER = 2**18  # bytes read at once of a column of a Parquet file: whole columns of a row group would fill the memory
_WRITTEN = (".parquet", ".csv", ".tsv", ".csv.gz", ".tsv.gz")
_WANTED = f"None or a path that ends in {', '.join(_WRITTEN[:-1])} or {_WRITTEN[-1]}"


def files_at(path: str | PathLike[str], name: str) -> list[Path]:
    """Return the files that a path, glob or folder stands for: as they are sorted by name."""
    text = os.fspath(path)
    if isinstance(text, bytes):
        raise TypeError(f"{name} must be a path in text, got bytes; decode it, or give a pathlib.Path.")
    if "://" in text:
        raise ValueError(
            f"{name} must be a path on this machine, got {short_path(text)}; give pyarrow.dataset.dataset(...), which reads from elsewhere."
        )
    file = Path(text).expanduser()
    wrong = f"{name} must be a path, but {short_path(text)} can be none ({{error}}); correct it."
    if text and without_cells_in_errors(file.exists, wrong):
        if not file.is_dir():
            return [file]
        # The tables in a folder and those below, without hidden files and those that engines leave beside.
        inside = sorted(each for each in file.rglob("*") if not any(part[0] in "._" for part in each.relative_to(file).parts))
        found = [each for each in inside if suffix_of(each) in _OF_FOLDERS and each.is_file()]
        if not found:
            raise FileNotFoundError(
                f"{name} must be a folder with Parquet or CSV files, but {short_path(file)} has none; correct the path."
            )
        if any("=" in part for each in found for part in each.relative_to(file).parts[:-1]):
            raise ValueError(
                f"{name} must not be a folder whose names hold a column, such as 'year=2020', got {short_path(file)}; give "
                "pyarrow.dataset.dataset(path, partitioning='hive'), which reads that column too."
            )
        return found
    found = [Path(match) for match in sorted(glob.glob(str(file), recursive=True)) if os.path.isfile(match)] if glob.has_magic(text) else []
    if not found:
        what = "no file matches" if glob.has_magic(text) else "there is no file"
        raise FileNotFoundError(f"{name} must be a table or the path of one, but {what} {short_path(text)}; correct the path.")
    return found


def suffix_of(file: Path) -> str:
    """Return the suffix that tells what is in a file, in small letters and without that of its packing."""
    suffixes = [suffix.lower() for suffix in file.suffixes[-2:]]
    packed = len(suffixes) > 1 and suffixes[-1] in _PACKED and _SUFFIXES.get(suffixes[-2]) == "CSV"
    return suffixes[-2] if packed else suffixes[-1] if suffixes else ""


def kind_of_file(file: Path, name: str) -> str:
    kind = _SUFFIXES.get(suffix_of(file))
    if kind is None:
        raise ValueError(
            f"{name} must be a table in a file, by its suffix one of {', '.join(_SUFFIXES)}, got {short_path(file)}; convert or read it "
            "first."
        )
    return kind


@dataclass(frozen=True)
class ReadOptions:
    """Options of reading files: public facts, checked when they are stated."""

    separator: str | None = None  # None: a tab in .tsv and .tab files, else a comma
    decimal: str = "."  # mark of decimals; "open" in a skeleton
    thousands: str | None = None  # mark between groups of digits
    encoding: str = "utf-8"
    comment: str | None = None  # lines that begin with it are no records
    skip: int = 0  # lines before the one that names the columns
    multiline: bool = False  # cells in quotes may hold line breaks
    columns: tuple[str, ...] | None = None  # which are read; None: all
    sheet: str | None = None  # None: the first
    table: str | None = None  # None: the only one
    labels: tuple[str, ...] = ()  # columns of Stata or SPSS files whose value labels stand in place of their codes

    @classmethod
    def of(cls, read: Mapping[str, Any] | None) -> "ReadOptions":
        """Return the options that a dict states, or refuse it in one sentence."""
        names = [each.name for each in fields(cls)]
        if not isinstance(read, Mapping | None):
            raise ValueError(f"read must be a dict of {', '.join(names)}, got {short_repr(read)}; see Schema.")
        if unknown := [name for name in read or () if name not in names]:
            raise ValueError(f"read must have keys among {', '.join(names)}, got {short_repr(unknown[0])}; correct it.")
        given: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in (read or {}).items() if value is not None
        }
        for name, value in given.items():
            fits, rule = _RULES[name]
            if not fits(value):
                raise ValueError(f"{name} in read must be {rule}, got {short_repr(value)}; correct it.")
        if given.get("thousands", "") == given.get("decimal", "."):
            raise ValueError(f"thousands in read must differ from decimal, got {short_repr(given['thousands'])} for both; correct one.")
        return cls(**given)

    def to_dict(self) -> dict[str, Any]:
        """Return what differs from the default, with lists in place of tuples."""
        pairs = ((each.name, getattr(self, each.name)) for each in fields(self) if getattr(self, each.name) != each.default)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in pairs}


def default_separator(suffix: str) -> str:
    return "\t" if suffix in (".tsv", ".tab") else ","


def _is_encoding(value: object) -> bool:
    try:
        return isinstance(value, str) and _ENCODINGS.fullmatch(plain_encoding(value)) is not None
    except (LookupError, ValueError):
        return False


def plain_encoding(name: str) -> str:
    """Return how Python calls an encoding; a mark at the start of a file makes no other."""
    return codecs.lookup(name).name.removesuffix("-sig")


def _are_words(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(each, str) and each != "" for each in value) and len(set(value)) == len(value) > 0


_RULES = {
    "separator": (lambda value: isinstance(value, str) and value in _SEPARATORS, 'one character, such as ";", "|" or "\\t"'),
    "decimal": (lambda value: value in (".", ",", "open"), '"." or ","'),
    "thousands": (lambda value: isinstance(value, str) and value in (".", ",", " ", "'"), '".", ",", " " or "\'"'),
    "encoding": (_is_encoding, "a common encoding of text, such as utf-8, cp1252, latin-1 or utf-16"),
    "comment": (lambda value: _are_words((value,)) and value.isprintable() and '"' not in value, "a sign that begins a line, such as #"),
    "skip": (lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 0, "a whole number of lines"),
    "multiline": (lambda value: isinstance(value, bool), "true or false"),
    "columns": (_are_words, "a list of column names"),
    "sheet": (lambda value: _are_words((value,)), "the name of a sheet"),
    "table": (lambda value: _are_words((value,)), "the name of a table"),
    "labels": (lambda value: value == () or _are_words(value), "a list of column names"),
}


class Files(ChunkedSource):
    def __init__(self, name: str, files: list[Path], schema: ArrowSchema, n_samples: int | None) -> None:
        library, head = "pandas" if find_spec("pandas") is not None else "pyarrow", schema.remove_metadata().empty_table()
        kind = TableKind.of(head, name)
        if library == "pandas":
            fails = f"{name} has a column that pandas cannot hold ({{error}}); drop it."
            head = without_cells_in_errors(lambda: pandas_head(head), fails)
        super().__init__(name, head, kind=kind, library=library, n_samples=n_samples)
        self._files = files
        self._stamps = {file: stamp(file, name) for file in files}

    def check_unchanged(self) -> None:
        """Raise OSError if a file is gone, or is not the one that was opened."""
        for file in self._files:
            if stamp(file, self.name) != self._stamps[file]:
                raise OSError(
                    f"{self.name} must not change while it is read, but {short_path(file)} was written to; wait until it is done."
                )


class TextFiles(Files):
    is_text = True
    n_damaged = 0  # lines, or records, in all readings so far: as private as the rows

    def __init__(self, name: str, files: list[Path], text: ReadOptions, *, skips_damaged: bool = False) -> None:
        self.name, self._text, self._skips_damaged, self.decimal = name, text, skips_damaged, text.decimal + (text.thousands or "")
        self._whole = self._schema_of(files[0])
        super().__init__(name, files, select_columns(self._whole, text.columns, name, files[0]), None)

    @abstractmethod
    def _names(self, file: Path) -> list[str]:
        """Return the names of the columns of a file: a public fact."""

    def _schema_of(self, file: Path) -> Any:
        import pyarrow as pa

        return pa.schema([(each, pa.string()) for each in self._names(file)])

    def _text_tables(self, rows: list[list[str] | None], names: Sequence[str]) -> Iterator[Any]:
        """Yield rows of text as a table, if any are left; None, which is damaged, is a row of empty cells, or left out."""
        import pyarrow as pa

        self.n_damaged += rows.count(None)
        damaged = [] if self._skips_damaged else [[""] * len(names)]
        if kept := [row for cells in rows for row in (damaged if cells is None else [cells])]:
            yield pa.table([pa.array(column, pa.string()) for column in zip(*kept, strict=True)], names=list(names))

    def _match_names(self, file: Path) -> None:
        TableKind.of(self._whole.empty_table()).check(self._schema_of(file).empty_table(), short_path(file), self.name)


class ParquetFiles(Files):
    """Parquet files, read batch by batch through small buffers: of all their columns, or `columns`, those `wanted` that are there."""

    def __init__(
        self, name: str, files: list[Path], columns: Sequence[Hashable] | None = None, wanted: Sequence[Hashable] | None = None
    ) -> None:
        schemas, n_samples = [schema_of_parquet(file, name) for file in files], 0
        if columns is None and wanted is not None:
            columns = [each for each in schemas[0].names if each in wanted] or None
        schemas = [select_columns(schema, columns, name, file) for schema, file in zip(schemas, files, strict=True)]
        first = TableKind.of(schemas[0].empty_table(), short_path(files[0]))
        for file, schema in zip(files, schemas, strict=True):
            first.check(schema.empty_table(), short_path(file), name)
            n_samples += _open_parquet(file, name).metadata.num_rows
        super().__init__(name, files, schemas[0], n_samples)

    def _read_tables(self) -> Iterator[Any]:
        return read_ahead(self._each())

    def _each(self) -> Iterator[Any]:
        for file in self._files:
            with closing(_open_parquet(file, self.name)) as parquet:
                batches = parquet.iter_batches(self._at_once, columns=list(self.kind.columns), use_threads=True)
                fails = _PARQUET_FAILS.replace("{name}", self.name).replace("{file}", short_path(file))
                yield from rebatch_tables(batches, self.kind.width, fails, self._at_once)


def select_columns(schema: ArrowSchema, columns: Sequence[Hashable] | None, name: str, file: Path) -> Any:
    """Return the schema of some columns, in the order of the file; None: of all."""
    import pyarrow as pa

    if columns is None:
        return schema
    if missing := [each for each in columns if each not in schema.names]:
        raise ValueError(f"{name} must have the columns that are named, but {short_path(file)} lacks {missing[0]!r}; correct the name.")
    return pa.schema([field for field in schema if field.name in columns])


def read_ahead(tables: Any) -> Generator[Any, None, None]:
    """Yield from a generator whose next table is read in a thread meanwhile; who stops early waits for that one, and closes it."""
    # The handling of floating-point errors by numpy belongs to a context, not to threads.
    read = partial(copy_context().run, next, tables, None)
    with closing(tables), ThreadPoolExecutor(1) as pool:
        coming = pool.submit(read)
        while (table := coming.result()) is not None:
            coming = pool.submit(read)
            yield table


_PARQUET_FAILS = "{name} must be whole Parquet files, but {file} is none, or is damaged ({error}); write it again."


def _open_parquet(file: Path, name: str) -> Any:
    import pyarrow.parquet as pq

    stamp(file, name)
    fails = _PARQUET_FAILS.replace("{name}", name).replace("{file}", short_path(file))
    return without_cells_in_errors(lambda: pq.ParquetFile(file, buffer_size=PARQUET_BUFFER, pre_buffer=False), fails)


def schema_of_parquet(file: Path, name: str) -> Any:
    """Return the schema of a file, without what pandas kept as the index of its rows."""
    with closing(_open_parquet(file, name)) as parquet:
        schema = parquet.schema_arrow
    index = {column for column in (schema.pandas_metadata or {}).get("index_columns", ()) if isinstance(column, str)}
    for column in index & set(schema.names):
        schema = schema.remove(schema.get_field_index(column))
    return schema


def stamp(file: Path, name: str) -> tuple[int, int]:
    """Return what tells whether a file was written to."""
    gone = f"{name} must be files that can be read, but {short_path(file)} is gone or closed to you ({{error}}); restore it."
    status = without_cells_in_errors(file.stat, gone)
    return status.st_size, status.st_mtime_ns


# Synthetic tables, written a batch at a time


def check_output_path(path: str | PathLike[str], name: str = "out") -> Path:
    """Return where a table shall be written, or refuse it, before anything is drawn; messages call it `name`."""
    place = output_path(path, name, _WANTED)
    if output_suffix(path) not in _WRITTEN:
        raise ValueError(f"{name} must be {_WANTED}, got {short_repr(os.fspath(path))}.")
    if find_spec("pyarrow") is None:
        raise ImportError(f"{name} needs pyarrow, which writes files; install it: pip install pyarrow.")
    return place


def output_suffix(path: str | PathLike[str]) -> str:
    """Return the suffix that tells how a table is written, in small letters, with that of its packing."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes[-2:]]
    return "".join(suffixes if suffixes[-1:] == [".gz"] else suffixes[-1:])


def write_table(path: Path, specimen: Table, tables: Iterable[Any], suffix: str, dates: Collection[str] = ()) -> None:
    """Write tables of one kind below each other; the file is complete, or as it was before.

    Dtypes in the file follow from `specimen`, a table of the kind of the others with all levels that they may hold. `dates` are columns
    whose times are written as dates in text.
    """
    import pyarrow as pa

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

        # The types of a CSV file: categories as their values, half floats as floats, dates without a time.
        schema, options = whole, WriteOptions(delimiter="\t" if suffix.startswith(".tsv") else ",")
        for i, field in enumerate(whole):
            if pa.types.is_dictionary(field.type):
                schema = schema.set(i, field.with_type(field.type.value_type))
            elif pa.types.is_float16(field.type):
                schema = schema.set(i, field.with_type(pa.float32()))
            elif field.name in dates and pa.types.is_timestamp(field.type):
                schema = schema.set(i, field.with_type(pa.date32()))
        # Without a name and a time, so that equal samples give equal files.
        packed: Any = gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=file, mtime=0) if suffix.endswith(".gz") else None
        with packed or nullcontext(file) as place, CSVWriter(place, schema, write_options=options) as writer:
            for table in tables:
                writer.write_table(_arrow(table, whole).cast(schema))


def _arrow(table: Table, schema: ArrowSchema = None) -> Any:
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
