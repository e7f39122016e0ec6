"""What gives the rows of a sample of a stream: its blocks by turns, or their model on conditions."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpsynth.fitting import random_state_from
from skdpsynth.frames import concatenate_batches, n_rows_of, rebatch, take_rows
from skdpsynth.synthesis._sampling import iter_batches


@dataclass(frozen=True, eq=False)
class ConditionalRows:
    """Rows on conditions: drawn as those of `Blocks` are.

    Attributes
    ----------
    kept : Points or Columns
    model : fitted synthesizer
        Whose model is conditioned.
    """

    kept: Any
    model: Any

    def sample(self, n_samples: int, first: int, rng: np.random.Generator) -> Any:
        """Return rows; the model was made for a time."""
        return concatenate_batches(self.sample_blocks(n_samples, first, rng))

    def sample_blocks(self, n_samples: int, first: int, rng: np.random.Generator) -> Iterator[Any]:
        """Return an iterator of the same, a part at a time."""
        return map(self.kept.of_columns, self.model._sample_blocks(n_samples, rng))


class BlockShare:
    """The rows that a block of the stream gives to a sample, in about equal parts.

    Parameters
    ----------
    model : fitted synthesizer
    count : int
        In all parts.
    n_parts : int
    rng : numpy.random.Generator
    """

    def __init__(self, model: Any, count: int, n_parts: int, rng: np.random.Generator) -> None:
        self.count, self.n_parts, self.shift = count, n_parts, rng.random()
        size = -(-count // n_parts)
        if hasattr(model, "schema_"):
            self.batches: Any = rebatch(model._sample_blocks(count, rng), size)
        else:
            self.batches = iter_batches(model, count, size, lambda: random_state_from(rng))
        self.left: Any = None

    def rows(self, part: int) -> Any:
        """Return those of a part; parts are asked for one after the other."""
        wanted = self._upto(part + 1) - self._upto(part)
        held = [] if self.left is None else [self.left]
        n_held = sum(map(n_rows_of, held))
        while not held or n_held < wanted:
            held.append(_as_rows(next(self.batches)))
            n_held += n_rows_of(held[-1])
        rows = concatenate_batches(held)
        left = take_rows(rows, slice(wanted, None))
        self.left = [column.copy() for column in left] if isinstance(left, list) else left.copy()
        return take_rows(rows, slice(wanted))

    def _upto(self, part: int) -> int:
        return self.count if part == self.n_parts else int(part * self.count / self.n_parts + self.shift)


def _as_rows(batch: Any) -> Any:
    return batch if isinstance(batch, list) else np.asarray(batch, dtype=float)
