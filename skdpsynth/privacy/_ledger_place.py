"""The path of a ledger, its creation, and the reasons why it cannot be used."""

import math
import os
import re
import sqlite3
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

from skdpsynth._validation import short_repr
from skdpsynth.exceptions import LedgerError
from skdpsynth.privacy._format import to_text
from skdpsynth.privacy._ledger import new_ledger_id
from skdpsynth.privacy._losses import Amount

PATIENCE = 30.0  # seconds to wait while others write
APPLICATION_ID, FORMAT = 0x5CD9B0D6, 2
_MOUNTS = "/proc/self/mountinfo"  # the fifth word of a line is where, with octal numbers for spaces
SYNCHRONOUS = "full"  # less would lose charges in a power cut
_TABLES = """
create table about (name text primary key, value text not null) without rowid;
create table entries (
    id integer primary key, place integer not null, account integer not null, grp text, name text not null, facts text not null);
create index entries_of_account on entries (account, place);
create table sums (account integer primary key, sums text not null);
create table groups (account integer, grp text, largest text not null, primary key (account, grp)) without rowid;
create table members (account integer, grp text, name text, loss text not null, primary key (account, grp, name)) without rowid;
create table imported (source text primary key, entry integer not null) without rowid;
create table pending (entry integer primary key);
"""

Promise = tuple[Amount, Fraction, str]
"""Epsilon, delta and relation of a budget."""


# What is wrong with it


def is_busy(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (5, 6)


_OVER = "was overwritten by another while it was open"
_DRAWN = ", and nothing is drawn"
SQLITE_MESSAGES = {  # by the codes of SQLite
    **dict.fromkeys((5, 6), f"was locked by others for {PATIENCE:g} seconds{_DRAWN}; find who holds it, or try again"),
    **dict.fromkeys((3, 8, 23), f"may not be written{_DRAWN}; make it writable, with its folder"),
    10: f"could not be read or written by its disk, or {_OVER}{_DRAWN}; put the right one back, or see whether the disk is full or failing",
    11: f"is damaged, or {_OVER}{_DRAWN}; put a copy in its place that has all of its charges",
    13: f"is on a full disk{_DRAWN}; make room",
    14: f"cannot be opened{_DRAWN}; see whether it is there, and may be read and written, with its folder",
    26: "is not a ledger of skdpsynth; name another file",
}


def not_a_ledger_error(path: str) -> LedgerError:
    return LedgerError(f"{path!r} is not a ledger of skdpsynth; name another file.")


def check_path(path: Any, name: str = "ledger") -> str:
    """Return the absolute path of a ledger that may exist or not; raise if it cannot be one."""
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str) or not os.fspath(path):
        raise ValueError(f"{name} must be the path of a file, got {short_repr(path)}; 'budget.db' is one.")
    full = os.path.abspath(os.fspath(path))
    if "\0" in full:
        raise ValueError(f"{name} must be the path of a file, got {short_repr(path)}; leave the null character out.")
    try:
        os.fsencode(full)
    except UnicodeEncodeError:
        raise ValueError(f"{name} must be the path of a file, got {short_repr(path)}; no file can have that name here.") from None
    full = os.path.realpath(full) if os.path.exists(full) else full  # where SQLite keeps -wal
    if os.path.isdir(full):
        raise LedgerError(f"{full!r} is a folder; name a file in it, such as 'budget.db'.")
    if not os.path.isdir(os.path.dirname(full)):
        raise LedgerError(f"{full!r} lies in a folder that does not exist; make it first.")
    if os.path.lexists(full) and not os.path.isfile(full):
        raise not_a_ledger_error(full)
    return full


def existing_path(path: Any, name: str) -> str:
    """Return the absolute path of a ledger that exists, given for a parameter of this name."""
    path = check_path(path, name)
    if not os.path.lexists(path):
        raise LedgerError(
            f"{name} must be a ledger that exists, and there is no file {short_repr(path)}; "
            "make it by PrivacyAccountant(epsilon, ledger=...)."
        )
    return path


def device_and_inode(path: str) -> tuple[int, int]:
    """Return the device and inode of a ledger; raise if it has another name.

    SQLite keeps ``-wal`` and ``-shm`` by name: programs that open one file by two names do not see each other, and lose charges.
    """
    try:
        found = os.stat(path)
        is_shared = found.st_nlink > 1 and all(_n_names(path) > 1 for _ in range(2))  # its maker may take the first name away meanwhile
    except OSError:
        raise LedgerError(f"{path!r} is not there any more, and nothing is drawn; put it back, or start anew.") from None
    if is_shared:
        raise LedgerError(
            f"{path!r} has another name, a hard link, by which charges would be lost, and nothing is drawn; remove one of the names, or "
            "put a copy in its place."
        )
    return found.st_dev, found.st_ino


def _n_names(path: str) -> int:
    """Return the number of names of a file, without the one that it was made by, which nobody opens."""
    found, folder, start = os.stat(path), os.path.dirname(path), f".{os.path.basename(path)}."
    with os.scandir(folder) as names:
        first = [name for name in names if name.name.startswith(start) and name.inode() == found.st_ino]
    return found.st_nlink - len(first)


def check_not_mounted(path: str) -> None:
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


def beside(path: str) -> tuple[int | None, ...]:
    """Return the inodes of ``-wal``, the last charges, and ``-shm``, the memory that processes share."""
    return tuple(_inode(f"{path}{end}") for end in ("-wal", "-shm"))


def _inode(path: str) -> int | None:
    try:
        return os.stat(path).st_ino
    except OSError:
        return None


def check_same_budget(path: str, has: Promise, wants: Promise) -> None:
    for name, one, other in zip(("epsilon", "delta", "neighboring"), has, wants, strict=True):
        if one != other:
            found, asked = (value if isinstance(value, str) else f"{float(value):.12g}" for value in (one, other))
            out = "" if has[2] != wants[2] else f", or charge it to another budget: {_new_ledger_advice(path, wants)}"
            raise ValueError(f"{name} of the ledger {path!r} is {found}, got {asked}; open it by PrivacyAccountant.at{out}.")


def _new_ledger_advice(path: str, wants: Promise) -> str:
    """Return the code that makes a new ledger with the charges of this one."""
    epsilon, delta = (float(value) for value in wants[:2])
    arguments = [f"{epsilon:.12g}" if epsilon < math.inf else "float('inf')", *([f"{delta:.12g}"] if delta else [])]
    arguments += [] if wants[2] == "replace_one" else [f"neighboring={wants[2]!r}"]
    return f"PrivacyAccountant({', '.join(arguments)}, ledger='new.db').import_record({os.path.basename(path)!r})"


def make_ledger_file(path: str, promise: Promise, dataset: str | None) -> None:
    """Make a ledger: it is complete or not there, and never replaces one that another process made meanwhile."""
    if os.path.lexists(wal := f"{path}-wal"):
        raise LedgerError(f"{path!r} is gone, but {wal!r} is there with charges of it; put it back, or remove that file too.")
    beside = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.{os.urandom(8).hex()}")
    try:
        os.close(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666))
        _create_tables(beside, promise, dataset)
        with suppress(FileExistsError):
            (os.rename if os.name == "nt" else os.link)(beside, path)
        _flush_folder(path)
    except sqlite3.Error as error:
        raise LedgerError(
            f"{path!r} {SQLITE_MESSAGES.get(getattr(error, 'sqlite_errorcode', 0) & 0xFF, f'cannot be made ({error})')}."
        ) from None
    except OSError as error:
        raise LedgerError(f"{path!r} cannot be made ({error.strerror}); choose a folder that may be written.") from None
    finally:
        for name in (beside, f"{beside}-wal", f"{beside}-shm"):
            with suppress(OSError):  # not there, or where nothing may be removed
                os.unlink(name)


def _create_tables(path: str, promise: Promise, dataset: str | None) -> None:
    db = sqlite3.connect(path, isolation_level=None)
    try:
        for line in (
            "journal_mode = wal",
            f"synchronous = {SYNCHRONOUS}",
            f"application_id = {APPLICATION_ID}",
            f"user_version = {FORMAT}",
        ):
            db.execute(f"pragma {line}")
        db.executescript(_TABLES)
        about = {"id": new_ledger_id(), "budget": to_text(promise[:2]), "neighboring": promise[2], "dataset": dataset}
        db.executemany("insert into about values (?, ?)", [(name, value) for name, value in about.items() if value is not None])
    finally:
        db.close()


def _flush_folder(path: str) -> None:
    if os.name == "nt":
        return
    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
