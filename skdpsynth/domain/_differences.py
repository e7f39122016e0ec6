"""Which columns of numbers may be near each other by public facts alone, and the cells of their differences."""

from collections.abc import Hashable, Sequence
from itertools import combinations

import numpy as np

from skdpsynth.domain._axes import Axis, NumberAxis, TimeAxis
from skdpsynth.domain._kinds import Continuous
from skdpsynth.domain._schema import Schema
from skdpsynth.domain._ties import Tie

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
    kinds = {name: kind for name, kind in schema.items() if isinstance(kind, Continuous) and name not in but}
    pairs = [(a, b) for a, b in combinations(kinds, 2) if _are_comparable(kinds[a], kinds[b])]
    return pairs if len(pairs) <= _MOST_PAIRS else []


def _are_comparable(first: Continuous, second: Continuous, apart: float = 0.0) -> bool:
    """Whether two columns are on one scale, on which numbers of the second are compared with those of the first plus `apart`."""
    low, high = (first.low + apart, second.low), (first.high + apart, second.high)
    return first.integer == second.integer and min(high) - max(low) >= _COMMON * (max(high) - min(low))


def ordered_pairs(schema: Schema, ties: Sequence[Tie]) -> dict[tuple[Hashable, Hashable], float]:
    """Return the pairs of columns on one scale that an `Inequality` ties, and nothing else, with the least difference that keeps it.

    Parameters
    ----------
    schema : Schema
    ties : sequence of Tie
        With the axes of the table that samples are written to.

    Returns
    -------
    pairs : dict of (low, high) to float
        The difference is that of `read`: a date counts from its own lower bound.
    """
    out = {}
    for tie in ties:
        if len(tie.columns) > 2 or len(tie.orders.edges) != 1 or tie.orders.total or tie.impossible or tie.together:
            continue
        ((low, high, is_strict),) = tie.orders.edges
        apart = _apart(tie.axes[low], tie.axes[high])
        if apart is not None and _are_comparable(schema[low], schema[high], apart):
            out[low, high] = float(apart + is_strict)
    return out


def _apart(low: Axis, high: Axis) -> int | None:
    """Return the difference of `read` between equal values; None where they are rounded each in its way, so that none tells it."""
    if isinstance(low, TimeAxis) and isinstance(high, TimeAxis):
        return low.first - high.first if (low.unit, low.step) == (high.unit, high.step) else None
    if isinstance(low, NumberAxis) and isinstance(high, NumberAxis):
        return 0 if low.dtype == high.dtype or (low.kind.integer and high.kind.integer) else None
    return None


def edges_of_differences(first: Continuous, second: Continuous, least: float | None = None) -> np.ndarray:
    """Return the edges of ``2**depth`` cells of differences, of equal width; of real numbers 0 has one of its own.

    Parameters
    ----------
    first, second : Continuous
    least : float, default=None
        The least difference that there can be, where that is public: of real numbers 0. None: half of the cells are below 0.
    """
    if least is not None:
        return _edges_from(least, second.high - first.low, first.integer)
    largest = max(abs(second.high - first.low), abs(second.low - first.high))
    if first.integer:
        depth = min(_DEPTH, int(largest).bit_length() + 1)
        half = 1 << (depth - 1)
        return np.arange(-half, half + 1.0) * -(-(int(largest) + 1) // half)
    half = 1 << (_DEPTH - 1)
    below, above = np.linspace(-largest, 0, half + 1), np.linspace(0, largest, half)
    return np.concatenate([below[:-1], [0.0, np.nextafter(0, 1)], above[1:-1], [np.nextafter(largest, np.inf)]])


def _edges_from(least: float, most: float, is_whole: bool) -> np.ndarray:
    if is_whole:
        count = int(most - least) + 1
        depth = min(_DEPTH, max(1, (count - 1).bit_length()))
        return least + np.arange((1 << depth) + 1.0) * -(-count // (1 << depth))
    return np.concatenate([[least, np.nextafter(least, 1)], np.linspace(least, most, 1 << _DEPTH)[1:-1], [np.nextafter(most, np.inf)]])
