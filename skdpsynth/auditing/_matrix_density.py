"""Likelihoods of matrix Laplace noise: exact for one and two columns, for more by the nuclear norm.

With (x, y, t) for [[t + x, y], [y, t - x]], the positive semidefinite matrices are a cone of slope 1 over the plane of x and y. A
difference of two Wishart matrices of density exp(-tr W) on it has at Z the integral of exp(-tr V - tr(V - Z)) over the V of both the cone
and the cone shifted to Z: at height h a lens, of discs of radius h and h - t whose centers are sqrt(x^2 + y^2) apart.
"""

import numpy as np

_NODES, _WEIGHTS = np.polynomial.laguerre.laggauss(40)
_AT_ONCE = 1 << 12  # matrices: the scratch stays in cache


def minus_log_density(Z: np.ndarray) -> np.ndarray:
    """Return minus the logarithm of the density of noise of scale 1, up to a constant, at each matrix of a stack (k, m, m).

    For m of 3 and more it is the nuclear norm, from which the true one is off by little where that is large.
    """
    if Z.shape[-1] != 2:
        return np.abs(np.linalg.eigvalsh(Z)).sum(axis=-1)
    across, t = np.hypot((Z[:, 0, 0] - Z[:, 1, 1]) / 2, Z[:, 0, 1]), np.abs(Z[:, 0, 0] + Z[:, 1, 1]) / 2
    out = 2 * t - np.log(np.pi / 32)  # inside the cone the integral is over the shifted cone
    beside = np.flatnonzero(across > t)
    for start in range(0, len(beside), _AT_ONCE):
        some = beside[start : start + _AT_ONCE]
        areas = _lenses(across[some], t[some], _NODES[:, None] / 4)
        out[some] = 2 * across[some] - np.log(np.maximum(_WEIGHTS @ areas / 4, 1e-300))
    return out


def _lenses(across: np.ndarray, t: np.ndarray, above: np.ndarray) -> np.ndarray:
    """Return the area that two discs share, so far above the height at which they touch.

    Each side of their chord is a segment of area ``r**2 (angle - sin(angle) cos(angle))``, with angle that from the center to an end.
    """
    half_chord = np.sqrt(above * (across + above) * (across - t) * (across + t)) / across
    first, second = (across + t) / 2 + above, (across - t) / 2 + above  # radii; the discs cross, as abs(first - second) = t < across
    from_first = (across**2 + first**2 - second**2) / (2 * across)
    return _segment(half_chord, from_first) + _segment(half_chord, across - from_first)


def _segment(half_chord: np.ndarray, distance: np.ndarray) -> np.ndarray:
    angle = np.arctan2(half_chord, distance)
    return (half_chord**2 + distance**2) * angle - half_chord * distance
