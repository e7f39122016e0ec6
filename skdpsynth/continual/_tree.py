"""Counters that add up nodes of a tree over time."""

import math
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from skdpsynth._parallel import lock_of
from skdpsynth._sensitivity import Sensitivity
from skdpsynth._serialization import is_array, require
from skdpsynth._validation import is_integer
from skdpsynth.continual._base import MAX_COUNT, ContinualCounter, as_counts, event_sensitivity
from skdpsynth.persistence import savable
from skdpsynth.privacy import ContinualRelease


class TreeCounter(ContinualCounter):
    """The exact count plus the noise of the nodes of a tree over time that make up the time so far.

    Noise of a node is drawn when it is first used and kept as long as it can be used again: a fresh draw for each use would let it
    be averaged away. All numbers are whole.

    The state is one array: counts, and last the number of steps. So one store moves both, and an event and its time are counted
    together or not at all.
    """

    base: int
    n_levels: int
    _kept: dict[tuple[int, int], np.ndarray]
    _past: tuple
    _moves = ("_state", "_kept", "_past", "base", "n_levels")

    def _prepare(self) -> None:
        self._state = np.zeros(self.n_counters + 1, dtype=np.int64)
        self._kept = {}  # noise by (level, index): as secret as the data
        self._past = (0, 0, 0)  # steps before this tree began, what they counted, and what was released of it
        self.base, self.n_levels = self._shape(self.horizon)

    @abstractmethod
    def _shape(self, horizon: int) -> tuple[int, int]:
        """Return ``base`` and ``n_levels``."""

    @abstractmethod
    def _nodes(self, t: int) -> Iterator[tuple[int, int, int]]:
        """Yield (level, index, sign): the nodes whose signed sums of events are the count up to `t`."""

    def _counter_sensitivity(self, relation: str = "replace_one") -> Sensitivity:
        """Return the sensitivity of the vector of all nodes, of every cell.

        A time step is in one node of each level. So one event changes n_levels nodes of a cell, each by as much as the counts of its time:
        by `sensitivity` in L1 norm over the cells, and by no more in one of them.
        """
        s, h = self.sensitivity, self.n_levels
        return event_sensitivity(relation, h * s, h * s * s, s, "tree_over_time", base=self.base, levels=h, sensitivity=s)

    @property
    def n_steps(self) -> int:
        """Time steps so far."""
        return int(self._state[-1])

    def _take(self, x: np.ndarray) -> None:
        self._check(1)
        self._state = self._state + np.append(x, 1)

    def _take_cells(self, cells: np.ndarray) -> None:
        self._check(len(cells))
        if len(cells) == 1:
            add_one(self._state, int(cells[0]))
        else:
            self._state = self._state + sum_cells(cells, self.n_counters)

    @property
    def value(self) -> np.ndarray:
        """Released counts so far, shape (n_counters,), int64."""
        with lock_of(self):
            return self._released(self._door)

    def _released(self, door: ContinualRelease) -> np.ndarray:
        start, exact, released = self._past
        t = self.n_steps - start
        if not t:
            return np.zeros(self.n_counters, dtype=np.int64) + released  # public: nothing has come since
        self._kept = {node: noise for node, noise in self._kept.items() if self._ends(*node) + self.base ** (node[0] + 1) >= t}
        since = f"{self.name}: from step {start}" if start else self.name
        nodes = [((level, i), f"{since}: node {i} of level {level}", sign) for level, i, sign in self._nodes(t)]
        if not start:
            return door.release_nodes(self._state[:-1], nodes, self._kept)
        return released + door.release_nodes(self._state[:-1] - exact, nodes, self._kept)

    def _ends(self, level: int, index: int) -> int:
        return (index + 1) * self.base**level

    def _check_counts(self) -> None:
        require(is_array(self._state, "i", self.n_counters + 1) and self._are_counts(self._state[:-1], *self._kept.values()))
        require(0 <= self.n_steps <= self.horizon and len(self._past) == 3)
        start, exact, released = self._past
        require(is_integer(start, 0, self.n_steps) and (self._are_counts(exact, released) if start else self._past == (0, 0, 0)))
        require((self.base, self.n_levels) == self._shape(max(1, self.horizon - start)))
        require(all(0 <= level < self.n_levels and 0 <= index <= self.horizon for level, index in self._kept))
        # Later events get noise that no file knows: a counter that continues keeps the noise of nodes that are over, and no other.
        require(all(self._ends(*node) <= self.n_steps - start for node in self._ahead()._kept))

    def _snapshot(self) -> dict[str, Any]:
        return {**super()._snapshot(), "_state": self._state.copy(), "_kept": dict(self._kept)}


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
        The most that other events of one time change the counts of the cells, in L1 norm: 2 where an event moves to another
        cell, 1 where one comes or goes.
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

    def _shape(self, horizon: int) -> tuple[int, int]:
        return 2, horizon.bit_length()

    def _nodes(self, t: int) -> Iterator[tuple[int, int, int]]:
        for level in range(t.bit_length()):
            if t >> level & 1:
                yield level, (t >> level) - 1, 1


@savable
class KaryCounter(TreeCounter):
    """The k-ary tree mechanism with subtraction: counts by the balanced base-k digits of time. The default for pure epsilon.

    A count is that up to a round time, plus a few blocks after it, or minus a few blocks before it, whose noise is drawn ahead of
    time.

    Parameters
    ----------
    horizon : int
        Number of time steps.
    epsilon : float, default=1.0
        Cost of the whole stream, where the events of one time change.
    n_counters : int, default=1
        Cells that are counted side by side.
    sensitivity : int, default=1
        The most that other events of one time change the counts of the cells, in L1 norm: 2 where an event moves to another
        cell, 1 where one comes or goes.
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

    *Copies.* A node that is subtracted is used before it is over. Were its noise to travel with a copy, two copies that go on with
    different events would differ by exact counts, and were it drawn again, the node would be released twice under one charge. So a
    counter that resumes ends its tree: the value of that time is a constant from then on, and a fresh tree, over what is left of the
    horizon, counts what follows. Events before are in the old tree only, whose noise is not drawn again; events after are in the new
    one only. Each continuation costs epsilon on what it sees, and two differ by independent noise. The price is the noise of one value
    for each time that it resumes.

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

    def _shape(self, horizon: int) -> tuple[int, int]:
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

    def followed_by(self, count: Any) -> Self:
        """Return a copy in which one more count is taken in, and nothing is released."""
        counts = as_counts(count, self.n_counters, MAX_COUNT)
        twin = self._shallow_copy()
        twin._state = self._state + np.append(counts, 1)
        return twin

    def _ahead(self) -> Self:
        ahead = self._shallow_copy()
        if self.n_steps > self._past[0]:
            ahead._kept = {}
            ahead.base, ahead.n_levels = self._shape(max(1, self.horizon - self.n_steps))
        return ahead

    def _attach(self, door: ContinualRelease, before: Self) -> None:
        super()._attach(door, before)
        if self.n_steps > self._past[0]:
            # The noise of this time was settled when the copy was made. Where it was not, nobody has seen it, and it is drawn now.
            released = before._released(door.part(before._noise(), self._loss(), before._counter_sensitivity(door.neighboring)))
            self._past = (self.n_steps, self._state[:-1].copy(), released)


def add_one(counts: np.ndarray, cell: int) -> None:
    """Count an event, and its time in the last entry, in place: both by one operation, and without a copy of the other cells."""
    counts[cell :: len(counts) - 1 - cell] += 1  # just these two


def sum_cells(cells: np.ndarray, n_counters: int) -> np.ndarray:
    """Return the counts of events of one cell each, and their number as the last entry."""
    counts = np.bincount(cells, minlength=n_counters + 1)
    counts[-1] = len(cells)
    return counts
