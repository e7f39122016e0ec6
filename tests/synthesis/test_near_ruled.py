"""Columns near each other that one inequality orders: every row keeps it, and differences keep their law."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from internals import _latent_near, reach

from skdpsynth import LatentFactorSynthesizer, OnlineSynthesizer, load
from skdpsynth.domain import Continuous, Date, DateTime, Inequality, MissingTogether, Schema
from skdpsynth.metrics import rule_violations

pytestmark = [
    pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.InsecureRandomnessWarning"),
    pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.SmallSampleWarning"),
    pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.BudgetWarning"),
]
N = 2000
STEPS = ["counts of differences, coarse", "counts of differences"]
RNG = np.random.default_rng(0)
BEGIN = np.datetime64("2022-01-01", "s") + RNG.integers(0, 690, N).astype("timedelta64[D]")
STAY = RNG.poisson(3, N)
LATER = np.maximum(BEGIN, np.datetime64("2022-03-01", "s"))
SECONDS = np.datetime64("2022-01-01", "s") + RNG.integers(0, 10**7, N)
PULSE = RNG.normal(75, 12, N)
OPEN, DAYS = (0.0, 1000.0), Date("2022-01-01", "2023-12-31")
# Of each the kinds, whether equal ones are excluded, the two columns, and by how much the mean difference may be off.
CASES = {
    "dates": (DAYS, DAYS, False, BEGIN, BEGIN + STAY.astype("timedelta64[D]"), 0.6),
    "dates, strict": (DAYS, DAYS, True, BEGIN, BEGIN + (1 + STAY).astype("timedelta64[D]"), 0.6),
    "dates with other bounds": (DAYS, Date("2022-03-01", "2024-02-29"), False, LATER, LATER + STAY.astype("timedelta64[D]"), 0.6),
    "times to the second": (
        *[DateTime("2022-01-01", "2022-06-01", resolution="second")] * 2,
        *(True, SECONDS, SECONDS + RNG.integers(1, 90_000, N), 30_000.0),
    ),
    "whole numbers that may be missing": (
        *(Continuous(0, 900, nullable=True), Continuous(-20, 950, nullable=True), False),
        *(np.where(RNG.random(N) < 0.2, np.nan, np.arange(N) % 890), np.where(RNG.random(N) < 0.2, np.nan, np.arange(N) % 890 + STAY), 0.6),
    ),
    "floats": (OPEN, OPEN, False, PULSE * 7, PULSE * 7 + np.abs(RNG.normal(0, 1, N)), 0.6),
    "floats of 32 bits, half of them equal": (
        *(OPEN, (10.0, 990.0), False, (PULSE * 7).astype("f4")),
        *((PULSE * 7).astype("f4") + np.where(RNG.random(N) < 0.5, 0, RNG.random(N)).astype("f4"), 0.6),
    ),
}


def table_of(low, high):
    return pd.DataFrame({"low": low, "high": high, "ward": np.where(np.arange(N) % 3 == 0, "a", "b")})


def model_of(name, **settings):
    low, high, is_strict, first, second, _ = CASES[name]
    schema = Schema({"low": low, "high": high, "ward": ["a", "b"]}, rules=[Inequality("low", "high", strict=is_strict)])
    settings = {"epsilon": 5.0, "delta": 1e-6, "random_state": 0, "n_factors": 2, **settings}
    return LatentFactorSynthesizer(schema, **settings).fit(table_of(first, second))


def broken(table, schema):
    return sum(found.rows for found in rule_violations(table, schema).values())


def steps_of(model):
    return [entry.name for entry in model.accountant_.ledger if "difference" in entry.name]


def mean_difference(table):
    """In days, seconds or units."""
    mean = (table["high"] - table["low"]).mean()
    return (
        mean.total_seconds() / (86_400 if (table["low"].dt.normalize() == table["low"]).all() else 1)
        if isinstance(mean, pd.Timedelta)
        else mean
    )


@pytest.fixture(scope="module", params=list(CASES))
def case(request):
    return request.param, model_of(request.param)


@pytest.fixture(scope="module")
def stays():
    return model_of("dates")


def test_every_row_keeps_the_rule_and_the_mean_difference_is_kept(case):
    name, model = case
    rows = model.sample(20_000, random_state=0)
    assert broken(rows, model.schema_) == 0
    assert steps_of(model) == STEPS
    assert mean_difference(rows) == pytest.approx(mean_difference(table_of(*CASES[name][3:5])), abs=CASES[name][-1])


@pytest.mark.parametrize("wanted", ["high", "low", "both", "one"])
def test_rows_on_conditions_keep_the_rule(stays, wanted):
    month = ("2022-03-01", "2022-03-20")
    conditions = {"high": {"high": month}, "low": {"low": month}, "both": {"low": month, "high": ("2022-02-01", "2022-03-09")}}
    rows = stays.sample(3000, random_state=0, conditions=conditions.get(wanted, {"high": "2022-03-09"}))
    assert broken(rows, stays.schema_) == 0
    assert (rows["high"] - rows["low"]).dt.days.mean() < 7


def test_filled_cells_keep_the_rule(case):
    name, model = case
    given = table_of(*CASES[name][3:5]).head(400).sample(frac=1, random_state=0)
    for gone in ("high", "low"):
        whole = model.impute(given.drop(columns=[gone]), random_state=0)
        # A given number at the end of what it may be leaves the other no value.
        assert broken(whole, model.schema_) <= 2


def test_filled_ends_are_near_the_beginnings(stays):
    given = table_of(BEGIN, BEGIN)
    whole = stays.impute(given.drop(columns=["high"]), random_state=0)
    assert (whole["high"] - whole["low"]).dt.days.mean() == pytest.approx(3, abs=0.6)


def test_saved_models_batches_and_threads_draw_the_same_rows(stays, tmp_path):
    stays.save(tmp_path / "model.zip")
    rows = stays.sample(70_000, random_state=2)
    pd.testing.assert_frame_equal(load(tmp_path / "model.zip").sample(70_000, random_state=2), rows)
    pd.testing.assert_frame_equal(pd.concat(stays.sample_batches(70_000, 9000, random_state=2), ignore_index=True), rows)
    assert broken(rows, stays.schema_) == 0


def test_blocks_of_a_stream_keep_the_rule_and_the_difference():
    schema = Schema({"low": DAYS, "high": DAYS, "ward": ["a", "b"]}, rules=[Inequality("low", "high")])
    stream = OnlineSynthesizer(synthesizer=LatentFactorSynthesizer(schema, n_factors=2), epsilon=20.0, delta=1e-6, random_state=0)
    table = table_of(*CASES["dates"][3:5])
    for start in range(0, N, 500):
        stream.partial_fit(table.iloc[start : start + 500])
    rows = stream.sample(5000, random_state=0)
    assert broken(rows, schema) == 0
    assert (rows["high"] - rows["low"]).dt.days.mean() < 8


def test_without_noise_every_row_keeps_the_rule():
    model = model_of("dates, strict", epsilon=float("inf"), delta=0.0)
    rows = model.sample(20_000, random_state=0)
    assert broken(rows, model.schema_) == 0
    assert (rows["high"] - rows["low"]).dt.days.mean() == pytest.approx((1 + STAY).mean(), abs=0.2)


@pytest.mark.parametrize("neighboring", ["replace_one", "add_or_remove_one"])
def test_all_of_the_budget_is_spent_and_no_more(neighboring):
    ledger = model_of("dates", neighboring=neighboring).accountant_
    assert Fraction(5) - Fraction(1, 1000) < ledger.spent <= Fraction(5)


def test_rows_that_break_the_rule_count_as_equal_ones():
    low, high = BEGIN, np.where(RNG.random(N) < 0.3, BEGIN - np.timedelta64(50, "D"), BEGIN + STAY.astype("timedelta64[D]"))
    schema = Schema({"low": DAYS, "high": DAYS, "ward": ["a", "b"]}, rules=[Inequality("low", "high")])
    model = LatentFactorSynthesizer(schema, epsilon=20.0, delta=1e-6, random_state=0, n_factors=2).fit(table_of(low, high))
    rows = model.sample(20_000, random_state=0)
    assert broken(rows, schema) == 0
    assert (rows["low"] == rows["high"]).mean() == pytest.approx(0.3 + 0.7 * np.exp(-3), abs=0.06)


def test_columns_that_another_rule_names_have_no_counts_of_differences():
    kind = Continuous(0, 900, nullable=True)
    first, second = CASES["whole numbers that may be missing"][3:5]
    schema = Schema({"low": kind, "high": kind, "ward": ["a", "b"]}, rules=[Inequality("low", "high"), MissingTogether(["low", "high"])])
    model = LatentFactorSynthesizer(schema, epsilon=5.0, delta=1e-6, random_state=0, n_factors=2).fit(table_of(first, second))
    assert steps_of(model) == []
    assert broken(model.sample(5000, random_state=0), schema) == 0


def test_where_noise_leaves_no_more_columns_that_a_rule_orders_are_looked_at_alone(monkeypatch):
    kinds = {"low": DAYS, "high": DAYS, "pulse": (20.0, 140.0), "again": (20.0, 140.0)}
    schema, table = Schema(kinds, rules=[Inequality("low", "high")]), table_of(*CASES["dates"][3:5]).assign(pulse=PULSE, again=PULSE)
    model = LatentFactorSynthesizer(schema, epsilon=5.0, delta=1e-6, random_state=0, n_factors=2)
    both = model.fit(table[list(kinds)])._model.near
    monkeypatch.setattr(_latent_near, "can_tell", lambda n_pairs, *_: n_pairs == 1)
    one = model.fit(table[list(kinds)])._model.near
    assert {frozenset([near.first, near.second]) for near in both} == {frozenset(["pulse", "again"]), frozenset(["low", "high"])}
    assert {frozenset([near.first, near.second]) for near in one} == {frozenset(["low", "high"])}


def test_differences_beyond_all_that_are_clear_of_noise_are_none():
    """Of 16 cells: where counts end, at powers of two; noise of one deviation more moves nothing."""
    counts = np.zeros(16)
    counts[:5] = [900, 500, 300, 200, 100]

    def tree(cells):
        return [None, cells.reshape(4, 4).sum(axis=1), None, cells]

    assert reach(tree(counts), 0.0) == reach(tree(counts), 1.0) == 8
    assert reach(tree(counts), 40.0**2) == 4  # 100 rows are not clear of it
    counts[15] = 0.5
    assert reach(tree(counts), 0.0) == 16
    assert reach(tree(counts), 1.0) == 8
    assert reach(tree(np.array([5.0] + [0.0] * 15)), 0.0) == 1
