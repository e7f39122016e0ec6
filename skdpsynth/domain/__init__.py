"""Public facts about the data: bounds, grids, schemas, and the caller's kind of table."""

from skdpsynth.domain._ball import Ball as Ball
from skdpsynth.domain._box import BITS as BITS
from skdpsynth.domain._box import NO_BOUNDS as NO_BOUNDS
from skdpsynth.domain._box import UNIT as UNIT
from skdpsynth.domain._box import Box
from skdpsynth.domain._box import pair_of as pair_of
from skdpsynth.domain._closing import Closing as Closing
from skdpsynth.domain._closing import bounded as bounded
from skdpsynth.domain._closing import listed_levels as listed_levels
from skdpsynth.domain._closing import made_up_kinds as made_up_kinds
from skdpsynth.domain._closing import unknown_of as unknown_of
from skdpsynth.domain._closing import unlisted_in as unlisted_in
from skdpsynth.domain._conditions import wanted_of as wanted_of
from skdpsynth.domain._container import Container as Container
from skdpsynth.domain._dates import MICROSECONDS as MICROSECONDS
from skdpsynth.domain._dates import Date, DateTime
from skdpsynth.domain._dates import Times as Times
from skdpsynth.domain._derived import Derived
from skdpsynth.domain._differences import comparable as comparable
from skdpsynth.domain._differences import edges_of_differences as edges_of_differences
from skdpsynth.domain._dtypes import check_dtypes as check_dtypes
from skdpsynth.domain._encoder import MixedTypeEncoder
from skdpsynth.domain._encoder import decode as decode
from skdpsynth.domain._encoder import encode as encode
from skdpsynth.domain._evidence import Evidence as Evidence
from skdpsynth.domain._evidence import with_all as with_all
from skdpsynth.domain._files import checked_path as checked_path
from skdpsynth.domain._files import write_table as write_table
from skdpsynth.domain._files import written_suffix as written_suffix
from skdpsynth.domain._findings import Findings
from skdpsynth.domain._form import Form as Form
from skdpsynth.domain._form import as_chunk as as_chunk
from skdpsynth.domain._grid import Grid as Grid
from skdpsynth.domain._grid import grids_of as grids_of
from skdpsynth.domain._incomplete import IncompleteRows as IncompleteRows
from skdpsynth.domain._kinds import Continuous, Nominal, Ordinal
from skdpsynth.domain._kinds import Kind as Kind
from skdpsynth.domain._kinds import as_nullable as as_nullable
from skdpsynth.domain._kinds import is_name as is_name
from skdpsynth.domain._kinds import listed as listed
from skdpsynth.domain._left_out import Identifier, Text
from skdpsynth.domain._opening import Finite as Finite
from skdpsynth.domain._opening import NumbersAsValues as NumbersAsValues
from skdpsynth.domain._opening import ReadNumbers as ReadNumbers
from skdpsynth.domain._opening import ReadValues as ReadValues
from skdpsynth.domain._opening import check_enough as check_enough
from skdpsynth.domain._opening import continue_numbers as continue_numbers
from skdpsynth.domain._opening import continue_table as continue_table
from skdpsynth.domain._opening import gathered as gathered
from skdpsynth.domain._opening import open_columns as open_columns
from skdpsynth.domain._opening import open_numbers as open_numbers
from skdpsynth.domain._opening import reading_of as reading_of
from skdpsynth.domain._opening import schema_of_box as schema_of_box
from skdpsynth.domain._opening import start_table as start_table
from skdpsynth.domain._parts import joined as joined
from skdpsynth.domain._parts import regrouped as regrouped
from skdpsynth.domain._private_bounds import UNSEEN as UNSEEN
from skdpsynth.domain._private_bounds import Unknown as Unknown
from skdpsynth.domain._private_bounds import has_private as has_private
from skdpsynth.domain._private_bounds import made_up as made_up
from skdpsynth.domain._reading import read as read
from skdpsynth.domain._remote import RemoteTable as RemoteTable
from skdpsynth.domain._rows import Chunk as Chunk
from skdpsynth.domain._rows import Rows as Rows
from skdpsynth.domain._rows import length_of as length_of
from skdpsynth.domain._rows import part_of as part_of
from skdpsynth.domain._rule_checks import n_keys as n_keys
from skdpsynth.domain._rules import Determines, Impossible, Inequality, MissingTogether, Sum, Unique
from skdpsynth.domain._schema import Schema
from skdpsynth.domain._source import open_source as open_source
from skdpsynth.domain._spans import Spans as Spans
from skdpsynth.domain._spans import spans_of as spans_of
from skdpsynth.domain._spans import with_spans as with_spans
from skdpsynth.domain._table import MixedTable as MixedTable
from skdpsynth.domain._table import columns_of as columns_of
from skdpsynth.domain._table import read_table as read_table
from skdpsynth.domain._ties import Cells as Cells
from skdpsynth.domain._ties import Tie as Tie
from skdpsynth.domain._ties import cells_of_levels as cells_of_levels
from skdpsynth.domain._ties import cells_of_numbers as cells_of_numbers
from skdpsynth.domain._ties import ends_of as ends_of
from skdpsynth.domain._tying import cuts_of as cuts_of
from skdpsynth.domain._tying import keys_of as keys_of
from skdpsynth.domain._tying import ties_of as ties_of
from skdpsynth.domain._unit_rows import KEY_OF_CHOICE as KEY_OF_CHOICE
from skdpsynth.domain._unit_rows import rows_that_count as rows_that_count
from skdpsynth.domain._units import Counting as Counting
from skdpsynth.domain._units import check_length as check_length
from skdpsynth.domain._units import with_units as with_units
from skdpsynth.domain._units import without_unit as without_unit
from skdpsynth.domain._units import words_of_unit as words_of_unit
from skdpsynth.domain._violations import Broken as Broken
from skdpsynth.domain._violations import broken_rules as broken_rules
from skdpsynth.domain._wanted import Wanted as Wanted

# What users are told of; the other rooms import more.
__all__ = [
    "Box",
    "Continuous",
    "Date",
    "DateTime",
    "Derived",
    "Determines",
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
    "Unique",
]
