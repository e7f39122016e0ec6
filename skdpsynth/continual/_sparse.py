"""Sparse counting."""

import math
from typing import Any, Self

import numpy as np

from skdpsynth._parallel import lock_of
from skdpsynth._sensitivity import Sensitivity
from skdpsynth._serialization import is_array, is_of_type, require
from skdpsynth._validation import is_integer
from skdpsynth.continual._base import ContinualCounter, check_size, event_sensitivity
from skdpsynth.continual._tree import KaryCounter, add_one, sum_cells
from skdpsynth.persistence import savable
from skdpsynth.privacy import ContinualRelease, PrivacyLoss


@savable
class SparseCounter(ContinualCounter):
    """Sparse counting: a released count changes only when enough has arrived since it last did.

    Parameters
    ----------
    horizon : int
        Number of time steps.
    epsilon : float, default=1.0
        Cost of the whole stream, where the events of one time change.
    n_counters : int, default=1
        Cells that are counted side by side.
    sensitivity : int, default=1
        How many cells' counts the events of one time change, by one each: 2 where an event moves to another cell, 1 where
        one comes or goes.
    every : int, default=1
        Thresholds are compared at multiples of this many steps only: a public choice, which the proof does not mind.
    accountant : PrivacyAccountant, default=None
        Charged epsilon at once. None: one of its own.
    random_state : int, RandomState or None, default=None
        None: secure noise.
    name : str, default=None
        For the ledger; counters that share a seed need different ones.

    Attributes
    ----------
    value : ndarray of shape (n_counters,), int64
        Released counts so far.
    n_steps : int
        Time steps so far.
    threshold : float
        9 log(horizon) / e with e = epsilon / sensitivity: what a segment holds before it is closed, about.

    See Also
    --------
    KaryCounter : For streams in which much happens.
    InhomogeneousCounter : Counts over levels of time.

    Notes
    -----
    *Privacy.* Let a cell's count change by one at one time, and e be the cost for that. Half of e pays for the segments, half for a
    `KaryCounter` of their counts. Segments cost the *larger*, not the sum, of 1 / (scale of the threshold's noise) and 1 / (scale
    of the queries' noise), here both e / 2. Proof: let x' = x + 1 at time t0. Segmentations that agree up to there have equal laws
    elsewhere. In the segment of t0 with threshold noise l and query noise q_s, that it closes at k has probability sum_l f(l)
    prod_(s<k) P(N_s + q_s <= T + l) P(N_k + q_k > T + l). From x to x', replace l by l - 1: every factor grows or stays, and f
    changes by a factor exp(e / 2) at most. From x' to x, keep l: the factors before k grow, and only the last shrinks, by exp(e /
    2) at most. Both hold at any public set of times of comparison.

    *Copies.* The counters of closed segments resume as `KaryCounter` does. An open segment keeps its limit, so that going on once costs
    nothing more. Several copies of one state share the limits of their open segments. For an event that only one of them sees, replacing
    l by l - 1 shrinks one factor of each other copy, that of closing, by exp(e / 2) at most: beside k other continuations its segments
    cost (k + 1) e / 2. Two copies so cost 3/2 epsilon for what one of them sees, and 2 epsilon for what both do.

    References
    ----------
    .. [1] He (2025), dissertation, Algorithm 10; Dwork, Naor, Reingold, Rothblum (2015), "Pure differential privacy for rectangle
       queries via private partitions". Corrected: the loop ends at the horizon.

    Examples
    --------
    >>> from skdpsynth.continual import SparseCounter
    >>> counter = SparseCounter(1000, epsilon=5.0)
    >>> counter.update(1)
    >>> counter.value
    array([0])
    """

    every: int
    threshold: float

    def __init__(
        self,
        horizon: int,
        *,
        epsilon: Any = 1.0,
        n_counters: int = 1,
        sensitivity: int = 1,
        every: int = 1,
        accountant: Any = None,
        random_state: Any = None,
        name: str | None = None,
    ) -> None:
        self.every = check_size("every", every)
        super().__init__(
            horizon,
            epsilon=epsilon,
            n_counters=n_counters,
            sensitivity=sensitivity,
            accountant=accountant,
            random_state=random_state,
            name=name,
        )

    _moves = ("_state", "threshold")  # which may be set: noise does not depend on it

    def _prepare(self) -> None:
        # Counts of the open segments, and last the number of steps; their limits; and by cell the counter of its closed segments. Only
        # the counts are ever changed in place, by one step that is not compared.
        self._state = np.zeros(self.n_counters + 1, dtype=np.int64), None, {}
        unit = self.epsilon / self.sensitivity
        self.threshold = 0.0 if unit == math.inf else 9 * math.log(max(self.horizon, 2)) / float(unit)

    def _counter_sensitivity(self, relation: str = "replace_one") -> Sensitivity:
        """Return the sensitivity of the counts of the cells at one comparison.

        An event changes `sensitivity` of them, by one each. The proof above shows that the segments of a cell cost as much as one
        comparison, and not as much as all of them: so this is all that their noise has to cover.
        """
        within, s = self._new_segments(0), self.sensitivity
        told = {"sensitivity": s, "segment_levels": within.n_levels, "segment_scale": within._noise().scale}
        return event_sensitivity(relation, s, s, 1, "sparse_over_time", **told)

    def _share(self) -> PrivacyLoss:
        return PrivacyLoss(epsilon=self.epsilon / 2)  # the other half is for the counters of the segments

    def _attach(self, door: ContinualRelease, before: Self) -> None:
        super()._attach(door, before)
        counts, limits, closed = self._state
        self._state = counts, limits, {cell: segments._going_on(door) for cell, segments in closed.items()}

    def _check_counts(self) -> None:
        require(is_of_type(self._state, tuple[np.ndarray, np.ndarray | None, dict[int, KaryCounter]]) and is_integer(self.every, 1))
        require(is_of_type(self.threshold, float) and abs(self.threshold) <= 1e300)
        counts, limits, closed = self._state
        require(is_array(counts, "i", self.n_counters + 1) and self._are_counts(counts[:-1]) and 0 <= self.n_steps <= self.horizon)
        require(limits is None or is_array(limits, "if", self.n_counters))
        alike = self._new_segments(0)
        for cell, segments in closed.items():
            require(0 <= cell < self.n_counters and segments.n_counters == segments.sensitivity == 1)
            require((segments.horizon, segments.epsilon) == (alike.horizon, alike.epsilon))

    @property
    def n_steps(self) -> int:
        """Time steps so far."""
        return int(self._state[0][-1])

    def _take(self, x: np.ndarray) -> None:
        self._check(1)
        self._state = self._compared(self._state[0] + np.append(x, 1), *self._state[1:])

    def _take_cells(self, cells: np.ndarray) -> None:
        self._check(len(cells))
        if len(cells) == 1 and (self.n_steps + 1) % self.every:
            add_one(self._state[0], int(cells[0]))
        else:
            self._state = self._after(cells)

    def _after(self, cells: np.ndarray) -> tuple:
        """Return the state after some events; noise drawn for interrupted events never leaves."""
        state = self._state
        first = min(len(cells), self.every - self.n_steps % self.every)
        for part in (cells[:first], *(cells[i : i + self.every] for i in range(first, len(cells), self.every))):
            state = self._compared(state[0] + sum_cells(part, self.n_counters), *state[1:])
        return state

    def _compared(self, counts: np.ndarray, limits: np.ndarray | None, closed: dict[int, KaryCounter]) -> tuple:
        """Close the segments that hold enough, by a noisy comparison with a noisy limit, if it is time to; `counts` may be changed."""
        time, open_counts = int(counts[-1]), counts[:-1]
        if time % self.every:
            return counts, limits, closed
        name = f"{self.name}: time {time}"
        if limits is None:
            limits = self._fresh_limits(self.n_counters, f"{self.name}: first limits")
        over = np.flatnonzero(self._door.release(open_counts, f"{name}, queries") > limits)
        if len(over):
            closed, limits = dict(closed), limits.copy()
            for cell in over.tolist():
                counter = closed.get(cell) or self._new_segments(cell)._going_on(self._door)
                closed[cell] = counter.followed_by(open_counts[cell])
            open_counts[over] = 0
            limits[over] = self._fresh_limits(len(over), f"{name}, limits")
        return counts, limits, closed

    def _new_segments(self, cell: int) -> KaryCounter:
        own = self.epsilon / (2 * self.sensitivity)
        return KaryCounter._without_noise(-(-self.horizon // self.every), own, name=f"{self.name}: segments of cell {cell}")

    def _fresh_limits(self, size: int, name: str) -> np.ndarray:
        return float(self.threshold) + self._door.release(np.zeros(size, dtype=np.int64), name)

    @property
    def value(self) -> np.ndarray:
        """Released counts so far, shape (n_counters,), int64."""
        with lock_of(self):
            _ = self._door
            out = np.zeros(self.n_counters, dtype=np.int64)
            for cell, counter in self._state[2].items():
                out[cell] = counter.value[0]
            return out

    @property
    def _exact(self) -> np.ndarray:
        """The exact counts, in open and closed segments: private."""
        out = self._state[0][:-1].copy()
        for cell, counter in self._state[2].items():
            out[cell] += counter._state[0]
        return out

    def _snapshot(self) -> dict[str, Any]:
        counts, *rest = self._state
        return {**super()._snapshot(), "_state": (counts.copy(), *rest)}
