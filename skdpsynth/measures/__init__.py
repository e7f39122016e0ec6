"""Mathematics of measures on cells: it knows no data and no privacy."""

from skdpsynth.measures._cells import NORMS, Lattice, NearestCells
from skdpsynth.measures._consistency import least_squares, mass_from_root, pair_sums, uniform_consistency
from skdpsynth.measures._flow import MOST_CELLS, check_solver
from skdpsynth.measures._latent_factors import LatentFactors
from skdpsynth.measures._links import Link
from skdpsynth.measures._measure import DiscreteMeasure
from skdpsynth.measures._partition import MAX_DEPTH, BinaryPartition
from skdpsynth.measures._schedules import optimal_shares, paper_shares
from skdpsynth.measures._transport import NearestMeasure, nearest_probability_measure

__all__ = [
    "MAX_DEPTH",
    "MOST_CELLS",
    "NORMS",
    "BinaryPartition",
    "DiscreteMeasure",
    "LatentFactors",
    "Lattice",
    "Link",
    "NearestCells",
    "NearestMeasure",
    "check_solver",
    "least_squares",
    "mass_from_root",
    "nearest_probability_measure",
    "optimal_shares",
    "pair_sums",
    "paper_shares",
    "uniform_consistency",
]
