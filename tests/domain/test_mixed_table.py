"""How columns of a mixed table are read, and written back in the caller's kind of table."""

import datetime
import decimal
import math
import pickle
import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sources import Evil, again, matched, values_of

from skdpsynth.domain import Continuous, Date, DateTime, Identifier, MixedTypeEncoder, Nominal, Ordinal, Schema
from skdpsynth.tables import read_columns


def cells(column):
    """A column as a list, None where missing."""
    return [None if pd.isna(cell) else cell for cell in column.to_list()]


def of_objects(column):
    """Rows of objects in an array: numpy must not look into them."""
    X = np.empty((len(column), 1), dtype=object)
    for i, cell in enumerate(column):
        X[i, 0] = cell
    return X


DATE, TIME = Date("2020-01-01", "2021-12-31"), DateTime("2020-01-01", "2021-12-31T23:59:59")
ZONED = DateTime("2020-01-01T00:00+00:00", "2021-12-31T23:59:59+00:00")
# Strange cells


class Liar:
    """Has the hash of a level, and an error for who compares."""

    __float__ = __eq__ = Evil.refuse

    def __hash__(self):
        return hash("a")


class Huge:
    """Overflows, and cannot be compared."""

    __gt__ = __lt__ = Evil.refuse

    def __float__(self):
        raise OverflowError("secret")


class Deprecated:
    def __float__(self):
        warnings.warn("secret", DeprecationWarning, stacklevel=2)
        return 9.0

    def __hash__(self):
        warnings.warn("secret", RuntimeWarning, stacklevel=2)
        return 1


NAN = math.nan
# cell: the number it stands for in [0, 10], NaN if none.
NUMBERS = {
    "nan": (math.nan, NAN),
    "NA": (pd.NA, NAN),
    "NaT": (pd.NaT, NAN),
    "inf": (math.inf, 10),
    "-inf": (-math.inf, 0),
    "1e300": (1e300, 10),
    "huge": (10**400, 10),
    "-huge": (-(10**400), 0),
    "huge fraction": (Fraction(-(10**400)), 0),
    "huge decimal": (decimal.Decimal("1e4000"), 10),
    "snan": (decimal.Decimal("sNaN"), NAN),
    "fraction": (Fraction(7, 1), 7),
    "True": (True, 1),
    "uint64": (np.uint64(2**64 - 1), 10),
    "longdouble": (np.longdouble(4), 4),
    "0d": (np.array(4.0), 4),
    "text of a number": ("4", 4),
    "long text": ("9" * 5000, 10),
    "text": ("secret", NAN),
    "null byte": ("1\0", NAN),
    "surrogate": ("\ud800", NAN),
    "bytes": (b"secret", NAN),
    "list": ([1], NAN),
    "array": (np.array([1.0, 2.0]), NAN),
    "frame": (pd.DataFrame({"a": [1]}), NAN),
    "masked": (np.ma.masked, NAN),
    "complex": (1 + 2j, NAN),
    "timestamp": (pd.Timestamp("2020-01-01"), NAN),
    "class": (Evil, NAN),
    "evil": (Evil(), NAN),
    "liar": (Liar(), NAN),
    "Huge": (Huge(), NAN),
    "number that warns": (Deprecated(), NAN),  # its code is not run: the warning would be the process's
}
strange = pytest.mark.parametrize(("cell", "number"), NUMBERS.values(), ids=NUMBERS)


@strange
def test_every_cell_of_a_column_of_numbers_and_of_levels_has_its_place(cell, number):
    for X in (
        of_objects([cell, 3, "a"]),
        pd.DataFrame(of_objects([cell, 3, "a"]), dtype=object),
        [[cell], [3], ["a"]],
        ((cell,), (3,), ("a",)),
    ):
        with warnings.catch_warnings(), np.errstate(all="raise"):
            warnings.simplefilter("error")
            plain, nullable = (values_of(X, {0: Continuous(0, 10, nullable=null)})[0] for null in (False, True))
            level, missing = (values_of(X, {0: Nominal(["b", "a"], nullable=null)})[0] for null in (False, True))
        np.testing.assert_array_equal(nullable, [number, 3, NAN])
        np.testing.assert_array_equal(plain, [5 if math.isnan(number) else number, 3, 5])
        np.testing.assert_array_equal(level, [0, 0, 1])
        np.testing.assert_array_equal(missing, [2, 2, 1])


def test_reading_leaves_the_warning_filters_of_the_process_alone(monkeypatch):
    with_objects = pd.DataFrame({"a": [1, None, "x"], "b": ["u", b"v", Deprecated()]}, dtype=object)
    for X in (with_objects, pd.DataFrame({"a": [0.5, np.inf], "b": pd.Categorical(["u", "v"])}), pl.DataFrame({"a": [1], "b": ["u"]})):
        with monkeypatch.context() as patch:
            patch.setattr(warnings, "catch_warnings", None)  # it is not safe in threads
            values_of(X, {"a": (0, 9), "b": ["u", "v"]})


def test_levels_are_found_whatever_type_or_text_they_come_in_but_an_equal_text_first():
    for levels, column, codes in [
        ([0, 1, 2], [2, 1, 0], [2, 1, 0]),
        ([0, 1, 2], [2.0, 1.0, 0.0], [2, 1, 0]),
        ([0, 1, 2], [np.int8(2), True, False], [2, 1, 0]),
        ([0, 1, 2], [np.float64(2), np.True_, 0], [2, 1, 0]),
        ([0, 1, 2], [Fraction(2), 1, decimal.Decimal(0)], [2, 1, 0]),
        ([0, 1], ["1", "1.0", " 0 ", "true", "FALSE", "x", "", "0x1", "1,0", 1], [1, 1, 0, 1, 0, 2, 2, 2, 2, 1]),
        ([1, "1", 2], ["1", 1, "2"], [1, 0, 2]),
        ([2**53, 2**53 + 1], [str(2**53 + 1)], [1]),
    ]:
        np.testing.assert_array_equal(values_of(of_objects(column), {0: Nominal(levels, nullable=True)})[0], codes)


LEVELS = [0.1, 0.2, 1 / 3, 1e30, -0.7]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "Float32", "Float64"])
@pytest.mark.parametrize("category", [False, True])
def test_levels_are_found_in_columns_that_round_them(dtype, category):
    levels = [level for level in LEVELS if abs(level) < 6e4 or dtype != "float16"]
    column = pd.Series(levels).astype(dtype)
    column = column.astype("category") if category and dtype != "float16" else column  # pandas has no categories of float16
    got = values_of(pd.DataFrame({"a": column}), {"a": Nominal(levels, nullable=True)})[0]
    np.testing.assert_array_equal(got, np.arange(len(levels)))
    for order in "<>" * (not category and dtype[0] == "f"):
        X = np.array([levels]).T.astype(np.dtype(dtype).newbyteorder(order))
        np.testing.assert_array_equal(values_of(X, {0: Nominal(levels, nullable=True)})[0], np.arange(len(levels)))


ARRAYS = dict.fromkeys(
    ["int8", "int64", "uint8", "uint64", "float16", "float32", "float64", "bool", ">i4"], ([0, 1, 1], [Continuous(0, 1), [0, 1]])
)
ARRAYS |= dict.fromkeys(
    [f"M8[{unit}]" for unit in ("D", "h", "s", "ms", "us", "ns")], (["2020-01-01", "2020-02-29", "2021-12-31"], [DATE, TIME])
)
ARRAYS["U1"] = ["a", "b", "b"], [["a", "b"], ["b", "a"]]


@pytest.mark.parametrize("dtype", ARRAYS)
def test_array_comes_back_as_it_was(dtype):
    cells, kinds = ARRAYS[dtype]
    X = np.array([cells, cells[::-1]]).T.astype(dtype)
    out = again(X, dict(enumerate(kinds)))
    assert type(out) is np.ndarray
    assert out.dtype == X.dtype
    np.testing.assert_array_equal(out, X)


def test_array_with_missing_cells_becomes_one_of_floats_by_a_public_rule():
    X = np.array([[1, 2], [3, 4]])
    for kinds in ({0: Continuous(0, 9, nullable=True), 1: (0, 9)}, {0: (0, 9), 1: Nominal([2, 4], nullable=True)}):
        out = again(X, kinds)
        assert out.dtype == float
        np.testing.assert_array_equal(out, X)


DAYS = (datetime.date(2020, 1, 1), datetime.date(2020, 2, 29), datetime.date(2021, 12, 31))
TIMES = (datetime.datetime(2020, 1, 1, 0, 0, 1), datetime.datetime(2020, 2, 29, 23, 59, 59), datetime.datetime(2021, 12, 31, 12))
ZONED_TIMES = tuple(time.replace(tzinfo=datetime.UTC) for time in TIMES)
TEMPORAL = {DAYS: DATE, TIMES: TIME, ZONED_TIMES: ZONED}
INTS, FLOATS, FLAGS, TEXTS = (0, 5, 100), (0.0, 0.5, 100.0), (False, True, True), ("x", "y", "z")
WHOLE = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
DTYPES = {
    "pandas": {
        **dict.fromkeys([*WHOLE, "Int8", "Int64", "UInt8", "UInt64"], INTS),
        **dict.fromkeys(["float16", "float32", "float64", "Float32", "Float64"], FLOATS),
        **dict.fromkeys(["bool", "boolean"], FLAGS),
        **dict.fromkeys(["string", "object", "category", *["str"] * (str(pd.Series(["a"]).dtype) == "str")], TEXTS),
        **dict.fromkeys(["date32[day][pyarrow]", "date64[ms][pyarrow]", "object of dates"], DAYS),
        **dict.fromkeys([*(f"datetime64[{unit}]" for unit in ("s", "ms", "us", "ns")), "timestamp[us][pyarrow]", "object of times"], TIMES),
        **dict.fromkeys(["datetime64[us, Europe/Berlin]", "datetime64[ns, UTC+01:00]", "object of zoned times"], ZONED_TIMES),
        "timestamp[ns, tz=Europe/Berlin][pyarrow]": ZONED_TIMES,
    },
    "polars": {
        **dict.fromkeys([pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt32, pl.UInt64], INTS),
        **dict.fromkeys([pl.Float32, pl.Float64], FLOATS),
        pl.Boolean: FLAGS,
        **dict.fromkeys([pl.String, pl.Categorical, pl.Enum(TEXTS)], TEXTS),
        **dict.fromkeys(map(pl.Datetime, ("ms", "us", "ns")), TIMES),
        pl.Datetime("us", "Europe/Berlin"): ZONED_TIMES,
        pl.Date: DAYS,
    },
    "arrow": {
        **dict.fromkeys(["int8", "int64", "uint8", "uint64"], INTS),
        **dict.fromkeys(["float", "double"], FLOATS),
        "bool": FLAGS,
        **dict.fromkeys(["string", "large_string", "dictionary"], TEXTS),
    },
}


def frame_of(library, dtype, told):
    if library == "polars":
        return pl.DataFrame({"a": pl.Series(told).cast(dtype)})
    if library == "pandas":
        if dtype.endswith("[pyarrow]"):
            pytest.importorskip("pyarrow")
        return pd.DataFrame({"a": pd.Series(told, dtype=dtype.split(" of ")[0])})
    pa = pytest.importorskip("pyarrow")
    kind = pa.dictionary(pa.int8(), pa.string()) if dtype == "dictionary" else pa.type_for_alias(dtype)
    return pd.DataFrame({"a": pd.array(told, dtype=pd.ArrowDtype(kind))})


@pytest.mark.parametrize("null", [False, True])
@pytest.mark.parametrize(("library", "dtype"), [(library, dtype) for library in DTYPES for dtype in DTYPES[library]], ids=str)
def test_columns_come_back_with_their_dtype(library, dtype, null):
    if library == "pandas" and null and dtype in [*WHOLE, "bool"]:
        return  # which hold no missing cells
    told = DTYPES[library][dtype]
    frame = frame_of(library, dtype, [*told, *[None] * null])
    is_time = told in TEMPORAL
    kinds = [replace(TEMPORAL[told], nullable=null) if is_time else Nominal(list(dict.fromkeys(told)), nullable=null)]
    if not is_time and told is not TEXTS and not (library == "pandas" and (null or dtype == "bool")):
        kinds.append(Continuous(0, 1 if told is FLAGS else 100, nullable=null, integer=told is not FLOATS))
    for kind in kinds:
        out = again(frame, {"a": kind})["a"]
        back = {"object": pd.Series(["a"]).dtype, "uint64": np.dtype("int64")} if library == "pandas" else {}  # inferred from cells
        assert out.dtype == back.get(dtype, frame["a"].dtype)
        assert cells(out) == cells(frame["a"])
        assert not is_time or [*map(type, out)] == [*map(type, frame["a"])]
        if is_time and library == "polars":
            pytest.importorskip("pyarrow")
            assert again(frame.to_arrow(), {"a": kind}).equals(frame.to_arrow())


INFERRED = {
    "numbers": [[1, 2, 3], [1, 2, None], [1, 2, "x"], ["1", "2", "3"], [1.5, 2, 3], [True, False, True], [True, None, False]],
    "words": [["a", "b", "a"], ["a", "b", None], ["a", 1, 2.5], ["a", True, "b"]],
}
LISTS = [[0, 1, 2, 3], [0.5, 1, 2, 3], [False, True]]
KINDS = {
    "numbers": [Continuous(0, 9), Continuous(0.0, 9.0), *map(Nominal, LISTS), Ordinal([1, 2, 3]), Identifier(labels=True)],
    "words": [Nominal(["a", "b"]), Nominal(["a", 1]), Ordinal(["a", "b"]), Identifier(labels="P")],
}


@pytest.mark.parametrize("nullable", [False, True])
@pytest.mark.parametrize(("what", "kind"), [(what, kind) for what, kinds in KINDS.items() for kind in kinds], ids=repr)
def test_what_comes_back_to_pandas_does_not_follow_from_dtypes_that_cells_made(what, kind, nullable):
    schema = {"a": replace(kind, nullable=nullable) if hasattr(kind, "nullable") else kind, "b": (0, 1)}
    frames_of = [pd.DataFrame({"a": column, "b": [0.0, 0.5, 1.0]}) for column in INFERRED[what]]
    tables = [matched(frame, schema)[0] for frame in frames_of]
    assert len({table.dtypes for table in tables}) == 1
    outs = [table.fill(([] if isinstance(kind, Identifier) else [np.zeros(2, dtype=np.int64)]) + [np.zeros(2)]) for table in tables]
    for out in outs:
        pd.testing.assert_frame_equal(out, outs[0])


# In pandas an integer column is one of floats where a cell is missing: all of these come back alike.
NULLABLE = {"int64": "Int64", "int8": "Int64", "uint8": "Int64", "uint64": "Int64", "bool": "Int64", "float64": "Int64"}
NULLABLE |= {"float32": "float32", "Int16": "Int16", "Float32": "Float32", "boolean": "boolean"}


@pytest.mark.parametrize(("dtype", "expected"), NULLABLE.items())
@pytest.mark.parametrize("kind", [Continuous(0, 1, nullable=True), Nominal([0, 1], nullable=True)], ids=["numbers", "levels"])
def test_nullable_column_of_pandas_gets_a_dtype_that_holds_missing_cells(dtype, expected, kind):
    table, _ = matched(pd.DataFrame({"a": pd.array([0, 1]).astype(dtype)}), kind)
    gone = np.nan if isinstance(kind, Continuous) else 2
    for column in ([0, 1, gone], [0, 1, 1]):  # whether or not there are any
        out = table.fill([np.array(column)])["a"]
        assert str(out.dtype) == expected
        assert cells(out) == [0, 1, None if column[2] is gone else 1]


def test_ordinal_column_of_pandas_comes_back_ordered_as_the_schema_says():
    for column in (
        ["mid", "low"],
        pd.Categorical(["mid", "low"]),
        pd.Categorical(["mid", "low"], categories=["high", "mid", "low"], ordered=True),
        pd.Categorical(["mid", "low"], categories=["mid", "low", "zzz"], ordered=True),
        pd.array(["mid", "low"], dtype="string"),
        pd.Series(["mid", "low"], dtype=object),
    ):
        out = again(pd.DataFrame({"a": column}), {"a": Ordinal(["low", "mid", "high"])})["a"]
        assert out.dtype == pd.CategoricalDtype(["low", "mid", "high"], ordered=True)
        assert out.tolist() == ["mid", "low"]


SECRETS = ["secret-1", "secret-2", "x", "y"]
FRAMES = {
    "category": pd.DataFrame({"a": pd.Categorical(["x", "y"], categories=SECRETS)}),
    "ordered": pd.DataFrame({"a": pd.Categorical(["x", "y"], categories=SECRETS, ordered=True)}),
    "Enum": pl.DataFrame({"a": pl.Series(["x", "y"], dtype=pl.Enum(SECRETS))}),
    "Categorical": pl.DataFrame({"a": ["x", "secret-1"]}, schema={"a": pl.Categorical}),
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
@pytest.mark.parametrize("kind", [["y", "x"], Ordinal(["y", "x"]), Nominal(["x", "y"], nullable=True)], ids=repr)
def test_categories_of_the_input_leak_neither_into_the_output_nor_into_pickles(frame, kind):
    table, raw = matched(frame, kind)
    assert b"secret" not in pickle.dumps(table)
    out = table.fill(read_columns(raw, table.schema, table.dtypes))["a"]
    if isinstance(frame, pd.DataFrame):
        assert list(out.cat.categories) == list(Schema({"a": kind})["a"].levels)
        assert out.cat.ordered == isinstance(kind, Ordinal)
        assert b"secret" not in pickle.dumps(out)
    elif isinstance(out.dtype, pl.Enum):
        assert out.dtype.categories.to_list() == list(Schema({"a": kind})["a"].levels)
    assert out.dtype != frame["a"].dtype or str(out.dtype).startswith("Categorical")


@pytest.mark.parametrize("levels", [[1, 500], [0.5, 1.5], [1, -1], [0.5, 1]], ids=str)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "bool", "Int8", "boolean", "float32"])
@pytest.mark.parametrize("null", [False, True])
def test_levels_that_the_dtype_cannot_hold_come_back_all_the_same(levels, dtype, null):
    frame = pd.DataFrame({"a": pd.array([1, 1], dtype=dtype)})
    others = [frame] if dtype[0] in "IB" else [frame, frame.to_numpy(), pl.DataFrame({"a": frame["a"].to_numpy()})]
    for X in others:
        table, _ = matched(X, Nominal(levels, nullable=null))
        out = table.fill([np.array([0, 1, 2] if null else [0, 1])])
        column = pd.Series(out[:, 0]) if isinstance(out, np.ndarray) else out["a"]
        assert cells(column) == [*levels, *[None] * null]


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8", "uint64", "Int8", "Float32"])
def test_numbers_beyond_a_dtype_are_the_last_that_it_can_hold(dtype):
    frame = pd.DataFrame({0: pd.array([1, 2], dtype=dtype)})
    plain = [frame.to_numpy(), pl.DataFrame({"0": frame[0].to_numpy()})] if dtype[0] not in "IF" and dtype != "float16" else []
    for X in (frame, *plain):
        table, _ = matched(X, (-1e300, 1e300))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            out = np.asarray(table.fill([np.array([-1e300, 0, 1e300])])).astype(float)[:, 0]
        assert np.isfinite(out).all()
        assert out[0] <= out[1] == 0 < out[2]


# Refusals
UNFIT = [
    (["secret"], [0, 1], "not all strings"),
    (["secret"], ["a", 1], "not all strings"),
    ([1], ["a", "b"], "not all numbers"),
    ([1.5], ["a", 1], "not all numbers"),
    ([True], ["no", "yes"], "not all numbers"),
    (TIMES, ZONED, "no time zone, unlike its bounds"),
    (ZONED_TIMES, TIME, "has a time zone, unlike its bounds"),
    (ZONED_TIMES, DATE, "a day depends on the time zone"),
    ([1, 2], DATE, "is Date in schema, but has dtype [Ii]nt64"),
    (pl.Series([1.5]), TIME, "is DateTime in schema, but has dtype Float64"),
    (TIMES, (0, 1), r"say Date\(low, high\)"),
    (TIMES, ["a", "b"], r"say Date\(low, high\)"),
    (pl.Series(DAYS), Nominal([1, 2]), r"say Date\(low, high\)"),
    (pd.Series(pd.to_timedelta([1])), (0, 1), r"say Duration\(low, high\)"),
    (pl.Series([datetime.timedelta(1)]), DATE, r"say Duration\(low, high\)"),
    (pd.Series(pd.period_range("2020", periods=1)), DATE, "to_timestamp"),
    (pd.Series(pd.interval_range(0, 1)), (0, 1), "two ends"),
    (pd.Series(pd.arrays.SparseArray([1.0])), (0, 1), "dense"),
    (pd.Series(pd.arrays.SparseArray(["secret", "x"], fill_value="secret", dtype=object)), ["a", "b"], "dense"),
    (pl.Series([[1]]), (0, 1), "parts"),
    (pl.Series([datetime.time(1)]), (0, 1), r"say TimeOfDay\(\)"),
    (pl.Series([b"x"]), ["a", "b"], "decode"),
    (pd.Series(np.array([1j])), (0, 1), "complex128"),
    (pl.Series([{"secret": 1}]), ["a", "b"], "Struct"),
    (pl.Series(["secret"], dtype=pl.Enum(["secret", "x"])), [1, 2], "not all "),
]


@pytest.mark.parametrize(("column", "kind", "words"), UNFIT)
def test_a_dtype_that_does_not_fit_its_kind_is_refused_with_the_way_out(column, kind, words):
    of_pandas = pd.Series(column, dtype="string" if isinstance(column[0], str) else None) if isinstance(column, list | tuple) else column
    for each in (of_pandas, pl.Series(column)) if column is not of_pandas else (column,):
        frame = pl.DataFrame({"a": each}) if isinstance(each, pl.Series) else pd.DataFrame({"a": each})
        with pytest.raises(TypeError, match=rf"^column 'a' [^\n]*{words}[^\n]*\.$") as caught:
            values_of(frame, {"a": kind})
        assert "secret" not in str(caught.value)


def test_floats_that_pandas_infers_may_be_words_that_are_all_missing_and_declared_ones_may_not(tmp_path):
    """A table of pandas without a word is one of floats, so an error would tell of its cells; a file declares its dtypes."""
    schema = {"g": Nominal(["x", "y"], nullable=True), "d": Date("2020-01-01", "2020-12-31", nullable=True)}
    empty = pd.DataFrame({"g": [np.nan] * 3, "d": [np.nan] * 3})
    words = pd.DataFrame({"g": ["x", "y", "x"], "d": ["2020-01-01"] * 3})
    encoded = MixedTypeEncoder(schema).fit_transform([empty, words])
    np.testing.assert_array_equal(encoded[:, 2], [1, 1, 1, 0, 0, 0])
    np.testing.assert_array_equal(MixedTypeEncoder(schema).fit_transform(empty)[:, 2], 1)
    pytest.importorskip("pyarrow")
    pl.DataFrame({"g": [0.5], "d": ["2020-01-01"]}).write_parquet(tmp_path / "x.parquet")
    with pytest.raises(TypeError, match="not all numbers"):
        MixedTypeEncoder(schema).fit(tmp_path / "x.parquet")
