"""Curves of several runs, and axes of epsilon."""

from typing import Any

import numpy as np


def draw_mean_and_range(ax: Any, places: np.ndarray, values: np.ndarray, **style: Any) -> None:
    """Draw the mean of the values at each place, and their range as a band: equal places are several runs."""
    different = np.unique(places)
    groups = [values[places == place] for place in different]
    if max(map(len, groups)) > 1:
        band = {"color": style["color"], "alpha": 0.18, "linewidth": 0, "zorder": 1}
        ax.fill_between(different, [group.min() for group in groups], [group.max() for group in groups], **band)
    ax.plot(different, [group.mean() for group in groups], **style)


def epsilon_axis(ax: Any, epsilons: Any) -> None:
    """Make the horizontal axis one of epsilon, logarithmic, with those that there are."""
    from matplotlib.ticker import NullFormatter, NullLocator

    different = np.unique(epsilons)
    ax.set_xscale("log")
    ax.set_xticks(different, [f"{epsilon:g}" for epsilon in different])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel("epsilon")
