"""Coverage and width of intervals from one model, beside those that a textbook computes from synthetic rows.

SKDPSYNTH_DATA=FOLDER python benchmarks/intervals.py [--table census|care|housing] [--draws 20] [--jobs 2]

The population is a table: "census", the coded Census Income table (FOLDER/coded/adult.csv: 48,842 rows of whole numbers) with seven of its
columns, for which there are targets; "care", eight columns of two levels (FOLDER/coded/nltcs.csv, 21,574 rows); or "housing", four numbers
and a place (FOLDER/california_housing.csv, 20,640 rows). Each draw takes 5,000 rows of it with replacement and fits at (1, 1e-6),
replace-one. The true value of a statistic is that of the population. "naive" is the usual bootstrap of 5,000 synthetic rows, which ignores
the noise. With 100 draws the standard error of a coverage of .95 is .022; with 20, it is .05. The target is .93, less two standard errors
where there are fewer than 100 draws, and 60 seconds (for all statistics, which share the re-fits as one array).
"""

import argparse
import json
import os
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from joblib import Parallel, delayed

from skdpsynth import LatentFactorSynthesizer
from skdpsynth.domain import Nominal

ROWS, LEVEL, TARGET, LONGEST = 5000, 0.95, 0.93, 60.0
NUMBERS = ("age", "education-num", "hours-per-week")
COLUMNS = ["age", "workclass", "education-num", "marital-status", "sex", "hours-per-week", "income>50K"]
NAMES = ["P(income)", "P(sex)", "mean education by income", "linear slope of income: education", "... sex", "... age"]
NAMES += ["logistic slope: education", "median age", "share of three levels"]
NAIVE = 40  # resamples


def census():
    folder = Path(os.environ["SKDPSYNTH_DATA"]) / "coded"
    rows = pd.read_csv(folder / "adult.csv")[COLUMNS].astype(int)
    sizes = json.loads((folder / "adult-domain.json").read_text())
    schema = {name: (0, sizes[name] - 1) if name in NUMBERS else Nominal(list(range(sizes[name]))) for name in COLUMNS}
    return rows, schema


def care():
    rows = pd.read_csv(Path(os.environ["SKDPSYNTH_DATA"]) / "coded/nltcs.csv").astype(int).iloc[:, :8]
    return rows, {name: Nominal([0, 1]) for name in rows}


def housing():
    folder = Path(os.environ["SKDPSYNTH_DATA"])
    names = ["housing_median_age", "median_income", "median_house_value", "households", "ocean_proximity"]
    kinds = {kind["name"]: kind for kind in json.loads((folder / "california_housing.schema.json").read_text())["columns"]}
    schema = {name: tuple(kinds[name]["bounds"]) for name in names[:-1]} | {names[-1]: Nominal(kinds[names[-1]]["levels"])}
    return pd.read_csv(folder / "california_housing.csv")[names], schema


def logistic(X, y, steps=12):
    """Newton's method."""
    slopes = np.zeros(X.shape[1])
    for _ in range(steps):
        p = 1 / (1 + np.exp(-X @ slopes))
        slopes = slopes + np.linalg.solve(X.T @ (X * (p * (1 - p))[:, None]), X.T @ (y - p))
    return slopes


def linear(X, y):
    """Least squares with an intercept, which is left out."""
    return np.linalg.lstsq(np.column_stack([np.ones(len(y)), *X]), y, rcond=None)[0][1:]


def statistics_of_census(rows):
    income, sex, education, age = (rows[name].to_numpy(float) for name in ("income>50K", "sex", "education-num", "age"))
    X = np.column_stack([np.ones(len(rows)), education, sex, age])
    means = [income.mean(), sex.mean(), education[income == 1].mean() - education[income == 0].mean()]
    three = (income == 1) & (sex == 1) & (rows["marital-status"].to_numpy() == 0)
    return np.array([*means, *np.linalg.solve(X.T @ X, X.T @ income)[1:], logistic(X, income)[1], np.median(age), three.mean()])


def statistics_of_care(rows):
    a = rows.to_numpy(float).T
    means = [a[0].mean(), a[7].mean(), a[7][a[0] == 1].mean() - a[7][a[0] == 0].mean()]
    n_needs = a.sum(axis=0)
    return np.array([*means, *linear([a[0], a[2], a[4]], a[7]), (a[0] * a[2] * a[5]).mean(), n_needs.mean(), (n_needs >= 4).mean()])


def statistics_of_housing(rows):
    age, income, value = (rows[name].to_numpy(float) for name in ("housing_median_age", "median_income", "median_house_value"))
    value, inland = value / 1e5, (rows["ocean_proximity"] == "INLAND").to_numpy(float)
    means = [inland.mean(), (value > 2).mean(), value[inland == 1].mean() - value[inland == 0].mean()]
    three = ((income > 4) & (value > 2) & (inland == 0)).mean()
    return np.array([*means, *linear([income, inland, age], value), three, np.median(income), np.corrcoef(income, value)[0, 1]])


NAMES_OF_CARE = ["P(first)", "P(last)", "difference of means", "linear slope: 1st", "... 3rd", "... 5th", "share of three levels"]
NAMES_OF_CARE += ["mean of sums of eight", "P(at least four)"]
NAMES_OF_HOUSING = ["P(inland)", "P(value > 2e5)", "mean value by inland", "linear slope of value: income", "... inland", "... age"]
NAMES_OF_HOUSING += ["share of three ranges", "median income", "correlation of income and value"]
TABLES = {
    "census": (census, statistics_of_census, NAMES),
    "care": (care, statistics_of_care, NAMES_OF_CARE),
    "housing": (housing, statistics_of_housing, NAMES_OF_HOUSING),
}


def draw(number, table):
    """Return the ends of both kinds of intervals of one draw, and the seconds of ours."""
    (read, statistics, _), rng = TABLES[table], np.random.default_rng([7, number])
    rows, schema = read()
    data = rows.iloc[rng.integers(0, len(rows), ROWS)].reset_index(drop=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LatentFactorSynthesizer(schema, epsilon=1.0, delta=1e-6).fit(data)
    start = time.perf_counter()
    ours = model.interval(statistics, LEVEL, random_state=number)
    took = time.perf_counter() - start
    synthetic = model.sample(ROWS, random_state=number)
    again = [statistics(synthetic.iloc[rng.integers(0, ROWS, ROWS)]) for _ in range(NAIVE)]
    center, half = statistics(synthetic), 1.96 * np.std(again, axis=0, ddof=1)
    return np.array([[ours.low, ours.high], [center - half, center + half]]), took


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--table", choices=TABLES, default="census")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    read, statistics, names = TABLES[options.table]
    truth = statistics(read()[0])
    numbers = range(options.first, options.first + options.draws)
    found, took = zip(*Parallel(options.jobs)(delayed(draw)(number, options.table) for number in numbers), strict=True)
    ends = np.array(found)  # draw, kind, end, statistic
    covered = ((ends[:, :, 0] <= truth) & (truth <= ends[:, :, 1])).mean(axis=0)
    widths = (ends[:, :, 1] - ends[:, :, 0]).mean(axis=0)
    print(f"{options.draws} draws; {np.median(took):.1f} s for all nine statistics, at most {max(took):.1f} s")
    print("statistic | truth | coverage | naive | width | naive")
    for name, value, of_draws, width in zip(names, truth, covered.T, widths.T, strict=True):
        print(f"{name} | {value:.4g} | {of_draws[0]:.2f} | {of_draws[1]:.2f} | {width[0]:.3g} | {width[1]:.3g}")
    least = TARGET - 2 * np.sqrt(TARGET * (1 - TARGET) / options.draws) * (options.draws < 100)
    met = covered[0].min() >= least and max(took) < LONGEST
    if options.table != "census":
        return 0
    print("targets met" if met else "targets MISSED")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
