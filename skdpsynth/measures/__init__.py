"""Mathematics of measures on cells: it knows no data and no privacy."""

from skdpsynth.measures._consistency import least_squares, mass_from_root, pair_sums, uniform_consistency
from skdpsynth.measures._measure import DiscreteMeasure
from skdpsynth.measures._partition import MAX_DEPTH, BinaryPartition
from skdpsynth.measures._schedules import optimal_shares, paper_shares

__all__ = [
    "MAX_DEPTH",
    "BinaryPartition",
    "DiscreteMeasure",
    "least_squares",
    "mass_from_root",
    "optimal_shares",
    "pair_sums",
    "paper_shares",
    "uniform_consistency",
]
