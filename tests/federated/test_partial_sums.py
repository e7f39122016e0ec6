"""Sums of chunks that pass by once."""

import copy
import pickle
import shutil
from functools import partial
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from laws import in_threads
from parties import learned, numbers
from sklearn.base import clone

from skdpsynth import (
    LatentFactorSynthesizer,
    LowDimSynthesizer,
    PrivacyAccountant,
    PrivateMeasureMechanism,
    PrivatePCA,
    SignedMeasureMechanism,
)
from skdpsynth.federated import PartialSums, RemoteRows
from skdpsynth.persistence import save

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
HEAD = np.empty((0, 4))
ONCE = {
    "pmm-optimal": PrivateMeasureMechanism("optimal"),
    "pmm-paper": PrivateMeasureMechanism("paper", depth=6),
    "psmm": SignedMeasureMechanism(60),
    "pca-ball": PrivatePCA(2, center="public", max_norm=0.5),
    "pca-laplace": PrivatePCA(2, noise="laplace"),
}
each = pytest.mark.parametrize("name", ONCE)


def chunks(n_chunks=7):
    return iter(np.array_split(numbers(), n_chunks))


@each
@pytest.mark.parametrize("neighboring", ["replace_one", "add_or_remove_one"])
def test_chunks_that_passed_by_give_the_model_of_all_rows(name, neighboring):
    model = clone(ONCE[name]).set_params(random_state=7, neighboring=neighboring)
    if name == "pmm-optimal" and neighboring == "add_or_remove_one":
        model.set_params(depth=6)  # "auto" follows from the noisy number of rows
    sums = PartialSums(model, head=HEAD, n_samples=800)
    for chunk in chunks():
        sums.add(chunk)
    whole = learned(clone(model).fit(numbers()))
    pd.testing.assert_frame_equal(learned(clone(model).fit(sums)), whole, check_exact=True)


def test_sums_that_were_saved_apart_or_made_by_several_processes_add_up(tmp_path):
    model = clone(ONCE["psmm"]).set_params(random_state=7)
    saved, empty = PartialSums(model, head=HEAD), pickle.dumps(PartialSums(model, head=HEAD))
    for i, chunk in enumerate(chunks()):
        PartialSums(model, head=HEAD).add(chunk).save(tmp_path / f"{i}.zip")
        saved.add_saved(tmp_path / f"{i}.zip")
    parts = [pickle.loads(pickle.dumps(pickle.loads(empty).add(chunk))) for chunk in chunks(3)]
    assert [part.n_rows for part in parts] == [267, 267, 266]
    whole = learned(clone(model).fit(numbers()))
    for sums in (saved, parts[0] + parts[1] + parts[2]):
        assert sums.n_rows == 800
        pd.testing.assert_frame_equal(learned(clone(model).fit(sums)), whole, check_exact=True)


def test_rows_count_once_whatever_holds_them_and_equal_ones_of_two_sites_twice(tmp_path):
    parts = [PartialSums(ONCE["psmm"], head=HEAD).add(numbers()) for _ in range(3)]
    parts[0].save(tmp_path / "north.zip")
    shutil.copy(tmp_path / "north.zip", tmp_path / "south.zip")
    grown = pickle.loads(pickle.dumps(parts[0])).add(numbers())
    grown.save(tmp_path / "tuesday.zip")
    sums = PartialSums(ONCE["psmm"], head=HEAD).add_saved(tmp_path / "north.zip")
    for name in ("north.zip", "south.zip", "tuesday.zip"):
        with pytest.raises(ValueError, match=rf"^'{name}' must be sums of other rows, [^\n]*; add each once\.$"):
            sums.add_saved(tmp_path / name)
    for first, second in ((sums, parts[0]), (grown, parts[0]), (parts[0] + parts[1], parts[1])):
        with pytest.raises(ValueError, match="some of them are in these sums already"):
            first + second
    assert sums.n_rows == 800
    assert (parts[0] + parts[1] + parts[2]).n_rows == 2400


AGAIN, PAIR = r"asks for sums more than once, for .* after .*, and chunks pass by once", [0, 1]
UNKNOWN = "depend on how many rows there are; "


def sums_of(model, n_samples=None):
    return PartialSums(model, head=HEAD, n_samples=n_samples)


def psmm(n_cells, **parameters):
    return SignedMeasureMechanism(n_cells, **parameters)


def optimal(account=None, **parameters):
    return PrivateMeasureMechanism("optimal", accountant=account, **parameters)


def private(model):
    return clone(model).set_params(neighboring="add_or_remove_one")


REFUSED = [  # (call with an account, words)
    *(
        (lambda _, model=model, n=n: sums_of(model, n), AGAIN)
        for n in (None, 800)
        for model in (PrivateMeasureMechanism("adaptive"), PrivatePCA(2), LowDimSynthesizer(2), LatentFactorSynthesizer())
    ),
    (lambda _: sums_of(LatentFactorSynthesizer(dict.fromkeys(range(4), PAIR))), AGAIN),
    *((lambda _, model=model: sums_of(model), UNKNOWN + "give n_samples") for model in (optimal(), SignedMeasureMechanism())),
    *((lambda _, m=m: sums_of(private(m), 800), UNKNOWN + "state its sizes") for m in (optimal(), SignedMeasureMechanism())),
    (lambda shared: optimal(shared).fit(sums_of(optimal(), 801).add(numbers())), "must hold n_samples=801 rows in the end, but"),
    (lambda shared: psmm(60, accountant=shared).fit(sums_of(psmm(50)).add(numbers())), "but other sums were added up"),
    (lambda _: sums_of(psmm(60)) + sums_of(psmm(50)), "add up where they answer the same question"),
    (lambda _: sums_of(PrivateMeasureMechanism(depth=0)), "depth must be"),
    *(
        (lambda _, chunk=chunk: sums_of(psmm(60)).add(chunk), "^X must")
        for chunk in (numbers()[:, :3], numbers()[0], "rows", pd.DataFrame(numbers(), columns=list("abcd")))
    ),
    *(
        (
            lambda shared, answer=answer: optimal(shared).fit(RemoteRows(lambda _: answer, head=HEAD, n_samples=100)),
            r"^an answer must be a sum of `question.of.chunk.`, [^\n]*; add them up by \+\.$",
        )
        for answer in (None, [], (1, 2))
    ),
]


def test_what_does_not_add_up_is_refused_before_anything_is_spent(tmp_path):
    for call, words in REFUSED:
        shared = PrivacyAccountant(1.0)
        with pytest.raises((TypeError, ValueError), match=words):
            call(shared)
        assert shared.spent == 0
    path = tmp_path / "other.zip"
    for save_other in (sums_of(psmm(50)).save, partial(save, PrivatePCA())):
        save_other(path)
        with pytest.raises(ValueError, match=r"'other\.zip' must hold the sums that are added up here, counts of"):
            sums_of(psmm(60)).add_saved(path)


def test_finding_out_what_is_asked_spends_nothing_and_leaves_the_model_alone():
    accountant = PrivacyAccountant(1.0)
    model = SignedMeasureMechanism(60, accountant=accountant, random_state=np.random.RandomState(0))
    before = model.random_state.get_state()[1].copy()
    PartialSums(model, head=HEAD)
    assert accountant.spent == 0
    assert not hasattr(model, "measure_")
    assert np.array_equal(model.random_state.get_state()[1], before)


@each
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda sums: pickle.loads(pickle.dumps(sums))])
@pytest.mark.parametrize("n_rows", [0, 5])
def test_a_copy_goes_on_by_itself(name, copied, n_rows):
    sums, whole = (PartialSums(ONCE[name], head=HEAD, n_samples=800).add(numbers()[:n_rows]) for _ in range(2))
    twin = copied(sums).add(numbers()[5:8])
    assert (sums.n_rows, twin.n_rows) == (n_rows, n_rows + 3)
    assert np.array_equal(sums._sums.flat, whole._sums.flat)
    assert np.array_equal(twin._sums.flat, whole.add(numbers()[5:8])._sums.flat)


def test_sums_that_are_added_up_or_copied_while_another_thread_adds_are_of_one_time():
    """Where chunks have equal rows, each number is one of all rows."""
    sums, copies = PartialSums(ONCE["pmm-optimal"], head=HEAD, n_samples=800), []
    rows, other = np.full((20, 4), 0.4), PartialSums(ONCE["pmm-optimal"], head=HEAD, n_samples=800)

    def take():
        for _ in range(20):
            copies.extend([copy.copy(sums), pickle.loads(pickle.dumps(sums)), other + sums, sums + other])

    in_threads(lambda: [sums.add(rows) for _ in range(100)], take)
    assert all(np.asarray(each._sums.flat).max(initial=0) == each.n_rows for each in [*copies, sums])


def test_nothing_shows_how_many_rows_there_are():
    sums = PartialSums(SignedMeasureMechanism(60), head=HEAD).add(numbers())
    assert repr(sums) == f"PartialSums({sums.question.rule}, of a table of 4 columns)"
    assert "800" not in repr(sums)


def test_sums_whose_adding_was_interrupted_are_of_no_use_since_rows_could_count_twice(monkeypatch, tmp_path):
    model = PrivateMeasureMechanism("optimal", epsilon=1.0)
    sums = PartialSums(model, head=np.empty((0, 2)), n_samples=1000)
    with pytest.raises(ValueError, match="NaN"):
        sums.add(np.full((500, 2), np.nan))  # refused before any of it is in the sums
    sums.add(np.zeros((500, 2)))
    rule = type(sums.question.rule)
    add = rule.add

    def interrupted(self, statistic, chunk):
        add(self, statistic, chunk)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(rule, "add", interrupted)
        with pytest.raises(KeyboardInterrupt):
            sums.add(np.ones((500, 2)))
    whole = PartialSums(model, head=np.empty((0, 2)), n_samples=1000)
    whole.add(np.zeros((500, 2))).save(tmp_path / "half")
    taking = PartialSums(model, head=np.empty((0, 2)), n_samples=1000)
    with patch.object(type(taking._sums), "__add__", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        taking.add_saved(tmp_path / "half")
    assert taking.add_saved(tmp_path / "half").n_rows == 500  # all of a file, or nothing
    for use in (lambda: sums.add(np.ones((500, 2))), lambda: sums.save(tmp_path / "sums"), lambda: whole + sums, lambda: model.fit(sums)):
        with pytest.raises(ValueError, match="was interrupted"):
            use()
