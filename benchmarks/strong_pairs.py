"""Strong correlations of a real table over epsilon: California housing, 20,640 rows of 10 columns, two of which have two peaks.

SKDPSYNTH_DATA=FOLDER python benchmarks/strong_pairs.py [--fits 3]

Goals: more epsilon loses no correlation (by more than 0.05), and longitude and latitude keep -0.90 (-0.92 are real).
"""

import argparse
import os
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from skdpsynth import LatentFactorSynthesizer
from skdpsynth.domain import Schema

PAIRS = [("longitude", "latitude"), ("total_rooms", "households"), ("total_rooms", "population"), ("median_income", "median_house_value")]
EPSILONS = (1.0, 10.0, 100.0, 1000.0)


def correlations(rows):
    return np.array([rows[first].corr(rows[second]) for first, second in PAIRS])


def main():
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fits", type=int, default=3)
    n_fits = parser.parse_args().fits
    folder = Path(os.environ["SKDPSYNTH_DATA"])
    rows, schema = pd.read_csv(folder / "california_housing.csv"), Schema.from_json(folder / "california_housing.schema.json")
    print("| epsilon | " + " | ".join(" x ".join(pair) for pair in PAIRS) + " |\n|---" + "|---" * len(PAIRS) + "|")
    print("| real | " + " | ".join(f"{value:.2f}" for value in correlations(rows)) + " |")
    means = []
    for epsilon in EPSILONS:
        models = [LatentFactorSynthesizer(schema, epsilon=epsilon, delta=1e-6, random_state=seed).fit(rows) for seed in range(n_fits)]
        found = np.array([correlations(model.sample(len(rows), random_state=0)) for model in models])
        means.append(found.mean(axis=0))
        print(
            f"| {epsilon:g} | "
            + " | ".join(f"{m:.2f} ({s:.2f})" for m, s in zip(found.mean(axis=0), found.std(axis=0), strict=True))
            + " |"
        )
    kept = np.abs(means)
    is_lost = bool((np.maximum.accumulate(kept) - kept > 0.05).any())
    print(f"more epsilon loses no correlation: {'MISSED' if is_lost else 'met'}")
    print(f"longitude and latitude keep -0.90: {'met' if kept[-1, 0] >= 0.9 else 'MISSED'}")
    return int(is_lost or kept[-1, 0] < 0.9)


if __name__ == "__main__":
    sys.exit(main())
