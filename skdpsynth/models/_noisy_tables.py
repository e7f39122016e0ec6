"""Noisy tables of columns and their pairs: as released in three ways, pooled, as least-squares estimates, and in blocks of columns."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Protocol

import numpy as np

from skdpsynth._serialization import is_array, require
from skdpsynth.persistence import savable

_EXACT = 1e-30  # variance of a frequency that is exact as far as a float goes
Table = tuple[np.ndarray, float]  # noisy counts, and the variance of each
_MAX_BLOCK_SIZE = 12  # the most columns of a block
_MIN_GROUPS = 3  # of a nominal column with more codes
_MAX_GROUPS = 2048  # of all columns, up to which nominal ones have more: a model of so many takes about ten seconds

Block = tuple[int, ...]


@savable
@dataclass(frozen=True, eq=False)
class NoisyTables:
    """Tables over some of the columns, in each class of rows, as they were released together."""

    tables: Mapping[Block, np.ndarray]  # by the columns of each, shape (n_classes, ...)
    variance: float  # of the noise of each count; 0 without noise
    precisions: Mapping[Block, float] = field(default_factory=dict)  # of each table, relative to the variance; none: 1

    @property
    def deviation(self) -> float:
        return math.sqrt(self.variance)

    def parts(self) -> Iterator[tuple[Block, np.ndarray, float]]:
        """Yield the total, the effects of columns and the interaction of each table, by their columns, with the variance of each."""
        for columns, table in self.tables.items():
            for part, variance in table_variances(columns, table.shape[1:], self.variance / self.precisions.get(columns, 1.0)):
                others = tuple(axis for axis, column in enumerate(columns, start=1) if column not in part)
                yield part, center_table(table.sum(axis=others)), variance

    def pairs(self) -> Iterator[tuple[Block, np.ndarray, float]]:
        """Yield the table of each pair in counts, and the variance of its numbers: centered, it is the interaction of `parts`."""
        for columns, table in self.tables.items():
            if len(columns) == 2:
                yield columns, table, self.variance / self.precisions.get(columns, 1.0)


def shares_of(totals: np.ndarray) -> np.ndarray:
    """Return non-negative numbers as shares of their sum; equal ones if all are 0."""
    whole = totals.sum()
    return totals / whole if whole > 0 else np.full(len(totals), 1 / len(totals))


def merge_codes(one_way: NoisyTables, is_nominal: Sequence[bool]) -> list[np.ndarray]:
    """Merge the codes of each column into groups of about equal mass; return, for each column, the group of each code.

    Ordered codes have two groups of neighbors: a trend shows in any two. A dependence of nominal codes may lie between any of them, and a
    group hides it, whatever the noise. The sensitivity of the interactions of a pair hardly grows with the number of codes, and the factors
    are few, so the noise of more counts hardly moves them. So each nominal code is a group by itself, unless these are too many to fit.
    """
    masses = [np.maximum(table.sum(axis=0), 0).astype(float) for table in one_way.tables.values()]
    sizes = [len(mass) if nominal else 2 for mass, nominal in zip(masses, is_nominal, strict=True)]
    most, groups = max(sizes, default=0), []
    while most > _MIN_GROUPS and sum(min(size, most) for size in sizes) > _MAX_GROUPS:
        most -= 1
    for mass, nominal in zip(masses, is_nominal, strict=True):
        if not nominal or len(mass) <= 2:
            half = (np.cumsum(mass) - mass / 2 > mass.sum() / 2).astype(np.int64)
            groups.append(half if 0 < half.sum() < len(mass) else (np.arange(len(mass)) >= (len(mass) + 1) // 2).astype(np.int64))
            continue
        group, load = np.zeros(len(mass), dtype=np.int64), np.zeros(min(most, len(mass)))
        for rank, code in enumerate(np.argsort(-mass, kind="stable")):  # each into the lightest group so far
            group[code] = rank if rank < len(load) else int(np.argmin(load))
            load[group[code]] += mass[code]
        groups.append(group)
    return groups


def join_into_blocks(dependence: np.ndarray, tied: Sequence[Sequence[int]] = ()) -> list[Block]:
    """Join columns into blocks of at most 12, the most dependent first; at least two are joined.

    The dependence of a pair is about 0 where there is nothing but noise, and hardly ever more than 1. Columns that are `tied` share a
    block, however many they are.
    """
    blocks: dict[int, Block] = {i: (i,) for i in range(len(dependence))}
    for together in tied:
        blocks |= dict.fromkeys(together, tuple(sorted(together)))
    first, second = np.triu_indices(len(dependence), 1)
    order = np.argsort(-dependence[first, second], kind="stable")
    n_joined = max(1, int((dependence[first, second] > 1).sum()))
    for i, j in zip(first[order[:n_joined]].tolist(), second[order[:n_joined]].tolist(), strict=True):
        if blocks[i] != blocks[j] and len(blocks[i]) + len(blocks[j]) <= _MAX_BLOCK_SIZE:
            joined = tuple(sorted(blocks[i] + blocks[j]))
            blocks |= dict.fromkeys(joined, joined)
    return sorted(set(blocks.values()))


def max_pair_counts(sizes: Sequence[int], in_blocks: bool) -> int:
    """Return the most counts that the pairs of codes of columns within blocks can have: a bound on the work of their models.

    It is largest if the columns of most codes share a block, then those of the most that are left.
    """
    ordered = sorted(sizes, reverse=True)
    width = _MAX_BLOCK_SIZE if in_blocks else max(len(ordered), 1)
    return sum(sum(ordered[i : i + width]) ** 2 for i in range(0, len(ordered), width))


@savable
@dataclass(frozen=True, eq=False)
class Pool:
    """Noisy counts of one column, from all rows that were counted in these codes."""

    counts: np.ndarray
    variance: float  # of each count
    n_rows: float  # as far as is known

    def _check_loaded(self) -> None:
        require(is_array(self.counts, "if", -1) and len(self.counts) and self.variance >= 0 and self.n_rows >= 0)

    def merge(self, other: "Pool | None") -> "Pool":
        if other is None:
            return self
        rows = [other.n_rows, self.n_rows]
        return Pool(*pool_tables([(other.counts, other.variance), (self.counts, self.variance)], rows, rows), sum(rows))


def pool_tables(found: Sequence[Table | None], counts: Sequence[float], numbers: Sequence[float]) -> Table:
    """Estimate a table of the union of disjoint parts, and the variance of each count of it.

    The plain sum of the parts' tables is unbiased, but has the noise of all of them, and that of a small part is as large as that of a
    large one. If all parts had one law, the mean of their frequencies with weights of one over their variance would have the least noise:
    little more than that of the largest part alone. Between the two each part is drawn towards this mean as far as its distance from it is
    explained by its noise (James and Stein, positive part): with k counts its error is the least where ``1 - (k - 2) E / D`` of the
    distance is kept, for the squared distance D and noise of mean square E on each count. So parts that differ keep their own values, parts
    that are all noise stand for their number of rows only, and without noise this is the sum.

    A part that was not counted so (None) has the mean of the others. Each part has `counts` rows, and stands for `numbers` of them.
    """
    known = [place for place, entry in enumerate(found) if entry is not None]
    rows, wanted = (np.array([values[place] for place in known], dtype=float) for values in (counts, numbers))
    shares = np.array([entry[0] for entry in found if entry is not None], dtype=float)
    shares /= rows.reshape(-1, *[1] * (shares.ndim - 1))
    variances = np.array([entry[1] for entry in found if entry is not None]) / rows**2
    variances[variances < _EXACT] = 0.0
    others = float(sum(numbers)) - wanted.sum()
    if not variances.all():  # without noise
        mean = np.tensordot(rows / rows.sum(), shares, 1)
        return np.tensordot(wanted, shares, 1) + others * mean, 0.0
    weights = 1 / variances
    weights /= weights.sum()
    mean = np.tensordot(weights, shares, 1)
    if len(known) == 1:
        kept = np.ones(1)
    else:
        squares = ((shares - mean).reshape(len(known), -1) ** 2).sum(axis=1)
        kept = james_stein_factor(squares, mean.size, variances - 1 / np.sum(1 / variances))
    factors = wanted * kept + (others + wanted @ (1 - kept)) * weights
    return np.tensordot(factors, shares, 1), float(factors**2 @ variances)


def james_stein_factor(squares: np.ndarray | float, n_counts: float, noise: np.ndarray | float) -> np.ndarray:
    """Return how much of their distance from a point `n_counts` counts keep, by the rule of James and Stein (positive part).

    Only the free counts of a centered table are counted; `noise` is the variance of each.
    """
    # Tables of so few counts that k - 2 would keep all noise are drawn half of the way at least. (With 3 counts that is less than the
    # 2 (k - 2) up to which nothing is lost.)
    by_noise = max(n_counts - 2, n_counts / 2) * noise
    return np.maximum(1 - by_noise / np.maximum(squares, 1e-300), 0.0)


@dataclass(frozen=True, eq=False)
class NoisyInteractions:
    """Interactions of pairs of columns, in each class of rows, as they were released together."""

    tables: Mapping[Block, np.ndarray]  # doubly centered counts times the scale of the pair, shape (n_classes, size_i, size_j)
    scales: Mapping[Block, int]
    variance: float  # of the noise of each number; 0 without noise

    def parts(self) -> Iterator[tuple[Block, np.ndarray, float]]:
        """Yield the interaction of each pair, by its columns, with its variance."""
        for columns, table, variance in self.pairs():
            yield columns, center_table(table), variance

    def pairs(self) -> Iterator[tuple[Block, np.ndarray, float]]:
        """Yield the numbers of each pair in counts, and their variance: centered, they are the interaction of `parts`."""
        for columns, table in self.tables.items():
            scale = self.scales[columns]
            yield columns, table / scale, self.variance / scale**2


@dataclass(frozen=True, eq=False)
class NoisyGram:
    """The sum of ``v v'`` over the rows of each class, ``v = (c, V_1[:, x_1], ..., V_m[:, x_m])``, with symmetric noise.

    The noise of different entries is uncorrelated, of the same variance off the diagonal, and of twice that on it.
    """

    matrices: np.ndarray  # shape (n_classes, n_rows, n_rows)
    codes: tuple[np.ndarray, ...]  # V of each column, shape (size - 1, size): the corners of a regular simplex about 0
    coordinate: int  # c
    variance: float  # of an entry off the diagonal; 0 without noise

    def parts(self) -> Iterator[tuple[Block, np.ndarray, float]]:
        """Yield estimates of totals, effects and interactions, by their columns, each with the variance of a number before it is centered.

        The corner tells of the total, the border and, of three codes or more, the block of a column of its effects. The inverse of
        ``[1'; V]`` turns ``V t`` and the total into counts t, and pairs in the same way: no rounding of codes is left in them.
        """
        values = self._values()
        for part, variance in gram_variances(self.codes, self.coordinate, self.variance):
            yield part, next(values), variance

    def _values(self) -> Iterator[np.ndarray]:
        gram, starts = self.matrices.astype(float), _starts(self.codes)
        totals = gram[:, 0, 0] / self.coordinate**2
        scaled = gram.copy()
        scaled[:, 0] /= self.coordinate
        scaled[:, :, 0] /= self.coordinate
        inverses = [np.linalg.inv(np.vstack([np.ones(V.shape[1]), V])) for V in self.codes]
        yield totals
        for V, start, inverse in zip(self.codes, starts, inverses, strict=True):
            block = slice(start, start + len(V))
            yield center_table(np.concatenate([totals[:, None], scaled[:, 0, block]], axis=1) @ inverse.T)
            if len(V):
                yield from _parts_of_block(V, gram[:, block, block])
        for i, j in combinations(range(len(self.codes)), 2):
            if len(self.codes[i]) and len(self.codes[j]):
                rows, columns = ([0, *range(starts[k], starts[k] + len(self.codes[k]))] for k in (i, j))
                yield center_table(inverses[i] @ scaled[:, rows][:, :, columns] @ inverses[j].T)


def _starts(codes: Sequence[np.ndarray]) -> list[int]:
    return np.cumsum([1, *map(len, codes)]).tolist()[:-1]


def _parts_of_block(V: np.ndarray, blocks: np.ndarray) -> Iterator[np.ndarray]:
    """Yield totals, and effects if there are any, of the nearest counts t to noisy ``V diag(t) V'``, shape (n_classes, n_codes - 1, ...).

    Noise of twice the variance on the diagonal makes all directions of symmetric matrices alike, so these are least squares.
    """
    squares = np.einsum("kl,ckm,ml->cl", V, blocks, V)
    if len(V) == 1:  # both codes have one square
        yield squares.mean(axis=1) / float(V[0, 0]) ** 4
        return
    counts = np.linalg.solve(_squared_products(V), squares.T).T
    yield counts.sum(axis=1)
    yield center_table(counts)


def _squared_products(V: np.ndarray) -> np.ndarray:
    return (V.T @ V).astype(float) ** 2


def gram_variances(codes: Sequence[np.ndarray], coordinate: int, variance: float) -> Iterator[tuple[Block, float]]:
    """Yield the parts that a noisy Gram matrix tells of, with the variance of a number before it is centered: public numbers.

    ``V V'`` is about q times the unit matrix, so its pseudoinverse turns noise of variance 1 into 1 / q.
    """
    q = [max(float((V.astype(float) ** 2).sum()) / max(len(V), 1), 1.0) for V in codes]
    yield (), 2 * variance / float(coordinate) ** 4
    for j, V in enumerate(codes):
        yield (j,), variance / (coordinate**2 * q[j])
        if len(V) == 1:
            yield (), 2 * variance / float(V[0, 0]) ** 4
        elif len(V):
            inverse = np.linalg.inv(_squared_products(V))
            yield (), 2 * variance * float(inverse.sum())
            yield (j,), 2 * variance * float(np.trace(inverse) - inverse.mean() * len(inverse)) / len(V)
    for i, j in combinations(range(len(codes)), 2):
        if len(codes[i]) and len(codes[j]):
            yield (i, j), variance / (q[i] * q[j])


class Released(Protocol):
    """Noisy numbers that tell of totals, effects of columns, and interactions of pairs."""

    def parts(self) -> Iterator[tuple[Block, np.ndarray, float]]: ...


@dataclass(frozen=True, eq=False)
class Estimates:
    """Counts of columns and of pairs that agree with each other, and the variance of each.

    A table is the sum of an even share of the total, effects of its columns, and an interaction: parts that are orthogonal to each other.
    Noise of one variance on all cells of a table is independent between the parts, and alike within each. So every table tells of each part
    by itself, the parts of all tables are joined by inverse variance, and that is generalized least squares.
    """

    totals: np.ndarray  # rows of each class
    tables: Mapping[Block, np.ndarray]  # by the columns of each, shape (n_classes, ...); the margins of a pair are those of its columns
    variances: Mapping[Block, float]  # of every cell of a table
    one_way: NoisyTables  # of one column, with the harmonic mean variance of a number of an effect before it is centered
    two_way: NoisyTables  # of two columns, with the mean variance of a number of an interaction before it is centered
    variance_of_total: float  # of the number of all rows

    @classmethod
    def of(cls, released: Sequence[Released], pairs: Sequence[tuple[int, int]], n_samples: int | None = None) -> "Estimates":
        """Join all that was released of columns and of pairs, so that something tells of each.

        `pairs` that nothing tells of have a column of one code. The totals of the classes sum to `n_samples`, where that is public.
        """
        means: dict[Block, _WeightedMean] = {}
        for each in released:
            for part, values, variance in each.parts():
                means.setdefault(part, _WeightedMean()).add(values, variance)
        totals, of_total = means[()].value, means[()].variance
        of_whole = len(totals) * of_total
        if n_samples is not None:
            totals, of_total, of_whole = totals + (n_samples - totals.sum()) / len(totals), of_total * (1 - 1 / len(totals)), 0.0
        sizes = {part[0]: mean.value.shape[1] for part, mean in means.items() if len(part) == 1}
        tables, variances = {}, {}
        for place in [*combinations(sizes, 1), *pairs]:
            tables[place] = np.zeros((len(totals), *(sizes[i] for i in place)))
            variances[place] = 0.0
            for part in [(), *combinations(place, 1), *([place] if len(place) == 2 and place in means else [])]:
                value, variance = (totals, of_total) if part == () else (means[part].value, means[part].variance)
                # The part is spread over the cells that it says nothing about.
                others, free, axes = 1, 1.0, list[int]()
                for axis, i in enumerate(place, start=1):
                    if i in part:
                        free *= 1 - 1 / sizes[i]
                    else:
                        others *= sizes[i]
                        axes.append(axis)
                tables[place] += np.expand_dims(value, tuple(axes)) / others
                variances[place] += variance / others**2 * free
        steps = []
        for n_columns in (1, 2):
            own = np.array([mean.variance for part, mean in means.items() if len(part) == n_columns])
            variance = 0.0 if not len(own) else float(own.mean()) if n_columns == 2 else float(1 / np.mean(1 / own)) if own.all() else 0.0
            own_tables = {place: table for place, table in tables.items() if len(place) == n_columns}
            precisions = {place: variance / means[place].variance for place in own_tables if place in means and variance}
            steps.append(NoisyTables(own_tables, variance, precisions if n_columns == 2 else {}))
        return cls(totals, tables, variances, steps[0], steps[1], of_whole)

    def rows(self, n_samples: int | None = None) -> np.ndarray:
        """Return the totals, but none below 0, and, where the number of all rows is public, shares of it."""
        rows = np.maximum(self.totals, 0.0)
        return rows if n_samples is None else n_samples * shares_of(rows)


def weighting_deviations(one_way: NoisyTables, two_way: NoisyTables) -> tuple[float, float]:
    """Return the deviations that weigh estimates of columns and of pairs rightly in a fit to both.

    The squared error of a table of m x n cells is that of its interaction, and 1 / n of that of the effects of its first column: so pairs
    weigh columns already. The rest that makes the weights inverse variances is ``v / u - sum of 1 / n``, where v is the variance of
    interactions and u that of effects. (For tables that are released as they are it is their variance over that of columns.) A quarter of
    ``v / u`` is left where pairs weigh columns more than enough.
    """
    u, v = one_way.variance, two_way.variance
    if not u or not v:
        return one_way.deviation, two_way.deviation
    beside = 0.0
    for table in two_way.tables.values():
        for size in table.shape[1:]:
            beside += 1 / size
    return math.sqrt(v / max(v / u - beside / len(one_way.tables), v / u / 4)), math.sqrt(v)


@dataclass(eq=False)
class _WeightedMean:
    """The mean of several estimates of one part, by inverse variance."""

    _sum: Any = 0.0
    _precision: float = 0.0
    _is_exact: bool = False

    def add(self, values: np.ndarray | float, variance: float) -> None:
        # Without noise all say the same.
        self._is_exact |= not variance
        self._sum = self._sum + values / (variance or 1.0)
        self._precision += 1 / (variance or 1.0)

    @property
    def value(self) -> np.ndarray:
        return self._sum / self._precision

    @property
    def variance(self) -> float:
        """The variance of a number before it is centered, as then all numbers of a part have noise of one variance."""
        return 0.0 if self._is_exact else 1 / self._precision


def table_variances(columns: Block, sizes: Sequence[int], variance: float) -> Iterator[tuple[Block, float]]:
    """Yield the parts that a table with noise of one variance tells of, with the variance of a number before it is centered."""
    n_cells = math.prod(sizes)
    yield (), variance * n_cells
    for column, size in zip(columns, sizes, strict=True):
        yield (column,), variance * n_cells / size
    if len(columns) == 2:
        yield columns, variance


def center_table(table: np.ndarray) -> np.ndarray:
    """Return a table less its means along each axis but that of the classes."""
    table = table.astype(float)
    for axis in range(1, table.ndim):
        table = table - np.add.reduce(table, axis=axis, keepdims=True) / table.shape[axis]
    return table


def expected_error(sizes: Sequence[int], pairs: Sequence[tuple[int, int]], noises: Iterable[tuple[Block, float]]) -> float:
    """Return how large errors of estimates are, by public numbers alone, to compare ways to release columns and pairs.

    Error is the mean, over tables, of the sum of the deviations of cells. It is that of pairs times the fourth root of that of columns: a
    model averages the noise of very many cells of pairs out, but hardly that of columns. `noises` are the variances of all estimates of
    parts, by their columns.
    """
    means: dict[Block, _WeightedMean] = {}
    for part, variance in noises:
        means.setdefault(part, _WeightedMean()).add(0.0, variance)
    whole, own = means[()].variance, [means[i,].variance * (1 - 1 / size) for i, size in enumerate(sizes)]
    of_columns = [size * math.sqrt(whole / size**2 + variance) for size, variance in zip(sizes, own, strict=True)]
    of_pairs = []
    for i, j in pairs:
        m, n, variance = sizes[i], sizes[j], means[i, j].variance if (i, j) in means else 0.0
        of_cell = whole / (m * n) ** 2 + own[i] / n**2 + own[j] / m**2 + variance * (1 - 1 / m) * (1 - 1 / n)
        of_pairs.append(m * n * math.sqrt(of_cell))
    return float(np.mean(of_pairs) * np.mean(of_columns) ** 0.25)
