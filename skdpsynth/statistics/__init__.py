"""Exact sums over rows: integers that know how far one row moves them, mergeable with ``+``."""

from skdpsynth._sensitivity import Query, Sensitivity
from skdpsynth.statistics._aggregator import (
    Aggregator,
    CellsOf,
    Coding,
    DifferencesOf,
    LeavesOf,
    Merging,
    Question,
    Statistic,
    total,
    total_and_kept,
)
from skdpsynth.statistics._coded_gram import CodedGram
from skdpsynth.statistics._counts import (
    MAGNITUDES,
    CountLengths,
    CountRows,
    EvenCells,
    Histogram,
    Magnitudes,
    Occurrences,
    RowCount,
    Thresholds,
)
from skdpsynth.statistics._interactions import Interactions, dependences, distances, sensitivity_of_dependences
from skdpsynth.statistics._linked import (
    ONE_ROW,
    ChildRows,
    HistoryRows,
    SiblingRows,
    TableRows,
    Weights,
    fold_symmetric,
    fold_tables,
    symmetric_precision,
    total_weights,
    unfold_symmetric,
)
from skdpsynth.statistics._marginals import Marginals, Trees
from skdpsynth.statistics._moments import Gram, KeptLengths, Moments, Packing
from skdpsynth.statistics._parities import Parities, SumParities
from skdpsynth.statistics._weights import SurveyWeights, WeighedSums

# Names for authors of mechanisms; the other rooms import more.
__all__ = ["Aggregator", "Histogram", "Marginals", "Moments", "Query", "Sensitivity", "total"]
