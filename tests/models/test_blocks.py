"""Blocks of columns: groups of codes, dependence in noise, and the number of rows."""

import numpy as np
import pytest
from internals import join_into_blocks

from skdpsynth.models import CoarsePairs, NoisyTables, max_pair_counts, merge_codes


def groups(noisy, is_nominal):
    """The groups of the codes of one column."""
    return merge_codes(NoisyTables({(0,): np.asarray(noisy)[None]}, 1.0), [is_nominal])[0]


def test_merged_codes_share_the_mass_evenly():
    """Ordered codes are cut at the median; nominal ones are not merged; noise may be negative, and no group is empty."""
    rng = np.random.default_rng(0)
    for size in (2, 3, 5, 16):
        for noisy in (rng.integers(1, 50, size), rng.integers(-50, 20, size), np.zeros(size, dtype=int), np.eye(size, dtype=int)[0]):
            ordered, nominal = (groups(noisy, is_nominal) for is_nominal in (False, True))
            assert set(ordered) == {0, 1}
            assert set(np.diff(ordered)) <= {0, 1}
            assert set(nominal) == set(range(size))
    assert groups(np.array([1, 1, 1, 100]), False).tolist() == [0, 0, 0, 1]
    assert groups(np.array([100, 1, 1, 1]), False).tolist() == [0, 1, 1, 1]
    mass = rng.integers(1, 50, 16)
    assert np.bincount(groups(mass, False), mass).max() <= mass.sum() / 2 + mass.max()


def test_nominal_codes_are_merged_evenly_where_all_columns_have_too_many():
    """2048 groups in all, of which ordered columns have two: so 14 of the 16 codes, and no more, are too many for 150 + 2 columns."""
    rng = np.random.default_rng(0)
    masses = rng.integers(1, 50, (152, 1, 16))
    merged = merge_codes(NoisyTables({(i,): mass for i, mass in enumerate(masses)}, 1.0), [True] * 150 + [False] * 2)
    assert [len(set(group)) for group in merged] == [13] * 150 + [2] * 2
    for group, (mass,) in zip(merged[:150], masses, strict=False):
        assert np.ptp(np.bincount(group, mass)) <= mass.max()
    few = merge_codes(NoisyTables({(i,): mass for i, mass in enumerate(np.ones((1000, 1, 5)))}, 1.0), [True] * 1000)
    assert {len(set(group)) for group in few} == {3}


def dependence_of(codes, scale=0, seed=0):
    """How far pairs of bits are from independence, by tables with noise of standard deviation `scale`."""
    rng, d = np.random.default_rng(seed), codes.shape[1]
    hot = np.stack([codes == 0, codes == 1], axis=2).astype(float)
    two = {(i, j): (hot[:, i].T @ hot[:, j])[None] + scale * rng.standard_normal((1, 2, 2)) for i in range(d) for j in range(i + 1, d)}
    merged = CoarsePairs.of(NoisyTables(two, scale**2), [np.array([0, 1])] * d, len(codes))
    alone = (hot.mean(axis=0) - 0.5).ravel()
    return merged.dependence(np.outer(alone, alone))


def test_columns_that_depend_on_each_other_share_a_block():
    """Of 9 bits three at a time are noisy copies of one, in noise that hides a hundredth of the rows."""
    rng = np.random.default_rng(0)
    codes = np.repeat(rng.integers(0, 2, (3000, 3)), 3, axis=1) ^ (rng.random((3000, 9)) < 0.2)
    assert join_into_blocks(dependence_of(codes, scale=30)) == [(0, 1, 2), (3, 4, 5), (6, 7, 8)]


def test_two_columns_at_least_and_twelve_at_most_are_joined_and_none_twice_whatever_the_noise():
    for codes, scale in (
        (np.zeros((10, 5), dtype=int), 100),
        (np.repeat(np.random.default_rng(0).integers(0, 2, (500, 1)), 30, axis=1), 0),
    ):
        for seed in range(5):
            blocks = join_into_blocks(dependence_of(codes, scale, seed))
            assert 2 <= max(map(len, blocks)) <= 12
            assert sorted(column for block in blocks for column in block) == list(range(codes.shape[1]))
    assert max(map(len, blocks)) == 12


@pytest.mark.parametrize("n_columns", [1, 5, 12, 13, 30])
def test_no_way_to_make_blocks_has_more_pairs_of_codes_than_the_bound(n_columns):
    rng = np.random.default_rng(n_columns)
    for _ in range(50):
        sizes = rng.integers(2, 200, n_columns)
        order = rng.permutation(n_columns)
        cuts = np.sort(rng.choice(n_columns + 1, min(n_columns, 4)))
        parts = [part[:12] for part in np.split(order, cuts)]
        assert sum(int(sizes[part].sum()) ** 2 for part in parts) <= max_pair_counts(sizes.tolist(), True)
    assert max_pair_counts(sizes.tolist(), False) == int(sizes.sum()) ** 2


def test_noise_alone_makes_tables_of_any_size_dependent_equally_seldom():
    """4000 tables of 2 x 2, 2 x 6 and 6 x 6 cells each: two of 4000 pass 1 by chance, and 10 do in one of 20,000 tests.

    The excess has a mean of 0 and, for f degrees of freedom, a deviation of sqrt(2 f) before its scale, which is at least 3.3 of those.
    """
    rng, d = np.random.default_rng(0), 180
    sizes = np.where(np.arange(d) % 2, 6, 2)
    two = {(i, j): 7 * rng.standard_normal((1, sizes[i], sizes[j])) for i in range(d) for j in range(i + 1, d)}
    merged = CoarsePairs.of(NoisyTables(two, 49.0), [np.arange(size) for size in sizes], 500)
    found = merged.dependence(np.zeros_like(merged.interactions))
    for free in (1, 5, 25):
        alike = np.array([found[i, j] for i, j in two if (sizes[i] - 1) * (sizes[j] - 1) == free])
        assert len(alike) > 3900
        assert abs(alike.mean()) < 5 / 3.3 / len(alike) ** 0.5
        assert (alike > 1).sum() < 14
        assert (alike > 0.75).sum() > 0


def test_sums_of_codes_make_interactions_of_products():
    """In any order of the columns: brute force is the joint table, merged and doubly centered."""
    rng = np.random.default_rng(0)
    groups = [np.array([0, 0, 1]), np.array([2, 0, 1, 0]), np.array([0, 1])]
    tables = [rng.dirichlet(np.ones(len(group)), 5).T for group in groups]  # of 5 nodes
    merged = CoarsePairs.of(NoisyTables({}, 1.0), groups, 1)
    order = [2, 0, 1]
    Q = merged.grouping_matrix(order) @ np.concatenate([tables[column] for column in order])
    joint = tables[0] @ tables[1].T
    small = np.array([[joint[np.ix_(groups[0] == a, groups[1] == b)].sum() for b in range(3)] for a in range(2)])
    small -= small.mean(axis=0)
    small -= small.mean(axis=1, keepdims=True)
    np.testing.assert_allclose((Q @ Q.T)[:2, 2:5], small, atol=1e-6)
