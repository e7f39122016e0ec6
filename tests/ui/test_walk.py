"""Walks through the form by its pages: from a file to synthetic rows, and each way to go wrong."""

import os
import re
import shutil
import signal
import stat
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from internals import columns_of_fields, fields_of, file_name
from walks import BUDGET, CANARY, FACTS, Program, Tab, text_of_people

from skdpsynth import PrivacyAccountant, load
from skdpsynth.domain import Boolean, Continuous, Identifier, Schema

LEDGER = "people-of-2026.db"


def account(program, name=LEDGER):
    return PrivacyAccountant.at(program.ledgers / name)


def test_a_whole_walk_gives_rows_card_schema_model_and_script(walked, tmp_path):
    program, tab = walked
    tab.get("result")
    files = {
        name: tab._client.get(tab._address(f"download?n=1&name={name}")) for name in re.findall(r"name=([\w.]+)&?[^&]*? download", tab.text)
    }
    assert [*files] == ["synthetic.csv", "card.html", "model.skdp", "schema.yaml", "repeat.sh"]
    assert all(answer.headers["content-disposition"] == f'attachment; filename="{name}"' for name, answer in files.items())
    assert files["synthetic.csv"].text.splitlines()[0] == '"age","income","smokes"'
    assert len(files["synthetic.csv"].text.splitlines()) == 401
    facts = {
        "age": Continuous(18, 99, integer=True),
        "income": Continuous(0, 50000, integer=False),
        "smokes": Boolean(words=("no", "yes")),
        "note": Identifier(),
    }
    assert Schema.from_yaml(files["schema.yaml"].text) == Schema(facts)
    (tmp_path / "model.skdp").write_bytes(files["model.skdp"].content)
    assert load(tmp_path / "model.skdp").accountant_.spent == 1
    assert "Made for the public" in files["card.html"].text
    assert not any(CANARY in answer.text for name, answer in files.items() if name != "model.skdp")
    assert next(entry.name for entry, _ in account(program).lines())
    assert 0 < account(program).spent <= 1
    assert "epsilon" in tab.text
    assert "Expected error of" in tab.seen["release"] or "Expected error of" in tab.get("release").text


def test_the_script_gives_the_same_schema_and_charges(walked, tmp_path):
    program, tab = walked
    script = tab.get("result").get("download?n=1&name=repeat.sh").text
    (tmp_path / "people.csv").write_text(text_of_people(), encoding="utf-8")
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "skdpsynth"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m skdpsynth "$@"\n', encoding="utf-8")
    command.chmod(0o700)
    paths = {"PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, env={**os.environ, **paths}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    written = tab.get("result").get("download?n=1&name=schema.yaml").text
    assert Schema.from_yaml(tmp_path / "schema.yaml") == Schema.from_yaml(written)
    one, other = account(program), PrivacyAccountant.at(tmp_path / LEDGER)
    assert (one.epsilon, one.delta, one.neighboring, one.dataset) == (other.epsilon, other.delta, other.neighboring, other.dataset)
    assert [(entry.name, str(entry.loss)) for entry, _ in one.lines()] == [(entry.name, str(entry.loss)) for entry, _ in other.lines()]
    assert (tmp_path / "synthetic.csv").exists()
    assert (tmp_path / "card.html").exists()
    tab.get("result")


def test_the_form_proposes_names_and_kinds_and_no_cell(tab):
    tab.choose(f"name,age,day\n{CANARY},77431,2024-03-07\n")
    assert tab.page == "columns"
    assert "77431" not in tab.text
    assert CANARY not in tab.text
    assert "2024-03-07" not in tab.text
    assert "For your eyes only" in tab.text
    assert tab.text.index("Whom does the promise protect?") < tab.text.index("2. The columns")


def test_faults_of_a_schema_stand_beside_their_fields_and_nothing_typed_is_lost(tab):
    tab.choose(text_of_people())
    typed = {**FACTS, "whose": "", "high.0": "12", "low.1": "abc", "rules": "age <= size"}
    tab.post("columns", data=typed)
    assert tab.page == "columns"
    assert {*tab.faults()} == {"whose", "low.0", "low.1"}
    assert "'abc'" in tab.faults()["low.1"]
    assert tab.value("low.1") == "abc"
    assert tab.value("high.0") == "12"
    assert "age &lt;= size" in tab.text
    assert 'aria-describedby="low.1-fault"' in tab.text
    assert "age, low" in tab.summary()
    tab.post("columns", data={**FACTS, "rules": "age <= size"})
    assert "size" in tab.faults()["rules"]
    assert tab.get("budget").page == "columns"  # nothing goes on without a schema


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("picture.png", b"\x89PNG\r\n", "must be a table (CSV, Parquet, Excel, SQLite, Stata, SPSS), got 'picture.png'"),
        ("empty.csv", b"", "choose another, or say below how it is written"),
        ("broken.parquet", b"PAR1 nothing", ""),
        ("office.csv", b"office;rent\nA;1200,50\n", "decimal"),
    ],
)
def test_a_wrong_file_is_refused_beside_its_field(tab, name, content, told):
    tab.choose(content, name)
    assert tab.page == "file"
    (where, sentence), *more = tab.faults().items()
    assert where == ("decimal" if told == "decimal" else "file")
    assert more == []
    assert told == "decimal" or told in sentence
    assert "private/" not in sentence
    if told == "decimal":
        assert tab.post("file", data={"decimal": ","}).page == "columns"  # the file is kept


def test_a_refused_budget_charges_nothing_and_loses_nothing(program, tab):
    tab.to_release(epsilon="0.5").release(epsilon="9", target="", rows="17").wait()
    assert tab.page == "release"
    assert "costs epsilon 9" in tab.faults()["epsilon"]
    assert "Nothing was charged" in tab.faults()["epsilon"]
    assert "--" not in tab.faults()["epsilon"]
    assert (tab.value("epsilon"), tab.value("rows")) == ("9", "17")
    assert account(program).spent == 0
    for wrong in ("-1", "0", "abc", "", "inf", "1e999"):
        assert "epsilon" in tab.release(epsilon=wrong).faults()
    assert "delta" in tab.release(delta="1").faults()
    assert "rows" in tab.release(rows="1.5").faults()
    assert "about" in tab.release("preview", about="many").faults()


def test_a_budget_is_made_once_and_never_replaced(program, tab):
    tab.to_release()
    tab.post("budget", data=BUDGET)
    assert "choose it above" in tab.faults()["dataset"]
    assert {"epsilon", "delta"} <= {*tab.post("budget", data={**BUDGET, "dataset": "new", "epsilon": "no", "delta": "2"}).faults()}
    assert "dataset" in tab.post("budget", data={**BUDGET, "dataset": "../.."}).faults()
    assert [path.name for path in program.ledgers.glob("*.db")] == [LEDGER]
    tab.post("budget", data={"ledger": LEDGER})
    assert tab.page == "release"


def test_a_release_that_is_sent_twice_is_charged_once(program, tab):
    tab.to_release()
    ticket = tab.value("ticket")
    tab.release().wait()
    once, releases = account(program).spent, tab.page
    tab.post("release", data={"ticket": ticket, "epsilon": "1", "delta": "1e-6", "action": "fit"}).wait()
    assert account(program).spent == once
    assert tab.page == releases


def test_two_tabs_have_each_their_walk_and_share_a_budget(program):
    one, other = Tab(program), Tab(program)
    one.to_release()
    other.choose("age,ward\n30,A\n40,B\n" * 50, "wards.csv")
    facts = {"whose": "row", "kind.0": "whole", "low.0": "0", "high.0": "120", "kind.1": "nominal", "levels.1": "A\nB", "rules": ""}
    other.post("columns", data=facts).post("cancel", data={}).get("budget")
    assert LEDGER in other.text
    other.post("budget", data={"ledger": LEDGER})
    one.release(epsilon="1"), other.release(epsilon="1")
    assert one.wait().page == other.wait().page == "result?n=1"
    assert one.get("download?n=1&name=synthetic.csv").text.splitlines()[0] == '"age","income","smokes"'
    assert other.get("download?n=1&name=synthetic.csv").text.splitlines()[0] == '"age","ward"'
    assert len(list(account(program).ledger)) == 2
    assert account(program).spent > Fraction(1)
    assert one.get("columns").value("high.0") == "99"


def test_a_later_program_goes_on_with_the_budget(program, tab, tmp_path):
    tab.to_release().release(epsilon="2").wait()
    spent = account(program).spent
    program.form.close()
    again = Program(tmp_path / "again", program.ledgers)
    tab = Tab(again)
    tab.choose(text_of_people()).post("columns", data=FACTS).post("cancel", data={}).get("budget")
    assert f"{float(3 - spent):g} of epsilon 3 left" in tab.text
    assert {*tab.post("budget", data={**BUDGET, "ledger": ""}).faults()} == {"ledger"}
    tab.post("budget", data={"ledger": LEDGER}).release(epsilon="3").wait()
    assert "Nothing was charged" in tab.faults()["epsilon"]
    assert account(program).spent == spent
    again.form.close()


SLOW = text_of_people(60_000)


@pytest.mark.parametrize("number", [None, signal.SIGKILL])
def test_a_fit_that_ends_early_leaves_the_ledger_right(program, tab, number):
    tab.to_release(SLOW).release()
    walk = next(iter(program.form._walks.values()))
    tab.wait(lambda tab: account(program).spent > 0)
    assert tab.page == "job", "the fit was over too soon"
    if number is None:
        tab.post("cancel", data={})
    else:
        os.kill(walk.command._process.pid, number)
    tab.wait()
    assert tab.page == "release"
    assert ("Cancelled" if number is None else "ended from outside") in tab.summary()
    assert "The budget was charged" in tab.summary()
    assert 0 < account(program).spent <= 1
    assert len(list(account(program).ledger)) == 1
    assert tab.get("result").page == "release"  # there is none


def test_a_fit_that_is_cancelled_before_it_reads_is_charged_nothing(program, tab):
    tab.to_release().release().post("cancel", data={})
    assert "Cancelled. Nothing was charged." in tab.summary()
    assert account(program).spent == 0


def test_a_person_with_several_rows_is_the_unit_and_the_column_is_left_out(program, tab):
    rows = "".join(f"p{i // 3},{20 + i % 50},{'AB'[i % 2]}\n" for i in range(600))
    tab.choose(f"person,age,ward\n{rows}")
    facts = {"whose": "column", "unit": "person", "most": "x", "kind.0": "nominal", "kind.1": "whole", "low.1": "0", "high.1": "120"}
    facts |= {"kind.2": "nominal", "levels.2": "A, B", "rules": ""}
    assert {*tab.post("columns", data=facts).faults()} == {"most"}
    assert {*tab.post("columns", data={**facts, "unit": ""}).faults()} >= {"unit"}
    tab.post("columns", data={**facts, "most": "3"}).post("cancel", data={})
    tab.get("budget").post("budget", data=BUDGET).release().wait()
    assert tab.page == "result?n=1"
    assert "person, at most 3 rows" in tab.text
    assert '"person"' not in tab.get("download?n=1&name=synthetic.csv").text


def test_a_schema_of_an_earlier_walk_fills_the_fields(walked, tab):
    schema = walked[1].get("result").get("download?n=1&name=schema.yaml").text
    walked[1].get("result")
    tab.post("", files={"file": ("people.csv", text_of_people()), "known": ("schema.yaml", schema)})
    assert [tab.value(name) for name in ("low.0", "high.0", "low.1")] == ["18", "99", "0.0"]
    tab.post("file", files={"known": ("schema.yaml", "columns: 3")})
    assert {*tab.faults()} == {"known"}
    tab.post("file", files={"known": ("book.csv", "variable,value,label,low,high\nage,,,0,110\n")})
    assert tab.value("high.0") == "110"


def test_files_lie_in_the_private_folder_alone(program, tab, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tab.choose(text_of_people(), "../../../outside.csv")
    assert tab.page == "columns"
    (kept,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert kept.name == "outside.csv"
    assert program.place in kept.parents
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        *(("people.csv", "people.csv"), ("C:\\my data\\people.csv", "people.csv"), ("-o.csv", "table.csv"), ("*.csv", "table.csv")),
        *(("schema.yaml.csv", "schema.yaml.csv"), ("synthetic.csv", "table.csv"), ("a=b.csv", "table.csv"), ("../x.CSV.gz", "x.CSV.gz")),
        *(("~x.tsv", "table.tsv"), ("visits 2024.xlsx", "visits 2024.xlsx")),
    ],
)
def test_a_file_keeps_its_name_unless_a_command_could_mistake_it(name, kept):
    assert file_name(name) == kept


COLUMNS = [
    {"name": "age", "kind": "continuous", "bounds": [0, 120], "integer": True, "nullable": True, "missing": [-99, "?"], "step": 5},
    {"name": "weight", "kind": "continuous", "bounds": [0.5, 300.0], "integer": False, "nullable": False, "decimals": 1},
    {"name": "code", "kind": "nominal", "levels": [1, 2], "nullable": False},
    {"name": "post", "kind": "nominal", "levels": ["01067", "10115"], "nullable": False, "other": "elsewhere"},
    {"name": "pain", "kind": "ordinal", "levels": "0..10", "nullable": False},
    {"name": "smokes", "kind": "boolean", "nullable": False, "words": ["no", "yes"]},
    {"name": "born", "kind": "date", "bounds": ["1920-01-01", "2024-12-31"], "nullable": False, "format": "dd/mm/yyyy"},
    {"name": "clinic", "kind": "constant", "value": 80},
    {"name": "id", "kind": "identifier"},
    {"name": "bmi", "kind": "derived", "expression": "weight / 3"},
    {"name": "bought", "kind": "continuous", "bounds": "private", "integer": False, "nullable": False},
]


def test_fields_give_back_the_facts_that_fill_them():
    found, faults = columns_of_fields(fields_of(COLUMNS), COLUMNS, str)
    assert faults == {}
    assert found == COLUMNS


@pytest.mark.skipif(shutil.which("sh") is None, reason="needs a shell")
def test_a_schema_that_holds_the_end_of_its_script_does_not_end_it(program, tab):
    from internals import Release, Walk

    walk = Walk(Path("x"), file="people.csv", schema="columns:\n- END-OF-SCHEMA\nEND-OF-SCHEMA\nrm -rf x\n", ledger=Path("it's.db"))
    walk.budget = ["budget", "init", "it's.db", "--epsilon=1"]
    script = walk.script(Release(Path("x"), ["synthesize", "people.csv", "--unit=$(touch owned)"]))
    done = subprocess.run(["sh", "-n"], input=script, text=True, capture_output=True)
    assert done.returncode == 0
    assert "'--unit=$(touch owned)'" in script
    assert script.count("END-OF-SCHEMA-") == 2
