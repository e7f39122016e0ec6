"""Import of the charges of another ledger, once."""

import math
import re
from collections.abc import Iterable
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

from skdpsynth._validation import short_repr
from skdpsynth.privacy._ledger import BaseLedger, Ledger, LedgerEntry
from skdpsynth.privacy._losses import Amount

_SHORT = Fraction(1, 10**6)  # of a budget: what a fit in rho may leave of it
_MOVE = re.compile(r"goes on in (ledger-[0-9a-f]{32}), from (ledger-[0-9a-f]{32})")
_ELSEWHERE = re.compile(r" of ledger-[0-9a-f]{32}:\d*")


def merge_options(mine: BaseLedger, other: Ledger, of: int | None, whole: LedgerEntry) -> list[LedgerEntry | None]:
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
    epsilon, _ = other.total(of, whole.loss.delta)
    is_spent = epsilon >= whole.loss.epsilon * (1 - _SHORT)
    is_new = all(_find_known(mine, entry.source or _source_key(other, entry.id)) is None for entry in other.entries(of))
    return [whole, None] if is_spent and is_new else [None, whole]


def merge_entries(
    mine: BaseLedger, account: int | None, other: Ledger, of: int | None, budget: tuple[Amount, Fraction], whole: LedgerEntry | None = None
) -> int:
    """Charge an account for the new entries of an account of another ledger, within `BaseLedger.whole`; return how many were new.

    An entry is known by the id of the ledger that it was first charged in and its number there, so it counts once, whatever way it
    came. Its parts are taken in with it, and cost nothing. A group of the other ledger remains one, apart from all groups here: how
    its rows relate to those of a group here is unknown.

    An account that goes on in two other ledgers has released rows twice. Its charge pays for the one that came first, with all that led
    there; the other is charged as another account, known by the ledger where it goes on.

    Members of a group that are new but have, by their name, a loss here that is at least theirs there are lines that others were folded
    into: their entries were taken in already.

    `whole` is one line for all that the account was or will be charged, of which its entries are parts (see `merge_options`): a ledger that
    took it in before has paid for all of them. An error for an entry that does not fit has that entry as its attribute `entry`.
    """
    as_one = f"{_source_key(other, of or 0)}:whole"
    root = mine._entry_from(as_one) or (None if of is None else _find_known(mine, _source_key(other, of)))
    new = 0
    if whole is not None and not root:
        line = replace(whole, part_of=account, source=as_one)
        _check_room(mine, line, budget)
        root, new = mine._add(line), 1
    numbers: dict[int | None, int] = {of: root or 0}
    charged = not root  # else all of it was paid for by what this account belongs to
    for entry in other.below(of):
        key, parent = entry.source or _source_key(other, entry.id), numbers[entry.part_of]
        known = _find_known(mine, key, entry)
        if known and entry.id not in other._pending():
            mine._set_pending([known], False)
        top = entry.part_of == of
        while known and charged and (branch := _find_branch(mine, known, other, entry.id)):
            key, top, parent = f"{branch} of {key}", True, 0  # whatever it is part of has paid for one of the two
            known, entry = mine._entry_from(key), replace(entry, group=None)
        numbers[entry.id] = known or 0
        if known is not None or not (parent or (top and charged)):
            continue
        line = replace(entry, part_of=parent or account, group=_foreign_group_name(entry.group, other, of), source=key)
        if line.group and _is_paid(mine._group_of(line.part_of, line.group, line.name).members, other, entry):
            mine._leave_out(key)
            continue
        if top and charged:
            _check_room(mine, line, budget)
        numbers[entry.id] = mine._add(line)
        if entry.id in other._pending():
            mine._set_pending([numbers[entry.id]], True)
        new += 1
    return new


def _check_room(mine: BaseLedger, line: LedgerEntry, budget: tuple[Amount, Fraction]) -> None:
    if line.loss.rho is not None and not budget[1] and not line.loss.is_infinite:
        raise ValueError(f"{short_repr(line.name)} has a loss in rho, which needs delta > 0; give the accountant a delta.")
    try:
        mine._check_room(line, *budget)
    except Exception as error:
        error.entry = line  # type: ignore[attr-defined]
        raise


def _source_key(other: Ledger, other_id: int) -> str:
    return f"{other.id}:{other_id}"


def _find_known(mine: BaseLedger, key: str, entry: LedgerEntry | None = None) -> int | None:
    """Return the number here of an entry with this key, and compare it with the new one; None if it is new."""
    origin, _, number = key.rpartition(":")
    here = (int(number) if int(number) <= mine._latest() else -1) if origin == mine.id else mine._entry_from(key)
    known = mine._entry(here) if here and here > 0 and entry is not None else None
    if known is None and origin == mine.id and here != -1 and entry is not None:
        raise ValueError(
            f"The record has entry {number} of {origin}, which was folded into a sum here, so nobody can tell if it is the same; charge "
            "what it spent with spend, unless it was charged here."
        )
    if here == -1 or (known is not None and entry is not None and _identifying_facts(known) != _identifying_facts(entry)):
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


def _find_branch(mine: BaseLedger, here: int, other: Ledger, there: int) -> str | None:
    """Return the ledger in which an account of the other ledger goes on, if mine goes on from the same ledger in another."""
    theirs = parse_moves(entry.name for entry in other.entries(there))
    ours = parse_moves(entry.name for n in mine._numbers(here) if (entry := mine._entry(n)) is not None) if theirs else set()
    return next((to for start, to in sorted(theirs - ours) if any(start == from_ for from_, _ in ours)), None)


def _identifying_facts(entry: LedgerEntry) -> tuple[Any, ...]:
    return entry.name, entry.loss, entry.time, entry.process


def _foreign_group_name(group: str | None, other: Ledger, of: int | None) -> str | None:
    if group is None or _ELSEWHERE.search(group):
        return group
    return f"{group} of {other.id}:{of or ''}"


def _is_paid(members: dict[str, Any], other: Ledger, entry: LedgerEntry) -> bool:
    here, there = members.get(entry.name), other.member(entry.part_of, str(entry.group), entry.name)
    if here is None or there is None:
        return False
    pairs = [(getattr(there, field.name), getattr(here, field.name)) for field in fields(there)]
    return all(a == b if isinstance(a, bool) else a <= b for a, b in pairs)
