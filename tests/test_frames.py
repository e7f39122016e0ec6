"""Data frames in, data frames out: kind, names and dtypes."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from estimators import all_estimators
from sklearn import config_context

from skdpsynth import LatentFactorSynthesizer, OnlineSynthesizer, PrivateMeasureMechanism, PrivatePCA
from skdpsynth.domain import MixedTypeEncoder

pytestmark = pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.SmallSampleWarning")
COLUMNS = {"age": (0, 120), "income": (0, 1e5), "score": (-1, 1)}


def columns(n=200):
    rng = np.random.default_rng(0)
    return {"age": rng.integers(0, 121, n), "income": rng.uniform(0, 1e5, n), "score": rng.uniform(-1, 1, n).astype(np.float32)}


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_frames_and_arrays_release_the_same(kind):
    data = columns()
    array = np.column_stack([np.asarray(column, dtype=float) for column in data.values()])
    low, high = np.array(list(COLUMNS.values()), dtype=float).T
    from_frame = PrivatePCA(bounds=COLUMNS, random_state=0).fit(kind(data))
    from_array = PrivatePCA(bounds=(low, high), random_state=0).fit(array)
    assert np.allclose(from_frame.covariance_, from_array.covariance_)


# Tables that are refused

each_class = pytest.mark.parametrize("cls", [*all_estimators(), MixedTypeEncoder])
in_bounds = pytest.mark.parametrize("cls", [cls for cls in all_estimators() if cls is not LatentFactorSynthesizer])
WAY_OUT = "Drop or fill those rows, or give LatentFactorSynthesizer a schema whose column is nullable."


@in_bounds
@pytest.mark.parametrize(("cell", "word"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
@pytest.mark.parametrize("make", [np.asarray, pd.DataFrame, pl.DataFrame, lambda X: pd.DataFrame(X, dtype="Float64")])
def test_missing_and_infinite_cells_are_refused_in_the_same_short_words(cls, cell, word, make):
    X = np.full((5, 2), 0.5)
    X[3, 1] = cell
    with pytest.raises(ValueError) as caught:  # noqa: PT011  the whole message follows
        cls().fit(make(X))
    assert str(caught.value) == f"Input X contains {word}. {WAY_OUT}"


@in_bounds
def test_missing_cells_are_refused_also_where_scikit_learn_assumes_that_there_are_none(cls):
    X = np.full((50, 2), 0.5)
    model, bad = cls().fit(X), np.where(np.eye(50, 2) > 0, np.nan, X)
    with config_context(assume_finite=True):
        for call in (cls().fit, *(getattr(model, name) for name in ("transform", "inverse_transform", "score") if hasattr(model, name))):
            with pytest.raises(ValueError, match="contains NaN"):
                call(bad)


@each_class
@pytest.mark.parametrize("wrap", [lambda X: X, lambda X: X.astype(object), list], ids=["numbers", "objects", "list"])
def test_masked_arrays_are_refused_by_every_estimator(cls, wrap):
    X = np.ma.array(np.full((20, 2), 0.5), mask=np.eye(20, 2))
    with pytest.raises(TypeError, match=r"^X must not be a masked array, [^\n]*\.$"):
        cls().fit(wrap(X))
    model = cls().fit(np.full((20, 2), 0.5))
    with pytest.raises(TypeError, match=r"^X must not be a masked array"):
        (model.score if hasattr(model, "score") else model.transform)(wrap(X))


@pytest.mark.parametrize("cls", [PrivatePCA, PrivateMeasureMechanism, OnlineSynthesizer, MixedTypeEncoder])
def test_column_names_that_occur_twice_are_refused_in_one_sentence_everywhere(cls):
    X = np.full((20, 2), 0.5)
    model, twice = cls().fit(pd.DataFrame(X, columns=["a", "b"])), pd.DataFrame(X, columns=["a", "a"])
    for name in ("fit", "partial_fit", "transform", "score"):
        if hasattr(model, name):
            with pytest.raises(ValueError, match=r"^X must have distinct column names, but one occurs twice; rename the columns\.$"):
                getattr(model, name)(twice)


class Raises:
    """An object whose own error tells a secret."""

    def __float__(self):
        raise RuntimeError("secret")


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
    "object": ([[Raises()]], "LatentFactorSynthesizer"),
    "dicts": ([{"a": "secret"}], "LatentFactorSynthesizer"),
    "Int128": (pl.DataFrame({"a": pl.Series([1], dtype=pl.Int128)}) if hasattr(pl, "Int128") else None, "64 bits|got None"),
}


@pytest.mark.parametrize(("X", "words"), NO_TABLES.values(), ids=NO_TABLES)
def test_what_is_no_table_of_numbers_is_refused_in_one_sentence_with_a_way_out(X, words):
    with pytest.raises((TypeError, ValueError, OSError), match=rf"^X [^\n]*({words})[^\n]*\.$") as caught:
        PrivateMeasureMechanism().fit(X)
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None or caught.value.__suppress_context__


@pytest.mark.parametrize(
    "make",
    [np.array, lambda X: np.array(X, dtype=object), list, pd.DataFrame, lambda X: pd.DataFrame(X, dtype=object), pl.DataFrame],
    ids=["array", "objects", "list", "pandas", "pandas objects", "polars"],
)
def test_cells_that_are_no_numbers_are_a_type_error_in_every_kind_of_table(make):
    with pytest.raises(TypeError, match=r"^X must hold numbers only[^\n]*LatentFactorSynthesizer[^\n]*\.$"):
        PrivateMeasureMechanism().fit(make([["secret"], ["x"]]))


@pytest.mark.parametrize("strategy", ["adaptive", "optimal", "paper"])
@pytest.mark.parametrize("d", [1, 3])
def test_dice_stay_fair(strategy, d):
    """20,000 throws of d dice at epsilon 20, seeded: each face within 0.02 of 1/6 (rounding points of a real cell would miss by 0.05)."""
    throws = np.random.default_rng(0).integers(1, 7, (20_000, d))
    sample = PrivateMeasureMechanism(strategy, epsilon=20, bounds=(1, 6), random_state=0).fit(throws).sample(random_state=0)
    shares = np.bincount(sample[:, 0], minlength=7)[1:] / len(sample)
    assert np.abs(shares - 1 / 6).max() < 0.02
