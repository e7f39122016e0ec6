"""Files, by path, glob, folder or list of paths, read in memory that does not grow with them."""

import codecs
import glob
import os
import re
import string
from abc import abstractmethod
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from contextvars import copy_context
from dataclasses import dataclass, fields
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from skdpsynth._validation import short_repr
from skdpsynth.frames._arrow import rebatch_tables
from skdpsynth.frames._dtypes import pandas_head
from skdpsynth.frames._source import ChunkedSource, short_path, without_cells_in_errors
from skdpsynth.frames._table_kind import TableKind

_OF_FOLDERS = {".parquet": "Parquet", ".pq": "Parquet", ".parq": "Parquet", ".csv": "CSV", ".tsv": "CSV"}  # others may lie there as well
_SUFFIXES = _OF_FOLDERS | dict.fromkeys((".tab", ".txt", ".dat", ".zip"), "CSV") | dict.fromkeys((".sqlite", ".sqlite3", ".db"), "SQLite")
_SUFFIXES |= {".xlsx": "Excel", ".dta": "Stata", ".sav": "SPSS", ".zsav": "SPSS"}
_PACKED = (".gz", ".bz2", ".zst", ".zip")  # of text files
_SEPARATORS = {*string.punctuation, " ", "\t"} - {'"'}
# Encodings in which no cell reaches into the next: of some others a few bytes change how all that follow are read, or hold a line end.
_ENCODINGS = re.compile(
    r"utf-8|ascii|utf-(16|32)(-[lb]e)?|iso8859-\d+|cp\d+|koi8-\w|mac-?\w+|gbk|gb2312|gb18030|big5(hkscs)?|shift_jis|euc_\w+|tis-620"
)
_BUFFER = 2**18  # bytes read at once of a column of a Parquet file: whole columns of a row group would fill the memory


def files_at(path: Any, name: str) -> list[Path]:
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
        return _files_in(file, name) if file.is_dir() else [file]
    found = [Path(match) for match in sorted(glob.glob(str(file), recursive=True)) if os.path.isfile(match)] if glob.has_magic(text) else []
    if not found:
        what = "no file matches" if glob.has_magic(text) else "there is no file"
        raise FileNotFoundError(f"{name} must be a table or the path of one, but {what} {short_path(text)}; correct the path.")
    return found


def _files_in(folder: Path, name: str) -> list[Path]:
    """Return the tables in a folder and those below, without hidden files and those that engines leave beside."""
    inside = sorted(file for file in folder.rglob("*") if not any(part[0] in "._" for part in file.relative_to(folder).parts))
    found = [file for file in inside if suffix_of(file) in _OF_FOLDERS and file.is_file()]
    if not found:
        raise FileNotFoundError(f"{name} must be a folder with Parquet or CSV files, but {short_path(folder)} has none; correct the path.")
    if any("=" in part for file in found for part in file.relative_to(folder).parts[:-1]):
        raise ValueError(
            f"{name} must not be a folder whose names hold a column, such as 'year=2020', got {short_path(folder)}; give "
            "pyarrow.dataset.dataset(path, partitioning='hive'), which reads that column too."
        )
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
    """How files are read: public facts, checked when they are stated."""

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
    def of(cls, read: Any) -> "ReadOptions":
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

    def stated(self) -> dict[str, Any]:
        """Return what differs from the default, with lists in place of tuples."""
        pairs = ((each.name, getattr(self, each.name)) for each in fields(self) if getattr(self, each.name) != each.default)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in pairs}


def default_separator(suffix: str) -> str:
    """Return the character between two cells of a text file, where nobody states another."""
    return "\t" if suffix in (".tsv", ".tab") else ","


def _is_encoding(value: Any) -> bool:
    try:
        return _ENCODINGS.fullmatch(plain_encoding(value)) is not None
    except (LookupError, TypeError, ValueError):
        return False


def plain_encoding(name: str) -> str:
    """Return how Python calls an encoding; a mark at the start of a file makes no other."""
    return codecs.lookup(name).name.removesuffix("-sig")


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _are_words(value: Any) -> bool:
    return isinstance(value, tuple) and value != () and all(map(_is_word, value)) and len(set(value)) == len(value)


_RULES = {
    "separator": (lambda value: isinstance(value, str) and value in _SEPARATORS, 'one character, such as ";", "|" or "\\t"'),
    "decimal": (lambda value: value in (".", ",", "open"), '"." or ","'),
    "thousands": (lambda value: isinstance(value, str) and value in (".", ",", " ", "'"), '".", ",", " " or "\'"'),
    "encoding": (_is_encoding, "a common encoding of text, such as utf-8, cp1252, latin-1 or utf-16"),
    "comment": (lambda value: _is_word(value) and value.isprintable() and '"' not in value, "a sign that begins a line, such as #"),
    "skip": (lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 0, "a whole number of lines"),
    "multiline": (lambda value: isinstance(value, bool), "true or false"),
    "columns": (_are_words, "a list of column names"),
    "sheet": (_is_word, "the name of a sheet"),
    "table": (_is_word, "the name of a table"),
    "labels": (lambda value: value == () or _are_words(value), "a list of column names"),
}


class Files(ChunkedSource):
    """Files with the same columns and dtypes."""

    def __init__(self, name: str, files: list[Path], schema: Any, n_samples: int | None) -> None:
        library, head = "pandas" if find_spec("pandas") is not None else "pyarrow", schema.remove_metadata().empty_table()
        kind = TableKind.of(head, name)
        if library == "pandas":
            fails = f"{name} has a column that pandas cannot hold ({{error}}); drop it."
            head = without_cells_in_errors(lambda: pandas_head(head), fails)
        super().__init__(name, head, kind, library=library, n_samples=n_samples)
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
    """Files whose cells are text, after the names of their columns."""

    is_text = True
    n_damaged = 0  # lines, or records, in all readings so far: as private as the rows

    def __init__(self, name: str, files: list[Path], text: ReadOptions, *, skips_damaged: bool = False) -> None:
        self.name, self._text, self._skips_damaged, self.decimal = name, text, skips_damaged, text.decimal + (text.thousands or "")
        self._whole = self._schema_of(files[0])
        super().__init__(name, files, selected(self._whole, text.columns, name, files[0]), None)

    @abstractmethod
    def _names(self, file: Path) -> list[str]:
        """Return the names of the columns of a file: a public fact."""

    def _schema_of(self, file: Path) -> Any:
        import pyarrow as pa

        return pa.schema([(each, pa.string()) for each in self._names(file)])

    def _match_names(self, file: Path) -> None:
        """Refuse a file with other columns than the first."""
        other = TableKind.of(self._schema_of(file).empty_table(), short_path(file))
        TableKind.of(self._whole.empty_table()).match(other, short_path(file), self.name)

    def damaged_lines(self, most: int) -> list[int]:
        """Return the numbers of the first damaged lines, where lines have numbers."""
        return []


class ParquetFiles(Files):
    """Parquet files, read batch by batch through small buffers: of all their columns, or `columns`, those `wanted` that are there."""

    def __init__(self, name: str, files: list[Path], columns: Any = None, wanted: Any = None) -> None:
        schemas, n_samples = [schema_of_parquet(file, name) for file in files], 0
        if columns is None and wanted is not None:
            columns = [each for each in schemas[0].names if each in wanted] or None
        schemas = [selected(schema, columns, name, file) for schema, file in zip(schemas, files, strict=True)]
        first = TableKind.of(schemas[0].empty_table(), short_path(files[0]))
        for file, schema in zip(files, schemas, strict=True):
            first.match(TableKind.of(schema.empty_table(), short_path(file)), short_path(file), name)
            n_samples += _open_parquet(file, name).metadata.num_rows
        super().__init__(name, files, schemas[0], n_samples)

    def _read(self) -> Iterator[Any]:
        return read_ahead(self._each())

    def _each(self) -> Iterator[Any]:
        for file in self._files:
            with closing(_open_parquet(file, self.name)) as parquet:
                batches = parquet.iter_batches(self._at_once, columns=list(self.kind.columns), use_threads=True)
                yield from rebatch_tables(batches, self.kind.width, _damaged_message(file, self.name), self._at_once)


def selected(schema: Any, columns: Any, name: str, file: Path) -> Any:
    """Return the schema of some columns, in the order of the file; None: of all."""
    import pyarrow as pa

    if columns is None:
        return schema
    if missing := [each for each in columns if each not in schema.names]:
        raise ValueError(f"{name} must have the columns that are named, but {short_path(file)} lacks {missing[0]!r}; correct the name.")
    return pa.schema([field for field in schema if field.name in columns])


def read_ahead(tables: Any) -> Generator[Any, None, None]:
    """Yield from a generator whose next table is read in a thread meanwhile; who stops early waits for that one, and closes it."""
    # What numpy does about floating-point errors is known to a context, not to threads.
    read = partial(copy_context().run, next, tables, None)
    with closing(tables), ThreadPoolExecutor(1) as pool:
        coming = pool.submit(read)
        while (table := coming.result()) is not None:
            coming = pool.submit(read)
            yield table


def _open_parquet(file: Path, name: str) -> Any:
    import pyarrow.parquet as pq

    stamp(file, name)
    return without_cells_in_errors(lambda: pq.ParquetFile(file, buffer_size=_BUFFER, pre_buffer=False), _damaged_message(file, name))


def _damaged_message(file: Path, name: str) -> str:
    return f"{name} must be whole Parquet files, but {short_path(file)} is none, or is damaged ({{error}}); write it again."


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
