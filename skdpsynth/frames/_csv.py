"""CSV files, read as text: one record a line, and each cell by itself.

A file has no dtypes, and none are guessed: what one cell looks like would then decide about all others of its column. All cells are text,
which each kind of column reads by itself.

One record is one line, so that no cell can reach into the next record. A line with another number of cells, with a quote that is still
open at its end, or of more than 8 MiB, is damaged, and only that line is: it is skipped where the number of rows is private, and is a
row of empty cells where that number is public. Cells with line breaks need ``Schema(..., read={"multiline": True})``. Then a record
ends where its quotes are closed, so that one which leaves a quote open takes others with it.
"""

import codecs
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np

from skdpsynth.frames._arrow import rebatch_tables
from skdpsynth.frames._files import Files, read_ahead, selected, suffix_of
from skdpsynth.frames._read_options import ReadOptions, default_separator, plain_encoding
from skdpsynth.frames._source import short_path, without_cells_in_errors
from skdpsynth.frames._table_kind import TableKind

_BLOCK = 2**22  # bytes that are read at once
_LONGEST = 2**23  # bytes of a line
_AT_ONCE = 2**14  # records of several lines that make a table
_NEWLINE, _RETURN, _QUOTE = 10, 13, 34
MISSING_WORDS = ("", "NA", "N/A", "n/a", "#NA", "#N/A", "#N/A N/A", "NaN", "nan", "-NaN", "-nan", "NULL", "null")  # of text files
_UNWRITABLE = "\udcff"  # half of a surrogate pair stands for what no text may hold


class CsvFiles(Files):
    """CSV files with a header, read block by block as text.

    Parameters
    ----------
    name : str
    files : list of Path
    text : ReadOptions
    skips_damaged : bool, default=False
        Whether damaged lines are left out, and not rows of empty cells.
    """

    is_text = True
    n_damaged: int  # lines, or records, in all readings so far: as private as the rows

    def __init__(self, name: str, files: list[Path], text: ReadOptions, *, skips_damaged: bool = False) -> None:
        import pyarrow as pa

        self.name, self._text, self._skips_damaged, self.n_damaged = name, text, skips_damaged, 0
        self.decimal = text.decimal
        names = self._named(files[0])
        if len(names) == 1 and (cut := next((cut for cut in ";\t|," if cut in names[0]), None)):
            raise ValueError(
                f"{name} must have {self._cut(files[0])!r} between two cells, but {short_path(files[0])} seems to have {cut!r}; set "
                f"separator to {cut!r} in read of the schema."
            )
        schema = pa.schema([(each, pa.string()) for each in names])
        super().__init__(name, files, schema if text.columns is None else selected(schema, text.columns, name, files[0]), None)

    def _cut(self, file: Path) -> str:
        """Return the character between two cells of a file."""
        return self._text.separator or default_separator(without_cells_in_errors(lambda: member_suffix(file), self._wrong(file)))

    def _read(self) -> Iterator[Any]:
        return read_ahead(self._each())

    def _each(self) -> Iterator[Any]:
        import pyarrow as pa

        first = self._named(self._files[0])
        whole = TableKind.of(pa.schema([(each, pa.string()) for each in first]).empty_table())
        for file in self._files:
            other = pa.schema([(each, pa.string()) for each in self._named(file)]).empty_table()
            whole.match(TableKind.of(other, short_path(file)), short_path(file), self.name)
            names = self._header(file)
            tables = self._records(file, names) if self._text.multiline else self._lines(file, names)
            batches = (batch for table in tables for batch in table.select(self.kind.columns).to_batches())
            yield from rebatch_tables(batches, self.kind.width, self._wrong(file), self._at_once)

    def _named(self, file: Path) -> list[str]:
        """Return the names of the columns that have one: separators at the end of all lines make some that have none."""
        names = self._header(file)
        while len(names) > 1 and not names[-1]:
            names.pop()
        return names

    def _header(self, file: Path) -> list[str]:
        """Return the cells of the first record, which name the columns: a public fact."""
        with closing(self._opened(file)) as stream:
            line = without_cells_in_errors(lambda: next(_whole_lines(stream), b""), self._wrong(file))
        line = line[: line.find(b"\n")].removesuffix(b"\r")
        try:
            names = split_cells(line.decode(), self._cut(file)) if line else None
        except UnicodeDecodeError:
            names = None
        if names is None or any(mark in name for name in names for mark in "\r\0"):
            raise ValueError(self._wrong(file))
        return names

    def _opened(self, file: Path, text: ReadOptions | None = None) -> Any:
        """Open a file as a stream of UTF-8, from the line that names the columns on."""
        self._stamp(file)
        return _Stream(without_cells_in_errors(lambda: open_bytes(file), self._wrong(file)), text or self._text)

    def damaged_lines(self, most: int) -> list[int]:
        """Return the numbers of the first damaged lines of the first file that has some, as people count them: a look at its rows."""
        for file in self._files:
            if found := list(islice(self._damaged_in(file), most)):
                return found
        return []

    def _damaged_in(self, file: Path) -> Iterator[int]:
        width, cut, mark = len(self._header(file)), self._cut(file), self._text.comment
        with closing(self._opened(file, replace(self._text, skip=0, comment=None))) as stream:
            lines = (line for block in _whole_lines(stream) for line in block.split(b"\n")[:-1])
            record, start, has_header = None, 0, False
            for number, line in islice(enumerate(lines, start=1), self._text.skip, None):
                if mark is not None and line.startswith(mark.encode()):
                    continue
                record, start = (line, number) if record is None else (record + b"\n" + line, start)
                if self._text.multiline and record.count(b'"') % 2:
                    continue
                cells = None if len(record) > _LONGEST else split_cells(record.decode("utf-8", "surrogateescape").removesuffix("\r"), cut)
                if has_header and (cells is None or len(cells) != width):
                    yield start
                record, has_header = None, True
            if record is not None:
                yield start

    def _lines(self, file: Path, names: list[str]) -> Iterator[Any]:
        """Yield tables of the lines of a file, after its header."""
        with closing(self._opened(file)) as stream:
            is_first = True
            for block in _whole_lines(stream):
                if is_first:
                    block, is_first = block[block.find(b"\n") + 1 :], False
                if block:
                    yield self._table(block, names, self._cut(file))

    def _records(self, file: Path, names: list[str]) -> Iterator[Any]:
        """Yield tables of records that may have several lines, after the header."""
        import pyarrow as pa

        with closing(self._opened(file)) as stream:
            records = (self._cells_of(record, len(names), self._cut(file)) for record in _whole_records(stream))
            while some := list(islice(records, _AT_ONCE)):
                rows = [cells for cells in some if cells is not None]
                if rows:
                    columns = [pa.array([_writable_cell(cell) for cell in column], pa.string()) for column in zip(*rows, strict=True)]
                    yield _table_of(columns, names)

    def _cells_of(self, record: bytes | None, width: int, cut: str) -> list[str] | None:
        """Return the cells of a record of several lines: of a damaged one empty cells, or None if it is left out."""
        text = None if record is None else record.decode("utf-8", "surrogateescape").removesuffix("\r")
        cells = None if text is None else split_cells(text, cut)
        if cells is not None and len(cells) == width:
            return cells
        self.n_damaged += 1
        return None if self._skips_damaged else [""] * width

    def _table(self, block: bytes, names: list[str], cut: str) -> Any:
        """Return whole lines as a table.

        Nearly all blocks can be parsed as they are. Each record was one line, and none was empty, if there were as many records as line
        ends, also with one more line behind the block, which a quote that is open at its end would take in. The line before it is there
        because a parser drops a mark of the encoding at the start of what it is given, wherever that was cut from the file.
        """
        line = (cut.encode() * (len(names) - 1) or b'""') + b"\n"
        if len(block) <= _LONGEST and not _has_lone_return(block) and _is_utf8(block):
            columns, has_odd = _parsed(line + block + line, len(names), cut, skips_empty=True)
            if not has_odd and len(columns[0]) == block.count(b"\n") + 2:
                return _table_of(columns, names).slice(1, len(columns[0]) - 2)
        block, n_damaged = repair_lines(block, len(names), cut, self._skips_damaged)
        self.n_damaged += n_damaged
        return _table_of(_parsed(line + block, len(names), cut)[0], names).slice(1)

    def _wrong(self, file: Path) -> str:
        return (
            f"{self.name} must be CSV files in {self._text.encoding.upper()} whose first line names the columns, but {short_path(file)} "
            "does not begin so, or cannot be read to its end; correct it, or read of the schema (encoding, comment, skip)."
        )


def _parsed(block: bytes, width: int, cut: str, *, skips_empty: bool = False) -> tuple[list[Any], bool]:
    """Return the columns of the records in a block, and whether some had another number of cells and were left out."""
    import pyarrow as pa
    import pyarrow.csv as arrow

    odd: list[bool] = []

    def skip(row: Any) -> str:
        odd.append(True)
        return "skip"

    names = list(map(str, range(width)))
    table = arrow.read_csv(
        pa.BufferReader(block),
        arrow.ReadOptions(column_names=names, block_size=len(block)),
        arrow.ParseOptions(delimiter=cut, ignore_empty_lines=skips_empty, invalid_row_handler=skip),
        arrow.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False),
    )
    return table.columns, bool(odd)


def _table_of(columns: list[Any], names: list[str]) -> Any:
    """Return the columns that have a name as a table."""
    import pyarrow as pa

    n_named = max(place for place, name in enumerate(names, start=1) if name or place == 1)
    return pa.table(columns[:n_named], names=names[:n_named])


def member_suffix(file: Path) -> str:
    """Return the suffix of a text file; of an archive, that of the one file in it."""
    if (suffix := suffix_of(file)) != ".zip":
        return suffix
    with open_bytes(file) as inside:
        return suffix_of(Path(inside.name))


def open_bytes(file: Path) -> Any:
    """Open a text file, also a packed one, or the one file in an archive."""
    import pyarrow as pa

    if file.suffix.lower() != ".zip":
        return pa.input_stream(str(file))
    archive = ZipFile(file)
    (inside,) = [each for each in archive.namelist() if not each.endswith("/") and not each.startswith("__MACOSX/")]
    return archive.open(inside)


class _Stream:
    """A file as bytes of UTF-8, without a mark of the encoding and the lines that are no records."""

    def __init__(self, file: Any, text: ReadOptions) -> None:
        encoding = plain_encoding(text.encoding)
        self._file, self._comment = file, None if text.comment is None else text.comment.encode()
        self._decoder = None if encoding in ("utf-8", "ascii") else codecs.getincrementaldecoder(encoding)("replace")
        self._skip, self._rest, self._is_over, self._is_first, self._is_within = text.skip, b"", False, True, False

    def read(self, n_bytes: int) -> bytes:
        """Return about so many bytes; none at the end."""
        while True:
            block = self._decoded(n_bytes)
            if self._is_first and block:
                block, self._is_first = block.removeprefix(b"\xef\xbb\xbf"), False
            while self._skip and block:
                _, newline, block = block.partition(b"\n")
                self._skip -= len(newline)
            if self._comment is not None:
                block = self._without_comments(block, self._comment)
            if block or self._is_over:
                return block

    def _decoded(self, n_bytes: int) -> bytes:
        block = self._file.read(n_bytes)
        self._is_over = not block
        return block if self._decoder is None else self._decoder.decode(block, final=self._is_over).encode()

    def _without_comments(self, block: bytes, mark: bytes) -> bytes:
        block, begun = self._rest + block, b""
        stop = len(block) if self._is_over else block.rfind(b"\n") + 1
        stop = len(block) if len(block) - stop > _LONGEST else stop
        block, self._rest = block[:stop], block[stop:]
        if self._is_within:  # a line that is too long, whose start is gone
            begun, newline, block = block.partition(b"\n")
            begun += newline
        if block or begun:
            self._is_within = not (block or begun).endswith(b"\n")
        return begun + (re.sub(rb"(?m)^" + re.escape(mark) + rb"[^\n]*\n?", b"", block) if mark in block else block)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


@cache
def _cell_pattern(cut: str) -> re.Pattern[str]:
    cut = re.escape(cut)
    return re.compile(rf'(?s:"(?P<quoted>(?:[^"]++|"")*+)"|(?!"))(?P<rest>[^{cut}]*)(?P<cut>{cut}|\Z)')


def is_unicode(text: str) -> bool:
    """Whether a text can stand in a column of text at all: half of a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


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
    cells = None if len(line) > _LONGEST else split_cells(text, cut)
    if cells is None or len(cells) != n_columns:
        return None
    written = ('"' + cell.replace('"', '""') + '"' if _writable_cell(cell) else "" for cell in cells)
    return (cut.join(written) + "\n").encode()


def split_cells(line: str, cut: str) -> list[str] | None:
    """Return the cells of one line, None where a quote is open at its end.

    A cell that begins with a quote reaches to the quote that closes it, and on to the next cut; two quotes within are one. Elsewhere a
    quote is a character like others.
    """
    cells, place, cell = [], 0, _cell_pattern(cut)
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
