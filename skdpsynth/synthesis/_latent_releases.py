"""Releases of columns and pairs of strategy "marginals": tables, interactions, or one Gram matrix, with the error that each leaves."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from operator import attrgetter

import numpy as np

from skdpsynth.fitting import Budget
from skdpsynth.frames import Rows
from skdpsynth.models import NoisyGram, NoisyInteractions, NoisyTables, expected_error, gram_variances, table_variances
from skdpsynth.privacy import Mechanism, PrivacyLoss, mechanism
from skdpsynth.statistics import CodedGram, Interactions, Marginals, total

Pair = tuple[int, int]
_COARSER = range(9, -1, -1)  # bits of multipliers
_COARSER_CODES = range(10, 1, -1)  # bits of their length
_POWER = 0.2  # of a size less 1: columns of more levels have longer codes, as an error is spread over more cells
_BORDERS = (0.7, 1.0, 1.4, 2.0, 2.8, 4.0)  # lengths of what tells of columns, among which the expected error chooses


@dataclass(frozen=True, eq=False)
class PairRelease:
    """The noise of a release of pairs of columns, as tables or as interactions."""

    sizes: tuple[int, ...]  # number of codes of each column, and last of classes
    pairs: tuple[Pair, ...]
    noise: Mechanism
    column_variance: float  # of the noise on the tables of columns
    over: Interactions | None = None  # None: tables
    scales: Mapping[tuple[int, ...], int] = field(default_factory=dict)  # of interactions

    @classmethod
    def choose(
        cls, sizes: Sequence[int], pairs: Sequence[Pair], column_variance: float, share: PrivacyLoss, relation: str, n_samples: int | None
    ) -> "PairRelease":
        """Choose by public numbers the release that leaves the counts of pairs with less error, once all releases are joined.

        Interactions take Gaussian noise: their L1 sensitivity is much larger than that of tables. Tables tell of the columns too, which
        matters where those have much noise.
        """
        n_cells = sum(sizes[i] * sizes[j] for i, j in pairs) * sizes[-1]
        noise = mechanism(Marginals.sensitivity(relation, len(pairs)), share, n_values=n_cells)
        tables = cls(tuple(sizes), tuple(pairs), noise, column_variance)
        if share.rho is None or share.is_infinite:
            return tables
        for bits in _COARSER:
            over = Interactions.over(sizes[:-1], pairs, sizes[-1], n_samples, bits)
            if over is None:
                break
            try:
                noise = mechanism(over.sensitivity(relation), share, ("gaussian",), over.n_values)
            except ValueError:  # its scale is too large to be sampled
                continue
            other = replace(tables, noise=noise, over=over, scales=dict(zip(over.pairs, over.scales, strict=True)))
            return min(tables, other, key=attrgetter("error"))
        return tables

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise on a count of a pair, or on an interaction in counts."""
        return self.noise.deviation / min(self.scales.values(), default=1)

    @property
    def error(self) -> float:
        """The expected error of estimates, as `expected_error` measures it."""
        return expected_error(self.sizes[:-1], self.pairs, self._variances())

    def _variances(self) -> Iterator[tuple[tuple[int, ...], float]]:
        for i, size in enumerate(self.sizes[:-1]):
            yield from table_variances((i,), [size], self.column_variance)
        for i, j in self.pairs:
            if self.over is None:
                yield from table_variances((i, j), [self.sizes[i], self.sizes[j]], self.noise.variance)
            else:
                yield (i, j), self.noise.variance / self.scales.get((i, j), 1) ** 2

    def ask(self, rows: Rows, budget: Budget, name: str) -> NoisyTables | NoisyInteractions:
        """Release the pairs of rows of codes, of which the last is the class."""
        places = self.pairs if self.over is None else self.over.pairs
        exact = _count_pairs(rows, self.sizes, places)
        if self.over is None:
            noisy = budget.answer(exact.query(budget.relation), self.noise, name)
            return NoisyTables(dict(zip(places, exact.tables(noisy), strict=True)), self.noise.variance)
        noisy = budget.answer(self.over.query(exact, budget.relation), self.noise, name)
        return NoisyInteractions(self.over.tables(noisy), self.scales, self.noise.variance)


def _count_pairs(rows: Rows, sizes: Sequence[int], pairs: Iterable[Pair]) -> Marginals:
    return total(rows, Marginals.over(sizes, [(len(sizes) - 1, *pair) for pair in pairs]))


@dataclass(frozen=True, eq=False)
class GramRelease:
    """The noise of a release of all columns and pairs as one Gram matrix of codes."""

    over: CodedGram
    noise: Mechanism

    @classmethod
    def choose(cls, sizes: Sequence[int], share: PrivacyLoss, relation: str, n_samples: int | None) -> "GramRelease":
        """Choose by public numbers the codes that leave least error, for columns of these sizes, and last classes."""
        options, weights = [], np.maximum(np.array(sizes[:-1]) - 1.0, 1.0) ** _POWER
        weights /= np.sqrt(np.mean(weights**2))
        for border in _BORDERS:
            for bits in _COARSER_CODES:
                over = CodedGram.over(sizes[:-1], weights.tolist(), border, sizes[-1], n_samples, bits)
                if over is None:
                    continue
                try:
                    options.append(cls(over, mechanism(over.sensitivity(relation), share, ("matrix_laplace",), over.n_rows**2)))
                except ValueError:  # its scale is too large to be sampled
                    continue
                break
        return min(options, key=attrgetter("error"))

    @property
    def error(self) -> float:
        """The expected error of estimates, as `expected_error` measures it."""
        return expected_error(self.over.sizes, self.over.pairs, self._variances())

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise on an interaction in counts, in the mean of pairs."""
        return math.sqrt(np.mean([variance for part, variance in self._variances() if part[1:]]))

    @property
    def column_variance(self) -> float:
        """Mean variance of the noise on a count of a column."""
        return float(1 / np.mean([1 / variance for part, variance in self._variances() if part and not part[1:]]))

    def _variances(self) -> Iterator[tuple[tuple[int, ...], float]]:
        return gram_variances(self.over.codes, self.over.coordinate, self.noise.variance)

    def ask(self, rows: Rows, budget: Budget, name: str) -> NoisyGram:
        """Release the matrices of rows of codes, of which the last is the class."""
        exact = _count_pairs(rows, [*self.over.sizes, self.over.n_classes], list(combinations(range(len(self.over.sizes)), 2)))
        noisy = budget.answer(self.over.query(exact, budget.relation), self.noise, name)
        return NoisyGram(noisy, self.over.codes, self.over.coordinate, self.noise.variance)
