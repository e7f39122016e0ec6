"""The nearest measure on a line, by isotonic regression."""

import heapq
import itertools

import numpy as np


def transport_on_a_line(points: np.ndarray, mass: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Cancel the negative mass on a line by moving positive mass as little as possible.

    The flow over the gap after point k is F_k - K_k, with F the cumulative mass and K that of what is left, which must be nondecreasing
    and end where F ends. So K minimises the sum of gap * abs(F - K): a weighted L1 isotonic regression, clipped to [0, total].

    Parameters
    ----------
    points : ndarray of shape (n_points,)
        In increasing order.
    mass : ndarray of shape (n_points,)
        Signed, with a total that is at least 0.

    Returns
    -------
    residual : ndarray of shape (n_points,)
        Non-negative, of the same total; made of sums of the masses, so whole if they are.
    cost : float
        Mass times distance.
    lower_bound : float
        What a 1-Lipschitz potential proves of `cost`.
    """
    gaps, cumulative = np.diff(points), np.cumsum(mass)
    total = cumulative[-1]
    kept = np.clip(_isotonic(cumulative[:-1], gaps), 0, total)
    flow = cumulative[:-1] - kept
    # The largest f <= 0 that is 1-Lipschitz and falls by the gap wherever mass flows: a shortest path along the chain, so two sweeps.
    forwards, backwards = (_sweep(np.where(sign * flow > 0, -gaps, gaps)[::sign])[::sign] for sign in (1, -1))
    potential = np.minimum(forwards, backwards)
    residual = np.diff(np.concatenate([[mass.dtype.type(0)], kept, [total]]))
    return np.maximum(residual, 0), float(gaps @ np.abs(flow)), float(mass @ potential)


def _isotonic(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Nondecreasing k that minimise the sum of ``weights * abs(values - k)``: O(n log n), by a heap of the slopes of the convex minimum."""
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


def _sweep(lengths: np.ndarray) -> np.ndarray:
    """Shortest distance from any point before (or none: 0) to each point of a chain."""
    reached = np.array([0.0, *itertools.accumulate(lengths.tolist())])
    return reached - np.maximum.accumulate(reached)
