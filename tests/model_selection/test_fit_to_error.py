"""fit_to_error: what it charges, what decides, and what it refuses."""

import math
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
from internals import _Search
from laws import kept_beside_answers, refuses
from sklearn.base import clone

from skdpsynth import PrivacyAccountant, PrivatePCA, load
from skdpsynth.auditing import audit_epsilon, worst_case_neighbors
from skdpsynth.exceptions import BoundsWarning, BudgetExceededError, BudgetWarning, InsecureRandomnessWarning
from skdpsynth.fitting import PrivateEstimator
from skdpsynth.model_selection import fit_to_error
from skdpsynth.privacy import epsilon_of_rho
from skdpsynth.report import card
from skdpsynth.synthesis import LatentFactorSynthesizer, OnlineSynthesizer, PrivateMeasureMechanism

pytestmark = [
    pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.SmallSampleWarning"),
    pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.InsecureRandomnessWarning"),
]
RELATIONS = pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
SCHEMA = {0: [0, 1, 2], 1: [0, 1]}


def rows(n=2000, d=1, seed=0):
    return np.random.default_rng(seed).beta(2, 5, size=(n, d))


def table(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.integers(0, 3, n), rng.integers(0, 2, n)])


WIDE = {place: [0, 1] for place in range(12)}


def wide_table(n=300):
    return np.random.default_rng(0).integers(0, 2, (n, 12))


def points(**params):
    return PrivateMeasureMechanism(**{"bounds": (0, 1), **params})


def inverse_epsilon(model):
    """An error that hardly depends on the rows, but enough not to be public. Without simulations rounds follow a power law, faster."""
    assert model.random_state is None
    return 1 / float(model.epsilon) + 1e-9 * float(np.asarray(model.sample(50, random_state=0), dtype=float).mean())


def sampled(model):
    """An error that follows from the rows of a model, which only answers decide."""
    return float(np.asarray(model.sample(50, random_state=0), dtype=float).mean()) / (5 * float(model.epsilon))


def search(estimator=None, X=None, target=0.05, max_epsilon=4, error="bound", **params):
    return fit_to_error(estimator or points(), rows() if X is None else X, target=target, max_epsilon=max_epsilon, error=error, **params)


def lines(found):
    """The charges of the rounds."""
    return [entry for entry, _ in found.model.accountant_.lines() if entry.name.startswith("round ")]


@RELATIONS
def test_the_cap_is_charged_first_and_in_full_and_the_rounds_share_it(relation):
    shared = PrivacyAccountant(10, neighboring=relation)
    found = search(points(neighboring=relation, accountant=shared))
    assert found.is_reached
    assert found.error == found.model.error_bound_ <= 0.05
    assert (shared.spent, found.epsilon, found.model.accountant_.spent) == (4, 4, 4)
    assert found.spent == sum(each.epsilon for each in found.rounds) < 4
    assert [each.loss.epsilon for each in lines(found)] == [each.epsilon for each in found.rounds]
    once = PrivacyAccountant(4, neighboring=relation)
    once.spend(4, name="a fit")
    for record in (shared.record(), found.model.accountant_):  # no figure follows from what the rounds used
        assert record.epsilon_at(1e-9) == 4
        assert record.risk() == once.risk()
    assert all(before.error > 0.05 for before in found.rounds[:-1])
    assert len(found.rounds) > 1
    with pytest.raises(BudgetExceededError):
        search(points(neighboring=relation, accountant=shared), max_epsilon=7)
    assert shared.spent == 4


def test_warnings_of_other_threads_are_shown_while_it_searches():
    asked = []

    def error(model):  # another thread's warning, while a fit is simulated or not
        with ThreadPoolExecutor(1) as other:
            other.submit(warnings.warn, f"of another thread {len(asked)}", UserWarning).result()
        asked.append(model)
        return sampled(model)

    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        search(error=error, target=0.2)
    texts = [str(each.message) for each in shown]
    assert len(asked) > 5
    assert [text for text in texts if "another" in text] == [f"of another thread {k}" for k in range(len(asked))]
    assert sum(issubclass(each.category, InsecureRandomnessWarning) for each in shown) == 0


def test_a_target_out_of_reach_is_said_and_has_spent_the_cap():
    with pytest.warns(BudgetWarning, match=r"target=0\.0001 is not reached with epsilon=1,"):
        found = search(target=1e-4, max_epsilon=1)
    assert not found.is_reached
    assert (found.spent, found.epsilon, found.model.accountant_.spent) == (1, 1, 1)
    assert found.rounds[-1].epsilon == max(each.epsilon for each in found.rounds)


@pytest.mark.parametrize(("delta", "strategy"), [(1e-6, "marginals"), (0.0, "marginals"), (1e-6, "scores")])
def test_rounds_add_up_to_the_promise_in_rho_and_with_a_delta(delta, strategy):
    shared = PrivacyAccountant(5, delta)
    model = LatentFactorSynthesizer(WIDE, delta=delta, strategy=strategy, n_factors=1, accountant=shared)
    found = search(model, wide_table(), target=2.6, max_epsilon=1, error=inverse_epsilon)
    assert found.is_reached
    assert found.rounds[-1].epsilon >= Fraction(5, 13)
    assert shared.spent <= 1
    assert shared.spent_delta <= Fraction(str(delta))
    assert found.model.accountant_.spent <= 1
    assert found.model.accountant_.spent_delta <= Fraction(str(delta))
    assert found.spent <= 1
    losses = [each.loss for each in lines(found)]
    if delta and strategy == "marginals":
        assert all(loss.gaussian for loss in losses)
        assert found.spent == epsilon_of_rho(sum(loss.rho for loss in losses), delta, gaussian=True)
    else:
        assert found.spent == sum(loss.epsilon for loss in losses)
        assert sum(loss.delta for loss in losses) <= Fraction(str(delta))


def test_rounds_in_rho_may_use_all_of_the_cap():
    model = LatentFactorSynthesizer(WIDE, delta=1e-6, n_factors=1)
    with pytest.warns(BudgetWarning, match="not reached"):
        found = search(model, wide_table(), target=1e-9, max_epsilon=1, error=inverse_epsilon)
    assert all(entry.loss.gaussian for entry in lines(found))
    assert 1 - 1e-6 < found.spent <= 1
    assert found.model.accountant_.spent <= 1


@pytest.mark.parametrize(
    ("model", "X", "others", "error", "target"),
    [
        (points(random_state=0), rows(200), [np.ones((200, 1)), np.zeros((200, 1))], "bound", 0.2),
        (
            LatentFactorSynthesizer(SCHEMA, n_factors=1, random_state=0),
            table(200),
            [np.zeros((200, 2), dtype=int), np.ones((200, 2), dtype=int)],
            "pairs",
            0.2,
        ),
        *(
            (
                LatentFactorSynthesizer(WIDE, delta=1e-6, strategy=strategy, n_factors=1, random_state=0),
                wide_table(),
                [1 - wide_table()],
                sampled,
                4.0,
            )
            for strategy in ("marginals", "scores")
        ),
    ],
    ids=["pure", "pairs", "rho", "delta"],
)
def test_only_answers_decide_how_many_rounds_there_are_and_what_they_cost(model, X, others, error, target, door):
    """A replay: other tables that get the same answers lead to the same rounds, errors, model and ledger."""
    seen = []

    def fit(rows):
        found = search(model, rows, target=target, max_epsilon=2, error=error)
        seen.append((found.rounds, found.spent, found.is_reached))
        return found.model

    # Simulated fits pass the same door, and are seeded: their answers are replayed too.
    assert kept_beside_answers(fit, X, others, door) == []
    assert len(seen[0][0]) > 1
    assert all(each == seen[0] for each in seen)


FIT = _Search.fit_rows


def overspend(search, epsilon, delta, accountant):
    """Show a fit with eight times the epsilon that is charged."""
    model = FIT(search, epsilon, delta, accountant)
    model.measure_ = clone(search.estimator).set_params(epsilon=8 * epsilon).fit(search.X).measure_
    return model


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("reads", "fit", "is_sound"),
    [(False, FIT, True), (False, overspend, False), (True, FIT, False)],
    ids=["honest", "rounds cost more than their charge", "the stop reads the rows"],
)
def test_an_audit_of_all_rounds_finds_faults_and_nothing_else(reads, fit, is_sound, monkeypatch):
    monkeypatch.setattr(_Search, "fit_rows", fit)
    model = points(strategy="optimal", depth=1)
    X, neighbor = worst_case_neighbors(model, 20)

    def run(table):
        weights = []

        def error(model):
            assert model.random_state is None, "a simulation: without them rounds follow a power law, which is faster"
            weights.append(float(model.measure_.weights[0]))
            return 0.0 if reads and np.array_equal(table, X) else 1 + weights[-1]

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = search(model, table, 0.5, 1, error)
        return np.array([len(found.rounds), float(found.spent), *(weights + [0.0] * 10)[:10]])

    found = audit_epsilon(run, X, neighbor, n_trials=400, epsilon=1.0, confidence=1 - 1e-9, random_state=0)
    assert (found.epsilon_lower <= 1) == is_sound


@pytest.mark.must
def test_a_search_that_is_interrupted_has_charged_its_cap_and_can_be_run_again():
    shared, model, rounds = PrivacyAccountant(10), points(), []
    model.set_params(accountant=shared)

    def interrupted(fitted):
        if fitted.random_state is None:
            rounds.append(fitted)
        if len(rounds) == 2:
            raise KeyboardInterrupt
        return fitted.error_bound_

    with pytest.raises(KeyboardInterrupt):
        search(model, error=interrupted)
    assert shared.spent == 4
    assert not hasattr(model, "accountant_")
    assert search(model).is_reached
    assert shared.spent == 8


def test_rounds_that_would_be_charged_in_another_way_are_left_out(monkeypatch):
    """The kind of rho is asked of a ladder of epsilons; an estimator may change its noise in between."""
    first_plan = PrivateEstimator._first_plan

    def changing(self, facts):
        plan, kind = first_plan(self, facts)
        return plan, None if 0.27 < facts.epsilon < 0.49 else kind

    monkeypatch.setattr(PrivateEstimator, "_first_plan", changing)
    model = LatentFactorSynthesizer(WIDE, delta=1e-6, n_factors=1)
    found = search(model, wide_table(), target=2.6, max_epsilon=1, error=inverse_epsilon)
    assert found.is_reached
    assert all(entry.loss.gaussian for entry in lines(found))
    assert not any(0.27 < each.epsilon < 0.49 for each in found.rounds)


def test_simulations_never_read_the_private_rows(monkeypatch):
    reads, simulated = [], []

    def chunks():
        reads.append(1)
        return iter([rows(1000), rows(1000, seed=1)])

    error_at = _Search.error_at

    def watched(*arguments):
        before = len(reads)
        value = error_at(*arguments)
        simulated.append(len(reads) - before)
        return value

    monkeypatch.setattr(_Search, "error_at", watched)
    assert search(X=chunks).is_reached
    assert reads
    assert simulated
    assert not any(simulated)


def test_public_errors_are_found_without_the_rows_and_charge_no_cap():
    shared = PrivacyAccountant(4)
    found = search(points(strategy="optimal", accountant=shared), rows(d=2), target=0.4)
    assert found.is_public
    assert found.is_reached
    assert len(found.rounds) == 1
    assert shared.spent == found.epsilon == found.spent == found.rounds[0].epsilon < 4
    elsewhere = search(points(strategy="optimal"), np.zeros((2000, 2)), target=0.4)
    assert elsewhere.epsilon == found.epsilon
    refuses(ValueError, "target must be at least", search, points(strategy="optimal", accountant=shared), rows(d=2), 1e-3)
    assert shared.spent == found.epsilon


def test_what_is_known_to_be_wrong_is_said_of_the_cap_before_it_is_charged():
    """Where warnings are errors nothing is spent; and a seed is told once, however many rounds there are."""
    shared = PrivacyAccountant(100)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for category, params in [(InsecureRandomnessWarning, {"random_state": 0}), (BoundsWarning, {"bounds": None})]:
            with pytest.raises(category):
                search(points(accountant=shared, **params))
        with pytest.raises(BudgetWarning, match="epsilon=100 is above 20"):
            search(points(accountant=shared), max_epsilon=100)
    assert shared.spent == 0
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        search(points(random_state=0))
    assert [warning.category for warning in shown] == [InsecureRandomnessWarning]


def test_seeds_repeat_a_search():
    found, again = search(points(random_state=3)), search(points(random_state=3))
    assert found.rounds == again.rounds
    assert np.array_equal(found.model.measure_.weights, again.model.measure_.weights)


def test_widths_of_intervals_and_functions_of_a_model_are_targets(monkeypatch):
    interval = LatentFactorSynthesizer.interval
    monkeypatch.setattr(LatentFactorSynthesizer, "interval", lambda *given, **named: interval(*given, n_refits=8, **named))
    model = LatentFactorSynthesizer(SCHEMA, n_factors=1, random_state=0)
    found = search(model, table(), 0.4, 4, "width", statistic=lambda rows: rows[:, 1].mean())
    assert found.is_reached
    assert 0 < found.error <= 0.4
    means = found.model.interval(lambda rows: rows[:, 1].mean(), random_state=0)
    assert means.low < means.estimate < means.high
    by_hand = search(PrivatePCA(1, bounds=(0, 1)), rows(d=2), 0.5, 4, lambda model: 1 / float(model.epsilon))
    assert by_hand.rounds[-1].epsilon >= 2


def test_units_are_protected_in_every_round():
    labels = np.repeat(np.arange(500), 4)
    found = search(points(max_rows_per_unit=2), target=0.2, unit=labels)
    assert str(found.model.accountant_.unit) == "given labels, at most 2 rows"
    assert {entry.unit for entry in found.model.accountant_.ledger} == {"given labels, at most 2 rows"}
    assert found.spent <= found.model.accountant_.spent == 4


def test_the_model_can_be_saved_and_keeps_its_whole_cost_but_is_not_fitted_again_unnoticed(tmp_path):
    found = search()
    found.model.save(tmp_path / "model.zip")
    loaded = load(tmp_path / "model.zip")
    assert loaded.accountant_.spent == pickle.loads(pickle.dumps(found.model)).accountant_.spent == 4
    assert "fit_to_error" in repr(loaded.accountant_)
    with pytest.raises(BudgetExceededError, match="closed record"):
        found.model.fit(rows())


def test_a_card_takes_the_budget_that_the_search_was_charged_to():
    pytest.importorskip("jinja2")
    shared = PrivacyAccountant(10)
    assert "fit_to_error" in card(search(points(accountant=shared)).model, accountant=shared).html


def test_a_result_says_what_it_cost():
    found = search()
    assert "epsilon=4 was charged before the first fit" in str(found)
    assert len(found.to_frame()) == len(found.to_records()) == len(found.rounds)
    assert repr(found).startswith("<ErrorFit: reached")
    assert "<table>" in found._repr_html_()


@pytest.mark.parametrize(
    ("words", "params"),
    [
        ("target must be a finite number of at least 1e-300", {"target": 0}),
        ("target must be a finite number of at least 1e-300", {"target": math.nan}),
        ("max_epsilon must be a finite number", {"max_epsilon": math.inf}),
        ("max_epsilon must be a finite number", {"max_epsilon": 0}),
        ("error must be one of", {"error": "w1"}),
        ("error must be one that", {"error": "pairs"}),
        ("error='width' needs", {"error": "width"}),
        ("statistic must be None", {"statistic": np.mean}),
        ("estimator must be an unfitted private estimator", {"estimator": OnlineSynthesizer()}),
        ("estimator must be an unfitted private estimator", {"estimator": PrivateMeasureMechanism}),
        ("bounds", {"estimator": points(bounds=(1, 0))}),
    ],
)
def test_wrong_parameters_are_refused_before_any_charge(words, params):
    shared = PrivacyAccountant(10)
    estimator = params.pop("estimator", None) or points(accountant=shared)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        refuses((ValueError, TypeError), words, lambda: search(estimator, **params))
    assert shared.spent == 0


def test_an_error_that_is_no_number_is_said_once_it_was_seen():
    refuses(ValueError, "error must give a number of at least 0", lambda: search(error=lambda model: "small"))
