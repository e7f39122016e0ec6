"""CSV files, read as text: one record a line, and each cell by itself.

A file has no dtypes, and none are guessed: what one cell looks like would then decide about all others of its column. A schema says
which columns are numbers; without one, all are. Text that reads as no number is missing.

One record is one line, so that no cell can reach into the next record. A line with another number of cells, with a quote that is still
open at its end, or of more than 8 MiB, is damaged, and only that line is: it is skipped where the number of rows is private, and is a
row of missing cells where that number is public. Cells with line breaks need ``Schema(..., read={"multiline": True})``. Then a record
ends where its quotes are closed, so that one which leaves a quote open takes others with it.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from skdpsynth.domain._derived import Derived
from skdpsynth.domain._kinds import Continuous, Nominal, Ordinal
from skdpsynth.frames._arrow import rebatch_tables
from skdpsynth.frames._files import Files, read_ahead, suffix_of
from skdpsynth.frames._form import Form
from skdpsynth.frames._source import short_path, without_cells_in_errors
from skdpsynth.frames._text import is_unicode, number_in

_BLOCK = 2**22  # bytes that are read at once
_LONGEST = 2**23  # bytes of a line
_AT_ONCE = 2**14  # records of several lines that make a table
_NEWLINE, _RETURN, _QUOTE = 10, 13, 34
_MISSING = ("", "NA", "N/A", "n/a", "#NA", "#N/A", "#N/A N/A", "NaN", "nan", "-NaN", "-nan", "NULL", "null")
_CELLS = {cut: re.compile(rf'(?s:"(?P<quoted>(?:[^"]++|"")*+)"|(?!"))(?P<rest>[^{cut}]*)(?P<cut>{cut}|\Z)') for cut in ",\t"}
_UNWRITABLE = "\udcff"  # half of a surrogate pair stands for what no text may hold


class CsvFiles(Files):
    """CSV files with a header, read block by block.

    Parameters
    ----------
    name : str
    files : list of Path
    schema : Schema, default=None
        Numbers are read from the columns that it says are numbers, text from all others. None: numbers are read from all columns.
    unit : str, default=None
        A column of labels, which is text.
    skips_damaged : bool, default=False
        Whether damaged lines are left out, not rows of missing cells.
    for_numbers : bool, default=False
        Whether the schema serves an estimator that takes none: then columns of whole numbers have the dtype of whole numbers.
    """

    is_text = True
    n_damaged: int  # lines, or records, in all readings so far: as private as the rows

    def __init__(
        self,
        name: str,
        files: list[Path],
        schema: Any = None,
        unit: Any = None,
        *,
        skips_damaged: bool = False,
        for_numbers: bool = False,
    ) -> None:
        import pyarrow as pa

        self._name, self._skips_damaged, self.n_damaged = name, skips_damaged, 0
        self._is_multiline = schema is not None and schema.read.get("multiline", False)
        names = self._header(files[0])
        if len(names) == 1 and (cut := next((cut for cut in ";\t|" if cut in names[0]), None)):
            raise ValueError(
                f"{name} must have a comma between two cells (.tsv: a tab), but {short_path(files[0])} seems to have {cut!r}; write "
                f"it with commas or as Parquet, or give polars.scan_csv(path, separator={cut!r})."
            )
        numbers = {each for each in names if _is_number(schema, each)} - {unit}
        kinds = pa.schema([(each, pa.float64() if each in numbers else pa.string()) for each in names])
        public = _typed_field if for_numbers else _public_field
        head = kinds if schema is None else pa.schema([public(schema, each) for each in names])
        super().__init__(name, files, kinds, None, head=head)
        # A word such as NA means that a cell is missing, but where a schema lists it as a level.
        self._listed = {each: set(_MISSING).intersection(_texts_of(schema, each)) for each in names} if schema is not None else {}

    def _read(self) -> Iterator[Any]:
        return read_ahead(self._each())

    def _each(self) -> Iterator[Any]:
        for file in self._files:
            names = self._header(file)
            self._form.match(Form.of_schema(_with_names(self._schema, names), short_path(file)), short_path(file), self._name)
            tables = self._records(file) if self._is_multiline else self._lines(file)
            batches = (batch for table in tables for batch in table.to_batches())
            yield from rebatch_tables(batches, self._form.width, self._wrong(file), self._at_once)

    def _header(self, file: Path) -> list[str]:
        """Return the names of the columns, which the first line holds: a public fact."""
        with closing(self._opened(file)) as stream:
            line = without_cells_in_errors(lambda: next(_whole_lines(stream), b""), self._wrong(file))
        line = line[: line.find(b"\n")].removeprefix(b"\xef\xbb\xbf").removesuffix(b"\r")
        try:
            names = cells_of(line.decode(), _separator_of(file)) if line else None
        except UnicodeDecodeError:
            names = None
        if names is None or any(mark in name for name in names for mark in "\r\0"):
            raise ValueError(self._wrong(file))
        return names

    def _opened(self, file: Path) -> Any:
        import pyarrow as pa

        self._stamp(file)
        return without_cells_in_errors(lambda: pa.input_stream(str(file)), self._wrong(file))

    def _lines(self, file: Path) -> Iterator[Any]:
        """Yield tables of the lines of a file, after its header."""
        with closing(self._opened(file)) as stream:
            is_first = True
            for block in _whole_lines(stream):
                if is_first:
                    block, is_first = block[block.find(b"\n") + 1 :], False
                if block:
                    yield self._table(block, _separator_of(file))

    def _records(self, file: Path) -> Iterator[Any]:
        """Yield tables of records that may have several lines, after the header."""
        import pyarrow as pa

        with closing(self._opened(file)) as stream:
            records = (self._cells_of(record, _separator_of(file)) for record in _whole_records(stream))
            while some := list(islice(records, _AT_ONCE)):
                rows = [cells for cells in some if cells is not None]
                if rows:
                    columns = [pa.array(list(map(_writable_cell, column)), pa.string()) for column in zip(*rows, strict=True)]
                    yield self._as_numbers(_replace_missing_words(pa.table(columns, names=self._schema.names), self._listed))

    def _cells_of(self, record: bytes | None, cut: str) -> list[str] | None:
        """Return the cells of a record of several lines: of a damaged one missing cells, or None if it is left out."""
        text = None if record is None else record.decode("utf-8", "surrogateescape").removesuffix("\r")
        cells = None if text is None else cells_of(text, cut)
        if cells is not None and len(cells) == self._form.width:
            return cells
        self.n_damaged += 1
        return None if self._skips_damaged else [""] * self._form.width

    def _table(self, block: bytes, cut: str) -> Any:
        """Return whole lines as a table.

        Nearly all blocks can be parsed as they are. Each record was one line if there were as many records as line ends, also with one more
        line behind the block, which a quote that is open at its end would take in. The line before it is there because a parser drops a
        mark of the encoding at the start of what it is given, wherever that was cut from the file.
        """
        line = cut.encode() * (self._form.width - 1) + b"\n"
        if len(block) <= _LONGEST and not _has_lone_return(block) and _is_utf8(block):
            table, has_odd = self._parsed(line + block + line, cut)
            if not has_odd and table.num_rows == block.count(b"\n") + 2 and not self._has_empty_line(block, table):
                return table.slice(1, table.num_rows - 2)
        block, n_damaged = repair_lines(block, self._form.width, cut, self._skips_damaged)
        self.n_damaged += n_damaged
        return self._parsed(line + block, cut)[0].slice(1)

    def _has_empty_line(self, block: bytes, table: Any) -> bool:
        """Whether an empty line was parsed as a row of missing cells; then each column has one more than the two lines around a block."""
        columns = zip(table.column_names, table.columns, strict=True)
        may = all(column.null_count > 2 or "" in self._listed.get(name, ()) for name, column in columns)
        return may and (block.startswith((b"\n", b"\r\n")) or b"\n\n" in block or b"\n\r\n" in block)

    def _parsed(self, block: bytes, cut: str) -> tuple[Any, bool]:
        """Return (a table of the records in a block, whether some had another number of cells and were left out)."""
        import pyarrow as pa

        try:
            return self._parsed_as(block, cut, self._schema)
        except pa.ArrowInvalid:
            # A cell is no number. Each is then read by itself, with the same numbers for all others.
            table, has_odd = self._parsed_as(block, cut, pa.schema([(each, pa.string()) for each in self._schema.names]))
            return self._as_numbers(table), has_odd

    def _parsed_as(self, block: bytes, cut: str, schema: Any) -> tuple[Any, bool]:
        import pyarrow as pa
        import pyarrow.csv as arrow

        odd: list[bool] = []

        def skip(row: Any) -> str:
            odd.append(True)
            return "skip"

        listed = set().union(*self._listed.values())
        table = arrow.read_csv(
            pa.BufferReader(block),
            arrow.ReadOptions(column_names=schema.names, block_size=len(block)),
            arrow.ParseOptions(delimiter=cut, ignore_empty_lines=False, invalid_row_handler=skip),
            arrow.ConvertOptions(
                column_types=dict(zip(schema.names, schema.types, strict=True)),
                null_values=[word for word in _MISSING if word not in listed],
                strings_can_be_null=True,
            ),
        )
        return _replace_missing_words(table, self._listed) if listed else table, bool(odd)

    def _as_numbers(self, table: Any) -> Any:
        """Return a table with the columns that are numbers as such; a text that is none is missing."""
        for place, field in enumerate(self._schema):
            if table.schema.field(place).type != field.type:
                table = table.set_column(place, field, _numbers_in(table.column(place)))
        return table

    def _wrong(self, file: Path) -> str:
        return (
            f"{self._name} must be CSV files in UTF-8 whose first line names the columns, but {short_path(file)} does not begin so, or cannot "
            "be read to its end; correct it, or write it as Parquet."
        )


def repair_lines(block: bytes, n_columns: int, cut: str, skips_damaged: bool) -> tuple[bytes, int]:
    """Return lines with `n_columns` cells each, and how many were damaged, which are rows of missing cells or left out.

    Parameters
    ----------
    block : bytes
        Whole lines.
    n_columns : int
    cut : str
        The character between two cells.
    skips_damaged : bool
    """
    marks = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(marks == _NEWLINE)
    is_odd = _odd_cells(marks, ends, n_columns - 1, ord(cut)) | (np.diff(ends, prepend=-1) > _LONGEST)
    if _has_lone_return(block):
        returns = np.flatnonzero(marks == _RETURN)
        is_odd[np.searchsorted(ends, returns[marks[returns + 1] != _NEWLINE])] = True
    if not _is_utf8(block):
        for line in np.unique(np.searchsorted(ends, np.flatnonzero(marks > 127))):
            start = ends[line - 1] + 1 if line else 0
            is_odd[line] |= not _is_utf8(block[start : ends[line]])
    if not is_odd.any():
        return block, 0
    parts, done, n_damaged = [], 0, 0
    for line in np.flatnonzero(is_odd):
        start, stop = (ends[line - 1] + 1 if line else 0), ends[line] + 1
        repaired = _quoted_line(block[start:stop], n_columns, cut)
        n_damaged += repaired is None
        missing = b"" if skips_damaged else cut.encode() * (n_columns - 1) + b"\n"
        parts += [block[done:start], missing if repaired is None else repaired]
        done = stop
    return b"".join([*parts, block[done:]]), n_damaged


def _odd_cells(marks: np.ndarray, ends: np.ndarray, n_cuts: int, cut: int) -> np.ndarray:
    """Return which lines have another number of cells, or quotes that do not enclose whole cells, as booleans of shape (n_lines,).

    A quote is opened at the start of a cell and closed at its end, and two within are one. So of the quotes of a line those at even places
    open, after a cut, a line's start or the quote before; the others close, before a cut, a line's end or the quote after; and a cut lies
    between cells where an even number of quotes of its line precede it.
    """
    cuts, quotes = np.flatnonzero(marks == cut), np.flatnonzero(marks == _QUOTE)
    before = np.searchsorted(quotes, ends)  # quotes up to the end of each line
    is_odd = np.diff(before, prepend=0) % 2 == 1
    first = np.append(0, before[:-1])  # quotes before each line
    lines = np.searchsorted(ends, quotes)
    is_opening = (np.arange(len(quotes)) - first[lines]) % 2 == 0
    left, right = np.append(_NEWLINE, marks)[quotes], marks[quotes + 1]
    fits = np.where(
        is_opening,
        (left == cut) | (left == _NEWLINE) | (left == _QUOTE),
        (right == cut) | (right == _NEWLINE) | (right == _RETURN) | (right == _QUOTE),
    )
    is_odd[lines[~fits]] = True
    places = np.searchsorted(ends, cuts)
    between = (np.searchsorted(quotes, cuts) - first[places]) % 2 == 0
    return is_odd | (np.bincount(places[between], minlength=len(ends)) != n_cuts)


def _quoted_line(line: bytes, n_columns: int, cut: str) -> bytes | None:
    """Return a line with its cells in quotes, those that no text can hold missing; None of a damaged one."""
    text = line.decode("utf-8", "surrogateescape").removesuffix("\n").removesuffix("\r").replace("\r", _UNWRITABLE)
    cells = None if len(line) > _LONGEST else cells_of(text, cut)
    if cells is None or len(cells) != n_columns:
        return None
    written = ('"' + cell.replace('"', '""') + '"' if _writable_cell(cell) else "" for cell in cells)
    return (cut.join(written) + "\n").encode()


def cells_of(line: str, cut: str) -> list[str] | None:
    """Return the cells of one line, None where a quote is open at its end.

    A cell that begins with a quote reaches to the quote that closes it, and on to the next cut; two quotes within are one. Elsewhere a
    quote is a character like others.
    """
    cells, place, cell = [], 0, _CELLS[cut]
    while (found := cell.match(line, place)) is not None:
        quoted, rest = found["quoted"], found["rest"]
        cells.append(rest if quoted is None else quoted.replace('""', '"') + rest)
        if found.end() == len(line) and not found["cut"]:
            return cells
        place = found.end()
    return None


def _whole_records(stream: Any) -> Iterator[bytes | None]:
    """Yield records after the first line, each up to a line end after an even number of quotes; None for one that is too long."""
    rest, is_first, has_passed, is_open = b"", True, False, False  # whether a part of a record was passed over, and it left a quote open
    while block := stream.read(_BLOCK):
        rest += block
        if is_first:
            _, newline, rest = rest.partition(b"\n")
            is_first = not newline
        marks, start = np.frombuffer(rest, np.uint8), 0
        ends, quotes = np.flatnonzero(marks == _NEWLINE), np.flatnonzero(marks == _QUOTE)
        for end in ends[(np.searchsorted(quotes, ends) + is_open) % 2 == 0].tolist():
            yield None if has_passed or end - start >= _LONGEST else rest[start:end]
            start, has_passed = end + 1, False
        is_open = is_open and not start  # what follows the end of a record has no quote before it
        rest = rest[start:]
        if len(rest) >= _LONGEST:
            is_open ^= rest.count(b'"') % 2 == 1
            rest, has_passed = b"", True
    if rest or has_passed:
        yield None if has_passed else rest


def _whole_lines(stream: Any) -> Iterator[bytes]:
    """Yield blocks of whole lines; in place of one that is too long, a line that is damaged as well, an open quote."""
    rest, is_skipping = b"", False
    while block := stream.read(_BLOCK):
        if is_skipping:
            _, newline, block = block.partition(b"\n")
            is_skipping = not newline
        stop = block.rfind(b"\n") + 1
        if stop:
            yield rest + block[:stop]
            rest = block[stop:]
        elif not is_skipping:
            rest += block
        if len(rest) > _LONGEST:
            yield b'"\n'
            rest, is_skipping = b"", True
    if rest:
        yield rest + b"\n"


def _has_lone_return(block: bytes) -> bool:
    return b"\r" in block and block.count(b"\r") > block.count(b"\r\n")


def _is_utf8(block: bytes) -> bool:
    if block.isascii():
        return True
    try:
        block.decode()
    except UnicodeDecodeError:
        return False
    return True


def _writable_cell(cell: str) -> str | None:
    """Return a cell that a file can hold, None of any other."""
    return cell if is_unicode(cell) else None


def _numbers_in(column: Any) -> Any:
    """Return a column of text as numbers, missing where a text is none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        return pc.cast(column, pa.float64())
    except pa.ArrowInvalid:
        return pa.chunked_array([pa.array(map(number_in, column.to_pylist()), pa.float64(), from_pandas=True)])


def _replace_missing_words(table: Any, listed: dict[str, set[str]]) -> Any:
    """Return a table of text without the words that stand for missing cells, but for those that are levels of their column."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for place, field in enumerate(table.schema):
        if field.type == pa.string():
            words = pa.array([word for word in _MISSING if word not in listed[field.name]])
            cells = table.column(place)
            table = table.set_column(place, field, pc.if_else(pc.is_in(cells, words), pa.scalar(None, pa.string()), cells))
    return table


def _public_field(schema: Any, column: str) -> Any:
    """Return a column as it is public: numbers and levels have no dtype but what the schema says, all else is text."""
    import pyarrow as pa

    kind = schema.get(column)
    return pa.field(column, pa.null() if isinstance(kind, Continuous | Derived | Nominal | Ordinal) else pa.string())


def _typed_field(schema: Any, column: str) -> Any:
    """Return a column with the dtype of its numbers, which the schema says."""
    import pyarrow as pa

    kind = schema.get(column)
    is_number = isinstance(kind, Continuous)
    return pa.field(column, pa.string() if not is_number else pa.int64() if kind.integer else pa.float64())


def _is_number(schema: Any, column: str) -> bool:
    return schema is None or isinstance(schema.get(column), Continuous | Derived)


def _texts_of(schema: Any, column: str) -> Sequence[Any]:
    kind = schema.get(column)
    return [level for level in getattr(kind, "levels", ()) if isinstance(level, str)] if getattr(kind, "unstated", "") is None else ()


def _with_names(schema: Any, names: list[str]) -> Any:
    """Return a schema with other names of its first columns; with as many as there are names."""
    import pyarrow as pa

    return pa.schema([(name, schema.types[place] if place < len(schema) else pa.string()) for place, name in enumerate(names)])


def _separator_of(file: Path) -> str:
    return "\t" if suffix_of(file) == ".tsv" else ","
