"""Second moments of rows in a box, laid out as a vector."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from skdpsynth._sensitivity import Sensitivity, statistic_facts
from skdpsynth.statistics._moments import Moments


@dataclass(frozen=True)
class Packing:
    """How moments are laid out as one vector: a whole weight makes one scale of noise serve sums and second moments alike.

    The vector lists the sum of the rows times `mean_weight`, and then the upper triangle of the second moment.

    Attributes
    ----------
    n_features : int
    largest : int
        K: rows y lie in ``[-K, K]^n_features``.
    mean_weight : int
        0: the sum of the rows is left out.
    """

    n_features: int
    largest: int
    mean_weight: int = 0

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
        told = statistic_facts("packed_moments", features=d, largest=K, mean_weight=a)
        if relation == "add_or_remove_one":
            most, l2_squared = d * a * K + n_products * K**2, d * (a * K) ** 2 + n_products * K**4
            return Sensitivity(relation, most, l2_squared, self.largest_term, statistic=told)
        c = Fraction(d + 1, 2 * d)
        inside = a <= 2 * K * d * c  # the maximum over Q lies below 2 K d
        l1 = (a + 2 * K * d * c) ** 2 / (4 * c) if inside else Fraction(2 * K * d * a)
        l2_squared = 4 * K * K * d * a * a + (K * K * d) ** 2
        return Sensitivity(relation, l1, l2_squared, max(2 * K * a, 2 * K * K * (d > 1), K * K), statistic=told)

    def packed(self, moments: Moments) -> np.ndarray:
        """Lay moments out as one int64 vector."""
        sums = [self.mean_weight * moments.total] if self.mean_weight else []
        return np.concatenate([*sums, moments.second[np.triu_indices(self.n_features)]])

    def unpacked(self, noisy: np.ndarray) -> tuple[np.ndarray | None, np.ndarray]:
        """Return (sum of the rows or None, symmetric second moment) as floats."""
        d = self.n_features
        total, upper = np.split(noisy.astype(float), [d * bool(self.mean_weight)])
        second = np.zeros((d, d))
        second[np.triu_indices(d)] = upper
        second += np.triu(second, 1).T
        return (total / self.mean_weight if self.mean_weight else None), second
