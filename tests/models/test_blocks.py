"""Blocks of columns: groups of codes, dependence in noise, and the number of rows."""

import numpy as np
import pytest

from skdpsynth.models import NoisyTables, blocks_of, merged_groups, most_counts_of_pairs, pairs_within


def groups(noisy, is_nominal):
    """The groups of the codes of one column."""
    return merged_groups(NoisyTables({(0,): np.asarray(noisy)[None]}, 1.0), [is_nominal])[0]


def test_merged_codes_share_the_mass_evenly():
    """Ordered codes are cut at the median; a nominal column has three groups; noise may be negative, and no group is empty."""
    rng = np.random.default_rng(0)
    for size in (2, 3, 5, 16):
        for noisy in (rng.integers(1, 50, size), rng.integers(-50, 20, size), np.zeros(size, dtype=int), np.eye(size, dtype=int)[0]):
            ordered, nominal = (groups(noisy, is_nominal) for is_nominal in (False, True))
            assert set(ordered) == {0, 1}
            assert set(np.diff(ordered)) <= {0, 1}
            assert set(nominal) == set(range(min(size, 3)))
    assert groups(np.array([1, 1, 1, 100]), False).tolist() == [0, 0, 0, 1]
    assert groups(np.array([100, 1, 1, 1]), False).tolist() == [0, 1, 1, 1]
    mass = rng.integers(1, 50, 16)
    assert np.bincount(groups(mass, False), mass).max() <= mass.sum() / 2 + mass.max()
    assert np.ptp(np.bincount(groups(mass, True), mass)) <= mass.max()


def tables_of(codes, scale=0, seed=0):
    """Tables of columns and of pairs of bits, with noise of standard deviation `scale`."""
    rng, d = np.random.default_rng(seed), codes.shape[1]
    hot = np.stack([codes == 0, codes == 1], axis=2).astype(float)
    noise = lambda shape: scale * rng.standard_normal(shape)  # noqa: E731
    one = {(i,): hot[:, i].sum(axis=0)[None] + noise((1, 2)) for i in range(d)}
    two = {(i, j): (hot[:, i].T @ hot[:, j])[None] + noise((1, 2, 2)) for i in range(d) for j in range(i + 1, d)}
    return NoisyTables(one, scale**2), NoisyTables(two, scale**2)


def test_columns_that_depend_on_each_other_share_a_block():
    """Of 9 bits three at a time are noisy copies of one, in noise that hides a hundredth of the rows."""
    rng = np.random.default_rng(0)
    codes = np.repeat(rng.integers(0, 2, (3000, 3)), 3, axis=1) ^ (rng.random((3000, 9)) < 0.2)
    one_way, pairs = tables_of(codes, scale=30)
    bits = [np.array([0, 1])] * 9
    assert blocks_of(one_way, pairs, bits) == [(0, 1, 2), (3, 4, 5), (6, 7, 8)]


def test_blocks_have_at_most_twelve_columns_and_no_column_twice():
    codes = np.repeat(np.random.default_rng(0).integers(0, 2, (500, 1)), 30, axis=1)
    blocks = blocks_of(*tables_of(codes), [np.array([0, 1])] * 30)
    assert max(map(len, blocks)) == 12
    assert sorted(column for block in blocks for column in block) == list(range(30))


def test_two_columns_at_least_are_joined_whatever_the_noise():
    codes = np.zeros((10, 5), dtype=int)
    for seed in range(5):
        assert len(pairs_within(blocks_of(*tables_of(codes, 100, seed), [np.array([0, 1])] * 5))) >= 1


def test_pairs_are_those_within_blocks():
    assert pairs_within([(0, 2), (1,), (3, 4, 7)]) == [(0, 2), (3, 4), (3, 7), (4, 7)]


@pytest.mark.parametrize("n_columns", [1, 5, 12, 13, 30])
def test_no_way_to_make_blocks_has_more_pairs_of_codes_than_the_bound(n_columns):
    rng = np.random.default_rng(n_columns)
    for _ in range(50):
        sizes = rng.integers(2, 200, n_columns)
        order = rng.permutation(n_columns)
        cuts = np.sort(rng.choice(n_columns + 1, min(n_columns, 4)))
        parts = [part[:12] for part in np.split(order, cuts)]
        assert sum(int(sizes[part].sum()) ** 2 for part in parts) <= most_counts_of_pairs(sizes.tolist(), True)
    assert most_counts_of_pairs(sizes.tolist(), False) == int(sizes.sum()) ** 2
