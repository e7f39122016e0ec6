"""A ledger in a file, for many processes and threads at once: SQLite in WAL mode.

One transaction checks the budget, writes the entry and commits. A commit returns when the disk has it (``synchronous=FULL``), but in
``-wal`` beside the file, which people leave behind when they copy a ledger. So the charge is then moved into the file itself, by a
checkpoint, and only then is noise drawn: every draw was charged, whatever breaks afterwards and whatever becomes of ``-wal``.

A process has one connection for each ledger, used by one thread at a time. None is open while the process forks: SQLite keeps in memory
which locks it holds, a child would take them for its own, and its writes could be lost.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakSet

from skdpsynth._parallel import lock_of
from skdpsynth.exceptions import LedgerError
from skdpsynth.privacy import _ledger_place
from skdpsynth.privacy._composition import Group, Sums
from skdpsynth.privacy._format import entry_to_text, parse_entry, parse_text, to_text
from skdpsynth.privacy._ledger import BaseLedger, Ledger, LedgerEntry, base_name, fold_entries
from skdpsynth.privacy._ledger_place import (
    APPLICATION_ID,
    FORMAT,
    SQLITE_MESSAGES,
    Promise,
    beside,
    check_not_mounted,
    check_path,
    check_same_budget,
    device_and_inode,
    is_busy,
    make_ledger_file,
    not_a_ledger_error,
)
from skdpsynth.privacy._losses import Amount

_Result = TypeVar("_Result")
_DESCENDANTS = """
with recursive below(id) as (
    select id from entries where account = ? union all select e.id from entries e join below b on e.account = b.id)
"""


class LedgerFile(BaseLedger):
    """Entries in a file that exists; `id` is that of the ledger that must be there, None for any."""

    def __init__(self, path: Any, id: str | None = None) -> None:
        self.path = check_path(path)
        self.id = id or ""
        self._db: Any = None
        self._latest_seen = 0
        self._number = next(_NUMBERS)
        _OPEN_LEDGERS.add(self)
        self._run_transaction(lambda: None, "begin")

    @classmethod
    def opened(cls, path: Any, promise: Promise, dataset: str | None = None) -> "LedgerFile":
        """Return the ledger of a path, which is made if there is no file; refuse one of another budget."""
        path = check_path(path)
        if not os.path.lexists(path):
            make_ledger_file(path, promise, dataset)
        ledger = cls(path)
        check_same_budget(path, ledger.promise, promise)
        return ledger

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "id": self.id, "_latest_seen": self._latest_seen}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _db=None, _number=next(_NUMBERS))
        _OPEN_LEDGERS.add(self)

    # Turns: what happens in one transaction

    def _run_transaction(self, work: Callable[[], _Result], begin: str = "begin immediate") -> _Result:
        """Do some work in one transaction; return its result once it is committed and, if it wrote, in the file itself."""
        done = self._commit_work(work, begin)
        if begin == "begin immediate":
            self._checkpoint_wal()
        return done

    def _commit_work(self, work: Callable[[], _Result], begin: str) -> _Result:
        deadline = time.monotonic() + _ledger_place.PATIENCE
        while True:
            try:
                with lock_of(self):
                    with self._connected() as db:  # rolled back by whatever is raised here
                        db.execute(begin)
                        self._check_place()
                        done = work()
                    self._check_place()  # else it was charged where nobody will look
                    return done
            except sqlite3.Error as error:
                if not is_busy(error) or time.monotonic() > deadline:
                    raise self._failure(error) from None
            except (_Unreadable, UnicodeDecodeError):  # Python reads what SQLite says of a damaged file as text
                raise _damaged_error(self.path) from None
            time.sleep(os.urandom(1)[0] / 25600)  # up to 10 ms, so that who waits takes turns

    def _checkpoint_wal(self) -> None:
        """Move all commits from ``-wal`` into the file; raise if readers keep it out: then it is charged and not drawn."""
        deadline = time.monotonic() + _ledger_place.PATIENCE
        while not self._is_checkpointed():
            if time.monotonic() > deadline:
                raise LedgerError(
                    f"{self.path} was read by others for {_ledger_place.PATIENCE:g} seconds, so a charge that was made could not be moved "
                    "into it, and nothing is drawn; find who reads it, and release anew, which is charged again."
                )
            time.sleep(os.urandom(1)[0] / 256000)  # up to 1 ms: a process that moves charges now may move this one too

    def _is_checkpointed(self) -> bool:
        try:
            with lock_of(self):
                # "full", because "passive" may leave the file unflushed while others write, and "truncate" costs a third more.
                busy, there, moved = self._connected().execute("pragma wal_checkpoint(full)").fetchone()
                self._check_place()
        except sqlite3.Error as error:
            if is_busy(error):
                return False
            raise self._failure(error) from None
        return not busy and there == moved

    def _connected(self) -> Any:
        """Return the connection of this process, which this thread alone uses."""
        if self._db is None:
            self._db = self._connect()
        elif self._process != os.getpid():
            raise LedgerError(f"{self.path} was open while this process was forked unseen by Python; make a new PrivacyAccountant of it.")
        elif self._db.in_transaction:  # an interrupt came before it could be rolled back
            self._db.rollback()
        return self._db

    def _connect(self) -> Any:
        self._place = device_and_inode(self.path)
        check_not_mounted(self.path)
        db = sqlite3.connect(f"{Path(self.path).as_uri()}?mode=rw", uri=True, timeout=0.25, isolation_level=None, check_same_thread=False)
        try:
            self._learn(db)
        except BaseException:
            db.close()  # now, and not when the traceback is forgotten
            raise
        return db

    def _learn(self, db: Any) -> None:
        db.execute("pragma trusted_schema = off")
        db.execute(f"pragma synchronous = {_ledger_place.SYNCHRONOUS}")
        (application,), (version,) = (db.execute(f"pragma {name}").fetchone() for name in ("application_id", "user_version"))
        if application != APPLICATION_ID:
            raise not_a_ledger_error(self.path)
        if version != FORMAT:
            raise LedgerError(
                f"{self.path} is a ledger of format {version}, and this version of skdpsynth reads {FORMAT}; open it with the one that "
                "wrote it."
            )
        self._beside = beside(self.path)
        if db.execute("pragma journal_mode").fetchone()[0] == "wal" and (None in self._beside or self._wal_is_shared()):
            raise _lost_wal_error(self.path)
        about = dict(db.execute("select name, value from about").fetchall())
        promise = _decode(lambda: (*parse_text(about["budget"]), about["neighboring"], about["id"]))
        if self.id not in ("", promise[3]) or _latest(db) < self._latest_seen:
            raise LedgerError(f"{self.path} is not what it was: another ledger, or an old copy, is in its place; put the right one back.")
        self.promise, self.id = promise[:3], promise[3]
        self.dataset, self._process = about.get("dataset"), os.getpid()

    def _wal_is_shared(self) -> bool:
        """Whether another connection of this process has other files beside the ledger: SQLite would share its memory with this."""
        connected = [other for other in list(_OPEN_LEDGERS) if other._db is not None and other._process == os.getpid()]
        return any(other._place == self._place and other._beside != self._beside for other in connected)

    def _disconnect(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            db.close()

    def _check_place(self) -> None:
        if device_and_inode(self.path) != self._place:
            raise LedgerError(f"{self.path} was removed or replaced while it was open, and nothing is drawn; put it back, or start anew.")
        if beside(self.path) != self._beside:
            raise _lost_wal_error(self.path)

    def _failure(self, error: sqlite3.Error) -> LedgerError:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        said = SQLITE_MESSAGES.get(
            code, f"cannot be used ({type(error).__name__}: {error}), and nothing is drawn; look at the file and its disk"
        )
        return LedgerError(f"{self.path!r} {said}.")

    # What a ledger keeps

    def _one(self, question: str, *values: Any) -> Any:
        row = self._db.execute(question, values).fetchone()
        return None if row is None else row[0]

    def _has_account(self, account: int | None) -> bool:
        return account is None or self._one("select 1 from entries where id = ?", account) is not None

    def _stored_sums(self, account: int | None) -> Sums | None:
        text = self._one("select sums from sums where account = ?", account or 0)
        if text is None and self._one("select 1 from entries where account = ?", account or 0):
            raise _Unreadable
        return None if text is None else _sums_from_text(text, account or 0)

    def _group_of(self, account: int | None, group: str, name: str) -> Group:
        largest = self._one("select largest from groups where account = ? and grp = ?", account or 0, group)
        mine = self._one("select loss from members where account = ? and grp = ? and name = ?", account or 0, group, name)
        members = {} if mine is None else {name: _sums_from_text(mine, account or 0, group, name)}
        return Group(Sums() if largest is None else _sums_from_text(largest, account or 0, group), members)

    def _newest_of(self, account: int | None) -> int:
        question = "select max(id) from entries where account = ? and id not in (select entry from pending)"
        return int(self._one(question, account or 0) or 0)

    def _numbers(self, account: int | None, group: str | None = None, name: str | None = None) -> set[int]:
        values: list[Any] = [account or 0]
        question = "select id, name from entries where account = ?"
        if group is not None:
            question, values = f"{question} and grp = ?", [account or 0, group]
        return {number for number, its in self._db.execute(question, values).fetchall() if name is None or base_name(its) == name}

    def _pending(self) -> set[int]:
        return {number for (number,) in self._db.execute("select entry from pending").fetchall()}

    def _set_pending(self, numbers: Iterable[int], are_pending: bool) -> None:
        change = "insert or ignore into pending values (?)" if are_pending else "delete from pending where entry = ?"
        self._db.executemany(change, [(number,) for number in numbers])

    def _entry_from(self, source: str) -> int | None:
        known = self._one("select entry from imported where source = ?", source)
        return None if known is None else int(known)

    def _entry(self, number: int) -> LedgerEntry | None:
        text = self._one("select facts from entries where id = ?", number)
        return None if text is None else _decode(parse_entry, number, text)

    def _latest(self) -> int:
        return _latest(self._db)

    def _leave_out(self, source: str) -> None:
        self._db.execute("insert or replace into imported values (?, 0)", (source,))

    def _add(self, entry: LedgerEntry) -> int:
        sums, mine, largest = self._after(entry)
        account, number = entry.part_of or 0, self._latest() + 1
        if entry.group is not None:
            of_group, of_member = (account, entry.group), (account, entry.group, entry.name)
            self._db.execute("insert or replace into groups values (?, ?, ?)", (*of_group, _sums_to_text(largest, *of_group)))
            self._db.execute("insert or replace into members values (?, ?, ?, ?)", (*of_member, _sums_to_text(mine, *of_member)))
        if entry.source is not None:
            self._db.execute("insert into imported values (?, ?)", (entry.source, number))
        self._db.execute("insert or replace into sums values (?, ?)", (account, _sums_to_text(sums, account)))
        self._line(number, number, replace(entry, id=number))
        return number

    def _line(self, number: int, place: int, entry: LedgerEntry) -> None:
        facts = number, place, entry.part_of or 0, entry.group, entry.name, entry_to_text(entry)
        self._db.execute("insert into entries values (?, ?, ?, ?, ?, ?)", facts)

    # What is done with it

    def append(self, entry: LedgerEntry, *arguments: Any, **options: Any) -> LedgerEntry:
        return self._remember(super().append(_signed(entry), *arguments, **options))

    def claim(self, entry: LedgerEntry, epsilon: Amount, delta: Fraction, planned: bool = False) -> LedgerEntry:
        def work() -> LedgerEntry:
            for number in sorted(self._numbers(entry.part_of) & self._pending()):
                known: Any = self._entry(number)
                # Otherwise something was shown in it by its owner, or can be in the ledger that it came from.
                is_free = not self._newest_of(number) and known.source is None
                if is_free and all(
                    getattr(known, name) == getattr(entry, name) for name in ("name", "loss", "neighboring", "unit", "group")
                ):
                    return known
            return self._append_checked(_signed(entry), epsilon, delta, None, planned, True)

        return self._remember(self._run_transaction(work))

    def held(self, account: int | None, newest: int, act: Callable[[], None]) -> None:
        """Act, maybe twice, while nobody can charge or settle an account; raise `Overtaken` if somebody has done so."""

        def work() -> None:
            self._check_newest(account, newest)
            act()

        self._commit_work(work, "begin immediate")

    def _remember(self, entry: LedgerEntry) -> LedgerEntry:
        self._latest_seen = max(self._latest_seen, entry.id)
        return entry

    def entry_from(self, source: str) -> int | None:
        return self._run_transaction(lambda: self._entry_from(source), "begin") or None

    def pending(self) -> set[int]:
        return self._run_transaction(self._pending, "begin")

    def entry(self, number: int) -> LedgerEntry | None:
        return self._run_transaction(lambda: self._entry(number), "begin")

    def named(self, account: int | None, name: str) -> list[LedgerEntry]:
        question = "select id, facts from entries where account = ? and name = ? order by place, id"
        rows = self._run_transaction(lambda: self._db.execute(question, (account or 0, name)).fetchall(), "begin")
        return [parse_entry(*row) for row in rows]

    def members(self, account: int | None, group: str) -> list[str]:
        """Return the names of the members of a group, except those of pending entries."""
        question = "select distinct name from entries where account = ? and grp = ? and id not in (select entry from pending)"
        return [name for (name,) in self._run_transaction(lambda: self._db.execute(question, (account or 0, group)).fetchall(), "begin")]

    def group_of_stream(self, account: int | None, group: str) -> str:
        """Return the name of a group of an account here, which differs where the account came from another ledger."""
        question = "select distinct grp from entries where account = ? and grp is not null"
        names = [name for (name,) in self._run_transaction(lambda: self._db.execute(question, (account or 0,)).fetchall(), "begin")]
        return next((name for name in names if name.startswith(f"{group} of ledger-")), group)

    def snapshot(self, account: int | None) -> Ledger:
        chosen = ("", ()) if account is None else (_DESCENDANTS, (account,))
        where = "" if account is None else " where id in (select id from below)"
        question = f"{chosen[0]} select id, facts from entries{where} order by place, id"
        ask = lambda: (self._db.execute(question, chosen[1]).fetchall(), self.charge_of(account), self._pending())  # noqa: E731  of one moment
        rows, charge, pending = self._run_transaction(ask, "begin")
        try:
            copy: Ledger = _decode(lambda: Ledger((parse_entry(*row) for row in rows), account, self.id, charge))
        except _Unreadable:
            raise _damaged_error(self.path) from None
        copy._set_pending(pending, True)
        return copy

    def whole(self, work: Callable[[Any], _Result]) -> _Result:
        return self._run_transaction(lambda: work(self))

    def _fold_members(self, account: int | None, group: str, gone: set[str], into: str) -> int | None:
        question = "select id, place, name, facts from entries where account = ? and grp = ? order by place, id"
        folded = [row for row in self._db.execute(question, (account or 0, group)).fetchall() if base_name(row[2]) in gone]
        if not folded:
            return None
        entries = [self._with_randomness(_decode(parse_entry, number, facts)) for number, _, _, facts in folded]
        members = [self._group_of(account, group, name).members[name] for name in {row[2] for row in folded}]
        most, lines = fold_entries(entries, members, into)
        number, place = self._latest(), folded[0][1]
        for line in lines:
            number += 1
            self._line(number, place, line)
        for name in gone | {row[2] for row in folded}:
            self._db.execute("delete from members where account = ? and grp = ? and name = ?", (account or 0, group, name))
        self._db.execute(
            "insert into members values (?, ?, ?, ?)", (account or 0, group, into, _sums_to_text(most, account or 0, group, into))
        )
        for row in folded:
            self._forget(row[0])
        return number

    def _with_randomness(self, entry: LedgerEntry) -> LedgerEntry:
        question = f"{_DESCENDANTS} select id, facts from entries where id in (select id from below) order by place, id"
        rows = self._db.execute(question, (entry.id,)).fetchall()
        return Ledger((_decode(parse_entry, *row) for row in rows), entry.id, self.id).with_randomness(entry)

    def _forget(self, number: int) -> None:
        gone = [(number,), *self._db.execute(f"{_DESCENDANTS} select id from below", (number,)).fetchall()]
        for table, key in (("entries", "id"), ("sums", "account"), ("groups", "account"), ("members", "account"), ("pending", "entry")):
            self._db.executemany(f"delete from {table} where {key} = ?", gone)


class _Unreadable(Exception):
    """A text in the file is damaged."""


def _decode(reader: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return reader(*arguments)
    except (ValueError, TypeError, KeyError, ArithmeticError, RecursionError) as error:
        raise _Unreadable from error


def _sums_to_text(sums: Sums, *key: Any) -> str:
    """Return sums as text that names their account, group and member: a key that flips on a disk would be another."""
    return to_text((f"of {key}", sums))


def _sums_from_text(text: str, *key: Any) -> Sums:
    named, sums = _decode(parse_text, text)
    if named != f"of {key}":
        raise _Unreadable
    return sums


def _damaged_error(path: str) -> LedgerError:
    return LedgerError(f"{path!r} {SQLITE_MESSAGES[11]}.")


def _lost_wal_error(path: str) -> LedgerError:
    return LedgerError(
        f"{f'{path}-wal'!r} or -shm was removed or replaced while the ledger was open, and nothing is drawn; end every program that has it "
        "open, and start anew."
    )


def _latest(db: Any) -> int:
    return int(db.execute("select max(id) from entries").fetchone()[0] or 0)


# Processes

_NUMBERS = count()
_OPEN_LEDGERS: "WeakSet[LedgerFile]" = WeakSet()
_LOCKED_FOR_FORK: list[LedgerFile] = []
_PROCESS_LABELS: dict[int, str] = {}


def _signed(entry: LedgerEntry) -> LedgerEntry:
    return replace(entry, process=entry.process or process_label())


def process_label() -> str:
    """Return the number of this process and random letters, which tell it from one of the same number at another time or place."""
    number = os.getpid()
    if number not in _PROCESS_LABELS:
        _PROCESS_LABELS.clear()
        _PROCESS_LABELS[number] = f"{number}-{os.urandom(4).hex()}"
    return _PROCESS_LABELS[number]


def _before_fork() -> None:
    for ledger in sorted(_OPEN_LEDGERS, key=lambda ledger: ledger._number):  # in one order
        lock_of(ledger).acquire()
        _LOCKED_FOR_FORK.append(ledger)
        ledger._disconnect()


def _after_fork_here() -> None:
    while _LOCKED_FOR_FORK:
        lock_of(_LOCKED_FOR_FORK.pop()).release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_here, after_in_child=_LOCKED_FOR_FORK.clear)
