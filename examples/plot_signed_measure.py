"""
Repairing a signed measure
==========================

Counts with honest noise can be negative. What is a good probability measure to put in their place? On a grid of 24 x 24 cells: the rows'
counts, the noisy counts that the privacy mechanism releases, and two repairs: clip the negative ones and normalize, or the nearest
probability measure in the bounded-Lipschitz distance, which ``SignedMeasureMechanism`` takes. W1 is the exact distance to the rows' own
counts. All pictures are of one release.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import SymLogNorm

from skdpsynth.measures import nearest_probability_measure
from skdpsynth.metrics import wasserstein_distance
from skdpsynth.privacy import DiscreteLaplace, check_rng

rng = np.random.default_rng(7)
side, n, epsilon = 24, 2000, 1.0
turn = rng.uniform(0.3, 2 * np.pi, n)  # rows along a spiral, which this picture may show because they are made up
X = np.clip(0.5 + 0.065 * turn[:, None] * np.column_stack([np.cos(2 * turn), np.sin(2 * turn)]) + rng.normal(0, 0.02, (n, 2)), 0, 1)

counts = np.histogram2d(*X.T, bins=side, range=[(0, 1)] * 2)[0].astype(np.int64).ravel()
noisy = counts + DiscreteLaplace(2 / epsilon).sample(counts.shape, check_rng(None))  # replacing a row changes two cells by one
shift, rest = divmod(int(noisy.sum()) - n, len(noisy))  # whole numbers that bring the sum back to n
noisy -= shift
noisy[rng.permutation(len(noisy))[:rest]] -= 1

centers = (np.indices((side, side)).reshape(2, -1).T + 0.5) / side
solution = nearest_probability_measure(centers, noisy, total=n)
clipped = np.maximum(noisy, 0) / np.maximum(noisy, 0).sum()


def w1(weights):
    """Exact W1 (chebyshev) to the rows' counts, of weights rounded to whole rows: the cost of moving what is too much to where it lacks."""
    whole = np.diff(np.floor(n * np.cumsum(weights) + 0.5).astype(int), prepend=0)
    excess, lack = np.maximum(whole - counts, 0), np.maximum(counts - whole, 0)
    return wasserstein_distance(np.repeat(centers, excess, axis=0), np.repeat(centers, lack, axis=0)) * excess.sum() / n


print(f"nearest measure: distance {solution.value:.5f}, gap {solution.gap:.1e}, status {solution.status}")
panels = {
    "the rows' counts (private)": counts / n,
    f"noisy counts (signed): W1 {w1(noisy / n):.3f}": noisy / n,
    f"clipped and normalized: W1 {w1(clipped):.3f}": clipped,
    f"nearest measure: W1 {w1(solution.weights):.3f}": solution.weights,
}
for title in panels:
    print(title)

most = n * max(np.abs(weights).max() for weights in panels.values())
scale = SymLogNorm(5, vmin=-most, vmax=most)  # logarithmic beyond 5 rows, so that noise can be seen beside the center of the spiral
figure, axes = plt.subplots(1, 4, figsize=(12, 3.5), layout="constrained", sharey=True)
for ax, (title, weights) in zip(axes, panels.items(), strict=True):
    image = ax.imshow(n * weights.reshape(side, side).T, cmap="RdBu_r", norm=scale, origin="lower", extent=(0, 1, 0, 1))
    ax.set_title(title, fontsize=10)
    ax.set(xticks=[0, 1], yticks=[0, 1])
figure.colorbar(image, ax=axes, label="rows in a cell", shrink=0.9, ticks=[-50, -10, -3, 0, 3, 10, 50], format="%g")
figure.suptitle(f"{n} rows in {side} x {side} cells, epsilon {epsilon:g}; no probability measure is nearer than the last", fontsize=11)
