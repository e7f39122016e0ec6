"""Measurements of a table: its noisy marginals, the codes they are counted in, and the model that is fitted to them and sampled."""

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, repeat

import numpy as np
from scipy.fft import dct, idct
from scipy.linalg import null_space

from skdpsynth._serialization import is_array, require
from skdpsynth.domain import Nominal, Schema, Tie, edges_of_spans, grids_of
from skdpsynth.models._joint_distribution import JointDistribution
from skdpsynth.models._latent_factors import BlockTables, LatentFactors
from skdpsynth.models._mixture import Mixture
from skdpsynth.models._noisy_tables import Block, NoisyTables, Pool, Table, pool_tables, shares_of
from skdpsynth.models._parity_parts import ParityPart, parity_means, tilt
from skdpsynth.models._public_prior import PublicPrior
from skdpsynth.models._quantile_bins import LevelGroups, Link, RefinedBins, share_by_mass
from skdpsynth.models._significant_bins import threshold_bins
from skdpsynth.models._structural_zeros import ConstrainedColumns, block_groups, constrain_columns, constraint_cuts, possible_strata
from skdpsynth.models._wide_factors import CommonFactors, fit_wide_factors
from skdpsynth.models._within_bin import DifferenceLaw, DifferenceSampler, difference_pairs, joint_columns, link_column
from skdpsynth.persistence import savable

_FINEST = -1  # power of 4 of the smallest variance but 0 of a component, in those of noise
_ROUNDS = 300
_EXACT = 1e-20  # times the square of the number of rows: a variance of which nothing can be seen
_LEAST_ORDERED = 3  # codes
_N_BINS = 16  # of a model of public facts
_NEVER = 1e-30  # probability of an impossible code, whose logarithm is finite
_MAX_REUSE = 2  # times the rows that chose the codes; beyond, codes by few rows cost more than choosing anew


@savable
@dataclass(frozen=True, eq=False)
class Codes:
    """The codes of columns, and the columns counted in pairs. They are released, so counting other rows in them costs nothing more."""

    links: Mapping[Hashable, Link | LevelGroups]  # of each continuous column, and of each nominal one of very many levels
    cells: Mapping[Hashable, np.ndarray]  # the noisy counts that were released for the links, int64
    pools: Mapping[Hashable, Pool]  # the counts behind the links: `cells`, and those released for earlier codes
    blocks: tuple[Block, ...]  # columns that depend on each other
    n_rows: float  # number of rows that chose the codes, as far as it is known
    n_since: float = 0.0  # number of other rows that were counted in them
    tied: tuple[ConstrainedColumns, ...] = ()
    common: CommonFactors | None = None
    near: tuple[DifferenceLaw, ...] = ()

    def _check_loaded(self) -> None:
        require(self.cells.keys() == self.pools.keys())
        require(all(is_array(cells, "i", len(self.pools[name].counts)) for name, cells in self.cells.items()))

    def fits(self, schema: Schema) -> bool:
        """Return whether every cell and level of a schema has a code: rows that had none would raise, and so be told of."""
        grids = grids_of(schema)
        for name, link in self.links.items():
            if name not in schema or isinstance(link, LevelGroups) != (name not in grids):
                return False
            n_held, n_cells = (
                (len(link.order), len(schema[name].levels)) if isinstance(link, LevelGroups) else (len(link.mass), grids[name].n_cells)
            )
            if n_held != n_cells:
                return False
        return self.links.keys() >= grids.keys()

    def can_count(self, n_more: float) -> bool:
        """Return whether so many more rows may be counted in these codes.

        Later rows may lie elsewhere, and many rows choose better codes than few do. So codes are chosen anew from time to time, in growing
        tables and in windows alike.
        """
        return self.n_since + n_more < _MAX_REUSE * self.n_rows

    def after(self, n_more: float) -> "Codes":
        return replace(self, n_since=self.n_since + n_more)


@savable
@dataclass(frozen=True, eq=False)
class Measurements:
    """Estimates of the tables of some rows, with the variance of a number of an effect or interaction."""

    schema: Schema
    stratum: Hashable
    codes: Codes
    one_way: NoisyTables
    two_way: NoisyTables
    n_samples: int | None  # None where it is private
    prior: PublicPrior | None = None  # counts of a public table, towards which estimates are pulled

    def _check_loaded(self) -> None:
        one_way, n_columns = self.one_way.tables, len(self._names)
        require(list(one_way) == [(i,) for i in range(n_columns)] and sorted(chain(*self.codes.blocks)) == list(range(n_columns)))
        n_classes = 1 if self.stratum is None else self.schema[self.stratum].n_codes
        sizes = [table.shape[-1] for table in one_way.values()]
        require(all(is_array(table, "if", n_classes, -1) for table in one_way.values()) and self.codes.fits(self.schema))
        require(all(is_array(table, "if", n_classes, sizes[i], sizes[j]) for (i, j), table in self.two_way.tables.items()))
        for name, size in zip(self._names, sizes, strict=True):
            require(name not in self.codes.links or self.codes.links[name].n_bins <= size)

    @property
    def totals(self) -> np.ndarray:
        """Estimated number of rows of each class, at least 0."""
        found = np.maximum(np.mean([table.sum(axis=1) for table in self.one_way.tables.values()], axis=0), 0.0)
        return found if self.n_samples is None else self.n_samples * shares_of(found)

    def model(self, n_factors: int) -> "TableModel":
        codes, names, totals, (links, one_way, two_way) = self.codes, self._names, self.totals, self._shrunken_tables()
        blocks, common, ordered, tables = codes.blocks, codes.common, self._is_ordered(names), []
        for block in blocks:
            groups = block_groups(codes.tied, names, block, self.stratum, len(totals))
            groups += difference_pairs(codes.near, self.schema, links, names, block)
            n_ordered = () if common else tuple(int(ordered[i].sum()) for i in block)
            tables.append(BlockTables.of(block, one_way, two_way, totals, groups, n_ordered))
        if common is None:
            factors = tuple(map(LatentFactors.of, tables, repeat(n_factors)))
        else:
            factors = fit_wide_factors(blocks, tables, common, n_factors, ordered)
        weights, n_common = stratum_weights(totals, self.stratum, codes.tied), 1 if common is None else len(common.nodes)
        return TableModel(self.schema, self.stratum, weights, tuple(blocks), factors, links, tuple(codes.tied), n_common, codes.near)

    def model_with_triples(self, triples: NoisyTables, model: "TableModel", within: int | None) -> "TableModel":
        _, one_way, two_way = self._shrunken_tables()
        return model.with_triples(one_way, two_way, self.totals, triples, within)

    def _shrunken_tables(self) -> tuple[Mapping[Hashable, Link | LevelGroups], NoisyTables, NoisyTables]:
        """Return the tables to fit: pulled to the prior, without rows of noise, and with shrunken differences between classes."""
        names, links, one_way, two_way, totals = self._names, self.codes.links, self.one_way, self.two_way, self.totals
        if self.prior is not None:
            one_way, two_way = self.prior.pull(one_way, two_way, totals)
            present = {name: one_way.tables[i,][:, : links[name].n_bins] for i, name in enumerate(names) if name in links}
            links = self.prior.reweigh(links, self.codes.pools, {name: float(table.sum()) for name, table in present.items()})
        together = joint_columns(self.codes.tied, self.codes.near)
        links, one_way, two_way = threshold_bins(names, links, one_way, two_way, totals, together, edges_of_spans(self.schema))
        return links, *shrink_class_contrasts(one_way, two_way, totals, self._is_ordered(names))

    def _is_ordered(self, names: Sequence[Hashable]) -> list[np.ndarray]:
        """Return which codes of each column have an order: all but a missing cell, unless levels are nominal."""
        out = []
        for i, name in enumerate(names):
            kind, size = self.schema[name], self.one_way.tables[i,].shape[1]
            out.append((np.arange(size) < size - kind.nullable) & (not isinstance(kind, Nominal)))
        return out

    @property
    def _names(self) -> list[Hashable]:
        return [name for name in self.schema if name != self.stratum]


def pool_measurements(parts: Sequence[Measurements], numbers: Sequence[float]) -> Measurements:
    """Estimate the tables of the union of disjoint parts, in time order, in the codes of the last one.

    `numbers` tells how many rows of the union each part stands for. The prior is that of the last part that has one: a loaded stream has
    none.
    """
    last, steps = parts[-1], dict[str, NoisyTables]()
    recodings = list[dict[int, np.ndarray | None]]()  # of each part, by the place of a column; None where codes stayed
    for part in parts:
        recodings.append({})
        for place, name in enumerate(last._names):
            old, new = part.codes.links.get(name), last.codes.links.get(name)
            is_same = old is None or new is None or old is new
            recodings[-1][place] = None if is_same else recoding_matrix(old, new, last.schema[name].nullable)  # type: ignore[arg-type]
    counts = [max(1.0, float(part.totals.sum())) for part in parts]
    for step in ("one_way", "two_way"):
        tables, variances, sizes = {}, [], []
        for place in getattr(last, step).tables:
            found: list[Table | None] = []
            for part, recoding in zip(parts, recodings, strict=True):
                noisy = getattr(part, step)
                table = noisy.tables.get(place)
                found.append(None if table is None else _recode_table(table, noisy.variance, [recoding[i] for i in place]))
            tables[place], variance = pool_tables(found, counts, numbers)
            variances.append(variance)
            sizes.append(tables[place].size)
        mean = float(np.average(variances, weights=sizes)) if sizes else getattr(last, step).variance
        steps[step] = replace(getattr(last, step), tables=tables, variance=mean)
    prior = None
    for part, recoding in zip(parts, recodings, strict=True):
        if (earlier := part.prior) is not None:
            own = [
                {place: _recode_table(table, 0.0, [recoding[i] for i in place])[0] for place, table in each.items()}
                for each in (earlier.one_way, earlier.two_way)
            ]
            prior = replace(earlier, one_way=own[0], two_way=own[1])
    n_samples = max(1, round(sum(numbers)))
    return replace(last, one_way=steps["one_way"], two_way=steps["two_way"], n_samples=n_samples, prior=prior)


def recoding_matrix(old: Link | LevelGroups, new: Link | LevelGroups, nullable: bool) -> np.ndarray:
    """Return which share of each old code becomes each new one, by the mass of the cells that both hold, shape (n_old, n_new).

    Both have the same cells. With `nullable`, the code after the last is a missing cell.
    """
    shares = np.zeros((old.n_bins + nullable, new.n_bins + nullable))
    mass = new.mass if isinstance(new, Link) else np.empty(len(new.order))
    if isinstance(new, LevelGroups):
        mass[new.order] = new.link.mass
    # A code without mass is spread over its cells alike.
    np.add.at(shares, (old.codes, new.codes), mass + 1e-12 / len(mass))
    if nullable:
        shares[-1, -1] = 1
    return shares / shares.sum(axis=1, keepdims=True)


def _recode_table(table: np.ndarray, variance: float, recodings: Sequence[np.ndarray | None]) -> Table:
    for axis, shares in enumerate(recodings, start=1):
        if shares is not None:
            table = np.moveaxis(np.tensordot(table, shares, (axis, 0)), -1, axis)
            variance *= float((shares**2).sum(axis=0).mean())
    return table, variance


def shrink_class_contrasts(
    one_way: NoisyTables, two_way: NoisyTables, totals: np.ndarray, is_ordered: Sequence[np.ndarray]
) -> tuple[NoisyTables, NoisyTables]:
    """Shrink the differences between classes to their expectation given the noisy tables of `Estimates`: empirical Bayes.

    A column of which all classes have their share of rows is a multiple of these shares at each code. The part that is orthogonal to them
    is a contrast, whose noise is independent; of ordered codes it is written in cosines, as it is often smooth. Most contrasts are small
    against their noise, and a few are not. So the contrasts of all columns are taken as drawn from one mixture of normal distributions
    around 0, whose weights they tell, and each becomes its mean given its noisy value: small ones vanish, large ones stay. Otherwise a
    classifier trained on synthetic rows would sum the noise of all columns up. `is_ordered` says which codes of each column have an order:
    the first ones.

    See Stephens (2017), "False discovery rates: a new deal", equations 2 to 5, and Robbins (1956) on empirical Bayes.
    """
    n_classes = len(totals)
    if n_classes == 1 or one_way.variance <= _EXACT * np.sum(totals) ** 2:
        return one_way, two_way
    shares = shares_of(totals)
    unit = shares / np.linalg.norm(shares)
    contrasts = null_space(unit[None]) * one_way.deviation  # orthogonal ones, whose noise has variance 1
    evens: dict[Block, np.ndarray] = {place: np.outer(unit, unit @ table) for place, table in one_way.tables.items()}
    back = contrasts.T / one_way.variance
    noisy = [_cosines(back @ table, is_ordered[place[0]], dct) for place, table in one_way.tables.items()]
    # Noise moves all coefficients but one: if all codes are ordered, the first cosine is the sum, which is 0.
    fixed = [int(is_ordered[i].all() and len(is_ordered[i]) >= _LEAST_ORDERED) for (i,) in one_way.tables]
    means, left = posterior_means(np.hstack([part[:, n:] for part, n in zip(noisy, fixed, strict=True)]))
    columns, start = {}, 0
    for (place, even), part, n in zip(evens.items(), noisy, fixed, strict=True):
        stop = start + part.shape[1] - n
        part[:, :n], part[:, n:] = 0, means[:, start:stop]
        contrast = _cosines(part, is_ordered[place[0]], idct)
        columns[place], start = even + contrasts @ (contrast - contrast.mean(axis=1, keepdims=True)), stop  # classes keep their rows
    moves = {i: columns[i,] - table for (i,), table in one_way.tables.items()}
    pairs: dict[Block, np.ndarray] = {
        (i, j): table + moves[i][:, :, None] / table.shape[2] + moves[j][:, None, :] / table.shape[1]
        for (i, j), table in two_way.tables.items()
    }
    variance = one_way.variance * (1 + (n_classes - 1) * left) / n_classes
    return NoisyTables(columns, variance), replace(two_way, tables=pairs)


def posterior_means(values: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the posterior means of vectors, shape (n_numbers, n_vectors), and the mean variance that is left of a number, from 0 to 1.

    Their noise is normal of variance 1. The law of a vector has no direction.
    """
    squares = (values**2).sum(axis=0)[:, None]
    top = math.ceil(math.log2(max(1.0, float(squares.max(initial=0.0)))) / 2)
    variances = np.array([0.0, *(4.0**power for power in range(_FINEST, top + 1))])
    logarithms = -squares / (2 * (1 + variances)) - len(values) * np.log1p(variances) / 2
    likelihoods = np.exp(logarithms - logarithms.max(axis=1, keepdims=True, initial=-np.inf))
    weights = np.full(len(variances), 1 / len(variances))
    for _ in range(_ROUNDS):  # of expectation and maximization
        given = likelihoods * weights
        given /= given.sum(axis=1, keepdims=True)
        weights = given.mean(axis=0)
    lost = 1 / (1 + variances)  # tiny differences of 1 - lost would be rounded away
    share = given @ lost
    spread = (given * (lost - share[:, None]) ** 2).sum(axis=1) * squares[:, 0] / len(values)
    return values * (1 - share), min(float(np.mean(1 - share + spread)), 1.0)


def _cosines(contrast: np.ndarray, is_ordered: np.ndarray, transform: Callable[..., np.ndarray]) -> np.ndarray:
    """Return the transform of the ordered codes by `dct`, or `idct`."""
    n = int(is_ordered.sum())
    return contrast.copy() if n < _LEAST_ORDERED else np.hstack([transform(contrast[:, :n], axis=1, norm="ortho"), contrast[:, n:]])


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
    parities: tuple[ParityPart, ...] = ()  # of a model of one block, of columns that neither rules nor differences join

    def _check_loaded(self) -> None:
        require(is_array(self.weights, "f", -1) and self.weights.min() >= 0 and self.weights.sum() > 0)
        held = [column for part in self.parities for column in part.columns]
        names, joined = [name for name in self.schema if name != self.stratum], joint_columns(self.tied, self.near)
        free = {place for place, name in enumerate(names) if name not in joined}
        require(not held or (len(self.blocks) == 1 and len(set(held)) == len(held) and set(held) <= free))
        for part in self.parities:
            sizes = self.factors[0].sizes[list(part.columns)].tolist()
            require([len(sign) for sign in part.signs] == sizes and len(part.weights) == len(self.weights))

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

    def with_triples(
        self, one_way: NoisyTables, two_way: NoisyTables, totals: np.ndarray, triples: NoisyTables, within: int | None
    ) -> "TableModel":
        """Train this model of one block further, with tables of three columns beside those that it was fitted to."""
        (factors,), (tables,) = self.factors, self._block_tables(one_way, two_way, totals)
        return replace(self, factors=(factors.with_triples(tables, triples.tables, triples.deviation, within),))

    def _block_tables(self, one_way: NoisyTables, two_way: NoisyTables, totals: np.ndarray) -> list[BlockTables]:
        parts = zip(self.blocks, self.factors, strict=True)
        return [BlockTables.of(block, one_way, two_way, totals, factors.groups, factors.n_ordered) for block, factors in parts]

    def probabilities(self, label: int) -> list[np.ndarray]:
        """Return P(code | node) of each column of the first block, in a class."""
        factors = self.factors[0]
        return np.split(factors.probabilities(label), np.cumsum(factors.sizes)[:-1])

    def without_factors(self) -> "TableModel":
        """Return a model in which the columns of a stratum depend on each other by rules alone."""
        return replace(self, factors=tuple(factors.without_loadings() for factors in self.factors), parities=())

    def parity_means(self, signs: Mapping[int, np.ndarray], sets: Sequence[np.ndarray]) -> np.ndarray:
        """Return the mean product of the signs of each set in each class; `signs` are by columns, and sets hold their numbers in it."""
        return np.array([parity_means(mixture, label, self.parities, signs, sets) for label, mixture in enumerate(self._mixtures)])

    def with_parity(self, signs: Mapping[int, np.ndarray], means: np.ndarray) -> "TableModel | None":
        """Return the model in which the product of these signs has a mean in each class, by `tilt`; None if that has too many columns."""
        parities = tilt(self._mixtures, self.parities, signs, means)
        return None if parities is None else replace(self, parities=parities)

    @property
    def _mixtures(self) -> list[Mixture]:
        return [self.factors[0].mixture(label) for label in range(len(self.weights))]

    def law(self) -> JointDistribution:
        """Return the law of the rows, in which bins are cut finer where they are few.

        Columns that are drawn together keep their bins, but for those without mass, as a model hardly excludes empty bins.
        """
        grids, together, links = grids_of(self.schema), joint_columns(self.tied, self.near), dict(self.links)
        recoded: dict[Hashable, Callable[[np.ndarray], np.ndarray]] = {}  # from P(code | node) to P(code drawn | node)
        nonempty: dict[Hashable, np.ndarray] = {}
        coarse: dict[int, np.ndarray] = {}  # the code that each code drawn comes from
        names, mixtures = [name for name in self.schema if name != self.stratum], []
        nullable = [bool(self.schema[name].nullable) for name in names]
        for name, link in self.links.items():
            if isinstance(link, LevelGroups):
                continue
            if name in together:
                if not link.masses.all():
                    nonempty[name] = np.append(link.masses > 0, [True] * self.schema[name].nullable).astype(float)
            elif (finer := RefinedBins.of(link)) is not None:
                links[name], recoded[name] = finer.link, partial(_refine_probabilities, link, finer)
                coarse[names.index(name)] = np.append(finer.coarse, np.full(int(self.schema[name].nullable), link.n_bins))
            elif link.alike is not None:
                recoded[name] = partial(share_by_mass, link)
        columns = {name: link_column(link, grids.get(name)) for name, link in links.items()}
        for label in range(len(self.weights)):
            found = []
            for block, factors in zip(self.blocks, self.factors, strict=True):
                places = {place: names[column] for place, column in enumerate(block)}
                mixture = factors.mixture(label).recode({place: recoded[name] for place, name in places.items() if name in recoded})
                some = {place: nonempty[name] for place, name in places.items() if name in nonempty}
                conditional, probability = mixture.condition(some) if some else (mixture, 1.0)
                mixture = conditional if probability else mixture
                for part in self.parities:
                    mixture = part.join(mixture, label, coarse, nullable)
                found.append(mixture)
            mixtures.append(tuple(found))
        common = None if self.n_common == 1 else tuple(np.full(self.n_common, 1 / self.n_common) for _ in self.weights)
        near = tuple(DifferenceSampler.of(each, columns) for each in self.near)
        return JointDistribution(
            self.schema, self.stratum, self.blocks, self.weights, tuple(mixtures), columns, self.tied, common=common, near=near
        )

    def sample(self, n_samples: int, rng: np.random.Generator, n_jobs: int | None = None) -> list[np.ndarray]:
        return self.law().sample(n_samples, rng, n_jobs)

    def sample_blocks(self, n_samples: int, rng: np.random.Generator) -> Iterator[list[np.ndarray]]:
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
    names, shares = [name for name in schema if name != stratum], []
    for name in names:
        kind, link = schema[name], links.get(name)
        if isinstance(link, LevelGroups):
            whole = np.bincount(link.codes).astype(float)
            shares.append(np.append(whole, [1.0] * kind.nullable) / (whole.sum() + kind.nullable))
        else:
            shares.append(np.full(kind.n_codes, 1 / kind.n_codes) if link is None else np.append(link.masses, [0.0] * kind.nullable))
    block, n_strata = tuple(range(len(names))), 1 if stratum is None else schema[stratum].n_codes
    sizes, logits = np.array([len(share) for share in shares]), np.log(np.maximum(np.concatenate(shares), _NEVER))
    intercepts = np.tile(logits, (1, n_strata, 1))
    groups = block_groups(tied, names, block, stratum, n_strata)
    factors = LatentFactors(sizes, np.zeros((1, 1)), intercepts, np.zeros((*intercepts.shape, 1)), groups)
    possible = possible_strata(tied, stratum, n_strata).astype(float)
    return TableModel(schema, stratum, possible / possible.sum(), (block,), (factors,), links, tuple(tied))
