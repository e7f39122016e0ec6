"""Sums on Dask, Spark and Ray: the same bits whatever runs the tasks, and rows that stay where they are."""

import logging
import multiprocessing
import os
import shutil
import signal
import sys
import types
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sources
from internals import open_source

from skdpsynth import LatentFactorSynthesizer, LowDimSynthesizer, PrivacyAccountant, PrivateMeasureMechanism, PrivatePCA
from skdpsynth.domain import Ball, Box, Continuous, Date, DateTime, Nominal
from skdpsynth.frames import Rows
from skdpsynth.measures import BinaryPartition
from skdpsynth.statistics import CountLengths, Histogram, Moments, RowCount, total

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
    "private facts": (LatentFactorSynthesizer(BOUGHT, epsilon=20, delta=1e-6, random_state=0), NUMBERS.assign(word=TABLE["word"])),
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


# Spark, as far as a source asks it: partitions that travel as bytes


@pytest.mark.parametrize(("name", "n_parts"), [("private facts", 1), ("private facts", 11), ("table", 11)])
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


def test_rows_that_come_between_two_readings_of_spark_are_refused():
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
def test_what_goes_wrong_in_spark_is_one_sentence_without_data_and_costs_nothing(name):
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


def of_spark(test):
    return pytest.mark.nightly(pytest.mark.filterwarnings("ignore:PySpark does not yet")(test))


@of_spark
@pytest.mark.parametrize("name", FITS)
def test_a_fit_on_spark_is_that_of_the_table_in_memory(name, spark):
    estimator, table = FITS[name]
    check_same(estimator, spark.createDataFrame(table).repartition(5), table)


@of_spark
def test_rows_of_spark_are_read_where_they_are_needed(spark):
    estimator = LatentFactorSynthesizer(SCHEMA, strategy="scores", random_state=0)
    check_same(estimator, spark.createDataFrame(TABLE), TABLE)


@of_spark
def test_a_query_of_spark_that_fails_is_said_without_a_cell(spark):
    with pytest.raises(ValueError, match=r"^X is a data frame of Spark, which could not be evaluated \(\w+\)") as caught:
        PrivateMeasureMechanism().fit(spark.createDataFrame(NUMBERS).selectExpr("cast('secret' || a as double) a"))
    assert "secret" not in str(caught.value)
    with pytest.raises(TypeError, match="must be a data frame of Spark, got a RDD"):
        open_source(spark.createDataFrame(NUMBERS).rdd)


# Ray, by the recipe of the documentation

PAGE = Path(__file__).parents[2] / "docs" / "large_data.md"
BY_RAY = {name: FITS[name] for name in ("PMM", "PMM, private n", "PCA", "LowDim")}
BY_RAY["words"] = (LatentFactorSynthesizer(BOUGHT | {"a": (0.0, 1.0), "word": ["u", "01"]}, random_state=0), FITS["private facts"][1])


class RayData:
    """A data set of Ray as far as the recipe asks one."""

    def __init__(self, tables):
        self.tables, self.schema = tables, lambda: tables[0].schema

    def map_batches(self, function, batch_format, batch_size):
        sums = [function(table) for table in self.tables]
        return types.SimpleNamespace(iter_rows=lambda: ({"sums": part["sums"][0]} for part in sums))


@pytest.fixture(params=["as the recipe asks it", "ray"])
def ray_data(request):
    if request.param != "ray":
        yield lambda tables: RayData([sources.arrow(table) for table in tables])
        return
    ray = pytest.importorskip("ray")
    pytest.importorskip("ray.data")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield ray.data.from_pandas
    ray.shutdown()


@pytest.mark.parametrize("name", BY_RAY)
def test_ray_gives_the_bits_of_one_table(name, ray_data):
    block = next(block for block in PAGE.read_text(encoding="utf-8").split("```python\n")[1:] if "def ray_rows(" in block)
    names = {}
    exec(compile(block.split("```")[0], str(PAGE), "exec"), names)
    estimator, table = BY_RAY[name]
    there = names["ray_rows"](ray_data([table[start : start + 200] for start in range(0, 900, 200)]))
    np.testing.assert_array_equal(np.asarray(shown(estimator, there)), np.asarray(shown(estimator, table)))


dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
BOX = Box(np.zeros(3), np.ones(3))
BALL = Ball.of(BOX, 12, True)
X = np.random.default_rng(0).uniform(-0.1, 1.1, (1000, 3))
RULES = {
    "rows": RowCount.over(),
    "cells": Histogram.over(BinaryPartition(BOX, 9)),
    "many cells": Histogram.over(BinaryPartition(BOX, 21)),
    "moments": Moments.over(BALL.within(10**6)),
    "lengths": CountLengths(BALL, np.array([1e7, 1e6, 1e5])),
    "shrinkage": Moments.moved_by_shrinking(BALL.within(10**6)),
}


def spread(rows=1000, at_once=30):
    """Rows of numbers in partitions."""
    return da.from_array(X[:rows], chunks=(at_once, 3))


def rows_of(collection):
    return Rows(open_source(collection), 3, None)


def summed(rule, collection):
    return total(rows_of(collection), rule).flat.tolist()


def of_blocks(change, *args):
    """The rows after a function of blocks that gets the number of each."""
    return spread().map_blocks(
        lambda block, block_info=None: change(block, block_info[0]["chunk-location"][0], *args), dtype=float, meta=X[:0]
    )


@pytest.fixture(scope="module")
def forks():
    """A process that has imported what a task needs, and forks others: one that dies is soon replaced."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["distributed", "pandas", "dask.dataframe", "skdpsynth"])
    return context


@pytest.fixture(scope="module")
def cluster(forks):
    """A cluster of two processes."""
    distributed = pytest.importorskip("distributed")
    options = {"threads_per_worker": 1, "memory_limit": "1GB", "dashboard_address": ":0", "silence_logs": logging.CRITICAL}
    with pytest.MonkeyPatch.context() as patch:
        for user in (distributed.nanny, distributed.process):
            patch.setattr(user, "get_mp_context", lambda: forks)
        with distributed.LocalCluster(n_workers=2, **options) as cluster, distributed.Client(cluster.scheduler_address) as client:
            yield cluster, client


@pytest.fixture
def client(cluster):
    """The client of a cluster whose workers are all there, reached by its address alone."""
    cluster, client = cluster
    cluster.scale(2)  # one that died while it started is not replaced by itself
    client.wait_for_workers(2, timeout=60)
    return client


# The same bits


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("scheduler", ["single-threaded", "threads"])
@pytest.mark.parametrize("at_once", [300, 11])
def test_a_sum_does_not_depend_on_partitions_nor_on_the_threads_that_sum_them(name, scheduler, at_once):
    with dask.config.set(scheduler=scheduler):
        assert summed(RULES[name], spread(at_once=at_once)) == RULES[name].of(X).flat.tolist()


@pytest.mark.parametrize("on_cluster", [False, True])
def test_a_fit_with_private_facts_does_not_depend_on_where_the_rows_are(on_cluster, request):
    if on_cluster:
        request.getfixturevalue("client")
    estimator, table = FITS["private facts"]
    check_same(estimator, dd.from_pandas(table, npartitions=9), table)


# Rows stay


class Stays(np.ndarray):
    """Rows that refuse to be moved to another process."""

    def __reduce_ex__(self, protocol):
        raise TypeError("rows must stay where they are")


try:
    from distributed.protocol import dask_serialize, serialize
except ImportError:
    pass
else:

    @dask_serialize.register(Stays)
    def refuse(rows):
        """Workers send arrays in a way of their own."""
        raise TypeError("rows must stay where they are")


@pytest.mark.parametrize("name", ["PMM, private n", "LowDim"])
def test_rows_stay_with_the_workers_of_a_cluster(name, client):
    table = of_blocks(lambda block, number: block.view(Stays))
    with pytest.raises(TypeError, match="not serialize"):
        serialize(X.view(Stays), on_error="raise")  # they show it where they are moved
    check_same(FITS[name][0], table, X)


def sent(client):
    return sum(client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total).values())


def test_what_workers_send_does_not_grow_with_the_rows(client):
    """Ten sums of 512 counts and the sums of those: less than two bytes a count, and never as many as one partition of a hundred."""
    before = sent(client)
    for n_rows in (10**5, 10**6):
        assert sum(summed(RULES["cells"], da.random.default_rng(0).random((n_rows, 3), chunks=(n_rows // 10, 3)))) == n_rows
        assert 512 < sent(client) - before < 12 * (2 * 512 + 256)
        before = sent(client)


class Weighty:
    """A partition of a box that takes 2 MiB where it travels, and counts how often it leaves this process."""

    depth, sent = 9, 0

    def __init__(self, load):
        self.load = load

    def locate(self, rows):
        return BinaryPartition(BOX, self.depth).locate(rows)

    def __reduce__(self):
        Weighty.sent += 1
        return Weighty, (self.load,)


def test_a_large_rule_does_not_travel_with_every_task(client):
    Weighty.sent = 0
    assert summed(Histogram.over(Weighty(np.zeros(1 << 18))), spread(at_once=10)) == RULES["cells"].of(X).flat.tolist()
    assert Weighty.sent < 5


# Workers die


def dying(block, number, marker):
    """Kill the process that computes the fourth partition, the first time."""
    if number == 3 and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return block


@pytest.mark.parametrize("name", ["many cells", "moments"])
def test_the_rows_of_a_worker_that_dies_count_once(name, client, tmp_path):
    marker = tmp_path / "died"
    assert summed(RULES[name], of_blocks(dying, marker)) == RULES[name].of(X).flat.tolist()
    assert marker.exists()


def test_a_partition_that_kills_every_worker_is_said_in_one_sentence(client):
    accountant = PrivacyAccountant(1.0)
    client.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", 0))
    with pytest.raises(OSError, match=r"^X is of Dask, whose partitions .* \(KilledWorker\); give workers more memory, or .*\.$"):
        PrivateMeasureMechanism(accountant=accountant).fit(of_blocks(lambda block, number: os.kill(os.getpid(), signal.SIGKILL)))
    assert not accountant.ledger
    client.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", 3))


# What goes wrong


def raising(block, number, error):
    raise error


def with_nan(block, number):
    return np.where(np.arange(len(block))[:, None] == number, np.nan, block)


# Of blocks: what becomes of them, the error that a fit raises, and its words.
BROKEN_BLOCKS = {
    "a cell that is no number": ((with_nan,), ValueError, "^Input X contains NaN"),
    "an error of the caller's own": ((raising, KeyError("cell 0.25")), ValueError, r"\(KeyError\); compute X alone"),
    "a value that is wrong": ((raising, ValueError("cell 0.25")), ValueError, r"\(ValueError\); compute X alone"),
    "too little memory": ((raising, MemoryError("0.25")), MemoryError, r"\(MemoryError\); give workers more memory"),
    "a package that is missing": ((raising, ImportError("0.25")), ImportError, "install skdpsynth"),
    "another width": ((lambda block, number: block[:, :2],), ValueError, "partition [0-9]+ has 2 columns"),
    "no table": ((lambda block, number: block[0],), TypeError, "partition [0-9]+"),
}


@pytest.mark.parametrize("name", BROKEN_BLOCKS)
@pytest.mark.parametrize("scheduler", ["single-threaded", "threads", "cluster"])
def test_what_goes_wrong_in_dask_is_one_sentence_without_data_and_costs_nothing(name, scheduler, request):
    blocks, kind, sentence = BROKEN_BLOCKS[name]
    accountant = PrivacyAccountant(1.0)
    with dask.config.set({} if scheduler == "cluster" else {"scheduler": scheduler}):
        if scheduler == "cluster":
            request.getfixturevalue("client")
        with pytest.raises(kind, match=sentence) as caught:
            PrivateMeasureMechanism(accountant=accountant).fit(of_blocks(*blocks))
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert "0.25" not in str(caught.value)
    assert not accountant.ledger


def test_rows_that_come_between_two_readings_of_dask_are_refused():
    lengths = iter([1, 2])
    parts = dask.delayed(lambda: X[: next(lengths)])()
    source = open_source(da.from_delayed(parts, (np.nan, 3), dtype=float))
    with dask.config.set(scheduler="single-threaded"):
        assert total(Rows(source, 3, None), RULES["rows"]).n_samples == 1
        with pytest.raises(ValueError, match="another number of them"):
            total(Rows(source, 3, None), RULES["rows"])
