"""How close audits come to the promised epsilon, and which faults they find.

    python benchmarks/audits.py [--share 1] [--repeats 20] [--audits 10] [--jobs 2] [--cases Counter]
        [--only faults tightness noise one-run]

*faults*: a count of rows with a fault is audited `repeats` times by 2,000 fits; the line says how often the promise was found broken. The
same count without a fault may be accused in 1 % of audits. *tightness*: our estimators at their worst pairs, as epsilon_lower / epsilon at
99 % confidence (for Gaussian noise mu_lower / mu), which must never be above 1. Each run is a whole fit on fresh noise up to its last
release (of a counter, all counts); the rest is post-processing. *noise*: the same for noise alone, as the values of the first fits with
fresh noise, by millions. *one-run*: audits by one fit, and the faults of a histogram that they find; one in a hundred of these may show
more than is promised, and they are counted.

The last number of a line is the elapsed time in seconds.
"""

import argparse
import itertools
import time
import warnings
from types import SimpleNamespace

import exact_losses
import numpy as np
import pandas as pd
from scipy.stats import binom
from sklearn.base import BaseEstimator

from skdpsynth import (
    AreaSynthesizer,
    LatentFactorSynthesizer,
    LinkedTablesSynthesizer,
    PrivateMeasureMechanism,
    PrivatePCA,
    SignedMeasureMechanism,
)
from skdpsynth.auditing import audit_epsilon, audit_one_run, isolated_canaries, worst_case_neighbors
from skdpsynth.auditing._neighbors import _loss as loss_between
from skdpsynth.auditing._neighbors import probe_runs
from skdpsynth.continual import BinaryCounter, KaryCounter, SquareRootCounter, UnboundedCounter
from skdpsynth.domain import Children, Hierarchy
from skdpsynth.fitting import Budget
from skdpsynth.privacy import DiscreteLaplace, PrivacyAccountant, PrivacyLoss, check_rng
from skdpsynth.synthesis._latent_high import ParitySearch
from skdpsynth.synthesis._latent_releases import GramRelease

TARGET, TARGET_OF_ONE = 0.9, 0.4
MAY_ERR = 0.01  # of audits at 99 % confidence: so many may show more than is promised
PAIR = {0: [0, 1], 1: [0, 1]}
WIDE_PAIR = {0: list(range(16)), 1: list(range(16))}  # with interactions, which few levels can only move where columns stay
BITS = {column: [0, 1] for column in range(4)}  # in one Gram matrix; the density of its noise is approximated from three rows on
THREE_BITS = {column: [0, 1] for column in range(3)}
SQUARE = ([0, 0], [1, 1])
DROP = {"neighboring": "add_or_remove_one"}
MOMENTS = {"center": "public", "max_norm": 1.0, "bounds": SQUARE}  # the second moment takes all of the budget
OF_LINE = {**MOMENTS, "bounds": ([0], [1])}
CASES = {  # what is audited, by how many runs, and whether it is to reach the target; what needs more is in NOISE_ALONE
    "PMM, depth 2": (PrivateMeasureMechanism("optimal", depth=2), 25_000, True),
    "PSMM, 2 cells": (SignedMeasureMechanism(2), 24_000, True),
    "PrivatePCA, d=1": (PrivatePCA(center="public"), 12_000, True),
    "PrivatePCA, d=1, Gaussian": (PrivatePCA(**OF_LINE, noise="gaussian", epsilon=8.0, delta=1e-5), 12_000, True),
    "PrivatePCA, d=2, Gaussian": (PrivatePCA(**MOMENTS, noise="gaussian", epsilon=8.0, delta=1e-5), 12_000, True),
    "BinaryCounter, 4 events": (BinaryCounter(4), 30_000, True),
    "KaryCounter, 4 events": (KaryCounter(4), 16_000, True),
    "SquareRootCounter, 4 events": (SquareRootCounter(4, rho=0.5), 15_000, True),
    "LatentFactor, one pair, add/remove": (LatentFactorSynthesizer(PAIR, epsilon=2.0, **DROP), 20_000, True),
    "LatentFactor, one pair, Gaussian": (LatentFactorSynthesizer(WIDE_PAIR, epsilon=2.0, delta=0.1), 16_000, True),
    "UnboundedCounter, 4 events": (UnboundedCounter(rho=0.5), 4_000, False),
}
NOISE_ALONE = {  # what is audited, and by how many draws
    "PMM, depth 2": (PrivateMeasureMechanism("optimal", depth=2), 1_000_000),
    "PSMM, 2 cells": (SignedMeasureMechanism(2), 1_000_000),
    "PrivatePCA, d=1": (PrivatePCA(center="public"), 1_000_000),
    "PrivatePCA, d=2, add/remove": (PrivatePCA(**MOMENTS, epsilon=2.0, **DROP), 2_000_000),
    "PrivatePCA, d=2, Gaussian": (PrivatePCA(**MOMENTS, noise="gaussian", epsilon=8.0, delta=1e-5), 1_000_000),
    "PrivatePCA, d=2, replace": (PrivatePCA(**MOMENTS, epsilon=3.0), 8_000_000),
    "LatentFactor, one pair": (LatentFactorSynthesizer(PAIR, epsilon=3.0), 2_000_000),
    "LatentFactor, one matrix, d=4": (LatentFactorSynthesizer(THREE_BITS, epsilon=3.0, **DROP), 2_000_000),
    "LatentFactor, one matrix, d=5": (LatentFactorSynthesizer(BITS, epsilon=3.0, **DROP), 8_000_000),
}
LEVELS = [f"level {number}" for number in range(64)]
ONE_RUN = {  # what is audited, by how many canaries, in how many fits
    "PSMM, 2048 cells": (SignedMeasureMechanism(2048), 1000, 1),
    "PSMM, 2048 cells, add/remove": (SignedMeasureMechanism(2048, **DROP), 2000, 1),
    "PMM, one pass, 2048 cells": (PrivateMeasureMechanism("optimal", depth=11, bounds=SQUARE), 1000, 1),
    "PMM, one pass, 16384 cells": (PrivateMeasureMechanism("optimal", depth=14, bounds=SQUARE), 8000, 1),
    "LatentFactor, 2 columns": (LatentFactorSynthesizer({0: LEVELS, 1: LEVELS}), 1200, 1),
    "LatentFactor, 2 columns, 5 fits": (LatentFactorSynthesizer({0: LEVELS, 1: LEVELS}), 1200, 5),
    "LatentFactor, 2 columns, delta=1e-6": (LatentFactorSynthesizer({0: LEVELS, 1: LEVELS}, delta=1e-6), 1200, 1),
    "LatentFactor, 3 columns, add/remove": (LatentFactorSynthesizer({0: LEVELS, 1: LEVELS, 2: LEVELS}, **DROP), 1200, 1),
}
N_CELLS = 2000
FAULTS = ("half of the noise", "noise of floats", "reused seed", "forgotten charge", "metadata of rows", "bounds of the rows")
ZEROS, ONE = np.zeros((4, 1)), np.array([[1.0], [0.0], [0.0], [0.0]])


class Gram:
    """Releases the Gram matrices of coded rows of which the last number is the class: fewer columns than fits put into one."""

    def __init__(self, sizes, n_classes, neighboring, epsilon):
        self.sizes, self.neighboring, self.epsilon = [*sizes, n_classes], neighboring, epsilon
        self.release = GramRelease.choose(self.sizes, PrivacyLoss(epsilon=epsilon), neighboring, 20)

    def __call__(self, X):
        budget = Budget(PrivacyAccountant(self.epsilon, neighboring=self.neighboring), check_rng(None))
        self.release.ask(rows_of_codes(X), budget, "matrix")
        return np.zeros(1)  # releases are seen at the door

    def neighbors(self):
        _, row, other = exact_losses.worst_rows(self.release.over, self.neighboring)
        rest = np.zeros((19, len(self.sizes)), dtype=np.int64)
        return np.vstack([rest, row]), rest if other is None else np.vstack([rest, other])


class Search(Budget):
    """A round of a search for parities of four columns of bits with a budget of its own, where 0 is expected of all."""

    def __init__(self, neighboring, epsilon):
        self.neighboring, self.epsilon, self.seen = neighboring, epsilon, []
        self.search = ParitySearch(tuple(range(4)), (3, 4), 1, PrivacyLoss(epsilon=epsilon))
        self.laws = [self.law(X) for X in self.neighbors()]

    def __call__(self, X):
        super().__init__(PrivacyAccountant(self.epsilon, neighboring=self.neighboring), check_rng(None))
        halves = {column: np.full((1, 2), 0.5) for column in range(4)}
        counted = SimpleNamespace(totals=np.ones(1), one_way=SimpleNamespace(tables=halves), schema=range(4), stratum=None)
        model = SimpleNamespace(parity_means=lambda signs, sets: np.zeros((1, sum(map(len, sets)))), with_parity=lambda signs, means: None)
        self.seen = []
        self.search.apply(rows_of_codes(X), counted, model, self)
        return self.seen

    def choose(self, *asked):
        self.seen.append(super().choose(*asked))
        return self.seen[-1]

    def answer(self, *asked):
        noisy = super().answer(*asked)
        self.seen.append(int(noisy[0]))
        return noisy

    def neighbors(self):
        """Two parities whose gaps are equal, or differ by as much as a row moves two of them together; others are near 0."""
        rows = exact_losses.CELLS
        signs = 1 - 2 * rows
        first, second = signs[:, [0, 1, 2]].prod(axis=1), signs[:, [0, 1, 3]].prod(axis=1)
        X = np.hstack([np.repeat(np.vstack([rows[first == 1], rows[second == 1]]), 10, axis=0), np.zeros((160, 1), dtype=int)])
        come, gone = (np.append(rows[(first == side) & (second == -side)][0], 0) for side in (-1, 1))
        place = np.flatnonzero((gone == X).all(axis=1))[0]
        return X, np.vstack([X if self.neighboring == exact_losses.AR else np.delete(X, place, axis=0), come])

    def law(self, X):
        """Logarithms of the probabilities of a choice, the sums, and the scale of their noise."""
        scale, noise, _ = exact_losses.plan(PrivacyLoss(epsilon=self.epsilon), self.neighboring, 1)
        sums = exact_losses.sums_of(X)
        return exact_losses.permute_and_flip(np.abs(sums)[None].astype(float), scale)[0], sums, float(noise.scale)

    def ratio(self, seen):
        place, noisy = seen
        first, other = (logs[place] - abs(noisy - sums[place]) / scale for logs, sums, scale in self.laws)
        return other - first


class Households(BaseEstimator):
    """Releases counts of households, from rows of one root each: its code, how many persons, and how many of these have code 1."""

    def __init__(self, most=3, neighboring="replace_one", epsilon=3.0, delta=0.0):
        self.most, self.neighboring, self.epsilon, self.delta = most, neighboring, epsilon, delta

    def fit(self, X, y=None):
        codes, sizes, ones = np.asarray(X, dtype=int).T
        owner = np.repeat(np.arange(len(sizes)), sizes)
        nth = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        tables = {"home": pd.DataFrame({"key": np.arange(len(sizes)), "code": codes})}
        tables["person"] = pd.DataFrame({"key": owner, "code": (nth < ones[owner]).astype(int)})
        model = LinkedTablesSynthesizer(
            {"home": {"code": [0, 1]}, "person": {"code": [0, 1]}},
            links=[Children("person", of="home", key="key", most=self.most)],
            epsilon=self.epsilon,
            delta=self.delta,
            neighboring=self.neighboring,
        )
        self.accountant_ = model.fit(tables).accountant_
        return self

    def neighbors(self):
        """Of all roots, the two between which the loss is largest, or the one that comes or goes; beside 200 others."""
        roots = [[code, size, ones] for code in (0, 1) for size in range(self.most + 1) for ones in range(size + 1)]
        rest = np.array(roots * (200 // len(roots)))
        others = [np.array([root]) for root in roots] if self.neighboring == exact_losses.RO else [np.empty((0, 3), dtype=int)]
        tables = [(np.vstack([rest, [root]]), np.vstack([rest, other])) for root, other in itertools.product(roots, others)]
        until = max(map(len, probe_runs(self, rest)[1]))
        losses = [loss_between(self, *pair, until) for pair in tables]
        if not self.delta:
            print(f"up to {self.most} persons, {self.neighboring}: some root loses {max(losses) / self.epsilon:.4f} of the promise")
        return tables[int(np.argmax(losses))]


class Areas(BaseEstimator):
    """Releases counts of areas by a column of two levels, and a model, from rows of two codes: the area of four, and the level."""

    def __init__(self, neighboring="replace_one", epsilon=3.0, delta=0.0):
        self.neighboring, self.epsilon, self.delta = neighboring, epsilon, delta

    def fit(self, X, y=None):
        table = pd.DataFrame(np.asarray(X, dtype=int), columns=["town", "sex"])
        places = Hierarchy(["county", "town"], {10: [0, 1], 11: [2, 3]})
        budget = {"epsilon": self.epsilon, "delta": self.delta, "neighboring": self.neighboring}
        self.accountant_ = AreaSynthesizer({"sex": [0, 1]}, places, by=["sex"], **budget).fit(table).accountant_
        return self

    def neighbors(self):
        """Return tables in which one row changes its area on each level and its code, or goes."""
        rest = np.array(list(itertools.product(range(4), range(2))) * 25)
        other = np.array([[3, 1]]) if self.neighboring == exact_losses.RO else np.empty((0, 2), dtype=int)
        return np.vstack([rest, [[0, 0]]]), np.vstack([rest, other])


def rows_of_codes(X):
    return SimpleNamespace(source=SimpleNamespace(aggregate=lambda rows, rule: rule.of(list(np.asarray(X).T))))


class Count(BaseEstimator):
    """Counts the rows above a bound, with a fault."""

    def __init__(self, fault=None, epsilon=1.0, neighboring="replace_one"):
        self.fault, self.epsilon, self.neighboring = fault, epsilon, neighboring

    def fit(self, X, y=None):
        rng = check_rng(7 if self.fault == "reused seed" else None)
        low = X.min() if self.fault == "bounds of the rows" else 0.0
        count = int(np.sum(low < X))
        noise = DiscreteLaplace(0.5 if self.fault == "half of the noise" else 1)
        self.count_ = count + (np.random.default_rng().laplace() if self.fault == "noise of floats" else int(noise.sample(1, rng)[0]))
        if self.fault == "forgotten charge":
            self.again_ = count + int(noise.sample(1, rng)[0])
        if self.fault == "metadata of rows":
            self.levels_ = np.unique(X)
        return self


def has_fine_bits(model):
    """Whether a small sum has bits that no sum with 1 has."""
    return abs(model.count_) < 0.5 and model.count_ * 2.0**53 % 1 != 0


class Cells(BaseEstimator):
    """Counts rows by cell, with a fault."""

    def __init__(self, fault=None, epsilon=1.0, neighboring="add_or_remove_one"):
        self.fault, self.epsilon, self.neighboring = fault, epsilon, neighboring

    def fit(self, X, y=None):
        rng = check_rng(7 if self.fault == "reused seed" else None)
        counts = np.bincount(X[:, 0].astype(int), minlength=N_CELLS)
        noise = DiscreteLaplace(0.5 if self.fault == "half of the noise" else 1)
        self.counts_ = counts + noise.sample(N_CELLS, rng)
        if self.fault == "noise of floats":
            self.counts_ = counts + np.random.default_rng().laplace(size=N_CELLS)
        if self.fault == "forgotten charge":
            self.counts_ = self.counts_ + counts + noise.sample(N_CELLS, rng)
        if self.fault == "metadata of rows":
            self.levels_ = np.unique(X).astype(int)
        return self


def score_of(fault):
    """What an auditor looks at who suspects this fault."""
    if fault == "reused seed":
        return lambda model: model.counts_ - DiscreteLaplace(1).sample(N_CELLS, check_rng(7))
    if fault == "noise of floats":
        return lambda model: np.where((abs(model.counts_) < 0.5) & (model.counts_ * 2.0**53 % 1 != 0), -9.0, model.counts_)
    if fault == "metadata of rows":
        return lambda model: np.isin(np.arange(N_CELLS), model.levels_)
    return lambda model: model.counts_


PARTS = {  # the same for parts of a fit, with the worst of all pairs of rows
    "Gram matrix, d=2, add/remove": (Gram((2, 1), 1, exact_losses.AR, 3.0), 1_000_000, "noise"),
    "Gram matrix, d=3, add/remove": (Gram((2, 2), 1, exact_losses.AR, 3.0), 2_000_000, "noise"),
    "Gram matrices of 2 classes, d=2": (Gram((2, 1), 2, exact_losses.RO, 3.0), 2_000_000, "noise"),
    "Gram matrix, d=2, replace": (Gram((2, 1), 1, exact_losses.RO, 3.0), 8_000_000, "noise"),
    "LinkedTables, replace": (Households(most=1, epsilon=2.5), 10_000_000, "noise"),
    "LinkedTables, add/remove": (Households(**DROP), 2_000_000, "noise"),
    "LinkedTables, Gaussian, replace": (Households(epsilon=1.0, delta=1e-6), 2_000_000, "noise"),
    "LinkedTables, Gaussian, add/remove": (Households(epsilon=0.5, delta=0.01, **DROP), 1_000_000, "noise"),
    "Areas, replace": (Areas(), 4_000_000, "noise"),
    "Areas, add/remove": (Areas(**DROP), 2_000_000, "noise"),
    "Areas, Gaussian, replace": (Areas(delta=1e-6), 2_000_000, "noise"),
    "Areas, Gaussian, add/remove": (Areas(delta=1e-6, **DROP), 2_000_000, "noise"),
    "ParitySearch, add/remove": (Search(exact_losses.AR, 3.0), 60_000, "ratio"),
    "ParitySearch, replace": (Search(exact_losses.RO, 3.0), 60_000, "ratio"),
}


def tightness(share, jobs, cases):
    print(f"{'':36}{'shown':>8}{'promised':>10}{'ratio':>8}{'guesses right':>18}{'s':>8}")
    for name, (audited, trials, is_goal) in CASES.items():
        if not any(part in name for part in cases):
            continue
        start = time.monotonic()
        pair = worst_case_neighbors(audited, 4 if "events" in name else 20)
        result = audit_epsilon(audited, *pair, "released", n_trials=max(40, int(trials * share)), n_jobs=jobs)
        report(name, result, time.monotonic() - start, TARGET if is_goal else 0)


def noise(share, jobs, cases):
    print(f"{'noise alone':36}{'shown':>8}{'promised':>10}{'ratio':>8}{'guesses right':>18}{'s':>8}")
    for name, (audited, trials) in NOISE_ALONE.items():
        if any(part in name for part in cases):
            start = time.monotonic()
            pair = worst_case_neighbors(audited, 20)
            result = audit_epsilon(audited, *pair, "noise", n_trials=max(40, int(trials * share)), n_jobs=jobs)
            report(name, result, time.monotonic() - start, TARGET)
    for name, (part, trials, event) in PARTS.items():
        if any(some in name for some in cases):
            start = time.monotonic()
            event = part.ratio if event == "ratio" else event
            result = audit_epsilon(part, *part.neighbors(), event, n_trials=max(40, int(trials * share)), n_jobs=jobs)
            report(name, result, time.monotonic() - start, TARGET)


def one_run(repeats, audits, cases):
    print(f"{'by one fit':36}{'mean ratio':>12}{'least':>8}{'largest':>8}{'above 1':>9}  of {audits}")
    for name, (audited, n, n_fits) in ONE_RUN.items():
        if not any(part in name for part in cases):
            continue
        results = (audit_one_run(audited, None, *isolated_canaries(audited, n), n_fits=n_fits) for _ in range(audits))
        ratios = [result.epsilon_lower / result.epsilon for result in results]
        above = sum(ratio > 1 for ratio in ratios)
        by_chance = above <= binom.ppf(0.999, audits, MAY_ERR)
        missed = "" if TARGET_OF_ONE <= np.mean(ratios) <= 1 and by_chance else f"  MISSED {TARGET_OF_ONE} to 1"
        print(f"{name:36}{np.mean(ratios):12.3f}{min(ratios):8.3f}{max(ratios):8.3f}{above:>9}{missed}", flush=True)
    rows = np.arange(N_CELLS, dtype=float)[:, None]
    for fault in (*FAULTS[:-1], None):
        score = score_of(fault)
        caught = sum(audit_one_run(Cells(fault), None, rows, score=score).is_broken for _ in range(repeats))
        say_caught(fault, caught, repeats)


def report(name, result, spent, target):
    shown, promised = (result.epsilon_lower, result.epsilon) if result.mu is None else (result.mu_lower, result.mu)
    right = f"{result.n_right} of {result.n_guesses}" if result.mu is None else f"{result.n_right_of_all} of {result.n_asked}"
    missed = "" if target <= shown / promised <= 1 else f"  MISSED {target} to 1"
    print(f"{name:36}{shown:8.3f}{promised:10.3f}{shown / promised:8.3f}{right:>18}{spent:8.1f}{missed}", flush=True)


def faults(repeats):
    for fault in (*FAULTS, None):
        pair = (ZEROS + 1, 1 - ONE) if fault == "bounds of the rows" else (ZEROS, ONE)
        event = has_fine_bits if fault == "noise of floats" else None
        caught = sum(audit_epsilon(Count(fault), *pair, event, n_trials=2000).is_broken for _ in range(repeats))
        say_caught(fault, caught, repeats)


def say_caught(fault, caught, repeats):
    missed = "" if caught == (repeats if fault else 0) else "  MISSED" if fault else "  accused"
    print(f"{fault or 'no fault':36}{caught:8} of {repeats}{missed}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--share", type=float, default=1.0, help="of the runs")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--audits", type=int, default=10, help="by one fit, of each model")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=["faults", "tightness", "noise", "one-run"])
    parser.add_argument("--cases", nargs="*", default=[""], help="those whose name holds one of these")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    begun = time.monotonic()
    if "faults" in arguments.only:
        faults(arguments.repeats)
    if "tightness" in arguments.only:
        tightness(arguments.share, arguments.jobs, arguments.cases)
    if "noise" in arguments.only:
        noise(arguments.share, arguments.jobs, arguments.cases)
    if "one-run" in arguments.only:
        one_run(arguments.repeats, arguments.audits, arguments.cases)
    print(f"{time.monotonic() - begun:.0f} s in all")
