"""Tables of any size: time and memory of large samples and fits, with times as ratios in one run.

python benchmarks/scale.py [--only sampling,...] [--full] [--runs 5]

An ordinary run takes a tenth of the rows that the targets are stated for; ``--full`` takes them all. Memory is measured in processes of
their own, as the peak beyond what the process held before.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

FAILED = []


def clock(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def report(what, value, target, unit="", at_least=False):
    """Print a line of the table; a target of None is for information."""
    met = target is None or (value >= target if at_least else value <= target)
    if not met:
        FAILED.append(what)
    goal = "" if target is None else f"{'>=' if at_least else '<='} {target:g}{unit}"
    print(f"| {what} | {value:.3g}{unit} | {goal} | {'' if target is None else 'met' if met else 'MISSED'} |", flush=True)


def peak_of(prepare, measured):
    """Most memory, in MiB, that a fresh process holds in `measured` beyond what it held after `prepare`; both are lines of code."""
    script = f"""
import resource, threading, time, warnings
import numpy as np
warnings.simplefilter("ignore")
def held():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
{prepare}
before, most, done = held(), 0, False
def watch():
    global most
    while not done:
        most = max(most, held())
        time.sleep(0.002)
watcher = threading.Thread(target=watch)
watcher.start()
try:
    {measured}
finally:
    done = True
    watcher.join()
print((most - before) / 2**20)
"""
    return float(subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout)


def mixed_table(n_rows, n_columns):
    """Columns that depend on each other: real and whole numbers, texts and yes or no, in turn; and their schema."""
    import pandas as pd

    rng = np.random.default_rng(0)
    factors, columns, schema = rng.normal(size=(n_rows, 4)), {}, {}
    for j in range(n_columns):
        y, name = factors @ rng.normal(size=4) + rng.normal(size=n_rows), f"c{j}"
        columns[name], schema[name] = (
            lambda y: (np.clip(y, -6, 6), (-6.0, 6.0)),
            lambda y: (np.clip(np.rint(10 * y + 50), 0, 100).astype(int), (0, 100)),
            lambda y: (np.array(list("abcde"))[np.digitize(y, [-2, -1, 0, 1])], list("abcde")),
            lambda y: ((y > 0).astype(int), [0, 1]),
        )[j % 4](y)
    return pd.DataFrame(columns), schema


def sampling(full, runs):
    from skdpsynth import LatentFactorSynthesizer, PrivateMeasureMechanism

    X, schema = mixed_table(20_000, 80)
    model = LatentFactorSynthesizer(schema, epsilon=3.0, delta=1e-6, n_jobs=2).fit(X)
    model.sample(1000)
    seconds = np.median([clock(lambda: model.sample(10**6)) for _ in range(min(runs, 3))])
    report("LatentFactor: sample(1e6) of 80 mixed columns", seconds, 5, " s")

    for n in (10**6, 10**7) if full else (10**6,):
        X = np.random.default_rng(0).random((n, 5))
        model = PrivateMeasureMechanism()
        model.fit(X).sample()
        times = np.array([(clock(lambda: X.sum(axis=0)), clock(lambda: model.fit(X)), clock(model.sample)) for _ in range(runs)])  # noqa: B023
        _, fit, sample = np.median(times / times[:, :1], axis=0)
        report(f"PMM: fit and sample of {n:.0e} x 5, over X.sum(axis=0)", fit + sample, 8, "x")
        report("... of it the fit", fit, None, "x")
        report("... of it the sample", sample, None, "x")
        model.set_params(n_jobs=2).fit(X)
        times = np.array([(clock(lambda: X.sum(axis=0)), clock(lambda: model.fit(X)) + clock(model.sample)) for _ in range(runs)])  # noqa: B023
        report("... in two threads, where the default is one, as that of the sum", np.median(times[:, 1] / times[:, 0]), None, "x")

    n = 10**7 if full else 10**6
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder) / "rows.parquet")
        prepare = (
            "import pyarrow.parquet\nfrom skdpsynth import PrivateMeasureMechanism\n"
            "model = PrivateMeasureMechanism().fit(np.random.default_rng(0).random((10**5, 5)))\n"
            f"model.sample(1000, out={out!r})"
        )
        report(
            f"PMM: memory of sample({n:.0e}, out='rows.parquet') of 5 columns",
            peak_of(prepare, f"model.sample({n}, out={out!r})"),
            250,
            " MiB",
        )
        report("... of the same rows as an array", peak_of(prepare, f"model.sample({n})"), None, " MiB")


def beside(script):
    """A section that is a script of its own: it prints its own tables."""

    def run(full, runs):
        done = subprocess.run([sys.executable, Path(__file__).parent / script, *["--full"] * full], check=False)
        FAILED.extend([script] * bool(done.returncode))

    return run


SECTIONS = {
    "sampling": sampling,
    "memory": beside("scale_memory.py"),
    "database": beside("scale_database.py"),
    "dask": beside("scale_dask.py"),
}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(SECTIONS), help=f"sections, of {', '.join(SECTIONS)}")
    parser.add_argument("--full", action="store_true", help="take all rows that the targets are stated for")
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    for name in arguments.only.split(","):
        print(f"\n## {name}\n", flush=True)
        if name == "sampling":
            print("| what | figure | target | |\n|---|---|---|---|", flush=True)
        SECTIONS[name](arguments.full, arguments.runs)
    print("\nall targets met" if not FAILED else f"\nMISSED: {FAILED}")
    sys.exit(bool(FAILED))
