"""Systematic sampling in blocks."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from internals import (
    CELLS,
    CODES,
    NODES,
    STRATA,
    MixtureSampler,
    _mixture_sampling,
    balanced_half,
    block_shifts,
    points_below,
    shuffle_within,
)
from laws import ALARM, kolmogorov
from scipy import stats

from skdpsynth.models import LatentFactors


def upto_of(seed, size, dtype=float):
    upto = np.cumsum(np.random.default_rng(seed).exponential(size=size) ** 3)
    return (upto / upto[-1]).astype(dtype)


@given(
    seed=st.integers(0, 2**32),
    n=st.integers(0, 70_000),
    shift=st.floats(0, 1, exclude_max=True, width=32),
    dtype=st.sampled_from([np.float32, float]),
)
@settings(max_examples=200, deadline=None)
def test_points_are_as_many_as_were_asked_for_and_each_run_has_its_share_up_to_one(seed, n, shift, dtype):
    upto = upto_of(seed, 20, dtype)
    below = points_below(upto, n, dtype(shift))
    assert below[-1] == n
    assert (np.diff(below, prepend=0) >= 0).all()
    assert np.all(np.abs(below - n * upto.astype(float)) < 1 + 1e-2)


each_stage = pytest.mark.parametrize("stage", [STRATA, NODES, CODES, CELLS])


@each_stage
def test_the_shift_of_each_block_is_uniform_and_below_one(stage):
    """2000 shifts in three blocks."""
    starts = np.random.default_rng(0).random(2000)
    for block in (1, 5, 1000):
        assert kolmogorov(block_shifts(starts, block, stage), "uniform") > ALARM
    for start in (0.0, 0.3, np.float32(1) - np.finfo(np.float32).epsneg):
        assert all(0 <= block_shifts(np.array([start]), block, stage)[0] < 1 for block in [*range(300), 10**6, 10**9])


@pytest.mark.parametrize("n_codes", [1, 2, 7, 256, 5000])
@pytest.mark.parametrize("even", [True, False])
def test_a_shuffle_keeps_the_codes_of_each_group(n_codes, even):
    rng = np.random.default_rng(0)
    counts = np.full(300, 8) if even else rng.integers(1, 40, 300)
    codes = rng.integers(0, n_codes, counts.sum()).astype(np.uint32)
    shuffled, start = shuffle_within(codes, n_codes, counts, rng), 0
    for stop in np.cumsum(counts):
        assert sorted(shuffled[start:stop].tolist()) == sorted(codes[start:stop].tolist())
        start = stop


@pytest.mark.parametrize("n_codes", [6, 5000])
def test_a_shuffle_is_uniform(n_codes):
    """Groups of 6 codes, 20,000 times: chi squared of all 36 places."""
    shuffled = shuffle_within(np.tile(np.arange(6, dtype=np.uint32), 20_000), n_codes, np.full(20_000, 6), np.random.default_rng(0))
    found = np.zeros((6, 6))
    np.add.at(found, (np.tile(np.arange(6), 20_000), shuffled.astype(int)), 1)
    # Each row and each column has its total: 25 degrees of freedom.
    assert stats.chi2.sf(np.sum((found - 20_000 / 6) ** 2 / (20_000 / 6)), 25) > ALARM


def small_model(n_codes=5):
    rng, sizes = np.random.default_rng(0), np.array([3, n_codes, 2])
    return LatentFactors(sizes, rng.normal(size=(64, 2)), rng.normal(size=(1, 1, sizes.sum())), rng.normal(size=(1, 1, sizes.sum(), 2)))


@pytest.mark.parametrize("n_codes", [5, 100], ids=["narrow", "wide"])
def test_frequencies_of_many_blocks_are_nearer_to_the_model_than_those_of_blocks_of_their_own(n_codes):
    """200 blocks of 300 rows: mean squared errors of the counts of all codes. Blocks that share their shifts cancel; a tenth is far off."""
    model, rng = small_model(n_codes), np.random.default_rng(1)
    expected = model.probabilities().mean(axis=1) * 300 * 200
    starts = np.cumsum(model.sizes) - model.sizes
    errors = []
    for alone in (False, True):
        draw, found = MixtureSampler(model.mixture(0), rng), np.zeros(model.sizes.sum())
        for block in range(200):
            draw = MixtureSampler(model.mixture(0), rng) if alone else draw
            for start, size, codes in zip(starts, model.sizes, draw.codes(300, block, rng), strict=True):
                found[start : start + size] += np.bincount(codes, minlength=size)
        errors.append(np.mean((found - expected) ** 2))
    assert errors[0] < 0.1 * errors[1]


def test_columns_of_many_codes_are_drawn_as_those_of_few(monkeypatch):
    model = small_model()
    few = list(MixtureSampler(model.mixture(0), np.random.default_rng(0)).codes(1000, 3, np.random.default_rng(1)))
    monkeypatch.setattr(_mixture_sampling, "_NARROW", 1)
    many = list(MixtureSampler(model.mixture(0), np.random.default_rng(0)).codes(1000, 3, np.random.default_rng(1)))
    for a, b in zip(few, many, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_balanced_half_has_nearly_the_pairs_of_all_rows_and_its_rows_have_their_law():
    """A random half is off by the root of the number of rows. Whichever row of two is kept, it would be the other one as often."""
    rng, n, kept = np.random.default_rng(0), 4000, np.zeros(8)
    whole = rng.choice(3, size=(5, 1)) ^ rng.integers(0, 3, (5, n))
    pairs = [np.ravel_multi_index([whole[i], whole[j]], (4, 4)) for i, j in combinations(range(5), 2)]
    half = np.array(balanced_half(list(whole), rng))
    of_half = [np.ravel_multi_index([half[i], half[j]], (4, 4)) for i, j in combinations(range(5), 2)]
    off = [np.bincount(a, minlength=16) / 2 - np.bincount(b, minlength=16) for a, b in zip(pairs, of_half, strict=True)]
    assert half.shape == (5, n // 2)
    assert np.sqrt(np.mean(np.square(off))) < 4  # of a random half about 13
    for _ in range(2000):  # of eight different rows, one of each two is kept, and each as often
        rows = np.array([[0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 0, 0, 1, 1], [0, 1, 0, 1, 0, 1, 0, 1]])
        left = np.array(balanced_half(list(rows), rng))
        kept[np.ravel_multi_index(list(left), (2, 2, 2))] += 1
    assert kept.sum() == 8000
    assert np.abs(kept - 1000).max() < stats.norm.isf(1e-9 / 16) * np.sqrt(2000 / 4)
