"""What attacks found, as a part of a page for internal use; it tells of real rows."""

from dataclasses import dataclass, field
from typing import Self

from skdpsynth.auditing import Gap, PrivacyEvidence
from skdpsynth.plotting import EvidenceDisplay
from skdpsynth.report._pictures import inline_svg

_MOST_COLUMNS = 40
_NUMBER = 1000  # of the picture: those of a card are counted from 0


@dataclass(frozen=True)
class EvidenceSection:
    """A section of a page.

    Attributes
    ----------
    sentences : list of str
        What was found, and last what it does not prove.
    is_found : bool
    heads : tuple of str
    rows : list of tuple of str
    svg : str
    """

    sentences: list[str]
    is_found: bool
    heads: tuple[str, ...]
    rows: list[tuple[str, ...]]
    svg: str = field(repr=False)

    @classmethod
    def of(cls, evidence: PrivacyEvidence) -> Self:
        """Lay out what attacks found."""
        heads = ("Attack", "Training rows", "Held-out rows", "Difference", f"{100 * evidence.confidence:g} % interval")
        gaps = [*evidence.gaps.values(), *list(evidence.by_column.values())[:_MOST_COLUMNS]]
        svg = inline_svg(EvidenceDisplay.from_evidence(evidence).to_svg(), _NUMBER, " ".join(evidence.sentences()))
        return cls(evidence.sentences(), evidence.is_found, heads, [_cells(gap) for gap in gaps], svg)


def _cells(gap: Gap) -> tuple[str, ...]:
    what = gap.what[:1].upper() + gap.what[1:]
    return what, f"{gap.train:.4f}", f"{gap.holdout:.4f}", f"{gap.difference:+.4f}", f"{gap.low:+.4f} to {gap.high:+.4f}"
