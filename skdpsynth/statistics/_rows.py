"""The exact number of rows."""

from dataclasses import dataclass

import numpy as np

from skdpsynth._change import Change, Query


@dataclass(frozen=True, repr=False)  # its counts are private: no repr shows them
class RowCount:
    """Number of rows: public under "replace_one", private under "add_or_remove_one".

    Attributes
    ----------
    n_samples : int
    """

    n_samples: int

    @staticmethod
    def change(relation: str) -> Change:
        """Return how far one row moves the number: by 1 if it is added or removed, not at all if it is replaced."""
        moved = int(relation == "add_or_remove_one")
        return Change(relation, moved, moved, moved)

    def query(self, relation: str) -> Query:
        """Return the number, and how far one row moves it."""
        return Query(np.array([self.n_samples], dtype=np.int64), self.change(relation))

    def __add__(self, other: "RowCount") -> "RowCount":
        return RowCount(self.n_samples + other.n_samples)
