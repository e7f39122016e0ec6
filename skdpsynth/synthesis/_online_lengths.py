"""How long the blocks of a stream are: by public numbers alone."""

import math
from typing import Any

_FIRST = 16  # rows times epsilon of the first block, and rows at least
_BALANCE = 4  # rows of a block whose error is about that of its lag, as measured in benchmarks


def first_length(epsilon: Any, least: int) -> int:
    """Return how many rows a block has at least.

    Parameters
    ----------
    epsilon : Fraction or infinity
        Over the rows of a unit.
    least : int
        What the synthesizer of blocks asks for.
    """
    return max(_FIRST, math.ceil(_FIRST / epsilon) if epsilon != math.inf else 0, least)


def balanced_length(before: int, n_features: int, size: float) -> int:
    """Return the length for growth "auto", of order ``t**(d / (d + 1))``; `size` is epsilon times the rows of a unit of time."""
    d = n_features
    return int(min(_BALANCE * before ** (d / (d + 1)) * size ** (-1 / (d + 1)), before / 4))


def grown_length(before: int, growth: float) -> int:
    """Return the length with which time grows as it shall."""
    return int(min((growth - 1) * before, 2.0**62))


def length_until_horizon(before: int, first: int, growth: float, horizon: int) -> int:
    """Return the length where the end of the stream is known: a block ends with it, so that no row waits then.

    What is left of the stream is shared by as many blocks as would grow as they shall, about, and those grow alike: by the root of
    `growth` at least, and by its square at most.

    Parameters
    ----------
    before : int
        Time before the block; less than `horizon`.
    first : int
        The least length.
    growth : float
        Above 1.
    horizon : int
        Where the stream ends.
    """
    if not before:
        return horizon if first <= horizon < first * math.sqrt(growth) else first
    times = math.log(horizon) - math.log(before)  # whose quotient may be beyond all floats
    n_blocks = max(1, round(times / math.log(growth)))
    return horizon - before if n_blocks == 1 else math.ceil(before * math.expm1(times / n_blocks))
