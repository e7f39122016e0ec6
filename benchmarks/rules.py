"""Rules of a schema: the rows of a large sample that break one, and the effect of rules on accuracy.

python benchmarks/rules.py [--rows 1000000] [--seeds 3] [--only stays adult]

With SKDPSYNTH_DATA=FOLDER it also uses adult (mixed_data.py describes the folder). TV2 is the mean total variation of pairs of columns
between the real rows and as many synthetic ones, with and without the rules, replace-one, epsilon 1, delta 1e-6. Broken rows are those of
the large sample, of the model with rules and of that without.
"""

import argparse
import os
import time
import warnings

import numpy as np
import pandas as pd

from skdpsynth import LatentFactorSynthesizer
from skdpsynth.domain import Continuous, Date, Derived, Determines, Impossible, Inequality, MissingTogether, Schema, Sum, Unique
from skdpsynth.exceptions import InsecureRandomnessWarning, SmallSampleWarning
from skdpsynth.metrics import marginal_total_variation, rule_violations


def stays(n=30_000, seed=0):
    """Return made-up stays in a hospital that keep twelve rules, and the schema that says so."""
    rng = np.random.default_rng(seed)
    ward = rng.choice(["birth", "child", "heart", "bones"], n, p=[0.2, 0.2, 0.35, 0.25])
    age = np.select([ward == "birth", ward == "child"], [rng.integers(16, 45, n), rng.integers(0, 18, n)], rng.integers(18, 100, n))
    sex = np.where(ward == "birth", "f", rng.choice(["f", "m"], n))
    arrived = np.datetime64("2020-01-01") + rng.integers(0, 1700, n)
    left = arrived + rng.geometric(np.where(ward == "heart", 0.1, 0.25), n).clip(0, 100)
    seen = np.minimum(arrived + rng.integers(0, 3, n), left)
    gone = rng.random(n) < 0.2
    diastolic = rng.normal(80 + age / 10, 10, n).clip(40, 150)
    drugs, food = rng.gamma(2, 120, n).clip(0, 1500).round(2), (15.5 * (left - arrived).astype(int)).clip(0, 1600)
    food = np.minimum(food, 2500 - drugs)
    kg, cm = rng.normal(60, 12, n).clip(3, 200), rng.normal(165, 12, n).clip(50, 220)
    table = pd.DataFrame(
        {
            **{
                "stay": rng.permutation(5_000_000)[:n],
                "arrived": arrived,
                "seen": seen,
                "left": left,
                "ward": ward,
                "age": age,
                "sex": sex,
            },
            "floor": pd.Series(ward).map({"birth": 1, "child": 1, "heart": 2, "bones": 3}),
            "systolic": np.where(gone, np.nan, (diastolic + rng.normal(40, 10, n)).clip(diastolic, 250)),
            "diastolic": np.where(gone, np.nan, diastolic),
            **{"drugs": drugs, "food": food, "cost": drugs + food, "kg": kg.astype(np.float32), "cm": cm},
            "bmi": kg.astype(np.float32) / (cm / 100) ** 2,
        }
    )
    days = Date("2020-01-01", "2024-12-31")
    schema = Schema(
        {
            **{"stay": (0, 4_999_999), "arrived": days, "seen": days, "left": days, "ward": ["birth", "child", "heart", "bones"]},
            **{"age": (0, 99), "sex": ["f", "m"], "floor": (1, 3)},
            **{"systolic": Continuous(40.0, 250.0, nullable=True), "diastolic": Continuous(30.0, 160.0, nullable=True)},
            **{"drugs": (0.0, 1500.0), "food": (0.0, 1600.0), "cost": (0.0, 2500.0), "kg": (3.0, 200.0), "cm": (50.0, 220.0)},
            "bmi": Derived("kg / (cm / 100) ** 2"),
        },
        rules=[
            Unique("stay"),
            Inequality("arrived", "seen"),
            Inequality("seen", "left"),
            Impossible({"ward": "birth", "sex": "m"}),
            Impossible({"ward": "birth", "age": [(None, 15), (45, None)]}),
            Impossible({"ward": "child", "age": (18, None)}),
            Impossible({"ward": ["heart", "bones"], "age": (None, 17)}),
            Determines("ward", "floor", {"birth": 1, "child": 1, "heart": 2, "bones": 3}),
            MissingTogether(["systolic", "diastolic"]),
            Inequality("diastolic", "systolic"),
            Sum(["drugs", "food"], "cost"),
        ],
    )
    return table, schema


def adult():
    """Return Census Income with both spellings of education, and its schema with the rules that its columns have by their meaning."""
    from mixed_data import load, parts, without

    rows, told = load("adult")
    told = without(told, "split", "fnlwgt")
    train, _ = parts(rows, told, (rows["split"] == "train").to_numpy())
    kinds = Schema.from_json(told)
    degrees = kinds["education"].levels  # in order: the code book numbers them from 1 on
    rules = [
        Determines("education", "education_num", {degree: number for number, degree in enumerate(degrees, 1)}),
        Impossible({"relationship": "Wife", "sex": "Male"}),
        Impossible({"relationship": "Husband", "sex": "Female"}),
    ]
    return train, Schema(dict(kinds), rules=rules)


def measure(name, table, schema, seeds, n_rows):
    """Print the accuracy with and without rules, and how many rows of a large sample break each."""
    plain = {column: kind for column, kind in schema.items() if not isinstance(kind, Derived)}
    keys = [column for rule in schema.rules if isinstance(rule, Unique) for column in rule.columns]
    compared = [column for column in plain if column not in keys]
    kinds = {column: plain[column] for column in compared}
    print(f"{name}: {len(table)} rows, {len(schema)} columns, {len(schema.rules)} rules and {len(schema) - len(plain)} derived columns")
    counts = {}
    for title, used in (("with rules", schema), ("without", Schema(dict(schema)))):
        distances, seconds = [], []
        for seed in range(seeds):
            start = time.perf_counter()
            model = LatentFactorSynthesizer(used, epsilon=1.0, delta=1e-6, random_state=seed).fit(table)
            seconds.append(time.perf_counter() - start)
            synthetic = model.sample(len(table), random_state=seed)
            distances.append(marginal_total_variation(table[compared], synthetic[compared], kinds))
        spread = np.std(distances, ddof=1) if seeds > 1 else 0.0
        start = time.perf_counter()
        large = model.sample(n_rows, random_state=0)
        drawn = time.perf_counter() - start
        counts[title] = rule_violations(large, schema)
        print(f"  {title}: TV2 {np.mean(distances):.4f} ({spread:.4f}), fit {np.mean(seconds):.1f} s, {n_rows} rows in {drawn:.1f} s")
    real = rule_violations(table, schema)
    for rule, broken in counts["with rules"].items():
        print(f"    {rule[:90]:90} real {real[rule].rows}, with rules {broken.rows}, without {counts['without'][rule].share:.2%}")
    return sum(broken.rows for broken in counts["with rules"].values())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=["stays", "adult"])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", InsecureRandomnessWarning)
    warnings.simplefilter("ignore", SmallSampleWarning)
    n_broken = measure("stays", *stays(), arguments.seeds, arguments.rows) if "stays" in arguments.only else 0
    if "SKDPSYNTH_DATA" in os.environ and "adult" in arguments.only:
        n_broken += measure("adult", *adult(), arguments.seeds, arguments.rows)
    print(f"rows that break a rule, with rules: {n_broken}")
    return int(n_broken > 0)


if __name__ == "__main__":
    raise SystemExit(main())
