"""The base of all counters: events, the lock, and access to noise."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from skdpsynth._parallel import lock_of
from skdpsynth._sensitivity import Sensitivity, statistic_facts
from skdpsynth._serialization import is_array, require
from skdpsynth._validation import as_array, available_memory, check_string, is_integer, short_repr
from skdpsynth.privacy import ContinualRelease, PrivacyAccountant, PrivacyLoss, check_accountant, check_epsilon, check_rng, mechanism

_NUMBERS_PER_COUNTER = 128  # numbers of 8 bytes that a counter holds at most, whatever the horizon: counts and noise of open nodes
MAX_COUNT = 2**62  # of a count: twice that, or noise on it, still fits into 64 bits


class ContinualCounter(ABC):
    """Base of the counters.

    A counter has one lock, for readers and writers: counts of one time must never meet noise of another, since two sums with the same noise
    reveal the difference of the counts. All that an event changes is in ``_state``. It is computed first and assigned once, so an update
    that is refused or interrupted has counted nothing, and may be repeated.
    """

    horizon: int
    n_counters: int
    sensitivity: int
    epsilon: Any
    name: str
    _state: Any  # what arrived: as secret as the data
    _moves: ClassVar[tuple[str, ...]] = ("_state",)  # all that does not follow from the parameters
    _attached: ContinualRelease | None

    def __init__(
        self,
        horizon: int,
        *,
        epsilon: Any = 1.0,
        n_counters: int = 1,
        sensitivity: int = 1,
        accountant: Any = None,
        random_state: Any = None,
        name: str | None = None,
    ) -> None:
        self._set_up(horizon, epsilon, n_counters, sensitivity, name)
        self.resume(accountant, random_state)

    @classmethod
    def _without_noise(
        cls, horizon: int, epsilon: Any, n_counters: int = 1, sensitivity: int = 1, name: str | None = None, **own: Any
    ) -> Self:
        """Return a counter without noise, which `resume` gives it."""
        counter = cls.__new__(cls)
        vars(counter).update(own)
        counter._set_up(horizon, epsilon, n_counters, sensitivity, name)
        return counter

    def _set_up(self, horizon: int, epsilon: Any, n_counters: int, sensitivity: int, name: str | None) -> None:
        for what, number in (("horizon", horizon), ("n_counters", n_counters), ("sensitivity", sensitivity)):
            check_size(what, number)
        check_counter_memory(n_counters)
        self.horizon, self.n_counters, self.sensitivity = int(horizon), int(n_counters), int(sensitivity)
        self.epsilon = check_epsilon(epsilon)
        self.name = type(self).__name__ if name is None else check_string("name", name)
        self._attached = None
        self._prepare()

    @abstractmethod
    def _prepare(self) -> None:
        """Set the constants of the noise, and the empty state."""

    # What it costs

    @abstractmethod
    def _counter_sensitivity(self, relation: str = "replace_one") -> Sensitivity:
        """Return how far one event moves the values that the noise of this counter is added to."""

    def _share(self) -> PrivacyLoss:
        """Return the part of the loss that the noise is calibrated to."""
        return self._loss()

    def _loss(self) -> PrivacyLoss:
        return PrivacyLoss(epsilon=self.epsilon)

    def _noise(self) -> Any:
        return calibrate_noise(self._counter_sensitivity(), self._share())

    def _own_accountant(self) -> PrivacyAccountant:
        return PrivacyAccountant(self.epsilon)

    # The door

    def resume(self, accountant: Any = None, random_state: Any = None) -> None:
        """Continue after loading: charge the whole of epsilon to `accountant` (None: one of its own) and take noise from now on.

        Two counters that continue from one state are two releases of later events.

        Parameters
        ----------
        accountant : PrivacyAccountant, default=None
            Or the result of its method ``standing``, if that was charged enough for this counter.
        random_state : int, RandomState or None, default=None
            None: secure noise.
        """
        with lock_of(self):
            ahead = self._going_on(self._own_accountant() if accountant is None else accountant, random_state)
            vars(self).update(vars(ahead))

    def _going_on(self, accountant: Any, random_state: Any = None) -> Self:
        """Return a counter that continues from here, with a release of its own."""
        ahead = self._ahead()
        ahead._attach(open_release(accountant, ahead._noise(), random_state, self.name, self._loss(), ahead._counter_sensitivity), self)
        return ahead

    def _ahead(self) -> Self:
        """Return the public part of a counter that continues from here: it says which noise is needed."""
        return self._shallow_copy()

    def _attach(self, door: ContinualRelease, before: Self) -> None:
        """Take noise from a release; `before` is this counter as it was until now."""
        self._attached = door

    def _shallow_copy(self) -> Self:
        twin = type(self).__new__(type(self))
        vars(twin).update(vars(self))
        return twin

    @property
    def _door(self) -> ContinualRelease:
        if self._attached is None:
            raise ValueError(f"{self!r} was loaded or copied, and has no noise; call resume() to go on.")
        return self._attached

    # Counting

    def update(self, x: Any) -> None:
        """Count the events of one time.

        Parameters
        ----------
        x : int or array-like of shape (n_counters,)
            Whole numbers, of at most 2**62 / horizon. Replacing the event of this time, or under "add_or_remove_one" adding or removing
            one, must change `x` by at most `sensitivity` in L1 norm.
        """
        call_locked(self, self._take, as_counts(x, self.n_counters, self._largest()))

    def update_cells(self, cells: Any) -> None:
        """Count events that fall into one cell each, one a time step; refused under "add_or_remove_one", where their number is private.

        Parameters
        ----------
        cells : array-like of shape (n_steps,), int
            In [0, n_counters).
        """
        if self._door.neighboring == "add_or_remove_one":
            raise ValueError(
                "update_cells takes a step of time for each event, so it tells how many came, which is private under "
                "neighboring='add_or_remove_one'; give update() the counts of each time, zeros where nothing came."
            )
        cells = as_cells(cells, self.n_counters)
        if len(cells):
            call_locked(self, self._take_cells, cells)

    @abstractmethod
    def _take(self, x: np.ndarray) -> None:
        """Count the checked events of one time, with the lock held; the last statement assigns, or stores, the new state."""

    @abstractmethod
    def _take_cells(self, cells: np.ndarray) -> None:
        """Count events of one cell each, likewise."""

    def _largest(self) -> int:
        """Return the most events of a cell at one time: a public number, so a refusal does not depend on the sum."""
        return MAX_COUNT // self.horizon

    def _check(self, n_steps: int) -> None:
        """Refuse steps that cannot be counted, before anything changes."""
        self._door.check_open(self.name)
        if self.n_steps + n_steps > self.horizon:
            raise ValueError(
                f"horizon is {self.horizon} steps, and {self.n_steps} are past: {n_steps} more are too many; use a larger horizon."
            )

    @property
    @abstractmethod
    def n_steps(self) -> int:
        """Time steps so far."""

    @property
    @abstractmethod
    def value(self) -> np.ndarray:
        """Released counts so far, shape (n_counters,)."""

    # Files

    def _check_loaded(self) -> None:
        """Refuse a state that no counter has; constants of the noise are derived anew, because a file could understate them."""
        require(all(isinstance(vars(self).get(name, 1.0), Fraction | float) for name in ("epsilon", "rho")))
        require(self._attached is None and is_integer(self.n_counters, 1) and is_integer(self.horizon, 1))
        self._check_counts()
        own = {name: getattr(self, name) for name in ("rho", "every") if name in vars(self)}
        fresh = type(self)._without_noise(self.horizon, self.epsilon, self.n_counters, self.sensitivity, self.name, **own)
        require(vars(fresh).keys() == vars(self).keys())
        require(all(np.array_equal(vars(self)[name], value) for name, value in vars(fresh).items() if name not in self._moves))

    @abstractmethod
    def _check_counts(self) -> None:
        """Refuse counts, or released counts, of a shape that no counter has."""

    def _are_counts(self, *values: Any) -> bool:
        return all(is_array(each, "i", self.n_counters) and bool(np.all((each <= MAX_COUNT) & (each >= -MAX_COUNT))) for each in values)

    # Copies

    def settle(self) -> None:
        """Draw the noise of this time, so that copies that are made now agree on it."""
        if self._attached is not None:
            _ = self.value

    def _snapshot(self) -> dict[str, Any]:
        """Return the attributes in a form that no later update changes."""
        return {**vars(self), "_attached": None}

    def __getstate__(self) -> dict[str, Any]:
        with lock_of(self):
            self.settle()
            return self._snapshot()

    def __copy__(self) -> Self:
        return copy.deepcopy(self)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(horizon={self.horizon}, n_counters={self.n_counters}, n_steps={self.n_steps})"  # never what it counted
        )


def call_locked(owner: Any, take: Callable, *arguments: Any) -> None:
    """Change an object while its lock is held.

    `take` assigns the new state at its very end. All is on one line here, and the last of its callers: no line begins after the
    assignment, so an interrupt, which comes where a line begins, is before it (and nothing is counted) or after the update.
    """
    with lock_of(owner): take(*arguments)  # fmt: skip  # noqa: E701


def open_release(
    accountant: Any, noise: Any, random_state: Any, name: str, loss: PrivacyLoss, sensitivity: Callable[[str], Sensitivity]
) -> ContinualRelease:
    """Return a release for a mechanism: charged to an accountant, or part of one that was charged enough already."""
    if isinstance(accountant, ContinualRelease):
        return accountant.part(noise, loss, sensitivity(accountant.neighboring))
    check_accountant(accountant)
    return accountant.standing(noise, as_random_bits(random_state), name=name, loss=loss, sensitivity=sensitivity(accountant.neighboring))


def calibrate_noise(sensitivity: Sensitivity, share: PrivacyLoss) -> Any:
    """Return the noise that covers a sensitivity at a share of the budget: the one place where counters make noise."""
    return mechanism(sensitivity, share).noise


def event_sensitivity(relation: str, l1: int, l2_squared: int, sup: int, kind: str, **facts: Any) -> Sensitivity:
    """Return a sensitivity of whole numbers, with public facts about the statistic."""
    return Sensitivity(relation, Fraction(l1), Fraction(l2_squared), Fraction(sup), statistic=statistic_facts(kind, **facts))


def as_random_bits(random_state: Any) -> Any:
    """Return a stream of bits, from a seed or as given."""
    return random_state if hasattr(random_state, "seeded") else check_rng(random_state)


def check_counter_memory(n_counters: int, n_numbers: int = _NUMBERS_PER_COUNTER) -> None:
    """Refuse counters that do not fit into the memory of this machine, at so many numbers each."""
    size = 8 * int(n_counters) * n_numbers
    if size > available_memory():
        raise ValueError(
            f"n_counters must be so few that memory holds them, but {n_counters} counters hold up to {size / 2**30:.3g} GiB; count fewer "
            "cells, or over a shorter horizon."
        )


def check_size(name: str, number: Any) -> int:
    """Return a size, or refuse one that is no positive integer whose counts fit into 64 bits."""
    if not is_integer(number, 1, MAX_COUNT):
        raise ValueError(f"{name} must be a positive integer (at most 2**62), got {short_repr(number)}.")
    return int(number)


def as_counts(x: Any, n_counters: int, largest: int) -> np.ndarray:
    """Return whole numbers as a fresh int64 array of shape (n_counters,), or refuse them."""
    x = as_array(x)
    if x.dtype.kind not in "iub" or x.shape not in ((), (n_counters,)):
        raise ValueError(f"x must hold a whole number for each of {n_counters} counters, got {x.dtype} of shape {x.shape}.")
    if int(x.max()) > largest or int(x.min()) < -largest:
        raise ValueError(f"x must lie within {largest} of 0 at each time, so that no count overflows; use larger units.")
    return np.broadcast_to(x, (n_counters,)).astype(np.int64)


def as_cells(cells: Any, n_counters: int) -> np.ndarray:
    """Return cell numbers as an array of shape (n_steps,), or raise."""
    cells = as_array(cells)
    if cells.size == 0:
        return np.zeros(0, dtype=np.int64)
    if cells.dtype.kind not in "iu" or cells.ndim != 1:
        raise ValueError(f"cells must hold one whole number a time step, got {cells.dtype} of shape {cells.shape}.")
    lowest, highest = (cells[0], cells[0]) if len(cells) == 1 else (cells.min(), cells.max())
    if lowest < 0 or highest >= n_counters:
        raise ValueError(f"cells must lie in [0, n_counters={n_counters}), but some do not; check what numbers them.")
    return cells.astype(np.int64, copy=False)
