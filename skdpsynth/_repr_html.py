"""How objects look in notebooks: a small table, and a link to the page that explains them. Everything is escaped."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

DOCS_URL = "https://skdpsynth.readthedocs.io/en/stable/"
_CELL_STYLE = "text-align:left;vertical-align:top"


def html_table(title: str, rows: Iterable[Sequence[Any]], page: str, *, heads: Sequence[str] = (), more: str = "") -> str:
    """Return HTML for a notebook.

    Parameters
    ----------
    title : str
    rows : iterable of sequence
        Cells; they are written as text.
    page : str
        Of the documentation, that explains the object.
    heads : sequence of str, default=()
    more : str, default=""
        What stands below the table.
    """
    head = f"<tr>{''.join(_cell(name, 'th') for name in heads)}</tr>" if heads else ""
    body = "".join(f"<tr>{''.join(_cell(value, 'td') for value in row)}</tr>" for row in rows)
    below = f"<p>{escape(more)}</p>" if more else ""
    link = f"<a href='{escape(DOCS_URL + page)}' rel='noreferrer' target='_blank'>documentation</a>"
    return f"<div class='skdpsynth'><p><b>{escape(title)}</b> ({link})</p><table>{head}{body}</table>{below}</div>"


def _cell(value: Any, tag: str) -> str:
    return f"<{tag} style='{_CELL_STYLE}'>{escape('' if value is None else str(value))}</{tag}>"


def short_tuple_repr(values: Sequence[Any], most: int = 10) -> str:
    """Return a tuple as Python writes it; of a long one, the first and how many there are."""
    if len(values) <= most:
        return repr(tuple(values))
    return f"({', '.join(map(repr, values[:most]))}, ... {len(values)} in all)"
