"""Entries of a ledger and their sums as text that loses nothing: fractions are "n/d", infinity is "inf"."""

import json
import math
import re
import zlib
from dataclasses import fields
from fractions import Fraction
from typing import Any

from skdpsynth._sensitivity import Sensitivity
from skdpsynth.privacy._account_sums import Sums
from skdpsynth.privacy._ledger import LedgerEntry
from skdpsynth.privacy._losses import PrivacyLoss

_NUMBER = re.compile(r"-?(?:\d+|0x[0-9a-f]+)(?:/(?:\d+|0x[0-9a-f]+))?")
_LONG = 10**4000  # Python refuses to write or read more digits of a decimal number
_CLASSES = {cls.__name__: cls for cls in (PrivacyLoss, Sums, Sensitivity)}


def to_text(thing: Any) -> str:
    return _add_checksum(_to_json(thing))


def parse_text(text: str) -> Any:
    """Return the argument of `to_text`; raise ValueError, TypeError or KeyError if this is no such text."""
    return _from_json(_strip_checksum(text))


def entry_to_text(entry: LedgerEntry) -> str:
    facts = {field.name: getattr(entry, field.name) for field in fields(entry) if field.name != "id"}
    exact = {name: _to_json(facts[name]) for name in _EXACT_FIELDS}
    return _add_checksum({name: value for name, value in (facts | exact).items() if value is not None})


def parse_entry(number: int, text: str) -> LedgerEntry:
    facts = _strip_checksum(text)
    return LedgerEntry(id=number, **(facts | {name: _from_json(facts[name]) for name in _EXACT_FIELDS if name in facts}))


def exact_text(number: Any) -> str:
    return str(_to_json(number))


_EXACT_FIELDS = ("loss", "scale", "sensitivity")  # of an entry; all else is words and whole numbers


def _add_checksum(data: Any) -> str:
    """Return JSON behind its check sum, since a digit that flips on a disk would be another amount."""
    text = json.dumps(data, separators=(",", ":"))
    return f"{zlib.crc32(text.encode()):08x} {text}"


def _strip_checksum(text: str) -> Any:
    if int(text[:8], 16) != zlib.crc32(text[9:].encode()):
        raise ValueError("a text of the ledger is not what was written.")
    return json.loads(text[9:])


def _to_json(value: Any) -> Any:
    if isinstance(value, Fraction):
        return _digits(value.numerator) + ("" if value.denominator == 1 else f"/{_digits(value.denominator)}")
    if isinstance(value, float):
        if not value == math.inf:
            raise TypeError("a ledger holds exact numbers, and infinity.")
        return "inf"
    if isinstance(value, tuple):
        return [_to_json(item) for item in value]
    if type(value).__name__ in _CLASSES:
        return {"is": type(value).__name__} | {field.name: _to_json(getattr(value, field.name)) for field in fields(value)}
    return value


def _from_json(data: Any) -> Any:
    if isinstance(data, str):
        return math.inf if data == "inf" else _fraction(data) if _NUMBER.fullmatch(data) else data
    if isinstance(data, list):
        return tuple(_from_json(item) for item in data)
    if isinstance(data, dict):
        return _CLASSES[data["is"]](**{name: _from_json(value) for name, value in data.items() if name != "is"})
    return data


def _digits(number: int) -> str:
    return str(number) if abs(number) < _LONG else hex(number)


def _fraction(text: str) -> Fraction:
    return Fraction(*(int(part, 16 if "x" in part else 10) for part in text.split("/")))
