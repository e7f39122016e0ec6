"""Model of a history: each row of a parent, in order, given the parent and the row before."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from skdpsynth._parallel import one_blas_thread
from skdpsynth.models._latent_factors import BlockTables, LatentFactors
from skdpsynth.models._link_factors import draw_places
from skdpsynth.models._mixture import Mixture
from skdpsynth.models._quantile_bins import RefinedBins
from skdpsynth.models._training import descend, starts_of
from skdpsynth.persistence import savable

_SEED = 11  # public: of the histories that a fit draws
_ROWS, _LEAST_PARENTS, _MOST_PARENTS = 8192, 256, 4096  # of histories that are drawn at each step, about
_STEPS, _LEAST_STEPS = 300, 60
_TURNS = 6000  # of drawing a row of each history, in all steps: beyond it there are fewer steps
_BLOCK = 1 << 12  # rows whose finer bins are drawn at once
_RATE = 2.0  # times the usual rate of descent
_MOVES = 6.0  # of the mean of effects, in all steps
_RAKINGS = 20
_LEAST_SHARE = 0.01  # of rows that stay as the row before was, and of those that do not


@savable
@dataclass(frozen=True, eq=False, repr=False)
class HistoryFactors:
    """Latent factors of a parent, one of its rows and the next one; and log-linear laws, from which histories are drawn.

    The columns of a row are drawn one after the other. Each has a code with a probability in proportion to the exponential of a sum of
    effects: of the codes of the parent, of those of the row before, and of those of its own row that were drawn before it.

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
    effects : ndarray of shape (n_codes, n_drawn_codes)
        Of each code of the columns of the factors (the last are those of the row itself) on each code of the columns that are drawn.
    """

    factors: LatentFactors
    n_parent: int
    nth: int
    nth_codes: np.ndarray
    effects: np.ndarray

    @classmethod
    def of(
        cls, tables: BlockTables, factors: LatentFactors, n_parent: int, nth: int, nth_codes: np.ndarray, count: int, least: int
    ) -> "HistoryFactors":
        """Fit to noisy counts, as `factors` are; `count` is the column of the parent that says how many rows it has, at least `least`.

        The effects are such that drawn histories have the pairs of columns of the factors, as far as these are of a row that is drawn.
        Conditional laws of the factors do not: they know of pairs, and errors add up from row to row.
        """
        bare = cls(factors, n_parent, nth, nth_codes, np.zeros((0, 0), dtype=np.float32))
        with one_blas_thread():
            return replace(bare, effects=bare._fit_effects(tables, count, least))

    def __repr__(self) -> str:
        return f"HistoryFactors({self.n_parent} and {self._n_own} columns)"

    @property
    def _n_own(self) -> int:
        return (len(self.factors.sizes) - self.n_parent) // 2

    @property
    def _drawn(self) -> dict[int, slice]:
        """The codes of each column of a row that is drawn, as columns of `effects`, in the order of drawing."""
        places = [place for place in range(self._n_own) if place != self.nth]
        ends = np.cumsum(self.factors.sizes[self.n_parent :][places] - 1).tolist()
        return {place: slice(start, end) for place, start, end in zip(places, [0, *ends], ends, strict=False)}

    def parent(self) -> Mixture:
        """Return the law of a parent, over nodes."""
        return Mixture.of_columns(np.split(self.factors.probabilities(), starts_of(self.factors.sizes)[1:])[: self.n_parent])

    def draw_parents(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, None]:
        """Return codes of n parents, shape (n_columns, n)."""
        return self.factors.sample(n, rng)[: self.n_parent], None

    def draw_rows(
        self, parents: np.ndarray, counts: np.ndarray, rng: np.random.Generator, refined: Mapping[int, RefinedBins] | None = None
    ) -> np.ndarray:
        """Return the codes of the rows of parents with such codes and numbers of rows, parent after parent, shape (n_columns, n_rows).

        Columns that are `refined` have the codes of finer bins.
        """
        out, starts = np.empty((self._n_own, int(counts.sum())), dtype=np.int64), np.cumsum(counts) - counts
        for turn, (going, codes, laws) in enumerate(self._draw_turns(self.effects, parents, counts, rng)):
            own, rows = codes[-self._n_own :], starts[going] + turn
            out[:, rows] = own
            for place, finer in (refined or {}).items():
                for start in range(0, len(rows), _BLOCK):
                    block = slice(start, start + _BLOCK)
                    law = finer.probabilities(laws[block, self._drawn[place]].T)
                    bins = np.append(finer.coarse, finer.coarse[-1] + 1)[: len(law), None]  # the last: a missing cell
                    out[place, rows[block]] = draw_places((law * (bins == own[place, block])).T, rng)
        return out

    def _draw_turns(
        self, effects: np.ndarray, parents: np.ndarray, counts: np.ndarray, rng: np.random.Generator
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield, for the first rows, the second ones and so on: whose they are, the codes of all columns, and the laws of those drawn."""
        p, q, starts, going = self.n_parent, self._n_own, starts_of(self.factors.sizes), np.flatnonzero(counts > 0)
        own, known = starts[p + q :], [*range(p + q), p + q + self.nth]
        none = np.repeat(self.factors.sizes[p:, None] - 1, len(going), axis=1)
        codes = np.vstack([parents[:, going], none])
        for turn in range(int(counts.max(initial=0))):
            codes[p + q + self.nth] = self.nth_codes[min(turn, len(self.nth_codes) - 1)]
            laws = _indicators(codes[known] + starts[known, None], len(effects)) @ effects
            for place, of_column in self._drawn.items():
                law = laws[:, of_column]
                law -= law.max(axis=1, keepdims=True)
                np.exp(law, out=law)
                law /= law.sum(axis=1, keepdims=True)
                codes[p + q + place] = draw_places(law, rng)
                laws[:, of_column.stop :] += effects[own[place] + codes[p + q + place], of_column.stop :]
            yield going, codes, laws
            goes_on = counts[going] > turn + 1
            going, codes = going[goes_on], np.vstack([codes[:p], codes[p + q :], codes[p + q :]])[:, goes_on]

    def _fit_effects(self, tables: BlockTables, count: int, least: int) -> np.ndarray:
        """Change effects until histories that are drawn at each step have the tables that are wanted, in the mean over parents.

        A row is the next one of one pair, the first of another, and in both its effects are the same. Codes of a parent and of the row
        before may be more or less frequent than wanted, as parents are drawn and tables noisy: what follows them has the wanted law still.
        """
        rng, (wanted, is_free) = np.random.default_rng(_SEED), self._wanted(tables)
        effects, mean = np.zeros_like(wanted), np.zeros_like(wanted)
        numbers = np.maximum(np.arange(self.factors.sizes[count]), least)
        of_count = self.factors.probabilities().mean(axis=1)[starts_of(self.factors.sizes)[count] :][: len(numbers)]
        n = int(np.clip(_ROWS / max(float(of_count @ numbers), 1e-9), _LEAST_PARENTS, _MOST_PARENTS))
        parents, _ = self.draw_parents(n, rng)
        counts, starts, parts = numbers[parents[count]], starts_of(self.factors.sizes), [self.n_parent, self._n_own, self._n_own]
        n_steps = int(np.clip(_TURNS / max(int(counts.max()), 1), _LEAST_STEPS, _STEPS))
        given, goal = slice(starts[self.n_parent + self._n_own]), wanted.copy()

        def slopes() -> tuple[list[np.ndarray], float]:
            found = np.zeros_like(effects)
            mean[...] += _MOVES / n_steps * (effects - mean)  # the noise of what is drawn averages out
            for turn, (going, codes, laws) in enumerate(self._draw_turns(effects, parents, counts, rng)):
                n_pairs = np.maximum(counts[going] - 1, 1)
                as_next, as_first = (turn > 0) / n_pairs, ((turn < counts[going] - 1) | (counts[going] == 1)) / n_pairs
                weights = np.repeat([as_next + as_first, as_next, as_next + as_first], parts, axis=0)
                found += _indicators(codes + starts[:, None], len(effects), weights).T @ laws
            found /= np.float32(n)
            for column in self._drawn.values():
                law = wanted[given, column] / np.maximum(wanted[given, column].sum(axis=1, keepdims=True), 1e-9)
                goal[given, column] = law * found[given, column].sum(axis=1, keepdims=True)
            return [(found - goal) * is_free], 0.0

        descend([effects], [_RATE], slopes, n_steps, -np.inf)
        return mean

    def _wanted(self, tables: BlockTables) -> tuple[np.ndarray, np.ndarray]:
        """Return tables of each column with those drawn, of a row and of the next one together, and which effects there are."""
        p, q, sizes, starts = self.n_parent, self._n_own, self.factors.sizes, starts_of(self.factors.sizes)
        P = self.factors.probabilities()
        joint = P @ P.T / P.shape[1]
        for i, j in ((p + place, p + q + place) for place in range(q)):
            if (i, j) in tables.two_way:
                a, b = (slice(starts[k], starts[k] + sizes[k]) for k in (i, j))
                joint[a, b] = _rake_stays(joint[a, b], tables.two_way[i, j][0, :-1, :-1].trace() / float(np.sum(tables.totals)))
        before, own = starts[p], starts[p + q]
        drawn = np.concatenate([np.arange(starts[p + q + place], starts[p + q + place] + sizes[p + place] - 1) for place in self._drawn])
        wanted = joint[:, drawn]
        wanted[:before] += joint[:before, drawn - (own - before)]
        wanted[own:] += joint[before:own, drawn - (own - before)]
        is_free = np.ones(wanted.shape, dtype=bool)
        is_free[starts[p:] + sizes[p:] - 1] = False
        for place, of_column in self._drawn.items():
            is_free[starts[p + q + place] : starts[p + q + place] + sizes[p + place], : of_column.stop] = False
        return wanted.astype(np.float32), is_free


def _indicators(places: np.ndarray, n_places: int, values: np.ndarray | None = None) -> Any:
    """Return a sparse matrix with a row for each column of `places`, which has the values (1 if None) there."""
    per_row, n = places.shape
    data = np.ones(places.size, dtype=np.float32) if values is None else values.T.ravel().astype(np.float32)
    return csr_array((data, places.T.ravel(), np.arange(n + 1) * per_row), shape=(n, n_places))


def _rake_stays(table: np.ndarray, share: float) -> np.ndarray:
    """Return a table of one column in a row and in the next one in which codes stay as often as in a share, with the margins as they are.

    Factors are few, so they miss that a code stays, each by itself. All codes together tell of it with little noise.
    """
    out, rows, columns = table.copy(), table.sum(axis=1, keepdims=True), table.sum(axis=0)
    both = out[:-1, :-1]  # the last code says that there is no row
    stays = np.eye(len(both), dtype=bool)
    whole = both.sum()
    wanted = float(np.clip(share, _LEAST_SHARE * whole, (1 - _LEAST_SHARE) * whole))
    for _ in range(_RAKINGS if len(both) > 1 else 0):
        both *= np.where(stays, wanted / both[stays].sum(), (whole - wanted) / both[~stays].sum())
        out *= rows / np.maximum(out.sum(axis=1, keepdims=True), 1e-300)
        out *= columns / np.maximum(out.sum(axis=0), 1e-300)
    return out
