"""Disjoint training and held-out rows, so that using both costs the larger loss, not the sum."""

from hashlib import blake2b
from typing import Any

import numpy as np

from skdpsynth._sklearn import take_rows
from skdpsynth.fitting import Budget
from skdpsynth.frames import Rows


def n_held_out(n_samples: int, holdout: float) -> int:
    """Return the number of held-out rows among a public number of rows: at least one, and not all."""
    return min(max(1, round(holdout * n_samples)), n_samples - 1)


def held_out_mask(rows: Rows, n_samples: int | None, holdout: float, budget: Budget) -> np.ndarray:
    """Return which rows of a table in memory are held out; `n_samples` is None where it is private.

    For neighboring tables, one part is the same and the other is the same or a neighbor:

    - "replace_one": positions are drawn at random, without a look at the rows; the row that is replaced stands at one position, in one
      part.
    - "add_or_remove_one": one more row would shift all later positions. A keyed hash of its own cells sends each row to a part, whatever
      other rows there are, so one more row is one more row in one part. Equal rows stay together.
    """
    rng = budget.rng.child("split")
    if n_samples is not None:
        chosen = np.zeros(n_samples, dtype=bool)
        chosen[rng.generator().permutation(n_samples)[: n_held_out(n_samples, holdout)]] = True
        return chosen
    return _hashes(rows.collected(), rng.bytes(16)) < int(holdout * 2**64)


def _hashes(table: Any, key: bytes) -> np.ndarray:
    """Return a keyed 64-bit hash of each row; equal numbers have equal hashes, whatever their dtype."""
    columns = table if isinstance(table, list) else list(np.asarray(table).T)
    numbers = np.column_stack([np.asarray(column, dtype=float) for column in columns]) + 0.0  # no minus zero
    numbers[np.isnan(numbers)] = np.nan  # one kind of NaN
    hashed = [blake2b(row.tobytes(), digest_size=8, key=key).digest() for row in numbers]
    return np.frombuffer(b"".join(hashed), dtype=np.uint64)


def select_rows(X: Any, chosen: np.ndarray) -> Any:
    return take_rows(X, np.flatnonzero(chosen))
