"""Streams of mixed tables: where their blocks end, and what else their one model gives."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from internals import _latent_planning, ending_length, grown_length
from laws import ALARM, same_law

from skdpsynth import LatentFactorSynthesizer, LowDimSynthesizer, OnlineSynthesizer
from skdpsynth.domain import Date, Impossible, Inequality, Nominal, Schema
from skdpsynth.metrics import rule_violations
from skdpsynth.model_selection import PrivateSearchCV

pytestmark = [
    pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.SmallSampleWarning", "ignore::skdpsynth.exceptions.BudgetWarning"),
]
DAYS = ("2020-01-01", "2020-12-31")
RULED = Schema(
    {"age": (0, 99), "job": ["none", "nurse", "pilot"], "start": Date(*DAYS), "end": Date(*DAYS)},
    rules=[Impossible({"age": (0, 15), "job": ["nurse", "pilot"]}), Inequality("start", "end")],
)


def visits(n, seed=0):
    rng = np.random.default_rng(seed)
    age, start = rng.integers(0, 99, n), rng.integers(0, 300, n)
    job = np.where(age < 16, "none", rng.choice(["none", "nurse", "pilot"], n))
    days = [pd.Timestamp(DAYS[0]) + pd.to_timedelta(number, unit="D") for number in (start, start + rng.integers(0, 60, n))]
    return pd.DataFrame({"age": age, "job": pd.array(job, dtype="string"), "start": days[0], "end": days[1]})


def online(schema=RULED, inner=None, **settings):
    return OnlineSynthesizer(synthesizer=LatentFactorSynthesizer(schema, **(inner or {})), **{"epsilon": 1.0, "delta": 1e-6, **settings})


# Where blocks end


@pytest.mark.parametrize(("first", "growth"), list(itertools.product([1, 16, 528], [1.25, 1.5, 2.25, 4.0])))
def test_a_block_ends_with_the_horizon_and_none_grows_far_from_what_it_shall(first, growth):
    for horizon in [first, first + 1, 2 * first, *(round(first * 1.37**k) for k in range(1, 25))]:
        ends = [0]
        while horizon - ends[-1] >= max(first, ending_length(ends[-1], first, growth, horizon) if ends[-1] < horizon else math.inf):
            ends.append(ends[-1] + max(first, ending_length(ends[-1], first, growth, horizon)))
        # Of a stream of few rows a rest that makes no block may be left.
        assert horizon - ends[-1] < first
        if horizon > 40 * first:
            assert ends[-1] == horizon
        for before, end in itertools.pairwise(ends[1:]):
            if before * (math.sqrt(growth) - 1) > first:
                assert before * math.sqrt(growth) - 1 <= end <= before * growth**2 + 1


def test_without_a_horizon_time_grows_as_it_shall():
    assert [grown_length(before, 2.25) for before in (4, 100, 10**6)] == [5, 125, 1_250_000]
    assert grown_length(10**30, 2.0) == 2**62


@pytest.mark.parametrize(("relation", "horizon"), [("replace_one", 3000), ("add_or_remove_one", 10)])
def test_no_row_waits_at_the_horizon_of_a_mixed_stream(relation, horizon):
    model, X = online(neighboring=relation, horizon=horizon), visits(3000)
    for start in range(0, 3000, 300):
        model.partial_fit(X[start : start + 300])
    assert len(model.blocks_) > 1
    assert model.blocks_[-1][1] == horizon
    assert (model.n_samples_waiting_ if relation == "replace_one" else model.n_ticks_waiting_) == 0


def test_how_steps_share_the_budget_does_not_move_the_first_block(monkeypatch):
    least = online().partial_fit(visits(1))._stream.least
    monkeypatch.setattr(_latent_planning, "_SHARES", dict.fromkeys(_latent_planning._SHARES, 1.0))
    assert online().partial_fit(visits(1))._stream.least == least
    assert online(epsilon=0.5).partial_fit(visits(1))._stream.least > 1.8 * least


# Before the first block


def test_samples_before_the_first_block_keep_the_rules():
    model = online().partial_fit(visits(3))
    assert not model.blocks_
    sample = model.sample(5000, random_state=0)
    assert not any(broken.rows for broken in rule_violations(sample, RULED).values())
    assert sample.dtypes.equals(visits(3).dtypes)
    assert set(sample["job"]) == {"none", "nurse", "pilot"}


def test_samples_before_the_first_block_meet_conditions():
    sample = online().partial_fit(visits(3)).sample(500, random_state=0, conditions={"job": "pilot", "age": (20, 30)})
    assert (sample["job"] == "pilot").all()
    assert sample["age"].between(20, 30).all()


# Rows on conditions


def test_rows_on_conditions_have_the_law_of_the_model_given_them():
    model = online().partial_fit(visits(4000))
    wanted = model.sample(4000, random_state=1, conditions={"age": (40, 49)})
    assert wanted["age"].between(40, 49).all()
    plain = model.sample(40_000, random_state=2)
    kept = plain[plain["age"].between(40, 49)]
    assert same_law(kept["job"].to_numpy(str), wanted["job"].to_numpy(str)) > ALARM


def test_batches_on_conditions_are_the_rows_of_the_sample():
    model = online().partial_fit(visits(3000))
    batches = list(model.sample_batches(700, 300, 5, 1000, conditions={"job": "nurse"}))
    assert pd.concat(batches, ignore_index=True).equals(model.sample(700, 5, 1000, conditions={"job": "nurse"}))


@pytest.mark.parametrize(
    ("model", "X", "match"),
    [
        (OnlineSynthesizer(), np.zeros((300, 2)), "conditions need a stream with"),
        (OnlineSynthesizer(strategy="paper"), np.zeros((300, 2)), "conditions need a stream with"),
        (online(dict(RULED), inner={"strategy": "scores"}), visits(300), "conditions need a stream with"),
        (online(), visits(3), "probability above 0"),
    ],
)
def test_conditions_that_cannot_be_met_are_refused(model, X, match):
    model.partial_fit(X)
    with pytest.raises(ValueError, match=match):
        model.sample(5, conditions={"age": (3, 9), "job": "pilot"})


def test_a_search_hands_conditions_on():
    search = PrivateSearchCV(LatentFactorSynthesizer(RULED), {"n_factors": [2, 4]}, epsilon=2.0, delta=1e-6).fit(visits(800))
    assert (search.sample(50, random_state=0, conditions={"job": "none"})["job"] == "none").all()
    other = PrivateSearchCV(LowDimSynthesizer(), {"n_components": [1, 2]}, epsilon=2.0).fit(np.random.default_rng(0).random((300, 3)))
    with pytest.raises(ValueError, match="conditions must be None for LowDimSynthesizer"):
        other.sample(5, conditions={0: 0.5})


# How rows come


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_a_later_column_without_any_cell_may_come_as_floats(relation):
    schema = {"age": (0, 99), "job": Nominal(["none", "nurse", "pilot"], nullable=True), "start": Date(*DAYS, nullable=True)}
    X = visits(3000)[list(schema)]
    empty = X[1000:].assign(job=np.nan, start=np.nan)
    assert empty["job"].dtype == empty["start"].dtype == float
    other = X[1000:].assign(job=pd.array([None] * 2000, dtype="string"), start=pd.NaT)
    models = [online(schema, neighboring=relation, random_state=0).partial_fit(X[:1000]).partial_fit(rows) for rows in (empty, other)]
    samples = [model.sample(1000, random_state=0) for model in models]
    assert samples[0].equals(samples[1])
    assert samples[0].dtypes.equals(X.dtypes)
    assert samples[0]["job"].isna().mean() > 0.5
    with pytest.raises(TypeError, match="job"):
        online(schema, neighboring=relation).partial_fit(empty)  # dtypes come back as they were at first


def test_floats_of_words_tell_nothing_of_their_cells():
    """Whatever numbers stand there: no error, and the same model."""
    X = visits(1500)
    rows = [X[1000:].assign(job=value) for value in (np.nan, 1.5)]
    samples = [online(random_state=0).partial_fit(X[:1000]).partial_fit(each).sample(200, random_state=0) for each in rows]
    assert samples[0].equals(samples[1])
    with pytest.raises(TypeError, match="job"):
        online().partial_fit(X[:1000]).partial_fit(X[1000:].assign(job=1))


def test_a_stream_of_very_many_columns_keeps_what_ties_them():
    """45 columns of two levels that a hidden fact ties: with independent columns the mean correlation of samples would be 0."""
    rng = np.random.default_rng(0)
    hidden = rng.random(6000)[:, None] < 0.5
    X = pd.DataFrame(np.where(rng.random((6000, 45)) < 0.1, rng.integers(0, 2, (6000, 45)), hidden), columns=[f"c{i}" for i in range(45)])
    model = online({name: [0, 1] for name in X.columns}, epsilon=4.0)
    for start in range(0, 6000, 1500):
        model.partial_fit(X[start : start + 1500])
    assert len(model.blocks_) > 1
    seen = np.corrcoef(model.sample(3000, random_state=0).to_numpy(float).T)[np.triu_indices(45, 1)]
    assert seen.mean() > 0.6  # 0.81 in the rows
