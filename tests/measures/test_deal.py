"""Points dealt to blocks: each has an even share, and together they are one sample."""

import numpy as np
import pytest
from internals import _measure
from test_measure import Circle

from skdpsynth.domain import Box
from skdpsynth.measures import BinaryPartition, DiscreteMeasure, Lattice


class Fine(Circle):
    depth = 8


PARTITIONS = {
    "box": BinaryPartition(Box(np.zeros(2), np.ones(2)), 8),
    "independent": BinaryPartition(Box(np.zeros(2), np.ones(2)), 8, spread=False),
    "whole": BinaryPartition(Box.from_bounds((0, 300), 2, None, 16, np.array([True, False])), 8),
    "own": Fine(),
}
each_partition = pytest.mark.parametrize("partition", PARTITIONS.values(), ids=PARTITIONS)


@pytest.fixture(params=[(32, 1 << 20, 4), (50, 700, 16), (7, 100, 1)], ids=["one-deck", "decks", "small"])
def sizes(request, monkeypatch):
    for name, size in zip(("_ROWS", "_DECK", "_SLAB"), request.param, strict=True):
        monkeypatch.setattr(_measure, name, size)
    monkeypatch.setattr(_measure, "_LEAST_ROWS", 1)
    return request.param


def measure_of(partition, seed=0):
    mass = np.random.default_rng(seed).exponential(size=256) ** 2
    # The first half in cells of level 6, the others of level 8: disjoint, and they cover the space.
    cells = np.concatenate([np.arange(32), np.arange(128, 256)])
    levels = np.repeat([6, 8], [32, 128])
    return DiscreteMeasure.from_mass(partition, cells, levels, mass[: len(cells)])


@each_partition
@pytest.mark.parametrize("n_samples", [1, 6, 333, 2500])
def test_blocks_together_are_the_sample(partition, n_samples, sizes):
    measure = measure_of(partition)
    blocks = list(measure.sample_blocks(n_samples, np.random.default_rng(1)))
    np.testing.assert_array_equal(np.concatenate(blocks), measure.sample(n_samples, np.random.default_rng(1)))
    assert max(map(len, blocks)) <= sizes[0]
    assert max(map(len, blocks)) - min(map(len, blocks)) <= 1 or n_samples > sizes[1]


@each_partition
def test_each_block_has_its_share_of_every_run_of_cells_up_to_one_point_a_deck(partition, sizes):
    """Counts along the curve are dealt in turn: between two places of the curve a block gets its share, rounded up or down."""
    measure, n_samples = measure_of(partition), 2500
    upto = np.cumsum(measure.counts(n_samples, np.random.default_rng(1)))
    edges = np.concatenate([np.arange(32) * 4, np.arange(128, 257)])
    for block in measure.sample_blocks(n_samples, np.random.default_rng(1)):
        found = np.searchsorted(np.sort(partition.locate(block)), edges[1:])
        assert np.max(np.abs(found - upto * len(block) / n_samples)) <= 2


@pytest.mark.parametrize("size", [(32, 1 << 20, 4), (12, 48, 2)], ids=["one-deck", "decks"])
def test_a_point_is_as_likely_to_stand_in_one_place_as_in_any_other(size, monkeypatch):
    """96 points of 96 cells, 1500 samples: of the 96 x 96 frequencies, chi squared has mean 95 * 95 and deviation 134; seven of them.

    All blocks have the same size here; where they differ by a point, so do the frequencies, by that share.
    """
    for name, value in zip(("_ROWS", "_DECK", "_SLAB"), size, strict=True):
        monkeypatch.setattr(_measure, name, value)
    monkeypatch.setattr(_measure, "_LEAST_ROWS", 1)
    lattice, rng = Lattice(Box([0.0], [1.0]), (96,)), np.random.default_rng(0)
    measure = DiscreteMeasure.from_mass(lattice, np.arange(96), np.zeros(96), np.ones(96))
    found = np.zeros((96, 96))
    for _ in range(1500):
        found[np.arange(96), lattice.locate(measure.sample(96, rng))] += 1
    chi_squared = np.sum((found - 1500 / 96) ** 2 / (1500 / 96))
    assert abs(chi_squared - 95 * 95) < 7 * 134


@pytest.mark.parametrize("n_jobs", [1, 2, 3, -1])
@each_partition
def test_rows_do_not_depend_on_the_number_of_threads(partition, n_jobs, sizes):
    measure = measure_of(partition)
    rows = measure.sample(2000, np.random.default_rng(1), n_jobs)
    np.testing.assert_array_equal(rows, measure.sample(2000, np.random.default_rng(1)))


def test_points_of_a_cell_are_even_over_all_blocks_together(monkeypatch):
    """1024 points of one cell in 64 blocks: no gap of the golden rotation is as wide as 4 / 1024, but one of independent points is."""
    monkeypatch.setattr(_measure, "_ROWS", 16)
    monkeypatch.setattr(_measure, "_LEAST_ROWS", 1)
    gaps = []
    for spread in (True, False):
        measure = DiscreteMeasure.from_mass(BinaryPartition(Box([0.0], [1.0]), 1, spread=spread), [0], [0], [1.0])
        gaps.append(np.diff(np.sort(measure.sample(1024, np.random.default_rng(0))[:, 0])).max())
    assert gaps[0] < 4 / 1024 < gaps[1]
