"""Columns that no mechanism sees, facts that are not stated or bought, and slips around both, each refused with the way out."""

import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from internals import level_cells, split_columns
from sources import Evil, matched

import skdpsynth
from skdpsynth import LatentFactorSynthesizer, PrivateMeasureMechanism
from skdpsynth.domain import Continuous, Date, DateTime, Identifier, MixedTypeEncoder, Nominal, Ordinal, Schema, Text
from skdpsynth.metrics import correlation_error, marginal_total_variation, train_synthetic_test_real
from skdpsynth.tables import columns_without_bounds, read_columns, with_levels

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


# What is not stated
UNSTATED = [Continuous, Date, DateTime]


@pytest.mark.parametrize("word", ["open", "private"])
@pytest.mark.parametrize("null", [False, True])
def test_kinds_may_have_words_in_place_of_facts(word, null):
    kinds = [make(bounds=word, nullable=null) for make in UNSTATED] + [make(word, nullable=null) for make in (Nominal, Ordinal)]
    kinds += [Continuous(bounds=word, integer=True), DateTime(bounds=word, resolution="hour"), Nominal(levels=word)]
    for kind in kinds:
        assert kind.stand_in == Schema({"a": kind}).coded["a"].stand_in == word


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


OPEN = Schema({"x": Continuous(bounds="private"), "n": Continuous(bounds="private", integer=True, nullable=True), "w": Nominal("private")})


def test_strings_and_whole_numbers_are_levels_and_anything_else_is_missing():
    cells = ["a", "", np.str_("b"), 3, np.int8(3), 3.0, np.float32(3), True, np.True_, -7, 2**63, "ä"]
    assert level_cells(cells).tolist() == ["a", "", "b", 3, 3, 3, 3, 1, 1, -7, 2**63, "ä"]
    junk = [None, math.nan, 2.5, math.inf, 1e300, 2**64, -(2**63) - 1, pd.NA, pd.NaT, b"a", (1,), [1], {}, 3j, Evil(), "x" * 101, "\ud800"]
    junk += [np.timedelta64(1, "D"), np.datetime64("2020-01-01")]
    assert level_cells(junk).tolist() == [None] * len(junk)
    # Equal cells are of one type: else which of them came first would tell of rows.
    assert {type(level) for level in level_cells([1, 1.0, True, np.int64(1), np.float16(1)])} == {int}


def bought():
    return pd.DataFrame({"x": [0.5, math.nan, 1e9], "n": [2.4, math.nan, -1e9], "w": ["a", None, "b"]})


def test_without_bounds_and_levels_cells_are_read_as_they_stand():
    table, raw = split_columns(bought())
    x, n, w = read_columns(raw, OPEN, table.dtypes)
    np.testing.assert_array_equal(x, [0.5, math.nan, 1e9])
    np.testing.assert_array_equal(n, [2, math.nan, -1e9])
    assert w.tolist() == ["a", None, "b"]


def test_what_is_public_of_unknown_columns_follows_from_dtypes():
    unknown = columns_without_bounds(OPEN, ("float32", "int64", "object"))
    assert unknown.columns == (0, 1)
    assert unknown.least.tolist() == [-float(np.finfo("float32").max), -(2.0**53)]
    assert unknown.whole.tolist() == [False, True]
    assert columns_without_bounds(Schema({"x": (0, 1)}), ("int64",)) is None


def test_levels_that_are_found_are_completed_by_a_public_rule():
    for nullable, found, dtype, levels in [
        (True, ["a", "b"], "object", ("a", "b")),
        (False, ["a", "b"], "str", ("other", "a", "b")),
        (False, ["a", "other"], "str", ("other", "a")),
        (False, [], "str", ("other", "none")),
        (True, [], "str", ("other", "none")),
        (True, ["none"], "str", ("none", "other")),
        (False, [3, 5], "int64", (3, 5)),
        (False, [1], "int64", (1, 0)),
        (False, [0], "bool", (0, 1)),
        (False, [7], "uint8", (7, 0)),
        (False, [], "float64", (0, 1)),
    ]:
        assert with_levels(Nominal("private", nullable=nullable), found, dtype).levels == levels


GROUPED = Nominal(["10115", "10117", "80331"], groups={"10115": "Berlin", "10117": "Berlin", "80331": "Munich"})


def test_groups_are_numbered_in_the_order_in_which_they_come():
    assert GROUPED.group_numbers.tolist() == [0, 0, 1]
    assert Nominal(GROUPED.levels, groups=1).group_numbers.tolist() == [0, 0, 1]
    assert Nominal(GROUPED.levels, groups=["b", "a", "b"]).group_numbers.tolist() == [0, 1, 0]
    assert Nominal(GROUPED.levels).group_numbers.tolist() == [0, 0, 0]


def test_groups_that_do_not_fit_are_refused():
    for groups in (0, -1, 1.5, "ab", ["a"], {"10115": 1}, [1, 2, None], {1, 2}, True):
        with pytest.raises(ValueError, match="groups must"):
            Nominal(GROUPED.levels, groups=groups)
    for levels, groups in [("private", {"a": "b"}), ([1, 2, 3], 1)]:  # levels that are not stated are grouped by prefixes
        with pytest.raises(ValueError, match="groups must"):
            Nominal(levels, groups=groups)


VISITS = pd.DataFrame({"patient_id": np.arange(300) % 90, "age": np.linspace(20, 90, 300)})
AGE = {"age": (0, 110)}


@pytest.mark.parametrize(
    ("estimator", "unit", "words"),
    [
        (PrivateMeasureMechanism(bounds=AGE), ["patient_id"], r"give unit='patient_id'\.$"),
        (
            PrivateMeasureMechanism(bounds={**AGE, "patient_id": (0, 90)}),
            "patient_id",
            r"none for a column that fit takes as unit\.$",
        ),
        (PrivateMeasureMechanism(bounds={"age": (110, 0)}), "patient_id", r"got \(110, 0\) for column 'age'; swap them\.$"),
        (
            LatentFactorSynthesizer({**AGE, "patient_id": (0, 90)}),
            "patient_id",
            r"as unit, or a key of linked tables, is an Identifier\(\), or is left out\.$",
        ),
    ],
)
def test_a_slip_around_the_unit_names_the_way_out(estimator, unit, words):
    with pytest.raises(ValueError, match=words):
        estimator.fit(VISITS, unit=unit)
    assert not hasattr(estimator, "accountant_")


def test_an_identifier_in_the_schema_may_be_the_unit():
    model = LatentFactorSynthesizer({**AGE, "patient_id": Identifier()}).fit(VISITS, unit="patient_id")
    assert list(model.sample(2)) == ["age"]


@pytest.mark.parametrize("path", ["synthetic.csv", Path("synthetic.csv")])
def test_a_path_in_place_of_a_number_of_rows_is_pointed_to_out(path):
    model = PrivateMeasureMechanism(bounds=(0, 1)).fit(np.linspace(0, 1, 100)[:, None])
    with pytest.raises(ValueError, match=r"n_samples must be .*; for a file give out='synthetic\.csv'\.$"):
        model.sample(path)
