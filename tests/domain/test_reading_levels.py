"""Levels are read by the dictionaries of each library as they are cell by cell."""

import contextlib

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from internals import Codes, cells_of, look_up, read_levels

from skdpsynth.domain import Nominal, Schema
from skdpsynth.frames import split_columns
from skdpsynth.tables import read_columns

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


NUMBERS = ["int8", "uint8", "int64", "uint64", "float16", "float32", "float64", "bool", "Int64", "UInt8", "Float32", "Float64", "boolean"]
NUMBERS += ["int64[pyarrow]", "uint64[pyarrow]", "double[pyarrow]", "float[pyarrow]", "bool[pyarrow]"]
numbers = st.one_of(
    st.integers(-3, 300),
    st.sampled_from([0.1, 0.5, -0.7, 1e30, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), True, False, 1.0, -0.0, 65504]),
    st.floats(allow_nan=False, allow_infinity=False),
)


@pytest.mark.parametrize("dtype", NUMBERS)
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
    short = {"float16": np.float16, "float32": np.float32, "Float32": np.float32, "float[pyarrow]": np.float32}.get(dtype)
    if short is not None:
        with np.errstate(all="ignore"):
            codes.update({short(level).item(): code for level, code in codes.items() if not isinstance(level, str)})
    return look_up(cells_of(column), codes)


def test_chunks_of_arrow_are_read_as_the_frame_of_pandas_that_samples_come_back_in():
    frame = pd.DataFrame({"a": ["x", "y", None, "x"], "b": [1.0, 2.0, None, 4.0], "c": pd.to_datetime(["2020-01-02"] * 4)})
    schema = Schema({"a": Nominal(["y", "x"], nullable=True), "b": (0, 9), "c": ("2020-01-01", "2020-12-31")})
    expected = [column.tolist() for column in read_columns(split_columns(frame)[1], schema, split_columns(frame)[0].dtypes)]
    for chunk in (pa.Table.from_pandas(frame), pa.RecordBatch.from_pandas(frame), pl.from_pandas(frame)):
        table, raw = split_columns(chunk)
        assert [column.tolist() for column in read_columns(raw, schema, table.dtypes)] == expected
