"""Counts of a public table as a prior of noisy tables, which are pulled towards it."""

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import numpy as np

from skdpsynth.models._noisy_tables import Block, NoisyTables, Pool, center_table, james_stein_factor
from skdpsynth.models._quantile_bins import LevelGroups, Link
from skdpsynth.persistence import savable

_LEAST = 3  # free numbers: with fewer, shrinkage to a far point loses
_OCTAVES = 7  # of expected rows, into which cells are sorted
_DOUBT = 2  # deviations of noise by which a prior may be farther than none
_FEW = 30  # cells that get no k of their own

_Links = Mapping[Hashable, Link | LevelGroups]
_Counts = np.ndarray | Mapping[int, np.ndarray]  # of the levels of a column; of cells by the level of a tree, the coarsest first


@savable
@dataclass(frozen=True, eq=False)
class PublicPrior:
    """Counts of a public table in the codes of noisy ones.

    Parts of tables (`Estimates`) are pulled towards those of the public table, scaled to as many rows, by the rule of James and Stein: with
    y the noisy numbers, p those of the prior, d how many are free and v the variance of noise, ``p + k (y - p)`` with ``k = max(0, 1 - (d -
    2) v / |y - p|**2)``. Its expected squared error is never more than that of y, whatever p and the truth are, where d is at least 3; and
    about 2 of d where p is the truth. Errors of the prior, also because its rows are a sample, are part of its distance. All effects of
    columns have one k. Interactions of pairs have one for all cells in which about as many rows are expected, as the errors of a prior are
    larger in heavy cells.

    *Proof.* With ``y = t + noise``, g = (y - p) / |y - p|**2 and a positive, Stein's identity gives for ``y - a g`` the error of y plus
    ``E(a**2 - 2 a s) / |y - p|**2``, where s is the trace of the covariance less twice its share along y - p. Numbers of centered tables
    have the covariance v times a projection, and some of them a part of that: so with d its trace, s is at least (d - 2) v, and a = (d - 2)
    v takes away at least ``a**2 E 1 / |y - p|**2``. To stop at p, and not to go beyond it, can only gain; so does centering, as the truth
    is centered. Where variances differ and v is their mean, it holds while none is above (d + 2) / 4 of that. Noise here is nearly normal,
    and p, and which cells go together, follow from classes and columns, whose noise is independent of that of pairs.

    A model does better than noisy tables by itself, as it looks for few factors. So a prior is left alone if its columns are farther from
    the noisy ones than columns of equally frequent codes are, and its pairs if they are farther than independent columns are: by more than
    two deviations of the difference by noise alone, as a user who gives a prior says that it is alike.

    See James and Stein (1961), "Estimation with quadratic loss", and Baranchik (1964) for the positive part.
    """

    one_way: Mapping[Block, np.ndarray]  # by the columns of each, shape (n_classes, ...)
    two_way: Mapping[Block, np.ndarray]
    cells: Mapping[Hashable, _Counts]  # of columns with links

    def pull(self, one_way: NoisyTables, two_way: NoisyTables, totals: np.ndarray) -> tuple[NoisyTables, NoisyTables]:
        """Return tables of `Estimates` that are nearer to the prior, with the variance that is left."""
        told = {place: center_table(_scale_to_totals(self.one_way[place], totals)) for place in one_way.tables}
        pulled = _pull_parts(one_way, told, {place: np.zeros_like(part) for place, part in told.items()})
        if pulled is None:
            return one_way, two_way
        moves, variance = pulled
        own = NoisyTables({place: table + moves[place] for place, table in one_way.tables.items()}, variance)
        told = {place: center_table(_scale_to_totals(self.two_way[place], totals)) for place in two_way.tables}
        held = {place: np.maximum(table, 0.0) for place, table in own.tables.items()}
        rows = {place: np.maximum(table.sum(axis=1), 1.0)[:, None, None] for place, table in held.items()}
        alone: dict[Block, np.ndarray] = {(i, j): held[i,][:, :, None] * held[j,][:, None, :] / rows[i,] for i, j in two_way.tables}
        pulled = _pull_parts(two_way, told, {place: center_table(table) for place, table in alone.items()}, alone)
        further, variance = pulled or (dict.fromkeys(two_way.tables, np.zeros(())), two_way.variance)
        tables: dict[Block, np.ndarray] = {}
        for (i, j), table in two_way.tables.items():
            tables[i, j] = table + (moves[i,][:, :, None] / table.shape[2] + moves[j,][:, None, :] / table.shape[1]) + further[i, j]
        return own, NoisyTables(tables, variance)

    def reweigh(self, codes: _Links, pools: Mapping[Hashable, Pool], rows: Mapping[Hashable, float]) -> _Links:
        """Return the same codes, with the mass of counts that are nearer to the prior; `rows` are not missing in each column."""
        out: dict[Hashable, Link | LevelGroups] = {}
        for name, link in codes.items():
            pool, known = pools[name], self.cells[name]  # in one order
            if isinstance(link, LevelGroups):
                n_levels = len(link.order)
                levels = np.asarray(known)[:n_levels]
                counts, variance = _pull_counts(pool.counts[:n_levels], pool.variance, levels, levels.sum(), rows[name])
                out[name] = link.reweigh(counts, math.sqrt(variance))
            else:
                assert isinstance(known, Mapping)
                tree = list(known.values())
                counts, variance = _pull_counts(pool.counts, pool.variance, np.concatenate(tree), tree[0].sum(), rows[name])
                new = dict(zip(known, np.split(counts, np.cumsum(list(map(len, tree)))[:-1]), strict=True))
                out[name] = link.reweigh([new.get(j) for j in range(1, max(new) + 1)], variance)
        return out


_Parts = Mapping[Block, np.ndarray]


def _pull_parts(
    released: NoisyTables, told: _Parts, unknown: _Parts, rows: _Parts | None = None
) -> tuple[dict[Block, np.ndarray], float] | None:
    """Return how much to add to the parts of tables, and the variance that is left of a number; None if the prior is too far from them.

    `told` are the parts of the prior, and `unknown` those expected without it. `rows` are those expected in each cell; None: all numbers
    have one k. The difference of the squared distances of both is linear in the noise, and so its deviation is known.
    """
    noisy = {place: center_table(table) for place, table in released.tables.items()}
    blocks = {place: np.zeros(part.shape, dtype=int) for place, part in noisy.items()}  # numbers that share one k
    if rows is not None and released.variance:
        # By the octave of the expected rows in deviations of noise: each has up to four times as many as the last.
        for place in noisy:
            octaves = np.floor(np.log2(np.maximum(rows[place] / released.deviation, 1e-9)) / 2) + 2
            blocks[place] = np.clip(octaves, 0, _OCTAVES - 1).astype(int)
        sizes = np.bincount(np.concatenate([np.zeros(0, dtype=int), *(block.ravel() for block in blocks.values())]), minlength=1)
        # Octaves of few cells are one with the next lower one that has enough, or with the lowest.
        starts = [octave for octave, size in enumerate(sizes) if octave == 0 or size >= _FEW]
        joined = np.searchsorted(starts, np.arange(len(sizes)), side="right") - 1
        blocks = {place: joined[block] for place, block in blocks.items()}
    squares, free, further, apart = np.zeros(_OCTAVES), np.zeros(_OCTAVES), np.zeros(_OCTAVES), 0.0
    for place, part in noisy.items():
        labels = blocks[place].ravel()
        squares += np.bincount(labels, ((part - told[place]) ** 2).ravel(), _OCTAVES)
        further += np.bincount(labels, ((part - unknown[place]) ** 2).ravel(), _OCTAVES)
        free += np.bincount(labels, minlength=_OCTAVES) * math.prod(1 - 1 / size for size in part.shape[1:])
        apart += float(np.sum((told[place] - unknown[place]) ** 2))
    if sum(squares) - sum(further) > _DOUBT * 2 * math.sqrt(released.variance) * math.sqrt(apart):
        return None
    shares = np.array([_shrinkage_factor(*each, released.variance) for each in zip(squares, free, strict=True)])
    moves = {place: center_table((1 - shares[blocks[place]]) * (told[place] - part)) for place, part in noisy.items()}
    # Even if all are drawn to p, the error is that of 2 numbers of d.
    left = max(float(shares @ free), min(2.0, free.sum())) / max(free.sum(), 1.0)
    return moves, left * released.variance


def _shrinkage_factor(square: float, n_free: float, variance: float) -> float:
    return float(james_stein_factor(square, n_free, variance)) if n_free >= _LEAST and variance else 1.0


def _scale_to_totals(table: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Return a table of the prior for `totals` rows of each class; a class without rows has the frequencies of all."""
    table = table.astype(float)
    rows = table.reshape(len(table), -1).sum(axis=1)
    table[rows == 0] = table.sum(axis=0)
    rows[rows == 0] = rows.sum()
    return table * (totals / rows).reshape(-1, *[1] * (table.ndim - 1))


def _pull_counts(counts: np.ndarray, variance: float, told: np.ndarray, n_told: float, n_rows: float) -> tuple[np.ndarray, float]:
    """Return counts that are nearer to those of a prior, of `n_told` rows, and the variance that is left."""
    if not n_told:
        return counts, variance
    expected = told * (max(n_rows, 1.0) / n_told)
    share = _shrinkage_factor(float(np.sum((counts - expected) ** 2)), len(counts), variance)
    return expected + share * (counts - expected), share * variance
