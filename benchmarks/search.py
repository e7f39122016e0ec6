"""Private search: whether it finds the true dimension, the cost to the final fit, and a comparison with random stopping.

python benchmarks/search.py [--full] [--runs 10]

finds: LowDimSynthesizer on rows near three directions of twenty columns (n = 1e5, epsilon 2 in all), candidates d' = 1 to 6. cost: sliced
distance of the final model to fresh rows, over that of a model that is told d' = 3 and given the whole epsilon. stopping: the best of
candidates drawn at random, fitted and scored at a third of the search's epsilon, a geometric number of times of mean 20 for each candidate.
It runs with --full only, because it takes hundreds of fits.
"""

import argparse
import sys
import time
import warnings

import numpy as np
from generators import low_rank

from skdpsynth import LowDimSynthesizer
from skdpsynth.metrics import sliced_wasserstein_distance
from skdpsynth.model_selection import PrivateSearchCV

FAILED = []
DIMENSIONS = [1, 2, 3, 4, 5, 6]


def report(name, figure, target, met):
    """Print a figure beside its target."""
    print(f"{name}: {figure}, target {target}: {'met' if met else 'MISSED'}", flush=True)
    if not met:
        FAILED.append(name)


def table(seed, n_rows):
    """Rows near three directions of twenty columns, and as many fresh ones."""
    rows = low_rank(2 * n_rows, 20, 3, np.random.default_rng(seed))
    return rows[:n_rows], rows[n_rows:]


def finds(runs, **params):
    """Search on the low-rank data of the specification."""
    found, ratios, autos, seconds = [], [], [], []
    for seed in range(runs):
        X, fresh = table(seed, 100_000)
        start = time.perf_counter()
        search = PrivateSearchCV(LowDimSynthesizer(), {"n_components": DIMENSIONS}, epsilon=2, **params).fit(X)
        seconds.append(time.perf_counter() - start)
        found.append(search.best_params_["n_components"])
        errors = [distance(model, fresh) for model in (search, LowDimSynthesizer(epsilon=2).fit(X), LowDimSynthesizer(3, epsilon=2).fit(X))]
        ratios.append(errors[0] / errors[2])
        autos.append(errors[1] / errors[2])
    print(f"d' chosen in {runs} runs: {found}; seconds of a search: {np.median(seconds):.1f}")
    report("d' = 3 chosen", f"{found.count(3)} of {runs}", f"at least {round(0.8 * runs)}", found.count(3) >= 0.8 * runs)
    print(f"sliced distance over that of d' = 3 with the whole epsilon (geometric means): search {mean(ratios)}, 'auto' {mean(autos)}")


def mean(ratios):
    """Geometric mean and its relative standard error."""
    logs = np.log(ratios)
    return f"{np.exp(logs.mean()):.2f} (se {logs.std(ddof=1) / np.sqrt(len(logs)):.2f})"


def distance(model, fresh):
    """Sliced distance of a sample to fresh rows."""
    return sliced_wasserstein_distance(fresh[:50_000], model.sample(50_000))


def stopping(runs, epsilon=0.6):
    """Compare what the two ways choose when the search may spend the same."""
    for k in (3, 6, 12):
        dimensions = list(range(1, k + 1))
        shares, stopped, tried = [], [], []
        for seed in range(runs):
            rng = np.random.default_rng(seed)
            X, _ = table(seed, 100_000)
            chosen = PrivateSearchCV(LowDimSynthesizer(), {"n_components": dimensions}, epsilon=epsilon, refit=False).fit(X)
            shares.append(chosen.best_params_["n_components"])
            tried.append(rng.geometric(1 / (20 * k)))
            best = max(map(tuple, (one_try(X, rng, dimensions, epsilon / 3) for _ in range(tried[-1]))))
            stopped.append(best[1])
        print(f"{k} candidates, epsilon {epsilon}: shares find 3 in {shares.count(3)} of {runs} with {k} fits each,")
        print(f"    random stopping in {stopped.count(3)} of {runs} with {np.mean(tried):.0f} fits on average", flush=True)


def one_try(X, rng, dimensions, epsilon):
    """Fit a candidate drawn at random, and score it on held-out rows with the noise that its budget asks for."""
    d = int(rng.choice(dimensions))
    search = PrivateSearchCV(LowDimSynthesizer(), {"n_components": [d]}, epsilon=epsilon, refit=False).fit(X)
    return search.best_score_, d


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--runs", type=int, default=10)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    finds(arguments.runs)
    if arguments.full:
        for share in (0.15, 0.2, 0.4, 0.5):
            for holdout in (0.1, 0.2, 0.4):
                print(f"search_share={share}, holdout={holdout}")
                finds(arguments.runs, search_share=share, holdout=holdout)
        stopping(arguments.runs)
    print("all targets met" if not FAILED else f"MISSED: {FAILED}")
    return int(bool(FAILED))


if __name__ == "__main__":
    sys.exit(main())
