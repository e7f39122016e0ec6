"""Captured variance of PrivatePCA and distances of LowDimSynthesizer on low-rank, near-planar and real rows, at equal and stated epsilon.

python benchmarks/accuracy_pca.py [--repeats 10] [--only planar shifted ball low_rank relations low_dim auto patches size]

Epsilon is 1, delta is 0 and the relation is replace-one unless a line says otherwise. Each seed makes one data set, which all models of a
section see; noise is secure. Captured variance is a share of what non-private PCA captures. A line without a target is for information.
"""

import argparse
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np
from generators import disc, low_rank, patches, planar

from skdpsynth import LowDimSynthesizer, PrivatePCA
from skdpsynth.exceptions import BudgetWarning, SmallSampleWarning
from skdpsynth.metrics import captured_variance_ratio, sliced_wasserstein_distance, wasserstein_distance

FAILED = []

PUBLIC, PRIVATE = {"center": "public"}, {"center": "private"}
DELTA = {"center": "private", "delta": 1e-6}
ADD_REMOVE = {"neighboring": "add_or_remove_one"}
BALL = {"center": "public", "bounds": (-1, 1)}

# section: (rows of a generator, number of components, {parameters of PrivatePCA: captured variance that the mean must reach})
CAPTURED = {
    "planar": [
        *(
            (f"n={n} d={d}", lambda rng, n=n, d=d: planar(n, d, rng), 2, list(zip((PUBLIC, PRIVATE, DELTA), targets, strict=True)))
            for n, d, targets in (
                (10_000, 5, (0.995, 0.995, None)),
                (10_000, 20, (0.995, 0.99, 0.995)),
                (10_000, 50, (0.99, 0.985, 0.99)),
                (10_000, 100, (0.975, 0.95, 0.99)),
                (10_000, 200, (0.93, 0.85, 0.98)),
                (100_000, 200, (0.998, 0.995, 0.998)),
            )
        ),
        ("n=10000 d=5", lambda rng: planar(10_000, 5, rng), 2, [(PUBLIC | {"epsilon": 0.1}, 0.90)]),
        ("n=10000 d=20", lambda rng: planar(10_000, 20, rng), 2, [(PUBLIC | {"delta": 1e-6}, 0.97)]),
        ("n=100000 d=20", lambda rng: planar(100_000, 20, rng), 2, [(PUBLIC | {"epsilon": 0.1}, 0.99)]),
    ],
    "shifted": [
        (f"n={n} d={d}, mean off the midpoint by .25", lambda rng, n=n, d=d: planar(n, d, rng, 0.25), 2, cells)
        for n, d, cells in (
            (10_000, 20, [(PRIVATE, 0.99)]),
            (10_000, 50, [(PRIVATE, 0.97)]),
            (10_000, 100, [(PRIVATE, 0.75), (DELTA, 0.95)]),
            (100_000, 100, [(PRIVATE, 0.995)]),
        )
    ],
    "ball": [
        ("n=2000 d=10", lambda rng: disc(2000, 10, rng), 2, [(BALL | {"max_norm": 1.0}, 0.95), (BALL, 0.93), (BALL | PRIVATE, None)]),
    ],
    "low_rank": [
        (f"n={n} d={d} k=3", lambda rng, n=n, d=d: low_rank(n, d, 3, rng), 3, [(PUBLIC, target), (PRIVATE, target)])
        for n, d, target in ((10_000, 20, 0.985), (100_000, 50, 0.998))
    ],
    "relations": [
        *(
            (
                f"planar n=10000 d={d}",
                lambda rng, d=d: planar(10_000, d, rng),
                2,
                [(each | ADD_REMOVE, None) for each in (PUBLIC, PRIVATE, DELTA)],
            )
            for d in (20, 100)
        ),
        ("low rank n=10000 d=20", lambda rng: low_rank(10_000, 20, 3, rng), 3, [(each | ADD_REMOVE, None) for each in (PUBLIC, PRIVATE)]),
    ],
}

# (rows of a generator, d', rows that are compared, parameters, most mean W1 over that of two real subsamples, most mean W1)
DISTANCES = [
    *(
        (f"planar n=10000 d={d}", lambda rng, d=d: planar(10_000, d, rng), 2, 1500, {}, ratio, distance)
        for d, ratio, distance in ((5, None, 0.030), (20, 1.2, None), (50, 1.35, None), (100, 1.7, None))
    ),
    *(
        (f"low rank n={n} d={d}", lambda rng, n=n, d=d: low_rank(n, d, 3, rng), 3, 1200, {}, None, distance)
        for n, d, distance in ((10_000, 20, 0.085), (100_000, 50, 0.062))
    ),
    ("planar n=10000 d=20", lambda rng: planar(10_000, 20, rng), 2, 1500, ADD_REMOVE, None, None),
    ("low rank n=10000 d=20", lambda rng: low_rank(10_000, 20, 3, rng), 3, 1200, ADD_REMOVE, None, None),
]

# (class with n_components="auto", rows of a generator, true d', share of runs that must find it)
DIMENSIONS = [
    (LowDimSynthesizer, "planar n=10000 d=20", lambda rng: planar(10_000, 20, rng), 2, 0.8),
    (LowDimSynthesizer, "planar n=10000 d=50", lambda rng: planar(10_000, 50, rng), 2, 0.8),
    (LowDimSynthesizer, "low rank n=10000 d=20", lambda rng: low_rank(10_000, 20, 3, rng), 3, 0.8),
    (LowDimSynthesizer, "low rank n=100000 d=50", lambda rng: low_rank(100_000, 50, 3, rng), 3, 0.8),
    (PrivatePCA, "low rank n=10000 d=20", lambda rng: low_rank(10_000, 20, 3, rng), 3, None),
    (PrivatePCA, "low rank n=100000 d=20, noise .001", lambda rng: low_rank(100_000, 20, 8, rng, noise=0.001), 8, None),
]


def report(what, values, target, at_least):
    """Print a mean with its spread, beside its target if it has one."""
    mean, spread = np.mean(values), np.std(values, ddof=1) if len(values) > 1 else 0.0
    line = f"{what}: {mean:.5g} (sd {spread:.2g}, {len(values)} runs)"
    if target is not None:
        met = mean >= target if at_least else mean <= target
        if not met:
            FAILED.append(what)
        line += f", target {'>=' if at_least else '<='} {target}: {'met' if met else 'MISSED'}"
    print(line, flush=True)


def words(parameters):
    return " ".join(f"{name}={value}" for name, value in parameters.items())


def captured(section, repeats):
    """Captured variance of each cell of a section."""
    for what, make, k, cells in CAPTURED[section]:
        values = [[] for _ in cells]
        for seed in range(repeats):
            X = make(np.random.default_rng(seed))
            for (parameters, _), found in zip(cells, values, strict=True):
                found.append(captured_variance_ratio(X, PrivatePCA(k, **parameters).fit(X).components_))
        for (parameters, target), found in zip(cells, values, strict=True):
            report(f"{section} {what}, PrivatePCA({k}, {words(parameters)}) captured", found, target, True)


def low_dim(repeats):
    for what, make, k, n_compared, parameters, ratio_target, target in DISTANCES:
        floors, distances, marginals, slices = [], [], [], []
        for seed in range(repeats):
            rng = np.random.default_rng(seed)
            X = make(rng)
            some, others = np.split(X[rng.permutation(len(X))[: 2 * n_compared]], 2)
            Y = LowDimSynthesizer(k, **parameters).fit(X).sample()
            floors.append(wasserstein_distance(some, others))
            distances.append(wasserstein_distance(some, Y[rng.permutation(len(Y))[:n_compared]]))
            if X.shape[1] == 5:
                marginals.append(np.mean([wasserstein_distance(X[:, [j]], Y[:, [j]]) for j in range(5)]))
                slices.append(sliced_wasserstein_distance(X, Y))
        name = f"{what}, LowDim({k}{', ' * bool(parameters)}{words(parameters)})"
        report(f"{name} W1 of {n_compared} rows (two real subsamples {np.mean(floors):.4f})", distances, target, False)
        report(f"{name} W1 over that of two real subsamples", np.divide(distances, np.mean(floors)), ratio_target, False)
        if marginals:
            report(f"{name} mean marginal W1", marginals, 0.006, False)
            report(f"{name} sliced W1", slices, 0.006, False)


def auto(repeats):
    for kind, what, make, true, target in DIMENSIONS:
        found = [kind("auto").fit(make(np.random.default_rng(seed))).n_components_ for seed in range(repeats)]
        report(f"{what}, {kind.__name__}('auto') finds d'={true} (it finds {found}), share of runs", np.equal(found, true), target, True)


def real_patches(repeats):
    X = patches()
    first = np.linalg.eigh(np.cov(X.T))[1][:, -1]
    # Brightness is nearly all of the variance, and any noise finds it: what counts is how much of the rest the others capture.
    rest = X - np.outer(X @ first, first)
    for delta, target in ((0.0, 0.97), (1e-6, None)):
        found = [PrivatePCA(6, delta=delta, bounds=(0, 255)).fit(X).components_ for _ in range(repeats)]
        values = [captured_variance_ratio(rest, components[1:]) for components in found]
        report(f"patches, 265860 x 64, delta={delta}, eigenpatches 2 to 6 captured", values, target, True)
    middle, leading = X.mean(axis=0), np.linalg.eigh(np.cov(X.T))[1][:, -10:]
    projected = middle + (X - middle) @ leading @ leading.T
    lost = sliced_wasserstein_distance(X, projected, n_projections=10)
    report("patches, projected on ten directions of non-private PCA, sliced W1 of all rows, gray levels", [lost], None, False)
    for parameters, target in (({"n_components": 3, "epsilon": np.inf}, None), ({"delta": 0.0}, None), ({"delta": 1e-6}, 2.5)):
        values = []
        for _ in range(repeats):
            model = LowDimSynthesizer(**parameters, bounds=(0, 255), center="private").fit(X)
            values.append(sliced_wasserstein_distance(X, model.sample(len(X)), n_projections=10))
        report(f"patches, LowDim({words(parameters)}) sliced W1 of all rows, gray levels", values, target, False)


SIZE = """
import sys, time
import numpy as np
from skdpsynth import LowDimSynthesizer, PrivatePCA
from skdpsynth.metrics import captured_variance_ratio

def peak():  # MiB of this program: what `resource` tells begins with the memory of the process that started it
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) / 1024

PrivatePCA(3).fit(np.random.default_rng(1).random((1000, 5)))  # imports and tables are not the fit's
X = np.load(sys.argv[1])
before, start = peak(), time.perf_counter()
model = {model}.fit(X)
seconds, added = time.perf_counter() - start, peak() - before
print(seconds, added, captured_variance_ratio(X, getattr(model, "reducer_", model).components_))
"""


def size(_):
    """784 columns of 60,000 rows, the size of small pictures: each model once, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/rows.npy", low_rank(60_000, 784, 3, np.random.default_rng(0)))
        for model in ("PrivatePCA(3)", "PrivatePCA(3, delta=1e-6)", "LowDimSynthesizer(3)"):
            call = [sys.executable, "-W", "ignore", "-c", SIZE.format(model=model), f"{folder}/rows.npy"]
            seconds, added, share = map(float, subprocess.run(call, check=True, capture_output=True, text=True).stdout.split())
            what = f"size 60000 x 784, low rank, {model} captured {share:.4f}"
            report(f"{what}, MiB added to 359 of the rows", [added], 400, False)
            report(f"{what}, seconds", [seconds], 60, False)


SECTIONS = {name: (lambda repeats, name=name: captured(name, repeats)) for name in CAPTURED}
SECTIONS |= {"low_dim": low_dim, "auto": auto, "patches": real_patches, "size": size}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS), metavar="NAME")
    arguments = parser.parse_args()
    for warning in (SmallSampleWarning, BudgetWarning):
        warnings.simplefilter("ignore", warning)
    for name in arguments.only:
        start = time.perf_counter()
        SECTIONS[name](arguments.repeats)
        print(f"    {name}: {time.perf_counter() - start:.0f} s", flush=True)
    print("all targets met" if not FAILED else f"MISSED: {FAILED}")
    sys.exit(bool(FAILED))
