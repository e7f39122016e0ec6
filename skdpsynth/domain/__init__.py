"""Public facts about the data: bounds, grids, kinds of columns, constraints and schemas."""

from typing import Any

from skdpsynth.domain._allowed_cells import AllowedCells, Cells, cells_of_levels, cells_of_numbers, condition_of, ends_of
from skdpsynth.domain._axes import PER_UNIT, axis_of
from skdpsynth.domain._box import BITS, NO_BOUNDS, PLACEHOLDER, UNIT, Box, UnknownBounds, has_private, pair_of, with_placeholder_bounds
from skdpsynth.domain._constraints import Impossible, Inequality, MissingTogether, Rule, Unique
from skdpsynth.domain._dates import MICROSECONDS, Calendar, Date, DateTime, Duration, TimeOfDay, Times, read_moment
from skdpsynth.domain._derived import Derived, times_given
from skdpsynth.domain._functional_dependencies import (
    Determines,
    Sum,
    compute_columns,
    inputs_of,
    sources_of,
    table_of,
    target_of,
    written_kind,
)
from skdpsynth.domain._grid import Grid, comparable, edges_of_differences, edges_of_spans, grids_of
from skdpsynth.domain._kinds import (
    Boolean,
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
)
from skdpsynth.domain._norm_ball import Ball
from skdpsynth.domain._schema import Schema
from skdpsynth.domain._spans import Spans, spans_of, with_spans
from skdpsynth.domain._steps import round_to_step
from skdpsynth.domain._structural_zeros import Tie, cuts_of, keys_of, ties_of

# What users are told of; the other rooms import more.
__all__ = [
    "Boolean",
    "Box",
    "Constant",
    "Continuous",
    "Date",
    "DateTime",
    "Derived",
    "Determines",
    "Duration",
    "Findings",
    "Identifier",
    "Impossible",
    "Inequality",
    "MissingTogether",
    "MixedTypeEncoder",
    "Nominal",
    "Ordinal",
    "Schema",
    "Sum",
    "Text",
    "TimeOfDay",
    "Unique",
]


def __getattr__(name: str) -> Any:
    if name in ("Findings", "MixedTypeEncoder"):  # public names of this room, whose files stand above it
        from skdpsynth import tables

        return getattr(tables, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
