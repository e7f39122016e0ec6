"""The ledger: what was charged, as data, and what it adds up to.

`Ledger` keeps entries in memory. Whatever offers `append`, `entries`, `total` and `fold` may take its place, such as a file.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction

from skdpsynth._change import Change
from skdpsynth._checks import shown
from skdpsynth._locks import lock_of
from skdpsynth._version import __version__
from skdpsynth.exceptions import BudgetExceededError
from skdpsynth.persistence import savable
from skdpsynth.privacy._losses import Amount, PrivacyLoss
from skdpsynth.privacy._scales import described
from skdpsynth.privacy._totals import Group, Sums, more


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@savable
@dataclass(frozen=True)
class LedgerEntry:
    """One line of a ledger: data about a charge, none about the rows.

    Attributes
    ----------
    name : str
        What was released.
    loss : PrivacyLoss
        What it cost.
    neighboring : {"replace_one", "add_or_remove_one"}
        The relation that the loss is stated under.
    noise : str or None
        Kind of the noise that was added; None for a plain charge, and for the budget of a child.
    scale : tuple of Fraction
        The different scales of the noise, the least first.
    change : Change or None
        How far one row moves the values that were released. None where the caller stated the loss alone.
    n_values : int or None
        How many values were released.
    randomness : {"secure", "seeded"} or None
        Where the bits came from; seeded noise protects nobody.
    group : str or None
        Children of one group hold disjoint rows: together they cost their largest.
    part_of : int or None
        The entry that charged for this one already: it is a part, and adds nothing.
    id : int
        Its number in the ledger.
    time : str
        When it was charged: UTC, in the form of ISO 8601.
    version : str
        Of the package that charged it.
    """

    name: str
    loss: PrivacyLoss
    neighboring: str = "replace_one"
    noise: str | None = None
    scale: tuple[Fraction, ...] = ()
    change: Change | None = None
    n_values: int | None = None
    randomness: str | None = None
    group: str | None = None
    part_of: int | None = None
    id: int = 0
    time: str = field(default_factory=_now, compare=False, repr=False)
    version: str = field(default=__version__, compare=False, repr=False)

    def describe(self) -> str | None:
        """Return kind and scale of the noise in words."""
        return None if self.noise is None else described(self.noise, self.scale)


class Refused(Exception):
    """An entry does not fit: the (epsilon, delta) without it, and with it."""

    def __init__(self, spent: tuple[Amount, Fraction], needed: tuple[Amount, Fraction]) -> None:
        super().__init__(spent, needed)
        self.spent, self.needed = spent, needed


class Ledger:
    """Entries in memory, by account: None is the whole budget, and an entry's number is the account of the child it charged for.

    Parameters
    ----------
    entries : iterable of LedgerEntry
        Each before its parts.
    account : int, default=None
        Where the entries begin: the account of a child whose own entry is elsewhere, or None.
    """

    def __init__(self, entries: Iterable[LedgerEntry] = (), account: int | None = None) -> None:
        self._entries: dict[int, LedgerEntry] = {}
        self._by_account: dict[int | None, list[int]] = {}
        self._sums: dict[int | None, Sums] = {}
        self._groups: dict[tuple[int | None, str], Group] = {}
        self._root = account
        self._last = account or 0
        for entry in entries:
            if entry.id <= (entry.part_of or 0):
                raise ValueError(f"entries must be numbered after what they are part of, got {shown(entry.id)}; the ledger is damaged.")
            self._write(entry)

    def append(self, entry: LedgerEntry, epsilon: Amount, delta: Fraction) -> LedgerEntry:
        """Write an entry if the total of its account stays within (epsilon, delta), and return it with its number.

        Raises
        ------
        Refused
            If it does not fit; nothing is written then.
        BudgetExceededError
            If its account was folded away.
        """
        with lock_of(self):
            self.check_room(entry, epsilon, delta)
            entry = replace(entry, id=self._last + 1)
            self._write(entry)
            return entry

    def check_room(self, entry: LedgerEntry, epsilon: Amount, delta: Fraction) -> None:
        """Raise what `append` would, and write nothing."""
        with lock_of(self):
            if entry.part_of != self._root and entry.part_of not in self._entries:
                raise BudgetExceededError(
                    f"{shown(entry.name)} cannot be charged to what was folded into a sum, because its rows never come again; "
                    "use a new accountant.",
                    None,
                    Fraction(0),
                )
            needed = self._after(entry).total(delta)
            if needed[0] > epsilon or needed[1] > delta:
                raise Refused(self.total(entry.part_of, delta), needed)

    def _after(self, entry: LedgerEntry) -> Sums:
        sums = self._sums.get(entry.part_of, Sums())
        if entry.group is None:
            return sums.plus(entry.loss)
        group = self._groups.get((entry.part_of, entry.group), Group())
        return sums.with_group(group.largest, group.with_member(entry.name, entry.loss)[1])

    def _write(self, entry: LedgerEntry) -> None:
        # The sums come first: an interrupt may leave a charge without its line, never a line that was not charged.
        sums = self._after(entry)
        if entry.group is None:
            self._sums[entry.part_of] = sums
        else:
            group = self._groups.setdefault((entry.part_of, entry.group), Group())
            mine, largest = group.with_member(entry.name, entry.loss)
            self._sums[entry.part_of] = sums
            group.largest = largest
            group.members[entry.name] = mine
        self._last = max(self._last, entry.id)
        self._entries[entry.id] = entry
        self._by_account.setdefault(entry.part_of, []).append(entry.id)

    def entries(self, account: int | None = None) -> tuple[LedgerEntry, ...]:
        """Return what an account was charged, in order."""
        with lock_of(self):
            return tuple(self._entries[number] for number in self._by_account.get(account, ()))

    def below(self, account: int | None) -> Iterator[LedgerEntry]:
        """Yield what an account was charged, each followed by its parts."""
        for entry in self.entries(account):
            yield entry
            yield from self.below(entry.id)

    def told(self, entry: LedgerEntry) -> LedgerEntry:
        """Return an entry with the randomness of its parts, if it is the charge of a child."""
        if entry.noise is not None or entry.randomness is not None:
            return entry
        return replace(entry, randomness=_source(self.below(entry.id)))

    def additions(self, account: int | None, delta: Fraction) -> Iterator[tuple[LedgerEntry, Amount, Fraction]]:
        """Yield what an account was charged, in order, each with the (epsilon, delta) that it added to the total."""
        replayed = Ledger(account=account)
        epsilon, spent = replayed.total(account, delta)
        for entry in self.entries(account):
            replayed._write(entry)
            before = epsilon, spent
            epsilon, spent = replayed.total(account, delta)
            yield entry, more(before[0], epsilon), spent - before[1]

    def total(self, account: int | None, delta: Fraction) -> tuple[Amount, Fraction]:
        """Return (epsilon, delta) that an account has spent of a budget with this delta."""
        return self._sums.get(account, Sums()).total(delta)

    def has_member(self, account: int | None, group: str, name: str) -> bool:
        """Return whether a group has a member of this name."""
        return (account, group) in self._groups and name in self._groups[account, group].members

    def fold(self, account: int | None, group: str, names: Iterable[str], into: str) -> None:
        """Replace members of a group by one line, at the largest of them; their parts are forgotten, and nothing more is charged to them.

        For members whose rows never come again, so that what lives for ever stays small. The total does not change.
        """
        gone = {*names, into}
        with lock_of(self):
            numbers = self._by_account.get(account, [])
            folded = [n for n in numbers if self._entries[n].group == group and self._entries[n].name in gone]
            if not folded:
                return
            members = self._groups[account, group].members
            losses = [members[name] for name in gone & members.keys()]
            largest = PrivacyLoss(max(loss.epsilon for loss in losses), max(loss.delta for loss in losses))
            source = _source(self.told(self._entries[n]) for n in folded)
            line = replace(self._entries[folded[0]], id=self._last + 1, name=into, loss=largest, randomness=source)
            self._last, self._entries[line.id] = line.id, line
            kept = set(numbers) - set(folded)
            self._by_account[account] = [line.id if n == folded[0] else n for n in numbers if n in kept or n == folded[0]]
            self._groups[account, group].members = {into: largest} | {n: loss for n, loss in members.items() if n not in gone}
            for number in folded:
                self._forget(number)

    def _forget(self, number: int) -> None:
        for part in self._by_account.pop(number, ()):
            self._forget(part)
        del self._entries[number]
        self._sums.pop(number, None)
        for key in [key for key in self._groups if key[0] == number]:
            del self._groups[key]


def _source(entries: Iterable[LedgerEntry]) -> str | None:
    """One seeded draw makes all of it seeded."""
    sources = {entry.randomness for entry in entries}
    return "seeded" if "seeded" in sources else "secure" if "secure" in sources else None
