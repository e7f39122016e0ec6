"""How much of its promise matrix Laplace noise can show in so many runs, between rows at right angles in two columns.

    python benchmarks/matrix_tails.py [--draws 2000000] [--seed 0]

Epsilon is 2, a row of length 1 along one axis is replaced by one along the other, so the second moment moves by diag(1, -1), of nuclear
norm 2, and the scale of the noise is 1. The score of a run is the exact logarithm of the ratio of its two likelihoods, which no test
beats. Printed: how often it is near epsilon, and the largest ratio epsilon_lower / epsilon, at 99 % confidence, of so many runs in which a
coin picks the table and is guessed where the score is far from 0 (as `audit_epsilon` does), were the guesses as right as they are in
expectation: what an auditor would find who knew both the density and the best threshold beforehand, and chose nothing by any run.

The density, up to a constant: with (x, y, t) for [[t + x, y], [y, t - x]], the matrices that are positive semidefinite are a cone of
slope 1 over the plane of x and y. A difference of two Wisharts of density exp(-tr W) on it has at Z the integral of
exp(-tr V - tr(V - Z)) over the V of both the cone and the cone shifted to Z: at height h a lens, of discs of radius h and h - t whose
centres are sqrt(x^2 + y^2) apart.
"""

import argparse

import numpy as np
from scipy.stats import beta

EPSILON, CONFIDENCE = 2.0, 0.99
RUNS = (12_000, 100_000, 1_000_000, 2_000_000)
BATCH = 100_000
NODES, WEIGHTS = np.polynomial.laguerre.laggauss(60)


def lens(first, second, apart):
    """Area that two discs share, by their radii and the distance of their centres."""
    first, second, apart = np.broadcast_arrays(first, second, apart)
    area = np.where(apart <= abs(first - second), np.pi * np.minimum(first, second) ** 2, 0.0)
    crossing = (apart > abs(first - second)) & (apart < first + second)
    a, b, c = first[crossing], second[crossing], apart[crossing]
    angles = [np.arccos(np.clip((c**2 + r**2 - s**2) / (2 * c * r), -1, 1)) * r**2 for r, s in ((a, b), (b, a))]
    triangles = np.sqrt(np.maximum((a + b - c) * (c + a - b) * (c - a + b) * (a + b + c), 0)) / 2
    area[crossing] = angles[0] + angles[1] - triangles
    return area


def log_density(x, y, t):
    """Of the noise at a matrix, up to a constant."""
    across, t = np.hypot(x, y), abs(t)
    logarithm = np.log(np.pi / 32) - 2 * t  # inside the cone the integral is over the shifted cone
    out = across > t
    across, t = across[out], t[out]
    lowest, above = (across + t) / 2, NODES[:, None] / 4
    logarithm[out] = -2 * across + np.log(WEIGHTS @ lens(lowest + above, lowest + above - t, across) / 4)
    return logarithm


def losses(rng):
    """Losses of draws of the first table, over the second one."""
    wisharts = [np.einsum("nij,nik->njk", g, g) / 2 for g in rng.normal(size=(2, BATCH, 3, 2))]
    noise = wisharts[0] - wisharts[1]
    x, y, t = (noise[:, 0, 0] - noise[:, 1, 1]) / 2, noise[:, 0, 1], (noise[:, 0, 0] + noise[:, 1, 1]) / 2
    return log_density(x, y, t) - log_density(x + 1, y, t)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=2_000_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    loss = -np.sort(-np.concatenate([losses(rng) for _ in range(-(-arguments.draws // BATCH))]))
    print(f"largest loss of {len(loss)} draws: {loss[0]:.3f} of {EPSILON}")
    for share in (0.8, 0.9, 0.95):
        print(f"loss above {share} epsilon: {np.mean(loss > share * EPSILON):.2e}")
    # By symmetry a guess at a loss below -c is right as often as one above c. Under the first table those are exp(-loss) as frequent.
    right, wrong = np.arange(1, len(loss) + 1) / len(loss), np.exp(-loss).cumsum() / len(loss)
    some = np.unique(np.geomspace(20, np.count_nonzero(loss > 0) - 1, 3000).astype(int))
    for runs in RUNS:
        least = beta.ppf(1 - CONFIDENCE, right[some] * runs, wrong[some] * runs + 1)
        print(f"{runs:>9} runs: ratio {np.max(np.log(least / (1 - least))) / EPSILON:.3f}")


if __name__ == "__main__":
    main()
