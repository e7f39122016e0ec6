"""Texts for people: numbers, lists, and HTML for notebooks with links to the documentation. Everything in HTML is escaped."""

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

DOCS_URL = "https://skdpsynth.readthedocs.io/en/stable/"
_CELL_STYLE = "text-align:left;vertical-align:top"


def html_table(title: str, rows: Iterable[Sequence[Any]], page: str, *, heads: Sequence[str] = (), more: str = "") -> str:
    """Return a table of cells as text, with a link to a `page` of the documentation and the text `more` below."""
    head = f"<tr>{''.join(_cell(name, 'th') for name in heads)}</tr>" if heads else ""
    body = "".join(f"<tr>{''.join(_cell(value, 'td') for value in row)}</tr>" for row in rows)
    below = f"<p>{escape(more)}</p>" if more else ""
    link = f"<a href='{escape(DOCS_URL + page)}' rel='noreferrer' target='_blank'>documentation</a>"
    return f"<div class='skdpsynth'><p><b>{escape(title)}</b> ({link})</p><table>{head}{body}</table>{below}</div>"


def _cell(value: Any, tag: str) -> str:
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
