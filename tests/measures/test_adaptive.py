"""Measures and bounds from one or two stages of noisy counts."""

import math
from types import SimpleNamespace

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
    choose_refinement,
    least_squares,
    level_sums,
    mass_from_root,
    measure_of_leaves,
    total_diameters,
    uniform_consistency,
)
from skdpsynth.metrics import wasserstein_distance
from skdpsynth.statistics import Histogram


def two_stages(seed, coarse_depth, n=500, deviations=(3.0, 2.0), d=2, above=None):
    """Rows, and what two noisy histograms of them say; noise is normal, rounded, of the variances told.

    The first stage has the level `above` too, if one is given.
    """
    rng = np.random.default_rng(seed)
    X = rng.beta(2, 5, size=(n, d))
    partition = BinaryPartition(Box(np.zeros(d), np.ones(d)), coarse_depth + 3)
    cells = partition.locate(X)
    noisy = [lambda counts, s=s: counts + np.rint(s * rng.standard_normal(len(counts))).astype(np.int64) for s in deviations]
    variances = [s**2 + 1 / 12 if s else 1.0 for s in deviations]
    exact = level_sums(Histogram.over_cells(1 << coarse_depth).of(cells >> 3).counts, coarse_depth)
    first = [noisy[0](exact[level]) if level in (above, coarse_depth) else None for level in range(coarse_depth + 1)]
    first_variances = [variances[0] if level is not None else math.inf for level in first]
    refinement = choose_refinement(least_squares(first, first_variances)[0], n, math.log2(n / 10) - coarse_depth, 3)
    fine = noisy[1](Histogram.over_refined(3, refinement).of(cells).counts)
    return X, TwoStages(partition, n, first[-1], refinement, fine, *variances, not any(deviations), first[:-1], first_variances[:-1])


@given(seed=st.integers(0, 2**32), coarse_depth=st.integers(0, 5), above=st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_joined_stages_keep_the_mass_of_the_root_and_of_every_coarse_cell(seed, coarse_depth, above):
    _, stages = two_stages(seed, coarse_depth, above=above)
    (mass, *_), (measure, _) = stages.coarse_mass(stages.join()), stages.measure()
    assert np.all(mass >= 0)
    np.testing.assert_allclose(mass.sum(), stages.n)
    ancestors = measure.cells >> (measure.levels - coarse_depth)
    inside = np.bincount(ancestors, measure.weights, minlength=len(mass)) * stages.n
    np.testing.assert_allclose(inside, mass, atol=1e-9)


@pytest.mark.parametrize("above", [None, 1])
def test_every_joined_estimate_is_the_weighted_least_squares_of_all_counts_below_it(above):
    """The normal equations of the whole tree, by numpy's lstsq."""
    _, stages = two_stages(0, 3, above=above)
    sizes = 2**stages.refinement
    starts = np.concatenate([[0], np.cumsum(sizes)])
    order = np.argsort(stages.refinement, kind="stable")
    parts = np.empty(starts[-1])
    for cell, some in zip(order, np.split(stages.fine, np.cumsum(sizes[order])[:-1]), strict=True):
        parts[starts[cell] : starts[cell + 1]] = some
    for level, estimates in enumerate(level.estimates for level in stages.join()):
        for node, estimate in enumerate(estimates):
            low, high = (starts[(node + side) << (3 - level)] for side in (0, 1))
            rows, seen = [np.eye(high - low) / stages.second_variance**0.5], [parts[low:high] / stages.second_variance**0.5]
            for below in range(level, 4):
                counts = stages.coarse if below == 3 else stages.above[below]
                for cell in range(node << (below - level), (node + 1) << (below - level)) if counts is not None else ():
                    inside = np.zeros(starts[-1])
                    inside[starts[cell << (3 - below)] : starts[(cell + 1) << (3 - below)]] = 1
                    rows.append(inside[None, low:high] / stages.first_variance**0.5)
                    seen.append(counts[cell : cell + 1] / stages.first_variance**0.5)
            solved = np.linalg.lstsq(np.vstack(rows), np.concatenate(seen), rcond=None)[0].sum()
            assert estimate == pytest.approx(solved, abs=1e-8)


def test_exact_stages_give_the_exact_histogram_of_the_refined_cells():
    X, stages = two_stages(1, 4, deviations=(0.0, 0.0))
    measure, _ = stages.measure()
    cells = stages.partition.locate(X)
    for cell, level, weight in zip(measure.cells, measure.levels, measure.weights, strict=True):
        assert weight * len(X) == pytest.approx(np.sum(cells >> (stages.partition.depth - level) == cell))


def test_refinement_halves_a_cell_by_its_share_of_the_rows_and_no_more_often_than_allowed():
    levels = level_sums(np.array([0, 3, 8, 1000]), 2)
    share = math.log2(4 / 1011)
    assert choose_refinement(levels, 1011, -share, 5).tolist() == [0, 1, 3, 5]
    assert choose_refinement(levels, 1011, -share - 2, 20).tolist() == [0, 0, 1, 7]
    # A cell with all rows has four times an even share of them.
    assert choose_refinement(level_sums(np.array([0, 0, 0, 10]), 2), 10, 1.5, 20).tolist() == [0, 0, 0, 3]
    assert choose_refinement(level_sums(np.array([5, 5, 5, 5]), 2), 20, 1.5, 20).tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(("deviations", "above"), [((3.0, 2.0), None), ((1.0, 6.0), 3)])
def test_bound_of_two_stages_exceeds_the_mean_distance_of_a_simulation(deviations, above):
    """Where the second stage tells more, and where the first does."""
    distances, bounds = [], []
    for seed in range(12):
        X, stages = two_stages(seed, 6, n=800, deviations=deviations, above=above)
        assert np.isscalar(stages.join()[6].own_variances) == (above is not None)  # whether the first stage leads
        measure, bound = stages.measure()
        distances.append(wasserstein_distance(X, measure.sample(len(X), np.random.default_rng(seed))))
        bounds.append(bound)
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


@pytest.mark.parametrize("kind", ["least squares", "clamped counts"])
def test_bound_of_one_stage_exceeds_the_mean_distance_of_a_simulation(kind):
    found = np.array([one_stage(seed, 300, 4.0, kind) for seed in range(60)])
    distance, bound = found.mean(axis=0)
    assert distance < bound < 20 * distance


def test_bounds_never_exceed_the_diameter_of_the_space_nor_need_cells_equal_ones():
    partition = BinaryPartition(Box([0.0, 0.0], [3.0, 1.0]), 4)
    assert bound_of_least_squares(partition, 4, 10, [1e9] * 5) == 3.0
    assert bound_of_clamped_counts(partition, 4, 10, 1, [1e9] * 5) == 3.0
    _, stages = two_stages(0, 3, n=5, deviations=(100.0, 100.0))
    assert stages.measure()[1] == 1.0
    uneven = SimpleNamespace(depth=3, diameters=lambda level: np.arange(1.0, 2**level + 1))
    assert total_diameters(uneven, 3) == (1.0, 3.0, 10.0)
    assert total_diameters(BinaryPartition(Box([0.0], [1.0]), 3), 3) == (1.0, 1.0, 1.0)
