"""Training of factors of very many columns: some shared, from small tables of all pairs, and some of each block."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from skdpsynth._progress import track_steps
from skdpsynth.models._coarse_pairs import CoarsePairs
from skdpsynth.models._column_blocks import Block
from skdpsynth.models._training import (
    CLASS_SHARE,
    PLATEAU_TOLERANCE,
    WINDOW,
    Adam,
    FactorFit,
    PlateauSchedule,
    Probabilities,
    Targets,
    starts_of,
)
from skdpsynth.persistence import savable

_BEND = 0.1  # prior variance of an ordered column's loadings beyond a trend, against that of the trend
_START = 0.1  # deviation of the first loadings of a block's own factors
_FARTHEST = 2.5  # of the normal score of a code


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
    """Targets of all blocks together."""

    blocks: Sequence[Block]
    targets: Sequence[Sequence[Targets]]  # of each block, in each class
    nodes: Sequence[np.ndarray]  # of each block: equally many for each common node, in its order; the first factors are common
    common: CommonFactors
    shares: np.ndarray  # of the classes
    is_ordered: Sequence[np.ndarray]  # of each column, which of its codes have an order
    variance: float = 1.0  # of the prior of the loadings of a block's own factors

    def only(self, numbers: Sequence[int]) -> "WideTargets":
        """Return the targets of some of the blocks."""
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
    flat = PlateauSchedule(most_steps, descent.least_fall)
    for _ in track_steps("fit the latent factors", range(most_steps)):
        gradients, objective = descent.gradients()
        rate = flat.rate(objective)
        if rate == 0:
            break
        descent.adam.step(gradients, rate)
    return [descent.block_fit(number, flat.n_steps) for number in range(len(wide.blocks))]


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
        parameters = [*self.intercepts, self.slopes, self.bends, *self.own]
        # Where noise is small, the prior hardly keeps bends from going as far as slopes: their steps must.
        rates: list[float | np.ndarray] = [
            *[1.0] * (n_classes + 1),
            np.where(is_ordered, _BEND, 1.0)[:, None].astype(np.float32),
            *[CLASS_SHARE] * len(self.own),
        ]
        self.adam = Adam(parameters, rates)

    def _set_weights(self, is_ordered: np.ndarray) -> None:
        """Set the weights of the parts of the objective."""
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

    def _loadings(self, label: int) -> np.ndarray:
        loadings = self.trend[:, None] * self.slopes[self.column_of] + self.bends
        return loadings + self.own[label] if self.own else loadings

    def gradients(self) -> tuple[list[np.ndarray], float]:
        """Return the derivatives by the parameters, and the objective."""
        at = [self._probabilities(label) for label in range(len(self.intercepts))]
        beside, objective = self._merged(at)
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

    def _probabilities(self, label: int) -> list[Probabilities]:
        loadings, targets = self._loadings(label), self.wide.targets
        return [
            Probabilities.of(of_classes[label], self.intercepts[label][codes] + loadings[codes] @ nodes.T)
            for codes, nodes, of_classes in zip(self.codes, self.nodes, targets, strict=True)
        ]

    def _merged(self, at: Sequence[Sequence[Probabilities]]) -> tuple[list[np.ndarray], float]:
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

    def block_fit(self, number: int, n_steps: int) -> FactorFit:
        codes = self.codes[number]
        intercepts = np.array([each[codes, 0] for each in self.intercepts], dtype=float)
        return FactorFit(intercepts, np.array([self._loadings(c)[codes] for c in range(len(intercepts))], dtype=float), n_steps)


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
