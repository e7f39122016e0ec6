"""
Private against non-private PCA
===============================

How close does a private PCA come? Captured variance, as a share of what non-private PCA captures with as many components, over epsilon.
The rows are 8 x 8 patches of a photograph that comes with scikit-learn: 265,860 rows of 64 columns, public bounds 0 to 255.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

from skdpsynth import PrivatePCA
from skdpsynth.exceptions import BudgetWarning
from skdpsynth.metrics import captured_variance_ratio

grey = load_sample_image("china.jpg").mean(axis=2)
X = np.lib.stride_tricks.sliding_window_view(grey, (8, 8)).reshape(-1, 64)
# The first component is brightness, which any noise finds: the others are what is hard to learn.
X = X - X.mean(axis=1, keepdims=True)  # within (-255, 255), whatever the picture

warnings.simplefilter("ignore", BudgetWarning)  # which says that a delta would help: the picture shows by how much
epsilons = (0.1, 0.3, 1, 3, 10)
settings = {
    "pure, private mean": {"center": "private"},
    "pure, public centre": {"center": "public"},
    "delta = 1e-6, public centre": {"center": "public", "delta": 1e-6},
}
figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
for (label, own), colour in zip(settings.items(), ("#b0782b", "#4d9078", "#1f5fa8"), strict=True):
    curve = [
        np.mean(
            [captured_variance_ratio(X[::20], PrivatePCA(4, epsilon=e, bounds=(-255, 255), **own).fit(X).components_) for _ in range(3)]
        )
        for e in epsilons
    ]
    print(f"{label:<30}" + "".join(f"  epsilon {e:g}: {value:.3f}" for e, value in zip(epsilons, curve, strict=True)))
    ax.plot(epsilons, curve, "o-", color=colour, label=label)
ax.axhline(1, color="0.4", linestyle="--", label="PCA, not private")
ax.set(xscale="log", xlabel="epsilon", ylabel="captured variance / that of PCA", title="Four components of 265,860 patches", ylim=(0, 1.05))
ax.legend(frameon=False, loc="lower right")
ax.spines[["top", "right"]].set_visible(False)
