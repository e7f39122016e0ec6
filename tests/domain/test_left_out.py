"""Columns that no mechanism sees, and facts that are not stated."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sources import Evil, matched

import skdpsynth
from skdpsynth import LatentFactorSynthesizer
from skdpsynth.domain import Continuous, Date, DateTime, Identifier, MixedTypeEncoder, Nominal, Ordinal, Schema, Text
from skdpsynth.metrics import correlation_error, marginal_total_variation, train_synthetic_test_real

pytestmark = pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.SmallSampleWarning")
X = pd.DataFrame({"id": ["secret-7", "secret-8", "secret-9"], "age": [20, 30, 40], "sex": ["f", "m", "f"]})
KINDS = {"id": Identifier(), "age": (0, 99), "sex": ["f", "m"]}


def sample(frame, **changes):
    model = LatentFactorSynthesizer({**KINDS, **changes}, epsilon=float("inf")).fit(frame)
    return model.sample(5, random_state=0)


def test_samples_are_without_identifiers():
    assert list(sample(X)) == ["age", "sex"]
    assert sample(pl.from_pandas(X)).columns == ["age", "sex"]
    out = LatentFactorSynthesizer({0: Identifier(), 1: (0, 99)}).fit(X[["id", "age"]].to_numpy()).sample(4)
    assert out.shape == (4, 1)


@pytest.mark.parametrize(
    ("column", "labels", "expected"),
    [
        (pd.Series([7, 7, 7]), True, [1, 2, 3, 4, 5]),
        (pd.Series([7, 7, 7], dtype="Int32"), True, [1, 2, 3, 4, 5]),
        (pd.Series([0.5, 7, 7]), True, [1, 2, 3, 4, 5]),
        (pd.Series(["x", "y", "z"], dtype="string"), True, ["1", "2", "3", "4", "5"]),
        (pd.Series(["x", "y", "z"], dtype="string"), "P", ["P1", "P2", "P3", "P4", "P5"]),
        (pd.Series(["x", "y", "z"], dtype=object), "P", ["P1", "P2", "P3", "P4", "P5"]),
        (pl.Series(["x", "y", "z"]), "P", ["P1", "P2", "P3", "P4", "P5"]),
        (pl.Series([7, 7, 7]), True, [1, 2, 3, 4, 5]),
        (pd.Series([b"x", b"y", b"z"], dtype=object), True, [1, 2, 3, 4, 5]),
    ],
)
def test_labels_are_made_anew_in_the_dtype_of_the_column(column, labels, expected):
    if isinstance(column, pl.Series):
        frame = pl.from_pandas(X).with_columns(column.alias("id"))
        out = sample(frame, id=Identifier(labels=labels))
        assert out.schema == frame.schema
    else:
        frame = X.assign(id=column)
        out = sample(frame, id=Identifier(labels=labels))
        inferred = pd.Series([1 if labels is True else "P1"]).dtype
        assert out["id"].dtype == (inferred if column.dtype in (object, float) else column.dtype)
        assert list(out) == list(X)
    assert out["id"].to_list() == expected


def test_labels_beyond_a_short_dtype_are_distinct_all_the_same():
    table, _ = matched(X.assign(id=np.zeros(3, dtype=np.int8)), {**KINDS, "id": Identifier(labels=True)})
    assert table.fill([np.zeros(1000), np.zeros(1000, dtype=int)])["id"].is_unique
    table, _ = matched(np.zeros((3, 2), dtype=np.int8), {0: Identifier(labels=True), 1: (0, 1)})
    assert len(set(table.fill([np.zeros(1000)])[:, 0])) == 1000


def test_no_cell_of_an_identifier_is_read():
    cells = np.empty(3, dtype=object)
    for i in range(3):
        cells[i] = Evil()
    assert list(sample(X.assign(id=cells))) == ["age", "sex"]
    encoder = MixedTypeEncoder(KINDS).fit(X)
    np.testing.assert_array_equal(encoder.transform(X.assign(id=cells)), encoder.transform(X))


def test_fits_are_equal_whatever_stands_in_an_identifier():
    first, second = (LatentFactorSynthesizer(KINDS, random_state=0).fit(frame).marginals_ for frame in (X, X.assign(id=["a", "a", "a"])))
    assert all(np.array_equal(first[key], second[key]) for key in first)
    assert set(first) == {("age",), ("sex",), ("age", "sex")}


def test_a_table_may_lack_its_identifier():
    assert list(sample(X.drop(columns="id"), id=Identifier(labels="P"))) == ["age", "sex"]


def test_a_sample_can_be_scored_encoded_and_compared_by_the_schema_of_the_table():
    model = LatentFactorSynthesizer(KINDS, epsilon=float("inf")).fit(X)
    out = model.sample(3, random_state=0)
    assert model.score(out) <= 0
    assert MixedTypeEncoder(KINDS).fit(X).transform(out).shape == (3, 2)
    array = X[["id", "age"]].to_numpy()
    encoder = MixedTypeEncoder({0: Identifier(), 1: (0, 99)}).fit(array)
    np.testing.assert_array_equal(encoder.transform(array[:, 1:]), encoder.transform(array))
    for frame in (out, X):
        assert 0 <= marginal_total_variation(X, frame, KINDS) <= 1
        assert 0 <= correlation_error(X, frame, KINDS) <= 2
    from sklearn.tree import DecisionTreeClassifier

    assert train_synthetic_test_real(DecisionTreeClassifier(), X, X, "sex", KINDS) >= 0.5
    with pytest.raises(ValueError, match=r"^target must be a column that is synthesized, but 'id' is Identifier"):
        train_synthetic_test_real(DecisionTreeClassifier(), X, X, "id", KINDS)


def test_an_identifier_survives_saving(tmp_path):
    model = LatentFactorSynthesizer({**KINDS, "id": Identifier(labels="P")}).fit(X)
    model.save(tmp_path / "model.zip")
    assert skdpsynth.load(tmp_path / "model.zip").sample(2)["id"].tolist() == ["P1", "P2"]
    assert b"secret" not in (tmp_path / "model.zip").read_bytes()


# What is not stated

UNSTATED = [Continuous, Date, DateTime]


@pytest.mark.parametrize("word", ["open", "private"])
@pytest.mark.parametrize("null", [False, True])
def test_kinds_may_have_words_in_place_of_facts(word, null):
    kinds = [make(bounds=word, nullable=null) for make in UNSTATED] + [make(word, nullable=null) for make in (Nominal, Ordinal)]
    kinds += [Continuous(bounds=word, integer=True), DateTime(bounds=word, resolution="hour"), Nominal(levels=word)]
    for kind in kinds:
        assert kind.stand_in == Schema({"a": kind}).coded["a"].stand_in == word


# Refusals


def encode(**kinds):
    return MixedTypeEncoder({**KINDS, **kinds}).fit(X)


def compare(**kinds):
    return marginal_total_variation(X, X, {**KINDS, **kinds})


UNSTATED_OF = {
    "has open bounds, which are still to be written; give (low, high)": [Continuous(bounds="open"), Date(bounds="open")],
    "has open levels, which are still to be written; give a list": [Nominal("open")],
    "has private bounds, which is not supported here; give (low, high)": [Continuous(bounds="private")],
    "has private levels, which is not supported here; give a list": [Nominal("private")],
}
REFUSED = [
    (lambda: LatentFactorSynthesizer({"id": Identifier()}).fit(X[["id"]]), "schema must have a column that is synthesized, but all"),
    (
        lambda: sample(X.assign(id=pd.array([1, 2, 3], "Int8")), id=Identifier(labels="P")),
        "column 'id' has dtype Int8, which cannot hold the labels 'P1'",
    ),
    *((lambda labels=labels: Identifier(labels), "labels must be True, False or a word") for labels in (None, "", 3, ["a"])),
    (lambda: LatentFactorSynthesizer({**KINDS, "id": Text()}).fit(X), "schema of column 'id' is Text, "),
    (lambda: encode(id=Text()), "schema of column 'id' is Text, "),
    (lambda: Schema({"a": Identifier}), "schema of column 'a' must be a kind with its facts, got the class; call Identifier"),
    *((lambda k=k: encode(age=k), f"schema of column 'age' {w}") for w in UNSTATED_OF for k in UNSTATED_OF[w]),
    *((lambda k=k: compare(age=k), f"schema of column 'age' {w}") for w in UNSTATED_OF for k in UNSTATED_OF[w] if k.stand_in == "open"),
]


def test_what_cannot_be_left_out_is_refused_in_one_sentence():
    for call, words in REFUSED:
        with pytest.raises((TypeError, ValueError), match=rf"^{re.escape(words)}[^\n]*\.$"):
            call()


def test_metrics_take_what_is_private_from_the_tables_that_they_read():
    assert compare(age=Continuous(bounds="private")) == compare(age=Nominal("private")) == 0


def test_a_fit_refuses_an_open_schema_before_it_spends():
    budget = skdpsynth.PrivacyAccountant(1.0)
    with pytest.raises(ValueError, match=r"^schema of column 'sex' has open levels"):
        LatentFactorSynthesizer({**KINDS, "sex": Nominal("open")}, accountant=budget).fit(X)
    assert budget.spent == 0
