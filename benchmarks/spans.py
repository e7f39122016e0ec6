"""Spans between two times and sums of columns: the cost of a rule in accuracy.

python benchmarks/spans.py [--fits 5] [--only clinic fares]

clinic: 12,000 stays that begin within two years, bounds of ten; age 18 to 95; hours of stay are gamma with a mean that grows with age.
Figures are Spearman's correlation of age and stay, the median stay over the real one, and rows that break the rule, beside the same table
with the hours in place of the end ("los"). fares: 6,500 taxi rides with fare + tip + tolls = total, each in (0, 1000): with the total
declared as a `Sum`, rows in which it is not exact; without, the share of rows in which it is within 5.

Targets: at epsilon inf a correlation within .05 of that with "los", at (1, 1e-6) at least .18; the median within 1.3 times; no row that
breaks a rule; every declared total exact; undeclared ones within 5 in 80 % of rows at epsilon 1. Figures are means of the fits, ± the
deviation of one.
"""

import argparse
import math
import sys
import warnings

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from skdpsynth import LatentFactorSynthesizer
from skdpsynth.domain import Continuous, DateTime, Inequality, Schema, Sum

FAILED = []
TEN_YEARS = DateTime("2020-01-01", "2029-12-31", resolution="hour")


def clinic(rng, n=12_000):
    age = rng.integers(18, 96, n)
    hours = np.ceil(rng.gamma(2.0, np.exp(1.1 + 0.017 * age) / 2)).astype(int)
    begin = np.datetime64("2022-01-01T00", "h") + rng.integers(0, 2 * 365 * 24, n)
    table = pd.DataFrame({"age": age, "ward": rng.choice(["a", "b", "c"], n), "begin": begin.astype("datetime64[s]")})
    return table.assign(end=(begin + hours).astype("datetime64[s]"), los=hours)


def fares(rng, n=6500):
    fare = np.round(3 + rng.gamma(1.3, 8, n), 2)
    tip = np.where(rng.random(n) < 0.35, 0, np.round(fare * rng.normal(0.2, 0.05, n).clip(0, 0.5), 2))
    tolls = np.where(rng.random(n) < 0.05, 6.12, 0.0)
    total = np.round(fare + tip + tolls, 2)
    return pd.DataFrame(
        {"fare": fare, "tip": tip, "tolls": tolls, "total": total, "payment": np.where(tip > 0, "card", rng.choice(["card", "cash"], n))}
    )


def check(what, met):
    print(f"    {what}: {'met' if met else 'MISSED'}", flush=True)
    if not met:
        FAILED.append(what)


def spread(values):
    return f"{np.mean(values):.3f} ± {np.std(values, ddof=1) if len(values) > 1 else 0:.3f}"


def stays(table, epsilon, fits, as_column):
    """Return (correlations, medians over the real one, rows that break the rule) of some fits."""
    kinds = {"age": (18, 95), "ward": ["a", "b", "c"], "begin": TEN_YEARS}
    schema = Schema(
        {**kinds, "los": (0, 24 * 365 * 10)} if as_column else {**kinds, "end": TEN_YEARS},
        rules=[] if as_column else [Inequality("begin", "end")],
    )
    found = []
    for seed in range(fits):
        rows = LatentFactorSynthesizer(schema, epsilon=epsilon, delta=1e-6).fit(table[list(schema)]).sample(random_state=seed)
        hours = rows["los"] if as_column else (rows["end"] - rows["begin"]).dt.total_seconds() / 3600
        found.append((spearmanr(rows["age"], hours)[0], hours.median() / table["los"].median(), (hours < 0).sum()))
    return np.array(found).T


def clinic_table(fits):
    table = clinic(np.random.default_rng(0))
    print(f"\nclinic: Spearman of age and stay {spearmanr(table['age'], table['los'])[0]:.3f}\n")
    print("| epsilon | modeled | Spearman | median over the real one | rows that break the rule |\n" + "|---" * 5 + "|")
    shown = {}
    for epsilon in (math.inf, 1.0):
        for as_column in (True, False):
            ways = stays(table, epsilon, fits if epsilon == 1 else 2, as_column)
            shown[epsilon, as_column] = ways
            print(
                f"| {epsilon:g} | {'los' if as_column else 'begin and end'} | {spread(ways[0])} | {spread(ways[1])} | {ways[2].sum():g} |",
                flush=True,
            )
    check("epsilon inf: within .05 of a column", abs(shown[math.inf, False][0].mean() - shown[math.inf, True][0].mean()) <= 0.05)
    check("epsilon 1: at least .18", shown[1.0, False][0].mean() >= 0.18)
    check("median within 1.3 times", 1 / 1.3 <= shown[1.0, False][1].mean() <= 1.3)
    check("no row breaks the rule", sum(shown[epsilon, False][2].sum() for epsilon in (math.inf, 1.0)) == 0)


def fares_table(fits):
    table = fares(np.random.default_rng(0))
    kinds = {**dict.fromkeys(["fare", "tip", "tolls", "total"], Continuous(0.0, 1000.0)), "payment": ["card", "cash"]}
    print(f"\n| fares, epsilon 1 | total exact | total within 5 | mean of totals (real {table['total'].mean():.2f}) |\n" + "|---" * 4 + "|")
    for is_declared in (True, False):
        schema = Schema(kinds, rules=[Sum(["fare", "tip", "tolls"], "total")] if is_declared else [])
        found = []
        for seed in range(fits):
            rows = LatentFactorSynthesizer(schema, epsilon=1.0, delta=1e-6).fit(table).sample(random_state=seed)
            apart = (rows["fare"] + rows["tip"] + rows["tolls"] - rows["total"]).abs()
            found.append(((apart < 1e-9).mean(), (apart <= 5).mean(), rows["total"].mean()))
        exact, near, mean = np.array(found).T
        print(f"| {'declared' if is_declared else 'not declared'} | {spread(exact)} | {spread(near)} | {spread(mean)} |", flush=True)
        check(
            "exact in every row where declared" if is_declared else "within 5 in 80 % of rows",
            exact.min() == 1 if is_declared else near.mean() >= 0.8,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fits", type=int, default=5)
    parser.add_argument("--only", nargs="+", default=["clinic", "fares"], choices=["clinic", "fares"])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in arguments.only:
        {"clinic": clinic_table, "fares": fares_table}[name](arguments.fits)
    sys.exit(bool(FAILED))
