"""Exact noise for symmetric matrices of small nuclear sensitivity: a difference of two Wishart matrices, rounded."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache

import numpy as np

from skdpsynth._validation import check_integer, short_repr
from skdpsynth.privacy._noise import Noise, Size, shape_of
from skdpsynth.privacy._random import Bounds, RandomBits, SurvivalTable, check_stream, exp_minus

LIMB_BITS = 22  # bits of a limb
FIRST_LIMB_BITS = 18  # bits of the fraction that limb 0 holds, below the whole part
LARGEST = 1 << LIMB_BITS - FIRST_LIMB_BITS  # limb 0 has room for whole parts below this
_WORD = 64
_BLOCK = 1 << 17  # normals at a time: the scratch stays in cache
_MARGIN = 2.0**-32  # the float filter below is wrong by less than 2**-45
_MAX_ROWS = 4096  # rows: a draw takes some minutes and 2.3 GB
_ROWS = 512  # of limbs multiplied at a time: a sum of so many products of two limbs is below 2**53, so floats hold it exactly
_NORMALS = 1 << 16  # of a stack at a time
_ENTRIES = 1 << 15  # rounded at a time: the scratch stays in cache
_MASK = (1 << LIMB_BITS) - 1
_GOLDEN = (1 + math.sqrt(5)) / 2


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
        (low, _), (_, high) = (exp_minus(Fraction(y * ((2 * whole << bits) + y), 2 << 2 * bits), bits) for y in (x + 1, x))
        if coin + 1 <= low or coin >= high:
            return coin < low, more
        more.append(int.from_bytes(rng.bytes(8)))
        x, coin = x << _WORD | more[-1], coin << _WORD | int.from_bytes(rng.bytes(8))
        bits += _WORD


@cache
def _whole_part_table() -> SurvivalTable:
    """Table of k: S(k) = sum_{j >= k} w_j / sum_{j >= 0} w_j, w_j = exp(-j**2 / 2)."""

    def survival(bits: int) -> list[Bounds]:
        work = bits + 64
        weights = [(1 << work, 1 << work)]
        while weights[-1][1] > 1:
            weights.append(exp_minus(Fraction(len(weights) ** 2, 2), work))
        # The weights left out sum to less than the last one, which is at most one unit: each is less than half of the one before.
        low, high, tails = 0, 1, []
        for weight in reversed(weights):
            low, high = low + weight[0], high + weight[1]
            tails.append((low, high))
        bounds = [((lo << bits) // high, -((-hi << bits) // low)) for lo, hi in reversed(tails[:-1])]
        last = next(k for k, (_, hi) in enumerate(bounds) if hi <= 1)
        return bounds[: last + 1]

    return SurvivalTable(survival, signed=False)


@dataclass(frozen=True)
class DiscreteMatrixLaplace(Noise):
    r"""Symmetric integer noise of size m x m, the Laplace distribution of matrices: a rounded difference of two Wishart matrices.

    Added to a symmetric matrix of integers that moves by at most D in nuclear norm (the sum of the absolute eigenvalues of its
    change) it is (D / scale)-differentially private. A second moment moves by a matrix of rank one or two, which is small in that norm
    whatever the number of its entries. For m = 1 it is a rounded Laplace distribution. Draws are exact.

    Parameters
    ----------
    scale : number
        Rational: an int, a Fraction, or a float, which stands for the decimal it prints. One number for all values: 0, which means no
        noise, or between 1/100 and 2**58.

    See Also
    --------
    PrivatePCA : Releases its second moment with it.
    DiscreteLaplace : For values of which one row moves few.
    skdpsynth.privacy.mechanism : Noise and cost from a sensitivity.

    Notes
    -----
    *Law.* ``Z = W1 - W2`` with W1, W2 independent, of density ``f(W)`` proportional to ``exp(-tr W / scale)`` on the positive
    semidefinite (psd) matrices: ``W = (scale / 2) G^T G`` for an (m + 1) x m matrix G of standard normals. The noise is Z with each entry
    rounded to the nearest integer, ``floor(z + 1/2)``. Entries off the diagonal have variance ``scale**2 (m + 1) / 2``, those on it twice
    that, and rounding adds about 1/12 to both.

    *Privacy.* Let p be the density of Z and A psd. With ``W1 = V + A``,
    ``p(Z + A) = \int f(V + A) f(V - Z) dV >= exp(-tr A / scale) \int f(V) f(V - Z) dV = exp(-tr A / scale) p(Z)``: where V is psd so is
    V + A, and there ``f(V + A) = exp(-tr A / scale) f(V)``. As p is even, ``p(Z) = p(-(Z + A) + A) >= exp(-tr A / scale) p(Z + A)`` too.
    A change is A - B with A, B psd, its positive and negative parts, so it moves ln p by at most ``(tr A + tr B) / scale``: its nuclear
    norm over the scale. Adding an integer matrix and rounding commute, so the sum is a rounded ``M + Z``: post-processing.

    *Size.* Where ``scale * (m + 1)`` is at most 2**55 every draw is in the range of int64 (but for a normal beyond 16, of probability
    below 2e-57); beyond, draws are exact modulo 2**64.

    Examples
    --------
    >>> from skdpsynth.privacy import DiscreteMatrixLaplace, check_rng
    >>> noise = DiscreteMatrixLaplace(10).sample((3, 3), check_rng(None))
    >>> noise.shape, bool((noise == noise.T).all())
    ((3, 3), True)
    """

    norm, _serves_scales = "nuclear", False

    def sample(self, size: Size, rng: RandomBits) -> np.ndarray:
        """Draw a symmetric int64 matrix with the bits of `rng`, or a stack of independent ones: `size` ends in (m, m)."""
        check_stream(rng)
        shape = shape_of(size)
        self.check_shape(shape, in_stack=True)
        out = np.zeros(shape, dtype=np.int64)
        if self.scale and out.size:
            stack, m = out.reshape(-1, *shape[-2:]), shape[-1]
            at_once = max(1, _NORMALS // (2 * m * (m + 1)))
            for start in range(0, len(stack), at_once):
                some = stack[start : start + at_once]
                some[:] = _sample(self.scale, m, rng, count=len(some))
        return out

    def check_shape(self, shape: tuple[int, ...], in_stack: bool = False) -> None:
        """Raise ValueError unless the values are a square matrix that is not too large, or several ones `in_stack`."""
        shape = shape_of(shape, "shape")
        shape = shape[-2:] if in_stack is True else shape
        if len(shape) != 2 or shape[0] != shape[1]:
            raise ValueError(f"matrix Laplace noise needs values of shape (m, m), got {shape}; list the whole symmetric matrix.")
        self.check_size(math.prod(shape))

    def check_size(self, n_values: int) -> None:
        """Raise ValueError if so many values are no square matrix, or one of more than 4096 rows."""
        super().check_size(n_values)
        if n_values != math.isqrt(n_values) ** 2 or n_values > _MAX_ROWS**2:
            raise ValueError(
                f"matrix Laplace noise needs m * m values with m at most {_MAX_ROWS}, got {short_repr(n_values)}; "
                "use Laplace or sup-norm noise."
            )

    def variance(self, n_values: int = 1) -> float:
        """Return, as a float, the variance of an entry off the diagonal where `n_values` are m * m; on it there is twice as much.

        Rounding, which adds about 1/12, is not counted.
        """
        n_values = check_integer("n_values", n_values, 0, _MAX_ROWS**2)
        return float(self.scale) ** 2 * (math.isqrt(n_values) + 1) / 2

    def spectral_norm(self, n_rows: int) -> float:
        """Return what noise alone shows: the spectral norm of a draw of `n_rows` rows, to the leading order.

        That is ``phi**2.5 / 2 * n_rows * scale``, about ``1.66510 n_rows * scale``, with phi the golden ratio. With ``u = n_rows**(-2/3)``
        a draw has on average ``1 - 0.43 u`` of it (standard deviation ``0.8 u``), and 99 in 100 have less than ``1 + 1.9 u``.
        """
        n_rows = check_integer("n_rows", n_rows, 0, _MAX_ROWS)
        # G'G / m has the Marchenko-Pastur law of ratio one, of R-transform 1 / (1 - w); free differences have R = 2 w / (1 - w**2). The
        # edge is the least R(w) + 1 / w: at w**4 + 4 w**2 = 1, so w**2 = sqrt(5) - 2 = phi**-3, its value is phi * phi**1.5.
        return _GOLDEN**2.5 / 2 * n_rows * float(self.scale)


def _sample(scale: Fraction, m: int, rng: RandomBits, n_limbs: int | None = None, count: int = 1) -> np.ndarray:
    """Draw round(Z) `count` times, from limbs of normals where they decide it, and from more of their bits elsewhere."""
    n_limbs = _enough_limbs(scale, m) if n_limbs is None else n_limbs
    normals = Normals((2 * (m + 1), count * m), rng)  # G above H, those of one matrix beside those of the next
    while normals.bits < fraction_bits(n_limbs):
        normals.reveal()
    rows, columns = np.triu_indices(m)
    values, undecided = np.zeros(count * len(rows), dtype=np.int64), np.ones(count * len(rows), dtype=bool)
    if normals.largest < LARGEST:  # else limbs have no room for it, and all entries are decided one by one
        values, undecided = _round(_products(normals, m, n_limbs, (rows, columns)), scale, m)
    for k in np.flatnonzero(undecided).tolist():
        which, entry = divmod(k, len(rows))
        decided = _decide(scale, normals, which * m + int(rows[entry]), which * m + int(columns[entry]))
        values[k] = (decided + 2**63) % 2**64 - 2**63
    out = np.empty((count, m, m), dtype=np.int64)
    out[:, rows, columns] = out[:, columns, rows] = values.reshape(count, -1)
    return out


def _products(normals: Normals, m: int, n_limbs: int, entries: tuple[np.ndarray, np.ndarray]) -> list[np.ndarray]:
    """Return C_t, the sums of ``A_i' D A_j`` over i + j = t, exactly, for t < n_limbs: some entries of each matrix, int64.

    A_i are the limbs of [G; H] and D is 1 for the rows of G and -1 for those of H.
    """
    sums = [np.zeros((normals.shape[1] // m, m, m), dtype=np.int64) for _ in range(n_limbs)]
    side = np.repeat([1.0, -1.0], m + 1)[:, None]
    for start in range(0, 2 * (m + 1), _ROWS):
        rows = slice(start, start + _ROWS)
        limbs = [normals.limb(i, rows) for i in range(n_limbs)]
        for i, limb in enumerate(limbs[: -(-n_limbs // 2)]):
            left = _stack_blocks(limb * side[rows], m).swapaxes(1, 2)
            for j in range(i, n_limbs - i):
                # Whole numbers below 2**53 in every order of summation; at most 18 * 6 of them meet in a sum, so int64 holds that.
                product = (left @ _stack_blocks(limbs[j], m)).astype(np.int64)
                sums[i + j] += product if i == j else product + product.swapaxes(1, 2)
    return [total[:, *entries].ravel() for total in sums]


def _stack_blocks(limb: np.ndarray, m: int) -> np.ndarray:
    return limb.reshape(len(limb), -1, m).swapaxes(0, 1)


@lru_cache(maxsize=64)
def _enough_limbs(scale: Fraction, m: int) -> int:
    """Return how many limbs, at least 3, leave an entry undecided in fewer than one of a thousand draws."""
    n_limbs = 3
    while _error(scale, m, n_limbs) * m * m > Fraction(1, 1024):
        n_limbs += 1
    return n_limbs


def _error(scale: Fraction, m: int, n_limbs: int) -> Fraction:
    """Bound how far `_round` may be from an entry of Z before it rounds.

    Let p = fraction_bits(n), where n is the number of limbs, and abs(g) < 16. From a product g h of normals, C_t leave out limb i of g
    times what follows limb n - 1 - i of h, less than ``2**(4 - 22 i) 2**(-p + 22 i)`` for each of n limbs, and the unknown bits of g times
    h, less than ``2**-p 16``: together (n + 1) 2**(4 - p). There are 2 (m + 1) products, times scale / 2. That the scale is cut to whole
    multiples of 2**-q moves their sum, below 2 (m + 1) 2**8, by a factor below 2**-q <= scale * 2**(-p - 5): one more of the n + 1.
    """
    return scale * (m + 1) * (n_limbs + 2) / (Fraction(2) ** (fraction_bits(n_limbs) - 4))


def _round(products: list[np.ndarray], scale: Fraction, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the entries of Z rounded, modulo 2**64, and where the limbs do not decide them."""
    factor, places, error = _rounding(scale, m, len(products))
    blocks = [_round_block([C[k : k + _ENTRIES] for C in products], factor, places, error) for k in range(0, len(products[0]), _ENTRIES)]
    return np.concatenate([values for values, _ in blocks]), np.concatenate([undecided for _, undecided in blocks])


@lru_cache(maxsize=64)
def _rounding(scale: Fraction, m: int, n_limbs: int) -> tuple[list[int], int, int]:
    """Return the limbs of the scale, the places of the fraction, and the error in units of 2**-44."""
    shift = LIMB_BITS - 2 * FIRST_LIMB_BITS % LIMB_BITS  # q: with it, the fraction of an entry of Z is a whole number of limbs
    while scale * 2**shift < 1 << fraction_bits(n_limbs) + 5:
        shift += LIMB_BITS
    whole = int(scale * 2 ** (shift - 1))
    factor = [whole >> k & _MASK for k in range(0, max(1, whole.bit_length()), LIMB_BITS)]  # the least first
    return factor, (shift + 2 * FIRST_LIMB_BITS) // LIMB_BITS + n_limbs - 1, math.ceil(_error(scale, m, n_limbs) * 4**LIMB_BITS)


def _round_block(products: list[np.ndarray], factor: list[int], places: int, error: int) -> tuple[np.ndarray, np.ndarray]:
    """Round ``factor * sum_t C_t 2**(22 (n - 1 - t))`` to a multiple u of ``2**(22 places)``; say where an error in u 2**-44 may matter."""
    empty = np.zeros_like(products[0])
    limbs = _carry([*reversed(products), empty, empty])
    scaled = [empty.copy() for _ in range(max(len(limbs) + len(factor), places + 3))]
    for i, digit in enumerate(factor):
        for j, limb in enumerate(limbs):
            scaled[i + j] += digit * limb  # below 2**44, and at most 8 of them
    scaled[places - 1] += 1 << LIMB_BITS - 1
    scaled = _carry(scaled)
    fraction = (scaled[places - 1] << LIMB_BITS) + scaled[places - 2]  # in units of 2**-44, rounded down
    undecided = (fraction < error) | (fraction >= 4**LIMB_BITS - error)
    return scaled[places] + (scaled[places + 1] << LIMB_BITS) + (scaled[places + 2] << 2 * LIMB_BITS), undecided


def _carry(limbs: list[np.ndarray]) -> list[np.ndarray]:
    """Return the same number, the least limb first, with all limbs in [0, 2**22) but the last, which has the sign."""
    out, carry = [], np.zeros_like(limbs[0])
    for limb in limbs[:-1]:
        total = limb + carry
        out.append(total & _MASK)
        carry = total >> LIMB_BITS
    return [*out, limbs[-1] + carry]


def _decide(scale: Fraction, normals: Normals, i: int, j: int) -> int:
    """Return round(Z_ij), a Python integer, from the known bits of the normals, or from as many more as it takes."""
    while True:
        center, slack = _entry_interval(normals, i, j)
        unit = scale / (2 << 2 * normals.bits)
        low, high = (math.floor(end * unit + Fraction(1, 2)) for end in (center - slack, center + slack))
        if low == high:
            return low
        normals.reveal()


def _entry_interval(normals: Normals, i: int, j: int) -> tuple[int, int]:
    """Return center and slack, in units of ``2**(-2 bits)``, of an entry of G'G - H'H."""
    (negative, a), (reverse, b) = normals.column(i), normals.column(j)
    ours = np.arange(len(a)) < len(a) // 2
    products = a * b
    # abs(g h) lies between a b and (a + 1) (b + 1), whatever its sign.
    return int(np.where(negative ^ reverse ^ ours, products, -products).sum()), int((a + b + 1).sum())
