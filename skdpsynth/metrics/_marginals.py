"""Marginals and associations of columns, by contingency tables."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from skdpsynth._validation import is_integer, short_repr, warn
from skdpsynth.domain import Continuous, Nominal, Schema
from skdpsynth.frames import Chunk, Rows
from skdpsynth.metrics._read_tables import SchemaLike, Table, read_both, sample_rows
from skdpsynth.statistics import Aggregator, Marginals, total

_MOST_CELLS = 1 << 24  # of the tables that are counted in one reading: 128 MiB
_MOST_CODED = 2**63  # cells that have numbers
_MOST_SETS = 100_000  # of columns: the standard error of their mean is .2 % of their deviation
N_PARTS = 12  # of a column of numbers: as in the measurements of the documentation
_FINE_PARTS = 256  # of a column of numbers that is not in memory, for associations
_CUT_ROWS = 100_000  # by which it is cut
_CUT_SEED = 20
_DIGIT = 16  # bits that one reading of the rows settles
_CODES = 1 << _DIGIT

Pairs = Sequence[tuple[int, int]]


def marginal_total_variation(X: Table, Y: Table, schema: SchemaLike, order: int = 2) -> float:
    """Return the mean total variation distance between the marginals of two tables, over all sets of `order` columns.

    A column of numbers is cut into at most 12 parts of equally many rows of `X`; a value so frequent that two cuts meet in it is a part of
    its own. A column of levels is taken as it is. A missing cell is a level more, also where `schema` knows none there; so is a level that
    `schema` does not know.

    Parameters
    ----------
    X, Y : array-like, data frame or other table that `fit` takes, of shape (n_samples, n_features) and (m_samples, n_features)
        The real and the synthetic table, with the columns of `schema`. Both are read unprotected, without noise: the distance to private
        data is not private.
    schema : dict, Schema or path of a file
        ``{column: (low, high), [levels] or a kind}``, see `skdpsynth.domain.Schema`. Numbers are clipped to their bounds.
    order : {1, 2, 3}, default=2
        Number of columns of a marginal. If there are more than 100,000 sets of columns, as for 86 columns at order 3, only 100,000 count,
        always the same ones, drawn evenly; a warning says so.

    Returns
    -------
    distance : float
        In [0, 1]: the mean over the marginals of the largest difference between the shares of rows that any event has in them. It does not
        fall as `order` grows (where all sets count), and is symmetric for columns of levels; those of numbers are cut by `X`.

    See Also
    --------
    skdpsynth.metrics.correlation_error : Compares associations instead.
    skdpsynth.metrics.train_synthetic_test_real : Compares what can be learned.

    Notes
    -----
    The time is that of a pass over the rows of both tables for each of the (n_features choose `order`) sets: of 30 columns 30, 435 and
    4060 sets, with 50,000 rows on each side about 0.5, 0.5 and 2 seconds.

    Files, lazy frames and all else that is not in memory are counted in chunks, and the distance is the same to the last bit. Those of more
    than 2^25 cells are read once for the counts of 2^24 combinations of levels and parts, and `X` four times more for the exact cuts of its
    numbers; about 6 MB are held for each such column. Smaller ones are read into memory.

    A finite sample is at some distance from its own distribution. So compare with the distance between two halves of the real rows.

    Examples
    --------
    >>> from skdpsynth.metrics import marginal_total_variation
    >>> X = [["a", "no"], ["a", "no"], ["b", "yes"], ["b", "yes"]]
    >>> Y = [["a", "no"], ["a", "yes"], ["b", "no"], ["b", "yes"]]
    >>> schema = {0: ["a", "b"], 1: ["no", "yes"]}
    >>> marginal_total_variation(X, Y, schema, order=1), marginal_total_variation(X, Y, schema, order=2)
    (0.0, 0.5)
    """
    if not is_integer(order, 1, 3):
        raise ValueError(f"order must be 1, 2 or 3, got {short_repr(order)}.")
    schema, tables = read_both(X, Y, schema)
    if order > len(schema):
        raise ValueError(f"order must be at most the number of columns, {len(schema)}, got {order}.")
    return float(np.mean(distances_of(tables, schema, _sets(len(schema), order))))


def _sets(n_columns: int, order: int) -> list[tuple[int, ...]]:
    """Return all sets of `order` columns, or some drawn without replacement."""
    n_sets = math.comb(n_columns, order)
    if n_sets <= _MOST_SETS:
        return list(combinations(range(n_columns), order))
    warn(f"{_MOST_SETS} of the {n_sets} sets of {order} columns are compared, drawn evenly; give fewer columns to compare all.")
    left, chosen = np.random.default_rng(0).choice(n_sets, _MOST_SETS, replace=False, shuffle=False), []
    # Every number below n_sets is C(a, 3) + C(b, 2) + c in one way with a > b > c (the combinatorial number system).
    for size in range(order, 0, -1):
        below = np.array([math.comb(column, size) for column in range(n_columns)])
        chosen.append(np.searchsorted(below, left, side="right") - 1)
        left = left - below[chosen[-1]]
    return list(map(tuple, np.stack(chosen[::-1], axis=1).tolist()))


def distances_of(tables: Sequence[Rows], schema: Schema, sets: Sequence[tuple[int, ...]]) -> list[float]:
    """Return the total variation distance of two tables from `read_both` on each set of columns; the first decides where to cut."""
    parts = quantile_bins(tables[0], [place for place, kind in enumerate(schema.values()) if isinstance(kind, Continuous)], N_PARTS)
    sizes = parts.sizes(list(schema.values()))
    coded, (n, m) = [rows.map(parts).materialize() for rows in tables], [rows.n_samples or 0 for rows in tables]
    # Whole numbers, so that 0 and 1 are exact.
    return [float(np.abs(m * x - n * y).sum() / (2 * n * m)) for _, (x, y) in contingency_tables(coded, sizes, sets)]


def correlation_error(X: Table, Y: Table, schema: SchemaLike) -> float:
    """Return the mean absolute difference of the associations of two tables, over all pairs of columns.

    The association of a pair, in each table by itself, is

    - of two ordered columns (`Continuous` or `Ordinal`): Spearman's rank correlation [1]_, in [-1, 1];
    - of two `Nominal` columns: Cramer's V [2]_, in [0, 1], without correction, over the levels that occur;
    - of a `Nominal` and an ordered column: the correlation ratio [3]_ of the ranks, in [0, 1], the root of the share of the variance of the
      ranks that lies between the levels.

    Equal values have the mean of their ranks. Rows in which one of the two cells is missing, or has a level that `schema` does not know,
    are left out of the pair. If a column is constant on the remaining rows, or none remain, the association is 0.

    Parameters
    ----------
    X, Y : array-like, data frame or other table that `fit` takes, of shape (n_samples, n_features) and (m_samples, n_features)
        The real and the synthetic table, with the columns of `schema`. Both are read unprotected, without noise: the error against private
        data is not private.
    schema : dict, Schema or path of a file
        ``{column: (low, high), [levels] or a kind}``, see `skdpsynth.domain.Schema`; at least two columns. Numbers are clipped to their
        bounds.

    Returns
    -------
    error : float
        In [0, 2]; symmetric in `X` and `Y`.

    See Also
    --------
    skdpsynth.metrics.marginal_total_variation : Compares frequencies instead.
    skdpsynth.metrics.train_synthetic_test_real : Compares what can be learned.

    Notes
    -----
    The time is that of a sort of the rows of both tables for each pair: of 30 columns, with 50,000 rows on each side, about 2 seconds.

    Tables that are not in memory, of more than 2^25 cells, are counted in chunks, whatever these are. Their columns of numbers are cut into
    at most 256 parts of about equally many rows (by 100,000 of them, drawn with a fixed public seed), whose rows share a rank: that moves
    the error by less than 0.001, and not at all where there are no more values.

    References
    ----------
    .. [1] C. Spearman, The proof and measurement of association between two things, American Journal of Psychology 15 (1904).
    .. [2] H. Cramer, Mathematical Methods of Statistics, Princeton University Press (1946), section 21.9.
    .. [3] K. Pearson, On the general theory of skew correlation and non-linear regression, Drapers' Company Research Memoirs (1905). Of
       ranks, its square is H / (n - 1) for the H of W. H. Kruskal and W. A. Wallis, Use of ranks in one-criterion variance analysis,
       Journal of the American Statistical Association 47 (1952).

    Examples
    --------
    >>> from skdpsynth.metrics import correlation_error
    >>> X = [[0.1, 0.2], [0.4, 0.5], [0.9, 0.8]]
    >>> Y = [[0.1, 0.8], [0.4, 0.5], [0.9, 0.2]]
    >>> correlation_error(X, Y, {0: (0, 1.0), 1: (0, 1.0)})
    2.0
    """
    schema, tables = read_both(X, Y, schema)
    if len(schema) < 2:
        raise ValueError(f"schema must have at least two columns for a correlation, got {len(schema)}.")
    first, second = (associations_of(rows, schema, list(combinations(range(len(schema)), 2))) for rows in tables)
    return float(np.mean(np.abs(first - second)))


def associations_of(rows: Rows, schema: Schema, pairs: Pairs) -> np.ndarray:
    """Return the association of each pair of columns, as `correlation_error` defines it."""
    nominal = [isinstance(kind, Nominal) for kind in schema.values()]
    if not rows.source.in_memory:
        counted = zip(pairs, _counted_codes(rows, schema, pairs), strict=True)
        return np.array([_association(*each, nominal[i], nominal[j]) for (i, j), each in counted])
    codes = []
    for column, kind in zip(rows.table, schema.values(), strict=True):
        if isinstance(kind, Continuous):
            codes.append(np.where(np.isnan(column), -1, np.unique(column, return_inverse=True)[1]))
        else:
            codes.append(np.where(column < len(kind.levels), column, -1))
    return np.array([_association(codes[i], codes[j], None, nominal[i], nominal[j]) for i, j in pairs])


def association_matrix(columns: list[np.ndarray], schema: Schema) -> np.ndarray:
    """Return the symmetric matrix of associations of columns in memory, read by a nullable schema, with 1 on the diagonal."""
    matrix = np.eye(len(columns))
    first, second = np.triu_indices(len(columns), 1)
    pairs = list(zip(first.tolist(), second.tolist(), strict=True))
    matrix[first, second] = matrix[second, first] = associations_of(Rows.of(columns), schema, pairs)
    return matrix


Codes = tuple[np.ndarray, np.ndarray, np.ndarray | None]  # of two columns, -1 where missing, and frequencies; None: once each


def _counted_codes(rows: Rows, schema: Schema, pairs: Pairs) -> Iterator[Codes]:
    """Yield the combinations that occur; a column of few distinct numbers is cut at each, others into parts of about equally many rows."""
    kinds, cuts = list(schema.values()), {}
    some: Any = sample_rows(rows, _CUT_ROWS, _CUT_SEED)
    for place, kind in enumerate(kinds):
        if isinstance(kind, Continuous):
            distinct = np.unique(some[place][~np.isnan(some[place])])
            cuts[place] = distinct if len(distinct) <= _FINE_PARTS else bin_edges(some[place], _FINE_PARTS)
    parts = QuantileBins(cuts)
    sizes = parts.sizes(kinds)
    for (i, j), (cells, (counts,)) in zip(pairs, contingency_tables([rows.map(parts)], sizes, pairs), strict=True):
        cells, counts = cells[counts > 0], counts[counts > 0]
        a, b = cells // sizes[j], cells % sizes[j]
        # The last code is that of missing cells.
        yield np.where(a < sizes[i] - 1, a, -1), np.where(b < sizes[j] - 1, b, -1), counts


def _association(a: np.ndarray, b: np.ndarray, counts: np.ndarray | None, a_is_nominal: bool, b_is_nominal: bool) -> float:
    known = (a >= 0) & (b >= 0)
    a, b, counts = a[known], b[known], None if counts is None else counts[known]
    if not len(a) or a.min() == a.max() or b.min() == b.max():
        return 0.0
    if a_is_nominal and b_is_nominal:
        rows, columns = np.bincount(a, counts), np.bincount(b, counts)
        place = a * len(columns) + b
        cells, each = np.unique(place, return_counts=True) if counts is None else (place, counts)
        # Cramer's V: chi^2 / n = sum of n_ij^2 / (n_i n_j), less 1: only cells that hold rows count.
        shares = (each**2 / (rows[cells // len(columns)] * columns[cells % len(columns)])).sum()
        return np.sqrt(max(shares - 1, 0) / (min(np.count_nonzero(rows), np.count_nonzero(columns)) - 1))
    if a_is_nominal or b_is_nominal:
        return _correlation_ratio(a, _ranks(b, counts), counts) if a_is_nominal else _correlation_ratio(b, _ranks(a, counts), counts)
    u, v = _ranks(a, counts), _ranks(b, counts)
    return _sum(u * v, counts) / np.sqrt(_sum(u**2, counts) * _sum(v**2, counts))


def _sum(values: np.ndarray, counts: np.ndarray | None) -> float:
    return float((values if counts is None else values * counts).sum())


def _ranks(a: np.ndarray, counts: np.ndarray | None) -> np.ndarray:
    """Return ranks about their mean, (n + 1) / 2."""
    each = np.bincount(a, counts)
    upto = np.cumsum(each)
    return (upto - each / 2)[a] - upto[-1] / 2


def _correlation_ratio(a: np.ndarray, ranks: np.ndarray, counts: np.ndarray | None) -> float:
    """Return the root of the share of the variance of the ranks, whose mean is 0, that lies between the levels of `a`."""
    each, sums = np.bincount(a, counts), np.bincount(a, ranks if counts is None else ranks * counts)
    between = (sums[each > 0] ** 2 / each[each > 0]).sum()
    return np.sqrt(between / _sum(ranks**2, counts))


# Counts of combinations


CellCounts = tuple[np.ndarray, list[np.ndarray]]  # combinations of codes as numbers in mixed radix, and their counts in each table


def contingency_tables(tables: Sequence[Rows], sizes: Sequence[int], sets: Sequence[tuple[int, ...]]) -> Iterator[CellCounts]:
    """Yield, for each set of columns, combinations, all that occur in any table among them, and how often each occurs.

    `sizes` are numbers of codes. Small tables are held whole, as many as fit at one reading; of large ones only what occurs is counted.
    """
    most = min(_MOST_CELLS, 4 * sum(rows.n_samples or 0 for rows in tables))
    waiting: list[tuple[int, ...]] = []
    n_cells = 0
    for columns in sets:
        size = math.prod(sizes[column] for column in columns)
        if size > most or n_cells + size > _MOST_CELLS:
            yield from _whole_tables(tables, sizes, waiting)
            waiting, n_cells = [], 0
        if size > most:
            counted = [total(rows, SparseCount(tuple(sizes), columns)).whole for rows in tables]
            cells = np.unique(np.concatenate([each for each, _ in counted]))
            aligned = np.zeros((len(counted), len(cells)), dtype=np.int64)
            for row, (each, counts) in zip(aligned, counted, strict=True):
                row[np.searchsorted(cells, each)] = counts
            yield cells, list(aligned)
        else:
            waiting.append(columns)
            n_cells += size
    yield from _whole_tables(tables, sizes, waiting)


def _whole_tables(tables: Sequence[Rows], sizes: Sequence[int], sets: Sequence[tuple[int, ...]]) -> Iterator[CellCounts]:
    counted = [total(rows, Marginals.over(sizes, sets)).tables() for rows in tables] if sets else []
    for found in zip(*counted, strict=True):
        yield np.arange(found[0].size), [table.ravel() for table in found]


@dataclass(frozen=True, eq=False, repr=False)  # its counts are private: no repr shows them
class SparseCounts:
    parts: list[tuple[np.ndarray, np.ndarray]]  # (sorted cells, counts), each less than half as long as the one before

    def __add__(self, other: "SparseCounts") -> "SparseCounts":
        return SparseCounts([_merge([*self.parts, *other.parts])])

    @property
    def whole(self) -> tuple[np.ndarray, np.ndarray]:
        return _merge(self.parts)


@dataclass(frozen=True)
class SparseCount(Aggregator):
    """Counts the combinations of codes of some columns that occur."""

    sizes: tuple[int, ...]  # numbers of codes of all columns
    columns: tuple[int, ...]

    def zero(self) -> SparseCounts:
        n_cells = math.prod(self.sizes[column] for column in self.columns)
        if n_cells > _MOST_CODED:
            raise ValueError(f"schema makes {n_cells:.1e} combinations of {len(self.columns)} columns, too many to count; lower `order`.")
        return SparseCounts([])

    def add(self, statistic: SparseCounts, chunk: Chunk) -> SparseCounts:
        cell = chunk[self.columns[0]].astype(np.int64)
        for column in self.columns[1:]:
            cell = cell * self.sizes[column] + chunk[column]
        parts = statistic.parts
        parts.append(np.unique(cell, return_counts=True))
        while len(parts) > 1 and 2 * len(parts[-1][0]) >= len(parts[-2][0]):
            parts[-2:] = [_merge(parts[-2:])]
        return statistic


def _merge(parts: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    if len(parts) < 2:
        return parts[0] if parts else (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    cells, place = np.unique(np.concatenate([part for part, _ in parts]), return_inverse=True)
    counts = np.zeros(len(cells), dtype=np.int64)
    np.add.at(counts, place, np.concatenate([counts for _, counts in parts]))
    return cells, counts


# Quantiles


@dataclass(frozen=True, eq=False)
class QuantileBins:
    """Turns columns of numbers into numbers of their parts, the last for missing cells; leaves columns of levels as they are."""

    cuts: Mapping[int, np.ndarray]  # by the place of a column; an upper end belongs to its part

    def __call__(self, chunk: Chunk) -> Chunk:
        columns = list(chunk)
        for place, cuts in self.cuts.items():
            columns[place] = np.where(np.isnan(chunk[place]), len(cuts) + 1, np.searchsorted(cuts, chunk[place], side="left"))
        return columns

    def sizes(self, kinds: Sequence[Any]) -> list[int]:
        """Return the numbers of codes of columns of these kinds."""
        return [len(self.cuts[place]) + 2 if place in self.cuts else kind.n_codes for place, kind in enumerate(kinds)]


def quantile_bins(rows: Rows, places: Sequence[int], n_parts: int) -> QuantileBins:
    """Cut columns of numbers into at most `n_parts` parts of equal shares of the known cells.

    A column in memory is sorted; rows elsewhere are read four times.
    """
    if rows.source.in_memory:
        return QuantileBins({place: bin_edges(rows.table[place], n_parts) for place in places})
    return QuantileBins({place: _cuts(quantiles) for place, quantiles in _select_quantiles(rows, places, n_parts).items()})


def bin_edges(x: np.ndarray, n_parts: int) -> np.ndarray:
    x = x[~np.isnan(x)]
    return _cuts(np.sort(x)[_ending_ranks(len(x), n_parts)] if len(x) else x)


def _ending_ranks(n: int, n_parts: int) -> np.ndarray:
    """Return which of n sorted values end a part."""
    return (np.arange(1, n_parts) * n + n_parts - 1) // n_parts - 1


def _cuts(quantiles: np.ndarray) -> np.ndarray:
    cuts, times = np.unique(quantiles, return_counts=True)
    # A value that is two quantiles, hence about a part of the rows or more, gets a cut below, too: the number of cuts does not grow.
    return np.sort(np.concatenate([cuts, np.nextafter(cuts[times > 1], -np.inf)]))


def _select_quantiles(rows: Rows, places: Sequence[int], n_parts: int) -> dict[int, np.ndarray]:
    """Return the values that end the parts of each column, digit by digit from the highest on, one at each reading."""
    prefixes = {place: np.zeros(1, dtype=np.uint64) for place in places}
    wanted: dict[int, np.ndarray] = {}
    for shift in range(64 - _DIGIT, -1, -_DIGIT):
        counted = total(rows, CountDigits(prefixes, shift)).counts
        for place, counts in counted.items():
            if place not in wanted:
                n = int(counts.sum())
                wanted[place] = _ending_ranks(n, n_parts) if n else np.zeros(0, dtype=np.int64)
                prefixes[place] = np.zeros(len(wanted[place]), dtype=np.uint64)
            # Append a digit to the prefixes of the wanted values, and find the rank of each among values with its prefix.
            upto = counts.cumsum(axis=1)[np.unique(prefixes[place], return_inverse=True)[1]]
            digit = (upto <= wanted[place][:, None]).sum(axis=1)
            before = np.where(digit > 0, np.take_along_axis(upto, np.maximum(digit - 1, 0)[:, None], axis=1)[:, 0], 0)
            prefixes[place], wanted[place] = (prefixes[place] << np.uint64(_DIGIT)) | digit.astype(np.uint64), wanted[place] - before
    return {place: _values(prefix) for place, prefix in prefixes.items()}


def _keys(x: np.ndarray) -> np.ndarray:
    """Map floats to whole numbers in the same order: flip the sign bit, and all bits of negative ones."""
    bits = (x + 0.0).view(np.uint64)  # of two zeros one
    return np.where(bits >> np.uint64(63), ~bits, bits | np.uint64(1 << 63))


def _values(keys: np.ndarray) -> np.ndarray:
    return np.where(keys >> np.uint64(63), keys & np.uint64((1 << 63) - 1), ~keys).view(float)


@dataclass(frozen=True, eq=False, repr=False)  # its counts are private: no repr shows them
class Digits:
    counts: dict[int, np.ndarray]  # by the place of a column: (n_prefixes, 65536), for sorted prefixes

    def __add__(self, other: "Digits") -> "Digits":
        return Digits({place: counts + other.counts[place] for place, counts in self.counts.items()})


@dataclass(frozen=True, eq=False)
class CountDigits(Aggregator):
    """Counts the next binary digits of the numbers that begin with given prefixes."""

    prefixes: Mapping[int, np.ndarray]  # by the place of a column, uint64
    shift: int  # number of bits after those digits

    def zero(self) -> Digits:
        sizes = {place: len(np.unique(prefixes)) for place, prefixes in self.prefixes.items()}
        return Digits({place: np.zeros((size, _CODES), dtype=np.int64) for place, size in sizes.items()})

    def add(self, statistic: Digits, chunk: Chunk) -> Digits:
        for place, counts in statistic.counts.items():
            column, known = chunk[place], np.unique(self.prefixes[place])
            if not len(known):
                continue
            keys = _keys(column[~np.isnan(column)]) >> np.uint64(self.shift)
            digit, prefix = (keys & np.uint64(_CODES - 1)).astype(np.int64), keys >> np.uint64(_DIGIT)
            row = np.minimum(np.searchsorted(known, prefix), len(known) - 1)
            follows = known[row] == prefix
            counts += np.bincount(row[follows] * _CODES + digit[follows], minlength=counts.size).reshape(counts.shape)
        return statistic
