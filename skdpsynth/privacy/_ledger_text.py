"""Entries of a ledger, and what they add up to, as text that loses nothing: fractions are "n/d", infinity is "inf"."""

import json
import math
import re
import zlib
from dataclasses import fields
from fractions import Fraction
from typing import Any

from skdpsynth._change import Change
from skdpsynth.privacy._ledger import LedgerEntry
from skdpsynth.privacy._losses import PrivacyLoss
from skdpsynth.privacy._totals import Sums

_NUMBER = re.compile(r"-?(?:\d+|0x[0-9a-f]+)(?:/(?:\d+|0x[0-9a-f]+))?")
_LONG = 10**4000  # Python refuses to write or read more digits of a decimal number
_CLASSES = {cls.__name__: cls for cls in (PrivacyLoss, Sums, Change)}


def text_of(thing: Any) -> str:
    """Return a loss, sums, or a tuple of numbers as text."""
    return _sealed(_told(thing))


def thing_of(text: str) -> Any:
    """Return what `text_of` was given.

    Raises
    ------
    ValueError, TypeError, KeyError
        If it is no such text.
    """
    return _made(_unsealed(text))


def text_of_entry(entry: LedgerEntry) -> str:
    """Return an entry as text, without its number."""
    facts = {field.name: getattr(entry, field.name) for field in fields(entry) if field.name != "id"}
    exact = {name: _told(facts[name]) for name in _EXACT}
    return _sealed({name: value for name, value in (facts | exact).items() if value is not None})


def entry_of(number: int, text: str) -> LedgerEntry:
    """Return the entry that `text_of_entry` was given, with its number."""
    facts = _unsealed(text)
    return LedgerEntry(id=number, **(facts | {name: _made(facts[name]) for name in _EXACT if name in facts}))


def exact_text(number: Any) -> str:
    """Return a Fraction, or infinity, as text."""
    return str(_told(number))


_EXACT = ("loss", "scale", "change")  # of an entry; all else is words and whole numbers


def _sealed(told: Any) -> str:
    """Return JSON behind its check sum, since a digit that flips on a disk would be another amount."""
    text = json.dumps(told, separators=(",", ":"))
    return f"{zlib.crc32(text.encode()):08x} {text}"


def _unsealed(text: str) -> Any:
    if int(text[:8], 16) != zlib.crc32(text[9:].encode()):
        raise ValueError("a text of the ledger is not what was written.")
    return json.loads(text[9:])


def _told(value: Any) -> Any:
    if isinstance(value, Fraction):
        return _digits(value.numerator) + ("" if value.denominator == 1 else f"/{_digits(value.denominator)}")
    if isinstance(value, float):
        if not value == math.inf:
            raise TypeError("a ledger holds exact numbers, and infinity.")
        return "inf"
    if isinstance(value, tuple):
        return [_told(item) for item in value]
    if type(value).__name__ in _CLASSES:
        return {"is": type(value).__name__} | {field.name: _told(getattr(value, field.name)) for field in fields(value)}
    return value


def _made(told: Any) -> Any:
    if isinstance(told, str):
        return math.inf if told == "inf" else _fraction(told) if _NUMBER.fullmatch(told) else told
    if isinstance(told, list):
        return tuple(_made(item) for item in told)
    if isinstance(told, dict):
        return _CLASSES[told["is"]](**{name: _made(value) for name, value in told.items() if name != "is"})
    return told


def _digits(number: int) -> str:
    return str(number) if abs(number) < _LONG else hex(number)


def _fraction(text: str) -> Fraction:
    return Fraction(*(int(part, 16 if "x" in part else 10) for part in text.split("/")))
