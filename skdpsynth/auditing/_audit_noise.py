"""Audits that redraw only the noise and reuse the exact values of the first runs."""

import copy
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from skdpsynth._validation import short_repr
from skdpsynth.auditing._likelihood import RATIO, minus_log_likelihoods, noise_scales, visible_draws
from skdpsynth.auditing._outputs import probe_runs, run
from skdpsynth.continual import BinaryCounter, KaryCounter, SparseCounter, SquareRootCounter, UnboundedCounter
from skdpsynth.privacy import SecureBits, epsilon_of_rho
from skdpsynth.testing import Draw, kind_of, watch_releases

_GAUSSIAN = (SquareRootCounter, UnboundedCounter)
_COUNTERS = (BinaryCounter, KaryCounter, SparseCounter, *_GAUSSIAN)
_TIMES = 4  # first times at which an event is moved, to find the largest loss
_DELTA = Fraction(1, 10**6)  # for converting a cost in rho to epsilon, as counters do
_AT_ONCE = 1 << 14  # values
_MORE = 15  # further runs that only compare values


@dataclass(frozen=True, eq=False)
class NoiseAudit:
    """Pairs of releases on two tables, where neither values nor noise depend on earlier answers."""

    pairs: list[tuple[Draw, Draw]]
    names: ClassVar[list[str]] = [RATIO]

    @classmethod
    def of(cls, mechanism: Any, X: Any, X_neighbor: Any) -> "NoiseAudit":
        """Run the mechanism on both tables, or raise ValueError if releases differ between runs, or given the other table's answers."""
        with watch_releases() as door:
            (_, runs), (_, other_runs) = probe_runs(mechanism, X), probe_runs(mechanism, X_neighbor)
            first, other = runs[0], other_runs[0]
            for table, found in ((X, runs), (X_neighbor, other_runs)):
                found += [run(mechanism, table, until=len(found[0]))[1] for _ in range(_MORE)]
            fixed = _is_same_release(first, other, of_other_rows=True) and all(
                _is_same_release(expected, draws) and _is_same_release(unlike, _replay(mechanism, table, draws))
                for expected, unlike, found, table in ((first, other, runs, X_neighbor), (other, first, other_runs, X))
                for draws in found
            )
        is_seen = len(visible_draws(first)) == len(first)  # secret values may decide later releases
        if not first or not fixed or not is_seen or door.n_choices or any(draw.shared for draw in first):
            raise ValueError(
                "event must be None, 'released' or a function where what is released hangs on what was released before, shares noise or "
                "does not pass the door of this package, got 'noise'; 'released' looks at whole runs."
            )
        return cls(list(zip(first, other, strict=True)))

    @property
    def at_once(self) -> int:
        return max(1, _AT_ONCE // max(1, sum(first.values.size for first, _ in self.pairs)))

    def rows(self, bits: np.ndarray) -> np.ndarray:
        """Return the likelihood ratio of each run, as rows of one number."""
        ratios, rng = np.zeros(len(bits)), SecureBits()
        for first, other in self.pairs:
            exact = np.where(bits.reshape(-1, *[1] * first.values.ndim), other.values, first.values)
            answers = exact + _draw_noise(first.noise, exact.shape, rng)
            ratios += minus_log_likelihoods(answers, first.values, first)
            ratios -= minus_log_likelihoods(answers, other.values, first)
        return np.round(ratios, 6)[:, None]


def _replay(mechanism: Any, table: Any, answers: list[Draw]) -> list[Draw]:
    """Return the releases on a table given these answers, or nothing if other releases are made."""
    try:
        return run(mechanism, table, answers, len(answers))[1]
    except AssertionError:
        return []


def _is_same_release(draws: list[Draw], others: list[Draw], of_other_rows: bool = False) -> bool:
    """Whether all releases agree in name, noise, shape and, unless the rows differ, values."""
    return len(draws) == len(others) and all(
        draw.name == other.name
        and kind_of(draw.noise) == kind_of(other.noise)
        and np.array_equal(noise_scales(draw), noise_scales(other))
        and draw.values.shape == other.values.shape
        and (of_other_rows or np.array_equal(draw.values, other.values))
        for draw, other in zip(draws, others, strict=True)
    )


def _draw_noise(noise: Any, shape: tuple[int, ...], rng: Any) -> np.ndarray:
    """Draw independent noise for a stack of values, each of shape ``shape[1:]``."""
    if "SupNorm" in kind_of(noise):  # values drawn together share one radius
        return np.array([noise.sample(shape[1:], rng) for _ in range(shape[0])])
    return noise.sample(shape, rng)


@dataclass(frozen=True, eq=False)
class CountingMechanism:
    """A counter as a function of events of shape (n_steps, n_counters)."""

    counter: Any  # has counted nothing; each run uses a copy with fresh noise and no accountant

    @classmethod
    def of(cls, counter: Any) -> "CountingMechanism":
        if counter.n_steps:
            raise ValueError(
                f"estimator must be a counter that has counted nothing for an audit, got {short_repr(counter)}; make a new one."
            )
        return cls(copy.copy(counter))

    def __call__(self, events: Any) -> np.ndarray:
        counter = copy.copy(self.counter)
        counter.resume()
        released = []
        for event in np.asarray(events):
            counter.update(event)
            released.append(counter.value)
        return np.concatenate(released) if released else np.zeros(0)

    @property
    def mu(self) -> float | None:
        return math.sqrt(2 * float(self.counter.rho)) if isinstance(self.counter, _GAUSSIAN) else None

    @property
    def promise(self) -> tuple[Any, Any]:
        if not isinstance(self.counter, _GAUSSIAN):
            return self.counter.epsilon, 0.0
        return epsilon_of_rho(self.counter.rho, _DELTA, gaussian=True), _DELTA

    def check_neighbors(self, X: Any, X_neighbor: Any) -> None:
        """Refuse streams that differ at more than one time, or by more than the sensitivity."""
        first, other = np.asarray(X), np.asarray(X_neighbor)
        if first.ndim != 2 or first.shape != other.shape:
            raise ValueError(f"X and X_neighbor must be events of shape (n_steps, n_counters), got {first.shape} and {other.shape}.")
        moved = np.abs(other.astype(np.int64) - first.astype(np.int64))
        n_moved, size = int(moved.any(axis=1).sum()), int((moved if self.mu is None else moved**2).sum())
        if n_moved > 1 or size > self.counter.sensitivity:
            raise ValueError(
                f"X_neighbor must differ from X at one time, by at most sensitivity={self.counter.sensitivity}, but {n_moved} times "
                f"differ, by {size}; see worst_case_neighbors."
            )

    def candidates(self, n: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return pairs of streams of `n` steps that differ as much as allowed at one of the first times."""
        s, n_counters = self.counter.sensitivity, self.counter.n_counters
        zeros, pairs = np.zeros((n, n_counters), dtype=np.int64), []
        moves = [np.eye(1, n_counters, dtype=np.int64)[0] * (s if self.mu is None else math.isqrt(s))]
        if 1 < s <= n_counters:
            moves.append((np.arange(n_counters) < s).astype(np.int64))
        for time in range(min(n, _TIMES)):
            for move in moves:
                other = zeros.copy()
                other[time] = move
                pairs.append((zeros, other))
        return pairs


def is_counter(thing: Any) -> bool:
    return isinstance(thing, _COUNTERS)
