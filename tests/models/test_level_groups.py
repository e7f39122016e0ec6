"""Codes for columns of very many levels."""

import numpy as np
import pytest
from internals import CellsInBins, LevelGroups
from internals import level_groups_expected as expected

RNG = np.random.default_rng(0)


def groups_of(counts, groups=None, most=8, deviation=1.0):
    counts = np.asarray(counts)
    return LevelGroups.of(counts, deviation, np.zeros(len(counts), dtype=int) if groups is None else np.asarray(groups), most)


@pytest.mark.parametrize("seed", range(20))
def test_every_level_has_one_of_few_codes_and_every_code_a_level(seed):
    rng = np.random.default_rng(seed)
    n_levels, most = rng.integers(2, 200), rng.integers(2, 40)
    counts = rng.integers(-50, 50, n_levels) + rng.integers(0, 2, n_levels) * rng.integers(0, 2000, n_levels)
    made = groups_of(counts, rng.integers(0, rng.integers(1, 60), n_levels), most, deviation=20.0)
    assert sorted(made.order) == list(range(n_levels))
    assert sorted(set(made.codes)) == list(range(made.n_bins))
    assert made.n_bins <= most
    assert made.link.mass.sum() == pytest.approx(1)
    assert groups_of([[-50, -40, -60], [0, 0, 0]][seed % 2], deviation=20.0).link.mass.sum() == pytest.approx(1)  # all noise


@pytest.mark.parametrize(
    ("counts", "groups", "most", "deviation", "same"),
    [
        ([1000, 3, 2, 900, 1, 4], None, 8, 1.0, [0, 1, 1, 2, 1, 1]),  # the heavy ones have a code each
        ([100, 300, 200, 400, 50], None, 3, 1.0, [0, 1, 0, 2, 0]),  # the heaviest, where there are few
        ([30, 20, 10, 25], None, 8, 10.0, [0, 0, 0, 0]),  # none that stands out of the noise
        ([50, 50, 50, 50, 50, 50], [0, 1, 0, 2, 1, 2], 4, 1.0, [0, 1, 0, 2, 1, 2]),  # groups have a code each
        ([5, 100, 4, 200, 3], [0, 1, 2, 3, 4], 3, 1.0, [0, 1, 0, 2, 0]),  # the lightest of too many are one
    ],
)
def test_heavy_levels_and_groups_have_codes_of_their_own_and_the_others_share_one(counts, groups, most, deviation, same):
    codes = groups_of(counts, groups, most, deviation).codes
    assert [codes.tolist().index(code) for code in codes] == [same.index(code) for code in same]


@pytest.mark.parametrize("seed", range(5))
def test_levels_drawn_in_a_code_are_of_that_code_and_of_their_mass(seed):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 1000, 50)
    made = groups_of(counts, groups=rng.integers(0, 6, 50), most=6, deviation=0.0)
    drawn = np.full(made.n_bins, 10_000)
    cells = CellsInBins.of(made.link).cells(drawn, rng.random(made.n_bins))
    levels = made.order[cells]
    np.testing.assert_array_equal(made.codes[levels], np.repeat(np.arange(made.n_bins), drawn))
    for code in range(made.n_bins):
        inside = made.codes == code
        np.testing.assert_allclose(np.bincount(levels, minlength=50)[inside] / 10_000, counts[inside] / counts[inside].sum(), atol=1e-3)


@pytest.mark.parametrize("shape", ["equal", "zipf", "few"])
def test_expected_counts_are_nearer_than_what_is_positive_of_noisy_ones(shape):
    """Seeded: 30,000 levels of some 30 rows, and noise of 80."""
    n = 30_000
    shares = {"equal": np.ones(n), "zipf": 1 / np.arange(1, n + 1), "few": (np.arange(n) < 100) + 1e-6}[shape]
    true = RNG.multinomial(1_000_000, shares / shares.sum())
    noisy = true + np.rint(RNG.normal(0, 80, n)).astype(int)

    def distance(counts):
        return np.abs(counts / counts.sum() - true / true.sum()).sum() / 2

    positive, better = distance(np.maximum(noisy, 0)), distance(expected(noisy, 80.0))
    assert better < 0.6 * positive


def test_counts_far_above_the_noise_stay_as_they_are():
    counts = np.array([0, 5, 1000, 5000])
    assert expected(counts, 10.0)[2:].tolist() == [1000, 5000]
    assert expected(counts, 0.0).tolist() == [0, 5, 1000, 5000]
