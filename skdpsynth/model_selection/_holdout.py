"""Rows in two disjoint parts, so that what is learned from one and what is asked of the other cost the larger, not the sum."""

from hashlib import blake2b
from typing import Any

import numpy as np

from skdpsynth._sklearn import take_rows
from skdpsynth.fitting import Budget
from skdpsynth.frames import Rows


def n_held_out(n_samples: int, holdout: float) -> int:
    """Return how many of a public number of rows are held out: at least one, and not all."""
    return min(max(1, round(holdout * n_samples)), n_samples - 1)


def held_out_mask(rows: Rows, n_samples: int | None, holdout: float, budget: Budget) -> np.ndarray:
    """Return which rows are held out, as an array of bool.

    Each part of neighboring tables is the same, or a neighbor, and only one of them differs:

    - "replace_one": by position. So many positions are drawn at random, without a look at the rows; the row that is replaced stands at one
      position, in one part.
    - "add_or_remove_one": positions would not do, because one row more shifts all that follow. A row goes where a keyed hash of its own
      cells sends it, whatever other rows there are: one row more is one row more in one part. Equal rows go together.

    Parameters
    ----------
    rows : Rows
        In memory.
    n_samples : int or None
        Their number, where it is public.
    holdout : float
        The share that is held out.
    budget : Budget
        For its random bits.
    """
    rng = budget.rng.child("split")
    if n_samples is not None:
        chosen = np.zeros(n_samples, dtype=bool)
        chosen[rng.generator().permutation(n_samples)[: n_held_out(n_samples, holdout)]] = True
        return chosen
    return _hashes(rows.collected(), rng.bytes(16)) < int(holdout * 2**64)


def _hashes(table: Any, key: bytes) -> np.ndarray:
    """Return a keyed hash of 64 bits of each row: equal numbers have equal ones, whatever their dtype."""
    columns = table if isinstance(table, list) else list(np.asarray(table).T)
    numbers = np.column_stack([np.asarray(column, dtype=float) for column in columns]) + 0.0  # no minus zero
    numbers[np.isnan(numbers)] = np.nan  # one kind of NaN
    hashed = [blake2b(row.tobytes(), digest_size=8, key=key).digest() for row in numbers]
    return np.frombuffer(b"".join(hashed), dtype=np.uint64)


def select_rows(X: Any, chosen: np.ndarray) -> Any:
    """Return some rows of a table in memory, as the same kind of table."""
    return take_rows(X, np.flatnonzero(chosen))
