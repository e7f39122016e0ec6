"""Linked tables whose levels and bounds nobody knows, and columns of very many levels."""

import itertools
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from estimators import HOUSEHOLDS, PERSONS, TRIPS, households
from internals import MAX_CODES, read_forest
from laws import refuses

from skdpsynth import LinkedTablesSynthesizer, PrivacyAccountant
from skdpsynth.domain import AtMost, Children, Compared, Continuous, Nominal
from skdpsynth.exceptions import SmallSampleWarning

N = 6000
UNKNOWN = {
    "household": {"region": Nominal("private"), "rent": Continuous(bounds="private")},
    "person": {"speaks": Nominal("private", nullable=True), "age": Continuous(bounds="private", integer=True)},
}
OF_HOMES = Children("person", of="household", key="id", most=4)


def homes(n=N, seed=0):
    """Persons mostly speak what their region does; one person in a thousand speaks what nobody else does."""
    rng = np.random.default_rng(seed)
    region, owner = rng.choice(["north", "south"], n), np.repeat(np.arange(n), rng.integers(0, 5, n))
    speaks = np.where(rng.random(len(owner)) < 0.8, region[owner], "both").astype(object)
    speaks[::1000] = [f"own {number}" for number in range(len(speaks[::1000]))]
    household = pd.DataFrame({"id": 7 * np.arange(n), "region": region, "rent": rng.normal(900.0, 100.0, n)})
    return {"household": household, "person": pd.DataFrame({"id": 7 * owner, "speaks": speaks, "age": rng.integers(18, 90, len(owner))})}


def fitted(tables, schemas=UNKNOWN, links=(OF_HOMES,), **parameters):
    parameters = {"epsilon": 4.0, "delta": 1e-6, "random_state": 0, **parameters}
    return LinkedTablesSynthesizer(schemas, links=list(links), **parameters).fit(tables)


def rows_of_roots(tables, schemas, links):
    """One row of each root, as tuples without missing cells that differ."""
    columns = read_forest(schemas, links, tables, buys=True)[0].one_row_of_each()
    return [tuple(None if cell != cell else cell for cell in row) for row in zip(*(each.tolist() for each in columns), strict=True)]


# One row of each root


def test_a_root_moves_one_row_alone_whatever_comes_in_its_place_and_however_many_levels_it_has_alone():
    """By brute force: all pairs of roots with up to four persons, of whom three count, each with up to three trips, of which two count."""
    schemas = {"a": {"x": Nominal("private")}, "b": {"y": Nominal("private")}, "c": {"z": Nominal("private")}}
    links = [Children("b", of="a", key="i", most=3), Children("c", of="b", key=("i", "j"), most=2)]
    rests = [(2, (1, 0, 2)), (1, ()), (3, (2,))]  # numbers of the root, and of trips of each of its persons

    def tables(roots):
        a = [{"i": i, "x": f"x{i}"} for i, _ in roots]
        b = [{"i": i, "j": j, "y": f"y{i} {j}"} for i, trips in roots for j in range(len(trips))]
        c = [{"i": i, "j": j, "z": f"z{i} {j} {k}"} for i, trips in roots for j, n in enumerate(trips) for k in range(n)]
        columns = {"a": ["i", "x"], "b": ["i", "j", "y"], "c": ["i", "j", "z"]}
        return {name: pd.DataFrame(rows, columns=columns[name]) for name, rows in (("a", a), ("b", b), ("c", c))}

    rest = Counter(rows_of_roots(tables(rests), schemas, links))
    for key, n in itertools.product(range(10, 14), range(5)):
        for trips in itertools.product((0, 1, 3), repeat=n):
            place = 3 * (key % 2)
            found = Counter(rows_of_roots(tables([*rests[:place], (key, trips), *rests[place:]]), schemas, links))
            ((row, count),) = (found - rest).items()
            assert count == 1
            assert not rest - found
            assert row[0] == f"x{key}"
            assert (row[1] is None) == (n == 0)
            assert row[1] is None or row[1] in {f"y{key} {j}" for j in range(n)}
            which = None if row[1] is None else int(row[1].split()[1])
            assert row[2] in ({None} if which is None or not trips[which] else {f"z{key} {which} {k}" for k in range(trips[which])})


@pytest.mark.parametrize("keys", [np.arange, lambda n: np.array([f"home {i}" for i in range(n)], dtype=object)])
def test_every_sibling_is_as_likely_to_stand_for_all(keys):
    """3000 parents of three rows with two each: chi squared of 5 degrees of freedom, which is above 50 with a chance of 2e-9."""
    own = keys(3000)
    tables = {"a": pd.DataFrame({"i": own, "x": 0.5})}
    tables["b"] = pd.DataFrame({"i": np.repeat(own, 3), "j": np.tile(np.arange(3), 3000), "y": np.tile(np.arange(3.0), 3000)})
    tables["c"] = tables["b"].loc[np.repeat(np.arange(9000), 2), ["i", "j"]].assign(z=np.tile([0.0, 1.0], 9000))
    schemas = {name: {column: Continuous(bounds="private")} for name, column in (("a", "x"), ("b", "y"), ("c", "z"))}
    links = [Children("b", of="a", key="i", most=3), Children("c", of="b", key=("i", "j"), most=2)]
    counts = Counter(row[1:] for row in rows_of_roots(tables, schemas, links))
    assert len(counts) == 6
    assert sum((count - 500) ** 2 / 500 for count in counts.values()) < 50


# Fits


@pytest.mark.parametrize("neighboring", ["replace_one", "add_or_remove_one"])
def test_levels_and_bounds_are_bought_for_all_of_the_budget_and_rare_levels_stay_hidden(neighboring):
    tables = homes()
    model = fitted(tables, neighboring=neighboring)
    assert model.schemas_["household"]["region"].levels == ("other", "north", "south")
    assert model.schemas_["person"]["speaks"].levels == ("both", "north", "south")
    rent, age = model.schemas_["household"]["rent"], model.schemas_["person"]["age"]
    assert 0 <= rent.low < 600
    assert 1200 < rent.high < 2100
    assert 0 <= age.low <= 18
    assert 89 <= age.high < 260
    names = [entry.name for entry in model.accountant_.ledger]
    assert names[:3] == ["levels", "bounds: magnitudes", "bounds: even cells"]
    assert 4 * (1 - 1e-6) <= model.accountant_.spent <= 4
    drawn = model.sample(3000, random_state=0)
    assert drawn["person"].dtypes.to_dict() == tables["person"].dtypes.to_dict()
    both = (drawn["person"]["speaks"] == "both").mean()
    assert both == pytest.approx((tables["person"]["speaks"] == "both").mean(), abs=0.05)
    merged = drawn["person"].merge(drawn["household"], on="id")
    assert (merged["speaks"] == merged["region"]).mean() > 0.6
    assert not any("own" in str(value) for value in (model.schemas_, model.marginals_consistent_, drawn["person"]["speaks"].tolist()))


def test_heads_and_histories_have_bounds_and_levels_that_are_bought(hasty):
    tables = households(3000)
    schemas = {
        "household": HOUSEHOLDS["household"],
        "person": {**HOUSEHOLDS["person"], "age": Continuous(bounds="private"), "works": Nominal("private")},
        "trip": {"depart": Continuous(bounds="private"), "mode": Nominal("private")},
    }
    model = fitted(tables, schemas, [PERSONS, TRIPS])
    assert set(model.schemas_["trip"]["mode"].levels) == {"other", "bus", "car"}
    assert model.schemas_["trip"]["depart"].high >= 20
    pair = {"household": tables["household"], "person": tables["person"].drop(columns="person_no")}
    head = Children("person", of="household", key="household_id", most=4, least=1, head={"relation": "head"})
    drawn = fitted(pair, {name: schemas[name] for name in pair}, [head]).sample(200, random_state=0)
    assert (drawn["person"].query("relation == 'head'").groupby("household_id").size() == 1).all()


def test_few_roots_show_nothing_and_are_told_so():
    tables = homes(40)
    with pytest.warns(SmallSampleWarning, match=r"\('household', 'region'\)"):
        LinkedTablesSynthesizer(UNKNOWN, links=[OF_HOMES], delta=1e-6).fit(tables)


def test_a_table_of_facts_that_are_bought_has_no_other_model_than_one_of_stated_ones(hasty):
    """Without noise all levels are shown."""
    tables = homes(500)
    model = fitted(tables, epsilon=float("inf"))
    stated = {name: {column: kind for column, kind in schema.items() if column != "id"} for name, schema in model.schemas_.items()}
    again = fitted(tables, stated, epsilon=float("inf"))
    for of, counts in model.marginals_consistent_.items():
        for columns, table in counts.items():
            np.testing.assert_array_equal(table, again.marginals_consistent_[of][columns])


@pytest.mark.parametrize(
    ("schemas", "links", "parameters", "match"),
    [
        (
            UNKNOWN,
            [OF_HOMES],
            {"delta": 0},
            r"delta must be greater than 0 to buy the levels of \('household', 'region'\), \('person', 'speaks'\)",
        ),
        (
            UNKNOWN,
            [Children("person", of="household", key="id", most=4, head={"speaks": "north"})],
            {},
            "head must name columns that are modeled, whose facts are stated",
        ),
        (
            UNKNOWN,
            [Children("person", of="household", key="id", most=4, least=4, order="age", grid=range(4))],
            {},
            "order must have public bounds beside until or a grid, .* 'age'",
        ),
        (
            UNKNOWN,
            [OF_HOMES],
            {"rules": [AtMost(1, {"speaks": "north"}, table="person")]},
            "rules must name columns that are modeled, whose facts are stated.*'person.speaks'",
        ),
        (
            UNKNOWN,
            [OF_HOMES],
            {"rules": [Compared("person.age", "<", "household.rent")]},
            "rules must name columns .* whose facts are stated",
        ),
    ],
)
def test_what_cannot_be_bought_is_refused_before_any_charge(schemas, links, parameters, match, monkeypatch):
    monkeypatch.setattr(PrivacyAccountant, "release", lambda *_, **__: pytest.fail("something was released"))
    refuses(ValueError, match, fitted, homes(20), schemas, links, **parameters)


# Very many levels


def test_levels_by_the_hundreds_are_merged_for_pairs_and_drawn_one_by_one():
    rng, n = np.random.default_rng(0), 20_000
    levels, share = [f"{number:03d}" for number in range(300)], 1 / np.arange(1, 301) ** 0.7
    town, owner = rng.choice(300, n, p=share / share.sum()), np.repeat(np.arange(n), rng.integers(0, 4, n))
    born = np.where(rng.random(len(owner)) < 0.7, town[owner], rng.choice(300, len(owner), p=share / share.sum()))
    tables = {
        "home": pd.DataFrame({"id": np.arange(n), "town": np.array(levels)[town]}),
        "person": pd.DataFrame({"id": owner, "born": np.where(rng.random(len(owner)) < 0.9, np.array(levels)[born], None)}),
    }
    schemas = {"home": {"town": Nominal(levels)}, "person": {"born": Nominal(levels, nullable=True)}}
    model = fitted(tables, schemas, [Children("person", of="home", key="id", most=3)])
    assert {"counts of levels of home", "counts of levels of person"} <= {entry.name for entry in model.accountant_.ledger}
    assert model.marginals_consistent_["home",]["town",].size <= MAX_CODES
    assert model.marginals_consistent_["person",]["born",].size <= MAX_CODES + 1
    drawn = model.sample(20_000, random_state=0)
    assert set(drawn["home"]["town"]) <= set(levels)
    assert drawn["home"]["town"].nunique() > 200
    assert drawn["person"]["born"].isna().mean() == pytest.approx(0.1, abs=0.02)
    first = (drawn["home"]["town"] == "000").mean()
    assert first == pytest.approx(np.mean(town == 0), abs=0.01)
    same = {
        name: (both := table["person"].merge(table["home"], on="id"))["born"].eq(both["town"]).mean()
        for name, table in (("real", tables), ("drawn", drawn))
    }
    assert same["drawn"] > 0.3 * same["real"]


def test_a_head_may_have_very_many_levels_but_for_those_that_name_it(hasty):
    levels = [f"{number:03d}" for number in range(100)]
    rng, owner = np.random.default_rng(0), np.repeat(np.arange(1000), 2)
    tables = {
        "home": pd.DataFrame({"id": np.arange(1000), "size": 0.5}),
        "person": pd.DataFrame({"id": owner, "born": np.array(levels)[rng.integers(0, 100, 2000)], "role": ["head", "other"] * 1000}),
    }
    schemas = {"home": {"size": (0.0, 1.0)}, "person": {"born": levels, "role": ["head", "other"]}}
    link = {"of": "home", "key": "id", "most": 2, "least": 1}
    drawn = fitted(tables, schemas, [Children("person", **link, head={"role": "head"})]).sample(300, random_state=0)
    assert drawn["person"]["role"].value_counts()["head"] == 300
    assert set(drawn["person"]["born"]) <= set(levels)
    refuses(
        ValueError,
        "head must name columns of at most 64 levels",
        fitted,
        tables,
        schemas,
        [Children("person", **link, head={"born": "000"})],
    )
