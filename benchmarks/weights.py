"""Survey weights: errors of weighted shares beside unweighted ones, the bias of clipping, and coverage under a design with unequal chances.

SKDPSYNTH_DATA=FOLDER python benchmarks/weights.py [--part error|coverage] [--cap 250] [--runs 5] [--draws 100] [--first 0] [--jobs 1]

"error": the American Community Survey (FOLDER/acs_ma2019.csv, 7,634 rows) with nine columns and PWGTP, at (1, 1e-6), under both relations,
fitted with ``weights="PWGTP"`` and without: the same columns, so the same number of tables. The error is the root mean square of shares of
levels of eight columns, in the released estimates of counts (`marginals_consistent_`) and in 100,000 synthetic rows. Noise alone is
cap / (mean clipped weight) times as large with weights; the target is 1.1 times that, in released estimates. The bias of clipping is how
far shares of clipped weights are from those of unclipped ones: the mean over levels, and the largest.

"coverage": the population is each of those rows as often as its weight says. "pps" draws 3,000 persons systematically, with chances in
proportion to a size that follows from age and housing (up to five to one); "stratified" draws 1,500 who live at home and 1,500 who do not.
Weights are one over the chance, and the cap is the largest. Each draw fits four factors at (5, 1e-6), replace-one, and asks for 95 %
intervals. The target is .93 over 100 draws, less two standard errors where there are fewer. "needed" is 3.92 times the root mean square
error of the estimates: intervals of that width would cover the truth just so often, if errors were normal.
"""

import argparse
import sys
import warnings

import numpy as np
from joblib import Parallel, delayed
from mixed_data import load, typed, without

from skdpsynth import LatentFactorSynthesizer
from skdpsynth.domain import Continuous, Nominal, Ordinal

COLUMNS = ["SEX", "MSP", "HISP", "RAC1P", "HOUSING_TYPE", "OWN_RENT", "DREM", "DPHY", "AGEP", "PWGTP"]
KINDS = {"nominal": Nominal, "ordinal": Ordinal}
SLACK, TARGET, LEVEL, ROWS, REFITS, DRAWN = 1.1, 0.93, 0.95, 3000, 16, 20_000
STATISTICS = ["share of women", "share of renters", "mean age", "women's mean age less men's", "total, in thousands", "women in thousands"]


def survey(cap):
    rows, schema = load("acs_ma2019")
    schema = without(schema, *(column["name"] for column in schema["columns"] if column["name"] not in COLUMNS))
    kinds = {}
    for column in schema["columns"]:
        if column["kind"] == "continuous":
            kinds[column["name"]] = Continuous(1, cap) if column["name"] == "PWGTP" else Continuous(*map(int, column["bounds"]))
        else:
            kinds[column["name"]] = KINDS[column["kind"]](column["levels"], nullable=column["nullable"])
    return typed(rows, schema), kinds


def shares_of(rows, kinds, weights):
    """Return the weighted share of each level of each column of levels, missing ones last."""
    found = []
    for name, kind in kinds.items():
        if not isinstance(kind, Continuous):
            codes = rows[name].map({level: place for place, level in enumerate(kind.levels)}).fillna(len(kind.levels)).astype(int)
            found.append(np.bincount(codes, weights, len(kind.levels) + 1)[: len(kind.levels) + kind.nullable] / weights.sum())
    return np.concatenate(found)


def released(model, kinds):
    tables = [model.marginals_consistent_[name,] for name, kind in kinds.items() if not isinstance(kind, Continuous)]
    return np.concatenate([table / table.sum() for table in tables])


def errors(rows, kinds, relation, runs):
    """Return the errors of released estimates and of synthetic rows, shape (runs, 2, 2): without weights, and with."""
    clipped, found = rows["PWGTP"].clip(1, kinds["PWGTP"].high).to_numpy(float), []
    for _ in range(runs):
        for column, weights in ((None, np.ones(len(rows))), ("PWGTP", clipped)):
            model = LatentFactorSynthesizer(kinds, weights=column, epsilon=1.0, delta=1e-6, neighboring=relation).fit(rows)
            sample, truth = model.sample(100_000), shares_of(rows, kinds, weights)
            both = released(model, kinds), shares_of(sample, kinds, np.ones(len(sample)))
            found.append([np.sqrt(np.mean((each - truth) ** 2)) for each in both])
    return np.array(found).reshape(runs, 2, 2)


def error(options):
    rows, kinds = survey(options.cap)
    weights = rows["PWGTP"].to_numpy(float)
    clipped = weights.clip(1, options.cap)
    ratio = options.cap / clipped.mean()
    bias, means = np.abs(shares_of(rows, kinds, clipped) - shares_of(rows, kinds, weights)), (weights.mean(), clipped.mean())
    print(f"cap {options.cap}: {np.mean(weights > options.cap):.2%} of the weights are clipped; mean {means[0]:.1f}, {means[1]:.1f}")
    print(f"bias of clipping: {bias.mean():.2g} in the mean over {len(bias)} shares, {bias.max():.2g} at most")
    print(f"the total is {clipped.sum() / weights.sum():.4f} times that of unclipped weights")
    print("relation | in | unweighted | weighted | ratio | target")
    missed = False
    for relation in options.relations:
        found = errors(rows, kinds, relation, options.runs)
        for place, name in enumerate(("released estimates", "synthetic rows")):
            plain, weighted = np.sqrt((found[:, :, place] ** 2).mean(axis=0))
            target = SLACK * ratio
            missed |= place == 0 and weighted > target * plain
            print(f"{relation} | {name} | {plain:.2e} | {weighted:.2e} | {weighted / plain:.2f} | {target:.2f}")
    return missed


def population():
    rows, _ = survey(9999)
    return rows.loc[np.repeat(np.arange(len(rows)), rows["PWGTP"])].reset_index(drop=True)[["SEX", "OWN_RENT", "HOUSING_TYPE", "AGEP"]]


def statistics_of(people, weights):
    women, weights = (people["SEX"] == 2).to_numpy(), np.asarray(weights, dtype=float)
    age, rents = people["AGEP"].to_numpy(float), (people["OWN_RENT"] == 2).to_numpy()

    def mean(values, of):
        return (values * weights)[of].sum() / weights[of].sum()

    everyone = np.ones(len(people), dtype=bool)
    gap = mean(age, women) - mean(age, ~women)
    return np.array(
        [mean(women, everyone), mean(rents, everyone), mean(age, everyone), gap, weights.sum() / 1e3, weights[women].sum() / 1e3]
    )


def draw(number, design, people):
    """Return the ends of intervals of one sample, and the estimates."""
    rng = np.random.default_rng([36, number])
    at_home = (people["HOUSING_TYPE"] == 1).to_numpy()
    if design == "pps":
        size = 1 + people["AGEP"].to_numpy(float) / 33 + ~at_home
        chance, order = ROWS * size / size.sum(), rng.permutation(len(people))
        upto = np.cumsum(chance[order])
        chosen = order[np.minimum(np.searchsorted(upto, np.arange(ROWS) + rng.random()), len(order) - 1)]
    else:
        chosen = np.concatenate([rng.choice(np.flatnonzero(at_home == part), ROWS // 2, replace=False) for part in (True, False)])
        chance = np.where(at_home, ROWS / 2 / at_home.sum(), ROWS / 2 / (~at_home).sum())
    sample = people.iloc[chosen].assign(weight=np.rint(1 / chance[chosen]).astype(int)).reset_index(drop=True)
    cap = int(np.ceil(1 / chance.min()))
    schema = {"SEX": [1, 2], "OWN_RENT": [0, 1, 2], "HOUSING_TYPE": [1, 2, 3], "AGEP": (0, 99), "weight": (1, cap)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LatentFactorSynthesizer(schema, weights="weight", epsilon=5.0, delta=1e-6, n_factors=4).fit(sample)

    def statistic(table):
        return statistics_of(table, table["weight"] * (model.n_samples_ / len(table)))

    found = model.interval(statistic, LEVEL, n_refits=REFITS, n_samples=DRAWN)
    return np.array([found.low, found.high, found.estimate])


def coverage(options):
    people = population()
    truth = statistics_of(people, np.ones(len(people)))
    numbers, missed = range(options.first, options.first + options.draws), False
    for design in options.designs:
        ends = np.array(Parallel(options.jobs)(delayed(draw)(number, design, people) for number in numbers))
        covered = ((ends[:, 0] <= truth) & (truth <= ends[:, 1])).mean(axis=0)
        least = TARGET - (2 * np.sqrt(TARGET * (1 - TARGET) / options.draws) if options.draws < 100 else 0)
        needed = np.sqrt(((ends[:, 2] - truth) ** 2).mean(axis=0)) * 2 * 1.96
        print(f"{design}, {options.draws} draws | truth | coverage | width | needed")
        for name, value, share, *widths in zip(STATISTICS, truth, covered, (ends[:, 1] - ends[:, 0]).mean(axis=0), needed, strict=True):
            print(f"{name} | {value:.4g} | {share:.2f} | {widths[0]:.3g} | {widths[1]:.3g}")
        missed |= bool((covered < least).any())
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--part", choices=["error", "coverage"], nargs="*", default=["error", "coverage"])
    parser.add_argument("--cap", type=int, default=250)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--relations", nargs="*", default=["replace_one", "add_or_remove_one"])
    parser.add_argument("--designs", nargs="*", choices=["pps", "stratified"], default=["pps", "stratified"])
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    sys.exit(int(sum({"error": error, "coverage": coverage}[part](options) for part in options.part) > 0))


if __name__ == "__main__":
    main()
