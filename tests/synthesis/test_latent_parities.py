"""Dependence of three to five columns that no pair shows: found, put into the model, paid for, and nothing else kept of it."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from internals import MarginalsPlan, ParitySearch, difference, full_state, split_in_half

import skdpsynth
from skdpsynth import LatentFactorSynthesizer, OnlineSynthesizer
from skdpsynth.domain import Continuous, Impossible, Nominal, Schema
from skdpsynth.privacy import PrivacyAccountant, PrivacyLoss
from skdpsynth_evidence import check_evidence

RELATIONS = ["replace_one", "add_or_remove_one"]
pytestmark = pytest.mark.usefixtures("hasty")
N = 10_000


def table(n=N, seed=0, n_columns=6):
    """Fair bits; the last column says whether an odd number of the first three is 1."""
    bits = np.random.default_rng(seed).integers(0, 2, (n, n_columns))
    bits[:, -1] = bits[:, :3].sum(axis=1) % 2
    return pd.DataFrame(bits, columns=[f"c{i}" for i in range(n_columns)])


SET = ("c0", "c1", "c2", "c5")


def fitted(rows=None, schema=None, **parameters):
    rows = table() if rows is None else rows
    return LatentFactorSynthesizer(schema or {name: [0, 1] for name in rows}, **parameters).fit(rows)


def share_kept(rows, names=SET):
    return (rows[list(names)].astype(int).sum(axis=1) % 2 == 0).mean()


def named(model):
    return [entry.name for entry in model.accountant_.ledger if "parity" in entry.name]


@pytest.mark.parametrize("delta", [0, 1e-6])
@pytest.mark.parametrize("neighboring", RELATIONS)
def test_an_exclusive_or_is_found_and_kept_and_the_budget_is_spent(neighboring, delta):
    """Without it half of the rows keep it. The gap of 10,000 rows is 26 scales of a choice and more."""
    columns = 15 if delta else 6  # of few, a Gram matrix with pure noise has less noise than Gaussian noise
    rows = table(n_columns=columns).rename(columns={"c14": "c5", "c5": "c14"}) if delta else table()
    model = fitted(rows, neighboring=neighboring, delta=delta, epsilon=2.0)
    assert {frozenset(names) for names in model.parities_} == {frozenset(SET)}
    assert model.parities_[tuple(name for name in rows if name in SET)] > 0.7
    assert model.parity_splits_ == dict.fromkeys(SET, 1)
    assert share_kept(model.sample(5000, random_state=0)) > 0.85
    assert len(named(model)) in ((6,) if delta else (2, 6))
    spent = model.accountant_.spent
    assert spent == 2 if not delta else 2 - Fraction(2, 10**6) < spent <= 2
    assert check_evidence(model.accountant_.evidence()).is_exact


@pytest.mark.must
@pytest.mark.parametrize(("n_columns", "stratify"), [(6, None), (6, "c5"), (15, None), (15, "c14")])
@pytest.mark.parametrize("neighboring", RELATIONS)
def test_nothing_is_kept_beside_the_answers(neighboring, n_columns, stratify, monkeypatch):
    """Answers and choices of one fit are given to a fit of other rows, of which nothing else may be kept."""
    tape, kept = [], []
    own = {name: getattr(PrivacyAccountant, name) for name in ("release", "release_choice")}
    first, other = table(n_columns=n_columns), np.random.default_rng(1).integers(0, 2, (N, n_columns))
    for rows in (first, pd.DataFrame(other, columns=list(first))):
        for name, answer in own.items():

            def told(*given, answer=answer, is_first=not kept, **said):
                found = answer(*given, **said)
                return tape.append(found) or found if is_first else tape.pop(0)

            monkeypatch.setattr(PrivacyAccountant, name, told)
        kept.append(full_state(fitted(rows, neighboring=neighboring, delta=1e-6, stratify=stratify)))
    assert any("parities" in name for name in kept[0])
    assert not difference(*kept)


def test_rows_of_independent_columns_get_no_parity():
    rows = pd.DataFrame(np.random.default_rng(0).integers(0, 2, (N, 6)), columns=list(table()))
    model = fitted(rows, delta=1e-6)
    assert named(model)
    assert (model.parities_, model.parity_splits_) == ({}, {})


def test_two_that_share_a_column_are_both_found():
    rows = table().assign(c4=lambda t: t["c0"] ^ t["c3"])
    model = fitted(rows, delta=1e-6, epsilon=3.0)
    sample = model.sample(5000, random_state=0)
    assert len(model.parities_) >= 2
    assert min(share_kept(sample), share_kept(sample, ("c0", "c3", "c4"))) > 0.85


@pytest.mark.parametrize("delta", [0, 1e-6])
@pytest.mark.parametrize("neighboring", RELATIONS)
def test_by_class_one_of_three_other_columns_is_found(neighboring, delta):
    model = fitted(stratify="c5", neighboring=neighboring, delta=delta)
    assert set(model.parities_) == {SET[:3]}
    assert np.sign(model.parities_[SET[:3]]).tolist() == [1, -1]
    assert share_kept(model.sample(5000, random_state=0)) > 0.85
    assert check_evidence(model.accountant_.evidence()).is_exact


def test_columns_of_numbers_have_the_signs_of_their_halves():
    """The product of four numbers about their medians is positive, and some cells of one are missing; bins are cut near medians."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(N, 5)), columns=list("abcde"))
    rows["d"] = rows["d"].abs() * np.sign(rows["a"] * rows["b"] * rows["c"])
    rows.loc[rng.random(N) < 0.1, "a"] = np.nan
    schema = {name: Continuous(-4.0, 4.0, nullable=name == "a") for name in rows}
    model = fitted(rows, schema, delta=1e-6, n_factors=4)
    assert set(model.parities_) == {("a", "b", "c", "d")}
    sample = model.sample(5000, random_state=0)
    whole = sample.dropna()
    assert (np.sign(whole[list("abcd")]).prod(axis=1) > 0).mean() > 0.7
    assert sample["a"].isna().mean() == pytest.approx(0.1, abs=0.03)
    for name in "bcde":
        assert sample[name].std() == pytest.approx(1, abs=0.15)


@pytest.fixture(scope="module")
def model(request):
    rows = table().astype({"c1": "Int64"})
    rows.loc[np.random.default_rng(3).random(N) < 0.1, "c1"] = pd.NA
    schema = {name: Nominal([0, 1], nullable=name == "c1") for name in rows}
    return LatentFactorSynthesizer(schema, delta=1e-6).fit(rows)


def test_rows_on_conditions_keep_it(model):
    rows = model.sample(4000, random_state=0, conditions={"c0": 1, "c1": 0, "c3": 1})
    assert (rows["c0"] == 1).all()
    assert share_kept(rows) > 0.85


def test_cells_are_filled_in_by_the_others(model):
    rows = table(2000, seed=5).astype({"c1": "Int64"})
    filled = model.impute(rows.assign(c1=pd.array([pd.NA] * 2000, dtype="Int64")), random_state=0)
    assert (filled["c1"] == rows["c1"]).mean() > 0.85


def test_a_file_holds_it_and_one_with_another_part_is_refused(model, tmp_path):
    model.save(path := tmp_path / "model.zip")
    loaded = skdpsynth.load(path)
    pd.testing.assert_frame_equal(loaded.sample(500, random_state=0), model.sample(500, random_state=0))
    assert loaded.parities_ == model.parities_
    (part,) = model._model.parities
    replace(model._model)._check_loaded()
    for wrong in (
        (part, part),
        (replace(part, columns=(0, 1, 2, 6)),),
        (replace(part, weights=np.repeat(part.weights, 2, axis=0)),),
        (replace(part, signs=(*part.signs[:3], np.array([False, True, True]))),),
    ):
        with pytest.raises(Exception):  # noqa: B017, PT011
            replace(model._model, parities=wrong)._check_loaded()


def test_intervals_are_of_tables_that_keep_it(model):
    (rows,) = model.bootstrap_tables(1, random_state=0)
    assert share_kept(rows.dropna()) > 0.85


def test_columns_that_rules_tie_are_left_out():
    rules = [Impossible({"c0": 0, "c3": 1})]
    rows = table().assign(c3=lambda t: t["c3"] & t["c0"])
    model = fitted(rows, Schema({name: [0, 1] for name in rows}, rules=rules), delta=1e-6)
    assert named(model)
    assert model.parities_ == {}
    sample = model.sample(3000, random_state=0)
    assert (sample["c3"] <= sample["c0"]).all()


def test_a_unit_of_several_rows_is_covered():
    model = LatentFactorSynthesizer({name: [0, 1] for name in table()}, epsilon=5.0, delta=1e-6, max_rows_per_unit=2)
    model.fit(table(), unit=np.repeat(np.arange(N // 2), 2))
    assert set(model.parities_) == {SET}
    assert check_evidence(model.accountant_.evidence()).is_exact


def test_without_noise_it_is_exact():
    model = fitted(epsilon=float("inf"))
    assert model.parities_ == {SET: 1.0}
    assert share_kept(model.sample(5000, random_state=0)) > 0.99


def test_few_rows_a_stream_and_very_many_columns_do_not_look():
    assert not named(fitted(table(300)))
    many = pd.DataFrame(np.random.default_rng(0).integers(0, 2, (3000, 41)))
    assert not named(fitted(many, {name: [0, 1] for name in many}, epsilon=8.0, delta=1e-6))
    stream = OnlineSynthesizer(synthesizer=LatentFactorSynthesizer({name: [0, 1] for name in table()}, delta=1e-6), epsilon=4.0)
    stream.partial_fit(table(4000))
    assert not [entry for entry in stream.accountant_.ledger if "parity" in entry.name]


def test_classes_are_counted_where_private_rows_turn_out_too_few():
    """A search is reserved for 20,000 rows, as nobody knows how many there are before a Gram matrix tells."""
    model = fitted(table(300), neighboring="add_or_remove_one", stratify="c5")
    assert [entry.name for entry in model.accountant_.ledger] == ["Gram matrix of columns and pairs", "counts of classes"]
    assert model.accountant_.spent == 1
    assert np.abs(model.marginals_[("c5",)] - np.bincount(table(300)["c5"])).max() < 2000  # 1 / 0.021 times 40
    assert check_evidence(model.accountant_.evidence()).is_exact


def search(n_rows, share, n_columns=8, relation="replace_one", **more):
    plan = MarginalsPlan(True, schema=Schema({i: [0, 1] for i in range(n_columns)}), shares={"counts of pairs": share}, **more)
    return ParitySearch.reserve(plan, [2] * n_columns + [1], n_rows, relation, [])


@pytest.mark.parametrize("relation", RELATIONS)
def test_no_round_is_blind(relation):
    """A choice among so many sets needs 2 sup / epsilon times their logarithm, which may be half of the rows, or it is not made."""
    n_sets, of_choice = math.comb(12, 3) + math.comb(12, 4) + math.comb(12, 5), Fraction(14, 1000)
    blind = 2 * 2 * (2 if relation == "replace_one" else 1) * math.log(n_sets) / of_choice
    found = [search(blind * part, PrivacyLoss(1), 12, relation) for part in (0.98, 1.02)]
    assert [each is None for each, _ in found] == [True, False]
    rounds, least = found[1][0].rounds(blind * 1.02, relation)
    assert least == 0.5
    assert rounds[0][0] + rounds[0][1] + found[1][1].shares["counts of pairs"] == PrivacyLoss(1)
    assert found[1][0].rounds(blind * 0.98, relation)[1] == math.inf
    assert found[0][1].shares == {"counts of pairs": PrivacyLoss(1)}


def test_more_rows_pay_for_more_rounds_at_a_smaller_share():
    share = PrivacyLoss(rho=Fraction(2, 100), gaussian=True)
    sizes = (2000, 8000, 15_000, 60_000)
    found = [search(n_rows, share) for n_rows in sizes]
    assert [len(each.rounds(n_rows, "replace_one")[0]) for n_rows, (each, _) in zip(sizes, found, strict=True)] == [1, 3, 3, 3]
    spent = [1 - float(plan.shares["counts of pairs"].rho / share.rho) for _, plan in found]
    assert spent == pytest.approx([0.021, 0.021, 0.012, 0.006])


def test_large_sets_are_left_out_where_there_would_be_too_many():
    share = PrivacyLoss(rho=1, gaussian=True)
    orders = [search(n_rows, share, n)[0] for n_rows, n in ((10_000, 20), (10_000, 30), (10_000, 40), (3 * 10**6, 20))]
    assert [each and each.orders for each in orders] == [(3, 4, 5), (3, 4), (3,), (3, 4)]
    assert search(10_000, share, 2)[0] is None


def test_codes_are_cut_nearest_to_half_of_the_counts():
    assert split_in_half(np.array([3.0, 3, 4])).tolist() == [False, False, True]
    assert split_in_half(np.array([9.0, 0, 1])).tolist() == [False, True, True]
    assert split_in_half(np.array([0.0, 1, 9])).tolist() == [False, False, True]
