"""The discrete Gaussian law: enumerated bit by bit, its rejection decided exactly, tested by chi-square."""

import math
from fractions import Fraction

import numpy as np
import pytest
from internals import _gaussian as gaussian
from laws import ALARM, CERTAIN, refuses, symmetric
from sampler_trees import scaled_exp_minus, survival_of_law
from scipy import stats

from skdpsynth.privacy import DiscreteGaussian, SeededBits, gaussian_scale

SMALL = [Fraction(1, 100), Fraction(1, 3), Fraction(1), Fraction(5, 2), Fraction(10), Fraction(40)]
LARGE = [Fraction(257), Fraction(12345678, 1000), Fraction(2**40), Fraction(2**58)]


def survival(scale):
    """Return k -> P(|Z| >= k)."""
    if scale > 100:
        return lambda k: 2 * stats.norm.sf((k - 0.5) / scale) if k else 1.0  # off by less than 1 / scale**2
    tails = [float(s) for s in survival_of_law("gaussian", Fraction(repr(scale)))]
    return lambda k: tails[k] if k < len(tails) else 0.0


def propose(monkeypatch, scripted, scale, magnitude, uniform, then=0):
    """Judge one proposal of `magnitude` with the given first 64 bits of the uniform; say whether it is accepted."""
    shift = 56 if scale > 2**32 else 8
    low, high = magnitude & (1 << shift) - 1, magnitude >> shift
    parts = np.array([False]), np.array([low]), np.array([high]), shift
    asked = []
    monkeypatch.setattr(gaussian, "draw_parts", lambda t, size, rng: asked.append(t) or parts)
    rng = scripted(np.uint64(uniform).tobytes(), then=then)
    monkeypatch.setattr(gaussian, "sample_by_rejection", lambda size, propose: propose(size))
    proposals, accepted = gaussian._sample_by_rejection(scale, 1, rng)
    assert (asked, (int(proposals[0]) - magnitude) % 2**64) == ([math.floor(scale) + 1], 0)
    return bool(accepted[0])


@pytest.mark.parametrize("scale", SMALL + LARGE)
@pytest.mark.parametrize("distance", [0, 0.3, 0.9999, 1, 1.7, 3, 5, 6.5])
def test_a_proposal_is_accepted_with_the_exact_probability(monkeypatch, scripted, scale, distance):
    # Algorithm 3 of Canonne, Kamath and Steinke accepts z with probability exp(-(|z| - v/t)**2 / (2 v)).
    magnitude, t = int(scale * Fraction(distance)), math.floor(scale) + 1
    threshold = int(scaled_exp_minus((magnitude - scale**2 / t) ** 2 / (2 * scale**2)))
    # One unit of 2**-64 away, the float filter cannot tell, and around its margin of 2**-32 it may begin to.
    for step in (1, 2, 2**11, 2**31, 2**32 - 2**12, 2**32, 2**32 + 2**12, 2**40):
        if step <= threshold:
            assert propose(monkeypatch, scripted, scale, magnitude, threshold - step, then=255)
        if threshold + step < 2**64:
            assert not propose(monkeypatch, scripted, scale, magnitude, threshold + step)
    if threshold < 2**64:  # a tie of the first 64 bits is decided by later ones
        assert propose(monkeypatch, scripted, scale, magnitude, threshold, then=0)
        assert not propose(monkeypatch, scripted, scale, magnitude, threshold, then=255)


def test_a_proposal_that_wraps_or_is_far_is_judged_by_its_true_magnitude(monkeypatch, scripted):
    # At scale 2**58 the magnitude 2**64 is 64 scales away and wraps to 0, which would be accepted readily.
    for multiple in (1, 2, 3):
        assert not propose(monkeypatch, scripted, Fraction(2**58), multiple * 2**64, 0, then=1)
    # In floats exp(-g) would be 0, which no uniform is below; one that is closer to 0 accepts.
    for distance in (40, 59, 61, 64, 100):
        assert propose(monkeypatch, scripted, Fraction(1000), 1000 * distance, 0, then=0)
        assert not propose(monkeypatch, scripted, Fraction(1000), 1000 * distance, 0, then=1)


@pytest.mark.parametrize("scale", [1.0, 3.7, 40.0, 1000.0, 2.0**40])
def test_the_scale_is_the_claimed_one(scale):
    draws = DiscreteGaussian(scale).sample(20_000, SeededBits(30, ("gaussian", str(scale))))
    assert symmetric(draws, survival(scale)) > ALARM
    assert symmetric(draws, survival(scale * 2 / 3)) < CERTAIN
    assert symmetric(draws, survival(scale * 3 / 2)) < CERTAIN


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
