"""Counts of areas: the least squares solution, whole numbers that add up, and shares of levels."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from internals import level_shares, nearest_whole, shrink_tables, tree_least_squares, tree_variances, whole_counts

PARENTS = (np.array([0, 0]), np.array([0, 0, 1]), np.array([0, 1, 1, 2, 0, 2]))
SIZES = (1, 2, 3, 6)
RNG = np.random.default_rng(0)


def members():
    """Which smallest areas are in each area of each level, one matrix a level."""
    of, found = np.arange(6), [np.eye(6)]
    for parents in reversed(PARENTS):
        of = parents[of]
        found.insert(0, (of == np.arange(len(np.unique(of)))[:, None]).astype(float))
    return found


@pytest.mark.parametrize("total", [None, 30])
@pytest.mark.parametrize("variances", [(2.0, 1.0, 3.0, 0.5), (np.inf, 1.0, np.inf, 0.5)])
def test_estimates_are_those_of_the_normal_equations(total, variances):
    counts = [RNG.normal(4, 3, (n, 2)) for n in SIZES]
    estimates = tree_least_squares(counts, PARENTS, variances, total)
    A = np.vstack(members())
    weights = np.concatenate([np.full(n, 0 if np.isinf(v) else 1 / v) for n, v in zip(SIZES, variances, strict=True)])
    H, g = A.T @ (weights[:, None] * A), A.T @ (weights[:, None] * np.vstack(counts))
    x = np.linalg.solve(np.kron(np.eye(2), H), g.T.ravel())
    if total is not None:  # of all solutions with that sum, the one of least squares
        K = np.block([[np.kron(np.eye(2), H), np.ones((12, 1))], [np.ones((1, 12)), np.zeros((1, 1))]])
        x = np.linalg.solve(K, np.append(g.T.ravel(), total))[:12]
    np.testing.assert_allclose(estimates[-1], x.reshape(2, 6).T, atol=1e-9)
    for level, each in zip(members(), estimates, strict=True):
        np.testing.assert_allclose(each, level @ estimates[-1], atol=1e-9)


@pytest.mark.parametrize("total", [None, 30])
@pytest.mark.parametrize("variances", [(2.0, 1.0, 3.0, 0.5), (np.inf, 1.0, np.inf, 0.5)])
def test_variances_of_estimates_are_those_of_the_linear_map(total, variances):
    """Exactly: estimates are linear in the counts, so each count that is 1 alone shows a column of the map."""
    zero = [np.zeros((n, 2)) for n in SIZES]
    base = np.vstack(tree_least_squares(zero, PARENTS, variances, total))
    found = np.zeros(base.shape)
    for level, (n, variance) in enumerate(zip(SIZES, variances, strict=True)):
        for area, cell in itertools.product(range(n), range(2)) if np.isfinite(variance) else ():
            zero[level][area, cell] = 1
            found += variance * (np.vstack(tree_least_squares(zero, PARENTS, variances, total)) - base) ** 2
            zero[level][area, cell] = 0
    expected = np.concatenate(tree_variances(PARENTS, variances, 0.0 if total is None else 0.5)[2])
    np.testing.assert_allclose(found, np.column_stack([expected, expected]), rtol=1e-9)


def test_exact_counts_stay_as_they_are():
    exact = [level @ np.arange(12.0).reshape(6, 2) for level in members()]
    estimates = tree_least_squares(exact, PARENTS, [0.0] * 4, 66)
    for whole, counts in zip(whole_counts(estimates, PARENTS, 66), exact, strict=True):
        np.testing.assert_array_equal(whole, counts)


@given(st.integers(0, 50), st.lists(st.floats(-100, 100), min_size=12, max_size=12))
def test_whole_counts_are_at_least_0_and_add_up_whatever_the_estimates(total, values):
    leaves = np.array(values).reshape(6, 2)
    whole = whole_counts([level @ leaves for level in members()], PARENTS, total)
    assert whole[0].sum() == total
    assert all(counts.min() >= 0 for counts in whole)
    for level, counts in zip(members(), whole, strict=True):
        np.testing.assert_array_equal(counts, level @ whole[-1])


def test_no_whole_numbers_of_that_sum_are_much_nearer():
    """Brute force over all of three numbers: largest remainders of a projection are the nearest, or nearly."""
    for _ in range(50):
        values, total = RNG.normal(2, 3, (3, 1)), int(RNG.integers(0, 8))
        found = nearest_whole(values, np.array([total]))[:, 0]
        options = [each for each in itertools.product(range(total + 1), repeat=3) if sum(each) == total]
        least = min(np.abs(np.array(each) - values[:, 0]).max() for each in options)
        assert found.sum() == total
        assert np.abs(found - values[:, 0]).max() <= least + 1


def test_shares_of_levels_add_up_and_what_is_not_counted_gets_none():
    shares = level_shares(PARENTS, [False, True, True, True], 1)
    assert shares[0] == 0
    assert sum(shares) == pytest.approx(1)
    assert min(shares[1:]) > 0
    assert level_shares((), [True], 2) == [1.0]


@pytest.mark.parametrize("power", [1, 2])
def test_expected_variances_are_those_of_equal_areas(power):
    """Measured on a regular tree: the shares that were taken leave less error than all others that were tried."""
    n_areas, parents = [1, 3, 9], (np.zeros(3, dtype=int), np.repeat(np.arange(3), 3))
    chosen = level_shares(parents, [True] * 3, power)
    errors = {}
    for leaf in (0.2, 0.5, 0.8, chosen[-1]):
        shares = [(1 - leaf) / 2, (1 - leaf) / 2, leaf]
        noise = [RNG.normal(size=(n, 40_000)) * share ** (-power / 2) for n, share in zip(n_areas, shares, strict=True)]
        estimates = tree_least_squares(noise, parents, [share**-power for share in shares])
        errors[leaf] = sum(each.var() for each in estimates)
    assert errors[chosen[-1]] <= 1.02 * min(errors.values())


def test_tables_are_shrunk_to_what_is_seen_beyond_noise_and_chance():
    rng, groups = np.random.default_rng(0), np.repeat([0, 1], 20)
    expected = rng.integers(500, 2000, (40, 1)) * np.array([0.5, 0.3, 0.2])
    shifts = expected * rng.normal(0, 0.1, (40, 3))
    shifts -= shifts.sum(axis=1, keepdims=True) * [0.5, 0.3, 0.2]
    true = expected + shifts
    for deviation, least, most in ((0.0, 0.0, 0.3), (50.0, 0.2, 0.8), (5000.0, 0.9, 1.1)):
        near = shrink_tables(true + deviation * rng.normal(size=true.shape), expected, deviation**2, groups)
        np.testing.assert_allclose(near.sum(axis=1), expected.sum(axis=1), rtol=0.01)
        np.testing.assert_allclose([near[:20].sum(axis=0), near[20:].sum(axis=0)], [expected[:20].sum(axis=0), expected[20:].sum(axis=0)])
        assert least <= ((near - true) ** 2).sum() / ((expected - true) ** 2).sum() <= most
