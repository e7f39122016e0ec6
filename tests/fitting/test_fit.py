"""One final fit: all or nothing, nothing of the fit before, warnings at the right moment and in the caller's name."""

import pickle
import sys
import warnings
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import skdpsynth
from skdpsynth import LowDimSynthesizer, OnlineSynthesizer, PrivacyAccountant, PrivateMeasureMechanism, PrivatePCA, SignedMeasureMechanism
from skdpsynth.exceptions import BudgetWarning, InsecureRandomnessWarning, SmallSampleWarning
from skdpsynth.fitting import Facts, Plan, PrivateEstimator
from skdpsynth.privacy import DiscreteLaplace, PrivacyLoss

PACKAGE = Path(skdpsynth.__file__).parent
FINAL = {"fit", "_fit", "_run", "_blank"}
ESTIMATORS = {
    "PMM": PrivateMeasureMechanism(),
    "PMM-optimal": PrivateMeasureMechanism("optimal"),
    "PMM-paper": PrivateMeasureMechanism("paper"),
    "PSMM": SignedMeasureMechanism(50),
    "PCA": PrivatePCA(2),
    "LowDim": LowDimSynthesizer(2),
    "LowDim-psmm": LowDimSynthesizer(2, synthesizer="psmm"),
}
each_estimator = pytest.mark.parametrize("estimator", ESTIMATORS.values(), ids=ESTIMATORS)
RELATIONS = ("replace_one", "add_or_remove_one")


def rows(n=300, d=3, seed=0):
    return np.random.default_rng(seed).beta(2, 5, size=(n, d))


def estimators_below(cls):
    ours = [child for child in cls.__subclasses__() if child.__module__.startswith("skdpsynth.")]
    return [*ours, *(below for child in ours for below in estimators_below(child))]


def test_no_estimator_overrides_fit_and_only_the_base_opens_its_budget():
    found = estimators_below(PrivateEstimator)
    assert {PrivatePCA, PrivateMeasureMechanism, SignedMeasureMechanism} <= {*found}
    assert {cls: vars(cls).keys() & {*FINAL, "_open_account"} for cls in found if vars(cls).keys() & {*FINAL, "_open_account"}} == {}
    assert PrivateEstimator.fit.__final__


def test_what_the_caller_set_on_the_object_survives_a_refit():
    pca = PrivatePCA(2).set_output(transform="pandas")
    pca.note = "mine"
    for _ in range(2):
        pca.fit(rows())
        assert type(pca.transform(rows())).__name__ == "DataFrame"
        assert pca.note == "mine"


# ---- all or nothing


class _Interrupt:
    """Raises KeyboardInterrupt at one line of the package: the first time that it is reached."""

    def __init__(self, at=None):
        self.at, self.passed = at, []

    def __enter__(self):
        self.before = sys.gettrace()
        sys.settrace(self._enter)
        return self

    def __exit__(self, *_):
        sys.settrace(self.before)

    def _enter(self, frame, event, argument):
        return self._line if frame.f_code.co_filename.startswith(str(PACKAGE)) else None

    def _line(self, frame, event, argument):
        if event == "line":
            place = frame.f_code.co_filename, frame.f_lineno
            self.passed.append(place)
            if place == self.at:
                self.at = None
                raise KeyboardInterrupt
        return self._line


@pytest.mark.parametrize(
    ("strategy", "neighboring"), [pytest.param("optimal", RELATIONS[0], marks=pytest.mark.must), ("adaptive", RELATIONS[1])]
)
def test_an_interrupt_at_any_line_leaves_the_object_as_it_was_and_the_ledger_never_below_what_was_drawn(strategy, neighboring, monkeypatch):
    """Each line of the package that a fit passes, or every fourth of a longer fit, interrupted once: some hundreds of fits."""
    X, drawn = rows(300, 2), []
    real = DiscreteLaplace.sample

    def draw(self, size, rng):
        drawn.append(self)
        return real(self, size, rng)

    monkeypatch.setattr(DiscreteLaplace, "sample", draw)
    shared = PrivacyAccountant(10**6, neighboring=neighboring)
    # A seed, so that each fit passes the same lines.
    model = PrivateMeasureMechanism(strategy, neighboring=neighboring, accountant=shared, random_state=0).fit(X)
    with _Interrupt() as trace:
        model.fit(X)
    places = list(dict.fromkeys(trace.passed))
    assert len(places) > 200
    places = places if strategy == "optimal" else places[::4]
    done = 0
    for place in places:
        before, spent = dict(vars(model)), shared.spent
        drawn.clear()
        with pytest.raises(KeyboardInterrupt), _Interrupt(place):
            model.fit(X)
        charged = shared.spent - spent
        assert charged in (0, 1)
        assert charged or not drawn
        after = vars(model)
        if after["accountant_"] is before["accountant_"]:
            assert after.keys() == before.keys()
            assert all(after[name] is before[name] for name in before)
        else:  # the interrupt came when all was done
            assert charged == after["accountant_"].spent == 1
            done += 1
    assert done <= 5
    assert model.fit(X).accountant_.spent == 1  # no lock is left held


# ---- warnings and errors about numbers


KNOWN_BEFORE = {
    "few rows": (PrivateMeasureMechanism(), rows(50), SmallSampleWarning),
    "few rows, PSMM": (SignedMeasureMechanism(), rows(50), SmallSampleWarning),
    "many columns": (PrivateMeasureMechanism(), rows(1000, 30), SmallSampleWarning),
    "few rows for moments": (PrivatePCA(epsilon=0.1), rows(50, 10), SmallSampleWarning),
    "few rows in a subspace": (LowDimSynthesizer(2), rows(50, 5), SmallSampleWarning),
    "a seed": (PrivateMeasureMechanism(random_state=1), rows(), InsecureRandomnessWarning),
    "a seed, LowDim": (LowDimSynthesizer(2, random_state=1), rows(), InsecureRandomnessWarning),
    "a large epsilon": (PrivateMeasureMechanism(epsilon=21), rows(), BudgetWarning),
    "a large delta": (PrivatePCA(delta=0.01), rows(), BudgetWarning),
    "delta 0 in many columns": (PrivatePCA(), rows(5000, 60), BudgetWarning),
}


@pytest.mark.parametrize(("estimator", "X", "category"), KNOWN_BEFORE.values(), ids=KNOWN_BEFORE)
def test_a_warning_that_is_known_before_the_charge_costs_nothing_when_it_is_an_error(estimator, X, category):
    shared = PrivacyAccountant(100, delta=0.1)
    model = clone(estimator).set_params(accountant=shared)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(category):
            model.fit(X)
    assert shared.spent == 0
    assert not hasattr(model, "accountant_")


@pytest.mark.parametrize(
    "estimator", [PrivateMeasureMechanism(bounds=(0, 1)), SignedMeasureMechanism(20, bounds=(0, 1))], ids=["PMM", "PSMM"]
)
def test_a_warning_that_follows_from_released_numbers_comes_when_the_fit_is_done(estimator):
    """Under add/remove the number of rows is private: 3 rows are few. Seeded: noise of scale 4 hides that in one of 200 fits."""
    shared = PrivacyAccountant(5, neighboring="add_or_remove_one")
    model = clone(estimator).set_params(epsilon=5, neighboring="add_or_remove_one", accountant=shared, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", InsecureRandomnessWarning)
        with pytest.raises(SmallSampleWarning):
            model.fit(rows(3, 2))
    assert shared.spent == 5
    assert model.sample(7).shape == (7, 2)


CALLS = {
    "direct": lambda: PrivateMeasureMechanism(bounds=(0, 1)).fit(rows(50)),
    "clone": lambda: clone(PrivateMeasureMechanism(bounds=(0, 1), accountant=PrivacyAccountant(1))).fit(rows(50)),
    "part": lambda: LowDimSynthesizer(4, bounds=(0, 1)).fit(rows(50, 4)),  # no reducer: all is the part's
    "pipeline": lambda: make_pipeline(FunctionTransformer(), PrivateMeasureMechanism(bounds=(0, 1))).fit(rows(50)),
    "transformer": lambda: PrivatePCA(1, epsilon=0.1, bounds=(0, 1)).fit_transform(rows(50, 10)),
    "search": lambda: GridSearchCV(PrivateMeasureMechanism(bounds=(0, 1)), {"strategy": ["optimal", "paper"]}, cv=2).fit(rows(50)),
    "released": lambda: PrivateMeasureMechanism(bounds=(0, 1), neighboring="add_or_remove_one", epsilon=5).fit(rows(3)),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_warnings_name_the_line_of_the_call_through_whatever_scikit_learn_puts_between(call):
    with pytest.warns(SmallSampleWarning) as caught:  # the oldest scipy and scikit-learn have warnings of their own
        call()
    places = {(Path(each.filename).name, each.lineno) for each in caught if each.category is SmallSampleWarning}
    assert places == {(Path(__file__).name, call.__code__.co_firstlineno)}


# ---- what a plan may know, and what stays of it


class Toy(PrivateMeasureMechanism):
    """PMM that tells what its plan was made from, and refuses a depth of 3."""

    def _plan(self, facts):
        Toy.seen.append(facts)
        if self.depth == 3:
            raise ValueError("depth must not be 3.")
        return super()._plan(facts)


@pytest.fixture
def seen():
    Toy.seen = []
    return Toy.seen


def test_a_plan_for_a_private_number_of_rows_is_made_before_the_charge_for_one_and_then_for_the_noisy_one_and_what_is_left(seen):
    shared = PrivacyAccountant(2, neighboring="add_or_remove_one")
    with pytest.raises(ValueError, match="must not be 3"):
        Toy(depth=3, accountant=shared, neighboring="add_or_remove_one").fit(rows())
    assert shared.spent == 0
    model = Toy(accountant=shared, neighboring="add_or_remove_one").fit(rows())
    assert [facts.n_samples for facts in seen] == [1, 1, model.n_samples_]
    assert [facts.epsilon for facts in seen[1:]] == [Fraction(95, 100)] * 2
    assert seen[2].count_error > 0
    seen.clear()
    for seed in (0, 1):  # equal public numbers: equal facts, so equal plans
        Toy().fit(rows(seed=seed))
    first, second = seen
    assert replace(first, box=None) == replace(second, box=None)
    assert str(first.box) == str(second.box)
    assert not any(isinstance(value, np.ndarray) for value in vars(first).values())


@each_estimator
def test_nothing_of_the_plan_or_the_budget_stays_on_the_object(estimator):
    fitted = clone(estimator).fit(rows(500, 4))
    found, waiting = set(), [fitted]
    while waiting:
        value = waiting.pop()
        found.add(type(value).__module__)
        assert not isinstance(value, Facts | Plan)
        waiting += list(vars(value).values()) if hasattr(value, "__dict__") and not isinstance(value, type) else []
        waiting += list(value) if isinstance(value, list | tuple) else list(value.values()) if isinstance(value, dict) else []
    assert "skdpsynth.privacy._accountant" in found  # it did look
    assert not {name for name in found if name.startswith("skdpsynth.fitting")}
    assert b"skdpsynth.fitting" not in pickle.dumps(fitted)


# What follows a fit was planned by nobody.


def streams_account(shared=None):
    """Of a stream whose budget, with a delta, is open and not yet spent."""
    stream = OnlineSynthesizer(synthesizer=PrivateMeasureMechanism(), epsilon=3.0, delta=1e-6, accountant=shared)
    return stream.partial_fit(np.zeros((1, 2))).accountant_


ACCOUNTS = {
    "own": streams_account,
    "shared": lambda: streams_account(PrivacyAccountant(5, 1e-6)),
    "pickled": lambda: pickle.loads(pickle.dumps(streams_account().record())).reopened(),
}


@pytest.mark.parametrize("account", ACCOUNTS.values(), ids=ACCOUNTS)
def test_who_spends_from_the_account_of_a_stream_is_held_to_the_order_of_kinds(account):
    """Else whoever holds a fitted stream could wait for the moment where Gaussian noise has told most."""
    account = account()
    account.spend(PrivacyLoss(rho=0.01, gaussian=True), name="moments")
    before = account.spent
    with pytest.raises(ValueError, match="may not follow losses in rho of another kind"):
        account.spend(0.1, name="late")
    assert account.spent == before
