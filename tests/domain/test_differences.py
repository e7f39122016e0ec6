"""Which columns of numbers may be near each other by public facts, and the cells of their differences."""

import numpy as np
import pytest

from skdpsynth.domain import Continuous, Date, Schema, comparable, edges_of_differences
from skdpsynth.persistence import from_bytes, to_bytes
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
