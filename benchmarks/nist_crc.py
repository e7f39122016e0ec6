"""NIST's k-marginal score on the Massachusetts excerpt of 2019, with and without the structural zeros of examples/ma2019.yaml.

SKDPSYNTH_DATA=FOLDER python benchmarks/nist_crc.py [--fits 5] [--only demo9 family12 simple21] [--epsilon 1 10] [--delta 1e-9] [--no-plain]

mixed_data.py describes the folder. The score is that of the Collaborative Research Cycle (sdnist/metrics/kmarginal.py, bins of
sdnist/report/dataset/binning.py): 500 times 2 less the mean L1 distance of the frequencies of all pairs of columns, within each PUMA
where it is one of the columns; ages and incomes in 20 bins of the real rows. The column lists are those of the Cycle's archive, without
the 271 codes of INDP; DENSITY is filled in after sampling, as it follows from PUMA. Fits are add-or-remove-one, with `within` where PUMA
is one of the columns. Goals are of the mean, of fits with rules. No row may break a rule, and rules may cost 1.5 times the processor time
of a fit without.
"""

import argparse
import itertools
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from mixed_data import load, typed

from skdpsynth import LatentFactorSynthesizer
from skdpsynth.domain import Continuous, Schema
from skdpsynth.exceptions import SmallSampleWarning
from skdpsynth.metrics import rule_violations

WHOLE = Schema.from_yaml(Path(__file__).parent.parent / "examples" / "ma2019.yaml")
SETS = {
    "demo9": "AGEP SEX MSP RAC1P HOUSING_TYPE OWN_RENT EDU PINCP_DECILE DVET",
    "family12": "PUMA AGEP SEX MSP HISP RAC1P NOC NPF OWN_RENT PINCP_DECILE POVPIP DEYE",
    "simple21": "PUMA AGEP SEX MSP HISP RAC1P NOC NPF HOUSING_TYPE OWN_RENT DENSITY INDP_CAT EDU PINCP PINCP_DECILE POVPIP DVET DREM DPHY "
    "DEYE DEAR",
}
GOALS = {
    ("demo9", 1, 1e-9): 960,
    ("demo9", 10, 1e-9): 983,
    ("family12", 1, 1e-9): 907,
    ("family12", 10, 1e-9): 954,
    ("simple21", 1, 1e-9): 900,
    ("simple21", 10, 1e-9): 954,
    ("simple21", 1, 0.0): 840,
    ("simple21", 10, 0.0): 934,
}
GROUP, N_BINS = "PUMA", 20


def schema_of(names, with_rules):
    """Return the schema of some columns, with the rules that are about them alone."""
    rules = [rule for rule in WHOLE.rules if set(rule.columns_named) <= set(names)]
    return Schema({name: WHOLE[name] for name in names}, rules=rules if with_rules else [])


def binned(real, made, kind):
    """Return two columns of numbers in bins of equal shares of the real one, missing cells apart."""
    known, other = real.dropna(), made.dropna()
    n_bins = N_BINS - kind.nullable - int(other.max() > known.max()) - int(other.min() < known.min())
    edges = np.percentile(known, np.arange(n_bins) * 100 / n_bins, method="higher")
    edges = np.unique([*edges, known.max(), max(known.max(), other.max()), min(known.min(), other.min())])
    return [pd.cut(each, edges, labels=False, include_lowest=True).fillna(-1).astype(int) for each in (real, made)]


def coded(real, made):
    """Return the cells of two tables as whole numbers, the same for the same bin or level."""
    codes, n_real = {}, len(real)
    for name in real:
        if isinstance(WHOLE[name], Continuous):
            both = pd.concat(binned(real[name].astype(float), made[name].astype(float), WHOLE[name]))
        else:
            both = pd.concat([real[name], made[name]]).map(lambda cell: "N" if pd.isna(cell) else str(cell))
        codes[name] = pd.factorize(both)[0].astype(np.int64)
    if GROUP in codes:
        codes["DENSITY"] = codes[GROUP]
    return [{name: own[rows] for name, own in codes.items()} for rows in (slice(n_real), slice(n_real, None))]


def k_marginal(real, made, names):
    """Return the score of made-up rows, both tables as codes."""
    group, distances = [GROUP] if GROUP in names else [], []
    for pair in itertools.combinations([name for name in names if name != GROUP], 2):
        keys = [np.zeros(len(own["AGEP"]), dtype=np.int64) for own in (real, made)]
        for name in [*group, *pair]:
            size = 1 + max(int(own[name].max()) for own in (real, made))
            keys = [key * size + own[name] for key, own in zip(keys, (real, made), strict=True)]
        size = 1 + max(int(key.max()) for key in keys)
        shares = [np.bincount(key, minlength=size) / len(key) for key in keys]
        distances.append(np.abs(shares[0] - shares[1]).sum())
    return (2 - np.mean(distances)) * 500


def columns_of(name):
    """Return the columns that a synthesizer gets: DENSITY follows from PUMA."""
    return [column for column in SETS[name].split() if column != "DENSITY"]


def judged(name, real, made):
    """Return the score of made-up rows, and how many of them break a rule."""
    broken = rule_violations(made, schema_of(columns_of(name), True)).values()
    return k_marginal(*coded(real, made), SETS[name].split()), sum(each.rows for each in broken)


def ours(name, real, epsilon, delta, with_rules):
    """Return the score of a fit, the rows that break a rule, and the seconds of the processor that the fit took."""
    start, within = time.process_time(), GROUP if GROUP in real else None
    model = LatentFactorSynthesizer(
        schema_of(list(real), with_rules), within=within, epsilon=epsilon, delta=delta, neighboring="add_or_remove_one"
    ).fit(real)
    seconds = time.process_time() - start
    return *judged(name, real, model.sample(len(real))), seconds


def measure(name, rows, epsilon, delta, fits, with_rules):
    """Print the score of fits; return its mean, the rows that break a rule, and the seconds of a fit."""
    real = rows[columns_of(name)]
    scores, broken, seconds = zip(*(ours(name, real, epsilon, delta, with_rules) for _ in range(fits)), strict=True)
    spread = np.std(scores, ddof=1) if fits > 1 else 0.0
    print(
        f"| {name} | {epsilon:g} | {delta:g} | {len(schema_of(list(real), with_rules).rules)} | {np.mean(scores):.1f} ({spread:.1f}) | "
        f"{np.mean(broken):.0f} | {np.median(seconds):.1f} | {GOALS.get((name, epsilon, delta), '-') if with_rules else '-'} |",
        flush=True,
    )
    return float(np.mean(scores)), sum(broken), float(np.median(seconds))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fits", type=int, default=5)
    parser.add_argument("--only", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--epsilon", nargs="+", type=float, default=[1.0, 10.0])
    parser.add_argument("--delta", nargs="+", type=float, default=[1e-9, 0.0], help="0, pure epsilon, is measured on simple21 alone")
    parser.add_argument("--no-plain", action="store_true", help="leave out the fits without rules")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", SmallSampleWarning)
    rows = typed(*load("acs_ma2019"))
    print("| columns | epsilon | delta | rules | score (sd) | rows that break a rule | fit, CPU s | goal |\n" + "|---" * 8 + "|")
    missed = []
    for name, delta, epsilon in itertools.product(arguments.only, arguments.delta, arguments.epsilon):
        if not delta and name != "simple21":
            continue
        score, broken, seconds = measure(name, rows, epsilon, delta, arguments.fits, True)
        goal = GOALS.get((name, epsilon, delta), 0)
        missed += [f"{name} at {epsilon:g}, {delta:g}: {score:.1f} < {goal}"] * (score < goal)
        missed += [f"{name} at {epsilon:g}, {delta:g}: {broken} rows break a rule"] * (broken > 0)
        if not arguments.no_plain:
            ratio = seconds / measure(name, rows, epsilon, delta, arguments.fits, False)[2]
            missed += [f"{name} at {epsilon:g}, {delta:g}: a fit with rules takes {ratio:.2f} times as long"] * (ratio > 1.5)
    print("missed:", *(missed or ["none"]), sep="\n")
    return int(bool(missed))


if __name__ == "__main__":
    raise SystemExit(main())
