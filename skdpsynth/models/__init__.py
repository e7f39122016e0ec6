"""Mathematics of tables: models that are fitted to noisy answers and sampled from. It knows no data and no privacy."""

from skdpsynth.models._blocks import NoisyTables, blocks_of, merged_groups, most_counts_of_pairs, pairs_within, totals_of
from skdpsynth.models._latent_factors import LatentFactors
from skdpsynth.models._latent_links import LatentLinks
from skdpsynth.models._level_groups import LevelGroups
from skdpsynth.models._links import Link
from skdpsynth.models._marginal_model import MarginalModel
from skdpsynth.models._score_model import ScoreModel

__all__ = ["LatentFactors", "Link"]
