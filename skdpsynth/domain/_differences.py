"""Which columns of numbers may be near each other by public facts alone, and the cells of their differences."""

from collections.abc import Hashable
from itertools import combinations

import numpy as np

from skdpsynth.domain._kinds import Continuous, Span
from skdpsynth.domain._schema import Schema

_COMMON = 0.5  # of the range of both, which is in the range of each
_DEPTH = 13  # halvings of the range of differences
_MOST_PAIRS = 45  # more would have too much noise, and say little: that many bounds are alike by chance


def comparable(schema: Schema, but: frozenset[Hashable] | set[Hashable] = frozenset()) -> list[tuple[Hashable, Hashable]]:
    """Return the pairs of columns of numbers on one scale: both whole or both real, with bounds that have half of their range in common.

    Parameters
    ----------
    schema : Schema
    but : set of column, default=frozenset()
        Columns that are left alone.

    Returns
    -------
    pairs : list of (column, column)
        None, if there are more than 45: bounds that so many columns have do not tell which of them are alike.
    """
    kinds = {name: kind for name, kind in schema.items() if _is_number(kind) and name not in but}
    pairs = [(a, b) for a, b in combinations(kinds, 2) if _are_comparable(kinds[a], kinds[b])]
    return pairs if len(pairs) <= _MOST_PAIRS else []


def _is_number(kind: object) -> bool:
    """Whether a column is of numbers, and no span, which another column says all of."""
    return isinstance(kind, Continuous) and not isinstance(kind, Span)


def _are_comparable(first: Continuous, second: Continuous) -> bool:
    """Whether two columns are on one scale."""
    low, high = (first.low, second.low), (first.high, second.high)
    return first.integer == second.integer and min(high) - max(low) >= _COMMON * (max(high) - min(low))


def edges_of_differences(first: Continuous, second: Continuous) -> np.ndarray:
    """Return the edges of ``2**depth`` cells of differences, of equal width, half of them below 0; of real numbers 0 has one of its own."""
    largest = max(abs(second.high - first.low), abs(second.low - first.high))
    if first.integer:
        depth = min(_DEPTH, int(largest).bit_length() + 1)
        half = 1 << (depth - 1)
        return np.arange(-half, half + 1.0) * -(-(int(largest) + 1) // half)
    half = 1 << (_DEPTH - 1)
    below, above = np.linspace(-largest, 0, half + 1), np.linspace(0, largest, half)
    return np.concatenate([below[:-1], [0.0, np.nextafter(0, 1)], above[1:-1], [np.nextafter(largest, np.inf)]])
