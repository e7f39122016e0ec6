"""The mechanism of a mixed model, run again on rows drawn from the model.

Nothing here reads private rows, and nothing is charged. The proof is post-processing: everything used was released before (noisy tables,
the codes of columns, the number of rows) or is public (the kinds and scales of noise in the ledger, the schema); and all draws, rows and
noise alike, are independent of the data given that. A function of released values, and of coins of its own, has their guarantee.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdpsynth.domain import Grid, grids_of
from skdpsynth.models import Estimates, LevelGroups, Link, MarginalModel, NoisyInteractions, NoisyTables, joint_columns, threshold_bins
from skdpsynth.privacy import DiscreteGaussian, DiscreteLaplace, RandomBits
from skdpsynth.statistics import CellsOf, Coding, Interactions, Marginals, Trees

_NOISES: dict[str, Any] = {"DiscreteGaussian": DiscreteGaussian, "DiscreteLaplace": DiscreteLaplace}
_WEAK = 5.0  # variance of the prior: so weak that dependences keep their size, which intervals need more than little noise
_STEPS = 400  # of each fit: a re-fit that stops earlier varies less than what it stands for (slopes by 4 to 7 % after 150)
_FITS = 2  # that are mixed: what more would average out is little against the noise of the tables

_Links = Mapping[Hashable, Link | LevelGroups]


@dataclass(frozen=True, eq=False)
class ParametricBootstrap:
    """The releases of a fit, and how to repeat them on rows of a model."""

    model: MarginalModel  # fitted to the releases under a weak prior
    noises: Mapping[str, Any]  # of each step, by the name of its release
    interactions: Interactions | None  # of released pairs; None: tables
    pairs: tuple[tuple[int, int], ...]  # whose tables are estimated
    n_samples: int
    is_public: bool  # whether `n_samples` is

    @classmethod
    def of(cls, synthesizer: Any, n_samples: int) -> "ParametricBootstrap":
        """Read the releases of a fitted synthesizer with this number of rows, and fit a model to them under a weak prior."""
        model = synthesizer._model_of_counts
        entries = (entry for entry in synthesizer.accountant_.ledger if entry.noise in _NOISES)
        noises = {entry.name: _NOISES[entry.noise](entry.scale[0] if entry.scale else 0) for entry in entries}
        sizes, names = _n_codes(model), [name for name in model.schema if name != model.stratum]
        scales = {tuple(names.index(name) for name in columns[-2:]): c for columns, c in synthesizer.interaction_scales_.items()}
        over = None
        if scales:
            multipliers = tuple(c // (sizes[i] * sizes[j]) for (i, j), c in scales.items())
            over = Interactions(tuple(sizes), tuple(scales), len(model.weights), multipliers)  # type: ignore[arg-type]
        is_public = synthesizer.neighboring == "replace_one"
        weak = replace(model, factors=tuple(replace(factors, variance=_WEAK) for factors in model.factors))
        lead = 0 if model.stratum is None else 1
        pairs: Any = [tuple(names.index(name) for name in columns[lead:]) for columns in synthesizer.marginals_consistent_]
        replay = cls(weak, noises, over, tuple(pair for pair in pairs if len(pair) == 2), n_samples, is_public)
        one_way, two_way = replay._released(synthesizer, names)
        return replace(replay, model=replay._fitted(model.links, one_way, two_way, _STEPS))

    def _released(self, synthesizer: Any, names: Sequence[Hashable]) -> tuple[NoisyTables, NoisyTables | NoisyInteractions]:
        """Return the tables that the synthesizer released, by the places of columns."""

        def placed(tables: Mapping[tuple, np.ndarray], n_columns: int) -> dict[tuple[int, ...], np.ndarray]:
            lead = 0 if self.model.stratum is None else 1
            found = {tuple(names.index(name) for name in columns[lead:]): table for columns, table in tables.items()}
            return {place: table if lead else table[None] for place, table in found.items() if len(place) == n_columns}

        one_way = self._noisy_tables(placed(synthesizer.marginals_, 1), "counts of columns")
        if self.interactions is None:
            return one_way, self._noisy_tables(placed(synthesizer.marginals_, 2), "counts of pairs")
        return one_way, self._noisy_interactions(placed(synthesizer.interactions_, 2))

    def _noisy_tables(self, tables: Mapping[tuple[int, ...], np.ndarray], name: str) -> NoisyTables:
        return NoisyTables(tables, float(self.noises[name].variance(1)) if tables else 0.0)

    def _noisy_interactions(self, tables: Mapping[tuple[int, ...], np.ndarray]) -> NoisyInteractions:
        assert self.interactions is not None
        scales: Any = dict(zip(self.interactions.pairs, self.interactions.scales, strict=True))
        return NoisyInteractions(tables, scales, float(self.noises["interactions of pairs"].variance(1)))

    def _fitted(self, links: _Links, one_way: NoisyTables, of_pairs: NoisyTables | NoisyInteractions, n_steps: int) -> MarginalModel:
        n_samples = self.n_samples if self.is_public else None
        model, estimates = self.model, Estimates.of([one_way, of_pairs], self.pairs, n_samples)
        names, rows = [name for name in model.schema if name != model.stratum], estimates.rows(n_samples)
        together = joint_columns(model.tied, model.near)
        links, one_way, two_way = threshold_bins(names, links, estimates.one_way, estimates.two_way, rows, together)
        return model.again(links, one_way, two_way, rows, _FITS, n_steps)

    def pool(self, values: Sequence[np.ndarray]) -> "BootstrapPool":
        """Return columns that the model drew as codes and cells."""
        model = self.model
        places = {name: place for place, name in enumerate(model.schema)}
        grids = grids_of(model.schema)
        cells = CellsOf({places[name]: grid for name, grid in grids.items()})(values)
        bins = {places[name]: np.append(link.codes, link.n_bins).astype(np.int32) for name, link in model.links.items()}
        stratum = None if model.stratum is None else places[model.stratum]
        codes = Coding((*(places[name] for name in model.schema if name != model.stratum), stratum), bins)(cells)
        return BootstrapPool({name: cells[places[name]] for name in model.links}, codes, grids)

    def resample_and_fit(self, pool: "BootstrapPool", rng: np.random.Generator, bits: RandomBits) -> MarginalModel:
        """Draw rows of a pool, repeat the releases of the fit on them, and fit the model again.

        Rows are drawn with replacement, independent of each other, so the fitted model has the error of a sample beside that of noise.
        """
        rows = rng.integers(len(pool.codes[0]), size=self.n_samples)
        codes = [column[rows] for column in pool.codes]
        links = self._links(pool, rows, bits)
        sizes = [*_n_codes(self.model), len(self.model.weights)]
        columns = [(i,) for i in range(len(sizes) - 1)]
        one_way = self._counted(codes, sizes, columns, "counts of columns", bits)
        if self.interactions is None:
            tables = self._counted(codes, sizes, self.pairs, "counts of pairs", bits)
            return self._fitted(links, one_way, tables, _STEPS)
        exact = Marginals.of(codes, sizes, [(len(sizes) - 1, *pair) for pair in self.interactions.pairs])
        values = self.interactions.query(exact, "replace_one").values
        noisy = values + self.noises["interactions of pairs"].sample(values.shape, bits)
        return self._fitted(links, one_way, self._noisy_interactions(self.interactions.tables(noisy)), _STEPS)

    def _counted(
        self, codes: Sequence[np.ndarray], sizes: Sequence[int], places: Sequence[tuple[int, ...]], name: str, bits: RandomBits
    ) -> NoisyTables:
        if not places:
            return NoisyTables({}, 0.0)
        exact = Marginals.of(codes, sizes, [(len(sizes) - 1, *place) for place in places])
        noisy = exact.counts + self.noises[name].sample(exact.counts.shape, bits)
        return self._noisy_tables(dict(zip(places, exact.tables(noisy), strict=True)), name)

    def _links(self, pool: "BootstrapPool", rows: np.ndarray, bits: RandomBits) -> _Links:
        """Return the links, in the same bins, by noisy counts of cells and of levels."""
        links: dict[Hashable, Link | LevelGroups] = {}
        for name, link in self.model.links.items():
            if isinstance(link, Link):
                depth = pool.grids[name].depth
                exact = Trees.of([pool.cells[name][rows]], [depth])
                noise = self.noises["counts of cells"]
                levels = exact.levels(exact.counts + noise.sample(exact.counts.shape, bits))[0]
                links[name] = link.weighed([levels.get(j) for j in range(1, depth + 1)], float(noise.variance(1)))
            else:
                noise = self.noises["counts of levels"]
                counts = np.bincount(pool.cells[name][rows], minlength=len(link.order) + 1)[: len(link.order)]
                links[name] = link.weighed(counts + noise.sample(counts.shape, bits), float(noise.variance(1)) ** 0.5)
        return links


@dataclass(frozen=True, eq=False)
class BootstrapPool:
    """Rows of a model, so many that samples of them are nearly samples of the model."""

    cells: Mapping[Hashable, np.ndarray]  # cells of numbers (-1: missing) and numbers of levels, of the columns that have links
    codes: Sequence[np.ndarray]  # of all columns but the stratum, and last of that
    grids: Mapping[Hashable, Grid]


def _n_codes(model: MarginalModel) -> list[int]:
    """Return the number of codes of each column but the stratum."""
    blocks = zip(model.blocks, model.factors, strict=True)
    sizes = dict(item for block, factors in blocks for item in zip(block, factors.sizes.tolist(), strict=True))
    return [sizes[column] for column in sorted(sizes)]
