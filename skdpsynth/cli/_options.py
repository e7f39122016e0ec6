"""Shared parts of commands: words for results and refusals, in YAML and flags, options, and the files that they read and write."""

import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from skdpsynth._atomic_write import atomic_folder, atomic_write, output_path
from skdpsynth._text import join_words

if TYPE_CHECKING:  # these take a while to import, and help must not wait
    from sklearn.base import BaseEstimator

    from skdpsynth.domain import LinkedSchema, Schema
    from skdpsynth.privacy import PrivacyAccountant

CHECK_FAILED = 1  # exit code of a check that found something

_FLAGS = "epsilon|delta|neighboring|unit|stratify|weights|target|max_rows_per_unit|time_limit|too_wide|confidence"
_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_WORDS: list[tuple[str, Any]] = [  # what Python says, and what stands for it in files and flags; the first that fits
    (r"say Identifier\(\)", "write kind: identifier"),
    (r"a column that fit takes as unit, or (a .*?), is an Identifier\(\)", r"a column of --unit, or \1, has kind: identifier"),
    (r"Identifier\(labels=True\)", "kind: identifier with labels: true"),
    (r"Datetime\(time_unit='\w+', time_zone=None\)", "datetime"),
    (r"Datetime\(time_unit='\w+', time_zone=('.*?')\)", r"datetime of zone \1"),
    (r"say Date\(low, high\) or DateTime\(low, high\)", "write kind: date or kind: datetime with bounds: [low, high]"),
    (r"(?:Continuous|Date|DateTime)\(low, high\)", "bounds: [low, high]"),
    (r"Derived\((?:'(.*?)'|\"(.*?)\")\)", r"kind: derived with expression: \1\2"),
    (r", Derived\(\.\.\.\),", ", kind: derived,"),
    (r"Impossible\(\{\.\.\.\}\)", "rule: impossible"),
    (r"\bAtMost(?= must)|\b(Compared|Total|Inequality)(?= must)", lambda found: f"rule {(found[1] or 'at most').lower()!r}"),
    (r"the rule Unique\('(.*?)'\)", r"{rule: unique, columns: [\1]} in the rules"),
    (r"fit got no unit", "there is no --unit"),
    (r"give fit\(X, unit=(.*?)\)", r"give --unit \1"),
    (r"read=\{'multiline': True\}, in YAML read: and below it multiline: true", "read: {multiline: true}"),
    (r"PrivacyAccountant\(epsilon, ledger=\.\.\.\)|PrivacyAccountant\(.*?\)\.import_record\(.*?\)", "skdpsynth budget init"),
    (r" \(or share of `split`\)| by its `import_record`| \(X\[list\(schema\)\]\)", ""),
    (r"^(.*) was not written by \w+, or.*", r"MODEL must be a whole file of synthesize --model, got '\1'; name another file."),
    (r", or an array-like with the label of each row", ""),
    (
        r"accountant must be that of (.*), got a part of one, .*?; give the.*",
        r"MODEL must hold \1, got a part of it; name the ledger in place of MODEL.",
    ),
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
    (r"(?:^|(?<=: ))source(?= must (?:be YAML|be JSON|be text|hold|name|state|have))", "--schema"),
    (r"^schema must be a file(?: or its text)?\b", "--schema must be a file"),
    (r"Found array with (\d+) sample\(s\) while a minimum of (\d+) is required", r"INPUT must have at least \2 rows, got \1"),
    (r"with X as X: |with frame as X: ", ""),
    (r"with (real|synthetic) as X: (?:with )?X\[('.*?')\](?: as X)?", lambda found: f"table {found[2]} of {found[1].upper()}"),
    (r"with X\[('.*?')\] as X: ", r"table \1: "),
    (r"\bX\[('.*?')\]", r"table \1 of INPUT"),
    (r"^links(?= must)", "--schema"),
    (r"with X_synthetic as X: ", "of SYNTHETIC: "),
    (r"\bX_synthetic\b", "SYNTHETIC"),
]
_UNQUOTED: list[tuple[str, Any]] = [
    (r"\b(?:X|frame)\b|^source(?= must)", "INPUT"),
    (r"\bTrue\b", "true"),
    (r"\bFalse\b", "false"),
    (r"\bNone\b", "null"),
    (rf"^(?:{_FLAGS})(?= must)", lambda found: f"--{found[0].replace('_', '-')}"),
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
        """Show progress bars, which tell public numbers alone, on a terminal, or write them for a program that asks."""
        if os.environ.get("SKDPSYNTH_PROGRESS") == "json":
            from skdpsynth._progress import write_progress

            with write_progress(lambda line: click.echo(line, err=True)):
                yield
            return
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


# Options and files

STREAM = "-"
_METHODS = ("auto", "latent-factor", "pmm", "lowdim")
_RELATIONS = ("replace_one", "add_or_remove_one")
_TABLES = (".parquet", ".csv", ".tsv", ".csv.gz", ".tsv.gz")
_PACKED = {b"PAR1": ".parquet", b"\x1f\x8b": ".csv.gz"}  # first bytes of such files


_PATH = click.Path()
_DELTA_HELP = "Above 0, such as 1e-6, most noise is Gaussian, and much smaller for many columns."
_RELATION_HELP = "Is the number of rows public (replace_one), or private (add_or_remove_one)?"
_TABLE_HELP = "A .csv, .tsv or .parquet file, or '-', standard output; of linked tables a folder."
_METHOD_HELP = "How to learn; auto says what it chose, and why."
FORCE = click.option("--force", is_flag=True, help="Replace files that exist.")
OUTPUT = click.option("-o", "--output", "out", type=_PATH, help="A file. Without it: standard output.")
TABLE = click.option(
    "-o",
    "--output",
    "out",
    required=True,
    type=_PATH,
    help="A .csv, .tsv or .parquet file, or '-', standard output; of linked tables a folder.",
)
TITLE = click.option("--title", help="Of the card.  [default: what made the release]")
SCHEMA = click.option("--schema", "stated", required=True, type=_PATH, help="Public facts about the columns: a .yaml or .json file.")
EPSILON = click.option("--epsilon", type=float, required=True, help="The whole budget; a smaller one protects more. 1 is common.")
DELTA = click.option("--delta", type=float, default=0.0, show_default=True, help=_DELTA_HELP)
NEIGHBORING = click.option("--neighboring", type=click.Choice(_RELATIONS), default="replace_one", show_default=True, help=_RELATION_HELP)
UNIT = click.option("--unit", help="The column that says whose row it is. Then the promise protects a person, not a row.")
MAX_ROWS = click.option("--max-rows-per-unit", "--max-rows", "most", type=click.IntRange(1), help="Rows of a unit that count. [default: 1]")
METHOD = click.option("--method", type=click.Choice(_METHODS), default="auto", show_default=True, help=_METHOD_HELP)
STRATIFY = click.option("--stratify", help="The column that a model will predict from the synthetic rows.")
WEIGHTS = click.option("--weights", help="The column of survey weights; the upper bound of it in the schema caps them.")
_READ: dict[str, dict[str, Any]] = {
    "separator": {"help": "Sign between two cells of a text file, such as ';' or tab."},
    "decimal": {"type": click.Choice([".", ","]), "help": "Mark of decimals in a text file."},
    "thousands": {"type": click.Choice([".", ",", " ", "'"]), "help": "Mark between groups of digits in a text file."},
    "encoding": {"help": "Encoding of a text file, such as cp1252.  [default: utf-8]"},
    "comment": {"help": "Lines of a text file that begin with it are no rows."},
    "skip": {"type": click.IntRange(0), "help": "Lines of a text file, or rows of a sheet, before the names of the columns."},
    "columns": {"help": "Names of those to read, with commas between them.  [default: all]"},
    "sheet": {"help": "Name of a sheet of an .xlsx file.  [default: the first]"},
    "table": {"help": "Name of a table of an SQLite file.  [default: the only one]"},
}


def takes_read_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add options that say how INPUT is read, and pass those that are given as `read`, in the form of a schema's."""

    @wraps(command)
    def reading(*args: Any, **given: Any) -> Any:
        read = {name: value for name in _READ if (value := given.pop(name)) is not None}
        if read.get("separator") in ("tab", "\\t"):
            read["separator"] = "\t"
        if "columns" in read:
            read["columns"] = [name.strip() for name in read["columns"].split(",")]
        return command(*args, read=read, **given)

    for name, facts in reversed(_READ.items()):
        reading = click.option(f"--{name}", **facts)(reading)
    return reading


def open_schema(path: "str | Schema", read: dict[str, Any]) -> "Schema":
    """Return the schema in a file, with options of the command line in place of its own."""
    from skdpsynth.domain import Schema

    schema = Schema.of(path)
    return Schema(schema, read={**schema.read, **read}) if read else schema


def open_statement(path: str, read: dict[str, Any]) -> "Schema | LinkedSchema":
    """Return what a file states of one table or of linked ones, with options of the command line in place of its own."""
    from skdpsynth.domain import LinkedSchema, schema_of_file

    stated = schema_of_file(path)
    if isinstance(stated, LinkedSchema):
        return replace(stated, schemas={name: open_schema(schema, read) for name, schema in stated.schemas.items()})
    return open_schema(stated, read)


def name_tables(sources: Sequence[str], known: Collection[str] | None = None, what: str = "INPUT") -> dict[str, str]:
    """Return the path of each table by its name, which is the stem of a path, or stated, NAME=PATH; `known`: which tables there must be."""
    from skdpsynth.domain import list_names
    from skdpsynth.frames import output_suffix

    tables = dict[str, str]()
    for source in sources:
        name, sign, path = source.partition("=")
        if not sign or os.path.basename(name) != name or os.path.exists(source):
            name, path = os.path.basename(source)[: -len(output_suffix(source)) or None], source
        if path == STREAM:
            raise Refusal(f"{what} must be files where there are several tables, got '-'; write standard input to a file first")
        if name in tables:
            raise Refusal(f"{what} must be one path for each table, but {name!r} has two; give a pattern in quotes, or 'NAME=PATH'")
        tables[name] = path
    if known is not None and tables.keys() != set(known):
        raise Refusal(
            f"{what} must be a path for each of {list_names(list(known))}, got {list_names([*tables])}; name it so by 'NAME=PATH'"
        )
    return tables


def output_files(tables: Mapping[str, str]) -> dict[str, str]:
    """Return the names of files for tables, in the forms that these paths have, where such can be written."""
    from skdpsynth.frames import output_suffix

    if odd := [name for name in tables if os.path.basename(name) != name or name in ("", ".", "..")]:
        raise Refusal(f"tables must have names that files can have, got {odd[0]!r}; rename it in --schema")
    return {name: f"{name}{suffix if (suffix := output_suffix(path)) in _TABLES else '.csv'}" for name, path in tables.items()}


def open_ledger(path: str) -> "PrivacyAccountant":
    """Open the ledger of an existing file."""
    from skdpsynth.privacy import PrivacyAccountant

    if not os.path.lexists(path):
        raise Refusal(f"LEDGER must exist, but there is no file {path!r}; make it by skdpsynth budget init")
    return PrivacyAccountant.at(path)


def open_model(path: str, method: str | None = None) -> Any:
    """Load a model from a file or from standard input; no code in it runs. Refuse one that lacks a method, or is of linked tables."""
    from skdpsynth.persistence import from_bytes, load

    if path == STREAM:
        model = from_bytes(sys.stdin.buffer.read(), "standard input")
    elif not os.path.exists(path) or os.path.isdir(path):
        raise Refusal(f"MODEL must exist, but there is no file {path!r}; write it by skdpsynth synthesize --model")
    else:
        model = load(path)
    if hasattr(model, "links") and method not in (None, "sample", "interval"):
        raise Refusal(
            f"MODEL must be of one table here, but {path} holds one of linked tables; sample, card, interval and evaluate take it"
        )
    if method is not None and not hasattr(model, method):
        what = "a private estimator" if method == "get_params" else f"a synthesizer that can {method}"
        raise Refusal(f"MODEL must be {what}, but {path} holds a {type(model).__name__}; give what synthesize --model wrote")
    return model


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
        with file.open("wb") as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
        with file.open("rb") as copy:
            start = copy.read(1 << 16)
        if not start:
            raise Refusal("INPUT must be a table, but standard input is empty; see that what writes into the pipe went well")
        header = start.partition(b"\n")[0]
        suffix = ".tsv" if b"\t" in header and b"," not in header else ".csv"
        suffix = next((packed for magic, packed in _PACKED.items() if start.startswith(magic)), suffix)
        place = str(file.rename(f"{file}{suffix}"))
        try:
            yield place
        except (ValueError, TypeError) as error:
            if len(error.args) == 1 and isinstance(error.args[0], str):
                error.args = (error.args[0].replace(repr(place), "standard input").replace(place, "standard input"),)
            raise


class Outputs:
    """Checks of the files that a command will write, before it reads anything.

    Files that exist are replaced only if `is_forced`; those that it reads never are.
    """

    def __init__(self, is_forced: bool, read: Sequence[str] = ()) -> None:
        self._is_forced = is_forced
        self._folder: Path | None = None  # which is written as a whole
        self._taken = {os.path.realpath(path): "a file that is read here" for path in read if path != STREAM}

    def check(self, option: str, path: str | None, suffixes: Sequence[str] = (), way_out: str = "--force to replace it") -> None:
        """Refuse a path that cannot or must not be written."""
        if path is None or path == STREAM:
            return
        if suffixes and not path.lower().endswith(tuple(suffixes)):
            raise Refusal(f"{option} must end in {join_words(suffixes, 'or')}, got {path!r}")
        place = output_path(path, option)
        self._check_free(option, place, path)
        if place.exists() and not self._is_forced:
            raise Refusal(f"{option} must be a new file, but {path!r} exists; give another name, or {way_out}")
        self._taken[str(place)] = f"that of {option} as well"

    def _check_free(self, option: str, place: Path, path: str) -> None:
        if str(place) in self._taken:
            raise Refusal(f"{option} must be a file of its own, but {path!r} is {self._taken[str(place)]}; give another name")
        if self._folder in place.parents:
            raise Refusal(f"{option} must not be in the folder of -o, which is written as a whole, got {path!r}; give another name")

    def _check_folder(self, path: str, files: Collection[str]) -> None:
        from skdpsynth.frames import check_output_path

        if path == STREAM or path.lower().endswith(_TABLES):
            raise Refusal(f"-o must be a folder where tables are linked, got {path!r}; name one")
        check_output_path(Path(path, "..", "tables.csv"), "-o")  # raises if the folder around it or the writer is not there
        place = Path(os.path.realpath(Path(path).expanduser()))
        if place.exists() and not (place.is_dir() and set(files).issuperset(os.listdir(place))):
            raise Refusal(f"-o must be a folder that has none but these tables, got {path!r}; give another name")
        if place.exists() and os.listdir(place) and not self._is_forced:
            raise Refusal(f"-o must be a new folder, but {path!r} exists; give another name, or --force to replace it")
        for name in files:
            self._check_free("-o", place / name, os.path.join(path, name))
        self._folder = place

    def check_table(self, path: str, voice: Voice, files: Mapping[str, str] = MappingProxyType({})) -> None:
        """Refuse the place of rows: a file or, where there are names of `files`, a folder of these."""
        if files:
            return self._check_folder(path, files.values())
        self.check("-o", path, _TABLES)
        if path == STREAM and voice.is_json:
            raise Refusal("--json must not go with -o -, because both write to standard output; name a file, or leave --json out")
        if path != STREAM:
            from skdpsynth.frames import check_output_path

            check_output_path(path, "-o")  # raises if its writer is not installed

    def check_page(self, option: str, path: str | None) -> None:
        """Refuse an unwritable page, and raise ImportError if a package for pages is missing."""
        if path is not None:
            self.check(option, path, (".html", ".htm"))
            import jinja2  # noqa: F401
            import matplotlib  # noqa: F401

            import skdpsynth.report  # noqa: F401


def count_rows(n: int | None) -> str:
    return "rows" if n is None else f"{n} row{'s' * (n != 1)}"


def write_text(path: str | None, text: str) -> None:
    if path in (None, STREAM):
        click.echo(text, nl=not text.endswith("\n"))
        return
    with atomic_write(output_path(path)) as file:
        file.write((text if text.endswith("\n") else text + "\n").encode())


def write_rows(write: Callable[[Any], object], path: str) -> str:
    """Write rows to a file, or as CSV to standard output, and return the name of the place in words."""
    if path != STREAM:
        write(path)
        return path
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "sample.csv"
        write(table)
        with table.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
            sys.stdout.buffer.flush()
    return "standard output"


def write_sample(model: "BaseEstimator", n_rows: int | None, path: str, files: Mapping[str, str]) -> str:
    """Write rows of a model to a file, or with `files` tables to a folder, complete or as it was before; return the place in words."""
    if not files:
        return write_rows(lambda place: model.sample(n_rows, out=place), path)
    from skdpsynth.domain import Date
    from skdpsynth.frames import output_suffix, write_table

    with atomic_folder(Path(os.path.realpath(Path(path).expanduser()))) as folder:
        for name, table in model.sample(n_rows).items():
            kinds = model.schemas_[name].items()
            dates = [str(column) for column, kind in kinds if isinstance(kind, Date) or getattr(kind, "gives", None) == "date"]
            write_table(folder / files[name], table, [table], output_suffix(files[name]), dates)
    return path
