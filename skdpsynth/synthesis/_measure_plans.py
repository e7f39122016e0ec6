"""The strategies of the private measure mechanism: each plans by public numbers, then releases a measure with a bound."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from skdpsynth.fitting import Budget, Facts, Plan
from skdpsynth.frames import Rows
from skdpsynth.measures import (
    MAX_DEPTH,
    DiscreteMeasure,
    TwoStages,
    bound_of_clamped_counts,
    bound_of_least_squares,
    choose_refinement,
    least_squares,
    mass_from_root,
    measure_of_leaves,
    optimal_shares,
    paper_shares,
    total_diameters,
    uniform_consistency,
)
from skdpsynth.privacy import Mechanism, PrivacyLoss, mechanism
from skdpsynth.statistics import Histogram, LeavesOf, LevelCounts, total

MOST_HELD = 24  # levels whose cells are all held: a gigabyte
_SMALL_PLANE = 1000  # n * epsilon up to which two features are served like one
_SMALL = 300  # ... and more than two features
_SCOUT_SHARE = Fraction(1, 5)  # of the budget, for the first of the two adaptive stages there
_SCOUT_SHARE_OF_LINE = Fraction(1, 10)  # ... with one feature
_FURTHER, _FURTHER_SCOUTED = 1.0, 0.5  # halvings of one feature beyond those of one stage
_MOST_PARTS = 23  # halvings of all parts
_FIRST_SHARE = Fraction(1, 4)  # of the budget, for the first of the two adaptive stages of larger tables
_POINTS_A_CELL = 2.0  # epsilon-weighted points that a cell of the second stage should hold
_POINTS_A_CELL_IN_SPACE = 1.4  # ... with three or four features

Cut = Callable[[int], tuple[Any, int]]
"""From a wanted depth to (partition, depth at most that)."""


def _level_noise(share: PrivacyLoss, neighboring: str) -> Mechanism:
    """Return the noise for the counts of one level: Laplace, which for few levels is the least."""
    return mechanism(Histogram.sensitivity(neighboring), share.pure, ("laplace",))


def _level_noises(facts: Facts, shares: Sequence[Fraction]) -> tuple[Mechanism | None, ...]:
    """Return the noise of each level; None where it has no share, and is not measured."""
    used = [level for level, share in enumerate(shares) if share]
    losses = dict(zip(used, facts.share.split([shares[level] for level in used]), strict=True))
    return tuple(_level_noise(losses[level], facts.neighboring) if level in losses else None for level in range(len(shares)))


def _level_counts(rows: Rows, partition: Any, depth: int) -> LevelCounts:
    return LevelCounts.above(total(rows, Histogram.over(partition, partition.depth - depth)))


def _release_levels(counts: LevelCounts, noises: Sequence[Mechanism | None], budget: Budget) -> list[Any]:
    return [
        None if noise is None else budget.answer(counts.query(budget.relation, level), noise, f"counts of level {level}")
        for level, noise in enumerate(noises)
    ]


def _count_variance(noise: Mechanism, share: Fraction) -> float:
    """Return the noise variance of a count; without noise, that of a budget of 1, so that levels are joined alike."""
    return 2 * (float(noise.sensitivity.l1) / float(share)) ** 2 if noise.loss.is_infinite else noise.variance


@dataclass(frozen=True, kw_only=True)
class OneStage(Plan):
    """The strategy "optimal": one histogram; optimal shares over its levels, least squares, mass from the root."""

    partition: Any
    noises: tuple[Mechanism | None, ...]  # by level; None where it is not measured
    variances: tuple[float, ...]

    @property
    def finest(self) -> int:
        return len(self.noises) - 1

    @classmethod
    def of(cls, facts: Facts, depth: int | None, cut: Cut) -> "OneStage":
        log_size = int(math.log2(max(2.0, facts.size)))
        wanted = max(1, log_size - (1 + log_size // 3 if facts.n_features == 1 else 1 if facts.size > 1000 else 2))
        partition, depth = cut(depth or min(wanted, MOST_HELD))
        shares = optimal_shares(total_diameters(partition, depth))
        noises = _level_noises(facts, shares)
        variances = tuple(math.inf if noise is None else _count_variance(noise, shares[j]) for j, noise in enumerate(noises))
        return cls(False, partition=partition, noises=noises, variances=variances)

    def measure_of(self, rows: Rows, n: int, budget: Budget) -> tuple[DiscreteMeasure, float]:
        depth = self.finest
        noisy = _release_levels(_level_counts(rows, self.partition, depth), self.noises, budget)
        estimates, errors = least_squares(noisy, self.variances)
        mass = mass_from_root(estimates[1:], np.array(n, dtype=float))
        noise_free = any(noise is not None and noise.loss.is_infinite for noise in self.noises)
        bound = bound_of_least_squares(self.partition, depth, n, errors, noise_free=noise_free)
        return measure_of_leaves(self.partition, depth, mass), bound


@dataclass(frozen=True, kw_only=True)
class PublishedLevels(Plan):
    """The strategy "paper", Algorithm 4: noise on every level by equation (3.7), clamped, made consistent by Algorithm 3."""

    partition: Any
    noises: tuple[Mechanism, ...]

    @property
    def finest(self) -> int:
        return len(self.noises) - 1

    @classmethod
    def of(cls, facts: Facts, depth: int | None, cut: Cut) -> "PublishedLevels":
        wanted = max(1, int(math.log2(max(2.0, facts.size))) - (facts.n_features == 1))
        partition, depth = cut(depth or min(wanted, MOST_HELD))
        shares = facts.share.split(paper_shares(total_diameters(partition, depth)))
        return cls(False, partition=partition, noises=tuple(_level_noise(share, facts.neighboring) for share in shares))

    def measure_of(self, rows: Rows, n: int, budget: Budget) -> tuple[DiscreteMeasure, float]:
        depth = self.finest
        counts = _level_counts(rows, self.partition, depth)
        noisy = _release_levels(counts, self.noises, budget)
        leaves = uniform_consistency([np.maximum(level, 0) for level in noisy], budget.generator())
        spreads = [float(noise.noise.mean_absolute()) for noise in self.noises]  # type: ignore[attr-defined]
        bound = bound_of_clamped_counts(self.partition, depth, n, max(1, int(noisy[0][0])), spreads)
        return measure_of_leaves(self.partition, depth, leaves), bound


class _Stages(NamedTuple):
    """Shares of the levels of the first stage and, last, of the second; and how often it halves an even cell."""

    shares: tuple[Fraction, ...]
    halvings: float

    @property
    def coarse_depth(self) -> int:
        """Deepest level of the first stage."""
        return len(self.shares) - 2

    @property
    def finest(self) -> int:
        """Level of the parts of a cell that holds all rows."""
        return self.coarse_depth + max(0, int(self.halvings + self.coarse_depth))


def _stages_by_levels(size: float, d: int, depth: int | None, cut: Cut) -> _Stages:
    """Share the budget over levels as one stage would, and measure the last of them where the others saw rows.

    If all goes to one level, a tenth (one feature) or a fifth goes to the level above it.
    """
    log_size = int(math.log2(max(2.0, size)))
    partition, deepest = cut(min(depth or MOST_HELD, max(1, log_size - (1 + log_size // 3 if d == 1 else 2)), MOST_HELD))
    shares = optimal_shares(total_diameters(partition, deepest))
    coarse_depth = [level for level, share in enumerate(shares[:-1]) if share or level == 0][-1]
    if is_scouted := coarse_depth <= 1:
        coarse_depth, scout = max(1, deepest - 1), _SCOUT_SHARE_OF_LINE if d == 1 else _SCOUT_SHARE
        shares = ((Fraction(0),) * coarse_depth) + (scout, 1 - scout)
    else:
        shares = (*shares[: coarse_depth + 1], shares[-1])
    further = 0.0 if d > 1 else _FURTHER_SCOUTED if is_scouted else _FURTHER
    return _Stages(shares, min(deepest + further, _MOST_PARTS) - coarse_depth)


def _stages_by_rows(size: float, d: int, depth: int | None, cut: Cut) -> _Stages:
    """Measure one coarse level with a quarter of the budget; then parts of its cells with about equally many rows."""
    first = float(_FIRST_SHARE)
    coarse_depth = max(0, int(0.6 * math.log2(max(2.0, size)) if d <= 2 else math.log2(max(1.0, first * size)) - 3))
    most = math.log2(max(1.0, (1 - first) * size / (_POINTS_A_CELL_IN_SPACE if d in (3, 4) else _POINTS_A_CELL)))
    _, kept = cut(min(depth or MAX_DEPTH, coarse_depth))
    return _Stages(((Fraction(0),) * kept) + (_FIRST_SHARE, 1 - _FIRST_SHARE), most - kept)


@dataclass(frozen=True, kw_only=True)
class Adaptive(Plan):
    """The strategy "adaptive": coarse histograms, then the counts of a partition that is fine where the first stage saw mass."""

    partition: Any
    stages: _Stages
    finest: int
    noises: tuple[Mechanism | None, ...]  # by level of the first stage; None where it is not measured
    second: Mechanism  # noise of the second stage

    @classmethod
    def of(cls, facts: Facts, depth: int | None, cut: Cut) -> "Adaptive":
        d, size = facts.n_features, facts.size
        by_levels = d == 1 or size <= (_SMALL_PLANE if d == 2 else _SMALL)
        stages = (_stages_by_levels if by_levels else _stages_by_rows)(size, d, depth, cut)
        partition, finest = cut(min(depth or stages.finest, stages.finest))
        *noises, second = _level_noises(facts, stages.shares)
        assert second is not None  # it has most of the budget
        return cls(False, partition=partition, stages=stages, finest=finest, noises=tuple(noises), second=second)

    def measure_of(self, rows: Rows, n: int, budget: Budget) -> tuple[DiscreteMeasure, float]:
        return self.counts_of(rows, n, budget).measure()

    def counts_of(self, rows: Rows, n: int, budget: Budget) -> TwoStages:
        """Release the coarse cells; then as many parts of each as the noisy counts of the first stage say."""
        plan, coarse_depth = self.stages, self.stages.coarse_depth
        cells, shift = rows.map(LeavesOf(self.partition)).kept(), self.partition.depth - coarse_depth

        levels = LevelCounts.above(total(cells, Histogram.over_cells(1 << coarse_depth, shift)))
        *above, coarse = _release_levels(levels, self.noises, budget)
        noises = zip((*self.noises, self.second), plan.shares, strict=True)
        *above_variances, first_variance, second_variance = [
            math.inf if noise is None else _count_variance(noise, share) for noise, share in noises
        ]
        estimates, _ = least_squares([*above, coarse], [*above_variances, first_variance])
        refinement = choose_refinement(estimates, n, plan.halvings, self.finest - coarse_depth)
        counts = total(cells, Histogram.over_refined(shift, refinement))
        fine = budget.answer(counts.query(budget.relation), self.second, "counts of the refined cells")

        variances, free = (first_variance, second_variance), self.second.loss.is_infinite
        return TwoStages(self.partition, n, coarse, refinement, fine, *variances, free, above, above_variances)


STRATEGIES: dict[str, Any] = {"adaptive": Adaptive, "optimal": OneStage, "paper": PublishedLevels}
