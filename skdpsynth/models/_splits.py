"""Mass shared downwards in a tree of noisy counts, where many hold more noise than rows."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy.special import betaincinv

_LEAST_MEAN = 0.05  # of a share before noise is read
_MEANS = 64  # in so many parts: quantiles are computed once for each
_POINTS = 25  # that stand for the prior of a share
_CLEAR = 6.0  # deviations: the estimates of a node of more rows are taken as they are


def split_mass(estimates: Sequence[np.ndarray], errors: Sequence[float], root: float, n_cells: int) -> np.ndarray:
    """Give the children of each node what is to be expected of its mass, given the noisy difference of their counts.

    Estimates cut off at 0 and at the mass of the node would make a law of noise where noise is large: of few rows, one that is farther from
    theirs than the uniform law is. Here the share of the left child is beta distributed before, with one observation's worth of weight, so
    heaps and atoms are as likely as even splits. Its mean goes with the slope of the masses beside the node, as that of the smoothest
    density with these masses does: with even splits the ends of a law that noise hides would be too far out.

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
        shares = _posterior_shares(mass, level[0::2] - level[1::2], 2 * variance, _smooth_shares(mass, cells[0::2], cells[1::2]))
        mass = np.stack([mass * shares, mass * (1 - shares)], axis=1).ravel()
    return mass[:n_cells]


def _smooth_shares(mass: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the share of the left child of each node that a smooth density has, from the numbers of cells of both.

    The parabola whose integrals over a node and the nodes beside it are their masses A, M and C gives the left half of the node
    M / 2 - (C - A) / 16. At an end the slope is that to the one node beside it.
    """
    cells = left + right
    even = left / np.maximum(cells, 1)
    n_nodes = int((cells > 0).sum())
    if n_nodes < 2:
        return even
    density = mass[:n_nodes] / cells[:n_nodes]
    slopes = 2 * np.gradient(density)
    bent = 0.5 - np.divide(slopes, 16 * density, out=np.zeros(n_nodes), where=density > 0)
    bent = np.rint(_MEANS * np.clip(bent, _LEAST_MEAN, 1 - _LEAST_MEAN)) / _MEANS
    even[:n_nodes] = np.where(left[:n_nodes] == right[:n_nodes], bent, even[:n_nodes])
    return even


def _posterior_shares(mass: np.ndarray, differences: np.ndarray, variance: float, means: np.ndarray) -> np.ndarray:
    """Return the expected share of the left child of each node."""
    whole = np.where(mass > 0, mass, 1.0)
    shares = np.clip((differences / whole + 1) / 2, 0, 1)
    noisy = mass <= _CLEAR * np.sqrt(variance)
    shares[noisy & (means == 1)] = 1.0
    for mean in np.unique(means[noisy & (means > 0) & (means < 1)]):
        here, points = noisy & (means == mean), _prior_points(float(mean))
        off = differences[here, None] - mass[here, None] * (2 * points - 1)
        weights = np.exp((np.min(off**2, axis=1, keepdims=True) - off**2) / (2 * variance))
        shares[here] = (weights @ points) / weights.sum(axis=1)
    return shares


@lru_cache(256)
def _prior_points(mean: float) -> np.ndarray:
    return betaincinv(mean, 1 - mean, (np.arange(_POINTS) + 0.5) / _POINTS)
