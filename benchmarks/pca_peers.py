"""Captured variance of PrivatePCA beside the private PCA of diffprivlib and of OpenDP, on the same rows and at the same stated epsilon.

python benchmarks/pca_peers.py [--repeats 10] [--measure [--environments FOLDER]]

Without `--measure` the peers' figures are those of benchmarks/peers/pca.json. With it they are measured again: each peer gets an
environment of its own, made from benchmarks/peers/diffprivlib.txt and opendp.txt, and one process a fit with a limit of 10 processor
seconds. A cell whose first two fits ran out of time gets no more; a cell without any result is "no result", and has no target.

All are pure, and all know the box and nothing else; benchmarks/peers/fit_pca.py shows how the peers are called. Ours protects against
replacing one row at this epsilon. So does diffprivlib, by the sensitivities that it takes. OpenDP states epsilon for one row more or less,
and its own privacy map gives 2 epsilon for replacing one, so ours has the stricter statement. Target: our mean is at least the peer's,
wherever it returns.
"""

import argparse
import json
import sys
import tempfile
import warnings
from itertools import product
from pathlib import Path

import numpy as np
from generators import low_rank, planar
from peer_runs import PEERS, environment, run

from skdpsynth import PrivatePCA
from skdpsynth.exceptions import BudgetWarning
from skdpsynth.metrics import captured_variance_ratio

STORED = PEERS / "pca.json"
TOOLS = ("diffprivlib", "opendp")
DATA = {"planar": (2, lambda d, rng: planar(10_000, d, rng)), "low rank": (3, lambda d, rng: low_rank(10_000, d, 3, rng))}
CELLS = list(product(DATA, (5, 20, 50), (0.1, 1.0, 10.0), ("public", "private")))
LIMIT = 10  # seconds of the processor that one fit of a peer may take; where they return, it is one or two


def rows(name, d, seed):
    return DATA[name][1](d, np.random.default_rng(seed))


def peer_captured(python, tool, cell, seed, folder):
    """Captured variance of one fit of a peer; None where it does not return in time."""
    name, d, epsilon, center = cell
    X, table, out = rows(name, d, seed), folder / "rows.npy", folder / "components.npy"
    np.save(table, X - 0.5)
    call = ["--tool", tool, "--table", table, "--components", DATA[name][0], "--epsilon", epsilon, "--center", center, "--out", out]
    if run([python, PEERS / "fit_pca.py", *call], LIMIT) is None:
        return None
    return captured_variance_ratio(X, np.load(out))


def measure(repeats, environments):
    """Measure the peers again and store what came out."""
    found = {}
    for tool in TOOLS:
        python = environment(tool, environments)
        for cell in CELLS:
            values = []
            with tempfile.TemporaryDirectory() as folder:
                for seed in range(repeats):
                    values.append(peer_captured(python, tool, cell, seed, Path(folder)))
                    if seed == 1 and not any(values):
                        break
            found[" ".join(map(str, (tool, *cell)))] = [value and round(value, 5) for value in values]
            print(tool, *cell, found[" ".join(map(str, (tool, *cell)))], flush=True)
    STORED.write_text("{\n" + ",\n".join(f"  {json.dumps(cell)}: {json.dumps(values)}" for cell, values in found.items()) + "\n}\n")


def spread(values):
    return f"{np.mean(values):.4f} ({np.std(values, ddof=1):.4f})" if len(values) > 1 else " ".join(f"{value:.4f}" for value in values)


def verdict(ours, theirs):
    """Return what to print of a peer's cell, and whether ours is at least as good."""
    returned = [value for value in theirs if value is not None]
    if not returned:
        return "no result", True
    met = bool(np.mean(ours) >= np.mean(returned))
    share = "" if len(returned) == len(theirs) else f", {len(returned)} of {len(theirs)} returned"
    return f"{spread(returned)}{share}: {'met' if met else 'MISSED'}", met


def ours(cell, repeats):
    """Return the variance that PrivatePCA captures on each of some data sets."""
    name, d, epsilon, center = cell
    captured = []
    for X in (rows(name, d, seed) for seed in range(repeats)):
        model = PrivatePCA(DATA[name][0], center=center, epsilon=epsilon).fit(X)
        captured.append(captured_variance_ratio(X, model.components_))
    return captured


def compare(repeats):
    """Print the table; return whether ours is at least as good wherever a peer returns."""
    warnings.simplefilter("ignore", BudgetWarning)  # which says that a delta would help
    stored, all_met = json.loads(STORED.read_text()), True
    print("| data | d | epsilon | center | PrivatePCA |" + "".join(f" {tool} |" for tool in TOOLS) + "\n" + "|---" * (5 + len(TOOLS)) + "|")
    for name, d, epsilon, center in CELLS:
        captured = ours((name, d, epsilon, center), repeats)
        texts, met = zip(*(verdict(captured, stored[f"{tool} {name} {d} {epsilon} {center}"]) for tool in TOOLS), strict=True)
        all_met &= all(met)
        print("| " + " | ".join([name, str(d), f"{epsilon:g}", center, spread(captured), *texts]) + " |", flush=True)
    return all_met


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--measure", action="store_true", help="measure the peers again")
    parser.add_argument("--environments", type=Path, default=Path(tempfile.gettempdir()) / "skdpsynth-peers")
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments.repeats, arguments.environments)
    met = compare(arguments.repeats)
    print("all targets met" if met else "targets MISSED")
    sys.exit(not met)
