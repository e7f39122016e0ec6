"""Columns of numbers near each other, whether or not a rule orders them: what is released, and what synthetic rows keep."""

import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from internals import _latent_near, reach, spread_of
from laws import kept_beside_answers

from skdpsynth import LatentFactorSynthesizer, OnlineSynthesizer, load
from skdpsynth.domain import Continuous, Date, DateTime, Impossible, Inequality, MissingTogether, Schema
from skdpsynth.exceptions import InsecureRandomnessWarning
from skdpsynth.metrics import rule_violations

all_fits = pytest.mark.all_fits  # so that copies stay copies
DAYS = Date("2020-01-01", "2024-12-31")
SCHEMA = Schema({"begin": DAYS, "end": DAYS, "pulse": (20.0, 140.0), "again": Continuous(20.0, 140.0, nullable=True), "ward": ["a", "b"]})
STEPS = ["counts of differences, coarse", "counts of differences"]


def stays(n=6000, seed=0):
    rng = np.random.default_rng(seed)
    begin = np.datetime64("2020-01-01") + rng.integers(0, 1700, n)
    pulse = rng.normal(75, 12, n)
    again = np.where(rng.random(n) < 0.2, np.nan, pulse + rng.normal(0, 1, n))
    columns = {"begin": begin, "end": begin + rng.geometric(0.2, n).clip(0, 100), "pulse": pulse, "again": again}
    return pd.DataFrame({**columns, "ward": rng.choice(["a", "b"], n)})


def fitted(schema=SCHEMA, table=None, epsilon=5.0, **parameters):
    model = LatentFactorSynthesizer(schema, epsilon=epsilon, delta=1e-6, random_state=0, n_factors=4, **parameters)
    return model.fit(stays() if table is None else table)


def steps_of(model):
    return [entry.name for entry in model.accountant_.ledger]


@pytest.fixture(scope="module")
def model():
    with pytest.warns(InsecureRandomnessWarning):
        return fitted()


@all_fits
def test_hardly_a_row_ends_before_it_begins(model):
    rows = model.sample(20_000, random_state=0)
    assert (rows["end"] < rows["begin"]).mean() < 0.02
    assert (rows["end"] - rows["begin"]).dt.days.median() == pytest.approx(4, abs=1)


@all_fits
def test_copies_of_a_measurement_stay_copies(model):
    rows = model.sample(20_000, random_state=0)
    assert rows["pulse"].corr(rows["again"]) > 0.85  # of eight fits .942 to .991, by noise in differences that are far; of columns apart 0
    assert (rows["pulse"] - rows["again"]).abs().median() == pytest.approx(0.67, abs=0.2)
    assert rows["again"].isna().mean() == pytest.approx(0.2, abs=0.02)


@all_fits
def test_all_of_the_budget_is_spent_and_what_pairs_give_up_is_little(model):
    assert [name for name in steps_of(model) if "difference" in name] == STEPS
    assert Fraction(5) - Fraction(1, 1000) < model.accountant_.spent <= Fraction(5)
    losses = {entry.name: entry.loss.rho for entry in model.accountant_.ledger if entry.loss is not None}
    of_pairs = next(loss for name, loss in losses.items() if name.endswith("of pairs"))
    whole = of_pairs + sum(losses[step] for step in STEPS)
    assert float(of_pairs / whole) == pytest.approx(0.99 * 0.95)


@all_fits
def test_conditions_and_filled_cells_keep_to_the_difference(model):
    rows = model.sample(2000, random_state=1, conditions={"end": ("2022-03-01", "2022-03-31")})
    assert rows["end"].between("2022-03-01", "2022-03-31").all()
    assert (rows["end"] < rows["begin"]).mean() < 0.05
    given = stays(500, 1)
    whole = model.impute(given.drop(columns=["end"]), random_state=0)
    assert (whole["end"] < given["begin"]).mean() < 0.05
    assert ((whole["end"] - given["begin"]).dt.days <= 60).mean() > 0.9


def test_a_table_in_chunks_has_the_same_model(tmp_path, hasty):
    pytest.importorskip("pyarrow")  # reads files of CSV
    path = tmp_path / "stays.csv"
    stays(3000).to_csv(path, index=False)
    model, other = fitted(table=stays(3000)), fitted(table=path)
    for name, edges in model.bins_.items():
        np.testing.assert_array_equal(edges, other.bins_[name])
    for near, same in zip(model._model.near, other._model.near, strict=True):
        np.testing.assert_array_equal(near.mass, same.mass)


@pytest.mark.parametrize("case", ["other scales", "rules", "much noise", "one number"])
def test_where_no_columns_can_be_near_nothing_is_bought_and_nothing_changes(case, monkeypatch, hasty):
    table, schema, epsilon = stays(2000), SCHEMA, 8.0
    if case == "other scales":
        schema = Schema({**SCHEMA, "end": Date("2010-01-01", "2024-12-31"), "again": Continuous(0.0, 1000.0, nullable=True)})
    elif case == "rules":
        first, last = Impossible({"end": "2020-01-01"}), Impossible({"pulse": (139.0, None)})
        schema = Schema(dict(SCHEMA), rules=[Inequality("begin", "end"), first, Inequality("pulse", "again"), last])
    elif case == "much noise":
        epsilon = 0.05
    else:
        table, schema = table[["begin", "ward"]], Schema({name: SCHEMA[name] for name in ("begin", "ward")})
    one = fitted(schema, table, epsilon)
    monkeypatch.setattr(_latent_near, "candidates", lambda plan: [])
    other = fitted(schema, table, epsilon)
    assert steps_of(one) == steps_of(other)
    pd.testing.assert_frame_equal(one.sample(300, random_state=0), other.sample(300, random_state=0))


def test_columns_that_are_not_near_cost_a_hundredth_of_pairs():
    rng = np.random.default_rng(0)
    table = stays(3000).assign(pulse=rng.normal(75, 12, 3000), end=lambda t: rng.permutation(t["end"]))
    model = fitted(table=table)
    assert [name for name in steps_of(model) if "difference" in name] == STEPS[:1]
    assert model._model.near == ()


@pytest.mark.must
def test_which_columns_are_near_follows_from_answers(door, hasty):
    rng, table = np.random.default_rng(0), stays()
    assert kept_beside_answers(lambda rows: fitted(table=rows), table, [table.apply(lambda cells: rng.permutation(cells))], door) == []
    assert [draw.name for draw in door.draws if "difference" in draw.name] == STEPS


def test_most_rows_in_few_cells_are_found_beyond_noise():
    """The least share of independent columns that holds four fifths, by hand."""
    expected = np.full(10, 0.1)
    counts = np.array([0, 0, 500, 400, 20, 20, 20, 20, 20, 0])
    assert spread_of(counts, expected, 0.0) == pytest.approx(0.2)
    assert spread_of(counts, expected, 20.0) == pytest.approx(0.2)
    assert spread_of(counts, expected, 40.0) == 1.0  # 900 rows less two deviations of two cells are not four fifths
    assert spread_of(np.zeros(10), expected, 5.0) == 1.0


@pytest.mark.parametrize(
    ("n", "rules", "words"),
    [
        (300, (), "nothing keeps synthetic ones in order"),
        (300, [Inequality("begin", "end")], "a rule keeps them in order, but synthetic ones lie too far apart"),
        (4000, (), None),
        (4000, [Inequality("begin", "end")], None),
    ],
    ids=["few rows", "few rows and a rule", "enough", "enough and a rule"],
)
def test_dates_whose_differences_were_not_released_are_told_of(n, rules, words):
    schema = Schema({name: SCHEMA[name] for name in ("begin", "end")}, rules=rules)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted(schema, stays(n)[["begin", "end"]])
    told = [str(each.message) for each in caught if "'begin' and 'end' hold dates or times on one scale" in str(each.message)]
    assert (len(told) == 1 and words in told[0]) if words else not told


# Columns that one inequality orders


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
def stay_model():
    return model_of("dates")


def test_every_row_keeps_the_rule_and_the_mean_difference_is_kept(case):
    name, model = case
    rows = model.sample(20_000, random_state=0)
    assert broken(rows, model.schema_) == 0
    assert [name for name in steps_of(model) if "difference" in name] == STEPS
    assert mean_difference(rows) == pytest.approx(mean_difference(table_of(*CASES[name][3:5])), abs=CASES[name][-1])


@pytest.mark.parametrize("wanted", ["high", "low", "both", "one"])
def test_rows_on_conditions_keep_the_rule(stay_model, wanted):
    month = ("2022-03-01", "2022-03-20")
    conditions = {"high": {"high": month}, "low": {"low": month}, "both": {"low": month, "high": ("2022-02-01", "2022-03-09")}}
    rows = stay_model.sample(3000, random_state=0, conditions=conditions.get(wanted, {"high": "2022-03-09"}))
    assert broken(rows, stay_model.schema_) == 0
    assert (rows["high"] - rows["low"]).dt.days.mean() < 7


def test_filled_cells_keep_the_rule(case):
    name, model = case
    given = table_of(*CASES[name][3:5]).head(400).sample(frac=1, random_state=0)
    for gone in ("high", "low"):
        whole = model.impute(given.drop(columns=[gone]), random_state=0)
        # A given number at the end of what it may be leaves the other no value.
        assert broken(whole, model.schema_) <= 2


def test_filled_ends_are_near_the_beginnings(stay_model):
    given = table_of(BEGIN, BEGIN)
    whole = stay_model.impute(given.drop(columns=["high"]), random_state=0)
    assert (whole["high"] - whole["low"]).dt.days.mean() == pytest.approx(3, abs=0.6)


def test_saved_models_batches_and_threads_draw_the_same_rows(stay_model, tmp_path):
    stay_model.save(tmp_path / "model.zip")
    rows = stay_model.sample(70_000, random_state=2)
    pd.testing.assert_frame_equal(load(tmp_path / "model.zip").sample(70_000, random_state=2), rows)
    pd.testing.assert_frame_equal(pd.concat(stay_model.sample_batches(70_000, 9000, random_state=2), ignore_index=True), rows)
    assert broken(rows, stay_model.schema_) == 0


def test_blocks_of_a_stream_keep_the_rule_and_the_difference():
    schema = Schema({"low": TWO_YEARS, "high": TWO_YEARS, "ward": ["a", "b"]}, rules=[Inequality("low", "high")])
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
def test_all_of_the_budget_is_spent_where_a_rule_orders_columns(neighboring):
    assert Fraction(5) - Fraction(1, 1000) < model_of("dates", neighboring=neighboring).accountant_.spent <= Fraction(5)


def test_rows_that_break_the_rule_count_as_equal_ones():
    low, high = BEGIN, np.where(RNG.random(N) < 0.3, BEGIN - np.timedelta64(50, "D"), BEGIN + STAY.astype("timedelta64[D]"))
    schema = Schema({"low": TWO_YEARS, "high": TWO_YEARS, "ward": ["a", "b"]}, rules=[Inequality("low", "high")])
    model = LatentFactorSynthesizer(schema, epsilon=20.0, delta=1e-6, random_state=0, n_factors=2).fit(table_of(low, high))
    rows = model.sample(20_000, random_state=0)
    assert broken(rows, schema) == 0
    assert (rows["low"] == rows["high"]).mean() == pytest.approx(0.3 + 0.7 * np.exp(-3), abs=0.06)


def test_columns_that_another_rule_names_have_no_counts_of_differences():
    kind = Continuous(0, 900, nullable=True)
    first, second = CASES["whole numbers that may be missing"][3:5]
    schema = Schema({"low": kind, "high": kind, "ward": ["a", "b"]}, rules=[Inequality("low", "high"), MissingTogether(["low", "high"])])
    model = LatentFactorSynthesizer(schema, epsilon=5.0, delta=1e-6, random_state=0, n_factors=2).fit(table_of(first, second))
    assert not set(STEPS) & set(steps_of(model))
    assert broken(model.sample(5000, random_state=0), schema) == 0


def test_where_noise_leaves_no_more_columns_that_a_rule_orders_are_looked_at_alone(monkeypatch):
    kinds = {"low": TWO_YEARS, "high": TWO_YEARS, "pulse": (20.0, 140.0), "again": (20.0, 140.0)}
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
