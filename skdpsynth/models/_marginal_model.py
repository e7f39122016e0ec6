"""Models of strategy "marginals": latent factors in blocks of columns, and the links of continuous columns."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from skdpsynth.domain import Continuous, Nominal, Schema, Tie, grids_of
from skdpsynth.models._joint_distribution import JointDistribution
from skdpsynth.models._latent_factors import BlockTables, LatentFactors
from skdpsynth.models._mixture import Mixture
from skdpsynth.models._noisy_tables import Block, NoisyTables, shares_of, weighting_deviations
from skdpsynth.models._quantile_bins import LevelGroups, Link, RefinedBins, share_by_mass
from skdpsynth.models._structural_zeros import ConstrainedColumns, block_groups, constrain_columns, constraint_cuts, possible_strata
from skdpsynth.models._within_bin import DifferenceLaw, DifferenceSampler, joint_columns, link_column
from skdpsynth.persistence import savable

_LEAST_ROWS = 10.0  # of a class: fewer make frequencies of noise
_N_BINS = 16
_NEVER = 1e-30  # probability of an impossible code, whose logarithm is finite


@savable
@dataclass(frozen=True, eq=False)
class MarginalModel:
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

    def again(
        self,
        links: Mapping[Hashable, Link | LevelGroups],
        one_way: NoisyTables,
        two_way: NoisyTables,
        totals: np.ndarray,
        n_fits: int,
        n_steps: int,
    ) -> "MarginalModel":
        """Fit to other tables in the same codes, with links of the same bins, from the first `n_fits` fits, in `n_steps` each at most.

        That takes much less time; blocks share no factors.
        """
        tables = self._block_tables(one_way, two_way, totals)
        factors = tuple(each.again(own, n_fits, n_steps) for each, own in zip(self.factors, tables, strict=True))
        return replace(self, weights=stratum_weights(totals, self.stratum, self.tied), factors=factors, links=links)

    def with_triples(self, one_way: NoisyTables, two_way: NoisyTables, totals: np.ndarray, triples: NoisyTables) -> "MarginalModel":
        """Train on with tables of three columns beside those that this model, of one block, was fitted to."""
        (factors,), (tables,) = self.factors, self._block_tables(one_way, two_way, totals)
        return replace(self, factors=(factors.with_triples(tables, triples.tables, triples.deviation),))

    def _block_tables(self, one_way: NoisyTables, two_way: NoisyTables, totals: np.ndarray) -> list[BlockTables]:
        return block_tables(
            self.blocks, one_way, two_way, totals, [each.groups for each in self.factors], [each.n_ordered for each in self.factors]
        )

    def probabilities(self, label: int) -> list[np.ndarray]:
        """Return P(code | node) of each column of the first block, in a class."""
        factors = self.factors[0]
        return np.split(factors.probabilities(label), np.cumsum(factors.sizes)[:-1])

    def without_factors(self) -> "MarginalModel":
        """Return a model in which the columns of a stratum depend on each other by rules alone."""
        return replace(self, factors=tuple(factors.without_loadings() for factors in self.factors))

    def law(self) -> JointDistribution:
        """Return the law of the rows, in which bins are cut finer where they are few."""
        grids, (links, recoded) = grids_of(self.schema), self._sampling_links()
        columns = {name: link_column(link, self.schema[name], grids.get(name)) for name, link in links.items()}
        return JointDistribution(
            self.schema,
            self.stratum,
            self.blocks,
            self.weights,
            tuple(self._mixtures(label, recoded) for label in range(len(self.weights))),
            columns,
            self.tied,
            common=None if self.n_common == 1 else tuple(np.full(self.n_common, 1 / self.n_common) for _ in self.weights),
            near=tuple(DifferenceSampler.of(each, columns) for each in self.near),
        )

    def _sampling_links(self) -> tuple[dict[Hashable, Link | LevelGroups], dict[Hashable, Callable[[np.ndarray], np.ndarray]]]:
        """Return the links of the codes that are drawn, and the maps from P(code | node) to P(code drawn | node) where they differ.

        Few bins are cut finer, and some are like others; columns that are drawn together stay as they are.
        """
        links, together = dict(self.links), joint_columns(self.tied, self.near)
        recoded: dict[Hashable, Callable[[np.ndarray], np.ndarray]] = {}
        for name, link in self.links.items():
            if isinstance(link, Link) and name not in together:
                finer = RefinedBins.of(link)
                if finer is not None:
                    links[name], recoded[name] = finer.link, partial(_refine_probabilities, link, finer)
                elif link.alike is not None:
                    recoded[name] = partial(share_by_mass, link)
        return links, recoded

    def _mixtures(self, label: int, recoded: Mapping[Hashable, Callable[[np.ndarray], np.ndarray]]) -> tuple[Mixture, ...]:
        """Return the law of the codes that are drawn of each block, in a class."""
        names, found = [name for name in self.schema if name != self.stratum], []
        empty = self._nonempty_bins()
        for columns, factors in zip(self.blocks, self.factors, strict=True):
            places = {place: names[column] for place, column in enumerate(columns)}
            mixture = factors.mixture(label).recode({place: recoded[name] for place, name in places.items() if name in recoded})
            some = {place: empty[name] for place, name in places.items() if name in empty}
            conditional, probability = mixture.given(some) if some else (mixture, 1.0)
            found.append(conditional if probability else mixture)
        return tuple(found)

    def _nonempty_bins(self) -> dict[Hashable, np.ndarray]:
        """Return which codes of columns that are drawn together have mass, as a model hardly excludes empty bins."""
        together = joint_columns(self.tied, self.near)
        links = {name: link for name, link in self.links.items() if name in together and isinstance(link, Link)}
        return {
            name: np.append(link.masses > 0, [True] * self.schema[name].nullable).astype(float)
            for name, link in links.items()
            if not link.masses.all()
        }

    def sample(self, n_samples: int, rng: np.random.Generator, n_jobs: int | None = None) -> list[np.ndarray]:
        """Return values of columns, as `skdpsynth.tables` reads them, made by `n_jobs` threads."""
        return self.law().sample(n_samples, rng, n_jobs)

    def sample_blocks(self, n_samples: int, rng: np.random.Generator) -> Iterator[list[np.ndarray]]:
        """Yield the same, a block of rows at a time."""
        return self.law().sample_blocks(n_samples, rng)


def _refine_probabilities(link: Link, finer: RefinedBins, table: np.ndarray) -> np.ndarray:
    return finer.probabilities(share_by_mass(link, table))


def block_tables(
    blocks: Sequence[Block],
    one_way: NoisyTables,
    two_way: NoisyTables,
    totals: np.ndarray,
    groups: Sequence[tuple],
    n_ordered: Sequence[tuple[int, ...]],
) -> list[BlockTables]:
    """Return the tables of each block, to which its factors are fitted."""
    deviations, rows = weighting_deviations(one_way, two_way), np.maximum(totals, _LEAST_ROWS)
    return [
        BlockTables(
            [one_way.tables[i,] for i in block],
            {(a, b): two_way.tables[i, j] for (a, i), (b, j) in combinations(enumerate(block), 2) if (i, j) in two_way.tables},
            rows,
            deviations,
            *own,
        )
        for block, *own in zip(blocks, groups, n_ordered, strict=True)
    ]


def stratum_weights(totals: np.ndarray, stratum: Hashable, tied: Sequence[ConstrainedColumns]) -> np.ndarray:
    """Return the shares of the strata, 0 of impossible ones."""
    shares = shares_of(totals)
    if not (possible := possible_strata(tied, stratum, len(totals))).all():
        shares = shares_of(np.where(possible, np.maximum(shares, 1e-9), 0))
    return shares


def is_ordered(kind: Any, size: int) -> np.ndarray:
    """Return which codes of a column have an order: all but a missing cell, unless levels are nominal."""
    return (np.arange(size) < size - kind.nullable) & (not isinstance(kind, Nominal))


def bins_of(schema: Schema, links: Mapping[Hashable, Link | LevelGroups]) -> dict[Hashable, np.ndarray]:
    """Return the edges of the bins of each continuous column, in its units; the code of each level of a column of very many."""
    grids = grids_of(schema)
    return {name: grids[name].edges[link.edges] if isinstance(link, Link) else link.codes for name, link in links.items()}


def uniform_model(schema: Schema, stratum: Hashable, ties: Sequence[Tie], most_codes: int) -> MarginalModel:
    """Return a model without factors, of public facts alone: it holds the rules, and can be conditioned.

    Numbers are uniform within their bounds and never missing, unless a rule says that they are. Levels are uniform, a missing one among
    them. Combinations that the rules leave are drawn in proportion. More than `most_codes` levels of a nominal column are merged.
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
    kind, link = schema[name], links.get(name)
    if link is None:
        return np.full(kind.n_codes, 1 / kind.n_codes)
    if isinstance(link, LevelGroups):
        whole = np.bincount(link.codes).astype(float)
        return np.append(whole, [1.0] * kind.nullable) / (whole.sum() + kind.nullable)
    assert isinstance(kind, Continuous)
    return np.append(link.masses, [0.0] * kind.nullable)
