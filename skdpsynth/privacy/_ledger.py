"""Ledgers: entries and their sums by account, and the rules by which an entry may come."""

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any, TypeVar

from skdpsynth._validation import short_repr
from skdpsynth.exceptions import BudgetExceededError
from skdpsynth.privacy._composition import Sums, added_amount, covers, covers_composition, largest
from skdpsynth.privacy._ledger_entry import Key, LedgerEntry, MemoryStore
from skdpsynth.privacy._ledger_file import FileStore
from skdpsynth.privacy._losses import Amount, PrivacyLoss

_Result = TypeVar("_Result")
_REDRAWN = ", drawn anew after entry "
_SHORT = Fraction(1, 10**6)  # of a budget: what a fit in rho may leave of it
_MOVE = re.compile(r"goes on in (ledger-[0-9a-f]{32}), from (ledger-[0-9a-f]{32})")
_ELSEWHERE = re.compile(r" of ledger-[0-9a-f]{32}:\d*")
# Not "raise the budget": a new one that forgets what was spent here spends it twice.
LARGER_BUDGET_ADVICE = "charge what was spent here to a larger budget by its `import_record`, and go on there"
Budget = tuple[Amount, Fraction]  # (epsilon, delta)


class OutOfTurn(ValueError):
    """An entry may not come now, however much remains."""


class Overtaken(RuntimeError):
    """Another process has charged the account since this one looked at it."""

    def __init__(self) -> None:
        super().__init__(
            "The rows were not taken in, because another process went on with this stream meanwhile; load its file, and go on from its "
            "n_samples_seen_."
        )


class Ledger:
    """Entries by account: None is the whole budget, and an entry's number is the account of the child it charged for.

    An entry may be pending: charged, while nothing that it paid for has been shown yet. A process that is killed leaves it so for ever,
    because what it drew died with it. A pending entry counts as spent, and says nothing about which rows were released.

    Methods with an underscore are for those who have the store to themselves meanwhile.
    """

    def __init__(self, store: MemoryStore | FileStore) -> None:
        self.store = store

    @classmethod
    def of(cls, entries: Iterable[LedgerEntry], id: str | None, root: int | None, charge: PrivacyLoss | None) -> "Ledger":
        """Return a ledger in memory with some entries, each before its parts."""
        ledger = cls(MemoryStore(id, root, charge))
        for entry in entries:
            if entry.id <= (entry.part_of or 0):
                raise ValueError(
                    f"entries must be numbered after what they are part of, got {short_repr(entry.id)}; the ledger is damaged."
                )
            ledger._add(entry)
        return ledger

    # Charges

    def append(
        self, entry: LedgerEntry, budget: Budget, *, newest: int | None = None, planned: bool = False, pending: bool = False
    ) -> LedgerEntry:
        """Write an entry if the total of its account stays within the budget, and return it with its number.

        `newest` is the newest entry of the account that the caller knows. `planned`: the shares of all kinds of losses were fixed before
        the first, as in a fit, so they may come in any order. `pending`: nothing that it pays for is shown until `settle`. Nothing is
        written where this raises: BudgetExceededError or `OutOfTurn` if the entry may not come, `Overtaken` if the account has a newer
        entry than `newest`.
        """
        return self.store.run(partial(self._append, entry, budget, planned, pending, newest))

    def claim(self, entry: LedgerEntry, budget: Budget, planned: bool = False) -> LedgerEntry:
        """Return a pending entry like this one, whose owner died before anything was shown, or write this one as pending.

        Where the owner still lives, two have it, and `settle` lets only the first of them show something. A ledger in memory always
        writes: it dies with the owner, and nothing in it would stop the second of two.
        """

        def work() -> LedgerEntry:
            for number in sorted(self.store.pending.intersection(self.store.numbers(entry.part_of))) if self.store.is_file else ():
                known: Any = self.store.entry(number)
                # Otherwise something was shown in it by its owner, or can be in the ledger that it came from.
                is_free = not self._newest_of(number) and known.source is None
                same = ("name", "loss", "neighboring", "unit", "group")
                if is_free and all(getattr(known, name) == getattr(entry, name) for name in same):
                    return known
            return self._append(entry, budget, planned, True)

        return self.store.run(work)

    def settle(self, account: int | None, numbers: Iterable[int], newest: int | None = None) -> None:
        """Make entries, and so their account, no longer pending: all of them or none.

        Raises `Overtaken` if the account has another newest entry than `newest`: then these rows were released elsewhere.
        """
        numbers = [*numbers, *([] if account is None else [account])]
        self.hold(account, newest, lambda: self.store.set_pending(numbers, False), "write")

    def fold(self, account: int | None, group: str, names: Iterable[str], into: str, newest: int | None = None) -> int | None:
        """Replace members of a group by one line, at the largest of them; their parts are forgotten.

        It is for members whose rows never come again, so that an endless ledger stays small. The total does not change. Return the number
        of the line, or None if there was nothing to fold.
        """
        return self.whole(lambda ledger: ledger._fold(account, group, {*names, into}, into, newest))

    def hold(self, account: int | None, newest: int | None, act: Callable[[], None], mode: str = "hold") -> None:
        """Act, maybe twice, while nobody can charge or settle an account; raise `Overtaken` if somebody has done so."""

        def work() -> None:
            self._check_newest(account, newest)
            act()

        self.store.run(work, mode)

    def check_room(self, entry: LedgerEntry, budget: Budget, planned: bool = False) -> None:
        """Raise the errors of `append`, and write nothing."""
        self.store.run(lambda: self._sums_with(entry, budget, planned), "read")

    def whole(self, work: Callable[["Ledger"], _Result]) -> _Result:
        """Do work that writes to the ledger it is given: all of it, or none where it raises; return its result."""
        return self.store.whole(lambda store: work(Ledger(store)))

    def _append(
        self, entry: LedgerEntry, budget: Budget, planned: bool = False, pending: bool = False, newest: int | None = None
    ) -> LedgerEntry:
        store = self.store
        if newest is not None:
            self._check_newest(entry.part_of, newest)
        if entry.group is not None and store.sums((entry.part_of, entry.group, entry.name)) is not None:
            # At most one of the entries for the same rows that are all pending is ever shown, so together they cost the largest, as members
            # with other rows do, and not their sum.
            same = {e.id for e in store.entries(entry.part_of) if e.group == entry.group and e.name.partition(_REDRAWN)[0] == entry.name}
            if same and same <= store.pending:
                entry = replace(entry, name=f"{entry.name}{_REDRAWN}{max(same)}")
        sums = self._sums_with(entry, budget, planned)
        entry = replace(entry, id=store.latest + 1, process=entry.process or store.process)
        store.add(entry, sums, pending=pending)
        return entry

    def _add(self, entry: LedgerEntry, sums: dict[Key, Sums] | None = None) -> int:
        """Write a numbered entry without checking the budget, and return its number."""
        self.store.add(entry, self._sums_with(entry) if sums is None else sums)
        return entry.id

    def _fold(self, account: int | None, group: str, gone: set[str], into: str, newest: int | None) -> int | None:
        self._check_newest(account, newest)
        store = self.store
        folded = [e for e in store.entries(account) if e.group == group and e.name.partition(_REDRAWN)[0] in gone]
        if not folded:
            return None
        gone = gone | {entry.name for entry in folded}
        members = (store.sums((account, group, name)) for name in gone)
        most = largest([sums for sums in members if sums is not None])
        # A line of this ledger, whatever it stands for came from: by that source it would be taken for one of those.
        randomness = combined_randomness(map(self.with_randomness, folded))
        for loss in most.losses():
            line = replace(folded[0], name=into, loss=loss, randomness=randomness, source=None, id=store.latest + 1)
            store.add(line, {}, before=folded[0].id)
        for name in gone:
            store.set_sums((account, group, name), None)
        store.set_sums((account, group, into), most)
        for entry in folded:
            self._forget(entry)
        return store.latest

    def _forget(self, entry: LedgerEntry) -> None:
        for part in self.store.entries(entry.id):
            self._forget(part)
        self.store.remove(entry)

    def _sums_with(self, entry: LedgerEntry, budget: Budget | None = None, planned: bool = False) -> dict[Key, Sums]:
        """Return all sums that an entry changes; with a budget, raise if it may not come."""
        account, group, store = entry.part_of, entry.group, self.store
        before = self._sums_of(account)
        if group is None:
            after = before.plus(entry.loss)
            changed: dict[Key, Sums] = {(account,): after}
        else:
            mine = (store.sums((account, group, entry.name)) or Sums()).plus(entry.loss)
            least = store.sums((account, group)) or Sums()
            most = largest([least, mine])
            after = before.with_group(least, most)
            changed = {(account,): after, (account, group): most, (account, group, entry.name): mine}
        if budget is None:
            return changed
        if account != store.root and store.entry(account or 0) is None:
            why = "what was folded into a sum, because its rows never come again; use a new accountant."
            raise BudgetExceededError(f"{short_repr(entry.name)} cannot be charged to {why}", None, Fraction(0))
        if entry.loss.rho is not None and not budget[1] and not entry.loss.is_infinite:
            raise ValueError(f"{short_repr(entry.name)} has a loss in rho, which needs delta > 0; give the accountant a delta.")
        needed = after.total(budget[1])
        is_within = (needed[0] <= budget[0] and needed[1] <= budget[1]) or (planned and after.keeps(*budget))
        if after.exceeds_charge or not is_within:
            raise _budget_exceeded_error(entry, before.total_within(*budget), needed, budget, after.exceeds_charge)
        if not planned and not before.admits(entry.loss):
            raise OutOfTurn(
                f"{short_repr(entry.name)} has a loss of {entry.loss}, which may not follow losses in rho of another kind, because which "
                "comes when could follow from what came out; fit what is pure first, or give each kind a child of its own before."
            )
        return changed

    def _check_newest(self, account: int | None, newest: int | None) -> None:
        if newest is not None and self._newest_of(account) != newest:
            raise Overtaken

    # Contents

    def _sums_of(self, account: int | None) -> Sums:
        stored = self.store.sums((account,))
        if stored is None:
            charge = self.charge_of(account)
            return Sums() if charge is None or charge.rho is None else Sums(most=charge.rho, only_gaussian=charge.gaussian)
        return stored

    def charge_of(self, account: int | None) -> PrivacyLoss | None:
        """Return the charge for an account; None for the whole budget."""
        entry = None if account is None else self.store.entry(account)
        return self.store.charge if entry is None else entry.loss

    def _newest_of(self, account: int | None) -> int:
        return max({*self.store.numbers(account)} - self.store.pending, default=0)

    def sums(self, account: int | None) -> Sums:
        return self.store.run(lambda: self._sums_of(account), "read")

    def newest(self, account: int | None) -> int:
        """Return the largest number of an entry of an account that is not pending, or 0."""
        return self.store.run(lambda: self._newest_of(account), "read")

    def has_member(self, account: int | None, group: str, name: str) -> bool:
        return self.store.run(lambda: self.store.sums((account, group, name)) is not None, "read")

    def entry(self, number: int) -> LedgerEntry | None:
        return self.store.run(lambda: self.store.entry(number), "read")

    def entries(self, account: int | None, name: str | None = None) -> list[LedgerEntry]:
        """Return the entries of an account in order; all, or those of one name."""
        return self.store.run(lambda: self.store.entries(account, name), "read")

    def entry_from(self, source: str) -> int | None:
        """Return the number of the entry that came from another ledger's; None: there is none, or it was not needed."""
        return self.store.run(lambda: self.store.source(source), "read") or None

    def pending(self) -> frozenset[int]:
        return self.store.run(lambda: self.store.pending, "read")

    def snapshot(self, account: int | None) -> "Ledger":
        """Return a ledger in memory with all entries of an account and their parts: this one, if it is in memory."""
        return self.copy(account) if self.store.is_file else self

    def copy(self, account: int | None) -> "Ledger":
        """Return a ledger in memory with all entries of an account and their parts, of one moment."""

        def work() -> Ledger:
            copy = Ledger.of(self.below(account), self.store.id, account, self.charge_of(account))
            copy.store.set_pending(self.store.pending, True)
            return copy

        return self.store.run(work, "read")

    # Views, of a ledger in memory

    def below(self, account: int | None) -> Iterator[LedgerEntry]:
        """Yield the entries of an account, each followed by its parts."""
        for entry in self.store.entries(account):
            yield entry
            yield from self.below(entry.id)

    def with_randomness(self, entry: LedgerEntry) -> LedgerEntry:
        """Return an entry with the randomness of its parts, if it is the charge of a child."""
        if entry.noise is not None or entry.randomness is not None:
            return entry
        return replace(entry, randomness=combined_randomness(self.below(entry.id)))

    def additions(self, account: int | None, budget: Budget) -> Iterator[tuple[LedgerEntry, Amount, Fraction]]:
        """Yield the entries of an account in order, each with the (epsilon, delta) that it added to the total."""
        replayed = Ledger(MemoryStore(self.store.id, account, self.charge_of(account)))
        before = replayed._sums_of(account).total_within(*budget)
        for entry in self.store.entries(account):
            replayed._add(entry)
            after = replayed._sums_of(account).total_within(*budget)
            yield entry, added_amount(before[0], after[0]), after[1] - before[1]
            before = after

    def are_parts_paid(self) -> bool:
        """Whether the parts of each entry cost no more than its charge."""
        for account in {self.store.root, *(entry.part_of for entry in self.below(self.store.root))}:
            charge, sums = self.charge_of(account), self._sums_of(account)
            if charge is None or charge.is_infinite:
                continue
            if charge.rho is not None:
                is_paid = not sums.exceeds_charge
            else:
                epsilon, delta = sums.total(charge.delta)
                losses = [entry.loss for entry in self.store.entries(account)]
                is_paid = (epsilon <= charge.epsilon and delta <= charge.delta) or sums.keeps(charge.epsilon, charge.delta)
                is_paid = is_paid or covers_composition(losses, charge)
            if not is_paid:
                return False
        return True


# Where a checkpoint resumes: path and id of the ledger, account, its newest entry then, and the account that it was charged to first.
Place = tuple[str, str, int, int, int]


@dataclass(eq=False)
class Account:
    """The account of a ledger that an accountant charges, and what the accountant has seen of it."""

    ledger: Ledger
    number: int | None = None  # the entry that charged for it; None: the whole budget
    # For a stream:
    newest: int | None = None  # the newest entry that it has seen, where nobody else may charge the account
    first: int | None = None  # the account that it was charged to first
    unshown: list[int] | None = None  # its charges, while it takes in rows of which nothing is shown until the end
    later: list[tuple[str, list[str], str]] = field(default_factory=list)  # what is to be folded then
    resumable: list[LedgerEntry] = field(default_factory=list)  # charges that a mechanism may resume under, after it was loaded
    place: Place | None = None  # of a checkpoint

    def append(self, entry: LedgerEntry, budget: Budget, planned: bool) -> LedgerEntry:
        entry = self.ledger.append(entry, budget, newest=self.newest, planned=planned, pending=self.unshown is not None)
        if self.unshown is not None:
            self.unshown.append(entry.id)
        elif self.newest is not None:
            self.newest = entry.id
        return entry

    def fold(self, group: str, names: list[str], into: str) -> None:
        if self.unshown is not None:
            self.later.append((group, names, into))
            return
        line = self.ledger.fold(self.number, group, names, into, self.newest)
        if line is not None and self.newest is not None:
            self.newest = line

    def sums(self) -> Sums:
        return self.ledger.sums(self.number)

    def snapshot(self) -> tuple[Ledger, int | None]:
        """Return a ledger in memory that has this account, and its number."""
        return self.ledger.snapshot(self.number), self.number

    def take_up(self, name: str, loss: PrivacyLoss) -> None:
        """Take up the last charge of at least `loss` under a name; raise ValueError if there is none.

        Each charge is taken up once: resuming under it twice makes two releases, and needs a second copy of the record.
        """
        for entry in reversed(self.resumable):
            if entry.name == name and entry.noise is not None and covers(entry.loss, loss):
                self.resumable.remove(entry)
                return
        raise ValueError(
            f"accountant holds no charge of {loss} for {short_repr(name)} from before it was saved; reopen the record of the accountant "
            "that was charged, or charge a new one."
        )


def combined_randomness(entries: Iterable[LedgerEntry]) -> str | None:
    """Return the randomness of entries together: one seeded draw makes all of it seeded."""
    sources = {entry.randomness for entry in entries}
    return "seeded" if "seeded" in sources else "secure" if "secure" in sources else None


def _budget_exceeded_error(entry: LedgerEntry, spent: Budget, needed: Budget, budget: Budget, in_rho: bool) -> BudgetExceededError:
    """Return the error for an entry that does not fit; `needed` includes it, `in_rho`: a charge in rho is too small for it."""
    epsilon, delta = budget
    remaining, requested = (math.inf if amount == math.inf else amount - spent[0] for amount in (epsilon, needed[0]))
    less = "smaller epsilon (or share of `split`)"
    if needed[1] > delta:
        less, cost = "smaller delta", f"delta={float(entry.loss.delta):g}"
        rest = f"only {float(delta - spent[1]):g} of {float(delta):g} remains"
    elif requested == math.inf and not entry.loss.is_infinite:
        cost, rest = str(entry.loss), f"that leaves none of delta={float(delta):g} for the losses in rho"
    else:
        cost, rest = f"epsilon={float(requested):g}", f"only {float(remaining):g} of {float(epsilon):g} remains"
    if in_rho and entry.loss.rho is None:  # a kind of its own, whatever remains
        rest, less = "what was charged here is rho, and holds no more of such losses", "loss in rho"
    elif in_rho and needed[0] <= epsilon and needed[1] <= delta:
        rest = f"the rho that was charged for epsilon={float(epsilon):g} at delta={float(delta):g} holds no more"
    out = LARGER_BUDGET_ADVICE if remaining <= 0 and less.startswith("smaller") else f"give it a {less}, or {LARGER_BUDGET_ADVICE}"
    return BudgetExceededError(f"{short_repr(entry.name)} costs {cost}, but {rest}; {out}.", requested, remaining)


# Import of the charges of another ledger, once


def merge_options(other: Ledger, of: int | None, whole: LedgerEntry, mine: Ledger) -> list[LedgerEntry | None]:
    """Return how an account of another ledger may be charged, the best way first: as one line, or (None) line by line.

    `whole` has the (epsilon, delta) of its budget as its loss. Everything that an accountant admits keeps that promise, in whatever order
    it came: so one line for it is right wherever an (epsilon, delta) may be charged, and later charges to that budget are paid. It is for
    accounts that hold losses in rho and in epsilon, as many fits do: two of these line by line would have losses in epsilon after losses in
    rho, whose order nobody can check. Where all of the budget is spent, one line costs no more at its delta, and leaves the rest of delta
    here; otherwise, or where some lines are charged already, line by line is less.
    """
    sums = other.sums(of)
    if not (sums.epsilon and sums.rho) or math.inf in (sums.epsilon, sums.rho):
        return [None]
    epsilon, _ = sums.total(whole.loss.delta)
    is_spent = epsilon >= whole.loss.epsilon * (1 - _SHORT)
    is_new = all(_find_known(mine, entry.source or _source_key(other, entry.id)) is None for entry in other.entries(of))
    return [whole, None] if is_spent and is_new else [None, whole]


def merge_entries(account: int | None, other: Ledger, of: int | None, budget: Budget, whole: LedgerEntry | None, mine: Ledger) -> int:
    """Charge an account for the new entries of an account of another ledger, within `Ledger.whole`; return how many were new.

    An entry is known by the id of the ledger that it was first charged in and its number there, so it counts once, whatever way it
    came. Its parts are taken in with it, and cost nothing. A group of the account remains one, apart from all groups here: how its rows
    relate to those of a group here is unknown. Groups of its parts are in accounts of their own.

    An account that goes on in two other ledgers has released rows twice. Its charge pays for the one that came first, with all that led
    there; the other is charged as another account, known by the ledger where it goes on.

    Members of a group that are new but have, by their name, a loss here that is at least theirs there are lines that others were folded
    into: their entries were taken in already.

    `whole` is one line for all that the account was or will be charged, of which its entries are parts (see `merge_options`): a ledger that
    took it in before has paid for all of them.
    """
    into = mine.store
    as_one = f"{_source_key(other, of or 0)}:whole"
    root = into.source(as_one) or (None if of is None else _find_known(mine, _source_key(other, of)))
    new = 0

    def add(line: LedgerEntry, is_charged: bool) -> int:
        line = replace(line, id=into.latest + 1)
        return mine._add(line, mine._sums_with(line, budget) if is_charged else None)

    if whole is not None and not root:
        root, new = add(replace(whole, part_of=account, source=as_one), True), 1
    numbers: dict[int | None, int] = {of: root or 0}
    charged = not root  # else all of it was paid for by what this account belongs to
    for entry in other.below(of):
        key, parent = entry.source or _source_key(other, entry.id), numbers[entry.part_of]
        is_pending = entry.id in other.store.pending
        known = _find_known(mine, key, entry)
        if known and not is_pending:
            into.set_pending([known], False)
        top = entry.part_of == of
        while known and charged and (branch := _find_branch(mine, known, other, entry.id)):
            key, top, parent = f"{branch} of {key}", True, 0  # whatever it is part of has paid for one of the two
            known, entry = into.source(key), replace(entry, group=None)
        numbers[entry.id] = known or 0
        if known is not None or not (parent or (top and charged)):
            continue
        line = _line_here(mine, parent or account, other, of, entry)
        if line is None:
            into.set_source(key, 0)
            continue
        numbers[entry.id] = add(replace(line, source=key), top and charged)
        if is_pending:
            into.set_pending([numbers[entry.id]], True)
        new += 1
    return new


def _line_here(mine: Ledger, part_of: int | None, other: Ledger, of: int | None, entry: LedgerEntry) -> LedgerEntry | None:
    """Return an entry as it is written here, its group under a name that no group here has; None if it was folded into a line."""
    group = entry.group
    if entry.part_of == of and group is not None and not _ELSEWHERE.search(group):
        group = f"{group} of {other.store.id}:{of or ''}"
    here = mine.store.sums((part_of, group, entry.name)) if group else None
    there = other.store.sums((entry.part_of, entry.group, entry.name)) if group else None
    is_folded = here is not None and there is not None and here.is_at_least(there)
    return None if is_folded else replace(entry, part_of=part_of, group=group)


def _source_key(other: Ledger, number: int) -> str:
    return f"{other.store.id}:{number}"


def _find_known(mine: Ledger, key: str, entry: LedgerEntry | None = None) -> int | None:
    """Return the number here of an entry with this key, and compare it with the new one; None if it is new."""
    origin, _, number = key.rpartition(":")
    store, is_own = mine.store, origin == mine.store.id
    here = (int(number) if int(number) <= store.latest else -1) if is_own else store.source(key)
    known = store.entry(here) if here and here > 0 and entry is not None else None
    if known is None and is_own and here != -1 and entry is not None:
        raise ValueError(
            f"The record has entry {number} of {origin}, which was folded into a sum here, so nobody can tell if it is the same; charge "
            "what it spent with spend, unless it was charged here."
        )
    same = ("name", "loss", "time", "process")
    if here == -1 or (known is not None and any(getattr(known, name) != getattr(entry, name) for name in same)):
        raise ValueError(
            f"The record has another entry {number} of {origin} than this ledger, because one of them is a copy that went on by itself; "
            "charge what it spent with spend."
        )
    return here


def parse_moves(names: Iterable[str]) -> set[tuple[str, str]]:
    """Return from which ledger to which an account went on, by the lines that note it."""
    found = [_MOVE.match(name) for name in names]
    return {(match[2], match[1]) for match in found if match is not None}


def _find_branch(mine: Ledger, here: int, other: Ledger, there: int) -> str | None:
    """Return the ledger in which an account of the other ledger goes on, if mine goes on from the same ledger in another.

    That is the other ledger itself, where the account went on though it had left: its file was away when it left.
    """
    lines = other.store.entries(there)
    theirs = parse_moves(entry.name for entry in lines)
    ours = parse_moves(entry.name for entry in mine.store.entries(here)) if lines else set()
    branch = next((to for start, to in sorted(theirs - ours) if any(start == from_ for from_, _ in ours)), None)
    if branch is None and other.store.id in {from_ for from_, _ in ours - theirs} - {from_ for from_, _ in theirs}:
        shown = (entry for entry in lines if entry.id not in other.store.pending)
        if any(_find_known(mine, entry.source or _source_key(other, entry.id)) is None for entry in shown):
            return other.store.id
    return branch
