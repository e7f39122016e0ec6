"""The model of a table of which only the schema is known."""

from collections.abc import Hashable, Sequence

import numpy as np

from skdpsynth.domain import Continuous, Nominal, Schema, Tie, grids_of
from skdpsynth.models._latent_factors import LatentFactors
from skdpsynth.models._marginal_model import MarginalModel
from skdpsynth.models._quantile_bins import Link
from skdpsynth.models._rare_levels import LevelGroups
from skdpsynth.models._structural_zeros import block_groups, constrain_columns, constraint_cuts, possible_strata

_N_BINS = 16
_NEVER = 1e-30  # of a probability, whose logarithm is finite


def uniform_model(schema: Schema, stratum: Hashable, ties: Sequence[Tie], most_codes: int) -> MarginalModel:
    """Return a model without factors, of public facts alone: it holds the rules, and can be conditioned.

    Numbers are uniform within their bounds and never missing, unless a rule says that they are. Levels are uniform, a missing one among
    them. What rules leave of that is drawn in proportion.

    Parameters
    ----------
    schema : Schema
        Of columns as mechanisms see them.
    stratum : column or None
    ties : sequence of Tie
        What the rules say of several columns together.
    most_codes : int
        Of a nominal column: more levels are merged.
    """
    tied, links = constrain_columns(ties, schema, _links(schema, most_codes))
    names = [name for name in schema if name != stratum]
    shares = [_code_probabilities(schema, name, links) for name in names]
    block, n_strata = tuple(range(len(names))), 1 if stratum is None else schema[stratum].n_codes
    sizes, logits = np.array([len(share) for share in shares]), np.log(np.maximum(np.concatenate(shares), _NEVER))
    intercepts = np.tile(logits, (1, n_strata, 1))
    groups = block_groups(tied, names, block, stratum, n_strata)
    factors = LatentFactors(sizes, np.zeros((1, 1)), intercepts, np.zeros((*intercepts.shape, 1)), groups)
    possible = possible_strata(tied, stratum, n_strata).astype(float)
    return MarginalModel(schema, stratum, possible / possible.sum(), (block,), (factors,), links, tuple(tied))


def _links(schema: Schema, most_codes: int) -> dict[Hashable, Link | LevelGroups]:
    """Return bins of equal width of numbers, and groups of the levels of columns that have very many."""
    grids, links = grids_of(schema), dict[Hashable, Link | LevelGroups]()
    cuts = constraint_cuts(schema, grids)
    for name, grid in grids.items():
        links[name] = Link(grid.widths / grid.widths.sum(), np.array([0, grid.n_cells])).recut(_N_BINS, cuts.get(name, ()))
    for name, kind in schema.items():
        if isinstance(kind, Nominal) and len(kind.levels) > most_codes:
            links[name] = LevelGroups.of(np.ones(len(kind.levels)), 1.0, kind.group_numbers, most_codes)
    return links


def _code_probabilities(schema: Schema, name: Hashable, links: dict[Hashable, Link | LevelGroups]) -> np.ndarray:
    """Return the probability of each code of a column."""
    kind, link = schema[name], links.get(name)
    if link is None:
        return np.full(kind.n_codes, 1 / kind.n_codes)
    if isinstance(link, LevelGroups):
        whole = np.bincount(link.codes).astype(float)
        return np.append(whole, [1.0] * kind.nullable) / (whole.sum() + kind.nullable)
    assert isinstance(kind, Continuous)
    return np.append(np.add.reduceat(link.mass, link.edges[:-1]), [0.0] * kind.nullable)
