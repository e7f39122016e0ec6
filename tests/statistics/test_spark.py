"""Sums on Spark: tasks and sums travel as bytes, and a real Spark gives the bits of the table in memory."""

import os
import shutil
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
import sources
from internals import open_source

from skdpsynth import LatentFactorSynthesizer, LowDimSynthesizer, PrivacyAccountant, PrivateMeasureMechanism, PrivatePCA
from skdpsynth.domain import Continuous, Date, DateTime, Nominal
from skdpsynth.frames import Rows
from skdpsynth.statistics import RowCount, total

pytestmark = pytest.mark.usefixtures("hasty")
pytest.importorskip("pyarrow")
pytest.importorskip("cloudpickle")

RNG = np.random.default_rng(0)
NUMBERS = pd.DataFrame(RNG.random((900, 3)), columns=list("abc"))
TABLE = pd.DataFrame(
    {"x": RNG.random(900), "n": RNG.integers(0, 9, 900), "flag": RNG.random(900) < 0.3, "word": RNG.choice(["u", "01"], 900)}
)
TABLE["time"] = pd.date_range("2020-01-01", periods=900, freq="h", tz="UTC")
TABLE["day"] = TABLE["time"].dt.date
TABLE["few"] = TABLE["x"].where(TABLE["n"] > 2)
SCHEMA = {"x": (0.0, 1.0), "n": (0, 8), "flag": [False, True], "word": ["u", "01"], "few": Continuous(0.0, 1.0, nullable=True)}
SCHEMA |= {"time": DateTime("2020-01-01T00:00:00Z", "2020-03-01T00:00:00Z"), "day": Date("2020-01-01", "2020-12-31")}
BOUGHT = {"a": Continuous(bounds="private"), "b": (0.0, 1.0), "c": (0.0, 1.0), "word": Nominal("private")}
FITS = {
    "PMM": (PrivateMeasureMechanism(random_state=0), NUMBERS),
    "PMM, private n": (PrivateMeasureMechanism(random_state=0, neighboring="add_or_remove_one"), NUMBERS),
    "PCA": (PrivatePCA(random_state=0), NUMBERS),
    "LowDim": (LowDimSynthesizer(2, random_state=0), NUMBERS),
    "table": (LatentFactorSynthesizer(SCHEMA, random_state=0), TABLE),
    "private facts": (
        LatentFactorSynthesizer(BOUGHT, epsilon=20, delta=1e-6, random_state=0),
        NUMBERS.assign(word=TABLE["word"]),
    ),
}


def shown(estimator, table):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = estimator.fit(table)
    return model.covariance_ if isinstance(model, PrivatePCA) else model.sample(100, random_state=0)


def check_same(estimator, there, here):
    ours, theirs = shown(estimator, there), shown(estimator, here)
    assert type(ours) is type(theirs)
    assert str(getattr(ours, "dtypes", "")) == str(getattr(theirs, "dtypes", ""))
    np.testing.assert_array_equal(np.asarray(ours).astype(str), np.asarray(theirs).astype(str))


# Partitions that travel as bytes


@pytest.mark.parametrize("name", ["table", "private facts"])
@pytest.mark.parametrize("n_parts", [1, 11])
def test_sums_of_tasks_that_were_pickled_are_those_of_the_table(name, n_parts):
    estimator, table = FITS[name]
    check_same(estimator, sources.Spark.of(table, n_parts), table)


def test_what_comes_back_does_not_grow_with_the_rows(monkeypatch):
    sizes, collect = [], sources.Spark.collect

    def weighed(frame):
        rows = collect(frame)
        sizes.append(sum(len(row.part) for row in rows))
        return rows

    monkeypatch.setattr(sources.Spark, "collect", weighed)
    for n_rows in (100, 10_000):
        shown(PrivateMeasureMechanism(random_state=0, bounds=(0, 1)), sources.Spark.of(pd.DataFrame({"a": RNG.random(n_rows)}), 5))
    before, after = np.split(np.array(sizes), 2)
    assert before.max() < 1 << 14
    assert after.max() < 1 << 14


def test_rows_that_come_between_two_readings_are_refused():
    tables = iter(map(sources.arrow, (NUMBERS, NUMBERS[:5])))
    source = open_source(sources.Spark([lambda: next(tables).to_batches()], sources.arrow(NUMBERS).schema))
    assert total(Rows(source, 3, None), RowCount.over()).n_samples == 900
    with pytest.raises(ValueError, match="another number of them"):
        total(Rows(source, 3, None), RowCount.over())


def failing():
    raise KeyError("cell 0.25")
    yield


BROKEN = {
    "a cell that is no number": (lambda: sources.arrow(NUMBERS.where(NUMBERS > 0.25)).to_batches(), "^Input X contains NaN"),
    "an error of Spark's own": (failing, r"^X is a data frame of Spark, .*\(KeyError\)"),
    "other columns": (lambda: sources.arrow(NUMBERS[["a"]]).to_batches(), "^X is a data frame of Spark"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_goes_wrong_is_one_sentence_without_data_and_costs_nothing(name):
    part, sentence = BROKEN[name]
    frame, accountant = sources.Spark([part], sources.arrow(NUMBERS).schema), PrivacyAccountant(1.0)
    with pytest.raises(ValueError, match=sentence) as caught:
        PrivateMeasureMechanism(accountant=accountant, bounds=(0, 1)).fit(frame)
    assert caught.value.__cause__ is caught.value.__context__ is None
    assert "0.25" not in str(caught.value)
    assert not accountant.ledger


# A Spark of two threads


@pytest.fixture(scope="module")
def spark():
    sql = pytest.importorskip("pyspark.sql")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs a Java runtime")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    options = {"spark.ui.enabled": "false", "spark.sql.session.timeZone": "America/New_York"}
    session = sql.SparkSession.builder.master("local[2]").config(map=options).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:PySpark does not yet")
@pytest.mark.parametrize("name", FITS)
def test_a_fit_on_spark_is_that_of_the_table_in_memory(name, spark):
    estimator, table = FITS[name]
    check_same(estimator, spark.createDataFrame(table).repartition(5), table)


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:PySpark does not yet")
def test_rows_of_spark_are_read_where_they_are_needed(spark):
    estimator = LatentFactorSynthesizer(SCHEMA, strategy="scores", random_state=0)
    check_same(estimator, spark.createDataFrame(TABLE), TABLE)


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:PySpark does not yet")
def test_a_query_of_spark_that_fails_is_said_without_a_cell(spark):
    with pytest.raises(ValueError, match=r"^X is a data frame of Spark, which could not be evaluated \(\w+\)") as caught:
        PrivateMeasureMechanism().fit(spark.createDataFrame(NUMBERS).selectExpr("cast('secret' || a as double) a"))
    assert "secret" not in str(caught.value)
    with pytest.raises(TypeError, match="must be a data frame of Spark, got a RDD"):
        open_source(spark.createDataFrame(NUMBERS).rdd)
