"""Exact sums over rows: integers that know by how much one row moves them, mergeable with ``+``."""

from skdpsynth._change import Change, Query
from skdpsynth.statistics._gram import Gram
from skdpsynth.statistics._histogram import Histogram
from skdpsynth.statistics._levels import LevelCounts
from skdpsynth.statistics._marginals import Marginals
from skdpsynth.statistics._moments import Moments
from skdpsynth.statistics._packing import Packing
from skdpsynth.statistics._rows import RowCount
from skdpsynth.statistics._sums import Sums
from skdpsynth.statistics._thresholds import Thresholds
from skdpsynth.statistics._trees import Trees

# What authors of mechanisms are told of; the other rooms import more.
__all__ = ["Change", "Histogram", "Marginals", "Moments", "Query"]
