"""The cost of a huge parameter or awkward rows: each case in a process of its own, with 4 GB of memory and 20 s of processor time.

    python benchmarks/resources.py [--only WORD] [--limit 20] [--slow]

A case ends well if it is served, with or without a warning, or refused in one sentence of ours with nothing of the budget spent. It fails
if it exceeds the time (processor time, its children's included, because machines are shared), runs out of memory, raises an error of other
code, or is refused after the charge.
"""

import argparse
import contextlib
import json
import linecache
import os
import resource
import signal
import sys
import time
import warnings
from collections import Counter

import cvxpy  # noqa: F401  what a fit would import, once for all cases
import numpy as np
import pandas as pd
import sklearn

import skdpsynth
from skdpsynth import LatentFactorSynthesizer as LatentFactor
from skdpsynth import LowDimSynthesizer as LowDim
from skdpsynth import OnlineSynthesizer as Online
from skdpsynth import PrivacyAccountant, PrivatePCA
from skdpsynth import PrivateMeasureMechanism as PMM
from skdpsynth import SignedMeasureMechanism as PSMM
from skdpsynth.auditing import privacy_evidence, worst_case_neighbors
from skdpsynth.continual import BinaryCounter, InhomogeneousCounter, KaryCounter, SparseCounter, SquareRootCounter, UnboundedCounter
from skdpsynth.domain import Box, Continuous, Date, DateTime, MixedTypeEncoder, Nominal, Ordinal, Schema
from skdpsynth.measures import BinaryPartition, Lattice, nearest_probability_measure
from skdpsynth.metrics import (
    captured_variance_ratio,
    correlation_error,
    marginal_total_variation,
    quality_report,
    sliced_wasserstein_distance,
    wasserstein_distance,
)
from skdpsynth.model_selection import PrivateSearchCV, plan
from skdpsynth.privacy import DiscreteGaussian, DiscreteLaplace, DiscreteMatrixLaplace, PrivacyLoss, check_rng

MEMORY, ADD = 4 * 10**9, {"neighboring": "add_or_remove_one"}
OURS = tuple(os.path.dirname(module.__file__) for module in (skdpsynth, sklearn))
RNG = np.random.default_rng(0)
CASES = {}


def case(name, run):
    assert name not in CASES, name
    CASES[name] = run


def fits(name, model, X, then=None, **fit):
    """A case that fits a model on a shared budget, whose rest is looked at, draws rows, and saves what can be saved."""

    def run():
        rows = X() if callable(X) else X
        budget = PrivacyAccountant(model.epsilon, model.delta, neighboring=model.neighboring)
        try:
            fitted = model.set_params(accountant=budget).fit(rows, **fit)
        except Exception:
            if budget.spent:
                print("SPENT")
            raise
        if hasattr(fitted, "sample"):
            fitted.sample(100)
        if then:
            then(fitted)

    case(name, run)


def uniform(n, d):
    return lambda: np.random.default_rng(0).random((n, d))


def one_point(n, d, at=0.3):
    return lambda: np.full((n, d), at)


def mostly_zero(n, d):
    def rows():
        X = np.zeros((n, d))
        X[: n // 100] = np.random.default_rng(0).random((n // 100, d))
        return X

    return rows


def corners(n, d):
    return lambda: (np.random.default_rng(0).random((n, 1)) < 0.5) * np.ones((n, d))


def levels(n, *sizes):
    """A frame of nominal columns, with as many levels each."""
    return lambda: pd.DataFrame({f"c{k}": np.random.default_rng(k).integers(size, size=n) for k, size in enumerate(sizes)})


def nominal(*sizes, kind=Nominal):
    return Schema({f"c{k}": kind(list(range(size))) for k, size in enumerate(sizes)})


def sizes_of_rows():
    tables = {"one point": one_point, "99 % zeros": mostly_zero, "two corners": corners, "uniform": uniform}
    for awkward, made in tables.items():
        for n, d in ((20_000, 3), (100_000, 3), (40_000, 2), (20_000, 1), (10_000, 5), (1, 2), (2, 3)):
            fits(f"PSMM, {awkward}, {n} x {d}", PSMM(), made(n, d))
        for n, d in ((100_000, 3), (1, 2), (2000, 200)):
            fits(f"PMM, {awkward}, {n} x {d}", PMM(), made(n, d))
            fits(f"LowDim, {awkward}, {n} x {d}", LowDim(), made(n, d))
            fits(f"PCA, {awkward}, {n} x {d}", PrivatePCA(), made(n, d))
        for n, d in ((10_000, 8), (3, 2)):
            fits(f"LatentFactor, {awkward}, {n} x {d}", LatentFactor(), made(n, d))


def sizes_of_columns():
    for d in (1000, 5000, 100_000):
        for name, model in (("PMM", PMM()), ("PSMM", PSMM()), ("PCA", PrivatePCA()), ("LowDim", LowDim()), ("Online", Online())):
            fits(f"{name}, 20 x {d}", model, uniform(20, d))
        fits(f"LatentFactor, 20 x {d}", LatentFactor(), uniform(20, d))
        fits(f"LatentFactor scores, 20 x {d}", LatentFactor(strategy="scores"), uniform(20, d))
        fits(f"LowDim of {d // 2}, 20 x {d}", LowDim(d // 2), uniform(20, d))


def epsilons():
    for epsilon in (1e-9, 1e-4, 1e4, 1e9, float("inf")):
        for relation in ("replace_one", "add_or_remove_one"):
            short = f"epsilon {epsilon:g}, {relation[:3]}"
            own = {"epsilon": epsilon, "neighboring": relation}
            then = lambda fitted: fitted.sample()  # noqa: E731
            fits(f"PMM, {short}", PMM(**own), uniform(1000, 2), then)
            fits(f"PMM optimal, {short}", PMM("optimal", **own), uniform(100, 3), then)
            fits(f"PMM paper, {short}", PMM("paper", **own), uniform(10, 2), then)
            fits(f"PSMM, {short}", PSMM(**own), uniform(1000, 2), then)
            fits(f"PCA, {short}", PrivatePCA(**own), uniform(1000, 20))
            fits(f"LowDim, {short}", LowDim(2, **own), uniform(1000, 5), then)
            fits(f"LatentFactor, {short}", LatentFactor(**own), uniform(1000, 4), then)
            fits(f"LatentFactor scores, {short}", LatentFactor(strategy="scores", **own), uniform(1000, 4), then)
            fits(f"Online, {short}", Online(**own), uniform(1000, 2), then)
            fits(f"Online paper, {short}", Online("paper", **own), uniform(60, 1), then)
    fits("PCA, Gaussian, epsilon 1e300", PrivatePCA(noise="gaussian", delta=1e-6, epsilon=1e300), uniform(100, 3))
    fits("LatentFactor, Gaussian, epsilon 1e6", LatentFactor(delta=1e-6, epsilon=1e6), uniform(100, 3))


def cells_and_depths():
    for n_cells in (10_000, 30_000, 150_000, 10**6, 10**9, 10**30):
        fits(f"PSMM, {n_cells:.0e} cells, n epsilon 10^5", PSMM(n_cells), uniform(100_000, 3))
        fits(f"PSMM, {n_cells:.0e} cells on a line", PSMM(n_cells), uniform(1000, 1))
        fits(f"PSMM, {n_cells:.0e} cells, n epsilon 3, d=2", PSMM(n_cells, epsilon=0.1), uniform(30, 2))
        fits(f"PSMM, {n_cells:.0e} cells, n epsilon 3, d=3", PSMM(n_cells, epsilon=0.1), uniform(30, 3))
    fits("PSMM, 150,000 cells of 1000 columns", PSMM(150_000), uniform(1000, 1000))
    fits("PSMM, 1e6 cells of 300 columns, ortools", PSMM(10**6, solver="ortools"), uniform(1000, 300))
    fits("PSMM, 1e5 cells, ortools", PSMM(10**5, solver="ortools"), uniform(100_000, 3))
    fits("PSMM, 1e6 cells, ortools", PSMM(10**6, solver="ortools"), uniform(100_000, 3))
    fits("PSMM, 1e4 cells, n epsilon 3, ortools", PSMM(10**4, solver="ortools", epsilon=0.1), uniform(30, 2))
    fits("PSMM, 1e4 cells, euclidean", PSMM(10**4, metric="euclidean"), one_point(20_000, 3))
    fits("PSMM, 1e4 cells, cityblock", PSMM(10**4, metric="cityblock"), one_point(20_000, 3))
    fits("PSMM, 1e4 given cells", PSMM(cells=np.random.default_rng(1).random((10_000, 3))), one_point(20_000, 3))
    fits("PSMM, 1e5 given cells", PSMM(cells=np.random.default_rng(1).random((100_000, 3))), one_point(20_000, 3))
    fits("PSMM, 1e6 given cells on a line", PSMM(cells=np.linspace(0, 1, 10**6)[:, None]), one_point(20_000, 1))
    for strategy in ("auto", "adaptive", "optimal", "paper"):
        for depth in (16, 24, 26, 62, 10**6):
            fits(f"PMM {strategy}, depth {depth}", PMM(strategy, depth=depth), uniform(1000, 2))
    fits("PMM optimal, depth 24, 50 columns", PMM("optimal", depth=24), uniform(1000, 50))
    fits("PMM, whole numbers to 2^53", PMM(bounds=(0, 2**53)), lambda: np.arange(1000)[:, None] * 10**12)
    fits("PMM, private bounds, 2000 columns", PMM(bounds="private"), uniform(100, 2000))
    fits("PMM, private bounds of 1e300", PMM(bounds="private"), lambda: np.full((500, 2), 1e300))


def many_levels():
    for own, word in (({}, ""), ({"strategy": "scores"}, " scores")):
        for sizes in (
            (5000, 2),
            (11_000, 2),
            (11_000, 11_000),
            (5700, 5700),
            (10**5, 2),
            (300,) * 20,
            (64,) * 40,
            (10,) * 200,
            (2,) * 1000,
        ):
            shape = f"{len(sizes)} columns of {sizes[0]}, {sizes[1]} ... levels"
            fits(f"LatentFactor{word}, nominal, {shape}", LatentFactor(nominal(*sizes), **own), levels(2000, *sizes))
        for sizes in ((4000, 2), (5000, 2), (11_000, 2), (5700, 5700), (10**5, 2), (300,) * 5, (300,) * 20):
            shape = f"{len(sizes)} columns of {sizes[0]}, {sizes[1]} ... levels"
            fits(f"LatentFactor{word}, ordinal, {shape}", LatentFactor(nominal(*sizes, kind=Ordinal), **own), levels(2000, *sizes))
    for size in (100, 1000, 11_000):
        fits(f"LatentFactor, stratify by {size}", LatentFactor(nominal(size, 50, 50), stratify="c0"), levels(2000, size, 50, 50))
    many = {f"c{k}": Continuous(0, 1) for k in range(600)}
    fits("LatentFactor, 600 continuous columns", LatentFactor(Schema(many)), lambda: pd.DataFrame(uniform(500, 600)(), columns=list(many)))
    fits("LatentFactor, 10^9 factors", LatentFactor(n_factors=10**9), uniform(500, 5))
    fits("LatentFactor, 10^9 factors, scores", LatentFactor(n_factors=10**9, strategy="scores"), uniform(500, 5))
    frame = lambda: pd.DataFrame({"when": pd.date_range("1900-01-01", periods=1000, freq="D"), "x": np.arange(1000) % 7})  # noqa: E731
    micro = Schema({"when": DateTime("1900-01-01", "2100-12-31", resolution="microsecond"), "x": Nominal(range(7))})
    fits("LatentFactor, microseconds of 200 years", LatentFactor(micro), frame)
    fits(
        "LatentFactor, days of 9999 years", LatentFactor(Schema({"when": Date("0001-01-01", "9999-12-31"), "x": Nominal(range(7))})), frame
    )
    fits("Online, 11,000 levels", Online(synthesizer=LatentFactor(nominal(11_000, 2))), levels(5000, 11_000, 2))

    def encoded(n, size):
        return lambda: MixedTypeEncoder(nominal(size)).fit_transform(levels(n, size)())

    for n, size in ((10_000, 100), (10_000, 10**4), (10_000, 10**5), (10**6, 10**3)):
        case(f"MixedTypeEncoder, {n} rows of {size} levels", encoded(n, size))
    twice = [*range(10**5), 0]
    case("Nominal, one of 10^5 levels twice", lambda: Nominal(twice))
    case("Ordinal, one of 10^5 levels twice", lambda: Ordinal(twice))
    text = json.dumps({"columns": [{"name": f"c{k}", "kind": "continuous", "low": 0, "high": 1} for k in range(30_000)]})
    case("Schema, 30,000 columns of JSON", lambda: Schema.from_json(text))
    centuries = {"resolution": "microsecond"}
    case("DateTime, microseconds of 9999 years", lambda: DateTime("0001-01-01", "9999-12-31", **centuries))
    case(
        "Schema, 30,000 columns to and from JSON",
        lambda: Schema.from_json(Schema(dict.fromkeys(range(30_000), Continuous(0, 1))).to_json()),
    )
    case("Schema of 3,000 columns from rows", lambda: Schema.skeleton(pd.DataFrame(uniform(50, 3000)())))


def streams():
    def fed(model, n, at_once, d=2, sample=True):
        def run():
            rows = np.random.default_rng(0).random((n, d))
            for start in range(0, n, at_once):
                model.partial_fit(rows[start : start + at_once])
            if sample:
                model.sample(100)

        return run

    for growth in (1.001, 1.25, 100.0, 1e9, "auto"):
        case(f"Online, growth {growth}, rows one by one", fed(Online(growth=growth), 10_000, 1))
    for window in (1, 100, 10**6, 10**15):
        case(f"Online, window {window}, rows one by one", fed(Online(window=window), 10_000, 1))
    for window, growth in ((1000, 1.001), (5, 1.25)):
        case(f"Online, window {window}, growth {growth}", fed(Online(window=window, growth=growth), 20_000, 50))
    for horizon in (1, 1000, 10**6, 10**9, 10**15, None):
        for counter in ("kary", "binary", "sparse"):
            for epsilon in (1, 1e9):
                model = Online("paper", horizon=horizon, counter=counter, epsilon=epsilon)
                case(f"Online paper, {counter}, horizon {horizon}, epsilon {epsilon:g}", fed(model, min(horizon or 500, 500), 50))
    case("Online paper, 50 columns", fed(Online("paper"), 200, 20, d=50))
    case("Online paper, 10^5 rows", fed(Online("paper"), 100_000, 1000, d=1))
    case("Online of PSMM, rows 100 at a time", fed(Online(synthesizer=PSMM()), 20_000, 100))
    case("Online of LatentFactor, rows 100 at a time", fed(Online(synthesizer=LatentFactor()), 5000, 100))
    for horizon in (10**6, 10**25 + 10**9, 2**62, 10**300):
        for kind in (KaryCounter, BinaryCounter, SparseCounter, SquareRootCounter):
            case(f"{kind.__name__}, horizon {horizon:.0e}", lambda kind=kind, horizon=horizon: counted(kind(horizon)))
    for size in (10**6, 10**9, 10**12):
        for kind in (KaryCounter, SquareRootCounter, SparseCounter):
            case(f"{kind.__name__} of {size:.0e}", lambda kind=kind, size=size: counted(kind(100, n_counters=size), size))
    case("KaryCounter, 10^5 steps", lambda: [c.update(1) or c.value for c in [KaryCounter(10**5)] for _ in range(10**5)])
    case("UnboundedCounter, 10^4 steps", lambda: [c.update(1) or c.value for c in [UnboundedCounter()] for _ in range(10**4)])
    case("SquareRootCounter, 5,000 steps", lambda: [c.update(1) or c.value for c in [SquareRootCounter(5000)] for _ in range(5000)])
    case("InhomogeneousCounter, every 10^9", lambda: counted(InhomogeneousCounter(every=10**9)))
    case("InhomogeneousCounter of 1e9", lambda: counted(InhomogeneousCounter(n_counters=10**9), 10**9))


def counted(counter, size=1):
    for _ in range(20):
        counter.update(np.ones(size, dtype=np.int64) if size > 1 else 1)
    return counter.value


def draws():
    fitted = {"PMM": PMM(), "PSMM": PSMM(), "LowDim": LowDim(1), "LatentFactor": LatentFactor(), "Online": Online()}
    for name, model in fitted.items():
        for size in (10**6, 10**9, 10**12, 10**19, 10**400):

            def run(model=model, size=size):
                model.fit(np.random.default_rng(0).random((500, 2))).sample(size)

            case(f"{name}, sample of 10^{len(str(size)) - 1}", run)
    case("PMM, batches of 10^12 rows", lambda: next(iter(PMM().fit(uniform(100, 2)()).sample_batches(10**12, batch_size=1000))))
    case("PMM, a batch of 10^12 rows", lambda: next(iter(PMM().fit(uniform(100, 2)()).sample_batches(10**12, batch_size=10**12))))
    case("PMM, 10^6 batches", lambda: sum(map(len, PMM().fit(uniform(100, 2)()).sample_batches(10**4, batch_size=1))))
    fits("PMM, 10^6 threads", PMM(n_jobs=10**6), uniform(10_000, 2))
    fits("LatentFactor, 10^6 threads", LatentFactor(n_jobs=10**6), uniform(1000, 4))
    fits("PMM, 10^6 rows a unit", PMM(max_rows_per_unit=10**6), uniform(1000, 2), unit=np.arange(1000) % 7)
    fits("PMM, 10^30 rows a unit", PMM(max_rows_per_unit=10**30), uniform(1000, 2), unit=np.arange(1000) % 7)
    rows = np.random.default_rng(0).random((2000, 6))
    model = LatentFactor().fit(rows)
    case("LatentFactor, intervals of 1000 refits", lambda: model.interval("means", n_refits=1000))
    case("LatentFactor, impute", lambda: model.impute(pd.DataFrame(rows, columns=list("abcdef"))))


def measures_and_metrics():
    def halves(k, metric="chebyshev"):
        grid = np.stack(np.meshgrid(*[np.arange(k)] * 2, indexing="ij"), -1).reshape(-1, 2).astype(float)
        mass = np.where(grid[:, 0] < k / 2, 1.0, -1.0)
        return lambda: nearest_probability_measure(grid, mass, metric, total=max(1.0, mass.sum()))

    for k in (45, 70, 100, 200, 400):
        case(f"nearest measure, half and half on {k} x {k}", halves(k))
    for metric in ("cityblock", "euclidean"):
        case(f"nearest measure, half and half on 45 x 45, {metric}", halves(45, metric))
    line, signs = np.arange(10.0**6)[:, None], np.random.default_rng(0).integers(-50, 50, size=10**6)
    for total in (1.0, 1e3, 1e9):
        case(f"nearest measure, 10^6 on a line, total {total:g}", lambda total=total: nearest_probability_measure(line, signs, total=total))
    case("nearest measure, 10^5 on a line", lambda: nearest_probability_measure(line[: 10**5], signs[: 10**5], total=1e9))
    box = Box(np.zeros(2), np.ones(2))
    case("BinaryPartition, depth 10^7", lambda: BinaryPartition(box, 10**7))
    case("BinaryPartition.sample, level 10^7", lambda: BinaryPartition(box, 8).sample(np.zeros(3, dtype=int), 10**7, check_rng(0)))
    case("Lattice, 10^12 cells", lambda: Lattice(box, (10**6, 10**6)).positions)
    case("Lattice, 10^30 cells", lambda: Lattice(box, (10**15, 10**15)).positions)
    X = np.random.default_rng(0).random((200_000, 3))
    case("wasserstein_distance, 200,000 rows", lambda: wasserstein_distance(X, X[::-1]))
    case("wasserstein_distance, max_samples 10^5", lambda: wasserstein_distance(X, X[::-1] ** 2, max_samples=10**5))
    case("sliced distance, 10^9 projections", lambda: sliced_wasserstein_distance(X, X, n_projections=10**9))
    case("sliced distance, 10^4 projections", lambda: sliced_wasserstein_distance(X, X, n_projections=10**4))
    wide = pd.DataFrame(RNG.integers(3, size=(500, 300)), columns=[f"c{k}" for k in range(300)])
    schema = nominal(*[3] * 300)
    for order in (1, 2, 3, 5, 300, 10**9):
        distance = lambda order=order: marginal_total_variation(wide, wide, schema, order)  # noqa: E731
        case(f"marginal_total_variation of 300 columns, order {order}", distance)
    tall = levels(2000, 11_000, 11_000)
    case("marginal_total_variation of 11,000 levels", lambda: marginal_total_variation(tall(), tall(), nominal(11_000, 11_000)))
    case("correlation_error of 11,000 levels", lambda: correlation_error(tall(), tall(), nominal(11_000, 11_000)))
    case("quality_report of 300 columns", lambda: quality_report(wide, wide, schema))
    case("captured_variance_ratio of 3,000 columns", lambda: captured_variance_ratio(uniform(50, 3000)(), np.eye(3000)[:5]))
    case("privacy_evidence, 20,000 rows", lambda: privacy_evidence(PMM().fit(X[:20_000]), X[:20_000], X[20_000:40_000]))


def budgets():
    def spends(count, loss):
        def run():
            budget = PrivacyAccountant(1e9, 0.5)
            for k in range(count):
                budget.spend(loss(k), name=f"{k}")
            return budget.spent

        return run

    case("accountant, 10,000 spends", spends(10_000, lambda k: 1e-3))
    case("accountant, 6,000 spends of different size", spends(6000, lambda k: 1e-3 + k * 1e-7))
    case("accountant, 3,000 spends of rho", spends(3000, lambda k: PrivacyLoss(rho=1e-6)))
    case("accountant, a split of 10^5", lambda: PrivacyAccountant(1.0).split([1] * 10**5))
    scales = 1 + np.arange(10**4) / 7
    case("DiscreteLaplace of 10^4 scales", lambda: DiscreteLaplace(scales).sample(10**4, check_rng(None)))
    case("DiscreteGaussian of 10^4 scales", lambda: DiscreteGaussian(scales).sample(10**4, check_rng(None)))
    for scale in (1e-9, 1e9, 1e17, 1e300):
        case(f"DiscreteLaplace, scale {scale:g}", lambda s=scale: DiscreteLaplace(s).sample(10**5, check_rng(None)))
        case(f"DiscreteGaussian, scale {scale:g}", lambda s=scale: DiscreteGaussian(s).sample(10**5, check_rng(None)))
    case("DiscreteLaplace, 10^12 values", lambda: DiscreteLaplace(1).sample(10**12, check_rng(None)))
    case("DiscreteMatrixLaplace, 1000 x 1000", lambda: DiscreteMatrixLaplace(5).sample((1000, 1000), check_rng(None)))
    fits("search, 200 candidates", PrivateSearchCV(PMM(), {"depth": list(range(1, 201))}), uniform(500, 2))
    case("plan, 10^12 rows", lambda: plan(PMM(), 10**12, n_features=2, time_limit=5))
    case("plan, 10^4 epsilons", lambda: plan(PMM(), 1000, n_features=2, epsilons=list(np.linspace(0.1, 10, 10**4)), time_limit=5))
    case("plan, 10^9 repeats", lambda: plan(PMM(), 1000, n_features=2, n_repeats=10**9, time_limit=5))
    case("worst_case_neighbors of 10^10", lambda: worst_case_neighbors(PMM(), 10**10))


def of_ours(error):
    """Whether an error was raised, as a sentence in one line, by a `raise` of ours or of scikit-learn's checks."""
    trace = error.__traceback__
    while trace.tb_next:
        trace = trace.tb_next
    file, line = trace.tb_frame.f_code.co_filename, trace.tb_lineno
    raised = linecache.getline(file, line).strip().startswith("raise")
    return file.startswith(OURS) and raised and "\n" not in str(error).strip()


def in_child(run, report):
    """Run a case under the limits, and write what came of it."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    sysconf = os.sysconf
    os.sysconf = lambda name: MEMORY // sysconf("SC_PAGE_SIZE") if name == "SC_PHYS_PAGES" else sysconf(name)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    said = os.fdopen(report, "w")
    os.dup2(said.fileno(), 1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            run()
            told = [str(w.message) for w in caught if "seed" not in str(w.message)]
            outcome = "warned: " + told[0][:110] if told else "served"
        except MemoryError:
            outcome = "MemoryError"
        except Exception as error:
            outcome = ("refused: " if of_ours(error) else f"FOREIGN {type(error).__name__}: ") + " ".join(str(error).split())[:150]
    print(outcome, flush=True)
    os._exit(0)


def watched(run, limit):
    """Run a case in a child; return (outcome, seconds of processor, MB at its peak)."""
    reads, writes = os.pipe()
    started, child = time.time(), os.fork()
    if not child:
        os.close(reads)
        os.setsid()  # so that its own children end with it
        in_child(run, writes)
    os.close(writes)
    ended = 0
    while not ended:
        ended, _, used = os.wait4(child, os.WNOHANG)
        if not ended:
            time.sleep(0.05)
            if processor_time(child) > limit or time.time() - started > 8 * limit:
                os.killpg(child, signal.SIGKILL)
                _, _, used = os.wait4(child, 0)
                return "HANG", time.time() - started, used.ru_maxrss / 1024
    with os.fdopen(reads) as pipe:
        said = pipe.read().strip()
    if said.startswith("SPENT"):
        said = "SPENT " + said[6:]
    return said or "CRASH", used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def processor_time(session):
    """Seconds of all processes of a session, and of their children that have ended."""
    total = 0
    for process in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open(f"/proc/{process}/stat") as file:
                values = file.read().rpartition(")")[2].split()
            if int(values[3]) == session:
                total += sum(map(int, values[11:15]))
    return total / os.sysconf("SC_CLK_TCK")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="cases with this word in their name")
    parser.add_argument("--after", help="cases after this one only")
    parser.add_argument("--limit", type=float, default=20.0, help="seconds of processor time")
    parser.add_argument("--slow", action="store_true", help="print only what fails or takes more than 5 s")
    wanted = parser.parse_args()
    for group in (sizes_of_rows, sizes_of_columns, epsilons, cells_and_depths, many_levels, streams, draws, measures_and_metrics, budgets):
        group()
    count, failed, slowest = Counter(), [], (0.0, "")
    names = list(CASES)
    for name in names[names.index(wanted.after) + 1 if wanted.after else 0 :]:
        if wanted.only not in name:
            continue
        run = CASES[name]
        outcome, seconds, memory = watched(run, wanted.limit)
        word = outcome.split()[0].rstrip(":")
        count[word] += 1
        bad = word not in ("served", "warned", "refused")
        failed += [name] * bad
        if outcome != "HANG":
            slowest = max(slowest, (seconds, name))
        if bad or not wanted.slow or seconds > 5:
            print(f"{name} | {seconds:.1f} s | {memory:.0f} MB | {outcome}", flush=True)
    print(f"{sum(count.values())} cases: " + ", ".join(f"{n} {word}" for word, n in count.most_common()) + f"; longest {slowest[0]:.1f} s")
    sys.exit(bool(failed))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
