"""Public facts about the data: bounds, grids, schemas, and the caller's kind of table."""

from skdpsynth.domain._ball import Ball as Ball
from skdpsynth.domain._box import BITS as BITS
from skdpsynth.domain._box import Box
from skdpsynth.domain._container import Container as Container
from skdpsynth.domain._encoder import MixedTypeEncoder
from skdpsynth.domain._encoder import decode as decode
from skdpsynth.domain._encoder import encode as encode
from skdpsynth.domain._grid import Grid as Grid
from skdpsynth.domain._grid import grids_of as grids_of
from skdpsynth.domain._kinds import Continuous, Nominal, Ordinal
from skdpsynth.domain._reading import read as read
from skdpsynth.domain._rows import continue_table as continue_table
from skdpsynth.domain._rows import start_table as start_table
from skdpsynth.domain._schema import Schema
from skdpsynth.domain._table import MixedTable as MixedTable
from skdpsynth.domain._table import columns_of as columns_of
from skdpsynth.domain._table import read_table as read_table

# What users are told of; the other rooms import more.
__all__ = ["Box", "Continuous", "MixedTypeEncoder", "Nominal", "Ordinal", "Schema"]
