"""Releases of columns and pairs of strategy "marginals": tables, interactions, or one Gram matrix, with the error that each leaves."""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from operator import attrgetter

import numpy as np

from skdpsynth._sensitivity import Sensitivity
from skdpsynth.fitting import Budget
from skdpsynth.frames import Rows
from skdpsynth.models import NoisyGram, NoisyInteractions, NoisyTables, expected_error, gram_variances, table_variances
from skdpsynth.privacy import Mechanism, PrivacyLoss, mechanism
from skdpsynth.statistics import (
    ONE_ROW,
    CodedGram,
    Interactions,
    Marginals,
    Weights,
    fold_tables,
    symmetric_precision,
    total,
    unfold_symmetric,
)

Pair = tuple[int, int]
_COARSER = range(9, -1, -1)  # bits of multipliers
_COARSER_CODES = range(10, 1, -1)  # bits of their length
_POWER = 0.2  # of a size less 1: columns of more levels have longer codes, as an error is spread over more cells
_BORDERS = (0.7, 1.0, 1.4, 2.0, 2.8, 4.0)  # lengths of what tells of columns, among which the expected error chooses


@dataclass(frozen=True, eq=False)
class PairRelease:
    """The noise of a release of pairs of columns, as tables or as interactions; of weighted rows they come in units of their total."""

    sizes: tuple[int, ...]  # number of codes of each column, and last of classes
    pairs: tuple[Pair, ...]
    noise: Mechanism
    column_variance: float  # of the noise on the tables of columns
    over: Interactions | None = None  # None: tables
    scales: Mapping[tuple[int, ...], int] = field(default_factory=dict)  # of interactions, times the total of the weights
    weights: Weights = ONE_ROW
    symmetric: frozenset[Pair] = frozenset()  # pairs of a column with itself in another row of the unit, in both orders

    @classmethod
    def choose(
        cls,
        sizes: Sequence[int],
        pairs: Sequence[Pair],
        column_variance: float,
        share: PrivacyLoss,
        relation: str,
        n_samples: int | None,
        weights: Weights = ONE_ROW,
        symmetric: Collection[Pair] = (),
    ) -> "PairRelease":
        """Choose by public numbers the release that leaves the counts of pairs with less error, once all releases are joined.

        Interactions take Gaussian noise: their L1 sensitivity is much larger than that of tables. Tables tell of the columns too, which
        matters where those have much noise.
        """
        n_cells = sum(math.comb(sizes[i] + 1, 2) if (i, j) in symmetric else sizes[i] * sizes[j] for i, j in pairs) * sizes[-1]
        noise = mechanism(weights.sensitivity(partial(_sensitivity_of_tables, len(pairs)), relation), share, n_values=n_cells)
        tables = cls(tuple(sizes), tuple(pairs), noise, column_variance, weights=weights, symmetric=frozenset(symmetric))
        if share.rho is None or share.is_infinite:
            return tables
        for bits in _COARSER:
            over = Interactions.over(sizes[:-1], pairs, sizes[-1], weights.n_rows(n_samples), bits)
            if over is None:
                break
            try:
                noise = mechanism(weights.sensitivity(over.sensitivity, relation), share, ("gaussian",), over.n_values)
            except ValueError:  # its scale is too large to be sampled
                continue
            scales = (scale * weights.total for scale in over.scales)
            other = replace(tables, noise=noise, over=over, scales=dict(zip(over.pairs, scales, strict=True)))
            return min(tables, other, key=attrgetter("error"))
        return tables

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise on a count of a pair, or on an interaction in counts."""
        return self.noise.deviation / min(self.scales.values(), default=self.weights.total)

    @property
    def error(self) -> float:
        """The expected error of estimates, as `expected_error` measures it."""
        return expected_error(self.sizes[:-1], self.pairs, self._variances())

    def _variances(self) -> Iterator[tuple[tuple[int, ...], float]]:
        for i, size in enumerate(self.sizes[:-1]):
            yield from table_variances((i,), [size], self.column_variance)
        for i, j in self.pairs:
            if self.over is None:
                variance = self.noise.variance / self.weights.total**2 / self._precision((i, j))
                yield from table_variances((i, j), [self.sizes[i], self.sizes[j]], variance)
            else:
                yield (i, j), self.noise.variance / self.scales.get((i, j), 1) ** 2

    def ask(self, rows: Rows, budget: Budget, name: str) -> NoisyTables | NoisyInteractions:
        """Release the pairs of rows of codes, of which the last is the class; weighted rows have no class, but a weight."""
        places, relation = self.pairs if self.over is None else self.over.pairs, budget.relation
        exact = _count_pairs(rows, self.sizes, places, self.weights)
        if self.over is None:
            exact = fold_tables(exact, [place for place, pair in enumerate(places) if pair in self.symmetric]) if self.symmetric else exact
            query = self.weights.query(exact.query(relation), partial(_sensitivity_of_tables, len(places)), relation)
            return self._tables_of(exact.tables(budget.answer(query, self.noise, name)))
        query = self.weights.query(self.over.query(exact, relation), self.over.sensitivity, relation)
        tables = self.over.tables(budget.answer(query, self.noise, name))
        tables |= {pair: (tables[pair] + tables[pair].swapaxes(1, 2)) / 2 for pair in tables.keys() & self.symmetric}
        return NoisyInteractions(tables, self.scales, self.noise.variance)

    def _tables_of(self, released: Sequence[np.ndarray]) -> NoisyTables:
        """Return released tables in units of the total of the weights."""
        tables, precisions, n = dict[tuple[int, ...], np.ndarray](), dict[tuple[int, ...], float](), self.weights.total
        for pair, noisy in zip(self.pairs, released, strict=True):
            tables[pair] = noisy if n == 1 else noisy / n
            if pair in self.symmetric:
                tables[pair], precisions[pair] = unfold_symmetric(tables[pair], self.sizes[pair[0]]), self._precision(pair)
        return NoisyTables(tables, self.noise.variance / n**2, precisions)

    def _precision(self, pair: Pair) -> float:
        return symmetric_precision(self.sizes[pair[0]]) if pair in self.symmetric else 1.0


def _sensitivity_of_tables(n_tables: int, relation: str) -> Sensitivity:
    return Marginals.sensitivity(relation, n_tables)


def _count_pairs(rows: Rows, sizes: Sequence[int], pairs: Iterable[Pair], weights: Weights) -> Marginals:
    """Return the tables of pairs of rows in each class; weighted rows are of one."""
    if weights.place is None:
        return total(rows, Marginals.over(sizes, [(len(sizes) - 1, *pair) for pair in pairs]))
    return total(rows, Marginals.over(sizes[:-1], list(pairs), weights.place)).of_one_class()


@dataclass(frozen=True, eq=False)
class GramRelease:
    """The noise of a release of all columns and pairs as one Gram matrix of codes; of weighted rows, in units of their total."""

    over: CodedGram
    noise: Mechanism
    weights: Weights = ONE_ROW

    @classmethod
    def choose(
        cls, sizes: Sequence[int], share: PrivacyLoss, relation: str, n_samples: int | None, weights: Weights = ONE_ROW
    ) -> "GramRelease":
        """Choose by public numbers the codes that leave least error, for columns of these sizes, and last classes."""
        options, lengths = [], np.maximum(np.array(sizes[:-1]) - 1.0, 1.0) ** _POWER
        lengths /= np.sqrt(np.mean(lengths**2))
        for border in _BORDERS:
            for bits in _COARSER_CODES:
                over = CodedGram.over(sizes[:-1], lengths.tolist(), border, sizes[-1], weights.n_rows(n_samples), bits)
                if over is None:
                    continue
                try:
                    moved = weights.sensitivity(over.sensitivity, relation)
                    options.append(cls(over, mechanism(moved, share, ("matrix_laplace",), over.n_rows**2), weights))
                except ValueError:  # its scale is too large to be sampled
                    continue
                break
        if not options:
            raise ArithmeticError("Whole numbers of 64 bits have no room for such codes.")
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
        return gram_variances(self.over.codes, self.over.coordinate, self._variance)

    @property
    def _variance(self) -> float:
        return self.noise.variance / self.weights.total**2

    def ask(self, rows: Rows, budget: Budget, name: str) -> NoisyGram:
        """Release the matrices of rows of codes, of which the last is the class; weighted rows have no class, but a weight."""
        pairs = list(combinations(range(len(self.over.sizes)), 2))
        exact = _count_pairs(rows, [*self.over.sizes, self.over.n_classes], pairs, self.weights)
        query = self.weights.query(self.over.query(exact, budget.relation), self.over.sensitivity, budget.relation)
        noisy = budget.answer(query, self.noise, name)
        values = noisy if self.weights.total == 1 else noisy / self.weights.total
        return NoisyGram(values, self.over.codes, self.over.coordinate, self._variance)
