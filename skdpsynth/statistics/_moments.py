"""Exact first and second moments of rows."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from skdpsynth._sensitivity import Query, Sensitivity, statistic_facts
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

    See Also
    --------
    Histogram : Counts of cells.
    PrivatePCA : Releases them.
    skdpsynth.statistics.total : Adds up all rows.
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
        return SumProducts(_check_exact(ball))

    @staticmethod
    def moved_by_shrinking(ball: Ball, n_beyond: int | None = None) -> "SumShrinkage":
        """Return the rule that sums what shrinking to a ball adds to the moments: only rows beyond its radius do."""
        return SumShrinkage(_check_exact(ball), n_beyond)

    def about(self, shift: np.ndarray) -> "Moments":
        """Return the moments of ``w - shift``: ``sum w w^T - t shift^T - shift t^T + n shift shift^T``, t the sum of w, in integers."""
        cross = np.outer(self.total, shift)
        second = self.second - cross - cross.T + self.n_samples * np.outer(shift, shift)
        return Moments(self.n_samples, self.total - self.n_samples * shift, second)

    @staticmethod
    def sensitivity_of_sum(relation: str, ball: Ball) -> Sensitivity:
        """Return how far one row moves the sum of the rows, if none is shrunk.

        A row w adds at most ``largest`` to each coordinate. Replaced, it moves coordinate i within the bounds: by 2 (most - least) at most,
        wherever the center. Both are attained at corners, all coordinates together.
        """
        sides = [2 * int(side) for side in ball.most - ball.least] if relation == "replace_one" else [int(side) for side in ball.largest]
        ends = zip((2 * ball.least - ball.origin).tolist(), (2 * ball.most - ball.origin).tolist(), strict=True)
        told = statistic_facts("sum", ranges=tuple((*each, count) for each, count in sorted(Counter(ends).items())))
        return Sensitivity(relation, sum(sides), sum(side**2 for side in sides), max(sides), statistic=told)

    def query_of_sum(self, relation: str, ball: Ball) -> Query:
        """Return the sum of the rows, none of them shrunk, and how far one row moves it."""
        return Query(self.total, self.sensitivity_of_sum(relation, ball))

    def query(self, relation: str, layout: Any) -> Query:
        """Return the moments in a layout, and how far one row moves it."""
        return Query(layout.packed(self), layout.sensitivity(relation))


def _check_exact(ball: Ball) -> Ball:
    """Return a ball whose sums of products over some rows, of coordinates or of whole numbers, floats hold."""
    if ball.box.chunk_rows * max(1 << ball.box.bits, int(ball.largest.max())) ** 2 >= 2**53:
        raise ValueError(f"bits={ball.box.bits} is too fine for exact second moments; use at most 16.")
    return ball


class _SumMoments(Aggregator):
    """What makes moments of rows, some at a time."""

    ball: Ball

    @property
    def n_values(self) -> int:
        """The number of rows, sums and products."""
        return 1 + self.ball.box.n_features + self.ball.box.n_features**2

    def zero(self) -> Moments:
        """Return the moments of no rows."""
        d = self.ball.box.n_features
        return Moments(0, np.zeros(d, dtype=np.int64), np.zeros((d, d), dtype=np.int64))


@savable
@dataclass(frozen=True, eq=False)
class SumProducts(_SumMoments):
    """Sums rows in a ball, and their products."""

    ball: Ball

    def __str__(self) -> str:
        return f"sums and products of {self.ball.box.n_features} columns"

    def add(self, statistic: Moments, chunk: Any, kept: Any = None) -> Moments:
        """Add the rows of a chunk, in place.

        Unless rows are shrunk, products of their coordinates q are made, and then those of ``w = 2 q - origin``, with fewer passes.
        The coordinates are written to `james_stein_factor`, an array of whole numbers, if there is one.
        """
        fresh, shrinks = self.zero(), self.ball.shrinks
        for rows, numbers in self.ball.chunks(chunk) if shrinks else self.ball.steps(chunk):
            if kept is not None:
                kept[rows] = numbers
            _add_products(fresh, numbers)
        n_samples = chunk.shape[0]
        if shrinks:
            return statistic + replace(fresh, n_samples=n_samples)
        return statistic + Moments(n_samples, 2 * fresh.total, 4 * fresh.second).about(self.ball.origin)


@savable
@dataclass(frozen=True, eq=False)
class SumShrinkage(_SumMoments):
    """Sums what shrinking rows to a ball adds to their moments.

    Attributes
    ----------
    ball : Ball
    n_beyond : int or None
        None: chunks are rows. Else they are lists of rows and of the cells in which `CountLengths` counted them, of which so many lie
        beyond the radius.
    """

    ball: Ball
    n_beyond: Any = None

    def __str__(self) -> str:
        return f"what rows beyond a radius change in sums and products of {self.ball.box.n_features} columns"

    def add(self, statistic: Moments, chunk: Any) -> Moments:
        """Add the rows of a chunk, in place."""
        for q in self._beyond(chunk):
            whole = 2 * q - self.ball.origin
            _add_products(statistic, self.ball.nearer(whole, self.ball.squared_lengths(q)))
            _add_products(statistic, whole, -1)
        return statistic

    def _beyond(self, chunk: Any) -> Iterator[np.ndarray]:
        """Yield the coordinates of the rows beyond the radius, some at a time."""
        if self.n_beyond is None:
            for _, q in self.ball.steps(chunk):
                yield q[self.ball.squared_lengths(q) > self.ball.reach]
            return
        numbers, cells = chunk
        far, at_once = np.flatnonzero(cells < self.n_beyond), self.ball.box.chunk_rows
        for start in range(0, len(far), at_once):
            yield from (q for _, q in self.ball.steps(numbers[far[start : start + at_once]]))


def _add_products(moments: Moments, rows: np.ndarray, sign: int = 1) -> None:
    """Add whole numbers whose sums stay below 2**53: exact in floating point, in whatever order BLAS adds them."""
    moments.total[...] += sign * (np.ones(len(rows)) @ rows).astype(np.int64)
    moments.second[...] += sign * (rows.T @ rows).astype(np.int64)
