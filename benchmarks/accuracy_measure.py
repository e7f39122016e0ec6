"""W1 of the default PrivateMeasureMechanism over that of strategy="paper", at equal epsilon.

Six data sets, n * epsilon in {1e2, 1e3, 1e4} (n = 1000 to 3000), and three at n = 1e6, epsilon 1. Exact W1 (chebyshev) between the data and
n synthetic rows; at n = 1e6 and d >= 2 both are binned first (32^2, 10^3, 4^5 cells).

    python benchmarks/accuracy_measure.py [--repeats 4] [--large]
"""

import argparse
import sys
import warnings

import numpy as np
from generators import CUBE_SETS, cube

from skdpsynth import PrivateMeasureMechanism
from skdpsynth.exceptions import SmallSampleWarning
from skdpsynth.metrics import wasserstein_distance

TARGETS = {1: 0.42, 2: 0.50, 3: 0.62, 5: 0.85}
ROWS = {1: 3000, 2: 1000, 3: 1000, 5: 1000}
STRATEGIES = ("auto", "paper")


def distance(X, strategy, epsilon, seeds, measure=wasserstein_distance):
    """Mean W1 over fits (secure noise: each run draws its own)."""
    return np.mean([measure(X, PrivateMeasureMechanism(strategy, epsilon=epsilon).fit(X).sample()) for _ in range(seeds)])


def binned_distance(X, Y):
    """W1 after binning both to a grid (exact in one dimension)."""
    import ot
    from scipy.spatial.distance import cdist

    d = X.shape[1]
    if d == 1:
        return wasserstein_distance(X, Y)
    side = {2: 32, 3: 10, 5: 4}[d]
    edges = [np.linspace(0, 1, side + 1)] * d
    a, b = (np.histogramdd(Z, bins=edges)[0].ravel() / len(Z) for Z in (X, Y))
    grid = np.stack(np.meshgrid(*[(np.arange(side) + 0.5) / side] * d, indexing="ij"), axis=-1).reshape(-1, d)
    i, j = np.flatnonzero(a), np.flatnonzero(b)
    return ot.emd2(a[i], b[j], cdist(grid[i], grid[j], "chebyshev"), numItermax=10_000_000)


def small(repeats):
    """Print the ratios of the realistic sizes; return whether the targets are met."""
    met = True
    for d, target in TARGETS.items():
        n = ROWS[d]
        cells, logs = [], []
        for name in CUBE_SETS:
            X = cube(name, n, d)
            for size in (1e2, 1e3, 1e4):
                runs = repeats * (4 if d == 1 else 1)
                ours, paper = (distance(X, strategy, size / len(X), runs) for strategy in STRATEGIES)
                logs.append(np.log(ours / paper))
                cells.append(f"{name}/{size:.0e} {ours / paper:.2f}")
        ratio, spread = np.exp(np.mean(logs)), np.std(logs) / np.sqrt(len(logs))
        met &= ratio <= target
        print(
            f"d={d} n={n}: geometric mean {ratio:.3f} (spread over cells: standard error {spread:.3f} in log), target <= {target}",
            flush=True,
        )
        print("    " + ", ".join(cells), flush=True)
    return met


def large(repeats):
    """Print the ratios at a million rows; return whether none exceeds 1.1."""
    met = True
    for d in (1, 2, 3, 5):
        for name in ("uniform", "gmm", "manifold"):
            X = cube(name, 10**6, d)
            ours, paper = (distance(X, strategy, 1.0, repeats, binned_distance) for strategy in STRATEGIES)
            met &= ours / paper <= 1.1
            print(f"d={d} n=1e6 {name}: {ours:.5f} / {paper:.5f} = {ours / paper:.2f}, target <= 1.1", flush=True)
    return met


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--only", choices=("small", "large"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", SmallSampleWarning)
    ok = True
    if arguments.only != "large":
        ok &= small(arguments.repeats)
    if arguments.only != "small":
        ok &= large(max(1, arguments.repeats // 2))
    print("all targets met" if ok else "SOME TARGETS MISSED")
    sys.exit(not ok)
