"""
Synthetic data from a stream
============================

Rows arrive for ever; at any time the holder publishes synthetic data of all rows so far, and one epsilon covers the whole stream. The
rows are the 8 x 8 patches of a photograph that comes with scikit-learn, from its left edge to its right: brightness and contrast drift with
what the picture shows. Exact W1 to the rows so far (1,000 of each) over time, for disjoint blocks, for the published algorithm, for uniform
noise, and for a mechanism that starts anew at each time with the whole epsilon, which a stream could not pay for.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

from skdpsynth import OnlineSynthesizer, PrivateMeasureMechanism
from skdpsynth.metrics import wasserstein_distance

grey = load_sample_image("china.jpg").mean(axis=2) / 255
patches = np.lib.stride_tricks.sliding_window_view(grey, (8, 8))[::2, ::2]
patches = patches.swapaxes(0, 1).reshape(-1, 64)  # from left to right: the order of the stream
stream = np.column_stack([patches.mean(axis=1), 2 * patches.std(axis=1)])  # both within (0, 1), whatever the picture

times = np.geomspace(110, len(stream), 12).astype(int)
models = {
    "blocks": OnlineSynthesizer(epsilon=1.0),
    "paper (Algorithm 12)": OnlineSynthesizer("paper", counter="sparse", epsilon=1.0),
}
curves = {name: [] for name in ("uniform", *models, "offline, epsilon at each time")}
rng, seen = np.random.default_rng(0), 0
for t in times:
    rows = stream[rng.permutation(t)[:1000]]

    def distance(points, rows=rows):
        return wasserstein_distance(rows, points)

    for name, model in models.items():
        curves[name].append(distance(model.partial_fit(stream[seen:t]).sample(1000)))
    curves["uniform"].append(distance(rng.random((1000, 2))))
    curves["offline, epsilon at each time"].append(distance(PrivateMeasureMechanism(epsilon=1.0).fit(stream[:t]).sample(1000)))
    seen = t
for name, curve in curves.items():
    print(f"{name:<32}" + " ".join(f"{value:.3f}" for value in curve))
print(models["blocks"].accountant_)

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained", width_ratios=(1.3, 1))
styles = {
    "uniform": ("0.6", "--"),
    "blocks": ("#1f5fa8", "-"),
    "paper (Algorithm 12)": ("#b0782b", "-"),
    "offline, epsilon at each time": ("0.25", ":"),
}
for name, curve in curves.items():
    colour, line = styles[name]
    left.plot(times, curve, line, marker="o", markersize=4, color=colour, label=name)
left.set(xscale="log", yscale="log", xlabel="rows so far", ylabel="W1 to the rows so far", title="One epsilon for the whole stream")
left.legend(frameon=False, fontsize=9)
synthetic = models["blocks"].sample(3000, random_state=0)
right.scatter(*stream[rng.permutation(len(stream))[:3000]].T, s=3, color="0.65", label="rows (private)")
right.scatter(*synthetic.T, s=3, color="#1f5fa8", alpha=0.5, label="synthetic, epsilon 1")
right.set(xlabel="brightness of a patch", ylabel="contrast (2 sd)", title=f"After {len(stream):,} rows", xlim=(0, 1), ylim=(0, 1))
right.legend(frameon=False, markerscale=4, fontsize=9)
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
