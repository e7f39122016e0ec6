"""
Synthetic data from a stream
============================

Rows arrive for ever; at any time the holder publishes synthetic data of all rows so far, and one epsilon covers the whole stream. The
rows are the 8 x 8 patches of a photograph that comes with scikit-learn, from its left edge to its right: brightness and contrast drift with
what the picture shows. Exact W1 to the rows so far (600 of each) over time, for disjoint blocks, for the published algorithm, for uniform
noise, and for a mechanism that starts anew at each time with the whole epsilon, which a stream could not pay for.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

from skdpsynth import OnlineSynthesizer, PrivateMeasureMechanism
from skdpsynth.metrics import wasserstein_distance
from skdpsynth.plotting import StreamDisplay

gray = load_sample_image("china.jpg").mean(axis=2) / 255
patches = np.lib.stride_tricks.sliding_window_view(gray, (8, 8))[::2, ::2]
patches = patches.swapaxes(0, 1).reshape(-1, 64)  # from left to right: the order of the stream
stream = np.column_stack([patches.mean(axis=1), 2 * patches.std(axis=1)])  # both within (0, 1), whatever the picture

times = np.geomspace(110, len(stream), 9).astype(int)
rng = np.random.default_rng(0)


def distances(t, samples):
    """W1 of several samples to the same 600 of the rows so far."""
    rows = stream[rng.permutation(t)[:600]]
    return [wasserstein_distance(rows, sample) for sample in samples]


# %%
# Three streams of each kind
# --------------------------
# Lines are means of three runs, bands their range.

settings = {"blocks": {}, "paper (Algorithm 12)": {"strategy": "paper", "counter": "sparse"}}
curves = {name: [] for name in (*settings, "uniform", "offline, epsilon at each time")}
for _ in range(3):
    models = {name: OnlineSynthesizer(epsilon=1.0, bounds=(0, 1), **own) for name, own in settings.items()}
    run, seen = [], 0
    for t in times:
        samples = [model.partial_fit(stream[seen:t]).sample(600) for model in models.values()]
        offline = PrivateMeasureMechanism(epsilon=1.0, bounds=(0, 1)).fit(stream[:t]).sample(600)
        run.append(distances(t, [*samples, rng.random((600, 2)), offline]))
        seen = t
    for name, curve in zip(curves, np.transpose(run), strict=True):
        curves[name].append(curve)
for name, runs in curves.items():
    print(f"{name:<32}" + " ".join(f"{value:.3f}" for value in np.mean(runs, axis=0)))
print(models["blocks"].accountant_)

display = StreamDisplay.from_curves(times, curves)
display.plot(scale="log", ylabel="W1 to the rows so far", title="One epsilon for the whole stream")

# %%
# The rows, and synthetic ones
# ----------------------------

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 4), layout="constrained", sharex=True, sharey=True)
left.scatter(*stream[rng.permutation(len(stream))[:3000]].T, s=3, color="0.45", linewidths=0)
right.scatter(*models["blocks"].sample(3000, random_state=0).T, s=3, color="#1f5fa8", linewidths=0)
left.set(title="3,000 rows (private)", ylabel="contrast (2 sd)", xlim=(0, 1), ylim=(0, 1))
right.set(title=f"Synthetic, epsilon 1, after {len(stream):,} rows")
for ax in (left, right):
    ax.set(xlabel="brightness of a patch", aspect="equal")
    ax.spines[["top", "right"]].set_visible(False)

# %%
# What was released along the way
# -------------------------------
# A block is a stretch of the photograph, read from its left edge to its right. What patches of a stretch are like follows what the picture
# shows there, so medians jump from block to block.

display = StreamDisplay.from_estimator(models["blocks"])
display.names = ("brightness", "contrast (2 sd)")
display.plot(title="Synthetic rows of each block: the photograph from left to right")
