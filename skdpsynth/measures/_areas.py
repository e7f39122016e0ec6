"""Counts of areas in areas: least squares along a tree, and whole numbers that add up."""

import math
from collections.abc import Sequence

import numpy as np

_EXACT = 1e-12  # a variance, in place of 0
_NEARLY = 1e-9  # of a count: what floats may lack
_LEAF_SHARES = tuple(share / 50 for share in range(5, 48))


def tree_least_squares(
    counts: Sequence[np.ndarray], parents: Sequence[np.ndarray], variances: Sequence[float], total: int | None = None
) -> list[np.ndarray]:
    """Return the least squares estimates of the counts of all areas, which add up from level to level.

    `counts` are by level arrays of shape (n_areas, n_cells), the whole first; `parents` of each further level the area that each area lies
    in; `variances` of the noise of a level are infinite where it was not measured. `total` is a public sum of the cells of the whole.

    Each cell has a tree of its own. Upwards, an estimate of an area by what is in it is the mean of its own count and of the sum of its
    parts, weighted by inverse variances; downwards, parts share what their sum lacks in proportion to their variances. Both passes
    together are the least squares solution (Hay, Rastogi, Miklau, Suciu 2010), for any numbers of children.
    """
    own, spread = [counts[-1].astype(float)], [np.full(len(counts[-1]), max(variances[-1], _EXACT))]
    below: list[tuple[np.ndarray, np.ndarray]] = []
    for level in range(len(counts) - 2, -1, -1):
        n_areas = len(counts[level])
        sums, noise = _sums(own[0], parents[level], n_areas), np.bincount(parents[level], spread[0], n_areas)
        share = noise / (max(variances[level], _EXACT) + noise)  # of the own count
        own.insert(0, sums + share[:, None] * (counts[level] - sums))
        spread.insert(0, noise * (1 - share))
        below.insert(0, (sums, noise))
    estimates = [own[0] + (0.0 if total is None else (total - own[0].sum()) / own[0].size)]
    for level, (sums, noise) in enumerate(below):
        lacking = (estimates[level] - sums) / noise[:, None]
        estimates.append(own[level + 1] + spread[level + 1][:, None] * lacking[parents[level]])
    return estimates


def whole_counts(estimates: Sequence[np.ndarray], parents: Sequence[np.ndarray], total: int) -> list[np.ndarray]:
    """Return whole counts of at least 0 near the estimates that add up to the `total`, and from level to level.

    From the whole down: the parts of an area, in each cell, are the point of their simplex nearest to the estimates, rounded.
    """
    whole = nearest_whole(estimates[0].reshape(-1, 1), np.array([total])).reshape(estimates[0].shape)
    found = [whole]
    for level, of in enumerate(parents):
        counts, order = np.empty(estimates[level + 1].shape, dtype=np.int64), np.argsort(of, kind="stable")
        for area, parts in enumerate(np.split(order, np.cumsum(np.bincount(of, minlength=len(found[-1])))[:-1])):
            counts[parts] = nearest_whole(estimates[level + 1][parts], found[-1][area])
        found.append(counts)
    return found


def nearest_whole(values: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Return whole numbers of at least 0 near `values`, each column of which sums to its total: projected, then largest remainders."""
    ordered, places = -np.sort(-values, axis=0), np.arange(1, len(values) + 1)[:, None]
    steps = (np.cumsum(ordered, axis=0) - totals) / places
    n_positive = np.maximum((ordered > steps).sum(axis=0), 1)
    near = np.maximum(values - np.take_along_axis(steps, n_positive[None] - 1, axis=0), 0)
    floor = np.floor(near + _NEARLY).astype(np.int64)
    ranks = np.argsort(np.argsort(floor - near, axis=0, kind="stable"), axis=0)
    return floor + (ranks < totals - floor.sum(axis=0))


def level_shares(n_areas: Sequence[int], is_counted: Sequence[bool], power: int) -> list[float]:
    """Return shares of the budget by level, the whole first, that leave the least error in the mean over levels, by public numbers.

    Errors are variances of counts, if areas of a level are alike; a share w of the budget has noise of variance w to the minus `power`.
    Tried are several shares of the smallest areas; the other levels get equal ones.
    """
    n_others = sum(is_counted[:-1])
    if not n_others:
        return [0.0] * (len(n_areas) - 1) + [1.0]
    options = [[(1 - leaf) / n_others if counted else 0.0 for counted in is_counted[:-1]] + [leaf] for leaf in _LEAF_SHARES]
    return min(options, key=lambda shares: sum(_expected_variances(n_areas, shares, power)))


def _expected_variances(n_areas: Sequence[int], shares: Sequence[float], power: int) -> list[float]:
    """Return the variance of least squares estimates by level."""
    noise = [share**-power if share else math.inf for share in shares]
    up = [noise[-1]]
    for level in range(len(n_areas) - 2, -1, -1):
        up.insert(0, 1 / (1 / noise[level] + n_areas[level] / n_areas[level + 1] / up[0]))
    final = [up[0]]
    for own, parts in zip(up[1:], np.divide(n_areas[1:], n_areas[:-1]), strict=True):
        final.append(own * (1 - 1 / parts) + final[-1] / parts**2)
    return final


def _sums(values: np.ndarray, groups: np.ndarray, n_groups: int) -> np.ndarray:
    out = np.zeros((n_groups, values.shape[1]))
    np.add.at(out, groups, values)
    return out
