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
    upward, of_sums, _ = tree_variances(parents, variances)
    own, below = [counts[-1].astype(float)], list[np.ndarray]()
    for level in range(len(counts) - 2, -1, -1):
        below.insert(0, sums := _sums(own[0], parents[level], len(counts[level])))
        own.insert(0, sums + (1 - upward[level] / of_sums[level])[:, None] * (counts[level] - sums))
    estimates = [own[0] + (0.0 if total is None else (total - own[0].sum()) / own[0].size)]
    for level, sums in enumerate(below):
        lacking = (estimates[level] - sums) / of_sums[level][:, None]
        estimates.append(own[level + 1] + upward[level + 1][:, None] * lacking[parents[level]])
    return estimates


def tree_variances(
    parents: Sequence[np.ndarray], variances: Sequence[float], known: float = 0.0
) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    """Return variances of estimates by what is in an area, of sums of these over its parts, and of the least squares estimates.

    The `known` share of the variance of the whole is known: 1 / n_cells where the sum of its cells is public.

    With s the variance of a part and t that of the sum of all parts, ``part - (s / t) sum`` is uncorrelated with the sum, on which alone
    the estimate of the larger area depends: so that of the part has the variance ``s - s**2 / t`` plus ``(s / t)**2`` times the larger's.
    """
    upward, of_sums = [np.full(len(parents[-1]) if parents else 1, max(variances[-1], _EXACT))], list[np.ndarray]()
    for level in range(len(parents) - 1, -1, -1):
        of_sums.insert(0, noise := np.bincount(parents[level], upward[0]))
        upward.insert(0, noise * (1 - noise / (max(variances[level], _EXACT) + noise)))
    final = [upward[0] * (1 - known)]
    for level, of in enumerate(parents):
        share = upward[level + 1] / of_sums[level][of]
        final.append(upward[level + 1] * (1 - share) + share**2 * final[-1][of])
    return upward, of_sums, final


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


def shrink_tables(noisy: np.ndarray, expected: np.ndarray, variance: float, groups: np.ndarray) -> np.ndarray:
    """Return tables of areas between the expected ones and noisy counts, which sum to the expected numbers of each area and each group.

    Both have the shape (n_areas, n_codes); `groups` says in which group each area lies, and `variance` how much noise a count has. True
    counts differ from expected ones by chance, as those of so many draws do, and by an effect in proportion to that variance, whose
    mean square is what residuals have beyond noise and chance (empirical Bayes).
    """
    sizes = expected.sum(axis=1, keepdims=True)
    shares, of_groups = expected / np.maximum(sizes, 1), sizes / np.maximum(_sums(sizes, groups, groups.max() + 1)[groups], 1)

    def centered(shifts: np.ndarray) -> np.ndarray:
        shifts = shifts - shares * shifts.sum(axis=1, keepdims=True)
        balanced: np.ndarray = shifts - of_groups * _sums(shifts, groups, groups.max() + 1)[groups]
        return balanced

    shifts, chance = centered(noisy - expected), expected * (1 - shares)
    effect = max(0.0, float((shifts**2 - chance - variance).sum()) / max(float((chance**2).sum()), 1.0))
    own = chance + effect * chance**2
    found: np.ndarray = np.maximum(expected + centered(shifts * own / np.maximum(own + variance, _EXACT)), 0.0)
    return found


def level_shares(parents: Sequence[np.ndarray], is_counted: Sequence[bool], power: int) -> list[float]:
    """Return shares of the budget by level, the whole first, that leave the least variance of estimates in the mean over levels.

    They depend on the public tree alone. A share w of the budget has noise of variance w to the minus `power`. Tried are several shares of
    the smallest areas; the other levels get equal ones.
    """
    n_others = sum(is_counted[:-1])
    if not n_others:
        return [0.0] * len(parents) + [1.0]
    options = [[(1 - leaf) / n_others if counted else 0.0 for counted in is_counted[:-1]] + [leaf] for leaf in _LEAF_SHARES]

    def error(shares: Sequence[float]) -> float:
        estimates = tree_variances(parents, [share**-power if share else math.inf for share in shares])[2]
        return sum(float(each.mean()) for each in estimates)

    return min(options, key=error)


def _sums(values: np.ndarray, groups: np.ndarray, n_groups: int) -> np.ndarray:
    out = np.zeros((n_groups, values.shape[1]))
    np.add.at(out, groups, values)
    return out
