"""Accuracy and cost of OnlineSynthesizer along streams.

python benchmarks/online.py [--repeats 3] [--only column|accuracy|cost|relations]

column: one column of five Gaussians, standing still, at epsilon 1: W1 between the rows so far and as many synthetic ones, as means of 5
fits to each of 16 streams, whose seeds are 0 to 15. Where the number of rows is private, they come in 100 ticks.

accuracy: W1 (chebyshev) between the rows so far and as many synthetic ones (more than one feature: 1200 of each), at epsilon 1, for five
Gaussians, standing still ("gmm") or moving half a box along the diagonal ("drift"), at the times of the specification. "paper" is Algorithm
12 with sparse counters, as published; "offline" is one fit to all rows at once.

cost: time and memory in fresh processes. relations: the cost of a private number of rows on a steady stream of 100 ticks, at equal epsilon;
W1 of "add_or_remove_one" over that of "replace_one", which gets the same rows.
"""

import argparse
import pickle
import subprocess
import sys
import time

import numpy as np

from skdpsynth import OnlineSynthesizer, PrivateMeasureMechanism
from skdpsynth.metrics import wasserstein_distance

# What the prototype reached with growth 1.25, by stream, features and time.
SPECIFICATION = {
    ("gmm", 1): {1000: 0.016, 10_000: 0.0050, 100_000: 0.0006},
    ("gmm", 2): {1000: 0.083, 10_000: 0.027, 100_000: 0.015},
    ("gmm", 3): {1000: 0.155, 10_000: 0.061, 100_000: 0.030},
    ("drift", 1): {100_000: 0.0005},
    ("drift", 2): {10_000: 0.054, 100_000: 0.016},
    ("drift", 3): {10_000: 0.064, 100_000: 0.024},
}
# Of one column, by time: where blocks were mixed by rows it was 0.045, 0.017, 0.0083 and 0.0035 at best.
COLUMN = {300: 0.040, 1000: 0.015, 3000: 0.0075, 10_000: 0.0030}
LONG = 10_000  # rows from which on streams are held against one fit
FAILED = []


def stream(kind, T, d, seed=3):
    rng = np.random.default_rng(seed)
    centers = 0.2 + 0.6 * rng.random((5, d))
    X = centers[rng.integers(0, 5, T)] + 0.06 * rng.normal(size=(T, d))
    if kind == "drift":
        X = X * 0.5 + 0.5 * (np.arange(T) / T)[:, None]
    return np.clip(X, 0, 1)


def check(what, value, target):
    met = value <= target
    if not met:
        FAILED.append(what)
    print(f"    {what}: {value:.3g}, target <= {target:.3g}: {'met' if met else 'MISSED'}", flush=True)


def column(repeats):
    """The same number of fits whatever `repeats` is, which is part of the goal."""
    for relation in ("replace_one", "add_or_remove_one"):
        for t, goal in COLUMN.items():
            means = []
            for seed in range(16):
                X, values = stream("gmm", t, 1, seed), []
                for _ in range(5):
                    model = OnlineSynthesizer(neighboring=relation)
                    for rows in [X] if relation == "replace_one" else np.array_split(X, 100):
                        model.partial_fit(rows)
                    values.append(wasserstein_distance(X, model.sample(t)))
                means.append(np.mean(values))
            what = f"one column, {relation}, t={t} (se {np.std(means, ddof=1) / 4:.4f})"
            if relation == "replace_one":
                check(what, np.mean(means), goal)
            else:
                print(f"    {what}: {np.mean(means):.3g}", flush=True)


def accuracy(repeats):
    models = {
        "blocks": lambda: OnlineSynthesizer(),
        "blocks, auto": lambda: OnlineSynthesizer(growth="auto"),
        "paper": lambda: OnlineSynthesizer("paper", counter="sparse"),
        "paper, k-ary": lambda: OnlineSynthesizer("paper"),
        "offline": lambda: PrivateMeasureMechanism(),
    }
    logs, over_offline = [], {"one column": [], "two and three columns": []}
    for (kind, d), times in SPECIFICATION.items():
        for t, reached in times.items():
            X = stream(kind, t, d)
            size = t if d == 1 else 1200
            rng = np.random.default_rng(0)
            some = X if len(X) <= size else X[rng.permutation(t)[:size]]
            values = {"uniform": [wasserstein_distance(some, rng.random((size, d)))]}
            for name, make in models.items():
                runs = repeats * (3 if d == 1 else 1)
                values[name] = [wasserstein_distance(some, make().fit(X).sample(min(size, t))) for _ in range(runs)]
            means = {name: np.mean(v) for name, v in values.items()}
            print(f"{kind} d={d} t={t}: " + ", ".join(f"{name} {mean:.4f}" for name, mean in means.items()), flush=True)
            check(f"{kind} d={d} t={t}: blocks over the specification's {reached}", means["blocks"] / reached, 1.2)
            logs.append(np.log(means["blocks"] / means["paper"]))
            if t >= LONG:
                over_offline["one column" if d == 1 else "two and three columns"].append(np.log(means["blocks"] / means["offline"]))
    for (columns, values), goal in zip(over_offline.items(), (3.0, 1.5), strict=True):
        check(f"blocks over one fit, {columns}, t >= {LONG}, geometric mean", np.exp(np.mean(values)), goal)
    check(f"blocks over paper, geometric mean (se {np.std(logs, ddof=1) / np.sqrt(len(logs)):.2f} in log)", np.exp(np.mean(logs)), 0.5)


def relations(repeats):
    """100 ticks, of 100 and of 1000 rows on average, standing still."""
    logs = []
    for d, mean in ((1, 100), (1, 1000), (2, 100), (2, 1000)):
        rng = np.random.default_rng(1)
        edges = np.cumsum(rng.poisson(mean, 100))
        X = stream("gmm", edges[-1], d)
        ticks = np.split(X, edges[:-1])
        size = min(len(X), 20_000 if d == 1 else 1200)
        some = X[rng.permutation(len(X))[:size]]
        values = {}
        for strategy in ("blocks", "paper"):
            for relation in ("replace_one", "add_or_remove_one"):
                values[strategy, relation] = []
                for _ in range(repeats * (3 if d == 1 else 1)):
                    model = OnlineSynthesizer(strategy, neighboring=relation)
                    for rows in ticks:
                        model.partial_fit(rows)
                    values[strategy, relation].append(wasserstein_distance(some, model.sample(size)))
        means = {names: np.mean(v) for names, v in values.items()}
        print(f"d={d}, {mean} rows a tick: " + ", ".join(f"{' '.join(names)} {mean:.4f}" for names, mean in means.items()), flush=True)
        logs.append(np.log(means["blocks", "add_or_remove_one"] / means["blocks", "replace_one"]))
    check("blocks, a private number of rows over a public one, geometric mean", np.exp(np.mean(logs)), 1.25)


BULK = """
import time, numpy as np
from skdpsynth import OnlineSynthesizer
X = np.random.default_rng(0).random((10**6, 2))
OnlineSynthesizer().fit(X[:5000])
times = []
for _ in range(7):
    model, start = OnlineSynthesizer(), time.process_time()
    for rows in np.split(X, 4):
        model.partial_fit(rows)
    times.append(time.process_time() - start)
print(np.median(times))
"""
PAPER = """
import resource, time, numpy as np
from skdpsynth import OnlineSynthesizer
X = np.random.default_rng(0).random((10**5, 2))
OnlineSynthesizer("paper", counter={counter!r}).fit(X[:5000]).sample(10)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
model, start = OnlineSynthesizer("paper", counter={counter!r}), time.perf_counter()
for i in range(10**5):
    model.partial_fit(X[i : i + 1])
    if i % 1000 == 999:
        model.sample(10)
print(time.perf_counter() - start, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


def cost(repeats):
    def run(program):
        return [
            float(x) for x in subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()
        ]

    check("blocks, d=2, 1e6 rows in four calls: microseconds of a processor a row", run(BULK)[0], 0.12)
    X = np.random.default_rng(0).random((10**6, 2))
    model = OnlineSynthesizer().fit(X)
    check("state at 1e6 rows, pickled: MB", len(pickle.dumps(model)) / 1e6, 20)
    from sklearn.utils.validation import validate_data

    model, ours, theirs = OnlineSynthesizer().fit(X[:5000]), [], []
    for i in range(5000, 5000 + 2000 * repeats):
        start = time.perf_counter()
        model.partial_fit(X[i : i + 1])
        middle = time.perf_counter()
        validate_data(model, X[i : i + 1], reset=False)
        ours.append(middle - start)
        theirs.append(time.perf_counter() - middle)
    check("one row a call: microseconds beyond scikit-learn's validation", 1e6 * (np.median(ours) - np.median(theirs)), 60)
    for counter in ("sparse", "kary"):
        seconds, added = run(PAPER.format(counter=counter))
        check(f"paper, {counter}, 1e5 rows one by one, sampled 100 times: seconds", seconds, 120)
        check(f"paper, {counter}: MiB added", added, 300)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", choices=("column", "accuracy", "cost", "relations"))
    arguments = parser.parse_args()
    for part in (column, accuracy, cost, relations):
        if arguments.only in (None, part.__name__):
            part(arguments.repeats)
    print("all targets met" if not FAILED else f"MISSED: {FAILED}")
    sys.exit(bool(FAILED))
