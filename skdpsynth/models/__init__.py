"""Models of tables: fitted to noisy answers, and sampled. Mathematics without data or privacy."""

from skdpsynth.models._conditional_sampling import impute_table
from skdpsynth.models._histories import HistoryFactors
from skdpsynth.models._joint_distribution import JointDistribution, RejectionSampler, draw_values
from skdpsynth.models._latent_factors import BlockTables, LatentFactors, candidate_triples, most_dependent_triples, triple_frequencies
from skdpsynth.models._link_factors import LinkFactors, LinkTables, fit_link_factors
from skdpsynth.models._measurements import Codes, Measurements, TableModel, bins_of, pool_measurements, uniform_model
from skdpsynth.models._mixture_sampling import spread_pairs
from skdpsynth.models._noisy_tables import (
    Estimates,
    NoisyGram,
    NoisyInteractions,
    NoisyTables,
    Pool,
    Released,
    expected_error,
    gram_variances,
    join_into_blocks,
    max_pair_counts,
    merge_codes,
    shares_of,
    table_variances,
)
from skdpsynth.models._public_prior import PublicPrior
from skdpsynth.models._quantile_bins import LevelGroups, Link, RefinedBins, grade_bins
from skdpsynth.models._score_model import LatentLinks, ScoreModel
from skdpsynth.models._significant_bins import MIN_ROWS, threshold_bins, threshold_link
from skdpsynth.models._structural_zeros import MAX_TUPLES, constrain_columns, constraint_cuts, max_tuples
from skdpsynth.models._wide_factors import CoarsePairs, learn_common_factors
from skdpsynth.models._within_bin import DifferenceLaw, joint_columns, link_column, orient_difference

__all__ = ["LatentFactors", "Link"]
