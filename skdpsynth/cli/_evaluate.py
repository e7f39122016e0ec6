"""The command `evaluate`."""

import math
from typing import Any

import click

from skdpsynth.cli._files import STREAM, Outputs, open_inputs
from skdpsynth.cli._output import Refusal, Voice, add_output_options
from skdpsynth.cli._read_options import add_read_options, open_schema, open_synthetic

_NOT_PRIVATE = "NOT PRIVATE: this reads the real rows without protection. Keep it as secret as they are."


@click.command(short_help="Compare synthetic rows with real ones: not private.")
@click.argument("real", type=click.Path())
@click.argument("synthetic", type=click.Path())
@click.option("--schema", "stated", required=True, type=click.Path(), help="What is public about the columns.")
@click.option("--target", help="The column that a model shall predict; scores of a model trained on synthetic and on real rows.")
@click.option("--holdout", type=click.Path(), help="Rows not in the fit, where REAL are those of it: attack both, and compare.")
@click.option("-o", "--output", "page", type=click.Path(), help="Write a page too, an .html file; as secret as the rows.")
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@add_read_options
@add_output_options
def evaluate(voice: Voice, real: str, synthetic: str, stated: str, target: str | None, page: str | None, **given: Any) -> None:
    """Compare synthetic rows with real ones. This READS THE REAL ROWS: the result is not private."""
    holdout = given["holdout"]
    if [real, synthetic, holdout].count(STREAM) > 1:
        names = "REAL and SYNTHETIC" if holdout is None else "REAL, SYNTHETIC and --holdout"
        raise Refusal(f"{names} must not both be '-', because there is one standard input; write one of them to a file")
    if page is not None:
        read = [real, synthetic, stated] + [holdout] * (holdout is not None)
        Outputs(given["force"], read).check("-o", page, (".html", ".htm"))
        from skdpsynth.report import quality_page
    from skdpsynth.frames import open_source
    from skdpsynth.metrics import quality_report

    schema = open_schema(stated, given["read"])
    column = target if target is None else {str(name): name for name in schema}.get(target, target)
    with open_inputs([real]) as rows, open_inputs([synthetic]) as place:
        rows, made = open_source(rows, read=schema.read), open_synthetic(place, schema)
        quality = quality_report(rows, made, schema, target=column)
        evidence = None
        if holdout is not None:
            from skdpsynth.auditing import privacy_evidence

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
