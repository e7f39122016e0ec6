"""Sparse counting, and counts over levels of time."""

import copy
import math
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from skdpsynth._parallel import lock_of
from skdpsynth._sensitivity import Sensitivity, statistic_facts
from skdpsynth._serialization import is_array, require
from skdpsynth._validation import check_choice, check_string
from skdpsynth.continual._tree import (
    MAX_COUNT,
    BinaryCounter,
    ContinualCounter,
    KaryCounter,
    as_counts,
    calibrate_noise,
    call_locked,
    check_counter_memory,
    check_size,
    open_release,
)
from skdpsynth.persistence import savable
from skdpsynth.privacy import (
    AccountantLike,
    ContinualRelease,
    PrivacyAccountant,
    PrivacyLoss,
    RandomBits,
    Seed,
    check_accountant,
    check_epsilon,
)


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
        How many cells' counts the events of one time change, by one each: 2 where one moves to another cell, 1 where one comes or goes.
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

    _parameters = (*ContinualCounter._parameters, "every")
    _moves = ("_state", "threshold")  # which may be set: noise does not depend on it

    def __init__(
        self,
        horizon: int,
        *,
        epsilon: float = 1.0,
        n_counters: int = 1,
        sensitivity: int = 1,
        every: int = 1,
        accountant: AccountantLike = None,
        random_state: Seed = None,
        name: str | None = None,
    ) -> None:
        self._set_up(horizon=horizon, epsilon=epsilon, n_counters=n_counters, sensitivity=sensitivity, every=every, name=name)
        self.resume(accountant, random_state)

    def _set_up(self, *, every: int = 1, **parameters: Any) -> None:
        super()._set_up(**parameters)
        self.every = self._stride = check_size("every", every)
        # Counts of the open segments, and last the number of steps; their limits; and by cell the counter of its closed segments.
        self._state = np.zeros(self.n_counters + 1, dtype=np.int64), None, {}
        unit = self.epsilon / self.sensitivity
        self.threshold = 0.0 if unit == math.inf else 9 * math.log(max(self.horizon, 2)) / float(unit)

    def _counter_sensitivity(self, relation: str = "replace_one") -> Sensitivity:
        """Return the sensitivity of the counts of the cells at one comparison.

        An event changes `sensitivity` of them, by one each. The proof above shows that the segments of a cell cost as much as one
        comparison, and not as much as all of them: so this is all that their noise has to cover.
        """
        within, s = self._new_segments(0), self.sensitivity
        levels, scale = within.n_levels, within._noise().scale
        facts = statistic_facts("sparse_over_time", sensitivity=s, segment_levels=levels, segment_scale=scale)
        return Sensitivity(relation, s, s, 1, statistic=facts)

    def _noise(self) -> Any:
        return calibrate_noise(self._counter_sensitivity(), PrivacyLoss(epsilon=self.epsilon / 2))  # half is for the counters of segments

    def _attach(self, door: ContinualRelease, before: Self) -> None:
        super()._attach(door, before)
        counts, limits, closed = self._state
        self._state = counts, limits, {cell: segments._continue_with(door) for cell, segments in closed.items()}

    def _next(self, state: tuple, x: np.ndarray) -> tuple:
        """Close the segments that hold enough, by a noisy comparison with a noisy limit, if it is time to."""
        counts, limits, closed = state[0] + x, *state[1:]
        time, open_counts = int(counts[-1]), counts[:-1]
        if time % self.every:
            return counts, limits, closed
        name = f"{self.name}: time {time}"
        if limits is None:
            limits = self._draw_limits(self.n_counters, f"{self.name}: first limits")
        over = np.flatnonzero(self._door.release(open_counts, f"{name}, queries") > limits)
        if len(over):
            closed, limits = dict(closed), limits.copy()
            for cell in over.tolist():
                counter = closed.get(cell) or self._new_segments(cell)._continue_with(self._door)
                closed[cell] = counter.followed_by(open_counts[cell])
            open_counts[over] = 0
            limits[over] = self._draw_limits(len(over), f"{name}, limits")
        return counts, limits, closed

    def _new_segments(self, cell: int) -> KaryCounter:
        own, name = self.epsilon / (2 * self.sensitivity), f"{self.name}: segments of cell {cell}"
        return KaryCounter._without_noise(horizon=-(-self.horizon // self.every), epsilon=own, n_counters=1, sensitivity=1, name=name)

    def _draw_limits(self, size: int, name: str) -> np.ndarray:
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

    def _check_loaded(self) -> None:
        counts, limits, closed = self._state
        require(is_array(counts, "i", self.n_counters + 1) and 0 <= self.n_steps <= self.horizon)
        require(limits is None or is_array(limits, "if", self.n_counters))
        same, alike = ("horizon", "epsilon", "n_counters", "sensitivity"), self._new_segments(0)
        for cell, segments in closed.items():
            require(isinstance(segments, KaryCounter) and 0 <= cell < self.n_counters)
            require(all(getattr(segments, name) == getattr(alike, name) for name in same))


@savable
class InhomogeneousCounter:
    """Counts over levels of time, each with a budget of its own: the counts of past levels, and a counter of the present one.

    Parameters
    ----------
    counter : {"kary", "binary", "sparse"}, default="sparse"
        The counter within a level. With "sparse", half of a level's epsilon is kept for its total, released when it ends; the others end
        with their own.
    n_counters : int, default=1
        Cells that are counted side by side.
    sensitivity : int, default=1
        The most that events of one time change the counts, in L1 norm: 2 where one moves to another cell, 1 where one comes or goes.
    every : int, default=1
        For "sparse": see `SparseCounter`.
    history : array-like of shape (n_counters,), default=None
        Released counts of earlier events. None: zeros.
    name : str, default="InhomogeneousCounter"
        For the ledger.

    See Also
    --------
    OnlineSynthesizer : Counts with it in its published form.
    SparseCounter : The counter within a level by default.

    Notes
    -----
    *Privacy.* Events of a level are counted by that level's counter, at the level's epsilon, and nowhere else.

    References
    ----------
    .. [1] He (2025), dissertation, Algorithm 11.

    Examples
    --------
    >>> from skdpsynth.continual import InhomogeneousCounter
    >>> from skdpsynth.privacy import PrivacyAccountant, check_rng
    >>> counter = InhomogeneousCounter("kary")
    >>> counter.start_level(10, 2.0, PrivacyAccountant(2.0), check_rng(None))
    >>> counter.update_cells([0, 0, 0])
    >>> counter.value.shape
    (1,)
    """

    counter: str
    n_counters: int
    sensitivity: int
    every: int
    name: str

    def __init__(
        self,
        counter: str = "sparse",
        *,
        n_counters: int = 1,
        sensitivity: int = 1,
        every: int = 1,
        history: ArrayLike | None = None,
        name: str = "InhomogeneousCounter",
    ) -> None:
        self.counter = check_choice("counter", counter, tuple(_KINDS))
        self.n_counters, self.sensitivity = check_size("n_counters", n_counters), check_size("sensitivity", sensitivity)
        check_counter_memory(self.n_counters)
        self.every, self.name = check_size("every", every), check_string("name", name)
        past = as_counts(0 if history is None else history, self.n_counters, MAX_COUNT, "history")
        self._level: tuple[np.ndarray, ContinualCounter | None] = (past, None)  # released counts of past levels, and the present counter

    def start_level(self, horizon: int, epsilon: float, accountant: AccountantLike, random_state: Seed | RandomBits = None) -> None:
        """End the present level and start another of `horizon` time steps, which charges `epsilon` to `accountant` at once.

        Levels need different seeds, or children of one stream: equal ones would draw equal noise.
        """
        if accountant is None:
            raise ValueError("accountant must be a PrivacyAccountant, got None; make one with PrivacyAccountant(epsilon).")
        loss = PrivacyLoss(epsilon=check_epsilon(epsilon))
        present = self._level_counter(horizon, loss.epsilon)
        with lock_of(self):
            past = self._end()  # first, because it may refuse: nothing is charged then
            sensitivity = partial(self._level_sensitivity, present)
            door = open_release(accountant, present._noise(), random_state, self.name, loss, sensitivity)
            self._level = past, present._continue_with(door)

    def _level_counter(self, horizon: int, epsilon: float) -> ContinualCounter:
        """Return the counter of a level, yet without noise; of "sparse" half of epsilon is for the total."""
        is_sparse = self.counter == "sparse"
        share, own = (epsilon / 2, {"every": self.every}) if is_sparse else (epsilon, {})
        same = {"n_counters": self.n_counters, "sensitivity": self.sensitivity, "name": self.name}
        return _KINDS[self.counter]._without_noise(horizon=horizon, epsilon=share, **same, **own)

    def end_level(self) -> None:
        """Add the released total of the present level, if there is one, to the past."""
        with lock_of(self):
            self._level = self._end(), None

    def _end(self) -> np.ndarray:
        """Return the released counts of all levels, if the present one ends now."""
        past, present = self._level
        if not isinstance(present, SparseCounter):
            return past if present is None else past + present.value
        exact = present._state[0][:-1].copy()
        for cell, segments in present._state[2].items():
            exact[cell] += segments._state[0][0]
        door, loss = present._door, present._loss()  # as much again as the counter itself has
        sensitivity = self._total_sensitivity(door.neighboring)
        return past + door.part(calibrate_noise(sensitivity, loss), loss, sensitivity).release(exact, f"{self.name}: total")

    def _level_sensitivity(self, present: ContinualCounter, relation: str) -> Sensitivity:
        """Return the sensitivity of the counter of a level; of "sparse" it states the noise of the total, too."""
        sensitivity = present._counter_sensitivity(relation)
        if not isinstance(present, SparseCounter):
            return sensitivity
        total = calibrate_noise(self._total_sensitivity(relation), present._loss())
        return replace(sensitivity, statistic=(*sensitivity.statistic, ("total_scale", total.scale)))

    def _total_sensitivity(self, relation: str = "replace_one") -> Sensitivity:
        """Return the sensitivity of a level's counts: an event is in one level, and moves those of one time by `sensitivity` in L1."""
        s = self.sensitivity
        return Sensitivity(relation, s, s**2, s, statistic=statistic_facts("total_over_time", sensitivity=s))

    def resume(self, accountant: PrivacyAccountant, rng: RandomBits) -> None:
        """Continue after loading: take noise from the stream `rng` from now on, under a charge that `accountant` has already.

        It was made by ``reopen`` from the record of the one that was charged when the level started.
        """
        check_accountant(accountant)
        if accountant is None:
            raise ValueError("accountant must be a PrivacyAccountant, as its method reopen returns it, got None.")
        with lock_of(self):
            past, present = self._level
            if present is not None:
                ahead, loss = present._ahead(), PrivacyLoss(epsilon=self.epsilon)
                sensitivity = ahead._counter_sensitivity(accountant.neighboring)
                door = accountant.standing_again(ahead._noise(), rng, name=self.name, loss=loss, sensitivity=sensitivity)
                self._level = past, present._continue_with(door)

    def update(self, x: ArrayLike) -> None:
        """Count the events of one time; see `KaryCounter.update`."""
        call_locked(self, lambda: self._present().update(x))

    def update_cells(self, cells: ArrayLike) -> None:
        """Count events that fall into one cell each, one a time step; see `KaryCounter.update_cells`."""
        call_locked(self, lambda: self._present().update_cells(cells))

    def _present(self) -> ContinualCounter:
        present = self._level[1]
        if present is None:
            raise ValueError("No level has started; call start_level first.")
        return present

    @property
    def value(self) -> np.ndarray:
        """Released counts so far, shape (n_counters,), int64."""
        with lock_of(self):
            past, present = self._level
            return past.copy() if present is None else past + present.value

    @property
    def epsilon(self) -> Any:
        """Cost of the present level; None where there is none."""
        present = self._level[1]
        return None if present is None else present.epsilon * (2 if self.counter == "sparse" else 1)

    def __getstate__(self) -> dict[str, Any]:
        with lock_of(self):
            return {**vars(self), "_level": (self._level[0], copy.copy(self._level[1]))}

    def __setstate__(self, state: dict[str, Any]) -> None:
        past, present = state["_level"]
        InhomogeneousCounter.__init__(self, **{name: value for name, value in state.items() if name != "_level"}, history=past)
        self._level = self._level[0], present

    def _check_loaded(self) -> None:
        present = self._level[1]
        if present is not None:
            require(type(present) is _KINDS[self.counter])
            alike = self._level_counter(present.horizon, self.epsilon)
            require(all(getattr(present, name) == getattr(alike, name) for name in alike._parameters))

    def __repr__(self) -> str:
        return f"InhomogeneousCounter({self.counter!r}, n_counters={self.n_counters})"


_KINDS: dict[str, type[ContinualCounter]] = {"kary": KaryCounter, "binary": BinaryCounter, "sparse": SparseCounter}
