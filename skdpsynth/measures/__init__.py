"""Measures on cells: mathematics without data or privacy."""

from skdpsynth.measures._areas import level_shares, nearest_whole, shrink_tables, tree_least_squares, tree_variances, whole_counts
from skdpsynth.measures._consistency import (
    DEFAULT_PRIOR,
    TwoStages,
    bound_of_clamped_counts,
    bound_of_least_squares,
    bound_on_a_line,
    choose_refinement,
    least_squares,
    level_sums,
    mass_from_root,
    mass_from_root_unclipped,
    measure_of_leaves,
    measure_of_union,
    optimal_shares,
    pair_sums,
    paper_shares,
    posterior_mass,
    prior_of,
    total_diameters,
    uniform_consistency,
)
from skdpsynth.measures._line_bound import is_line
from skdpsynth.measures._measure import DiscreteMeasure
from skdpsynth.measures._min_cost_flow import MAX_CELLS, check_solver
from skdpsynth.measures._partition import MAX_DEPTH, NORMS, BinaryPartition, Lattice, NearestCells, Partition
from skdpsynth.measures._transport import NearestMeasure, nearest_probability_measure

# Public names; the other rooms import more.
__all__ = ["BinaryPartition", "DiscreteMeasure", "Lattice", "NearestMeasure", "nearest_probability_measure"]
