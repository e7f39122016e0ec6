"""The sup-norm noise: its law, by enumeration of what it must be."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from skdpsynth.privacy import DiscreteLaplace, DiscreteSupNorm, SeededBits, _sup_norm


def points(scale, count, size, seed=0):
    """Draws of the noise on Z^count, one a row."""
    rng = SeededBits(seed)
    return np.array([DiscreteSupNorm(scale).sample(count, rng) for _ in range(size)])


def chi_square(norms, scale, count):
    """p-value of observed sup norms: P(m) is proportional to exp(-m / scale) ((2 m + 1)^D - (2 m - 1)^D)."""
    m = np.arange(0, int(40 * scale * count) + 40)
    shell = (2.0 * m + 1) ** count - np.where(m > 0, 2.0 * m - 1, 0) ** count
    law = shell * np.exp(-m / scale)
    law /= law.sum()
    edges = np.unique(np.searchsorted(np.cumsum(law), np.linspace(0, 1, 12)[1:-1]))
    bins = np.searchsorted(edges, norms, side="left")
    observed = np.bincount(bins, minlength=len(edges) + 1)
    expected = np.bincount(np.searchsorted(edges, m, side="left"), weights=law, minlength=len(edges) + 1) * len(norms)
    return stats.chisquare(observed, expected).pvalue


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("scale", [0.5, 3, 40])
def test_sup_norms_follow_their_law_and_no_other_scale(scale, count):
    """1500 draws; accepted above 1e-4 (9 cases: false alarm 1e-3), 2/3 and 3/2 of the scale rejected below 1e-6."""
    norms = np.abs(points(scale, count, 1500)).max(axis=1)
    assert chi_square(norms, scale, count) > 1e-4
    assert chi_square(norms, scale * 2 / 3, count) < 1e-6
    assert chi_square(norms, scale * 3 / 2, count) < 1e-6


def test_points_of_one_norm_are_uniform():
    """D = 2, scale 1.5: the 25 cells of [-2, 2]^2, 8,000 draws; p above 1e-4."""
    draws = points(1.5, 2, 8_000, seed=1)
    draws = draws[np.abs(draws).max(axis=1) <= 2]
    cells = (draws[:, 0] + 2) * 5 + draws[:, 1] + 2
    x, y = np.divmod(np.arange(25), 5)
    law = np.exp(-np.maximum(abs(x - 2), abs(y - 2)) / 1.5)
    assert stats.chisquare(np.bincount(cells, minlength=25), law / law.sum() * len(cells)).pvalue > 1e-4


def test_one_entry_is_discrete_laplace():
    """Two samples of 5000 at scale 7, Kolmogorov-Smirnov on jittered values; p above 1e-4."""
    ours = points(7, 1, 5000, seed=2)[:, 0]
    laplace = DiscreteLaplace(7).sample(5000, SeededBits(3))
    jitter = np.random.default_rng(0).random((2, 5000))
    assert stats.ks_2samp(ours + jitter[0], laplace + jitter[1]).pvalue > 1e-4


@pytest.mark.parametrize("count", [3, 50])
@pytest.mark.parametrize("scale", [Fraction(1000), Fraction(2**40)])
def test_variance_is_the_claimed_one(scale, count):
    """600 draws: the mean square is within 25 % (5 standard errors at 3 entries)."""
    draws = points(scale, count, 600).astype(float)
    assert np.mean(draws**2) / DiscreteSupNorm(scale).variance(count) == pytest.approx(1, abs=0.25)


@pytest.mark.parametrize("count", [1, 3, 20])
def test_variance_is_that_of_a_uniform_point_of_a_cube_of_random_radius(count):
    """Summed up: P(R) is proportional to exp(-R / scale) (2 R + 1)**D, and a coordinate has the variance R (R + 1) / 3."""
    scale, R = 4000, np.arange(4000 * (40 + 3 * count), dtype=float)
    law = np.exp(-R / scale + count * np.log((2 * R + 1) / (2 * scale * (count + 1))))
    exact = (law * R * (R + 1) / 3).sum() / law.sum()
    assert DiscreteSupNorm(scale).variance(count) == pytest.approx(exact, rel=1e-3)
    assert DiscreteSupNorm(scale).variance() == DiscreteSupNorm(scale).variance(1)


@pytest.mark.parametrize("radius", [0, 1, 7, 2**60 + 5])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_radius_is_taken_where_coins_of_the_stated_chances_all_say_yes(monkeypatch, radius, count):
    """One coin for each i up to D: (2 R + 1) / (2 R + 2 i), as a whole number below 2 R + 2 i, of which 2 R + 1 say yes."""
    bounds, parts = [], np.zeros((2, count + 1), dtype=np.int64)
    parts[0, 0], parts[1, -1] = radius % 2**8, radius >> 8

    def drawn(bound, rng):
        bounds.append(bound)
        return 2 * radius + (len(bounds) == count)  # the last coin for the first radius says no, all others just say yes

    monkeypatch.setattr(_sup_norm, "geometric", lambda scale, size, rng: (parts[0], parts[1], 8) if size == count + 1 else None)
    monkeypatch.setattr(_sup_norm, "_below", drawn)
    assert _sup_norm._radius(Fraction(3), count, None) == radius
    assert bounds == [2 * radius + 2 * i for i in range(1, count + 1)] * 2


def test_a_radius_of_0_takes_one_bit_of_one_word_to_draw(scripted):
    rng = scripted((2**63 - 1).to_bytes(8, "little"))
    assert _sup_norm._uniform(0, 1, rng) == [0]
    assert rng.requests == 1


@pytest.mark.parametrize(("scale", "most"), [(1000, 8008), (Fraction(119, 1000), 8), (0, 10**6)])
def test_eight_values_and_eight_times_the_scale_are_the_most_that_are_sampled(scale, most):
    DiscreteSupNorm(scale).check_size(most)
    if scale:
        with pytest.raises(ValueError, match="scale must be at least an eighth of the number of values"):
            DiscreteSupNorm(scale).check_size(most + 1)


def test_radii_beyond_63_bits_wrap_and_do_not_fail():
    draws = points(Fraction(2**58), 200, 2)
    assert draws.dtype == np.int64
    assert (draws != 0).all()


def test_scale_zero_draws_nothing():
    assert not DiscreteSupNorm(0).sample((2, 3), SeededBits(0)).any()


@pytest.mark.parametrize("scale", [-1, math.nan, 2**59, [1, 2]])
def test_bad_scales_are_refused(scale):
    with pytest.raises(ValueError, match="scale must be"):
        DiscreteSupNorm(scale)
