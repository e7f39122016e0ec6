"""Which rows of a root count follows from its own rows, by a column that orders them or by a keyed hash, and never from their arrival."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sources
from laws import ALARM, CERTAIN, chi_squared

from skdpsynth import LinkedTablesSynthesizer
from skdpsynth.domain import Children, parents_of
from skdpsynth.tables import open_forest

SCHEMAS = {
    "household": {"region": ["north", "south"], "income": (0.0, 9.0)},
    "person": {"age": (0, 99), "relation": ["head", "child", "other"]},
    "trip": {"depart": (0, 4), "mode": ["car", "bus"]},
}
TRIPS = Children("trip", of="person", key=("household_id", "person_no"), most=2, order="depart")
DEEP = [Children("person", of="household", key="household_id", most=2), TRIPS]
HEADED = [Children("person", of="household", key="household_id", most=3, least=1, head={"relation": "head"})]


def made_up(links, n=30, seed=0, names="{}"):
    """Households with more persons and trips than count, some of them twice; keys of all households and persons are there twice."""
    rng = np.random.default_rng(seed)
    household = pd.DataFrame({"household_id": np.tile(np.arange(n), 2), "region": rng.choice(["north", "south"], 2 * n)})
    owner, number = rng.integers(0, n, 6 * n), rng.integers(0, 4, 6 * n)
    relations = rng.choice(["head", "child", "other"], 6 * n)
    person = pd.DataFrame({"household_id": owner, "person_no": number, "age": rng.integers(0, 3, 6 * n), "relation": relations})
    trip = person[["household_id", "person_no"]].sample(12 * n, replace=True, random_state=seed)
    trip = trip.assign(depart=rng.integers(0, 5, 12 * n), mode=rng.choice(["car", "bus"], 12 * n))
    tables = {"household": household.assign(income=np.arange(2 * n) / 10), "person": person, "trip": trip}
    for name, table in tables.items():
        for key in [each for each in ("household_id", "person_no") if each in table]:
            tables[name] = tables[name].assign(**{key: tables[name][key].map(names.format)})
    return tables if links is DEEP else {"household": tables["household"], "person": tables["person"].drop(columns="person_no")}


def mixed(tables, seed):
    """The same rows and columns in another order."""
    rng = np.random.default_rng(seed)
    return {name: table.iloc[rng.permutation(len(table)), rng.permutation(table.shape[1])] for name, table in tables.items()}


def as_pandas(table):
    return table if isinstance(table, pd.DataFrame) else table.to_pandas()


def opened(tables, links, **key):
    return open_forest({name: SCHEMAS[name] for name in tables}, links, tables, **key)[0]


def rows_of_roots(forest):
    """The cells of each root and of all that hangs on it."""
    parts = [forest[np.array([place])] for place in range(len(forest))]
    return sorted(str({name: [column.tolist() for column in columns] for name, columns in part.tables.items()}) for part in parts)


@pytest.mark.parametrize("links", [DEEP, HEADED])
@pytest.mark.parametrize("names", ["{}", "P{}"])
@pytest.mark.parametrize("source", [lambda table: table, pl.from_pandas, sources.duck])
def test_rows_and_columns_in_any_order_make_one_forest(links, names, source):
    tables = made_up(links, names=names)
    first = opened({name: source(table) for name, table in tables.items()}, links)
    assert len(first) == 30
    for seed in range(3):
        second = opened({name: source(table) for name, table in mixed(tables, seed).items()}, links)
        assert first.tables.keys() == second.tables.keys()
        for name in first.tables:
            assert all(map(np.array_equal, first.tables[name], second.tables[name]))
        assert all(np.array_equal(first.owners[name], second.owners[name]) for name in first.owners)


@pytest.mark.must
@pytest.mark.parametrize("links", [DEEP, HEADED])
def test_beyond_the_cap_too_rows_of_other_roots_decide_nothing(links):
    tables = made_up(links)
    whole = rows_of_roots(opened(tables, links, key=bytes(range(32))))
    for key in range(5):
        others = {name: table[table["household_id"] != str(key)] for name, table in mixed(tables, key).items()}
        left = rows_of_roots(opened(others, links, key=bytes(range(32))))
        assert len(left) == 29
        assert not [row for row in left if row not in whole]


def test_what_counts_beyond_the_cap_is_uniform_and_another_with_another_key():
    n = 4000
    tables = {
        "household": pd.DataFrame({"household_id": range(n), "region": "north", "income": 1.0}),
        "person": pd.DataFrame({"household_id": np.repeat(np.arange(n), 4), "age": np.tile(np.arange(4), n), "relation": "child"}),
    }
    one = [Children("person", of="household", key="household_id", most=1)]
    found = [opened(tables, one, key=bytes([seed]) * 32).tables["person"][0].astype(int) for seed in range(2)]
    for ages in found:
        assert chi_squared(np.bincount(ages, minlength=4), np.ones(4)) > ALARM
    assert chi_squared(np.bincount(4 * found[0] + found[1], minlength=16), np.eye(4) + 1e-9) < CERTAIN


def test_no_cap_takes_the_head_away():
    n = 400
    tables = {
        "household": pd.DataFrame({"household_id": range(n), "region": "north", "income": 1.0}),
        "person": pd.DataFrame({"household_id": np.repeat(np.arange(n), 6), "age": np.tile(np.arange(6), n), "relation": "child"}),
    }
    tables["person"].loc[tables["person"]["age"] == 4, "relation"] = "head"
    forest = opened(tables, HEADED)
    assert (forest.tables["household"][2] == 4).all()
    assert (forest.counts("person") == 2).all()
    assert not (forest.tables["person"][0] == 4).any()


def test_a_history_keeps_what_comes_first_in_time():
    tables = made_up(DEEP)
    forest = opened(mixed(tables, 1), [Children("person", of="household", key="household_id", most=60), TRIPS])
    named = tables["trip"].groupby(["household_id", "person_no"])["depart"]
    earliest = named.apply(lambda departs: sorted(departs)[:2]).explode()
    assert sorted(forest.tables["trip"][0]) == sorted(earliest)


def test_constants_of_a_panel_are_those_of_the_first_time_or_of_a_hash():
    rng = np.random.default_rng(0)
    panel = pd.DataFrame(
        {"nr": np.repeat(np.arange(300), 3), "year": np.tile([1980.0, 1981, np.nan], 300), "school": np.tile([1, 2, 3], 300)}
    )
    mixed_up = panel.iloc[rng.permutation(len(panel))]
    for kind in (lambda table: table, pl.from_pandas, sources.arrow):
        timed = as_pandas(parents_of(kind(mixed_up), key="nr", columns=["school"], order="year")["parent"])
        assert len(timed) == 300
        assert (timed["school"] == 1).all()
        first, second = (
            as_pandas(parents_of(kind(each), key="nr", columns=["school"])["parent"]).sort_values("nr") for each in (panel, mixed_up)
        )
        assert first["school"].tolist() == second["school"].tolist()
        assert chi_squared(np.bincount(first["school"])[1:], np.ones(3)) > ALARM
    with pytest.raises(ValueError, match="order must be a column of frame, got 'day'"):
        parents_of(panel, key="nr", columns=["school"], order="day")


def test_with_a_seed_samples_are_the_same_whatever_the_order_of_rows_and_columns(hasty):
    tables = made_up(HEADED, n=60)
    schemas = {name: SCHEMAS[name] for name in tables}
    model = LinkedTablesSynthesizer(schemas, links=HEADED, epsilon=1.0, random_state=0)
    first = model.fit(tables).sample(50, random_state=0)
    second = model.fit(mixed(tables, 3)).sample(50, random_state=0)
    for name in tables:
        assert list(second[name]) == list(mixed(tables, 3)[name])
        pd.testing.assert_frame_equal(first[name], second[name][list(first[name])])
