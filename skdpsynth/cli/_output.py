"""Results on standard output, notes on standard error."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from importlib.util import find_spec
from typing import Any

import click

from skdpsynth.cli._wording import with_words_of_commands


@dataclass(frozen=True)
class Voice:
    """Output of a command: `is_quiet` leaves out notes, `is_json` makes the result one JSON object."""

    is_quiet: bool
    is_json: bool

    def note(self, text: str) -> None:
        if not self.is_quiet:
            click.echo(text, err=True)

    @contextmanager
    def progress_bars(self) -> Iterator[None]:
        """Show progress bars, which tell public numbers alone, on a terminal."""
        if self.is_quiet or not sys.stderr.isatty() or find_spec("rich") is None:
            yield
            return
        from skdpsynth._progress import show_progress

        with show_progress():
            yield

    def result(self, told: dict[str, Any], text: str) -> None:
        click.echo(json.dumps(told, ensure_ascii=False, default=str, allow_nan=False) if self.is_json else with_words_of_commands(text))

    def done(self, told: dict[str, Any], text: str) -> None:
        """Report results that are in files: a note for people."""
        if self.is_json:
            self.result(told, text)
        else:
            self.note(text)


def add_output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options ``--json`` and ``--quiet`` to a command, and pass a `Voice` as its first argument."""

    @click.option("--json", "is_json", is_flag=True, help="Print the result as one JSON object.")
    @click.option("-q", "--quiet", "is_quiet", is_flag=True, help="No notes on standard error; warnings and errors stay.")
    @wraps(command)
    def spoken(*, is_json: bool, is_quiet: bool, **given: Any) -> Any:
        return command(Voice(is_quiet, is_json), **given)

    return spoken


def json_number(number: Any) -> Any:
    """Turn infinity, which JSON does not know, into a word."""
    value = None if number is None else float(number)
    return value if value is None or abs(value) < float("inf") else str(value)


class Refusal(click.ClickException):
    """A refusal in one sentence with a way out."""

    def __init__(self, sentence: str) -> None:
        super().__init__(f"{sentence}.")
