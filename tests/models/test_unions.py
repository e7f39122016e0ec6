"""Tables of a union of rows from noisy tables of its parts."""

import numpy as np
import pytest
from internals import pool_tables, recoding_matrix

from skdpsynth.domain import Schema
from skdpsynth.models import Codes, LevelGroups, Link, Measurements, NoisyTables, pool_measurements

SIZES = [400.0, 800.0, 3200.0]


def parts(seed, laws, deviation, sizes=SIZES):
    """Noisy tables of parts of some sizes, each with its law; and the exact table of all."""
    rng = np.random.default_rng(seed)
    exact = [rng.multinomial(int(size), law.ravel()).reshape(law.shape) for size, law in zip(sizes, laws, strict=True)]
    return [(counts + deviation * rng.normal(size=counts.shape), deviation**2) for counts in exact], sum(exact)


def law(seed, shape=(1, 6, 7)):
    return np.random.default_rng(seed).dirichlet(np.ones(int(np.prod(shape)))).reshape(shape)


def error(found, exact):
    return float(((found - exact) ** 2).sum())


def test_one_part_stays_as_it_is_and_without_noise_the_union_is_the_plain_sum():
    (noisy,), _ = parts(0, [law(0)], 30.0, [500.0])
    table, variance = pool_tables([noisy], [500.0], [500.0])
    assert np.allclose(table, noisy[0])
    assert variance == pytest.approx(900)
    noisy, exact = parts(0, [law(0), law(1), law(2)], 0.0)
    table, variance = pool_tables(noisy, SIZES, SIZES)
    assert np.allclose(table, exact, rtol=1e-12)
    assert variance == 0


def test_parts_of_one_law_have_less_error_together_than_their_sum_has():
    """200 draws at deviation 60: the mean ratio is near .5, its standard error .01."""
    ratios = []
    for seed in range(200):
        noisy, exact = parts(seed, [law(0)] * 3, 60.0)
        ratios.append(error(pool_tables(noisy, SIZES, SIZES)[0], exact) / error(sum(table for table, _ in noisy), exact))
    assert np.mean(ratios) < 0.7


@pytest.mark.parametrize("deviation", [5.0, 20.0, 60.0])
def test_parts_that_differ_never_have_more_error_than_their_sum_has(deviation):
    """100 draws: the mean ratio is at most 1 by the theorem, its standard error below .02."""
    ratios = []
    for seed in range(100):
        noisy, exact = parts(seed, [law(0), law(1), law(2)], deviation)
        ratios.append(error(pool_tables(noisy, SIZES, SIZES)[0], exact) / error(sum(table for table, _ in noisy), exact))
    assert np.mean(ratios) < 1.13


def test_variance_of_parts_that_are_all_noise_is_what_it_says():
    """Uniform parts, 400 draws of 42 counts: the mean square is within 10 % of the variance (its standard error is below 1 %)."""
    flat = np.full((1, 6, 7), 1 / 42)
    squares, said = [], []
    for seed in range(400):
        rng = np.random.default_rng(seed)
        noisy = [(size * flat + 60 * rng.normal(size=flat.shape), 3600.0) for size in SIZES]
        table, variance = pool_tables(noisy, SIZES, SIZES)
        squares.append(np.mean((table - sum(SIZES) * flat) ** 2))
        said.append(variance)
    assert 0.9 < np.mean(squares) / np.mean(said) < 1.1


def test_a_part_that_was_not_counted_so_has_the_mean_of_the_others():
    noisy, _ = parts(0, [law(0)] * 2, 5.0, [1000.0, 2000.0])
    table, _ = pool_tables([noisy[0], None, noisy[1]], [1000.0, 500.0, 2000.0], [1000.0, 500.0, 2000.0])
    without, _ = pool_tables(noisy, [1000.0, 2000.0], [1000.0, 2000.0])
    assert np.allclose(table, without * 3500 / 3000, rtol=0.02, atol=1)


# Codes


def link(edges, n_cells=16, seed=0):
    return Link(np.random.default_rng(seed).dirichlet(np.ones(n_cells)), np.array(edges))


@pytest.mark.parametrize("nullable", [False, True])
def test_bins_that_are_joined_are_translated_exactly(nullable):
    shares = recoding_matrix(link([0, 4, 8, 16]), link([0, 8, 16]), nullable)
    expected = np.array([[1, 0], [1, 0], [0, 1]], dtype=float)
    assert np.allclose(shares[:3, :2], expected)
    assert not nullable or np.array_equal(shares[-1], [0, 0, 1])


def test_a_bin_that_is_cut_is_shared_by_the_mass_of_its_cells():
    new = link([0, 3, 16])
    shares = recoding_matrix(link([0, 8, 16]), new, nullable=False)
    assert shares[0, 0] == pytest.approx(new.mass[:3].sum() / new.mass[:8].sum())
    assert np.allclose(shares.sum(axis=1), 1)
    assert np.allclose(shares[1], [0, 1])


def test_bins_without_mass_are_shared_by_their_widths():
    new = Link(np.r_[np.zeros(8), np.full(8, 1 / 8)], np.array([0, 2, 16]))
    assert np.allclose(recoding_matrix(link([0, 8, 16]), new, nullable=False)[0], [1 / 4, 3 / 4])


def test_groups_of_levels_are_translated_level_by_level():
    counts = np.random.default_rng(0).integers(1, 1000, 30).astype(float)
    old, new = (
        LevelGroups.of(counts[order], 0.0, np.zeros(30, dtype=np.int64), most) for order, most in ((np.arange(30), 6), (slice(None), 12))
    )
    shares = recoding_matrix(old, new, nullable=False)
    for level in range(30):
        assert shares[old.codes[level], new.codes[level]] > 0
    own = [code for code in range(old.n_bins) if np.sum(old.codes == code) == 1]
    assert all(shares[code].max() == pytest.approx(1) for code in own)


def counted(edges, counts, n):
    codes = Codes({"x": link(edges)}, {}, {}, ((0,),), n)
    table = np.array(counts, dtype=float)[None]
    return Measurements(SCHEMA, None, codes, NoisyTables({(0,): table}, 0.0), NoisyTables({}, 0.0), n)


SCHEMA = Schema({"x": (0, 1)})


def test_a_union_has_the_codes_of_its_last_part_and_all_rows():
    union = pool_measurements([counted([0, 4, 8, 16], [10, 20, 30], 60), counted([0, 8, 16], [5, 7], 12)], [60, 12])
    assert np.allclose(union.one_way.tables[(0,)], [[35, 37]])
    assert union.n_samples == 72
    assert union.codes.links["x"].n_bins == 2


def test_codes_serve_until_twice_as_many_rows_have_come_as_chose_them():
    codes = Codes({}, {}, {}, (), 1000)
    assert codes.can_count(1999)
    assert not codes.can_count(2000)
    assert codes.after(1000).can_count(999)
    assert not codes.after(1000).can_count(1000)
