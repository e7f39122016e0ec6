"""Discrete Laplace, sup-norm and Gaussian noise: rejection decided exactly, moments, and laws tested by chi-square."""

import math
from fractions import Fraction

import numpy as np
import pytest
from internals import _gaussian as gaussian
from internals import _laplace as laplace
from laws import ALARM, CERTAIN, chi_squared, kolmogorov, refuses, symmetric
from sampler_trees import scaled_exp_minus, survival_of_law
from scipy import stats

from skdpsynth.privacy import DiscreteGaussian, DiscreteLaplace, DiscreteSupNorm, SeededBits, gaussian_scale, laplace_scale

SMALL = [Fraction(1, 100), Fraction(1, 3), Fraction(1), Fraction(5, 2), Fraction(10), Fraction(40)]


def laplace_survival(scale):
    """Return k -> P(|Z| >= k)."""
    return lambda k: 2 * math.exp(-k / scale) / (1 + math.exp(-1 / scale)) if k else 1.0


class Constant:
    """A table whose every draw is one value."""

    def __init__(self, value):
        self._value = value

    def sample(self, size, rng):
        return np.full(size, self._value, dtype=np.int64)


def test_digits_are_put_together_in_base_256(monkeypatch, scripted):
    asked = []
    monkeypatch.setattr(laplace, "_digit_table", lambda scale: asked.append(scale) or Constant(len(asked)))
    monkeypatch.setattr(laplace, "_power_table", lambda scale, signed: asked.append(scale) or Constant(200))
    draws = DiscreteLaplace(2**30).sample(2, scripted(bytes([0b01000000])))
    assert asked == [2**30, 2**22, 2**14, 2**6]
    expected = 1 + 2 * 256 + 3 * 256**2 + 200 * 256**3
    np.testing.assert_array_equal(draws, [expected, -expected])


def test_minus_zero_is_drawn_again(monkeypatch):
    parts = [(np.zeros(2, dtype=np.int64), np.zeros(2, dtype=np.int64), 8), (np.array([7]), np.array([0]), 8)]
    monkeypatch.setattr(laplace, "draw_geometric", lambda scale, size, rng: parts.pop(0))
    # The signs are +, -; the second is drawn again and gets a sign of its own, again minus.
    rng = type("Signs", (), {"seeded": True, "bytes": lambda self, size: bytes([0b01000000] if len(parts) else [0b10000000])})()
    np.testing.assert_array_equal(DiscreteLaplace(1000).sample(2, rng), [0, -7])
    assert not parts


def test_a_magnitude_that_wraps_to_0_is_not_taken_for_minus_zero(monkeypatch, scripted):
    drawn = []
    monkeypatch.setattr(laplace, "_digit_table", lambda scale: Constant(0))
    monkeypatch.setattr(laplace, "_power_table", lambda scale, signed: drawn.append(scale) or Constant(256))  # 256 * 2**56 = 2**64
    assert (DiscreteLaplace(2**58).sample(1, scripted(then=255)), len(drawn)) == (0, 1)


@pytest.mark.parametrize("scale", SMALL[1:])
def test_moments_are_those_of_the_law(scale):
    tails = [float(s) for s in survival_of_law("laplace", scale)[1:]]
    noise = DiscreteLaplace(scale)
    assert noise.mean_absolute() == pytest.approx(math.fsum(tails), rel=1e-12)  # E M = sum P(M >= k)
    assert noise.variance() == pytest.approx(math.fsum((2 * k + 1) * s for k, s in enumerate(tails)), rel=1e-12)


def test_moments_have_the_shape_of_the_scale_and_vanish_without_noise():
    noise = DiscreteLaplace([[0, Fraction(1, 100), 5]])
    for moment in (noise.variance(), noise.mean_absolute()):
        assert (moment.shape, moment[0, 0]) == ((1, 3), 0)
        assert 0 <= moment[0, 1] < 1e-40
        assert moment[0, 2] > 1
    assert DiscreteLaplace(0).variance() == 0


def test_laplace_scale_is_sensitivity_over_epsilon_exactly_in_the_range_that_can_be_drawn():
    assert laplace_scale(2, Fraction(1, 10)) == laplace_scale(2, 0.1) == 20  # a float is the decimal it prints
    assert (laplace_scale(1, 3), laplace_scale(1, 1000), laplace_scale(1, math.inf)) == (Fraction(1, 3), Fraction(1, 100), 0)
    for epsilon in (0, -1, math.nan):
        refuses(ValueError, "epsilon must be a number greater than 0", laplace_scale, 1, epsilon)


def judge_of(monkeypatch, scripted, scale, magnitude):
    """Return what judges one proposal of a magnitude by the first 64 bits of its uniform, and the scales that proposals were asked of."""
    asked = []
    parts = np.array([False]), np.array([magnitude & 255]), np.array([magnitude >> 8]), 8
    monkeypatch.setattr(laplace, "draw_parts", lambda t, size, rng: asked.append(t) or parts)
    monkeypatch.setattr(laplace, "sample_by_rejection", lambda size, propose: propose(size))

    def accepts(uniform, then=0):
        (proposal,), (is_accepted,) = laplace._sample_by_rejection(scale, 1, scripted(np.uint64(uniform).tobytes(), then=then))
        assert proposal == magnitude
        return bool(is_accepted)

    return accepts, asked


def check_acceptance(accepts, threshold):
    """One unit of 2**-64 away, the float filter cannot tell, around its margin of 2**-32 it may begin to, and later bits decide ties."""
    for step in (1, 2, 2**11, 2**31, 2**32 - 2**12, 2**32, 2**32 + 2**12, 2**40):
        assert step > threshold or accepts(threshold - step, then=255)
        assert threshold + step >= 2**64 or not accepts(threshold + step)
    if threshold < 2**64:
        assert accepts(threshold, then=0)
        assert not accepts(threshold, then=255)


@pytest.mark.parametrize("scale", [*SMALL, Fraction(257), Fraction(12345678, 1000), Fraction(2**40)])
@pytest.mark.parametrize("distance", [0.5, 1, 1.7, 3, 6.5])
def test_where_scales_are_many_a_proposal_is_accepted_with_the_exact_probability(monkeypatch, scripted, scale, distance):
    """Of a whole scale t > scale, with probability exp(-z / scale) / exp(-z / t), to 2**-64 and around the margin of the float filter."""
    magnitude = math.ceil(scale * Fraction(distance))
    accepts, asked = judge_of(monkeypatch, scripted, scale, magnitude)
    accepts(0)
    (t,) = asked
    assert t.denominator == 1
    assert t > scale
    check_acceptance(accepts, int(scaled_exp_minus(magnitude * (1 / scale - 1 / t))))


def points(scale, count, size, seed=0):
    """Draws of the noise on Z^count, one a row."""
    rng = SeededBits(seed)
    return np.array([DiscreteSupNorm(scale).sample(count, rng) for _ in range(size)])


def p_of_norms(norms, scale, count):
    """P(m) is proportional to exp(-m / scale) ((2 m + 1)^D - (2 m - 1)^D): each sup norm, spread over [m, m + 1], has steps no more."""
    m = np.arange(0, int(40 * scale * count) + 40)
    shell = (2.0 * m + 1) ** count - np.where(m > 0, 2.0 * m - 1, 0) ** count
    upto = np.append(0, np.cumsum(shell * np.exp(-m / scale)))
    spread = norms + np.random.default_rng(0).random(len(norms))
    return kolmogorov(spread, lambda x: np.interp(x, np.arange(len(upto)), upto / upto[-1]))


@pytest.mark.parametrize(("scale", "count", "n"), [(3, 1, 3000), (0.5, 2, 1000), (0.7, 5, 400), (40, 5, 600)])
def test_sup_norms_follow_their_law_and_no_other_scale(scale, count, n):
    norms = np.abs(points(scale, count, n)).max(axis=1)
    assert p_of_norms(norms, scale, count) > ALARM
    assert p_of_norms(norms, scale * 2 / 3, count) < CERTAIN
    assert p_of_norms(norms, scale * 3 / 2, count) < CERTAIN


def test_points_of_one_norm_are_uniform():
    """D = 2, scale 1.5: the 25 cells of [-2, 2]^2, 4,000 draws; entries drawn apart fail."""
    draws = points(1.5, 2, 4_000, seed=1)
    draws = draws[np.abs(draws).max(axis=1) <= 2]
    observed = np.histogram2d(*draws.T, bins=np.arange(-2.5, 3))[0]
    x, y = np.abs(np.mgrid[-2:3, -2:3])
    assert chi_squared(observed, np.exp(-np.maximum(x, y) / 1.5)) > ALARM
    assert chi_squared(observed, np.exp(-(x + y) / 1.5)) < CERTAIN


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

    monkeypatch.setattr(laplace, "draw_geometric", lambda scale, size, rng: (parts[0], parts[1], 8) if size == count + 1 else None)
    monkeypatch.setattr(laplace, "_uniform_below", drawn)
    assert laplace._draw_radius(Fraction(3), count, None) == radius
    assert bounds == [2 * radius + 2 * i for i in range(1, count + 1)] * 2


@pytest.mark.parametrize(("scale", "most"), [(1000, 8008), (Fraction(119, 1000), 8), (0, 10**6)])
def test_eight_values_and_eight_times_the_scale_are_the_most_that_are_sampled(scale, most):
    DiscreteSupNorm(scale).check_size(most)
    if scale:
        refuses(ValueError, "scale must be at least an eighth of the number of values", DiscreteSupNorm(scale).check_size, most + 1)


def test_radii_beyond_63_bits_wrap_and_do_not_fail():
    draws = points(Fraction(2**58), 200, 2)
    assert draws.dtype == np.int64
    assert (draws != 0).all()


def test_scale_zero_draws_nothing_and_bad_scales_are_refused():
    assert not DiscreteSupNorm(0).sample((2, 3), SeededBits(0)).any()
    for scale in (-1, math.nan, 2**59, [1, 2]):
        refuses(ValueError, "scale must be", DiscreteSupNorm, scale)


LARGE = [Fraction(257), Fraction(12345678, 1000), Fraction(2**40), Fraction(2**58)]


def gaussian_survival(scale):
    """Return k -> P(|Z| >= k)."""
    if scale > 100:
        return lambda k: 2 * stats.norm.sf((k - 0.5) / scale) if k else 1.0  # off by less than 1 / scale**2
    tails = [float(s) for s in survival_of_law("gaussian", Fraction(repr(scale)))]
    return lambda k: tails[k] if k < len(tails) else 0.0


def gaussian_judge_of(monkeypatch, scripted, scale, magnitude, is_negative=False):
    """Return what judges one proposal by the first 64 bits of its uniform, and the probability that it should have.

    Blocks of 2**m magnitudes are proposed with chances exp(-k**2 / (2 t**2)), t whole: at most 64, and no less than the scale in blocks.
    """
    m = next(m for m in range(60) if scale <= 64 * 2**m)
    block, asked = magnitude >> m, []
    monkeypatch.setattr(gaussian, "_survival_table", lambda t, signed: asked.append((t, signed)) or Constant(block))
    monkeypatch.setattr(gaussian, "sample_by_rejection", lambda size, propose: propose(size))

    def accepts(uniform, then=0):
        word = is_negative << 63 | uniform >> 55 << 54 | magnitude & (1 << m) - 1
        rest = uniform << 9 & (1 << 64) - 1
        rng = scripted(np.uint64(word).tobytes(), np.uint64(rest).tobytes(), then=then)
        (proposal,), (is_accepted,) = gaussian._sample_by_rejection(scale, 1, rng)
        assert (int(proposal) - (-magnitude if is_negative else magnitude)) % 2**64 == 0
        return bool(is_accepted)

    accepts(0)
    ((t, signed),) = asked
    assert not signed
    assert t.denominator == 1
    assert scale / 2**m <= t <= 64
    return accepts, int(scaled_exp_minus((magnitude / scale) ** 2 / 2 - (block / t) ** 2 / 2))


@pytest.mark.parametrize("scale", SMALL + LARGE)
@pytest.mark.parametrize("distance", [0, 0.3, 0.9999, 1, 1.7, 3, 5, 6.5, 9])
def test_a_proposal_is_accepted_with_the_exact_probability(monkeypatch, scripted, scale, distance):
    magnitude = int(scale * Fraction(distance))
    check_acceptance(*gaussian_judge_of(monkeypatch, scripted, scale, magnitude))
    if magnitude:
        check_acceptance(*gaussian_judge_of(monkeypatch, scripted, scale, magnitude, is_negative=True))


@pytest.mark.parametrize("scale", LARGE)
@pytest.mark.parametrize("k", [0, 1, 63, 64, 500, 512, 513, 700])
def test_the_first_and_the_last_magnitude_of_a_block_are_accepted_with_the_exact_probability(monkeypatch, scripted, scale, k):
    """First bits that accept all of a block must not accept its last magnitude too often."""
    size = next(2**m for m in range(60) if scale <= 64 * 2**m)
    for magnitude in (k * size, (k + 1) * size - 1):
        accepts, threshold = gaussian_judge_of(monkeypatch, scripted, scale, magnitude)
        check_acceptance(accepts, threshold)
        last = threshold >> 55
        for word in {0, max(last - 20, 0), *range(max(last - 3, 0), min(last + 2, 512))}:  # of first bits, with all others 1 and 0
            assert accepts((word + 1 << 55) - 1, then=255) == ((word + 1 << 55) - 1 < threshold)
            assert accepts(word << 55) == (word << 55 <= min(threshold, 2**64 - 1))


def test_minus_zero_is_rejected_and_zero_is_not(monkeypatch, scripted):
    for scale in SMALL + LARGE:
        assert gaussian_judge_of(monkeypatch, scripted, scale, 0)[0](0)
        assert not gaussian_judge_of(monkeypatch, scripted, scale, 0, is_negative=True)[0](0)


def test_a_proposal_that_wraps_or_is_far_is_judged_by_its_true_magnitude(monkeypatch, scripted):
    # At scale 2**58 the magnitude 2**64 is 64 scales away and wraps to 0; of either sign it is no zero.
    for multiple, is_negative in ((1, False), (2, True), (3, False), (1, True)):
        check_acceptance(*gaussian_judge_of(monkeypatch, scripted, Fraction(2**58), multiple * 2**64 + 2**50, is_negative))
        assert gaussian_judge_of(monkeypatch, scripted, Fraction(2**58), multiple * 2**64, is_negative)[0](0)
    # In floats exp(-g) would be 0, which no uniform is below; one that is closer to 0 accepts.
    for magnitude in (46, 59, 61, 64, 100):
        accepts, _ = gaussian_judge_of(monkeypatch, scripted, Fraction(101, 100), magnitude)
        assert accepts(0, then=0)
        assert not accepts(0, then=1)


@pytest.mark.parametrize("scale", SMALL[1:])
def test_the_variance_is_at_most_the_square_of_the_scale(scale):
    tails = survival_of_law("gaussian", scale)[1:]
    exact = math.fsum((2 * k + 1) * float(s) for k, s in enumerate(tails))
    bound = DiscreteGaussian(scale).variance()
    assert exact <= bound * (1 + 1e-15)
    if scale >= 1:
        assert bound == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("rho", [Fraction(1, 2), 0.01, 0.1, 3, 40, Fraction(1, 10**9), Fraction(12345, 678910)])
def test_the_scale_for_rho_is_the_least_on_its_grid_that_costs_at_most_rho(rho):
    step = Fraction(1, 2**20)
    for squared in (1, 2, 7, Fraction(5, 3), 10**9, 10**12):
        scale, of_loss = gaussian_scale(squared, rho), gaussian_scale(squared, rho, gaussian=True)
        assert scale % step == of_loss % step == 0
        assert squared / (2 * scale**2) <= Fraction(str(rho)) < squared / (2 * (scale - step) ** 2)
        spends = [Fraction(squared) / (2 * (s**2 - Fraction(5, 3))) if s >= 3 else math.inf for s in (of_loss, of_loss - step)]
        assert spends[0] <= Fraction(str(rho)) < spends[1]
    assert (gaussian_scale(18, 1), gaussian_scale(2, Fraction(1, 100))) == (3, 10)  # exact roots are not rounded up
    assert (gaussian_scale(3, math.inf), gaussian_scale(1, 10**9)) == (0, Fraction(1, 100))
    for wrong in (0, -1, math.nan, "1"):
        refuses(ValueError, "rho", gaussian_scale, 1, wrong)


@pytest.mark.parametrize(("noise", "survival"), [(DiscreteLaplace, laplace_survival), (DiscreteGaussian, gaussian_survival)])
@pytest.mark.parametrize("scale", [1.0, 3.7, 40.0, 1000.0, 2.0**40])
def test_the_scale_is_the_claimed_one(noise, survival, scale):
    draws = noise(scale).sample(20_000, SeededBits(20, (noise.__name__, str(scale))))
    assert symmetric(draws, survival(scale)) > ALARM
    assert symmetric(draws, survival(scale * 2 / 3)) < CERTAIN
    assert symmetric(draws, survival(scale * 3 / 2)) < CERTAIN
