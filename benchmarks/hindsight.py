"""W1 of the default PrivateMeasureMechanism over that of the best single depth in hindsight.

    SKDPSYNTH_DATA=FOLDER python benchmarks/hindsight.py [--repeats 6] [--only 1|2|3]

The best depth in hindsight has the smallest mean W1 over the fits of ``strategy="optimal"`` at the same epsilon, among the depths from 1 to
14 (one feature) or 12. The largest of many ratios of noisy means is biased high, and so is a ratio to the least of 14 noisy means. So a
worst ratio above its target is measured again by 8 times as many new fits at all depths (in the geometric mean it counts with its first
value). The tables have 3000 rows (one feature) or 800, and n * epsilon is 100, 1000 or 10,000: the six of ``generators.cube``; rows that
are all alike; four in five rows at a corner, the rest uniform; a mixture of points and a cloud; and, where SKDPSYNTH_DATA names their
folder, columns of real tables whose rows crowd in a corner of their public bounds. W1 is exact (chebyshev, columns scaled to the unit
interval), between the table and as many synthetic rows.
"""

import argparse
import csv
import json
import os
import sys
import warnings
from pathlib import Path

import numpy as np
from generators import CUBE_SETS, cube

from skdpsynth import PrivateMeasureMechanism
from skdpsynth.exceptions import BudgetWarning, SmallSampleWarning
from skdpsynth.metrics import wasserstein_distance

ROWS = {1: 3000, 2: 800, 3: 800}
DEEPEST = {1: 14, 2: 12, 3: 12}
SIZES = (100, 1000, 10_000)
AGAIN = 8  # times as many fits
MEANS, WORST = {1: 0.95, 2: 0.85, 3: 0.85}, 1.3
REAL = {
    1: [("adult", "capital_gain"), ("adult", "hours_per_week"), ("acs_ma2019", "PINCP"), ("california_housing", "population")],
    2: [
        ("california_housing", "longitude", "latitude"),
        ("california_housing", "total_rooms", "population"),
        ("acs_ma2019", "AGEP", "PINCP"),
        ("adult", "age", "capital_gain"),
    ],
    3: [
        ("california_housing", "longitude", "latitude", "median_income"),
        ("california_housing", "total_rooms", "population", "households"),
        ("acs_ma2019", "AGEP", "PINCP", "POVPIP"),
        ("adult", "age", "capital_gain", "hours_per_week"),
    ],
}


def crowded(name, n, d):
    """Return n rows in [0, 1]^d, many of which are equal: point, corner or mixture."""
    rng = np.random.default_rng(0)
    if name == "point":
        return np.full((n, d), 0.3)
    rows = rng.random((n, d))
    if name == "corner":
        rows[rng.random(n) < 0.8] = 0.0
        return rows
    points = np.array([0.13, 0.62, 0.91])[rng.integers(0, 3, (3, d))]
    cloud = np.clip(0.4 + 0.1 * rng.normal(size=(n, d)), 0, 1)
    return np.where((rng.random(n) < 0.5)[:, None], points[rng.integers(0, 3, n)], cloud)


def real(folder, table, columns, n):
    """Return n complete rows of some columns, scaled by their public bounds to the unit interval."""
    schema = json.loads((folder / f"{table}.schema.json").read_text())
    bounds = {column["name"]: column["bounds"] for column in schema["columns"] if column["name"] in columns}
    with (folder / f"{table}.csv").open(newline="") as file:
        rows = [[row[name] for name in columns] for row in csv.DictReader(file)]
    X = np.array([row for row in rows if "" not in row], dtype=float)
    low, high = np.array([bounds[name] for name in columns]).T
    return ((X - low) / (high - low))[np.random.default_rng(0).permutation(len(X))[:n]]


def tables(d):
    """Yield names and rows."""
    n = ROWS[d]
    yield from ((name, cube(name, n, d)) for name in CUBE_SETS)
    yield from ((name, crowded(name, n, d)) for name in ("point", "corner", "mixture"))
    if "SKDPSYNTH_DATA" in os.environ:
        folder = Path(os.environ["SKDPSYNTH_DATA"])
        yield from ((" ".join(columns), real(folder, table, columns, n)) for table, *columns in REAL[d])
    else:
        print("SKDPSYNTH_DATA names no folder: real tables are left out", flush=True)


def mean_distance(X, size, repeats, **own):
    """Mean W1 of some fits (secure noise: each draws its own)."""
    fits = (PrivateMeasureMechanism(epsilon=size / len(X), **own).fit(X) for _ in range(repeats))
    return float(np.mean([wasserstein_distance(X, fit.sample()) for fit in fits]))


def ratio_to_best(d, name, X, size, repeats):
    """Print and return the ratio of ours to the best single depth."""
    ours = mean_distance(X, size, repeats)
    depths = range(1, DEEPEST[d] + 1)
    best, depth = min((mean_distance(X, size, repeats, strategy="optimal", depth=depth), depth) for depth in depths)
    print(f"d={d} {name}, n * epsilon = {size}, {repeats} fits: {ours:.5f} / {best:.5f} (depth {depth}) = {ours / best:.2f}", flush=True)
    return ours / best


def all_ratios(d, repeats):
    """Return the ratios of all tables and sizes, and again with those above the target measured by more fits."""
    ratios, surer = {}, {}
    for name, X in tables(d):
        for size in SIZES:
            ratios[name, size] = surer[name, size] = ratio_to_best(d, name, X, size, repeats)
            if ratios[name, size] > WORST:
                surer[name, size] = ratio_to_best(d, name, X, size, AGAIN * repeats)
    return ratios, surer


def measure(d, repeats):
    """Print the ratios of all tables and sizes; return whether the targets are met."""
    ratios, surer = all_ratios(d, repeats)
    logs = np.log(list(ratios.values()))
    first = [value for (name, _), value in ratios.items() if name in CUBE_SETS]
    mean, worst = np.exp(logs.mean()), max(surer.values())
    print(
        f"d={d}: geometric mean {mean:.3f}, target <= {MEANS[d]}; worst {worst:.2f} at {max(surer, key=surer.get)}, target <= {WORST}; "
        f"of the six sets of generators.cube alone {np.exp(np.log(first).mean()):.3f}",
        flush=True,
    )
    return mean <= MEANS[d] and worst <= WORST


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=6)
    parser.add_argument("--only", type=int, choices=tuple(ROWS))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", SmallSampleWarning)
    warnings.simplefilter("ignore", BudgetWarning)
    met = [measure(d, arguments.repeats) for d in ROWS if arguments.only in (None, d)]
    print("all targets met" if all(met) else "SOME TARGETS MISSED")
    sys.exit(not all(met))
