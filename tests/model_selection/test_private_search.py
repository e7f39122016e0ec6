"""PrivateSearchCV: what it costs, what it shows, and what it refuses."""

import math
import pickle
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from internals import _search
from laws import kept_beside_answers, refuses
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from skdpsynth import PrivacyAccountant, PrivatePCA, load
from skdpsynth.exceptions import BudgetExceededError, BudgetWarning, InsecureRandomnessWarning
from skdpsynth.fitting import Budget
from skdpsynth.frames import Rows
from skdpsynth.model_selection import PrivateSearchCV
from skdpsynth.privacy import SecureBits, check_rng
from skdpsynth.synthesis import LatentFactorSynthesizer, LowDimSynthesizer, OnlineSynthesizer, PrivateMeasureMechanism
from skdpsynth_evidence import check_evidence

pytestmark = pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.SmallSampleWarning")
RELATIONS = pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])


def rows(n=400, d=3, seed=0):
    return np.random.default_rng(seed).beta(2, 5, size=(n, d))


def search(estimator=None, grid=None, **params):
    return PrivateSearchCV(estimator or PrivateMeasureMechanism(), grid or {"strategy": ["adaptive", "optimal"]}, **params)


@parametrize_with_checks([search(), search(PrivatePCA(1), {"center": ["public", "private"]})])
def test_scikit_learn_checks_pass_without_expected_failures(estimator, check):
    check(estimator)


@RELATIONS
@pytest.mark.parametrize(("refit", "epsilon"), [(True, 0.1), (False, 1), (True, Fraction(1, 3)), (False, 7.5)])
def test_total_is_epsilon_exactly(relation, refit, epsilon):
    exact, shared = Fraction(str(epsilon)), PrivacyAccountant(10, neighboring=relation)
    model = search(PrivateMeasureMechanism(neighboring=relation), epsilon=epsilon, refit=refit, search_share=0.37).fit(rows())
    again = clone(model).set_params(accountant=shared).fit(rows())
    assert model.accountant_.spent == shared.spent == exact
    best = again.best_estimator_
    with pytest.raises(BudgetExceededError):
        again.set_params(epsilon=10).fit(rows())
    assert (shared.spent, again.best_estimator_) == (exact, best)


def test_disjoint_parts_cost_the_larger_and_candidates_add():
    accountant = search(grid={"depth": [2, 3, 4]}, epsilon=2, search_share=0.3).fit(rows()).accountant_
    training, held_out, refit = accountant.ledger
    assert (training.loss.epsilon, held_out.loss.epsilon, refit.loss.epsilon) == (Fraction(6, 10), Fraction(6, 10), Fraction(14, 10))
    assert training.group == held_out.group is not None
    assert refit.group is None
    assert [part.loss.epsilon for part in accountant.parts_of(training)] == [Fraction(2, 10)] * 3
    assert [part.name for part in accountant.parts_of(training)] == [f"candidate {i}: depth={i + 2}" for i in range(3)]
    assert sum(part.loss.epsilon for part in accountant.parts_of(held_out)) == Fraction(6, 10)


@RELATIONS
@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 0.3, 3, 100])
@pytest.mark.parametrize("grid", [{"noise": ["gaussian"], "center": ["public", "private"]}, {"noise": ["auto", "laplace"]}])
def test_a_search_with_a_delta_is_charged_once_and_does_not_fail_after_its_charge(relation, epsilon, grid):
    shared = PrivacyAccountant(2 * epsilon, 1e-5, neighboring=relation)
    model = search(PrivatePCA(1, neighboring=relation), grid, epsilon=epsilon, delta=1e-6, accountant=shared).fit(rows())
    assert len(shared.ledger) == 1
    assert model.accountant_.spent <= Fraction(str(epsilon))
    assert (shared.ledger[0].loss.rho is not None) == ("center" in grid and epsilon > 1e-6)  # there delta alone pays for shares of rho
    assert check_evidence(shared.evidence()).wrong == []


@pytest.mark.parametrize("epsilon", [1, 20])
def test_a_candidate_that_plans_without_the_private_number_of_rows_is_asked_so(epsilon, hasty):
    """Whether it spends delta may follow from a public number of rows, and else from none."""
    table = np.random.default_rng(0).integers(0, 2, (500, 8))
    estimator = LatentFactorSynthesizer({i: [0, 1] for i in range(8)}, neighboring="add_or_remove_one")
    model = search(estimator, {"n_factors": [2]}, epsilon=epsilon, delta=1e-9).fit(table)
    assert epsilon * (1 - 0.01) < model.accountant_.spent <= epsilon


@pytest.mark.must
@RELATIONS
def test_all_that_is_kept_follows_from_answers_and_the_choice(relation, door, monkeypatch):
    monkeypatch.setattr(Budget, "choose", lambda self, query, share, name: 1)
    model = search(PrivateMeasureMechanism("optimal", neighboring=relation), {"depth": [2, 3]}, random_state=0)
    others = [rows(seed=1), np.zeros((400, 3)), np.full((400, 3), 99.0)]
    others += [rows(401), rows(1), np.zeros((0, 3))] if relation == "add_or_remove_one" else []
    assert kept_beside_answers(lambda X: clone(model).fit(X), rows(), others, door) == []


def test_all_that_is_shown_of_scores_left_by_the_door(monkeypatch):
    """With the answers of the door replaced, scores and choice are what was put there."""
    monkeypatch.setattr(Budget, "choose", lambda self, query, share, name: 2)
    answer = Budget.answer
    fake = np.array([-3, -1, -2], dtype=np.int64) * 10**9

    def answered(self, query, chosen, name):
        return fake if name == "scores" else answer(self, query, chosen, name)

    monkeypatch.setattr(Budget, "answer", answered)
    model = search(grid={"depth": [2, 3, 4]}).fit(rows())
    scores = model.cv_results_["mean_test_score"]
    assert model.best_index_ == 2
    assert model.best_params_ == {"depth": 4}
    np.testing.assert_allclose(scores / scores[1], [3, 1, 2])
    assert model.best_score_ == scores[2]
    assert model.cv_results_["rank_test_score"].tolist() == [3, 2, 1]


@pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.BudgetWarning")
def test_scores_have_the_deviation_that_is_told():
    """Five searches among 40 equal candidates: their scores are noise, of neither a third nor twice the deviation."""
    X = np.full((50, 1), 0.3)
    models = [search(PrivateMeasureMechanism(), {"depth": [2] * 40}, epsilon=1e3, search_share=0.001).fit(X) for _ in range(5)]
    found = np.concatenate([model.cv_results_["mean_test_score"] for model in models])
    assert found.std() == pytest.approx(models[0].cv_results_["std_test_score"][0], rel=6 * math.sqrt(5 / 4 / 200))  # kurtosis 6


def held(X, n_samples, seed=None):
    budget = Budget(PrivacyAccountant(1), SecureBits() if seed is None else check_rng(seed))
    return _search.held_out_mask(Rows.of(X), n_samples, 0.3, budget)


@RELATIONS
@pytest.mark.parametrize("scoring", ["sliced_wasserstein", "marginals"])
def test_mixed_tables_are_compared_as_encoded_rows(relation, scoring):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(0, 90, 300), "job": rng.choice(["a", "b", "c"], 300), "x": rng.random(300)})
    frame.loc[3, "x"] = np.nan
    estimator = LatentFactorSynthesizer({"age": (0, 90), "job": ["a", "b", "c"], "x": (0.0, 1.0)}, neighboring=relation)
    model = PrivateSearchCV(estimator, {"n_factors": [1, 2]}, scoring=scoring).fit(frame)
    assert list(model.sample(5).columns) == ["age", "job", "x"]


def test_positions_do_not_depend_on_rows_and_a_row_goes_where_its_own_cells_send_it_whatever_others_there_are():
    assert (held(rows(50), 50, seed=1) == held(np.zeros((50, 3)), 50, seed=1)).all()
    assert [held(rows(n), n).sum() for n in (50, 2)] == [15, 1]
    X = np.vstack([rows(50), rows(50)])
    every = held(X, None, seed=1)
    assert (every[:50] == every[50:]).all(), "equal rows go together"
    for i in range(50):
        without = np.delete(np.arange(100), i)
        assert (held(X[without], None, seed=1) == every[without]).all()
    assert 0 < every.sum() < 100


def test_candidates_see_the_training_rows_only_and_the_refit_all_which_gives_the_methods_and_the_kind_of_table():
    frame = pd.DataFrame(rows(100, 2), columns=["a", "b"])
    grid = [{"depth": [2, 3]}, {"strategy": ["optimal"]}]
    found = [search(PrivateMeasureMechanism(bounds=(0, 1)), grid, refit=refit, holdout=0.25).fit(frame) for refit in (False, True)]
    assert [model.best_estimator_.n_samples_ for model in found] == [75, 100]
    assert type(found[1].sample(3)) is type(frame)
    assert list(found[1].feature_names_in_) == ["a", "b"]
    results = found[1].cv_results_
    assert {"params", "param_depth", "mean_test_score", "std_test_score", "rank_test_score"} <= {*results}
    assert results["param_depth"].mask.tolist() == [False, False, True]
    assert results["params"] == [{"depth": 2}, {"depth": 3}, {"strategy": "optimal"}]
    reducer = PrivateSearchCV(PrivatePCA(2), {"center": ["public", "private"]}, delta=1e-6).fit(rows(2000, 12))
    assert reducer.inverse_transform(reducer.transform(rows(5, 12))).shape == (5, 12)
    assert 0 < reducer.accountant_.spent_delta <= Fraction(1, 10**6)
    assert [hasattr(found[1], name) for name in ("sample", "transform", "best_params_")] == [True, False, True]
    assert [hasattr(each, name) for each, name in ((reducer, "sample"), (search(), "best_params_"))] == [False, False]


def test_a_seed_warns_once_and_stays_nowhere_and_threads_do_not_change_the_result():
    models = []
    for n_jobs in (None, 3):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            models.append(search(PrivateMeasureMechanism(bounds=(0, 1)), {"depth": [2, 3]}, random_state=0, n_jobs=n_jobs).fit(rows(5000)))
        assert [each.category for each in caught] == [InsecureRandomnessWarning]
        assert models[-1].best_estimator_.random_state is None
    np.testing.assert_array_equal(*(model.cv_results_["mean_test_score"] for model in models))
    np.testing.assert_array_equal(*(model.sample(9, random_state=0) for model in models))
    names = [[entry.name for entry in model.accountant_.parts_of(model.accountant_.ledger[0])] for model in models]
    assert names[0] == names[1]


@pytest.mark.must
def test_it_is_cloned_pickled_saved_and_loaded(tmp_path):
    X = rows()
    model = search(grid={"depth": [2, 3]}, n_jobs=2).fit(X)
    held = pickle.dumps(model)
    assert not any(value.tobytes() in held for value in X.ravel())
    assert clone(model).get_params()["param_grid"] == {"depth": [2, 3]}
    model.save(tmp_path / "search.zip")
    for other in (pickle.loads(held), load(tmp_path / "search.zip")):
        assert other.best_params_ == model.best_params_
        np.testing.assert_array_equal(other.cv_results_["mean_test_score"], model.cv_results_["mean_test_score"])
        np.testing.assert_array_equal(other.sample(5, random_state=0), model.sample(5, random_state=0))
        assert other.accountant_.spent == 1


def test_a_warning_of_few_rows_says_on_how_many_the_candidates_are_fitted():
    with pytest.warns(UserWarning, match="Each of 2 candidates is fitted with epsilon=0.01 on 40 rows, which are so few"):
        PrivateSearchCV(PrivateMeasureMechanism(), {"strategy": ["optimal", "paper"]}, epsilon=0.02, refit=False, holdout=0.2).fit(rows(50))


def test_candidates_that_public_facts_refuse_get_no_share_and_a_warning_before_the_charge():
    grid = {"n_components": [1, 2, 17]}
    with pytest.warns(FitFailedWarning, match="n_components=17 is refused"):
        model = PrivateSearchCV(LowDimSynthesizer(), grid, epsilon=1, search_share=0.5, error_score=math.nan).fit(rows())
    assert np.isnan(model.cv_results_["mean_test_score"]).tolist() == [False, False, True]
    assert model.cv_results_["rank_test_score"][2] == 3
    parts = model.accountant_.parts_of(model.accountant_.ledger[0])
    assert [part.loss.epsilon for part in parts] == [Fraction(1, 4)] * 2
    assert model.accountant_.spent == 1
    refuses(ValueError, "n_components must be", PrivateSearchCV(LowDimSynthesizer(), grid).fit, rows())


@pytest.mark.parametrize(
    ("estimator", "params", "words"),
    [
        (GridSearchCV(PrivateMeasureMechanism(), {}), {}, "estimator must be"),
        (PrivateMeasureMechanism, {}, "estimator must be"),
        (OnlineSynthesizer(), {}, "estimator must be"),
        (search(), {}, "estimator must be"),
        (PrivateMeasureMechanism(accountant=PrivacyAccountant(1)), {}, "accountant=None"),
        (PrivateMeasureMechanism(random_state=0), {}, "random_state=None"),
        (PrivateMeasureMechanism(bounds="private"), {}, "must be public"),
        (None, {"param_grid": {"epsilon": [1, 2]}}, "param_grid must leave out"),
        (None, {"param_grid": {"bounds": [(0, 1)]}}, "param_grid must leave out"),
        (None, {"param_grid": {"n_parts": [1]}}, "Invalid parameter"),
        (None, {"param_grid": {"depth": [-1]}}, "depth must be"),
        (None, {"param_grid": {"depth": [-1]}, "error_score": math.nan}, "all are refused"),
        (None, {"param_grid": {"depth": []}}, "non-empty|empty"),
        (None, {"scoring": "accuracy"}, "scoring must be one of"),
        (None, {"scoring": "captured_variance"}, "scoring must fit the estimator"),
        (PrivatePCA(1), {"scoring": "marginals", "param_grid": {"center": ["public"]}}, "scoring must fit the estimator"),
        (None, {"refit": "loss"}, "refit must be"),
        (None, {"search_share": 1.5}, "search_share must be"),
        (None, {"holdout": 0}, "holdout must be"),
        (None, {"error_score": "ignore"}, "error_score must be"),
        (None, {"epsilon": -1}, "epsilon"),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning")
def test_what_cannot_be_searched_is_refused_before_the_charge(estimator, params, words):
    shared = PrivacyAccountant(10)
    model = search(estimator, accountant=shared).set_params(**params)
    refuses(ValueError, words, model.fit, rows())
    for table, reason in ((rows(1), "minimum of 2"), ([rows(9), rows(9)], "in memory")):
        refuses(ValueError, reason, search(accountant=shared).fit, table)
    assert shared.spent == 0


def test_grid_search_without_an_accountant_warns_and_the_ledger_says_that_it_is_not_the_whole():
    grid = GridSearchCV(PrivateMeasureMechanism(epsilon=0.5), {"depth": [2, 3]}, cv=2)
    with pytest.warns(BudgetWarning, match="every other fit of a clone"):
        grid.fit(rows())
    assert "other fits are not in this ledger" in repr(grid.best_estimator_.accountant_)
    assert "other fits" in repr(pickle.loads(pickle.dumps(grid.best_estimator_)).accountant_)
    assert "other fits" not in repr(PrivateMeasureMechanism().fit(rows()).accountant_)
