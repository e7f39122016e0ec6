"""Mathematics of tables: models that are fitted to noisy answers and sampled from. It knows no data and no privacy."""

from skdpsynth.models._blocks import NoisyTables, blocks_of, merged_groups, most_counts_of_pairs, pairs_within, shares_of
from skdpsynth.models._clear_bins import LEAST_ROWS, clear_law, threshold_bins
from skdpsynth.models._completing import completed
from skdpsynth.models._counted import Codes, Counted
from skdpsynth.models._estimates import Estimates, NoisyInteractions, expected_error
from skdpsynth.models._latent_factors import LatentFactors
from skdpsynth.models._latent_links import LatentLinks
from skdpsynth.models._level_groups import LevelGroups
from skdpsynth.models._links import Link, grade_bins
from skdpsynth.models._marginal_model import MarginalModel, bins_of
from skdpsynth.models._merged_pairs import MergedPairs
from skdpsynth.models._near import Near, directed, joint_columns
from skdpsynth.models._pooling import Pool
from skdpsynth.models._prior_tables import PriorTables
from skdpsynth.models._score_model import ScoreModel
from skdpsynth.models._selected import Selected
from skdpsynth.models._tied import MOST_TUPLES, cuts_in_cells, most_tuples, tied_columns
from skdpsynth.models._triples import candidates, most_dependent, table_of
from skdpsynth.models._uniform import uniform_model
from skdpsynth.models._unions import union_of
from skdpsynth.models._wide_factors import common_of

__all__ = ["LatentFactors", "Link"]
