"""CSV files: one record a line, each cell by itself, and nothing guessed."""

import random

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from internals import _csv, numbers_of, open_source, split_columns
from sklearn.base import clone

from skdpsynth import LatentFactorSynthesizer, PrivateMeasureMechanism
from skdpsynth.domain import Continuous, Nominal, Schema
from skdpsynth.federated import Site, Sites
from skdpsynth.frames import split_units
from skdpsynth.tables import open_columns

pytest.importorskip("pyarrow")

SCHEMA = Schema({"a": Continuous(0, 9), "b": ["x", "y"]})
MULTILINE = Schema(SCHEMA, read={"multiline": True})
RELATIONS = ("replace_one", "add_or_remove_one")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "f.csv"


def rows(path, body, schema=SCHEMA, relation="replace_one", header=b"a,b\n"):
    path.write_bytes(header + body)
    source = open_source(path, read=schema.read, skips_damaged=relation != "replace_one")
    found = []
    for chunk in source.chunks():
        numbers, words = numbers_of(split_columns(chunk)[1][0]).tolist(), chunk["b"].to_pylist()
        found += [(None if n != n else n, None if word in _csv.MISSING_WORDS else word) for n, word in zip(numbers, words, strict=True)]
    return found


MISSING = (None, None)
LINES = {
    b"1,x": (1.0, "x"),
    b'"1","x"': (1.0, "x"),
    b" 1 ,x": (1.0, "x"),
    b"+1,x": (1.0, "x"),
    b"true,x": (1.0, "x"),
    b"NA,NA": MISSING,
    b'"",""': MISSING,
    b"one,x": (None, "x"),
    b"1.000.000,x": (None, "x"),
    b'"1,5",x': (None, "x"),
    b'2" pipe,5" pipe': (None, '5" pipe'),
    b'"x"y,"x"y': (None, "xy"),
    b'"a ""b""","c,d"': (None, "c,d"),
    b"1,\xff": (1.0, None),
    b"1\r2,x": (None, "x"),
    b"1,x\0": (1.0, "x\0"),
}
DAMAGED = [b"", b"1", b"1,x,2", b'1,"x', b'"1,x', b'1,"x""', b"1," + b"x" * 500, b"\x80", b"\r"]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("line", LINES, ids=repr)
def test_each_cell_of_a_line_is_read_by_itself(line, end, path):
    assert rows(path, line + end) == [LINES[line]]
    assert rows(path, b"2,y" + end + line + end + b"3,x" + end) == [(2.0, "y"), LINES[line], (3.0, "x")]


@pytest.mark.parametrize("line", DAMAGED, ids=repr)
def test_a_damaged_line_is_left_out_or_missing_and_damages_no_other(line, path, monkeypatch):
    monkeypatch.setattr(_csv, "_LONGEST", 200)
    monkeypatch.setattr(_csv, "_BLOCK", 64)
    for body in (b"2,y\n" + line + b"\n3,x\n", b"2,y\n" + line + b"\n3,x"):
        assert rows(path, body) == [(2.0, "y"), MISSING, (3.0, "x")]
        assert rows(path, body, relation="add_or_remove_one") == [(2.0, "y"), (3.0, "x")]


PIECES = st.sampled_from([b"a", b"1", b'"', b'"', b",", b",", b" ", b"\r", b"\xff", "\u00e9".encode(), b"\0", b"\x0c", b"x" * 90])


@given(st.lists(st.lists(PIECES, max_size=8).map(b"".join), min_size=1, max_size=6), st.sampled_from(RELATIONS), st.integers(40, 400))
@settings(max_examples=40, deadline=None)
def test_the_records_of_a_file_are_those_of_each_line_by_itself(tmp_path_factory, lines, relation, block):
    path = tmp_path_factory.mktemp("lines") / "f.csv"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_csv, "_LONGEST", 150)
        patch.setattr(_csv, "_BLOCK", block)
        whole = rows(path, b"".join(line + b"\n" for line in lines), relation=relation)
        each = [row for line in lines for row in rows(path, line + b"\n", relation=relation)]
    assert repr(whole) == repr(each)


SEVERAL = [b'1,"x\ny"', b'"1\n\n","a""\nb"', b'1,"' + b"x\n" * 300 + b'"', b'"' + b"x" * 400 + b'\n1,x\n",y']
CLOSED = [record for record in (*LINES, *DAMAGED, *SEVERAL) if record.count(b'"') % 2 == 0]


@pytest.mark.parametrize(("some", "schema"), [([*LINES, *DAMAGED], SCHEMA), (CLOSED, MULTILINE)], ids=["lines", "multiline"])
def test_where_blocks_end_makes_no_difference(some, schema, path, monkeypatch):
    draw = random.Random(0)
    body = b"".join(draw.choice(some) + b"\n" for _ in range(400))
    monkeypatch.setattr(_csv, "_LONGEST", 300)
    expected = rows(path, body, schema)
    assert len(expected) == 400
    assert expected.count(MISSING) >= 30
    for block in (1, 7, 64, 1000):
        monkeypatch.setattr(_csv, "_BLOCK", block)
        assert rows(path, body, schema) == expected


def test_without_a_schema_all_columns_are_floats(path):
    path.write_text("a,b\n1,true\nx,2\n,inf\n")
    (chunk,) = open_source(path).chunks()
    numbers = [numbers_of(column).tolist() for column in split_columns(chunk)[1]]
    assert repr(numbers) == "[[1.0, nan, nan], [1.0, 2.0, inf]]"
    model = PrivateMeasureMechanism(bounds=(0, 9)).fit(path)
    assert list(map(str, model.sample(2).dtypes)) == ["float64", "float64"]


def test_the_column_of_units_is_text(path):
    path.write_text("id,b\n01,1\n1,2\nNA,3\n")
    (chunk,) = split_units(path, "id")[0].read_labeled()
    assert chunk[1] == ["01", "1", None]


def test_a_word_for_missing_cells_is_a_level_where_a_schema_says_so(path):
    schema = Schema({"a": ["NA", "x"], "b": ["x", "y"]})
    path.write_bytes(b"a,b\nNA,NA\nx,x\nnull,null\n")
    nullable = Schema({name: Nominal(kind.levels, nullable=True) for name, kind in schema.items()})
    assert [column.tolist() for column in open_columns(path, nullable).collect()] == [[0, 1, 2], [2, 0, 2]]


def test_cells_hold_line_breaks_only_where_a_schema_says_multiline(path):
    body = b'1,"x\ny"\n2,y\n3\n'
    assert rows(path, body) == [MISSING, MISSING, (2.0, "y"), MISSING]
    assert rows(path, body, MULTILINE) == [(1.0, "x\ny"), (2.0, "y"), MISSING]
    assert rows(path, body, MULTILINE, "add_or_remove_one") == [(1.0, "x\ny"), (2.0, "y")]


def test_a_mark_of_the_encoding_is_one_at_the_start_of_a_file_alone(path, monkeypatch):
    expected = rows(path, b"\xef\xbb\xbf1,x\n" * 50)
    assert expected == [(None, "x")] * 50
    for block in (5, 16, 64):
        monkeypatch.setattr(_csv, "_BLOCK", block)
        assert rows(path, b"\xef\xbb\xbf1,x\n" * 50) == expected
    assert rows(path, b"1,x\n", header=b"\xef\xbb\xbfa,b\r\n") == [(1.0, "x")]


def test_how_files_are_read_is_written_and_read_again_with_a_schema(tmp_path):
    for again in (Schema.from_json(MULTILINE.to_json()), Schema(MULTILINE), MULTILINE.arrange(["b", "a"])):
        assert again.read == {"multiline": True}
    assert MULTILINE != SCHEMA
    assert Schema(MULTILINE, read={"multiline": False}) == SCHEMA
    wrong = [{"separatr": ";"}, "multiline", {"multiline": 2}, {"separator": ";;"}, {"encoding": "utf-7"}, {"skip": -1}, {"columns": []}]
    for read in wrong:
        with pytest.raises(ValueError, match=r"^[^\n]*read must (be|have) [^\n]*, got [^\n]*\.$"):
            Schema({"a": (0, 1)}, read=read)


def test_a_site_reads_its_file_by_the_schema_that_was_agreed_on(path):
    schema = Schema({"code": ["01067", "20095"], "flag": ["true", "false"]})
    table = pd.DataFrame({"code": ["01067", "20095", "01067"] * 100, "flag": ["true", "false", "false"] * 100})
    table.to_csv(path, index=False)
    model = LatentFactorSynthesizer(schema, n_factors=1, epsilon=1.0, random_state=7)
    north, south = Site(path, schema=schema), Site(table, schema=dict(schema))
    fitted = model.fit(Sites({"north": north.answer, "south": south.answer}, head=table[:0]))
    expected = clone(model).fit(pd.concat([table, table]))
    assert all(np.array_equal(fitted.marginals_[key], counts) for key, counts in expected.marginals_.items())
