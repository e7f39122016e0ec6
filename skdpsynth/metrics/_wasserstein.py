"""Wasserstein-1 distances between two samples."""

import warnings

import numpy as np

from skdpsynth._sklearn import check_choice

METRICS = ("chebyshev", "cityblock", "euclidean")
_LARGEST = 6000  # rows a side: the cost matrix then takes 288 MB
_ITERATIONS = 10_000_000


def wasserstein_distance(X, Y, metric="chebyshev"):
    """Return the exact 1-Wasserstein distance between two samples with equal weights.

    One dimension: the closed form, any size. Otherwise the optimal transport program: by POT where it is installed, else,
    for samples of equal size, by scipy's assignment.

    Parameters
    ----------
    X, Y : array-like of shape (n_samples, n_features) and (m_samples, n_features)
        Read unprotected: the distance to private data is not private.
    metric : {"chebyshev", "cityblock", "euclidean"}, default="chebyshev"
        The distance between two rows.

    Returns
    -------
    distance : float
        In the units of the data.

    Raises
    ------
    ValueError
        If the shapes do not fit, or a sample of two or more features has more than 6000 rows.
    ImportError
        If the sizes differ and POT (the extra ``transport``) is not installed.

    Examples
    --------
    >>> from skdpsynth.metrics import wasserstein_distance
    >>> wasserstein_distance([[0.0, 0.0], [1.0, 0.0]], [[0.0, 0.5], [1.0, 0.5]])
    0.5
    """
    X, Y = _check_samples(X, Y)
    check_choice("metric", metric, METRICS)
    if X.shape[1] == 1:
        return _one_dimension(X[:, 0], Y[:, 0])
    if max(len(X), len(Y)) > _LARGEST:
        raise ValueError(
            f"X and Y must have at most {_LARGEST} rows for the exact distance, got {len(X)} and {len(Y)}; "
            "thin them, or use sliced_wasserstein_distance."
        )
    from scipy.spatial.distance import cdist

    cost = cdist(X, Y, metric)
    try:
        from ot import emd2
    except ImportError:
        return _assignment(cost)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the log says it too
        value, log = emd2(np.full(len(X), 1 / len(X)), np.full(len(Y), 1 / len(Y)), cost, numItermax=_ITERATIONS, log=True)
    if log["warning"]:
        raise RuntimeError(f"The transport program of {len(X)} x {len(Y)} rows did not reach its optimum; thin the samples.")
    return float(value)


def sliced_wasserstein_distance(X, Y, n_projections=100, random_state=0):
    """Return the mean 1-Wasserstein distance of two samples over random directions.

    Parameters
    ----------
    X, Y : array-like of shape (n_samples, n_features) and (m_samples, n_features)
        Read unprotected.
    n_projections : int, default=100
        Number of directions, uniform on the sphere.
    random_state : int, default=0
        Seed of the directions.

    Returns
    -------
    distance : float
        In the units of the data.

    Examples
    --------
    >>> from skdpsynth.metrics import sliced_wasserstein_distance
    >>> round(sliced_wasserstein_distance([[0.0], [1.0]], [[0.5], [1.5]]), 6)
    0.5
    """
    from scipy.stats import uniform_direction

    X, Y = _check_samples(X, Y)
    directions = uniform_direction(X.shape[1]).rvs(n_projections, random_state=np.random.default_rng(random_state))
    return float(np.mean([_one_dimension(X @ direction, Y @ direction) for direction in directions]))


def _one_dimension(x, y):
    """Area between the two quantile functions."""
    if len(x) == len(y):
        return float(np.mean(np.abs(np.sort(x) - np.sort(y))))
    from scipy.stats import wasserstein_distance as closed_form

    return float(closed_form(x, y))


def _assignment(cost):
    if cost.shape[0] != cost.shape[1]:
        raise ImportError(
            f"Samples of different sizes, {cost.shape[0]} and {cost.shape[1]}, need POT: pip install 'skdpsynth[transport]'; "
            "or give equal sizes."
        )
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(cost)
    return float(cost[rows, columns].mean())


def _check_samples(X, Y):
    X, Y = np.asarray(X, dtype=float), np.asarray(Y, dtype=float)
    if X.ndim != 2 or Y.ndim != 2 or X.shape[1] != Y.shape[1] or not len(X) or not len(Y):
        raise ValueError(f"X and Y must be non-empty tables with the same columns, got shapes {X.shape} and {Y.shape}.")
    if not (np.isfinite(X).all() and np.isfinite(Y).all()):
        raise ValueError("X and Y must be finite; impute or drop missing values first.")
    return X, Y
