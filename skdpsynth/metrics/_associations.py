"""Associations of pairs of columns."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from skdpsynth.domain import Continuous, Nominal, Schema
from skdpsynth.frames import Rows
from skdpsynth.metrics._marginals import combination_counts, read_both
from skdpsynth.metrics._quantiles import QuantileBins, bin_edges, sample_rows

_PARTS = 256  # of a column of numbers that is not in memory
_CUT_ROWS = 100_000  # by which it is cut
_CUT_SEED = 20

Pairs = Sequence[tuple[int, int]]


def correlation_error(X: Any, Y: Any, schema: Any) -> float:
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

    Raises
    ------
    ValueError
        If the columns are not those of `schema`, there are fewer than two, or a table has no rows.
    TypeError
        If a dtype cannot hold what `schema` says.

    See Also
    --------
    skdpsynth.metrics.marginal_total_variation : Compares frequencies instead.
    skdpsynth.metrics.train_synthetic_test_real : Compares what can be learned.

    Notes
    -----
    The time is that of a sort of the rows of both tables for each pair: of 30 columns, with 50,000 rows on each side, about 2 seconds.

    Files, lazy frames and all else that is not in memory, of more than 2^25 cells, are counted in chunks. Their columns of numbers are cut
    into at most 256 parts of about equally many rows (by 100,000 of them, drawn with a fixed public seed), whose rows share a rank: that
    moves the error by less than 0.001, and not at all where there are no more values. It is the same whatever the chunks. Smaller ones
    are read into memory.

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
    return np.array(list((_associations_in_memory if rows.source.in_memory else _associations_from_counts)(rows, schema, pairs)))


def association_matrix(columns: list[np.ndarray], schema: Schema) -> np.ndarray:
    """Return the symmetric matrix of associations of columns in memory, read by a nullable schema, with 1 on the diagonal."""
    pairs = list(combinations(range(len(columns)), 2))
    matrix = np.eye(len(columns))
    for (i, j), value in zip(pairs, _associations_in_memory(Rows.held(columns), schema, pairs), strict=True):
        matrix[i, j] = matrix[j, i] = value
    return matrix


def _associations_in_memory(rows: Rows, schema: Schema, pairs: Pairs) -> Iterator[float]:
    nominal = [isinstance(kind, Nominal) for kind in schema.values()]
    levels = [_levels(column, kind) for column, kind in zip(rows.table, schema.values(), strict=True)]
    for i, j in pairs:
        yield _association(levels[i], levels[j], None, nominal[i], nominal[j])


def _associations_from_counts(rows: Rows, schema: Schema, pairs: Pairs) -> Iterator[float]:
    kinds = list(schema.values())
    nominal = [isinstance(kind, Nominal) for kind in kinds]
    some: Any = sample_rows(rows, _CUT_ROWS, _CUT_SEED)
    parts = QuantileBins({place: _cuts(some[place]) for place, kind in enumerate(kinds) if isinstance(kind, Continuous)})
    sizes = [parts.size(place) if place in parts.cuts else kind.n_codes for place, kind in enumerate(kinds)]
    for (i, j), (cells, counts) in zip(pairs, combination_counts(rows.map(parts), sizes, pairs), strict=True):
        a, b = cells // sizes[j], cells % sizes[j]
        # The last code is that of missing cells.
        a, b = np.where(a < sizes[i] - 1, a, -1), np.where(b < sizes[j] - 1, b, -1)
        yield _association(a, b, counts, nominal[i], nominal[j])


def _cuts(column: np.ndarray) -> np.ndarray:
    """Cut a column at each distinct number if these are few, else into parts of about equally many rows."""
    distinct = np.unique(column[~np.isnan(column)])
    return distinct if len(distinct) <= _PARTS else bin_edges(column, _PARTS)


def _levels(column: np.ndarray, kind: Any) -> np.ndarray:
    """Return values as whole numbers in their order, -1 where missing."""
    if not isinstance(kind, Continuous):
        return np.where(column < len(kind.levels), column, -1)
    return np.where(np.isnan(column), -1, np.unique(column, return_inverse=True)[1])


def _association(a: np.ndarray, b: np.ndarray, counts: np.ndarray | None, a_is_nominal: bool, b_is_nominal: bool) -> float:
    """Return the association of two columns of codes, -1 where missing; `counts` are frequencies (None: once each)."""
    known = (a >= 0) & (b >= 0)
    a, b, counts = a[known], b[known], None if counts is None else counts[known]
    if not len(a) or a.min() == a.max() or b.min() == b.max():
        return 0.0
    if a_is_nominal and b_is_nominal:
        return _cramer(a, b, counts)
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


def _cramer(a: np.ndarray, b: np.ndarray, counts: np.ndarray | None) -> float:
    rows, columns = np.bincount(a, counts), np.bincount(b, counts)
    cells, each = np.unique(a * len(columns) + b, return_counts=True) if counts is None else (a * len(columns) + b, counts)
    # chi^2 / n = sum of n_ij^2 / (n_i n_j), less 1: only cells that hold rows count.
    shares = (each**2 / (rows[cells // len(columns)] * columns[cells % len(columns)])).sum()
    return np.sqrt(max(shares - 1, 0) / (min(np.count_nonzero(rows), np.count_nonzero(columns)) - 1))


def _correlation_ratio(a: np.ndarray, ranks: np.ndarray, counts: np.ndarray | None) -> float:
    """Return the root of the share of the variance of the ranks, whose mean is 0, that lies between the levels of `a`."""
    each, sums = np.bincount(a, counts), np.bincount(a, ranks if counts is None else ranks * counts)
    between = (sums[each > 0] ** 2 / each[each > 0]).sum()
    return np.sqrt(between / _sum(ranks**2, counts))
