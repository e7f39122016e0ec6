"""Fits to a stated error: the epsilon that they spend over what hindsight needs, and an audit of a whole search.

python benchmarks/fit_to_error.py [--runs 100] [--only CASE ...]

hindsight: the epsilon at which the mean error of single fits is the target, read off a curve of 40 epsilons (means of several fits, made to
fall with epsilon, straight lines on logarithmic scales). A search spends all its rounds: with a delta that is the conversion of their rho.
Cases: "bound-1", "bound-2": the proved bound of PrivateMeasureMechanism in one and two features, n = 5000. "pairs", "pairs-delta": total
variation of pairs, of LatentFactorSynthesizer on three columns, n = 5000; the hindsight is that of the *true* error, against the rows.
"audit": whether a search on neighbors (n = 20, cap 1) shows more than its cap; the guesses look at rounds and at the released measure.
"""

import argparse
import sys
import time
import warnings

import numpy as np
from sklearn.isotonic import isotonic_regression

from skdpsynth import LatentFactorSynthesizer, PrivateMeasureMechanism
from skdpsynth.auditing import audit_epsilon, worst_case_neighbors
from skdpsynth.metrics import marginal_total_variation
from skdpsynth.model_selection import fit_to_error

FAILED = []
CAP, N = 4.0, 5000
SCHEMA = {0: (18, 99), 1: [0, 1, 2, 3, 4], 2: [0, 1]}


def report(name, figure, target, met):
    """Print a figure beside its target."""
    print(f"{name}: {figure}, target {target}: {'met' if met else 'MISSED'}", flush=True)
    if not met:
        FAILED.append(name)


def points(d, seed):
    """Rows of numbers."""
    return np.random.default_rng(seed).beta(2, 5, (N, d))


def people(seed):
    """Ages, a level of five, and a flag that both depend on."""
    rng = np.random.default_rng(seed)
    ill = rng.random(N) < 0.3
    return np.column_stack([np.clip(rng.normal(40 + 20 * ill, 12), 18, 90).astype(int), rng.integers(0, 5, N) // (1 + ill), ill])


def curve(fit, error, repeats):
    """Mean errors of single fits at 40 epsilons."""
    epsilons = np.geomspace(CAP / 256, CAP, 40)
    means = [np.mean([error(fit(epsilon)) for _ in range(repeats)]) for epsilon in epsilons]
    return np.log(epsilons), np.log(isotonic_regression(means, increasing=False))


def needed(found, target):
    """The epsilon of hindsight."""
    return float(np.exp(np.interp(-np.log(target), -found[1], found[0])))


def compare(name, runs, targets, table, model, error, kind, repeats):
    """Search on tables of their own, and compare what is spent with hindsight."""
    found = curve(lambda epsilon: model(epsilon).fit(table(0)), error, repeats)
    for target in targets:
        hindsight, spent, last, reached, seconds = needed(found, target), [], [], 0, []
        for seed in range(runs):
            start = time.perf_counter()
            result = fit_to_error(model(1.0), table(seed), target=target, max_epsilon=CAP, error=kind)
            seconds.append(time.perf_counter() - start)
            spent.append(float(result.spent) / hindsight)
            last.append(float(result.rounds[-1].epsilon) / hindsight)
            reached += result.is_reached
            if result.spent > CAP:
                FAILED.append(f"{name}: above the cap")
        half, most = np.quantile(spent, [0.5, 0.9])
        words = f"{name}, target {target:g} (hindsight {hindsight:.3g}, {reached} of {runs} reached, {np.median(seconds):.1f} s)"
        figure = f"spent over hindsight: median {half:.2f}, 90 % {most:.2f}; last fit {np.median(last):.2f}"
        report(words, figure, "at most 2.2 in 90 %", most <= 2.2 and reached == runs)


def audit(trials):
    """Guess which of two neighbors a search ran on."""
    model = PrivateMeasureMechanism("adaptive", depth=3, bounds=(0, 1))
    X, neighbor = worst_case_neighbors(model, 20)

    def search(rows):
        result = fit_to_error(model, rows, target=0.25, max_epsilon=1.0, error="bound")
        return np.concatenate([[len(result.rounds), float(result.spent)], result.model.measure_.weights[:4].astype(float), np.zeros(4)])[:6]

    found = audit_epsilon(search, X, neighbor, n_trials=trials, epsilon=1.0, random_state=0)
    report("audit of a search, epsilon_lower", f"{found.epsilon_lower:.3f}", "at most 1", found.epsilon_lower <= 1)


def measure(d):
    """PrivateMeasureMechanism by epsilon."""
    return lambda epsilon: PrivateMeasureMechanism(epsilon=epsilon, bounds=([0] * d, [1] * d))


def factors(delta):
    """LatentFactorSynthesizer by epsilon."""
    return lambda epsilon: LatentFactorSynthesizer(SCHEMA, epsilon=epsilon, delta=delta)


def pairs(model):
    """The true error of a model of `people(0)`."""
    return marginal_total_variation(people(0), model.sample(), SCHEMA)


def bound(model):
    """The bound that a model tells of itself."""
    return model.error_bound_


CASES = {
    "bound-1": lambda runs: compare("bound-1", runs, (0.05, 0.02, 0.008), lambda seed: points(1, seed), measure(1), bound, "bound", 10),
    "bound-2": lambda runs: compare("bound-2", runs, (0.4, 0.3, 0.25), lambda seed: points(2, seed), measure(2), bound, "bound", 20),
    "pairs": lambda runs: compare("pairs", runs, (0.1, 0.06), people, factors(0), pairs, "pairs", 3),
    "pairs-delta": lambda runs: compare("pairs-delta", runs, (0.1, 0.06), people, factors(1e-6), pairs, "pairs", 3),
    "audit": lambda runs: audit(10 * runs),
}


def main():
    """Run the cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in arguments.only:
        CASES[name](arguments.runs)
    sys.exit(f"missed: {FAILED}" if FAILED else 0)


if __name__ == "__main__":
    main()
