"""A keyed hash of 128 bits, SipHash-2-4, of many rows of words at once, and canonical words of cells.

SipHash is a pseudorandom function (Aumasson and Bernstein, 2012): without its key nobody tells its values from independent uniform ones.
"""

from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from scipy.sparse import issparse

from skdpsynth.frames._rows import Chunk, n_rows_of, take_rows

_START = tuple(map(np.uint64, (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)))  # as published
_AT_ONCE = 1 << 14  # rows: what is worked on stays in the cache of a core
_MOST_CELLS = 1 << 20


class Digests(dict[Any, int]):
    """Numbers of things, from 0 on in the order in which they are first asked for, and a keyed hash of the bytes of each; -1 has none."""

    def __init__(self, key: bytes, word: Callable[[Any], bytes | None]) -> None:
        super().__init__()
        self._keyed, self._word, self._digests = blake2b(digest_size=16, key=key), word, bytearray()

    def __missing__(self, thing: Any) -> int:
        word = self._word(thing)
        if word is None:
            return -1
        hashed = self._keyed.copy()  # half the time of setting the key anew
        hashed.update(word)
        self._digests += hashed.digest()
        self[thing] = number = len(self)
        return number

    def numbers_of(self, things: Sequence[Any]) -> np.ndarray:
        """Return the numbers of things."""
        return np.fromiter(map(self.__getitem__, things), dtype=np.int64, count=len(things))

    def pairs(self, numbers: np.ndarray) -> np.ndarray:
        """Return hashes by number, as a new array of shape (n, 2) of unsigned integers: bytes that are looked at could not grow."""
        return np.frombuffer(self._digests, dtype="<u8").reshape(-1, 2)[numbers].astype(np.uint64, copy=False)


class RowHash:
    """A keyed hash of 128 bits of rows, as estimators read them: equal rows have equal ones, whatever held them; the key has 32 bytes."""

    def __init__(self, key: bytes) -> None:
        self._key, self._levels = key[:16], Digests(key[16:], _word_of_level)

    def __call__(self, heads: Sequence[np.ndarray], rows: Chunk) -> tuple[np.ndarray, np.ndarray]:
        """Return the hash of each row, after some words that stand before it, as two arrays of unsigned integers."""
        n_rows = n_rows_of(rows)
        high, low = np.empty(n_rows, dtype=np.uint64), np.empty(n_rows, dtype=np.uint64)
        step = _AT_ONCE if isinstance(rows, list) else max(1, min(_AT_ONCE, _MOST_CELLS // max(1, rows.shape[1])))
        for start in range(0, n_rows, step):
            part = slice(start, start + step)
            high[part], low[part] = siphash(self._key, [*(head[part] for head in heads), *self._words(take_rows(rows, part))])
        return high, low

    def _words(self, rows: Chunk) -> Iterable[np.ndarray]:
        columns = rows if isinstance(rows, list) else (rows.toarray() if issparse(rows) else np.asarray(rows)).T
        for column in map(np.asarray, columns):
            if column.dtype == object:  # levels that nobody has listed
                numbers = self._levels.numbers_of(column.tolist())
                yield from np.ascontiguousarray(self._levels.pairs(numbers).T)
            else:
                numbers = column.astype(float) + 0.0  # no minus zero
                numbers[np.isnan(numbers)] = np.nan  # one kind of NaN
                yield numbers.view(np.uint64)


def _word_of_level(level: str | int | None) -> bytes:
    """Return bytes of a level as `level_cells` gives it: of each another."""
    return b"" if level is None else f"{type(level).__name__} {level}".encode()


def siphash(key: bytes, words: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return SipHash-2-4 of 128 bits, as two arrays, of messages of words of 64 bits: the first words of all, the second, and so on."""
    n_rows = len(words[0])
    keys = np.frombuffer(key, dtype="<u8").astype(np.uint64)
    v = [np.full(n_rows, start ^ keys[i % 2]) for i, start in enumerate(_START)]
    free = np.empty(n_rows, dtype=np.uint64)
    v[1] ^= np.uint64(0xEE)
    for word in [*words, np.uint64(8 * len(words) % 256 << 56)]:
        v[3] ^= word
        _rounds(v, free, 2)
        v[0] ^= word
    v[2] ^= np.uint64(0xEE)
    _rounds(v, free, 4)
    first = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= np.uint64(0xDD)
    _rounds(v, free, 4)
    return first, v[0] ^ v[1] ^ v[2] ^ v[3]


def _rounds(v: list[np.ndarray], free: np.ndarray, n_rounds: int) -> None:
    for _ in range(n_rounds):
        for to, by, turned, also in ((0, 1, 13, True), (2, 3, 16, False), (0, 3, 21, False), (2, 1, 17, True)):
            v[to] += v[by]
            _turn(v[by], turned, free)
            v[by] ^= v[to]
            if also:
                _turn(v[to], 32, free)


def _turn(x: np.ndarray, n_bits: int, free: np.ndarray) -> None:
    """Rotate words to the left, in place."""
    np.left_shift(x, np.uint64(n_bits), out=free)
    np.right_shift(x, np.uint64(64 - n_bits), out=x)
    np.bitwise_or(x, free, out=x)
