"""What the holder of a table is told when it is compared with its schema."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from skdpsynth.domain import Continuous, Date, DateTime, Identifier, Nominal, Ordinal, Schema, Text

frames = pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])


MISSING = [("a", "missing"), ("b", "missing")]


def found(frame, **kinds):
    return {(each.column, each.problem): each for each in Schema(kinds).check(frame)}


@frames
def test_numbers_outside_the_bounds_are_counted(frame):
    finding = found(frame({"a": [-1.0, 0.0, 5.0, 9.0, 99.0]}), a=(0.0, 9.0))["a", "clipped"]
    assert (finding.rows, finding.share) == (2, 0.4)


@frames
def test_missing_cells_are_counted_only_where_none_may_be_missing(frame):
    X = frame({"a": [1.5, None], "b": ["x", None]})
    for nullable in (False, True):
        out = found(X, a=Continuous(0.0, 9.0, nullable=nullable), b=Nominal(["x", "y"], nullable=nullable))
        assert {key: each.rows for key, each in out.items() if key[1] == "missing"} == ({} if nullable else dict.fromkeys(MISSING, 1))


@frames
def test_a_level_that_is_misspelt_is_told_beside_the_one_that_is_meant(frame):
    near = found(frame({"a": ["yes", "no", " Yes", "YES", "maybe"]}), a=["Yes", "No"])
    assert near["a", "near miss"].rows == 4
    assert "'yes' against 'Yes'" in near["a", "near miss"].told
    assert near["a", "unknown levels"].rows == 1
    assert "'maybe'" in near["a", "unknown levels"].told


@frames
def test_constant_columns_are_told(frame):
    assert {key[0] for key in found(frame({"a": [1, 1], "b": ["x", "x"], "c": [1, 2]}), a=(0, 9), b=["x", "y"], c=(0, 9))} == {"a", "b"}


def test_numbers_that_are_not_whole_or_none_at_all_are_counted():
    out = found(pd.DataFrame({"a": [0.5, 1.0], "b": np.array(["x", 2], dtype=object)}), a=(0, 9), b=(0, 9))
    assert out["a", "not whole"].rows == out["b", "no number"].rows == 1


@frames
def test_times_outside_the_bounds_and_texts_that_are_none_are_counted(frame):
    X = frame({"a": ["2019-01-01", "2020-06-01", "soon", None, "01.02.2020"]})
    out = found(X, a=Date("2020-01-01", "2020-12-31"))
    assert {problem: each.rows for (_, problem), each in out.items()} == {"clipped": 1, "no time": 2, "missing": 1}
    out = found(X.assign(a=pd.Timestamp("2019-01-01")), a=DateTime("2020-01-01", "2021-01-01")) if frame is pd.DataFrame else {}
    assert not out or out["a", "clipped"].rows == 5


def test_columns_that_do_not_match_the_schema_are_told_and_not_refused():
    X = pd.DataFrame({"a": [1, 2], "b": ["x", "y"], "d": ["x", "y"], "e": [1, 2], "f": ["x", "y"]})
    out = found(X, a=["x", "y"], c=(0, 9), d=Text(), e=Continuous(bounds="open"), f=Nominal("private"), g=Identifier())
    told = [("a", "dtype"), ("c", "lacking"), ("d", "text"), ("e", "open"), ("f", "private"), ("b", "not in schema")]
    assert {key: each.rows for key, each in out.items()} == dict.fromkeys(told, 0)
    assert "not all numbers" in out["a", "dtype"].told
    assert "read the column as text" in out["a", "dtype"].told


@frames
def test_a_table_that_fits_has_no_findings(frame):
    X = frame({"a": [1, 2], "b": ["x", "y"], "c": [0.5, 1.5], "d": ["2020-01-01", "2020-02-01"], "id": ["p", "q"]})
    kinds = {"a": (0, 9), "b": Ordinal(["x", "y"]), "c": (0.0, 9.0), "d": ("2020-01-01", "2020-12-31"), "id": Identifier()}
    assert len(Schema(kinds).check(X)) == 0


def test_an_array_and_a_table_without_rows_are_checked():
    assert {each.problem for each in Schema({0: (0, 9), 1: (0, 9)}).check(np.array([[1, 99], [2, 3]]))} == {"clipped"}
    assert len(Schema({"a": (0, 9), "b": ["x", "y"]}).check(pd.DataFrame({"a": [], "b": pd.array([], dtype="string")}))) == 0


@pytest.mark.parametrize("kind", ["csv", "chunks"])
def test_a_table_that_is_not_in_memory_is_checked_chunk_by_chunk(kind, tmp_path):
    if kind == "csv":
        pytest.importorskip("pyarrow")
    X = pd.DataFrame({"a": [1, 99, 3, 99], "b": ["x", "X", "y", "X"], "c": [1, 1, 2, 2]})
    X.to_csv(tmp_path / "a.csv", index=False)
    schema = Schema({"a": (0, 9), "b": ["x", "y"], "c": (0, 9)})
    source = tmp_path / "a.csv" if kind == "csv" else [X.iloc[:2], X.iloc[2:]]
    assert list(schema.check(source)) == list(schema.check(X))
    assert schema.check(source).n_samples == 4


def test_the_first_line_says_that_it_reads_the_rows():
    findings = Schema({"a": (0, 9), "b": ["x", "y"]}).check(pd.DataFrame({"a": [1, 9, 9, 99], "b": ["x", "y", "X", "x"]}))
    lines = repr(findings).splitlines()
    assert lines[0] == "Reads the rows unprotected: do not publish. 4 rows, 2 findings."
    assert lines[1] == "  'a': clipped (1 of 4 rows): outside the bounds (0, 9)."
    assert len(lines) == 3


def test_findings_are_a_data_frame_for_who_wants_one():
    findings = Schema({"a": (0, 9)}).check(pd.DataFrame({"a": [1, 99]}))
    frame = findings.to_frame()
    assert frame.columns.tolist() == ["column", "problem", "rows", "share", "told"]
    assert frame.loc[0, ["column", "problem", "rows", "share"]].tolist() == ["a", "clipped", 1, 0.5]
    assert len(Schema({"a": (0, 9)}).check(pd.DataFrame({"a": [1, 2]})).to_frame()) == 0


def test_bound_in_floats_of_32_bits_is_not_outside():
    frame = np.array([[1.1], [0.5]], dtype=np.float32)
    assert float(frame[0, 0]) > 1.1
    assert [each.problem for each in Schema({0: (0.0, 1.1)}).check(frame)] == []
    assert [each.problem for each in Schema({0: (0.0, 1.1)}).check(np.nextafter(frame, np.float32(9)))] == ["clipped"]
