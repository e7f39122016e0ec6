"""Sums of rows about a centre, and how far one row moves them."""

from itertools import product

import numpy as np
import pytest

from skdpsynth.domain import Ball, Box
from skdpsynth.statistics import Sums

BOX = Box([0.0, -1.0], [1.0, 3.0])
RADII = [2.0**22, 2.0**20, 2.0**18, 2.0**10]


def rows_of(ball):
    """One row in the middle of each step of the grid within bounds, and the whole numbers it becomes."""
    places = np.array(list(product(*(range(low, high + 1) for low, high in zip(ball.least, ball.most, strict=True)))), dtype=float)
    X = ball.box.restore(places)
    return X, np.vstack([whole.copy() for _, whole in ball.chunks(X)])


@pytest.mark.parametrize("equal_units", [True, False])
@pytest.mark.parametrize("bits", [1, 2, 4])
@pytest.mark.parametrize("centre", [(0, 0), (3, -2), (-100, 100)])
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_the_change_of_the_sum_is_the_largest_over_all_rows_of_the_grid(equal_units, bits, centre, relation):
    ball = Ball.of(BOX, bits, equal_units).about(np.array(centre))
    X, whole = rows_of(ball)
    assert Sums.of(X, ball).total.tolist() == whole.sum(axis=0).tolist()
    moved = whole if relation == "add_or_remove_one" else (whole[:, None] - whole).reshape(-1, 2)
    change = Sums.change(relation, ball)
    seen = np.abs(moved).sum(axis=1).max(), (moved**2).sum(axis=1).max(), np.abs(moved).max()
    assert seen == (change.l1, change.l2_squared, change.sup)


def test_rows_count_in_full_however_long_they_are():
    X = np.random.default_rng(0).uniform(-1, 4, (100, 2))
    free = Ball.of(BOX, 10, True)
    sums, shrunk = Sums.of(X, free, RADII), Sums.of(X, free.within(10), RADII)
    assert np.array_equal(sums.total, shrunk.total)
    assert np.array_equal(sums.lengths.counts, shrunk.lengths.counts)
    assert sums.total.dtype == np.int64


def test_chunks_merged_with_plus_give_the_sums_of_the_whole():
    X, ball = np.random.default_rng(0).uniform(-1, 4, (100, 2)), Ball.of(BOX, 10, True)
    parts = (Sums.of(part, ball, RADII) for part in np.split(X, [0, 30, 31])[1:])
    whole, merged = Sums.of(X, ball, RADII), sum(parts, Sums.of(X[:0], ball, RADII))
    assert np.array_equal(whole.total, merged.total)
    assert np.array_equal(whole.lengths.counts, merged.lengths.counts)


def test_a_length_counts_between_the_radii_that_it_lies_between():
    X, ball = np.random.default_rng(0).uniform(-1, 4, (100, 2)), Ball.of(BOX, 10, True)
    squares = [int(row @ row) for _, whole in ball.chunks(X) for row in whole.copy()]
    lower = [*RADII[1:], -1.0]
    expected = [sum(low < square <= high for square in squares) for low, high in zip(lower, RADII, strict=True)]
    assert Sums.of(X, ball, RADII).lengths.counts.tolist() == expected
    assert sum(expected) == 100


def test_no_repr_shows_the_sums():
    assert "array" not in repr(Sums.of(np.ones((3, 2)), Ball.of(BOX, 4, True)))


def test_a_query_says_the_sum_and_its_change():
    X, ball = np.random.default_rng(0).random((10, 2)), Ball.of(BOX, 10, True)
    query = Sums.of(X, ball).query("add_or_remove_one", ball)
    assert query.change == Sums.change("add_or_remove_one", ball)
    assert np.array_equal(query.values, Sums.of(X, ball).total)
