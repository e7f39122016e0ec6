"""Two threads at one counter or stream: exact views of an event, lost rows, and blocks that are released twice.

One thread counts (or feeds) 10,000 events one at a time, another reads (or samples) 10,000 times. If two readings differ by the counts of a
single event, they give that event away. The script prints a line for each counter and stream; every number but the first two must be 0.
"""

import argparse
import collections
import sys
import threading
import time
import warnings

import numpy as np

from skdpsynth import OnlineSynthesizer, PrivacyAccountant
from skdpsynth.continual import BinaryCounter, InhomogeneousCounter, KaryCounter, SparseCounter, SquareRootCounter, UnboundedCounter
from skdpsynth.privacy import check_rng

CELLS = 50
STREAMS = {
    "blocks": {},
    "window": {"window": 500},
    "paper kary": {"strategy": "paper"},
    "paper sparse": {"strategy": "paper", "counter": "sparse"},
}


def counters(n_steps):
    """Counters of `CELLS` cells, by name; the square-root counter is quadratic in time, so it gets fewer steps."""
    yield "KaryCounter", KaryCounter(n_steps, epsilon=0.1, n_counters=CELLS, sensitivity=2), n_steps
    yield "BinaryCounter", BinaryCounter(n_steps, epsilon=0.1, n_counters=CELLS, sensitivity=2), n_steps
    yield "SparseCounter", SparseCounter(n_steps, epsilon=0.1, n_counters=CELLS, sensitivity=2, every=10), n_steps
    short = min(n_steps, 1000)
    yield "SquareRootCounter", SquareRootCounter(short, rho=0.01, n_counters=CELLS, sensitivity=2), short
    yield "UnboundedCounter", UnboundedCounter(rho=0.01, n_counters=CELLS, sensitivity=2), short
    for kind in ("kary", "binary", "sparse"):
        counter = InhomogeneousCounter(kind, n_counters=CELLS, sensitivity=2, every=10)
        counter.start_level(n_steps, 0.1, PrivacyAccountant(0.1), check_rng(None))
        yield f"InhomogeneousCounter {kind}", counter, n_steps


def together(write, read, n_reads):
    """Run `write` and `n_reads` times `read` in two threads; return what was read."""
    reads = []

    def reader():
        for _ in range(n_reads):
            reads.append(read())

    threads = [threading.Thread(target=write), threading.Thread(target=reader)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return reads


def events_given_away(counter, n_steps, n_reads):
    """How many differences of consecutive readings are the counts of one event."""
    secret = np.random.default_rng(0).integers(0, CELLS, n_steps)

    def write():
        for cell in secret:
            counter.update_cells([cell])

    differences = np.diff(np.array(together(write, lambda: counter.value, n_reads)), axis=0)
    one_hot = (np.count_nonzero(differences, axis=1) == 1) & (differences.sum(axis=1) == 1)
    return int(one_hot.sum())


def stream_in_threads(model, n_rows, n_reads):
    """Feed a stream from two threads while a third samples; return (rows lost, blocks or levels charged twice)."""
    rows = np.random.default_rng(1).random((n_rows, 2))
    model.fit(rows[:1])
    half = 1 + (n_rows - 1) // 2

    def write(part):
        for row in part:
            model.partial_fit(row[None])

    other = threading.Thread(target=write, args=(rows[half:],))
    other.start()
    together(lambda: write(rows[1:half]), lambda: model.sample(20), n_reads)
    other.join()
    names = collections.Counter(entry.name for entry in model.accountant_.ledger)
    return n_rows - model.n_samples_seen_, sum(count - 1 for count in names.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10_000, help="events, and readings")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    sys.setswitchinterval(1e-5)
    wrong = 0
    print(f"{'':32}{'updates':>9}{'reads':>9}{'given away':>12}{'rows lost':>11}{'twice':>7}{'seconds':>9}")
    for name, counter, n_steps in counters(arguments.steps):
        start = time.perf_counter()
        away = events_given_away(counter, n_steps, n_steps)
        lost = n_steps - counter.n_steps if hasattr(counter, "n_steps") else 0  # a counter of levels does not tell
        wrong += away + lost
        print(f"{name:32}{n_steps:9}{n_steps:9}{away:12}{lost:11}{'':7}{time.perf_counter() - start:9.1f}", flush=True)
    for name, settings in STREAMS.items():
        start = time.perf_counter()
        lost, twice = stream_in_threads(OnlineSynthesizer(epsilon=0.5, **settings), arguments.steps, arguments.steps)
        wrong += lost + twice
        seconds = time.perf_counter() - start
        print(f"OnlineSynthesizer {name:14}{arguments.steps:9}{arguments.steps:9}{'':12}{lost:11}{twice:7}{seconds:9.1f}", flush=True)
    print("all targets met" if not wrong else "MISSED")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
