"""The budget of the levels of a tree, and consistent counts: least squares upwards, then masses from the root downwards.

A level is an array whose entries 2i and 2i + 1 are the children of entry i one level up.
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import product

import numpy as np

_PARTS = 1000  # shares are whole thousandths, so that fractions sum to 1
_MOST_LEVELS = 6  # levels that share the budget at a start of the search
_STEPS = 100


def least_squares(noisy: Sequence[np.ndarray | None], variances: Sequence[float]) -> tuple[list[np.ndarray], list[float]]:
    """Return the best linear unbiased estimate of every node's count from its own subtree (upward pass), and its variance at each level.

    A level that was not released is None; the last one must be there. The variances satisfy ``1/t_j = 1/v_j + 1/(2 t_{j+1})``.
    """
    estimates, errors = [np.asarray(noisy[-1], dtype=float)], [variances[-1]]
    for level, variance in zip(reversed(noisy[:-1]), reversed(variances[:-1]), strict=True):
        from_children, error = pair_sums(estimates[-1]), 2 * errors[-1]
        if level is not None:
            weight = error / (variance + error)
            from_children = weight * level + (1 - weight) * from_children
            error = weight * variance
        estimates.append(from_children)
        errors.append(error)
    return estimates[::-1], errors[::-1]


def pair_sums(values: np.ndarray) -> np.ndarray:
    """Return the sums of siblings (strided: several times faster than a reshape)."""
    return values[..., 0::2] + values[..., 1::2]


def interleave_siblings(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the values of a level from those of its left and right children."""
    level = np.empty((*left.shape[:-1], 2 * left.shape[-1]), dtype=left.dtype)
    level[..., 0::2], level[..., 1::2] = left, right
    return level


def mass_from_root(estimates: Sequence[np.ndarray], root: np.ndarray, left_shares: Sequence[np.ndarray] | None = None) -> np.ndarray:
    """Share the root's mass downwards: each node gives its children as much as their signed estimates say, within [0, mass].

    Arrays have the shapes (..., 2**j), so that many roots are shared at once. `left_shares` are the shares of a deficit that go to the left
    child at each level; None: one half.
    """
    mass = np.asarray(root, dtype=float)[..., None]
    for j, level in enumerate(estimates):
        left_estimate, right_estimate = level[..., 0::2], level[..., 1::2]
        share = 0.5 if left_shares is None else left_shares[j]
        left = np.clip(left_estimate + share * (mass - left_estimate - right_estimate), 0, mass)
        below = np.empty((*left.shape[:-1], 2 * left.shape[-1]))
        below[..., 0::2] = left
        np.subtract(mass, left, out=below[..., 1::2])
        mass = below
    return mass


def uniform_consistency(counts: Sequence[np.ndarray], rng: np.random.Generator) -> np.ndarray:
    """Apply Algorithm 3 of the dissertation with its uniform transformation to clamped integer counts of the levels 0 to r.

    The randomness is public: it says which child takes the odd unit of a deficit.
    """
    mass = counts[0]
    for level in counts[1:]:
        twice = mass + level[0::2] - level[1::2]
        left = np.clip(twice + rng.integers(0, 2, len(twice)) >> 1, 0, mass)
        mass = interleave_siblings(left, mass - left)
    return mass


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
