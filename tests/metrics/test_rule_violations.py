"""How many rows break rules."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from skdpsynth.domain import Continuous, Derived, Determines, Identifier, Impossible, Inequality, MissingTogether, Schema, Sum, Unique
from skdpsynth.metrics import quality_report, rule_violations

X = pd.DataFrame(
    {
        "id": ["u", "v", "v", "w"],
        "a": [1, 5, 3, 9],
        "b": [2, 5, 1, 0],
        "t": [3, 10, 4, 8],
        "n": [1.0, None, None, 4.0],
        "m": [None, None, 2.0, 3.0],
        "s": ["x", "x", "y", "y"],
        "k": [1, 2, 2, 2],
        "r": [0.5, 1.0, 3.0, 0.0],
    }
)
KINDS = {
    **{"id": Identifier(), "a": (0, 9), "b": (0, 9), "t": (0, 18), "n": Continuous(0.0, 9.0, nullable=True)},
    **{"m": Continuous(0.0, 9.0, nullable=True), "s": ["x", "y"], "k": (0, 9), "r": Derived("a / b")},
}
RULES = [(Inequality("a", "b"), 2), (Inequality("m", "n"), 0), (Sum(["a", "b"], "t"), 1), (Unique("id"), 1)]
RULES += [(MissingTogether(["n", "m"]), 2), (Impossible({"s": "y", "n": None}), 1), (Determines("s", "k", {"x": 1, "y": 2}), 1)]


@pytest.mark.parametrize("container", [pd.DataFrame, pl.from_pandas, "csv"])
def test_rows_that_break_each_rule_are_counted(container, tmp_path):
    rules, expected = zip(*RULES, strict=True)
    schema = Schema(KINDS, rules=rules)
    table = container(X) if callable(container) else tmp_path / "x.csv"
    if not callable(container):
        pytest.importorskip("pyarrow")
        X.to_csv(table, index=False)
    found = rule_violations(table, schema)
    assert [broken.rows for broken in found.values()] == [*expected, 1]  # 9 / 0 is missing
    assert [broken.share for broken in found.values()] == [count / 4 for count in [*expected, 1]]
    assert list(found)[:-1] == [repr(rule) for rule in rules]


def test_rounding_of_32_bits_breaks_nothing():
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 500)).astype(np.float32)
    frame = pd.DataFrame({"a": a, "b": b, "t": a + b, "r": (a.astype(float) / (b.astype(float) + 1)).astype(np.float32)})
    kinds = {"a": (0.0, 1.0), "b": (0.0, 1.0), "t": (0.0, 2.0), "r": Derived("a / (b + 1)")}
    assert {broken.rows for broken in rule_violations(frame, Schema(kinds, rules=[Sum(["a", "b"], "t")])).values()} == {0}


def test_tables_that_lack_a_column_are_refused():
    with pytest.raises(ValueError, match="lacks 'b'"):
        rule_violations(X[["a"]], Schema({"a": (0, 9), "b": (0, 9)}, rules=[Inequality("a", "b")]))


def test_a_schema_without_rules_has_nothing_to_break():
    assert rule_violations(X[["a"]], Schema({"a": (0, 9)})) == {}


def test_quality_reports_compare_computed_columns_too():
    schema = Schema({"a": (0, 9), "b": (0, 9), "t": (0, 18)}, rules=[Sum(["a", "b"], "t")])
    frame = pd.concat([X[["a", "b", "t"]]] * 30, ignore_index=True)
    report = quality_report(frame, frame.assign(t=0), schema)
    assert "rule" in str(report.broken)
