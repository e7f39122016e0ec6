"""What strategy "marginals" keeps of a table: latent factors in blocks of columns, and the links of continuous columns."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from skdpsynth.domain import Schema, grids_of
from skdpsynth.models._blocks import Block, NoisyTables, shares_of
from skdpsynth.models._latent_factors import LatentFactors
from skdpsynth.models._level_groups import LevelGroups
from skdpsynth.models._links import Link
from skdpsynth.models._marginal_draw import MarginalDraw
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
    """

    schema: Schema
    stratum: Hashable
    weights: np.ndarray
    blocks: tuple[Block, ...]
    factors: tuple[LatentFactors, ...]
    links: Mapping[Hashable, Link | LevelGroups]

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
    ) -> "MarginalModel":
        """Fit the factors of each block to the tables within it; `totals` are the numbers of rows of the strata."""
        factors = tuple(
            LatentFactors.of(
                [one_way.tables[(i,)] for i in block],
                {(a, b): two_way.tables[i, j] for (a, i), (b, j) in combinations(enumerate(block), 2)},
                np.maximum(totals, _LEAST_ROWS),
                (one_way.deviation, two_way.deviation),
                n_factors,
            )
            for block in blocks
        )
        return cls(schema, stratum, shares_of(totals), tuple(blocks), factors, links)

    def sample(self, n_samples: int, rng: np.random.Generator, n_jobs: int | None = None) -> list[np.ndarray]:
        """Return values of columns, as `skdpsynth.domain.read` gives them, made by so many threads."""
        return MarginalDraw(self, n_samples, rng).values(n_jobs)

    def sample_blocks(self, n_samples: int, rng: np.random.Generator) -> Iterator[list[np.ndarray]]:
        """Yield the same, a block of rows at a time."""
        return MarginalDraw(self, n_samples, rng).blocks()

    def bins(self) -> dict[Hashable, np.ndarray]:
        """Return the edges of the bins of each continuous column, in its units; the code of each level of a column of very many."""
        grids = grids_of(self.schema)
        return {name: grids[name].edges[link.edges] if isinstance(link, Link) else link.codes for name, link in self.links.items()}
