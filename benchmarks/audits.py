"""How near audits come to what is promised, and which faults they find.

    python benchmarks/audits.py [--trials 40000] [--repeats 20] [--jobs 2]

First a count of rows with a fault, audited `repeats` times by 2,000 fits: how often the promise was found broken; and the same count
without one, which may be accused in 1 % of audits. Then our estimators at their worst pairs: epsilon_lower / epsilon at 99 % confidence
(for Gaussian noise mu_lower / mu), which must never be above 1.

The model of a latent factor fit is given few steps, because it is post-processing: releases are what they are.
"""

import argparse
import time
import warnings

import numpy as np
from sklearn.base import BaseEstimator

from skdpsynth import LatentFactorSynthesizer, PrivateMeasureMechanism, PrivatePCA, SignedMeasureMechanism
from skdpsynth.auditing import audit_epsilon, worst_case_neighbors
from skdpsynth.continual import BinaryCounter
from skdpsynth.models import _latent_factors
from skdpsynth.privacy import DiscreteLaplace, check_rng

TARGET = 0.9
PAIR = {0: [0, 1], 1: [0, 1]}
CASES = {
    "PMM, depth 2": PrivateMeasureMechanism("optimal", depth=2),
    "PMM, depth 2, adaptive": PrivateMeasureMechanism("adaptive", depth=2),
    "PSMM, 2 cells": SignedMeasureMechanism(2),
    "PrivatePCA, d=1, public centre": PrivatePCA(center="public"),
    "PrivatePCA, d=1, private centre": PrivatePCA(),
    "PrivatePCA, d=1, Gaussian": PrivatePCA(center="public", noise="gaussian", epsilon=8.0, delta=1e-5),
    "LatentFactor, one pair": LatentFactorSynthesizer(PAIR),
}
FAULTS = ("half of the noise", "noise of floats", "reused seed", "forgotten charge", "metadata of rows", "bounds of the rows")
ZEROS, ONE = np.zeros((4, 1)), np.array([[1.0], [0.0], [0.0], [0.0]])


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


def counted(events):
    """What a counter has released after each of four events."""
    counter, values = BinaryCounter(len(events)), []
    for event in events[:, 0].astype(int):
        counter.update(event)
        values.append(counter.value.copy())
    return np.concatenate(values)


def tightness(trials, jobs):
    print(f"{'':34}{'shown':>8}{'promised':>10}{'ratio':>8}{'guesses right':>18}{'s':>8}")
    for name, estimator in CASES.items():
        report(name, estimator, worst_case_neighbors(estimator, 40), trials, jobs)
    report("BinaryCounter, 4 events", counted, (ZEROS, ONE), trials, jobs, epsilon=1.0)


def report(name, mechanism, pair, trials, jobs, **promise):
    start = time.perf_counter()
    result = audit_epsilon(mechanism, *pair, n_trials=trials, n_jobs=jobs, **promise)
    shown, promised = (result.epsilon_lower, result.epsilon) if result.mu is None else (result.mu_lower, result.mu)
    right = f"{result.n_right} of {result.n_guesses}" if result.mu is None else f"{result.n_right_of_all} of {result.n_runs}"
    missed = "" if TARGET <= shown / promised <= 1 else f"  MISSED {TARGET} to 1"
    seconds = time.perf_counter() - start
    print(f"{name:34}{shown:8.3f}{promised:10.3f}{shown / promised:8.3f}{right:>18}{seconds:8.0f}{missed}", flush=True)


def faults(repeats):
    for fault in (*FAULTS, None):
        pair = (ZEROS + 1, 1 - ONE) if fault == "bounds of the rows" else (ZEROS, ONE)
        event = has_fine_bits if fault == "noise of floats" else None
        caught = sum(audit_epsilon(Count(fault), *pair, event, n_trials=2000).is_broken for _ in range(repeats))
        missed = "" if caught == (repeats if fault else 0) else "  MISSED" if fault else "  accused"
        print(f"{fault or 'no fault':34}{caught:8} of {repeats}{missed}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=40_000)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    _latent_factors._STEPS = 5
    faults(arguments.repeats)
    tightness(arguments.trials, arguments.jobs)
