"""Options of commands that say how files are read, in place of `read:` in the schema."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

_FLAGS = (
    click.option("--separator", help="Between two cells of a text file, such as ';' or tab."),
    click.option("--decimal", type=click.Choice([".", ","]), help="Mark of decimals in a text file."),
    click.option("--thousands", type=click.Choice([".", ",", " ", "'"]), help="Mark between groups of digits in a text file."),
    click.option("--encoding", help="Of a text file, such as cp1252.  [default: utf-8]"),
    click.option("--comment", help="Lines of a text file that begin with it are no rows."),
    click.option("--skip", type=click.IntRange(0), help="Lines of a text file, or rows of a sheet, before the names of the columns."),
    click.option("--columns", help="Which are read, with commas between them.  [default: all]"),
    click.option("--sheet", help="Of an .xlsx file.  [default: the first]"),
    click.option("--table", help="Of an SQLite file.  [default: the only one]"),
)

_NAMES = ("separator", "decimal", "thousands", "encoding", "comment", "skip", "columns", "sheet", "table")


def add_read_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add options that say how INPUT is read, and pass those that are given as `read`."""

    @wraps(command)
    def reading(*args: Any, **given: Any) -> Any:
        read = {name: given.pop(name) for name in _NAMES}
        read = {name: value for name, value in read.items() if value is not None}
        if read.get("separator") in ("tab", "\\t"):
            read["separator"] = "\t"
        if "columns" in read:
            read["columns"] = [name.strip() for name in read["columns"].split(",")]
        return command(*args, read=read, **given)

    for flag in reversed(_FLAGS):
        reading = flag(reading)
    return reading


def open_schema(path: str, read: dict[str, Any]) -> Any:
    """Return the schema in a file, with options of the command line in place of its own."""
    from skdpsynth.domain import Schema

    schema = Schema.of(path)
    return Schema(schema, read={**schema.read, **read}) if read else schema


def open_synthetic(place: Any, schema: Any) -> Any:
    """Open rows as `synthesize` writes them, by suffix alone, if that gives columns of the schema; else as `read` says."""
    from skdpsynth.domain import Identifier
    from skdpsynth.frames import open_source

    wanted = {str(name) for name, kind in schema.items() if not isinstance(kind, Identifier)}
    if schema.read:
        try:
            plain = open_source(place, "SYNTHETIC")
            if wanted <= set(map(str, plain.columns)):
                return plain
        except (ValueError, TypeError):
            pass
    return open_source(place, "SYNTHETIC", read=schema.read)
