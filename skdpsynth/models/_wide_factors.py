"""Latent factors of very many columns: common factors, and factors of each block."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import chdtri, ndtri

from skdpsynth.models._latent_factors import BlockTables, LatentFactors, quasi_normal
from skdpsynth.models._noisy_tables import Block, NoisyInteractions, NoisyTables, join_into_blocks, shares_of
from skdpsynth.models._training import (
    CLASS_SHARE,
    PLATEAU_TOLERANCE,
    WINDOW,
    FactorFit,
    Probabilities,
    Targets,
    choose_variance,
    descend,
    score,
    starts_of,
    step_work,
    train_factors,
)
from skdpsynth.persistence import savable

_CHANCE = 1 / 2000
_BEND = 0.1  # prior variance of an ordered column's loadings beyond a trend, against that of the trend
_START = 0.1  # deviation of the first loadings of a block's own factors
_FARTHEST = 2.5  # of the normal score of a code
N_COMMON = 128  # nodes of the factors that all columns share
_INNER = 4  # nodes of a block's own factors beside each common one
_FACTORS = 12  # of either kind, at most
_STEPS, _LEAST_STEPS = 600, 100
_WORK_OF_COMMON = 5e8  # as that of `LatentFactors`
_VARIANCES = (0.1, 0.25, 0.6, 1.5)  # of the prior of a block's own factors, among which count splitting chooses
_PILOT_STEPS, _PILOT_COLUMNS, _PILOT_VARIANCE = 80, 24, 0.2
_SEED = 13  # public: of the order of the nodes of each block, and of the noise that splits released numbers


@savable
@dataclass(frozen=True, eq=False)
class CoarsePairs:
    """Noisy interactions of all pairs of columns, whose codes are merged into groups."""

    groups: tuple[np.ndarray, ...]  # of each column, the group of each code
    interactions: np.ndarray  # shape (n_groups, n_groups), float32: doubly centered frequencies of pairs, 0 within a column
    deviation: float  # of the noise of a number before it was centered; 0 without noise
    n_rows: float

    @classmethod
    def of(cls, released: NoisyTables | NoisyInteractions, groups: Sequence[np.ndarray], n: float) -> "CoarsePairs":
        """Take the interactions from tables of pairs of about n rows, or from their interactions."""
        sizes = np.array([int(group.max()) + 1 for group in groups])
        starts, variances = starts_of(sizes), [0.0]
        slices = [slice(start, start + size) for start, size in zip(starts.tolist(), sizes.tolist(), strict=True)]
        whole = np.zeros((int(sizes.sum()),) * 2)
        for (i, j), table, variance in released.pairs():
            whole[slices[i], slices[j]] = table[0]
            variances.append(variance)
        whole += whole.T
        for _ in range(2):
            whole -= np.repeat(np.add.reduceat(whole, starts, axis=0) / sizes[:, None], sizes, axis=0)
            whole = whole.T
        interactions = (whole / n).astype(np.float32)
        return cls(tuple(groups), interactions, float(np.mean(variances[1:] or variances) ** 0.5 / n), float(n))

    @property
    def sizes(self) -> np.ndarray:
        return np.array([int(group.max()) + 1 for group in self.groups])

    @property
    def column_of(self) -> np.ndarray:
        return np.repeat(np.arange(len(self.groups)), self.sizes)

    def only(self, columns: Sequence[int]) -> "CoarsePairs":
        kept = self.codes_of(columns)
        return replace(self, groups=tuple(self.groups[column] for column in columns), interactions=self.interactions[np.ix_(kept, kept)])

    def codes_of(self, columns: Sequence[int]) -> np.ndarray:
        """Return the indices of the groups of some columns, one column after the other."""
        starts, sizes = starts_of(self.sizes), self.sizes
        return np.concatenate([starts[column] + np.arange(sizes[column]) for column in columns])

    def grouping_matrix(self, columns: Sequence[int]) -> Any:
        """Return a sparse matrix of shape (n_groups, n_codes).

        From probabilities of the codes of `columns`, one after the other, it makes those of the groups of all columns, in their own order,
        less their mean over each column: so ``Q @ Q.T`` are interactions where ``P @ P.T`` are frequencies of pairs.
        """
        from scipy.sparse import csr_array

        starts, codes, rows, values, before = starts_of(self.sizes), [], [], [], 0
        for column in columns:
            group = self.groups[column]
            n_groups = int(group.max()) + 1
            share = (group[None] == np.arange(n_groups)[:, None]) - 1 / n_groups
            rows.append(np.repeat(starts[column] + np.arange(n_groups), len(group)))
            codes.append(np.tile(before + np.arange(len(group)), n_groups))
            values.append(share.ravel())
            before += len(group)
        table = (np.concatenate(values).astype(np.float32), (np.concatenate(rows), np.concatenate(codes)))
        return csr_array(table, shape=(len(self.interactions), before))

    def dependence(self, expected: np.ndarray) -> np.ndarray:
        """Return the distance of the table of each pair from the expected interactions, shape (n_columns, n_columns).

        The sum over a table, in variances of the noise, is chi squared with f degrees of freedom where there is nothing but noise: f in the
        mean, and more than q in one table of 2,000. Returned is its excess over f, in multiples of q - f, so that tables of all sizes pass
        1 by chance equally often. Without noise, squared rows take the place of variances.
        """
        square = (self.interactions - expected).astype(float) ** 2 / (self.deviation or 1 / self.n_rows) ** 2
        starts, each = starts_of(self.sizes), np.maximum(self.sizes - 1, 1)
        sums, free = np.add.reduceat(np.add.reduceat(square, starts, axis=0), starts, axis=1), np.outer(each, each)
        excess = (sums - free) / (chdtri(free, _CHANCE) - free)
        np.fill_diagonal(excess, 0)
        return excess


@savable
@dataclass(frozen=True, eq=False)
class CommonFactors:
    """Factors learned from merged tables alone, and nodes that stand for them."""

    merged: CoarsePairs
    nodes: np.ndarray  # shape (n_common, n_factors)
    loadings: np.ndarray  # shape (n_groups, n_factors)
    variance: float  # of the prior, chosen by count splitting


@dataclass(frozen=True, eq=False)
class WideTargets:
    blocks: Sequence[Block]
    targets: Sequence[Sequence[Targets]]  # of each block, in each class
    nodes: Sequence[np.ndarray]  # of each block: equally many for each common node, in its order; the first factors are common
    common: CommonFactors
    shares: np.ndarray  # of the classes
    is_ordered: Sequence[np.ndarray]  # of each column, which of its codes have an order
    variance: float = 1.0  # of the prior of the loadings of a block's own factors

    def only(self, numbers: Sequence[int]) -> "WideTargets":
        blocks = [self.blocks[number] for number in numbers]
        columns = [column for block in blocks for column in block]
        place = {column: number for number, column in enumerate(columns)}
        merged = self.common.merged
        return replace(
            self,
            blocks=[tuple(place[column] for column in block) for block in blocks],
            targets=[self.targets[number] for number in numbers],
            nodes=[self.nodes[number] for number in numbers],
            common=replace(self.common, merged=merged.only(columns), loadings=self.common.loadings[merged.codes_of(columns)]),
            is_ordered=[self.is_ordered[column] for column in columns],
        )


def train_blocks(wide: WideTargets, seed: int, most_steps: int) -> list[FactorFit]:
    """Find the most likely loadings of all blocks, by Adam.

    Blocks are independent given a common node. Minimized is the objective of `train_factors`, summed over blocks, and for merged tables M
    of pairs of columns of different blocks, with noise of deviation t on their frequencies of n rows, ``s**2 |E|**2 / (2 t**2)``, where E
    is the error of their interactions in all classes together. Codes of an ordered column have loadings ``t_m b``, along its normal scores
    t, but for a part of their own whose variance is smaller: so two groups of codes tell of all. For a normal factor that is exact, as the
    logarithm of a normal density is linear in its mean but for terms that all codes share.
    """
    descent = _Descent(wide, seed)
    n_steps = descend(descent.parameters, descent.rates, descent.gradients, most_steps, descent.least_fall)
    intercepts = np.array(descent.intercepts, dtype=float)[:, :, 0]
    loadings = np.array([descent.loadings(label) for label in range(len(intercepts))], dtype=float)
    return [FactorFit(intercepts[:, codes].copy(), loadings[:, codes].copy(), n_steps) for codes in descent.codes]


class _Descent:
    """The parameters of all blocks, one after the other, and their derivatives."""

    def __init__(self, wide: WideTargets, seed: int) -> None:
        self.wide, self.order = wide, [column for block in wide.blocks for column in block]
        self.nodes = [nodes.astype(np.float32) for nodes in wide.nodes]
        self.n_common, n_classes = len(wide.common.nodes), len(wide.shares)
        self.sizes = np.concatenate([of_classes[0].sizes for of_classes in wide.targets])
        ends = np.cumsum([int(of_classes[0].sizes.sum()) for of_classes in wide.targets])
        self.codes = [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]
        self.column_of = np.repeat(np.arange(len(self.sizes)), self.sizes)
        one_way = [np.concatenate([of_classes[c].one_way for of_classes in wide.targets]) for c in range(n_classes)]
        is_ordered = np.concatenate([wide.is_ordered[column] for column in self.order])
        self.trend = _normal_scores(np.average(one_way, axis=0, weights=wide.shares), is_ordered, self.sizes)
        self.intercepts = [np.log(np.maximum(table, 1e-4))[:, None].astype(np.float32) for table in one_way]
        self.slopes, self.bends = self._start(seed)
        self.own = [np.zeros_like(self.bends) for _ in one_way] if n_classes > 1 else []
        self.grouping_matrix = wide.common.merged.grouping_matrix(self.order)
        self._set_weights(is_ordered)
        self.parameters = [*self.intercepts, self.slopes, self.bends, *self.own]
        # Where noise is small, the prior hardly keeps bends from going as far as slopes: their steps must.
        of_bends = np.where(is_ordered, _BEND, 1.0)[:, None].astype(np.float32)
        self.rates: list[float | np.ndarray] = [*[1.0] * (n_classes + 1), of_bends, *[CLASS_SHARE] * len(self.own)]

    def _set_weights(self, is_ordered: np.ndarray) -> None:
        wide, of_classes = self.wide, self.wide.targets[0]
        squares = np.array([target.n for target in of_classes]) ** 2
        self.weights = squares / squares.sum()
        noise = of_classes[0].deviation ** 2 / squares.sum()
        self.ratio = noise / wide.common.merged.deviation**2 if noise and wide.common.merged.deviation else 1.0
        block_of = np.empty(len(wide.is_ordered), dtype=np.int64)
        block_of[self.order] = np.repeat(np.arange(len(wide.blocks)), [len(block) for block in wide.blocks])
        block_of_group = block_of[wide.common.merged.column_of]
        self.mask = (block_of_group[:, None] != block_of_group).astype(np.float32)
        variances = np.full(self.nodes[0].shape[1], wide.variance)
        variances[: wide.common.nodes.shape[1]] = wide.common.variance
        self.pull = (noise / variances).astype(np.float32)
        self.pull_of_bends = self.pull / np.where(is_ordered, _BEND, 1.0)[:, None].astype(np.float32)
        n_counts = sum(float(target.mask.sum()) for block in wide.targets for target in block) + float(self.mask.sum())
        self.least_fall = PLATEAU_TOLERANCE * WINDOW * n_counts / 4 * noise

    def _start(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Return loadings along the order of codes, and beside it: those of common factors from the merged tables."""
        common, rng = self.wide.common, np.random.default_rng(seed)
        shape, r = (len(self.sizes), self.nodes[0].shape[1]), common.loadings.shape[1]
        slopes = (_START * ndtri(rng.uniform(0.01, 0.99, shape))).astype(np.float32)
        bends = (_START * ndtri(rng.uniform(0.01, 0.99, (len(self.trend), shape[1])))).astype(np.float32)
        starts, starts_of_groups = starts_of(self.sizes), starts_of(self.wide.common.merged.sizes)
        bends[:, :r] = 0
        for place, column in enumerate(self.order):
            codes, group = slice(starts[place], starts[place] + self.sizes[place]), self.wide.common.merged.groups[column]
            of_groups = common.loadings[starts_of_groups[column] : starts_of_groups[column] + group.max() + 1][group]
            of_groups = of_groups - of_groups.mean(axis=0)
            trend = self.trend[codes]
            if trend.any():
                slopes[place, :r] = trend @ of_groups / (trend @ trend)
            else:
                bends[codes, :r] = of_groups
        return slopes, bends

    def loadings(self, label: int) -> np.ndarray:
        loadings = self.trend[:, None] * self.slopes[self.column_of] + self.bends
        return loadings + self.own[label] if self.own else loadings

    def gradients(self) -> tuple[list[np.ndarray], float]:
        at: list[list[Probabilities]] = []
        for label in range(len(self.intercepts)):
            loadings, parts = self.loadings(label), zip(self.codes, self.nodes, self.wide.targets, strict=True)
            at.append([Probabilities.of(t[label], self.intercepts[label][codes] + loadings[codes] @ Z.T) for codes, Z, t in parts])
        beside, objective = self._errors_of_merged(at)
        of_intercepts, of_loadings = [], []
        for label, weight in enumerate(self.weights):
            by_intercepts, by_loadings = np.empty_like(self.intercepts[label]), np.empty_like(self.bends)
            for number, (codes, nodes) in enumerate(zip(self.codes, self.nodes, strict=True)):
                extra = np.repeat(beside[label][codes] / np.float32(weight), len(nodes) // self.n_common, axis=1)
                slope, square = at[label][number].slope(self.wide.targets[number][label], extra)
                objective += square * float(weight)
                by_intercepts[codes] = slope.sum(axis=1, keepdims=True) * (weight / len(nodes))
                by_loadings[codes] = slope @ nodes * (weight / len(nodes))
            of_intercepts.append(by_intercepts)
            of_loadings.append(by_loadings)
        total = np.sum(of_loadings, axis=0)
        by_slopes = np.add.reduceat(self.trend[:, None] * total, starts_of(self.sizes), axis=0)
        own = [part + self.pull / CLASS_SHARE * loadings for part, loadings in zip(of_loadings, self.own, strict=False)]
        objective += float((self.pull * self.slopes**2).sum() + (self.pull_of_bends * self.bends**2).sum()) / 2
        objective += sum(float((self.pull * part**2).sum()) for part in self.own) / CLASS_SHARE / 2
        return [*of_intercepts, by_slopes + self.pull * self.slopes, total + self.pull_of_bends * self.bends, *own], objective

    def _errors_of_merged(self, at: Sequence[Sequence[Probabilities]]) -> tuple[list[np.ndarray], float]:
        """Return the derivatives of the error of merged tables by the probabilities of codes at common nodes, and the error."""
        sums = []
        for of_blocks in at:
            P = np.concatenate([each.singles.reshape(len(each.singles), self.n_common, -1).mean(axis=2) for each in of_blocks])
            sums.append(self.grouping_matrix @ P)
        scaled = np.hstack([Q * np.float32((share / self.n_common) ** 0.5) for share, Q in zip(self.wide.shares, sums, strict=True)])
        error = scaled @ scaled.T
        error -= self.wide.common.merged.interactions
        error *= self.mask
        beside = [
            self.grouping_matrix.T @ (error @ Q * np.float32(self.ratio * share)) for share, Q in zip(self.wide.shares, sums, strict=True)
        ]
        return beside, float(np.vdot(error, error)) / 4 * self.ratio


def _normal_scores(one_way: np.ndarray, is_ordered: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return the normal score of each code that has an order, in its column; 0 of others."""
    scores = np.zeros(len(one_way), dtype=np.float32)
    for start, size in zip(starts_of(sizes).tolist(), sizes.tolist(), strict=True):
        codes = np.flatnonzero(is_ordered[start : start + size]) + start
        mass = np.maximum(one_way[codes], 1e-6)
        if len(codes) > 1:
            own = np.clip(ndtri((np.cumsum(mass) - mass / 2) / mass.sum()), -_FARTHEST, _FARTHEST)
            scores[codes] = own - np.average(own, weights=mass)
    return scores


def learn_common_factors(
    merged: CoarsePairs, one_way: Sequence[np.ndarray], n: float, n_factors: int, tied: Sequence[Sequence[int]] = ()
) -> tuple[CommonFactors, list[Block]]:
    """Learn the common factors of columns from merged tables of all pairs, and the blocks of columns that depend on each other beyond them.

    Columns are joined into blocks, the most dependent first. The common factors are learned from pairs of different blocks alone, so that a
    few dependent columns are no common factor, and then columns are joined anew: those whose table is farther from the common factors than
    noise explains. Columns that are `tied` share a block.
    """
    nodes, starts = quasi_normal(N_COMMON, min(n_factors, _FACTORS)), starts_of(merged.sizes)
    masses = [shares_of(np.bincount(group, np.maximum(counts, 0))) for group, counts in zip(merged.groups, one_way, strict=True)]
    alone = np.concatenate([mass - 1 / len(mass) for mass in masses])
    block_of = np.empty(len(masses), dtype=np.int64)
    for number, block in enumerate(join_into_blocks(merged.dependence(np.outer(alone, alone)), tied)):
        block_of[list(block)] = number
    whole, even = np.concatenate(masses), np.concatenate([np.full(len(mass), 1 / len(mass)) for mass in masses])
    of_groups = np.repeat(block_of, merged.sizes)
    mask = of_groups[:, None] != of_groups
    counts = n * mask * (np.outer(whole, even) + np.outer(even, alone) + merged.interactions)
    deviation = merged.deviation * n
    target = Targets.of_all([n * mass for mass in masses], counts, mask.astype(np.float32), n, (deviation / 7, deviation))
    work = step_work([target]) * _PILOT_STEPS * nodes.shape[1]
    if not deviation or work > _WORK_OF_COMMON / 2:
        work = 0.0
    else:  # as many factors as count splitting chooses, as more would learn noise
        fitted, judged = target.split(np.random.default_rng(_SEED))
        options = [quasi_normal(len(nodes), n_factors) for n_factors in range(1, nodes.shape[1])] + [nodes]
        pilots = (train_factors([fitted], each, _PILOT_VARIANCE, [0], _PILOT_STEPS) for each in options)
        nodes = options[int(np.argmin([score([judged], each, *fits) for each, fits in zip(options, pilots, strict=True)]))]
    variance, more = choose_variance([target], nodes, _WORK_OF_COMMON / 2)
    most_steps = int(np.clip((_WORK_OF_COMMON - work - more) / step_work([target]), _LEAST_STEPS, _STEPS))
    (fit,) = train_factors([target], nodes, variance, [0], most_steps)
    at = Probabilities.of(target, (fit.intercepts[0][:, None] + fit.loadings[0] @ nodes.T).astype(np.float32))
    Q = at.singles - np.repeat(np.add.reduceat(at.singles, starts, axis=0) / merged.sizes[:, None], merged.sizes, axis=0)
    common = CommonFactors(merged, nodes, fit.loadings[0].astype(np.float32), variance)
    return common, join_into_blocks(merged.dependence(Q @ Q.T / len(nodes)), tied)


def fit_wide_factors(
    blocks: Sequence[Block], tables: Sequence[BlockTables], common: CommonFactors, n_factors: int, is_ordered: Sequence[np.ndarray]
) -> tuple[LatentFactors, ...]:
    """Fit factors that all columns share and factors of each block.

    Every block has equally many nodes for each of `N_COMMON` common nodes, one common node after the other: given the common node, blocks
    are independent. `is_ordered` says which codes of each column have an order.
    """
    targets, totals = [each.targets() for each in tables], np.asarray(tables[0].totals)
    n_own, rng, nodes = min(n_factors, _FACTORS), np.random.default_rng(_SEED), []
    own = quasi_normal(N_COMMON * _INNER, n_own).reshape(N_COMMON, _INNER, n_own)
    for block in blocks:
        # Runs of a Sobol sequence are even by themselves. In another order in each block, their deviations from that are independent. A
        # column by itself has no factors of its own.
        inner = own[rng.permutation(N_COMMON)] if len(block) > 1 else np.zeros((N_COMMON, 1, n_own))
        nodes.append(np.hstack([np.repeat(common.nodes, inner.shape[1], axis=0), inner.reshape(-1, n_own)]))
    wide = WideTargets(blocks, targets, nodes, common, totals / float(totals.sum()), is_ordered)
    variance, widest, n_columns = _VARIANCES[-1], list[int](), 0
    if targets[0][0].deviation:  # the variance of the prior of blocks' own factors is chosen by count splitting, on the widest blocks
        for number in sorted(range(len(blocks)), key=lambda number: -len(blocks[number])):
            if n_columns < _PILOT_COLUMNS and len(blocks[number]) > 1:
                widest.append(number)
                n_columns += len(blocks[number])
        pilot, rng, scores = wide.only(widest), np.random.default_rng(_SEED), list[float]()
        split = [[target.split(rng) for target in of_classes] for of_classes in pilot.targets]
        fitted, judged = ([[pair[side] for pair in of_classes] for of_classes in split] for side in (0, 1))
        for each in _VARIANCES:
            pilots = train_blocks(replace(pilot, targets=fitted, variance=each), 0, _PILOT_STEPS)
            scores.append(sum(score(own, Z, fit) for own, Z, fit in zip(judged, pilot.nodes, pilots, strict=True)))
        variance = _VARIANCES[int(np.argmin(scores))]
    fits = train_blocks(replace(wide, variance=variance), 0, _STEPS)
    return tuple(
        LatentFactors(of_classes[0].sizes, Z, fit.intercepts[None], fit.loadings[None], each.groups)
        for each, of_classes, Z, fit in zip(tables, targets, nodes, fits, strict=True)
    )
