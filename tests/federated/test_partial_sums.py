"""Sums of chunks that pass by once."""

import pickle
import shutil

import numpy as np
import pandas as pd
import pytest
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


def test_sums_that_were_saved_apart_add_up(tmp_path):
    model = clone(ONCE["psmm"]).set_params(random_state=7)
    for i, chunk in enumerate(chunks()):
        PartialSums(model, head=HEAD).add(chunk).save(tmp_path / f"{i}.zip")
    sums = PartialSums(model, head=HEAD)
    for i in range(7):
        sums.add_saved(tmp_path / f"{i}.zip")
    assert sums.n_rows == 800
    pd.testing.assert_frame_equal(learned(clone(model).fit(sums)), learned(model.fit(numbers())), check_exact=True)


def test_sums_of_several_processes_add_up():
    model = clone(ONCE["psmm"]).set_params(random_state=7)
    parts = [pickle.loads(pickle.dumps(PartialSums(model, head=HEAD).add(chunk))) for chunk in chunks(3)]
    sums = parts[0] + parts[1] + parts[2]
    assert [part.n_rows for part in parts] == [267, 267, 266]
    pd.testing.assert_frame_equal(learned(clone(model).fit(sums)), learned(model.fit(numbers())), check_exact=True)


def summed(chunk=None, n_copies=1):
    """Return sums of copies of a chunk, each by itself."""
    chunk = numbers() if chunk is None else chunk
    return [PartialSums(ONCE["psmm"], head=HEAD).add(chunk) for _ in range(n_copies)]


def test_a_file_of_sums_counts_once_whatever_its_name(tmp_path):
    (part,) = summed()
    part.save(tmp_path / "north.zip")
    shutil.copy(tmp_path / "north.zip", tmp_path / "south.zip")
    sums = PartialSums(ONCE["psmm"], head=HEAD).add_saved(tmp_path / "north.zip")
    for name in ("north.zip", "south.zip"):
        with pytest.raises(ValueError, match=rf"^'{name}' must be sums of other rows, [^\n]*; add each once\.$"):
            sums.add_saved(tmp_path / name)
    assert sums.n_rows == 800
    with pytest.raises(ValueError, match="PartialSums that add up must be sums of other rows"):
        sums + part


def test_sums_that_grew_do_not_add_to_what_they_were(tmp_path):
    (part,) = summed()
    part.save(tmp_path / "monday.zip")
    part.add(numbers())
    part.save(tmp_path / "tuesday.zip")
    sums = PartialSums(ONCE["psmm"], head=HEAD).add_saved(tmp_path / "monday.zip")
    with pytest.raises(ValueError, match="some of them are in these sums already"):
        sums.add_saved(tmp_path / "tuesday.zip")
    with pytest.raises(ValueError, match="some of them are in these sums already"):
        pickle.loads(pickle.dumps(part)).add(numbers()) + part


def test_what_was_added_up_does_not_add_to_its_parts(tmp_path):
    parts = summed(n_copies=3)
    (parts[0] + parts[1]).save(tmp_path / "both.zip")
    sums = PartialSums(ONCE["psmm"], head=HEAD).add_saved(tmp_path / "both.zip")
    with pytest.raises(ValueError, match="some of them are in these sums already"):
        sums + parts[1]
    assert (sums + parts[2]).n_rows == 2400


def test_equal_sums_of_two_sites_add_up(tmp_path):
    for i, part in enumerate(summed(n_copies=2)):
        part.save(tmp_path / f"{i}.zip")
    sums = PartialSums(ONCE["psmm"], head=HEAD)
    assert sums.add_saved(tmp_path / "0.zip").add_saved(tmp_path / "1.zip").n_rows == 1600


def test_copies_made_before_the_first_chunk_add_up():
    empty = pickle.dumps(PartialSums(ONCE["psmm"], head=HEAD))
    parts = [pickle.loads(empty).add(chunk) for chunk in chunks(3)]
    assert (parts[0] + parts[1] + parts[2]).n_rows == 800


def test_sums_of_another_question_do_not_add_up(tmp_path):
    path = tmp_path / "other.zip"
    PartialSums(SignedMeasureMechanism(50), head=HEAD).save(path)
    sums = PartialSums(ONCE["psmm"], head=HEAD)
    for thing in (None, PrivatePCA()):
        if thing is not None:
            save(thing, path)
        with pytest.raises(ValueError, match="add up where they answer the same question"):
            sums + PartialSums(SignedMeasureMechanism(50), head=HEAD)
        with pytest.raises(ValueError, match=r"'other\.zip' must hold the sums that are added up here, counts of"):
            sums.add_saved(path)


@pytest.mark.parametrize(
    "model",
    [
        PrivateMeasureMechanism("adaptive"),
        PrivatePCA(2),
        LowDimSynthesizer(2),
        LatentFactorSynthesizer(),
        LatentFactorSynthesizer({column: [0, 1] for column in range(4)}),
    ],
)
@pytest.mark.parametrize("n_samples", [None, 800])
def test_models_that_ask_again_are_refused(model, n_samples):
    with pytest.raises(ValueError, match=r"asks for sums more than once, for .* after .*, and chunks pass by once"):
        PartialSums(model, head=HEAD, n_samples=n_samples)


@pytest.mark.parametrize("model", [ONCE["pmm-optimal"], SignedMeasureMechanism()])
def test_a_question_that_depends_on_an_unknown_number_of_rows_is_refused(model):
    with pytest.raises(ValueError, match="depends on how many there are; give n_samples"):
        PartialSums(model, head=HEAD)
    private = clone(model).set_params(neighboring="add_or_remove_one")
    with pytest.raises(ValueError, match="depends on how many there are; state its sizes"):
        PartialSums(private, head=HEAD, n_samples=800)


def test_another_number_of_rows_than_was_said_is_refused_before_anything_is_spent():
    accountant = PrivacyAccountant(1.0)
    model = clone(ONCE["pmm-optimal"])
    sums = PartialSums(model, head=HEAD, n_samples=801).add(numbers())
    with pytest.raises(ValueError, match="must hold n_samples=801 rows in the end, but hold another number"):
        model.set_params(accountant=accountant).fit(sums)
    assert accountant.spent == 0


def test_sums_for_another_model_are_refused_before_anything_is_spent():
    accountant = PrivacyAccountant(1.0)
    sums = PartialSums(SignedMeasureMechanism(50), head=HEAD).add(numbers())
    with pytest.raises(ValueError, match="but other sums were added up"):
        SignedMeasureMechanism(60, accountant=accountant).fit(sums)
    assert accountant.spent == 0


def test_finding_out_what_is_asked_spends_nothing_and_leaves_the_model_alone():
    accountant = PrivacyAccountant(1.0)
    model = SignedMeasureMechanism(60, accountant=accountant, random_state=np.random.RandomState(0))
    before = model.random_state.get_state()[1].copy()
    PartialSums(model, head=HEAD)
    assert accountant.spent == 0
    assert not hasattr(model, "measure_")
    assert np.array_equal(model.random_state.get_state()[1], before)


def test_what_a_parameter_forbids_is_said_at_once():
    with pytest.raises(ValueError, match="depth must be"):
        PartialSums(PrivateMeasureMechanism(depth=0), head=HEAD)


@pytest.mark.parametrize("chunk", [numbers()[:, :3], numbers()[0], "rows", pd.DataFrame(numbers(), columns=list("abcd"))])
def test_a_chunk_of_another_form_is_refused(chunk):
    sums = PartialSums(ONCE["psmm"], head=HEAD)
    with pytest.raises((TypeError, ValueError), match=r"^X must"):
        sums.add(chunk)
    assert sums.n_rows == 0


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
    for use in (lambda: sums.add(np.ones((500, 2))), lambda: sums.save(tmp_path / "sums"), lambda: whole + sums, lambda: model.fit(sums)):
        with pytest.raises(ValueError, match="was interrupted"):
            use()


@pytest.mark.parametrize("answer", [None, [], (1, 2)], ids=str)
def test_an_answer_that_is_no_sum_is_refused_in_one_sentence(answer):
    rows = RemoteRows(lambda question: answer, head=np.empty((0, 2)), n_samples=100)
    with pytest.raises(TypeError, match=r"^an answer must be a sum of `question.of.chunk.`, [^\n]*; add them up by \+\.$"):
        PrivateMeasureMechanism(epsilon=1.0).fit(rows)
