"""The commands `schema ...` and `synthesize`, and the choice of a synthesizer by public facts alone."""

import json
import math
import os
from collections.abc import Hashable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import click

from skdpsynth.cli import _options as options
from skdpsynth.cli._options import STREAM, Outputs, Refusal, Voice, speaks, takes_read_options

if TYPE_CHECKING:  # these take a while to import, and help must not wait
    from sklearn.base import BaseEstimator

    from skdpsynth.domain import LinkedSchema, Schema
    from skdpsynth.frames import Table
    from skdpsynth.privacy import PrivacyAccountant
    from skdpsynth.tables import Findings

_MAX_PMM_COLUMNS = 4  # columns of numbers up to which cells of a box are best; measured by benchmarks/command_line.py


_GUESSED = "Kinds of files without dtypes are guessed from first rows: for your eyes only, until you have checked and stated each."


@click.group("schema", invoke_without_command=True)
@click.pass_context
def schema_group(context: click.Context) -> None:
    """Write a schema to fill in, or check a table against one."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@schema_group.command("init", short_help="Write the columns of a table and their kinds, to fill in.")
@click.argument("sources", metavar="INPUT...", nargs=-1, required=True, type=click.Path())
@click.option("-o", "--output", "out", type=click.Path(), help="A .yaml or .json file. Without it: standard output, as YAML.")
@click.option("--force", is_flag=True, help="Replace the file if it exists; what was filled in is lost.")
@click.option("--labels-are-public", "public", is_flag=True, help="Value labels, categories and bounds in metadata are public: write them.")
@click.option("--codebook", type=click.Path(), help="A table of variable, value and label (kind, low, high), which are public.")
@takes_read_options
@speaks
def init(
    voice: Voice, sources: tuple[str, ...], out: str | None, force: bool, public: bool, codebook: str | None, read: dict[str, Any]
) -> None:
    """Write the columns of a table and their kinds, with every bound and level open: no value of a row.

    Fill in what is public in place of each word open. Nothing of it may be taken from the rows. In a text file, a sheet or SQLite, kinds
    are guessed from the first 1000 rows, and the names come from the first line. All of this was read from rows: keep it to yourself
    until you have checked it. The separator, encoding and comment sign are guessed from the first lines and written under read.

    Several INPUTs are linked tables: the root first, and each called as its file, or NAME=INPUT. Columns of one name in two of them are
    proposed as the key by which the second hangs on the first.
    """
    from skdpsynth.domain import json_of, propose_links, yaml_of

    tables = {"": sources[0]} if len(sources) == 1 else options.name_tables(sources)
    Outputs(force, [*tables.values()]).check("-o", out, (".yaml", ".yml", ".json"))
    found = {name: _skeleton(path, public, codebook, read) for name, path in tables.items()}
    kinds = [kind for schema in found.values() for kind in schema.values()]
    facts = propose_links(found) if len(found) > 1 else json.loads(str(found[""].to_json()))
    if voice.is_json or str(out).lower().endswith(".json"):
        options.write_text(out, json_of({"note": _GUESSED, **facts}))
    else:
        text = yaml_of(facts, are_proposed=True)
        options.write_text(out, text if "# TODO" in text else f"# {_GUESSED}\n{text}")  # open facts come with the note
    place, n_open = "" if out in (None, STREAM) else f" to {out}", sum(kind.stand_in == "open" for kind in kinds)
    links = ", and by which keys tables hang on each other" if len(found) > 1 else ""
    voice.note(f"Wrote {len(kinds)} columns{place}, {n_open} of them with bounds or levels to fill in; check the kinds too{links}.")


def _skeleton(source: str, public: bool, codebook: str | None, read: dict[str, Any]) -> "Schema":
    from skdpsynth.domain import Schema

    with options.open_inputs([source]) as path:
        found = Schema.skeleton(path, public, read)
    if codebook is None:
        return found
    book = Schema.from_codebook(codebook)
    return Schema({name: book.get(name, kind) for name, kind in found.items()}, read=found.read)


@schema_group.command("check")
@click.argument("sources", metavar="INPUT...", nargs=-1, required=True, type=click.Path())
@options.SCHEMA
@options.WEIGHTS
@takes_read_options
@speaks
def check(voice: Voice, sources: tuple[str, ...], stated: str, weights: str | None, read: dict[str, Any]) -> int:
    """List the cells of a table that do not fit its schema. This READS THE ROWS: the result is not private.

    Exit code 1 if something was found. A fit says nothing about cells, because that would reveal them: it clips and counts as missing
    in silence. So look before it. It also counts the rows of linked tables that a fit leaves out. Weights beyond their cap are a note.
    """
    from skdpsynth.domain import Schema

    facts = options.open_statement(stated, read)
    if weights is not None and not (isinstance(facts, Schema) and weights in map(str, facts)):
        raise Refusal(f"--weights must be a column of --schema, of one table, got {weights!r}; give its name")
    if isinstance(facts, Schema):
        with options.open_inputs(sources) as table:
            told, text = _tell(facts.check(table), facts, weights)
        found = told["findings"]
    else:
        checked = facts.check(options.name_tables(sources, facts.schemas))
        parts = {name: _tell(each, facts.schemas[name]) for name, each in checked.items()}
        told = {"tables": {name: each for name, (each, _) in parts.items()}}
        text = "\n".join(f"{name}: {each}" for name, (_, each) in parts.items())
        found = [finding for each in told["tables"].values() for finding in each["findings"]]
    voice.result({"private": False, **told}, text)
    return options.CHECK_FAILED if found else 0


def _tell(findings: "Findings", facts: "Schema", weights: str | None = None) -> tuple[dict[str, Any], str]:
    """Return the findings of a table, as a dict and as text; that weights are clipped, which a cap is for, is a note."""
    clipped = tuple(each for each in findings if str(each.column) == weights and each.problem == "clipped")
    findings = replace(findings, findings=tuple(each for each in findings if each not in clipped), notes=(*findings.notes, *clipped))
    found, notes = (
        tuple(replace(each, told=options.in_words_of_commands(options.with_rules_of_files(each.told, facts))) for each in part)
        for part in (findings, findings.notes)
    )
    told = {"rows": findings.n_samples, "findings": list(map(asdict, found)), "notes": list(map(asdict, notes))}
    return told, str(type(findings)(findings.n_samples, found, notes))


@click.command(short_help="Learn a table, and write synthetic rows.")
@click.argument("sources", metavar="INPUT...", nargs=-1, required=True, type=click.Path())
@options.SCHEMA
@options.EPSILON
@options.DELTA
@options.NEIGHBORING
@options.UNIT
@options.MAX_ROWS
@options.METHOD
@options.STRATIFY
@options.WEIGHTS
@click.option("--rows", type=click.IntRange(1), help="How many synthetic rows. [default: as many as the table has]")
@options.TABLE
@click.option("--card", "page", type=click.Path(), help="Write a release card there, an .html file to publish beside the rows.")
@options.TITLE
@click.option("--ledger", type=click.Path(), help="The budget to charge, from `budget init`.")
@click.option("--model", "kept", type=click.Path(), help="Keep the fitted model there, to draw more rows for free.")
@options.FORCE
@takes_read_options
@speaks
def synthesize(voice: Voice, sources: tuple[str, ...], stated: str, read: dict[str, Any], **given: Any) -> None:
    """Learn a table under differential privacy, and write synthetic rows.

    All of epsilon is spent by one run, on the whole table; more rows of the same --model are free. With --ledger the charge is on the
    disk before noise is drawn, and stays there whatever happens afterwards.

    A --schema with tables takes an INPUT for each, called as its file, or NAME=INPUT, and -o is a folder with a file for each. A row of
    the root is protected with all that hang on it, and --rows says how many of these there are.
    """
    out, page, kept, ledger, n_rows = (given[name] for name in ("out", "page", "kept", "ledger", "rows"))
    schema = options.open_statement(stated, read)
    settings = {name: given[name] for name in ("epsilon", "delta", "neighboring")} | {"max_rows_per_unit": given["most"] or 1}
    tables = options.name_tables(sources, schema.schemas) if hasattr(schema, "schemas") else {}
    _check_places(voice, [*(tables.values() or sources), stated], given, tables)
    estimator, method, why = choose_estimator(given["method"], schema, given["unit"], given["stratify"], given["weights"], **settings)
    accountant = None if ledger is None else _check_ledger(ledger, estimator)
    say_method(voice, given["method"], method, why)
    estimator.set_params(accountant=accountant)
    with _report_charges(accountant, ledger):
        with nullcontext(tables) if tables else options.open_inputs(sources) as table, voice.progress_bars():
            model = estimator.fit(_fit_input(table, estimator, schema), unit=given["unit"])
        if kept is not None:
            model.save(kept)
        where = options.write_sample(model, n_rows, out, options.output_files(tables))
        if page is not None:
            from skdpsynth.report import card

            out_files = [os.path.join(out, name) for name in options.output_files(tables).values()] if tables else [out] * (out != STREAM)
            card(model, title=given["title"], files=out_files).save(page)
    record = model.accountant_
    if n_rows is None and record.neighboring == "replace_one":
        n_rows = model.n_samples_
    told = {"method": method, "why": why, "rows": n_rows, "output": out, "model": kept, "card": page, "epsilon": record.spent}
    told |= {"delta": record.spent_delta, "neighboring": record.neighboring, "unit": record.unit, "ledger": ledger}
    told["remaining"] = None if accountant is None else accountant.remaining
    whom = "NOT PRIVATE, because there is no noise" if record.spent == math.inf else f"protects one {record.unit or 'row'}"
    left = "" if accountant is None else f"; {float(accountant.remaining):g} of {float(accountant.epsilon):g} remain in {ledger}"
    voice.done(
        told,
        f"Wrote {options.count_rows(n_rows)} to {where}. Spent epsilon {float(record.spent):g}, delta "
        f"{float(record.spent_delta):g}, {record.neighboring}; {whom}{left}.",
    )


def _check_places(voice: Voice, read: list[str], given: dict[str, Any], tables: dict[str, str]) -> None:
    """Refuse unwritable outputs before any row is read."""
    alone = {"--unit": "unit", "--max-rows-per-unit": "most", "--stratify": "stratify", "--weights": "weights", "--method": "method"}
    if tables and (wrong := [option for option, name in alone.items() if given[name] not in (None, "auto")]):
        raise Refusal(f"{wrong[0]} must go with one table alone, but --schema has {len(tables)}; leave it out")
    if given["title"] is not None and given["page"] is None:
        raise Refusal("--title must go with --card, the page that it is for; add it")
    if given["most"] is not None and given["unit"] is None:
        raise Refusal("--max-rows-per-unit must go with --unit, the column that says whose row it is; add it")
    places = Outputs(given["force"], read if given["ledger"] is None else [*read, given["ledger"]])
    places.check_table(given["out"], voice, options.output_files(tables))
    places.check_page("--card", given["page"])
    places.check("--model", given["kept"])
    for option, path in (("--card", given["page"]), ("--model", given["kept"])):
        if path == STREAM:
            raise Refusal(f"{option} must name a file, got '-'; the rows may go to standard output")


def _check_ledger(path: str, estimator: "BaseEstimator") -> "PrivacyAccountant":
    """Open a ledger that can pay for a run, and refuse any other before a row is read."""
    from skdpsynth.exceptions import BudgetExceededError
    from skdpsynth.synthesis import PrivateMeasureMechanism

    accountant = options.open_ledger(path)
    if accountant.neighboring != estimator.neighboring:
        raise ValueError(
            f"--neighboring must be that of the ledger {path}, {accountant.neighboring!r}, got {estimator.neighboring!r}; use one relation."
        )
    # The plan of the fit decides which of these it is charged as, and the fit asks again before it draws.
    delta, refused = 0.0 if isinstance(estimator, PrivateMeasureMechanism) else estimator.delta, []
    for rho in (None, "gaussian", "zcdp") if delta else (None,):
        try:
            accountant.check_affordable(estimator.epsilon, delta, name="synthesize", rho=rho)
            return accountant
        except (BudgetExceededError, ValueError) as error:
            refused.append(error)
    raise refused[0]


@contextmanager
def _report_charges(accountant: "PrivacyAccountant | None", path: str | None) -> Iterator[None]:
    """Print the charges of a run that breaks; they stay, because noise may have been seen."""
    from skdpsynth.exceptions import BudgetExceededError

    before = 0 if accountant is None else accountant.spent
    try:
        yield
    except BaseException as error:
        # A refused run was charged nothing: others spent the difference.
        if accountant is not None and accountant.spent > before and not isinstance(error, BudgetExceededError):
            click.echo(
                f"The budget {path} was charged before the run broke, and stays so: spent epsilon {float(before):g} before, "
                f"{float(accountant.spent):g} of {float(accountant.epsilon):g} now.",
                err=True,
            )
        raise


def _fit_input(table: "Table", estimator: "BaseEstimator", schema: Any) -> Any:
    """Wrap a table for estimators that take only numbers, because the schema knows which of them are whole."""
    import numpy as np

    from skdpsynth.frames import open_source

    if isinstance(table, dict) or hasattr(estimator, "schema"):
        return table
    source = open_source(table, read=schema.read, skips_damaged=estimator.neighboring != "replace_one", wanted=list(schema))
    source.number_dtypes = {name: np.dtype(np.int64) for name, kind in schema.items() if getattr(kind, "integer", False)}
    return source


def choose_estimator(
    method: str, schema: "Schema | LinkedSchema", unit: str | None, stratify: Hashable = None, weights: Hashable = None, **settings: Any
) -> tuple[Any, str, str]:
    """Return an unfitted synthesizer, its method, and the reason for the choice."""
    from skdpsynth.domain import Schema
    from skdpsynth.synthesis import LatentFactorSynthesizer, LinkedTablesSynthesizer, LowDimSynthesizer, PrivateMeasureMechanism

    if not isinstance(schema, Schema):
        settings.pop("max_rows_per_unit")
        return LinkedTablesSynthesizer(schema, **settings), "linked-tables", "the schema has several tables"
    names: dict[Hashable, Hashable] = {str(name): name for name in schema}
    stratify, weights, kinds = names.get(stratify, stratify), names.get(weights, weights), modeled_schema(schema, unit)
    method, why = choose_method(method, kinds, stratify, settings["delta"], weights)
    if method == "latent-factor":
        return LatentFactorSynthesizer(schema, stratify=stratify, weights=weights, **settings), method, why
    bounds = {name: (kind.low, kind.high) for name, kind in kinds.items()}
    return (PrivateMeasureMechanism if method == "pmm" else LowDimSynthesizer)(bounds=bounds, **settings), method, why


def choose_method(method: str, kinds: "Schema", stratify: Hashable, delta: float, weights: Hashable = None) -> tuple[str, str]:
    """Choose a method, with a reason, by the kinds and the number of the learned columns and by delta."""
    from skdpsynth.domain import Continuous

    if method == "latent-factor":
        return method, "as asked"
    plain = [name for name, kind in kinds.items() if isinstance(kind, Continuous) and kind.stand_in is None and not kind.nullable]
    # A column that is left out counts last: it is no reason that users look for.
    odd = sorted((name for name in kinds if name not in plain), key=lambda name: kinds[name].coded is None)
    needed = refusal = None  # why it must be the latent factors
    if stratify is not None or weights is not None:
        needed = "--stratify counts each class apart" if weights is None else "--weights counts rows by theirs"
        refusal = f"{needed.split()[0]} goes with --method latent-factor alone, got {method!r}; leave one of them out"
    elif odd:
        is_left_out = kinds[odd[0]].coded is None
        has_other = "columns that are left out" if is_left_out else f"other columns than plain numbers, {str(odd[0])!r} for one"
        needed = f"the schema has {has_other}"
        refusal = f"--method {method} takes numbers with bounds and without missing cells alone, but the schema says otherwise of column "
        refusal += f"{str(odd[0])!r}; use --method latent-factor"
    elif kinds.rules:
        needed = "the schema has rules, which no other method keeps"
        refusal = f"--method {method} keeps no rules, but the schema has {len(kinds.rules)}; use --method latent-factor"
    if method != "auto":
        if refusal is not None:
            raise Refusal(refusal)
        return method, "as asked"
    if needed is not None:
        return "latent-factor", needed
    has_numbers = f"the schema has {len(kinds)} column{'s' * (len(kinds) != 1)}, all numbers,"
    if len(kinds) <= _MAX_PMM_COLUMNS:
        return "pmm", f"{has_numbers} and up to {_MAX_PMM_COLUMNS} cells of their box are most accurate"
    if delta:
        return "latent-factor", f"{has_numbers} and with delta above 0 counts of pairs are accurate"
    return "lowdim", f"{has_numbers} too many for pure noise on pairs of them"


def say_method(voice: Voice, asked: str, method: str, why: str) -> None:
    if asked == "auto":
        voice.note(f"Method {method}: {why}.")


def modeled_schema(schema: "Schema", unit: str | None) -> "Schema":
    """Leave out the column of units and the rules that name it."""
    from skdpsynth.domain import Schema

    columns = {name: kind for name, kind in schema.items() if str(name) != unit}
    return Schema(columns, [rule for rule in schema.rules if columns.keys() >= set(rule.columns_named)], schema.read)
