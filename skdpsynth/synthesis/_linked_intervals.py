"""Intervals of linked tables: their mechanism is run again on roots that the model draws."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from skdpsynth._progress import track_steps
from skdpsynth._sensitivity import Query
from skdpsynth.fitting import Budget
from skdpsynth.privacy import Mechanism, RandomBits, SeededBits


class ReplayBudget(Budget):
    """Covers answers about synthetic rows with the noise of a fit, and charges nobody.

    This is post-processing, by the proof of `ParametricBootstrap`: rows and noise are drawn independently of the data, given the model.
    """

    def __init__(self, bits: RandomBits, relation: str) -> None:
        self.rng, self.warnings, self.relation = bits, [], relation

    def answer(self, query: Query, chosen: Mechanism, name: str) -> np.ndarray:
        return query.values + chosen.noise.sample(query.values.shape, self.rng)


class LinkedWorld:
    """A fitted model of linked tables in place of the population, and re-fits to `n_roots` of the `n_pool` roots that it draws."""

    def __init__(self, model: Any, n_roots: int, n_pool: int, n_samples: int, rng: np.random.Generator) -> None:
        self.model, self.form, self.n_roots, self.n_samples, self.rng = model, model._container, n_roots, n_samples, rng
        with np.errstate(all="ignore"):
            self.pool = model._draw(n_pool, rng)
            self.others = self.pool if n_samples == n_pool else model._draw(n_samples, rng)

    def population(self) -> dict[str, Any]:
        """Return the pool, if it has the size of all tables: its randomness is then in both sides of the bias, and cancels."""
        return self.form.write(*self.others)

    def independent(self) -> dict[str, Any]:
        tables, owners = self.others
        return self.form.write({name: [self.rng.permutation(each) for each in columns] for name, columns in tables.items()}, owners)

    def tables(self, number: int) -> Iterator[dict[str, Any]]:
        forest = self.form.forest_of(*self.pool)
        budget = ReplayBudget(SeededBits(int.from_bytes(self.rng.bytes(32))), self.model.neighboring)  # bits need not be secure
        for _ in track_steps("fit again", range(number)):
            with np.errstate(all="ignore"):
                again = self.model._fit_again(forest[self.rng.integers(len(forest), size=self.n_roots)], budget)
                drawn = again._draw(self.n_samples, self.rng)
            yield self.form.write(*drawn)
