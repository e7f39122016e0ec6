"""Exact sampling from a survival function by lazily refined bits.

A magnitude M with ``P(M >= k) = S(k)`` is ``M = max{k : V < S(k)}`` for V uniform on [0, 1). The first bits of V nearly always
decide k. When the dyadic interval they leave holds a threshold S(k), more bits are drawn and compared with certified integer bounds
of S; no rounding ever decides.
"""

from collections.abc import Callable

import numpy as np

from skdpsynth.privacy._intervals import Bounds
from skdpsynth.privacy._random import RandomBits

_PREFIX = 15  # bits that the look-up table reads; the 16th bit of a word is the sign
_UNDECIDED = np.iinfo(np.int16).min
_BLOCK = 1 << 17  # draws at a time: the scratch stays in cache


class SurvivalTable:
    """Sampler of magnitudes, or of signed integers whose sign is a fair coin.

    ``survival(bits)`` returns integer bounds (lo, hi) on ``S(k) * 2**bits`` for k = 1, 2, ... down to the first k with ``hi <= 1``, or
    to the end of the support.
    """

    def __init__(self, survival: Callable[[int], list[Bounds]], signed: bool) -> None:
        self._survival = survival
        self._signed = signed
        self._floors = self._certified_floors(64)
        self._lookup = self._build_lookup()

    def _certified_floors(self, bits: int) -> np.ndarray:
        """Return ``floor(S(k) * 2**bits)`` for k = 1, 2, ... as ascending uint64 (last k first)."""
        guard = 32  # bits: they leave a floor open in fewer than one table of 100,000
        while True:
            bounds = self._survival(bits + guard)
            lower = [lo >> guard for lo, _ in bounds]
            if all(low == hi >> guard for low, (_, hi) in zip(lower, bounds, strict=True)):
                return np.array([low for low in reversed(lower) if low], dtype=np.uint64)
            guard *= 2

    def _build_lookup(self) -> np.ndarray:
        """Map a 16-bit word (prefix, sign) to the draw it decides, or to `_UNDECIDED`."""
        # V is inside the bucket, so k counts for all of it if floor(S 2^64) is in a later one, for none if it is in an earlier one.
        inside = np.bincount((self._floors >> np.uint64(64 - _PREFIX)).astype(np.int64), minlength=1 << _PREFIX)
        at_least = len(self._floors) - np.cumsum(inside)
        decided = (inside == 0) & (at_least < -_UNDECIDED)
        decided[0] = False  # thresholds beyond the table crowd near 0
        magnitude = np.where(decided, at_least, _UNDECIDED).astype(np.int16)
        table = np.repeat(magnitude, 2)
        if self._signed:
            table[1::2] = np.where(decided, -magnitude, _UNDECIDED)
        return table

    def sample(self, size: int, rng: RandomBits) -> np.ndarray:
        out = np.empty(size, dtype=np.int64)
        for start in range(0, size, _BLOCK):
            block = out[start : start + _BLOCK]
            words = np.frombuffer(rng.bytes(2 * len(block)), dtype=np.uint16)
            draws = self._lookup[words]
            block[:] = draws
            undecided = np.flatnonzero(draws == _UNDECIDED)
            if len(undecided):
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
