"""Counters that add up nodes of a tree over time, and the base of all counters."""

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from skdpsynth._parallel import lock_of
from skdpsynth._sensitivity import Sensitivity, statistic_facts
from skdpsynth._serialization import is_array, require
from skdpsynth._validation import as_array, available_memory, check_string, is_integer, short_repr
from skdpsynth.persistence import savable
from skdpsynth.privacy import (
    AccountantLike,
    ContinualRelease,
    Noise,
    PrivacyAccountant,
    PrivacyLoss,
    Seed,
    check_accountant,
    check_epsilon,
    check_rng,
    mechanism,
)

_NUMBERS_PER_COUNTER = 128  # numbers of 8 bytes that a counter holds at most, whatever the horizon: counts and noise of open nodes
_Counter = TypeVar("_Counter", bound="ContinualCounter")
MAX_COUNT = 2**62  # of a count: twice that, or noise on it, still fits into 64 bits


class ContinualCounter(ABC):
    """Base of the counters.

    A counter has one lock, for readers and writers: counts of one time must never meet noise of another, since two sums with the same noise
    reveal the difference of the counts. All that an event changes is in ``_state``. It is computed first and assigned once, so an update
    that is refused has counted nothing, and may be repeated; one that is interrupted has counted all or nothing, and `n_steps` tells which.

    A file or copy holds the parameters of `_set_up` and ``_moves``. All that noise depends on is derived anew from the parameters, because
    a file could understate it.
    """

    horizon: int
    n_counters: int
    sensitivity: int
    epsilon: Any
    name: str
    _state: tuple  # what arrived, as secret as the data; of trees and sparse counters first the counts, with the number of steps at the end
    _stride: int  # steps from one look at the counts to the next; between them they are only added up
    _attached: ContinualRelease | None

    _parameters: ClassVar[tuple[str, ...]] = ("horizon", "epsilon", "n_counters", "sensitivity", "name")
    _moves: ClassVar[tuple[str, ...]] = ("_state",)

    def __init__(
        self,
        horizon: int,
        *,
        epsilon: float = 1.0,
        n_counters: int = 1,
        sensitivity: int = 1,
        accountant: AccountantLike = None,
        random_state: Seed = None,
        name: str | None = None,
    ) -> None:
        self._set_up(horizon=horizon, epsilon=epsilon, n_counters=n_counters, sensitivity=sensitivity, name=name)
        self.resume(accountant, random_state)

    @classmethod
    def _without_noise(cls, **parameters: Any) -> Self:
        """Return a counter without noise, which `resume` gives it."""
        counter = cls.__new__(cls)
        counter._set_up(**parameters)
        return counter

    def _set_up(self, *, horizon: int, epsilon: float, n_counters: int, sensitivity: int, name: str | None = None) -> None:
        """Set the parameters, the constants of the noise, and the empty state."""
        self.horizon, self.n_counters = check_size("horizon", horizon), check_size("n_counters", n_counters)
        self.sensitivity, self.epsilon = check_size("sensitivity", sensitivity), check_epsilon(epsilon)
        check_counter_memory(n_counters)
        self.name = type(self).__name__ if name is None else check_string("name", name)
        self._attached = None

    @abstractmethod
    def _counter_sensitivity(self, relation: str = "replace_one") -> Sensitivity:
        """Return how far one event moves the values that the noise of this counter is added to."""

    def _loss(self) -> PrivacyLoss:
        return PrivacyLoss(epsilon=self.epsilon)

    def _noise(self) -> Any:
        return calibrate_noise(self._counter_sensitivity(), self._loss())

    def _own_accountant(self) -> PrivacyAccountant:
        return PrivacyAccountant(self.epsilon)

    def resume(self, accountant: AccountantLike = None, random_state: Seed = None) -> None:
        """Continue after loading: charge the whole of epsilon to `accountant` (None: one of its own) and take noise from now on.

        Two counters that continue from one state are two releases of later events. `accountant` may be the result of the method
        ``standing`` of one, if that was charged enough for this counter.
        """
        with lock_of(self):
            ahead = self._continue_with(self._own_accountant() if accountant is None else accountant, random_state)
            vars(self).update(vars(ahead))

    def _continue_with(self, accountant: ContinualRelease | AccountantLike, random_state: Seed = None) -> Self:
        """Return a counter that continues from here, with a release of its own."""
        ahead = self._ahead()
        ahead._attach(open_release(accountant, ahead._noise(), random_state, self.name, self._loss(), ahead._counter_sensitivity), self)
        return ahead

    def _ahead(self) -> Self:
        """Return the public part of a counter that continues from here: it says which noise is needed."""
        return shallow_copy(self)

    def _attach(self, door: ContinualRelease, before: Self) -> None:
        """Take noise from a release; `before` is this counter as it was until now."""
        self._attached = door

    @property
    def _door(self) -> ContinualRelease:
        if self._attached is None:
            raise ValueError(f"{self!r} was loaded or copied, and has no noise; call resume() to go on.")
        return self._attached

    def update(self, x: ArrayLike) -> None:
        """Count the events of one time: whole numbers of at most 2**62 / horizon, one or of shape (n_counters,).

        Replacing the event of this time, or under "add_or_remove_one" adding or removing one, must change `x` by at most `sensitivity` in
        L1 norm.
        """
        call_locked(self, self._take, np.append(as_counts(x, self.n_counters, self._largest()), 1))

    def update_cells(self, cells: ArrayLike) -> None:
        """Count events that fall into one cell each, one a time step; refused under "add_or_remove_one", where their number is private.

        Cells are whole numbers in [0, n_counters).
        """
        if self._door.neighboring == "add_or_remove_one":
            raise ValueError(
                "update_cells takes a step of time for each event, so it tells how many came, which is private under "
                "neighboring='add_or_remove_one'; give update() the counts of each time, zeros where nothing came."
            )
        cells = as_array(cells)
        if cells.size == 0:
            return
        if cells.dtype.kind not in "iu" or cells.ndim != 1:
            raise ValueError(f"cells must hold one whole number a time step, got {cells.dtype} of shape {cells.shape}.")
        lowest, highest = (cells[0], cells[0]) if len(cells) == 1 else (cells.min(), cells.max())
        if lowest < 0 or highest >= self.n_counters:
            raise ValueError(f"cells must lie in [0, n_counters={self.n_counters}), but some do not; check what numbers them.")
        call_locked(self, self._take_cells, cells.astype(np.int64, copy=False))

    def _take(self, x: np.ndarray) -> None:
        """Count the events of one time, with the lock held."""
        self._check_open(1)
        self._state = self._next(self._state, x)

    def _take_cells(self, cells: np.ndarray) -> None:
        self._check_open(len(cells))
        if len(cells) == 1 and (self.n_steps + 1) % self._stride:
            # The event, and its time in the last entry, by one operation in place, and without a copy of the other cells: just these two.
            self._state[0][cells[0] :: self.n_counters - cells[0]] += 1
        else:
            state, n_before, start = self._state, self.n_steps, 0
            while start < len(cells):  # from one look at the counts to the next
                stop = start + self._stride - (n_before + start) % self._stride
                counts = np.bincount(cells[start:stop], minlength=self.n_counters + 1)
                counts[-1] = len(cells[start:stop])
                state, start = self._next(state, counts), stop
            self._state = state  # noise of steps that are interrupted never leaves

    @abstractmethod
    def _next(self, state: tuple, x: np.ndarray) -> tuple:
        """Return the state after some events: counts by cell, and last the number of steps."""

    def _largest(self) -> int:
        """Return the most events of a cell at one time: a public number, so a refusal does not depend on the sum."""
        return MAX_COUNT // self.horizon

    def _check_open(self, n_steps: int) -> None:
        """Refuse steps that cannot be counted, before anything changes."""
        self._door.check_open(self.name)
        if self.n_steps + n_steps > self.horizon:
            raise ValueError(
                f"horizon is {self.horizon} steps, and {self.n_steps} are past: {n_steps} more are too many; use a larger one."
            )

    @property
    def n_steps(self) -> int:
        """Time steps so far."""
        return int(self._state[0][-1])

    @property
    @abstractmethod
    def value(self) -> np.ndarray:
        """Released counts so far, shape (n_counters,)."""

    def __getstate__(self) -> dict[str, Any]:
        with lock_of(self):
            if self._attached is not None:
                _ = self.value  # the noise of this time is drawn, so that copies agree on it
            first, *rest = self._state
            state = {name: vars(self)[name] for name in (*self._parameters, *self._moves)}
            return {**state, "_state": (copy.copy(first), *rest)}  # counts alone are changed in place

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._set_up(**{name: value for name, value in state.items() if name not in self._moves})
        vars(self).update({name: state[name] for name in self._moves})

    def __repr__(self) -> str:
        own = {name: getattr(self, name) for name in ("horizon", "n_counters", "n_steps")}  # never what it counted
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in own.items() if value != MAX_COUNT)})"


def shallow_copy(counter: _Counter) -> _Counter:
    twin: Any = object.__new__(type(counter))
    vars(twin).update(vars(counter))
    return twin


def call_locked(owner: object, take: Callable, *arguments: Any) -> None:
    """Change an object while its lock is held.

    `take` assigns the new state at its very end, so an interrupt is before the assignment, and nothing is counted, or after it. All is on
    one line here, and the last of its callers, so that few are after it: an interrupt comes where a line begins, or a call returns.
    """
    with lock_of(owner): take(*arguments)  # fmt: skip  # noqa: E701


def open_release(
    accountant: Any, noise: Noise, random_state: Any, name: str, loss: PrivacyLoss, sensitivity: Callable[[str], Sensitivity]
) -> ContinualRelease:
    """Return a release for a mechanism: charged to an accountant, or part of one that was charged enough already."""
    if isinstance(accountant, ContinualRelease):
        return accountant.part(noise, loss, sensitivity(accountant.neighboring))
    check_accountant(accountant)
    rng = random_state if hasattr(random_state, "seeded") else check_rng(random_state)
    return accountant.standing(noise, rng, name=name, loss=loss, sensitivity=sensitivity(accountant.neighboring))


def calibrate_noise(sensitivity: Sensitivity, share: PrivacyLoss) -> Any:
    """Return the noise that covers a sensitivity at a share of the budget: the one place where counters make noise."""
    return mechanism(sensitivity, share).noise


def check_counter_memory(n_counters: int, n_numbers: int = _NUMBERS_PER_COUNTER) -> None:
    """Refuse counters that do not fit into the memory of this machine, at so many numbers each."""
    size = 8 * int(n_counters) * n_numbers
    if size > available_memory():
        raise ValueError(
            f"n_counters must be so few that memory holds them, but {n_counters} counters hold up to {size / 2**30:.3g} GiB; count fewer "
            "cells, or over a shorter horizon."
        )


def check_size(name: str, number: object) -> int:
    """Return a size, or refuse one that is no positive integer whose counts fit into 64 bits."""
    if not is_integer(number, 1, MAX_COUNT):
        raise ValueError(f"{name} must be a positive integer (at most 2**62), got {short_repr(number)}.")
    return int(number)


def as_counts(x: ArrayLike, n_counters: int, largest: int, name: str = "x") -> np.ndarray:
    """Return whole numbers as a fresh int64 array of shape (n_counters,), or refuse them."""
    x = as_array(x)
    if x.dtype.kind not in "iub" or x.shape not in ((), (n_counters,)):
        raise ValueError(f"{name} must hold a whole number for each of {n_counters} counters, got {x.dtype} of shape {x.shape}.")
    if int(x.max()) > largest or int(x.min()) < -largest:
        raise ValueError(f"{name} must lie within {largest} of 0 at each time, so that no count overflows; use larger units.")
    return np.broadcast_to(x, (n_counters,)).astype(np.int64)


class TreeCounter(ContinualCounter):
    """The exact count plus the noise of the nodes of a tree over time that make up the time so far.

    Noise of a node is drawn when it is first used and kept as long as it can be used again: a fresh draw for each use would let it
    be averaged away. All numbers are whole.
    """

    _kept: dict[tuple[int, int], np.ndarray]  # noise by (level, index): as secret as the data
    _past: tuple  # steps before this tree began, what they counted, and what was released of it
    _moves = ("_state", "_kept", "_past")

    def _set_up(self, **parameters: Any) -> None:
        super()._set_up(**parameters)
        self._state, self._stride = (np.zeros(self.n_counters + 1, dtype=np.int64),), self.horizon + 1
        self._kept, self._past = {}, (0, 0, 0)

    @staticmethod
    @abstractmethod
    def _shape(horizon: int) -> tuple[int, int]:
        """Return ``base`` and ``n_levels``."""

    @property
    def base(self) -> int:
        """Branching of the tree."""
        return self._shape(max(1, self.horizon - self._past[0]))[0]

    @property
    def n_levels(self) -> int:
        """Height of the tree: a step is in so many nodes."""
        return self._shape(max(1, self.horizon - self._past[0]))[1]

    @abstractmethod
    def _nodes(self, t: int) -> Iterator[tuple[int, int, int]]:
        """Yield (level, index, sign): the nodes whose signed sums of events are the count up to `t`."""

    def _counter_sensitivity(self, relation: str = "replace_one") -> Sensitivity:
        """Return the sensitivity of the vector of all nodes, of every cell.

        A time step is in one node of each level. So one event changes n_levels nodes of a cell, each by as much as the counts of its time:
        by `sensitivity` in L1 norm over the cells, and by no more in one of them.
        """
        s, h = self.sensitivity, self.n_levels
        facts = statistic_facts("tree_over_time", base=self.base, levels=h, sensitivity=s)
        return Sensitivity(relation, h * s, h * s * s, s, statistic=facts)

    def _next(self, state: tuple, x: np.ndarray) -> tuple:
        return (state[0] + x,)

    @property
    def value(self) -> np.ndarray:
        """Released counts so far, shape (n_counters,), int64."""
        with lock_of(self):
            return self._noisy_counts(self._door)

    def _noisy_counts(self, door: ContinualRelease) -> np.ndarray:
        start, exact, released = self._past
        t = self.n_steps - start
        if not t:
            return np.zeros(self.n_counters, dtype=np.int64) + released  # public: nothing has come since
        base = self.base
        kept = {(level, i): noise for (level, i), noise in self._kept.items() if (i + 1 + base) * base**level >= t}
        since = f"{self.name}: from step {start}" if start else self.name
        nodes = [((level, i), f"{since}: node {i} of level {level}", sign) for level, i, sign in self._nodes(t)]
        noisy = door.release_nodes(self._state[0][:-1] - exact, nodes, kept)
        self._kept = kept
        return released + noisy

    def _check_loaded(self) -> None:
        (counts,), (start, *past) = self._state, self._past
        require(is_array(counts, "i", self.n_counters + 1) and is_integer(start, 0, self.n_steps) and self.n_steps <= self.horizon)
        require(len(past) == 2 and (start or past == [0, 0]))
        require(all(is_array(each, "i", self.n_counters) for each in (*(past if start else []), *self._kept.values())))
        require(all(0 <= level < self.n_levels and 0 <= i <= self.horizon for level, i in self._kept))
        # Later events get noise that no file knows: a counter that continues keeps the noise of nodes that are over, and no other.
        require(all((i + 1) * self.base**level <= self.n_steps - start for level, i in self._ahead()._kept))


@savable
class BinaryCounter(TreeCounter):
    """The binary mechanism: a count is the sum of the blocks of time in the binary expansion of its length.

    Parameters
    ----------
    horizon : int
        Number of time steps.
    epsilon : float, default=1.0
        Cost of the whole stream, where the events of one time change.
    n_counters : int, default=1
        Cells that are counted side by side.
    sensitivity : int, default=1
        The most that events of one time change the counts, in L1 norm: 2 where one moves to another cell, 1 where one comes or goes.
    accountant : PrivacyAccountant, default=None
        Charged epsilon at once. None: one of its own.
    random_state : int, RandomState or None, default=None
        None: secure noise.
    name : str, default=None
        For the ledger; counters that share a seed need different ones.

    See Also
    --------
    KaryCounter : Has less error for pure budgets.

    Notes
    -----
    *Privacy.* Pure epsilon, also when the stream reacts to what was released. A step is in one block of each of L =
    floor(log2(horizon)) + 1 levels, so noise of scale L / epsilon on every block suffices.

    *Copies.* A block is used only when it is over. So two copies that continue with different events share the noise of blocks that hold
    the same events, and no other.

    References
    ----------
    .. [1] Chan, Shi, Song (2011), "Private and continual release of statistics"; Dwork, Naor, Pitassi, Rothblum (2010).

    Examples
    --------
    >>> from skdpsynth.continual import BinaryCounter
    >>> counter = BinaryCounter(100, epsilon=5.0)
    >>> counter.update(1)
    >>> counter.value.shape
    (1,)
    """

    @staticmethod
    def _shape(horizon: int) -> tuple[int, int]:
        return 2, horizon.bit_length()

    def _nodes(self, t: int) -> Iterator[tuple[int, int, int]]:
        for level in range(t.bit_length()):
            if t >> level & 1:
                yield level, (t >> level) - 1, 1


@savable
class KaryCounter(TreeCounter):
    """The k-ary tree mechanism with subtraction: counts by the balanced base-k digits of time. The default for pure epsilon.

    A count is that up to a round time, plus a few blocks after it, or minus a few blocks before it, whose noise is drawn ahead of time.

    Parameters
    ----------
    horizon : int
        Number of time steps.
    epsilon : float, default=1.0
        Cost of the whole stream, where the events of one time change.
    n_counters : int, default=1
        Cells that are counted side by side.
    sensitivity : int, default=1
        The most that events of one time change the counts, in L1 norm: 2 where one moves to another cell, 1 where one comes or goes.
    accountant : PrivacyAccountant, default=None
        Charged epsilon at once. None: one of its own.
    random_state : int, RandomState or None, default=None
        None: secure noise.
    name : str, default=None
        For the ledger; counters that share a seed need different ones.

    See Also
    --------
    BinaryCounter : Continues from a copy without a new tree.
    SquareRootCounter : The least error where delta is above 0.
    UnboundedCounter : For streams of unknown length.
    SparseCounter : For streams in which little happens.

    Notes
    -----
    *Privacy.* With A the prefix sums, R the sums of the nodes and L the signs, A = L R: what is released, A x + L noise, is a
    function of R x + noise. A step is in one node of each of h levels, so the L1 sensitivity of R x is h, and noise of scale h /
    epsilon makes it epsilon-differentially private, also when the stream reacts to what was released. The branching k (odd) and the
    height h (the least with (k**h - 1) / 2 >= horizon) are those of the least mean squared error.

    *Copies.* A node that is subtracted is used before it is over. If its noise traveled with a copy, two copies that go on with different
    events would differ by exact counts; if it was drawn again, the node would be released twice under one charge. So a counter that resumes
    ends its tree: the value of that time is a constant from then on, and a fresh tree, over the rest of the horizon, counts what follows.
    Events before are in the old tree only, whose noise is not drawn again; events after are in the new one only. Each continuation costs
    epsilon on what it sees, and two differ by independent noise. The price is the noise of one value for each resumption.

    References
    ----------
    .. [1] Andersson, Pagh, Steiner, Torkamani (2024), "Count on your elders: Laplace vs Gaussian noise".

    Examples
    --------
    >>> from skdpsynth.continual import KaryCounter
    >>> counter = KaryCounter(1000, epsilon=5.0, n_counters=3, sensitivity=2)
    >>> counter.update_cells([0, 2, 2, 1])
    >>> counter.value.shape
    (3,)
    """

    @staticmethod
    @lru_cache(64)
    def _shape(horizon: int) -> tuple[int, int]:
        # Mean squared error at scale h: a digit is (k^2 - 1) / 4k in absolute value on average, in each of h levels.
        def shapes() -> Iterator[tuple[float, int, int]]:
            for height in range(1, 2 + int(math.log2(horizon + 1))):
                k = max(3, (int((2 * horizon + 1) ** (1 / height)) - 2) | 1)
                while (k**height - 1) // 2 < horizon:
                    k += 2
                yield height**3 * (k * k - 1) / k, k, height

        return min(shapes())[1:]

    def _nodes(self, t: int) -> Iterator[tuple[int, int, int]]:
        k, rest, digits = self.base, t, []
        while rest:
            digit = (rest + k // 2) % k - k // 2
            digits.append(digit)
            rest = (rest - digit) // k
        start = 0  # of what is left of t, in steps
        for level in range(len(digits) - 1, -1, -1):
            side, digit = k**level, digits[level]
            sign = 1 if digit > 0 else -1
            first = start // side if digit > 0 else start // side + digit
            for index in range(first, first + abs(digit)):
                yield level, index, sign
            start += digit * side

    def followed_by(self, count: ArrayLike) -> Self:
        """Return a copy in which one more count is taken in, and nothing is released."""
        twin = shallow_copy(self)
        twin._state = self._next(self._state, np.append(as_counts(count, self.n_counters, MAX_COUNT), 1))
        return twin

    def _ahead(self) -> Self:
        ahead = shallow_copy(self)
        if self.n_steps > self._past[0]:
            ahead._kept, ahead._past = {}, (self.n_steps, self._state[0][:-1].copy(), None)
        return ahead

    def _attach(self, door: ContinualRelease, before: Self) -> None:
        super()._attach(door, before)
        if self._past is not before._past:
            # The noise of this time was drawn when the copy was made. If it was not, nobody has seen it, and it is drawn now.
            released = before._noisy_counts(door.part(before._noise(), self._loss(), before._counter_sensitivity(door.neighboring)))
            self._past = (*self._past[:2], released)
