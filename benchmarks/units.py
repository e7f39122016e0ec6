"""The cost of protecting whole people: W1 of PrivateMeasureMechanism with units of several rows, by the number of rows of each that count.

Tables have 1e5 visits by 2e4 patients: the same number of visits each (5), or a random number (geometric, up to some tens). Visits of one
patient lie near each other, and frequent patients are older, so a low bound leaves out what is typical of them. The distance is that from
all visits, also those that did not count.

The rule of the guide on units takes the bound of least estimated error, a tenth of the rows left out plus 20 k / (epsilon n). It is
compared with the best bound in hindsight. The number of rows of each unit is public under "replace_one"; elsewhere it must be known. Rows
as units stand beside it: their epsilon promises nothing to a person.

    python benchmarks/units.py [--full] [--data FOLDER]
"""

import argparse
import csv
import warnings
from pathlib import Path

import numpy as np
from scipy.stats import wasserstein_distance as scipy_distance

from skdpsynth import PrivateMeasureMechanism
from skdpsynth.metrics import sliced_wasserstein_distance

FAILED = []
N_UNITS, N_ROWS, MEAN = 20_000, 100_000, 5


def report(what, value, target):
    met = value <= target
    if not met:
        FAILED.append(what)
    print(f"{what}: {value:.3g}x, target <= {target}x: {'met' if met else 'MISSED'}", flush=True)


def visits_of(kind, rng):
    """How many visits each patient has: 1e5 in all."""
    if kind == "equal":
        return np.full(N_UNITS, MEAN)
    if kind == "geometric":
        return 1 + np.bincount(rng.choice(N_UNITS, N_ROWS - N_UNITS, p=(w := rng.exponential(size=N_UNITS)) / w.sum()), minlength=N_UNITS)
    counts = np.ones(N_UNITS, dtype=int)  # one in fifty has two hundred
    counts[: N_UNITS // 50] = (N_ROWS - N_UNITS * 49 // 50) // (N_UNITS // 50)
    return counts


def clinic(kind, rng):
    """Return (labels, rows): an age-like and a severity-like number of each visit, in the unit square."""
    counts = visits_of(kind, rng)
    labels = np.repeat(np.arange(N_UNITS), counts)
    frail = np.log(counts) / np.log(counts.max() + 1)
    center = np.column_stack([rng.beta(2 + 3 * frail, 4), rng.beta(2, 5 - 3 * frail)])
    rows = np.clip(center[labels] + rng.normal(scale=0.05, size=(len(labels), 2)), 0, 1)
    order = rng.permutation(len(labels))
    return labels[order], rows[order]


def distance(X, Y):
    """W1 between two tables, all rows of them: exact for one column, sliced for two (so many rows are too many for the exact one)."""
    if X.shape[1] == 1:
        return float(scipy_distance(X[:, 0], Y[:, 0]))
    return float(sliced_wasserstein_distance(X, Y, n_projections=50, random_state=0))


def errors(labels, rows, bounds_of_rows, runs, epsilon):
    """Return the mean distance by the bound, and of rows as units (None)."""
    found = {}
    for k in [*bounds_of_rows, None]:
        per_run = []
        for run in range(runs):
            model = PrivateMeasureMechanism(epsilon=epsilon, max_rows_per_unit=k or 1, random_state=run)
            model.fit(rows, unit=None if k is None else labels)
            per_run.append(distance(rows, model.sample(len(rows), random_state=run)))
        found[k] = float(np.mean(per_run))
    return found


def told(found):
    return ", ".join(f"{'rows' if k is None else k}: {error:.4f}" for k, error in found.items())


def advised(labels, epsilon):
    """Return the bound that the guide on units advises, from how many rows each unit has."""
    counts = np.unique(labels, return_counts=True)[1]
    bounds = np.arange(1, counts.max() + 1)
    left_out = np.array([1 - np.minimum(counts, k).sum() / len(labels) for k in bounds])
    return int(bounds[np.argmin(left_out / 10 + 20 * bounds / (epsilon * len(labels)))])


def made_up(runs, epsilon):
    for kind in ("equal", "geometric", "skewed"):
        labels, both = clinic(kind, np.random.default_rng(0))
        advice, most = advised(labels, epsilon), np.bincount(labels).max()
        tried = sorted({advice, *(k for k in (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 100, 200) if k <= most)})
        for rows, name in ((both[:, :1], "exact, one column"), (both, "sliced, two columns")):
            found = errors(labels, rows, tried, runs, epsilon)
            best = min(tried, key=found.get)
            print(f"{kind}, epsilon {epsilon}, 1 to {most} visits, {name}: W1 by max_rows_per_unit: {told(found)}")
            report(f"{kind}, epsilon {epsilon}, {name}: k = {advice} over the best, {best}", found[advice] / found[best], 1.15)


def absenteeism(folder, runs):
    """36 workers: hours of absence, age and distance from work, all within public bounds."""
    path = Path(folder) / "absenteeism.csv"
    if not path.is_file():
        print(f"absenteeism: {path} is not there; skipped")
        return
    with open(path, newline="", encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    labels = [row["id"] for row in table]
    high = np.array([120.0, 60.0])
    rows = np.array([[float(row["absenteeism_time_in_hours"]), float(row["distance_from_residence_to_work"])] for row in table]) / high
    for epsilon in (1, 10):
        found = errors(labels, np.clip(rows, 0, 1), (1, 5, 20, 113), runs, epsilon)
        print(f"absenteeism, 36 workers, epsilon {epsilon}: W1 by max_rows_per_unit: {told(found)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="twenty runs, and three epsilons")
    parser.add_argument("--data", default="data", help="the folder with absenteeism.csv")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    runs = 20 if arguments.full else 6
    for epsilon in (0.2, 1, 5) if arguments.full else (1,):
        made_up(runs, epsilon)
    absenteeism(arguments.data, runs)
    raise SystemExit(bool(FAILED))


if __name__ == "__main__":
    main()
