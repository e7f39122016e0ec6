"""Speed, memory and exactness of nearest_probability_measure on lattices, each size in a fresh process.

python benchmarks/transport.py [--quick]

The problem is a Gaussian mixture of n = m rows in the cube, with m = side^d cells and counts with noise Lap_Z(1), shifted to sum to n. The
dense program is the corrected Algorithm 2 through cvxpy and HiGHS, as in the tests. "MiB" is the peak memory added after imports and a
small run. OR-Tools runs in a process of its own, whose memory is counted too. --quick leaves out the dense program and the largest sizes.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np

FAILED = []


def problem(side, d, seed=0):
    """Return (positions, noisy counts, n)."""
    from skdpsynth.exceptions import InsecureRandomnessWarning
    from skdpsynth.privacy import DiscreteLaplace, check_rng

    rng, m = np.random.default_rng(seed), side**d
    centers = 0.25 + 0.5 * rng.random((4, d))
    X = np.clip(centers[rng.integers(0, 4, m)] + 0.1 * rng.normal(size=(m, d)), 0, 1)
    counts = np.histogramdd(X, bins=side, range=[(0, 1)] * d)[0].ravel().astype(np.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InsecureRandomnessWarning)
        counts += DiscreteLaplace(1).sample(m, check_rng(seed))
    shift, rest = divmod(int(counts.sum()) - m, m)
    counts -= shift
    counts[rng.permutation(m)[:rest]] -= 1
    return (np.indices((side,) * d).reshape(d, -1).T + 0.5) / side, counts, m


def peak():
    """Peak memory of this process and of its largest child, in MiB."""
    return sum(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1024


def measure(side, d, metric, solver):
    """Time one problem in this process; print a line of JSON."""
    positions, counts, n = problem(side, d)
    if solver == "dense":
        sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "measures"))
        from dense_program import dense_program, pairwise

        def solve(positions, counts, n):
            distances = pairwise(positions, metric)
            return dense_program(distances, counts / n, float(distances.max()))[0], 0.0, 1

    else:
        from skdpsynth.measures import nearest_probability_measure

        def solve(positions, counts, n):
            result = nearest_probability_measure(positions, counts, metric, total=n, solver=solver)
            return result.value, result.gap, result.n_iter

    solve(*problem(4, d))
    runs = 5 if side**d <= 20_000 and solver != "dense" else 1
    before, times = peak(), []
    for _ in range(runs):
        start = time.perf_counter()
        value, gap, n_iter = solve(positions, counts, n)
        times.append(time.perf_counter() - start)
    print(json.dumps({"seconds": float(np.median(times)), "MiB": peak() - before, "value": value, "gap": gap, "n_iter": n_iter}))


def run(side, d, metric, solver):
    """Measure in a fresh process, print, and return the figures."""
    arguments = [sys.executable, __file__, "--one", str(side), str(d), metric, solver]
    done = subprocess.run(arguments, check=True, capture_output=True, text=True)
    figures = json.loads(done.stdout.splitlines()[-1])
    print(
        f"m = {side}^{d} = {side**d}, {metric}, {solver}: {figures['seconds']:.3f} s, {figures['MiB']:.0f} MiB, "
        f"relative gap {figures['gap'] / figures['value']:.1e}, {figures['n_iter']} programs",
        flush=True,
    )
    return figures


def check(what, value, target, at_least=False):
    met = value >= target if at_least else value <= target
    if not met:
        FAILED.append(what)
    print(f"    {what}: {value:.3g}, target {'>=' if at_least else '<='} {target:g}: {'met' if met else 'MISSED'}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", nargs=4)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    if arguments.one:
        side, d, metric, solver = arguments.one
        measure(int(side), int(d), metric, solver)
        sys.exit()

    for solver in ("highs", "ortools"):
        for side, d, metric in (
            (1000, 1, "chebyshev"),
            (32, 2, "chebyshev"),
            (10, 3, "cityblock"),
            (6, 4, "chebyshev"),
            (10, 3, "euclidean"),
        ):
            figures = run(side, d, metric, solver)
            check("relative gap", figures["gap"] / figures["value"], 1e-6 if metric == "euclidean" else 1e-9)
    small = run(10, 3, "chebyshev", "highs")
    if not arguments.quick:
        dense = run(10, 3, "chebyshev", "dense")
        check("same value, relative difference", abs(dense["value"] / small["value"] - 1), 1e-6)
        check("m = 1000: times faster than the dense program", dense["seconds"] / small["seconds"], 300, at_least=True)
    middle = run(22, 3, "chebyshev", "highs")
    check("m = 10,648: seconds", middle["seconds"], 1.5)
    check("m = 10,648: MiB added", middle["MiB"], 150)
    check("m = 10,648: relative gap", middle["gap"] / middle["value"], 1e-9)
    for solver in ("highs", "ortools"):
        figures = run(9, 4, "chebyshev", solver)  # no cell has few neighbors: over arcs from donors to holes
        check("relative gap", figures["gap"] / figures["value"], 1e-9)
    if not arguments.quick:
        figures = run(46, 3, "chebyshev", "highs")
        check("m = 97,336: seconds", figures["seconds"], 30)
        check("m = 97,336: relative gap", figures["gap"] / figures["value"], 1e-9)
    print("all targets met" if not FAILED else f"MISSED: {FAILED}")
    sys.exit(bool(FAILED))
