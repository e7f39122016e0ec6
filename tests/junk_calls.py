"""Every public function, class and method, found by what the rooms export, with good arguments of which any may be replaced by junk.

A new callable is tried as it stands: its arguments are those of its signature. One without a default needs a good value in `GOOD`.
"""

import functools
import inspect
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from estimators import all_estimators
from hypothesis import strategies as st
from internals import _latent_factors, _training
from junk_judge import copied, odd_settings
from junk_values import CALLABLE, JUNK
from sklearn.tree import DecisionTreeClassifier

from skdpsynth import (
    AreaSynthesizer,
    LatentFactorSynthesizer,
    LinkedTablesSynthesizer,
    PrivacyAccountant,
    PrivateMeasureMechanism,
    auditing,
    continual,
    domain,
    federated,
    measures,
    metrics,
    model_selection,
    models,
    persistence,
    plotting,
    privacy,
    report,
    statistics,
    synthesis,
    testing,
)

FOLDER = Path(tempfile.mkdtemp(prefix="junk"))
MODES = ("plain", "assume_finite", "warnings", "seterr")


@dataclass
class Call:
    """One callable: how to make it anew (with what its budget has spent), and good arguments, some of which take junk."""

    group: str
    name: str
    make: Callable[[], Any]
    arguments: dict[str, Any]

    @property
    def slow(self):
        """Whether it takes some tenths of a second."""
        return self.group in ("pictures and cards", "cards") or self.name.rpartition(".")[2] in SLOW

    def junk_for(self, argument):
        """Names of what is junk for an argument; what calls functions of a caller passes on their errors."""
        many = "whole numbers: int 2147483648"  # draws may be asked for in earnest, and take their time
        return [name for name in JUNK if not (argument in CALLED and name in CALLABLE) and not (argument == "size" and name == many)]

    def __str__(self):
        return f"{self.group}: {self.name}"


SLOW = {
    "interval",
    "bootstrap_tables",
    "quality_report",
    "linked_evidence",
    "linked_report",
    "evaluate",
    "plan",
    "plot",
    "audit_epsilon",
    "audit_one_run",
    "privacy_evidence",
}
CALLED = {"error", "statistic", "scoring", "event", "ask", "score"}
WRITTEN = ("scratch", "out")  # arguments that results are written to
ROOMS = {
    "accountants": (privacy, ["PrivacyAccountant"]),
    "noise and losses": (privacy, [name for name in privacy.__all__ if name != "PrivacyAccountant"]),
    "counters": (continual, continual.__all__),
    "domain": (domain, domain.__all__),
    "measures": (measures, measures.__all__),
    "metrics": (metrics, metrics.__all__),
    "planning": (model_selection, ["plan", "SpendingPlan", "fit_to_error"]),
    "audits": (auditing, auditing.__all__),
    "pictures and cards": (plotting, plotting.__all__),
    "cards": (report, report.__all__),
    "sites": (federated, federated.__all__),
    "files": (persistence, persistence.__all__),
    "laws": (testing, testing.__all__),
    "bricks": (statistics, ["Sensitivity", "Query", "Histogram", "Marginals"]),
    "bricks of models": (models, ["Link"]),
    "bricks of samples": (synthesis, ["Interval"]),
}
# Results, which the package makes and a person reads; what mechanisms and sites say to each other; laws, whose errors are findings.
MADE = {
    *(
        "AuditResult",
        "ErrorFit",
        "Gap",
        "PrivacyEvidence",
        "LinkedReport",
        "QualityReport",
        "SpendingPlan",
        "CardFacts",
        "Check",
        "Page",
        "Card",
    ),
    *("Guesses", "Question", "AuditDisplay", "BudgetDisplay", "EvidenceDisplay", "MeasureDisplay", "PlanDisplay", "PrivatePCADisplay"),
    *("StreamDisplay", "SynthesisDisplay", "Marginals", "Link"),
}
OF_MECHANISMS = {
    *("Question.of", "Sites.ask", "Sites.chunks", "RemoteRows.ask", "RemoteRows.chunks", "PartialSums.ask", "PartialSums.chunks"),
    *(f"{name}.{each}" for name in ("Sites", "RemoteRows", "PartialSums") for each in ("aggregate", "session")),
    *("Box.steps", "Box.column_steps", "Box.chunks", "Box.scratch"),
    *("Histogram.over_refined", "Histogram.query_of_first", "Marginals.filled", "Link.weighed", "AuditDisplay.from_results"),
    "CardFacts.of",
}


def rows(n=60):
    return np.random.default_rng(0).random((n, 2))


def people(n=60):
    rng = np.random.default_rng(0)
    return pd.DataFrame({"age": rng.integers(0, 99, n), "job": rng.choice(["nurse", "cook"], n), "income": rng.random(n)})


SCHEMA = {"age": domain.Continuous(0, 99), "job": domain.Nominal(["cook", "nurse"]), "income": domain.Continuous(0.0, 1.0)}
JOBS, BELOW = domain.Hierarchy(["job"], ["cook", "nurse"]), {name: SCHEMA[name] for name in ("age", "income")}
GRID = domain.PointGrid({"lat": (0, 1), "long": (0, 1)}, 2)
POINTS = pd.DataFrame(rows(), columns=["lat", "long"])
TABLES = {
    "schemas": {"household": {"region": ["a", "b"]}, "person": SCHEMA},
    "links": [domain.Children("person", of="household", key="id", most=3)],
}
ROWS_OF_TABLES = {
    "household": pd.DataFrame({"id": np.arange(9), "region": ["a", "b", "a"] * 3}),
    "person": people().assign(id=np.arange(60) % 9),
}
ENOUGH_ROOTS = {
    "household": pd.DataFrame({"id": np.arange(25), "region": ["a", "b", "a", "b", "a"] * 5}),
    "person": people().assign(id=np.arange(60) % 25),
}
SEARCH = functools.partial(model_selection.PrivateSearchCV, estimator=PrivateMeasureMechanism(depth=2), param_grid={"depth": [1, 2]})
ESTIMATORS = {
    **{cls.__name__: cls for cls in all_estimators()},
    "LatentFactorSynthesizer": functools.partial(LatentFactorSynthesizer, n_factors=1),
    "LatentFactorSynthesizer(schema)": functools.partial(LatentFactorSynthesizer, schema=SCHEMA, n_factors=1),
    "LatentFactorSynthesizer(schema, weights)": functools.partial(LatentFactorSynthesizer, schema=SCHEMA, weights="age", n_factors=1),
    "AreaSynthesizer(schema)": functools.partial(AreaSynthesizer, schema=BELOW, hierarchy=JOBS),
    "PrivateSearchCV": SEARCH,
    "LinkedTablesSynthesizer": functools.partial(LinkedTablesSynthesizer, **TABLES),
}


def table_of(name):
    return ROWS_OF_TABLES if "Linked" in name else people() if "schema" in name else rows()


@functools.cache
def fitted(name):
    return ESTIMATORS[name]().fit(table_of(name))


@functools.cache
def planned():
    return model_selection.plan(PrivateMeasureMechanism(depth=2), 100, n_features=1, epsilons=[0.5, 1.0], n_repeats=2, random_state=0)


@functools.cache
def saved():
    fitted("PrivateMeasureMechanism").save(FOLDER / "saved.zip")
    return FOLDER / "saved.zip"


@functools.cache
def card():
    return report.card(fitted("PrivateMeasureMechanism"))


def account():
    budget = PrivacyAccountant(2, 1e-6)
    budget.child(0.5, name="child", group="g").close()
    return budget


def counting(kind):
    cls = getattr(continual, kind)
    if kind == "InhomogeneousCounter":
        counter = cls()
        counter.start_level(10, 1.0, PrivacyAccountant(5), 0)
        return counter
    paid = {**PAID.get(kind, {}), "accountant": PrivacyAccountant(2, 1e-3)}
    return cls(*(() if kind == "UnboundedCounter" else (20,)), n_counters=2, **paid)


BOX, CHANGE = domain.Box([0.0, 0.0], [1.0, 1.0]), statistics.Histogram.sensitivity("replace_one")
BITS, LOSS = privacy.check_rng(0), privacy.PrivacyLoss(0.5)
PARTITION, MASKS, HEAD = measures.BinaryPartition(BOX, 4), federated.Masks.for_all(["a", "b"]), np.empty((0, 2))
PLACED = {"cells": np.array([0, 1]), "levels": np.array([2, 2])}
PAID = {"SquareRootCounter": {"rho": 0.1}, "UnboundedCounter": {"rho": 0.1}}
NOISES = [name for name in privacy.__all__ if name.startswith("Discrete")]
CODES = {"codes": [np.array([0, 1, 1]), np.array([0, 1, 2])], "sizes": [2, 3], "attributes": [(0,), (0, 1)]}
LEVELS = privacy.discovery("replace_one", 1, privacy.PrivacyLoss(0.5, 1e-6))
LINKED = {"levels": [None, np.array([3.0, 1.0, 2.0, 2.0])], "variance": 1.0, "n_cells": 4, "n_bins": 2}
SUMMED = {"model": PrivateMeasureMechanism("optimal"), "head": HEAD, "n_samples": 60}
ENTRY = PrivacyAccountant(1)
ENTRY.spend(0.5, name="x")
OBJECTS = {  # of each class, one whose methods are called
    "AttackRisk": lambda: PrivacyAccountant(1).risk(),
    "Discovery": lambda: LEVELS,
    "PrivacyAccountant": account,
    "PrivacyLoss": lambda: LOSS,
    **{kind: lambda kind=kind: getattr(privacy, kind)(2) for kind in NOISES},
    **{kind: lambda kind=kind: counting(kind) for kind in continual.__all__},
    "Box": lambda: BOX,
    "Identifier": domain.Identifier,
    "Derived": lambda: domain.Derived("a + b", (0, 2)),
    "Schema": lambda: domain.Schema(SCHEMA),
    "LinkedSchema": lambda: domain.LinkedSchema(**TABLES),
    "Hierarchy": lambda: JOBS,
    "PointGrid": lambda: GRID,
    "MixedTypeEncoder": lambda: domain.MixedTypeEncoder(SCHEMA).fit(people()),
    "BinaryPartition": lambda: PARTITION,
    "Lattice": lambda: measures.Lattice(BOX, (2, 2)),
    "DiscreteMeasure": lambda: measures.DiscreteMeasure.from_mass(PARTITION, **PLACED, mass=np.array([3.0, 1.0])),
    "SpendingPlan": planned,
    "Card": card,
    "Masks": lambda: MASKS["a"],
    "Site": lambda: federated.Site(rows()),
    "PartialSums": lambda: federated.PartialSums(**SUMMED),
    "Sensitivity": lambda: CHANGE,
    "Histogram": lambda: statistics.Histogram(np.arange(3)),
    "Marginals": lambda: statistics.Marginals.of(**CODES),
    "Link": lambda: models.Link.of(**LINKED),
}
_PEOPLE = {"X": people(), "Y": people(50)}
_NUMBERS = {"X": rows(), "Y": rows(50), "max_samples": 50}
Later = functools.partial  # what takes a while is made when it is called for
MODEL = Later(fitted, "PrivateMeasureMechanism")
GOOD = {  # of an argument wherever it is, of a class, and of a callable
    "": {
        **{"X": rows(), "rng": BITS, "random_state": 0, "n_samples": 4, "name": "x", "sensitivity": CHANGE, "loss": LOSS, "share": LOSS},
        **{"path": FOLDER / "x.zip", "schema": SCHEMA, "relation": "replace_one", "level": 2, "partition": PARTITION, "box": BOX},
        **{"n_values": 4, "delta": 1e-6, "prior": 0.5, "columns": ["a", "b"], "low": 0, "high": 1, "neighboring": "replace_one"},
        **{"size": 3, "shape": (2, 2), "scale": 2, "horizon": 20, "epsilon": 0.5, "rho": None, "batch_size": 2, "target": None},
        **{"estimator": PrivateMeasureMechanism(depth=2), "n": 20, "n_refits": 8, "B": 1, "head": HEAD, "bits": 8},
        **PLACED,
        **{"statistic": lambda table: float(len(table)), "fpr": 0.01, "tpr": 0.02, "n_tables": 1, "n_rows": 1, "kinds": ("laplace",)},
        **{"components": np.eye(2), "positions": rows(5), "signed_weights": np.array([0.5, 0.4, 0.3, -0.1, -0.1]), "error": 0.5},
        **{"thing": BOX, "cls": domain.Box, "data": persistence.to_bytes(BOX), "numbers": np.arange(3), "frame": people()},
        **{"given": "a", "column": "b", "mapping": {"x": "y"}, "metadata": {"columns": {"a": {"sdtype": "boolean"}}}},
        **{"model": MODEL, "evidence": Later(lambda: MODEL().accountant_.evidence()), "plan": Later(planned), "weights": [1, 2]},
        **{"quality": Later(metrics.quality_report, people(), people(50), SCHEMA), "times": [1, 2], "curves": {"a": [0.1, 0.2]}},
    },
    "PrivacyAccountant": {
        **{"epsilon": 1.0, "delta": 0.0, "values": np.arange(3), "noise": privacy.DiscreteLaplace(2), "loss": 1},
        **{"utilities": np.arange(3), "tables": [{"a": 10}], "losses": [0.1, 0.2], "entry": ENTRY.ledger[0]},
        **{"chosen": privacy.discovery("replace_one", 1, privacy.PrivacyLoss(0.5, 1e-7)), "record": PrivacyAccountant(1).record()},
    },
    **{f"PrivacyAccountant.{method}": {"epsilon": 0.5, "delta": 1e-7} for method in ("child", "check_affordable", "epsilon_at")},
    "PrivacyAccountant.was_charged": {"name": "child", "group": "g"},
    "PrivacyAccountant.fold": {"group": "g", "names": ["child"], "into": "all"},
    "PrivacyAccountant.at": {"path": FOLDER / "budget.db"},
    "PrivacyLoss": {"delta": 0.0},
    "Unit": {"name": "patient", "rows": 3},
    "epsilon_of_rho": {"rho": 0.1},
    "discovery": {"share": privacy.PrivacyLoss(0.5, 1e-6)},
    "Discovery.select_levels": {"counts": {"a": 100}},
    "Discovery": {name: getattr(LEVELS, name) for name in ("relation", "n_tables", "noise", "threshold", "loss")},
    "Mechanism": {name: getattr(privacy.mechanism(CHANGE, LOSS, ("laplace",)), name) for name in ("noise", "loss")},
    "AttackRisk": {"advantage": 0.01, "unit": None},
    "LedgerEntry": {"noise": None, "scale": (Fraction(1),)},
    "DiscreteMatrixLaplace": {"size": (2, 2), "sensitivity": statistics.Sensitivity("replace_one", 2, 2, 1, 2), "n_rows": 3},
    **{kind: {"epsilon": 1.0, "x": [1, 0], "cells": [1, 0], "count": 20, **PAID.get(kind, {})} for kind in continual.__all__},
    "InhomogeneousCounter": {"x": 1, "cells": [0]},
    "InhomogeneousCounter.start_level": {"horizon": 10, "epsilon": 1.0, "accountant": PrivacyAccountant(5)},
    "InhomogeneousCounter.resume": {"accountant": PrivacyAccountant(5)},
    "Box": {"low": [0.0, 0.0], "high": [1.0, 1.0], "Q": np.ones((2, 2), dtype=np.int64)},
    "Box.from_bounds": {"bounds": {"a": (0, 1), "b": (0, 1)}, "n_features": 2, "feature_names": ["a", "b"]},
    **{key: {"levels": ["a", "b"]} for key in ["Ordinal", "Nominal"]},
    **{key: {"low": "2020-01-01", "high": "2021-01-01"} for key in ["Date", "DateTime"]},
    "Constant": {"value": 80},
    "TimeOfDay": {"low": "10:00", "high": "21:00"},
    "Duration": {"low": 0, "high": 9},
    "Derived": {"expression": "a + b", "bounds": (0, 2), "values": np.arange(3.0)},
    "Hierarchy": {"levels": ["job"], "tree": ["cook", "nurse"], "present": ["job", "age"]},
    "PointGrid": {"bounds": {"lat": (0, 1), "long": (0, 1)}, "n_levels": 2, "default": (0.5, 0.5), "X": POINTS},
    "PointGrid.to_points": {"X": GRID.to_cells(POINTS)},
    "Impossible": {"cells": {"a": "x", "b": "y"}},
    "Inequality": {"low": "a", "high": "b"},
    "Sum": {"total": "c"},
    "Children": {"table": "person", "of": "household", "key": "id", "most": 3, "head": {"relation": "householder"}},
    "AtMost": {"n": 1, "cells": {"relation": "spouse"}, "table": "person"},
    "Compared": {"left": "person.age", "op": "<", "right": "household.oldest", "where": {"relation": ["child"]}},
    "Total": {"column": "household.size", "formula": "count(person)"},
    "parents_of": {"frame": people(), "key": "age", "columns": ["job"]},
    "SpendingPlan.smallest_epsilon": {"delta": None},
    "Findings": {"n_samples": 3, "findings": ()},
    "Schema": {"columns": dict(SCHEMA), "rules": [domain.Unique(["age", "job"])], "name": "age", "names": ["job", "age", "income"]},
    "LinkedSchema": TABLES,
    "LinkedSchema.check": {"tables": ROWS_OF_TABLES},
    "LinkedSchema.of": {"schemas": domain.LinkedSchema(**TABLES), "links": None},
    "LinkedSchema.from_json": {"source": domain.LinkedSchema(**TABLES).to_json()},
    "LinkedSchema.from_yaml": {"source": domain.LinkedSchema(**TABLES).to_yaml()},
    "LinkedSchema.to_json": {"path": FOLDER / "l.json", "overwrite": True},
    "LinkedSchema.to_yaml": {"path": FOLDER / "l.yaml", "overwrite": True},
    "Schema.from_dtypes": {"dtypes": people().dtypes, "public": True, "bounds": {"age": (0, 99), "job": ["a", "b"], "income": (0, 1)}},
    "Schema.from_json": {"source": domain.Schema(SCHEMA).to_json()},
    "Schema.from_yaml": {"source": domain.Schema(SCHEMA).to_yaml()},
    "Schema.skeleton": {"source": people()},
    "Schema.to_json": {"path": FOLDER / "s.json", "overwrite": True},
    "Schema.to_yaml": {"path": FOLDER / "s.yaml", "overwrite": True},
    "Schema.with_kinds": {"columns": {"age": domain.Continuous(0, 9)}},
    "MixedTypeEncoder": {"X": people()},
    "MixedTypeEncoder.inverse_transform": {"X": domain.MixedTypeEncoder(SCHEMA).fit(people()).transform(people())},
    "BinaryPartition": {"depth": 4, "rng": np.random.default_rng(0)},
    "Lattice": {"rng": np.random.default_rng(0), "shape": (2, 2), "keep": np.ones(4, dtype=bool)},
    "Lattice.sample": {"level": 0},
    "DiscreteMeasure": {"weights": np.array([0.5, 0.5]), "mass": np.array([3.0, 1.0]), "rng": np.random.default_rng(0)},
    "NearestMeasure": {"weights": np.ones(1), "value": 0.0, "lower_bound": 0.0, "status": "optimal", "n_iter": 1},
    "wasserstein_distance": _NUMBERS,
    "sliced_wasserstein_distance": {**_NUMBERS, "n_projections": 3},
    **dict.fromkeys(["marginal_total_variation", "correlation_error"], _PEOPLE),
    "rule_violations": {"X": people(), "schema": domain.Schema(SCHEMA, rules=[domain.Unique(["age", "job"])])},
    "LinkedTablesSynthesizer.evaluate": {"tables": ROWS_OF_TABLES},
    "linked_report": {**dict.fromkeys(["real", "synthetic"], ROWS_OF_TABLES), **TABLES},
    "quality_report": {"X": people(), "X_synthetic": people(50), "target": "job"},
    "train_synthetic_test_real": {"estimator": DecisionTreeClassifier(), "X_synthetic": people(), "X_real": people(), "target": "job"},
    "plan": {"n_samples": 100, "n_features": 1, "schema": None, "prior": None, "epsilons": [1.0]}
    | {"n_repeats": 2, "max_rows": 100, "time_limit": 1},
    "fit_to_error": {"X": rows(100)[:, :1], "target": 0.5, "max_epsilon": 1.0, "error": "bound", "statistic": None, "unit": None},
    "audit_epsilon": dict(zip(("X", "X_neighbor"), auditing.worst_case_neighbors(PrivateMeasureMechanism(depth=2), 20), strict=True))
    | {"n_trials": 20, "epsilon": None, "delta": None},
    "audit_one_run": dict(zip(("canaries", "others"), auditing.isolated_canaries(PrivateMeasureMechanism(depth=2), 4), strict=True))
    | {"X": None, "epsilon": None, "delta": None},
    "isolated_canaries": {"n": 4},
    "linked_evidence": {"model": Later(fitted, "LinkedTablesSynthesizer"), "train": ENOUGH_ROOTS, "holdout": {**ENOUGH_ROOTS}}
    | {"synthetic": None, "max_samples": 50},
    "privacy_evidence": {"train": rows(), "holdout": rows(50) / 2, "schema": None, "max_samples": 50, "known": None, "accountant": None},
    "check_synthesizer": {"generate_only": True},
    "PrivatePCADisplay.from_estimator": {"estimator": Later(fitted, "PrivatePCA")},
    "PrivatePCADisplay.from_estimators": {"estimators": Later(lambda: [fitted("PrivatePCA")] * 2), "X": None},
    "StreamDisplay.from_estimator": {"estimator": Later(fitted, "OnlineSynthesizer")},
    "SynthesisDisplay.from_samples": {"X_synthetic": people(), "X": None},
    "MeasureDisplay.from_estimator": {"estimator": MODEL},
    "BudgetDisplay.from_accountant": {"accountant": Later(lambda: MODEL().accountant_)},
    "EvidenceDisplay.from_evidence": {"evidence": None},
    "card": {"files": [], "interval": None, "sample": None},
    "quality_page": {"evidence": None, "display": None},
    "Card.save": {"path": FOLDER / "c.html"},
    "Masks": {"name": "a", "keys": {"b": b"x" * 32}, "names": ["a", "b"], "values": np.arange(3, dtype=np.uint64), "question": b"q"},
    "Site": {"schema": None, "message": b"x"},
    "Sites": {"sites": {"a": federated.Site(rows()).answer}, "n_samples": None},
    "RemoteRows": {"ask": len, "n_samples": 5},
    "PartialSums": {**SUMMED, "chunk": rows()},
    "PartialSums.add_saved": {"path": "nowhere"},
    "load": {"path": Later(saved)},
    "LatentFactorSynthesizer.interval": {"level": 0.9},
    "LatentFactorSynthesizer(schema).interval": {"level": 0.9},
    "LatentFactorSynthesizer(schema, weights).interval": {"level": 0.9},
    "LinkedTablesSynthesizer.interval": {"level": 0.9},
    "SecretSample": {"design": "poisson", "rate": 0.5},
    "Sensitivity": {"l1": 2, "l2_squared": 2, "sup": 1, "n_rows": 2},
    "Query": {"values": np.arange(3)},
    "Histogram": {"counts": np.arange(3), "values": np.arange(3), "shift": 1, "n_cells": 4},
    "Marginals": {**CODES, "n_tables": 2, "values": None},
    "Link": {**LINKED, "cells": np.array([0, 3])},
    "Interval": {"estimate": 1.0, "low": 0.0, "high": 2.0, "error": 0.5, "level": 0.95},
}
PrivacyAccountant(1, ledger=FOLDER / "budget.db")


def arguments_of(function, path):
    """Good arguments of a callable: its own, those of its class, those that all such arguments have, or its defaults."""
    good = GOOD[""] | GOOD.get(path.split(".")[0], {}) | GOOD.get(path, {})
    parameters = inspect.signature(function).parameters.values()
    named = [each for each in parameters if each.name != "self" and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
    given = {each.name: good.get(each.name, each.default) for each in named}
    lacking = [name for name, value in given.items() if value is inspect.Parameter.empty]
    assert not lacking, f"give good values of {lacking} of {path}"
    return given


def methods_of(cls):
    """Public methods of this package; those of scikit-learn it tests itself."""
    for name, method in inspect.getmembers(cls, inspect.isroutine):
        home = getattr(inspect.unwrap(getattr(method, "__func__", method)), "__module__", None) or ""
        if not name.startswith("_") and home.startswith("skdpsynth") and name != "set_callbacks":
            yield name, method


class _Bound:
    """A method of an object made anew, whose budget can be read."""

    def __init__(self, thing, function):
        budget = thing if isinstance(thing, PrivacyAccountant) else getattr(thing, "accountant", None)
        self.budget, self.function = budget if isinstance(budget, PrivacyAccountant) else None, function

    def __call__(self, **given):
        return self.function(**given)


def _of_rooms():
    for group, (room, names) in ROOMS.items():
        for name in names:
            thing = getattr(room, name)
            if callable(thing) and name not in MADE:
                yield Call(group, name, lambda thing=thing: thing, arguments_of(thing, name))
            for method, function in methods_of(thing) if isinstance(thing, type) else ():
                path = f"{name}.{method}"
                if inspect.ismethod(function) and path not in OF_MECHANISMS:
                    yield Call(group, path, lambda function=function: function, arguments_of(function, path))
                elif name in OBJECTS and path not in OF_MECHANISMS:
                    yield Call(group, path, functools.partial(_method_of, name, method), arguments_of(function, path))


def _method_of(name, method):
    thing = OBJECTS[name]()
    return _Bound(thing, getattr(thing, method))


def _of_fitted(name, method):
    return getattr(fitted(name), method)


def _fitting(name, method):
    """A method that releases, of an estimator made anew with a budget of its own."""
    model = ESTIMATORS[name](accountant=PrivacyAccountant(2, 1e-3))
    if method == "partial_fit":
        model.partial_fit(table_of(name))
    return _Bound(model, getattr(model, method))


class _Setting:
    """A fit of an estimator with some parameters."""

    def __init__(self, name):
        self.name, self.budget = name, PrivacyAccountant(2, 1e-3)

    def __call__(self, **given):
        return ESTIMATORS[self.name](**{"accountant": self.budget} | given).fit(table_of(self.name))


def _of_estimators():
    for name, make in ESTIMATORS.items():
        model = make()
        for parameter, default in model.get_params(deep=False).items():
            yield Call("parameters", f"{name}.{parameter}", functools.partial(_Setting, name), {parameter: default})
        for method, function in methods_of(type(model)):
            if not hasattr(model, method):
                continue
            given = arguments_of(function, f"{name}.{method}")
            if "X" in given:
                given["X"] = table_of(name)
            releases = method.startswith(("fit", "partial_fit"))
            made = functools.partial(_fitting, name, method) if releases else functools.partial(_of_fitted, name, method)
            yield Call("tables" if "X" in given else "samples", f"{name}.{method}", made, given)


def calls_by_group():
    """Yield (group, calls), in order."""
    calls = [call for call in [*_of_estimators(), *_of_rooms()] if call.arguments]
    for group in dict.fromkeys(call.group for call in calls):
        yield group, [call for call in calls if call.group == group]


def hastily():
    """Let models of tables be fitted in a few steps: how well they fit is not asked here."""
    _latent_factors._STEPS, _latent_factors._FITS, _training._SPLITS = 5, 1, 0


def attempt(call, junk, judged, mode="plain"):
    """Call it with some arguments replaced, ``{name: junk}``, in a program of odd settings; give ``judged(function, arguments, spent)``."""
    function = call.make()
    budget = getattr(function, "budget", None)
    given = {
        name: junk[name] if name in junk else copied(value() if isinstance(value, Later) else value)
        for name, value in call.arguments.items()
    }
    with odd_settings(mode):
        return judged(function, given, WRITTEN, (lambda: 0) if budget is None else (lambda: budget.spent))


# Calls with junk drawn by hypothesis: several arguments at once, and values that nobody listed.
_PLAIN = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.binary(max_size=5), st.complex_numbers())
_NESTED = st.recursive(
    _PLAIN, lambda some: st.lists(some, max_size=3) | st.dictionaries(st.text(max_size=3), some, max_size=3), max_leaves=6
)
_ARRAYS = st.builds(
    lambda seed, shape, kind: np.random.default_rng(seed).integers(-3, 300, shape).astype(kind),
    st.integers(0, 9),
    st.lists(st.integers(0, 3), max_size=3).map(tuple),
    st.sampled_from(["?", "u1", "i2", "u8", "f2", "f4", "c8", "M8[D]", "m8[s]", "U3", "O"]),
)
_LISTED = st.sampled_from(sorted(JUNK)).map(lambda name: JUNK[name]())


def cases(calls):
    """Draw (call, {argument: junk}, mode)."""

    def with_junk(call):
        several = st.lists(st.sampled_from(sorted(call.arguments)), min_size=1, max_size=3, unique=True)
        junk = several.flatmap(lambda names: st.fixed_dictionaries(dict.fromkeys(names, _LISTED | _NESTED | _ARRAYS)))
        return st.tuples(st.just(call), junk, st.sampled_from(MODES))

    return st.sampled_from(calls).flatmap(with_junk)
