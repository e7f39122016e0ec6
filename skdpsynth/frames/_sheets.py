"""Files whose cells have types of their own: Excel, SQLite, Stata and SPSS.

Each cell of a sheet or database is read as text, by itself. A number is its shortest text, without ``.0`` where it is whole; dates and
times are in ISO form, and spans of time hours:minutes:seconds. Anything else is an empty cell. Columns of Stata and SPSS have
declared types and value labels.
"""

import codecs
import datetime
import mmap
import sqlite3
import struct
import warnings
from abc import abstractmethod
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element

import numpy as np

from skdpsynth.frames._csv import is_unicode
from skdpsynth.frames._dtypes import Cell, Column
from skdpsynth.frames._files import Files, ReadOptions, TextFiles, select_columns, suffix_of
from skdpsynth.frames._source import each_without_cells_in_errors, require_package, short_path
from skdpsynth.frames._table_kind import can_decode, without_cells_in_errors

_AT_ONCE = 2**14  # rows that make a table
_SPSS_UNITS = dict.fromkeys(("DATE", "ADATE", "EDATE", "SDATE", "JDATE"), "D") | dict.fromkeys(("DATETIME", "YMDHMS"), "s")
_STATA_UNITS = {"%tc": "ms", "%tC": "ms", "%td": "D", "%d": "D", "%tm": "M"}  # by the first letters of formats
_DTYPES = {"int8": "i1", "int16": "i2", "int32": "i4", "float": "f4", "double": "f8"}
_FAILS = "{name} must be a whole file of Stata or SPSS, but {file} is none or is damaged ({error}); write it again."


class _CellFiles(TextFiles):
    what = word = ""  # for messages

    def __init__(self, name: str, files: list[Path], read: ReadOptions, *, skips_damaged: bool = False) -> None:
        self.name, self._part = name, getattr(read, self.word)
        parts = without_cells_in_errors(lambda: self._parts(files[0]), self._wrong(files[0]))
        if self._part not in (*parts, None) or (self._part is None and self.word == "table" and len(parts) != 1):
            raise ValueError(
                f"{name} has the {self.word}s {', '.join(map(repr, parts))}; set {self.word} in read of the schema to one of them."
            )
        read = replace(read, decimal=".", thousands=None)  # as `cell_text` writes numbers
        super().__init__(name, files, read, skips_damaged=skips_damaged)

    @abstractmethod
    def _parts(self, file: Path) -> list[str]:
        """Return the names of the sheets or tables of a file."""

    @abstractmethod
    def _rows(self, file: Path) -> Generator[tuple, None, None]:
        """Yield the names of the columns, and rows of cells."""

    def _names(self, file: Path) -> list[str]:
        with closing(self._safe_rows(file)) as rows:
            names = list(map(cell_text, next(rows, ())))
        while names and not names[-1]:
            names.pop()
        if not names:
            raise ValueError(
                f"{self.name} must be {self.what} whose first row names the columns, but {short_path(file)} has none; add it, or say in "
                "skip how many rows come before it."
            )
        return names

    def _wrong(self, file: Path) -> str:
        return f"{self.name} must be {self.what}, but {short_path(file)} is none, or cannot be read to its end ({{error}}); save it again."

    def _safe_rows(self, file: Path) -> Generator[tuple, None, None]:
        wrong = self._wrong(file)
        with closing(self._rows(file)) as rows:

            def following() -> Any:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # some quote a cell
                    return next(rows, None)

            while (row := without_cells_in_errors(following, wrong)) is not None:
                yield row

    def _read_tables(self) -> Iterator[Any]:
        first = self._names(self._files[0])
        places = [first.index(each) for each in self.kind.columns]
        for file in self._files:
            self._match_names(file)
            with closing(self._safe_rows(file)) as rows:
                next(rows, None)
                while some := list(islice(rows, min(_AT_ONCE, self._at_once))):
                    texts = [[cell_text(row[place]) if place < len(row) else "" for place in places] for row in some]
                    is_gone = (all(cell is None for cell in row) for row in some)
                    yield from self._text_tables(
                        [None if empty else row for row, empty in zip(texts, is_gone, strict=True)], self.kind.columns
                    )


class SheetFiles(_CellFiles):
    what, word = "an .xlsx file", "sheet"

    def rows_before_names(self) -> int:
        """Return how many of the first rows are titles, of one cell at most, above a table whose names are words."""
        with closing(self._safe_rows(self._files[0])) as rows:
            filled = [[cell for cell in row if cell is not None] for row in islice(rows, 10)]
        n_titles = next((place for place, cells in enumerate(filled) if len(cells) > 1), 0)
        names, *below = filled[n_titles:]
        is_table = all(isinstance(cell, str) for cell in names) and all(1 < len(cells) <= len(names) for cells in below)
        return n_titles if is_table else 0

    def _parts(self, file: Path) -> list[str]:
        from openpyxl import load_workbook

        with closing(load_workbook(file, read_only=True)) as book:
            return book.sheetnames

    def _rows(self, file: Path) -> Generator[tuple, None, None]:
        from openpyxl import load_workbook

        with closing(load_workbook(file, read_only=True, data_only=True, keep_links=False)) as book:
            sheet = book[self._part or book.sheetnames[0]]
            formats = {"epoch": book.epoch, "date_formats": book._date_formats, "timedelta_formats": book._timedelta_formats}
            with sheet._get_source() as source:
                parser = _sheet_parser()(source, sheet._shared_strings, data_only=True, **formats)
                yield from islice(_all_rows(parser.parse()), self._text.skip, None)


@cache
def _sheet_parser() -> Any:
    """Return the parser of openpyxl, in which a cell that it cannot read ends the reading, with an empty cell in its place."""
    from openpyxl.worksheet._reader import WorkSheetParser

    class Parser(WorkSheetParser):
        col_counter: int

        def parse_cell(self, element: Element) -> Any:
            before = self.col_counter
            try:
                return super().parse_cell(element)
            except Exception:
                place, self.col_counter = element.get("r"), before
                element.clear()
                element.attrib.update({} if place is None else {"r": place})
                return super().parse_cell(element)

    return Parser


def _all_rows(numbered: Iterator[tuple[int, list[dict[str, Any]]]]) -> Iterator[tuple]:
    """Yield rows with all of their cells, also those that a file leaves out because they are empty."""
    n_rows = 0
    for number, cells in numbered:
        yield from ((),) * (number - 1 - n_rows)
        if number > n_rows:
            values = {cell["column"]: cell["value"] for cell in cells}
            yield tuple(values.get(column) for column in range(1, max(values, default=0) + 1))
            n_rows = number


class DatabaseFiles(_CellFiles):
    """Tables of SQLite files, without views, whose rows may follow from any others."""

    what, word = "an SQLite file", "table"
    has_order = False

    def _parts(self, file: Path) -> list[str]:
        with closing(_connect(file)) as base:
            names = [name for (name,) in base.execute("select name from sqlite_schema where type = 'table'")]
        return [name for name in names if not name.startswith("sqlite_")]

    def _rows(self, file: Path) -> Generator[tuple, None, None]:
        with closing(_connect(file)) as base:
            base.text_factory = lambda text: text.decode() if can_decode(text) else None
            table = (self._part or self._parts(file)[0]).replace('"', '""')
            with closing(base.execute(f'select * from "{table}"')) as rows:
                yield tuple(each for each, *_ in rows.description)
                yield from rows


def _connect(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True, check_same_thread=False)


def cell_text(cell: Cell) -> str:
    if isinstance(cell, str):
        return cell if is_unicode(cell) else ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, int):
        return str(cell)
    if isinstance(cell, float):
        return repr(cell).removesuffix(".0")
    if isinstance(cell, datetime.datetime):
        return (cell if cell.time() != datetime.time() else cell.date()).isoformat()
    if isinstance(cell, datetime.date | datetime.time):
        return cell.isoformat()
    if isinstance(cell, datetime.timedelta):
        minutes, seconds = divmod(round(cell.total_seconds()), 60)
        return f"{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}"
    return ""


class Declared(NamedTuple):
    """The facts that a file of Stata or SPSS declares of a column."""

    dtype: str | None  # in numpy; None: words
    unit: str | None  # of its times
    is_whole: bool
    labels: Mapping[Any, str]


def declared_columns(file: Path, name: str) -> dict[str, Declared]:
    """Return what a file of Stata or SPSS declares of its columns; no row is read."""
    require_package("pyreadstat", name, "a file of Stata or SPSS")
    fails, is_stata = _FAILS.replace("{name}", name).replace("{file}", short_path(file)), suffix_of(file) == ".dta"
    told = without_cells_in_errors(lambda: _read_statistics(file, metadataonly=True)[1], fails)
    columns = {}
    for each in told.column_names:
        form, kind = told.original_variable_types[each] or "", told.readstat_variable_types[each]
        letters, decimals = form.rstrip("0123456789."), form.partition(".")[2]
        units = [unit for start, unit in _STATA_UNITS.items() if form.startswith(start)] if is_stata else [_SPSS_UNITS.get(letters)]
        is_whole = kind.startswith("int") if is_stata else letters == "F" and not decimals.strip("0")
        columns[each] = Declared(_DTYPES.get(kind), next(iter(units), None), is_whole, told.variable_value_labels.get(each, {}))
    return columns


def _read_statistics(file: Path, content: Any = None, **how: Any) -> Any:
    import pyreadstat

    return (pyreadstat.read_dta if suffix_of(file) == ".dta" else pyreadstat.read_sav)(str(file) if content is None else content, **how)


class StatisticsFiles(Files):
    """Files of Stata or SPSS, read in chunks; a cell of words is missing where it is empty."""

    def __init__(self, name: str, files: list[Path], read: ReadOptions) -> None:
        import pyarrow as pa

        self._declared, self._labels = declared_columns(files[0], name), set(read.labels)
        whole = pa.schema([(each, self._type(each)) for each in self._declared])
        select_columns(whole, read.labels, name, files[0])  # refuses other names
        if other := next((file for file in files if declared_columns(file, name) != self._declared), None):
            raise ValueError(f"{name} must have the same columns, types and labels in all files, but {short_path(other)} has others.")
        super().__init__(name, files, select_columns(whole, read.columns, name, files[0]), None)

    def _type(self, column: str) -> Any:
        import pyarrow as pa

        dtype, unit, *_ = self._declared[column]
        if column in self._labels or dtype is None:
            return pa.string()
        if unit is not None:
            return pa.date32() if unit in "DM" else pa.timestamp("ms")
        return pa.from_numpy_dtype(np.dtype(dtype))

    def _read_tables(self) -> Iterator[Any]:
        import pyarrow as pa

        for file in self._files:
            fails = _FAILS.replace("{name}", self.name).replace("{file}", short_path(file))
            with closing(_statistics_columns(file, list(self.kind.columns), self._at_once)) as frames:
                for found in each_without_cells_in_errors(frames, fails):
                    yield pa.table([self._column(*each) for each in found.items()], names=list(found))

    def _column(self, name: str, cells: Column) -> Any:
        import pyarrow as pa

        (dtype, unit, _, labels), target = self._declared[name], self._type(name)
        if name in self._labels:
            texts = {cell_text(code): label for code, label in labels.items()}
            found = (cell_text(cell) for cell in cells.tolist())
            return pa.array([None if cell in ("", "nan") else texts.get(cell, cell) for cell in found], target)
        if dtype is None:
            return pa.array([cell or None if isinstance(cell, str) else None for cell in cells.tolist()], target)
        numbers = cells.to_numpy(dtype=float, na_value=np.nan)
        missing = ~np.isfinite(numbers)
        known = np.clip(np.where(missing, 0, numbers), -2e14, 2e14) if dtype[0] == "i" or unit else numbers
        if unit is not None:
            is_stata = suffix_of(self._files[0]) == ".dta"
            zero = np.datetime64("1960-01-01" if is_stata else "1582-10-14", "D" if unit == "D" else "M" if unit == "M" else "ms")
            per_unit = 1 if is_stata else 1 / 86400 if unit == "D" else 1000  # SPSS counts seconds
            stamps = zero + np.rint(known * per_unit).astype(np.int64)
            return pa.array(stamps.astype("M8[D]" if unit in "DM" else "M8[ms]"), target, mask=missing)
        return pa.array(np.rint(known).astype(dtype) if dtype[0] == "i" else known.astype(dtype), target, mask=missing)


def _statistics_columns(file: Path, columns: list[str], n_rows: int) -> Generator[dict[str, Any], None, None]:
    """Yield columns as series of pandas whose numbers, dates and codes are as they stand, and whose texts were decoded one by one."""
    import pandas as pd

    told = _read_statistics(file, metadataonly=True)[1]
    # One text that cannot be decoded would end the reading, so bytes are read, as characters of Latin-1. Columns are called so as well.
    stated, encoding = told.file_encoding, None
    if stated is None and suffix_of(file) == ".dta":
        with file.open("rb") as stream:
            stated = None if stream.read(31)[11:] >= b"<header><release>118" else "cp1252"  # as pyreadstat takes it
    with suppress(LookupError):  # one that Python does not know
        encoding = codecs.lookup(stated or "utf-8").name
    how: dict[str, Any] = {"encoding": encoding and "LATIN1", "disable_datetime_conversion": True, "row_limit": n_rows}
    called = dict(zip(told.column_names, _read_statistics(file, metadataonly=True, **how)[1].column_names, strict=True))
    how["usecols"] = [called[each] for each in columns]
    widths = {each: told.variable_storage_width[each] for each in columns if told.readstat_variable_types[each] == "string"}
    # The long texts of Stata, of width 0, are read as UTF-8 whatever the encoding.
    texts = [each for each, width in widths.items() if width and encoding is not None]
    start, content = 0, None if all(widths.values()) else _without_odd_long_texts(file)
    while len(frame := _read_statistics(file, content, row_offset=start, **how)[0]):
        found = {each: frame[called[each]] for each in columns}
        for each in texts:
            cells = found[each].tolist()
            known = {cell: _decode(cell.encode("latin-1"), str(encoding)) if isinstance(cell, str) else None for cell in set(cells)}
            found[each] = pd.Series([known[cell] for cell in cells], dtype=object)
        yield found
        start += n_rows
        if content is not None:
            content.seek(0)


def _without_odd_long_texts(file: Path) -> mmap.mmap | None:
    """Return what a file of Stata holds with empty texts in place of long ones that are no UTF-8; None if it has none of those."""
    with file.open("rb") as stream:
        content, is_odd = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY), False
    order, size = "<" if content.find(b"LSF", 0, 80) >= 0 else ">", 16 if content[28:31] == b"117" else 20
    place = struct.unpack_from(f"{order}Q", content, content.find(b"<map>") + 85)[0] + len(b"<strls>")
    while content[place : place + 3] == b"GSO":
        start = place + size
        place = start + struct.unpack_from(f"{order}L", content, start - 4)[0]
        if _decode(content[start:place], "utf-8") is None:
            content[start:place], is_odd = bytes(place - start), True
    return content if is_odd else None


def _decode(text: bytes, encoding: str) -> str | None:
    """Return a text, without a character that is cut off at its end; None of bytes that are none."""
    try:
        return codecs.getincrementaldecoder(encoding)().decode(text)
    except UnicodeDecodeError:
        return None
