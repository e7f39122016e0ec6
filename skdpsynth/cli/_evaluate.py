"""The command `evaluate`."""

import math
from contextlib import nullcontext
from typing import Any

import click

from skdpsynth._text import join_words
from skdpsynth.cli._files import STREAM, Outputs, open_inputs
from skdpsynth.cli._models import open_synthesizer
from skdpsynth.cli._output import Refusal, Voice, add_output_options
from skdpsynth.cli._read_options import add_read_options, open_schema, open_synthetic

_NOT_PRIVATE = "NOT PRIVATE: this reads the real rows without protection. Keep it as secret as they are."


@click.command(short_help="Compare synthetic rows with real ones: not private.")
@click.argument("real", type=click.Path())
@click.argument("synthetic", required=False, type=click.Path())
@click.option("--schema", "stated", type=click.Path(), help="What is public about the columns; or --model, which knows it.")
@click.option("--model", "kept", type=click.Path(), help="What synthesize --model wrote; it draws rows where SYNTHETIC is left out.")
@click.option("--target", help="The column that a model shall predict; scores of a model trained on synthetic and on real rows.")
@click.option("--holdout", type=click.Path(), help="Rows not in the fit, where REAL are those of it: attack both, and compare.")
@click.option("-o", "--output", "page", type=click.Path(), help="Write a page too, an .html file; as secret as the rows.")
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@add_read_options
@add_output_options
def evaluate(voice: Voice, real: str, synthetic: str | None, target: str | None, page: str | None, **given: Any) -> None:
    """Compare synthetic rows, or those of a model, with real ones. This READS THE REAL ROWS: the result is not private."""
    holdout, stated, kept = given["holdout"], given["stated"], given["kept"]
    if not (synthetic is None) == (stated is None) == (kept is not None):
        raise Refusal("evaluate takes SYNTHETIC with --schema, or --model alone, which draws rows and knows its schema; give these")
    read = {"REAL": real, "SYNTHETIC": synthetic, "--model": kept, "--holdout": holdout}
    read = {name: path for name, path in read.items() if path is not None}
    if [*read.values()].count(STREAM) > 1:
        names = join_words([*read], "and")
        raise Refusal(f"{names} must not both be '-', because there is one standard input; write one of them to a file")
    if page is not None:
        Outputs(given["force"], [*read.values(), stated or STREAM]).check("-o", page, (".html", ".htm"))
        from skdpsynth.report import quality_page
    from skdpsynth.auditing import privacy_evidence
    from skdpsynth.frames import open_source
    from skdpsynth.metrics import quality_report

    model = None if kept is None else open_synthesizer(kept)
    known: Any = getattr(model, "schema_", stated)
    schema = None if known is None else open_schema(known, given["read"])
    options = given["read"] if schema is None else schema.read
    column: Any = None if target is None else {str(name): name for name in schema or ()}.get(target, target)
    with open_inputs([real]) as rows, nullcontext(model) if synthetic is None else open_inputs([synthetic]) as place:
        rows, made = open_source(rows, "REAL", read=options), place if schema is None or place is model else open_synthetic(place, schema)
        quality = quality_report(rows, made, schema, target=column) if model is None else model.evaluate(rows, target=column)
        evidence = None
        if holdout is not None:
            with open_inputs([holdout]) as others:
                evidence = privacy_evidence(made, rows, others, schema)
    if page is not None:
        quality_page(quality, evidence=evidence).save(page)
    lines = quality.to_records()
    measures = [{name: None if isinstance(cell, float) and math.isnan(cell) else cell for name, cell in line.items()} for line in lines]
    result: dict[str, Any] = {"private": False, "warning": _NOT_PRIVATE, "measures": measures}
    if evidence is not None:
        result["evidence"] = {"found": evidence.found, "measures": evidence.to_records(), "words": str(evidence)}
    voice.result(result, f"{_NOT_PRIVATE}\n{quality}" + (f"\n\n{evidence}" if evidence is not None else ""))
