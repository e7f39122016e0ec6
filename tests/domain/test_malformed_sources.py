"""What cannot be read as a table, or not twice alike, is refused in one sentence that quotes no cell, before any budget is spent."""

import gzip
import os
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sources
from internals import _csv, _open_source, _source, open_source
from scipy.sparse import csr_array

from skdpsynth import LatentFactorSynthesizer, PrivacyAccountant, PrivateMeasureMechanism, PrivatePCA

pytestmark = [pytest.mark.filterwarnings("ignore::UserWarning"), pytest.mark.usefixtures("hasty")]
SECRET = 0.73019
OPEN = []


def frame(n=40):
    return pd.DataFrame({"a": np.full(n, SECRET), "b": np.linspace(0, 1, n)})


def array(n=40):
    return frame(n).to_numpy()


def parquet(folder, name="f.parquet", table=None):
    pytest.importorskip("pyarrow")
    (frame() if table is None else table).to_parquet(folder / name, index=False)
    return folder / name


def csv(folder, text, name="f.csv"):
    pytest.importorskip("pyarrow")
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder / name


def arrow(table=None):
    return pytest.importorskip("pyarrow").Table.from_pandas(frame() if table is None else table)


def damaged(folder, change):
    path = parquet(folder)
    path.write_bytes(change(path.read_bytes()))
    return path


def zeroed(content):
    return content[:4] + bytes(200) + content[204:]


def then(first, *others):
    """A function that gives one thing at first and others later."""
    calls = iter([first, *others])

    def chunks():
        return next(calls, others[-1])()

    return chunks


def raising(error, n_good=1):
    def chunks():
        for _ in range(n_good):
            yield array()
        raise error

    return chunks


def lazy(query):
    return query(sources.lazy(frame().assign(a="secret")))


def duck(query):
    connection = pytest.importorskip("duckdb").connect()
    OPEN.append(connection)  # the oldest close it with the last name for it, under their relations
    connection.execute(f"create table people as select 'secret' as a, {SECRET} as b from range(40)")
    return query(connection)


def partitions(change):
    """A frame of Dask after a change of each partition."""
    return pytest.importorskip("dask.dataframe").from_pandas(frame(), npartitions=2).map_partitions(change, meta=frame(0))


class Hostile:
    def __iter__(self):
        raise RuntimeError("secret")


MANY = [array()] * 3
FILES = {
    "missing file": (lambda folder: folder / "nowhere.parquet", "there is no file [^\n]*nowhere.parquet"),
    "glob without match": (lambda folder: f"{folder}/*.parquet", "no file matches"),
    "folder without tables": (lambda folder: folder, "has none"),
    "hive folder": (lambda folder: ((folder / "y=1").mkdir(), parquet(folder / "y=1"), folder)[-1], "partitioning='hive'"),
    "unknown suffix": (lambda folder: csv(folder, "a,b\n1,2\n", "f.xls"), r"by its suffix one of .parquet, [^\n]*f.xls'"),
    "two kinds": (lambda folder: (parquet(folder), csv(folder, "a,b\n1,2\n"), folder)[-1], "both Parquet and CSV"),
    "address": (lambda folder: "s3://bucket/people.parquet", "pyarrow.dataset.dataset"),
    "path with a null": (lambda folder: "a\0b.parquet", "correct"),
    "truncated Parquet": (
        lambda folder: damaged(folder, lambda content: content[: len(content) // 2]),
        "f.parquet' is none, or is damaged",
    ),
    "Parquet with zeros inside": (lambda folder: damaged(folder, zeroed), "is none, or is damaged"),
    "CSV called Parquet": (lambda folder: csv(folder, "a,b\n1,2\n", "f.parquet"), "is none, or is damaged"),
    "Parquet with other columns": (
        lambda folder: [parquet(folder), parquet(folder, "g.parquet", frame().rename(columns={"b": "c"}))],
        "g.parquet' has 'c' where the first has 'b'",
    ),
    "Parquet with other dtypes": (
        lambda folder: [parquet(folder), parquet(folder, "g.parquet", frame().assign(b=1))],
        "column 'b' of [^\n]*g.parquet' has Int64, and the first Float64",
    ),
    "empty CSV": (lambda folder: csv(folder, ""), "must be CSV files"),
    "CSV whose header is not UTF-8": (lambda folder: csv(folder, b"a,\xff\n1,2\n"), "UTF-8"),
    "CSV whose header leaves a quote open": (lambda folder: csv(folder, 'a,"b\n1,2\n'), "first line"),
    "CSV that is cut off": (lambda folder: csv(folder, gzip.compress(b"a,b\n" + os.urandom(9999))[:5000], "f.csv.gz"), "must be CSV files"),
    "CSV with semicolons": (
        lambda folder: csv(folder, "a;b\n1;2\n"),
        r"f.csv' seems to have ';'; set separator to ';' in read of the schema",
    ),
    "CSV with other columns": (lambda folder: [csv(folder, "a,b\n1,2\n"), csv(folder, "a,c\n1,2\n", "g.csv")], "g.csv'"),
}
CHUNKS = {
    "nothing": (lambda folder: None, "got None"),
    "function without chunks": (lambda folder: lambda: iter([]), "gave none; give one that has some"),
    "function that needs arguments": (lambda folder: lambda path: iter(MANY), "without being given anything"),
    "function that returns nothing": (lambda folder: lambda: None, "but gave a NoneType"),
    "function that returns a frame": (lambda folder: frame, "but gave a DataFrame, which is one; yield it"),
    "function that raises": (lambda folder: then(lambda: 1 / 0, lambda: 1 / 0), "calling it failed .ZeroDivisionError"),
    "function of one iterator": (lambda folder: (lambda it: lambda: it)(iter(MANY * 2)), "another number of them|gave none"),
    "object whose iteration raises": (lambda folder: Hostile(), "is a Hostile of chunks, whose iteration failed"),
    "generator that raises": (lambda folder: raising(KeyError("secret"))(), "an error of its own .KeyError"),
    "function whose iterator raises": (lambda folder: raising(OSError("secret")), "an error of its own .OSError"),
    "iterator that ends early the second time": (
        lambda folder: then(lambda: iter(MANY), lambda: iter(MANY), lambda: iter(MANY[:2])),
        "another number of them",
    ),
    "iterator of other columns the second time": (
        lambda folder: then(lambda: iter(MANY), lambda: iter(MANY), lambda: iter([array()[:, :1]] * 3)),
        "chunk 1 has 1 column where",
    ),
    "iterator of rows": (lambda folder: (row for row in array()), r"chunk 1 is a ndarray of shape \(2,\)"),
    "masked chunk": (lambda folder: [array(), np.ma.array(array(), mask=array() > 0.5)], "must not be a masked array"),
    "more columns": (lambda folder: [array(), np.ones((3, 3))], "chunk 2 has 3 columns where the first has 2"),
    "other dtypes": (lambda folder: [array(), np.ones((3, 2), dtype=int)], "chunk 2 has int64, and the first float64"),
    "other kind": (lambda folder: [frame(), array()], "chunk 2 is a 2-D array, and the first a data frame of pandas"),
    "sparse among dense": (lambda folder: [array(), csr_array(array())], "chunk 2 is a sparse matrix"),
    "other names": (lambda folder: [frame(), frame().rename(columns={"a": "c"})], "chunk 2 has 'c' where the first has 'a'"),
    "other dtypes in a frame": (
        lambda folder: [frame(), frame().astype({"b": "float32"})],
        "column 'b' of chunk 2 has float32, and the first float64",
    ),
    "other polars dtypes": (
        lambda folder: [pl.DataFrame({"a": [1.0]}), pl.DataFrame({"a": ["secret"]})],
        "column 'a' of chunk 2 has String, and the first Float64",
    ),
    "too large to keep": (lambda folder: iter(MANY * 40), "can be read only once, and holds more than"),
}
LIBRARIES = {
    "reader that was read": (lambda folder: (lambda r: (r.read_all(), r)[1])(arrow().to_reader()), "at least|minimum"),
    "reader that fails": (
        lambda folder: pytest.importorskip("pyarrow").RecordBatchReader.from_batches(arrow().schema, failing_batches()),
        "reading it failed .[A-Za-z]+",
    ),
    "dataset of damaged files": (lambda folder: (lambda ds: (damaged(folder, zeroed), ds)[1])(dataset(folder)), "reading it failed"),
    "dataset whose file is gone": (
        lambda folder: (lambda ds: (parquet(folder).unlink(), ds)[1])(dataset(folder)),
        "failed .FileNotFoundError",
    ),
    "polars query of an unknown column": (lambda folder: lazy(lambda q: q.select("nowhere")), "be evaluated .ColumnNotFoundError"),
    "polars query that fails": (lambda folder: lazy(lambda q: q.with_columns(pl.col("a").cast(pl.Int64))), "could not be evaluated"),
    "DuckDB query that fails": (
        lambda folder: duck(lambda c: c.sql("select cast(a as double) as a, b::double as b from people")),
        "could not be evaluated .ConversionException",
    ),
    "DuckDB connection": (lambda folder: duck(lambda c: c), "give a relation"),
    # Dask may find out by itself
    "Dask partition of other columns": (lambda folder: partitions(lambda x: x.assign(c=1)), "(all )?be computed|has 3 of them"),
    "Dask partition of other dtypes": (
        lambda folder: partitions(lambda x: x.astype({"b": "int8"})),
        "column 'b' of (chunk|partition) [12] has int8|could not (all )?be computed",
    ),
    "Dask series": (lambda folder: partitions(lambda x: x)["a"], "Expected 2D array"),
    "Dask delayed": (lambda folder: pytest.importorskip("dask").delayed(array)(), "got a Delayed of Dask"),
}
CASES = FILES | CHUNKS | LIBRARIES


def dataset(folder):
    return pytest.importorskip("pyarrow.dataset").dataset(parquet(folder))


def failing_batches():
    yield from arrow().to_batches()
    raise KeyError("secret")


@pytest.fixture
def small(monkeypatch):
    """Small limits, so that small tables meet them."""
    monkeypatch.setattr(_open_source, "MOST_KEPT", 8000)
    monkeypatch.setattr(_csv, "_BLOCK", 100)


def check_told(error, pattern):
    """One sentence with a way out, without a cell, and without what another library said."""
    message = str(error)
    assert re.search(pattern, message), message
    assert re.fullmatch(r"(X|chunk \d of X|'[^']*f\.csv'|Expected|Found) [^\n]*\.", message), message
    assert len(message) < 400
    assert "secret" not in message
    assert str(SECRET) not in message
    assert error.__context__ is None or error.__suppress_context__


BOUNDS = {"bounds": (0.0, 1.0)}
ESTIMATORS = [PrivateMeasureMechanism(**BOUNDS), PrivatePCA(**BOUNDS), LatentFactorSynthesizer(n_factors=1, **BOUNDS)]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: type(estimator).__name__)
@pytest.mark.parametrize("case", CASES)
def test_fit_of_a_malformed_source_spends_nothing(case, estimator, tmp_path, small):
    make, pattern = CASES[case]
    accountant = PrivacyAccountant(10.0)
    estimator = type(estimator)(**estimator.get_params() | {"accountant": accountant})
    X = make(tmp_path)
    with pytest.raises((TypeError, ValueError, OSError)) as caught:
        estimator.fit(X)
    check_told(caught.value, f"{pattern}|numbers only")
    assert accountant.spent == 0
    assert not hasattr(estimator, "n_features_in_")


def rewritten(path):
    path.write_bytes(path.read_bytes() + b"1,2\n")


CHANGES = {
    "gone": (os.remove, "is gone or closed to you .FileNotFoundError"),
    "written to": (rewritten, "must not change while it is read, but [^\n]* was written to"),
    "replaced": (lambda path: os.utime(path, ns=(0, 0)), "was written to"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_file_that_changes_before_between_or_in_passes_is_refused(change, kind, tmp_path):
    do, pattern = CHANGES[change]
    path = tmp_path / f"f.{kind}"
    for n_passes in range(3):
        parquet(tmp_path) if kind == "parquet" else csv(tmp_path, "a,b\n" + "1,2\n" * 40)
        source = open_source(path)
        for _ in range(n_passes):
            list(source.chunks())
        chunks = source.chunks()
        if n_passes == 2:
            next(chunks)
        do(path)
        with pytest.raises(OSError, match=pattern) as caught:
            list(chunks)
        check_told(caught.value, pattern)


@pytest.mark.parametrize("change", CHANGES)
def test_fit_of_a_file_that_changes_after_the_pass_that_counts_spends_nothing(change, tmp_path, monkeypatch):
    do, pattern = CHANGES[change]
    path, read = csv(tmp_path, "a,b\n" + "1,2\n" * 40), _csv.CsvFiles._read_tables

    def read_and_change(self):
        yield from read(self)
        monkeypatch.setattr(_csv.CsvFiles, "_read_tables", read)
        changed.append(do(path))

    changed = []
    monkeypatch.setattr(_csv.CsvFiles, "_read_tables", read_and_change)
    accountant = PrivacyAccountant(10.0)
    with pytest.raises(OSError, match=pattern) as caught:
        PrivateMeasureMechanism(bounds=(0, 9), accountant=accountant).fit(path)
    check_told(caught.value, pattern)
    assert changed
    assert accountant.spent == 0


def test_missing_package_is_named(tmp_path, monkeypatch):
    path = csv(tmp_path, "a,b\n1,2\n")
    monkeypatch.setattr(_source, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"^X is a CSV file, which needs pyarrow to be read; install it: pip install pyarrow\.$"):
        open_source(path)


def test_memory_errors_and_interrupts_pass():
    for error in (MemoryError(), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            list(open_source(raising(error)).chunks())
