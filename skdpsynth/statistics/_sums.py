"""Exact sums of rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpsynth._change import Change, Query
from skdpsynth.domain import Ball


@dataclass(frozen=True, eq=False, repr=False)  # private: no repr shows it
class Sums:
    """Sum of rows of whole numbers.

    Attributes
    ----------
    total : ndarray of shape (n_features,), int64
    lengths : ndarray of shape (n_samples,), float
        The squared length of each row, exact, which comes with the same reading of the rows.
    """

    total: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(cls, X: Any, ball: Ball) -> "Sums":
        """Sum over the rows of `X` about the centre of a ball, however long they are."""
        total, lengths = ball.surveyed(X)
        return cls(total.astype(np.int64), lengths)

    @staticmethod
    def change(relation: str, ball: Ball) -> Change:
        """Return how far one row moves the sum.

        A row w adds at most ``largest`` to each coordinate. Replaced, it moves coordinate i within the bounds: by 2 (most - least) at most,
        wherever the centre. Both are attained at corners, all coordinates together.
        """
        sides = [2 * int(side) for side in ball.most - ball.least] if relation == "replace_one" else [int(side) for side in ball.largest]
        return Change(relation, sum(sides), sum(side**2 for side in sides), max(sides))

    def query(self, relation: str, ball: Ball) -> Query:
        """Return the sum, and how far one row moves it."""
        return Query(self.total, self.change(relation, ball))

    def __add__(self, other: "Sums") -> "Sums":
        return Sums(self.total + other.total, np.concatenate([self.lengths, other.lengths]))
