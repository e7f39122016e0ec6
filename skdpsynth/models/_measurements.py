"""What was counted of some rows, and in which codes: all that a model of them is made of."""

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from skdpsynth._state_validation import is_array, require
from skdpsynth.domain import Schema
from skdpsynth.models._class_shrinkage import shrink_class_contrasts
from skdpsynth.models._column_blocks import Block, NoisyTables, shares_of
from skdpsynth.models._differences import DifferenceLaw, joint_columns
from skdpsynth.models._marginal_model import MarginalModel, is_ordered
from skdpsynth.models._pooling import Pool
from skdpsynth.models._public_prior import PublicPrior
from skdpsynth.models._quantile_bins import Link
from skdpsynth.models._rare_levels import LevelGroups
from skdpsynth.models._significant_bins import threshold_bins
from skdpsynth.models._structural_zeros import ConstrainedColumns
from skdpsynth.models._wide_training import CommonFactors
from skdpsynth.persistence import savable

_MAX_REUSE = 2  # times as many rows as chose the codes: then more rows choose others, which costs less than codes by few


@savable
@dataclass(frozen=True, eq=False)
class Codes:
    """The codes of columns, and which columns are counted in pairs: released, so that other rows may be counted in them for nothing.

    Attributes
    ----------
    links : dict
        Of each continuous column, and of each nominal one of very many levels.
    cells : dict of column to int64 ndarray
        The noisy counts that were released for the links.
    pools : dict of column to Pool
        What the links were made of: these counts, and those that were released for codes before.
    blocks : tuple of tuple of int
        Columns that depend on each other.
    n_rows : float
        How many rows they were chosen by, as far as is known.
    n_since : float, default=0.0
        How many other rows were counted in them.
    tied : tuple of TiedColumns, default=()
        Columns that rules tie.
    common : Common, default=None
        What very many columns have in common.
    near : tuple of Near, default=()
        Columns of numbers near each other.
    """

    links: Mapping[Hashable, Link | LevelGroups]
    cells: Mapping[Hashable, np.ndarray]
    pools: Mapping[Hashable, Pool]
    blocks: tuple[Block, ...]
    n_rows: float
    n_since: float = 0.0
    tied: tuple[ConstrainedColumns, ...] = ()
    common: CommonFactors | None = None
    near: tuple[DifferenceLaw, ...] = ()

    def _check_loaded(self) -> None:
        require(self.cells.keys() == self.pools.keys() and self.links.keys() >= self.cells.keys())
        require(all(is_array(cells, "i", len(self.pools[name].counts)) for name, cells in self.cells.items()))
        require(0 <= self.n_rows < math.inf and 0 <= self.n_since < math.inf)

    def can_count(self, n_more: float) -> bool:
        """Whether so many rows more shall be counted in these codes, too.

        Rows that come later may lie elsewhere, and many of them choose better codes than few: so codes are chosen anew from time to time,
        in a table that grows by factors, and in a window that does not grow as well.
        """
        return self.n_since + n_more < _MAX_REUSE * self.n_rows

    def after(self, n_more: float) -> "Codes":
        """Return these codes once so many rows more were counted in them."""
        return replace(self, n_since=self.n_since + n_more)


@savable
@dataclass(frozen=True, eq=False)
class Measurements:
    """Estimates of the tables of some rows, with the variance of what only a column, or a pair, tells.

    Attributes
    ----------
    schema : Schema
    stratum : column or None
    codes : Codes
    one_way, two_way : NoisyTables
        By the places of columns, without the stratum.
    n_samples : int or None
        Number of rows, where it is public.
    beside : PriorTables, default=None
        Counts of a public table in the same codes, towards which a model pulls the estimates.
    """

    schema: Schema
    stratum: Hashable
    codes: Codes
    one_way: NoisyTables
    two_way: NoisyTables
    n_samples: int | None
    beside: PublicPrior | None = None

    def _check_loaded(self) -> None:
        require(self.stratum is None or self.stratum in self.schema)
        n_columns, one_way, two_way = len(self._names), self.one_way.tables, self.two_way.tables
        require(
            list(one_way) == [(i,) for i in range(n_columns)]
            and sorted(i for block in self.codes.blocks for i in block) == list(range(n_columns))
        )
        n_classes = len(one_way[0,]) if self.stratum is None else self.schema[self.stratum].n_codes
        sizes = [table.shape[-1] for table in one_way.values()]
        require(all(is_array(table, "if", n_classes, -1) and table.shape[1] for table in one_way.values()))
        for (i, j), table in two_way.items():
            require(0 <= i < j < n_columns and is_array(table, "if", n_classes, sizes[i], sizes[j]))
        for name, size in zip(self._names, sizes, strict=True):
            require(name not in self.codes.links or self.codes.links[name].n_bins <= size)
        require(self.n_samples is None or self.n_samples >= 0)

    @property
    def totals(self) -> np.ndarray:
        """Number of rows of each class, as far as is known: at least 0."""
        found = np.maximum(np.mean([table.sum(axis=1) for table in self.one_way.tables.values()], axis=0), 0.0)
        return found if self.n_samples is None else self.n_samples * shares_of(found)

    def model(self, n_factors: int) -> MarginalModel:
        """Fit a model to the tables."""
        codes, (links, one_way, two_way) = self.codes, self._shrunken_tables()
        return MarginalModel.of(
            self.schema, self.stratum, links, codes.blocks, one_way, two_way, self.totals, n_factors, codes.tied, codes.common, codes.near
        )

    def model_with_triples(self, triples: NoisyTables, model: MarginalModel) -> MarginalModel:
        """Train a model of these tables on, with tables of three columns beside them."""
        _, one_way, two_way = self._shrunken_tables()
        return model.with_triples(one_way, two_way, self.totals, triples)

    def _shrunken_tables(self) -> tuple[Mapping[Hashable, Link | LevelGroups], NoisyTables, NoisyTables]:
        """Return what a model is fitted to: tables nearer to the prior, without rows of noise, whose classes differ as is expected."""
        links, one_way, two_way, totals = self.codes.links, self.one_way, self.two_way, self.totals
        if self.beside is not None:
            one_way, two_way = self.beside.pull(one_way, two_way, totals)
            links = self.beside.weighed(links, self.codes.pools, self._n_rows_by_column(one_way))
        together = joint_columns(self.codes.tied, self.codes.near)
        links, one_way, two_way = threshold_bins(self._names, links, one_way, two_way, totals, together)
        ordered = [is_ordered(self.schema[name], self.one_way.tables[i,].shape[1]) for i, name in enumerate(self._names)]
        return links, *shrink_class_contrasts(one_way, two_way, totals, ordered)

    @property
    def _names(self) -> list[Hashable]:
        return [name for name in self.schema if name != self.stratum]

    def _n_rows_by_column(self, one_way: NoisyTables) -> dict[Hashable, float]:
        """Return how many rows are not missing in each column that has a link."""
        links = self.codes.links
        return {name: float(one_way.tables[i,][:, : links[name].n_bins].sum()) for i, name in enumerate(self._names) if name in links}
