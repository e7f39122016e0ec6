"""What the holder of a table is told when it is compared with its schema."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from skdpsynth.domain import Boolean, Continuous, Date, Identifier, Nominal, Ordinal, Schema, Text

frames = pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])


def found(frame, **kinds):
    return {(each.column, each.problem): each for each in Schema(kinds).check(frame)}


YEAR = Date("2020-01-01", "2020-12-31")
GAPS = {"a": [1.5, 2.5, None], "b": ["x", "y", None]}
FITS = {"a": [1, 2], "b": ["x", "y"], "c": [0.5, 1.5], "d": ["2020-01-01", "2020-02-01"], "id": ["p", "q"]}
TIMES = {"a": ["2019-01-01", "2020-06-01", "soon", None, "01.02.2020"]}
# Columns, what their schema says, and how many rows have which problem.
COUNTED = {
    "none": (FITS, {"a": (0, 9), "b": Ordinal(["x", "y"]), "c": (0.0, 9.0), "d": YEAR, "id": Identifier()}, {}),
    "outside": ({"a": [-1.0, 0.0, 5.0, 9.0, 99.0]}, {"a": (0.0, 9.0)}, {"a clipped": 2}),
    "missing": (GAPS, {"a": (0.0, 9.0), "b": ["x", "y"]}, {"a missing": 1, "b missing": 1}),
    "nullable": (GAPS, {"a": Continuous(0.0, 9.0, nullable=True), "b": Nominal(["x", "y"], nullable=True)}, {}),
    "constant": ({"a": [1, 1], "b": ["x", "x"]}, {"a": (0, 9), "b": ["x", "y"]}, {"a constant": 0, "b constant": 0}),
    "unknown": ({"a": ["inner", "surgery", "outer", "surgery"] * 10}, {"a": ["medicine", "surgery"]}, {"a unknown levels": 20}),
    "not whole": ({"a": [0.5, 1.0]}, {"a": (0, 9)}, {"a not whole": 1}),
    "times": (TIMES, {"a": YEAR}, {"a clipped": 1, "a no time": 2, "a missing": 1}),
}


@frames
@pytest.mark.parametrize(("columns", "kinds", "expected"), COUNTED.values(), ids=COUNTED)
def test_rows_that_do_not_fit_are_counted_by_column_and_problem(frame, columns, kinds, expected):
    assert {" ".join(key): each.rows for key, each in found(frame(columns), **kinds).items()} == expected


@frames
def test_a_level_that_is_misspelt_is_told_beside_the_one_that_is_meant(frame):
    near = found(frame({"a": ["yes", "no", " Yes", "YES", "maybe"]}), a=["Yes", "No"])
    assert near["a", "near miss"].rows == 4
    assert "'yes' against 'Yes'" in near["a", "near miss"].told
    assert near["a", "unknown levels"].rows == 1
    assert "'maybe'" in near["a", "unknown levels"].told
    assert found(frame({"a": ["no", "yes", None]}), a=Boolean(words=["no", "yes"]))["a", "missing"].told.endswith("'no', the first level.")


def test_columns_that_do_not_match_the_schema_are_told_and_not_refused():
    X = pd.DataFrame({"a": [1, 2], "b": ["x", "y"], "d": ["x", "y"], "e": [1, 2], "f": ["x", "y"]})
    out = found(X, a=["x", "y"], c=(0, 9), d=Text(), e=Continuous(bounds="open"), f=Nominal("private"), g=Identifier())
    told = [("a", "dtype"), ("c", "lacking"), ("d", "text"), ("e", "open"), ("b", "not in schema")]
    assert {key: each.rows for key, each in out.items()} == dict.fromkeys(told, 0)
    assert "not all numbers" in out["a", "dtype"].told
    assert "read the column as text" in out["a", "dtype"].told


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
