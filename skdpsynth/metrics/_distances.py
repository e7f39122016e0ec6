"""Wasserstein distances between two samples, and the variance that components capture."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from skdpsynth._validation import check_choice, check_integer
from skdpsynth.frames import as_float_matrix
from skdpsynth.metrics._read_tables import NUMBERS, Table, check_subsample, ends_of, open_numbers, sample_rows
from skdpsynth.statistics import Aggregator, total

METRICS = ("chebyshev", "cityblock", "euclidean", "haversine")
_EARTH = 6371.0088  # kilometers: the mean radius
_LARGEST = 6000  # rows a side: the cost matrix then takes 288 MB
_ITERATIONS = 10_000_000
_MOST_PROJECTIONS = 10**6
_MOST_PROJECTED = 2**28  # values, beyond the default: they are sorted in some ten seconds
_LARGE = 2.0**1000  # beyond it sums of cells may overflow


def wasserstein_distance(X: Table, Y: Table, metric: str = "chebyshev", *, max_samples: int = 2000, random_state: int | None = 0) -> float:
    """Return the exact 1-Wasserstein distance between two samples with equal weights.

    One dimension: the closed form, any size. Otherwise the optimal transport program, of at most 6000 rows each: by POT (the extra
    ``transport``) where it is installed, else, for samples of equal size, by scipy's assignment.

    Parameters
    ----------
    X, Y : array-like, data frame or other table that `fit` takes, of shape (n_samples, n_features) and (m_samples, n_features)
        Read unprotected: the distance to private data is not private. Arrays and frames in memory are compared row by row.
    metric : {"chebyshev", "cityblock", "euclidean", "haversine"}, default="chebyshev"
        The distance between two rows. "haversine": along the surface of the Earth, between rows of latitude and longitude in degrees.
    max_samples : int, default=2000
        How many rows are drawn, without replacement, of a file or another table that is not in memory and has more. The distance is
        then that of the drawn rows, which is larger than that of all: compare with the distance between two halves of the real rows.
    random_state : int or None, default=0
        Seed of the rows that are drawn. None: other ones at each call.

    Returns
    -------
    distance : float
        In the units of the data; kilometers for "haversine", by the mean radius of the Earth, 6371.0088 km.

    See Also
    --------
    skdpsynth.metrics.sliced_wasserstein_distance : Cheaper, for many columns or rows.
    skdpsynth.metrics.marginal_total_variation : For tables of mixed types.

    Examples
    --------
    >>> from skdpsynth.metrics import wasserstein_distance
    >>> wasserstein_distance([[0.0, 0.0], [1.0, 0.0]], [[0.0, 0.5], [1.0, 0.5]])
    0.5
    >>> round(wasserstein_distance([[0.0, 179.5]], [[0.0, -179.5]], metric="haversine"), 3)  # a degree of the equator
    111.195
    """
    check_choice("metric", metric, METRICS)
    check_subsample(max_samples, random_state)
    X, Y, unit = _samples(X, Y, max_samples, random_state)
    if metric == "haversine":
        _check_degrees(X, Y)
    if X.shape[1] == 1:
        return unit * _one_dimension(X[:, 0], Y[:, 0])
    if max(len(X), len(Y)) > _LARGEST:
        raise ValueError(
            f"X and Y must have at most {_LARGEST} rows, got {len(X)} and {len(Y)}; thin them, or use sliced_wasserstein_distance."
        )
    from scipy.spatial.distance import cdist

    cost, n, m = _kilometers(X, Y) if metric == "haversine" else cdist(X, Y, metric), len(X), len(Y)
    try:
        from ot import emd2
    except ImportError:
        if n != m:
            way_out = "pip install 'skdpsynth[transport]'; or give equal sizes."
            raise ImportError(f"Samples of different sizes, {n} and {m}, need POT: {way_out}") from None
        from scipy.optimize import linear_sum_assignment

        return unit * float(cost[linear_sum_assignment(cost)].mean())
    # POT also warns of an error in the log: then this raises.
    value, log = emd2(np.full(n, 1 / n), np.full(m, 1 / m), cost, numItermax=_ITERATIONS, log=True)
    if log["warning"]:
        raise RuntimeError(f"The transport program of {n} x {m} rows did not reach its optimum; thin the samples.")
    return unit * float(value)


def sliced_wasserstein_distance(
    X: Table, Y: Table, n_projections: int = 100, random_state: int | None = 0, *, max_samples: int = 100_000
) -> float:
    """Return the mean 1-Wasserstein distance of two samples over random directions.

    Parameters
    ----------
    X, Y : array-like, data frame or other table that `fit` takes, of shape (n_samples, n_features) and (m_samples, n_features)
        Read unprotected. All rows of arrays and frames in memory count.
    n_projections : int, default=100
        Number of directions, uniform on the sphere: 1 to 1,000,000. Above 100, the directions times the rows of both tables may be at
        most 2^28.
    random_state : int or None, default=0
        Seed of the directions, and of the rows that are drawn. None: other ones at each call.
    max_samples : int, default=100000
        How many rows are drawn, without replacement, of a file or another table that is not in memory and has more.

    Returns
    -------
    distance : float
        In the units of the data.

    See Also
    --------
    skdpsynth.metrics.wasserstein_distance : Exact, for few columns and some thousand rows.

    Examples
    --------
    >>> from skdpsynth.metrics import sliced_wasserstein_distance
    >>> round(sliced_wasserstein_distance([[0.0], [1.0]], [[0.5], [1.5]]), 6)
    0.5
    """
    from scipy.stats import uniform_direction

    n_projections = check_integer("n_projections", n_projections, 1, _MOST_PROJECTIONS, "100 is the default")
    check_subsample(max_samples, random_state)
    X, Y, unit = _samples(X, Y, max_samples, random_state)
    most = max(100, _MOST_PROJECTED // (len(X) + len(Y)))
    if n_projections > most:
        sizes = f"{most} for {len(X)} and {len(Y)} rows"
        raise ValueError(f"n_projections must be at most {sizes}, got {n_projections}; take fewer rows for more directions.")
    directions = uniform_direction(X.shape[1]).rvs(n_projections, random_state=np.random.default_rng(random_state))
    return unit * float(np.mean([_one_dimension(X @ direction, Y @ direction) for direction in directions]))


def _check_degrees(*tables: np.ndarray) -> None:
    if any(points.shape[1] != 2 or (np.abs(points) > [90, 360]).any() for points in tables):
        raise ValueError(
            'X and Y must have two columns for metric="haversine", latitudes from -90 to 90 and longitudes from -360 to 360 degrees; '
            "select them, in this order."
        )


def _kilometers(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Return great-circle distances by chords of the unit sphere: half of one is the root of the haversine."""
    from scipy.spatial.distance import cdist

    turns = (np.radians(points).T for points in (X, Y))
    vectors = (np.column_stack([np.cos(lat) * np.cos(long), np.cos(lat) * np.sin(long), np.sin(lat)]) for lat, long in turns)
    kilometers: np.ndarray = 2 * _EARTH * np.arcsin(np.minimum(cdist(*vectors) / 2, 1))  # rounding may exceed a diameter
    return kilometers


def _one_dimension(x: np.ndarray, y: np.ndarray) -> float:
    """Return the area between the two quantile functions."""
    if len(x) == len(y):
        return float(np.mean(np.abs(np.sort(x) - np.sort(y))))
    from scipy.stats import wasserstein_distance as closed_form

    return float(closed_form(x, y))


def _samples(X: Table, Y: Table, max_samples: int, seed: int | None) -> tuple[np.ndarray, np.ndarray, float]:
    """Return two arrays of numbers and their unit, which exceeds 1 for numbers so large that sums would overflow."""
    X, Y = (sample_rows(open_numbers(table, name), max_samples, seed) for table, name in ((X, "X"), (Y, "Y")))
    if X.shape[1] != Y.shape[1] or not X.size or not Y.size:
        raise ValueError(f"X and Y must be non-empty tables with the same columns, got shapes {X.shape} and {Y.shape}.")
    unit = 2.0**40 if max(np.abs(X).max(), np.abs(Y).max()) > _LARGE else 1.0
    return (X / unit, Y / unit, unit) if unit > 1 else (X, Y, unit)


def captured_variance_ratio(X: Table, components: ArrayLike) -> float:
    """Return the variance of `X` in the span of `components`, over the most that any span of that dimension captures.

    Parameters
    ----------
    X : array-like, data frame or other table that `fit` takes, of shape (n_samples, n_features)
        Read unprotected. Files and all else that is not in memory are summed up in chunks, in two readings: the ratio is that in memory up
        to rounding.
    components : array-like of shape (n_components, n_features)
        Linearly independent rows, such as ``PrivatePCA.components_``.

    Returns
    -------
    ratio : float
        In [0, 1]; 1 for the components of non-private PCA (and for constant data).

    See Also
    --------
    PrivatePCA : Private directions.

    Examples
    --------
    >>> from skdpsynth.metrics import captured_variance_ratio
    >>> captured_variance_ratio([[0.0, 0.0], [1.0, 1.0]], [[1.0, 0.0]])
    0.5
    """
    rows, components = open_numbers(X, "X"), np.atleast_2d(as_float_matrix(components, "components", NUMBERS))
    if not rows.n_features or not rows.n_samples or components.ndim != 2 or components.shape[1] != rows.n_features:
        raise ValueError(
            f"components must have the columns of a non-empty X, got {components.shape} for {rows.n_samples} x {rows.n_features}."
        )
    if not np.isfinite(components).all():
        raise ValueError("components must be finite; leave out those that are not.")
    # In units of a power of two neither sums nor squares overflow or vanish; ratios stay the same.
    exponents = [int(np.frexp(largest)[1]) for largest in (np.abs(ends_of(rows)).max(), np.abs(components).max(initial=0))]
    covariance = total(rows, SumScatter(rows.n_features, exponents[0])).products
    basis, _ = np.linalg.qr(np.ldexp(components, -exponents[1]).T)
    best = np.linalg.eigvalsh(covariance)[::-1][: basis.shape[1]].sum()
    return float(np.clip(np.trace(basis.T @ covariance @ basis) / best, 0, 1)) if best > 0 else 1.0


@dataclass(frozen=True, eq=False, repr=False)  # its sums are private: no repr shows them
class Scatter:
    n_samples: int
    mean: np.ndarray
    products: np.ndarray  # (n_features, n_features)

    def __add__(self, other: "Scatter") -> "Scatter":
        """Combine by the formula of Chan, Golub and LeVeque (1979), which cancels no digits."""
        if not self.n_samples or not other.n_samples:
            return self if self.n_samples else other
        n, apart = self.n_samples + other.n_samples, other.mean - self.mean
        between = np.outer(apart, apart) * (self.n_samples / n * other.n_samples)
        return Scatter(n, self.mean + apart * (other.n_samples / n), self.products + other.products + between)


@dataclass(frozen=True)
class SumScatter(Aggregator):
    """Sums products about the mean, in units of a power of two; float sums agree up to rounding, however rows are cut."""

    n_features: int
    exponent: int

    def zero(self) -> Scatter:
        return Scatter(0, np.zeros(self.n_features), np.zeros((self.n_features, self.n_features)))

    def add(self, statistic: Scatter, chunk: np.ndarray) -> Scatter:
        if not len(chunk):
            return statistic
        rows = np.ldexp(chunk, -self.exponent)
        # About the first row, so that constant columns give exact zeros.
        first = rows[0].copy()
        rows -= first
        mean = rows.mean(axis=0)
        rows -= mean
        return statistic + Scatter(len(rows), first + mean, rows.T @ rows)
