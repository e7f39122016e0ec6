"""Samplers give the exact probabilities of their laws: followed through their decision trees, so that no draw and no chance is in it."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from internals import _intervals, _laplace
from sampler_trees import (
    error_of_gaussian,
    error_of_laplace,
    error_of_laplace_rejection,
    error_of_rejection,
    error_of_table,
    geometric_weights,
    scales,
)

LIMIT = Decimal(2) ** -60


@pytest.mark.parametrize("n_scales", [30, pytest.param(200, marks=pytest.mark.nightly)])
def test_probabilities_of_any_scales_are_those_of_the_laws(n_scales):
    """Half of the scales for either law, to 2**-60 of the table and of the probability: two neighbours in the list are unlike."""
    for place, scale in enumerate(scales(n_scales)):
        absolute, relative = (error_of_laplace, error_of_gaussian)[place % 2](scale)
        assert absolute < LIMIT, scale
        assert relative < LIMIT, scale


@pytest.mark.parametrize("error_of", [error_of_laplace, error_of_gaussian])
@pytest.mark.parametrize("scale", [Fraction(1, 100), Fraction(256), Fraction(257), Fraction(2**58)])
def test_probabilities_at_the_ends_of_each_way_to_draw_are_exact(error_of, scale):
    assert max(error_of(scale)) < LIMIT


@pytest.mark.parametrize("error_of", [error_of_rejection, error_of_laplace_rejection])
@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(5, 2), Fraction(1023, 4)])
def test_rejection_of_small_scales_is_exact_too(error_of, scale):
    assert max(error_of(scale)) < LIMIT


@pytest.mark.parametrize("scale", [Fraction(257), Fraction(2**20) / 3, Fraction(2**58)])
def test_rejection_of_wide_laplace_scales_is_exact_too(scale):
    assert max(error_of_laplace_rejection(scale)) < LIMIT


# The same, of samplers with faults


def table():
    return _laplace._two_sided.__wrapped__(Fraction(5))


def test_a_threshold_that_is_wrong_by_a_few_units_is_seen():
    faulty = table()
    faulty._floors = faulty._floors.copy()
    faulty._floors[-3] += np.uint64(2**5)  # 2**-59
    assert error_of_table(faulty, geometric_weights(Fraction(5), True)) > LIMIT


@pytest.mark.parametrize("change", [1, -1])
def test_a_word_that_is_looked_up_wrongly_is_seen(change):
    faulty = table()
    decided = np.flatnonzero(faulty._lookup[::2] > 0)[7]
    faulty._lookup = faulty._lookup.copy()
    faulty._lookup[2 * decided : 2 * decided + 2] += np.array([change, -change], dtype=np.int16)
    assert error_of_table(faulty, geometric_weights(Fraction(5), True)) > LIMIT


def test_a_sign_that_is_no_fair_coin_is_seen():
    faulty = table()
    faulty._lookup = np.abs(faulty._lookup)
    with pytest.raises(AssertionError):
        error_of_table(faulty, geometric_weights(Fraction(5), True))


def test_another_scale_is_seen():
    assert error_of_table(table(), geometric_weights(Fraction(5) + Fraction(1, 2**50), True)) > LIMIT


def test_an_exponential_that_is_rounded_to_a_float_is_seen(monkeypatch):
    def rounded(x, bits):
        whole = int(float(_intervals.exp_minus(x, 64)[0]) * 2.0 ** (bits - 64))
        return whole, whole + 1

    monkeypatch.setattr(_laplace, "exp_minus", rounded)
    assert error_of_table(table(), geometric_weights(Fraction(5), True)) > Decimal(2) ** -56
