"""Laws of the command line, through click's runner: what it says, writes, refuses and charges, and that it speaks no Python."""

import ast
import contextlib
import csv
import hashlib
import io
import json
import re
import signal as signals
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("click")
pytest.importorskip("yaml")
pytest.importorskip("pyarrow")

from click.testing import CliRunner
from internals import _program, _synthesize, choose_method, in_words_of_commands, program
from internals import methods_learned as learned

import skdpsynth
from skdpsynth import PrivacyAccountant, PrivateMeasureMechanism, load
from skdpsynth.domain import Continuous, Date, Identifier, Impossible, Inequality, Nominal, Schema, Unique

CANARY = "zebra-7431"
SCHEMA = {"age": (18, 90), "income": (0.0, 90_000.0), "smokes": ["no", "yes"]}


def run(*arguments, data=None):
    return CliRunner().invoke(program, [str(each) for each in arguments], input=data, prog_name="skdpsynth")


def fine(*arguments, data=None):
    done = run(*arguments, data=data)
    assert done.exit_code == 0, done.output
    return done


def refused(*arguments):
    """Return the one sentence of a refusal."""
    done = run(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: ")
    assert line.endswith(".")
    return line


def text_of_people(n=400):
    rng = np.random.default_rng(0)
    age, smokes = rng.integers(18, 90, n), rng.choice(["no", "yes"], n)
    rows = [f"{a},{500 * a + i % 7}.5,{s}" for i, (a, s) in enumerate(zip(age, smokes, strict=True))]
    return "\n".join(["age,income,smokes", *rows]) + "\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text(text_of_people(), encoding="utf-8")
    Schema(SCHEMA).to_yaml("people.yaml")
    Schema.skeleton("people.csv").to_yaml("open.yaml")
    Schema({"age": (0, 9), "income": (0, 9)}, rules=[Inequality("age", "income")]).to_yaml("ruled.yaml")
    return tmp_path


SYNTHESIZE = ("synthesize", "people.csv", "--schema", "people.yaml", "--epsilon", "1", "--delta", "1e-6")


def test_a_skeleton_has_the_columns_and_no_value_of_a_row_and_replaces_a_file_only_by_force(folder):
    Path("secret.csv").write_text(f"name,age\n{CANARY},77431\n", encoding="utf-8")
    fine("schema", "init", "secret.csv", "-o", "secret.yaml")
    written = Path("secret.yaml").read_text(encoding="utf-8")
    assert list(Schema.from_yaml("secret.yaml")) == ["name", "age"]
    assert CANARY not in written
    assert "77431" not in written
    assert Schema.from_yaml(fine("schema", "init", "secret.csv").stdout) == Schema.skeleton("secret.csv")
    fine("schema", "init", "secret.csv", "-o", "new.json")
    assert Schema.from_json(Path("new.json")) == Schema.skeleton("secret.csv")
    assert "'secret.yaml' exists; give another name, or --force" in refused("schema", "init", "people.csv", "-o", "secret.yaml")
    assert Path("secret.yaml").read_text(encoding="utf-8") == written
    fine("schema", "init", "people.csv", "-o", "secret.yaml", "--force")
    assert "open" in Path("secret.yaml").read_text(encoding="utf-8")


def test_a_check_that_finds_something_exits_with_1_and_says_that_it_is_not_private(folder):
    assert run("schema", "check", "people.csv", "--schema", "people.yaml").exit_code == 0
    Path("odd.csv").write_text("age,income,smokes\n300,1.0,no\n40,2.0,Yes\n", encoding="utf-8")
    found = run("schema", "check", "odd.csv", "--schema", "people.yaml")
    assert found.exit_code == 1
    assert found.stdout.startswith("Reads the rows unprotected: do not publish.")
    told = json.loads(run("schema", "check", "odd.csv", "--schema", "people.yaml", "--json").stdout)
    assert told["private"] is False
    assert {each["problem"] for each in told["findings"]} >= {"clipped", "near miss"}


def test_a_flag_names_the_column_of_survey_weights(folder):
    fine(*SYNTHESIZE, "--weights", "age", "--model", "m.skdp", "-o", "out.csv", "--quiet")
    model = load("m.skdp")
    assert (model.weights, model.population_ > 400 * 18) == ("age", True)
    fine("plan", "--schema", "people.yaml", "--rows", 400, "--epsilon", 1, "--weights", "age", "--repeats", 1)


def test_weights_beyond_their_cap_are_a_note_of_a_check_and_no_finding(folder):
    Path("heavy.csv").write_text(text_of_people() + "900,1000,no\n", encoding="utf-8")
    words = ("schema", "check", "heavy.csv", "--schema", "people.yaml")
    found = run(*words)
    noted = run(*words, "--weights", "age")
    assert (found.exit_code, noted.exit_code) == (1, 0)
    assert "'age': clipped (1 of 401 rows)" in found.stdout
    assert "'age': clipped (1 of 401 rows)" in noted.stdout
    assert run(*words, "--weights", "income").exit_code == 1
    assert "--weights must be a column of --schema, of one table, got 'weight'" in refused(*words, "--weights", "weight")


@pytest.mark.parametrize("name", ["out.csv", "out.tsv", "out.csv.gz", "out.parquet"])
def test_synthetic_rows_have_the_columns_and_facts_of_the_schema(folder, name):
    pd = pytest.importorskip("pandas")
    told = fine(*SYNTHESIZE, "--stratify", "smokes", "--rows", 50, "--model", "m.skdp", "-o", name, "--quiet").output
    assert all(line.startswith("Warning: Noise hides where the numbers of 'age', 'income' end") for line in told.splitlines())
    assert load("m.skdp").stratify == "smokes"
    read = pd.read_parquet if name.endswith("parquet") else pd.read_csv
    frame = read(name, **({"sep": "\t"} if "tsv" in name else {}))
    assert (list(frame.columns), len(frame)) == (list(SCHEMA), 50)
    assert frame["age"].between(18, 90).all()
    assert set(frame["smokes"]) <= {"no", "yes"}
    piped = run("schema", "check", "-", "--schema", "people.yaml", "--json", data=Path(name).read_bytes())
    assert json.loads(piped.stdout)["rows"] == 50


def test_the_json_of_a_run_tells_what_was_spent_and_written(folder):
    Path("more.csv").write_text(text_of_people(100), encoding="utf-8")
    two = ("synthesize", "people.csv", "more.csv", "--schema", "people.yaml", "--epsilon", 1, "-o", "out.csv", "--json", "--force")
    told = json.loads(fine(*two).stdout)
    assert (told["epsilon"], told["delta"], told["rows"], told["output"]) == (1.0, 0.0, 500, "out.csv")
    assert (told["method"], told["neighboring"]) == ("latent-factor", "replace_one")
    assert json.loads(fine(*two, "--neighboring", "add_or_remove_one").stdout)["rows"] is None
    (line,) = fine(*SYNTHESIZE, "--epsilon", 25, "-o", "much.csv", "--quiet").stderr.splitlines()  # without a place in the code
    assert line.startswith("Warning: epsilon 25 is above 20")
    assert "NOT PRIVATE" in fine(*SYNTHESIZE, "--epsilon", "inf", "-o", "free.csv").stderr


def test_a_dash_is_standard_input_and_output_and_only_rows_are_in_the_pipe(folder):
    done = fine("synthesize", "-", *SYNTHESIZE[2:], "--rows", 7, "-o", "-", data=text_of_people())
    rows = list(csv.reader(io.StringIO(done.stdout)))
    assert (rows[0], len(rows)) == (list(SCHEMA), 8)
    assert "Method latent-factor: " in done.stderr
    words = ("schema", "check", "-", "--schema", "people.yaml")
    assert "standard input is empty" in run(*words, data="").stderr
    told = run(*words, data=b"age,\xff,smokes\n1,1,no\n").stderr
    assert "standard input" in told
    assert "standard_input" not in told


def test_a_person_with_several_rows_is_protected_as_one(folder):
    lines = text_of_people().splitlines()
    rows = [f"p{i // 4},{line}" for i, line in enumerate(lines[1:])]
    Path("visits.csv").write_text("\n".join([f"person,{lines[0]}", *rows]) + "\n", encoding="utf-8")
    Schema({"person": Identifier(), **SCHEMA}).to_yaml("visits.yaml")
    options = ("--epsilon", 1, "--unit", "person", "--max-rows", 2, "-o", "out.csv", "--json")
    told = json.loads(fine("synthesize", "visits.csv", "--schema", "visits.yaml", *options).stdout)
    assert (told["unit"], told["rows"]) == ("person, at most 2 rows", 200)
    assert "--max-rows-per-unit must go with --unit" in refused(*SYNTHESIZE, "--max-rows", 2, "-o", "new.csv")


def test_an_identifier_without_a_unit_is_said_in_words_of_the_command_line(folder):
    lines = text_of_people().splitlines()
    Path("visits.csv").write_text("\n".join(f"{i or 'person'},{line}" for i, line in enumerate(lines)) + "\n", encoding="utf-8")
    for rules, number in (([], 1), ([Unique("person")], 0)):
        Schema({"person": Identifier(), **SCHEMA}, rules=rules).to_yaml("visits.yaml", overwrite=True)
        done = fine("synthesize", "visits.csv", "--schema", "visits.yaml", "--epsilon", 1, "-o", "out.csv", "--force")
        said = [line for line in done.stderr.splitlines() if "identifier" in line]
        assert len(said) == number
        assert all(line.startswith("Warning: schema has the identifier 'person', but there is no --unit") for line in said)
        assert all("give --unit 'person', or" in line and "fit(" not in line for line in said)


NUMBERS = {f"x{i}": (0.0, 1.0) for i in range(9)}


@pytest.mark.parametrize(
    ("columns", "stratify", "delta", "method"),
    [
        (dict(list(NUMBERS.items())[:1]), None, 0.0, "pmm"),
        (dict(list(NUMBERS.items())[:4]), None, 1e-6, "pmm"),
        (dict(list(NUMBERS.items())[:5]), None, 0.0, "lowdim"),
        (NUMBERS, None, 1e-6, "latent-factor"),
        (SCHEMA, None, 0.0, "latent-factor"),
        ({"x": Continuous(0, 1, nullable=True)}, None, 0.0, "latent-factor"),
        ({"x": Continuous(bounds="private")}, None, 0.0, "latent-factor"),
        ({"x": (0, 1), "when": Date("2020-01-01", "2020-12-31")}, None, 0.0, "latent-factor"),
        ({"x": (0, 1)}, "x", 0.0, "latent-factor"),
    ],
)
def test_auto_chooses_by_kinds_and_number_of_columns(columns, stratify, delta, method):
    assert choose_method("auto", Schema(columns), stratify, delta)[0] == method


@pytest.mark.parametrize("method", ["pmm", "lowdim"])
def test_a_method_for_numbers_takes_the_bounds_of_the_schema(folder, method):
    Path("points.csv").write_text("x,y\n" + "0.5,20\n1.5,30\n" * 100, encoding="utf-8")
    Schema({"x": (0.0, 2.0), "y": (10, 40)}).to_yaml("points.yaml")
    options = ("--schema", "points.yaml", "--epsilon", 1, "--method", method, "--model", "m.skdp", "-o", "out.csv")
    fine("synthesize", "points.csv", *options)
    assert dict(load("m.skdp").bounds) == {"x": (0.0, 2.0), "y": (10, 40)}
    rows = list(csv.DictReader(Path("out.csv").read_text(encoding="utf-8").splitlines()))
    assert all(10 <= int(row["y"]) <= 40 for row in rows)


def test_more_rows_of_a_model_are_free(folder):
    fine("budget", "init", "budget.db", "--epsilon", "1.9", "--delta", "2e-6")  # two fit in only as Gaussian noise
    fine(*SYNTHESIZE, "--ledger", "budget.db", "--model", "m.skdp", "-o", "out.csv")
    fine(*SYNTHESIZE, "--ledger", "budget.db", "-o", "second.csv")
    before = PrivacyAccountant.at("budget.db").spent
    fine("sample", "m.skdp", "-n", 12, "-o", "more.csv")
    assert len(Path("more.csv").read_text(encoding="utf-8").splitlines()) == 13
    assert len(fine("sample", "-", "-n", 3, "-o", "-", data=Path("m.skdp").read_bytes()).stdout.splitlines()) == 4
    assert PrivacyAccountant.at("budget.db").spent == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("frobnicate",), "No such command 'frobnicate'; see skdpsynth --help."),
        (("synthesize",), "Missing argument 'INPUT...'; see skdpsynth synthesize --help."),
        ((*SYNTHESIZE,), "Missing option '-o'"),
        ((*SYNTHESIZE, "-o", "out.txt"), "-o must end in .parquet, .csv, .tsv, .csv.gz or .tsv.gz, got 'out.txt'"),
        ((*SYNTHESIZE, "-o", "nowhere/out.csv"), "make it first"),
        ((*SYNTHESIZE, "-o", "out.csv", "--model", "out.csv"), "--model must be a file of its own, but 'out.csv' is that of -o as well"),
        ((*SYNTHESIZE, "--force", "-o", "people.csv"), "'people.csv' is a file that is read here; give another name"),
        ((*SYNTHESIZE, "-o", "-", "--json"), "--json must not go with -o -"),
        ((*SYNTHESIZE, "-o", "out.csv", "--rows", "0"), "Invalid value for '--rows'"),
        ((*SYNTHESIZE, "-o", "out.csv", "--epsilon", "one"), "Invalid value for '--epsilon'"),
        ((*SYNTHESIZE, "-o", "out.csv", "--epsilon", "-1"), "(inf for no noise)"),
        ((*SYNTHESIZE, "-o", "out.csv", "--method", "pmm"), "column 'smokes'; use --method latent-factor"),
        ((*SYNTHESIZE, "-o", "out.csv", "--stratify", "nobody"), "--stratify must be a column of schema"),
        ((*SYNTHESIZE, "-o", "out.csv", "--stratify", "age"), "--stratify must be a nominal column"),
        ((*SYNTHESIZE, "-o", "out.csv", "--weights", "nobody"), "--weights must be a column of schema"),
        ((*SYNTHESIZE, "-o", "out.csv", "--weights", "age", "--method", "pmm"), "--weights goes with --method latent-factor alone"),
        ((*SYNTHESIZE, "-o", "out.csv", "--ledger", "none.db"), "make it by skdpsynth budget init"),
        ((*SYNTHESIZE, "-o", "out.csv", "--ledger", "people.csv"), "is not a ledger of skdpsynth"),
        (("synthesize", "people.csv", "-", *SYNTHESIZE[2:], "-o", "out.csv"), "INPUT must be '-' alone"),
        (
            ("schema", "check", "none.csv", "--schema", "people.yaml"),
            "Error: INPUT must be a table or the path of one, but there is no file",
        ),
        (("schema", "check", "people.csv", "--schema", "none.yaml"), "--schema must be a file, but there is no file 'none.yaml'"),
        (
            ("sample", "people.csv", "-o", "out.csv"),
            "MODEL must be a whole file of synthesize --model, got 'people.csv'; name",
        ),
        (("sample", "none.skdp", "-o", "out.csv"), "none.skdp"),
        (("evaluate", "-", "-", "--schema", "people.yaml"), "must not both be '-'"),
        (("evaluate", "-", "out.csv", "--schema", "people.yaml", "--holdout", "-"), "must not both be '-'"),
        ((*SYNTHESIZE, "-o", "out.csv", "--epsilon", "nan"), "epsilon must be"),
        ((*SYNTHESIZE, "-o", "out.csv", "--delta", "2"), "--delta must be"),
        ((*SYNTHESIZE, "-o", "out.csv", "--unit", "nobody"), "--unit must be the name of a column of INPUT, got"),
        (("synthesize", "none.csv", *SYNTHESIZE[2:], "-o", "out.csv"), "INPUT must be a table or the path of one"),
        (("synthesize", "people.docx", *SYNTHESIZE[2:], "-o", "out.csv"), "convert or read it first"),
        (("synthesize", "hive", *SYNTHESIZE[2:], "-o", "out.csv"), "INPUT must not be a folder whose names hold a column"),
        (("synthesize", "semicolons.csv", *SYNTHESIZE[2:], "-o", "out.csv"), "set separator to ';' in read of the schema"),
        ((*SYNTHESIZE, "--schema", "people.csv", "-o", "out.csv"), "--schema must be a file that ends in"),
        (("evaluate", "people.csv", "none.csv", "--schema", "people.yaml"), "SYNTHETIC must be a table or the path of one"),
        (("evaluate", *["people.csv"] * 2, "--schema", "people.yaml", "--target", "nobody"), "--target must be a column of schema"),
        (("plan", "--schema", "people.yaml", "--rows", "300", "--time-limit", "-1"), "--time-limit must be"),
        (("schema", "init", "people.docx"), "INPUT must be a table in a file, by its suffix one of"),
        (("schema", "init", "none.csv"), "there is no file 'none.csv'"),
        (("impute", "people.csv", "people.csv", "-o", "out.csv"), "got 'people.csv'; name another file."),
        (("plan", "--schema", "people.yaml", "--rows", "many"), "Invalid value for '--rows'"),
        (("budget", "show", "none.db"), "LEDGER must exist, but there is no file 'none.db'; make it by skdpsynth budget init."),
        (("card", "none.skdp", "-o", "a.html"), "MODEL must exist, but there is no file 'none.skdp'; write it by "),
        (("synthesise",), "No such command 'synthesise'. Did you mean 'synthesize'? See skdpsynth --help."),
        (("audit",), "either MODEL or --schema"),
        (("audit", "--schema", "people.yaml"), "--epsilon must go with --schema"),
        (("budget", "init", "people.csv", "--epsilon", "20"), "name, or use the budget that it holds (skdpsynth budget show)."),
        (("plan", "--schema", "ruled.yaml", "--rows", "300", "--method", "pmm"), "keeps no rules"),
        ((*SYNTHESIZE, "--schema", "open.yaml", "-o", "out.csv"), "schema of columns 'age', 'income' has open bounds"),
    ],
)
def test_whatever_is_wrong_is_one_sentence_of_flags_and_files_and_exit_code_2(folder, arguments, words):
    Path("hive/year=2020").mkdir(parents=True)
    for name in ("people.docx", "hive/year=2020/part.parquet"):
        Path(name).write_text("nothing", encoding="utf-8")
    Path("semicolons.csv").write_text(text_of_people().replace(",", ";"), encoding="utf-8")
    done = run(*arguments)
    assert python_in(done.output) is None
    line = done.stderr.splitlines()[-1]
    assert done.exit_code == 2
    assert line.startswith("Error: ")
    assert words in line
    assert [each for each in done.stderr.splitlines() if not each.startswith("Method ")] == [line]
    assert not Path("out.csv").exists()


def test_an_error_that_nobody_foresaw_says_no_word_of_its_text(folder, monkeypatch):
    monkeypatch.setattr(Schema, "of", lambda source: {}[CANARY])
    done = run(*SYNTHESIZE, "-o", "out.csv")
    assert done.exit_code == 2
    assert "(KeyError)" in done.stderr
    assert CANARY not in done.output
    monkeypatch.setenv("SKDPSYNTH_TRACEBACK", "1")
    assert "Traceback" in run(*SYNTHESIZE, "-o", "out.csv").stderr


@pytest.mark.parametrize("words", [(), ("schema",), ("budget",), *[(name, "--help") for name in program.commands]])
def test_help_is_shown_without_fault(words):
    shown = fine(*words).stdout
    assert shown.startswith("Usage: skdpsynth")
    assert "..." not in "".join(line for line in shown.splitlines() if "Usage: " not in line)  # no sentence is cut


def test_a_run_that_the_ledger_cannot_pay_is_refused_before_a_row_is_read(folder):
    fine("budget", "init", "budget.db", "--epsilon", "0.5")
    sentence = refused("synthesize", "none.csv", "--schema", "people.yaml", "--epsilon", 1, "--ledger", "budget.db", "-o", "out.csv")
    assert "costs epsilon 1, but only 0.5 of 0.5 remains" in sentence
    asked = ("--epsilon", "0.1", "--neighboring", "add_or_remove_one", "--ledger", "budget.db", "-o", "out.csv")
    assert "--neighboring must be that of the ledger" in refused("synthesize", "none.csv", "--schema", "people.yaml", *asked)


def test_what_a_run_spends_stands_in_the_ledger(folder):
    fine("budget", "init", "budget.db", "--epsilon", 2, "--dataset", "people of 2026")
    options = ("--schema", "people.yaml", "--epsilon", "0.5", "--ledger", "budget.db", "-o", "out.csv", "--json")
    assert json.loads(fine("synthesize", "people.csv", *options).stdout)["remaining"] == 1.5
    told = json.loads(fine("budget", "show", "budget.db", "--json").stdout)
    assert (told["epsilon"], told["spent"], told["remaining"], told["dataset"]) == (2.0, 0.5, 1.5, "people of 2026")
    shown = fine("budget", "show", "budget.db").stdout
    assert "spent epsilon 0.5 of 2" in shown
    line = next(line for line in shown.splitlines() if "LatentFactorSynthesizer" in line)
    assert line.split()[-1] == "Laplace"
    assert len(line) <= 80


def test_evidence_of_a_ledger_is_written_and_checked(folder):
    fine("budget", "init", "budget.db", "--epsilon", 2)
    fine(*SYNTHESIZE[:-2], "--ledger", "budget.db", "-o", "out.csv")
    fine("budget", "evidence", "budget.db", "-o", "evidence.json")
    assert fine("budget", "check", "evidence.json").stdout == "ok: 4 releases, epsilon 1 in all, under 'replace_one', for a row\n"
    fine("budget", "check", "--strict", "evidence.json")
    path = Path("evidence.json")
    told = json.loads(path.read_text(encoding="utf-8"))
    told["releases"][-1]["scales"] = ["1"]
    path.write_text(json.dumps(told), encoding="utf-8")
    done = run("budget", "check", "evidence.json", "--json")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["wrong"][0].startswith(f"release {told['releases'][-1]['number']} ")
    path.write_text("{}", encoding="utf-8")
    assert "evidence must be" in refused("budget", "check", "evidence.json")


@pytest.mark.parametrize("form", ["csv", "json"])
def test_an_exported_ledger_lists_what_was_released_with_its_noise(folder, form):
    fine("budget", "init", "budget.db", "--epsilon", 2)
    fine(*SYNTHESIZE[:-2], "--ledger", "budget.db", "-o", "out.csv")
    fine("budget", "export", "budget.db", "--format", form, "-o", "ledger.txt")
    text = Path("ledger.txt").read_text(encoding="utf-8")
    lines = json.loads(text)["entries"] if form == "json" else list(csv.DictReader(io.StringIO(text)))
    assert lines[0]["name"] == "LatentFactorSynthesizer"
    assert all("DiscreteLaplace" in line["noise"] for line in lines[1:])
    assert float(lines[0]["epsilon"]) == 1.0
    assert "exists" in refused("budget", "export", "budget.db", "-o", "ledger.txt")
    fine("budget", "export", "budget.db", "-o", f"ledger.{form}")
    assert Path(f"ledger.{form}").read_text(encoding="utf-8").startswith("name," if form == "csv" else "{")


def test_a_run_that_breaks_after_the_charge_says_what_was_charged(folder, monkeypatch):
    def full(*where):
        raise OSError("No space left on device.")

    fine("budget", "init", "budget.db", "--epsilon", 2)
    monkeypatch.setattr(_synthesize.options, "write_rows", full)
    done = run(*SYNTHESIZE[:-2], "--ledger", "budget.db", "-o", "out.csv", "--quiet")
    assert done.exit_code == 2
    *_, charged, error = done.stderr.splitlines()
    assert charged == "The budget budget.db was charged before the run broke, and stays so: spent epsilon 0 before, 1 of 2 now."
    assert error == "Error: No space left on device."


def test_a_plan_reads_no_row_and_keeps_the_rules_of_a_schema(folder):
    Path("people.csv").unlink()
    done = fine("plan", "--schema", "people.yaml", "--rows", 500, "--epsilon", 1, "--epsilon", 10, "--repeats", 1, "--json")
    told = json.loads(done.stdout)
    pairs = [line for line in told["measures"] if line["measure"] == "pairs"]
    assert [line["epsilon"] for line in pairs] == [1.0, 10.0]
    assert pairs[0]["error"] > pairs[0]["no_privacy"]
    assert told["rows"] == 500
    rules = (Inequality("age", "income"),)
    assert (learned(Schema.of("ruled.yaml"), None).rules, learned(Schema.of("ruled.yaml"), "age").rules) == (rules, ())
    told = json.loads(fine("plan", "--schema", "ruled.yaml", "--rows", 300, "--epsilon", 1, "--repeats", 1, "--json").stdout)
    assert (told["method"], told["why"]) == ("latent-factor", "the schema has rules, which no other method keeps")


def test_an_evaluation_beside_held_out_rows_attacks_both(folder):
    """Real rows as synthetic ones are found out; other rows of the table, given for those of the fit, are not."""
    lines = Path("people.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    head, half = lines[0], len(lines) // 2
    Path("train.csv").write_text("".join(lines[:half]), encoding="utf-8")
    Path("others.csv").write_text(head + "".join(lines[half:]), encoding="utf-8")
    beside = ("--schema", "people.yaml", "--holdout", "others.csv")
    told = json.loads(fine("evaluate", "train.csv", "train.csv", *beside, "--target", "smokes", "--json").stdout)
    assert "exact_copies" in told["evidence"]["found"]
    assert "proves nothing" in told["evidence"]["words"]
    assert "proves nothing" in fine("evaluate", "train.csv", "train.csv", *beside).stdout


@pytest.fixture
def no_pandas(monkeypatch):
    for name in ("pandas", "polars"):
        monkeypatch.setitem(sys.modules, name, None)


def test_an_evaluation_a_plan_and_an_audit_need_no_pandas(folder, no_pandas):
    fine(*SYNTHESIZE, "--model", "m.skdp", "-o", "out.csv")
    assert fine("evaluate", "people.csv", "out.csv", "--schema", "people.yaml").stdout.startswith("NOT PRIVATE: ")
    told = json.loads(fine("evaluate", "people.csv", "out.csv", "--schema", "people.yaml", "--json").stdout)
    assert told["private"] is False
    assert {"marginal", "pair", "wasserstein"} <= {line["measure"] for line in told["measures"]}
    fine("plan", "--schema", "people.yaml", "--rows", 100, "--epsilon", 1, "--repeats", 1)
    fine("audit", "m.skdp", "--trials", 20)


def test_cards_are_written_of_a_run_of_its_ledger_and_of_its_model(folder):
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    fine("budget", "init", "budget.db", "--epsilon", 2, "--delta", "1e-6", "--dataset", "people of May")
    fine(*SYNTHESIZE, "--ledger", "budget.db", "--card", "card.html", "--title", "May", "--model", "m.skdp", "-o", "out.csv")
    assert "--title must go with --card" in refused(*SYNTHESIZE, "--title", "May", "-o", "none.csv")
    fine("card", "budget.db", "-o", "budget.html")
    assert "people of May" in Path("budget.html").read_text(encoding="utf-8")
    asked = ("--file", "out.csv", "--mean", "age", "--refits", 8)
    told = json.loads(fine("card", "m.skdp", "-o", "again.html", "--title", "Visits in May", *asked, "--json").stdout)
    assert "--mean and --share must go with MODEL" in refused("card", "budget.db", "-o", "none.html", "--mean", "age")
    assert told["card"] == "again.html"
    assert "epsilon" in json.dumps(told["registry"])
    for page, title in (("card.html", "May</h1>"), ("again.html", "Visits in May")):
        text = Path(page).read_text(encoding="utf-8")
        assert "out.csv" in text
        assert hashlib.sha256(Path("out.csv").read_bytes()).hexdigest() in text
        assert "people.csv" not in text
        assert hashlib.sha256(Path("people.csv").read_bytes()).hexdigest() not in text
        assert "epsilon" in text
        assert title in text
        assert "0 to 90000" in text
    assert "exists" in refused("card", "m.skdp", "-o", "card.html")
    fine("evaluate", "people.csv", "out.csv", "--schema", "people.yaml", "-o", "quality.html", "--quiet")
    quality = Path("quality.html").read_text(encoding="utf-8")
    assert "PRIVATE, DO NOT PUBLISH" in quality
    assert "synthetic rows beside real ones: not private." in quality
    assert "mean of age" in Path("again.html").read_text(encoding="utf-8")
    rate = ("--sample", "simple_random", "400/20000")
    fine("card", "budget.db", "-o", "of_sample.html", *rate)
    assert "epsilon = 0.0337" in Path("of_sample.html").read_text(encoding="utf-8")
    assert "got a part of it; name the ledger in place of MODEL." in refused("card", "m.skdp", "-o", "none.html", *rate)
    assert "needs an account under" in refused("card", "budget.db", "-o", "none.html", "--sample", "poisson", "0.02")
    for words in (("clusters", "0.02"), ("poisson", "2"), ("poisson", "1/0"), ("poisson", "few"), ("poisson", "1e999999999")):
        told = refused("card", "budget.db", "-o", "none.html", "--sample", *words)
        assert "--sample must be poisson or simple_random, and a rate" in told


def test_an_audit_of_a_model_reads_its_settings_alone(folder):
    X = np.random.default_rng(0).random((100, 1))
    PrivateMeasureMechanism(depth=2, max_rows_per_unit=3).fit(np.hstack([X, X]), unit=1).save("units.skdp")
    assert "promise was not refuted" in fine("audit", "units.skdp", "--trials", 20).stdout
    PrivateMeasureMechanism(depth=2, epsilon=2.0).fit(X).save("m.skdp")
    told = json.loads(fine("audit", "m.skdp", "--trials", 100, "--confidence", 0.999999, "--json").stdout)
    assert told["is_broken"] is False
    assert told["epsilon_lower"] <= 2.0 == told["epsilon"]
    assert told["n_trials"] == 100
    told = json.loads(fine("audit", "m.skdp", "--trials", 20, "--confidence", 0.999999, "--released", "--json").stdout)
    assert told["is_broken"] is False
    assert told["event"].startswith("by the log-likelihood ratio of all that was released")


@pytest.mark.parametrize("waits", [True, False])
def test_an_end_that_comes_again_wakes_a_thread_that_waits_and_lets_files_be_removed(monkeypatch, waits):
    monkeypatch.setattr(_program, "_AGAIN", 0.1 if waits else 0.02)
    removed, begun = [], time.monotonic()

    def ends():
        if waits:
            with contextlib.suppress(BaseException):
                signals.raise_signal(signals.SIGTERM)
            threading.Event().wait(60)
        try:
            signals.raise_signal(signals.SIGTERM)
        finally:
            try:
                raise OSError("something else on the way")
            except OSError:
                time.sleep(0.3)
            removed.append(True)

    with pytest.raises(_program.Terminated), _program._handle_termination():
        ends()
    assert removed or waits
    assert time.monotonic() - begun < 30


@pytest.mark.parametrize(("signal", "code"), [(KeyboardInterrupt(), 130), (_program.Terminated(15), 143)])
def test_a_signal_that_an_import_turns_into_an_error_of_its_own_ends_the_program_all_the_same(signal, code, capsys):
    def command():
        try:
            raise signal
        except BaseException as error:
            raise ImportError("initialization failed") from error

    assert _program.run_command(command) == code
    assert "no half-written file is left" in capsys.readouterr().err


def say(command):
    return fine(*command.split())


@pytest.fixture
def private(folder):
    Path("private.yaml").write_text(
        "columns:\n- {name: age, kind: continuous, bounds: [0, 120]}\n- {name: income, kind: continuous, bounds: private}\n"
        "- {name: smokes, kind: nominal, levels: private}\n",
        encoding="utf-8",
    )
    say("synthesize people.csv --schema private.yaml --epsilon 1 --delta 1e-6 --model m.skdp -o out.csv")


def test_every_command_takes_private_bounds_and_levels(private):
    fine("schema", "check", "people.csv", "--schema", "private.yaml")
    by_rows = json.loads(fine("evaluate", "people.csv", "out.csv", "--schema", "private.yaml", "--target", "smokes", "--json").stdout)
    assert {line["what"] for line in by_rows["measures"] if line["measure"] == "marginal"} == {"age", "income", "smokes"}
    assert "evidence" in json.loads(say("evaluate people.csv out.csv --schema private.yaml --holdout people.csv --json").stdout)
    told = say("plan --schema private.yaml --rows 400 --epsilon 1 --delta 1e-6 --repeats 1").output
    assert "about 'income', 'smokes' are guessed in the simulation" in told
    assert len(fine("sample", "m.skdp", "-n", 3, "-o", "-").stdout.splitlines()) == 4


def test_an_evaluation_of_a_model_is_that_of_python(private):
    Path("others.csv").write_text(text_of_people(), encoding="utf-8")
    assert "--known must go with --holdout" in refused("evaluate", "people.csv", "--model", "m.skdp", "--known", "age")
    told = json.loads(say("evaluate people.csv --model m.skdp --holdout others.csv --known age --json").stdout)
    assert {line["allowed"] for line in told["evidence"]["measures"]} != {None}
    assert "age" not in {line["column"] for line in told["evidence"]["measures"]}
    expected = load("m.skdp").evaluate("people.csv").to_records()
    assert told["measures"] == json.loads(json.dumps(expected))
    assert set(told) == {"private", "warning", "measures", "evidence"}
    for wrong in (("out.csv", "--model", "m.skdp"), ("--model", "m.skdp", "--schema", "private.yaml"), ("out.csv",), ()):
        assert "SYNTHETIC with --schema, or --model alone" in refused("evaluate", "people.csv", *wrong)


@pytest.fixture
def gaps(folder):
    """A model of people with gaps, and the rows of a few others, in whose columns words stand for missing cells."""
    schema = {
        "id": Identifier(),
        "seen": Date("2020-01-01", "2029-12-31", nullable=True),
        "age": Continuous(0, 120, nullable=True),
        "flag": Nominal([0, 1], nullable=True),
        "smokes": ["no", "yes"],
        "packs": Continuous(0.0, 9.0, nullable=True),
    }
    Schema(schema, rules=[Impossible({"smokes": "no", "packs": (None, None)})]).to_yaml("gaps.yaml")
    lines = [f"P{i},2024-01-{1 + i % 31:02},{20 + i % 60},{i % 2},{('no', 'yes')[i % 2]},{(i % 2) * 1.5 or ''}" for i in range(400)]
    Path("gaps.csv").write_text("\n".join(["id,seen,age,flag,smokes,packs", *lines]) + "\n", encoding="utf-8")
    say("synthesize gaps.csv --schema gaps.yaml --epsilon 20 --delta 1e-6 --model m.skdp -o out.csv -q")
    Path("few.csv").write_text("id,seen,age,flag,smokes,packs\nP1,NA,?,,yes,\n,2024-01-02,30,0,NA,2.5\nP3,,31,1,no,\n", encoding="utf-8")


@pytest.mark.parametrize("out", ["filled.csv", "-"])
def test_missing_cells_of_a_file_are_filled_and_all_others_stay(gaps, out):
    done = say(f"impute m.skdp few.csv -o {out} --quiet")
    first, second, third = csv.DictReader((Path(out).read_text(encoding="utf-8") if out != "-" else done.stdout).splitlines())
    assert (first["id"], first["smokes"], second["id"], second["age"], second["packs"]) == ("P1", "yes", "", "30", "2.5")
    assert 0 <= int(first["age"]) <= 120
    assert first["seen"][:4] in {str(year) for year in range(2020, 2030)}
    assert first["flag"] in "01"
    assert (second["smokes"], third["packs"]) == ("yes", "")
    say("impute m.skdp few.csv -o whole.parquet --complete")
    say("impute m.skdp whole.parquet -o whole.csv")
    rows = [*csv.DictReader(Path("whole.csv").read_text(encoding="utf-8").splitlines())]
    assert all(cell for row in rows for name, cell in row.items() if name != "id")


def test_intervals_have_the_names_of_their_columns_and_groups(gaps):
    told = json.loads(say("interval m.skdp --mean packs --share flag --by smokes --refits 8 --confidence 0.9 --json").stdout)
    found = {line.pop("name"): line for line in told["intervals"]}
    assert told["confidence"] == 0.9
    of_yes = [f"{what}, smokes yes" for what in ("mean of packs", "share of flag 0", "share of flag 1")]
    assert [*found] == ["share of flag 0, smokes no", "share of flag 1, smokes no", *of_yes]  # nobody else has packs
    for name, line in found.items():  # nothing is outside what a share or a mean can be
        assert 0 <= line["low"] <= line["estimate"] <= line["high"] <= (9 if "mean" in name else 1)
    shown = say("interval m.skdp --mean age --refits 8").stdout
    assert shown.startswith("mean of age: ")
    assert "(95 % interval " in shown
    for wrong in (("--mean", "smokes"), ("--mean", "nobody"), ("--share", "age"), ("--mean", "age", "--by", "seen")):
        assert "must name a column of" in refused("interval", "m.skdp", *wrong)
    assert "--mean or a --share" in refused("interval", "m.skdp")


PYTHON = re.compile(r"[A-Za-z_\]]\w*\(|\b[A-Za-z_]\w*=(?=[^\s=])|\b(True|False|None|X|frame)\b|\bSchema\.|`\w+`")
QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")
ONLY_IN_PYTHON = re.compile(  # what no command can get to: schemas and tables that are no files, parts of other estimators
    r"Nominal\(\[|^public must be|of Dask|^Expected 2D array|found array with 0 feature|^synthesizer must have"
)
COLUMNS = {
    "age": "kind: continuous, bounds: [18, 90]",
    "income": "kind: continuous, bounds: [0.0, 90000.0]",
    "smokes": "kind: nominal, levels: ['no', 'yes']",
}


def python_in(text):
    return PYTHON.search(QUOTED.sub("", text))


def write_schema(rules=(), **changed):
    columns = {name: facts for name, facts in {**COLUMNS, **changed}.items() if facts}
    lines = ["columns:", *(f"- {{name: {name}, {facts}}}" for name, facts in columns.items())]
    lines += ["rules:", *(f"- {rule}" for rule in rules)] if rules else []
    Path("people.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.mark.parametrize(
    ("changed", "rules", "words"),
    [
        ({"age": "kind: text"}, (), "drop the column from INPUT and from schema, or write kind: identifier"),
        ({"age": None}, (), "schema must name the columns of INPUT"),
        ({"age": None, "other": "kind: text"}, (), "a column of --unit, or a key of linked tables, has kind: identifier, or is left out"),
        ({"age": "kind: continuous, bounds: open"}, (), "give bounds: [low, high]: public facts"),
        ({"age": "kind: continuous"}, (), "bounds must be two numbers [low, high]"),
        ({"age": "kind: continuous, bounds: [0.5, 99], integer: true"}, (), "or write integer: false"),
        ({"age": "kind: continuous, bounds: [0, 9], nullable: perhaps"}, (), "nullable must be true or false"),
        ({"smokes": "kind: nominal, levels: [a, null]"}, (), "for missing cells write nullable: true"),
        ({"smokes": "kind: ordinal, levels: private"}, (), "private levels, which is not supported here"),
        ({"smokes": "kind: nominal, levels: private"}, (), "--delta must be greater than 0 to buy the levels of 'smokes'"),
        ({"smokes": "kind: date, bounds: [2024-01-01, 2020-01-01]"}, (), "bounds must be two times with low < high"),
        ({}, ("{rule: missing together, columns: [age, income]}",), "is not nullable; write nullable: true"),
        ({}, ("income < age",), "write strict: false (in text <=), or integer: true of both"),
        ({}, ("income = 2 * age",), "make 'income' a column that is computed, kind: derived with expression: 2 * age"),
        ({}, ("smokes == 'no' if age > 20",), "else write rule: impossible"),
        ({}, ("{rule: impossible, cells: []}",), "cells must be a list such as"),
    ],
)
def test_a_schema_that_is_refused_is_mended_in_yaml(folder, changed, rules, words):
    write_schema(rules, **changed)
    done = run("synthesize", "people.csv", "--schema", "people.yaml", "--epsilon", 1, "-o", "out.csv")
    assert (done.exit_code, python_in(done.output)) == (2, None)
    assert words in done.output


def test_findings_and_warnings_speak_yaml_too(folder):
    lines = text_of_people().splitlines()
    lines[1:3] = [",300.5,maybe", "20.5,x,Yes"]
    Path("odd.csv").write_text("\n".join([*lines, "7"]) + "\n", encoding="utf-8")
    write_schema(["age <= income", "{rule: impossible, cells: [{column: smokes, is: ['yes']}]}"], age="kind: continuous, bounds: [18, 90]")
    done = run("schema", "check", "odd.csv", "--schema", "people.yaml")
    told = run("schema", "check", "odd.csv", "--schema", "people.yaml", "--json").output
    assert (done.exit_code, python_in(done.output), re.search(r"\w=\w|=\{|\w\(\w", told)) == (1, None, None)
    for words in ("write nullable: true", "write integer: false", "read: {multiline: true}", 'breaks {"rule": "impossible"'):
        assert words in done.output
    lines = [f"{i or 'id'},{line}" for i, line in enumerate(text_of_people().splitlines())]
    Path("visits.csv").write_text("\n".join(lines), encoding="utf-8")
    write_schema(id="kind: identifier")
    done = run("synthesize", "visits.csv", "--schema", "people.yaml", "--epsilon", 100, "--delta", 0.1, "-o", "out.csv")
    assert (done.exit_code, python_in(done.output)) == (0, None)
    for words in ("give --unit 'id'", "{rule: unique, columns: [id]}", "use --delta", "--epsilon inf"):
        assert words in done.output
    assert "'smokes' for one" in done.output  # and not the column that is left out


def test_every_refusal_of_files_and_tables_can_be_said_without_python():
    root, wrong, n_seen = Path(skdpsynth.__file__).parent, [], 0
    for room in ("domain", "tables", "frames", "fitting"):
        for file in sorted((root / room).glob("*.py")):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                text = text_of(node.exc.args[0]) if isinstance(node, ast.Raise) and getattr(node.exc, "args", None) else ""
                said, n_seen = in_words_of_commands(re.sub(r"\s+", " ", text)), n_seen + bool(text)
                if re.search(r"\w\(|\w=\S", QUOTED.sub("", said)) and not ONLY_IN_PYTHON.search(said):
                    wrong.append((file.name, said))
    assert wrong == []
    assert n_seen > 200


def text_of(node):
    """The text of a message, with something in place of what is only known when it is raised."""
    if isinstance(node, ast.JoinedStr):
        text = "".join(part.value if isinstance(part, ast.Constant) else "'it'" for part in node.values)
        return text.replace("='it'", "=7").replace("'it' sample", "7 sample").replace("minimum of 'it'", "minimum of 7")
    if isinstance(node, ast.BinOp):
        return text_of(node.left) + text_of(node.right)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
