"""The probabilities that the samplers give, read off their decision trees, and the laws; nothing is drawn.

A table decides 16 bits by a look-up, the next 49 by thresholds, and ties by further bits and certified bounds. Here each of the 2^64
prefixes is followed, all at once, and ties for 64 bits more: so P(magnitude >= k) is known to 2^-128 for every k. Wide scales join digits
of several tables, or accept a proposal by a uniform. Laws are summed up in decimals of 80 digits, from their definitions.
"""

import math
from decimal import Decimal, getcontext, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, pairwise

import numpy as np
from internals import _gaussian, _laplace, _random, exp_minus

getcontext().prec = 80
WIDEST = 2**58
TABLE = 256  # scales above are drawn by several tables, or by proposals


def decimal(x):
    """Return a fraction to 80 digits."""
    return Decimal(x.numerator) / Decimal(x.denominator)


def scaled_exp_minus(x, bits=64):
    """Return exp(-x) * 2**bits at 150 digits."""
    with localcontext(prec=150):
        return decimal(-x).exp() * (1 << bits)


PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899")


@lru_cache(maxsize=16)
def survival_of_tree(table):
    """Return P(M >= k) * 2**128 for k = 1, 2, ..., by what a table does with every 64-bit prefix, and with ties.

    Raise AssertionError where signs are no fair coin.
    """
    floors, n = table._floors, len(table._floors)
    words = table._lookup.astype(np.int64)
    if table._signed:
        assert (words[1::2] == np.where(words[::2] == _UNDECIDED, _UNDECIDED, -words[::2])).all()
    else:
        assert (words[1::2] == words[::2]).all()
    decided = words[::2] != _UNDECIDED
    # Within the buckets that the look-up leaves open, segments of prefixes with one fate: they begin where a bucket or a threshold does.
    open_buckets = np.flatnonzero(~decided).astype(np.uint64)
    ties = np.unique(np.append(floors, np.uint64(0)))
    ties = ties[~decided[(ties >> np.uint64(49)).astype(np.int64)]]
    begins = open_buckets << np.uint64(49)
    starts = np.unique(np.concatenate([begins, ties]))
    ends = np.minimum(np.append(starts[1:] - np.uint64(1), np.uint64(2**64 - 1)), starts | np.uint64(2**49 - 1))
    is_tie = np.isin(starts, ties)
    lengths = (ends - starts + (~is_tie).astype(np.uint64)).astype(np.int64)  # at most 2**49 each
    magnitude = n - np.searchsorted(floors, starts, side="right")
    found = [int(count) << 49 for count in np.bincount(words[::2][decided], minlength=n + 1)]
    for m, length in zip(magnitude.tolist(), lengths.tolist(), strict=True):
        found[m] += length
    counts = list(accumulate(reversed(found)))[::-1]  # of prefixes with magnitude >= k
    before = np.searchsorted(ties, floors)[::-1].tolist()  # ties that lie below a threshold altogether, k = 1, 2, ...
    levels = floors[::-1].tolist()
    bounds = table._survival(128)
    out = []
    for k, (low, high) in enumerate(bounds):
        assert high - low <= 2**16
        floor, certain = (levels[k], counts[k + 1] + before[k]) if k < n else (0, 0)
        out.append((certain << 64) + min(max(low - (floor << 64), 0), 1 << 64))
    return out


_UNDECIDED = np.iinfo(np.int16).min


def tails(weights):
    """Return P(M >= k), k = 1, 2, ..., of the law of these weights of 0, 1, ..."""
    total, out = Decimal(0), []
    for weight in reversed(weights):
        total += weight
        out.append(total)
    return [tail / total for tail in reversed(out[:-1])]


def geometric_weights(scale, two_sided, n=None, bits=160):
    """Return the weights of exp(-k / scale) until 2**-bits, by products: k of them lose k units of the 80th digit."""
    q, out = (-1 / decimal(scale)).exp(), [Decimal(1)]
    while len(out) < (n or math.inf) and (n or out[-1] >= Decimal(2) ** -bits):
        out.append(out[-1] * q)
    return [w * (2 if two_sided and k else 1) for k, w in enumerate(out)]


def gaussian_weights(scale, two_sided=True, bits=160):
    """Return the weights exp(-k**2 / (2 scale**2)), k = 0, 1, ... until 2**-bits; of two signs both, but for 0."""
    twice, out = decimal(2 * scale * scale), [Decimal(1)]
    while out[-1] >= Decimal(2) ** -bits:
        out.append((-len(out) * len(out) / twice).exp())
    return [w * (2 if two_sided and k else 1) for k, w in enumerate(out)]


@lru_cache(maxsize=16)
def survival_of_law(name, scale):
    """Return P(M >= k), k = 0, 1, ..., to 2**-220: of magnitudes (laplace, gaussian), one side (geometric, half_gaussian) or a digit."""
    if "gaussian" in name:
        weights = gaussian_weights(Fraction(scale), name == "gaussian", 220)
    else:
        weights = geometric_weights(Fraction(scale), name == "laplace", 256 if name == "digit" else None, 220)
    return [Decimal(1), *tails(weights)]


def error_of_table(table, weights):
    """Return the largest error of P(M >= k) of a table, over all k."""
    tree, law = survival_of_tree(table), tails(weights)
    law += [Decimal(0)] * (len(tree) - len(law))
    unit = Decimal(2) ** -128
    return max([abs(got * unit - want) for got, want in zip(tree, law, strict=False)] + [*law[len(tree) :][:1]])


def error_of_laplace(scale):
    """Return the largest error of the tables behind a scale, and of its probabilities relative to themselves."""
    if scale <= TABLE:
        return error_of_table(_laplace._power_table(scale, True), geometric_weights(scale, True)), Decimal(0)
    error, parts = parts_of(scale)
    return error, max(abs(tree_of_laplace(parts, z) / law_of_laplace(scale, z) - 1) for z in places(scale))


def parts_of(scale):
    """Return the largest error of the tables of a wide scale, and the chances of their digits, the lowest first."""
    tables, rest = [], scale
    while rest > TABLE:
        tables.append((_laplace._digit_table(rest), geometric_weights(rest, False, 256)))
        rest /= 256
    tables.append((_laplace._power_table(rest, False), geometric_weights(rest, False)))
    return max(error_of_table(*each) for each in tables), [chances_of(table) for table, _ in tables]


def places(scale, most=8):
    """Return magnitudes at which wide laws are compared."""
    return [z for z in (0, 1, 255, 256, 65535) if z < most * scale] + [int(scale * step / 2) for step in range(1, 2 * most)]


def chances_of(table):
    """Return P(M = k), k = 0, 1, ..., of a table."""
    above = [1 << 128, *survival_of_tree(table), 0]
    return [Decimal(a - b) / (1 << 128) for a, b in pairwise(above)]


def tree_of_laplace(parts, z):
    """Return P(Z = z): digits, a sign, and minus zero drawn again."""
    chance, rest = Decimal(1), z
    for part in parts[:-1]:
        chance, rest = chance * part[rest & 255], rest >> 8
    chance *= parts[-1][rest]
    none = Decimal(1)
    for part in parts:
        none *= part[0]
    return chance / 2 / (1 - none / 2)


def law_of_laplace(scale, z):
    """Return (1 - q) / (1 + q) q^z; 1 - q by its series, where it would cancel."""
    x = 1 / decimal(scale)
    less = sum(((-1) ** (i + 1) * x**i / math.factorial(i) for i in range(1, 40)), Decimal(0))
    return less / (2 - less) * (-z * x).exp()


def error_of_gaussian(scale):
    """Return the largest error of the table of a scale; beyond 256, of single probabilities, relative to themselves."""
    if scale <= TABLE:
        return error_of_table(_gaussian._survival_table(scale), gaussian_weights(scale)), Decimal(0)
    return error_of_rejection(scale)


def error_of_rejection(scale):
    """Return the errors of a Gaussian whose proposals are accepted or not: all of wide ones, and where scales are many.

    Block k of 2^m magnitudes is drawn from a table, one of them evenly, and a sign; minus zero is rejected. Accepted with probability
    exp(-g), each z has P(z) times the same constant, 1 / (2^(m + 1) W) of the sum of the law, W the sum of the weights of blocks.
    """
    m = next(m for m in range(60) if scale <= 64 * 2**m)
    t, variance = math.ceil(scale / 2**m), scale * scale
    # sum_z exp(-z^2 / 2 v) = sqrt(2 pi v) (1 + 2 exp(-2 pi^2 v) + ...), which is 1 to more digits than these from v = 2^16 on.
    total = (2 * PI * decimal(variance)).sqrt() if scale > TABLE else sum(gaussian_weights(scale))
    weights, table = gaussian_weights(Fraction(t), two_sided=False), _gaussian._survival_table(Fraction(t), signed=False)
    error, chances = error_of_table(table, weights), chances_of(table)
    constant = total / (sum(weights) * 2 ** (m + 1))
    worst = Decimal(0)
    for z in places(scale):
        k, low = divmod(z, 1 << m)
        gamma = z * z / (2 * variance) - Fraction(k * k, 2 * t * t)
        in_floats = 0.5 * (((k + low * 2.0**-m) * float(2**m / scale)) ** 2 - (k / t) ** 2)
        law = decimal(-Fraction(z * z) / (2 * variance)).exp() / total
        proposed = chances[k] / 2 ** (m + 1)
        worst = max(worst, abs(proposed * acceptance(gamma, in_floats) / (constant * law) - 1))
    return error, worst


def error_of_laplace_rejection(scale):
    """Return the errors of a Laplace law whose proposals of a whole scale t are accepted or not, as where scales are many."""
    t = math.floor(scale) + 1
    error, proposed = proposals_of(t)
    constant, steeper = law_of_laplace(Fraction(t), 0) / law_of_laplace(scale, 0), 1 / scale - Fraction(1, t)
    found = ((z, proposed(z) * acceptance(z * steeper, z * float(steeper))) for z in places(scale))
    return error, max(abs(chance / (constant * law_of_laplace(scale, z)) - 1) for z, chance in found)


def proposals_of(t):
    """Return the largest error of the tables of a whole scale, and P(Z = z) by what they do."""
    if t > TABLE:
        error, parts = parts_of(Fraction(t))
        return error, lambda z: tree_of_laplace(parts, z)
    table = _laplace._power_table(Fraction(t), True)
    chances = chances_of(table)
    return error_of_table(table, geometric_weights(Fraction(t), True)), lambda z: chances[z] / (2 if z else 1)


def acceptance(gamma, in_floats):
    """Return the probability that a proposal is accepted: by the float filter, and by exact bounds within its margin."""
    # What the filter is sure of must be right, whatever floats have made of the exponent.
    exact = decimal(-gamma).exp()
    assert abs(Decimal(math.exp(-in_floats)) - exact) < Decimal(_random.MARGIN) / 8
    low, high = exp_minus(gamma, 64)
    later = exp_minus(gamma, 128)
    assert low - 1 <= later[0] >> 64 <= high
    return Decimal(later[0] + later[1]) / 2 / (1 << 128)


def scales(count, seed=0):
    """Return rational scales from 1/100 to 2**58: half of them served by one table, and the ends of each."""
    rng = np.random.default_rng(seed)
    small = [Fraction(1, 100), Fraction(1, 2), Fraction(1), Fraction(TABLE)]
    wide = [Fraction(TABLE) + Fraction(1, 1000), Fraction(TABLE**2), Fraction(TABLE**2) + 1, Fraction(WIDEST)]
    small += [Fraction(round(1000 * 10 ** rng.uniform(-2, math.log10(TABLE)))) / 1000 for _ in range(count // 2 - len(small))]
    wide += [Fraction(int(2 ** rng.uniform(9, 58))) + Fraction(int(rng.integers(7)), 7) for _ in range(count - count // 2 - len(wide))]
    return small + [max(scale, Fraction(257)) if scale > TABLE + 1 else scale for scale in wide]


def bits(error):
    """Return how far an error lies below 1, in bits."""
    return math.inf if not error else float(-error.ln() / Decimal(2).ln())
