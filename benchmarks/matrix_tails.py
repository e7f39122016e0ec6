"""How much of its promise matrix Laplace noise can show in a given number of runs, between rows at right angles in two columns.

    python benchmarks/matrix_tails.py [--epsilon 3] [--draws 2000000] [--seed 0]

A row of length 1 along one axis is replaced by one along the other, so the second moment moves by diag(1, -1), of nuclear norm 2, and the
scale of the noise is 2 / epsilon. The score of a run is the exact logarithm of the ratio of its two likelihoods, which no test beats. It
prints how often the score is near epsilon, and the largest ratio epsilon_lower / epsilon, at 99 % confidence, for that number of runs. A
coin picks the table, which is guessed where the score is far from 0 (as in `audit_epsilon`); guesses are right as often as in expectation.
An auditor has this result who knows both the density and the best threshold beforehand, and chooses nothing by any run.
"""

import argparse

import numpy as np
from scipy.stats import beta

from skdpsynth.auditing._outputs import minus_log_density

CONFIDENCE = 0.99
RUNS = (12_000, 100_000, 1_000_000, 2_000_000, 8_000_000)
BATCH = 100_000
CHANGE = np.diag([1.0, -1.0]) / 2  # times epsilon, in units of the scale


def losses(rng, epsilon):
    """Losses of draws of the first table, over the second one."""
    wisharts = [np.einsum("nij,nik->njk", g, g) / 2 for g in rng.normal(size=(2, BATCH, 3, 2))]
    noise = wisharts[0] - wisharts[1]
    return minus_log_density(noise + epsilon * CHANGE) - minus_log_density(noise)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epsilon", type=float, default=3.0)
    parser.add_argument("--draws", type=int, default=2_000_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    loss = -np.sort(-np.concatenate([losses(rng, arguments.epsilon) for _ in range(-(-arguments.draws // BATCH))]))
    print(f"largest loss of {len(loss)} draws: {loss[0]:.3f} of {arguments.epsilon}")
    for share in (0.8, 0.9, 0.95):
        print(f"loss above {share} epsilon: {np.mean(loss > share * arguments.epsilon):.2e}")
    # By symmetry a guess at a loss below -c is right as often as one above c. Under the first table those are exp(-loss) as frequent.
    right, wrong = np.arange(1, len(loss) + 1) / len(loss), np.exp(-loss).cumsum() / len(loss)
    some = np.unique(np.geomspace(20, np.count_nonzero(loss > 0) - 1, 3000).astype(int))
    for runs in RUNS:
        least = beta.ppf(1 - CONFIDENCE, right[some] * runs, wrong[some] * runs + 1)
        print(f"{runs:>9} runs: ratio {np.max(np.log(least / (1 - least))) / arguments.epsilon:.3f}")


if __name__ == "__main__":
    main()
