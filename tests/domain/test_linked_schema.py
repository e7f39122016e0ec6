"""Statements of linked tables: files say what Python says, slips are told by table, and skeletons propose keys."""

import datetime
from pathlib import Path

import pytest

pytest.importorskip("yaml")

import numpy as np
import pandas as pd
from internals import open_statement

from skdpsynth import LinkedTablesSynthesizer, load
from skdpsynth.domain import (
    AtMost,
    Children,
    Compared,
    Identifier,
    LinkedSchema,
    Schema,
    Total,
    propose_links,
    schema_of_file,
    with_keys,
    yaml_of,
)
from skdpsynth.persistence import from_bytes, to_bytes

SCHEMAS = {
    "trip": Schema({"depart": (0.0, 24.0), "mode": ["car", "bus"]}, read={"separator": ";"}),
    "household": Schema({"low": (0, 9), "high": (0, 9)}, rules=["low <= high"]),
    "person": Schema({"age": (0, 110), "relation": ["head", "other"]}),
    "wave": Schema({"seen": ("2020-01-01", "2022-01-01"), "income": (0, 9)}),
}
DAYS = [datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)]
LINKS = [
    Children("trip", of="person", key=("household_id", "person_no"), most=12, order="depart"),
    Children("person", of="household", key=[("home", "household_id")], most=8, least=1),
    Children(
        "wave",
        of="household",
        key="household_id",
        most=2,
        least=2,
        order="seen",
        grid=DAYS,
    ),
]
LINKED = LinkedSchema(SCHEMAS, LINKS)
TEXT = """
tables:
- name: household
  columns: [{name: region, kind: nominal, levels: [north, south]}]
- name: person
  of: household
  key: household_id
  most: 3
  head: {relation: head}
  columns:
  - {name: age, kind: continuous, bounds: [0, 110]}
  - {name: relation, kind: nominal, levels: [head, other]}
"""


def test_a_statement_comes_back_from_every_form():
    assert LinkedSchema.from_yaml(LINKED.to_yaml()) == LINKED
    assert from_bytes(to_bytes(LINKED)) == LINKED
    assert (LINKED.root, [link.table for link in LINKED.links]) == ("household", ["person", "wave", "trip"])
    two = LinkedSchema({name: SCHEMAS[name] for name in ("household", "person")}, LINKS[1:2])
    assert LinkedSchema.from_json(two.to_json()) == two
    assert "2021-01-01" in LINKED.to_json()


def test_a_file_says_what_python_says(tmp_path):
    link = Children("person", of="household", key="household_id", most=3, head={"relation": "head"})
    schemas = {"household": {"region": ["north", "south"]}, "person": {"age": (0, 110), "relation": ["head", "other"]}}
    assert LinkedSchema.from_yaml(TEXT) == LinkedSchema(schemas, [link])
    for name in ("t.yaml", "t.json"):
        getattr(LinkedSchema.from_yaml(TEXT), f"to_{name[2:]}")(tmp_path / name)
        assert LinkedSchema.of(tmp_path / name) == schema_of_file(str(tmp_path / name)) == LinkedSchema(schemas, [link])
    SCHEMAS["household"].to_yaml(tmp_path / "one.yaml")
    assert schema_of_file(tmp_path / "one.yaml") == SCHEMAS["household"]
    with pytest.raises(FileExistsError, match="holds something else"):
        LINKED.to_yaml(tmp_path / "t.yaml")


RULES = """
rules:
- {rule: compared, left: person.age, op: "<", right: person.head.age, where: {relation: other}}
- {rule: at most, n: 1, cells: {relation: [other], works: true}, table: person}
- {rule: total, column: household.workers, formula: "count(person, works = True)"}
"""
RULED = TEXT.replace("levels: [north, south]}", "levels: [north, south]}, {name: workers, kind: continuous, bounds: [0, 3]}") + (
    "  - {name: works, kind: boolean}\n" + RULES.lstrip()
)


def test_rules_between_tables_come_back_from_every_form(tmp_path):
    linked = LinkedSchema.from_yaml(RULED)
    assert linked.rules == (
        Compared("person.age", "<", "person.head.age", where={"relation": "other"}),
        AtMost(1, {"relation": "other", "works": True}, table="person"),
        Total("household.workers", "count(person, works = True)"),
    )
    assert from_bytes(to_bytes(linked)) == LinkedSchema.from_yaml(linked.to_yaml()) == LinkedSchema.from_json(linked.to_json()) == linked
    more = LinkedSchema.of(linked, rules=[AtMost(2, {"works": [True]}, table="person")])
    assert more.rules[:3] == linked.rules
    assert len(more.rules) == 4
    columns = open_statement(LinkedSchema.to_yaml(linked, tmp_path / "t.yaml") or str(tmp_path / "t.yaml"), {"separator": ";"})
    assert columns.rules == linked.rules
    assert columns.schemas["person"].read == {"separator": ";"}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rule: at most", "rule: atmost", "rule must be one of 'at most', 'compared', 'total', got 'atmost'"),
        ("n: 1, ", "", "a rule 'at most' must have the keys n, cells, table, got 'cells', 'table'"),
        ("n: 1", "n: one", "n must be an integer"),
        ("n: 1", "m: 1", "a rule 'at most' must have the keys n, cells, table, got 'm'"),
        ("cells: {relation: [other], works: true}", "cells: relation", "cells must be a dict of column: level"),
        ("[other]", "[wife]", "rule 2: rules must have levels of column 'relation', got 'wife'"),
        ("[other]", "[]", "cells must be a dict of column: level"),
        ('op: "<"', "op: below", "op must be one of '<', '<=', '>', '>=', got 'below'"),
        ("left: person.age", "left: person.sex", "rule 1: rules must name columns that are modeled, .* got 'person.sex'"),
        ("right: person.head.age", "right: household.region", "rule 1: Compared must be between numbers"),
        ("count(person", "count(people", "rule 3: Total must be of a table whose children are counted"),
        (RULES.lstrip(), "rules: person.age < 3", r"rules must be a list such as \[{.*}\], got 'person.age < 3'"),
        ("rules:", "rule:", "keys must be spelt as they are, but 'rule' looks like 'rules'"),
    ],
)
def test_slips_in_rules_between_tables_are_told_in_one_sentence(old, new, message):
    assert old in RULED
    with pytest.raises((TypeError, ValueError), match=message) as caught:
        LinkedSchema.from_yaml(RULED.replace(old, new))
    assert "\n" not in str(caught.value)


def test_columns_of_keys_are_identifiers_where_no_schema_states_them():
    assert with_keys(LINKED, "trip") == Schema(
        {"household_id": Identifier(), "person_no": Identifier(), **SCHEMAS["trip"]}, (), {"separator": ";"}
    )
    assert set(with_keys(LINKED, "person")) == {"home", "household_id", "person_no", "age", "relation"}
    assert with_keys(LINKED, "household").rules == SCHEMAS["household"].rules


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("tables:", "table:", "source must hold {.*}, got 'table'; write the tables so"),
        ("name: household", "name: person", "source must name each table once, but 'person' occurs twice"),
        ("name: household", "name: 7", "source must hold {"),
        ("most: 3", "most: open", "table 'person': most must be an integer from 1 to 4096, got 'open'; write a public cap"),
        ("  most: 3\n", "", "table 'person': most must be an integer from 1 to 4096, got None"),
        ("most: 3", "most: 3\n  ordr: age", "table 'person': keys must be spelt as they are, but 'ordr' looks like 'order'"),
        ("most: 3", "mots: 3", "table 'person': keys must be spelt as they are, but 'mots' looks like 'most'"),
        ("most: 3", "most: 3\n  cap: 3", "table 'person': keys must be among name, .*, head or note, got 'cap'; leave it out"),
        ("tables:\n", "units: 3\ntables:\n", "keys must be among tables, rules or note, got 'units'; leave it out"),
        ("  key: household_id\n", "", "table 'person': key must be the name of a column that both tables have"),
        ("of: household", "of: open", "table 'person': of must be the table that it hangs on, one of 'household', got 'open'"),
        ("  of: household\n", "", "table 'person': of must be the table that it hangs on, one of 'household', got None"),
        ("{relation: head}", "head", "table 'person': head must be a dict of"),
        ("bounds: [0, 110]", "bounds: 110", "table 'person': schema of column 'age': bounds must be two numbers"),
        ("  columns: [{", "  colours: [{", "table 'household': "),
        (
            "  of: household\n  key: household_id\n  most: 3\n  head: {relation: head}\n",
            "",
            "source must have a table that hangs on another",
        ),
        ("tables:\n", "tables:\n- {name: dog, columns: [{name: kind, kind: boolean}]}\n", "'dog', 'household' hang on none"),
    ],
)
def test_slips_in_a_file_are_told_in_one_sentence_that_names_the_table(old, new, message):
    assert old in TEXT
    with pytest.raises(ValueError, match=message) as caught:
        LinkedSchema.from_yaml(TEXT.replace(old, new))
    assert str(caught.value).count("\n") == 0


def test_one_table_and_several_are_told_apart():
    with pytest.raises(ValueError, match="source must state one table, but it has tables"):
        Schema.from_yaml(TEXT)
    with pytest.raises(ValueError, match=r"source must hold {.*, got 'columns'"):
        LinkedSchema.from_yaml("columns:\n- {name: a, kind: boolean}\n")
    with pytest.raises(ValueError, match="links must be None where a file or a LinkedSchema states them"):
        LinkedSchema.of(LINKED, LINKS)
    with pytest.raises(ValueError, match="links must be a list of Children, at least one, got None"):
        LinkedTablesSynthesizer(SCHEMAS).fit({})


def test_skeletons_propose_columns_of_equal_names_as_keys():
    names = {"household": ["household_id", "region"], "person": ["household_id", "no", "age"], "trip": ["household_id", "no", "mode"]}
    schemas = {name: Schema.skeleton(dict.fromkeys(columns, np.dtype("int64"))) for name, columns in names.items()}
    facts = propose_links(schemas)
    household, person, trip = facts["tables"]
    assert (household.get("of"), person["of"], trip["of"]) == (None, "household", "person")
    assert (person["key"], trip["key"]) == ("household_id", ["household_id", "no"])
    assert [[column["name"] for column in table["columns"]] for table in facts["tables"]] == [["region"], ["age"], ["mode"]]
    text = yaml_of(facts, are_proposed=True)
    assert text.count("most: open  # TODO: ") == text.count("# TODO: the table that it hangs on") == 2
    cars = propose_links({**schemas, "car": Schema({"household_id": (0, 1), "fuel": ["gas", "oil"]})})["tables"][-1]
    assert (cars["of"], cars["key"]) == ("household", "household_id")  # and not a later table that has its key, too
    strange = propose_links({"a": Schema({"x": (0, 1)}), "b": Schema({"y": (0, 1)})})["tables"][1]
    assert (strange["of"], strange["key"], strange["most"]) == ("open", "open", "open")
    with pytest.raises(ValueError, match="source must be tables with columns that no other has, but 'a', 'b' has none"):
        propose_links({"a": Schema({"x": (0, 1)}), "b": Schema({"x": (0, 1)})})


def test_a_fit_takes_the_path_of_a_file_and_its_model_is_saved(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("t.yaml").write_text(TEXT, encoding="utf-8")
    rng, owner = np.random.default_rng(0), np.repeat(np.arange(60), 2)
    pd.DataFrame({"household_id": np.arange(60), "region": rng.choice(["north", "south"], 60)}).to_csv("household.csv", index=False)
    relation = np.where(np.arange(120) % 2, "other", "head")
    person = pd.DataFrame({"household_id": owner, "age": rng.integers(0, 99, 120), "relation": relation})
    model = LinkedTablesSynthesizer("t.yaml").fit({"household": "household.csv", "person": person})
    assert model.accountant_.unit.name == "household with person"
    model.save("m.skdp")
    assert list(load("m.skdp").sample(5)["person"]) == list(person)
    with pytest.raises(ValueError, match="links must be None where a file"):
        model.set_params(links=[]).fit({"household": "household.csv", "person": person})
