"""Captured variance of PrivatePCA and distances of LowDimSynthesizer on low-rank and near-planar data, at equal and stated epsilon.

python benchmarks/accuracy_pca.py [--repeats 10]
"""

import argparse
import sys

import numpy as np
from generators import low_rank, planar

from skdpsynth import LowDimSynthesizer, PrivatePCA
from skdpsynth.metrics import captured_variance_ratio, sliced_wasserstein_distance, wasserstein_distance

FAILED = []


def report(what, values, target, at_least):
    """Print a mean with its spread beside its target."""
    mean, spread = np.mean(values), np.std(values, ddof=1)
    met = mean >= target if at_least else mean <= target
    if not met:
        FAILED.append(what)
    sign = ">=" if at_least else "<="
    print(f"{what}: {mean:.4f} (sd {spread:.4f}, {len(values)} runs), target {sign} {target}: {'met' if met else 'MISSED'}", flush=True)


def low_rank_cells(repeats):
    for n, d, variance, distance in ((10_000, 20, 0.80, 0.14), (100_000, 50, 0.90, 0.095)):
        captured = {"public": [], "private": []}
        w1, floor = [], []
        for seed in range(repeats):
            rng = np.random.default_rng(seed)
            X = low_rank(n, d, 3, rng)
            for center, values in captured.items():
                values.append(captured_variance_ratio(X, PrivatePCA(3, center=center).fit(X).components_))
            some, others = np.split(X[rng.permutation(n)[:2400]], 2)
            w1.append(wasserstein_distance(some, LowDimSynthesizer(3).fit(X).sample(1200)))
            floor.append(wasserstein_distance(some, others))
        for center, values in captured.items():
            report(f"low rank n={n} d={d} epsilon=1, PrivatePCA({center}) captured variance", values, variance, True)
        report(f"low rank n={n} d={d} epsilon=1, LowDim d'=3 W1 (two real subsamples {np.mean(floor):.3f})", w1, distance, False)


def planar_cells(repeats):
    for d, epsilon, delta, center, target in (
        (20, 1, 0, "public", 0.88),
        (20, 1, 0, "private", 0.72),
        (5, 1, 0, "public", 0.995),
        (5, 1, 0, "private", 0.995),
        (5, 0.1, 0, "public", 0.90),
        (20, 1, 1e-6, "public", 0.97),
        (20, 1, 1e-6, "private", 0.97),
    ):
        values = []
        for seed in range(repeats):
            X = planar(10_000, d, np.random.default_rng(seed))
            pca = PrivatePCA(2, center=center, epsilon=epsilon, delta=delta).fit(X)
            values.append(captured_variance_ratio(X, pca.components_))
        report(f"planar d={d} epsilon={epsilon} delta={delta} center={center} captured variance", values, target, True)


def planar_synthesis(repeats):
    rows = []
    for seed in range(repeats):
        X = planar(10_000, 5, np.random.default_rng(seed))
        Y = LowDimSynthesizer(2).fit(X).sample()
        marginal = np.mean([wasserstein_distance(X[:, [j]], Y[:, [j]]) for j in range(5)])
        rows.append(
            (
                marginal,
                sliced_wasserstein_distance(X, Y),
                wasserstein_distance(X[:1500], Y[:1500]),
                wasserstein_distance(X[:1500], X[1500:3000]),
            )
        )
    marginal, sliced, joint, floor = np.transpose(rows)
    report("planar d=5 epsilon=1, LowDim d'=2 mean marginal W1", marginal, 0.006, False)
    report("planar d=5 epsilon=1, LowDim d'=2 sliced W1", sliced, 0.006, False)
    report(f"planar d=5 epsilon=1, LowDim d'=2 joint W1 of 1500 rows (two real subsamples {np.mean(floor):.3f})", joint, 0.030, False)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=10)
    arguments = parser.parse_args()
    low_rank_cells(arguments.repeats)
    planar_cells(arguments.repeats)
    planar_synthesis(arguments.repeats)
    print("all targets met" if not FAILED else f"MISSED: {FAILED}")
    sys.exit(bool(FAILED))
