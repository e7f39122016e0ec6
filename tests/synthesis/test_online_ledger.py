"""A stream whose budget is kept in a file: what was saved and the ledger agree, whatever broke down in between."""

import copy
import os
import pickle
import shutil
import signal

import numpy as np
import pytest
from internals import _ledger_place

from skdpsynth import OnlineSynthesizer, PrivacyAccountant, load
from skdpsynth.exceptions import BudgetExceededError

X = np.random.default_rng(0).random((3000, 2))
STRATEGIES = pytest.mark.parametrize("strategy", ["blocks", "paper"])


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(_ledger_place, "SYNCHRONOUS", "off")
    monkeypatch.setattr(_ledger_place, "_flush_folder", lambda path: None)


@pytest.fixture
def budget(tmp_path):
    return PrivacyAccountant(10, ledger=tmp_path / "budget.db")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.db"


@pytest.fixture
def saved(tmp_path):
    return tmp_path / "stream.zip"


def test_rows_that_are_replayed_in_a_budget_of_zcdp_are_charged_again_as_far_as_its_rho_goes(saved, path):
    year = PrivacyAccountant(6, 1e-6, ledger=path).child(5, 1e-6, name="streams", rho="zcdp")
    model = OnlineSynthesizer(epsilon=0.5, accountant=year).fit(X[:200])
    model.save(saved)
    model.partial_fit(X[200:])
    for n in (2, 3):
        load(saved).partial_fit(X[200:400])
        assert [entry.loss.epsilon for entry in year.ledger] == [0.5] * n
    with pytest.raises(BudgetExceededError, match="what was charged here holds no more"):
        load(saved).partial_fit(X[200:400])
    assert len(year.ledger) == 3


def edges(stream):
    return [stop for _, stop, _ in stream._stream.blocks]


@STRATEGIES
def test_a_stream_that_was_stopped_goes_on_at_no_charge(strategy, budget, path, saved):
    """Nothing was released after it was saved, and the ledger proves it."""
    model = OnlineSynthesizer(strategy, accountant=str(path)).fit(X[:500])
    model.save(saved)
    del model
    for n in (500, 700, 1500):
        again = load(saved).partial_fit(X[n : n + 200])
        again.save(saved)
        assert budget.spent == 1
    assert again.n_samples_seen_ == 1100


@STRATEGIES
def test_rows_that_are_replayed_after_they_were_released_are_charged_again(strategy, budget, path, saved):
    model = OnlineSynthesizer(strategy, accountant=path).fit(X[:500])
    model.save(saved)
    model.partial_fit(X[500:1000])
    del model
    again = load(saved)
    again.sample(20)
    assert budget.spent == 1  # what was saved is read at no charge
    again.partial_fit(X[500:1000])
    assert budget.spent == 2
    assert "rows released once more, see entry 1" in budget.ledger[-1].name
    again.partial_fit(X[1000:2000])
    assert budget.spent == 2


def test_rows_that_waited_in_an_open_block_are_not_charged_again(budget, path, saved):
    """They were never released, although the stream went on after it was saved."""
    model = OnlineSynthesizer(accountant=path).fit(X[:500])
    model.save(saved)
    n_blocks = len(edges(model))
    model.partial_fit(X[500:510])
    assert len(edges(model)) == n_blocks
    again = load(saved).partial_fit(X[500:900])
    assert len(edges(again)) > n_blocks
    assert budget.spent == 1


def test_a_row_costs_as_often_as_it_was_released_and_no_more(budget, path, saved):
    """Three times a stream breaks down after it released rows that it had not saved: each row is released twice, so all cost twice."""
    model = OnlineSynthesizer(accountant=path, growth=1.1).fit(X[:500])
    for n in (500, 1000, 1500):
        model.save(saved)
        model.partial_fit(X[n : n + 400])
        model = load(saved).partial_fit(X[n : n + 500])
        assert budget.spent == 2
    members = [e.name for account in budget.ledger for e in budget.parts_of(account)]
    counts = np.zeros(2000, dtype=int)
    for name in members:
        _, start, _, stop = name.split()
        counts[int(start) : int(stop) + 1] += 1
    assert counts.max() == 2 == budget.spent


@STRATEGIES
def test_what_does_not_fit_twice_is_refused_and_takes_nothing_in(strategy, path, saved):
    budget = PrivacyAccountant(1, ledger=path)
    model = OnlineSynthesizer(strategy, accountant=path).fit(X[:500])
    model.save(saved)
    model.partial_fit(X[500:1000])
    again = load(saved)
    for _ in range(2):
        with pytest.raises(
            BudgetExceededError, match="'OnlineSynthesizer: rows released once more, see entry 1' costs epsilon=1, but only 0"
        ):
            again.partial_fit(X[500:600])
    assert (again.n_samples_seen_, budget.spent) == (500, 1)


@STRATEGIES
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_two_copies_that_go_on_cost_twice(strategy, copied, budget, path):
    model = OnlineSynthesizer(strategy, accountant=path).fit(X[:500])
    twin = copied(model)
    for n in range(500, 1500, 100):
        for each in (twin, model):
            each.partial_fit(X[n : n + 100])
    assert budget.spent == 2
    assert twin.n_samples_seen_ == model.n_samples_seen_ == 1500


@STRATEGIES
@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork is a POSIX call")
def test_a_process_killed_between_save_and_the_next_release_leaves_ledger_and_file_agreed(strategy, budget, path, saved, tmp_path):
    """After any number of rows: the loaded stream pays once more exactly if the dead one has released rows that come again."""
    outcomes = set()
    for k, n_more in enumerate((0, 1, 60, 300)):
        spent, at = budget.spent, tmp_path / f"{k}.zip"
        process = os.fork()
        if process == 0:
            try:
                model = OnlineSynthesizer(strategy, accountant=path).fit(X[:500])
                model.save(at)
                if n_more:
                    model.partial_fit(X[500 : 500 + n_more])
            finally:
                os.kill(os.getpid(), signal.SIGKILL)
        assert os.WIFSIGNALED(os.waitpid(process, 0)[1])
        account = budget.ledger[-1]
        before = {part.name for part in load(at).accountant_.ledger}
        released = {part.name for part in budget.parts_of(account)} > before
        load(at).partial_fit(X[500:1000])
        assert budget.spent == spent + 1 + released
        outcomes.add(released)
    assert outcomes == {False, True}


def test_a_window_that_folds_its_ledger_agrees_too(budget, path, saved):
    model = OnlineSynthesizer(accountant=path, window=300).fit(X[:500])
    model.save(saved)
    model.partial_fit(X[500:2500])
    assert any("which the window left behind" in part.name for part in budget.parts_of(budget.ledger[0]))
    assert sum(1 for _ in budget.lines()) < 60
    load(saved).partial_fit(X[500:1500])
    assert budget.spent == 2
    assert model.partial_fit(X[2500:]).n_samples_seen_ == 3000
    assert budget.spent == 2


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
    with pytest.raises(OSError, match="is not there any more"):
        again.partial_fit(X[500:800])
    again.set_params(accountant=moved / "budget.db").partial_fit(X[500:800]).partial_fit(X[800:900])
    assert PrivacyAccountant.at(moved / "budget.db").spent == 1
    other = PrivacyAccountant(5, ledger=tmp_path / "other.db")
    with pytest.raises(OSError, match="does not hold all that this stream was charged"):
        load(saved).set_params(accountant=other).partial_fit(X[500:800])
    assert other.spent == 0
