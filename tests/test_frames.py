"""Data frames in, data frames out: kind, names and dtypes."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

from skdpsynth import LowDimSynthesizer, PrivateMeasureMechanism, PrivatePCA

pytestmark = pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.SmallSampleWarning")
SYNTHESIZERS = [PrivateMeasureMechanism(), LowDimSynthesizer(2)]
COLUMNS = {"age": (0, 120), "income": (0, 1e5), "score": (-1, 1)}


def columns(n=200):
    rng = np.random.default_rng(0)
    return {
        "age": rng.integers(0, 121, n),
        "income": rng.uniform(0, 1e5, n),
        "score": rng.uniform(-1, 1, n).astype(np.float32),
    }


@pytest.mark.parametrize("synthesizer", SYNTHESIZERS)
def test_pandas_in_pandas_out(synthesizer):
    frame = pd.DataFrame(columns())
    model = clone(synthesizer).set_params(bounds=COLUMNS).fit(frame)
    sample = model.sample()
    assert isinstance(sample, pd.DataFrame)
    assert sample.dtypes.equals(frame.dtypes)
    assert len(sample) == len(frame)
    assert model.feature_names_in_.tolist() == list(COLUMNS)
    for name, (low, high) in COLUMNS.items():
        assert sample[name].between(low, high).all()


@pytest.mark.parametrize("synthesizer", SYNTHESIZERS)
def test_polars_in_polars_out(synthesizer):
    frame = pl.DataFrame(columns())
    model = clone(synthesizer).set_params(bounds=COLUMNS).fit(frame)
    sample = model.sample()
    assert isinstance(sample, pl.DataFrame)
    assert sample.schema == frame.schema
    assert len(sample) == len(frame)
    assert model.feature_names_in_.tolist() == list(COLUMNS)


def test_pandas_nullable_dtypes_come_back():
    frame = pd.DataFrame(columns()).astype({"age": "Int64", "income": "Float64"})
    sample = PrivateMeasureMechanism(bounds=COLUMNS).fit(frame).sample()
    assert sample.dtypes.equals(frame.dtypes)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.float32, np.float64])
def test_arrays_keep_their_dtype(dtype):
    X = np.random.default_rng(0).integers(0, 256, (300, 2)).astype(dtype)
    sample = PrivateMeasureMechanism(bounds=(0, 255)).fit(X).sample()
    assert sample.dtype == dtype
    assert sample.min() >= 0
    assert sample.max() <= 255


def test_lists_come_back_as_arrays_of_floats():
    sample = PrivateMeasureMechanism().fit([[0.1, 0.2], [0.3, 0.4]]).sample()
    assert sample.shape == (2, 2)
    assert sample.dtype == float


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_frames_and_arrays_release_the_same(kind):
    data = columns()
    array = np.column_stack([np.asarray(column, dtype=float) for column in data.values()])
    low, high = np.array(list(COLUMNS.values()), dtype=float).T
    from_frame = PrivatePCA(bounds=COLUMNS, random_state=0).fit(kind(data))
    from_array = PrivatePCA(bounds=(low, high), random_state=0).fit(array)
    assert np.allclose(from_frame.covariance_, from_array.covariance_)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_transform_follows_set_output(kind):
    frame = kind(columns())
    pca = PrivatePCA(2, bounds=COLUMNS).fit(frame)
    assert isinstance(pca.transform(frame), np.ndarray)
    out = clone(pca).set_output(transform="pandas").fit(frame).transform(frame)
    assert isinstance(out, pd.DataFrame)
    assert list(out.columns) == ["privatepca0", "privatepca1"]


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_columns_in_another_order_are_refused_after_fit(kind):
    frame = kind(columns())
    pca = PrivatePCA(2, bounds=COLUMNS).fit(frame)
    with pytest.raises(ValueError, match="feature names"):
        pca.transform(frame[["income", "age", "score"]])


@pytest.mark.parametrize("bounds", [{"age": (0, 1)}, {**COLUMNS, "weight": (0, 1)}])
def test_bounds_by_column_must_name_every_column_once(bounds):
    with pytest.raises(ValueError, match="bounds must name every column once"):
        PrivatePCA(bounds=bounds).fit(pd.DataFrame(columns()))


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_columns_of_text_are_refused_without_quoting_them(kind):
    with pytest.raises((TypeError, ValueError), match="X must hold numbers only") as caught:
        PrivateMeasureMechanism().fit(kind({"a": [0.1, 0.2], "b": ["secret-7", "x"]}))
    assert "secret" not in str(caught.value)


def test_missing_values_in_a_nullable_column_are_refused_with_the_static_sentence():
    frame = pd.DataFrame({"a": pd.array([0.5, None, 0.2], dtype="Float64"), "b": [0.1, 0.2, 0.3]})
    with pytest.raises(ValueError, match="contains NaN"):
        PrivateMeasureMechanism().fit(frame)


@pytest.mark.parametrize("strategy", ["adaptive", "optimal", "paper"])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_dice_stay_fair(strategy, d):
    """20,000 throws of d dice at epsilon 20: each face within 0.02 of 1/6 (rounding points of a real cell would miss by 0.05)."""
    throws = np.random.default_rng(0).integers(1, 7, (20_000, d))
    sample = PrivateMeasureMechanism(strategy, epsilon=20, bounds=(1, 6)).fit(throws).sample()
    shares = np.bincount(sample[:, 0], minlength=7)[1:] / len(sample)
    assert np.abs(shares - 1 / 6).max() < 0.02


@pytest.mark.parametrize("synthesizer", SYNTHESIZERS)
def test_whole_numbers_stay_within_bounds_that_are_none(synthesizer):
    X = np.random.default_rng(0).integers(0, 8, (500, 3))
    sample = clone(synthesizer).set_params(bounds=(0.2, 6.8)).fit(X).sample()
    assert set(np.unique(sample)) <= set(range(1, 7))


def test_booleans_keep_their_share():
    """5000 rows, a third true, epsilon 10: within 0.02."""
    X = np.random.default_rng(0).random((5000, 3)) < 1 / 3
    sample = PrivateMeasureMechanism(epsilon=10).fit(X).sample()
    assert sample.dtype == bool
    assert np.abs(sample.mean(axis=0) - X.mean(axis=0)).max() < 0.02
