"""How well a synthetic table keeps the marginals and the associations of the columns of a real one."""

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from skdpsynth._checks import is_whole, shown
from skdpsynth.domain import Continuous, Nominal, Schema, columns_of

_PARTS = 12  # of a column of numbers: as in the measurements of the documentation


def marginal_total_variation(X: Any, Y: Any, schema: Any, order: int = 2) -> float:
    """Return the mean total variation distance between the marginals of two tables, over all sets of `order` columns.

    A column of numbers is cut into at most 12 parts of equally many rows of `X`; a value so frequent that two cuts meet in it is a part of
    its own. A column of levels is taken as it is. A missing cell is a level more, also where `schema` knows none there; so is a level that
    `schema` does not know.

    Parameters
    ----------
    X, Y : array-like or data frame of shape (n_samples, n_features) and (m_samples, n_features)
        The real and the synthetic table, with the columns of `schema`. Both are read unprotected, without noise: the distance to private
        data is not private.
    schema : dict or Schema
        ``{column: (low, high), [levels] or a kind}``, see `skdpsynth.domain.Schema`. Numbers are clipped to their bounds.
    order : {1, 2, 3}, default=2
        How many columns a marginal has.

    Returns
    -------
    distance : float
        In [0, 1]: the mean over the marginals of the largest difference between the shares of rows that any event has in them. It does not
        fall as `order` grows, and is symmetric for columns of levels; those of numbers are cut by `X`.

    Raises
    ------
    ValueError
        If the columns are not those of `schema`, a table has no rows, or `order` is not 1, 2, 3 or is more than the number of columns.
    TypeError
        If a dtype cannot hold what `schema` says.

    Notes
    -----
    The time is that of a pass over the rows of both tables for each of the (n_features choose `order`) sets: of 30 columns 30, 435 and
    4060 sets, with 50,000 rows on each side about 0.5, 0.5 and 2 seconds.

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
    if not is_whole(order, 1, 3):
        raise ValueError(f"order must be 1, 2 or 3, got {shown(order)}.")
    schema, real, synthetic = _read_both(X, Y, schema)
    if order > len(schema):
        raise ValueError(f"order must be at most the number of columns, {len(schema)}, got {order}.")
    n, m = len(real[0]), len(synthetic[0])
    coded = [_codes(kind, x, y) for kind, x, y in zip(schema.values(), real, synthetic, strict=True)]
    distances = []
    for columns in combinations(coded, order):
        cells, size = _cells(columns, n + m)
        differences = m * np.bincount(cells[:n], minlength=size) - n * np.bincount(cells[n:], minlength=size)
        distances.append(np.abs(differences).sum() / (2 * n * m))  # whole numbers, so that 0 and 1 are exact
    return float(np.mean(distances))


def _codes(kind: Any, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, int]:
    """Return (codes of a column of both tables, number of codes)."""
    both = np.concatenate([x, y])
    return _parts(both, _cuts(x[~np.isnan(x)])) if isinstance(kind, Continuous) else (both, kind.n_codes)


def _cells(columns: tuple[tuple[np.ndarray, int], ...], n_rows: int) -> tuple[np.ndarray, int]:
    """Return (number of the cell that each row is in, number of cells)."""
    cells, size = columns[0]
    for codes, n_codes in columns[1:]:
        cells, size = cells * n_codes + codes, size * n_codes
        if size > 4 * n_rows:
            # Only cells that hold rows are counted, however many there are.
            found, cells = np.unique(cells, return_inverse=True)
            size = len(found)
    return cells, size


def _read_both(X: Any, Y: Any, schema: Any) -> tuple[Schema, list[np.ndarray], list[np.ndarray]]:
    """Return (schema, columns of X, columns of Y), where every cell may be missing: a missing one is no midpoint and no first level."""
    schema = schema if isinstance(schema, Schema) else Schema(schema)
    schema = Schema({name: replace(kind, nullable=True) for name, kind in schema.items()})
    return schema, list(columns_of(X, schema).values()), list(columns_of(Y, schema, "Y").values())


def _cuts(x: np.ndarray) -> np.ndarray:
    """Where to cut numbers into at most 12 parts of equal shares; an upper end belongs to its part."""
    if not len(x):
        return np.empty(0)
    quantiles = np.sort(x)[(np.arange(1, _PARTS) * len(x) + _PARTS - 1) // _PARTS - 1]
    cuts, times = np.unique(quantiles, return_counts=True)
    # A value that is two quantiles, with about 1/12 of the rows or more, is cut off from below too: 11 cuts at most, as before.
    return np.sort(np.concatenate([cuts, np.nextafter(cuts[times > 1], -np.inf)]))


def _parts(x: np.ndarray, cuts: np.ndarray) -> tuple[np.ndarray, int]:
    """Return (number of the part that each value is in, the last for a missing one; how many parts there are)."""
    return np.where(np.isnan(x), len(cuts) + 1, np.searchsorted(cuts, x, side="left")), len(cuts) + 2


def correlation_error(X: Any, Y: Any, schema: Any) -> float:
    """Return the mean absolute difference of the associations of two tables, over all pairs of columns.

    The association of a pair, in each table by itself, is

    - of two ordered columns (`Continuous` or `Ordinal`): Spearman's rank correlation [1]_, in [-1, 1];
    - of two `Nominal` columns: Cramer's V [2]_, in [0, 1], without correction, over the levels that occur;
    - of a `Nominal` and an ordered column: the correlation ratio [3]_ of the ranks, in [0, 1], the root of the share of the variance of the
      ranks that lies between the levels.

    Equal values have the mean of their ranks. Rows in which one of the two cells is missing, or has a level that `schema` does not know,
    are left out of the pair. Where a column is constant on the rows that remain, or none remain, the association is 0.

    Parameters
    ----------
    X, Y : array-like or data frame of shape (n_samples, n_features) and (m_samples, n_features)
        The real and the synthetic table, with the columns of `schema`. Both are read unprotected, without noise: the error against private
        data is not private.
    schema : dict or Schema
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

    Notes
    -----
    The time is that of a sort of the rows of both tables for each pair: of 30 columns, with 50,000 rows on each side, about 2 seconds.

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
    schema, real, synthetic = _read_both(X, Y, schema)
    if len(schema) < 2:
        raise ValueError(f"schema must have at least two columns for a correlation, got {len(schema)}.")
    nominal = [isinstance(kind, Nominal) for kind in schema.values()]
    tables = [[_levels(column, kind) for column, kind in zip(table, schema.values(), strict=True)] for table in (real, synthetic)]
    differences = []
    for i, j in combinations(range(len(schema)), 2):
        first, second = (_association(table[i], table[j], nominal[i], nominal[j]) for table in tables)
        differences.append(abs(first - second))
    return float(np.mean(differences))


def _levels(column: np.ndarray, kind: Any) -> np.ndarray:
    """Return values as whole numbers in their order, -1 where missing."""
    if not isinstance(kind, Continuous):
        return np.where(column < len(kind.levels), column, -1)
    return np.where(np.isnan(column), -1, np.unique(column, return_inverse=True)[1])


def _association(a: np.ndarray, b: np.ndarray, a_is_nominal: bool, b_is_nominal: bool) -> float:
    known = (a >= 0) & (b >= 0)
    a, b = a[known], b[known]
    if not len(a) or a.min() == a.max() or b.min() == b.max():
        return 0.0
    if a_is_nominal and b_is_nominal:
        return _cramer(a, b)
    if a_is_nominal or b_is_nominal:
        return _correlation_ratio(a, _ranks(b)) if a_is_nominal else _correlation_ratio(b, _ranks(a))
    u, v = _ranks(a), _ranks(b)
    return (u * v).sum() / np.sqrt((u**2).sum() * (v**2).sum())


def _ranks(a: np.ndarray) -> np.ndarray:
    """Ranks about their mean, (n + 1) / 2."""
    counts = np.bincount(a)
    return (np.cumsum(counts) - counts / 2)[a] - len(a) / 2


def _cramer(a: np.ndarray, b: np.ndarray) -> float:
    rows, columns = np.bincount(a), np.bincount(b)
    cells, counts = np.unique(a * len(columns) + b, return_counts=True)
    # chi^2 / n = sum of n_ij^2 / (n_i n_j), less 1: only cells that hold rows count.
    shares = (counts**2 / (rows[cells // len(columns)] * columns[cells % len(columns)])).sum()
    return np.sqrt(max(shares - 1, 0) / (min(np.count_nonzero(rows), np.count_nonzero(columns)) - 1))


def _correlation_ratio(a: np.ndarray, ranks: np.ndarray) -> float:
    """Root of the share of the variance of the ranks, which have mean zero, that lies between the levels of `a`."""
    counts, sums = np.bincount(a), np.bincount(a, ranks)
    between = (sums[counts > 0] ** 2 / counts[counts > 0]).sum()
    return np.sqrt(between / (ranks**2).sum())
