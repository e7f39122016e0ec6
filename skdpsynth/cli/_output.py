"""What a command says: its result on standard output, notes on the way on standard error."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from importlib.util import find_spec
from typing import Any

import click


@dataclass(frozen=True)
class Voice:
    """How a command speaks.

    Attributes
    ----------
    is_quiet : bool
        Whether notes are left out; results, warnings and errors are not.
    is_json : bool
        Whether the result is one JSON object.
    """

    is_quiet: bool
    is_json: bool

    def note(self, text: str) -> None:
        """Say something on standard error, where it is in no pipe."""
        if not self.is_quiet:
            click.echo(text, err=True)

    @contextmanager
    def progress_bars(self) -> Iterator[None]:
        """Show bars of what takes long, where a person looks: public numbers alone."""
        if self.is_quiet or not sys.stderr.isatty() or find_spec("rich") is None:
            yield
            return
        from skdpsynth._progress import show_progress

        with show_progress():
            yield

    def result(self, told: dict[str, Any], text: str) -> None:
        """Say the result on standard output: as JSON, or as text for people."""
        click.echo(json.dumps(told, ensure_ascii=False, default=str, allow_nan=False) if self.is_json else text)

    def done(self, told: dict[str, Any], text: str) -> None:
        """Say what was done, where the result itself is in files: for people it is a note."""
        if self.is_json:
            self.result(told, text)
        else:
            self.note(text)


def add_output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options ``--json`` and ``--quiet``, and a `Voice` as its first argument."""

    @click.option("--json", "is_json", is_flag=True, help="Print the result as one JSON object.")
    @click.option("-q", "--quiet", "is_quiet", is_flag=True, help="No notes on standard error; warnings and errors stay.")
    @wraps(command)
    def spoken(*, is_json: bool, is_quiet: bool, **given: Any) -> Any:
        return command(Voice(is_quiet, is_json), **given)

    return spoken


def json_number(number: Any) -> Any:
    """Return a number for JSON, which knows no infinity: that becomes a word."""
    value = None if number is None else float(number)
    return value if value is None or abs(value) < float("inf") else str(value)


class Refusal(click.ClickException):
    """What a command refuses, in one sentence with the way out."""

    def __init__(self, sentence: str) -> None:
        super().__init__(f"{sentence}.")
