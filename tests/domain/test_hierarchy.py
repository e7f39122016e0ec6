"""A hierarchy is a public tree, and says which columns follow from the smallest areas."""

import numpy as np
import pandas as pd
import pytest
from laws import refuses

from skdpsynth.domain import Hierarchy, MixedTypeEncoder, Schema
from skdpsynth.persistence import from_bytes, to_bytes

TREE = {"A": {"a": ["1", "2", "3"], "b": ["4"]}, "B": {"c": ["5", "6"]}}
PLACES = Hierarchy(["state", "county", "tract"], TREE)


def test_areas_in_one_area_stand_together_and_parents_say_where():
    assert PLACES.areas == (("A", "B"), ("a", "b", "c"), ("1", "2", "3", "4", "5", "6"))
    assert [parents.tolist() for parents in PLACES.parents] == [[0, 0], [0, 0, 1], [0, 0, 0, 1, 2, 2]]
    assert PLACES.smallest.tolist() == [[0] * 6, [0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 2, 2], list(range(6))]


def test_larger_areas_follow_from_the_smallest_where_a_table_has_them():
    kinds, rules = PLACES.columns(["tract", "income", "state"])
    assert list(kinds) == ["tract", "state"]
    assert rules[0].mapping == {"1": "A", "2": "A", "3": "A", "4": "A", "5": "B", "6": "B"}
    assert list(Schema({**kinds, "income": (0, 9)}, rules).coded) == ["tract", "income"]


@pytest.mark.parametrize(("default", "expected"), [(None, "1"), ("5", "5")])
def test_an_unknown_area_is_the_default(default, expected):
    kinds, _ = Hierarchy(["state", "county", "tract"], TREE, default).columns(["tract"])
    encoder = MixedTypeEncoder({**kinds, "income": (0, 9)})
    table = pd.DataFrame({"tract": ["6", "nowhere", None], "income": 1.0})
    back = encoder.fit(table).inverse_transform(encoder.transform(table))
    assert back["tract"].tolist() == ["6", expected, expected]


def test_one_level_is_a_list_and_whole_numbers_are_areas_too():
    places = Hierarchy(["ward"], [3, 1, 2])
    assert places.areas == ((3, 1, 2),)
    np.testing.assert_array_equal(places.smallest, [[0, 0, 0], [0, 1, 2]])


def test_its_text_is_short_however_many_areas_it_has():
    places = Hierarchy(["county", "town"], {f"c{k}": [f"c{k}t{i}" for i in range(90)] for k in range(20)})
    assert repr(places) == "<Hierarchy: 20 of 'county', 1800 of 'town'>"


def test_it_comes_back_from_a_file():
    assert from_bytes(to_bytes(PLACES)) == PLACES


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([], []), "levels must be a list of columns, the largest areas first"),
        ((["a", "a"], TREE), "levels must be a list of columns, the largest areas first"),
        (([1, "1"], TREE), "whose names differ as text"),
        ((["whole"], ["1", "2"]), "whose names differ as text"),
        ((["county", "tract"], TREE), "tree must have one depth"),
        ((["state", "county", "tract"], {"A": ["1"]}), "tree must have one depth"),
        ((["tract"], []), "tree must have one depth"),
        ((["tract"], ["1", 2]), "tree must have areas that are all text or all whole numbers"),
        ((["county", "tract"], {"a": ["1", "2"], "b": ["1"]}), "tree must name each area of 'tract' once"),
        ((["tract"], ["1", "2"], "3"), "default must be one of the smallest areas"),
    ],
)
def test_a_tree_that_is_none_is_refused(arguments, words):
    refuses(ValueError, words, Hierarchy, *arguments)


def test_a_table_without_the_smallest_areas_is_refused():
    refuses(ValueError, "X must have the column 'tract'", PLACES.columns, ["state"])
    refuses(ValueError, "at least two areas on each level", Hierarchy(["a", "b"], {"x": ["y", "z"]}).columns, ["a", "b"])
