"""Points in cells, and the order in which they are looked up."""

import numpy as np
import pytest
from internals import _kronecker_steps
from internals import placement_Numbers as Numbers

from skdpsynth.domain import Box
from skdpsynth.measures import BinaryPartition

WHOLE = Box.from_bounds((0, 100), 2, None, 16, np.array([True, False]))


@pytest.mark.parametrize("box", [Box(np.zeros(2), np.ones(2)), WHOLE], ids=["real", "whole"])
def test_a_point_depends_on_its_cell_and_its_number_not_on_where_it_stands(box):
    partition = BinaryPartition(box, 6)
    cells = np.repeat(np.arange(64), 3)
    placement = partition.placement(np.arange(64), np.full(64, 6))
    order = np.random.default_rng(0).permutation(192)
    sorted_, shuffled = np.empty((2, 192, 2))
    near = placement.near(cells[:, None])[0]
    near.write(sorted_, np.arange(192), Numbers(0, 1), placement.offsets(np.random.default_rng(1)))
    near.write(shuffled, order, Numbers(0, 1), placement.offsets(np.random.default_rng(1)))
    np.testing.assert_array_equal(shuffled, sorted_[order])
    np.testing.assert_array_equal(partition.locate(shuffled), cells[order])


@pytest.mark.parametrize(("d", "level"), [(1, 17), (2, 13), (3, 26), (5, 20), (30, 25), (4, 0)])
def test_bits_of_a_cell_sorted_by_axis_are_its_corner(d, level):
    partition = BinaryPartition(Box(np.zeros(d), np.ones(d), bits=20), 26 if d > 1 else 20)
    cells = np.random.default_rng(d).integers(0, 2**level, 500)
    expected = np.zeros(500, dtype=np.int64)
    for position in sorted(range(level), key=lambda position: (position % d, position)):  # halvings go over the axes in turn
        expected = expected << 1 | cells >> (level - 1 - position) & 1
    np.testing.assert_array_equal(partition._sort_bits_by_axis(cells, level), expected)


@pytest.mark.parametrize("spread", [True, False])
@pytest.mark.parametrize(
    "box",
    [Box([0, -3.5, 2], [1, 8, 2.25]), WHOLE, Box([-1e-297], [1e-297], bits=30), Box(-np.arange(1.0, 31), np.ones(30))],
    ids=["three", "whole", "narrow", "wide"],
)
def test_points_are_offsets_in_their_cells_to_the_last_bit(box, spread):
    # What a point is by its cell, its number and the random part, in plain floating point: corner and offset in steps of the finest grid.
    partition = BinaryPartition(box, 20, spread=spread)
    rng = np.random.default_rng(0)
    levels = rng.integers(15, 21, 300)
    cells, order = rng.integers(2**levels), rng.permutation(300)
    X = np.empty((300, box.n_features))
    placement = partition.placement(cells, levels)
    placement.near(np.arange(300)[:, None])[0].write(X, order, Numbers(7, 2**31 + 11), placement.offsets(np.random.default_rng(1)))
    offsets, numbers = np.random.default_rng(1), 7 + np.arange(300, dtype=np.int64) * (2**31 + 11)
    shifts = offsets.integers(2**32, size=box.n_features, dtype=np.uint32) if spread else None
    for axis, cuts in enumerate(partition.cuts(20).tolist()):
        if spread:
            parts = (numbers * int(_kronecker_steps(box.n_features)[axis]) + int(shifts[axis]))[order] % 2**32
        else:
            parts = offsets.integers(2**32, size=300, dtype=np.uint32)
        side = 2.0 ** (cuts - np.array([partition.cuts(level)[axis] for level in levels]))
        corner = np.array([partition.corners([cell], level)[axis][0] for cell, level in zip(cells, levels, strict=True)]) * side
        expected = (parts * (side * 2.0**-32)[order] + corner[order]) * (box.width[axis] / 2.0**cuts) + box.low[axis]
        if not box.whole[axis]:
            np.testing.assert_array_equal(X[:, axis], np.minimum(expected, box.high[axis]))
