"""
Synthetic data from real images
===============================

Can private synthetic data look like the data? The rows here are real: the colors of two photographs, and small gray
patches of one of them. Each model sees them once, at epsilon 1, and every number below is measured on what it sampled.

The script prints a table and the privacy ledger, and writes ``quickstart.png`` and ``synthetic_pixels.csv``.
"""

import argparse
import copy
import time
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer, load_sample_images
from sklearn.decomposition import PCA

from skdpsynth import LowDimSynthesizer, PrivateMeasureMechanism, PrivatePCA
from skdpsynth.exceptions import BudgetWarning
from skdpsynth.metrics import captured_variance_ratio, sliced_wasserstein_distance, wasserstein_distance

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--output", type=Path, default=Path("output"), help="folder for the picture and the rows")
output = parser.parse_known_args()[0].output
output.mkdir(parents=True, exist_ok=True)
started = time.perf_counter()
public = np.random.default_rng(0)  # draws that touch no noise: which rows are compared


def thin(X, n=2000):
    """A random subsample of at most n rows, as floats."""
    return np.asarray(X, dtype=float)[public.permutation(len(X))[:n]]


table = []


def compare(what, X, models, bounds, fits=3):
    """Distances to the real rows, as means over `fits` fits of each model, and of what needs no model.

    W1 takes subsamples of at most 2,000 rows; the sliced distance takes all rows (of the real ones, half against half).
    """
    n = min(2000, len(X) // 2)
    draws = {name: [copy.deepcopy(model).fit(X).sample for _ in range(fits)] for name, model in models.items()}
    draws["uniform"] = [lambda n: public.uniform(*bounds, size=(n, X.shape[1]))]
    draws["midpoint"] = [lambda n: np.full((n, X.shape[1]), np.mean(bounds))]
    row = {"data": what}
    for name, samples in draws.items():
        near = [wasserstein_distance(thin(X, n), np.asarray(sample(n), dtype=float)) for sample in samples]
        row[name] = near, [sliced_wasserstein_distance(X, sample(len(X)), n_projections=10) for sample in samples]
    near = [wasserstein_distance(*np.array_split(thin(X, 2 * n), 2)) for _ in range(fits)]
    row["real"] = near, [sliced_wasserstein_distance(*np.array_split(thin(X, len(X)), 2), n_projections=10)]
    table.append(row)


# %%
# Colors: 273,280 pixels of three columns
# ----------------------------------------
# The bounds 0 to 255 are public: they come from the file format, not from the picture.

photographs = dict(zip(("china", "flower"), load_sample_images().images, strict=True))
pmm = PrivateMeasureMechanism(epsilon=1.0, bounds=(0, 255))
paper = PrivateMeasureMechanism("paper", epsilon=1.0, bounds=(0, 255))
for name, image in photographs.items():
    compare(f"{name}: pixels, d=3", image.reshape(-1, 3), {"skdpsynth": pmm, "paper": paper}, (0, 255))

pixels = photographs["china"].reshape(-1, 3)
pmm.fit(pixels)
synthetic_pixels = pmm.sample()
np.savetxt(output / "synthetic_pixels.csv", synthetic_pixels, fmt="%d", delimiter=",", header="red,green,blue", comments="")

# %%
# Patches: 64 columns that lie near a few directions
# --------------------------------------------------
# Every 8 x 8 patch of the gray image is a row. The private principal components are those of `PrivatePCA`; `LowDimSynthesizer` samples
# patches in a private subspace.

gray = photographs["china"].mean(axis=2)
patches = np.lib.stride_tricks.sliding_window_view(gray, (8, 8)).reshape(-1, 64)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", BudgetWarning)  # which says what a delta would do, as the next line shows
    private_pca = PrivatePCA(6, center="private", epsilon=1.0, bounds=(0, 255)).fit(patches)
gaussian_pca = PrivatePCA(6, center="private", epsilon=1.0, delta=1e-6, bounds=(0, 255)).fit(patches)
pca = PCA(6).fit(patches)
# Brightness is nearly all of the variance, and any noise finds it: what counts is how much of the rest the others capture.
rest = patches - np.outer(patches @ pca.components_[0], pca.components_[0])
captured = {name: captured_variance_ratio(rest, model.components_[1:]) for name, model in (("pure", private_pca), ("delta", gaussian_pca))}

low_dim = LowDimSynthesizer(epsilon=1.0, delta=1e-6, bounds=(0, 255), center="private")
paper = copy.deepcopy(low_dim).set_params(synthesizer=PrivateMeasureMechanism("paper"))
compare("china: 8x8 patches, d=64", patches, {"skdpsynth": low_dim, "paper": paper}, (0, 255))
low_dim.fit(patches)

# %%
# A small table: breast cancer, 569 rows of 30 columns
# ----------------------------------------------------
# Few rows leave little to learn under privacy: at epsilon 1 the noise is nearly as large as what the rows say. The bounds are assumed caps
# for each measurement, not the range of these rows.

caps = np.array([40, 50, 260, 4500, 0.25, 1.1, 1.3, 0.3, 0.7, 0.22])  # of the mean and of the worst value
caps = np.r_[caps, [3, 5, 22, 550, 0.04, 0.14, 0.4, 0.06, 0.08, 0.03], caps]  # between them: of the standard error
cancer = load_breast_cancer().data / caps  # W1 in parts of the public range
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # that so few rows are few is what this part shows
    for epsilon in (1.0, 10.0):
        models = {
            name: LowDimSynthesizer(epsilon=epsilon, synthesizer=PrivateMeasureMechanism(strategy), bounds=(0, 1))
            for name, strategy in (("skdpsynth", "auto"), ("paper", "paper"))
        }
        compare(f"breast cancer, d=30, epsilon {epsilon:g}", cancer, models, (0, 1))

# %%
# What came out
# -------------
# W1 is the exact Wasserstein distance (largest difference over the columns, in units of the data) between at most 2,000 real rows
# and as many synthetic ones; with 64 columns even two real subsamples are far apart. The sliced distance averages over directions and
# takes all rows. Models are fitted three times: mean, and in brackets the standard deviation. "paper" uses the published measure
# mechanism, made private; "uniform" and "midpoint" ignore the data; "real" is other real rows. In few columns synthetic rows come closer
# than one random half of the real rows does to the other: they are spread evenly, where a random half has the error of a random sample.


def cell(values):
    """A mean, with its standard deviation where there are several values."""
    return f"{np.mean(values):.3g}" + (f" ({np.std(values, ddof=1):.2g})" if len(values) > 1 else "")


names = ("skdpsynth", "paper", "uniform", "midpoint", "real")
for column, title in enumerate(("W1, 2,000 rows", "sliced W1, all rows")):
    print(f"\n{title:<32}" + "".join(f"{name:>16}" for name in names))
    for row in table:
        print(f"{row['data']:<32}" + "".join(f"{cell(row[name][column]):>16}" for name in names))
print("\nEigenpatches 2 to 6: captured share of the variance without brightness, relative to the best five components")
print(f"    PrivatePCA, epsilon 1: {captured['pure']:.3f}; with delta 1e-6: {captured['delta']:.3f}")
print("\nBreast cancer has 569 rows: too few for useful private synthetic data at epsilon 1, where a constant does as well, and barely")
print("enough at 10. Collect more rows, or accept a weaker promise.")
for what, model in (("pixels", pmm), ("patches", low_dim)):
    accountant = model.accountant_
    print(f"\nPrivacy ledger of the {what}: one row of the table is protected ({accountant.neighboring})")
    for entry, part in accountant.lines():
        name = entry.name if part is None else f"  {entry.name}"
        print(f"    {name:<32}{entry.loss!s:<28}{accountant.noise_of(entry)}, {entry.randomness}")
    print(f"    total: epsilon {float(accountant.spent):.6g} of {float(accountant.epsilon):g}, delta {float(accountant.delta):g}")

# %%
# The picture
# -----------
# Each point is a pixel, drawn in its own color.

figure = plt.figure(figsize=(13, 7.4), layout="constrained")
top, bottom = figure.subfigures(2, 1, height_ratios=(1, 1.15), hspace=0.04)
axes = top.subplots(1, 4, width_ratios=(1.5, 1, 1, 1))
axes[0].imshow(photographs["china"])
axes[0].set(title="The photograph", xticks=[], yticks=[])
for ax, rows, title in ((axes[1], pixels, "Real pixels"), (axes[2], synthetic_pixels, "Synthetic pixels, epsilon 1")):
    shown = thin(rows, 4000)
    ax.scatter(shown[:, 0], shown[:, 2], s=5, c=shown / 255, linewidths=0)
    ax.set(title=title, xlabel="red", ylabel="blue", xlim=(0, 255), ylim=(0, 255), aspect="equal", facecolor="0.93")
names = ("skdpsynth", "paper", "uniform", "real")
ax, values = axes[3], [np.mean(table[0][name][1]) for name in names]
# Dots, not bars: on a logarithmic scale the length of a bar says nothing.
ax.hlines(range(4), 0.05, values, color="0.85", linewidth=1, zorder=0)
ax.scatter(values, range(4), s=60, c=("#1f5fa8", "#b0782b", "0.6", "#8a9a5b"))
for place, value in enumerate(values):
    ax.annotate(f"{value:.2g}", (value, place), (8, 0), textcoords="offset points", va="center")
ax.set_yticks(range(4), ["skdpsynth", "paper", "uniform", "two random\nhalves, real"])
ax.set(title="Distance to the real pixels", xlabel="sliced W1, gray levels (log)", xscale="log", xlim=(0.05, 400))
ax.set_box_aspect(1)
ax.invert_yaxis()
ax.spines[["top", "right"]].set_visible(False)

left, right = bottom.subfigures(1, 2, width_ratios=(1.15, 1))
grid = left.subplots(3, 6)
left.suptitle("First six components of 265,860 gray 8 x 8 patches")
rows = ((pca, "not private"), (private_pca, "epsilon 1"), (gaussian_pca, "epsilon 1\ndelta 1e-6"))
for axes_row, (model, label) in zip(grid, rows, strict=True):
    for ax, component, reference in zip(axes_row, model.components_, pca.components_, strict=True):
        component = component * (np.sign(component @ reference) or 1)
        ax.imshow(component.reshape(8, 8), cmap="RdBu_r", vmin=-np.abs(component).max(), vmax=np.abs(component).max())
        ax.set(xticks=[], yticks=[])
    axes_row[0].set_ylabel(label)
for number, ax in enumerate(grid[0], start=1):
    ax.set_title("1: brightness" if number == 1 else f"{number}", fontsize=9)
axes = right.subplots(1, 2, sharex=True, sharey=True)
right.suptitle("Patches on the first two components (synthetic: epsilon 1, delta 1e-6)")
for ax, rows, title in (
    (axes[0], patches, "Real"),
    (axes[1], low_dim.sample(3000), f"Synthetic, d' = {low_dim.n_components_}"),
):
    shown = pca.transform(thin(rows, 3000))
    ax.scatter(shown[:, 0], shown[:, 1], s=4, alpha=0.5, color="#1f5fa8", linewidths=0)
    ax.set(title=title, xlabel="component 1")
axes[0].set_ylabel("component 2")
figure.savefig(output / "quickstart.png", dpi=110)
print(f"\nWrote {output / 'quickstart.png'} and {output / 'synthetic_pixels.csv'} in {time.perf_counter() - started:.1f} s.")
