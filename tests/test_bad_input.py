"""What is no value of a parameter is refused in a sentence of our own, whatever it is, before any budget is spent."""

import datetime
import decimal
import dis
import enum
import fractions
import math
import os
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
import sklearn
from estimators import all_estimators

import skdpsynth
from skdpsynth import PrivacyAccountant

pytestmark = pytest.mark.filterwarnings("ignore")
X = np.random.default_rng(0).random((40, 2))
OURS = tuple(os.path.dirname(module.__file__) for module in (skdpsynth, sklearn))
SECRET = "cell of a row"


class Refusing:
    """An object all of whose methods fail, as those of others may."""

    def __repr__(self):
        raise RuntimeError(SECRET)

    __str__ = __repr__

    def __float__(self):
        raise KeyError(SECRET)

    def __len__(self):
        raise RuntimeError(SECRET)


class One(enum.IntEnum):
    ONE = 1


JUNK = {
    "None": None,
    "True": True,
    "-1": -1,
    "0": 0,
    "nan": math.nan,
    "-inf": -math.inf,
    "10**400": 10**400,
    "-10**400": -(10**400),
    "5e-324": 5e-324,
    "word": "x",
    "empty word": "",
    "long word": "x" * 5000,
    "lines": "a\nb",
    "bytes": b"x",
    "empty list": [],
    "list": [1, 0],
    "words": ["a", None],
    "dict": {"a": 1},
    "set": {0, 1},
    "object": object(),
    "refusing": Refusing(),
    "class": int,
    "function": len,
    "enum": One.ONE,
    "0-d": np.array(1.0),
    "1-d": np.arange(3.0),
    "2-d": np.ones((3, 2)),
    "3-d": np.zeros((2, 2, 2)),
    "no rows": np.zeros((0, 2)),
    "objects": np.array([[SECRET, 1]], dtype=object),
    "complex": np.ones((2, 2)) * 1j,
    "masked": np.ma.masked_all((2, 2)),
    "records": np.zeros(3, dtype=[("a", int), ("b", float)]),
    "sparse": scipy.sparse.csr_matrix(np.eye(3)),
    "pandas": pd.DataFrame({"a": [SECRET]}),
    "series": pd.Series([1, 2]),
    "polars": pl.DataFrame({"a": [SECRET]}),
    "lazy": pl.LazyFrame({"a": [1]}),
    "NA": pd.NA,
    "NaT": pd.NaT,
    "decimal": decimal.Decimal("NaN"),
    "fraction": fractions.Fraction(1, 3),
    "span": np.timedelta64(1, "D"),
    "timedelta": datetime.timedelta(1),
    "date": datetime.date(2020, 1, 1),
    "longdouble": np.longdouble("1e-400"),
    "generator": np.random.default_rng(0),
    "path": Path("nowhere/x"),
    "accountant": PrivacyAccountant(1),
    "slice": slice(3),
    "ellipsis": ...,
}
CASES = [(cls, name) for cls in all_estimators() for name in cls().get_params(deep=False) if name != "accountant"]


def is_ours(error):
    """Whether an error was raised by a statement of this package or of scikit-learn, and not somewhere below."""
    place = error.__traceback__
    while place.tb_next:
        place = place.tb_next
    code = place.tb_frame.f_code
    return dis.opname[code.co_code[place.tb_lasti]] == "RAISE_VARARGS" and code.co_filename.startswith(OURS)


def refusal(model):
    """Return the error of a fit, or None."""
    try:
        model.fit(X)
    except Exception as error:
        return error
    return None


@pytest.mark.parametrize(("cls", "name"), CASES)
def test_a_parameter_takes_what_is_documented_or_refuses_it_in_a_sentence(cls, name):
    for words, value in JUNK.items():
        budget = PrivacyAccountant(1, 1e-3)
        error = refusal(cls(accountant=budget).set_params(**{name: value}))
        if error is not None:
            assert is_ours(error), f"{name}={words}: {error!r}"
            assert budget.spent == 0, words
            assert len(str(error)) < 700, words
            assert SECRET not in str(error), words
            assert "\n" not in str(error), words
