"""Linked tables are learned as they are, each root is one row of the fit, and samples hang together."""

import itertools
import pickle
import warnings
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from estimators import HOUSEHOLDS, PERSONS, TRIPS, households, linked_variants
from internals import LinkFactors, Weights, difference, entries_of, full_state, noise_loss, released_state
from laws import ALARM, binomial, interrupted, refuses
from scipy.stats import chi2
from sklearn.base import clone

import skdpsynth
from skdpsynth import LinkedTablesSynthesizer, PrivacyAccountant
from skdpsynth.domain import Children, Continuous, Date
from skdpsynth.exceptions import BudgetExceededError, SmallSampleWarning
from skdpsynth.persistence import from_bytes, load, to_bytes
from skdpsynth.testing import check_synthesizer

TWO = {name: HOUSEHOLDS[name] for name in ("household", "person")}
SURE = {"epsilon": float("inf"), "random_state": 0}


def two(n=80, seed=0):
    tables = households(n, seed)
    return {"household": tables["household"], "person": tables["person"].drop(columns="person_no")}


def quick(links=(PERSONS,), schemas=TWO, **parameters):
    return LinkedTablesSynthesizer(schemas, links=list(links), **{"random_state": 0, **parameters})


def cells(sample):
    """What is equal for equal tables, missing cells included."""
    return {name: (list(table.columns), repr(table.to_numpy().tolist())) for name, table in sample.items()}


# Without noise


def families(n=20_000, seed=0):
    """A region decides income and how many persons there are; siblings share a belief of their own; the older have more trips."""
    rng = np.random.default_rng(seed)
    region = rng.integers(0, 3, n)
    income = np.clip(rng.normal(20 + 25 * region, 6.0, n), 0, 100)
    numbers = np.array([[0.3, 0.4, 0.3, 0.0], [0.1, 0.3, 0.3, 0.3], [0.0, 0.1, 0.3, 0.6]])[region].cumsum(axis=1)
    size = (rng.random((n, 1)) > numbers).sum(axis=1).clip(0, 3)
    owner, shared = np.repeat(np.arange(n), size), rng.integers(0, 2, n)
    belief = np.where(rng.random(len(owner)) < 0.8, shared[owner], rng.integers(0, 2, len(owner)))
    age = np.clip(rng.normal(25 + 15 * region[owner] + 10 * belief, 6.0), 0, 99).round()
    household = pd.DataFrame({"id": np.arange(n), "region": np.array(["north", "mid", "south"])[region], "income": income})
    person = pd.DataFrame({"id": owner, "no": np.arange(len(owner)), "belief": belief == 1, "age": age.astype(int)})
    rides = rng.binomial(2, np.where(age < 40, 0.2, 0.7))
    who = np.repeat(np.arange(len(owner)), rides)
    trip = pd.DataFrame({"id": owner[who], "no": who, "car": rng.random(len(who)) < np.where(belief[who] == 1, 0.8, 0.3)})
    return {"household": household, "person": person, "trip": trip}


FAMILY = {
    "household": {"region": ["north", "mid", "south"], "income": (0.0, 100.0)},
    "person": {"belief": [False, True], "age": (0, 99)},
    "trip": {"car": [False, True]},
}
OF_FAMILY = [
    Children("person", of="household", key="id", most=3),
    Children("trip", of="person", key=("id", "no"), most=2),
]


def shares(frame, *columns):
    return frame[list(columns)].value_counts(normalize=True)


def total_variation(first, second):
    return float(first.subtract(second, fill_value=0).abs().sum() / 2)


def with_parent(tables, key="id"):
    return tables["person"].merge(tables["household"], on=key)


def siblings(tables):
    """All ordered pairs of persons of one household."""
    person = tables["person"].assign(place=np.arange(len(tables["person"])))
    pairs = person.merge(person, on="id", suffixes=("", "_other"))
    return pairs[pairs["place"] != pairs["place_other"]]


def number_of(tables, child, parent, keys):
    return tables[child].groupby(keys).size().reindex(pd.MultiIndex.from_frame(tables[parent][keys]), fill_value=0)


@pytest.fixture(scope="module")
def learned():
    """Three levels, fitted without noise, and a sample."""
    real = families()
    model = LinkedTablesSynthesizer(FAMILY, links=OF_FAMILY, **SURE).fit(real)
    return real, model.sample(20_000, random_state=1), model


@pytest.mark.all_fits
@pytest.mark.parametrize(
    ("least", "pairs"),
    [
        (0.02, lambda tables: shares(tables["household"], "region")),
        (0.03, lambda tables: shares(tables["person"], "belief")),
        (0.05, lambda tables: shares(with_parent(tables), "region", "belief")),
        (0.05, lambda tables: shares(siblings(tables), "belief", "belief_other")),
        (0.05, lambda tables: shares(tables["trip"].merge(tables["person"], on=["id", "no"]), "belief", "car")),
    ],
    ids=["roots", "children", "parent x child", "siblings", "grandchildren"],
)
def test_without_noise_the_tables_of_a_sample_are_those_of_the_data(learned, least, pairs):
    real, drawn, _ = learned
    assert total_variation(pairs(real), pairs(drawn)) < least


@pytest.mark.all_fits
def test_without_noise_numbers_of_children_are_those_of_the_data_whatever_their_parent_is(learned):
    real, drawn, _ = learned
    for child, parent, keys, column in (("person", "household", ["id"], "region"), ("trip", "person", ["id", "no"], "belief")):
        found = []
        for tables in (real, drawn):
            number = number_of(tables, child, parent, keys).to_numpy()
            found.append(shares(pd.DataFrame({"of": tables[parent][column].to_numpy(), "number": number}), "of", "number"))
        assert total_variation(*found) < 0.05


@pytest.mark.all_fits
def test_without_noise_numbers_have_the_means_and_quantiles_of_the_data(learned):
    real, drawn, _ = learned
    for table, column, error in (("household", "income", 1.5), ("person", "age", 1.5)):
        for share in (0.1, 0.25, 0.5, 0.75, 0.9):
            assert abs(real[table][column].quantile(share) - drawn[table][column].quantile(share)) < 2 * error
        assert abs(real[table][column].mean() - drawn[table][column].mean()) < error
    by_region = [with_parent(tables).groupby("region")["age"].mean() for tables in (real, drawn)]
    assert (by_region[0] - by_region[1]).abs().max() < 4


@pytest.mark.all_fits
def test_without_noise_exact_counts_come_out_as_roots(learned):
    """A root counts as one, its children share its weight."""
    real, _, model = learned
    regions = real["household"]["region"].value_counts()[["north", "mid", "south"]]
    counted = model.marginals_consistent_["household",]["region",]
    np.testing.assert_allclose(counted, regions, atol=1)
    owner = real["person"]["id"].to_numpy()
    mass = 1 / np.bincount(owner)[owner]
    belief = np.bincount(real["person"]["belief"], weights=mass)
    np.testing.assert_allclose(model.marginals_consistent_["person",]["belief",], belief, atol=1)


@pytest.mark.all_fits
@pytest.mark.parametrize("delta", [0, 1e-6])
def test_children_counted_once_each_follow_from_weighted_counts_as_far_off_as_their_errors_say(delta, hasty):
    """In the table of numbers by a column of the child, k children of one parent weigh 1, so each row is multiplied by k, or as is said."""
    tables = {name: table for name, table in families(1500).items() if name != "trip"}
    person, columns = tables["person"].drop(columns=["no", "age"]), ("person.number", "belief")
    true, squares = person["belief"].value_counts().reindex([False, True]).to_numpy(), []
    for seed in range(21):
        settings = SURE if seed == 0 else {"epsilon": 2.0, "delta": delta, "random_state": seed}
        schemas = {"household": FAMILY["household"], "person": {"belief": [False, True]}}
        model = LinkedTablesSynthesizer(schemas, links=OF_FAMILY[:1], **settings).fit({**tables, "person": person})
        weighted, error = (each["household", "person"][columns] for each in (model.marginals_consistent_, model.marginals_errors_))
        numbers = model.rows_per_count_["person"]
        if seed == 0:
            np.testing.assert_allclose(numbers @ weighted, true)
            assert numbers.tolist() == [0, 3, 3, *range(3, len(numbers))]
            continue
        far = (numbers @ weighted - true)[1] / error
        squares.append((far**2 / (numbers**2).sum(), far**2))
    once, unweighted = np.sum(squares, axis=0)
    assert once < chi2.isf(1e-9, len(squares))
    assert unweighted > chi2.isf(1e-9, len(squares))  # the error of one cell, where it is forgotten that rows were multiplied


def test_a_history_goes_on_as_it_does_in_the_data():
    """A state stays what it was nine times out of ten; the first is up."""
    rng, n = np.random.default_rng(0), 8000
    size = rng.integers(1, 6, n)
    owner, start = np.repeat(np.arange(n), size), np.cumsum(size) - size
    nth = np.arange(len(owner)) - start[owner]
    flips = np.where(nth == 0, 0, rng.random(len(owner)) < 0.1)
    state = (np.cumsum(flips) - np.cumsum(flips)[start[owner]]) % 2
    tables = {"patient": pd.DataFrame({"id": np.arange(n), "old": size > 2})}
    tables["visit"] = pd.DataFrame({"id": owner, "day": nth * 10.0 + 5 * rng.random(len(owner)), "up": state == 0})
    schemas = {"patient": {"old": [False, True]}, "visit": {"day": (0.0, 60.0), "up": [False, True]}}
    link = Children("visit", of="patient", key="id", most=5, least=1, order="day")
    drawn = LinkedTablesSynthesizer(schemas, links=[link], **SURE).fit(tables).sample(n, random_state=0)["visit"]
    assert (drawn.groupby("id")["day"].diff().dropna() >= 0).all()
    assert drawn.groupby("id")["up"].first().mean() > 0.97
    follows = drawn["id"] == drawn["id"].shift()
    stays = (drawn["up"] == drawn["up"].shift())[follows].mean()
    assert abs(stays - 0.9) < 0.03
    old = shares(drawn.groupby("id").size().reset_index(name="number"), "number")
    assert total_variation(old, shares(pd.DataFrame({"number": size}), "number")) < 0.03


@pytest.mark.all_fits
def test_each_household_has_one_head_which_differs_from_others():
    rng, n = np.random.default_rng(0), 8000
    size, rich = rng.integers(1, 5, n), rng.random(n) < 0.5
    owner = np.repeat(np.arange(n), size)
    is_head = np.arange(len(owner)) == (np.cumsum(size) - size)[owner]
    works = np.where(is_head, rich[owner], rng.random(len(owner)) < 0.2)
    person = pd.DataFrame({"id": owner, "role": np.where(is_head, "head", "other"), "works": works}).sample(frac=1, random_state=0)
    tables = {"household": pd.DataFrame({"id": np.arange(n), "rich": rich}), "person": person}
    schemas = {"household": {"rich": [False, True]}, "person": {"role": ["head", "other"], "works": [False, True]}}
    link = Children("person", of="household", key="id", most=4, least=1, head={"role": "head"})
    drawn = LinkedTablesSynthesizer(schemas, links=[link], **SURE).fit(tables).sample(n, random_state=0)
    heads = drawn["person"][drawn["person"]["role"] == "head"].merge(drawn["household"], on="id")
    assert sorted(heads["id"]) == list(range(n))
    assert (heads["works"] == heads["rich"]).mean() > 0.95
    assert abs(drawn["person"][drawn["person"]["role"] == "other"]["works"].mean() - 0.2) < 0.03


def test_what_names_a_head_may_stand_behind_more_columns_than_other_tables_have(hasty):
    tables = two()
    person = tables["person"][["household_id", "age", "works", "relation"]]
    car = pd.DataFrame({"household_id": tables["household"]["household_id"], "electric": True})
    schemas = {**TWO, "car": {"electric": [False, True]}}
    links = [Children("person", of="household", key="household_id", most=3, head={"relation": "head"}, least=1)]
    links.append(Children("car", of="household", key="household_id", most=1))
    drawn = quick(links, schemas).fit({**tables, "person": person, "car": car}).sample(20)
    assert (drawn["person"]["relation"] == "head").sum() == 20


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_child_may_have_a_role_of_two_levels_alone(delta, hasty):
    person = pd.DataFrame({"household_id": np.repeat(two()["household"]["household_id"], 2), "role": ["head", "other"] * 80})
    link = Children("person", of="household", key="household_id", most=3, least=1, head={"role": "head"})
    model = quick([link], {**TWO, "person": {"role": ["head", "other"]}}, delta=delta).fit({**two(), "person": person})
    assert model.accountant_.spent == 1
    assert (model.sample(20)["person"]["role"] == "head").sum() == 20


@pytest.mark.all_fits
def test_a_role_with_one_level_beside_that_of_heads_outweighs_no_other_column():
    """Pairs with a column of one code have no noise of their own, and say nothing."""
    rng, n = np.random.default_rng(0), 4000
    owner, x = np.repeat(np.arange(n), 2), rng.integers(0, 3, n)
    person = pd.DataFrame({"id": owner, "role": np.tile(["head", "other"], n), "y": x[owner] + rng.integers(0, 2, 2 * n)})
    tables = {"household": pd.DataFrame({"id": np.arange(n), "x": x}), "person": person}
    schemas = {"household": {"x": [0, 1, 2]}, "person": {"role": ["head", "other"], "y": [0, 1, 2, 3]}}
    link = Children("person", of="household", key="id", most=2, head={"role": "head"})
    model = LinkedTablesSynthesizer(schemas, links=[link], epsilon=1.0, delta=1e-6, random_state=0).fit(tables)
    drawn = model.sample(n, random_state=0)
    assert total_variation(*(shares(with_parent(each), "x", "y") for each in (tables, drawn))) < 0.05  # once .09


# Samples


def test_a_sample_has_the_kinds_columns_and_dtypes_of_each_table_and_none_of_its_keys():
    tables = two()
    tables["household"] = pl.from_pandas(tables["household"]).with_columns(pl.col("household_id").cast(str))
    tables["person"] = tables["person"].astype({"age": "int8"})
    drawn = quick().fit(tables).sample(300, random_state=0)
    assert isinstance(drawn["household"], pl.DataFrame)
    assert drawn["household"].schema == tables["household"].schema
    assert list(drawn["person"]) == list(tables["person"])
    assert drawn["person"].dtypes.to_dict() == tables["person"].dtypes.to_dict()
    assert set(drawn["household"]["household_id"]) == set(map(str, range(300)))
    assert set(drawn["person"]["household_id"]) <= set(range(300))


def test_no_key_of_the_data_is_in_a_sample(hasty):
    tables = {name: table.assign(household_id=table["household_id"] + 10**6) for name, table in two().items()}
    drawn = quick().fit(tables).sample(300, random_state=0)
    assert max(drawn["household"]["household_id"].max(), drawn["person"]["household_id"].max()) < 300
    assert not any(
        str(key) in str(leaf) for key in tables["household"]["household_id"] for leaf in full_state(quick().fit(tables)).values()
    )


@pytest.mark.parametrize(("estimator", "tables"), list(linked_variants().values()), ids=list(linked_variants()))
def test_no_row_of_a_sample_is_without_a_parent_or_beyond_the_cap(estimator, tables, hasty):
    """Also where noise is nearly all."""
    for epsilon in (1e-3, 1.0, float("inf")):
        drawn = clone(estimator).set_params(epsilon=epsilon, random_state=0).fit(tables).sample(500, random_state=0)
        assert len(drawn["household"]) == 500
        for link in estimator.links:
            keys = [link.key] if isinstance(link.key, str) else list(link.key)
            parents = list(map(tuple, drawn[link.of][keys].to_numpy().tolist()))
            numbers = Counter(map(tuple, drawn[link.table][keys].to_numpy().tolist()))
            assert len({*parents}) == len(parents)
            assert {*numbers} <= {*parents}
            assert link.least <= min(numbers[key] for key in parents)
            assert max(numbers.values(), default=0) <= link.most
            places = [parents.index(key) for key in map(tuple, drawn[link.table][keys].to_numpy().tolist())]
            assert places == sorted(places)


def test_samples_repeat_by_their_own_seed_and_have_as_many_roots_as_asked_for(hasty):
    model = quick().fit(two())
    assert cells(model.sample(40, random_state=1)) == cells(model.sample(40, random_state=1))
    assert cells(model.sample(40, random_state=1)) != cells(model.sample(40, random_state=2))
    assert [len(model.sample(n)["household"]) for n in (1, 7, None)] == [1, 7, 80]
    refuses(ValueError, "n_samples must be a positive integer", model.sample, 0)
    refuses(ValueError, "n_samples must be less, got .* more than this machine's memory", model.sample, 2**38)


def test_siblings_come_in_the_order_in_which_they_are_drawn_and_not_by_their_cells(hasty):
    """The age of the second of a household is above that of the first as often as below it; sorted ones are found."""
    person = quick().fit(two()).sample(4000, random_state=0)["person"]
    for drawn, is_fair in ((person, True), (person.sort_values(["household_id", "age"]), False)):
        pairs = [ages[:2] for ages in drawn.groupby("household_id")["age"].agg(list) if len({*ages[:2]}) == 2]
        assert (binomial(sum(first < second for first, second in pairs), len(pairs), 0.5) > ALARM) == is_fair


def test_a_root_is_drawn_with_its_first_link_and_nodes_are_guessed_from_rows_below_alone(monkeypatch, hasty):
    """Where a model fits many columns of a row badly, it is too sure of the node."""
    guess, asked = LinkFactors.draw_nodes, []
    monkeypatch.setattr(LinkFactors, "draw_nodes", lambda *given: asked.append(given) or guess(*given))
    LinkedTablesSynthesizer(FAMILY, links=OF_FAMILY, random_state=0).fit(families(200)).sample(20)
    assert len(asked) == 1


# What counts


def state_of(tables, estimator=None):
    fitted = (quick() if estimator is None else clone(estimator)).fit(tables)
    return {name: part for name, part in full_state(fitted).items() if "_CLONE" not in name}


def test_orphans_change_nothing_and_of_rows_beyond_the_cap_and_doubled_roots_no_order_decides(hasty):
    tables = two()
    person, household = tables["person"], tables["household"]
    numbers = person.groupby("household_id").size()
    full = numbers.index[numbers >= PERSONS.most]
    assert len(full) > 3
    beyond = person[person["household_id"].isin(full)].assign(age=99, works=True)
    orphans = person[:9].assign(household_id=[-1, -2, -3, 10**6, 10**7, -4, -5, -6, -7])
    doubled = household[:9].assign(income=0.0, region="south")
    expected = state_of(tables)
    longer = {"person": pd.concat([orphans, person]), "household": pd.concat([household, household[:9]])}
    assert difference(expected, state_of(longer)) is None
    more = {"person": pd.concat([person, beyond]), "household": pd.concat([household, doubled])}
    found = state_of(more)
    assert difference(expected, found) is not None  # which of a full household count is a function of all of its rows
    assert difference(found, state_of({name: table[::-1] for name, table in more.items()})) is None


@pytest.mark.parametrize(("estimator", "tables"), list(linked_variants().values()), ids=list(linked_variants()))
def test_the_order_of_tables_and_roots_means_nothing(estimator, tables, hasty):
    estimator = clone(estimator).set_params(random_state=0)
    rng, n = np.random.default_rng(3), len(tables["household"])
    expected = cells(estimator.fit(tables).sample(50, random_state=0))
    turned = dict(reversed(tables.items()))
    drawn = clone(estimator).fit(turned).sample(50, random_state=0)
    assert cells({name: drawn[name] for name in tables}) == expected
    rank = pd.Series(rng.permutation(n), tables["household"]["household_id"])
    mixed = {name: table.iloc[np.argsort(rank[table["household_id"]])[::-1]] for name, table in tables.items()}
    assert cells(clone(estimator).fit(mixed).sample(50, random_state=0)) == expected


def test_the_order_of_columns_is_that_of_the_schema_and_samples_have_that_of_the_tables(hasty):
    tables = two()
    turned = {name: table[table.columns[::-1]] for name, table in tables.items()}
    drawn, again = (quick().fit(each).sample(50, random_state=0) for each in (tables, turned))
    assert [list(table) for table in again.values()] == [list(table) for table in turned.values()]
    assert cells({name: table[list(tables[name])] for name, table in again.items()}) == cells(drawn)


def test_what_keys_are_means_nothing(hasty):
    tables = two()
    expected = cells(quick().fit(tables).sample(50, random_state=0))
    other = {name: table.assign(household_id=(table["household_id"] * 7919) % 100_003 + 10**9) for name, table in tables.items()}
    assert cells(quick().fit(other).sample(50, random_state=0)) == expected


def test_a_root_without_rows_counts_and_no_root_needs_any(hasty):
    tables = two()
    empty = {**tables, "person": tables["person"][:0]}
    model = quick(**SURE).fit(empty)
    drawn = model.sample(200, random_state=0)
    assert len(drawn["household"]) == 200
    assert drawn["person"].dtypes.to_dict() == tables["person"].dtypes.to_dict()
    assert model.marginals_consistent_["household",]["person.number",][0] == pytest.approx(80, abs=1)


# The budget


def test_the_ledger_says_the_unit_and_its_noise_costs_what_was_declared(hasty):
    for relation, delta in itertools.product(("replace_one", "add_or_remove_one"), (0.0, 1e-6)):
        model = LinkedTablesSynthesizer(HOUSEHOLDS, links=[PERSONS, TRIPS], epsilon=0.7, delta=delta, neighboring=relation).fit(
            households()
        )
        accountant = model.accountant_
        assert {entry.unit for entry in entries_of(accountant)} == {"household with person, trip"}
        losses = [noise_loss(entry.noise, entry.scale, entry.sensitivity) for entry in entries_of(accountant)]
        pure, rho = sum(loss.epsilon for loss in losses), sum(loss.gaussian for loss in losses)
        charged = sum(entry.loss.rho or 0 for entry in accountant.ledger)
        assert pure == Fraction(7, 10) if not charged else rho <= charged * (1 + 1e-9)
        assert Fraction(7, 10) * (1 - Fraction(1, 10**6)) <= accountant.spent <= Fraction(7, 10)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_no_budget_is_spent_on_siblings_where_there_can_be_none(delta, hasty):
    for most, head, is_spent in ((1, None, False), (2, {"relation": "head"}, False), (2, None, True)):
        link = Children("person", of="household", key="household_id", most=most, head=head)
        model = LinkedTablesSynthesizer(TWO, links=[link], delta=delta).fit(two())
        assert any(entry.name == "siblings of person" for entry in model.accountant_.ledger) == is_spent
        assert (("person", "person") in model.marginals_consistent_) == is_spent
        assert 1 - Fraction(1, 10**6) <= model.accountant_.spent <= 1


def test_the_evidence_of_a_fit_is_found_to_be_right(hasty):
    from skdpsynth_evidence import check_evidence

    for estimator, tables in linked_variants().values():
        assert check_evidence(clone(estimator).fit(tables).accountant_.evidence()).is_exact


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_the_law_of_losses_finds_noise_for_one_row_where_a_root_weighs_more(relation, monkeypatch, hasty):
    """A root of children is many virtual rows: a sensitivity that forgets their weight says too little."""
    estimator, tables = LinkedTablesSynthesizer(TWO, links=[PERSONS], neighboring=relation), two()
    law = {check.__name__: check for _, check in check_synthesizer(estimator, tables, generate_only=True)}
    lose = law["check_neighbors_that_get_the_same_answers_lose_at_most_epsilon"]
    lose(estimator)
    monkeypatch.setattr(Weights, "sensitivity", lambda self, of_row, relation: of_row(relation))
    refuses(AssertionError, "lost epsilon=", lose, estimator)


class KeepsHowManyRows(LinkedTablesSynthesizer):
    """Shows how many rows the children's table had."""

    def _release(self, rows, plan, budget):
        super()._release(rows, plan, budget)
        self.n_rows_ = sum(len(owner) for owner in rows.source.table.owners.values())


def test_the_law_of_answers_finds_what_tells_how_many_children_there_are(hasty):
    estimator = KeepsHowManyRows(TWO, links=[PERSONS])
    law = {check.__name__: check for _, check in check_synthesizer(estimator, two(), generate_only=True)}
    refuses(AssertionError, "although the answers were the same", law["check_what_leaves_depends_on_the_answers_alone"], estimator)


class LosesARoot(LinkedTablesSynthesizer):
    """Leaves rows without a parent in its samples."""

    def sample(self, n_samples=None, random_state=None):
        drawn = super().sample(n_samples, random_state)
        return {**drawn, "household": drawn["household"].assign(household_id=drawn["household"]["household_id"] + 1000)}


def test_the_law_of_parents_finds_rows_that_hang_on_nothing(hasty):
    estimator = LosesARoot(TWO, links=[PERSONS])
    law = {check.__name__: check for _, check in check_synthesizer(estimator, two(), generate_only=True)}
    refuses(AssertionError, "a row of 'person' has no parent", law["check_sampled_rows_hang_on_sampled_parents"], estimator)


def test_tables_in_files_and_in_chunks_are_learned_as_those_in_memory(tmp_path, hasty):
    pytest.importorskip("pyarrow")
    tables = two()
    expected = quick().fit(tables)
    tables["person"].to_parquet(tmp_path / "person.parquet")
    chunks = [tables["household"][start : start + 30] for start in (0, 30, 60)]
    again = quick().fit({"household": chunks, "person": tmp_path / "person.parquet"})
    for of, counted in expected.marginals_consistent_.items():
        for columns, table in counted.items():
            np.testing.assert_array_equal(table, again.marginals_consistent_[of][columns])
    assert len(again.sample(9)["household"]) == 9


def test_tables_are_asked_for_where_they_are_needed_and_refused_elsewhere():
    refuses(TypeError, "X must be a dict of tables for LinkedTablesSynthesizer", check_synthesizer, quick(), generate_only=True)
    refuses(ValueError, "X must be None for PrivatePCA", check_synthesizer, skdpsynth.PrivatePCA(), two(), generate_only=True)


def test_one_accountant_pays_for_many_fits_in_memory_and_in_a_file(tmp_path, hasty):
    tables, path = two(), tmp_path / "budget.db"
    for shared in (PrivacyAccountant(1), PrivacyAccountant(1, ledger=path)):
        for _ in range(2):
            quick(epsilon=0.4, accountant=shared).fit(tables)
        assert shared.spent == Fraction(8, 10)
        refuses(BudgetExceededError, "0.4", quick(epsilon=0.4, accountant=shared).fit, tables)
        assert shared.spent == Fraction(8, 10)
    model = quick(epsilon=0.2, accountant=str(path)).fit(tables)
    assert model.accountant_.spent == Fraction(2, 10)
    assert PrivacyAccountant.at(path).spent == 1


def test_a_budget_for_single_rows_is_not_one_for_roots(hasty):
    shared = PrivacyAccountant(1, unit=skdpsynth.privacy.Unit("patient", 1))
    refuses(ValueError, "unit must be that of accountant", quick(accountant=shared).fit, two())
    assert shared.spent == 0


@pytest.mark.parametrize("name", ["head of person", "person and head of person", "person with car", "with"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_no_two_releases_are_called_alike_whatever_tables_are(name, delta, hasty):
    """Else they would share a budget share, and spend it twice."""
    person = Children("person", of="household", key="household_id", most=3, head={"relation": "head"})
    schemas = {**TWO, name: {"power": (0, 9), "electric": [False, True]}}
    car = two()["household"][["household_id"]].assign(power=3, electric=True)
    links = [person, Children(name, of="household", key="household_id", most=2)]
    ledger = quick(links, schemas, delta=delta).fit({**two(), name: car}).accountant_.ledger
    assert len({entry.name for entry in ledger}) == len(ledger)
    links = [Children("person", of=name, key="household_id", most=3, head={"relation": "head"})]
    ledger = (
        quick(links, {name: schemas[name], "person": TWO["person"]}, delta=delta)
        .fit({name: car, "person": two()["person"]})
        .accountant_.ledger
    )
    assert len({entry.name for entry in ledger}) == len(ledger)


def test_an_infinite_epsilon_is_said_to_be_so():
    model = quick(epsilon=float("inf")).fit(two())
    assert model.accountant_.spent == float("inf")
    assert {max(entry.scale) for entry in model.accountant_.ledger} == {0}


# Refusals


def with_column(table, name, cells):
    return {**two(), table: two()[table].assign(**{name: cells})}


BAD = {  # parameters and tables, and words of the message
    "no cap": (lambda: quick([Children("person", of="household", key="household_id")]), "most"),
    "two roots": (lambda: quick(schemas={**TWO, "car": {"power": (0, 9)}}).fit({**two(), "car": two()["person"]}), "hang on none"),
    "two parents": (
        lambda: quick([PERSONS, Children("person", of="car", key="car_id", most=2)], {**TWO, "car": {"power": (0, 9)}}).fit(two()),
        "'person' has two",
    ),
    "a cycle": (
        lambda: quick([PERSONS, Children("household", of="person", key="person_no", most=2)]).fit(two()),
        "tree|hang on each other",
    ),
    "no links": (lambda: quick([]).fit(two()), "links must be a list of Children"),
    "no key in the child": (lambda: quick().fit({**two(), "person": two()["person"].drop(columns="household_id")}), "'household_id'"),
    "no key in the parent": (
        lambda: quick().fit({**two(), "household": two()["household"].drop(columns="household_id")}),
        "'household_id'",
    ),
    "a key among the columns": (
        lambda: quick(schemas={**TWO, "person": {**TWO["person"], "household_id": (0, 999)}}).fit(two()),
        "household_id.*Identifier",
    ),
    "no such order": (lambda: quick([Children("person", of="household", key="household_id", most=3, order="day")]).fit(two()), "order"),
    "order of levels": (
        lambda: quick([Children("person", of="household", key="household_id", most=3, order="works")]).fit(two()),
        "order",
    ),
    "no such head": (
        lambda: quick([Children("person", of="household", key="household_id", most=3, head={"relation": "king"})]).fit(two()),
        "head must have levels",
    ),
    "a table less": (lambda: quick().fit({"household": two()["household"]}), "X must be a dict of the tables 'household', 'person'"),
    "one table": (lambda: quick().fit(two()["person"]), "X must be a dict of the tables"),
    "a column less": (lambda: quick().fit({**two(), "person": two()["person"].drop(columns="age")}), "'age'"),
    "a column more": (lambda: quick().fit(with_column("person", "color", "red")), "'color'"),
    "no schemas": (lambda: quick(schemas=None).fit(two()), "schemas must be a dict"),
    "a schema less": (lambda: quick(schemas={"household": TWO["household"]}).fit(two()), "'person'"),
    "a unit": (lambda: quick().fit(two(), unit="household_id"), "unit must be None for linked tables"),
    "private levels": (lambda: quick(schemas={**TWO, "household": {"region": "private", "income": (0, 9)}}).fit(two()), "household"),
    "noise that cannot be drawn": (
        lambda: quick([replace(PERSONS, most=64), replace(TRIPS, most=64)], HOUSEHOLDS, epsilon=1e-6, delta=1e-6).fit(households(40)),
        "epsilon must leave noise .* on cells of trip, .*, got 1e-06 for all counts; raise epsilon, or state a smaller most",
    ),
    "epsilon": (lambda: quick(epsilon=0).fit(two()), "epsilon must be a number greater than 0"),
    "delta": (lambda: quick(delta=1).fit(two()), "delta must be a number"),
    "neighboring": (lambda: quick(neighboring="both").fit(two()), "neighboring"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_links_tables_and_parameters_are_refused_in_a_sentence_before_the_charge(name, monkeypatch):
    call, words = BAD[name]
    monkeypatch.setattr(PrivacyAccountant, "release", lambda *_, **__: pytest.fail("something was released"))
    with pytest.raises((ValueError, TypeError), match=words) as refused:
        call()
    message = str(refused.value)
    assert "\n" not in message
    assert len(message) < 400


# The object


def test_a_refused_or_interrupted_fit_leaves_the_object_as_it_was(hasty):
    model, tables = quick().fit(two()), two(seed=1)
    before, shared = dict(vars(model)), PrivacyAccountant(1)
    for line in (1, 40, 400, 1200):
        assert interrupted(lambda: model.fit(tables), line, skdpsynth.__path__[0])
        assert vars(model).keys() == before.keys()
        assert all(vars(model)[name] is before[name] for name in before)
    refuses(ValueError, "'age'", model.fit, {**tables, "person": tables["person"].drop(columns="age")})
    assert all(vars(model)[name] is before[name] for name in before)
    assert shared.spent == 0


@pytest.mark.parametrize(("estimator", "tables"), list(linked_variants().values()), ids=list(linked_variants()))
def test_a_file_and_a_pickle_hold_the_same_model(estimator, tables, tmp_path, hasty):
    model = clone(estimator).fit(tables)
    model.save(tmp_path / "model.zip")
    for again in (load(tmp_path / "model.zip"), pickle.loads(pickle.dumps(model)), from_bytes(to_bytes(model))):
        assert difference(released_state(model), released_state(again)) is None
        assert again.links == model.links or list(again.links) == list(model.links)
    unfitted = from_bytes(to_bytes(clone(estimator)))
    assert cells(unfitted.set_params(random_state=0).fit(tables).sample(9, random_state=0)) == cells(
        clone(estimator).set_params(random_state=0).fit(tables).sample(9, random_state=0)
    )


def test_a_private_number_of_roots_is_near_the_true_one_and_whole(hasty):
    model = quick(neighboring="add_or_remove_one", epsilon=20.0).fit(two(400))
    assert abs(model.n_samples_ - 400) < 30
    assert len(model.sample()["household"]) == model.n_samples_
    assert quick(neighboring="add_or_remove_one", epsilon=1e-9).fit(two(5))._size_error > 1e6


def test_dates_missing_cells_and_levels_that_nobody_knows_are_read_as_schemas_say(hasty):
    tables = two()
    tables["person"] = tables["person"].assign(born=pd.Timestamp("1990-05-05")).astype({"age": float})
    tables["person"].loc[:9, "age"], tables["household"].loc[:3, "region"] = np.nan, "nowhere"
    schemas = {**TWO, "person": {**TWO["person"], "age": Continuous(0, 99, nullable=True), "born": Date("1900-01-01", "2020-12-31")}}
    drawn = quick(schemas=schemas, epsilon=50.0).fit(tables).sample(200, random_state=0)
    assert set(drawn["household"]["region"]) <= {"north", "south"}
    assert drawn["person"]["age"].isna().any()
    assert drawn["person"]["born"].between("1900-01-01", "2020-12-31").all()


@pytest.mark.parametrize("neighboring", ["replace_one", "add_or_remove_one"])
def test_a_fit_warns_where_noise_hides_most_pairs_and_only_there(hasty, neighboring):
    for epsilon, n, is_noisy in ((1.0, 60, True), (1.0, 3000, False), (float("inf"), 60, False)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            quick(epsilon=epsilon, neighboring=neighboring).fit(two(n))
        told = [str(each.message) for each in caught if each.category is SmallSampleWarning]
        assert len(told) == is_noisy
        assert all("Noise is as large as the counts of" in each for each in told)
