"""Files that are complete or not there, even after a power cut."""

import errno
import os
import shutil
import stat
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_STALE = 3600.0  # seconds after which nobody is still writing a file that has not grown
_LONGEST = 180  # characters of a name, to which others are added


def output_path(path: object, name: str = "path", also: str = "a path") -> Path:
    """Return the place of a file to be written: the target of a link, in a folder that exists, and no device."""
    from skdpsynth._validation import short_repr  # imports numpy, which help on the command line does not wait for

    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise TypeError(f"{name} must be {also}, got {short_repr(path)}.")
    if not os.fspath(path) or "\0" in os.fspath(path):
        raise ValueError(f"{name} must be {also}, got {short_repr(os.fspath(path))}; name a file.")
    try:
        place = Path(os.path.realpath(Path(path).expanduser()))
        place.exists()
    except (OSError, ValueError, RuntimeError) as error:
        if isinstance(error, OSError) and error.errno != errno.ENAMETOOLONG:
            raise
        raise ValueError(f"{name} must be {also}, got {short_repr(os.fspath(path))}, which no file can be called; name another.") from None
    if not place.parent.is_dir():
        raise FileNotFoundError(f"{name} must lie in a folder that exists, got {short_repr(str(place.parent))}; make it first.")
    if place.is_dir():
        raise IsADirectoryError(f"{name} must name a file, got the folder {short_repr(str(place))}; give a file name in it.")
    if place.exists() and not place.is_file():
        raise ValueError(f"{name} must name a plain file, got {short_repr(str(place))}, which is a device or a pipe; name another.")
    return place


@contextmanager
def atomic_write(path: Path, *, is_private: bool = False) -> Iterator[BinaryIO]:
    """Yield a new file beside a place, and move it there when the block is done; any exception or interrupt changes nothing.

    The mode is given as the file is made: to ask for the umask is to set it, for all threads, so a file that another thread makes
    meanwhile would be open to everybody. A private file is for its owner alone; any other has the mode of the file that it replaces, or of
    a new one. The file is on the disk before it is moved, and the move before this returns. Files that a killed process left beside the
    same place are removed after an hour.
    """
    stem = f".{path.name[:_LONGEST]}."
    _remove_stale(path.parent, stem)
    beside = path.parent / f"{stem}{uuid.uuid4().hex}.part"
    try:
        with _new_file(beside, 0o600 if is_private else 0o666) as file:
            yield file
        if path.exists() and not is_private:
            shutil.copymode(path, beside)
        os.replace(beside, path)
        _flush_folder(path.parent)
    except BaseException:
        beside.unlink(missing_ok=True)  # gone, if an interrupt came right after the move
        raise


@contextmanager
def _new_file(path: Path, mode: int) -> Iterator[BinaryIO]:
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield a new folder beside a place, and move it there when the block is done; any exception or interrupt changes nothing."""
    beside = path.parent / f".{path.name[:_LONGEST]}.{uuid.uuid4().hex}.part"
    before = beside.with_suffix(".old")
    try:
        beside.mkdir()
        yield beside
        if path.exists():
            os.replace(path, before)
        os.replace(beside, path)
        _flush_folder(path.parent)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        if before.exists() and not path.exists():
            os.replace(before, path)
        raise
    finally:
        shutil.rmtree(before, ignore_errors=True)


def check_writable(path: Path) -> None:
    beside = path.parent / f".{path.name[:_LONGEST]}.{uuid.uuid4().hex}.part"
    os.close(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    beside.unlink()


class PendingFile:
    """A file that was written beside its place, and is to be moved there."""

    def __init__(self, beside: Path, path: Path) -> None:
        self.beside, self.path, self._number = beside, path, os.stat(beside).st_ino

    @property
    def is_moved(self) -> bool:
        return self.path.exists() and os.stat(self.path).st_ino == self._number

    def move(self) -> None:
        """Move it to its place, unless it is there already."""
        if not self.is_moved:
            os.replace(self.beside, self.path)
        _flush_folder(self.path.parent)

    def remove(self) -> None:
        self.beside.unlink(missing_ok=True)


def write_pending(path: Path, write: Callable[[BinaryIO], None]) -> PendingFile:
    """Write a file beside a place, for its owner alone, and return it once it is on the disk; remove it if that fails."""
    beside = path.parent / f".{path.name[:_LONGEST]}.{uuid.uuid4().hex}.next"
    try:
        with _new_file(beside, 0o600) as file:
            write(file)
        _flush_folder(path.parent)
        return PendingFile(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def pending_files(path: Path) -> list[PendingFile]:
    stem = f".{path.name[:_LONGEST]}."
    found = []
    for name in sorted(os.listdir(path.parent)):
        if name.startswith(stem) and name.endswith(".next"):
            with suppress(FileNotFoundError):  # it was moved meanwhile
                found.append(PendingFile(path.parent / name, path))
    return found


def _remove_stale(folder: Path, stem: str) -> None:
    for name in os.listdir(folder):
        if name.startswith(stem) and name.endswith(".part"):
            with suppress(OSError):  # it is gone, or somebody else's
                found = os.lstat(folder / name)
                if stat.S_ISREG(found.st_mode) and time.time() - found.st_mtime > _STALE:
                    os.unlink(folder / name)


def _flush_folder(folder: Path) -> None:
    if os.name == "nt":  # which cannot open folders, and writes names through
        return
    with suppress(OSError):  # some file systems have nothing to flush
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
