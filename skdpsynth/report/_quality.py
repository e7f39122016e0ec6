"""Quality reports as pages."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from skdpsynth._validation import check_string, check_type
from skdpsynth.auditing import Gap, PrivacyEvidence
from skdpsynth.metrics import QualityReport, numbers_table
from skdpsynth.plotting import EvidenceDisplay
from skdpsynth.report._page import Page, inline_svg, render_template

_MOST_COLUMNS, _MOST_PAIRS = 100, 20
_MOST_ATTACKED = 40  # columns
_NUMBER = 1000  # of the picture: those of a card are counted from 0


@dataclass(frozen=True)
class QualityTable:
    """A table of a quality report; rows are (what, value for synthetic rows[, value between halves of the real ones])."""

    title: str
    words: str
    rows: tuple[tuple[str, ...], ...]
    named: tuple[str, ...] = ()  # heads of other columns

    @property
    def heads(self) -> tuple[str, ...]:
        return self.named or ("What", "Synthetic", "Real halves")[: len(self.rows[0])]


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
    section = None if evidence is None else EvidenceSection.of(evidence)
    check_string("title", title)
    return Page(title, render_template("quality.html", title=title, quality=quality, tables=quality_tables(quality), evidence=section))


def quality_tables(quality: QualityReport) -> tuple[QualityTable, ...]:
    marginals = sorted(quality.marginals.items(), key=lambda each: -each[1])
    pairs = sorted(quality.pairs.items(), key=lambda each: -each[1])
    heads, numbers = numbers_table(quality, _MOST_COLUMNS)
    tables = [
        QualityTable("In short", "0 is best. Beside each number stands that of two halves of the real rows.", tuple(_summary(quality))),
        QualityTable(
            "Columns", _describe_worst("Total variation distance of each column", marginals, _MOST_COLUMNS), _rows(marginals, _MOST_COLUMNS)
        ),
        QualityTable(
            "Numbers",
            "The columns whose means are farthest off first.",
            tuple(numbers),
            ("What", *(head[0].upper() + head[1:] for head in heads[1:])),
        ),
        QualityTable(
            "Pairs of columns", _describe_worst("Total variation distance of pairs", pairs, _MOST_PAIRS), _rows(pairs, _MOST_PAIRS)
        ),
        QualityTable("Use for prediction", "Scores on real rows: more is better.", tuple(_scores(quality))),
        QualityTable("Broken rules", "Shares of synthetic rows that break the schema.", _rows(quality.broken.items(), _MOST_COLUMNS)),
    ]
    return tuple(table for table in tables if table.rows)


def _summary(quality: QualityReport) -> Iterator[tuple[str, ...]]:
    halves = quality.halves or {}
    yield "Marginals, mean total variation", _mean(quality.marginals), _number(halves.get("marginals"))
    if quality.pairs:
        yield "Pairs, mean total variation", _mean(quality.pairs), _number(halves.get("pairs"))
        yield "Associations, mean difference", _number(quality.correlation_error), _number(halves.get("correlation_error"))
    yield "Wasserstein distance, in shares of the bounds", _number(quality.wasserstein), _number(halves.get("wasserstein"))


def _scores(quality: QualityReport) -> Iterator[tuple[str, ...]]:
    for rows, value in (quality.auc or {}).items():
        yield f"{quality.scoring}, after training on {rows} rows", _number(value)


def _rows(found: Any, most: int) -> tuple[tuple[str, str], ...]:
    return tuple(
        (" x ".join(map(str, what)) if isinstance(what, tuple) else str(what), _number(value)) for what, value in list(found)[:most]
    )


def _describe_worst(words: str, found: list, most: int) -> str:
    return f"{words}, the worst first." if len(found) <= most else f"{words}: the worst {most} of {len(found)}."


def _mean(distances: Mapping[Any, float]) -> str:
    return _number(float(np.mean(list(distances.values()))))


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


@dataclass(frozen=True)
class EvidenceSection:
    """A section of an internal page, made from real rows."""

    sentences: list[str]  # the last one says what the results do not prove
    is_found: bool
    heads: tuple[str, ...]
    rows: list[tuple[str, ...]]
    svg: str = field(repr=False)

    @classmethod
    def of(cls, evidence: PrivacyEvidence) -> Self:
        heads = ("Attack", "Training rows", "Held-out rows", "Difference", f"{100 * evidence.confidence:g} % interval")
        gaps = [*evidence.gaps.values(), *list(evidence.by_column.values())[:_MOST_ATTACKED]]
        svg = inline_svg(EvidenceDisplay.from_evidence(evidence).to_svg(), _NUMBER, " ".join(evidence.sentences()))
        return cls(evidence.sentences(), evidence.is_found, heads, [_cells(gap) for gap in gaps], svg)


def _cells(gap: Gap) -> tuple[str, ...]:
    what = gap.what[:1].upper() + gap.what[1:]
    return what, f"{gap.train:.4f}", f"{gap.holdout:.4f}", f"{gap.difference:+.4f}", f"{gap.low:+.4f} to {gap.high:+.4f}"
