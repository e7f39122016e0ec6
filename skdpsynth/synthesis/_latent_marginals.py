"""The marginals of a mixed table, released, and the latent factor model that they are made into."""

import math
import warnings
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from skdpsynth.domain import Continuous, Nominal, grids_of
from skdpsynth.exceptions import SmallSampleWarning
from skdpsynth.measures import LatentFactors, Link
from skdpsynth.privacy import (
    DiscreteGaussian,
    DiscreteLaplace,
    PrivacyLoss,
    check_delta,
    gaussian_scale,
    laplace_scale,
    rho_of_epsilon,
    split_exactly,
)
from skdpsynth.statistics import Marginals

# Of the budget, in proportion for the steps that there are. Up to _ONE_BLOCK columns, others do about as well.
_SHARES = {"cells": 0.1, "one-way": 0.1, "two-way": 0.8}
_SHARES_OF_BLOCKS = {"cells": 0.2, "one-way": 0.3, "scores": 0.2, "two-way": 0.3}
_NAMES = {
    "cells": "counts of cells",
    "one-way": "counts of columns",
    "scores": "counts of pairs, merged",
    "two-way": "counts of pairs",
}
_ONE_BLOCK = 40  # columns up to which every pair is counted
_BLOCK = 12  # ... beyond, the most columns of a block
_DEPENDENT = 12.0  # score above which columns are joined: chi squared passes it by chance once in 2,000 pairs
_GROUPS = 3  # of a nominal column in the scores; others have two
_FAN_OUT = 2  # halvings from one measured level of a tree to the next
_BINS = 16  # of a continuous column
_MOST_COUNTS = 1 << 27
_LEAST_ROWS = 10.0  # of a class: fewer make frequencies of noise


class TableRelease:
    """The counts of one fit, in steps with fixed shares of the budget; a row is counted once in each table."""

    def __init__(self, accountant, rng, steps):
        self.accountant, self.rng = accountant, rng
        self._is_gaussian = bool(check_delta(accountant.delta)) and accountant.epsilon != math.inf
        budget = rho_of_epsilon(accountant.epsilon, accountant.delta) if self._is_gaussian else accountant.epsilon
        shares = _SHARES_OF_BLOCKS if "scores" in steps else _SHARES
        self._budgets = dict(zip(steps, split_exactly(budget, [shares[step] for step in steps]), strict=True))

    def counts(self, step, values, n_tables):
        """Release the counts of `n_tables` tables; return them with their noise variance."""
        # Adding or removing a row changes a count of each table by 1; replacing it, two counts of each table at most. As every change is 1,
        # the L1 sensitivity and the square of the L2 sensitivity are both the number of counts that change.
        changes = n_tables * (2 if self.accountant.neighboring == "replace_one" else 1)
        budget = self._budgets[step]
        noise: DiscreteGaussian | DiscreteLaplace
        if self._is_gaussian:
            noise, loss = DiscreteGaussian(gaussian_scale(changes, budget)), PrivacyLoss(rho=budget)
        else:
            noise, loss = DiscreteLaplace(laplace_scale(changes, budget)), PrivacyLoss(epsilon=budget)
        return self.accountant.release(values, noise, self.rng.child(step), name=_NAMES[step], loss=loss), float(noise.variance())


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

    schema: Any
    stratum: Any
    weights: np.ndarray
    blocks: tuple
    factors: tuple
    links: dict

    def sample(self, n_samples, rng):
        """Return values of columns, as `skdpsynth.domain.read` gives them."""
        counts = np.diff(np.floor(np.concatenate([[0.0], np.cumsum(self.weights)]) * n_samples + rng.random()).astype(np.int64))
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

    def bins(self):
        """Return the edges of the bins of each continuous column, in its units."""
        grids = grids_of(self.schema)
        return {name: grids[name].edges[link.edges] for name, link in self.links.items()}

    def _decoded(self, codes, name, grid, rng):
        if grid is None:
            return codes
        link = self.links[name]
        missing = codes == link.n_bins
        return np.where(missing, np.nan, grid.place(link.cells_of(np.where(missing, 0, codes), rng), rng))


def fit_marginals(values, schema, stratum, n_factors, accountant, rng):
    """Release the tree counts of continuous columns, the counts of columns and of pairs; fit a model to them.

    Returns
    -------
    model : MarginalModel
    marginals, cells : dict
    n_samples : int
    """
    n_samples, is_public = len(values[0]), accountant.neighboring == "replace_one"
    columns = dict(zip(schema, values, strict=True))
    names = [name for name in schema if name != stratum]
    grids = grids_of(schema)
    steps = ["cells"] * bool(grids) + ["one-way"] + ["scores"] * (len(names) > _ONE_BLOCK) + ["two-way"] * (len(names) > 1)
    release = TableRelease(accountant, rng, steps)

    cells = {name: grid.locate(columns[name]) for name, grid in grids.items()}
    links, noisy_cells = _links(cells, grids, release)
    coded = _Coded.of(columns, schema, stratum, cells, links)
    one_way, variance_one = coded.count("one-way", [(i,) for i in range(len(names))], release)
    blocks, largest = [tuple(range(len(names)))], variance_one
    if "scores" in steps:
        blocks, largest = _blocks(coded, one_way, [isinstance(schema[name], Nominal) for name in names], release)
    pairs = [pair for block in blocks for pair in combinations(block, 2)]
    two_way, variance_two = coded.count("two-way", pairs, release) if pairs else ({}, variance_one)

    totals = _totals([(one_way, variance_one), (two_way, variance_two)])
    if is_public:
        totals = totals * n_samples / totals.sum() if totals.sum() > 0 else np.full(len(totals), n_samples / len(totals))
    factors = tuple(
        LatentFactors.of(
            [one_way[(i,)] for i in block],
            {(a, b): two_way[i, j] for (a, i), (b, j) in combinations(enumerate(block), 2)},
            np.maximum(totals, _LEAST_ROWS),
            (math.sqrt(variance_one), math.sqrt(variance_two)),
            n_factors,
        )
        for block in blocks
    )
    _warn_if_noise_is_all(math.sqrt(max(variance_one, largest)), totals.sum())
    weights = totals / totals.sum() if totals.sum() > 0 else np.full(len(totals), 1 / len(totals))
    lead = () if stratum is None else (stratum,)
    marginals = {(*lead, *(names[i] for i in place)): table if lead else table[0] for place, table in {**one_way, **two_way}.items()}
    model = MarginalModel(schema, stratum, weights, tuple(blocks), factors, links)
    return model, marginals, noisy_cells, n_samples if is_public else max(1, round(float(totals.sum())))


def _links(cells, grids, release):
    """Release the trees of all continuous columns at once; return (links, counts by column)."""
    if not grids:
        return {}, {}
    trees = {name: _tree(cells[name], grid.depth) for name, grid in grids.items()}
    # A row is counted once a level, and a missing number nowhere.
    noisy, variance = release.counts(
        "cells", np.concatenate([level for tree in trees.values() for level in tree.values()]), sum(map(len, trees.values()))
    )
    stops = np.cumsum([sum(map(len, tree.values())) for tree in trees.values()])
    counts = dict(zip(grids, np.split(noisy, stops[:-1]), strict=True))
    links = {}
    for name, grid in grids.items():
        parts = np.split(counts[name], np.cumsum([len(level) for level in trees[name].values()])[:-1])
        levels = dict(zip(trees[name], parts, strict=True))
        links[name] = Link.of([levels.get(j) for j in range(1, grid.depth + 1)], variance, grid.n_cells, _BINS)
    return links, counts


@dataclass(frozen=True, eq=False)
class _Coded:
    """The rows as codes: private."""

    codes: list  # of the columns but the stratum, and last of that
    sizes: list

    @classmethod
    def of(cls, columns, schema, stratum, cells, links):
        codes, sizes = [], []
        for name in columns:
            if name in links:
                codes.append(np.where(cells[name] < 0, links[name].n_bins, links[name].bins_of(cells[name])).astype(np.int32))
                sizes.append(links[name].n_bins + schema[name].nullable)
            elif name != stratum:
                codes.append(columns[name])
                sizes.append(schema[name].n_codes)
        one_class = stratum is None
        codes.append(np.zeros(len(codes[0]), dtype=np.int32) if one_class else columns[stratum])
        return cls(codes, [*sizes, 1 if one_class else schema[stratum].n_codes])

    def count(self, step, places, release):
        """Release a table for each tuple of columns, in each class: a dict to arrays of shape (n_classes, ...), and the noise variance."""
        exact = Marginals.of(self.codes, self.sizes, [(len(self.sizes) - 1, *place) for place in places])
        noisy, variance = release.counts(step, exact.counts, len(places))
        return dict(zip(places, exact.tables(noisy), strict=True)), variance

    def merged(self, groups):
        """Return these with codes merged into groups, and without classes."""
        codes = [group[column] for group, column in zip(groups, self.codes[:-1], strict=True)]
        return _Coded([*codes, np.zeros_like(self.codes[-1])], [*(int(group.max()) + 1 for group in groups), 1])


def _blocks(coded, one_way, is_nominal, release):
    """Join columns into blocks, the most dependent first, by noisy tables of merged codes of all pairs; return them and the variance."""
    n_columns = len(is_nominal)
    groups = [_groups(table.sum(axis=0), nominal) for table, nominal in zip(one_way.values(), is_nominal, strict=True)]
    tables, variance = coded.merged(groups).count("scores", list(combinations(range(n_columns), 2)), release)
    masses = [np.bincount(group, np.maximum(table.sum(axis=0), 0)) for group, table in zip(groups, one_way.values(), strict=True)]
    n = max(float(np.mean([table.sum() for table in one_way.values()])), 1.0)
    score = {(i, j): _dependence(table[0], masses[i], masses[j], n, variance) for (i, j), table in tables.items()}
    blocks: dict[int, tuple[int, ...]] = {i: (i,) for i in range(n_columns)}
    best, *others = sorted(score, key=score.__getitem__, reverse=True)
    for i, j in [best, *(pair for pair in others if score[pair] > _DEPENDENT)]:
        if blocks[i] != blocks[j] and len(blocks[i]) + len(blocks[j]) <= _BLOCK:
            joined = tuple(sorted(blocks[i] + blocks[j]))
            blocks |= dict.fromkeys(joined, joined)
    return sorted(set(blocks.values())), variance


def _groups(noisy, is_nominal):
    """Merge codes into groups of about equal mass: neighbours, or for a nominal column each to the group that is lightest so far."""
    mass = np.maximum(noisy, 0).astype(float)
    if not is_nominal or len(mass) <= 2:
        upto = np.cumsum(mass) - mass / 2
        half = (upto > mass.sum() / 2).astype(np.int64)
        return half if 0 < half.sum() < len(mass) else (np.arange(len(mass)) >= (len(mass) + 1) // 2).astype(np.int64)
    group, load = np.zeros(len(mass), dtype=np.int64), np.zeros(min(_GROUPS, len(mass)))
    for rank, code in enumerate(np.argsort(-mass, kind="stable")):
        group[code] = rank if rank < len(load) else int(np.argmin(load))
        load[group[code]] += mass[code]
    return group


def _dependence(table, rows, columns, n, variance):
    """How far a noisy table is from independence, in variances of its noise: the mean over its degrees of freedom.

    What independence would give is made of the counts of one column, whose noise is smaller. Centring takes out the noise of the table's
    own margins.
    """
    residual = table - n * np.outer(rows / max(rows.sum(), 1.0), columns / max(columns.sum(), 1.0))
    residual -= residual.mean(axis=0)
    residual -= residual.mean(axis=1, keepdims=True)
    return float((residual**2).sum()) / (variance or 1.0) / ((table.shape[0] - 1) * (table.shape[1] - 1))


def _warn_if_noise_is_all(deviation, n):
    """Warn, from public or noisy numbers, if the count of a level can hardly be told from its noise."""
    if deviation > n / 10:
        warnings.warn(
            f"the noise of each count has a standard deviation of {deviation:.3g}, more than a tenth of the rows, so synthetic rows "
            "may tell little; use more rows, a larger epsilon, delta > 0 or fewer columns.",
            SmallSampleWarning,
            stacklevel=5,
        )


def check_budget(epsilon, delta):
    """Refuse, before the charge, an epsilon so large that it has no rho."""
    if check_delta(delta):
        try:
            rho_of_epsilon(epsilon, delta)
        except (ArithmeticError, ValueError):
            raise ValueError(f"epsilon is too large to go with delta={float(delta):g}, got {epsilon!r}; use delta=0.") from None


def check_size(schema, stratum):
    """Refuse what would take too much memory, by public numbers."""
    n_codes = sum(
        2 * _BINS + kind.nullable if isinstance(kind, Continuous) else kind.n_codes for name, kind in schema.items() if name != stratum
    )
    strata = 1 if stratum is None else schema[stratum].n_codes
    if n_codes * n_codes * strata > _MOST_COUNTS:
        raise ValueError(
            f"schema has {n_codes} levels and bins in all (in {strata} classes of stratify), whose pairs are more counts than "
            f"{_MOST_COUNTS}; merge levels, or leave columns out."
        )


def _tree(cells, depth):
    """Exact counts of some levels of a column's tree, by level; a missing number counts nowhere."""
    leaves = np.bincount(cells[cells >= 0], minlength=1 << depth).astype(np.int64)
    return {j: leaves.reshape(1 << j, -1).sum(axis=1) for j in sorted(range(depth, 0, -_FAN_OUT))}


def _totals(groups):
    """Estimate the number of rows of each class from all tables, each of which sums to it: by inverse variance, at least 0."""
    weights, sums = [], []
    for tables, variance in groups:
        for table in tables.values():
            sums.append(table.reshape(len(table), -1).sum(axis=1))
            weights.append(1 / (table[0].size * (variance or 1.0)))
    return np.maximum(np.average(sums, axis=0, weights=weights), 0.0)
