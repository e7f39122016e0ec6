"""Exact normals: the law of Karney's algorithm, its acceptance decided exactly, and intervals that only ever shrink."""

import math
from fractions import Fraction

import numpy as np
import pytest
from internals import FIRST_LIMB_BITS, LIMB_BITS, Normals, fraction_bits
from internals import _matrix_laplace as normals
from laws import ALARM, CERTAIN, chi_squared, kolmogorov
from sampler_trees import scaled_exp_minus

from skdpsynth.privacy import SeededBits

ALL = slice(None)


def floats(drawn):
    """The normals to 62 bits of their fractions, rounded."""
    return sum(np.ldexp(drawn.limb(i, ALL), -fraction_bits(i + 1)) for i in range(3))


def test_every_16_bit_word_gives_the_exact_whole_part(exact_law, check_every_word):
    check_every_word(normals._whole_part_table(), exact_law("half_gaussian", 1), signed=False)


class Fixed:
    """A table that always draws one whole part."""

    def __init__(self, whole):
        self.whole = whole

    def sample(self, size, rng):
        return np.full(size, self.whole)


def propose(monkeypatch, scripted, whole, x, coin, *later):
    """Judge one proposal of a whole part and the first words of x and of the coin: (accepted, later words of x)."""
    monkeypatch.setattr(normals, "_whole_part_table", lambda: Fixed(whole))
    rng = scripted(np.uint64(x).tobytes(), np.uint64(coin).tobytes(), *(word.to_bytes(8) for word in later))
    _, _, accepted, ahead = normals._propose(1, rng)
    return bool(accepted[0]), ahead.get(0, [])


def chance(whole, x):
    """floor(exp(-x (2 k + x) / 2) * 2**64) for x in 64 bits."""
    x = Fraction(x, 2**64)
    return int(scaled_exp_minus(x * (2 * whole + x) / 2))


@pytest.mark.parametrize("whole", [0, 1, 3, 8, 15, 16, 20])
@pytest.mark.parametrize("x", [1, 12345, 2**40 + 1, 2**62 + 3, 2**63, 2**64 - 1])
def test_a_proposal_is_accepted_with_the_exact_probability(monkeypatch, scripted, whole, x):
    # x is in [x, x + 1) / 2**64, so the coin is compared with two bounds, apart by at most k + 1 units.
    high, low = chance(whole, x), chance(whole, min(x + 1, 2**64))
    for step in (3, 2**11, 2**31, 2**32 - 2**12, 2**32, 2**32 + 2**12, 2**40):
        if step <= low:
            assert propose(monkeypatch, scripted, whole, x, low - step) == (True, [])
        if high + step < 2**64:
            assert propose(monkeypatch, scripted, whole, x, high + step) == (False, [])


@pytest.mark.parametrize("whole", [0, 2, 7])
def test_a_tie_is_decided_by_later_bits_of_both_and_those_of_the_normal_are_told(monkeypatch, scripted, whole):
    x = 3 * 2**62 + 12345
    coin = chance(whole, x)
    top = 2**64 - 1
    # The least x and coin that are left, or the largest.
    assert propose(monkeypatch, scripted, whole, x, coin - whole - 3, 0, 0) == (True, [])
    assert propose(monkeypatch, scripted, whole, x, coin, 7, 0) == (True, [7])
    assert propose(monkeypatch, scripted, whole, x, coin, top, top) == (False, [top])


@pytest.mark.parametrize("step", [1, 2])
def test_later_bits_of_the_normal_alone_may_decide(monkeypatch, scripted, step):
    # At k = 7 and x = 1/8 the chance falls by 2.9 units of 2**-64 while x rises by one.
    x = 2**61
    coin, top = chance(7, x) - step, 2**64 - 1
    assert propose(monkeypatch, scripted, 7, x, coin, 0, top) == (True, [0])
    assert propose(monkeypatch, scripted, 7, x, coin, top, 0) == (False, [top])


def test_the_law_is_normal():
    """200,000 draws, Kolmogorov-Smirnov; a scale 6 % off fails."""
    drawn = floats(Normals((1000, 200), SeededBits(1))).ravel()
    assert kolmogorov(drawn, "norm") > ALARM
    assert kolmogorov(drawn * 1.06, "norm") < CERTAIN


def test_later_bits_are_uniform():
    """100,000 normals, 8 bits of the second word, of limb 1 and of limb 3."""
    drawn = Normals((500, 200), SeededBits(4))
    drawn.reveal()
    for digits in (drawn._words[1] >> np.uint64(56), np.abs(drawn.limb(1, ALL)) // 2**14, np.abs(drawn.limb(3, ALL)) % 2**8):
        assert chi_squared(np.bincount(digits.astype(int).ravel(), minlength=256), np.ones(256)) > ALARM


def test_more_bits_never_leave_the_interval():
    drawn = Normals((50, 3), SeededBits(5))
    for words in range(1, 5):
        assert drawn.bits == 64 * words
        before = [drawn.column(j) for j in range(3)]
        drawn.reveal()
        for j, (negative, a) in enumerate(before):
            later_negative, later = drawn.column(j)
            np.testing.assert_array_equal(later_negative, negative)
            np.testing.assert_array_equal(later >> 64, a)
    assert len({int(a) & 2**64 - 1 for j in range(3) for a in drawn.column(j)[1]}) == 150  # and what is revealed is fresh


def test_limbs_are_the_leading_bits():
    drawn = Normals((40, 2), SeededBits(6))
    drawn.reveal()
    for n_limbs in range(1, 6):
        for j in range(2):
            negative, a = drawn.column(j)
            cut = [int(x) >> 128 - fraction_bits(n_limbs) for x in a]
            limbs = [drawn.limb(i, ALL)[:, j] for i in range(n_limbs)]
            total = [sum(int(limb[k]) << LIMB_BITS * (n_limbs - 1 - i) for i, limb in enumerate(limbs)) for k in range(40)]
            assert total == [-c if sign else c for c, sign in zip(cut, negative, strict=True)]
            assert all((np.abs(limb) < 2**LIMB_BITS).all() for limb in limbs)
    assert normals.LARGEST << FIRST_LIMB_BITS == 1 << LIMB_BITS  # limb 0 has room for whole parts below 16


def test_words_that_an_acceptance_had_to_know_are_those_revealed_later(monkeypatch):
    """With bounds too loose to decide at 64 or 128 bits, every normal is accepted by three words: they must not be drawn again."""
    true_bounds = normals.exp_minus
    monkeypatch.setattr(normals, "_MARGIN", 2.0)
    monkeypatch.setattr(normals, "exp_minus", lambda x, bits: true_bounds(x, bits) if bits > 128 or x == 0 else (0, 1 << bits))
    told, decide = [], normals._is_below

    def listen(coin, whole, x, rng):
        accepted, more = decide(coin, whole, x, rng)
        if accepted:
            told.append((whole, x, *more))
        return accepted, more

    monkeypatch.setattr(normals, "_is_below", listen)
    drawn = Normals((20, 10), SeededBits(7))
    for _ in range(3):
        drawn.reveal()
    values = {int(a) >> 64 for j in range(10) for a in drawn.column(j)[1]}
    assert values == {(whole << 192) + (x << 128) + (second << 64) + third for whole, x, second, third in told}
    assert kolmogorov(floats(drawn), "norm") > ALARM


def test_more_normals_than_a_block_are_all_drawn(monkeypatch):
    monkeypatch.setattr(normals, "_BLOCK", 7)
    drawn = floats(Normals((10, 10), SeededBits(10)))
    assert len(np.unique(np.abs(drawn))) == 100
    assert math.isclose(np.abs(drawn).mean(), math.sqrt(2 / math.pi), rel_tol=0.5)  # 6.6 standard errors
