"""One final fit: all or nothing, nothing of the fit before, its budget and sizes, and warnings in the name of the caller."""

import math
import pickle
import subprocess
import sys
import warnings
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from internals import NumberOfRows
from laws import refuses
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import skdpsynth
from skdpsynth import LowDimSynthesizer, OnlineSynthesizer, PrivacyAccountant, PrivateMeasureMechanism, PrivatePCA, SignedMeasureMechanism
from skdpsynth.domain import Box
from skdpsynth.exceptions import BudgetExceededError, BudgetWarning, InsecureRandomnessWarning, SmallSampleWarning
from skdpsynth.fitting import Budget, Facts, Plan, PrivateEstimator
from skdpsynth.privacy import DiscreteLaplace, PrivacyLoss, SeededBits, mechanism, rho_of_epsilon
from skdpsynth.statistics import Histogram, Query, Sensitivity

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
    refuses(ValueError, "must not be 3", Toy(depth=3, accountant=shared, neighboring="add_or_remove_one").fit, rows())
    assert shared.spent == 0
    model = Toy("optimal", accountant=shared, neighboring="add_or_remove_one").fit(rows())
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


def streams_account(shared=None):
    """Of a stream whose budget, with a delta, is open and not yet spent."""
    stream = OnlineSynthesizer(synthesizer=PrivateMeasureMechanism(), epsilon=3.0, delta=1e-6, accountant=shared)
    return stream.partial_fit(np.zeros((1, 2))).accountant_


ACCOUNTS = {
    "own": streams_account,
    "shared": lambda: streams_account(PrivacyAccountant(5, 1e-6)),
    "pickled": lambda: pickle.loads(pickle.dumps(streams_account().record())).reopen(),
}


@pytest.mark.parametrize("account", ACCOUNTS.values(), ids=ACCOUNTS)
def test_who_spends_from_the_account_of_a_stream_is_held_to_the_order_of_kinds(account):
    """Else whoever holds a fitted stream could wait for the moment where Gaussian noise has told most."""
    account = account()
    account.spend(PrivacyLoss(rho=0.01, gaussian=True), name="moments")
    before = account.spent
    refuses(ValueError, "may not follow losses in rho of another kind", account.spend, 0.1, name="late")
    assert account.spent == before


def budget_of(epsilon, neighboring="replace_one", seed=0):
    return Budget(PrivacyAccountant(epsilon, neighboring=neighboring), SeededBits(seed))


def histogram(neighboring="replace_one"):
    return Histogram(np.array([5, 0, 7])).query(neighboring)


OTHER_CHANGE = r"The noise of 'counts' was made for Sensitivity\(.*\), but the query has Sensitivity\(.*\); plan it anew"
TWO = np.array([1, 2])
OTHER_UNIT = "under 'replace_one', but this budget is under 'add_or_remove_one'"
REFUSED = {  # (query, relation of the budget, loss, error, words); noise is made for the change of a histogram
    "larger change": (Query(TWO, Sensitivity("replace_one", 16, 32, 2)), "replace_one", 1, ValueError, OTHER_CHANGE),
    "smaller change": (Query(TWO, Sensitivity("replace_one", 1, 1, 1)), "replace_one", 1, ValueError, OTHER_CHANGE),
    "other change": (Query(TWO, Sensitivity("add_or_remove_one", 2, 2, 1)), "replace_one", 1, ValueError, OTHER_CHANGE),
    "other relation": (histogram(), "add_or_remove_one", 1, ValueError, OTHER_UNIT),
    "more than there is": (histogram(), "replace_one", 10.5, BudgetExceededError, "counts"),
}


@pytest.mark.parametrize(("query", "relation", "loss", "error", "words"), REFUSED.values(), ids=REFUSED)
def test_an_answer_that_its_noise_or_its_budget_does_not_cover_is_refused_before_the_charge(query, relation, loss, error, words):
    """Also for a smaller change: noise and loss are made from the change of the query, or not at all."""
    budget = budget_of(10, relation)
    refuses(error, words, budget.answer, query, mechanism(Histogram.sensitivity("replace_one"), PrivacyLoss(loss)), "counts")
    assert budget.accountant.ledger == ()


def bought(n_samples, facts, budget, rho=None):
    """Return the number of rows, its error, and the facts of the rest of the budget."""
    share, facts, _ = NumberOfRows().reserve(facts, rho)
    facts, _ = NumberOfRows().buy(SimpleNamespace(n_samples=n_samples), facts, share, budget)
    return facts.n_samples, facts.count_error, facts


@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(1, 3), math.inf])
def test_the_private_number_of_rows_takes_a_twentieth_and_leaves_the_rest(epsilon):
    budget = budget_of(epsilon, "add_or_remove_one")
    number, error, rest = bought(100, Facts(epsilon, Fraction(0), "add_or_remove_one", None, 2), budget)
    assert rest.epsilon == budget.accountant.remaining
    if epsilon == math.inf:
        assert (number, error, rest.epsilon) == (100, 0, math.inf)
        return
    assert budget.accountant.spent == epsilon / 20
    assert rest.epsilon + epsilon / 20 == epsilon
    assert error == pytest.approx(float(20 / epsilon), rel=0.01)  # the mean absolute value of Laplace noise is its scale
    assert number != 100  # with this seed


def test_a_released_number_of_rows_is_at_least_one():
    facts = Facts(Fraction(1), Fraction(0), "add_or_remove_one", None, 2)
    assert min(bought(0, facts, budget_of(1, "add_or_remove_one", seed))[0] for seed in range(10)) == 1


def test_of_a_budget_in_rho_the_number_of_rows_has_gaussian_noise_and_less_of_it():
    """A twentieth of rho, and not of epsilon: the rest is larger, too."""
    facts = Facts(Fraction(1), Fraction(1, 10**6), "add_or_remove_one", None, 2)
    accountant = PrivacyAccountant(1, 1e-6, neighboring="add_or_remove_one")
    _, error, rest = bought(100, facts, Budget(accountant, SeededBits(0)), "gaussian")
    assert accountant.ledger[0].noise == "DiscreteGaussian"
    assert error == pytest.approx(float(accountant.ledger[0].scale[0]))
    assert error < 20.5  # Laplace noise of a twentieth of epsilon has a deviation of 28
    assert rest.epsilon > Fraction(95, 100)
    accountant.spend(PrivacyLoss(rho=rho_of_epsilon(rest.epsilon, 1e-6, gaussian=True), gaussian=True), name="the rest")
    assert 1 - 1e-6 <= accountant.spent <= 1


TOO_LARGE = {
    "PMM, optimal": (PrivateMeasureMechanism("optimal", depth=25), (1000, 2), "depth must be at most 24"),
    "PMM, paper": (PrivateMeasureMechanism("paper", depth=26), (1000, 2), "depth must be at most 24"),
    "PCA": (PrivatePCA(), (10, 10_000), "X must have at most 4000 features, got 10000"),
    "PCA inside": (LowDimSynthesizer(2), (10, 10_000), "X must have at most 4000 features, got 10000"),
    "PSMM": (SignedMeasureMechanism(150_000), (50, 1000), "from 1 to 33554, got 150000; .* with solver='highs'"),
    "PSMM inside": (LowDimSynthesizer(500, synthesizer=SignedMeasureMechanism(150_000)), (50, 600), "from 1 to 67108"),
}


@pytest.mark.parametrize(("estimator", "shape", "message"), TOO_LARGE.values(), ids=TOO_LARGE)
def test_a_size_beyond_memory_is_refused_before_the_charge(estimator, shape, message):
    shared = PrivacyAccountant(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match=message) as caught:
            estimator.set_params(accountant=shared).fit(np.zeros(shape))
    assert shared.spent == 0
    assert str(caught.value).count(". ") == 0


GROWTH = """
import resource, warnings
import numpy as np
import scipy.linalg
from skdpsynth import *
warnings.simplefilter("ignore")
PrivatePCA().fit(np.zeros((5, 3)))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
{fit}
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


IN_A_SUBSPACE = "LowDimSynthesizer(150, synthesizer=SignedMeasureMechanism(20)).fit(np.random.default_rng(0).random((50, 200)))"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ru_maxrss is in kB on Linux")
@pytest.mark.parametrize(
    ("fit", "most"),
    [
        ("PrivateMeasureMechanism('optimal', depth=19).fit(np.zeros((100, 2)))", 96 * 2**19),  # 1.6 GB at depth 24
        pytest.param("PrivateMeasureMechanism('paper', depth=19).fit(np.zeros((100, 2)))", 112 * 2**19, marks=pytest.mark.nightly),
        pytest.param("PrivatePCA().fit(np.zeros((10, 500)))", 165 * 500**2, marks=pytest.mark.nightly),  # 2.6 GB at 4000 features
        # All sets of directions that span a normal, times their coordinates, would be 90 MB times the work space of the decomposition.
        pytest.param(IN_A_SUBSPACE, 700 * 2**20, marks=pytest.mark.nightly),
    ],
    ids=["PMM-optimal", "PMM-paper", "PCA", "LowDim"],
)
def test_memory_grows_by_no_more_than_is_stated(fit, most):
    """Peak of a process of its own; 16 MB are the process's."""
    done = subprocess.run([sys.executable, "-c", GROWTH.format(fit=fit)], capture_output=True, text=True, check=True)
    assert int(done.stdout) <= most + 2**24


def test_the_least_epsilon_is_served_on_a_coarser_grid_or_by_the_kind_of_noise_that_can():
    """The sum of the rows on a fine grid would have noise of a scale that cannot be drawn; pure noise of so small a share passes 62 bits
    on every grid, while Gaussian noise, whose scale grows with d and not with d^2, does not."""
    least, delta = Fraction(1, 10**9), Fraction(1, 10**6)
    for n_features in (1, 100, 500, 2000):
        facts = Facts(least, Fraction(0), "replace_one", 10**6, n_features, Box(np.zeros(n_features), np.ones(n_features)))
        assert PrivatePCA(epsilon=1e-9)._plan(facts).ball.box.bits < 16
    for n_samples in (20, 10**6):
        facts = Facts(least, delta, "replace_one", n_samples, 4000, Box(np.zeros(4000), np.ones(4000)))
        assert PrivatePCA(epsilon=1e-9, delta=1e-6)._plan(facts).kind == "gaussian"
        with pytest.raises(ValueError, match="epsilon is too small for 4000 features"):
            PrivatePCA(epsilon=1e-9, delta=1e-6, noise="matrix_laplace")._plan(facts)
