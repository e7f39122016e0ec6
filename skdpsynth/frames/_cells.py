"""Sheets and tables of databases, whose cells have types of their own: each cell is read as text, by itself.

A number is its shortest text, without ``.0`` where it is whole; dates and times are in ISO form, and spans of time hours:minutes:seconds.
What is none of these is an empty cell.
"""

import datetime
import sqlite3
import warnings
from abc import abstractmethod
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from skdpsynth.frames._csv import is_unicode
from skdpsynth.frames._files import ReadOptions, TextFiles
from skdpsynth.frames._source import require_package, short_path, without_cells_in_errors

_AT_ONCE = 2**14  # rows that make a table


class _CellFiles(TextFiles):
    """Files whose rows are tuples of cells, after their names."""

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
        rows, wrong = self._rows(file), self._wrong(file)

        def following() -> Any:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # some quote a cell
                return next(rows, None)

        with closing(rows):
            while (row := without_cells_in_errors(following, wrong)) is not None:
                yield row

    def _read(self) -> Iterator[Any]:
        import pyarrow as pa

        first = self._names(self._files[0])
        places = [first.index(each) for each in self.kind.columns]
        for file in self._files:
            self._match_names(file)
            with closing(self._safe_rows(file)) as rows:
                next(rows, None)
                while some := list(islice(rows, min(_AT_ONCE, self._at_once))):
                    full = [row for row in some if any(cell is not None for cell in row)]
                    self.n_damaged += len(some) - len(full)
                    if kept := full if self._skips_damaged else some:
                        cells = ([cell_text(row[place]) if place < len(row) else "" for row in kept] for place in places)
                        yield pa.table([pa.array(column, pa.string()) for column in cells], names=list(self.kind.columns))


class SheetFiles(_CellFiles):
    """Sheets of .xlsx files, row by row."""

    what, word = "an .xlsx file", "sheet"

    def __init__(self, name: str, files: list[Path], read: ReadOptions, *, skips_damaged: bool = False) -> None:
        require_package("openpyxl", name, self.what)
        super().__init__(name, files, read, skips_damaged=skips_damaged)

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

        def parse_cell(self, element: Any) -> Any:
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
    """Tables of SQLite files."""

    what, word = "an SQLite file", "table"
    has_order = False

    def _parts(self, file: Path) -> list[str]:
        with closing(_connected(file)) as base:
            return _tables(base)

    def _rows(self, file: Path) -> Generator[tuple, None, None]:
        with closing(_connected(file)) as base:
            base.text_factory = _decoded
            table = (self._part or _tables(base)[0]).replace('"', '""')
            with closing(base.execute(f'select * from "{table}"')) as rows:
                yield tuple(each for each, *_ in rows.description)
                yield from rows


def _connected(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True, check_same_thread=False)


def _tables(base: sqlite3.Connection) -> list[str]:
    """Return the names of tables, without views, whose rows may follow from any others."""
    return [name for (name,) in base.execute("select name from sqlite_schema where type = 'table'") if not name.startswith("sqlite_")]


def _decoded(text: bytes) -> str | None:
    try:
        return text.decode()
    except UnicodeDecodeError:
        return None


def cell_text(cell: Any) -> str:
    """Return a cell as text, empty where it is missing."""
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
