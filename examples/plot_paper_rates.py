"""
The papers' curves: error against rows, and against epsilon
===========================================================

How fast does private synthetic data approach the data? For d columns the papers prove that the expected W1 distance falls like
(epsilon n)\\ :sup:`-1/d` (up to logarithms in one column). Here both mechanisms run side by side at equal epsilon: the default, and
``strategy="paper"``, the published algorithm with its budgets made private. Lines are means of six fits, bands their range.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from skdpsynth import PrivateMeasureMechanism
from skdpsynth.exceptions import SmallSampleWarning
from skdpsynth.metrics import wasserstein_distance

warnings.simplefilter("ignore", SmallSampleWarning)  # the left ends of the curves are few rows, and a small epsilon
rng = np.random.default_rng(0)
styles = {"auto": ("#1f5fa8", "o", "skdpsynth"), "paper": ("#b0782b", "s", 'strategy="paper"')}


def errors(strategy, d, n, epsilon, fits=6):
    """W1 (chebyshev) between n rows and as many synthetic ones, of several fits."""
    X = rng.beta(2, 5, size=(n, d))
    model = PrivateMeasureMechanism(strategy, epsilon=epsilon, bounds=(0, 1))
    return [wasserstein_distance(X, model.fit(X).sample()) for _ in range(fits)]


def draw(ax, places, d, size):
    """Both mechanisms at some places; `size` makes (rows, epsilon) of a place."""
    for strategy, (color, marker, label) in styles.items():
        runs = np.array([errors(strategy, d, *size(place)) for place in places])
        ax.fill_between(places, runs.min(axis=1), runs.max(axis=1), color=color, alpha=0.18, linewidth=0)
        ax.plot(places, runs.mean(axis=1), marker=marker, color=color, label=label)
        print(f"d={d} {label:<18}" + "".join(f"  {place:g}: {run.mean():.4f}" for place, run in zip(places, runs, strict=True)))
    slope = runs.mean(axis=1)[0] * (np.array(places) / places[0]) ** (-1 / d)
    ax.plot(places, slope, color="0.5", linestyle=":", label="slope of the theorem")
    ax.set(xscale="log", yscale="log", title=f"{d} column{'s' * (d > 1)}")
    ax.spines[["top", "right"]].set_visible(False)


# %%
# Against the number of rows, epsilon 1
# -------------------------------------

rows = {1: [100, 300, 1000, 3000, 10_000], 2: [100, 250, 600, 1500]}
figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained", sharey=True)
for ax, (d, places) in zip(axes, rows.items(), strict=True):
    draw(ax, places, d, lambda n: (n, 1.0))
    ax.set_xlabel("rows")
axes[0].set_ylabel("W1, units of the data")
axes[0].legend(frameon=False)

# %%
# Against epsilon, 1,000 rows
# ---------------------------
# Rows and epsilon count alike: both enter the noise through their product. In two columns the curves flatten where what is left is the
# distance between a thousand points and a thousand others, which no epsilon removes.

epsilons = [0.1, 0.3, 1, 3, 10]
figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained", sharey=True)
for ax, d in zip(axes, (1, 2), strict=True):
    draw(ax, epsilons, d, lambda epsilon: (1000, epsilon))
    ax.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    ax.minorticks_off()
    ax.set_xlabel("epsilon")
axes[0].set_ylabel("W1, units of the data")
axes[0].legend(frameon=False)
