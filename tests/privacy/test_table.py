"""Lazily refined draws: which bits decide, and that ties are decided exactly."""

from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from internals import SurvivalTable, _digit_table, _power_table, _survival_table

from skdpsynth.privacy import SeededBits

MASK = (1 << 64) - 1
TABLES = [
    ("laplace", partial(_power_table, signed=True), Fraction(1, 100)),  # its thresholds are all below 2**-64
    ("laplace", partial(_power_table, signed=True), Fraction(1, 3)),
    ("laplace", partial(_power_table, signed=True), Fraction(5, 2)),
    ("laplace", partial(_power_table, signed=True), Fraction(20)),
    ("geometric", partial(_power_table, signed=False), Fraction(4)),
    ("digit", _digit_table, Fraction(1000)),
    ("digit", _digit_table, Fraction(2**58)),
    ("gaussian", _survival_table, Fraction(1)),
    ("gaussian", _survival_table, Fraction(40)),
]


def sample_uniform(table, V, scripted):
    """Draw once with V = V_1 / 2**192 for the uniform, sign positive, and return the draw and the requests for bits.

    The table reads 15 bits, then 49, then 64 at a time.
    """
    prefix = V >> 128
    word = np.uint16(prefix >> 49 << 1).tobytes()
    more = np.uint64((prefix << 15) & MASK).tobytes()
    rng = scripted(word, more, (V >> 64 & MASK).to_bytes(8), (V & MASK).to_bytes(8))
    return int(table.sample(1, rng)[0]), rng.requests


@pytest.mark.parametrize(("name", "make", "scale"), TABLES)
def test_a_uniform_one_unit_from_a_threshold_is_decided_exactly(name, make, scale, exact_law, scripted):
    law, table = exact_law(name, scale), make(scale)
    thresholds = law.floors(192)
    chosen = np.unique(np.geomspace(1, sum(t > 1 for t in thresholds), 7).astype(int))
    for k in chosen:
        threshold = thresholds[k - 1]
        # 2**-64 away, the 64-bit prefix decides (unless another threshold shares it).
        for V in (max(threshold - (1 << 128), 1), threshold + (1 << 128)):
            assert sample_uniform(table, V, scripted)[0] == law.inverse(Fraction(V, 1 << 192))
        # 2**-128 and 2**-192 away, the prefix ties, and further words decide.
        for step in (min(1 << 64, threshold - 1), 1):
            below, requests = sample_uniform(table, threshold - step, scripted)
            assert below == law.inverse(Fraction(threshold - step, 1 << 192)) >= k
            assert requests >= 3
            above, requests = sample_uniform(table, threshold + step, scripted)
            assert above == law.inverse(Fraction(threshold + step, 1 << 192)) < k
            assert requests >= 3


@pytest.mark.parametrize(("name", "make", "scale"), TABLES)
def test_a_uniform_below_every_listed_threshold_is_refined_until_it_is_not(name, make, scale, exact_law, scripted):
    law = exact_law(name, scale)
    V = 3 << 64  # the first 64 bits, which the table holds, are all zero
    assert sample_uniform(make(scale), V, scripted)[0] == law.inverse(Fraction(V, 1 << 192))


@pytest.mark.parametrize("offset", [-1, 0, 1])
def test_a_threshold_inside_the_outermost_unit_of_a_bucket_is_not_overlooked(offset, scripted):
    # The buckets of the look-up table end at multiples of 2**49; S(1) lies half a unit above offset + the middle one.
    def survival(bits):
        return [((2**64 + 2 * offset + 1) << bits - 65,) * 2]

    table = SurvivalTable(survival, signed=False)
    for V in range(2**63 - 3, 2**63 + 3):  # in units of 2**-64; a later bit decides within the unit of the threshold
        for half in (0, 1):
            draw, _ = sample_uniform(table, (2 * V + half) << 127, scripted)
            assert draw == (2 * V + half < 2**64 + 2 * offset + 1)


def test_draws_beyond_one_block_are_all_filled():
    table = _power_table(Fraction(3), True)
    draws = table.sample((1 << 17) + 1000, SeededBits(5))
    # An unfilled int64 buffer would show: 1000 draws, each 0 with probability 0.16; P(at most 50) < 1e-20.
    assert np.count_nonzero(draws[1 << 17 :] == 0) > 50
    assert np.abs(draws).max() < 3 * 60
