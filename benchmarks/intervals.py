"""Coverage and width of intervals from one model, beside those that a textbook computes from synthetic rows.

SKDPSYNTH_DATA=FOLDER python benchmarks/intervals.py [--table census|care|housing|households] [--draws 20] [--jobs 2]

The population is a table: "census", the coded Census Income table (FOLDER/coded/adult.csv: 48,842 rows of whole numbers) with seven of its
columns, for which there are targets; "care", eight columns of two levels (FOLDER/coded/nltcs.csv, 21,574 rows); or "housing", four numbers
and a place (FOLDER/california_housing.csv, 20,640 rows). Each draw takes 5,000 rows of it with replacement and fits at (1, 1e-6),
replace-one. The true value of a statistic is that of the population. "naive" is the usual bootstrap of 5,000 synthetic rows, which ignores
the noise. With 100 draws the standard error of a coverage of .95 is .022; with 20, it is .05. The target is .93, less two standard errors
where there are fewer than 100 draws, and 60 seconds (for all statistics, which share the re-fits as one array).

"households" are linked tables that are made up: each draw makes 2,000 households of up to five persons anew and fits
`LinkedTablesSynthesizer` under --neighboring. The true values are those of a million households; the target is .9, and no time.
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

from skdpsynth import LatentFactorSynthesizer, LinkedTablesSynthesizer
from skdpsynth.domain import Children, Nominal

ROWS, LEVEL, TARGET, LONGEST = 5000, 0.95, 0.93, 60.0
HOUSEHOLDS, MANY_HOUSEHOLDS, TARGET_OF_HOUSEHOLDS = 2000, 1_000_000, 0.9
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


def households(n, seed):
    """Persons of a household look for work alike, and the young ones more; in the north households are larger."""
    rng = np.random.default_rng([8, *np.atleast_1d(seed)])
    region, rent = rng.choice(["north", "south"], n), rng.normal(900, 200, n).clip(0, 3000)
    owner = np.repeat(np.arange(n), np.minimum(1 + rng.poisson(np.where(region == "north", 1.8, 1.2)), 5))
    eager = rng.normal(size=n) + 0.5 * (rent > 900)
    works = eager[owner] + rng.normal(size=len(owner)) > 0.3
    person = {"id": owner, "works": works, "age": rng.normal(45 - 10 * works, 15).clip(0, 110).round()}
    return {"household": pd.DataFrame({"id": np.arange(n), "region": region, "rent": rent}), "person": pd.DataFrame(person)}


def fit_households(number, relation):
    schemas = {"household": {"region": ["north", "south"], "rent": (0.0, 3000.0)}}
    schemas["person"] = {"works": [False, True], "age": (0.0, 110.0)}
    links = [Children("person", of="household", key="id", most=5, least=1)]
    model = LinkedTablesSynthesizer(schemas, links=links, epsilon=1.0, delta=1e-6, neighboring=relation)
    return model.fit(households(HOUSEHOLDS, [7, number]))


def by_household(tables):
    """Return a row of sums of each household."""
    person, home = tables["person"], tables["household"].set_index("id")
    work, age = person["works"].astype(float), person["age"].astype(float)
    sums = pd.DataFrame({"persons": 1.0, "workers": work, "age": age, "age of workers": age * work}).groupby(person["id"]).sum()
    return home.assign(north=home["region"] == "north").drop(columns="region").join(sums).fillna(0.0).astype(float)


def statistics_of_households(tables):
    rows = by_household(tables) if isinstance(tables, dict) else tables
    north, everywhere = rows[rows["north"] == 1], rows.sum()
    south = everywhere - north.sum()
    idle = everywhere["persons"] - everywhere["workers"]
    gap = everywhere["age of workers"] / everywhere["workers"] - (everywhere["age"] - everywhere["age of workers"]) / idle
    all_work = (rows["workers"] == rows["persons"]).mean()
    larger = north["persons"].mean() - south["persons"] / (len(rows) - len(north))
    dear = rows.loc[rows["rent"] > 900]
    of_rent = dear["workers"].sum() / dear["persons"].sum() - everywhere["workers"] / everywhere["persons"]
    means = [rows["persons"].mean(), everywhere["workers"] / everywhere["persons"], rows["rent"].mean(), rows["north"].mean(), all_work]
    return np.array([*means, larger, gap, of_rent])


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
NAMES_OF_HOUSEHOLDS = ["persons of a household", "P(person works)", "mean rent", "P(north)", "P(all of a household work)"]
NAMES_OF_HOUSEHOLDS += ["more persons in the north", "age of who works less age of others", "P(works) where rents are high, less P(works)"]
TABLES = {
    "census": (census, statistics_of_census, NAMES),
    "care": (care, statistics_of_care, NAMES_OF_CARE),
    "housing": (housing, statistics_of_housing, NAMES_OF_HOUSING),
    "households": (lambda: (households(MANY_HOUSEHOLDS, 0), None), statistics_of_households, NAMES_OF_HOUSEHOLDS),
}


def fit(number, table, rng):
    rows, schema = TABLES[table][0]()
    data = rows.iloc[rng.integers(0, len(rows), ROWS)].reset_index(drop=True)
    return LatentFactorSynthesizer(schema, epsilon=1.0, delta=1e-6).fit(data)


def draw(number, table, relation, n_refits):
    """Return the ends of both kinds of intervals of one draw, and the seconds of ours."""
    statistics, rng = TABLES[table][1], np.random.default_rng([7, number])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = fit_households(number, relation) if table == "households" else fit(number, table, rng)
    start = time.perf_counter()
    n_samples = 2 * HOUSEHOLDS if table == "households" else None
    ours = model.interval(statistics, LEVEL, n_refits=n_refits, n_samples=n_samples, random_state=number)
    took = time.perf_counter() - start
    synthetic = model.sample(HOUSEHOLDS if table == "households" else ROWS, random_state=number)
    synthetic = by_household(synthetic) if table == "households" else synthetic
    n = len(synthetic)
    again = [statistics(synthetic.iloc[rng.integers(0, n, n)]) for _ in range(NAIVE)]
    center, half = statistics(synthetic), 1.96 * np.std(again, axis=0, ddof=1)
    return np.array([[ours.low, ours.high], [center - half, center + half]]), took


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--table", choices=TABLES, default="census")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--refits", type=int, default=40)
    parser.add_argument("--neighboring", default="replace_one", help="of households")
    options = parser.parse_args()
    read, statistics, names = TABLES[options.table]
    truth = statistics(read()[0])
    numbers = range(options.first, options.first + options.draws)
    found, took = zip(
        *Parallel(options.jobs)(delayed(draw)(number, options.table, options.neighboring, options.refits) for number in numbers),
        strict=True,
    )
    ends = np.array(found)  # draw, kind, end, statistic
    covered = ((ends[:, :, 0] <= truth) & (truth <= ends[:, :, 1])).mean(axis=0)
    widths = (ends[:, :, 1] - ends[:, :, 0]).mean(axis=0)
    print(f"{options.draws} draws; {np.median(took):.1f} s for all statistics, at most {max(took):.1f} s")
    print("statistic | truth | coverage | naive | width | naive")
    for name, value, of_draws, width in zip(names, truth, covered.T, widths.T, strict=True):
        print(f"{name} | {value:.4g} | {of_draws[0]:.2f} | {of_draws[1]:.2f} | {width[0]:.3g} | {width[1]:.3g}")
    is_linked = options.table == "households"
    target = TARGET_OF_HOUSEHOLDS if is_linked else TARGET
    least = target - 2 * np.sqrt(target * (1 - target) / options.draws) * (options.draws < 100)
    met = covered[0].min() >= least and (is_linked or max(took) < LONGEST)
    if options.table not in ("census", "households"):
        return 0
    print("targets met" if met else "targets MISSED")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
