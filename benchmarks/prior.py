"""Census Income with a public table beside it: how much a right prior helps, and how little a wrong one hurts.

SKDPSYNTH_DATA=FOLDER python benchmarks/prior.py [--seeds 3] [--rows 2000 16000] [--epsilons 0.1 1 10] [--priors half ...]

The private rows are the given number of rows of a random half of adult's training rows (13 columns, see mixed_data.py); delta is 1e-6, the
relation is replace-one, noise is secure, and there is no stratify. TV2 is `marginal_total_variation` of order 2 between the private rows
and a default sample; brackets hold the standard deviation of fits. Priors:

    half      another random half of the same rows: a prior that is right
    few       500 rows of that half
    old       people above 50 of the other half: another population
    women     women of the other half, where the private rows are of men
    shuffled  the other half, each column in an order of its own: right columns, no dependence
    even      uniform levels and numbers
    renamed   the other half with levels exchanged and numbers turned around

A wrong prior may make TV2 larger by at most a tenth, or by .003; where the noise is more than a tenth of the rows (2,000 rows at epsilon
.1, of which a fit warns), by a fifth. A right prior must halve it at epsilon .1, and may make it larger by at most .003.
"""

import argparse
import os
import sys
import warnings

import numpy as np
import pandas as pd
from mixed_data import adult

from skdpsynth import LatentFactorSynthesizer
from skdpsynth.domain import Schema
from skdpsynth.exceptions import SmallSampleWarning
from skdpsynth.metrics import marginal_total_variation

DELTA = 1e-6
RIGHT = "half"
SHARE, SHARE_OF_NOISE, ROOM = 1.1, 1.2, 0.003


def renamed(rows, schema, rng):
    """Exchange the levels of each column, and turn numbers around."""
    table = {}
    for column in schema["columns"]:
        cells = rows[column["name"]]
        if column["kind"] == "continuous":
            low, high = column["bounds"]
            table[column["name"]] = high + low - cells
        else:
            other = dict(zip(column["levels"], rng.permutation(np.array(column["levels"], dtype=object)), strict=True))
            table[column["name"]] = cells.map(other).astype(object)
    return pd.DataFrame(table)


def even(n, schema, rng):
    table = {}
    for column in schema["columns"]:
        if column["kind"] == "continuous":
            low, high = column["bounds"]
            table[column["name"]] = rng.integers(int(low), int(high) + 1, n)
        else:
            table[column["name"]] = rng.choice(np.array(column["levels"], dtype=object), n)
    return pd.DataFrame(table)


def tables(name, train, schema):
    """Return the rows that are private, and the prior."""
    rng = np.random.default_rng(0)
    order = rng.permutation(len(train))
    private, other = (train.iloc[part].reset_index(drop=True) for part in np.array_split(order, 2))
    priors = {
        "half": lambda: other,
        "few": lambda: other.iloc[:500],
        "old": lambda: other[other["age"] > 50],
        "women": lambda: other[other["sex"] == "Female"],
        "shuffled": lambda: pd.DataFrame({name: rng.permutation(other[name].to_numpy()) for name in other}),
        "even": lambda: even(10_000, schema, rng),
        "renamed": lambda: renamed(other, schema, rng),
    }
    return (private[private["sex"] == "Male"] if name == "women" else private), priors[name]()


PRIORS = ("half", "few", "old", "women", "shuffled", "even", "renamed")


def fitted(rows, facts, epsilon, prior, seed):
    """Return TV2 of a sample, and whether the fit warned of noise."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SmallSampleWarning)
        model = LatentFactorSynthesizer(facts, epsilon=epsilon, delta=DELTA, prior=prior).fit(rows)
    is_noise = any(issubclass(warning.category, SmallSampleWarning) for warning in caught)
    return marginal_total_variation(rows, model.sample(random_state=seed), facts, 2), is_noise


def verdict(name, epsilon, without, found, is_noise):
    """Return what to print of a row, and whether it is as it must be."""
    if name == RIGHT:
        most = without / 2 if epsilon <= 0.1 else without + ROOM
        return f"<= {most:.4f}", found <= most
    most = max(without * (SHARE_OF_NOISE if is_noise else SHARE), without + ROOM)
    return f"<= {most:.4f}", found <= most


def spread(values):
    return f"{np.mean(values):.4f}" + (f" ({np.std(values, ddof=1):.4f})" if len(values) > 1 else "")


def compare(seeds, numbers, epsilons, names):
    """Print the table; return whether all is as it must be."""
    train, _, schema, _ = adult()
    facts, all_met = Schema.from_json(schema), True
    print("| rows | epsilon | prior | TV2 of its rows | without (sd) | with (sd) | must be |\n" + "|---" * 7 + "|")
    for n_rows in numbers:
        for epsilon in epsilons:
            known = {}
            for name in names:
                private, prior = tables(name, train, schema)
                rows, is_men = private.iloc[:n_rows].reset_index(drop=True), name == "women"
                if is_men not in known:
                    known[is_men] = [fitted(rows, facts, epsilon, None, seed) for seed in range(seeds)]
                without, is_noise = [each[0] for each in known[is_men]], known[is_men][0][1]
                found = [fitted(rows, facts, epsilon, prior, seed)[0] for seed in range(seeds)]
                told, met = verdict(name, epsilon, float(np.mean(without)), float(np.mean(found)), is_noise)
                all_met &= met
                own = marginal_total_variation(rows, prior, facts, 2)
                figures = f"{own:.4f} | {spread(without)} | {spread(found)} | {told}: {'met' if met else 'MISSED'}"
                print(f"| {len(rows)} | {epsilon:g} | {name} | {figures} |", flush=True)
    return all_met


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, nargs="*", default=[2000, 16_000])
    parser.add_argument("--epsilons", type=float, nargs="*", default=[0.1, 1.0, 10.0])
    parser.add_argument("--priors", nargs="*", default=list(PRIORS), choices=PRIORS)
    arguments = parser.parse_args()
    if "SKDPSYNTH_DATA" not in os.environ:
        print("SKDPSYNTH_DATA names no folder of tables: nothing measured")
        sys.exit(0)
    warnings.simplefilter("ignore", SmallSampleWarning)
    met = compare(arguments.seeds, arguments.rows, arguments.epsilons, arguments.priors)
    print("all as it must be" if met else "MISSED")
    sys.exit(not met)
