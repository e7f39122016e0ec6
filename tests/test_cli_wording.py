"""No command speaks Python: no call and no keyword argument stands in what it prints."""

import ast
import re
from pathlib import Path

import pytest

pytest.importorskip("click")
pytest.importorskip("yaml")
pytest.importorskip("pyarrow")

from internals import in_words_of_commands
from test_cli import run, text_of_people

import skdpsynth

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


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text(text_of_people(), encoding="utf-8")
    return tmp_path


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
        ({"age": None, "other": "kind: text"}, (), "a column that --unit names has kind: identifier"),
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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("synthesize none.csv --schema people.yaml --epsilon 1 -o out.csv", "INPUT must be a table or the path of one"),
        ("synthesize people.docx --schema people.yaml --epsilon 1 -o out.csv", "convert or read it first"),
        ("synthesize people.csv --schema people.csv --epsilon 1 -o out.csv", "schema must be a file that ends in"),
        ("synthesize people.csv --schema people.yaml --epsilon -1 -o out.csv", "(inf for no noise)"),
        ("synthesize people.csv --schema people.yaml --epsilon 1 --delta 2 -o out.csv", "--delta must be"),
        ("synthesize people.csv --schema people.yaml --epsilon 1 --stratify age -o out.csv", "--stratify must be a nominal column"),
        ("synthesize people.csv --schema people.yaml --epsilon 1 --unit nobody -o out.csv", "--unit must be the name of a column of INPUT"),
        ("synthesize people.csv --schema people.yaml --epsilon 1 --ledger no.db -o out.csv", "make it by skdpsynth budget init"),
        ("synthesize hive --schema people.yaml --epsilon 1 -o out.csv", "INPUT must not be a folder whose names hold a column"),
        ("synthesize semicolons.csv --schema people.yaml --epsilon 1 -o out.csv", "set separator to ';' in read of the schema"),
        ("evaluate people.csv none.csv --schema people.yaml", "SYNTHETIC must be a table or the path of one"),
        ("evaluate people.csv people.csv --schema people.yaml --target nobody", "--target must be a column of schema"),
        ("plan --schema people.yaml --rows 300 --time-limit -1", "--time-limit must be"),
        ("schema init people.docx", "INPUT must be a table in a file, by its suffix one of"),
        ("schema init none.csv", "there is no file 'none.csv'"),
        ("impute people.csv people.csv -o out.csv", "was not written by save"),
    ],
)
def test_a_refusal_speaks_of_flags_and_files(folder, arguments, words):
    write_schema()
    Path("hive/year=2020").mkdir(parents=True)
    for name in ("people.docx", "people.sav", "hive/year=2020/part.parquet"):
        Path(name).write_text("nothing", encoding="utf-8")
    Path("semicolons.csv").write_text(text_of_people().replace(",", ";"), encoding="utf-8")
    done = run(*arguments.split())
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
