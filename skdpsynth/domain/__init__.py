"""Public facts about the data: bounds, grids, kinds of columns, constraints and schemas."""

from typing import Any

from skdpsynth.domain._box import (
    BITS,
    NO_BOUNDS,
    PLACEHOLDER,
    UNIT,
    Ball,
    BoundsLike,
    Box,
    UnknownBounds,
    has_private,
    pair_of,
    with_placeholder_bounds,
)
from skdpsynth.domain._constraints import (
    AllowedCells,
    Cells,
    Impossible,
    Inequality,
    MissingTogether,
    Rule,
    Unique,
    cells_of_bins,
    cells_of_levels,
    cells_of_numbers,
    ends_of,
)
from skdpsynth.domain._functional_dependencies import (
    Derived,
    Determines,
    Sum,
    compute_columns,
    inputs_of,
    table_of,
    times_given,
    written_kind,
)
from skdpsynth.domain._grid import Grid, Spans, comparable, edges_of_differences, edges_of_spans, grids_of, spans_of, with_spans
from skdpsynth.domain._hierarchy import WHOLE, Hierarchy
from skdpsynth.domain._histories import NoHistory, history_of, ranks_within
from skdpsynth.domain._kinds import (
    Boolean,
    ColumnKind,
    Constant,
    Continuous,
    Identifier,
    Kind,
    Nominal,
    Ordinal,
    Text,
    as_nullable,
    is_name,
    list_names,
    name_repr,
    round_to_step,
)
from skdpsynth.domain._linked_rules import AtMost, Compared, LinkedRule, LinkedRules, Total
from skdpsynth.domain._linked_schema import LinkedSchema, LinkedSchemaLike, propose_links, schema_of_file, with_keys
from skdpsynth.domain._links import Children, key_columns, names_in, order_links, parents_of
from skdpsynth.domain._order_constraints import PER_UNIT, Orders, axis_of
from skdpsynth.domain._schema import Schema, SchemaLike
from skdpsynth.domain._schema_files import json_of, yaml_of
from skdpsynth.domain._structural_zeros import Tie, cuts_of, keys_of, ties_of
from skdpsynth.domain._times import MICROSECONDS, Calendar, Date, DateTime, Duration, TimeOfDay, Times, read_moment

# The names for users; the other rooms import more.
__all__ = [
    "AtMost",
    "Boolean",
    "Box",
    "Children",
    "Compared",
    "Constant",
    "Continuous",
    "Date",
    "DateTime",
    "Derived",
    "Determines",
    "Duration",
    "Findings",
    "Hierarchy",
    "Identifier",
    "Impossible",
    "Inequality",
    "LinkedSchema",
    "MissingTogether",
    "MixedTypeEncoder",
    "Nominal",
    "Ordinal",
    "PointGrid",
    "Schema",
    "Sum",
    "Text",
    "TimeOfDay",
    "Total",
    "Unique",
    "parents_of",
]


def __getattr__(name: str) -> Any:
    if name in ("Findings", "MixedTypeEncoder", "PointGrid"):  # public names of this room, whose files stand above it
        from skdpsynth import tables

        return getattr(tables, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
