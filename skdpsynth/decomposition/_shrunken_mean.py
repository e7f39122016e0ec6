"""Where rows lie, from what was released: post-processing."""

import math

import numpy as np

_MOST_RADII = 60
_CERTAIN = 3  # deviations of the noise, beyond which a count is seen
_MOST_STRETCH = 4
_SPREAD = 1 / 128  # what shrinking takes, against noise: it turns no direction, and its sum is given back


def shrunken_center(mean: np.ndarray, deviation: float) -> np.ndarray:
    """Return a noisy mean shrunk towards 0, in whole numbers; 0 where half of its square may be noise.

    A center that is noise makes all rows longer.

    Parameters
    ----------
    mean : ndarray of shape (n_features,)
    deviation : float
        Of the noise on each coordinate.

    Returns
    -------
    center : ndarray of shape (n_features,)
    """
    return np.rint(shrink_mean(mean, deviation)) if float(mean @ mean) > 2 * len(mean) * deviation**2 else np.zeros(len(mean))


def shrink_mean(mean: np.ndarray, deviation: float) -> np.ndarray:
    """Return a noisy mean shrunk towards 0 by the share of its square that is noise (James, Stein)."""
    noise, square = len(mean) * deviation**2, float(mean @ mean)
    return mean * max(0.0, 1 - noise / square) if square else mean


def candidate_radii(squared: int) -> np.ndarray:
    """Return squared radii from the largest down by factors of sqrt(2), whole numbers held in floats."""
    radii = [squared >> j // 2 if j % 2 == 0 else math.isqrt(squared**2 >> j) for j in range(_MOST_RADII)]
    return np.array(sorted({float(radius) for radius in radii if radius}, reverse=True))


def choose_radius(counts: np.ndarray, radii: np.ndarray, deviation: float, noise_rate: float, n_samples: int) -> tuple[int, float]:
    """Choose the radius that balances noise with what shrinking takes from the second moment.

    Parameters
    ----------
    counts : ndarray of shape (n_radii,)
        Noisy numbers of rows between one radius and the next.
    radii : ndarray of shape (n_radii,)
        Squared, falling.
    deviation : float
        Of the noise on a count.
    noise_rate : float
        Spectral norm of the noise that comes with a squared radius, over that.
    n_samples : int
        Public, or noisy.

    Returns
    -------
    place : int
        In `radii`.
    stretch : float
        The sum of the squared lengths over what shrinking leaves of it; from 1 to 4, beyond which it is mostly noise.
    """
    places = np.arange(len(counts))
    doubt = _CERTAIN * deviation * np.sqrt(1 + places)  # of the number of rows beyond the next radius
    outside = np.cumsum(counts)
    # The largest radius where rows are seen, or the least of which it is known that half of the rows are within.
    found = (outside > doubt) | (doubt > n_samples / 2)
    first = int(np.argmax(found)) if found.any() else len(counts) - 1
    if doubt[first] > n_samples / 2:
        return max(first - 1, 0), 1.0
    rows = np.where(places >= first, counts, 0)
    squares = rows * np.sqrt(radii * np.append(radii[1:], 0))  # of rows between one radius and the next, about
    beyond = np.cumsum(rows) - rows  # rows outside each radius
    taken = np.maximum(np.cumsum(squares) - squares - radii * beyond, 0)
    # Within the radius of half of the rows, less noise is less of what they tell in proportion.
    serves = (places >= first) & (np.maximum.accumulate(beyond) + doubt / _CERTAIN <= n_samples / 2)
    serves[first] = True
    place = int(np.argmin(np.where(serves, noise_rate * radii + _SPREAD * taken, math.inf)))
    # What lies farther than is seen for sure counts too: without it the squares would come out too small wherever rows are shrunk.
    far = float(np.clip(outside[first - 1], 0, doubt[first - 1])) if first else 0.0
    whole = float(squares.sum()) + far * float(radii[first])
    lost = float(taken[place]) + far * float(radii[first] - radii[place])
    return place, whole / max(whole - lost, whole / _MOST_STRETCH) if whole > 0 else 1.0
