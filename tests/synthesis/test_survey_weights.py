"""Survey weights: synthetic rows stand for the population, noise covers the cap, and intervals know the design."""

import pickle
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import pytest
from internals import SurveyDesign, SurveyWeights
from laws import refuses
from sklearn.base import clone
from sources import duck

from skdpsynth import LatentFactorSynthesizer, OnlineSynthesizer, PrivacyAccountant, load
from skdpsynth.domain import Continuous, Inequality, Schema
from skdpsynth.federated import Site, Sites
from skdpsynth.model_selection import plan
from skdpsynth.report import card
from skdpsynth.testing import check_synthesizer

pytestmark = pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.InsecureRandomnessWarning")
RELATIONS = ["replace_one", "add_or_remove_one"]
CAP = 150
SCHEMA = {"a": ["x", "y", "z"], "number": (0.0, 100.0), "weight": (1, CAP)}
each_relation = pytest.mark.parametrize("relation", RELATIONS)


@pytest.fixture(scope="module")
def table():
    rng, n = np.random.default_rng(0), 4000
    a = rng.integers(0, 3, n)
    weight = np.where(a == 0, rng.integers(50, 200, n), rng.integers(10, 60, n))
    return pd.DataFrame({"a": np.array(["x", "y", "z"])[a], "number": rng.normal(50 + 10 * a, 10).clip(0, 100).round(1), "weight": weight})


def fitted(table, **params):
    return LatentFactorSynthesizer(SCHEMA, weights="weight", **{"random_state": 0, "delta": 1e-6, "n_factors": 2, **params}).fit(table)


def weighted_shares(table):
    weight = table["weight"].clip(1, CAP)
    return np.array([weight[table["a"] == level].sum() for level in "xyz"]) / weight.sum()


@each_relation
@pytest.mark.parametrize("delta", [0, 1e-6])
def test_shares_of_synthetic_rows_are_those_of_the_population(table, relation, delta):
    """The weighted share of x is about twice the plain one; seeded, at epsilon 5 within .03 (some ten standard errors)."""
    model = fitted(table, neighboring=relation, epsilon=5.0, delta=delta)
    sample = model.sample(20_000, random_state=0)
    shares = sample["a"].value_counts(normalize=True).reindex(list("xyz")).to_numpy()
    np.testing.assert_allclose(shares, weighted_shares(table), atol=0.03)
    assert abs(shares[0] - (table["a"] == "x").mean()) > 0.2
    total = table["weight"].clip(1, CAP).sum()
    assert model.population_ == pytest.approx(total, rel=0.03)
    assert model.accountant_.spent <= 5


@each_relation
def test_without_noise_counts_are_exact_weighted_sums(table, relation):
    model = fitted(table, neighboring=relation, epsilon=float("inf"), delta=0)
    clipped = table["weight"].clip(1, CAP)
    assert model.population_ == clipped.sum()
    np.testing.assert_array_equal(model.marginals_["a",], [clipped[table["a"] == level].sum() for level in "xyz"])
    assert model.n_samples_ == (len(table) if relation == "replace_one" else round(clipped.sum() / ((1 + CAP) / 2)))


@each_relation
def test_the_ledger_says_how_far_a_weighted_row_moves_each_release(table, relation):
    """Under replace-one, counts move by twice the cap in l1; noise covers it, and the total is that of rows."""
    model = fitted(table, neighboring=relation, delta=0, epsilon=1.0)
    entries = {entry.name: entry for entry in model.accountant_.ledger}
    for entry in entries.values():
        assert dict(entry.sensitivity.statistic)["weight"] == CAP
        assert entry.scale[0] >= entry.sensitivity.l1 / entry.loss.epsilon
        assert entry.unit is None
    times = 2 if relation == "replace_one" else 1
    assert entries["counts of columns"].sensitivity.l1 == times * CAP * 3
    assert entries["counts of columns"].sensitivity.sup == CAP
    assert model.accountant_.spent == 1


def test_self_weighting_rows_sum_to_the_population_at_the_default_number_of_rows(table):
    model = fitted(table)
    sample = model.sample(random_state=0)
    assert len(sample) == len(table)
    assert sample["weight"].sum() == pytest.approx(model.population_, abs=1)
    assert sample["weight"].nunique() <= 2
    batches = pd.concat(model.sample_batches(batch_size=999, random_state=0), ignore_index=True)
    pd.testing.assert_frame_equal(batches, sample)


def test_a_sample_like_the_survey_stands_for_the_population_by_its_weights(table):
    model = fitted(table, epsilon=50.0)
    sample = model.sample_survey(4000, random_state=0)
    np.testing.assert_allclose(weighted_shares(sample), weighted_shares(table), atol=0.05)
    plain = np.array([(sample["a"] == level).mean() for level in "xyz"])
    np.testing.assert_allclose(plain, [(table["a"] == level).mean() for level in "xyz"], atol=0.08)
    assert sample["weight"].between(1, CAP).all()
    refuses(ValueError, "conditions must leave out the column of weights", model.sample, 5, conditions={"weight": (1, 9)})
    assert set(model.sample(50, conditions={"a": "x"})["a"]) == {"x"}
    without = LatentFactorSynthesizer(SCHEMA, random_state=0, n_factors=1).fit(table)
    refuses(ValueError, "weights must name a column", without.sample_survey)
    without.set_params(weights="weight")
    for call in (without.sample, without.sample_survey):
        refuses(ValueError, "weights must be those of the fit, got 'weight', but rows were counted without", call)


def test_scores_reports_and_plans_draw_rows_as_the_survey_does(table):
    """At epsilon 50, seeded: .04 at most, where rows that stand for the population are up to .93 away; .02 in a plan, not .3."""
    model = fitted(table, epsilon=50.0)
    assert model.score(table) > -0.1
    columns = model.evaluate(table).marginals
    assert max(columns.values()) < 0.1, columns
    expected = plan(
        LatentFactorSynthesizer(SCHEMA, weights="weight", delta=1e-6, n_factors=2), n_samples=4000, epsilons=[50.0], random_state=0
    )
    singles = next(each for each in expected.to_records() if each["measure"] == "singles" and each["epsilon"] == 50)
    assert singles["error"] < 0.1


def test_missing_and_negative_weights_count_as_the_least_and_huge_ones_as_the_cap(table):
    schema = Schema({**SCHEMA, "weight": Continuous(2, CAP, nullable=True)})
    broken = table.astype({"weight": float})
    broken.loc[:99, "weight"] = np.nan
    broken.loc[100:199, "weight"] = -7.0
    broken.loc[200:299, "weight"] = 1e12
    model = LatentFactorSynthesizer(schema, weights="weight", epsilon=float("inf"), n_factors=1).fit(broken)
    assert model.population_ == 200 * 2 + 100 * CAP + table["weight"].iloc[300:].clip(2, CAP).sum()


def test_weights_that_are_not_whole_are_rounded_to_steps_of_the_cap(table):
    schema = {**SCHEMA, "weight": (0.0, 4.0)}
    scaled = table.assign(weight=table["weight"] / 61.0)
    model = LatentFactorSynthesizer(schema, weights="weight", epsilon=float("inf"), n_factors=1).fit(scaled)
    assert model.population_ == pytest.approx(scaled["weight"].clip(0, 4).sum(), rel=1e-4)
    assert model.sample(random_state=0)["weight"].sum() == pytest.approx(model.population_)


def test_a_shared_budget_and_units_and_a_file(table, tmp_path):
    """Rows of a unit count as often as all of its weights may say."""
    accountant = PrivacyAccountant(2.0)
    units = pd.Series(np.arange(len(table)) // 2, name="home")
    model = LatentFactorSynthesizer(
        SCHEMA, weights="weight", epsilon=1.0, accountant=accountant, max_rows_per_unit=2, n_factors=1, random_state=0
    ).fit(table, unit=units)
    assert accountant.spent == 1
    assert "with all that hang on it" not in card(model).html  # as of linked tables
    columns = next(entry for entry in model.accountant_.ledger if entry.name == "counts of columns")
    assert columns.sensitivity.l1 == 2 * 2 * CAP * 3
    assert columns.scale[0] == columns.sensitivity.l1 / columns.loss.epsilon
    model.save(tmp_path / "model.zip")
    loaded = load(tmp_path / "model.zip")
    pd.testing.assert_frame_equal(loaded.sample(50, random_state=3), model.sample(50, random_state=3))


def test_seeds_copies_frames_and_conditions_keep_the_weights(table):
    model = fitted(table, random_state=3)
    sample = model.sample(200, random_state=0)
    for again in (fitted(table, random_state=3), clone(model).fit(table), pickle.loads(pickle.dumps(model))):
        assert again.weights == "weight"
        pd.testing.assert_frame_equal(again.sample(200, random_state=0), sample)
    given = model.sample(200, random_state=0, conditions={"a": "x"})
    assert set(given["a"]) == {"x"}
    assert given["weight"].sum() == pytest.approx(sample["weight"].sum(), abs=1)
    polars = pytest.importorskip("polars")
    of_polars = clone(model).fit(polars.DataFrame({name: column.to_list() for name, column in table.items()}))
    assert of_polars.sample(200, random_state=0)["weight"].to_list() == sample["weight"].to_list()


def test_chunks_and_threads_count_as_a_table_does(table):
    whole = fitted(table)
    parts = fitted([table.iloc[:1000], table.iloc[1000:]], n_jobs=2)
    for columns, counts in whole.marginals_.items():
        np.testing.assert_array_equal(parts.marginals_[columns], counts)


def test_a_database_and_several_sites_sum_as_a_table_does(table):
    pytest.importorskip("duckdb")
    sites = Sites({name: Site(rows).answer for name, rows in (("north", table[:1000]), ("south", table[1000:]))}, head=table[:0])
    whole = fitted(table, epsilon=float("inf"))
    for rows in (duck(table), sites):
        parts = fitted(rows, epsilon=float("inf"))
        for columns, counts in whole.marginals_.items():
            np.testing.assert_array_equal(parts.marginals_[columns], counts)


@pytest.mark.parametrize(
    ("schema", "params", "message"),
    [
        (SCHEMA, {"weights": "w"}, "weights must be a column of schema"),
        (SCHEMA, {"weights": "a"}, "weights must be a column of numbers with public bounds"),
        ({**SCHEMA, "weight": (-1, 5)}, {}, "weights must have bounds from 0"),
        ({**SCHEMA, "number": Continuous(bounds="private")}, {}, "must be public"),
        (Schema({**SCHEMA, "other": (0, 9)}, rules=[Inequality("other", "weight")]), {}, "no rule constrains"),
        ({**SCHEMA, "weight": (1, 10**6)}, {"epsilon": 1e-4}, "weights must have a cap of at most"),
        (SCHEMA, {"strategy": "scores"}, "weights must be None beside"),
        (SCHEMA, {"prior": pd.DataFrame({"a": ["x"], "number": [1.0], "weight": [3]})}, "weights must be None beside"),
    ],
)
def test_what_weights_cannot_be_is_refused_before_any_charge(table, schema, params, message):
    accountant = PrivacyAccountant(1.0)
    estimator = LatentFactorSynthesizer(schema, **{"weights": "weight", "accountant": accountant, **params})
    refuses(ValueError, message, estimator.fit, table.assign(other=3) if "other" in schema else table)
    assert accountant.spent == 0


def test_a_stream_takes_no_weights(table):
    stream = OnlineSynthesizer(synthesizer=LatentFactorSynthesizer(SCHEMA, weights="weight"))
    refuses(ValueError, "weights must be None in a stream", stream.partial_fit, table)


def test_an_interval_of_a_total_and_a_share_covers_the_population():
    """A pps sample of 3,000 from 60,000; one run, seeded: both ends within a tenth, and the truth between them."""
    rng, size = np.random.default_rng(1), 60_000
    big = rng.random(size) < 0.2
    chance = np.where(big, 0.1, 0.0375)
    chosen = rng.random(size) < chance
    sample = pd.DataFrame({"big": big[chosen].astype(int), "weight": np.rint(1 / chance[chosen]).astype(int)})
    schema = {"big": [0, 1], "weight": (1, 30)}
    model = LatentFactorSynthesizer(schema, weights="weight", epsilon=5.0, delta=1e-6, random_state=0, n_factors=1).fit(sample)

    def statistic(rows):
        per_row = rows["weight"].sum() / len(rows)
        return [rows["big"].mean(), model.n_samples_ * per_row]

    found = model.interval(statistic, n_refits=20, random_state=0)
    truth = np.array([big.mean(), size])
    assert np.all((found.low <= truth) & (truth <= found.high))
    assert np.all(found.high - found.low < 0.2 * truth)
    assert Fraction(model.accountant_.spent) <= 5


LOSS, ANSWERS = "check_neighbors_that_get_the_same_answers_lose_at_most_epsilon", "check_what_leaves_depends_on_the_answers_alone"


def law_for(relation, name):
    """A law for rows of two numbers or fewer, of which the first is the weight."""
    estimator = LatentFactorSynthesizer(bounds=(0, 1), weights=0, n_factors=1, neighboring=relation)
    return partial({check.__name__: check for _, check in check_synthesizer(estimator, generate_only=True)}[name], estimator)


NOISE, SUM = "check_the_noise_of_every_entry_covers_its_loss", "check_the_ledger_sums_to_epsilon"
AFTER, SAVED = "check_a_fit_does_not_fail_after_its_charge", "check_a_saved_estimator_is_the_same_when_loaded"


@each_relation
@pytest.mark.parametrize("name", [LOSS, ANSWERS, NOISE, SUM, AFTER, SAVED])
def test_laws_hold_with_weights(name, relation):
    law_for(relation, name)()


@each_relation
def test_the_law_of_losses_finds_noise_for_half_of_what_a_row_weighs(relation, monkeypatch):
    monkeypatch.setattr(SurveyWeights, "sensitivity", lambda self, of_row: of_row.times(512))
    monkeypatch.setattr(SurveyDesign, "facts", lambda self, facts: replace(facts, n_samples=None, rows_per_unit=512))
    refuses(AssertionError, "lost (epsilon|rho)=", law_for(relation, LOSS))
