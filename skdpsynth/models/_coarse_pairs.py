"""Noisy tables of all pairs of very many columns, whose ordered codes are merged into two groups."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import chdtri

from skdpsynth.models._noisy_tables import NoisyInteractions, NoisyTables, iter_pairs
from skdpsynth.models._training import starts_of
from skdpsynth.persistence import savable

_CHANCE = 1 / 2000


@savable
@dataclass(frozen=True, eq=False)
class CoarsePairs:
    """Noisy interactions of all pairs of columns, whose codes are merged into groups."""

    groups: tuple[np.ndarray, ...]  # of each column, the group of each code
    interactions: np.ndarray  # shape (n_groups, n_groups), float32: doubly centered frequencies of pairs, 0 within a column
    deviation: float  # of the noise of a number before it was centered; 0 without noise
    n_rows: float

    @classmethod
    def of(cls, released: NoisyTables | NoisyInteractions, groups: Sequence[np.ndarray], n: float) -> "CoarsePairs":
        """Take the interactions from tables of pairs of about n rows, or from their interactions."""
        sizes = np.array([int(group.max()) + 1 for group in groups])
        starts, variances = starts_of(sizes), [0.0]
        slices = [slice(start, start + size) for start, size in zip(starts.tolist(), sizes.tolist(), strict=True)]
        whole = np.zeros((int(sizes.sum()),) * 2)
        for (i, j), table, variance in iter_pairs(released):
            whole[slices[i], slices[j]] = table[0]
            variances.append(variance)
        whole += whole.T
        for _ in range(2):
            whole -= np.repeat(np.add.reduceat(whole, starts, axis=0) / sizes[:, None], sizes, axis=0)
            whole = whole.T
        interactions = (whole / n).astype(np.float32)
        return cls(tuple(groups), interactions, float(np.mean(variances[1:] or variances) ** 0.5 / n), float(n))

    @property
    def sizes(self) -> np.ndarray:
        """Number of groups of each column."""
        return np.array([int(group.max()) + 1 for group in self.groups])

    @property
    def column_of(self) -> np.ndarray:
        """The column of each group."""
        return np.repeat(np.arange(len(self.groups)), self.sizes)

    def only(self, columns: Sequence[int]) -> "CoarsePairs":
        """Return the interactions of some columns, in this order."""
        kept = self.codes_of(columns)
        return replace(self, groups=tuple(self.groups[column] for column in columns), interactions=self.interactions[np.ix_(kept, kept)])

    def codes_of(self, columns: Sequence[int]) -> np.ndarray:
        """Return the indices of the groups of some columns, one column after the other."""
        starts, sizes = starts_of(self.sizes), self.sizes
        return np.concatenate([starts[column] + np.arange(sizes[column]) for column in columns])

    def grouping_matrix(self, columns: Sequence[int]) -> Any:
        """Return a sparse matrix of shape (n_groups, n_codes).

        From probabilities of the codes of `columns`, one after the other, it makes those of the groups of all columns, in their own order,
        less their mean over each column: so ``Q @ Q.T`` are interactions where ``P @ P.T`` are frequencies of pairs.
        """
        from scipy.sparse import csr_array

        starts, codes, rows, values, before = starts_of(self.sizes), [], [], [], 0
        for column in columns:
            group = self.groups[column]
            n_groups = int(group.max()) + 1
            share = (group[None] == np.arange(n_groups)[:, None]) - 1 / n_groups
            rows.append(np.repeat(starts[column] + np.arange(n_groups), len(group)))
            codes.append(np.tile(before + np.arange(len(group)), n_groups))
            values.append(share.ravel())
            before += len(group)
        table = (np.concatenate(values).astype(np.float32), (np.concatenate(rows), np.concatenate(codes)))
        return csr_array(table, shape=(len(self.interactions), before))

    def dependence(self, expected: np.ndarray) -> np.ndarray:
        """Return how far the table of each pair is from the expected interactions, shape (n_columns, n_columns).

        The sum over a table, in variances of the noise, is chi squared with f degrees of freedom where there is nothing but noise: f in the
        mean, and more than q in one table of 2,000. Returned is its excess over f, in multiples of q - f, so that tables of all sizes pass
        1 by chance equally often. Without noise, squared rows take the place of variances.
        """
        square = (self.interactions - expected).astype(float) ** 2 / (self.deviation or 1 / self.n_rows) ** 2
        starts, each = starts_of(self.sizes), np.maximum(self.sizes - 1, 1)
        sums, free = np.add.reduceat(np.add.reduceat(square, starts, axis=0), starts, axis=1), np.outer(each, each)
        excess = (sums - free) / (chdtri(free, _CHANCE) - free)
        np.fill_diagonal(excess, 0)
        return excess
