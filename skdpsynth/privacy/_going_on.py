"""How a mechanism that lives for long goes on after it was saved and loaded, so that its ledger in a file stays true.

Each stream has an account in the ledger. What is loaded may have been left behind: by the one that was saved, which released more
before it broke down, or by another copy. If the ledger proves that nothing of the rows to come was released in an account of the stream,
it goes on in that one. Else their release is a second one, and a new account is charged as much as the first.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

from skdpsynth._locks import lock_of
from skdpsynth.privacy._accountant import PrivacyAccountant
from skdpsynth.privacy._ledger import LedgerEntry, Refused
from skdpsynth.privacy._ledger_file import LedgerFile
from skdpsynth.privacy._losses import Amount
from skdpsynth.privacy._presentation import refusal


def is_durable(accountant: PrivacyAccountant) -> bool:
    """Whether an accountant, or the one that a checkpoint was made of, keeps its ledger in a file."""
    return isinstance(accountant._entries, LedgerFile) or accountant._place is not None


def watched(accountant: PrivacyAccountant) -> PrivacyAccountant:
    """Let nobody charge the account of a stream unseen: then a charge of this accountant is refused, as it may be the second."""
    if isinstance(accountant._entries, LedgerFile) and accountant._newest is None and accountant._account is not None:
        accountant._newest = accountant._entries.newest(accountant._account)
        accountant._first = accountant._account
    return accountant


def checkpoint(accountant: PrivacyAccountant) -> PrivacyAccountant:
    """Return a record that knows where its ledger lies, for the file of a stream: such a file is as private as the data."""
    with lock_of(accountant):
        record, ledger = accountant.record(), accountant._entries
        if isinstance(ledger, LedgerFile) and accountant._account is not None and accountant._newest is not None:
            first = accountant._first or accountant._account
            record._place = ledger.path, ledger.id, accountant._account, accountant._newest, first
        elif accountant._place is not None:
            record._place = accountant._place
    return record


def is_overtaken(accountant: PrivacyAccountant) -> bool:
    """Whether somebody else has charged the account since."""
    known, ledger = accountant._newest, accountant._entries
    return known is not None and isinstance(ledger, LedgerFile) and ledger.newest(accountant._account) != known


def mark(accountant: PrivacyAccountant, words: str, loss: tuple[Any, Any], group: str) -> None:
    """Write a line that tells every copy of a stream that this one goes on; it is a member of a group that costs as much already."""
    words = words if accountant._newest is None else f"{words}, after entry {accountant._newest}"  # so no two have one name, and add
    if accountant._newest is not None or not accountant.was_charged(words, group):
        accountant.child(*loss, name=words, group=group).close()


def going_on(
    accountant: PrivacyAccountant,
    name: str,
    group: str,
    *,
    row: int,
    stop_of: Callable[[str], float] | None,
    at: PrivacyAccountant | None = None,
) -> PrivacyAccountant:
    """Return an open accountant for a stream that was loaded, or overtaken by a copy.

    Parameters
    ----------
    accountant : PrivacyAccountant
        A checkpoint, or the accountant of a stream that lives.
    name : str
        Of the stream, for the ledger.
    group : str
        In which its rows are charged.
    row : int
        The first row, counted from 0, that it may release from now on.
    stop_of : callable, default=None
        Returns the row after the last one that a member of the group released, by its name. None: names do not tell, and only an
        account that nobody has charged since proves that nothing was released.
    at : PrivacyAccountant, default=None
        Of the same ledger, where it was moved.

    Returns
    -------
    accountant : PrivacyAccountant

    Raises
    ------
    BudgetExceededError
        If rows were released since, and their second release does not fit.
    """
    if not is_durable(accountant):
        return accountant.reopened()
    ledger, account, newest, first = _where(accountant, at)
    entry = _own_entry(ledger, first)
    again = f"{name}: rows released once more, see entry {first}"
    accounts = [first, *(e.id for e in ledger.named(entry.part_of, again) if e.loss == entry.loss and e.noise is None)]
    chosen = None
    for each in accounts:
        known = ledger.newest(each)  # before the rows are looked at: what comes in between is seen when it is charged
        if (each == account and known == newest) if stop_of is None else all(stop_of(m) <= row for m in ledger.members(each, group)):
            chosen = each, known
            break
    if chosen is None:
        chosen = _charged_again(ledger, replace(entry, name=again)), 0
    return _opened(accountant, ledger, *chosen, first)


def _where(accountant: PrivacyAccountant, at: PrivacyAccountant | None) -> tuple[LedgerFile, int, int, int]:
    """Return the ledger of a stream, its account there, the newest entry that it knows of, and its first account."""
    if isinstance(accountant._entries, LedgerFile):
        return accountant._entries, accountant._account or 0, accountant._newest or 0, accountant._first or accountant._account or 0
    path, id_, account, newest, first = accountant._place or ("", "", 0, 0, 0)
    if at is not None and isinstance(at._entries, LedgerFile):
        path = at._entries.path
    return LedgerFile(path, id_), account, newest, first


def _own_entry(ledger: LedgerFile, account: int) -> LedgerEntry:
    entry = ledger.entry(account)
    if entry is None:
        raise ValueError(f"{ledger.path} does not hold what this stream was charged; it was folded away: fit a new stream.")
    return entry


def _charged_again(ledger: LedgerFile, line: LedgerEntry) -> int:
    line = LedgerEntry(line.name, line.loss, line.neighboring, part_of=line.part_of, dataset=line.dataset, unit=line.unit, note=line.note)
    budget = _budget_of(ledger, line.part_of)
    try:
        return ledger.append(line, *budget).id
    except Refused as error:
        refused = error
    raise refusal(line, refused.spent, refused.needed, budget, refused.in_rho)


def _budget_of(ledger: LedgerFile, account: int | None) -> tuple[Amount, Fraction]:
    if account is None:
        return ledger.promise[0], ledger.promise[1]
    loss = _own_entry(ledger, account).loss
    if loss.rho is not None:
        return math.inf, Fraction(1, 2)  # it is held to the rho that it was charged for, whatever that converts to
    return (math.inf if loss.is_infinite else loss.epsilon), loss.delta


def _opened(accountant: PrivacyAccountant, ledger: LedgerFile, account: int, newest: int, first: int) -> PrivacyAccountant:
    charged: Any = accountant._entries.snapshot(accountant._account)
    opened = accountant._copied(ledger, closed=False)
    opened._account, opened._newest, opened._first = account, newest, first
    opened._resumable = list(charged.below(accountant._account))
    return opened
