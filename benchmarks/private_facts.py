"""The cost of private bounds beside public ones, the levels that are released, and columns with thousands of levels.

python benchmarks/private_facts.py [--rows 1000000]

1. W1 between the rows and a sample of `PrivateMeasureMechanism(epsilon=1)`, in deviations of the data, mean of some fits: with the
   true ends of the rows as bounds (which nobody may use), a guess ten times and a thousand times as wide, and bounds="private".
2. The number of rows that a level needs to be released half of the time, and almost surely, by `Nominal("private")`.
3. Time and peak memory of `LatentFactorSynthesizer` on a table with a column of 30,000 postcodes, in a fresh process.
"""

import argparse
import subprocess
import sys
import warnings

import numpy as np
from scipy.stats import wasserstein_distance as distance_on_a_line

from skdpsynth import PrivateMeasureMechanism
from skdpsynth.metrics import wasserstein_distance
from skdpsynth.privacy import PrivacyLoss, discovery

SHAPES = {
    "uniform on (0.3, 0.9)": lambda rng, n: rng.uniform(0.3, 0.9, n),
    "normal": lambda rng, n: rng.normal(0, 1, n),
    "normal about 50 +- 10": lambda rng, n: rng.normal(50, 10, n),
    "years, 1930 to 2010": lambda rng, n: np.floor(rng.triangular(1930, 1990, 2010, n)),
    "exponential": lambda rng, n: rng.exponential(1, n),
    "lognormal": lambda rng, n: np.exp(rng.normal(10, 1, n)),
    "0 and 1": lambda rng, n: (rng.random(n) < 0.2).astype(float),
}
MOST = 1500  # rows in the distance of several columns
POSTCODES = """
import resource, sys, time, warnings
import numpy as np, pandas as pd
from skdpsynth import LatentFactorSynthesizer
from skdpsynth.domain import Nominal
warnings.simplefilter("ignore")
n, groups = int(sys.argv[1]), int(sys.argv[2]) or None
rng = np.random.default_rng(0)
levels = [f"{i:05d}" for i in range(30_000)]
shares = rng.permutation(1 / np.arange(1, 30_001) ** 0.7)
codes = rng.choice(30_000, n, p=shares / shares.sum())
region = codes // 3000
frame = pd.DataFrame({"postcode": np.array(levels)[codes], "age": np.clip(rng.normal(40 + 3 * region, 10), 0, 99).astype(int),
    "urban": np.where(rng.random(n) < region / 10, "yes", "no"), "income": np.exp(rng.normal(10 + region / 20, .5)),
    "job": rng.choice(["a", "b", "c", "d"], n), "children": rng.poisson(1.2, n).clip(0, 9)})
schema = {"postcode": Nominal(levels, groups=groups), "age": (0, 99), "urban": ["no", "yes"], "income": (0.0, 1e6),
    "job": ["a", "b", "c", "d"], "children": (0, 9)}
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.perf_counter()
model = LatentFactorSynthesizer(schema, epsilon=1, delta=1e-6).fit(frame)
fitted = time.perf_counter()
sample = model.sample()
done = time.perf_counter()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
drawn = sample["postcode"].astype(int).to_numpy()
def away(a, b, n_cells):
    return np.abs(np.bincount(a, minlength=n_cells) / len(a) - np.bincount(b, minlength=n_cells) / len(b)).sum() / 2
again = rng.choice(30_000, n, p=shares / shares.sum())
means = np.abs(np.bincount(drawn // 3000, sample["age"], 10) / np.bincount(drawn // 3000, minlength=10)
    - np.bincount(region, frame["age"], 10) / np.bincount(region, minlength=10)).mean()
print(fitted - start, done - fitted, (peak - before) / 1024, away(codes, drawn, 30_000), away(codes, again, 30_000), means)
"""


def w1(X, S):
    """In deviations of the data."""
    if X.shape[1] == 1:
        return distance_on_a_line(X[:, 0], S[:, 0]) / X.std()
    rng = np.random.default_rng(0)
    few = [rows[rng.choice(len(rows), min(MOST, len(rows)), replace=False)] for rows in (X, S)]
    return wasserstein_distance(*few) / X.std()


def bounds_table():
    print("W1 in deviations of the data; PMM, epsilon=1; means of 5 fits")
    for n, d in ((1000, 1), (10_000, 1), (100_000, 1), (10_000, 2), (10_000, 5)):
        print(f"n = {n}, d = {d}" + " " * 14 + "true ends  x 10   x 1000  private")
        for name, draw in SHAPES.items():
            found = []
            for seed in range(5):
                rng = np.random.default_rng(seed)
                X = np.column_stack([draw(rng, n) for _ in range(d)])
                low, high = X.min(axis=0), X.max(axis=0)
                middle, half = (low + high) / 2, (high - low) / 2
                bounds = [(middle - wide * half, middle + wide * half) for wide in (1, 10, 1000)] + ["private"]
                found.append([w1(X, PrivateMeasureMechanism(bounds=each).fit(X).sample()) for each in bounds])
            print(f"  {name:24s}" + "".join(f"{value:9.4f}" for value in np.mean(found, axis=0)), flush=True)


def levels_table():
    print("rows of a level that is shown half of the time / in all but one of 1000 cases (a tenth of epsilon and of delta = 1e-6)")
    for relation in ("replace_one", "add_or_remove_one"):
        for epsilon in (0.5, 1, 4):
            for n_columns in (1, 5):
                chosen = discovery(relation, n_columns, PrivacyLoss(epsilon=epsilon / 10, delta=1e-7))
                surely = chosen.threshold + float(chosen.noise.scale) * np.log(500)
                print(f"  {relation:18s} epsilon {epsilon:<4} columns {n_columns}: {chosen.threshold + 1} / {surely:.0f}")


def postcodes_table(n):
    missed = False
    for rows in (n // 10, n):
        for groups in (0, 2):
            program = [sys.executable, "-c", POSTCODES, str(rows), str(groups)]
            told = map(float, subprocess.run(program, check=True, capture_output=True, text=True).stdout.split())
            fit, sample, memory, away, again, means = told
            missed |= fit + sample > 30 or memory > 1000
            print(
                f"30,000 postcodes, 6 columns, {rows} rows, groups={groups or None}: fit {fit:.1f} s, sample {sample:.1f} s, adds "
                f"{memory:.0f} MiB; total variation of the postcodes {away:.3f} (of two tables of the same law: {again:.3f}), "
                f"mean age of ten regions wrong by {means:.2f} years; target 30 s and 1000 MiB",
                flush=True,
            )
    return missed


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    levels_table()
    missed = postcodes_table(parser.parse_args().rows)
    bounds_table()
    sys.exit(missed)
