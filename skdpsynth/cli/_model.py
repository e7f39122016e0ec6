"""Commands on a fitted model: `sample`, `card`, `impute`, `interval` and `evaluate`."""

import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import click

from skdpsynth._text import join_words
from skdpsynth.cli import _options as options
from skdpsynth.cli._options import (
    STREAM,
    Outputs,
    Refusal,
    Voice,
    open_inputs,
    open_ledger,
    open_model,
    open_schema,
    speaks,
    takes_read_options,
    write_rows,
)

if TYPE_CHECKING:  # these take a while to import, and help must not wait
    import numpy as np
    from sklearn.base import BaseEstimator

    from skdpsynth.domain import LinkedSchema, Schema
    from skdpsynth.frames import Table
    from skdpsynth.privacy import SecretSample

_NOT_PRIVATE = "NOT PRIVATE: this reads the real rows without protection. Keep it as secret as they are."
_HOW_TO_EVALUATE = "evaluate takes SYNTHETIC with --schema, or --model alone, which draws rows and knows its schema; give these"
_SAMPLE_HELP = "How a secret sample was drawn, poisson or simple_random, and its rate, n/N: the card adds a figure for the population."
_LOOK, _FEW = 10_000, 1e-3  # rows of a sample, and the share of them that a group must have


def takes_interval_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add options that ask for means and shares with their intervals."""
    for option in (
        click.option("--refits", type=click.IntRange(8, 10_000), default=40, show_default=True, help="Fits; more make the ends steadier."),
        click.option("--confidence", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.95, show_default=True),
        click.option("--by", metavar="COLUMN", help="Do so in each group of rows that have the same level of this column."),
        click.option("--share", "shares", multiple=True, metavar="COLUMN", help="Share of each level of a column; may be given again."),
        click.option("--mean", "means", multiple=True, metavar="COLUMN", help="Mean of the known numbers of a column; may be given again."),
    ):
        command = option(command)
    return command


@click.command()
@click.argument("path", metavar="MODEL", type=click.Path())
@click.option("-n", "--rows", type=click.IntRange(1), help="How many. [default: as many as the table had]")
@options.TABLE
@options.FORCE
@speaks
def sample(voice: Voice, path: str, rows: int | None, out: str, force: bool) -> None:
    """Draw rows of a model that `synthesize --model` kept. It costs no privacy.

    A model of linked tables draws --rows of its root, with all that hang on them, into a folder of .csv files.
    """
    model = open_model(path, "sample")
    files = options.output_files(dict.fromkeys(model.schemas_, ".csv")) if hasattr(model, "links") else {}
    Outputs(force, [path]).check_table(out, voice, files)
    where = options.write_sample(model, rows, out, files)
    voice.done({"rows": rows, "output": out}, f"Wrote {options.count_rows(rows)} to {where}, at no cost of privacy.")


@click.command(short_help="Write the public card of a model or a ledger, an .html page.")
@click.argument("path", metavar="MODEL_OR_LEDGER", type=click.Path())
@click.option("-o", "--output", "page", required=True, type=click.Path(), help="An .html file.")
@options.TITLE
@click.option(
    "--file", "files", multiple=True, type=click.Path(exists=True, dir_okay=False), help="A synthetic file to name, with its SHA-256."
)
@click.option("--sample", "drawn", nargs=2, metavar="DESIGN RATE", help=_SAMPLE_HELP)
@takes_interval_options
@options.FORCE
@speaks
def card(
    voice: Voice, path: str, page: str, title: str | None, files: tuple[str, ...], drawn: tuple[str, str] | None, force: bool, **asked: Any
) -> None:
    """Write the public card of a model, or of a whole ledger: what was released, what it promises, and what it does not.

    The card of a model shows what this model was charged, that of a ledger all that was charged. With --mean and --share it shows intervals
    too, at no cost of privacy. With --json it prints the same in the fields of the registry of deployments. Give no file of the fit as
    --file: its hash must not be published.
    """
    Outputs(force, [path, *files]).check_page("-o", page)
    is_ledger = False
    if os.path.isfile(path):
        with open(path, "rb") as file:
            is_ledger = file.read(16) == b"SQLite format 3\0"
    from skdpsynth.report import card as made_of

    secret = None if drawn is None else _secret_sample(*drawn)
    thing: Any = open_ledger(path) if is_ledger else open_model(path, "interval" if asked["means"] or asked["shares"] else None)
    if is_ledger and (asked["means"] or asked["shares"]):
        raise Refusal("--mean and --share must go with MODEL, but this is a ledger; leave them out")
    found = _estimate(voice, thing, **asked) if asked["means"] or asked["shares"] else None
    made = made_of(thing, title=title, files=files, interval=found, sample=secret)
    made.save(page)
    voice.done({"card": page, "registry": made.to_registry()}, f"Wrote {page}; it holds nothing but noisy results and synthetic rows.")


def _secret_sample(design: str, rate: str) -> "SecretSample":
    from skdpsynth.privacy import SecretSample

    try:
        n, _, of = rate.partition("/")
        return SecretSample(design, Fraction(str(float(n))) / Fraction(str(float(of or 1))))  # floats have no huge exponents
    except (ValueError, ZeroDivisionError) as error:
        raise Refusal(
            f"--sample must be poisson or simple_random, and a rate as 6000/750000 or 0.008, got {design!r} and {rate!r}"
        ) from error


@click.command(short_help="Fill the missing cells of your own rows: as secret as they are.")
@click.argument("path", metavar="MODEL", type=click.Path())
@click.argument("source", metavar="INPUT", type=click.Path())
@options.TABLE
@click.option("--complete", is_flag=True, help="Fill cells too to which rules leave no value: against the rules.")
@options.FORCE
@speaks
def impute(voice: Voice, path: str, source: str, out: str, complete: bool, force: bool) -> None:
    """Fill the missing cells of INPUT by draws from a model, given the other cells of each row.

    It costs no privacy, but the result is INPUT with some cells more: as secret as it was, and no synthetic data.
    """
    if path == source == STREAM:
        raise Refusal("MODEL and INPUT must not both be '-', because there is one standard input; write one of them to a file")
    Outputs(force, [path, source]).check_table(out, voice)
    model = open_model(path, "impute")
    with open_inputs([source]) as place:
        filled = model.impute(_read_cells(place, model.schema_), complete=complete)
    from skdpsynth.frames import check_output_path, output_suffix, write_table

    where = write_rows(lambda place: write_table(check_output_path(place), filled, [filled], output_suffix(place)), out)
    voice.done(
        {"rows": len(filled), "output": out},
        f"Wrote {options.count_rows(len(filled))} to {where}. NOT PRIVATE: as secret as INPUT.",
    )


def _read_cells(place: str, schema: "Schema") -> Any:
    """Return a file as a table of Arrow; in columns of text a cell is missing that is none, or no number among numbers."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    from skdpsynth.domain import Continuous, Derived, as_nullable
    from skdpsynth.frames import MISSING_WORDS, open_source, split_columns
    from skdpsynth.tables import numbers_of, read_column

    source = open_source(place, "INPUT", read=schema.read)
    chunks = [*source.chunks()]
    if not chunks:
        raise Refusal("INPUT must have rows, but has none; give those whose missing cells you want filled")
    table = pa.concat_tables(chunks)
    if not source.is_text:
        return table
    if source.n_damaged:
        raise Refusal("INPUT has damaged lines, of which no cell is known; schema check counts them")
    mark = schema.read.get("decimal", ".") + schema.read.get("thousands", "")
    columns: list[Any] = []
    for column in split_columns(table)[1]:
        kind = schema.get(column.name)
        levels: Any = getattr(kind, "words", None) or getattr(kind, "levels", ())
        if isinstance(kind, Continuous | Derived):
            numbers = numbers_of(column, mark)
            is_whole = getattr(kind, "integer", False) and np.all(np.isnan(numbers) | (numbers == np.rint(numbers)))
            found = pa.array(numbers, from_pandas=True)
            columns.append(found.cast(pa.int64()) if is_whole else found)
        elif not all(isinstance(level, str) for level in levels):
            columns.append(pa.array([*levels, None]).take(pa.array(read_column(column, as_nullable(kind), "String", is_text=True))))
        else:
            cells = column.to_native()
            columns.append(pc.if_else(pc.is_in(cells, pa.array(MISSING_WORDS)), pa.scalar(None, pa.string()), cells))
    return pa.table(columns, names=table.column_names)


@click.command(short_help="Estimate means and shares of the population, with intervals.")
@click.argument("path", metavar="MODEL", type=click.Path())
@takes_interval_options
@speaks
def interval(voice: Voice, path: str, **asked: Any) -> None:
    """Estimate means and shares of the population from a model, with confidence intervals. It costs no privacy.

    The mechanism is run again and again on rows of the model, so that the intervals include the noise, and what the model leaves out. Of
    linked tables name columns of one, as person.age.
    """
    if not asked["means"] and not asked["shares"]:
        raise Refusal("interval must have a --mean or a --share of a column; give one")
    found = _estimate(voice, open_model(path, "interval"), **asked)
    parts = {"name": found.names, "estimate": found.estimate, "low": found.low, "high": found.high, "error": found.error}
    lines = [dict(zip(parts, line, strict=True)) for line in zip(*parts.values(), strict=True)]
    voice.result({"confidence": asked["confidence"], "intervals": lines}, str(found))


def _estimate(
    voice: Voice, model: "BaseEstimator", means: tuple[str, ...], shares: tuple[str, ...], by: str | None, confidence: float, refits: int
) -> Any:
    asked = {"--mean": means, "--share": shares, "--by": () if by is None else (by,)}
    schema, pick, start = _pick_table(model, [*means, *shares, *asked["--by"]])
    columns = ([_find_column(schema, option, name.removeprefix(start)) for name in names] for option, names in asked.items())
    statistic, limits = _make_statistic(schema, pick(model.sample(_LOOK)), *columns)
    with voice.progress_bars():
        found = model.interval(lambda drawn: statistic(pick(drawn)), confidence, n_refits=refits)
    return replace(found, **{part: getattr(found, part).clip(*limits) for part in ("estimate", "low", "high")})


def _pick_table(model: "BaseEstimator", names: Sequence[str]) -> tuple["Schema", Callable[[Any], Any], str]:
    """Return the schema of the table whose columns are named, what takes it out of a sample, and how its columns' names begin."""
    if not hasattr(model, "schemas_"):
        return model.schema_, lambda drawn: drawn, ""
    tables = [{table for table in model.schemas_ if name.startswith(f"{table}.")} for name in names]
    if not (table := set.intersection(*tables)):
        example = f"{next(iter(model.schemas_))}.COLUMN"
        raise Refusal(f"--mean, --share and --by must name columns of one table of MODEL, as {example}, got {join_words(names, 'and')}")
    picked = max(table, key=len)
    return model.schemas_[picked], lambda drawn: drawn[picked], f"{picked}."


def _find_column(schema: "Schema", option: str, name: str) -> Any:
    """Return a column by the word that names it, of numbers for means and of levels for all else."""
    from skdpsynth.domain import Continuous

    column = {str(each): each for each in schema}.get(name)
    kind = None if column is None else schema[column]
    levels = getattr(kind, "words", None) or getattr(kind, "levels", ())
    has_numbers = isinstance(kind, Continuous) or (levels and not any(isinstance(level, str) for level in levels))
    if not (has_numbers if option == "--mean" else levels):
        what, other = ("numbers", "--share") if option == "--mean" else ("levels", "--mean")
        got = "which MODEL has not" if kind is None else f"which is {type(kind).__name__.lower()}"
        raise Refusal(f"{option} must name a column of {what}, got {name!r}, {got}; name another, or give {other}")
    return column


def _make_statistic(
    schema: "Schema", look: "Table", means: Sequence[Any], shares: Sequence[Any], by: Sequence[Any]
) -> tuple[Callable[[Any], dict[str, float]], "np.ndarray"]:
    """Return the means and shares as a function of a table, and their limits; groups that hardly any row is in are left out."""
    import numpy as np

    from skdpsynth.domain import as_nullable
    from skdpsynth.tables import columns_of

    schema = schema.with_kinds({name: as_nullable(kind) for name, kind in schema.items()})
    levels: dict[Any, Any] = {name: getattr(kind, "words", None) or getattr(kind, "levels", ()) for name, kind in schema.items()}
    ends: dict[str, Any] = {f"mean of {name}": levels[name] or (schema[name].low, schema[name].high) for name in means}

    def parts_of(table: "Table") -> dict[str, tuple[float, float, int, str]]:
        """Return by name the statistic of a group, the same of all rows, the number of known cells of the group, and what it is of all."""
        read = columns_of(table, schema, "MODEL")
        columns = {f"mean of {name}": np.array([*levels[name], np.nan])[read[name]] if levels[name] else read[name] for name in means}
        columns |= {f"share of {name} {level}": 1.0 * (read[name] == i) for name in shares for i, level in enumerate(levels[name])}
        groups = {f", {name} {level}": read[name] == i for name in by for i, level in enumerate(levels[name])}
        found = {}
        for where, rows in (groups or {"": slice(None)}).items():
            for what, cells in columns.items():
                known = [some[~np.isnan(some)] for some in (cells[rows], cells)]
                here, everywhere = (float(some.mean()) if len(some) else 0.0 for some in known)
                found[f"{what}{where}"] = here, everywhere, len(known[0]), what
        return found

    names = {name: ends.get(what, (0, 1)) for name, (*_, n, what) in parts_of(look).items() if n >= _FEW * _LOOK}
    if not names:
        raise Refusal("--mean and --share must be of columns in which cells are known, got none; name others")

    def statistic(table: "Table") -> dict[str, float]:
        parts = parts_of(table)
        return {name: parts[name][0] if parts[name][2] else parts[name][1] for name in names}  # a group without rows is as all are

    return statistic, np.array([(min(some), max(some)) for some in names.values()]).T


@click.command(short_help="Compare synthetic rows with real ones: not private.")
@click.argument("sources", metavar="REAL... [SYNTHETIC]", nargs=-1, required=True, type=click.Path())
@click.option("--schema", "stated", type=click.Path(), help="Public facts about the columns; or --model, which knows them.")
@click.option("--model", "kept", type=click.Path(), help="A file of synthesize --model; it draws rows where SYNTHETIC is left out.")
@click.option("--target", help="The column that a model will predict; scores of a model trained on synthetic and on real rows.")
@click.option("--holdout", type=click.Path(), help="Rows not in the fit, where REAL are those of it: attack both, and compare.")
@click.option("--known", multiple=True, metavar="COLUMN", help="With --holdout: what an attacker knows of each row; may be given again.")
@click.option("-o", "--output", "page", type=click.Path(), help="Write a private page too, an .html file; as secret as the rows.")
@options.FORCE
@takes_read_options
@speaks
def evaluate(voice: Voice, sources: tuple[str, ...], read: dict[str, Any], force: bool, **given: Any) -> None:
    """Compare synthetic rows, or those of a model, with real ones. This READS THE REAL ROWS: the result is not private.

    With --holdout it attacks REAL and rows set aside, as a red team does, and compares with what the ledger of --model allows.

    REAL and SYNTHETIC are a file each. Linked tables take a REAL for each, called as its file, or NAME=REAL, and SYNTHETIC is the folder
    that synthesize wrote.
    """
    holdout, stated, kept, page = (given[name] for name in ("holdout", "stated", "kept", "page"))
    paths = {**dict(zip(("REAL", "SYNTHETIC"), sources, strict=False)), "--model": kept, "--holdout": holdout}
    paths = {name: path for name, path in paths.items() if path is not None}
    if (stated is None) == (kept is None):
        raise Refusal(_HOW_TO_EVALUATE)
    if list(paths.values()).count(STREAM) > 1:
        names = join_words([*paths], "and")
        raise Refusal(f"{names} must not both be '-', because there is one standard input; write one of them to a file")
    if given["known"] and holdout is None:
        raise Refusal("--known must go with --holdout, the rows that attacks compare with; add it")
    Outputs(force, [*sources, *paths.values(), stated or STREAM]).check_page("-o", page)
    model = None if kept is None else open_model(kept, "sample")
    facts: Any = options.open_statement(stated, read) if model is None else model
    quality, evidence, display = (_compare_linked if hasattr(facts, "schemas") else _compare)(sources, model, facts, read, given)
    if page is not None:
        from skdpsynth.report import quality_page

        quality_page(quality, evidence=evidence, display=display).save(page)
    result: dict[str, Any] = {"private": False, "warning": _NOT_PRIVATE, "measures": quality.to_records()}
    if evidence is not None:
        found = {"found": evidence.findings, "refuted": evidence.refuting}
        result["evidence"] = {**found, "measures": evidence.to_records(), "words": str(evidence)}
    voice.result(result, f"{_NOT_PRIVATE}\n{quality}" + (f"\n\n{evidence}" if evidence is not None else ""))


def _compare(
    sources: Sequence[str], model: "BaseEstimator | None", facts: "Schema | BaseEstimator", read: dict[str, Any], given: dict[str, Any]
) -> tuple[Any, Any, Any]:
    """Return the quality of synthetic rows, how attacks do if there is a holdout, and pictures if there is a page."""
    from skdpsynth.auditing import privacy_evidence
    from skdpsynth.frames import open_source
    from skdpsynth.metrics import quality_report

    if len(sources) != (2 if model is None else 1):
        raise Refusal(_HOW_TO_EVALUATE)
    known: Any = facts if model is None else getattr(model, "schema_", None)
    schema: Any = None if known is None else open_schema(known, read)
    names: dict[str, Any] = {str(name): name for name in schema or ()}
    column = names.get(given["target"], given["target"])
    with open_inputs(sources[:1]) as rows, nullcontext(model) if model is not None else open_inputs(sources[1:]) as made:
        rows = open_source(rows, "REAL", read=read if schema is None else schema.read)
        if model is None:
            made = _open_synthetic(made, schema)
        quality = quality_report(rows, made, schema, target=column) if model is None else model.evaluate(rows, target=column)
        display = None
        if given["page"] is not None:
            from skdpsynth.plotting import SynthesisDisplay

            display = SynthesisDisplay.from_samples(made if model is None else model._sample_as_data(_LOOK, None), schema, rows)
        if given["holdout"] is None:
            return quality, None, display
        known = [names.get(name, name) for name in given["known"]] or None
        with open_inputs([given["holdout"]]) as others:
            return quality, privacy_evidence(made, rows, others, schema, known=known), display


def _compare_linked(
    sources: Sequence[str],
    model: "BaseEstimator | None",
    facts: "LinkedSchema | BaseEstimator",
    read: dict[str, Any],
    given: dict[str, Any],
) -> tuple[Any, None, None]:
    from skdpsynth.frames import open_source
    from skdpsynth.metrics import linked_report

    if wrong := [name for name in ("target", "holdout") if given[name] is not None]:
        raise Refusal(f"--{wrong[0]} must go with one table alone, but these are linked; leave it out")
    *real, folder = sources if model is None else (*sources, "")
    if model is None and not (real and os.path.isdir(folder)):
        raise Refusal(
            f"SYNTHETIC must be the folder of linked tables that synthesize wrote, after each file of REAL, got {folder!r}; name it"
        )
    schemas = facts.schemas if model is None else {name: open_schema(each, read) for name, each in model.schemas_.items()}
    paths = options.name_tables(real, schemas, "REAL")
    rows = {name: open_source(path, f"REAL of table {name!r}", read=schemas[name].read) for name, path in paths.items()}
    if model is not None:
        return model.evaluate(rows), None, None
    paths = options.name_tables([os.path.join(folder, name) for name in sorted(os.listdir(folder))], schemas, "SYNTHETIC")
    made = {name: _open_synthetic(path, schemas[name]) for name, path in paths.items()}
    return linked_report(rows, made, schemas, facts.links), None, None


def _open_synthetic(place: str | None, schema: "Schema") -> Any:
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
