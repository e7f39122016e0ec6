"""Commands on what epsilon buys, what it was spent on, and whether it holds: `plan`, `budget ...` and `audit`."""

import csv
import io
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from skdpsynth.cli import _options as options
from skdpsynth.cli._options import CHECK_FAILED, Outputs, Refusal, Voice, as_json, open_ledger, open_model, speaks, write_text
from skdpsynth.cli._synthesize import choose_estimator, modeled_schema, say_method

if TYPE_CHECKING:  # these take a while to import, and help must not wait
    from skdpsynth.privacy import PrivacyAccountant

_GUESSED_BOUND, _GUESSED_LEVELS = 1000, 10


@click.command(short_help="Estimate errors before you spend.")
@options.SCHEMA
@click.option("--rows", required=True, type=click.IntRange(1), help="How many rows the table has, or about how many.")
@click.option("--epsilon", "epsilons", multiple=True, type=float, help="Budgets to try; may be given again. [default: 0.1 to 10]")
@options.DELTA
@options.NEIGHBORING
@options.UNIT
@options.MAX_ROWS
@options.METHOD
@options.STRATIFY
@options.WEIGHTS
@click.option("--too-wide", type=click.FloatRange(1), default=1.0, show_default=True, help="How many times too wide the bounds may be.")
@click.option("--repeats", type=click.IntRange(1), default=3, show_default=True, help="Tables that are simulated.")
@click.option("--time-limit", type=float, default=60.0, show_default=True, help="Seconds after which no further table is begun.")
@speaks
def plan(voice: Voice, stated: str, rows: int, repeats: int, time_limit: float, **given: Any) -> None:
    """Estimate errors at several epsilons, from public facts: a schema and a number of rows.

    Tables are simulated; no private row is read, and nothing is spent.
    """
    from skdpsynth.domain import Nominal, Schema, list_names
    from skdpsynth.model_selection import plan as make_plan
    from skdpsynth.tables import with_bounds

    kinds = modeled_schema(Schema.of(stated), given["unit"])
    settings = {"delta": given["delta"], "neighboring": given["neighboring"]}
    estimator, method, why = choose_estimator(given["method"], kinds, None, given["stratify"], given["weights"], **settings)
    say_method(voice, given["method"], method, why)
    private, guessed = {name: kind for name, kind in kinds.items() if kind.stand_in == "private"}, None
    if private:
        voice.note(
            f"Private facts about {list_names(list(private))} are guessed in the simulation, as [0, {_GUESSED_BOUND}] or as "
            f"{_GUESSED_LEVELS} levels, and bought; for closer errors give a schema with better guesses in their place."
        )
        levels = [f"level {number}" for number in range(_GUESSED_LEVELS)]
        for name, kind in private.items():
            has_levels = hasattr(kind, "levels")
            private[name] = Nominal(levels, nullable=kind.nullable) if has_levels else with_bounds(kind, 0, _GUESSED_BOUND)
        guessed = kinds.with_kinds({**kinds, **private})
    with voice.progress_bars():
        settings = {"unit_rows": given["most"], "too_wide": given["too_wide"], "n_repeats": repeats, "time_limit": time_limit}
        epsilons = given["epsilons"] or (0.1, 0.3, 1, 3, 10)
        expected = make_plan(estimator, rows, epsilons=epsilons, schema=guessed, **settings)
    told = {"method": method, "why": why, "estimator": expected.estimator, "rows": expected.n_samples, "neighboring": expected.neighboring}
    voice.result({**told, "measures": expected.to_records()}, str(expected))


@click.group(invoke_without_command=True)
@click.pass_context
def budget(context: click.Context) -> None:
    """Make a budget for a data set, and see what was spent from it."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@budget.command("init", short_help="Make a LEDGER: the limit of one data set, for good.")
@click.argument("ledger", type=click.Path())
@options.EPSILON
@options.DELTA
@options.NEIGHBORING
@click.option("--dataset", help="Your name for the data set; each entry has it.")
@speaks
def init(voice: Voice, ledger: str, epsilon: float, delta: float, neighboring: str, dataset: str | None) -> None:
    """Make a LEDGER: the limit for all releases of one data set, for good. It cannot be raised later."""
    from skdpsynth.privacy import PrivacyAccountant

    Outputs(is_forced=False).check("LEDGER", ledger, way_out="use the budget that it holds (skdpsynth budget show)")
    accountant = PrivacyAccountant(epsilon, delta, neighboring=neighboring, ledger=ledger, dataset=dataset)
    voice.done(_summary(ledger, accountant), f"Made {ledger}: epsilon {epsilon:g}, delta {delta:g}, {neighboring}. Nothing is spent.")


@budget.command("show")
@click.argument("ledger", type=click.Path())
@speaks
def show(voice: Voice, ledger: str) -> None:
    """Show what was spent from a LEDGER, on what, and what remains."""
    accountant = open_ledger(ledger)
    told, lines = _summary(ledger, accountant), accountant.to_frame("pyarrow").to_pylist()
    name = "" if accountant.dataset is None else f" of {accountant.dataset}"
    heading = (
        f"Budget{name} in {ledger}: spent epsilon {float(accountant.spent):g} of {float(accountant.epsilon):g}, delta "
        f"{float(accountant.spent_delta):g} of {float(accountant.delta):g}; epsilon {float(accountant.remaining):g} remains "
        f"({accountant.neighboring})."
    )
    # Fit for a terminal: `export` has the seconds, and the scales of the noise.
    table: list[tuple[str, ...]] = [("time", "name", "epsilon", "delta", "noise", "unit")]
    for line in lines:
        kinds = dict.fromkeys(each.partition("(")[0].removeprefix("Discrete") for each in (line["noise"] or "").split("; "))
        amounts = (f"{line[name]:g}" for name in ("epsilon", "delta"))
        table.append((line["time"][:16].replace("T", " "), line["name"], *amounts, ", ".join(kinds), line["unit"] or ""))
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    rows = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in table]
    voice.result({**told, "entries": lines}, "\n".join([heading, "", *rows, "", str(accountant.risk())]))


@budget.command("export", short_help="Write all charges of a LEDGER, as CSV or JSON.")
@click.argument("ledger", type=click.Path())
@click.option("--format", "form", type=click.Choice(["csv", "json"]), help="[default: by the end of the file, else csv]")
@options.OUTPUT
@options.FORCE
@speaks
def export(voice: Voice, ledger: str, form: str | None, out: str | None, force: bool) -> None:
    """Write a LEDGER for others: each charge, and below it what was released for it, with its noise."""
    Outputs(force, [ledger]).check("-o", out)
    accountant = open_ledger(ledger)
    lines = accountant.to_frame("pyarrow", parts=True).to_pylist()
    if (form or ("json" if voice.is_json or str(out).lower().endswith(".json") else "csv")) == "json":
        write_text(out, as_json({**_summary(ledger, accountant), "entries": lines}, indent=1))
        return
    text = io.StringIO()
    writer = csv.DictWriter(text, list(lines[0]) if lines else ["name", "epsilon", "delta"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    write_text(out, text.getvalue())


@budget.command("evidence", short_help="Write the evidence for each figure of a LEDGER, as JSON.")
@click.argument("ledger", type=click.Path())
@options.OUTPUT
@options.FORCE
@speaks
def evidence(voice: Voice, ledger: str, out: str | None, force: bool) -> None:
    """Write what each release of a LEDGER was, and all that its loss follows from, so that others can check it. No value is in it."""
    Outputs(force, [ledger]).check("-o", out)
    write_text(out, as_json(open_ledger(ledger).evidence(), indent=1))


@budget.command("check", short_help="Compute every figure of an EVIDENCE again.")
@click.argument("told", metavar="EVIDENCE", type=click.Path(exists=True, dir_okay=False))
@click.option("--strict", is_flag=True, help="Exit code 1 also if a line is loose or cannot be checked.")
@speaks
def check(voice: Voice, told: str, strict: bool) -> int:
    """Compute every sensitivity, loss and sum of an EVIDENCE again. Exit code 1 if a line is wrong."""
    from skdpsynth_evidence import check_evidence

    found = check_evidence(told)
    voice.result({"ok": found.ok, **asdict(found)}, str(found))
    return 0 if (found.is_exact if strict else found.ok) else CHECK_FAILED


def _summary(path: str, accountant: "PrivacyAccountant") -> dict[str, Any]:
    names = ("dataset", "neighboring", "epsilon", "delta", "spent", "spent_delta", "remaining")
    return {"ledger": path} | {name: getattr(accountant, name) for name in names}


@click.command(short_help="Test a promise: fit made-up tables many times.")
@click.argument("path", metavar="[MODEL]", required=False, type=click.Path())
@click.option("--schema", "stated", type=click.Path(), help="Public facts about columns, and the next four, in place of MODEL.")
@click.option("--epsilon", type=float, help="The promise.")
@options.DELTA
@options.NEIGHBORING
@options.METHOD
@click.option("--rows", type=click.IntRange(2), default=500, show_default=True, help="Rows of the made-up tables.")
@click.option("--trials", type=click.IntRange(20), default=400, show_default=True, help="Fits; more of them can show more.")
@click.option("--confidence", type=float, default=0.99, show_default=True, help="Probability with which the bound holds.")
@click.option("--released", is_flag=True, help="Look at what is released alone: much faster, but blind to leaks beside it.")
@click.option("--jobs", type=int, help="Processes.  [default: 1]")
@speaks
def audit(voice: Voice, path: str | None, rows: int, trials: int, confidence: float, released: bool, jobs: int | None, **given: Any) -> int:
    """Compute a lower bound on epsilon by fitting two made-up neighboring tables many times.

    The settings are those that MODEL was fitted with, or those of a method on a schema. No private row is read and nothing is charged.
    Exit code 1 if the promise was refuted; if not, that is no proof of it.
    """
    from sklearn.base import clone

    from skdpsynth.auditing import audit_epsilon, worst_case_neighbors
    from skdpsynth.domain import Schema

    if (path is None) == (given["stated"] is None):
        raise Refusal("audit takes either MODEL or --schema; give one of them")
    n_features = None
    if path is None:
        if given["epsilon"] is None:
            raise Refusal("--epsilon must go with --schema, because it is what is promised; add it")
        settings = {name: given[name] for name in ("epsilon", "delta", "neighboring")}
        estimator, method, why = choose_estimator(given["method"], Schema.of(given["stated"]).coded, None, **settings)
        say_method(voice, given["method"], method, why)
    else:
        model = open_model(path, "get_params")
        params = model.get_params(deep=False)
        alone: dict[str, Any] = {"accountant": None, "max_rows_per_unit": 1}  # and no columns of labels
        if params.get("schema") is not None:
            alone["schema"] = Schema.of(params["schema"]).coded
        else:
            n_features = getattr(model, "n_features_in_", None)
        estimator = clone(model).set_params(**{name: value for name, value in alone.items() if name in params})
    with voice.progress_bars():
        pair = worst_case_neighbors(estimator, rows, n_features=n_features)
        event = "released" if released else None
        result = audit_epsilon(estimator, *pair, event, n_trials=trials, confidence=confidence, n_jobs=jobs)
    voice.result({"is_broken": bool(result.is_broken), **asdict(result)}, str(result))
    return CHECK_FAILED if result.is_broken else 0
