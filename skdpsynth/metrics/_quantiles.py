"""Exact quantiles, and cuts of columns of numbers into parts of equal shares."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from skdpsynth.frames import Chunk, Rows
from skdpsynth.statistics import Aggregator, total

_DIGIT = 16  # bits that one reading of the rows settles
_CODES = 1 << _DIGIT


@dataclass(frozen=True, eq=False)
class QuantileBins:
    """Turns columns of numbers into numbers of their parts, the last for missing cells; leaves columns of levels as they are."""

    cuts: Mapping[int, np.ndarray]  # by the place of a column; an upper end belongs to its part

    def __call__(self, chunk: Chunk) -> Chunk:
        return [_part(column, self.cuts[place]) if place in self.cuts else column for place, column in enumerate(chunk)]

    def size(self, place: int) -> int:
        """Return the number of codes of a column."""
        return len(self.cuts[place]) + 2


def _part(x: np.ndarray, cuts: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(x), len(cuts) + 1, np.searchsorted(cuts, x, side="left"))


def quantile_bins(rows: Rows, places: Sequence[int], n_parts: int) -> QuantileBins:
    """Cut columns of numbers into at most `n_parts` parts of equal shares of the known cells.

    A column in memory is sorted; rows elsewhere are read four times.
    """
    if rows.source.in_memory:
        return QuantileBins({place: bin_edges(rows.table[place], n_parts) for place in places})
    return QuantileBins({place: _cuts(quantiles) for place, quantiles in _select_quantiles(rows, places, n_parts).items()})


def bin_edges(x: np.ndarray, n_parts: int) -> np.ndarray:
    x = x[~np.isnan(x)]
    return _cuts(np.sort(x)[_ranks(len(x), n_parts)] if len(x) else x)


def _ranks(n: int, n_parts: int) -> np.ndarray:
    """Return which of n sorted values end a part."""
    return (np.arange(1, n_parts) * n + n_parts - 1) // n_parts - 1


def _cuts(quantiles: np.ndarray) -> np.ndarray:
    cuts, times = np.unique(quantiles, return_counts=True)
    # A value that is two quantiles, hence about a part of the rows or more, gets a cut below, too: the number of cuts does not grow.
    return np.sort(np.concatenate([cuts, np.nextafter(cuts[times > 1], -np.inf)]))


def _select_quantiles(rows: Rows, places: Sequence[int], n_parts: int) -> dict[int, np.ndarray]:
    """Return the values that end the parts of each column, digit by digit from the highest on, one at each reading."""
    prefixes = {place: np.zeros(1, dtype=np.uint64) for place in places}
    wanted: dict[int, np.ndarray] = {}
    for shift in range(64 - _DIGIT, -1, -_DIGIT):
        counted = total(rows, CountDigits(prefixes, shift)).counts
        for place, counts in counted.items():
            if place not in wanted:
                n = int(counts.sum())
                wanted[place] = _ranks(n, n_parts) if n else np.zeros(0, dtype=np.int64)
                prefixes[place] = np.zeros(len(wanted[place]), dtype=np.uint64)
            prefixes[place], wanted[place] = _next_digit(counts, prefixes[place], wanted[place])
    return {place: _values(prefix) for place, prefix in prefixes.items()}


def _next_digit(counts: np.ndarray, prefixes: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Append a digit to the prefixes of the wanted values, and return the rank of each among values with its prefix."""
    upto = counts.cumsum(axis=1)[np.unique(prefixes, return_inverse=True)[1]]
    digit = (upto <= wanted[:, None]).sum(axis=1)
    before = np.where(digit > 0, np.take_along_axis(upto, np.maximum(digit - 1, 0)[:, None], axis=1)[:, 0], 0)
    return (prefixes << np.uint64(_DIGIT)) | digit.astype(np.uint64), wanted - before


def _keys(x: np.ndarray) -> np.ndarray:
    """Map floats to whole numbers in the same order: flip the sign bit, and all bits of negative ones."""
    bits = (x + 0.0).view(np.uint64)  # of two zeros one
    return np.where(bits >> np.uint64(63), ~bits, bits | np.uint64(1 << 63))


def _values(keys: np.ndarray) -> np.ndarray:
    return np.where(keys >> np.uint64(63), keys & np.uint64((1 << 63) - 1), ~keys).view(float)


@dataclass(frozen=True, eq=False, repr=False)  # its counts are private: no repr shows them
class Digits:
    """Counts of the next digit after each prefix."""

    counts: dict[int, np.ndarray]  # by the place of a column: (n_prefixes, 65536), for sorted prefixes

    def __add__(self, other: "Digits") -> "Digits":
        return Digits({place: counts + other.counts[place] for place, counts in self.counts.items()})


@dataclass(frozen=True, eq=False)
class CountDigits(Aggregator):
    """Counts the next binary digits of the numbers that begin with given prefixes."""

    prefixes: Mapping[int, np.ndarray]  # by the place of a column, uint64
    shift: int  # number of bits after those digits

    def zero(self) -> Digits:
        sizes = {place: len(np.unique(prefixes)) for place, prefixes in self.prefixes.items()}
        return Digits({place: np.zeros((size, _CODES), dtype=np.int64) for place, size in sizes.items()})

    def add(self, statistic: Digits, chunk: Chunk) -> Digits:
        """Count the rows of a chunk, in place."""
        for place, counts in statistic.counts.items():
            column, known = chunk[place], np.unique(self.prefixes[place])
            if not len(known):
                continue
            keys = _keys(column[~np.isnan(column)]) >> np.uint64(self.shift)
            digit, prefix = (keys & np.uint64(_CODES - 1)).astype(np.int64), keys >> np.uint64(_DIGIT)
            row = np.minimum(np.searchsorted(known, prefix), len(known) - 1)
            follows = known[row] == prefix
            counts += np.bincount(row[follows] * _CODES + digit[follows], minlength=counts.size).reshape(counts.shape)
        return statistic
