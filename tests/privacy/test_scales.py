"""What counts as a scale, and how one broadcasts."""

import math
from fractions import Fraction

import numpy as np
import pytest
from internals import _noise, short_repr
from laws import ALARM, chi_squared

from skdpsynth.privacy import DiscreteGaussian, DiscreteLaplace, SeededBits

both = pytest.mark.parametrize("noise", [DiscreteLaplace, DiscreteGaussian])


@both
def test_scale_0_gives_zeros_and_asks_for_no_bits(noise, scripted):
    rng = scripted()
    np.testing.assert_array_equal(noise(0).sample((2, 3), rng), np.zeros((2, 3), dtype=np.int64))
    assert rng.requests == 0


@both
def test_draws_are_int64_of_the_asked_shape(noise):
    for shape in ((), (0,), (5,), (2, 0), (2, 3, 4), 5):
        for scale in (2, 1000, 0.01, 2**58):
            draws = noise(scale).sample(shape, SeededBits(0))
            assert draws.shape == (shape if isinstance(shape, tuple) else (shape,))
            assert draws.dtype == np.int64
    with pytest.raises(ValueError, match="broadcast"):
        noise([1, 2, 3]).sample((2,), SeededBits(0))


@both
def test_values_of_several_scales_get_the_draws_of_each_scale_one_after_the_other(noise):
    scales, rng = np.array([[50], [3], [1000], [0]]), SeededBits(0)
    draws = noise(scales).sample((4, 400), SeededBits(0))
    for row in (3, 1, 0, 2):  # the least scale first
        np.testing.assert_array_equal(draws[row], noise(int(scales[row, 0])).sample(400, rng))


@pytest.mark.parametrize(("noise", "power"), [(DiscreteLaplace, 1), (DiscreteGaussian, 2)])
@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(5, 2)])
def test_more_scales_than_tables_are_kept_have_the_same_law(noise, power, scale):
    """Chi squared of 64,000 draws of 64 scales that are one to within 2**-40."""
    scales = [scale + Fraction(k, 2**46) for k in range(64)] + [300 + k for k in range(6)]
    assert len(scales) > _noise.MAX_CACHED_TABLES
    assert _noise._FEW > 1000
    draws = noise(scales).sample((1000, 70), SeededBits(0))[:, :64].ravel()
    cells = np.arange(-4, 5) * math.ceil(scale)
    law = np.exp(-(np.abs(cells / float(scale)) ** power) / power)
    found = np.array([np.sum(draws == cell) for cell in cells])
    is_frequent = law / law.sum() > 1e-3
    found, law = found[is_frequent], law[is_frequent]
    assert found.sum() > 15_000
    assert chi_squared(found, law) > ALARM


@both
def test_a_float_scale_is_the_decimal_it_prints(noise):
    assert noise(0.1).scale == Fraction(1, 10)
    assert noise(np.float64(2.3)).scale == Fraction(23, 10)
    assert noise(np.array([0.1, 1e15])).scale.tolist() == [Fraction(1, 10), Fraction(10**15)]
    assert noise(np.int64(2**58)).scale == 2**58
    assert noise(np.array(4)).scale == 4
    assert isinstance(noise(np.array(0.1)).scale, Fraction)


@both
@pytest.mark.parametrize("scale", [-1, -0.5, float("nan"), float("inf"), 0.0099, Fraction(1, 101), 2**58 + 1, 1e300, None, "3", 1j, True])
@pytest.mark.parametrize("in_array", [False, True])
def test_other_scales_are_refused_in_one_sentence(noise, scale, in_array):
    with pytest.raises(ValueError, match=r"scale must be 0 or between 1/100 and 2.*58, got .*; rescale") as refusal:
        noise([5, scale] if in_array else scale)
    is_number = isinstance(scale, int | float | Fraction) and scale is not True
    assert short_repr(scale if is_number or not in_array else [5, scale]) in str(refusal.value)


@both
def test_noise_is_frozen_and_does_not_follow_the_array_of_the_caller(noise):
    mine = np.array([1.0, 2.0])
    scales = noise(mine)
    mine[:] = 0
    assert scales.scale.tolist() == [1, 2]
    with pytest.raises(AttributeError):
        scales.scale = 0
    with pytest.raises(ValueError, match="read-only"):
        scales.scale[0] = 0


@both
def test_a_numpy_generator_cannot_draw_the_noise(noise):
    # It has a method `bytes` too, and would draw predictable noise without a word.
    with pytest.raises(TypeError, match="rng must be a stream made by check_rng, got Generator; use"):
        noise(2).sample(3, np.random.default_rng(0))
