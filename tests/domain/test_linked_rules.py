"""Rules between linked tables: which rows break them is what a loop over rows finds, and rows that are mended keep them."""

import operator

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sources

from skdpsynth.domain import AtMost, Boolean, Children, Compared, Continuous, Date, Inequality, Ordinal, Schema, Total, Unique, parents_of
from skdpsynth.persistence import from_bytes, to_bytes
from skdpsynth.tables import open_forest

pytestmark = pytest.mark.usefixtures("rows_by_arrival")
GRADES = Ordinal(["low", "middle", "high"], nullable=True)
SCHEMAS = {
    "household": {"oldest": Continuous(0, 9, nullable=True), "moved": Date("2020-01-01", "2020-01-10"), "grade": GRADES, "workers": (0, 2)},
    "person": {
        "relation": ["head", "spouse", "child"],
        "age": Continuous(0, 9, nullable=True),
        "born": Date("2019-12-28", "2020-01-06"),
        "grade": GRADES,
        "work": Boolean(words=("no", "yes")),
        "pay": Continuous(0.0, 99.0, decimals=2, nullable=True),
    },
}
PERSONS = Children("person", of="household", key="id", most=6)
HEADED = Children("person", of="household", key="id", most=6, least=1, head={"relation": "head"})
OPERATORS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def frames():
    """Two rows, for dtypes."""
    person = {"relation": "head", "age": 1.0, "born": pd.Timestamp("2020-01-01"), "grade": "low", "work": "yes", "pay": 1.5}
    household = {"oldest": 1.0, "moved": pd.Timestamp("2020-01-01"), "grade": "low", "workers": 1}
    return {"household": pd.DataFrame([{"id": 1, **household}]), "person": pd.DataFrame([{"id": 1, **person}])}


def opened(rules, link=PERSONS, schemas=SCHEMAS, tables=None):
    return open_forest(schemas, [link], tables or frames(), rules=rules)[1]


def made_up(linked, seed, n=40):
    """Any columns of both tables as they are written, and owners."""
    rng = np.random.default_rng(seed)

    def column(kind, size):
        if hasattr(kind, "levels"):
            return rng.integers(0, len(kind.levels) + kind.nullable, size)
        values = rng.integers(kind.coded.low, kind.coded.high + 1, size).astype(float)
        return np.where(rng.random(size) < 0.2 * kind.nullable, np.nan, values)

    owner = np.sort(rng.integers(0, n, 4 * n))
    tables = {}
    for name, size in (("household", n), ("person", 4 * n)):
        kinds = [linked.formats[name].schema[each] for each in linked.own_columns(name)] + list(linked._columns_of_links(name).values())
        tables[name] = [column(kind, size) for kind in kinds]
    return tables, owner


def records(linked, tables, owner):
    """Rows as dicts, a missing cell as None, with those of their parents and heads."""

    def rows_of(name, columns):
        kinds = {each: linked.formats[name].schema[each] for each in linked.own_columns(name)} | linked._columns_of_links(name)
        rows = []
        for cells in zip(*(column.tolist() for column in columns), strict=True):
            row = {}
            for (each, kind), cell in zip(kinds.items(), cells, strict=True):
                is_missing = cell >= len(kind.levels) if hasattr(kind, "levels") else cell != cell
                row[each] = None if is_missing else cell
                if isinstance(kind, Date) and row[each] is not None:
                    row[each] = pd.Timestamp(kind.low) + pd.Timedelta(days=cell)
            rows.append(row)
        return rows

    parents = rows_of("household", tables["household"])
    return [(row, parents[place]) for row, place in zip(rows_of("person", tables["person"]), owner.tolist(), strict=True)]


COMPARED = [
    (("age", "<", "oldest"), {}),
    (("age", ">=", "oldest"), {"relation": ["child", "spouse"]}),
    (("born", ">", "moved"), {}),
    (("born", "<=", "moved"), {"work": "yes"}),
    (("grade", "<", "grade"), {}),
    (("grade", ">=", "grade"), {"relation": "child"}),
    (("age", "<", "person.head.age"), {"relation": "child"}),
    (("born", ">=", "person.head.born"), {}),
]
WORDS = {"head": 0, "spouse": 1, "child": 2, "no": 0, "yes": 1}


@pytest.mark.parametrize("flipped", [False, True])
@pytest.mark.parametrize(("compared", "where"), COMPARED)
def test_rows_that_break_a_comparison_are_those_that_a_loop_finds_and_mended_ones_keep_it(compared, where, flipped):
    name, op, other = compared
    of_head = other.startswith("person.head.")
    left, right = f"person.{name}", other if of_head else f"household.{other}"
    if flipped and not where:  # the rule of the other side
        rule = Compared(right, {"<": ">", "<=": ">=", ">": "<", ">=": "<="}[op], left)
    else:
        rule = Compared(left, op, right, where=where or None)
    linked = opened([rule], HEADED if of_head else PERSONS)
    for seed in range(5):
        tables, owner = made_up(linked, seed)
        cells = linked.cells("person", tables["person"], owner, tables)
        expected = []
        for row, parent in records(linked, tables, owner):
            x, y = row[name], parent[other]
            meant = all(row[each] in [WORDS[item] for item in np.atleast_1d(items).tolist()] for each, items in where.items())
            expected.append(meant and None not in (x, y) and not OPERATORS[op](x, y))
        assert linked.rules.broken("person", cells, owner).tolist() == expected
        assert any(expected)
        left_over = linked.rules.mend("person", cells, owner)
        assert (linked.rules.broken("person", cells, owner) == left_over).all()
        kind = SCHEMAS["person"][name]
        values = range(3) if name == "grade" else range(10)
        values = [pd.Timestamp(kind.low) + pd.Timedelta(days=value) if name == "born" else value for value in values]
        for (_, parent), was, is_left in zip(records(linked, tables, owner), expected, left_over.tolist(), strict=True):
            assert is_left == (was and not where and not any(OPERATORS[op](value, parent[other]) for value in values))


def test_a_rule_of_persons_is_one_of_the_head_as_well_where_it_does_not_compare_with_it():
    linked = opened([Compared("person.age", "<=", "household.oldest"), Compared("person.age", "<", "person.head.age")], HEADED)
    assert len(linked.rules.checks["household"]) == 1
    tables, _ = made_up(linked, 0)
    cells = linked.cells("household", tables["household"], None, tables)
    place = [*linked.own_columns("household"), *linked._columns_of_links("household")].index("person.head.age")
    ages, oldest = tables["household"][place], tables["household"][0]
    assert linked.rules.broken("household", cells, None).tolist() == (ages > oldest).tolist()
    linked.rules.mend("household", cells, None)
    assert not (tables["household"][place] > oldest).any()


@pytest.mark.parametrize(("link", "n"), [(PERSONS, 1), (PERSONS, 2), (HEADED, 1), (HEADED, 0)])
def test_rows_beyond_the_most_are_those_that_come_later_and_the_head_counts(link, n):
    cells_of = {"work": "yes", "relation": ["spouse", "head"]}
    linked = opened([AtMost(n, cells_of, table="person")], link)
    for seed in range(5):
        tables, owner = made_up(linked, seed)
        cells, seen, expected = linked.cells("person", tables["person"], owner, tables), {}, []
        head_works = cells["person.head", "work"] == 1 if link is HEADED else np.zeros(len(owner), bool)
        relations = tables["person"][0].copy()
        for at, place, (row, _) in zip(range(len(owner)), owner.tolist(), records(linked, tables, owner), strict=True):
            met = row["work"] == 1 and row["relation"] in (0, 1)
            count = seen.setdefault(place, int(head_works[at]))
            expected.append(met and count >= n)
            seen[place] += met
        assert linked.rules.broken("person", cells, owner).tolist() == expected
        assert not linked.rules.mend("person", cells, owner).any()
        if link is HEADED:
            assert not ((tables["person"][0] == 0) & (relations != 0)).any()  # nobody became a second head


@pytest.mark.parametrize("link", [PERSONS, HEADED])
def test_totals_are_what_a_join_finds_clipped_into_bounds(link):
    schemas = {**SCHEMAS, "household": {**SCHEMAS["household"], "size": (0, 9), "pay": Continuous(0.0, 99.0, decimals=2)}}
    frame = frames()
    frame["household"] = frame["household"].assign(size=0, pay=0.0)
    rules = [
        Total("household.workers", "count(person, work = yes)"),
        Total("household.size", "count(person)"),
        Total("household.pay", "sum(person.pay, relation = child, grade='low')"),
    ]
    linked = opened(rules, link, schemas, frame)
    assert not {"workers", "size", "pay"} & set(linked.schemas["household"])
    tables, owner = made_up(linked, 1)
    back = linked.write(tables, {"person": owner})
    persons = back["person"]
    n = np.arange(len(back["household"]))
    workers = persons[persons["work"] == "yes"].groupby("id").size().reindex(n, fill_value=0).clip(upper=2)
    assert back["household"]["workers"].tolist() == workers.tolist()
    assert (workers == 2).any()
    assert back["household"]["size"].tolist() == persons.groupby("id").size().reindex(n, fill_value=0).clip(upper=9).tolist()
    pays = persons[(persons["relation"] == "child") & (persons["grade"] == "low")].groupby("id")["pay"].sum().reindex(n, fill_value=0)
    assert np.allclose(back["household"]["pay"], pays.clip(upper=99), atol=1e-9)


def test_totals_of_totals_are_summed_from_below():
    schemas = {"a": {"all": (0, 99)}, "b": {"sum": (0, 99), "x": ["u", "v"]}, "c": {"price": (0, 9)}}
    links = [Children("c", of="b", key=("i", "j"), most=3), Children("b", of="a", key="i", most=3)]
    tables = {
        "a": pd.DataFrame({"i": [0, 1], "all": 0}),
        "b": pd.DataFrame({"i": [0, 0, 1], "j": [0, 1, 0], "sum": 0, "x": "u"}),
        "c": pd.DataFrame({"i": [0, 0, 1], "j": [1, 1, 0], "price": [1, 3, 5]}),
    }
    forest, linked = open_forest(schemas, links, tables, rules=[Total("a.all", "sum(b.sum)"), Total("b.sum", "sum(c.price)")])
    back = linked.write(forest.tables, forest.owners)
    assert back["a"]["all"].tolist() == [4, 5]
    assert back["b"]["sum"].tolist() == [0, 4, 5]
    assert from_bytes(to_bytes(linked)) == linked


# What is refused


def test_rules_are_checked_when_they_are_stated():
    for make, message in (
        (lambda: AtMost(-1, {"a": "b"}, table="c"), "n must be an integer"),
        (lambda: AtMost(1, {}, table="c"), "cells must be a dict of column: level"),
        (lambda: AtMost(1, {"a": "b"}, table=3), "table must be the name of a table"),
        (lambda: Compared("a.b", "=", "c.d"), "op must be one of '<', '<=', '>', '>='"),
        (lambda: Compared(3, "<", "c.d"), "left must be a column of a table"),
        (lambda: Compared("a.b", "<", "c.d", where="x"), "where must be a dict of column: level"),
        (lambda: Total("a.b", "mean(c.d)"), "formula must be such as"),
        (lambda: Total(None, "count(c)"), "column must be a column of a table"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            make()


HISTORY = Children("person", of="household", key="id", most=6, order="age")
PANEL = Children("person", of="household", key="id", most=3, least=3, order="age", grid=[1, 2, 3])


@pytest.mark.parametrize(
    ("rule", "message", "link"),
    [
        ("age < 3", "rules must be a list of AtMost, Compared and Total", PERSONS),
        (AtMost(1, {"relation": "child"}, table="persons"), "AtMost must be of a child table without order, got 'persons'", PERSONS),
        (AtMost(1, {"relation": "child"}, table="household"), "AtMost must be of a child table", PERSONS),
        (AtMost(1, {"relation": "child"}, table="person"), "AtMost must be of a child table without order", HISTORY),
        (AtMost(1, {"relation": "wife"}, table="person"), "rules must have levels of column 'relation', got 'wife'", PERSONS),
        (AtMost(1, {"age": 3}, table="person"), "rules must have levels of column 'age', got 3", PERSONS),
        (
            AtMost(1, {"sex": "f"}, table="person"),
            "rules must name columns that are modeled, .* as household.column or person.column or table.head.column, got 'person.sex'",
            PERSONS,
        ),
        (
            Compared("person.years", "<", "household.oldest"),
            "rules must name columns that are modeled, .* as household.column",
            PERSONS,
        ),
        (Compared("age", "<", "household.oldest"), "rules must name columns that are modeled", PERSONS),
        (Compared("person.age", "<", "person.head.age"), "rules must name heads where links state them, .*; state head", PERSONS),
        (Compared("person.age", "<", "person.pay"), "rules of one table go into its schema", PERSONS),
        (Compared("household.oldest", "<", "household.workers"), "rules of one table go into its schema", PERSONS),
        (Compared("person.age", "<", "household.moved"), "Compared must be between numbers, .* got Continuous and Date", PERSONS),
        (
            Compared("person.work", "<", "household.grade"),
            "Compared must be between numbers, times or the same ordinal levels, got 'person.work < household.grade'",
            PERSONS,
        ),
        (Compared("person.pay", "<", "household.oldest"), "strict must be False for numbers that are not whole", PERSONS),
        (Compared("person.age", "<", "household.oldest", where={"work": "maybe"}), "rules must have levels of column 'work'", PERSONS),
        (Compared("person.age", "<", "household.oldest", where={"work": "no"}), "where must be None beside a time of a history", HISTORY),
        (Compared("person.age", "<", "household.oldest"), "rules must name columns that are modeled, .* got 'person.age'", PANEL),
        (Total("household.workers", "count(persons)"), "Total must be of a table whose children are counted", PERSONS),
        (Total("person.age", "count(household)"), "Total must be of a table whose children", PERSONS),
        (Total("household.size", "count(person)"), "rules must name columns that are modeled", PERSONS),
        (Total("household.grade", "count(person)"), "Total must be of columns of numbers", PERSONS),
        (Total("household.workers", "sum(person.grade)"), "Total must be of columns of numbers", PERSONS),
        (Total("household.workers", "sum(person.pay)"), "Total must be of a column that is not whole, as its parts are not", PERSONS),
        (Total("household.workers", "count(person, work = maybe)"), "rules must have levels of column 'work', got 'maybe'", PERSONS),
        (Total("household.workers", "count(person, yes)"), "got 'person.yes'", PERSONS),
        (
            [Total("household.workers", "count(person)"), Compared("person.age", "<", "household.workers")],
            "that are modeled, .* got 'household.workers'",
            PERSONS,
        ),
        (
            [Total("household.workers", "count(person)")] * 2,
            "Total must be the only one of its column, got 'household.w",
            PERSONS,
        ),
    ],
)
def test_rules_that_do_not_fit_are_refused_in_one_sentence(rule, message, link):
    with pytest.raises((TypeError, ValueError), match=message) as caught:
        opened(rule if isinstance(rule, list) else [rule] if not isinstance(rule, str) else rule, link)
    assert "\n" not in str(caught.value)


def test_rules_of_a_schema_that_cannot_be_kept_are_refused():
    workers = Schema(SCHEMAS["household"], rules=[Inequality("workers", "oldest")])
    with pytest.raises(ValueError, match="rules of 'household' must leave out 'workers', which is not modeled"):
        opened([Total("household.workers", "count(person)")], schemas={**SCHEMAS, "household": workers})
    unique = Schema(SCHEMAS["household"], rules=[Unique(["workers", "moved"])])
    with pytest.raises(ValueError, match="rules of linked tables must not be Unique"):
        opened([], schemas={**SCHEMAS, "household": unique})


# Panels


PANEL_ROWS = pd.DataFrame(
    {"nr": [7, 7, 9, 7], "at": ["a", "a", "a", "b"], "school": [12, 12, 10, 11], "year": [1, 2, 1, 1], "wage": [3.0, 4, 2, 5]}
)


@pytest.mark.parametrize("kind", [lambda table: table, pl.from_pandas, sources.arrow])
def test_a_long_table_is_split_into_parents_and_rows(kind):
    pytest.importorskip("pyarrow")  # by which pandas gives its rows to others, and takes them back
    panel = kind(PANEL_ROWS)
    tables = parents_of(panel, key=("nr", "at"), columns=["school"])
    assert type(tables["parent"]) is type(tables["child"]) is type(panel)
    as_pandas = {name: table if isinstance(table, pd.DataFrame) else table.to_pandas() for name, table in tables.items()}
    assert as_pandas["parent"].to_dict("list") == {"nr": [7, 9, 7], "at": ["a", "a", "b"], "school": [12, 10, 11]}
    assert as_pandas["child"].to_dict("list") == PANEL_ROWS.drop(columns="school").to_dict("list")
    one = parents_of(panel, key="nr", columns=("school", "at"))["parent"]
    one = one if isinstance(one, pd.DataFrame) else one.to_pandas()
    assert one.to_dict("list") == {"nr": [7, 9], "school": [12, 10], "at": ["a", "a"]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"frame": [1]}, "frame must be a data frame in memory, .* got a list of 1"),
        ({"frame": pl.from_pandas(PANEL_ROWS).lazy()}, "frame must be a data frame in memory"),
        ({"key": "id"}, "key and columns must be columns of frame, but it lacks 'id'"),
        ({"key": []}, "key and columns must name"),
        ({"columns": []}, "key and columns must name"),
        ({"columns": ["nr"]}, "key and columns must name"),
        ({"columns": 3}, "key and columns must be columns of frame, but it lacks 3"),
        ({"columns": [["nr"]]}, "key and columns must name"),
    ],
)
def test_a_long_table_that_cannot_be_split_is_refused(change, message):
    stated = {"frame": PANEL_ROWS, "key": "nr", "columns": ["school"], **change}
    with pytest.raises((TypeError, ValueError), match=message):
        parents_of(stated.pop("frame"), **stated)
