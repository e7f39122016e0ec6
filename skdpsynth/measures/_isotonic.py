"""The nearest measure on a line, by isotonic regression."""

import heapq
import itertools

import numpy as np


def transport_on_a_line(points: np.ndarray, mass: np.ndarray, created: float = 0.0) -> tuple[np.ndarray, float, float]:
    """Cancel the negative mass on a line by moving positive mass as little as possible.

    The flow over the gap after point k is F_k - K_k, with F the cumulative mass and K that of the residual, which must be nondecreasing and
    end where F ends. So K minimizes the sum of gap * abs(F - K): a weighted L1 isotonic regression, clipped to [0, total].

    Where a mass `created`, at most that of the holes, may appear for nothing wherever it is of most use, K may fall by as much in all; see
    `_nearly_isotonic`.

    Points are in increasing order. Returned are the residual, non-negative and made of sums of the masses (so whole if they are and nothing
    is created); the cost, mass times distance; and the lower bound that a 1-Lipschitz potential proves of it.
    """
    gaps, cumulative = np.diff(points), np.cumsum(mass)
    total = cumulative[-1]
    if created:
        kept, price = _nearly_isotonic(cumulative[:-1], gaps, total, created)
    else:
        kept, price = np.clip(_isotonic(cumulative[:-1], gaps), 0, total), np.inf
    flow = cumulative[:-1] - kept
    left = np.diff(np.concatenate([[mass.dtype.type(0)], kept, [total]]))
    # The largest f <= 0 that is 1-Lipschitz, falls by the gap wherever mass flows, and is -price where it is created: a shortest path
    # along the chain, so two sweeps.
    least = 1e-14 * np.abs(mass).sum() if created else 0.0  # less is rounding
    most = np.where(left < -least, -price, 0.0)
    forwards, backwards = (_chain_distances(np.where(sign * flow > least, -gaps, gaps)[::sign], most[::sign])[::sign] for sign in (1, -1))
    potential = np.maximum(np.minimum(forwards, backwards), -price)
    bound = float(mass @ potential) - (created * price if created else 0.0)
    return np.maximum(left, 0), float(gaps @ np.abs(flow)), bound


def _nearly_isotonic(values: np.ndarray, weights: np.ndarray, total: float, created: float) -> tuple[np.ndarray, float]:
    """Return the sequence from 0 to `total` that falls by `created` in all and minimizes ``sum weights * abs(values - k)``; and its price.

    At a price for each unit of fall the minimum is that of `_penalized_isotonic`; as a function of the price it is concave and piecewise
    linear, its slope the fall. Two sequences, of more and of less fall than wanted, cost the same at the price where their lines meet. If
    none costs less there, both are best at that price, so is every mixture, whose cost and fall are linear; else the one that does takes
    the place of one of the two. Each step finds another line, so this ends.
    """

    def fall(kept: np.ndarray) -> float:
        return float(np.maximum(-np.diff(np.concatenate([[0.0], kept, [total]])), 0).sum())

    def cost(kept: np.ndarray) -> float:
        return float(weights @ np.abs(values - kept))

    far = 2 * float(weights.sum()) or 1.0  # a price at which nothing falls that need not
    much, little = values.astype(float), _penalized_isotonic(values, weights, total, far)
    if fall(much) <= created:
        return much, 0.0
    if fall(little) >= created:
        return little, far
    while True:
        price = (cost(little) - cost(much)) / (fall(much) - fall(little))
        between = _penalized_isotonic(values, weights, total, price)
        if cost(between) + price * fall(between) >= (cost(much) + price * fall(much)) * (1 - 1e-13):
            part = (created - fall(little)) / (fall(much) - fall(little))
            return little + part * (much - little), price
        if fall(between) == created:
            return between, price
        much, little = (between, little) if fall(between) > created else (much, between)


def _penalized_isotonic(values: np.ndarray, weights: np.ndarray, total: float, price: float) -> np.ndarray:
    """Return K from 0 to `total` that minimizes the sum of ``weights * abs(values - k)`` and of `price` times the fall of k: O(n log n).

    The least cost of all points before is convex in k, and the next k may rise for nothing and fall at the price, so slopes above 0 and
    below -price are cut off: the breakpoints that are left are in two heaps, from above and from below.
    """
    rise = [price]  # of the slope at each breakpoint; the first is 0, from which all start
    above, below = [(0.0, 0)], [(0.0, 0)]
    lowest, highest = np.empty(len(values)), np.empty(len(values))
    for k, (value, weight) in enumerate(zip(values.tolist(), weights.tolist(), strict=True)):
        rise.append(2 * weight)
        heapq.heappush(above, (-value, k + 1))
        heapq.heappush(below, (value, k + 1))
        # Beyond all breakpoints the slope was between -price and 0, and is now lower or higher by the weight.
        _cut_slopes(above, rise, weight)
        _cut_slopes(below, rise, weight)
        lowest[k], highest[k] = below[0][0], -above[0][0]
    kept, after = np.empty(len(values)), total
    for k in range(len(values) - 1, -1, -1):
        after = kept[k] = min(highest[k], max(after, lowest[k]))
    return kept


def _cut_slopes(heap: list[tuple[float, int]], rise: list[float], excess: float) -> None:
    """Take `excess` from the rises of the first breakpoints, and leave one, however floats round."""
    while len(heap) > 1 and rise[heap[0][1]] <= excess:
        at = heapq.heappop(heap)[1]
        excess -= rise[at]
        rise[at] = 0.0
    rise[heap[0][1]] -= excess


def _isotonic(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return nondecreasing k that minimize ``sum weights * abs(values - k)``: O(n log n), by a heap of slopes."""
    heap: list[tuple] = []  # (-breakpoint, by how much the slope of the minimum over prefixes rises there)
    last = np.empty_like(values)
    for k, (value, weight) in enumerate(zip(values.tolist(), weights.tolist(), strict=True)):
        heapq.heappush(heap, (-value, 2 * weight))
        # A larger next value costs nothing, so slopes above zero are cut off.
        excess = weight
        while heap[0][1] <= excess and len(heap) > 1:
            excess -= heapq.heappop(heap)[1]
        heap[0] = (heap[0][0], heap[0][1] - excess)
        last[k] = -heap[0][0]
    return np.minimum.accumulate(last[::-1])[::-1]


def _chain_distances(lengths: np.ndarray, most: np.ndarray) -> np.ndarray:
    """Return the shortest distance to each point of a chain from any point up to it, beginning with `most` there."""
    reached = np.array([0.0, *itertools.accumulate(lengths.tolist())])
    return reached + np.minimum.accumulate(most - reached)
