"""Start and span: what an `Inequality` orders is kept in every row, and how far apart it lies depends on other columns."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from skdpsynth import LatentFactorSynthesizer
from skdpsynth.domain import Continuous, Date, DateTime, Derived, Inequality, MissingTogether, Schema
from skdpsynth.metrics import rule_violations

N = 2000
RNG = np.random.default_rng(0)
BEGIN = np.datetime64("2022-01-01", "s") + RNG.integers(0, 690, N).astype("timedelta64[D]")
STAY = RNG.poisson(3, N)
LATER = np.maximum(BEGIN, np.datetime64("2022-03-01", "s"))
SECONDS = np.datetime64("2022-01-01", "s") + RNG.integers(0, 10**7, N)
PULSE = RNG.normal(75, 12, N)
OPEN, TWO_YEARS = (0.0, 1000.0), Date("2022-01-01", "2023-12-31")
# Of each the kinds, whether equal ones are excluded, the two columns, and by how much the mean difference may be off.
CASES = {
    "dates": (TWO_YEARS, TWO_YEARS, False, BEGIN, BEGIN + STAY.astype("timedelta64[D]"), 0.6),
    "dates, strict": (TWO_YEARS, TWO_YEARS, True, BEGIN, BEGIN + (1 + STAY).astype("timedelta64[D]"), 0.6),
    "dates with other bounds": (TWO_YEARS, Date("2022-03-01", "2024-02-29"), False, LATER, LATER + STAY.astype("timedelta64[D]"), 0.6),
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
    return [entry.name for entry in model.accountant_.ledger]


def mean_difference(table):
    """In days, seconds or units."""
    mean = (table["high"] - table["low"]).mean()
    is_date = isinstance(mean, pd.Timedelta) and (table["low"].dt.normalize() == table["low"]).all()
    return mean.total_seconds() / (86_400 if is_date else 1) if isinstance(mean, pd.Timedelta) else mean


@pytest.fixture(scope="module", params=list(CASES))
def case(request):
    return request.param, model_of(request.param)


@pytest.fixture(scope="module")
def stay_model():
    return model_of("dates")


def test_every_row_keeps_the_rule_and_the_mean_difference_is_kept_for_all_of_the_budget(case):
    name, model = case
    rows = model.sample(20_000, random_state=0)
    assert broken(rows, model.schema_) == 0
    assert not [name for name in steps_of(model) if "difference" in name]
    assert Fraction(5) - Fraction(1, 1000) < model.accountant_.spent <= Fraction(5)
    assert mean_difference(rows) == pytest.approx(mean_difference(table_of(*CASES[name][3:5])), abs=CASES[name][-1])


@pytest.mark.parametrize("wanted", ["high", "low", "both", "one"])
def test_rows_on_conditions_keep_the_rule(stay_model, wanted):
    month = ("2022-03-01", "2022-03-20")
    conditions = {"high": {"high": month}, "low": {"low": month}, "both": {"low": month, "high": ("2022-02-01", "2022-03-09")}}
    day = stay_model.sample(20_000, random_state=0)["high"].mode()[0]
    rows = stay_model.sample(3000, random_state=0, conditions=conditions.get(wanted, {"high": str(day.date())}))
    assert broken(rows, stay_model.schema_) == 0
    assert (rows["high"] - rows["low"]).dt.days.mean() < 7


def test_filled_cells_keep_the_rule_and_the_difference(case):
    name, model = case
    given = table_of(*CASES[name][3:5]).head(400).sample(frac=1, random_state=0)
    for gone in ("high", "low"):
        whole = model.impute(given.drop(columns=[gone]), random_state=0)
        # A given number at the end of what it may be leaves the other no value.
        assert broken(whole, model.schema_) <= 2
    assert name != "dates" or (whole["high"] - whole["low"]).dt.days.mean() == pytest.approx(3, abs=0.8)


def test_rows_that_break_the_rule_count_as_equal_ones():
    low, high = BEGIN, np.where(RNG.random(N) < 0.3, BEGIN - np.timedelta64(50, "D"), BEGIN + STAY.astype("timedelta64[D]"))
    schema = Schema({"low": TWO_YEARS, "high": TWO_YEARS, "ward": ["a", "b"]}, rules=[Inequality("low", "high")])
    model = LatentFactorSynthesizer(schema, epsilon=20.0, delta=1e-6, random_state=0, n_factors=2).fit(table_of(low, high))
    rows = model.sample(20_000, random_state=0)
    assert broken(rows, schema) == 0
    assert (rows["low"] == rows["high"]).mean() == pytest.approx(0.3 + 0.7 * np.exp(-3), abs=0.06)


def test_spans_depend_on_other_columns_and_keep_their_size_within_wide_bounds():
    rng, n = np.random.default_rng(0), 6000
    age, begin = rng.integers(18, 95, n), np.datetime64("2022-01-01", "m") + rng.integers(0, 10**6, n).astype("timedelta64[m]")
    minutes = np.ceil(rng.exponential(0.3 * age))
    table = pd.DataFrame({"age": age, "begin": begin, "end": begin + minutes.astype("timedelta64[m]")})
    ten_years = DateTime("2020-01-01", "2029-12-31", resolution="minute")
    schema = Schema(
        {"age": (18, 94), "begin": ten_years, "end": ten_years, "days": Derived("(end - begin) / 86400")},
        rules=[Inequality("begin", "end")],
    )
    model = LatentFactorSynthesizer(schema, epsilon=1.0, delta=1e-6, random_state=0, n_factors=4).fit(table.assign(days=0.0))
    rows = model.sample(20_000, random_state=0)
    made = (rows["end"] - rows["begin"]).dt.total_seconds() / 60
    assert made.median() == pytest.approx(np.median(minutes), rel=0.25)
    assert made.mean() == pytest.approx(minutes.mean(), rel=0.25)
    assert spearmanr(rows["age"], made)[0] == pytest.approx(spearmanr(age, minutes)[0], abs=0.12)
    np.testing.assert_allclose(rows["days"] * 1440, made, atol=1e-6)


def test_starts_that_are_missing_leave_ends_and_spans_as_they_are():
    rng, n = np.random.default_rng(0), 6000
    first, third = rng.integers(0, 900, n).astype(float), rng.poisson(9, n)
    table = pd.DataFrame({"a": first, "b": first + rng.poisson(3, n), "c": first + third}).assign(b=lambda t: np.minimum(t["b"], t["c"]))
    for name, share in (("a", 0.3), ("b", 0.5), ("c", 0.1)):
        table.loc[rng.random(n) < share, name] = np.nan
    kind = Continuous(0, 1000, nullable=True)
    schema = Schema(dict.fromkeys("abc", kind), rules=[Inequality("a", "b"), Inequality("b", "c")])
    model = LatentFactorSynthesizer(schema, epsilon=8.0, delta=1e-6, random_state=0, n_factors=4).fit(table)
    rows = model.sample(20_000, random_state=0)
    assert broken(rows, schema) == 0
    assert rows.isna().mean().tolist() == pytest.approx(table.isna().mean().tolist(), abs=0.03)
    assert (rows["c"] - rows["a"]).mean() == pytest.approx((table["c"] - table["a"]).mean(), rel=0.15)
    assert rows.mean().tolist() == pytest.approx(table.mean().tolist(), rel=0.05)
    on = model.sample(2000, random_state=0, conditions={"a": None, "c": (100, 200)})
    assert on["a"].isna().all()
    assert on["c"].between(100, 200).all()
    whole = model.impute(table.head(500), random_state=0)
    assert not whole.isna().any(axis=None)
    assert broken(whole, schema) == 0
    known = table.head(500).notna()
    pd.testing.assert_frame_equal(whole.where(known), table.head(500))


@pytest.mark.parametrize("together", [["low", "other"], ["high", "other"], ["low", "high"], ["low", "high", "other"]])
def test_columns_missing_together_with_those_that_are_ordered_are_so_in_every_row(together):
    rng = np.random.default_rng(0)
    low = rng.integers(0, 9, 1000).astype(float)
    table = pd.DataFrame(
        {"low": low, "high": np.minimum(low + rng.integers(0, 4, 1000), 9), "other": rng.integers(0, 9, 1000).astype(float)}
    )
    table.loc[rng.random(1000) < 0.3, together] = np.nan
    schema = Schema(dict.fromkeys(table, Continuous(0, 9, nullable=True)), [MissingTogether(together), "low <= high"])
    sample = LatentFactorSynthesizer(schema, epsilon=0.1, random_state=0).fit(table).sample(5000, random_state=0)
    assert [found.rows for found in rule_violations(sample, schema).values()] == [0, 0]
