"""Columns of numbers near each other: what is released, and what synthetic rows keep."""

import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from internals import _latent_marginals, independent_share
from laws import kept_beside_answers

from skdpsynth import LatentFactorSynthesizer
from skdpsynth.domain import Continuous, Date, Impossible, Inequality, Schema
from skdpsynth.exceptions import InsecureRandomnessWarning

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
def test_hardly_a_row_ends_before_it_begins_and_copies_of_a_measurement_stay_copies(model):
    rows = model.sample(20_000, random_state=0)
    assert (rows["end"] < rows["begin"]).mean() < 0.02
    assert (rows["end"] - rows["begin"]).dt.days.median() == pytest.approx(4, abs=1)
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
    monkeypatch.setattr(_latent_marginals, "candidate_pairs", lambda plan: [])
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
    assert independent_share(counts, expected, 0.0) == pytest.approx(0.2)
    assert independent_share(counts, expected, 20.0) == pytest.approx(0.2)
    assert independent_share(counts, expected, 40.0) == 1.0  # 900 rows less two deviations of two cells are not four fifths
    assert independent_share(np.zeros(10), expected, 5.0) == 1.0


@pytest.mark.parametrize("n", [300, 4000])
def test_dates_whose_differences_were_not_released_are_told_of(n):
    for rules in ((), [Inequality("begin", "end")]):
        schema = Schema({name: SCHEMA[name] for name in ("begin", "end")}, rules=rules)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fitted(schema, stays(n)[["begin", "end"]])
        told = [str(each.message) for each in caught if "'begin' and 'end' hold dates or times on one scale" in str(each.message)]
        assert ["nothing keeps synthetic ones in order" in words for words in told] == [True] * (n == 300 and not rules)
