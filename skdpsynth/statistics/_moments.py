"""Exact first and second moments of rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpsynth._change import Query
from skdpsynth.domain import Ball


@dataclass(frozen=True, eq=False, repr=False)  # its counts are private: no repr shows them
class Moments:
    """Integer sums over rows w of whole numbers.

    A layout, `Packing` or `Gram`, makes one vector or matrix of them, and knows how far one row moves that.

    Attributes
    ----------
    n_samples : int
    total : ndarray of shape (n_features,), int64
        Sum of w.
    second : ndarray of shape (n_features, n_features), int64
        Sum of w w^T.
    """

    n_samples: int
    total: np.ndarray
    second: np.ndarray

    @classmethod
    def of(cls, X: Any, ball: Ball) -> "Moments":
        """Sum over the rows of `X`, a chunk at a time."""
        d = ball.box.n_features
        total, second = np.zeros(d, dtype=np.int64), np.zeros((d, d), dtype=np.int64)
        if ball.box.chunk_rows * int(ball.largest.max()) ** 2 >= 2**53:
            raise ValueError(f"bits={ball.box.bits} is too fine for exact second moments; use at most 16.")
        for _, whole in ball.chunks(X):
            # Whole numbers whose sums stay below 2**53: exact in floating point, in whatever order BLAS adds them.
            total += (np.ones(len(whole)) @ whole).astype(np.int64)
            second += (whole.T @ whole).astype(np.int64)
        return cls(X.shape[0], total, second)

    def query(self, relation: str, layout: Any) -> Query:
        """Return the moments in a layout, and how far one row moves it."""
        return Query(layout.packed(self), layout.change(relation))

    def __add__(self, other: "Moments") -> "Moments":
        return Moments(self.n_samples + other.n_samples, self.total + other.total, self.second + other.second)
