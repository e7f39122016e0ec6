"""Points that keep their number and their cell while they are shuffled."""

import numpy as np
import pytest

from skdpsynth.domain import Box
from skdpsynth.measures import BinaryPartition
from skdpsynth.measures._placement import numbered_points, points_of


def test_numbered_points_hold_their_cell_and_their_number_in_order():
    points = numbered_points(np.array([2, 0, 3]))
    assert (points >> 32).tolist() == [0, 0, 2, 2, 2]
    assert (points & 0xFFFFFFFF).tolist() == [0, 1, 2, 3, 4]


def test_points_of_a_list_of_cells_stand_in_its_order_and_follow_each_other_in_a_cell():
    which = np.array([1, 0, 2, 1, 0, 0])
    points = points_of(which)
    assert (points >> 32).tolist() == which.tolist()
    assert (points & 0xFFFFFFFF).tolist() == [3, 0, 5, 4, 1, 2]


@pytest.mark.parametrize(("d", "level"), [(1, 17), (2, 13), (3, 26), (5, 20), (30, 25), (4, 0)])
def test_bits_of_a_cell_sorted_by_axis_are_its_corner(d, level):
    partition = BinaryPartition(Box(np.zeros(d), np.ones(d), bits=20), 26 if d > 1 else 20)
    cells = np.random.default_rng(d).integers(0, 2**level, 500)
    codes, expected = partition._by_axis(cells, level), np.zeros(500, dtype=np.int64)
    for corner, cuts in zip(partition.corners(cells, level), partition.cuts(level).tolist(), strict=True):
        expected = expected << cuts | corner
    np.testing.assert_array_equal(codes, expected)
