"""Sums of chunks that pass by once."""

import os
import secrets
from abc import abstractmethod
from collections.abc import Callable, Iterable
from contextlib import suppress
from copy import copy, deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from sklearn.base import BaseEstimator

from skdpsynth._parallel import lock_of
from skdpsynth._validation import collect_warnings, is_integer, short_repr
from skdpsynth.frames import Chunk, Rows, Source, Table, TableKind, as_chunk, is_chunk, to_native, without_rows
from skdpsynth.persistence import load, savable, save, to_bytes
from skdpsynth.statistics import Aggregator, CountRows, Question, RowCount, Statistic

_NUMBERS_OF_ROWS = (100, 10**6, 10**8)  # at which a question is tried, if it is not known


class RemoteTable(Source):
    """A table that a fit takes without reading a row of it.

    A fit asks for sums a few times. Each question is made of public facts and of earlier releases: it can be pickled and saved, and says
    all that a holder of rows needs to know.

    Parameters
    ----------
    head : array or data frame
        Columns and dtypes, which are public; its rows, if it has any, are dropped unread. Samples come back in its kind of table.
    n_samples : int, default=None
        The number of rows, where it is public. None: it is asked for.
    """

    is_readable, stays_apart = False, True

    def __init__(self, head: Table, n_samples: int | None = None) -> None:
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

    def aggregate(self, rows: Rows, rule: Aggregator) -> Any:
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
    engine such as Ray, in other processes or on other machines, and none comes to the machine of the fit. The model is the same to
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

    def __init__(self, ask: Callable[[Question], Any], *, head: Table, n_samples: int | None = None) -> None:
        if not callable(ask):
            raise TypeError(f"ask must be callable with a question, got {short_repr(ask)}; give one that returns the sums of all rows.")
        super().__init__(head, n_samples)
        self._ask = ask

    def ask(self, question: Question) -> Any:
        """Return the sums over all rows that answer a question: a statistic, or the vector of its numbers."""
        return self._ask(question)


@savable
@dataclass(frozen=True, eq=False, repr=False)
class _Part:
    """Content of a file of partial sums."""

    question: Question
    values: np.ndarray
    n_rows: int
    marks: tuple[str, ...]


class PartialSums(RemoteTable):
    """Sums of chunks that come one after the other and are not kept, for `fit` in place of a table.

    Give `fit` what can be read again, if you can. If chunks pass by once, this class adds up sums that the model will ask for. It serves
    models that ask for sums once: `SignedMeasureMechanism`, `PrivateMeasureMechanism` with ``strategy="optimal"`` or ``"paper"``, and
    `PrivatePCA` with ``noise="laplace"``, or with ``center="public"`` and a `max_norm`. Others ask again, depending on their releases, and
    are refused.

    Parameters
    ----------
    model : estimator
        The model to fit. Only the parameters that decide its question must stay the same.
    head : array or data frame
        Columns and dtypes, which are public; see `RemoteRows`.
    n_samples : int, default=None
        The final number of rows. It is needed if the question depends on it, as with sizes that are "auto".

    Attributes
    ----------
    question : Question
        The sums that the model asks for.
    n_rows : int
        Number of added rows: **private** under "add_or_remove_one".

    Raises
    ------
    ValueError
        If the model asks for more than one sum, or for one that depends on a number of rows that is not given.

    See Also
    --------
    RemoteRows : Sums from elsewhere, asked one after the other.
    Question : A request for sums of the chunks.

    Notes
    -----
    *Privacy.* The sums are exact, so this object, its pickle and its file are as secret as the rows, until the model is fitted: noise is
    drawn, and the budget charged, in `fit` and nowhere else. To fit again to sums that have grown is a second release, which costs epsilon
    again; for a model at any time under one epsilon see `skdpsynth.OnlineSynthesizer`.

    The question of a model is found by fits to no rows at all, whose noise is thrown away. They cost nothing. Under "add_or_remove_one"
    the number of rows is bought first: if its noise changes the question after all, `fit` refuses, and epsilon is spent.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsynth import PrivateMeasureMechanism
    >>> from skdpsynth.federated import PartialSums
    >>> rng, model = np.random.default_rng(0), PrivateMeasureMechanism("optimal", epsilon=1.0, bounds=(0, 1))
    >>> sums = PartialSums(model, head=np.empty((0, 2)), n_samples=5000)
    >>> for _ in range(10):
    ...     sums = sums.add(rng.random((500, 2)))  # a chunk that is then gone
    >>> sums
    PartialSums(counts of 2048 cells, of a table of 2 columns)
    >>> model.fit(sums).sample().shape
    (5000, 2)
    """

    def __init__(self, model: BaseEstimator, *, head: Table, n_samples: int | None = None) -> None:
        if isinstance(model, type) or not (hasattr(model, "neighboring") and hasattr(model, "get_params")):
            raise TypeError(f"model must be an unfitted estimator, such as PrivateMeasureMechanism('optimal'), got {short_repr(model)}.")
        super().__init__(head, n_samples)
        if model.neighboring != "replace_one":
            self.n_samples = None  # it is private
        self.question = _only_question(model, self.head, self.n_samples)
        self._same = to_bytes(self.question)
        self._sums, self.n_rows = self.question.rule.zero(), 0
        self._is_torn = False
        # Equal sums may be of other rows, so sums are known by what was drawn when they got their first rows. A copy that goes on keeps
        # the marks of the rows that it has, and draws one of its own for those that it gets.
        self._mark: str | None = None
        self._marks: frozenset[str] = frozenset()

    def __getstate__(self) -> dict[str, Any]:  # of a copy and a pickle
        with lock_of(self):  # sums are added to in place
            return {**vars(self), "_sums": deepcopy(self._sums), "_mark": None}

    def __repr__(self) -> str:
        return f"PartialSums({self.question.rule}, of a table of {len(self.columns)} columns)"

    def add(self, chunk: Chunk) -> "PartialSums":
        """Add the rows of a chunk, an array or a data frame; return this object."""
        chunk = as_chunk(chunk, "this one", "X")
        with lock_of(self), np.errstate(all="ignore"):
            self._check_whole()
            rows = self.question.apply_maps(chunk)
            # Sums are added to in place. After an interrupt nobody knows of how many rows, and who adds the chunk again counts some twice.
            self._is_torn = True
            if self._mark is None:
                self._mark = secrets.token_hex(16)
                self._marks |= {self._mark}
            self._sums = self.question.rule.add(self._sums, rows)
            self.n_rows += chunk.shape[0]
            self._is_torn = False
        return self

    def _check_whole(self) -> None:
        if self._is_torn:
            raise ValueError("Adding a chunk was interrupted, so some of its rows are in the sums and others are not; begin anew.")

    def _join(self, sums: Statistic, n_rows: int, marks: Iterable[str], what: str) -> dict[str, Any]:
        """Return the state with further sums; refuse any that are here already: one row would move sums twice as far as charged."""
        self._check_whole()
        if not self._marks.isdisjoint(marks):
            raise ValueError(f"{what} must be sums of other rows, but some of them are in these sums already; add each once.")
        return {"_sums": self._sums + sums, "n_rows": self.n_rows + n_rows, "_marks": self._marks.union(marks)}

    def __add__(self, other: "PartialSums") -> "PartialSums":
        """Add sums that answer the same question and have no rows in common."""
        if not isinstance(other, PartialSums) or other._same != self._same:
            raise ValueError(f"PartialSums add up where they answer the same question, here {self.question.rule}, got {short_repr(other)}.")
        both = copy(self)
        with lock_of(other):
            other._check_whole()
            vars(both).update(both._join(other._sums, other.n_rows, other._marks, "PartialSums that add up"))
        return both

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the sums to a file, without code in it, that `add_saved` reads: as secret as the rows."""
        with lock_of(self):
            self._check_whole()
            part = _Part(self.question, self._sums.flat, self.n_rows, tuple(sorted(self._marks)))
        save(part, path)

    def add_saved(self, path: str | os.PathLike[str]) -> "PartialSums":
        """Add the sums of a file, of rows that were added elsewhere; return this object.

        A file that answers another question is refused with a ValueError, and so are sums that were added before: the same file, a copy of
        it, or one that was written later from the same sums. They are recognized by random marks, so equal sums of other rows are accepted.
        """
        part = load(path)
        if not isinstance(part, _Part) or to_bytes(part.question) != self._same:
            raise ValueError(
                f"{short_repr(str(Path(path).name))} must hold the sums that are added up here, {self.question.rule}; make them by "
                "PartialSums for a model with the same parameters, columns and n_samples."
            )
        with lock_of(self):
            more = self.question.rule.from_flat(part.values)
            vars(self).update(self._join(more, int(part.n_rows), part.marks, short_repr(str(Path(path).name))))
        return self

    def ask(self, question: Question) -> Any:
        """Return the sums, if they answer this question; a fit asks it."""
        self._check_whole()
        if isinstance(question.rule, CountRows):
            return RowCount(self.n_rows)
        if self.n_samples is not None and self.n_samples != self.n_rows:
            raise ValueError(f"The chunks must hold n_samples={self.n_samples} rows in the end, but hold another number; add each once.")
        if to_bytes(question) != self._same:
            raise ValueError(
                f"The fit asks for {question.rule}, but other sums were added up, {self.question.rule}; make PartialSums for it."
            )
        return self._sums


class _UnansweredQuestion(Exception):
    """Ends a fit that only rehearses."""


def _only_question(model: BaseEstimator, head: Table, n_samples: int | None) -> Question:
    """Return the one question of a model beside the number of rows; refuse one that depends on unknown facts, or several."""
    question = _rehearse(model, head, n_samples or _NUMBERS_OF_ROWS[1], 0)
    assert question is not None
    try:
        further = _rehearse(model, head, n_samples or _NUMBERS_OF_ROWS[1], 1)
    except ArithmeticError:  # of sums that are no rows' sums
        further = None
    if further is not None:
        raise ValueError(
            f"{type(model).__name__} asks for sums more than once, for {further.rule} after {question.rule}, and chunks pass by once; "
            "give fit what can be read again, or choose parameters with which it asks once."
        )
    others = [_rehearse(model, head, n, 0) for n in _NUMBERS_OF_ROWS if n_samples is None]
    if any(to_bytes(each) != to_bytes(question) for each in others):
        way_out = (
            "give n_samples" if model.neighboring == "replace_one" else "state its sizes, or use neighboring='replace_one' with n_samples"
        )
        raise ValueError(f"{type(model).__name__} asks questions that depend on how many rows there are; {way_out}.")
    return question


def _rehearse(model: BaseEstimator, head: Table, n_rows: int, n_answers: int) -> Question | None:
    """Return the first question, after `n_answers` others, of a fit to an empty table that claims so many rows; None if there is none."""
    asked: list[Question] = []

    def ask(question: Question) -> Any:
        if isinstance(question.rule, CountRows):
            return RowCount(n_rows)
        asked.append(question)
        if len(asked) > n_answers:
            raise _UnansweredQuestion
        return question.rule.zero()

    again = type(model)(**{**model.get_params(deep=False), "accountant": None, "random_state": None})
    with collect_warnings(), suppress(_UnansweredQuestion):
        again.fit(RemoteRows(ask, head=head))
        return None
    return asked[-1]
