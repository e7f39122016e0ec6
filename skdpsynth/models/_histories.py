"""Model of a history: each row of a parent, in order, given the parent and the row before."""

from dataclasses import dataclass

import numpy as np

from skdpsynth.models._latent_factors import LatentFactors
from skdpsynth.models._link_factors import draw_nodes_given, draw_places
from skdpsynth.models._training import starts_of
from skdpsynth.persistence import savable


@savable
@dataclass(frozen=True, eq=False, repr=False)
class HistoryFactors:
    """Latent factors of a parent, one of its rows and the next one, from which histories are drawn by exact conditional laws.

    Attributes
    ----------
    factors : LatentFactors
        Of the columns of the parent, those of a row, and those of the row after it. A row has one more code in each column, the last one:
        there is no such row.
    n_parent : int
        Number of columns of the parent.
    nth : int
        Which column of a row says how many rows stand before it, by `nth_codes`.
    nth_codes : ndarray of shape (n_places,)
        The code of each place in a history, from the first on; the last one is that of all later places, too.
    """

    factors: LatentFactors
    n_parent: int
    nth: int
    nth_codes: np.ndarray

    def __repr__(self) -> str:
        return f"HistoryFactors({self.n_parent} and {self._n_own} columns)"

    @property
    def _n_own(self) -> int:
        return (len(self.factors.sizes) - self.n_parent) // 2

    def draw_parents(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, None]:
        """Return codes of n parents, shape (n_columns, n)."""
        return self.factors.sample(n, rng)[: self.n_parent], None

    def draw_rows(self, parents: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return the codes of the rows of parents with such codes and numbers of rows, parent after parent, shape (n_columns, n_rows)."""
        p, q, laws = self.n_parent, self._n_own, self._laws()
        logs = [np.log(np.maximum(law, np.finfo(np.float32).tiny)) for law in laws]
        out = np.empty((q, int(counts.sum())), dtype=np.int64)
        starts, before = np.cumsum(counts) - counts, np.empty((q, 0), dtype=np.int64)
        going = np.flatnonzero(counts > 0)
        for turn in range(int(counts.max(initial=0))):
            first = p + q * (turn > 0)
            nth = np.full(len(going), self.nth_codes[min(turn, len(self.nth_codes) - 1)])
            known = {place: parents[place, going] for place in range(p)} | {
                p + place: codes for place, codes in enumerate(before if turn else ())
            }
            drawn = draw_nodes_given(logs, {**known, first + self.nth: nth}, len(going), rng)
            row = np.array([nth if place == self.nth else draw_places(laws[first + place][:, drawn].T, rng) for place in range(q)])
            out[:, starts[going] + turn] = row
            goes_on = counts[going] > turn + 1
            going, before = going[goes_on], row[:, goes_on]
        return out

    def _laws(self) -> list[np.ndarray]:
        """Return P(code | node) of each column; of rows, without the code for none."""
        laws = np.split(self.factors.probabilities().astype(np.float32), starts_of(self.factors.sizes)[1:])
        return [law if place < self.n_parent else law[:-1] for place, law in enumerate(laws)]
