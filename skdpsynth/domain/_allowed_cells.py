"""What a condition wants of one column, in the numbers and codes that mechanisms see."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class AllowedCells:
    """The cells of a column that a condition allows.

    Attributes
    ----------
    low, high : float
        Of a column of numbers: the ends of a range, which belong to it. Unused where `among` is given.
    among : ndarray or None
        Single numbers of a column of whole ones, in order, or numbers of levels. None: the range counts.
    missing : bool
        Whether a cell may be missing.
    """

    low: float = 0.0
    high: float = 0.0
    among: np.ndarray | None = None
    missing: bool = False

    @property
    def chosen(self) -> np.ndarray:
        """Return `among`; nothing where it is not given."""
        return np.empty(0) if self.among is None else self.among

    @property
    def is_missing(self) -> bool:
        """Whether a cell must be missing."""
        return self.missing and self.among is not None and not len(self.among)

    def of(self, values: np.ndarray) -> np.ndarray:
        """Return which numbers of a column meet it; NaN is a missing cell."""
        met = np.isin(values, self.among) if self.among is not None else (values >= self.low) & (values <= self.high)
        return np.where(np.isnan(values), self.missing, met)
