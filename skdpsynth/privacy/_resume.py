"""Streams that go on after they were saved and loaded, with a ledger in a file that stays true.

Each stream has an account in the ledger. A loaded stream may be outdated: the saved one may have released more before it broke down, or
another copy may have. If the ledger proves that nothing of the rows to come was released in an account of the stream, it goes on in that
one. Otherwise their release is a second one, and a new account is charged as much as the first.

Rows that are taken in and saved in one step (`partial_fit` with `save`) cost nothing more if the process is killed, wherever that is:

1. Each block is charged before its noise is drawn, by an entry that is *pending*.
2. The state after the rows is written beside its place, and flushed.
3. One transaction makes the entries no longer pending (`settle`), if the newest entry of the account that is not pending is still the one
   that this state was made from.
4. The file is moved to its place, the object takes the state over, and the call returns.

**A row is shown at most once for one charge.** A stream shows its samples, and none of the new state before step 4. A kill before step 3
ends the process, and all that it drew: entries stay pending, and the file in its place is that of the state before. A process that goes
on from there draws again, under the same charge, because only the second of both draws can be shown. After step 3 the entries say which
rows are released, so the state before can go on only at a second charge, by the rule above: an old file that is put back gets no second
draw. The state that may go on is the one beside its place; its number of the newest entry is the ledger's, which tells it from all
others, since a ledger never gives a number twice, and `load` moves it to its place. Two processes that go on from one file both draw, but
the check in step 3 lets one of them through, and the draws of the other are thrown away. Rows in a block that is drawn again need not be
those of the first draw: nothing tells of those.

**Beginnings.** The account of a stream is pending too, until something may be shown in it: the next stream that begins takes over the
account of a beginning that was killed or that broke (`claim`). So rows that are taken in without `save` settle it before anything is
drawn, and nobody claims an account that holds an entry that is not pending, nor one that came from another ledger, in which it may be
claimed too, nor one in memory.

**Numbers of entries, no digest of the file.** A digest would be a function of the rows that wait in it, so readers of the ledger could
try guesses of them. States that have the same number differ in waiting rows alone, of which nothing is released.

**In memory.** Without a ledger in a file the record is part of the state, so step 4 settles both at once. Nothing then sees an old file
that is put back: it is a second release.

**Moves.** Where a stream goes on in another ledger, which has imported its own, both get a line that says so (`move_line_name`), the one
that it leaves first and if it has not left that for a third. Its account there pays for its rows here too, since nobody goes on in it
there at no charge. The line here stays with the account, whatever is folded and whatever becomes of the other file: an import of two
ledgers in which one account goes on from the same place sees that rows were released twice, and charges both.

**Assumptions.** Nobody reads the memory of a process that was killed (a core dump, a debugger), nor a file beside its place whose entries
are pending; and the kill did not follow from the noise that the process had drawn. So an exception that the release itself raises, which
might follow from it, leaves its block out, as it does without `save`.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from os.path import exists
from typing import Any

from skdpsynth._parallel import lock_of
from skdpsynth.exceptions import LedgerError
from skdpsynth.privacy._accountant import PrivacyAccountant
from skdpsynth.privacy._format import budget_exceeded_error
from skdpsynth.privacy._ledger import BaseLedger, LedgerEntry, OverBudget, Overtaken
from skdpsynth.privacy._ledger_sqlite import LedgerFile, process_label
from skdpsynth.privacy._losses import Amount, PrivacyLoss, Unit
from skdpsynth.privacy._merge_ledgers import move_line_name, parse_moves


def is_durable(accountant: PrivacyAccountant) -> bool:
    """Whether an accountant, or the one that a checkpoint was made of, keeps its ledger in a file."""
    return isinstance(accountant._entries, LedgerFile) or accountant._place is not None


def guard_account(accountant: PrivacyAccountant) -> PrivacyAccountant:
    """Refuse charges of the account of a stream that this accountant has not seen, as they may be the second."""
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
            record._place = ledger.path, ledger.id, accountant._account, _newest_after_settling(accountant), first
        elif accountant._place is not None:
            record._place = accountant._place
    return record


# Rows that are shown at once or never


def claim_child(
    shared: PrivacyAccountant, epsilon: Any, delta: Any, *, name: str, rho: str | None = None, unit: Unit | None = None
) -> PrivacyAccountant:
    """Return a child whose charge is pending; that of a process that died before it showed anything serves again."""
    return shared._child(epsilon, delta, name, None, rho, unit, write=shared._entries.claim)


@contextmanager
def pending_charges(accountant: PrivacyAccountant) -> Iterator[None]:
    """Make all charges within the block pending, until they are settled; fold lines when it is over."""
    accountant._unshown = []
    try:
        yield
        later, accountant._later, accountant._unshown = accountant._later, (), None
        for group, names, into in later:
            accountant.fold(group, names, into=into)
    finally:
        accountant._unshown, accountant._later = None, ()


def _newest_after_settling(accountant: PrivacyAccountant) -> int:
    """Return the newest entry once all that is pending here is settled."""
    return max([accountant._newest or 0, *(accountant._unshown or ())])


def settle(accountant: PrivacyAccountant, is_first: bool) -> None:
    """Note in the ledger that what was charged may be shown; `is_first`: the account itself may be pending."""
    if accountant._unshown or is_first:
        try:
            accountant._entries.settle(accountant._account, accountant._unshown or (), accountant._newest)
        except Overtaken:
            raise _overtaken_error() from None


def is_settled(accountant: PrivacyAccountant) -> bool:
    """Whether the ledger has what was charged as settled."""
    is_file = isinstance(accountant._entries, LedgerFile)
    return is_file and bool(accountant._unshown) and accountant._entries.newest(accountant._account) == _newest_after_settling(accountant)


def acknowledge_settled(accountant: PrivacyAccountant) -> None:
    """Note in the accountant that its charges are settled; last, so that an interrupt before it looks at the ledger again."""
    if accountant._newest is not None:
        accountant._newest = _newest_after_settling(accountant)


def unsettle(accountant: PrivacyAccountant) -> None:
    """Take back what `settle` noted in memory, as nothing was shown after all."""
    if not isinstance(accountant._entries, LedgerFile):
        with lock_of(accountant._entries):
            accountant._entries._set_pending(accountant._unshown or (), True)


def finish(accountant: PrivacyAccountant, move: Callable[[], None]) -> None:
    """Move a state to its place, unless another process went on from where this one stood."""
    newest, ledger = _newest_after_settling(accountant), accountant._entries
    if not isinstance(ledger, LedgerFile):
        try:
            move()
        except FileNotFoundError:
            raise _overtaken_error() from None
        return
    try:
        ledger.held(accountant._account, newest, move)
    except Overtaken:
        if not accountant._unshown:
            raise _overtaken_error() from None
        # It is settled, and the process that went on moved it to its place.


def _overtaken_error() -> RuntimeError:
    return RuntimeError(
        "The rows were not taken in, because another process went on with this stream meanwhile; load its file, and go on from its "
        "n_samples_seen_."
    )


def is_latest_checkpoint(accountant: PrivacyAccountant, at: PrivacyAccountant | None = None) -> bool:
    """Whether nothing was shown in the account of a checkpoint since it was made; `at`: where its ledger lies now."""
    ledger, account, newest, _ = _locate_stream(accountant, at)
    return ledger.newest(account) == newest


def recover(accountant: PrivacyAccountant, at: PrivacyAccountant | None, move: Callable[[], None]) -> bool:
    """Move a state to its place if it is the last one that was settled; return whether it is."""
    ledger, account, newest, _ = _locate_stream(accountant, at)
    try:
        ledger.held(account, newest, move)
    except Overtaken:
        return False
    return True


def is_overtaken(accountant: PrivacyAccountant) -> bool:
    known, ledger = accountant._newest, accountant._entries
    return known is not None and isinstance(ledger, LedgerFile) and ledger.newest(accountant._account) != known


def mark_resumed(accountant: PrivacyAccountant, words: str, loss: tuple[Any, Any], group: str) -> None:
    """Write a line that tells every copy of a stream that this one goes on; it is a member of a group that costs as much already."""
    words = words if accountant._newest is None else f"{words}, after entry {accountant._newest}"  # so no two have one name, and add
    if accountant._newest is not None or not accountant.was_charged(words, group):
        accountant.child(*loss, name=words, group=group).close()


def resume(
    accountant: PrivacyAccountant,
    name: str,
    group: str,
    *,
    row: int,
    stop_of: Callable[[str], float] | None,
    loss: tuple[Any, Any],
    at: PrivacyAccountant | None = None,
) -> PrivacyAccountant:
    """Return an open accountant for a stream that was loaded, or overtaken by a copy.

    `accountant` is a checkpoint, or that of a live stream; `at` has the same ledger, where it was moved, or another that has imported it.
    `row` is the first row, counted from 0, that the stream may release now. ``stop_of(name)`` returns the row after the last one that a
    member of the group released; None: names do not tell, and only an account that nobody has charged since proves that nothing was
    released. `loss` is the (epsilon, delta) of a member. Raises BudgetExceededError if the second release of rows does not fit.
    """
    if not is_durable(accountant):
        return accountant.reopened()
    ledger, account, newest, first = _locate_stream(accountant, at)
    entry, again = _own_entry(ledger, first), f"{name}: rows released once more, see entry {first}"
    chosen = None
    for each in [first, *(e.id for e in ledger.named(entry.part_of, again) if e.loss == entry.loss and e.noise is None)]:
        known = ledger.newest(each)  # before the rows are looked at: what comes in between is seen when it is charged
        names = ledger.members(each, ledger.group_of_stream(each, group))
        shown = [name for name in names if not parse_moves([name])]
        if (each == account and known == newest) if stop_of is None else all(stop_of(name) <= row for name in shown):
            moved = _record_move(accountant, ledger, each, known, group, loss)
            if moved is not None:
                chosen = each, moved
                break
    if chosen is None:
        chosen = _charge_again(ledger, replace(entry, name=again)), 0
    opened = _open_account(accountant, ledger, *chosen, first)
    opened._aliases = {group: ledger.group_of_stream(chosen[0], group)}
    return opened


def _locate_stream(accountant: PrivacyAccountant, at: PrivacyAccountant | None) -> tuple[LedgerFile, int, int, int]:
    """Return the ledger of a stream, its account there, the newest entry that it has seen, and its first account."""
    if isinstance(accountant._entries, LedgerFile):
        return accountant._entries, accountant._account or 0, accountant._newest or 0, accountant._first or accountant._account or 0
    path, id_, account, newest, first = accountant._place or ("", "", 0, 0, 0)
    if at is None or not isinstance(at._entries, LedgerFile):
        return LedgerFile(path, id_), account, newest, first
    if at._entries.id == id_:
        return LedgerFile(at._entries.path, id_), account, newest, first
    return _locate_imported_stream(at._entries, path, id_, account, newest, first)


def _locate_imported_stream(
    ledger: LedgerFile, path: str, id_: str, account: int, newest: int, first: int
) -> tuple[LedgerFile, int, int, int]:
    """Return the same in a ledger that has imported the one of the stream, with all of its charges there."""
    old = _previous_ledger(ledger, path, id_)

    def here(number: int) -> int | None:
        known = ledger.entry_from(f"{id_}:{number}")
        entry = old.entry(number) if known is None and old is not None else None  # which came from a third ledger itself
        return ledger.entry_from(entry.source) if entry is not None and entry.source is not None else known

    numbers = here(account), here(first)
    lines = [] if old is None else old.snapshot(account).entries(account)
    unshown, pending = set() if old is None else old.pending(), {None, *ledger.pending()}
    shown = [line.id for line in lines if line.id not in unshown and not parse_moves([line.name])]
    if None in numbers or any(here(number) in pending for number in shown):
        record = repr(path) if old is not None else "the ledger of the stream"
        raise LedgerError(
            f"{ledger.path!r} does not hold all that this stream was charged; charge it there first, by "
            f"PrivacyAccountant.at({ledger.path!r}).import_record({record})."
        )
    return LedgerFile(ledger.path, ledger.id), numbers[0] or 0, here(newest) or 0, numbers[1] or 0


def _previous_ledger(ledger: LedgerFile, path: str, id_: str) -> LedgerFile | None:
    return LedgerFile(path, id_) if exists(path) and path != ledger.path else None


def _record_move(
    accountant: PrivacyAccountant, ledger: LedgerFile, account: int, known: int, group: str, loss: tuple[Any, Any]
) -> int | None:
    """Write in both ledgers that an account goes on in this one, if it came from another.

    Return its newest entry then, or None if it goes on elsewhere, or the stream was not in it last.
    """
    path, start, *_ = accountant._place or ("", ledger.id)
    start = ledger.id if isinstance(accountant._entries, LedgerFile) else start
    entry, group = _own_entry(ledger, account), ledger.group_of_stream(account, group)
    names = ledger.members(account, group)
    if any(from_ in (start, ledger.id) and to != ledger.id for from_, to in parse_moves(names)):
        return None
    if start == ledger.id or entry.source is None:
        return known
    if not entry.source.startswith(f"{start}:") and all(to != start for _, to in parse_moves(names)):
        return None
    name = move_line_name(ledger.id, start)
    group = group if " of ledger-" in group else f"{group} of {start}:"  # as an import calls it, of an account that has no blocks yet
    # As large as a member of the group is, so it costs nothing.
    line = LedgerEntry(name, PrivacyLoss(*loss), entry.neighboring, group=group, part_of=account, unit=entry.unit)
    old = _previous_ledger(ledger, path, start)
    if old is not None and not _record_departure(old, entry.source, line):
        return None
    if name in names:
        return known
    try:
        return ledger.append(line, *_budget_of(ledger, account), newest=known).id
    except Overtaken:
        raise _overtaken_error() from None


def _record_departure(old: LedgerFile, source: str, line: LedgerEntry) -> bool:
    """Write in the ledger that an account leaves where it goes on, unless it left for another; return whether it did not."""
    origin, _, number = source.rpartition(":")
    account = int(number) if origin == old.id else old.entry_from(source)
    if account is None:
        return False
    group = old.group_of_stream(account, (line.group or "").partition(" of ledger-")[0])
    budget, line = _budget_of(old, account), replace(line, part_of=account, group=group, process=process_label())

    def work(ledger: BaseLedger) -> bool:
        names = {entry.name for n in ledger._numbers(account) if (entry := ledger._entry(n)) is not None}
        if any(from_ == old.id for from_, _ in parse_moves(names - {line.name})):
            return False
        if line.name not in names:
            ledger._append_checked(line, *budget, None, False, False)
        return True

    return bool(old.whole(work))


def _own_entry(ledger: LedgerFile, account: int) -> LedgerEntry:
    entry = ledger.entry(account)
    if entry is None:
        raise ValueError(f"{ledger.path} does not hold what this stream was charged; it was folded away: fit a new stream.")
    return entry


def _charge_again(ledger: LedgerFile, line: LedgerEntry) -> int:
    line = LedgerEntry(line.name, line.loss, line.neighboring, part_of=line.part_of, dataset=line.dataset, unit=line.unit, note=line.note)
    budget = _budget_of(ledger, line.part_of)
    try:
        return ledger.append(line, *budget).id
    except OverBudget as over:
        refused = over
    error = budget_exceeded_error(line, refused.spent, refused.needed, budget, refused.in_rho)
    if line.part_of is None:
        delta = f", {float(refused.needed[1]):.12g}" if refused.needed[1] else ""
        relation = "" if line.neighboring == "replace_one" else f", neighboring={line.neighboring!r}"
        advice = (
            "load the newest file of this stream, which goes on at no charge, or make "
            f"big = PrivacyAccountant({float(refused.needed[0]):.12g}{delta}{relation}, ledger='larger.db'), charge what was spent here by "
            f"big.import_record({ledger.path!r}), and go on with load(the file, accountant=big)."
        )
        error.args = (f"{str(error).rpartition(';')[0]}; {advice}",)
    raise error


def _budget_of(ledger: LedgerFile, account: int | None) -> tuple[Amount, Fraction]:
    if account is None:
        return ledger.promise[0], ledger.promise[1]
    loss = _own_entry(ledger, account).loss
    if loss.rho is not None:
        return math.inf, Fraction(1, 2)  # it is held to the rho that it was charged for, whatever that converts to
    return (math.inf if loss.is_infinite else loss.epsilon), loss.delta


def _open_account(accountant: PrivacyAccountant, ledger: LedgerFile, account: int, newest: int, first: int) -> PrivacyAccountant:
    charged: Any = accountant._entries.snapshot(accountant._account)
    opened = accountant._copy_with(ledger, closed=False)
    opened._account, opened._newest, opened._first = account, newest, first
    opened._resumable = list(charged.below(accountant._account))
    return opened
