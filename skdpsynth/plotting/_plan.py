"""Display of a plan: expected errors over epsilon."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from skdpsynth._text import format_number
from skdpsynth._validation import check_attributes, check_choice
from skdpsynth.plotting._display import COLORS, QUIET, Display, draw_mean_and_range, epsilon_axis, headline, panels, tidy

_MANY = 12  # times that the largest error is the smallest, from where the scale is logarithmic


@dataclass(eq=False, repr=False)
class PlanDisplay(Display):
    """Expected errors over epsilon, between those without privacy and those without data.

    Make it by `from_plan`. A plan is simulated on made-up rows, so the picture is public.

    Parameters
    ----------
    measures : dict of str to str
        Title of each measure of error, by its name; the main one first.
    curves : dict of str to (ndarray, ndarray)
        Label of each curve to its epsilons, shape (n_runs,), and errors, shape (n_runs, n_measures); several runs at each epsilon.
    no_data, no_privacy : ndarray of shape (n_measures,)
        Errors of a uniform guess, and at ``epsilon=inf``.
    heading : str, default=""

    Attributes
    ----------
    ax_ : matplotlib Axes
        The first panel, or the Axes that was given.
    axes_ : ndarray of matplotlib Axes
    figure_ : matplotlib Figure

    See Also
    --------
    skdpsynth.model_selection.plan : Makes a plan.

    Examples
    --------
    >>> from skdpsynth import PrivateMeasureMechanism
    >>> from skdpsynth.model_selection import plan
    >>> from skdpsynth.plotting import PlanDisplay
    >>> expected = plan(PrivateMeasureMechanism(), n_samples=2000, n_features=1, epsilons=[0.1, 1], random_state=0)
    >>> display = PlanDisplay.from_plan(expected)
    >>> list(display.measures)
    ['wasserstein', 'columns']
    >>> figure = display.plot(measure="wasserstein").figure_
    """

    measures: Any
    curves: Any
    no_data: Any
    no_privacy: Any
    heading: str = ""

    @classmethod
    def from_plan(cls, plan: Any) -> Self:
        """Return the display of a `SpendingPlan` from `skdpsynth.model_selection.plan`."""
        check_attributes("plan", plan, ("lines", "measures", "no_privacy"), "a SpendingPlan, as skdpsynth.model_selection.plan returns it")
        curves = {}
        for words, points in plan.lines():
            epsilons = np.concatenate([np.full(len(point.errors), point.epsilon) for point in points])
            curves[words] = epsilons, np.concatenate([point.errors for point in points])
        measures = {measure.name: measure.title for measure in plan.measures}
        heading = f"{plan.estimator}, {plan.n_samples:,} rows: what to expect before spending"
        return cls(measures, curves, np.asarray(plan.no_data), np.asarray(plan.no_privacy), heading)

    def plot(self, ax: Any = None, *, measure: str | None = None, title: str | None = None) -> Self:
        """Draw the mean error at each epsilon, and the range of the simulated ones.

        Parameters
        ----------
        ax : matplotlib Axes, Figure or SubFigure, default=None
            Place; on an Axes one measure is drawn. None: a new figure, with a panel for each measure (or for `measure`).
        measure : str, default=None
            One of the names in `measures`. None: all of them; the main one, where `ax` is an Axes.
        title : str, default=None
            None: what was planned, above a new figure.

        Returns
        -------
        display : PlanDisplay
            Itself.
        """
        names = list(self.measures)
        if measure is not None:
            check_choice("measure", measure, names)
        on_one = ax is not None and not hasattr(ax, "subplots")
        places = [names.index(measure)] if measure is not None else list(range(1 if on_one else len(names)))
        axes, whole = panels(ax, (1, len(places)), (1.2 + 3.9 * len(places), 3.9))
        for place, one in zip(places, axes.flat, strict=True):
            self._draw(one, place)
            one.set_title(self.measures[names[place]], fontsize=10)
        if any(self.curves):
            axes.flat[0].legend(frameon=False, fontsize=8, loc="best")
        if not on_one:
            axes.flat[0].figure.suptitle(self.heading if title is None else title, fontsize=11)
        elif title is not None:
            headline(axes, whole, title)
        return self._remember_axes(axes, whole)

    def _draw(self, ax: Any, place: int) -> None:
        for number, (words, (epsilons, errors)) in enumerate(self.curves.items()):
            style = {"color": COLORS[number % len(COLORS)], "marker": "o", "label": words or None}
            draw_mean_and_range(ax, epsilons, errors[:, place], **style)
        low, high = self._range(place)
        epsilon_axis(ax, np.concatenate([epsilons for epsilons, _ in self.curves.values()]))
        _error_axis(ax, low, high)
        self._draw_references(ax, place, low)

    def _range(self, place: int) -> tuple[float, float]:
        """Return the ends of the error axis, which is logarithmic, and not from 0, if errors fall by much."""
        means = [errors[epsilons == one, place].mean() for epsilons, errors in self.curves.values() for one in np.unique(epsilons)]
        high = max(self.no_data[place], *(errors[:, place].max() for _, errors in self.curves.values()))
        if high <= _MANY * min(means):
            return 0.0, 1.15 * high
        low = 0.6 * max(min(means), 1e-9 * high)
        return low, high * (high / low) ** 0.12

    def _draw_references(self, ax: Any, place: int, low: float) -> None:
        """Draw the errors of no data and of no privacy, named at the right and at the left, clear of the curves."""
        no_data, no_privacy = self.no_data[place], self.no_privacy[place]
        is_beneath = 0 < no_privacy <= low
        told = f"no privacy: {format_number(no_privacy)}, below" if is_beneath else "no privacy"
        # On a linear scale errors come near to it, so its name stands below the line if there is room.
        has_room = low == 0 and no_privacy > 0.05 * ax.get_ylim()[1]
        _reference(ax, no_data, "--", "no data: a uniform guess", (0.99, "right"), 3)
        _reference(ax, low if is_beneath else no_privacy, ":", told, (0.01, "left"), -3 if has_room else 3)


def _reference(ax: Any, value: float, line: str, words: str, side: tuple[float, str], offset: int) -> None:
    ax.axhline(value, color=QUIET, linestyle=line, linewidth=1, zorder=1)
    where = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "fontsize": 8, "color": QUIET}
    ax.annotate(words, (side[0], value), (0, offset), ha=side[1], va="bottom" if offset > 0 else "top", **where)


def _error_axis(ax: Any, low: float, high: float) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    if low > 0:
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 3) if high < 1e4 * low else (1,)))
        ax.yaxis.set_minor_formatter(NullFormatter())
    ax.tick_params(which="minor", length=0)
    ax.set_ylim(low, high)
    ax.set_ylabel("error, logarithmic scale" if low > 0 else "error, linear scale from 0", fontsize=8)
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    tidy(ax)
    ax.grid(axis="y", color="0.92")
    ax.set_axisbelow(True)
