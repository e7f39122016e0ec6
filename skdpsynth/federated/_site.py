"""Sites, which hold tables and answer questions by sums."""

import threading
from typing import Any

import numpy as np

from skdpsynth._validation import is_integer, short_repr
from skdpsynth.domain import Ball, Box, Schema
from skdpsynth.federated._messages import Round, encode_answer, without_error_details
from skdpsynth.federated._pairwise_masks import Masks
from skdpsynth.frames import Rows, open_source
from skdpsynth.statistics import CountRows, Question, total
from skdpsynth.tables import ClipToBounds, ReadNumbers, ReadValues, check_dtypes, kind_under, match_head


class Site:
    """Rows of one organization, which only sums leave.

    It answers the questions of a fit elsewhere (`Sites`), which travel as bytes over a channel of your choice. Questions are read without
    running code.

    Parameters
    ----------
    X : table
        Any table that `fit` takes: an array, a data frame, files, a database, Dask. It stays where it is, and must not change between
        questions.
    bounds : tuple or dict, default=None
        Bounds of all columns that were agreed on, as for estimators. A question that takes others is refused. None: they are not compared.
    schema : dict, Schema or path of a file, default=None
        The agreed schema, if the fit has one; then `bounds` must be None. None: it is not compared.
    masks : Masks, default=None
        Hide the sums of this site, but not the total. None: sums are sent unmasked.
    max_questions : int, default=20
        The most questions that are answered: a fit asks seven or fewer.
    max_values : int, default=67108864
        The most numbers that a question may ask for.
    n_jobs : int, default=None
        Threads that add up the rows, as everywhere in scikit-learn.

    Attributes
    ----------
    log : list of str
        Each answered question in plain words.

    Raises
    ------
    TypeError, ValueError
        If `X` is no table, or does not fit what was agreed on.

    See Also
    --------
    Sites : Several of them, for `fit`.
    Masks : Hide what a site sends.
    Question : A request for sums of a site.

    Notes
    -----
    *Data that leave the site.* The answer to a question is one 64-bit number for each sum, and one more that shows whether all sites are in
    the total. Its size does not depend on the rows. With `masks` it is noise to everybody without the keys, see `Masks`; without them, and
    in the total in any case, it is exact. **No noise of differential privacy is added here**: it is drawn once, where the fit runs, so the
    coordinator sees the exact sums, and must be trusted not to keep them and to ask for no others. Comparing bounds finds mistakes; it does
    not make a malicious question harmless: counts of cells tell of single rows if cells are small.

    *Each question once.* A mask serves only once. Questions of a session must come in rising order, and a question that failed is not
    answered again: the fit starts anew, with its own session.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsynth import PrivateMeasureMechanism
    >>> from skdpsynth.federated import Masks, Site, Sites
    >>> rng, masks = np.random.default_rng(0), Masks.for_all(["north", "south"])
    >>> north = Site(rng.random((3000, 2)), bounds=(0, 1), masks=masks["north"])
    >>> south = Site(rng.random((2000, 2)), bounds=(0, 1), masks=masks["south"])
    >>> sites = Sites({"north": north.answer, "south": south.answer}, head=np.empty((0, 2)))
    >>> model = PrivateMeasureMechanism("optimal", epsilon=1.0, bounds=(0, 1)).fit(sites)
    >>> model.sample().shape
    (5000, 2)
    >>> [line.partition(": ")[2] for line in north.log]
    ['the number of rows, of 2 columns', 'counts of 2048 cells, of 2 columns']
    """

    def __init__(
        self,
        X: Any,
        *,
        bounds: Any = None,
        schema: Any = None,
        masks: Masks | None = None,
        max_questions: int = 20,
        max_values: int = 67_108_864,
        n_jobs: Any = None,
    ) -> None:
        schema = None if schema is None else Schema.of(schema)
        self._source = open_source(X, read=None if schema is None else schema.read)
        if self._source.in_memory:
            self._source = open_source([X])
        if self._source.in_memory:
            raise TypeError(f"X must be a table, an array, a data frame or what fit can open, got {short_repr(X)}.")
        if self._source.is_text and schema is None and bounds is None:
            raise ValueError(
                "bounds must be given for a CSV file without a schema, where a cell that is no number is the midpoint, got None; give "
                "bounds, or schema."
            )
        if masks is not None and not isinstance(masks, Masks):
            raise TypeError(f"masks must be None or Masks, got {short_repr(masks)}; make them by Masks(name, keys).")
        if not is_integer(max_questions, 1) or not is_integer(max_values, 1):
            raise ValueError(
                f"max_questions and max_values must be positive integers, got {short_repr(max_questions)} and {short_repr(max_values)}."
            )
        self._columns = self._source.columns
        self._box, self._schema = _agreed_domain(self._source, self._columns, bounds, schema)
        self._masks, self._max_questions, self._max_values, self._n_jobs = masks, max_questions, max_values, n_jobs
        self._last: dict[str, int] = {}  # number of the last question, by session
        self._lock = threading.Lock()
        self.log: list[str] = []

    def __repr__(self) -> str:
        return f"Site({len(self._columns)} columns, {len(self.log)} questions answered)"

    def read(self, message: bytes) -> Round:
        """Return a question for inspection, or raise if `answer` would refuse it; no row is read.

        Parameters
        ----------
        message : bytes

        Returns
        -------
        asked : Round
            Its repr says what is asked; ``asked.question`` holds all of it.
        """
        asked = Round.from_bytes(message)
        question = asked.question
        size = without_error_details(lambda: int(question.rule.n_values))
        if not 0 <= size <= self._max_values:
            raise ValueError(f"question must ask for at most max_values={self._max_values} numbers, got {size}; ask for fewer.")
        question.check_columns(self._columns)
        without_error_details(lambda: self._check_agreed(question))
        return asked

    def answer(self, message: bytes) -> bytes:
        """Answer a question.

        Parameters
        ----------
        message : bytes
            From `Sites`.

        Returns
        -------
        answer : bytes
            32 bytes that name the question, and 8 bytes for each number.

        Raises
        ------
        ValueError, TypeError, OSError
            If it is no question, was answered before or is not about what was agreed on, or the table cannot be read.
        """
        asked = self.read(message)
        self._take(asked)
        question = asked.question
        rows = Rows(self._source, len(self._columns), self._source.n_samples, self._maps(question), self._n_jobs)
        with np.errstate(all="ignore"):
            sums = without_error_details(lambda: total(rows, question.rule).flat)
        # The last number is 1 at each site, so their sum is the number of sites if all masks cancel.
        values = np.append(sums, 1).astype(np.int64).view(np.uint64)
        return encode_answer(message, values if self._masks is None else self._masks.hide(values, message))

    def _maps(self, question: Question) -> tuple[Any, ...]:
        """Return what happens to rows here: cells of a CSV file are text, and numbers that are none the midpoint."""
        reading, *others = question.maps
        if not self._source.is_text:
            return question.maps
        if isinstance(reading, ReadValues):
            return (ReadValues(reading.schema, True), *others)
        if self._box is None:
            return question.maps
        return (ReadNumbers(len(self._columns), is_text=True), ClipToBounds.within(self._box), *others)

    def _take(self, asked: Round) -> None:
        """Note a question before any mask is made for it, or refuse a repeated one."""
        with self._lock:
            if len(self.log) >= self._max_questions:
                raise ValueError(
                    f"This site has answered max_questions={self._max_questions} questions, and answers no more; look at its log, "
                    "and make another Site with new masks."
                )
            if asked.number <= self._last.get(asked.session, 0):
                raise ValueError(f"Question {asked.number} of this session was asked before, and a mask serves once; begin the fit anew.")
            self._last[asked.session] = int(asked.number)
            question = asked.question
            asked_for = f"question {asked.number}: {question.rule}, of {len(question.columns)} columns"
            self.log.append(f"session {short_repr(asked.session[:8])}, {asked_for}")

    def _check_agreed(self, question: Question) -> None:
        """Refuse a question about bounds or a schema that were not agreed on."""
        reading, step = question.maps[0], [*question.maps[1:], question.rule][0]
        if isinstance(reading, ReadValues):
            check_dtypes(reading.schema, kind_under(self._source, reading.schema).dtypes)
        if self._schema is not None and not (
            isinstance(reading, ReadValues) and list(reading.schema.items()) == list(self._schema.items())
        ):
            raise ValueError("question takes another schema than this site agreed to; give all sites and the fit the same one.")
        if self._box is not None and (
            isinstance(reading, ReadValues) or not (isinstance(step, CountRows) or _matches_box(step, self._box))
        ):
            raise ValueError("question takes other bounds than this site agreed to; give all sites and the fit the same.")


def _agreed_domain(source: Any, columns: tuple, bounds: Any, schema: Schema | None) -> tuple[Box | None, Schema | None]:
    if bounds is not None and schema is not None:
        raise ValueError("bounds must be None where schema is given, which states them; give one of the two.")
    if schema is not None:
        schema = match_head(source, schema, "X").schema
    names = [str(name) for name in columns] if source.library != "numpy" else None
    return None if bounds is None else Box.from_bounds(bounds, len(columns), names), schema


def _matches_box(step: Any, box: Box) -> bool:
    """Whether a map or a rule takes rows of numbers within this box."""
    ball, schema = getattr(step, "ball", None), getattr(step, "schema", None)
    if isinstance(ball, Ball):
        return any(_is_same_ball(ball, Ball.of(box, ball.box.bits, equal_units)) for equal_units in (False, True))
    if isinstance(schema, Schema):
        kinds = list(schema.values())
        return [float(kind.low) for kind in kinds] == box.low.tolist() and [float(kind.high) for kind in kinds] == box.high.tolist()
    taken = getattr(step, "box", getattr(getattr(step, "partition", None), "box", None))
    return isinstance(taken, Box) and np.array_equal(taken.low, box.low) and np.array_equal(taken.high, box.high)


def _is_same_ball(ball: Ball, other: Ball) -> bool:
    """Whether two balls have the same grid and the same bounds within it."""
    pairs = [(ball.box.low, other.box.low), (ball.box.high, other.box.high), (ball.least, other.least), (ball.most, other.most)]
    return all(np.array_equal(here, there) for here, there in pairs) and not ball.takes_coordinates
