"""Sums on Dask: the same bits whatever runs the tasks, and rows that stay where they are."""

import logging
import multiprocessing
import os
import signal
import warnings

import numpy as np
import pandas as pd
import pytest
from internals import open_source

from skdpsynth import LatentFactorSynthesizer, LowDimSynthesizer, PrivacyAccountant, PrivateMeasureMechanism, PrivatePCA
from skdpsynth.domain import Ball, Box, Continuous, Nominal
from skdpsynth.frames import Rows
from skdpsynth.measures import BinaryPartition
from skdpsynth.statistics import CountLengths, Histogram, Moments, RowCount, total

pytestmark = pytest.mark.usefixtures("hasty")

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

BOX = Box(np.zeros(3), np.ones(3))
BALL = Ball.of(BOX, 12, True)
X = np.random.default_rng(0).uniform(-0.1, 1.1, (1000, 3))
FRAME = pd.DataFrame(X, columns=list("abc")).assign(d=(X[:, 0] > 0.5).astype(int))
SCHEMA = {"a": (0.0, 1.0), "b": (0.0, 1.0), "c": (0.0, 1.0), "d": [0, 1]}
RULES = {
    "rows": RowCount.over(),
    "cells": Histogram.over(BinaryPartition(BOX, 9)),
    "many cells": Histogram.over(BinaryPartition(BOX, 21)),
    "moments": Moments.over(BALL.within(10**6)),
    "lengths": CountLengths(BALL, np.array([1e7, 1e6, 1e5])),
    "shrinkage": Moments.moved_by_shrinking(BALL.within(10**6)),
}
ESTIMATORS = {
    "PMM": PrivateMeasureMechanism(random_state=0),
    "PMM, private n": PrivateMeasureMechanism(random_state=0, neighboring="add_or_remove_one"),
    "PCA": PrivatePCA(random_state=0),
    "LowDim": LowDimSynthesizer(2, random_state=0),
    "table": LatentFactorSynthesizer(SCHEMA, random_state=0),
    "private facts": LatentFactorSynthesizer(
        {"a": Continuous(bounds="private"), "b": (0.0, 1.0), "c": (0.0, 1.0), "d": Nominal("private")},
        epsilon=20,
        delta=1e-6,
        random_state=0,
    ),
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


def fitted(estimator, table):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = estimator.fit(table)
    return model.covariance_ if isinstance(model, PrivatePCA) else np.asarray(model.sample(200, random_state=0))


def table_for(name, in_memory):
    if name not in ("table", "private facts"):
        return X if in_memory else spread()
    return FRAME if in_memory else dd.from_pandas(FRAME, npartitions=9)


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


@pytest.mark.parametrize(("name", "on_cluster"), [*((name, False) for name in ESTIMATORS), ("table", True), ("private facts", True)])
def test_a_fit_does_not_depend_on_where_the_rows_are(name, on_cluster, request):
    if on_cluster:
        request.getfixturevalue("client")
    np.testing.assert_array_equal(fitted(ESTIMATORS[name], table_for(name, False)), fitted(ESTIMATORS[name], table_for(name, True)))


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
    np.testing.assert_array_equal(fitted(ESTIMATORS[name], table), fitted(ESTIMATORS[name], X))


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


def failing(block, number, error):
    raise error


def with_nan(block, number):
    return np.where(np.arange(len(block))[:, None] == number, np.nan, block)


# Of blocks: what becomes of them, the error that a fit raises, and its words.
BROKEN = {
    "a cell that is no number": ((with_nan,), ValueError, "^Input X contains NaN"),
    "an error of the caller's own": ((failing, KeyError("cell 0.25")), ValueError, r"\(KeyError\); compute X alone"),
    "a value that is wrong": ((failing, ValueError("cell 0.25")), ValueError, r"\(ValueError\); compute X alone"),
    "too little memory": ((failing, MemoryError("0.25")), MemoryError, r"\(MemoryError\); give workers more memory"),
    "a package that is missing": ((failing, ImportError("0.25")), ImportError, "install skdpsynth"),
    "another width": ((lambda block, number: block[:, :2],), ValueError, "partition [0-9]+ has 2 of them"),
    "no table": ((lambda block, number: block[0],), TypeError, "partition [0-9]+"),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("scheduler", ["single-threaded", "threads", "cluster"])
def test_what_goes_wrong_is_one_sentence_without_data_and_costs_nothing(name, scheduler, request):
    blocks, kind, sentence = BROKEN[name]
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


def test_rows_that_come_between_two_readings_are_refused():
    lengths = iter([1, 2])
    parts = dask.delayed(lambda: X[: next(lengths)])()
    source = open_source(da.from_delayed(parts, (np.nan, 3), dtype=float))
    with dask.config.set(scheduler="single-threaded"):
        assert total(Rows(source, 3, None), RULES["rows"]).n_samples == 1
        with pytest.raises(ValueError, match="another number of them"):
            total(Rows(source, 3, None), RULES["rows"])
