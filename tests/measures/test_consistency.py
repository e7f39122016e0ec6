"""Noisy trees made consistent."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import ALARM, binomial

from skdpsynth.measures import least_squares, mass_from_root, pair_sums, uniform_consistency


def subtree_design(k):
    """Rows: the nodes of a complete tree of k levels below its root, top down; columns: its leaves."""
    return [np.kron(np.eye(2**j), np.ones(2 ** (k - j))) for j in range(k + 1)]


def dense_least_squares(noisy, variances):
    """Each node's count from the released nodes of its own subtree: the weighted normal equations, by numpy's lstsq.

    The variance of the estimate 1'x is the squared length of 1'A^+ with A the whitened design.
    """
    depth = len(noisy) - 1
    estimates, errors = [], []
    for j in range(depth + 1):
        k = depth - j
        levels = enumerate(zip(noisy[j:], variances[j:], strict=True))
        released = [(i, level, np.sqrt(variance)) for i, (level, variance) in levels if level is not None]
        design = np.vstack([subtree_design(k)[i] / deviation for i, _, deviation in released])
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


# Mass from the root


def random_tree(seed, depth):
    rng = np.random.default_rng(seed)
    return [rng.normal(5, 20, 2**j) for j in range(1, depth + 1)]


@given(seed=st.integers(0, 2**32), depth=st.integers(0, 6), root=st.floats(0, 1e4), shared=st.booleans())
@settings(max_examples=60, deadline=None)
def test_mass_is_non_negative_and_children_share_the_mass_of_their_parent(seed, depth, root, shared):
    estimates = random_tree(seed, depth)
    rng = np.random.default_rng(seed)
    shares = [rng.random(2**j) for j in range(depth)] if shared else None
    levels = [mass_from_root(estimates[:j], np.array(root), shares and shares[:j]) for j in range(depth + 1)]
    assert levels[-1].shape == (2**depth,)
    for parents, children in pairwise(levels):
        assert np.all(children >= 0)
        np.testing.assert_allclose(pair_sums(children), parents, rtol=1e-12, atol=1e-9)
    several = mass_from_root([np.stack([level, -level]) for level in estimates], np.array([root, 3.0]))
    np.testing.assert_array_equal(several[0], mass_from_root(estimates, np.array(root)))  # many trees at once are each alone


@given(seed=st.integers(0, 2**32), depth=st.integers(1, 6))
@settings(max_examples=30, deadline=None)
def test_consistent_non_negative_estimates_are_their_own_mass(seed, depth):
    levels = [np.random.default_rng(seed).integers(0, 50, 2**depth)]
    while len(levels[0]) > 1:
        levels.insert(0, pair_sums(levels[0]))
    np.testing.assert_array_equal(mass_from_root(levels[1:], levels[0][0]), levels[-1])


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


# Algorithm 3


def clamped_level(j):
    return st.lists(st.integers(0, 20), min_size=2**j, max_size=2**j)


clamped_trees = st.integers(0, 5).flatmap(lambda depth: st.tuples(*map(clamped_level, range(depth + 1))))


def consistent_levels(counts, seed):
    """The consistent counts of every level: the random bits of a level do not depend on those below."""
    return [uniform_consistency(counts[: j + 1], np.random.default_rng(seed)) for j in range(len(counts))]


@given(tree=clamped_trees, seed=st.integers(0, 2**32))
@settings(max_examples=100, deadline=None)
def test_uniform_consistency_gives_whole_counts_that_add_up_and_are_comparable_with_its_input(tree, seed):
    counts = [np.array(level, dtype=np.int64) for level in tree]
    levels = consistent_levels(counts, seed)
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
