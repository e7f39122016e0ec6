"""A store of entries in a file, for many processes and threads at once: SQLite in WAL mode.

One transaction checks the budget, writes the entry and commits. A commit returns when the disk has it (``synchronous=FULL``), but in
``-wal`` beside the file, which people leave behind when they copy a ledger. So the charge is then moved into the file itself, by a
checkpoint, and only then is noise drawn: every draw was charged, whatever breaks afterwards and whatever becomes of ``-wal``.

A process has one connection for each ledger, used by one thread at a time. None is open while the process forks: SQLite keeps in memory
which locks it holds, a child would take them for its own, and its writes could be lost.
"""

import json
import math
import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing, suppress
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakSet

from skdpsynth._parallel import lock_of
from skdpsynth._validation import short_repr
from skdpsynth.exceptions import LedgerError
from skdpsynth.privacy._composition import Sums
from skdpsynth.privacy._ledger_entry import Key, LedgerEntry, new_ledger_id, parse_text, to_text
from skdpsynth.privacy._losses import Amount, PrivacyLoss

PATIENCE = 30.0  # seconds to wait while others write
SYNCHRONOUS = "full"  # less would lose charges in a power cut
_APPLICATION_ID, _FORMAT = 0x5CD9B0D6, 3
_MOUNTS = "/proc/self/mountinfo"  # the fifth word of a line is where, with octal numbers for spaces
_TABLES = """
create table about (name text primary key, value text not null) without rowid;
create table entries (id integer primary key, place integer not null, account integer not null, name text not null, facts text not null);
create index entries_of_account on entries (account, place);
create table sums (account integer, key text, sums text not null, primary key (account, key)) without rowid;
create table imported (source text primary key, entry integer not null) without rowid;
create table pending (entry integer primary key);
"""
_UNDRAWN = ", and nothing is drawn"
_OVERWRITTEN = "was overwritten by another while it was open"
SQLITE_MESSAGES = {  # by the codes of SQLite
    **dict.fromkeys((5, 6), f"was locked by others for {PATIENCE:g} seconds{_UNDRAWN}; find who holds it, or try again"),
    **dict.fromkeys((3, 8, 23), f"may not be written{_UNDRAWN}; make it writable, with its folder"),
    10: f"could not be read or written by its disk, or {_OVERWRITTEN}{_UNDRAWN}; put the right one back, or see whether the disk is full "
    "or failing",
    11: f"is damaged, or {_OVERWRITTEN}{_UNDRAWN}; put a copy in its place that has all of its charges",
    13: f"is on a full disk{_UNDRAWN}; make room",
    14: f"cannot be opened{_UNDRAWN}; see whether it is there, and may be read and written, with its folder",
    26: "is not a ledger of skdpsynth; name another file",
}
FilePath = str | os.PathLike[str]
Promise = tuple[Amount, Fraction, str]  # epsilon, delta and relation of a budget
_Result = TypeVar("_Result")


class _Unreadable(Exception):
    """A text in the file is damaged."""


class FileStore:
    """Entries and sums in a file that exists; `id` is that of the ledger that must be there, None for any."""

    is_file = True
    root: int | None = None
    charge: PrivacyLoss | None = None
    _process = 0  # the one that is connected

    def __init__(self, path: FilePath, id: str | None = None) -> None:
        self.path, self.id = check_path(path), id or ""
        self._db: Any = None
        self._latest_seen = self._added = 0
        self._number = next(_NUMBERS)
        _OPEN_STORES.add(self)
        self.run(lambda: None, "read")

    @classmethod
    def open(cls, path: FilePath, promise: Promise, dataset: str | None = None) -> "FileStore":
        """Return the store at a path, which is made if there is no file; refuse one of another budget."""
        path = check_path(path)
        if not os.path.lexists(path):
            _make_file(path, promise, dataset)
        store = cls(path)
        for name, one, other in zip(("epsilon", "delta", "neighboring"), store.promise, promise, strict=True):
            if one != other:
                found, asked = (value if isinstance(value, str) else f"{float(value):.12g}" for value in (one, other))
                out = "" if store.promise[2] != promise[2] else f", or charge it to another budget: {_new_ledger_advice(path, promise)}"
                raise ValueError(f"{name} of the ledger {path!r} is {found}, got {asked}; open it by PrivacyAccountant.at{out}.")
        return store

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "id": self.id, "_latest_seen": self._latest_seen}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _db=None, _number=next(_NUMBERS))
        _OPEN_STORES.add(self)

    @property
    def process(self) -> str:
        """The number of this process and random letters, which tell it from one of the same number at another time or place."""
        number = os.getpid()
        if number not in _PROCESSES:
            _PROCESSES.clear()
            _PROCESSES[number] = f"{number}-{os.urandom(4).hex()}"
        return _PROCESSES[number]

    # Transactions

    def run(self, work: Callable[[], _Result], mode: str = "write") -> _Result:
        """Do some work in one transaction, maybe twice; return its result once it is committed and, if it may write, in the file itself.

        `mode` is "read", "write", or "hold": nobody else writes meanwhile, and the work does not either.
        """
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                with lock_of(self):
                    self._added = 0
                    with self._own_connection() as db:  # rolled back by whatever is raised here
                        db.execute("begin" if mode == "read" else "begin immediate")
                        self._check_place()
                        done = work()
                    self._latest_seen = max(self._latest_seen, self._added)
                    self._check_place()  # else it was charged where nobody will look
                break
            except sqlite3.Error as error:
                if not _is_busy(error) or time.monotonic() > deadline:
                    raise _sqlite_error(self.path, error) from None
            except (_Unreadable, UnicodeDecodeError):  # Python reads what SQLite says of a damaged file as text
                raise LedgerError(f"{self.path!r} {SQLITE_MESSAGES[11]}.") from None
            time.sleep(os.urandom(1)[0] / 25600)  # up to 10 ms, so that who waits takes turns
        if mode == "write":
            self._checkpoint()
        return done

    def whole(self, work: Callable[["FileStore"], _Result]) -> _Result:
        return self.run(lambda: work(self))

    def _checkpoint(self) -> None:
        """Move all commits from ``-wal`` into the file; raise if readers keep it out: then it is charged and not drawn."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                with lock_of(self):
                    # "full", because "passive" may leave the file unflushed while others write, and "truncate" costs a third more.
                    busy, there, moved = self._own_connection().execute("pragma wal_checkpoint(full)").fetchone()
                    self._check_place()
                if not busy and there == moved:
                    return
            except sqlite3.Error as error:
                if not _is_busy(error):
                    raise _sqlite_error(self.path, error) from None
            if time.monotonic() > deadline:
                raise LedgerError(
                    f"{self.path} was read by others for {PATIENCE:g} seconds, so a charge that was made could not be moved into it, and "
                    "nothing is drawn; find who reads it, and release anew, which is charged again."
                )
            time.sleep(os.urandom(1)[0] / 256000)  # up to 1 ms: a process that moves charges now may move this one too

    def _own_connection(self) -> Any:
        """Return the connection of this process, which this thread alone uses."""
        if self._db is None:
            self._db = self._connect()
        elif self._process != os.getpid():
            raise LedgerError(f"{self.path} was open while this process was forked unseen by Python; make a new PrivacyAccountant of it.")
        elif self._db.in_transaction:  # an interrupt came before it could be rolled back
            self._db.rollback()
        return self._db

    def _connect(self) -> Any:
        self._place = _device_and_inode(self.path)
        _check_not_mounted(self.path)
        with ExitStack() as undone:
            uri = f"{Path(self.path).as_uri()}?mode=rw"
            db = sqlite3.connect(uri, uri=True, timeout=0.25, isolation_level=None, check_same_thread=False)
            undone.callback(db.close)  # now, and not when the traceback is forgotten
            db.execute("pragma trusted_schema = off")
            db.execute(f"pragma synchronous = {SYNCHRONOUS}")
            (application,), (version,) = (db.execute(f"pragma {name}").fetchone() for name in ("application_id", "user_version"))
            if application != _APPLICATION_ID:
                raise LedgerError(f"{self.path!r} {SQLITE_MESSAGES[26]}.")
            if version != _FORMAT:
                raise LedgerError(
                    f"{self.path} is a ledger of format {version}, and this version of skdpsynth reads {_FORMAT}; open it with the one "
                    "that wrote it."
                )
            self._beside = _beside(self.path)
            if db.execute("pragma journal_mode").fetchone()[0] == "wal":
                # Another connection of this process with other files beside the ledger would share its memory with this one.
                connected = [other for other in list(_OPEN_STORES) if other._db is not None and other._process == os.getpid()]
                if None in self._beside or any(other._place == self._place and other._beside != self._beside for other in connected):
                    raise _lost_wal_error(self.path)
            about = dict(db.execute("select name, value from about").fetchall())
            *promise, id_ = _decode(lambda: (*parse_text(about["budget"]), about["neighboring"], about["id"]))
            (latest,) = db.execute("select max(id) from entries").fetchone()
            if self.id not in ("", id_) or (latest or 0) < self._latest_seen:
                raise LedgerError(f"{self.path} is not what it was: another ledger, or an old copy, is in its place; put it back.")
            self.promise, self.id, self.dataset, self._process = tuple(promise), id_, about.get("dataset"), os.getpid()
            undone.pop_all()
            return db

    def _disconnect(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            db.close()

    def _check_place(self) -> None:
        if _device_and_inode(self.path) != self._place:
            raise LedgerError(f"{self.path} was removed or replaced while it was open, and nothing is drawn; put it back, or start anew.")
        if _beside(self.path) != self._beside:
            raise _lost_wal_error(self.path)

    # The same as of a store in memory, within a transaction

    def _first(self, question: str, *values: str | int | None) -> Any:
        """Return the first column of the first row of an answer; None if there is none."""
        row = self._db.execute(question, values).fetchone()
        return None if row is None else row[0]

    @property
    def latest(self) -> int:
        return int(self._first("select max(id) from entries") or 0)

    @property
    def pending(self) -> frozenset[int]:
        return frozenset(number for (number,) in self._db.execute("select entry from pending").fetchall())

    def entry(self, number: int) -> LedgerEntry | None:
        text = self._first("select facts from entries where id = ?", number)
        return None if text is None else _parse_entry(number, text)

    def numbers(self, account: int | None) -> list[int]:
        return [n for (n,) in self._db.execute("select id from entries where account = ? order by place, id", (account or 0,)).fetchall()]

    def entries(self, account: int | None, name: str | None = None) -> list[LedgerEntry]:
        question = "select id, facts from entries where account = ? and ? in (name, '') order by place, id"
        entries = [_parse_entry(*row) for row in self._db.execute(question, (account or 0, name or "")).fetchall()]
        if not all(entry.part_of == account and entry.id > (account or 0) for entry in entries):
            raise _Unreadable
        return entries

    def sums(self, key: Key) -> Sums | None:
        where = _where(key)
        text = self._first("select sums from sums where account = ? and key = ?", *where)
        if text is not None:
            named, sums = _decode(parse_text, text)
            if named != f"of {where}":
                raise _Unreadable
            return sums
        if len(key) == 1 and self._first("select 1 from entries where account = ?", where[0]):
            raise _Unreadable
        return None

    def source(self, source: str) -> int | None:
        return self._first("select entry from imported where source = ?", source)

    def add(self, entry: LedgerEntry, sums: dict[Key, Sums], *, pending: bool = False, before: int | None = None) -> None:
        for key, after in sums.items():
            self.set_sums(key, after)
        if entry.source is not None:
            self.set_source(entry.source, entry.id)
        place = entry.id if before is None else self._first("select place from entries where id = ?", before)
        facts = entry.id, place, entry.part_of or 0, entry.name, to_text(entry)
        self._db.execute("insert into entries values (?, ?, ?, ?, ?)", facts)
        self._added = entry.id
        if pending:
            self.set_pending([entry.id], True)

    def remove(self, entry: LedgerEntry) -> None:
        for table, name in (("entries", "id"), ("sums", "account"), ("pending", "entry")):
            self._db.execute(f"delete from {table} where {name} = ?", (entry.id,))

    def set_sums(self, key: Key, sums: Sums | None) -> None:
        where = _where(key)
        if sums is None:
            self._db.execute("delete from sums where account = ? and key = ?", where)
        else:
            self._db.execute("insert or replace into sums values (?, ?, ?)", (*where, to_text((f"of {where}", sums))))

    def set_source(self, source: str, number: int) -> None:
        self._db.execute("insert or replace into imported values (?, ?)", (source, number))

    def set_pending(self, numbers: Iterable[int], are_pending: bool) -> None:
        change = "insert or ignore into pending values (?)" if are_pending else "delete from pending where entry = ?"
        self._db.executemany(change, [(number,) for number in numbers])


def _where(key: Key) -> tuple[int, str]:
    return key[0] or 0, json.dumps(key[1:])


def _decode(reader: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return reader(*arguments)
    except (ValueError, TypeError, KeyError, ArithmeticError, RecursionError) as error:
        raise _Unreadable from error


def _parse_entry(number: int, text: str) -> LedgerEntry:
    entry = _decode(parse_text, text)
    if not isinstance(entry, LedgerEntry) or entry.id != number:
        raise _Unreadable
    return entry


# Paths, and what is wrong with them


def check_path(path: FilePath, name: str = "ledger") -> str:
    """Return the absolute path of a ledger that may exist or not; raise if it cannot be one."""
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str) or not os.fspath(path):
        raise ValueError(f"{name} must be the path of a file, got {short_repr(path)}; 'budget.db' is one.")
    full, is_possible = os.path.abspath(os.fspath(path)), False
    with suppress(UnicodeEncodeError):
        is_possible = b"\0" not in os.fsencode(full)
    if not is_possible:
        raise ValueError(f"{name} must be the path of a file, got {short_repr(path)}; no file can have that name here.")
    full = os.path.realpath(full) if os.path.exists(full) else full  # where SQLite keeps -wal
    if os.path.isdir(full):
        raise LedgerError(f"{full!r} is a folder; name a file in it, such as 'budget.db'.")
    if not os.path.isdir(os.path.dirname(full)):
        raise LedgerError(f"{full!r} lies in a folder that does not exist; make it first.")
    if os.path.lexists(full) and not os.path.isfile(full):
        raise LedgerError(f"{full!r} {SQLITE_MESSAGES[26]}.")
    return full


def existing_path(path: FilePath, name: str) -> str:
    """Return the absolute path of a ledger that exists, given for a parameter of this name."""
    path = check_path(path, name)
    if not os.path.lexists(path):
        raise LedgerError(
            f"{name} must be a ledger that exists, and there is no file {short_repr(path)}; "
            "make it by PrivacyAccountant(epsilon, ledger=...)."
        )
    return path


def _device_and_inode(path: str) -> tuple[int, int]:
    """Return the device and inode of a ledger; raise if it has another name.

    SQLite keeps ``-wal`` and ``-shm`` by name: programs that open one file by two names do not see each other, and lose charges.
    """

    def n_names() -> int:
        """Return the number of names of the file, without the one that it was made by, which nobody opens."""
        found, start = os.stat(path), f".{os.path.basename(path)}."
        with os.scandir(os.path.dirname(path)) as names:
            return found.st_nlink - sum(name.name.startswith(start) and name.inode() == found.st_ino for name in names)

    try:
        found = os.stat(path)
        is_shared = found.st_nlink > 1 and all(n_names() > 1 for _ in range(2))  # its maker may take the first name away meanwhile
    except OSError:
        raise LedgerError(f"{path!r} is not there any more, and nothing is drawn; put it back, or start anew.") from None
    if is_shared:
        raise LedgerError(
            f"{path!r} has another name, a hard link, by which charges would be lost, and nothing is drawn; remove one of the names, or "
            "put a copy in its place."
        )
    return found.st_dev, found.st_ino


def _check_not_mounted(path: str) -> None:
    """Refuse a file that is mounted by itself, as into a container: there its ``-wal`` is another than outside."""
    try:
        lines = Path(_MOUNTS).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # there is no such list but on Linux
        return
    if path in (re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), line.split(" ")[4]) for line in lines):
        raise LedgerError(
            f"{path!r} is mounted by itself, so that charges of those who have it elsewhere would be lost, and nothing is drawn; mount its "
            "folder."
        )


def _beside(path: str) -> tuple[int | None, ...]:
    """Return the inodes of ``-wal``, the last charges, and ``-shm``, the memory that processes share."""
    inodes: list[int | None] = [None, None]
    for place, end in enumerate(("-wal", "-shm")):
        with suppress(OSError):
            inodes[place] = os.stat(f"{path}{end}").st_ino
    return tuple(inodes)


def _new_ledger_advice(path: str, promise: Promise) -> str:
    """Return the code that makes a new ledger with the charges of this one."""
    epsilon, delta = (float(value) for value in promise[:2])
    arguments = [f"{epsilon:.12g}" if epsilon < math.inf else "float('inf')", *([f"{delta:.12g}"] if delta else [])]
    arguments += [] if promise[2] == "replace_one" else [f"neighboring={promise[2]!r}"]
    return f"PrivacyAccountant({', '.join(arguments)}, ledger='new.db').import_record({os.path.basename(path)!r})"


def _make_file(path: str, promise: Promise, dataset: str | None) -> None:
    """Make a ledger: it is complete or not there, and never replaces one that another process made meanwhile."""
    if os.path.lexists(wal := f"{path}-wal"):
        raise LedgerError(f"{path!r} is gone, but {wal!r} is there with charges of it; put it back, or remove that file too.")
    beside = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.{os.urandom(8).hex()}")
    try:
        os.close(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666))
        about = {"id": new_ledger_id(), "budget": to_text(promise[:2]), "neighboring": promise[2], "dataset": dataset}
        settings = {"journal_mode": "wal", "synchronous": SYNCHRONOUS, "application_id": _APPLICATION_ID, "user_version": _FORMAT}
        with closing(sqlite3.connect(beside, isolation_level=None)) as db:
            for name, setting in settings.items():
                db.execute(f"pragma {name} = {setting}")
            db.executescript(_TABLES)
            db.executemany("insert into about values (?, ?)", [(name, value) for name, value in about.items() if value is not None])
        with suppress(FileExistsError):
            (os.rename if os.name == "nt" else os.link)(beside, path)
        _flush_folder(path)
    except sqlite3.Error as error:
        raise _sqlite_error(path, error) from None
    except OSError as error:
        raise LedgerError(f"{path!r} cannot be made ({error.strerror}); choose a folder that may be written.") from None
    finally:
        for name in (beside, f"{beside}-wal", f"{beside}-shm"):
            with suppress(OSError):  # not there, or where nothing may be removed
                os.unlink(name)


def _flush_folder(path: str) -> None:
    if os.name != "nt":
        folder = os.open(os.path.dirname(path), os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _is_busy(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (5, 6)


def _sqlite_error(path: str, error: sqlite3.Error) -> LedgerError:
    other = f"cannot be used ({type(error).__name__}: {error}), and nothing is drawn; look at the file and its disk"
    return LedgerError(f"{path!r} {SQLITE_MESSAGES.get(getattr(error, 'sqlite_errorcode', 0) & 0xFF, other)}.")


def _lost_wal_error(path: str) -> LedgerError:
    return LedgerError(
        f"{f'{path}-wal'!r} or -shm was removed or replaced while the ledger was open, and nothing is drawn; end every program that has it "
        "open, and start anew."
    )


# Processes

_NUMBERS = count()
_OPEN_STORES: "WeakSet[FileStore]" = WeakSet()
_LOCKED_FOR_FORK: list[FileStore] = []
_PROCESSES: dict[int, str] = {}


def _before_fork() -> None:
    for store in sorted(_OPEN_STORES, key=lambda store: store._number):  # in one order
        lock_of(store).acquire()
        _LOCKED_FOR_FORK.append(store)
        store._disconnect()


def _after_fork_here() -> None:
    while _LOCKED_FOR_FORK:
        lock_of(_LOCKED_FOR_FORK.pop()).release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_here, after_in_child=_LOCKED_FOR_FORK.clear)
