"""Streams that are shared, copied, interrupted or never end: no row is lost, and none is released twice under one charge."""

import collections
import contextlib
import functools
import itertools
import os
import pickle
import signal
import threading
import time
import warnings

import numpy as np
import pytest
from estimators import Recorder, clock
from laws import in_child, in_threads, interrupted, refuses
from test_streams_go_on import PACKAGE

from skdpsynth import LowDimSynthesizer, OnlineSynthesizer, PrivacyAccountant, PrivateMeasureMechanism, load
from skdpsynth.continual import KaryCounter
from skdpsynth.exceptions import BudgetExceededError, InsecureRandomnessWarning, SmallSampleWarning

SETTINGS = {
    "blocks": {},
    "blocks-small": {"growth": 1.01},
    "window": {"growth": 1.01, "window": 60},
    "paper-kary": {"strategy": "paper"},
    "paper-binary": {"strategy": "paper", "counter": "binary"},
    "paper-sparse": {"strategy": "paper", "counter": "sparse"},
}
BLOCKS = [name for name in SETTINGS if not name.startswith("paper")]
PAPER = [name for name in SETTINGS if name.startswith("paper")]
LOADED = ["blocks-small", *PAPER]
each = pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)


def each_of(names):
    return pytest.mark.parametrize("setting", [SETTINGS[name] for name in names], ids=names)


def times_of(blocks, n):
    """Which rows of the clock are in each block."""
    return [sorted(np.floor(block[:, 0] * n).astype(int).tolist()) for block in blocks]


def names_in(accountant):
    return [entry.name for entry in accountant.ledger if not entry.name.startswith("resumed")]


def feed(model, rows):
    """Feed rows one by one."""
    for row in rows:
        model.partial_fit(row[None])


def interrupted_in(call, number, *more):
    """Call, interrupted where the line of this number begins, of those in the files of streams, and others; whether it came so far."""
    return interrupted(call, number + 1, tuple(os.path.join(PACKAGE, *part) for part in (("synthesis", "_online"), *more)))


def seen_beside(model, rows, look, n_threads):
    """What threads see, again and again, while another feeds a stream."""
    seen, is_fed = [], threading.Event()

    def feed_all():
        try:
            feed(model, rows)
        finally:
            is_fed.set()

    def see():
        while not is_fed.is_set() or len(seen) < 6:
            seen.append(look())

    in_threads(feed_all, *[see] * n_threads)
    return seen


@pytest.mark.usefixtures("restless")
@each_of(BLOCKS)
@pytest.mark.parametrize("started", [False, True])
def test_four_threads_that_feed_a_stream_lose_no_row_and_release_none_twice(setting, started, released):
    X = clock(404)
    model = OnlineSynthesizer(synthesizer=Recorder(), **setting)
    if started:
        model.fit(X[:4])
    rest = X[4:] if started else X
    in_threads(*(functools.partial(feed, model, rest[i::4]) for i in range(4)))
    assert model.n_samples_seen_ == len(X)
    times = list(itertools.chain(*times_of(released, len(X))))
    assert len(times) == len(set(times)) == len(X) - model._stream.n_open
    names = names_in(model.accountant_)
    assert len(set(names)) == len(names)
    assert model.accountant_.spent == 1


@pytest.mark.usefixtures("restless")
@each
def test_samples_that_another_thread_draws_do_not_disturb_a_stream(setting):
    X = np.random.default_rng(0).random((300, 2))
    quiet, read = (OnlineSynthesizer(random_state=5, **setting).fit(X[:20]) for _ in range(2))
    quiet.partial_fit(X[20:])
    samples = seen_beside(read, X[20:], lambda: read.sample(3), 2)
    assert {sample.shape for sample in samples} == {(3, 2)}
    assert np.array_equal(read.sample(200, random_state=0), quiet.sample(200, random_state=0))


@pytest.mark.usefixtures("restless")
@each_of([*PAPER, "blocks-small"])
def test_what_is_pickled_while_another_thread_feeds_is_of_one_time_and_goes_on(setting):
    X = np.random.default_rng(0).random((400, 1))
    model = OnlineSynthesizer(**setting).fit(X[:20])
    data = seen_beside(model, X[20:], lambda: pickle.dumps(model), 1)
    for state in map(pickle.loads, data[:: 1 + len(data) // 30]):
        seen = state.n_samples_seen_
        assert state._stream.n_seen == seen
        stops = [int(name.split()[-1]) + 1 for name in names_in(state.accountant_)]
        if setting.get("strategy") == "paper":
            assert stops[-1] >= seen > stops[-2]  # the level of the last row was charged
        else:
            assert stops == [stop for _, stop, _ in state._stream.blocks]
            assert sum(size for size in np.diff([0, *stops])) + state._stream.n_open == seen
        assert state.partial_fit(X[:30]).n_samples_seen_ == seen + 30
        assert state.accountant_.spent == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@each
def test_a_fork_while_threads_feed_and_read_does_not_hang_the_child(setting):
    X = np.random.default_rng(0).random((100, 2))
    model, busy = OnlineSynthesizer(**setting).fit(X), threading.Event()
    busy.set()

    def work(task):
        while busy.is_set():
            task()

    tasks = (lambda: model.partial_fit(X[:1]), lambda: model.sample(2))
    threads = [threading.Thread(target=work, args=(task,), daemon=True) for task in tasks]
    for thread in threads:
        thread.start()
    try:
        for _ in range(3):
            assert in_child(lambda: _use(model, setting, X)) is None
    finally:
        busy.clear()
        for thread in threads:
            thread.join()


def _use(model, setting, X):
    refused = contextlib.suppress(RuntimeError)  # what would be charged there would be lost
    with refused if setting.get("strategy") == "paper" else contextlib.nullcontext():
        model.sample(2)
    with refused:
        model.partial_fit(X)
    with refused:
        pickle.dumps(model)
    OnlineSynthesizer(**setting).fit(X[:40]).sample(3)


@pytest.mark.parametrize(
    ("window", "n_rows", "changed", "every"),
    [pytest.param(None, 6, None, 1, marks=pytest.mark.must), (None, 6, 2, 2), (None, 36, 1.01, 3), (20, 36, None, 3)],
)
def test_an_interrupt_at_any_line_and_a_second_try_count_rows_once_and_release_none_twice(window, n_rows, changed, every, released):
    """36 rows fill several blocks. Growth may have changed before the second try, and with it where blocks end."""
    n, first = 90, 30
    X = clock(n)
    for number in itertools.count(step=every):
        released.clear()
        model = OnlineSynthesizer(synthesizer=Recorder(), window=window).fit(X[:first])
        was = [block[:2] for block in model._stream.blocks]
        hit = interrupted_in(lambda: model.partial_fit(X[first : first + n_rows]), number, ("privacy", "_ledger"))  # noqa: B023
        if hit:
            assert model.n_samples_seen_ == first
            assert [block[:2] for block in model._stream.blocks] == was
            if changed is not None:
                model.set_params(growth=changed)
            model.partial_fit(X[first : first + n_rows])
        assert model.n_samples_seen_ == first + n_rows
        model.partial_fit(X[first + n_rows :])
        assert model.n_samples_seen_ == n
        times = times_of(released, n)
        flat = list(itertools.chain(*times))
        assert len(flat) == len(set(flat))
        assert len(released) <= len(names_in(model.accountant_)) or window is not None
        assert model.accountant_.spent == 1
        assert model.sample(5).shape == (5, 1)
        if not hit:
            break
        left_out = set(range(n - model._stream.n_open)) - set(flat)
        assert left_out <= set(range(first + n_rows + 16))
    assert number > 30


class Counted:
    """A counter without noise in the place of a stream."""

    def __init__(self):
        self.counter = KaryCounter(100_000, epsilon=float("inf"))

    def partial_fit(self, rows):
        for _ in rows:
            self.counter.update(1)

    n_samples_seen_ = property(lambda self: self.counter.n_steps)

    def sample(self, n_samples, random_state):
        return self.counter.value


def waiting():
    """A stream whose first block is longer than what comes here, so that no noise is lost."""
    return OnlineSynthesizer(epsilon=1 / 250, random_state=0, bounds=(0, 1))


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="signals at a time are a POSIX call")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # where a signal comes in a finalizer
@pytest.mark.parametrize("begin", [waiting, Counted])
def test_after_a_signal_at_any_moment_the_count_tells_where_to_go_on(begin):
    """Also just before a call returns, where no line begins: there the rows are in, though the call raises."""
    X, rng, model, whole, end = clock(4200), np.random.default_rng(0), begin(), begin(), time.monotonic() + 0.7
    model.partial_fit(X[:20])
    started = time.perf_counter()
    for n in range(20, 60):
        model.partial_fit(X[n : n + 1])
    usual = (time.perf_counter() - started) / 40
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        while (seen := model.n_samples_seen_) < 3900 and time.monotonic() < end:
            with contextlib.suppress(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, max(1e-6, 1.5 * usual * rng.random()))
                model.partial_fit(X[seen : seen + 1])
                signal.setitimer(signal.ITIMER_REAL, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
            assert model.n_samples_seen_ in (seen, seen + 1)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    model.partial_fit(X[model.n_samples_seen_ :])
    whole.partial_fit(X)
    assert model.n_samples_seen_ == whole.n_samples_seen_ == 4200
    assert np.array_equal(model.sample(50, random_state=0), whole.sample(50, random_state=0))


@pytest.mark.parametrize(("at", "counter"), [*enumerate(["kary", "binary", "sparse"])])
def test_an_interrupt_at_any_line_of_a_tree_and_a_second_try_count_rows_once_or_are_refused(at, counter):
    """A level of time begins with row 31. Each of three counters is interrupted at every third line, and all at every line."""
    X = clock(33)
    for number in itertools.count(at, 3):
        model = OnlineSynthesizer("paper", counter=counter, epsilon=float("inf")).fit(X[:30])
        hit = interrupted_in(lambda: model.partial_fit(X[30:33]), number)  # noqa: B023
        if not hit:
            break
        assert model.n_samples_seen_ == 30
        began = model._stream.n_begun > 30
        with pytest.raises(RuntimeError, match="was interrupted") if began else contextlib.nullcontext():
            model.partial_fit(X[30:33])
        if not began:
            assert model.n_samples_seen_ == 33
            assert model._stream.counters[0].value.sum() == 33
        names = names_in(model.accountant_)
        assert len(names) == len(set(names))
    assert number > 30


@pytest.mark.parametrize(("at", "setting"), [*enumerate(map(SETTINGS.get, LOADED))], ids=LOADED)
def test_an_interrupt_at_any_line_where_a_loaded_stream_goes_on_and_a_second_try_cost_nothing(at, setting):
    """At every line of blocks, and of three trees together."""
    X = np.random.default_rng(0).random((50, 1))
    data = pickle.dumps(OnlineSynthesizer(**setting).fit(X[:40]))
    expected = pickle.loads(data).sample(50, random_state=0)
    for number in itertools.count(max(at - 1, 0), 3 if at else 1):
        model = pickle.loads(data)
        if not interrupted_in(lambda: model.partial_fit(X[40:41]), number):  # noqa: B023
            break
        assert model.n_samples_seen_ == 40
        if setting.get("strategy") != "paper" or model._stream.n_begun == 40:
            assert np.array_equal(model.sample(50, random_state=0), expected)
            model.partial_fit(X[40:41])
            assert sum(entry.name.startswith("resumed") for entry in model.accountant_.ledger) == 1
            assert model.accountant_.spent == 1
    assert number > 20


def failed_second_block(growth=1.25, **parameters):
    """A stream whose second block failed after it was charged."""
    model = OnlineSynthesizer(synthesizer=Recorder(), growth=growth, **parameters).fit(clock(200)[:20])
    Recorder.failing = [ValueError("the solver gave up")]
    refuses(ValueError, "gave up", model.partial_fit, clock(200)[20:40])
    assert model.n_samples_seen_ == 20
    return model


@pytest.mark.parametrize("made", [dict, lambda: {"window": 25}, lambda: {"accountant": PrivacyAccountant(100)}])
def test_a_block_that_failed_after_its_charge_is_left_out_and_the_one_before_stands_in(made, released):
    model = failed_second_block(**made())
    with pytest.warns(SmallSampleWarning, match="rows 16 to 31 are left out"):
        model.partial_fit(clock(200)[20:40])
    assert model.n_samples_seen_ == 40
    assert [block[:2] for block in model._stream.blocks] == [(0, 32)]
    assert times_of([model.sample(40)], 200) == [[0] * 40]
    assert [len(rows) for rows in times_of(released, 200)] == [16, 16]  # what failed, once
    assert model.accountant_.spent == 1
    model.partial_fit(clock(200)[40:])
    later = list(itertools.chain(*times_of(released, 200)[2:]))
    assert later == list(range(32, 200 - model._stream.n_open))
    assert model.accountant_.spent == 1


@pytest.mark.parametrize("growth", [1.01, 3, "auto"])
def test_rows_of_a_failed_block_are_not_released_in_one_of_another_size(growth, released):
    model = OnlineSynthesizer(synthesizer=Recorder()).fit(clock(400)[:200])
    stop = model._stream.blocks[-1][1]
    Recorder.failing = [MemoryError()]
    with pytest.raises(MemoryError):
        model.partial_fit(clock(400)[200:300])
    failed = times_of(released, 400)[-1]
    assert failed[0] == stop
    model.set_params(growth=growth)
    with pytest.warns(SmallSampleWarning, match=f"rows {failed[0]} to {failed[-1]} are left out"):
        model.partial_fit(clock(400)[200:])
    flat = list(itertools.chain(*times_of(released, 400)))
    assert flat == list(range(400 - model._stream.n_open))
    assert model.accountant_.spent == 1


def test_a_block_that_is_refused_before_its_charge_is_not_left_out(released):
    """A record refuses the block; the stream may go on from a copy."""
    model = OnlineSynthesizer(synthesizer=Recorder()).fit(clock(200)[:20])
    model.accountant_.close()
    for _ in range(2):
        refuses(BudgetExceededError, "closed record", model.partial_fit, clock(200)[20:40])
    again = pickle.loads(pickle.dumps(model)).partial_fit(clock(200)[20:40])
    assert times_of(released, 200) == [[*range(16)], [*range(16, 32)]]
    assert again.n_samples_seen_ == 40


def test_a_warning_that_is_an_error_takes_in_no_row_costs_no_block_and_is_said_once(released):
    """The call has rows for several more blocks: they are not charged before the warning."""
    model = failed_second_block()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        refuses(SmallSampleWarning, "rows 16 to 31 are left out", model.partial_fit, clock(200)[20:100])
        assert model.n_samples_seen_ == 20
        assert model.partial_fit(clock(200)[20:100]).n_samples_seen_ == 100
    assert [block[:2] for block in model._stream.blocks][:3] == [(0, 32), (32, 48), (48, 64)]


@each
def test_another_accountant_along_a_stream_or_after_loading_is_refused_and_changes_nothing(setting, tmp_path):
    X = np.random.default_rng(0).random((60, 1))
    own, shared, other = None, PrivacyAccountant(5), PrivacyAccountant(5)
    for was, new in ((own, other), (shared, other), (shared, None)):
        model = OnlineSynthesizer(accountant=was, **setting).fit(X)
        model.save(tmp_path / "stream.zip")
        again = load(tmp_path / "stream.zip")  # which has an account of its own
        for stream, accountant in ((model, new), (again, other)):
            refuses(ValueError, "accountant must not change along a stream", stream.set_params(accountant=accountant).partial_fit, X)
            assert (stream.n_samples_seen_, other.spent) == (60, 0)
        assert model.set_params(accountant=was).partial_fit(X).n_samples_seen_ == 120
        assert again.set_params(accountant=None).partial_fit(X).n_samples_seen_ == 120
        assert again.accountant_.spent == 1


@pytest.mark.filterwarnings("always")
@pytest.mark.parametrize("synthesizer", [None, PrivateMeasureMechanism(), LowDimSynthesizer(1)])
def test_parts_of_a_stream_warn_nobody_and_the_stream_of_its_seed_once(synthesizer):
    model = OnlineSynthesizer(synthesizer=synthesizer, random_state=3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(30):
            model.partial_fit(np.random.default_rng(0).random((10, 3)))
    counted = collections.Counter(warning.category for warning in caught)
    assert counted[InsecureRandomnessWarning] == 1
    assert counted[SmallSampleWarning] <= 1
    assert {warning.filename for warning in caught} == {__file__}


@pytest.mark.parametrize(("setting", "enough", "too_many"), [({}, 5, 60), (SETTINGS["paper-kary"], 16, 17)], ids=["blocks", "paper"])
def test_a_stream_of_more_columns_than_a_long_one_tells_apart_warns_once_before_the_charge(setting, enough, too_many):
    for d, n_warnings in ((enough, 0), (too_many, 1)):
        model = OnlineSynthesizer(bounds=(0, 1), **setting)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(3):
                model.partial_fit(np.random.default_rng(0).random((10, d)))
        assert [warning.category for warning in caught] == [SmallSampleWarning] * n_warnings
        assert all(f"of {d} features" in str(warning.message) and warning.filename == __file__ for warning in caught)
    shared = PrivacyAccountant(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(SmallSampleWarning, match="LatentFactorSynthesizer"):
            OnlineSynthesizer(bounds=(0, 1), accountant=shared, **setting).fit(np.zeros((10, too_many)))
    assert shared.spent == 0


@pytest.mark.parametrize("growth", [1.25, "auto"])
def test_a_stream_with_a_window_stays_as_small_as_its_window(growth, tmp_path):
    X = np.random.default_rng(0).random((8000, 2))
    model, sizes, file = OnlineSynthesizer(growth=growth, window=500), {}, tmp_path / "stream.zip"
    for start in range(0, 8000, 50):
        model.partial_fit(X[start : start + 50])
        if start + 50 in (2500, 8000):
            model.save(file)
            sizes[start + 50] = np.array([len(model.accountant_.ledger), len(pickle.dumps(model)), file.stat().st_size])
    assert (sizes[8000] < 1.3 * sizes[2500]).all()
    assert sizes[8000][0] < 2 + 500 / 16
    assert model.accountant_.spent == 1
