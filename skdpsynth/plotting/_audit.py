"""Display of audits."""

from dataclasses import dataclass
from typing import Any, Self

from skdpsynth._validation import short_repr
from skdpsynth.plotting._display import QUIET, SYNTHETIC, WARNING, Display, headline, panels, shorten, tidy


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
