"""The strategies of the private measure mechanism: each plans by public numbers, and then releases a measure with a bound."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from skdpsynth.domain import Rows
from skdpsynth.fitting import Budget, Facts, Plan
from skdpsynth.measures import (
    DiscreteMeasure,
    TwoStages,
    bound_of_clamped_counts,
    bound_of_least_squares,
    least_squares,
    mass_from_root,
    measure_of_leaves,
    optimal_shares,
    paper_shares,
    refinement_of,
    total_diameters,
    uniform_consistency,
)
from skdpsynth.privacy import Mechanism, PrivacyLoss, mechanism
from skdpsynth.statistics import Histogram, LeavesOf, LevelCounts, total

MOST_HELD = 24  # levels whose cells are all held: a gigabyte
_FIRST_SHARE = Fraction(1, 4)  # of the budget, for the first of the two adaptive stages
_POINTS_A_CELL = 2.0  # epsilon-weighted points that a cell of the second stage should hold
_POINTS_A_CELL_IN_SPACE = 1.4  # ... with three or four features

Cut = Callable[[int], tuple[Any, int]]
"""From a wanted depth to (partition, depth at most that)."""


def _noise(share: PrivacyLoss, neighboring: str) -> Mechanism:
    """Noise for the counts of one level: Laplace, which for few levels is the least."""
    return mechanism(Histogram.change(neighboring), share.pure, ("laplace",))


def _weight(noise: Mechanism, share: Fraction) -> float:
    """Noise variance of a count; without noise, that of a budget of 1, so that levels are joined alike."""
    return 2 * (float(noise.change.l1) / float(share)) ** 2 if noise.loss.is_infinite else noise.variance


@dataclass(frozen=True)
class OneStage(Plan):
    """The strategy "optimal": one histogram; optimal shares over its levels, least squares, mass from the root."""

    partition: Any = None
    noises: tuple[Mechanism | None, ...] = ()  # by level; None where it is not measured
    variances: tuple[float, ...] = ()

    @property
    def finest(self) -> int:
        """Deepest level that is planned."""
        return len(self.noises) - 1

    @classmethod
    def of(cls, facts: Facts, depth: int | None, cut: Cut) -> "OneStage":
        """Plan from public facts."""
        log_size = int(math.log2(max(2.0, facts.size)))
        wanted = max(1, log_size - (1 + log_size // 3 if facts.n_features == 1 else 1 if facts.size > 1000 else 2))
        partition, depth = cut(depth or min(wanted, MOST_HELD))
        shares = optimal_shares(total_diameters(partition, depth))
        used = [level for level in range(1, depth + 1) if shares[level]]
        losses = dict(zip(used, facts.share.split([shares[level] for level in used]), strict=True))
        noises = tuple(_noise(losses[j], facts.neighboring) if j in losses else None for j in range(depth + 1))
        variances = tuple(math.inf if noise is None else _weight(noise, shares[j]) for j, noise in enumerate(noises))
        return cls(False, partition, noises, variances)

    def measure_of(self, rows: Rows, n: int, budget: Budget) -> tuple[DiscreteMeasure, float]:
        """Release the levels that are measured."""
        depth = self.finest
        counts = LevelCounts.above(total(rows, Histogram.over(self.partition, self.partition.depth - depth)))
        noisy = [
            None if noise is None else budget.answer(counts.query(budget.relation, level), noise, f"counts of level {level}")
            for level, noise in enumerate(self.noises)
        ]
        estimates, errors = least_squares(noisy, self.variances)
        mass = mass_from_root(estimates[1:], np.array(n, dtype=float))
        noise_free = any(noise is not None and noise.loss.is_infinite for noise in self.noises)
        bound = bound_of_least_squares(self.partition, depth, n, errors, noise_free=noise_free)
        return measure_of_leaves(self.partition, depth, mass), bound


@dataclass(frozen=True)
class PublishedLevels(Plan):
    """The strategy "paper", Algorithm 4: noise on every level by equation (3.7), clamped, made consistent by Algorithm 3."""

    partition: Any = None
    noises: tuple[Mechanism, ...] = ()

    @property
    def finest(self) -> int:
        """Deepest level that is planned."""
        return len(self.noises) - 1

    @classmethod
    def of(cls, facts: Facts, depth: int | None, cut: Cut) -> "PublishedLevels":
        """Plan from public facts."""
        wanted = max(1, int(math.log2(max(2.0, facts.size))) - (facts.n_features == 1))
        partition, depth = cut(depth or min(wanted, MOST_HELD))
        shares = facts.share.split(paper_shares(total_diameters(partition, depth)))
        return cls(False, partition, tuple(_noise(share, facts.neighboring) for share in shares))

    def measure_of(self, rows: Rows, n: int, budget: Budget) -> tuple[DiscreteMeasure, float]:
        """Release every level."""
        depth = self.finest
        counts = LevelCounts.above(total(rows, Histogram.over(self.partition, self.partition.depth - depth)))
        noisy = [
            budget.answer(counts.query(budget.relation, level), noise, f"counts of level {level}")
            for level, noise in enumerate(self.noises)
        ]
        leaves = uniform_consistency([np.maximum(level, 0) for level in noisy], budget.generator())
        spreads = [float(noise.noise.mean_absolute()) for noise in self.noises]  # type: ignore[attr-defined]
        bound = bound_of_clamped_counts(self.partition, depth, n, max(1, int(noisy[0][0])), spreads)
        return measure_of_leaves(self.partition, depth, leaves), bound


@dataclass(frozen=True)
class Adaptive(Plan):
    """The strategy "adaptive": a coarse histogram, then the counts of a partition that is fine where the first stage saw mass."""

    partition: Any = None
    coarse_depth: int = 0
    finest: int = 0
    cells_a_row: float = 1.0  # of the second stage, that one row can pay for
    noises: tuple[Mechanism, ...] = ()

    @classmethod
    def of(cls, facts: Facts, depth: int | None, cut: Cut) -> "Adaptive":
        """Plan from public facts."""
        size, d, n = facts.size, facts.n_features, facts.n_samples or 1
        first = float(_FIRST_SHARE)
        coarse_depth = max(0, int(0.6 * math.log2(max(2.0, size)) if d <= 2 else math.log2(max(1.0, first * size)) - 3))
        cells_a_row = (1 - first) * size / n / (_POINTS_A_CELL_IN_SPACE if d in (3, 4) else _POINTS_A_CELL)
        finest = coarse_depth + max(0, int(math.log2(max(1.0, cells_a_row * n))))
        partition, finest = cut(min(depth or finest, finest))
        shares = facts.share.split([_FIRST_SHARE, 1 - _FIRST_SHARE])
        noises = tuple(_noise(share, facts.neighboring) for share in shares)
        return cls(False, partition, min(coarse_depth, finest), finest, cells_a_row, noises)

    def measure_of(self, rows: Rows, n: int, budget: Budget) -> tuple[DiscreteMeasure, float]:
        """Release the coarse cells; then the parts of each, as many as the noisy count of the first stage says."""
        first, second = self.noises
        cells, shift = rows.map(LeavesOf(self.partition)).kept(), self.partition.depth - self.coarse_depth

        counts = total(cells, Histogram.over_cells(1 << self.coarse_depth, shift))
        coarse = budget.answer(counts.query(budget.relation), first, f"counts of level {self.coarse_depth}")
        refinement = refinement_of(coarse, n, self.cells_a_row, self.finest - self.coarse_depth)
        counts = total(cells, Histogram.over_refined(shift, refinement))
        fine = budget.answer(counts.query(budget.relation), second, "counts of the refined cells")
        del counts  # they may be many

        variances = _weight(first, _FIRST_SHARE), _weight(second, 1 - _FIRST_SHARE)
        stages = TwoStages(self.partition, n, coarse, refinement, fine, *variances, noise_free=first.loss.is_infinite)
        measure = stages.measure()
        return measure, stages.bound(measure)


STRATEGIES: dict[str, Any] = {"adaptive": Adaptive, "optimal": OneStage, "paper": PublishedLevels}
