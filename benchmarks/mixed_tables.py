"""Mixed-type tables: accuracy of classifiers trained on synthetic rows, marginals, time and memory; and peers side by side.

SKDPSYNTH_DATA=FOLDER python benchmarks/mixed_tables.py [--seeds 3] [--only targets size wide peers] [--peers PYTHON] [--keep FOLDER]

AUC is the mean of logistic regression, random forest and gradient boosting, trained on 8,000 synthetic rows and tested on held-out real
ones (mixed_data.downstream_auc). adult has its published split, and acs the split for which the targets were set. TV is the mean total
variation of the marginals of one or two columns between the training rows and as many synthetic ones; beside it stand means and deviations
of columns of numbers. `--peers` names an interpreter with peers/dpmm.txt. Each peer is fitted once a seed and epsilon under add/remove, on
a random split of acs; its rows are kept in `--keep`, and read from there if they are found. Runs are left out if their peer did not finish
in 25 minutes or if, without `--peers`, they are not in `--keep`.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from mixed_data import TABLES, downstream_auc, read_rows

from skdpsynth import LatentFactorSynthesizer
from skdpsynth.domain import Continuous, Schema
from skdpsynth.exceptions import SmallSampleWarning
from skdpsynth.metrics import correlation_error, marginal_total_variation

RELATIONS = {"RO": "replace_one", "AR": "add_or_remove_one"}
# (table, epsilon, delta, relation, stratified): what must be reached, of AUC and of TV of pairs
TARGETS = {
    ("adult", 1.0, 1e-6, "RO", True): (0.896, 0.036),
    ("adult", 1.0, 1e-6, "RO", False): (None, None),
    ("adult", 0.1, 1e-6, "AR", True): (0.88, None),
    ("adult", 1.0, 0.0, "RO", True): (0.87, None),
    ("acs", 1.0, 1e-6, "RO", True): (0.93, None),
    ("acs", 1.0, 1e-6, "AR", True): (None, 0.075),
    ("acs", 1.0, 1e-6, "AR", False): (None, None),
    ("acs", 0.1, 1e-6, "AR", True): (0.84, None),
}


def fitted(train, schema, target, epsilon, delta, relation, is_stratified):
    """Return the fitted synthesizer and the seconds that took."""
    start = time.perf_counter()
    model = LatentFactorSynthesizer(
        Schema.from_json(schema), stratify=target if is_stratified else None, epsilon=epsilon, delta=delta, neighboring=RELATIONS[relation]
    ).fit(train)
    return model, time.perf_counter() - start


def numbers(train, synthetic, facts):
    """Return, over columns of numbers, how far means are off in real deviations (mean, most), the ratio of deviations that is farthest
    from 1, and the largest share of rows above the real 99.9 % quantile."""
    off, ratios, far = [], [], []
    for name, kind in facts.items():
        if isinstance(kind, Continuous):
            real, made = train[name].dropna().astype(float), synthetic[name].dropna().astype(float)
            off.append(abs(made.mean() - real.mean()) / real.std())
            ratios.append(made.std() / real.std())
            far.append((made > real.quantile(0.999)).mean())
    return np.mean(off), max(off), max(ratios, key=lambda ratio: abs(np.log(ratio))), max(far)


def spread(values):
    return f"{np.mean(values):.4f} ({np.std(values, ddof=1) if len(values) > 1 else 0:.4f})"


def targets(seeds):
    """Print the table of targets; return whether all were met."""
    print(
        "| table | epsilon | delta | relation | stratified | AUC (sd) | TV1 | TV2 (sd) | correlation error | means off, in deviations: "
        "mean [most] | ratio of deviations, worst | most above the 99.9 % quantile | fit s | targets |\n" + "|---" * 14 + "|"
    )
    met = True
    for (name, epsilon, delta, relation, is_stratified), (auc_wanted, tv_wanted) in TARGETS.items():
        train, test, schema, target = TABLES[name]()
        rows = []
        for seed in range(seeds):
            model, seconds = fitted(train, schema, target, epsilon, delta, relation, is_stratified)
            synthetic = model.sample(len(train), random_state=seed)
            facts = Schema.from_json(schema)
            rows.append(
                (
                    downstream_auc(model.sample(8000, random_state=seed), test, target, schema, seed=seed),
                    marginal_total_variation(train, synthetic, facts, 1),
                    marginal_total_variation(train, synthetic, facts, 2),
                    correlation_error(train, synthetic, facts),
                    *numbers(train, synthetic, facts),
                    seconds,
                )
            )
        auc, one, two, correlation, off, most_off, ratio, far, seconds = np.transpose(rows)
        reached = bool((auc_wanted is None or auc.mean() >= auc_wanted) and (tv_wanted is None or two.mean() <= tv_wanted))
        met &= reached
        wanted = [f"AUC >= {auc_wanted}"] * (auc_wanted is not None) + [f"TV2 <= {tv_wanted}"] * (tv_wanted is not None)
        print(
            f"| {name} | {epsilon} | {delta:g} | {relation} | {is_stratified} | {spread(auc)} | {one.mean():.4f} | {spread(two)} | "
            f"{correlation.mean():.4f} | {off.mean():.3f} [{most_off.mean():.3f}] | {ratio.mean():.2f} | {far.mean():.2%} | "
            f"{seconds.mean():.2f} | {', '.join(wanted) or '-'}{': met' * reached if wanted else ''}"
            f"{'' if reached else ': MISSED'} |",
            flush=True,
        )
    for name, table in TABLES.items():
        rows = []
        for seed in range(seeds):
            train, test, schema, target = table()
            facts = Schema.from_json(schema)
            variations = [marginal_total_variation(train, test, facts, order) for order in (1, 2)]
            rows.append((downstream_auc(train, test, target, schema, seed=seed), *variations, correlation_error(train, test, facts)))
        auc, one, two, correlation = np.transpose(rows)
        print(
            f"| {name} | real rows; held-out rows | | | | {spread(auc)} | {one.mean():.4f} | {spread(two)} | {correlation.mean():.4f} | | |"
        )
    return met


ADULT = """
import resource, sys, time
sys.path.insert(0, {here!r})
from mixed_data import TABLES
from skdpsynth import LatentFactorSynthesizer
from skdpsynth.domain import Schema
train, test, schema, target = TABLES["adult"]()
start = time.perf_counter()
LatentFactorSynthesizer(Schema.from_json(schema), stratify=target, epsilon=1.0, delta=1e-6).fit(train)
print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
WIDE = """
import resource, sys, time
sys.path.insert(0, {here!r})
from mixed_tables import wide_table
from skdpsynth import LatentFactorSynthesizer
X, schema = wide_table(50_000, 100)
start = time.perf_counter()
model = LatentFactorSynthesizer(schema, epsilon=1.0, delta=1e-6).fit(X)
print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def size(seeds):
    """Print time and peak memory (of the whole process, with imports and data) of a fit in a fresh process; return whether targets hold."""
    met = True
    for name, program, seconds, mib in (("adult", ADULT, 8, 500), ("100 columns x 50,000 rows", WIDE, 60, 2048)):
        runs = [
            subprocess.run(
                [sys.executable, "-c", program.format(here=str(Path(__file__).parent))], check=True, capture_output=True, text=True
            )
            for _ in range(seeds)
        ]
        time_taken, memory = np.transpose([[float(word) for word in run.stdout.split()] for run in runs]).max(axis=1)
        reached = time_taken < seconds and memory < mib
        met &= bool(reached)
        print(
            f"{name}: most of {seeds} fits {time_taken:.2f} s, {memory:.0f} MiB; targets < {seconds} s, < {mib} MiB: "
            + ("met" if reached else "MISSED"),
            flush=True,
        )
    return met


def wide_table(n, n_columns, seed=0):
    """Columns in groups of four that depend on each other: numbers, ordered levels and categories in turn."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, n_columns))
    for j in range(1, n_columns):
        if j % 4:
            Z[:, j] = 0.8 * Z[:, j - 1] + 0.6 * Z[:, j]
    from scipy.special import ndtr

    from skdpsynth.domain import Ordinal

    X, schema = ndtr(Z), {}
    for j in range(n_columns):
        if j % 3 == 0:
            X[:, j], schema[j] = X[:, j] ** 2, (0.0, 1.0)
            continue
        size = 5 if j % 3 == 1 else 4 + j % 5
        X[:, j] = np.searchsorted(np.cumsum(rng.dirichlet(np.full(size, 3.0)))[:-1], X[:, j])
        if j % 3 == 2:
            X[:, j] = rng.permutation(size)[X[:, j].astype(int)]
        schema[j] = Ordinal(list(range(size))) if j % 3 == 1 else list(range(size))
    return X, schema


def wide(seeds):
    """Print the total variation of pairs of a wide table, against that of its independent marginals."""
    X, schema = wide_table(50_000, 100)
    rng = np.random.default_rng(0)
    independent = np.column_stack([rng.permutation(column) for column in X.T])
    groups = [range(start, start + 4) for start in range(0, 100, 4)]

    def within(Y):
        return np.mean([marginal_total_variation(X[:, list(g)], Y[:, list(g)], {i: schema[j] for i, j in enumerate(g)}, 2) for g in groups])

    print("wide table, 100 columns in groups of four: TV2 within groups, and over all pairs of the first 40 columns")
    some = {j: schema[j] for j in range(40)}
    rows = {"independent columns (real marginals)": [independent]}
    for epsilon in (0.5, 1.0, 5.0):
        rows[f"epsilon {epsilon:g}"] = [LatentFactorSynthesizer(schema, epsilon=epsilon, delta=1e-6).fit(X).sample() for _ in range(seeds)]
    for name, tables in rows.items():
        inner, outer = ([f(Y) for Y in tables] for f in (within, lambda Y: marginal_total_variation(X[:, :40], Y[:, :40], some, 2)))
        print(f"    {name:<38} {spread(inner)}   {spread(outer)}", flush=True)
    return True


def peers(seeds, interpreter, folder):
    """Print AUC and time of the peers beside ours; return whether ours is at least the best, and 50 times faster than AIM."""
    print("| table | epsilon | tool | seeds | AUC (sd) | TV2 | correlation error | fit s |\n" + "|---" * 8 + "|")
    met = True
    for name, table in TABLES.items():
        train, test, schema, target = table(0)
        facts = Schema.from_json(schema)
        train.to_csv(folder / f"{name}.csv", index=False)
        (folder / f"{name}.schema.json").write_text(json.dumps(schema))
        for epsilon in (0.5, 1.0, 5.0):
            scores, seconds = {}, {}
            for tool in ("latent factors", "aim", "mst", "privbayes"):
                rows = []
                for seed in range(seeds):
                    if tool == "latent factors":
                        model, taken = fitted(train, schema, target, epsilon, 1e-6, "AR", True)
                        synthetic = model.sample(len(train), random_state=seed)
                    else:
                        synthetic, taken = peer(tool, name, epsilon, seed, interpreter, folder, schema)
                        if synthetic is None:
                            continue
                    rows.append(
                        (
                            downstream_auc(synthetic, test, target, schema, seed=seed),
                            marginal_total_variation(train, synthetic, facts, 2),
                            correlation_error(train, synthetic, facts),
                            taken,
                        )
                    )
                if not rows:
                    print(f"| {name} | {epsilon:g} | {tool} | 0 | no run | | | |", flush=True)
                    continue
                auc, two, correlation, taken = np.transpose(rows)
                scores[tool], seconds[tool] = auc.mean(), taken.mean()
                print(
                    f"| {name} | {epsilon:g} | {tool} | {len(rows)} | {spread(auc)} | {two.mean():.4f} | {correlation.mean():.4f} | "
                    f"{taken.mean():.2f} |",
                    flush=True,
                )
            ours = scores.pop("latent factors")
            best = all(ours >= score for score in scores.values())
            fast = "aim" not in seconds or seconds["aim"] >= 50 * seconds["latent factors"]
            met &= best and fast
            ratio = f"{seconds['aim'] / seconds['latent factors']:.0f} times faster than AIM" if "aim" in seconds else "no AIM"
            print(
                f"  {name}, epsilon {epsilon:g}: AUC at least equal: {'met' if best else 'MISSED'}; {ratio}: {'met' if fast else 'MISSED'}"
            )
    return met


def peer(tool, name, epsilon, seed, interpreter, folder, schema):
    """Return a peer's synthetic rows and its seconds, from a run of now or from the folder; (None, None) if it did not finish."""
    out = folder / f"{name}_{tool}_{epsilon:g}_{seed}.csv"
    report = out.with_suffix(".json")
    if not report.exists() and interpreter is None:
        return None, None
    if not report.exists():
        command = [interpreter, Path(__file__).parent / "peers" / "fit_peer.py", "--tool", tool, "--table", folder / f"{name}.csv"]
        command += ["--schema", folder / f"{name}.schema.json", "--epsilon", str(epsilon), "--seed", str(seed), "--out", out]
        try:
            environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
            done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=1500, env=environment)
        except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
            return None, None
        report.write_text(done.stdout)
    return read_rows(out, schema), json.loads(report.read_text())["fit_seconds"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=["size", "targets", "wide", "peers"], choices=["size", "targets", "wide", "peers"])
    parser.add_argument("--peers", help="interpreter with the peers; without it they are left out")
    parser.add_argument("--keep", type=Path, help="folder for what the peers make")
    arguments = parser.parse_args()
    if "SKDPSYNTH_DATA" not in os.environ:
        print("SKDPSYNTH_DATA names no folder of tables: nothing measured")
        sys.exit(0)
    warnings.simplefilter("ignore", SmallSampleWarning)
    results = [globals()[part](arguments.seeds) for part in ("size", "targets", "wide") if part in arguments.only]
    if "peers" in arguments.only and (arguments.peers or arguments.keep):
        with tempfile.TemporaryDirectory() as scratch:
            results.append(peers(arguments.seeds, arguments.peers, arguments.keep or Path(scratch)))
    sys.exit(not all(results))
