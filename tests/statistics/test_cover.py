"""Tables that are counted together."""

import math
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from internals import choose_joint_tables


@given(st.lists(st.integers(1, 300), min_size=2, max_size=9), st.data())
def test_each_wanted_table_is_part_of_exactly_one_counted_table(sizes, data):
    options = [(i,) for i in range(len(sizes))] + list(combinations(range(len(sizes)), 2))
    wanted = data.draw(st.lists(st.sampled_from(options), min_size=1))
    joints = choose_joint_tables(sizes, wanted)
    assert sorted(table for joint in joints for table in joint.tables) == list(range(len(wanted)))
    assert all(set(wanted[table]) <= set(joint.columns) for joint in joints for table in joint.tables)


def test_a_table_grows_only_as_long_as_it_is_small():
    sizes = [16] * 5 + [2, 3, 4, 5, 7, 9, 12, 16, 20, 300]
    wanted = list(combinations(range(len(sizes)), 2))
    joints = choose_joint_tables(sizes, wanted)
    assert all(len(joint.columns) == 2 or math.prod(sizes[i] for i in joint.columns) <= 1 << 13 for joint in joints)
    assert len(joints) < len(wanted) / 2


@pytest.mark.parametrize("stratum", [0, 3])
def test_a_column_in_all_wanted_tables_is_in_all_counted_ones(stratum):
    wanted = [(stratum, i, j) for i, j in combinations([i for i in range(6) if i != stratum], 2)]
    joints = choose_joint_tables([3] * 6, wanted)
    assert all(stratum in joint.columns for joint in joints)
    assert len(joints) < len(wanted)
