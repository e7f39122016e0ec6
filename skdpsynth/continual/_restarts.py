"""Counts over levels of time, each with a budget of its own."""

import copy
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np

from skdpsynth._parallel import lock_of
from skdpsynth._sensitivity import Sensitivity
from skdpsynth._serialization import is_of_type, require
from skdpsynth._validation import as_array, check_choice, check_string, is_integer
from skdpsynth.continual._base import (
    MAX_COUNT,
    ContinualCounter,
    as_random_bits,
    calibrate_noise,
    call_locked,
    check_counter_memory,
    check_size,
    event_sensitivity,
    open_release,
)
from skdpsynth.continual._sparse import SparseCounter
from skdpsynth.continual._tree import BinaryCounter, KaryCounter
from skdpsynth.persistence import savable
from skdpsynth.privacy import ContinualRelease, PrivacyLoss, check_accountant, check_epsilon

_Level = tuple[np.ndarray, ContinualCounter | None, Any, ContinualRelease | None]


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
        The most that changing the events of one time changes the counts of the cells, in L1 norm: 2 where an event moves to another
        cell, 1 where one comes or goes.
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
        history: Any = None,
        name: str = "InhomogeneousCounter",
    ) -> None:
        self.counter = check_choice("counter", counter, tuple(_KINDS))
        self.n_counters, self.sensitivity = check_size("n_counters", n_counters), check_size("sensitivity", sensitivity)
        check_counter_memory(self.n_counters)
        self.every, self.name = check_size("every", every), check_string("name", name)
        # What was released of the levels past; of the present one its counter, its epsilon, and its door.
        self._level: _Level = (_as_history(history, self.n_counters), None, None, None)

    def start_level(self, horizon: int, epsilon: Any, accountant: Any, random_state: Any = None) -> None:
        """End the present level and start another.

        Parameters
        ----------
        horizon : int
            Number of time steps of the new level.
        epsilon : float
            Its cost.
        accountant : PrivacyAccountant
            Charged `epsilon` at once.
        random_state : int, RandomState, stream or None, default=None
            None: secure noise. Levels need different seeds, or children of one stream: equal ones would draw equal noise.
        """
        if accountant is None:
            raise ValueError("accountant must be a PrivacyAccountant, got None; make one with PrivacyAccountant(epsilon).")
        epsilon, is_sparse = check_epsilon(epsilon), self.counter == "sparse"
        # With "sparse" half of epsilon is for the level as it goes, half for its total.
        share, own = (epsilon / 2, {"every": self.every}) if is_sparse else (epsilon, {})
        present = _KINDS[self.counter]._without_noise(horizon, share, self.n_counters, self.sensitivity, self.name, **own)
        with lock_of(self):
            sensitivity = partial(self._level_sensitivity, present, epsilon)
            door = open_release(
                accountant, present._noise(), as_random_bits(random_state), self.name, PrivacyLoss(epsilon=epsilon), sensitivity
            )
            self._level = self._ended(), present._going_on(door), epsilon, door

    def end_level(self) -> None:
        """Add the released total of the present level, if there is one, to the past."""
        with lock_of(self):
            self._level = self._ended(), None, None, None

    def _ended(self) -> np.ndarray:
        """Return the released counts of all levels, if the present one ends now."""
        past, present, epsilon, door = self._level
        if present is None or door is None:
            return past
        if not isinstance(present, SparseCounter):
            return past + present.value
        total = PrivacyLoss(epsilon=epsilon / 2)
        sensitivity = self._total_sensitivity(door.neighboring)
        return past + door.part(calibrate_noise(sensitivity, total), total, sensitivity).release(present._exact, f"{self.name}: total")

    def _level_sensitivity(self, present: ContinualCounter, epsilon: Any, relation: str) -> Sensitivity:
        """Return the sensitivity of the counter of a level; of "sparse" it states the noise of the total, too."""
        sensitivity = present._counter_sensitivity(relation)
        if not isinstance(present, SparseCounter):
            return sensitivity
        total = calibrate_noise(self._total_sensitivity(relation), PrivacyLoss(epsilon=epsilon / 2))
        return replace(sensitivity, statistic=(*sensitivity.statistic, ("total_scale", total.scale)))

    def _total_sensitivity(self, relation: str = "replace_one") -> Sensitivity:
        """Return the sensitivity of a level's counts: an event is in one level, and moves those of one time by `sensitivity` in L1."""
        s = self.sensitivity
        return event_sensitivity(relation, s, s**2, s, "total_over_time", sensitivity=s)

    def resume(self, accountant: Any, rng: Any) -> None:
        """Continue after loading: take noise from the stream `rng` from now on, under a charge that `accountant` has already.

        Parameters
        ----------
        accountant : PrivacyAccountant
            Made by ``reopened`` from the record of the one that was charged when the level started.
        rng : stream of random bits
        """
        check_accountant(accountant)
        if accountant is None:
            raise ValueError("accountant must be a PrivacyAccountant, as its method reopened returns it, got None.")
        with lock_of(self):
            past, present, epsilon, _ = self._level
            if present is not None:
                ahead, loss = present._ahead(), PrivacyLoss(epsilon=epsilon)
                sensitivity = ahead._counter_sensitivity(accountant.neighboring)
                door = accountant.standing_again(ahead._noise(), rng, name=self.name, loss=loss, sensitivity=sensitivity)
                self._level = past, present._going_on(door), epsilon, door

    def update(self, x: Any) -> None:
        """Count the events of one time; see `KaryCounter.update`."""
        call_locked(self, self._take, x)

    def update_cells(self, cells: Any) -> None:
        """Count events that fall into one cell each, one a time step; see `KaryCounter.update_cells`."""
        call_locked(self, self._take_cells, cells)

    def _take(self, x: Any) -> None:
        self._current_level().update(x)

    def _take_cells(self, cells: Any) -> None:
        self._current_level().update_cells(cells)

    def _current_level(self) -> ContinualCounter:
        present = self._level[1]
        if present is None:
            raise ValueError("No level has started; call start_level first.")
        return present

    @property
    def value(self) -> np.ndarray:
        """Released counts so far, shape (n_counters,), int64."""
        with lock_of(self):
            past, present = self._level[:2]
            return past.copy() if present is None else past + present.value

    @property
    def epsilon(self) -> Any:
        """Cost of the present level; None where there is none."""
        return self._level[2]

    def __getstate__(self) -> dict[str, Any]:
        with lock_of(self):
            past, present, epsilon, _ = self._level
            return {**vars(self), "_level": (past, copy.copy(present), epsilon, None)}

    def _check_loaded(self) -> None:
        require(is_of_type(self._level, tuple[np.ndarray, ContinualCounter | None, Any, None]) and is_integer(self.n_counters, 1))
        past, present, epsilon, _ = self._level
        fresh = InhomogeneousCounter(
            self.counter, n_counters=self.n_counters, sensitivity=self.sensitivity, every=self.every, history=past, name=self.name
        )
        require(vars(fresh).keys() == vars(self).keys() and past.dtype == np.int64)
        if present is None:
            require(epsilon is None)
            return
        share = check_epsilon(epsilon) / (2 if self.counter == "sparse" else 1)
        same = ("n_counters", "sensitivity", "name", *(["every"] if self.counter == "sparse" else []))
        require(type(present) is _KINDS[self.counter] and present.epsilon == share)
        require(all(getattr(present, name) == getattr(self, name) for name in same))

    def __copy__(self) -> Self:
        return copy.deepcopy(self)

    def __repr__(self) -> str:
        return f"InhomogeneousCounter({self.counter!r}, n_counters={self.n_counters})"


_KINDS: dict[str, type[ContinualCounter]] = {"kary": KaryCounter, "binary": BinaryCounter, "sparse": SparseCounter}


def _as_history(history: Any, n_counters: int) -> np.ndarray:
    history = np.zeros(n_counters, dtype=np.int64) if history is None else as_array(history)
    is_whole = history.dtype.kind in "iu" and history.shape == (n_counters,)
    if not (is_whole and int(history.max()) <= MAX_COUNT and int(history.min()) >= -MAX_COUNT):
        raise ValueError(
            f"history must hold a whole number for each of {n_counters} counters, within 2**62 of 0, "
            f"got {history.dtype} of shape {history.shape}."
        )
    return history.astype(np.int64)
