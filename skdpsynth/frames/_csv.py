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
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from functools import cache, partial
from itertools import chain, islice
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from skdpsynth.frames._files import ReadOptions, TextFiles, default_separator, plain_encoding, read_ahead, stamp, suffix_of
from skdpsynth.frames._source import rebatch_tables, short_path
from skdpsynth.frames._table_kind import can_decode, without_cells_in_errors

_BLOCK = 2**22  # bytes that are read at once
_LONGEST = 2**23  # bytes of a line
_AT_ONCE = 2**14  # records of several lines that make a table
_LOOKED_AT, _LINES = 2**16, 20  # bytes, and lines after the header
_CUTS = ",;\t|"
_SURROGATE = re.compile("[\ud800-\udfff]")
MISSING_WORDS = ("", "NA", "N/A", "n/a", "#NA", "#N/A", "#N/A N/A", "NaN", "nan", "-NaN", "-nan", "NULL", "null")  # of text files


class CsvFiles(TextFiles):
    def _separator(self, file: Path) -> str:
        return self._text.separator or default_separator(without_cells_in_errors(lambda: member_suffix(file), self._wrong(file)))

    def _read_tables(self) -> Iterator[Any]:
        return read_ahead(self._each())

    def _each(self) -> Iterator[Any]:
        for file in self._files:
            self._match_names(file)
            with closing(self._lines(file)) as lines:
                width, cut = len(self._header(file, next(lines))), self._separator(file)
                tables = self._tables_of_records(lines, width, cut) if self._text.multiline else self._tables_of_lines(lines, width, cut)
                batches = (batch for table in tables for batch in table.select(self.kind.columns).to_batches())
                yield from rebatch_tables(batches, self.kind.width, self._wrong(file), self._at_once)

    def _names(self, file: Path) -> list[str]:
        with closing(self._lines(file)) as lines:
            names = self._header(file, next(lines))
        while len(names) > 1 and not names[-1]:  # separators at the end of all lines make columns that have no name
            names.pop()
        if len(names) == 1 and (cut := next((cut for cut in ";\t|," if cut in names[0]), None)):
            raise ValueError(
                f"{self.name} must have {self._separator(file)!r} between two cells, but {short_path(file)} seems to have {cut!r}; set "
                f"separator to {cut!r} in read of the schema."
            )
        return names

    def _header(self, file: Path, line: bytes) -> list[str]:
        """Return the cells of the first record, which name the columns: a public fact."""
        try:
            names = split_cells(line.removesuffix(b"\r").decode(), self._separator(file)) if line else None
        except UnicodeDecodeError:
            names = None
        if names is None or any(mark in name for name in names for mark in "\r\0"):
            raise ValueError(self._wrong(file))
        return names

    def _blocks(self, file: Path) -> Generator[bytes, None, None]:
        """Yield a file in blocks of whole lines, as UTF-8, from the line that names the columns on, or comments above it."""
        stamp(file, self.name)
        encoding, n_skipped = plain_encoding(self._text.encoding), self._text.skip
        with closing(without_cells_in_errors(lambda: open_bytes(file), self._wrong(file))) as stream:
            blocks: Iterator[bytes] = iter(lambda: stream.read(_BLOCK), b"")
            if encoding not in ("utf-8", "ascii"):
                blocks = (text.encode() for text in codecs.iterdecode(blocks, encoding, "replace"))
            for block in _whole_lines(chain([next(blocks, b"").removeprefix(b"\xef\xbb\xbf")], blocks)):
                while n_skipped and block:
                    n_skipped, block = n_skipped - 1, block.partition(b"\n")[2]
                if block:
                    yield block

    def _lines(self, file: Path) -> Generator[bytes, None, None]:
        """Yield the line that names the columns, and after it blocks of whole lines, without comments unless records have several lines."""
        mark = self._mark
        comment = re.compile(rb"(?m)^" + re.escape(mark) + rb"[^\n]*\n") if mark and not self._text.multiline else None
        with closing(self._blocks(file)) as blocks:
            following = partial(without_cells_in_errors, lambda: next(blocks, b""), self._wrong(file))
            block = following()
            while mark and block.startswith(mark):
                block = block.partition(b"\n")[2] or following()
            line, _, block = block.partition(b"\n")
            yield line
            yield from filter(None, (block if comment is None else comment.sub(b"", block) for block in chain([block], blocks)))

    @property
    def _mark(self) -> bytes:
        return (self._text.comment or "").encode()

    def damaged_lines(self, most: int) -> list[int]:
        """Return the numbers of the first damaged lines of the first file that has some, as people count them: a look at its rows."""
        return next((found for file in self._files if (found := list(islice(self._damaged_in(file), most)))), [])

    def _damaged_in(self, file: Path) -> Iterator[int]:
        with closing(self._blocks(file)) as blocks:
            records = _records(blocks, self._mark, self._text.multiline, self._text.skip + 1)
            width, cut = len(self._header(file, next(records)[1] or b"")), self._separator(file)
            yield from (number for number, record in records if _cells_of(record, width, cut) is None)

    def _tables_of_records(self, blocks: Iterable[bytes], width: int, cut: str) -> Iterator[Any]:
        records, names = _records(blocks, self._mark), self._whole.names
        while some := [_cells_of(record, width, cut) for _, record in islice(records, _AT_ONCE)]:
            rows = [cells and [cell if is_unicode(cell) else "" for cell in cells[: len(names)]] for cells in some]
            yield from self._text_tables(rows, names)

    def _tables_of_lines(self, blocks: Iterable[bytes], width: int, cut: str) -> Iterator[Any]:
        """Yield blocks of whole lines as tables.

        Nearly all blocks can be parsed as they are. Each record was one line, and none was empty, if there were as many records as line
        ends, also with one more line behind the block, which a quote that is open at its end would take in. The line before it is there
        because a parser drops a mark of the encoding at the start of what it is given, wherever that was cut from the file.
        """
        line = (cut.encode() * (width - 1) or b'""') + b"\n"
        for block in blocks:
            has_lone_return = b"\r" in block and block.count(b"\r") > block.count(b"\r\n")
            if len(block) <= _LONGEST and not has_lone_return and can_decode(block):
                columns, has_odd = _parse_block(line + block + line, width, cut, skips_empty=True)
                if not has_odd and len(columns[0]) == block.count(b"\n") + 2:
                    yield self._table(columns).slice(1, len(columns[0]) - 2)
                    continue
            block, n_damaged = repair_lines(block, width, cut, self._skips_damaged)
            self.n_damaged += n_damaged
            yield self._table(_parse_block(line + block, width, cut)[0]).slice(1)

    def _table(self, columns: list[Any]) -> Any:
        import pyarrow as pa

        return pa.table(columns[: len(self._whole)], names=self._whole.names)  # without those at the end that have no names

    def _wrong(self, file: Path) -> str:
        return (
            f"{self.name} must be CSV files in {self._text.encoding.upper()} whose first line names the columns, but {short_path(file)} "
            "does not begin so, or cannot be read to its end; correct it, or read of the schema (encoding, comment, skip)."
        )


def _parse_block(block: bytes, width: int, cut: str, *, skips_empty: bool = False) -> tuple[list[Any], bool]:
    """Return the columns of the records in a block, and whether some had another number of cells and were left out."""
    import pyarrow as pa
    import pyarrow.csv as arrow

    odd: list[bool] = []

    def skip(row: object) -> str:
        odd.append(True)
        return "skip"

    names = list(map(str, range(width)))
    read = arrow.ReadOptions(column_names=names, block_size=len(block))
    parse = arrow.ParseOptions(delimiter=cut, ignore_empty_lines=skips_empty, invalid_row_handler=skip)
    convert = arrow.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False)
    return arrow.read_csv(pa.BufferReader(block), read, parse, convert).columns, bool(odd)


def member_suffix(file: Path) -> str:
    """Return the suffix of a text file; of an archive, that of the one file in it."""
    if (suffix := suffix_of(file)) != ".zip":
        return suffix
    with open_bytes(file) as inside:
        return suffix_of(Path(inside.name))


def open_bytes(file: Path) -> Any:
    import pyarrow as pa

    if file.suffix.lower() != ".zip":
        return pa.input_stream(str(file))
    archive = ZipFile(file)
    (inside,) = [each for each in archive.namelist() if not each.endswith("/") and not each.startswith("__MACOSX/")]
    return archive.open(inside)


@cache
def _cell_pattern(cut: str) -> re.Pattern[str]:
    cut = re.escape(cut)
    return re.compile(rf'(?s:"(?P<quoted>(?:[^"]++|"")*+)"|(?!"))(?P<rest>[^{cut}]*)(?P<cut>{cut}|\Z)')


def is_unicode(text: str) -> bool:
    """Whether a text can stand in a column of text at all: half of a surrogate pair cannot."""
    return text.isascii() or _SURROGATE.search(text) is None


def repair_lines(block: bytes, width: int, cut: str, skips_damaged: bool) -> tuple[bytes, int]:
    """Return lines with `width` cells each, and how many were damaged, which are rows of missing cells or left out."""
    # A line without quotes but those that enclose whole cells, and in those pairs of them, is plain.
    cell = rf'(?:"(?:[^"\r]++|"")*+"|[^"\r{re.escape(cut)}]*+)'
    is_plain = re.compile(rf"(?s:{cell}(?:{re.escape(cut)}{cell}){{{width - 1}}}\r?)".encode()).fullmatch
    repaired, n_damaged, is_utf8 = list[bytes](), 0, can_decode(block)
    for line in block.split(b"\n")[:-1]:
        if not (len(line) < _LONGEST and is_plain(line) and (is_utf8 or can_decode(line))):
            cells = _cells_of(line, width, cut)
            n_damaged += cells is None
            if cells is None and skips_damaged:
                continue
            # In quotes; a cell that no text can hold is missing.
            quoted = (
                '"' + each.replace('"', '""') + '"' if "\r" not in each and is_unicode(each) else "" for each in cells or [""] * width
            )
            line = cut.join(quoted).encode()
        repaired.append(line)
    return b"\n".join([*repaired, b""]), n_damaged


def _cells_of(record: bytes | None, width: int, cut: str) -> list[str] | None:
    """Return the cells of a record, None of a damaged one."""
    if record is None or len(record) >= _LONGEST:
        return None
    cells = split_cells(record.decode("utf-8", "surrogateescape").removesuffix("\r"), cut)
    return cells if cells is not None and len(cells) == width else None


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


def _whole_lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield blocks of whole lines; of a line that is too long its start, and a quote where the rest of it has an odd number of quotes."""
    rest, n_quotes = b"", 0
    for block in blocks:
        if len(rest) > _LONGEST:
            passed, newline, block = block.partition(b"\n")
            n_quotes += passed.count(b'"')
            if not newline:
                continue
            yield rest + b'"' * (n_quotes % 2) + b"\n"
            rest, n_quotes = b"", 0
        block = rest + block
        stop = block.rfind(b"\n") + 1
        if stop:
            yield block[:stop]
        rest = block[stop:]
    if rest:
        yield rest + b'"' * (n_quotes % 2) + b"\n"


def _records(blocks: Iterable[bytes], mark: bytes, is_multiline: bool = True, first: int = 1) -> Iterator[tuple[int, bytes | None]]:
    """Yield (the number of its first line, a record, None of one that is too long): a line, or lines up to where its quotes are closed."""
    lines, n_bytes, start, is_open = list[bytes](), 0, first, False
    for number, line in enumerate((line for block in blocks for line in block.split(b"\n")[:-1]), first):
        if not is_open:
            if mark and line.startswith(mark):
                continue
            lines, n_bytes, start = [], 0, number
        n_bytes += len(line) + 1
        if n_bytes <= _LONGEST:
            lines.append(line)
        is_open ^= is_multiline and line.count(b'"') % 2 == 1
        if not is_open:
            yield start, b"\n".join(lines) if n_bytes <= _LONGEST else None
    if is_open:
        yield start, b"\n".join(lines) if n_bytes <= _LONGEST else None


def detect_options(file: Path, stated: dict[str, Any]) -> dict[str, Any]:
    """Return options of a reader: those that are stated, and the separator, encoding, comment sign and skipped lines that a file shows.

    Decimal marks are left open where semicolons separate cells, because only cells could tell.
    """
    wrong = f"source must be a text file, but {file.name!r} cannot be read ({{error}}); correct it."
    with closing(without_cells_in_errors(lambda: open_bytes(file), wrong)) as stream:
        start = bytes(without_cells_in_errors(lambda: stream.read(_LOOKED_AT), wrong))
    found = dict(stated)
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        found.setdefault("encoding", "utf-16")
    encoding = found.get("encoding")
    text = start.removeprefix(b"\xef\xbb\xbf").decode(encoding or "latin-1", "replace").removeprefix("\ufeff")
    lines = text.replace("\r\n", "\n").split("\n")
    if not {"skip", "comment"} & stated.keys():
        found |= _before_header(lines)
    mark = found.get("comment")
    lines = [line for line in lines[found.get("skip", 0) :] if mark is None or not line.startswith(mark)][: _LINES + 1]
    shown = "\n".join(lines[:-1] or lines).encode("latin-1", "replace")
    if encoding is None and (guess := next(each for each in ("utf-8", "cp1252", "latin-1") if can_decode(shown, each))) != "utf-8":
        found["encoding"] = guess
    usual = default_separator(member_suffix(file))
    header, *others = [re.sub(r'"[^"]*"', "", line) for line in lines]

    def fits(cut: str) -> tuple[bool, int]:
        n_cuts = header.count(cut)
        return n_cuts > 0 and all(line.count(cut) == n_cuts for line in others[:-1] if line), n_cuts

    if found.setdefault("separator", max(dict.fromkeys((usual, *_CUTS)), key=fits)) == ";":
        found.setdefault("decimal", "open")
    return ReadOptions.of({name: value for name, value in found.items() if (name, value) != ("separator", usual)}).to_dict()


def _before_header(lines: list[str]) -> dict[str, Any]:
    """Return the comment sign of the first lines, or how many lines are none of the table."""
    if told := re.fullmatch(r'"?sep=(.)"?', lines[0]):
        return {"separator": told[1], "skip": 1}
    n_marked = next((n for n, line in enumerate(lines) if not line.startswith("#")), len(lines))
    if n_marked:
        after = lines[n_marked] if n_marked < len(lines) else ""
        # A header behind the sign, as numpy writes it, has a row of numbers below; else the next line would be taken for names.
        is_header = _has_number(after) and all(lines[n_marked - 1].count(cut) == after.count(cut) for cut in _CUTS)
        return ({"skip": n_marked - 1} if n_marked > 1 else {}) if is_header else {"comment": "#"}
    blank = max((n for n, line in enumerate(lines[:10]) if not line.strip()), default=-1)
    is_title = blank + 1 < len(lines) and not any(cut in line for line in lines[: blank + 1] for cut in _CUTS)
    is_table = is_title and any(cut in lines[blank + 1] for cut in _CUTS) and not _has_number(lines[blank + 1])
    return {"skip": blank + 1} if blank >= 0 and is_table else {}


def _has_number(line: str) -> bool:
    return any(re.fullmatch(r'\s*"?[-+]?[\d.]+(e[-+]?\d+)?"?\s*', cell) for cell in re.split(r"[,;\t|]", line))
