"""Streams of random bits (of the operating system, or from a seed for tests), and exact draws from them by certified integer bounds.

A stream keeps no buffer between calls, so a forked process never repeats the noise of its parent, unless both follow a seed. Integer
arithmetic alone decides a draw: a number v in [0, 1] is a pair of integers (lo, hi) with ``lo <= v * 2**bits <= hi``.
"""

import hashlib
import numbers
import os
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from skdpsynth._validation import is_integer, short_repr, warn
from skdpsynth.exceptions import InsecureRandomnessWarning

_PREFIX = 15  # bits that the look-up table reads; the 16th bit of a word is the sign
_UNDECIDED = np.iinfo(np.int16).min
_BLOCK = 1 << 17  # draws at a time: the scratch stays in cache
Seed = int | np.random.RandomState | None
Bounds = tuple[int, int]
Proposals = tuple[np.ndarray, np.ndarray]  # values, and which of them are accepted

MARGIN = 2.0**-32  # the float filter below is wrong by less than 2**-37
SEED_WARNING = (
    "random_state is set, so the noise can be recomputed and the result is not private; leave random_state=None for anything that is "
    "released."
)


class RandomBits:
    """A stream of random bits."""

    seeded: bool

    def bytes(self, size: int) -> bytes:
        raise NotImplementedError

    def child(self, name: str) -> "RandomBits":
        """Return the stream of the mechanism called `name`; secure streams are independent as they are."""
        return self

    def random_state(self) -> np.random.RandomState | None:
        """Return the ``random_state`` of an inner estimator."""

    def generator(self) -> np.random.Generator:
        """Return a numpy generator that starts from these bits, for public choices: never for noise."""
        return np.random.default_rng(np.frombuffer(self.bytes(32), dtype=np.uint32))


class SecureBits(RandomBits):
    """Random bits of the operating system (``os.urandom``)."""

    seeded = False

    def bytes(self, size: int) -> bytes:
        return os.urandom(size)


class SeededBits(RandomBits):
    """Reproducible bits for tests: the same samplers run on them, but the output is not private.

    The stream follows from `entropy` and the names of the mechanisms from the root to it; streams of different paths are independent.
    """

    seeded = True

    def __init__(self, entropy: int, path: tuple[str, ...] = ()) -> None:
        self._entropy, self._path = entropy, path
        # A hash of the path, not a counter: the stream of one mechanism does not depend on its neighbors.
        digest = hashlib.sha256(repr((entropy, path)).encode()).digest()
        self._generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence(int.from_bytes(digest))))

    def bytes(self, size: int) -> bytes:
        return self._generator.bytes(size)

    def child(self, name: str) -> "SeededBits":
        return SeededBits(self._entropy, (*self._path, name))

    def random_state(self) -> np.random.RandomState:
        return np.random.RandomState(np.frombuffer(self.bytes(64), dtype=np.uint32))

    def __repr__(self) -> str:
        return "SeededBits()"  # never the seed


def check_rng(random_state: Seed) -> SecureBits | SeededBits:
    """Turn scikit-learn's ``random_state`` into a stream of bits for noise.

    Parameters
    ----------
    random_state : None, int or RandomState
        None: the operating system's secure randomness, never numpy's global state. Otherwise a reproducible
        stream, with an `InsecureRandomnessWarning`.

    Returns
    -------
    rng : SecureBits or SeededBits

    See Also
    --------
    PrivacyAccountant.release : Draws noise from such a stream.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsynth.privacy import DiscreteLaplace, PrivacyAccountant, check_rng
    >>> shown = PrivacyAccountant(0.5).release(np.array([340]), DiscreteLaplace(2), check_rng(None), name="smokers")
    >>> shown.dtype, shown.shape
    (dtype('int64'), (1,))
    """
    rng = make_stream(random_state)
    if rng.seeded:
        warn(SEED_WARNING, InsecureRandomnessWarning)
    return rng


def make_stream(random_state: Seed) -> SecureBits | SeededBits:
    """Return the stream of a ``random_state`` as `check_rng` does, but leave the warning to the caller."""
    if random_state is None:
        return SecureBits()
    if isinstance(random_state, np.random.RandomState):
        return SeededBits(int.from_bytes(random_state.bytes(16)))
    if is_integer(random_state, 0):
        return SeededBits(int(random_state))
    raise ValueError(
        "random_state must be None (secure noise), a non-negative int or a numpy RandomState, "
        f"got {short_repr(random_state) if isinstance(random_state, numbers.Integral) else type(random_state).__name__}; "
        "leave it None unless you are testing."
    )


def check_stream(rng: object) -> None:
    """Raise TypeError unless `rng` is a stream of this file: numpy's generators have ``bytes`` too, but not secure ones."""
    if not hasattr(rng, "seeded"):
        raise TypeError(f"rng must be a stream made by check_rng, got {type(rng).__name__}; use check_rng(None) for secure noise.")


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
    if not x or (prefix and x >= bits):  # U < 1; or U is at least 2**-bits, which is above exp(-bits)
        return not x
    while True:
        lo, hi = exp_minus(x, bits)
        if prefix + 1 <= lo:
            return True
        if prefix >= hi:
            return False
        prefix = prefix << 64 | int.from_bytes(rng.bytes(8))
        bits += 64


def sample_by_rejection(size: int, propose: Callable[[int], Proposals]) -> np.ndarray:
    """Return the first `size` proposals that are accepted, in their order: each has the law of any."""
    out, done = np.empty(size, dtype=np.int64), 0
    while done < size:
        proposals, accepted = propose(min(size - done, _BLOCK // 4))  # which take more scratch than draws do
        taken = proposals[accepted]
        out[done : done + len(taken)] = taken
        done += len(taken)
    return out


def accept_exactly(exponents: np.ndarray, exact: Callable[[int], Fraction], rng: RandomBits, words: np.ndarray | None = None) -> np.ndarray:
    """Decide ``U < exp(-g)`` for each g, which ``exact(place)`` returns exactly; `words` are the first 64 bits of each U (None: drawn).

    `exponents` are g in floats: with an absolute error below 2**-38 up to 1800, and of a few parts in 2**53 beyond, where exp(-g) is tiny.
    """
    accept = np.exp(-exponents)
    words = np.frombuffer(rng.bytes(8 * len(exponents)), dtype=np.uint64) if words is None else words
    uniform = words * 2.0**-64
    accepted: np.ndarray = uniform < accept
    # exp and u lose a few 2**-53 more than g, so beyond the margin the comparison is certain. All others are decided in rationals.
    for i in np.flatnonzero(np.abs(uniform - accept) <= MARGIN):
        accepted[i] = bernoulli_exp_minus(exact(int(i)), rng, int(words[i]), 64)
    return accepted


class SurvivalTable:
    """Sampler of magnitudes, or of signed integers whose sign is a fair coin, by lazily refined bits.

    A magnitude M with ``P(M >= k) = S(k)`` is ``M = max{k : V < S(k)}`` for V uniform on [0, 1). The first bits of V nearly always
    decide k. When the dyadic interval they leave holds a threshold S(k), more bits are drawn and compared with certified integer bounds
    of S; no rounding ever decides.

    ``survival(bits)`` returns integer bounds (lo, hi) on ``S(k) * 2**bits`` for k = 1, 2, ... down to the first k with ``hi <= 1``, or
    to the end of the support.
    """

    def __init__(self, survival: Callable[[int], list[Bounds]], signed: bool) -> None:
        self._survival, self._signed = survival, signed
        guard, bounds = 32, survival(64 + 32)  # bits: they leave a floor open in fewer than one table of 100,000
        while any(lo >> guard != hi >> guard for lo, hi in bounds):
            guard *= 2
            bounds = survival(64 + guard)
        # floor(S(k) * 2**64) for k = 1, 2, ..., ascending: the last k first.
        self._floors = np.array([lo >> guard for lo, _ in reversed(bounds) if lo >> guard], dtype=np.uint64)
        # From a 16-bit word (prefix, sign) to the draw that it decides. V is inside the bucket, so k counts for all of it if
        # floor(S 2^64) is in a later one, for none if it is in an earlier one.
        inside = np.bincount((self._floors >> np.uint64(64 - _PREFIX)).astype(np.int64), minlength=1 << _PREFIX)
        at_least = len(self._floors) - np.cumsum(inside)
        decided = (inside == 0) & (at_least < -_UNDECIDED)
        decided[0] = False  # thresholds beyond the table crowd near 0
        magnitude = np.where(decided, at_least, _UNDECIDED).astype(np.int16)
        self._lookup = np.repeat(magnitude, 2)
        if signed:
            self._lookup[1::2] = np.where(decided, -magnitude, _UNDECIDED)

    def sample(self, size: int, rng: RandomBits) -> np.ndarray:
        out = np.empty(size, dtype=np.int64)
        for start in range(0, size, _BLOCK):
            block = out[start : start + _BLOCK]
            words = np.frombuffer(rng.bytes(2 * len(block)), dtype=np.uint16)
            draws = self._lookup[words]
            block[:] = draws
            if len(undecided := np.flatnonzero(draws == _UNDECIDED)):
                block[undecided] = self._refine(words[undecided], rng)
        return out

    def _refine(self, words: np.ndarray, rng: RandomBits) -> np.ndarray:
        """Decide draws by 49 more bits, and the rare ties among those by as many as it takes."""
        more = np.frombuffer(rng.bytes(8 * len(words)), dtype=np.uint64)
        prefix = (words >> 1).astype(np.uint64) << np.uint64(64 - _PREFIX) | more >> np.uint64(_PREFIX)
        below = np.searchsorted(self._floors, prefix, side="left")
        above = np.searchsorted(self._floors, prefix, side="right")
        magnitude = len(self._floors) - above
        for i in np.flatnonzero((below != above) | (prefix == 0)):
            magnitude[i] = self._decide(int(prefix[i]), 64, rng)
        return np.where(words & 1, -magnitude, magnitude) if self._signed else magnitude

    def _decide(self, prefix: int, bits: int, rng: RandomBits) -> int:
        """Return the exact magnitude for V in [prefix, prefix + 1) / 2**bits, drawing more bits as needed."""
        while True:
            prefix = prefix << 64 | int.from_bytes(rng.bytes(8))
            bits += 64
            bounds = self._survival(bits)
            certain = sum(prefix + 1 <= lo for lo, _ in bounds)  # V < S(k) for sure
            possible = sum(prefix < hi for _, hi in bounds)  # ... or perhaps
            # Beyond the list S(k) 2**bits <= 1: a prefix of 0 could still fall below it.
            if certain == possible and prefix > 0:
                return certain
