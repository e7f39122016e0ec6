"""Streams of mixed tables: how they are read, where blocks end, what a row can change, and one model of all blocks."""

import itertools
import math
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from internals import length_until_horizon
from laws import ALARM, refuses, same_law

from skdpsynth import LatentFactorSynthesizer, LowDimSynthesizer, OnlineSynthesizer, PrivacyAccountant, load
from skdpsynth.domain import Continuous, Date, Identifier, Impossible, Inequality, Nominal, Schema
from skdpsynth.exceptions import SmallSampleWarning
from skdpsynth.metrics import rule_violations
from skdpsynth.model_selection import PrivateSearchCV

SCHEMA = {
    "age": (18, 99),
    "city": Nominal(["a", "b", "c"], nullable=True),
    "income": Continuous(0.0, 100.0, nullable=True),
    "day": Date("2020-01-01", "2020-12-31"),
    "ok": [False, True],
}
LEVELS = {"a": [0, 1], "b": [0, 1, 2], "c": [0, 1]}


def visits(n, seed=0):
    """Rows of every kind, in which one hidden fact ties the columns."""
    rng = np.random.default_rng(seed)
    is_ill = rng.random(n) < 0.4
    days = pd.to_timedelta(np.where(is_ill, rng.integers(0, 90, n), rng.integers(60, 365, n)), unit="D")
    city = np.where(is_ill, "a", rng.choice(["b", "c"], n)).astype(object)
    city[rng.random(n) < 0.05] = None
    income = np.where(rng.random(n) < 0.1, np.nan, rng.gamma(2, 10, n).clip(0, 100))
    age = np.where(is_ill, rng.integers(18, 50, n), rng.integers(40, 99, n))
    return pd.DataFrame({"age": age, "city": city, "income": income, "day": pd.Timestamp("2020-01-01") + days, "ok": is_ill})


def levels(n, seed=0, flip=0.1):
    """Three columns of levels, tied to each other."""
    rng = np.random.default_rng(seed)
    hidden = rng.random(n) < 0.3
    columns = {name: np.where(rng.random(n) < flip, rng.integers(0, len(of), n), hidden) for name, of in LEVELS.items()}
    return pd.DataFrame(columns)


def online(schema=SCHEMA, inner=None, **settings):
    settings = {"epsilon": 1.0, "delta": 1e-6, **settings}
    return OnlineSynthesizer(synthesizer=LatentFactorSynthesizer(schema, **(inner or {})), **settings)


def ruled(schema=None, inner=None, **settings):
    return online(RULED if schema is None else schema, inner, **settings)


def fed(model, X, cuts):
    for start, stop in itertools.pairwise(cuts):
        model.partial_fit(X[start:stop])
    return model


def public(model):
    """All that a caller can see without a private name, for one seed of the sample."""
    facts = {name: repr(value) for name, value in vars(model).items() if not name.startswith("_")}
    facts["accountant_"] = [str(entry) for entry, _ in model.accountant_.lines()]
    return facts, model.sample(200, random_state=3).to_csv()


def test_one_row_at_a_time_odd_batches_and_one_call_give_the_same():
    X = visits(1500)
    whole = online(random_state=5).partial_fit(X)
    start = whole.blocks_[1][0] - 50  # one by one about the end of a block
    batches = fed(online(random_state=5), X, [0, 0, 1, 2, 400, 400, 1111, 1500, 1500])
    single = fed(online(random_state=5), X, [0, *range(start, start + 100), 1500])
    assert public(whole) == public(batches) == public(single)


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_there_may_be_no_rows_at_first_and_later_and_all_blocks_together_cost_what_one_does(relation):
    X, shared = visits(2000), PrivacyAccountant(2, 1e-6, neighboring=relation)
    model = online(neighboring=relation, accountant=shared)
    for rows in (X[:0], X[:0], X[:1500], X[:0], X[1500:]):
        sample = model.partial_fit(rows).sample(200, random_state=0)
        assert sample.dtypes.equals(X.dtypes)
    assert {each.problem for each in Schema(SCHEMA).check(sample)} <= {"constant"}
    assert sample[["city", "income"]].isna().any().all()
    assert model.n_samples_seen_ == 2000 or relation == "add_or_remove_one"
    assert len(model.blocks_) > 1
    assert shared.spent == model.accountant_.spent == 1
    refuses(ValueError, "n_samples must be given where no row has come yet", online().partial_fit(X[:0]).sample)
    first = online(inner={"stratify": "ok"}, delta=0, epsilon=100.0, neighboring="add_or_remove_one")  # whose noise nobody sees
    assert len(first.partial_fit(X[:0]).partial_fit(X[:30]).sample(7)) == 7


def test_identifiers_are_never_read_and_come_back_as_the_schema_says():
    X = visits(1500).assign(id=np.arange(1500), label=[f"p{i}" for i in range(1500)])
    model = online({**SCHEMA, "id": Identifier(), "label": Identifier(labels=True)}).partial_fit(X).partial_fit(X)
    sample = model.sample(30)
    assert list(sample.columns) == [*SCHEMA, "label"]
    assert sample["label"].is_unique


def test_rows_that_wait_are_shown_where_their_number_is_public():
    X = visits(2000)
    model, ticks = online().partial_fit(X), fed(online(neighboring="add_or_remove_one"), X, range(0, 2001, 400))
    assert model.n_samples_waiting_ == 2000 - model.blocks_[-1][1]
    assert ticks.n_ticks_waiting_ == 5 - ticks.blocks_[-1][1]
    assert not hasattr(model, "n_ticks_waiting_")
    assert not hasattr(ticks, "n_samples_waiting_")


@pytest.mark.parametrize(
    ("relation", "n", "cuts", "n_warnings"),
    [("replace_one", 300, [0, 10, 20, 300], 1), ("add_or_remove_one", 300, range(0, 301, 50), 1), ("replace_one", 3000, [0, 3000], 0)],
)
def test_small_samples_are_warned_of_once(relation, n, cuts, n_warnings):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        fed(online(neighboring=relation), visits(n), cuts).sample(10)
    few = [str(each.message) for each in said if issubclass(each.category, SmallSampleWarning)]
    assert len(few) == n_warnings
    assert relation != "replace_one" or all("until" in each for each in few)


def test_rows_of_other_columns_change_nothing():
    X = visits(1500)
    model = online(random_state=1).partial_fit(X)
    before = public(model)
    for rows in (X.drop(columns="age"), X.rename(columns={"age": "years"}), X[list(X.columns[::-1])]):
        refuses(ValueError, r"feature names|columns", model.partial_fit, rows)
    assert public(model) == before


@pytest.mark.parametrize(
    ("relation", "at"),
    [
        pytest.param("replace_one", 700, marks=pytest.mark.must),
        pytest.param("add_or_remove_one", 3, marks=pytest.mark.must),
        *(("replace_one", 0), ("replace_one", 1999), ("add_or_remove_one", 7)),
    ],
)
def test_a_row_changes_the_releases_of_one_block_by_what_their_noise_covers_and_nothing_else(relation, at, door):
    """A row is replaced, or there is one more in a tick."""
    X = visits(2000)
    ticks = [X[start : start + 250] for start in range(0, 2000, 250)]
    others = list(ticks)
    if relation == "replace_one":
        Y = X.copy()
        for name, value in zip(X.columns, (98, None, np.nan, pd.Timestamp("2020-12-31"), not X["ok"][at]), strict=True):
            Y.loc[at, name] = value
        others[at // 250] = Y[at // 250 * 250 : at // 250 * 250 + 250]
    else:
        others[at] = pd.concat([ticks[at], X[:1]])

    def along(batches):
        model = online(random_state=1, neighboring=relation)
        return [public(model.partial_fit(rows)) for rows in batches], model

    seen, model = along(ticks)
    answers = door.take()
    door.replay(answers)
    assert along(others)[0] == seen
    moves = [np.abs(first.values - second.values) for first, second in zip(answers, door.take(), strict=True)]
    for draw, move in zip(answers, moves, strict=True):
        assert move.sum() <= draw.sensitivity.l1
        assert (move**2).sum() <= draw.sensitivity.l2_squared
    changed = np.flatnonzero([move.any() for move in moves])
    assert bool(len(changed)) == (at < model.blocks_[-1][1])
    names = [draw.name for draw in answers[min(changed, default=0) : max(changed, default=-1) + 1]]
    assert len(set(names)) == len(names)  # the steps of one block


def test_without_noise_the_joined_tables_are_the_counts_of_all_rows_that_are_in_blocks():
    X = levels(3000)
    model = online(LEVELS, epsilon=float("inf")).partial_fit(X)
    union = model._stream.model(0)._counted
    stop = model.blocks_[-1][1]
    scale = union.n_samples / stop
    assert len(model.blocks_) > 3
    seen = X[:stop]
    last = seen[model.blocks_[-1][0] :]
    waiting = round(4 * model.n_samples_waiting_ / len(last)) / 4
    for place, name in enumerate(LEVELS):
        exact = np.bincount(seen[name], minlength=len(LEVELS[name])) + waiting * np.bincount(last[name], minlength=len(LEVELS[name]))
        assert np.allclose(union.one_way.tables[(place,)][0], exact)
    assert scale >= 1


def test_later_blocks_do_not_buy_the_bins_that_earlier_ones_released():
    model = online().partial_fit(visits(6000))
    steps = [{entry.name for entry in block.accountant_.ledger} for *_, block in model.blocks_]
    reused = [place for place, names in enumerate(steps) if "counts of cells" not in names]
    assert "counts of cells" in steps[0]
    assert reused
    for place in reused:
        assert np.array_equal(model.blocks_[place][2].bins_["age"], model.blocks_[place - 1][2].bins_["age"])
    # What was saved goes to the tables.
    tables = [
        next(entry.scale for entry in model.blocks_[place][2].accountant_.ledger if entry.name.endswith("of pairs"))
        for place in (0, reused[0])
    ]
    assert tables[1] < tables[0]


def test_blocks_that_differ_keep_what_is_their_own():
    """Half of the rows are of one kind, then of another: shares of the union within .05, though the mean of the blocks is far off."""
    first, second = levels(4000, 0, flip=0.0), levels(6000, 1, flip=0.0)
    first["a"], second["a"] = 0, 1
    X = pd.concat([first, second], ignore_index=True)
    model = online(LEVELS, epsilon=4.0, horizon=len(X)).partial_fit(X)  # no row waits
    seen = X["a"].mean()
    assert model.sample(20_000, random_state=0)["a"].mean() == pytest.approx(seen, abs=0.05)
    assert model.sample(5000, random_state=0, since=9000)["a"].mean() > 0.9


def test_a_window_forgets_what_is_older_and_keeps_few_blocks():
    old, new = levels(6000, 0), levels(6000, 1)
    old["a"], new["a"] = 0, 1
    model = online(LEVELS, window=1500)
    sizes = []
    for rows in [old[i : i + 500] for i in range(0, 6000, 500)] + [new[i : i + 500] for i in range(0, 6000, 500)]:
        model.partial_fit(rows)
        sizes.append((len(model.blocks_), len(model.accountant_.ledger)))
    assert model.sample(3000, random_state=0)["a"].mean() > 0.9
    assert max(n for n, _ in sizes[12:]) <= max(n for n, _ in sizes[:12])
    assert max(n for _, n in sizes[12:]) <= max(n for _, n in sizes[:12])


def test_a_stratified_stream_is_joined_class_by_class():
    model = online(inner={"stratify": "ok"}).partial_fit(visits(4000))
    sample = model.sample(4000, random_state=0)
    assert sample[sample["ok"]]["age"].mean() < sample[~sample["ok"]]["age"].mean() - 10


def test_few_models_are_kept_and_none_is_saved_nor_made_for_the_published_route():
    model = online().partial_fit(visits(2000))
    for since in (0, 1000, 1500, 1900):
        model.sample(3, since=since)
    assert 0 < len(model._stream.unions) <= 2
    assert not pickle.loads(pickle.dumps(model))._stream.unions
    mixed = online(inner={"strategy": "scores"}).partial_fit(visits(300))
    assert len(mixed.blocks_) > 2
    assert mixed.sample(100).dtypes.equals(visits(300).dtypes)
    assert not mixed._stream.unions


@pytest.mark.parametrize("prior", [None, visits(500, 7)], ids=["alone", "with a prior"])
def test_a_saved_stream_samples_the_same_and_goes_on(prior, tmp_path):
    X = visits(4500)
    model = online(inner={"prior": prior}, random_state=2).partial_fit(X[:2000])
    expected = model.sample(100, random_state=0)
    model.save(tmp_path / "stream.zip")
    again = load(tmp_path / "stream.zip").set_params(random_state=2)
    assert again.sample(100, random_state=0).equals(expected)
    assert again.n_samples_waiting_ == model.n_samples_waiting_
    later = [each.partial_fit(X[2000:]).sample(100, random_state=0) for each in (model, again)]
    assert prior is not None or later[0].equals(later[1])  # rows of a prior are not saved, so later blocks have none
    assert len(model.blocks_) == len(again.blocks_) > len(load(tmp_path / "stream.zip").blocks_) > 0


def test_a_pickle_does_not_tell_the_order_of_open_rows():
    X = visits(50)
    streams = [pickle.loads(pickle.dumps(online(random_state=1).partial_fit(rows)))._stream for rows in (X, X[::-1])]
    for first, second in zip(*(stream._buffer for stream in streams), strict=True):
        assert np.array_equal(first, second, equal_nan=first.dtype.kind == "f")


def test_score_and_evaluate_read_mixed_rows():
    X = visits(2000)
    model = online().partial_fit(X)
    assert -1 < model.score(X) < 0
    assert model.evaluate(X).broken == {}


DAYS = ("2020-01-01", "2020-12-31")
RULED = Schema(
    {"age": (0, 99), "job": ["none", "nurse", "pilot"], "start": Date(*DAYS), "end": Date(*DAYS)},
    rules=[Impossible({"age": (0, 15), "job": ["nurse", "pilot"]}), Inequality("start", "end")],
)


def stays(n, seed=0):
    rng = np.random.default_rng(seed)
    age, start = rng.integers(0, 99, n), rng.integers(0, 300, n)
    job = np.where(age < 16, "none", rng.choice(["none", "nurse", "pilot"], n))
    days = [pd.Timestamp(DAYS[0]) + pd.to_timedelta(number, unit="D") for number in (start, start + rng.integers(0, 60, n))]
    return pd.DataFrame({"age": age, "job": pd.array(job, dtype="string"), "start": days[0], "end": days[1]})


@pytest.mark.parametrize(("first", "growth"), list(itertools.product([1, 16, 528], [1.25, 1.5, 2.25, 4.0])))
def test_a_block_ends_with_the_horizon_and_none_grows_far_from_what_it_shall(first, growth):
    for horizon in [first, first + 1, 2 * first, *(round(first * 1.37**k) for k in range(1, 25))]:
        ends = [0]
        while horizon - ends[-1] >= max(first, length_until_horizon(ends[-1], first, growth, horizon) if ends[-1] < horizon else math.inf):
            ends.append(ends[-1] + max(first, length_until_horizon(ends[-1], first, growth, horizon)))
        # Of a stream of few rows a rest that makes no block may be left.
        assert horizon - ends[-1] < first
        if horizon > 40 * first:
            assert ends[-1] == horizon
        for before, end in itertools.pairwise(ends[1:]):
            if before * (math.sqrt(growth) - 1) > first:
                assert before * math.sqrt(growth) - 1 <= end <= before * growth**2 + 1


@pytest.mark.parametrize(("relation", "horizon"), [("replace_one", 3000), ("add_or_remove_one", 10)])
def test_no_row_waits_at_the_horizon_of_a_mixed_stream(relation, horizon):
    model, X = ruled(neighboring=relation, horizon=horizon), stays(3000)
    for start in range(0, 3000, 300):
        model.partial_fit(X[start : start + 300])
    assert len(model.blocks_) > 1
    assert model.blocks_[-1][1] == horizon
    assert (model.n_samples_waiting_ if relation == "replace_one" else model.n_ticks_waiting_) == 0


def test_samples_before_the_first_block_keep_the_rules_and_meet_conditions():
    model = ruled().partial_fit(stays(3))
    assert not model.blocks_
    sample = model.sample(5000, random_state=0)
    assert not any(broken.rows for broken in rule_violations(sample, RULED).values())
    assert sample.dtypes.equals(stays(3).dtypes)
    assert set(sample["job"]) == {"none", "nurse", "pilot"}
    some = model.sample(500, random_state=0, conditions={"job": "pilot", "age": (20, 30)})
    assert (some["job"] == "pilot").all()
    assert some["age"].between(20, 30).all()


def test_rows_on_conditions_have_the_law_of_the_model_given_them_and_come_in_batches_too():
    model = ruled().partial_fit(stays(4000))
    wanted = model.sample(4000, random_state=1, conditions={"age": (40, 49)})
    assert wanted["age"].between(40, 49).all()
    plain = model.sample(40_000, random_state=2)
    kept = plain[plain["age"].between(40, 49)]
    assert same_law(kept["job"].to_numpy(str), wanted["job"].to_numpy(str)) > ALARM
    batches = list(model.sample_batches(700, 300, 5, 1000, conditions={"job": "nurse"}))
    assert pd.concat(batches, ignore_index=True).equals(model.sample(700, 5, 1000, conditions={"job": "nurse"}))


@pytest.mark.parametrize(
    ("model", "X", "match"),
    [
        (OnlineSynthesizer(), np.zeros((300, 2)), "conditions need a stream with"),
        (OnlineSynthesizer(strategy="paper"), np.zeros((300, 2)), "conditions need a stream with"),
        (ruled(dict(RULED), inner={"strategy": "scores"}), stays(300), "conditions need a stream with"),
        (ruled(), stays(3), "probability above 0"),
    ],
)
def test_conditions_that_cannot_be_met_are_refused(model, X, match):
    model.partial_fit(X)
    refuses(ValueError, match, model.sample, 5, conditions={"age": (3, 9), "job": "pilot"})


def test_a_search_hands_conditions_on():
    search = PrivateSearchCV(LatentFactorSynthesizer(RULED), {"n_factors": [2, 4]}, epsilon=2.0, delta=1e-6).fit(stays(800))
    assert (search.sample(50, random_state=0, conditions={"job": "none"})["job"] == "none").all()
    other = PrivateSearchCV(LowDimSynthesizer(), {"n_components": [1, 2]}, epsilon=2.0).fit(np.random.default_rng(0).random((300, 3)))
    refuses(ValueError, "conditions must be None for LowDimSynthesizer", other.sample, 5, conditions={0: 0.5})


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_a_later_column_without_any_cell_may_come_as_floats(relation):
    schema = {"age": (0, 99), "job": Nominal(["none", "nurse", "pilot"], nullable=True), "start": Date(*DAYS, nullable=True)}
    X = stays(3000)[list(schema)]
    empty = X[1000:].assign(job=np.nan, start=np.nan)
    assert empty["job"].dtype == empty["start"].dtype == float
    other = X[1000:].assign(job=pd.array([None] * 2000, dtype="string"), start=pd.NaT)
    models = [ruled(schema, neighboring=relation, random_state=0).partial_fit(X[:1000]).partial_fit(rows) for rows in (empty, other)]
    samples = [model.sample(1000, random_state=0) for model in models]
    assert samples[0].equals(samples[1])
    assert samples[0].dtypes.equals(X.dtypes)
    assert samples[0]["job"].isna().mean() > 0.5
    first = ruled(schema, neighboring=relation, random_state=0).partial_fit(empty).sample(10)
    assert first.dtypes["job"] == pd.Series(["a"]).dtype


def test_floats_of_words_tell_nothing_of_their_cells():
    """Whatever numbers stand there: no error, and the same model."""
    X = stays(1500)
    rows = [X[1000:].assign(job=value) for value in (np.nan, 1.5)]
    samples = [ruled(random_state=0).partial_fit(X[:1000]).partial_fit(each).sample(200, random_state=0) for each in rows]
    assert samples[0].equals(samples[1])
    refuses(TypeError, "job", ruled().partial_fit(X[:1000]).partial_fit, X[1000:].assign(job=pd.array([1] * 500, "Int64")))


def test_a_stream_of_very_many_columns_keeps_what_ties_them():
    """45 columns of two levels that a hidden fact ties: with independent columns the mean correlation of samples would be 0."""
    rng = np.random.default_rng(0)
    hidden = rng.random(6000)[:, None] < 0.5
    X = pd.DataFrame(np.where(rng.random((6000, 45)) < 0.1, rng.integers(0, 2, (6000, 45)), hidden), columns=[f"c{i}" for i in range(45)])
    model = ruled({name: [0, 1] for name in X.columns}, epsilon=4.0)
    for start in range(0, 6000, 1500):
        model.partial_fit(X[start : start + 1500])
    assert len(model.blocks_) > 1
    seen = np.corrcoef(model.sample(3000, random_state=0).to_numpy(float).T)[np.triu_indices(45, 1)]
    assert seen.mean() > 0.6  # 0.81 in the rows
