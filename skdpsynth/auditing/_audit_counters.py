"""Counters as mechanisms to audit: functions from a stream of events to all released counts."""

import copy
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from skdpsynth._validation import short_repr
from skdpsynth.continual import BinaryCounter, KaryCounter, SparseCounter, SquareRootCounter, UnboundedCounter
from skdpsynth.privacy import epsilon_of_rho

_GAUSSIAN = (SquareRootCounter, UnboundedCounter)
_COUNTERS = (BinaryCounter, KaryCounter, SparseCounter, *_GAUSSIAN)
_TIMES = 4  # first times at which an event is moved, to find the largest loss
_DELTA = Fraction(1, 10**6)  # for converting a cost in rho to epsilon, as counters do


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
