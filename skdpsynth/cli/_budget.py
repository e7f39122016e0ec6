"""The commands `budget ...`."""

import csv
import io
import os
from dataclasses import asdict
from typing import Any

import click

from skdpsynth.cli._exit_codes import CHECK_FAILED
from skdpsynth.cli._files import Outputs, write_text
from skdpsynth.cli._output import Refusal, Voice, add_output_options, json_number
from skdpsynth.cli._privacy_options import add_privacy_options

_NUMBERS = ("epsilon", "delta", "rho", "sensitivity", "n_values")


@click.group(invoke_without_command=True)
@click.pass_context
def budget(context: click.Context) -> None:
    """Make a budget for a data set, and see what was spent from it."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@budget.command("init", short_help="Make a LEDGER: the limit of one data set, for good.")
@click.argument("ledger", type=click.Path())
@add_privacy_options
@click.option("--dataset", help="What you call the data set; each entry says so.")
@add_output_options
def init(voice: Voice, ledger: str, epsilon: float, delta: float, neighboring: str, dataset: str | None) -> None:
    """Make a LEDGER: the limit for all releases of one data set, for good. It cannot be raised later."""
    from skdpsynth.privacy import PrivacyAccountant

    Outputs(is_forced=False).check("LEDGER", ledger)
    accountant = PrivacyAccountant(epsilon, delta, neighboring=neighboring, ledger=ledger, dataset=dataset)
    voice.done(_summary(ledger, accountant), f"Made {ledger}: epsilon {epsilon:g}, delta {delta:g}, {neighboring}. Nothing is spent.")


@budget.command("show")
@click.argument("ledger", type=click.Path())
@add_output_options
def show(voice: Voice, ledger: str) -> None:
    """Show what was spent from a LEDGER, on what, and what remains."""
    accountant = load_ledger(ledger)
    told, lines = _summary(ledger, accountant), _lines(accountant, parts=False)
    voice.result({**told, "entries": lines}, "\n".join([_heading(told), "", *_table(lines), "", str(accountant.risk())]))


@budget.command("export", short_help="Write all charges of a LEDGER, as CSV or JSON.")
@click.argument("ledger", type=click.Path())
@click.option("--format", "form", type=click.Choice(["csv", "json"]), help="[default: by the end of the file, else csv]")
@click.option("-o", "--output", "out", type=click.Path(), help="A file. Without it: standard output.")
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@add_output_options
def export(voice: Voice, ledger: str, form: str | None, out: str | None, force: bool) -> None:
    """Write a LEDGER for others: each charge, and below it what was released for it, with its noise."""
    Outputs(force, [ledger]).check("-o", out)
    accountant = load_ledger(ledger)
    lines = _lines(accountant, parts=True)
    form = form or ("json" if voice.is_json or str(out).lower().endswith(".json") else "csv")
    if form == "json":
        import json

        write_text(out, json.dumps({**_summary(ledger, accountant), "entries": lines}, indent=1, ensure_ascii=False, allow_nan=False))
    else:
        write_text(out, _csv_of(lines))


@budget.command("evidence", short_help="Write what each figure of a LEDGER follows from, as JSON.")
@click.argument("ledger", type=click.Path())
@click.option("-o", "--output", "out", type=click.Path(), help="A file. Without it: standard output.")
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@add_output_options
def evidence(voice: Voice, ledger: str, out: str | None, force: bool) -> None:
    """Write what each release of a LEDGER was, and all that its loss follows from, so that others can check it. No value is in it."""
    import json

    Outputs(force, [ledger]).check("-o", out)
    write_text(out, json.dumps(load_ledger(ledger).evidence(), indent=1))


@budget.command("check", short_help="Derive every figure of an EVIDENCE again.")
@click.argument("told", metavar="EVIDENCE", type=click.Path(exists=True, dir_okay=False))
@click.option("--strict", is_flag=True, help="Exit code 1 also if a line is loose or cannot be checked.")
@add_output_options
def check(voice: Voice, told: str, strict: bool) -> int:
    """Derive every change, every loss and their sum in an EVIDENCE again. Exit code 1 if a line is wrong."""
    from skdpsynth_evidence import check_evidence

    found = check_evidence(told)
    voice.result({"ok": found.ok, **asdict(found)}, str(found))
    return 0 if (found.is_exact if strict else found.ok) else CHECK_FAILED


def load_ledger(path: str) -> Any:
    """Open the ledger of an existing file."""
    from skdpsynth.privacy import PrivacyAccountant

    if not os.path.lexists(path):
        raise Refusal(f"LEDGER must exist, but there is no file {path!r}; make it by skdpsynth budget init")
    return PrivacyAccountant.at(path)


def _summary(path: str, accountant: Any) -> dict[str, Any]:
    told = {"ledger": path, "dataset": accountant.dataset, "neighboring": accountant.neighboring}
    for name in ("epsilon", "delta", "spent", "spent_delta", "remaining"):
        told[name] = json_number(getattr(accountant, name))
    return told


def _heading(told: dict[str, Any]) -> str:
    name = "" if told["dataset"] is None else f" of {told['dataset']}"
    return (
        f"Budget{name} in {told['ledger']}: spent epsilon {_short(told['spent'])} of {_short(told['epsilon'])}, delta "
        f"{_short(told['spent_delta'])} of {_short(told['delta'])}; epsilon {_short(told['remaining'])} remains ({told['neighboring']})."
    )


def _short(number: Any) -> str:
    return f"{number:g}" if isinstance(number, float) else str(number)


def _lines(accountant: Any, parts: bool) -> list[dict[str, Any]]:
    rows = accountant.to_frame("pyarrow", parts=parts).to_pylist()
    return [{name: json_number(value) if name in _NUMBERS else value for name, value in row.items()} for row in rows]


def _table(lines: list[dict[str, Any]]) -> list[str]:
    """Lay out entries for a terminal; `export` has the seconds and the scales of the noise."""
    names = ("time", "name", "epsilon", "delta", "noise", "unit")
    spoken = [{**line, "time": line["time"][:16].replace("T", " "), "noise": _kinds(line["noise"])} for line in lines]
    cells = [list(names), *([_short(line[name]) if line[name] is not None else "" for name in names] for line in spoken)]
    widths = [max(len(row[place]) for row in cells) for place in range(len(names))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def _kinds(noise: str | None) -> str:
    """Return the kinds of noise of an entry, each once, without scales."""
    return ", ".join(dict.fromkeys(each.partition("(")[0].removeprefix("Discrete") for each in (noise or "").split("; ")))


def _csv_of(lines: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    names = list(lines[0]) if lines else ["name", "epsilon", "delta"]
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()
