"""Measures and bounds from one or two stages of noisy counts, their union, and how levels share the budget."""

import math
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

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
    measure_of_union,
    optimal_shares,
    paper_shares,
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


@pytest.mark.parametrize(("deviations", "above"), [((30.0, 2.0), None), ((3.0, 2.0), None), ((1.0, 6.0), 2)])
def test_a_joined_number_of_rows_errs_less_than_either_and_no_more_than_said(deviations, above):
    """The noisy number has about the error of all counts together, whichever stage tells more; both have about three quarters of it."""
    rng, found = np.random.default_rng(0), []
    for seed in range(1000):
        _, stages = two_stages(seed, 4, deviations=deviations, above=above)
        root = stages.join()[0]
        error = float(root.variances[0] / 2) ** 0.5
        noise = rng.laplace(0, error)
        joined, bound = replace(stages, n=round(500 + noise)).join_number(error)
        found.append([abs(joined.n - 500), bound, abs(noise), abs(float(root.estimates[0]) - 500)])
    joined, bound, alone, counted = np.mean(found, axis=0)
    # The means of 1000 absolute errors deviate by 0.03 of them.
    assert joined < min(alone, counted)
    assert joined < bound


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
    sums = {name: sum(getattr(part, name) for part in parts) for name in ("coarse", "fine", "first_variance", "second_variance")}
    one = replace(parts[0], n=400, **sums)
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


def diameters_of(d, r):
    partition = BinaryPartition(Box(np.zeros(d), np.ones(d), bits=30), r)
    return tuple(2.0**i * partition.diameters(i) for i in range(r))


def bound(shares, widths):
    """The bound on n E W1 by the textbook recursion, for two-sided noise of sensitivity 2 at epsilon = 1.

    A level with share b has variance 8 / b**2, and the error of a split of a cell has that of one child's estimate.
    """
    error, moved = math.inf, 0.0
    for share, width in zip(reversed(shares[1:]), reversed(widths), strict=True):
        below = 0 if error == math.inf else 1 / (2 * error)
        error = 1 / (float(share) ** 2 / 8 + below) if share or below else math.inf
        moved += width * math.sqrt(error)
    return moved


# Bounds at epsilon = 1, to the digits they were published with: equation (3.7) with least squares, leaves only, and the best shares that
# a local search found.
TABLE = [
    (1, 6, 80, 47.8, 47.8),
    (1, 10, 214, 212, 126),
    (1, 14, 412, 867, 255),
    (2, 10, 1460, 773, 773),
    (2, 14, 7030, 4330, 4330),
    (3, 14, 21200, 10700, 10700),
    (5, 14, 56500, 25900, 25900),
]


@pytest.mark.parametrize(("d", "r", "paper", "leaf", "searched"), TABLE)
def test_bounds_are_those_published_or_better(d, r, paper, leaf, searched):
    widths = diameters_of(d, r)
    below_root = paper_shares(widths)[1:]
    assert bound([0, *(share / sum(below_root) for share in below_root)], widths) == pytest.approx(paper, rel=0.01)
    assert bound([0] * r + [1], widths) == pytest.approx(leaf, rel=0.01)
    assert bound(optimal_shares(widths), widths) <= searched * 1.005


@pytest.mark.parametrize(
    ("d", "r", "shares"), [(1, 6, {6: 1}), (2, 8, {8: 1}), (10, 12, {12: 1}), (1, 10, {5: 0.49, 10: 0.51}), (2, 14, {8: 0.27, 14: 0.73})]
)
def test_leaves_take_the_whole_budget_of_shallow_trees_and_deep_ones_share_it_over_a_few_levels(d, r, shares):
    got = {level: float(share) for level, share in enumerate(optimal_shares(diameters_of(d, r))) if share}
    assert got == pytest.approx(shares, abs=0.01)


@pytest.mark.parametrize(("d", "r"), [(1, 8), (1, 13), (2, 12), (3, 14)])
def test_no_local_search_from_random_shares_finds_better_ones(d, r):
    widths = diameters_of(d, r)

    def log_bound(x):
        shares = np.exp(x - x.max())
        return math.log(bound([0, *(shares / shares.sum())], widths))

    starts = np.random.default_rng(0).normal(0, 3, (15, r))
    searched = min(minimize(log_bound, start, method="L-BFGS-B").fun for start in starts)
    assert bound(optimal_shares(widths), widths) <= math.exp(searched) * 1.002


growing = st.lists(st.floats(-0.5, 1.0), min_size=1, max_size=14).map(lambda steps: tuple(2.0 ** np.cumsum(steps)))


@pytest.mark.must
@given(widths=growing)
@settings(max_examples=30, deadline=None)
def test_shares_are_fractions_that_sum_to_exactly_one(widths):
    for shares in (optimal_shares(widths), paper_shares(widths)):
        assert len(shares) == len(widths) + 1
        assert all(isinstance(share, Fraction) and share >= 0 for share in shares)
        assert sum(shares) == 1


@pytest.mark.parametrize("r", [4, 6, 9])
def test_leaves_that_hardly_matter_have_two_thousandths(r):
    shares = optimal_shares(tuple(1000.0**-level for level in range(r)))
    assert (shares[-1], sum(shares)) == (Fraction(2, 1000), 1)


@given(widths=growing)
@settings(max_examples=50, deadline=None)
def test_shares_of_the_paper_are_proportional_to_the_root_of_the_width_one_level_up(widths):
    roots = np.sqrt([widths[0], *widths])
    np.testing.assert_allclose(np.array(paper_shares(widths), dtype=float), roots / roots.sum(), atol=len(roots) * 2.0**-20)
    assert min(paper_shares(widths)) > 0
