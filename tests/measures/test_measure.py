"""Measures on cells, and whole points drawn from them, also in blocks that have even shares and are one sample together."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from internals import _measure

from skdpsynth.domain import Box
from skdpsynth.measures import BinaryPartition, DiscreteMeasure, Lattice
from skdpsynth.statistics import Histogram


class Circle:
    """Arcs of the unit circle, halved again and again: a partition with the protocol and nothing more."""

    depth = 6

    def locate(self, X):
        turn = np.arctan2(X[:, 1], X[:, 0]) / (2 * np.pi) % 1.0
        return np.minimum((turn * 2**self.depth).astype(np.int64), 2**self.depth - 1)

    def diameters(self, level):
        return 2.0 if level < 1 else 2 * np.sin(np.pi / 2**level)

    def sample(self, cells, level, rng):
        angle = 2 * np.pi * (cells + rng.random(len(cells))) / 2**level
        return np.column_stack([np.cos(angle), np.sin(angle)])


def random_cells(seed, depth):
    """Disjoint cells on several levels that cover the space, in the order of the class."""
    rng = np.random.default_rng(seed)
    kept, open_ = [], [(0, 0)]
    while open_:
        level, cell = open_.pop()
        if level < depth and rng.random() < 0.75:
            open_ += [(level + 1, 2 * cell), (level + 1, 2 * cell + 1)]
        else:
            kept.append((level, cell))
    levels, cells = np.array(sorted(kept)).T
    return cells, levels


def measure_of(seed, depth=6, partition=None):
    partition = partition or BinaryPartition(Box(np.zeros(2), np.ones(2)), depth)
    cells, levels = random_cells(seed, min(depth, partition.depth))
    mass = np.random.default_rng(seed).exponential(size=len(cells)) ** 3
    return DiscreteMeasure.from_mass(partition, cells, levels, mass)


@given(seed=st.integers(0, 2**32), n_samples=st.integers(1, 500), depth=st.integers(0, 8))
@settings(max_examples=100, deadline=None)
def test_counts_sum_to_n_and_every_ancestor_gets_its_weight_up_to_one_point(seed, n_samples, depth):
    measure = measure_of(seed, depth)
    counts = measure.counts(n_samples, np.random.default_rng(seed))
    assert counts.dtype == np.int64
    assert np.all(counts >= 0)
    assert counts.sum() == n_samples
    for level in range(depth + 1):
        below = measure.levels >= level
        ancestors = measure.cells[below] >> (measure.levels[below] - level)
        whole = np.bincount(ancestors, counts[below])
        wanted = n_samples * np.bincount(ancestors, measure.weights[below])
        assert np.all(np.abs(whole - wanted) < 1 + 1e-9)


def test_expected_count_is_the_weight_times_n():
    # 4000 roundings; a count is floor or ceiling of its mean, so the mean of 4000 has standard deviation below .008: seven of them.
    measure, rng = measure_of(1), np.random.default_rng(0)
    mean = np.mean([measure.counts(10, rng) for _ in range(4000)], axis=0)
    np.testing.assert_allclose(mean, 10 * measure.weights, atol=0.056)


def test_no_mass_at_all_is_uniform_on_the_whole_space():
    partition = BinaryPartition(Box([2.0, 2.0], [3.0, 4.0]), 4)
    measure = DiscreteMeasure.from_mass(partition, np.arange(16), np.full(16, 4), np.zeros(16))
    assert (measure.cells.tolist(), measure.levels.tolist(), measure.weights.tolist()) == ([0], [0], [1.0])
    X = measure.sample(400, np.random.default_rng(0))
    assert np.all(np.abs(Histogram.of(X, partition).counts - 25) <= 5)  # spread evenly over the 16 cells


@pytest.mark.parametrize("partition", [None, Circle()], ids=["box", "circle"])
@pytest.mark.parametrize("n_samples", [1, 7, 1000])
def test_sample_has_n_rows_and_as_many_in_each_cell_as_it_counts(partition, n_samples):
    measure = measure_of(3, 5, partition)
    X = measure.sample(n_samples, np.random.default_rng(1))
    counts = measure.counts(n_samples, np.random.default_rng(1))  # the first thing that `sample` draws
    assert len(X) == n_samples
    assert partition is None or np.allclose(np.linalg.norm(X, axis=1), 1)
    leaves = measure.partition.locate(X)
    for cell, level, count in zip(measure.cells, measure.levels.astype(int), counts, strict=True):
        assert np.sum(leaves >> (measure.partition.depth - level) == cell) == count


@pytest.mark.parametrize(("partition", "name"), [(BinaryPartition(Box([0], [1]), depth=12), "BinaryPartition"), (Circle(), "Circle")])
def test_a_measure_of_many_cells_is_shown_by_its_sizes(partition, name):
    measure = DiscreteMeasure.from_mass(partition, np.arange(64), np.full(64, 6), np.ones(64))
    assert repr(measure) == f"DiscreteMeasure(partition={name}, n_cells=64, depth=6)"


class FineCircle(Circle):
    depth = 8


PARTITIONS = {
    "box": BinaryPartition(Box(np.zeros(2), np.ones(2)), 8),
    "independent": BinaryPartition(Box(np.zeros(2), np.ones(2)), 8, spread=False),
    "whole": BinaryPartition(Box.from_bounds((0, 300), 2, None, 16, np.array([True, False])), 8),
    "own": FineCircle(),
}
each_partition = pytest.mark.parametrize("partition", PARTITIONS.values(), ids=PARTITIONS)


def cut(monkeypatch, rows, deck, slab):
    """Deal blocks of so many rows, from decks and slabs of these sizes."""
    for name, size in {"_ROWS": rows, "_DECK": deck, "_SLAB": slab, "_LEAST_ROWS": 1}.items():
        monkeypatch.setattr(_measure, name, size)


@pytest.fixture(params=[(32, 1 << 20, 4), (50, 700, 16), (7, 100, 1)], ids=["one-deck", "decks", "small"])
def sizes(request, monkeypatch):
    cut(monkeypatch, *request.param)
    return request.param


def measure_on(partition, seed=0):
    mass = np.random.default_rng(seed).exponential(size=256) ** 2
    # The first half in cells of level 6, the others of level 8: disjoint, and they cover the space.
    cells = np.concatenate([np.arange(32), np.arange(128, 256)])
    levels = np.repeat([6, 8], [32, 128])
    return DiscreteMeasure.from_mass(partition, cells, levels, mass[: len(cells)])


@each_partition
@pytest.mark.parametrize("n_samples", [1, 6, 333, 2500])
def test_blocks_together_are_the_sample(partition, n_samples, sizes):
    measure = measure_on(partition)
    blocks = list(measure.sample_blocks(n_samples, np.random.default_rng(1)))
    np.testing.assert_array_equal(np.concatenate(blocks), measure.sample(n_samples, np.random.default_rng(1)))
    assert max(map(len, blocks)) <= sizes[0]
    assert max(map(len, blocks)) - min(map(len, blocks)) <= 1 or n_samples > sizes[1]


@each_partition
def test_each_block_has_its_share_of_every_run_of_cells_up_to_one_point_a_deck(partition, sizes):
    """Counts along the curve are dealt in turn: between two places of the curve a block gets its share, rounded up or down."""
    measure, n_samples = measure_on(partition), 2500
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
    cut(monkeypatch, *size)
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
    measure = measure_on(partition)
    rows = measure.sample(2000, np.random.default_rng(1), n_jobs)
    np.testing.assert_array_equal(rows, measure.sample(2000, np.random.default_rng(1)))
