"""How many rows have which length."""

import numpy as np

from skdpsynth.domain import Ball, Box
from skdpsynth.statistics import CountLengths

BOX = Box([0.0, -1.0], [1.0, 3.0])
RADII = np.array([2.0**22, 2.0**20, 2.0**18, 2.0**10])
X = np.random.default_rng(0).uniform(-1, 4, (100, 2))
BALL = Ball.of(BOX, 10, True)


def test_a_length_counts_between_the_radii_that_it_lies_between():
    squares = [int(row @ row) for _, whole in BALL.chunks(X) for row in whole.copy()]
    lower = [*RADII[1:], -1.0]
    expected = [sum(low < square <= high for square in squares) for low, high in zip(lower, RADII, strict=True)]
    assert CountLengths(BALL, RADII).of(X).counts.tolist() == expected
    assert sum(expected) == 100


def test_rows_count_in_full_however_they_are_shrunk():
    shrunk = CountLengths(BALL.within(10), RADII).of(X)
    assert np.array_equal(CountLengths(BALL, RADII).of(X).counts, shrunk.counts)


def test_the_cells_of_the_rows_are_those_in_which_they_are_counted():
    rule, cells = CountLengths(BALL, RADII), np.empty(100, dtype=np.uint8)
    counts = rule.add(rule.zero(), X, cells).counts
    assert np.bincount(cells, minlength=4).tolist() == counts.tolist()
    assert cells.tolist() == [int(np.argmax(rule.of(row[None]).counts)) for row in X]
