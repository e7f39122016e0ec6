"""Words of commands: results on standard output, notes and refusals on standard error, in YAML and flags."""

import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:  # these take a while to import, and help must not wait
    from skdpsynth.domain import Schema

CHECK_FAILED = 1  # exit code of a check that found something

_FLAGS = ("epsilon", "delta", "neighboring", "unit", "stratify", "target", "max_rows_per_unit", "time_limit", "too_wide", "confidence")
_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_WORDS: list[tuple[str, Any]] = [  # what Python says, and what stands for it in files and flags; the first that fits
    (r"say Identifier\(\)", "write kind: identifier"),
    (r"a column that fit takes as unit is an Identifier\(\) or", "a column that --unit names has kind: identifier, or is"),
    (r"Identifier\(labels=True\)", "kind: identifier with labels: true"),
    (r"Datetime\(time_unit='\w+', time_zone=None\)", "datetime"),
    (r"Datetime\(time_unit='\w+', time_zone=('.*?')\)", r"datetime of zone \1"),
    (r"say Date\(low, high\) or DateTime\(low, high\)", "write kind: date or kind: datetime with bounds: [low, high]"),
    (r"(?:Continuous|Date|DateTime)\(low, high\)", "bounds: [low, high]"),
    (r"Derived\((?:'(.*?)'|\"(.*?)\")\)", r"kind: derived with expression: \1\2"),
    (r", Derived\(\.\.\.\),", ", kind: derived,"),
    (r"Impossible\(\{\.\.\.\}\)", "rule: impossible"),
    (r"the rule Unique\('(.*?)'\)", r"{rule: unique, columns: [\1]} in the rules"),
    (r"fit got no unit", "there is no --unit"),
    (r"give fit\(X, unit=(.*?)\)", r"give --unit \1"),
    (r"read=\{'multiline': True\}, in YAML read: and below it multiline: true", "read: {multiline: true}"),
    (r"PrivacyAccountant\(epsilon, ledger=\.\.\.\)|PrivacyAccountant\(.*?\)\.import_record\(.*?\)", "skdpsynth budget init"),
    (r" \(or share of `split`\)| by its `import_record`| \(X\[list\(schema\)\]\)", ""),
    (r"epsilon=float\('inf'\)", "--epsilon inf"),
    (r"float\('inf'\)", "inf"),
    (r"\bmu=", "mu "),
    (r"1 / n_samples, with n_samples=(\d+)", r"1 / rows, with \1 rows"),
    (r"(?:n_samples|n_rows)=(\d+)", r"\1 rows"),
    (r"(?<=use )(epsilon|delta)=|(?<=give )(epsilon|delta)=|(?<=With )(epsilon|delta)=", lambda found: f"--{found[0][:-1]} "),
    (r"\b(epsilon|delta)=(?=[\d.])", r"\1 "),
    (r"(?:set|say) (\w+)=(True|False|<)", lambda found: f"write {found[1]}: {found[2].lower()}"),
    (r"(?:set|say) (\w+)=(?=[\[\d'])", r"write \1: "),
    (r"\b(\w+)=(True|False)\b", lambda found: f"{found[1]}: {found[2].lower()}"),
    (r"bounds=\(low, high\)|(?<=give )\(low, high\)", "bounds: [low, high]"),
    (r"\(low, high\)", "[low, high]"),
    (r"a dict, a Schema,? or a file", "a file"),
    (r"say DateTime (?=with)", "write kind: datetime "),
    (r"\bis (Continuous|Ordinal|Nominal|DateTime|Date|Identifier|Text|Derived)\b", lambda found: found[0].lower()),
    (r"^source(?= must (?:be YAML|be JSON|be text|hold|name))", "--schema"),
    (r"Found array with (\d+) sample\(s\) while a minimum of (\d+) is required", r"INPUT must have at least \2 rows, got \1"),
    (r"with X as X: |with frame as X: ", ""),
    (r"with X_synthetic as X: ", "of SYNTHETIC: "),
    (r"\bX_synthetic\b", "SYNTHETIC"),
]
_UNQUOTED: list[tuple[str, Any]] = [
    (r"\b(?:X|frame)\b|^source(?= must)", "INPUT"),
    (r"\bTrue\b", "true"),
    (r"\bFalse\b", "false"),
    (r"\bNone\b", "null"),
    (rf"^(?:{'|'.join(_FLAGS)})(?= must)", lambda found: f"--{found[0].replace('_', '-')}"),
]
_PYTHON = re.compile(r"[A-Za-z_\]]\w*\(|\b[A-Za-z_]\w*=(?=[^\s=])|`|\.\w+\(")


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
        click.echo(as_json(told) if self.is_json else with_words_of_commands(text))

    def done(self, told: dict[str, Any], text: str) -> None:
        """Report results that are in files: a note for people."""
        self.result(told, text) if self.is_json else self.note(text)


def speaks(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options ``--json`` and ``--quiet`` to a command, and pass a `Voice` as its first argument."""

    @click.option("--json", "is_json", is_flag=True, help="Print the result as one JSON object.")
    @click.option("-q", "--quiet", "is_quiet", is_flag=True, help="No notes on standard error; warnings and errors stay.")
    @wraps(command)
    def spoken(*, is_json: bool, is_quiet: bool, **given: Any) -> Any:
        return command(Voice(is_quiet, is_json), **given)

    return spoken


class Refusal(click.ClickException):
    """A refusal in one sentence with a way out."""

    def __init__(self, sentence: str) -> None:
        super().__init__(f"{sentence}.")


def as_json(value: object, indent: int | None = None) -> str:
    """Return a value as JSON, with infinity, which that does not know, as a word, and what is no number as null."""

    def plain(part: object) -> Any:
        if isinstance(part, dict):
            return {name: plain(each) for name, each in part.items()}
        if isinstance(part, list | tuple):
            return list(map(plain, part))
        if part is None or isinstance(part, bool | int | str):
            return part
        if not hasattr(part, "__float__"):
            return str(part)
        number = part.item() if hasattr(part, "item") else float(part)
        return None if number != number else number if abs(number) < float("inf") else str(number)

    return json.dumps(plain(value), ensure_ascii=False, allow_nan=False, indent=indent)


def with_words_of_commands(text: str) -> str:
    """Return a text with YAML and flags in place of Python."""
    for pattern, words in _WORDS:
        text = re.sub(pattern, words, text)
    return text


def in_words_of_commands(text: str) -> str:
    """Return a sentence of the library in words of the command line; advice that has none is left out."""
    text = with_words_of_commands(text)
    parts = re.split(f"({_QUOTED})", text)  # what users name stands in quotes, and stays
    for place in range(0, len(parts), 2):
        for pattern, words in _UNQUOTED:
            parts[place] = re.sub(pattern, words, parts[place]) if place == 0 or not pattern.startswith("^") else parts[place]
    first, *advice = "".join(parts).split("; ")
    kept = [each for each in advice if not _PYTHON.search(re.sub(_QUOTED, "", each))]
    return "; ".join([first, *kept]) + "." * (bool(advice) and advice[-1] not in kept)


def with_rules_of_files(text: str, schema: "Schema") -> str:
    """Return a text with the rules and kinds of a schema as they stand in files."""
    for each in (*schema.rules, *schema.values()):
        text = text.replace(repr(each), json.dumps(each.to_keys(), ensure_ascii=False))
    return text
