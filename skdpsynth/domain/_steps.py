"""Steps: the multiples of a public number to which numbers are rounded when they are written."""

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

_MOST_EXACT = 2**53


@lru_cache(maxsize=1024)
def _grid(unit: Fraction, low: Any, high: Any) -> tuple[int, int] | None:
    """Return the first and last multiple within bounds, as counts; None where floats are no finer than the multiples."""
    first, last = (Fraction(str(bound)) / unit for bound in (low, high))
    ends = math.ceil(first), math.floor(last)
    is_exact = max(unit.denominator, *(abs(end) * unit.numerator for end in ends), *map(abs, ends)) < _MOST_EXACT
    return ends if is_exact else None


def holds_multiple(kind: Any) -> bool:
    """Whether a multiple of the step lies within the bounds."""
    ends = _grid(kind.unit, kind.low, kind.high)
    return ends is None or ends[0] <= ends[1]


def round_to_step(x: np.ndarray, kind: Any) -> np.ndarray:
    """Return numbers as the nearest multiple of the step within the bounds; NaN stays.

    A count times the numerator is exact below 2**53, and IEEE division rounds correctly: each is the float that the decimal reads as.
    """
    unit: Fraction | None = getattr(kind, "unit", None)
    if unit is None or (ends := _grid(unit, kind.low, kind.high)) is None:
        return x
    return np.clip(np.rint(x * unit.denominator / unit.numerator), *ends) * unit.numerator / unit.denominator


def ceil_to_step(t: np.ndarray, unit: Fraction) -> np.ndarray:
    """Return the least multiple at or above each number, as a float."""
    counts = np.rint(t * unit.denominator / unit.numerator)
    return (counts + (counts * unit.numerator / unit.denominator < t)) * unit.numerator / unit.denominator
