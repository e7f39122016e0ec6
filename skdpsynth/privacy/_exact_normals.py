"""Exact standard normals, known as intervals whose further bits are drawn on demand."""

import math
from fractions import Fraction
from functools import cache

import numpy as np

from skdpsynth.privacy._intervals import Bounds, exp_minus
from skdpsynth.privacy._inverse_cdf import SurvivalTable
from skdpsynth.privacy._random import RandomBits

LIMB_BITS = 22  # bits of a limb
FIRST_LIMB_BITS = 18  # bits of the fraction that limb 0 holds, below the whole part
LARGEST = 1 << LIMB_BITS - FIRST_LIMB_BITS  # limb 0 has room for whole parts below this
_WORD = 64
_BLOCK = 1 << 17  # normals at a time: the scratch stays in cache
_MARGIN = 2.0**-32  # the float filter below is wrong by less than 2**-45


class Normals:
    """A matrix of independent standard normals, each with ``a <= abs(g) * 2**bits < a + 1`` for a whole number a.

    A normal is a sign, a whole part and a fraction whose bits are drawn in words of 64. Its known part is a prefix of its bits: the
    rest are independent and uniform given that prefix, and a word once drawn is kept. So any function of the normals may ask for words
    until it is certain, and has exactly the law of that function of normals.

    Karney (2016), "Sampling exactly from the normal distribution", Algorithm N: a whole part k with ``P(k)`` proportional to
    ``exp(-k**2 / 2)``, a uniform x in [0, 1), both kept with probability ``exp(-x (2 k + x) / 2)``. The product of the two is
    ``exp(-(k + x)**2 / 2)``, so k + x has the law of abs(g).
    """

    def __init__(self, shape: tuple[int, int], rng: RandomBits) -> None:
        self._rng, self.shape = rng, shape
        count = math.prod(shape)
        coins = np.frombuffer(rng.bytes(-(-count // 8)), dtype=np.uint8)
        self._negative = np.unpackbits(coins, count=count).astype(bool).reshape(shape)
        whole, word = np.empty(count, dtype=np.int16), np.empty(count, dtype=np.uint64)
        self._ahead: dict[int, list[int]] = {}  # words of the fraction that an acceptance had to know, and that are not in use yet
        for start in range(0, count, _BLOCK):
            missing = np.arange(start, min(start + _BLOCK, count))
            while len(missing):
                wholes, words, accepted, ahead = _propose(len(missing), rng)
                kept = missing[accepted]
                whole[kept], word[kept] = wholes[accepted], words[accepted]
                self._ahead.update({int(missing[i]): more for i, more in ahead.items() if accepted[i] and more})
                missing = missing[~accepted]
        self._whole, self._words = whole.reshape(shape), [word.reshape(shape)]

    @property
    def bits(self) -> int:
        return _WORD * len(self._words)

    @property
    def largest(self) -> int:
        return int(self._whole.max(initial=0))

    def reveal(self) -> None:
        words = np.frombuffer(self._rng.bytes(8 * math.prod(self.shape)), dtype=np.uint64).copy()
        for i, more in self._ahead.items():
            words[i] = more.pop(0)
        self._ahead = {i: more for i, more in self._ahead.items() if more}
        self._words.append(words.reshape(self.shape))

    def limb(self, i: int, rows: slice) -> np.ndarray:
        """Return limb i of some rows, with their signs, as floats that are whole: g is the sum of ``limb_i * 2**-fraction_bits(i + 1)``.

        Limb 0 is the whole part and 18 bits, the others are 22 bits; absolute values are below 2**22 where `largest` is below 16.
        """
        magnitude = self._digits(fraction_bits(i), fraction_bits(i + 1), rows) if i else self._digits(0, FIRST_LIMB_BITS, rows)
        if not i:
            magnitude += np.ldexp(self._whole[rows].astype(float), FIRST_LIMB_BITS)
        return np.where(self._negative[rows], -magnitude, magnitude)

    def _digits(self, start: int, stop: int, rows: slice) -> np.ndarray:
        """Return bits [start, stop) of the fractions, at most 53 and of at most two words, as floats."""
        first, last = start // _WORD, (stop - 1) // _WORD
        digits = self._words[first][rows] << np.uint64(start % _WORD) >> np.uint64(_WORD - (stop - start))
        if last > first:
            digits = digits | self._words[last][rows] >> np.uint64((last + 1) * _WORD - stop)
        return digits.astype(float)

    def column(self, j: int) -> tuple[np.ndarray, np.ndarray]:
        """Return (negative, a) of a column: its signs, and all known bits of its magnitudes as Python integers."""
        a = self._whole[:, j].astype(object)
        for words in self._words:
            a = (a << _WORD) + words[:, j].astype(object)
        return self._negative[:, j], a


def fraction_bits(n_limbs: int) -> int:
    return FIRST_LIMB_BITS + LIMB_BITS * (n_limbs - 1)


def _propose(size: int, rng: RandomBits) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[int, list[int]]]:
    """Propose whole parts k and first words of x; return which are accepted, and the further words of x drawn to decide that."""
    whole = _whole_part_table().sample(size, rng)
    words = np.frombuffer(rng.bytes(8 * size), dtype=np.uint64)
    coins = np.frombuffer(rng.bytes(8 * size), dtype=np.uint64)
    x = words * 2.0**-64
    gap = coins * 2.0**-64 - np.exp(-0.5 * x * (2 * whole + x))
    accepted, ahead = gap < 0, {}
    # A float filter: x and the coin are known to 2**-53 and the exponent, at most k + 1/2, to 6 (k + 1) 2**-53. The slope of exp(-g) is
    # at most 1 and exp itself loses a few 2**-53, so for k < 16 the gap is right to 2**-45, and beyond the margin its sign is certain.
    for i in np.flatnonzero((np.abs(gap) <= _MARGIN) | (whole >= LARGEST)).tolist():
        accepted[i], ahead[i] = _is_below(int(coins[i]), int(whole[i]), int(words[i]), rng)
    return whole, words, accepted, ahead


def _is_below(coin: int, whole: int, x: int, rng: RandomBits) -> tuple[bool, list[int]]:
    """Decide ``U < exp(-x (2 k + x) / 2)`` from 64 bits of U and of x; return the decision and the words of x drawn for it."""
    bits = _WORD
    more: list[int] = []
    while True:
        low = exp_minus(_exponent(whole, x + 1, bits), bits)[0]
        high = exp_minus(_exponent(whole, x, bits), bits)[1]
        if coin + 1 <= low or coin >= high:
            return coin < low, more
        more.append(int.from_bytes(rng.bytes(8)))
        x, coin = x << _WORD | more[-1], coin << _WORD | int.from_bytes(rng.bytes(8))
        bits += _WORD


def _exponent(whole: int, x: int, bits: int) -> Fraction:
    return Fraction(x * ((2 * whole << bits) + x), 2 << 2 * bits)


@cache
def _whole_part_table() -> SurvivalTable:
    """Table of k: S(k) = sum_{j >= k} w_j / sum_{j >= 0} w_j, w_j = exp(-j**2 / 2)."""

    def survival(bits: int) -> list[Bounds]:
        work = bits + 64
        weights = [(1 << work, 1 << work)]
        while weights[-1][1] > 1:
            weights.append(exp_minus(Fraction(len(weights) ** 2, 2), work))
        # What is left out is below the last weight, of at most one unit: each is less than half of the one before.
        low, high, tails = 0, 1, []
        for weight in reversed(weights):
            low, high = low + weight[0], high + weight[1]
            tails.append((low, high))
        bounds = [((lo << bits) // high, -((-hi << bits) // low)) for lo, hi in reversed(tails[:-1])]
        last = next(k for k, (_, hi) in enumerate(bounds) if hi <= 1)
        return bounds[: last + 1]

    return SurvivalTable(survival, signed=False)
