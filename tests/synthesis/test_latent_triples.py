"""How mixed tables release pairs, bins and columns near each other, and their second round: what it costs, and what it brings."""

import math
import warnings
from fractions import Fraction
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from internals import MarginalsPlan, PairRelease, _latent_marginals, independent_share, plan_triples
from laws import kept_beside_answers

from skdpsynth import LatentFactorSynthesizer, OnlineSynthesizer
from skdpsynth.domain import Continuous, Date, Impossible, Inequality, Schema
from skdpsynth.exceptions import InsecureRandomnessWarning
from skdpsynth.privacy import DiscreteGaussian, DiscreteLaplace, PrivacyLoss, mechanism
from skdpsynth.statistics import Marginals

N = 40_000
NAMES = ("counts of columns", "counts of pairs", "interactions of pairs", "distances of triples", "counts of triples")


def ticks(n=N, n_columns=5):
    """Independent ticks, but the last says whether the first two differ: no pair tells of it."""
    table = np.random.default_rng(0).integers(0, 2, (n, n_columns))
    table[:, -1] = table[:, 0] ^ table[:, 1]
    return pd.DataFrame(table, columns=[f"c{i}" for i in range(n_columns)])


def model_of(table, rules=(), **parameters):
    schema = Schema({name: [0, 1] for name in table}, rules=list(rules))
    return LatentFactorSynthesizer(schema, **{"epsilon": 10.0, "delta": 1e-6, "random_state": 0, **parameters}).fit(table)


def triples_of(model, n_columns=3):
    return [names for names in model.marginals_ if len(names) == n_columns]


def share_kept(sample):
    return (sample["c4"] == (sample["c0"] ^ sample["c1"])).mean()


@pytest.fixture(scope="module")
def model():
    return model_of(ticks())


def test_a_dependence_of_three_columns_is_found_by_all_noisy_counts_of_triples(model):
    """Without it half of the rows keep it. All triples are released where they are few, with deviations below 20: five of them."""
    assert share_kept(model.sample(20_000, random_state=0)) > 0.7
    assert set(triples_of(model)) == set(combinations([f"c{i}" for i in range(5)], 3))
    assert [entry.name for entry in model.accountant_.ledger if "triples" in entry.name] == ["counts of triples"]
    exact, found = np.zeros((2, 2, 2)), model.marginals_["c0", "c1", "c4"]
    np.add.at(exact, tuple(ticks()[["c0", "c1", "c4"]].to_numpy().T), 1)
    assert np.abs(found - exact).max() < 100
    assert found.dtype == np.int64


@pytest.mark.parametrize(("n_columns", "neighboring"), [(5, "replace_one"), (7, "replace_one"), (7, "add_or_remove_one")])
def test_the_steps_together_cost_the_whole_budget(n_columns, neighboring):
    fitted = model_of(ticks(n_columns=n_columns), neighboring=neighboring)
    names = {entry.name for entry in fitted.accountant_.ledger if "parity" not in entry.name}
    assert set(NAMES) >= names > {"counts of triples"}
    assert 10 * (1 - 1e-5) < float(fitted.accountant_.spent) <= 10


def test_of_many_triples_those_are_released_that_the_model_misses():
    """Seven columns have 35 triples, of which 20 are released."""
    fitted = model_of(ticks(n_columns=7))
    assert len(triples_of(fitted)) == 20
    assert ("c0", "c1", "c6") in triples_of(fitted)
    assert [entry.name for entry in fitted.accountant_.ledger if "triples" in entry.name] == ["distances of triples", "counts of triples"]


@pytest.mark.must
def test_triples_and_what_the_ledger_says_of_them_follow_from_answers(door):
    """Also where no three columns depend on each other."""
    rng, table = np.random.default_rng(0), ticks(n_columns=7)
    assert kept_beside_answers(model_of, table, [table.apply(lambda cells: rng.permutation(cells))], door) == []
    assert [draw.name for draw in door.draws if "triples" in draw.name][-2:] == ["distances of triples", "counts of triples"]


@pytest.mark.must
def test_triples_are_chosen_by_what_was_released_of_them(door):
    """By answers that fall instead of rising, others are chosen of the same rows."""
    chosen = []
    for sign in (1, -1):
        door.answer = lambda name, values, drawn: sign * np.arange(values.size) if name == "distances of triples" else values  # noqa: B023
        chosen.append(set(triples_of(model_of(ticks(n_columns=7)))))
    assert (len(chosen[0] | chosen[1]), len(chosen[0] & chosen[1])) == (35, 5)


@pytest.mark.parametrize(("n", "parameters"), [(2000, {"epsilon": 1.0}), (N, {"delta": 0.0}), (2000, {"epsilon": math.inf, "delta": 0.0})])
def test_much_noise_pure_noise_and_no_noise_have_no_second_round(n, parameters):
    assert not triples_of(model_of(ticks(n), **parameters))


@pytest.mark.parametrize(("n_columns", "n_triples"), [(5, 10), (7, 20), (12, 20)])
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_a_second_round_is_bought_from_3000_times_the_noise_of_its_counts_on(n_columns, n_triples, relation):
    share = PrivacyLoss(rho=1, gaussian=True)
    schema = Schema({i: [0, 1] for i in range(n_columns)})
    plan = MarginalsPlan(True, schema=schema, n_factors=2, shares={"counts of pairs": share}, rho="gaussian")
    has_choice = math.comb(n_columns, 3) > n_triples
    rho = share.rho * (Fraction(23, 100) if has_choice else Fraction(23, 98))
    noise = mechanism(Marginals.sensitivity(relation, n_triples), PrivacyLoss(rho=rho, gaussian=True), ("gaussian",)).deviation
    plans = [plan_triples(plan, [2] * n_columns + [1], 3000 * noise * part, relation, []) for part in (0.999, 1.001)]
    assert ["counts of triples" in each.shares for each in plans] == [False, True]


def test_each_class_has_tables_of_its_own():
    fitted = model_of(ticks(), stratify="c2")
    assert fitted.marginals_["c2", "c0", "c1", "c4"].shape == (2, 2, 2, 2)
    assert share_kept(fitted.sample(20_000, random_state=0)) > 0.7


def test_columns_that_rules_tie_are_left_out():
    table = ticks().assign(c3=lambda rows: rows["c2"])
    fitted = model_of(table, rules=[Impossible({"c2": 0, "c3": 1}), Impossible({"c2": 1, "c3": 0})])
    assert not any({"c2", "c3"} & set(names) for names in triples_of(fitted))
    sample = fitted.sample(1000, random_state=0)
    assert (sample["c2"] == sample["c3"]).all()


def test_blocks_of_a_stream_have_no_second_round():
    part = LatentFactorSynthesizer({name: [0, 1] for name in ticks(1)})
    stream = OnlineSynthesizer(synthesizer=part, epsilon=10.0, delta=1e-6, random_state=0).partial_fit(ticks())
    assert share_kept(stream.sample(20_000, random_state=0)) < 0.6


REGIONS = ["north", "south", "west"]


def regions(n=N, n_ticks=4):
    """Ticks of which the first two are equal in the north, and differ elsewhere; the third is the first."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.integers(0, 2, (n, n_ticks)), columns=[f"c{i}" for i in range(n_ticks)])
    region = rng.choice(REGIONS, n, p=[0.5, 0.25, 0.25])
    return table.assign(c1=table["c0"] ^ (region != "north"), c2=table["c0"], region=region)


def model_within(table, **parameters):
    schema = Schema({**{name: [0, 1] for name in table if name != "region"}, "region": REGIONS}, rules=SAME)
    parameters = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0, "within": "region", **parameters}
    return LatentFactorSynthesizer(schema, **parameters).fit(table)


SAME = [Impossible({"c0": 0, "c2": 1}), Impossible({"c0": 1, "c2": 0})]


@pytest.mark.parametrize("neighboring", ["replace_one", "add_or_remove_one"])
def test_within_counts_all_triples_with_a_column_also_of_columns_that_rules_tie(neighboring):
    fitted = model_within(regions(), neighboring=neighboring)
    others = combinations(["c0", "c1", "c2", "c3"], 2)
    assert set(triples_of(fitted)) == {(*pair, "region") for pair in others}
    assert [entry.name for entry in fitted.accountant_.ledger if "triples" in entry.name] == ["counts of triples"]
    assert 1 - 1e-5 < float(fitted.accountant_.spent) <= 1


def test_within_teaches_what_pairs_are_in_each_level():
    """Without it the columns are independent: half of the rows keep it in each region."""
    kept = {}
    for within in (None, "region"):
        sample = model_within(regions(), within=within).sample(20_000, random_state=0)
        assert (sample["c0"] == sample["c2"]).all()
        kept[within] = ((sample["c0"] == sample["c1"]) == (sample["region"] == "north")).mean()
    assert kept[None] < 0.6 < 0.8 < kept["region"]


@pytest.mark.must
def test_triples_within_levels_follow_from_answers(door):
    rng, table = np.random.default_rng(0), regions()
    assert kept_beside_answers(model_within, table, [table.apply(lambda cells: rng.permutation(cells))], door) == []
    assert [draw.name for draw in door.draws if "triples" in draw.name][-1] == "counts of triples"


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_triples_within_levels_are_bought_from_300_times_the_noise_of_their_counts_on(relation):
    plan = MarginalsPlan(
        True,
        schema=Schema({i: [0, 1] for i in range(12)}),
        within=3,
        n_factors=2,
        shares={"counts of pairs": PrivacyLoss(rho=1, gaussian=True)},
        rho="gaussian",
    )
    noise = mechanism(Marginals.sensitivity(relation, 55), PrivacyLoss(rho=Fraction(1, 2), gaussian=True), ("gaussian",)).deviation
    plans = [plan_triples(plan, [2] * 12 + [1], 300 * noise * part, relation, []) for part in (0.999, 1.001)]
    assert ["counts of triples" in each.shares for each in plans] == [False, True]


@pytest.mark.parametrize(
    ("parameters", "refusal"),
    [
        ({"within": "nobody"}, "within must be a column of schema"),
        ({"within": "age"}, "within must be a nominal column"),
        ({"within": "many"}, "within must have at most 10 levels"),
        ({"within": "job", "stratify": "job"}, "within must be another column than stratify"),
        ({"within": "child"}, "within must be a column that no rule constrains"),
        ({"within": "job", "strategy": "scores"}, "within must be None for strategy='scores'"),
    ],
)
def test_within_is_refused_where_it_means_nothing(parameters, refusal):
    schema = Schema(
        {"age": (0, 99), "job": ["a", "b"], "many": list("abcdefghijk"), "child": ["no", "yes"]},
        rules=[Impossible({"child": "yes", "age": (18, None)})],
    )
    table = pd.DataFrame({"age": [3, 40], "job": ["a", "b"], "many": ["a", "b"], "child": ["yes", "no"]})
    with pytest.raises(ValueError, match=refusal):
        LatentFactorSynthesizer(schema, **parameters).fit(table)


def test_a_stream_refuses_within():
    stream = OnlineSynthesizer(synthesizer=LatentFactorSynthesizer({"region": REGIONS, "c0": [0, 1]}, within="region"), epsilon=1.0)
    with pytest.raises(ValueError, match="within must be None in a stream"):
        stream.partial_fit(regions(100)[["region", "c0"]])


RELATIONS = ["replace_one", "add_or_remove_one"]
each_relation = pytest.mark.parametrize("relation", RELATIONS)


def pairs(n_columns):
    return list(combinations(range(n_columns), 2))


def chosen(sizes, share, relation="replace_one", column_variance=100.0, n_samples=1000):
    return PairRelease.choose([*sizes, 1], pairs(len(sizes)), column_variance, share, relation, n_samples)


@each_relation
def test_pairs_are_tables_where_the_budget_is_pure_or_endless_or_rows_do_not_fit_beside_multipliers(relation):
    found = chosen([2] * 16, PrivacyLoss(epsilon=1), relation)
    assert found.over is None
    assert isinstance(found.noise.noise, DiscreteLaplace)
    assert chosen([2] * 16, PrivacyLoss(epsilon=float("inf")), relation).over is None
    assert chosen([2] * 16, PrivacyLoss(rho=Fraction(1, 50), gaussian=True), relation, n_samples=2**61).over is None


@each_relation
@pytest.mark.parametrize("gaussian", [False, True])
def test_gaussian_pairs_of_binary_columns_whose_counts_are_known_are_interactions(relation, gaussian):
    share = PrivacyLoss(rho=Fraction(1, 50), gaussian=gaussian)
    found = chosen([2] * 16, share, relation)
    tables = mechanism(Marginals.sensitivity(relation, 120), share)
    assert isinstance(found.noise.noise, DiscreteGaussian)
    assert found.over is not None
    assert found.noise.loss == share
    assert found.deviation < tables.deviation / 1.9


@each_relation
@pytest.mark.parametrize("sizes", [[2, 2], [2, 3, 4], [2] * 16, [16, 32, 9, 32, 2]], ids=str)
def test_the_way_of_less_error_is_chosen(relation, sizes):
    """Tables tell of their columns, interactions do not: so tables where the counts of columns have much noise."""
    share = PrivacyLoss(rho=Fraction(1, 50), gaussian=True)
    noise = mechanism(Marginals.sensitivity(relation, len(pairs(len(sizes)))), share)
    found = {deviation: chosen(sizes, share, relation, deviation) for deviation in (0.01, 1.0, 1e3, 1e6)}
    for deviation, way in found.items():
        tables = PairRelease((*sizes, 1), tuple(pairs(len(sizes))), noise, deviation)
        assert way.error <= tables.error
        assert (way.over is None) == (way.error == tables.error)
    assert found[1e6].over is None
    assert sizes != [2, 2] or found[0.01].over is not None


def test_multipliers_are_smaller_where_the_noise_would_be_too_large_to_be_sampled():
    usual = chosen([2] * 16, PrivacyLoss(rho=Fraction(1, 50), gaussian=True))
    found = chosen([2] * 16, PrivacyLoss(rho=Fraction(1, 2**100), gaussian=True))
    assert found.over is not None
    assert max(found.over.multipliers) < max(usual.over.multipliers)
    assert max(found.noise.noise.scales) <= 2**58


NUMBERS = dict.fromkeys(range(6), (0.0, 1.0))
MIXED = {**NUMBERS, 3: [0, 1], 4: [0, 1], 5: [0, 1]}
HALF = np.column_stack([np.random.default_rng(0).random((300, 3)), np.random.default_rng(1).integers(0, 2, (300, 3))])


def fitted(n, epsilon, schema=NUMBERS, relation="add_or_remove_one", rows=None, **parameters):
    """A model of uniform rows, which have no atoms."""
    X = np.random.default_rng(0).random((n, 6)) if rows is None else rows
    parameters = {"schema": schema, "n_factors": 1, "delta": 1e-6, "random_state": 0, **parameters}
    return LatentFactorSynthesizer(epsilon=epsilon, neighboring=relation, **parameters).fit(X)


def n_bins(model):
    return max(len(bins) - 1 for bins in model.bins_.values())


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_noise_leaves_few_bins_of_numbers_and_no_noise_or_many_levels_as_many_as_ever(relation):
    """A bin more, or two, may come of cells that the noise makes heavy."""
    few, some, many = (n_bins(fitted(*cell, relation=relation)) for cell in ((300, 0.5), (3000, 2.0), (30_000, 5.0)))
    assert few <= 6
    assert few < some < many
    assert n_bins(fitted(500, math.inf, delta=0.0, relation=relation)) >= 16
    assert n_bins(fitted(300, 0.5, MIXED, rows=HALF, relation=relation)) >= 14
    assert n_bins(fitted(300, 0.5, {**NUMBERS, 5: [0, 1]}, rows=HALF, relation=relation)) < 14


def test_columns_that_rules_tie_keep_their_bins_and_the_rule():
    middle = (NUMBERS[0][0] + NUMBERS[0][1]) / 2
    model = fitted(300, 1.0, Schema(dict(NUMBERS), rules=[Impossible({0: (middle, None), 1: (middle, None)})]))
    drawn, links = model._model.law().linked, model._model.links
    assert {name for name in links if drawn[name].n_bins != links[name].n_bins} == {2, 3, 4, 5}
    rows = model.sample(2000, random_state=0)
    assert not ((rows[:, 0] >= middle) & (rows[:, 1] >= middle)).any()


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


def fit_stays(schema=SCHEMA, table=None, epsilon=5.0, **parameters):
    model = LatentFactorSynthesizer(schema, epsilon=epsilon, delta=1e-6, random_state=0, n_factors=4, **parameters)
    return model.fit(stays() if table is None else table)


def steps_of(model):
    return [entry.name for entry in model.accountant_.ledger]


@pytest.fixture(scope="module")
def stay_model():
    with pytest.warns(InsecureRandomnessWarning):
        return fit_stays()


@all_fits
def test_hardly_a_row_ends_before_it_begins_and_copies_of_a_measurement_stay_copies(stay_model):
    rows = stay_model.sample(20_000, random_state=0)
    assert (rows["end"] < rows["begin"]).mean() < 0.02
    assert (rows["end"] - rows["begin"]).dt.days.median() == pytest.approx(4, abs=1)
    assert rows["pulse"].corr(rows["again"]) > 0.85  # of eight fits .942 to .991, by noise in differences that are far; of columns apart 0
    assert (rows["pulse"] - rows["again"]).abs().median() == pytest.approx(0.67, abs=0.2)
    assert rows["again"].isna().mean() == pytest.approx(0.2, abs=0.02)


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
    one = fit_stays(schema, table, epsilon)
    monkeypatch.setattr(_latent_marginals, "candidate_pairs", lambda plan: [])
    other = fit_stays(schema, table, epsilon)
    assert steps_of(one) == steps_of(other)
    pd.testing.assert_frame_equal(one.sample(300, random_state=0), other.sample(300, random_state=0))


def test_columns_that_are_not_near_cost_a_hundredth_of_pairs():
    rng = np.random.default_rng(0)
    table = stays(3000).assign(pulse=rng.normal(75, 12, 3000), end=lambda t: rng.permutation(t["end"]))
    model = fit_stays(table=table)
    assert [name for name in steps_of(model) if "difference" in name] == STEPS[:1]
    assert model._model.near == ()


@pytest.mark.must
def test_which_columns_are_near_follows_from_answers(door, hasty):
    rng, table = np.random.default_rng(0), stays()
    assert kept_beside_answers(lambda rows: fit_stays(table=rows), table, [table.apply(lambda cells: rng.permutation(cells))], door) == []
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
            fit_stays(schema, stays(n)[["begin", "end"]])
        told = [str(each.message) for each in caught if "'begin' and 'end' hold dates or times on one scale" in str(each.message)]
        assert ["nothing keeps synthetic ones in order" in words for words in told] == [True] * (n == 300 and not rules)


def test_a_table_in_chunks_has_the_same_differences(tmp_path, hasty):
    pytest.importorskip("pyarrow")  # reads files of CSV
    path = tmp_path / "stays.csv"
    stays(3000).to_csv(path, index=False)
    model, other = fit_stays(table=stays(3000)), fit_stays(table=path)
    for name, edges in model.bins_.items():
        np.testing.assert_array_equal(edges, other.bins_[name])
    for near, same in zip(model._model.near, other._model.near, strict=True):
        np.testing.assert_array_equal(near.mass, same.mass)
