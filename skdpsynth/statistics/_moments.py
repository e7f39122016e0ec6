"""Exact first and second moments of rows."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import numpy as np

from skdpsynth._sensitivity import Query, Sensitivity, statistic_facts
from skdpsynth.domain import Ball
from skdpsynth.frames import Chunk, Table
from skdpsynth.persistence import savable
from skdpsynth.statistics._aggregator import Aggregator, Statistic
from skdpsynth.statistics._counts import CountLengths, Histogram


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
    PrivatePCA : Releases them.
    skdpsynth.statistics.total : Adds up all rows.
    """

    n_samples: int
    total: np.ndarray
    second: np.ndarray

    _summed: ClassVar[tuple[str, ...]] = ("n_samples", "total", "second")

    @classmethod
    def of(cls, X: Table, ball: Ball) -> "Moments":
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
        # As Python's whole numbers: squares of 31 bits, summed, are beyond int64.
        sides = (2 * (ball.most - ball.least) if relation == "replace_one" else ball.largest).tolist()
        ends, counts = np.unique(2 * np.stack([ball.least, ball.most]) - ball.origin, axis=1, return_counts=True)
        facts = statistic_facts("sum", ranges=tuple(zip(*ends.tolist(), counts.tolist(), strict=True)))
        return Sensitivity(relation, sum(sides), sum(side**2 for side in sides), max(sides), statistic=facts)

    def query_of_sum(self, relation: str, ball: Ball) -> Query:
        """Return the sum of the rows, none of them shrunk, and how far one row moves it."""
        return Query(self.total, self.sensitivity_of_sum(relation, ball))

    def query(self, relation: str, layout: "Packing | Gram") -> Query:
        """Return the moments in a layout, and how far one row moves it."""
        return Query(layout.pack(self), layout.sensitivity(relation))


def _check_exact(ball: Ball) -> Ball:
    """Return a ball whose sums of products over some rows, of coordinates or of whole numbers, floats hold."""
    if ball.box.chunk_rows * max(1 << ball.box.bits, int(ball.largest.max())) ** 2 >= 2**53:
        raise ValueError(f"bits={ball.box.bits} is too fine for exact second moments; use at most 16.")
    return ball


class _SumMoments(Aggregator):
    """Base of the rules that make moments of rows, some at a time."""

    ball: Ball

    @property
    def n_values(self) -> int:
        """The number of rows, sums and products."""
        return 1 + self.ball.box.n_features + self.ball.box.n_features**2

    def zero(self) -> Moments:
        d = self.ball.box.n_features
        return Moments(0, np.zeros(d, dtype=np.int64), np.zeros((d, d), dtype=np.int64))


@savable
@dataclass(frozen=True, eq=False)
class SumProducts(_SumMoments):
    """Sums rows in a ball, and their products."""

    ball: Ball

    def __str__(self) -> str:
        return f"sums and products of {self.ball.box.n_features} columns"

    def add(self, statistic: Moments, chunk: Chunk, kept: Any = None) -> Moments:
        """Add the rows of a chunk, in place.

        Unless rows are shrunk, products of their coordinates q are made, and then those of ``w = 2 q - origin``, with fewer passes.
        The coordinates are written to `kept`, an array of whole numbers or `KeptLengths`, if there is one.
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


class KeptLengths(NamedTuple):
    """In place of an array of coordinates: it counts the lengths of the rows that are written to it, and keeps their cells alone."""

    rule: CountLengths
    counted: Histogram
    cells: np.ndarray

    def __setitem__(self, rows: slice, q: np.ndarray) -> None:
        self.cells[rows] = self.rule.count(self.counted, q)


@savable
@dataclass(frozen=True, eq=False)
class SumShrinkage(_SumMoments):
    """Sums what shrinking rows to a ball adds to their moments.

    With `n_beyond` chunks are lists of rows and of the cells in which `CountLengths` counted them, of which so many lie beyond the radius.
    """

    ball: Ball
    n_beyond: Any = None

    def __str__(self) -> str:
        return f"what rows beyond a radius change in sums and products of {self.ball.box.n_features} columns"

    def add(self, statistic: Moments, chunk: Chunk) -> Moments:
        """Add the rows of a chunk, in place."""
        if self.n_beyond is None:
            chunks = (q[self.ball.squared_lengths(q) > self.ball.reach] for _, q in self.ball.steps(chunk))
        else:
            numbers, cells = chunk
            far, at_once = np.flatnonzero(cells < self.n_beyond), self.ball.box.chunk_rows
            parts = (numbers[far[start : start + at_once]] for start in range(0, len(far), at_once))
            chunks = (q for part in parts for _, q in self.ball.steps(part))
        for q in chunks:
            whole = 2 * q - self.ball.origin
            _add_products(statistic, self.ball.nearer(whole, self.ball.squared_lengths(q)))
            _add_products(statistic, whole, -1)
        return statistic


def _add_products(moments: Moments, rows: np.ndarray, sign: int = 1) -> None:
    """Add whole numbers whose sums stay below 2**53: exact in floating point, in whatever order BLAS adds them."""
    moments.total[...] += sign * (np.ones(len(rows)) @ rows).astype(np.int64)
    moments.second[...] += sign * (rows.T @ rows).astype(np.int64)


@dataclass(frozen=True)
class Packing:
    """Layout of moments as one vector: a whole weight makes one scale of noise serve sums and second moments alike.

    The vector lists the sum of the rows times `mean_weight`, and then the upper triangle of the second moment.
    """

    n_features: int
    largest: int  # K: rows y lie in `[-K, K]^n_features`
    mean_weight: int = 0  # 0: the sum of the rows is left out

    @classmethod
    def of(cls, n_features: int, largest: int, private_mean: bool) -> "Packing":
        """Weigh the sum by K (d + 1) / 4, to the nearest: the joint noise is 25/16 of that without a mean, and both errors fit."""
        weight = max(1, round(Fraction(largest * (n_features + 1), 4)))
        return cls(n_features, largest, weight if private_mean else 0)

    @property
    def n_values(self) -> int:
        """Length of the vector."""
        d = self.n_features
        return d * bool(self.mean_weight) + d * (d + 1) // 2

    @property
    def largest_term(self) -> int:
        """The most that one row adds to an entry."""
        return self.largest * max(self.mean_weight, self.largest)

    def sensitivity(self, relation: str) -> Sensitivity:
        """Return how far one row moves the vector.

        "replace_one", y by y': let p = y + y', q = y - y' and Q = sum |q_i| <= 2 K d. As y y^T - y' y'^T is the symmetric part of p q^T
        and |p_i| + |q_i| <= 2 K, the upper triangle moves by at most c (2 K d Q - Q^2) in l1, c = (d + 1) / (2 d), and the weighted sum
        by a Q: together at most (a + 2 K d c)^2 / (4 c) over Q, or 2 K d a if that lies beyond Q = 2 K d. It is attained at y = K 1,
        y' = y - (Q / d) 1. In squared l2 norm the triangle moves by at most (K^2 d)^2 (equality at balanced vertices, d even) and the
        sum by 4 K^2 d. A single entry moves within an interval: of length 2 K a for the sum, 2 K^2 off the diagonal, K^2 on it.

        "add_or_remove_one": every entry is largest at a vertex, all at y = K 1 together.
        """
        d, K, a = self.n_features, self.largest, self.mean_weight
        n_products = d * (d + 1) // 2
        facts = statistic_facts("packed_moments", features=d, largest=K, mean_weight=a)
        if relation == "add_or_remove_one":
            most, l2_squared = d * a * K + n_products * K**2, d * (a * K) ** 2 + n_products * K**4
            return Sensitivity(relation, most, l2_squared, self.largest_term, statistic=facts)
        c = Fraction(d + 1, 2 * d)
        inside = a <= 2 * K * d * c  # the maximum over Q lies below 2 K d
        l1 = (a + 2 * K * d * c) ** 2 / (4 * c) if inside else Fraction(2 * K * d * a)
        l2_squared = 4 * K * K * d * a * a + (K * K * d) ** 2
        return Sensitivity(relation, l1, l2_squared, max(2 * K * a, 2 * K * K * (d > 1), K * K), statistic=facts)

    def pack(self, moments: Moments) -> np.ndarray:
        """Lay moments out as one int64 vector."""
        sums = [self.mean_weight * moments.total] if self.mean_weight else []
        return np.concatenate([*sums, moments.second[np.triu_indices(self.n_features)]])

    def unpack(self, noisy: np.ndarray) -> tuple[np.ndarray | None, np.ndarray]:
        """Return (sum of the rows or None, symmetric second moment) as floats."""
        d = self.n_features
        total, upper = np.split(noisy.astype(float), [d * bool(self.mean_weight)])
        second = np.zeros((d, d))
        second[np.triu_indices(d)] = upper
        second += np.triu(second, 1).T
        return (total / self.mean_weight if self.mean_weight else None), second


@dataclass(frozen=True)
class Gram:
    """Layout of moments as one symmetric matrix, ``sum (w, c) (w, c)^T``: with a border, it holds the sum of the rows too."""

    n_features: int
    squared_radius: int  # r**2: no row w is longer than r
    coordinate: int = 0  # c, one more coordinate of every row, that makes the border; 0: no border

    @property
    def n_rows(self) -> int:
        return self.n_features + bool(self.coordinate)

    @property
    def n_values(self) -> int:
        """Entries of the matrix."""
        return self.n_rows**2

    @property
    def largest_term(self) -> int:
        """The most that one row adds to an entry."""
        return self.squared_radius + self.coordinate**2

    def sensitivity(self, relation: str) -> Sensitivity:
        """Return how far one row moves the matrix.

        A row z = (w, c) adds z z^T, whose only eigenvalue is t = |z|^2 <= T = r^2 + c^2: that is its nuclear and its Frobenius norm.

        "replace_one", z by y: D = z z^T - y y^T has rank 2, trace |z|^2 - |y|^2 and the product (z.y)^2 - |z|^2 |y|^2 <= 0 of its two
        eigenvalues, so the sum of their absolute values is sqrt((|z|^2 + |y|^2)^2 - 4 (z.y)^2) <= 2 T, and that of their squares is
        |z|^4 + |y|^4 - 2 (z.y)^2 <= 2 T^2. Both are attained at orthogonal z and y of full length, which there are from two features on if
        c <= r. (One feature alone moves within [0, r^2].) No entry exceeds the largest eigenvalue, which is at most T, and the
        l1 norm of m^2 entries is at most m times their l2 norm.
        """
        total = self.largest_term
        is_pair = relation == "replace_one" and self.n_rows > 1
        squared = (2 if is_pair else 1) * total**2
        l1 = total if self.n_rows == 1 else self.n_rows * (math.isqrt(squared) + 1)
        facts = statistic_facts("gram", features=self.n_features, squared_radius=self.squared_radius, coordinate=self.coordinate)
        return Sensitivity(relation, min(l1, squared), squared, total, (2 if is_pair else 1) * total, facts)

    def pack(self, moments: Moments) -> np.ndarray:
        """Lay moments out as one int64 matrix."""
        if not self.coordinate:
            return moments.second
        border = self.coordinate * moments.total[:, None]
        return np.block([[moments.second, border], [border.T, np.array([[self.coordinate**2 * moments.n_samples]])]])

    def unpack(self, noisy: np.ndarray) -> tuple[np.ndarray | None, np.ndarray]:
        """Return (sum of the rows or None, symmetric second moment) as floats: each entry and its mirror, averaged."""
        d = self.n_features
        matrix = noisy.astype(float)
        matrix += matrix.T.copy()
        matrix /= 2
        return (matrix[:d, d] / self.coordinate if self.coordinate else None), matrix[:d, :d]
