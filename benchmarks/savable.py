"""One small object of everything that can be saved: the files that `hostile_files.py` edits."""

from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import polars as pl

from skdpsynth import (
    LatentFactorSynthesizer,
    LinkedTablesSynthesizer,
    LowDimSynthesizer,
    OnlineSynthesizer,
    PrivacyAccountant,
    PrivateMeasureMechanism,
    PrivatePCA,
    SignedMeasureMechanism,
    continual,
    domain,
)
from skdpsynth.measures import nearest_probability_measure
from skdpsynth.model_selection import PrivateSearchCV

RNG = np.random.default_rng(0)
N = 300
X = RNG.random((N, 2))
FRAME = pd.DataFrame({"a": pd.array(RNG.integers(0, 9, N), dtype="Int8"), "b": X[:, 0].astype(np.float32)})
BOUNDS = {"a": (0, 8), "b": (0.0, 1.0)}
SCHEMA = domain.Schema(
    {
        "number": domain.Identifier(),
        "age": (0, 99),
        "weight": domain.Continuous(0.0, 150.0, nullable=True),
        "ill": ["no", "yes"],
        "ward": domain.Nominal([*"abcdef"], groups=[*"xxyyzz"]),
        "stage": domain.Ordinal(["a", "b", "c"], nullable=True),
        "visit": domain.Date("2020-01-01", "2021-12-31"),
        "left": domain.DateTime("2020-01-01", "2021-12-31T23:59:59", resolution="hour"),
        "part": (0, 50),
        "rest": (0, 50),
        "whole": (0, 100),
    },
    rules=[
        domain.Inequality("visit", "left"),
        domain.Sum(["part", "rest"], "whole"),
        domain.Impossible({"ill": "no", "ward": ["e", "f"]}),
        domain.Determines("ward", "stage", {"a": "a", "b": "a", "c": "b", "d": "b", "e": "c", "f": "c"}),
    ],
)


def patients():
    age, part, rest = RNG.integers(0, 100, N), RNG.integers(0, 51, N), RNG.integers(0, 51, N)
    visit = np.datetime64("2020-01-01") + RNG.integers(0, 700, N)
    ward = RNG.choice([*"abcdef"], N)
    return pd.DataFrame(
        {
            "number": np.arange(N),
            "age": age,
            "weight": np.where(RNG.random(N) < 0.1, np.nan, 40 + age / 3),
            "ill": np.where(np.isin(ward, ["e", "f"]) | (RNG.random(N) < age / 150), "yes", "no"),
            "ward": ward,
            "stage": pd.Series(ward).map(dict(zip("abcdef", "aabbcc", strict=True))),
            "visit": visit,
            "left": visit.astype("M8[h]") + RNG.integers(0, 200, N),
            "part": part,
            "rest": rest,
            "whole": part + rest,
        }
    )


NEAR = domain.Schema(
    {
        "begin": domain.Date("2010-01-01", "2024-12-31"),
        "end": domain.Date("2010-01-01", "2024-12-31", nullable=True),
        "pulse": domain.Continuous(20.0, 140.0, nullable=True),
        "again": domain.Continuous(20.0, 140.0, nullable=True),
    },
    rules=[domain.Inequality("begin", "end"), domain.MissingTogether(["pulse", "again"])],
)


def stays():
    begin, pulse = np.datetime64("2010-01-01") + RNG.integers(0, 5000, 4 * N), 60 + 20 * RNG.random(4 * N)
    return pd.DataFrame({"begin": begin, "end": begin + RNG.integers(0, 9, 4 * N), "pulse": pulse, "again": pulse + RNG.random(4 * N)})


def estimators():
    """Name, unfitted estimator, table."""
    table, numbers = patients(), pl.DataFrame({"a": RNG.integers(0, 9, N), "b": X[:, 0]})
    yield from (
        ("pca", PrivatePCA(2), X),
        ("pca-gaussian", PrivatePCA("auto", center="public", noise="gaussian", delta=1e-6, bounds=BOUNDS), FRAME),
        ("pmm-adaptive", PrivateMeasureMechanism("adaptive", epsilon=Fraction(1, 3)), X),
        ("pmm-optimal", PrivateMeasureMechanism("optimal", depth=5, bounds=BOUNDS), FRAME),
        ("pmm-paper", PrivateMeasureMechanism("paper", depth=4, neighboring="add_or_remove_one"), X),
        ("pmm-private-bounds", PrivateMeasureMechanism(depth=4, bounds="private"), X),
        ("pmm-shared", PrivateMeasureMechanism(depth=3, accountant=PrivacyAccountant(3), bounds=BOUNDS), numbers),
        ("psmm", SignedMeasureMechanism(30), X),
        ("psmm-cells", SignedMeasureMechanism(cells=RNG.random((9, 2)), metric="euclidean"), X),
        ("low-dim", LowDimSynthesizer(1), X),
        ("low-dim-psmm", LowDimSynthesizer(2, synthesizer="psmm", center="private", bounds=BOUNDS), FRAME),
        ("low-dim-ranges", LowDimSynthesizer(1, epsilon=500, synthesizer=PrivateMeasureMechanism("optimal", depth=4)), X),
        ("latent", LatentFactorSynthesizer(n_factors=1), X),
        ("latent-table", LatentFactorSynthesizer(SCHEMA, stratify="ill", n_factors=2, delta=1e-6), table),
        ("latent-bought", LatentFactorSynthesizer(n_factors=1, bounds="private", delta=1e-6), X),
        ("latent-near", LatentFactorSynthesizer(NEAR, n_factors=1, epsilon=20, delta=1e-6), stays()),
        ("latent-scores", LatentFactorSynthesizer(strategy="scores"), X),
        ("latent-scores-pmm", LatentFactorSynthesizer(strategy="scores", synthesizer="pmm"), X),
        ("latent-wide", LatentFactorSynthesizer(n_factors=1, epsilon=5), RNG.random((N, 12))),
        ("online", OnlineSynthesizer(), X),
        ("online-window", OnlineSynthesizer(growth="auto", window=100, bounds=BOUNDS), FRAME),
        ("online-low-dim", OnlineSynthesizer(synthesizer=LowDimSynthesizer(1)), X),
        ("online-latent", OnlineSynthesizer(synthesizer=LatentFactorSynthesizer(n_factors=1)), X),
        ("online-paper", OnlineSynthesizer("paper"), X),
        ("online-paper-binary", OnlineSynthesizer("paper", counter="binary"), X),
        ("online-paper-sparse", OnlineSynthesizer("paper", counter="sparse"), X),
        ("search", PrivateSearchCV(PrivateMeasureMechanism(), {"depth": [2, 3]}, epsilon=2), X),
        ("linked", LinkedTablesSynthesizer(LINKED, epsilon=20, delta=1e-6), homes()),
        ("unfitted", LowDimSynthesizer(synthesizer=PrivateMeasureMechanism("optimal")), None),
    )


LINKED = domain.LinkedSchema(
    {
        "home": {"region": ["north", "south"], "rent": (0.0, 100.0), "total": (0, 90)},
        "person": {"role": ["head", "child"], "age": (0, 99)},
        "car": {"power": (0, 30)},
        "stay": {"begin": domain.Date("2020-01-01", "2021-12-31"), "end": domain.Date("2020-01-01", "2021-12-31"), "ill": [False, True]},
        "year": {"wave": (2000, 2002), "wage": (0.0, 9.0)},
    },
    [
        domain.Children("person", of="home", key="id", most=4, least=1, head={"role": "head"}),
        domain.Children("car", of="home", key="id", most=3),
        domain.Children("stay", of="home", key=[("home", "id")], most=3, order="begin", until="end"),
        domain.Children("year", of="home", key="id", most=3, least=3, order="wave", grid=[2000, 2001, 2002]),
    ],
    [
        domain.Compared("person.age", "<=", "person.head.age", where={"role": "child"}),
        domain.Total("home.total", "sum(car.power)"),
    ],
)


def homes():
    """Return linked tables of 60 homes."""
    owner = {name: np.sort(RNG.integers(0, 60, 90)) for name in ("person", "car", "stay", "year")}
    begin = np.datetime64("2020-01-01") + RNG.integers(0, 600, 90)
    return {
        "home": pd.DataFrame({"id": np.arange(60), "region": RNG.choice(["north", "south"], 60), "rent": RNG.random(60), "total": 0}),
        "person": pd.DataFrame({"id": owner["person"], "role": RNG.choice(["head", "child"], 90), "age": RNG.integers(0, 99, 90)}),
        "car": pl.DataFrame({"id": owner["car"].astype(str), "power": RNG.integers(0, 30, 90)}),
        "stay": pd.DataFrame({"home": owner["stay"], "begin": begin, "end": begin + RNG.integers(0, 90, 90), "ill": begin > begin[0]}),
        "year": pd.DataFrame({"id": owner["year"], "wave": RNG.integers(2000, 2003, 90), "wage": RNG.random(90)}),
    }


def counters():
    yield from (
        ("counter-binary", continual.BinaryCounter(60, n_counters=2, sensitivity=2)),
        ("counter-kary", continual.KaryCounter(60, n_counters=2)),
        ("counter-square-root", continual.SquareRootCounter(60, rho=0.5, n_counters=2)),
        ("counter-unbounded", continual.UnboundedCounter(rho=0.5)),
        ("counter-sparse", continual.SparseCounter(60, epsilon=50.0, n_counters=2)),
    )


def counted(counter):
    for step in range(27):
        counter.update_cells([step % counter.n_counters]) if counter.n_counters > 1 else counter.update(1)
        _ = counter.value
    return counter


def counted_levels():
    levels = continual.InhomogeneousCounter("kary", n_counters=3, history=[4, 0, 1])
    levels.start_level(10, 10.0, PrivacyAccountant(20), None)
    levels.update_cells(RNG.integers(0, 3, 8))
    return levels


def accountant():
    account = PrivacyAccountant(2, 1e-6)
    account.spend(0.5, name="a number")
    account.child(1, name="a part", group="parts").spend(1, name="within")
    return account


DERIVED = {"a": (0, 9), "b": ["x", "y"], "note": domain.Text(), "c": domain.Derived("a * 2", (0, 18))}


def things():
    """Yield names, and what makes an object of each."""
    for name, estimator, table in estimators():
        yield name, (lambda estimator=estimator: estimator) if table is None else partial(estimator.fit, table)
    for name, counter in counters():
        yield name, partial(counted, counter)
    yield "counter-levels", counted_levels
    yield "accountant", lambda: accountant().record()
    yield "risk", lambda: accountant().risk(0.01)
    yield "schema", lambda: SCHEMA
    yield "linked-schema", lambda: LINKED
    yield "schema-derived", lambda: domain.Schema(DERIVED, rules=[domain.Unique(["a", "b"])])
    yield "encoder", lambda: domain.MixedTypeEncoder(NEAR).fit(stays())
    yield "box", lambda: domain.Box([0, 1], [2, 3])
    yield "measure", lambda: nearest_probability_measure(X[:5], np.array([0.5, 0.4, -0.1, 0.1, 0.1]))
