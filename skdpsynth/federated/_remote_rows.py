"""Rows that are summed elsewhere."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from skdpsynth._validation import is_integer, short_repr
from skdpsynth.frames import Source, TableKind, is_chunk, to_native, without_rows
from skdpsynth.statistics import Question, Statistic


class RemoteTable(Source):
    """A table that a fit takes without reading a row of it.

    A fit asks for sums a few times. What it asks, a question, is made of public facts and of what was released before: it can be pickled
    and saved, and says all that whoever holds rows needs to know.

    Parameters
    ----------
    head : array or data frame
        Columns and dtypes, which are public; its rows, if it has any, are dropped unread. Samples come back in its kind of table.
    n_samples : int, default=None
        The number of rows, where it is public. None: it is asked for.
    """

    is_readable, stays_apart = False, True

    def __init__(self, head: Any, n_samples: int | None = None) -> None:
        if not is_chunk(head):
            raise TypeError(
                f"head must be an array or a data frame that shows columns and dtypes, got {short_repr(head)}; give frame[:0], or "
                "np.empty((0, n_features))."
            )
        if n_samples is not None and not is_integer(n_samples, 0, 2**62):
            raise ValueError(f"n_samples must be None or a number of rows, got {short_repr(n_samples)}; None asks for it.")
        self.head = without_rows(to_native(head))
        self.n_samples = None if n_samples is None else int(n_samples)
        self.columns = TableKind.of(self.head).columns

    @abstractmethod
    def ask(self, question: Question) -> Any:
        """Return the statistic of all rows that answers a question, or the vector of its numbers."""

    def aggregate(self, rows: Any, rule: Any) -> Any:
        """Return the statistic of all rows, which others sum."""
        answer = self.ask(Question(self.columns, rows.maps, rule))
        if not isinstance(answer, np.ndarray | Statistic):
            raise TypeError(
                "an answer must be a sum of `question.of(chunk)`, or a vector of int64 numbers, got a "
                f"{type(answer).__name__}; add them up by +."
            )
        return rule.from_flat(answer if isinstance(answer, np.ndarray) else answer.flat)

    def chunks(self, n_rows: int | None = None) -> NoReturn:
        """Refuse to read rows."""
        raise TypeError("X lies elsewhere, so its rows can be summed but not read, which this needs; give a table that can be read.")


class RemoteRows(RemoteTable):
    """A table that gives only sums, for `fit` in place of a table.

    A fit asks a few questions, one after the other, and `ask` answers each by the sums over all rows. The rows may lie in the parts of an
    engine such as Spark or Ray, in other processes or on other machines, and none comes to the machine of the fit. The model is the same to
    the last bit as with all rows in one table, since sums of whole numbers are.

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
    Question : A request for sums of the table.

    Notes
    -----
    *Privacy.* Answers are exact, so they show the contribution of each row. The noise is drawn where the fit runs, once, after the rows
    were summed, and the budget is charged when the first noise is drawn: an answer that fails before costs nothing, and one that fails
    later costs all of epsilon. A question after the first may depend on earlier releases, and holds nothing else.

    Methods that need the rows themselves are refused: `score`, ``strategy="scores"``, and foreign synthesizers within others.

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
