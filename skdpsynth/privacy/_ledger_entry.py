"""Lines of a ledger: an entry, its exact text, and a store of entries in memory."""

import json
import math
import os
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, TypeAlias, TypeVar

from skdpsynth._parallel import lock_of
from skdpsynth._sensitivity import Sensitivity
from skdpsynth._version import __version__
from skdpsynth.persistence import savable
from skdpsynth.privacy._composition import Sums
from skdpsynth.privacy._losses import Amount, PrivacyLoss
from skdpsynth.privacy._noise import describe_noise

_LONG = 10**4000  # Python refuses to write or read more digits of a decimal number
_Result = TypeVar("_Result")
Accountant: TypeAlias = Any  # a `PrivacyAccountant`, whose module imports this one
Key = tuple[Any, ...]  # whose sums: (account,), (account, group), or (account, group, name of a member)


@savable
@dataclass(frozen=True)
class LedgerEntry:
    """One line of a ledger: data about a charge, none about the rows.

    Attributes
    ----------
    name : str
        The name of the release.
    loss : PrivacyLoss
        Its cost.
    neighboring : {"replace_one", "add_or_remove_one"}
        The neighboring relation of the loss.
    noise : str or None
        Kind of the noise that was added; None for a plain charge, and for the budget of a child.
    scale : tuple of Fraction
        The different scales of the noise, the least first.
    sensitivity : Sensitivity or None
        How far one row, or the rows of one unit, move the released values. None where the caller stated the loss alone.
    n_values : int or None
        Number of released values.
    randomness : {"secure", "seeded"} or None
        The source of the bits; seeded noise protects nobody.
    group : str or None
        Children of one group hold disjoint rows: together they cost their largest.
    unit : str or None
        The unit of privacy, if not a row: the labels, and how many rows of each count, such as "patient_id, at most 5 rows".
    part_of : int or None
        The entry that charged for this one already: it is a part, and adds nothing.
    id : int
        Its number in the ledger.
    time : str
        Time of the charge: UTC, in the form of ISO 8601.
    version : str
        Version of the package that charged it.
    dataset : str or None
        The caller's name of the data set.
    process : str or None
        The process that charged it, in a ledger that many share: its number, and some random letters, which identify no machine and no
        user.
    note : str or None
        The caller's note.
    source : str or None
        For an entry that was first charged in another ledger: the id of that ledger, and its number there.

    See Also
    --------
    PrivacyAccountant : Keeps the ledger.
    """

    name: str
    loss: PrivacyLoss
    neighboring: str = "replace_one"
    noise: str | None = None
    scale: tuple[Fraction, ...] = ()
    sensitivity: Sensitivity | None = None
    n_values: int | None = None
    randomness: str | None = None
    group: str | None = None
    part_of: int | None = None
    id: int = 0
    unit: str | None = None
    time: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"), compare=False, repr=False)
    version: str = field(default=__version__, compare=False, repr=False)
    dataset: str | None = None
    process: str | None = field(default=None, compare=False, repr=False)
    note: str | None = None
    source: str | None = field(default=None, compare=False, repr=False)

    def describe(self) -> str | None:
        """Return kind and scale of the noise in words."""
        return None if self.noise is None else describe_noise(self.noise, self.scale)


def new_ledger_id() -> str:
    return f"ledger-{os.urandom(16).hex()}"


class MemoryStore:
    """Entries and sums in memory. `FileStore` keeps the same in a file.

    `root` is the account where the entries begin, if its entry is elsewhere; `charge` is then its loss.
    """

    is_file, path = False, ""
    process: str | None = None

    def __init__(self, id: str | None = None, root: int | None = None, charge: PrivacyLoss | None = None) -> None:
        self.id, self.root, self.charge = new_ledger_id() if id is None else id, root, charge
        self._entries: dict[int, LedgerEntry] = {}
        self._numbers: dict[int | None, list[int]] = {}  # by account, in order
        self._sources: dict[str, int] = {}
        # All that says what was charged, so that one call of `update` writes a line or does not, wherever an interrupt comes: sums by key,
        # how many of the numbers of each account count, the largest number that any entry has had, and which are pending.
        self._state: dict[Key | int | str | None, Any] = {"latest": root or 0, "pending": frozenset[int]()}

    def run(self, work: Callable[[], _Result], mode: str = "write") -> _Result:
        with lock_of(self):
            return work()

    def whole(self, work: Callable[["MemoryStore"], _Result]) -> _Result:
        with lock_of(self):
            twin = object.__new__(MemoryStore)
            vars(twin).update({name: {**value} if isinstance(value, dict) else value for name, value in vars(self).items()})
            twin._numbers = {account: [*numbers] for account, numbers in self._numbers.items()}
            done = work(twin)
            vars(self).update(vars(twin))  # all at once and last, so that an interrupt leaves this as it was, or as it is then
            return done

    @property
    def latest(self) -> int:
        return self._state["latest"]

    @property
    def pending(self) -> frozenset[int]:
        return self._state["pending"]

    def entry(self, number: int) -> LedgerEntry | None:
        return self._entries.get(number) if number <= self.latest else None

    def numbers(self, account: int | None) -> list[int]:
        numbers, n_known = self._numbers.get(account, []), self._state.get(account, 0)
        return numbers if len(numbers) == n_known else numbers[:n_known]

    def entries(self, account: int | None, name: str | None = None) -> list[LedgerEntry]:
        return [entry for number in self.numbers(account) if name in (None, (entry := self._entries[number]).name)]

    def sums(self, key: Key) -> Sums | None:
        return self._state.get(key)

    def source(self, source: str) -> int | None:
        return self._sources.get(source)

    def add(self, entry: LedgerEntry, sums: dict[Key, Sums], *, pending: bool = False, before: int | None = None) -> None:
        """Write an entry and the sums that it changes: all of it in the last line, or nothing that counts."""
        numbers, n_known = self._numbers.setdefault(entry.part_of, []), self._state.get(entry.part_of, 0)
        del numbers[n_known:]  # left by an interrupt
        numbers.insert(n_known if before is None else numbers.index(before), entry.id)
        self._entries[entry.id] = entry
        if entry.source is not None:
            self._sources[entry.source] = entry.id
        now: dict[Any, Any] = dict(sums)
        now |= {entry.part_of: n_known + 1, "latest": max(self.latest, entry.id)}
        self._state.update(now | {"pending": self.pending.union([entry.id] if pending else ())})

    def remove(self, entry: LedgerEntry) -> None:
        del self._entries[entry.id]
        self._numbers.pop(entry.id, None)
        self._numbers[entry.part_of].remove(entry.id)
        self._state[entry.part_of] -= 1
        own = {key for key in self._state if key == entry.id or (isinstance(key, tuple) and key[0] == entry.id)}
        self._state = {key: value for key, value in self._state.items() if key not in own}
        self.set_pending([entry.id], False)

    def set_sums(self, key: Key, sums: Sums | None) -> None:
        if sums is None:
            self._state.pop(key, None)
        else:
            self._state[key] = sums

    def set_source(self, source: str, number: int) -> None:
        self._sources[source] = number

    def set_pending(self, numbers: Iterable[int], are_pending: bool) -> None:
        self._state["pending"] = self.pending.union(numbers) if are_pending else self.pending.difference(numbers)


# Exact texts, each behind its check sum, since a digit that flips on a disk would be another amount.

_CLASSES = {cls.__name__: cls for cls in (LedgerEntry, PrivacyLoss, Sums, Sensitivity)}


def to_text(thing: object) -> str:
    text = json.dumps(_to_json(thing), separators=(",", ":"))
    return f"{zlib.crc32(text.encode()):08x} {text}"


def parse_text(text: str) -> Any:
    """Return the argument of `to_text`; raise ValueError, TypeError or KeyError if this is no such text."""
    if int(text[:8], 16) != zlib.crc32(text[9:].encode()):
        raise ValueError("a text of the ledger is not what was written.")
    return _from_json(json.loads(text[9:]))


def exact_text(number: Amount) -> str:
    """Return "1/10", "3" or "inf"."""
    if isinstance(number, float) and number != math.inf:
        raise TypeError("a ledger holds exact numbers, and infinity.")
    if number == math.inf:
        return "inf"
    return "/".join(str(n) if abs(n) < _LONG else hex(n) for n in Fraction(number).as_integer_ratio()).removesuffix("/1")


def _to_json(value: Any) -> Any:
    if isinstance(value, Fraction | float):
        return {"number": exact_text(value)}
    if isinstance(value, tuple):
        return [_to_json(item) for item in value]
    if type(value).__name__ in _CLASSES:
        facts = {field.name: getattr(value, field.name) for field in fields(value)}
        return {"is": type(value).__name__} | {name: _to_json(fact) for name, fact in facts.items() if fact is not None}
    return value


def _from_json(data: object) -> Any:
    if isinstance(data, list):
        return tuple(_from_json(item) for item in data)
    if not isinstance(data, dict):
        return data
    if "number" in data:
        parts = [] if data["number"] == "inf" else data["number"].split("/")
        return Fraction(*(int(part, 16 if "x" in part else 10) for part in parts)) if parts else math.inf
    return _CLASSES[data["is"]](**{name: _from_json(value) for name, value in data.items() if name != "is"})
