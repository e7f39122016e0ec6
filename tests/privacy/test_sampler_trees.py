"""Samplers give the exact probabilities of their laws: followed through their decision trees, so that no draw and no chance is in it."""

import itertools
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from internals import _laplace, _matrix_laplace, _random
from sampler_trees import (
    error_of_gaussian,
    error_of_laplace,
    error_of_laplace_rejection,
    error_of_rejection,
    error_of_table,
    gaussian_weights,
    geometric_weights,
    scales,
)

LIMIT = Decimal(2) ** -60


@pytest.mark.parametrize("n_scales", [30, pytest.param(200, marks=pytest.mark.nightly)])
def test_probabilities_of_any_scales_are_those_of_the_laws(n_scales):
    """Half of the scales for either law, to 2**-60 of the table and of the probability: two neighbors in the list are unlike."""
    for place, scale in enumerate(scales(n_scales)):
        absolute, relative = (error_of_laplace, error_of_gaussian)[place % 2](scale)
        assert absolute < LIMIT, scale
        assert relative < LIMIT, scale


@pytest.mark.parametrize("error_of", [error_of_laplace, error_of_gaussian])
@pytest.mark.parametrize("scale", [Fraction(1, 100), Fraction(256), Fraction(257), Fraction(2**58)])
def test_probabilities_at_the_ends_of_each_way_to_draw_are_exact(error_of, scale):
    assert max(error_of(scale)) < LIMIT


@pytest.mark.parametrize(
    ("error_of", "scale"),
    [
        *itertools.product((error_of_rejection, error_of_laplace_rejection), (Fraction(1, 3), Fraction(5, 2), Fraction(1023, 4))),
        *((error_of_laplace_rejection, scale) for scale in (Fraction(257), Fraction(2**20) / 3, Fraction(2**58))),
    ],
)
def test_rejection_is_exact_too(error_of, scale):
    assert max(error_of(scale)) < LIMIT


def test_whole_parts_of_normals_have_their_law():
    assert error_of_table(_matrix_laplace._whole_part_table(), gaussian_weights(Fraction(1), two_sided=False)) < LIMIT


def table():
    return _laplace._power_table.__wrapped__(Fraction(5), True)


LAW = geometric_weights(Fraction(5), True)


def test_a_threshold_a_few_units_off_a_word_looked_up_wrongly_and_another_scale_are_seen():
    thresholds, *words = (table() for _ in range(3))
    thresholds._floors = thresholds._floors.copy()
    thresholds._floors[-3] += np.uint64(2**5)  # 2**-59
    for faulty, change in zip(words, (1, -1), strict=True):
        decided = np.flatnonzero(faulty._lookup[::2] > 0)[7]
        faulty._lookup = faulty._lookup.copy()
        faulty._lookup[2 * decided : 2 * decided + 2] += np.array([change, -change], dtype=np.int16)
    assert all(error_of_table(faulty, LAW) > LIMIT for faulty in (thresholds, *words))
    assert error_of_table(table(), geometric_weights(Fraction(5) + Fraction(1, 2**50), True)) > LIMIT
    signs = table()
    signs._lookup = np.abs(signs._lookup)
    with pytest.raises(AssertionError):  # no fair coin
        error_of_table(signs, LAW)


def test_an_exponential_that_is_rounded_to_a_float_is_seen(monkeypatch):
    def rounded(x, bits):
        whole = int(float(_random.exp_minus(x, 64)[0]) * 2.0 ** (bits - 64))
        return whole, whole + 1

    monkeypatch.setattr(_laplace, "exp_minus", rounded)
    assert error_of_table(table(), LAW) > Decimal(2) ** -56
