"""How much of the variance a set of directions keeps."""

from typing import Any

import numpy as np

from skdpsynth._input import matrix
from skdpsynth.metrics._wasserstein import NUMBERS


def captured_variance_ratio(X: Any, components: Any) -> float:
    """Return the variance of `X` in the span of `components`, over the most that any span of that dimension captures.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Read unprotected.
    components : array-like of shape (n_components, n_features)
        Linearly independent rows, such as ``PrivatePCA.components_``.

    Returns
    -------
    ratio : float
        In [0, 1]; 1 for the components of non-private PCA (and for constant data).

    Examples
    --------
    >>> from skdpsynth.metrics import captured_variance_ratio
    >>> captured_variance_ratio([[0.0, 0.0], [1.0, 1.0]], [[1.0, 0.0]])
    0.5
    """
    X, components = matrix(X, "X", NUMBERS), np.atleast_2d(matrix(components, "components", NUMBERS))
    if X.ndim != 2 or not len(X) or components.ndim != 2 or components.shape[1] != X.shape[1]:
        raise ValueError(f"components must have the columns of a non-empty X, got shapes {components.shape} and {X.shape}.")
    if not (np.isfinite(X).all() and np.isfinite(components).all()):
        raise ValueError("X and components must be finite; impute or drop missing values first.")
    return _ratio(_in_units(X), _in_units(components))


def _in_units(rows: np.ndarray) -> np.ndarray:
    """Return rows times a power of two, so that neither sums nor squares of them overflow or vanish: ratios stay as they are."""
    return np.ldexp(rows, -np.frexp(np.abs(rows).max(initial=0))[1])


def _ratio(X: np.ndarray, components: np.ndarray) -> float:
    # About the first row, so that constant columns give exact zeros.
    centred = X - X[0]
    centred -= centred.mean(axis=0)
    covariance = centred.T @ centred
    basis, _ = np.linalg.qr(components.T)
    best = np.linalg.eigvalsh(covariance)[::-1][: basis.shape[1]].sum()
    return float(np.clip(np.trace(basis.T @ covariance @ basis) / best, 0, 1)) if best > 0 else 1.0
