"""Displays of privacy: what a budget was spent on, what to expect of it, and what attacks and audits found."""

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from skdpsynth._text import format_number
from skdpsynth._validation import check_attributes, check_choice, check_type, short_repr
from skdpsynth.plotting._display import Axes, Color, Display, Place, draw_mean_and_range, label_epsilons, name_rows, panels, shorten, tidy
from skdpsynth.privacy import PrivacyAccountant

_MOST_LINES = 12  # of a budget
_MOST_OF_GROUP = 4  # a stream has a part for each of its blocks
_MANY = 12  # times that the largest error is the smallest, from where the scale is logarithmic
_MOST_COLUMNS = 12
_WORDS = {
    "exact_copies": "among the\nsynthetic rows",
    "near_copies": "nearly equal\na synthetic row",
    "membership": "called\nmembers",
    "attributes": "cells\nguessed right",
    "closest_record": "distance to the\nclosest synthetic row",
}


@dataclass(eq=False, repr=False)
class BudgetDisplay(Display):
    """The expenses of a privacy budget, and the rest.

    Make it by `from_accountant`. A ledger tells nothing of the rows, so the picture is public.

    Parameters
    ----------
    names : tuple of str
        Names of the releases, in the order of the charges; equal names are one line, and so are many parts of a group.
    epsilons : tuple of float
        Increase of the spent epsilon by each.
    noises : tuple of str or None
        The noise, in words.
    epsilon, delta : float
        The budget.
    spent, spent_delta : float
    relation : str, default="replace_one"
        Under which the losses are stated.

    {drawn}

    See Also
    --------
    skdpsynth.PrivacyAccountant.to_frame : The same as a table.

    Examples
    --------
    >>> from skdpsynth import PrivacyAccountant
    >>> from skdpsynth.plotting import BudgetDisplay
    >>> budget = PrivacyAccountant(2.0)
    >>> budget.spend(0.5, name="synthetic patients")
    >>> display = BudgetDisplay.from_accountant(budget)
    >>> display.names, display.epsilons
    (('synthetic patients',), (0.5,))
    >>> figure = display.plot().figure_
    """

    names: tuple[str, ...]
    epsilons: tuple[float, ...]
    noises: tuple[str | None, ...]
    epsilon: float
    delta: float
    spent: float
    spent_delta: float
    relation: str = "replace_one"

    @classmethod
    def from_accountant(cls, accountant: PrivacyAccountant) -> Self:
        """Return the display of a `PrivacyAccountant`, open or a record, such as ``accountant_`` of a fitted model."""
        check_type("accountant", accountant, PrivacyAccountant, "a PrivacyAccountant, such as accountant_ of a fit")
        charges = list(accountant.charges())
        sizes = Counter(entry.group for entry, *_ in charges if entry.group)
        lines: dict[str, list[tuple[float, str | None]]] = {}
        for entry, epsilon, _ in charges:
            name = entry.group if entry.group and sizes[entry.group] > _MOST_OF_GROUP else entry.name
            lines.setdefault(name, []).append((float(epsilon), accountant.noise_of(entry)))
        names = tuple(
            name if len(line) == 1 else f"{name} ({len(line)} {'parts' if sizes[name] > _MOST_OF_GROUP else 'times'})"
            for name, line in lines.items()
        )
        epsilons = tuple(sum(epsilon for epsilon, _ in line) for line in lines.values())
        noises = tuple("; ".join(dict.fromkeys(noise for _, noise in line if noise)) or None for line in lines.values())
        budget, spent = (float(accountant.epsilon), float(accountant.delta)), (float(accountant.spent), float(accountant.spent_delta))
        return cls(names, epsilons, noises, *budget, *spent, accountant.neighboring)

    def plot(self, ax: Place = None, *, title: str | None = None, **options: Any) -> Self:
        """Draw a bar for each release, where the one before ends, up to what was spent, and what remains.

        {place}
        **options : dict
            Passed to ``Axes.barh``, for the bars of the expenses.

        {itself}
        """
        lines = list(zip(self.names, self.epsilons, self.noises, strict=True))
        if len(lines) > _MOST_LINES:  # join the small ones
            large = sorted(sorted(range(len(lines)), key=lambda i: -lines[i][1])[: _MOST_LINES - 1])
            rest = [epsilon for i, (_, epsilon, _) in enumerate(lines) if i not in large]
            lines = [*(lines[i] for i in large), (f"{len(rest)} others", sum(rest), None)]
        axes, _ = panels(ax, (1, 1), (7.2, 0.42 * (len(lines) + 1) + 1.1))
        place = axes[0, 0]
        if math.isinf(self.spent):
            place.text(0.5, 0.5, "epsilon is infinite: no noise, not private", ha="center", va="center", color=Color.WARNING)
            place.set_axis_off()
        else:
            end = self.spent if math.isinf(self.epsilon) else max(self.epsilon, self.spent)
            self._draw_expenses(place, lines, end, {"color": Color.SYNTHETIC, "height": 0.6, **options})
            names = [shorten(name, 34) for name, _, _ in lines]
            if not math.isinf(self.epsilon):
                self._draw_rest(place, len(lines))
                names.append("remains")
            name_rows(place, names)
            place.set_xlim(0, end * 1.01)
            delta = f", delta {self.spent_delta:.3g} of {self.delta:.3g}" if self.delta else ""
            place.set_xlabel(f"epsilon: {self.spent:.4g} of {self.epsilon:.4g} spent{delta} ({self.relation})", fontsize=8.5)
        return self._finish(axes, None, title)

    def _draw_expenses(self, ax: Axes, lines: list[tuple[str, float, str | None]], end: float, style: dict[str, Any]) -> None:
        start, gap = 0.0, 0.012 * end
        for place, (_, epsilon, noise) in enumerate(lines):
            ax.barh(place, epsilon, left=start, **style)
            stop = start + epsilon
            # Words stand beside the bar where there is more room; in it, if it takes nearly all.
            free = {"after": end - stop, "before": start, "in": 0.7 * epsilon}
            where = max(free, key=lambda side: free[side])
            room = int(96 * free[where] / end) - 8  # about as many letters as that holds
            words = f"{epsilon:.3g}" + (f"   {shorten(noise, room)}" if noise and room > 8 else "")
            side = {"after": stop + gap, "before": start - gap, "in": start + gap}[where]
            color = "white" if where == "in" else Color.QUIET
            ax.text(side, place, words, ha="right" if where == "before" else "left", va="center", fontsize=7.5, color=color)
            start = stop

    def _draw_rest(self, ax: Axes, place: int) -> None:
        rest = max(self.epsilon - self.spent, 0.0)
        is_nothing = rest < 1e-5 * self.epsilon  # conversions to epsilon leave a small rest
        if not is_nothing:
            ax.barh(place, rest, left=self.spent, height=0.6, color=Color.PALE, edgecolor="0.6", linewidth=0.6)
        is_narrow = rest < 0.08 * self.epsilon
        words, side = "nothing" if is_nothing else f"{rest:.3g}", self.spent - 0.012 * self.epsilon if is_narrow else self.spent + rest / 2
        ax.text(side, place, words, ha="right" if is_narrow else "center", va="center", fontsize=7.5, color=Color.QUIET)
        ax.axvline(self.epsilon, color=Color.QUIET, linewidth=1)


@dataclass(eq=False, repr=False)
class PlanDisplay(Display):
    """Expected errors over epsilon, between those without privacy and those without data.

    Make it by `from_plan`. A plan is simulated on made-up rows, so the picture is public.

    Parameters
    ----------
    plan : SpendingPlan

    {drawn}

    See Also
    --------
    skdpsynth.model_selection.plan : Makes a plan.

    Examples
    --------
    >>> from skdpsynth import PrivateMeasureMechanism
    >>> from skdpsynth.model_selection import plan
    >>> from skdpsynth.plotting import PlanDisplay
    >>> expected = plan(PrivateMeasureMechanism(), n_samples=2000, n_features=1, epsilons=[0.1, 1], random_state=0)
    >>> figure = PlanDisplay.from_plan(expected).plot(measure="wasserstein").figure_
    """

    plan: Any  # as are all results here, of rooms above this one

    @classmethod
    def from_plan(cls, plan: Any) -> Self:
        """Return the display of a `SpendingPlan` from `skdpsynth.model_selection.plan`."""
        check_attributes("plan", plan, ("lines", "measures", "no_privacy"), "a SpendingPlan, as skdpsynth.model_selection.plan returns it")
        return cls(plan)

    def plot(self, ax: Place = None, *, title: str | None = None, measure: str | None = None) -> Self:
        """Draw the mean error at each epsilon, and the range of the simulated ones.

        A new figure has a panel for each measure, and a title that names the estimator and the rows; an Axes has one panel.

        {place}
        measure : str, default=None
            The name of one of the measures of the plan. None: all of them; the main one, where `ax` is an Axes.

        {itself}
        """
        names = [each.name for each in self.plan.measures]
        on_one = ax is not None and not hasattr(ax, "subplots")
        names = [check_choice("measure", measure, names)] if measure is not None else names[:1] if on_one else names
        axes, _ = panels(ax, (1, len(names)), (1.2 + 3.9 * len(names), 3.9))
        for place, each in enumerate(self.plan.measures):
            if each.name in names:
                one = axes.flat[names.index(each.name)]
                self._draw(one, place)
                one.set_title(each.title, fontsize=10)
        if len(list(self.plan.lines())) > 1:
            axes.flat[0].legend(frameon=False, fontsize=8, loc="best")
        if not on_one:
            heading = f"{self.plan.estimator}, {self.plan.n_samples:,} rows: what to expect before spending"
            axes.flat[0].figure.suptitle(heading if title is None else title, fontsize=11)
        return self._finish(axes, None, title if on_one else None)

    def _draw(self, ax: Axes, place: int) -> None:
        curves = list(self.plan.lines())
        for (words, points), color in zip(curves, Color.SERIES * len(curves), strict=False):
            epsilons = np.concatenate([np.full(len(point.errors), point.epsilon) for point in points])
            errors = np.concatenate([point.errors[:, place] for point in points])
            draw_mean_and_range(ax, epsilons, errors, color=color, marker="o", label=words or None)
        label_epsilons(ax, [point.epsilon for point in self.plan.points])
        no_data, no_privacy = self.plan.no_data[place], self.plan.no_privacy[place]
        least = min(point.mean[place] for point in self.plan.points)
        low, high = 0.0, max(no_data, *(point.errors[:, place].max() for point in self.plan.points))
        if is_log := high > _MANY * least:
            low = 0.6 * max(least, 1e-9 * high)
            high *= (high / low) ** 0.12
            ax.set_yscale("log")
            ax.locator_params(axis="y", subs=(1, 3) if high < 1e4 * low else (1,))
            ax.yaxis.set_minor_formatter("")
        else:
            high *= 1.15
        ax.set_ylim(low, high)
        ax.set_ylabel("error, logarithmic scale" if is_log else "error, linear scale from 0", fontsize=8)
        ax.yaxis.set_major_formatter("{x:,.10g}")
        ax.tick_params(which="minor", length=0)
        tidy(ax, grid="y")
        # No data is named at the right and no privacy at the left, clear of the curves. On a linear scale errors come near to no privacy,
        # so its name stands below the line if there is room.
        is_beneath = 0 < no_privacy <= low
        words = f"no privacy: {format_number(no_privacy)}, below" if is_beneath else "no privacy"
        is_under = not is_log and no_privacy > 0.05 * high
        _draw_reference(ax, no_data, "--", "no data: a uniform guess", (0.99, "right"), 3)
        _draw_reference(ax, low if is_beneath else no_privacy, ":", words, (0.01, "left"), -3 if is_under else 3)


def _draw_reference(ax: Axes, value: float, line: str, words: str, side: tuple[float, str], offset: int) -> None:
    ax.axhline(value, color=Color.QUIET, linestyle=line, linewidth=1, zorder=1)
    where: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "fontsize": 8, "color": Color.QUIET}
    ax.annotate(words, (side[0], value), (0, offset), ha=side[1], va="bottom" if offset > 0 else "top", **where)


@dataclass(eq=False, repr=False)
class EvidenceDisplay(Display):
    """Results of attacks on training rows and on held-out rows: **not private**, because made from real rows.

    Make it by `from_evidence`, or call `plot` of the evidence. If nothing leaks, the two points of a line differ only by
    chance; the bar is the interval that chance explains around the held-out point.

    Parameters
    ----------
    evidence : PrivacyEvidence

    {drawn}

    See Also
    --------
    skdpsynth.auditing.privacy_evidence : Makes what is drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsynth.auditing import privacy_evidence
    >>> from skdpsynth.plotting import EvidenceDisplay
    >>> train, holdout, synthetic = np.random.default_rng(0).random((3, 200, 2))
    >>> figure = EvidenceDisplay.from_evidence(privacy_evidence(synthetic, train, holdout)).plot().figure_
    """

    evidence: Any

    @classmethod
    def from_evidence(cls, evidence: Any) -> Self:
        """Return the display of a `PrivacyEvidence` from `skdpsynth.auditing.privacy_evidence`."""
        what = "a PrivacyEvidence, from skdpsynth.auditing.privacy_evidence"
        check_attributes("evidence", evidence, ("gaps", "by_column", "confidence"), what)
        return cls(evidence)

    def plot(self, ax: Place = None, *, title: str | None = None) -> Self:
        """Draw a line for each measure: where training rows are, where held-out rows are, and what chance explains.

        {place}

        {itself}
        """
        from matplotlib.lines import Line2D

        gaps = self.evidence.gaps
        shares = [(words, gaps[name], True) for name, words in _WORDS.items() if name in gaps and gaps[name].is_share]
        shares += [(f"guessed: {shorten(name)}", gap, False) for name, gap in list(self.evidence.by_column.items())[:_MOST_COLUMNS]]
        far = [(_WORDS[name], gap, True) for name, gap in gaps.items() if not gap.is_share]
        height = 1.9 + 0.42 * (len(shares) + len(far))
        axes, whole = panels(ax, (2, 1), (6.6, height), height_ratios=[len(shares) + 0.6, len(far) + 0.6])
        for one, lines in zip(axes.flat, (shares, far), strict=True):
            _draw_lines(one, lines)
        top, bottom = axes.flat
        top.xaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
        top.set_xlabel("share of rows, or of cells", fontsize=8)
        bottom.set_xlabel("distance (1: a usual range, or another level, in every column)", fontsize=8)
        has_found = any(gap.is_found for _, gap, _ in (*shares, *far))
        point: dict[str, Any] = {"color": Color.SYNTHETIC, "marker": "D", "linestyle": "", "markersize": 6, "label": "training rows"}
        styles: list[dict[str, Any]] = [
            point,
            *[{**point, "color": Color.WARNING, "label": "training rows that stand out"}] * has_found,
            {**point, "marker": "o", "markersize": 7, "color": "white", "markeredgecolor": Color.REAL, "label": "held-out rows"},
            {"color": "0.82", "linewidth": 7, "label": f"what chance explains ({100 * self.evidence.confidence:g} %)"},
        ]
        place: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.42, 1.0), "ncols": 2 if has_found else 3}
        top.legend(handles=[Line2D([], [], **style) for style in styles], frameon=False, fontsize=8, **place)
        return self._finish(axes, whole, title, is_private=False)


def _draw_lines(ax: Axes, lines: list[tuple[str, Any, bool]]) -> None:
    most = 0.0
    for place, (_, gap, is_main) in enumerate(lines):
        # Where training rows may lie, around the held-out ones, for the interval of the difference to hold 0.
        chance = max(0.0, gap.holdout - (gap.high - gap.difference)), gap.holdout + (gap.difference - gap.low)
        size, color = 7 if is_main else 5, Color.WARNING if gap.is_found else Color.SYNTHETIC
        ax.plot(chance, [place, place], color="0.82", linewidth=9, solid_capstyle="butt", zorder=1)
        ax.plot([gap.holdout, gap.train], [place, place], color=Color.WARNING if gap.is_found else Color.QUIET, linewidth=1.4, zorder=2)
        ax.plot(gap.holdout, place, "o", markersize=size, color="white", markeredgecolor=Color.REAL, markeredgewidth=1.5, zorder=3)
        ax.plot(gap.train, place, "D", markersize=size - 1, color=color, zorder=4)
        most = max(most, gap.train, chance[1])
    name_rows(ax, [words for words, _, _ in lines], grid="x")
    for label, (_, _, is_main) in zip(ax.get_yticklabels(), lines, strict=True):
        label.set_color("0.1" if is_main else Color.QUIET)
    ax.set_xlim(-0.03 * most, 1.06 * most or 1.0)  # points at 0 are seen whole


@dataclass(eq=False, repr=False)
class AuditDisplay(Display):
    """Lower bounds of audits, each as a share of what is promised: a line that reaches beyond 1 refutes its promise.

    Make it by `from_results`, or call `plot` of a result. If the ledger promises a mu, the bound on mu is drawn, else the one on epsilon. A
    short stroke marks the most that so many runs could have shown, where that is below the promise.

    Parameters
    ----------
    results : dict of str to AuditResult

    {drawn}

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

    results: dict[str, Any]

    @classmethod
    def from_results(cls, results: Any) -> Self:
        """Return the display of an `AuditResult`, or of a dict of them by name: one line each."""
        results = dict(results) if isinstance(results, dict) else {"": results}
        if not results or not all(hasattr(result, "epsilon_most") for result in results.values()):
            raise ValueError(f"results must be an AuditResult, or a dict of them by name, got {short_repr(results)}; see audit_epsilon.")
        return cls(results)

    def plot(self, ax: Place = None, *, title: str | None = None) -> Self:
        """Draw a line for each audit, from 0 to its bound, and the promise at 1.

        {place}

        {itself}
        """
        axes, _ = panels(ax, (1, 1), (6.6, 1.5 + 0.42 * len(self.results)))
        one, most = axes.flat[0], 1.0
        for place, result in enumerate(self.results.values()):
            bound, promised, letter = result.epsilon_lower, result.epsilon, "ε"
            if result.mu is not None:
                bound, promised, letter = result.mu_lower, result.mu, "μ"
            elif result.epsilon_most is not None and result.epsilon_most < promised:
                one.plot([result.epsilon_most / promised] * 2, [place - 0.34, place + 0.34], color=Color.QUIET, linewidth=1.4)
            one.barh(place, bound / promised, height=0.5, color=Color.WARNING if result.is_broken else Color.SYNTHETIC)
            color = Color.WARNING if result.is_broken else Color.QUIET
            words = f"{letter} ≥ {bound:.3g}, promised {promised:.3g}"
            one.text(max(1.0, bound / promised) + 0.03, place, words, va="center", fontsize=8, color=color)
            most = max(most, bound / promised)
        one.axvline(1.0, color="0.1", linewidth=1.2, zorder=3)
        one.text(1.0, -0.62, "promised", ha="center", va="bottom", fontsize=8)
        name_rows(one, [shorten(name, 34) for name in self.results])
        one.set_xlim(0, 1.55 * most)
        sure = min(result.confidence for result in self.results.values())
        one.set_xlabel(f"lower bound as a share of what is promised ({100 * sure:g} % confidence each)", fontsize=8)
        return self._finish(axes, None, title, pad=18.0)
