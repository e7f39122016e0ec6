"""Certified integer bounds on exponentials: the only arithmetic that decides a draw.

A number v in [0, 1] is a pair of integers (lo, hi) with ``lo <= v * 2**bits <= hi``.
"""

from fractions import Fraction

from skdpsynth.privacy._random import RandomBits

Bounds = tuple[int, int]


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
