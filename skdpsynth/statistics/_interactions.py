"""Exact interactions of pairs of columns: what their tables hold beyond the margins, as whole numbers."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, groupby, product
from typing import NamedTuple

import numpy as np

from skdpsynth._sensitivity import Query, Sensitivity, statistic_facts
from skdpsynth.statistics._marginals import Marginals

_STEPS = 24  # of the share of rows on one side of a split
_AT_ONCE = 1 << 22  # numbers at a time
_BITS = 9  # multipliers are rounded, which is at most one part in 2**(_BITS + 1)
_MOST = 1 << 62  # of a whole number, so that noise has room beside it
_UNKNOWN_ROWS = 1 << 31  # of tables whose number of rows is private
_SUBSETS = 1 << 13  # of columns in which two rows differ, up to which all are tried


@dataclass(frozen=True)
class Interactions:
    """The interaction of each pair of columns: what a table of two columns says beyond its margins.

    A table n of two columns, of shape (m_i, m_j), is released as ``k (m_i I - J) n (m_j I - J)``, with J all ones: its cells times c,
    less their means over rows and over columns, where ``c = k m_i m_j``. The multipliers k make c nearly the same for all tables, so
    that noise of one scale serves all.

    It is better than the table itself where the margins are known anyway. A row moves the interaction by less than the table, because
    what it does to the margins is taken out; and noise on all entries, whose means over rows and columns are taken out again
    afterwards, leaves ``(scale / c)**2 (1 - 1 / m_i) (1 - 1 / m_j)`` on each cell: as little as noise on a smallest basis of the
    interactions, because the columns of ``m I - J`` are a tight frame. And all numbers are whole, so that noise is exact.
    """

    sizes: tuple[int, ...]  # number of codes of each column
    pairs: tuple[tuple[int, int], ...]  # columns of each table; those with a column of one code have no interactions, and are left out
    n_classes: int  # of rows: each class has its own tables
    multipliers: tuple[int, ...]  # k, of each pair

    @classmethod
    def over(
        cls, sizes: Sequence[int], pairs: Sequence[tuple[int, int]], n_classes: int = 1, n_samples: int | None = None, bits: int = _BITS
    ) -> "Interactions | None":
        """Choose multipliers by public numbers; None where the numbers of so many rows would not fit into 64 bits.

        An entry is below c times the number of rows. Where that number is private, there is room for 2**31 rows. More would make numbers
        pass 64 bits and begin again: that is a function of the whole numbers modulo 2**64, so no loss of privacy. The multiplier of the
        largest table is ``2**bits``, or less where there is no room.
        """
        kept = tuple((i, j) for i, j in pairs if min(sizes[i], sizes[j]) > 1)
        largest = max((sizes[i] * sizes[j] for i, j in kept), default=1)
        room = _MOST // (max(n_samples, 1) if n_samples is not None else _UNKNOWN_ROWS) // largest
        if not kept or not room:
            return None
        common = largest << min(bits, room.bit_length() - 1)
        rounded = (max(1, (2 * common + m) // (2 * m)) for m in (sizes[i] * sizes[j] for i, j in kept))
        return cls(tuple(sizes), kept, n_classes, tuple(rounded))

    @property
    def shapes(self) -> list[tuple[int, int, int]]:
        """Shapes of the tables, led by the classes."""
        return [(self.n_classes, self.sizes[i], self.sizes[j]) for i, j in self.pairs]

    @property
    def n_values(self) -> int:
        return sum(map(math.prod, self.shapes))

    @property
    def scales(self) -> tuple[int, ...]:
        """Multiple of each pair, called c: by what its cells are multiplied."""
        return tuple(k * self.sizes[i] * self.sizes[j] for k, (i, j) in zip(self.multipliers, self.pairs, strict=True))

    def query(self, exact: Marginals, relation: str) -> Query:
        """Return the interactions of exact tables, of `shapes`, with their sensitivity."""
        values = []
        for table, k in zip(exact.tables(), self.multipliers, strict=True):  # (m_i I - J) n (m_j I - J) of each class, modulo 2**64
            rows = table.shape[1] * table - table.sum(axis=1, keepdims=True)
            values.append((table.shape[2] * rows - rows.sum(axis=2, keepdims=True)) * k)
        return Query(np.concatenate([part.ravel() for part in values]), self.sensitivity(relation))

    def tables(self, values: np.ndarray) -> dict[tuple[int, ...], np.ndarray]:
        """Return numbers like those of `query` as one array a pair."""
        parts = np.split(values, np.cumsum([math.prod(shape) for shape in self.shapes])[:-1])
        return {pair: part.reshape(shape) for pair, part, shape in zip(self.pairs, parts, self.shapes, strict=True)}

    def sensitivity(self, relation: str) -> Sensitivity:
        """Return how far one row moves the interactions: a public fact.

        Write u for a unit vector less its mean, so ``|u|**2 = a = 1 - 1 / m`` and the product of two different ones is ``a - 1``. A
        row with the codes x and y adds ``c u_x u_y'`` to the table of its class.

        *A row comes or goes*: the table moves by ``c**2 a_i a_j`` in squared l2, whatever the row. The sum over tables is exact.

        *A row is replaced* by one of its class: let S be the columns in which the two differ, and b = a - 1 for those, b = a for others.
        ``|u v' - w z'|**2 = 2 a_i a_j - 2 <u, w> <v, z>``, so the table moves by ``2 c**2 (a_i a_j - b_i b_j)``, which depends on S
        alone. Columns that share no table, not even through others, have their own S. `_most_by_difference` finds the largest sum.

        *It is replaced by one of another class*: it leaves one table and enters another, of the same pair: ``2 c**2 a_i a_j``.

        l1 and sup are the sums, and the largest, of what each table moves at most; l1 is attained where a row comes or goes.
        """
        return _compute_sensitivity(self, relation)


@lru_cache(maxsize=64)
def _compute_sensitivity(over: Interactions, relation: str) -> Sensitivity:
    tables = [_TableChange.of(k, over.sizes[i], over.sizes[j]) for k, (i, j) in zip(over.multipliers, over.pairs, strict=True)]
    # Which tables these are: multipliers by how many cells a table has, and no pairs where each of the columns meets each.
    columns = sorted({column for pair in over.pairs for column in pair})
    number = {column: place for place, column in enumerate(columns)}
    pairs = sorted(tuple(sorted((number[i], number[j]))) for i, j in over.pairs)
    cells = {over.sizes[i] * over.sizes[j]: k for k, (i, j) in zip(over.multipliers, over.pairs, strict=True)}
    facts = statistic_facts(
        "interactions",
        sizes=tuple(int(over.sizes[column]) for column in columns),
        pairs=() if pairs == list(combinations(range(len(columns)), 2)) else tuple(pairs),
        classes=over.n_classes,
        multipliers=tuple(sorted(cells.items())),
    )
    coming = sum(table.coming for table in tables)
    if relation == "add_or_remove_one":
        l1, sup = min(sum(table.l1_coming for table in tables), coming), max(table.sup_coming for table in tables)
        return Sensitivity(relation, l1, coming, sup, statistic=facts)
    part: dict[int, frozenset[int]] = {}  # by column those that share tables with it, also through others
    for i, j in over.pairs:
        joined = part.get(i, frozenset([i])) | part.get(j, frozenset([j]))
        part |= dict.fromkeys(joined, joined)
    l2_squared = sum(_most_by_difference(over, each) for each in set(part.values()))
    l1, sup = sum(table.l1_replaced for table in tables), max(table.sup_replaced for table in tables)
    if over.n_classes > 1:
        l2_squared = max(l2_squared, 2 * coming)
        l1 = sum(max(table.l1_replaced, 2 * table.l1_coming) for table in tables)
    return Sensitivity(relation, min(l1, l2_squared), l2_squared, sup, statistic=facts)


class _TableChange(NamedTuple):
    """Sensitivity of one table: whole numbers, in squared l2 where nothing else is said."""

    coming: int
    differing: tuple[int, int, int]  # if two rows of a class differ in the first column, in the second, in both
    l1_coming: int
    sup_coming: int
    l1_replaced: int
    sup_replaced: int

    @classmethod
    def of(cls, k: int, m: int, n: int) -> "_TableChange":
        both, inner = 2 * k**2 * m * n * (m * n - m - n), (m - 1) * (n - 1)
        # (m e_x - m e_x') times a column of n I - J; or, where both differ, the four cells in which they cross, and the rows between.
        crossing = 2 * (m * n - m - n) + 2 * abs(m - n) + 2 * m * (n - 2) + 2 * n * (m - 2)
        return cls(
            coming=k**2 * m * n * inner,
            differing=(2 * k**2 * m * m * n * (n - 1), 2 * k**2 * n * n * m * (m - 1), both),
            l1_coming=4 * k * inner,
            sup_coming=k * inner,
            l1_replaced=k * max(4 * m * (n - 1), 4 * n * (m - 1), crossing),
            sup_replaced=k * max(m * (n - 1), n * (m - 1)),  # where one column differs, or in a cell that one of the rows has
        )


def _most_by_difference(over: Interactions, part: frozenset[int]) -> int | Fraction:
    """Return the most that two rows of a class move the tables within a part of the columns, in squared l2.

    It is exact where all sets S of columns can be tried; in a part whose pairs all have tables, only how many columns of each size are
    in S matters. Else it is the least of two bounds: the largest of each table by itself, ``2 c**2 (1 - 1 / max(m))``; and, since no
    table moves by less than 0, that of all pairs with the largest c.
    """
    tables = {frozenset(pair): k for pair, k in zip(over.pairs, over.multipliers, strict=True) if pair[0] in part}
    columns = sorted(part, key=lambda i: over.sizes[i])
    is_complete = len(tables) == math.comb(len(part), 2)
    groups = [list(group) for _, group in groupby(columns, key=lambda i: over.sizes[i])] if is_complete else [[i] for i in columns]
    if math.prod(len(group) + 1 for group in groups) <= _SUBSETS:
        return _most_of_all(over.sizes, tables, groups)
    sizes = {pair: [over.sizes[i] for i in pair] for pair in tables}
    alone = sum(max(_TableChange.of(k, *sizes[pair]).differing) for pair, k in tables.items())
    largest = max(k * math.prod(sizes[pair]) for pair, k in tables.items())
    return min(Fraction(alone), largest**2 * _most_of_equal([over.sizes[i] for i in columns]))


def _most_of_equal(sizes: Sequence[int]) -> Fraction:
    """Return the largest sum of ``2 (a_i a_j - b_i b_j)`` over all pairs of columns, the smallest first.

    The products of pairs of b sum to ``((A - s)**2 - Q + 2 sum_S a - s) / 2``, with A and Q the sums of a and of its squares, and s columns
    in S: so for each s, the columns of smallest a make it least.
    """
    a = [1 - Fraction(1, m) for m in sizes]
    sums = [Fraction(0)]
    for each in a:
        sums.append(sums[-1] + each)
    return max(Fraction(2 * sums[-1] * s - s * s - 2 * upto + s) for s, upto in enumerate(sums))


def _most_of_all(sizes: Sequence[int], tables: Mapping[frozenset[int], int], groups: Sequence[Sequence[int]]) -> int:
    """Try all sets S of columns, given by how many of each group they hold; the columns of a group are alike.

    With x and y columns of two groups of M and N in S, ``x (N - y)`` tables have a row that differs in the first column alone, and so on: a
    quadratic function of these numbers.
    """
    linear = [0] * len(groups)
    crossing = [[0] * len(groups) for _ in groups]
    for d, e in combinations(range(len(groups)), 2):
        if k := tables.get(frozenset([groups[d][0], groups[e][0]])):
            first, second, both = _TableChange.of(k, sizes[groups[d][0]], sizes[groups[e][0]]).differing
            linear[d] += first * len(groups[e])
            linear[e] += second * len(groups[d])
            crossing[d][e] = both - first - second
    for d, group in enumerate(groups):
        if len(group) > 1:
            one, _, both = _TableChange.of(tables[frozenset(group[:2])], sizes[group[0]], sizes[group[0]]).differing
            # x (N - x) one + x (x - 1) / 2 both; and both is even.
            linear[d] += len(group) * one - both // 2
            crossing[d][d] = both // 2 - one
    return _largest(np.array(list(product(*(range(len(group) + 1) for group in groups)))), linear, crossing)


def _largest(numbers: np.ndarray, linear: Sequence[int], crossing: Sequence[Sequence[int]]) -> int:
    """Return the largest value of a quadratic function of whole numbers, exactly: floats find those that may be it."""
    values, slack = (
        numbers @ a + np.einsum("xd,de,xe->x", numbers, B, numbers)
        for part in (np.asarray, np.abs)
        for a, B in [(part(np.array(linear, dtype=float)), part(np.array(crossing, dtype=float)))]
    )
    near = numbers[values >= values.max() - 1e-9 * slack.max()].astype(object)  # Python's whole numbers have no end
    exact = near @ np.array(linear, dtype=object) + ((near @ np.array(crossing, dtype=object)) * near).sum(axis=1)
    return int(max(exact))


def dependences(
    exact: Marginals, pairs: Sequence[tuple[int, int]], splits: Sequence[np.ndarray], n_rows: int, relation: str, rank: int = 0
) -> Query:
    """Return the distance of each pair of columns from the nearest independent ones, or, with a rank, the distance of that rank.

    Splits cut the codes of a column in two, so a table of two columns becomes one of four cells, of each split of one with each of the
    other. Its distance is the least sum of absolute differences from a list of tables of `n_rows` rows whose columns are independent,
    rounded to whole numbers; that of a pair is the largest over its splits. So no margins need be known, and how rows lie within a column
    is no dependence. `exact` holds a table of each pair; splits, of shape (n_splits, size) by column, and `n_rows` are public. Rank 1 is
    the largest distance alone, and so on; 0 means all, in the order of pairs.
    """
    found = np.array(
        [_distance(table, splits[i], splits[j], n_rows) for table, (i, j) in zip(exact.tables(), pairs, strict=True)], dtype=np.int64
    )
    if rank:
        found = np.sort(found)[len(found) - rank : len(found) - rank + 1]
    return Query(found, sensitivity_of_dependences(relation, len(pairs), rank))


def sensitivity_of_dependences(relation: str, n_pairs: int, rank: int = 0) -> Sensitivity:
    """Return how far one row moves the distances of so many pairs, or the one of a rank: a public fact.

    A row that comes or goes moves one cell of four by 1, and a row that is replaced at most two: so the sum of absolute differences from
    any table that is fixed moves by 1, or by 2. The least of such sums over a fixed list of tables moves by no more, nor does the largest
    over splits, nor the distance of a rank. All pairs may do so at once.
    """
    most, n_values = 2 if relation == "replace_one" else 1, 1 if rank else n_pairs
    facts = statistic_facts("dependences", pairs=n_pairs, **({"rank": rank} if rank else {}))
    return Sensitivity(relation, most * n_values, most**2 * n_values, most, statistic=facts)


def _distance(table: np.ndarray, first: np.ndarray, second: np.ndarray, n_rows: int) -> int:
    if not (len(first) and len(second)):
        return 0
    both = first.astype(np.int64) @ table @ second.T.astype(np.int64)
    upper, left = (first @ table.sum(axis=1))[:, None], (second @ table.sum(axis=0))[None]
    cells = np.stack([both, upper - both, left - both, table.sum() - upper - left + both]).reshape(4, -1)
    sides = np.stack([np.arange(_STEPS + 1), _STEPS - np.arange(_STEPS + 1)])
    products = sides[:, None, :, None] * sides[None, :, None, :] * n_rows
    independent = ((2 * products + _STEPS**2) // (2 * _STEPS**2)).reshape(4, -1)  # in whole numbers
    size = max(1, _AT_ONCE // (4 * independent.shape[1]))
    parts = [cells[:, start : start + size, None] for start in range(0, cells.shape[1], size)]
    return max(int(np.abs(part - independent[:, None]).sum(axis=0).min(axis=1).max()) for part in parts)


def distances(exact: Marginals, expected: Sequence[np.ndarray], relation: str) -> Query:
    """Return the sum of absolute differences of each table from what was expected, with their sensitivity.

    The expected tables are whole numbers made of earlier releases: a neighbor has the same.
    """
    pairs = zip(exact.tables(), expected, strict=True)
    return Query(
        np.array([np.abs(table - guess).sum() for table, guess in pairs], dtype=np.int64), sensitivity_of_distances(relation, len(expected))
    )


def sensitivity_of_distances(relation: str, n_tables: int) -> Sensitivity:
    """Return how far one row moves the distances of so many tables: a public fact.

    By the triangle inequality a distance moves by no more than its table does, in the sum of absolute changes. Adding or removing a row
    moves one count of each table by 1. Replacing it moves two: a distance moves by 2, as where a row leaves a cell that has too few for
    one that has too many. All tables may do so at once.
    """
    most = 2 if relation == "replace_one" else 1
    facts = statistic_facts("distances", tables=n_tables)
    return Sensitivity(relation, most * n_tables, most**2 * n_tables, min(most, most * n_tables), statistic=facts)
