"""Estimators inside estimators: their share, their noise, and what is refused before the charge."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from laws import refuses
from parts import Foreign, ForeignStream, greedy

from skdpsynth import LowDimSynthesizer, OnlineSynthesizer, PrivacyAccountant, PrivateMeasureMechanism, SignedMeasureMechanism
from skdpsynth.exceptions import BudgetExceededError, BudgetWarning, InsecureRandomnessWarning

pytestmark = pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.SmallSampleWarning")


def rows(n=400, d=4, seed=0):
    return np.random.default_rng(seed).beta(2, 5, size=(n, d))


class Greedy(PrivateMeasureMechanism):
    """A part of ours that asks for twice its share."""

    def _release(self, rows, plan, budget):
        greedy(budget, rows, 2 * self.epsilon)
        super()._release(rows, plan, budget)


@pytest.fixture(autouse=True)
def _forget():
    Foreign.seen.clear()


def test_a_synthesizer_that_cannot_plan_works_as_a_part():
    shared = PrivacyAccountant(3)
    model = LowDimSynthesizer(2, synthesizer=Foreign(), accountant=shared).fit(np.vstack([rows(), np.full((3, 4), 9.0)]))
    assert model.sample(20).shape == (20, 4)
    assert shared.spent == model.accountant_.spent == 1
    assert isinstance(model.synthesizer_, Foreign)
    assert {entry.name for entry in model.accountant_.ledger} == {"PrivatePCA", "Foreign"}


def test_a_part_that_cannot_plan_is_handed_the_whole_delta_of_its_share():
    model = OnlineSynthesizer(synthesizer=Foreign(), delta=1e-6).fit(rows())
    blocks = [entry.loss for entry in model.accountant_.ledger if entry.name.startswith("rows")]
    assert blocks
    assert {(loss.epsilon, loss.delta) for loss in blocks} == {(1, Fraction(1, 10**6))}


@pytest.mark.parametrize("part", [Foreign(factor=2), Greedy()], ids=["foreign", "ours"])
def test_a_part_cannot_spend_more_than_its_share(part):
    shared = PrivacyAccountant(10)
    model = LowDimSynthesizer(2, synthesizer=part, accountant=shared)
    with pytest.raises(BudgetExceededError):
        model.fit(rows())
    assert shared.spent == 1
    assert not hasattr(model, "synthesizer_")


@pytest.mark.parametrize("part", [Foreign(random_state=3), PrivateMeasureMechanism(random_state=3)], ids=["foreign", "ours"])
def test_parts_are_never_seeded_when_the_whole_is_not(part):
    with warnings.catch_warnings():
        warnings.simplefilter("error", InsecureRandomnessWarning)
        models = [LowDimSynthesizer(4, synthesizer=part).fit(rows()) for _ in range(2)]
    for model in models:
        parts = [part for entry in model.accountant_.ledger for part in model.accountant_.parts_of(entry)]
        assert {entry.randomness for entry in parts} == {"secure"}
    assert all(random_state is None for _, random_state, _ in Foreign.seen)
    assert not np.array_equal(models[0].sample(400, random_state=0), models[1].sample(400, random_state=0))


@pytest.mark.parametrize("part", [Foreign(), PrivateMeasureMechanism(epsilon=7, random_state=8)], ids=["foreign", "ours"])
def test_parts_of_a_seeded_whole_are_seeded_and_say_so_and_neither_seed_nor_open_budget_stays_in_them(part):
    before = dict(vars(part))
    models = [LowDimSynthesizer(2, synthesizer=part, random_state=5, accountant=PrivacyAccountant(2)).fit(rows()) for _ in range(2)]
    for model in models:
        entries = [entry for whole in model.accountant_.ledger for entry in model.accountant_.parts_of(whole)]
        assert {entry.randomness for entry in entries} == {"seeded"}
        assert model.synthesizer_.random_state is model.synthesizer_.accountant is None
        with pytest.raises(BudgetExceededError):
            model.accountant_.spend(0.1, name="more")
    np.testing.assert_array_equal(models[0].sample(50, random_state=0), models[1].sample(50, random_state=0))
    assert vars(part) == before  # what was given is as it was


REFUSED = [  # (part, words, tables that it was tried on); of a stream the open block holds rows, which would be published with the whole
    (Foreign(factor=-1), r"scale|number|factor|loss|epsilon", [100]),  # made up rows, for it cannot plan
    *((stream, "must be no stream", []) for stream in (ForeignStream(), OnlineSynthesizer())),
    *((PrivateMeasureMechanism(*given, depth=depth), "must be", []) for given, depth in (((), -1), (("optimal",), 25))),
    *((part, "must be", []) for part in (SignedMeasureMechanism(0), SignedMeasureMechanism(metric="x"))),
]


@pytest.mark.parametrize(("part", "words", "seen"), REFUSED)
def test_what_a_part_refuses_is_refused_before_the_charge(part, words, seen, monkeypatch):
    monkeypatch.setattr(type(part), "_release", lambda *_: pytest.fail("it was fitted"), raising=False)
    shared = PrivacyAccountant(1)
    refuses(ValueError, words, LowDimSynthesizer(2, synthesizer=part, accountant=shared).fit, rows())
    assert shared.spent == 0
    assert [n for n, _, _ in Foreign.seen] == seen


@pytest.mark.parametrize("given", [{"epsilon": 3.0}, {"delta": 1e-6}, {"neighboring": "add_or_remove_one"}])
def test_a_budget_that_a_part_was_given_is_said_to_be_unused(given):
    name, value = next(iter(given.items()))
    with pytest.warns(BudgetWarning, match=f"its own {name}={value!r} is not used; give that to OnlineSynthesizer"):
        model = OnlineSynthesizer(synthesizer=PrivateMeasureMechanism(**given)).fit(rows())
    assert model.accountant_.spent == 1
