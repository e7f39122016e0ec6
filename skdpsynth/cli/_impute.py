"""The command `impute`."""

from typing import Any

import click

from skdpsynth.cli._files import STREAM, Outputs, open_inputs, write_rows
from skdpsynth.cli._models import open_synthesizer
from skdpsynth.cli._output import Refusal, Voice, add_output_options


@click.command(short_help="Fill the missing cells of your own rows: as secret as they are.")
@click.argument("path", metavar="MODEL", type=click.Path())
@click.argument("source", metavar="INPUT", type=click.Path())
@click.option(
    "-o", "--out", "--output", "out", required=True, type=click.Path(), help="A .csv, .tsv or .parquet file; '-' is standard output."
)
@click.option("--complete", is_flag=True, help="Fill cells too to which rules leave no value: against the rules.")
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@add_output_options
def impute(voice: Voice, path: str, source: str, out: str, complete: bool, force: bool) -> None:
    """Fill the missing cells of INPUT by draws from a model, given the other cells of each row.

    It costs no privacy, but the result is INPUT with some cells more: as secret as it was, and no synthetic data.
    """
    if path == source == STREAM:
        raise Refusal("MODEL and INPUT must not both be '-', because there is one standard input; write one of them to a file")
    Outputs(force, [path, source]).check_table(out, voice)
    model = open_synthesizer(path, "impute")
    with open_inputs([source]) as place:
        table = _read(place, model.schema_)
    filled = model.impute(table, complete=complete)
    from skdpsynth.frames import check_output_path, output_suffix, write_table

    write_rows(lambda place: write_table(check_output_path(place), filled, [filled], output_suffix(place)), out)
    where = "standard output" if out == STREAM else out
    voice.done({"rows": len(filled), "output": out}, f"Wrote {len(filled)} rows to {where}. NOT PRIVATE: as secret as the rows of INPUT.")


def _read(place: Any, schema: Any) -> Any:
    """Return a file as a table of Arrow, in which what is no number in a column of numbers is missing."""
    import pyarrow as pa

    from skdpsynth.frames import open_source, split_columns

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
    columns = [_typed(column, schema.get(column.name), mark) for column in split_columns(table)[1]]
    return pa.table(columns, names=table.column_names)


def _typed(column: Any, kind: Any, decimal_mark: str) -> Any:
    """Return a column of text as Arrow's numbers, levels or words, with nothing where a cell is missing or is no number."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    from skdpsynth.domain import Continuous, Derived, as_nullable
    from skdpsynth.frames import MISSING_WORDS
    from skdpsynth.tables import numbers_of, read_column

    if isinstance(kind, Continuous | Derived):
        numbers = numbers_of(column, decimal_mark)
        is_whole = getattr(kind, "integer", False) and np.all(np.isnan(numbers) | (numbers == np.rint(numbers)))
        found = pa.array(numbers, from_pandas=True)
        return found.cast(pa.int64()) if is_whole else found
    levels: Any = getattr(kind, "words", None) or getattr(kind, "levels", ())
    if not all(isinstance(level, str) for level in levels):
        return pa.array([*levels, None]).take(pa.array(read_column(column, as_nullable(kind), "String", is_text=True)))
    cells = column.to_native()
    return pc.if_else(pc.is_in(cells, pa.array(MISSING_WORDS)), pa.scalar(None, pa.string()), cells)
