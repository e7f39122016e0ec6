"""Import of the charges of another ledger, once."""

import math
import re
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

from skdpsynth.privacy._ledger import Budget, Ledger
from skdpsynth.privacy._ledger_entry import LedgerEntry

_SHORT = Fraction(1, 10**6)  # of a budget: what a fit in rho may leave of it
_MOVE = re.compile(r"goes on in (ledger-[0-9a-f]{32}), from (ledger-[0-9a-f]{32})")
_ELSEWHERE = re.compile(r" of ledger-[0-9a-f]{32}:\d*")


def merge_options(mine: Ledger, other: Ledger, of: int | None, whole: LedgerEntry) -> list[LedgerEntry | None]:
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


def merge_entries(mine: Ledger, account: int | None, other: Ledger, of: int | None, budget: Budget, whole: LedgerEntry | None) -> int:
    """Charge an account for the new entries of an account of another ledger, within `Ledger.whole`; return how many were new.

    An entry is known by the id of the ledger that it was first charged in and its number there, so it counts once, whatever way it
    came. Its parts are taken in with it, and cost nothing. A group of the other ledger remains one, apart from all groups here: how
    its rows relate to those of a group here is unknown.

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
        group = entry.group
        if group is not None and not _ELSEWHERE.search(group):
            group = f"{group} of {other.store.id}:{of or ''}"
        line = replace(entry, part_of=parent or account, group=group, source=key)
        here = into.sums((line.part_of, line.group, line.name)) if line.group else None
        there = other.store.sums((entry.part_of, entry.group, entry.name)) if line.group else None
        if here is not None and there is not None and here.is_at_least(there):
            into.set_source(key, 0)
            continue
        numbers[entry.id] = add(line, top and charged)
        if is_pending:
            into.set_pending([numbers[entry.id]], True)
        new += 1
    return new


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


def move_line_name(to: str, start: str) -> str:
    """Return the name of a line that notes that an account goes on in another ledger, which has imported its own."""
    return f"goes on in {to}, from {start}"


def parse_moves(names: Iterable[str]) -> set[tuple[str, str]]:
    found = [_MOVE.match(name) for name in names]
    return {(match[2], match[1]) for match in found if match is not None}


def _find_branch(mine: Ledger, here: int, other: Ledger, there: int) -> str | None:
    """Return the ledger in which an account of the other ledger goes on, if mine goes on from the same ledger in another."""
    theirs = parse_moves(entry.name for entry in other.store.entries(there))
    ours = parse_moves(entry.name for entry in mine.store.entries(here)) if theirs else set()
    return next((to for start, to in sorted(theirs - ours) if any(start == from_ for from_, _ in ours)), None)
