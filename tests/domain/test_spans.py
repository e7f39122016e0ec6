"""Rows with spans and back, and which columns of numbers may be near each other: cells of their differences."""

import numpy as np
import pytest

from skdpsynth.domain import (
    AllowedCells,
    Continuous,
    Date,
    DateTime,
    Impossible,
    Inequality,
    MissingTogether,
    Schema,
    Sum,
    comparable,
    edges_of_differences,
    spans_of,
    with_spans,
)
from skdpsynth.persistence import from_bytes, to_bytes
from skdpsynth.statistics import DifferencesOf

DAYS = Date("2020-01-01", "2020-12-31", nullable=True)
KINDS = {"a": Continuous(0, 60, nullable=True), "b": Continuous(0, 60, nullable=True), "c": Continuous(0, 60, nullable=True)}
KINDS |= {
    "real": Continuous(0.0, 60.0, nullable=True),
    "both": Continuous(0, 120, nullable=True),
    "day": DAYS,
    "later": Date("2020-02-01", "2021-01-31", nullable=True),
}
KINDS |= {"second": DateTime("2020-01-01", "2020-12-31", resolution="second"), "long ago": Date("2010-01-01", "2010-12-31")}
CHAIN, FORK = [Inequality("a", "b"), Inequality("b", "c")], [Inequality("a", "b"), Inequality("a", "c", strict=True)]


def schema_of(rules):
    named = {name for rule in rules for name in rule.columns_named}
    return Schema({name: kind for name, kind in KINDS.items() if name in named}, rules=rules)


@pytest.mark.parametrize(
    ("rules", "larger"),
    [
        (CHAIN, {"b", "c"}),
        (FORK, {"b", "c"}),
        ([Inequality("a", "real")], {"real"}),
        ([Inequality("real", "a")], set()),  # no span of real numbers ends at whole ones
        ([Inequality("day", "later", strict=True)], {"later"}),
        ([Inequality("day", "second")], set()),
        ([Inequality("a", "c"), Inequality("b", "c")], set()),
        ([*CHAIN, Impossible({"c": 3})], set()),  # b is compared with the number of c
        ([*CHAIN, Impossible({"a": 3})], set()),
        ([Inequality("a", "b"), MissingTogether(["a", "b"])], {"b"}),
        ([Inequality("a", "b"), MissingTogether(["a", "c"])], set()),  # a span tells that a is missing, and the code of a does not
        ([Inequality("a", "b"), MissingTogether(["b", "c"])], set()),
        ([Inequality("a", "b"), MissingTogether(["a", "b", "c"])], {"b"}),
        ([Inequality("a", "b"), Sum(["b", "c"], "both")], {"b"}),
        ([Inequality("a", "b"), Sum(["b", "c"], "real")], {"b"}),
        ([Inequality("long ago", "day")], {"day"}),
    ],
)
def test_larger_columns_that_no_other_rule_names_are_spans(rules, larger):
    schema = schema_of(rules)
    spans = spans_of(schema)
    assert {edge.high for edge in spans.edges} == larger
    coded = with_spans(schema.coded, spans)
    assert {name for name, kind in coded.items() if type(kind).__name__ == "Span"} == larger
    assert [rule for rule in coded.rules if isinstance(rule, Inequality) and rule.high in larger] == []
    # A span of -1 says that the smaller column alone is missing, which a rule may exclude.
    together = [set(rule.columns) for rule in rules if isinstance(rule, MissingTogether)]
    assert all(coded[edge.high].low == -edge.may_miss for edge in spans.edges)
    assert not any(edge.may_miss and {edge.low, edge.high} <= group for edge in spans.edges for group in together)


@pytest.mark.parametrize(
    "rules", [CHAIN, FORK, [Inequality("a", "real")], [Inequality("day", "later")]], ids=["chain", "fork", "real", "dates"]
)
def test_rows_that_keep_the_rules_come_back_as_they_were(rules):
    """Also where cells are missing, all of them, none or some; each number is tried beside each other one."""
    schema, rng = schema_of(rules), np.random.default_rng(0)
    spans, names, n = spans_of(schema), list(schema), 20_000
    columns = {name: rng.integers(40, 61, n) + (rng.random(n) if name == "real" else 0.0) for name in names}
    keeps = np.ones(n, dtype=bool)
    for edge in spans.edges:
        is_strict = any(rule.strict for rule in rules if rule.columns_named == (edge.low, edge.high))
        keeps &= columns[edge.low] + edge.apart + is_strict <= columns[edge.high]
    for name in names:
        columns[name] = np.where(rng.random(n) < 0.3, np.nan, np.clip(columns[name], schema[name].coded.low, schema[name].coded.high))
    rows = [column[keeps] for column in columns.values()]
    assert keeps.sum() > 1000
    coded = with_spans(schema.coded, spans)
    made = spans(rows)
    for name, column in zip(names, made, strict=True):
        assert np.all(np.isnan(column) | ((column >= coded[name].low) & (column <= coded[name].high)))
    for now, then in zip(spans.decode(made), rows, strict=True):
        np.testing.assert_allclose(now, then, atol=1e-9)


def test_what_breaks_a_rule_comes_back_as_the_nearest_row_that_keeps_it():
    spans = spans_of(schema_of([Inequality("a", "b", strict=True)]))
    assert [column.tolist() for column in spans.decode(spans([np.array([9.0, 60.0, 7.0]), np.array([3.0, 60.0, 7.0])]))] == [
        [9, 59, 7],
        [10, 60, 8],
    ]


def test_conditions_on_columns_are_narrowest_among_spans():
    spans = spans_of(schema_of(CHAIN))
    rows = [np.array(column) for column in ([1.0, np.nan, 2.0], [4.0, 5.0, np.nan], [9.0, np.nan, 8.0])]
    made = spans(rows)
    for wanted, met in [
        ({"b": AllowedCells(4.0, 4.0)}, [True, False, False]),
        ({"a": AllowedCells(among=np.empty(0), missing=True)}, [False, True, False]),
        ({"b": AllowedCells(0.0, 4.0, missing=True), "c": AllowedCells(8.0, 9.0)}, [True, False, True]),
    ]:
        assert spans.meets(made, wanted).tolist() == met
        for name, want in spans.hull(wanted).items():  # no row that meets them is left out
            column = made[spans.names.index(name)]
            assert want.of(column)[np.array(met)].all()


def test_columns_on_one_scale_are_comparable():
    day = Date("2020-01-01", "2020-12-31")
    schema = Schema({"a": day, "b": day, "c": (0.0, 10.0), "d": (1.0, 12.0), "e": (0.0, 100.0), "f": ["x", "y"], "g": (0, 10)}).coded
    assert comparable(schema) == [("a", "b"), ("c", "d")]
    assert comparable(schema, {"a"}) == [("c", "d")]


def test_bounds_that_many_columns_have_tell_nothing():
    assert len(comparable(Schema(dict.fromkeys(range(10), (0.0, 1.0))))) == 45
    assert comparable(Schema(dict.fromkeys(range(11), (0.0, 1.0)))) == []


RANGES = [((0, 1826), (-30, 1826)), ((0, 1), (0, 1)), ((-5, 9), (0, 12)), ((0, 10**9), (0, 10**9))]
RANGES += [((0.0, 1.0), (-1.0, 0.7)), ((1e5, 9e5), (0.0, 1e6))]


@pytest.mark.parametrize(("first", "second"), RANGES)
def test_cells_hold_every_difference(first, second):
    one, other = Continuous(*first), Continuous(*second)
    edges = edges_of_differences(one, other)
    assert np.all(np.diff(edges) > 0)
    assert ((len(edges) - 1) & (len(edges) - 2)) == 0  # a power of two
    assert edges[0] <= other.low - one.high
    assert other.high - one.low < edges[-1]
    assert edges[(len(edges) - 1) // 2] == 0
    if one.integer:
        assert np.all(edges == np.rint(edges))


def test_a_row_without_a_number_has_no_difference():
    edges = np.array([-2.0, 0.0, 2.0])
    chunk = [np.array([0.0, 1.0, np.nan, 1.0]), np.array([1.0, 0.0, 0.0, np.nan])]
    assert DifferencesOf.over([(0, 1)], [edges], True)(chunk)[0].tolist() == [1, 0, 2, 2]
    assert DifferencesOf.over([(0, 1)], [edges], False)(chunk)[0].tolist() == [1, 0, -1, -1]


def test_a_map_whose_outer_cells_have_no_end_travels_to_where_rows_are():
    step = DifferencesOf.over([(0, 1)], [np.array([-np.inf, 0.0, np.inf])], True)
    chunk = [np.array([0.0, 1.0, np.nan]), np.array([5.0, -1e300, 1.0])]
    assert from_bytes(to_bytes(step), "step")(chunk)[0].tolist() == step(chunk)[0].tolist() == [1, 0, 2]
