"""Under one seed a fit gives the same model to the last bit, whatever the rows are in and however they are cut into chunks."""

import dataclasses
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from internals import _source
from scipy.sparse import csr_array
from sklearn.base import clone

from skdpsynth import (
    LatentFactorSynthesizer,
    LowDimSynthesizer,
    OnlineSynthesizer,
    PrivateMeasureMechanism,
    PrivatePCA,
    SignedMeasureMechanism,
)

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


OPEN = []


def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame({"a": rng.beta(2, 4, N), "b": rng.random(N) ** 2, "c": rng.random(N)})


def mixed():
    rng = np.random.default_rng(1)
    table = frame()[["a"]].assign(n=rng.integers(0, 9, N), level=rng.choice(["x", "why", "z"], N))
    return table.assign(group=rng.choice(["u", "v"], N))


def arrow(table):
    return pytest.importorskip("pyarrow").Table.from_pandas(table, preserve_index=False)


def polars(table):
    return pl.DataFrame(table.to_dict("list"))


def parquet(table, folder, n_files=1, row_group_size=N):
    pytest.importorskip("pyarrow")
    for i, part in enumerate(np.array_split(np.arange(N), n_files)):
        table.iloc[part].to_parquet(folder / f"{i}.parquet", row_group_size=row_group_size, index=False)
    return str(folder / "*.parquet")


def csv(table, folder):
    pytest.importorskip("pyarrow")
    table.to_csv(folder / "table.csv", index=False)  # floats in the shortest form that reads back as they are
    return folder / "table.csv"


def duck(table, folder):
    connection, people = pytest.importorskip("duckdb").connect(), arrow(table)
    OPEN.append(connection)  # the oldest close it with the last name for it, under their relations
    connection.register("people_of_arrow", people)
    connection.execute("create table people as from people_of_arrow")
    return connection.table("people")


def ibis(table, folder):
    pytest.importorskip("duckdb")
    return pytest.importorskip("ibis").duckdb.connect().read_parquet(parquet(table, folder))


def lazy(table, folder):
    if not hasattr(pl.LazyFrame, "collect_batches"):
        pytest.skip("needs polars 1.34")
    return polars(table).lazy()


def dask(table, n_parts):
    return pytest.importorskip("dask.dataframe").from_pandas(table, npartitions=n_parts, sort=False)


def cut(table, *at):
    return [table[start:stop] for start, stop in zip((0, *at), (*at, N), strict=True)]


FRAMES = {
    "pandas": lambda table, folder: table,
    "pandas of Arrow": lambda table, folder: (pytest.importorskip("pyarrow"), table.convert_dtypes(dtype_backend="pyarrow"))[-1],
    "polars": lambda table, folder: polars(table),
    "pyarrow": lambda table, folder: arrow(table),
    "record batch": lambda table, folder: arrow(table).to_batches()[0],
    "narwhals": lambda table, folder: __import__("narwhals").from_native(polars(table)),
    "polars lazy": lazy,
    "narwhals lazy": lambda table, folder: __import__("narwhals").from_native(lazy(table, folder)),
    "parquet": parquet,
    "parquet of row groups": lambda table, folder: parquet(table, folder, row_group_size=70),
    "parquet of 4 files": lambda table, folder: parquet(table, folder, 4, 33),
    "csv": csv,
    "reader": lambda table, folder: arrow(table).to_reader(77),
    "dataset": lambda table, folder: (parquet(table, folder, 3), pytest.importorskip("pyarrow.dataset").dataset(folder))[-1],
    "duckdb": duck,
    "ibis": ibis,
    "dask": lambda table, folder: dask(table, 1),
    "dask of 4 partitions": lambda table, folder: dask(table, 4),
    "list": lambda table, folder: cut(table, 1, 600),
    "list of polars": lambda table, folder: cut(polars(table), 1, 600),
    "function": lambda table, folder: lambda: iter(cut(table, 450)),
    "generator": lambda table, folder: (chunk for chunk in cut(table, 450)),
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
SCHEMA = {"a": (0.0, 1.0), "n": (0, 8), "level": ["x", "why", "z"], "group": ["u", "v"]}


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
        rows = pd.DataFrame(sample).to_numpy().tolist()
    else:
        columns = sample.to_pydict() if hasattr(sample, "to_pydict") else sample.to_dict(as_series=False)
        rows = zip(*columns.values(), strict=True)
    return [tuple(map(str, row)) for row in rows]


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


# Every source with one estimator of each route, and every estimator with one source of each kind.
ROUTES, KINDS = ("PCA", "PMM"), ("parquet of 4 files", "csv", "dask of 4 partitions", "function", "dask array")
PAIRS = [(kind, name) for kind in FRAMES | ARRAYS for name in ESTIMATORS if name in ROUTES or kind in KINDS]
PAIRS.remove(("dask of 4 partitions", "Online"))  # whose rows have no order


@pytest.mark.parametrize("neighboring", BOTH)
@pytest.mark.parametrize(("kind", "name"), PAIRS, ids=["-".join(pair) for pair in PAIRS])
def test_models_of_numbers_are_the_same_from_every_source(kind, name, neighboring, models, tmp_path):
    make = FRAMES.get(kind) or ARRAYS[kind]
    X = make(frame() if kind in FRAMES else frame().to_numpy(), tmp_path)
    if name == "Online" and neighboring != "replace_one":
        pytest.skip("has one relation only")
    key, params = (name, neighboring, kind in FRAMES), {"neighboring": neighboring}
    if key not in models:  # a schema knows the names of columns, so it differs between arrays and frames
        models[key] = model_of(ESTIMATORS[name], frame() if kind in FRAMES else frame().to_numpy(), **params)
    check_same(model_of(ESTIMATORS[name], X, **params), models[key])


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in FRAMES for name in TABLES if name == "marginals" or kind in KINDS])
def test_models_of_mixed_tables_are_the_same_from_every_source(kind, name, models, tmp_path):
    if ("table", name) not in models:
        models["table", name] = model_of(TABLES[name], mixed(), schema=SCHEMA)
    check_same(model_of(TABLES[name], FRAMES[kind](mixed(), tmp_path), schema=SCHEMA), models["table", name])


@pytest.mark.parametrize("neighboring", BOTH)
@pytest.mark.parametrize("kind", [list, iter, lambda chunks: lambda: iter(chunks)], ids=["list", "iterator", "function"])
def test_components_of_sparse_chunks_are_those_of_the_array(kind, neighboring):
    X = np.where(frame() < 0.4, 0.0, frame())
    chunks = kind([csr_array(part) for part in cut(X, 5, 500)])
    models = [model_of(PrivatePCA(2), rows, neighboring=neighboring) for rows in (X, csr_array(X), chunks)]
    for model in models[1:]:
        check_same(model, models[0])


@pytest.mark.parametrize("dtype", ["int64", "int8", "float32", "bool"])
@pytest.mark.parametrize("name", sorted(ESTIMATORS.keys() - {"Online"}))
def test_models_of_chunks_of_other_dtypes_are_those_of_the_array(name, dtype):
    X = np.random.default_rng(0).integers(0, 5, (N, 3)).astype(dtype)
    estimator = clone(ESTIMATORS[name]).set_params(bounds=(0, 4))
    check_same(model_of(estimator, cut(X, 7, 500)), model_of(estimator, X))


@pytest.mark.parametrize("kind", FRAMES)
def test_names_of_columns_are_known_from_every_source(kind, tmp_path):
    bounds = {"b": (0, 1), "c": (0, 1), "a": (0, 2)}
    model = model_of(PrivateMeasureMechanism(bounds=bounds), FRAMES[kind](frame(), tmp_path))
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    sample = model.sample(5)
    assert list(sample.column_names if hasattr(sample, "column_names") else sample.columns) == ["a", "b", "c"]


@pytest.mark.parametrize("seed", range(5))
def test_how_rows_are_cut_and_ordered_does_not_matter_to_a_sum(seed):
    """Rows in any order, in chunks of any sizes (empty ones too)."""
    rng, X = np.random.default_rng(seed), frame().to_numpy()
    chunks = np.split(rng.permutation(X), np.sort(rng.integers(0, N, 7)))
    for estimator in (PrivatePCA(2), PrivateMeasureMechanism(), LatentFactorSynthesizer(n_factors=2)):
        check_same(model_of(estimator, chunks), model_of(estimator, X))
