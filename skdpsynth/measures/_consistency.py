"""Consistent counts on a tree: least squares upwards, then masses from the root downwards.

A level is an array whose entries 2i and 2i + 1 are the children of entry i one level up.
"""

from collections.abc import Sequence

import numpy as np


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
