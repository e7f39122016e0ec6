"""Speed side by side in one process, as ratios of medians of alternating runs; and import time, in fresh processes.

python benchmarks/speed.py [--runs 9]
"""

import argparse
import subprocess
import sys
import time

import numpy as np
from sklearn.decomposition import PCA

from skdpsynth import PrivateMeasureMechanism, PrivatePCA
from skdpsynth.domain import Box
from skdpsynth.measures import BinaryPartition
from skdpsynth.privacy import DiscreteGaussian, DiscreteLaplace, DiscreteMatrixLaplace, check_rng
from skdpsynth.statistics import Histogram

FAILED = []


def clock(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def paired(ours, other, runs):
    """Medians of both and of their pairwise ratio, run in turn after a warm-up."""
    ours(), other()
    times = np.array([(clock(ours), clock(other)) for _ in range(runs)])
    return (*np.median(times, axis=0), np.median(times[:, 0] / times[:, 1]))


def report(what, value, target, at_least, unit="x"):
    met = value >= target if at_least else value <= target
    if not met:
        FAILED.append(what)
    print(f"{what}: {value:.3g}{unit}, target {'>=' if at_least else '<='} {target}{unit}: {'met' if met else 'MISSED'}", flush=True)


def counting(runs):
    for d, depth in ((2, 14), (5, 15)):
        X = np.random.default_rng(d).random((10**6, d))
        partition = BinaryPartition(Box(np.zeros(d), np.ones(d)), depth)
        bins = [2**cut for cut in partition.cuts(depth).tolist()]
        expected = np.histogramdd(X, bins=bins, range=[(0, 1)] * d)[0]
        assert np.array_equal(np.sort(Histogram.of(X, partition).counts), np.sort(expected.ravel().astype(int)))
        ours, other, ratio = paired(lambda: Histogram.of(X, partition), lambda: np.histogramdd(X, bins=bins, range=[(0, 1)] * d), runs)  # noqa: B023
        report(f"counting 1e6 rows d={d}: histogramdd {other:.4f} s / ours {ours:.4f} s", 1 / ratio, 8, True)
        if d == 5:
            model = PrivateMeasureMechanism()
            ours, other, ratio = paired(lambda: model.fit(X).sample(), lambda: np.histogramdd(X, bins=bins, range=[(0, 1)] * d), runs)  # noqa: B023
            report(f"PMM fit + sample of 1e6 x 5, {ours:.4f} s, over histogramdd {other:.4f} s", ratio, 1, False)


def pca(runs):
    X = np.random.default_rng(0).random((10**6, 50))
    for center in ("public", "private"):
        ours, other, ratio = paired(
            lambda: PrivatePCA(2, center=center).fit(X),  # noqa: B023
            lambda: PCA(2, svd_solver="covariance_eigh").fit(X),
            max(3, runs // 2),
        )
        report(f"PrivatePCA fit of 1e6 x 50, {center} center, {ours:.3f} s, over PCA(covariance_eigh) {other:.3f} s", ratio, 2.5, False)


def matrix_noise(runs):
    rng = check_rng(None)
    for size, target in ((100, 0.05), (500, 5.0)):
        noise = DiscreteMatrixLaplace(2**40)
        noise.sample((size, size), rng)
        seconds = float(np.median([clock(lambda: noise.sample((size, size), rng)) for _ in range(runs)]))  # noqa: B023
        report(f"DiscreteMatrixLaplace of {size} x {size}, exact", seconds, target, False, " s")


def noise(runs):
    rng = check_rng(None)
    for kind in (DiscreteLaplace, DiscreteGaussian):
        for scale in (1, 10, 1000, 2**20, 2**40):
            sampler = kind(scale)
            sampler.sample(10, rng)
            rate = 1 / np.median([clock(lambda: sampler.sample(10**6, rng)) for _ in range(runs)])  # noqa: B023
            if scale == 10 or kind is DiscreteGaussian:
                report(f"{kind.__name__}({scale}), exact draws of secure bits", rate, 10, True, " million/s")
            else:
                print(f"{kind.__name__}({scale}): {rate:.1f} million/s", flush=True)


def imports(runs):
    def run(code):
        return clock(lambda: subprocess.run([sys.executable, "-c", code], check=True))

    times = np.array(
        [(run("import skdpsynth"), run("import sklearn"), run("import sklearn.base, sklearn.utils.validation")) for _ in range(runs + 1)]
    )[1:]
    report("import skdpsynth over import sklearn (whole processes)", float(np.median(times[:, 0] / times[:, 1])), 1.3, False)
    print(f"    over import of an estimator's base, sklearn.base: {np.median(times[:, 0] / times[:, 2]):.2f}x")
    loaded = subprocess.run(
        [sys.executable, "-c", "import skdpsynth, sys; print('cvxpy' in sys.modules)"], check=True, capture_output=True, text=True
    ).stdout.strip()
    print(f"    cvxpy imported: {loaded}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9)
    arguments = parser.parse_args()
    for part in (counting, pca, matrix_noise, noise, imports):
        part(arguments.runs)
    print("all targets met" if not FAILED else f"MISSED: {FAILED}")
    sys.exit(bool(FAILED))
