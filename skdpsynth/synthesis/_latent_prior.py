"""The public table that a mixed synthesizer may use as a prior."""

import os
from collections.abc import Sequence
from typing import Any

from skdpsynth._validation import short_repr
from skdpsynth.domain import Box, Schema
from skdpsynth.frames import Rows, Table, TableKind, open_source
from skdpsynth.statistics import RowCount, total
from skdpsynth.tables import open_columns, schema_of_box


def open_prior(prior: Table, schema: Schema, buys: bool = False) -> Rows:
    """Open a public table by the public facts about the columns of the private one, or refuse it.

    Its columns are in any order by their names, or those of an array by their numbers. With `buys`, bounds and levels of the schema may be
    private. All of it is read once, so that no fault shows after budget was spent.
    """
    _check_table(prior)
    rows = open_columns(prior, schema, "prior", buys)
    if not rows.source.in_memory and not total(rows, RowCount.over()).n_samples:
        raise ValueError("prior must have at least one row, got none; pass a table with rows, or leave prior out.")
    if not rows.source.is_readable and any(kind.stand_in for kind in schema.values()):
        raise ValueError("prior must be a table that can be read where bounds or levels are private, got one that lies elsewhere; copy it.")
    return rows


def check_prior_of_numbers(prior: Table, box: Box) -> None:
    """Refuse a public table that cannot be one of numbers within these bounds, whatever its columns are called."""
    _check_table(prior)
    source = open_source(prior, "prior")
    columns: Sequence[Any] = TableKind.of(source.head).columns
    if len(columns) != box.n_features:
        raise ValueError(f"prior must have the {box.n_features} columns of X, got {len(columns)}; select them.")
    open_prior(prior, schema_of_box(box, columns))


def check_prior_is_another(prior: Table, X: Table) -> None:
    """Refuse the protected table as the public one, where that shows without reading rows."""
    are_paths = isinstance(prior, str | os.PathLike) and isinstance(X, str | os.PathLike)
    is_one_file = are_paths and os.path.realpath(prior) == os.path.realpath(X)
    if prior is X or is_one_file:
        raise ValueError("prior must be public rows, got the table that fit shall protect; leave prior out.")


def _check_table(prior: Table) -> None:
    if isinstance(prior, int | float | complex | dict | set) or callable(getattr(prior, "fit", None)):
        raise TypeError(f"prior must be None or a public table like X, got {short_repr(prior)}; pass a frame, an array or a path.")
