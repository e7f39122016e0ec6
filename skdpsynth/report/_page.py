"""Pages: single HTML files without scripts or external resources."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from html import escape
from os import PathLike
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np

from skdpsynth._atomic_write import atomic_write, output_path
from skdpsynth._validation import check_string, check_type
from skdpsynth.auditing import PrivacyEvidence
from skdpsynth.metrics import QualityReport, numbers_table
from skdpsynth.plotting import EvidenceDisplay

_SVG, _LINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_ALLOWED_TAGS = {"svg", "g", "defs", "style", "path", "use", "text", "tspan", "image", "clipPath"}
_ALLOWED_TAGS |= {"rect", "circle", "line", "polygon", "polyline"}
_MOST_COLUMNS, _MOST_PAIRS = 100, 20
_MOST_ATTACKED = 40  # columns
_EVIDENCE_NUMBER = 1000  # of the picture: those of a card are counted from 0


@dataclass(frozen=True)
class Page:
    """One file of HTML: no script, and nothing that is loaded from elsewhere.

    Attributes
    ----------
    title : str
    html : str

    See Also
    --------
    card : A release card.
    quality_page : A report of quality.
    """

    title: str
    html: str = field(repr=False)

    @property
    def _is_public(self) -> bool:
        return False

    def to_html(self) -> str:
        """Return the page as text."""
        return self.html

    def save(self, path: str | PathLike[str]) -> None:
        """Write the page to a file, which is complete or not there.

        Parameters
        ----------
        path : str or path-like
            It ends in ".html", as a rule. An existing file is replaced. Only the owner may read a page that is not private.
        """
        with atomic_write(output_path(path), is_private=not self._is_public) as file:
            file.write(self.html.encode())

    def _repr_html_(self) -> str:
        # A frame of its own: neither styles the other, and the sandbox lets nothing run.
        style = "width:100%;height:40em;border:1px solid #ccc"
        return f'<iframe title="{escape(self.title)}" sandbox srcdoc="{escape(self.html)}" style="{style}"></iframe>'


def render_template(template: str, **values: Any) -> str:
    """Fill in a template of this package, escaping every value."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ModuleNotFoundError:
        raise ImportError("A release card needs jinja2: pip install 'skdpsynth[report]'.") from None
    environment = Environment(
        loader=PackageLoader("skdpsynth.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template(template).render(**values)


def inline_svg(svg: str, number: int, label: str) -> str:
    """Return an SVG document as an element of a page: scalable, with names of its own, and with a label for screen readers."""
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", _LINK)
    root, prefix = ElementTree.fromstring(svg), f"p{number}-"  # comments are dropped
    for element in list(root.iter()):
        for child in list(element):
            if child.tag.removeprefix(f"{{{_SVG}}}") not in _ALLOWED_TAGS:  # drop metadata and any script
                element.remove(child)
        for name, value in element.attrib.items():
            if name == "id":
                value = prefix + value
            elif name == f"{{{_LINK}}}href":
                value = re.sub("^#", f"#{prefix}", value)
            element.set(name, value.replace("url(#", f"url(#{prefix}"))
    for size in ("width", "height"):  # the box is left
        root.attrib.pop(size, None)
    root.attrib |= {"role": "img", "aria-label": label}
    return ElementTree.tostring(root, encoding="unicode")


def quality_page(quality: QualityReport, *, evidence: PrivacyEvidence | None = None, title: str = "Synthetic against real rows") -> Page:
    """Lay out a quality report as a page, for internal use: it is **not private**, and says so.

    Parameters
    ----------
    quality : QualityReport
        From `skdpsynth.metrics.quality_report`.
    evidence : PrivacyEvidence, default=None
        From `skdpsynth.auditing.privacy_evidence`: a section more.
    title : str, default="Synthetic against real rows"

    Returns
    -------
    page : Page

    Raises
    ------
    ImportError
        If jinja2 is not installed, or with `evidence` matplotlib.

    See Also
    --------
    skdpsynth.report.card : A card with ``audience="internal"`` has the same tables.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsynth.metrics import quality_report
    >>> from skdpsynth.report import quality_page
    >>> rng = np.random.default_rng(0)
    >>> quality_page(quality_report(rng.random((200, 2)), rng.random((200, 2)))).save("quality.html")  # doctest: +SKIP
    """
    check_type("quality", quality, QualityReport, "a QualityReport, from skdpsynth.metrics.quality_report")
    if evidence is not None:
        check_type("evidence", evidence, PrivacyEvidence, "None or a PrivacyEvidence, from skdpsynth.auditing.privacy_evidence")
    check_string("title", title)
    values = {"quality": quality, "tables": quality_tables(quality), **evidence_values(evidence)}
    return Page(title, render_template("quality.html", title=title, **values))


class QualityTable(NamedTuple):
    """A table of a quality report."""

    title: str
    words: str
    rows: list[tuple[str, ...]]
    heads: tuple[str, ...] = ("What", "Synthetic", "Real halves")  # the first of these
    n_words: int = 1  # columns that are no numbers


def quality_tables(quality: QualityReport | None) -> list[QualityTable]:
    if quality is None:
        return []
    halves = quality.halves or {}
    distances = {
        "Marginals, mean total variation": ("marginals", float(np.mean(list(quality.marginals.values())))),
        "Pairs, mean total variation": ("pairs", float(np.mean(list(quality.pairs.values()))) if quality.pairs else None),
        "Associations, mean difference": ("correlation_error", quality.correlation_error if quality.pairs else None),
        "Wasserstein distance, in shares of the bounds": ("wasserstein", quality.wasserstein),
    }
    short: list[tuple[str, ...]] = [
        (words, f"{value:.4f}", "" if halves.get(name) is None else f"{halves[name]:.4f}")
        for words, (name, value) in distances.items()
        if value is not None
    ]
    scores = {f"{quality.scoring}, after training on {rows} rows": value for rows, value in (quality.auc or {}).items()}
    heads, numbers = numbers_table(quality, _MOST_COLUMNS)
    number_heads = ("What", *(head[0].upper() + head[1:] for head in heads[1:]))
    tables = [
        QualityTable("In short", "0 is best. Beside each number stands that of two halves of the real rows.", short),
        _table_of_worst("Columns", "Total variation distance of each column", quality.marginals, _MOST_COLUMNS),
        QualityTable("Numbers", "The columns whose means are farthest off first.", numbers, number_heads, n_words=2),
        _table_of_worst("Pairs of columns", "Total variation distance of pairs", quality.pairs, _MOST_PAIRS),
        QualityTable("Use for prediction", "Scores on real rows: more is better.", _number_rows(scores.items())),
        QualityTable("Broken rules", "Shares of synthetic rows that break the schema.", _number_rows(quality.broken.items())),
    ]
    return [table._replace(heads=table.heads[: len(table.rows[0])]) for table in tables if table.rows]


def _table_of_worst(title: str, words: str, distances: Mapping[Any, float], most: int) -> QualityTable:
    worst = ", the worst first." if len(distances) <= most else f": the worst {most} of {len(distances)}."
    return QualityTable(title, words + worst, _number_rows(sorted(distances.items(), key=lambda each: -each[1]), most))


def _number_rows(numbers: Iterable[tuple[Any, float]], most: int = _MOST_COLUMNS) -> list[tuple[str, ...]]:
    return [(" x ".join(map(str, what)) if isinstance(what, tuple) else str(what), f"{value:.4f}") for what, value in list(numbers)[:most]]


def evidence_values(evidence: PrivacyEvidence | None) -> dict[str, Any]:
    """Return what templates show of attacks, made from real rows."""
    if evidence is None:
        return {"evidence": None}
    gaps = []
    for gap in (*evidence.gaps.values(), *list(evidence.by_column.values())[:_MOST_ATTACKED]):
        ends = f"{gap.low:+.4f} to {gap.high:+.4f}"
        gaps.append((gap.what[:1].upper() + gap.what[1:], f"{gap.train:.4f}", f"{gap.holdout:.4f}", f"{gap.difference:+.4f}", ends))
    svg = inline_svg(EvidenceDisplay.from_evidence(evidence).to_svg(), _EVIDENCE_NUMBER, " ".join(evidence.sentences()))
    return {"evidence": evidence, "gaps": gaps, "evidence_svg": svg}
