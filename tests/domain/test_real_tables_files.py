"""Files as people have them: how they are written is found by a skeleton, stated as read, and used by everything that reads them."""

import itertools
import json
import sqlite3
import zipfile
from contextlib import closing

import numpy as np
import pandas as pd
import polars as pl
import pytest
from internals import open_source

from skdpsynth import LatentFactorSynthesizer, PrivateMeasureMechanism
from skdpsynth.domain import Boolean, Continuous, Date, DateTime, Identifier, Nominal, Ordinal, Schema, Unique, keys_of
from skdpsynth.tables import open_columns

pytest.importorskip("pyarrow")

pytestmark = pytest.mark.filterwarnings("ignore")
N = 300
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame({"patient_id": np.arange(N), "Größe": RNG.normal(170, 9, N).round(1), "g": RNG.choice(["p", "q"], N)})
KINDS = {"patient_id": Identifier(), "Größe": Continuous(bounds="open"), "g": Nominal("open")}
FACTS = {"patient_id": Identifier(), "Größe": (100.0, 250.0), "g": ["p", "q"]}


def text(separator=",", decimal="."):
    return TABLE.to_csv(sep=separator, decimal=decimal, index=False)


def packed(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("inside/", "")
        archive.writestr("inside/a.tsv", text("\t"))


def base(path, **more):
    with closing(sqlite3.connect(path)) as opened:
        for name, table in {"people": TABLE, **more}.items():
            table.to_sql(name, opened, index=False)


def sheet(path):
    pytest.importorskip("openpyxl")
    TABLE.to_excel(path, index=False)


OPEN = {"separator": ";", "decimal": "open"}
FORMS = {  # name, bytes or what writes them, what a skeleton finds, and what a person adds
    "semicolons": ("a.csv", text(";", ",").encode(), OPEN, ","),
    "semicolons, marked": ("a.csv", text(";").encode("utf-8-sig"), OPEN, "."),
    "semicolons at line ends": ("a.csv", text(";").replace("\n", ";;\n").encode(), OPEN, "."),
    "sep=;": ("a.csv", b"sep=;\n" + text(";", ",").encode(), OPEN | {"skip": 1}, ","),
    "tabs in .txt": ("a.txt", text("\t").encode(), {"separator": "\t"}, None),
    "tabs in .tab": ("a.tab", text("\t").encode(), {}, None),
    "tabs and commas in UTF-16": (
        "a.txt",
        text("\t", ",").encode("utf-16"),
        {"separator": "\t", "decimal": "open", "encoding": "utf-16"},
        ",",
    ),
    "pipes in .dat": ("a.dat", text("|").encode(), {"separator": "|"}, None),
    "cp1252": ("a.csv", text().encode("cp1252"), {"encoding": "cp1252"}, None),
    "comments": ("a.csv", b"# made; in 2024\r\n#\r\n" + text().replace("\n", "\r\n").encode() + b"# the end\r\n", {"comment": "#"}, None),
    "a title": ("a.csv", b"Report 2024\n\n" + text().encode(), {"skip": 2}, None),
    "archive": ("a.zip", packed, {}, None),
    "database": ("a.db", base, {}, None),
    "sheet": ("a.xlsx", sheet, {}, None),
}


def rows_of(source):
    return pl.concat(pl.from_arrow(chunk) for chunk in source.chunks()).rows()


@pytest.mark.parametrize("name", FORMS)
def test_how_a_file_is_written_is_found_stated_and_read(name, tmp_path):
    file, content, found, decimal = FORMS[name]
    content(tmp_path / file) if callable(content) else (tmp_path / file).write_bytes(content)
    skeleton = Schema.skeleton(tmp_path / file)
    assert skeleton == Schema(KINDS, read=found)
    assert Schema.from_yaml(skeleton.to_yaml()) == skeleton
    schema = Schema(FACTS, read=found | ({"decimal": decimal} if decimal else {}))
    if decimal:
        with pytest.raises(ValueError, match=r"^decimal in read of the schema is open"):
            LatentFactorSynthesizer(Schema(FACTS, read=found)).fit(tmp_path / file)
    assert not schema.check(tmp_path / file).findings
    (tmp_path / "plain.csv").write_text(text(), encoding="utf-8")
    models = [
        LatentFactorSynthesizer(facts, n_factors=1, random_state=0).fit(path)
        for facts, path in ((schema, tmp_path / file), (Schema(FACTS), tmp_path / "plain.csv"))
    ]
    assert models[0].sample(9, random_state=0).equals(models[1].sample(9, random_state=0))


@pytest.mark.parametrize("block", [7, 2**20])
def test_comments_and_skipped_lines_are_no_rows_wherever_blocks_end(block, tmp_path, monkeypatch):
    from internals import _csv

    monkeypatch.setattr(_csv, "_BLOCK", block)
    (tmp_path / "a.csv").write_text("title\n# one\na,b\n#\n1,x\n# 2,y\n3,#z\n\n4,w")
    source = open_source(tmp_path / "a.csv", read={"skip": 1, "comment": "#"})
    assert rows_of(source) == [("1", "x"), ("3", "#z"), ("", ""), ("4", "w")]
    assert source.damaged_lines(5) == [8]
    (tmp_path / "b.csv").write_text("a,b\n#" + "x" * 300 + "\n#y\n1,2\n")
    monkeypatch.setattr(_csv, "_LONGEST", 100)
    assert rows_of(open_source(tmp_path / "b.csv", read={"comment": "#"}))[-1] == ("1", "2")


@pytest.mark.parametrize("block", [7, 2**20])
def test_a_line_within_a_record_is_no_comment(block, tmp_path, monkeypatch):
    from internals import _csv

    monkeypatch.setattr(_csv, "_BLOCK", block)
    (tmp_path / "a.csv").write_text('# 5" wide\na,b\n1,"x\n# ""2\n#"\n# it is 6"\n#\n3,"#"\n"4\n#",w,\n#5\n6,w')
    source = open_source(tmp_path / "a.csv", read={"comment": "#", "multiline": True})
    assert rows_of(source) == [("1", 'x\n# "2\n#'), ("3", "#"), ("", ""), ("6", "w")]
    assert source.damaged_lines(5) == [9]


def test_a_check_counts_and_names_damaged_lines_and_says_how_cells_may_hold_line_breaks(tmp_path):
    (tmp_path / "a.csv").write_text("g\n" + "p\nq\n" * 9 + "p,1\n" + "q\n" * 5 + '"p\n')
    findings = {each.problem: each for each in Schema({"g": ["p", "q"]}).check(tmp_path / "a.csv")}
    assert findings["damaged lines"].rows == 2
    assert all(words in findings["damaged lines"].told for words in ("(lines 20, 26)", "multiline: true"))
    (tmp_path / "b.csv").write_text('g,h\n"p\np",1\nq\n"q",2\n')
    schema = Schema({"g": ["p", "q"], "h": [1, 2]}, read={"multiline": True})
    assert "(line 4)" in next(iter(schema.check(tmp_path / "b.csv"))).told


def test_columns_that_are_not_named_are_not_read(tmp_path):
    TABLE.assign(secret="x").to_csv(tmp_path / "a.csv", index=False)
    assert not Schema(FACTS, read={"columns": list(FACTS)}).check(tmp_path / "a.csv").findings
    assert list(Schema.skeleton(tmp_path / "a.csv", read={"columns": ["g"]})) == ["g"]
    with pytest.raises(ValueError, match=r"^X must have the columns that are named, but [^\n]* lacks 'no'"):
        open_source(tmp_path / "a.csv", read={"columns": ["no"]})
    for i in range(2):
        TABLE.assign(note=object.__class__.__name__).to_parquet(tmp_path / f"{i}.parquet")
    glob = str(tmp_path / "*.parquet")
    assert list(LatentFactorSynthesizer(FACTS, n_factors=1).fit(glob).sample(3).columns) == ["Größe", "g"]
    assert list(PrivateMeasureMechanism(bounds={"Größe": (100, 250)}).fit(glob).sample(3).columns) == ["Größe"]
    model = PrivateMeasureMechanism(bounds={"Größe": (100, 250)}).fit(glob, unit="patient_id")
    assert list(model.sample(3).columns) == ["Größe"]


def test_one_of_several_sheets_or_tables_is_named_by_read(tmp_path):
    path = tmp_path / "a.db"
    base(path, other=pd.DataFrame({"z": [1]}))
    with pytest.raises(ValueError, match=r"^X has the tables 'people', 'other'; set table in read of the schema to one of them\.$"):
        open_source(path)
    assert open_source(path, read={"table": "other"}).columns == ("z",)
    openpyxl = pytest.importorskip("openpyxl")
    sheet(tmp_path / "a.xlsx")
    book = openpyxl.load_workbook(tmp_path / "a.xlsx")
    book.create_sheet("b").append(["z"])
    book.save(tmp_path / "a.xlsx")
    assert open_source(tmp_path / "a.xlsx", read={"sheet": "b"}).columns == ("z",)
    with pytest.raises(ValueError, match=r"^X has the sheets 'Sheet1', 'b'"):
        open_source(tmp_path / "a.xlsx", read={"sheet": "c"})


ODD_CELLS = ["><v>NaN</v>", ' t="n"><v>INF</v>', "><v>1,5</v>", ' t="b"><v>true</v>', ' t="d"><v>2020-13-45</v>', ' t="s"><v>999</v>']
ODD_CELLS += [f"><v>{'9' * 5000}</v>", "><f>NA()</f><v>#N/A</v>", ' s="x"><v>1</v>']


@pytest.mark.parametrize("odd", ODD_CELLS)
def test_a_cell_of_a_sheet_that_cannot_be_read_is_missing_alone(odd, tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["a", "b", "c"], [1, 2.5, "x"], [3, 77, "y"], [], [None, 5]):
        book.active.append(row)
    book.save(tmp_path / "a.xlsx")
    with zipfile.ZipFile(tmp_path / "a.xlsx") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    parts[sheet] = parts[sheet].replace(b' t="n"><v>77</v>', odd.encode())
    with zipfile.ZipFile(tmp_path / "a.xlsx", "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    assert rows_of(open_source(tmp_path / "a.xlsx")) == [("1", "2.5", "x"), ("3", "", "y"), ("", "", ""), ("", "5", "")]


@pytest.mark.parametrize("suffix", ["sav", "dta"])
def test_stata_and_spss_tell_types_and_labels_only_if_they_are_public(suffix, tmp_path):
    pyreadstat = pytest.importorskip("pyreadstat")
    times = pd.to_datetime(["2020-01-05 10:11:12"] * 3)
    frame = pd.DataFrame({"x": [0.5, None, 2], "k": np.array([1, 2, 9], "int32"), "s": ["a", "", "c"], "d": times.date, "t": times})
    labels = {"variable_value_labels": {"k": {1: "m", 2: "f"}}}
    path = tmp_path / f"a.{suffix}"
    form = {"variable_format": {"k": "F3.0"}} if suffix == "sav" else {}
    (pyreadstat.write_sav if suffix == "sav" else pyreadstat.write_dta)(frame, path, **labels, **form)
    kinds = {
        "x": Continuous(bounds="open"),
        "k": Nominal("open"),
        "s": Nominal("open"),
        "d": Date(bounds="open"),
        "t": DateTime(bounds="open"),
    }
    assert Schema.skeleton(path) == Schema(kinds)
    stated = Schema.skeleton(path, public=True)
    assert stated == Schema(kinds | {"k": Nominal(["m", "f"])}, read={"labels": ["k"]})
    rows = rows_of(open_source(path))
    assert [row[:3] for row in rows] == [(0.5, 1, "a"), (None, 2, None), (2, 9, "c")]
    assert rows[0][3:] == (times[0].date(), times[0].to_pydatetime())
    assert [row[1] for row in rows_of(open_source(path, read=stated.read))] == ["m", "f", "9"]


@pytest.mark.parametrize(
    ("suffix", "how", "name", "odd"),
    [
        ("dta", {"version": 15}, "größe", (b"b~", b"\x81~")),
        ("dta", {"version": 12}, "g", (b"b~", b"\x81~")),
        ("sav", {}, "größe", (b"b~", b"\x81~")),
        ("sav", {"row_compress": True}, "größe", (b"b~", b"\x81~")),
        ("zsav", {"compress": True}, "g", (b"UTF-8", b"ASCII")),  # packed cells cannot be made odd here, but what is said of them
    ],
)
def test_a_text_of_stata_or_spss_that_is_none_is_missing_alone(suffix, how, name, odd, tmp_path):
    pyreadstat = pytest.importorskip("pyreadstat")
    path, label = tmp_path / f"a.{suffix}", name.replace("e", "")
    frame = pd.DataFrame({name: [1.0, 2.0] * 2, "s": ["ab0", "é~" if suffix == "zsav" else "ab~", "ö" * (name != "g"), "c"]})
    write = pyreadstat.write_dta if suffix == "dta" else pyreadstat.write_sav
    write(frame, path, variable_value_labels={name: {1: label, 2: "k"}}, **how)
    path.write_bytes(path.read_bytes().replace(*odd))
    texts = ["ab0", None, "ö" if name != "g" else None, "c"]
    assert rows_of(open_source(path, read={"labels": [name]})) == list(zip([label, "k"] * 2, texts, strict=True))
    assert len(LatentFactorSynthesizer({name: (0, 9), "s": Identifier()}, n_factors=1).fit(path).sample(3)) == 3


@pytest.mark.parametrize("version", [117, 118])
@pytest.mark.parametrize("order", ["little", "big"])
def test_a_long_text_of_stata_that_is_none_is_missing_alone(version, order, tmp_path):
    pytest.importorskip("pyreadstat")
    path = tmp_path / "a.dta"
    frame = pd.DataFrame({"s": ["ö1", "ö2", "ö3"], "x": [1.0, 2.0, 3.0]})
    frame.to_stata(path, version=version, convert_strl=["s"], write_index=False, byteorder=order)
    path.write_bytes(path.read_bytes().replace("ö2".encode(), b"\xe92x"))
    source = open_source(path)
    source._at_once = 2
    assert rows_of(source) == [("ö1", 1.0), (None, 2.0), ("ö3", 3.0)]


KINDS_OF_TEXT = [Nominal(["A", "B"]), Nominal("private"), Boolean(words=("A", "B")), Date("2020-01-01", "2021-01-01"), Continuous(0, 1)]
FORMS_OF_TEXT = [*itertools.product(["string", "large_string", "dictionary"], ["table", "chunks", "parquet", "pandas of Arrow", "pandas"])]


@pytest.mark.parametrize(("form", "holder"), [*FORMS_OF_TEXT, ("string_view", "table")])
def test_a_text_of_arrow_that_is_no_utf8_is_missing_alone(form, holder, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    if form == "string_view" and not hasattr(pa, "string_view"):
        pytest.skip("this pyarrow has none")
    kinds = dict(zip("abcde", KINDS_OF_TEXT[: 4 if form == "string_view" else 5], strict=False))

    def made(odd):
        cells = pa.array([b"A", b"B"] * 50 + [odd], pa.large_binary())
        text = cells.cast(pa.binary_view()).view(pa.string_view()) if form == "string_view" else cells.view(pa.large_string())
        text = text if form in ("string_view", "large_string") else cells.cast(pa.binary()).view(pa.string())
        text = text.dictionary_encode() if form == "dictionary" else text
        if holder.startswith("pandas"):
            dtype = pd.StringDtype("pyarrow") if holder == "pandas" and form != "dictionary" else pd.ArrowDtype(text.type)
            return pd.DataFrame({name: pd.Series(dtype.__from_arrow__(text)) for name in kinds})
        table = pa.table(dict.fromkeys(kinds, text))
        pq.write_table(table, tmp_path / "a.parquet")
        return {"table": table, "chunks": [table.slice(0, 40), table.slice(40)]}.get(holder, tmp_path / "a.parquet")

    model = LatentFactorSynthesizer(kinds, epsilon=1, delta=1e-6, n_factors=1, neighboring="replace_one", random_state=0)
    samples = [pl.DataFrame(model.fit(made(odd)).sample(9, 0)).rows() for odd in (b"secret \xe9", None)]
    assert samples[0] == samples[1]
    if holder in ("table", "pandas"):  # labels of units
        counted = PrivateMeasureMechanism(bounds=(0, 1), epsilon=1.0).fit(np.zeros((101, 1)), unit=made(b"secret \xe9")["a"])
        assert len(counted.sample(3)) == 3


BOOK = "Variable;Value;Label;Kind;Low;High;nullable\nage;;;;0;99;true\nsex;1;male;;;;\nsex;2;female;;;;\nday;;;;2020-01-01;2024-12-31;\n"
BOOK += "grade;1;low;ordinal;;;\ngrade;2;high;;;;\nzip;01067;;;;;\nzip;20095;;;;;\nperson_id;;;;;;\n"
FROM_BOOK = {
    "age": Continuous(0, 99, nullable=True),
    "sex": Nominal([1, 2]),
    "day": Date("2020-01-01", "2024-12-31"),
    "grade": Ordinal([1, 2]),
    "zip": Nominal(["01067", "20095"]),
    "person_id": Identifier(),
}
YAML = """
- {variable: age, low: 0, high: 99, nullable: true}
- {variable: sex, values: {1: male, 2: female}}
- {variable: day, low: "2020-01-01", high: "2024-12-31"}
- {variable: grade, kind: ordinal, values: [1, 2]}
- {variable: zip, values: ["01067", "20095"]}
- {variable: person_id}
"""


@pytest.mark.parametrize(("cells", "words"), [("yes no", ["no", "yes"]), ("T F", ["F", "T"]), ("1 0", [0, 1]), ("No Yes", ["No", "Yes"])])
def test_columns_of_flags_are_seen_in_cells_without_types(cells, words, tmp_path):
    path = tmp_path / "flags.csv"
    path.write_text("f,g\n" + "".join(f"{cell},{cell}x\n" for cell in cells.split() * 3), encoding="utf-8")
    assert Schema.skeleton(path) == Schema({"f": Boolean(words=words), "g": Nominal("open")})
    path.write_text(path.read_text(encoding="utf-8") + "maybe,2\n", encoding="utf-8")
    assert not isinstance(Schema.skeleton(path)["f"], Boolean)


@pytest.mark.parametrize(
    ("read", "cells"),
    [
        ({"separator": ";", "decimal": ",", "thousands": "."}, ["1.267,27", "-1.000.000", "12,5", "7", "0,1x"]),
        ({"separator": ";", "thousands": ","}, ["1,267.27", "-1,000,000", "12.5", "7", "0.1x"]),
        ({"thousands": " "}, ["1 267.27", "-1\u202f000\u00a0000", "12.5", "7", "0.1x"]),
        ({"separator": ";", "decimal": ",", "thousands": "'"}, ["1'267,27", "-1'000'000", "12,5", "7", "1.5"]),
    ],
    ids=str,
)
def test_marks_between_groups_of_digits_are_left_out_of_numbers_of_text(read, cells, tmp_path):
    path, cut = tmp_path / "sums.csv", read.get("separator", ",")
    path.write_text(f"x{cut}g\n" + "".join(f"{cell}{cut}{'pq'[i % 2]}\n" for i, cell in enumerate(cells * 20)), encoding="utf-8")
    schema = Schema({"x": Continuous(-2e6, 2e6, nullable=True), "g": ["p", "q"]}, read=read)
    found = np.concatenate([chunk[0] for chunk in open_columns(path, schema).chunks()])
    np.testing.assert_array_equal(found, [1267.27, -1e6, 12.5, 7, np.nan] * 20)
    assert [(each.problem, each.rows) for each in schema.check(path)] == [("no number", 20)]
    assert Schema.from_json(schema.to_json()).read == read
    with pytest.raises(ValueError, match="thousands in read must differ from decimal"):
        Schema(schema, read={"decimal": ",", "thousands": ","})


def test_a_title_above_the_names_of_a_sheet_is_found(tmp_path):
    book = pytest.importorskip("openpyxl").Workbook()
    for row in (["Ward list, printed 3 January"], [], ["age", "smokes"], *([20 + i, "yes" if i % 3 else "no"] for i in range(30))):
        book.active.append(row)
    book.save(tmp_path / "ward.xlsx")
    schema = Schema.skeleton(tmp_path / "ward.xlsx")
    assert schema.read == {"skip": 2}
    assert list(schema.items()) == [("age", Continuous(bounds="open", integer=True)), ("smokes", Boolean(words=["no", "yes"]))]
    with pytest.raises(ValueError, match="say in skip how many rows come before it"):
        Schema.skeleton(tmp_path / "ward.xlsx", read={"skip": 1})


@pytest.mark.parametrize(
    "rows",
    [
        [["age"], ["20"], ["21", "a note"], ["22"]],
        [["age", "ward"], ["20", "north", "a note"], ["21", "south"]],
        [["title"], ["20", 3.5], ["21", 4.5]],
        [["age"], *[[str(i)] for i in range(20)]],
    ],
    ids=["one column and a note", "a note beside", "numbers", "one column"],
)
def test_no_cell_of_a_row_becomes_a_name_of_a_sheet_that_has_no_title(rows, tmp_path):
    book = pytest.importorskip("openpyxl").Workbook()
    for row in rows:
        book.active.append(row)
    book.save(tmp_path / "x.xlsx")
    assert list(Schema.skeleton(tmp_path / "x.xlsx")) == rows[0]


def test_an_encoding_is_found_by_rows_where_names_do_not_tell_it(tmp_path):
    (tmp_path / "a.csv").write_bytes("ward;n\nsurgery;1\nGyn\u00e4kologie;2\nsurgery;3\n".encode("cp1252"))
    assert Schema.skeleton(tmp_path / "a.csv").read["encoding"] == "cp1252"
    (tmp_path / "b.csv").write_bytes("ward;n\nsurgery;1\nGyn\u00e4kologie;2\nsurgery;3\n".encode())
    assert "encoding" not in Schema.skeleton(tmp_path / "b.csv").read


@pytest.mark.parametrize(("words", "said"), [(["no", "yes"], "'yes'"), ([2, 1], "1"), (None, "True"), (["no", "yes"], "'true'")])
def test_rules_name_truth_values_by_their_words(words, said):
    kinds = {"smokes": Boolean(words=words), "age": (0, 99), "id": Identifier(labels="P")}
    schema = Schema(kinds, rules=[f"age >= 18 if smokes == {said}", Unique("id")])
    rng = np.random.default_rng(0)
    told = words or [False, True]
    smokes, age = rng.random(1000) < 0.3, rng.integers(0, 99, 1000)
    table = pd.DataFrame({"smokes": pd.Series([told[int(each)] for each in smokes]), "age": age, "id": [f"x{i}" for i in range(1000)]})
    rows = LatentFactorSynthesizer(schema, epsilon=5.0, delta=1e-6, random_state=0).fit(table).sample(2000)
    grown = rows["age"] >= 18
    assert grown[rows["smokes"] == told[1]].all()
    assert not grown[rows["smokes"] == told[0]].all()
    assert keys_of(schema.coded.rules, schema.coded) == ()  # where labels are no column


def test_a_code_book_may_list_levels_and_missing_codes_in_one_cell(tmp_path):
    (tmp_path / "book.csv").write_text("name,kind,levels,missing\nq,ordinal,1..5,9\nr,nominal,a;b;c,?;-9\n", encoding="utf-8")
    kinds = {"q": Ordinal("1..5", missing=[9]), "r": Nominal(["a", "b", "c"], missing=["?", -9])}
    assert Schema.from_codebook(tmp_path / "book.csv") == Schema(kinds)


@pytest.mark.parametrize(("name", "content"), [("book.csv", BOOK), ("book.yaml", YAML)])
def test_a_code_book_is_a_whole_schema(name, content, tmp_path):
    (tmp_path / name).write_text(content)
    assert Schema.from_codebook(tmp_path / name) == Schema(FROM_BOOK)
    assert Schema.from_codebook(tmp_path / name, labels=True)["sex"] == Nominal(["male", "female"])


def test_csvw_beside_a_file_states_kinds_and_bounds_only_if_they_are_public(tmp_path):
    (tmp_path / "a.csv").write_text("Alter;Ja;w;Tag\nsecret;secret;secret;secret\n")
    columns = [
        {"titles": "Alter", "datatype": {"base": "integer", "minimum": "0", "maximum": 99}, "required": False},
        {"name": "ja", "datatype": "boolean"},
        {"name": "w", "datatype": {"base": "string", "format": "a|b c"}},
        {"name": "Tag", "datatype": "date"},
    ]
    told = {"url": "a.csv", "dialect": {"delimiter": ";"}, "tableSchema": {"columns": columns}}
    (tmp_path / "a.csv-metadata.json").write_text(json.dumps(told))
    kinds = {"Alter": Continuous(bounds="open", integer=True, nullable=True), "Ja": Nominal([False, True]), "w": Nominal("open")}
    kinds |= {"Tag": Date(bounds="open")}
    assert Schema.skeleton(tmp_path / "a.csv") == Schema(kinds, read={"separator": ";", "decimal": "open"})
    public = Schema.skeleton(tmp_path / "a.csv", public=True)
    assert (public["Alter"], public["w"]) == (Continuous(0, 99, nullable=True), Nominal(["a", "b c"]))


DDI = """<?xml version="1.0"?>{dtd}<codeBook xmlns="ddi:codebook:2_5"><dataDscr>
<var name="sex"><catgry><catValu>1</catValu></catgry><catgry><catValu>2</catValu></catgry><catgry missing="Y"><catValu>9</catValu></catgry>
<varFormat type="numeric"/></var>
<var name="age" dcml="0"><valrng><range min="0" max="99"/></valrng><varFormat type="numeric"/></var>
<var name="text"><varFormat type="character"/></var></dataDscr></codeBook>"""


def test_ddi_is_read_without_entities(tmp_path):
    path = tmp_path / "book.xml"
    path.write_text(DDI.format(dtd=""))
    kinds = {"sex": Nominal("open", nullable=True), "age": Continuous(bounds="open", integer=True), "text": Nominal("open")}
    assert Schema.skeleton(path) == Schema(kinds)
    assert Schema.skeleton(path, public=True) == Schema(kinds | {"sex": Nominal([1, 2], nullable=True), "age": Continuous(0, 99)})
    for content in (DDI.format(dtd='<!DOCTYPE a [<!ENTITY b "c">]>'), "no xml", "<a/>"):
        path.write_text(content)
        with pytest.raises(ValueError, match=r"^source must be a DDI code book [^\n]*\.$"):
            Schema.skeleton(path)


def test_categories_are_levels_only_if_they_are_public():
    frame = pd.DataFrame({"a": pd.Categorical(["x"], ["y", "x"], ordered=True), "b": pd.Categorical([1], [1, 2])})
    assert Schema.skeleton(frame) == Schema({"a": Nominal("open"), "b": Nominal("open")})
    assert Schema.skeleton(frame, public=True) == Schema({"a": Ordinal(["y", "x"]), "b": Nominal([1, 2])})
    enum = pl.DataFrame({"a": pl.Series(["x"], dtype=pl.Enum(["y", "x"]))})
    assert Schema.skeleton(enum, public=True) == Schema({"a": Nominal(["y", "x"])})
    assert set(Schema.skeleton(enum.to_arrow(), public=True)["a"].levels) == {"y", "x"}


@pytest.mark.parametrize("name", ["semicolons", "a title", "cp1252"])
def test_commands_read_by_the_schema_or_by_flags_and_compare_with_what_they_wrote(name, tmp_path, monkeypatch):
    pytest.importorskip("click")
    from click.testing import CliRunner
    from internals import program

    def fine(*arguments):
        done = CliRunner().invoke(program, arguments)
        assert done.exit_code == 0, done.output
        return done.output

    monkeypatch.chdir(tmp_path)
    file, content, found, decimal = FORMS[name]
    (tmp_path / file).write_bytes(content)
    fine("schema", "init", file, "-o", "a.yaml")
    assert Schema.of("a.yaml").read == found
    Schema(FACTS, read=found | ({"decimal": decimal} if decimal else {})).to_yaml("a.yaml", overwrite=True)
    Schema(FACTS).to_yaml("plain.yaml")
    flags = [word for key, value in (found | ({"decimal": decimal} if decimal else {})).items() for word in (f"--{key}", str(value))]
    for how in (["--schema", "a.yaml"], ["--schema", "plain.yaml", *flags]):
        fine("schema", "check", file, *how)
        fine("synthesize", file, "--epsilon", "1", "-o", "out.csv", "--force", *how)
        assert "Größe" in fine("evaluate", file, "out.csv", *how)


@pytest.mark.parametrize(("name", "content"), [("a.yaml", "a: [1"), ("a.yaml", "5"), ("a.json", "{"), ("a.csv", "x,y\n1,2\n")])
def test_what_is_no_code_book_is_refused_in_one_sentence(name, content, tmp_path):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=r"^code book [^\n]* must [^\n]*\.$|^code book must [^\n]*\.$"):
        Schema.from_codebook(tmp_path / name)
