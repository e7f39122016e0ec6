"""The command line: its start-up time, the steps from a CSV file to a card, and the choices of `auto`.

    python benchmarks/command_line.py [--quick]

Start: the median of runs of `skdpsynth --help` less that of Python doing nothing, in turn; the target is 0.3 s. Steps: schema, check,
budget, and rows with a card, from a file of 100,000 rows. Methods: errors of pairs of columns and W1 of each method on tables of numbers at
epsilon 1, near 3 directions and in all of them.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from skdpsynth import LatentFactorSynthesizer, LowDimSynthesizer, PrivateMeasureMechanism
from skdpsynth.metrics import marginal_total_variation, sliced_wasserstein_distance

COMMAND = [sys.executable, "-m", "skdpsynth"]
TARGET = 0.3  # seconds


def seconds(command, **more):
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, **more)
    return time.perf_counter() - start


def start_times(n_runs):
    """Print how long help takes beyond Python's start, and return whether that is in time."""
    runs = [(seconds([sys.executable, "-c", "pass"]), seconds([*COMMAND, "--help"])) for _ in range(n_runs + 1)][1:]
    bare, with_help = (statistics.median(each) for each in zip(*runs, strict=True))
    print(f"start: python {bare:.3f} s, skdpsynth --help {with_help:.3f} s; beyond python {with_help - bare:.3f} s (target {TARGET} s)")
    return with_help - bare < TARGET


def people(path, n_rows):
    rng = np.random.default_rng(0)
    age, smokes = rng.integers(18, 99, n_rows), rng.random(n_rows) < 0.3
    with path.open("w", encoding="utf-8") as file:
        file.write("age,income,smokes\n")
        file.writelines(
            f"{a},{abs(n):.2f},{'yes' if s else 'no'}\n" for a, n, s in zip(age, rng.normal(5e4, 2e4, n_rows), smokes, strict=True)
        )


def walk(n_rows):
    """Print the time of each command from a CSV file to synthetic rows and, where it can be made, a card."""
    promise = ["--schema", "people.yaml", "--epsilon", "1", "--delta", "1e-6", "--ledger", "budget.db"]
    has_card = all(find_spec(name) for name in ("skdpsynth.report", "jinja2", "matplotlib"))
    steps = [
        ["schema", "init", "people.csv", "-o", "people.yaml"],
        ["schema", "check", "people.csv", "--schema", "people.yaml"],
        ["budget", "init", "budget.db", "--epsilon", "3", "--delta", "1e-5"],
        ["synthesize", "people.csv", *promise, *(["--card", "card.html"] if has_card else []), "-o", "synthetic.csv"],
    ]
    with tempfile.TemporaryDirectory() as folder:
        people(Path(folder, "people.csv"), n_rows)
        total = 0.0
        for step in steps:
            taken = seconds([*COMMAND, *step], cwd=folder)
            total += taken
            print(f"walk: skdpsynth {' '.join(step[:2])} ... {taken:.1f} s")
            schema = Path(folder, "people.yaml")
            filled = schema.read_text(encoding="utf-8").replace("bounds: open", "bounds: [18, 99]", 1)
            filled = filled.replace("bounds: open", "bounds: [0, 200000]", 1).replace("levels: open", 'levels: ["no", "yes"]')
            schema.write_text(filled, encoding="utf-8")
        sizes = {name: Path(folder, name).stat().st_size for name in ("synthetic.csv", "card.html") if Path(folder, name).exists()}
    print(f"walk: {n_rows} rows, {len(steps)} commands, {total:.1f} s; bytes {sizes}")


def table(n_columns, n_directions, rng):
    """Rows of numbers in the unit cube, near some directions or, where they are as many as columns, in all of them."""
    mixing = np.eye(n_columns) + 0.3 * rng.normal(size=(n_columns, n_columns))
    if n_directions < n_columns:
        mixing = rng.normal(size=(n_directions, n_columns))
    Z = rng.beta(2, 4, size=(10_000, min(n_directions, n_columns))) @ mixing + 0.1 * rng.normal(size=(10_000, n_columns))
    low, high = Z.min(axis=0) - 0.2, Z.max(axis=0) + 0.2
    return (Z - low) / (high - low)


def methods(widths, n_repeats):
    """Print the errors of each method."""
    print("methods: columns, directions, delta: error of pairs (W1) by pmm, lowdim, latent-factor")
    for n_columns in widths:
        schema = dict.fromkeys(range(n_columns), (0.0, 1.0))
        makers = (PrivateMeasureMechanism, LowDimSynthesizer, partial(LatentFactorSynthesizer, schema))
        for n_directions in sorted({min(3, n_columns), n_columns}):
            X = table(n_columns, n_directions, np.random.default_rng(0))
            for delta in (0.0, 1e-6):
                cells = []
                for make in makers:
                    samples = [make(epsilon=1.0, delta=delta).fit(X).sample(random_state=seed) for seed in range(n_repeats)]
                    pairs = np.mean([marginal_total_variation(X, Y, schema, order=2) for Y in samples])
                    distance = np.mean([sliced_wasserstein_distance(X, Y, random_state=0) for Y in samples])
                    cells.append(f"{pairs:.2f} ({distance:.4f})")
                print(f"methods: {n_columns:2d} {n_directions:2d} {delta:g}: {', '.join(cells)}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="fewer runs")
    is_quick = parser.parse_args().quick
    warnings.simplefilter("ignore")
    is_quick_to_start = start_times(5 if is_quick else 21)
    walk(10_000 if is_quick else 100_000)
    methods((2, 5) if is_quick else (2, 3, 4, 5, 6, 10, 20), 1 if is_quick else 3)
    sys.exit(not is_quick_to_start)


if __name__ == "__main__":
    main()
