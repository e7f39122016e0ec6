"""Ledgers: entries and their sums, in memory (`Ledger`) or in a file (`LedgerFile`)."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, TypeVar

from skdpsynth._parallel import lock_of
from skdpsynth._sensitivity import Sensitivity
from skdpsynth._validation import short_repr
from skdpsynth._version import __version__
from skdpsynth.exceptions import BudgetExceededError
from skdpsynth.persistence import savable
from skdpsynth.privacy._composition import Group, Sums, added_amount, largest
from skdpsynth.privacy._losses import Amount, PrivacyLoss
from skdpsynth.privacy._noise import describe_noise
from skdpsynth.privacy._optimal_composition import covers_composition

_Result = TypeVar("_Result")
_REDRAWN = ", drawn anew after entry "


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


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
    PrivacyLoss : The cost of an entry.
    Sensitivity : How far one row moves the released values.
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
    time: str = field(default_factory=_now, compare=False, repr=False)
    version: str = field(default=__version__, compare=False, repr=False)
    dataset: str | None = None
    process: str | None = field(default=None, compare=False, repr=False)
    note: str | None = None
    source: str | None = field(default=None, compare=False, repr=False)

    def describe(self) -> str | None:
        """Return kind and scale of the noise in words."""
        return None if self.noise is None else describe_noise(self.noise, self.scale)


class OverBudget(Exception):
    """An entry does not fit: (epsilon, delta) without it and with it, and whether a charge in rho is too small for it."""

    def __init__(self, spent: tuple[Amount, Fraction], needed: tuple[Amount, Fraction], in_rho: bool = False) -> None:
        super().__init__(spent, needed, in_rho)
        self.spent, self.needed, self.in_rho = spent, needed, in_rho


class OutOfTurn(ValueError):
    """An entry may not come now, however much remains."""


def base_name(name: str) -> str:
    """Return the name of a member of a group as its caller gave it."""
    return name.partition(_REDRAWN)[0]


class Overtaken(Exception):
    """Another process has charged the account since this one looked at it."""


class BaseLedger(ABC):
    """Entries by account: None is the whole budget, and an entry's number is the account of the child it charged for.

    An entry may be pending: charged, while nothing that it paid for has been shown yet. A process that is killed leaves it so for ever,
    because what it drew died with it. A pending entry counts as spent, and says nothing about which rows were released.
    """

    id: str
    charge: PrivacyLoss | None = None  # for the account where the entries begin, if its entry is elsewhere

    # What a ledger keeps. A caller has the ledger to itself meanwhile.

    @abstractmethod
    def _has_account(self, account: int | None) -> bool: ...

    @abstractmethod
    def _stored_sums(self, account: int | None) -> Sums | None:
        """Return the sums of an account; None if nothing was charged."""

    @abstractmethod
    def _group_of(self, account: int | None, group: str, name: str) -> Group:
        """Return a group, with the member of this name at least."""

    @abstractmethod
    def _numbers(self, account: int | None, group: str | None = None, name: str | None = None) -> set[int]:
        """Return the numbers of the entries of an account, or of a member of a group, drawn anew or not."""

    @abstractmethod
    def _pending(self) -> set[int]:
        """Return the numbers of pending entries."""

    @abstractmethod
    def _set_pending(self, numbers: Iterable[int], are_pending: bool) -> None: ...

    @abstractmethod
    def _entry_from(self, source: str) -> int | None:
        """Return the number of the entry that came from another ledger's; 0: it was not needed, None: there is none."""

    @abstractmethod
    def _entry(self, number: int) -> LedgerEntry | None: ...

    @abstractmethod
    def _latest(self) -> int:
        """Return the largest number that any entry has had."""

    @abstractmethod
    def _add(self, entry: LedgerEntry) -> int:
        """Write an entry without checking the budget, and return its number."""

    @abstractmethod
    def _leave_out(self, source: str) -> None:
        """Note that an entry of another ledger is not needed."""

    @abstractmethod
    def _fold_members(self, account: int | None, group: str, gone: set[str], into: str) -> int | None: ...

    @abstractmethod
    def _run_transaction(self, work: Callable[[], _Result], begin: str = "begin immediate") -> _Result:
        """Do some work while this caller alone has the ledger, and return its result; "begin" is enough to read."""

    # What is done with it

    @abstractmethod
    def snapshot(self, account: int | None) -> "Ledger":
        """Return a ledger in memory with all entries of an account and their parts; a ledger in memory returns itself."""

    @abstractmethod
    def whole(self, work: Callable[[Any], _Result]) -> _Result:
        """Do work that writes to the ledger it is given: all of it, or none where it raises; return its result."""

    def append(
        self, entry: LedgerEntry, epsilon: Amount, delta: Fraction, newest: int | None = None, planned: bool = False, pending: bool = False
    ) -> LedgerEntry:
        """Write an entry if the total of its account stays within (epsilon, delta), and return it with its number.

        `newest` is the newest entry of the account that the caller knows. `planned`: the shares of all kinds of losses were fixed before
        the first, as in a fit, so they may come in any order. `pending`: nothing that it pays for is shown until `settle`. Nothing is
        written where this raises: `OverBudget` or `OutOfTurn` if the entry may not come, `Overtaken` if the account has a newer entry than
        `newest`, BudgetExceededError if its account was folded away.
        """
        return self._run_transaction(lambda: self._append_checked(entry, epsilon, delta, newest, planned, pending))

    def claim(self, entry: LedgerEntry, epsilon: Amount, delta: Fraction, planned: bool = False) -> LedgerEntry:
        """Return a pending entry like this one, whose owner died before anything was shown, or write this one as pending.

        Where the owner still lives, two have it, and `settle` lets only the first of them show something. A ledger in memory always
        writes: it dies with the owner, and nothing in it would stop the second of two.
        """
        return self.append(entry, epsilon, delta, planned=planned, pending=True)

    def settle(self, account: int | None, numbers: Iterable[int], newest: int | None = None) -> None:
        """Make entries, and so their account, no longer pending: all of them or none.

        Raises `Overtaken` if the account has another newest entry than `newest`: then these rows were released elsewhere.
        """
        numbers = [*numbers, *([] if account is None else [account])]

        def work() -> None:
            self._check_newest(account, newest)
            self._set_pending(numbers, False)

        self._run_transaction(work)

    def fold(self, account: int | None, group: str, names: Iterable[str], into: str, newest: int | None = None) -> int | None:
        """Replace members of a group by one line, at the largest of them; their parts are forgotten.

        It is for members whose rows never come again, so that an endless ledger stays small. The total does not change. Return the number
        of the line, or None if there was nothing to fold.
        """
        gone = {*names, into}

        def work() -> int | None:
            self._check_newest(account, newest)
            return self._fold_members(account, group, gone, into)

        return self._run_transaction(work)

    def check_room(self, entry: LedgerEntry, epsilon: Amount, delta: Fraction, planned: bool = False) -> None:
        """Raise what `append` would, and write nothing."""
        self._run_transaction(lambda: self._check_room(entry, epsilon, delta, planned), "begin")

    def sums(self, account: int | None) -> Sums:
        return self._run_transaction(lambda: self._sums_of(account), "begin")

    def total(self, account: int | None, delta: Fraction) -> tuple[Amount, Fraction]:
        """Return the (epsilon, delta) that an account has spent of a budget with this delta."""
        return self.sums(account).total(delta)

    def newest(self, account: int | None) -> int:
        """Return the largest number of an entry of an account that is not pending, or 0."""
        return self._run_transaction(lambda: self._newest_of(account), "begin")

    def last(self, account: int | None) -> int:
        """Return the largest number of an entry of an account, pending or not, or 0."""
        return self._run_transaction(lambda: max(self._numbers(account), default=0), "begin")

    def has_member(self, account: int | None, group: str, name: str) -> bool:
        return self._run_transaction(lambda: name in self._group_of(account, group, name).members, "begin")

    def entries(self, account: int | None = None) -> tuple[LedgerEntry, ...]:
        return self.snapshot(account).entries(account)

    def _check_room(self, entry: LedgerEntry, epsilon: Amount, delta: Fraction, planned: bool = False) -> None:
        if not self._has_account(entry.part_of):
            raise BudgetExceededError(
                f"{short_repr(entry.name)} cannot be charged to what was folded into a sum, because its rows never come again; "
                "use a new accountant.",
                None,
                Fraction(0),
            )
        after = self._after(entry)[0]
        needed = after.total(delta)
        if after.exceeds_charge or needed[0] > epsilon or needed[1] > delta:
            raise OverBudget(self._sums_of(entry.part_of).total(delta), needed, after.exceeds_charge)
        if not planned and not self._sums_of(entry.part_of).admits(entry.loss):
            raise OutOfTurn(
                f"{short_repr(entry.name)} has a loss of {entry.loss}, which may not follow losses in rho of another kind, because which "
                "comes when could follow from what came out; fit what is pure first, or give each kind a child of its own before."
            )

    def _sums_of(self, account: int | None) -> Sums:
        stored = self._stored_sums(account)
        if stored is not None:
            return stored
        charge = self.charge_of(account)
        return Sums() if charge is None else Sums.below(charge)

    def charge_of(self, account: int | None) -> PrivacyLoss | None:
        """Return the charge for an account; None for the whole budget."""
        entry = None if account is None else self._entry(account)
        return self.charge if entry is None else entry.loss

    def _after(self, entry: LedgerEntry) -> tuple[Sums, Any, Any]:
        """Return the sums after an entry; for one in a group also the sums of its member and the largest of the group."""
        sums = self._sums_of(entry.part_of)
        if entry.group is None:
            return sums.plus(entry.loss), None, None
        group = self._group_of(entry.part_of, entry.group, entry.name)
        mine, largest = group.with_member(entry.name, entry.loss)
        return sums.with_group(group.largest, largest), mine, largest

    def _newest_of(self, account: int | None) -> int:
        return max(self._numbers(account) - self._pending(), default=0)

    def _check_newest(self, account: int | None, newest: int | None) -> None:
        if newest is not None and self._newest_of(account) != newest:
            raise Overtaken

    def _append_checked(
        self, entry: LedgerEntry, epsilon: Amount, delta: Fraction, newest: int | None, planned: bool, pending: bool
    ) -> LedgerEntry:
        self._check_newest(entry.part_of, newest)
        entry = self._name_redraw(entry)
        self._check_room(entry, epsilon, delta, planned)
        entry = replace(entry, id=self._add(entry))
        if pending:
            self._set_pending([entry.id], True)
        return entry

    def _name_redraw(self, entry: LedgerEntry) -> LedgerEntry:
        """Rename an entry of a group whose entries for these rows are all pending.

        At most one of them is ever shown, so together they cost the largest, as members with other rows do, and not their sum.
        """
        if entry.group is None or entry.name not in self._group_of(entry.part_of, entry.group, entry.name).members:
            return entry
        same = self._numbers(entry.part_of, entry.group, entry.name)
        return replace(entry, name=f"{entry.name}{_REDRAWN}{max(same)}") if same and same <= self._pending() else entry


class Ledger(BaseLedger):
    """Entries in memory, each before its parts.

    `account` is where they begin, if the entry of that account is elsewhere; `charge` is then its loss. `id` is that of the ledger that
    they were charged in; None: of a new one.
    """

    def __init__(
        self, entries: Iterable[LedgerEntry] = (), account: int | None = None, id: str | None = None, charge: PrivacyLoss | None = None
    ) -> None:
        self.id = new_ledger_id() if id is None else id
        self.charge = charge
        self._entries: dict[int, LedgerEntry] = {}
        self._by_account: dict[int | None, list[int]] = {}
        self._sums: dict[int | None, Sums] = {}
        self._groups: dict[tuple[int | None, str], Group] = {}
        self._known: dict[str, int] = {}
        self._unshown: set[int] = set()
        self._root = account
        self._last = account or 0
        for entry in entries:
            if entry.id <= (entry.part_of or 0):
                raise ValueError(
                    f"entries must be numbered after what they are part of, got {short_repr(entry.id)}; the ledger is damaged."
                )
            self._write(entry)

    def _has_account(self, account: int | None) -> bool:
        return account == self._root or account in self._entries

    def _stored_sums(self, account: int | None) -> Sums | None:
        return self._sums.get(account)

    def _group_of(self, account: int | None, group: str, name: str) -> Group:
        return self._groups.get((account, group)) or Group()

    def _numbers(self, account: int | None, group: str | None = None, name: str | None = None) -> set[int]:
        numbers = self._by_account.get(account, ())
        entries = self._entries
        return {n for n in numbers if group is None or (entries[n].group == group and base_name(entries[n].name) == name)}

    def _pending(self) -> set[int]:
        return self._unshown

    def _set_pending(self, numbers: Iterable[int], are_pending: bool) -> None:
        self._unshown = self._unshown | {*numbers} if are_pending else self._unshown - {*numbers}

    def _entry_from(self, source: str) -> int | None:
        return self._known.get(source)

    def _run_transaction(self, work: Callable[[], _Result], begin: str = "begin immediate") -> _Result:
        with lock_of(self):
            return work()

    def _write(self, entry: LedgerEntry) -> None:
        # The sums come first: an interrupt may leave a charge without its line, never a line that was not charged.
        sums, mine, largest = self._after(entry)
        if entry.group is None:
            self._sums[entry.part_of] = sums
        else:
            group = self._groups.setdefault((entry.part_of, entry.group), Group())
            self._sums[entry.part_of] = sums
            group.largest = largest
            group.members[entry.name] = mine
        self._last = max(self._last, entry.id)
        if entry.source is not None:
            self._known[entry.source] = entry.id
        self._entries[entry.id] = entry
        self._by_account.setdefault(entry.part_of, []).append(entry.id)

    def snapshot(self, account: int | None) -> "Ledger":
        return self

    def entries(self, account: int | None = None) -> tuple[LedgerEntry, ...]:
        with lock_of(self):
            return tuple(self._entries[number] for number in self._by_account.get(account, ()))

    def below(self, account: int | None) -> Iterator[LedgerEntry]:
        """Yield the entries of an account, each followed by its parts."""
        for entry in self.entries(account):
            yield entry
            yield from self.below(entry.id)

    def with_randomness(self, entry: LedgerEntry) -> LedgerEntry:
        """Return an entry with the randomness of its parts, if it is the charge of a child."""
        if entry.noise is not None or entry.randomness is not None:
            return entry
        return replace(entry, randomness=combined_randomness(self.below(entry.id)))

    def additions(self, account: int | None, delta: Fraction) -> Iterator[tuple[LedgerEntry, Amount, Fraction]]:
        """Yield the entries of an account in order, each with the (epsilon, delta) that it added to the total."""
        replayed = Ledger(account=account, charge=self.charge_of(account))
        epsilon, spent = replayed._sums_of(account).total(delta)
        for entry in self.entries(account):
            replayed._write(entry)
            before = epsilon, spent
            epsilon, spent = replayed._sums_of(account).total(delta)
            yield entry, added_amount(before[0], epsilon), spent - before[1]

    def member(self, account: int | None, group: str, name: str) -> Sums | None:
        return self._group_of(account, group, name).members.get(name)

    def _fold_members(self, account: int | None, group: str, gone: set[str], into: str) -> int | None:
        numbers = self._by_account.get(account, [])
        folded = [n for n in numbers if self._entries[n].group == group and base_name(self._entries[n].name) in gone]
        if not folded:
            return None
        gone = gone | {self._entries[n].name for n in folded}
        members = self._groups[account, group].members
        most, lines = fold_entries(
            [self.with_randomness(self._entries[n]) for n in folded], [members[name] for name in gone & members.keys()], into
        )
        lines = [replace(line, id=number) for number, line in enumerate(lines, self._last + 1)]
        self._last = lines[-1].id
        self._entries.update((line.id, line) for line in lines)
        place, kept = numbers.index(folded[0]), set(numbers) - set(folded)
        places = [[n] if n in kept else [line.id for line in lines] if i == place else [] for i, n in enumerate(numbers)]
        self._by_account[account] = [n for each in places for n in each]
        self._groups[account, group].members = {into: most} | {n: sums for n, sums in members.items() if n not in gone}
        for number in folded:
            self._forget(number)
        return lines[-1].id

    def are_parts_paid(self) -> bool:
        """Whether the parts of each entry cost no more than its charge."""
        return all(self._is_paid(account) for account in self._by_account)

    def _is_paid(self, account: int | None) -> bool:
        charge, sums = self.charge_of(account), self._sums_of(account)
        if charge is None or charge.is_infinite:
            return True
        if charge.rho is not None:
            return not sums.exceeds_charge
        epsilon, delta = sums.total(charge.delta)
        return (epsilon <= charge.epsilon and delta <= charge.delta) or covers_composition([e.loss for e in self.entries(account)], charge)

    def _forget(self, number: int) -> None:
        for part in self._by_account.pop(number, ()):
            self._forget(part)
        del self._entries[number]
        self._unshown = self._unshown - {number}
        self._sums.pop(number, None)
        for key in [key for key in self._groups if key[0] == number]:
            del self._groups[key]

    def whole(self, work: Callable[[Any], _Result]) -> _Result:
        with lock_of(self):
            # All at once and last, so that an interrupt leaves this ledger as it was, or as it is then.
            twin = Ledger(self.below(self._root), self._root, self.id, self.charge)
            twin._last, twin._known, twin._unshown = self._last, {**self._known}, self._unshown
            done = work(twin)
            self.__dict__.update(vars(twin))
            return done

    def _add(self, entry: LedgerEntry) -> int:
        self._write(replace(entry, id=self._last + 1))
        return self._last

    def _leave_out(self, source: str) -> None:
        self._known[source] = 0

    def _entry(self, number: int) -> LedgerEntry | None:
        return self._entries.get(number)

    def _latest(self) -> int:
        return self._last


def fold_entries(folded: list[LedgerEntry], members: list[Sums], into: str) -> tuple[Sums, list[LedgerEntry]]:
    """Return the largest sums of members of a group, and the lines that stand for them: in epsilon, in rho, or both."""
    most = largest(members)
    # A line of this ledger, whatever it stands for came from: by that source it would be taken for one of those.
    first = replace(folded[0], name=into, randomness=combined_randomness(folded), source=None)
    return most, [replace(first, loss=loss) for loss in most.losses()]


def new_ledger_id() -> str:
    return f"ledger-{os.urandom(16).hex()}"


def combined_randomness(entries: Iterable[LedgerEntry]) -> str | None:
    """Return the randomness of entries together: one seeded draw makes all of it seeded."""
    sources = {entry.randomness for entry in entries}
    return "seeded" if "seeded" in sources else "secure" if "secure" in sources else None
