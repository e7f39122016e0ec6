"""The report of quality against the metrics that it is made of, how many rows break rules, and `evaluate` of every synthesizer."""

import dataclasses
import html.parser

import numpy as np
import pandas as pd
import polars as pl
import pytest
from estimators import all_estimators
from internals import _quality as quality_module
from sklearn.exceptions import NotFittedError

from skdpsynth import LatentFactorSynthesizer, PrivateMeasureMechanism
from skdpsynth.domain import (
    Box,
    Continuous,
    Date,
    Derived,
    Determines,
    Identifier,
    Impossible,
    Inequality,
    MissingTogether,
    Nominal,
    Ordinal,
    Schema,
    Sum,
    Unique,
)
from skdpsynth.measures import BinaryPartition
from skdpsynth.metrics import QualityReport, correlation_error, marginal_total_variation, quality_report, rule_violations
from skdpsynth.synthesis import PrivateSynthesizer

SCHEMA = Schema(
    {
        "age": (18, 99),
        "pressure": Continuous(60.0, 220.0, nullable=True),
        "stage": Ordinal(["none", "early", "late"]),
        "color": Nominal(["red", "green"], nullable=True),
        "returned": [False, True],
    }
)


def table(seed, n=400):
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 99, n)
    return pd.DataFrame(
        {
            "age": age,
            "pressure": np.where(rng.random(n) < 0.1, np.nan, 100 + 0.5 * age + rng.normal(0, 5, n)),
            "stage": np.where(age > 70, "late", "early"),
            "color": rng.choice(["red", "green"], n),
            "returned": rng.random(n) < age / 100,
        }
    )


@pytest.fixture(scope="module")
def report():
    return quality_report(table(0), table(1, 300), SCHEMA, target="returned")


def test_numbers_are_those_of_the_metrics(report):
    X, Y = table(0), table(1, 300)
    assert report.marginals == {name: marginal_total_variation(X[[name]], Y[[name]], {name: SCHEMA[name]}, order=1) for name in SCHEMA}
    assert len(report.pairs) == 10
    assert np.mean(list(report.pairs.values())) == pytest.approx(marginal_total_variation(X, Y, SCHEMA))
    two = {name: SCHEMA[name] for name in ("age", "stage")}
    assert report.pairs["age", "stage"] == marginal_total_variation(X[[*two]], Y[[*two]], two)
    assert report.correlation_error == pytest.approx(correlation_error(X, Y, SCHEMA))
    assert np.mean([abs(real - made) for real, made in report.associations.values()]) == report.correlation_error
    ranks = [rows[["age", "pressure"]].corr("spearman").iloc[0, 1] for rows in (X, Y)]
    assert report.associations["age", "pressure"] == pytest.approx(ranks)


def test_synthetic_rows_of_another_kind_are_farther_than_halves():
    """Noise of two shares of 300 rows is about 0.05; the columns here are moved by half their range."""
    X = np.random.default_rng(3).uniform(0, 0.5, (300, 2))
    found = quality_report(X, X + 0.5, {0: (0.0, 1.0), 1: (0.0, 1.0)})
    assert found.wasserstein == pytest.approx(0.5, abs=0.05)
    assert found.wasserstein > 3 * found.halves["wasserstein"]
    assert min(found.marginals.values()) > 3 * found.halves["marginals"]


def test_target_is_predicted_from_synthetic_and_from_real_rows():
    """Of useless synthetic rows an AUC of a half: 400 permuted targets give 0.5 +- 0.04, the real ones about 0.85."""
    X = table(5, 1500)
    shuffled = X.assign(returned=X["returned"].sample(frac=1, random_state=0).to_numpy())
    found = quality_report(X, shuffled, SCHEMA, target="returned")
    assert found.scoring == "roc_auc"
    assert found.auc["real"] > 0.7
    assert abs(found.auc["synthetic"] - 0.5) < 0.12


def test_score_suits_the_target():
    for target, scoring in [("stage", "accuracy"), ("age", "r2"), ("color", "roc_auc")]:
        found = quality_report(table(6), table(7), SCHEMA, target=target)
        assert found.scoring == scoring
        assert set(found.auc) == {"synthetic", "real"}


def test_rows_that_break_the_schema_are_counted_by_rule(report):
    for name, value, rule in [
        ("age", 17, "out of bounds"),
        ("age", 200, "out of bounds"),
        ("age", 20.5, "not whole"),
        ("age", np.nan, "missing"),
        ("pressure", 300.0, "out of bounds"),
        ("stage", "Late", "unknown level"),
        ("stage", "gone", "unknown level"),
        ("stage", None, "missing"),
    ]:
        Y = table(8, 200)
        Y[name] = Y[name].astype(float if isinstance(value, float) else object if isinstance(value, str | None) else Y[name].dtype)
        Y.loc[:4, name] = value
        assert quality_report(table(9), Y, SCHEMA).broken == {f"{name}: {rule}": 5 / 200}
    assert quality_report(table(9), table(8).assign(pressure=np.nan, color=None), SCHEMA).broken == report.broken == {}


def test_without_schema_numbers_are_measured_within_their_range():
    X, Y = (np.random.default_rng(seed).normal(50, 10, (200, 3)) for seed in (12, 13))
    ranges = {j: (float(min(X[:, j].min(), Y[:, j].min())), float(max(X[:, j].max(), Y[:, j].max()))) for j in range(3)}
    assert quality_report(X, Y) == quality_report(X, Y, ranges)


def test_constant_columns_and_single_rows_are_measured():
    found = quality_report(np.full((5, 2), 7.0), np.full((1, 2), 7.0))
    assert (found.wasserstein, set(found.marginals.values())) == (0.0, {0.0})
    assert quality_report([[1.0]], [[2.0]]).halves is None


def test_one_column_has_no_pairs():
    found = quality_report(np.arange(10.0)[:, None], np.arange(10.0)[:, None], target=None)
    assert (found.pairs, found.correlation_error, "pairs" in found.halves) == ({}, None, False)


def test_containers_and_chunks_agree(report):
    X, Y = table(0), table(1, 300)
    polars = [pl.DataFrame({name: rows[name].tolist() for name in rows}, strict=False).fill_nan(None) for rows in (X, Y)]
    for tables in (polars, ([X.iloc[:150], X.iloc[150:]], Y)):
        assert quality_report(*tables, SCHEMA, target="returned") == report


def test_large_tables_are_thinned_but_all_rows_are_held_against_the_rules_and_of_many_pairs_some_are_drawn(monkeypatch):
    monkeypatch.setattr(quality_module, "_MOST_ROWS", 100)
    monkeypatch.setattr(quality_module, "_MOST_PAIRS", 4)
    Y = table(14, 400)
    Y.loc[:39, "age"] = 120
    found = quality_report(table(15), Y, SCHEMA)
    assert (found.n_real, found.n_synthetic, len(found.pairs)) == (400, 400, 4)
    assert found.broken == {"age: out of bounds": 0.1}


def test_identifiers_are_left_out():
    X, Y = table(0).assign(id=range(400)), table(1)
    assert "id" not in quality_report(X, Y, {**SCHEMA, "id": Identifier()}).marginals


def test_text_says_that_it_is_not_private_what_is_worst_and_what_is_broken(report):
    for text in (str(report), repr(report), report._repr_html_()):
        assert "do not publish" in text
    Y = table(1).assign(age=18)
    Y.loc[:3, "stage"] = "gone"
    text = str(quality_report(table(0), Y, SCHEMA, target="returned"))
    drop = "Worst associations, real -> synthetic: age x pressure 0.9"
    for words in ("Worst columns: age ", drop, "stage: unknown level in 1.00% of rows", "Predicting 'returned'"):
        assert words in text


def test_notebook_table_escapes_names_and_closes_its_tags():
    found = quality_report([[0.0, 1], [1.0, 2]], [[0.0, 1], [1.0, 2]])
    odd = dataclasses.replace(found, marginals={"<b>": 0.1}, broken={"<i>: missing": 0.5})
    text = odd._repr_html_()
    assert "<b>" not in text
    assert "<i>" not in text
    opened = []

    class Reader(html.parser.HTMLParser):
        def handle_starttag(self, tag, attrs):
            opened.append(tag)

        def handle_endtag(self, tag):
            assert opened.pop() == tag

    Reader().feed(text)
    assert opened == []


def test_frame_holds_every_number(report):
    frame = report.to_frame()
    assert frame[frame["measure"] == "marginal"].set_index("what")["value"].to_dict() == report.marginals
    assert frame[frame["measure"] == "pair"]["value"].tolist() == list(report.pairs.values())
    assert frame[frame["measure"] == "roc_auc"]["value"].tolist() == list(report.auc.values())


def test_what_does_not_fit_is_named():
    for change, message in [
        ({"target": "weight"}, "target must be a column of schema, got 'weight'"),
        ({"random_state": -1}, "random_state must be a non-negative integer or None, got -1"),
        ({"schema": {"age": (0, 9)}}, "schema must name the columns of X"),
        ({"schema": None}, "X must hold numbers only.*give a schema"),
        ({"X_synthetic": table(1).head(0)}, "X_synthetic must have at least one row"),
        ({"X": table(1).head(3), "target": "returned"}, "X must have at least 4 rows with a target, got 3"),
        (
            {"X": np.zeros((4, 2)), "X_synthetic": np.zeros((4, 3)), "schema": None},
            "X and X_synthetic must have the same columns, got 2 and 3",
        ),
    ]:
        with pytest.raises((TypeError, ValueError), match=f"^{message}"):
            quality_report(**{"X": table(0), "X_synthetic": table(1), "schema": SCHEMA, **change})


# evaluate
SYNTHESIZERS = [cls for cls in all_estimators() if issubclass(cls, PrivateSynthesizer)]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("cls", SYNTHESIZERS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
def test_synthetic_rows_of_every_synthesizer_break_no_rule(cls, dtype, hasty, X):
    X = (X * 2).astype(dtype)
    found = cls(epsilon=1.0, bounds=(0, 1.1)).fit(X).evaluate(X)
    assert isinstance(found, QualityReport)
    assert found.broken == {}
    assert (found.n_real, found.n_synthetic) == (300, 300)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_evaluation_is_the_report_of_a_sample_by_a_schema_by_bounds_or_by_the_range_of_the_rows(hasty, X):
    partition = BinaryPartition(Box.from_bounds((0, 2), 3), 6)
    for model, rows, others, schema, target in [
        (PrivateMeasureMechanism(bounds=(0, 2)), X, X, dict.fromkeys(range(3), (0.0, 2.0)), None),
        (PrivateMeasureMechanism(partition=partition, bounds=(0, 2)), X, X, None, None),
        (LatentFactorSynthesizer(SCHEMA, delta=1e-6), table(0), table(1), SCHEMA, "returned"),
    ]:
        sample = model.fit(rows).sample(len(others), random_state=5)
        expected = quality_report(others, sample, schema, target=target, random_state=5)
        assert model.evaluate(others, target=target, random_state=5) == expected


def test_evaluation_costs_nothing_and_changes_nothing(X):
    model = PrivateMeasureMechanism().fit(X)
    before, spent = {**vars(model)}, model.accountant_.spent
    model.evaluate(X)
    assert (vars(model), model.accountant_.spent) == (before, spent)


def test_evaluation_before_fit_is_refused():
    with pytest.raises(NotFittedError):
        PrivateMeasureMechanism().evaluate(np.zeros((3, 1)))


def test_numbers_are_those_that_a_person_computes_of_both_tables(report):
    for rows, frame in (("real", table(0)), ("synthetic", table(1, 300))):
        for name in ("age", "pressure"):
            column = frame[name].dropna()
            found = getattr(report.numbers[name], rows)
            expected = {"mean": column.mean(), "deviation": column.std(ddof=0), "zeros": 0.0}
            expected |= {words: column.quantile(share, interpolation="lower") for words, share in (("median", 0.5), ("95 %", 0.95))}
            assert {key: found[key] for key in expected} == pytest.approx(expected, rel=0.01)
            assert found["far"] == (column > table(0)[name].dropna().quantile(0.999, interpolation="higher")).mean()
    assert set(report.numbers) == {"age", "pressure"}


def test_spans_of_an_inequality_stand_beside_its_columns_and_times_are_shown_as_moments():
    begin = np.datetime64("2024-01-01") + np.arange(100)
    frame = pd.DataFrame({"begin": begin, "end": begin + np.repeat([2, 7], [60, 40])})
    days = Date("2023-12-31", "2024-12-31")
    report = quality_report(frame, frame.head(50), Schema({"begin": days, "end": days}, rules=[Inequality("begin", "end")]))
    span = report.numbers["end - begin"]
    assert (span.real["mean"], span.real["median"], span.synthetic["mean"], span.unit) == (4.0, 2.0, 2.0, "days")
    assert report.numbers["begin"].format("median", "real") == "2024-02-19"
    assert "end - begin, days" in str(report)
    lines = {(line["measure"], line["what"]): line["value"] for line in report.to_records()}
    assert lines["mean of real rows", "end - begin"] == 4.0


BROKEN = pd.DataFrame(
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
    table = container(BROKEN) if callable(container) else tmp_path / "x.csv"
    if not callable(container):
        pytest.importorskip("pyarrow")
        BROKEN.to_csv(table, index=False)
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
        rule_violations(BROKEN[["a"]], Schema({"a": (0, 9), "b": (0, 9)}, rules=[Inequality("a", "b")]))


def test_a_schema_without_rules_has_nothing_to_break():
    assert rule_violations(BROKEN[["a"]], Schema({"a": (0, 9)})) == {}


def test_quality_reports_compare_computed_columns_too():
    schema = Schema({"a": (0, 9), "b": (0, 9), "t": (0, 18)}, rules=[Sum(["a", "b"], "t")])
    frame = pd.concat([BROKEN[["a", "b", "t"]]] * 30, ignore_index=True)
    report = quality_report(frame, frame.assign(t=0), schema)
    assert "rule" in str(report.broken)
