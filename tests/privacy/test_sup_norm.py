"""The sup-norm noise: its law, by enumeration of what it must be."""

import math
from fractions import Fraction

import numpy as np
import pytest
from internals import _laplace
from laws import ALARM, CERTAIN, chi_squared, kolmogorov

from skdpsynth.privacy import DiscreteSupNorm, SeededBits


def points(scale, count, size, seed=0):
    """Draws of the noise on Z^count, one a row."""
    rng = SeededBits(seed)
    return np.array([DiscreteSupNorm(scale).sample(count, rng) for _ in range(size)])


def p_value(norms, scale, count):
    """P(m) is proportional to exp(-m / scale) ((2 m + 1)^D - (2 m - 1)^D): each sup norm, spread over [m, m + 1], has steps no more."""
    m = np.arange(0, int(40 * scale * count) + 40)
    shell = (2.0 * m + 1) ** count - np.where(m > 0, 2.0 * m - 1, 0) ** count
    upto = np.append(0, np.cumsum(shell * np.exp(-m / scale)))
    spread = norms + np.random.default_rng(0).random(len(norms))
    return kolmogorov(spread, lambda x: np.interp(x, np.arange(len(upto)), upto / upto[-1]))


@pytest.mark.parametrize(("scale", "count", "n"), [(3, 1, 3000), (0.5, 2, 1000), (0.7, 5, 400), (40, 5, 600)])
def test_sup_norms_follow_their_law_and_no_other_scale(scale, count, n):
    norms = np.abs(points(scale, count, n)).max(axis=1)
    assert p_value(norms, scale, count) > ALARM
    assert p_value(norms, scale * 2 / 3, count) < CERTAIN
    assert p_value(norms, scale * 3 / 2, count) < CERTAIN


def test_points_of_one_norm_are_uniform():
    """D = 2, scale 1.5: the 25 cells of [-2, 2]^2, 4,000 draws; entries drawn apart fail."""
    draws = points(1.5, 2, 4_000, seed=1)
    draws = draws[np.abs(draws).max(axis=1) <= 2]
    observed = np.histogram2d(*draws.T, bins=np.arange(-2.5, 3))[0]
    x, y = np.abs(np.mgrid[-2:3, -2:3])
    assert chi_squared(observed, np.exp(-np.maximum(x, y) / 1.5)) > ALARM
    assert chi_squared(observed, np.exp(-(x + y) / 1.5)) < CERTAIN


@pytest.mark.parametrize(("scale", "count"), [(Fraction(2**40), 3), (Fraction(1000), 20)])
def test_variance_is_the_claimed_one(scale, count):
    """The mean square of 1200 draws is within 25 % (7 standard errors at 3 entries)."""
    draws = points(scale, count, 1200).astype(float)
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

    monkeypatch.setattr(_laplace, "draw_geometric", lambda scale, size, rng: (parts[0], parts[1], 8) if size == count + 1 else None)
    monkeypatch.setattr(_laplace, "_uniform_below", drawn)
    assert _laplace._draw_radius(Fraction(3), count, None) == radius
    assert bounds == [2 * radius + 2 * i for i in range(1, count + 1)] * 2


def test_a_radius_of_0_takes_one_bit_of_one_word_to_draw(scripted):
    rng = scripted((2**63 - 1).to_bytes(8, "little"))
    assert _laplace._draw_cube(0, 1, rng) == [0]
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


def test_scale_zero_draws_nothing_and_bad_scales_are_refused():
    assert not DiscreteSupNorm(0).sample((2, 3), SeededBits(0)).any()
    for scale in (-1, math.nan, 2**59, [1, 2]):
        with pytest.raises(ValueError, match="scale must be"):
            DiscreteSupNorm(scale)
