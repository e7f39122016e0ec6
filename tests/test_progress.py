"""Progress: nothing is shown unasked, and what is shown is public."""

import io
import json
import sys
import threading

import numpy as np
import pytest
from internals import _progress as progress
from laws import refuses

from skdpsynth import (
    LatentFactorSynthesizer,
    LowDimSynthesizer,
    PrivateMeasureMechanism,
    PrivatePCA,
    SignedMeasureMechanism,
    load,
    show_progress,
)
from skdpsynth.auditing import audit_epsilon
from skdpsynth.model_selection import PrivateSearchCV


class Bars:
    """Stands for the bars: notes what they would show."""

    def __init__(self):
        self.told, self.open = [], {}

    def add_task(self, name, total, done):
        self.told.append((name, total, done))
        self.open[len(self.told)] = name
        return len(self.told)

    def update(self, number, completed, done):
        self.told.append((self.open[number], completed, done))

    def remove_task(self, number):
        del self.open[number]


@pytest.fixture
def bars(monkeypatch):
    shown = Bars()
    monkeypatch.setattr(progress, "_bars", shown)
    return shown


def chunks_of(X, size):
    return lambda: (X[start : start + size] for start in range(0, len(X), size))


def words(bars):
    return [name for name, *_ in bars.told]


@pytest.mark.parametrize(("neighboring", "n_read"), [("replace_one", {0, 1, 2, 3}), ("add_or_remove_one", {0})])
def test_a_program_that_draws_bars_itself_reads_public_numbers_line_by_line(X, neighboring, n_read):
    lines = []
    with progress.write_progress(lines.append):
        PrivateMeasureMechanism(bounds=(0, 1), neighboring=neighboring).fit(chunks_of(X, -(-len(X) // 3)))
    told = [json.loads(line) for line in lines]
    assert {each["task"] for each in told} == {each["task"] for each in told if each.get("is_over")}
    assert {each["done"] for each in told if each.get("name", "").startswith("reading")} == n_read
    assert all({*each} in ({"task", "name", "done", "total"}, {"task", "is_over"}) for each in told)


def test_nothing_is_written_unless_somebody_asks(capfd, X):
    PrivateMeasureMechanism().fit(X)
    assert capfd.readouterr() == ("", "")
    parts = range(5)
    assert list(progress.track_steps("work", parts)) == list(parts)
    assert progress.task("work") is progress.task("other work") is progress.bar("fit")


def test_a_fit_and_its_releases_have_bars_and_one_that_fails_leaves_none(bars, X):
    PrivateMeasureMechanism("optimal", depth=2).fit(X)
    assert words(bars) == ["fit PrivateMeasureMechanism", "counts of level 2"]
    refuses(ValueError, "n_cells", SignedMeasureMechanism(0).fit, X)
    assert not bars.open


def test_chunks_are_counted_where_the_number_of_rows_is_public_and_nowhere_else(bars, X):
    PrivateMeasureMechanism("optimal", depth=2).fit(chunks_of(X, 100))
    assert ("reading X", 3, "3") in bars.told
    with_units = np.column_stack([np.arange(len(X)) % 50, X[:, :1]])
    for parameters, rows, unit in (({"neighboring": "add_or_remove_one"}, X, None), ({"max_rows_per_unit": 2}, with_units, 0)):
        bars.told.clear()
        PrivateMeasureMechanism("optimal", depth=2, **parameters).fit(chunks_of(rows, 100), unit=unit)
        assert {told[1:] for told in bars.told if told[0] == "reading X"} == {(None, "")}


@pytest.mark.parametrize("chunk", [30, 100, 300])
@pytest.mark.parametrize(
    "estimator",
    [
        PrivatePCA(neighboring="add_or_remove_one", random_state=0),
        PrivateMeasureMechanism("optimal", depth=2, neighboring="add_or_remove_one", random_state=0),
        LatentFactorSynthesizer(neighboring="add_or_remove_one", random_state=0),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_bars_of_neighbors_are_the_same(monkeypatch, hasty, estimator, chunk, X, door):
    """301 rows of one more chunk, and what came out of the door the same: so must be all that bars say."""
    told, answers = [], None
    for rows in (X, np.vstack([X, X[:1]])):
        shown = Bars()
        monkeypatch.setattr(progress, "_bars", shown)
        if answers is not None:
            door.replay(answers)
        estimator.fit(chunks_of(rows, chunk))
        answers = answers or door.take()
        told.append(shown.told)
    assert told[0] == told[1]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_candidates_of_a_search_are_counted_in_any_number_of_threads(bars, X, n_jobs):
    grid = {"depth": [1, 2, 3]}
    PrivateSearchCV(PrivateMeasureMechanism("optimal"), grid, epsilon=8, n_jobs=n_jobs).fit(X)
    assert [told[2] for told in bars.told if told[0] == "candidates"] == ["0/3", "1/3", "2/3", "3/3"]
    assert not bars.open


def test_steps_of_fits_and_runs_of_audits_are_counted(bars, hasty, X):
    LatentFactorSynthesizer().fit(X)
    assert ("fit the latent factors", 20, "20/20") in bars.told
    SignedMeasureMechanism(400).fit(X[:, :2])
    assert "transport" in words(bars)
    audit_epsilon(lambda X: 0.0, np.zeros((1, 1)), np.ones((1, 1)), epsilon=1, n_trials=200)
    assert ("audit", 4, "4/4") in bars.told


def test_a_terminal_sees_a_bar_and_then_nothing_and_a_pipe_nothing_at_all(X):
    console = pytest.importorskip("rich.console")
    screen = io.StringIO()
    with show_progress(console.Console(file=screen, force_terminal=True, width=80)):
        with progress.task("work", total=3) as task:
            task.step()
            progress._bars.refresh()
        progress._bars.refresh()
    with show_progress(console.Console(file=(pipe := io.StringIO()))):
        PrivateMeasureMechanism().fit(X)
    assert pipe.getvalue().strip() == ""
    assert "work" in screen.getvalue()
    assert "1/3" in screen.getvalue()
    assert progress._bars is None


def test_blocks_within_blocks_and_in_threads_share_one_display():
    console = pytest.importorskip("rich.console")
    screen = console.Console(file=io.StringIO())
    entered, leave = threading.Event(), threading.Event()

    def other():
        with show_progress():
            entered.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    with show_progress(screen):
        first = progress._bars
        with show_progress():
            assert progress._bars is first
        thread.start()
        assert entered.wait(10)
    assert progress._bars is first
    leave.set()
    thread.join()
    assert progress._bars is None


def test_without_rich_the_way_out_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.console", None)
    with pytest.raises(ImportError, match="pip install rich"), show_progress():
        pass
    assert progress._n_users == 0


class Noted:
    """A callback that notes what it is told."""

    max_propagation_depth = None

    def __init__(self):
        self.begun, self.ended, self.given = [], [], []

    def setup(self, estimator, context):
        self.begun.append("setup")

    def teardown(self, estimator, context):
        self.ended.append("teardown")

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None):
        self.begun.append(context.task_name)
        self.given.append((X, y, metadata, fitted_estimator))

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None):
        self.ended.append(context.task_name)
        self.given.append((X, y, metadata, fitted_estimator))
        return True


@pytest.fixture
def noted():
    pytest.importorskip("sklearn.callback")
    return Noted()


def test_callbacks_are_told_of_releases_without_rows_and_are_not_saved(noted, X, tmp_path):
    model = PrivateMeasureMechanism("optimal", depth=2).set_callbacks(noted).fit(X)
    model.save(tmp_path / "model.skdp")
    assert not hasattr(load(tmp_path / "model.skdp"), "_skl_callbacks")
    assert (set(noted.given), noted.begun) == ({(None, None, None, None)}, ["setup", "fit", "counts of level 2"])
    assert noted.ended == ["counts of level 2", "fit", "teardown"]
    noted.ended.clear()
    refuses(ValueError, "depth", PrivateMeasureMechanism(depth=0).set_callbacks(noted).fit, X)
    assert noted.ended == ["teardown"]


def test_callbacks_are_told_of_parts_and_candidates_and_not_of_chunks(noted, X, capsys):
    low_dim = LowDimSynthesizer(1).set_callbacks(noted).fit(X)
    assert {"fit PrivatePCA", "moments"} <= set(noted.begun)
    assert noted.begun.count("setup") == noted.ended.count("teardown") == 1
    assert noted.begun.count("fit") == noted.ended.count("fit") == 3  # the whole and its two parts
    PrivateMeasureMechanism("optimal", depth=2, neighboring="add_or_remove_one").set_callbacks(noted).fit(chunks_of(X, 100))
    assert not [name for name in noted.begun if "reading" in name]
    for n_jobs in (1, 2):
        noted.begun.clear()
        search = PrivateSearchCV(PrivateMeasureMechanism("optimal"), {"depth": [1, 2, 3]}, epsilon=8, n_jobs=n_jobs)
        search.set_callbacks(noted).fit(X)
        assert {"candidates", "counts of level 1", "counts of level 2", "counts of level 3"} <= set(noted.begun)
    pytest.importorskip("rich")
    low_dim.set_callbacks(pytest.importorskip("sklearn.callback").ProgressBar()).fit(X)
    assert "LowDimSynthesizer" in capsys.readouterr().out
