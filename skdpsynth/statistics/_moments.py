"""Exact first and second moments about the centre of the box."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Moments:
    """Integer sums over rows ``y = 2 q - K``, ``K = 2**bits - 1``, with q the grid coordinates of a record.

    Half a grid step is the unit, and the midpoint of the box the origin, so every coordinate of y lies in [-K, K].

    Attributes
    ----------
    n_samples : int
    total : ndarray of shape (n_features,), int64
        Sum of y.
    second : ndarray of shape (n_features, n_features), int64
        Sum of y y^T.
    """

    n_samples: int
    total: np.ndarray
    second: np.ndarray

    @classmethod
    def of(cls, X, box):
        """Sum over the rows of `X`, a chunk at a time."""
        d, K = box.n_features, 2**box.bits - 1
        total, second = np.zeros(d, dtype=np.int64), np.zeros((d, d), dtype=np.int64)
        if box.chunk_rows * K**2 >= 2**53:
            raise ValueError(f"bits={box.bits} is too fine for exact second moments; use at most 16.")
        for _, q in box.chunks(X):
            # Whole numbers whose sums stay below 2**53: exact in floating point, in whatever order BLAS adds them.
            total += q.sum(axis=0).astype(np.int64)
            second += (q.T @ q).astype(np.int64)
        n = len(X)
        # sum (2q - K)(2q - K)^T
        second = 4 * second - 2 * K * (total[:, None] + total) + n * K * K
        return cls(n, 2 * total - n * K, second)

    def __add__(self, other):
        return Moments(self.n_samples + other.n_samples, self.total + other.total, self.second + other.second)
