"""The commands `schema ...`."""

import json
from dataclasses import asdict, replace
from typing import Any

import click

from skdpsynth.cli._messages import CHECK_FAILED, Voice, in_words_of_commands, speaks, with_rules_of_files
from skdpsynth.cli._options import SCHEMA, STREAM, Outputs, open_inputs, open_schema, takes_read_options, write_text

_GUESSED = (
    "Kinds of files without dtypes are guessed from their first rows: for your eyes only, until you have checked and stated each as public."
)


@click.group(invoke_without_command=True)
@click.pass_context
def schema(context: click.Context) -> None:
    """Write a schema to fill in, or check a table against one."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@schema.command("init", short_help="Write the columns of a table and their kinds, to fill in.")
@click.argument("source", metavar="INPUT", type=click.Path())
@click.option("-o", "--output", "out", type=click.Path(), help="A .yaml or .json file. Without it: standard output, as YAML.")
@click.option("--force", is_flag=True, help="Replace the file if it exists; what was filled in is lost.")
@click.option("--labels-are-public", "public", is_flag=True, help="Value labels, categories and bounds in metadata are public: write them.")
@click.option("--codebook", type=click.Path(), help="A table of variable, value and label (kind, low, high), which are public.")
@takes_read_options
@speaks
def init(voice: Voice, source: str, out: str | None, force: bool, public: bool, codebook: str | None, read: dict[str, Any]) -> None:
    """Write the columns of a table and their kinds, with every bound and level open: no value of a row.

    Fill in what is public in place of each word open. Nothing of it may be taken from the rows. Kinds are guessed from the first 1000
    rows of a text file, a sheet or SQLite, and names are its first line: facts from rows, for your eyes only, until you have checked and
    stated each. The separator, encoding and comment sign that the first lines show go to read.
    """
    from skdpsynth.domain import Schema

    Outputs(force, [source]).check("-o", out, (".yaml", ".yml", ".json"))
    with open_inputs([source]) as path:
        found = Schema.skeleton(path, public, read)
    if codebook is not None:
        book = Schema.from_codebook(codebook)
        found = Schema({name: book.get(name, kind) for name, kind in found.items()}, read=found.read)
    if voice.is_json or str(out).lower().endswith(".json"):
        write_text(out, json.dumps({"note": _GUESSED, **json.loads(str(found.to_json()))}, indent=1, ensure_ascii=False))
    else:
        write_text(out, f"# {_GUESSED}\n{found.to_yaml()}")
    n_open = sum(kind.stand_in == "open" for kind in found.values())
    place = "" if out in (None, STREAM) else f" to {out}"
    voice.note(f"Wrote {len(found)} columns{place}, {n_open} of them with bounds or levels to fill in; check the kinds too.")


@schema.command("check")
@click.argument("sources", metavar="INPUT...", nargs=-1, required=True, type=click.Path())
@SCHEMA
@takes_read_options
@speaks
def check(voice: Voice, sources: tuple[str, ...], stated: str, read: dict[str, Any]) -> int:
    """Tell what of a table does not fit its schema. This READS THE ROWS: the result is not private.

    Exit code 1 if something was found. A fit says nothing about cells, because that would tell of them: it clips and counts as missing
    in silence. So look before it.
    """
    facts = open_schema(stated, read)
    with open_inputs(sources) as table:
        findings = facts.check(table)
    found, notes = (
        tuple(replace(each, told=in_words_of_commands(with_rules_of_files(each.told, facts))) for each in part)
        for part in (findings, findings.notes)
    )
    told: dict[str, Any] = {"private": False, "rows": findings.n_samples}
    told |= {"findings": list(map(asdict, found)), "notes": list(map(asdict, notes))}
    voice.result(told, str(type(findings)(findings.n_samples, found, notes)))
    return CHECK_FAILED if found else 0
