"""Exact sums over rows: integers that know by how much one row moves them, mergeable with ``+``."""

from skdpsynth._sensitivity import Query, Sensitivity
from skdpsynth.statistics._aggregate import total, total_and_kept
from skdpsynth.statistics._aggregator import Aggregator
from skdpsynth.statistics._dependences import dependences
from skdpsynth.statistics._dependences import sensitivity as sensitivity_of_dependences
from skdpsynth.statistics._differences import DifferencesOf
from skdpsynth.statistics._distances import distances
from skdpsynth.statistics._distances import sensitivity as sensitivity_of_distances
from skdpsynth.statistics._encoding import CellsOf, Coding, LeavesOf, Merging
from skdpsynth.statistics._gram import Gram
from skdpsynth.statistics._histogram import Histogram
from skdpsynth.statistics._interactions import Interactions
from skdpsynth.statistics._levels import LevelCounts
from skdpsynth.statistics._marginals import Marginals
from skdpsynth.statistics._moments import Moments
from skdpsynth.statistics._norm_counts import CountLengths
from skdpsynth.statistics._occurrences import Occurrences
from skdpsynth.statistics._packing import Packing
from skdpsynth.statistics._pushdown import keep_tables
from skdpsynth.statistics._question import Question
from skdpsynth.statistics._range_counts import EDGES as MAGNITUDES
from skdpsynth.statistics._range_counts import EvenCells, Magnitudes
from skdpsynth.statistics._row_count import CountRows, RowCount
from skdpsynth.statistics._statistic import Statistic
from skdpsynth.statistics._thresholds import Thresholds
from skdpsynth.statistics._trees import Trees

# What authors of mechanisms are told of; the other rooms import more.
__all__ = ["Aggregator", "Histogram", "Marginals", "Moments", "Query", "Sensitivity", "total"]
