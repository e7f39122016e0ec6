"""The Gram matrix of coded rows: all columns and pairs in one symmetric matrix of whole numbers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, pairwise

import numpy as np

from skdpsynth._parallel import cached_property
from skdpsynth._sensitivity import Query, Sensitivity, statistic_facts
from skdpsynth.statistics._marginals import Marginals

_BITS = 10  # of the length of a code: rounding makes the longest one longer by less than a thousandth
_MOST = 1 << 62  # of a whole number, so that noise has room beside it
_UNKNOWN_ROWS = 1 << 31  # of a table whose number of rows is private


@dataclass(frozen=True)
class CodedGram:
    """The sum of ``v v'`` over rows, in each class, where v are the codes of a row in whole numbers.

    A column of L levels has L codes in L - 1 dimensions, about the corners of a regular simplex: the columns of a matrix V. With a
    coordinate c that all rows share, a row of levels x is ``v = (c, V_1[:, x_1], ..., V_m[:, x_m])``. So the matrix is made of exact
    tables: block (i, j) is ``V_i T_ij V_j'`` of the table of two columns, block (j, j) is ``V_j diag(t_j) V_j'``, the border is
    ``c V_j t_j``, and the corner ``c**2 n``. As ones and the rows of V span all functions of a level, they tell the tables in turn.

    Matrix noise covers what one row adds, a matrix of rank one, and its deviation grows with the root of the number of rows of the matrix:
    so codes have no coordinate more than they need, and all of a budget serves columns and pairs alike.
    """

    sizes: tuple[int, ...]  # number of levels of each column
    scales: tuple[int, ...]  # length of the codes of each
    coordinate: int  # c
    n_classes: int = 1

    @classmethod
    def over(
        cls,
        sizes: Sequence[int],
        weights: Sequence[float],
        border: float,
        n_classes: int = 1,
        n_samples: int | None = None,
        bits: int = _BITS,
    ) -> "CodedGram | None":
        """Round codes of these lengths, in units of ``2**bits``, by public numbers; None where the sums would not fit into 64 bits.

        No entry is above the number of rows times the longest squared length. Where that number is private there is room for 2**31 rows;
        more would make numbers begin again, modulo 2**64, which is no loss of privacy.
        """
        scales = tuple(max(1, round(weight * (1 << bits))) for weight in weights)
        made = cls(tuple(map(int, sizes)), scales, max(1, round(border * (1 << bits))), n_classes)
        n_rows = max(n_samples, 1) if n_samples is not None else _UNKNOWN_ROWS
        return made if made.squared_length * n_rows < _MOST else None

    @cached_property
    def codes(self) -> tuple[np.ndarray, ...]:
        """V of each column, shape (size - 1, size)."""
        return tuple(map(simplex_codes, self.sizes, self.scales))

    @property
    def n_rows(self) -> int:
        """Number of rows of the matrix of a class."""
        return 1 + sum(self.sizes) - len(self.sizes)

    @cached_property
    def squared_length(self) -> int:
        """The largest ``|v|**2``: columns are free, so it is the sum of the largest of each."""
        return self.coordinate**2 + sum(max(map(int, (V * V).sum(axis=0))) for V in self.codes)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        return list(combinations(range(len(self.sizes)), 2))

    def query(self, exact: Marginals, relation: str) -> Query:
        """Return the matrices, shape (n_classes, n_rows, n_rows), from exact tables of all `pairs` in each class."""
        gram = np.zeros((self.n_classes, self.n_rows, self.n_rows), dtype=np.int64)
        stops = np.cumsum([1, *(size - 1 for size in self.sizes)]).tolist()
        blocks = [slice(*ends) for ends in pairwise(stops)]
        columns: dict[int, np.ndarray] = {}
        for (i, j), table in zip(self.pairs, exact.tables(), strict=True):
            columns |= {i: table.sum(axis=2), j: table.sum(axis=1)}
            gram[:, blocks[i], blocks[j]] = self.codes[i] @ table @ self.codes[j].T
            gram[:, blocks[j], blocks[i]] = gram[:, blocks[i], blocks[j]].swapaxes(1, 2)
        for j, counts in columns.items():
            gram[:, blocks[j], blocks[j]] = (self.codes[j] * counts[:, None]) @ self.codes[j].T
            gram[:, 0, blocks[j]] = gram[:, blocks[j], 0] = self.coordinate * counts @ self.codes[j].T
        gram[:, 0, 0] = self.coordinate**2 * columns[0].sum(axis=1)
        return Query(gram, self.sensitivity(relation))

    def sensitivity(self, relation: str) -> Sensitivity:
        """Return how far one row moves the matrices: a public fact. The norm is that of all of them, as blocks on one diagonal.

        *A row comes or goes*: v v' has one eigenvalue, ``|v|**2 <= R``, the longest: that is its nuclear and its Frobenius norm.

        *It is replaced by one of its class*: ``D = v v' - w w'`` has rank 2, trace ``|v|**2 - |w|**2``, and a product of its two
        eigenvalues of ``(v'w)**2 - |v|**2 |w|**2 <= 0``. So the sum of their absolute values is
        ``sqrt((|v|**2 + |w|**2)**2 - 4 (v'w)**2) <= 2 R``, and that of their squares ``|v|**4 + |w|**4 - 2 (v'w)**2 <= 2 R**2``.

        *It is replaced by one of another class*: v v' leaves a block and w w' enters another, so the norms add: 2 R, and 2 R**2.

        No entry of a block exceeds its largest absolute eigenvalue, which is at most R. The l1 norm of m**2 entries is at most m times
        their l2 norm, so with the norms of two blocks ``m R`` each. Noise is independent between blocks, so the density of all of it is the
        product: the changes of its logarithm add, as nuclear norms do.
        """
        most, n_changes = self.squared_length, 2 if relation == "replace_one" else 1
        facts = statistic_facts("coded_gram", sizes=self.sizes, scales=self.scales, coordinate=self.coordinate, classes=self.n_classes)
        squared = n_changes * most**2
        return Sensitivity(relation, min(n_changes * self.n_rows * most, squared), squared, most, n_changes * most, facts)


@lru_cache(maxsize=1024)
def simplex_codes(size: int, scale: int) -> np.ndarray:
    """Return the corners of a regular simplex of `size` corners, each about `scale` long, as columns: shape (size - 1, size).

    Row k is that of Helmert: k ones, and -k behind them, over ``sqrt(k (k + 1))``. Times ``sqrt(size / (size - 1))`` its columns are unit
    vectors. Each number is rounded by its square, a fraction, so that all machines have the same.
    """
    codes = np.zeros((size - 1, size), dtype=np.int64)
    for k in range(1, size):
        unit = 4 * scale**2 * size  # four times the square, over (size - 1) k (k + 1), of a number of one
        codes[k - 1, :k] = (math.isqrt(unit // ((size - 1) * k * (k + 1))) + 1) // 2
        codes[k - 1, k] = -((math.isqrt(unit * k // ((size - 1) * (k + 1))) + 1) // 2)
    codes.flags.writeable = False
    return codes
