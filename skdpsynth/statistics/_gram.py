"""Second moments of rows in a ball, laid out as a symmetric matrix."""

import math
from dataclasses import dataclass

import numpy as np

from skdpsynth._sensitivity import Sensitivity, statistic_facts
from skdpsynth.statistics._moments import Moments


@dataclass(frozen=True)
class Gram:
    """How moments are laid out as one symmetric matrix, ``sum (w, c) (w, c)^T``: with a border, it holds the sum of the rows too.

    Attributes
    ----------
    n_features : int
    squared_radius : int
        r**2: no row w is longer than r.
    coordinate : int
        c, one more coordinate of every row, that makes the border; 0: no border.
    """

    n_features: int
    squared_radius: int
    coordinate: int = 0

    @property
    def n_rows(self) -> int:
        """Rows of the matrix."""
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
        told = statistic_facts("gram", features=self.n_features, squared_radius=self.squared_radius, coordinate=self.coordinate)
        return Sensitivity(relation, min(l1, squared), squared, total, (2 if is_pair else 1) * total, told)

    def packed(self, moments: Moments) -> np.ndarray:
        """Lay moments out as one int64 matrix."""
        if not self.coordinate:
            return moments.second
        border = self.coordinate * moments.total[:, None]
        return np.block([[moments.second, border], [border.T, np.array([[self.coordinate**2 * moments.n_samples]])]])

    def unpacked(self, noisy: np.ndarray) -> tuple[np.ndarray | None, np.ndarray]:
        """Return (sum of the rows or None, symmetric second moment) as floats: each entry and its mirror, averaged."""
        d = self.n_features
        matrix = noisy.astype(float)
        matrix += matrix.T.copy()
        matrix /= 2
        return (matrix[:d, d] / self.coordinate if self.coordinate else None), matrix[:d, :d]
