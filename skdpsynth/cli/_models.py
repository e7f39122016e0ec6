"""The commands `sample` and `card`."""

import os
import sys
from typing import Any

import click

from skdpsynth.cli._budget import load_ledger
from skdpsynth.cli._files import STREAM, Outputs, write_sample
from skdpsynth.cli._output import Refusal, Voice, add_output_options
from skdpsynth.cli._synthesize import check_card, write_card


@click.command()
@click.argument("path", metavar="MODEL", type=click.Path())
@click.option("-n", "--rows", type=click.IntRange(1), help="How many. [default: as many as the table had]")
@click.option("-o", "--output", "out", required=True, type=click.Path(), help="A .csv, .tsv or .parquet file; '-' is standard output.")
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@add_output_options
def sample(voice: Voice, path: str, rows: int | None, out: str, force: bool) -> None:
    """Draw rows of a model that `synthesize --model` kept. It costs no privacy."""
    Outputs(force, [path]).check_table(out, voice)
    model = open_synthesizer(path)
    write_sample(model, rows, out)
    where = "standard output" if out == STREAM else out
    voice.done({"rows": rows, "output": out}, f"Wrote {'rows' if rows is None else f'{rows} rows'} to {where}, at no cost of privacy.")


@click.command(short_help="Write the public card of a model or a ledger, an .html page.")
@click.argument("path", metavar="MODEL_OR_LEDGER", type=click.Path())
@click.option("-o", "--output", "page", required=True, type=click.Path(), help="An .html file.")
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@add_output_options
def card(voice: Voice, path: str, page: str, force: bool) -> None:
    """Write the public card of a model, or of a whole ledger: what was released, what it promises, and what it does not.

    The card of a model shows what this model was charged, that of a ledger all that was charged. With --json it prints the same in the
    fields of the registry of deployments.
    """
    check_card(Outputs(force, [path]), page)
    made = write_card(load_ledger(path) if _is_ledger(path) else open_model(path), page)
    voice.done({"card": page, "registry": made.to_registry()}, f"Wrote {page}; it holds noisy and synthetic things alone.")


def open_model(path: str) -> Any:
    """Load a model from a file or from standard input; no code in it runs."""
    from skdpsynth.persistence import from_bytes, load

    if path == STREAM:
        return from_bytes(sys.stdin.buffer.read(), "standard input")
    if not os.path.exists(path) or os.path.isdir(path):
        raise Refusal(f"MODEL must exist, but there is no file {path!r}; write it by skdpsynth synthesize --model")
    return load(path)


def open_synthesizer(path: str, method: str = "sample") -> Any:
    """Load a model that has a method, or refuse it."""
    model = open_model(path)
    if not hasattr(model, method):
        raise Refusal(f"MODEL must be a synthesizer that can {method}, but {path} holds a {type(model).__name__}, which cannot")
    return model


def _is_ledger(path: str) -> bool:
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(16) == b"SQLite format 3\0"
