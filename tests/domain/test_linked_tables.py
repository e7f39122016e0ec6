"""Linked tables: rows of one root are one row of a fit, found by keys alone, and sampled rows go back as tables of their own."""

import math
import re
import warnings
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sources
from hypothesis import given
from hypothesis import strategies as st

from skdpsynth.domain import Boolean, Children, Continuous, Date, Identifier, LinkedSchema, Nominal, Schema, Text, order_links
from skdpsynth.frames import InMemory, Rows
from skdpsynth.persistence import from_bytes, to_bytes
from skdpsynth.tables import open_forest

pytestmark = pytest.mark.usefixtures("rows_by_arrival")
SCHEMAS = {
    "household": {"region": ["north", "south"], "income": (0.0, 9.0)},
    "person": {"age": (0, 99), "relation": ["head", "child", "other"]},
    "trip": {"depart": Continuous(0.0, 24.0, nullable=True), "mode": ["car", "bus"]},
}
TWO = {name: SCHEMAS[name] for name in ("household", "person")}
PERSONS = Children("person", of="household", key="household_id", most=3)
TRIPS = Children("trip", of="person", key=("household_id", "person_no"), most=2, order="depart")
LINKS = [TRIPS, PERSONS]
HEADED = [Children("person", of="household", key="household_id", most=3, least=1, head={"relation": "head"})]


def made_up(n=12, seed=0):
    """Households 0 to n - 1, persons numbered within each and trips, in any order, some of them more than count."""
    rng = np.random.default_rng(seed)
    households = pd.DataFrame(
        {"region": rng.choice(["north", "south"], n), "household_id": rng.permutation(n), "income": rng.random(n) * 9}
    )
    owner = np.sort(rng.integers(0, n, 3 * n))
    number = np.arange(3 * n) - np.searchsorted(owner, owner)
    relations = rng.choice(["head", "child", "other"], 3 * n)
    persons = pd.DataFrame({"age": rng.integers(0, 99, 3 * n), "person_no": number, "household_id": owner, "relation": relations})
    persons = persons.iloc[rng.permutation(3 * n)].reset_index(drop=True)
    trips = persons[["household_id", "person_no"]].iloc[rng.integers(0, 3 * n, 6 * n)].reset_index(drop=True)
    departs = np.where(rng.random(6 * n) < 0.2, np.nan, rng.integers(0, 5, 6 * n))
    return {"household": households, "person": persons, "trip": trips.assign(depart=departs, mode=rng.choice(["car", "bus"], 6 * n))}


def opened(tables, links=LINKS, schemas=SCHEMAS):
    return with_times(*open_forest(schemas, links, {name: tables[name] for name in schemas}))


def with_times(forest, linked):
    """A forest with times in place of gaps."""

    return forest.map_tables({name: lambda own, name=name: linked.decode(name, own, forest.owners.get(name)) for name in forest.tables})


def nested(forest):
    """Each root as its cells and the rows below it, in their order; without a number where a cell is missing."""

    def rows_of(name):
        rows = [
            [tuple(None if cell != cell else cell for cell in row)]
            for row in zip(*(each.tolist() for each in forest.tables[name]), strict=True)
        ]
        for child in (child for child, parent in forest.parents.items() if parent == name):
            for row in rows:
                row.append([])
            for owner, row in zip(forest.owners[child].tolist(), rows_of(child), strict=True):
                rows[owner][-1].append(row)
        return rows

    return rows_of(forest.root)


def as_text(cell):
    """What is one key: 7, 7.0 and "7"; None of a missing one."""
    if cell is None or cell != cell:
        return None
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def joined(tables, head=None, most=3, most_trips=2):
    """The same as `nested`, row by row."""
    codes = {
        name: {level: code for code, level in enumerate(SCHEMAS[table][name])}
        for table, name in [("household", "region"), ("person", "relation")]
    }
    codes["mode"] = {"car": 0, "bus": 1}
    rows = {name: tables[name].to_dict("records") for name in tables}
    roots, seen = [], set()
    for household in rows["household"]:
        key = as_text(household["household_id"])
        if key is None or key in seen:
            continue
        seen.add(key)
        persons, numbers = [], set()
        for person in rows["person"]:
            number = as_text(person["person_no"]) if "trip" in rows else object()
            if as_text(person["household_id"]) != key or number is None or number in numbers:
                continue
            numbers.add(number)
            persons.append((person, number))
        cells, below, heads = [codes["region"][household["region"]], household["income"]], [], ()
        if head is not None:
            first = next((i for i, (person, _) in enumerate(persons) if person["relation"] == head), 0)
            heads = [persons.pop(first)[0]["age"]] if persons else [49.0]  # the middle of 0 and 99, as a whole number
        persons = persons[: most - (head is not None)]
        for person, number in persons:
            below.append([[person["age"], codes["relation"][person["relation"]]]])
            if "trip" not in rows:
                continue
            trips = [each for each in rows["trip"] if (as_text(each["household_id"]), as_text(each["person_no"])) == (key, number)]
            trips = sorted(trips, key=lambda each: math.inf if each["depart"] != each["depart"] else each["depart"])[:most_trips]
            below[-1][0].append(len(trips))
            below[-1].append(
                [
                    [(None if each["depart"] != each["depart"] else each["depart"], codes["mode"][each["mode"]], i)]
                    for i, each in enumerate(trips)
                ]
            )
        roots.append([(*cells, *heads, len(below)), [[tuple(each[0]), *each[1:]] for each in below]])
    return roots


# Which rows are whose


KEYS = st.sampled_from([0, 1, 2, "0", "1", 1.0, 2.0, None, math.nan])


@given(
    st.lists(KEYS, min_size=1, max_size=5),
    st.lists(st.tuples(KEYS, KEYS), max_size=12),
    st.lists(st.tuples(KEYS, KEYS), max_size=12),
    st.randoms(use_true_random=False),
)
def test_rows_of_each_root_are_those_that_a_join_row_by_row_finds(roots, persons, trips, random):
    tables = {
        "household": pd.DataFrame(
            {"household_id": pd.Series(roots, dtype=object), "region": "north", "income": np.arange(len(roots)) + 0.5}
        )
    }
    for name, keys in (("person", persons), ("trip", trips)):
        columns = {"household_id": [key for key, _ in keys], "person_no": [key for _, key in keys]}
        tables[name] = pd.DataFrame({column: pd.Series(cells, dtype=object) for column, cells in columns.items()})
    n_persons, n_trips = len(persons), len(trips)
    tables["person"] = tables["person"].assign(
        age=np.arange(n_persons), relation=[random.choice(["head", "child"]) for _ in range(n_persons)]
    )
    departs = np.array([random.choice([1.0, 2.0, math.nan]) for _ in range(n_trips)])
    tables["trip"] = tables["trip"].assign(depart=departs, mode=[random.choice(["car", "bus"]) for _ in range(n_trips)])
    if all(as_text(root) is None for root in roots):
        assert len(opened(tables)) == 0
        return
    assert nested(opened(tables)) == joined(tables)
    two = {"household": tables["household"], "person": tables["person"].drop(columns="person_no")}
    assert nested(opened(two, HEADED, TWO)) == joined(two, head="head")


@pytest.mark.must
@pytest.mark.parametrize("links", [LINKS, HEADED])
def test_rows_of_other_roots_decide_nothing(links):
    """A root that comes, goes or has other rows changes its own place alone; how rows of several roots are mixed changes nothing."""
    tables, rng = made_up(), np.random.default_rng(1)
    schemas = SCHEMAS if links is LINKS else TWO
    if links is HEADED:
        tables["person"] = tables["person"].drop(columns="person_no")
    whole = nested(opened(tables, links, schemas))
    for place, key in enumerate(tables["household"]["household_id"]):
        others = {name: table[table["household_id"] != key] for name, table in tables.items()}
        expected = whole[:place] + whole[place + 1 :]
        assert nested(opened(others, links, schemas)) == expected
        mine = {name: table[table["household_id"] == key] for name, table in tables.items()}
        changed = {name: pd.concat([mine[name].iloc[::-1], mine[name], others[name]]) for name in ("person", "trip") if name in schemas}
        changed["household"] = tables["household"]
        found = nested(opened(changed, links, schemas))
        assert found[:place] + found[place + 1 :] == expected
    for _ in range(5):
        order = {
            name: np.argsort(
                table["household_id"] + rng.random(tables["household"]["household_id"].max() + 1)[table["household_id"]], kind="stable"
            )
            for name, table in tables.items()
        }
        mixed = {name: table.iloc[order[name]] for name, table in tables.items()}
        assert nested(opened(mixed, links, schemas)) == [whole[place] for place in order["household"]]


def test_rows_that_hang_on_nothing_and_rows_beyond_the_cap_change_nothing():
    tables = made_up()
    more = {
        "household": [{"household_id": 3, "region": "north", "income": 1.0}, {"household_id": None, "region": "north", "income": 1.0}],
        "person": [
            {"household_id": key, "person_no": number, "age": 1, "relation": "head"} for key, number in [(99, 1), (None, 1), (3, None)]
        ],
        "trip": [
            {"household_id": key, "person_no": number, "depart": 0.0, "mode": "car"}
            for key, number in [(3, 99), (99, 1), (3, None), (None, 1)]
        ],
    }
    tables["person"] = pd.concat(
        [tables["person"], pd.DataFrame({"household_id": 3, "person_no": range(20, 24), "age": 5, "relation": "head"})]
    )
    changed = {name: pd.concat([tables[name], pd.DataFrame(rows)]) for name, rows in more.items()}
    beyond = pd.DataFrame({"household_id": 3, "person_no": range(30, 34), "age": 1, "relation": "head"})
    changed["person"] = pd.concat([changed["person"], changed["person"].iloc[:5], beyond])  # five whose keys are there
    changed["trip"] = pd.concat([changed["trip"], pd.DataFrame({"household_id": 3, "person_no": [30, 31], "depart": 0.0, "mode": "car"})])
    assert nested(opened(changed)) == nested(opened(tables))


@pytest.mark.parametrize("offset", [0, 2**61])
def test_children_of_two_roots_may_share_numbers_under_a_key_of_both(offset):
    tables = {
        "household": pd.DataFrame({"household_id": [offset + 1, offset + 2], "region": "north", "income": 1.0}),
        "person": pd.DataFrame({"household_id": [offset + 1, offset + 2], "person_no": offset + 1, "age": [10, 20], "relation": "head"}),
        "trip": pd.DataFrame(
            {"household_id": [offset + 2, offset + 1, offset + 2], "person_no": offset + 1, "depart": [3.0, 2.0, 1.0], "mode": "car"}
        ),
    }
    assert opened(tables).tables["trip"][0].tolist() == [2, 1, 3]
    # Where the key is one of ids alone, a doubled one takes no row from another root but those below it, which go to the first.
    links = [PERSONS, Children("trip", of="person", key="person_no", most=3)]
    tables["trip"] = tables["trip"].drop(columns="household_id")
    forest = opened(tables, links)
    assert forest.tables["person"][0].tolist() == [10, 20]
    assert forest.owners["trip"].tolist() == [0, 0, 0]


def test_a_history_goes_by_its_order_ties_by_place_and_missing_cells_last():
    tables = made_up(1)
    tables["person"] = pd.DataFrame({"household_id": [0], "person_no": [0], "age": [1], "relation": ["head"]})
    times, modes = [math.nan, 5, 3, 5, 3, 1, 9], ["car", "car", "bus", "bus", "car", "car", "car"]
    tables["trip"] = pd.DataFrame({"household_id": 0, "person_no": 0, "depart": times, "mode": modes})
    trips = [Children("trip", of="person", key=("household_id", "person_no"), most=9, order="depart"), PERSONS]
    depart, mode, nth = opened(tables, trips).tables["trip"]
    assert depart[:-1].tolist() == [1, 3, 3, 5, 5, 9]
    assert math.isnan(depart[-1])
    assert mode.tolist() == [0, 1, 0, 0, 1, 0, 0]
    assert nth.tolist() == [0, 1, 2, 2, 3, 3, 3]
    days = {"day": Date("2024-01-01", "2024-12-31")}  # where none may be missing, one that is comes last all the same
    visits = pd.DataFrame({"household_id": 0, "day": [None, "2024-12-30", "2024-01-02"]})
    forest, _ = open_forest(
        {"household": SCHEMAS["household"], "visit": days},
        [Children("visit", of="household", key="household_id", most=3, order="day")],
        {"household": tables["household"], "visit": visits},
    )
    assert forest.tables["visit"][0].tolist() == [1, 364, 182]


@pytest.mark.parametrize(
    ("relations", "head", "others"), [(["child", "head", "head"], 1, [0, 2]), (["child", "other"], 0, [1]), ([], 49, [])]
)
def test_the_first_that_claims_it_is_head_and_else_the_first_row(relations, head, others):
    persons = pd.DataFrame({"household_id": 0, "age": range(len(relations)), "relation": pd.Series(relations, dtype=object)})
    forest, linked = open_forest(TWO, HEADED, {"household": made_up(1)["household"], "person": persons})
    assert forest.tables["household"][2].tolist() == [head]
    assert forest.tables["household"][3].tolist() == [len(others)]
    assert forest.tables["person"][0].tolist() == others
    back = linked.write(with_times(forest, linked).tables, forest.owners)["person"]
    assert back["age"].tolist() == [head, *others]
    assert back["relation"][0] == "head"


def test_a_check_counts_keys_and_children_that_are_not_as_links_say():
    households = pd.DataFrame({"household_id": [0, 1, 2, 3, 3, None], "region": "north", "income": 1.0})
    keys = [(0, 0), (0, 1), (0, 1), (0, 2), (0, 3), (1, 0), (1, None), (2, 0), (7, 0), (None, 0)]
    persons = pd.DataFrame(keys, columns=["household_id", "person_no"]).assign(age=1, relation="head").iloc[::-1]
    persons.loc[persons["household_id"] == 2, "relation"] = "child"
    trips = pd.DataFrame({"household_id": [0, 0, 2, 9], "person_no": [0, 5, 0, 0], "depart": 1.0, "mode": "car"})
    links = [replace(PERSONS, least=1), TRIPS]
    found = LinkedSchema(SCHEMAS, links).check({"household": households, "person": persons, "trip": trips})
    both = ("household_id", "person_no")
    of_keys = {name: [each for each in found[name] if each.column in (both, both[0])] for name in found}
    told = {name: {each.problem: (each.column, each.rows, each.share) for each in of_keys[name]} for name in of_keys}
    assert told == {
        "household": {"no key": (both[0], 1, 1 / 6), "repeated key": (both[0], 1, 1 / 6), "less than least": (both[0], 1, 1 / 6)},
        "person": {
            "no key": (both, 2, 0.2),
            "repeated key": (both, 1, 0.1),
            "no parent": (both[0], 2, 0.2),
            "beyond most": (both[0], 2, 0.2),
        },
        "trip": {"no parent": (both, 2, 0.5)},
    }
    assert {each.problem for each in found["person"]} >= {"beyond most", "constant"}  # and what `Schema.check` finds
    headed = LinkedSchema(TWO, HEADED).check({"household": households[:4], "person": persons.drop(columns="person_no")})["household"]
    assert {each.problem: each.rows for each in headed if each.column == both[0]} == {
        "less than least": 1,
        "no head": 1,
        "several heads": 2,
    }


def test_a_check_finds_nothing_where_links_say_the_truth_and_refuses_what_a_fit_would():
    tables = {**made_up(), "person": made_up()["person"].groupby("household_id").head(3).drop(columns="person_no")}
    del tables["trip"]
    for found in LinkedSchema(TWO, [PERSONS]).check(tables).values():
        assert [each.problem for each in found] == []
    with pytest.raises(ValueError, match=r"X\['person'\] must have the column 'household_id'"):
        LinkedSchema(TWO, [PERSONS]).check({**tables, "person": tables["person"].drop(columns="household_id")})


# A forest as rows of a fit


def test_a_forest_is_cut_into_roots_with_all_that_hangs_on_them():
    forest = opened(made_up())
    whole, rows = nested(forest), Rows(InMemory(forest), 5, n_samples=len(forest))
    assert len(forest) == 12
    assert repr(forest).startswith("<")
    for places in (slice(3, 7), slice(0, 0), slice(None, None, -2), np.array([5, 5, 0]), np.array([], dtype=int)):
        assert nested(forest[places]) == [whole[i] for i in np.arange(12)[places]]
    assert [row for chunk in rows.chunks(5) for row in nested(chunk)] == whole
    assert rows.only(np.arange(12) % 2 == 0).n_samples == 6
    for child, parent in forest.parents.items():
        column = list(open_forest(SCHEMAS, LINKS, made_up())[1].schemas[parent].coded).index(f"{child}.number")
        assert forest.counts(child).tolist() == forest.tables[parent][column].tolist()
    doubled = forest.map_tables({"trip": lambda columns: [columns[1] * 2]})
    assert doubled.tables["trip"][0].tolist() == (forest.tables["trip"][1] * 2).tolist()
    assert doubled.tables["person"] is forest.tables["person"]


@pytest.mark.parametrize(("schemas", "links"), [(SCHEMAS, LINKS), (TWO, HEADED)])
def test_schemas_say_what_columns_of_a_forest_are(schemas, links):
    tables = made_up()
    if links is HEADED:
        tables["person"] = tables["person"].drop(columns="person_no")
    forest, linked = open_forest(schemas, links, {name: tables[name] for name in schemas})
    for name, schema in linked.schemas.items():
        assert len(schema.coded) == len(forest.tables[name])
        for kind, column in zip(schema.coded.values(), forest.tables[name], strict=True):
            assert not hasattr(kind, "levels") or ((column >= 0).all() and (column < kind.n_codes).all())
    added = [name for name in linked.schemas["household"] if "." in name]
    assert added == (["person.head.age", "person.number"] if links is HEADED else ["person.number"])
    assert linked.schemas["household"]["person.number"].levels == tuple(range(3 if links is HEADED else 4))
    assert links is HEADED or linked.schemas["trip"]["trip.nth"].levels == ("1", "2", "3-4", "5+")
    assert from_bytes(to_bytes(linked)) == linked


# Sources, and the way back


def as_pandas(table):
    return table.to_pandas() if not isinstance(table, pd.DataFrame) else table


KINDS = {"pandas": lambda table: table, "polars": pl.from_pandas, "pyarrow": sources.arrow}


@pytest.mark.parametrize("kind", KINDS)
def test_rows_go_back_in_the_kind_order_and_dtypes_of_their_table(kind):
    if kind != "pandas":  # by which pandas gives its rows to others
        pytest.importorskip("pyarrow")
    tables = made_up()
    tables["household"]["household_id"] = tables["household"]["household_id"].astype("int16")
    tables["person"] = tables["person"].assign(
        person_no=tables["person"]["person_no"].astype("string"), age=tables["person"]["age"].astype("int8")
    )
    tables["trip"]["person_no"] = tables["trip"]["person_no"].astype("string")
    given = {name: KINDS[kind](table) for name, table in tables.items()}
    forest, linked = open_forest(SCHEMAS, LINKS, given)
    back = linked.write(with_times(forest, linked).tables, forest.owners)
    assert nested(opened(back)) == nested(with_times(forest, linked)) == nested(opened(tables))
    for name, table in back.items():
        assert type(table) is type(given[name])
        assert list(table.columns if kind != "pyarrow" else table.column_names) == list(tables[name])
        found, wanted = (list(map(str, each.schema.types if kind == "pyarrow" else each.dtypes)) for each in (table, given[name]))
        assert found == [dtype.removeprefix("large_") for dtype in wanted]
    plain = {name: as_pandas(table) for name, table in back.items()}
    assert plain["household"]["household_id"].tolist() == list(range(12))
    owner, numbers = forest.owners["person"].tolist(), plain["person"]["person_no"].tolist()
    assert numbers == [str(owner[: i + 1].count(each)) for i, each in enumerate(owner)]
    assert plain["person"]["household_id"].tolist() == owner
    assert plain["trip"]["person_no"].tolist() == [numbers[i] for i in forest.owners["trip"].tolist()]
    assert plain["trip"]["household_id"].tolist() == forest.owners["person"][forest.owners["trip"]].tolist()


def test_keys_come_back_wider_where_their_dtype_cannot_hold_them_and_with_labels_that_the_schema_says():
    households = pd.DataFrame({"id": np.arange(200, dtype="uint8") % 200, "region": "north", "income": 1.0})
    persons = pd.DataFrame({"household": np.arange(90, dtype="uint8"), "age": 1, "relation": "head"})
    link = Children("person", of="household", key=("household", "id"), most=3)
    forest, linked = open_forest(TWO, [link], {"household": households, "person": persons})
    assert len(forest.owners["person"]) == 90
    many = forest[np.tile(np.arange(200), 2)]
    back = linked.write(many.tables, many.owners)
    assert back["household"].dtypes["id"] == "int64"
    assert back["person"]["household"].max() == 289
    schemas = {**TWO, "person": {"household": Identifier(labels="H"), **TWO["person"]}}
    texts = {"household": households.astype({"id": str}), "person": persons.astype({"household": str})}
    forest, linked = open_forest(schemas, [link], texts)
    back = linked.write(with_times(forest, linked).tables, forest.owners)
    assert back["household"]["id"].tolist()[:2] == ["H0", "H1"]
    assert set(back["person"]["household"]) == set(back["household"]["id"][:90])


@pytest.mark.parametrize("table", SCHEMAS)
def test_labels_of_a_key_in_one_table_are_its_labels_in_all(table):
    schemas = {**SCHEMAS, table: {"household_id": Identifier(labels="H-"), **SCHEMAS[table]}}
    tables = {name: each.astype({"household_id": str}) for name, each in made_up().items()}
    forest, linked = open_forest(schemas, LINKS, tables)
    back = linked.write(with_times(forest, linked).tables, forest.owners)
    assert back["household"]["household_id"].tolist() == [f"H-{i}" for i in range(12)]
    assert back["person"]["household_id"].tolist() == [f"H-{i}" for i in forest.owners["person"]]
    keys = back["person"][["household_id", "person_no"]]
    assert not keys.duplicated().any()
    assert len(back["trip"].merge(keys, on=["household_id", "person_no"])) == len(back["trip"]) > 0


def test_labels_of_a_key_that_differ_between_tables_raise():
    schemas = {name: {"household_id": Identifier(labels=name[0]), **TWO[name]} for name in TWO}
    tables = {name: made_up()[name].astype({"household_id": str}) for name in TWO}
    with pytest.raises(ValueError, match="labels of 'household_id' must be one in 'household' and 'person', got 'h' and 'p'"):
        open_forest(schemas, [PERSONS], tables)


@pytest.mark.parametrize("kind", sources.SOURCES)
def test_tables_of_every_source_make_the_same_forest(kind, tmp_path):
    """Where rows have no order, other children may count, and roots come in another order."""
    tables, given = made_up(), {}
    for name, table in tables.items():
        (tmp_path / name).mkdir()
        given[name] = sources.SOURCES[kind](table, tmp_path / name)
    (forest, linked), expected = open_forest(SCHEMAS, LINKS, given), nested(opened(tables))
    found = nested(with_times(forest, linked))
    if not re.search("sqlite|lazy|duckdb|ibis|dask|spark", kind):
        assert found == expected
    assert sorted(cells for cells, _ in found) == sorted(cells for cells, _ in expected)
    assert set(linked.write(with_times(forest, linked).tables, forest.owners)) == set(tables)


def test_columns_of_a_file_that_nobody_named_are_not_read(tmp_path):
    tables = made_up()
    files = {
        name: sources.files(table.assign(unused=1), tmp_path / name) for name, table in tables.items() if not (tmp_path / name).mkdir()
    }
    assert nested(opened(files)) == nested(opened(tables))


def test_keys_in_files_of_text_are_texts_and_missing_where_words_say_so(tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "household.csv").write_text("household_id,region,income\n7,north,1\n07,north,2\n,north,3\nNA,north,4\n")
    (tmp_path / "person.csv").write_text("household_id,age,relation\n07,1,head\n7,2,head\n,3,head\nNA,4,head\n")
    forest = opened({name: tmp_path / f"{name}.csv" for name in TWO}, [PERSONS], TWO)
    assert nested(forest) == [[(0, 1, 1), [[(2, 0)]]], [(0, 2, 1), [[(1, 0)]]]]


def test_a_child_table_without_rows_and_arrays_by_number():
    tables = made_up()
    empty = {"household": tables["household"], "person": tables["person"].iloc[:0], "trip": tables["trip"].iloc[:0]}
    forest, linked = open_forest(SCHEMAS, LINKS, empty)
    assert len(forest) == 12
    assert not forest.counts("person").any()
    assert not len(forest[3:5].owners["trip"])
    back = linked.write(with_times(forest, linked).tables, forest.owners)
    assert len(back["trip"]) == 0
    assert list(back["trip"]) == list(tables["trip"])
    parents, children = np.array([[7, 1], [8, 2]]), np.array([[3, 8], [4, 8], [5, 7]])
    schemas = {"parent": {1: (0, 9)}, "child": {0: (0, 9)}}
    forest, linked = open_forest(schemas, [Children("child", of="parent", key=[(1, 0)], most=2)], {"parent": parents, "child": children})
    assert nested(forest) == [[(1, 1), [[(5,)]]], [(2, 2), [[(3,)], [(4,)]]]]
    assert linked.write(with_times(forest, linked).tables, forest.owners)["child"].tolist() == [[5, 0], [3, 1], [4, 1]]


ODD = [
    [1],
    {},
    math.inf,
    -math.inf,
    10**5000,
    "x" * 10**4,
    b"7",
    "\ud800",
    2**70,
    2.0**60,
    7 + 0j,
    pd.Timestamp("2024-01-01"),
    pd.NA,
    pd.NaT,
    -5,
    (1, 2),
]


@pytest.mark.parametrize(
    ("cells", "n_roots", "n_sevens"),
    [
        ([*ODD, 7], 8, 3),
        ([math.inf, -math.inf, math.nan, 1e300, 7.0, 7.5], 2, 1),
        ([2.0**54, 7.0], 1, 1),
        ([-(2**63), 2**63 - 1, 2**62, 7], 4, 1),
        ([2**64 - 1, 7], 2, 1),
        ([True, False], 2, 0),
        (np.array([7, 60000, np.nan], dtype="float16"), 2, 1),
    ],
)
def test_no_cell_of_a_key_can_raise_or_warn(cells, n_roots, n_sevens):
    keys = pd.Series(cells, dtype=object if isinstance(cells, list) and cells[:1] == [[1]] else None)
    households = pd.DataFrame({"household_id": keys, "region": "north", "income": 1.0})
    persons = pd.DataFrame({"household_id": keys, "age": 1, "relation": "head"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        forest = opened({"household": households, "person": persons}, [PERSONS], TWO)
        sevens = opened({"household": households.assign(household_id="7"), "person": persons}, [PERSONS], TWO)
    assert len(forest) == n_roots
    assert forest.counts("person").min() == 1
    assert sevens.counts("person").tolist() == [n_sevens]


# What is refused


CHILDREN = {"of": "household", "key": "household_id", "most": 3}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"table": 3}, "table must be the name of a table, got 3"),
        ({"of": "person"}, "of must be another table than table"),
        ({"most": None}, "most must be an integer from 1 to 4096, got None; write a public cap"),
        ({"most": 0}, "most must be an integer"),
        ({"least": 4}, "least must be an integer from 0 to 3, got 4"),
        ({"order": ("a", "b")}, "order must be the name of a column"),
        ({"until": "b"}, "until must be the name of another column than order, beside it, got 'b'"),
        ({"order": "a", "until": "a"}, "until must be the name of another column"),
        ({"order": "a", "until": ("b", "c")}, "until must be the name of another column"),
        ({"order": "a", "longest": 3}, "longest must be a positive number, beside until, got 3"),
        ({"order": "a", "until": "b", "longest": 0}, "longest must be a positive number"),
        ({"order": "a", "until": "b", "longest": "3 days"}, "longest must be a positive number, beside until, got '3 days'"),
        ({"grid": [1, 2, 3]}, "grid must be a list of 3 cells of order"),
        ({"order": "a", "grid": [1, 2]}, "grid must be a list of 3 cells of order, .* got a list of 2"),
        ({"order": "a", "grid": "abc"}, "grid must be a list of 3 cells of order"),
        ({"order": "a", "until": "b", "grid": [1, 2, 3]}, "without until, got a list of 3"),
        ({"order": "a", "grid": [1, 2, 3], "least": 2}, "least must be 3 beside a grid, .*; else leave grid out, got 2"),
        ({"order": "a", "grid": [1, 2, 3], "least": 3, "head": {"relation": "head"}}, "head must be None beside a grid"),
        ({"key": None}, "key must be the name of a column"),
        ({"key": []}, "key must be the name of a column"),
        ({"key": [("a", "b", "c")]}, "key must be the name of a column"),
        ({"key": ("a", "a")}, "key must name each column of a table once"),
        ({"key": ["a", ("a", "b")]}, "key must name each column of a table once"),
        ({"head": {}}, "head must be a dict of one column: cell"),
        ({"head": "head"}, "head must be a dict of one column: cell"),
        ({"head": {"relation": "head"}, "most": 1}, "head must be None where most is 1"),
    ],
)
def test_links_are_checked_when_they_are_stated(change, message):
    with pytest.raises((TypeError, ValueError), match=message):
        Children(**{"table": "person", **CHILDREN, **change})


def link(table, of, **change):
    return Children(table, **{**CHILDREN, "of": of, **change})


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ([], "links must be a list of Children, at least one, got an empty list"),
        (["b"], "links must be a list of Children"),
        ([link("b", "a"), link("e", "a")], "links must name tables of schemas, got 'e'; they are 'a', 'b', 'c', 'd'"),
        ([link("b", "a"), link("c", "a")], "must leave one table that hangs on none, but 'a', 'd' hang on none"),
        ([link("b", "a"), link("b", "c"), link("d", "c")], "must give each table one parent, but 'b' has two"),
        ([link("b", "a"), link("c", "d"), link("d", "c")], "must be a tree, but 'c', 'd' hang on each other"),
        ([link("b", "d"), link("a", "b"), link("d", "a"), link("c", "b")], "must be a tree"),
        ([link("b", "a", most=17), link("c", "b", most=16), link("d", "c", most=16)], "may have 4352 rows of 'd'"),
        (
            [link("b", "a", head={"x": "y"}), link("c", "b"), link("d", "a")],
            "head must be None where other tables hang on the child, got one for 'b'",
        ),
    ],
)
def test_links_that_are_no_tree_are_refused(links, message):
    with pytest.raises(ValueError, match=message):
        order_links("abcd", links)


def test_links_are_sorted_with_parents_first():
    links = [link("d", "c"), link("c", "b"), link("b", "a")]
    assert order_links("abcd", links) == ("a", tuple(links[::-1]))
    again = Children("person", of="household", key=[("a", "b"), "c"], most=4, head={"relation": "head"})
    assert (
        from_bytes(to_bytes(again)) == again == Children("person", of="household", key=[["a", "b"], "c"], most=4, head={"relation": "head"})
    )


def person(**change):
    return {"schemas": {**TWO, "person": {**TWO["person"], **change}}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": made_up()["household"]}, "X must be a dict of the tables 'household', 'person', got a DataFrame"),
        ({"X": {"household": made_up()["household"]}}, "X must be a dict of the tables 'household', 'person', got one of 'household'"),
        ({"X": made_up()}, "got one of 'household', 'person', 'trip'; give these tables and no others"),
        ({"schemas": [TWO]}, "schemas must be a dict of table: schema"),
        ({"schemas": {**TWO, "person": 3}}, "table 'person': schema must be a dict"),
        (
            {"schemas": {**TWO, "household": {"household_id": Identifier()}}},
            "table 'household': schema must have a column",
        ),
        (person(work=["no", "yes"]), r"with X\['person'\] as X: schema must name the columns of X, .* names 'work', which X lacks"),
        (person(household_id=(0, 9)), "schema must leave out 'household_id', or say Identifier"),
        (person(age=Text()), "schema of column 'age' is Text"),
        (person(relation=Nominal("private")), "has private levels, which is not supported here"),
        (person(age=["0", "1"]), "column 'age' has dtype int64, but its levels"),
        ({"link": {"key": "house"}}, r"X\['person'\] must have the column 'house', by which 'person' hangs on 'household'"),
        ({"link": {"key": ("household_id", "id")}}, r"X\['household'\] must have the column 'id'"),
        ({"link": {"order": "day"}}, "order must be a column of 'person' that its schema says is of numbers"),
        ({"link": {"order": "relation"}}, "order must be a column of 'person'"),
        ({"link": {"head": {"age": 3}}}, "head must have levels of column 'age', got 3"),
        ({"link": {"head": {"relation": "wife"}}}, "head must have levels of column 'relation', got 'wife'"),
        ({"link": {"head": {"relation": ["head"]}}}, "head must have levels of column 'relation', got a list of 1"),
    ],
)
def test_tables_that_do_not_fit_are_refused_in_one_sentence(change, message):
    tables = made_up()
    tables["person"] = tables["person"].drop(columns="person_no")
    stated = Children("person", **{**CHILDREN, **change.get("link", {})})
    with pytest.raises((TypeError, ValueError), match=message) as caught:
        open_forest(change.get("schemas", TWO), [stated], change.get("X", {name: tables[name] for name in TWO}))
    assert "\n" not in str(caught.value)


def test_columns_of_the_names_that_links_add_are_refused():
    for table, column in (("household", "person.number"), ("household", "person.head.age"), ("person", "person.nth")):
        tables = made_up()
        tables["person"] = tables["person"].drop(columns="person_no")
        tables[table][column] = 1
        schemas = {**TWO, table: {**TWO[table], column: (0, 9)}}
        stated = Children("person", **CHILDREN, order="age", head={"relation": "head"})
        with pytest.raises(ValueError, match=f"schema of '{table}' must not have '{column}', which a link adds"):
            opened(tables, [stated], schemas)
    visits = pd.DataFrame({"region": ["north"], "cost": 1})
    links = [PERSONS, Children("visit", of="household", key="region", most=2)]
    with pytest.raises(ValueError, match="key must name the same columns of 'household' in all links"):
        opened(
            {**tables, "household": made_up()["household"], "person": tables["person"].drop(columns="person.nth"), "visit": visits},
            links,
            {**TWO, "household": {"income": (0, 9)}, "visit": {"cost": (0, 9)}},
        )


def test_a_head_may_be_a_truth_value():
    schemas = {"household": TWO["household"], "person": Schema({"age": (0, 99), "first": Boolean(words=("no", "yes"))})}
    persons = pd.DataFrame({"household_id": 0, "age": [1, 2], "first": ["no", "yes"]})
    for cell in (True, "yes"):
        links = [Children("person", **CHILDREN, head={"first": cell})]
        assert nested(opened({"household": made_up(1)["household"], "person": persons}, links, schemas))[0][0][2:] == (2, 1)


@pytest.mark.parametrize("key", [7, 2**53 - 1, 10**17, 10**18 - 5, 10**18, 18 * 10**17, 2**62 - 1, 2**62])
@pytest.mark.parametrize("other", [3, -1, 2**62 + 9, 10**18 + 1])
def test_a_key_is_found_whatever_keys_others_have(key, other):
    """In one table, in two kinds of tables, and where another root, or a row of nobody, has a key of another kind."""
    links = [Children("visit", of="patient", key="id", most=9)]
    schemas = {"patient": {"x": ["a", "b"]}, "visit": {"y": ["c", "d"]}}
    visits = {"id": [key] * 3 + [4, other], "y": ["c"] * 5}
    for orphan in (False, True):
        patients = {"id": [key, 4, *([] if orphan else [other])], "x": ["a", "b", *([] if orphan else ["a"])]}
        for kinds in ((pd.DataFrame, pd.DataFrame), (pl.DataFrame, pd.DataFrame), (pd.DataFrame, pl.DataFrame)):
            forest, _ = open_forest(schemas, links, {"patient": kinds[0](patients), "visit": kinds[1](visits)})
            assert forest.counts("visit").tolist() == [3, 1, *([] if orphan else [1])]


def test_labels_that_cannot_be_compared_with_each_other_raise_nothing():
    labels = pd.Series([Decimal(1), Decimal(2), np.int8(1), np.int64(3), None], dtype=object)
    tables = {"patient": pd.DataFrame({"id": labels, "x": "a"}), "visit": pd.DataFrame({"id": labels[::-1].to_numpy(), "y": "c"})}
    schemas, links = {"patient": {"x": ["a", "b"]}, "visit": {"y": ["c", "d"]}}, [Children("visit", of="patient", key="id", most=9)]
    forest, _ = open_forest(schemas, links, tables)
    assert forest.counts("visit").sum() == 4
