"""Shares of a budget for the levels of a tree: functions of public numbers only."""

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import product

import numpy as np

_PARTS = 1000  # shares are whole thousandths, so that fractions sum to 1
_MOST_LEVELS = 6  # levels that share the budget at a start of the search
_STEPS = 100


@lru_cache(maxsize=256)
@np.errstate(under="ignore")  # shares that go to zero do so by underflow
def optimal_shares(total_diameters: tuple[float, ...]) -> tuple[Fraction, ...]:
    """Return the shares of the budget that minimize the bound on E W1 of least squares and mass from the root.

    Minimizes ``sum_{i<r} W_i sqrt(t_{i+1} / 2)`` over the simplex, with W_i the sum of the diameters of the cells of level i, ``v_j``
    proportional to ``1 / share_j**2``, and t of `least_squares`. The shares are those of the levels 0, ..., r and sum to 1; the root has
    none, and a level without a share is not released.
    """
    W, r = np.array(total_diameters), len(total_diameters)
    level = np.arange(r)
    # Unrolled, the recursion of `least_squares` reads 1 / t_j = sum_{k >= j} share_k**2 2**(j - k).
    decay = np.triu(2.0 ** (level[:, None] - level))

    def bounds(shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        precision = np.maximum(shares**2 @ decay.T, 1e-30)
        return (W / np.sqrt(precision)).sum(axis=-1), W / precision**1.5

    # The bound has many local minima, each with few levels: start from every first level and number of levels.
    starts = np.full((_MOST_LEVELS, r, r), 0.02)
    for i, first in product(range(_MOST_LEVELS), range(r)):
        starts[i, first, np.rint(np.linspace(first, r - 1, i + 1)).astype(int)] = 1.0
    shares = starts.reshape(-1, r)
    shares /= shares.sum(axis=1, keepdims=True)
    for _ in range(_STEPS):
        # Majorize and minimize, so that no step raises the bound: by Jensen's inequality it is at most sum_k c_k / share_k, with
        # equality at the present shares and c_k = share_k**3 times the sum below; the minimum has shares proportional to sqrt(c_k).
        shares *= np.sqrt(shares * (bounds(shares)[1] @ decay))
        shares /= shares.sum(axis=1, keepdims=True)

    parts = np.rint(_PARTS * shares)
    parts[parts < 2] = 0
    parts[:, -1] = np.maximum(parts[:, -1], 2)
    parts[np.arange(len(parts)), np.argmax(parts, axis=1)] += _PARTS - parts.sum(axis=1)
    best = parts[np.argmin(bounds(parts)[0])]
    return (Fraction(0), *(Fraction(int(part), _PARTS) for part in best))


def paper_shares(total_diameters: Sequence[float]) -> tuple[Fraction, ...]:
    """Return the shares of equation (3.7): proportional to ``sqrt(W_{j-1})`` for the levels j = 0, ..., r, with W_{-1} = W_0."""
    roots = np.sqrt([total_diameters[0], *total_diameters])
    parts = np.maximum(1, np.floor(2**20 * roots / roots.sum())).astype(int)
    parts[-1] += 2**20 - parts.sum()
    return tuple(Fraction(int(part), 2**20) for part in parts)
