"""Plans: what a budget would give, from public numbers alone."""

import math
import re
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from internals import Measure, Point, RowSource, _latent_factors, make_setting
from laws import refuses
from sklearn.base import BaseEstimator

from skdpsynth import PrivacyAccountant, PrivateMeasureMechanism, PrivatePCA, SignedMeasureMechanism
from skdpsynth.domain import Continuous, Date, Identifier, Nominal, Ordinal, Schema
from skdpsynth.exceptions import InsecureRandomnessWarning
from skdpsynth.metrics import marginal_total_variation, wasserstein_distance
from skdpsynth.model_selection import SpendingPlan, plan
from skdpsynth.synthesis import LatentFactorSynthesizer, LowDimSynthesizer, OnlineSynthesizer

SCHEMA = {
    "age": (17, 90),
    "pressure": Continuous(60.0, 220.0, nullable=True),
    "stage": Ordinal(["none", "mild", "severe"]),
    "ward": Nominal(["a", "b"], nullable=True),
    "seen": Date("2020-01-01", "2024-12-31"),
    "id": Identifier(),
}


def quick(estimator, n_samples=600, **more):
    return plan(estimator, n_samples, **{"epsilons": [0.3, 3], "n_repeats": 2, "random_state": 0, "time_limit": math.inf, **more})


def errors_of(expected, place=0):
    return [point.mean[place] for point in expected.points]


PMM = PrivateMeasureMechanism()


PLANNED = [
    (PrivateMeasureMechanism(), {"n_features": 1}, ["wasserstein", "columns"]),
    (SignedMeasureMechanism(bounds={"a": (0, 1), "b": (2, 5)}), {}, ["sliced", "wasserstein", "columns"]),
    (LowDimSynthesizer(1), {"n_features": 5}, ["sliced", "wasserstein", "columns"]),
    (OnlineSynthesizer(window=300), {"n_features": 1}, ["wasserstein", "columns"]),
    (LatentFactorSynthesizer({**SCHEMA, "ill": [False, True]}, stratify="ill"), {}, ["pairs", "singles", "correlations", "means"]),
    (LatentFactorSynthesizer({"x": [1, 2, 3]}), {}, ["singles"]),
    (PrivatePCA(), {"n_features": 6}, ["variance", "covariance"]),
]


@pytest.mark.parametrize(("estimator", "more", "measures"), PLANNED)
def test_each_estimator_is_planned_for_in_its_own_unit_between_its_references(estimator, more, measures):
    expected = quick(estimator, 2000, epsilons=[0.03, 10], **more)
    assert [measure.name for measure in expected.measures] == measures
    high, low = errors_of(expected)
    assert 0 <= expected.no_privacy[0] < expected.no_data[0]
    assert low < min(high, expected.no_data[0])
    assert len(str(expected).splitlines()) > 5


def test_error_of_a_plan_by_a_table_is_that_of_fits_to_it():
    """Of one column, by hand: the plan draws as many rows as there are, so all of them."""
    table = np.random.default_rng(0).beta(2, 9, size=(2000, 1))
    found = errors_of(plan(PrivateMeasureMechanism(), 2000, prior=table, epsilons=[1], n_repeats=30, random_state=1))
    by_hand = [wasserstein_distance(table, PrivateMeasureMechanism(random_state=seed).fit(table).sample()) for seed in range(30)]
    assert np.mean(by_hand) == pytest.approx(found[0], rel=0.3)  # five deviations of either mean


def test_no_data_is_a_uniform_guess():
    table = pd.DataFrame({"a": ["x"] * 90 + ["y"] * 10, "b": [0] * 100})
    schema = {"a": ["x", "y"], "b": (0, 3)}
    expected = quick(LatentFactorSynthesizer(schema), 20_000, prior=table, epsilons=[1])
    # .9 against .5 in one column, 1 against .25 in the other.
    assert expected.no_data[1] == pytest.approx((0.4 + 0.75) / 2, abs=0.02)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("random_state", [None, 0])
def test_plans_warn_of_nothing_that_protects_rows_nor_of_few_rows(random_state):
    expected = plan(PrivatePCA(1, delta=0.03), 50, n_features=30, epsilons=[0.01, 300], n_repeats=1, random_state=random_state)
    assert [point.is_small for point in expected.points] == [True, False]
    assert "*" in str(expected)


def say():
    warnings.warn("look here", UserWarning)


class Warning_(BaseEstimator):
    """Samples what it got, and says something of its own."""

    def __init__(self, says=say, epsilon=1.0):
        self.says, self.epsilon = says, epsilon

    def fit(self, X):
        self.says()
        self.X_ = X
        return self

    def sample(self, n_samples, random_state=None):
        return self.X_[:n_samples]


def test_other_warnings_pass_and_filters_are_as_before():
    before = list(warnings.filters)
    with pytest.warns(UserWarning, match="look here"):
        expected = quick(Warning_(), bounds=(0, 1), n_features=1)
    assert list(warnings.filters) == before
    assert errors_of(expected) == [0, 0]
    with pytest.warns(InsecureRandomnessWarning):
        PrivateMeasureMechanism(random_state=0).fit(np.zeros((100, 1)))


def test_warnings_of_other_threads_are_shown():
    def of_another_fit():
        with ThreadPoolExecutor(1) as other:
            other.submit(PrivateMeasureMechanism(bounds=(0, 1), random_state=0).fit, np.zeros((100, 1))).result()

    with pytest.warns(InsecureRandomnessWarning):
        quick(Warning_(of_another_fit), bounds=(0, 1), n_features=1)


@pytest.mark.parametrize("estimator", [LowDimSynthesizer(1), pytest.param(LatentFactorSynthesizer(), marks=pytest.mark.nightly)])
def test_a_seed_repeats_a_plan_in_any_number_of_threads(estimator, monkeypatch):
    """To five digits: fits are as long as users have them, for after a few steps rounding still decides more than that."""
    monkeypatch.setattr(_latent_factors, "_STEPS", 1500)
    runs = [quick(estimator, n_features=4, n_jobs=n_jobs).to_frame() for n_jobs in (1, 3)]
    pd.testing.assert_frame_equal(*runs)


@pytest.mark.parametrize("estimator", [PrivatePCA(2), pytest.param(LatentFactorSynthesizer(), marks=pytest.mark.nightly)])
def test_fewer_simulated_rows_give_nearly_the_same_errors(estimator):
    """Errors at small epsilon follow from epsilon times rows; without the larger epsilon they would be some five times as large."""
    settings = {"n_features": 3, "epsilons": [0.1], "deltas": 1e-6, "n_repeats": 3}
    all_rows, few = (quick(estimator, 20_000, max_rows=rows, **settings) for rows in (20_000, 4000))
    assert (all_rows.n_simulated, few.n_simulated) == (20_000, 4000)
    assert 0.5 < few.points[0].mean[1] / all_rows.points[0].mean[1] < 2
    assert "4,000 of them simulated" in str(few)


def test_max_rows_per_unit_is_taken_as_rows_of_a_unit_and_said():
    budget = PrivacyAccountant(1)
    own, given = quick(PrivateMeasureMechanism(max_rows_per_unit=5, accountant=budget), n_features=1), quick(PMM, n_features=1, unit_rows=5)
    assert budget.ledger == ()  # no accountant is charged
    assert str(own) == str(given)
    np.testing.assert_array_equal(errors_of(own), errors_of(given))
    html = own._repr_html_()
    assert all(f">{cell}</td>" in html for line in str(own).splitlines()[3:6] for cell in re.split(r"\s{2,}", line))
    heading, *_, sentence = [line for line in str(own).splitlines() if "5 rows a unit" in line]
    assert "replace_one, delta=0, 5 rows a unit:" in heading
    assert sentence.startswith("At epsilon 3 and 5 rows a unit, ")
    one, five = (quick(PMM, n_features=1, epsilons=[k / 5], unit_rows=k) for k in (1, 5))
    np.testing.assert_allclose(one.points[0].errors, five.points[0].errors)
    assert {point.unit_rows for point in quick(PrivateMeasureMechanism(max_rows_per_unit=5), n_features=1, unit_rows=2).points} == {2}
    assert len(quick(PMM, n_features=1, n_repeats=50, time_limit=0).points[0].errors) == 1


def test_rows_of_a_unit_and_deltas_make_a_line_each():
    expected = quick(PrivatePCA(1), n_features=3, deltas=[0, 1e-6], unit_rows=[1, 4])
    assert [name for name, _ in expected.lines()] == [
        f"delta={delta}, {unit} a unit" for delta in ("0", "1e-06") for unit in ("1 row", "4 rows")
    ]
    frame = expected.to_frame()
    assert len(frame) == 2 * 2 * 2 * 2
    assert set(frame["unit_rows"]) == {1, 4}


def test_bounds_and_schema_of_a_plan_replace_those_of_the_estimator_and_guess_what_it_buys():
    default, own, bought = (
        quick(PrivateMeasureMechanism(bounds=its), 3000, n_features=1, **more)
        for its, more in ((None, {"bounds": (0, 50)}), ((0, 50), {}), ("private", {"bounds": (0, 50)}))
    )
    np.testing.assert_allclose(errors_of(default), errors_of(own))
    assert errors_of(bought) != errors_of(own)
    assert 1 < bought.no_data[0] < 50
    estimator = LatentFactorSynthesizer({"a": Continuous(bounds="private"), "b": Nominal("private")}, delta=1e-6)
    expected = quick(estimator, 3000, schema={"a": (0.0, 5.0), "b": ["x", "y"]}, epsilons=[3])
    assert errors_of(expected)[0] < expected.no_data[0]
    refuses(ValueError, "has none for 'a', 'b'", quick, estimator)


def test_made_up_rows_fit_their_schema_and_are_uneven():
    schema = Schema({name: kind for name, kind in SCHEMA.items() if name != "id"}).coded
    source = RowSource(schema, list(schema), None)
    rows, even = source.rows(5000, np.random.default_rng(0)), source.uniform(5000, np.random.default_rng(1))
    assert len(schema.check(rows).to_frame()) == 0
    assert 0.07 < rows["pressure"].isna().mean() < 0.13
    assert rows["pressure"].median() < 140
    assert marginal_total_variation(rows, even, schema, 1) > 0.1


def test_smallest_epsilon_reads_the_line():
    expected = plan(PMM, 2000, n_features=1, epsilons=[0.1, 1, 10], n_repeats=3, random_state=0)
    errors = errors_of(expected)
    assert expected.smallest_epsilon(errors[1]) == pytest.approx(1)
    assert expected.smallest_epsilon(10 * errors[0]) == 0.1
    assert expected.smallest_epsilon(math.sqrt(errors[0] * errors[1])) == pytest.approx(math.sqrt(0.1), rel=1e-6)
    for error, given, words in (
        (errors[2] / 2, {}, r"error must be at least .* what epsilon=10 gives"),
        (1, {"measure": "auc"}, "measure must be one of"),
        (1, {"delta": 0.1}, r"delta must be one of those planned, 0, got 0\.1"),
        (-1, {}, "error must be a number greater than 0"),
    ):
        refuses(ValueError, words, expected.smallest_epsilon, error, **given)


def test_smallest_epsilon_does_not_trust_a_lucky_dip():
    points = tuple(Point(epsilon, 0.0, 1, np.array([[error]]), False) for epsilon, error in {0.1: 8.0, 1: 1.0, 10: 3.0, 100: 0.5}.items())
    measure = Measure("wasserstein", "W1 distance", "rows lie about {} from real ones")
    ends = np.array([0.01]), np.array([2.0])
    expected = SpendingPlan("Some", 1000, 1000, "made-up rows", "replace_one", (measure,), points, *ends)
    assert expected.smallest_epsilon(2) == pytest.approx(1)  # the common mean of the dip and what follows it
    assert 10 < expected.smallest_epsilon(1.5) < 100
    assert "Up to epsilon 10 the result is hardly better" in str(expected)


ONE = {"n_features": 1}
REFUSED = [
    (PMM, {}, r"got one pair .*; give bounds=\{column: \(low, high\)\}, or n_features"),
    (LatentFactorSynthesizer(), {}, r"give bounds=\{column: \(low, high\)\} or a schema"),
    (PMM, {"n_features": 0}, "n_features must be an integer of at least 1"),
    (PrivateMeasureMechanism(bounds=([0, 0], [1, 1])), {"n_features": 3}, "n_features must be the number of columns"),
    (PMM, {"prior": "old.csv"}, "prior must be None, 'uniform' or a public table"),
    (PMM, {"prior": [1, 2]}, "prior must be a public table with rows and columns"),
    *((PMM, {**ONE, "epsilons": epsilons}, "epsilons must be finite numbers") for epsilons in ([], [math.inf])),
    (PMM, {**ONE, "epsilons": [-1]}, "epsilon must be"),
    (
        *(PMM, {**ONE, "epsilons": np.arange(1, 402), "deltas": [0, 1e-9, 1e-6]}),
        "^epsilons, deltas and unit_rows must make at most 1000 budgets, got 1203; .*\\.$",
    ),
    (PMM, {**ONE, "deltas": [1]}, "delta must be"),
    *(
        (PMM, {**ONE, name: value}, f"{name} must be")
        for name, value in {"deltas": [], "unit_rows": 0, "n_repeats": 0, "max_rows": 1.5, "n_samples": "many", "time_limit": -1}.items()
    ),
    (PMM, {"schema": {0: (0, 1)}}, "schema must be None"),
    (PMM, {**ONE, "too_wide": 0.5}, "from 1 to"),
    (PMM, {**ONE, "too_wide": 2, "prior": np.zeros((5, 1))}, "beside a public table"),
    (PrivateMeasureMechanism(bounds="private"), ONE, "bounds must be two numbers"),
    (LatentFactorSynthesizer({"a": (0, 1)}), {"schema": {"b": (0, 1)}}, "schema must have the columns"),
    *(
        (bad, {}, "estimator must be an unfitted private estimator")
        for bad in (BaseEstimator(), PrivateMeasureMechanism, PrivacyAccountant(1))
    ),
]


@pytest.mark.parametrize(("estimator", "settings", "words"), REFUSED)
def test_what_cannot_be_planned_is_refused_in_one_sentence(estimator, settings, words):
    refuses((TypeError, ValueError), words, quick, estimator, **settings)


@pytest.mark.parametrize("too_wide", [1, 50])
def test_simulated_rows_lie_within_the_first_part_of_bounds_that_are_too_wide(too_wide):
    kinds = {"n": (0.0, 100.0), "whole": (10, 1010), "level": ["a", "b"]}
    setting = make_setting(LatentFactorSynthesizer(kinds), None, None, None, None, too_wide)
    rows, uniform = setting.ground.rows(2000, np.random.default_rng(0)), setting.ground.uniform(2000, np.random.default_rng(1))
    assert dict(setting.estimator.schema) == dict(Schema(kinds))
    for table in (rows, uniform):
        assert table["n"].between(0, 100 / too_wide).all()
        assert table["whole"].between(10, 10 + 1000 / too_wide).all()
    assert rows["n"].max() > 50 / too_wide
