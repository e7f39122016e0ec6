"""Display of attacks on training and held-out rows."""

from dataclasses import dataclass
from typing import Any, Self

from skdpsynth._validation import check_attributes, short_repr
from skdpsynth.plotting._display import QUIET, REAL, SYNTHETIC, WARNING, Display, headline, panels, shorten, tidy

_WORDS = {
    "exact_copies": "among the\nsynthetic rows",
    "membership": "called\nmembers",
    "attributes": "cells\nguessed right",
    "closest_record": "distance to the\nclosest synthetic row",
}
_MOST_COLUMNS = 12


@dataclass(eq=False, repr=False)
class EvidenceDisplay(Display):
    """Results of attacks on training rows and on held-out rows: **not private**, because made from real rows.

    Make it by `from_evidence`, or call `plot` of the evidence. If nothing leaks, the two points of a line differ only by
    chance; the bar is the interval that chance explains around the held-out point.

    Parameters
    ----------
    gaps : dict of str to Gap
        The gap of each measure, by name.
    by_column : dict of column to Gap
    confidence : float

    Attributes
    ----------
    ax_ : matplotlib Axes
        The first panel, or the Axes that was given.
    axes_ : ndarray of matplotlib Axes
    figure_ : matplotlib Figure

    See Also
    --------
    skdpsynth.auditing.privacy_evidence : Makes what is drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsynth.auditing import privacy_evidence
    >>> from skdpsynth.plotting import EvidenceDisplay
    >>> train, holdout, synthetic = np.random.default_rng(0).random((3, 200, 2))
    >>> display = EvidenceDisplay.from_evidence(privacy_evidence(synthetic, train, holdout))
    >>> list(display.gaps)
    ['exact_copies', 'closest_record', 'membership', 'attributes']
    >>> figure = display.plot().figure_
    """

    gaps: Any
    by_column: Any
    confidence: float

    @classmethod
    def from_evidence(cls, evidence: Any) -> Self:
        """Return the display of a `PrivacyEvidence` from `skdpsynth.auditing.privacy_evidence`."""
        check_attributes(
            "evidence", evidence, ("gaps", "by_column", "confidence"), "a PrivacyEvidence, from skdpsynth.auditing.privacy_evidence"
        )
        return cls(dict(evidence.gaps), dict(evidence.by_column), evidence.confidence)

    def plot(self, ax: Any = None, *, title: str | None = None) -> Self:
        """Draw a line for each measure: where training rows are, where held-out rows are, and what chance explains.

        Parameters
        ----------
        ax : matplotlib Axes, Figure or SubFigure, default=None
            Place; an Axes is divided into a panel of shares and one of distances. None: a new figure.
        title : str, default=None

        Returns
        -------
        display : EvidenceDisplay
            Itself.
        """
        shares = [(_WORDS[name], self.gaps[name], True) for name in _WORDS if name in self.gaps and self.gaps[name].is_share]
        shares += [(f"guessed: {shorten(name)}", gap, False) for name, gap in list(self.by_column.items())[:_MOST_COLUMNS]]
        far = [(_WORDS[name], gap, True) for name, gap in self.gaps.items() if not gap.is_share]
        height = 1.9 + 0.42 * (len(shares) + len(far))
        axes, whole = panels(ax, (2, 1), (6.6, height), heights=[len(shares) + 0.6, len(far) + 0.6])
        for one, lines in zip(axes.flat, (shares, far), strict=True):
            _draw(one, lines)
        _as_shares(axes.flat[0])
        axes.flat[1].set_xlabel("distance (1: a usual range, or another level, in every column)", fontsize=8)
        _legend(axes.flat[0], self.confidence, any(gap.is_found for _, gap, _ in (*shares, *far)))
        headline(axes, whole, title, private=False)
        return self._remember_axes(axes, whole)


def _draw(ax: Any, lines: list[tuple[str, Any, bool]]) -> None:
    for place, (_, gap, is_main) in enumerate(lines):
        ax.plot(_chance_interval(gap), [place, place], color="0.82", linewidth=9, solid_capstyle="butt", zorder=1)
        ax.plot([gap.holdout, gap.train], [place, place], color=WARNING if gap.is_found else QUIET, linewidth=1.4, zorder=2)
        size = 7 if is_main else 5
        ax.plot(gap.holdout, place, "o", markersize=size, color="white", markeredgecolor=REAL, markeredgewidth=1.5, zorder=3)
        ax.plot(gap.train, place, "D", markersize=size - 1, color=WARNING if gap.is_found else SYNTHETIC, zorder=4)
    ax.set_yticks(range(len(lines)), [words for words, _, _ in lines], fontsize=8)
    for label, (_, _, is_main) in zip(ax.get_yticklabels(), lines, strict=True):
        label.set_color("0.1" if is_main else QUIET)
    ax.set_ylim(len(lines) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.tick_params(axis="x", labelsize=8)
    ax.set_xlim(*_ends(lines))
    tidy(ax)
    ax.grid(axis="x", color="0.93")
    ax.set_axisbelow(True)


def _chance_interval(gap: Any) -> tuple[float, float]:
    """Return where training rows may lie, around the held-out ones, for the interval of the difference to hold 0."""
    return max(0.0, gap.holdout - (gap.high - gap.difference)), gap.holdout + (gap.difference - gap.low)


def _ends(lines: list[tuple[str, Any, bool]]) -> tuple[float, float]:
    """Start the axis slightly below 0, so that points at 0 are seen whole."""
    most = max(max(gap.train, _chance_interval(gap)[1]) for _, gap, _ in lines)
    return -0.03 * most, 1.06 * most or 1.0


def _as_shares(ax: Any) -> None:
    from matplotlib.ticker import FuncFormatter

    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))
    ax.set_xlabel("share of rows, or of cells", fontsize=8)


def _legend(ax: Any, confidence: float, has_found: bool) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], marker="D", linestyle="", markersize=6, color=SYNTHETIC, label="training rows"),
        *[Line2D([], [], marker="D", linestyle="", markersize=6, color=WARNING, label="training rows that stand out")] * has_found,
        Line2D([], [], marker="o", linestyle="", markersize=7, color="white", markeredgecolor=REAL, label="held-out rows"),
        Line2D([], [], color="0.82", linewidth=7, label=f"what chance explains ({100 * confidence:g} %)"),
    ]
    ax.legend(handles=handles, frameon=False, fontsize=8, loc="lower center", bbox_to_anchor=(0.42, 1.0), ncols=2 if has_found else 3)


@dataclass(eq=False, repr=False)
class AuditDisplay(Display):
    """Lower bounds of audits, each as a share of what is promised: a line that reaches beyond 1 refutes its promise.

    Make it by `from_results`, or call `plot` of a result. If the ledger promises a mu, the bound on mu is drawn, else the one on epsilon. A
    short stroke marks the most that so many runs could have shown, where that is below the promise.

    Parameters
    ----------
    results : dict of str to AuditResult

    Attributes
    ----------
    ax_ : matplotlib Axes
    axes_ : ndarray of matplotlib Axes
    figure_ : matplotlib Figure

    See Also
    --------
    skdpsynth.auditing.audit_epsilon, skdpsynth.auditing.audit_one_run : Make what is drawn.

    Examples
    --------
    >>> from skdpsynth import SignedMeasureMechanism
    >>> from skdpsynth.auditing import audit_epsilon, worst_case_neighbors
    >>> from skdpsynth.plotting import AuditDisplay
    >>> psmm = SignedMeasureMechanism(2)
    >>> result = audit_epsilon(psmm, *worst_case_neighbors(psmm, 20), n_trials=100)
    >>> figure = AuditDisplay.from_results({"PSMM": result}).plot().figure_
    """

    results: Any

    @classmethod
    def from_results(cls, results: Any) -> Self:
        """Return the display of an `AuditResult`, or of a dict of them by name: one line each."""
        results = dict(results) if isinstance(results, dict) else {"": results}
        if not results or not all(hasattr(result, "epsilon_most") for result in results.values()):
            raise ValueError(f"results must be an AuditResult, or a dict of them by name, got {short_repr(results)}; see audit_epsilon.")
        return cls(results)

    def plot(self, ax: Any = None, *, title: str | None = None) -> Self:
        """Draw a line for each audit, from 0 to its bound, and the promise at 1.

        Parameters
        ----------
        ax : matplotlib Axes, Figure or SubFigure, default=None
            Place to draw. None: a new figure.
        title : str, default=None

        Returns
        -------
        display : AuditDisplay
            Itself.
        """
        axes, whole = panels(ax, (1, 1), (6.6, 1.5 + 0.42 * len(self.results)))
        one, most = axes.flat[0], 1.0
        for place, result in enumerate(self.results.values()):
            bound, promised, reach, letter = _measure_of(result)
            color = WARNING if result.is_broken else SYNTHETIC
            one.barh(place, bound / promised, height=0.5, color=color)
            words = f"{letter} ≥ {bound:.3g}, promised {promised:.3g}"
            one.text(max(1.0, bound / promised) + 0.03, place, words, va="center", fontsize=8, color=color if result.is_broken else QUIET)
            if reach is not None and reach < promised:
                one.plot([reach / promised] * 2, [place - 0.34, place + 0.34], color=QUIET, linewidth=1.4)
            most = max(most, bound / promised)
        one.axvline(1.0, color="0.1", linewidth=1.2, zorder=3)
        one.text(1.0, -0.62, "promised", ha="center", va="bottom", fontsize=8)
        one.set_yticks(range(len(self.results)), [shorten(name, 34) for name in self.results], fontsize=8)
        one.set_ylim(len(self.results) - 0.4, -0.6)
        one.set_xlim(0, 1.55 * most)
        one.tick_params(axis="y", length=0)
        one.tick_params(axis="x", labelsize=8)
        levels = {result.confidence for result in self.results.values()}
        sure = f" ({100 * min(levels):g} % confidence each)" if levels else ""
        one.set_xlabel(f"lower bound as a share of what is promised{sure}", fontsize=8)
        tidy(one)
        headline(axes, whole, title, pad=18.0)
        return self._remember_axes(axes, whole)


def _measure_of(result: Any) -> tuple[float, float, float | None, str]:
    """Return the bound, the promise, the largest bound that could have been shown (None: unknown), and the letter."""
    if result.mu is None:
        return result.epsilon_lower, result.epsilon, result.epsilon_most, "ε"
    return result.mu_lower, result.mu, None, "μ"
