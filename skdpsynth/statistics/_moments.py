"""Exact first and second moments of rows."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from skdpsynth._change import Query
from skdpsynth.domain import Ball
from skdpsynth.persistence import savable
from skdpsynth.statistics._aggregator import Aggregator
from skdpsynth.statistics._statistic import Statistic


@dataclass(frozen=True, eq=False, repr=False)  # its counts are private: no repr shows them
class Moments(Statistic):
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

    _summed: ClassVar[tuple[str, ...]] = ("n_samples", "total", "second")

    @classmethod
    def of(cls, X: Any, ball: Ball) -> "Moments":
        """Sum over the rows of an array."""
        return cls.over(ball).of(X)

    @staticmethod
    def over(ball: Ball) -> "SumProducts":
        """Return the rule that sums rows in a ball, and their products."""
        if ball.box.chunk_rows * int(ball.largest.max()) ** 2 >= 2**53:
            raise ValueError(f"bits={ball.box.bits} is too fine for exact second moments; use at most 16.")
        return SumProducts(ball)

    def query(self, relation: str, layout: Any) -> Query:
        """Return the moments in a layout, and how far one row moves it."""
        return Query(layout.packed(self), layout.change(relation))


@savable
@dataclass(frozen=True, eq=False)
class SumProducts(Aggregator):
    """Sums rows in a ball, and their products."""

    ball: Ball

    def __str__(self) -> str:
        return f"sums and products of {self.ball.box.n_features} columns"

    @property
    def n_values(self) -> int:
        """The number of rows, sums and products."""
        return 1 + self.ball.box.n_features + self.ball.box.n_features**2

    def zero(self) -> Moments:
        """Return the moments of no rows."""
        d = self.ball.box.n_features
        return Moments(0, np.zeros(d, dtype=np.int64), np.zeros((d, d), dtype=np.int64))

    def add(self, statistic: Moments, chunk: Any) -> Moments:
        """Add the rows of a chunk, some at a time."""
        total, second = statistic.total, statistic.second
        for _, whole in self.ball.chunks(chunk):
            # Whole numbers whose sums stay below 2**53: exact in floating point, in whatever order BLAS adds them.
            total += (np.ones(len(whole)) @ whole).astype(np.int64)
            second += (whole.T @ whole).astype(np.int64)
        return Moments(statistic.n_samples + chunk.shape[0], total, second)
