"""Captured variance of components."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpsynth.frames import as_float_matrix
from skdpsynth.metrics._quantiles import NUMBERS, ends_of, open_numbers
from skdpsynth.statistics import Aggregator, total


def captured_variance_ratio(X: Any, components: Any) -> float:
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
            f"components must have the columns of a non-empty X, got shapes {components.shape} and {(rows.n_samples, rows.n_features)}."
        )
    if not np.isfinite(components).all():
        raise ValueError("components must be finite; leave out those that are not.")
    scatter = total(rows, SumScatter(rows.n_features, _exponent_of(np.abs(ends_of(rows)).max())))
    return _ratio(scatter.products, np.ldexp(components, -_exponent_of(np.abs(components).max(initial=0))))


def _exponent_of(largest: Any) -> int:
    """Return a power of two as the unit, so that neither sums nor squares overflow or vanish; ratios stay the same."""
    return int(np.frexp(largest)[1])


def _ratio(covariance: np.ndarray, components: np.ndarray) -> float:
    basis, _ = np.linalg.qr(components.T)
    best = np.linalg.eigvalsh(covariance)[::-1][: basis.shape[1]].sum()
    return float(np.clip(np.trace(basis.T @ covariance @ basis) / best, 0, 1)) if best > 0 else 1.0


@dataclass(frozen=True, eq=False, repr=False)  # its sums are private: no repr shows them
class Scatter:
    """Mean of rows, and the sum of their products about it."""

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
