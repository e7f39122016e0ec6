"""What strategy "marginals" keeps of a table: latent factors in blocks of columns, and the links of continuous columns."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from skdpsynth.domain import Grid, Schema, grids_of
from skdpsynth.models._blocks import Block, NoisyTables, shares_of
from skdpsynth.models._latent_factors import LatentFactors
from skdpsynth.models._links import Link
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
        Of each continuous column.
    """

    schema: Schema
    stratum: Hashable
    weights: np.ndarray
    blocks: tuple[Block, ...]
    factors: tuple[LatentFactors, ...]
    links: Mapping[Hashable, Link]

    @classmethod
    def of(
        cls,
        schema: Schema,
        stratum: Hashable,
        links: Mapping[Hashable, Link],
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

    def sample(self, n_samples: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Return values of columns, as `skdpsynth.domain.read` gives them."""
        upto = np.concatenate([[0.0], np.cumsum(self.weights)]) * n_samples
        counts: np.ndarray = np.diff(np.floor(upto + rng.random()).astype(np.int64))
        counts[-1] += n_samples - counts.sum()
        codes = np.empty((sum(map(len, self.blocks)), n_samples), dtype=np.int64)
        stops = np.cumsum(counts)
        for label, (start, stop) in enumerate(zip(stops - counts, stops, strict=True)):
            for model, block in zip(self.factors, self.blocks, strict=True):
                codes[list(block), start:stop] = model.sample(int(stop - start), rng, label)
        order = rng.permutation(n_samples)
        strata = np.repeat(np.arange(len(counts)), counts)[order]
        coded, grids = iter(codes[:, order]), grids_of(self.schema)
        return [strata if name == self.stratum else self._decoded(next(coded), name, grids.get(name), rng) for name in self.schema]

    def bins(self) -> dict[Hashable, np.ndarray]:
        """Return the edges of the bins of each continuous column, in its units."""
        grids = grids_of(self.schema)
        return {name: grids[name].edges[link.edges] for name, link in self.links.items()}

    def _decoded(self, codes: np.ndarray, name: Hashable, grid: Grid | None, rng: np.random.Generator) -> np.ndarray:
        if grid is None:
            return codes
        link = self.links[name]
        missing = codes == link.n_bins
        return np.where(missing, np.nan, grid.place(link.cells_of(np.where(missing, 0, codes), rng), rng))
