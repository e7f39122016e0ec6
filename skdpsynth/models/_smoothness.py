"""Smooth loadings: a prior by which ordered codes are similar to their neighbors."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.fft import dct

_LEAST_ORDERED = 3  # codes
_ROUGH = 0.03  # of the variance of the first cosine, at every frequency: laws of atoms are not smooth


@dataclass(frozen=True, eq=False)
class Smoothness:
    """The prior precision of loadings, in units of that of loadings which are independent of each other.

    The loadings of the ordered codes of a column on a factor are a sum of cosines along the codes, of independent normal weights whose
    variance falls with the square of the frequency, and is 1 in the mean over frequencies. So noise in the cells of pairs, which has no
    smoothness, moves the trends of columns little, and a prior that keeps it out shrinks them little.
    """

    parts: tuple[tuple[slice, np.ndarray], ...] = ()  # the ordered codes of a column, and the precision of their loadings

    @classmethod
    def of(cls, starts: Sequence[int], n_ordered: Sequence[int]) -> "Smoothness":
        """Return that of columns that start at these codes, the first `n_ordered` of which have an order."""
        columns = [(start, n) for start, n in zip(starts, n_ordered, strict=True) if n >= _LEAST_ORDERED]
        return cls(tuple((slice(start, start + n), _precision(n)) for start, n in columns))

    def times(self, loadings: np.ndarray) -> np.ndarray:
        """Return the product of the precision and loadings, shape (n_codes, n_factors)."""
        if not self.parts:
            return loadings
        out = loadings.copy()
        for rows, precision in self.parts:
            out[rows] = precision @ loadings[rows]
        return out


@lru_cache(64)
def _precision(n: int) -> np.ndarray:
    cosines = dct(np.eye(n), axis=0, norm="ortho")
    variances = _ROUGH + np.maximum(np.arange(n), 1) ** -2.0  # that of the constant, which a softmax does not see, is the first one's
    variances /= variances[1:].mean()
    return (cosines.T @ (cosines / variances[:, None])).astype(np.float32)


INDEPENDENT = Smoothness()
