"""From rows to sums: wherever the rows are."""

from functools import reduce
from operator import add
from typing import Any

import numpy as np

from skdpsynth.frames import Rows
from skdpsynth.statistics._aggregator import Aggregator
from skdpsynth.statistics._dask import total_of_partitions
from skdpsynth.statistics._pushdown import push_down
from skdpsynth.statistics._question import Question
from skdpsynth.statistics._statistic import Statistic


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
    Query : A statistic with its change.
    """
    if rows.are_remote:
        answer = rows.origin.ask(Question(rows.origin.columns, rows.maps, aggregator))
        if not isinstance(answer, np.ndarray | Statistic):
            raise TypeError(
                "an answer must be a sum of `question.of(chunk)`, or a vector of int64 numbers, got a "
                f"{type(answer).__name__}; add them up by +."
            )
        return aggregator.from_flat(answer if isinstance(answer, np.ndarray) else answer.flat)
    if (statistic := push_down(rows, aggregator)) is not None:
        return statistic
    if rows.are_spread:
        return total_of_partitions(rows, aggregator)
    return reduce(add, rows.folded(aggregator.zero, lambda statistic, _, chunk: aggregator.add(statistic, chunk)))


def total_and_kept(rows: Rows, aggregator: Any, kept: np.ndarray) -> tuple[Any, Rows]:
    """Return the statistic of all rows, and what was found of each on the way, in one reading.

    Parameters
    ----------
    rows : Rows
        Which can be read here.
    aggregator : Aggregator
        Whose `add` takes places to write to.
    kept : ndarray of shape (n_samples, ...)
        Those places, for all rows.
    """
    states, found = rows.folded_into(kept, aggregator.zero, aggregator.add)
    return reduce(add, states), found
