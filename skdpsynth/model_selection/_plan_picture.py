"""The picture of a plan."""

from typing import Any

import numpy as np

from skdpsynth.model_selection._plan_measures import number_shown

_COLOURS = ("#1f5fa8", "#b0782b", "#4f8a4c", "#8a4c7d", "#5b6b7a")
_GREY = "0.35"
_MANY = 12  # times that the largest error is the smallest, from where the scale is logarithmic


def drawn(plan: Any, places: list[int], ax: Any) -> Any:
    """Draw measures of a plan, side by side; return the figure."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("plot needs matplotlib: pip install 'skdpsynth[plot]'; or read to_frame().") from None
    if ax is None:
        figure, grid = plt.subplots(1, len(places), figsize=(1.2 + 3.9 * len(places), 3.9), layout="constrained", squeeze=False)
        figure.suptitle(f"{plan.estimator}, {plan.n_samples:,} rows: what to expect before spending", fontsize=11)
        axes = list(grid[0])
    else:
        axes, figure = [ax], ax.figure
    for place, each in zip(places, axes, strict=True):
        _draw(plan, place, each)
    if any(name for name, _ in plan.lines()):
        axes[0].legend(frameon=False, fontsize=8, loc="best")
    return figure


def _draw(plan: Any, place: int, ax: Any) -> None:
    for number, (name, points) in enumerate(plan.lines()):
        colour = _COLOURS[number % len(_COLOURS)]
        epsilons = [point.epsilon for point in points]
        errors = np.array([(point.errors[:, place].min(), point.mean[place], point.errors[:, place].max()) for point in points])
        ax.fill_between(epsilons, errors[:, 0], errors[:, 2], color=colour, alpha=0.18, linewidth=0)
        ax.plot(epsilons, errors[:, 1], marker="o", color=colour, label=name or None)
    low, high = _range(plan, place)
    _references(ax, plan.no_data[place], plan.no_privacy[place], low)
    _scales(ax, sorted({point.epsilon for point in plan.points}), low, high)
    ax.set_title(plan.measures[place].title, fontsize=10)
    ax.set_xlabel("epsilon")


def _range(plan: Any, place: int) -> tuple[float, float]:
    """Return the ends of the axis of errors, around all points: from 0, or, where they fall by much, of a logarithmic one."""
    means = [point.mean[place] for point in plan.points]
    high = max(plan.no_data[place], *(point.errors[:, place].max() for point in plan.points))
    return (0.0, 1.15 * high) if high <= _MANY * min(means) else (0.6 * max(min(means), 1e-9 * high), 1.8 * high)


def _references(ax: Any, no_data: float, no_privacy: float, low: float) -> None:
    """Draw what no data and what no privacy gives, each with its name: the one at the right, the other at the left, clear of the lines."""
    beneath = low > 0 and no_privacy <= low
    lines = [("no data: a uniform guess", no_data, "--", 0.99, "right")]
    lines += [(f"no privacy{f': {number_shown(no_privacy)}, below' if beneath else ''}", low if beneath else no_privacy, ":", 0.01, "left")]
    for name, value, style, x, side in lines:
        ax.axhline(value, color=_GREY, linestyle=style, linewidth=1, zorder=1)
        where = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
        ax.annotate(name, (x, value), (0, 3), ha=side, va="bottom", fontsize=8, color=_GREY, **where)


def _scales(ax: Any, epsilons: list[float], low: float, high: float) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    ax.set_xscale("log")
    ax.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    ax.xaxis.set_minor_formatter(NullFormatter())
    if low > 0:
        ax.set_yscale("log")
        steps = (1, 3) if high < 1e4 * low else (1,)
        ax.yaxis.set_major_locator(LogLocator(subs=steps))
        ax.yaxis.set_minor_formatter(NullFormatter())
    ax.tick_params(which="minor", length=0)
    ax.set_ylim(low, high)
    ax.set_ylabel("error, logarithmic scale" if low > 0 else "error, linear scale from 0", fontsize=8)
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="0.92")
    ax.set_axisbelow(True)
