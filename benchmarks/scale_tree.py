"""The traffic when many workers sum: bytes by estimator, the tree of sums with 1 to 1000 workers, and a billion rows.

python benchmarks/scale_tree.py               # workers with 1e5 rows each
python benchmarks/scale_tree.py --rows 10000

Bytes and the seconds of adding up are measured: every sum is made of rows, packed and added as on a cluster, here in one process. A worker
adds up its own partitions first, so it has one sum to send. Rows have one distribution everywhere, and n rows are those of one worker,
again and again.

Seconds on a network are a model: workers of a level add up at the same time; each receives 7 sums over a link of 1 Gbit/s, and the
scheduler of Dask hands out 1000 tasks a second. "To the caller" is the same without a tree: one link, one process.
"""

import argparse
import sys
import tempfile
import time
import warnings

import numpy as np

from skdpsynth import LatentFactorSynthesizer, LowDimSynthesizer, PrivateMeasureMechanism, PrivatePCA
from skdpsynth.federated import RemoteRows
from skdpsynth.frames._partitions import Part, add_parts, pack

LINK, TASKS = 125e6, 1000.0  # bytes a second of a link, tasks a second of the scheduler

ESTIMATORS = {
    "PrivateMeasureMechanism, 5 columns": (PrivateMeasureMechanism(), 5),
    "PrivateMeasureMechanism, 20 columns": (PrivateMeasureMechanism(), 20),
    "LowDimSynthesizer(3), 50 columns": (LowDimSynthesizer(3), 50),
    "PrivatePCA, 50 columns": (PrivatePCA(), 50),
    "PrivatePCA, 500 columns": (PrivatePCA(), 500),
    "LatentFactorSynthesizer, 10 numbers and 10 columns of 8 levels": (
        LatentFactorSynthesizer({i: (0.0, 1.0) if i < 10 else list(range(8)) for i in range(20)}),
        20,
    ),
}


class Asked:
    """Answers as if the rows of one worker stood in the table again and again, and notes what that worker sends and how long it sums."""

    def __init__(self, rows, n_samples):
        self.rows, self.times, self.sums, self.sent, self.seconds = rows, n_samples // len(rows), [], 0, 0.0

    def __call__(self, question):
        start = time.process_time()  # of all threads
        statistic = question.of(self.rows)
        self.seconds += time.process_time() - start
        self.sums.append(len(statistic.flat))
        self.sent += pack(statistic).n_bytes
        return statistic.flat * self.times


def _rows(n_rows, n_features):
    X = np.random.default_rng(0).beta(2, 5, (n_rows, n_features))
    X[:, 10:20] = np.floor(X[:, 10:20] * 8)
    return X if n_features == 20 else X[:, :n_features]


def bytes_sent(here):
    print(f"What a worker with {here:.0e} rows sends, of n in all")
    print("estimator | n | questions | sums | most bytes (8 a sum) | packed bytes | core-hours to sum 1e9 rows in memory | rest of fit, s")
    for name, (estimator, n_features) in ESTIMATORS.items():
        X = _rows(here, n_features)
        X = np.clip(X, 0, 1) if "Latent" not in name else X
        for n_samples in (here, 10**7, 10**9):
            asked = Asked(X, n_samples)
            start = time.process_time()
            estimator.fit(RemoteRows(asked, head=X[:0], n_samples=n_samples))
            rest = time.process_time() - start - asked.seconds
            hours = asked.seconds * 1e9 / here / 3600
            sums = sum(asked.sums)
            print(
                f"{name} | {n_samples:.0e} | {len(asked.sums)} | {sums} | {8 * sums} | {asked.sent} | {hours:.2f} | {rest:.2f}", flush=True
            )


def reading():
    import pandas as pd

    with tempfile.TemporaryDirectory() as folder:
        pd.DataFrame(np.random.default_rng(0).random((10**6, 5)), columns=list("abcde")).to_parquet(f"{folder}/people.parquet")
        start = time.process_time()
        pd.read_parquet(f"{folder}/people.parquet")
        hours = (time.process_time() - start) * 1000 / 5 / 3600
    print(f"Reading a column of 1e9 floats from Parquet: {hours:.4f} core-hours", flush=True)


def tree(here):
    print(f"Adding up the sums of workers with {here:.0e} rows each, eight at a time")
    print("cells | workers | tasks | bytes of a worker's sum | all bytes | one core, s | tree on the network, s | to the caller, s")
    failed = False
    for depth in (10, 16, 20):
        rng, whole = np.random.default_rng(0), np.zeros(1 << depth, dtype=np.int64)
        parts = []
        for n_workers in (1, 10, 100, 1000):
            while len(parts) < n_workers:
                counts = np.bincount((rng.beta(2, 5, here) * (1 << depth)).astype(np.int64), minlength=1 << depth)
                whole += counts
                parts.append(Part(pack(counts), here))
            failed |= _fold(depth, parts, whole)
    return failed


def _fold(depth, parts, whole):
    """Add up parts; return whether the sum is wrong."""
    level, tasks, sent, one_core, network = list(parts), 0, 0, 0.0, 0.0
    while len(level) > 1:
        groups = [level[start : start + 8] for start in range(0, len(level), 8)]
        added, seconds = [], []
        for group in groups:
            start = time.perf_counter()
            added.append(add_parts(group))
            seconds.append(time.perf_counter() - start)
        moved = [sum(part.sums.n_bytes for part in group[1:]) for group in groups]  # the first is where it is added up
        tasks, sent, one_core = tasks + len(groups), sent + sum(moved), one_core + sum(seconds)
        network += max(seconds) + max(moved) / LINK + len(groups) / TASKS
        level = added
    last = level[0].sums.n_bytes
    flat = sum(part.sums.n_bytes for part in parts) / LINK + one_core
    print(
        f"2^{depth} | {len(parts)} | {tasks} | {max(part.sums.n_bytes for part in parts)} | {sent + last} | {one_core:.3f} | "
        f"{network + last / LINK:.3f} | {flat:.3f}",
        flush=True,
    )
    return not np.array_equal(level[0].sums.unpack(), whole)


def main(args):
    """Measure; return whether a sum was wrong."""
    warnings.simplefilter("ignore")
    bytes_sent(args.rows)
    reading()
    return tree(args.rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10**5)
    sys.exit(main(parser.parse_args()))
