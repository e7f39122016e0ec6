"""Rows on conditions, and imputed cells: their time beside keeping the rows that fit, and their frequencies beside the model's.

SKDPSYNTH_DATA=FOLDER python benchmarks/conditions.py [--seeds 3]

The model is that of adult, stratified by income, at (1, 1e-6). Time: 100,000 rows on each condition; "by keeping" is the time of so many
rows that 100,000 of them fit, as a multiple. Frequencies: chi squared of the tables of all pairs of columns (numbers in five classes)
between 100,000 rows on a condition and the rows that fit among 2,000,000 rows. Sampled rows are more even than independent ones, so the
statistics are at most chi squared; a p-value below 1e-6 in any table (of some 450 a seed) is a false alarm once in 2,000 seeds.
"""

import argparse
import sys
import time
import warnings
from itertools import combinations

import numpy as np
import pandas as pd
from mixed_data import TABLES
from scipy import stats

from skdpsynth import LatentFactorSynthesizer
from skdpsynth.domain import Schema

ROWS, POOL = 100_000, 2_000_000
LONGEST, LEAST = 2.0, 1e-6  # seconds of ROWS rows, p-value
FILLED = 10.0  # seconds to fill ROWS rows
CONDITIONS = {
    "sex = Female": {"sex": "Female"},
    "30 <= age <= 40": {"age": (30, 40)},
    "income, two levels of education": {"income": ">50K", "education": ["Masters", "Doctorate"]},
    "four columns": {"sex": "Female", "age": (25, 34), "race": "White", "hours_per_week": (40, None)},
    "rare: a woman above 60 with a large gain": {"sex": "Female", "age": (60, None), "capital_gain": (10_000, None)},
}


def holds(rows, conditions):
    """Return which rows meet conditions, by pandas alone."""
    out = np.ones(len(rows), dtype=bool)
    for name, want in conditions.items():
        if isinstance(want, tuple):
            out &= (rows[name] >= want[0]) & (True if want[1] is None else rows[name] <= want[1])
        else:
            out &= rows[name].isin(want if isinstance(want, list) else [want])
    return out


def seconds(call):
    start = time.perf_counter()
    made = call()
    return made, time.perf_counter() - start


def in_classes(rows, edges):
    return pd.DataFrame(
        {
            name: np.searchsorted(edges[name], rows[name]).astype(str)
            if name in edges
            else rows[name].astype(object).fillna("?").astype(str)
            for name in rows
        }
    )


def least_p_value(first, second):
    """Return the least p-value of the tables of all pairs of columns of two samples."""
    least = 1.0
    for i, j in combinations(first, 2):
        cells = pd.concat([first[i] + "/" + first[j], second[i] + "/" + second[j]]).to_numpy()
        table = pd.crosstab(np.repeat([0, 1], [len(first), len(second)]), cells).to_numpy()
        table = table[:, table.sum(axis=0) > 30]
        if table.shape[1] > 1 and table.sum(axis=1).min() > 0:
            least = min(least, stats.chi2_contingency(table).pvalue)
    return least


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3)
    seeds = parser.parse_args().seeds
    train, _, schema, target = TABLES["adult"]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, fit = seconds(lambda: LatentFactorSynthesizer(Schema.from_json(schema), stratify=target, epsilon=1.0, delta=1e-6).fit(train))
    pool, of_pool = seconds(lambda: model.sample(POOL, random_state=0))
    _, plain = seconds(lambda: model.sample(ROWS, random_state=0))
    print(f"fit {fit:.1f} s; {ROWS:,} rows without conditions {plain:.2f} s")
    numbers = [column["name"] for column in schema["columns"] if column["kind"] == "continuous"]
    edges = {name: np.unique(pool[name].quantile([0.2, 0.4, 0.6, 0.8])) for name in numbers}
    classes, met = in_classes(pool, edges), True
    print("condition | share of rows | seconds | by keeping, times as long | all rows fit | least p-value of each seed")
    for name, conditions in CONDITIONS.items():
        fits = holds(pool, conditions)
        share, p, took, exact = fits.mean(), [], [], True
        for seed in range(1, seeds + 1):
            rows, s = seconds(lambda conditions=conditions, seed=seed: model.sample(ROWS, random_state=seed, conditions=conditions))
            took.append(s)
            exact &= bool(holds(rows, conditions).all())
            p.append(least_p_value(in_classes(rows, edges), classes[fits]))
        by_keeping = of_pool / POOL * ROWS / max(share, 1 / POOL)
        met &= exact and max(took) < LONGEST and min(p) > LEAST
        told = " ".join(f"{value:.1e}" for value in p)
        print(f"{name} | {share:.5f} | {max(took):.2f} | {by_keeping / np.median(took):.0f} | {exact} | {told}")
    rng = np.random.default_rng(0)
    rows = pool[:ROWS].astype(object).where(rng.random((ROWS, pool.shape[1])) > 0.3)
    filled, took = seconds(lambda: model.impute(rows, random_state=0))
    met &= took < FILLED and not filled.isna().any().any()
    print(f"impute {ROWS:,} rows with three cells of ten missing: {took:.1f} s")
    print("targets met" if met else "targets MISSED")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
