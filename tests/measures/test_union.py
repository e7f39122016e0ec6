"""The measure of a union of disjoint rows, from the noisy counts of its parts."""

import math
from dataclasses import replace

import numpy as np
import pytest

from skdpsynth.domain import Box
from skdpsynth.measures import BinaryPartition, TwoStages, measure_of_union
from skdpsynth.statistics import Histogram


def counted(X, coarse_depth, refinement, deviation=0.0, seed=0):
    """Two noisy histograms of the rows of a line, the second with the coarse cells halved as often as `refinement` says."""
    rng, refinement = np.random.default_rng(seed), np.asarray(refinement)
    shift = int(refinement.max())
    partition = BinaryPartition(Box([0], [1]), coarse_depth + shift)
    cells = partition.locate(X[:, None])
    exact = [Histogram.over_cells(1 << coarse_depth).of(cells >> shift).counts, Histogram.over_refined(shift, refinement).of(cells).counts]
    coarse, fine = (counts + np.rint(deviation * rng.standard_normal(len(counts))).astype(np.int64) for counts in exact)
    variance = deviation**2 or 1.0
    return TwoStages(partition, len(X), coarse, refinement, fine, 10 * variance, variance, not deviation)


def mass_within(measure, low, high):
    """Mass of the cells that lie within an interval."""
    width = 0.5 ** measure.levels.astype(float)
    return measure.weights[(measure.cells * width >= low) & ((measure.cells + 1) * width <= high)].sum()


def test_parts_that_counted_the_same_cells_are_one_whose_counts_and_variances_are_their_sums():
    rng = np.random.default_rng(0)
    parts = [counted(rng.beta(2, 5, 80), 2, [3, 1, 2, 0], 3.0, seed) for seed in range(5)]
    one = replace(
        parts[0],
        n=400,
        coarse=sum(part.coarse for part in parts),
        fine=sum(part.fine for part in parts),
        first_variance=5 * parts[0].first_variance,
        second_variance=5 * parts[0].second_variance,
    )
    union, whole = measure_of_union(parts, [80] * 5), measure_of_union([one], [400])
    assert union.cells.tolist() == whole.cells.tolist()
    np.testing.assert_allclose(union.weights, whole.weights)


@pytest.mark.parametrize("weights", [(1, 1, 1), (1, 0.25, 2)])
def test_without_noise_cells_that_all_parts_counted_have_just_their_rows(weights):
    rng = np.random.default_rng(1)
    tables = [rng.beta(*shape, n) for shape, n in (((2, 5), 50), ((5, 2), 90), ((1, 1), 200))]
    parts = [counted(X, depth, refinement) for X, depth, refinement in zip(tables, (1, 2, 3), ([2, 3], [3, 1, 1, 2], [1] * 8), strict=True)]
    numbers = [weight * len(X) for weight, X in zip(weights, tables, strict=True)]
    union = measure_of_union(parts, numbers)
    for cell in range(8):  # of level 3, which all counted
        rows = sum(weight * np.sum(np.floor(8 * X) == cell) for weight, X in zip(weights, tables, strict=True))
        assert mass_within(union, cell / 8, (cell + 1) / 8) * sum(numbers) == pytest.approx(rows)


def test_a_part_that_counted_few_cells_keeps_its_rows_apart_from_those_of_the_others():
    """Rows of the left half were counted as such alone: finer counts, all of the right half, must not move them."""
    rng = np.random.default_rng(2)
    early, late = counted(0.5 * rng.random(300), 1, [0, 0], 1.0), counted(0.5 + 0.5 * rng.beta(1, 5, 900), 3, [3] * 8, 1.0)
    union = measure_of_union([early, late], [300, 900])
    assert mass_within(union, 0, 0.5) == pytest.approx(0.25, abs=0.02)
    assert mass_within(union, 0.5, 0.625) == pytest.approx(0.75 * (1 - 0.75**5), abs=0.05)  # the first quarter of the right half


@pytest.mark.parametrize("seed", range(8))
def test_a_union_of_noise_is_a_measure_on_disjoint_cells_that_cover_the_line(seed):
    rng = np.random.default_rng(seed)
    depths = rng.integers(0, 5, 6)
    parts = [counted(rng.random(9), depth, rng.integers(0, 4, 1 << depth), 5.0, seed + i) for i, depth in enumerate(depths)]
    union = measure_of_union(parts, [9.0] * 6)
    assert union.weights.min() > 0
    assert union.weights.sum() == pytest.approx(1)
    order = np.argsort(union.cells / 2.0**union.levels)
    starts, widths = (union.cells / 2.0**union.levels)[order], 0.5 ** union.levels[order].astype(float)
    assert np.all(starts[1:] >= (starts + widths)[:-1] - 1e-12)


def test_noise_of_many_parts_makes_less_mass_than_in_the_parts_one_by_one():
    """All rows at one point: what lies elsewhere is noise, which parts of their own make in each of them."""
    parts = [counted(np.full(40, 0.3), 2, [3, 3, 3, 3], 4.0, seed) for seed in range(25)]
    union = measure_of_union(parts, [40] * 25)
    of_parts = np.mean([1 - mass_within(part.measure()[0], 0.25, 0.5) for part in parts])
    assert 1 - mass_within(union, 0.25, 0.5) < of_parts / 3
    assert math.isclose(union.weights.sum(), 1)
