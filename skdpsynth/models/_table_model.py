"""Models of tables by strategy "marginals": latent factors in blocks of columns, and the links of continuous columns."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from skdpsynth._serialization import is_array, require
from skdpsynth.domain import Continuous, Nominal, Schema, Tie, grids_of
from skdpsynth.models._joint_distribution import JointDistribution
from skdpsynth.models._latent_factors import BlockTables, LatentFactors
from skdpsynth.models._mixture import Mixture
from skdpsynth.models._noisy_tables import Block, NoisyTables, shares_of
from skdpsynth.models._quantile_bins import LevelGroups, Link, RefinedBins, share_by_mass
from skdpsynth.models._structural_zeros import ConstrainedColumns, block_groups, constrain_columns, constraint_cuts, possible_strata
from skdpsynth.models._within_bin import DifferenceLaw, DifferenceSampler, joint_columns, link_column
from skdpsynth.persistence import savable

_N_BINS = 16
_NEVER = 1e-30  # probability of an impossible code, whose logarithm is finite


@savable
@dataclass(frozen=True, eq=False)
class TableModel:
    """A latent factor model of each stratum, with the links of its columns."""

    schema: Schema
    stratum: Hashable
    weights: np.ndarray
    blocks: tuple[Block, ...]  # columns that depend on each other, by their places without the stratum
    factors: tuple[LatentFactors, ...]  # of each block; their classes are the strata
    links: Mapping[Hashable, Link | LevelGroups]  # of each continuous column, and of each nominal one of very many levels
    tied: tuple[ConstrainedColumns, ...] = ()
    n_common: int = 1  # nodes that all blocks share, each block having equally many of its own for each, one after the other
    near: tuple[DifferenceLaw, ...] = ()

    def _check_loaded(self) -> None:
        require(is_array(self.weights, "f", -1) and self.weights.min() >= 0 and self.weights.sum() > 0)

    def refit(
        self,
        links: Mapping[Hashable, Link | LevelGroups],
        one_way: NoisyTables,
        two_way: NoisyTables,
        totals: np.ndarray,
        n_fits: int,
        n_steps: int,
    ) -> "TableModel":
        """Fit to other tables in the same codes, with links of the same bins, from the first `n_fits` fits, in `n_steps` each at most.

        That takes much less time; blocks share no factors.
        """
        tables = self._block_tables(one_way, two_way, totals)
        factors = tuple(each.refit(own, n_fits, n_steps) for each, own in zip(self.factors, tables, strict=True))
        return replace(self, weights=stratum_weights(totals, self.stratum, self.tied), factors=factors, links=links)

    def with_triples(self, one_way: NoisyTables, two_way: NoisyTables, totals: np.ndarray, triples: NoisyTables) -> "TableModel":
        """Train this model of one block further, with tables of three columns beside those that it was fitted to."""
        (factors,), (tables,) = self.factors, self._block_tables(one_way, two_way, totals)
        return replace(self, factors=(factors.with_triples(tables, triples.tables, triples.deviation),))

    def _block_tables(self, one_way: NoisyTables, two_way: NoisyTables, totals: np.ndarray) -> list[BlockTables]:
        parts = zip(self.blocks, self.factors, strict=True)
        return [BlockTables.of(block, one_way, two_way, totals, factors.groups, factors.n_ordered) for block, factors in parts]

    def probabilities(self, label: int) -> list[np.ndarray]:
        """Return P(code | node) of each column of the first block, in a class."""
        factors = self.factors[0]
        return np.split(factors.probabilities(label), np.cumsum(factors.sizes)[:-1])

    def without_factors(self) -> "TableModel":
        """Return a model in which the columns of a stratum depend on each other by rules alone."""
        return replace(self, factors=tuple(factors.without_loadings() for factors in self.factors))

    def law(self) -> JointDistribution:
        """Return the law of the rows, in which bins are cut finer where they are few.

        Columns that are drawn together keep their bins, but for those without mass, as a model hardly excludes empty bins.
        """
        grids, together, links = grids_of(self.schema), joint_columns(self.tied, self.near), dict(self.links)
        recoded: dict[Hashable, Callable[[np.ndarray], np.ndarray]] = {}  # from P(code | node) to P(code drawn | node)
        nonempty: dict[Hashable, np.ndarray] = {}
        for name, link in self.links.items():
            if isinstance(link, LevelGroups):
                continue
            if name in together:
                if not link.masses.all():
                    nonempty[name] = np.append(link.masses > 0, [True] * self.schema[name].nullable).astype(float)
            elif (finer := RefinedBins.of(link)) is not None:
                links[name], recoded[name] = finer.link, partial(_refine_probabilities, link, finer)
            elif link.alike is not None:
                recoded[name] = partial(share_by_mass, link)
        columns = {name: link_column(link, grids.get(name)) for name, link in links.items()}
        return JointDistribution(
            self.schema,
            self.stratum,
            self.blocks,
            self.weights,
            tuple(self._mixtures(label, recoded, nonempty) for label in range(len(self.weights))),
            columns,
            self.tied,
            common=None if self.n_common == 1 else tuple(np.full(self.n_common, 1 / self.n_common) for _ in self.weights),
            near=tuple(DifferenceSampler.of(each, columns) for each in self.near),
        )

    def _mixtures(
        self, label: int, recoded: Mapping[Hashable, Callable[[np.ndarray], np.ndarray]], nonempty: Mapping[Hashable, np.ndarray]
    ) -> tuple[Mixture, ...]:
        """Return the law of the codes that are drawn of each block, in a class."""
        names, found = [name for name in self.schema if name != self.stratum], []
        for columns, factors in zip(self.blocks, self.factors, strict=True):
            places = {place: names[column] for place, column in enumerate(columns)}
            mixture = factors.mixture(label).recode({place: recoded[name] for place, name in places.items() if name in recoded})
            some = {place: nonempty[name] for place, name in places.items() if name in nonempty}
            conditional, probability = mixture.condition(some) if some else (mixture, 1.0)
            found.append(conditional if probability else mixture)
        return tuple(found)

    def sample(self, n_samples: int, rng: np.random.Generator, n_jobs: int | None = None) -> list[np.ndarray]:
        """Return values of columns, as `skdpsynth.tables` reads them, made by `n_jobs` threads."""
        return self.law().sample(n_samples, rng, n_jobs)

    def sample_blocks(self, n_samples: int, rng: np.random.Generator) -> Iterator[list[np.ndarray]]:
        """Yield the same, a block of rows at a time."""
        return self.law().sample_blocks(n_samples, rng)


def _refine_probabilities(link: Link, finer: RefinedBins, table: np.ndarray) -> np.ndarray:
    return finer.probabilities(share_by_mass(link, table))


def stratum_weights(totals: np.ndarray, stratum: Hashable, tied: Sequence[ConstrainedColumns]) -> np.ndarray:
    """Return the shares of the strata; 0 for impossible ones."""
    shares = shares_of(totals)
    if not (possible := possible_strata(tied, stratum, len(totals))).all():
        shares = shares_of(np.where(possible, np.maximum(shares, 1e-9), 0))
    return shares


def bins_of(schema: Schema, links: Mapping[Hashable, Link | LevelGroups]) -> dict[Hashable, np.ndarray]:
    """Return the edges of the bins of each continuous column, in its units; the code of each level of a column of very many."""
    grids = grids_of(schema)
    return {name: grids[name].edges[link.edges] if isinstance(link, Link) else link.codes for name, link in links.items()}


def uniform_model(schema: Schema, stratum: Hashable, ties: Sequence[Tie], most_codes: int) -> TableModel:
    """Return a model without factors, of public facts alone: it holds the rules, and can be conditioned.

    Numbers are uniform within their bounds and never missing, unless a rule says that they are. Levels are uniform, a missing one among
    them. Combinations that the rules leave are drawn in proportion. More than `most_codes` levels of a nominal column are merged.
    """
    grids, links = grids_of(schema), dict[Hashable, Link | LevelGroups]()
    cuts = constraint_cuts(schema, grids)
    for name, grid in grids.items():
        links[name] = Link(grid.widths / grid.widths.sum(), np.array([0, grid.n_cells])).recut(_N_BINS, cuts.get(name, ()))
    for name, kind in schema.items():
        if isinstance(kind, Nominal) and len(kind.levels) > most_codes:
            links[name] = LevelGroups.of(np.ones(len(kind.levels)), 1.0, kind.group_numbers, most_codes)
    tied, links = constrain_columns(ties, schema, links)
    names = [name for name in schema if name != stratum]
    shares = [_code_probabilities(schema, name, links) for name in names]
    block, n_strata = tuple(range(len(names))), 1 if stratum is None else schema[stratum].n_codes
    sizes, logits = np.array([len(share) for share in shares]), np.log(np.maximum(np.concatenate(shares), _NEVER))
    intercepts = np.tile(logits, (1, n_strata, 1))
    groups = block_groups(tied, names, block, stratum, n_strata)
    factors = LatentFactors(sizes, np.zeros((1, 1)), intercepts, np.zeros((*intercepts.shape, 1)), groups)
    possible = possible_strata(tied, stratum, n_strata).astype(float)
    return TableModel(schema, stratum, possible / possible.sum(), (block,), (factors,), links, tuple(tied))


def _code_probabilities(schema: Schema, name: Hashable, links: dict[Hashable, Link | LevelGroups]) -> np.ndarray:
    kind, link = schema[name], links.get(name)
    if link is None:
        return np.full(kind.n_codes, 1 / kind.n_codes)
    if isinstance(link, LevelGroups):
        whole = np.bincount(link.codes).astype(float)
        return np.append(whole, [1.0] * kind.nullable) / (whole.sum() + kind.nullable)
    assert isinstance(kind, Continuous)
    return np.append(link.masses, [0.0] * kind.nullable)
