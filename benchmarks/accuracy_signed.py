"""Accuracy of the signed measure mechanism, beside clipping and normalizing, and beside PMM inside LowDimSynthesizer.

python benchmarks/accuracy_signed.py [--repeats 4] [--only grid|subspace]

grid: counts of a Gaussian mixture on 9 x 9 x 9 cells, n = 729, noise Lap_Z(1 / epsilon) with epsilon = 1; exact W1 (chebyshev, cell
centers) to the counts. subspace: d' = 2, 3, 4, 5, in a cube and near as many directions of ten columns; geometric mean of ratios.
"""

import argparse
import sys
import warnings

import numpy as np
from generators import CUBE_SETS, cube, low_rank
from scipy.spatial.distance import cdist

from skdpsynth import LowDimSynthesizer, PrivateMeasureMechanism, SignedMeasureMechanism
from skdpsynth.exceptions import SmallSampleWarning
from skdpsynth.measures import nearest_probability_measure
from skdpsynth.metrics import wasserstein_distance
from skdpsynth.privacy import DiscreteLaplace, check_rng


def w1_on_cells(weights, others, positions):
    """Exact W1 between two probability measures on the same cells."""
    import ot

    i, j = np.flatnonzero(weights), np.flatnonzero(others)
    return ot.emd2(weights[i], others[j], cdist(positions[i], positions[j], "chebyshev"), numItermax=10_000_000)


def grid(repeats):
    """Print W1 of the nearest measure over that of clipping; return whether it is at most a half."""
    side, d = 9, 3
    positions = (np.indices((side,) * d).reshape(d, -1).T + 0.5) / side
    noise, secure = DiscreteLaplace(1), check_rng(None)
    ours, clipped = [], []
    for seed in range(4 * repeats):
        rng = np.random.default_rng(seed)
        centers = 0.25 + 0.5 * rng.random((4, d))
        X = np.clip(centers[rng.integers(0, 4, side**d)] + 0.1 * rng.normal(size=(side**d, d)), 0, 1)
        true = np.histogramdd(X, bins=side, range=[(0, 1)] * d)[0].ravel()
        n = int(true.sum())
        noisy = true.astype(np.int64) + noise.sample(true.shape, secure)
        shift, rest = divmod(int(noisy.sum()) - n, len(noisy))
        noisy -= shift
        noisy[rng.permutation(len(noisy))[:rest]] -= 1
        solution = nearest_probability_measure(positions, noisy, total=n)
        kept = np.maximum(noisy, 0)
        ours.append(w1_on_cells(solution.weights, true / n, positions))
        clipped.append(w1_on_cells(kept / kept.sum(), true / n, positions))
    ratio = np.mean(ours) / np.mean(clipped)
    nearest, naive = (f"{np.mean(v):.4f} (sd {np.std(v, ddof=1):.4f})" for v in (ours, clipped))
    print(f"9^3 cells, n = 729, {len(ours)} seeds: W1 to the counts, nearest measure {nearest}, clipped and normalized {naive}")
    print(f"    ratio {ratio:.2f}, target <= 0.5: {'met' if ratio <= 0.5 else 'MISSED'}", flush=True)
    return ratio <= 0.5


def subspace(repeats):
    """Print W1 of PSMM over that of PMM, by n * epsilon and dimension."""
    n = 1000
    for d in (2, 3, 4, 5):
        for size in (1e2, 3e2, 1e3, 3e3, 1e4):
            logs, inside = [], []
            for name in CUBE_SETS:
                X = cube(name, n, d)
                logs.append(
                    np.log(ratio_of(X, SignedMeasureMechanism(epsilon=size / n), PrivateMeasureMechanism(epsilon=size / n), repeats))
                )
            for seed in range(8):
                rng = np.random.default_rng(seed)
                X = low_rank(n, 10, d, rng)
                # Twice the budget: half of it is the reducer's.
                models = (LowDimSynthesizer(d, synthesizer=name, epsilon=2 * size / n) for name in ("psmm", "pmm"))
                inside.append(np.log(ratio_of(X, *models, repeats)))
            parts = [f"{np.exp(np.mean(v)):.3f} (se {np.std(v, ddof=1) / np.sqrt(len(v)):.3f})" for v in (logs, inside)]
            print(f"d'={d} n * epsilon={size:g}: W1 of PSMM over PMM, cube {parts[0]}, LowDimSynthesizer {parts[1]}", flush=True)
    return True


def ratio_of(X, model, other, repeats):
    """Mean W1 of one over mean W1 of the other (secure noise: each run draws its own)."""
    means = [np.mean([wasserstein_distance(X, m.fit(X).sample()) for _ in range(repeats)]) for m in (model, other)]
    return means[0] / means[1]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--only", choices=("grid", "subspace"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", SmallSampleWarning)
    ok = True
    for part in (grid, subspace):
        if arguments.only in (None, part.__name__):
            ok &= part(arguments.repeats)
    print("all targets met" if ok else "SOME TARGETS MISSED")
    sys.exit(not ok)
