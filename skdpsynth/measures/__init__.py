"""Measures on cells: mathematics without data or privacy."""

from skdpsynth.measures._adaptive import (
    TwoStages,
    bound_of_clamped_counts,
    bound_of_least_squares,
    choose_refinement,
    fit_prior,
    level_sums,
    measure_of_leaves,
    posterior_mass,
    total_diameters,
)
from skdpsynth.measures._cells import NORMS, Lattice, NearestCells
from skdpsynth.measures._consistency import least_squares, mass_from_root, optimal_shares, pair_sums, paper_shares, uniform_consistency
from skdpsynth.measures._measure import DiscreteMeasure
from skdpsynth.measures._min_cost_flow import MAX_CELLS, check_solver
from skdpsynth.measures._partition import MAX_DEPTH, BinaryPartition
from skdpsynth.measures._transport import NearestMeasure, nearest_probability_measure
from skdpsynth.measures._union import measure_of_union

# Public names; the other rooms import more.
__all__ = ["BinaryPartition", "DiscreteMeasure", "Lattice", "NearestMeasure", "nearest_probability_measure"]
