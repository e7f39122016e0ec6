"""Sites, which hold tables and answer questions by sums under masks; and all sites as one table."""

import hashlib
import json
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from skdpsynth._validation import check_type, is_integer, list_or_none, short_repr
from skdpsynth.domain import Ball, BoundsLike, Box, Schema, SchemaLike
from skdpsynth.federated._partial_sums import RemoteTable
from skdpsynth.frames import Rows, Table, open_source
from skdpsynth.persistence import from_bytes, savable, to_bytes
from skdpsynth.statistics import Aggregator, CountRows, Question, total
from skdpsynth.tables import ClipToBounds, ReadNumbers, ReadValues, TableFormat, check_dtypes, infers_dtypes, split_under

_KEY = 32  # bytes
_LABEL = b"skdpsynth mask 1"
_HASH = 32  # bytes
_DEPTH = 8  # maps that a question may have, and more than any has
_THREADS = 64

T = TypeVar("T")


class Masks:
    """One-time masks of one site: every number that it sends has 64 random bits added, and the sum over all sites has none.

    Each pair of sites shares a key. For each question both make a pad from it, which the site whose name comes first adds, modulo 2**64,
    and the other one subtracts.

    Parameters
    ----------
    name : str
        Name of this site.
    keys : dict of str to bytes
        For every other site by its name: 32 random bytes that this pair alone knows, such as ``secrets.token_bytes(32)``, exchanged where
        the coordinator cannot listen. All sites take part in every sum.

    Raises
    ------
    ValueError
        If a key is no 32 bytes, or two are equal.

    See Also
    --------
    Site : Sends sums under masks.
    Sites : Adds them up, so that the masks cancel.

    Notes
    -----
    *Secrecy.* Let H be at least two sites that follow the rules and whose keys nobody else knows, and take their pads as random. Their
    messages are then uniform among all messages with the same sum over H: somebody who knows all other keys, and hears every message,
    learns the sum over H and nothing else. Proof: subtract the known pads. The pads within H map linearly onto the lists of masks whose sum
    is 0, because the pads of one site with each of the others alone reach every such list; a linear map onto a finite group takes uniform
    to uniform. For one site: if one of its keys is unknown, its messages have the same distribution for every table.

    *Pads* are SHAKE-256 of the key, the two names and the SHA-256 of the question, hence random unless SHAKE-256 is broken. Each question
    has its own number in its own session, and a `Site` answers none twice. Use new keys when a site starts anew or its table changes: two
    answers to one question under the same keys differ by the change.

    *Limits.* The coordinator learns the exact sum over all sites, and together with all other sites that of the remaining one. If a site
    falls silent, the sum is lost.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsynth.federated import Masks
    >>> masks = Masks.for_all(["east", "north", "west"])
    >>> sent = [site.hide(np.array([number], dtype=np.uint64), b"question") for number, site in enumerate(masks.values(), start=1)]
    >>> sum(sent)
    array([6], dtype=uint64)
    """

    def __init__(self, name: str, keys: Mapping[str, bytes]) -> None:
        if not isinstance(name, str) or not isinstance(keys, Mapping) or not all(isinstance(other, str) for other in keys) or name in keys:
            raise ValueError(f"keys must be a dict of the names of all sites but {short_repr(name)} to bytes, got {short_repr(keys)}.")
        for other, key in keys.items():
            if not isinstance(key, bytes) or len(key) != _KEY:
                raise ValueError(f"keys[{short_repr(other)}] must be {_KEY} bytes; make it by secrets.token_bytes({_KEY}).")
        if not keys or len(set(keys.values())) < len(keys):
            raise ValueError("keys must hold a key for each other site, and no two alike; make one for each pair of sites.")
        self.name = name
        self._keys = dict(keys)

    def __repr__(self) -> str:
        return f"Masks({self.name!r}, with {len(self._keys)} others)"

    @classmethod
    def for_all(cls, names: Iterable[str]) -> dict[str, "Masks"]:
        """Return masks by the distinct names of all sites, with fresh keys: for a rehearsal, or if one whom all trust hands keys out."""
        listed = list_or_none(names)
        if listed is None or not all(isinstance(name, str) for name in listed):
            raise TypeError(f"names must be a list of strings, names of the sites, got {short_repr(names)}.")
        keys: dict[str, dict[str, bytes]] = {name: {} for name in listed}
        if len(keys) < max(2, len(listed)):
            raise ValueError(f"names must be distinct names of at least two sites, got {short_repr(names)}.")
        for place, first in enumerate(listed):
            for second in listed[place + 1 :]:
                keys[first][second] = keys[second][first] = secrets.token_bytes(_KEY)
        return {name: cls(name, others) for name, others in keys.items()}

    def hide(self, values: np.ndarray, question: bytes) -> np.ndarray:
        """Return a vector of whole numbers, as uint64, with the mask of this site for a question.

        Masks of different names of questions are independent, and those of equal ones are equal.
        """
        check_type("values", values, np.ndarray, "an array of whole numbers")
        check_type("question", question, bytes, "bytes, which name the question")
        if values.dtype.kind not in "iu" or values.ndim != 1:
            raise ValueError(f"values must be whole numbers of one axis, got {values.dtype} of shape {values.shape}.")
        hidden = values.astype(np.uint64)
        for other, key in self._keys.items():
            pad = _pad(key, sorted((self.name, other)), question, len(hidden))
            if self.name < other:
                hidden += pad
            else:
                hidden -= pad
        return hidden


def _pad(key: bytes, pair: list[str], question: bytes, size: int) -> np.ndarray:
    """Derive random 64-bit numbers from a key.

    The hashed bytes have a fixed length, so different inputs are different strings. They include the names, so a key that serves two pairs
    against the rules still makes two pads, which do not cancel at one site.
    """
    about = hashlib.sha256(json.dumps(pair).encode()).digest() + hashlib.sha256(question).digest()
    stream = hashlib.shake_256(_LABEL + key + about).digest(8 * size)
    return np.frombuffer(stream, dtype="<u8").astype(np.uint64)


@savable
@dataclass(frozen=True, eq=False, repr=False)
class Round:
    """One question to all sites."""

    session: str  # random, chosen by the coordinator
    number: int  # of the question in this session, from 1 up
    question: Question

    def __repr__(self) -> str:
        return (
            f"Round({self.number} of session {self.session[:8]}: {self.question.rule}, of a table of {len(self.question.columns)} columns)"
        )

    @classmethod
    def from_bytes(cls, message: bytes) -> "Round":
        """Read a message; no code in it runs, and only parts of questions are accepted."""
        if not isinstance(message, bytes | bytearray | memoryview):
            raise TypeError(f"question must be bytes, as Sites sends them, got a {type(message).__name__}.")
        read = from_bytes(bytes(message), "question")
        if not (isinstance(read, Round) and without_error_details(read.is_whole)):
            raise ValueError("question holds no question that can be answered; it was not written by Sites.")
        return read

    def is_whole(self) -> bool:
        """Whether all fields are there and of their types, which a forged file may violate."""
        question = self.question
        return (
            isinstance(self.session, str)
            and is_integer(self.number, 1)
            and isinstance(question, Question)
            and isinstance(question.columns, tuple)
            and isinstance(question.rule, Aggregator)
            and isinstance(question.maps, tuple)
            and 1 <= len(question.maps) <= _DEPTH
            and isinstance(question.maps[0], ReadNumbers | ReadValues)
            and all(map(callable, question.maps))
        )


def without_error_details(work: Callable[[], T]) -> T:
    """Call `work`; hide the text of errors that only a forged question can cause, because it could quote a cell."""
    try:
        return work()
    except (MemoryError, OSError):
        raise
    except Exception as error:
        if type(error) in (TypeError, ValueError):  # ours, and not a subclass by which numpy tells more
            raise
        kind = type(error).__name__
    raise ValueError(f"question does not fit the table of this site, or is damaged ({kind}); ask anew.")


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
    the total. Its size does not depend on the rows. With `masks` it is noise to everybody without the keys. **No noise of differential
    privacy is added here**: it is drawn once, where the fit runs, so the coordinator sees the exact sums, and must be trusted not to keep
    them and to ask for no others. Comparing bounds finds mistakes; it does not make a malicious question harmless.

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
        X: Table,
        *,
        bounds: BoundsLike = None,
        schema: SchemaLike | None = None,
        masks: Masks | None = None,
        max_questions: int = 20,
        max_values: int = 67_108_864,
        n_jobs: int | None = None,
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
        if bounds is not None and schema is not None:
            raise ValueError("bounds must be None where schema is given, which states them; give one of the two.")
        names = [str(name) for name in self._columns] if self._source.library != "numpy" else None
        self._box = None if bounds is None else Box.from_bounds(bounds, len(self._columns), names)
        self._schema = None if schema is None else TableFormat(split_under(self._source, schema)[0]).match(schema).schema
        self._masks, self._max_questions, self._max_values, self._n_jobs = masks, max_questions, max_values, n_jobs
        self._last: dict[str, int] = {}  # number of the last question, by session
        self._lock = threading.Lock()
        self.log: list[str] = []

    def __repr__(self) -> str:
        return f"Site({len(self._columns)} columns, {len(self.log)} questions answered)"

    def read(self, message: bytes) -> Round:
        """Return a question for inspection, or raise if `answer` would refuse it; no row is read.

        Its repr says what is asked, and its attribute ``question`` holds all of it.
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
        """Answer a question of `Sites` by 32 bytes that name it, and 8 bytes for each number.

        Raises ValueError or TypeError if it is no question, was answered before or is not about what was agreed on, and OSError if the
        table cannot be read.
        """
        asked = self.read(message)
        question = asked.question
        with self._lock:  # the question is noted before any mask is made for it
            if len(self.log) >= self._max_questions:
                raise ValueError(
                    f"This site has answered max_questions={self._max_questions} questions, and answers no more; look at its log, "
                    "and make another Site with new masks."
                )
            if asked.number <= self._last.get(asked.session, 0):
                raise ValueError(f"Question {asked.number} of this session was asked before, and a mask serves once; begin the fit anew.")
            self._last[asked.session] = int(asked.number)
            asked_for = f"question {asked.number}: {question.rule}, of {len(question.columns)} columns"
            self.log.append(f"session {short_repr(asked.session[:8])}, {asked_for}")
        rows = Rows(self._source, len(self._columns), self._source.n_samples, self._maps(question), self._n_jobs)
        with np.errstate(all="ignore"):
            sums = without_error_details(lambda: total(rows, question.rule).flat)
        # The last number is 1 at each site, so their sum is the number of sites if all masks cancel.
        values = np.append(sums, 1).astype(np.int64).view(np.uint64)
        hidden = values if self._masks is None else self._masks.hide(values, message)
        return hashlib.sha256(message).digest() + hidden.astype("<u8").tobytes()

    def _maps(self, question: Question) -> tuple[Any, ...]:
        """Return what happens to rows here: cells of a CSV file are text, and numbers that are none the midpoint."""
        reading, *others = question.maps
        if not self._source.is_text:
            return question.maps
        if isinstance(reading, ReadValues):
            return (ReadValues(reading.schema, True, self._source.decimal), *others)
        if self._box is None:
            return question.maps
        return (ReadNumbers(len(self._columns), is_text=True), ClipToBounds.within(self._box), *others)

    def _check_agreed(self, question: Question) -> None:
        """Refuse a question about bounds or a schema that were not agreed on."""
        reading, step = question.maps[0], [*question.maps[1:], question.rule][0]
        if isinstance(reading, ReadValues):
            check_dtypes(reading.schema, split_under(self._source, reading.schema)[0].dtypes, infers_dtypes(self._source))
        if self._schema is not None and not (
            isinstance(reading, ReadValues) and list(reading.schema.items()) == list(self._schema.items())
        ):
            raise ValueError("question takes another schema than this site agreed to; give all sites and the fit the same one.")
        if self._box is not None and (
            isinstance(reading, ReadValues) or not (isinstance(step, CountRows) or _matches_box(step, self._box))
        ):
            raise ValueError("question takes other bounds than this site agreed to; give all sites and the fit the same.")


def _matches_box(step: object, box: Box) -> bool:
    """Whether a map or a rule takes rows of numbers within this box."""
    ball, schema = getattr(step, "ball", None), getattr(step, "schema", None)
    if isinstance(ball, Ball):

        def describe(of: Ball) -> tuple[np.ndarray, ...]:
            """Return the grid and the bounds within it."""
            return of.box.low, of.box.high, of.least, of.most

        agreed = [Ball.of(box, ball.box.bits, equal_units) for equal_units in (False, True)]
        return not ball.takes_coordinates and any(all(map(np.array_equal, describe(ball), describe(other))) for other in agreed)
    if isinstance(schema, Schema):
        kinds = list(schema.values())
        return [float(kind.low) for kind in kinds] == box.low.tolist() and [float(kind.high) for kind in kinds] == box.high.tolist()
    taken = getattr(step, "box", getattr(getattr(step, "partition", None), "box", None))
    return isinstance(taken, Box) and np.array_equal(taken.low, box.low) and np.array_equal(taken.high, box.high)


class Sites(RemoteTable):
    """The tables of several sites, for `fit` in place of one table: each answers by sums, and the model is that of all rows together.

    Parameters
    ----------
    sites : dict of str to callable
        For each site by its name, what carries a question to it and brings back its answer: from bytes to bytes. At the site it ends in
        ``site.answer`` of a `Site`. All are called at the same time, in threads. A call that may never return needs a time-out of its
        own.
    head : array or data frame
        Columns and dtypes, which are public and the same at all sites; see `RemoteRows`.
    n_samples : int, default=None
        The number of rows at all sites, if it is known. None, and always under "add_or_remove_one": the first question asks for it.

    See Also
    --------
    Site : One of them.
    Masks : Hide what each site sends.
    RemoteRows : Sums from elsewhere.

    Notes
    -----
    *Privacy.* The coordinator, which runs the fit, sees the **exact** sum over all sites for each question, and adds noise once. The
    published model is differentially private for every row of every site; only trust protects the sums from the coordinator itself. With
    `Masks` it learns these sums alone, and nothing about single sites, as long as it follows the rules or at least two sites keep their
    keys from it. Listeners see questions, which are public facts and released numbers, and masked answers.

    *Failures.* If one site does not answer, the fit fails, because masks cancel only in the sum of all. Before the first noise is drawn,
    this costs no budget; afterwards it costs all of epsilon. A site that sends wrong numbers makes the model wrong, and is not detected
    unless the masks do not cancel.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsynth import PrivatePCA
    >>> from skdpsynth.federated import Site, Sites
    >>> tables = np.array_split(np.random.default_rng(0).random((9000, 3)), 3)
    >>> sites = Sites({f"site {i}": Site(table).answer for i, table in enumerate(tables)}, head=np.empty((0, 3)))
    >>> PrivatePCA(1, epsilon=1.0, delta=1e-6, bounds=(0, 1)).fit(sites).n_samples_
    9000
    """

    def __init__(self, sites: Mapping[str, Callable[[bytes], bytes]], *, head: Table, n_samples: int | None = None) -> None:
        if not isinstance(sites, Mapping) or not sites or not all(map(callable, sites.values())):
            raise TypeError(f"sites must be a dict of names to callables from bytes to bytes, got {short_repr(sites)}; try site.answer.")
        super().__init__(head, n_samples)
        self._sites = dict(sites)
        self._session, self._number, self._lock = secrets.token_hex(16), 0, threading.Lock()

    def __repr__(self) -> str:
        return f"Sites({len(self._sites)} sites, {len(self.columns)} columns)"

    def ask(self, question: Question) -> np.ndarray:
        """Ask all sites, and return the sums over all rows: a vector of int64 numbers.

        Raises ConnectionError if a site does not answer, or sends something else, and ValueError if the masks do not cancel.
        """
        with self._lock:
            self._number += 1
            asked = Round(self._session, self._number, question)
        message, size = to_bytes(asked), question.rule.n_values + 1

        def numbers_from(site: Callable[[bytes], bytes]) -> np.ndarray:
            answer: Any = site(message)
            if not isinstance(answer, bytes | bytearray | memoryview):
                raise TypeError(f"an answer must be bytes, as Site.answer returns them, got a {type(answer).__name__}")
            answer = bytes(answer)
            if answer[:_HASH] != hashlib.sha256(message).digest() or len(answer) != _HASH + 8 * size:
                raise ValueError("what came is no answer to it")
            return np.frombuffer(answer, dtype="<u8", offset=_HASH).astype(np.uint64)

        sums = np.zeros(size, dtype=np.uint64)
        with ThreadPoolExecutor(min(_THREADS, len(self._sites))) as pool:
            waiting = {name: pool.submit(numbers_from, site) for name, site in self._sites.items()}
            for name, answer in waiting.items():
                try:
                    sums += answer.result()
                except Exception as error:
                    raise ConnectionError(
                        f"Site {short_repr(name)} did not answer question {asked.number}, {question.rule} ({type(error).__name__}); no sum "
                        "is complete without it: see to it, and fit again."
                    ) from error
        if int(sums[-1]) != len(self._sites):
            raise ValueError(
                "The masks of the sites do not cancel, so the sum says nothing; give each pair of sites one key, and ask the sites that "
                "have keys, all of them and each once."
            )
        return sums[:-1].view(np.int64)
