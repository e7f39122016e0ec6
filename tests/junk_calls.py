"""Every public function, class and method with good arguments, of which any may then be replaced by junk."""

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
from internals import _latent_factors, _training
from junk_judge import copied, odd_settings
from junk_values import CALLABLE, JUNK

from skdpsynth import (
    LatentFactorSynthesizer,
    OnlineSynthesizer,
    PrivacyAccountant,
    PrivateMeasureMechanism,
    PrivatePCA,
    auditing,
    continual,
    domain,
    federated,
    load,
    measures,
    metrics,
    model_selection,
    models,
    persistence,
    plotting,
    privacy,
    report,
    show_progress,
    statistics,
    synthesis,
    testing,
)

INF = float("inf")
FOLDER = Path(tempfile.mkdtemp(prefix="junk"))


@dataclass
class Call:
    """One callable: how to make it anew (with what its budget has spent), and good arguments, some of which take junk."""

    group: str
    name: str
    make: Callable[[], Any]
    arguments: dict[str, Any]
    slow: bool = False  # some tenths of a second for each
    takes: tuple[str, ...] = ()  # arguments that take any callable, whose own errors are not ours
    writes: tuple[str, ...] = ()  # arguments that results are written to

    def junk_for(self, argument):
        """Names of what is junk for an argument."""
        return [name for name in JUNK if not (argument in self.takes and name in CALLABLE)]

    def __str__(self):
        return f"{self.group}: {self.name}"


def rows(n=60):
    return np.random.default_rng(0).random((n, 2))


def people(n=60):
    rng = np.random.default_rng(0)
    return pd.DataFrame({"age": rng.integers(0, 99, n), "job": rng.choice(["nurse", "cook"], n), "income": rng.random(n)})


SCHEMA = {"age": domain.Continuous(0, 99), "job": domain.Nominal(["cook", "nurse"]), "income": domain.Continuous(0.0, 1.0)}


def estimators():
    """Small ones of every class, with a budget of their own."""
    return {
        "LatentFactorSynthesizer": lambda **more: LatentFactorSynthesizer(**{"n_factors": 1, **more}),
        **{cls.__name__: cls for cls in all_estimators() if cls is not LatentFactorSynthesizer},
    }


@functools.cache
def fitted(name):
    if name == "mixed":
        return LatentFactorSynthesizer(SCHEMA, n_factors=1).fit(people())
    if name == "search":
        grid = {"depth": [1, 2]}
        return model_selection.PrivateSearchCV(PrivateMeasureMechanism(), grid, epsilon=INF).fit(rows())
    return estimators()[name]().fit(rows())


def _fit(cls, more, method="fit"):
    def run(**parameters):
        return getattr(cls(**{**more, **parameters}), method)(rows())

    return run


def _parameters():
    for name, cls in estimators().items():
        for parameter, default in cls().get_params(deep=False).items():
            yield Call("parameters", f"{name}.{parameter}", lambda cls=cls, p=parameter: _accounted(cls, p), {parameter: default})
    search = functools.partial(model_selection.PrivateSearchCV, PrivateMeasureMechanism(depth=2), {"depth": [1, 2]})
    for parameter in (
        "epsilon",
        "delta",
        "scoring",
        "refit",
        "search_share",
        "holdout",
        "error_score",
        "accountant",
        "random_state",
        "n_jobs",
    ):
        given = {parameter: search().get_params(deep=False)[parameter]}
        yield Call("parameters", f"PrivateSearchCV.{parameter}", lambda p=parameter: _accounted(search, p), given)
    whole = {"estimator": PrivateMeasureMechanism(depth=2), "param_grid": {"depth": [1, 2]}}
    yield Call("parameters", "PrivateSearchCV", lambda: _accounted(model_selection.PrivateSearchCV, ""), whole)


def _accounted(cls, parameter):
    budget = PrivacyAccountant(1, 1e-3)
    if parameter == "accountant":
        return lambda **given: cls(**given).fit(rows())
    run = functools.partial(_fit_with, cls, budget)
    run.budget = budget
    return run


def _fit_with(cls, budget, **given):
    return cls(accountant=budget, **given).fit(rows())


def _tables():
    for name, cls in estimators().items():
        yield Call("tables", f"{name}.fit", lambda cls=cls: _fitting(cls), {"X": rows(), "y": None, "unit": None})
        if name != "PrivatePCA":
            for method, more in {"score": {"y": None}, "evaluate": {"target": None, "random_state": 0}}.items():
                make = lambda name=name, method=method: getattr(fitted(name), method)  # noqa: E731
                yield Call("tables", f"{name}.{method}", make, {"X": rows(), **more})
    for method in ("transform", "inverse_transform", "score", "score_samples"):
        yield Call("tables", f"PrivatePCA.{method}", lambda method=method: getattr(fitted("PrivatePCA"), method), {"X": rows()})
    yield Call("tables", "PrivatePCA.fit_transform", lambda: _fitting(PrivatePCA, "fit_transform"), {"X": rows(), "y": None, "unit": None})
    names = {"input_features": None}
    yield Call("tables", "PrivatePCA.get_feature_names_out", lambda: fitted("PrivatePCA").get_feature_names_out, names)
    online = functools.partial(OnlineSynthesizer, epsilon=1)
    yield Call("tables", "OnlineSynthesizer.partial_fit", lambda: _going_on(online), {"X": rows(), "y": None, "unit": None, "save": None})
    yield Call("tables", "OnlineSynthesizer(paper).partial_fit", lambda: _going_on(functools.partial(online, "paper")), {"X": rows()})
    mixed = functools.partial(LatentFactorSynthesizer, SCHEMA, n_factors=1)
    yield Call("tables", "LatentFactorSynthesizer(schema).fit", lambda: _fitting(mixed), {"X": people(), "unit": None})
    for method in ("score", "evaluate", "impute"):
        yield Call(
            "tables", f"LatentFactorSynthesizer(schema).{method}", lambda method=method: getattr(fitted("mixed"), method), {"X": people()}
        )
    yield Call("tables", "PrivateSearchCV.fit", lambda: _fitting(_search), {"X": rows(), "y": None, "unit": None})
    yield Call("tables", "PrivateSearchCV.score", lambda: fitted("search").score, {"X": rows(), "y": None})


def _search(**more):
    return model_selection.PrivateSearchCV(PrivateMeasureMechanism(depth=2), {"depth": [1, 2]}, **more)


def _fitting(cls, method="fit"):
    budget = PrivacyAccountant(1, 1e-3)
    model = cls(accountant=budget)
    run = functools.partial(getattr(model, method))
    run.budget = budget
    return run


def _going_on(cls):
    budget = PrivacyAccountant(2, 1e-3)
    model = cls(accountant=budget).partial_fit(rows())
    run = functools.partial(model.partial_fit)
    run.budget = budget
    return run


def _samples():
    for name in estimators():
        if name == "PrivatePCA":
            continue
        make = functools.partial(_method_of, name)
        more = {"since": None} if name == "OnlineSynthesizer" else {}
        more |= {"conditions": None} if name in ("LatentFactorSynthesizer", "OnlineSynthesizer") else {}
        yield Call("samples", f"{name}.sample", functools.partial(make, "sample"), {"n_samples": 3, "random_state": 0, "out": None, **more})
        batches = {"n_samples": 5, "batch_size": 2, "random_state": 0, **more}
        yield Call("samples", f"{name}.sample_batches", functools.partial(make, "sample_batches"), batches)
    mixed = functools.partial(_method_of, "mixed")
    given = {"statistic": lambda frame: frame["age"].mean(), "level": 0.9, "n_refits": 2, "n_samples": 20, "random_state": 0}
    yield Call("samples", "LatentFactorSynthesizer.interval", functools.partial(mixed, "interval"), given, slow=True, takes=("statistic",))
    yield Call("samples", "LatentFactorSynthesizer.impute", functools.partial(mixed, "impute"), {"X": people(), "random_state": 0})
    tables = {"B": 1, "n_samples": 5, "random_state": 0}
    yield Call("samples", "LatentFactorSynthesizer.bootstrap_tables", functools.partial(mixed, "bootstrap_tables"), tables, slow=True)
    given = {"n_samples": 3, "random_state": 0, "conditions": {"job": "cook"}}
    yield Call("samples", "LatentFactorSynthesizer(schema).sample", functools.partial(mixed, "sample"), given)
    yield Call("samples", "PrivateSearchCV.sample", functools.partial(_method_of, "search", "sample"), {"n_samples": 3, "random_state": 0})
    yield Call("files", "save", functools.partial(mixed, "save"), {"path": FOLDER / "m.zip"})
    yield Call("files", "load", lambda: load, {"path": _saved(), "accountant": None})
    yield Call("files", "persistence.save", lambda: persistence.save, {"thing": domain.Box([0], [1]), "path": FOLDER / "b.zip"})
    yield Call("files", "persistence.to_bytes", lambda: persistence.to_bytes, {"thing": domain.Box([0], [1])})
    given = {"data": persistence.to_bytes(domain.Box([0], [1])), "name": "data"}
    yield Call("files", "persistence.from_bytes", lambda: persistence.from_bytes, given)
    yield Call("files", "persistence.savable", lambda: persistence.savable, {"cls": domain.Box})
    yield Call("files", "show_progress", lambda: _entered, {"console": None})


def _entered(console):
    with show_progress(console):
        pass


def _saved():
    path = FOLDER / "saved.zip"
    fitted("PrivateMeasureMechanism").save(path)
    return path


def _method_of(name, method):
    return getattr(fitted(name), method)


class _Bound:
    """A method of an object made anew, whose budget can be read."""

    def __init__(self, budget, function):
        self.budget, self.function = budget, function

    def __call__(self, **given):
        return self.function(**given)


def _account(method, epsilon=2, delta=1e-6):
    def make():
        budget = PrivacyAccountant(epsilon, delta)
        budget.child(0.5, name="child", group="g").close()
        return _Bound(budget, getattr(budget, method))

    return make


def _accountants():
    unit = privacy.Unit("patient", 3)
    given = {"epsilon": 1.0, "delta": 0.0, "neighboring": "replace_one", "ledger": None, "dataset": None, "note": None, "unit": unit}
    yield Call("accountants", "PrivacyAccountant", lambda: PrivacyAccountant, given)
    path = FOLDER / "budget.db"
    PrivacyAccountant(1, ledger=path)
    yield Call("accountants", "PrivacyAccountant.at", lambda: PrivacyAccountant.at, {"path": path, "dataset": None, "note": None})
    noise, bits = privacy.DiscreteLaplace(2), privacy.check_rng(None)
    change, entry = statistics.Histogram.change("replace_one"), PrivacyAccountant(1)
    entry.spend(0.5, name="x")
    released = {"noise": noise, "rng": bits, "name": "counts", "loss": 1, "change": change}
    for method, arguments in {
        "spend": {"loss": 0.5, "name": "counts"},
        "release": {"values": np.arange(3), **released},
        "release_choice": {"utilities": np.arange(3), "change": change, "rng": bits, "name": "choice", "loss": 1},
        "standing": released,
        "standing_again": released,
        "release_discovered": {
            "tables": [{"a": 10}],
            "chosen": privacy.discovery("replace_one", 1, privacy.PrivacyLoss(0.5, 1e-7)),
            "rng": bits,
            "name": "levels",
        },
        "child": {"epsilon": 0.5, "delta": 1e-7, "name": "part", "group": "h", "rho": None, "unit": unit},
        "children": {"losses": [0.1, 0.2], "delta": 0.0, "name": "parts"},
        "check_affordable": {"epsilon": 0.5, "delta": 0.0, "name": "part", "rho": None},
        "check_open": {"name": "part"},
        "epsilon_at": {"delta": 1e-5},
        "risk": {"fpr": 0.01},
        "split": {"weights": [1, 2]},
        "to_frame": {"backend": "pandas", "parts": False},
        "was_charged": {"name": "child", "group": "g"},
        "fold": {"group": "g", "names": ["child"], "into": "all"},
        "import_record": {"record": PrivacyAccountant(1).record()},
        "noise_of": {"entry": entry.ledger[0]},
        "parts_of": {"entry": entry.ledger[0]},
    }.items():
        yield Call("accountants", f"PrivacyAccountant.{method}", _account(method), arguments)


def _privacy():
    loss, bits = privacy.PrivacyLoss(0.5), privacy.check_rng(0)
    change = statistics.Histogram.change("replace_one")
    given = {"epsilon": 1.0, "delta": 0.0, "rho": None, "gaussian": False, "rows": 1}
    yield Call("noise and losses", "PrivacyLoss", lambda: privacy.PrivacyLoss, given)
    yield Call("noise and losses", "PrivacyLoss.split", lambda: loss.split, {"weights": [1, 2]})
    yield Call("noise and losses", "Unit", lambda: privacy.Unit, {"name": "patient", "rows": 3})
    yield Call("noise and losses", "check_rng", lambda: privacy.check_rng, {"random_state": 0})
    share = {"share": privacy.PrivacyLoss(0.5, 1e-6)}
    discovery = {"relation": "replace_one", "n_tables": 1, **share}
    yield Call("noise and losses", "discovery", lambda: privacy.discovery, discovery)
    levels = privacy.discovery(**discovery)
    shown = {"counts": {"a": 100}, "rng": bits}
    yield Call("noise and losses", "Discovery.shown_levels", lambda: levels.shown_levels, shown)
    checked = {"relation": "replace_one", "n_tables": 1, "rng": bits, "name": "levels", "n_rows": 1}
    yield Call("noise and losses", "Discovery.check", lambda: levels.check, checked)
    fields = {name: getattr(levels, name) for name in ("relation", "n_tables", "noise", "threshold", "loss")}
    yield Call("noise and losses", "Discovery", lambda: privacy.Discovery, fields)
    converted = {"delta": 1e-6, "gaussian": False}
    yield Call("noise and losses", "epsilon_of_rho", lambda: privacy.epsilon_of_rho, {"rho": 0.1, **converted})
    yield Call("noise and losses", "rho_of_epsilon", lambda: privacy.rho_of_epsilon, {"epsilon": 0.1, **converted})
    made = {"change": change, "share": loss, "kinds": ("laplace",), "n_values": 3}
    yield Call("noise and losses", "mechanism", lambda: privacy.mechanism, made)
    chosen = privacy.mechanism(**made)
    yield Call(
        "noise and losses", "Mechanism", lambda: privacy.Mechanism, {"change": change, "noise": chosen.noise, "loss": loss, "n_values": 1}
    )
    risk = PrivacyAccountant(1).risk()
    fields = {"fpr": 0.01, "tpr": 0.02, "advantage": 0.01, "neighboring": "replace_one", "unit": None}
    yield Call("noise and losses", "AttackRisk", lambda: privacy.AttackRisk, fields)
    yield Call("noise and losses", "AttackRisk.posterior", lambda: risk.posterior, {"prior": 0.5})
    fields = {"name": "x", "loss": loss, "neighboring": "replace_one", "noise": None, "scale": (Fraction(1),), "change": change}
    yield Call("noise and losses", "LedgerEntry", lambda: privacy.LedgerEntry, {**fields, "n_values": 3, "unit": None, "id": 0})
    for kind in ("DiscreteLaplace", "DiscreteGaussian", "DiscreteSupNorm", "DiscreteMatrixLaplace"):
        cls = getattr(privacy, kind)
        noise, size = cls(2), (2, 2) if kind == "DiscreteMatrixLaplace" else 3
        moved = statistics.Change("replace_one", 2, 2, 1, 2)
        yield Call("noise and losses", kind, lambda cls=cls: cls, {"scale": 2})
        for method, arguments in {
            "sample": {"size": size, "rng": bits},
            "variance": {"n_values": 4},
            "loss": {"change": moved},
            "losses": {"change": moved},
            "check_size": {"n_values": 4},
            "check_shape": {"shape": (2, 2)},
            **({"spectral_norm": {"n_rows": 3}} if hasattr(noise, "spectral_norm") else {}),
        }.items():
            yield Call("noise and losses", f"{kind}.{method}", lambda noise=noise, method=method: getattr(noise, method), arguments)


def _counters():
    both = {"n_counters": 2, "sensitivity": 2, "accountant": None, "random_state": 0, "name": None}
    for kind in ("BinaryCounter", "KaryCounter", "HonakerCounter", "SparseCounter", "SquareRootCounter", "UnboundedCounter"):
        cls = getattr(continual, kind)
        paid = {"rho": 0.1} if "rho" in inspect.signature(cls).parameters else {"epsilon": 1.0}
        lasting = {} if kind == "UnboundedCounter" else {"horizon": 20}
        every = {"every": 1} if kind == "SparseCounter" else {}
        yield Call("counters", kind, lambda cls=cls: cls, {**lasting, **paid, **every, **both})
        new = functools.partial(cls, **lasting, **paid, n_counters=2)
        yield Call("counters", f"{kind}.update", lambda new=new: _counting(new, "update"), {"x": [1, 0]})
        yield Call("counters", f"{kind}.update_cells", lambda new=new: _counting(new, "update_cells"), {"cells": [1, 0]})
        given = {"accountant": None, "random_state": None}
        yield Call("counters", f"{kind}.resume", lambda new=new: _counting(new, "resume"), given)
    yield Call("counters", "KaryCounter.followed_by", lambda: continual.KaryCounter(20).followed_by, {"count": 20})
    levels = continual.InhomogeneousCounter
    given = {"counter": "sparse", "n_counters": 2, "sensitivity": 2, "every": 1, "history": [1, 2], "name": "levels"}
    yield Call("counters", "InhomogeneousCounter", lambda: levels, given)
    started = {"horizon": 10, "epsilon": 1.0, "accountant": PrivacyAccountant(5), "random_state": 0}
    yield Call("counters", "InhomogeneousCounter.start_level", lambda: levels().start_level, started)
    yield Call("counters", "InhomogeneousCounter.update", lambda: _started().update, {"x": 1})
    yield Call("counters", "InhomogeneousCounter.update_cells", lambda: _started().update_cells, {"cells": [0]})
    given = {"accountant": PrivacyAccountant(5), "rng": privacy.check_rng(0)}
    yield Call("counters", "InhomogeneousCounter.resume", lambda: _started().resume, given)


def _counting(new, method):
    budget = PrivacyAccountant(2, 1e-3)
    return _Bound(budget, getattr(new(accountant=budget), method))


def _started():
    counter = continual.InhomogeneousCounter()
    counter.start_level(10, 1.0, PrivacyAccountant(5), 0)
    return counter


def _domain():
    box = domain.Box([0.0, 0.0], [1.0, 1.0])
    given = {"low": [0.0, 0.0], "high": [1.0, 1.0], "bits": 8, "whole": [False, True]}
    yield Call("domain", "Box", lambda: domain.Box, given)
    named = {"bounds": {"a": (0, 1), "b": (0, 1)}, "n_features": 2, "feature_names": ["a", "b"], "bits": 8, "whole": None}
    yield Call("domain", "Box.from_bounds", lambda: domain.Box.from_bounds, named)
    steps = {"rows": rows(), "bits": np.array([8, 8]), "scratch": box.scratch(64), "finite": False, "out": None}
    for method, arguments in {
        "quantize": {"X": rows()},
        "restore": {"Q": np.ones((2, 2), dtype=np.int64)},
        "clip": {"X": rows()},
        "chunks": {"X": rows(), "bits": None, "finite": False, "out": None},
        "steps": steps,
        "column_steps": {"column": rows()[:, 0].copy(), "feature": 0, "n_steps": 4, "out": np.zeros(60)},
        "with_bits": {"bits": 8},
        "scratch": {"n_samples": 5},
    }.items():
        yield Call("domain", f"Box.{method}", lambda method=method: getattr(box, method), arguments, writes=("scratch", "out"))
    for kind, arguments in {
        "Continuous": {"low": 0, "high": 1, "integer": None, "nullable": False, "bounds": None},
        "Ordinal": {"levels": ["a", "b"], "nullable": False},
        "Nominal": {"levels": ["a", "b"], "nullable": False, "groups": None},
        "Date": {"low": "2020-01-01", "high": "2021-01-01", "nullable": False, "bounds": None},
        "DateTime": {"low": "2020-01-01", "high": "2021-01-01", "nullable": False, "bounds": None, "resolution": "second"},
        "Identifier": {"labels": False},
        "Derived": {"expression": "a + b", "bounds": (0, 2)},
        "Determines": {"given": "a", "column": "b", "mapping": {"x": "y"}},
        "Impossible": {"cells": {"a": "x", "b": "y"}},
        "Inequality": {"low": "a", "high": "b", "strict": False},
        "Sum": {"columns": ["a", "b"], "total": "c"},
        "MissingTogether": {"columns": ["a", "b"]},
        "Unique": {"columns": ["a", "b"]},
        "Findings": {"n_samples": 3, "findings": ()},
    }.items():
        yield Call("domain", kind, lambda kind=kind: getattr(domain, kind), arguments)
    yield Call("domain", "Identifier.made", lambda: domain.Identifier().made, {"numbers": np.arange(3)})
    yield Call("domain", "Derived.clipped", lambda: domain.Derived("a + b", (0, 2)).clipped, {"values": np.arange(3.0)})
    schema = domain.Schema(SCHEMA)
    given = {"columns": dict(SCHEMA), "rules": [domain.Unique(["age", "job"])]}
    yield Call("domain", "Schema", lambda: domain.Schema, given)
    dtypes = {"dtypes": people().dtypes, "public": True, "bounds": {"age": (0, 99), "income": (0, 1)}, "nullable": ()}
    for method, arguments in {
        "check": {"frame": people()},
        "from_dtypes": dtypes,
        "from_json": {"source": schema.to_json()},
        "from_yaml": {"source": schema.to_yaml()},
        "from_sdv": {"metadata": {"columns": {"a": {"sdtype": "boolean"}}}, "domains": None, "nullable": ()},
        "is_coded": {"name": "age"},
        "of": {"schema": SCHEMA},
        "ordered": {"names": ["job", "age", "income"]},
        "skeleton": {"source": people()},
        "to_json": {"path": FOLDER / "s.json", "overwrite": True},
        "to_yaml": {"path": FOLDER / "s.yaml", "overwrite": True},
        "with_kinds": {"columns": {"age": domain.Continuous(0, 9)}},
    }.items():
        yield Call("domain", f"Schema.{method}", lambda method=method: getattr(schema, method), arguments)
    for parameter, value in {"schema": SCHEMA, "bounds": (0, 1)}.items():
        table = people() if parameter == "schema" else rows()
        make = lambda table=table: lambda **given: domain.MixedTypeEncoder(**given).fit(table)  # noqa: E731
        yield Call("domain", f"MixedTypeEncoder.{parameter}", make, {parameter: value})
    encoder = domain.MixedTypeEncoder(SCHEMA).fit(people())
    yield Call("domain", "MixedTypeEncoder.fit", lambda: domain.MixedTypeEncoder(SCHEMA).fit, {"X": people(), "y": None})
    yield Call("domain", "MixedTypeEncoder.transform", lambda: encoder.transform, {"X": people()})
    yield Call("domain", "MixedTypeEncoder.inverse_transform", lambda: encoder.inverse_transform, {"X": encoder.transform(people())})
    names = {"input_features": None}
    yield Call("domain", "MixedTypeEncoder.get_feature_names_out", lambda: encoder.get_feature_names_out, names)


def _measures():
    box, rng = domain.Box([0.0, 0.0], [1.0, 1.0]), np.random.default_rng(0)
    partition, lattice = measures.BinaryPartition(box, 4), measures.Lattice(box, (2, 2))
    yield Call("measures", "BinaryPartition", lambda: measures.BinaryPartition, {"box": box, "depth": 4, "spread": True})
    placed = {"cells": np.array([0, 1]), "levels": np.array([2, 2])}
    for method, arguments in {
        "corners": {"cells": np.array([0, 1]), "level": 2},
        "cuts": {"level": 2},
        "diameters": {"level": 2},
        "locate": {"X": rows(), "finite": False},
        "placement": placed,
        "sample": {"cells": np.array([0, 1]), "level": 2, "rng": rng},
    }.items():
        yield Call("measures", f"BinaryPartition.{method}", lambda method=method: getattr(partition, method), arguments)
    yield Call("measures", "Lattice", lambda: measures.Lattice, {"box": box, "shape": (2, 2), "keep": np.ones(4, dtype=bool)})
    for method, arguments in {"locate": {"X": rows()}, "placement": placed, "sample": {**placed, "level": 0, "rng": rng}}.items():
        arguments = {name: value for name, value in arguments.items() if method != "sample" or name != "levels"}
        yield Call("measures", f"Lattice.{method}", lambda method=method: getattr(lattice, method), arguments)
    mass = {"partition": partition, **placed, "mass": np.array([3.0, 1.0])}
    measure = measures.DiscreteMeasure.from_mass(**mass)
    yield Call("measures", "DiscreteMeasure.from_mass", lambda: measures.DiscreteMeasure.from_mass, mass)
    fields = {"partition": partition, **placed, "weights": np.array([0.5, 0.5])}
    yield Call("measures", "DiscreteMeasure", lambda: measures.DiscreteMeasure, fields)
    for method in ("counts", "sample", "sample_blocks"):
        more = {"n_jobs": None} if method == "sample" else {}
        make = lambda method=method: getattr(measure, method)  # noqa: E731
        yield Call("measures", f"DiscreteMeasure.{method}", make, {"n_samples": 4, "rng": rng, **more})
    given = {
        "positions": rows(5),
        "signed_weights": np.array([0.5, 0.4, 0.3, -0.1, -0.1]),
        "metric": "chebyshev",
        "total": 1.0,
        "solver": "highs",
    }
    yield Call("measures", "nearest_probability_measure", lambda: measures.nearest_probability_measure, given)
    fields = {"weights": np.ones(1), "value": 0.0, "lower_bound": 0.0, "status": "optimal", "n_iter": 1}
    yield Call("measures", "NearestMeasure", lambda: measures.NearestMeasure, fields)


def _metrics():
    two = {"X": rows(), "Y": rows(50)}
    mixed = {"X": people(), "Y": people(50), "schema": SCHEMA}
    for name, arguments in {
        "wasserstein_distance": {**two, "metric": "chebyshev", "max_samples": 50, "random_state": 0},
        "sliced_wasserstein_distance": {**two, "n_projections": 3, "random_state": 0, "max_samples": 50},
        "captured_variance_ratio": {"X": rows(), "components": np.eye(2)},
        "marginal_total_variation": {**mixed, "order": 2},
        "correlation_error": mixed,
        "rule_violations": {"X": people(), "schema": domain.Schema(SCHEMA, rules=[domain.Unique(["age", "job"])])},
    }.items():
        yield Call("metrics", name, lambda name=name: getattr(metrics, name), arguments)
    quality = {"X": people(), "X_synthetic": people(50), "schema": SCHEMA, "target": "job", "random_state": 0}
    yield Call("metrics", "quality_report", lambda: metrics.quality_report, quality, slow=True)
    from sklearn.tree import DecisionTreeClassifier

    trained = {
        "estimator": DecisionTreeClassifier(),
        "X_synthetic": people(),
        "X_real": people(),
        "target": "job",
        "schema": SCHEMA,
        "scoring": None,
    }
    yield Call("metrics", "train_synthetic_test_real", lambda: metrics.train_synthetic_test_real, trained, takes=("scoring",))


def _selection():
    planned = {"estimator": PrivateMeasureMechanism(depth=2), "n_samples": 100, "bounds": (0, 1), "schema": None, "n_features": 1}
    more = {"epsilons": [1.0], "deltas": None, "unit_rows": None, "prior": None, "n_repeats": 2, "max_rows": 100, "time_limit": 5.0}
    given = {**planned, **more, "n_jobs": None, "random_state": 0}
    yield Call("planning", "plan", lambda: model_selection.plan, given, slow=True)
    made = functools.cache(lambda: model_selection.plan(**{**given, "epsilons": [0.5, 1.0]}))
    arguments = {"error": 0.5, "measure": "wasserstein", "delta": None, "unit_rows": None}
    yield Call("planning", "SpendingPlan.smallest_epsilon", lambda: made().smallest_epsilon, arguments)
    yield Call("planning", "SpendingPlan.plot", lambda: made().plot, {"ax": None, "measure": "wasserstein"}, slow=True)
    yield Call("pictures and cards", "PlanDisplay.from_plan", lambda: plotting.PlanDisplay.from_plan, {"plan": made()})


def _audits():
    pair = auditing.worst_case_neighbors(PrivateMeasureMechanism(depth=2), 20)
    audited = {"estimator": PrivateMeasureMechanism(depth=2), "X": pair[0], "X_neighbor": pair[1], "event": None, "n_trials": 20}
    given = {**audited, "confidence": 0.9, "epsilon": None, "delta": None, "n_jobs": None, "random_state": 0}
    yield Call("audits", "audit_epsilon", lambda: auditing.audit_epsilon, given, slow=True, takes=("event",))
    given = {"estimator": PrivateMeasureMechanism(depth=2), "n": 20, "n_features": None}
    yield Call("audits", "worst_case_neighbors", lambda: auditing.worst_case_neighbors, given)
    given = {"model": fitted("PrivateMeasureMechanism"), "train": rows(), "holdout": rows(50), "schema": None, "secret": None}
    more = {"confidence": 0.9, "max_samples": 50, "random_state": 0}
    yield Call("audits", "privacy_evidence", lambda: auditing.privacy_evidence, {**given, **more}, slow=True)
    yield Call(
        "audits", "check_evidence", lambda: testing.check_evidence, {"evidence": fitted("PrivateMeasureMechanism").accountant_.evidence()}
    )
    given = {"estimator": PrivateMeasureMechanism(), "generate_only": True}
    yield Call("audits", "check_synthesizer", lambda: testing.check_synthesizer, given)


def _pictures():
    model = fitted("PrivateMeasureMechanism")
    for name, arguments in {
        "BudgetDisplay.from_accountant": {"accountant": model.accountant_},
        "MeasureDisplay.from_estimator": {"estimator": model, "features": None},
        "PrivatePCADisplay.from_estimator": {"estimator": fitted("PrivatePCA")},
        "PrivatePCADisplay.from_estimators": {"estimators": [fitted("PrivatePCA")] * 2, "X": None},
        "StreamDisplay.from_estimator": {"estimator": fitted("OnlineSynthesizer"), "random_state": 0},
        "StreamDisplay.from_curves": {"times": [1, 2], "curves": {"a": [0.1, 0.2]}, "unit": "rows"},
        "SynthesisDisplay.from_samples": {"X_synthetic": people(), "schema": SCHEMA, "X": None},
        "EvidenceDisplay.from_evidence": {"evidence": None},
    }.items():
        cls, method = name.split(".")
        yield Call("pictures and cards", name, lambda cls=cls, method=method: getattr(getattr(plotting, cls), method), arguments, slow=True)
    made = {"model": model, "audience": "public", "real": None, "holdout": None, "title": "T", "accountant": None}
    yield Call("pictures and cards", "card", lambda: report.card, made, slow=True)
    card = functools.cache(lambda: report.card(model))
    yield Call("pictures and cards", "Card.save", lambda: card().save, {"path": FOLDER / "c.html"})
    quality = metrics.quality_report(people(), people(50), SCHEMA)
    given = {"quality": quality, "evidence": None, "title": "T"}
    yield Call("pictures and cards", "quality_page", lambda: report.quality_page, given, slow=True)


def _sites():
    masks, head = federated.Masks.for_all(["a", "b"]), np.empty((0, 2))
    yield Call("sites", "Masks.for_all", lambda: federated.Masks.for_all, {"names": ["a", "b"]})
    yield Call("sites", "Masks", lambda: federated.Masks, {"name": "a", "keys": {"b": b"x" * 32}})
    yield Call("sites", "Masks.hide", lambda: masks["a"].hide, {"values": np.arange(3, dtype=np.uint64), "question": b"q"})
    given = {"X": rows(), "bounds": (0, 1), "schema": None, "masks": None, "max_questions": 2, "max_values": 100, "n_jobs": None}
    yield Call("sites", "Site", lambda: federated.Site, given)
    site = federated.Site(rows())
    yield Call("sites", "Site.answer", lambda: site.answer, {"message": b"x"})
    yield Call("sites", "Site.read", lambda: site.read, {"message": b"x"})
    yield Call("sites", "Sites", lambda: federated.Sites, {"sites": {"a": site.answer}, "head": head, "n_samples": None})
    yield Call("sites", "RemoteRows", lambda: federated.RemoteRows, {"ask": len, "head": head, "n_samples": 5}, takes=("ask",))
    model = PrivateMeasureMechanism("optimal")
    given = {"model": model, "head": head, "n_samples": 60}
    yield Call("sites", "PartialSums", lambda: federated.PartialSums, given)
    yield Call("sites", "PartialSums.add", lambda: federated.PartialSums(**given).add, {"chunk": rows()})
    yield Call("sites", "PartialSums.add_saved", lambda: federated.PartialSums(**given).add_saved, {"path": "nowhere"})
    yield Call("sites", "PartialSums.save", lambda: federated.PartialSums(**given).save, {"path": FOLDER / "sums.zip"})


def _bricks():
    change = statistics.Histogram.change("replace_one")
    partition = measures.BinaryPartition(domain.Box([0.0, 0.0], [1.0, 1.0]), 4)
    fields = {"relation": "replace_one", "l1": 2, "l2_squared": 2, "sup": 1, "nuclear": None, "statistic": None}
    yield Call("bricks", "Change", lambda: statistics.Change, fields)
    yield Call("bricks", "Change.times", lambda: change.times, {"n_rows": 2})
    yield Call("bricks", "Query", lambda: statistics.Query, {"values": np.arange(3), "change": change})
    yield Call("bricks", "Histogram", lambda: statistics.Histogram, {"counts": np.arange(3)})
    counted = statistics.Histogram(np.arange(3))
    for method, arguments in {
        "change": {"relation": "replace_one"},
        "change_of_first": {"relation": "replace_one"},
        "of": {"X": rows(), "partition": partition},
        "over": {"partition": partition, "shift": 1},
        "over_cells": {"n_cells": 4, "shift": 1},
        "query": {"relation": "replace_one"},
        "filled": {"values": np.arange(3)},
    }.items():
        yield Call("bricks", f"Histogram.{method}", lambda method=method: getattr(counted, method), arguments)
    codes = [np.array([0, 1, 1]), np.array([0, 1, 2])]
    counts = {"sizes": [2, 3], "attributes": [(0,), (0, 1)]}
    tables = statistics.Marginals.of(codes, **counts)
    for method, arguments in {
        "change": {"relation": "replace_one", "n_tables": 2},
        "of": {"codes": codes, **counts},
        "over": counts,
        "query": {"relation": "replace_one"},
        "tables": {"values": None},
    }.items():
        yield Call("bricks", f"Marginals.{method}", lambda method=method: getattr(tables, method), arguments)
    link = models.Link.of([None, np.array([3.0, 1.0, 2.0, 2.0])], 1.0, 4, 2)
    given = {"levels": [None, np.array([3.0, 1.0, 2.0, 2.0])], "variance": 1.0, "n_cells": 4, "n_bins": 2, "cuts": ()}
    yield Call("bricks", "Link.of", lambda: models.Link.of, given)
    yield Call("bricks", "Link.bins_of", lambda: link.bins_of, {"cells": np.array([0, 3])})
    yield Call("bricks", "Link.recut", lambda: link.recut, {"n_bins": 2, "cuts": ()})
    yield Call("bricks", "Interval", lambda: synthesis.Interval, {"estimate": 1.0, "low": 0.0, "high": 2.0, "error": 0.5, "level": 0.95})


GROUPS = (
    _parameters,
    _tables,
    _samples,
    _accountants,
    _privacy,
    _counters,
    _domain,
    _measures,
    _metrics,
    _selection,
    _audits,
    _pictures,
    _sites,
    _bricks,
)


def calls_by_group():
    """Yield (group, calls), in order; some groups are made by two functions."""
    calls = [call for group in GROUPS for call in group()]
    for group in dict.fromkeys(call.group for call in calls):
        yield group, [call for call in calls if call.group == group]


def hastily():
    """Let models of tables be fitted in a few steps: how well they fit is not asked here."""
    _latent_factors._STEPS, _latent_factors._FITS, _training._SPLITS = 5, 1, 0


def attempt(call, junk, judged, mode="plain"):
    """Call it with some arguments replaced, ``{name: junk}``, in a program of odd settings; give ``judged(function, arguments, spent)``."""
    function = call.make()
    budget = getattr(function, "budget", None)
    given = {name: junk[name] if name in junk else copied(value) for name, value in call.arguments.items()}
    with odd_settings(mode):
        return judged(function, given, call.writes, (lambda: 0) if budget is None else (lambda: budget.spent))
