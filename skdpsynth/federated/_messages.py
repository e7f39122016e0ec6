"""Messages between the coordinator and the sites: bytes that are read without running code."""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpsynth._validation import is_integer
from skdpsynth.persistence import from_bytes, savable, to_bytes
from skdpsynth.statistics import Aggregator, Question
from skdpsynth.tables import ReadNumbers, ReadValues

_HASH = 32  # bytes
_DEPTH = 8  # maps that a question may have, and more than any has


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

    def to_bytes(self) -> bytes:
        return to_bytes(self)

    @classmethod
    def from_bytes(cls, message: bytes) -> "Round":
        """Read a message; no code in it runs, and only parts of questions are accepted."""
        if not isinstance(message, bytes | bytearray | memoryview):
            raise TypeError(f"question must be bytes, as Sites sends them, got a {type(message).__name__}.")
        told = from_bytes(bytes(message), "question")
        if not (isinstance(told, Round) and without_error_details(lambda: _is_whole(told))):
            raise ValueError("question holds no question that can be answered; it was not written by Sites.")
        return told


def _is_whole(told: Round) -> bool:
    """Whether all fields of a question are there and of their types, which a forged file may violate."""
    question = told.question
    return (
        isinstance(told.session, str)
        and is_integer(told.number, 1)
        and isinstance(question, Question)
        and isinstance(question.columns, tuple)
        and isinstance(question.rule, Aggregator)
        and isinstance(question.maps, tuple)
        and 1 <= len(question.maps) <= _DEPTH
        and isinstance(question.maps[0], ReadNumbers | ReadValues)
        and all(map(callable, question.maps))
    )


def without_error_details(work: Any) -> Any:
    """Call `work`; hide the text of errors that only a forged question can cause, because it could quote a cell."""
    try:
        return work()
    except (MemoryError, OSError):
        raise
    except Exception as error:
        if type(error) in (TypeError, ValueError):  # ours, and not a subclass by which numpy tells more
            raise
        told = type(error).__name__
    raise ValueError(f"question does not fit the table of this site, or is damaged ({told}); ask anew.")


def encode_answer(message: bytes, values: np.ndarray) -> bytes:
    """Return uint64 numbers as an answer, after the hash of the message."""
    return hashlib.sha256(message).digest() + values.astype("<u8").tobytes()


def decode_answer(answer: bytes, message: bytes, size: int) -> np.ndarray:
    """Return the uint64 numbers of an answer, or refuse one to another message."""
    if not isinstance(answer, bytes | bytearray | memoryview):
        raise TypeError(f"an answer must be bytes, as Site.answer returns them, got a {type(answer).__name__}")
    answer = bytes(answer)
    if answer[:_HASH] != hashlib.sha256(message).digest() or len(answer) != _HASH + 8 * size:
        raise ValueError("what came is no answer to it")
    return np.frombuffer(answer, dtype="<u8", offset=_HASH).astype(np.uint64)
