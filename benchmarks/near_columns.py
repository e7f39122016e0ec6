"""Columns of numbers that are near each other without a rule: rows out of order, and the errors of sums and of copies.

python benchmarks/near_columns.py [--rows 30000] [--seeds 3] [--epsilon 10 1] [--rule]

A made-up table of stays in a hospital has days of arrival and of leaving within five years, stays of some days, two sums of money with
their total, two copies of one measurement with little noise, and other columns. No row leaves before it arrives. "out of order" are
synthetic rows that do; "by codes" are those whose bin of leaving ends before that of arriving begins. "days" is the median length of a
stay, "sum" that of |drugs + food - cost|, and "copies" that of |first - second|; "r" is the correlation of the copies. TV2 is the mean
total variation of pairs of columns between the real rows and as many synthetic ones. Fits are replace-one, delta 1e-6; seconds are
processor time.

--rule shows the effect of ``Inequality("arrived", "left")``, beside the same fits without it, on the table above and on one of four
columns: ward, days of arrival and of leaving within two years, and a cost of about 300 a day. The mean stay depends on the ward there: 3, 8
or 1 days. "off" is the mean distance of the mean stay from the real one, "off by ward" that of the mean stays of the wards, and "broken"
the share of rows that end before they begin. "a column of days" is the same table with the number of days in place of the day of leaving.
"""

import argparse
import time
import warnings

import numpy as np
import pandas as pd

from skdpsynth import LatentFactorSynthesizer
from skdpsynth.domain import Continuous, Date, Inequality, Schema
from skdpsynth.exceptions import InsecureRandomnessWarning, SmallSampleWarning
from skdpsynth.metrics import marginal_total_variation


def stays(n=30_000, seed=0):
    """Return made-up stays, and their schema without any rule."""
    rng = np.random.default_rng(seed)
    ward = rng.choice(["birth", "child", "heart", "bones"], n, p=[0.2, 0.2, 0.35, 0.25])
    age = np.select([ward == "birth", ward == "child"], [rng.integers(16, 45, n), rng.integers(0, 18, n)], rng.integers(18, 100, n))
    sex = np.where(ward == "birth", "f", rng.choice(["f", "m"], n))
    arrived = np.datetime64("2020-01-01") + rng.integers(0, 1700, n)
    left = arrived + rng.geometric(np.where(ward == "heart", 0.1, 0.25), n).clip(0, 100)
    diastolic = rng.normal(80 + age / 10, 10, n).clip(40, 150)
    drugs, food = (rng.gamma(2, mean, n).clip(0, 1500).round(2) for mean in (120, 60))
    pulse, kg, cm = rng.normal(75, 12, n), rng.normal(60, 12, n).clip(3, 200), rng.normal(165, 12, n).clip(50, 220)
    gone = rng.random(n) < 0.2
    table = pd.DataFrame(
        {
            **{"arrived": arrived, "left": left, "ward": ward, "age": age, "sex": sex},
            "floor": pd.Series(ward).map({"birth": 1, "child": 1, "heart": 2, "bones": 3}),
            "systolic": np.where(gone, np.nan, (diastolic + rng.normal(40, 10, n)).clip(diastolic, 250)),
            "diastolic": np.where(gone, np.nan, diastolic),
            **{"drugs": drugs, "food": food, "cost": drugs + food, "kg": kg, "cm": cm},
            **{"first": pulse + rng.normal(0, 1, n), "second": pulse + rng.normal(0, 1, n)},
            "pain": rng.binomial(10, 0.2 + 0.4 * (ward == "bones"), n),
        }
    )
    days = Date("2020-01-01", "2024-12-31")
    schema = Schema(
        {
            **{"arrived": days, "left": days, "ward": ["birth", "child", "heart", "bones"], "age": (0, 99), "sex": ["f", "m"]},
            **{"floor": (1, 3), "systolic": Continuous(40.0, 250.0, nullable=True), "diastolic": Continuous(30.0, 160.0, nullable=True)},
            **{"drugs": (0.0, 1500.0), "food": (0.0, 1600.0), "cost": (0.0, 2500.0), "kg": (3.0, 200.0), "cm": (50.0, 220.0)},
            **{"first": (20.0, 140.0), "second": (20.0, 140.0), "pain": (0, 10)},
        }
    )
    return table, schema


def wards(n=30_000, seed=0):
    """Return made-up stays of four columns, and their schema without any rule."""
    rng = np.random.default_rng(seed)
    ward = rng.choice(["birth", "heart", "eyes"], n, p=[0.4, 0.3, 0.3])
    arrived = np.datetime64("2022-01-01", "s") + rng.integers(0, 700, n).astype("timedelta64[D]")
    days = rng.poisson(np.select([ward == "birth", ward == "heart"], [3, 8], 1))
    cost = (300 * days + rng.normal(0, 100, n)).clip(0, 10_000).round(2)
    table = pd.DataFrame({"ward": ward, "arrived": arrived, "left": arrived + days.astype("timedelta64[D]"), "cost": cost})
    within = Date("2022-01-01", "2023-12-31")
    return table, Schema({"ward": ["birth", "heart", "eyes"], "arrived": within, "left": within, "cost": (0.0, 10_000.0)})


def lengths(table):
    """Return the days of each stay."""
    return (table["left"] - table["arrived"]).dt.days


def fitted_stays(way, table, schema, epsilon, seed):
    """Return synthetic stays, and how long it took: by days of leaving, with a rule or without, or by numbers of days."""
    start = time.process_time()
    delta = 0.0 if epsilon == float("inf") else 1e-6
    schema = Schema(dict(schema), rules=[Inequality("arrived", "left")] if way == "with the rule" else [])
    if way == "a column of days":
        table = table.assign(days=lengths(table)).drop(columns="left")
        schema = Schema({**{name: schema[name] for name in schema if name != "left"}, "days": (0, 100)})
    model = LatentFactorSynthesizer(schema, epsilon=epsilon, delta=delta, random_state=seed).fit(table)
    fitted = time.process_time()
    synthetic = model.sample(len(table), random_state=seed)
    if way == "a column of days":
        synthetic["left"] = synthetic["arrived"] + pd.to_timedelta(synthetic.pop("days"), "D")
    return synthetic, {"fit s": fitted - start, "sample s": time.process_time() - fitted}


def with_and_without_rule(make, n, epsilons, seeds):
    """Print what a rule on the order of the two days changes, and what a column of days does in its place."""
    table, schema = make(n)
    real, of_wards = lengths(table).mean(), lengths(table).groupby(table["ward"]).mean()
    print(f"{make.__name__}, {n} rows, mean stay {real:.3f}, by ward {of_wards.round(2).to_dict()}")
    for epsilon in epsilons:
        for way in ("without the rule", "with the rule", "a column of days"):
            rows = []
            for seed in range(seeds):
                synthetic, seconds = fitted_stays(way, table, schema, epsilon, seed)
                days = lengths(synthetic)
                rows.append({"mean": days.mean(), "off": abs(days.mean() - real), "median": days.median(), "broken": (days < 0).mean()})
                rows[-1]["off by ward"] = (days.groupby(synthetic["ward"]).mean() - of_wards).abs().mean()
                rows[-1] |= {"TV2": marginal_total_variation(table, synthetic[list(table)], schema), **seconds}
            means = ", ".join(f"{name} {np.mean([row[name] for row in rows]):.4g}" for name in rows[0])
            print(f"  epsilon {epsilon:g}, {way}: {means}", flush=True)


def shown(table, codes=None):
    """Return what is kept of the relations of a table, by name."""
    found = {"out of order": float((table["left"] < table["arrived"]).mean())}
    if codes is not None:
        begins, ends = codes("arrived", table["arrived"])[0], codes("left", table["left"])[1]
        found["by codes"] = float((ends <= begins).mean())
    found["days"] = float((table["left"] - table["arrived"]).dt.days.abs().median())
    found["sum"] = float((table["drugs"] + table["food"] - table["cost"]).abs().median())
    found["copies"] = float((table["first"] - table["second"]).abs().median())
    found["r"] = float(table["first"].corr(table["second"]))
    return found


def coder(model):
    """Return what gives the ends of the bins that hold days."""

    def ends(name, days):
        bins = model.bins_[name]
        number = np.searchsorted(bins, (days - pd.Timestamp("2020-01-01")).dt.days.to_numpy(), side="right")
        return bins[number - 1], bins[number]

    return ends


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=30_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 10.0])
    parser.add_argument("--rule", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", InsecureRandomnessWarning)
    warnings.simplefilter("ignore", SmallSampleWarning)
    if arguments.rule:
        for make in (wards, stays):
            with_and_without_rule(make, arguments.rows, arguments.epsilon, arguments.seeds)
        return
    table, schema = stays(arguments.rows)
    print("real:", ", ".join(f"{name} {value:.4g}" for name, value in shown(table).items()))
    for epsilon in arguments.epsilon:
        rows = []
        for seed in range(arguments.seeds):
            start = time.process_time()
            delta = 0.0 if epsilon == float("inf") else 1e-6
            model = LatentFactorSynthesizer(schema, epsilon=epsilon, delta=delta, random_state=seed).fit(table)
            fitted = time.process_time()
            synthetic = model.sample(len(table), random_state=seed)
            drawn = time.process_time()
            rows.append(shown(synthetic, coder(model)))
            rows[-1] |= {"TV2": marginal_total_variation(table, synthetic, schema), "fit s": fitted - start, "sample s": drawn - fitted}
            rows[-1] |= {"TV1": marginal_total_variation(table, synthetic, schema, order=1)}
        print(f"epsilon {epsilon:g}:", ", ".join(f"{name} {np.mean([row[name] for row in rows]):.4g}" for name in rows[0]), flush=True)


if __name__ == "__main__":
    main()
