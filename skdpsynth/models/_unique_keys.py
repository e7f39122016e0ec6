"""Unique keys: drawn by the model, and where one comes again, replaced by the nearest that is free."""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpsynth.domain import AllowedCells, Continuous, Schema

_MARKED = 1 << 24  # keys up to which each is marked when it is taken
_TRIES = 8


class UniqueKeySampler:
    """The keys of a sample, in the order of its blocks: drawing without replacement, on conditions.

    A key is a number whose last digit, in a mixed radix, is the column of most values: so a key that is taken is replaced by one that has
    the same values in all other columns, as long as there are some.
    """

    def __init__(self, names: Sequence[Hashable], schema: Schema, wanted: Mapping[Hashable, AllowedCells]) -> None:
        digits = {name: _Digits.of(schema[name], wanted.get(name)) for name in names}
        self.names = sorted(names, key=lambda name: digits[name].size)
        self.digits = [digits[name] for name in self.names]
        self.sizes = [each.size for each in self.digits]
        self.n_keys = math.prod(self.sizes)
        self.taken = np.zeros(self.n_keys, dtype=bool) if self.n_keys <= _MARKED else None
        self.runs: list[np.ndarray] = []  # sorted, each at least twice as long as the next

    def settle(self, columns: Sequence[np.ndarray], rng: np.random.Generator) -> None:
        """Replace keys that occur again, in place; `columns` are those of `names`."""
        keys = np.zeros(len(columns[0]), dtype=np.int64)
        for column, digits in zip(columns, self.digits, strict=True):
            keys = keys * digits.size + digits.of_values(column.astype(np.int64))
        again = np.flatnonzero(self._seen(keys))
        if len(again):
            self._take(np.delete(keys, again))
            keys[again] = self._free_keys(keys[again], rng)
            self._take(keys[again])
            for column, digits in zip(reversed(columns), reversed(self.digits), strict=True):
                keys, column[:] = keys // digits.size, digits.values(keys % digits.size)
        else:
            self._take(keys)

    def _seen(self, keys: np.ndarray) -> np.ndarray:
        """Return which keys were taken before, or come before in the list."""
        again = np.ones(len(keys), dtype=bool)
        again[np.unique(keys, return_index=True)[1]] = False
        return again | self._is_taken(keys)

    def _is_taken(self, keys: np.ndarray) -> np.ndarray:
        if self.taken is not None:
            return self.taken[keys]
        found = np.zeros(len(keys), dtype=bool)
        for run in self.runs:
            found |= run[np.minimum(np.searchsorted(run, keys), len(run) - 1)] == keys
        return found

    def _take(self, keys: np.ndarray) -> None:
        if self.taken is not None:
            self.taken[keys] = True
        elif len(keys):
            self.runs.append(np.sort(keys))
            while len(self.runs) > 1 and len(self.runs[-2]) < 2 * len(self.runs[-1]):
                self.runs[-2:] = [np.sort(np.concatenate(self.runs[-2:]))]

    def _free_keys(self, keys: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return keys that are free, each once."""
        if self.taken is not None:
            return _nearest_free_keys(keys, np.flatnonzero(~self.taken))
        out, left = keys.copy(), np.arange(len(keys))
        for attempt in range(_TRIES):  # among so many, hardly one is hit twice
            last = self.sizes[-1] if attempt < _TRIES // 2 else self.n_keys
            drawn = out[left] // last * last + rng.integers(last, size=len(left))
            fresh = ~self._seen(drawn) & ~np.isin(drawn, np.delete(out, left))
            out[left[fresh]] = drawn[fresh]
            left = left[~fresh]
            if not len(left):
                return out
        n_taken = sum(map(len, self.runs)) + len(keys)
        start = int(rng.integers(self.n_keys))
        near = (start + np.arange(min(n_taken + len(left), self.n_keys))) % self.n_keys
        near = near[~self._is_taken(near) & ~np.isin(near, np.delete(out, left))]
        out[left] = near[: len(left)]
        return out


@dataclass(frozen=True, eq=False)
class _Digits:
    """The values of a column as digits: all from the lowest on, or some."""

    size: int
    low: int
    some: np.ndarray | None

    @classmethod
    def of(cls, kind: Any, wanted: AllowedCells | None) -> "_Digits":
        is_number = isinstance(kind, Continuous)
        low, high = (int(kind.low), int(kind.high)) if is_number else (0, len(kind.levels) - 1)
        if wanted is not None and (wanted.among is not None or not is_number):
            some = np.unique(wanted.chosen.astype(np.int64))
            some = some[(some >= low) & (some <= high)]
            return cls(len(some), 0, some)
        if wanted is not None:
            low, high = max(low, math.ceil(wanted.low)), min(high, math.floor(wanted.high))
        return cls(high - low + 1, low, None)

    def of_values(self, values: np.ndarray) -> np.ndarray:
        return values - self.low if self.some is None else np.searchsorted(self.some, values)

    def values(self, digits: np.ndarray) -> np.ndarray:
        return digits + self.low if self.some is None else self.some[digits]


def _nearest_free_keys(keys: np.ndarray, free: np.ndarray) -> np.ndarray:
    """Return one of the free keys for each: the next above that no other takes, from the front again beyond the last."""
    order = np.argsort(keys, kind="stable")
    steps = np.arange(len(keys))
    places = np.maximum.accumulate(np.searchsorted(free, keys[order]) - steps) + steps
    beyond = places >= len(free)
    if beyond.any():
        unused = np.setdiff1d(np.arange(len(free)), places[~beyond])
        places[beyond] = unused[: int(beyond.sum())]
    out = np.empty_like(keys)
    out[order] = free[places]
    return out
