"""Points in cells, and the order in which they are looked up."""

import numpy as np
import pytest

from skdpsynth.domain import Box
from skdpsynth.measures import BinaryPartition

WHOLE = Box.from_bounds((0, 100), 2, None, 16, np.array([True, False]))


@pytest.mark.parametrize("box", [Box(np.zeros(2), np.ones(2)), WHOLE], ids=["real", "whole"])
def test_a_point_depends_on_its_cell_and_its_number_not_on_where_it_stands(box):
    partition = BinaryPartition(box, 6)
    cells = np.repeat(np.arange(64), 3)
    placement = partition.placement(np.arange(64), np.full(64, 6))
    order, numbers = np.random.default_rng(0).permutation(192), np.arange(192, dtype=np.uint32)
    sorted_, shuffled = np.empty((2, 192, 2))
    near = placement.near(cells[:, None])[0]
    near.write(sorted_, np.arange(192), numbers, placement.offsets(np.random.default_rng(1)))
    near.write(shuffled, order, numbers[order], placement.offsets(np.random.default_rng(1)))
    np.testing.assert_array_equal(shuffled, sorted_[order])
    np.testing.assert_array_equal(partition.locate(shuffled), cells[order])


@pytest.mark.parametrize(("d", "level"), [(1, 17), (2, 13), (3, 26), (5, 20), (30, 25), (4, 0)])
def test_bits_of_a_cell_sorted_by_axis_are_its_corner(d, level):
    partition = BinaryPartition(Box(np.zeros(d), np.ones(d), bits=20), 26 if d > 1 else 20)
    cells = np.random.default_rng(d).integers(0, 2**level, 500)
    codes, expected = partition._by_axis(cells, level), np.zeros(500, dtype=np.int64)
    for corner, cuts in zip(partition.corners(cells, level), partition.cuts(level).tolist(), strict=True):
        expected = expected << cuts | corner
    np.testing.assert_array_equal(codes, expected)
