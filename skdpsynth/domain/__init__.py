"""Public facts about the data: bounds, grids, schemas, and the caller's kind of table."""

from skdpsynth.domain._box import Box
from skdpsynth.domain._container import Container
from skdpsynth.domain._encoder import MixedTypeEncoder, continue_table, decode, encode, start_table
from skdpsynth.domain._grid import Grid, grids_of
from skdpsynth.domain._schema import Continuous, Nominal, Ordinal, Schema
from skdpsynth.domain._table import MixedTable, columns_of, read

__all__ = [
    "Box",
    "Container",
    "Continuous",
    "Grid",
    "MixedTable",
    "MixedTypeEncoder",
    "Nominal",
    "Ordinal",
    "Schema",
    "columns_of",
    "continue_table",
    "decode",
    "encode",
    "grids_of",
    "read",
    "start_table",
]
