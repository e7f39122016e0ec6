"""Missing cells of keys, filled so that no two rows have the same key."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from skdpsynth.domain import Continuous, Schema

_MOST = 1 << 20  # keys that are listed to find one that is free
_TRIES = 32


def fill_keys(
    names: Sequence[Hashable], schema: Schema, values: Mapping[Any, np.ndarray], to_fill: Mapping[Any, np.ndarray], rng: np.random.Generator
) -> None:
    """Change cells of a key that are to be filled, in place, where the key comes twice; as long as there are keys that agree.

    Keys that are given are taken first. A key that none has yet keeps the cells that the model drew.

    Parameters
    ----------
    names : sequence of columns
    schema : Schema
        As mechanisms see the columns.
    values : dict of column to ndarray of shape (n_rows,)
    to_fill : dict of column to ndarray of bool
    rng : numpy.random.Generator
    """
    ends = [_value_range(schema[name]) for name in names]
    keys = np.column_stack([values[name].astype(np.int64) for name in names])
    free = np.column_stack([to_fill[name] for name in names])
    open_rows = np.flatnonzero(free.any(axis=1))
    taken = set(map(tuple, np.delete(keys, open_rows, axis=0).tolist()))
    listed: dict[tuple, list[tuple]] = {}
    room = np.where(free[open_rows], np.log([high - low + 1.0 for low, high in ends]), 0.0).sum(axis=1)
    for row in open_rows[np.argsort(room, kind="stable")]:  # those with the least room first
        key = tuple(keys[row].tolist())
        if key in taken:
            key = _draw_free_key(key, free[row], ends, taken, rng) or _pop_free_key(key, free[row], ends, taken, listed, rng) or key
            keys[row] = key
        taken.add(key)
    for place, name in enumerate(names):
        rows = np.flatnonzero(free[:, place])
        values[name][rows] = keys[rows, place]


def _value_range(kind: Any) -> tuple[int, int]:
    """Return the first and the last value of a column."""
    return (int(kind.low), int(kind.high)) if isinstance(kind, Continuous) else (0, len(kind.levels) - 1)


def _draw_free_key(key: tuple, free: np.ndarray, ends: Sequence[tuple[int, int]], taken: set, rng: np.random.Generator) -> tuple | None:
    """Return a key that is free by some tries; where keys are so many that listing them takes long, hardly one is in vain."""
    for _ in range(_TRIES):
        drawn = tuple(
            int(rng.integers(low, high + 1)) if is_free else own for own, is_free, (low, high) in zip(key, free, ends, strict=True)
        )
        if drawn not in taken:
            return drawn
    return None


def _pop_free_key(
    key: tuple, free: np.ndarray, ends: Sequence[tuple[int, int]], taken: set, listed: dict[tuple, list[tuple]], rng: np.random.Generator
) -> tuple | None:
    """Return a key that is free from the list of all that agree with the given cells of this one; None if there is none left."""
    sides = [np.arange(low, high + 1) if is_free else np.array([own]) for own, is_free, (low, high) in zip(key, free, ends, strict=True)]
    if np.prod([float(len(side)) for side in sides]) > _MOST:
        return None
    which = tuple(None if is_free else own for own, is_free in zip(key, free, strict=True))
    if which not in listed:
        grid = np.stack(np.meshgrid(*sides, indexing="ij"), axis=-1).reshape(-1, len(sides))
        listed[which] = list(map(tuple, rng.permutation(grid).tolist()))
    while listed[which]:
        if (found := listed[which].pop()) not in taken:
            return found
    return None
