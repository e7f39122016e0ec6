"""How a text file seems to be written, by its first lines: a look for its holder alone."""

import re
from contextlib import closing
from pathlib import Path
from typing import Any

from skdpsynth.frames._csv import member_suffix, open_bytes
from skdpsynth.frames._read_options import ReadOptions, default_separator
from skdpsynth.frames._source import without_cells_in_errors

_LOOKED_AT, _LINES = 2**16, 20  # bytes, and lines after the header
_CUTS = ",;\t|"


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
    if encoding is None and (guess := _encoding_of(lines[0].encode("latin-1", "replace"))) is not None:
        found["encoding"] = guess
    usual = default_separator(member_suffix(file))
    cut = found.setdefault("separator", _separator_of(lines, usual))
    if cut == ";":
        found.setdefault("decimal", "open")
    return ReadOptions.of({name: value for name, value in found.items() if (name, value) != ("separator", usual)}).stated()


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


def _encoding_of(header: bytes) -> str | None:
    for encoding in ("utf-8", "cp1252", "latin-1"):
        try:
            header.decode(encoding)
            return None if encoding == "utf-8" else encoding
        except UnicodeDecodeError:
            continue
    return None


def _separator_of(lines: list[str], usual: str) -> str:
    header, *others = [re.sub(r'"[^"]*"', "", line) for line in lines]

    def fits(cut: str) -> tuple[bool, int]:
        n_cuts = header.count(cut)
        return n_cuts > 0 and all(line.count(cut) == n_cuts for line in others[:-1] if line), n_cuts

    return max(dict.fromkeys((usual, *_CUTS)), key=fits)
