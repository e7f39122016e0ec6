"""Texts for people: numbers, lists, and HTML for notebooks with links to the documentation. Everything in HTML is escaped."""

import math
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Any

DOCS_URL = "https://skdpsynth.readthedocs.io/en/stable/"
_CELL_STYLE = "text-align:left;vertical-align:top"


def html_table(title: str, rows: Iterable[Sequence[Any]], page: str, *, heads: Sequence[str] = (), more: str = "") -> str:
    """Return a table of cells as text, with a link to a `page` of the documentation and the text `more` below."""
    below = f"<p>{escape(more)}</p>" if more else ""
    link = f"<a href='{escape(DOCS_URL + page)}' rel='noreferrer' target='_blank'>documentation</a>"
    return f"<div class='skdpsynth'><p><b>{escape(title)}</b> ({link})</p>{_table(heads, rows)}{below}</div>"


def _table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = ([_cell(name, "th") for name in heads], *([_cell(value, "td") for value in row] for row in rows))
    return f"<table>{''.join(f'<tr>{cells}</tr>' for cells in map(''.join, lines) if cells)}</table>"


def _cell(value: object, tag: str) -> str:
    return f"<{tag} style='{_CELL_STYLE}'>{escape('' if value is None else str(value))}</{tag}>"


def short_tuple_repr(values: Sequence[Any], most: int = 10) -> str:
    """Return a tuple as Python writes it; of a long one, the first elements and their number."""
    if len(values) <= most:
        return repr(tuple(values))
    return f"({', '.join(map(repr, values[:most]))}, ... {len(values)} in all)"


def format_number(value: float) -> str:
    return f"{value:.2g}" if abs(value) < 99.5 else f"{value:,.0f}"


def percent_at_most(share: float) -> str:
    """Return a share in percent, rounded up."""
    digits = 1 if share >= 0.001 or not share else -math.floor(math.log10(share)) - 1  # two that tell
    return f"{math.ceil(100 * share * 10**digits * (1 - 1e-9)) / 10**digits:.12g} %"


def join_words(words: Sequence[str], conjunction: str) -> str:
    *most, last = words
    return f"{', '.join(most)} {conjunction} {last}" if most else last


class Result:
    """A frozen result for people: `to_records` has its numbers, and `_parts` what is shown, as text and in a notebook."""

    def _parts(self) -> Iterator[str | list[tuple[str, ...]]]:
        """Yield paragraphs and tables; a table is a list of rows of cells, the heads first."""
        raise NotImplementedError

    def to_records(self) -> list[dict[str, Any]]:
        """Return all numbers as a list of dicts: the rows of `to_frame`, without pandas."""
        return [dict(vars(self))]

    def to_frame(self) -> Any:
        """Return all numbers as a data frame of pandas, a row for each record of `to_records`.

        Returns
        -------
        frame : DataFrame
        """
        import pandas as pd

        records, kinds = self.to_records(), {"what": object, "column": object}  # names of columns stay what they are
        return pd.DataFrame({name: pd.Series([each[name] for each in records], dtype=kinds.get(name)) for name in records[0]})

    def __str__(self) -> str:
        return "\n\n".join(part if isinstance(part, str) else _align(part) for part in self._parts())

    def _repr_html_(self) -> str:
        shown = ""
        for part in self._parts():
            words = [f"<p>{escape(line)}</p>" for line in part.split("\n")] if isinstance(part, str) else [_table(part[0], part[1:])]
            shown += "".join(words)
        return f"<div class='skdpsynth'>{shown}</div>"


def _align(table: list[tuple[str, ...]]) -> str:
    """Return the lines of a table, its first column to the left and all others to the right."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return "\n".join("  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in table)
