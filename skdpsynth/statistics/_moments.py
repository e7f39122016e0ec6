"""Exact first and second moments about the centre of the box."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from skdpsynth._change import Change, Query
from skdpsynth.domain import Box


@dataclass(frozen=True)
class Packing:
    """How moments are laid out as one vector: whole weights make one scale of noise serve sums and second moments alike.

    The vector lists `copies` times the sum of the rows times `mean_weight`, and then the upper triangle of the second moment, its
    diagonal times `diagonal_weight`.

    Attributes
    ----------
    n_features : int
    largest : int
        K: rows y lie in ``[-K, K]^n_features``.
    mean_weight, copies, diagonal_weight : int
        No copies: the sum of the rows is left out.
    """

    n_features: int
    largest: int
    mean_weight: int = 1
    copies: int = 0
    diagonal_weight: int = 1

    @classmethod
    def of(cls, n_features: int, bits: int, norm: str, private_mean: bool) -> "Packing":
        """Weigh the sum so that its error and that of the second moment are in the proportion that serves a covariance best.

        Parameters
        ----------
        n_features, bits : int
        norm : {"l1", "l2", "sup"}
            In which the change will be covered. With "l1" the weight of the mean is K (d + 1) / 4, which makes the joint noise 25/16 of
            that without a mean; with "l2" it is K sqrt(d) / 4, a fifth of rho; with "sup" everything moves by 2 K^2 alike, and the
            sum is listed d/8 times, which costs little and keeps its error, which grows as d^2.5, from passing that of the second moment.
        private_mean : bool
            Whether the sum is released at all.
        """
        d, K = n_features, 2**bits - 1
        if norm == "sup":
            return cls(d, K, K, -(-d // 8) * private_mean, 2)
        weight = round(Fraction(K * (d + 1), 4)) if norm == "l1" else round(K * math.sqrt(d) / 4)
        return cls(d, K, max(1, weight), int(private_mean))

    @property
    def n_values(self) -> int:
        """Length of the vector."""
        return self.copies * self.n_features + self.n_features * (self.n_features + 1) // 2

    @property
    def largest_term(self) -> int:
        """The most that one row adds to an entry."""
        return self.largest * max(self.mean_weight * bool(self.copies), self.diagonal_weight * self.largest)

    def change(self, relation: str) -> Change:
        """Return how far one row moves the vector.

        "replace_one", y by y': let p = y + y', q = y - y' and Q = sum |q_i| <= 2 K d. As y y^T - y' y'^T is the symmetric part of p q^T
        and |p_i| + |q_i| <= 2 K, the upper triangle (plain diagonal) moves by at most c (2 K d Q - Q^2) in l1, c = (d + 1) / (2 d), and
        the sum by Q: with weight w on the sum together a Q + c (2 K d Q - Q^2), a = w * copies, whose largest value over Q is
        (a + 2 K d c)^2 / (4 c), or 2 K d a if that lies beyond Q = 2 K d. It is attained at y = K 1, y' = y - (Q / d) 1. In squared l2
        norm the triangle moves by at most (K^2 d)^2 (equality at balanced vertices, d even) and the sum by 4 K^2 d. A single entry
        moves within an interval: of length 2 K w for the sum, 2 K^2 off the diagonal, K^2 times its weight on it.

        "add_or_remove_one": every entry is largest at a vertex, all at y = K 1 together.

        Weights on the diagonal other than 1 serve the sup norm only: their l1 and l2 are bounded by the number of values.
        """
        d, K, w = self.n_features, self.largest, self.mean_weight * bool(self.copies)
        if relation == "add_or_remove_one":
            mean, off, diagonal = self.copies * d, d * (d - 1) // 2, self.diagonal_weight * K * K
            return Change(
                relation,
                mean * w * K + off * K**2 + d * diagonal,
                mean * (w * K) ** 2 + off * K**4 + d * diagonal**2,
                self.largest_term,
            )
        sup = max(2 * K * w, 2 * K * K * (d > 1), self.diagonal_weight * K * K)
        if self.diagonal_weight != 1:
            return Change(relation, self.n_values * sup, self.n_values * sup**2, sup)
        a, c = w * self.copies, Fraction(d + 1, 2 * d)
        inside = a <= 2 * K * d * c  # the maximum over Q lies below 2 K d
        l1 = (a + 2 * K * d * c) ** 2 / (4 * c) if inside else Fraction(2 * K * d * a)
        return Change(relation, l1, 4 * K * K * d * w * w * self.copies + (K * K * d) ** 2, sup)

    def packed(self, moments: "Moments") -> np.ndarray:
        """Lay moments out as one int64 vector."""
        d = self.n_features
        weighted = moments.second * np.where(np.eye(d, dtype=bool), self.diagonal_weight, 1)
        return np.concatenate([np.tile(self.mean_weight * moments.total, self.copies), weighted[np.triu_indices(d)]])

    def unpacked(self, noisy: np.ndarray) -> tuple[np.ndarray | None, np.ndarray]:
        """Return (sum of the rows or None, symmetric second moment) as floats."""
        d = self.n_features
        listed, upper = np.split(noisy.astype(float), [self.copies * d])
        second = np.zeros((d, d))
        second[np.triu_indices(d)] = upper
        second += np.triu(second, 1).T
        second[np.diag_indices(d)] /= self.diagonal_weight
        return (listed.reshape(self.copies, d).mean(axis=0) / self.mean_weight if self.copies else None), second


@dataclass(frozen=True, eq=False, repr=False)  # its counts are private: no repr shows them
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
    def of(cls, X: np.ndarray, box: Box) -> "Moments":
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

    def query(self, relation: str, packing: Packing) -> Query:
        """Return the moments laid out as one vector, and how far one row moves it."""
        return Query(packing.packed(self), packing.change(relation))

    def __add__(self, other: "Moments") -> "Moments":
        return Moments(self.n_samples + other.n_samples, self.total + other.total, self.second + other.second)
