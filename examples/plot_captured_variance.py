"""
Private against non-private PCA
===============================

How close does a private PCA come? Captured variance, as a share of what non-private PCA captures with as many components, over epsilon;
and what becomes of the components themselves. The rows are 8 x 8 patches of a photograph that comes with scikit-learn, every sixteenth of
them: 16,617 rows of 64 columns, public bounds 0 to 255. Lines are means of five fits, bands their range.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image
from sklearn.decomposition import PCA

from skdpsynth import PrivatePCA
from skdpsynth.exceptions import BudgetWarning
from skdpsynth.plotting import PrivatePCADisplay

gray = load_sample_image("china.jpg").mean(axis=2)
X = np.lib.stride_tricks.sliding_window_view(gray, (8, 8)).reshape(-1, 64)[::16]
# The first component is brightness, which any noise finds: the others are what is hard to learn.
X = X - X.mean(axis=1, keepdims=True)  # within (-255, 255), whatever the picture

warnings.simplefilter("ignore", BudgetWarning)  # which says that a delta would help: the picture shows by how much
epsilons = (0.1, 0.3, 1, 3, 10)
settings = {
    "pure, private mean": {"center": "private"},
    "pure, public center": {"center": "public"},
    "delta = 1e-6, public center": {"center": "public", "delta": 1e-6},
}
figure, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
for (label, own), color, marker in zip(settings.items(), ("#b0782b", "#4d9078", "#1f5fa8"), "s^o", strict=True):
    fits = [PrivatePCA(4, epsilon=e, bounds=(-255, 255), **own).fit(X) for e in epsilons for _ in range(5)]
    display = PrivatePCADisplay.from_estimators(fits, X)
    display.plot(ax, color=color, marker=marker, label=label)
    means = display.captured.reshape(len(epsilons), 5).mean(axis=1)
    print(f"{label:<30}" + "".join(f"  epsilon {e:g}: {value:.3f}" for e, value in zip(epsilons, means, strict=True)))
ax.set_title(f"Four components of {len(X):,} patches")
ax.legend(frameon=False, loc="lower right")

# %%
# The components themselves
# -------------------------
# A component has a weight for each pixel, so it is a small picture. Noise moves the later components first: they stand closer to each other
# in variance, so two of them may also change places. Below is one fit at each epsilon. Signs are those nearer to PCA's, for a component has
# none of its own.

exact = PCA(4).fit(X).components_
rows = {f"epsilon {e:g}": PrivatePCA(4, epsilon=e, bounds=(-255, 255), center="public").fit(X).components_ for e in epsilons}
rows["PCA, not private"] = exact
figure, axes = plt.subplots(4, len(rows), figsize=(8.4, 5.6), layout="constrained")
for column, (title, components) in zip(axes.T, rows.items(), strict=True):
    column[0].set_title(title, fontsize=9)
    for panel, component, other in zip(column, components, exact, strict=True):
        sign = 1 if component @ other >= 0 else -1
        panel.imshow(sign * component.reshape(8, 8), cmap="RdBu_r", vmin=-0.35, vmax=0.35)
        panel.set(xticks=[], yticks=[])
for number, panel in enumerate(axes[:, 0], start=1):
    panel.set_ylabel(f"component {number}", fontsize=9)
