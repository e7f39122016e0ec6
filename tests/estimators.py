"""The estimators that the laws of test_common hold for, and one without privacy that tells what it was given."""

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

import skdpsynth
from skdpsynth import (
    AreaSynthesizer,
    LatentFactorSynthesizer,
    LinkedTablesSynthesizer,
    LowDimSynthesizer,
    OnlineSynthesizer,
    PrivateMeasureMechanism,
    PrivatePCA,
    SignedMeasureMechanism,
)
from skdpsynth.domain import Children, Continuous, Nominal
from skdpsynth.persistence import savable


def public_estimators():
    """Every public estimator class of the package, found by its base."""
    classes = [getattr(skdpsynth, name) for name in skdpsynth.__all__]
    return [cls for cls in classes if isinstance(cls, type) and issubclass(cls, BaseEstimator)]


def all_estimators():
    """Those that take one table, and need to be told nothing."""
    return [cls for cls in public_estimators() if cls is not LinkedTablesSynthesizer]


def variants():
    """Every estimator as it is, and with settings that take a path of their own, by name."""
    return {
        **{cls.__name__: cls() for cls in all_estimators()},
        "PrivatePCA-public": PrivatePCA(1, center="public"),
        "PrivatePCA-auto": PrivatePCA("auto"),
        "PrivatePCA-gaussian": PrivatePCA(noise="gaussian", delta=1e-6),
        "PrivatePCA-laplace": PrivatePCA(noise="laplace"),
        "PrivatePCA-private-bounds": PrivatePCA(bounds="private", noise="gaussian", delta=1e-6),
        "PMM-adaptive": PrivateMeasureMechanism("adaptive"),
        "PMM-optimal": PrivateMeasureMechanism("optimal"),
        "PMM-paper": PrivateMeasureMechanism("paper"),
        "PMM-add_or_remove_one": PrivateMeasureMechanism(neighboring="add_or_remove_one"),
        "PMM-optimal-add_or_remove_one": PrivateMeasureMechanism("optimal", neighboring="add_or_remove_one"),
        "PMM-paper-add_or_remove_one": PrivateMeasureMechanism("paper", neighboring="add_or_remove_one"),
        "PMM-private-bounds-add_or_remove_one": PrivateMeasureMechanism(bounds="private", neighboring="add_or_remove_one"),
        "PSMM-private-bounds": SignedMeasureMechanism(bounds="private"),
        "PSMM-cells-cityblock": SignedMeasureMechanism(50, metric="cityblock"),
        "PSMM-two-cells": SignedMeasureMechanism(2),
        "PSMM-add_or_remove_one": SignedMeasureMechanism(metric="euclidean", neighboring="add_or_remove_one"),
        "LowDim-psmm": LowDimSynthesizer(2, synthesizer="psmm"),
        "LowDim-1": LowDimSynthesizer(1),
        "LowDim-private": LowDimSynthesizer(2, center="private"),
        "LowDim-ranges": LowDimSynthesizer(2, epsilon=500),  # few rows show their ranges, and their distances, at so large a budget
        "LowDim-add_or_remove_one": LowDimSynthesizer(2, neighboring="add_or_remove_one"),
        "LowDim-ranges-add_or_remove_one": LowDimSynthesizer(1, epsilon=500, neighboring="add_or_remove_one"),
        "LowDim-psmm-add_or_remove_one": LowDimSynthesizer(2, synthesizer="psmm", neighboring="add_or_remove_one"),
        "LowDim-inner": LowDimSynthesizer(2, synthesizer=PrivateMeasureMechanism("optimal")),
        "LowDim-private-bounds": LowDimSynthesizer(1, bounds="private"),
        "LatentFactor-private-bounds": LatentFactorSynthesizer(bounds="private", delta=1e-6),
        "LatentFactor-add_or_remove_one": LatentFactorSynthesizer(neighboring="add_or_remove_one"),
        "Area-add_or_remove_one": AreaSynthesizer(neighboring="add_or_remove_one"),
        "LatentFactor-scores": LatentFactorSynthesizer(strategy="scores"),
        "LatentFactor-scores-pmm": LatentFactorSynthesizer(strategy="scores", synthesizer="pmm"),
        "LatentFactor-scores-add_or_remove_one": LatentFactorSynthesizer(strategy="scores", neighboring="add_or_remove_one"),
        "LatentFactor-scores-pmm-add_or_remove_one": LatentFactorSynthesizer(
            strategy="scores", synthesizer="pmm", neighboring="add_or_remove_one"
        ),
        "Online-paper": OnlineSynthesizer("paper"),
        "Online-paper-sparse": OnlineSynthesizer("paper", counter="sparse"),
        "Online-auto-window": OnlineSynthesizer(growth="auto", window=10_000),
        "Online-add_or_remove_one": OnlineSynthesizer(neighboring="add_or_remove_one"),
        "Online-auto-window-add_or_remove_one": OnlineSynthesizer(growth="auto", window=5, neighboring="add_or_remove_one"),
        "Online-paper-add_or_remove_one": OnlineSynthesizer("paper", neighboring="add_or_remove_one"),
        "Online-paper-sparse-add_or_remove_one": OnlineSynthesizer("paper", counter="sparse", neighboring="add_or_remove_one"),
    }


def households(n=80, seed=0):
    """Households that have no persons, one, or more than count, and trips of persons in order of time; by name."""
    rng = np.random.default_rng(seed)
    region = rng.choice(["north", "south"], n)
    household = pd.DataFrame({"household_id": rng.permutation(n) + 100, "region": region, "income": rng.gamma(2.0, 10.0, n)})
    owner = np.sort(rng.choice(household["household_id"], 2 * n))
    lives = region[np.argsort(household["household_id"])][owner - 100]
    works = np.where(rng.random(2 * n) < 0.8, lives == "north", rng.random(2 * n) < 0.5)
    number = np.arange(2 * n) - np.searchsorted(owner, owner)
    relation = np.where(number == 0, "head", rng.choice(["child", "other"], 2 * n))
    person = pd.DataFrame({"household_id": owner, "person_no": number, "age": rng.integers(0, 99, 2 * n), "works": works})
    person["relation"] = relation
    who = np.sort(rng.integers(0, 2 * n, 3 * n))
    trip = person[["household_id", "person_no"]].iloc[who].reset_index(drop=True)
    trip = trip.assign(depart=rng.random(3 * n) * 24, mode=np.where(person["works"].to_numpy()[who], "car", "bus"))
    return {"household": household, "person": person, "trip": trip}


HOUSEHOLDS = {
    "household": {"region": ["north", "south"], "income": (0.0, 100.0)},
    "person": {"age": (0, 99), "works": [False, True], "relation": ["head", "child", "other"]},
    "trip": {"depart": (0.0, 24.0), "mode": ["car", "bus"]},
}
PERSONS = Children("person", of="household", key="household_id", most=3)
TRIPS = Children("trip", of="person", key=("household_id", "person_no"), most=2, order="depart")


def linked_variants():
    """Synthesizers of linked tables, with tables, by name."""
    two = {name: HOUSEHOLDS[name] for name in ("household", "person")}
    head = Children("person", of="household", key="household_id", most=4, least=1, head={"relation": "head"})
    unknown = {
        "household": {"region": Nominal("private"), "income": Continuous(bounds="private")},
        "person": {**HOUSEHOLDS["person"], "age": Continuous(bounds="private"), "works": Nominal("private")},
    }
    made = {
        "LinkedTablesSynthesizer": LinkedTablesSynthesizer(two, links=[PERSONS]),
        "Linked-head-delta": LinkedTablesSynthesizer(two, links=[head], delta=1e-6),
        "Linked-private-facts-add_or_remove_one": LinkedTablesSynthesizer(
            unknown, links=[head], delta=1e-6, neighboring="add_or_remove_one"
        ),
        "Linked-history-add_or_remove_one": LinkedTablesSynthesizer(HOUSEHOLDS, links=[TRIPS, PERSONS], neighboring="add_or_remove_one"),
    }
    tables = households()
    pair = {"household": tables["household"], "person": tables["person"].drop(columns="person_no")}
    return {name: (estimator, tables if "trip" in estimator.schemas else pair) for name, estimator in made.items()}


@savable
class Recorder(BaseEstimator):
    """No privacy at all: tells which rows it was given, and repeats the first of them. Fails where it is told to."""

    seen: list = []  # noqa: RUF012
    failing: list = []  # noqa: RUF012

    def __init__(self, epsilon=1.0, delta=0.0, bounds=(0, 1), neighboring="replace_one", accountant=None, random_state=None):
        self.epsilon, self.delta, self.bounds, self.neighboring = epsilon, delta, bounds, neighboring
        self.accountant, self.random_state = accountant, random_state

    def fit(self, X, y=None):
        self.first_ = np.asarray(X, dtype=float)[:1]
        if self.accountant is not None:  # else it is a rehearsal
            Recorder.seen.append(np.asarray(X, dtype=float))
            if Recorder.failing:
                raise Recorder.failing.pop()
        return self

    def sample(self, n_samples, random_state=None):
        return np.repeat(self.first_, n_samples, axis=0)


def clock(n, d=1):
    """A stream that tells the time: row t holds (t + 1/2) / n."""
    return np.repeat((np.arange(n) + 0.5)[:, None] / n, d, axis=1)
