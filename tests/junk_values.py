"""What somebody may hand to a function by mistake: values of every kind, made anew for each call, with secrets in their cells.

A secret stands wherever a private cell would: in tables, arrays and lists of rows. No message may quote one.
"""

import collections
import datetime
import decimal
import enum
import fractions
import io
import math
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import scipy.sparse

from skdpsynth import PrivacyAccountant, PrivateMeasureMechanism

WORD, NUMBER = "SECRET-7f3", 0.7303042
SECRETS = (WORD, str(NUMBER), "0.730304", "0.7303")


class _One(enum.IntEnum):
    ONE = 1


def _cyclic():
    cells = [1]
    cells.append(cells)
    return cells


def _frame(**more):
    return pd.DataFrame({"a": [NUMBER, 0.5, 0.25], "b": [WORD, "x", "y"], **more})


def _twice():
    return pd.DataFrame(np.full((3, 2), NUMBER), columns=["a", "a"])


def _read_only():
    rows = np.full((3, 2), NUMBER)
    rows.setflags(write=False)
    return rows


def _rows(dtype):
    return np.full((3, 2), NUMBER).astype(dtype)


def _plain(*values):
    """Values that nobody can change, by how they are shown."""
    return {f"{type(value).__name__} {value!r}"[:40]: lambda value=value: value for value in values}


_OF_NUMPY = (np.uint8(100), np.uint64(2**64 - 1), np.iinfo(np.int64).min)
_LONG = (np.float16(65504), np.longdouble("1e400"), np.longdouble("1e-400"), np.longdouble("nan"))
_TIMES = (datetime.timedelta(1), datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC), datetime.date(1, 1, 1), pd.Timestamp("2020-01-01"))
KINDS = {
    "nothing, flags": _plain(None, True, False, np.True_, NotImplemented, ..., pd.NA),
    "whole numbers": _plain(-1, 0, 1, 3, 2**31, 2**63, -(2**63), 10**400, -(10**400), *_OF_NUMPY, _One.ONE),
    "other numbers": {
        **_plain(math.nan, math.inf, -math.inf, 0.5, -0.0, 1e300, 5e-324, *_LONG),
        **_plain(1j, fractions.Fraction(1, 3), decimal.Decimal("1e999999"), decimal.Decimal("sNaN")),
    },
    "times": {
        **_plain(*_TIMES, np.timedelta64(1, "D"), np.datetime64("2020-01-01"), pd.NaT),
        "dates": lambda: np.array(["2020-01-01", "NaT"], dtype="M8[D]"),
        "index of dates": lambda: pd.date_range("2020-01-01", periods=3),
    },
    "words": {
        **_plain("x", "", "05", "x" * 5000, "a\nb", "a\0b", "\ud800", b"x", np.str_("x"), Path("nowhere/x")),
        "bytearray": lambda: bytearray(b"x"),
        "memoryview": lambda: memoryview(b"xy"),
        "StringIO": lambda: io.StringIO("x"),
    },
    "containers": {
        "empty list": lambda: [],
        "empty tuple": lambda: (),
        "list": lambda: [1, 0],
        "words": lambda: ["a", None],
        "rows": lambda: [[NUMBER, 1], [WORD, 2]],
        "ragged": lambda: [[NUMBER], [1, 2]],
        "deep": lambda: [[[[[WORD]]]]],
        "cyclic": _cyclic,
        "dict": lambda: {"a": 1},
        "empty dict": lambda: {},
        "dict of rows": lambda: {0: [NUMBER], "a": [WORD]},
        "set": lambda: {0, 1},
        "frozenset": lambda: frozenset(["a"]),
        "range": lambda: range(3),
        "iterator": lambda: iter([1, 2]),
        "generator": lambda: (x for x in (1, 2)),
        "deque": lambda: collections.deque([1]),
        "Counter": lambda: collections.Counter("aab"),
        "nested tuple": lambda: ((0, 1), (2, 3)),
        "odd pair": lambda: (None, object()),
    },
    "arrays": {
        "0-d": lambda: np.array(1.0),
        "no values": lambda: np.zeros(0),
        "1-d": lambda: np.arange(3.0) + NUMBER,
        "2-d": lambda: _rows(float),
        "3-d": lambda: np.full((2, 2, 2), NUMBER),
        "no rows": lambda: np.zeros((0, 2)),
        "no columns": lambda: np.zeros((3, 0)),
        "nan array": lambda: np.full((3, 2), np.nan),
        "inf array": lambda: np.array([[np.inf, -np.inf]]),
        "objects": lambda: np.array([[WORD, NUMBER]], dtype=object),
        "words array": lambda: np.array([[WORD, "x"]]),
        "bytes array": lambda: np.array([WORD.encode()]),
        "complex array": lambda: _rows(complex),
        "masked": lambda: np.ma.array(_rows(float), mask=[[0, 1]] * 3),
        "records": lambda: np.array([(1, NUMBER)], dtype=[("a", int), ("b", float)]),
        "booleans": lambda: np.ones((3, 2), dtype=bool),
        "uint8 array": lambda: np.arange(6, dtype=np.uint8).reshape(3, 2),
        "uint64 array": lambda: np.full((3, 2), 2**64 - 1, dtype=np.uint64),
        "float16 array": lambda: _rows(np.float16),
        "longdouble array": lambda: np.full((3, 2), np.longdouble("1e400")),
        "big endian": lambda: _rows(">f8"),
        "read only": _read_only,
        "matrix": lambda: np.asmatrix(np.full((2, 2), NUMBER)),
        "whole 2-d": lambda: np.arange(4).reshape(2, 2),
        "negative": lambda: np.array([-1, -(2**63)]),
        "sparse": lambda: scipy.sparse.csr_matrix(np.eye(3) * NUMBER),
        "sparse array": lambda: scipy.sparse.coo_array(np.eye(3) * NUMBER),
    },
    "frames": {
        "pandas": _frame,
        "one name twice": _twice,
        "empty frame": pd.DataFrame,
        "frame of dates": lambda: pd.DataFrame({"a": pd.date_range("2020", periods=3)}),
        "frame of NA": lambda: pd.DataFrame({"a": pd.array([1, None, 3], dtype="Int64"), "b": [None, NUMBER, 1.0]}),
        "categories": lambda: pd.DataFrame({"a": pd.Categorical([WORD, "x"])}),
        "levels of columns": lambda: pd.DataFrame(_rows(float), columns=pd.MultiIndex.from_tuples([("a", 1), ("b", 2)])),
        "numbers for names": lambda: pd.DataFrame(_rows(float)),
        "series": lambda: pd.Series([NUMBER, 2]),
        "series of words": lambda: pd.Series([WORD, None]),
        "index": lambda: pd.Index(["a", "b"]),
        "polars": lambda: pl.DataFrame({"a": [NUMBER], "b": [WORD]}),
        "polars series": lambda: pl.Series("a", [WORD]),
        "lazy": lambda: pl.LazyFrame({"a": [1]}),
        "arrow": lambda: pa.table({"a": [NUMBER], "b": [WORD]}),
        "arrow array": lambda: pa.array([WORD]),
    },
    "objects": {
        "object": object,
        "class": lambda: int,
        "own class": lambda: PrivateMeasureMechanism,
        "estimator": PrivateMeasureMechanism,
        "function": lambda: len,
        "lambda": lambda: lambda *_, **__: WORD,
        "module": lambda: math,
        "slice": lambda: slice(3),
        "lock": threading.Lock,
        "random generator": lambda: np.random.default_rng(0),
        "random state": lambda: np.random.RandomState(0),
        "accountant": lambda: PrivacyAccountant(1),
        "dtype": lambda: np.dtype(float),
        "exception": lambda: ValueError(WORD),
    },
}
# Which of them can be called: where a function is taken, its errors are its own.
CALLABLE = {"objects: class", "objects: own class", "objects: function", "objects: lambda"}
JUNK = {f"{kind}: {name}": make for kind, several in KINDS.items() for name, make in several.items()}
