"""Synthetic rows come back in the caller's kind of table."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest

from skdpsynth.frames import TableKind
from skdpsynth.tables import TableFormat

ROWS = np.array([[0.2, 3.7, -1.4], [0.9, 100.2, 250.6], [0.5, -0.4, 7.5]])


NUMPY = ["float64", "float32", "float16", "int64", "int32", "int8", "uint8", "uint64", "bool"]
PANDAS = ["float64", "float32", "int64", "int16", "uint8", "bool", "Int64", "UInt8", "Float64", "Float32", "boolean"]
POLARS = [pl.Float64, pl.Float32, pl.Int64, pl.Int8, pl.UInt8, pl.UInt64, pl.Boolean]


def test_tables_come_back_with_their_names_and_dtypes():
    for dtype in NUMPY:
        filled = TableFormat(TableKind.of(np.zeros((5, 3), dtype=dtype))).fill(ROWS)
        assert (type(filled), filled.dtype, filled.shape) == (np.ndarray, dtype, ROWS.shape)
    plain = pd.DataFrame({"first": [0, 1], "second": [0.5, 1.5], "third": pd.array([1, 0], dtype="int8")}, index=[7, 8])
    for dtype in PANDAS:
        X = plain.assign(first=pd.array([0, 1], dtype=dtype))
        filled = TableFormat(TableKind.of(X)).fill(ROWS)
        pd.testing.assert_series_equal(filled.dtypes, X.dtypes)
        assert len(filled) == len(ROWS)
        assert not filled.isna().any(axis=None)
    for dtype in POLARS:
        X = pl.DataFrame(plain.to_dict("list")).with_columns(pl.col("first").cast(dtype))
        filled = TableFormat(TableKind.of(X)).fill(ROWS)
        assert isinstance(filled, pl.DataFrame)
        assert (filled.schema, len(filled)) == (X.schema, len(ROWS))


def test_pandas_column_without_numbers_comes_back_as_floats():
    for column in (["x", "y"], pd.Categorical(["x", "y"]), pd.to_datetime(["2020-01-01", "2020-01-02"])):
        X = pd.DataFrame({"a": column, "b": [1, 2]})
        assert TableFormat(TableKind.of(X)).fill(ROWS[:, :2]).dtypes.tolist() == [np.dtype(float), np.dtype("int64")]


def test_whole_number_is_the_nearest_that_the_dtype_can_hold():
    expected = np.array([[0, 4, 0], [1, 100, 251], [0, 0, 8]])
    bytes_ = np.zeros((1, 3), dtype=np.uint8)
    for X in (bytes_, pd.DataFrame(bytes_), pd.DataFrame(bytes_).astype("UInt8"), pl.DataFrame(bytes_)):
        np.testing.assert_array_equal(np.asarray(TableFormat(TableKind.of(X)).fill(ROWS)), expected)
    limits = np.array([[-1e30], [1e30]])
    for dtype in (np.int8, np.int64, np.uint64):
        filled = TableFormat(TableKind.of(np.zeros((1, 1), dtype=dtype))).fill(limits)
        assert filled[0, 0] == np.iinfo(dtype).min
        assert float(np.iinfo(dtype).max) - float(filled[1, 0]) <= 2048  # to the last float below


def test_boolean_is_the_nearer_of_the_two():
    truth = np.ones((1, 1), dtype=bool)
    for X in (truth, pd.DataFrame(truth), pd.DataFrame(truth).astype("boolean"), pl.DataFrame(truth)):
        np.testing.assert_array_equal(np.asarray(TableFormat(TableKind.of(X)).fill(ROWS[:, :1])), [[False], [True], [True]])


def test_container_holds_no_rows():
    for make in (np.asarray, pd.DataFrame, pl.DataFrame):
        small, large = (pickle.dumps(TableFormat(TableKind.of(make(np.random.default_rng(0).random((n, 3)))))) for n in (1, 5000))
        assert small == large


# Bounds that a dtype cannot hold


def box_of(X, bounds):
    return TableFormat(TableKind.of(X)).box(bounds)


def test_bounds_of_which_the_dtype_can_hold_no_number_are_refused_by_public_facts():
    some = [
        ("uint8", (-5, -1)),
        ("int8", (128, 300)),
        ("int64", (0.2, 0.8)),
        ("bool", (0.2, 0.8)),
        ("bool", (2, 3)),
        ("float16", (1e5, 1e6)),
    ]
    tables = [(np.zeros((3, 2), dtype=dtype), bounds) for dtype, bounds in some]
    tables += [(pd.DataFrame(X), bounds) for X, bounds in tables if X.dtype != "float16"]  # which comes back as float64
    for X, bounds in [*tables, (pl.DataFrame(np.zeros((3, 2))).cast(pl.UInt8), (-5, -1))]:
        with pytest.raises(ValueError, match=r"^bounds of column [^\n]* must hold a number that its dtype, \w+, can hold, [^\n]*\.$"):
            box_of(X, bounds)


@pytest.mark.parametrize(
    ("dtype", "bounds"), [("uint8", (-5, 3.5)), ("int8", (-500, 500)), ("int64", (0.2, 1.8)), ("bool", (0.5, 7)), ("float16", (-1e9, 1e9))]
)
def test_samples_of_bounds_that_the_dtype_holds_in_part_lie_within_both(dtype, bounds):
    X = np.zeros((3, 1), dtype=dtype)
    box = box_of(X, bounds)
    rows = np.linspace(box.low, box.high, 99)
    filled = TableFormat(TableKind.of(X)).fill(box.clip(rows)).astype(float)
    assert np.isfinite(filled).all()
    assert filled.min() >= bounds[0]
    assert filled.max() <= bounds[1]


def test_box_of_a_container_is_that_of_its_bounds_columns_and_whole_numbers():
    X = pd.DataFrame({"a": [1, 2], "b": [0.5, 1.5]})
    box = TableFormat(TableKind.of(X)).box({"b": (0, 1), "a": (0, 9)}, bits=20)
    assert (box.low.tolist(), box.high.tolist(), box.bits, box.whole.tolist()) == ([0, 0], [9, 1], 20, [True, False])
