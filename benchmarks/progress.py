"""The cost of progress reports that nobody watches: a task, a chunk that is read, a part of a loop, and a fit as a whole.

python benchmarks/progress.py
"""

import timeit

import numpy as np

from skdpsynth import PrivateMeasureMechanism
from skdpsynth import _progress as progress

GOAL = 0.02  # of the shortest fit
REPEATS, CALLS, PARTS = 7, 100_000, 1_000_000


def seconds(work, calls=CALLS):
    return min(timeit.repeat(work, number=calls, repeat=REPEATS)) / calls


def task():
    with progress.task("work", 0):
        pass


def chunk():
    with progress.bar("X") as read:
        read.step()


def around_a_fit():
    with progress.fit_bar("fit", True):
        pass


def loop(parts):
    for _ in parts:
        pass


if __name__ == "__main__":
    X, model = np.zeros((10, 1)), PrivateMeasureMechanism(depth=1)
    fit, own = seconds(lambda: model.fit(X), 100), seconds(around_a_fit)
    a_task = seconds(task)
    plain, stepped = seconds(lambda: loop(range(PARTS)), 1), seconds(lambda: loop(progress.track_steps("work", range(PARTS))), 1)
    print(f"a task {1e6 * a_task:.2f} us, a source with a chunk {1e6 * seconds(chunk):.2f} us")
    print(f"a million parts of a loop {1e3 * stepped:.0f} ms, without {1e3 * plain:.0f} ms")
    share = (own + a_task) / fit
    print(f"of a fit of ten rows in two cells {100 * share:.2f} %{'' if share <= GOAL else '  MISSED'}")
