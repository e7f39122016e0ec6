"""Under one seed a fit gives the same model to the last bit, whatever the rows are in and however they are cut into chunks."""

import dataclasses
import pickle

import numpy as np
import pandas as pd
import pytest
from internals import _source
from scipy.sparse import csr_array
from sklearn.base import clone
from sources import SOURCES, arrow, cut, ibis_of_sqlite, polars

from skdpsynth import (
    LatentFactorSynthesizer,
    LowDimSynthesizer,
    OnlineSynthesizer,
    PrivateMeasureMechanism,
    PrivatePCA,
    SignedMeasureMechanism,
)
from skdpsynth.domain import Boolean, Constant, Continuous, Date, Duration, Nominal, TimeOfDay

pytestmark = [
    pytest.mark.usefixtures("hasty"),
    pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.SmallSampleWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ibis"),
]
N = 900
BOTH = ("replace_one", "add_or_remove_one")


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Chunks of at most 100 rows, so that small tables have many."""
    monkeypatch.setattr(_source, "rows_at_once", lambda n_columns: 100)


def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame({"a": rng.beta(2, 4, N), "b": rng.random(N) ** 2, "c": rng.random(N)})


def mixed():
    rng = np.random.default_rng(1)
    table = frame()[["a"]].assign(n=rng.integers(0, 9, N), level=rng.choice(["01067", "true", "z"], N))
    return table.assign(group=rng.choice(["u", "v"], N))


FRAMES = {
    "pandas": lambda table, folder: table,
    "pandas of Arrow": lambda table, folder: (pytest.importorskip("pyarrow"), table.convert_dtypes(dtype_backend="pyarrow"))[-1],
    "polars": lambda table, folder: polars(table),
    "pyarrow": lambda table, folder: arrow(table),
    "record batch": lambda table, folder: arrow(table).to_batches()[0],
    "narwhals": lambda table, folder: __import__("narwhals").from_native(polars(table)),
    "ibis of sqlite": ibis_of_sqlite,
    **SOURCES,
}
ARRAYS = {
    "Fortran": lambda X, folder: np.asfortranarray(X),
    "strided": lambda X, folder: np.repeat(X, 2, axis=0)[::2],
    "memory-mapped": lambda X, folder: (np.save(folder / "X.npy", X), np.load(folder / "X.npy", mmap_mode="r"))[-1],
    "dask array": lambda X, folder: pytest.importorskip("dask.array").from_array(X, chunks=(130, 2)),
    "list of arrays": lambda X, folder: cut(X, 7),
    "function of arrays": lambda X, folder: lambda: iter(cut(X, 7)),
}
ESTIMATORS = {
    "PCA": PrivatePCA(2),
    "PCA, Gaussian": PrivatePCA(delta=1e-6, noise="gaussian"),
    "PMM": PrivateMeasureMechanism(),
    "PMM, optimal": PrivateMeasureMechanism("optimal"),
    "PMM, paper": PrivateMeasureMechanism("paper"),
    "PSMM": SignedMeasureMechanism(30),
    "LowDim": LowDimSynthesizer(2),
    "Online": OnlineSynthesizer(),
    "LatentFactor": LatentFactorSynthesizer(n_factors=2),
}
TABLES = {
    "marginals": LatentFactorSynthesizer(n_factors=2),
    "scores": LatentFactorSynthesizer(n_factors=2, strategy="scores"),
    "stratified": LatentFactorSynthesizer(n_factors=2, stratify="group"),
}
STATED = {
    "a": Continuous(0, 1, decimals=1, missing=["x"]),
    "n": Continuous(0, 8, step=2, missing=[3], nullable=False),
    "level": Nominal(["01067", "true"], missing=["?"], other="else"),
    "group": Boolean(words=("u", "v")),
    "k": Constant(80),
}
SCHEMA = {"a": (0.0, 1.0), "n": (0, 8), "level": ["01067", "true", "z"], "group": ["u", "v"]}


def flat(thing):
    """Whatever a fitted attribute holds, as plain values that can be compared to the last bit."""
    if isinstance(thing, np.ndarray):
        return (thing.dtype.str, thing.shape, thing.tolist() if thing.dtype.hasobject else thing.tobytes())
    if isinstance(thing, dict):
        return [(str(key), flat(value)) for key, value in thing.items()]
    if isinstance(thing, list | tuple):
        return [flat(item) for item in thing]
    if dataclasses.is_dataclass(thing):
        return (type(thing).__name__, flat({name: value for name, value in vars(thing).items() if not name.startswith("_")}))
    if hasattr(thing, "get_params"):
        return fitted(thing)
    return pickle.dumps(thing)


def fitted(model):
    """All that a model learned, but what it was given and where it was charged."""
    left_out = {"accountant_", "feature_names_in_"}
    names = [name for name in sorted(vars(model)) if name.endswith("_") and not name.startswith("_") and name not in left_out]
    assert names
    return {name: flat(getattr(model, name)) for name in names}


def model_of(estimator, X, **params):
    params = {"random_state": 0} | params
    return clone(estimator).set_params(**params).fit(X)


def sampled(model):
    sample = model.sample(60, random_state=0)
    if isinstance(sample, np.ndarray | pd.DataFrame):
        columns = pd.DataFrame(sample).to_dict("list")
    else:
        columns = sample.to_pydict() if hasattr(sample, "to_pydict") else sample.to_dict(as_series=False)
    return [*map(str, columns)], [tuple(map(str, row)) for row in zip(*columns.values(), strict=True)]


def check_same(model, expected):
    mine, theirs = fitted(model), fitted(expected)
    assert mine.keys() == theirs.keys()
    assert [name for name in mine if mine[name] != theirs[name]] == []
    if hasattr(model, "sample"):
        assert sampled(model) == sampled(expected)


@pytest.fixture(scope="module")
def models():
    """Models of the table as an array, made once."""
    return {}


# Every source with one estimator of each route, under one relation each, and every estimator with one source of each kind.
ROUTES, KINDS = {"PCA": BOTH[0], "PMM": BOTH[1]}, ("parquet of 4 files", "csv", "dask of 4 partitions", "function", "dask array")
CASES = [(kind, name, relation) for kind in FRAMES | ARRAYS for name, relation in ROUTES.items()]
CASES += [(kind, name, BOTH[(i + j) % 2]) for i, kind in enumerate(KINDS) for j, name in enumerate(ESTIMATORS) if name not in ROUTES]
CASES = [case if case[1] != "Online" else (*case[:2], BOTH[0]) for case in CASES if case[:2] != ("dask of 4 partitions", "Online")]


@pytest.mark.parametrize(("kind", "name", "neighboring"), CASES, ids=["-".join(case) for case in CASES])
def test_models_of_numbers_are_the_same_from_every_source(kind, name, neighboring, models, tmp_path):
    make, rows = (FRAMES[kind], frame()) if kind in FRAMES else (ARRAYS[kind], frame().to_numpy())
    key, params = (name, neighboring, kind in FRAMES), {"neighboring": neighboring}
    if kind in FRAMES:  # a schema knows the names of columns, so it differs between arrays and frames
        params["bounds"] = {"b": (0, 1), "c": (0, 1), "a": (0, 2)}
    if key not in models:
        models[key] = model_of(ESTIMATORS[name], rows, **params)
    model = model_of(ESTIMATORS[name], make(rows, tmp_path), **params)
    check_same(model, models[key])
    if kind in FRAMES:
        assert model.feature_names_in_.tolist() == ["a", "b", "c"]


def times():
    days = np.datetime64("2020-01-01") + np.arange(N) % 300
    table = pd.DataFrame({"day": pd.Series(days.astype("M8[s]")).dt.strftime("%d/%m/%Y"), "hour": np.arange(N) % 24 * 100})
    table = table.assign(clock=[f"{hour // 100}:30" for hour in table["hour"]], wait=[f"{hour} min" for hour in table["hour"]])
    return table.astype(dict.fromkeys(("day", "clock", "wait"), "string"))


TIMES = {
    "day": Date("2020-01-01", "2020-12-31", format="%d/%m/%Y", missing=["03/01/2020"], nullable=False),
    "hour": TimeOfDay(format="%H%M", missing=[700], nullable=False),
    "clock": TimeOfDay(missing=["5:30"], nullable=False),
    "wait": Duration(0, "2 days", resolution="minute", missing=[9], nullable=False),
}
# A model, its table and its schema; beside bounds a schema states missing cells, steps, words, constants and how times are written.
OF_TABLES = {name: (model, mixed, SCHEMA) for name, model in TABLES.items()}
OF_TABLES |= {"stated": (TABLES["marginals"], lambda: mixed().assign(k=80), STATED), "times": (TABLES["marginals"], times, TIMES)}


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in FRAMES for name in OF_TABLES if name not in ("scores", "stratified") or kind in KINDS[::2]]
)
def test_models_of_mixed_tables_are_the_same_from_every_source(kind, name, models, tmp_path):
    if name == "times" and kind == "reader of pandas" and pd.Series(["a"]).dtype == object:
        pytest.skip("objects of older pandas come back as objects")
    model, table, schema = OF_TABLES[name]
    if ("table", name) not in models:
        models["table", name] = model_of(model, table(), schema=schema)
    check_same(model_of(model, FRAMES[kind](table(), tmp_path), schema=schema), models["table", name])


@pytest.mark.parametrize("neighboring", BOTH)
def test_components_of_sparse_chunks_are_those_of_the_array(neighboring):
    X = np.where(frame() < 0.4, 0.0, frame())
    chunks = [csr_array(part) for part in cut(X, 5, 500)]
    expected = model_of(PrivatePCA(2), X, neighboring=neighboring)
    for rows in (csr_array(X), chunks, iter(chunks), lambda: iter(chunks)):
        check_same(model_of(PrivatePCA(2), rows, neighboring=neighboring), expected)


@pytest.mark.parametrize("dtype", ["int64", "int8", "float32", "bool"])
@pytest.mark.parametrize("name", ["PCA", "PMM", "PSMM", "LatentFactor"])
def test_models_of_chunks_of_other_dtypes_are_those_of_the_array(name, dtype):
    X = np.random.default_rng(0).integers(0, 5, (N, 3)).astype(dtype)
    estimator = clone(ESTIMATORS[name]).set_params(bounds=(0, 4))
    check_same(model_of(estimator, cut(X, 7, 500)), model_of(estimator, X))


@pytest.mark.parametrize("seed", range(2))
def test_how_rows_are_cut_and_ordered_does_not_matter_to_a_sum(seed):
    """Rows in any order, in chunks of any sizes (empty ones too)."""
    rng, X = np.random.default_rng(seed), frame().to_numpy()
    chunks = np.split(rng.permutation(X), np.sort(rng.integers(0, N, 7)))
    for estimator in (PrivatePCA(2), PrivateMeasureMechanism(), LatentFactorSynthesizer(n_factors=2)):
        check_same(model_of(estimator, chunks), model_of(estimator, X))
