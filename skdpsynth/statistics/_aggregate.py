"""From rows to sums, wherever the rows are."""

from functools import reduce
from operator import add
from typing import Any

import numpy as np

from skdpsynth.frames import Rows
from skdpsynth.statistics._aggregator import Aggregator


def total(rows: Rows, aggregator: Aggregator) -> Any:
    """Return the statistic of all rows: the same whatever their source, how they are cut into chunks, and who adds them up.

    Parameters
    ----------
    rows : Rows
    aggregator : Aggregator

    Returns
    -------
    statistic : object

    See Also
    --------
    Aggregator : The rule of a sum.
    Query : A statistic with its sensitivity.
    """
    return rows.source.aggregate(rows, aggregator)


def total_and_kept(rows: Rows, aggregator: Any, kept: np.ndarray) -> tuple[Any, Rows]:
    """Return the statistic of rows that can be read here, and what its `add` wrote of each row to `kept`, in one reading."""
    states, found = rows.folded_into(kept, aggregator.zero, aggregator.add)
    return reduce(add, states), found
