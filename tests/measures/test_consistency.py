"""Noisy trees made consistent, and mass shared from the root by what is usual at each level."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from laws import ALARM, binomial

from skdpsynth.measures import DEFAULT_PRIOR, least_squares, mass_from_root, pair_sums, posterior_mass, prior_of, uniform_consistency


def dense_least_squares(noisy, variances):
    """Each node's count from the released nodes of its own subtree: the weighted normal equations, by numpy's lstsq.

    Rows of the design are the nodes of a complete tree of k levels below its root, top down; columns are its leaves.

    The variance of the estimate 1'x is the squared length of 1'A^+ with A the whitened design.
    """
    depth = len(noisy) - 1
    estimates, errors = [], []
    for j in range(depth + 1):
        k = depth - j
        levels = enumerate(zip(noisy[j:], variances[j:], strict=True))
        released = [(i, level, np.sqrt(variance)) for i, (level, variance) in levels if level is not None]
        design = np.vstack([np.kron(np.eye(2**i), np.ones(2 ** (k - i))) / deviation for i, _, deviation in released])
        own = []
        for node in range(2**j):
            seen = np.concatenate([level[node << i : (node + 1) << i] / deviation for i, level, deviation in released])
            own.append(np.linalg.lstsq(design, seen, rcond=None)[0].sum())
        estimates.append(np.array(own))
        errors.append(np.sum((np.ones(2**k) @ np.linalg.pinv(design)) ** 2))
    return estimates, errors


trees = st.integers(0, 4).flatmap(
    lambda depth: st.tuples(
        st.lists(st.booleans(), min_size=depth, max_size=depth).map(lambda released: [*released, True]),
        st.lists(st.floats(0.01, 100), min_size=depth + 1, max_size=depth + 1),
        st.integers(0, 2**32),
    )
)


@given(tree=trees)
@settings(max_examples=60, deadline=None)
def test_least_squares_is_the_dense_solution_with_its_exact_variances(tree):
    released, variances, seed = tree
    rng = np.random.default_rng(seed)
    noisy = [rng.integers(-50, 200, 2**j) if seen else None for j, seen in enumerate(released)]
    estimates, errors = least_squares(noisy, variances)
    expected, expected_errors = dense_least_squares(noisy, variances)
    for got, wanted in zip(estimates, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-7, atol=1e-6)
    np.testing.assert_allclose(errors, expected_errors, rtol=1e-7)


@given(seed=st.integers(0, 2**32), depth=st.integers(1, 6))
@settings(max_examples=30, deadline=None)
def test_consistent_non_negative_estimates_are_their_own_mass_and_counts_almost_without_noise_as_they_are(seed, depth):
    levels = [np.random.default_rng(seed).integers(0, 50, 2**depth)]
    while len(levels[0]) > 1:
        levels.insert(0, pair_sums(levels[0]))
    np.testing.assert_array_equal(mass_from_root(levels[1:], levels[0][0]), levels[-1])
    for variance in (0.0, 1e-9):
        mass, moved = learned([level.astype(float) for level in levels[1:]], float(levels[0][0]), [variance] * depth, halves(depth))
        np.testing.assert_allclose(mass, levels[-1], atol=1e-6)
        assert sum(moved) < 1e-6


real = st.floats(-1e4, 1e4)
mass = st.floats(0, 1e4)


@given(z=st.tuples(real, real), n=st.tuples(mass, mass), m=mass, share=st.floats(0, 1))
@settings(max_examples=300, deadline=None)
def test_noise_moves_at_most_its_weighted_difference_between_siblings(z, n, m, share):
    # The lemma behind `error_bound_`. n: true counts; m: what the parent got. Without noise the children would get n0' and m - n0'.
    def left(a, b):
        return mass_from_root([np.array([a, b])], np.array(m), [np.array([share])])[0]

    n0 = min(max(n[0] + share * (m - n[0] - n[1]), 0), m)
    assert left(*n) == pytest.approx(n0, abs=1e-9)
    moved = abs((1 - share) * (z[0] - n[0]) - share * (z[1] - n[1]))
    assert abs(left(*z) - n0) <= moved + 1e-9


@given(n=st.tuples(mass, mass), m=mass, share=st.floats(0, 1))
@settings(max_examples=200, deadline=None)
def test_without_noise_a_deficit_of_the_parent_moves_nothing_between_its_children(n, m, share):
    # Second half of the lemma: both children lose, or both gain, so what the parent lacks is not paid twice.
    children = mass_from_root([np.array(n)], np.array(m), [np.array([share])])
    change = children - np.array(n)
    assert np.all(change >= -1e-9) or np.all(change <= 1e-9)
    assert np.abs(change).sum() == pytest.approx(abs(m - sum(n)), abs=1e-8)


clamped_trees = st.integers(0, 5).flatmap(
    lambda depth: st.tuples(*(st.lists(st.integers(0, 20), min_size=2**j, max_size=2**j) for j in range(depth + 1)))
)


@given(tree=clamped_trees, seed=st.integers(0, 2**32))
@settings(max_examples=100, deadline=None)
def test_uniform_consistency_gives_whole_counts_that_add_up_and_are_comparable_with_its_input(tree, seed):
    counts = [np.array(level, dtype=np.int64) for level in tree]
    # Of every level: the random bits of a level do not depend on those below.
    levels = [uniform_consistency(counts[: j + 1], np.random.default_rng(seed)) for j in range(len(counts))]
    np.testing.assert_array_equal(levels[0], counts[0])
    for parents, children, noisy in zip(levels[:-1], levels[1:], counts[1:], strict=True):
        assert children.dtype == np.int64
        assert np.all(children >= 0)
        np.testing.assert_array_equal(pair_sums(children), parents)
        # Comparable: each pair of siblings moves up together or down together.
        change = children - noisy
        assert np.all((change[0::2] >= 0) & (change[1::2] >= 0) | (change[0::2] <= 0) & (change[1::2] <= 0))
        # A deficit is shared equally where no child would be negative.
        deficit = parents - pair_sums(noisy)
        free = np.repeat(np.minimum(noisy[0::2], noisy[1::2]) + deficit // 2 >= 0, 2)
        assert np.all(np.abs(2 * change - np.repeat(deficit, 2))[free] <= 1)


def test_odd_unit_goes_to_either_child_equally_often():
    counts = [np.full(10_000, 1), np.zeros(20_000, dtype=np.int64)]
    left = uniform_consistency(counts, np.random.default_rng(0))[0::2].sum()
    assert binomial(left, 10_000, 0.5) > ALARM


def halves(depth):
    return [0.5] * depth


def fit_prior(estimates, root, variances, left_shares):
    return prior_of(posterior_mass(estimates, root, variances, left_shares, DEFAULT_PRIOR)[2])


def learned(estimates, root, variances, left_shares):
    return posterior_mass(estimates, root, variances, left_shares, fit_prior(estimates, root, variances, left_shares))[:2]


@given(seed=st.integers(0, 2**32), depth=st.integers(0, 6), root=st.floats(0, 1e4), noise=st.floats(0, 1e4))
@example(seed=45872, depth=2, root=1.1562576293945312, noise=0.0)  # a share of a rounding more than 1
@settings(max_examples=60, deadline=None)
def test_mass_is_non_negative_and_children_share_the_mass_of_their_parent_by_any_rule(seed, depth, root, noise):
    """By least squares, with even shares and others, and as it is learned."""
    rng, whole = np.random.default_rng(seed), np.array(root)
    estimates = [rng.normal(5, 20, 2**j) for j in range(1, depth + 1)]
    shares = [rng.random(2**j) for j in range(depth)]
    usual = fit_prior(estimates, whole, [noise] * depth, halves(depth))
    for rule in (
        lambda j: mass_from_root(estimates[:j], whole),
        lambda j: mass_from_root(estimates[:j], whole, shares[:j]),
        lambda j: posterior_mass(estimates[:j], whole, [noise] * j, halves(j), usual)[0],
    ):
        levels = [rule(j) for j in range(depth + 1)]
        assert levels[-1].shape == (2**depth,)
        for parents, children in pairwise(levels):
            assert np.all(children >= 0)
            np.testing.assert_allclose(pair_sums(children), parents, rtol=1e-12, atol=1e-9)
    several = mass_from_root([np.stack([level, -level]) for level in estimates], np.array([root, 3.0]))
    np.testing.assert_array_equal(several[0], mass_from_root(estimates, whole))  # many trees at once are each alone


@given(seed=st.integers(0, 2**32), depth=st.integers(1, 5))
@settings(max_examples=30, deadline=None)
def test_what_is_told_is_how_far_the_mass_is_from_that_by_least_squares(seed, depth):
    """At the root the two rules get the same mass, so there the units can be compared; deeper ones add up to them at least."""
    rng = np.random.default_rng(seed)
    estimates = [rng.normal(5, 20, 2**j) for j in range(1, depth + 1)]
    mass, moved = learned(estimates, np.array(40.0), [400.0] * depth, halves(depth))
    plain = mass_from_root(estimates, np.array(40.0))
    half = len(mass) // 2
    assert moved[0] == pytest.approx(abs(mass[:half].sum() - plain[:half].sum()))
    assert np.abs(mass - plain).sum() <= 2 * sum(moved) + 1e-9


def test_levels_of_more_nodes_than_are_worth_their_time_are_shared_by_least_squares():
    estimates = np.random.default_rng(0).normal(5, 20, (4096, 2))
    mass, moved = learned([estimates], np.full(4096, 10.0), [400.0], [0.5])
    np.testing.assert_array_equal(mass, mass_from_root([estimates], np.full(4096, 10.0)))
    assert moved == [0.0]


def mean_error(true, variance, seed=0):
    """Mean error of the share of 300 left children, who hold `true` of 100 units: by least squares, and learned."""
    rng = np.random.default_rng(seed)
    left = 100 * np.broadcast_to(true, 300)
    estimates = np.stack([left, 100 - left], axis=1) + np.sqrt(variance) * rng.standard_normal((300, 2))
    root = np.full(300, 100.0)
    plain, better = mass_from_root([estimates], root), learned([estimates], root, [variance], [0.5])[0]
    return np.abs(plain[:, 0] - left).mean(), np.abs(better[:, 0] - left).mean()


def test_alike_siblings_and_lone_children_are_learned_from_their_level():
    """Of 300 nodes an error has a standard deviation of 5 % of its mean; a third of it would take 13 of them."""
    for true in (0.5, np.random.default_rng(1).integers(0, 2, 300)):
        plain, better = mean_error(true, 900.0)
        assert better < 0.67 * plain
    plain, better = mean_error(np.random.default_rng(1).random(300), 100.0)
    assert better < 1.1 * plain  # shares of any kind lose next to nothing


def tree_of(rng, leaves, deviation):
    """Return 16 counts with noise: the levels of their sums, the number of rows, variances and left shares."""
    levels = [leaves + deviation * rng.standard_normal(16)]
    while len(levels[0]) > 2:
        levels.insert(0, pair_sums(levels[0]))
    return levels, np.array(float(leaves.sum())), [deviation**2 * 16 / len(level) for level in levels], halves(4)


EVEN, CROWDED = np.full(16, 50.0), np.eye(16)[5] * 800


@pytest.mark.parametrize("leaves", [EVEN, CROWDED], ids=["even", "crowded"])
def test_the_share_at_the_root_is_learned_from_what_levels_below_tell_of_the_table(leaves):
    """Of 1600 draws the gain is 28 and 11 of its standard errors. Five are asked, which chance shows once in three million times."""
    rng = np.random.default_rng(0)
    errors = []
    for _ in range(1600):
        levels, root, variances, left_shares = tree_of(rng, leaves, 25.0)
        alone = learned(levels[:1], root, variances[:1], left_shares[:1])[0][0]
        with_all = learned(levels, root, variances, left_shares)[0][:8].sum()
        errors.append(np.abs(np.array([with_all, alone]) - leaves[:8].sum()))
    gain = np.diff(errors)[:, 0]
    assert gain.mean() > 5 * gain.std() / 40
