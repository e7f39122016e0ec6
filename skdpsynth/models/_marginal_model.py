"""What strategy "marginals" keeps of a table: latent factors in blocks of columns, and the links of continuous columns."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from skdpsynth.domain import Schema, grids_of
from skdpsynth.models._blocks import Block, NoisyTables, shares_of
from skdpsynth.models._estimates import deviations_beside
from skdpsynth.models._latent_factors import LatentFactors
from skdpsynth.models._level_groups import LevelGroups
from skdpsynth.models._linked_columns import linked
from skdpsynth.models._links import Link
from skdpsynth.models._row_law import RowLaw
from skdpsynth.models._tied import TiedColumns, groups_of, possible_strata
from skdpsynth.persistence import savable

_LEAST_ROWS = 10.0  # of a class: fewer make frequencies of noise


@savable
@dataclass(frozen=True, eq=False)
class MarginalModel:
    """A latent factor model of each stratum, with the links of its columns.

    Attributes
    ----------
    schema : Schema
    stratum : column or None
    weights : ndarray of shape (n_strata,)
    blocks : tuple of tuple of int
        Columns that depend on each other, without the stratum.
    factors : tuple of LatentFactors
        Of each block; their classes are the strata.
    links : dict
        Of each continuous column, and of each nominal one of very many levels.
    tied : tuple of TiedColumns, default=()
        Columns that rules tie.
    """

    schema: Schema
    stratum: Hashable
    weights: np.ndarray
    blocks: tuple[Block, ...]
    factors: tuple[LatentFactors, ...]
    links: Mapping[Hashable, Link | LevelGroups]
    tied: tuple[TiedColumns, ...] = ()

    @classmethod
    def of(
        cls,
        schema: Schema,
        stratum: Hashable,
        links: Mapping[Hashable, Link | LevelGroups],
        blocks: Sequence[Block],
        one_way: NoisyTables,
        two_way: NoisyTables,
        totals: np.ndarray,
        n_factors: int,
        tied: Sequence[TiedColumns] = (),
    ) -> "MarginalModel":
        """Fit the factors of each block to the tables within it; `totals` are the numbers of rows of the strata."""
        names, deviations = [name for name in schema if name != stratum], deviations_beside(one_way, two_way)
        factors = tuple(
            LatentFactors.of(
                [one_way.tables[(i,)] for i in block],
                {(a, b): two_way.tables[i, j] for (a, i), (b, j) in combinations(enumerate(block), 2)},
                np.maximum(totals, _LEAST_ROWS),
                deviations,
                n_factors,
                groups_of(tied, names, block, stratum, len(totals)),
            )
            for block in blocks
        )
        shares = shares_of(totals)
        if not (possible := possible_strata(tied, stratum, len(totals))).all():
            shares = shares_of(np.where(possible, np.maximum(shares, 1e-9), 0))
        return cls(schema, stratum, shares, tuple(blocks), factors, links, tuple(tied))

    def law(self) -> RowLaw:
        """Return the law of the rows."""
        grids = grids_of(self.schema)
        return RowLaw(
            self.schema,
            self.stratum,
            self.blocks,
            self.weights,
            tuple(tuple(factors.mixture(label) for factors in self.factors) for label in range(len(self.weights))),
            {name: linked(link, self.schema[name], grids.get(name)) for name, link in self.links.items()},
            self.tied,
        )

    def sample(self, n_samples: int, rng: np.random.Generator, n_jobs: int | None = None) -> list[np.ndarray]:
        """Return values of columns, as `skdpsynth.domain.read` gives them, made by so many threads."""
        return self.law().sample(n_samples, rng, n_jobs)

    def sample_blocks(self, n_samples: int, rng: np.random.Generator) -> Iterator[list[np.ndarray]]:
        """Yield the same, a block of rows at a time."""
        return self.law().sample_blocks(n_samples, rng)


def bins_of(schema: Schema, links: Mapping[Hashable, Link | LevelGroups]) -> dict[Hashable, np.ndarray]:
    """Return the edges of the bins of each continuous column, in its units; the code of each level of a column of very many."""
    grids = grids_of(schema)
    return {name: grids[name].edges[link.edges] if isinstance(link, Link) else link.codes for name, link in links.items()}
