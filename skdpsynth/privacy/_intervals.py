"""Certified integer bounds on exponentials, the only arithmetic that decides a draw, and rejection sampling by them.

A number v in [0, 1] is a pair of integers (lo, hi) with ``lo <= v * 2**bits <= hi``.
"""

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from skdpsynth.privacy._random import RandomBits

Bounds = tuple[int, int]
Proposals = tuple[np.ndarray, np.ndarray]  # values, and which of them are accepted

MARGIN = 2.0**-32  # the float filter below is wrong by less than 2**-37


def multiply_bounds(a: Bounds, b: Bounds, bits: int) -> Bounds:
    return (a[0] * b[0]) >> bits, -((-a[1] * b[1]) >> bits)


def exp_minus(x: Fraction, bits: int) -> Bounds:
    """Return bounds on ``exp(-x) * 2**bits`` for a rational x >= 0, at most a few units apart."""
    halvings = max(0, (2 * x.numerator // x.denominator).bit_length())  # y = x / 2**halvings < 1/2
    work = bits + halvings + 8  # squaring doubles the error, once a halving
    numerator, denominator = x.numerator, x.denominator << halvings
    lo = hi = term_lo = term_hi = 1 << work
    k = 0
    while term_hi > 1:
        k += 1
        term_lo = term_lo * numerator // (denominator * k)
        term_hi = -(-term_hi * numerator // (denominator * k))
        if k % 2:
            lo, hi = lo - term_hi, hi - term_lo
        else:
            lo, hi = lo + term_lo, hi + term_hi
    # Alternating series with falling terms: what is left out is below the last term, which is at most 1.
    value = max(lo - 1, 0), min(hi + 1, 1 << work)
    for _ in range(halvings):
        value = multiply_bounds(value, value, work)
    shift = work - bits
    return value[0] >> shift, -(-value[1] >> shift)


def bernoulli_exp_minus(x: Fraction, rng: RandomBits, prefix: int, bits: int) -> bool:
    """Decide ``U < exp(-x)`` for a uniform U with first `bits` bits `prefix`, drawing more bits as needed."""
    while True:
        lo, hi = exp_minus(x, bits)
        if prefix + 1 <= lo:
            return True
        if prefix >= hi:
            return False
        prefix = prefix << 64 | int.from_bytes(rng.bytes(8))
        bits += 64


def sample_by_rejection(size: int, propose: Callable[[int], Proposals]) -> np.ndarray:
    out = np.empty(size, dtype=np.int64)
    missing = np.arange(size)
    while len(missing):
        proposals, accepted = propose(len(missing))
        out[missing[accepted]] = proposals[accepted]
        missing = missing[~accepted]
    return out


def accept_exactly(exponents: np.ndarray, exact: Callable[[int], Fraction], rng: RandomBits) -> np.ndarray:
    """Decide ``U < exp(-g)`` for each g, which ``exact(place)`` returns exactly.

    `exponents` are g in floats: with an absolute error below 2**-38 up to 1800, and of a few parts in 2**53 beyond, where exp(-g) is tiny.
    """
    accept = np.exp(-exponents)
    words = np.frombuffer(rng.bytes(8 * len(exponents)), dtype=np.uint64)
    uniform = words * 2.0**-64
    accepted: np.ndarray = uniform < accept
    # exp and u lose a few 2**-53 more than g, so beyond the margin the comparison is certain. All others are decided in rationals.
    for i in np.flatnonzero(np.abs(uniform - accept) <= MARGIN):
        accepted[i] = bernoulli_exp_minus(exact(int(i)), rng, int(words[i]), 64)
    return accepted
