"""Exact counts of all levels of a partition."""

import numpy as np
import pytest

from skdpsynth.domain import Box
from skdpsynth.measures import BinaryPartition
from skdpsynth.statistics import Histogram

PARTITION = BinaryPartition(Box(np.zeros(2), np.ones(2)), 5)


def rows(n, seed=0):
    return np.random.default_rng(seed).uniform(-0.1, 1.1, (n, 2))


@pytest.mark.parametrize("depth", [0, 1, 3, 5])
@pytest.mark.parametrize("n", [0, 1, 200])
def test_each_level_is_the_histogram_of_its_cells(n, depth):
    X = rows(n)
    levels = Histogram.over(PARTITION, 5 - depth).of(X).levels()
    assert len(levels) == depth + 1
    for level, counted in enumerate(histogram.counts for histogram in levels):
        cells = PARTITION.locate(X) >> (5 - level)
        np.testing.assert_array_equal(counted, Histogram.over_cells(2**level).of(cells).counts)
        assert counted.dtype == np.int64
