"""How files are read: public facts about them."""

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from skdpsynth._validation import short_repr

# Encodings in which no cell reaches into the next: of some others a few bytes change how all that follow are read, or hold a line end.
_ENCODINGS = re.compile(
    r"utf-8|ascii|utf-(16|32)(-[lb]e)?|iso8859-\d+|cp\d+|koi8-\w|mac-?\w+|gbk|gb2312|gb18030|big5(hkscs)?|shift_jis|euc_\w+|tis-620"
)
_TABS = (".tsv", ".tab")


@dataclass(frozen=True)
class ReadOptions:
    """How files are read: public facts, checked when they are stated."""

    separator: str | None = None  # None: a tab in .tsv and .tab files, else a comma
    decimal: str = "."  # mark of decimals; "open" in a skeleton
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
        return cls(**given)

    def stated(self) -> dict[str, Any]:
        """Return what differs from the default, with lists in place of tuples."""
        pairs = ((each.name, getattr(self, each.name)) for each in fields(self) if getattr(self, each.name) != each.default)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in pairs}


def default_separator(suffix: str) -> str:
    """Return the character between two cells of a text file, where nobody states another."""
    return "\t" if suffix in _TABS else ","


def _is_separator(value: Any) -> bool:
    return (
        isinstance(value, str)
        and len(value) == 1
        and value.isascii()
        and (value == "\t" or (value.isprintable() and not value.isalnum() and value != '"'))
    )


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
    "separator": (_is_separator, 'one character, such as ";", "|" or "\\t"'),
    "decimal": (lambda value: value in (".", ",", "open"), '"." or ","'),
    "encoding": (_is_encoding, "a common encoding of text, such as utf-8, cp1252, latin-1 or utf-16"),
    "comment": (lambda value: _is_word(value) and value.isprintable() and '"' not in value, "a sign that begins a line, such as #"),
    "skip": (lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 0, "a whole number of lines"),
    "multiline": (lambda value: isinstance(value, bool), "true or false"),
    "columns": (_are_words, "a list of column names"),
    "sheet": (_is_word, "the name of a sheet"),
    "table": (_is_word, "the name of a table"),
    "labels": (lambda value: value == () or _are_words(value), "a list of column names"),
}
