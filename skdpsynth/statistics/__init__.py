"""Exact sums over rows: integers that know by how much one row moves them, mergeable with ``+``."""

from skdpsynth._sensitivity import Query, Sensitivity
from skdpsynth.statistics._aggregator import Aggregator, total
from skdpsynth.statistics._aggregator import Question as Question
from skdpsynth.statistics._aggregator import Statistic as Statistic
from skdpsynth.statistics._aggregator import total_and_kept as total_and_kept
from skdpsynth.statistics._encoding import CellsOf as CellsOf
from skdpsynth.statistics._encoding import Coding as Coding
from skdpsynth.statistics._encoding import DifferencesOf as DifferencesOf
from skdpsynth.statistics._encoding import LeavesOf as LeavesOf
from skdpsynth.statistics._encoding import Merging as Merging
from skdpsynth.statistics._histogram import CountLengths as CountLengths
from skdpsynth.statistics._histogram import Histogram
from skdpsynth.statistics._interactions import Interactions as Interactions
from skdpsynth.statistics._interactions import dependences as dependences
from skdpsynth.statistics._interactions import distances as distances
from skdpsynth.statistics._interactions import sensitivity_of_dependences as sensitivity_of_dependences
from skdpsynth.statistics._marginals import Marginals
from skdpsynth.statistics._marginals import Trees as Trees
from skdpsynth.statistics._moments import Gram as Gram
from skdpsynth.statistics._moments import Moments
from skdpsynth.statistics._moments import Packing as Packing
from skdpsynth.statistics._occurrences import Occurrences as Occurrences
from skdpsynth.statistics._range_counts import EDGES as MAGNITUDES
from skdpsynth.statistics._range_counts import EvenCells as EvenCells
from skdpsynth.statistics._range_counts import Magnitudes as Magnitudes
from skdpsynth.statistics._row_count import CountRows as CountRows
from skdpsynth.statistics._row_count import RowCount as RowCount
from skdpsynth.statistics._thresholds import Thresholds as Thresholds

# What authors of mechanisms are told of; the other rooms import more.
__all__ = ["Aggregator", "Histogram", "Marginals", "Moments", "Query", "Sensitivity", "total"]
