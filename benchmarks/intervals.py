"""Coverage and width of intervals from one model, beside those that a textbook computes from synthetic rows.

SKDPSYNTH_DATA=FOLDER python benchmarks/intervals.py [--draws 20] [--jobs 2]

The population is the coded Census Income table (FOLDER/coded/adult.csv: 48,842 rows of whole numbers) with seven of its columns. Each
draw takes 5,000 rows of it with replacement and fits at (1, 1e-6), replace-one. The truth of a statistic is that of the population.
"naive": the usual bootstrap of 5,000 synthetic rows, which knows of no noise. With 100 draws a coverage of .95 is measured with a standard
error of .022; with 20, of .05. The target is .93, less two standard errors where there are fewer than 100 draws, and 60 seconds (of all
statistics, which share the re-fits as one array).
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


def population():
    folder = Path(os.environ["SKDPSYNTH_DATA"]) / "coded"
    rows = pd.read_csv(folder / "adult.csv")[COLUMNS].astype(int)
    sizes = json.loads((folder / "adult-domain.json").read_text())
    schema = {name: (0, sizes[name] - 1) if name in NUMBERS else Nominal(list(range(sizes[name]))) for name in COLUMNS}
    return rows, schema


def logistic(X, y, steps=12):
    """Newton's method."""
    slopes = np.zeros(X.shape[1])
    for _ in range(steps):
        p = 1 / (1 + np.exp(-X @ slopes))
        slopes = slopes + np.linalg.solve(X.T @ (X * (p * (1 - p))[:, None]), X.T @ (y - p))
    return slopes


def statistics(rows):
    income, sex, education, age = (rows[name].to_numpy(float) for name in ("income>50K", "sex", "education-num", "age"))
    X = np.column_stack([np.ones(len(rows)), education, sex, age])
    means = [income.mean(), sex.mean(), education[income == 1].mean() - education[income == 0].mean()]
    three = (income == 1) & (sex == 1) & (rows["marital-status"].to_numpy() == 0)
    return np.array([*means, *np.linalg.solve(X.T @ X, X.T @ income)[1:], logistic(X, income)[1], np.median(age), three.mean()])


def draw(number, rows, schema):
    """Return the ends of both kinds of intervals of one draw, and the seconds of ours."""
    rng = np.random.default_rng([7, number])
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
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    rows, schema = population()
    truth = statistics(rows)
    numbers = range(options.first, options.first + options.draws)
    found, took = zip(*Parallel(options.jobs)(delayed(draw)(number, rows, schema) for number in numbers), strict=True)
    ends = np.array(found)  # draw, kind, end, statistic
    covered = ((ends[:, :, 0] <= truth) & (truth <= ends[:, :, 1])).mean(axis=0)
    widths = (ends[:, :, 1] - ends[:, :, 0]).mean(axis=0)
    print(f"{options.draws} draws; {np.median(took):.1f} s for all nine statistics, at most {max(took):.1f} s")
    print("statistic | truth | coverage | naive | width | naive")
    for name, value, of_draws, width in zip(NAMES, truth, covered.T, widths.T, strict=True):
        print(f"{name} | {value:.4g} | {of_draws[0]:.2f} | {of_draws[1]:.2f} | {width[0]:.3g} | {width[1]:.3g}")
    least = TARGET - 2 * np.sqrt(TARGET * (1 - TARGET) / options.draws) * (options.draws < 100)
    met = covered[0].min() >= least and max(took) < LONGEST
    print("targets met" if met else "targets MISSED")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
