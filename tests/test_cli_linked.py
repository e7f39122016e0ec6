"""Laws of the command line for linked tables: several files in, a folder out, and nothing spent on what is refused."""

import csv
import hashlib
import json
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("click")
pytest.importorskip("yaml")
pytest.importorskip("pyarrow")

from internals import _program
from readme_blocks import blocks
from test_cli import CANARY, fine, python_in, refused, run

from skdpsynth import PrivacyAccountant, load
from skdpsynth.domain import LinkedSchema
from skdpsynth.metrics import linked_report

ROOT = Path(__file__).parents[1]
FILES = ("household.csv", "person.csv", "trip.tsv")
TABLES = """
tables:
- name: household
  columns:
  - {name: region, kind: nominal, levels: [north, south]}
  - {name: built, kind: date, bounds: [2000-01-01, 2009-12-31]}
- name: person
  of: household
  key: household_id
  most: 3
  least: 1
  columns: [{name: age, kind: continuous, bounds: [0, 99]}]
- name: trip
  of: person
  key: [household_id, person_no]
  most: 2
  columns: [{name: mode, kind: nominal, levels: [car, bus]}]
"""
SYNTHESIZE = ("synthesize", *FILES, "--schema", "tables.yaml", "--epsilon", "1", "--delta", "1e-6")


def write(name, heads, rows):
    sign = "\t" if name.endswith("tsv") else ","
    Path(name).write_text("\n".join(sign.join(map(str, row)) for row in [heads, *rows]) + "\n", encoding="utf-8")


def read(path):
    with Path(path).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t" if str(path).endswith("tsv") else ","))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    persons = [(i, j) for i in range(120) for j in range(1 + i % 3)]
    households = [(i, rng.choice(["north", "south"]), f"200{i % 10}-05-06") for i in range(120)]
    write("household.csv", ["household_id", "region", "built"], households)
    write("person.csv", ["household_id", "person_no", "age"], [(*key, rng.integers(0, 99)) for key in persons])
    write("trip.tsv", ["household_id", "person_no", "mode"], [(*key, rng.choice(["car", "bus"])) for key in persons[::2]])
    Path("tables.yaml").write_text(TABLES, encoding="utf-8")
    return tmp_path


def test_several_files_become_a_folder_of_tables_that_fit_together_and_more_is_free(folder):
    fine("budget", "init", "b.db", "--epsilon", 2, "--delta", "1e-5")
    told = json.loads(
        fine(*SYNTHESIZE, "--ledger", "b.db", "--model", "m.skdp", "--rows", 50, "--card", "first.html", "-o", "out/", "--json").stdout
    )
    assert (told["rows"], told["unit"], told["method"]) == (50, "household with person, trip", "linked-tables")
    assert sorted(path.name for path in Path("out").iterdir()) == sorted(FILES)
    household, person, trip = (read(f"out/{name}") for name in FILES)
    assert len(household) == 50
    assert list(household[0]) == ["household_id", "region", "built"]
    assert all(len(each["built"]) == len("2004-05-06") for each in household)
    assert {each["household_id"] for each in person} == {each["household_id"] for each in household}
    keys = {(each["household_id"], each["person_no"]) for each in person}
    assert {(each["household_id"], each["person_no"]) for each in trip} <= keys
    before = PrivacyAccountant.at("b.db").spent
    fine("sample", "m.skdp", "-n", 7, "-o", "more")
    assert len(read("more/household.csv")) == 7
    assert {path.name for path in Path("more").iterdir()} == {"household.csv", "person.csv", "trip.csv"}
    assert PrivacyAccountant.at("b.db").spent == before
    for thing in ("b.db", "m.skdp"):
        registry = json.loads(fine("card", thing, "-o", f"{thing}.html", "--json").stdout)["registry"]["deployment"]
        assert registry["dp_variant"]["unprotected_quantities"] == "The number of rows of household."
    page = Path("first.html").read_text(encoding="utf-8")
    assert "synthetic rows of trip" in page
    for name in FILES:
        written, given = (hashlib.sha256(Path(folder, name).read_bytes()).hexdigest() for folder in ("out", "."))
        assert (name in page, written in page, given in page) == (True, True, False)
    (found,) = json.loads(fine("interval", "m.skdp", "--mean", "person.age", "--refits", 8, "--json").stdout)["intervals"]
    assert found["name"] == "mean of age"
    assert 0 <= found["low"] < found["estimate"] < found["high"] <= 99
    assert "must name columns of one table of MODEL, as household.COLUMN, got" in refused("interval", "m.skdp", "--mean", "age")
    both = ("--mean", "person.age", "--share", "trip.mode")
    assert "must name columns of one table of MODEL" in refused("interval", "m.skdp", *both)
    for words in (("audit", "m.skdp"), ("impute", "m.skdp", "trip.tsv", "-o", "full.csv")):
        assert "MODEL must be of one table here, but m.skdp holds one of linked tables" in refused(*words)
    fine("budget", "evidence", "b.db", "-o", "evidence.json")
    assert fine("budget", "check", "evidence.json").stdout.startswith("ok: ")
    assert load("m.skdp").accountant_.unit is not None


def test_rules_between_tables_hold_in_the_folder(folder):
    rules = "rules: [{rule: total, column: household.size, formula: count(person)}]\n"
    text = TABLES.replace("- name: person", "  - {name: size, kind: continuous, bounds: [0, 9]}\n- name: person") + rules
    Path("tables.yaml").write_text(text, encoding="utf-8")
    rows = read("household.csv")
    write("household.csv", [*rows[0], "size"], [(*row.values(), 0) for row in rows])
    fine(*SYNTHESIZE, "-o", "out")
    sizes = {each["household_id"]: int(each["size"]) for each in read("out/household.csv")}
    owners = [each["household_id"] for each in read("out/person.csv")]
    assert sizes == {key: owners.count(key) for key in sizes}
    Path("tables.yaml").write_text(text.replace("count(person)", "count(people)"), encoding="utf-8")
    assert "rule 1: " in refused(*SYNTHESIZE, "-o", "other")


def test_tables_are_compared_with_the_folder_or_the_model_of_a_run(folder):
    fine("schema", "check", *FILES, "--schema", "tables.yaml")
    fine(*SYNTHESIZE, "--model", "m.skdp", "-o", "out")
    facts, real = LinkedSchema.from_yaml("tables.yaml"), dict(zip(("household", "person", "trip"), FILES, strict=True))
    made = {name: f"out/{path}" for name, path in real.items()}
    told = json.loads(fine("evaluate", *FILES, "out", "--schema", "tables.yaml", "-o", "page.html", "--json").stdout)
    assert told["private"] is False
    assert told["measures"] == json.loads(json.dumps(linked_report(real, made, facts.schemas, facts.links).to_records()))
    assert {line["synthetic"] for line in told["measures"] if line["measure"] == "orphans"} == {0}
    assert "person, siblings by root" in Path("page.html").read_text(encoding="utf-8")
    Path("household.csv").rename("h 2026.csv")
    of_model = json.loads(fine("evaluate", "household=h 2026.csv", *FILES[1:], "--model", "m.skdp", "--json").stdout)
    real["household"] = "h 2026.csv"
    assert of_model["measures"] == json.loads(json.dumps(load("m.skdp").evaluate(real).to_records()))
    assert fine("evaluate", "household=h 2026.csv", *FILES[1:], "--model", "m.skdp").stdout.startswith("NOT PRIVATE: ")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("out", "--schema", "tables.yaml"),
            "SYNTHETIC must be the folder of linked tables that synthesize wrote, after each file of REAL",
        ),
        ((*FILES, "--schema", "tables.yaml"), "got 'trip.tsv'; name it."),
        ((*FILES[:2], "out", "--schema", "tables.yaml"), "REAL must be a path for each of 'household', 'person', 'trip', got 'household'"),
        ((*FILES, "part", "--schema", "tables.yaml"), "SYNTHETIC must be a path for each of 'household', 'person', 'trip', got 'person'"),
        ((*FILES, "out", "--schema", "tables.yaml", "--target", "mode"), "--target must go with one table alone, but these are linked"),
        ((*FILES, "odd", "--schema", "tables.yaml"), "table 'trip' of SYNTHETIC must have the column 'household_id'"),
        (("person=out/person.csv", "household=trip.tsv", "trip=person.csv", "out", "--schema", "tables.yaml"), "of REAL: schema must name"),
        (("household=none.csv", *FILES[1:], "out", "--schema", "tables.yaml"), "REAL of table 'household' must be a table or the path"),
        (("household=-", *FILES[1:], "out", "--schema", "tables.yaml"), "REAL must be files where there are several tables, got '-'"),
        ((*FILES, "out"), "evaluate takes SYNTHETIC with --schema, or --model alone"),
    ],
)
def test_a_comparison_that_cannot_be_is_refused_in_one_sentence(folder, arguments, words):
    for place, names in (("out", FILES), ("part", FILES[1:]), ("odd", FILES)):
        Path(place).mkdir()
        for name in names:
            (Path(place) / name).write_text(Path(name).read_text(encoding="utf-8"), encoding="utf-8")
    write("odd/trip.tsv", ["mode"], [("car",)])
    line = refused("evaluate", *arguments)
    assert words in line
    assert python_in(line) is None


def test_a_folder_is_replaced_as_a_whole_only_by_force(folder, monkeypatch):
    renamed = ("synthesize", "household=h.csv", *SYNTHESIZE[2:], "-o", "out")
    Path("household.csv").rename("h.csv")
    fine(*renamed)
    before = Path("out/person.csv").read_bytes()
    assert "-o must be a new folder, but 'out' exists; give another name, or --force" in refused(*renamed)
    with monkeypatch.context() as broken:
        broken.setattr("skdpsynth.frames.write_table", lambda place, *more: {}[CANARY])
        assert CANARY not in run(*renamed, "--force").output
    assert Path("out/person.csv").read_bytes() == before
    fine(*renamed, "--force")
    assert Path("out/person.csv").read_bytes() != before
    assert "--model must not be in the folder of -o" in refused(*renamed, "--force", "--model", "out/m.skdp")
    Path("out/notes.txt").write_text("mine", encoding="utf-8")
    assert "-o must be a folder that has none but these tables" in refused(*renamed, "--force")
    assert [path.name for path in Path().iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((*SYNTHESIZE, "-o", "out.csv"), "-o must be a folder where tables are linked, got 'out.csv'; name one."),
        ((*SYNTHESIZE, "-o", "-"), "-o must be a folder where tables are linked, got '-'"),
        ((*SYNTHESIZE, "-o", "nowhere/out"), "make it first"),
        ((*SYNTHESIZE, "-o", ".", "--force"), "-o must be a folder that has none but these tables"),
        ((*SYNTHESIZE, "-o", "tables.yaml", "--force"), "-o must be a folder that has none but these tables"),
        ((*SYNTHESIZE, "-o", "out", "--unit", "household_id"), "--unit must go with one table alone, but --schema has 3; leave it out"),
        ((*SYNTHESIZE, "-o", "out", "--method", "pmm"), "--method must go with one table alone"),
        ((*SYNTHESIZE, "-o", "out", "--card", "c.txt"), "--card must end in .html or .htm, got 'c.txt'"),
        ((*SYNTHESIZE, "-o", "out", "--ledger", "none.db"), "make it by skdpsynth budget init"),
        (
            (*SYNTHESIZE[:3], *SYNTHESIZE[4:], "-o", "out"),
            "INPUT must be a path for each of 'household', 'person', 'trip', got 'household'",
        ),
        (("synthesize", "a=household.csv", *SYNTHESIZE[2:], "-o", "out"), "got 'a', 'person', 'trip'; name it so by 'NAME=PATH'."),
        (("synthesize", "person=trip.tsv", *SYNTHESIZE[1:], "-o", "out"), "'person' has two; give a pattern in quotes, or 'NAME=PATH'."),
        (("synthesize", "household=-", *SYNTHESIZE[2:], "-o", "out"), "got '-'; write standard input to a file first"),
        (("synthesize", "household=none.csv", *SYNTHESIZE[2:], "-o", "out"), "there is no file 'none.csv'"),
        (
            ("synthesize", FILES[0], "person=trip.tsv", "trip=person.csv", *SYNTHESIZE[4:], "-o", "out"),
            "table 'person': schema must name the columns of INPUT",
        ),
        (
            ("synthesize", "household=odd.csv", *SYNTHESIZE[2:], "-o", "out"),
            "table 'household' of INPUT must have the column 'household_id'",
        ),
        ((*SYNTHESIZE, "--schema", "open.yaml", "-o", "out"), "table 'person': most must be an integer from 1 to 4096, got 'open'"),
        ((*SYNTHESIZE, "--schema", "ruled.yaml", "-o", "out"), "rule 'at most' must be of a child table without order, got 'household'"),
        ((*SYNTHESIZE, "--schema", "roots.yaml", "-o", "out"), "--schema must leave one table that hangs on none, but 'household', 'trip'"),
        (("plan", "--schema", "tables.yaml", "--rows", "9"), "--schema must state one table, but it has tables"),
        (("schema", "init", "household.csv", "./household.csv"), "INPUT must be one path for each table, but 'household' has two"),
        (("schema", "init", "household.csv", "same=household.csv"), "INPUT must be tables with columns that no other has"),
    ],
)
def test_whatever_is_wrong_is_one_sentence_before_the_charge(folder, arguments, words):
    fine("schema", "init", *FILES, "-o", "open.yaml", "-q")
    Path("roots.yaml").write_text(TABLES.replace("  of: person\n  key: [household_id, person_no]\n  most: 2\n", ""), encoding="utf-8")
    rule = "rules: [{rule: at most, n: 1, table: household, cells: {region: north}}]\n"
    Path("ruled.yaml").write_text(TABLES + rule, encoding="utf-8")
    write("odd.csv", ["region", "built"], [("north", "2004-05-06")])
    fine("budget", "init", "b.db", "--epsilon", 2, "--delta", "1e-5")
    paid = ("--ledger", "b.db") if arguments[0] == "synthesize" and "--ledger" not in arguments else ()
    done = run(*arguments, *paid)
    assert done.exit_code == 2, done.output
    (line,) = [each for each in done.stderr.splitlines() if not each.startswith("Method ")]
    assert line.startswith("Error: ")
    assert words in line
    assert python_in(line) is None
    assert not Path("out").exists()
    assert PrivacyAccountant.at("b.db").spent == 0


def test_a_skeleton_of_several_files_proposes_keys_and_holds_no_value(folder):
    write("person.csv", ["household_id", "person_no", "age", "word"], [(1, 0, 41, CANARY), (77431, 1, 42, CANARY)])
    told = fine("schema", "init", *FILES, "-o", "new.yaml").stderr
    assert "Wrote 10 columns to new.yaml" in told
    assert "by which keys tables hang on each other" in told
    text = Path("new.yaml").read_text(encoding="utf-8")
    assert CANARY not in text
    assert "77431" not in text
    assert "key: [household_id, person_no]  # TODO: " in text
    assert "most: open  # TODO: " in text
    facts = json.loads(fine("schema", "init", "h=household.csv", FILES[1], "--json").stdout)
    assert [table["name"] for table in facts["tables"]] == ["h", "person"]
    for old, new in (("most: open", "most: 3"), ("levels: open", "levels: [a, b]"), ("bounds: open", "bounds: [0, 99]")):
        text = text.replace(old, new)
    text = text.replace("kind: date\n    bounds: [0, 99]", "kind: date\n    bounds: [2000-01-01, 2009-12-31]")
    assert [link.key for link in LinkedSchema.from_yaml(text).links] == ["household_id", ("household_id", "person_no")]


def test_each_table_is_checked_against_its_schema(folder):
    assert run("schema", "check", *FILES, "--schema", "tables.yaml").exit_code == 0
    write("person.csv", ["household_id", "person_no", "age"], [(1, 0, 300)])
    found = run("schema", "check", *FILES, "--schema", "tables.yaml", "--json")
    told = json.loads(found.stdout)
    assert (found.exit_code, told["private"]) == (1, False)
    assert {name: len(each["findings"]) for name, each in told["tables"].items()} == {"household": 1, "person": 2, "trip": 1}
    assert [told["tables"][name]["findings"][0]["problem"] for name in ("household", "trip")] == ["less than least", "no parent"]
    assert not any(python_in(each["told"]) for name in ("household", "trip") for each in told["tables"][name]["findings"])
    assert "person: Reads the rows unprotected" in run("schema", "check", *FILES, "--schema", "tables.yaml").stdout


def test_a_check_reports_keys_that_pandas_wrote_as_floats(folder):
    """Where one key of a column is missing."""
    write("person.csv", ["household_id", "person_no", "age"], [("7.0", 0, 30), ("", 1, 40), (8, 1, 50)])
    found = json.loads(run("schema", "check", *FILES, "--schema", "tables.yaml", "--json").stdout)["tables"]["person"]["findings"]
    assert [(each["problem"], each["rows"]) for each in found if each["problem"] == "no parent"] == [("no parent", 2)]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("most: 2", "most: 2\n  head: {mode: tram}", "head must have levels of column 'mode', got 'tram'"),
        ("most: 2", "most: 2\n  order: mood", "order must be a column of 'trip'"),
        ("key: household_id", "key: home", "table 'person' of INPUT must have the column 'home'"),
    ],
)
def test_a_check_of_tables_refuses_what_a_fit_would(folder, old, new, words):
    Path("tables.yaml").write_text(TABLES.replace(old, new), encoding="utf-8")
    line = refused("schema", "check", *FILES, "--schema", "tables.yaml")
    assert words in line
    assert python_in(line) is None
    assert words in refused(*SYNTHESIZE, "-o", "out", "-q")


def test_an_interrupt_while_tables_are_written_leaves_no_folder(folder, monkeypatch):
    def interrupted(place, *more):
        Path(place).write_text("half", encoding="utf-8")
        raise _program.Terminated(15)

    monkeypatch.setattr("skdpsynth.frames.write_table", interrupted)
    done = run(*SYNTHESIZE, "-o", "out", "-q")
    assert "Terminated; no half-written file is left." in done.stderr
    assert sorted(path.name for path in Path().iterdir()) == sorted([*FILES, "tables.yaml"])


@pytest.mark.usefixtures("hasty")
@pytest.mark.skipif(not (ROOT / "examples" / "register.yaml").exists(), reason="needs the source tree")
def test_the_commands_of_the_page_of_an_agency_run_as_written(tmp_path, monkeypatch):
    pytest.importorskip("jinja2")
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "examples" / "register.yaml", ".")
    write(
        "household.csv",
        ["household_id", "place", "dwelling"],
        [(i, ["Hafen", "Seedorf"][i % 2], ["owned", "rented"][i % 5 > 2]) for i in range(300)],
    )
    persons = [("reference", "female", 45, "employed", 30_000), ("partner", "male", 70, "retired", 900), ("child", "male", 8, "minor", "")]
    rows = [(i, *person) for i in range(300) for person in persons[: 1 + i % 3]]
    write("person.csv", ["household_id", "relation", "sex", "age", "activity", "income"], rows)
    lines = "\n".join(blocks("docs/agency.md", "console")).replace("\\\n", " ").splitlines()
    commands = [shlex.split(line)[1:] for line in lines if line]
    assert [command[0] for command in commands] == ["schema", "budget", "synthesize", "evaluate"]
    for command in commands:
        fine(*command)
    assert sorted(path.name for path in Path("out").iterdir()) == ["household.csv", "person.csv"]
