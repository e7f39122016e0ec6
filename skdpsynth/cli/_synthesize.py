"""The command `synthesize`."""

import math
from typing import Any

import click

from skdpsynth.cli._choose_estimator import METHODS, choose_method, fit_input, make_estimator, modeled_schema, say_method
from skdpsynth.cli._files import STREAM, Outputs, open_inputs, write_sample
from skdpsynth.cli._output import Refusal, Voice, add_output_options, json_number
from skdpsynth.cli._privacy_options import add_privacy_options, open_ledger, report_charges
from skdpsynth.cli._read_options import add_read_options, open_schema


@click.command(short_help="Learn a table, and write synthetic rows.")
@click.argument("sources", metavar="INPUT...", nargs=-1, required=True, type=click.Path())
@click.option("--schema", "stated", required=True, type=click.Path(), help="What is public about the columns: a .yaml or .json file.")
@add_privacy_options
@click.option("--unit", help="The column that says whose row it is. Then the promise protects a person, not a row.")
@click.option("--max-rows-per-unit", "--max-rows", "most", type=click.IntRange(1), help="How many rows of one unit count. [default: 1]")
@click.option("--method", type=click.Choice(METHODS), default="auto", show_default=True, help="How; auto says what it took, and why.")
@click.option("--stratify", help="The column that a model shall predict from the synthetic rows.")
@click.option("--rows", type=click.IntRange(1), help="How many synthetic rows. [default: as many as the table has]")
@click.option("-o", "--output", "out", required=True, type=click.Path(), help="A .csv, .tsv or .parquet file; '-' is standard output.")
@click.option("--card", "page", type=click.Path(), help="Write a release card there, an .html file to publish beside the rows.")
@click.option("--ledger", type=click.Path(), help="The budget to charge, from `budget init`.")
@click.option("--model", "kept", type=click.Path(), help="Keep the fitted model there, to draw more rows for free.")
@click.option("--force", is_flag=True, help="Replace files that exist.")
@add_read_options
@add_output_options
def synthesize(voice: Voice, sources: tuple[str, ...], stated: str, **given: Any) -> None:
    """Learn a table under differential privacy, and write synthetic rows.

    All of epsilon is spent by one run, on the whole table; more rows of the same --model are free. With --ledger the charge is on the
    disk before noise is drawn, and stays there whatever happens afterwards.
    """
    _check_places(voice, sources, stated, given)
    schema = open_schema(stated, given["read"])
    estimator, method, why = _estimator(schema, given)
    accountant = open_ledger(given["ledger"], given["epsilon"], given["delta"] if method != "pmm" else 0.0, given["neighboring"])
    say_method(voice, given["method"], method, why)
    estimator.set_params(accountant=accountant)
    with report_charges(accountant, given["ledger"], voice):
        with open_inputs(sources) as table, voice.progress_bars():
            model = estimator.fit(fit_input(table, estimator, schema), unit=given["unit"])
        if given["kept"] is not None:
            model.save(given["kept"])
        write_sample(model, given["rows"], given["out"])
        if given["page"] is not None:
            write_card(model, given["page"])
    _say_done(voice, model, accountant, {**given, "method": method, "why": why})


def _check_places(voice: Voice, sources: tuple[str, ...], stated: str, given: dict[str, Any]) -> None:
    """Refuse unwritable outputs before anything is read."""
    if given["most"] is not None and given["unit"] is None:
        raise Refusal("--max-rows-per-unit must go with --unit, the column that says whose row it is; add it")
    places = Outputs(given["force"], [*sources, stated, *([given["ledger"]] if given["ledger"] else [])])
    places.check_table(given["out"], voice)
    check_card(places, given["page"])
    places.check("--model", given["kept"])
    for option, path in (("--card", given["page"]), ("--model", given["kept"])):
        if path == STREAM:
            raise Refusal(f"{option} must name a file, got '-'; the rows may go to standard output")


def _estimator(schema: Any, given: dict[str, Any]) -> tuple[Any, str, str]:
    """Return an unfitted synthesizer, its method, and the reason for the choice."""
    columns = {str(name): name for name in schema}
    stratify = given["stratify"] if given["stratify"] is None else columns.get(given["stratify"], given["stratify"])
    method, why = choose_method(given["method"], modeled_schema(schema, given["unit"]), stratify, given["delta"])
    settings = {name: given[name] for name in ("epsilon", "delta", "neighboring")} | {"max_rows_per_unit": given["most"] or 1}
    return make_estimator(method, schema, given["unit"], stratify, **settings), method, why


def check_card(places: Outputs, page: str | None) -> None:
    """Refuse an unwritable page, and raise ImportError if a package for cards is missing."""
    if page is None:
        return
    places.check("--card", page, (".html", ".htm"))
    import jinja2  # noqa: F401
    import matplotlib  # noqa: F401

    import skdpsynth.report  # noqa: F401


def write_card(model: Any, page: str) -> Any:
    from skdpsynth.report import card

    made = card(model, audience="public")
    made.save(page)
    return made


def _say_done(voice: Voice, model: Any, accountant: Any, given: dict[str, Any]) -> None:
    record = model.accountant_
    is_known = given["rows"] is not None or record.neighboring == "replace_one"
    rows = (given["rows"] or model.n_samples_) if is_known else None
    told = {"method": given["method"], "why": given["why"], "rows": rows, "output": given["out"], "model": given["kept"]}
    told |= {"card": given["page"], "epsilon": json_number(record.spent), "delta": json_number(record.spent_delta)}
    told |= {"neighboring": record.neighboring, "unit": None if record.unit is None else str(record.unit), "ledger": given["ledger"]}
    told["remaining"] = None if accountant is None else json_number(accountant.remaining)
    whom = f"protects {'one row' if record.unit is None else f'one {record.unit}'}"
    whom = "NOT PRIVATE, because there is no noise" if record.spent == math.inf else whom
    left = "" if accountant is None else f"; {float(accountant.remaining):g} of {float(accountant.epsilon):g} remain in {given['ledger']}"
    where = "standard output" if given["out"] == STREAM else given["out"]
    voice.done(
        told,
        f"Wrote {'rows' if rows is None else f'{rows} rows'} to {where}. Spent epsilon {float(record.spent):g}, delta "
        f"{float(record.spent_delta):g}, {record.neighboring}; {whom}{left}.",
    )
