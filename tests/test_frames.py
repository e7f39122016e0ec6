"""Data frames in, data frames out: kind, names and dtypes."""

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pytest
from estimators import all_estimators
from laws import refuses
from sklearn import config_context

from skdpsynth import LatentFactorSynthesizer, PrivateMeasureMechanism
from skdpsynth.domain import MixedTypeEncoder

pytestmark = pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.SmallSampleWarning")
# Tables that are refused
each_class = pytest.mark.parametrize("cls", [*all_estimators(), MixedTypeEncoder])
in_bounds = pytest.mark.parametrize("cls", [cls for cls in all_estimators() if cls is not LatentFactorSynthesizer])
WAY_OUT = "Drop or fill those rows, or give LatentFactorSynthesizer a schema whose column is nullable."


@in_bounds
def test_missing_and_infinite_cells_are_refused_in_the_same_short_words(cls):
    X = np.full((5, 2), 0.5)
    model = cls().fit(X)
    for cell, word in [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")]:
        X[3, 1] = cell
        for table, finite in itertools.product((X, pd.DataFrame(X), pl.DataFrame(X), pd.DataFrame(X, dtype="Float64")), (False, True)):
            with config_context(assume_finite=finite), pytest.raises(ValueError) as caught:  # noqa: PT011  the whole message follows
                cls().fit(table)
            assert str(caught.value) == f"Input X contains {word}. {WAY_OUT}"
        with config_context(assume_finite=True):
            for call in methods_of(model):
                refuses(ValueError, f"contains {word}", call, X)


def methods_of(model):
    """Whatever reads a table after fit."""
    return [getattr(model, name) for name in ("score", "score_samples", "transform", "partial_fit") if hasattr(model, name)]


@each_class
def test_masked_arrays_are_refused_by_every_estimator(cls):
    X = np.ma.array(np.full((20, 2), 0.5), mask=np.eye(20, 2))
    model = cls().fit(np.full((20, 2), 0.5))
    for masked in (X, X.astype(object), list(X)):
        for call in (cls().fit, *methods_of(model)):
            refuses(TypeError, r"^X must not be a masked array, [^\n]*\.$", call, masked)


@each_class
def test_column_names_that_occur_twice_are_refused_in_one_sentence(cls):
    X = np.full((60, 2), 0.5)
    model, twice = cls().fit(pd.DataFrame(X, columns=["a", "b"])), pd.DataFrame(X, columns=["a", "a"])
    for call in (cls().fit, *methods_of(model)):
        refuses(ValueError, r"^X must have distinct column names, but one occurs twice; rename the columns\.$", call, twice)


NO_TABLES = {
    "path": ("data.parquet", "no file 'data.parquet'; correct the path"),
    "none": (None, "got None"),
    "lazy texts": (pl.LazyFrame({"a": ["secret"]}), "LatentFactorSynthesizer" if hasattr(pl.LazyFrame, "collect_batches") else "collect"),
    "no columns": (pd.DataFrame(index=[1, 2]), "0 feature"),
    "dates": (pd.DataFrame({"a": pd.to_datetime(["2020-01-01"])}), "days since"),
    "array of dates": (np.array([["2020-01-01"]], dtype="M8[D]"), "days since"),
    "periods": (pd.DataFrame({"a": pd.period_range("2020", periods=2)}), "to_timestamp"),
    "durations": (pd.DataFrame({"a": pd.to_timedelta([1])}), "total seconds"),
    "intervals": (pd.DataFrame({"a": pd.interval_range(0, 1)}), "two ends"),
    "structs": (pl.DataFrame({"a": [{"x": 1}]}), "columns of their own"),
    "dict": ({"a": ["secret"]}, "make a data frame of it"),
    "sparse": (pd.DataFrame({"a": pd.arrays.SparseArray([1.0])}), "make it dense"),
    "texts": (pd.DataFrame({"a": ["secret"]}), "LatentFactorSynthesizer"),
    "object": ([[object()]], "LatentFactorSynthesizer"),
    "dicts": ([{"a": "secret"}], "LatentFactorSynthesizer"),
    "Int128": (pl.DataFrame({"a": pl.Series([1], dtype=pl.Int128)}) if hasattr(pl, "Int128") else None, "64 bits|got None"),
}


@pytest.mark.parametrize(("X", "words"), NO_TABLES.values(), ids=NO_TABLES)
def test_what_is_no_table_of_numbers_is_refused_in_one_sentence_with_a_way_out(X, words):
    with pytest.raises((TypeError, ValueError, OSError), match=rf"^X [^\n]*({words})[^\n]*\.$") as caught:
        PrivateMeasureMechanism().fit(X)
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_cells_that_are_no_numbers_are_a_type_error_in_every_kind_of_table():
    X = [["secret"], ["x"]]
    for table in (X, np.array(X), np.array(X, dtype=object), pd.DataFrame(X), pd.DataFrame(X, dtype=object), pl.DataFrame(X)):
        with pytest.raises(TypeError, match=r"^X must hold numbers only[^\n]*LatentFactorSynthesizer[^\n]*\.$"):
            PrivateMeasureMechanism().fit(table)


@pytest.mark.parametrize("strategy", ["adaptive", "optimal", "paper"])
def test_dice_stay_fair(strategy):
    """20,000 throws of d dice at epsilon 20, seeded: each face within 0.02 of 1/6 (rounding points of a real cell would miss by 0.05)."""
    for d in (1, 3):
        throws = np.random.default_rng(0).integers(1, 7, (20_000, d))
        sample = PrivateMeasureMechanism(strategy, epsilon=20, bounds=(1, 6), random_state=0).fit(throws).sample(random_state=0)
        assert np.abs(np.bincount(sample[:, 0], minlength=7)[1:] / len(sample) - 1 / 6).max() < 0.02
