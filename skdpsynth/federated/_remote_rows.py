"""Rows that somebody else sums."""

from collections.abc import Callable
from typing import Any

from skdpsynth._validation import short_repr
from skdpsynth.frames import RemoteTable
from skdpsynth.statistics import Question


class RemoteRows(RemoteTable):
    """A table of which only sums can be had, for `fit` in place of a table.

    A fit asks a few questions, one after the other, and `ask` answers each by the sums over all rows. Where the rows are, in the parts of
    an engine such as Spark or Ray, in other processes or on other machines, is the caller's affair, and no row comes to where the fit
    runs. The model is the same to the last bit as that of the rows in one table, since sums of whole numbers are.

    Parameters
    ----------
    ask : callable
        It takes a question and returns its answer. The question can be pickled. Wherever there is a chunk of rows, an array or a data
        frame, ``question.of(chunk)`` returns its sums, which add up with ``+``; their ``flat`` is a vector of int64 numbers, which add up
        too. Either is an answer, once every row was counted exactly once.
    head : array or data frame
        Columns and dtypes of the table, which are public. It needs no rows, and they are not read: ``frame[:0]``,
        ``np.empty((0, n_features))``. Samples come back in its kind of table.
    n_samples : int, default=None
        The number of rows, if it is known. None, and always under "add_or_remove_one": the first question asks for it.

    See Also
    --------
    Sites : Sums over several sites.
    PartialSums : Sums of chunks that pass by once.
    Question : What is asked of the table.

    Notes
    -----
    *Privacy.* Answers are exact: whoever sees one sees what a row adds to it. The noise is drawn where the fit runs, once, after the rows
    were summed, and the budget is charged when the first noise is drawn: so an answer that cannot be had at first costs nothing, and one
    that fails later has cost all of epsilon. A question after the first may depend on what was released by then. It holds nothing that
    is not released.

    What needs rows themselves is refused: `score`, ``strategy="scores"``, and synthesizers that are not of this package within others.

    Examples
    --------
    >>> import numpy as np
    >>> from functools import reduce
    >>> from operator import add
    >>> from skdpsynth import PrivateMeasureMechanism
    >>> from skdpsynth.federated import RemoteRows
    >>> parts = np.array_split(np.random.default_rng(0).random((5000, 2)), 7)  # wherever they are
    >>> def ask(question):
    ...     return reduce(add, map(question.of, parts))
    >>> model = PrivateMeasureMechanism(epsilon=1.0, bounds=(0, 1)).fit(RemoteRows(ask, head=np.empty((0, 2))))
    >>> model.sample().shape
    (5000, 2)
    """

    def __init__(self, ask: Callable[[Question], Any], *, head: Any, n_samples: int | None = None) -> None:
        if not callable(ask):
            raise TypeError(
                f"ask must be callable with a question, got {short_repr(ask)}; give a function that returns the sums of all rows."
            )
        super().__init__(head, n_samples)
        self._ask = ask

    def ask(self, question: Question) -> Any:
        """Return the sums over all rows that answer a question.

        Parameters
        ----------
        question : Question

        Returns
        -------
        answer : Statistic or int64 ndarray
        """
        return self._ask(question)
