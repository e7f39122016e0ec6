"""Counters that release something at each step, and one of them: Honaker's, kept for comparison."""

from abc import abstractmethod

import numpy as np

from skdpsynth._change import Change
from skdpsynth._locks import lock_of
from skdpsynth._state import fits, is_array, require
from skdpsynth.continual._base import ContinualCounter, change_of, one_hot
from skdpsynth.persistence import savable


class StepByStep(ContinualCounter):
    """A counter that releases something at each step. Its state is a tuple, of which nothing is changed in place."""

    def _take(self, x: np.ndarray) -> None:
        self._check(1)
        self._state = self._after([x])

    def _take_cells(self, cells: np.ndarray) -> None:
        self._check(len(cells))
        self._state = self._after([one_hot(cell, self.n_counters) for cell in cells])

    def _after(self, steps: list[np.ndarray]) -> tuple:
        """Return the state after some steps. What is drawn for steps that are interrupted never leaves."""
        state = self._state
        for x in steps:
            state = self._next(state, x)
        return state

    @abstractmethod
    def _next(self, state: tuple, x: np.ndarray) -> tuple:
        """Return the state after one step."""


@savable
class HonakerCounter(StepByStep):
    """The binary mechanism with Honaker's refinement: a block's count is estimated from its halves' too.

    Parameters
    ----------
    horizon : int
        Number of time steps.
    epsilon : float, default=1.0
        Cost of the whole stream, under the change of what arrives at one time.
    n_counters : int, default=1
        Cells that are counted side by side.
    sensitivity : int, default=1
        By how much changing what arrives at one time may change the cells' counts, in L1 norm: 2 where an event moves to another
        cell, 1 where one comes or goes.
    accountant : PrivacyAccountant, default=None
        Charged epsilon at once. None: one of its own.
    random_state : int, RandomState or None, default=None
        None: secure noise.
    name : str, default=None
        For the ledger; counters that share a seed need different ones.

    Attributes
    ----------
    value : ndarray of shape (n_counters,), float
        Released counts so far.
    n_steps : int
        Time steps so far.

    See Also
    --------
    BinaryCounter : The same noise without the refinement.
    KaryCounter : Less error for pure budgets.

    Notes
    -----
    *Privacy.* Releases the noisy count of every block of the binary mechanism; the estimate is a function of those. Its variance is
    .55 to .65 of `BinaryCounter`'s, but more than `KaryCounter`'s. It counts a step at a time.

    *Copies.* A block is released when it is over. So two copies that go on with different events share the noise of blocks that hold
    the same events, and no other.

    References
    ----------
    .. [1] Honaker (2015), "Efficient use of differentially private binary trees".

    Examples
    --------
    >>> from skdpsynth.continual import HonakerCounter
    >>> counter = HonakerCounter(100, epsilon=5.0)
    >>> counter.update(1)
    >>> counter.value.shape
    (1,)
    """

    def _prepare(self) -> None:
        self._state = 0, (), ()  # steps; then, by level, of the blocks in the expansion of the time: exact counts and estimates, or None

    def _change(self, relation: str = "replace_one") -> Change:
        """The vector of all blocks, of every cell.

        A step is in one block of each level that ends within the horizon, of which there are at most horizon.bit_length(); and a block
        changes by as much as the counts of that time do.
        """
        s, levels = self.sensitivity, self.horizon.bit_length()
        return change_of(relation, levels * s, levels * s * s, s, "tree_over_time", base=2, levels=levels, sensitivity=s)

    def _check_counted(self) -> None:
        require(fits(self._state, tuple[int, tuple, tuple]) and 0 <= self.n_steps <= self.horizon)
        n_steps, exacts, estimates = self._state
        require(len(exacts) == len(estimates) == int(n_steps).bit_length())
        for level, (exact, estimate) in enumerate(zip(exacts, estimates, strict=True)):
            if n_steps >> level & 1:
                require(self._are_counts(exact) and is_array(estimate, "f", self.n_counters))
            else:
                require(exact is None and estimate is None)

    @property
    def n_steps(self) -> int:
        """Time steps so far."""
        return int(self._state[0])

    def _next(self, state: tuple, x: np.ndarray) -> tuple:
        t, exacts, estimates = state[0] + 1, list(state[1]), list(state[2])
        exact, estimate, level, variance = x, None, 0, 0.0
        while True:
            noisy = self._door.release(exact, f"{self.name}: block of level {level} that ends at {t}").astype(float)
            # Inverse variances: a block's own noise has 1, the sum of its halves twice the variance of one.
            weight = 1.0 if estimate is None else 2 * variance / (1 + 2 * variance)
            estimate = noisy if estimate is None else weight * noisy + (1 - weight) * estimate
            variance = weight
            if level == len(estimates):
                estimates.append(None)
                exacts.append(None)
            if estimates[level] is None:
                estimates[level], exacts[level] = estimate, exact
                return t, tuple(exacts), tuple(estimates)
            exact, estimate = exact + exacts[level], estimate + estimates[level]
            estimates[level] = exacts[level] = None
            level += 1

    @property
    def value(self) -> np.ndarray:
        """Released counts so far, shape (n_counters,), float."""
        with lock_of(self):
            return sum((estimate for estimate in self._state[2] if estimate is not None), np.zeros(self.n_counters))
