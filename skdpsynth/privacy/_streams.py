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

**Moves.** Where a stream goes on in another ledger, which has imported its own, both get a line that says so (`parse_moves`), the one
that it leaves first and if it has not left that for a third. Its account there pays for its rows here too, since nobody goes on in it
there at no charge. The line here stays with the account, whatever is folded and whatever becomes of the other file: an import of two
ledgers in which one account goes on from the same place sees that rows were released twice, and charges both. So does an import of a
ledger that was away when the stream left, and in which a copy went on.

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

from skdpsynth._parallel import lock_of
from skdpsynth.exceptions import BudgetExceededError, LedgerError
from skdpsynth.privacy._accountant import PrivacyAccountant
from skdpsynth.privacy._ledger import Account, Budget, Ledger, Overtaken, parse_moves
from skdpsynth.privacy._ledger_entry import LedgerEntry
from skdpsynth.privacy._ledger_file import FileStore
from skdpsynth.privacy._losses import Amount, PrivacyLoss, Unit


def is_durable(accountant: PrivacyAccountant) -> bool:
    """Whether an accountant, or the one that a checkpoint was made of, keeps its ledger in a file."""
    return accountant._account.ledger.store.is_file or accountant._account.place is not None


def guard_account(accountant: PrivacyAccountant) -> PrivacyAccountant:
    """Refuse charges of the account of a stream that this accountant has not seen, as they may be the second."""
    account = accountant._account
    if account.ledger.store.is_file and account.newest is None and account.number is not None:
        account.newest, account.first = account.ledger.newest(account.number), account.number
    return accountant


def checkpoint(accountant: PrivacyAccountant) -> PrivacyAccountant:
    """Return a record that knows where its ledger lies, for the file of a stream: such a file is as private as the data."""
    with lock_of(accountant):
        record, account = accountant.record(), accountant._account
        record._account.place, store = account.place, account.ledger.store
        if isinstance(store, FileStore) and account.number is not None and account.newest is not None:
            record._account.place = store.path, store.id, account.number, _newest_after_settling(account), account.first or account.number
    return record


# Rows that are shown at once or never


def claim_child(
    shared: PrivacyAccountant, epsilon: Amount, delta: Amount, *, name: str, rho: str | None = None, unit: Unit | None = None
) -> PrivacyAccountant:
    """Return a child whose charge is pending; that of a process that died before it showed anything serves again."""
    return shared._child(epsilon, delta, name, None, rho, unit, claims=True)


@contextmanager
def pending_charges(accountant: PrivacyAccountant) -> Iterator[None]:
    """Make all charges within the block pending, until they are settled; fold lines when it is over."""
    account = accountant._account
    account.unshown = []
    try:
        yield
        later, account.later, account.unshown = account.later, [], None
        for group, names, into in later:
            accountant.fold(group, names, into=into)
    finally:
        account.unshown, account.later = None, []


def _newest_after_settling(account: Account) -> int:
    """Return the newest entry once all that is pending here is settled."""
    return max([account.newest or 0, *(account.unshown or ())])


def settle(accountant: PrivacyAccountant, is_first: bool) -> None:
    """Note in the ledger that what was charged may be shown; `is_first`: the account itself may be pending."""
    account = accountant._account
    if account.unshown or is_first:
        account.ledger.settle(account.number, account.unshown or (), account.newest)


def is_settled(accountant: PrivacyAccountant) -> bool:
    """Whether the ledger has what was charged as settled."""
    account = accountant._account
    is_pending = account.ledger.store.is_file and bool(account.unshown)
    return is_pending and account.ledger.newest(account.number) == _newest_after_settling(account)


def acknowledge_settled(accountant: PrivacyAccountant) -> None:
    """Note in the accountant that its charges are settled; last, so that an interrupt before it looks at the ledger again."""
    if accountant._account.newest is not None:
        accountant._account.newest = _newest_after_settling(accountant._account)


def unsettle(accountant: PrivacyAccountant) -> None:
    """Take back what `settle` noted in memory, as nothing was shown after all."""
    store = accountant._account.ledger.store
    if not store.is_file:
        store.run(lambda: store.set_pending(accountant._account.unshown or (), True))


def finish(accountant: PrivacyAccountant, move: Callable[[], None]) -> None:
    """Move a state to its place, unless another process went on from where this one stood."""
    account = accountant._account
    if not account.ledger.store.is_file:
        try:
            return move()
        except FileNotFoundError:
            raise Overtaken from None
    try:
        account.ledger.hold(account.number, _newest_after_settling(account), move)
    except Overtaken:
        if not account.unshown:
            raise
        # It is settled, and the process that went on moved it to its place.


def is_latest_checkpoint(accountant: PrivacyAccountant, at: PrivacyAccountant | None = None) -> bool:
    """Whether nothing was shown in the account of a checkpoint since it was made; `at`: where its ledger lies now."""
    account = _locate(accountant, at)
    return account.ledger.newest(account.number) == account.newest


def recover(accountant: PrivacyAccountant, at: PrivacyAccountant | None, move: Callable[[], None]) -> bool:
    """Move a state to its place if it is the last one that was settled; return whether it is."""
    account = _locate(accountant, at)
    try:
        account.ledger.hold(account.number, account.newest or 0, move)
    except Overtaken:
        return False
    return True


def is_overtaken(accountant: PrivacyAccountant) -> bool:
    account = accountant._account
    return account.newest is not None and account.ledger.store.is_file and account.ledger.newest(account.number) != account.newest


def mark_resumed(accountant: PrivacyAccountant, words: str, loss: tuple[Amount, Amount], group: str) -> None:
    """Write a line that tells every copy of a stream that this one goes on; it is a member of a group that costs as much already."""
    newest = accountant._account.newest
    words = words if newest is None else f"{words}, after entry {newest}"  # so no two have one name, and add
    if newest is not None or not accountant.was_charged(words, group):
        accountant.child(*loss, name=words, group=group).close()


def resume(
    accountant: PrivacyAccountant,
    name: str,
    group: str,
    *,
    row: int,
    stop_of: Callable[[str], float] | None,
    loss: tuple[Amount, Amount],
    at: PrivacyAccountant | None = None,
) -> PrivacyAccountant:
    """Return an open accountant for a stream that was loaded, or overtaken by a copy.

    `accountant` is a checkpoint, or that of a live stream; `at` has the same ledger, where it was moved, or another that has imported it.
    `row` is the first row, counted from 0, that the stream may release now. ``stop_of(name)`` returns the row after the last one that a
    member of the group released; None: names do not tell, and only an account that nobody has charged since proves that nothing was
    released. `loss` is the (epsilon, delta) of a member. Raises BudgetExceededError if the second release of rows does not fit.
    """
    if not is_durable(accountant):
        return accountant.reopen()
    was = _locate(accountant, at)
    ledger, first = was.ledger, was.first or 0
    entry, again = _own_entry(ledger, first), f"{name}: rows released once more, see entry {first}"
    for number in [first, *(e.id for e in ledger.entries(entry.part_of, again) if e.loss == entry.loss and e.noise is None)]:
        known = ledger.newest(number)  # before the rows are looked at: what comes in between is seen when it is charged
        pending = ledger.pending()
        names = [entry.name for entry in ledger.entries(number) if entry.group == group and entry.id not in pending]
        shown = [name for name in names if not parse_moves([name])]
        is_unreleased = (number == was.number and known == was.newest) if stop_of is None else all(stop_of(name) <= row for name in shown)
        newest = _record_move(accountant, ledger, number, known, group, names, loss) if is_unreleased else None
        if newest is not None:
            break
    else:
        number, newest = _charge_again(ledger, entry, again), 0
    charged, account = accountant._account.snapshot()
    opened = Account(ledger, number, newest=newest, first=first, resumable=[*charged.below(account)])
    return accountant._copy_with(opened, closed=False)


def _locate(accountant: PrivacyAccountant, at: PrivacyAccountant | None) -> Account:
    """Return the account of a stream where it lies now, as the stream has seen it; `at` may have imported its ledger."""
    account = accountant._account
    if account.ledger.store.is_file:
        return Account(account.ledger, account.number or 0, newest=account.newest or 0, first=account.first or account.number or 0)
    path, id_, number, newest, first = account.place or ("", "", 0, 0, 0)
    store = None if at is None else at._account.ledger.store
    if not isinstance(store, FileStore) or store.id == id_:
        there = path if not isinstance(store, FileStore) else store.path
        return Account(Ledger(FileStore(there, id_)), number, newest=newest, first=first)
    ledger = Ledger(FileStore(store.path, store.id))
    old = _previous_ledger(ledger, path, id_)

    def here(number: int) -> int | None:
        known = ledger.entry_from(f"{id_}:{number}")
        entry = old.entry(number) if known is None and old is not None else None  # which came from a third ledger itself
        return ledger.entry_from(entry.source) if entry is not None and entry.source is not None else known

    lines = [] if old is None else old.entries(number)
    unshown, pending = frozenset() if old is None else old.pending(), {None, *ledger.pending()}
    shown = [line.id for line in lines if line.id not in unshown and not parse_moves([line.name])]
    if None in (here(number), here(first)) or any(here(number) in pending for number in shown):
        record = repr(path) if old is not None else "the ledger of the stream"
        raise LedgerError(
            f"{store.path!r} does not hold all that this stream was charged; charge it there first, by "
            f"PrivacyAccountant.at({store.path!r}).import_record({record})."
        )
    return Account(ledger, here(number) or 0, newest=here(newest) or 0, first=here(first) or 0)


def _previous_ledger(ledger: Ledger, path: str, id_: str) -> Ledger | None:
    return Ledger(FileStore(path, id_)) if exists(path) and path != ledger.store.path else None


def _record_move(
    accountant: PrivacyAccountant, ledger: Ledger, account: int, known: int, group: str, names: list[str], loss: tuple[Amount, Amount]
) -> int | None:
    """Write in both ledgers that an account goes on in this one, if it came from another.

    Return its newest entry then, or None if it goes on elsewhere, or the stream was not in it last.
    """
    path, start, *_ = accountant._account.place or ("", ledger.store.id)
    start, entry = ledger.store.id if accountant._account.ledger.store.is_file else start, _own_entry(ledger, account)
    moves = parse_moves(names)
    if any(from_ in (start, ledger.store.id) and to != ledger.store.id for from_, to in moves):
        return None
    if start == ledger.store.id or entry.source is None:
        return known
    if not entry.source.startswith(f"{start}:") and all(to != start for _, to in moves):
        return None
    name = f"goes on in {ledger.store.id}, from {start}"  # as `parse_moves` reads it
    # As large as a member of the group is, so it costs nothing.
    line = LedgerEntry(name, PrivacyLoss(*loss), entry.neighboring, group=group, part_of=account, unit=entry.unit)
    old = _previous_ledger(ledger, path, start)
    if old is not None and not _record_departure(old, entry.source, line):
        return None
    if name in names:
        return known
    return ledger.append(line, _budget_of(ledger, account), newest=known).id


def _record_departure(old: Ledger, source: str, line: LedgerEntry) -> bool:
    """Write in the ledger that an account leaves where it goes on, unless it left for another; return whether it did not."""
    origin, _, number = source.rpartition(":")
    account = int(number) if origin == old.store.id else old.entry_from(source)
    if account is None:
        return False
    budget, line = _budget_of(old, account), replace(line, part_of=account)

    def work(ledger: Ledger) -> bool:
        names = {entry.name for entry in ledger.store.entries(account)}
        if any(from_ == ledger.store.id for from_, _ in parse_moves(names - {line.name})):
            return False
        if line.name not in names:
            ledger._append(line, budget)
        return True

    return old.whole(work)


def _own_entry(ledger: Ledger, account: int) -> LedgerEntry:
    entry = ledger.entry(account)
    if entry is None:
        raise ValueError(f"{ledger.store.path} does not hold what this stream was charged; it was folded away: fit a new stream.")
    return entry


def _charge_again(ledger: Ledger, entry: LedgerEntry, name: str) -> int:
    same = {field: getattr(entry, field) for field in ("loss", "neighboring", "part_of", "dataset", "unit", "note")}
    line, budget = LedgerEntry(name, **same), _budget_of(ledger, entry.part_of)
    try:
        return ledger.append(line, budget).id
    except BudgetExceededError as error:
        if line.part_of is None:
            epsilon, delta = ledger.sums(None).plus(line.loss).total(budget[1])
            relation = "" if line.neighboring == "replace_one" else f", neighboring={line.neighboring!r}"
            error.args = (
                f"{str(error).rpartition(';')[0]}; load the newest file of this stream, which goes on at no charge, or make "
                f"big = PrivacyAccountant({float(epsilon):.12g}{f', {float(delta):.12g}' if delta else ''}{relation}, ledger='larger.db'), "
                f"charge what was spent here by big.import_record({ledger.store.path!r}), and go on with load(the file, accountant=big).",
            )
        raise


def _budget_of(ledger: Ledger, account: int | None) -> Budget:
    if account is None and isinstance(ledger.store, FileStore):
        return ledger.store.promise[:2]
    loss = _own_entry(ledger, account or 0).loss
    if loss.rho is not None:
        return math.inf, Fraction(1, 2)  # it is held to the rho that it was charged for, whatever that converts to
    return (math.inf if loss.is_infinite else loss.epsilon), loss.delta
