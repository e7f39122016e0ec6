"""Intervals of linked tables hold, and their roots on conditions have the law that the model gives them; neither costs anything."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from estimators import HOUSEHOLDS, PERSONS, TRIPS, households, linked_variants
from internals import full_state, open_forest
from laws import ALARM, CERTAIN, refuses, same_law
from sklearn.base import clone

from skdpsynth import LinkedTablesSynthesizer, PrivacyAccountant, load
from skdpsynth.domain import Children, Impossible, Schema, Total

QUICK = {"n_refits": 8, "n_samples": 800}
TWO = {
    "home": {"region": ["north", "south"], "rent": (0.0, 100.0)},
    "person": {"works": [False, True], "age": (0, 99)},
}
LINK = Children("person", of="home", key="id", most=4)


def homes(n=800, seed=0):
    """In the north homes are larger, where rents are high more people work, and those of one home alike."""
    rng = np.random.default_rng(seed)
    region, rent = rng.choice(["north", "south"], n), rng.uniform(0, 100, n)
    owner = np.repeat(np.arange(n), rng.binomial(4, np.where(region == "north", 0.8, 0.3)))
    works = rng.random(len(owner)) < np.where(rng.random(n) < rent / 100, 0.9, 0.2)[owner]
    person = pd.DataFrame({"id": owner, "works": works, "age": rng.integers(0, 99, len(owner))})
    return {"home": pd.DataFrame({"id": np.arange(n), "region": region, "rent": rent}), "person": person}


def fitted(n=800, links=(LINK,), schemas=TWO, **parameters):
    parameters = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0, **parameters}
    return LinkedTablesSynthesizer(schemas, links=list(links), **parameters).fit(homes(n))


def several(tables):
    works, home = tables["person"]["works"], tables["home"]
    of_homes = works.groupby(tables["person"]["id"])
    return {
        "persons": len(works) / len(home),
        "works": works.mean(),
        "rent": home["rent"].mean(),
        "all": (of_homes.sum() == of_homes.size()).sum() / len(home),
    }


def kinds(tables):
    """What a home is: the numbers of its persons and of those who work. Homes are independent, as persons are not."""
    n, person = len(tables["home"]), tables["person"]
    return 10 * np.bincount(person["id"], minlength=n) + np.bincount(person["id"], person["works"], n)


@pytest.fixture(scope="module")
def model():
    return fitted()


@pytest.fixture(scope="module")
def large():
    return fitted(4000, epsilon=float("inf"), delta=0.0)


# Intervals


def test_an_interval_has_names_and_repeats_by_its_seed_also_of_a_saved_model(model, tmp_path):
    found, again, other = (model.interval(several, random_state=seed, **QUICK) for seed in (1, 1, 2))
    assert found.names == ("persons", "works", "rent", "all")
    assert (found.low < found.estimate).all()
    assert (found.estimate < found.high).all()
    assert str(again) == str(found) != str(other)
    model.save(tmp_path / "model.skdp")
    assert str(load(tmp_path / "model.skdp").interval(several, random_state=1, **QUICK)) == str(found)


@pytest.mark.parametrize("neighboring", ["replace_one", "add_or_remove_one"])
def test_an_interval_is_about_the_truth_and_the_wider_the_less_epsilon_is(neighboring):
    truth, errors = np.array([*several(homes(100_000, 1)).values()]), []
    for epsilon in (0.2, 10.0):
        found = fitted(epsilon=epsilon, neighboring=neighboring).interval(several, random_state=0, **QUICK)
        assert (np.abs(found.estimate - truth) < 6 * found.error).all()
        errors.append(found.error)
    assert (errors[0] > 1.5 * errors[1]).all()


@pytest.mark.parametrize(("estimator", "tables"), list(linked_variants().values()), ids=list(linked_variants()))
def test_every_kind_of_fit_has_intervals(estimator, tables, hasty):
    fit = clone(estimator).set_params(random_state=0).fit(tables)
    found = fit.interval(lambda drawn: len(drawn["person"]) / len(drawn["household"]), random_state=0, **QUICK)
    assert found.error > 0
    assert abs(found.estimate - 2) < 3 * found.error + 2
    like = {name: table.dtypes.to_dict() for name, table in fit.sample(50).items()}
    for drawn in fit.bootstrap_tables(2, 50, random_state=0):
        assert {name: table.dtypes.to_dict() for name, table in drawn.items()} == like
        assert len(drawn["household"]) == 50


def test_nothing_is_charged_and_the_model_stays_as_it_is():
    accountant = PrivacyAccountant(2.0, 1e-5)
    model = fitted(accountant=accountant)
    before, ledger, remaining = full_state(model), list(accountant.ledger), accountant.remaining
    model.interval(several, random_state=0, **QUICK)
    list(model.bootstrap_tables(2, random_state=0))
    model.sample(20, conditions={"home": {"region": "north"}}, random_state=0)
    assert (list(accountant.ledger), accountant.remaining) == (ledger, remaining)
    assert str(full_state(model)) == str(before)


def test_what_has_no_interval_is_refused_in_a_sentence(model):
    refuses(ValueError, "statistic must be a function", model.interval, "mean")
    refuses(ValueError, "it raised KeyError: 'nowhere'", model.interval, lambda tables: tables["nowhere"])
    refuses(ValueError, "n_refits must be an integer from 8", model.interval, several, n_refits=2)
    refuses(ValueError, "n_samples must be a positive integer", model.interval, several, n_samples=0)


@pytest.mark.parametrize("links", [[PERSONS, TRIPS], [Children("trip", of="person", key=("household_id", "person_no"), most=2), PERSONS]])
def test_roots_of_a_model_are_counted_as_they_would_be_if_they_were_read(links, hasty):
    """With a history, and without one."""
    fit = LinkedTablesSynthesizer(HOUSEHOLDS, links=links, random_state=0).fit(households())
    form, drawn = fit._container, fit._draw(200, np.random.default_rng(0))
    straight = form.forest_of(*drawn)
    read, _ = open_forest(fit.schemas_, links, form.write(*drawn))
    for name in straight.tables:
        first, second = (Counter(zip(*(np.round(each, 6).tolist() for each in of.tables[name]), strict=True)) for of in (straight, read))
        assert first == second


@pytest.mark.nightly
def test_intervals_of_made_up_homes_cover_the_truth():
    """90 % intervals, 60 times; half as wide they would cover 35 times (`benchmarks/intervals.py` has the figures)."""
    truth, covered = np.array([*several(homes(200_000, 1)).values()]), np.zeros(4)
    for seed in range(60):
        model = LinkedTablesSynthesizer(TWO, links=[LINK], epsilon=1.0, delta=1e-6).fit(homes(seed=100 + seed))
        found = model.interval(several, 0.9, n_refits=12, n_samples=3000, random_state=seed)
        covered += (found.low <= truth) & (truth <= found.high)
    assert covered.min() > 42


# Conditions


@pytest.mark.parametrize(
    "conditions", [{"region": "north"}, {"rent": (70, None)}, {"region": ["south"], "rent": (10.5, 33)}], ids=["level", "range", "both"]
)
def test_roots_meet_conditions_and_what_hangs_on_them_is_as_of_roots_that_happen_to(large, conditions):
    drawn, every = large.sample(8000, random_state=1, conditions={"home": conditions}), large.sample(60_000, random_state=2)
    low, high = conditions.get("rent", (0, 100))

    def meets(home):
        in_region = home["region"].isin(np.atleast_1d(conditions.get("region", ["north", "south"])))
        return in_region & (home["rent"] >= low) & (home["rent"] <= (high or 100))

    assert len(drawn["home"]) == 8000
    assert meets(drawn["home"]).all()
    chosen = meets(every["home"]).to_numpy()
    assert same_law(kinds(drawn), kinds(every)[chosen]) > ALARM
    assert same_law(kinds(drawn), kinds(every)) < CERTAIN
    tenths = [np.digitize(rents, np.linspace(0, 100, 31)) for rents in (drawn["home"]["rent"], every["home"]["rent"][chosen])]
    assert same_law(*tenths) > ALARM


def test_histories_are_those_of_roots_that_meet_the_condition(hasty):
    rng, n = np.random.default_rng(0), 3000
    old = rng.random(n) < 0.5
    owner = np.repeat(np.arange(n), rng.binomial(3, np.where(old, 0.9, 0.3)))
    visit = pd.DataFrame(
        {"id": owner, "day": rng.uniform(0, 9, len(owner)), "ill": rng.random(len(owner)) < np.where(old, 0.8, 0.2)[owner]}
    )
    schemas = {"patient": {"old": [False, True]}, "visit": {"day": (0.0, 9.0), "ill": [False, True]}}
    link = Children("visit", of="patient", key="id", most=3, order="day")
    tables = {"patient": pd.DataFrame({"id": np.arange(n), "old": old}), "visit": visit}
    model = LinkedTablesSynthesizer(schemas, links=[link], epsilon=float("inf"), random_state=0).fit(tables)

    def histories(drawn, rows):
        ill = np.bincount(drawn["visit"]["id"], drawn["visit"]["ill"], len(drawn["patient"]))
        return (10 * np.bincount(drawn["visit"]["id"], minlength=len(drawn["patient"])) + ill)[rows]

    drawn, every = model.sample(6000, random_state=0, conditions={"patient": {"old": True}}), model.sample(30_000, random_state=1)
    assert drawn["patient"]["old"].all()
    assert (drawn["visit"].groupby("id")["day"].diff().dropna() >= 0).all()
    chosen = every["patient"]["old"].to_numpy()
    assert same_law(histories(drawn, slice(None)), histories(every, chosen)) > ALARM
    assert same_law(histories(drawn, slice(None)), histories(every, ~chosen)) < CERTAIN


def test_conditions_hold_beside_rules_and_heads_and_repeat_by_their_seed(hasty):
    rule = Impossible({"region": "south", "rent": (50.0, 100.0)})
    head = Children("person", of="home", key="id", most=5, least=1, head={"works": True})
    facts = {**TWO, "home": Schema({**TWO["home"], "workers": (0, 9)}, rules=[rule])}
    tables = homes()
    tables["home"]["workers"] = 0
    total = Total("home.workers", "count(person, works = True)")
    model = LinkedTablesSynthesizer(facts, links=[head], rules=[total], epsilon=1.0, delta=1e-6, random_state=0).fit(tables)
    conditions = {"home": {"rent": (45, 60)}}
    drawn, again = (model.sample(500, random_state=3, conditions=conditions) for _ in range(2))
    pd.testing.assert_frame_equal(drawn["person"], again["person"])
    home = drawn["home"]
    assert len(home) == 500
    assert home["rent"].between(45, 60).all()
    assert not ((home["region"] == "south") & (home["rent"] >= 50)).any()
    assert (home["region"] == "south").any()
    assert (home["workers"] >= 1).all()  # their heads
    refuses(
        ValueError,
        "conditions must leave roots that keep the rules, but none of 5 kept",
        model.sample,
        5,
        conditions={"home": {"region": "south", "rent": (60, 70)}},
    )
    refuses(ValueError, "not computed, but 'workers' follows from rows of 'person'", model.sample, conditions={"home": {"workers": 2}})


def test_what_no_root_can_meet_is_refused_in_a_sentence(model):
    for conditions, words in (
        ({"person": {"works": True}}, "conditions must be a dict of the root's table alone, {'home': {column: what it may be}}"),
        ({"home": {}, "person": {}}, "conditions must be a dict of the root's table alone"),
        ("north", "conditions must be a dict of the root's table alone"),
        ({"home": {"id": 3}}, "conditions must be on columns that are synthesized, but 'id' is Identifier"),
        ({"home": {"nowhere": 3}}, "conditions must be on columns of the table, got 'nowhere'"),
        ({"home": {"rent": (200, 300)}}, "conditions on column 'rent' must be within its bounds"),
    ):
        refuses(ValueError, words.replace("{", r"\{").replace("}", r"\}").replace("(", r"\("), model.sample, 5, conditions=conditions)
