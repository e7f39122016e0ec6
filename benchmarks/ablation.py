"""The worth of each part of the mixed-table models: fits without one part, beside fits with all parts, from the same seeds.

SKDPSYNTH_DATA=FOLDER python benchmarks/ablation.py [--seeds 5] [--only PART ...] [--tables TABLE ...] [--keep FILE]

The plainest thing that does its task replaces one part; all others stay. Differences are paired: both fits have the same seed. A figure is
the mean of its targets' differences, positive if less accurate, with its standard error over the seeds; beside it is the spread of the
target (the standard deviation over seeds of the fit with all parts). The relation is replace-one, delta is 1e-6; "pure" is delta 0.

A part earns its place if, at one epsilon of one table at least, leaving it out makes a target worse by more than the standard error of that
target (its spread over the root of the number of seeds), beyond the standard error of the difference. Fits kept in FILE are not made again.
Without the folder of SKDPSYNTH_DATA, only made-up tables are fitted.
"""

import argparse
import json
import os
import sys
import warnings
from contextlib import ExitStack
from functools import lru_cache, partial
from importlib import import_module
from itertools import pairwise, product
from pathlib import Path
from unittest.mock import patch

import near_columns
import numpy as np
import pandas as pd
import small_tables
import spans
import wide_bounds
from generators import survey
from mixed_data import TABLES as REAL
from mixed_data import features
from mixed_tables import wide_table
from scipy.stats import spearmanr, wasserstein_distance
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from skdpsynth import LatentFactorSynthesizer
from skdpsynth.domain import Continuous, Inequality, Nominal, Ordinal, Schema
from skdpsynth.metrics import marginal_total_variation

EPSILONS = (0.1, 1.0, 10.0)
MODELS, SYNTHESIS = "skdpsynth.models.", "skdpsynth.synthesis."


def same_tables(one_way, two_way, *_):
    return one_way, two_way


def same_bins(names, links, one_way, two_way, *_):
    return dict(links), one_way, two_way


def tables_alone(cls, sizes, pairs, of_columns, share, relation, n_samples):
    """Return the release of pairs as tables, where interactions might have less noise."""
    from skdpsynth.privacy import mechanism
    from skdpsynth.statistics import Marginals

    n_cells = sum(sizes[i] * sizes[j] for i, j in pairs) * sizes[-1]
    return cls(tuple(sizes), tuple(pairs), mechanism(Marginals.sensitivity(relation, len(pairs)), share, n_values=n_cells))


def clipped_counts(counts, deviation):
    return np.maximum(counts, 0.0)


def no_common_factors(pairs, one, n, n_factors, tied):
    """Return blocks of columns whose factors are their own."""
    return None, COMMON(pairs, one, n, n_factors, tied)[1]


COMMON = import_module(f"{MODELS}_wide_factors").learn_common_factors
# Each part by name: where it is, what stands in its place, and the tables it may matter for.
PARTS = {
    "restarts": ({f"{MODELS}_latent_factors._FITS": 1}, "adult acs plain near digits survey"),
    "chosen prior variance": (
        {f"{MODELS}_latent_factors.choose_variance": lambda *_: (0.2, 0.0)},
        "adult acs plain digits survey diabetes",
    ),
    "smooth loadings": (
        {f"{MODELS}_training.Smoothness.of": lambda *_: import_module(f"{MODELS}_training").INDEPENDENT},
        "adult acs digits",
    ),
    "refined bins": ({f"{MODELS}_quantile_bins.RefinedBins.of": lambda *_: None}, "adult acs near digits lognormal money diabetes"),
    "class contrasts": ({f"{MODELS}_measurements.shrink_class_contrasts": same_tables}, "adult acs pure"),
    "bins clear of noise": ({f"{MODELS}_measurements.threshold_bins": same_bins}, "adult acs digits lognormal money clinic near diabetes"),
    "graded outer bins": ({f"{SYNTHESIS}_latent_marginals.bin_growth": lambda *_: None}, "adult acs digits lognormal money diabetes"),
    "number of bins by noise": ({f"{SYNTHESIS}_latent_marginals.choose_n_bins": lambda *_: 16}, "adult acs near digits lognormal diabetes"),
    "expected counts of rare levels": ({f"{MODELS}_quantile_bins.posterior_counts": clipped_counts}, "adult acs towns"),
    "choice of pairs": ({f"{SYNTHESIS}_latent_marginals.PairSelection.of": lambda *_: None}, "digits survey"),
    "triples": ({f"{SYNTHESIS}_latent_marginals.plan_triples": lambda plan, *_: plan}, "adult acs plain"),
    "near columns": (
        {f"{SYNTHESIS}_latent_marginals.find_near_columns": lambda rows, codes, plan, *_: ((), plan)},
        "near adult fares clinic",
    ),
    "interactions": ({f"{SYNTHESIS}_latent_planning.PairRelease.choose": classmethod(tables_alone)}, "adult acs digits wide"),
    "share of columns by noise": ({f"{SYNTHESIS}_latent_planning._optimize_column_share": lambda plan, _: plan}, "acs survey binary"),
    "common factors of blocks": ({f"{SYNTHESIS}_latent_marginals.learn_common_factors": no_common_factors}, "wide"),
}


def pairs_error(rows, synthetic, schema, order=2):
    return marginal_total_variation(rows, synthetic, schema, order)


def classifier_error(synthetic, test, target, schema):
    """Return 1 less the mean AUC of two classifiers trained on synthetic rows."""
    (positive,) = (column["levels"][-1] for column in schema["columns"] if column["name"] == target)
    y, y_test = ((rows[target] == positive).to_numpy(bool) for rows in (synthetic, test))
    if y.all() or not y.any():
        return 0.5
    X, X_test = (features(rows, target, schema) for rows in (synthetic, test))
    models = LogisticRegression(max_iter=300), HistGradientBoostingClassifier(max_iter=50, random_state=0)
    return 1 - float(np.mean([roc_auc_score(y_test, model.fit(X, y).predict_proba(X_test)[:, 1]) for model in models]))


@lru_cache
def real(name):
    train, test, facts, target = REAL[name]()
    return train, test.sample(min(len(test), 5000), random_state=0), facts, target, Schema.from_json(facts)


def of_classes(name):
    train, test, facts, target, schema = real(name)

    def errors(synthetic):
        return {"AUC": classifier_error(synthetic[:8000], test, target, facts), "pairs": pairs_error(train, synthetic, schema)}

    return train, {"schema": schema, "stratify": target}, errors


def plain():
    train, _, _, _, schema = real("adult")
    return train, {"schema": schema}, lambda Y: {"pairs": pairs_error(train, Y, schema), "triples": pairs_error(train, Y, schema, 3)}


def near():
    table, schema = near_columns.stays(30_000)

    def errors(Y):
        days, real_days = near_columns.lengths(Y), near_columns.lengths(table)
        gap = (Y["drugs"] + Y["food"] - Y["cost"]).abs().median()
        return {
            "out of order": float((days < 0).mean()),
            "median stay": abs(float(days.median() - real_days.median())),
            "sum": float(gap) / float(table["cost"].std()),
            "pairs": pairs_error(table, Y, schema),
        }

    return table, {"schema": schema}, errors


def clinic():
    table = spans.clinic(np.random.default_rng(0)).drop(columns="los")
    schema = Schema(
        {"age": (18, 95), "ward": ["a", "b", "c"], "begin": spans.TEN_YEARS, "end": spans.TEN_YEARS}, rules=[Inequality("begin", "end")]
    )

    def hours(Y):
        return (Y["end"] - Y["begin"]).dt.total_seconds() / 3600

    def errors(Y):
        of_age = [spearmanr(rows["age"], hours(rows)).statistic for rows in (table, Y)]
        return {"correlation": abs(of_age[0] - of_age[1]), "median stay": abs(np.log(hours(Y).median() / hours(table).median()))}

    return table, {"schema": schema}, errors


def fares():
    table = spans.fares(np.random.default_rng(0))
    schema = Schema({**dict.fromkeys(["fare", "tip", "tolls", "total"], Continuous(0, 1000)), "payment": ["card", "cash"]})
    return (
        table,
        {"schema": schema},
        lambda Y: {
            "sum": float(((Y["fare"] + Y["tip"] + Y["tolls"] - Y["total"]).abs() > 5).mean()),
            "pairs": pairs_error(table, Y, schema),
        },
    )


def one_column(make, high):
    rng = np.random.default_rng(0)
    values = np.asarray(make(rng), dtype=float)
    table = pd.DataFrame({"x": values, "side": rng.choice(["a", "b"], len(values))})

    def errors(Y):
        made = Y["x"].to_numpy(float)
        return {
            "mean": abs(float(np.log(max(made.mean(), 1e-9) / values.mean()))),
            "deviation": abs(float(np.log(max(made.std(), 1e-9) / values.std()))),
            "W1": wasserstein_distance(values, made) / values.std(),
        }

    return table, {"schema": Schema({"x": Continuous(0.0, high(values)), "side": ["a", "b"]})}, errors


def digits():
    parts = load_digits().images.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4))
    places = [(i, j) for i in range(4) for j in range(4) if {i, j} - {0, 3}]
    table = pd.DataFrame({f"part_{i}{j}": parts[:, i, j] for i, j in places})
    schema = Schema(dict.fromkeys(table, Continuous(0.0, 16.0)))
    real_ones = np.corrcoef(table.T)

    def errors(Y):
        with np.errstate(invalid="ignore"):
            return {
                "correlations": float(np.abs(np.nan_to_num(np.corrcoef(Y.T)) - real_ones).mean()),
                "pairs": pairs_error(table, Y, schema),
            }

    return table, {"schema": schema}, errors


def diabetes():
    """332 patients, of whom noise hides where their numbers end: the score of small tables."""
    rows, _, schema, _, _ = small_tables.TABLES["diabetes"]()
    settings = {"schema": schema, "neighboring": "add_or_remove_one"}
    return rows, settings, lambda Y: {"score": 1 - small_tables.own_score(rows, Y.astype(float))[0]}


def answers():
    columns, n_levels = survey(1500)
    table = pd.DataFrame(columns)
    kinds = [Continuous(0, 20) if size > 5 else (Nominal, Ordinal)[i % 2](range(size)) for i, size in enumerate(n_levels.values())]
    schema, grades = Schema(dict(zip(table, kinds, strict=True))), ["grade_1", "grade_2", "grade_3"]
    of_grades = np.corrcoef(table[grades].T)

    def errors(Y):
        with np.errstate(invalid="ignore"):
            return {
                "grades": float(np.abs(np.nan_to_num(np.corrcoef(Y[grades].T)) - of_grades).mean()),
                "pairs": pairs_error(table, Y, schema),
            }

    return table, {"schema": schema}, errors


def wide():
    X, kinds = wide_table(20_000, 60)
    groups = [range(start, start + 4) for start in range(0, 60, 4)]

    def errors(Y):
        of_groups = [marginal_total_variation(X[:, list(g)], Y[:, list(g)], {i: kinds[j] for i, j in enumerate(g)}, 2) for g in groups]
        between = [(g[0], h[1]) for g, h in pairwise(groups)]
        of_others = [
            marginal_total_variation(X[:, list(pair)], Y[:, list(pair)], {i: kinds[j] for i, j in enumerate(pair)}, 2) for pair in between
        ]
        return {"groups": float(np.mean(of_groups)), "others": float(np.mean(of_others))}

    return X, {"schema": kinds}, errors


def towns():
    """A column of 300 levels of a long tail, which goes with a column of ten."""
    rng = np.random.default_rng(0)
    town = np.minimum(rng.zipf(1.3, 10_000), 300) - 1
    region = np.where(rng.random(10_000) < 0.9, town % 10, rng.integers(0, 10, 10_000))
    table = pd.DataFrame({"town": town, "region": region})
    schema = Schema({"town": Nominal(range(300)), "region": Nominal(range(10))})
    return table, {"schema": schema}, lambda Y: {"pairs": pairs_error(table, Y, schema), "towns": pairs_error(table, Y, schema, 1)}


def binary():
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(4000, 3))
    X = (hidden @ rng.normal(size=(3, 16)) + rng.normal(size=(4000, 16)) > 0).astype(int)
    schema = {j: [0, 1] for j in range(16)}
    return X, {"schema": schema}, lambda Y: {"pairs": marginal_total_variation(X, Y, schema, 2)}


TABLES = {
    "adult": partial(of_classes, "adult"),
    "acs": partial(of_classes, "acs"),
    "pure": partial(of_classes, "acs"),
    "plain": plain,
    **{
        "near": near,
        "clinic": clinic,
        "fares": fares,
        "digits": digits,
        "survey": answers,
        "diabetes": diabetes,
        "wide": wide,
        "towns": towns,
        "binary": binary,
    },
    "lognormal": partial(one_column, wide_bounds.lognormal, lambda values: 100 * values.max()),
    "money": partial(one_column, wide_bounds.money, lambda values: 1e6),
}


def fit_errors(table, part, epsilon, seed):
    rows, settings, errors = made(table)
    delta = 0.0 if table == "pure" else 1e-6
    with ExitStack() as stack:
        for place, new in (PARTS[part][0] if part else {}).items():
            stack.enter_context(patch(place, new))
        model = LatentFactorSynthesizer(**settings, epsilon=epsilon, delta=delta, random_state=seed).fit(rows)
        return {name: float(value) for name, value in errors(model.sample(len(rows), random_state=seed)).items()}


@lru_cache
def made(table):
    return TABLES[table]()


def collect(parts, tables, seeds, keep):
    """Return the errors of all fits, by table, part (None: all parts), epsilon and seed."""
    known = {tuple(key): value for key, value in map(json.loads, keep.read_text().splitlines())} if keep and keep.exists() else {}
    for seed, epsilon, table in product(range(seeds), EPSILONS, tables):
        for part in (None, *(part for part in parts if table in PARTS[part][1].split())):
            key = (table, part, epsilon, seed)
            if key not in known:
                known[key] = fit_errors(*key)
                if keep:
                    with keep.open("a") as file:
                        file.write(json.dumps([key, known[key]]) + "\n")
    return known


def report(known, parts, tables, seeds):
    """Print what leaving out each part does to each target; return the parts that make none worse by more than its spread."""
    idle = []
    print("| part left out | targets | lose | gain | the largest loss | the largest gain |\n" + "|---" * 6 + "|")
    for part in parts:
        losses, gains = [], []
        for table, epsilon in product((table for table in tables if table in PARTS[part][1].split()), EPSILONS):
            wholes, withouts = ([known[table, each, epsilon, seed] for seed in range(seeds)] for each in (None, part))
            for target in wholes[0]:
                whole, without = (np.array([errors[target] for errors in fits]) for fits in (wholes, withouts))
                gap, spread = without - whole, whole.std(ddof=1)
                error, unit = gap.std(ddof=1) / np.sqrt(seeds), max(spread / np.sqrt(seeds), 1e-12)
                words = f"{target} of {table}, epsilon {epsilon:g}: {gap.mean():+.4f} ± {error:.4f} ({whole.mean():.4f}, {spread:.4f})"
                losses.append(((gap.mean() - error) / unit, words))
                gains.append(((-gap.mean() - error) / unit, words))
        counts = [sum(ratio > 1 for ratio, _ in each) for each in (losses, gains)]
        most = [max(each)[1] if count else "" for each, count in zip((losses, gains), counts, strict=True)]
        print(f"| {part} | {len(losses)} | {counts[0]} | {counts[1]} | {most[0]} | {most[1]} |")
        if not counts[0]:
            idle.append(part)
    return idle


def main():
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--keep", type=Path)
    arguments = parser.parse_args()
    is_there = "SKDPSYNTH_DATA" in os.environ
    tables = [table for table in arguments.tables if is_there or table not in ("adult", "acs", "pure", "plain")]
    known = collect(arguments.only, tables, arguments.seeds, arguments.keep)
    idle = report(known, arguments.only, tables, arguments.seeds)
    print(f"parts that earn nothing here: {', '.join(idle) or 'none'}")
    return 1 if idle else 0


if __name__ == "__main__":
    sys.exit(main())
