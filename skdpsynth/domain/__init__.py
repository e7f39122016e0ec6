"""Public facts about the data: bounds, grids, kinds of columns, constraints and schemas."""

from typing import Any

from skdpsynth.domain._allowed_cells import AllowedCells as AllowedCells
from skdpsynth.domain._allowed_cells import Cells as Cells
from skdpsynth.domain._allowed_cells import cells_of_levels as cells_of_levels
from skdpsynth.domain._allowed_cells import cells_of_numbers as cells_of_numbers
from skdpsynth.domain._allowed_cells import condition_of as condition_of
from skdpsynth.domain._allowed_cells import ends_of as ends_of
from skdpsynth.domain._axes import PER_UNIT as PER_UNIT
from skdpsynth.domain._axes import axis_of as axis_of
from skdpsynth.domain._box import BITS as BITS
from skdpsynth.domain._box import NO_BOUNDS as NO_BOUNDS
from skdpsynth.domain._box import PLACEHOLDER as PLACEHOLDER
from skdpsynth.domain._box import UNIT as UNIT
from skdpsynth.domain._box import Box
from skdpsynth.domain._box import UnknownBounds as UnknownBounds
from skdpsynth.domain._box import has_private as has_private
from skdpsynth.domain._box import pair_of as pair_of
from skdpsynth.domain._box import with_placeholder_bounds as with_placeholder_bounds
from skdpsynth.domain._constraints import Impossible, Inequality, MissingTogether, Unique
from skdpsynth.domain._constraints import Rule as Rule
from skdpsynth.domain._dates import MICROSECONDS as MICROSECONDS
from skdpsynth.domain._dates import Calendar as Calendar
from skdpsynth.domain._dates import Date, DateTime, Duration, TimeOfDay
from skdpsynth.domain._dates import Times as Times
from skdpsynth.domain._dates import read_moment as read_moment
from skdpsynth.domain._derived import Derived
from skdpsynth.domain._functional_dependencies import Determines, Sum
from skdpsynth.domain._functional_dependencies import compute_columns as compute_columns
from skdpsynth.domain._functional_dependencies import inputs_of as inputs_of
from skdpsynth.domain._functional_dependencies import sources_of as sources_of
from skdpsynth.domain._functional_dependencies import table_of as table_of
from skdpsynth.domain._functional_dependencies import target_of as target_of
from skdpsynth.domain._functional_dependencies import written_kind as written_kind
from skdpsynth.domain._grid import Grid as Grid
from skdpsynth.domain._grid import comparable as comparable
from skdpsynth.domain._grid import edges_of_differences as edges_of_differences
from skdpsynth.domain._grid import edges_of_spans as edges_of_spans
from skdpsynth.domain._grid import grids_of as grids_of
from skdpsynth.domain._kinds import Boolean, Constant, Continuous, Identifier, Nominal, Ordinal, Text
from skdpsynth.domain._kinds import Kind as Kind
from skdpsynth.domain._kinds import as_nullable as as_nullable
from skdpsynth.domain._kinds import is_name as is_name
from skdpsynth.domain._kinds import list_names as list_names
from skdpsynth.domain._kinds import name_repr as name_repr
from skdpsynth.domain._norm_ball import Ball as Ball
from skdpsynth.domain._schema import Schema
from skdpsynth.domain._spans import Spans as Spans
from skdpsynth.domain._spans import spans_of as spans_of
from skdpsynth.domain._spans import with_spans as with_spans
from skdpsynth.domain._steps import round_to_step as round_to_step
from skdpsynth.domain._structural_zeros import Tie as Tie
from skdpsynth.domain._structural_zeros import cuts_of as cuts_of
from skdpsynth.domain._structural_zeros import keys_of as keys_of
from skdpsynth.domain._structural_zeros import ties_of as ties_of

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
