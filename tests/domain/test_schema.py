"""Public facts about columns, as users state them."""

import json
import math
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from skdpsynth import LatentFactorSynthesizer
from skdpsynth.domain import Continuous, Date, DateTime, Identifier, MixedTypeEncoder, Nominal, Ordinal, Schema
from skdpsynth.federated import Site
from skdpsynth.metrics import correlation_error, marginal_total_variation, train_synthetic_test_real

whole = st.tuples(st.integers(-(2**53), 2**53), st.integers(-(2**53), 2**53)).filter(lambda b: b[0] < b[1])
real = st.tuples(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300)).filter(lambda b: b[0] < b[1])
SCHEMA = Schema({"age": (17, 90), "school": Ordinal(["basic", "high"]), "smokes": ["no", "yes"]})
# Kinds


def test_bounds_are_kept_as_plain_numbers_and_are_whole_if_both_are_ints():
    for bounds, integer in [((0, 9), True), ((0, 9.0), False), ((0.0, 9), False), ((np.int8(0), np.int64(9)), True), ((0.5, 9.5), False)]:
        assert Schema({"a": bounds})["a"].integer is integer
    for bounds in [(np.float32(0.5), np.float32(1.5)), (np.int64(1), np.int64(2)), (Fraction(1, 2), Fraction(3, 2))]:
        kind = Continuous(*bounds)
        assert {type(kind.low), type(kind.high)} <= {int, float}
        assert (kind.low, kind.high) == bounds


@given(st.one_of(whole, real), st.booleans())
@settings(max_examples=60, deadline=None)
@example((0.0, 5e-324), False)
@example((-5e-324, 5e-324), False)
@example((-8e307, 8e307), False)
@example((1.0, math.nextafter(1, 2)), False)
def test_midpoint_lies_in_the_column_and_is_whole_where_that_is(bounds, nullable):
    kind = Continuous(*bounds, nullable=nullable)
    assert kind.low <= kind.midpoint <= kind.high
    assert not kind.integer or float(kind.midpoint).is_integer()


# Errors
WRONG = {
    "kind": ["auto", "data", None, (), (1,), (0, 1, 2), 5, {"low": 0, "high": 1}, {1, 2}, int, np.array([0, 1])],
    "no numbers": [("auto", "auto"), (None, None), (0, None), ("0", "1"), (0, 1j), (True, False), (np.array([0]), np.array([1]))],
    "not finite": [(0, math.inf), (-math.inf, 0), (math.nan, 1), (0, math.nan), (-1e308, 1e308), (0, 10**400), (-(10**400), 0)],
    "order": [(1, 1), (2, 1), (0, 2**53 + 2)],
    "levels": [[], ["a"], ["a", "a"], [1, True], [0, 0.0], ["a", None], ["a", math.nan], [b"a", b"b"], ["a", ["b"]], [1, math.inf]],
    "large levels": [[0, 2**64], [0, 10**400]],
}


@pytest.mark.parametrize("values", WRONG.values(), ids=WRONG)
def test_wrong_entry_is_refused_in_one_sentence_that_names_the_column(values):
    for value in values:
        with pytest.raises(ValueError, match=r"^schema [^\n]*column 'age'[^\n]*\.$"):
            Schema({"ok": (0, 1), "age": value})


def test_json_holds_the_documented_keys_and_nothing_else():
    told = json.loads(SCHEMA.to_json())
    assert told == {
        "columns": [
            {"name": "age", "kind": "continuous", "bounds": [17, 90], "integer": True, "nullable": False},
            {"name": "school", "kind": "ordinal", "levels": ["basic", "high"], "nullable": False},
            {"name": "smokes", "kind": "nominal", "levels": ["no", "yes"], "nullable": False},
        ]
    }


def test_dtypes_give_levels_and_order_and_may_be_nullable():
    dtypes = {
        "a": np.dtype(int),
        "b": pd.CategoricalDtype(["x", "y"]),
        "c": pd.CategoricalDtype(["low", "high"], ordered=True),
        "d": np.dtype(bool),
    }
    expected = {"a": Continuous(0, 9), "b": Nominal(["x", "y"]), "c": Ordinal(["low", "high"]), "d": Nominal([False, True])}
    facts = {"public": True, "bounds": {"a": (0, 9)}}
    schema = Schema.from_dtypes(dtypes, **facts)
    assert (schema, list(schema)) == (expected, list(dtypes))
    polars = {"a": pl.Int64(), "b": pl.Enum(["x", "y"]), "d": pl.Boolean()}
    assert Schema.from_dtypes(polars, **facts) == {name: expected[name] for name in polars}
    schema = Schema.from_dtypes(dtypes, **facts, nullable=["a", "b"])
    assert [kind.nullable for kind in schema.values()] == [True, True, False, False]
    assert schema["a"].integer


# SDV
SDV = {
    "columns": {
        "age": {"sdtype": "numerical", "computer_representation": "Int64"},
        "pay": {"sdtype": "numerical", "computer_representation": "Float"},
        "sex": {"sdtype": "categorical"},
        "ok": {"sdtype": "boolean"},
    }
}
KEYED = {
    "primary_key": "id",
    "alternate_keys": ["code"],
    "columns": {
        "id": {"sdtype": "id"},
        "code": {"sdtype": "id", "regex_format": "[A-Z]{3}"},
        "doctor": {"sdtype": "id"},
        "born": {"sdtype": "datetime", "datetime_format": "%Y-%m-%d"},
        "seen": {"sdtype": "datetime", "datetime_format": "%Y-%m-%d %H:%M:%S"},
        **SDV["columns"],
    },
}
KEYS = {"id": Identifier(labels=True), "code": Identifier(labels=True), "doctor": Identifier()}


class Metadata:
    def to_dict(self):
        return {"tables": {"people": KEYED}, "relationships": [], "METADATA_SPEC_VERSION": "V1"}


def test_metadata_of_sdv_give_kinds_where_keys_become_identifiers_and_times_dates():
    days = ("2020-01-01", "2020-12-31")
    domains = {"born": days, "seen": days, "age": (17.0, 90.0), "pay": (0, 100), "sex": ["f", "m"]}
    for metadata in (KEYED, Metadata(), {"tables": {"people": KEYED}}):
        assert Schema.from_sdv(metadata, domains, nullable=["born", "sex"]) == {
            **KEYS,
            "born": Date(*days, nullable=True),
            "seen": DateTime(*days),
            "age": Continuous(17, 90, integer=True),
            "pay": Continuous(0, 100, integer=False),
            "sex": Nominal(["f", "m"], nullable=True),
            "ok": Nominal([False, True]),
        }


def test_what_metadata_of_sdv_do_not_know_may_stay_open():
    assert Schema.from_sdv(KEYED, "open") == {
        **KEYS,
        "born": Date(bounds="open"),
        "seen": DateTime(bounds="open"),
        "age": Continuous(bounds="open", integer=True),
        "pay": Continuous(bounds="open"),
        "sex": Nominal("open"),
        "ok": Nominal([False, True]),
    }


@pytest.fixture(params=[".yaml", ".yml", ".json"])
def schema_file(request, tmp_path):
    if request.param != ".json":
        pytest.importorskip("yaml")
    path = tmp_path / f"people{request.param}"
    (PEOPLE.to_json if request.param == ".json" else PEOPLE.to_yaml)(path)
    return path


PEOPLE = Schema({"age": (0, 99), "sick": ["no", "yes"]})


@pytest.mark.parametrize("as_path", [str, Path], ids=["str", "Path"])
def test_the_file_of_a_schema_is_taken_wherever_a_schema_is(schema_file, as_path):
    path = as_path(schema_file)
    frame = pd.DataFrame({"age": np.arange(100) % 90, "sick": ["no", "yes"] * 50})
    for make in (MixedTypeEncoder, lambda schema: LatentFactorSynthesizer(schema, epsilon=float("inf"))):
        assert make(path).fit(frame).schema_ == PEOPLE
        assert clone(make(path)).schema == path
    assert marginal_total_variation(frame, frame, path) == 0
    assert correlation_error(frame, frame, path) == 0
    assert 0 <= train_synthetic_test_real(LogisticRegression(), frame, frame, "sick", path) <= 1
    assert Site(frame, schema=path).log == []
    assert Schema.of(path) == Schema.of(dict(PEOPLE)) == PEOPLE
    assert Schema.of(PEOPLE) is PEOPLE


def test_columns_of_several_levels_are_named_by_tuples():
    schema = Schema({("blood", "sugar"): (0, 300), ("blood", "type"): ["A", "B", "0"]})
    frame = pd.DataFrame([[100, "A"], [200, "0"]], columns=pd.MultiIndex.from_tuples(list(schema)))
    again = MixedTypeEncoder(schema).fit(frame)
    assert Schema.from_json(schema.to_json()) == schema
    model = LatentFactorSynthesizer(schema, epsilon=float("inf")).fit(frame)
    for back in (again.inverse_transform(again.transform(frame)), model.sample(3), model.impute(frame)):
        pd.testing.assert_index_equal(back.columns, frame.columns)


def of_json(**column):
    return Schema.from_json({"columns": [{"name": "age", **column}]})


def of_dtypes(dtype, **facts):
    return Schema.from_dtypes({"age": dtype}, **{"public": True, **facts})


def of_sdv(sdtype="numerical", domain=...):
    return Schema.from_sdv({"columns": {"age": {"sdtype": sdtype}}}, {} if domain is ... else {"age": domain})


def encode(schema):
    return MixedTypeEncoder(schema).fit(pd.DataFrame({"age": [1]}))


# Call, what it is given in turn, and what it says.
TWICE = {"kind": "nominal", "levels": [1, 2]}
REFUSED = [
    (lambda wrong: Continuous(0, 1, **wrong), [{"integer": "yes"}], "integer .*"),
    (lambda wrong: Continuous(0.5, 2, **wrong), [{"integer": True}], "bounds .*"),
    (lambda wrong: Continuous(0, 1, nullable=wrong), ["no"], "nullable .*"),
    (lambda wrong: Nominal(["a", "b"], nullable=wrong), ["no"], "nullable .*"),
    (Ordinal, ["ab", None, {"a", "b"}, {"b": 2}], "levels .*"),  # the order of a set is another in each process
    (Nominal, [{"a": 1, "b": 2}, [*map(str, range(1000)), "99"]], "levels .*"),
    (Schema, [None, {}, [], "auto", [("a", (0, 1))], 5], "schema must be a dict"),
    (Schema, [KEYED], ".*for column 'primary_key'"),
    (Schema, [Metadata()], r"schema .*Schema\.from_sdv metadata of SDV"),
    (SCHEMA.arrange, [["age", "school", "weight"]], "schema .*no entry for 'weight' and names 'smokes', which X lacks; "),
    (SCHEMA.arrange, [list(range(100))], ".*0, 1, 2, 3, 4 and 95 more"),
    (SCHEMA.arrange, [np.array([31415.5]), pd.Series(["31415"]), "age", None], r"names must be a list of columns, got [^\n]*\.$"),
    (
        Schema.from_json,
        ["{}", '{"columns": {}}', '{"columns": [1]}', '{"columns": [{}]}', {}, None, 3, '{"columns": []}'],
        "(source|schema) must",
    ),
    (lambda wrong: Schema.from_json({"columns": wrong}), [[{"name": "a", **TWICE}] * 2], ".*'a' occurs twice"),
    (
        lambda wrong: of_json(name=wrong, kind="continuous", bounds=[0, 1]),
        [{"a": 1}, b"a", [["a"], {}]],
        "source must name columns by words",
    ),
    (lambda wrong: of_json(kind="continuous", bounds=wrong), [None, [1], "auto", [0, None]], ".*column 'age': bounds must be two numbers"),
    (lambda wrong: of_json(kind="continuous", bounds=wrong), [[1, 0]], ".*column 'age': .*low < high"),
    (lambda wrong: of_json(kind="nominal", **wrong), [{}], ".*column 'age': levels must be a list"),
    (lambda wrong: of_json(kind="ordinal", levels=wrong), [["a", None]], ".*column 'age': .*nullable=True"),
    (lambda wrong: of_json(kind="nominal", levels=wrong), [["a"]], ".*column 'age': .*2 or more"),
    (lambda wrong: of_json(kind="nominal", levels=["a", "b"], nullable=wrong), ["yes"], ".*column 'age': nullable must be"),
    (lambda wrong: of_json(kind=wrong), ["money", ["nominal"], None], ".*column 'age': kind must be one of"),
    (lambda wrong: of_json(kind=wrong, bounds=[1, 2]), ["date", "datetime"], ".*column 'age': .*two dates"),
    (lambda wrong: of_json(kind="identifier", labels=wrong), [3], ".*column 'age': labels must be"),
    (lambda wrong: of_dtypes(pd.CategoricalDtype(["x", "y"]), public=wrong), [False, None, 1, "yes"], "public must be True"),
    (of_dtypes, [np.dtype("int64"), pd.StringDtype(), pd.CategoricalDtype(), pl.String(), pl.Enum], "bounds must give .* for 'age'"),
    (of_dtypes, [*map(pd.CategoricalDtype, (["x"], [], pd.interval_range(0, 3)))], "schema of column 'age': levels must"),
    (lambda wrong: of_dtypes(np.dtype(int), bounds=wrong), ["auto", ["a"], (0, 1), 1], "bounds must be a dict"),
    (lambda wrong: of_dtypes(np.dtype(int), bounds={"age": wrong}), ["auto", (None, None), (1, 0)], ".*column 'age'"),
    (
        lambda wrong: of_dtypes(np.dtype(bool), **wrong),
        [{"bounds": {"x": (0, 1)}}, {"nullable": ["x"]}],
        ".*name columns of the table, got 'x'",
    ),
    (lambda wrong: of_sdv(domain=wrong), [(None, None), ("a", "b"), (1, 0), (0, math.inf), "auto", None], ".*'age'"),
    (of_sdv, ["numerical", "categorical", "datetime"], "domains must give .* for 'age'"),
    (of_sdv, ["email", "pii", None], "schema of column 'age': sdtype '?(email|pii|None)"),
    (lambda wrong: Schema.from_sdv({"tables": wrong}), [{}, {"a": SDV, "b": SDV}], "metadata must describe the columns of one table"),
    (encode, ["people.txt", "people.csv"], r".*\.yaml, \.yml or \.json, got 'people\."),
    (encode, ["nowhere/a.yaml"], "schema must be a file .*there is no file"),
]


@pytest.mark.parametrize(("call", "given", "words"), REFUSED, ids=[words for *_, words in REFUSED])
def test_what_is_no_public_fact_is_refused_in_one_sentence(call, given, words):
    for wrong in given:
        with pytest.raises((ValueError, FileNotFoundError), match=rf"^{words}") as caught:
            call(wrong)
        assert re.fullmatch(r"[^\n]+\.", str(caught.value))
        assert "31415" not in str(caught.value)
