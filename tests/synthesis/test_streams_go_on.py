"""Streams that are saved, by `partial_fit` or by hand: whatever breaks in, a stream goes on, pays once, and loses no row."""

import contextlib
import copy
import functools
import os
import pickle
import re
import shutil
import signal
import sqlite3

import numpy as np
import pytest
from estimators import Recorder
from internals import PendingFile, _ledger_file
from internals import _online as running
from laws import in_threads, interrupted, refuses

import skdpsynth
from skdpsynth import OnlineSynthesizer, PrivacyAccountant, PrivateMeasureMechanism, load
from skdpsynth.continual import KaryCounter
from skdpsynth.exceptions import BudgetExceededError, LedgerError, SmallSampleWarning
from skdpsynth.persistence import save
from skdpsynth.privacy import DiscreteLaplace, streams

X = np.random.default_rng(0).random((3000, 2))
PACKAGE = os.path.dirname(skdpsynth.__file__) + os.sep
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="fork is a POSIX call")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(_ledger_file, "SYNCHRONOUS", "off")
    monkeypatch.setattr(_ledger_file, "_flush_folder", lambda path: None)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.db"


@pytest.fixture
def saved(tmp_path):
    return tmp_path / "stream.zip"


@pytest.fixture
def budget(path):
    return PrivacyAccountant(1, ledger=path)


@pytest.fixture(params=["ledger", "no ledger"])
def account(request, path):
    return PrivacyAccountant(1, ledger=path) if request.param == "ledger" else None


def killed(work):
    """Do some work in a fork that must end by SIGKILL."""
    process = os.fork()
    if process == 0:
        with contextlib.suppress(BaseException):
            work()
        os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(process, 0)[1])


def killing(monkeypatch, owner, name, when):
    """Let a function kill its process before or after it works."""
    work = getattr(owner, name)

    def kill(*arguments, **keywords):
        if when == "after":
            work(*arguments, **keywords)
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(owner, name, kill)


def times(model):
    return [(start, stop) for start, stop, _ in model.blocks_]


def is_whole(model):
    """Whether each row came once: blocks lie one behind the other, each was charged, and the rest waits."""
    stream = model._stream
    edges = [0, *(edge for times in stream.charged for edge in times), stream.begun]
    return times(model) == stream.charged and edges[::2] == edges[1::2] and stream.n_open == stream.n_seen - stream.begun


@pytest.mark.parametrize("has_ledger", [True, False])
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_what_is_saved_is_the_stream_that_partial_fit_returns_saved_or_not(has_ledger, relation, path, saved):
    accountant = PrivacyAccountant(1, ledger=path, neighboring=relation) if has_ledger else None
    plain, model = (OnlineSynthesizer(random_state=0, accountant=each, neighboring=relation) for each in (None, accountant))
    for n in (0, 10, 500, 510, 2000):
        plain, model = plain.partial_fit(X[n : n + 400]), model.partial_fit(X[n : n + 400], save=saved)
        again = load(saved)
        assert (again._time, times(again)) == (model._time, times(model)) == (plain._time, times(plain))
        for each in (again, plain):
            assert np.array_equal(each.sample(50, random_state=0), model.sample(50, random_state=0))
    assert model.accountant_.spent == 1
    assert saved.stat().st_mode & 0o077 == 0  # for its owner alone
    assert not list(saved.parent.glob(".*"))


def test_a_table_in_chunks_is_taken_in_whole_or_not_at_all(saved, budget, path):
    model = OnlineSynthesizer(accountant=path).partial_fit([X[:300], X[300:600]], save=saved)
    calls = []

    def chunks():
        calls.append(len(calls))
        yield X[:500]
        if calls[-1] == 2:  # columns are looked at before, and rows are counted
            raise RuntimeError
        yield X[500:600]

    refuses(ValueError, "iteration failed", model.partial_fit, chunks, save=saved)
    assert len(calls) == 3
    assert load(saved).n_samples_seen_ == model.n_samples_seen_ == 600
    assert is_whole(model.partial_fit(X[:500], save=saved))
    assert (model.n_samples_seen_, budget.spent) == (1100, 1)


POINTS = {
    "before the charge": (OnlineSynthesizer, "_budget", "after"),
    "after the charge": (DiscreteLaplace, "sample", "before"),
    "after the draw": (running, "save_pending", "before"),
    "after the state was written beside": (running, "save_pending", "after"),
    "after the ledger was told": (streams, "settle", "after"),
    "after the file was moved": (streams, "finish", "after"),
}


@needs_fork
@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize("point", POINTS.values(), ids=POINTS)
def test_a_process_that_is_killed_in_a_tick_costs_nothing_and_loses_no_row(point, is_first, account, saved, monkeypatch):
    def begin():
        return load(saved) if saved.exists() else OnlineSynthesizer(accountant=account)

    seen = 0 if is_first else begin().partial_fit(X[:500], save=saved).n_samples_seen_
    with monkeypatch.context() as patched:
        killing(patched, *point)
        killed(lambda: begin().partial_fit(X[seen : seen + 500], save=saved))
        killed(lambda: begin().partial_fit(X[:500], save=saved)) if not saved.exists() else None
    model = begin()
    seen = getattr(model, "n_samples_seen_", 0)
    assert is_first or seen == (1000 if point[1] == "finish" or (account is not None and point[1] == "settle") else 500)
    for n in range(seen, 2000, 500):
        model = model.partial_fit(X[n : n + 500], save=saved)
    assert is_whole(model)
    assert (model.n_samples_seen_, model.accountant_.spent) == (2000, 1)
    assert account is None or account.spent == 1
    assert not list(saved.parent.glob(".*"))


@needs_fork
def test_an_old_file_gets_no_second_draw_while_a_later_tick_is_pending(saved, path, budget, tmp_path, monkeypatch):
    """Only from the state that nothing was shown after may the tick be drawn again."""
    model = OnlineSynthesizer(accountant=path).partial_fit(X[:500], save=saved)
    shutil.copy(saved, tmp_path / "old.zip")
    model.partial_fit(X[500:1000], save=saved)
    with monkeypatch.context() as patched:
        killing(patched, running, "save_pending", "after")
        killed(lambda: load(saved).partial_fit(X[1000:1500], save=saved))
    shutil.copy(saved, tmp_path / "new.zip")
    shutil.copy(tmp_path / "old.zip", saved)
    with pytest.raises(BudgetExceededError):
        load(saved).partial_fit(X[500:1500], save=saved)
    assert load(tmp_path / "new.zip").partial_fit(X[1000:1500], save=saved).n_samples_seen_ == 1500
    assert budget.spent == 1


@needs_fork
def test_a_pending_tick_may_be_drawn_again_with_other_rows_and_once(saved, path, budget, tmp_path, monkeypatch):
    OnlineSynthesizer(accountant=path).partial_fit(X[:500], save=saved)
    with monkeypatch.context() as patched:
        killing(patched, running, "save_pending", "before")
        for _ in range(3):
            killed(lambda: load(saved).partial_fit(X[500:1000], save=saved))
    shutil.copy(saved, tmp_path / "old.zip")
    model = load(saved).partial_fit(X[1000:1700], save=saved)
    assert (model.n_samples_seen_, budget.spent) == (1200, 1)
    assert any("drawn anew after entry" in entry.name for entry in budget.parts_of(budget.ledger[0]))
    with pytest.raises(BudgetExceededError):
        load(tmp_path / "old.zip").partial_fit(X[500:1000], save=tmp_path / "old.zip")


def test_of_two_that_load_one_file_only_one_can_go_on(saved, path, budget):
    OnlineSynthesizer(accountant=path).partial_fit(X[:500], save=saved)
    first, second = load(saved), load(saved)
    first.partial_fit(X[500:1000], save=saved)
    refuses(BudgetExceededError, "load the newest file", second.partial_fit, X[500:1000], save=saved)
    assert second.n_samples_seen_ == 500
    assert load(saved).n_samples_seen_ == 1000
    assert budget.spent == 1


@pytest.mark.parametrize("rows", [500, 3], ids=["with a block", "without"])
@pytest.mark.parametrize("saves", [True, False])
def test_who_drew_and_is_overtaken_before_it_saved_shows_nothing(rows, saves, saved, path, budget, monkeypatch):
    """Both have drawn: the first that tells the ledger goes on, and what the other drew is thrown away."""
    OnlineSynthesizer(accountant=path).partial_fit(X[:501], save=saved)
    first, second = load(saved), load(saved)
    write, left = running.save_pending, iter([1])

    def overtaken(thing, place):
        aside = write(thing, place)
        for _ in left:
            second.partial_fit(X[500:1000], **({"save": saved} if saves else {}))
        return aside

    monkeypatch.setattr(running, "save_pending", overtaken)
    refuses(RuntimeError, "another process went on with this stream", first.partial_fit, X[500 : 500 + rows], save=saved)
    assert (first.n_samples_seen_, second.n_samples_seen_) == (501, 1001)
    assert load(saved).n_samples_seen_ == (1001 if saves else 501)
    assert budget.spent == 1
    assert is_whole(second.partial_fit(X[:500], save=saved))
    assert not list(saved.parent.glob(".*"))


def test_a_stream_that_was_finished_by_load_is_not_put_back_by_its_slow_process(saved, path, budget, monkeypatch):
    model = OnlineSynthesizer(accountant=path).partial_fit(X[:500], save=saved)
    work = streams.settle

    def slow(*arguments, **keywords):
        work(*arguments, **keywords)
        monkeypatch.setattr(streams, "settle", work)
        load(saved).partial_fit(X[1000:1500], save=saved)

    monkeypatch.setattr(streams, "settle", slow)
    model.partial_fit(X[500:1000], save=saved)
    assert (model.n_samples_seen_, load(saved).n_samples_seen_) == (1000, 1500)
    assert budget.spent == 1


def test_threads_that_feed_and_save_a_stream_lose_no_row(account, saved):
    model = OnlineSynthesizer(accountant=account).partial_fit(X[:100], save=saved)

    def feed(rows):
        for start in range(0, len(rows), 50):
            model.partial_fit(rows[start : start + 50], save=saved)
            model.sample(5)

    in_threads(*(functools.partial(feed, X[100 + 200 * i : 300 + 200 * i]) for i in range(4)))
    assert load(saved).n_samples_seen_ == model.n_samples_seen_ == 900
    assert is_whole(model)
    assert model.accountant_.spent == 1


def test_an_interrupt_at_any_line_leaves_a_stream_that_goes_on_from_n_samples_seen(account, saved):
    rng, n_interrupted = np.random.default_rng(0), 0
    model = OnlineSynthesizer(accountant=account).partial_fit(X[:100], save=saved)
    for _ in range(25):
        seen = model.n_samples_seen_
        n_interrupted += interrupted(lambda: model.partial_fit(X[seen : seen + 100], save=saved), int(10 ** rng.uniform(1, 4.5)), PACKAGE)  # noqa: B023
        assert model.n_samples_seen_ in (seen, seen + 100)
        if rng.random() < 0.5:  # as after the end of the process
            model = load(saved)
            assert model.n_samples_seen_ in (seen, seen + 100)
    assert n_interrupted > 5
    model.partial_fit(X[model.n_samples_seen_ :], save=saved)
    assert is_whole(model)
    assert (model.n_samples_seen_, model.accountant_.spent) == (3000, 1)
    assert account is None or account.spent == 1


def test_a_full_disk_takes_nothing_in_and_costs_nothing(account, saved, monkeypatch):
    model = OnlineSynthesizer(accountant=account).partial_fit(X[:500], save=saved)

    def full(*arguments):
        raise OSError(28, "No space left on device")

    for owner, name in ((running, "save_pending"), (PendingFile, "move")):
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, full)
            refuses(OSError, "No space", model.partial_fit, X[500:1000], save=saved)
        taken = account is not None and name == "move"  # the ledger was told, so what lies beside the file counts
        assert model.n_samples_seen_ == load(saved).n_samples_seen_ == (1000 if taken else 500)
    model.partial_fit(X[model.n_samples_seen_ : 1500], save=saved)
    assert is_whole(model)
    assert model.accountant_.spent == 1


STEPS = [
    (running, "save_pending", 1),
    (PendingFile, "move", 1),
    (running, "save_pending", 2),
    (streams, "settle", 1),
    (PendingFile, "move", 2),
]


def broken(model, saved, monkeypatch, owner, name, nth):
    """Let a stream begin with a call that saves, one step of which fails."""
    work, calls = getattr(owner, name), []

    def fail(*arguments, **keywords):
        calls.append(name)
        if len(calls) == nth:
            raise OSError(28, "No space left on device")
        return work(*arguments, **keywords)

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, fail)
        refuses(OSError, "No space", model.partial_fit, X[:50], save=saved)
    return model


@pytest.mark.parametrize("has_ledger", [True, False])
@pytest.mark.parametrize("step", STEPS, ids=[f"{name} {nth}" for _, name, nth in STEPS])
def test_two_streams_are_charged_twice_where_the_first_call_of_one_broke(step, has_ledger, path, saved, tmp_path, monkeypatch):
    """Whichever shows first: the second where there is a ledger."""
    budget = PrivacyAccountant(3, ledger=path if has_ledger else None)
    first = broken(OnlineSynthesizer(accountant=budget), saved, monkeypatch, *step)
    second = OnlineSynthesizer(accountant=budget, growth=3)
    work = [lambda: first.partial_fit(X[:500]), lambda: second.partial_fit(X[:500], save=tmp_path / "second.zip")]
    for go_on in work[::-1] if has_ledger else work:
        go_on()
    assert times(first) != times(second)
    assert budget.spent == 2


@needs_fork
def test_a_stream_that_goes_on_unsaved_from_an_empty_file_keeps_its_account(path, saved, tmp_path, monkeypatch):
    budget = PrivacyAccountant(2, ledger=path)
    with monkeypatch.context() as patched:
        killing(patched, streams, "settle", "before")
        killed(lambda: OnlineSynthesizer(accountant=budget).partial_fit(X[:50], save=saved))
    load(saved).partial_fit(X[:500])
    OnlineSynthesizer(accountant=budget, growth=3).partial_fit(X[:500], save=tmp_path / "second.zip")
    assert budget.spent == 2


def test_an_account_that_came_from_another_ledger_is_not_taken_over(path, saved, tmp_path, monkeypatch):
    """It can be taken over where it came from too, and then both would show something under one charge."""
    small, big = PrivacyAccountant(1, ledger=path), PrivacyAccountant(2, ledger=tmp_path / "big.db")
    broken(OnlineSynthesizer(accountant=small), saved, monkeypatch, *STEPS[0])
    big.import_record(path)
    for number, accountant in enumerate((small, big)):
        OnlineSynthesizer(accountant=accountant).partial_fit(X[:500], save=tmp_path / f"{number}.zip")
    big.import_record(path)
    assert (small.spent, big.spent) == (1, 2)


def test_a_block_whose_release_raises_is_left_out_after_loading_too(account, saved):
    """What it raises may follow from the noise: who draws until none is raised has seen more than one draw."""
    model = OnlineSynthesizer(synthesizer=Recorder(), accountant=account).partial_fit(X[:100], save=saved)
    n_blocks = len(model.blocks_)
    Recorder.failing = [RuntimeError("no luck")]
    refuses(RuntimeError, "no luck", model.partial_fit, X[100:130], save=saved)
    for each in (load(saved), model):
        assert each.n_samples_seen_ == 100
        assert len(each._stream.charged) == n_blocks + 1
    with pytest.warns(SmallSampleWarning, match="are left out"):
        model = load(saved).partial_fit(X[100:130], save=saved)
    assert len(model.blocks_) == n_blocks
    assert (model.n_samples_seen_, model.accountant_.spent) == (130, 1)


PLACES = [
    (5, TypeError, "save must be None or a path"),
    ("", ValueError, "save must be None or a path"),
    ("nowhere/stream.zip", FileNotFoundError, "save must lie in a folder that exists"),
    (".", IsADirectoryError, "save must name a file"),
    ("there.zip", FileExistsError, "save must name no file that exists where a stream begins"),
]


def test_a_place_that_cannot_be_written_and_a_stream_that_cannot_be_saved_are_refused_before_any_charge(
    path, budget, saved, tmp_path, monkeypatch
):
    class Local(Recorder):
        pass

    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.zip").write_bytes(b"")
    paper, local = OnlineSynthesizer("paper", accountant=path), OnlineSynthesizer(synthesizer=Local(), accountant=path)
    more = (paper, saved, ValueError, "save must be None for strategy"), (local, saved, TypeError, "cannot be saved")
    for model, place, error, words in (*((OnlineSynthesizer(accountant=path), *each) for each in PLACES), *more):
        refuses(error, words, model.partial_fit, X[:500], save=place)
        assert not hasattr(model, "accountant_")
        assert (budget.spent, len(budget.ledger)) == (0, 0)
    assert not saved.exists()


def test_the_error_of_a_stream_says_what_works(saved, path, tmp_path, monkeypatch):
    """It released rows, and died before it was saved. The code of the error is run as it stands."""
    model = OnlineSynthesizer(accountant=PrivacyAccountant(1, ledger=path)).fit(X[:500])
    model.save(saved)
    model.partial_fit(X[500:1000])
    with pytest.raises(BudgetExceededError) as error:
        load(saved).partial_fit(X[500:1000])
    monkeypatch.chdir(tmp_path)
    code = r"big = .*'larger\.db'\)", r"big\.import_record\(.*?\)", r"load\(.*\)"
    made, imported, loaded = (re.search(pattern, str(error.value))[0] for pattern in code)
    names = {"PrivacyAccountant": PrivacyAccountant, "load": load}
    exec(f"{made}\n{imported}\nmodel = {loaded.replace('the file', repr(str(saved)))}", names)
    model, big = names["model"], names["big"]
    model.partial_fit(X[500:1000], save=saved).partial_fit(X[1000:1500], save=saved)
    assert (model.n_samples_seen_, big.spent, big.epsilon) == (1500, 2, 2)
    assert load(saved).partial_fit(X[1500:2000], save=saved).n_samples_seen_ == 2000  # its file knows the new one
    assert (big.spent, PrivacyAccountant.at(path).spent) == (2, 1)


def test_a_stream_that_went_on_in_another_ledger_cannot_go_on_in_the_first(saved, path, budget, tmp_path):
    OnlineSynthesizer(accountant=path).partial_fit(X[:500], save=saved)
    shutil.copy(saved, tmp_path / "old.zip")
    PrivacyAccountant(2, ledger=tmp_path / "other.db").import_record(path)
    load(saved, accountant=tmp_path / "other.db").partial_fit(X[500:1000], save=saved)
    with pytest.raises(BudgetExceededError):
        load(tmp_path / "old.zip").partial_fit(X[500:1000])
    assert budget.spent == 1
    other = PrivacyAccountant.at(tmp_path / "other.db")
    other.import_record(path)
    assert load(saved).partial_fit(X[1000:1500], save=saved).n_samples_seen_ == 1500
    assert other.spent == 1


def forked(saved, path, tmp_path, is_gone=False, is_part=False, n_first=500, **settings):
    """One file of a stream goes on in two ledgers that imported the one it was charged in, which may be gone by then."""
    small, bigs = PrivacyAccountant(1, ledger=path), []
    OnlineSynthesizer(accountant=small.child(1, name="a study") if is_part else small, **settings).partial_fit(X[:n_first], save=saved)
    for number in range(2):
        bigs.append(PrivacyAccountant(5, ledger=tmp_path / f"big{number}.db"))
        bigs[-1].import_record(path)
    if is_gone:
        del small
        for file in tmp_path.glob("budget.db*"):
            file.rename(tmp_path / f"gone_{file.name}")
    for number, big in enumerate(bigs):
        load(saved, accountant=big).partial_fit(X[500 : 1500 + 500 * number], save=tmp_path / f"{number}.zip")
    return bigs


def test_a_stream_goes_on_in_one_of_two_larger_ledgers_at_no_charge_and_is_charged_in_the_other(saved, path, tmp_path):
    bigs = forked(saved, path, tmp_path)
    assert [big.spent for big in bigs] == [1, 2]
    for number, big in enumerate(bigs):
        load(tmp_path / f"{number}.zip").partial_fit(X[:500], save=tmp_path / f"{number}.zip")
        assert big.spent == number + 1


@pytest.mark.parametrize(
    ("is_gone", "settings"), [(False, {"n_first": 3}), (True, {}), (True, {"window": 200}), (True, {"is_part": True})], ids=str
)
def test_who_imports_two_ledgers_in_which_one_stream_went_on_is_charged_for_both(settings, is_gone, saved, path, tmp_path):
    bigs = forked(saved, path, tmp_path, is_gone, **settings)
    old = tmp_path / f"{'gone_' * is_gone}budget.db"
    for records in (bigs[::-1], [old, *bigs]):
        both = PrivacyAccountant(5)
        for record in [*records, *records]:
            both.import_record(record)
        assert both.spent == 2
        again = PrivacyAccountant(5)
        for record in (both, *records):
            again.import_record(record)
        assert again.spent == 2
    bigs[0].import_record(bigs[1])
    assert bigs[0].spent == 2


def test_a_stream_that_goes_on_in_one_ledger_after_the_other_costs_once(saved, path, tmp_path):
    PrivacyAccountant(1, ledger=path)
    OnlineSynthesizer(accountant=path, window=200).partial_fit(X[:500], save=saved)
    paths, told = [path], [PrivacyAccountant(5), PrivacyAccountant(5)]
    for number in range(3):
        other = PrivacyAccountant(5, ledger=tmp_path / f"{number}.db")
        told[0].import_record(paths[-1])
        other.import_record(paths[-1])
        paths.append(tmp_path / f"{number}.db")
        load(saved, accountant=other).partial_fit(X[500:1000], save=saved)
        load(saved).partial_fit(X[1000:1500], save=saved)
        assert other.spent == 1
    for each in (*paths, *paths[::-1]):
        for accountant in (*told, other):
            accountant.import_record(each)
            assert accountant.spent == 1
    for each in paths[::-1]:
        told[1].import_record(each)
    assert load(saved).partial_fit(X[:500], save=saved).n_samples_seen_ == 500 + 3 * 1000 + 500
    assert other.spent == told[1].spent == 1


def test_a_ledger_that_does_not_hold_what_a_stream_spent_is_refused(saved, path, budget, tmp_path):
    model = OnlineSynthesizer(accountant=path).partial_fit(X[:500], save=saved)
    other = PrivacyAccountant(5, ledger=tmp_path / "other.db")
    refuses(LedgerError, "does not hold all that this stream was charged", load, saved, accountant=other)
    other.import_record(path)
    model.partial_fit(X[500:1000], save=saved)
    with pytest.raises(LedgerError, match="import_record") as error:
        load(saved, accountant=other)
    exec(re.search(r"PrivacyAccountant\.at\(.*\)\.import_record\(.*\)", str(error.value))[0])
    assert load(saved, accountant=other).partial_fit(X[1000:1500], save=saved).n_samples_seen_ == 1500
    assert other.spent == 1


@needs_fork
def test_a_pending_tick_is_drawn_again_in_a_ledger_that_imported_it(saved, path, budget, tmp_path, monkeypatch):
    OnlineSynthesizer(accountant=path).partial_fit(X[:500], save=saved)
    with monkeypatch.context() as patched:
        killing(patched, running, "save_pending", "before")
        killed(lambda: load(saved).partial_fit(X[500:1000], save=saved))
    other = PrivacyAccountant(2, ledger=tmp_path / "other.db")
    other.import_record(path)
    model = load(saved, accountant=other).partial_fit(X[500:1000], save=saved)
    assert is_whole(model)
    assert other.spent == 1


def test_load_takes_an_accountant_for_what_is_charged_to_one(tmp_path, path, budget):
    file = tmp_path / "model.zip"
    PrivateMeasureMechanism(epsilon=0.5).fit(X).save(file)
    load(file, accountant=path).fit(X)
    assert budget.spent == 0.5
    OnlineSynthesizer().partial_fit(X[:500]).save(file)
    refuses(ValueError, "accountant must be the ledger in a file that a stream was charged in", load, file, accountant=path)
    save(KaryCounter(10), file)
    refuses(ValueError, "accountant must be None for a KaryCounter", load, file, accountant=path)


def test_the_ledger_of_a_stream_tells_nothing_of_its_rows(tmp_path):
    """No digest of a file either, by which guesses of the rows that wait could be tried."""
    told = []
    for number, rows in enumerate((X[:510], X[::-1][:510])):
        path = tmp_path / f"{number}.db"
        inner, accountant = PrivateMeasureMechanism("optimal", depth=2), PrivacyAccountant(1, ledger=path)
        OnlineSynthesizer(synthesizer=inner, accountant=accountant).partial_fit(rows, save=tmp_path / f"{number}.zip")
        with contextlib.closing(sqlite3.connect(path)) as db:
            text = "\n".join(line for line in db.iterdump() if '"about"' not in line)
        told.append(re.sub(r"[0-9a-f]{8} (?=\{)|\"(time|process)\":\"[^\"]*\"", "", text))
    assert told[0] == told[1]


@pytest.mark.parametrize("in_file", [True, False])
def test_only_a_charge_that_is_pending_is_drawn_anew(in_file, path):
    """Members of one name hold the same rows, and add, once one of them was shown."""
    budget = PrivacyAccountant(3, ledger=path) if in_file else PrivacyAccountant(3)
    entry, ledger = budget._entry("a", skdpsynth.privacy.PrivacyLoss(1), group="g"), budget._account.ledger
    numbers = [ledger.append(entry, (3, budget.delta), pending=True).id for _ in range(3)]
    assert (budget.spent, len({line.name for line in budget.ledger})) == (1, 3)
    ledger.settle(None, numbers[-1:])
    ledger.append(entry, (3, budget.delta))
    assert budget.spent == 2


STRATEGIES = pytest.mark.parametrize("strategy", ["blocks", "paper"])


@pytest.fixture
def ten(path):
    return PrivacyAccountant(10, ledger=path)


def test_rows_that_are_replayed_in_a_budget_of_zcdp_are_charged_again_as_far_as_its_rho_goes(saved, path):
    year = PrivacyAccountant(6, 1e-6, ledger=path).child(5, 1e-6, name="streams", rho="zcdp")
    model = OnlineSynthesizer(epsilon=0.5, accountant=year).fit(X[:200])
    model.save(saved)
    model.partial_fit(X[200:])
    for n in (2, 3):
        load(saved).partial_fit(X[200:400])
        assert [entry.loss.epsilon for entry in year.ledger] == [0.5] * n
    refuses(BudgetExceededError, "what was charged here is rho, and holds no more", load(saved).partial_fit, X[200:400])
    assert len(year.ledger) == 3


@STRATEGIES
def test_a_stream_that_was_stopped_goes_on_at_no_charge_and_rows_that_were_released_since_it_was_saved_are_charged_again(
    strategy, ten, path, saved
):
    model = OnlineSynthesizer(strategy, accountant=str(path)).fit(X[:500])
    model.save(saved)
    del model
    for n in (500, 700, 1500):
        again = load(saved).partial_fit(X[n : n + 200])
        again.save(saved)
        assert ten.spent == 1  # nothing was released after it was saved, and the ledger proves it
    assert again.n_samples_seen_ == 1100
    again.partial_fit(X[500:1000])
    again = load(saved)
    again.sample(20)
    assert ten.spent == 1  # what was saved is read at no charge
    again.partial_fit(X[500:1000])
    assert ten.spent == 2
    assert "rows released once more, see entry 1" in ten.ledger[-1].name
    again.partial_fit(X[1000:2000])
    assert ten.spent == 2


def test_rows_that_waited_in_an_open_block_are_not_charged_again(ten, path, saved):
    """They were never released, although the stream went on after it was saved."""
    model = OnlineSynthesizer(accountant=path).fit(X[:500])
    model.save(saved)
    n_blocks = len(model.blocks_)
    assert len(model.partial_fit(X[500:510]).blocks_) == n_blocks
    assert len(load(saved).partial_fit(X[500:900]).blocks_) > n_blocks
    assert ten.spent == 1


def test_a_row_costs_as_often_as_it_was_released_and_no_more(ten, path, saved):
    """Three times a stream breaks down after it released rows that it had not saved: each row is released twice, so all cost twice."""
    model, counts = OnlineSynthesizer(accountant=path, growth=1.1).fit(X[:500]), np.zeros(2000, dtype=int)
    for n in (500, 1000, 1500):
        model.save(saved)
        model.partial_fit(X[n : n + 400])
        model = load(saved).partial_fit(X[n : n + 500])
        assert ten.spent == 2
    for entry in (entry for account in ten.ledger for entry in ten.parts_of(account)):
        _, start, _, stop = entry.name.split()
        counts[int(start) : int(stop) + 1] += 1
    assert counts.max() == 2 == ten.spent


@STRATEGIES
def test_what_does_not_fit_twice_is_refused_and_takes_nothing_in(strategy, path, saved):
    budget = PrivacyAccountant(1, ledger=path)
    model = OnlineSynthesizer(strategy, accountant=path).fit(X[:500])
    model.save(saved)
    model.partial_fit(X[500:1000])
    again, words = load(saved), "'OnlineSynthesizer: rows released once more, see entry 1' costs epsilon=1, but only 0"
    for _ in range(2):
        refuses(BudgetExceededError, words, again.partial_fit, X[500:600])
    assert (again.n_samples_seen_, budget.spent) == (500, 1)


@STRATEGIES
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_two_copies_that_go_on_cost_twice(strategy, copied, ten, path):
    model = OnlineSynthesizer(strategy, accountant=path).fit(X[:500])
    twin = copied(model)
    for n in range(500, 1500, 100):
        for each in (twin, model):
            each.partial_fit(X[n : n + 100])
    assert ten.spent == 2
    assert twin.n_samples_seen_ == model.n_samples_seen_ == 1500


def test_a_window_that_folds_its_ledger_agrees_too(ten, path, saved):
    model = OnlineSynthesizer(accountant=path, window=300).fit(X[:500])
    model.save(saved)
    model.partial_fit(X[500:2500])
    assert any("which the window left behind" in part.name for part in ten.parts_of(ten.ledger[0]))
    assert sum(1 for _ in ten.lines()) < 60
    load(saved).partial_fit(X[500:1500])
    assert ten.spent == 2
    assert model.partial_fit(X[2500:]).n_samples_seen_ == 3000
    assert ten.spent == 2


def test_a_copy_that_goes_on_in_a_ledger_that_was_away_when_the_stream_left_it_is_charged(path, saved, tmp_path):
    """That ledger has no line that says so: what it was charged since is a second release, and one import of it is enough."""
    copy, away, other = tmp_path / "copy.zip", tmp_path / "away", tmp_path / "other.db"
    away.mkdir()
    OnlineSynthesizer(accountant=PrivacyAccountant(3, ledger=path)).fit(X[:500]).save(saved)
    shutil.copy(saved, copy)
    receiver = PrivacyAccountant(5, ledger=other)
    receiver.import_record(path)
    for file in path.parent.glob(f"{path.name}*"):
        file.rename(away / file.name)
    load(saved, accountant=other).partial_fit(X[500:1500])
    for file in away.iterdir():
        file.rename(path.parent / file.name)
    assert receiver.import_record(path) == 0
    assert receiver.spent == 1
    load(copy).partial_fit(X[600:2600])
    assert PrivacyAccountant.at(path).spent == 1
    assert receiver.import_record(path) > 0
    assert receiver.import_record(path) == 0
    assert receiver.spent == 2
    load(copy).partial_fit(X[600:2600])
    assert receiver.import_record(path) > 0
    assert receiver.spent == 3  # the ledger itself charged this one


def test_a_ledger_that_was_moved_is_named_anew(path, saved, tmp_path):
    budget = PrivacyAccountant(5, ledger=path)
    model = OnlineSynthesizer(accountant=path).fit(X[:500])
    model.save(saved)
    del model
    budget.close()
    moved = tmp_path / "moved"
    moved.mkdir()
    for left in tmp_path.glob("budget.db*"):
        shutil.move(left, moved / left.name)
    again = load(saved)
    refuses(OSError, "is not there any more", again.partial_fit, X[500:800])
    again.set_params(accountant=moved / "budget.db").partial_fit(X[500:800]).partial_fit(X[800:900])
    assert PrivacyAccountant.at(moved / "budget.db").spent == 1
    other = PrivacyAccountant(5, ledger=tmp_path / "other.db")
    refuses(OSError, "does not hold all that this stream was charged", load(saved).set_params(accountant=other).partial_fit, X[500:800])
    assert other.spent == 0
