"""Ledgers in files: what was charged is there whoever charged it, whatever broke; and nothing is drawn where it cannot be charged."""

import contextlib
import math
import os
import pickle
import re
import shutil
import signal
import sqlite3
import subprocess
import threading
import time
import zipfile
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from internals import Sums, _ledger_file, parse_text, to_text
from laws import refuses
from sklearn.base import clone
from test_ledger import CountedNoise, release

from skdpsynth import LowDimSynthesizer, OnlineSynthesizer, PrivacyAccountant, PrivateMeasureMechanism, PrivatePCA, load
from skdpsynth.exceptions import BudgetExceededError, LedgerError
from skdpsynth.privacy import PrivacyLoss

pytestmark = pytest.mark.usefixtures("unflushed")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.db"


@pytest.fixture
def accountant(path):
    """One with a ledger in a file, of which a quarter is spent."""
    accountant = PrivacyAccountant(1, ledger=path)
    release(accountant)
    return accountant


def refused(accountant, words, error=LedgerError):
    """A release is refused in one sentence, and nothing is drawn."""
    CountedNoise.drawn = 0
    with pytest.raises(error, match=words) as caught:
        release(accountant, noise=CountedNoise(8))
    assert CountedNoise.drawn == 0
    assert re.fullmatch(r".{1,400}\.", str(caught.value))


def test_a_ledger_that_is_opened_again_knows_what_was_spent(path):
    first = PrivacyAccountant(2, 1e-6, ledger=path, dataset="1/2", note="inf")
    release(first, name='"1/3"\n')
    release(first.child(Fraction(1, 2), 1e-7, name="model", group="blocks"), name="inner")
    first.spend(PrivacyLoss(rho=0.001), name="moments")
    again = PrivacyAccountant(2, 1e-6, ledger=str(path))
    assert (again.spent, again.spent_delta, again.remaining) == (first.spent, first.spent_delta, first.remaining)
    exactly = [[(entry, entry.time, entry.version) for entry, _ in each.lines()] for each in (first, again)]
    assert (exactly[0], again.dataset) == (exactly[1], "1/2")
    endless = path.with_name("endless.db")
    PrivacyAccountant(math.inf, ledger=endless).spend(math.inf, name="a")
    assert PrivacyAccountant(math.inf, ledger=endless).spent == math.inf
    assert [entry.note for entry in again.ledger] == ["inf"] * 3
    assert again.to_frame(parts=True)["name"].tolist() == ['"1/3"\n', "model", "inner", "moments"]
    refuses(BudgetExceededError, "'more' costs epsilon=2, but only", again.spend, 2, name="more")


def test_another_declared_budget_is_refused_with_both_and_the_way_to_it_spends_nothing_twice(path, monkeypatch):
    declared = {"epsilon": 2, "delta": 1e-6, "neighboring": "replace_one"}
    PrivacyAccountant(**declared, ledger=path).spend(1, name="a")
    for changed, words in (
        ({"delta": 1e-5}, "delta of the ledger .* is 1e-06, got 1e-05;"),
        ({"neighboring": "add_or_remove_one"}, "neighboring of the ledger .* is replace_one, got add_or_remove_one;"),
        ({"epsilon": 2.5}, r"epsilon of the ledger .* is 2, got 2\.5; open it by PrivacyAccountant"),
    ):
        with pytest.raises(ValueError, match=words) as caught:
            PrivacyAccountant(**(declared | changed), ledger=path)
    assert PrivacyAccountant(**declared, ledger=path).spent == PrivacyAccountant.at(path).spent == 1
    monkeypatch.chdir(path.parent)
    eval(str(caught.value).partition("another budget: ")[2].removesuffix("."))  # what the message says is run as it is
    assert PrivacyAccountant(2.5, 1e-6, ledger="new.db").spent == 1


def test_a_path_stands_for_the_accountant_of_a_ledger(path):
    X = np.random.default_rng(0).random((50, 2))
    budget = PrivacyAccountant(3, ledger=path)
    model = PrivateMeasureMechanism(epsilon=1, accountant=str(path))
    assert clone(model).get_params()["accountant"] == str(path)
    model.fit(X)
    PrivatePCA(epsilon=1.5, accountant=path).fit(X)
    assert budget.spent == Fraction(5, 2)
    refuses(BudgetExceededError, "charge", model.fit, X)
    missing = path.with_name("another.db")
    with pytest.raises(ValueError, match=r"accountant must be a ledger that exists, and there is no file .*; make it by"):
        PrivateMeasureMechanism(accountant=missing).fit(X)
    assert not missing.exists()


def test_a_published_model_holds_no_path_and_no_line_of_others(path, tmp_path):
    budget = PrivacyAccountant(3, ledger=path)
    budget.spend(1, name="a secret project")
    for accountant in (budget, str(path)):
        model = PrivateMeasureMechanism(epsilon=1, accountant=accountant).fit(np.random.default_rng(0).random((50, 1)))
        model.save(tmp_path / "model.zip")
        with zipfile.ZipFile(tmp_path / "model.zip") as file:
            saved = b"".join(file.read(name) for name in file.namelist())
        for data in (pickle.dumps(model), saved):
            assert b"budget.db" not in data
            assert b"a secret project" not in data
        again = load(tmp_path / "model.zip")
        assert again.accountant_.spent == 1
        refuses(BudgetExceededError, "closed record", again.fit, np.zeros((5, 1)))
    record = budget.record()
    path.unlink()
    assert (record.spent, record.ledger[-1].name) == (3, "PrivateMeasureMechanism")
    assert model.accountant_.spent == pickle.loads(pickle.dumps(model.accountant_)).spent == 1


def test_entries_name_their_process_and_no_machine(path):
    import socket

    accountant = PrivacyAccountant(1, ledger=path)
    release(accountant)
    (entry,) = accountant.ledger
    assert entry.process.startswith(f"{os.getpid()}-")
    assert socket.gethostname() not in path.read_bytes().decode("latin1")
    assert PrivacyAccountant(1).child(1, name="a").record().ledger == ()


amounts = st.one_of(st.fractions(min_value=0), st.just(math.inf), st.integers(1, 9).map(lambda n: Fraction(n, 3**9000)))


@given(epsilon=amounts, rho=amounts, delta=st.fractions(0, 1), gaussian=st.booleans())
@settings(max_examples=60, deadline=None)
def test_text_loses_nothing_of_sums(epsilon, rho, delta, gaussian):
    sums = Sums(epsilon=epsilon, rho=rho, delta=delta, gaussian=gaussian)
    assert parse_text(to_text(sums)) == sums


steps = st.one_of(
    st.tuples(st.just("spend"), st.integers(1, 9)),
    st.tuples(st.just("rho"), st.integers(1, 9)),
    st.tuples(st.sampled_from(["g", "h"]), st.sampled_from("abc"), st.integers(1, 9)),
    st.tuples(st.just("fold"), st.sampled_from(["ab", "bc", "c"])),
)


@given(charges=st.lists(steps, max_size=10))
@settings(max_examples=40, deadline=None)
def test_both_kinds_of_ledger_hold_and_add_the_same(charges, tmp_path_factory):
    """Of charges in any order: totals, lines, and what each adds."""
    budget = (Fraction(3), Fraction(1, 10**6))
    file = PrivacyAccountant(*budget, ledger=tmp_path_factory.mktemp("both") / "budget.db")
    both = (PrivacyAccountant(*budget), file)
    for kind, *rest in charges:
        outcomes = []
        for accountant in both:
            try:
                if kind == "spend":
                    accountant.spend(Fraction(rest[0], 10), name="step")
                elif kind == "rho":
                    accountant.spend(PrivacyLoss(rho=Fraction(rest[0], 10**4)), name="moments")
                elif kind == "fold":
                    accountant.fold("g", list(rest[0]), into="folded")
                else:
                    child = accountant.child(Fraction(rest[1], 10), name=rest[0], group=kind)
                    release(child, Fraction(1, 20))
                outcomes.append(None)
            except ValueError as error:
                outcomes.append((str(error), getattr(error, "requested", None)))
        assert outcomes[0] == outcomes[1]
    memory, file = both
    assert (memory.ledger, memory.spent, memory.spent_delta) == (file.ledger, file.spent, file.spent_delta)
    assert (list(memory.lines()), memory.record().ledger) == (list(file.lines()), file.record().ledger)
    assert [memory.was_charged(name, "g") for name in ("a", "folded")] == [file.was_charged(name, "g") for name in ("a", "folded")]


def in_child(task):
    """Run a task in a forked process; its number."""
    if not hasattr(os, "fork"):
        pytest.skip("fork is a POSIX call")
    process = os.fork()
    if process == 0:
        with contextlib.suppress(BaseException):
            task()
            os._exit(0)
        os._exit(1)
    return process


def spends(accountant, times):
    for i in range(times):
        accountant.spend(Fraction(1, 100), name=f"{os.getpid()}-{i}")


def test_forked_processes_spend_exactly_what_there_is(path):
    """Four children of a parent whose connection is open, and the parent itself, want 50 hundredths of 1 each."""
    accountant = PrivacyAccountant(1, ledger=path)
    accountant.spend(Fraction(1, 100), name="first")
    children = [in_child(lambda: spends(accountant, 50)) for _ in range(4)]
    refuses(BudgetExceededError, "charge", spends, accountant, 101)
    for process in children:
        os.waitpid(process, 0)
    assert accountant.spent == 1
    assert len(accountant.ledger) == len({entry.name for entry in accountant.ledger}) == 100
    assert len({entry.process for entry in accountant.ledger}) > 1


def test_a_fork_waits_for_the_charge_of_another_thread(path):
    """And no connection is open meanwhile, which the child could believe to be its own."""
    accountant, stop = PrivacyAccountant(10**6, ledger=path), threading.Event()

    def spend():
        while not stop.is_set():
            accountant.spend(1, name="thread")

    threads = [threading.Thread(target=spend) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            assert os.waitpid(in_child(lambda: spends(accountant, 3)), 0)[1] == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert accountant.spent == len([e for e in accountant.ledger if e.name == "thread"]) + Fraction(15, 100)


def test_a_pickled_accountant_reconnects_and_a_child_of_it_too(path):
    accountant = PrivacyAccountant(2, ledger=path, note="mine")
    child = accountant.child(1, name="model")
    again, child_again = pickle.loads(pickle.dumps((accountant, child)))
    again.spend(Fraction(1, 2), name="there")
    release(child_again)
    refuses(BudgetExceededError, "charge", child.spend, Fraction(4, 5), name="too much")
    assert (accountant.spent, child.spent, again.note) == (Fraction(3, 2), Fraction(1, 4), "mine")
    assert clone(PrivatePCA(accountant=accountant)).accountant is accountant


def test_processes_killed_at_random_moments_lose_no_charge(tmp_path):
    """The whole of it, 50 rounds, is in benchmarks/ledger.py."""
    rng = np.random.default_rng(0)
    told = [tmp_path / str(i) for i in range(4)]
    accountant = PrivacyAccountant(5, ledger=tmp_path / "budget.db")

    def spend(file):
        with open(file, "ab", buffering=0) as out:
            for i in range(200):
                accountant.spend(Fraction(1, 100), name=f"{file.name} {i}")
                out.write(f"{file.name} {i}\n".encode())

    for process in [in_child(lambda file=file: spend(file)) for file in told]:
        time.sleep(rng.uniform(0, 0.1))
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
    again = PrivacyAccountant(5, ledger=tmp_path / "budget.db")
    names = [entry.name for entry in again.ledger]
    reported = {line for file in told if file.exists() for line in file.read_text().splitlines()}
    assert again.spent == Fraction(len(names), 100) <= 5
    assert reported <= set(names)
    assert len(names) - len(reported) <= len(told)


def test_a_charge_is_flushed_to_the_disk(path, monkeypatch):
    monkeypatch.undo()
    accountant = PrivacyAccountant(1, ledger=path)
    assert accountant._account.ledger.store._first("pragma synchronous") == 2
    assert accountant._account.ledger.store._first("pragma journal_mode") == "wal"


def test_a_file_that_is_no_ledger_is_refused_and_stays(path):
    for content in (b"", b"some notes", b"PK\3\4" + bytes(200)):
        path.write_bytes(content)
        for attempt in (lambda: PrivacyAccountant(1, ledger=path), lambda: PrivateMeasureMechanism(accountant=path).fit(np.zeros((5, 1)))):
            refuses(LedgerError, r"budget.db' is not a ledger of skdpsynth; name another file\.$", attempt)
        assert path.read_bytes() == content


def test_what_is_no_place_or_no_ledger_of_this_format_is_refused(path):
    PrivacyAccountant(1, ledger=path)
    others, pipe = path.with_name("others.db"), path.with_name("pipe")
    for file, sensitivity in ((path, "pragma user_version = 4"), (others, "create table about (name, value)")):
        with sqlite3.connect(file) as db:
            db.execute(sensitivity)
        db.close()
    os.mkfifo(pipe)
    for file, words in (
        (path, "is a ledger of format 4, and this version of skdpsynth reads 3; open it with the one that wrote it"),
        (others, "is not a ledger of skdpsynth"),
        (pipe, "is not a ledger"),
        (path.parent, "is a folder; name a file in it"),
        (path.parent / "nowhere" / "budget.db", "lies in a folder that does not exist; make it first"),
    ):
        refuses(LedgerError, words, PrivacyAccountant, 1, ledger=file)
    for given_as in ("", 5, b"budget.db", "a\0b", "\ud800", type(None)):
        refuses(ValueError, "ledger must be the path of a file, got", PrivacyAccountant, 1, ledger=given_as)
    for words in ("", "a" * 1001, 5, b"x"):
        for name in ("note", "dataset"):
            refuses(ValueError, f"{name} must be None or a text of 1 to 1000 characters", PrivacyAccountant, 1, **{name: words})


def test_a_file_that_is_removed_or_replaced_under_us_is_refused(path, accountant):
    away = path.with_name("away.db")
    path.rename(away)
    refused(accountant, "is not there any more, and nothing is drawn")
    path.write_bytes(b"")
    refused(accountant, "was removed or replaced while it was open")
    away.rename(path)
    release(accountant)
    assert accountant.spent == Fraction(1, 2)


def test_charges_that_lie_beside_a_ledger_that_is_gone_are_not_forgotten(path, accountant):
    path.unlink()
    refuses(LedgerError, r"is gone, but .*-wal' is there with charges of it", PrivacyAccountant, 1, ledger=path)


@pytest.mark.parametrize("begun", [False, True])
def test_the_file_alone_holds_all_that_was_drawn(path, begun):
    """Copied while it is open, as cp does it, and without -wal."""
    accountant, copy = PrivacyAccountant(3, ledger=path), path.with_name("copy.db")
    for i in range(5):
        release(accountant, name=f"counts {i}")
    accountant.import_record(source())
    if begun:  # whoever reads while the copy is made sees no less
        accountant._account.ledger.store._db.execute("begin")
    subprocess.run(["cp", path, copy], check=True)  # this process may not open the file: closing it would drop SQLite's locks
    assert PrivacyAccountant(3, ledger=copy).spent == Fraction(5, 2)


def test_a_charge_that_a_reader_keeps_out_of_the_file_is_not_drawn(path, accountant, monkeypatch):
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("begin")
    reader.execute("select * from sums").fetchall()
    monkeypatch.setattr(_ledger_file, "PATIENCE", 0.2)
    refused(accountant, "was read by others for 0.2 seconds, so a charge that was made could not be moved into it, and nothing is drawn")
    assert accountant.spent == Fraction(1, 2)
    monkeypatch.setattr(_ledger_file, "PATIENCE", 20)
    later = threading.Thread(target=release, args=(accountant,))
    later.start()
    time.sleep(0.4)
    assert later.is_alive()
    reader.close()
    later.join()
    assert accountant.spent == Fraction(3, 4)


@pytest.mark.parametrize("ends", [["-wal"], ["-shm"], ["-wal", "-shm"]])
@pytest.mark.parametrize("replaced", [False, True])
def test_charges_are_not_written_where_nobody_else_will_look(path, accountant, ends, replaced):
    for end in ends:
        beside = path.with_name(path.name + end)
        beside.unlink()
        if replaced:
            other = path.with_name(f"other{end}")
            other.write_bytes(b"")
            path.with_name(f"held{end}").write_bytes(b"")  # else the new file may get the inode of the old
            other.rename(beside)
    words = "-wal' or -shm was removed or replaced while the ledger was open, and nothing is drawn; end every program"
    refused(accountant, words)
    with pytest.raises(LedgerError, match=words):
        PrivacyAccountant(1, ledger=path)  # SQLite would share the memory of the other connection with it
    accountant._account.ledger.store._disconnect()
    assert PrivacyAccountant(1, ledger=path).spent == Fraction(1, 4)


def test_a_ledger_that_is_overwritten_while_it_is_open_may_have_been_replaced(path):
    accountant = PrivacyAccountant(100, ledger=path)
    old = path.read_bytes()[:8192]
    for i in range(20):
        release(accountant, name=f"counts {i}")
    with open(path, "r+b") as file:
        file.truncate(0)
        file.write(old)
    accountant._account.ledger.store._db.execute("pragma shrink_memory")  # what it remembers of the file
    refuses(LedgerError, "or was overwritten by another while it was open, and nothing is drawn; put", release, accountant)
    assert all("overwritten by another" in _ledger_file.SQLITE_MESSAGES[code] for code in (10, 11))  # by its size, it may be either


def test_an_old_copy_in_its_place_is_refused(path, accountant):
    data = pickle.dumps(accountant)
    accountant._account.ledger.store._disconnect()
    old = path.read_bytes()
    release(accountant)
    accountant._account.ledger.store._disconnect()
    path.write_bytes(old)
    refused(accountant, "another ledger, or an old copy, is in its place")
    path.unlink()
    PrivacyAccountant(1, ledger=path)
    refused(pickle.loads(data), "is not what it was: another ledger, or an old copy, is in its place")


@pytest.mark.parametrize("when", ["before", "while it is open"])
def test_a_ledger_of_two_names_is_refused(path, accountant, when):
    """Each name has a -wal of its own: programs that open both would write over each other's charges."""
    if when == "before":
        accountant._account.ledger.store._disconnect()
    other = path.with_name("other.db")
    other.hardlink_to(path)
    refused(accountant, "has another name, a hard link, by which charges would be lost, and nothing is drawn")
    refuses(LedgerError, "has another name", PrivacyAccountant.at, other)
    other.unlink()
    assert accountant.spent == Fraction(1, 4)


def test_processes_that_make_one_ledger_at_once_are_not_taken_for_two_names(tmp_path):
    paths = [tmp_path / f"{i}.db" for i in range(40)]
    start = time.time() + 0.2

    def make():
        time.sleep(max(0.0, start - time.time()))
        for path in paths:
            PrivacyAccountant(1, ledger=path).spend(0.25, name="a")

    assert [os.waitpid(process, 0)[1] for process in [in_child(make) for _ in range(3)]] == [0, 0, 0]
    assert all(PrivacyAccountant.at(path).spent == Fraction(3, 4) for path in paths)
    # Its maker may be killed before it takes the name away by which it made a ledger; nobody opens that.
    paths[0].with_name(f".{paths[0].name}.{16 * '0'}").hardlink_to(paths[0])
    PrivacyAccountant.at(paths[0]).spend(0.25, name="b")


def test_a_symbolic_link_leads_to_the_ledger(path, tmp_path):
    accountant = PrivacyAccountant(1, ledger=path)
    (tmp_path / "folder").mkdir()
    link = tmp_path / "folder" / "link.db"
    link.symlink_to(path)
    release(PrivacyAccountant.at(link))
    release(accountant)
    assert accountant.spent == PrivacyAccountant(1, ledger=link).spent == Fraction(1, 2)


def test_a_ledger_that_is_mounted_by_itself_is_refused(tmp_path, monkeypatch):
    (tmp_path / "my folder").mkdir()
    path = tmp_path / "my folder" / "budget.db"
    accountant = PrivacyAccountant(1, ledger=path)
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"36 35 98:0 /x / rw - ext4 /dev/a rw\n37 36 98:0 /f {str(path).replace(' ', chr(92) + '040')} rw - ext4 /dev/a rw\n")
    monkeypatch.setattr(_ledger_file, "_MOUNTS", str(mounts))
    refuses(LedgerError, r"is mounted by itself, .* and nothing is drawn; mount its folder", PrivacyAccountant.at, path)
    monkeypatch.setattr(_ledger_file, "_MOUNTS", str(tmp_path / "none"))
    assert PrivacyAccountant.at(path).spent == accountant.spent == 0


def test_where_nothing_may_be_written_no_ledger_is_made(path, monkeypatch):
    accountant = PrivacyAccountant(1, ledger=path.with_name("read only.db"))
    accountant._account.ledger.store._db.execute("pragma query_only = on")
    refused(accountant, "may not be written, and nothing is drawn; make it writable")

    def read_only(*arguments, **more):
        raise OSError(30, "Read-only file system")

    for name in ("open", "unlink"):
        monkeypatch.setattr(_ledger_file.os, name, read_only)
    with pytest.raises(LedgerError, match=r"budget.db' cannot be made \(Read-only file system\); choose a folder that may be written"):
        PrivacyAccountant(1, ledger=path)


def test_a_full_disk_is_refused_and_the_ledger_goes_on(path):
    accountant = PrivacyAccountant(1, ledger=path)
    db = accountant._account.ledger.store._db
    pages = db.execute("pragma page_count").fetchone()[0]
    db.execute(f"pragma max_page_count = {pages}")
    accountant.note = "long " * 190

    def fill():
        for _ in range(100):
            release(accountant, Fraction(1, 1000))

    refuses(LedgerError, "is on a full disk, and nothing is drawn; make room", fill)
    db.execute(f"pragma max_page_count = {pages + 1000}")
    spent = accountant.spent
    release(accountant)
    assert accountant.spent == spent + Fraction(1, 4) == sum(entry.loss.epsilon for entry in accountant.ledger)


def test_a_ledger_that_is_locked_for_long_is_refused(path, monkeypatch):
    monkeypatch.setattr(_ledger_file, "PATIENCE", 0.5)
    accountant = PrivacyAccountant(1, ledger=path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("begin immediate")
    refused(accountant, "was locked by others for .* seconds, and nothing is drawn")
    assert accountant.spent == 0  # whoever writes keeps nobody from reading
    other.execute("rollback")
    release(accountant)
    other.close()


def damaged_copies(data, n, seed):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        copy = bytearray(data)
        kind = rng.integers(3)
        if kind == 0:
            copy = copy[: rng.integers(1, len(copy))]
        elif kind == 1:
            for place in rng.integers(0, len(copy), 30):
                copy[place] ^= 1 << int(rng.integers(8))
        else:
            start = rng.integers(0, len(copy) - 512)
            copy[start : start + 512] = bytes(rng.integers(0, 256, 512, dtype=np.uint8))
        yield bytes(copy)


def test_a_damaged_ledger_is_refused_in_our_words_or_right(path):
    """100 files with bits flipped, pages overwritten or the end cut off: no error of anybody else, and never less than was spent."""
    accountant = PrivacyAccountant(100, ledger=path)
    for i in range(40):
        release(accountant.child(1, name=f"model {i}"), name="inner")
    accountant._account.ledger.store._disconnect()
    n_refused = 0
    for i, data in enumerate(damaged_copies(path.read_bytes(), 100, seed=0)):
        copy = path.with_name(f"copy{i}.db")
        copy.write_bytes(data)
        try:
            again = PrivacyAccountant(100, ledger=copy)
            assert again.spent >= 40
            list(again.lines())
            again.spend(1, name="more")
        except LedgerError:
            n_refused += 1
    assert n_refused > 50


@pytest.fixture(params=["memory", "file"])
def receiver(request, path):
    return PrivacyAccountant(10, 1e-6, ledger=path if request.param == "file" else None)


def source():
    accountant = PrivacyAccountant(5, 1e-6)
    release(accountant)
    for name in ("rows 0 to 9", "rows 10 to 19"):
        release(accountant.child(1, name=name, group="blocks"), name="inner")
    return accountant


def test_a_record_is_charged_once_and_then_only_what_is_new(receiver):
    accountant = source()
    assert receiver.import_record(accountant.record()) == 5
    assert receiver.spent == accountant.spent == Fraction(5, 4)
    assert receiver.import_record(accountant.record()) == receiver.import_record(pickle.loads(pickle.dumps(accountant.record()))) == 0
    assert receiver.import_record(receiver.record()) == 0
    release(accountant)
    accountant.child(2, name="rows 20 to 29", group="blocks")
    assert receiver.import_record(accountant) == 2
    assert receiver.spent == accountant.spent == Fraction(5, 2)
    assert [entry.name for entry in receiver.ledger] == [entry.name for entry in accountant.ledger]
    assert sum(1 for _ in receiver.lines()) == sum(1 for _ in accountant.lines())


def test_a_record_that_comes_by_another_way_counts_once(receiver, tmp_path):
    accountant, between = source(), PrivacyAccountant(10, 1e-6, ledger=tmp_path / "between.db")
    between.import_record(accountant)
    receiver.import_record(accountant)
    assert receiver.import_record(tmp_path / "between.db") == 0
    assert (receiver.import_record(accountant.record().reopen()), receiver.spent) == (0, accountant.spent)


def test_groups_of_two_ledgers_are_not_first(receiver):
    """Their rows may be the same."""
    for _ in range(2):
        receiver.import_record(source())
    assert receiver.spent == Fraction(5, 2)
    receiver.child(1, name="rows 0 to 9", group="blocks")
    assert receiver.spent == Fraction(7, 2)


def test_what_does_not_fit_is_not_charged_at_all(receiver):
    accountant = PrivacyAccountant(100, 1e-6)
    for i in range(12):
        release(accountant.child(1, name=f"model {i}"), name="inner")
    before = receiver.ledger
    refuses(BudgetExceededError, "'model 10' costs epsilon=1, but only 0 of 10 remains", receiver.import_record, accountant)
    assert (receiver.ledger, receiver.spent) == (before, 0)
    receiver.spend(10, name="all")


def test_a_model_and_the_budget_that_paid_for_it_count_once(receiver):
    budget = PrivacyAccountant(5)
    model = PrivateMeasureMechanism(epsilon=1, accountant=budget).fit(np.random.default_rng(0).random((50, 1)))
    receiver.import_record(budget)
    assert (receiver.import_record(model.accountant_), receiver.spent) == (0, 1)


def test_lines_that_were_folded_are_not_charged_again(receiver):
    accountant = PrivacyAccountant(1)
    for i in range(8):
        accountant.child(1, name=f"rows {i}", group="blocks").close()
        if i > 2:
            accountant.fold("blocks", [f"rows {i - 2}"], into="earlier rows")
        receiver.import_record(accountant)
        assert receiver.spent == 1


def test_copies_that_went_on_by_themselves_are_refused(receiver):
    accountant = source()
    copies = [pickle.loads(pickle.dumps(accountant.record())) for _ in range(2)]
    for copy, name in zip(copies, ("one", "two"), strict=True):
        copy._closed = False
        copy.spend(1, name=name)
    receiver.import_record(copies[0])
    with pytest.raises(ValueError, match=r"has another entry 6 of ledger-.*, because one of them is a copy that went on by itself"):
        receiver.import_record(copies[1])
    with pytest.raises(ValueError, match="record counts under 'add_or_remove_one', but this accountant under 'replace_one'"):
        receiver.import_record(PrivacyAccountant(1, neighboring="add_or_remove_one"))
    refuses(ValueError, "record must be a PrivacyAccountant or the path of a ledger, got 5", receiver.import_record, 5)


def test_a_copy_that_went_on_is_refused_though_entries_were_folded_since(path):
    """The number of what the copy charged was that of a block here, which its window has left behind."""
    ledger = PrivacyAccountant(3, ledger=path)
    stream = OnlineSynthesizer(window=60, accountant=ledger, random_state=0).partial_fit(np.zeros((1, 1)))
    copied = shutil.copy(path, path.with_name("copy.db"))
    PrivacyAccountant.at(copied).spend(1.5, name="counts")
    stream.partial_fit(np.zeros((400, 1)))
    assert ledger._account.ledger.entry(2) is None  # it was folded
    refuses(ValueError, r"has entry 2 of ledger-.*, which was folded into a sum here", ledger.import_record, copied)
    assert ledger.spent == 1


def fitted_alone(seed, **parameters):
    rows = np.random.default_rng(0).random((500, 1)) @ np.ones((1, 4))
    return LowDimSynthesizer(1, delta=1e-7, bounds=(0, 1), random_state=seed, **parameters).fit(rows)


def test_fits_of_several_kinds_cost_what_they_cost_on_one_accountant(receiver):
    """Each holds a loss in rho, and one in epsilon after it: line by line, those of the second fit could not follow the first."""
    shared = PrivacyAccountant(10, 1e-6)
    for seed in range(3):
        record = fitted_alone(seed).accountant_
        kinds = [entry.loss.rho is None for entry in record.ledger]
        assert kinds == sorted(kinds)  # rho first, pure losses after it
        assert (len(set(kinds)), receiver.import_record(record)) == (2, 1 + sum(1 for _ in record.lines()))
        fitted_alone(seed, accountant=shared)
        assert (receiver.spent, receiver.spent_delta) == (shared.spent, shared.spent_delta) == (seed + 1, Fraction(seed + 1, 10**7))
        assert receiver.import_record(record) == 0
    receiver.spend(6.5, name="late")  # nothing in rho was charged here
    before = (receiver.spent, receiver.spent_delta, receiver.ledger)
    with pytest.raises(BudgetExceededError, match=r"'record of another ledger' costs epsilon=1, but only 0\.5 of 10 remains"):
        receiver.import_record(fitted_alone(3).accountant_)
    assert (receiver.spent, receiver.spent_delta, receiver.ledger) == before


def test_what_is_spent_later_under_a_budget_that_was_charged_whole_is_free(receiver):
    """Its lines do not fit one by one: pure losses after one in rho, as a plan may have them, but on no other account."""
    accountant, unspent = PrivacyAccountant(2, 1e-7), PrivacyAccountant(5, 1e-7)
    accountant._planned = True
    accountant.child(0.5, 1e-8, name="moments", rho="gaussian")
    accountant.spend(0.5, name="pure")
    assert (receiver.import_record(accountant), receiver.spent, receiver.spent_delta) == (3, 2, Fraction(1, 10**7))
    accountant.spend(0.5, name="later")
    assert (receiver.import_record(accountant), receiver.spent) == (1, 2)
    assert [line.name for line in receiver.parts_of(receiver.ledger[0])] == ["moments", "pure", "later"]
    unspent.spend(1, name="pure")  # a budget that is not spent is charged line by line
    unspent.child(0.5, 1e-8, name="moments", rho="gaussian")
    assert receiver.import_record(unspent) == 2
    assert 3 < receiver.spent < 4
    refuses(ValueError, "may not follow losses in rho", receiver.import_record, fitted_alone(0).accountant_)
    assert len(receiver.ledger) == 3


def test_records_in_any_order_are_never_charged_less_than_each_of_them(receiver):
    """Bounds at one delta: what the receiver says is at least the epsilon of the pure lines, and each record's own at that delta."""
    rng = np.random.default_rng(5)
    for trial in range(8):
        mine, records = PrivacyAccountant(50, 1e-5), []
        for _ in range(4):
            other = PrivacyAccountant(2, 1e-7)
            other._planned = True
            for place in rng.permutation(4)[: rng.integers(1, 5)]:
                if place % 2:
                    other.child(0.3, 1e-8, name=f"rho {place}", rho="gaussian")
                else:
                    other.spend(0.2, name=f"pure {place}")
            records.append(other)
        taken = []
        for other in records:
            with contextlib.suppress(ValueError):
                mine.import_record(other)
                taken.append(other)
        pure = sum(each._account.sums().epsilon for each in taken)
        assert mine.spent >= pure, trial
        assert all(mine.spent >= each.epsilon_at(mine.delta) for each in taken)
