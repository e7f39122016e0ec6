"""Base class, colors and helpers of all displays."""

import copy
import inspect
import io
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skdpsynth._validation import check_attributes, short_repr

if TYPE_CHECKING:  # it is imported where it draws
    import matplotlib.axes
    import matplotlib.figure

Axes: TypeAlias = "matplotlib.axes.Axes"
Place: TypeAlias = "matplotlib.axes.Axes | matplotlib.figure.FigureBase | None"  # to draw at
_SVG: Any = {"svg.fonttype": "none", "svg.hashsalt": "skdpsynth", "font.family": ["sans-serif"], "font.sans-serif": ["DejaVu Sans"]}
# Text that docstrings of all displays share, by the word in braces that stands for it there.
_SHARED = {
    "{drawn}": """Attributes
----------
ax_ : matplotlib Axes
    The first panel, or the Axes that was given.
axes_ : ndarray of matplotlib Axes
figure_ : matplotlib Figure""",
    "{place}": """Parameters
----------
ax : matplotlib Axes, Figure or SubFigure, default=None
    Place to draw; an Axes is divided if there are several panels. None: a new figure.
title : str, default=None""",
    "{itself}": """Returns
-------
display : Display
    Itself.""",
}


class Color:
    """Colors by what they stand for."""

    # Told apart by people who see fewer colors too: the closest pair is 14 apart (CIECAM02) under simulated tritanopia, blue and green.
    SYNTHETIC, SECOND = "#1f5fa8", "#b0782b"
    SERIES = (SYNTHETIC, SECOND, "#4d9078", "#8a4c7d", "#5b6b7a")
    REAL = "0.45"
    QUIET = "0.35"  # of references and remarks
    PALE = "0.9"
    WARNING = "#a4262c"
    SIGNED = "RdBu_r"  # for values that may be negative: white at 0
    POSITIVE = "Blues"


class Display(ABC):
    """A picture that is computed when it is made and can be drawn any number of times."""

    ax_: Any  # Axes
    axes_: np.ndarray
    figure_: Any

    def __init_subclass__(cls) -> None:
        for documented in (cls, cls.plot):
            text = inspect.getdoc(documented) or ""
            for mark, words in _SHARED.items():
                text = text.replace(mark, words)
            documented.__doc__ = text.replace("display : Display", f"display : {cls.__name__}") + "\n"

    @abstractmethod
    def plot(self, *given: Any, **options: Any) -> Self:
        """Draw on an Axes, or in a new figure."""

    def to_svg(self, **options: Any) -> str:
        """Return the picture as SVG text: letters are text, nothing is loaded from elsewhere, no script.

        The `options` are those of `plot`, without an Axes. It opens no window, leaves no figure open and leaves this display as it is. The
        same numbers give the same text.
        """
        _pyplot()
        from matplotlib import rc_context
        from matplotlib.figure import Figure

        with rc_context(_SVG):
            figure, text = Figure(layout="constrained"), io.StringIO()
            copy.copy(self).plot(ax=figure, **options)
            figure.savefig(text, format="svg", dpi=100, metadata={"Date": None, "Creator": None})
        return text.getvalue()[text.getvalue().index("<svg") :]

    def _finish(self, axes: np.ndarray, whole: Place, title: str | None, *, is_private: bool = True, pad: float = 6.0) -> Self:
        """Write a title above all panels, and remember where was drawn; a picture of real rows first says that it is not private.

        `whole` is the Axes that was divided into the panels, or None; `pad` is the distance of a title above a single panel, in points.
        """
        words = "\n".join(filter(None, ["" if is_private else "Not private: made from real rows", title]))
        style = {"fontsize": 10} if is_private else {"fontsize": 10, "color": Color.WARNING, "fontweight": "bold"}
        self.axes_ = axes
        self.ax_ = axes.flat[0] if whole is None else whole
        self.figure_ = self.ax_.figure
        if words and whole is None and axes.size > 1:
            self.figure_.suptitle(words, **style)
        elif words:
            self.ax_.set_title(words, pad=pad if whole is None else 24, **style)
        return self


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("Pictures need matplotlib: pip install 'skdpsynth[plot]'.") from None
    return plt


def panels(ax: Place, shape: tuple[int, int], size: tuple[float, float], **options: Any) -> tuple[np.ndarray, Place]:
    """Return an array of Axes, and the Axes that was divided into them or None.

    `ax` None makes a new figure of `size` inches. An Axes is used itself for one panel, and else divided. An empty Figure takes `size`.
    """
    if ax is not None and (isinstance(ax, type) or not (hasattr(ax, "add_subplot") or hasattr(ax, "get_subplotspec"))):
        raise TypeError(f"ax must be None, an Axes or a Figure of matplotlib, got {short_repr(ax)}; plt.subplots() makes both.")
    if ax is None:
        return _pyplot().figure(figsize=size, layout="constrained").subplots(*shape, squeeze=False, **options), None
    if hasattr(ax, "subplots"):
        if hasattr(ax, "set_size_inches") and not ax.axes:
            ax.set_size_inches(size)
        return ax.subplots(*shape, squeeze=False, **options), None
    if shape == (1, 1):
        return np.array([[ax]], dtype=object), None
    ax.set_axis_off()
    spec, place, ratios = ax.get_subplotspec(), ax.get_position(), options.pop("height_ratios", None)
    sides: dict[str, Any] = {"left": place.x0, "right": place.x1, "bottom": place.y0, "top": place.y1, "wspace": 0.35, "hspace": 0.6}
    grid: Any = spec.subgridspec(*shape, height_ratios=ratios) if spec else ax.figure.add_gridspec(*shape, height_ratios=ratios, **sides)
    return grid.subplots(squeeze=False, **options), ax


def check_fitted(name: str, estimator: BaseEstimator, what: str) -> None:
    check_attributes(name, estimator, ("fit",), what)
    check_is_fitted(estimator)


def tidy(ax: Axes, grid: Literal["x", "y"] | None = None) -> None:
    """Hide the top and right sides of the frame, and draw a grid behind the rest along the axis `grid`."""
    ax.spines[["top", "right"]].set_visible(False)
    if grid is not None:
        ax.grid(axis=grid, color="0.93")
        ax.set_axisbelow(True)


def name_rows(ax: Axes, names: Sequence[str], grid: Literal["x", "y"] | None = None) -> None:
    """Name what lies at 0, 1, ... from the top of an Axes down."""
    ax.set_yticks(range(len(names)), names, fontsize=8)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.tick_params(axis="x", labelsize=8)
    tidy(ax, grid)


def shorten(words: object, longest: int = 22) -> str:
    """Shorten words for a tick, and escape dollar signs, which would start mathematics."""
    text = str(words)
    return (text if len(text) <= longest else f"{text[: longest - 1]}…").replace("$", r"\$")


def draw_mean_and_range(ax: Axes, places: np.ndarray, values: np.ndarray, **style: Any) -> None:
    """Draw the mean of the values at each place, and their range as a band; equal places are several runs."""
    different = np.unique(places)
    groups = [values[places == place] for place in different]
    if max(map(len, groups)) > 1:
        band = {"color": style["color"], "alpha": 0.18, "linewidth": 0, "zorder": 1}
        ax.fill_between(different, [group.min() for group in groups], [group.max() for group in groups], **band)
    ax.plot(different, [group.mean() for group in groups], **style)


def label_epsilons(ax: Axes, epsilons: Sequence[float] | np.ndarray) -> None:
    """Make the horizontal axis logarithmic, with a tick at each epsilon."""
    different = np.unique(epsilons)
    ax.set_xscale("log")
    ax.set_xticks(different, [f"{epsilon:g}" for epsilon in different])
    ax.minorticks_off()
    ax.set_xlabel("epsilon")
