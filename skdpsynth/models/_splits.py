"""Mass shared downwards in a tree of noisy counts, where many hold more noise than rows."""

from collections.abc import Sequence

import numpy as np
from scipy.special import betaincinv

_POINTS = 25  # that stand for the prior of a share
_CLEAR = 6.0  # deviations: the estimates of a node of more rows are taken as they are


def mass_of_splits(estimates: Sequence[np.ndarray], errors: Sequence[float], root: float, n_cells: int) -> np.ndarray:
    """Give the children of each node what is to be expected of its mass, given the noisy difference of their counts.

    Estimates cut off at 0 and at the mass of the node would make a law of noise where noise is large: of few rows, one that is farther from
    theirs than the uniform law is. Here the share of the left child is beta distributed before, with the share of its cells as mean and
    one observation's worth of weight (Jeffreys' prior, where both have as many): heaps and atoms are as likely as even splits.

    Parameters
    ----------
    estimates : list of ndarray of shape (2**j,)
        Of the levels 1 to depth, by least squares from below.
    errors : list of float
        Variance of each estimate of a level.
    root : float
        Mass of the root.
    n_cells : int
        How many leaves can hold rows.

    Returns
    -------
    mass : ndarray of shape (n_cells,)
    """
    mass = np.array([root])
    for level, variance in zip(estimates, errors, strict=True):
        cells = np.clip(n_cells - np.arange(len(level)) * (1 << len(estimates)) // len(level), 0, (1 << len(estimates)) // len(level))
        left, right = cells[0::2], cells[1::2]
        shares = _shares(mass, level[0::2] - level[1::2], 2 * variance, left / np.maximum(left + right, 1))
        mass = np.stack([mass * shares, mass * (1 - shares)], axis=1).ravel()
    return mass[:n_cells]


def _shares(mass: np.ndarray, differences: np.ndarray, variance: float, means: np.ndarray) -> np.ndarray:
    """Return the expected share of the left child of each node."""
    whole = np.where(mass > 0, mass, 1.0)
    shares = np.clip((differences / whole + 1) / 2, 0, 1)
    noisy = mass <= _CLEAR * np.sqrt(variance)
    shares[noisy & (means == 1)] = 1.0
    for mean in np.unique(means[noisy & (means > 0) & (means < 1)]):
        here = noisy & (means == mean)
        points = betaincinv(mean, 1 - mean, (np.arange(_POINTS) + 0.5) / _POINTS)
        off = differences[here, None] - mass[here, None] * (2 * points - 1)
        weights = np.exp((np.min(off**2, axis=1, keepdims=True) - off**2) / (2 * variance))
        shares[here] = (weights @ points) / weights.sum(axis=1)
    return shares
