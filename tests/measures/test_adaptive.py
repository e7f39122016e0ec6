"""Measures and bounds from one or two stages of noisy counts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdpsynth.domain import Box
from skdpsynth.measures import (
    BinaryPartition,
    TwoStages,
    bound_of_clamped_counts,
    bound_of_least_squares,
    least_squares,
    level_sums,
    mass_from_root,
    measure_of_leaves,
    refinement_of,
    total_diameters,
    uniform_consistency,
)
from skdpsynth.metrics import wasserstein_distance
from skdpsynth.statistics import Histogram


def two_stages(seed, coarse_depth, n=500, deviations=(3.0, 2.0), d=2):
    """Rows, and what two noisy histograms of them say; noise is normal, rounded, of the variances told."""
    rng = np.random.default_rng(seed)
    X = rng.beta(2, 5, size=(n, d))
    partition = BinaryPartition(Box(np.zeros(d), np.ones(d)), coarse_depth + 3)
    cells = partition.locate(X)
    noisy = [lambda counts, s=s: counts + np.rint(s * rng.standard_normal(len(counts))).astype(np.int64) for s in deviations]
    coarse = noisy[0](Histogram.over_cells(1 << coarse_depth).of(cells >> 3).counts)
    refinement = refinement_of(coarse, n, 0.1, 3)
    fine = noisy[1](Histogram.over_refined(3, refinement).of(cells).counts)
    variances = [s**2 + 1 / 12 if s else 1.0 for s in deviations]
    return X, TwoStages(partition, n, coarse, refinement, fine, *variances, noise_free=not any(deviations))


@given(seed=st.integers(0, 2**32), depth=st.integers(0, 5))
@settings(max_examples=40, deadline=None)
def test_level_sums_add_up_to_the_root(seed, depth):
    leaves = np.random.default_rng(seed).integers(-50, 50, 2**depth)
    levels = level_sums(leaves, depth)
    assert [len(level) for level in levels] == [2**j for j in range(depth + 1)]
    assert all(level.sum() == leaves.sum() for level in levels)


@given(seed=st.integers(0, 2**32), coarse_depth=st.integers(0, 5))
@settings(max_examples=40, deadline=None)
def test_joined_stages_keep_the_mass_of_the_root_and_of_every_coarse_cell(seed, coarse_depth):
    _, stages = two_stages(seed, coarse_depth)
    mass, measure = stages.coarse_mass(), stages.measure()
    assert np.all(mass >= 0)
    np.testing.assert_allclose(mass.sum(), stages.n)
    ancestors = measure.cells >> (measure.levels - coarse_depth)
    inside = np.bincount(ancestors, measure.weights, minlength=len(mass)) * stages.n
    np.testing.assert_allclose(inside, mass, atol=1e-9)


def test_joined_estimate_is_the_weighted_least_squares_of_both_stages():
    _, stages = two_stages(0, 4)
    start = 0
    for halvings in np.unique(stages.refinement):
        for cell in np.flatnonzero(stages.refinement == halvings):
            parts = stages.fine[start : start + 2**halvings]
            start += len(parts)
            # One row for the first stage's count of the whole cell, one for each part's count, whitened.
            design = np.vstack([np.ones(len(parts)) / stages.first_variance**0.5, np.eye(len(parts)) / stages.second_variance**0.5])
            seen = np.concatenate([[stages.coarse[cell] / stages.first_variance**0.5], parts / stages.second_variance**0.5])
            assert stages.joined[cell] == pytest.approx(np.linalg.lstsq(design, seen, rcond=None)[0].sum())


def test_exact_stages_give_the_exact_histogram_of_the_refined_cells():
    X, stages = two_stages(1, 4, deviations=(0.0, 0.0))
    measure = stages.measure()
    cells = stages.partition.locate(X)
    for cell, level, weight in zip(measure.cells, measure.levels, measure.weights, strict=True):
        assert weight * len(X) == pytest.approx(np.sum(cells >> (stages.partition.depth - level) == cell))


def test_refinement_halves_a_cell_as_long_as_its_rows_pay_and_no_more_often_than_allowed():
    coarse = np.array([0, 3, 8, 1000])
    assert refinement_of(coarse, 1011, 1.0, 5).tolist() == [0, 1, 3, 5]
    assert refinement_of(coarse, 1011, 0.25, 20).tolist() == [0, 0, 1, 7]


@pytest.mark.statistical
def test_bound_of_two_stages_exceeds_the_mean_distance_of_a_simulation():
    distances, bounds = [], []
    for seed in range(12):
        X, stages = two_stages(seed, 6, n=800)
        measure = stages.measure()
        distances.append(wasserstein_distance(X, measure.sample(len(X), np.random.default_rng(seed))))
        bounds.append(stages.bound(measure))
    # The bound is several times the mean, whose deviation is a tenth of it: no alarm in a lifetime.
    assert np.mean(distances) < np.mean(bounds) < 20 * np.mean(distances)


def one_stage(seed, n, deviation, kind):
    """(distance, bound) of one simulated fit to a line of `n` rows."""
    rng = np.random.default_rng(seed)
    X, depth = rng.beta(2, 5, size=(n, 1)), 5
    partition = BinaryPartition(Box([0.0], [1.0]), depth)
    exact = level_sums(Histogram.of(X, partition).counts, depth)
    noisy = [counts + np.rint(deviation * rng.standard_normal(len(counts))).astype(np.int64) for counts in exact]
    if kind == "least squares":
        estimates, errors = least_squares([None, *noisy[1:]], [np.inf, *[deviation**2 + 1 / 12] * depth])
        mass, bound = mass_from_root(estimates[1:], np.array(float(n))), bound_of_least_squares(partition, depth, n, errors)
    else:
        mass = uniform_consistency([np.maximum(counts, 0) for counts in noisy], rng)
        spreads = [deviation + 0.5] * (depth + 1)
        bound = bound_of_clamped_counts(partition, depth, n, max(1, int(noisy[0][0])), spreads)
    return wasserstein_distance(X, measure_of_leaves(partition, depth, mass).sample(n, rng)), bound


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["least squares", "clamped counts"])
def test_bound_of_one_stage_exceeds_the_mean_distance_of_a_simulation(kind):
    found = np.array([one_stage(seed, 300, 4.0, kind) for seed in range(60)])
    distance, bound = found.mean(axis=0)
    assert distance < bound < 20 * distance


def test_bounds_never_exceed_the_diameter_of_the_space():
    partition = BinaryPartition(Box([0.0, 0.0], [3.0, 1.0]), 4)
    assert bound_of_least_squares(partition, 4, 10, [1e9] * 5) == 3.0
    assert bound_of_clamped_counts(partition, 4, 10, 1, [1e9] * 5) == 3.0
    _, stages = two_stages(0, 3, n=5, deviations=(100.0, 100.0))
    assert stages.bound(stages.measure()) == 1.0


def test_total_diameters_sum_those_of_the_cells_whether_equal_or_not():
    class Uneven:
        depth = 3

        def diameters(self, level):
            return np.arange(1.0, 2**level + 1)

    assert total_diameters(Uneven(), 3) == (1.0, 3.0, 10.0)
    assert total_diameters(BinaryPartition(Box([0.0], [1.0]), 3), 3) == (1.0, 1.0, 1.0)
