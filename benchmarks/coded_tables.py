"""Coded tables (those of AIM's experiments): total variation of two and three columns, time, targets, and peers beside ours.

SKDPSYNTH_DATA=FOLDER python benchmarks/coded_tables.py [--seeds 3] [--tables adult nltcs titanic]
    [--measure [--environments FOLDER] [--keep FOLDER] [--limit 900] [--peer-seeds 3]]

FOLDER/coded has NAME.csv and NAME-domain.json, the number of codes of each column. TV2 and TV3 are the mean over all two-way and all
three-way tables of half the L1 distance between the shares of codes in the table and in a default sample, with codes as they are. The
relation is add/remove of one row, delta is 1e-9, noise is secure, and no column is known to be a target. In the schema numbers are ordinal
and other columns nominal; a column of more than 64 codes is a whole number within public bounds. Brackets hold the standard deviation of
fits.

On adult the targets are upper limits of TV2, TV3 and the mean processor seconds of a fit in all threads (the clock also counts other
programs). On the other tables the targets are the best figures of the peers, from benchmarks/peers/coded.json with date, versions and
commands. `--measure` fits the peers again (peers/dpmm.txt in an environment of its own; peers/fit_peer.py, every column as levels, so that
no budget goes to bins), one process a fit with a limit of processor seconds, and stores the results; rows in `--keep` are not made again.
"""

import argparse
import datetime
import json
import os
import sys
import tempfile
import time
import warnings
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from peer_runs import PEERS, environment, fitted

from skdpsynth import LatentFactorSynthesizer
from skdpsynth.domain import Nominal, Ordinal
from skdpsynth.exceptions import BudgetWarning, SmallSampleWarning

STORED = PEERS / "coded.json"
DELTA = 1e-9
NUMBERS = {"age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"}
MOST_LEVELS = 64  # more codes than these are a number
# (table, epsilon): the most that TV2, TV3 and the seconds of a fit may be; None: the best peer's
GOALS = {
    ("adult", 0.1): (0.088, 0.155, 20.0),
    ("adult", 1.0): (0.0245, 0.057, 20.0),
    ("adult", 10.0): (0.019, 0.049, 20.0),
    ("nltcs", 1.0): None,
    ("titanic", 1.0): None,
}
TOOLS = ("mst", "aim")


def read(name):
    """Return the rows of a table, and the number of codes of each column, which is public."""
    folder = Path(os.environ["SKDPSYNTH_DATA"]) / "coded"
    sizes = json.loads((folder / f"{name}-domain.json").read_text())
    return pd.read_csv(folder / f"{name}.csv")[list(sizes)].astype(np.int64), sizes


def kind(column, size):
    if column in NUMBERS:
        return Ordinal(list(range(size)))
    return Nominal(list(range(size))) if size <= MOST_LEVELS else (0, size - 1)


def shares(rows, sizes, order):
    """Yield the table of each `order` columns, as shares of the rows."""
    codes = rows[list(sizes)].to_numpy(np.int64)
    widths = list(sizes.values())
    for places in combinations(range(len(widths)), order):
        shape = [widths[i] for i in places]
        flat = np.ravel_multi_index([codes[:, i] for i in places], shape)
        yield np.bincount(flat, minlength=int(np.prod(shape))) / len(codes)


def variation(rows, synthetic, sizes, order):
    """Return the mean total variation of all tables of `order` columns."""
    tables = zip(shares(rows, sizes, order), shares(synthetic, sizes, order), strict=True)
    return float(np.mean([np.abs(real - made).sum() / 2 for real, made in tables]))


def distances(rows, synthetic, sizes):
    """Return TV2 and TV3."""
    return [variation(rows, synthetic, sizes, order) for order in (2, 3)]


def ours(rows, sizes, epsilon, seed):
    """Return TV2, TV3 and the seconds of a fit: on the clock, and of the processor."""
    schema = {column: kind(column, size) for column, size in sizes.items()}
    model = LatentFactorSynthesizer(schema, epsilon=epsilon, delta=DELTA, neighboring="add_or_remove_one")
    start = time.perf_counter(), time.process_time()
    model.fit(rows)
    taken = time.perf_counter() - start[0], time.process_time() - start[1]
    return *distances(rows, model.sample(random_state=seed), sizes), *taken


def spread(values):
    return f"{np.mean(values):.4f}" + (f" ({np.std(values, ddof=1):.4f})" if len(values) > 1 else "")


def goal_of(name, epsilon, stored):
    """Return the most that TV2, TV3 and seconds may be, and who says so; None where no peer returned."""
    if GOALS[name, epsilon] is not None:
        return GOALS[name, epsilon], "goal"
    fits = [stored["fits"].get(f"{name} {tool} {epsilon:g}") for tool in TOOLS]
    means = [np.mean(each, axis=0)[:2] for each in fits if each]
    return ((*np.min(means, axis=0), np.inf) if means else None), "best of peers"


def verdict(most, whose, met):
    """Return what to print of a goal; where no peer has returned, nothing was compared."""
    if most is None:
        return "no figures of peers: nothing compared"
    seconds = f", {most[2]:g} s" if np.isfinite(most[2]) else ""
    return f"{whose}: {most[0]:.4f}, {most[1]:.4f}{seconds}: {'met' if met else 'MISSED'}"


def line(name, epsilon, who, figures, goal=""):
    two, three, *seconds = np.transpose(figures)
    taken = ", ".join(f"{np.mean(each):.1f}" for each in seconds)
    print(f"| {name} | {epsilon:g} | {who} | {len(figures)} | {spread(two)} | {spread(three)} | {taken} | {goal} |", flush=True)


def compare(seeds, names):
    """Print the table; return whether all goals were met."""
    stored, all_met = json.loads(STORED.read_text()), True
    print("| table | epsilon | tool | fits | TV2 (sd) | TV3 (sd) | seconds a fit: clock, processor | goal |\n" + "|---" * 8 + "|")
    for name, epsilon in (cell for cell in GOALS if cell[0] in names):
        rows, sizes = read(name)
        figures = [ours(rows, sizes, epsilon, seed) for seed in range(seeds)]
        most, whose = goal_of(name, epsilon, stored)
        met = most is None or bool(np.all(np.mean(figures, axis=0)[[0, 1, 3]] <= most))
        all_met &= met
        line(name, epsilon, "skdpsynth", figures, verdict(most, whose, met))
        for tool in TOOLS:
            if theirs := stored["fits"].get(f"{name} {tool} {epsilon:g}"):
                line(name, epsilon, f"{tool} (dpmm)", theirs)
    for tool, said in stored["without figures"].items():
        print(f"{tool}: {said}")
    return all_met


def peer(python, tool, name, epsilon, seed, keep, limit):
    """Return TV2, TV3 and seconds of one fit of a peer, and what it says of itself; None if it did not finish in time."""
    rows, sizes = read(name)
    out = keep / f"{name}_{tool}_{epsilon:g}_{seed}.csv"
    command = python, PEERS / "fit_peer.py", "--tool", tool
    said = fitted(command, rows, all_levels(sizes), out, epsilon=epsilon, delta=DELTA, seed=seed, limit=limit)
    if said is None:
        return None
    figures = (*distances(rows, pd.read_csv(out), sizes), said["fit_seconds"])
    return [round(value, 5) for value in figures], said


def all_levels(sizes):
    """Return the facts of columns for a peer, each of which has levels, so that no budget goes to bins."""
    return [{"name": column, "kind": "nominal", "levels": list(range(size)), "nullable": False} for column, size in sizes.items()]


def measure(names, n_fits, environments, keep, limit):
    """Fit the peers again and store what came out."""
    stored = json.loads(STORED.read_text()) if STORED.exists() else {"without figures": {}, "fits": {}}
    python = environment("dpmm", environments)
    for name, epsilon in (cell for cell, goal in GOALS.items() if goal is None and cell[0] in names):
        for tool in TOOLS:
            cell = f"{name} {tool} {epsilon:g}"
            found = [peer(python, tool, name, epsilon, seed, keep, limit) for seed in range(n_fits)]
            stored["fits"][cell] = [figures for figures, _ in filter(None, found)]
            stored["without figures"].pop(cell, None)
            if not stored["fits"][cell]:
                stored["without figures"][cell] = f"no fit in {limit} seconds of the processor"
            stored["versions"] = {"dpmm": next((said["version"] for _, said in filter(None, found)), None) or stored["versions"]["dpmm"]}
            print(cell, stored["fits"][cell], flush=True)
            store(stored)


def store(stored):
    """Write the figures of the peers, a line for each cell."""
    stored["date"] = datetime.date.today().isoformat()
    stored["figures"] = "TV2, TV3, seconds of the fit on the clock; a list for each seed that returned"
    stored["command"] = "SKDPSYNTH_DATA=FOLDER python benchmarks/coded_tables.py --measure"
    stored["of a fit"] = (
        f"peers/fit_peer.py --tool mst or aim --epsilon 1 --delta {DELTA:g} --seed 0, 1, ...; AIM: two rounds a column, 8 MB"
    )
    fits = ",\n".join(f"    {json.dumps(cell)}: {json.dumps(figures)}" for cell, figures in stored["fits"].items())
    rest = "".join(f"  {json.dumps(key)}: {json.dumps(stored[key])},\n" for key in sorted(stored.keys() - {"fits"}))
    STORED.write_text("{\n" + rest + '  "fits": {\n' + fits + "\n  }\n}\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = list(dict.fromkeys(name for name, _ in GOALS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tables", nargs="*", default=every, choices=every)
    parser.add_argument("--measure", action="store_true", help="fit the peers again")
    parser.add_argument("--peer-seeds", type=int, default=3)
    parser.add_argument("--limit", type=int, default=900, help="seconds of the processor that a fit of a peer may take")
    parser.add_argument("--environments", type=Path, default=Path(tempfile.gettempdir()) / "skdpsynth-peers")
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "skdpsynth-peers" / "rows")
    arguments = parser.parse_args()
    if "SKDPSYNTH_DATA" not in os.environ:
        print("SKDPSYNTH_DATA names no folder of tables: nothing measured")
        sys.exit(0)
    warnings.simplefilter("ignore", SmallSampleWarning)
    warnings.simplefilter("ignore", BudgetWarning)
    if arguments.measure:
        measure(arguments.tables, arguments.peer_seeds, arguments.environments, arguments.keep, arguments.limit)
    met = compare(arguments.seeds, arguments.tables)
    print("no goal missed" if met else "goals MISSED")
    sys.exit(not met)
