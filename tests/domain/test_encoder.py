"""Mixed tables as points of a cube, and back."""

import math
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.utils.estimator_checks import parametrize_with_checks

from skdpsynth import PrivatePCA
from skdpsynth.domain import Continuous, MixedTypeEncoder, Nominal, Ordinal, Schema
from skdpsynth.persistence import load, save

pytestmark = pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.SmallSampleWarning")
SCHEMA = Schema(
    {
        "age": (17, 90),
        "pay": Continuous(0.0, 1e5, nullable=True),
        "school": Ordinal(["basic", "high", "college"], nullable=True),
        "rank": Ordinal([1, 2, 3]),
        "sex": ["f", "m"],
        "job": ["cook", "smith", "none"],
        "town": Nominal(["A", "B"], nullable=True),
        "code": Nominal([10, 20, 30], nullable=True),
    }
)
NAMES = ["age", "pay", "pay_missing", "school", "school_missing", "rank", "sex", "job_cook", "job_smith", "job_none"]
NAMES += ["town_A", "town_B", "town_missing", "code_10", "code_20", "code_30", "code_missing"]


def rows(n=50, seed=0):
    """Rows of the domain, and of what lies around it."""
    rng = np.random.default_rng(seed)
    pick = lambda *levels: rng.choice(np.array(levels, dtype=object), n)  # noqa: E731
    return pd.DataFrame(
        {
            "age": rng.integers(0, 120, n),
            "pay": np.where(rng.random(n) < 0.2, np.nan, rng.normal(5e4, 4e4, n)),
            "school": pd.Series(pick("basic", "high", "college", "unknown", None), dtype=object),
            "rank": rng.integers(0, 5, n),
            "sex": pd.Categorical(pick("m", "f")),
            "job": pd.array(pick("cook", "smith", "none", "?"), dtype="string"),
            "town": pd.Categorical(pick("B", "A", "secret", None)),
            "code": pd.array(pick(10, 20, 30, 40, None), dtype="Int16"),
        }
    )


def in_domain(table, schema):
    for name, kind in schema.items():
        column = table[name]
        gone = column.isna()
        assert kind.nullable or not gone.any(), name
        if isinstance(kind, Continuous):
            values = column[~gone].astype(float)
            assert values.between(kind.low, kind.high).all(), name
            assert not kind.integer or (values == values.round()).all(), name
        else:
            assert set(column[~gone]) <= set(kind.levels), name
            is_text = isinstance(kind.levels[0], str)
            assert not isinstance(kind, Ordinal) or column.dtype == (pd.CategoricalDtype(kind.levels, ordered=True) if is_text else "int64")


# Random schemas with rows of their domains
whole = st.tuples(st.integers(-(2**50), 2**50), st.integers(1, 2**49)).map(lambda told: (told[0], told[0] + told[1]))
real = st.tuples(st.floats(-1e9, 1e9), st.floats(1e-3, 1e9)).map(lambda told: (told[0], told[0] + told[1]))
levels = st.lists(st.one_of(st.text(max_size=3), st.integers(-9, 9), st.floats(-9, 9)), min_size=2, max_size=5, unique=True)
kinds = st.one_of(
    st.builds(lambda bounds, null: Continuous(*bounds, nullable=null), st.one_of(whole, real), st.booleans()),
    st.builds(lambda cls, told, null: cls(told, nullable=null), st.sampled_from([Nominal, Ordinal]), levels, st.booleans()),
)


def column_of(kind):
    if not isinstance(kind, Continuous):
        cells = st.sampled_from(kind.levels)
    else:
        cells = st.integers(kind.low, kind.high) if kind.integer else st.floats(kind.low, kind.high)
    return st.one_of(st.none(), cells) if kind.nullable else cells


@st.composite
def tables(draw):
    schema = Schema(dict(enumerate(draw(st.lists(kinds, min_size=1, max_size=5)))))
    rows = draw(st.lists(st.tuples(*map(column_of, schema.values())), min_size=1, max_size=8))
    X = np.empty((len(rows), len(schema)), dtype=object)
    for i, row in enumerate(rows):
        for j, cell in enumerate(row):
            X[i, j] = cell
    return schema, X


@given(tables())
@settings(max_examples=40, deadline=None)
def test_decoding_undoes_encoding_on_rows_of_the_domain(table):
    schema, X = table
    encoder = MixedTypeEncoder(schema).fit(X)
    Z = encoder.transform(X)
    assert 0 <= Z.min() <= Z.max() <= 1
    np.testing.assert_array_equal(Z, np.vstack([encoder.transform(X[i : i + 1]) for i in range(len(X))]))
    again = encoder.inverse_transform(Z)
    assert again.shape == X.shape
    for j, kind in schema.items():
        for cell, got in zip(X[:, j], again[:, j], strict=True):
            if cell is None:
                assert got is None or math.isnan(got)
            elif isinstance(kind, Continuous) and not kind.integer:
                assert got == pytest.approx(cell, rel=1e-12, abs=1e-15 * (kind.high - kind.low) + 1e-15 * abs(kind.low))
            else:
                assert got == cell


@given(seed=st.integers(0, 2**32), n=st.integers(1, 20))
@settings(max_examples=30, deadline=None)
def test_every_point_decodes_to_a_row_of_the_domain(seed, n):
    rng = np.random.default_rng(seed)
    encoder = MixedTypeEncoder(SCHEMA).fit(rows())
    points = rng.choice([rng.random((n, len(NAMES))), rng.integers(0, 2, (n, len(NAMES))), rng.normal(0, 1e3, (n, len(NAMES)))])
    in_domain(encoder.inverse_transform(points), SCHEMA)


def test_edges_of_numbers_are_met_exactly():
    for bounds in [(0.1, 0.7), (-1e-9, 1e9), (3, 2**53), (-(2**53), 5), (0.0, 5e-324), (-8e307, 8e307), (1.0, 1 + 2**-52)]:
        encoder = MixedTypeEncoder({0: bounds}).fit([[0.0]])
        low, within, high = encoder.inverse_transform([[0.0], [0.3], [1.0]])[:, 0]
        assert bounds[0] == low <= within <= high == bounds[1]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            np.testing.assert_array_equal(encoder.transform([[bounds[0]], [bounds[1]]]), [[0], [1]])


def test_fit_learns_nothing_from_the_rows():
    first, second = (MixedTypeEncoder(SCHEMA).fit(rows(n, seed)) for n, seed in ((50, 0), (500, 1)))
    assert pickle.dumps(first) == pickle.dumps(second)
    assert b"secret" not in pickle.dumps(second)
    Z = first.transform(rows())
    np.testing.assert_array_equal(second.transform(rows()), Z)
    pd.testing.assert_frame_equal(second.inverse_transform(Z), first.inverse_transform(Z))


def test_codes_of_a_row_by_hand():
    X = pd.DataFrame([[53, None, "high", 3, "m", "smith", None, 20]], columns=list(SCHEMA))
    expected = [36 / 73, 0.5, 1, 0.5, 0, 1, 1, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0]
    encoder = MixedTypeEncoder(SCHEMA).fit(X)
    np.testing.assert_array_equal(encoder.transform(X), [expected])
    for names in (None, list(SCHEMA)):
        assert encoder.get_feature_names_out(names).tolist() == NAMES
    with pytest.raises(ValueError, match=r"^input_features is not equal to feature_names_in_; [^\n]*\.$"):
        encoder.get_feature_names_out(list(SCHEMA)[::-1])


@parametrize_with_checks([MixedTypeEncoder()])
def test_scikit_learn_checks_pass_without_expected_failures(estimator, check):
    check(estimator)


def test_a_table_whose_code_would_not_fit_into_memory_is_refused_by_public_numbers():
    X = np.full((10_000, 1), "7", dtype=object)
    encoder = MixedTypeEncoder({0: [str(level) for level in range(100_000)]}).fit(X)
    with pytest.raises(ValueError, match=r"^X must have at most 5368 rows, [^\n]* 100000 columns, got 10000; [^\n]*\.$"):
        encoder.transform(X)
    assert encoder.transform(X[:3]).sum() == 3


@pytest.mark.parametrize(("dtype", "kind"), [("uint8", (-5, -1)), ("int32", (0.2, 0.8)), ("Int8", (200, 300)), ("boolean", (2, 3))])
def test_a_column_that_could_not_come_back_within_its_bounds_is_refused(dtype, kind):
    X = pd.DataFrame({"a": pd.array([1, 0], dtype=dtype)})
    with pytest.raises(
        TypeError, match=rf"^column 'a' has dtype {dtype.lower().removesuffix('ean')}, which can hold no number within its bounds"
    ):
        MixedTypeEncoder({"a": kind}).fit(X)
    for table in (X, pl.DataFrame({"a": X["a"].to_numpy()}), X.to_numpy()) if dtype[0].islower() and dtype != "boolean" else (X,):
        with pytest.raises(ValueError, match=r"^bounds of column ('a'|0) must hold a number that its dtype, \w+, can hold, [^\n]*\.$"):
            MixedTypeEncoder(bounds=kind).fit(table)
    MixedTypeEncoder({"a": kind}).fit(X.astype(object))


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("labels", [["a", "b"], [2020, 2021], [("a", "x"), ("a", "y")], [1.5, 2.5]], ids=str)
def test_other_columns_are_refused_after_fit(labels):
    X = pd.DataFrame([[1, 2], [3, 4]], columns=labels)
    encoder = MixedTypeEncoder(dict.fromkeys(X.columns, (0, 9))).fit(X)
    np.testing.assert_array_equal(encoder.transform(X), X.to_numpy() / 9)
    others = [X[X.columns[::-1]], X.set_axis([7, 8], axis=1), X.iloc[:, :1], X.to_numpy()[:, :1]]
    for other in others + [X.assign(more=1), X.rename(columns={"b": "B"})] * (labels == ["a", "b"]):
        with pytest.raises(ValueError, match=r"feature|columns"):
            encoder.transform(other)


def test_inverse_transform_quotes_no_point_that_it_refuses():
    X = pd.DataFrame({"a": [0.1, 0.2], "b": [0.3, 0.4]})
    points = [np.array([0.12345, 0.5]), np.array(0.12345), np.array([["secret"]]), [["secret"]], pd.DataFrame({"a": ["secret"]})]
    points += [pl.DataFrame({"a": ["secret"]}), np.array([[0.12345, np.nan]]), np.array([[0.12345, 0.5, 0.5]]), [[0.12345, 1j]]]
    for estimator in (MixedTypeEncoder({"a": (0.0, 1.0), "b": (0.0, 1.0)}).fit(X), PrivatePCA(2).fit(X)):
        for point in points:
            with pytest.raises((ValueError, TypeError)) as caught:
                estimator.inverse_transform(point)
            assert "secret" not in str(caught.value)
            assert "12345" not in str(caught.value)


def test_saved_encoder_encodes_and_decodes_alike(tmp_path):
    encoder = MixedTypeEncoder(SCHEMA)
    for fitted in (False, True):
        save(encoder.fit(rows()) if fitted else encoder, tmp_path / "encoder.zip")
        again = load(tmp_path / "encoder.zip")
        assert again.schema == encoder.schema
    assert again.schema_ == encoder.schema_
    Z = encoder.transform(rows())
    np.testing.assert_array_equal(again.transform(rows()), Z)
    pd.testing.assert_frame_equal(again.inverse_transform(Z), encoder.inverse_transform(Z))
    assert again.get_feature_names_out().tolist() == NAMES
    with pytest.raises(ValueError, match="feature names"):
        again.transform(rows()[list(SCHEMA)[::-1]])
