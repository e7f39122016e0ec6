"""Schemas in files of YAML, and skeletons to fill in."""

import datetime
import gzip
import pickle
import sys
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from skdpsynth.domain import (
    Boolean,
    Constant,
    Continuous,
    Date,
    DateTime,
    Duration,
    Identifier,
    MixedTypeEncoder,
    Nominal,
    Ordinal,
    Schema,
    Text,
)

yaml = pytest.importorskip("yaml")
pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.dataset")

words = st.one_of(
    st.text(),
    st.sampled_from(["no", "yes", "on", "null", "~", "1", "1e5", "2020-01-01", "a: b", "# x", "- x", "[", "'", '"', "open", "NaN"]),
)
level = st.one_of(words, st.integers(-(2**63), 2**64 - 1), st.booleans(), st.floats(allow_nan=False, allow_infinity=False))
levels = st.lists(level, min_size=2, max_size=30, unique=True)
bounds = st.tuples(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300)).filter(lambda b: b[0] < b[1])
whole = st.tuples(st.integers(-(2**53), 2**53), st.integers(-(2**53), 2**53)).filter(lambda b: b[0] < b[1])
days = st.tuples(st.dates(), st.dates()).filter(lambda b: b[0] < b[1])
BOUNDED = [Continuous, partial(Continuous, integer=True), Date, DateTime, partial(DateTime, resolution="hour")]
STATED = [
    Continuous(0, 9, missing=[-200, "?"]),
    Continuous(0, 9, decimals=2),
    Continuous(0, 900, step=25, nullable=True),
    Nominal("A..F", missing=["?"], other="G"),
    Nominal(["10115", "10117", "80331"], groups={"10115": "Berlin", "10117": "Berlin", "80331": "Munich"}),
    Nominal(["10115", "10117", "80331"], groups=2),
    Nominal("private", groups=2),
    Ordinal("1..9"),
    Boolean(words=("no", "yes"), missing=["?"]),
    Constant(80),
    Constant(datetime.date(2020, 1, 1)),
    Date("2020-01-01", "2020-12-31", missing=[datetime.date(9999, 12, 31)]),
]
UNSTATED = (st.sampled_from(["open", "private"]), st.booleans())
kinds = st.one_of(
    st.builds(lambda b, null: Continuous(*b, nullable=null), st.one_of(bounds, whole), st.booleans()),
    st.builds(lambda cls, told, null: cls(told, nullable=null), st.sampled_from([Nominal, Ordinal]), levels, st.booleans()),
    st.builds(lambda cls, b, null: cls(*b, nullable=null), st.sampled_from([Date, DateTime]), days, st.booleans()),
    st.builds(
        lambda b, r: DateTime(*(f"{end.isoformat()}T00:00+00:00" for end in b), resolution=r),
        days,
        st.sampled_from(["day", "hour", "minute", "second", "millisecond"]),
    ),
    st.builds(Identifier, st.one_of(st.booleans(), words.filter(bool))),
    st.builds(Text),
    st.builds(lambda b: Continuous(*b, integer=False), whole.filter(lambda b: float(b[0]) < float(b[1]))),
    st.builds(lambda cls, word, null: cls(bounds=word, nullable=null), st.sampled_from(BOUNDED), *UNSTATED),
    st.builds(lambda cls, word, null: cls(word, nullable=null), st.sampled_from([Nominal, Ordinal]), *UNSTATED),
    st.sampled_from(STATED),
)
names = st.one_of(words, st.integers(), st.tuples(st.text(), st.integers()))
schemas = st.dictionaries(names, kinds, min_size=1, max_size=4).map(Schema)


@given(schemas)
@settings(max_examples=60, deadline=None)
def test_every_schema_survives_yaml_json_and_pickles(schema):
    copies = [Schema(schema), Schema(dict(schema)), clone(MixedTypeEncoder(schema)).schema, pickle.loads(pickle.dumps(schema))]
    copies += [eval(repr(schema))] if "in all)" not in repr(schema) else []  # of many levels the first are shown
    for again in (Schema.from_yaml(schema.to_yaml()), Schema.from_json(schema.to_json()), *copies):
        assert again == schema
        assert repr(again) == repr(schema)  # 1, 1.0 and True are equal


def test_yaml_is_written_for_people():
    schema = Schema({"age": (17, 90), "born": ("1930-01-01", "2005-12-31"), "smokes": ["no", "yes"], "id": Identifier()})
    text = schema.to_yaml()
    assert "- name: age\n  kind: continuous\n  bounds: [17, 90]\n  integer: true\n" in text
    assert "  bounds: [1930-01-01, 2005-12-31]\n" in text
    assert "  levels: ['no', 'yes']\n" in text
    assert "TODO" not in text
    assert text.startswith("# ")


def test_what_is_open_is_marked_by_a_todo_in_its_line():
    text = Schema.skeleton({"age": "int64", "sex": "object", "day": "datetime64[D]"}).to_yaml()
    assert text.count("open  # TODO: ") == 3
    text = text.replace("bounds: open", "bounds: [0, 99]", 1).replace("levels: open", "levels: [f, m]")
    text = text.replace("bounds: open", "bounds: [2020-01-01, 2020-12-31]")
    assert Schema.from_yaml(text) == Schema({"age": (0, 99), "sex": ["f", "m"], "day": ("2020-01-01", "2020-12-31")})


SLIPS = {"reads": "read", "rule": "rules", "column": "columns"}


def test_wrong_yaml_is_refused_in_one_sentence():
    column = "columns:\n- name: a\n  kind: "
    for text, words in [
        (f"{column}continuous\n  bounds: [1", "cannot be read, in line"),
        (f"{column}date\n  bounds: [2020-02-30, 2021-01-01]\n", "cannot be read"),
        ("- a\n- b\n", "source must hold .*, got a list of 2; write"),
        (f"kolumns{column[7:]}text", "source must hold .*, got 'kolumns'; write"),
        (f"{column}continuous\n  bounds: [2020-01-01, 2021-01-01]\n", "bounds must be two numbers"),
        (f"{column}nominal\n  levels: [2020-01-01, 2021-01-01]\n", "levels must be strings"),
        (f"{column}continuous\n  bounds: [0, 1]\n  nulable: true\n", "'nulable' looks like 'nullable'"),
        *((f"{column}text\n{slip}: []\n", f"'{slip}' looks like '{meant}'") for slip, meant in SLIPS.items()),
        *((source, "source must be a file of YAML or its text") for source in (None, 3, {"columns": []})),
    ]:
        with pytest.raises(ValueError, match=rf"^[^\n]*{words}[^\n]*\.$"):
            Schema.from_yaml(text)
    date = Schema.from_yaml(f"{column}date\n  bounds: [2020-01-01, 2020-12-31]\n  missing: [1900-01-01]\n")["a"]
    assert date.missing == ("1900-01-01",)
    assert Schema.from_yaml(f"{column}text\ntitle: a table\n") == Schema({"a": Text()})
    # The words of YAML that are no texts are levels that are none either.
    assert Schema.from_yaml(f"{column}nominal\n  levels: [no, yes, maybe]\n")["a"].levels == (False, True, "maybe")


def test_without_pyyaml_the_way_out_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ImportError, match=r"pip install 'skdpsynth\[yaml\]'"):
        Schema({"a": (0, 1)}).to_yaml()


def test_codes_that_begin_with_zero_are_text_in_yaml_and_not_octal():
    text = "columns:\n- {name: a, kind: nominal, levels: [01067, 01099, 12:30]}\n- {name: b, kind: continuous, bounds: [-1_000, +10]}\n"
    schema = Schema.from_yaml(text)
    assert schema == Schema({"a": ["01067", "01099", "12:30"], "b": (-1000, 10)})
    assert Schema.from_yaml(schema.to_yaml()) == schema


FRAME = pd.DataFrame(
    {
        "age": [4711, 4712],
        "pay": [4711.5, 1.0],
        "sex": ["secret", "m"],
        "ok": [True, False],
        "seen": pd.to_datetime(["2099-01-01", "2099-01-02"]),
        "grade": pd.Categorical(["secret", "b"], ordered=True),
        "wait": pd.to_timedelta([4711, 1]),
    }
)
EXPECTED = {
    "age": Continuous(bounds="open", integer=True),
    "pay": Continuous(bounds="open"),
    "sex": Nominal("open"),
    "ok": Nominal([False, True]),
    "seen": DateTime(bounds="open"),
    "grade": Nominal("open"),
    "wait": Duration(bounds="open"),
}


TABLES = {
    "frame": lambda path: FRAME,
    "empty": lambda path: FRAME.iloc[:0],
    "dtypes": lambda path: dict(FRAME.dtypes),
    "arrow": lambda path: FRAME.convert_dtypes(dtype_backend="pyarrow").astype({"grade": "category"}),
    "polars": lambda path: pl.from_pandas(FRAME),
    "lazy": lambda path: pl.from_pandas(FRAME).lazy(),
    "schema": lambda path: dict(pl.from_pandas(FRAME).schema),
    "table": lambda path: pa.Table.from_pandas(FRAME),
    "pyarrow": lambda path: pa.Table.from_pandas(FRAME).schema,
    "reader": lambda path: pa.Table.from_pandas(FRAME).to_reader(),
    "batch": lambda path: pa.RecordBatch.from_pandas(FRAME),
    "parquet": lambda path: FRAME.to_parquet(path / "a.parquet") or path / "a.parquet",
    "glob": lambda path: FRAME.to_parquet(path / "a.parquet") or str(path / "*.parquet"),
    "folder": lambda path: FRAME.to_parquet(path / "a.parquet") or path,
    "index": lambda path: FRAME.set_index(pd.Index([5, 7], name="row")).to_parquet(path / "a.parquet") or path,
    "scanner": lambda path: pa.dataset.dataset(pa.Table.from_pandas(FRAME.assign(more=1))).scanner(columns=list(FRAME)),
}


@pytest.mark.parametrize("make", TABLES.values(), ids=TABLES)
def test_skeletons_have_the_columns_and_kinds_of_a_table_and_nothing_of_its_rows(make, tmp_path):
    source = make(tmp_path)
    schema = Schema.skeleton(source)
    assert schema == Schema(EXPECTED)
    assert list(schema) == list(EXPECTED)
    text = schema.to_yaml() + schema.to_json() + repr(schema)
    assert not any(word in text for word in ("secret", "4711", "2099"))


def test_skeleton_of_a_parquet_file_reads_its_metadata_alone(tmp_path):
    FRAME.to_parquet(tmp_path / "a.parquet")
    content = (tmp_path / "a.parquet").read_bytes()
    length = int.from_bytes(content[-8:-4], "little")
    rows = len(content) - length - 8
    (tmp_path / "a.parquet").write_bytes(b"PAR1" + bytes(rows - 4) + content[rows:])  # rows are gone, metadata are there
    assert Schema.skeleton(tmp_path / "a.parquet") == Schema(EXPECTED)


CSV = """age,pay,share,sex,ok,born,seen,empty,postcode
4711,4711.5,0.5,secret,true,2099-01-01,2099-01-01 10:00:00,,01067
0,NA,0,m,false,,2099-01-02,,89000
"""
CSV_KINDS = {name: EXPECTED[name] for name in ("age", "pay", "sex", "ok", "seen")} | {"born": Date(bounds="open"), "share": EXPECTED["pay"]}
CSV_KINDS |= {"empty": Nominal("open"), "postcode": Nominal("open")}  # digits after a zero are those of a code


def test_skeletons_of_csv_files_have_their_headers_and_kinds_and_take_the_paths_that_a_fit_takes(tmp_path, monkeypatch):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "b.csv").write_text(CSV)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(CSV.encode()))
    (tmp_path / "semicolons.csv").write_text(CSV.replace(",", ";"), encoding="utf-8-sig")
    (tmp_path / "tabs.csv").write_text(CSV.replace(",", "\t"))
    monkeypatch.setenv("HOME", str(tmp_path))
    for path in (tmp_path / "folder", tmp_path / "a.csv.gz", "~/folder/b.csv", tmp_path / "semicolons.csv", tmp_path / "tabs.csv"):
        schema = Schema.skeleton(path)
        assert dict(schema) == CSV_KINDS
        assert not any(word in schema.to_yaml() for word in ("secret", "4711", "2099"))


def test_what_has_no_columns_is_refused_in_one_sentence(tmp_path):
    for name, content in [("a.xls", b"secret"), ("a.parquet", b"secret"), ("a.csv", b"a,a\nsecret,1"), ("b.csv", b"")]:
        (tmp_path / name).write_bytes(content)
    for source, error, words in [
        (tmp_path / "no.csv", FileNotFoundError, "source must be a table or the path of one, but there is no file "),
        (tmp_path / "*.tsv", FileNotFoundError, "source must be a table or the path of one, but no file matches "),
        (tmp_path / "a.xls", ValueError, "by its suffix one of [^\n]*a.xls'"),
        (tmp_path / "a.parquet", ValueError, "must be whole Parquet files"),
        (tmp_path / "a.csv", ValueError, "distinct column names"),
        (tmp_path / "b.csv", ValueError, "CSV files in UTF-8 whose first line names the columns"),
        (3.5, ValueError, "Expected 2D array"),
        (np.array(["secret"]), ValueError, "Expected 2D array"),
        (None, TypeError, "source must be a table, got None"),
    ]:
        with pytest.raises(error, match=rf"^[^\n]*{words}[^\n]*\.$") as caught:
            Schema.skeleton(source)
        assert "secret" not in str(caught.value)
    for read in (Schema.from_json, Schema.from_yaml):
        with pytest.raises(FileNotFoundError, match=r"a file or its text, but there is no file .*nofile\.txt"):
            read("nofile.txt")


@pytest.mark.parametrize("write", ["to_json", "to_yaml"])
def test_a_file_that_was_filled_in_is_overwritten_on_request_alone(write, tmp_path):
    path = tmp_path / "people"
    skeleton, filled = Schema.skeleton({"age": "int64"}), Schema({"age": (0, 120)})
    getattr(skeleton, write)(path)
    getattr(skeleton, write)(path)  # the same again loses nothing
    getattr(filled, write)(path, overwrite=True)
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match=r"path must be a new file, but .* holds something else"):
        getattr(skeleton, write)(str(path))
    assert path.read_bytes() == before
