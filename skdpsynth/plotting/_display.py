"""Base class, colors and helpers of all displays."""

import copy
import io
from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np

from skdpsynth._validation import short_repr

# Told apart by people who see fewer colors too: the closest pair is 14 apart (CIECAM02) under simulated tritanopia, blue and green.
SYNTHETIC = "#1f5fa8"
SECOND = "#b0782b"
THIRD = "#4d9078"
FOURTH = "#8a4c7d"
COLORS = (SYNTHETIC, SECOND, THIRD, FOURTH, "#5b6b7a")
REAL = "0.45"
QUIET = "0.35"  # of references and remarks
PALE = "0.9"
WARNING = "#a4262c"
SIGNED = "RdBu_r"  # for values that may be negative: white at 0
POSITIVE = "Blues"
NOT_PRIVATE = "Not private: made from real rows"

_SVG: Any = {"svg.fonttype": "none", "svg.hashsalt": "skdpsynth", "font.family": ["sans-serif"], "font.sans-serif": ["DejaVu Sans"]}


class Display(ABC):
    """A picture that is computed when it is made and can be drawn any number of times."""

    ax_: Any
    axes_: Any
    figure_: Any

    @abstractmethod
    def plot(self, *ax: Any, **options: Any) -> Self:
        """Draw on an Axes, or in a new figure."""

    def to_svg(self, **options: Any) -> str:
        """Return the picture as SVG text: letters are text, nothing is loaded from elsewhere, no script.

        It opens no window, leaves no figure open and leaves this display as it is. The same numbers give the same text.

        Parameters
        ----------
        **options : dict
            Passed to `plot`, which also takes `ax`.

        Returns
        -------
        svg : str
        """
        pyplot()
        from matplotlib import rc_context
        from matplotlib.figure import Figure

        with rc_context(_SVG):
            figure, text = Figure(layout="constrained"), io.StringIO()
            copy.copy(self).plot(ax=figure, **options)
            figure.savefig(text, format="svg", dpi=100, metadata={"Date": None, "Creator": None})
        return text.getvalue()[text.getvalue().index("<svg") :]

    def _remember_axes(self, axes: Any, whole: Any = None) -> Self:
        """Set `ax_`, `axes_` and `figure_`; `whole` is the one Axes that stands for all panels."""
        self.axes_ = np.asarray(axes, dtype=object)
        self.ax_ = self.axes_.flat[0] if whole is None else whole
        self.figure_ = self.ax_.figure
        return self


def pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("Pictures need matplotlib: pip install 'skdpsynth[plot]'.") from None
    return plt


def panels(ax: Any, shape: tuple[int, int], size: tuple[float, float], heights: Any = None, **spacing: Any) -> tuple[Any, Any]:
    """Return an array of Axes, and the Axes that was divided into them or None.

    `ax` None makes a new figure of `size` inches. An Axes is used itself for one panel, and else divided. An empty Figure takes `size`.
    `heights` are relative heights of the rows.
    """
    if ax is not None and (isinstance(ax, type) or not (hasattr(ax, "add_subplot") or hasattr(ax, "get_subplotspec"))):
        raise TypeError(f"ax must be None, an Axes or a Figure of matplotlib, got {short_repr(ax)}; plt.subplots() makes both.")
    ratios = {} if heights is None else {"height_ratios": heights}
    if ax is None:
        return pyplot().figure(figsize=size, layout="constrained").subplots(*shape, squeeze=False, **ratios, **spacing), None
    if hasattr(ax, "subplots"):
        if hasattr(ax, "set_size_inches") and not ax.axes:
            ax.set_size_inches(size)
        return ax.subplots(*shape, squeeze=False, **ratios, **spacing), None
    if shape == (1, 1):
        return np.array([[ax]], dtype=object), None
    ax.set_axis_off()
    spec = ax.get_subplotspec()
    if spec is None:
        place = ax.get_position()
        sides = {"left": place.x0, "right": place.x1, "bottom": place.y0, "top": place.y1}
        grid = ax.figure.add_gridspec(*shape, **sides, wspace=0.35, hspace=0.6, **ratios)
    else:
        grid = spec.subgridspec(*shape, **ratios)
    return grid.subplots(squeeze=False, **spacing), ax


def headline(axes: Any, whole: Any, title: str | None, private: bool = True, pad: float = 6.0) -> None:
    """Write a title above all panels, `pad` points above a single one; a picture of real rows says so first."""
    words = [] if private else [NOT_PRIVATE]
    words += [title] if title else []
    if not words:
        return
    style = {"fontsize": 10} if private else {"fontsize": 10, "color": WARNING, "fontweight": "bold"}
    if whole is not None:
        whole.set_title("\n".join(words), pad=24, **style)
    elif axes.size == 1:
        axes.flat[0].set_title("\n".join(words), pad=pad, **style)
    else:
        axes.flat[0].figure.suptitle("\n".join(words), **style)


def tidy(ax: Any) -> None:
    """Hide the top and right sides of the frame."""
    ax.spines[["top", "right"]].set_visible(False)


def shorten(words: Any, longest: int = 22) -> str:
    """Shorten words for a tick, and escape dollar signs, which would start mathematics."""
    text = str(words)
    text = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return text.replace("$", r"\$")


def share(value: float) -> str:
    """Format a share as a percentage that is never rounded to 0."""
    percent = 100 * value
    return f"{percent:.0f} %" if percent >= 1 or percent == 0 else f"{percent:.1g} %"


def draw_mean_and_range(ax: Any, places: np.ndarray, values: np.ndarray, **style: Any) -> None:
    """Draw the mean of the values at each place, and their range as a band; equal places are several runs."""
    different = np.unique(places)
    groups = [values[places == place] for place in different]
    if max(map(len, groups)) > 1:
        band = {"color": style["color"], "alpha": 0.18, "linewidth": 0, "zorder": 1}
        ax.fill_between(different, [group.min() for group in groups], [group.max() for group in groups], **band)
    ax.plot(different, [group.mean() for group in groups], **style)


def epsilon_axis(ax: Any, epsilons: Any) -> None:
    """Make the horizontal axis logarithmic, with a tick at each epsilon."""
    from matplotlib.ticker import NullFormatter, NullLocator

    different = np.unique(epsilons)
    ax.set_xscale("log")
    ax.set_xticks(different, [f"{epsilon:g}" for epsilon in different])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel("epsilon")
