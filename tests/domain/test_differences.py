"""Which columns of numbers may be near each other by public facts, and the cells of their differences."""

import numpy as np
import pytest

from skdpsynth.domain import (
    Continuous,
    Date,
    DateTime,
    Impossible,
    Inequality,
    Schema,
    comparable,
    edges_of_differences,
    ordered_pairs,
    ties_of,
)
from skdpsynth.statistics import DifferencesOf


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
@pytest.mark.parametrize("least", [None, 0, 1, -30])
def test_cells_hold_every_difference_or_all_from_the_least_on(first, second, least):
    one, other = Continuous(*first), Continuous(*second)
    least = least if one.integer or least is None else 0.0
    edges = edges_of_differences(one, other) if least is None else edges_of_differences(one, other, least)
    assert np.all(np.diff(edges) > 0)
    assert ((len(edges) - 1) & (len(edges) - 2)) == 0  # a power of two
    assert other.high - one.low < edges[-1]
    if least is None:
        assert edges[0] <= other.low - one.high
        assert edges[(len(edges) - 1) // 2] == 0
    else:
        assert edges[0] == least
    if one.integer:
        assert np.all(edges == np.rint(edges))


def test_a_row_without_a_number_has_no_difference():
    edges = np.array([-2.0, 0.0, 2.0])
    chunk = [np.array([0.0, 1.0, np.nan, 1.0]), np.array([1.0, 0.0, 0.0, np.nan])]
    assert DifferencesOf.over([(0, 1)], [edges], True)(chunk)[0].tolist() == [1, 0, 2, 2]
    assert DifferencesOf.over([(0, 1)], [edges], False)(chunk)[0].tolist() == [1, 0, -1, -1]


KINDS = {"a": (0.0, 9.0), "b": (0.0, 8.0), "i": (0, 9), "j": (0, 9), "far": (8.0, 99.0)}
KINDS |= {"d": Date("2020-01-01", "2020-12-31"), "e": Date("2020-02-01", "2021-01-31"), "old": Date("2010-01-01", "2010-12-31")}
KINDS |= {"s": DateTime("2020-01-01", "2020-12-31", resolution="second")}


def test_pairs_that_one_inequality_alone_orders():
    for rules, found in [
        ([Inequality("a", "b")], {("a", "b"): 0}),
        ([Inequality("j", "i", strict=True)], {("j", "i"): 1}),
        ([Inequality("d", "e")], {("d", "e"): -31}),  # numbers of days since the lower bounds
        ([Inequality("d", "e", strict=True), Inequality("a", "b")], {("a", "b"): 0, ("d", "e"): -30}),
        *(([Inequality(*pair)], {}) for pair in [("old", "d"), ("a", "far"), ("d", "s"), ("i", "a")]),
        ([Inequality("a", "b"), Inequality("b", "far")], {}),
        ([Inequality("i", "j"), Impossible({"i": 3})], {}),
    ]:
        schema = Schema(KINDS, rules=rules)
        assert ordered_pairs(schema.coded, ties_of(schema, rules)) == found


def test_floats_that_are_rounded_each_in_its_way_have_no_least_difference():
    schema = Schema(KINDS, rules=[Inequality("a", "b"), Inequality("i", "j")])
    assert ordered_pairs(schema.coded, ties_of(schema, schema.rules, {"a": "<f4", "b": "<f8", "i": "<f4", "j": "<f8"})) == {("i", "j"): 0}
