"""Mass shared from the root by an empirical Bayes rule, which replaces counts within noise by usual ones of such a table, at their level.

A node's children share its mass evenly (where rows are spread out), one of them has all of it (where rows crowd), or anything between. How
often each happens depends on the kind of table, about which all levels inform, and is learned from the noisy counts of the level
themselves. Each share is its posterior mean.
"""

from collections.abc import Sequence

import numpy as np

from skdpsynth.measures._consistency import interleave_siblings

# Deviations of shares about a half (beyond those of chance) and about 0 or 1; how usual each is in an even, a smooth and a crowded table;
# and how usual such tables are. Chosen among many by the W1 of one and two features on the sets of benchmarks/hindsight.py.
_ABOUT_HALF = np.array([0.0, 0.03, 0.15, 0.4])
_ABOUT_EDGE = np.array([0.0, 0.08])
_IN_TABLES = np.array([[20.0, 4.0, 2.0, 0.5, 0.5, 0.5], [1.0, 1.0, 16.0, 8.0, 2.0, 4.0], [2.0, 1.0, 4.0, 4.0, 40.0, 40.0]])
_IN_TABLES /= _IN_TABLES.sum(axis=1, keepdims=True)
_TABLES = np.array([0.1, 0.2, 0.7])
DEFAULT_PRIOR = _TABLES @ _IN_TABLES  # before any count of a table is seen
_NODES = 1.5  # weight of the prior, in nodes
_ROUNDS = 6
_MOST = 1 << 11  # nodes of a level; beyond, time matters and the noise of each counts little
_NONE = 1e-9  # mass that is not worth sharing
_LEAST = 1e-18  # variance of a share: less would be lost in rounding


def fit_prior(
    estimates: Sequence[np.ndarray], root: np.ndarray, variances: Sequence[np.ndarray | float], left_shares: Sequence[np.ndarray | float]
) -> np.ndarray:
    """Return how usual each kind of share is in this table: the mean over kinds of tables, by their likelihood over all levels."""
    return prior_from_evidence(posterior_mass(estimates, root, variances, left_shares, DEFAULT_PRIOR)[2])


def prior_from_evidence(evidence: np.ndarray) -> np.ndarray:
    """Return how usual each kind of share is, from the log-likelihood of the counts in each kind of table."""
    tables = _TABLES * np.exp(evidence - evidence.max())
    return tables / tables.sum() @ _IN_TABLES


def posterior_mass(
    estimates: Sequence[np.ndarray],
    root: np.ndarray,
    variances: Sequence[np.ndarray | float],
    left_shares: Sequence[np.ndarray | float],
    usual: np.ndarray,
) -> tuple[np.ndarray, list[float], np.ndarray]:
    """Share the root's mass downwards, each node by the posterior mean of its left child's share.

    The estimates are signed, with noise that is independent from node to node. Returned are the mass of the last level; by level of the
    parents, how much mass went to another child than by `mass_from_root`; and the log-likelihood of the counts in each kind of table, up to
    a constant.
    """
    mass, moved, evidence = np.asarray(root, dtype=float)[..., None], [], np.zeros(len(_TABLES))
    for level, variance, share in zip(estimates, variances, left_shares, strict=True):
        left, units, told = left_mass(mass, level, variance, share, usual)
        moved.append(units)
        evidence += told
        mass = interleave_siblings(left, mass - left)
    return mass, moved, evidence


def left_mass(
    mass: np.ndarray, estimates: np.ndarray, variances: np.ndarray | float, share: np.ndarray | float, usual: np.ndarray | None
) -> tuple[np.ndarray, float, np.ndarray]:
    """Return the mass of each left child, how much mass the prior `usual` moved to another child, and the evidence for each kind of table.

    The estimates of children lie side by side. `share` is that of a deficit for the left child; without `usual` the estimates alone decide.
    """
    left_estimate, right_estimate = estimates[..., 0::2], estimates[..., 1::2]
    raw = left_estimate + share * (mass - left_estimate - right_estimate)
    left = np.clip(raw, 0, mass)
    if usual is None or mass.size > _MOST:
        return left, 0.0, np.zeros(len(_TABLES))
    variances = np.broadcast_to(variances, estimates.shape)
    noise = (1 - share) ** 2 * variances[..., 0::2] + share**2 * variances[..., 1::2]
    some = mass > _NONE
    whole = mass[some]
    shares, evidence = _posterior(raw[some] / whole, np.maximum(noise[some] / whole**2, _LEAST), whole, usual)
    learned = shares * whole
    moved = float(np.abs(learned - left[some]).sum())
    left[some] = learned
    return left, moved, evidence


def _posterior(seen: np.ndarray, noise: np.ndarray, rows: np.ndarray, usual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the posterior mean of shares observed with normal noise, and the log-likelihood of each kind of table.

    A share is normal about a half, or about 0 or 1 (equally often), with one of some deviations. Rows that fall into either half by chance
    add a variance of 1 / (4 rows) about a half. The frequencies of the kinds maximize the likelihood, with a few nodes added that have the
    usual ones (expectation and maximization).
    """
    center = np.repeat([0.5, 0.0, 1.0], [len(_ABOUT_HALF), len(_ABOUT_EDGE), len(_ABOUT_EDGE)])[:, None]
    by_chance = np.repeat([0.25, 0.0], [len(_ABOUT_HALF), 2 * len(_ABOUT_EDGE)])[:, None] / np.maximum(rows, 1.0)
    own = np.concatenate([_ABOUT_HALF, _ABOUT_EDGE, _ABOUT_EDGE])[:, None] ** 2 + by_chance
    total = own + noise
    means = np.clip(center + (seen - center) * (own / total), 0, 1)
    likelihood = -0.5 * ((seen - center) ** 2 / total + np.log(total))
    likelihood = np.exp(likelihood - likelihood.max(axis=0, initial=-np.inf))
    evidence = np.array([np.log(_joint_likelihood(weights, likelihood).sum(axis=0)).sum() for weights in _IN_TABLES])
    weights = usual
    for _ in range(_ROUNDS):
        found = _merge_edges(_responsibility(weights, likelihood).sum(axis=1)) + _NODES * usual
        weights = found / found.sum()
    shares = (_responsibility(weights, likelihood) * means).sum(axis=0)
    return np.minimum(shares, 1.0), evidence  # rounding may make one a little more


def _joint_likelihood(weights: np.ndarray, likelihood: np.ndarray) -> np.ndarray:
    """Return the joint likelihood of each kind of share and the observed share, by node."""
    halves = len(_ABOUT_HALF)
    return np.concatenate([weights[:halves], weights[halves:] / 2, weights[halves:] / 2])[:, None] * likelihood


def _responsibility(weights: np.ndarray, likelihood: np.ndarray) -> np.ndarray:
    """Return the posterior probability of each kind of share, by node."""
    joint = _joint_likelihood(weights, likelihood)
    return joint / joint.sum(axis=0)


def _merge_edges(kinds: np.ndarray) -> np.ndarray:
    """Add the kinds about 1 to those about 0: neither child is favored."""
    halves, edges = len(_ABOUT_HALF), len(_ABOUT_EDGE)
    return np.concatenate([kinds[:halves], kinds[halves : halves + edges] + kinds[halves + edges :]])
