"""Real tables: rules as text, in Python and in files, and warnings that follow from public numbers."""

import json
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdpsynth import LatentFactorSynthesizer, PrivatePCA
from skdpsynth.domain import Date, Impossible, Inequality, Schema, Sum

COLUMNS = {
    "a": (0, 9),
    "b": (0, 9),
    "total": (0, 18),
    "smokes": ["no", "yes"],
    "in": Date("2024-01-01", "2024-12-31"),
    "last day": Date("2024-01-01", "2024-12-31"),
    "x": (0.0, 1.0),
    "y": (0.0, 1.0),
}


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("a <= b", [Inequality("a", "b")]),
        ("a > b", [Inequality("b", "a", strict=True)]),
        ("a <= b <= total", [Inequality("a", "b"), Inequality("b", "total")]),
        ("`in` < `last day`", [Inequality("in", "last day", strict=True)]),
        ("total = a + b", [Sum(["a", "b"], "total")]),
        ("a + b == total", [Sum(["a", "b"], "total")]),
        ("a > 3 if smokes == 'yes' and b in [1, 2]", [Impossible({"smokes": ["yes"], "b": [1, 2], "a": [(None, 3)]})]),
        ("a <= 3 if b < 1", [Impossible({"b": [(None, 0.9999999999999999)], "a": [(3.0000000000000004, None)]})]),
    ],
)
def test_a_text_is_the_rule_that_it_says_in_python_and_in_files(text, rules):
    pytest.importorskip("yaml")
    schema = Schema(COLUMNS, rules=[text])
    assert schema.rules == tuple(rules)
    parsed = json.loads(Schema(COLUMNS).to_json())
    assert Schema.from_json({**parsed, "rules": [text]}) == Schema.from_yaml(schema.to_yaml()) == schema


def test_a_column_of_an_array_is_named_by_its_place_or_its_number():
    years = {2019: (0, 1), 2020: (0, 1)}
    assert Schema(years, rules="`2019` <= x2020").rules == (Inequality(2019, 2020),)


def test_kind_is_understood_where_a_rule_says_it():
    keys = [{"name": name, "kind": "continuous", "bounds": [0, 9]} for name in "ab"]
    rule = {"low": "a", "high": "b"}
    made = [Schema.from_json({"columns": keys, "rules": [{word: "inequality", **rule}]}) for word in ("rule", "kind")]
    assert made[0] == made[1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a <> b", "rule 2 must be a text such as"),
        ("__import__('os')", "rule 2 must be a text such as"),
        ("total = 2 * a", "make 'total' a column that is computed, Derived('2 * a')"),
        ("`last day` = `in` + 3", "make 'last day' a column that is computed, Derived('`in` + 3')"),
        ("a >= 5", "state bounds of the column"),
        ("smokes == 'no' if a > 3", r"write Impossible\({...}\)"),
        ("x < y", r"strict=False \(in text <=\)"),
        ("total = a + a", "rule 2, 'total = a \\+ a': columns must be a list of at least 2, each once"),
        ("a <= nowhere", "'nowhere', which schema has not"),
        ("a <= b" + " " * 2000, "rule 2 must be a text such as"),
    ],
)
def test_a_text_that_is_no_rule_is_refused_in_one_sentence_with_its_place(text, words):
    words = words if "\\" in words else re.escape(words)
    with pytest.raises(ValueError, match=words) as error:
        Schema(COLUMNS, rules=["a <= b", text])
    assert str(error.value).endswith(".")
    assert "\n" not in str(error.value)


def warnings_of(fit):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        fit()
    return [str(each.message) for each in told]


def test_a_table_whose_pairs_are_noise_is_said_to_be_whatever_its_rows_are():
    schema = {f"c{i}": list("abcdefghij"[: 3 + i % 8]) for i in range(32)}
    one, other = (np.array([[levels[(k * row) % len(levels)] for levels in schema.values()] for row in range(1470)]) for k in (0, 7))
    frames = [pd.DataFrame(rows, columns=list(schema)) for rows in (one, other)]
    model = LatentFactorSynthesizer(schema, epsilon=1, delta=1e-6)
    first, second = (warnings_of(lambda frame=frame: model.fit(frame)) for frame in frames)
    assert first == second
    assert any("most of the 496 pairs of columns" in message for message in first)
    assert not any("pairs of columns" in message for message in warnings_of(lambda: model.set_params(epsilon=20).fit(frames[0])))


def test_bounds_that_are_left_out_in_a_pipeline_warn_whatever_the_rows_are():
    rows = np.random.default_rng(0).normal(size=(500, 4))
    for X in (rows, rows * 0 + 0.5):
        told = warnings_of(lambda X=X: make_pipeline(StandardScaler(), PrivatePCA(2)).fit(X))
        assert any(message.startswith("bounds are not given") for message in told)
