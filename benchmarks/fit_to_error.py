"""Fits to a stated error: the epsilon of the model, and what all rounds spend, over what hindsight needs; and audits of whole searches.

python benchmarks/fit_to_error.py [--runs 100] [--only CASE ...]

hindsight: the least epsilon at which half of single fits to the same table have an error of at most the target, on a ladder from a 256th of
the cap upwards (steps of 5 %, 20 fits each; of 20 % and 10 fits where fits are slow). Errors may rise with epsilon in between, where sizes
change: the first rung counts. A search spends all its rounds: with a delta that is the conversion of their rho.
Cases: "bound-1", "bound-2": the proved bound of PrivateMeasureMechanism in one and two features, n = 5000, over five tables. "wasserstein":
its estimate in one feature. "pairs", "pairs-delta": total variation of pairs, of LatentFactorSynthesizer on three columns, n = 5000; the
hindsight is that of the *true* error, against the rows. "width": the 95 % interval of a share, two columns, n = 1000.
"audit": whether searches on neighbors (n = 20, cap 1) show more than their cap, and whether two faults that are put in are found: rounds
that cost eight times what they are charged, and a stop that reads the rows.
"""

import argparse
import sys
import time
import warnings
from functools import partial

import numpy as np
from sklearn.base import clone

from skdpsynth import LatentFactorSynthesizer, PrivateMeasureMechanism
from skdpsynth.auditing import audit_epsilon, worst_case_neighbors
from skdpsynth.metrics import marginal_total_variation
from skdpsynth.model_selection import fit_to_error
from skdpsynth.model_selection._fit_to_error import _Search

FAILED = []
CAP, N = 4.0, 5000
FIT = _Search.fit_rows
SCHEMA = {0: (18, 99), 1: [0, 1, 2, 3, 4], 2: [0, 1]}


def report(name, figure, target, met):
    """Print a figure beside its target."""
    print(f"{name}: {figure}, target {target}: {'met' if met else 'MISSED'}", flush=True)
    if not met:
        FAILED.append(name)


def points(d, seed):
    """Rows of numbers."""
    return np.random.default_rng(seed).beta(2, 5, (N, d))


def flags(seed):
    """Two flags."""
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.random(1000) < 0.3, rng.random(1000) < 0.6]).astype(int)


def people(seed):
    """Ages, a level of five, and a flag that both depend on."""
    rng = np.random.default_rng(seed)
    ill = rng.random(N) < 0.3
    return np.column_stack([np.clip(rng.normal(40 + 20 * ill, 12), 18, 90).astype(int), rng.integers(0, 5, N) // (1 + ill), ill])


def needed(fit, error, targets, step, repeats):
    """The epsilons of hindsight, by target."""
    found, epsilon, before = {}, CAP / 256, CAP / 256
    while epsilon < CAP and len(found) < len(targets):
        median = np.median([error(fit(epsilon)) for _ in range(repeats)])
        found |= {target: (epsilon * before) ** 0.5 for target in targets if target not in found and median <= target}
        before, epsilon = epsilon, epsilon * step
    return found


def compare(name, runs, targets, table, model, error, kind, tables=5, step=1.05, repeats=20, **options):
    """Search on some tables, and compare with hindsight."""
    hindsight = []
    for seed in range(tables):
        rows = table(seed)
        hindsight.append(needed(lambda epsilon, rows=rows: model(epsilon).fit(rows), partial(error, rows), targets, step, repeats))
    for target in targets:
        spent, last, true, n_rounds, reached, start = [], [], [], [], 0, time.process_time()
        for run in range(runs):
            rows, least = table(run % tables), hindsight[run % tables][target]
            result = fit_to_error(model(1.0), rows, target=target, max_epsilon=CAP, error=kind, **options)
            spent.append(float(result.spent) / least)
            last.append(float(result.rounds[-1].epsilon) / least)
            true.append(error(rows, result.model) / target)
            n_rounds.append(len(result.rounds))
            reached += result.is_reached
            if result.spent > CAP:
                FAILED.append(f"{name}: above the cap")
        seconds, middle = (time.process_time() - start) / runs, np.median([each[target] for each in hindsight])
        words = f"{name}, target {target:g} (hindsight {middle:.3g}, {reached} of {runs} reached, {np.mean(n_rounds):.1f} rounds, "
        words += f"error over target in the median {np.median(true):.2f}, {seconds:.1f} s of the processor)"
        (half, most, worst), others = np.quantile(last, [0.5, 0.9, 1]), np.quantile(spent, [0.5, 0.9, 1])
        figure = f"model over hindsight: median {half:.2f}, 90 % {most:.2f}, most {worst:.2f}; spent over hindsight: "
        figure += f"median {others[0]:.2f}, 90 % {others[1]:.2f}, most {others[2]:.2f}"
        report(words, figure, "the model at most 2.2 in 90 %", most <= 2.2 and reached == runs)


def measure(d):
    """PrivateMeasureMechanism by epsilon."""
    return lambda epsilon: PrivateMeasureMechanism(epsilon=epsilon, bounds=([0] * d, [1] * d))


def factors(delta):
    """LatentFactorSynthesizer by epsilon."""
    return lambda epsilon: LatentFactorSynthesizer(SCHEMA, epsilon=epsilon, delta=delta)


def few(epsilon):
    """LatentFactorSynthesizer of two flags by epsilon."""
    return LatentFactorSynthesizer({0: [0, 1], 1: [0, 1]}, n_factors=1, epsilon=epsilon)


def overspend(search, epsilon, delta, accountant):
    """Show a fit with eight times the epsilon that is charged."""
    model = FIT(search, epsilon, delta, accountant)
    model.measure_ = clone(search.estimator).set_params(epsilon=8 * epsilon).fit(search.X).measure_
    return model


def audit(trials):
    """Guess which of two neighbors a search ran on, from all its rounds."""
    model = PrivateMeasureMechanism("optimal", depth=1, bounds=(0, 1))
    X, neighbor = worst_case_neighbors(model, 20)

    def search(reads, rows):
        weights = []

        def error(model):
            if model.random_state is not None:
                raise ValueError("only rounds are looked at")  # no simulations: rounds then follow a power law, which is faster
            weights.append(float(model.measure_.weights[0]))
            return 0.0 if reads and np.array_equal(rows, X) else 1 + weights[-1]

        result = fit_to_error(model, rows, target=0.5, max_epsilon=1.0, error=error)
        return np.array([len(result.rounds), float(result.spent), *(weights + [0.0] * 10)[:10]])

    for name, reads, fit, is_sound in (
        ("honest", False, FIT, True),
        ("rounds cost eight times their charge", False, overspend, False),
        ("the stop reads the rows", True, FIT, False),
    ):
        _Search.fit_rows = fit
        found = audit_epsilon(partial(search, reads), X, neighbor, n_trials=trials, epsilon=1.0, confidence=1 - 1e-9, random_state=0)
        figure, met = f"{found.epsilon_lower:.3f} of at most {found.epsilon_most:.3f} that so many runs can show", found.epsilon_lower <= 1
        report(f"audit, {name}: epsilon_lower", figure, "at most 1" if is_sound else "above 1", met == is_sound)
    _Search.fit_rows = FIT


def pairs(rows, model):
    """The true error of a model."""
    return marginal_total_variation(rows, model.sample(), SCHEMA)


def bound(rows, model):
    """The bound that a model tells of itself."""
    return model.error_bound_


def estimate(rows, model):
    """The expected error that a model tells of itself."""
    return model.expected_error_


def share(table):
    """A share of rows."""
    return np.asarray(table)[:, 1].mean()


def width(rows, model):
    """The width of an interval that a model tells of itself."""
    found = model.interval(share, 0.95, random_state=0)
    return found.high - found.low


def compare_slow(name, runs, model, kind, **options):
    """Compare with the true error of pairs."""
    compare(name, runs, (0.1, 0.06), people, model, pairs, kind, tables=1, step=1.2, repeats=10, **options)


CASES = {
    "bound-1": lambda runs: compare("bound-1", runs, (0.1, 0.05, 0.02, 0.008), partial(points, 1), measure(1), bound, "bound"),
    "bound-2": lambda runs: compare("bound-2", runs, (0.4, 0.3, 0.25), partial(points, 2), measure(2), bound, "bound"),
    "wasserstein": lambda runs: compare("wasserstein", runs, (0.02, 0.005), partial(points, 1), measure(1), estimate, "wasserstein", 1),
    "pairs": lambda runs: compare_slow("pairs", runs, factors(0), "pairs"),
    "pairs-delta": lambda runs: compare_slow("pairs-delta", runs, factors(1e-6), "pairs"),
    "width": lambda runs: compare("width", runs, (0.2, 0.1), flags, few, width, "width", 1, 1.2, 5, statistic=share),
    "audit": lambda runs: audit(20 * runs),
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
