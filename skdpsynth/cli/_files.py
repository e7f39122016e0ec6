"""Input and output files of commands."""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from skdpsynth._atomic_write import atomic_write, output_path
from skdpsynth._text import join_words
from skdpsynth.cli._output import Refusal

STREAM = "-"
_TABLES = (".parquet", ".csv", ".tsv", ".csv.gz", ".tsv.gz")
_PACKED = {b"PAR1": ".parquet", b"\x1f\x8b": ".csv.gz"}  # first bytes of such files


class Outputs:
    """Checks of the files that a command will write, before it reads anything.

    Files that exist are replaced only if `is_forced`; those in `kept`, which are read, never are.
    """

    def __init__(self, is_forced: bool, kept: Sequence[str] = ()) -> None:
        self._is_forced = is_forced
        self._taken = {os.path.realpath(path): "a file that is read here" for path in kept if path != STREAM}

    def check(self, option: str, path: str | None, suffixes: Sequence[str] = ()) -> None:
        """Refuse a path that cannot or must not be written."""
        if path is None or path == STREAM:
            return
        if suffixes and not path.lower().endswith(tuple(suffixes)):
            raise Refusal(f"{option} must end in {join_words(suffixes, 'or')}, got {path!r}")
        place = Path(os.path.realpath(path))
        if not place.parent.is_dir():
            raise Refusal(f"{option} must lie in a folder that exists, got {path!r}; make the folder first")
        if place.is_dir():
            raise Refusal(f"{option} must name a file, got the folder {path!r}")
        if str(place) in self._taken:
            raise Refusal(f"{option} must be a file of its own, but {path!r} is {self._taken[str(place)]}; give another name")
        if place.exists() and not self._is_forced:
            raise Refusal(f"{option} must be a new file, but {path!r} exists; give another name, or --force to replace it")
        self._taken[str(place)] = f"that of {option} as well"

    def check_table(self, path: str, voice: Any) -> None:
        self.check("-o", path, _TABLES)
        if path == STREAM and voice.is_json:
            raise Refusal("--json must not go with -o -, because both write to standard output; name a file, or leave --json out")
        if path != STREAM:
            from skdpsynth.frames import check_output_path

            check_output_path(path, "-o")  # raises if its writer is not installed


def write_text(path: str | None, text: str) -> None:
    if path in (None, STREAM):
        click.echo(text, nl=not text.endswith("\n"))
        return
    with atomic_write(output_path(path)) as file:
        file.write((text if text.endswith("\n") else text + "\n").encode())


def write_sample(model: Any, n_samples: int | None, path: str) -> None:
    """Write synthetic rows to a file, or as CSV to standard output, in batches, so that they need not fit in memory."""
    write_rows(lambda place: model.sample(n_samples, out=place), path)


def write_rows(write: Callable[[Any], object], path: str) -> None:
    """Write rows to a file, or as CSV to standard output."""
    if path != STREAM:
        write(path)
        return
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "sample.csv"
        write(table)
        with table.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
            sys.stdout.buffer.flush()


@contextmanager
def open_inputs(paths: Sequence[str]) -> Iterator[Any]:
    """Yield the paths of tables; standard input is copied to a file, because a fit reads more than once.

    The copy is as secret as the rows: only its owner may read it, in a folder that is removed at the end.
    """
    if STREAM not in paths:
        yield paths[0] if len(paths) == 1 else list(paths)
        return
    if len(paths) > 1:
        raise Refusal("INPUT must be '-' alone, or paths; write standard input to a file first")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "standard_input"
        with file.open("wb") as kept:
            shutil.copyfileobj(sys.stdin.buffer, kept)
        with file.open("rb") as kept:
            start = kept.read(1 << 16)
        if not start:
            raise Refusal("INPUT must be a table, but standard input is empty; see that what writes into the pipe went well")
        place = str(file.rename(f"{file}{_detect_suffix(start)}"))
        with _rename_in_errors(place, "standard input"):
            yield place


@contextmanager
def _rename_in_errors(place: str, name: str) -> Iterator[None]:
    """Replace the path of a temporary file by `name` in error messages."""
    try:
        yield
    except (ValueError, TypeError) as error:
        if len(error.args) == 1 and isinstance(error.args[0], str):
            error.args = (error.args[0].replace(repr(place), name).replace(place, name),)
        raise


def _detect_suffix(start: bytes) -> str:
    """Detect the format of a table; a CSV file whose header has tabs and no comma is a .tsv."""
    for magic, suffix in _PACKED.items():
        if start.startswith(magic):
            return suffix
    header = start.partition(b"\n")[0]
    return ".tsv" if b"\t" in header and b"," not in header else ".csv"
