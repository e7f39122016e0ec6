"""Latent factors of very many columns: some that all share, and some of each block."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from skdpsynth.models._coarse_pairs import CoarsePairs
from skdpsynth.models._column_blocks import Block, NoisyTables, join_into_blocks, shares_of
from skdpsynth.models._latent_factors import LatentFactors, quasi_normal
from skdpsynth.models._training import Probabilities, Targets, choose_variance, score, starts_of, step_work, train_factors
from skdpsynth.models._wide_training import CommonFactors, WideTargets, train_blocks

N_COMMON = 128  # nodes of the factors that all columns share
_INNER = 4  # nodes of a block's own factors beside each common one
_FACTORS = 12  # of either kind, at most
_STEPS, _LEAST_STEPS = 600, 100
_WORK_OF_COMMON = 5e8  # as that of `LatentFactors`
_VARIANCES = (0.1, 0.25, 0.6, 1.5)  # of the prior of a block's own factors, among which count splitting chooses
_PILOT_STEPS, _PILOT_COLUMNS, _PILOT_VARIANCE = 80, 24, 0.2
_SEED = 13  # public: of the order of the nodes of each block, and of the noise that splits released numbers


def learn_common_factors(
    merged: CoarsePairs, one_way: Sequence[np.ndarray], n: float, n_factors: int, tied: Sequence[Sequence[int]] = ()
) -> tuple[CommonFactors, list[Block]]:
    """Learn from merged tables of all pairs which factors columns have in common, and which columns depend on each other beyond them.

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
    nodes, work = _choose_nodes(target, nodes, _WORK_OF_COMMON / 2)
    variance, more = choose_variance([target], nodes, _WORK_OF_COMMON / 2)
    most_steps = int(np.clip((_WORK_OF_COMMON - work - more) / step_work([target]), _LEAST_STEPS, _STEPS))
    fit = train_factors([target], nodes, variance, 0, most_steps)
    at = Probabilities.of(target, (fit.intercepts[0][:, None] + fit.loadings[0] @ nodes.T).astype(np.float32))
    Q = at.singles - np.repeat(np.add.reduceat(at.singles, starts, axis=0) / merged.sizes[:, None], merged.sizes, axis=0)
    common = CommonFactors(merged, nodes, fit.loadings[0].astype(np.float32), variance)
    return common, join_into_blocks(merged.dependence(Q @ Q.T / len(nodes)), tied)


def _choose_nodes(target: Targets, nodes: np.ndarray, most_work: float) -> tuple[np.ndarray, float]:
    """Return nodes of as many factors as count splitting chooses, as more would learn noise; and the work."""
    work = step_work([target]) * _PILOT_STEPS * nodes.shape[1]
    if not target.deviation or work > most_work:
        return nodes, 0.0
    fitted, judged = target.split(np.random.default_rng(_SEED))
    options = [quasi_normal(len(nodes), n_factors) for n_factors in range(1, nodes.shape[1])] + [nodes]
    return min(options, key=lambda each: score([judged], each, train_factors([fitted], each, _PILOT_VARIANCE, 0, _PILOT_STEPS))), work


def fit_wide_factors(
    blocks: Sequence[Block],
    one_way: NoisyTables,
    two_way: NoisyTables,
    common: CommonFactors,
    totals: np.ndarray,
    deviations: tuple[float, float],
    n_factors: int,
    groups: Sequence[tuple],
    is_ordered: Sequence[np.ndarray],
) -> tuple[LatentFactors, ...]:
    """Fit factors that all columns share and factors of each block.

    Every block has equally many nodes for each of `N_COMMON` common nodes, one common node after the other: given the common node, blocks
    are independent. `two_way` has the pairs within blocks; `deviations` are those of a count of one and of two columns; `groups` are the
    columns that rules tie, of each block; `is_ordered` says which codes of each column have an order.
    """
    n_rows = float(totals.sum())
    targets = [
        [
            Targets.of(
                [one_way.tables[i,][c] for i in block],
                {(a, b): two_way.tables[i, j][c] for (a, i), (b, j) in combinations(enumerate(block), 2)},
                n,
                deviations,
                [group.law_of_descent(c) for group in own],
            )
            for c, n in enumerate(totals)
        ]
        for block, own in zip(blocks, groups, strict=True)
    ]
    nodes = _block_nodes(common, [len(block) for block in blocks], min(n_factors, _FACTORS))
    wide = WideTargets(blocks, targets, nodes, common, totals / n_rows, is_ordered)
    fits = train_blocks(replace(wide, variance=_choose_block_variance(wide)), 0, _STEPS)
    return tuple(
        LatentFactors(of_classes[0].sizes, own, fit.intercepts[None], fit.loadings[None], groups_of_block)
        for of_classes, own, fit, groups_of_block in zip(targets, nodes, fits, groups, strict=True)
    )


def _choose_block_variance(wide: WideTargets) -> float:
    """Choose the variance of the prior of the loadings of blocks' own factors by count splitting, on the widest blocks."""
    if not wide.targets[0][0].deviation:
        return _VARIANCES[-1]
    widest, n_columns = [], 0
    for number in sorted(range(len(wide.blocks)), key=lambda number: -len(wide.blocks[number])):
        if n_columns < _PILOT_COLUMNS and len(wide.blocks[number]) > 1:
            widest.append(number)
            n_columns += len(wide.blocks[number])
    pilot = wide.only(widest)
    rng = np.random.default_rng(_SEED)
    scores: list[float] = []
    split = [[target.split(rng) for target in of_classes] for of_classes in pilot.targets]
    fitted, judged = ([[pair[side] for pair in of_classes] for of_classes in split] for side in (0, 1))
    for variance in _VARIANCES:
        fits = train_blocks(replace(pilot, targets=fitted, variance=variance), 0, _PILOT_STEPS)
        scores.append(sum(score(each, own, fit) for each, own, fit in zip(judged, pilot.nodes, fits, strict=True)))
    return _VARIANCES[int(np.argmin(scores))]


def _block_nodes(common: CommonFactors, widths: Sequence[int], n_own: int) -> list[np.ndarray]:
    """Return the nodes of blocks of `widths` columns; a column by itself has no factors of its own."""
    own, rng = quasi_normal(N_COMMON * _INNER, n_own).reshape(N_COMMON, _INNER, n_own), np.random.default_rng(_SEED)
    out = []
    for width in widths:
        # Runs of a Sobol sequence are even by themselves. In another order in each block, their deviations from that are independent.
        inner = own[rng.permutation(N_COMMON)] if width > 1 else np.zeros((N_COMMON, 1, n_own))
        n_inner = inner.shape[1]
        out.append(np.hstack([np.repeat(common.nodes, n_inner, axis=0), inner.reshape(-1, n_own)]))
    return out
