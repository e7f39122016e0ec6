"""One column, or a pair of columns, on one Axes."""

from typing import Any

import numpy as np

from skdpsynth.plotting._columns import Column
from skdpsynth.plotting._display import PALE, POSITIVE, QUIET, SYNTHETIC, share, shorten, tidy

_SMALL = 7


def draw_marginal(ax: Any, column: Column, with_real: bool, is_narrow: bool = False) -> None:
    """Draw the shares of a column: filled, and the real ones as an outline; a narrow panel has no room to say what is missing."""
    (_draw_numbers if column.edges is not None else _draw_levels)(ax, column, with_real)
    ax.set_title(shorten(column.name, 26), fontsize=8.5, loc="left")
    if column.edges is not None and column.missing.any() and not is_narrow:
        words = f"missing {share(column.missing[0])}" + (f" (real {share(column.missing[1])})" if with_real else "")
        ax.set_title(words, fontsize=_SMALL, loc="right", color=QUIET)
    ax.tick_params(labelsize=_SMALL, length=2)
    tidy(ax)


def _draw_numbers(ax: Any, column: Column, with_real: bool) -> None:
    edges = _plain(column.edges)
    ax.stairs(column.shares[0], edges, fill=True, color=SYNTHETIC, alpha=0.8, linewidth=0, label="synthetic")
    if with_real:
        ax.stairs(column.shares[1], edges, color="black", linewidth=1, label="real")
    ax.set_ylim(bottom=0)
    ax.set_ylabel("share of rows", fontsize=_SMALL)
    ax.yaxis.set_major_formatter(_percent())
    ax.locator_params(axis="y", nbins=4)
    _label_times(ax, column)


def _draw_levels(ax: Any, column: Column, with_real: bool) -> None:
    shares, names = column.shares, [shorten(level, 16) for level in column.levels]
    if column.missing.any():
        shares, names = np.column_stack([shares, column.missing]), [*names, "(missing)"]
    places = np.arange(len(names))
    ax.barh(places, shares[0], height=0.75, color=SYNTHETIC, alpha=0.8, label="synthetic")
    if with_real:
        ax.barh(places, shares[1], height=0.75, fill=False, edgecolor="black", linewidth=1, label="real")
    ax.set_yticks(places, names)
    ax.invert_yaxis()
    ax.set_xlabel("share of rows", fontsize=_SMALL)
    ax.set_xlim(left=0)
    ax.xaxis.set_major_formatter(_percent())
    ax.locator_params(axis="x", nbins=4)


def draw_joint(ax: Any, across: Column, up: Column, joint: np.ndarray, names_x: bool, names_y: bool, is_real: bool) -> None:
    """Draw the shares of pairs of parts as shades, the darkest the most frequent; `joint` by the parts of `across`, then of `up`."""
    ax.set_facecolor("white")
    # Square roots, so that what is rare is seen beside what is frequent.
    x, y = _plain(_ends(across)), _plain(_ends(up))
    ax.pcolormesh(x, y, np.sqrt(joint.T), cmap="Greys" if is_real else POSITIVE, vmin=0, rasterized=True)
    for axis, column, is_named in (("x", across, names_x), ("y", up, names_y)):
        if column.edges is None:
            places = np.arange(len(column.levels))
            labels = [shorten(level, 10) for level in column.levels] if is_named else []
            getattr(ax, f"set_{axis}ticks")(places, labels, **({"rotation": 90} if axis == "x" else {}))
        else:
            _label_times(ax, column, axis)
            ax.locator_params(axis=axis, nbins=3) if not _is_time(column) else None
            ax.tick_params(**{f"label{'bottom' if axis == 'x' else 'left'}": is_named})
        if is_named:
            getattr(ax, f"set_{axis}label")(shorten(column.name, 16), fontsize=_SMALL)
    ax.tick_params(labelsize=6, length=2)
    for side in ax.spines.values():
        side.set_color(PALE)


def _ends(column: Column) -> np.ndarray:
    return np.arange(len(column.levels) + 1) - 0.5 if column.edges is None else column.edges


def _is_time(column: Column) -> bool:
    return column.edges is not None and column.edges.dtype.kind == "M"


def _plain(edges: np.ndarray) -> np.ndarray:
    """Return edges as numbers, those of times as matplotlib counts them."""
    if edges.dtype.kind != "M":
        return edges
    from matplotlib.dates import date2num

    return date2num(edges)


def _label_times(ax: Any, column: Column, axis: str = "x") -> None:
    if not _is_time(column):
        return
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    one = getattr(ax, f"{axis}axis")
    locator = AutoDateLocator(minticks=2, maxticks=5)  # with 4 it finds no interval for 20 months, or 40 hours, and warns
    one.set_major_locator(locator)
    one.set_major_formatter(ConciseDateFormatter(locator))


def _percent() -> Any:
    from matplotlib.ticker import FuncFormatter

    return FuncFormatter(lambda value, _: f"{100 * value:.3g} %")
