"""Rows of a law that meet a condition on several of its columns together, which no code tells: others are drawn again."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from skdpsynth.frames import concatenate_batches
from skdpsynth.models._joint_distribution import JointDistribution

_LEAST, _MOST = 1 << 10, 1 << 16  # rows drawn at a time
_TRIES = 1 << 10  # rows drawn for each that is wanted, at most, beyond the first ones
_FIRST = 1 << 20


@dataclass(frozen=True, eq=False)
class RejectionSampler:
    """A law on a condition.

    Attributes
    ----------
    law : RowLaw
    meets : callable
        ``meets(columns)`` says which rows meet it.
    """

    law: JointDistribution
    meets: Callable[[list[np.ndarray]], np.ndarray]

    def sample(self, n_samples: int, rng: np.random.Generator, n_jobs: int | None = None) -> list[np.ndarray]:
        """Return values of columns, as `skdpsynth.domain.read` gives them; `n_jobs` is ignored."""
        return concatenate_batches(self.sample_blocks(n_samples, rng))

    def sample_blocks(self, n_samples: int, rng: np.random.Generator) -> Iterator[list[np.ndarray]]:
        """Yield the same, a block of rows at a time."""
        n_left, n_drawn, size = n_samples, 0, min(max(_LEAST, n_samples), _MOST)
        while n_left:
            if n_drawn > _FIRST + _TRIES * n_samples:
                raise ValueError(
                    f"conditions on columns that a rule orders or adds up must be met by at least one row in {_TRIES} of the model, got "
                    f"{n_samples - n_left} of {n_drawn} drawn; widen the range, or set one on the smaller column too."
                )
            for block in self.law.sample_blocks(size, rng):
                met = np.flatnonzero(self.meets(block))[:n_left]
                n_left -= len(met)
                if len(met):
                    yield [column[met] for column in block]
            n_drawn, size = n_drawn + size, _MOST
