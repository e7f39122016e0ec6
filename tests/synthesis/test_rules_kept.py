"""Samples keep the rules of a schema in every row: each kind, all at once, in every container, dtype and way of sampling."""

import functools
import math

import numpy as np
import pandas as pd
import pytest
from laws import refuses

from skdpsynth import LatentFactorSynthesizer, PrivacyAccountant
from skdpsynth.domain import (
    Continuous,
    Date,
    DateTime,
    Derived,
    Determines,
    Identifier,
    Impossible,
    Inequality,
    MissingTogether,
    Schema,
    Sum,
    Unique,
)
from skdpsynth.metrics import rule_violations

N = 1500
RNG = np.random.default_rng(0)


def fitted(frame, schema, **settings):
    # Much noise, so that codes which no real row has are drawn where nothing forbids them.
    return LatentFactorSynthesizer(schema, **{"epsilon": 0.5, "delta": 1e-6, "random_state": 0, **settings}).fit(frame)


def broken(table, schema):
    return {rule: found.rows for rule, found in rule_violations(table, schema).items() if found.rows}


def days(n=N, first="2024-01-01", spread=300):
    return np.datetime64(first) + RNG.integers(0, spread, n)


def whole(n_columns, most=10):
    return RNG.integers(0, most, (n_columns, N))


def some_missing(cells, share):
    return np.where(RNG.random(cells.shape) < share, np.nan, cells)


DIGIT, UNIT, YEAR = (0, 9), (0.0, 1.0), ("2024-01-01", "2024-12-31")
SPRING = "2024-01-01", "2024-03-31"
SEXES, KIN, WARDS = ["f", "m"], ["wife", "husband", "none"], ["p", "q", "r"]


# Of each kind a table that keeps its rules no better than by chance: what samples keep, they have from the rules alone.
CASES = {  # of each the kinds of the columns, the rules, and the columns
    "inequality of real numbers": ([UNIT, (-0.5, 0.9)], ["a <= b"], [RNG.random(N), RNG.random(N) - 0.5]),
    "strict inequality of whole numbers": ([(0, 5)] * 2, ["a < b"], whole(2, 6)),
    "inequality of floats of 32 and 64 bits": ([UNIT] * 2, ["a <= b"], [RNG.random(N).astype(np.float32), RNG.random(N)]),
    "inequality of whole and real numbers": ([(0.0, 9.0)] * 2, ["a <= b"], [RNG.integers(0, 10, N), 9 * RNG.random(N)]),
    "inequality of dates with other bounds": (
        *([("2023-05-01", "2024-12-31"), ("2023-01-01", "2025-06-30")], ["a <= b"]),
        [days(), days()],
    ),
    "strict inequality of a date and a time": (
        *([Date(*SPRING), DateTime(SPRING[0], SPRING[1] + "T23:59:59", resolution="minute", nullable=True)], ["a < b"]),
        [days(spread=90), days(spread=90).astype("M8[s]") + RNG.integers(0, 86400, N)],
    ),
    "chain of five": ([(0, 99)] * 5, ["a <= b", "b <= c", "c <= d", "d <= e"], whole(5, 100)),
    "tree of inequalities": (
        *([Continuous(0.0, 9.0, nullable=True)] * 4, ["a <= b", "a <= c", "c <= d", "b <= d"]),
        some_missing(9 * RNG.random((4, N)), 0.1),
    ),
    "sum within bounds": ({"a": DIGIT, "b": DIGIT, "t": (4, 12)}, [Sum(["a", "b"], "t")], whole(3)),
    "sum of real numbers": (
        {"a": (-1.0, 9.0), "b": Continuous(0.0, 9.0, nullable=True), "t": Continuous(0.0, 10.0, nullable=True)},
        *([Sum(["a", "b"], "t")], [9 * RNG.random(N), (9 * RNG.random(N)).astype(np.float32), RNG.random(N)]),
    ),
    "sum of ordered parts": ({"a": DIGIT, "b": DIGIT, "t": (6, 12)}, [Sum(["a", "b"], "t"), "a < b"], whole(3)),
    "sum of a sum": (
        *({"a": DIGIT, "b": DIGIT, "c": DIGIT, "t": (0, 18), "u": (0, 20)}, [Sum(["t", "c"], "u"), Sum(["a", "b"], "t")]),
        whole(5),
    ),
    "impossible levels": (
        *([SEXES, KIN], [Impossible({"a": "m", "b": "wife"}), Impossible({"a": "f", "b": "husband"})]),
        [RNG.choice(SEXES, N), RNG.choice(KIN, N)],
    ),
    "impossible ranges of 32 bits": (
        *([UNIT] * 2, [Impossible({"a": (0.1, 0.3), "b": [(None, 0.2), (0.7, None)]})]),
        RNG.random((2, N)).astype(np.float32),
    ),
    "impossible dates and missing cells": (
        [Date(*YEAR, nullable=True), Continuous(0, 9, nullable=True)],
        [Impossible({"a": None, "b": (0, 3)}), Impossible({"a": ("2024-02-01", "2024-05-15"), "b": None})],
        [pd.Series(days()).mask(RNG.random(N) < 0.3), pd.Series(RNG.integers(0, 10, N)).mask(RNG.random(N) < 0.3)],
    ),
    "one column": ([DIGIT] * 2, [Impossible({"a": (3, 5)})], whole(2)),
    "determined level": (
        *([WARDS, ["x", "y"]], [Determines("a", "b", {"p": "x", "q": "y", "r": "y"})]),
        [RNG.choice(WARDS, N), RNG.choice(["x", "y"], N)],
    ),
    "determined by two": (
        *([["x", "y"], ["p", "q"], DIGIT], [Determines(["a", "b"], "c", {("x", "p"): 1, ("x", "q"): 2, ("y", "p"): 3})]),
        [RNG.choice(["x", "y"], N), RNG.choice(["p", "q"], N), RNG.integers(0, 10, N)],
    ),
    "missing together": ([Continuous(0, 9, nullable=True)] * 3, [MissingTogether(["a", "b", "c"])], some_missing(whole(3), 0.3)),
    "key": ([(0, 2000), DIGIT], [Unique("a")], [RNG.integers(0, 50, N), RNG.integers(0, 10, N)]),
    "key of two": ([(1, 600), WARDS], [Unique(["b", "a"])], [RNG.integers(1, 30, N), RNG.choice(WARDS, N, p=[0.9, 0.05, 0.05])]),
    "key of very many": ([(0, 10**9), DIGIT], [Unique("a")], [np.zeros(N, dtype=int), RNG.integers(0, 10, N)]),
    "derived": (
        *([(0.0, 9.0), (0.0, 9.0), Derived("a / (b + 1) ** 2", bounds=(0.5, 4))], []),
        [9 * RNG.random(N).astype(np.float32), 9 * RNG.random(N), np.zeros(N)],
    ),
    "derived from dates, in whole days": ([YEAR, YEAR, Derived("b - a")], ["a <= b"], [days(), days(), np.zeros(N, dtype=np.int32)]),
}


def case_of(name):
    kinds, rules, table = CASES[name]
    kinds = kinds if isinstance(kinds, dict) else dict(zip("abcde", kinds, strict=False))
    return pd.DataFrame(dict(zip(kinds, table, strict=True))), Schema(kinds, rules=rules)


@pytest.mark.parametrize("name", list(CASES))
@pytest.mark.usefixtures("hasty")
def test_every_row_of_a_sample_keeps_every_rule(name):
    """In a table that keeps its rules no better than by chance: what samples keep, they have from the rules alone."""
    frame, schema = case_of(name)
    assert broken(frame, schema)  # the law can fail
    sample = fitted(frame, schema).sample(random_state=1)
    assert broken(sample, schema) == {}
    # What a schema says of single columns holds too.
    assert {each.problem for each in schema.check(sample)} <= {"constant"}


def test_arrays_keep_rules():
    X = RNG.integers(0, 10, (N, 4))
    schema = Schema({0: (0, 9), 1: (0, 9), 2: (0, 18), 3: Derived("x0 * x1")}, rules=[Inequality(0, 1), Sum([0, 1], 2)])
    sample = fitted(X, schema).sample(random_state=0)
    np.testing.assert_array_equal(sample[:, 2], sample[:, 0] + sample[:, 1])
    np.testing.assert_array_equal(sample[:, 3], sample[:, 0] * sample[:, 1])
    assert (sample[:, 0] <= sample[:, 1]).all()


TWELVE = Schema(
    {
        "patient": (0, 5000),
        "born": Date("1930-01-01", "2024-12-31"),
        "arrived": Date("2020-01-01", "2024-12-31"),
        "left": DateTime("2020-01-01", "2024-12-31T23:59", resolution="minute", nullable=True),
        "sex": ["f", "m"],
        "ward": ["birth", "child", "heart"],
        "floor": (1, 3),
        "age": (0, 99),
        "systolic": Continuous(60.0, 250.0, nullable=True),
        "diastolic": Continuous(30.0, 150.0, nullable=True),
        "drugs": (0, 900),
        "food": (0, 900),
        "cost": (0, 1500),
        "kg": (2.0, 200.0),
        "cm": (40.0, 220.0),
        "bmi": Derived("kg / (cm / 100) ** 2"),
    },
    rules=[
        Unique("patient"),
        Inequality("born", "arrived"),
        Inequality("arrived", "left"),
        Impossible({"ward": "birth", "sex": "m"}),
        Impossible({"ward": "birth", "age": [(None, 11), (60, None)]}),
        Impossible({"ward": "child", "age": (18, None)}),
        Determines("ward", "floor", {"birth": 1, "child": 1, "heart": 3}),
        MissingTogether(["systolic", "diastolic"]),
        Inequality("diastolic", "systolic"),
        Sum(["drugs", "food"], "cost"),
        Impossible({"ward": "child", "systolic": (200, None)}),
    ],
)


def patients(n=N):
    rng = np.random.default_rng(3)
    gone = rng.random(n) < 0.2
    born = np.datetime64("1930-01-01") + rng.integers(0, 30000, n)
    arrived = np.datetime64("2020-01-01") + rng.integers(0, 1800, n)
    left = pd.Series(arrived.astype("M8[s]") + rng.integers(0, 10**6, n)).mask(rng.random(n) < 0.1)
    columns = {"patient": rng.integers(0, 5000, n), "born": born, "arrived": arrived, "left": left, "sex": rng.choice(["f", "m"], n)}
    columns |= {"ward": rng.choice(["birth", "child", "heart"], n), "floor": rng.integers(1, 4, n), "age": rng.integers(0, 100, n)}
    pressure = {name: np.where(gone, np.nan, rng.normal(*law, n)) for name, law in {"systolic": (125, 15), "diastolic": (80, 12)}.items()}
    costs = {name: rng.integers(0, most, n) for name, most in {"drugs": 900, "food": 900, "cost": 1500}.items()}
    return pd.DataFrame(
        {**columns, **pressure, **costs, "kg": rng.normal(75, 15, n), "cm": rng.normal(170, 10, n), "bmi": np.full(n, 20.0)}
    )


@pytest.fixture(scope="module", params=[None, "ward"])
def ward_model(request):
    return fitted(patients(), TWELVE, stratify=request.param)


def test_twelve_rules_hold_at_once(ward_model):
    sample = ward_model.sample(5001, random_state=0)  # as many as there are patients
    assert len(TWELVE.rules) + 1 == len(rule_violations(sample, TWELVE)) == 12
    assert broken(sample, TWELVE) == {}


def test_batches_and_files_are_the_rows_of_one_sample_and_keep_rules_across_batches(ward_model, tmp_path):
    pytest.importorskip("pyarrow")  # reads files of CSV
    whole = ward_model.sample(4900, random_state=0)
    parts = pd.concat(ward_model.sample_batches(4900, 700, random_state=0), ignore_index=True)
    pd.testing.assert_frame_equal(parts, whole)
    path = ward_model.sample(4900, random_state=0, out=tmp_path / "rows.csv")
    assert broken(path, TWELVE) == {}


def test_more_rows_than_keys_are_refused_before_any_is_drawn(ward_model, tmp_path):
    into_file = functools.partial(ward_model.sample, out=tmp_path / "rows.csv")
    for draw in (ward_model.sample, ward_model.sample_batches, into_file):
        refuses(ValueError, r"n_samples must be at most 5001, .*'patient'.*got 5002", draw, 5002)
    assert not (tmp_path / "rows.csv").exists()


def test_rules_cost_nothing_and_determined_columns_are_not_counted():
    frame, schema = case_of("determined level")
    with_rules, without = fitted(frame, schema), fitted(frame, Schema(dict(schema)))
    assert float(with_rules.accountant_.spent) == float(without.accountant_.spent)
    steps = [[entry.name for entry in model.accountant_.ledger] for model in (with_rules, without)]
    assert steps == [["counts of columns"], ["counts of columns", "counts of pairs"]]
    assert set(with_rules.marginals_) == {("a",)}


@pytest.mark.parametrize("neighboring", ["replace_one", "add_or_remove_one"])
def test_rows_that_break_rules_are_counted_as_they_are(neighboring):
    frame, schema = case_of("impossible levels")
    settings = {"epsilon": math.inf, "delta": 0, "neighboring": neighboring}
    with_rules, without = fitted(frame, schema, **settings), fitted(frame, Schema(dict(schema)), **settings)
    for key, counts in without.marginals_.items():
        np.testing.assert_array_equal(with_rules.marginals_[key], counts)
    assert with_rules.n_samples_ == N


@pytest.mark.usefixtures("hasty")
def test_columns_that_rules_tie_share_a_block_of_a_wide_table():
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(rng.integers(0, 4, (400, 44)), columns=[f"c{i}" for i in range(44)])
    rules = [Inequality("c0", "c43"), Impossible({"c20": 3, "c0": 0}), Impossible({"c5": (0, 1), "c30": (2, 3)})]
    schema = Schema(dict.fromkeys(frame, (0, 3)), rules=rules)
    model = fitted(frame, schema)
    assert any({0, 20, 43} <= set(block) for block in model._model.blocks)
    assert broken(model.sample(2000, random_state=0), schema) == {}


def test_a_stratum_that_rules_exclude_is_never_drawn_and_labels_of_identifiers_are_keys():
    frame = pd.DataFrame({"id": np.arange(N), "a": RNG.choice(["x", "y", "z"], N), "b": RNG.integers(0, 10, N)})
    rules = [Impossible({"a": "y"}), Impossible({"a": "z", "b": (5, 9)}), Unique("id")]
    schema = Schema({"id": Identifier(labels=True), "a": ["x", "y", "z"], "b": (0, 9)}, rules=rules)
    sample = fitted(frame, schema, stratify="a").sample(3 * N, random_state=0)
    assert set(sample["a"]) == {"x", "z"}
    assert sample["id"].is_unique
    assert broken(sample, schema) == {}


def test_a_key_is_replaced_among_rows_that_share_the_rest_of_it():
    frame, schema = case_of("key of two")
    sample = fitted(frame, schema, epsilon=math.inf, delta=0).sample(600, random_state=0)
    # Nine of ten rows are of ward p, which has room for 600: keys change, and hardly one moves to another ward.
    without = fitted(frame, Schema(dict(schema)), epsilon=math.inf, delta=0).sample(600, random_state=0)
    assert (sample["b"] == "p").sum() == (without["b"] == "p").sum()


def test_private_levels_go_with_rules_on_other_columns():
    frame = pd.DataFrame({"a": RNG.integers(0, 10, N), "b": RNG.integers(0, 10, N), "c": 50 * RNG.random(N)})
    schema = Schema({"a": (0, 9), "b": (0, 9), "c": Continuous(bounds="private")}, rules=[Inequality("a", "b")])
    sample = fitted(frame, schema).sample(1000, random_state=0)
    assert (sample["a"] <= sample["b"]).all()


def test_the_published_route_refuses_rules_that_it_cannot_keep():
    frame, schema = case_of("strict inequality of whole numbers")
    refuses(ValueError, "no rules but those that compute columns", fitted, frame, schema, strategy="scores", delta=0)
    frame, schema = case_of("sum of a sum")
    schema = Schema({**schema, "u": (0, 27)}, rules=schema.rules)
    assert broken(fitted(frame, schema, strategy="scores", delta=0).sample(500, random_state=0), schema) == {}


CONDITIONS = [
    {"ward": "birth", "arrived": ("2021-06-01", None)},
    {"left": ("2021-03-01", "2022-03-05")},
    {"sex": "m", "systolic": None},
    {"age": list(range(0, 60, 3)), "patient": (0, 999)},
    {"arrived": ("2021-01-01", "2021-12-31"), "left": ("2020-06-01", "2021-06-30")},
]


@pytest.mark.parametrize("conditions", CONDITIONS)
def test_rows_on_conditions_keep_rules(ward_model, conditions):
    sample = ward_model.sample(900, random_state=0, conditions=conditions)
    assert broken(sample, TWELVE) == {}
    for name, wanted in conditions.items():
        cells = sample[name].astype(str).str[:10] if name in ("arrived", "left") else sample[name]
        if isinstance(wanted, tuple):
            low, high = (cells.min() if end is None else end for end in wanted)
            assert ((cells >= low) & (cells <= max(high, cells.max() if wanted[1] is None else high))).all()
        elif isinstance(wanted, list):
            assert cells.isin(wanted).all()
        else:
            assert (cells.isna() if wanted is None else cells == wanted).all()


def test_conditions_on_single_numbers_that_rules_compare_hold():
    schema, conditions = Schema(dict.fromkeys("abc", (0, 59)), rules=["a < b", "b <= c"]), {"a": [3, 4, 20, 50], "b": [1, 4, 5, 21, 49, 51]}
    sample = fitted(pd.DataFrame(whole(3, 60).T, columns=list("abc")), schema).sample(
        2000, random_state=0, conditions={**conditions, "c": (0, 52)}
    )
    assert broken(sample, schema) == {}
    assert all(sample[name].isin(values).all() for name, values in conditions.items())
    assert (sample["c"] <= 52).all()


@pytest.mark.parametrize(("name", "inputs"), [("cost", "'drugs', 'food'"), ("bmi", "'kg', 'cm'")])
def test_conditions_on_computed_columns_are_refused(ward_model, name, inputs):
    refuses(ValueError, f"{name!r} follows from {inputs}; name these", ward_model.sample, 9, conditions={name: 1})


def test_cells_of_rows_with_eleven_rules_are_filled_so_that_they_hold(ward_model):
    rows = ward_model.sample(200, random_state=4).drop(columns="bmi")  # which tells nothing of what it is computed from
    rows = rows.where(np.random.default_rng(0).random(rows.shape) > 0.4)
    filled = ward_model.impute(rows, random_state=0)
    assert broken(filled, TWELVE) == {}
    assert all((filled[name][rows[name].notna()] == rows[name].dropna()).all() for name in rows)


@pytest.mark.parametrize("values", [pd.array(["x"] * 100, "string"), pd.date_range("2024-01-01", periods=100)], ids=["words", "times"])
def test_a_derived_column_that_cannot_hold_numbers_is_refused_before_any_charge(values):
    budget = PrivacyAccountant(1)
    schema = Schema({"a": (0, 99), "twice": Derived("a * 2")})
    with pytest.raises(TypeError, match="column 'twice' is Derived and comes back as numbers"):
        LatentFactorSynthesizer(schema, accountant=budget).fit(pd.DataFrame({"a": range(100), "twice": values}))
    assert budget.spent == 0
