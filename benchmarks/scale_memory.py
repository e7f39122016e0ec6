"""Fits of large tables in memory and from Parquet files: time over what numpy and pyarrow need for the same rows, and peak memory.

Arrays: the time of a fit over that of ``X.sum(axis=0)``, of PrivatePCA over that of ``X.T @ X``. To see the effect of a change, give
``--before`` a folder with another state of this repository: both are measured in turn, three times, in processes of their own.

Parquet: files are written row group by row group into a temporary folder. Peak memory is that of a fresh process, with its imports.

Sources, only with ``--before``: the time to read a mixed table of six columns by a schema, from each kind of source, over that of the other
state, at best of both.

    python benchmarks/scale_memory.py [--full] [--rows 1000000] [--before FOLDER] [--only arrays parquet sources]
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

FAILED = []
GROUP = 2**20  # rows: what pyarrow writes


def clock(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def ratio(ours, other, runs):
    """Medians of both, and of their pairwise ratio, run in turn after a warm-up."""
    ours(), other()
    times = np.array([(clock(ours), clock(other)) for _ in range(runs)])
    return (*np.median(times, axis=0), np.median(times[:, 0] / times[:, 1]))


def report(what, value, target, at_least=False, unit="x"):
    met = value >= target if at_least else value <= target
    if not met:
        FAILED.append(what)
    print(f"{what}: {value:.3g}{unit}, target {'>=' if at_least else '<='} {target}{unit}: {'met' if met else 'MISSED'}", flush=True)


def fits():
    """Estimators by name, on five columns; made here, since an older state may lack a parameter."""
    from skdpsynth import LatentFactorSynthesizer, LowDimSynthesizer, PrivateMeasureMechanism, PrivatePCA, SignedMeasureMechanism

    return {
        "PMM": PrivateMeasureMechanism(),
        "PMM, optimal": PrivateMeasureMechanism("optimal"),
        "PSMM": SignedMeasureMechanism(1000),
        "PCA": PrivatePCA(),
        "LowDim": LowDimSynthesizer(2),
        "LatentFactor": LatentFactorSynthesizer(),
    }


def arrays_here(n_rows, runs):
    """Print, for each estimator, the ratio of its fit in this process."""
    X = np.random.default_rng(0).random((n_rows, 5))
    for name, model in fits().items():
        other = (lambda: X.T @ X) if name == "PCA" else (lambda: X.sum(axis=0))
        ours, theirs, over = ratio(lambda: model.fit(X), other, runs)  # noqa: B023
        print(f"{name};{ours};{theirs};{over}", flush=True)


def in_process(folder, *arguments):
    """Return the lines that this script prints in a process that imports the package from a folder."""
    command = [sys.executable, __file__, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.splitlines()


def arrays(n_rows, runs, before):
    here = Path(__file__).parents[1]
    found = {}
    for folder in [here, before] * 3 if before else [here]:
        for name, *rest in (line.split(";") for line in in_process(folder, "--part", "arrays", "--rows", n_rows, "--runs", runs)):
            found.setdefault((folder, name), []).append(list(map(float, rest)))
    for name in [name for folder, name in found if folder == here]:
        ours, theirs, over = np.median(found[here, name], axis=0)
        what = "X.T @ X" if name == "PCA" else "X.sum(axis=0)"
        print(f"{name} fit of {n_rows:.0e} x 5 in memory: {ours:.3f} s, {over:.3g} times {what} ({theirs:.4f} s)", flush=True)
        if before:
            least, then = (np.min(found[folder, name], axis=0)[0] for folder in (here, before))
            report(f"... {least:.3f} s at best, over the fit before ({then:.3f} s)", least / then, 1.1)


def write(path, n_rows, n_columns):
    """Write a Parquet file row group by row group, so that no more is ever in memory."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng, names = np.random.default_rng(0), [f"x{i}" for i in range(n_columns)]
    with pq.ParquetWriter(path, pa.schema([(name, pa.float64()) for name in names])) as writer:
        for start in range(0, n_rows, GROUP):
            rows = rng.beta(2, 5, (min(GROUP, n_rows - start), n_columns))
            writer.write_table(pa.table(list(rows.T.copy()), names=names), row_group_size=GROUP)


def components(n_rows, folder, runs):
    import pyarrow.parquet as pq

    from skdpsynth import PrivatePCA

    path = folder / "wide.parquet"
    write(path, n_rows, 50)
    ours, theirs, over = ratio(lambda: PrivatePCA(n_jobs=2).fit(path), lambda: pq.read_table(path), runs)
    report(f"PCA fit of {n_rows:.0e} x 50 from Parquet, {ours:.3g} s, over read_table ({theirs:.3g} s)", over, 1.5)
    X = np.ascontiguousarray(pq.read_table(path).to_pandas().to_numpy())
    path.unlink()
    ours, theirs, over = ratio(lambda: PrivatePCA(n_jobs=2).fit(X), lambda: X.T @ X, runs)
    report(f"PCA fit of {n_rows:.0e} x 50 in memory, {ours:.3g} s, over X.T @ X ({theirs:.3g} s)", over, 2)


def peak():
    """Return the peak memory of this process in MB.

    On Linux ``getrusage`` knows also what the process that started this one held when it did; the kernel's own file does not.
    """
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    known = [int(line.split()[1]) for line in lines if line.startswith("VmHWM")]
    return (known[0] if known else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * 1024 / 1e6


def fit_here(path, n_jobs):
    """Fit, and print the seconds and the peak memory of this process in MB."""
    from skdpsynth import PrivateMeasureMechanism

    seconds = clock(lambda: PrivateMeasureMechanism(n_jobs=n_jobs).fit(path))
    print(f"{seconds};{peak()}", flush=True)


def files(n_rows, folder):
    path = folder / "long.parquet"
    write(path, n_rows, 5)
    for n_jobs in (1, 2):
        (line,) = in_process(Path(__file__).parents[1], "--part", "fit", "--path", path, "--jobs", n_jobs)
        seconds, memory = map(float, line.split(";"))
        report(f"PMM fit of {n_rows:.0e} x 5 from Parquet, n_jobs={n_jobs}, million rows a second", n_rows / seconds / 1e6, 4, True, "")
        report("... peak memory of the process", memory, 600, unit=" MB")
    path.unlink()


SOURCES = {"CSV": 1.3, "CSV, all in quotes": 1.3, "Parquet": 1.1, "pandas": 1.1, "polars": 1.1, "Arrow": 1.1, "DuckDB": 1.1, "chunks": 1.1}


def mixed(n_rows, folder):
    """Write a mixed table once, as CSV and Parquet."""
    import pandas as pd

    rng = np.random.default_rng(0)
    numbers = {"age": rng.integers(0, 100, n_rows), "income": rng.normal(5e4, 1e4, n_rows), "share": rng.random(n_rows).round(3)}
    words = {"sex": rng.choice(["male", "female"], n_rows), "code": rng.choice(["01067", "20095", "80331"], n_rows)}
    frame = pd.DataFrame(numbers | words | {"grade": rng.integers(0, 5, n_rows)})
    frame.to_csv(folder / "mixed.csv", index=False)
    frame.to_csv(folder / "quoted.csv", index=False, quoting=2)
    frame.to_parquet(folder / "mixed.parquet", index=False)


def sources_here(folder, runs):
    """Print, for each source, the seconds of a reading at best in this process."""
    import duckdb
    import polars as pl
    import pyarrow.parquet as pq

    from skdpsynth.domain import Schema
    from skdpsynth.tables import open_columns

    levels = {"sex": ["male", "female"], "code": ["01067", "20095", "80331"], "grade": [0, 1, 2, 3, 4]}
    schema = Schema({"age": (0, 100), "income": (0.0, 1e5), "share": (0.0, 1.0), **levels})
    table = pq.read_table(folder / "mixed.parquet")
    frame, connection = table.to_pandas(), duckdb.connect()
    connection.execute(f"create table mixed as select * from '{folder / 'mixed.parquet'}'")
    step = 2**17
    made = {
        "CSV": lambda: folder / "mixed.csv",
        "CSV, all in quotes": lambda: folder / "quoted.csv",
        "Parquet": lambda: folder / "mixed.parquet",
        "pandas": lambda: frame,
        "polars": lambda: pl.from_arrow(table),
        "Arrow": lambda: table,
        "DuckDB": lambda: connection.table("mixed"),
        "chunks": lambda: [frame.iloc[start : start + step] for start in range(0, len(frame), step)],
    }
    for name, make in made.items():
        X = make()
        times = [clock(lambda: sum(len(chunk[0]) for chunk in open_columns(X, schema).chunks())) for _ in range(runs)]  # noqa: B023
        print(f"{name};{min(times)}", flush=True)


def sources(n_rows, folder, runs, before):
    mixed(n_rows, folder)
    here, best = Path(__file__).parents[1], {}
    for state in [here, before] * 3:
        for name, seconds in (line.split(";") for line in in_process(state, "--part", "sources", "--path", folder, "--runs", runs)):
            best[state, name] = min(float(seconds), best.get((state, name), float("inf")))
    for name, target in SOURCES.items():
        now, then = best[here, name], best[before, name]
        report(f"{name}: {n_rows:.0e} x 6 read in {now:.3f} s, over the reading before ({then:.3f} s)", now / then, target)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="1e7 rows in memory and 1e8 from Parquet, ten times the ordinary run")
    parser.add_argument("--rows", type=int, help="of the arrays; Parquet has ten times as many")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--before", type=Path, help="another state of the repository to compare with")
    parser.add_argument("--only", nargs="+", choices=["arrays", "parquet", "sources"], default=["arrays", "parquet", "sources"])
    parser.add_argument("--part", choices=["arrays", "fit", "sources"], help=argparse.SUPPRESS)
    parser.add_argument("--path", help=argparse.SUPPRESS)
    parser.add_argument("--jobs", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    n_rows = arguments.rows or (10**7 if arguments.full else 10**6)
    if arguments.part == "arrays":
        return arrays_here(n_rows, arguments.runs)
    if arguments.part == "fit":
        return fit_here(arguments.path, arguments.jobs)
    if arguments.part == "sources":
        return sources_here(Path(arguments.path), arguments.runs)
    if "arrays" in arguments.only:
        arrays(n_rows, arguments.runs, arguments.before)
    with tempfile.TemporaryDirectory() as folder:
        if "parquet" in arguments.only:
            components(n_rows, Path(folder), min(arguments.runs, 3))
            files(10 * n_rows, Path(folder))
        if "sources" in arguments.only and arguments.before:
            sources(n_rows, Path(folder), arguments.runs, arguments.before)
    print("all targets met" if not FAILED else f"MISSED: {FAILED}")
    return int(bool(FAILED))


if __name__ == "__main__":
    sys.exit(main())
