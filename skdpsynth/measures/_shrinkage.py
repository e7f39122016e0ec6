"""Mass shared from the root by an empirical Bayes rule: what is within noise looks like what is usual at its level.

A node's children share its mass evenly (where rows are spread out), one of them has all of it (where rows crowd), or anything between.
How often each is so is learned from the noisy counts of the level themselves, and each share is its posterior mean.
"""

from collections.abc import Sequence

import numpy as np

# Deviations of shares about a half and about 0 or 1, which say how alike siblings are; and how usual each is before anything is seen.
# Chosen among many by the W1 of one feature on the sets of benchmarks/hindsight.py.
_ABOUT_HALF = np.array([0.01, 0.03, 0.15, 0.4])
_ABOUT_EDGE = np.array([0.0, 0.08])
_USUAL = np.array([4.0, 1.0, 8.0, 4.0, 16.0, 32.0]) / 65.0
_NODES = 1.5  # that what is usual counts as much as
_KEPT = 0.4  # part of it that comes from the level above
_ROUNDS = 6
_MOST = 1 << 11  # nodes of a level; where there are more, time matters and the noise of each counts little
_NONE = 1e-9  # mass that is not worth sharing
_LEAST = 1e-18  # variance of a share: less would be lost in rounding


def learned_mass(
    estimates: Sequence[np.ndarray], root: np.ndarray, variances: Sequence[np.ndarray | float], left_shares: Sequence[np.ndarray | float]
) -> tuple[np.ndarray, list[float]]:
    """Share the root's mass downwards, each node by the posterior mean of its left child's share.

    Parameters
    ----------
    estimates : list of ndarray, shapes (..., 2**j)
        Estimated counts of the levels below the root, signed, with noise that is independent from node to node.
    root : ndarray of shape (...)
        Mass of each root, non-negative.
    variances : list of ndarray or float
        Of the estimates of each level.
    left_shares : list of ndarray or float
        Share of a deficit that goes to the left child at each level.

    Returns
    -------
    mass : ndarray, shape of the last level
        Non-negative; siblings sum to their parent.
    moved : list of float
        By level of the parents, how much mass went to another child than by `mass_from_root`.
    """
    mass, usual, moved = np.asarray(root, dtype=float)[..., None], _USUAL, []
    for level, variance, share in zip(estimates, variances, left_shares, strict=True):
        left_estimate, right_estimate = level[..., 0::2], level[..., 1::2]
        raw = left_estimate + share * (mass - left_estimate - right_estimate)
        left = np.clip(raw, 0, mass)
        moved.append(0.0)
        if mass.size <= _MOST:
            variance = np.broadcast_to(variance, level.shape)
            noise = (1 - share) ** 2 * variance[..., 0::2] + share**2 * variance[..., 1::2]
            some = mass > _NONE
            shares, usual = _posterior(raw[some] / mass[some], np.maximum(noise[some] / mass[some] ** 2, _LEAST), usual)
            learned = shares * mass[some]
            moved[-1] = float(np.abs(learned - left[some]).sum())
            left[some] = learned
        below = np.empty((*left.shape[:-1], 2 * left.shape[-1]))
        below[..., 0::2] = left
        np.subtract(mass, left, out=below[..., 1::2])
        mass = below
    return mass, moved


def _posterior(seen: np.ndarray, noise: np.ndarray, usual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the posterior mean of shares seen with normal noise of some variances, and how usual each kind of share is here.

    A share is normal about a half, or about 0 or 1 (equally often), with one of some deviations. How often each is so maximises the
    likelihood, with a few nodes added that are like those above (expectation and maximisation).
    """
    centre = np.repeat([0.5, 0.0, 1.0], [len(_ABOUT_HALF), len(_ABOUT_EDGE), len(_ABOUT_EDGE)])[:, None]
    own = np.concatenate([_ABOUT_HALF, _ABOUT_EDGE, _ABOUT_EDGE])[:, None] ** 2
    total = own + noise
    means = np.clip(centre + (seen - centre) * (own / total), 0, 1)
    likelihood = -0.5 * ((seen - centre) ** 2 / total + np.log(total))
    likelihood = np.exp(likelihood - likelihood.max(axis=0, initial=-np.inf))
    before = _NODES * (_KEPT * usual + (1 - _KEPT) * _USUAL)
    weights = before / before.sum()
    for _ in range(_ROUNDS):
        found = _joined(_responsibility(weights, likelihood).sum(axis=1)) + before
        weights = found / found.sum()
    shares = (_responsibility(weights, likelihood) * means).sum(axis=0)
    return np.minimum(shares, 1.0), weights  # rounding may make one a little more


def _responsibility(weights: np.ndarray, likelihood: np.ndarray) -> np.ndarray:
    """Return the posterior probability of each kind of share, by node."""
    halves = len(_ABOUT_HALF)
    joint = np.concatenate([weights[:halves], weights[halves:] / 2, weights[halves:] / 2])[:, None] * likelihood
    return joint / joint.sum(axis=0)


def _joined(kinds: np.ndarray) -> np.ndarray:
    """Add what is about 1 to what is about 0: neither child is favoured."""
    halves, edges = len(_ABOUT_HALF), len(_ABOUT_EDGE)
    return np.concatenate([kinds[:halves], kinds[halves : halves + edges] + kinds[halves + edges :]])
