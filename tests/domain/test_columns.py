"""Columns of single kinds: levels are read as they are cell by cell, and numbers come back in the caller's kind of table."""

import contextlib
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from internals import Codes, cells_of, look_up, read_levels

from skdpsynth.domain import Nominal, Schema
from skdpsynth.frames import TableKind, split_columns
from skdpsynth.tables import TableFormat, read_columns

pa = pytest.importorskip("pyarrow")
words = st.one_of(st.sampled_from(["a", "b", "A", " a", "", "0", "nan", "None", "\0", "é", "é"]), st.text(max_size=3), st.none())
TEXTS = {
    "str": lambda cells: pd.DataFrame({"a": pd.array(cells, dtype="string")}),
    "python": lambda cells: pd.DataFrame({"a": pd.array(cells, dtype="string[python]")}),
    "arrow": lambda cells: pd.DataFrame({"a": pd.array(cells, dtype=pd.ArrowDtype(pa.string()))}),
    "dictionary": lambda cells: pd.DataFrame({"a": pd.array(cells, dtype=pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string())))}),
    "category": lambda cells: pd.DataFrame({"a": pd.Categorical(cells)}),
    "polars": lambda cells: pl.DataFrame({"a": pl.Series(cells, dtype=pl.String)}),
    "Categorical": lambda cells: pl.DataFrame({"a": pl.Series(cells, dtype=pl.Categorical)}),
    "pyarrow": lambda cells: pa.table({"a": pa.chunked_array([cells[:2], cells[2:]], pa.string())}),
    "pyarrow large": lambda cells: pa.table({"a": pa.array(cells, pa.large_string())}),
    "pyarrow dictionary": lambda cells: pa.table({"a": pa.chunked_array([cells[:3], cells[3:]], pa.string()).dictionary_encode()}),
    "dictionaries": lambda cells: pa.Table.from_batches(
        [pa.record_batch({"a": pa.array(part, pa.string()).dictionary_encode()}) for part in (cells[:3], cells[3:])]
    ),
}


@pytest.mark.parametrize("make", TEXTS.values(), ids=TEXTS)
@given(
    cells=st.lists(words, max_size=12), levels=st.lists(words.filter(lambda word: word is not None), min_size=2, max_size=5, unique=True)
)
@example(cells=["a", "b", None], levels=["\ud800", "a"])  # half of a surrogate pair, which libraries cannot look for
@settings(max_examples=25, deadline=None)
def test_texts_are_found_as_they_are_cell_by_cell(make, cells, levels):
    (table, raw), codes = split_columns(make(cells)), {level: code for code, level in enumerate(levels)}
    for null in (False, True):
        got = read_columns(raw, Schema({"a": Nominal(levels, nullable=null)}), table.dtypes)[0]
        assert got.dtype == np.int32
        assert got.tolist() == [codes.get(cell, len(levels) if null else 0) for cell in cells]


SHORT = {"float16": np.float16, "float32": np.float32, "Float32": np.float32, "float[pyarrow]": np.float32}
NUMBERS_OF = [*SHORT, "int8", "uint8", "int64", "uint64", "float64", "bool", "Int64", "UInt8", "Float64", "boolean"]
NUMBERS_OF += ["int64[pyarrow]", "uint64[pyarrow]", "double[pyarrow]", "bool[pyarrow]"]
numbers = st.one_of(
    st.integers(-3, 300),
    st.sampled_from([0.1, 0.5, -0.7, 1e30, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), True, False, 1.0, -0.0, 65504]),
    st.floats(allow_nan=False, allow_infinity=False),
)


@pytest.mark.parametrize("dtype", NUMBERS_OF)
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_numbers_are_found_as_they_are_cell_by_cell(dtype, data):
    levels = data.draw(st.lists(st.one_of(numbers, st.just("a")), min_size=2, max_size=6, unique=True))
    drawn = [*data.draw(st.lists(numbers, max_size=10)), *(level for level in levels if level != "a"), None]
    parts = []
    for cell in drawn:  # those that the dtype can hold
        with contextlib.suppress(ValueError, TypeError, OverflowError), np.errstate(all="ignore"):
            parts.append(pd.Series(pd.array([cell], dtype=dtype)))
    assume(parts)
    column = pd.concat(parts, ignore_index=True)
    assume(str(column.dtype) == dtype)
    kind = Nominal(levels, nullable=True)
    got = read_levels(column, kind, str(column.dtype))
    np.testing.assert_array_equal(got, slow(column, kind, dtype))
    if not column.isna().any() and isinstance(column.dtype, np.dtype) and dtype != "float16":
        frame = pl.DataFrame({"a": column.to_numpy()})
        np.testing.assert_array_equal(read_levels(split_columns(frame)[1][0], kind, str(frame["a"].dtype)), got)


def slow(column, kind, dtype):
    """By a dictionary of Python; a level counts as the nearest that a short float can hold."""
    codes = Codes(kind)
    if dtype in SHORT:
        with np.errstate(all="ignore"):
            codes.update({SHORT[dtype](level).item(): code for level, code in codes.items() if not isinstance(level, str)})
    return look_up(cells_of(column), codes)


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


def test_container_holds_no_rows():
    for make in (np.asarray, pd.DataFrame, pl.DataFrame):
        small, large = (pickle.dumps(TableFormat(TableKind.of(make(np.random.default_rng(0).random((n, 3)))))) for n in (1, 5000))
        assert small == large


def box_of(X, bounds):
    return TableFormat(TableKind.of(X)).box(bounds)


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
